# SPDX-License-Identifier: Apache-2.0
"""What counts as a step where no ProfilerStep is there, and what is near and is none."""
import pytest

import build
import compare


def trace_with(*ranges):
    """Ranges (name, start, end in us, thread) around a kernel each."""
    trace = build.Trace()
    for name, start, end, *tid in ranges:
        trace.host("user_annotation", name, start * 1000, (end - start) * 1000, *tid)
        trace.launch(start * 1000 + 100, "k", start * 1000 + 5_000, 2_000)
    return trace


def steps(stoker, tmp_path, *ranges):
    path = trace_with(*ranges).write(tmp_path / "t.json")
    rank = compare.report(stoker, path)["ranks"][0]
    assert compare.own_differences(rank, path) == []
    return [(step["name"], step["number"]) for step in rank["steps"]]


@pytest.mark.parametrize("name", ["step %d", "iteration %d", "Iteration #%d", "iter%d", "train_step_%d", "Training Step: %d",
                                  "train %d", "global_step=%d", "batch %d", "[pl] Step #%d"])
def test_numbered_ranges_are_steps(stoker, tmp_path, name):
    found = steps(stoker, tmp_path, (name % 3, 10, 40), (name % 4, 50, 80), (name % 9, 80, 99))
    assert found == [(name % 3, 3), (name % 4, 4), (name % 9, 9)]


@pytest.mark.parametrize("names", [
    ("step 1",), ("step", "step"), ("step one", "step two"), ("layer 1", "layer 2"), ("timestep 1", "timestep 2"),
    ("step 1/9", "step 2/9"), ("step 1.5", "step 2.5"), ("step 1 forward", "step 2 forward"), ("2step 1", "2step 2"),
    ("step 2", "step 1"), ("step 1", "step 1"), ("step 1", "step 2", "step 1"), ("stepper 1", "stepper 2"),
    ("step 1111111111111111", "step 1111111111111112"), ("epoch 1", "epoch 2")])
def test_what_is_near_is_none(stoker, tmp_path, names):
    assert steps(stoker, tmp_path, *[(name, 10 + 40 * i, 40 + 40 * i) for i, name in enumerate(names)]) == []


def test_other_kinds_of_events_are_none(stoker, tmp_path):
    trace = trace_with()
    for number in range(3):
        trace.op(f"step {number}", number * 10_000, 5_000)
        trace.host("python_function", f"train.py(3): step {number}", number * 10_000, 5_000, 2)
        trace.host("some category", f"step {number}", number * 10_000, 5_000, 3)
    trace.gpu("k", 1_000, 1_000)
    assert compare.report(stoker, trace.write(tmp_path / "t.json"))["ranks"][0]["steps"] == []


def test_overlapping_ones_are_none(stoker, tmp_path):
    assert steps(stoker, tmp_path, ("step 1", 10, 40), ("step 2", 30, 60)) == []
    assert steps(stoker, tmp_path, ("step 1", 10, 40), ("step 2", 38, 60)) == [("step 1", 1), ("step 2", 2)]  # cut to 2 us


def test_profiler_steps_come_first(stoker, tmp_path):
    found = steps(stoker, tmp_path, ("step 1", 10, 100), ("step 2", 110, 200), ("ProfilerStep#7", 20, 30))
    assert found == [("ProfilerStep#7", 7)]


def test_of_several_those_that_cover_most(stoker, tmp_path):
    found = steps(stoker, tmp_path, ("iteration 1", 10, 100), ("micro_step 1", 20, 40), ("micro_step 2", 50, 80),
                  ("iteration 2", 110, 200), ("step 1", 10, 90, 5), ("step 2", 110, 190, 5))
    assert [name for name, _ in found] == ["iteration 1", "iteration 2"]


@pytest.mark.parametrize("words", [["--step", "2"], ["--step", "step 2"], ["--step", "last"]], ids=" ".join)
def test_they_can_be_chosen_and_cut(trace, tmp_path, words):
    path = trace_with(("step 1", 10, 40), ("step 2", 50, 80), ("step 3", 80, 99)).write(tmp_path / "t.json")
    rank = trace.report(path, *words)["ranks"][0]
    assert rank["devices"][0]["operation_count"] == 1
    assert trace("cut", path, "-o", tmp_path / "c.json", *words).returncode == 0
    assert trace.report(tmp_path / "c.json")["ranks"][0]["devices"] == rank["devices"]
