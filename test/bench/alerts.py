#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How long it takes from a fault until somebody is told, what open incidents cost, and what the journal does, beside what
the machine can do at all in the same run.

usage: alerts.py BUILD [--alerts 300] [--kmsg 40] [--seconds 20] [--write]     --write puts the tables into docs/appendix/measurements.md

Nothing here passes or fails: goals stand beside the figures for a reader to judge. With --kmsg some lines marked
'stoker-test' are written to /dev/kmsg where that may be written; 0: none."""
import contextlib
import ctypes
import datetime
import http.client
import json
import os
import random
import re
import select
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import run as bench

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- alerts: written by test/bench/alerts.py with --write -->", "<!-- end of alerts -->"
GOAL_MS = 100
PATIENCE = 60
IDLE = "about: nothing runs\ngpus: {board: h100-sxm-80gb, count: 8}\ntruth: []\n"
MIG = """about: 16 GPUs, eleven of them cut into 72 MIG devices
gpus:
  - {board: h100-sxm-80gb, count: 5}
  - {board: h100-sxm-80gb, count: 10, mig: [1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb]}
  - {board: h100-sxm-80gb, count: 1, mig: [3g.40gb, 3g.40gb]}
truth: []
"""
LOG_CODES, NVML_CODES = (79, 119, 64), (31, 13)  # one incident per GPU each, told at once; these two leave the node well
OPEN = 200  # incidents, in the part about costs


rig = bench.load("agent_rig", ROOT / "test/scenario/agent/agent_rig.py")


def now():
    return time.monotonic()


# --- who is told -------------------------------------------------------------------------------------------------------


class Door(threading.Thread):
    """Takes POSTs, notes when the first byte of each came and which alerts it has; `behind`: passes them on, and answers as
    that one does. A socket loop of its own, since a web framework would be measured too."""

    def __init__(self, behind=None):
        super().__init__(daemon=True)
        self.behind, self.news, self.firing, self.over, self.posts = behind, threading.Condition(), {}, {}, 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def run(self):
        while True:
            with contextlib.suppress(OSError):
                connection, _ = self.socket.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()
                continue
            return

    def serve(self, connection):
        data = b""
        while True:
            part = connection.recv(1 << 20)
            at = now()
            while part and (request := whole(data := data + part)) is None:
                part = connection.recv(1 << 20)
            if not part:
                return
            head, body, data = request
            if b"Expect: 100-continue" in head and not body:
                connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                continue
            status = self.pass_on(body) if self.behind else 200
            connection.sendall(b"HTTP/1.1 %d OK\r\nContent-Length: 0\r\n\r\n" % status)
            self.note(body, at)

    def pass_on(self, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.behind, timeout=PATIENCE)
        connection.request("POST", "/api/v2/alerts", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status

    def note(self, body, at):
        with self.news:
            self.posts += 1
            for alert in json.loads(body):
                over = datetime.datetime.fromisoformat(alert["endsAt"].replace("Z", "+00:00")).timestamp() <= time.time()
                into, name = (self.over if over else self.firing), alert.get("annotations", {}).get("incident", "")
                into.setdefault((alert["labels"].get("class"), alert["labels"].get("gpu"), name), at)
            self.news.notify_all()

    def forget(self):
        with self.news:
            self.firing, self.over = {}, {}

    def wait(self, which, fits):
        """(time, incident) of the first alert that fits."""
        with self.news:
            found = lambda: next(((at, key[2]) for key, at in getattr(self, which).items() if fits(*key)), None)
            assert self.news.wait_for(found, PATIENCE), f"{which}: {self.firing} {self.over}"
            return found()

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def whole(data):
    """(head, body, rest) of a request that is complete, else None."""
    head, end, rest = data.partition(b"\r\n\r\n")
    if not end:
        return None
    length = int((re.search(rb"(?i)content-length: *(\d+)", head) or [0, b"0"])[1])
    return (head, rest[:length], rest[length:]) if len(rest) >= length else None


class Alertmanager:
    """Debian's, as test/peer/fetch.py unpacks it; None of `find` where it is not there."""

    @staticmethod
    def find(build):
        root = build / "peers/alertmanager/root/usr"
        return root if (root / "bin" / "prometheus-alertmanager").exists() else None

    def __init__(self, root, folder):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        (folder / "am.yml").write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
        self.log = open(folder / "am.log", "ab")
        self.process = subprocess.Popen(
            [root / "bin" / "prometheus-alertmanager", f"--config.file={folder}/am.yml", f"--storage.path={folder}/am",
             f"--web.listen-address=127.0.0.1:{self.port}", "--cluster.listen-address="],
            cwd=root / "share" / "prometheus" / "alertmanager", stdout=self.log, stderr=self.log)
        rig.until(lambda: self.get("/-/ready") is not None, "the Alertmanager is ready")

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            return connection.getresponse().read()
        except OSError:
            return None
        finally:
            connection.close()

    def has(self, incident):
        return any(a["annotations"].get("incident") == incident for a in json.loads(self.get("/api/v2/alerts")))

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()


