#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the profiles beside it, which test/unit/trace/test_outputs.c reads: small, and together with rows for every table of a report.
Run it after a change of it or of what makes its parts, then the test with STOKER_UPDATE=1; look at what has changed."""
import gzip
import json
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "scenario/trace"))
import build  # noqa: E402
import planted  # noqa: E402
import test_inference  # noqa: E402
import test_memory_blocks  # noqa: E402
import test_modules  # noqa: E402
from planted import Cause, Job  # noqa: E402

JOBS = {
    "causes": Job(steps=4, layers=2, causes=tuple(map(Cause, (
        "loader", "collate", "pageable", "compile", "python", "gc", "logging", "checkpoint", "allocator", "item", "exposed_copy")))),
    "shapes": Job(steps=3, layers=2, causes=tuple(map(Cause, ("few_blocks", "fp32", "low_occupancy", "python_between")))),
    "misaligned": Job(steps=2, layers=1, causes=(Cause("misaligned"), Cause("foreach"))),
    "rails": Job(ranks=4, per_host=2, steps=3, layers=2, fsdp=True, rails=True, causes=(Cause("slow_link", (1, 3), 20), Cause("loader", (2,)))),
    "ddp": Job(ranks=4, per_host=2, steps=4, layers=2, causes=(Cause("slow_gpu", (2, 3), 0.3), Cause("exposed_communication"))),
    "pipeline": Job(shape="pipeline", ranks=4, stages=2, layers=1, steps=3, causes=(Cause("few_batches"), Cause("slow_gpu", (1,), 0.3))),
    "slow-rail": Job(ranks=4, per_host=2, steps=3, layers=2, fsdp=True, rails=True, causes=(Cause("slow_link", (1, 3), 20),)),
    "slow-stage": Job(shape="pipeline", ranks=4, stages=2, layers=1, steps=3, causes=(Cause("few_batches"), Cause("slow_gpu", (2, 3), 0.3))),
    "slow-pair": Job(shape="pipeline", ranks=4, stages=2, layers=1, steps=3, causes=(Cause("few_batches"), Cause("slow_link", (0, 2), 60))),
    "serve": Job(shape="serve", ranks=2, steps=4, layers=2, causes=(Cause("scheduler"),)),
}


def pack(name, data):
    path = HERE / f"{name}.json.gz"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(data if isinstance(data, bytes) else data.encode(), 9, mtime=0))


def tied(seed):
    """Whole tens of microseconds, and few of them: ends meet starts, and gaps are as long as the thresholds."""
    r, trace = random.Random(seed), build.Trace()
    trace.HEAD = {"schemaVersion": 1, "record_shapes": 1, "with_stack": 1}
    for tid, name in ((1, "thread 1 (main)"), (2, "pt_autograd_0")):
        trace.events.append({"ph": "M", "name": "thread_name", "pid": trace.pid, "tid": tid, "args": {"name": name}})
    for number in range(3):
        begin = 1_000_000 + number * 400_000
        trace.step(number, begin, 380_000 if number < 2 else 400_000)
        trace.host("python_function", f"train.py({number % 2 + 3}): step", begin, 380_000)
        for tid in (1, 2):
            at = begin + 10_000
            while at < begin + 300_000:
                length = r.choice([10_000, 20_000, 40_000])
                trace.op(r.choice(build.OPS), at, length, tid)
                trace.op("aten::mm", at, length // 2, tid)
                kind, start = r.random(), at + r.choice([0, 10_000, 20_000, 40_000])
                size = r.choice([10_000, 10_000, 20_000])
                if kind < 0.5:
                    trace.launch(at, r.choice(build.COMPUTE[:4]), start, size, took=min(length, 10_000), stream=7 + tid, tid=tid,
                                 **r.choice([{"est. achieved occupancy %": 25, "blocks per SM": 0.5, "registers per thread": 32, "shared memory": 1024,
                                            "grid": [8, 2, r.choice([1, 3])], "block": [32, 4, 1]},
                                           {"blocks per SM": 1.0, "grid": [66, 1, 1], "block": [256, 1, 1]}, {}]))
                elif kind < 0.65:
                    trace.launch(at, r.choice(build.NCCL), start, size, took=10_000, stream=20, tid=tid)
                elif kind < 0.85:
                    trace.launch(at, r.choice(build.COPIES), start, size, call="cudaMemcpyAsync", took=10_000, stream=7 + tid, tid=tid,
                                 bytes=r.choice([65536, 65535, 1 << 20]))
                else:
                    trace.call(r.choice(["cudaStreamSynchronize", "cudaMalloc", "cudaFree", "cudaEventQuery"]), at, length, None, tid)
                at += length + r.choice([0, 0, 10_000])
            trace.events.append({"ph": "X", "cat": "gpu_user_annotation", "name": "## forward ##", "pid": 0, "tid": 7 + tid,
                                 "ts": begin + 10_000, "dur": 200_000, "args": {"device": 0, "stream": 7 + tid}})
    return trace


def waits(seed):
    """Streams that wait for each other, as their synchronisations say or not."""
    r, trace = random.Random(seed), build.Trace()
    free, ids = dict.fromkeys((7, 20, 24), 0), 0
    for number in range(4):
        at = 1_000_000 * (number + 1)
        trace.step(number, at, 900_000)
        for _ in range(14):
            stream, other = r.sample(sorted(free), 2)
            tid, wait = r.choice([1, 2, 3]), r.random()
            start = max(free[stream], at + 10_000, free[other] if wait < 0.8 else 0)
            if wait < 0.6:
                ids += 1
                trace.sync("Stream Wait Event", r.choice([at, start - 10_000, start]), 0, stream, 5000 + ids)
                trace.events[-1]["args"].update(wait_on_stream=r.choice([other, other, stream, 99]), wait_on_cuda_event_record_corr_id=ids)
            trace.launch(at, r.choice(["gemm", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "Memcpy HtoD (Pinned -> Device)"]), start,
                         r.choice([10_000, 30_000, 60_000]), stream=stream, took=5000, tid=tid, bytes=64)
            free[stream] = start + trace.events[-1]["dur"]
            at += r.choice([10_000, 10_000, 40_000])
    return trace


DETAILS = [  # of a kernel: its text, beside other members
    ("regs:32 static_shared:16 dynamic_shared:48 grid:8,2,1 block:256,1,1 occ_pct:50", {}),
    ("grid:3 block:64,2", {"regs": "40", "occupancy_pct": "12.5"}), ("xgrid:9,9,9 grid:7,1 grid:5,5,5", {"regs": "4294967295"}),
    ("grid:1,1,1 block:4294967296,4294967295,4294967294 regs:0", {"occupancy_pct": "100"}), ("grid:1,1,1 block:1 static_shared:4294967295 dynamic_shared:1", {"regs": "4294967294"}),
    ("grid:1,1,1 block:1 static_shared:4294967294 dynamic_shared:1 occ_pct:100.5", {"occupancy_pct": "0"}), ("grid:1,1,1 block:1 occ_pct:0 grid:,1,1", {"regs": "-1"}),
    ("occ_pct:100\tgrid:2,,2,block:1,1,1", {"occupancy_pct": "101"}), ("grid 1,1,1", {"regs": "0"}), ("grid:1,1,1 block:1 regs:9", {"regs": "x"})]
SIZES = ["kind_src:pinned kind_dst:device size:0 dest:0 async:1", "kind_src:device kind_dst:pageable size:12", "size:9223372036854775807 kind_src:managed",
         "size:9223372036854775808", "kind_src:nothing,kind_dst:array\tsize:65536", "size:-5", ""]


def xla_forms():
    """Details as releases of XLA's profiler write them, and what is nearly so; work on lanes that are none."""
    trace, at = build.XlaTrace(devices=2), 10_000
    for number, (text, more) in enumerate(DETAILS):
        trace.bare(f"kernel {number}", at, 1000 * (20 - number), 1, 14, **{"kernel_details" if number % 3 else "grid": text, **more})
        at += 30_000
    for number, text in enumerate(SIZES):
        name = ("MemcpyD2H", "MemcpyH2D", "MemcpyD2D", "MemcpyP2P", "a copy", "MemcpyH2H", "Memset")[number]
        trace.bare(name, at, 1000 * (9 - number), 2, 20, memcpy_details=text)
        trace.bare("Memset", at + 15_000, 500, 2, 21, memset_details=text.replace("kind_src", "kind"))
        at += 30_000
    for lane in (*trace.DERIVED, trace.STEPS, 999):
        trace.bare(f"on lane {lane}", at, 1000, 1, lane, kernel_details="grid:1,1,1 block:1,1,1")
    for number in range(3):
        trace.gpu_step(number + 4, 10_000 + number * 250_000, 240_000)
        trace.range("train", 10_000 + number * 250_000, 249_000, tid=3, step_num=number, group_id=1)
    return trace


