#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What `stoker top` costs while somebody looks: its share of a core and the bytes it sends through a terminal as ssh's
server reads it, beside watch, top and htop (those of them that are here) in the same run.

usage: top.py BUILD [--seconds 30] [--write]     --write puts the tables into docs/appendix/measurements.md

Nothing here passes or fails: goals stand beside the figures for a reader to judge."""
import contextlib
import fcntl
import os
import pty
import shutil
import signal
import struct
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path

import run as bench

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- top: written by test/bench/top.py with --write -->", "<!-- end of top -->"
HZ = os.sysconf("SC_CLK_TCK")
GOAL = 1  # % of a core
WARM = 5  # seconds until a picture is there and its plots have begun
SSH_READ = 16384  # bytes at a time


rig = bench.load("agent_rig", ROOT / "test/scenario/agent/agent_rig.py")


def family(pid):
    """The process and what it has started."""
    found, parents = {pid}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def cpu(pid):
    """Seconds of the process, of its children that are over, and of those that live."""
    total = 0
    for member in family(pid):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{member}/stat").read_text().rsplit(")", 1)[1].split()
            total += sum(map(int, fields[11:15] if member == pid else fields[11:13])) / HZ
    return total


def memory(pid):
    with contextlib.suppress(OSError):
        return int(next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")).split()[1]) / 1024
    return 0


class Viewer:
    """A program on a terminal that somebody reads, as sshd does."""

    def __init__(self, command, env, size):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", size[1], size[0], 0, 0))
            os.execvpe(str(command[0]), [str(word) for word in command], env | {"TERM": "xterm-256color", "LANG": "C.UTF-8"})
        self.bytes, self.first = 0, b""
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        with contextlib.suppress(OSError):
            while part := os.read(self.master, SSH_READ):
                self.bytes += len(part)
                self.first += part if len(self.first) < 1 << 20 else b""

    def counts(self):
        return cpu(self.pid), self.bytes, time.monotonic()

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        until = time.monotonic() + 10
        while os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > until:
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(0.05)
        os.close(self.master)


def measure(commands, env, size, seconds):
    """Rows (what, % of a core, bytes per second, bytes of the first picture and what came until then, MiB), one after another."""
    rows = []
    for what, command in commands:
        viewer = Viewer(command, env, size)
        time.sleep(WARM)
        assert viewer.first, f"{what}: nothing is shown"
        first = viewer.bytes
        cpu0, bytes0, at0 = viewer.counts()
        time.sleep(seconds)
        cpu1, bytes1, at1 = viewer.counts()
        assert cpu1 >= cpu0 and bytes1 > 0, f"{what}: it has ended: {viewer.first[-500:]!r}"
        rows.append((what, 100 * (cpu1 - cpu0) / (at1 - at0), (bytes1 - bytes0) / (at1 - at0), first, memory(viewer.pid)))
        viewer.close()
    return rows


def table(rows):
    lines = [("what", "CPU", "bytes a second", "first 5 s", "memory (RSS)", "goal"), ("---",) * 6]
    for what, share, rate, first, mib in rows:
        goal = f"< {GOAL} % of a core" if what.startswith("stoker top") else ""
        lines.append((what, f"{share:.2f} % of a core", f"{rate:,.0f}", f"{first / 1024:.1f} KiB", f"{mib:.1f} MiB", goal))
    return bench.columns(lines)


def peers(agent):
    """What people have otherwise, once a second each."""
    found = []
    if shutil.which("watch"):
        found.append(("watch -n 1 nvidia-smi (the simulated one)", ["watch", "-n", "1", "nvidia-smi"]))
        found.append(("watch -n 1 stoker status", ["watch", "-n", "1", f"{agent.stoker} status --control {agent.control}"]))
    if shutil.which("top"):
        found.append(("top -d 1 (of this machine's processes)", ["top", "-d", "1"]))
    if shutil.which("htop"):
        found.append(("htop -d 10 (of this machine's processes)", ["htop", "-d", "10"]))
    return found


def agent_share(agent, seconds):
    before, at = cpu(agent.process.pid), time.monotonic()
    time.sleep(seconds)
    return 100 * (cpu(agent.process.pid) - before) / (time.monotonic() - at)


def case(build, scenario, seconds, size):
    stoker = build / "stoker"
    with tempfile.TemporaryDirectory() as tmp:
        node = rig.Node(stoker, Path(tmp), scenario, strict=False)
        agent = rig.Agent(stoker, Path(tmp), node.env)
        try:
            rig.until(lambda: agent.gpus(), "the agent has GPUs")
            top = [stoker, "top", "--control", agent.control]
            commands = [("stoker top, all GPUs", top), ("stoker top, processes", [*top, "--view", "processes"]),
                        ("stoker top, one GPU", [*top, "--view", "gpu", "--gpu", "0"]),
                        ("stoker top, incidents", [*top, "--view", "incidents"]),
                        ("stoker top, topology", [*top, "--view", "topology"]), *peers(agent)]
            text = table(measure(commands, node.env, size, seconds))
            at_rest = agent_share(agent, seconds)
            viewer = Viewer(top, node.env, size)
            time.sleep(WARM)
            looked_at = agent_share(agent, seconds)
            viewer.close()
            text += (f"\n\nThe agent and its sampler themselves: {at_rest:.2f} % of a core at rest, {looked_at:.2f} % with one "
                     "`stoker top` looking.\n")
            agent.stop()
            alone = [("stoker top without an agent, and its sampler", [stoker, "top", "--alone", "--root", node.tree])]
            return text + "\n" + table(measure(alone, node.env, size, seconds)) + "\n"
        finally:
            if agent.process.poll() is None:
                agent.stop()
            node.stop()


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=30, help="of each row")
    args = parser.parse_args()
    load_before, parts = os.getloadavg()[0], []
    for title, scenario, size in (("8 GPUs, 120x40", "default", (120, 40)), ("8 GPUs, 200x60", "default", (200, 60)),
                                  ("8 x 7 MIG devices, 120x40", str(ROOT / "test/bench/mig-8x7.yaml"), (120, 40))):
        parts.append(f"### {title}\n\n{case(args.build, scenario, args.seconds, size)}")
    bench.tell(args, f"load {load_before:.1f} before and {os.getloadavg()[0]:.1f} after; {args.seconds:g} s each", "\n" + "\n".join(parts),
               BEGIN, END)


if __name__ == "__main__":
    sys.exit(main())