# --- ways in -----------------------------------------------------------------------------------------------------------


def record(number, text):
    return f"4,{number},{time.monotonic_ns() // 1000},-;{text}\n"


class FileLog:
    phase = 0.05

    def __init__(self, path):
        self.path, self.number, self.codes = path, 0, LOG_CODES
        path.write_text("")
        self.option = path

    def put(self, text):
        self.number += 1
        with open(self.path, "a", encoding="ascii") as log:
            log.write(record(self.number, text))

    def fault(self, bus, gpu, code):
        begin = now()
        self.put(f"NVRM: Xid (PCI:{bus}): {code}, stoker-test {self.number}")
        return begin


class Device:
    """The kernel's own log."""

    phase = 0.05

    def __init__(self):
        self.option, self.codes, self.number = "/dev/kmsg", LOG_CODES, 0

    @staticmethod
    def writable():
        try:
            with open("/dev/kmsg", "wb", buffering=0):
                return True
        except OSError:
            return False

    def fault(self, bus, gpu, code):
        self.number += 1
        with open("/dev/kmsg", "wb", buffering=0) as log:
            begin = now()
            log.write(f"<4>NVRM: Xid (PCI:{bus}): {code}, stoker-test {self.number}\n".encode())
        return begin


class Event:
    """An event of the driver's library, without a line in any log."""

    phase = 1  # the agent looks at what samplers tell once a second: any moment of it

    def __init__(self, node):
        self.node, self.option, self.codes, self.took = node, "none", NVML_CODES, []

    def fault(self, bus, gpu, code):
        begin = now()
        self.node.inject("xid", str(code), f"gpu={gpu}")
        self.took.append(now() - begin)
        return begin


# --- figures -----------------------------------------------------------------------------------------------------------


def quantiles(seconds):
    """(median, p99, longest) in ms."""
    ordered = sorted(seconds)
    return tuple(1e3 * ordered[min(len(ordered) - 1, int(len(ordered) * q))] for q in (0.5, 0.99, 1))


def configured(folder, url):
    path = folder / "stoker.yaml"
    path.write_text(f"alerts:\n  receivers:\n    am: {{alertmanager: {{urls: ['{url}']}}}}\n")
    return path


