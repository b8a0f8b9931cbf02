#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the sample profiles beside it: a small model, run by host threads and GPU streams whose times follow from each
other, written as PyTorch's profiler writes them. The causes are put in by hand, and are what `stoker trace` has to name.

usage: make.py FOLDER"""
import gzip
import json
import pathlib
import random
import sys

US, MS = 1_000, 1_000_000
COMPUTE, COMM = 7, 20
BASE = 1_790_000_000_000_000_000
GPU = {"name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_017_755_648, "computeMajor": 9, "computeMinor": 0, "numSms": 132,
       "warpSize": 32, "maxThreadsPerMultiprocessor": 2048}
GEMM = "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNT"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >"
NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>"
ATTENTION = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4> >"
ADAM = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4> >"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


class Process:
    """One rank: a host thread, and the streams of one GPU."""

    def __init__(self, rank, ranks, seed):
        self.rank, self.ranks, self.dice = rank, ranks, random.Random(seed)
        self.events, self.now, self.free, self.correlation = [], 1_000 * US, {COMPUTE: 0, COMM: 0}, 0

    def near(self, ns):
        """About so long."""
        return int(ns * self.dice.uniform(0.97, 1.03))

    def add(self, category, name, start, end, pid, tid, **args):
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": round(start / US, 3),
                            "dur": round((end - start) / US, 3), "args": args})

    def host(self, category, name, start, **args):
        self.add(category, name, start, self.now, 4100 + self.rank, 4100 + self.rank, **args)

    def call(self, name, ns):
        start = self.now
        self.now += self.near(ns)
        self.correlation += 1
        self.host("cuda_runtime", name, start, correlation=self.correlation)

    def launch(self, kernel, ns, stream=COMPUTE, after=0, end=None, **args):
        """A kernel behind what is before it on its stream; `end`: known already."""
        self.call("cudaLaunchKernel", 5 * US)
        start = max(self.free[stream], self.now + 3 * US, after)
        self.free[stream] = end or start + self.near(ns)
        self.add("kernel", kernel, start, self.free[stream], 0, stream, device=0, stream=stream, correlation=self.correlation,
                 grid=[132, 1, 1], block=[256, 1, 1], **{"blocks per SM": 1.0, "est. achieved occupancy %": 38, **args})
        return start

    def op(self, name, kernel, ns, took=12 * US, **args):
        start = self.now
        self.now += took // 2
        self.launch(kernel, ns)
        self.now += took // 4
        self.host("cpu_op", name, start, **{"External id": self.correlation, **args})

    def linear(self, ns, rows=4096):
        self.op("aten::linear", GEMM, ns, **{"Input Dims": [[rows, 4096], [4096, 4096], [4096]],
                                             "Input type": ["c10::BFloat16"] * 3})

    def synchronize(self):
        start = self.now
        self.now = max(self.now, *self.free.values()) + 6 * US
        self.correlation += 1
        self.host("cuda_runtime", "cudaStreamSynchronize", start, correlation=self.correlation)

    def write(self, path):
        head = {"schemaVersion": 1, "deviceProperties": [{"id": 0, **GPU}], "record_shapes": 1, "with_stack": 0}
        if self.ranks > 1:
            head["distributedInfo"] = {"backend": "nccl", "rank": self.rank, "world_size": self.ranks}
        names = [{"ph": "M", "name": "thread_name", "pid": 4100 + self.rank, "tid": 4100 + self.rank, "ts": 0,
                  "args": {"name": f"thread {4100 + self.rank} (python3)"}}]
        text = json.dumps({**head, "traceEvents": names + self.events, "baseTimeNanoseconds": BASE}, separators=(",", ":"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def all_reduce(processes, megabytes, ns):
    """On all ranks: it ends together, when the last one has come."""
    starts = []
    for p in processes:
        start = p.now
        p.now += 8 * US
        starts.append((p, start, max(p.free[COMPUTE], p.free[COMM], p.now + 8 * US)))
    end = max(ready for *_, ready in starts) + ns
    args = {"Collective name": "allreduce", "In msg nelems": megabytes << 19, "Out msg nelems": megabytes << 19,
            "Group size": len(processes), "dtype": "BFloat16", "Process Group Name": "0", "Process Group Description": "default_pg",
            "Process Group Ranks": str(list(range(len(processes))))}
    for p, start, ready in starts:
        p.launch(ALL_REDUCE, 0, COMM, after=ready, end=end, **args)
        p.now += 4 * US
        p.host("cpu_op", "record_param_comms", start, **{"External id": p.correlation, **args})


def training(folder, ranks=4, slow=2, steps=5, layers=6):
    """Rank `slow` computes a fifth slower, as a GPU does that is too hot."""
    processes = [Process(rank, ranks, rank) for rank in range(ranks)]
    for number in range(steps):
        begun = [p.now for p in processes]
        for layer in range(2 * layers):  # forward, then backward with twice the work
            work = (1 + (layer >= layers)) * MS
            for p in processes:
                factor = 1.2 if p.rank == slow else 1
                p.op("aten::layer_norm", NORM, int(0.1 * work * factor))
                p.op("aten::_flash_attention_forward", ATTENTION, int(0.5 * work * factor))
                p.linear(int(0.9 * work * factor))
            if layer >= layers:
                all_reduce(processes, 64, 700 * US)
        for p, start in zip(processes, begun):
            p.free[COMPUTE] = max(p.free[COMPUTE], p.free[COMM])
            p.op("aten::_fused_adamw_", ADAM, int(0.8 * MS))
            p.synchronize()
            p.host("user_annotation", f"ProfilerStep#{number + 10}", start)
    for p in processes:
        p.write(folder / "training" / f"rank{p.rank}.json.gz")


def decode(folder, tokens=24, layers=12):
    """One token after the other, with kernels that are shorter than their launches."""
    p = Process(0, 1, 1)
    for number in range(tokens):
        start = p.now
        for _ in range(layers):
            p.op("aten::layer_norm", NORM, 2 * US)
            p.linear(4 * US, rows=1)
            p.op("aten::add", ADD, 2 * US)
        p.synchronize()
        p.host("user_annotation", f"ProfilerStep#{number}", start)
    p.write(folder / "decode.json.gz")


def loading(folder, steps=8, layers=10):
    """The next batch takes as long as half of the work on it."""
    p = Process(0, 1, 2)
    for number in range(steps):
        start = p.now
        p.now += p.near(14 * MS)
        p.host("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", start)
        p.call("cudaMemcpyAsync", 9 * US)
        p.free[COMPUTE] = p.now + 900 * US
        p.add("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", p.now + 2 * US, p.free[COMPUTE], 0, COMPUTE, device=0, stream=COMPUTE,
              correlation=p.correlation, bytes=38_535_168)
        for _ in range(layers):
            p.linear(2 * MS)
            p.op("aten::relu", ADD, 300 * US)
        p.synchronize()
        p.host("user_annotation", f"ProfilerStep#{number}", start)
    p.write(folder / "loading.json.gz")


def main():
    folder = pathlib.Path(sys.argv[1])
    for make in (training, decode, loading):
        make(folder)


main()