FLOPS = ["aten::mm", "aten::addmm", "aten::bmm", "aten::_int_mm", "aten::_scaled_mm", "aten::_grouped_mm", "aten::cudnn_convolution",
         "aten::_conv_depthwise2d", "aten::cudnn_convolution_transpose", "aten::convolution_backward",
         "aten::_scaled_dot_product_flash_attention", "aten::_scaled_dot_product_efficient_attention_backward",
         "flash_attn::_flash_attn_forward", "flash_attn::_flash_attn_backward", "aten::relu"]
TYPES = ["c10::Half", "c10::BFloat16", "float", "double", "signed char", "c10::Float8_e4m3fn", "c10::Float4_e2m1fn_x2", "long int",
         "c10::complex<float>"]


def flops(seed):
    """Operators of flops.def with inputs that fit their rule, or nearly, of all types."""
    r, trace = random.Random(seed), build.Trace()
    trace.HEAD = {"schemaVersion": 1, "record_shapes": 1, "deviceProperties": [
        {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85 << 30, "computeMajor": 9, "computeMinor": 0, "numSms": 132}]}
    for number in range(120):
        op, size, at = r.choice(FLOPS), lambda: r.choice([1, 8, 16, 17, 64]), 1000 + number * 100_000
        m, k, n = size(), size(), size()
        dims = {"aten::addmm": [[n], [m, k], [k, n]], "aten::bmm": [[4, m, k], [4, k, n]], "aten::_grouped_mm": [[m, k], [4, k, n], [4]]}.get(
            op, [[2, m, 8, 8], [4, m, 3, 3], [4]] if "conv" in op else [[2, m, 16, 8]] * 4 if "attention" in op or "flash" in op else [[m, k], [k, n]])
        if r.random() < 0.2:
            dims = dims[:-1] + [[9]]
        flag = lambda: r.choice(["True", "False", ""])
        values = ["", "", r.choice(["[1, 1]", "[2, 2]", ""]), "[1, 1]", r.choice(["[1, 1]", "False", "True"]), flag(), r.choice(["-1", "[1, 1]", "False"]),
                  r.choice(["-1", "False", "True"]), "", "", "[True, %s, False]" % r.choice(["True", "False"]), flag(), "-1", "-1", flag()]
        trace.op(op, at, 20_000, **{"External id": number + 1, "Input Dims": dims, "Input type": [r.choice(TYPES)] * len(dims),
                                   "Concrete Inputs": values})
        trace.launch(at + 1000, r.choice(["sgemm", "sm90_gemm_bf16_tensorop", "transpose_kernel", "nchwToNhwcKernel"]), at + 9000, 1000 * size(),
                     device=0)
        if r.random() < 0.3:
            trace.launch(at + 9000, r.choice(["splitKreduce_kernel", "Memcpy DtoD (Device -> Device)"]), at + 80_000, 1000, bytes=64)
    return trace


