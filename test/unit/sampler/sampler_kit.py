# SPDX-License-Identifier: Apache-2.0
"""A simulated node and an agent's puppet (puppet.c) with samplers on it."""
import json
import os
import subprocess
import time
from pathlib import Path

DRIVERS = {535: "535.261.03", 590: "590.48.01", 610: "610.57.02"}
NOT_TRIED, FINE, LOST, RESET_REQUIRED, NOT_FOUND, REFUSED = range(6)
DRIVER_FINE, DRIVER_NO_LIBRARY, DRIVER_INIT_FAILED, DRIVER_RELEASED = 1, 2, 3, 4
PATIENCE_S = 120  # only a test that fails waits for so long


def scenario(gpus, work="", driver=590, at=""):
    work = f"work:\n{work}" if work else ""
    at = f"at:\n{at}" if at else ""
    return (f'about: for a sampler\nnode: {{driver: "{DRIVERS[driver]}", seed: 5, start: "2026-01-05T08:00:00Z"}}\n'
            f"gpus:\n{gpus}{work}{at}truth: []\n")


class NoReading(LookupError):
    """A GPU that is not answered for just now, as in a reset; `until` waits it out."""


def is_whole(board):
    """Nothing was written all the while it was read."""
    return all(gpu[part] is not None for gpu in board["gpus"] for part in ("reading", "links", "processes")) and \
        all(row is not None for gpu in board["gpus"] for row in gpu["instances"]) and not any("torn" in gpu["peers"] for gpu in board["gpus"])


def lines_of(path):
    """Those that are written to their end."""
    if not path.exists():
        return []
    return [line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")]


class Node:
    """A node of its own; its clock stands unless `speed` says otherwise."""

    def __init__(self, stoker, folder, text, speed=0):
        self.stoker, self.image, self.stands = stoker, folder / "node.img", speed == 0
        self.strict, self.trace = folder / "strict.log", folder / "trace.log"
        path = folder / "node.yaml"
        path.write_text(text, encoding="utf-8")
        out = subprocess.run([stoker, "sim", "env", "--speed", str(speed), "--image", self.image, path], check=True,
                             capture_output=True, text=True).stdout
        library = next(line.split("'")[1] for line in out.splitlines() if "LD_LIBRARY_PATH" in line)
        smi = next(line.split("'")[1] for line in out.splitlines() if line.startswith("export PATH"))
        self.env = dict(os.environ, STOKER_SIM=str(self.image), STOKER_SIM_STRICT=str(self.strict),
                        LD_LIBRARY_PATH=library, PATH=f'{smi}:{os.environ["PATH"]}')

    def sim(self, *words):
        return subprocess.run([self.stoker, "sim", *words], env=self.env, check=True, capture_output=True, text=True).stdout

    def inject(self, *words):
        self.sim("inject", *words)

    def step(self, duration):
        self.sim("clock", "step", duration)

    def show(self):
        return json.loads(self.sim("show", "--json"))["gpus"]

    def smi(self, query, extra=()):
        out = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits", *extra], env=self.env,
                             check=True, capture_output=True, text=True).stdout
        return [[cell.strip() for cell in line.split(",")] for line in out.splitlines()]

    def buses(self):
        return [row[0] for row in self.smi("pci.bus_id")]

    def reported(self):
        """What was done wrong. On a node whose clock stands, two samples of GPM are of the same instant."""
        lines = self.strict.read_text(encoding="utf-8").splitlines() if self.strict.exists() else []
        return [line for line in lines if not (self.stands and "samples that are no pair" in line)]

    def close(self):
        self.image.unlink(missing_ok=True)


class Puppet:
    def __init__(self, build, env):
        self.sampler = build / "src" / "source" / "nvml" / "stoker-sampler"
        self.process = subprocess.Popen([build / "test" / "unit" / "sampler" / "sampler_puppet"], env=env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pids, self.events, self.fast, self.news = {}, [], {}, 0

    def do(self, *words):
        self.process.stdin.write(" ".join(str(w) for w in words) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert "unknown" not in answer, words
        return answer

    def start(self, slot=0, attach="attach", library=""):
        answer = self.do("start", slot, attach, self.sampler, library)
        assert answer["pid"] == answer["told"]
        self.pids[slot] = answer["pid"]

    def gpus(self, buses, slot=0):
        for bus in buses:
            self.do("own", self.do("gpu", bus)["gpu"], slot)

    def plan(self, wanted="all", fast_ms=20, normal_ms=120, slow_ms=240):
        for pace, ms in (("fast", fast_ms), ("normal", normal_ms), ("slow", slow_ms), ("blocking", 100)):
            self.do("period", pace, ms)
        self.do("plan", wanted)

    def dump(self):
        """The board; read again where a part of it was torn, which one of a sampler that was killed may stay."""
        for _ in range(100):
            board = self.dump_once()
            if is_whole(board):
                break
            time.sleep(0.002)
        return board

    def dump_once(self):
        board = self.do("dump")
        for sampler in board["samplers"]:
            self.events += sampler["events"]
            self.news += sampler["news"]
        for i, gpu in enumerate(board["gpus"]):
            self.fast.setdefault(i, []).extend(gpu["fast"])
        return board

    def until(self, what, condition):
        """The first dump in which the condition holds."""
        end = time.monotonic() + PATIENCE_S
        while True:
            began = time.monotonic()
            board = self.dump()
            try:
                if condition(board):
                    return board
            except (LookupError, TypeError):  # what is missing for a moment
                pass
            if time.monotonic() > end:
                raise AssertionError(f"never: {what}\n{json.dumps(board)[:6000]}")
            time.sleep(max(0.01, time.monotonic() - began))

    def settle(self, slot=0, passes=30):
        """After so many more turns of a sampler: all of its paces have come by since."""
        now = self.dump()["samplers"][slot]["passes"]
        return self.until("more passes", lambda b: b["samplers"][slot]["passes"] >= now + passes)

    def up(self, *gpus):
        return self.until("GPUs sampled", lambda b: all(b["gpus"][i]["outcome"] == FINE for i in gpus))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def values(board, gpu, instance=None):
    row = board["gpus"][gpu]
    reading = row["reading"] if instance is None else row["instances"][instance]
    if reading is None:
        raise NoReading(row)
    return reading["values"]


def descriptors(pid):
    found = []
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(os.readlink(fd))
        except FileNotFoundError:
            pass
    return found


def maps(pid):
    return Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")
