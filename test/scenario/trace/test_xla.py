# SPDX-License-Identifier: Apache-2.0
"""Traces of XLA's profiler (JAX, TensorFlow), whose events have no category: names of processes and threads decide, wherever
they stand."""
import random

import pytest

import build
import compare
import xplane
from test_properties import told
from trace_kit import forget, strict_json

SEEDS = range(12)


@pytest.mark.parametrize("seed", range(30))
def test_random_traces_come_out_as_the_oracle_says(stoker, tmp_path, seed):
    path = build.random_xla(seed).write(tmp_path / ("trace.json.gz" if seed % 3 == 0 else "trace.json"))
    rank = compare.report(stoker, path)["ranks"][0]
    assert rank["framework"] == "xla" and rank["devices"][0]["operation_count"] > 1
    assert compare.own_differences(rank, path) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_of_events_and_the_threads_do_not_matter(stoker, tmp_path, seed):
    trace = build.random_xla(seed)
    first = told(stoker, trace.write(tmp_path / "trace.json"))
    for shuffle in range(3):
        path = trace.shuffled(shuffle).write(tmp_path / "shuffled.json", random.Random(shuffle).choice(["object", "indented"]))
        assert told(stoker, "--threads", 1 + shuffle, path) == first


@pytest.mark.parametrize("words", [["--from", "60us", "--to", "200us"], ["--stream", "14"], ["--device", "0"], ["--no-cpu"],
                                   ["--no-python"], ["--to", "100us", "--no-cpu", "--stream", "20,21"], ["--step", "4"],
                                   ["--step", "last", "--stream", "14"]], ids=" ".join)
@pytest.mark.parametrize("seed", [3, 4, 8])
def test_cut_then_analyse_is_analyse_with_options(trace, tmp_path, words, seed):
    made = next(t for t in (build.random_xla(seed + 20 * n) for n in range(20))
                if any("step_num" in e.get("args", {}) or e.get("tid") == 105 and e["ph"] == "X" for e in t.events))
    path = made.shuffled(seed).write(tmp_path / "t.json")
    direct = forget(trace.report(path, *words))
    done = trace("cut", path, "-o", tmp_path / "c.json", *words)
    assert done.returncode == 0, done.stderr
    strict_json((tmp_path / "c.json").read_text())
    assert forget(trace.report(tmp_path / "c.json")) == direct
    assert direct["ranks"][0]["devices"]


def by_hand(amd=False):
    trace = build.XlaTrace(amd=amd)
    trace.launch(10_000, "loop_add_fusion", 20_000, 10_000, took=2_000)
    trace.launch(13_000, "MemcpyD2H", 40_000, 5_000, stream=21, size=1 << 20)
    trace.launch(18_000, "MemcpyH2D", 42_000, 6_000, stream=20, size=1 << 10)
    trace.gpu("Memset", 60_000, 1_000, stream=21, size=64)
    return trace


@pytest.mark.parametrize("amd", [False, True])
def test_by_hand(stoker, tmp_path, amd):
    path = by_hand(amd).write(tmp_path / "t.json")
    rank = compare.report(stoker, path)["ranks"][0]
    device = rank["devices"][0]
    assert (device["device"], device["operation_count"], device["stream_count"]) == (0, 4, 3)
    assert (device["span_ns"], device["busy_ns"], device["compute_ns"], device["copy_ns"]) == (41_000, 19_000, 10_000, 9_000)
    assert (rank["launch"]["linked"], rank["launch"]["unlinked"]) == (3, 1) and rank["rocm"] is amd
    kernel = rank["kernels"][0]
    assert (kernel["name"], kernel["grid"], kernel["block"], kernel["registers"]) == ("loop_add_fusion", [8, 2, 1], [256, 1, 1], 32)
    assert {(c["kind"], c["source"], c["target"], c["bytes"]) for c in rank["copies"]} == {
        ("DtoH", "device", "pinned", 1 << 20), ("HtoD", "pinned", "device", 1 << 10), ("set", None, "device", 64)} or \
        {(c["kind"], c["bytes"]) for c in rank["copies"]} == {("DtoH", 1 << 20), ("HtoD", 1 << 10), ("set", 64)}
    assert {call["name"] for call in rank["calls"]} == {"hipModuleLaunchKernel" if amd else "cuLaunchKernel"}


def test_older_forms_of_details(stoker, tmp_path):
    trace = build.XlaTrace()
    trace.bare("k", 1_000, 1_000, 1, 14, regs="40", grid="grid:3,1,1 block:64,2,1", occupancy_pct="12.5")
    trace.bare("MemcpyD2D", 3_000, 500, 1, 14, memcpy_details="kind:unknown size:8 dest:0 async:1")
    trace.bare("a copy", 5_000, 500, 1, 14, memcpy_details="kind_src:device kind_dst:pageable size:12 dest:0 async:0")
    rank = compare.report(stoker, trace.write(tmp_path / "t.json"))["ranks"][0]
    assert rank["kernels"][0]["registers"] == 40
    assert sorted((c["kind"], c["bytes"]) for c in rank["copies"]) == [("DtoD", 8), ("unknown", 12)]


