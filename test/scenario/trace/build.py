# SPDX-License-Identifier: Apache-2.0
"""A builder of small traces. Times are integer nanoseconds; the writer turns them into the microseconds of the format.

    trace = Trace()
    trace.step(3, 0, 100_000)
    with_launch = trace.launch(at=1_000, kernel="gemm", start=5_000, duration=7_000)
    trace.write(path)
"""
import copy
import gzip
import json
import random
import re

COMPUTE = ["gemm_kernel", "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >(int)",
           "ampere_sgemm_128x64_tn", "softmax_warp_forward", "layer_norm_kernel", "conv2d_grouped", "dropout_kernel",
           "embedding_kernel", "adam_kernel", "cat_kernel", "index_kernel", "triton_poi_fused_0"]
NCCL = ["ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "ncclKernel_AllGather_RING_LL(ncclWorkElem)",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*)", "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevComm*)"]
COPIES = ["Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)", "Memcpy DtoH (Device -> Pinned)",
          "Memcpy DtoD (Device -> Device)"]
OPS = ["aten::linear", "aten::addmm", "aten::mm", "aten::relu", "aten::copy_", "aten::empty", "my::op \"quoted\" \\ back"]


def us(ns, whole=False):
    """A time as it is written; a marker that write() strips of its quotes."""
    if whole:
        return "@%d@" % (ns // 1000)
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return "@%s%d.%03d@" % (sign, ns // 1000, ns % 1000)


class Trace:
    HEAD = {"schemaVersion": 1}

    def __init__(self, rank=None, whole_us=False, legacy=False, base=0):
        self.rank, self.whole_us, self.legacy, self.base = rank, whole_us, legacy, base
        self.events = []
        self.correlation = 100
        self.pid = 4000
        self.events.append({"ph": "M", "name": "process_name", "pid": self.pid, "tid": 0, "args": {"name": "python"}})

    # ---- rows of the host ----
    def host(self, category, name, start, duration, tid=1, **args):
        event = {"ph": "X", "cat": category, "name": name, "pid": self.pid, "tid": tid, "ts": start, "dur": duration}
        if args:
            event["args"] = {key.replace("_", " ") if key == "External_id" else key: value for key, value in args.items()}
        self.events.append(event)
        return event

    def op(self, name, start, duration, tid=1, **args):
        return self.host("Operator" if self.legacy else "cpu_op", name, start, duration, tid, **args)

    def step(self, number, start, duration, tid=1):
        category = "Operator" if self.legacy else "user_annotation"
        return self.host(category, "ProfilerStep#%d" % number, start, duration, tid)

    def call(self, name, start, duration, correlation=None, tid=1, **args):
        if correlation is not None:
            args["correlation"] = correlation
        return self.host("Runtime" if self.legacy else "cuda_runtime", name, start, duration, tid, **args)

    # ---- rows of the GPU ----
    def gpu(self, name, start, duration, stream=7, device=0, correlation=None, **args):
        kind = "memcpy" if name.startswith("Memcpy") else "memset" if name.startswith("Memset") else "kernel"
        category = kind.capitalize() if self.legacy else kind if kind == "kernel" else "gpu_" + kind
        args.update({"device": device, "stream": stream})
        if correlation is not None:
            args["correlation"] = correlation
        event = {"ph": "X", "cat": category, "name": name, "pid": device, "tid": stream, "ts": start, "dur": duration,
                 "args": args}
        self.events.append(event)
        return event

    def launch(self, at, kernel, start, duration, stream=7, device=0, call="cudaLaunchKernel", took=4000, tid=1, **args):
        self.correlation += 1
        self.call(call, at, took, self.correlation, tid)
        self.gpu(kernel, start, duration, stream, device, self.correlation, **args)
        return self.correlation

    def sync(self, name, start, duration, stream, correlation):
        self.events.append({"ph": "X", "cat": "cuda_sync", "name": name, "pid": 0, "tid": stream, "ts": start,
                            "dur": duration, "args": {"stream": stream, "correlation": correlation, "device": 0,
                                                      "cuda_sync_kind": name}})

    # ---- writing ----
    def shuffled(self, seed):
        other = copy.copy(self)
        other.events = self.events[:1] + random.Random(seed).sample(self.events[1:], len(self.events) - 1)
        return other

    def text(self, form="object"):
        rows = []
        for event in self.events:
            row = dict(event)
            for key in ("ts", "dur"):
                if isinstance(row.get(key), int):
                    offset = self.base if key == "ts" else 0
                    row[key] = us(row[key] + offset, self.whole_us)
            rows.append(row)
        whole = rows if form == "array" else {**self.HEAD, "traceEvents": rows}
        if form != "array" and self.rank is not None:
            whole = {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": self.rank, "world_size": 8},
                     "traceEvents": rows}
        indent = 2 if form == "indented" else None
        separators = (",", ":") if form == "compact" else None
        return re.sub(r'"@(-?[0-9.]+)@"', r"\1", json.dumps(whole, indent=indent, separators=separators))

    def write(self, path, form="object"):
        data = self.text(form).encode()
        if str(path).endswith(".gz"):
            data = gzip.compress(data)
        with open(path, "wb") as file:
            file.write(data)
        return path


class Maker:
    """A random trace: operators nested on threads, calls inside them, operations on streams of several devices."""

    def __init__(self, seed, rank=None, **flags):
        self.random = random.Random(seed)
        r = self.random
        self.trace = Trace(rank=rank, whole_us=flags.get("whole_us", r.random() < 0.4), legacy=flags.get("legacy", r.random() < 0.2),
                           base=flags.get("base", r.choice([0, 0, 1_700_000_000_000_000_000])))
        self.unit = 1000 if self.trace.whole_us else 1
        self.devices = r.choice([1, 1, 2, 3])
        self.streams = r.choice([[7], [7, 20], [0], [7, 13, 20]])
        self.free = {}  # (device, stream) -> when it is free
        self.steps = flags.get("steps", r.choice([0, 0, 1, 2, 4]))
        self.used = set()

    def time(self, low, high):
        return self.random.randrange(low // self.unit, high // self.unit + 1) * self.unit

    def unique(self, key, start):
        """No two rows of one lane start together: what order they come in would be nobody's to say."""
        while (key, start) in self.used:
            start += self.unit
        self.used.add((key, start))
        return start

    def operation(self, earliest, correlation):
        r, trace = self.random, self.trace
        device, stream = r.randrange(self.devices), r.choice(self.streams)
        begin = max(earliest, self.free.get((device, stream), 0))
        start = begin + (self.time(0, 3000) if r.random() < 0.6 else self.time(0, 90_000))
        if r.random() < 0.08:  # beside what runs, or before its own launch
            start = max(1000, earliest - self.time(0, 30_000)) // self.unit * self.unit
        start = self.unique((device, stream), start)
        duration = 0 if r.random() < 0.05 else self.time(1000, 60_000)
        kind = r.random()
        if kind < 0.65:
            trace.gpu(r.choice(COMPUTE), start, duration, stream, device, correlation)
        elif kind < 0.8:
            trace.gpu(r.choice(NCCL), start, duration, stream, device, correlation)
        else:
            name = r.choice(COPIES + ["Memset (Device)"])
            amount = r.randrange(1, 1 << 22)
            more = {"bytes": amount}
            if duration and r.random() < 0.9:
                more["memory bandwidth (GB/s)"] = round(amount / duration, 3)
            trace.gpu(name, start, duration, stream, device, correlation, **more)
        self.free[(device, stream)] = max(start + duration, self.free.get((device, stream), 0))

    def launch(self, at, room, tid):
        r, trace = self.random, self.trace
        took = min(room, self.time(1000, 70_000 if r.random() < 0.1 else 8000))
        trace.correlation += 1
        kind, link = r.random(), trace.correlation
        if kind < 0.08:  # a graph: one call, many operations
            trace.call("cudaGraphLaunch", at, took, link, tid)
            for _ in range(r.randrange(2, 6)):
                self.operation(at + took, link)
        elif kind < 0.14:  # the operation was not recorded
            trace.call("cudaLaunchKernel", at, took, link, tid)
        elif kind < 0.2:  # the call was not recorded
            self.operation(at + took, link)
        elif kind < 0.24:  # no correlation at all
            self.operation(at + took, None)
        else:
            names = ["cudaLaunchKernel", "cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cuLaunchKernel", "hipLaunchKernel"]
            trace.call(r.choice(names), at, took, link, tid)
            self.operation(at + took, link)

    def host(self, start, end, depth, tid):
        r, trace = self.random, self.trace
        at = self.unique((tid, "op"), start)
        while at + 2000 < end:
            length = self.time(2000, max(2000, (end - at) // 2))
            if at + length >= end:
                break
            if depth < 4 and r.random() < 0.6:
                trace.op(r.choice(OPS), at, length, tid)
                self.host(at + self.unit, at + length - self.unit, depth + 1, tid)
            elif r.random() < 0.85:
                self.launch(at, length - self.unit, tid)
            else:
                trace.correlation += 1
                trace.call("cudaStreamSynchronize", at, length, trace.correlation, tid)
                if r.random() < 0.5:
                    trace.sync("Stream Sync", self.unique("sync", at + self.unit), length - self.unit, self.streams[0],
                               trace.correlation)
            at = self.unique((tid, "op"), at + length + self.unit + self.time(0, 20_000))

    def make(self):
        trace, r = self.trace, self.random
        at = 10_000
        for number in range(max(1, self.steps)):
            length = self.time(200_000, 600_000)
            if self.steps:
                trace.step(number + 5, self.unique((1, "op"), at), length)
            for tid in range(1, r.choice([2, 3])):
                self.host(at + self.unit, at + length - self.unit, 0, tid)
            at += length + self.time(1000, 50_000)
        for event in r.sample(trace.events, min(3, len(trace.events))):
            if event.get("cat") in ("kernel", "Kernel") and r.random() < 0.3:
                event["dur"] = -1000
        return trace


def random_trace(seed, rank=None, **flags):
    return Maker(seed, rank, **flags).make()


def random_job(seed, ranks, **flags):
    """Ranks with the same steps and collectives, some later than others."""
    r = random.Random(seed)
    steps = r.choice([2, 3, 4])
    traces = [Trace(rank=rank, whole_us=False) for rank in range(ranks)]
    for number in range(1, steps + 1):
        begin = number * 1_000_000
        late = [r.randrange(0, 120_000) for _ in range(ranks)]
        for rank, trace in enumerate(traces):
            trace.step(number, begin, 950_000)
            trace.launch(begin + 1000, r.choice(COMPUTE), begin + 6000, 50_000 + late[rank])
            for index, stream in enumerate([20, 20, 24]):
                name = NCCL[index % 2] if flags.get("old_names", True) else NCCL[2]
                end = begin + 400_000 + 100_000 * index
                start = end - 60_000 - 120_000 + late[rank] + r.randrange(0, 5000)
                trace.launch(begin + 20_000 + 7000 * index, name, start, end - start, stream=stream)
    return traces


class XlaTrace(Trace):
    """A trace as XLA's profiler writes it (JAX, TensorFlow): no categories, and only the names of processes and threads
    say what ran on a GPU, in lines of which only the streams are work."""

    HEAD = {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}}
    HOST, PYTHON, STREAMS, DERIVED = 701, 1, {14: "Compute", 20: "MemcpyH2D", 21: "MemcpyD2H,Memset"}, \
        {100: "XLA Modules", 101: "XLA Ops", 102: "Framework Ops", 103: "Framework Name Scope", 104: "Source code"}
    STEPS = 105

    def __init__(self, devices=1, amd=False):
        super().__init__()
        self.events, self.amd = [], amd
        self.name("process_name", self.HOST, None, "/host:CPU")
        self.name("thread_name", self.HOST, self.PYTHON, "python")
        for device in range(devices):
            self.name("process_name", device + 1, None, f"/device:GPU:{device}")
            for stream, use in self.STREAMS.items():
                self.name("thread_name", device + 1, stream, f"Stream #{stream}({use})")
            for line, word in {**self.DERIVED, self.STEPS: "Steps"}.items():
                self.name("thread_name", device + 1, line, word)

    def name(self, what, pid, tid, text):
        event = {"ph": "M", "pid": pid, "name": what, "args": {"name": text}}
        self.events.append(event if tid is None else {**event, "tid": tid})

    def bare(self, name, start, duration, pid, tid, **args):
        event = {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": start, "dur": duration}
        self.events.append({**event, "args": args} if args else event)
        return event

    def range(self, name, start, duration, tid=1, **args):
        return self.bare(name, start, duration, self.HOST, tid, **args)

    def gpu(self, name, start, duration, stream=14, device=0, correlation=None, repeat=True, **args):
        if name.startswith("Memcpy"):
            size = args.pop("size", 4096)
            kinds = {"H": "pinned", "D": "device", "P": "device"}
            args["memcpy_details"] = (f"kind_src:{kinds[name[6]]} kind_dst:{kinds[name[8]]} size:{size} dest:{device} async:1")
        elif name.startswith("Memset"):
            args["memset_details"] = f"kind:device size:{args.pop('size', 64)} async:1"
        elif "kernel_details" not in args:
            args.update(hlo_op=name, hlo_module="jit_step",
                        kernel_details="regs:32 static_shared:16 dynamic_shared:48 grid:8,2,1 block:256,1,1 occ_pct:50")
        if correlation is not None:
            args["correlation_id"] = str(correlation)
        self.bare(name, start, duration, device + 1, stream, **args)
        if repeat and stream == 14:
            for line in self.DERIVED:
                self.bare(name if line == 101 else f"jit(step)/{line}", start, duration, device + 1, line, hlo_op=name)

    def launch(self, at, kernel, start, duration, stream=14, device=0, call=None, took=4000, tid=1, **args):
        self.correlation += 1
        call = call or ("hipModuleLaunchKernel" if self.amd else "cuLaunchKernel")
        self.range(call, at, took, tid, correlation_id=str(self.correlation))
        self.gpu(kernel, start, duration, stream, device, self.correlation, **args)
        return self.correlation

    def gpu_step(self, number, start, duration, device=0):
        self.bare(str(number), start, duration, device + 1, self.STEPS, group_id=number)

    def shuffled(self, seed):
        other = copy.copy(self)
        other.events = random.Random(seed).sample(self.events, len(self.events))
        return other


XLA_KERNELS = ["loop_add_fusion", "input_reduce_fusion_2", "ampere_bf16_s16816gemm_bf16_128x64", "cublas_gemm",
               "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"]


def random_xla(seed):
    """Launches from a thread or two onto streams of a device or two, in steps or not."""
    r = random.Random(seed)
    devices = r.choice([1, 1, 2])
    trace = XlaTrace(devices, amd=r.random() < 0.3)
    steps, at, free, used = r.choice([0, 2, 4]), 10_000, {}, set()
    for number in range(max(1, steps)):
        begin = at
        for _ in range(r.randrange(5, 25)):
            device, stream = r.randrange(devices), r.choice(list(XlaTrace.STREAMS))
            start = max(at + r.randrange(2_000, 40_000), free.get((device, stream), 0) + r.randrange(5_000))
            while (device, stream, start) in used:
                start += 1
            used.add((device, stream, start))
            length = r.randrange(1_000, 50_000)
            kernel = r.choice(XLA_KERNELS) if stream == 14 else "MemcpyH2D" if stream == 20 else r.choice(["MemcpyD2H", "Memset"])
            if r.random() < 0.9:
                trace.launch(at, kernel, start, length, stream, device, tid=r.choice([1, 2]))
            else:
                trace.gpu(kernel, start, length, stream, device)
            free[(device, stream)] = start + length
            at += r.randrange(4_100, 30_000)
        trace.range("PjitFunction(step)", begin - 500, at - begin, tid=1)
        trace.range("$train.py:12 step", begin - 600, at - begin + 200, tid=3)
        if steps and seed % 2:
            trace.range("train", begin - 700, at - begin, tid=4, step_num=number + 3)
        elif steps:
            for device in range(devices):
                trace.gpu_step(number + 3, begin, at - begin - 1, device)
        at += r.randrange(1_000, 30_000)
    trace.events.append({})  # the writer ends its list so
    return trace
