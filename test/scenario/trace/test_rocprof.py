# SPDX-License-Identifier: Apache-2.0
"""JSON of rocprofv3: what it comes out as, and what is said where it is damaged."""
import gzip
import json
import re

import pytest

import rocprof
from trace_kit import forget

STEP = 1_000_000


def steps(count=4, **how):
    """Each step: a product, a copy that nothing hides, a collective, and a wait for all of it."""
    process = rocprof.Process(**how)
    for number in range(count):
        t = 10_000_000 + number * STEP
        process.range(f"step {number}", t, 900_000)
        process.range("a mark", t, 0)
        process.launch(t + 1_000, "_Z4gemmPfS_.kd", t + 100_000, 300_000, "gemm(float*, float*)")
        copy = process.call("hipMemcpyAsync", t + 410_000, 5_000)
        process.copy(None, 0, 1 << 20, t + 420_000, 100_000, copy, stream=2)
        process.call("ncclAllReduce", t + 530_000, 20_000)
        process.launch(t + 535_000, "ncclDevKernel_Generic_1.kd", t + 600_000, 100_000, stream=1)
        process.call("hipStreamSynchronize", t + 560_000, 200_000)
    return process


def rank_of(trace, path, *words, codes=(0, 1)):
    return trace.report(path, *words, codes=codes)["ranks"][0]


def test_names_times_and_links(trace, tmp_path):
    rank = rank_of(trace, rocprof.write(tmp_path / "r.json", steps()))
    device = rank["devices"][0]
    assert (rank["framework"], rank["rocm"], rank["host"], rank["losses"]) == ("rocprofv3", True, "node7", [])
    assert (device["name"], device["operation_count"], device["stream_count"]) == ("AMD Instinct MI300X", 12, 3)
    assert (device["span_ns"], device["busy_ns"], device["compute_ns"]) == (3_600_000, 2_000_000, 1_200_000)
    assert (device["exposed_communication_ns"], device["exposed_copy_ns"]) == (400_000, 400_000)
    assert (rank["launch"]["linked"], rank["launch"]["unlinked"]) == (12, 0)
    kernels = {k["name"]: k for k in rank["kernels"]}
    gemm = kernels["gemm(float*, float*)"]
    assert (gemm["grid"], gemm["block"], gemm["registers"], gemm["shared_bytes"]) == ([256, 2, 1], [256, 1, 1], 64, 8192)
    assert gemm["blocks_per_sm"] == pytest.approx(512 / 304)
    assert kernels.keys() == {"gemm(float*, float*)", "ncclDevKernel_Generic_1"}
    assert [(c["kind"], c["bytes"], c["count"]) for c in rank["copies"]] == [("HtoD", 4 << 20, 4)]
    assert {c["name"]: c["count"] for c in rank["calls"]} == {
        "hipLaunchKernel": 8, "hipMemcpyAsync": 4, "hipStreamSynchronize": 4, "ncclAllReduce": 4}
    assert [s["name"] for s in rank["steps"]] == [f"step {n}" for n in range(4)]
    assert [a["name"] for a in rank["annotations"] if a["name"] == "a mark"] == []
    assert [c["name"] for c in rank["collectives"]] == ["all_reduce"] * 4


def test_verdicts_are_of_amd_and_not_of_pytorch(trace, tmp_path):
    report = trace.report(rocprof.write(tmp_path / "r.json", steps()), codes=(1,))
    ids = [v["id"] for v in report["verdicts"]]
    assert ids[:3] == ["synchronisation", "exposed-communication", "exposed-copy"]
    assert "torch" not in json.dumps(report["verdicts"])
    empty = trace(rocprof.write(tmp_path / "e.json", rocprof.Process())).stdout.decode()
    assert "Was rocprofv3 run with --kernel-trace?" in empty


def test_older_files_have_queues_and_count_gpus(trace, tmp_path):
    process = rocprof.Process(gpus=2, newer=False)
    process.launch(1_000, "_Z1kv.kd", 10_000, 5_000, "k()", device=1, queue=3)
    process.launch(6_000, "_Z1kv.kd", 20_000, 5_000, "k()", device=1, queue=4)
    call = process.call("hipMemcpy", 30_000, 5_000)
    process.copy(1, None, 4096, 31_000, 2_000, call)
    rank = rank_of(trace, rocprof.write(tmp_path / "r.json", process))
    assert [(d["device"], d["operation_count"], d["stream_count"]) for d in rank["devices"]] == [(1, 3, 3)]
    assert rank["host"] is None and rank["launch"]["unlinked"] == 0
    assert {(c["kind"], c["bytes"]) for c in rank["copies"]} == {("DtoH", 4096)}


