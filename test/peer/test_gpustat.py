# SPDX-License-Identifier: Apache-2.0
"""gpustat on simulated nodes."""
import json
import re
import subprocess

import pytest

NAME = "NVIDIA H100 80GB HBM3"
RESERVED_MIB, TOTAL_MIB = 479, 81559

# Inside a running node: the processes are looked at while it lives.
LOOK = """
set -e
"$STOKER" sim clock --image "$STOKER_SIM" step 60s >/dev/null
/usr/bin/python3 "$GPUSTAT" --json >gpustat.json
"$STOKER" sim show --image "$STOKER_SIM" --json >show.json
ls -d /proc/[0-9]* >alive || true # some end meanwhile
"""


@pytest.fixture(scope="module")
def gpustat(client):
    return client("gpustat")


def run(node, root, *words):
    done = node.run(root, "/usr/bin/python3", root / "usr/bin/gpustat", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_json_agrees_with_the_node(node, gpustat):
    n = node("default")
    answer = json.loads(run(n, gpustat, "--json"))
    assert answer["driver_version"] == "590.48.01"
    assert [g["index"] for g in answer["gpus"]] == list(range(8))
    for said, true in zip(answer["gpus"], n.show()):
        assert (said["name"], said["uuid"]) == (NAME, true["uuid"])
        assert abs(said["utilization.gpu"] - true["window"][0] * 100) <= 1
        assert abs(said["power.draw"] - true["watt_mean"]) <= 1
        assert abs(said["temperature.gpu"] - true["temp_c"]) <= 1
        assert abs(said["memory.used"] - RESERVED_MIB - true["used_mib"]) <= 1
        assert (said["memory.total"], said["enforced.power.limit"], said["fan.speed"]) == (TOTAL_MIB, 700, None)


def test_plain_output_has_a_line_for_each_gpu(node, gpustat):
    n = node("default")
    lines = run(n, gpustat, "--no-color", "--show-power", "--show-codec").splitlines()
    assert lines[0].endswith("590.48.01") and len(lines) == 9
    for line, true in zip(lines[1:], n.show()):
        found = re.match(r"\[(\d)\] (.*?) *\| *(\d+)°C, *(\d+) %.*?(\d+) / 700 W *\| *(\d+) / 81559 MB", line)
        assert found, line
        assert (int(found[1]), found[2]) == (true["gpu"], NAME)
        assert abs(int(found[3]) - true["temp_c"]) <= 1
        assert abs(int(found[5]) - true["watt_mean"]) <= 1


def test_living_processes_are_listed(stoker, gpustat, client_env, tmp_path):
    env = client_env({}, gpustat)
    env.update(STOKER=str(stoker), GPUSTAT=str(gpustat / "usr/bin/gpustat"))
    command = [stoker, "sim", "run", "--speed", "0", "--image", tmp_path / "node.img", "default", "--", "sh", "-c", LOOK]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads((tmp_path / "gpustat.json").read_text())["gpus"]
    true = json.loads((tmp_path / "show.json").read_text())["gpus"]
    alive = {int(line.rsplit("/", 1)[1]) for line in (tmp_path / "alive").read_text().splitlines()}
    assert any(g["processes"] for g in said)
    for s, t in zip(said, true):
        listed = {p["pid"]: p["gpu_memory_usage"] for p in s["processes"]}
        assert listed == {p["pid"]: int(p["mib"]) for p in t["processes"] if p["pid"] in alive}


def failed(node, root):
    """gpustat gives up as a whole when one call fails in a way it does not know."""
    done = node.run(root, "/usr/bin/python3", root / "usr/bin/gpustat", "--debug")
    assert done.returncode != 0, done.stdout
    return done.stderr


def test_a_lost_gpu_is_said(node, gpustat):
    n = node("xid-79-lost", "4m")
    assert len(run(n, gpustat, "--no-color").splitlines()) == 9
    n.step("2m")
    assert "GPU is lost" in failed(n, gpustat)


@pytest.mark.parametrize("scenario, at, words", [
    ("driver-unloaded", "16m", "Driver Not Loaded"),
    ("driver-mismatch", "16m", "NVML/RM version mismatch"),
    ("driver-error", "16m", "Unknown Error"),
])
def test_a_broken_driver_is_said(node, gpustat, scenario, at, words):
    assert words in failed(node(scenario, at), gpustat)


@pytest.mark.parametrize("driver", ["535.261.03", "590.48.01", "610.57.02"])
def test_every_driver_generation(node, gpustat, driver):
    n = node("default", "60s", "--driver", driver)
    answer = json.loads(run(n, gpustat, "--json"))
    assert answer["driver_version"] == driver
    assert [g["name"] for g in answer["gpus"]] == [NAME] * 8
