# SPDX-License-Identifier: Apache-2.0
"""The first verdict of `stoker trace` on public profiles, against numbers worked out from the raw JSON on other ways.

    verdicts_of_real.py BUILD FOLDER

FOLDER holds the profiles that docs/appendix/trace.md names under "Verdicts of public profiles". Each line: what the verdict rests
on, what stoker says, what the file says. Ends with 1 where they differ by more than 2 %. Not a part of `make test`."""
import gzip
import json
import statistics
import subprocess
import sys
from pathlib import Path

GPU = {"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"}
CALLS = {"cuda_runtime", "cuda_driver", "Runtime"}
COMMUNICATION, COPY = ("nccl",), ("Memcpy", "Memset", "memcpy", "memset", "__amd_rocclr")


class Raw:
    """A profile's complete events in nanoseconds: start, end, name, category, arguments, thread."""

    def __init__(self, path):
        made = json.loads(gzip.open(path).read().decode("utf-8", "replace"), strict=False)
        made = made if isinstance(made, list) else made["traceEvents"]
        self.count = len(made)
        self.events = [(round(e["ts"] * 1000), round((e["ts"] + e.get("dur", 0)) * 1000), e.get("name", ""), e.get("cat", ""),
                        e.get("args") or {}, (e.get("pid"), e.get("tid"))) for e in made if e.get("ph") == "X"]
        self.gpu = sorted((e for e in self.events if e[3] in GPU), key=lambda e: e[0])
        self.calls = [e for e in self.events if e[3] in CALLS]
        self.launch = {e[4]["correlation"]: e for e in self.calls if "correlation" in e[4] and "ynchronize" not in e[2]}
        self.steps = self.find_steps()

    def called(self, op):
        return self.launch.get(op[4].get("correlation"))

    def find_steps(self):
        """Windows: to the next step's start; of the last one to the end of what was launched in it."""
        marks = sorted({e[2]: e for e in self.events if e[2].startswith("ProfilerStep#") and not e[3].startswith("gpu")}.values())
        windows = [[mark[0], after[0]] for mark, after in zip(marks, marks[1:])]
        if marks:
            own = [op[1] for op in self.gpu if self.called(op) and marks[-1][0] <= self.called(op)[0] < marks[-1][1]]
            windows.append([marks[-1][0], max([marks[-1][1], *own])])
        return windows

    def whole(self):
        return min(e[0] for e in self.events), max(e[1] for e in self.events)


def merged(spans):
    out = []
    for start, end in sorted(map(tuple, spans)):
        if out and start <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        elif end > start:
            out.append([start, end])
    return out


def length(spans, windows=None):
    return sum(max(0, min(b, d) - max(a, c)) for a, b in spans for c, d in windows) if windows else sum(b - a for a, b in spans)


def of_class(raw, words):
    return [e[:2] for e in raw.gpu if any(w in e[2] for w in words)]


def idle(raw):
    busy = merged(e[:2] for e in raw.gpu)
    return [[a[1], b[0]] for a, b in zip(busy, busy[1:])]


def late_idle(raw, without=""):
    """Idle time in steps, per step, at whose end the operation runs that had not been launched as it began; leaving out what was
    launched in ranges whose names begin so."""
    starts, ranges = {}, [(e[0], e[1], e[5]) for e in raw.events if without and e[2].startswith(without)]
    for op in raw.gpu:
        starts.setdefault(op[0], op)
    late = [gap for gap in idle(raw) if (call := raw.called(starts[gap[1]])) and call[1] > gap[0]
            and not any(a <= call[0] < b and call[5] == thread for a, b, thread in ranges)]
    first, border = raw.gpu[0], raw.steps[0][0]
    return length([*late, [border, first[0]]], raw.steps) / len(raw.steps)


def matrix_share(raw, part):
    """Time of kernels launched from operators with this in their names, over all compute time."""
    compute = [e for e in raw.gpu if not any(w in e[2] for w in (*COMMUNICATION, *COPY))]
    ops = {}
    for e in raw.events:
        if e[3] in ("cpu_op", "Operator") and part(e[2]):
            ops.setdefault(e[5], []).append(e[:2])
    spans = {thread: merged(found) for thread, found in ops.items()}
    inside = lambda call: call and any(a <= call[0] < b for a, b in spans.get(call[5], ()))
    return sum(e[1] - e[0] for e in compute if inside(raw.called(e))) / length(merged(e[:2] for e in compute))


# ---- what each first verdict rests on: (what, as stoker says it, as the file says it) ----

def mean_step(raw):
    return statistics.mean(end - start for start, end in raw.steps)


