# SPDX-License-Identifier: Apache-2.0
"""Options that change a GPU, and the life of MIG instances. The node remembers between runs."""

import os
import re

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may change a GPU")


def ask(node, field, gpu=0):
    return node.ok(f"--query-gpu={field}", "--format=csv,noheader,nounits", "-i", str(gpu)).strip()


CHANGES = [
    (["-pm", "0"], "Disabled persistence mode for GPU", "persistence_mode", "Disabled"),
    (["--persistence-mode=ENABLED"], "Enabled persistence mode for GPU", "persistence_mode", "Enabled"),
    (["-pl", "450"], "was set to 450.00 W from 700.00 W.", "power.limit", "450.00"),
    (["-c", "EXCLUSIVE_PROCESS"], "Set compute mode to EXCLUSIVE_PROCESS for GPU", "compute_mode", "Exclusive_Process"),
    (["-c", "2"], "Set compute mode to PROHIBITED for GPU", "compute_mode", "Prohibited"),
    (["-e", "0"], "Disabled ECC support for GPU", "ecc.mode.pending", "Disabled"),
    (["-am", "1"], "Enabled Accounting Mode for GPU", "accounting.mode", "Enabled"),
    (["-caa"], "Cleared Accounted PIDs for GPU", "accounting.mode", "Disabled"),
    (["-p", "0"], "Reset volatile ECC errors to zero for GPU", "ecc.errors.corrected.volatile.total", "0"),
    (["-r"], "was successfully reset.", "persistence_mode", "Enabled"),
]


@pytest.mark.parametrize("args, words, field, value", CHANGES, ids=lambda v: str(v))
def test_change(training, args, words, field, value):
    text = training.ok(*args, "-i", "0")
    assert words in text and text.endswith("All done.\n")
    assert ask(training, field) == value


def test_change_of_all(training):
    assert training.ok("-pm", "0").count("Disabled persistence mode") == 3
    assert {ask(training, "persistence_mode", i) for i in range(3)} == {"Disabled"}


def test_power_limit_outside(training):
    done = training.run("-pl", "5000", "-i", "0")
    assert done.returncode == 2
    assert "should be between 200.00 W and 700.00 W" in done.stdout
    assert ask(training, "power.limit") == "700.00"


def test_what_a_board_lacks_is_a_warning(boards):
    text = boards.ok("-mig", "1", "-i", "0")
    assert "is not supported" in text and "Treating as warning and moving on." in text


@pytest.mark.parametrize("args", [["-pm", "7"], ["-c", "SOMETIMES"], ["-pl", "much"], ["-lgc", "a,b"]])
def test_bad_value(training, args):
    assert training.run(*args, "-i", "0").returncode == 2


def test_mig_mode(training):
    assert "Warning: MIG mode is in pending enable state for GPU" in training.ok("-mig", "1", "-i", "0")  # a job runs
    assert "Disabled MIG Mode for GPU" in training.ok("-mig", "0", "-i", "2")
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


def test_mig_placement(training):
    text = training.ok("mig", "-lgipp", "-i", "2").splitlines()
    assert "GPU  2 Profile ID 19 Placements: {0,1,2,3,4,5,6}:1" in text
    assert "GPU  2 Profile ID  0 Placement : {0}:8" in text
    assert "GPU instance ID" in training.ok("mig", "-cgi", "19:2", "-i", "2")
    rows = re.findall(r"^\|   2  MIG (\S+) +(\d+) +(\d+) +(\d+:\d) +\|$", training.ok("mig", "-lgi"), re.M)
    assert [(r[0], r[3]) for r in rows].count(("1g.10gb", "2:1")) == 1


def test_mig_tables(training):
    for command, width in (("-lgip", 81), ("-lgi", 59), ("-lcip", 88), ("-lci", 70)):
        lines = training.ok("mig", command).splitlines()
        assert {len(line) for line in lines} == {width}, command
    free = dict(re.findall(r"^\|   2  MIG (\S+) +\d+ +(\d+/\d+) ", training.ok("mig", "-lgip"), re.M))
    assert free["1g.10gb"] == "3/7" and free["7g.80gb"] == "0/1" and free["3g.40gb"] == "0/2"
    assert "2*" in training.ok("mig", "-lcip", "-gi", "2")


def test_mig_compute_by_name(training):
    training.ok("mig", "-dci", "-gi", "2")
    text = training.ok("mig", "-cci", "1c.3g.40gb,1c.3g.40gb", "-gi", "2")
    assert text.count("Successfully created compute instance ID") == 2
    assert training.ok("-L").count("MIG 1c.3g.40gb") == 2
    assert training.run("mig", "-cci", "7g.80gb", "-gi", "2").returncode == 6
