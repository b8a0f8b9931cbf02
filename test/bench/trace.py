#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How fast `stoker trace` is and what memory it takes, beside what this machine can do at most and beside other programs,
all in the same run. Profiles are generated, read once so that they are in the page cache, and removed at the end.

usage: trace.py BUILD [--sizes 10,100,1000] [--rounds 5] [--dir DIR] [--write]
--write puts the tables into docs/appendix/measurements.md

Nothing here passes or fails: goals stand beside the figures for a reader to judge. Figures are medians over rounds, ratios
are medians of the ratios within rounds. Processor seconds are those of all threads: beside other work they say more than
the clock on the wall does."""
import argparse
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import run as bench

BEGIN, END = "<!-- trace: written by test/bench/trace.py with --write -->", "<!-- end of trace -->"
ZLIB = """
import sys, zlib
d = zlib.decompressobj(31)
with open(sys.argv[1], 'rb') as f:
    while piece := f.read(1 << 18):
        d.decompress(piece)
"""
JSON = "import json, sys; json.load(open(sys.argv[1], encoding='utf-8', errors='replace'))"
PEERS_UP_TO = 200  # MB: beyond, they need tens of gigabytes


class Spent:
    """One run of a command: wall and processor seconds, the largest memory."""

    def __init__(self, command, codes=(0,), **more):
        began = time.monotonic()
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, **more)
        _, status, usage = os.wait4(process.pid, 0)
        self.wall = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in codes:
            sys.exit(f"trace.py: {' '.join(map(str, command))}: exit code {process.returncode}")
        self.cpu = usage.ru_utime + usage.ru_stime
        self.rss = usage.ru_maxrss * 1024


def rate(size, seconds):
    return f"{size / seconds / 1e9:.2f} GB/s"


def median(rows, key, what="wall"):
    return statistics.median(getattr(row[key], what) for row in rows)


def ratio(rows, key, of, what="wall"):
    return statistics.median(getattr(row[of], what) / getattr(row[key], what) for row in rows)


def cpu_ratio(rows, key, of):
    return 1 / ratio(rows, key, of, "cpu")


class Bench:
    def __init__(self, build, folder, rounds):
        self.build, self.folder, self.rounds = build, folder, rounds
        self.tool = build / "test" / "bench" / "bench_trace"
        self.said = []

    def say(self, *lines):
        self.said += lines
        print("\n".join(lines), flush=True)

    def generate(self, name, *words):
        path = self.folder / name
        made = subprocess.run([self.build / "test" / "bench" / "gen_trace", *words, path], capture_output=True, text=True,
                              check=True)
        said = [json.loads(line) for line in made.stdout.splitlines()]
        return path, sum(s["bytes"] for s in said), sum(s["events"] for s in said)

    def trace(self, *words):
        return Spent([self.build / "stoker", "trace", *words], codes=(0, 1))

    def round(self, path, packed, size):
        row = {"stoker": self.trace(path), "stoker gz": self.trace(packed), "one thread": self.trace(path, "-j", "1"),
               "cat": Spent(["cat", path]), "read": Spent([self.tool, "read", path]),
               "memchr": Spent([self.tool, "memchr", path]), "isa-l": Spent([self.tool, "inflate", packed]),
               "zlib": Spent([sys.executable, "-c", ZLIB, packed])}
        if size <= PEERS_UP_TO:
            row["json.load"] = Spent([sys.executable, "-c", JSON, path])
            if shutil.which("jq"):
                row["jq"] = Spent(["jq", ".traceEvents | length", path])
        return row

    def size(self, megabytes):
        path, size, events = self.generate("t.json", "--size", str(megabytes))
        packed, _, _ = self.generate("t.json.gz", "--size", str(megabytes))
        self.trace(path)
        self.trace(packed)
        rows = [self.round(path, packed, megabytes) for _ in range(self.rounds)]
        self.say("", f"### {size / 1e6:.0f} MB, {events} events, {packed.stat().st_size / 1e6:.1f} MB packed", "",
                 "| what | seconds | rate | processor seconds | events/s | peak memory | speed, compared | processor time, "
                 "compared |",
                 "|---|---|---|---|---|---|---|---|")
        allowed = 64 * events + (32 << 20)
        for key, goal, against in (("stoker", ".json, all threads; goal >= 2 GB/s", ["read", "memchr", "json.load", "jq"]),
                                   ("one thread", ".json, one thread", ["read", "memchr"]),
                                   ("stoker gz", ".json.gz; goal >= 0.8 x isa-l alone", ["isa-l", "zlib"])):
            wall = median(rows, key)
            rss = max(row[key].rss for row in rows)
            peers = [peer for peer in against if peer in rows[0]]
            speeds = "; ".join(f"{ratio(rows, key, peer):.2g} x {peer}" for peer in peers)
            times = "; ".join(f"{cpu_ratio(rows, key, peer):.2g} x {peer}" for peer in peers)
            self.say(f"| {goal} | {wall:.3f} | {rate(size, wall)} | {median(rows, key, 'cpu'):.3f} | "
                     f"{events / wall / 1e6:.2f} M | {rss / 2**20:.0f} MiB of {allowed / 2**20:.0f} allowed | {speeds} | "
                     f"{times} |")
        for key in ("cat", "read", "memchr", "isa-l", "zlib", "json.load", "jq"):
            if key in rows[0]:
                wall, rss = median(rows, key), max(row[key].rss for row in rows)
                self.say(f"| {key} alone | {wall:.3f} | {rate(size, wall)} | {median(rows, key, 'cpu'):.3f} | | "
                         f"{rss / 2**20:.0f} MiB | | |")
        path.unlink()
        packed.unlink()

    def steps(self, megabytes):
        few, _, few_events = self.generate("few.json", "--size", str(megabytes), "--steps", "5")
        many, _, many_events = self.generate("many.json", "--size", str(megabytes), "--steps", "500")
        rows = [{"few": self.trace(few), "many": self.trace(many)} for _ in range(self.rounds)]
        per_event = statistics.median((row["many"].cpu / many_events) / (row["few"].cpu / few_events) for row in rows)
        self.say("", f"500 steps instead of 5 in {megabytes} MB: {per_event:.2f} x the processor time per event (goal: 1)")
        few.unlink()
        many.unlink()

    def ranks(self, megabytes):
        folder, size, events = self.generate("ranks", "--size", str(megabytes), "--ranks", "8")
        rows = [{"ranks": self.trace(folder)} for _ in range(self.rounds)]
        wall, rss = median(rows, "ranks"), max(row["ranks"].rss for row in rows)
        self.say("", f"8 ranks of {megabytes} MB: {wall:.3f} s, {rate(size, wall)}, {events / wall / 1e6:.2f} M events/s, "
                 f"{rss / 2**20:.0f} MiB")
        shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("--sizes", default="10,100,1000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", type=Path, help="where the profiles are put for the time of the run")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/appendix/measurements.md")
    args = parser.parse_args()
    sizes = [int(word) for word in args.sizes.split(",")]
    with tempfile.TemporaryDirectory(prefix="stoker-bench-", dir=args.dir) as folder:
        free = shutil.disk_usage(folder).free
        if free < max(sizes) * 2_500_000:
            sys.exit(f"trace.py: {max(sizes)} MB profiles need more than the {free >> 20} MiB that are free in {folder}")
        measured = Bench(args.build.resolve(), Path(folder), args.rounds)
        measured.say(f"{datetime.date.today().isoformat()}, {os.cpu_count()} shared cores of {bench.cpu_model()}, medians of "
                     f"{args.rounds} rounds; load of the machine at the beginning {os.getloadavg()[0]:.1f}.")
        for size in sizes:
            measured.size(size)
        measured.steps(min(100, max(sizes)))
        measured.ranks(min(20, max(sizes)))
        if args.write:
            bench.write("\n".join(measured.said), BEGIN, END)


if __name__ == "__main__":
    main()
