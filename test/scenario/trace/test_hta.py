# SPDX-License-Identifier: Apache-2.0
"""`stoker trace --as hta` against HTA's definitions written a second time in Python, and against numbers worked out by
hand."""
import importlib.util
import json
import pathlib
import subprocess

import pytest

import build
import compare
import oracle


def differences(stoker, paths, *words, **options):
    told = compare.report(stoker, "--as", "hta", *words, *paths)
    return compare.hta_differences(told, oracle.hta(paths, [rank["rank"] for rank in told["ranks"]], **options))


@pytest.mark.parametrize("seed", range(60))
def test_random_traces_come_out_as_in_hta(stoker, tmp_path, seed):
    path = build.random_trace(seed).write(tmp_path / "trace.json")
    assert differences(stoker, [path]) == []


@pytest.mark.parametrize("seed", range(10))
def test_with_the_last_step_and_another_delay(stoker, tmp_path, seed):
    path = build.random_trace(seed, steps=3).write(tmp_path / "trace.json.gz")
    assert differences(stoker, [path], "--hta-last-step", last_step=True) == []
    assert differences(stoker, [path], "--hta-kernel-delay", "2us", delay_ns=2_000) == []


@pytest.mark.parametrize("seed", range(12))
def test_jobs_of_several_ranks(stoker, tmp_path, seed):
    traces = build.random_job(seed, 2 + seed % 4, old_names=seed % 3 != 2)
    paths = [trace.write(tmp_path / f"rank{rank}.json") for rank, trace in enumerate(traces)]
    assert differences(stoker, paths) == []


def idle_of(stoker, path, *words):
    rank = compare.report(stoker, "--as", "hta", *words, path)["ranks"][0]
    return {(row["stream"], row["idle_category"]): row["idle_time_ns"] for row in rank["idle_time_breakdown"]}


def test_idle_time_by_hand(stoker, tmp_path):
    trace = build.Trace()
    trace.launch(1_000, "a", 10_000, 10_000)   # ends at 20 us
    trace.launch(2_000, "b", 25_000, 10_000)   # launched long before: 5 us of kernel_wait; ends at 35 us
    trace.launch(50_000, "c", 60_000, 10_000)  # launched behind the end of b: 25 us of host_wait; ends at 70 us
    trace.launch(55_000, "d", 170_000, 1_000)  # 100 us that nobody explains
    trace.launch(56_000, "e", 165_000, 2_000)  # comes before d: 95 us; and then d starts 3 us behind its end
    path = trace.write(tmp_path / "trace.json")
    assert idle_of(stoker, path) == {(7, "host_wait"): 25_000, (7, "kernel_wait"): 5_000 + 3_000, (7, "other"): 95_000}
    assert idle_of(stoker, path, "--hta-kernel-delay", "1ms") == {(7, "host_wait"): 25_000, (7, "kernel_wait"): 103_000,
                                                                 (7, "other"): 0}


def test_the_last_step_and_what_was_not_launched_are_dropped(stoker, tmp_path):
    trace = build.Trace()
    trace.step(1, 1_000, 100_000)
    trace.step(2, 101_000, 100_000)
    trace.launch(2_000, "in step 1", 10_000, 10_000)
    trace.launch(102_000, "in step 2", 110_000, 10_000)
    trace.gpu("launched by nobody", 30_000, 10_000, correlation=7)
    path = trace.write(tmp_path / "trace.json")
    told = compare.report(stoker, "--as", "hta", path)
    assert told["filtered"] and told["ranks"][0]["rows"] == {"gpu": 1, "dropped": 2, "repeated": 0, "synchronisations": 0,
                                                            "host_with_stream": 0}
    assert told["ranks"][0]["temporal_breakdown"]["kernel_time_ns"] == 10_000
    assert {row["what"] for row in told["differences"]} == {"idle", "compute", "launches", "steps"}
    kept = compare.report(stoker, "--as", "hta", "--hta-last-step", path)
    assert kept["ranks"][0]["temporal_breakdown"]["kernel_time_ns"] == 110_000
    assert kept["ranks"][0]["rows"]["dropped"] == 1


