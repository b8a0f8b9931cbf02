# SPDX-License-Identifier: Apache-2.0
"""The main numbers a second time, plainly and slowly: own() under our definitions. Nothing here is
shared with the program; docs/appendix/trace.md defines what both count."""
import bisect
import collections
import gzip
import json
import math
import re
from decimal import Decimal

GPU_CATEGORIES = {"kernel": "kernel", "Kernel": "kernel", "concurrent_kernel": "kernel", "mtia_ccp_events": "kernel",
                  "gpu_memcpy": "copy", "Memcpy": "copy", "gpu_memset": "set", "Memset": "set"}
CALL_CATEGORIES = {"cuda_runtime", "cuda_driver", "hip_runtime", "Runtime", "xpu_runtime", "xpu_driver", "mtia_runtime",
                   "privateuse1_runtime", "privateuse1_driver"}
OP_CATEGORIES = {"cpu_op", "Operator"}
MARK_CATEGORIES = {"user_annotation"}
LONGEST_NS = 7 * 86400 * 10**9

NO_COLLECTIVE = re.compile(r"block_?all_?reduce|warp_?all_?reduce", re.I)
COLLECTIVE = re.compile(r"nccl|rccl|hccl|oneccl|mscclpp|nvshmem|rocshmem|multimem_|symm_mem|cross_device_reduce|all_?reduce|"
                        r"all_?gather|reduce_?scatter|all_to_all|alltoall|one_shot_|two_shot_|deep_?ep", re.I)
COPY_KERNEL = re.compile(r"__amd_rocclr_(copy|fill)|copyHostTo|copyDeviceTo|fillBuffer|(hip)?Mem(cpy|set)", re.I)


def load(path):
    """The event list (times as Decimal, so nothing is rounded), and what stands around it."""
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "rb") as file:
        whole = json.loads(file.read(), parse_float=Decimal)
    return (whole["traceEvents"], whole) if isinstance(whole, dict) else (whole, {})


def ns(value):
    return int((Decimal(value) * 1000).to_integral_value("ROUND_HALF_UP"))


def merge(intervals):
    """Disjoint intervals that cover the same; those that touch are one."""
    out = []
    for start, end in sorted(intervals):
        if out and start <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([start, end])
    return out


def length(merged):
    return sum(end - start for start, end in merged)


def common(a, b):
    return sum(max(0, min(e1, e2) - max(s1, s2)) for s1, e1 in a for s2, e2 in near(b, s1, e1))


def near(merged, start, end):
    """Of disjoint sorted intervals those that may meet [start, end)."""
    low = bisect.bisect_left(merged, [start, start]) - 1
    high = bisect.bisect_right(merged, [end, end])
    return merged[max(0, low):high + 1]


def cover(*lists):
    return merge([tuple(interval) for one in lists for interval in one])


# ---- our own definitions ----

Row = collections.namedtuple("Row", "kind name start end device stream link args")


def class_of(row):
    if row.kind != "kernel":
        return "copy"
    if COLLECTIVE.search(row.name) and not NO_COLLECTIVE.search(row.name):
        return "communication"
    return "copy" if COPY_KERNEL.match(row.name) else "compute"


def number(value, otherwise):
    try:
        return int(value, 0) if isinstance(value, str) else int(value)
    except (TypeError, ValueError):
        return otherwise


DERIVED = {"XLA Ops", "XLA Modules", "XLA TraceMe", "Async XLA Ops", "Framework Ops", "Framework Name Scope", "Steps",
           "TensorFlow Ops", "TensorFlow Name Scope", "Source code", "Source Code", "Launch Stats"}
DIRECTIONS = {"D2H": "DtoH", "H2D": "HtoD", "D2D": "DtoD", "P2P": "PtoP", "H2H": "HtoH"}


