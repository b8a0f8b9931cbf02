# SPDX-License-Identifier: Apache-2.0
"""A simulated node and an agent on it, both real processes, for the scenario tests. Nothing here waits for a fixed time:
`until` and `settles` look again and again and give up after a generous limit. What two answers say of one thing, and what is
read after something was done, is read by one of them: on a busy machine a GPU has no reading for a tick, and a tick comes late."""
import contextlib
import functools
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

PATIENCE = 120  # seconds after which a condition is taken to be never met
NAME = re.compile(r'[a-zA-Z_:][a-zA-Z0-9_:]*')
SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


# As what is missing for a moment is met: a series, an entry of a list, a value that is null, a line that is half written.
NOT_YET = (LookupError, TypeError, ValueError, StopIteration)


class Missing(AssertionError, LookupError):
    """A series that is not there, or not once."""


def told(what):
    try:
        return what() if callable(what) else what
    except NOT_YET as error:
        return repr(error)


def again(began):
    """A pause before the next look: half of the time at most goes to looking."""
    time.sleep(max(0.02, time.monotonic() - began))


def until(condition, what, patience=PATIENCE):
    """What the condition gives, once it is true. What it looks for and does not find is waited for too."""
    end = time.monotonic() + patience
    while True:
        missing, began = None, time.monotonic()
        try:
            if found := condition():
                return found
        except NOT_YET as error:
            missing = error
        if time.monotonic() > end:
            raise AssertionError(f"never happened: {told(what)}") from missing
        again(began)


def settles(check, patience=PATIENCE):
    """Makes a check until nothing in it fails, and gives what it gives; the last failure is the test's."""
    end = time.monotonic() + patience
    while True:
        began = time.monotonic()
        try:
            return check()
        except (AssertionError, *NOT_YET):
            if time.monotonic() > end:
                raise
        again(began)


def parse(line):
    name, labels, value = SAMPLE.match(line).groups()
    return name, dict(LABEL.findall(labels or "")), float(value)


class Page:
    """A /metrics page."""

    def __init__(self, text):
        self.text = text

    @functools.cached_property
    def lines(self):
        """By metric. They are parsed where they are asked for: a page that is waited for is read many times."""
        lines = {}
        for line in self.text.splitlines():
            if line and not line.startswith("#"):
                lines.setdefault(NAME.match(line)[0], []).append(line)
        return lines

    @functools.cached_property
    def series(self):
        return [parse(line) for lines in self.lines.values() for line in lines]

    def all(self, name, **labels):
        return [(l, v) for _, l, v in map(parse, self.lines.get(name, ())) if labels.items() <= l.items()]

    def one(self, name, **labels):
        found = self.all(name, **labels)
        if len(found) != 1:
            raise Missing(f"{name}{labels}: {found}")
        return found[0][1]

    def names(self):
        return set(self.lines)


class Node:
    """`stoker sim run`, with /proc and /sys look-alikes below `tree`."""

    def __init__(self, stoker, tmp, scenario, speed=1, strict=True, driver=None, options=()):
        self.stoker, self.tmp = stoker, tmp
        self.tree, self.image, self.strict = tmp / "tree", tmp / "node.img", tmp / "strict.log"
        command = [stoker, "sim", "run", "--image", self.image, "--tree", self.tree, "--no-processes", "--speed", str(speed),
                   *options]
        if strict and speed >= 1:  # of a clock that stands still two GPM samples are no pair
            command += ["--strict", self.strict]
        if driver:
            command += ["--driver", driver]
        self.process = subprocess.Popen([*map(str, command), scenario], stdout=subprocess.PIPE, text=True)
        self.env = dict(os.environ, STOKER_ROOT=str(self.tree))
        for line in self.process.stdout:
            if line.startswith("  export "):
                name, value = line[len("  export "):].strip().split("=", 1)
                self.env[name] = subprocess.check_output(["sh", "-c", f"printf %s {value}"], text=True)
            if line.startswith("then"):
                break
        assert "STOKER_SIM" in self.env

    def sim(self, *words):
        return subprocess.run([self.stoker, "sim", *words], env=self.env, check=True, capture_output=True, text=True).stdout

    def inject(self, *words):
        self.sim("inject", *words)

    def smi(self, *fields, index=None):
        command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
        if index is not None:
            command += ["-i", str(index)]
        out = subprocess.run(command, env=self.env, check=True, capture_output=True, text=True).stdout
        return [[cell.strip() for cell in line.split(",")] for line in out.splitlines()]

    def misuse(self):
        return self.strict.read_text() if self.strict.exists() else ""

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)
        self.process.stdout.close()


