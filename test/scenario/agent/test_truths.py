# SPDX-License-Identifier: Apache-2.0
"""The agent's judgement against the scenarios' own truth: what is planted is found, named, and nothing else is."""
import pathlib
import re
import time

import pytest
import yaml
from agent_rig import sanitized


ROOT = pathlib.Path(__file__).resolve().parents[3]
SCENARIOS = sorted((ROOT / "sim/data/scenarios").glob("*.yaml"))
CLASSES = yaml.safe_load((ROOT / "data/faults/classes.yaml").read_text())["classes"]
REAL_SECONDS = 6  # of one scenario, about
MOST = 40 * 60  # virtual seconds that are played at most
TOLD = ("page", "ticket", "user")
LATE = 15 * 60  # longest `for` of a class, and the time that detectors look back
# Why these cannot be played here.
LEFT_OUT = {
    "a-bad-week": "days; test_long plays them",
    "leaking-memory": "the trend needs an hour",
    "hotplug": "the driver's drain state is not read: somebody who takes a GPU out has to start a maintenance window",
    "driver-error": "only new clients are refused, and the samplers are none",
    "slow-driver": "deadlines of driver calls are in real time, the node's here is not",
    "hung-driver-call": "deadlines of driver calls are in real time, the node's here is not",
}
OPTIONS = {"gpu-missing-after-boot": ["--gpus-expected", 8]}
REAL = {"driver-mismatch": 30, "driver-unloaded": 30}  # a sampler takes a real second to come back
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
    scenario = yaml.safe_load(path.read_text())
    gpus = scenario["gpus"]
    count = sum(g.get("count", 1) for g in (gpus if isinstance(gpus, list) else [gpus]))
    truths = [t for t in scenario["truth"] if t["class"] in CLASSES]
    begins = [seconds(t.get("from", "0s")) for t in truths]
    if not truths:
        begins = [seconds(step["time"]) for step in scenario.get("at", [])] + [0]
    return scenario, count, truths, max(begins)


class Play:
    """A scenario played fast, with an agent beside it, until some virtual time."""

    def __init__(self, make_node, make_agent, name, until_s):
        self.speed = max(2, min(300, until_s / REAL.get(name, REAL_SECONDS)))
        self.node = make_node(name, speed=self.speed, strict=False)
        self.agent = make_agent(self.node.env, options=[
            "--clock-speed", self.speed, "--sample-fast", "1s", "--sample-normal", "2s", "--sample-slow", "10s",
            "--sample-blocking", "60s", "--journal", "none", *OPTIONS.get(name, [])], ready=False)
        self.seen = {}
        while self.virtual() < until_s:
            self.look()
            time.sleep(0.1)
        self.look()

    def virtual(self):
        return float(re.search(r'"virtual_ns": ?(\d+)', self.node.sim("clock", "--json")).group(1)) / 1e9

    def look(self):
        for incident in self.agent.json("/api/v1/incidents?state=all")[1]["incidents"]:
            self.seen[incident["id"]] = incident


def fits(incident, truth, count):
    wanted = gpus_of(truth, count)
    index = incident["device"]["index"]
    return (incident["class"] == truth["class"]
            and (not wanted and index is None or index in wanted or len(wanted) == count and index is None
                 or truth["class"] == "gpu-missing" and index is None))


def short(incident):
    return {k: incident[k] for k in ("class", "rule", "code", "cause", "severity", "action", "route", "title")} | {
        "evidence": [e["text"] for e in incident["evidence"]][:3]}


@pytest.mark.parametrize("path", SCENARIOS, ids=[p.stem for p in SCENARIOS])
def test_truth(make_node, make_agent, path, stoker):
    if sanitized(stoker):
        pytest.skip("a sanitized build is too slow for a clock that runs hundreds of times faster")
    if path.stem in LEFT_OUT:
        pytest.skip(LEFT_OUT[path.stem])
    _, count, truths, last = load(path)
    if not truths:
        last = min(last, MOST)
    if last > MOST:
        pytest.skip(f"its last fault comes after {last / 3600:.1f} h")
    play = Play(make_node, make_agent, path.stem, last + LATE + LATER.get(path.stem, 0))
    # The simulator writes the kernel's log a few times a second, which is minutes here: what the library says first may
    # turn out to be another's consequence.
    told = [i for i in play.seen.values() if i["route"] in TOLD]
    for truth in truths:
        found = [i for i in told if fits(i, truth, count)]
        if truth["route"] == "none":
            found = [i for i in play.seen.values() if fits(i, truth, count)]
        assert found, f"not found: {truth}\nfound: {[short(i) for i in play.seen.values()]}\n{play.agent.log_text()[-2000:]}"
        for key in ("cause", "action", "route"):
            assert {i[key] for i in found} == {truth[key]}, (truth, [short(i) for i in found])
        if "xid" in truth:
            assert any(truth["xid"] in i["codes"] for i in found), (truth, [short(i) for i in found])
    others = [short(i) for i in told if i["ended_by"] != "merged" and not any(fits(i, t, count) for t in truths)]
    assert not others, f"nothing of the kind is planted: {others}"
