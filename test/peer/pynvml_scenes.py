# SPDX-License-Identifier: Apache-2.0
"""Short programs with python3-pynvml that do what monitors do with it; each prints what it saw as JSON.

    pynvml_scenes.py SCENE [COMMAND...]    COMMAND makes something happen on the node"""
import ctypes
import json
import subprocess
import sys

import pynvml as N


def code(function, *args):
    """The error of a call, 0 when it went well."""
    try:
        function(*args)
    except N.NVMLError as error:
        return [type(error).__name__, error.value, str(error)]
    return 0


def errors(_):
    out = {"before init": code(N.nvmlDeviceGetCount)}
    N.nvmlInit()
    gpu = N.nvmlDeviceGetHandleByIndex(0)
    out["no such index"] = code(N.nvmlDeviceGetHandleByIndex, 99)
    out["no such uuid"] = code(N.nvmlDeviceGetHandleByUUID, "GPU-none")
    out["not on this board"] = code(N.nvmlDeviceGetFanSpeed, gpu)
    out["not in this driver"] = code(N.nvmlDeviceCcuGetStreamState, gpu)
    out["no such threshold"] = code(N.nvmlDeviceGetTemperatureThreshold, gpu, 99)
    out["limit out of range"] = code(N.nvmlDeviceSetPowerManagementLimit, gpu, 1)
    N.nvmlShutdown()
    out["after shutdown"] = code(N.nvmlDeviceGetName, gpu)
    return out


def lost(_):
    N.nvmlInit()
    out = [code(N.nvmlDeviceGetHandleByIndex, i) for i in range(N.nvmlDeviceGetCount())]
    N.nvmlShutdown()
    return out


def lost_meanwhile(command):
    N.nvmlInit()
    gpu = N.nvmlDeviceGetHandleByIndex(3)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    reads = (N.nvmlDeviceGetName, N.nvmlDeviceGetPowerUsage, N.nvmlDeviceGetMemoryInfo, N.nvmlDeviceGetUtilizationRates)
    out = {"count": N.nvmlDeviceGetCount(), "reads": [code(read, gpu) for read in reads]}
    N.nvmlShutdown()
    return out


def events(command):
    N.nvmlInit()
    gpus = [N.nvmlDeviceGetHandleByIndex(i) for i in range(N.nvmlDeviceGetCount())]
    wanted = N.nvmlEventTypeXidCriticalError | N.nvmlEventTypeDoubleBitEccError
    event_set = N.nvmlEventSetCreate()
    for gpu in gpus:
        N.nvmlDeviceRegisterEvents(gpu, wanted & N.nvmlDeviceGetSupportedEventTypes(gpu), event_set)
    out = {"at first": code(N.nvmlEventSetWait, event_set, 10), "seen": []}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for _ in range(8):
        try:
            e = N.nvmlEventSetWait(event_set, 100)
        except N.NVMLError_Timeout:
            break
        where = [ctypes.addressof(g.contents) for g in gpus].index(ctypes.addressof(e.device.contents))
        out["seen"].append([where, e.eventType, e.eventData])
    N.nvmlEventSetFree(event_set)
    N.nvmlShutdown()
    return out


def mig_devices(gpu):
    found = []
    for i in range(N.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            device = N.nvmlDeviceGetMigDeviceHandleByIndex(gpu, i)
        except N.NVMLError_NotFound:
            continue
        memory, parts = N.nvmlDeviceGetMemoryInfo(device), N.nvmlDeviceGetAttributes(device)
        found.append({
            "name": N.nvmlDeviceGetName(device), "uuid": N.nvmlDeviceGetUUID(device),
            "gi": N.nvmlDeviceGetGpuInstanceId(device), "ci": N.nvmlDeviceGetComputeInstanceId(device),
            "total_mib": memory.total >> 20, "sms": parts.multiprocessorCount, "slices": parts.gpuInstanceSliceCount,
            "pids": [p.pid for p in N.nvmlDeviceGetComputeRunningProcesses(device)],
            "by uuid": N.nvmlDeviceGetName(N.nvmlDeviceGetHandleByUUID(N.nvmlDeviceGetUUID(device))),
            "utilization": code(N.nvmlDeviceGetUtilizationRates, device),
        })
    return found


def mig(_):
    """The devices of every GPU."""
    N.nvmlInit()
    gpus = [N.nvmlDeviceGetHandleByIndex(i) for i in range(N.nvmlDeviceGetCount())]
    out = {"mode": [N.nvmlDeviceGetMigMode(g) for g in gpus], "devices": [mig_devices(g) for g in gpus],
           "utilization": [code(N.nvmlDeviceGetUtilizationRates, g) for g in gpus]}
    N.nvmlShutdown()
    return out


def mig_life(_):
    """MIG on, two devices made, seen and destroyed, MIG off: all on the last GPU, which must be idle."""
    N.nvmlInit()
    gpu = N.nvmlDeviceGetHandleByIndex(N.nvmlDeviceGetCount() - 1)
    out = {"on": N.nvmlDeviceSetMigMode(gpu, 1), "mode": N.nvmlDeviceGetMigMode(gpu)}
    info = N.nvmlDeviceGetGpuInstanceProfileInfo(gpu, N.NVML_GPU_INSTANCE_PROFILE_3_SLICE)
    made = [N.nvmlDeviceCreateGpuInstance(gpu, info.id) for _ in range(2)]
    out["no room"] = code(N.nvmlDeviceCreateGpuInstance, gpu, info.id)
    compute = [N.nvmlGpuInstanceCreateComputeInstance(gi, N.NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE) for gi in made]
    out["devices"] = mig_devices(gpu)
    out["in use"] = code(N.nvmlGpuInstanceDestroy, made[0])
    device = N.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
    for ci in compute:
        N.nvmlComputeInstanceDestroy(ci)
    out["dead device"] = code(N.nvmlDeviceGetMemoryInfo, device)
    for gi in made:
        N.nvmlGpuInstanceDestroy(gi)
    out["dead instance"] = code(N.nvmlGpuInstanceGetInfo, made[0])
    out["off"] = N.nvmlDeviceSetMigMode(gpu, 0)
    out["mode after"] = N.nvmlDeviceGetMigMode(gpu)
    N.nvmlShutdown()
    return out


def gpm(command):
    """Two samples with the command between them: SM activity and tensor activity, in percent."""
    N.nvmlInit()
    gpu = N.nvmlDeviceGetHandleByIndex(0)
    get = N.c_nvmlGpmMetricsGet_t()
    get.version, get.numMetrics = N.NVML_GPM_METRICS_GET_VERSION, 2
    get.metrics[0].metricId, get.metrics[1].metricId = N.NVML_GPM_METRIC_SM_UTIL, N.NVML_GPM_METRIC_ANY_TENSOR_UTIL
    get.sample1, get.sample2 = N.nvmlGpmSampleAlloc(), N.nvmlGpmSampleAlloc()
    N.nvmlGpmSampleGet(gpu, get.sample1)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    N.nvmlGpmSampleGet(gpu, get.sample2)
    N.nvmlGpmMetricsGet(get)
    out = {"support": N.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice,
           "metrics": [[m.nvmlReturn, m.value] for m in get.metrics[:2]]}
    N.nvmlGpmSampleFree(get.sample1)
    N.nvmlGpmSampleFree(get.sample2)
    N.nvmlShutdown()
    return out


SCENES = {f.__name__: f for f in (errors, lost, lost_meanwhile, events, mig, mig_life, gpm)}
print(json.dumps(SCENES[sys.argv[1]](sys.argv[2:])))