class Agent:
    def __init__(self, stoker, tmp, env, options=(), listen="127.0.0.1:0", ready=True, within=()):
        """`within`: words before the command, as unshare(1) has them."""
        self.stoker, self.env, self.control = stoker, env, tmp / "control.sock"
        self.log = open(tmp / "agent.log", "ab")
        self.log_path = tmp / "agent.log"
        command = [*within, stoker, "agent", "--listen", listen, "--control", self.control, *options]
        self.process = subprocess.Popen(list(map(str, command)), env=env, stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        start_new_session=True)  # without a terminal SIGHUP means: read the files again
        line = self.process.stdout.readline()
        match = re.search(r"(https?)://([^/]+)/", line)
        assert match, f"no address: {line!r} {self.log_text()}"
        self.scheme, self.address = match.groups()
        self.address = self.address.replace("[::]", "127.0.0.1").replace("0.0.0.0", "127.0.0.1")
        threading.Thread(target=self._drain, daemon=True).start()
        if ready:
            until(lambda: self.get("/readyz")[0] == 200, lambda: self.get("/readyz")[1] + self.log_text())

    def _drain(self):
        with contextlib.suppress(ValueError):
            for _ in self.process.stdout:
                pass

    def log_text(self):
        return self.log_path.read_text()

    def get(self, path, headers=None, timeout=120):
        connection = http.client.HTTPConnection(self.address, timeout=timeout)
        try:
            connection.request("GET", path, headers=headers or {})
            answer = connection.getresponse()
            self.headers = dict(answer.getheaders())
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def json(self, path):
        status, text = self.get(path)
        return status, json.loads(text)

    def page(self, **headers):
        status, text = self.get("/metrics", headers)
        assert status == 200
        return Page(text)

    def gpus(self):
        return self.json("/api/v1/gpus")[1]["gpus"]

    def gpu(self, index):
        return next(g for g in self.gpus() if g["index"] == index)

    def samplers(self):
        return [s for s in self.json("/api/v1/gpus")[1]["samplers"] if s["state"] != "free"]

    def verb(self, *words, check=False):
        return subprocess.run([self.stoker, *words, "--control", self.control], env=self.env, capture_output=True, text=True,
                              check=check, timeout=120)

    def ask(self, line):
        """A line for the control socket: (code, text)."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(120)
            s.connect(str(self.control))
            s.sendall(line.encode() + b"\n")
            answer = b""
            while part := s.recv(65536):
                answer += part
        head, text = answer.split(b"\n", 1)
        return int(head.split()[0]), text.decode()

    def fresh(self, indexes, limit=10):
        """Whether these GPUs are up with samples younger than `limit` seconds."""
        seen = {g["index"]: g for g in self.gpus()}
        return all(i in seen and seen[i]["state"] == "up" and seen[i].get("last_sample_age_seconds", 99) < limit for i in indexes)

    def rss(self):
        return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{self.process.pid}/status").read_text())[1]) * 1024

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def children(self):
        pid = str(self.process.pid)
        found = []
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = stat.read_text().rsplit(")", 1)[1].split()
                if fields[1] == pid:
                    found.append((int(stat.parent.name), fields[0]))
        return found

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(120)
        self.process.stdout.close()
        self.log.close()
        faults = [line for line in self.log_text().splitlines() if "Sanitizer" in line or "runtime error" in line]
        assert not faults, faults
        return code
