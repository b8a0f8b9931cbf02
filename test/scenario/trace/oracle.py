# SPDX-License-Identifier: Apache-2.0
"""The main numbers a second time, plainly and slowly: own() under our definitions, hta() under HTA's. Nothing here is
shared with the program; docs/trace.md defines what both count."""
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


# ---- HTA's definitions, in the words of its tables ----

QUEUE_CALLS = {"cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx", "cudaMemcpyAsync",
               "cudaMemsetAsync", "runFunction - job_prep_and_submit_for_execution", "hipLaunchKernel",
               "hipExtModuleLaunchKernel", "hipMemsetAsync", "hipMemcpyAsync", "hipMemcpyWithStream"}
STATS_CALLS = {"cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync",
               "runFunction - job_prep_and_submit_for_execution"}
IDLE_CATEGORIES = {"kernel", "Kernel", "gpu_memset", "Memset", "gpu_memcpy", "Memcpy", "mtia_ccp_events"}
WAITS = {"Event Sync", "Context Sync"}

HTA_COMM = re.compile(r"(^nccl.*)|(^hip)|(^hccl)|(.*ncclKernel.*)")
HTA_MEMORY = re.compile(r"(^(hip)?Memcpy)|(^(hip)?Memset)|(^dma)")
HTA_NOT_COMP = re.compile(r"(^nccl)|(.*Memcpy)|(.*Memset)|(.*dma)|(^.*Sync)|(^Stream Wait Event)|(cuda.*LaunchKernel)|"
                          r"(^runFunction)|(^hip)|(^job_exe)|(^packet)|(^pe_exe)|(^cpum_exe_subgraph)|(^hccl)|"
                          r"(^collective_subgraph_execution)")


def hta_type(name):
    if HTA_COMM.match(name):
        return "COMMUNICATION"
    if HTA_MEMORY.match(name):
        return "MEMORY"
    return "OTHER" if HTA_NOT_COMP.match(name) else "COMPUTATION"


class HtaRow:
    def __init__(self, index, event):
        args = event.get("args") if isinstance(event.get("args"), dict) else {}
        self.index, self.category, self.name = index, event["cat"], event.get("name", "")
        self.ts, self.dur = ns(event["ts"]), ns(event["dur"])
        self.correlation = int(args.get("correlation", -1))
        try:
            self.stream = int(float(args.get("stream", -1)))
        except ValueError:
            self.stream = -1
        self.bandwidth = float(args.get("memory bandwidth (GB/s)", 0))
        self.partner = None
        self.times = 0

    @property
    def end(self):
        return self.ts + self.dur


def hta_rows(path):
    events, _ = load(path)
    return [HtaRow(index, event) for index, event in enumerate(events)
            if event.get("dur") is not None and event.get("cat") is not None and event["cat"] != "Trace"
            and event.get("ts") is not None]


def quantile(values, at):
    place = (len(values) - 1) * at
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def describe(values):
    values = sorted(float(value) for value in values)
    if not values:
        return {"count": 0, "mean": None, "std": None, "min": None, "p25": None, "p50": None, "p75": None, "max": None}
    mean = math.fsum(values) / len(values)
    std = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1)) if len(values) > 1 else None
    return {"count": len(values), "mean": mean, "std": std, "min": values[0], "p25": quantile(values, 0.25),
            "p50": quantile(values, 0.5), "p75": quantile(values, 0.75), "max": values[-1]}


def percent(part, whole, decimals=2):
    return None if not whole else round(100 * part / whole, decimals)