def drift(rank):
    """One of two ranks; the second one's clock runs faster, and every fifth of its collectives was lost."""
    r, trace, at = random.Random(5), build.Trace(rank=rank), 1_000_000
    for number in range(90):
        at += r.randrange(700, 1600) * 1000
        length, name = r.randrange(100, 400) * 1000, r.choice(build.NCCL[2:])
        if rank and number % 5 == 4:
            continue
        start = at + rank * (3_000_000 + number * 20_000)
        trace.launch(start - 20_000, name, start, length, stream=20)
    return trace.text("compact")


COLLECTIVES = ["allreduce", "_allgather_base", "allgather_into_tensor_coalesced", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced", "broadcast",
               "reduce", "gather", "scatter", "all_to_all", "all_to_allv", "alltoall_base", "send", "recv", "barrier", "wait", "unknown"]
DTYPES = ["BFloat16", "Float", "torch.int64", "c10::Half", "Bool", "Float8_e4m3fn", "ComplexDouble", "Wide", ""]
COPY_NAMES = ["Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)", "Memcpy DtoH (Device -> Pinned)", "Memcpy DtoH (Device -> Pageable)",
              "Memcpy DtoD (Device -> Device)", "Memcpy PtoP (Device -> Device)", "Memcpy HtoH (Pinned -> Pageable)", "Memcpy (Unknown)",
              "Memcpy HtoD (Managed -> Array)", "Memset (Device)", "Memset (Managed)", "Memset (Unknown)"]
