#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The trial of `stoker status`: plays faults of the scenario library, each on a simulated node with an agent beside it, runs
`stoker status` in a terminal of 80 x 24 and draws what it shows into docs/pictures.

    tools/trial.py [--build build] [--show] [NAME...]

A picture is drawn anew only where its words have changed. Readings, ages and counts differ a little each time, as they would on a
node: they are no reason. Host name, wall clock and incident ids are made the same in all pictures. --show prints the screens and
draws nothing."""
import argparse
import contextlib
import datetime
import fcntl
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import time

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "test/scenario/agent")]
import agent_rig as rig  # noqa: E402
import picture  # noqa: E402

PICTURES = ROOT / "docs/pictures"
SCENARIOS = ROOT / "sim/data/scenarios"
SMALL, LARGE = (80, 24), (100, 30)
FAULT_AT = 60  # virtual seconds: earlier than in the library, so that a trial takes seconds
SETTLED = 2.5  # real seconds without a change of words
NOTICE = r"^(waiting|idle held): .*(?:\n|\Z)(?:         .*\n| (?:DO|share|more) .*\n)*"  # a GPU that does not work, with what to do
HOST, NOON = "node-7", datetime.datetime(2026, 1, 5, 12, 0, 0)


class Trial:
    """A scenario whose fault, which comes at `at` (seconds) in the library, is brought forward to `fault_at`; what `stoker status`
    has to say then: the thing, the class of the fault, and which GPUs do not answer."""

    def __init__(self, scenario, at, thing, fault, speed=20, down=0, name=None, gpus=None, fault_at=FAULT_AT):
        self.scenario, self.at, self.thing, self.fault = scenario, at, thing, fault
        self.speed, self.down, self.gpus, self.fault_at = speed, down, gpus, fault_at
        self.name = name or scenario


TRIALS = [
    Trial("xid-79-lost", 300, "GPU 3", "gpu-lost", down=1),
    Trial("xid-48-dbe-remap", 600, "GPU 2", "ecc-uncorrectable"),
    Trial("remap-failure", 600, "GPU 4", "row-remap-failed"),
    Trial("thermal-throttle-fan", 600, "GPU 5", "thermal"),
    Trial("power-brake", 900, "the node", "power-brake"),
    Trial("nvlink-down", 600, "GPU 1", "nvlink-down"),
    Trial("pcie-downgrade", 600, "GPU 2", "pcie-degraded"),
    Trial("xid-119-gsp", 420, "GPU 6", "gsp-failure", down=1),
    Trial("hung-driver-call", 180, "GPU 2", "driver-hang", down=1),
    Trial("xid-31-app-fault", 480, "GPU 4", "app-fault"),
    Trial("driver-unloaded", 900, "the node", "driver-unloaded", down=8, fault_at=0),
    Trial("fabric-not-ready", 0, "the fabric", "fabric", speed=40),
    Trial("oom-kill", 720, "the node", "host-oom"),
    Trial("healthy-training", 0, None, None),
    Trial("xid-79-lost", 300, "GPU 3", "gpu-lost", down=1, name="mig-56-devices",
          gpus={"board": "h100-sxm-80gb", "count": 8, "mig": ["1g.10gb"] * 7}),
]


def seconds(text):
    units = {"h": 3600, "m": 60, "s": 1, "ms": 0.001, "d": 86400}
    return sum(float(n) * units[u] for n, u in re.findall(r"([\d.]+)(ms|[dhms])", str(text)))


def brought_forward(trial):
    """The library's scenario with what is planted at trial.at at trial.fault_at, and what comes before that soon after the start."""
    scenario = yaml.safe_load((SCENARIOS / f"{trial.scenario}.yaml").read_text())
    earlier = trial.at - trial.fault_at if trial.at else 0

    def moved(when):
        return f"{max(min(10, trial.fault_at), seconds(when) - earlier):g}s" if earlier else when

    for step in scenario.get("at", []):
        step["time"] = moved(step["time"])
    for work in scenario.get("work", []):
        if "stop" in work:
            work["stop"] = f"{max(1, seconds(moved(work['stop']))):g}s"
    if trial.gpus:
        scenario.update(gpus=trial.gpus, work=[{"name": "chat", "kind": "decode", "gpus": "all", "mig": "0-6",
                                               "process": "vllm", "user": "root", "pod": "serving/chat", "independent": True}])
    return scenario | {"truth": []}


def gpu_count(trial):
    return (trial.gpus or yaml.safe_load((SCENARIOS / f"{trial.scenario}.yaml").read_text())["gpus"])["count"]


