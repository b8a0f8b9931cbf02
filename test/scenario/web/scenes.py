# SPDX-License-Identifier: Apache-2.0
"""The scenes of docs/scenes.md: what is planted on a simulated node, and how the page is opened on it. What a reader should see at
once stands in the document, in the words of the page: the pictures there and the test here are of the same scenes."""
import contextlib
import pathlib
import re
import sys

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(HERE.parent / "agent"), str(HERE)]
import agent_rig as rig  # noqa: E402
import site_day  # noqa: E402
import site_rig  # noqa: E402
import trial  # noqa: E402

DOCUMENT, PICTURES = ROOT / "docs/scenes.md", ROOT / "docs/pictures/scenes"
SIZES, THEMES = {1400: 900, 900: 900, 390: 844}, ("light", "dark")
# Two seconds of the node between readings: at ten or twenty times the speed a busy machine still keeps pace.
OPTIONS = ["--sample-fast", "2s", "--sample-normal", "2s", "--sample-slow", "10s", "--sample-blocking", "60s", "--journal", "none"]
DAY_S = {"working": 72000, "waiting": 3600, "idle held": 7200, "free": 0, "unusable": 3600, "unknown": 0}  # of each GPU


def library(name):
    return yaml.safe_load((trial.SCENARIOS / f"{name}.yaml").read_text()) | {"truth": []}


def planted(name):
    return trial.brought_forward(next(t for t in trial.TRIALS if t.name == name))


def neighbour():
    """The second process comes as soon as it is known what the first has by itself."""
    scenario = library("noisy-neighbour")
    scenario["work"][1]["start"] = "11m"
    return scenario


def sixteen_t4():
    work = {"name": "embed", "kind": "train", "gpus": "all", "process": "python", "user": "alice", "job": 4711}
    return {"about": "Sixteen T4 at work", "gpus": {"board": "t4", "count": 16}, "work": [work], "truth": []}


# By the name of its pictures: (scenario, speed, view). Slow where the agent has to see the work before the fault comes.
SCENES = {
    "healthy": (lambda: library("healthy-training"), 10, "#/"),
    "lost": (lambda: planted("xid-79-lost"), 3, "#/"),
    "hot": (lambda: planted("thermal-throttle-fan"), 10, "#/"),
    "mig": (lambda: planted("mig-56-devices"), 3, "#/"),
    "hang": (lambda: planted("hung-driver-call"), 10, "#/"),
    "idle": (lambda: library("idle-holding-memory"), 10, "#/"),
    "neighbour": (neighbour, 20, "#/"),
    "no-driver": (lambda: planted("driver-unloaded"), 10, "#/"),
    "sixteen": (sixteen_t4, 10, "#/"),
    "starved": (lambda: library("starved-training"), 10, "#/"),
    "day": (lambda: library("healthy-training"), 10, "#/executive"),
}


def sentences():
    """{scene: [what a reader should see at once]} of the document: its line in bold below the heading; "…" stands for what differs
    each time."""
    found = re.findall(r"^\*\*At once:\*\* (.*?)\n\n!\[[^\]]*\]\(pictures/scenes/([\w-]+?)-1400-light\.webp\)$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    return {name: [re.sub(r"\s+", " ", part) for part in text.split(" · ")] for text, name in found}


# What can be read without scrolling.
SEEN = """(() => { const words = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange();
  while (walk.nextNode()) { range.selectNodeContents(walk.currentNode); const box = range.getBoundingClientRect(); if (box.height && box.bottom <= innerHeight) words.push(walk.currentNode.data); }
  return words.join(" ").replace(/\\s+/g, " "); })()"""


def unseen(visitor, parts):
    """Those parts of a sentence that are not on the first screen."""
    text = visitor.js(SEEN)
    return [part for part in parts if not re.search(r"\s*".join(map(re.escape, part.split())).replace("…", ".{1,12}?"), text)]


@contextlib.contextmanager
def played(stoker, folder, name):
    """(agent, address of its page with the view) of a scene."""
    scenario, speed, view = SCENES[name]
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(scenario()))
    with contextlib.ExitStack() as stack:
        node = rig.Node(stoker, folder, path, speed=speed, strict=False)
        stack.callback(node.stop)
        agent = rig.Agent(stoker, folder, node.env | {"NODE_NAME": "node-7"}, options=[*OPTIONS, "--clock-speed", str(speed)], ready=False)
        stack.callback(agent.stop)
        url = f"http://{agent.address}/"
        if name == "day":
            proxy = site_rig.Proxy(agent.address)
            stack.callback(proxy.end)
            devices = rig.until(lambda: site_day.devices_of(agent.json("/api/v1/status")[1]), "the GPUs are known")
            site_day.tell_hours(proxy, site_day.Day(devices), DAY_S)
            url = proxy.url
        yield agent, url + view
