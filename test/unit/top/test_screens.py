# SPDX-License-Identifier: Apache-2.0
"""What the screens of `stoker top` must say, over recordings of the scenario library (test/data/top/record.py). Each as a whole is
compared by test_screens.c."""
import re
import subprocess
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2] / "data/top"
GOLDEN = DATA / "golden"
SIZES = "60x15", "100x30", "200x60"
RECORDINGS = sorted(path.name.removesuffix(".ndjson.gz") for path in DATA.glob("*.ndjson.gz"))


@pytest.fixture(scope="session")
def play(build):
    program = build / "test/unit/top/top_play"

    def run(name, *words):
        done = subprocess.run([program, DATA / f"{name}.ndjson.gz", *words], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_what_is_kept_is_what_is_tested():
    played = {line.split(":")[0] for line in (DATA / "screens.txt").read_text().splitlines() if not line.startswith("#")}
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(RECORDINGS) == played
    assert sum(path.stat().st_size for path in DATA.glob("*.gz")) < 1 << 20


# The recording, what a person must find, and what to do, on the first screen at every size.
FAULTS = {
    "xid-79-lost": ("GPU 3", "has fallen off the bus", "Drain and reboot this node"),
    "xid-48-dbe-remap": ("GPU 2", "ECC", "Drain and reset this GPU"),
    "remap-failure": ("GPU 4", "replaced", "Drain and replace this GPU"),
    "thermal-throttle-fan": ("GPU 5", "heat", "Check fans and airflow"),
    "power-brake": ("node", "slows its GPUs down", "Check power supplies"),
    "nvlink-down": ("GPU 1", "NVLink", "GPU"),
    "pcie-downgrade": ("GPU 2", "PCIe", "Reseat"),
    "xid-119-gsp": ("GPU 6", "firmware", "reset this GPU"),
    "hung-driver-call": ("GPU 2", "", "reboot this node"),
    "driver-unloaded": ("node", "driver", "Load the NVIDIA kernel module"),
    "fabric-not-ready": ("fabric", "fabric", "Restart the fabric manager"),
    "xid-31-app-fault": ("a program on GPU 4", "XID 31", "Check the program"),
    "mig-56-devices": ("GPU 3", "has fallen off the bus", "Drain and reboot this node"),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", FAULTS)
def test_fault_and_action_come_first(play, name, size):
    thing, what, action = FAULTS[name]
    lines = play(name, "last", size, "print").split("\n")[1:]
    assert re.match(r" Problem: .*" + thing, lines[1])
    head = " ".join(" ".join(lines[2:10]).split())
    assert what in head and "DO " in head and action in head
    if thing.startswith("GPU"):
        assert re.search(rf"^│?> *{thing[4:]}\b", "\n".join(lines), re.M), "its row is marked"


@pytest.mark.parametrize("name", [n for n in RECORDINGS if n in ("default", "healthy-training", "many", "mig-balanced", "pods")])
def test_healthy_says_so(play, name):
    for size in SIZES:
        assert play(name, "last", size, "print").split("\n")[2].startswith(" All healthy  ")


def test_healthy_and_yet_not_working(play):
    """Nothing is broken, but GPUs are held or wait: the line says so."""
    for name, words in (("hung-collective", "7 waiting"), ("idle-holding-memory", "2 idle held")):
        assert re.match(" All healthy  .*" + words, play(name, "last", "60x15", "print").split("\n")[2])


@pytest.mark.parametrize("name", RECORDINGS)
def test_ascii_is_ascii_and_lines_fit(play, name):
    for size in ("60x15", "80x24", "133x40", "300x100"):
        width, height = map(int, size.split("x"))
        for ways in ([], ["2"], ["3"], ["4"], ["5"]):
            lines = play(name, "last", "ascii", size, *ways, "print").split("\n")[1:-1]
            assert len(lines) <= height and all(len(line) <= width and line.isascii() for line in lines)


@pytest.mark.parametrize("name", ["page-retirement-t4", "xid-48-dbe-remap", "mig-balanced"])
def test_absent_is_never_zero(play, name):
    """Boards without GPU performance monitoring, or in MIG mode: a dash, and the reason where one looks closer."""
    text = play(name, "last", "100x30", "Home", "2", "print")
    assert re.search(r"- (this device does not have it|not_supported|mig_mode)", text)
    if name != "mig-balanced":
        assert re.search(r"SM active +-", text) and "SM active            0.0 %" not in text
