# SPDX-License-Identifier: Apache-2.0
"""Jobs with planted causes: a few of those that `make bench-verdicts` runs."""
import re
import subprocess

import planted
import pytest

JOBS = planted.jobs()
FOUND = ("loader", "collate", "item", "allocator", "exposed-copy", "low-occupancy", "python-between", "loader-xla", "low-bus", "scheduler",
         "misaligned", "foreach", "exposed-communication", "few-batches", "allocator+loader", "foreach+fp32")
LATE = {
    "slow-gpu": ("rank", "rank 3", "computes_late"),
    "slow-loader": ("rank", "rank 5", "host_late"),
    "slow-node": ("host", "ranks 8-15 (host node1)", "computes_late"),
    "slow-rail": ("rail", "ranks 3, 11 (number 3 of each 8: a rail)", "transfers_late"),
    "slow-stage": ("stage", "ranks 4-5 (a pipeline stage)", "computes_late"),
    "two-slow-gpus": ("ranks", "ranks 2, 6", "computes_late"),
}
CLEAN = ("clean-ddp", "clean-xla", "jitter", "warm-up", "late-start", "clean-pipeline", "clean-serve")


@pytest.mark.parametrize("name", FOUND)
def test_the_cause_comes_first_with_its_gain(stoker, tmp_path, name):
    result = planted.check_job(stoker, JOBS[name], tmp_path)
    assert result["right"] and result["found"] == result["causes"], result
    assert abs(result["said"] - result["true"]) <= 0.2 * result["true"], result


@pytest.mark.parametrize("name", LATE)
def test_late_ranks_are_named_together_with_their_gain(stoker, tmp_path, name):
    result = planted.check_job(stoker, JOBS[name], tmp_path)
    late = result["straggler"]
    assert result["right"] and (late["group"], late["label"], late["cause"]) == LATE[name], result
    assert abs(late["percent_of_step"] - result["true"]) <= 0.05 * result["true"], result
    assert name == "slow-rail" or 0.8 < late["late_step_ns"] / result["saved_ns"] < 1.25, late
    assert late["group"] == "rank" or late["alone_percent"] < 0.1 * late["percent_of_step"], late


@pytest.mark.parametrize("name", CLEAN)
def test_nothing_is_said_where_nothing_is_wrong(stoker, tmp_path, name):
    result = planted.check_job(stoker, JOBS[name], tmp_path)
    assert not result["false"], result


def test_a_job_is_the_same_by_its_seed():
    one, other = (planted.simulate(JOBS["clean-fsdp"])[3].events for _ in range(2))
    assert one == other and one != planted.simulate(planted.replace(JOBS["clean-fsdp"], seed=2))[3].events


def test_a_pipeline_of_few_batches_waits_for_its_stages(stoker, tmp_path):
    result = planted.check_job(stoker, JOBS["few-batches"], tmp_path)
    assert result["ids"] == ["pipeline-bubble"], result


def test_what_occurs_once_is_a_note(stoker, tmp_path):
    planted.write_job(JOBS["late-start"], tmp_path)
    report = planted.verdicts_of(stoker, tmp_path)
    assert report["straggler"]["rank"] is None and report["straggler"]["ranks"] == []
    assert any(note.startswith("rank 3 began 2") and note.endswith("ms late once: not counted") for note in report["notes"])
    assert sum("(waiting for other ranks)" in note for note in report["notes"]) == 7


@pytest.mark.parametrize("name, groups, text", [
    ("slow-loader-and-gpu", [("rank 5", "host_late", "data_loading"), ("rank 2", "computes_late", None)],
     r"late rank +a step +by\n +5 +5\.6\d ms +host: data loading\n +2 +3\.2\d ms +compute\n"),
    ("slow-loader-and-node", [("rank 3", "host_late", "data_loading"), ("ranks 8-15 (host node1)", "computes_late", None)],
     r"late rank +a step +by\n +3 +5\.6\d ms +host: data loading\n( +(8|9|1[0-5]) +2\.6\d ms +compute\n){8}")])
def test_two_groups_of_late_ranks_are_two_lines(stoker, tmp_path, name, groups, text):
    result = planted.check_job(stoker, JOBS[name], tmp_path)
    late = [result["straggler"], *result["more"]]
    assert [(g["label"], g["cause"], g["host_cause"]) for g in late] == groups
    assert abs(sum(g["percent_of_step"] for g in late) - result["true"]) <= 0.02 * result["true"], result
    assert abs(result["said"] - result["true"]) <= 0.02 * result["true"] and result["ids"] == ["data-loading", "straggler"], result
    assert all(0 < g["percent_of_step"] <= g["cost_percent"] + 1e-6 for g in late), late
    report = subprocess.run([stoker, "trace", tmp_path], capture_output=True, text=True, check=False).stdout
    assert re.search(text, report), report
    assert all(f"Straggler{'s' if 'ranks' in label else ''}: {label}, " in report for label, *_ in groups), report


def test_a_slow_loader_of_one_rank_is_told_once(stoker, tmp_path):
    result = planted.check_job(stoker, JOBS["slow-loader"], tmp_path)
    assert result["ids"] == ["data-loading"] and abs(result["said"] - result["true"]) <= 0.01 * result["true"], result
    verdict = planted.verdicts_of(stoker, tmp_path)["verdicts"][0]
    assert verdict["rank"] == 5 and "; the other ranks wait for rank 5: 5.60 ms late per step" in verdict["evidence"]


def test_each_rank_says_by_what_it_is_late(stoker, tmp_path):
    planted.write_job(JOBS["slow-loader"], tmp_path)
    report = planted.verdicts_of(stoker, tmp_path)
    late, other = report["rank_times"][5], report["rank_times"][0]
    assert report["straggler"]["host_cause"] == "data_loading"
    assert 5e6 < late["late_idle_ns"] < 6e6 and abs(late["late_compute_ns"]) < 1e5 and abs(other["late_idle_ns"]) < 1e5
