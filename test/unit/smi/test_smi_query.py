# SPDX-License-Identifier: Apache-2.0
"""--query-*: what exporters and scripts read."""

import csv
import io
import re

import pytest

ALIASES = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_serial": "serial",
    "gpu_bus_id": "pci.bus_id",
    "clocks.gr": "clocks.current.graphics [MHz]",
    "clocks_throttle_reasons.active": "clocks_event_reasons.active",
    "retired_pages.dbe": "retired_pages.double_bit.count",
}


def table(text):
    """Rows as dictionaries of the header without units."""
    rows = list(csv.reader(io.StringIO(text), skipinitialspace=True))
    names = [re.sub(r" \[.*\]$", "", name) for name in rows[0]]
    assert all(len(row) == len(names) for row in rows[1:])
    return [dict(zip(names, row)) for row in rows[1:]]


def known_fields(node, query="gpu"):
    return re.findall(r'^"([^"]+)"', node.ok(f"--help-query-{query}"), re.M)


def test_every_field_answers(training, boards):
    for node, count in ((training, 3), (boards, 4)):
        fields = known_fields(node)
        assert len(fields) == len(set(fields)) > 50
        rows = table(node.ok("--query-gpu=" + ",".join(fields), "--format=csv"))
        assert len(rows) == count
        for row in rows:
            assert all(re.fullmatch(r"[^\[].*|\[N/A\]|\[Requested functionality has been deprecated\]|", v)
                       for v in row.values()), row


def test_values_belong_together(training):
    fields = "index,count,memory.total,memory.reserved,memory.used,memory.free,power.draw,enforced.power.limit,pstate"
    rows = table(training.ok("--query-gpu=" + fields, "--format=csv,nounits"))
    for i, row in enumerate(rows):
        parts = sum(int(row["memory." + part]) for part in ("reserved", "used", "free"))
        assert abs(parts - int(row["memory.total"])) <= 2
        assert (row["index"], row["count"], row["pstate"]) == (str(i), "3", "P0")
        assert 0 < float(row["power.draw"]) <= float(row["enforced.power.limit"])
    assert int(rows[0]["memory.used"]) > 10000 > int(rows[2]["memory.used"])


def test_units(training):
    fields = "memory.total,power.limit,clocks.max.sm,utilization.gpu,temperature.gpu"
    text = training.ok("--query-gpu=" + fields, "--format=csv", "-i", "0").splitlines()
    assert text[0] == "memory.total [MiB], power.limit [W], clocks.max.sm [MHz], utilization.gpu [%], temperature.gpu"
    assert re.fullmatch(r"81559 MiB, 700\.00 W, 1980 MHz, \d+ %, \d+", text[1])
    bare = training.ok("--query-gpu=" + fields, "--format=csv,noheader,nounits", "-i", "0")
    assert re.fullmatch(r"81559, 700\.00, 1980, \d+, \d+\n", bare)


@pytest.mark.parametrize("asked", ALIASES)
def test_header_has_the_first_name(training, asked):
    assert training.ok("--query-gpu=" + asked, "--format=csv").splitlines()[0] == ALIASES[asked]


def test_what_a_board_lacks(training, boards):
    row = table(training.ok("--query-gpu=fan.speed,utilization.gpu", "--format=csv", "-i", "2"))[0]
    assert row == {
        "fan.speed": "[N/A]",
        "utilization.gpu": "[N/A]",  # MIG
    }
    rows = table(boards.ok("--query-gpu=mig.mode.current,power.draw.average,temperature.memory", "--format=csv"))
    assert [row["temperature.memory"] for row in rows][:2] == ["N/A", "N/A"]
    assert [row["mig.mode.current"] for row in rows] == ["[N/A]", "[N/A]", "Disabled", "Disabled"]
    assert rows[1]["power.draw.average"] == "[N/A]"


def test_timestamp(training):
    text = training.ok("--query-gpu=timestamp", "--format=csv,noheader", "-i", "0")
    assert re.fullmatch(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}\n", text)


def test_unknown_field(training):
    done = training.run("--query-gpu=name,nonsense", "--format=csv")
    assert done.returncode == 2
    assert done.stdout.startswith('Field "nonsense" is not a valid field to query.\n')


@pytest.mark.parametrize("args", [["--query-gpu=name"], ["--query-gpu=name", "--format=noheader"],
                                  ["--query-gpu=name", "--format=csv,xml"], ["--query-nonsense=x", "--format=csv"]])
def test_bad_query(training, args):
    assert training.run(*args).returncode == 2


def test_choosing_gpus(training):
    query = ["--query-gpu=index,uuid,pci.bus_id", "--format=csv,noheader"]
    rows = [line.split(", ") for line in training.ok(*query).splitlines()]
    for index, uuid, bus_id in rows:
        for word in (index, uuid, bus_id, bus_id[4:], bus_id.lower()):
            assert training.ok(*query, "-i", word) == f"{index}, {uuid}, {bus_id}\n"
        assert training.ok(*query, f"--id={index}") == f"{index}, {uuid}, {bus_id}\n"
    assert len(training.ok(*query, "-i", "0,2").splitlines()) == 2


def test_compute_apps(training):
    fields = "timestamp,gpu_name,gpu_bus_id,gpu_serial,gpu_uuid,pid,name,used_memory"
    text = training.ok("--query-compute-apps=" + fields, "--format=csv")
    assert text.splitlines()[0].endswith("pid, process_name, used_gpu_memory [MiB]")
    rows = table(text)
    assert len(rows) == 2
    assert all(int(row["pid"]) > 1 and row["process_name"] == "python" for row in rows)
    assert all(re.fullmatch(r"\d{4,} MiB", row["used_gpu_memory"]) for row in rows)
    assert len({row["gpu_uuid"] for row in rows}) == 2


def test_compute_apps_of_an_idle_node(boards):
    assert boards.ok("--query-compute-apps=pid", "--format=csv") == "pid\n"


def test_retired_pages(make_node):
    node = make_node("page-retirement-t4", at=1000, generation="535")
    assert node.ok("--query-gpu=retired_pages.dbe", "--format=csv,noheader", "-i", "1") == "14\n"


def test_remapped_rows(make_node):
    node = make_node("remap-failure", at=900)
    fields = "remapped_rows.uncorrectable,remapped_rows.pending,remapped_rows.failure"
    rows = node.ok("--query-gpu=" + fields, "--format=csv,noheader").splitlines()
    assert [i for i, row in enumerate(rows) if row != "0, No, No"] == [4]
    assert rows[4].endswith(", Yes, Yes")