def with_categories(events):
    """XLA's traces in the words of the others: what processes and threads are called says what an event without a
    category is."""
    names = {(event["name"], event.get("pid"), event.get("tid") if event["name"] == "thread_name" else None):
             event["args"]["name"] for event in events
             if event.get("ph") == "M" and event.get("name") in ("process_name", "thread_name")}
    devices = {pid: int(found.group(1)) for (what, pid, _), text in names.items()
               if what == "process_name" and (found := re.fullmatch(r"(?:.* )?/device:GPU:(\d+)(?: .*)?", text))}
    for event in events:
        args = event.get("args") or {}
        if event.get("ph") != "X" or "cat" in event:
            yield event
        elif event.get("pid") in devices:
            line = names.get(("thread_name", event["pid"], event["tid"]), "")
            if line == "Steps":
                yield {**event, "cat": "gpu_step", "name": "step " + event["name"]}
            if line in DERIVED:
                continue
            details = args.get("memcpy_details") or args.get("memset_details") or ""
            size = re.search(r"size:(\d+)", details)
            more = {"device": devices[event["pid"]], "stream": event["tid"], "correlation": args.get("correlation_id", 0)}
            if size:
                more["bytes"] = int(size.group(1))
            word = "gpu_memcpy" if event["name"].startswith("Memcpy") else "gpu_memset" if event["name"].startswith("Memset") \
                else "kernel"
            yield {**event, "cat": word, "args": more}
        elif devices and "correlation_id" in args:
            yield {**event, "cat": "cuda_driver", "args": {"correlation": args["correlation_id"]}}
        elif "step_num" in args:
            yield {**event, "cat": "user_annotation", "name": f"{event['name']} {args['step_num']}"}
        else:
            yield event


def read(events):
    """GPU operations, host rows: (kind, name, start, end, pid, tid, link)."""
    gpu, host, seen = [], [], set()
    for event in events:
        category, args = event.get("cat"), event.get("args") or {}
        if event.get("ph") != "X" or "ts" not in event or "dur" not in event:
            continue
        start, duration = ns(event["ts"]), ns(event["dur"])
        link = number(args.get("correlation"), 0)
        if duration > LONGEST_NS:
            continue
        duration = max(0, duration)
        if category in GPU_CATEGORIES:
            if start == 0 and duration == 0:
                continue
            device = number(args.get("device"), number(event.get("pid"), -1))
            stream = number(args.get("stream"), number(event.get("tid"), -1))
            row = Row(GPU_CATEGORIES[category], event.get("name", ""), start, start + duration, device, stream, link, args)
            key = row[:7]
            if link == 0 or key not in seen:
                gpu.append(row)
            seen.add(key)
        elif category in CALL_CATEGORIES | OP_CATEGORIES | MARK_CATEGORIES:
            kind = "call" if category in CALL_CATEGORIES else "op" if category in OP_CATEGORIES else "mark"
            row = (kind, event.get("name", ""), start, start + duration, event.get("pid"), event.get("tid"), link)
            if kind != "call" or link == 0 or row not in seen:
                host.append(row)
            seen.add(row)
    return gpu, host


def devices_of(gpu):
    out = []
    for device in sorted({row.device for row in gpu}):
        rows = sorted((row for row in gpu if row.device == device), key=lambda row: row.start)
        of = {word: merge((row.start, row.end) for row in rows if class_of(row) == word)
              for word in ("compute", "communication", "copy")}
        busy = length(cover(*of.values()))
        reached, gaps = rows[0].start, []
        for row in rows:
            if row.start > reached:
                gaps.append(row.start - reached)
            reached = max(reached, row.end)
        span = reached - rows[0].start
        overlapped = common(of["communication"], of["compute"])
        both = cover(of["compute"], of["communication"])
        out.append({"device": device, "span_ns": span, "busy_ns": busy, "idle_ns": span - busy,
                    "compute_ns": length(of["compute"]), "communication_ns": length(of["communication"]),
                    "copy_ns": length(of["copy"]), "communication_overlapped_ns": overlapped,
                    "exposed_communication_ns": length(of["communication"]) - overlapped,
                    "exposed_copy_ns": length(of["copy"]) - common(of["copy"], both),
                    "gap_count": len(gaps), "max_gap_ns": max(gaps, default=0), "operation_count": len(rows),
                    "stream_count": len({row.stream for row in rows})})
    return out


def kernels_of(gpu):
    sums = {}
    for row in gpu:
        if row.kind == "kernel":
            count, total = sums.get(row.name, (0, 0))
            sums[row.name] = (count + 1, total + row.end - row.start)
    return {name: {"count": count, "total_ns": total} for name, (count, total) in sums.items()}


def copies_of(gpu):
    out = {}
    for row in gpu:
        if row.kind == "kernel":
            continue
        found = re.search(r"(HtoD|DtoH|DtoD|PtoP|HtoH)|Memcpy(D2H|H2D|D2D|P2P|H2H)", row.name)
        kind = "set" if row.kind == "set" else found.group(1) or DIRECTIONS[found.group(2)] if found else "unknown"
        one = out.setdefault(kind, {"count": 0, "bytes": 0, "total_ns": 0})
        one["count"] += 1
        one["bytes"] += max(0, number(row.args.get("bytes"), 0))
        one["total_ns"] += row.end - row.start
    return out


