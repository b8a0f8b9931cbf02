# SPDX-License-Identifier: Apache-2.0
"""However a test ends, it ends: no process and no lock is left, and what it could not tell it does not call fit."""
import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "agent"))
from agent_rig import until  # noqa: E402

FIT, FINDING, USAGE, UNKNOWN = 0, 1, 2, 3
ONE = "matmul --gpu 0 --type fma.fp32"


def processes_of(node):
    """Pids of what still runs on the simulated node."""
    mark = f"STOKER_SIM={node.folder / 'image'}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if mark in file.read().split(b"\0"):
                        found.append(int(entry))
            except OSError:
                pass
    return found


def arguments_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
            return file.read().split("\0")
    except OSError:
        return []


def env_of(pid):
    with open(f"/proc/{pid}/environ", encoding="utf-8") as file:
        return dict(line.split("=", 1) for line in file.read().split("\0") if "=" in line)


def workers_of(node):
    return [pid for pid in processes_of(node) if os.path.basename("".join(arguments_of(pid)[:1])) == "stoker-bench"]


def await_no_process(node):
    until(lambda: not processes_of(node), lambda: f"still there: {processes_of(node)}")


def traced(bench_node, rung):
    """The functions of libcuda that a healthy run calls, without what the vendor's library adds."""
    node = bench_node(count=2)
    trace = node.folder / "trace"
    result = node.bench(*rung.split(), env={"STOKER_SIM_CUDA_TRACE": str(trace), "STOKER_SIM_CUBLASLT_FAIL": "cublasLtCreate:1:1"})
    assert result.code == FIT, result.texts() + result.err
    return sorted({line.split()[0] for line in trace.read_text(encoding="ascii").splitlines()})


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow("each call of CUDA, each end"))


@pytest.mark.parametrize("rung, what", [(ONE, "999"), (ONE, "kill"), slow(ONE, "hang"), slow("links", "999"), slow("links", "kill"), slow("links", "hang"),
                                        slow("memory --gpu 0", "999"), slow("memory --gpu 0", "kill"), slow("memory --gpu 0", "hang")])
def test_each_call_fails(bench_node, rung, what):
    names = traced(bench_node, rung)
    limit = "4s" if what == "hang" else "10m"
    assert len(names) > 30

    def fail(name):
        node = bench_node(count=2, under=name)
        return name, node, node.bench(*rung.split(), env={"STOKER_SIM_CUDA_FAIL": f"{name}:1:{what}"}, limit=limit)

    with ThreadPoolExecutor(8) as pool:
        for name, node, result in pool.map(fail, names):
            print(name, result.code, result.run.get("verdict"), result.texts().replace("\n", " | "))
            assert result.code == UNKNOWN and result.run["verdict"] == "unknown", (name, result.err, result.texts())
            assert not processes_of(node), name


# ---- signals ----

