# SPDX-License-Identifier: Apache-2.0
"""Scenarios and their truth: how each is played fast with an agent beside it, and which incident is which truth's.
For the benchmark of verdicts."""
import pathlib
import re
import time

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCENARIOS = sorted((ROOT / "sim/data/scenarios").glob("*.yaml"))
CLASSES = yaml.safe_load((ROOT / "data/faults/classes.yaml").read_text())["classes"]
REAL_SECONDS = 6  # of one scenario, about
SPEED_MAX = 300
TOLD = ("page", "ticket", "user")
LATE = 15 * 60  # longest `for` of a class, and the time that detectors look back
OPTIONS = {"gpu-missing-after-boot": ["--gpus-expected", 8], "log-unreadable": ["--journalctl", "/nowhere/journalctl"]}
# What samplers see takes a real second or so, and the bus is looked at every other one. A line of the kernel log has three seconds of the
# agent's clock to be read before what it explains counts.
REAL = {"driver-mismatch": 30, "driver-unloaded": 30, "hotplug": 30, "driver-reload": 30, "gpu-left-bus": 30, "memory-contained": 60}
LATER = {"inforom-corrupt": 3600}  # asked once an hour


def seconds(text):
    units = {"h": 3600, "m": 60, "s": 1, "ms": 0.001, "d": 86400}
    return sum(float(n) * units[u] for n, u in re.findall(r"([\d.]+)(ms|[dhms])", str(text)))


def gpus_of(truth, count):
    """The GPUs that it is about; the node: none."""
    gpu = truth.get("gpu")
    if gpu is None:
        return set()
    if gpu == "all":
        return set(range(count))
    found = set()
    for part in gpu if isinstance(gpu, list) else str(gpu).split(","):
        first, _, last = str(part).partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def load(path):
    """(scenario, number of GPUs, truths that are of the catalogue's classes, when the last of them begins)"""
    scenario = yaml.safe_load(path.read_text())
    gpus = scenario["gpus"]
    count = sum(g.get("count", 1) for g in (gpus if isinstance(gpus, list) else [gpus]))
    truths = [t for t in scenario["truth"] if t["class"] in CLASSES]
    begins = [seconds(t.get("from", "0s")) for t in truths]
    if not truths:
        begins = [seconds(step["time"]) for step in scenario.get("at", [])] + [0]
    return scenario, count, truths, max(begins)


def speed_for(name, played_s):
    return max(2, min(SPEED_MAX, played_s / REAL.get(name, REAL_SECONDS)))


class Play:
    """A scenario with an agent beside it whose clock runs `clock` times as fast. `legs`: (until when by the node's clock,
    how fast; None: at once), in seconds. `seen`: each incident as it was last; `past`: all that it was, with the time."""

    def __init__(self, make_node, make_agent, name, clock, legs):
        self.node = make_node(name, speed=clock, strict=False)
        self.agent = make_agent(self.node.env, options=[
            "--clock-speed", clock, "--sample-fast", "1s", "--sample-normal", "2s", "--sample-slow", "10s",
            "--sample-blocking", "60s", "--journal", "none", *OPTIONS.get(name, [])], ready=False)
        self.seen, self.past, speed = {}, {}, clock
        for until_s, wanted in legs:
            if wanted is None:
                self.node.sim("clock", "step", f"{max(0, int(until_s - self.virtual()))}s")
                continue
            if wanted != speed:
                self.node.sim("clock", "speed", str(wanted))
                speed = wanted
            while self.virtual() < until_s:
                self.look()
                time.sleep(0.1)
        self.look()

    def virtual(self):
        return float(re.search(r'"virtual_ns": ?(\d+)', self.node.sim("clock", "--json")).group(1)) / 1e9

    def look(self):
        now = self.virtual()
        for incident in self.agent.json("/api/v1/incidents?state=all")[1]["incidents"]:
            self.seen[incident["id"]] = incident
            self.past.setdefault(incident["id"], []).append((now, incident))


def fits(incident, truth, count):
    wanted = gpus_of(truth, count)
    index = incident["device"]["index"]
    return (incident["class"] == truth["class"]
            and (not wanted and index is None or index in wanted or len(wanted) == count and index is None
                 or truth["class"] == "gpu-missing" and index is None))


def short(incident):
    return {k: incident[k] for k in ("class", "rule", "code", "cause", "severity", "action", "route", "title")} | {
        "evidence": [e["text"] for e in incident["evidence"]][:3]}
