#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks of a build folder and prints one table; and holds what the other benchmarks here share. A figure is
a median over rounds; a ratio is the median of the ratios within the rounds, so that what slows the machine down for a moment
slows both sides.

usage: run.py BUILD [--write]      --write also puts the tables into docs/appendix/measurements.md

Nothing here passes or fails: goals stand beside the figures for a reader to judge.
"""

import argparse
import datetime
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/appendix/measurements.md"
BEGIN, END = "<!-- benchmarks: written by `make bench` with --write -->", "<!-- end of benchmarks -->"

# (what, measured as, less this, [peers], goal in ns)
SECTIONS = [
    ("A client of the driver library, 8 GPUs", "nvml", [
        ("nvmlDeviceGetTemperature", None, ["empty function", "clock_gettime", "read of /proc/loadavg"], 500),
        ("nvmlDeviceGetPowerUsage", None, ["clock_gettime", "read of /proc/loadavg"], 500),
        ("nvmlDeviceGetUtilizationRates", None, ["clock_gettime", "read of /proc/loadavg"], 500),
        ("nvmlDeviceGetMemoryInfo_v2", None, ["clock_gettime", "read of /proc/loadavg"], 500),
        ("nvmlDeviceGetName", None, ["clock_gettime", "read of /proc/loadavg"], 500),
        ("nvmlDeviceGetComputeRunningProcesses_v3", None, ["clock_gettime", "read of /proc/loadavg"], 500),
        ("nvmlDeviceGetFieldValues, 40 fields", None, ["read of /proc/loadavg"], None),
        ("nvmlGpmSampleGet", None, ["read of /proc/loadavg"], None),
        ("8 GPUs, 80 readings each, new instant", "moving the clock", ["read of /proc/loadavg"], 100_000),
        ("8 GPUs, 80 readings each, same instant", None, ["read of /proc/loadavg"], 100_000),
        ("init and shutdown in a new process", None, ["dlopen libm in a new process", "new process"], 5_000_000),
        ("init and shutdown again", None, ["new process"], 5_000_000),
    ]),
    ("The simulated node", "node", [
        ("state of one GPU", None, [], None),
        ("state of 8 GPUs", None, ["copy of 8 segments"], 100_000),
        ("sim_op_apply", None, ["sim_plan_build", "write and rename"], None),
        ("inject words", None, ["write and rename"], None),
        ("scenario_compile", None, ["yaml of scenario and board", "sim_plan_build"], None),
        ("sim show", None, ["spawn /bin/true"], None),
    ]),
    ("src/base", "base", [
        ("number_write_double", None, ["snprintf %.17g"], None),
        ("number_parse_double", None, ["strtod"], None),
        ("map_get", None, ["bsearch"], None),
        ("arena", None, ["calloc and free"], None),
        ("yaml_load", None, ["libyaml events"], None),
        ("log_write", None, ["dprintf", "write /dev/null"], None),
    ]),
    ("The history, the windows between scrapes, gzip", "store", [
        ("store_add", None, ["2 x clock_gettime"], None),
        ("store_add_fast", None, ["2 x clock_gettime"], None),
        ("store_minutes", None, [], None),
        ("store_seconds", None, [], None),
        ("windows_add", None, [], None),
        ("windows_take", None, [], None),
        ("gzip_pack", None, ["zlib compress2"], 1_000_000),
        ("gzip_unpack", None, ["gzip_pack"], None),
    ]),
    ("The ledger: 8 GPUs, 50 owners a tick; 30 days with 200 owners, 144,000 rows", "ledger", [
        ("ledger tick", None, ["2 x clock_gettime"], None),
        ("ledger tick to the journal", None, ["2 x clock_gettime"], 1_000_000),
        ("cost, 30 days", None, ["the sums in SQL"], 200_000_000),
        ("stoker cost, 30 days", None, ["the sums in SQL, a new process"], 200_000_000),
    ]),
    ("The /metrics page, default rows", "page", [
        ("page, 8 GPUs", None, ["as many series with printf"], 300_000),
        ("page, 8 GPUs, labels made anew", None, ["as many series with printf"], None),
        ("page, 8 GPUs in 56 instances", None, ["as many series of 56 instances with printf"], None),
        ("page, 72 instances", None, ["as many series of 72 instances with printf"], 2_000_000),
        ("exporter_tick, 8 GPUs", None, [], None),
    ]),
]
SAID = {  # what a row is, where its name does not say it
    "arena": "arena, 64 pieces of 48 bytes and their end",
    "sim_op_apply": "one change: append an op, plan the future anew",
    "inject words": "reading the words of `sim inject`",
    "scenario_compile": "making a node: read, build, plan",
    "map_get": "map_get, 4,096 keys of text",
    "yaml_load": "yaml_load, 128 KiB",
    "log_write": "log_write, one line to /dev/null",
    "store_add": "store_add, one sample of 320 series",
    "store_add_fast": "store_add_fast, one reading",
    "store_minutes": "store_minutes, a day of one series",
    "store_seconds": "store_seconds, ten minutes of one series",
    "windows_add": "windows_add, a tick of 8 GPUs for 16 scrapers",
    "windows_take": "windows_take, 8 GPUs",
    "gzip_pack": "gzip_pack, a page of metrics",
    "sim show": "`stoker sim show`, the whole command",
    "init and shutdown in a new process": "dlopen, init and shutdown in a new process",
}


def cpu_model():
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    match = re.search(r"^model name\s*:\s*(.*)$", text, re.M)
    return match.group(1).strip() if match else os.uname().machine


def run(program, *args):
    done = subprocess.run([program, *args], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"bench: {program.name} ended with {done.returncode}\n{done.stderr}")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["name"]: row.get("ns", row.get("value")) for row in rows}


def time_text(ns):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.3g} ns"


def less(values, other):
    return values if other is None else [max(v - o, 0.0) for v, o in zip(values, other)]


def ratio_text(ratio):
    return f"{ratio:.0f}" if ratio >= 100 else f"{ratio:.2g}"


def rows(results, table):
    for name, minus, peers, goal in table:
        values = less(results[name], results.get(minus))
        middle = statistics.median(values)
        compared = []
        for peer in (p for p in peers if p in results):  # zlib may be missing
            against = results[peer]
            ratio = statistics.median(v / p for v, p in zip(values, against))
            compared.append(f"{ratio_text(ratio)} x {peer} ({time_text(statistics.median(against))})")
        said = SAID.get(name, name) + (f", less {minus}" if minus else "")
        if name == "yaml_load":
            said += f" ({results['yaml bytes'] / middle * 1e3:.1f} MB/s)"
        if name == "cost, 30 days":
            said += f" ({results['ledger bytes'] / 1e6:.0f} MB)"
        if name == "gzip_pack":
            said += f" ({results['page bytes']} to {results['packed bytes']} bytes)"
        yield said, time_text(middle), "; ".join(compared), f"< {time_text(goal)}" if goal else ""


def table_text(results, table):
    lines = [("what", "time", "ratio to", "goal"), ("---", "---", "---", "---"), *rows(results, table)]
    return columns(lines)


# -- what the benchmarks share ------------------------------------------------------------------------------------------

def load(name, path):
    """A module by its file."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def parser(doc):
    """What each of them is told: the build folder, and whether its tables are kept."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("build", type=lambda text: Path(text).resolve())
    made.add_argument("--write", action="store_true", help="put the tables into docs/appendix/measurements.md")
    return made


def columns(lines):
    """A table of Markdown; the first two lines are its head."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths)) + " |" for line in lines)


