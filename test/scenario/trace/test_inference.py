# SPDX-License-Identifier: Apache-2.0
"""Steps of inference engines: what their names say, and times of decode steps worked out by hand."""
import build
import pytest

SCHEDULE = "vllm/v1/core/sched/scheduler.py(180): schedule"
US = 1000


def serve(path, sizes=(4, 4, 3, 4), prompt="execute_context_2(100)_generation_0(0)", late=0, frame=SCHEDULE, wrapped=False):
    """A prefill of 1 ms, then decode steps of 1 ms: a copy at 0.2 ms, a kernel from 0.3 to 0.9 ms; of 3 sequences without a
    graph. The GPU waits 0.39 ms between two, while the host is in `frame`; `late` ns more before each kernel but the first."""
    trace = build.Trace()
    trace.host("user_annotation", prompt, 0, 500 * US)
    trace.launch(10 * US, "prompt_kernel", 20 * US, 880 * US)
    for number, size in enumerate(sizes, 1):
        at = number * (1000 * US + late)
        if wrapped:
            trace.step(number, at, 900 * US)
        if frame:
            trace.host("python_function", frame, at - 150 * US - late, 130 * US + late)
        trace.host("user_annotation", f"execute_context_0(0)_generation_{size}({size})", at, 500 * US)
        trace.launch(at + 50 * US, "Memcpy HtoD (Pinned -> Device)", at + 200 * US, 10 * US, call="cudaMemcpyAsync", bytes=64)
        trace.launch(at + 100 * US, "decode_kernel", at + 300 * US, 600 * US, call="cudaLaunchKernel" if size == 3 else "cudaGraphLaunch")
    return trace.write(path)


@pytest.fixture
def first_rank(trace):
    return lambda path, *words: trace.report(path, *words)["ranks"][0]


NAMES = [
    ("execute_context_2(6144)_generation_3(3)", "mixed", 5, 6147),
    ("execute_context_0(0)_generation_64(128)", "decode", 64, 128),
    ("execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)", "decode", 32, 32),
    ("execute_16_context_1(sq16sk16sqsq256sqsk256)_generation_0(sq0sk0sqsq0sqsk0)", "prefill", 1, 16),
    ("execute_new_2_cached_0", "prefill", 2, None),
    ("execute_new_0_cached_7", "decode", 7, 7),
    ("execute_new_1_cached_7", "mixed", 8, None),
    ("step[DECODE bs=32]", "decode", 32, 32),
    ("step[EXTEND bs=2 toks=14721]", "prefill", 2, 14721),
    ("step[MIXED bs=2]", "mixed", 2, None),
    ("step[TARGET_VERIFY bs=3]", "decode", 3, None),
    ("[Executor] _forward_step 12: 1 ctx reqs, 500 ctx tokens, 0 gen reqs", "prefill", 1, 500),
    ("[Executor] _forward_step 12: 0 ctx reqs, 0 ctx tokens, 32 gen reqs", "decode", 32, 32),
    ("[Executor] _forward_step 12: 1 ctx reqs, 8 gen reqs", "mixed", 9, None),
    ("[Executor] _forward_step: 0 ctx reqs, 8 gen reqs", "decode", 8, 8),
]


@pytest.mark.parametrize("name, kind, sequences, tokens", NAMES, ids=[row[0] for row in NAMES])
def test_a_name_says_kind_sequences_and_tokens(first_rank, tmp_path, name, kind, sequences, tokens):
    (step, *_) = first_rank(serve(tmp_path / "p.json", prompt=name))["steps"]
    assert (step["name"], step["number"], step["kind"], step["sequences"], step["tokens"]) == (name, 0, kind, sequences, tokens)


@pytest.mark.parametrize("name", ["execute_context_0(0)_generation_0(0)", "execute_context_2(6)_generation_3(3) more", "step[IDLE bs=0]",
                                  "execute_context_2(6)", "step[DECODE bs=]", "step[DECODE bs=9999999999]", "execute_new_2_cached_"])
def test_what_is_near_is_none(first_rank, tmp_path, name):
    rank = first_rank(serve(tmp_path / "p.json", sizes=(), prompt=name))
    assert rank["steps"] == [] and rank["inference"] == []


