# SPDX-License-Identifier: Apache-2.0
"""The vendor's library beside our own product: whatever it does, the result of the GPU's test is the same."""
import os
import signal
import subprocess
import time

import pytest

FIT = 0
MATMUL = ("matmul", "--type", "mma.bf16")


def library_fails(what, function="cublasLtMatmul:1"):
    return {"STOKER_SIM_CUBLASLT_FAIL": f"{function}:{what}"}


def measured(result):
    return {(m["measure"], m["gpu"]) for m in result.run["measures"]}


def text_of(node, env=None):
    process = node.start(*MATMUL, "--alone", "--limit", "10m", env=env)
    out, _ = process.communicate(timeout=200)
    assert process.returncode == FIT, out
    return out


def test_it_is_a_column(bench_node):
    node = bench_node(count=2)
    result = node.bench(*MATMUL)
    assert result.code == FIT and result.run["verdict"] == "fit" and not result.run["findings"]
    assert {("gemm.library", 0), ("gemm.library", 1), ("gemm.bf16", 1)} <= measured(result)
    assert [gpu["library_error"] for gpu in result.run["gpus"]] == [None, None]
    text = text_of(node)
    assert "cuBLASLt" in text.splitlines()[2] and "no rate" not in text


def test_without_it_nothing_is_said(bench_node):
    node = bench_node(count=1)
    hidden = node.folder / "hidden"
    hidden.mkdir()
    for version in 11, 12, 13:
        (hidden / f"libcublasLt.so.{version}").symlink_to("/dev/null")  # the machine may have one
    script = f'LD_LIBRARY_PATH={hidden}:$LD_LIBRARY_PATH exec "$0" bench "$@"'
    for more in ["--json"], []:
        said = subprocess.run([*node.sim(), "sh", "-c", script, node.build / "stoker", *MATMUL, "--alone", *more],
                              capture_output=True, text=True, timeout=200, check=True).stdout
        assert "gemm.bf16" in said or not more
        assert "gemm.library" not in said and "cuBLASLt" not in said and '"library_error":"' not in said


@pytest.mark.parametrize("what, why", [
    ("7", "cublasLtMatmul failed with status 7"), ("kill", "its process ended (signal 9)"), ("wrong", "1 wrong value in its first result")])
def test_it_fails(bench_node, what, why):
    """No rate, a line that says why, and nothing else."""
    node = bench_node(count=2)
    healthy, result = node.bench(*MATMUL), node.bench(*MATMUL, env=library_fails(what))
    assert result.code == FIT and result.run["verdict"] == "fit" and not result.run["findings"] and not result.run["errors"]
    assert measured(result) == {one for one in measured(healthy) if one[0] != "gemm.library"}
    assert [gpu["library_error"] for gpu in result.run["gpus"]] == [why, why]
    assert f"\ncuBLASLt  no rate: {why}\n" in text_of(node, library_fails(what))


def test_an_end_after_its_rate_leaves_the_rate(bench_node):
    result = bench_node(count=1).bench(*MATMUL, env=library_fails("kill", "cublasLtDestroy:1"))
    assert result.code == FIT and ("gemm.library", 0) in measured(result) and result.run["gpus"][0]["library_error"] is None


def test_of_one_gpu(bench_node):
    """Ours names the SM; the library's wrong value is no finding of its own."""
    result = bench_node(count=2, steps="{time: 0s, do: compute, gpu: 1, wrong: 1.0e-6, wrong_sm: 9, repeats: yes}").bench(*MATMUL)
    assert {finding["symptom"] for finding in result.run["findings"]} == {"wrong-values"}
    assert result.run["gpus"][0]["library_error"] is None and "wrong values" in result.run["gpus"][1]["library_error"]


def test_none_where_the_test_failed(bench_node):
    """Nothing to compare with: no second complaint."""
    result = bench_node(count=1).bench(*MATMUL, env={"STOKER_SIM_CUDA_FAIL": "cuMemAlloc_v2:1:999"})
    assert result.run["verdict"] == "unknown" and result.run["gpus"][0]["library_error"] is None and len(result.run["findings"]) == 1


@pytest.mark.slow("waits for the end of a time limit")
def test_it_hangs(bench_node):
    result = bench_node(count=1).bench(*MATMUL, env=library_fails("hang"), limit="5m")
    assert result.code == FIT and not result.run["findings"] and not result.run["errors"]
    assert result.run["gpus"][0]["library_error"] == "no answer within its time"


def pids_with(word, node):
    """Processes of the node with a word in their arguments."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as arguments, open(f"/proc/{entry}/environ", "rb") as env:
                if word.encode() in arguments.read().split(b"\0") and f"STOKER_SIM={node.folder / 'image'}".encode() in env.read().split(b"\0"):
                    found.append(int(entry))
        except OSError:
            pass
    return found


def test_it_is_interrupted(bench_node):
    """An XID and Ctrl-C while the library runs are no part of the test, which was over."""
    node = bench_node(count=1)
    process = node.start(*MATMUL, "--alone", env=library_fails("hang"))
    while process.poll() is None and not pids_with("stages=library", node):
        time.sleep(0.05)
    subprocess.run([node.build / "stoker", "sim", "inject", "--image", node.folder / "image", "xid", "gpu=0", "code=31"], check=True, timeout=60)
    time.sleep(1)  # in which it would be seen
    os.kill(pids_with("bench", node)[0], signal.SIGINT)
    out, err = process.communicate(timeout=200)
    assert process.returncode == FIT and "Nothing was found" in out and "no rate: stopped before its end" in out, out + err