def alexnet(raw, report, first):
    start, end = raw.whole()
    yield "whole time", report["measured_step_ns"], end - start
    beginnings = [e for e in raw.calls if e[2] in ("cudaDeviceGetStreamPriorityRange", "cudaFree", "cudaStreamCreateWithFlags",
                                                   "cudaMalloc") and e[1] - e[0] >= 10_000_000]
    gaps = [[start, raw.gpu[0][0]], *idle(raw)]
    gaps = [[a, b] for a, b in gaps if 2 * length([e[:2] for e in beginnings if e[2] != "cudaMalloc"], [[a, b]]) >= b - a]
    kernels = {op[4].get("correlation"): op[2] for op in raw.gpu}
    launches = {}
    for e in sorted(e for e in raw.calls if "Launch" in e[2]):
        launches.setdefault(kernels.get(e[4].get("correlation")), e[:2])
    loading = [e for e in launches.values() if e[1] - e[0] >= 1_000_000]
    yield "idle in first calls, less first launches", first["cost_ns"], length(gaps) - length(loading, gaps)


def without_gpu(raw, report, first):
    yield "events", report["ranks"][0]["events"], raw.count
    yield "operations of a GPU", len(report["ranks"][0]["devices"]), len(raw.gpu)


def host_bound(raw, report, first):
    yield "mean step", report["measured_step_ns"], mean_step(raw)
    others = sum(cause["total_ns"] for step in report["ranks"][0]["steps"] for cause in step["devices"][0]["idle_by_cause"]
                 if cause["cause"] in ("python", "synchronisation", "copy", "data_loading")) / len(raw.steps)
    apart = "Optimizer.step" if any(v["id"] == "optimizer" for v in report["verdicts"]) else ""
    yield "idle behind a late launch, all causes", first["cost_ns"] + others, late_idle(raw, apart)


def first_launch(raw, report, first):
    calls = sorted((e for e in raw.calls if "Launch" in e[2]), key=lambda e: e[1] - e[0])
    longest = calls[-1]
    kernel = next(op for op in raw.gpu if raw.called(op) == longest)
    yield "launches of that kernel before", 0, sum(op[2] == kernel[2] and raw.called(op)[0] < longest[0] for op in raw.gpu)
    yield "launch as long as 100 medians", 1, longest[1] - longest[0] > 100 * statistics.median(e[1] - e[0] for e in calls)
    yield "idle that ends with the kernel, per step", first["cost_ns"], next(
        b - a for a, b in idle(raw) if b == kernel[0]) / len(raw.steps)


def exposed(raw, report, first):
    compute = merged(e[:2] for e in raw.gpu if not any(w in e[2] for w in (*COMMUNICATION, *COPY)))
    both = merged([*compute, *of_class(raw, COMMUNICATION)])
    yield "mean step", report["measured_step_ns"], mean_step(raw)
    yield "communication alone", first["cost_ns"], (length(both, raw.steps) - length(compute, raw.steps)) / len(raw.steps)


def float_matrix(raw, report, first):
    compute = merged(e[:2] for e in raw.gpu if not any(w in e[2] for w in COPY))
    share = matrix_share(raw, lambda name: name.startswith(("aten::cudnn_convolution", "aten::addmm", "aten::mm")))
    steps = raw.steps[1:] if report["ranks"][0]["warm_up"] else raw.steps
    yield "mean step", report["measured_step_ns"], statistics.mean(b - a for a, b in steps)
    yield "matrix work in float", first["cost_ns"], share * length(compute, steps) / len(steps)
    yield "gain of a V100, eighths", 8 * first["gain_percent"] / first["percent_of_step"], 7


def well_used(raw, report, first):
    busy, start, end = merged(e[:2] for e in raw.gpu), raw.gpu[0][0], max(e[1] for e in raw.gpu)
    device = report["ranks"][0]["devices"][0]
    yield "busy", device["busy_ns"], length(busy)
    yield "from the first to the last operation", device["span_ns"], end - start


PROFILES = {
    "alexnet-v100": ("initialisation", alexnet), "cpu-only": ("no-gpu-work", without_gpu),
    "cupti-counters": ("no-gpu-work", without_gpu), "fsdp-nccl-rank": ("launch-bound", host_bound),
    "mi250-minitoy": ("module-loading", first_launch), "mi300-resnet-checkpointing": ("exposed-communication", exposed),
    "resnet50-workers-0": ("mixed-precision", float_matrix), "v100-two-rank-job": ("launch-bound", host_bound),
    "vllm-decode-graph": ("gpu-well-used", well_used),
}


def main():
    build, folder = Path(sys.argv[1]), Path(sys.argv[2])
    wrong = 0
    for name, (wanted, checks) in PROFILES.items():
        path = folder / f"{name}.json.gz"
        done = subprocess.run([build / "stoker", "trace", "--json", path], capture_output=True, check=False)
        report = json.loads(done.stdout)
        first = report["verdicts"][0]
        print(f"{name}: {first['id']}, {first['percent_of_step']:.1f} %{'' if first['id'] == wanted else ', not ' + wanted}")
        wrong += first["id"] != wanted
        for what, said, found in checks(Raw(path), report, first):
            same = abs(said - found) <= 0.02 * max(abs(said), abs(found))
            wrong += not same
            print(f"    {what:<42} {said:>16,.0f} {found:>16,.0f}{'' if same else '  differs'}")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