def one_alert(agent, door, way, gpus, i, shown=None):
    """Seconds from the fault to the POST, and (with `shown`) to the Alertmanager's list."""
    gpu = i % len(gpus)
    code = way.codes[i // len(gpus) % len(way.codes)]
    door.forget()
    time.sleep(random.uniform(0, way.phase))
    begin = way.fault(gpus[gpu], gpu, code)
    at, incident = door.wait("firing", lambda kind, where, name: name and where == str(gpu))
    seen = None
    if shown:
        while not shown.has(incident):
            assert now() - begin < PATIENCE, f"{incident} is not in /api/v2/alerts"
        seen = now() - begin
    assert agent.ask(f"clear {incident} bench")[0] == 0
    door.wait("over", lambda kind, where, name: name == incident or where == str(gpu))
    return at - begin, seen


def way_out(stoker, node, folder, way, alerts, manager=None):
    """Times of so many alerts over one way in, to a plain receiver or through a proxy to an Alertmanager."""
    folder.mkdir()
    door = Door(manager and manager.port)
    gpus = [row[0].lower()[4:14] for row in node.smi("pci.bus_id")]
    agent = rig.Agent(stoker, folder, node.env, options=[
        "--config", configured(folder, door.url), "--kernel-log", way.option, "--journal", folder / "journal.db"])
    try:
        rig.until(lambda: agent.fresh(range(8)), "every GPU is known")
        one_alert(agent, door, way, gpus, 0, manager)  # connections are made
        figures = [one_alert(agent, door, way, gpus, 1 + i, manager) for i in range(alerts)]
    finally:
        agent.stop()
        door.close()
    return [f[0] for f in figures], [f[1] for f in figures if f[1] is not None]


def loopback(rounds, size=2000):
    """A POST of an alert's size to the same receiver, over one connection: seconds until its first byte is there."""
    door, body = Door(), json.dumps([{"labels": {"class": "x", "gpu": "0"}, "annotations": {"incident": "", "pad": "x" * size},
                                      "endsAt": "2100-01-01T00:00:00Z"}])
    connection = http.client.HTTPConnection("127.0.0.1", door.port, timeout=PATIENCE)
    took = []
    for _ in range(rounds):
        door.forget()
        time.sleep(random.uniform(0, 0.01))
        begin = now()
        connection.request("POST", "/api/v2/alerts", body)
        connection.getresponse().read()
        took.append(door.wait("firing", lambda *key: True)[0] - begin)
    connection.close()
    door.close()
    return took


def reader_times(rounds, log, start, stop):
    """Seconds from the writing of a line to its arrival at a reader's pipe."""
    took, process = [], start()
    try:
        time.sleep(0.3)
        for i in range(rounds):
            time.sleep(random.uniform(0, 0.02))
            begin = now()
            log.put(f"mark {i}")
            while f"mark {i}\n".encode() not in os.read(process.stdout.fileno(), 65536):
                pass
            took.append(now() - begin)
    finally:
        stop(process)
    return took


def tail(rounds, folder):
    log = FileLog(folder / "tailed")

    def stop(process):
        process.terminate()
        process.wait(30)
        process.stdout.close()

    return reader_times(rounds, log, lambda: subprocess.Popen(["tail", "-n0", "-f", log.path], stdout=subprocess.PIPE), stop)


def watcher(rounds, folder):
    """inotify and read, in this process, as the least that any reader does."""
    log, libc = FileLog(folder / "watched"), ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_NONBLOCK)
    assert fd >= 0 and libc.inotify_add_watch(fd, os.fsencode(log.path), 0x2) >= 0  # IN_MODIFY
    seen, over = {}, threading.Event()

    def look():
        with open(log.path, "rb") as file:
            while not over.is_set():
                if select.select([fd], [], [], 0.2)[0]:
                    os.read(fd, 65536)
                    text, at = file.read(), now()
                    for number in re.findall(rb"mark (\d+)", text):
                        seen[int(number)] = at

    thread, took = threading.Thread(target=look), []
    thread.start()
    for i in range(rounds):
        time.sleep(random.uniform(0, 0.02))
        begin = now()
        log.put(f"mark {i}")
        rig.until(lambda: i in seen, "the line is read")
        took.append(seen[i] - begin)
    over.set()
    thread.join()
    os.close(fd)
    return took


BARE = r"""
import ctypes, sys, time
lib = ctypes.CDLL("libnvidia-ml.so.1")
class Data(ctypes.Structure):
    _fields_ = [("device", ctypes.c_void_p), ("type", ctypes.c_ulonglong), ("data", ctypes.c_ulonglong),
                ("gi", ctypes.c_uint), ("ci", ctypes.c_uint)]
assert lib.nvmlInit_v2() == 0
events, data = ctypes.c_void_p(), Data()
assert lib.nvmlEventSetCreate(ctypes.byref(events)) == 0
for i in range(8):
    device = ctypes.c_void_p()
    assert lib.nvmlDeviceGetHandleByIndex_v2(i, ctypes.byref(device)) == 0
    assert lib.nvmlDeviceRegisterEvents(device, ctypes.c_ulonglong(8), events) == 0
print("ready", flush=True)
while True:
    if lib.nvmlEventSetWait_v2(events, ctypes.byref(data), 1000) == 0:
        print(time.monotonic(), flush=True)
"""


def bare_client(node, rounds):
    """Seconds until a client that does nothing but wait for events of the library has one."""
    process = subprocess.Popen([sys.executable, "-c", BARE], env=node.env, stdout=subprocess.PIPE, text=True)
    way, took = Event(node), []
    try:
        assert process.stdout.readline() == "ready\n"
        for i in range(rounds):
            time.sleep(random.uniform(0, 0.05))
            begin = way.fault("", i % 8, way.codes[i % len(way.codes)])
            took.append(float(process.stdout.readline()) - begin)
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()
    return took, way.took


# --- costs -------------------------------------------------------------------------------------------------------------


