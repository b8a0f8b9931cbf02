#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Holds a recording of a simulated node against one of a real node with the same boards.

usage: compare.py REAL.json SIMULATED.json      prints every difference; exit code 1 where there is one

Same class of answer (a value, not supported, bad argument, ...), same types, same shape; static facts (names, sizes,
limits, counts, supported clocks) are equal, readings lie in the range that their unit allows. Identities are not
compared: they are masked.
"""

import json
import re
import sys
from pathlib import Path

CLASSES = {
    None: "no such function", 13: "no such function",
    0: "a value",
    2: "bad argument", 25: "bad version",
    3: "not supported", 26: "deprecated",
    4: "no permission",
    6: "nothing there", 21: "nothing there",
    7: "too small",
}

# What differs between two nodes of the same kind: where a GPU is plugged in, what its host is, what runs on it.
PLACE = re.compile(
    r"GetPciInfo|BusId|GetIndex|GetBoardId|GetMinorNumber|GetIrqNum|GetModuleId|Affinity|NumaNode|GetUUID|GetSerial|Topology|"
    r"Hostname|HandleBy|InforomConfigurationChecksum|RemotePciInfo|PlatformInfo|FabricInfo|ProcessName|BoardPartNumber|"
    r"GetVbiosVersion|Inforom\w*Version|P2PStatus|OnSameBoard|HicVersion|QueryDrainState|GspFirmwareVersion|"
    r"GetPdi|GetTopology|DriverVersion|NVMLVersion|DriverBranch|CudaDriverVersion")
# Readings: what changes from moment to moment, and settings that an operator makes.
READING = re.compile(
    r"Processes|ProcessDetail|ProcessUtil|Accounting|Utilization|Samples|GetClockInfo$|GetClock$|PowerUsage|Energy|"
    r"GetTemperature$|GetTemperatureV$|MarginTemperature|FanSpeed|ViolationStatus|PerformanceState|PowerState|"
    r"CurrPcieLink|PcieThroughput|PcieReplay|CurrentClocks|EccError|MemoryErrorCounter|RetiredPages|Remap|"
    r"RowRemapper|NvLinkErrorCounter|NvLinkUtilization|MetricsGet|DynamicPstates|ThermalSettings|PersistenceMode|"
    r"ComputeMode|EncoderStats|EncoderCapacity|FBCStats|Sessions|PowerManagementLimit$|EnforcedPowerLimit|"
    r"ApplicationsClock|AutoBoosted|EccMode|MigMode|FieldValues|PcieSpeed|DisplayActive|BAR1|APIRestriction|"
    r"GetMemoryInfo|PowerProfile|ProtectedMemory|Capacity|MaxMigDeviceCount|MigDevice|GpuInstances|ComputeInstances")
# A member that stays the same although the rest of its struct is a reading.
FIXED_MEMBERS = {"total", "bar1Total", "reserved"}
FIXED_FIELDS = {1, 90, 91, 147, 166, 189, 193, 194, 195, 196}  # ECC on, links, limits and margins

UNITS = [  # by the name of what is read: the values that can be true
    (re.compile(r"celsius$|^temperature$|currentTemp$"), -20, 130),
    (re.compile(r"percent$|^(gpu|memory)$|Util$|^percentage$"), 0, 100),
    (re.compile(r"milliwatts$"), 0, 2_000_000),
    (re.compile(r"^mhz$|_mhz$|Clock$"), 0, 15_000),
    (re.compile(r"^generation$"), 1, 7),
    (re.compile(r"^width$"), 1, 32),
]


def class_of(code):
    return CLASSES.get(code, f"error {code}")


def names(recording):
    """GPU index -> (name, names of its MIG devices)."""
    gpus = {}
    for call in recording["calls"]:
        if call["f"] != "nvmlDeviceGetName" or call["rc"] != 0:
            continue
        gpu, _, mig = call["on"].partition("/")
        name = call["out"]["name"][1]
        if mig:
            gpus[int(gpu)][1].append(name)
        else:
            gpus[int(gpu)] = (name, [])
    return gpus


def roles(recording):
    """GPU index -> what it is among its like: indices follow bus addresses, which differ from node to node."""
    seen, result = {}, {}
    for gpu, (name, mig) in sorted(names(recording).items()):
        kind = " ".join([name, *(f"({m.rpartition(' MIG ')[2]})" for m in mig)])
        seen[kind] = seen.get(kind, 0) + 1
        result[gpu] = f"{kind} #{seen[kind]}"
    return result


def index(recording):
    """Calls by function, thing and arguments, the same for the same thing in another recording."""
    role, result = roles(recording), {}
    for call in recording["calls"]:
        gpu, mark, rest = re.fullmatch(r"(\d*)([/:]?)(.*)", call["on"]).groups()
        on = role.get(int(gpu), gpu) + mark + rest if gpu else ""
        args = {k: role.get(v, str(v)) if k == "second" else v for k, v in call["args"].items()}
        result[(call["f"], on, tuple(sorted(args.items())))] = call
    return result


def said(key):
    function, on, args = key
    inside = ", ".join(f"{name} {value}" for name, value in args)
    return f"{function}({inside})" + (f" on {on}" if on else "")


def is_fixed(call, name):
    if call["f"] == "nvmlDeviceGetFieldValues":
        return call["args"]["fieldId"] in FIXED_FIELDS
    return name in FIXED_MEMBERS or not READING.search(call["f"])


def unit_problem(name, value):
    for pattern, low, high in UNITS:
        if pattern.search(name) and not low <= value <= high and value < 2**32 - 1:  # all ones: not available
            return f"{name} is {value}, outside {low} to {high}"
    return None


def shape(text):
    """A text's kind of characters: versions and part numbers keep it."""
    return re.sub(r"[a-z]+", "a", re.sub(r"[0-9]+", "0", text.lower()))


