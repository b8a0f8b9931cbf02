# SPDX-License-Identifier: Apache-2.0
"""Everything at once, at random, at sixty times the speed: samplers and agents are killed, one to eight GPUs hang, the disk of
the journal is full, and clients do what no client should. The agent answers all the time, its memory stays small, healthy GPUs
come back, and no counter goes back. How old a number may be meanwhile, test_chaos.c says, under a fake clock.

STOKER_CHAOS=1000 does so many rounds, STOKER_CHAOS_SEED others."""
import contextlib
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import threading

import pytest
from agent_rig import Agent, until

ROUNDS = int(os.environ.get("STOKER_CHAOS", "40"))
SEED = int(os.environ.get("STOKER_CHAOS_SEED", "7"))
SPEED = 60
RSS_MOST = 24 << 20
HELD = 10  # connections of one client
COUNTERS = ("stoker_gpu_xid_errors_total", "stoker_events_total", "stoker_incidents_opened_total", "stoker_incidents_cleared_total")
HOLD = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=4m none "$0" && echo mounted && exec sleep infinity']
REQUESTS = (
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20,  # answers that nobody reads
    b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20,
    b"GET /metrics HTTP/1.1\r\nHost: loc",  # a head that never ends
    b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n" + b"x" * 4096,
    b"\x16\x03\x01\x02\x00" + bytes(range(256)) * 4,
    b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\n\r\n",
)


class Disk:
    """A small file system of its own, which outlives the agents."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.holder = subprocess.Popen([*HOLD, folder], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.there = self.holder.stdout.readline() == "mounted\n"
        self.within = ["nsenter", "--preserve-credentials", "-U", "-m", "-t", str(self.holder.pid)] if self.there else []
        self.seen = pathlib.Path(f"/proc/{self.holder.pid}/root{folder}") if self.there else folder

    def fill(self):
        if not self.there:
            return
        with open(self.seen / "fill", "ab", buffering=0) as fill, contextlib.suppress(OSError):
            while fill.write(b"x" * 4096):
                pass

    def free(self):
        (self.seen / "fill").unlink(missing_ok=True)

    def close(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()


class Hostile(threading.Thread):
    """Opens connections, sends what no client should, and reads nothing."""

    def __init__(self, seed):
        super().__init__(daemon=True)
        self.address, self.over, self.sent, self.random = None, threading.Event(), 0, random.Random(seed)
        self.start()

    def attack(self, held):
        host, port = self.address.rsplit(":", 1)
        held.append(socket.create_connection((host, int(port)), timeout=1))
        held[-1].setblocking(False)
        with contextlib.suppress(BlockingIOError):
            held[-1].send(self.random.choice(REQUESTS))
        self.sent += 1

    def run(self):
        held = []
        while not self.over.wait(0.02):
            with contextlib.suppress(OSError, TypeError, AttributeError):  # no agent now
                self.attack(held)
            while len(held) > HELD or (held and self.random.random() < 0.05):
                held.pop(self.random.randrange(len(held))).close()
        for one in held:
            one.close()

    def stop(self):
        self.over.set()
        self.join(60)


class Place:
    def __init__(self, stoker, tmp, node):
        self.stoker, self.tmp, self.node, self.random = stoker, tmp, node, random.Random(SEED)
        self.disk, self.hostile = Disk(tmp / "disk"), [Hostile(SEED + i) for i in range(4)]
        self.agent, self.lives, self.peak, self.counted = None, 0, 0, {}

    def start(self):
        self.lives += 1
        folder = self.tmp / f"agent{self.lives}"
        folder.mkdir()
        self.agent = Agent(self.stoker, folder, self.node.env, ready=False, within=self.disk.within, options=[
            "--clock-speed", SPEED, "--sample-fast", "1s", "--sample-normal", "2s", "--sample-slow", "10s",
            "--sampler-kill-after", "1s", "--sampler-retry-max", "2s", "--sampler-rejoin-after", "2s", "--sampler-attach-deadline", "1s",
            "--journal", self.disk.folder / "journal.db", "--journal-max-size", "1MiB"])
        for one in self.hostile:
            one.address = self.agent.address
        if self.page().one("stoker_journal_up") == 0:
            self.counted = {}  # nothing can be read from a disk that is full

    def measure(self):
        """The most that this agent ever had resident, and that no counter went back."""
        status = pathlib.Path(f"/proc/{self.agent.process.pid}/status").read_text()
        self.peak = max(self.peak, int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024)
        page = self.page()
        kept = page.one("stoker_journal_up") == 1 and page.one("stoker_journal_queued") == 0
        for name, labels, value in page.series:
            key = (name, *sorted(labels.items()))
            if name in COUNTERS and kept:  # what is not on the disk yet goes with the agent
                assert value >= self.counted.get(key, 0), (key, self.counted[key], value)
                self.counted[key] = value

    def page(self):
        """Whatever others do, a scrape comes through in the end."""
        found = []

        def scrape():
            with contextlib.suppress(OSError, AssertionError, ValueError):
                found.append(self.agent.page())
            return found

        until(scrape, self.agent.log_text)
        return found[0]

    def up(self):
        return {int(l["gpu"]) for l, v in self.page().all("stoker_gpu_up") if v and "gpu" in l}

    # --- what happens ------------------------------------------------------------------------------------------------

    def kill_samplers(self):
        for pid, _ in self.agent.children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill_agent(self):
        self.measure()
        self.agent.process.kill()
        self.agent.stop()
        self.start()

    def hang(self):
        hung = set(self.random.sample(range(8), self.random.randint(1, 8)))
        for gpu in sorted(hung):
            self.node.inject("hang", f"gpu={gpu}")
        until(lambda: self.up() == set(range(8)) - hung, lambda: f"{hung} {self.up()} {self.agent.log_text()[-3000:]}")
        if self.random.random() < 0.5:
            self.kill_samplers()
            until(lambda: self.up() == set(range(8)) - hung, lambda: f"{hung} {self.up()} {self.agent.log_text()[-3000:]}")
        self.node.inject("hang", "clear=on")

    def fail(self):
        self.node.inject("xid", self.random.choice(["13", "31", "94"]), f"gpu={self.random.randrange(8)}")

    def fill_disk(self):
        self.disk.fill()
        self.fail()

    def free_disk(self):
        self.disk.free()

    def close(self):
        for one in self.hostile:
            one.stop()
        if self.agent:
            self.agent.stop()
        self.disk.close()


@pytest.mark.slow("minutes of chaos")
def test_all_at_once(stoker, make_node, tmp_path):
    place = Place(stoker, tmp_path, make_node(speed=SPEED, strict=False))
    happenings = [place.kill_samplers, place.kill_agent, place.hang, place.fail, place.fill_disk, place.free_disk]
    try:
        place.start()
        until(lambda: place.up() == set(range(8)), place.agent.log_text)
        for _ in range(ROUNDS):
            for happening in place.random.sample(happenings, len(happenings)):
                happening()
                place.measure()
            place.disk.free()
            until(lambda: place.up() == set(range(8)), lambda: f"{place.up()} {place.agent.log_text()[-3000:]}")
        assert sum(one.sent for one in place.hostile) > 100
        for one in place.hostile:
            one.stop()
        until(lambda: place.agent.get("/health")[0] == 200, place.agent.log_text)
        place.measure()
        sanitized = b"__asan_init" in pathlib.Path(stoker).read_bytes()
        assert sanitized or place.peak < RSS_MOST, place.peak
    finally:
        place.close()