def write(text, begin, end):
    """Puts the text into the page of figures, in the place of what is between these two lines."""
    page = PAGE.read_text(encoding="utf-8")
    if begin not in page or end not in page:
        sys.exit(f"bench: {PAGE} has no place for the tables")
    head, rest = page.split(begin, 1)
    PAGE.write_text(f"{head}{begin}\n{text}\n{end}{rest.split(end, 1)[1]}", encoding="utf-8")


def tell(args, conditions, tables, begin, end):
    """Prints the tables below what they were measured on, and keeps them if that is wanted."""
    cores = len(os.sched_getaffinity(0))
    text = f"{datetime.date.today().isoformat()}, {cores} shared cores of {cpu_model()}, {conditions}.\n{tables}"
    print(text, end="")
    if args.write:
        write(text, begin, end)


def main():
    args = parser(__doc__).parse_args()
    build = args.build
    data = ROOT / "sim" / "data"
    extra = {
        "base": [],
        "page": [],
        "node": [data, build / "stoker"],
        "store": [],
        "ledger": [build / "stoker"],
        "nvml": [build / "sim" / "nvml" / "r610" / "libnvidia-ml.so.1", data],
    }
    tables = ""
    for title, program, table in SECTIONS:
        results = run(build / "test" / "bench" / f"bench_{program}", *map(str, extra[program]))
        tables += f"\n### {title}\n\n{table_text(results, table)}\n"
    tell(args, "medians of 21 rounds", tables, BEGIN, END)
    return 0


if __name__ == "__main__":
    sys.exit(main())