def start_burn(node):
    """Its process, the pid of `stoker bench`, once both of those that test are there."""
    process = node.start("burn", "60s", "--alone", "--json")
    until(lambda: len(workers_of(node)) == 2, lambda: workers_of(node))
    return process, next(pid for pid in processes_of(node) if arguments_of(pid)[1:2] == ["bench"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_is_interrupted(bench_node, number):
    """It says what it has, ends within its own time, and a next one may begin."""
    node = bench_node(count=2, speed=1)
    process, bench = start_burn(node)
    os.kill(bench, number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == UNKNOWN and "interrupted" in out, err
    await_no_process(node)


def test_its_parent_is_killed(bench_node):
    """Its processes end with it, and its lock is free."""
    node = bench_node(count=2, speed=1)
    process, bench = start_burn(node)
    os.kill(bench, signal.SIGKILL)
    process.communicate(timeout=60)
    await_no_process(node)


PTRACE_DETACH, PTRACE_SEIZE, PTRACE_O_TRACEEXIT = 17, 0x4206, 0x40


def test_its_process_cannot_be_killed(bench_node):
    """As one that a driver holds: its tracer stops it on its way out. The run ends without it, and keeps what the other GPU gave."""
    both = ("matmul", "--type", "fma.fp32")
    uuid = bench_node(count=2, under="healthy").bench(*both).run["gpus"][1]["uuid"]
    node = bench_node(count=2, steps="{time: 0s, do: compute, gpu: 1, hang: kernel}")
    process = node.start(*both, "--alone", "--json", "--limit", "4s")
    held = until(lambda: [pid for pid in workers_of(node) if env_of(pid)["CUDA_VISIBLE_DEVICES"] == uuid], "no process of that GPU")[0]
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long] * 4
    assert ptrace(PTRACE_SEIZE, held, 0, PTRACE_O_TRACEEXIT) == 0

    out, err = process.communicate(timeout=200)
    left = processes_of(node)
    os.waitpid(held, 0)
    ptrace(PTRACE_DETACH, held, 0, 0)
    run = json.loads(out)
    print(run["findings"], err)
    assert left == [held] and process.returncode == UNKNOWN
    assert [(finding["symptom"], finding["gpus"]) for finding in run["findings"]] == [("hung", [1])]
    assert "does not end on SIGKILL" in run["findings"][0]["text"] and any(row["gpu"] == 0 for row in run["measures"])
    await_no_process(node)


# ---- refusals ----

def refused(node, *arguments):
    result = node.bench(*arguments)
    assert result.code == UNKNOWN and result.out == "" and not processes_of(node), result.texts()
    return result.err


def test_a_gpu_in_use_is_refused(bench_node):
    node = bench_node(count=2, more="work: [{name: train, kind: train, gpus: 1}]\n")
    assert "GPU 1: " in (said := refused(node, "memory")) and "GPU 0" not in said
    assert node.bench("memory", "--gpu", "0").code == FIT
    assert node.bench("memory", "--in-use").run["gpus"][1]["known"]


def test_a_locked_gpu_is_refused(bench_node):
    """Two tests at once: the second one says who has the GPU."""
    node = bench_node(count=2, speed=1)
    process, bench = start_burn(node)
    second = [node.build / "stoker", "bench", "memory", "--alone", "--gpu", "1"]
    result = subprocess.run(second, env=env_of(bench), capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == UNKNOWN and str(bench) in result.stderr
    os.kill(bench, signal.SIGTERM)
    process.communicate(timeout=60)
    await_no_process(node)


def test_a_newcomer_has_the_right_of_way(bench_node):
    node = bench_node(count=2, speed=1, more="work: [{name: train, kind: train, gpus: 1, start: 8s}]\n")
    result = node.bench("burn", "12s")
    assert result.code == UNKNOWN and result.found() == {("untested", "stopped"): {1}} and "another process" in result.texts()


@pytest.mark.parametrize("step, word", [
    ("remap, gpu: 0, uncorrected: 1", "row"), ("set, gpu: 0, compute_mode: prohibited", "compute mode"), ("lost, gpu: 0", ":00.0: lost: "),
    ("init-failed, gpu: 0", ":00.0: missing: on the PCI bus")])
def test_a_bad_state_is_refused(bench_node, step, word):
    assert word in refused(bench_node(count=2, steps=f"{{time: 0s, do: {step}}}"), "memory")


def test_wrong_usage(bench_node):
    node = bench_node(count=1)
    for arguments, word in [(("memory", "--gpu", "9"), "GPU '9'"), (("burn", "soon"), "duration"), (("matmul", "--shape", "100x100x100"), "multiples of 128"),
                            (("matmul", "--type", "mma.fp7"), "mma.fp7"), (("memory", "now"), ""), (("ready", "--limit", "0s"), "limit")]:
        result = node.bench(*arguments)
        assert result.code == USAGE and word in result.err, (arguments, result.err)
        assert result.out == ""