class HtaFrame:
    """A rank after the join on correlations and the filter."""

    def __init__(self, rows, filtered, last_step):
        self.rows = rows
        host, gpu = collections.defaultdict(list), collections.defaultdict(list)
        for row in rows:
            if row.correlation != -1 and row.stream == -1:
                host[row.correlation].append(row)
            if row.correlation != -1 and ((row.stream >= 0 and row.correlation >= 0) or row.name in WAITS):
                gpu[row.correlation].append(row)
        for correlation in host.keys() & gpu.keys():
            for row in host[correlation]:
                row.partner = gpu[correlation][-1]
            for row in gpu[correlation]:
                row.partner = host[correlation][-1]
        self.host = [row for row in rows if row.stream == -1]
        if filtered and self.host:
            steps = [row for row in self.host if row.name.startswith("ProfilerStep")]
            if last_step:
                limit = max(row.end for row in steps or self.host)
                self.host = [row for row in self.host if row.ts <= limit]
            else:
                limit = max(row.ts for row in steps) if steps else min(row.ts for row in self.host)
                self.host = [row for row in self.host if row.ts < limit]
            times = collections.Counter(row.correlation for row in self.host)
            self.gpu = [row for row in rows if row.stream >= 0 and row.correlation >= 0
                        for _ in range(times[row.correlation])]
        else:
            self.gpu = [row for row in rows if row.stream != -1]
        self.by_index = {row.index: row for row in self.host + self.gpu}

    def call_start(self, row):
        if row.partner is not None and row.partner.index > 0:
            return row.partner.ts if row.partner.index in self.by_index else None
        place_0 = self.by_index.get(0)
        return place_0.ts if row.correlation >= 0 and place_0 else None

    def merged(self, kind=None):
        return merge((row.ts, row.end) for row in self.gpu if kind is None or hta_type(row.name) == kind)


def hta_temporal(frame):
    merged = frame.merged()
    if not merged:
        return None
    compute = length(frame.merged("COMPUTATION"))
    kernel = merged[-1][1] - merged[0][0]
    idle = kernel - length(merged)
    return {"idle_time_ns": idle, "compute_time_ns": compute, "non_compute_time_ns": kernel - compute - idle,
            "kernel_time_ns": kernel, "idle_time_pctg": percent(idle, kernel), "compute_time_pctg": percent(compute, kernel),
            "non_compute_time_pctg": percent(kernel - compute - idle, kernel)}


def hta_overlap(frame):
    communication = frame.merged("COMMUNICATION")
    return percent(common(communication, frame.merged("COMPUTATION")), length(communication))


def hta_idle(frame, delay_ns):
    out = []
    rows = [row for row in frame.gpu if row.category in IDLE_CATEGORIES]
    for stream in sorted({row.stream for row in rows}):
        found = {"other": []}
        before = None
        for row in sorted((row for row in rows if row.stream == stream), key=lambda row: (row.ts, row.end)):
            if before is not None:
                idle, call = row.ts - before, frame.call_start(row)
                word = "host_wait" if call is not None and call > before else "kernel_wait" if idle < delay_ns else "other"
                found.setdefault(word, []).append(idle)
            before = row.end
        total = sum(sum(values) for values in found.values())
        for word in ("host_wait", "kernel_wait", "other"):
            if word in found:
                out.append({"stream": stream, "idle_category": word, "idle_time_ns": sum(found[word]),
                            "idle_time_ratio": round(sum(found[word]) / total, 2) if total else None,
                            "intervals_ns": describe(found[word])})
    return out


def hta_types(frames):
    """HTA's sweep: each class adds its bit where it starts and takes it away where it ends. (A duration below 0 takes it
    away before it is there, and the sum says then what HTA says.)"""
    sums = collections.Counter()
    order = ["COMPUTATION", "COMMUNICATION", "MEMORY"]
    for frame in frames:
        edges = []
        for bit, kind in enumerate(order):
            for start, end in frame.merged(kind):
                edges += [(start, 1 << bit), (end, -(1 << bit))]
        running = 0
        edges.sort()
        for (time, change), (later, _) in zip(edges, edges[1:]):
            running += change
            if running > 0 and later > time:
                sums[" overlapping ".join(kind for bit, kind in enumerate(order) if running >> bit & 1)] += later - time
    total = sum(sums.values())
    return {kind: {"sum_ns": time, "percentage": round(time / total * 100, 1)} for kind, time in sums.items()}