def test_copies_by_their_agents(trace, tmp_path):
    process = rocprof.Process(gpus=2)
    for number, (source, target) in enumerate([(None, 0), (0, None), (1, 1), (0, 1), (None, None)]):
        call = process.call("hipMemcpyAsync", 1_000 + number * 10_000, 500)
        process.copy(source, target, 100 << number, 2_000 + number * 10_000, 1_000, call)
    rank = rank_of(trace, rocprof.write(tmp_path / "r.json", process))
    assert {(c["kind"], c["bytes"]) for c in rank["copies"]} == {("HtoD", 100), ("DtoH", 200), ("DtoD", 400), ("PtoP", 800)}
    assert [(d["device"], d["operation_count"]) for d in rank["devices"]] == [(0, 3), (1, 1)]


def test_work_belongs_to_calls_of_hsa_where_these_are_recorded(trace, tmp_path):
    process = rocprof.Process()
    process.call("hipLaunchKernel", 1_000, 4_000)
    bell = process.call("hsa_signal_store_screlease", 2_000, 500)
    process.kernel(process.symbol("_Z1kv.kd", "k()"), 10_000, 5_000, bell)
    process.call("hipMemcpyAsync", 20_000, 4_000)
    copy = process.call("hsa_amd_memory_async_copy_on_engine", 21_000, 500)
    process.copy(None, 0, 64, 30_000, 1_000, copy)
    process.call("hsa_signal_wait_scacquire", 25_000, 6_000, thread=4002)
    rank = rank_of(trace, rocprof.write(tmp_path / "r.json", process))
    assert (rank["launch"]["linked"], rank["launch"]["unlinked"]) == (2, 0)
    assert {c["name"]: c["class"] for c in rank["calls"]} == {
        "hipLaunchKernel": "launch", "hipMemcpyAsync": "launch", "hsa_signal_store_screlease": "launch",
        "hsa_amd_memory_async_copy_on_engine": "launch", "hsa_signal_wait_scacquire": "synchronisation"}


def test_several_processes_whose_numbers_meet(trace, tmp_path):
    first, second = steps(pid=4000, gpus=2), rocprof.Process(pid=5000, gpus=2)
    for number in range(3):
        second.launch(50_000_000 + number * 20_000, "_Z5otherv.kd", 50_010_000 + number * 20_000, 5_000, "other()", device=1)
    rank = rank_of(trace, rocprof.write(tmp_path / "r.json", first, second))
    assert [(d["device"], d["operation_count"]) for d in rank["devices"]] == [(0, 12), (1, 3)]
    assert (rank["launch"]["linked"], rank["launch"]["unlinked"], rank["launch"]["negative"]) == (15, 0, 0)
    assert {k["name"]: k["count"] for k in rank["kernels"]} == {
        "gemm(float*, float*)": 4, "ncclDevKernel_Generic_1": 4, "other()": 3}


def test_layout_and_packing_do_not_matter(trace, tmp_path):
    first = forget(trace.report(rocprof.write(tmp_path / "r.json", steps()), codes=(1,)))
    for indent in (None, 1, 4):
        assert forget(trace.report(rocprof.write(tmp_path / "r.json", steps(), indent=indent), codes=(1,))) == first
    (tmp_path / "p.json.gz").write_bytes(gzip.compress(rocprof.text(steps()).encode()))
    assert forget(trace.report(tmp_path / "p.json.gz", codes=(1,))) == first
    big = rocprof.text(steps(), indent=None).replace(', "', "," + " " * 6000 + '"')
    (tmp_path / "wide.json").write_text(big)
    assert len(big) > 2 << 20 and forget(trace.report(tmp_path / "wide.json", codes=(1,))) == first


def test_cut_gives_the_same_numbers(trace, tmp_path):
    path = rocprof.write(tmp_path / "r.json", steps())
    for words in ([], ["--step", "2"], ["--stream", "0"]):
        assert trace("cut", path, "-o", tmp_path / "c.json", *words).returncode == 0
        assert forget(trace.report(tmp_path / "c.json", codes=(0, 1))) == forget(trace.report(path, *words, codes=(0, 1)))


def test_texts_with_escapes(trace, tmp_path):
    process = rocprof.Process()
    process.launch(1_000, "_Z1kv.kd", 10_000, 5_000, 'k<"a\\b", {}>(é)')
    process.range('step "1" \\ {', 500, 20_000)
    rank = rank_of(trace, rocprof.write(tmp_path / "r.json", process))
    assert [k["name"] for k in rank["kernels"]] == ['k<"a\\b", {}>(é)']
    assert [a["name"] for a in rank["annotations"]] == ['step "1" \\ {']


