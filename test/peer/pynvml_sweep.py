# SPDX-License-Identifier: Apache-2.0
"""Calls every function that python3-pynvml wraps, on every GPU, and writes what came back as JSON.

Arguments are chosen by parameter name; functions whose arguments need more have a row in SPECIAL. What changes the node
is called last, on the last GPU. The functions of init, events and GPM samples are left to pynvml_scenes.py. Each line of
the output: [function, GPU, arguments, value] or [function, GPU, arguments, "!", code of the error]."""
import ctypes
import inspect
import json
import re
import sys

import pynvml as N

N.nvmlInit()
COUNT = N.nvmlDeviceGetCount()
GPUS = [N.nvmlDeviceGetHandleByIndex(i) for i in range(COUNT)]
ELSEWHERE = ("nvmlShutdown", "nvmlInit", "nvmlInitWithFlags", "nvmlEventSetFree", "nvmlEventSetWait", "nvmlEventSetWait_v2",
              "nvmlGpmSampleFree", "nvmlGpmSampleAlloc", "nvmlEventSetCreate")


def uint():
    return ctypes.byref(ctypes.c_uint())


def pci(gpu):
    return N.nvmlDeviceGetPciInfo(GPUS[gpu])


def buffer(kind, count=16):
    return (kind * count)()


# parameter name: the values to try
VALUES = {
    "pid": [1], "index": [0], "unit": [N.c_nvmlUnit_t()], "infoRomObject": [0, 1, 2, 9], "nodeSetSize": [4],
    "cpuSetSize": [8], "scope": [0, 1], "id": [0, 1, 2, 3], "memoryClockMHz": [2619, 1], "fan": [0], "sensor": [0, 9],
    "threshold": list(range(8)), "errorType": [0, 1], "counterType": [0, 1], "locationType": list(range(9)),
    "sourceFilter": [0, 1], "apiType": [0, 1], "timeStamp": [0], "sampling_type": list(range(8)),
    "perfPolicyType": list(range(7)) + [10, 11], "cpuNumber": [0, 100], "level": [0, 10, 20, 30, 40, 50], "link": [0, 17, 18, 40],
    "capability": list(range(6)), "p2pIndex": list(range(6)), "encoderQueryType": [0, 1], "sensorindex": [0],
    "pstate": [0, 8], "vgpuTypeId": [1], "vgpuInstance": [1], "gpuInstanceId": [0, 9],
    "computeInstanceId": [0], "handle2": GPUS[-1:], "device2": GPUS[-1:], "type": [0, 1, 2, 3], "result": [0, 3, 15, 999],
    "nvmlErrorCode": [3, 15], "gpuInstance": [N.c_nvmlGpuInstance_t()], "computeInstance": [N.c_nvmlComputeInstance_t()],
    "profile": list(range(10)), "profileId": [19, 14, 9, 0, 77], "migDevice": GPUS[:1], "eventSet": [N.c_nvmlEventSet_t()],
    "color": [0], "freeze": [0], "control": [ctypes.c_uint(0)], "reset": [0], "encoder_capacity": [50], "flags": [0],
    "gpmSample": [N.c_nvmlGpmSample_t()],
    # what setters take
    "mode": [1, 0], "enabled": [1], "minGpuClockMHz": [345], "maxGpuClockMHz": [1200], "minMemClockMHz": [1593],
    "maxMemClockMHz": [2619], "maxGraphicsClockMHz": [1200], "limit": [400000], "isRestricted": [0], "offset": [0],
    "speed": [50], "temp": [80], "model": [0], "virtualization_mode": [0], "state": [0], "newState": [0], "fanControlPolicy": [0],
    "l1threshold": [10], "counter": [0, 1], "eventTypes": [8], "freq": [1],
}

