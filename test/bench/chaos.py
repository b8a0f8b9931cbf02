#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Chaos for a given time (test/scenario/agent/chaos_rig.py): how old the numbers of healthy GPUs become and how much memory the
agent takes, while samplers and agents are killed, GPUs hang, the disk is full and clients are hostile.

usage: chaos.py BUILD [--minutes 60] [--seed 7] [--write]     --write puts the table into docs/appendix/measurements.md

Nothing here passes or fails: limits stand beside the figures for a reader to judge."""
import statistics
import sys
import tempfile
import time
from pathlib import Path

import run as bench

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- chaos: written by test/bench/chaos.py with --write -->", "<!-- end of chaos -->"
MIB = 2**20
ROUND_S = 3.5  # at least, so that an hour stays within the 16,384 operations that a simulated node keeps

sys.path.insert(0, str(ROOT / "test/scenario/agent"))
import agent_rig  # noqa: E402
import chaos_rig as rig  # noqa: E402


def share(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def figures(chaos, rounds, seconds):
    ages, firsts, stalls, cgroup = chaos.ages.ages, chaos.ages.firsts, chaos.ages.stalls, chaos.cgroup
    mib = lambda size: "not known" if size is None else f"{size / MIB:.1f} MiB"
    yield "virtual time", f"{seconds * rig.SPEED / 86400:.2f} days", ""
    yield "rounds; agents and samplers killed", f"{rounds}; {chaos.kills}", ""
    yield "hangs; GPUs that hung in them", f"{chaos.hangs}; {chaos.hung_gpus}", ""
    yield "times that the disk was full", str(chaos.full), ""
    yield "requests of hostile clients", str(sum(one.sent for one in chaos.hostile)), ""
    yield "readings of a healthy GPU's age", str(len(ages)), ""
    yield "its age, median", f"{statistics.median(ages):.2f} periods", ""
    yield "its age, 99.9 % are below", f"{share(ages, 0.999):.2f} periods", ""
    yield "its age, worst", f"{max(ages):.2f} periods", "<= 2"
    yield "readings that are older than 2 periods", str(len(chaos.ages.old)), "0"
    yield "from the start of an agent to a GPU's first sample, worst", f"{max(firsts):.2f} periods", "<= 2"
    yield "a sleep of 50 ms on this machine is late, worst", f"{max(stalls):.2f} periods", ""
    yield "most memory of an agent (RSS)", mib(chaos.peak), "< 24 MiB"
    yield "most memory of a sampler (RSS)", mib(chaos.sampler_peak), ""
    yield "most memory of the cgroup", mib(cgroup.peak()), f"<= {rig.LIMIT // MIB} MiB"
    yield "processes ended there for want of memory", str(cgroup.kills()), "0"


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        node = agent_rig.Node(args.build / "stoker", Path(tmp), "default", speed=rig.SPEED, strict=False)
        chaos = rig.Chaos(args.build / "stoker", Path(tmp), node, args.seed)
        try:
            start, rounds = time.monotonic(), 0
            chaos.start()
            chaos.wait_for_up()
            while time.monotonic() - start < args.minutes * 60:
                began = time.monotonic()
                chaos.round()
                rounds += 1
                time.sleep(max(0, ROUND_S - (time.monotonic() - began)))
                print(f"round {rounds}, {time.monotonic() - start:.0f} s, oldest {max(chaos.ages.ages):.2f} periods, "
                      f"{chaos.peak / MIB:.1f} MiB", file=sys.stderr, flush=True)
            chaos.calm()
            table = bench.columns([("what", "figure", "limit"), ("---",) * 3, *figures(chaos, rounds, time.monotonic() - start)])
            for line in chaos.ages.old[:20]:
                print(line, file=sys.stderr)
        finally:
            chaos.close()
            node.stop()
    bench.tell(args, f"{args.minutes:g} minutes, seed {args.seed}", f"\n{table}\n", BEGIN, END)


if __name__ == "__main__":
    sys.exit(main())
