# SPDX-License-Identifier: Apache-2.0
"""pci_scan (source/pci/scan.c) on the trees of the simulated node: what it has, what left the bus, what got slower."""
import subprocess

import pytest


@pytest.fixture
def scan(build, stoker, tmp_path):
    lister = build / "test/unit/supervisor/list_gpus"
    assert lister.exists()

    def run(scenario, minutes, change=True):
        """The GPUs at the start of the scenario, and when they have changed after `minutes`: lists of lines."""
        tree = tmp_path / "tree"
        script = f"""a=$('{lister}' '{tree}'); echo "$a"; echo --
            '{stoker}' sim clock step {minutes}m >/dev/null
            while b=$('{lister}' '{tree}'); [ "$a" = "$b" ]; do {'sleep 0.05' if change else 'break'}; done
            echo "$b" """
        done = subprocess.run([stoker, "sim", "run", "--speed", "0", "--tree", tree, scenario, "--", "sh", "-c", script],
                              check=True, text=True, capture_output=True, timeout=120)
        before, after = done.stdout.split("--\n")
        return before.splitlines(), after.splitlines()
    return run


def test_all_gpus_and_no_switch(scan):
    before, after = scan("default", 1, change=False)
    assert len(before) == 8 and before == after
    assert before[0] == "0000:1b:00.0 nvidia there 32000 x16 of 32000 x16"


def test_one_falls_off_the_bus(scan):
    before, after = scan("xid-79-lost", 6)
    assert [line.split()[2] for line in before] == ["there"] * 8
    assert [line.split()[2] for line in after] == ["there"] * 3 + ["lost"] + ["there"] * 4


def test_one_is_taken_away(scan):
    before, after = scan("hotplug", 12)
    assert len(before) == 4
    assert after == before[:3]


def test_one_trains_to_fewer_lanes(scan):
    before, after = scan("pcie-downgrade", 11)
    assert [line.split()[4] for line in before] == ["x16"] * 4
    assert [line.split()[4] for line in after] == ["x16", "x16", "x8", "x16"]
    assert {line.split()[-1] for line in after} == {"x16"}
