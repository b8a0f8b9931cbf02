# SPDX-License-Identifier: Apache-2.0
"""Everything at once, at random, on a node and an agent whose clocks run sixty times as fast: samplers and agents are killed, one
to eight GPUs hang, the disk of the journal is full, clients do what no client should. The agent and its samplers have 64 MiB
in a memory cgroup of their own, where this machine lets us make one.

The periods are so long that one is a second of the kernel's clock, by which deadlines go. How old the numbers of healthy GPUs
are, a thread reads from the agent's page: by the agent's clock at the tick that the page is of."""
import contextlib
import http.client
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import threading
import time

from agent_rig import Agent, Page, until

SPEED = 60
PERIOD_S = 60  # of the agent's clock
GPUS = 8
LIMIT = 64 << 20
HELD = 60  # connections of each hostile client
HOSTILE = 4
ROW_S, ROW_MAX = 6, 3  # more ends of samplers so close to one another make the next start wait, which is right
COUNTERS = ("stoker_gpu_xid_errors_total", "stoker_events_total", "stoker_incidents_opened_total", "stoker_incidents_cleared_total")
OPTIONS = ["--clock-speed", SPEED, "--sample-fast", "10s", "--sample-normal", f"{PERIOD_S}s", "--sample-slow", "5m",
           "--sampler-kill-after", "1s", "--sampler-retry-max", "2s", "--sampler-rejoin-after", "2s", "--journal-max-size", "1MiB"]
NO_ANSWER = (OSError, http.client.HTTPException, AssertionError, AttributeError, ValueError)  # no agent now, or it is busy
HOLD = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=4m none "$0" && echo mounted && exec sleep infinity']
REQUESTS = (
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20,  # answers that nobody reads
    b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20,
    b"GET /api/v1/gpus HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20,
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


class Cgroup:
    """A memory cgroup below this process's own, version 1 or 2; `there` is False where none can be made."""

    def __init__(self):
        self.there, self.folder, self.within = False, None, []
        for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            base = "/sys/fs/cgroup/memory" if "memory" in controllers.split(",") else "/sys/fs/cgroup" if number == "0" else None
            if base and not self.there:
                self.make(pathlib.Path(base + path) / f"stoker-chaos-{os.getpid()}", "memory.limit_in_bytes" if controllers else "memory.max")

    def make(self, folder, limit):
        with contextlib.suppress(OSError):
            folder.mkdir()
            self.folder = folder
            (folder / limit).write_text(str(LIMIT))
            self.there = True
            self.within = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(folder / "cgroup.procs")]
        if not self.there:
            self.close()

    def figure(self, *names):
        """The first of these files that is there, as a number."""
        for name in names if self.there else ():
            with contextlib.suppress(OSError):
                return int((self.folder / name).read_text())
        return None

    def peak(self):
        return self.figure("memory.max_usage_in_bytes", "memory.peak")

    def kills(self):
        """Processes that the kernel ended in it for want of memory."""
        for name in ("memory.oom_control", "memory.events"):
            with contextlib.suppress(OSError, TypeError):
                return int(re.search(r"^oom_kill (\d+)$", (self.folder / name).read_text(), re.M)[1])
        return None

    def close(self):
        if self.folder and self.folder.is_dir():
            until(self.remove, lambda: (self.folder / "cgroup.procs").read_text())

    def remove(self):
        with contextlib.suppress(OSError):
            self.folder.rmdir()
        return not self.folder.is_dir()


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


class Ages(threading.Thread):
    """Reads, again and again, how old the numbers of the healthy GPUs are, in periods. A GPU is healthy since it was up for the
    first time behind its last hang; one that has no number yet is as old as the agent."""

    def __init__(self, place):
        super().__init__(daemon=True)
        self.place, self.over = place, threading.Event()
        self.ages, self.firsts, self.stalls, self.old = [], [], [], []
        self.changes, self.healthy = [0] * GPUS, [False] * GPUS
        self.sampled = [True] * GPUS  # by this agent, or it hung since that began

    def note_change(self, gpu):
        """It hangs now, or does no more."""
        self.changes[gpu] += 1
        self.healthy[gpu] = False
        self.sampled[gpu] = True

    def note_start(self):
        self.sampled = [gpu in self.place.hung for gpu in range(GPUS)]

    def look(self):
        agent, started, hung, changes = self.place.agent, self.place.started, set(self.place.hung), list(self.changes)
        status, text = agent.get("/metrics?scraper=ages", timeout=60)
        if status != 200 or agent is not self.place.agent:
            return
        now, page = time.monotonic(), Page(text)
        up = {int(l["gpu"]) for l, v in page.all("stoker_gpu_up") if v and "gpu" in l}
        ages = {int(l["gpu"]): v / PERIOD_S for l, v in page.all("stoker_gpu_last_sample_age_seconds") if "gpu" in l}
        for gpu in set(range(GPUS)) - hung:
            if changes[gpu] == self.changes[gpu] and agent is self.place.agent:
                self.look_at(gpu, gpu in up, ages.get(gpu), (now - started) * SPEED / PERIOD_S)

    def look_at(self, gpu, up, age, life):
        self.healthy[gpu] |= up
        if not self.healthy[gpu]:
            return
        if age is not None and not self.sampled[gpu]:
            self.sampled[gpu] = True
            self.firsts.append(max(0, life - age))
        self.ages.append(min(life if age is None else age, life))
        if self.ages[-1] > 2:
            self.old.append(f"GPU {gpu} {'up' if up else 'not up'} {self.ages[-1]:.2f} periods, agent {life:.1f}, last: {self.place.last}")

    def run(self):
        while not self.over.is_set():
            before = time.monotonic()
            self.over.wait(0.05)
            self.stalls.append((time.monotonic() - before - 0.05) * SPEED / PERIOD_S)
            with contextlib.suppress(*NO_ANSWER):
                self.look()

    def stop(self):
        self.over.set()
        self.join(120)