def test_names_that_are_missing(trace, tmp_path):
    process = rocprof.Process()
    process.launch(1_000, "_Z1kv.kd", 10_000, 5_000, "k()")
    process.symbols = []
    value = process.value()
    value["strings"]["buffer_records"] = []
    (tmp_path / "r.json").write_text(json.dumps({"rocprofiler-sdk-tool": [value]}))
    rank = rank_of(trace, tmp_path / "r.json")
    assert [k["name"] for k in rank["kernels"]] == ["kernel 1"] and [c["name"] for c in rank["calls"]] == ["unknown call"]
    assert rank["launch"]["linked"] == 1


def test_times_that_are_missing_or_turned_round(trace, tmp_path):
    process = steps()
    dispatches = process.records["kernel_dispatch"]
    del dispatches[0]["end_timestamp"]
    dispatches[2]["start_timestamp"], dispatches[2]["end_timestamp"] = dispatches[2]["end_timestamp"], dispatches[2]["start_timestamp"]
    rank = rank_of(trace, rocprof.write(tmp_path / "r.json", process))
    assert {loss["reason"] for loss in rank["losses"]} == {"no_time", "bad_duration"}
    assert rank["devices"][0]["operation_count"] == 11


@pytest.mark.parametrize("part", [0.02, 0.3, 0.75, 0.9, 0.999])
def test_a_file_that_was_cut(trace, tmp_path, part):
    whole = rocprof.text(steps())
    (tmp_path / "r.json").write_text(whole[:int(part * len(whole))])
    rank = rank_of(trace, tmp_path / "r.json")
    kernels = sum(k["count"] for k in rank["kernels"])
    assert [loss["reason"] for loss in rank["losses"]] == ["truncated"]
    assert kernels == whole[:int(part * len(whole))].count('"dispatch_info"') - (part == 0.75 and kernels < 8)


def test_a_packed_file_that_was_cut(trace, tmp_path):
    packed = gzip.compress(rocprof.text(steps(40)).encode())
    (tmp_path / "r.json.gz").write_bytes(packed[:-200])
    rank = rank_of(trace, tmp_path / "r.json.gz")
    assert "compression" in {loss["reason"] for loss in rank["losses"]} and sum(k["count"] for k in rank["kernels"]) == 80


DAMAGE = {
    "a missing quote": ('"thread_id": 4001', '"thread_id: 4001', 1),
    "a stray quote": ('"thread_id": 4001', '"thread_id": "4001', 1),
    "a missing value": ('"thread_id": 4001', '"thread_id": ', 1),
    "a missing comma": ('"thread_id": 4001,', '"thread_id": 4001', 1),
    "zeros": ('"thread_id": 4001', "\0" * 17, 1),
    "a record's bracket": ('{\n"size": 72,\n"kind": 8', '\n"size": 72,\n"kind": 8', 1),
    "a section's bracket": ('"hip_api": [', '"hip_api": ', 160),
    "a section's name": ('"hip_api": [', '"hip_api: [', 160),
    "the list of symbols": ('"kernel_symbols": [', '"kernel_symbols" [', 0),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_costs_little_and_is_said(trace, tmp_path, what):
    good, bad, records = DAMAGE[what]
    whole = rocprof.text(steps(40))
    assert whole.count(good) > 0
    at = whole.index(good, whole.index('"buffer_records": {') if what.startswith(("a m", "a r", "a stray", "zeros")) else 0)
    (tmp_path / "r.json").write_text(whole[:at] + bad + whole[at + len(good):])
    rank = rank_of(trace, tmp_path / "r.json")
    lost = 320 - sum(k["count"] for k in rank["kernels"]) - sum(c["count"] for c in rank["calls"]) - \
        sum(c["count"] for c in rank["copies"])
    assert {loss["reason"] for loss in rank["losses"]} == {"syntax"}
    excerpt = rank["losses"][0]["excerpt"]
    assert re.search(r"damaged at byte (\d+) of the file", excerpt) and \
        abs(int(re.search(r"byte (\d+)", excerpt)[1]) - len(whole[:at].encode())) < 1000, excerpt
    assert lost == records


def test_lost_names_are_not_mistaken(trace, tmp_path):
    """Kinds are known by their place in the list: behind a damaged one no name is right."""
    whole = rocprof.text(steps())
    at = whole.index('"HSA_AMD_EXT_API"', whole.index('"strings"'))
    at = whole.index('"HSA_CORE_API"', whole.index('"buffer_records"'))
    (tmp_path / "r.json").write_text(whole[:at] + whole[at + 1:])
    rank = rank_of(trace, tmp_path / "r.json")
    assert {c["name"] for c in rank["calls"]} == {"unknown call"} and rank["launch"]["linked"] == 12
    assert len(rank["steps"]) == 4