def test_what_is_near_and_is_none(stoker, tmp_path):
    """A process of a TPU or of a CPU, names inside others, events with a category: no GPU work. correlation_id outside of
    such a trace makes no call."""
    for process in ("/device:TPU:0", "/device:GPU:x", "my/device:GPU:0", "/device:GPU:0/stream:all", "/host:CPU", "GPU 0"):
        trace = build.Trace()
        trace.events = [{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": process}},
                        {"ph": "M", "pid": 1, "tid": 14, "name": "thread_name", "args": {"name": "Stream #14(Compute)"}},
                        {"ph": "X", "pid": 1, "tid": 14, "name": "fusion", "ts": 1_000, "dur": 5_000,
                         "args": {"correlation_id": 5}}]
        report = compare.report(stoker, trace.write(tmp_path / "t.json"))
        assert report["ranks"][0]["devices"] == [] and report["ranks"][0]["calls"] == [], process
        assert [v["id"] for v in report["verdicts"]] == ["no-gpu-work"]
    trace.events[0]["args"]["name"] = "/device:GPU:2"
    assert compare.report(stoker, trace.write(tmp_path / "t.json"))["ranks"][0]["devices"][0]["device"] == 2


def test_a_gpu_whose_threads_have_no_names(stoker, tmp_path):
    trace = build.XlaTrace()
    trace.events = [e for e in trace.events if e["name"] != "thread_name"]
    trace.bare("fusion", 1_000, 2_000, 1, 14)
    device = compare.report(stoker, trace.write(tmp_path / "t.json"))["ranks"][0]["devices"][0]
    assert (device["operation_count"], device["stream_count"]) == (1, 1)


@pytest.mark.parametrize("threads", [(14, 15), ("work", "line")], ids=["numbers", "texts"])
def test_processes_and_threads_whose_ids_are_texts(stoker, tmp_path, threads):
    """They are told apart by these texts: each has a line of that id, and what repeats in one is work in another."""
    trace = build.XlaTrace(devices=0)
    for device, process in enumerate(("left", "right", "middle")):
        trace.name("process_name", process, None, f"/device:GPU:{device}")
        for thread, line in zip(threads, ("Stream #14(Compute)", "XLA Ops") if device != 1 else ("XLA Ops", "Stream #20(Compute)")):
            trace.name("thread_name", process, thread, line)
            for number in range(1 + device):
                trace.bare("fusion", 1_000 + 5_000 * number, 2_000 + 1_000 * threads.index(thread), process, thread)
    rank = compare.report(stoker, trace.write(tmp_path / "t.json"))["ranks"][0]
    assert [(d["device"], d["operation_count"], d["stream_count"], d["busy_ns"]) for d in rank["devices"]] == [
        (0, 1, 1, 2_000), (1, 2, 1, 6_000), (2, 3, 1, 6_000)]


def test_steps_of_the_gpu_and_of_the_host(stoker, tmp_path):
    trace = by_hand()
    trace.gpu_step(7, 10_000, 25_000)
    trace.gpu_step(8, 36_000, 20_000)
    steps = compare.report(stoker, trace.write(tmp_path / "t.json"))["ranks"][0]["steps"]
    assert [(s["name"], s["number"], s["duration_ns"]) for s in steps] == [("step 7", 7, 25_000), ("step 8", 8, 20_000)]
    trace.range("train", 5_000, 20_000, tid=9, step_num="1")
    trace.range("train", 30_000, 20_000, tid=9, step_num="2")
    steps = compare.report(stoker, trace.write(tmp_path / "t.json"))["ranks"][0]["steps"]
    assert [(s["name"], s["number"]) for s in steps] == [("train 1", 1), ("train 2", 2)]


@pytest.mark.parametrize("seed", range(8))
def test_an_xplane_file_says_what_the_json_says(trace, tmp_path, seed):
    made = build.random_xla(seed)
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(xplane.encode(made))
    told_by_json = forget(trace.report(made.write(tmp_path / "host.trace.json")))
    assert told_by_json["ranks"][0]["kernels"]
    assert forget(trace.report(path)) == told_by_json
    assert trace("cut", path, "-o", tmp_path / "cut.json").returncode == 0
    assert forget(trace.report(tmp_path / "cut.json")) == told_by_json


def test_an_xplane_file_that_is_cut_is_read_up_to_there(trace, tmp_path):
    whole = xplane.encode(build.random_xla(3))
    path = tmp_path / "host.xplane.pb"
    for part in range(1, 10):
        path.write_bytes(whole[:len(whole) * part // 10])
        rank = trace.report(path, codes=(1,))["ranks"][0]
        assert rank["lost_by_reason"]["truncated"] == 1
    assert rank["events"] > 10
