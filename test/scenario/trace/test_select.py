# SPDX-License-Identifier: Apache-2.0
"""Choosing a part: to cut and then to analyse is to analyse with the options; and what belongs to a window is what the
documentation says."""
import json
import random

import pytest
from trace_kit import Profile, busy_profile, forget, strict_json

SEEDS = range(4)


def windows(seed, events):
    """Windows of absolute time: arbitrary ones, and such whose edges are starts and ends of events."""
    dice = random.Random(seed)
    edges = [e["ts"].ns for e in events if e["ph"] == "X"]
    edges += [e["ts"].ns + e["dur"].ns for e in events if e["ph"] == "X"]
    for _ in range(6):
        yield sorted(dice.sample(sorted(set(edges)), 2))
    for _ in range(4):
        yield sorted(dice.randint(min(edges), max(edges)) for _ in range(2))


def cut_and_analyse(trace, path, small, *words):
    done = trace("cut", path, "-o", small, *words)
    assert done.returncode == 0, done.stderr
    strict_json(small.read_text())
    return forget(trace.report(small))


@pytest.mark.parametrize("seed", SEEDS)
def test_cut_then_analyse_is_analyse_with_a_window(trace, tmp_path, seed):
    profile = busy_profile(seed)
    path = profile.write(tmp_path / "t.json")
    seen = 0
    for first, last in windows(seed, profile.events):
        words = ["--from", first, "--to", last + 1]
        direct = forget(trace.report(path, *words))
        assert cut_and_analyse(trace, path, tmp_path / "cut.json", *words) == direct, words
        seen += sum(device["operation_count"] for rank in direct["ranks"] for device in rank["devices"])
    assert seen > 10


@pytest.mark.parametrize("words", [["--step", "1"], ["--step", "last"], ["--step", "1-2"], ["--step", "ProfilerStep#0"],
                                   ["--stream", "20"], ["--stream", "7,9-30"], ["--device", "0"], ["--device", "0-3"],
                                   ["--no-python"], ["--no-cpu"], ["--from", "100us"], ["--to", "0.4ms"],
                                   ["--from", "50us", "--to", "450us", "--stream", "7", "--no-python"],
                                   ["--step", "1-3", "--from", "200us"], ["--rank", "0"]], ids=" ".join)
def test_cut_then_analyse_is_analyse_with_options(trace, tmp_path, words):
    path = busy_profile(7).write(tmp_path / "t.json")
    direct = forget(trace.report(path, *words))
    assert cut_and_analyse(trace, path, tmp_path / "cut.json", *words) == direct


def test_a_part_without_gpu_work_is_no_profile_without(trace, tmp_path):
    path = busy_profile(7).write(tmp_path / "t.json")
    for words in (["--device", "63"], ["--stream", "999"]):
        text = " ".join(trace(path, *words).stdout.decode().split())
        assert "No GPU operation in this part of the profile." in text and "Was the profiler started" not in text, words
        assert "look at another" in text, words
    text = " ".join(trace(Profile().write(tmp_path / "none.json")).stdout.decode().split())
    assert "No GPU operation in this profile." in text


def test_cutting_a_generated_profile(trace, tmp_path, generate):
    path = generate(tmp_path / "t.json.gz", "--size", 6, "--python", "--memory")
    for words in (["--step", "4"], ["--from", "20ms", "--to", "33ms"]):
        direct = forget(trace.report(path, *words))
        assert direct["ranks"][0]["devices"][0]["operation_count"] > 100
        assert cut_and_analyse(trace, path, tmp_path / "cut.json", *words) == direct