def hta_kernels(frame, rank, top=10, ratio=0.8):
    out = []
    for kind in ("COMPUTATION", "COMMUNICATION", "MEMORY"):
        durations = collections.defaultdict(list)
        for row in frame.gpu:
            if hta_type(row.name) == kind:
                durations[row.name].append(row.dur)
        if len(durations) > top:
            ranked = sorted(durations.items(), key=lambda item: (-sum(item[1]), item[0].encode()))
            running, total = [], 0
            for _, values in ranked:
                total += sum(values)
                running.append(total)
            limit = quantile(running, ratio)
            durations = collections.defaultdict(list)
            for place, (name, values) in enumerate(ranked):
                durations["others" if running[place] > limit or place >= top else name].append(sum(values))
        for name, values in durations.items():
            numbers = describe(values)
            out.append({"name": name, "kernel_type": kind, "rank": rank, "sum_ns": sum(values), "max_ns": max(values),
                        "min_ns": min(values), "mean_ns": numbers["mean"], "stddev_ns": numbers["std"] or 0.0})
    return out


def hta_queue(frame, full=1024):
    """None where HTA stops at its assertion."""
    calls = [row for row in frame.host + frame.gpu if row.name in QUEUE_CALLS and row.partner and row.partner.index > 0]
    by_link = collections.defaultdict(list)
    for row in frame.gpu:
        by_link[row.correlation].append(row)
    wanted = {row.correlation for row in calls}
    joined = [(call, row) for call in calls for row in by_link.get(call.correlation, [None])]
    operations = [row for row in frame.gpu if row.correlation in wanted]
    if len(joined) != len(operations):
        return None
    points = collections.defaultdict(list)
    for call, row in joined:
        points[row.stream].append((call.ts, -1))  # up comes first of one moment
    for row in operations:
        points[row.stream].append((row.ts, 1))
    starts = [row.ts for row in frame.host + frame.gpu]
    out = []
    for stream in sorted(points):
        level, levels, blocked = 0, [], 0
        ordered = sorted(points[stream])
        for place, (time, down) in enumerate(ordered):
            level -= down
            levels.append(level)
            if level >= full and place + 1 < len(ordered):
                blocked += ordered[place + 1][0] - time
        span = max(starts) - min(starts)
        out.append({"stream": stream, "queue_length": describe(levels), "duration_at_max_queue_length_ns": blocked,
                    "relative_duration_at_max_queue_length": blocked / span if span else None})
    return out


def hta_bandwidth(frame):
    changes = collections.defaultdict(list)
    for row in frame.gpu:
        if hta_type(row.name) != "MEMORY":
            continue
        name = "Memset" if row.name.startswith("Memset") else row.name[:11] if row.name.startswith("Memcpy") else "Memcpy Unknown"
        changes[name].append((row.ts, 0, row.bandwidth))
        changes[name].append((row.end if row.dur else row.ts + 1000, 1, -row.bandwidth))
    out = []
    for name in sorted(changes):
        level, series = 0.0, []
        for time, _, change in sorted(changes[name]):
            level += change
            series.append((time, max(level, 0)))
        out.append({"name": name, "memory_bw_gbps": describe([value for _, value in series if value > 0]), "series": series})
    return out


def hta_launches(frame):
    wanted = {row.correlation for row in frame.host if row.name in STATS_CALLS and row.correlation != -1}
    by_link = collections.defaultdict(list)
    for row in frame.gpu:
        by_link[row.correlation].append(row)
    pairs = [(call, row) for call in frame.host if call.correlation in wanted for row in by_link[call.correlation]]
    delays = [max(0, row.ts - call.end) for call, row in pairs]
    return {"count": len(pairs), "cpu_duration_ns": describe([call.dur for call, _ in pairs]),
            "gpu_duration_ns": describe([row.dur for _, row in pairs]), "launch_delay_ns": describe(delays),
            "short_kernels": sum(row.dur < call.dur <= 50_000 for call, row in pairs),
            "runtime_outliers": sum(call.dur > 50_000 for call, _ in pairs),
            "launch_delay_outliers": sum(delay > 100_000 for delay in delays)}