def on_terminal(command, env, size):
    """What a program writes to a terminal of that many columns and lines, and its exit code."""
    env = {k: v for k, v in env.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")} | {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    process = subprocess.Popen(list(map(str, command)), env=env, stdout=its, stdin=its, stderr=subprocess.STDOUT)
    os.close(its)
    out = b""
    with contextlib.suppress(OSError):  # a terminal that nobody holds any more
        while part := os.read(ours, 65536):
            out += part
    os.close(ours)
    return out.decode().replace("\r\n", "\n"), process.wait(60)


def plain(text):
    return picture.SGR.sub("", text)


def words(text):
    """What of a screen is the same each time: no number but those of GPUs and codes, no reading, no line break; not which driver
    call hung first, nor which of several GPUs with the same fault is the example, nor what each GPU does, nor whether others wait for it already, nor whether
    the kernel's log or the driver told it first."""
    text = re.sub(NOTICE, "", re.sub(r"(\d+ GPUs?): [^\n]*", r"\1", plain(text)), flags=re.MULTILINE)
    text = re.sub(r"\b(stoker (?:runbook|incidents show)) \S+?(?=;|\s|$)", r"\1 ID", re.sub(r"\s+", " ", text))
    text = re.sub(r": \d+ GPUs? waits? for GPU \d+(, at about \d+ % of its speed)?", "", text)
    text = re.sub(r"\bnvml\w+", "nvml", re.sub(r"(\d+ of \d+ GPUs; GPU) \d+", r"\1", text))
    text = re.sub(r"(?<!GPU )(?<!XID )(?<![\w:.>])\d[\w.:/%-]*", "#", text)
    text = re.sub(r"(in the kernel log|reported by the driver) at # UTC( \(# times?\))?", "told at # UTC", text)
    return re.sub(r"( (#|-))+", " #", re.sub(r"# (s|min)\b|\bseen # times?\b", "#", text)).strip()


def same_everywhere(text):
    """The screen with the same host, wall clock and ids in all pictures."""
    lines = text.split("\n")
    match = re.match(r"(\S+)  (\d+-\d+-\d+ \d+:\d+:\d+)Z", lines[0])
    shift = NOON - datetime.datetime.fromisoformat(match[2])

    def shifted(found):
        then = datetime.datetime.combine(datetime.date.fromisoformat(match[2][:10]), datetime.time.fromisoformat(found[0]))
        return (then + shift).strftime("%H:%M:%S")

    lines[0] = lines[0].replace(match[1], HOST, 1).replace(match[2], str(NOON))
    text = "\n".join([lines[0]] + [re.sub(r"\b\d\d:\d\d:\d\d(?= UTC)", shifted, line) for line in lines[1:]])
    for number, found in enumerate(dict.fromkeys(re.findall(r"stoker incidents show (\w+)", plain(text)))):
        text = text.replace(found, f"1jf8v3k2{chr(ord('m') + number)}".ljust(len(found), "0"))
    return text


@contextlib.contextmanager
def node_and_agent(stoker, folder, scenario, speed):
    path = folder / "scenario.yaml"
    path.write_text(yaml.safe_dump(scenario))
    node = rig.Node(stoker, folder, path, speed=speed, strict=False)
    try:
        agent = rig.Agent(stoker, folder, node.env, ready=False, options=[
            "--clock-speed", speed, "--sample-fast", "1s", "--sample-normal", "2s", "--sample-slow", "10s", "--sample-blocking", "60s",
            "--journal", "none"])
        try:
            yield node, agent
        finally:
            agent.stop()
    finally:
        node.stop()


def ready(node, agent, trial):
    virtual = float(re.search(r'"virtual_ns": ?(\d+)', node.sim("clock", "--json")).group(1)) / 1e9
    incidents = agent.json("/api/v1/incidents?state=open")[1]["incidents"]
    found = not trial.fault or any(i["class"] == trial.fault for i in incidents)
    up = [g["state"] for g in agent.gpus()].count("up")
    return found and virtual > FAULT_AT + 10 and up == gpu_count(trial) - trial.down


def play(stoker, trial):
    """The screens of a trial: {size: (text, exit code)}."""
    with tempfile.TemporaryDirectory() as folder, \
            node_and_agent(stoker, pathlib.Path(folder), brought_forward(trial), trial.speed) as (node, agent):

        def screen(size):
            return on_terminal([stoker, "status", "--control", agent.control], node.env, size)

        rig.until(lambda: ready(node, agent, trial), lambda: plain(screen(SMALL)[0]))
        last = [None, 0]

        def settled():
            now = words(screen(SMALL)[0])
            if now != last[0]:
                last[:] = now, time.monotonic()
            time.sleep(0.2)
            return time.monotonic() - last[1] > SETTLED

        rig.until(settled, lambda: plain(screen(SMALL)[0]))
        return {size: screen(size) for size in (SMALL, LARGE)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build", type=pathlib.Path)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    PICTURES.mkdir(exist_ok=True)
    for trial in TRIALS:
        if options.names and trial.name not in options.names:
            continue
        screens = play(options.build.resolve() / "stoker", trial)
        path = PICTURES / f"{trial.name}.svg"
        text = same_everywhere(screens[SMALL][0])
        if options.show:
            print(f"== {trial.name}", *(s[0] for s in screens.values()), sep="\n")
        elif not path.exists() or words("\n".join(picture.read(path.read_text()))) != words(text):
            path.write_text(picture.draw([(f"{trial.name}: stoker status", text)], columns=SMALL[0]))
            print(f"{path.relative_to(ROOT)}: drawn")
        else:
            print(f"{path.relative_to(ROOT)}: as it was")


if __name__ == "__main__":
    main()
