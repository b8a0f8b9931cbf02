#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Placement on recorded workloads: each mode of `stoker place replay` on each workload and order of a folder in the layout of the
FGD study (ATC'23; data of openb, cluster-trace-gpu-v2023): openb_node_list_gpu_node.csv, WORKLOAD.csv, orders/WORKLOAD.SEED.txt, and the
published results, published/allo_discrete.csv and frag_discrete.csv, which the published policies are held against, bin by
bin. All of it may be gzip.

usage: place.py BUILD FOLDER [--write]      --write puts the table into docs/appendix/measurements.md"""
import argparse
import concurrent.futures
import csv
import datetime
import gzip
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/bench"))
import run as bench  # noqa: E402

BEGIN, END = "<!-- place: written by test/bench/place.py with --write -->", "<!-- end of place -->"
PUBLISHED = {"fgd": "06-FGD", "best-fit": "05-BestFit", "gpu-packing": "04-GpuPacking", "gpu-clustering": "03-GpuClustering", "dot-product": "02-DotProd"}
HALF_A_PLACE = 0.0050001  # published with two digits


def there(folder, name):
    found = next((p for p in (folder / name, folder / f"{name}.gz") if p.exists()), None)
    if not found:
        sys.exit(f"place: {folder / name} is not there, nor with .gz")
    return found


def replay(stoker, folder, workload, seed, mode):
    command = [stoker, "place", "replay", "--nodes", there(folder, "openb_node_list_gpu_node.csv"), "--pods", there(folder, f"{workload}.csv"),
               "--order", there(folder, f"orders/{workload}.{seed}.txt"), "--mode", mode, "--json"]
    return json.loads(subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout)


def published(folder, name):
    path = there(folder, f"published/{name}_discrete.csv")
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt") as file:
        return {(row["workload"], row["sc_policy"], row["seed"]): row for row in csv.DictReader(file)}


def is_equal(row, series):
    """Each bin that was published; a cell that is cut off counts for nothing."""
    known = [(float(text), series.get(str(i))) for i in range(131) if (text := row.get(str(i))) and text.replace(".", "", 1).isdigit() and len(text.partition(".")[2]) > 0]
    return bool(known) and all(value is not None and abs(told - value) <= HALF_A_PLACE for told, value in known)


def gate(folder, results):
    """(runs that equal the published ones in every bin of allocation and fragmentation, runs that were published)"""
    tables = [(published(folder, "allo"), "alloc_at"), (published(folder, "frag"), "fragmented_at")]
    equal = total = 0
    for (workload, seed, mode), told in results.items():
        rows = [(table.get((workload, PUBLISHED.get(mode), seed)), series) for table, series in tables]
        if all(row for row, _ in rows):
            total += 1
            equal += all(is_equal(row, told[series]) for row, series in rows)
    return equal, total


def mean(values):
    values = [v for v in values if v is not None]
    return statistics.mean(values) if values else float("nan")


def table(results, modes, workloads):
    def of(mode, series, bin_, only=None):
        return mean([told[series].get(bin_) for (workload, _, m), told in results.items() if m == mode and only in (None, workload)])

    def watts(mode):
        return mean([mean([told["power_w_at"].get(str(i)) for i in range(10, 101)]) for (_, _, m), told in results.items() if m == mode])

    lines = ["| mode | mean at 100 | mean at 130 | default at 100 | default at 130 | gpuspec33 at 100 | power beside fgd | decisions a second, median workload | slowest workload |", "| --- " * 9 + "|"]
    for mode in modes:
        speeds = [statistics.median(told["decisions_per_s"] for (w, _, m), told in results.items() if (w, m) == (workload, mode)) for workload in workloads]
        lines.append(f"| {mode} | {of(mode, 'alloc_at', '100'):.2f} | {of(mode, 'alloc_at', '130'):.2f} | {of(mode, 'alloc_at', '100', 'openb_pod_list_default'):.2f} | "
                     f"{of(mode, 'alloc_at', '130', 'openb_pod_list_default'):.2f} | {of(mode, 'alloc_at', '100', 'openb_pod_list_gpuspec33'):.2f} | "
                     f"{100 * (watts(mode) / watts('fgd') - 1):+.1f} % | {statistics.median(speeds):,.0f} | {min(speeds):,.0f} |")
    better = {mode: sum(of(mode, "alloc_at", "100", w) > of("fgd", "alloc_at", "100", w) for w in workloads) for mode in modes}
    return "\n".join(lines), better


def growth(build):
    """A table of how a decision's time grows with the nodes, beside the smallest cluster of the same run."""
    rows = [json.loads(line) for line in subprocess.run([build / "test/bench/bench_placement"], check=True, capture_output=True, text=True).stdout.splitlines()]
    lines = ["| nodes | pods that run | decisions a second | median | 99 % | longest | 99 % beside the smallest | memory |", "| --- " * 8 + "|"]
    for row in rows:
        lines.append(f"| {row['nodes']:,} | {row['held']:,} | {row['decisions_per_s']:,} | {row['p50_us']:.0f} us | {row['p99_us']:.0f} us | {row['max_us']:.0f} us | "
                     f"x {row['p99_us'] / rows[0]['p99_us']:.1f} | {row['memory_mib']} MiB |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    stoker = args.build.resolve() / "stoker"
    orders = sorted(p.name.split(".txt")[0] for p in (args.folder / "orders").iterdir())
    modes = [line.split()[0] for line in subprocess.run([stoker, "place", "modes"], check=True, capture_output=True, text=True).stdout.split("\n\n")[0].splitlines()]
    runs = [(*order.rsplit(".", 1), mode) for order in orders for mode in modes]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = dict(zip(runs, pool.map(lambda run: replay(stoker, args.folder, *run), runs)))
    workloads = sorted({run[0] for run in runs})
    text, better = table(results, modes, workloads)
    equal, total = gate(args.folder, results)
    seeds = len({run[1] for run in runs})
    text = (f"{datetime.date.today()}, {os.cpu_count()} shared cores of {bench.cpu_model()}: {len(workloads)} workloads, {seeds} orders of each. Per cent of the cluster's GPUs that are "
            f"allocated when as many were asked for as there are (100), and 30 % more; means over workloads and orders.\n\n{text}\n\n"
            f"The published policies equal the published results in every bin of allocation and of fragmentation in {equal} of {total} runs. "
            f"`pack` allocates more than `fgd` at 100 on {better['pack']} of {len(workloads)} workloads, `balanced` on {better['balanced']}.")
    text += ("\n\nHow a decision of `pack` grows with the cluster: nodes and requests in the shapes of openb, 150 kinds of request, the cluster full, one request for "
             f"each that ends. A decision here is the end of one pod and the place of another. Memory is that of the whole process.\n\n{growth(args.build.resolve())}")
    print(text)
    if args.write:
        bench.write(text, BEGIN, END)


if __name__ == "__main__":
    main()
