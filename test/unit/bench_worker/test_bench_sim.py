# SPDX-License-Identifier: Apache-2.0
"""stoker-bench on simulated nodes: every stage on boards of each generation finds nothing where nothing is wrong, gives back what it
held (the library says so), and reports calls that fail."""
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import bench_kit as kit  # noqa: E402

NODE = 'about: for stoker-bench\nnode: {{driver: "590.48.01", seed: 5, start: "2026-01-05T08:00:00Z"}}\ngpus: {{board: {}, count: {}}}\n{}truth: []\n'
ONE = ("gpu", "stages=patterns,memory,probes,gemm,burn", "seconds=1", "windows=2", "shape=2048x2048x2048")


@pytest.fixture
def on_node(build, tmp_path):
    """on_node(BOARD, COUNT, ARGUMENT..., env=, fault=, first=): exit code, records and what was said of a run there. `fault`: of a step
    compute; `first`: for the shell that starts it."""

    def run(board, count, *arguments, env=None, fault=None, first=""):
        step = f"at:\n  - {{time: 0s, do: compute, {fault}}}\n" if fault else ""
        (tmp_path / "node.yaml").write_text(NODE.format(board, count, step), encoding="utf-8")
        one = kit.Worker(build, tmp_path, *arguments, library=None, env={"STOKER_SIM_STRICT": "stderr", **(env or {})})
        one.command = [str(build / "stoker"), "sim", "run", "--speed", "0", "--image", str(tmp_path / "image"), str(tmp_path / "node.yaml"), "--",
                       "sh", "-c", f'exec 3>{one.path}; {first} exec "$0" "$@"', *one.command]
        return one.start().finish()

    return run


@pytest.mark.parametrize("board, most, lacks", [
    ("t4", "mma.int8", "mma.bf16"), ("a100-sxm4-80gb", "mma.bf16", "mma.fp8"), ("l40s", "mma.fp8", "wgmma.bf16"),
    ("h100-sxm-80gb", "wgmma.fp8", "tcgen05.bf16"), ("b200-180gb", "tcgen05.bf16", "wgmma.bf16")])
def test_healthy_boards(on_node, board, most, lacks):
    code, records, err = on_node(board, 1, *ONE)
    assert code == 0 and err == ""
    assert kit.of_kind(records, "error") == []
    assert kit.stages(records)[-1] == "end"
    assert {"memory.read", "memory.latency", "l2.read", "fma.fp32", most} <= kit.measures(records)
    assert lacks not in kit.measures(records)
    for measure in kit.of_kind(records, "measure"):
        sms = [value for value in measure["per_clock"] if value]
        assert not sms or len(sms) == records[1]["sm_count"]


def test_healthy_links(on_node):
    code, records, err = on_node("h100-sxm-80gb", 3, "links", "stages=host,pairs,collectives", "windows=2", "keep_mib=79500")
    assert code == 0 and err == ""
    assert kit.of_kind(records, "error") == []
    pairs = [(m["gpu"], m["peer"]) for m in kit.of_kind(records, "measure") if m["measure"] == "peer"]
    assert pairs == [(i, j) for i in range(3) for j in range(3) if i != j]
    assert {m["gpu"] for m in kit.of_kind(records, "measure") if m["measure"] == "all-reduce"} == {0, 1, 2}


@pytest.mark.parametrize("function, nth, number, stage", [
    ("cuInit", 1, 802, "start"), ("cuDevicePrimaryCtxRetain", 1, 46, "start"), ("cuLaunchKernel", 3, 214, "patterns"),
    ("cuModuleGetFunction", 7, 999, "memory")])
def test_calls_that_fail(on_node, function, nth, number, stage):
    code, records, _ = on_node("h100-sxm-80gb", 1, *ONE, env={"STOKER_SIM_CUDA_FAIL": f"{function}:{nth}:{number}"})
    assert code == 0
    error = kit.of_kind(records, "error")[0]
    assert (error["error"], error["what"], error["code"], error["stage"]) == ("call", function, number, stage)
    assert kit.stages(records)[-1] == "end"
    assert len(kit.of_kind(records, "error")) == 1


