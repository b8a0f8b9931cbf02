#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the functions of a driver library that answers from a recording: those that Stoker calls, each looked up by its
name, device and arguments, with its outputs read back as calls.py wrote them. What needs a hand is in replay.c.

usage: replay.py OUT FUNCTIONS.DEF
"""

import re
import sys
from pathlib import Path

import calls
import params as nvml

HEAD = """/* SPDX-License-Identifier: Apache-2.0 */
/* Generated from the fact files by replay.py: functions that answer from a recording. */
"""
BY_HAND = {  # in replay.c
    "nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags", "nvmlShutdown", "nvmlErrorString", "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByPciBusId", "nvmlDeviceGetHandleByPciBusId_v2",
    "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo", "nvmlDeviceGetFieldValues", "nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceQueryDrainState", "nvmlEventSetCreate",
    "nvmlEventSetFree", "nvmlEventSetWait", "nvmlEventSetWait_v2", "nvmlDeviceRegisterEvents", "nvmlGpmSampleAlloc",
    "nvmlGpmSampleFree", "nvmlGpmSampleGet", "nvmlGpmMigSampleGet", "nvmlGpmMetricsGet",
}
FREE = {"length", "since_us"}  # arguments that another caller may choose otherwise


def left_out(param):
    """Functions of instances, of which a recording has no handles, and lists whose room the caller does not tell: they are not there."""
    return param.type in ("nvmlGpuInstance_t", "nvmlComputeInstance_t") or (param.kind == "array" and not param.sized_by)


def used(path):
    found = re.findall(r'^FN(?:_WAS)?\((\w+)(?:, "(\w+)")?', Path(path).read_text(encoding="utf-8"), re.M)
    return {name for pair in found for name in pair if name} - BY_HAND


def read_scalar(type_, at, v):
    if type_ in ("double", "float"):
        return f"{at} = ({type_})json_number_value({v});"
    return f"{at} = (__typeof__({at}))replay_whole({v});"


def read_member(member, place, facts, depth):
    """C that reads one member from the JSON value v<depth> into `place`."""
    at, v, i = f"{place}{member.name}", f"v{depth}", f"i{depth}"
    if calls.is_text(member):
        return f"replay_text({v}, {at}, sizeof {at});"
    if member.pointer or member.type in facts.types.handles or member.type == "union":
        return ""
    if member.array and member.type == "unsigned char":
        return f"replay_bytes({v}, {at}, sizeof {at});"
    if member.array:
        element, inside = f"{at}[{i}]", f"v{depth + 1}"
        if member.inner:
            body = read_inner(member.inner, f"{element}.", facts, depth + 1)
        elif member.type in facts.structs:
            body = f"read_{member.type}({inside}, &{element});"
        else:
            body = read_scalar(member.type, element, inside)
        return f"REPLAY_EACH({v}, {i}, {inside}, {at}) {{ {body} }}"
    if member.inner:
        return read_inner(member.inner, f"{at}." if member.name else place, facts, depth)
    if member.type in facts.structs:
        return f"read_{member.type}({v}, &{at});"
    return read_scalar(member.type, at, v)


def read_inner(members, place, facts, depth):
    text = ""
    for member in members:
        if member.name == "version":
            continue
        body = read_member(member, place, facts, depth + 1)
        if body:
            text += f"    REPLAY_MEMBER(v{depth}, \"{member.name}\", v{depth + 1}) {{ {body} }}\n"
    return text


def emit_reader(struct, facts):
    head = f"\nstatic void read_{struct.name}(const json_t *v0, {struct.name} *ret)\n{{\n"
    if struct.union:
        return head + "    replay_bytes(v0, ret, sizeof *ret);\n}\n"
    return head + read_inner(struct.members, "ret->", facts, 0) + "}\n"


def read_value(type_, place, facts):
    if type_ in facts.structs:
        return f"read_{type_}(v, &{place});".replace("&*", "")
    return read_scalar(type_, place, "v")


def emit_function(function, params, facts):
    handles = [p.name for p in params if p.kind == "handle"] + ["NULL", "NULL"]
    text = f"\nNVML_EXPORT nvmlReturn_t {function.name}({', '.join(function.params)})\n{{\n    Replay call;\n"
    text += f"    replay_begin(&call, \"{function.name}\", {handles[0]}, {handles[1]});\n"
    text += "".join(f"    replay_add(&call, \"{p.name}\", (long long){p.name});\n"
                    for p in params if p.kind in ("value", "words") and p.name not in FREE)
    text += "".join(f"    (void){p.name};\n" for p in params if p.name in FREE)
    text += "    const nvmlReturn_t rc = replay_find(&call);\n    if (rc != NVML_SUCCESS)\n        return rc;\n"
    for p in params:
        if p.kind == "buffer":
            text += f"    if (replay_buffer(replay_out(&call, \"{p.name}\"), {p.name}, {p.sized_by or 96}) < 0)\n"
            text += "        return NVML_ERROR_INSUFFICIENT_SIZE;\n"
        elif p.kind == "out":
            text += f"    {{\n        const json_t *v = replay_out(&call, \"{p.name}\");\n"
            text += f"        {read_value(p.type, '*' + p.name, facts)}\n    }}\n"
        elif p.kind == "array":
            text += f"    REPLAY_LIST(replay_out(&call, \"{p.name}\"), {p.name}, {p.sized_by})\n"
            text += f"        {read_value(p.type, p.name + '[i]', facts)}\n"
    return text + "    return rc;\n}\n"


def main(argv):
    if len(argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    facts = nvml.fact_files.read(nvml.FACTS)
    names = used(argv[2])
    chosen = [(f, p) for f, p in nvml.functions(facts) if f.name in names and not any(left_out(x) for x in p)]
    text = HEAD + "".join(emit_reader(facts.structs[name], facts) for name in calls.used_structs(chosen, facts))
    text += "".join(emit_function(f, p, facts) for f, p in chosen)
    Path(argv[1]).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
