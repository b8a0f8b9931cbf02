# SPDX-License-Identifier: Apache-2.0
"""FLOPs by shape, modules of both passes, and what moved between two profiles, from files as PyTorch writes them."""
import re

import pytest

import build

HALF = ["c10::Half", "c10::Half"]


def training(path, gemm="sm90_xmma_gemm_f16", took=10_000, wrapped=False, shapes=True):
    """Two steps of 1 ms: a Linear of 1000 x 1000 x 1000 (2 GFLOP), and its gradient of the same size on another thread."""
    trace = build.Trace()
    trace.HEAD = {"schemaVersion": 1, "deviceProperties": [
        {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_000_000_000, "computeMajor": 9, "computeMinor": 0, "numSms": 132}]}
    inputs = {"Input Dims": [[1000, 1000], [1000, 1000]], "Input type": HALF} if shapes else {}
    for step in range(2):
        at, ids = step * 1_000_000, step * 10
        trace.step(step, at, 900_000)
        trace.host("python_function", "train.py(7): step", at + 1000, 800_000)
        if wrapped:
            trace.host("python_function", "nn.Module: Wrapper_0", at + 2000, 100_000)
        trace.host("python_function", "nn.Module: Net_0", at + 3000, 90_000)
        trace.host("python_function", "nn.Module: Linear_0", at + 4000, 80_000)
        trace.op("aten::mm", at + 5000, 50_000, **{"External id": ids + 1, "Sequence number": ids, "Fwd thread id": 0, **inputs})
        trace.launch(at + 6000, gemm, at + 20_000, took)
        trace.op("MmBackward0", at + 200_000, 90_000, tid=2, **{"External id": ids + 2, "Sequence number": ids, "Fwd thread id": 1})
        trace.op("aten::mm", at + 210_000, 50_000, tid=2, **{"External id": ids + 3, **inputs})
        trace.launch(at + 220_000, gemm, at + 240_000, took, tid=2)
    return trace.write(path)


@pytest.fixture
def first_rank(trace):
    return lambda path: trace.report(path)["ranks"][0]


def test_arithmetic_and_its_share_of_the_board(first_rank, tmp_path):
    rank = first_rank(training(tmp_path / "p.json"))
    (row,) = rank["shapes"]
    assert (row["name"], row["count"], row["total_ns"], row["flops"], row["type"]) == ("aten::mm", 4, 40_000, 2e9, "fp16")
    assert row["tflops"] == pytest.approx(200)
    assert row["peak_percent"] == pytest.approx(100 * 200 / 989)
    assert rank["roof"]["board"] == "H100 SXM" and rank["roof"]["flops_per_step"] == 4e9
    assert rank["steps"][0]["devices"][0]["mfu_percent"] == pytest.approx(100 * 4e9 / 989e12 / 1e-3)


def test_without_shapes_the_option_is_named(trace, first_rank, tmp_path):
    path = training(tmp_path / "p.json", shapes=False)
    rank = first_rank(path)
    assert rank["shapes"] == [] and rank["roof"]["mfu_percent"] is None and rank["roof"]["known_ns"] == 0
    assert "FLOPs are not known: shapes were not recorded (record_shapes=True)" in trace(path).stdout.decode()


def test_both_passes_are_in_the_module(trace, first_rank, tmp_path):
    path = training(tmp_path / "p.json.gz")
    rank = first_rank(path)
    assert [(m["name"], m["total_ns"], m["own_ns"], m["backward_ns"], m["calls"]) for m in rank["modules"]] == [
        ("Net_0", 40_000, 0, 20_000, 2), ("Net_0/Linear_0", 40_000, 40_000, 20_000, 2)]
    assert [(o["operator"], o["line"], o["backward"], o["total_ns"]) for o in rank["origins"]] == [
        ("aten::mm", "train.py(7): step", False, 20_000), ("aten::mm", "train.py(7): step", True, 20_000)]
    assert rank["kernels"][0]["operator"] == "aten::mm" and rank["kernels"][0]["line"] == "train.py(7): step"
    assert "100.0 % of GPU time is in a module" in trace(path).stdout.decode()


NET = "TOP(Net)::forward."


def scripted(path, python=False):
    """A TorchScript model: with_modules=True writes the modules around an operator as one of its arguments. The second
    mm is in a function of the same module; the last one is called outside of all."""
    trace, places = build.Trace(), [NET + "fc1(Linear)::forward.", "TOP(Net)::forward.SELF(Net)::inner.fc1(Linear)::forward", NET, ""]
    for number, place in enumerate(places):
        at = 100_000 * number
        if python and place:
            trace.host("python_function", "nn.Module: Other_0", at, 60_000)
        more = {"Module Hierarchy": place} if place else {}
        trace.op("aten::mm", at + 1000, 50_000, **{"External id": number + 1, "Sequence number": number, "Fwd thread id": 0, **more})
        trace.op("aten::mm_inner", at + 2000, 30_000, **{"External id": 50 + number})
        trace.launch(at + 3000, "gemm", at + 20_000, 10_000)
    trace.op("MmBackward0", 600_000, 90_000, tid=2, **{"External id": 90, "Sequence number": 0, "Fwd thread id": 1})
    trace.launch(610_000, "gemm", 640_000, 5_000, tid=2)
    return trace.write(path)


def test_modules_that_operators_name(trace, first_rank, tmp_path):
    rank = first_rank(scripted(tmp_path / "p.json"))
    assert [(m["name"], m["total_ns"], m["own_ns"], m["backward_ns"], m["kernel_count"]) for m in rank["modules"]] == [
        ("TOP(Net)", 35_000, 10_000, 5_000, 1), ("TOP(Net)/fc1(Linear)", 25_000, 25_000, 5_000, 3)]
    assert {o["module"]: o["total_ns"] for o in rank["origins"] if not o["backward"]} == {
        "TOP(Net)/fc1(Linear)": 20_000, "TOP(Net)": 10_000, None: 10_000}
    assert re.search(r" - +TOP\(Net\)$", trace(tmp_path / "p.json").stdout.decode(), re.M)
    assert trace.report(scripted(tmp_path / "p.json"), "--threads", "2")["ranks"][0]["modules"] == rank["modules"]


def test_events_of_modules_go_before_what_operators_name(first_rank, tmp_path):
    rank = first_rank(scripted(tmp_path / "p.json", python=True))
    assert {m["name"] for m in rank["modules"]} == {"Other_0"}


def test_a_difference_sees_new_names_and_places(trace, tmp_path):
    before, after = training(tmp_path / "a.json"), training(tmp_path / "b.json", "nvjet_hsh_128x256", 15_000, wrapped=True)
    diff = trace.report("diff", before, after)["diff"]
    (kernel,), (module,) = diff["kernels"], diff["modules"]
    assert (kernel["name"], kernel["was"]) == ("nvjet_hsh_128x256", "sm90_xmma_gemm_f16")
    assert (kernel["per_step_before_ns"], kernel["per_step_after_ns"]) == (20_000, 30_000)
    assert (module["name"], module["was"]) == ("Wrapper_0/Net_0/Linear_0: aten::mm", "Net_0/Linear_0: aten::mm")
