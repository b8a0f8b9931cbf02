#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the agent costs while it is scraped each second, and how fast it answers, beside Debian's prometheus-node-exporter in
the same run where that is installed or fetched (test/peer/fetch.py BUILD/peers node-exporter).

usage: agent.py BUILD [--minutes 10] [--intervals | --owners] [--write]    --write puts the tables into docs/appendix/measurements.md
--intervals: the processor time alone, of agents and node exporters that are scraped each second, each 15 seconds and never
--owners: what 50 processes of jobs, pods, containers and users cost, beside an agent on the same GPUs without any

Nothing here passes or fails: goals stand beside the figures for a reader to judge."""
import contextlib
import http.client
import json
import multiprocessing
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import run as bench

ROOT = Path(__file__).resolve().parents[2]
I_BEGIN, I_END = "<!-- intervals: written by test/bench/agent.py --intervals with --write -->", "<!-- end of intervals -->"
O_BEGIN, O_END = "<!-- owners: written by test/bench/agent.py --owners with --write -->", "<!-- end of owners -->"
BEGIN, END = "<!-- agent: written by test/bench/agent.py with --write -->", "<!-- end of agent -->"
HZ = os.sysconf("SC_CLK_TCK")
SCRAPERS, ROUNDS = (1, 4, 16), 400


rig = bench.load("agent_rig", ROOT / "test/scenario/agent/agent_rig.py")


class Process:
    """Memory and time of one process, read from /proc."""

    def __init__(self, pid):
        self.pid = pid
        self.cpu0, self.at = self.cpu(), time.monotonic()

    def cpu(self):
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / HZ

    def percent(self):
        return 100 * (self.cpu() - self.cpu0) / (time.monotonic() - self.at)

    def memory(self, key, file="status"):
        text = Path(f"/proc/{self.pid}/{file}").read_text()
        return sum(int(n) for n in re.findall(rf"^{key}:\s+(\d+) kB", text, re.M)) / 1024

    def rss(self):
        return self.memory("VmRSS")

    def private(self):
        return self.memory("Private_Clean", "smaps_rollup") + self.memory("Private_Dirty", "smaps_rollup")


def scrape(connection):
    start = time.perf_counter()
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    size = len(answer.read())
    assert answer.status == 200
    return time.perf_counter() - start, size


def scraper(address, rounds, out):
    connection = http.client.HTTPConnection(address, timeout=60)
    out.put([scrape(connection)[0] for _ in range(rounds)])


def latency(address, scrapers):
    """p50 and p99 in seconds over all scrapers, each with a connection and a process of its own, without pauses."""
    out = multiprocessing.Queue()
    running = [multiprocessing.Process(target=scraper, args=(address, ROUNDS // scrapers, out)) for _ in range(scrapers)]
    for p in running:
        p.start()
    times = sorted(t for _ in running for t in out.get(timeout=600))
    for p in running:
        p.join()
    return times[len(times) // 2], times[int(len(times) * 0.99) - 1]


def find_exporter(build):
    """The program, fetched or installed; None where it cannot be had."""
    return next((build / "peers").rglob("usr/bin/prometheus-node-exporter"), None) or shutil.which("prometheus-node-exporter")


def node_exporter(build, number=0):
    """A running one and its address, or None where it cannot be had."""
    program = find_exporter(build)
    if not program:
        return None, None
    port = 19100 + (os.getpid() + number) % 1000
    process = subprocess.Popen([program, f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    rig.until(lambda: _answers(f"127.0.0.1:{port}"), "the node exporter answers")
    return process, f"127.0.0.1:{port}"


def _answers(address):
    try:
        scrape(http.client.HTTPConnection(address, timeout=5))
        return True
    except OSError:
        return False


def watch(addresses, processes, seconds):
    """Scrapes each address once a second; the mean latency of each at the end."""
    connections = {a: http.client.HTTPConnection(a, timeout=60) for a in addresses}
    took = {a: [] for a in addresses}
    sizes = {}
    start = time.monotonic()
    for p in processes:
        p.cpu0, p.at = p.cpu(), time.monotonic()
    for i in range(seconds):
        time.sleep(max(0, start + i + 1 - time.monotonic()))
        for a in addresses:
            t, sizes[a] = scrape(connections[a])
            took[a].append(t)
    return took, sizes


def first_sample(stoker, env, tmp):
    """Seconds from the start of an agent until a scrape of it shows a GPU's temperature."""
    start = time.perf_counter()
    agent = rig.Agent(stoker, tmp, env, ready=False)
    connection = http.client.HTTPConnection(agent.address, timeout=60)
    while True:
        connection.request("GET", "/metrics")
        if b"DCGM_FI_DEV_GPU_TEMP{" in connection.getresponse().read():
            took = time.perf_counter() - start
            connection.close()
            agent.stop()
            return took