def cpu_ns(pid):
    """Processor time of all threads, from the scheduler: finer than the ticks of /proc/PID/stat."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            total += int((task / "schedstat").read_text().split()[0])
    return total


def per_tick(agent, seconds):
    """Milliseconds of the agent's processor time per tick."""
    ticks, used = agent.page().one("stoker_ticks_total"), cpu_ns(agent.process.pid)
    time.sleep(seconds)
    used = cpu_ns(agent.process.pid) - used
    return used / 1e6 / (agent.page().one("stoker_ticks_total") - ticks)


def oom(log, first, count):
    for i in range(first, first + count):
        log.put(f"Out of memory: Killed process {10000 + i} (worker{i}) total-vm:1kB, anon-rss:1kB, file-rss:0kB")


def tick_cost(stoker, tmp, name, scenario, seconds):
    """Per tick without incidents, with OPEN of them, and with OPEN of them while ten lines a second go on about them."""
    folder = tmp / name
    folder.mkdir()
    (folder / "node.yaml").write_text(scenario)
    node = rig.Node(stoker, folder, str(folder / "node.yaml"), strict=False)
    log, door = FileLog(folder / "kmsg"), Door()
    agent = rig.Agent(stoker, folder, node.env, options=[
        "--config", configured(folder, door.url), "--kernel-log", log.option, "--journal", folder / "journal.db"])
    try:
        time.sleep(5)
        rows = [per_tick(agent, seconds)]
        oom(log, 0, OPEN)
        rig.until(lambda: agent.page().one("stoker_incidents_open") >= OPEN, lambda: str(agent.page().all("stoker_incidents_open")))
        time.sleep(5)
        rows.append(per_tick(agent, seconds))
        over = threading.Event()

        def pour():
            i = 0
            while not over.wait(0.1):
                oom(log, i % OPEN, 1)
                i += 1

        rain = threading.Thread(target=pour)
        rain.start()
        rows.append(per_tick(agent, seconds))
        over.set()
        rain.join()
        return rows
    finally:
        agent.stop()
        node.stop()
        door.close()


# --- the journal -------------------------------------------------------------------------------------------------------


SETTINGS = ("auto_vacuum=INCREMENTAL", "journal_mode=WAL", "synchronous=FULL", "cache_size=-256", "wal_autocheckpoint=256",
            "journal_size_limit=2097152", "temp_store=MEMORY")


def on_disk(db, log):
    """Seconds until the newest line is in the file, for a reader of it."""
    begin = now()
    while db.execute("SELECT max(sequence) FROM events").fetchone()[0] != log.number:
        assert now() - begin < PATIENCE, "it is never written"
    return now() - begin


