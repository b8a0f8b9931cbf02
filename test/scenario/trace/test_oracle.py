# SPDX-License-Identifier: Apache-2.0
"""Our own numbers against a second, plain implementation of their definitions, on random and on small made traces."""
import pytest

import build
import compare


@pytest.mark.parametrize("seed", range(60))
def test_random_traces_come_out_as_the_oracle_says(stoker, tmp_path, seed):
    path = build.random_trace(seed).write(tmp_path / ("trace.json.gz" if seed % 3 == 0 else "trace.json"))
    assert compare.own_differences(compare.report(stoker, path)["ranks"][0], path) == []


@pytest.mark.parametrize("seed", range(5))
def test_ranks_of_a_job_come_out_each_as_the_oracle_says(stoker, tmp_path, seed):
    for rank, trace in enumerate(build.random_job(seed, 4)):
        trace.write(tmp_path / f"rank{rank}.json")
    ranks = compare.report(stoker, tmp_path)["ranks"]
    assert [rank["rank"] for rank in ranks] == [0, 1, 2, 3]
    for number, rank in enumerate(ranks):
        assert compare.own_differences(rank, tmp_path / f"rank{number}.json") == []


def test_the_oracle_can_be_wrong_and_then_says_so(stoker, tmp_path):
    path = build.random_trace(1).write(tmp_path / "trace.json")
    rank = compare.report(stoker, path)["ranks"][0]
    rank["devices"][0]["busy_ns"] += 1
    rank["launch"]["linked"] += 1
    del rank["kernels"][0]
    words = "\n".join(compare.own_differences(rank, path))
    assert "busy_ns" in words and "linked" in words and "kernels" in words


def by_hand():
    """Two streams of one device:   0 10 20 30 40 50 60 us
    stream 7    gemm              |=====|        [10, 30)
    stream 20   all-reduce            |=====|    [20, 40)
    stream 7    copy                        |==| [50, 60)
    and a kernel without a recorded launch at 70 us, of no duration."""
    trace = build.Trace()
    trace.step(1, 1_000, 60_000)
    trace.op("aten::mm", 1_000, 9_000)
    trace.launch(2_000, "gemm", 10_000, 20_000, took=5_000)
    trace.launch(8_000, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)", 20_000, 20_000, stream=20, took=1_000)
    trace.launch(41_000, "Memcpy HtoD (Pinned -> Device)", 50_000, 10_000, call="cudaMemcpyAsync", took=2_000, bytes=1 << 20)
    trace.gpu("late", 70_000, 0)
    return trace


def test_a_trace_that_can_be_read_by_eye(stoker, tmp_path):
    path = by_hand().write(tmp_path / "trace.json")
    rank = compare.report(stoker, path)["ranks"][0]
    device = rank["devices"][0]
    told = {key: device[key] for key in ("span_ns", "busy_ns", "idle_ns", "compute_ns", "communication_ns", "copy_ns",
                                         "communication_overlapped_ns", "exposed_communication_ns", "exposed_copy_ns",
                                         "gap_count", "max_gap_ns", "operation_count", "stream_count")}
    assert told == {"span_ns": 60_000, "busy_ns": 40_000, "idle_ns": 20_000, "compute_ns": 20_000,
                    "communication_ns": 20_000, "copy_ns": 10_000, "communication_overlapped_ns": 10_000,
                    "exposed_communication_ns": 10_000, "exposed_copy_ns": 10_000, "gap_count": 2, "max_gap_ns": 10_000,
                    "operation_count": 4, "stream_count": 2}
    launch = rank["launch"]
    assert (launch["linked"], launch["unlinked"], launch["median_ns"], launch["max_ns"]) == (3, 1, 7_000, 11_000)
    assert [(step["name"], step["duration_ns"]) for step in rank["steps"]] == [("ProfilerStep#1", 60_000)]
    assert [(row["kind"], row["count"], row["bytes"], row["total_ns"]) for row in rank["copies"]] == [("HtoD", 1, 1 << 20, 10_000)]
    assert compare.own_differences(rank, path) == []


def test_negative_and_repeated_rows(stoker, tmp_path):
    trace = build.Trace()
    trace.launch(1_000, "a", 10_000, 5_000)
    trace.launch(2_000, "b", 12_000, -3_000)
    trace.events.append(dict(trace.events[-1]))
    trace.gpu("nowhere", 0, 0)
    path = trace.write(tmp_path / "trace.json")
    rank = compare.report(stoker, path)["ranks"][0]
    assert compare.own_differences(rank, path) == []
    assert rank["devices"][0]["operation_count"] == 2
    assert rank["devices"][0]["busy_ns"] == 5_000