def first_answer(program):
    port = 20100 + os.getpid() % 1000
    start = time.perf_counter()
    process = subprocess.Popen([program, f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    while not _answers(f"127.0.0.1:{port}"):
        pass
    took = time.perf_counter() - start
    process.terminate()
    process.wait(30)
    return took


def stripped_size(program, tmp):
    subprocess.run(["strip", "-o", tmp / "stripped", program], check=True)
    return (tmp / "stripped").stat().st_size


def starts(build):
    """Start and size, in one table."""
    stoker, rows = build / "stoker", []
    peer = find_exporter(build)
    with tempfile.TemporaryDirectory() as tmp:
        node = rig.Node(stoker, Path(tmp), "default", strict=False)
        ours, theirs = [], []
        for i in range(11):
            folder = Path(tmp) / str(i)
            folder.mkdir()
            ours.append(first_sample(stoker, node.env, folder))
            if peer:
                theirs.append(first_answer(peer))
        node.stop()
        rows.append(("start to the first sample of a GPU (node exporter: to its first page)", statistics.median(ours) * 1e3,
                     theirs and statistics.median(theirs) * 1e3, 300, "ms"))
        rows.append(("size of the program, without symbols", stripped_size(stoker, Path(tmp)) / 2**20,
                     peer and stripped_size(peer, Path(tmp)) / 2**20, 3, "MiB"))
        rows.append(("size of stoker-sampler", stripped_size(next(build.rglob("stoker-sampler")), Path(tmp)) / 2**20, None,
                     None, "MiB"))
    return rows


def case(build, scenario, seconds, alone, out):
    """Puts its rows into `out`. The cases run side by side, but for the part where one is scraped without pause."""
    stoker = build / "stoker"
    with tempfile.TemporaryDirectory() as tmp:
        node = rig.Node(stoker, Path(tmp), scenario, strict=False)
        agent = rig.Agent(stoker, Path(tmp), node.env)
        peer, peer_address = node_exporter(build)
        try:
            rows = []
            addresses = [agent.address] + ([peer_address] if peer else [])
            us = Process(agent.process.pid)
            sampler = Process(agent.children()[0][0])
            them = Process(peer.pid) if peer else None
            took, sizes = watch(addresses, [p for p in (us, sampler, them) if p], seconds)
            row = lambda what, ours, theirs, goal, unit: rows.append((what, ours, theirs, goal, unit))
            row("memory of the agent (RSS)", us.rss(), them and them.rss(), 16, "MiB")
            row("memory of the sampler (private)", sampler.private(), None, 4, "MiB")
            row("CPU of the agent", us.percent(), them and them.percent(), 0.5, "% of a core")
            row("CPU of the sampler", sampler.percent(), None, None, "% of a core")
            row("size of the page", sizes[agent.address] / 1024, them and sizes[peer_address] / 1024, None, "KiB")
            alone.acquire()
            row("a scrape, one each second, p50", statistics.median(took[agent.address]) * 1e3,
                them and statistics.median(took[peer_address]) * 1e3, None, "ms")
            for n in SCRAPERS:
                before, ours = us.cpu(), latency(agent.address, n)
                cpu = (us.cpu() - before) / (ROUNDS // n * n)
                theirs = latency(peer_address, n) if peer else (None, None)
                row(f"{n} scrapers without pause, p50", ours[0] * 1e3, theirs[0] and theirs[0] * 1e3, None, "ms")
                row(f"{n} scrapers without pause, p99", ours[1] * 1e3, theirs[1] and theirs[1] * 1e3, None, "ms")
                if n == 1:
                    row("CPU of the agent per scrape", cpu * 1e3, None, None, "ms")
            out.put(rows)
        finally:
            with contextlib.suppress(ValueError):
                alone.release()
            if peer:
                peer.terminate()
                peer.wait(30)
            agent.stop()
            node.stop()


# scraped each so many seconds (None: never), options; an agent with options of its own has no peer
AGENTS = ((1, ()), (15, ()), (None, ()), (15, ("--sample-fast", "1s")))


def by_interval(build, seconds):
    """A table of agents, and of node exporters beside them, that are scraped at several intervals, all at once."""
    with contextlib.ExitStack() as ends:
        tmp, watched = Path(ends.enter_context(tempfile.TemporaryDirectory())), []
        for i, (interval, options) in enumerate(AGENTS):
            folder = tmp / str(i)
            folder.mkdir()
            node = rig.Node(build / "stoker", folder, "default", strict=False)
            ends.callback(node.stop)
            agent = rig.Agent(build / "stoker", folder, node.env, options=options)
            ends.callback(agent.stop)
            peer, address = (None, None) if options else node_exporter(build, i)
            if peer:
                ends.callback(peer.wait, 30)
                ends.callback(peer.terminate)
            processes = [agent.process.pid, agent.children()[0][0], *([peer.pid] if peer else [])]
            watched.append((interval, [agent.address] + [address] * bool(peer), [Process(pid) for pid in processes]))
        start = time.monotonic()
        for p in (p for _, _, processes in watched for p in processes):
            p.cpu0, p.at = p.cpu(), start
        for second in range(1, seconds + 1):
            time.sleep(max(0, start + second - time.monotonic()))
            for address in (a for interval, addresses, _ in watched if interval and second % interval == 0 for a in addresses):
                scrape(http.client.HTTPConnection(address, timeout=60))
        shares = [[p.percent() for p in processes] for _, _, processes in watched]
    lines = [("a scrape each", "agent", "sampler", "both", "node exporter", "ratio"), ("---",) * 6]
    for (interval, options), (agent, sampler, *peer) in zip(AGENTS, shares, strict=True):
        what = (f"{interval} s" if interval else "never") + (f", `{' '.join(options)}`" if options else "")
        lines.append((what, *(f"{share:.2f} %" for share in (agent, sampler, agent + sampler)),
                      *((f"{peer[0]:.2f} %", f"{(agent + sampler) / peer[0]:.2g}" if peer[0] else "") if peer else ("", ""))))
    return bench.columns(lines) + ("" if find_exporter(build) else "\n\nNode exporter: skipped, it is not installed.")


def owned_node(count):
    """A scenario of 8 GPUs with so many processes on them: a quarter each of Slurm jobs, pods, containers and bare users."""
    owners = ({"job": "4711.{}"}, {"pod": "serving/chat-{}"}, {"container": "docker"}, {})
    work = [{"name": f"w{i}", "kind": "inference", "gpus": str(i % 8), "process": "python", "user": f"user{i % 20}", "memory": "1GiB",
             **{key: value.format(i) for key, value in owners[i % 4].items()}} for i in range(count)]
    return json.dumps({"about": f"{count} processes", "gpus": {"board": "h100-sxm-80gb", "count": 8}, "work": work, "truth": []})


def by_owners(build, seconds, processes=50):
    """The same GPUs with and without processes, each with an agent that keeps a ledger and is scraped each second."""
    with contextlib.ExitStack() as ends:
        tmp, sides = Path(ends.enter_context(tempfile.TemporaryDirectory())), []
        for count in (processes, 0):
            folder = tmp / str(count)
            folder.mkdir()
            (folder / "node.yaml").write_text(owned_node(count))
            node = rig.Node(build / "stoker", folder, folder / "node.yaml", strict=False)
            ends.callback(node.stop)
            agent = rig.Agent(build / "stoker", folder, node.env, options=["--journal", folder / "journal.db"])
            ends.callback(agent.stop)
            held = lambda a=agent: len([p for h in a.json("/api/v1/who")[1]["allocations"] for p in h["processes"] if p["user"]])
            rig.until(lambda: held() == count, held)
            sides.append((agent, Process(agent.process.pid), Process(agent.children()[0][0])))
        watch([agent.address for agent, _, _ in sides], [p for side in sides for p in side[1:]], seconds)
        rows = [("CPU of the agent", [us.percent() for _, us, _ in sides], 0.1, "% of a core"),
                ("CPU of the sampler", [sampler.percent() for _, _, sampler in sides], None, "% of a core"),
                ("memory of the agent (RSS)", [us.rss() for _, us, _ in sides], 2, "MiB")]
    lines = [("what", f"{processes} processes", "none", "ratio", "difference", "goal"), ("---",) * 6]
    for what, (held, free), goal, unit in rows:
        lines.append((what, f"{held:.3g} {unit}", f"{free:.3g} {unit}", f"{held / free:.2f}", f"{held - free:.2g} {unit}",
                      f"<= {goal:g} {unit}" if goal else ""))
    return bench.columns(lines)


def table(rows):
    lines = [("what", "stoker", "node exporter", "ratio", "goal"), ("---",) * 5]
    for what, ours, theirs, goal, unit in rows:
        lines.append((what, f"{ours:.3g} {unit}", f"{theirs:.3g} {unit}" if theirs else "", f"{ours / theirs:.2g}" if theirs else "",
                      f"<= {goal:g} {unit}" if goal else ""))
    return bench.columns(lines)


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--minutes", type=float, default=0.5)
    parser.add_argument("--intervals", action="store_true")
    parser.add_argument("--owners", action="store_true")
    args = parser.parse_args()
    seconds = int(args.minutes * 60)
    if args.intervals:
        return bench.tell(args, f"8 GPUs, {args.minutes:g} minutes, per cent of a core", f"\n{by_interval(args.build, seconds)}\n",
                          I_BEGIN, I_END)
    if args.owners:
        return bench.tell(args, f"8 GPUs, {args.minutes:g} minutes with a scrape each second", f"\n{by_owners(args.build, seconds)}\n",
                          O_BEGIN, O_END)
    tables, alone, running = "", multiprocessing.Lock(), []
    for title, scenario in (("8 GPUs, default metrics", "default"), ("8 x 7 MIG devices", str(ROOT / "test/bench/mig-8x7.yaml"))):
        out = multiprocessing.Queue()
        running.append((title, out, multiprocessing.Process(target=case, args=(args.build, scenario, seconds, alone, out))))
        running[-1][2].start()
    for title, out, process in running:
        tables += f"\n### {title}\n\n{table(out.get(timeout=seconds + 600))}\n"
        process.join()
    tables += f"\n### Start and size\n\n{table(starts(args.build))}\n"
    bench.tell(args, f"{args.minutes:g} minutes with a scrape each second", tables, BEGIN, END)


if __name__ == "__main__":
    sys.exit(main())