def test_rows_that_hta_takes_for_work_on_the_gpu(stoker, tmp_path):
    trace = build.Trace()
    trace.launch(1_000, "kernel", 10_000, 10_000)
    trace.sync("Stream Sync", 20_000, 30_000, 7, 5)
    trace.op("triton_fused", 60_000, 5_000, stream=7)
    trace.op("hip call", 90_000, 5_000, stream="0x0")
    path = trace.write(tmp_path / "trace.json")
    told = compare.report(stoker, "--as", "hta", path)
    rank = told["ranks"][0]
    assert rank["rows"] == {"gpu": 3, "dropped": 0, "repeated": 0, "synchronisations": 1, "host_with_stream": 1}
    assert rank["temporal_breakdown"]["kernel_time_ns"] == 55_000
    assert rank["temporal_breakdown"]["compute_time_ns"] == 15_000
    why = " ".join(row["why"] for row in told["differences"])
    assert "synchronisations" in why and "name a stream" in why
    assert differences(stoker, [path]) == []


def test_a_correlation_of_two_calls_stops_the_queue_length_and_repeats_rows(stoker, tmp_path):
    trace = build.Trace()
    trace.step(1, 1_000, 50_000)
    trace.step(2, 80_000, 50_000)
    link = trace.launch(2_000, "kernel", 10_000, 10_000)
    trace.call("cuLaunchKernel", 2_500, 1_000, link)
    path = trace.write(tmp_path / "trace.json")
    rank = compare.report(stoker, "--as", "hta", path)["ranks"][0]
    assert rank["queue_length"] is None and "AssertionError" in rank["queue_length_error"]
    assert rank["rows"]["repeated"] == 1
    assert differences(stoker, [path]) == []


def test_a_place_in_the_list_decides_whether_hta_sees_a_link(stoker, tmp_path):
    trace = build.Trace()
    trace.launch(1_000, "kernel", 10_000, 10_000)
    trace.events = [trace.events[2], trace.events[1]]  # the kernel is at place 0, which HTA takes for "no partner"
    trace.launch(2_000, "kernel", 25_000, 10_000)
    path = trace.write(tmp_path / "trace.json")
    rank = compare.report(stoker, "--as", "hta", path)["ranks"][0]
    assert rank["queue_length"][0]["queue_length"]["count"] == 2
    assert differences(stoker, [path]) == []


def test_smaller_kernels_are_joined_over_their_sums(stoker, tmp_path):
    trace = build.Trace()
    for index in range(14):
        for again in range(2):
            trace.launch(index * 1_000, f"kernel_{index:02}", 100_000 + 50_000 * (2 * index + again), 1_000 * (20 - index))
    path = trace.write(tmp_path / "trace.json")
    rows = {row["name"]: row for row in compare.report(stoker, "--as", "hta", path)["kernels"]}
    assert len(rows) == 11 and "others" in rows
    assert rows["kernel_00"]["mean_ns"] == rows["kernel_00"]["sum_ns"] == 40_000
    assert rows["others"]["max_ns"] == 2 * 10_000 and rows["others"]["min_ns"] == 2 * 7_000
    assert differences(stoker, [path]) == []


def test_the_straggler_that_hta_misses(stoker, tmp_path):
    """Rank 2 comes 300 us late to every all-reduce: its own kernels are short, fall under 1 % of a step and away."""
    paths = []
    for rank in range(4):
        trace = build.Trace(rank=rank)
        for number in (1, 2, 3):
            begin = number * 1_000_000
            trace.step(number, begin, 990_000)
            late = 300_000 if rank == 2 else 1_000 * rank
            for index in range(3):
                end = begin + 500_000 + 100_000 * index
                name = "ncclKernel_AllReduce_RING_LL_Sum_float(int)"
                trace.launch(begin + 10_000 + late + 5_000 * index, name, end - 305_000 + late, 305_000 - late, stream=20)
        paths.append(trace.write(tmp_path / f"rank{rank}.json"))
    told = compare.report(stoker, "--as", "hta", *paths)
    assert 2 not in told["potential_stragglers"]["ranks"]
    assert differences(stoker, paths) == []
    assert [row for row in told["differences"] if row["what"] == "straggler"][0]["own"] == 2


