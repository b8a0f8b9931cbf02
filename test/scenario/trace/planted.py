# SPDX-License-Identifier: Apache-2.0
"""Jobs with a known cause of their slowness, simulated and written as their profilers would have seen them; and what `stoker
trace` says of each. A job runs on hosts that launch, operators, streams that are first in first out, and collectives that
begin when the last rank has come. What a cause costs is known: the same job is simulated without it.

    job = jobs()["slow-gpu"]
    result = check_job(stoker, job, folder)"""
import gzip
import json
import statistics
import subprocess
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random

COMPUTE, COMMUNICATION, COPY = 7, 20, 21
US, MS = 1000, 1000_000
GEMM = "sm90_gemm_bf16_s64x128x16_tensorop_align8_kernel"
SMALL = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >(int)"
WIDE = {"grid": [1056, 1, 1], "block": [256, 1, 1], "blocks per SM": 8.0, "warps per SM": 64.0, "est. achieved occupancy %": 50}
BF16, FP32 = ["c10::BFloat16", "c10::BFloat16"], ["float", "float"]


@dataclass(frozen=True)
class Cause:
    name: str
    ranks: tuple = ()  # none: all
    amount: float = 1.0


@dataclass(frozen=True)
class Job:
    shape: str = "train"
    causes: tuple = ()
    ranks: int = 1
    steps: int = 8
    layers: int = 6
    per_host: int = 8
    stages: int = 1  # of a pipeline
    fsdp: bool = False
    rails: bool = False  # gradients over ranks of equal index of the hosts
    ahead: bool = False  # the host does not wait at the end of a step
    bus_gbs: float = 350.0
    seed: int = 1
    truth: tuple = field(default=())  # verdicts, any of which names each cause


class Group:
    def __init__(self, name, ranks, label=""):
        self.name, self.ranks, self.label = name, tuple(ranks), label


