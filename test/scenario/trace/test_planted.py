# SPDX-License-Identifier: Apache-2.0
"""Jobs with planted causes: a few of those that `make bench-verdicts` runs."""
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


def test_each_rank_says_by_what_it_is_late(stoker, tmp_path):
    planted.write_job(JOBS["slow-loader"], tmp_path)
    report = planted.verdicts_of(stoker, tmp_path)
    late, other = report["rank_times"][5], report["rank_times"][0]
    assert report["straggler"]["host_cause"] == "data_loading"
    assert 5e6 < late["late_idle_ns"] < 6e6 and abs(late["late_compute_ns"]) < 1e5 and abs(other["late_idle_ns"]) < 1e5
