# SPDX-License-Identifier: Apache-2.0
"""hwloc with its NVML plugin: what lstopo finds on simulated nodes."""
import re
import xml.etree.ElementTree as ET

import pytest

MODEL, GPUS = "NVIDIA H100 80GB HBM3", 8
MBYTES_PER_S = {"a link of NVLink 3": 50000}

DIRECT = """
about: four A100 behind NVSwitches
gpus: {board: a100-sxm4-80gb, count: 4}
truth: []
"""


@pytest.fixture
def hwloc(client):
    root = client("hwloc")
    return root, root / "usr/bin/lstopo-no-graphics", {"HWLOC_PLUGINS_PATH": root / "usr/lib/x86_64-linux-gnu/hwloc"}


def devices(xml):
    """name: (infos, the PCI object above it or None) of each NVML device."""
    found = {}

    def walk(node, pci):
        pci = node if node.get("type") == "PCIDev" else pci
        infos = {i.get("name"): i.get("value") for i in node.findall("info")}
        if node.get("type") == "OSDev" and infos.get("Backend") == "NVML":
            found[node.get("name")] = (infos, pci)
        for child in node.findall("object"):
            walk(child, pci)

    walk(ET.fromstring(xml[xml.index("<?xml"):]).find("object"), None)
    return found


def test_gpus_are_devices(node, hwloc):
    root, lstopo, more = hwloc
    n = node("default")
    done = n.run(root, lstopo, "--of", "xml", **more)
    assert done.returncode == 0, done.stdout + done.stderr
    found = devices(done.stdout)
    assert sorted(found) == [f"nvml{g}" for g in range(GPUS)]
    for t in n.show():
        infos, _ = found[f"nvml{t['gpu']}"]
        assert (infos["GPUVendor"], infos["GPUModel"], infos["NVIDIAUUID"]) == ("NVIDIA Corporation", MODEL, t["uuid"])
        assert infos["NVIDIASerial"].isdigit()
    assert n.wrongs() == []


def test_gpus_lie_below_their_pci_devices(entered, hwloc):
    root, lstopo, more = hwloc
    done = entered("default", root, lstopo, "--of", "xml", **more)
    assert done.returncode == 0, done.stdout + done.stderr
    found = devices(done.stdout)
    buses = [found[f"nvml{g}"][1].get("pci_busid") for g in range(GPUS)]
    assert buses == sorted(set(buses)) and len(buses) == GPUS
    assert all(found[name][1].get("pci_type").split()[1] == "[10de:2330]" for name in found)


def test_bandwidth_of_links_to_switches(entered, hwloc):
    root, lstopo, more = hwloc
    done = entered(DIRECT, root, lstopo, "--distances", **more)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NVLinkBandwidth" in done.stdout, done.stdout + done.stderr
    rows = re.findall(r"^ *nvml\d +([\d ]+)$", done.stdout, re.M)
    assert len(rows) == 4
    for g, row in enumerate(rows):
        row = list(map(int, row.split()))
        assert row[g] == 1000000 and [v for i, v in enumerate(row[:4]) if i != g] == [0, 0, 0]
        assert sum(row[4:]) == 12 * MBYTES_PER_S["a link of NVLink 3"]


def test_newer_links_than_it_knows(entered, hwloc):
    """hwloc 2.9 knows NVLink up to version 3 and leaves the matrix out, with a word."""
    root, lstopo, more = hwloc
    done = entered("default", root, lstopo, "--distances", **more)
    assert done.returncode == 0
    assert "NVLinkBandwidth" in done.stdout or "Failed to recognize NVLink version 6" in done.stderr


def test_without_a_driver_there_is_no_gpu(node, hwloc):
    root, lstopo, more = hwloc
    done = node("driver-unloaded", "16m").run(root, lstopo, "--of", "xml", **more)
    assert done.returncode == 0 and devices(done.stdout) == {}


def test_a_lost_gpu(node, hwloc):
    """hwloc 2.9 asserts that every handle can be had; later it may go on with the others."""
    root, lstopo, more = hwloc
    done = node("xid-79-lost", "6m").run(root, lstopo, "--of", "xml", **more)
    if done.returncode < 0:
        assert "hwloc_nvml_discover: Assertion" in done.stderr
    else:
        assert len(devices(done.stdout)) == GPUS - 1
