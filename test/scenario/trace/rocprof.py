# SPDX-License-Identifier: Apache-2.0
"""Results of rocprofv3 as its JSON: keys and their order as the profiler writes them, values of a made-up run."""
import json

KINDS = {"NONE": ["NONE"], "HSA_CORE_API": ["hsa_init", "hsa_signal_store_screlease", "hsa_signal_wait_scacquire"],
         "HSA_AMD_EXT_API": ["hsa_amd_memory_async_copy_on_engine"],
         "HIP_RUNTIME_API": ["hipLaunchKernel", "hipMemcpyAsync", "hipStreamSynchronize", "hipMalloc", "hipMemcpy"],
         "HIP_COMPILER_API": ["__hipPushCallConfiguration", "__hipPopCallConfiguration"],
         "MARKER_CORE_API": ["roctxMarkA", "roctxRangePushA", "roctxRangePop"], "MARKER_CONTROL_API": ["roctxProfilerPause"],
         "MEMORY_COPY": ["NONE", "HOST_TO_HOST", "HOST_TO_DEVICE", "DEVICE_TO_HOST", "DEVICE_TO_DEVICE"],
         "KERNEL_DISPATCH": ["NONE", "ENQUEUE", "COMPLETE"],
         "RCCL_API": ["ncclAllReduce", "ncclGroupEnd", "ncclCommInitRank"]}
SECTIONS = ["kernel_dispatch", "hip_api", "hsa_api", "marker_api", "rccl_api", "memory_copy", "memory_allocation",
            "scratch_memory"]
CPU = 1_000_000


