# SPDX-License-Identifier: Apache-2.0
"""nvtop on simulated nodes, in a real terminal: tmux draws it and says what is on the screen."""
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

NAME = "NVIDIA H100 80GB HBM3"
RESERVED_MIB, WAIT_S = 479, 30

HEAD = re.compile(r"Device (\d+) \[(.*?)\] (?:PCIe )?GEN +(\d)@ ?(\d+)x RX:")
LOAD = re.compile(r"GPU +(\d+)MHz +MEM +(\d+)MHz +TEMP +(\d+)°C FAN +(\S+?)% POW +(\d+) / (\d+) W")
FILL = re.compile(r"GPU\[\|* *(\d+)%\] MEM\[\|* *([\d.]+)Gi/([\d.]+)Gi\]")
FILL_NO_LOAD = re.compile(r"MEM\[\|* *([\d.]+)Gi/([\d.]+)Gi\]")
PROCESS = re.compile(r"^ *(\d+) +(\S+) +(\d+) +(\w+) +(\d+|N/A)%? +(\d+)MiB +(\d+)%", re.M)


class Terminal:
    """A program in a terminal of 180 x 60 characters."""

    def __init__(self, tmux, env, folder, command):
        self.place = Path(tempfile.mkdtemp(prefix="peer-"))
        self.tmux, self.env, self.code = [tmux, "-S", self.place / "socket"], env, folder / "code"
        made = self.run("-f", "/dev/null", "new-session", "-d", "-x", "180", "-y", "60", f"{command}; echo $? >{self.code}")
        if made.returncode:
            pytest.skip(f"tmux gets no terminal here: {made.stderr.strip()}")

    def run(self, *words):
        return subprocess.run([*self.tmux, *words], env=self.env, capture_output=True, text=True, timeout=WAIT_S, check=False)

    def call(self, *words):
        return self.run(*words).stdout

    def screen(self):
        return self.call("capture-pane", "-p")

    def wait(self, found, what):
        """What `found` makes of the screen, as soon as it makes something of it."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            screen = self.screen()
            seen = found(screen)
            if seen:
                return seen
            time.sleep(0.1)
        raise AssertionError(f"{what} not seen:\n{screen}")

    def quit(self):
        """Its exit code after 'q'."""
        self.call("send-keys", "q")
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end and not (self.code.exists() and self.code.read_text()):
            time.sleep(0.1)
        return self.code.read_text().strip()

    def close(self):
        self.call("kill-server")
        shutil.rmtree(self.place, ignore_errors=True)


@pytest.fixture
def nvtop(client):
    """nvtop(node, words): it runs; ended at the end of the test."""
    root, open_ones = client("nvtop"), []
    tmux = shutil.which("tmux") or root / "usr/bin/tmux"

    def start(node, words="--no-plot", before=""):
        terminal = Terminal(tmux, node.env(root), node.folder, f"{before}{root}/usr/bin/nvtop --delay 1 {words}")
        open_ones.append(terminal)
        return terminal

    yield start
    for terminal in open_ones:
        terminal.close()


def eight(pattern, count=8):
    """A finder of `count` hits of the pattern."""
    return lambda screen: (hits := pattern.findall(screen)) and len(hits) == count and hits


def test_eight_gpus_agree_with_the_node(node, nvtop):
    n = node("default")
    terminal, true = nvtop(n), n.show()
    heads = terminal.wait(eight(HEAD), "eight GPUs")
    loads, fills = terminal.wait(eight(LOAD), "eight loads"), terminal.wait(eight(FILL), "eight fills")
    assert [(int(h[0]), h[1], h[2:]) for h in heads] == [(g, NAME, ("5", "16")) for g in range(8)]
    for load, fill, t in zip(loads, fills, true):
        assert (int(load[0]), int(load[1])) == (t["sm_mhz"], t["mem_mhz"])
        assert abs(int(load[2]) - t["temp_c"]) <= 1 and abs(int(load[4]) - t["watt_mean"]) <= 1
        assert (load[3], load[5]) == ("N/A", "700")
        assert abs(int(fill[0]) - t["window"][0] * 100) <= 1
        assert abs(float(fill[1]) * 1024 - RESERVED_MIB - t["used_mib"]) <= 1
    assert terminal.quit() == "0"
    assert n.wrongs() == []


def test_processes_agree_with_the_node(node, nvtop):
    n = node("default")
    true = {(p["pid"], t["gpu"]): p["mib"] for t in n.show() for p in t["processes"]}
    rows = nvtop(n).wait(eight(PROCESS, len(true)), "all processes")
    assert {(int(r[0]), int(r[2])): int(r[5]) for r in rows} == {k: int(mib) for k, mib in true.items()}
    assert {r[3] for r in rows} == {"Compute"}


def test_living_processes_have_commands(node, nvtop, stoker):
    """Under `stoker sim run` the processes live, so nvtop finds more about them than NVML tells."""
    command = re.compile(r"^ *\d+ +\S+ +\d +Compute .*MiB .* (\w+)$", re.M)
    terminal = nvtop(node("default"), before=f"{stoker} sim run --speed 0 default -- ")
    seen = terminal.wait(eight(command), "all commands")
    assert sorted(seen) == ["python"] * 5 + ["tritonserver"] * 2 + ["vllm"]


def test_load_of_processes_appears_as_time_goes_on(node, nvtop):
    n = node("default")
    terminal = nvtop(n)
    terminal.wait(eight(PROCESS), "all processes")

    def training_is_busy(screen):
        n.step("300ms")
        rows = {int(r[2]): r[4] for r in PROCESS.findall(screen)}
        return all(rows.get(g, "N/A").isdigit() and int(rows[g]) >= 90 for g in range(4))

    assert terminal.wait(training_is_busy, "the load of the training processes")


def test_a_node_with_mig_devices(node, nvtop):
    n = node("mig-balanced")
    terminal, true = nvtop(n), n.show()
    heads, fills = terminal.wait(eight(HEAD, 4), "four GPUs"), terminal.wait(eight(FILL_NO_LOAD, 4), "memory")
    assert [h[1] for h in heads] == [NAME] * 4
    for fill, t in zip(fills, true):
        assert abs(float(fill[0]) * 1024 - RESERVED_MIB - t["used_mib"]) <= 1
    assert not FILL.search(terminal.screen()), "a GPU in MIG mode has no utilisation"
    pids = {p["pid"] for t in true for p in t["processes"]}
    rows = terminal.wait(eight(PROCESS, len(pids)), "all processes")
    assert {int(r[0]) for r in rows} == pids
    assert terminal.quit() == "0"


def test_a_gpu_lost_before_the_start_is_left_out(node, nvtop):
    n = node("xid-79-lost", "6m")
    heads = nvtop(n).wait(eight(HEAD, 7), "seven GPUs")
    assert [int(h[0]) for h in heads] == list(range(7)), "nvtop numbers anew what is left"


def test_a_gpu_lost_meanwhile_does_not_end_it(node, nvtop):
    n = node("xid-79-lost", "4m")
    terminal = nvtop(n)
    terminal.wait(eight(LOAD), "eight GPUs")
    n.step("2m")
    terminal.wait(lambda screen: re.search(r"Device 3 \[[^]]*\] PCIe GEN N/A RX: N/A TX: N/A", screen), "the loss")
    assert [int(h[0]) for h in terminal.wait(eight(HEAD, 7), "the others")] == [0, 1, 2, 4, 5, 6, 7]
    assert terminal.quit() == "0"


def test_without_a_driver_it_says_so(node, client):
    n, root = node("driver-unloaded", "16m"), client("nvtop")
    done = n.run(root, root / "usr/bin/nvtop")
    assert "No GPU to monitor." in done.stdout + done.stderr


@pytest.mark.parametrize("driver", ["535.261.03", "610.57.02"])
def test_other_driver_generations(node, nvtop, driver):
    heads = nvtop(node("default", "60s", "--driver", driver)).wait(eight(HEAD), "eight GPUs")
    assert [h[1] for h in heads] == [NAME] * 8


def test_boards_of_other_kinds(node, nvtop):
    n = node("healthy-mixed-boards", "60s")
    true = n.show()
    heads = nvtop(n).wait(eight(re.compile(r"Device (\d+) \[(.*?)\]"), len(true)), "all GPUs")
    for head, t in zip(heads, true):
        assert t["board"].startswith(head[1].rstrip(".")), (head, t["board"])
