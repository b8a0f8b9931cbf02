# SPDX-License-Identifier: Apache-2.0
"""stoker bench mig on simulated nodes: MIG keeps neighbours apart but for power and the link to the host, turns and MPS do not."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time
from itertools import count

import jsonschema
import pytest

SCHEMA = json.loads((pathlib.Path(__file__).resolve().parents[3] / "docs/bench.schema.json").read_text())
PATIENCE_S = 120  # only a test that fails waits for so long
SEEDS = count(os.getpid() * 16)  # locks are by UUID: of tests beside this one other ones
SEVEN = "h100-sxm-80gb, mig: [1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb]"
NODE = 'about: for stoker bench mig\nnode: {{driver: "590.48.01", seed: {}}}\ngpus: {{board: {}, count: 1}}\n{}truth: []\n'


@pytest.fixture
def node(stoker, tmp_path):
    """node(BOARD, STEP, WORK): the beginning of a command line that runs on such a node."""

    def make(board, step=None, work=None, speed=0):
        more = (f"work:\n  - {work}\n" if work else "") + (f"at:\n  - {{time: 0s, {step}}}\n" if step else "")
        (tmp_path / "node.yaml").write_text(NODE.format(next(SEEDS), board, more))
        return [stoker, "sim", "run", "--speed", str(speed), "--image", tmp_path / "image", tmp_path / "node.yaml", "--"]

    return make


def measure(stoker, node, *arguments, env=None):
    done = subprocess.run([*node, stoker, "bench", "mig", "--alone", "--json", "--limit", "10m", *arguments], capture_output=True, text=True,
                          timeout=PATIENCE_S, env={**os.environ, **(env or {})})
    assert done.stdout, done.stderr
    result = json.loads(done.stdout)
    jsonschema.validate(result, SCHEMA)
    return done.returncode, result


def list_devices(on_node):
    return re.findall(r"MIG-[0-9a-f-]+", subprocess.run([*on_node, "nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout)


def verdicts(result):
    return {row["measure"]: row["verdict"] for row in result["measures"]}


def change(result, key, flood):
    return next(row for row in result["measures"] if row["measure"] == key)["change"][flood]


INSIDE = ("memory.read", "l2.read", "compute", "launch", "launch.p99")


def test_mig_devices_are_isolated(stoker, node):
    code, result = measure(stoker, node(SEVEN))
    assert (code, result["verdict"], result["setup"]) == (0, "isolated", "mig"), result
    assert result["victim"]["uuid"] != result["neighbour"]["uuid"]
    assert verdicts(result) == {**dict.fromkeys((*INSIDE, "clock"), "isolated"), "host.to": "shares-link"}
    assert change(result, "host.to", "copy") == pytest.approx(-0.5, abs=0.05)
    assert not result["leaks"] and result["checked_bytes"] > 6 * 8e9 and result["problems"] == []


def test_mig_devices_share_power(stoker, node):
    code, result = measure(stoker, node("h100-sxm-80gb, mig: [4g.40gb, 3g.40gb]", "do: power-limit, gpu: 0, watts: 400"))
    assert (code, result["verdict"]) == (0, "shares-power"), result
    assert verdicts(result)["clock"] == "shares-power" and change(result, "clock", "compute") < -0.1
    assert verdicts(result)["memory.read"] == "isolated"


def test_a_device_that_is_slow_itself(stoker, node, tmp_path):
    """Only that one is blamed, and the neighbour is not. A file has the result too; it is no run."""
    on_node = node(SEVEN, "do: compute, gpu: 0, device: 2, memory: 0.9")
    uuids = list_devices(on_node)
    code, result = measure(stoker, on_node, "--gpu", uuids[2], "--neighbour", uuids[4], "-o", str(tmp_path / "mig.json"))
    assert (code, result["verdict"]) == (1, "isolated"), result
    assert result["slow_by_itself"] == pytest.approx(0.1, abs=0.01) and "slow by itself" in result["text"]
    assert result["slow_measure"] == "memory.read" and json.loads((tmp_path / "mig.json").read_text()) == result
    done = subprocess.run([stoker, "bench", "fleet", tmp_path / "mig.json"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "") and "it has no list 'gpus'" in done.stderr
    code, result = measure(stoker, on_node, "--gpu", uuids[4], "--neighbour", uuids[2])
    assert (code, result["verdict"], result["slow_by_itself"]) == (0, "isolated", 0), result


def test_compute_instances_of_one_gpu_instance(stoker, node):
    code, result = measure(stoker, node("h100-sxm-80gb, mig: [{profile: 3g.40gb, compute: [1, 1, 1]}]"))
    assert (code, result["verdict"], result["setup"]) == (1, "shares-memory", "mig-one-instance"), result
    assert verdicts(result)["memory.read"] == "shares-memory" and verdicts(result)["compute"] == "isolated"


def test_turns_on_a_whole_gpu(stoker, node):
    code, result = measure(stoker, node("h100-sxm-80gb"))
    assert (code, result["verdict"], result["setup"]) == (1, "time-shared", "device"), result
    assert {verdicts(result)[key] for key in INSIDE} == {"time-shared"}
    assert change(result, "compute", "compute") == pytest.approx(-0.5, abs=0.1)
    assert result["victim"]["uuid"] == result["neighbour"]["uuid"] and not result["leaks"]


def test_mps_shares_memory(stoker, node, tmp_path):
    (tmp_path / "control").touch()
    code, result = measure(stoker, node("h100-sxm-80gb"), env={"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)})
    assert (code, result["verdict"], result["setup"]) == (1, "shares-memory", "mps"), result
    assert verdicts(result)["memory.read"] == verdicts(result)["l2.read"] == "shares-memory"
    assert (verdicts(result)["compute"], verdicts(result)["launch.p99"]) == ("shares-sms", "isolated")


def run_it(stoker, node, *arguments):
    return subprocess.run([*node, stoker, "bench", "mig", "--alone", *arguments], capture_output=True, text=True, timeout=PATIENCE_S)


def test_the_neighbour_has_to_be_there(stoker, node):
    done = run_it(stoker, node(SEVEN), "--neighbour", "GPU-nowhere")
    assert done.returncode == 2 and "--neighbour" in done.stderr and done.stdout == ""


def test_it_refuses_devices_in_use(stoker, node):
    """Either of the two."""
    on_node = node(SEVEN, work="{name: chat, kind: decode, gpus: all, mig: 1}")
    for options in (), ("--gpu", list_devices(on_node)[1]):
        done = run_it(stoker, on_node, *options)
        assert done.returncode == 3 and "runs on it" in done.stderr and done.stdout == ""


def test_ctrl_c_ends_it(stoker, node, tmp_path):
    """Both processes end, and nothing is said to be isolated."""
    trace = tmp_path / "trace"
    with subprocess.Popen([*node(SEVEN), "sh", "-c", f'echo $$ > {tmp_path}/pid; exec "$0" bench mig --alone --json', stoker],
                          env={**os.environ, "STOKER_SIM_CUDA_TRACE": str(trace)}, stdout=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + PATIENCE_S
        while not (trace.exists() and "cuMemcpyHtoD" in trace.read_text()) and time.monotonic() < until:
            time.sleep(0.02)
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE_S)
    result = json.loads(out)
    assert process.returncode == 3 and result["verdict"] == "unknown"


def test_a_newcomer_ends_it(stoker, build, node, tmp_path):
    """Also when processes of the test itself have come and gone before. The rounds last: the clock runs."""
    script = """
        "$0" bench mig --alone --json --limit 10m > out & test=$!
        until [ "$(grep -c cuInit trace)" -ge 4 ]; do sleep 0.02; done
        STOKER_SIM_CUDA_TRACE= "$1" gpu stages=flood seconds=60 3> /dev/null & other=$!
        wait $test; code=$?
        kill $other; exit $code"""
    (tmp_path / "trace").touch()
    done = subprocess.run([*node(SEVEN, speed=2), "sh", "-c", script, stoker, build / "src/source/cuda/stoker-bench"], cwd=tmp_path,
                          timeout=PATIENCE_S, env={**os.environ, "STOKER_SIM_CUDA_TRACE": str(tmp_path / "trace")})
    result = json.loads((tmp_path / "out").read_text())
    assert done.returncode == 3 and result["verdict"] == "unknown"
    assert "another process came onto the GPU" in {problem["what"] for problem in result["problems"]}, result