# function: a maker of further arguments after the GPU, from the GPU's number
SPECIAL = {
    "nvmlDeviceGetHandleByIndex": lambda g: [(g,), (COUNT,)],
    "nvmlDeviceGetHandleBySerial": lambda g: [(N.nvmlDeviceGetSerial(GPUS[g]),), ("1",)],
    "nvmlDeviceGetHandleByUUID": lambda g: [(N.nvmlDeviceGetUUID(GPUS[g]),), ("GPU-0",)],
    "nvmlDeviceGetHandleByPciBusId": lambda g: [(pci(g).busId,), ("0000:FE:00.0",)],
    "nvmlDeviceGetMinMaxFanSpeed": lambda g: [(GPUS[g], uint(), uint())],
    "nvmlDeviceGetFanControlPolicy_v2": lambda g: [(GPUS[g], 0, uint())],
    "nvmlDeviceGetClkMonStatus": lambda g: [(GPUS[g], ctypes.byref(N.nvmlClkMonStatus_t()))],
    "nvmlDeviceModifyDrainState": lambda g: [(pci(g), 0)],
    "nvmlDeviceQueryDrainState": lambda g: [(pci(g),)],
    "nvmlDeviceDiscoverGpus": lambda g: [(pci(g),)],
    "nvmlDeviceRemoveGpu": lambda g: [(pci(g),)],
    "nvmlDeviceGetFieldValues": lambda g: [(GPUS[g], [*range(1, 200), (164, 0), (165, 17)])],
    "nvmlDeviceClearFieldValues": lambda g: [(GPUS[g], [1, 2])],
    "nvmlDeviceGetGspFirmwareVersion": lambda g: [(GPUS[g], ctypes.create_string_buffer(80))],
    "nvmlDeviceGetGspFirmwareMode": lambda g: [(GPUS[g], uint(), uint())],
    "nvmlGetVgpuCompatibility": lambda g: [(N.c_nvmlVgpuMetadata_t(), N.c_nvmlVgpuPgpuMetadata_t())],
    "nvmlSetVgpuVersion": lambda g: [(N.c_nvmlVgpuVersion_t(),)],
    "nvmlGetVgpuVersion": lambda g: [(N.c_nvmlVgpuVersion_t(), N.c_nvmlVgpuVersion_t())],
    "nvmlDeviceGetGpuInstancePossiblePlacements":
        lambda g: [(GPUS[g], 19, buffer(N.c_nvmlGpuInstancePlacement_t), uint()), (GPUS[g], 19, None, uint())],
    "nvmlDeviceGetGpuInstances": lambda g: [(GPUS[g], 19, buffer(N.c_nvmlGpuInstance_t), uint())],
    "nvmlDeviceCreateGpuInstanceWithPlacement": lambda g: [(GPUS[g], 19, ctypes.byref(N.c_nvmlGpuInstancePlacement_t()))],
    "nvmlGpuInstanceGetComputeInstancePossiblePlacements":
        lambda g: [(N.c_nvmlGpuInstance_t(), 0, buffer(N.c_nvmlComputeInstancePlacement_t), uint())],
    "nvmlGpuInstanceGetComputeInstances":
        lambda g: [(N.c_nvmlGpuInstance_t(), 0, buffer(N.c_nvmlComputeInstance_t), uint())],
    "nvmlGpuInstanceCreateComputeInstanceWithPlacement":
        lambda g: [(N.c_nvmlGpuInstance_t(), 0, ctypes.byref(N.c_nvmlComputeInstancePlacement_t()))],
    "nvmlDeviceGetDynamicPstatesInfo": lambda g: [(GPUS[g], ctypes.byref(N.c_nvmlGpuDynamicPstatesInfo_t()))],
    "nvmlDeviceGetThermalSettings": lambda g: [(GPUS[g], 0, ctypes.byref(N.c_nvmlGpuThermalSettings_t()))],
    "nvmlDeviceGetMinMaxClockOfPState": lambda g: [(GPUS[g], t, 0, uint(), uint()) for t in range(4)],
    "nvmlDeviceGetGpcClkMinMaxVfOffset": lambda g: [(GPUS[g], uint(), uint())],
    "nvmlDeviceGetMemClkMinMaxVfOffset": lambda g: [(GPUS[g], uint(), uint())],
    "nvmlDeviceGetGpuFabricInfo": lambda g: [(GPUS[g], ctypes.byref(N.c_nvmlGpuFabricInfo_t()))],
    "nvmlDeviceGetMemoryInfo": lambda g: [(GPUS[g],), (GPUS[g], N.nvmlMemory_v2)],
    "nvmlDeviceGetGpuInstanceProfileInfo": lambda g: [(GPUS[g], p, v) for p in range(10) for v in (1, 2)],
    "nvmlGpuInstanceGetComputeInstanceProfileInfo": lambda g: [(N.c_nvmlGpuInstance_t(), 0, 0, v) for v in (1, 2)],
    "nvmlDeviceGetGpuInstanceProfileInfoV": lambda g: [(GPUS[g], p, v) for p in range(10) for v in (1, 2)],
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV": lambda g: [(N.c_nvmlGpuInstance_t(), 0, 0, v) for v in (1, 2)],
    "nvmlGpmMetricsGet": lambda g: [(N.c_nvmlGpmMetricsGet_t(version=1),)],
    "nvmlStructToFriendlyObject": lambda g: [(pci(g),)],
    "nvmlFriendlyObjectToStruct": lambda g: [(N.nvmlStructToFriendlyObject(pci(g)), N.nvmlPciInfo_t())],
}


def plain(value):
    """JSON of anything that pynvml returns."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, ctypes.Structure):
        return {name: plain(getattr(value, name)) for name, *_ in value._fields_}
    if isinstance(value, ctypes.Union):
        return {name: plain(getattr(value, name)) for name, *_ in value._fields_}
    if isinstance(value, (list, tuple)) or isinstance(value, ctypes.Array):
        return [plain(v) for v in value]
    if isinstance(value, ctypes._Pointer):
        return {"pointer": ctypes.cast(value, ctypes.c_void_p).value}
    if value is None or isinstance(value, (int, float, str, bool, dict)):
        return value
    return repr(value)


def product(lists):
    out = [()]
    for values in lists:
        out = [o + (v,) for o in out for v in values]
    return out


def calls(name, function, gpu):
    if name in SPECIAL:
        return SPECIAL[name](gpu)
    lists = []
    for p in inspect.signature(function).parameters.values():
        first = p.name in ("handle", "device", "device1", "handle1")
        lists.append([GPUS[gpu]] if first else VALUES[p.name])
    return product(lists)


def shown(args):
    return [next((f"gpu{i}" for i, g in enumerate(GPUS) if a is g), plain(a) if isinstance(a, (int, str)) else "-") for a in args]


def sweep(name, gpu, out):
    function = getattr(N, name)
    for args in calls(name, function, gpu):
        line = [name, gpu, shown(args)]
        try:
            line.append(plain(function(*args)))
        except N.NVMLError as error:
            line += ["!", error.value]
        except Exception as error:  # the binding's own fault
            line += ["?", f"{type(error).__name__}: {error}"]
        out.write(json.dumps(line) + "\n")
        out.flush()


def changes(name):
    return re.search("(Device|Unit|Instance|Ccu|nvml)(Set|Reset|Clear|Create|Destroy|Remove|Modify|Freeze|Discover)", name)


def main():
    names = [n for n, f in vars(N).items() if n.startswith("nvml") and inspect.isfunction(f) and n not in ELSEWHERE]
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        for name in names:
            if not changes(name):
                for gpu in range(COUNT):
                    sweep(name, gpu, out)
        for name in names:
            if changes(name):
                sweep(name, COUNT - 1, out)
    N.nvmlShutdown()


main()