def test_what_belongs_to_a_window(trace, tmp_path):
    """Window [100, 200) us: an operation that starts before it does not belong to it, one that starts at its first
    nanosecond does, one at its end does not; the launch of one that does comes along however early it was."""
    profile = Profile()
    profile.launched("before", 10_000, 99_999, 50_000, 1)
    profile.launched("first", 20_000, 100_000, 10_000, 2, stream=8)
    profile.launched("last", 110_000, 199_999, 90_000, 3, stream=9)
    profile.launched("after", 120_000, 200_000, 10_000, 4, stream=10)
    profile.op("ends at the edge", 50_000, 50_000)
    profile.op("reaches in", 50_000, 50_001)
    profile.op("begins at the end", 200_000, 1_000)
    path = profile.write(tmp_path / "t.json")
    rank = trace.report(path, "--from", 100_000, "--to", 200_000)["ranks"][0]
    assert sorted(kernel["name"] for kernel in rank["kernels"]) == ["first", "last"]
    assert (rank["launch"]["linked"], rank["launch"]["unlinked"]) == (2, 0)
    assert [op["name"] for op in rank["operators"]] == ["reaches in"]
    assert trace("cut", path, "--from", 100_000, "--to", 200_000, "-o", tmp_path / "c.json").returncode == 0
    cut = strict_json((tmp_path / "c.json").read_text())["traceEvents"]
    assert sorted(e["name"] for e in cut if e["ph"] == "X") == ["cudaLaunchKernel", "cudaLaunchKernel", "cudaLaunchKernel",
                                                                 "first", "last", "reaches in"]
    assert sorted((e["ph"], e["id"]) for e in cut if e["ph"] in "sf") == [("f", 2), ("f", 3), ("s", 2), ("s", 3), ("s", 4)]


def test_times_count_from_the_first_event(trace, tmp_path):
    profile = Profile().launched("a", 5_000_000, 5_010_000, 1000, 1).launched("b", 6_000_000, 6_010_000, 1000, 2)
    path = profile.write(tmp_path / "t.json")
    for word in ("1ms", "0.001s", "1000us", "1000000ns", "0.9999ms"):
        assert [k["name"] for k in trace.report(path, "--from", word)["ranks"][0]["kernels"]] == ["b"], word
    assert [k["name"] for k in trace.report(path, "--to", "1ms")["ranks"][0]["kernels"]] == ["a"]
    assert [k["name"] for k in trace.report(path, "--to", 6_010_000)["ranks"][0]["kernels"]] == ["a"]


@pytest.mark.parametrize("words, said", [
    (["--from", "soon"], "--from: 'soon' is no time"),
    (["--to", "1.5"], "--to: '1.5' is no time"),
    (["--from", "2s", "--to", "1s"], "not before"),
    (["--rank", "a"], "--rank: 'a'"),
    (["--stream", "7-3"], "--stream: '7-3'"),
    (["--filter", "("], "--filter '('"),
    (["--csv", "kernel"], "did you mean 'kernels'"),
    (["--csv", "kernels", "--json"], "--json and --csv"),
])
def test_wrong_words(trace, tmp_path, words, said):
    path = busy_profile(1).write(tmp_path / "t.json")
    done = trace(path, *words)
    assert done.returncode == 2 and said in done.stderr.decode() and done.stdout == b""


def test_a_step_that_is_not_there(trace, tmp_path):
    done = trace(busy_profile(1).write(tmp_path / "t.json"), "--step", "77")
    assert done.returncode == 3
    assert "no step '77'; the profile has 4, from 'ProfilerStep#0' to 'ProfilerStep#3'" in done.stderr.decode()
    done = trace(Profile().launched("a", 0, 10_000, 1000, 1).write(tmp_path / "n.json"), "--step", "1")
    assert done.returncode == 3 and "no steps" in done.stderr.decode()


def test_filter_narrows_tables_and_no_sums(trace, tmp_path):
    path = busy_profile(1).write(tmp_path / "t.json")
    whole, some = trace.report(path)["ranks"][0], trace.report(path, "--filter", "gemm|inner")["ranks"][0]
    assert {k["name"] for k in some["kernels"]} == {"sgemm_128x64"}
    assert {o["name"] for o in some["operators"]} == {"aten::inner"}
    assert some["devices"] == whole["devices"] and some["gaps"] == whole["gaps"]


def test_the_report_says_what_was_chosen(trace, tmp_path):
    done = trace(busy_profile(1).write(tmp_path / "t.json"), "--step", "1", "--stream", "7")
    assert "only step 1, stream 7" in done.stdout.decode()