def test_it_dies_in_the_middle(on_node):
    """The last record tells where."""
    code, records, _ = on_node("h100-sxm-80gb", 1, *ONE, env={"STOKER_SIM_CUDA_FAIL": "cuEventElapsedTime:30:kill"})
    assert code != 0
    assert kit.stages(records)[-1] in ("patterns", "memory")


# ---- faults of the node ----

H100 = "h100-sxm-80gb"


def value(records, key):
    return next(m for m in kit.of_kind(records, "measure") if m["measure"] == key)


def test_slow_memory(on_node):
    healthy, slow = (on_node(H100, 1, "gpu", "stages=memory", fault=fault)[1] for fault in (None, "gpu: 0, memory: 0.94"))
    for key in ("memory.read", "memory.write", "memory.triad"):
        assert value(slow, key)["samples"][0] / value(healthy, key)["samples"][0] == pytest.approx(0.94, abs=0.002)


def test_slow_sm(on_node):
    _, records, _ = on_node(H100, 1, "gpu", "stages=probes", "probes=fma.fp32", fault="gpu: 0, sm: 17, speed: 0.8")
    per_clock = value(records, "fma.fp32")["per_clock"]
    assert per_clock[17] / per_clock[16] == pytest.approx(0.8, abs=0.002)
    assert not kit.of_kind(records, "error")


def test_missing_sm(on_node):
    _, records, _ = on_node(H100, 1, "gpu", "stages=probes", "probes=fma.fp32", fault="gpu: 0, sm_missing: 40")
    error = kit.of_kind(records, "error")[0]
    assert (error["error"], error["want"], error["got"]) == ("missing-sm", 132, 131)
    assert value(records, "fma.fp32")["per_clock"][40] == 0


@pytest.mark.parametrize("stages", ["stages=probes", "stages=gemm", "stages=burn"])
def test_wrong_sm(on_node, stages):
    _, records, _ = on_node(H100, 1, "gpu", stages, "seconds=3", fault="gpu: 0, wrong: 1.0e-9, wrong_sm: 9, repeats: yes")
    errors = kit.of_kind(records, "error")
    assert errors and {(e["error"], e["sm"]) for e in errors} == {("miscompare", 9)}


def test_rare_wrong_results(on_node):
    """Too rare for short probes: the burn finds them, and names the SM."""
    fault = "gpu: 0, wrong: 1.0e-12, wrong_sm: 77"
    _, records, _ = on_node(H100, 1, "gpu", "stages=burn", "seconds=8", fault=fault)
    errors = kit.of_kind(records, "error")
    assert errors and {(e["error"], e["sm"], e["repeats"], e["measure"]) for e in errors} == {("miscompare", 77, 0, "burn")}


def test_bad_address(on_node):
    _, records, _ = on_node(H100, 1, "gpu", "stages=patterns", fault="gpu: 0, bad_address: 30000001024")
    errors = kit.of_kind(records, "error")
    assert errors and {(e["error"], e["stage"], e["repeats"], e["count"]) for e in errors} == {("miscompare", "patterns", 1, 1)}
    assert len({e["address"] for e in errors}) == 1
    assert 25e9 < errors[0]["address"] < 31e9


def test_memory_held_by_nobody(on_node):
    _, records, _ = on_node(H100, 1, "gpu", "stages=patterns,memory", fault="gpu: 0, out_of_memory_at: 0.6")
    error = kit.of_kind(records, "error")[0]
    assert (error["error"], error["stage"]) == ("less-memory", "patterns") and 0.5 < error["got"] / error["want"] < 0.7
    assert "memory.read" in kit.measures(records)