@pytest.mark.parametrize("words, says", [
    (["--from", "1ms"], "whole profiles"), (["--csv", "kernels"], "--as hta"), (["--html", "page.html"], "--as hta"),
    (["-"], "standard input"), (["--as", "htb"], "htb")])
def test_what_cannot_be_asked(stoker, tmp_path, words, says):
    path = build.random_trace(1).write(tmp_path / "trace.json")
    done = subprocess.run([stoker, "trace", "--as", "hta", *words, *([] if "-" in words else [path])], capture_output=True,
                          text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 2 and says in done.stderr


def test_text_says_where_ours_differ(stoker, tmp_path):
    trace = build.Trace()
    trace.launch(1_000, "kernel", 10_000, 10_000)
    trace.sync("Stream Sync", 30_000, 30_000, 7, 5)
    path = trace.write(tmp_path / "trace.json")
    text = subprocess.run([stoker, "trace", "--as", "hta", path], capture_output=True, text=True, check=True).stdout
    for word in ("Temporal breakdown", "Idle time breakdown", "Kernel types", "Queue length", "Launch statistics",
                 "HTA counts 1 synchronisations"):
        assert word in text
    same = build.Trace()
    same.launch(1_000, "kernel", 10_000, 10_000)
    path = same.write(tmp_path / "same.json")
    text = subprocess.run([stoker, "trace", "--as", "hta", path], capture_output=True, text=True, check=True).stdout
    assert "are the same" in text


def test_a_file_without_gpu_has_no_numbers(stoker, tmp_path):
    trace = build.Trace()
    trace.op("aten::mm", 1_000, 2_000)
    path = trace.write(tmp_path / "trace.json")
    told = compare.report(stoker, "--as", "hta", path)
    assert told["ranks"][0]["temporal_breakdown"] is None and told["kernels"] == []
    assert json.dumps(told)


ROOT = pathlib.Path(__file__).resolve().parents[3]


def schema_problems(told):
    spec = importlib.util.spec_from_file_location("schema_checker", ROOT / "test/unit/trace_report/test_report_json.py")
    checker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(checker)
    schema = json.loads((ROOT / "docs/trace.schema.json").read_text(encoding="utf-8"))
    return list(checker.Checker(schema).wrong(told, schema)), schema


@pytest.mark.parametrize("seed", range(10))
def test_json_follows_the_schema(stoker, tmp_path, seed):
    if seed % 2:
        traces = build.random_job(seed, 2 + seed % 3)
    else:
        traces = [build.random_trace(seed)]
    if seed == 4:  # where HTA stops, and a file without GPU work
        link = traces[0].launch(2_000, "kernel", 10_000, 10_000)
        traces[0].call("cuLaunchKernel", 2_500, 1_000, link)
        traces.append(build.Trace(rank=7))
        traces[-1].op("aten::mm", 1_000, 2_000)
    told = compare.report(stoker, "--as", "hta", *[t.write(tmp_path / f"rank{i}.json") for i, t in enumerate(traces)])
    problems, schema = schema_problems(told)
    assert problems == []
    jsonschema = pytest.importorskip("jsonschema", reason="python3-jsonschema is not installed")
    jsonschema.validate(told, schema)


def test_the_schema_sees_what_is_wrong(stoker, tmp_path):
    told = compare.report(stoker, "--as", "hta", build.random_trace(2).write(tmp_path / "t.json"))
    told["ranks"][0]["more"] = 1
    assert schema_problems(told)[0]


def test_memory_bounds_the_rows(stoker, tmp_path):
    trace = build.Trace()
    for index in range(3000):
        trace.launch(index * 1000, "k", index * 1000 + 500, 100, took=100)
    path = trace.write(tmp_path / "t.json")
    done = subprocess.run([stoker, "trace", "--as", "hta", "--memory", "64KiB", path], capture_output=True, text=True)
    assert done.returncode == 3 and "--memory" in done.stderr
    for words in ([], ["--memory", "0"], ["--memory", "64MiB"]):
        assert compare.report(stoker, "--as", "hta", *words, path)["ranks"][0]["rows"]["gpu"] == 3000