def journal_times(stoker, node, folder, rounds):
    """Seconds from a line to its event and its incident's change on disk: one at a time, and a hundred."""
    folder.mkdir()
    log, path = FileLog(folder / "kmsg"), folder / "journal.db"
    agent = rig.Agent(stoker, folder, node.env, options=["--kernel-log", log.option, "--journal", path])
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            oom(log, 0, OPEN)
            on_disk(db, log)
            single, many = [], []
            for i in range(rounds):
                time.sleep(random.uniform(0, 0.02))
                oom(log, i % OPEN, 1)
                single.append(on_disk(db, log))
            for i in range(rounds // 5):
                oom(log, 0, 100)
                many.append(on_disk(db, log))
        return single, many
    finally:
        agent.stop()


def plain_inserts(folder, seconds, size):
    """Times of transactions of one row of the size of an incident, with the journal's own settings."""
    db, took = sqlite3.connect(folder / "plain.db", isolation_level=None), []
    for setting in SETTINGS:
        db.execute(f"PRAGMA {setting}")
    db.execute("CREATE TABLE t(id TEXT PRIMARY KEY, state TEXT, text TEXT) STRICT")
    end, i = now() + seconds, 0
    while now() < end:
        begin = now()
        db.execute("INSERT OR REPLACE INTO t VALUES(?, 'open', ?)", (f"id{i % OPEN}", "x" * size))
        took.append(now() - begin)
        i += 1
    db.close()
    return took


def fsyncs(folder, seconds):
    took, fd = [], os.open(folder / "synced", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    end = now() + seconds
    while now() < end:
        begin = now()
        os.write(fd, b"x" * 4096)
        os.fsync(fd)
        took.append(now() - begin)
    os.close(fd)
    return took


# --- the page ----------------------------------------------------------------------------------------------------------


def table(head, rows):
    lines = [head, ("---",) * len(head), *rows]
    return bench.columns(lines)


def ms(value):
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms"


def row(what, seconds, goal=None):
    median, p99, most = quantiles(seconds)
    return (what, str(len(seconds)), ms(median), ms(p99), ms(most), f"< {goal} ms" if goal else "")


def latencies(stoker, tmp, args):
    (tmp / "idle.yaml").write_text(IDLE)
    rows, root = [], Alertmanager.find(args.build)
    node = rig.Node(stoker, tmp, str(tmp / "idle.yaml"), strict=False)
    manager = Alertmanager(root, tmp) if root else None
    try:
        def lead(what, way, count, to):
            times, shown = way_out(stoker, node, tmp / f"leg{len(rows)}", way, count, to)
            rows.append(row(f"{what} -> {'Alertmanager' if to else 'plain receiver'}", times, GOAL_MS))
            if shown:
                rows.append(row(f"{what} -> it stands in /api/v2/alerts", shown))

        for to in filter(None, (manager, "plain")):
            to = None if to == "plain" else to
            lead("a line in a log file", FileLog(tmp / f"kmsg-{bool(to)}"), args.alerts, to)
            lead("an event of the driver's library", Event(node), args.alerts, to)
            if args.kmsg and Device.writable():
                lead("a line in /dev/kmsg", Device(), args.kmsg, to)
        bare, command = bare_client(node, args.alerts)
        rows.append(row("the same line read by inotify", watcher(args.alerts, tmp)))
        rows.append(row("the same line read by `tail -f`", tail(args.alerts, tmp)))
        rows.append(row("a POST of this size over loopback, to the plain receiver", loopback(args.alerts)))
        rows.append(row("the same event at a bare client of the library that waits for it", bare))
        rows.append(row("`stoker sim inject` itself, which is part of both", command))
    finally:
        if manager:
            manager.stop()
        node.stop()
    return table(("from -> to", "times", "median", "p99", "longest", "goal"), rows)


def costs(stoker, tmp, args):
    rows = []
    for name, title, scenario in (("eight", "8 GPUs", IDLE), ("mig", "16 GPUs, of them 11 as 72 MIG devices", MIG)):
        none, some, rain = tick_cost(stoker, tmp, name, scenario, args.seconds)
        rows.append((title, f"{none:.3g} ms", f"{some:.3g} ms", f"{rain:.3g} ms", f"{1e3 * (some - none) / OPEN:.2g} us"))
    return table(("CPU of the agent per tick of a second", "no incident", f"{OPEN} open", "and 10 lines a second about them",
                  "per open incident"), rows)


def journal(stoker, tmp, args):
    (tmp / "idle.yaml").write_text(IDLE)
    node = rig.Node(stoker, tmp, str(tmp / "idle.yaml"), strict=False)
    try:
        single, many = journal_times(stoker, node, tmp / "times", args.alerts)
    finally:
        node.stop()
    plain, synced = plain_inserts(tmp, 5, 3000), fsyncs(tmp, 5)

    def line(what, seconds, each=1):
        median, p99, most = quantiles(seconds)
        return (what, f"{each * len(seconds) / sum(seconds):,.0f}", ms(median), ms(p99), ms(most))

    rows = [line("from a line to its event and its incident's change on disk", single),
            line("the same, a hundred lines at once", many, 100),
            line("SQLite from Python, a transaction of one row of 3 kB, the same pragmas", plain),
            line("write and fsync of 4 KiB in the same folder", synced)]
    return table(("what", "per second, one after another", "median", "p99", "longest"), rows)


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--alerts", type=int, default=300)
    parser.add_argument("--kmsg", type=int, default=40, help="lines written to /dev/kmsg per receiver; 0: none")
    parser.add_argument("--seconds", type=float, default=20, help="of each measurement of a tick")
    args = parser.parse_args()
    stoker, load_before, parts = args.build / "stoker", os.getloadavg()[0], []
    for title, part in (("From a fault to an alert", latencies), ("A tick with open incidents", costs), ("The journal", journal)):
        with tempfile.TemporaryDirectory() as tmp:
            parts.append(f"### {title}\n\n{part(stoker, Path(tmp), args)}\n")
    bench.tell(args, f"load {load_before:.1f} before and {os.getloadavg()[0]:.1f} after", "\n" + "\n".join(parts), BEGIN, END)


if __name__ == "__main__":
    sys.exit(main())