def test_uncorrectable_error(on_node):
    _, records, _ = on_node(H100, 1, *ONE, fault="gpu: 0, cuda: 214, after: 20")
    error = kit.of_kind(records, "error")
    assert [(e["error"], e["code"], e["stage"]) for e in error] == [("call", 214, "patterns")]
    assert kit.stages(records) == ["start", "patterns", "end"]


def test_kernel_text_too_new(on_node):
    _, records, _ = on_node(H100, 1, *ONE, fault="gpu: 0, cuda: 222")
    assert kit.of_kind(records, "error")[0]["code"] == 222
    assert kit.stages(records) == ["start", "end"]


LINKS = ("links", "stages=pairs,collectives", "windows=2", "keep_mib=79500")


def test_no_access(on_node):
    _, records, _ = on_node(H100, 4, *LINKS, fault="gpu: 1, peer: 3, access: none")
    errors = kit.of_kind(records, "error")
    assert sorted((e["gpu"], e["peer"]) for e in errors if e["error"] == "no-peer") == [(1, 3), (3, 1)]
    assert {e["error"] for e in errors} == {"no-peer", "staged"}


def test_staged(on_node):
    _, records, _ = on_node(H100, 4, *LINKS, fault="gpu: 1, peer: 3, access: staged")
    rates = {(m["gpu"], m["peer"]): m["samples"][0] for m in kit.of_kind(records, "measure") if m["measure"] == "peer"}
    assert rates[1, 3] < rates[1, 2] / 5


def test_corrupt_pair(on_node):
    _, records, _ = on_node(H100, 4, *LINKS, fault="gpu: 1, peer: 3, access: corrupt")
    errors = kit.of_kind(records, "error")
    pairs = [e for e in errors if e["stage"] == "pairs"]
    assert pairs and {(e["error"], e["gpu"], e["peer"], e["path"]) for e in pairs} == {("miscompare", 1, 3, 1)}
    assert {e["error"] for e in errors} == {"miscompare"}
    assert (1, 3) in {(e["gpu"], e["peer"]) for e in errors if e["stage"] == "collectives"} <= {(1, 3), (3, -1)}


def test_mig_device(on_node, build, tmp_path):
    board = "h100-sxm-80gb, mig: [3g.40gb, 1g.10gb]"
    (tmp_path / "mig.yaml").write_text(NODE.format(board, 1, ""), encoding="utf-8")
    listed = subprocess.run([build / "stoker", "sim", "run", "--image", tmp_path / "listed", tmp_path / "mig.yaml", "--", "nvidia-smi", "-L"],
                            capture_output=True, text=True, check=True).stdout
    uuid = re.findall(r"UUID: (MIG-[0-9a-f-]+)", listed)[1]
    code, records, err = on_node(board, 1, *ONE, env={"CUDA_VISIBLE_DEVICES": uuid})
    assert code == 0 and err == "" and not kit.of_kind(records, "error")
    assert records[1]["uuid"] == uuid and records[1]["sm_count"] < 30
    code, records, err = on_node(board, 1, "links", "stages=host", env={"CUDA_VISIBLE_DEVICES": uuid})
    assert code == 3 and records == []


def test_victim_and_neighbour(on_node):
    """Both sides of the test of neighbours; a neighbour that nobody stops ends by itself."""
    code, records, err = on_node(H100, 1, "gpu", "stages=fresh,victim", "windows=2")
    assert code == 0 and err == "" and not kit.of_kind(records, "error")
    assert {"memory.foreign", "memory.read", "l2.read", "mma.bf16", "host.to", "launch", "launch.p99"} <= kit.measures(records)
    assert value(records, "memory.foreign")["samples"] == [0] and value(records, "launch")["samples"][0] > 0
    for flood, key in ("memory", "memory.read"), ("l2", "l2.read"), ("compute", "mma.bf16"), ("copy", "host.to"):
        code, records, err = on_node(H100, 1, "gpu", "stages=fill,flood", f"flood={flood}", "seconds=1")
        assert code == 0 and err == "" and kit.stages(records) == ["start", "fill", "flood", "end"]
        assert value(records, key)["samples"][0] > 0