def test_times_worked_out_by_hand(first_rank, tmp_path):
    rank = first_rank(serve(tmp_path / "p.json"))
    prefill, decode = rank["inference"]
    assert [step["number"] for step in rank["steps"]] == [0, 1, 2, 3, 4]
    assert (prefill["kind"], prefill["steps"], prefill["tokens"], prefill["tokens_per_second"]) == ("prefill", 1, 100, 100_000)
    assert prefill["token_ns"] is None and prefill["between_count"] == 0 and prefill["between_mean_ns"] is None
    total = 3 * 1_000_000  # the last one has no step behind it
    assert (decode["steps"], decode["timed"], decode["total_ns"], decode["mean_ns"], decode["token_ns"]) == (4, 3, total, 1e6, 1e6)
    assert (decode["median_ns"], decode["p99_ns"]) == (1_000_000, 1_000_000)
    assert (decode["sequences_min"], decode["sequences_max"], decode["mean_sequences"], decode["tokens"]) == (3, 4, 3.75, 15)
    assert decode["tokens_per_second"] == pytest.approx(11 / 0.003)
    assert decode["idle_ns"] == total + 900 * US - 4 * 610 * US
    assert (decode["between_count"], decode["between_ns"], decode["between_mean_ns"]) == (3, 3 * 390 * US, 390 * US)
    assert (decode["gpu_ns"], decode["graph_ns"], decode["graph_steps"]) == (4 * 610 * US, 3 * 600 * US, 3)
    assert decode["graph_percent"] == pytest.approx(100 * 1800 / 2440) and decode["eager_sequences"] == "3"
    assert sum(gap["total_ns"] for gap in rank["decode_gaps"]) == decode["between_ns"]
    assert rank["decode_gaps"][0] == {"name": SCHEDULE, "count": 3, "total_ns": 3 * 300 * US}


def test_more_tokens_than_sequences_have_no_time_per_token(first_rank, tmp_path):
    trace = build.Trace()
    for number in range(3):
        trace.host("user_annotation", "execute_context_0(0)_generation_2(6)", number * 1_000_000, 500_000)
        trace.launch(number * 1_000_000 + 1000, "k", number * 1_000_000 + 5000, 900_000)
    (decode,) = first_rank(trace.write(tmp_path / "p.json"))["inference"]
    assert decode["tokens"] == 18 and decode["token_ns"] is None


def test_a_step_alone_has_no_time(trace, first_rank, tmp_path):
    path = serve(tmp_path / "p.json", sizes=(), prompt="step[DECODE bs=8]")
    (decode,) = first_rank(path)["inference"]
    assert (decode["steps"], decode["tokens"], decode["timed"], decode["mean_ns"], decode["median_ns"]) == (1, 8, 0, None, None)
    assert decode["tokens_per_second"] is None and decode["token_ns"] is None and decode["graph_percent"] == 0
    assert [v["id"] for v in trace.report(path)["verdicts"]] == ["gpu-well-used"]


def test_profiler_steps_come_first(first_rank, tmp_path):
    rank = first_rank(serve(tmp_path / "p.json", wrapped=True))
    assert [step["number"] for step in rank["steps"]] == [1, 2, 3, 4] and rank["inference"] == []
    assert all(step["kind"] is None and step["tokens"] is None for step in rank["steps"])


def test_the_wait_between_decode_steps_is_a_verdict_of_its_own(trace, tmp_path):
    path = serve(tmp_path / "p.json", sizes=(4, 4, 3, 4) * 3, late=600 * US)
    report = trace.report(path, codes=(1,))
    verdicts = {verdict["id"]: verdict for verdict in report["verdicts"]}
    first, mean = report["verdicts"][0], report["step_ns"]
    gaps = 11 * 900 * US  # of 0.99 ms, the part behind the copy is queued
    assert first["id"] == "decode-gap" and "python" not in verdicts and "launch-bound" not in verdicts
    assert first["cost_ns"] == pytest.approx(gaps / 13, rel=0.001) and first["percent_of_step"] == pytest.approx(100 * gaps / 13 / mean)
    assert SCHEDULE in first["evidence"] and "3 of 12 decode steps launched no CUDA graph, those of 3 sequences" in first["evidence"]
    assert "--async-scheduling" in first["advice"] and "cudagraph_capture_sizes" in first["advice"]


def test_a_part_of_them_can_be_chosen_and_cut(trace, first_rank, tmp_path):
    path = serve(tmp_path / "p.json")
    chosen = first_rank(path, "--step", "2-3")
    assert [step["sequences"] for step in chosen["steps"]] == [4, 3]
    assert trace("cut", path, "--step", "2-3", "-o", tmp_path / "c.json").returncode == 0
    assert first_rank(tmp_path / "c.json")["inference"] == chosen["inference"]


def test_the_text_has_a_row_per_kind(trace, tmp_path):
    text = trace(serve(tmp_path / "p.json"), "--width", 140).stdout.decode()
    table = text.split("Inference", 1)[1].split("\n\n", 1)[0]
    assert "prefill" in table and "73.8 %" in table and "scheduler.py" in table and "of 3 sequences" in table