CALLS = ["cudaLaunchKernel", "cudaMemcpyAsync", "cudaStreamSynchronize", "cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaEventRecord",
         "cuModuleLoadData", "cudaGetDevice", "hipExtModuleLaunchKernel", "ncclGroupEnd", "cudaGraphLaunch", "cuCtxCreate_v3"]


def calls(seed):
    """Collectives of all names and types, with and without sizes and groups; copies between all memories; calls of all sorts."""
    r, trace, at = random.Random(seed), build.Trace(rank=0), 10_000
    for number in range(60):
        name, nested = r.choice(COLLECTIVES), r.random() < 0.5
        args = {"Collective name": name, "dtype": r.choice(DTYPES), "Group size": r.choice([1, 2, 8, 0]), "In msg nelems": r.choice([0, 100, 4096]),
                "Out msg nelems": r.choice([0, 100, 4096]), "Process Group Name": r.choice(["0", "7", ""]),
                "Process Group Ranks": r.choice(["[0, 1]", "[]", "[0, 1, 2, 3, 4, 5, 6, 7]"]), "Seq": number // 2}
        if name in ("send", "recv"):
            args["Dst Rank" if name == "send" else "Src Rank"] = 1
        for key in r.sample(list(args), 2):
            del args[key]
        if nested:
            trace.op("record_param_comms", at, 20_000, **args)
        elif r.random() < 0.5:
            trace.op(f"c10d::{name}_", at, 20_000)
        elif r.random() < 0.5:
            trace.host("user_annotation", f"nccl:{name}", at, 20_000)
        trace.launch(at + 1000, r.choice(["ncclDevKernel_SendRecv(x)", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "ncclKernel_Generic"]),
                     at + 30_000, r.choice([5000, 10_000]), stream=20, **({} if nested else args))
        copy = r.choice(COPY_NAMES)
        sized = {"bytes": r.choice([0, 64, 65_535, 65_536, 1 << 20])} if r.random() < 0.9 else {}
        trace.launch(at + 22_000, copy, at + 35_000, r.choice([0, 2000, 8000]), call="cudaMemcpyAsync", **sized)
        with_op = r.random() < 0.5
        if with_op:
            trace.op("aten::outer", at + 50_000, 30_000)
            trace.op("aten::inner", at + 51_000, 20_000)
        trace.call(r.choice(CALLS), at + 52_000, r.choice([1000, 5000, 9000]), None)
        if number % 10 == 0:  # no call was recorded, and an id joins kernel and operator
            trace.op("record_param_comms", at + 84_000, 5000, **{"External id": 900 + number, "Collective name": "allgather", "dtype": "Float",
                                                                "In msg nelems": 7, "Out msg nelems": 14, "Group size": 2})
            trace.gpu("ncclDevKernel_AllGather_RING_LL(x)", at + 90_000, 3000, stream=20, **{"External id": 900 + number})
        at += 100_000
    return trace


def engine(wrapped):
    """Steps of several forms, one of each number of sequences, some from graphs; ProfilerSteps around one or two of them, or none."""
    trace, forms = build.Trace(), ["execute_context_0(0)_generation_%d(%d)", "step[DECODE bs=%d]", "execute_context_1(100)_generation_%d(%d)",
                                   "step[EXTEND bs=%d toks=%d]", "step[TARGET_VERIFY bs=%d]"]
    for number in range(16):
        at, form = 1_000_000 * (number + 1), forms[0 if number < 12 else number - 11]
        name = form % ((number + 1,) * form.count("%d"))
        if wrapped and number % 5 != 4:
            trace.step(number, at - 10_000, 900_000 if number % 3 else 1_900_000)
        if wrapped and number % 3 == 0:
            trace.host("user_annotation", "step[DECODE bs=2]", at + 2000, 1000)
        trace.host("user_annotation", name, at, 600_000)
        trace.host("python_function", "scheduler.py(1): schedule" if number % 2 else "server.py(2): poll", at - 200_000, 150_000)
        trace.launch(at + 1000, "Memcpy HtoD (Pinned -> Device)", at + 100_000, 10_000, call="cudaMemcpyAsync", bytes=64)
        trace.launch(at + 5000, "k", at + 200_000, 500_000, call="cudaGraphLaunch" if number % 6 == 5 else "cudaLaunchKernel")
    return trace


def memory(drop, totals=True, more=0):
    """The step of test_memory_blocks.py without the events at some times; `more` MiB that nobody recorded in the backward pass."""
    events = [e for e in test_memory_blocks.training().events if e["ts"] not in drop]
    for event in events:
        if event["name"] == "[memory]" and event["ts"] == 520:
            event["args"]["Total Allocated"] += more << 20
        if not totals:
            event["args"].pop("Total Allocated", None)
    return json.dumps({"schemaVersion": 1, "traceEvents": events})


def damaged():
    """Events without a time, with times that are none, ends without a begin, and the end of the file missing."""
    rows = ['{"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"dur":5,"args":{"device":0,"stream":7}}',
            '{"ph":"X","cat":"kernel","name":"b","pid":0,"tid":7,"ts":5,"dur":-5,"args":{"device":0,"stream":7}}',
            '{"ph":"X","cat":"kernel","name":"c","pid":0,"tid":7,"ts":"x","dur":5,"args":{"device":0,"stream":7}}',
            '{"ph":"E","cat":"cpu_op","name":"d","pid":9,"tid":1,"ts":7}', '{"ph":"B","cat":"cpu_op","name":"e","pid":9,"tid":1,"ts":8}',
            '{"ph":"X","cat":"kernel","name":"f" "pid":0}', '{"ph":"X","cat":"kernel","name":"g\\u12"}', "[1, 2]", "7",
            '{"ph":"X","cat":"kernel","name":"h","pid":0,"tid":7,"ts":9e99,"dur":5,"args":{"device":0,"stream":7}}',
            '{"ph":"X","cat":"kernel","name":"i","pid":0,"tid":7,"ts":12,"dur":5,"args":{"device":0,"stream":7}}']
    return '{"schemaVersion":1,"traceEvents":[' + ",\n".join(rows) + ',{"ph":"X","cat":"ker'


def flows():
    """Launches with their arrows, one of them pending while the window ends, begins apart from ends, instants and counters."""
    events = [{"ph": "M", "name": "process_name", "pid": 9, "tid": 0, "ts": 0, "args": {"name": "python"}}]
    for number, (at, start) in enumerate([(10, 30), (50, 80), (70, 150), (120, 130)], 1):
        link = {"correlation": number if number < 3 else (1 << 32) + 5 + number}
        events += [{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 1, "ts": at, "dur": 5, "args": link},
                   {"ph": "s", "id": number, "pid": 9, "tid": 1, "ts": at, "cat": "ac2g", "name": "ac2g"},
                   {"ph": "X", "cat": "kernel", "name": f"k{number}", "pid": 0, "tid": 7, "ts": start, "dur": 10,
                    "args": {**link, "device": 0, "stream": 7}},
                   {"ph": "f", "id": number, "pid": 0, "tid": 7, "ts": start, "cat": "ac2g", "name": "ac2g", "bp": "e"},
                   {"ph": "s", "id": number, "pid": 9, "tid": 1, "ts": at, "cat": "fwdbwd", "name": "fwdbwd"},
                   {"ph": "i", "s": "t", "name": "[memory]", "cat": "cpu_instant_event", "pid": 9, "tid": 1, "ts": start,
                    "args": {"Device Type": 1, "Device Id": 0, "Bytes": 64, "Addr": number, "Total Allocated": 64 * number}},
                   {"ph": "i", "s": "g", "name": "mark", "pid": 9, "tid": 1, "ts": start + 1},
                   {"ph": "B", "cat": "cpu_op", "name": f"op{number}", "pid": 9, "tid": 1, "ts": at - 5},
                   {"ph": "E", "cat": "cpu_op", "name": f"op{number}", "pid": 9, "tid": 1, "ts": at + 8},
                   {"ph": "C", "name": "count", "pid": 9, "ts": at, "args": {"n": number}}]
    return json.dumps({"schemaVersion": 1, "distributedInfo": {"rank": 3, "world_size": 8}, "traceEvents": events, "traceName": "f"})


def main():
    for name, job in JOBS.items():
        for rank in planted.simulate(job):
            text = json.dumps(planted.torch_profile(rank), separators=(",", ":"))
            pack(name if job.ranks == 1 else f"{name}/rank{rank.number}", text)
    xla = planted.simulate(Job(shape="xla", steps=3, layers=2, causes=(Cause("python"),)))[0]
    pack("xla", json.dumps(planted.xla_profile(xla), separators=(",", ":")))
    pack("amd", build.random_xla(51).text("compact"))
    for name, text in {"flows": flows(), "flops": flops(1).text("compact"), "calls": calls(1).text("compact"), "damaged": damaged(),
                       "engine": engine(False).text("compact"), "engine-steps": engine(True).text("compact"),
                       "xla-forms": xla_forms().text("compact"), "waits": waits(1).text("compact"), "memory-backward": memory((1110, 1140), more=200), "memory-unknown": memory((1015, 1000, 790, 795), False)}.items():
        pack(name, text)
    pack("random3", build.random_trace(3, steps=0, legacy=False).text("compact"))
    for rank in (0, 1):
        pack(f"drift/rank{rank}", drift(rank))
    for seed in (1, 2):
        pack(f"tied{seed}", tied(seed).text("compact"))
    for seed in (12, 31):
        pack(f"random{seed}", build.random_trace(seed, whole_us=True, steps=3).text("compact"))
    for rank, trace in enumerate(build.random_job(7, 3)):
        pack(f"job/rank{rank}", trace.text("compact"))
    pack("memory", json.dumps({"schemaVersion": 1, "traceEvents": test_memory_blocks.training().events}))
    for name, make in {"before": lambda p: test_modules.training(p), "after": lambda p: test_modules.training(p, "nvjet_hsh", 15_000, True),
                       "decode": lambda p: test_inference.serve(p, (4, 4, 3, 4, 2, 4), late=600_000)}.items():
        path = HERE / "made.json"
        pack(name, make(path).read_bytes())
        path.unlink()


main()