class Chaos:
    def __init__(self, stoker, tmp, node, seed):
        self.stoker, self.tmp, self.node, self.random = stoker, tmp, node, random.Random(seed)
        self.disk, self.cgroup, self.hostile = Disk(tmp / "disk"), Cgroup(), [Hostile(seed + i) for i in range(HOSTILE)]
        self.agent, self.started, self.lives, self.last, self.hung, self.counted = None, 0, 0, "", set(), {}
        self.peak = self.sampler_peak = self.kills = self.hangs = self.hung_gpus = self.full = 0
        self.killed = []  # when samplers were, in one row
        self.ages = Ages(self)

    def start(self):
        self.lives += 1
        folder = self.tmp / f"agent{self.lives}"
        folder.mkdir()
        started = time.monotonic()
        agent = Agent(self.stoker, folder, self.node.env, ready=False, within=[*self.cgroup.within, *self.disk.within],
                      options=[*OPTIONS, "--journal", self.disk.folder / "journal.db"])
        self.ages.note_start()
        self.agent, self.started = agent, started
        for one in self.hostile:
            one.address = self.agent.address
        if self.lives == 1:
            self.ages.start()
        if self.page().one("stoker_journal_up") == 0:
            self.counted = {}  # nothing can be read from a disk that is full

    def measure(self):
        """The most that this agent and its samplers ever had resident, and that no counter went back."""
        self.peak = max(self.peak, resident_most(self.agent.process.pid))
        self.sampler_peak = max([self.sampler_peak, *(resident_most(pid) for pid, _ in self.agent.children())])
        page = self.page()
        kept = page.one("stoker_journal_up") == 1 and page.one("stoker_journal_queued") == 0
        for name, labels, value in page.series:
            key = (name, *sorted(labels.items()))
            known = "UUID" in labels or "pci_bus_id" not in labels  # else it has not said yet which GPU it is
            if name in COUNTERS and kept and known:  # what is not on the disk yet goes with the agent
                assert value >= self.counted.get(key, 0), f"{key} {self.counted[key]} {value} {self.agent.log_text()[-6000:]}"
                self.counted[key] = value

    def page(self):
        """Whatever others do, a scrape comes through in the end."""
        found = []

        def scrape():
            with contextlib.suppress(*NO_ANSWER):
                found.append(self.agent.page())
            return found

        until(scrape, self.agent.log_text)
        return found[0]

    def up(self):
        return {int(l["gpu"]) for l, v in self.page().all("stoker_gpu_up") if v and "gpu" in l}

    def wait_for_up(self):
        """All that do not hang are up, and no other is."""
        until(lambda: self.up() == set(range(GPUS)) - self.hung, lambda: f"{self.hung} {self.up()} {self.agent.log_text()[-3000:]}")

    # --- what happens ------------------------------------------------------------------------------------------------

    def kill_samplers(self):
        now = time.monotonic()
        self.killed = [at for at in self.killed if now - self.killed[-1] < ROW_S]
        if len(self.killed) == ROW_MAX:
            return
        self.killed.append(now)
        for pid, _ in self.agent.children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.kills += 1

    def kill_agent(self):
        self.measure()
        self.agent.process.kill()
        self.agent.stop()
        self.kills += 1
        self.start()

    def hang(self):
        self.release()
        hung = set(self.random.sample(range(GPUS), self.random.randint(1, GPUS)))
        self.hangs += 1
        self.hung_gpus += len(hung)
        for gpu in sorted(hung):
            self.hung |= {gpu}
            self.ages.note_change(gpu)
            self.node.inject("hang", f"gpu={gpu}")
        self.wait_for_up()
        if self.random.random() < 0.5:
            self.kill_samplers()
            self.wait_for_up()
        if self.random.random() < 0.5:  # else what happens next meets it
            self.release()

    def release(self):
        self.node.inject("hang", "clear=on")
        for gpu in self.hung:
            self.ages.note_change(gpu)
        self.hung = set()

    def fail(self):
        self.node.inject("xid", self.random.choice(["13", "31", "94"]), f"gpu={self.random.randrange(GPUS)}")

    def fill_disk(self):
        self.full += self.disk.there
        self.disk.fill()
        self.fail()

    def free_disk(self):
        self.disk.free()

    def round(self):
        happenings = [self.kill_samplers, self.kill_agent, self.hang, self.fail, self.fill_disk, self.free_disk]
        for happening in self.random.sample(happenings, len(happenings)):
            self.last = happening.__name__
            happening()
            self.measure()
        self.disk.free()
        self.release()
        self.wait_for_up()

    def calm(self):
        """The clients go, and the agent is well."""
        assert self.ages.is_alive()
        for one in [*self.hostile, self.ages]:
            one.stop()
        until(lambda: self.agent.get("/health")[0] == 200, self.agent.log_text)
        self.measure()

    def close(self):
        for one in self.hostile:
            one.stop()
        if self.ages.is_alive():
            self.ages.stop()
        if self.agent:
            self.agent.stop()
        self.disk.close()
        self.cgroup.close()


def resident_most(pid):
    """The most that a process ever had resident, in bytes; 0 where it has ended."""
    with contextlib.suppress(OSError, TypeError):
        return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) * 1024
    return 0