class Rank:
    """One rank: the clock of its host, when each stream of its GPU is free, and what its profiler has seen."""

    def __init__(self, job, number):
        self.job, self.number = job, number
        self.random = Random(f"{job.seed} {number}")
        self.t, self.link, self.kernels, self.gap = 10 * MS, 100, 0, 800
        self.free = dict.fromkeys((COMPUTE, COMMUNICATION, COPY), 0)
        self.pace, self.events, self.counts, self.begins = 1.0, [], {}, []

    def planted(self, name):
        """How strong the cause is on this rank, 0: it is not."""
        return sum(c.amount for c in self.job.causes if c.name == name and (not c.ranks or self.number in c.ranks))

    # ---- the host ----
    @contextmanager
    def inside(self, category, name, tid=1, **args):
        start = self.t
        self.t += 100
        yield
        self.t += 100
        self.events.append((category, name, start, self.t - start, tid, args))

    def op(self, name, tid=1, **args):
        return self.inside("cpu_op", name, tid, **args)

    def python(self, name, ns):
        with self.inside("python_function", name):
            self.t += int(ns)

    def call(self, name, ns, tid=1):
        self.link += 1
        self.events.append(("cuda_runtime", name, self.t, int(ns), tid, {"correlation": self.link}))
        self.t += int(ns)
        return self.link

    def wait(self, streams, name="cudaStreamSynchronize"):
        begin = self.t
        self.t = max([self.t + 1500, *(self.free[s] + 1500 for s in streams)])
        self.link += 1
        self.events.append(("cuda_runtime", name, begin, self.t - begin, 1, {"correlation": self.link}))

    def item(self):
        with self.op("aten::item"), self.op("aten::_local_scalar_dense"):
            self.copy("Memcpy DtoH (Device -> Pinned)", 4, 2 * US)
            self.wait([COMPUTE])

    # ---- the GPU ----
    def work(self, category, name, ns, stream, link, **args):
        start = max(self.t + 2000, self.free[stream] + self.gap)
        self.free[stream] = start + int(ns)
        self.events.append((category, name, start, int(ns), stream, {"correlation": link, "device": 0, "stream": stream, **args}))

    def kernel(self, name, ns, tid=1, link=None, **args):
        link = link or self.call("cudaLaunchKernel", 4000, tid)
        self.kernels += 1
        self.work("kernel", name, ns * self.pace * (1 + 0.004 * self.random.gauss(0, 1)), COMPUTE, link, **{**WIDE, **args})

    def copy(self, name, size, ns, stream=COMPUTE, blocking=False):
        begin = self.t
        link = self.call("cudaMemcpyAsync", 5000)
        self.work("gpu_memcpy", name, ns, stream, link, bytes=size)
        if blocking:
            self.t = self.free[stream] + 2000
            category, call, start, _, tid, args = self.events[-2]
            self.events[-2] = (category, call, start, self.t - begin, tid, args)

    def join(self, stream, other):
        """What `stream` does next waits for `other`."""
        self.free[stream] = max(self.free[stream], self.free[other])

    def meet(self, name, group, size, peer=None):
        """A collective, or a transfer to or from the peer, on the stream of communication."""
        wire = {"all_reduce": "allreduce", "all_gather": "_allgather_base", "reduce_scatter": "_reduce_scatter_base"}.get(name, name)
        kernel = {"all_reduce": "AllReduce_Sum_bf16_RING_LL", "all_gather": "AllGather_RING_LL",
                  "reduce_scatter": "ReduceScatter_Sum_bf16_RING_LL"}.get(name, "SendRecv")
        n, elements = len(group.ranks), size // 2
        args = {"Collective name": wire, "dtype": "BFloat16", "Group size": n, "Process Group Name": group.name,
                "In msg nelems": elements // n if name == "all_gather" else elements,
                "Out msg nelems": elements // n if name == "reduce_scatter" else elements,
                "Process Group Description": group.label, "Process Group Ranks": str(list(group.ranks))}
        if peer is not None:
            args["Src Rank" if name == "recv" else "Dst Rank"] = group.ranks.index(peer)
        with self.op("record_param_comms", **args):
            link = self.call("cudaLaunchKernelExC", 5000)
        self.join(COMMUNICATION, COMPUTE)
        begin = max(self.t + 2000, self.free[COMMUNICATION] + self.gap)
        pair = None if peer is None else (self.number, peer) if name == "send" else (peer, self.number)
        members = group.ranks if pair is None else pair
        count = self.counts[(group.name, pair)] = self.counts.get((group.name, pair), 0) + 1
        end = yield (group.name, group.ranks, pair, count), members, begin, self.transfer(name, group, size, members)
        self.free[COMMUNICATION] = end
        self.events.append(("kernel", f"ncclDevKernel_{kernel}(ncclDevKernelArgsStorage<4096ul>)", begin, end - begin,
                            COMMUNICATION, {"correlation": link, "device": 0, "stream": COMMUNICATION, **args,
                                            "grid": [24, 1, 1], "block": [512, 1, 1]}))

    def transfer(self, name, group, size, members):
        n, job = len(members), self.job
        hosts = len({m // job.per_host for m in members})
        gbs = job.bus_gbs if hosts == 1 else job.bus_gbs / 4
        slow = max((c.amount for c in job.causes if c.name == "slow_link" and set(members) <= set(c.ranks)), default=1)
        gbs = 25 if self.planted("low_bus") else gbs
        factor = {"all_reduce": 2 * (n - 1) / n, "all_gather": (n - 1) / n, "reduce_scatter": (n - 1) / n}.get(name, 1)
        return int(15 * US + slow * size * factor / gbs)


# ---- programs ----

STEP = 14 * MS  # of a job of 6 layers, about: what host causes are measured in


def begin_step(rank, step):
    """What the host does before the GPU gets work: here most causes of idle time are planted."""
    fetch, share = rank.planted("loader"), rank.planted("collate")
    loader = "torch/utils/data/dataloader.py(%d): __next__"
    rank.pace = 1 + rank.planted("slow_gpu") + rank.planted("jitter") * abs(rank.random.gauss(0, 1))
    if step == 0:
        rank.t += int(rank.planted("late_start") * STEP)
    if step == 0 and rank.planted("warm_up"):
        rank.python("torch/_dynamo/convert_frame.py(530): _compile", 3 * STEP)
    with rank.inside("user_annotation", "enumerate(DataLoader)#_%sProcessingDataLoaderIter.__next__" % ("Single" if share else "Multi")):
        rank.python(loader % 630, 20 * US + fetch * 0.4 * STEP)
        if share:
            rank.python("torch/utils/data/_utils/collate.py(127): collate", 0.3 * STEP * share)
    if rank.planted("pageable"):
        with rank.op("aten::to"), rank.op("aten::copy_"):
            rank.copy("Memcpy HtoD (Pageable -> Device)", 32 << 20, 4 * MS, blocking=True)
    if rank.planted("compile") and step % 2 == 1:
        rank.python("torch/_dynamo/convert_frame.py(530): _compile", 0.8 * STEP)
    if rank.planted("python"):
        rank.python("train.py(88): update_targets", 0.3 * STEP * rank.planted("python"))
    if rank.planted("gc"):
        rank.python("<built-in function collect>", 0.3 * STEP)
    if rank.planted("logging"):
        with rank.inside("python_function", "torch/utils/tensorboard/writer.py(334): add_scalar"):
            rank.python("logging/__init__.py(1011): handle", 0.25 * STEP)
    if rank.planted("checkpoint") and step == rank.job.steps // 2:
        with rank.inside("python_function", "torch/serialization.py(850): save"):
            rank.python("<built-in method write of _io.BufferedWriter object at 0x7f>", 3 * STEP)
    if rank.planted("allocator"):
        with rank.op("aten::empty"):
            rank.wait([COMPUTE], "cudaFree")
            rank.call("cudaFree", 1.2 * MS)
            rank.call("cudaMalloc", 1.5 * MS)
    if rank.planted("host_slow"):
        rank.t += int(0.3 * STEP)


def end_step(rank):
    if rank.planted("exposed_copy"):
        with rank.op("aten::copy_"):
            rank.copy("Memcpy DtoH (Device -> Pinned)", 100 << 20, 4 * MS)
    if rank.job.ahead:
        rank.t = max(rank.t, rank.free[COMPUTE] - STEP // 2)
    else:
        rank.item()


def matrix(rank, name, ns, tid=1):
    """A matrix product of a layer: on tensor cores, unless something is planted."""
    kernel, dims, types, args = GEMM, [[4096, 4096], [4096, 4096]], BF16, {}
    odd = rank.planted("misaligned")
    if odd:
        kernel, ns = "cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_nn_align1", 3 * ns
        dims = [[4096, 4096], [4096, 4097]] if odd == 1 else [[4096, 4095], [4095, 4096]]
    if rank.planted("odd_rows"):
        dims = [[788, 4096], [4096, 4096]]
    if rank.planted("fp32"):
        kernel, ns, types = "ampere_sgemm_128x64_tn", 14 * ns, FP32  # an H100: 989 against 67 TFLOP/s
    if rank.planted("few_blocks"):
        ns, args = 5.5 * ns, {"grid": [24, 1, 1], "blocks per SM": 0.18, "warps per SM": 1.5, "est. achieved occupancy %": 9}
    if name == "aten::addmm":  # the bias comes first
        dims, types = [dims[1][1:], *dims], [types[0], *types]
    with rank.op(name, tid, **{"Input Dims": dims, "Input type": types}):
        rank.t += 5 * US
        rank.kernel(kernel, ns, tid, **args)


def layer(rank, ns, tid=1):
    """One layer forward or backward: matrix work and something small; `ns` of GPU time."""
    tiny = rank.planted("launch_bound") or rank.planted("short_kernels")
    if tiny:
        many_kernels(rank, ns // 6, tid)
        return
    matrix(rank, "aten::mm" if tid == 1 else "aten::addmm", 0.8 * ns, tid)
    bad = rank.planted("low_occupancy")
    with rank.op("aten::add", tid):
        rank.t += 3 * US
        rank.kernel(SMALL, (1.2 if bad else 0.2) * ns, tid, **({"est. achieved occupancy %": 6, "warps per SM": 4.0} if bad else {}))
    if rank.planted("item") and tid == 1:
        rank.item()
        rank.python("model.py(41): forward", 250 * US)
    if rank.planted("python_between") and tid == 1:
        rank.python("model.py(41): forward", 0.12 * STEP)


def many_kernels(rank, ns, tid):
    """Kernels of 4 us, launched one by one; or of 2 us from a graph."""
    if rank.planted("launch_bound") == 1:
        for _ in range(ns // (4 * US)):
            with rank.op("aten::add_", tid):
                rank.t += 8 * US
                rank.kernel(SMALL, 4 * US, tid)
        return
    fused = rank.planted("launch_bound") or rank.planted("short_kernels") == 2  # what mending leaves
    link, rank.gap = rank.call("cudaGraphLaunch", 10 * US, tid), 800 if fused else 1500
    for _ in range(ns // (40 * US) if fused else ns // (2 * US)):
        rank.kernel(SMALL, 40 * US if fused else 2 * US, tid, link)
    rank.gap = 800


def optimizer(rank):
    with rank.inside("user_annotation", "Optimizer.step#AdamW.step"):
        alone = rank.planted("foreach")  # tensor by tensor
        for _ in range(800 if alone else 4):
            with rank.op("aten::mul_" if alone else "aten::_foreach_addcdiv_"):
                rank.t += 20 * US if alone else 6 * US
                rank.kernel(SMALL, 3 * US if alone else 120 * US)


def groups_of(job, number):
    world, host = Group("0", range(job.ranks), "world"), number // job.per_host
    inner = Group(f"host{host}", range(host * job.per_host, min(job.ranks, (host + 1) * job.per_host)), "inner")
    rail = Group(f"rail{number % job.per_host}", range(number % job.per_host, job.ranks, job.per_host), "rail")
    return world, inner, rail


def train(rank):
    """Data-parallel training: gradients are reduced while the backward pass goes on, or parameters sharded."""
    job = rank.job
    world, inner, rail = groups_of(job, rank.number)
    alone, late = job.ranks == 1, rank.planted("exposed_communication")
    size = (128 if rank.planted("low_bus") else 48 if late else 32) << 20
    for step in range(job.steps):
        rank.begins.append(rank.t)
        with rank.inside("user_annotation", f"ProfilerStep#{step}"):
            begin_step(rank, step)
            for _ in range(job.layers):
                if job.fsdp:
                    yield from rank.meet("all_gather", inner if job.rails else world, (40 if late else 16) << 20)
                    if late == 1:
                        rank.join(COMPUTE, COMMUNICATION)
                layer(rank, 700 * US)
            if job.fsdp:
                rank.join(COMPUTE, COMMUNICATION)
            for _ in range(job.layers):
                layer(rank, 1400 * US, 2)
                if job.fsdp:
                    yield from rank.meet("reduce_scatter", inner if job.rails else world, 16 << 20)
                elif not alone and late != 1:
                    yield from rank.meet("all_reduce", world, size)
                if job.rails:
                    yield from rank.meet("all_reduce", rail, 4 << 20)
            if not alone and not job.fsdp and late == 1:
                for _ in range(job.layers):
                    yield from rank.meet("all_reduce", world, size)
            rank.join(COMPUTE, COMMUNICATION)
            optimizer(rank)
            end_step(rank)


def pipeline(rank):
    """Stages of equal numbers of ranks; all forward, then all backward; gradients are reduced in the stage, and a number by all."""
    job, each = rank.job, rank.job.ranks // rank.job.stages
    stage, lane, batches = rank.number // each, rank.number % each, 4 if rank.planted("few_batches") else 48
    world = Group("0", range(job.ranks), "world")
    peers = Group(f"dp{stage}", range(stage * each, (stage + 1) * each), "data_parallel")
    line = Group(f"pp{lane}", range(lane, job.ranks, each), "pipeline")
    after, before = rank.number + each, rank.number - each
    last = stage == job.stages - 1
    for step in range(job.steps):
        rank.begins.append(rank.t)
        with rank.inside("user_annotation", f"ProfilerStep#{step}"):
            begin_step(rank, step)
            for way, source, target, ns, tid in ((0, before if stage else None, None if last else after, 20 * MS // batches, 1),
                                                 (1, None if last else after, before if stage else None, 40 * MS // batches, 2)):
                for _ in range(batches):
                    if source is not None:
                        yield from rank.meet("recv", line, 2 << 20, source)
                        rank.join(COMPUTE, COMMUNICATION)
                    layer(rank, ns, tid)
                    if target is not None:
                        yield from rank.meet("send", line, 2 << 20, target)
            if each > 1:
                yield from rank.meet("all_reduce", peers, 64 << 20)
            yield from rank.meet("all_reduce", world, 4096)
            rank.join(COMPUTE, COMMUNICATION)
            optimizer(rank)
            end_step(rank)


def decode(rank):
    """Inference of one token at a time: kernels of 20 us, from a graph or launched one by one; tensor-parallel or not. The
    steps of a server ("serve") are named as vLLM names them."""
    job = rank.job
    world = groups_of(job, rank.number)[0]
    for step in range(job.steps):
        rank.begins.append(rank.t)
        name = "execute_context_0(0)_generation_32(32)" if job.shape == "serve" else f"ProfilerStep#{step}"
        if rank.planted("scheduler"):
            rank.python("vllm/v1/core/sched/scheduler.py(180): schedule", 0.1 * STEP)
        with rank.inside("user_annotation", name):
            begin_step(rank, step)
            link = None if rank.planted("eager") else rank.call("cudaGraphLaunch", 15 * US)
            for _ in range(job.layers):
                for _ in range(16):
                    if link:
                        rank.kernel(GEMM, 20 * US, 1, link)
                        continue
                    with rank.op("aten::mm"):
                        rank.t += 25 * US
                        rank.kernel(GEMM, 20 * US)
                if job.ranks > 1:
                    yield from rank.meet("all_reduce", world, 64 << 10)
                    rank.join(COMPUTE, COMMUNICATION)
            end_step(rank)


PROGRAMS = {"train": train, "pipeline": pipeline, "decode": decode, "serve": decode, "xla": train}


def simulate(job):
    """All ranks of the job, each run until its next collective, which ends for all when the last has come."""
    ranks = [Rank(job, number) for number in range(job.ranks)]
    programs = [PROGRAMS[job.shape](rank) for rank in ranks]
    ready, meetings = deque((number, None) for number in range(job.ranks)), {}
    while ready:
        number, end = ready.popleft()
        try:
            key, members, begin, length = programs[number].send(end)
        except StopIteration:
            continue
        come = meetings.setdefault(key, {})
        come[number] = (begin, length)
        if len(come) == len(members):
            end = max(b for b, _ in come.values()) + max(n for _, n in come.values())
            ready.extend((member, end) for member in members)
            del meetings[key]
    assert not meetings, "ranks wait for each other for ever"
    return ranks


def step_ns(ranks):
    """The mean step without the first, over the ranks."""
    return statistics.mean((max(r.t, *r.free.values()) - r.begins[1]) / (len(r.begins) - 1) for r in ranks)


# ---- profiles ----

def torch_profile(rank):
    job, rows = rank.job, []
    for category, name, start, length, tid, args in rank.events:
        gpu = "stream" in args
        rows.append({"ph": "X", "cat": category, "name": name, "pid": 0 if gpu else 100, "tid": tid, "ts": start / 1000,
                     "dur": length / 1000, "args": args})
    return {"schemaVersion": 1, "with_stack": 1, "record_shapes": 1, "host_name": f"node{rank.number // job.per_host}",
            "distributedInfo": {"backend": "nccl", "rank": rank.number, "world_size": job.ranks},
            "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85 << 30, "computeMajor": 9,
                                  "computeMinor": 0, "numSms": 132, "maxThreadsPerMultiprocessor": 2048, "warpSize": 32}],
            "traceEvents": rows}


def xla_profile(rank):
    """The same as XLA's profiler writes it: without categories, streams known by the names of their threads."""
    label = lambda what, pid, tid, name: {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}
    rows = [label("process_name", 701, 0, "/host:CPU"), label("thread_name", 701, 1, "python"),
            label("process_name", 1, 0, "/device:GPU:0"), label("thread_name", 1, COMPUTE, "Stream #7(Compute)")]
    for category, name, start, length, tid, args in rank.events:
        row = {"ph": "X", "name": name, "ts": start / 1000, "dur": length / 1000, "args": {}}
        if "correlation" in args:
            row["args"]["correlation_id"] = str(args["correlation"])
        if "stream" in args:
            details = "regs:32 static_shared:16 dynamic_shared:48 grid:1056,1,1 block:256,1,1 occ_pct:50"
            row["args"]["kernel_details"] = details
            rows.append({**row, "pid": 1, "tid": tid})
        elif name.startswith("ProfilerStep#"):
            rows.append({**row, "name": "train", "pid": 701, "tid": 1, "args": {"step_num": int(name[13:])}})
        else:
            call = "cuLaunchKernel" if category == "cuda_runtime" and name == "cudaLaunchKernel" else name
            rows.append({**row, "name": f"${name}" if category == "python_function" else call, "pid": 701, "tid": 1})
    return {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": rows}


def write_job(job, folder):
    """Writes a profile per rank, and gives the share of the step in percent that mending all causes gives back."""
    ranks = simulate(job)
    for rank in ranks:
        text = json.dumps(xla_profile(rank) if job.shape == "xla" else torch_profile(rank))
        (folder / f"rank{rank.number}.json.gz").write_bytes(gzip.compress(text.encode(), 1, mtime=0))
    return gain(job, step_ns(ranks))


def gain(job, step):
    mended = {"launch_bound": 2, "short_kernels": 2, "exposed_communication": 2}  # these leave the work, done in another way
    left = tuple(replace(c, amount=mended[c.name]) for c in job.causes if c.name in mended)
    return 100 * (1 - step_ns(simulate(replace(job, causes=left))) / step) if job.causes else 0.0


# ---- the jobs ----

IDLE = {"loader": "data-loading", "collate": "data-loading", "launch_bound": "launch-bound", "short_kernels": "short-kernels",
        "item": "synchronisation", "allocator": "allocator", "pageable": "pageable-copy", "compile": "compile", "python": "python",
        "python_between": "python", "gc": "garbage-collection|python", "checkpoint": "checkpoint|python", "logging": "logging|python",
        "eager": "launch-bound", "foreach": "optimizer", "misaligned": "misaligned", "fp32": "mixed-precision",
        "exposed_copy": "exposed-copy", "few_blocks": "low-sm-efficiency", "low_occupancy": "low-occupancy"}
EIGHT = {"ranks": 8}
NODES = {"ranks": 16}
PIPE = {"shape": "pipeline", "ranks": 8, "stages": 4, "layers": 1, "steps": 4}
LATE = {  # name: (cause, who, how much, the job)
    "slow-gpu": ("slow_gpu", (3,), 0.25, EIGHT), "slow-gpu-little": ("slow_gpu", (5,), 0.04, EIGHT),
    "two-slow-gpus": ("slow_gpu", (2, 6), 0.25, EIGHT), "slow-gpu-fsdp": ("slow_gpu", (3,), 0.25, {**EIGHT, "fsdp": True}),
    "slow-node": ("slow_gpu", range(8, 16), 0.15, NODES), "slow-node-of-four": ("slow_gpu", range(8, 16), 0.15, {"ranks": 32, "steps": 5}),
    "slow-loader": ("loader", (5,), 1, EIGHT), "slow-loader-node": ("loader", range(8), 1, NODES),
    "slow-stage": ("slow_gpu", (4, 5), 0.3, PIPE), "slow-pair-of-stages": ("slow_link", (2, 4), 60, PIPE),
    "slow-rail": ("slow_link", (3, 11), 20, {**NODES, "fsdp": True, "rails": True}),
    "slow-gpu-rails": ("slow_gpu", (3,), 0.25, {**NODES, "fsdp": True, "rails": True}),
    "slow-decode": ("slow_gpu", (1,), 0.3, {"shape": "decode", "ranks": 4, "layers": 8}),
    "slow-gpu-512": ("slow_gpu", (300,), 0.3, {"ranks": 512, "layers": 2, "steps": 4, "bus_gbs": 800.0}),
    "slow-host": ("host_slow", (6,), 1, EIGHT),
}
TOGETHER = {  # late at the same time by different causes, one behind the other or at once
    "slow-loader-and-gpu": ((("loader", (5,), 1), ("slow_gpu", (2,), 0.25)), {**EIGHT, "fsdp": True}),
    "slow-loader-and-node": ((("loader", (3,), 1), ("slow_gpu", tuple(range(8, 16)), 0.2)), {"ranks": 24, "steps": 5}),
}
CLEAN = {
    "clean": {}, "clean-ahead": {"ahead": True}, "clean-ddp": EIGHT, "clean-fsdp": {**EIGHT, "fsdp": True},
    "clean-decode": {"shape": "decode", "layers": 24}, "clean-serve": {"shape": "serve", "layers": 24}, "clean-xla": {"shape": "xla"}, "clean-64": {"ranks": 64, "layers": 3, "steps": 5, "bus_gbs": 800.0},
    "jitter": {**EIGHT, "causes": (Cause("jitter", (), 0.03),)}, "jitter-nodes": {**NODES, "causes": (Cause("jitter", (), 0.03),)},
    "clean-pipeline": PIPE, "late-start": {**EIGHT, "causes": (Cause("late_start", (3,), 20),)}, "warm-up": {**EIGHT, "causes": (Cause("warm_up"),)},
    "odd-rows": {"causes": (Cause("odd_rows"),)},
}
PAIRS = (("loader", "item"), ("gc", "compile"), ("pageable", "fp32"), ("python", "misaligned"), ("allocator", "loader"),
         ("exposed_copy", "collate"), ("foreach", "fp32"), ("few_blocks", "logging"), ("launch_bound", "loader"))


def jobs():
    """All jobs by name. `truth` holds per cause the verdicts that name it."""
    made = {name.replace("_", "-"): Job(causes=(Cause(name),), truth=(verdict,), shape="decode" if name == "eager" else "train")
            for name, verdict in IDLE.items()}
    made["misaligned-depth"] = replace(made["misaligned"], causes=(Cause("misaligned", (), 2),))
    for name in ("loader", "python", "item", "logging"):
        made[f"{name}-ddp"] = replace(made[name], ranks=8)
    for name in ("loader", "python"):
        made[f"{name}-xla"] = replace(made[name], shape="xla")
    made["exposed-communication"] = Job(causes=(Cause("exposed_communication"),), truth=("exposed-communication",), **NODES)
    made["exposed-communication-fsdp"] = replace(made["exposed-communication"], fsdp=True)
    made["few-batches"] = Job(causes=(Cause("few_batches"),), truth=("pipeline-bubble",), **PIPE)
    made["scheduler"] = Job(causes=(Cause("scheduler"),), truth=("decode-gap",), shape="serve", layers=24)
    made["low-bus"] = Job(causes=(Cause("low_bus"),), truth=("low-bus-bandwidth",), **EIGHT)
    for name, (cause, who, amount, more) in LATE.items():
        truth = "straggler|data-loading" if cause == "loader" else "straggler"
        made[name] = Job(causes=(Cause(cause, tuple(who), amount),), truth=(truth,), **more)
    for name, (causes, more) in TOGETHER.items():
        made[name] = Job(causes=tuple(Cause(*c) for c in causes), truth=tuple("data-loading" if c[0] == "loader" else "straggler" for c in causes),
                         **more)
    for one, other in PAIRS:
        made[f"{one}+{other}".replace("_", "-")] = Job(causes=(Cause(one), Cause(other)), truth=(IDLE[one], IDLE[other]))
    for one, name in (("loader", "slow-gpu"), ("python", "slow-node"), ("exposed_copy", "slow-loader")):
        late = made[name]
        made[f"{one}+{name}".replace("_", "-")] = replace(late, causes=(*late.causes, Cause(one)), truth=(*late.truth, IDLE[one]))
    for name, more in CLEAN.items():
        made[name] = Job(**more)
    return made


# ---- what is said of them ----

MINOR = {"gpu-well-used", "idle-spread", "lost-records"}


def verdicts_of(stoker, folder):
    done = subprocess.run([stoker, "trace", "--json", folder], capture_output=True, check=False, timeout=300)
    assert done.returncode in (0, 1), done.stderr.decode()
    return json.loads(done.stdout)


def late_ranks(report):
    """The ranks that the report calls late."""
    return {rank for late in (report["straggler"], *report["more_stragglers"]) for rank in late["ranks"]}


def check_job(stoker, job, folder):
    """{first: the first verdict, found: causes named, causes: how many, false: verdicts on a clean job, said and true: gain in
    percent, ...}"""
    true, report = write_job(job, folder), verdicts_of(stoker, folder)
    ids = [v["id"] for v in report["verdicts"] if v["id"] not in MINOR]
    wanted = {cause: set(words.split("|")) for cause, words in zip(job.causes, job.truth)}
    whom = {r for c in wanted if c.name in {cause for cause, *_ in LATE.values()} for r in c.ranks}
    if whom and late_ranks(report) != whom:
        ids = ["wrong-ranks" if i == "straggler" else i for i in ids]
    known = set().union(*wanted.values()) if wanted else set()
    about = lambda verdict, cause: verdict["rank"] is None or not cause.ranks or verdict["rank"] in cause.ranks
    said = sum(max((v["gain_percent"] for v in report["verdicts"] if v["id"] in words and about(v, c)), default=0) for c, words in wanted.items())
    return {"first": ids[0] if ids else "none", "ids": ids, "found": sum(bool(words & set(ids)) for words in wanted.values()),
            "causes": len(wanted), "false": [i for i in ids if not wanted], "right": bool(known & set(ids[:1])) if wanted else not ids,
            "said": said, "true": true if wanted else 0.0, "straggler": report["straggler"], "more": report["more_stragglers"],
            "saved_ns": report["step_ns"] * true / 100}
