# SPDX-License-Identifier: Apache-2.0
"""Results that a program reads: `stoker bench diff`, `fleet` and `roof` as JSON, as docs/bench.schema.json has them, and files that are none."""
import json
import pathlib
import subprocess

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCHEMA = json.loads((ROOT / "docs/bench.schema.json").read_text())
RUN = ROOT / "test/data/bench/run.json"
FINE, FINDING, USAGE = 0, 1, 2


@pytest.fixture
def compare(stoker):
    """compare(WORDS): the exit code, and the JSON or what was said on stderr."""

    def run(*words):
        done = subprocess.run([stoker, "bench", *words, "--json"], capture_output=True, text=True, timeout=60)
        assert bool(done.stdout) != bool(done.stderr)
        if not done.stdout:
            return done.returncode, done.stderr
        told = json.loads(done.stdout)
        jsonschema.validate(told, SCHEMA)
        return done.returncode, told

    return run


@pytest.fixture
def changed(tmp_path):
    """changed(NAME, CHANGE): a file with a healthy run, which CHANGE(run) alters."""

    def make(name, change=lambda run: None):
        run = json.loads(RUN.read_text())
        run["measures"] = [m for m in run["measures"] if m["gpu"] == 0 and m["peer"] is None]
        run["gpus"], run["errors"], run["findings"] = run["gpus"][:1], [], []
        change(run)
        (tmp_path / name).write_text(json.dumps(run))
        return tmp_path / name

    return make


def slow_down(run, measure="memory.read", factor=0.9):
    for m in run["measures"]:
        if m["measure"] == measure:
            m["samples"] = [factor * sample for sample in m["samples"]]


def test_diff_of_the_same(compare, changed):
    code, told = compare("diff", changed("a"), changed("b"))
    assert (code, told["worse"]) == (FINE, 0) and told["before"] == told["after"]
    assert {(change["kind"], change["worse_percent"], change["severity"]) for change in told["changes"]} == {("changed", 0, None)}


def test_diff_of_a_slower_one(compare, changed):
    code, told = compare("diff", changed("a"), changed("b", slow_down))
    (change,) = [change for change in told["changes"] if change["severity"]]
    assert code == FINDING and change["measure"] == "memory.read" and change["worse_percent"] == pytest.approx(10)
    assert change["after"] == pytest.approx(0.9 * change["before"]) and change["unit"] == "GB/s"
    _, back = compare("diff", changed("b", slow_down), changed("a"))
    assert {change["worse_percent"] < 0 for change in back["changes"] if change["measure"] == "memory.read"} == {True}


def test_diff_of_what_came_and_went(compare, changed):
    """A value, a GPU, and a clock that nobody knows."""

    def other(run):
        run["gpus"][0].update(index=5, uuid="GPU-other")

    def lose(run):
        run["measures"] = [m for m in run["measures"] if m["measure"] != "l2.read"]

    code, told = compare("diff", changed("a"), changed("b", other))
    assert code == FINDING and told["worse"] >= 1
    assert [(c["kind"], c["before_gpu"], c["after_gpu"]) for c in told["changes"]] == [("appeared", None, 0), ("vanished", 0, None)]
    code, told = compare("diff", changed("a"), changed("b", lose))
    (gone,) = [c for c in told["changes"] if c["kind"] == "vanished"]
    assert code == FINDING and (gone["measure"], gone["after"], gone["worse_percent"]) == ("l2.read", None, None) and gone["before"] > 0


def test_fleet(compare, changed):
    files = [changed(f"{i}.json", lambda run, i=i: (run.update(node=f"n{i}"), slow_down(run, factor=0.8 if i == 3 else 1))) for i in range(5)]
    code, told = compare("fleet", *files)
    assert (code, told["not_fit"], len(told["nodes"])) == (FINDING, 1, 5)
    assert [told["nodes"][0][key] for key in ("node", "verdict")] == ["n3", "not-fit"] and told["nodes"][0]["findings"][0]["compared_with"] == "fleet"
    (row,) = [row for row in told["measures"] if row["measure"] == "memory.read"]
    assert row["least"] == pytest.approx(0.8 * row["median"]) and (row["nodes"], row["gpus"], row["power_limit_w"]) == (5, 5, None)
    assert [row["power_limit_w"] for row in told["measures"] if row["measure"] == "clock"] == [700]
    code, told = compare("fleet", *files[:3])
    assert (code, told["not_fit"], {node["verdict"] for node in told["nodes"]}) == (FINE, 0, {"fit"})


def test_files_that_are_no_results(compare, changed, tmp_path):
    good, bad, diff = changed("good"), tmp_path / "bad", tmp_path / "diff"
    bad.write_text("{}")
    diff.write_text(json.dumps(compare("diff", good, good)[1]))
    for words, name in ((("diff", good, bad), bad), (("diff", tmp_path / "none", good), tmp_path / "none"), (("fleet", good, bad), bad),
                        (("fleet", diff), diff), (("diff", good, good, good), "two files"), (("fleet",), "takes results")):
        code, said = compare(*words)
        assert code == USAGE and str(name) in said, said


def test_roof(bench_node, compare, tmp_path):
    """The file is what was printed; it has the roofs beside the measures, and can be compared as others can."""
    file = tmp_path / "roof.json"
    result = bench_node(count=2).bench("roof", "-o", str(file))
    run = result.run
    jsonschema.validate(run, SCHEMA)
    assert result.code == FINE and json.loads(file.read_text()) == run
    assert [roof["gpu"] for roof in run["roof"]] == [0, 1]
    medians = {(m["gpu"], m["measure"]): m["median"] for m in run["measures"]}
    for roof in run["roof"]:
        assert roof["memory_gbs"] == medians[roof["gpu"], "memory.read"] and 80 < roof["memory_share_percent"] < 100
        for ceiling in roof["ceilings"]:
            assert ceiling["value"] == medians[roof["gpu"], ceiling["measure"]]
            assert ceiling["ridge_op_per_byte"] == pytest.approx(1e3 * ceiling["value"] / roof["memory_gbs"])
            assert ceiling["l2_ridge_op_per_byte"] == pytest.approx(1e3 * ceiling["value"] / roof["l2_gbs"])
    code, told = compare("diff", file, file)
    assert code == FINE and told["before"]["rung"] == "roof"
    assert "roof" not in bench_node(count=1).bench("memory", "--gpu", "0").run
