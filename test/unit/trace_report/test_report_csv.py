# SPDX-License-Identifier: Apache-2.0
"""CSV tables as another program reads them: rows of equal length, the values of the JSON, any name intact."""
import csv
import io
import re

import pytest

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SOURCE = (ROOT / "src/service/report/trace_fields.c").read_text(encoding="utf-8")
TABLES = re.findall(r'"(\w+)"', re.search(r"trace_csv_tables\[\] = \{(.*?)NULL", SOURCE, re.S)[1])
PLAIN = ["devices", "kernels", "copies", "operators", "shapes", "modules", "origins", "inference", "decode_gaps", "calls", "annotations", "queues", "queue_points", "losses"]


@pytest.fixture(scope="module")
def table(printed):
    """table(sample, name): rows as dictionaries."""

    def read(sample, name):
        raw = printed(sample, "csv:" + name)
        assert raw.endswith(b"\r\n") and b"\0" not in raw
        rows = list(csv.reader(io.StringIO(raw.decode("utf-8"), newline=""), strict=True))
        assert {len(r) for r in rows} == {len(rows[0])}, name
        assert len(set(rows[0])) == len(rows[0]) and all(re.fullmatch(r"[a-z0-9_]+", c) for c in rows[0]), rows[0]
        return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]

    return read


def as_cell(value):
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "x".join(map(str, value))
    return value if isinstance(value, str) else float(value)


def same(cell, value):
    wanted = as_cell(value)
    return float(cell) == wanted if isinstance(wanted, float) else cell == wanted


def test_the_list_of_tables_was_found():
    assert len(TABLES) > 20 and "kernels" in TABLES


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("sample", ["small", "empty", "hostile"])
def test_every_table_is_read(table, sample, name):
    rows = table(sample, name)
    assert rows or sample == "empty" or name == "more_stragglers"  # of more ranks than these have


def test_all_groups_of_late_ranks_are_read(table, report):
    (row,), (wanted,) = table("many", "more_stragglers"), report("many")["more_stragglers"]
    assert row["label"] == wanted["label"] == "rank 2" and same(row["cost_percent"], wanted["cost_percent"])


@pytest.mark.parametrize("sample", ["small", "hostile"])
@pytest.mark.parametrize("name", PLAIN)
def test_values_are_those_of_the_json(table, report, sample, name):
    wanted = [{"rank": r["rank"], **row} for r in report(sample)["ranks"] for row in r[name]]
    rows = table(sample, name)
    assert len(rows) == len(wanted)
    for row, value in zip(rows, wanted, strict=True):
        assert set(row) == set(value)
        assert [k for k in row if not same(row[k], value[k])] == []


def test_steps_have_a_row_per_device(table, report):
    rows, made = table("small", "steps"), report("small")
    step = made["ranks"][1]["steps"][2]
    row = next(r for r in rows if r["rank"] == "1" and r["name"] == step["name"])
    assert int(row["duration_ns"]) == step["duration_ns"]
    assert int(row["busy_ns"]) == step["devices"][0]["busy_ns"]
    assert sum(int(v) for k, v in row.items() if re.fullmatch(r"idle_.+_ns", k)) == int(row["idle_ns"])


def test_causes_are_of_all_ranks_and_of_each(table, report):
    rows, made = table("small", "causes"), report("small")
    everywhere = {r["cause"]: int(r["total_ns"]) for r in rows if not r["rank"]}
    assert everywhere == {c["cause"]: c["total_ns"] for c in made["gaps_by_cause"]}
    each = [int(r["total_ns"]) for r in rows if r["rank"] and r["cause"] == "host_bound"]
    assert len(each) == 2 and sum(each) == everywhere["host_bound"]


def test_gaps_are_split_by_cause(table):
    for row in table("small", "gaps"):
        parts = sum(int(v) for k, v in row.items() if k.startswith("slice_"))
        assert parts == int(row["end_ns"]) - int(row["start_ns"])


@pytest.mark.parametrize("name", ["summary", "kernels", "operators", "modules"])
def test_a_difference_has_tables_too(table, report, name):
    made = report("diff")["diff"]
    wanted = made[name] if name != "summary" else [{k: v for k, v in made.items() if not isinstance(v, list)}]
    rows = table("diff", name)
    assert [[k for k in r if not same(r[k], w[k])] for r, w in zip(rows, wanted, strict=True)] == [[] for _ in wanted]