def value_problems(call, name, real, sim):
    """Differences of one value, a scalar, list or object."""
    place = bool(PLACE.search(call["f"]))
    if isinstance(real, dict) and isinstance(sim, dict):
        if list(real) != list(sim):
            yield f"{name} has the members {list(sim)}, not {list(real)}"
            return
        for member in real:
            yield from value_problems(call, member, real[member], sim[member])
    elif isinstance(real, list) and isinstance(sim, list):
        if is_fixed(call, name) and not place:
            if len(real) != len(sim):
                yield f"{name} has {len(sim)} entries, not {len(real)}"
            for a, b in zip(real, sim):
                yield from value_problems(call, name, a, b)
        elif real and sim:
            yield from value_problems(call, name, real[0], sim[0])
    elif type(real) is not type(sim) and not (isinstance(real, (int, float)) and isinstance(sim, (int, float))):
        yield f"{name} is {sim!r}, not {real!r}"
    elif place:
        return
    elif isinstance(real, str):
        if is_fixed(call, name) and real != sim and shape(real) != shape(sim):
            yield f"{name} is {sim!r}, not {real!r}"
        elif call["f"].endswith("GetName") and real != sim:
            yield f"{name} is {sim!r}, not {real!r}"
    elif is_fixed(call, name):
        if real != sim:
            yield f"{name} is {sim}, not {real}"
    elif isinstance(sim, (int, float)) and not isinstance(sim, bool):
        problem = unit_problem(name, sim)
        if problem:
            yield problem


def call_problems(real, sim, same_rights):
    a, b = class_of(real["rc"]), class_of(sim["rc"])
    if a != b:
        if not same_rights and "no permission" in (a, b):
            return
        if READING.search(real["f"]) and {a, b} <= {"a value", "nothing there"}:  # depends on what runs there
            return
        yield f"{b} ({sim['rc']}), not {a} ({real['rc']})"
        return
    for name, (type_, value) in real["out"].items():
        if name not in sim["out"]:
            yield f"has no {name}"
            continue
        other_type, other = sim["out"][name]
        if other_type != type_:
            yield f"{name} is of type {other_type}, not {type_}"
        else:
            yield from value_problems(real, name, value, other)


def compare(real, sim):
    """Every difference as a line of text. `real` is right."""
    wanted, got = index(real), index(sim)
    same_rights = real["root"] == sim["root"]
    there = set(roles(sim).values())
    for role in sorted(set(roles(real).values()) - there):
        yield f"nvmlDeviceGetName: no GPU is {role}; there are {', '.join(sorted(there))}"
    missing = set(roles(real).values()) - there
    for key, call in wanted.items():
        if any(role in key[1] or ("second", role) in key[2] for role in missing):
            continue
        if key not in got:
            if same_rights or ":" not in key[1]:  # without the rights for it no instances are seen
                yield f"{said(key)}: not asked of the simulated node"
            continue
        for problem in call_problems(call, got[key], same_rights):
            yield f"{said(key)}: {problem}"


# ---- the node that a recording is of ----


def boards_of(recording, data):
    """Our boards for the recorded GPUs, in their order, with the MIG devices of each. KeyError for an unknown one."""
    known = {}
    for path in sorted(Path(data, "boards").glob("*.yaml")):
        match = re.search(r'^name: *"?([^"#\n]+?)"? *(?:#.*)?$', path.read_text(encoding="utf-8"), re.M)
        if match:
            known[match.group(1)] = path.stem
    gpus = []
    for _, (name, mig) in sorted(names(recording).items()):
        profiles = [re.search(r" MIG (?:\d+c\.)?(\S+)$", m).group(1) for m in mig]
        gpus.append((known[name], profiles))
    return gpus


def scenario_of(recording, data):
    """A scenario of the recorded node, idle."""
    lines = ["about: the node of a recording", f'node: {{driver: "{recording["driver"]}"}}', "gpus:"]
    for board, mig in boards_of(recording, data):
        more = f", mig: [{', '.join(mig)}]" if mig else ""
        lines.append(f"  - {{board: {board}{more}}}")
    return "\n".join([*lines, "truth: []", ""])


def main(argv):
    if len(argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    real, sim = (json.loads(Path(path).read_text(encoding="utf-8")) for path in argv[1:])
    found = list(compare(real, sim))
    for line in found:
        print(line)
    print(f"{len(real['calls'])} answers compared, {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