NO_LAUNCH = re.compile(r"synchronize|malloc|free|hostalloc|hostregister|memgetinfo|mempool|eventquery|waitevent", re.I)


def launch_of(gpu, host):
    """The call: of those that share the correlation one that puts work on a stream, the last that began before."""
    calls = collections.defaultdict(list)
    for row in host:
        if row[0] == "call" and row[6]:
            calls[row[6]].append(row)
    waits, unlinked = [], 0
    for row in gpu:
        candidates = calls.get(row.link, []) if row.link else []
        if not candidates:
            unlinked += 1
            continue
        best = max(candidates, key=lambda call: (not NO_LAUNCH.search(call[1]), call[2] <= row.start,
                                                 call[2] if call[2] <= row.start else -call[2], -call[3]))
        waits.append(max(0, row.start - best[3]))
    waits.sort()
    middle = (waits[(len(waits) - 1) // 2] + waits[len(waits) // 2]) // 2 if waits else None
    return {"linked": len(waits), "unlinked": unlinked, "median_ns": middle, "max_ns": waits[-1] if waits else None}


def operators_of(host):
    """Time of operators without the operators inside them, by name."""
    out = {}
    lanes = collections.defaultdict(list)
    for kind, name, start, end, pid, tid, _ in host:
        if kind == "op":
            lanes[(pid, str(tid))].append((start, -end, name))
    for rows in lanes.values():
        open_ops = []
        for start, minus_end, name in sorted(rows):
            end = -minus_end
            while open_ops and open_ops[-1][0] <= start and open_ops[-1][0] < end:
                open_ops.pop()
            one = out.setdefault(name, {"count": 0, "host_self_ns": 0})
            one["count"] += 1
            one["host_self_ns"] += end - start
            if open_ops:
                out[open_ops[-1][1]]["host_self_ns"] -= end - start
            open_ops.append((end, name))
    return out


def steps_of(host):
    rows = sorted({(start, -end, name) for kind, name, start, end, _, _, _ in host if name.startswith("ProfilerStep")})
    out, reached = [], -math.inf
    for start, minus_end, name in rows:
        if -minus_end > reached:
            out.append({"name": name, "duration_ns": -minus_end - start})
            reached = -minus_end
    return out


STEP_LIKE = re.compile(r"(?:.*[^A-Za-z0-9])?(?:step|iteration|iter|train|batch)[ #_:=-]*(\d{1,15})", re.I | re.S)


def family(name):
    found = STEP_LIKE.fullmatch(name)
    return (name[:found.start(1)], int(found.group(1))) if found else (None, None)


def steps_like(rows):
    """Of ranges that are named as steps those that cover most; rows: (start, end, name, lane)."""
    groups = collections.defaultdict(list)
    for start, end, name, lane in rows:
        if family(name)[0] is not None:
            groups[(family(name)[0], lane)].append((start, -end, family(name)[1], name))
    best = []
    for group in groups.values():
        group.sort()
        fine = all(b[2] > a[2] and (b[0] >= -a[1] - 2000) for a, b in zip(group, group[1:]))
        if fine and len(group) > 1 and sum(-e - s for s, e, *_ in group) > sum(-e - s for s, e, *_ in best):
            best = group
    return [{"name": name, "duration_ns": -minus_end - start} for start, minus_end, _, name in best]


def all_steps(events, host):
    found = steps_of(host)
    if not found:
        found = steps_like([(start, end, name, (pid, tid)) for kind, name, start, end, pid, tid, _ in host if kind == "mark"])
    if not found:
        joined = {}
        for event in events:
            if event.get("cat") == "gpu_step":
                start = ns(event["ts"])
                end = start + ns(event["dur"])
                low, high = joined.get(event["name"], (start, end))
                joined[event["name"]] = (min(low, start), max(high, end))
        rows = sorted((start, end, name, None) for name, (start, end) in joined.items())
        found = steps_like(rows) if all(a[1] <= b[0] for a, b in zip(rows, rows[1:])) else []
    return found


def own(path):
    events, _ = load(path)
    events = list(with_categories(events))
    gpu, host = read(events)
    return {"devices": devices_of(gpu), "kernels": kernels_of(gpu), "copies": copies_of(gpu), "steps": all_steps(events, host),
            "launch": launch_of(gpu, host), "operators": operators_of(host)}
