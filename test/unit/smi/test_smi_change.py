# SPDX-License-Identifier: Apache-2.0
"""Options that change a GPU, and the life of MIG instances. The node remembers between runs."""

import os
import re

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may change a GPU")


def ask(node, field, gpu=0):
    return node.ok(f"--query-gpu={field}", "--format=csv,noheader,nounits", "-i", str(gpu)).strip()


CHANGES = [
    (["-pm", "0"], "Set persistence mode to Disabled for GPU", "persistence_mode", "Disabled"),
    (["--persistence-mode=ENABLED"], "Set persistence mode to Enabled for GPU", "persistence_mode", "Enabled"),
    (["-pl", "450"], "Set power limit to 450 for GPU", "power.limit", "450.00"),
]


@pytest.mark.parametrize("args, words, field, value", CHANGES, ids=lambda v: str(v))
def test_change(training, args, words, field, value):
    text = training.ok(*args, "-i", "0")
    assert words in text and text.endswith("All done.\n")
    assert ask(training, field) == value


def test_change_of_all(training):
    assert training.ok("-pm", "0").count("Set persistence mode to Disabled") == 3
    assert {ask(training, "persistence_mode", i) for i in range(3)} == {"Disabled"}


def test_power_limit_outside(training):
    done = training.run("-pl", "5000", "-i", "0")
    assert done.returncode == 2
    assert "should be between 200.00 W and 700.00 W" in done.stdout
    assert ask(training, "power.limit") == "700.00"


def test_what_a_board_lacks_is_a_warning(boards):
    text = boards.ok("-mig", "1", "-i", "0")
    assert "is not supported" in text and "Treating as warning and moving on." in text


@pytest.mark.parametrize("args", [["-pm", "7"], ["-pl", "much"], ["-mig", "maybe"]])
def test_bad_value(training, args):
    assert training.run(*args, "-i", "0").returncode == 2


def test_mig_mode(training):
    assert "Warning: MIG mode is in pending enable state for GPU" in training.ok("-mig", "1", "-i", "0")  # a job runs
    assert "Set MIG mode to Disabled for GPU" in training.ok("-mig", "0", "-i", "2")
    assert ask(training, "mig.mode.current", 2) == "Disabled"
    done = training.run("mig", "-lgi", "-i", "2")
    assert (done.returncode, done.stdout) == (6, "No MIG-enabled devices found.\n")


def test_mig_life(training):
    assert training.ok("mig", "-cgi", "19,1g.10gb", "-C") == (
        "Successfully created GPU instance ID  8 on GPU  2 using profile MIG 1g.10gb (ID 19)\n"
        "Successfully created compute instance ID  0 on GPU  2 GPU instance ID  8 using profile MIG 1g.10gb (ID  0)\n"
        "Successfully created GPU instance ID  9 on GPU  2 using profile MIG 1g.10gb (ID 19)\n"
        "Successfully created compute instance ID  0 on GPU  2 GPU instance ID  9 using profile MIG 1g.10gb (ID  0)\n")
    assert training.ok("-L").count("MIG 1g.10gb") == 3
    full = training.run("mig", "-cgi", "0")
    assert full.returncode == 23
    assert full.stdout.endswith("Failed to create GPU instances: Insufficient Resources\n")
    assert "Successfully destroyed compute instance ID  0 from GPU  2 GPU instance ID  8\n" == training.ok(
        "mig", "-dci", "-gi", "8")
    assert "Successfully destroyed GPU instance ID  8 from GPU  2\n" == training.ok("mig", "-dgi", "-gi", "8", "-i", "2")
    assert training.ok("mig", "-dci").count("Successfully destroyed") == 3
    assert training.ok("mig", "-dgi").count("Successfully destroyed") == 3
    gone = training.run("mig", "-lgi")
    assert (gone.returncode, gone.stdout) == (6, "No GPU instances found: Not Found\n")
    assert "No MIG devices found" in training.ok()


def test_mig_in_use(make_node):
    node = make_node("mig-balanced", at=60)
    done = node.run("mig", "-dci", "-i", "0")
    assert done.returncode == 19
    assert done.stdout.endswith("Failed to destroy compute instances: In use by another client\n")


def test_mig_list(training):
    lines = training.ok("mig", "-lgi").splitlines()
    assert {len(line) for line in lines} == {59}
    rows = re.findall(r"^\|   2  MIG (\S+) +(\d+) +(\d+) +(\d+:\d) +\|$", "\n".join(lines), re.M)
    assert sorted(row[0] for row in rows) == ["1g.10gb", "3g.40gb"]


def test_reset(make_node):
    node = make_node("""
about: a job on one of two GPUs whose MIG mode takes a reset
gpus: {board: a100-sxm4-80gb, count: 2}
work:
  - {name: job, kind: train, gpus: 0, process: python}
truth: []
""", at=60)
    node.ok("-mig", "1", "-i", "1")
    assert (ask(node, "mig.mode.current", 1), ask(node, "mig.mode.pending", 1)) == ("Disabled", "Enabled")
    done = node.run("--gpu-reset")
    assert done.returncode == 19 and "is currently in use by another process." in done.stdout
    assert node.ok("--gpu-reset", "-i", "1").endswith(" was successfully reset.\nAll done.\n")
    assert ask(node, "mig.mode.current", 1) == "Enabled"