class Process:
    """One element of the file's list. `newer`: with HIP's streams."""

    def __init__(self, pid=4000, gpus=1, newer=True, product="AMD Instinct MI300X", host="node7"):
        self.pid, self.newer, self.host, self.correlation = pid, newer, host, 0
        self.agents = [self.agent(0, 1, 0, 0, "AMD EPYC 9654 96-Core Processor")]
        self.agents += [self.agent(1 + i, 2, i, 304, product) for i in range(gpus)]
        self.symbols, self.messages = [], []
        self.records = {section: [] for section in SECTIONS}

    def agent(self, node, kind, index, units, product):
        agent = {"size": 304, "id": {"handle": CPU + node}, "type": kind, "cpu_cores_count": 96 if kind == 1 else 0,
                 "simd_count": units * 4, "max_waves_per_simd": 8, "wave_front_size": 64 if kind == 2 else 0, "cu_count": units,
                 "gfx_target_version": 90402, "capability": {"HotPluggable": 0}, "max_waves_per_cu": 32,
                 "workgroup_max_dim": {"x": 1024, "y": 1024, "z": 1024}, "name": "gfx942", "vendor_name": "AMD",
                 "product_name": product, "model_name": "ip discovery", "node_id": node, "logical_node_id": node,
                 "mem_banks": [{"heap_type": 1, "size_in_bytes": 192 << 30}], "caches": [{"size": 32, "type": {"Data": 1}}],
                 "io_links": [{"type": 2, "flags": {"Override": 1}}]}
        if self.newer:
            agent["gpu_index"] = index if kind == 2 else -1
        return agent

    def gpu(self, device):
        return {"handle": self.agents[1 + device]["id"]["handle"]}

    def record(self, section, kind, operation, start, end, thread, correlation=None, **more):
        if correlation is None:
            self.correlation = correlation = self.correlation + 1
        kinds = list(KINDS)
        record = {"size": 72, "kind": kinds.index(kind), "operation": KINDS[kind].index(operation), "thread_id": thread,
                  "correlation_id": {"internal": correlation, "external": 0}, "start_timestamp": start, "end_timestamp": end}
        if self.newer:
            record["correlation_id"]["ancestor"] = 0
        record.update(more)
        self.records[section].append(record)
        return correlation

    def call(self, name, start, duration, thread=4001):
        kind = next(kind for kind, names in KINDS.items() if name in names)
        section = {"HSA": "hsa_api", "HIP": "hip_api", "RCC": "rccl_api"}[kind[:3]]
        return self.record(section, kind, name, start, start + duration, thread)

    def symbol(self, mangled, demangled=None, vgprs=48):
        for symbol in self.symbols:
            if symbol["kernel_name"] == mangled:
                return symbol["kernel_id"]
        number = len(self.symbols) + 1
        full = demangled and demangled + " [clone .kd]" or mangled
        self.symbols.append({"size": 96, "kernel_id": number, "code_object_id": 1, "kernel_name": mangled,
                             "kernel_object": 139637976727552, "kernarg_segment_size": 280, "group_segment_size": 0,
                             "private_segment_size": 0, "sgpr_count": 32, "arch_vgpr_count": vgprs, "accum_vgpr_count": 16,
                             "formatted_kernel_name": demangled or mangled, "demangled_kernel_name": full,
                             "truncated_kernel_name": "k"})
        return number

    def kernel(self, symbol, start, duration, correlation, device=0, stream=0, queue=1, grid=(65536, 2, 1), group=(256, 1, 1)):
        sizes = [dict(zip("xyz", sides)) for sides in (group, grid)]
        info = {"size": 64, "agent_id": self.gpu(device), "queue_id": {"handle": queue}, "kernel_id": symbol, "dispatch_id": 1,
                "private_segment_size": 0, "group_segment_size": 8192, "workgroup_size": sizes[0], "grid_size": sizes[1]}
        more = {"dispatch_info": info}
        if self.newer:
            more["stream_id"] = {"handle": stream}
        self.record("kernel_dispatch", "KERNEL_DISPATCH", "COMPLETE", start, start + duration, 4001, correlation, **more)

    def launch(self, at, mangled, start, duration, demangled=None, took=4_000, call="hipLaunchKernel", **more):
        correlation = self.call(call, at, took)
        self.kernel(self.symbol(mangled, demangled), start, duration, correlation, **more)
        return correlation

    def copy(self, source, target, size, start, duration, correlation, stream=0):
        """None: the host."""
        agents = [{"handle": CPU} if device is None else self.gpu(device) for device in (source, target)]
        name = "%s_TO_%s" % tuple("HOST" if device is None else "DEVICE" for device in (source, target))
        more = {"dst_agent_id": agents[1], "src_agent_id": agents[0], "bytes": size}
        if self.newer:
            more["stream_id"] = {"handle": stream}
        self.record("memory_copy", "MEMORY_COPY", name, start, start + duration, 4001, correlation, **more)

    def range(self, text, start, duration, thread=4001):
        operation = "roctxRangePushA" if duration else "roctxMarkA"
        number = self.record("marker_api", "MARKER_CORE_API", operation, start, start + duration, thread)
        self.messages.append({"key": number, "value": text})

    def value(self):
        metadata = {"pid": self.pid, "init_time": 1, "fini_time": 2, "command": ["python3", "train.py"],
                    "config": {"output_path": "%hostname%/%pid%", "kernel_rename": False}}
        if self.newer:
            metadata = {"node": {"id": 5, "hostname": self.host}, **metadata}
        names = [{"kind": kind, "operations": operations} for kind, operations in KINDS.items()]
        return {"metadata": metadata, "agents": self.agents, "counters": [],
                "strings": {"callback_records": names[:2], "buffer_records": names, "marker_api": self.messages,
                            "correlation_id": {"external": []}, "counters": {"dimension_ids": []}},
                "code_objects": [{"size": 88, "code_object_id": 1, "uri": "file:///a.so#offset=1&size=2"}],
                "kernel_symbols": self.symbols, "host_functions": [],
                "summary": [{"domain": "KERNEL_DISPATCH", "stats": {"size": 0, "sum": 1.5}}],
                "callback_records": {"counter_collection": []}, "buffer_records": self.records}


def text(*processes, indent=0):
    return json.dumps({"rocprofiler-sdk-tool": [process.value() for process in processes]}, indent=indent)


def write(path, *processes, **how):
    path.write_text(text(*processes, **how))
    return path
