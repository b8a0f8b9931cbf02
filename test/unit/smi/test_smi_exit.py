# SPDX-License-Identifier: Apache-2.0
"""What other programs match on when something is wrong: the first words and the exit code."""

import subprocess

import pytest

COMMANDS = [[], ["-L"], ["-q", "-x"], ["--query-gpu=name", "--format=csv"], ["topo", "-m"], ["mig", "-lgi"]]

STATES = [
    ("driver-unloaded", 1000, 9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."),
    ("driver-mismatch", 1000, 18, "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: "),
    ("driver-error", 1000, 255, "Failed to initialize NVML: Unknown Error\n"),
    ("xid-79-lost", 400, 15, "Unable to determine the device handle for GPU"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("scenario, at, code, words", STATES)
def test_states(make_node, scenario, at, code, words, command):
    done = make_node(scenario, at).run(*command)
    assert (done.returncode, done.stdout[: len(words)]) == (code, words)


def test_lost_names_the_cure_and_spares_the_others(make_node):
    node = make_node("xid-79-lost", 400)
    assert ": GPU is lost. Reboot the system to recover this GPU\n" in node.run("-i", "3").stdout
    assert node.ok("-L", "-i", "2").startswith("GPU 2: ")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_library(build, command, tmp_path):
    program = build / "sim" / "smi" / "nvidia-smi"
    done = subprocess.run([program, *command], env={"LD_LIBRARY_PATH": str(tmp_path)}, capture_output=True, text=True,
                          check=False)
    if done.returncode == 9:
        pytest.skip("this machine has the library of a real driver")
    assert done.returncode == 12
    assert done.stdout.startswith("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.")


@pytest.mark.parametrize("ids", ["7", "GPU-00000000-0000-0000-0000-000000000000", "0000:FE:00.0", "nonsense"])
def test_unknown_gpu(training, ids):
    done = training.run("-i", ids)
    assert (done.returncode, done.stdout) == (6, "No devices were found\n")


@pytest.mark.parametrize("args", [["--nonsense"], ["-x"], ["-q"], ["-i"], ["-pl"], ["topo"], ["-L=1"],
                                  ["mig", "-nonsense"], ["mig", "-cgi"]])
def test_bad_arguments(training, args):
    assert training.run(*args).returncode == 2


def test_help_needs_no_driver(build):
    for args in (["-h"], ["--help-query-gpu"], ["--help-query-compute-apps"]):
        done = subprocess.run([build / "sim" / "smi" / "nvidia-smi", *args], env={}, capture_output=True, check=False)
        assert done.returncode == 0 and done.stdout
