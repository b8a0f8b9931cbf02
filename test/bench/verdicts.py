#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The agent's verdicts against what is planted: every scenario of the simulator played fast, class by class; and two storms,
of kernel lines and of corrected memory errors, with what they open and what they cost; `stoker why` on labelled
scenarios (test/unit/why/cases.def); every scenario with an agent that is ended at random moments; and `stoker trace` on jobs
with planted causes (test/scenario/trace/planted.py).

usage: verdicts.py BUILD [--only scenarios|restarts|storms|why|trace] [--scenario NAME]... [--seed N] [--write]
                                              --write puts the result into docs/appendix/measurements.md

A finding that differs from the truth is printed with its evidence. Nothing here passes or fails: goals stand beside the
figures for a reader to judge."""
import concurrent.futures
import fcntl
import json
import math
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "test/scenario/agent"), str(ROOT / "test/bench"), str(ROOT / "test/scenario/trace")]
import agent_rig as rig  # noqa: E402
import planted  # noqa: E402
import run as bench  # noqa: E402
import truths as library  # noqa: E402

BEGIN, END = "<!-- verdicts: written by `make bench-verdicts` with --write -->", "<!-- end of verdicts -->"
AT_ONCE = 2  # and beside them one in real time, which costs next to nothing
BEFORE, GAP = 3 * 60, 30 * 60  # what is played before something happens; a quiet time that is left out
NOTHING = "nothing"

# Deadlines of driver calls, and the starts of samplers, are in real time, so that the node's must be too: until when, and how fast (None: at once).
REAL_TIME = {
    "slow-driver": [(175, None), (5 * 60, 1)],
    "slow-calls-one-gpu": [(115, None), (255, 1)],
    "hung-driver-call": [(175, None), (220, 1), (33 * 60 - 5, None), (34 * 60, 1)],
    "near-miss-slow-once": [(595, None), (640, 1)],
    "driver-reload": [(175, None), (215, 1)],
}
# What takes real time, and so slows the node's clock to this for a while before and after: samplers have to notice a hang, and the line of
# an XID has to be read before what the driver says of it.
UNHURRIED = {"hang": (30, 60, 60), "driver": (30, 60, 60), "xid": (1, 6, 4)}  # s before, s behind, speed
TREND = {"leaking-memory": 2 * 3600}  # until when


# -- a scenario -------------------------------------------------------------------------------------------------------

def happenings(scenario, truths):
    """When something begins or ends by the scenario."""
    found = {0.0}
    for step in scenario.get("at", []):
        begin = library.seconds(step["time"])
        found |= {begin, begin + library.seconds(step.get("for", "0s"))}
    for truth in truths:
        found |= {library.seconds(truth[key]) for key in ("from", "until") if key in truth and truth[key] != "forever"}
    return sorted(found)


def plan(name, scenario, truths):
    """(speed of the agent's clock, legs): all of it but for long times in which nothing happens."""
    if name in REAL_TIME:
        return 1, REAL_TIME[name]
    times, after = happenings(scenario, truths), library.LATE + library.LATER.get(name, 0)
    end = max(times[-1] + after, TREND.get(name, 0))
    lively = [(0, end)] if name in TREND else [(t - BEFORE, min(t + after, end)) for t in times]
    unhurried = [(library.seconds(s["time"]) - before, library.seconds(s["time"]) + library.seconds(s.get("for", "0s")) + behind, slow)
                 for s in scenario.get("at", []) if s["do"] in UNHURRIED and ("for" in s or s["do"] == "xid")
                 for before, behind, slow in [UNHURRIED[s["do"]]]]
    edges = sorted({0, end, *(e for span in lively + unhurried for e in span[:2] if 0 < e < end)})
    spans = list(zip(edges, edges[1:]))
    within = lambda span, of: any(a <= span[0] and span[1] <= b for a, b in of)
    slowed = lambda span: min((slow for *of, slow in unhurried if within(span, [of])), default=math.inf)
    quiet = lambda span: span[1] - span[0] > GAP and not within(span, lively)
    speed = library.speed_for(name, sum(b - a for a, b in spans if not quiet((a, b))))
    return speed, [(span[1], None if quiet(span) else min(speed, slowed(span))) for span in spans]


def at_that_time(past, truth):
    """The incident as it was at the end of the truth's time, or as it first was where it came later."""
    until = truth.get("until", "forever")
    end = float("inf") if until == "forever" else library.seconds(until)
    return ([i for t, i in past if t <= end] or [past[0][1]])[-1]


def compare(play, truths, count, name):
    """What was planted and what was found, as plain data."""
    out = {"name": name, "pairs": [], "agree": Counter(), "truths": len(truths), "remarks": [], "routes": Counter(),
           "false_pages": 0, "merged": 0, "healthy": not truths}
    missed, explained = [], set()
    for truth in truths:
        routes = (None,) if truth["route"] == "none" else library.TOLD
        found = [k for k, i in play.seen.items() if library.fits(i, truth, count) and (routes[0] is None or i["route"] in routes)]
        explained |= set(found)
        if not found:
            missed.append(truth)
            continue
        out["pairs"].append((truth["class"], truth["class"]))
        then = [at_that_time(play.past[k], truth) for k in found]
        for key in ("cause", "action", "route"):
            good = {i[key] for i in then} == {truth[key]}
            out["agree"][key] += good
            if not good:
                out["remarks"].append(f"{truth['class']}: {key} {'/'.join(sorted({i[key] for i in then}))}, planted "
                                      f"{truth[key]}")
    paging = [t for t in truths if t["route"] == "page"]
    for k, incident in play.seen.items():
        paged = any(i["route"] == "page" for _, i in play.past[k])
        wrong = paged and not any(library.fits(incident, t, count) for t in paging)
        if incident["ended_by"] == "merged":
            out["merged"] += wrong
            continue
        if incident["route"] in library.TOLD:
            out["routes"][incident["route"]] += 1
        if wrong:
            out["false_pages"] += 1
            out["remarks"].append(f"false page: {described(play.past[k])}")
        if k in explained or incident["route"] not in library.TOLD:
            continue
        like = [t for t in missed if t["class"] != incident["class"] and overlap(incident, t, count)]
        out["pairs"].append((like[0]["class"] if like else NOTHING, incident["class"]))
        missed = [t for t in missed if t not in like[:1]]
        out["remarks"].append(f"not planted: {described(play.past[k])}")
    for truth in missed:
        out["pairs"].append((truth["class"], NOTHING))
        out["remarks"].append(f"not found: {truth['class']}")
    if not truths and not any(p for p in out["pairs"]):
        out["pairs"].append((NOTHING, NOTHING))
    return out


def described(past):
    (first, _), (last, incident) = past[0], past[-1]
    over = next((f", over at {t / 3600:.2f} h" for t, i in past if i["cleared"]), "")
    return f"{incident['class']}, seen at {first / 3600:.2f} h{over}: {json.dumps(library.short(incident))}"


def overlap(incident, truth, count):
    wanted, index = library.gpus_of(truth, count), incident["device"]["index"]
    return not wanted or index is None or index in wanted


def play_one(stoker, path):
    scenario, count, truths, _ = library.load(path)
    name = path.stem
    clock, legs = plan(name, scenario, truths)
    running = []
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as tmp:
        folders = (Path(tmp) / n for n in ("node", "agent"))

        def make(kind, *args, **options):
            folder = next(folders)
            folder.mkdir()
            running.append(kind(stoker, folder, *args, **options))
            return running[-1]

        try:
            play = library.Play(lambda *a, **o: make(rig.Node, *a, **o), lambda *a, **o: make(rig.Agent, *a, **o), name, clock,
                                legs)
            result = compare(play, truths, count, name)
        finally:
            for it in reversed(running):
                it.stop()
    result["planted_work"] = len(scenario["truth"]) - len(truths)
    result["seconds"] = time.monotonic() - begun
    return result


def play_all(stoker, names):
    paths = [p for p in library.SCENARIOS if not names or p.stem in names]
    paths.sort(key=lambda p: (p.stem != "a-bad-week", p.stem))  # it takes longest
    results = []
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as fast, concurrent.futures.ThreadPoolExecutor(1) as real:
        running = [(real if p.stem in REAL_TIME else fast).submit(play_one, stoker, p) for p in paths]
        for result in (r.result() for r in concurrent.futures.as_completed(running)):
            results.append(result)
            print(f"{result['name']:<30} {result['seconds']:5.0f} s  " + ("as planted" if not result["remarks"] else ""),
                  file=sys.stderr)
            for remark in result["remarks"]:
                print(f"    {remark}", file=sys.stderr)
    return results


def matrix(results):
    """Rows: planted; columns: found, by number."""
    cells = Counter(p for r in results for p in r["pairs"])
    named = sorted({c for pair in cells for c in pair} - {NOTHING})
    number = {c: str(n + 1) for n, c in enumerate(named)} | {NOTHING: "-"}
    order = [*named, NOTHING]
    width = max(len(c) for c in order) + 4
    lines = [" " * width + "".join(f"{number[c]:>3}" for c in order)]
    for row in order:
        title = f"{number[row]:>2} {row}" if row != NOTHING else " - nothing"
        lines.append(f"{title:<{width}}" + "".join(f"{cells[row, c] or '.':>3}" for c in order))
    return "\n".join(lines)


def oblong(cells):
    """Rows: planted; columns: what was found first, with names of their own."""
    rows, columns = ([*sorted({pair[i] for pair in cells} - {NOTHING}), NOTHING] for i in (0, 1))
    width = max(len(row) for row in rows)
    lines = [" " * width + "".join(f"{i + 1 if c != NOTHING else '-':>3}" for i, c in enumerate(columns))]
    lines += [f"{row:<{width}}" + "".join(f"{cells[row, c] or '.':>3}" for c in columns) for row in rows]
    return "\n".join([*lines, *(f"{i + 1:>3} {c}" for i, c in enumerate(columns[:-1]))])


def verdicts(results):
    count = sum(r["truths"] for r in results)
    pairs = [p for r in results for p in r["pairs"]]
    found = sum(a == b != NOTHING for a, b in pairs)
    routes = sum((r["routes"] for r in results), Counter())
    agree = sum((r["agree"] for r in results), Counter())
    healthy = [r for r in results if r["healthy"]]
    quiet = sum(not r["routes"] for r in healthy)
    text = (f"{len(results)} scenarios, {count} planted faults. Rows are what was planted, columns what was found, by the "
            f"number of its class;\n`-` is nothing: its row holds what was told without a fault, its column what was missed, and "
            f"where both meet the scenarios\nwithout a fault of which nobody was told anything.\n\n```\n{matrix(results)}\n```\n\n")
    text += table(("what", "is", "goal"), [
        ("planted faults found", f"{found} of {count}", "all"),
        ("false pages", str(sum(r["false_pages"] for r in results)), "0"),
        ("pages taken back as another incident's consequence", str(sum(r["merged"] for r in results)), "0"),
        ("told without a fault", str(sum(a == NOTHING != b for a, b in pairs)), "0"),
        ("scenarios without a fault that stayed quiet", f"{quiet} of {len(healthy)}", "all"),
        *((f"{key} as planted", f"{agree[key]} of {found}", "all") for key in ("cause", "action", "route")),
        ("pages, tickets, told to the work's owner", ", ".join(str(routes[r]) for r in library.TOLD), ""),
    ])
    rest = sum(r["planted_work"] for r in results)
    text += f"\n\n{rest} more truths are about how well work runs (starved, hung, straggling), which is no fault of a thing."
    wrong = [f"- {r['name']}: {remark.split(': {')[0]}" for r in results for remark in r["remarks"]]
    return text + ("\n\nNot as planted:\n\n" + "\n".join(wrong) if wrong else "") + "\n"


# -- restarts ---------------------------------------------------------------------------------------------------------

def restarts(build, names, seed):
    """What test/scenario/truths says of agents that are ended at random moments, under a clock that is pushed."""
    command = [build / "test/scenario/truths/truths", ROOT / "sim/data/scenarios", ROOT / "sim/data/boards", build / "sim/nvml",
               build / "src/source/nvml/stoker-sampler", "--restarts", str(seed), *(names or [])]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    *lines, total = done.stdout.splitlines()
    assert total.startswith("# seed "), done.stdout
    left_out = [line.split(" - ")[1].replace(" # SKIP", ":") for line in lines if "# SKIP" in line]
    wrong = [f"    {line}" for line in lines if not line.startswith(("ok ", "1.."))]
    return ("The agent is killed or stopped at random moments and started again up to a minute later, with its journal or a fresh one, "
            "and all\nGPUs are reset at times while none runs. False is what is told and not planted, or stands four minutes after a "
            f"reset that ends it.\n\n{total[2:]}.\n\nNot played: {'; '.join(left_out)}.\n"
            + ("\n" + "\n".join(wrong) + "\n" if wrong else ""))


# -- storms -----------------------------------------------------------------------------------------------------------

LINES, SPREAD_S, CALM_S = 200_000, 60, 10
ECC_SPEED, ECC_S = 8, 45


def cpu(pid):
    """Seconds of a process with all its threads."""
    total = 0
    for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        total += int(file.read_text().split()[0])
    return total / 1e9


def records(count, buses, first=()):
    """Lines as /dev/kmsg gives them: channel after channel of a program on all GPUs."""
    now = int(time.monotonic() * 1e6)
    texts = [*first] + [f"NVRM: Xid (PCI:{buses[i % len(buses)]}): 45, pid=4711, name=python, Ch {i % 4096:08x}"
                        for i in range(count)]
    return [f"4,{i + 1},{now + i},-;{text}\n".encode() for i, text in enumerate(texts)]


class Device:
    """A named pipe that is like /dev/kmsg: one read gives one record. A full one makes the writer wait, where the kernel
    would overwrite."""

    def __init__(self, path):
        os.mkfifo(path)
        self.path, self.fd = path, os.open(path, os.O_RDWR)
        fcntl.fcntl(self.fd, fcntl.F_SETFL, os.O_DIRECT)
        fcntl.fcntl(self.fd, 1031, 1 << 20)  # F_SETPIPE_SZ

    def write(self, lines, seconds=0):
        begin = time.monotonic()
        for i, line in enumerate(lines):
            if seconds and i % 64 == 0:
                time.sleep(max(0, begin + seconds * i / len(lines) - time.monotonic()))
            os.write(self.fd, line)

    def close(self):
        os.close(self.fd)


class File:
    def __init__(self, path):
        self.path = path
        path.touch()

    def write(self, lines, seconds=0):
        assert not seconds
        with open(self.path, "ab") as out:
            for line in lines:
                out.write(line)

    def close(self):
        pass


def cat_cpu(lines, tmp):
    """Processor seconds of `cat`, which takes the same records from the same kind of device and does nothing with them."""
    device = Device(tmp / "peer")
    reader = subprocess.Popen(["cat", device.path], stdout=subprocess.DEVNULL)
    device.write(lines)
    rig.until(lambda: not readable(device.fd), "all is read")
    used = cpu(reader.pid)
    reader.terminate()
    reader.wait(30)
    device.close()
    return used


def readable(fd):
    count = bytearray(4)
    fcntl.ioctl(fd, 0x541B, count)  # FIONREAD
    return int.from_bytes(count, "little")


def wc_cpu(path):
    """Of the fastest of three `wc -l`, with its start."""
    spent = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    took = []
    for _ in range(3):
        before = spent()
        subprocess.run(["wc", "-l", path], check=True, stdout=subprocess.DEVNULL)
        took.append(spent() - before)
    return min(took)


def taken(agent):
    return sum(v for _, v in agent.page().all("stoker_events_total", kind="xid"))


def settled(agent):
    """When the agent had taken what there was, as its counter tells that then stood still."""
    before, since = taken(agent), time.monotonic()
    while time.monotonic() < since + 1:
        time.sleep(0.05)
        if (now := taken(agent)) != before:
            before, since = now, time.monotonic()
    return since


def lines_storm(stoker, tmp, source, seconds, first, peer):
    """One storm of lines: what it opens and costs."""
    node = rig.Node(stoker, tmp, "default", strict=False)
    log = source(tmp / "kmsg")
    agent = rig.Agent(stoker, tmp, node.env, options=["--kernel-log", log.path, "--journal", tmp / "journal.db"])
    try:
        buses = [g["pci"].lower()[4:-2] for g in agent.gpus()]  # as the kernel writes it
        lines = records(LINES, buses, [first.format(buses[3])] if first else [])
        pid = agent.process.pid
        begin, before = time.monotonic(), cpu(pid)
        time.sleep(CALM_S)
        calm = (cpu(pid) - before) / (time.monotonic() - begin)
        rss = agent.rss()
        begin, before = time.monotonic(), cpu(pid)
        log.write(lines, seconds)
        wrote = time.monotonic() - begin
        took = settled(agent) - begin
        time.sleep(2)  # what goes on behind it, to the disk
        used = cpu(pid) - before - calm * (time.monotonic() - begin)
        incidents = agent.json("/api/v1/incidents?state=all")[1]["incidents"]
        got = taken(agent)
        page = agent.page()
        assert not sum(v for _, v in page.all("stoker_kernel_log_lost_total"))
    finally:
        agent.stop()
        log.close()
        node.stop()
    return {"took": max(took, wrote), "used": used, "peer": peer(lines, tmp), "lines": got,
            "rss": agent_growth(rss, page), "incidents": incidents}


def agent_growth(before, page):
    return (page.one("process_resident_memory_bytes") - before) / 2**20


def ecc_storm(stoker, tmp):
    """Corrected errors by the hundred on one GPU, the driver's own line and its event with them."""
    begins = f"time: {ECC_S * ECC_SPEED}s, gpu: 2"
    (tmp / "busy.yaml").write_text(
        "about: a GPU whose memory is corrected all the time\ngpus: {board: a100-sxm4-80gb, count: 8}\n"
        "work:\n  - {name: pretrain, kind: train, gpus: all, process: python, user: 1001}\nat:\n"
        f"  - {{{begins}, do: ecc, corrected: 200, corrected_rate: 18000, location: dram}}\n"
        f"  - {{{begins}, do: xid, code: 92, every: 200ms, times: {ECC_S * ECC_SPEED * 5}}}\n"
        f"  - {{{begins}, do: event, type: sbe-storm}}\ntruth: []\n")
    node = rig.Node(stoker, tmp, str(tmp / "busy.yaml"), speed=ECC_SPEED, strict=False)
    agent = rig.Agent(stoker, tmp, node.env, options=["--clock-speed", ECC_SPEED, "--journal", tmp / "journal.db"])
    try:
        pid = agent.process.pid
        rss = agent.rss()
        begin, before = time.monotonic(), cpu(pid)
        rig.until(lambda: virtual(node) >= ECC_S * ECC_SPEED, "the storm begins", patience=2 * ECC_S)
        calm = (cpu(pid) - before) / (time.monotonic() - begin)
        begin, before = time.monotonic(), cpu(pid)
        time.sleep(ECC_S)
        took = time.monotonic() - begin
        used = cpu(pid) - before
        incidents = agent.json("/api/v1/incidents?state=all")[1]["incidents"]
        got = taken(agent)
        page = agent.page()
    finally:
        agent.stop()
        node.stop()
    return {"took": took, "used": used, "calm": calm, "lines": got, "incidents": incidents,
            "rss": agent_growth(rss, page)}


def virtual(node):
    return json.loads(node.sim("clock", "--json"))["virtual_ns"] / 1e9


def opened(incidents):
    if not incidents:
        return "none"
    return "; ".join(f"{i['class']} ({i['route']}, {i['count']} times, {i['echo_count']} echoes)" for i in incidents)


STORMS = (
    ("from the device, over a minute", Device, SPREAD_S, "", "cat"),
    ("from the device, as fast as they are taken", Device, 0, "", "cat"),
    ("the same, the GPU fell off the bus before", Device, 0,
     "NVRM: Xid (PCI:{}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", "cat"),
    ("from a file, as fast as they are written", File, 0, "", "wc -l"),
)


def peer_of(name):
    def measure(lines, tmp):
        if name == "cat":
            return cat_cpu(lines, tmp)
        return wc_cpu(tmp / "kmsg")

    return measure


def storms(stoker):
    rows = []
    for what, source, seconds, first, peer in STORMS:
        with tempfile.TemporaryDirectory() as tmp:
            it = lines_storm(stoker, Path(tmp), source, seconds, first, peer_of(peer))
        print(f"storm {what}: {it['used']:.2f} s", file=sys.stderr)
        rows.append((what, f"{it['took']:.1f} s", f"{it['used']:.2f} s, {1e6 * it['used'] / LINES:.1f} µs a line",
                     f"{it['used'] / it['peer']:.2g} x {peer}" if it["peer"] else "",
                     f"{100 * it['used'] / max(it['took'], SPREAD_S):.2f} %", f"{it['lines']:.0f}", f"{it['rss']:.1f} MiB",
                     opened(it["incidents"])))
    text = (f"{LINES:,} lines `Xid 45` of 8 GPUs, the journal on disk. What they cost is the processor time of the agent with all "
            f"its threads, less what\nit uses in calm; per cent of a core over the minute in which they came (goal: less than 5 %; goal "
            f"for incidents: at most one).\n`counted` is `stoker_events_total`, `memory` by how much the agent grew. The device is a pipe "
            f"that gives a record a read, as\n/dev/kmsg does; `cat` reads the same from another one.\n\n")
    text += table(("lines", "took", "processor time", "beside", "of a core", "counted", "memory", "opened"), rows)
    with tempfile.TemporaryDirectory() as tmp:
        it = ecc_storm(stoker, Path(tmp))
    text += (f"\n\nA storm of corrected memory errors, {ECC_S * ECC_SPEED // 60} minutes of it at {ECC_SPEED} times the speed: 18,000 errors "
             f"a second on one GPU of eight, with {it['lines']:.0f} lines `Xid 92`:\n{100 * it['used'] / it['took']:.2f} % of a core at this "
             f"speed ({100 * it['calm']:.2f} % in calm), {100 * it['used'] / it['took'] / ECC_SPEED:.2f} % of the node's time; opened: "
             f"{opened(it['incidents'])}.\n")
    return text


# -- why --------------------------------------------------------------------------------------------------------------

def causes(build):
    """The confusion matrix of engine/why: rows are what was planted, columns what was found, by number."""
    done = subprocess.run([build / "test/unit/why/test_why", "matrix"], capture_output=True, text=True, timeout=120, check=False)
    print(done.stderr, end="", file=sys.stderr)
    wrong = f"\n\nNot as planted:\n\n{done.stderr}" if done.stderr else ""
    return ("Labelled scenarios, near misses among them, through `engine/activity` and `engine/why`. Rows are what was planted, "
            f"columns what was found, by the\nnumber of the cause; goal: at most two causes confused, none with "
            f"confidence.\n\n```\n{done.stdout}```{wrong}\n")


# -- trace ------------------------------------------------------------------------------------------------------------

def check_planted(stoker, name, job):
    with tempfile.TemporaryDirectory() as folder:
        result = planted.check_job(stoker, job, Path(folder))
    print(f"{name:<28} {result['first']:<22} gain {result['said']:5.1f} %, simulated {result['true']:5.1f} %  "
          f"{'' if result['right'] else 'not as planted: ' + ', '.join(result['ids'] or ['none'])}", file=sys.stderr)
    return {**result, "name": name, "job": job}


def trace(stoker, names):
    """The verdicts of `stoker trace` on all planted jobs: rows are the causes, columns the first verdicts."""
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        chosen = [(name, job) for name, job in planted.jobs().items() if not names or name in names]
        results = list(pool.map(lambda one: check_planted(stoker, *one), chosen))
    guilty, clean = [r for r in results if r["causes"]], [r for r in results if not r["causes"]]
    pairs = [("+".join(c.name for c in r["job"].causes) if r["causes"] else NOTHING, r["first"]) for r in results]
    grid = oblong(Counter((a, NOTHING if b == "none" else b) for a, b in pairs))
    near = sum(abs(r["said"] - r["true"]) <= 0.2 * r["true"] for r in guilty)
    share = lambda part, whole: f"{part} of {whole} ({100 * part / max(1, whole):.0f} %)"
    text = (f"{len(results)} simulated jobs. Rows are the causes that were planted, columns the first verdict, by its number; "
            f"`-` is none.\n\n```\n{grid}\n```\n\n")
    text += table(("what", "is", "goal"), [
        ("first verdict is of a planted cause", share(sum(r["right"] for r in guilty), len(guilty)), "all"),
        ("planted causes found", share(sum(r["found"] for r in guilty), sum(r["causes"] for r in guilty)), "all"),
        ("false verdicts on jobs without a cause", f"{sum(len(r['false']) for r in clean)} on {len(clean)} jobs", "0"),
        ("gain within 20 % of the simulated one", share(near, len(guilty)), "all"),
    ])
    wrong = [f"- {r['name']}: {', '.join(r['ids']) or 'none'}" for r in results if not r["right"]]
    return text + ("\n\nNot as planted:\n\n" + "\n".join(wrong) if wrong else "") + "\n"


def table(head, rows):
    lines = [head, ("---",) * len(head), *rows]
    return bench.columns(lines)


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--only", choices=("scenarios", "restarts", "storms", "why", "trace"))
    parser.add_argument("--seed", type=int, help="of the restarts' random moments; default: another one each time")
    parser.add_argument("--scenario", action="append", help="play this one only")
    args = parser.parse_args()
    stoker = args.build / "stoker"
    begun = time.monotonic()
    parts = []
    if args.only in (None, "scenarios"):
        parts.append(f"### Scenarios\n\n{verdicts(play_all(stoker, args.scenario))}")
    if args.only in (None, "restarts"):
        seed = random.randrange(1_000_000) if args.seed is None else args.seed
        parts.append(f"### Restarts and repaired faults\n\n{restarts(args.build, args.scenario, seed)}")
    if args.only in (None, "why") and not args.scenario:
        parts.append(f"### Why\n\n{causes(args.build)}")
    if args.only == "trace" or not (args.only or args.scenario):
        parts.append(f"### Profiles\n\n{trace(stoker, args.scenario)}")
    if args.only in (None, "storms") and not args.scenario:
        parts.append(f"### Storms\n\n{storms(stoker)}")
    bench.tell(args, f"{(time.monotonic() - begun) / 60:.0f} minutes", "\n" + "\n".join(parts), BEGIN, END)


if __name__ == "__main__":
    sys.exit(main())
