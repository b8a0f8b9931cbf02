#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Clusters over time, by `stoker place simulate`: each table holds what Stoker does beside what others do, on the same jobs.

  churn     pods of the openb trace that come and go, at three loads (with so long a tail of run times the cluster fills beyond 1): Stoker's modes beside FGD, best fit and first fit
  gangs     gangs on a tree of blocks and racks: which rack gets a gang, of those with room
  victims   important jobs that push others out: who is stopped
  fairness  two queues, of which one had everything in the past

usage: schedule.py BUILD FOLDER [--seeds N] [--write]      FOLDER as for place.py; --write puts the tables into docs/appendix/measurements.md"""
import argparse
import concurrent.futures
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/bench"))
import place  # noqa: E402
import run as bench  # noqa: E402

BEGIN, END = "<!-- schedule: written by test/bench/schedule.py with --write -->", "<!-- end of schedule -->"

TREE = "  - {count: 256, model: H100, gpus: 8, cpus: 192, memory: 2TiB, rack: 16, block: 128}\n"
# workers of the gangs of cluster-trace-v2026-spot-gpu: 1: 91.6 %, 2-8: 6.5 %, 9-32: 1.5 %
GANG_SIZES = """
  sizes:
    - {gpus: 1, weight: 60}
    - {gpus: 2, weight: 12}
    - {gpus: 8, weight: 20}
    - {gpus: 8, pods: 2, weight: 3}
    - {gpus: 8, pods: 4, weight: 2}
    - {gpus: 8, pods: 8, weight: 1.5}
    - {gpus: 8, pods: 16, weight: 1}
    - {gpus: 8, pods: 32, weight: 0.5}
"""


def churn(folder, load, seed):
    return f"""
nodes: {place.there(folder, 'openb_node_list_gpu_node.csv')}
jobs: {{file: {place.there(folder, 'openb_pod_list_default.csv')}, load: {load}, count: 200000, seed: {seed}, run_time: {{median: 540s, p90: 6574s}}}}
schedule: {{preempt: false}}
"""


def gangs(domains, seed):
    return f"""
nodes:
{TREE}jobs:
  count: 20000
  load: 0.85
  seed: {seed}
  run_time: {{median: 20m, p90: 6h}}{GANG_SIZES}  users:
    - {{name: train, within: rack}}
schedule: {{preempt: false, domains: {domains}}}
"""


def victims(how, seed):
    return f"""
nodes:
  - {{count: 64, model: H100, gpus: 8, cpus: 192, memory: 2TiB}}
jobs:
  count: 8000
  load: 1.2
  seed: {seed}
  run_time: {{median: 30m, p90: 8h}}
  users:
    - {{name: important, weight: 4, priority: 10}}
    - {{name: spot, weight: 3, preemptible: true, checkpoint: 30m, restart: 5m}}
    - {{name: spot without checkpoints, weight: 3, preemptible: true, restart: 5m}}
schedule: {{{how}}}
"""


def fairness(how, seed):
    """One queue has the cluster for itself first (its jobs come at once and are long), then both want all of it."""
    return f"""
nodes:
  - {{count: 16, model: H100, gpus: 8, cpus: 192, memory: 2TiB}}
queues:
  - {{name: all, gpus: 128}}
  - {{name: busy, parent: all}}
  - {{name: rare, parent: all}}
jobs:
  count: 3000
  load: 1.3
  seed: {seed}
  run_time: {{median: 30m, p90: 4h}}
  users:
    - {{name: b, queue: busy, weight: 9, preemptible: true, checkpoint: 15m, restart: 2m}}
    - {{name: r, queue: rare, weight: 1, preemptible: true, checkpoint: 15m, restart: 2m}}
schedule: {{{how}}}
"""


def simulate(stoker, plan, mode=None):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(plan)
        file.flush()
        words = [stoker, "place", "simulate", file.name, "--json", *(["--mode", mode] if mode else [])]
        return json.loads(subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True).stdout)["runs"][0]


def rows(pool, stoker, named, seeds, columns):
    """`named`: (name, plan of a seed, mode). Means over the seeds of each column's function."""
    asked = [(name, pool.submit(simulate, stoker, plan(seed), mode)) for name, plan, mode in named for seed in seeds]
    told = {}
    for name, future in asked:
        told.setdefault(name, []).append(future.result())
    return [[name, *(text.format(statistics.mean(read(one) for one in runs)) for _, text, read in columns)] for name, runs in told.items()]


