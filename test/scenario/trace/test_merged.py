# SPDX-License-Identifier: Apache-2.0
"""Ranks that were merged into one file come out as they do from files of their own, where their marks are plain."""
import gzip
import json

import pytest

import build
import compare
from test_properties import told
from trace_kit import OF_THE_FILE, differences, forget

OWN = {"file", "rank", "rank_known", "notes", "world_size", "backend"}  # what a rank's own file says otherwise
THE_FILE = OF_THE_FILE | OWN


def in_front(word):
    return lambda rank, pid: f"[{word % rank}] {pid}"


def named(traces, words="rank %d"):
    """Numbers of processes that differ from rank to rank, and names for them."""
    mark = lambda rank, pid: 1_000_000 * (rank + 1) + pid  # noqa: E731
    whole = build.merged(traces, mark)
    whole.events = [event for event in whole.events if event.get("name") != "process_name"]
    for rank, trace in enumerate(traces):
        for pid in sorted({event["pid"] for event in trace.events}):
            whole.events.append({"ph": "M", "name": "process_name", "pid": mark(rank, pid), "tid": 0,
                                 "args": {"name": words % rank}})
    return whole


FORMS = {
    "sglang": lambda traces: build.merged(traces, in_front("TP%02d")),
    "rank": lambda traces: build.merged(traces, in_front("rank%d")),
    "named": named,
    "named otherwise": lambda traces: named(traces, "RANK %d - GPU"),
    "named with a host": lambda traces: named(traces, "[rank%d] python"),
}


def several(folder, traces, *words):
    """The report of the ranks in files of their own."""
    paths = []
    for rank, trace in enumerate(traces):
        trace.rank = rank
        paths.append(trace.write(folder / f"rank{rank}.json"))
        trace.rank = None
    return paths


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(4))
def test_each_rank_is_what_its_own_file_gives(stoker, tmp_path, form, seed):
    traces = build.random_job(seed, 3)
    paths = several(tmp_path, traces)
    whole = FORMS[form](traces).shuffled(seed)
    path = whole.write(tmp_path / ("merged.json.gz" if seed % 2 else "merged.json"))
    for threads in (1, 3):
        report = compare.report(stoker, "--threads", threads, path)
        assert [rank["rank"] for rank in report["ranks"]] == [0, 1, 2]
        for rank, own in zip(report["ranks"], paths):
            assert compare.own_differences(rank, own) == []
        assert any("holds 3 ranks" in note and "rank 2 is '" in note for note in report["notes"])
        split = told(stoker, *paths)
        assert differences(forget(told(stoker, path), OWN), forget(split, OWN)) == []
    assert sum(rank["events"] for rank in report["ranks"]) <= len(whole.events)


@pytest.mark.parametrize("form", ["sglang", "named"])
@pytest.mark.parametrize("words", [["--from", "1100us", "--to", "2300us"], ["--rank", "1", "--step", "2"], ["--rank", "1"],
                                   ["--rank", "0,2", "--from", "1200us"], ["--rank", "2", "--no-cpu"],
                                   ["--from", "1010us", "--to", "1500us", "--stream", "20"]], ids=" ".join)
def test_cut_then_analyse_is_analyse_with_options(trace, tmp_path, form, words):
    path = FORMS[form](build.random_job(2, 3)).shuffled(1).write(tmp_path / "merged.json")
    direct = forget(trace.report(path, *words), THE_FILE)
    done = trace("cut", path, "-o", tmp_path / "c.json", *words)
    assert done.returncode == 0, done.stderr
    assert differences(forget(trace.report(tmp_path / "c.json"), THE_FILE), direct) == []
    assert len(direct["ranks"]) == (3 if "--rank" not in words else 2 if "0,2" in words else 1)


