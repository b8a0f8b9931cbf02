# SPDX-License-Identifier: Apache-2.0
"""Where the host was, as verdicts name it."""
import build
import compare


def waiting(inside):
    """Steps of 1 ms: a kernel of 300 us that is waited for, then 400 us in which only the step's range runs."""
    trace = build.Trace()
    for number in range(4):
        at = number * 1_000_000
        trace.step(number, at, 990_000)
        trace.launch(at + 10_000, "gemm", at + 20_000, 300_000)
        if inside:
            trace.op(inside, at + 30_000, 300_000)
            trace.op("aten::_local_scalar_dense", at + 31_000, 298_000)
        trace.call("cudaStreamSynchronize", at + 40_000, 285_000, 9000 + number)
        trace.launch(at + 720_000, "gemm", at + 730_000, 200_000)
    return trace


def evidence(stoker, path):
    report = compare.report(stoker, path)
    return next(v for v in report["verdicts"] if v["id"] == "synchronisation")["evidence"], report["ranks"][0]


def test_a_synchronisation_names_the_operator_that_waited(stoker, tmp_path):
    text, rank = evidence(stoker, waiting("aten::item").write(tmp_path / "t.json"))
    assert "the host was in aten::_local_scalar_dense (1.64 ms in 4 gaps)" in text and "ProfilerStep" not in text
    gaps = [gap for gap in rank["gaps"] if gap["cause"] == "synchronisation"]
    assert len(gaps) == 4 and all(gap["host_ns"] == gap["end_ns"] - gap["start_ns"] for gap in gaps)


def test_without_an_operator_it_names_the_call(stoker, tmp_path):
    text, _ = evidence(stoker, waiting(None).write(tmp_path / "t.json"))
    assert "the host was in cudaStreamSynchronize" in text and "ProfilerStep" not in text


def test_what_ran_in_the_gap_is_named_first(stoker, tmp_path):
    trace = waiting("aten::item")
    for number in range(4):
        trace.op("my::preprocess", number * 1_000_000 + 340_000, 370_000)
    text, _ = evidence(stoker, trace.write(tmp_path / "t.json"))
    assert "the host was in my::preprocess" in text


def test_a_gap_of_another_cause_keeps_its_range(stoker, tmp_path):
    trace = build.Trace()
    for number in range(4):
        at = number * 1_000_000
        trace.step(number, at, 990_000)
        trace.launch(at + 10_000, "gemm", at + 20_000, 100_000)
        trace.launch(at + 720_000, "gemm", at + 730_000, 200_000)
    rank = compare.report(stoker, trace.write(tmp_path / "t.json"))["ranks"][0]
    assert {gap["host"] for gap in rank["gaps"] if gap["cause"] == "host_bound"} <= {f"ProfilerStep#{n}" for n in range(4)}