def table(head, lines):
    return "\n".join(["| " + " | ".join(head) + " |", "| --- " * len(head) + "|", *("| " + " | ".join(line) + " |" for line in lines)])


def of(name, *path):
    def read(told):
        for key in (name, *path):
            told = told[key]
        return told or 0
    return read


def hours(read):
    return lambda told: read(told) / 3600


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    stoker, seeds = args.build.resolve() / "stoker", range(2000, 2000 + args.seeds)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        wait = [("wait, mean, h", "{:.2f}", hours(of("wait_mean_s"))), ("95 %, h", "{:.2f}", hours(of("wait_p95_s"))),
                ("8 GPUs or more, 95 %, h", "{:.2f}", hours(of("wait_p95_large_s")))]
        columns = [("allocated while jobs come, %", "{:.2f}", of("allocated_percent")), *wait]
        found = {"churn": table(["mode, load", *(c[0] for c in columns)], rows(
            pool, stoker, [(f"`{mode}`, {load}", lambda seed, load=load: churn(args.folder, load, seed), mode)
                           for load in (1.2, 1.3, 1.5) for mode in ("churn", "pack", "fgd", "best-fit", "first-fit")], seeds, columns))}
        columns = [("gangs within a rack, %", "{:.1f}", of("near_percent")), *wait]
        near = "none: each pod near those before it (Volcano's tier score)"
        found["gangs"] = table(["rack of a gang", *(c[0] for c in columns)], rows(
            pool, stoker, [(name, lambda seed, domains=domains: gangs(domains, seed), mode) for name, domains, mode in
                           (("the fullest that has room (Stoker; KAI; Kueue's LeastFreeCapacity)", "fullest", None),
                            ("the emptiest (Kueue's BestFit)", "emptiest", None), (near, "nearest", None), ("not looked at", "ignored", None),
                            (f"{near}, with `random`", "nearest", "random"), ("not looked at, with `random`", "ignored", "random"))], seeds, columns))
        columns = [("GPU hours lost", "{:.0f}", of("lost_gpu_hours")), ("jobs stopped", "{:.0f}", of("stops")), *wait]
        found["victims"] = table(["stopped for important jobs", *(c[0] for c in columns)], rows(
            pool, stoker, [(name, lambda seed, how=how: victims(how, seed), None) for name, how in
                           (("those that lose least (Stoker)", "preempt: true"), ("the youngest", "preempt: true, victims: youngest"), ("none", "preempt: false"))],
            seeds, columns))
        columns = [(f"wait of `{queue}`, mean, h", "{:.2f}", hours(of("queues", queue, "wait_mean_s"))) for queue in ("rare", "busy")]
        columns += [("GPU hours lost", "{:.0f}", of("lost_gpu_hours")), ("jobs stopped", "{:.0f}", of("stops"))]
        found["fairness"] = table(["how", *(c[0] for c in columns)], rows(
            pool, stoker, [(name, lambda seed, how=how: fairness(how, seed), None) for name, how in
                           (("fair shares, the past counts", "half_life: 12h"), ("fair shares", "preempt: true"), ("fair shares, nobody is stopped", "preempt: false"))],
            seeds, columns))
    text = (f"{datetime.date.today()}, {os.cpu_count()} shared cores of {bench.cpu_model()}: {args.seeds} seeds of each; jobs by chance.\n\n"
            f"**Churn.** 200,000 pods in the shapes of openb's default workload that come and go on its 1,213 nodes.\n\n{found['churn']}\n\n"
            f"**Gangs.** 256 nodes in 16 racks and two blocks, load 0.85, gangs of up to 32 pods that prefer one rack. Nodes are in the order of their racks, which "
            f"the mode `churn` fills one after the other; with `random` it does not.\n\n{found['gangs']}\n\n"
            f"**Victims.** 64 nodes, load 1.2; two in five jobs are important, the others can be stopped, half of them keep checkpoints.\n\n{found['victims']}\n\n"
            f"**Fairness.** 16 nodes, load 1.3, two queues of equal weight: `busy` sends nine of ten jobs.\n\n{found['fairness']}")
    print(text)
    if args.write:
        bench.write(text, BEGIN, END)


if __name__ == "__main__":
    main()
