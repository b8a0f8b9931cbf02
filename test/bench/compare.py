#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Two builds of Stoker side by side in one run: memory and processor time of agent and sampler while both are scraped each
second, a scrape, the trace analysis, the size of the program. Ratios are new to old: below 1 the new build needs less.

usage: compare.py OLD NEW [--seconds 120] [--rounds 5]      OLD and NEW are build folders

Nothing here passes or fails."""
import argparse
import http.client
import statistics
import tempfile
from pathlib import Path

import run as bench

agents = bench.load("bench_agent", Path(__file__).parent / "agent.py")
traces = bench.load("bench_trace", Path(__file__).parent / "trace.py")
PROFILE_MB = 200


class Side:
    """One build with a node and an agent of its own."""

    def __init__(self, build, tmp):
        self.build = build
        tmp.mkdir()
        self.node = agents.rig.Node(build / "stoker", tmp, "default", strict=False)
        self.agent = agents.rig.Agent(build / "stoker", tmp, self.node.env)
        self.us = agents.Process(self.agent.process.pid)
        self.sampler = agents.Process(self.agent.children()[0][0])

    def stop(self):
        self.agent.stop()
        self.node.stop()


def watch(sides, seconds):
    agents.watch([s.agent.address for s in sides], [p for s in sides for p in (s.us, s.sampler)], seconds)
    rows = [("memory of the agent (RSS), MiB", [s.us.rss() for s in sides]),
            ("memory of the sampler (private), MiB", [s.sampler.private() for s in sides]),
            ("CPU of the agent, % of a core", [s.us.percent() for s in sides]),
            ("CPU of the sampler, % of a core", [s.sampler.percent() for s in sides])]
    times = [[], []]
    connections = [http.client.HTTPConnection(s.agent.address, timeout=60) for s in sides]
    for _ in range(400):
        for connection, out in zip(connections, times):
            out.append(agents.scrape(connection)[0] * 1e3)
    return rows + [("a scrape, p50, ms", [statistics.median(t) for t in times])]


def trace(builds, folder, rounds):
    profile = folder / "profile.json"
    agents.subprocess.run([builds[1] / "test/bench/gen_trace", "--size", str(PROFILE_MB), profile], check=True)
    spent = [[], []]
    for _ in range(rounds):
        for build, out in zip(builds, spent):
            out.append(traces.Spent([build / "stoker", "trace", profile], codes=(0, 1)))
    return [(f"stoker trace, {PROFILE_MB} MB, s", [statistics.median(s.wall for s in side) for side in spent]),
            ("the same, processor s", [statistics.median(s.cpu for s in side) for side in spent]),
            ("the same, memory, MiB", [statistics.median(s.rss for s in side) / 2**20 for side in spent])]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    builds = [args.old.resolve(), args.new.resolve()]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sides = [Side(build, folder / str(i)) for i, build in enumerate(builds)]
        try:
            rows = watch(sides, args.seconds)
        finally:
            for side in sides:
                side.stop()
        rows += trace(builds, folder, args.rounds)
        rows.append(("size of the program, stripped, MiB", [agents.stripped_size(b / "stoker", folder) / 2**20 for b in builds]))
    print("| | old | new | new to old |\n|---|---|---|---|")
    for what, (old, new) in rows:
        print(f"| {what} | {old:.2f} | {new:.2f} | {new / old:.2f} |")


main()