def test_ranks_are_chosen_by_their_marks(trace, tmp_path):
    whole = FORMS["sglang"](build.random_job(1, 4))
    whole.rank = 0  # as the first file said
    path = whole.write(tmp_path / "merged.json")
    assert [rank["rank"] for rank in trace.report(path, "--rank", "2-3")["ranks"]] == [2, 3]
    assert trace(path, "--rank", 9).returncode == 3
    assert trace("cut", path, "--rank", 9, "-o", tmp_path / "c.json").returncode == 3
    done = trace("cut", path, "--step", 2, "-o", tmp_path / "c.json")
    assert done.returncode == 3 and b"name one with --rank" in done.stderr


def test_marks_of_more_than_one_number_are_counted(stoker, tmp_path):
    whole = build.merged(build.random_job(1, 3), lambda rank, pid: f"[DP{rank}-TP{rank % 2}] {pid}")
    report = compare.report(stoker, whole.write(tmp_path / "merged.json"))
    assert [rank["rank"] for rank in report["ranks"]] == [0, 1, 2]
    assert any("rank 1 is 'DP1-TP1'" in note for note in report["notes"])
    whole = build.merged(build.random_job(1, 3), lambda rank, pid: f"[TP{10 - rank}] {pid}")
    assert [rank["rank"] for rank in compare.report(stoker, whole.write(tmp_path / "m.json"))["ranks"]] == [8, 9, 10]


def test_in_windows_and_of_a_damaged_file(trace, tmp_path, generate):
    folder = generate(tmp_path / "ranks", "--size", 10, "--ranks", 2)
    events, about = [], {}
    for rank, path in enumerate(sorted(folder.iterdir())):
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rb") as file:
            about = json.loads(file.read())
        events += [{**event, "pid": f"[TP0{rank}] {event['pid']}"} for event in about.pop("traceEvents") if "pid" in event]
    path = tmp_path / "merged.json"
    path.write_text(json.dumps({**about, "traceEvents": events}))
    whole = trace.report(path)
    small = trace.report(path, "--memory", "1MiB")
    assert any("windows of time" in note for note in small["notes"])
    for a, b in zip(whole["ranks"], small["ranks"]):
        assert differences([a["devices"], a["kernels"], a["launch"]["linked"]],
                           [b["devices"], b["kernels"], b["launch"]["linked"]]) == []
    text = path.read_bytes()
    path.write_bytes(text[:-1000])
    ranks = trace.report(path)["ranks"]
    assert [[loss["reason"] for loss in rank["losses"]] for rank in ranks] == [["truncated"], []]


def test_what_is_no_rank(stoker, tmp_path):
    """One mark alone, names that hold the word: one rank. GPU work that nobody owns: one rank, and that is said."""
    job = build.random_job(3, 2)
    one = build.merged(job[:1], in_front("TP%02d"), [3])
    report = compare.report(stoker, one.write(tmp_path / "one.json"))
    assert [rank["rank"] for rank in report["ranks"]] == [3] and report["notes"] == compare.report(
        stoker, job[0].write(tmp_path / "plain.json"))["notes"]
    for words in ("ranker %d", "frank %d", "rank", "rank %dx", "my rank %d", "rank 1.%d"):
        whole = named(job, words if "%" in words else words + "%.0s")
        assert len(compare.report(stoker, whole.write(tmp_path / "t.json"))["ranks"]) == 1, words
    whole = FORMS["sglang"](job)
    whole.gpu("nobody's", 5_000_000, 1_000)
    report = compare.report(stoker, whole.write(tmp_path / "t.json"))
    assert len(report["ranks"]) == 1
    assert any("1 GPU operations do not say whose they are" in note for note in report["notes"])
    linked = sum(compare.report(stoker, t.write(tmp_path / "r.json"))["ranks"][0]["launch"]["linked"] for t in job)
    assert report["ranks"][0]["launch"]["linked"] == linked  # nobody's ids meet another's


def test_a_text_that_tells_two_ranks_of_itself(stoker, tmp_path):
    first, second = build.random_trace(1, rank=2).text(), build.random_trace(2, rank=5).text()
    path = tmp_path / "t.json"
    path.write_text(first[:-1] + "," + second[1:])
    report = compare.report(stoker, path)
    assert len(report["ranks"]) == 1
    assert any("of rank 2 and of rank 5" in note for note in report["notes"])
