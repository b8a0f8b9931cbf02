# SPDX-License-Identifier: Apache-2.0
"""What must hold for any trace, through the program itself: times add up, and only what was done decides, not how it
stands in the file or how the file is read."""
import json
import random
import subprocess

import pytest

import build
import compare
import trace_kit as kit

SEEDS = range(8)


def plain(report):
    """Without what speaks of the file."""
    if isinstance(report, dict):
        return {key: plain(value) for key, value in report.items() if key not in kit.OF_THE_FILE | {"rocm", "framework"}}
    return [plain(value) for value in report] if isinstance(report, list) else report


def told(stoker, *words):
    return plain(compare.report(stoker, *words))


@pytest.mark.parametrize("seed", range(40))
def test_times_add_up(stoker, tmp_path, seed):
    rank = compare.report(stoker, build.random_trace(1000 + seed).write(tmp_path / "trace.json"))["ranks"][0]
    assert rank["devices"]
    for device in rank["devices"]:
        assert device["busy_ns"] + device["idle_ns"] == device["span_ns"]
        assert device["compute_ns"] + device["exposed_communication_ns"] + device["exposed_copy_ns"] == device["busy_ns"]
        assert device["communication_overlapped_ns"] + device["exposed_communication_ns"] == device["communication_ns"]
        assert device["max_gap_ns"] <= device["idle_ns"] and (device["gap_count"] == 0) == (device["idle_ns"] == 0)
    assert sum(cause["total_ns"] for cause in rank["idle_by_cause"]) == sum(d["idle_ns"] for d in rank["devices"])
    for gap in rank["gaps"]:
        assert sum(gap["slices_ns"].values()) == gap["end_ns"] - gap["start_ns"]
    assert rank["launch"]["linked"] + rank["launch"]["unlinked"] == sum(d["operation_count"] for d in rank["devices"])
    for step in rank["steps"]:
        for device in step["devices"]:
            assert device["busy_ns"] + device["idle_ns"] == device["window_ns"]
            assert device["compute_ns"] + device["exposed_communication_ns"] + device["exposed_copy_ns"] == device["busy_ns"]
            assert sum(cause["total_ns"] for cause in device["idle_by_cause"]) == device["idle_ns"]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_of_events_does_not_matter(stoker, tmp_path, seed):
    trace = build.random_trace(seed)
    first = told(stoker, trace.write(tmp_path / "trace.json"))
    for shuffle in range(3):
        assert told(stoker, trace.shuffled(shuffle).write(tmp_path / f"trace{shuffle}.json")) == first


@pytest.mark.parametrize("seed", SEEDS)
def test_the_form_of_the_file_does_not_matter(stoker, tmp_path, seed):
    trace = build.random_trace(seed)
    first = told(stoker, trace.write(tmp_path / "trace.json"))
    for name, form in (("a.json.gz", "object"), ("b.json", "array"), ("c.json", "indented"), ("d.json", "compact"),
                       ("e.json.gz", "indented"), ("f", "compact")):
        assert told(stoker, trace.write(tmp_path / name, form)) == first, name


@pytest.mark.parametrize("seed", SEEDS)
def test_threads_do_not_matter(stoker, tmp_path, seed):
    path = build.random_trace(seed).write(tmp_path / "trace.json")
    first = told(stoker, "--threads", 1, path)
    for threads in (2, 3, 4, 8):
        assert told(stoker, "--threads", threads, path) == first


def piped(stoker, data, seed):
    """The report of what comes through a pipe in pieces of any size."""
    process = subprocess.Popen([stoker, "trace", "--json", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    r, at = random.Random(seed), 0
    while at < len(data):
        size = r.choice([1, 7, 100, 4096, 1 << 16])
        process.stdin.write(data[at:at + size])
        at += size
    process.stdin.close()
    out = process.stdout.read()
    assert process.wait() in (0, 1)
    return plain(json.loads(out))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_the_pieces_of_a_pipe_do_not_matter(stoker, tmp_path, seed, name):
    path = build.random_trace(seed).write(tmp_path / name)
    first = told(stoker, path)
    assert piped(stoker, path.read_bytes(), seed) == first


@pytest.mark.parametrize("seed", range(40))
def test_cut_and_then_analyse_is_analyse_with_a_window(stoker, tmp_path, seed):
    trace = build.random_trace(seed)
    path = trace.write(tmp_path / "trace.json")
    r = random.Random(seed)  # of GPU operations: without any the report speaks of the file's events
    times = sorted(event["ts"] + trace.base for event in trace.events if "device" in event.get("args", {}))
    low, high = sorted(r.sample(times, 2))
    window = ["--from", low // 1000 * 1000, "--to", high // 1000 * 1000 + 1000]
    cut = tmp_path / "cut.json"
    subprocess.run([stoker, "trace", "cut", *map(str, window), path, "-o", cut], check=True, capture_output=True)
    assert told(stoker, cut) == told(stoker, *window, path)