# ---- the vendor's library ----

LIBRARY = ("gpu", "stages=library", "windows=2")
FUNCTIONS = re.findall(r"^ *FUNCTION\((cublasLt\w+),", (Path(__file__).resolve().parents[3] / "sim/cuda/abi/cublaslt_abi.h").read_text(), re.M)


@pytest.mark.parametrize("board, share", [("a100-sxm4-80gb", 1), ("h100-sxm-80gb", 0.64), ("b200-180gb", 0.5)])
def test_rate_of_the_library(on_node, board, share):
    """Both reach 80 % of the peak, ours of that of mma.sync."""
    code, records, err = on_node(board, 1, "gpu", "stages=gemm,library", "windows=2")
    assert code == 0 and err == "" and not kit.of_kind(records, "error")
    ours, theirs = value(records, "gemm.bf16"), value(records, "gemm.library")
    assert ours["samples"][0] / theirs["samples"][0] == pytest.approx(share, rel=0.02)
    assert len(theirs["samples"]) == 2 and theirs["bytes"] == ours["bytes"]


def test_no_bf16_no_product(on_node):
    code, records, err = on_node("t4", 1, *LIBRARY)
    assert code == 0 and err == "" and kit.stages(records)[-1] == "end" and kit.measures(records) == {"context"}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_each_call_of_the_library_fails(on_node, function):
    _, records, _ = on_node(H100, 1, *LIBRARY, env={"STOKER_SIM_CUBLASLT_FAIL": f"{function}:1:13"})
    assert [(e["error"], e["what"], e["code"], e["stage"]) for e in kit.of_kind(records, "error")] == [("call", function, 13, "library")]
    assert ("gemm.library" in kit.measures(records)) == (function == "cublasLtDestroy")


def test_the_library_is_wrong(on_node):
    _, records, _ = on_node(H100, 1, *LIBRARY, env={"STOKER_SIM_CUBLASLT_FAIL": "cublasLtMatmul:1:wrong"})
    assert [(e["error"], e["measure"], e["count"]) for e in kit.of_kind(records, "error")] == [("miscompare", "gemm.library", 1)]
    assert "gemm.library" not in kit.measures(records)


def test_the_library_ends_the_process(on_node):
    code, records, _ = on_node(H100, 1, *LIBRARY, env={"STOKER_SIM_CUBLASLT_FAIL": "cublasLtMatmul:2:kill"})
    assert code != 0 and kit.stages(records)[-1] == "library" and kit.measures(records) == {"context"}


@pytest.mark.parametrize("libraries, outcome", [
    ({}, None), ({12: "ours"}, "rate"), ({11: "ours"}, "rate"), ({13: "ours", 12: "other"}, "rate"), ({12: "ours", 11: "other"}, "rate"),
    ({13: "other", 12: "ours"}, "cublasLtCreate")])
def test_which_library(on_node, build, tmp_path, libraries, outcome):
    """The newest that can be loaded; one that lacks a function is not passed over. The machine may have others: they are hidden."""
    ours = build / "sim/nvml/r590"
    files = {"ours": ours / "libcublasLt.so.13", "other": build / "test/unit/bench_worker/libfake_cuda.so", "none": "/dev/null"}
    for version in 11, 12, 13:
        (tmp_path / f"libcublasLt.so.{version}").symlink_to(files[libraries.get(version, "none")])
    _, records, err = on_node(H100, 1, *LIBRARY, f"library={ours / 'libcuda.so.1'}", first=f"export LD_LIBRARY_PATH={tmp_path};")
    assert ("gemm.library" in kit.measures(records)) == (outcome == "rate")
    assert [(e["what"], e["code"]) for e in kit.of_kind(records, "error")] == ([(outcome, 500)] if outcome and outcome != "rate" else []), err