def hta_stragglers(frames, ranks, candidates=2):
    """(ranks named, counts by rank), or None where HTA stops."""
    selected, valid = [], set()
    for frame in frames:
        frame.steps = [(row.ts, row.end, int(re.match(r"ProfilerStep\s*#\s*(\d+)", row.name).group(1)))
                       for row in frame.rows if row.name.startswith("ProfilerStep")]
        valid |= {int(re.match(r"ProfilerStep\s*#\s*(\d+)", row.name).group(1)) for row in frame.host
                  if row.name.startswith("ProfilerStep")}

    def at(frame, time):
        found = [number for start, end, number in frame.steps if start <= time < end]
        return found[-1] if found else -1

    def iteration(frame, row):
        if row.stream < 0 or (row.stream == 0 and row.category == "cpu_op"):
            return at(frame, row.ts)
        if row.stream == 0 or row.partner is None or row.partner.index == 0 or row.partner.stream >= 0:
            return -1
        return at(frame, row.partner.ts)

    for rank, frame in zip(ranks, frames):
        for row in frame.gpu + frame.host:
            step = iteration(frame, row)
            if step in valid:
                selected.append((rank, row, step))
    if not selected:
        return None
    first = min(row.ts for _, row, _ in selected)
    mean = (max(row.end for _, row, _ in selected) - first) / len({step for _, _, step in selected})
    last = {}
    for rank, row, step in selected:
        if row.stream > 0 and step > 0 and row.dur >= mean * 0.01 and row.name.startswith("ncclKernel"):
            last[(row.stream, row.name, step, rank)] = row
    spreads = collections.defaultdict(list)
    for key in {key[:3] for key in last}:
        numbers = describe([row.dur / mean for other, row in last.items() if other[:3] == key])
        if numbers["std"] is not None:
            spreads[key[:2]].append(numbers["std"])
    if not spreads:
        return None
    best = max(sorted(spreads), key=lambda key: math.fsum(spreads[key]) / len(spreads[key]))
    counts = collections.Counter()
    for step in {key[2] for key in last if key[:2] == best}:
        group = {key[3]: row.ts for key, row in last.items() if key[:3] == best + (step,)}
        if len(group) < candidates:
            return None
        border = sorted(group.values(), reverse=True)[candidates - 1]
        for rank, start in group.items():
            counts[rank] += start >= border
    named = sorted(counts, key=lambda rank: (-counts[rank], rank))[:candidates]
    return named, dict(counts)


def hta(paths, ranks=None, last_step=False, delay_ns=30_000):
    tables = [hta_rows(path) for path in paths]
    ranks = ranks or list(range(len(paths)))
    names = {row.name for rows in tables for row in rows if row.name.startswith("ProfilerStep")}
    frames = [HtaFrame(rows, len(names) > 1, last_step) for rows in tables]
    out = {"ranks": [], "kernel_types": hta_types(frames), "kernels": [], "potential_stragglers": hta_stragglers(frames, ranks)}
    for rank, frame in zip(ranks, frames):
        out["ranks"].append({"rank": rank, "temporal_breakdown": hta_temporal(frame), "comp_comm_overlap_pctg": hta_overlap(frame),
                             "idle_time_breakdown": hta_idle(frame, delay_ns), "queue_length": hta_queue(frame),
                             "memory_bandwidth": hta_bandwidth(frame), "cuda_kernel_launch_stats": hta_launches(frame)})
        out["kernels"] += hta_kernels(frame, rank)
    return out
