#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes one C function per NVML function that draws its arguments from a Feed (feed.h) and calls it.

usage: nvml_calls.py PARAMS_DIR OUT
"""

import sys
from pathlib import Path

HEAD = """/* SPDX-License-Identifier: Apache-2.0 */
/* Generated: every function with arguments drawn from the input. */
"""
LEFT_OUT = ("nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags", "nvmlShutdown")  # the target does these itself
KEPT = ("nvmlDevice_t", "nvmlGpuInstance_t", "nvmlComputeInstance_t", "nvmlEventSet_t", "nvmlGpmSample_t")


def pool(type_):
    return f"POOL_{type_}"


def draw(param, params, tagged):
    """The C that declares and draws one argument."""
    counted = next((p for p in params if p.name == param.sized_by), None)
    if param.kind == "handle":
        return f"    {param.type} {param.name} = feed_handle(f, {pool(param.type)});\n"
    if param.kind == "value" and param.name == "timeout_ms":
        return f"    unsigned int {param.name} = feed_byte(f) == 255;\n"
    if param.kind == "value":
        return f"    {param.type} {param.name} = ({param.type})feed_value(f);\n"
    if param.kind == "text":
        return f"    const char *{param.name} = feed_text(f);\n"
    if param.kind == "count":
        return f"    unsigned int {param.name}_places = feed_byte(f) % 24;\n" + (
            f"    unsigned int *{param.name} = feed_room(f, sizeof *{param.name}, 0);\n    if ({param.name})\n"
            f"        *{param.name} = {param.name}_places;\n"
        )
    if param.kind == "words":
        return f"    {param.type} {param.name} = ({param.type})(feed_byte(f) % 24);\n"
    if param.kind == "length":
        return f"    unsigned int {param.name} = feed_byte(f) % 128;\n"
    if param.kind == "buffer":
        room = param.sized_by or str(param.room)
        return f"    char *{param.name} = feed_room(f, {room}, 0);\n"
    if param.kind == "array":
        places = f"{counted.name}_places" if counted and counted.kind == "count" else param.sized_by
        size = places if counted and counted.kind == "length" else f"(size_t){places or param.room} * sizeof *{param.name}"
        return f"    {param.type} *{param.name} = feed_room(f, {size}, 0);\n"
    tag = "1" if tagged else "0"
    const = "const " if param.kind == "read" else ""
    return f"    {const}{param.type} *{param.name} = feed_room(f, sizeof *{param.name}, {tag});\n"


def order(params):
    """What says a size is drawn before what has that size."""
    first = ("count", "words", "length")
    return [p for p in params if p.kind in first] + [p for p in params if p.kind not in first]


def emit(function, params, has_version):
    text = f"\nstatic void call_{function.name}(Feed *f)\n{{\n"
    for param in order(params):
        text += draw(param, params, has_version(param.type))
        if param.kind == "out" and param.type in PATCHED:
            text += f"    {PATCHED[param.type]}(f, {param.name});\n"
    text += f"    nvmlReturn_t r = {function.name}({', '.join(p.name for p in params)});\n"
    for param in params:
        if param.type not in KEPT or param.kind not in ("out", "array"):
            continue
        text += f"    if (r == NVML_SUCCESS && {param.name})\n"
        if param.kind == "out":
            text += f"        feed_keep(f, {pool(param.type)}, *{param.name});\n"
        else:
            text += f"        for (unsigned int i = 0; count && i < *count; i++)\n"
            text += f"            feed_keep(f, {pool(param.type)}, {param.name}[i]);\n"
    if function.name == "nvmlSystemEventSetCreate":
        text += "    if (r == NVML_SUCCESS)\n        feed_keep(f, POOL_nvmlSystemEventSet_t, request->set);\n"
    return text + "    feed_answer(f, r);\n}\n"


# Structs that point to a client's memory: the target puts true pointers into them.
PATCHED = {
    "nvmlProcessDetailList_t": "patch_details",
    "nvmlProcessesUtilizationInfo_t": "patch_utilization",
    "nvmlSystemEventSetWaitRequest_t": "patch_wait",
    "nvmlSystemEventSetFreeRequest_t": "patch_free",
    "nvmlSystemRegisterEventRequest_t": "patch_register",
    "nvmlGpmMetricsGet_t": "patch_metrics",
    "nvmlPRMCounterList_v1_t": "patch_counters",
}


def main(argv):
    if len(argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    sys.path.insert(0, argv[1])
    import params as nvml

    facts = nvml.fact_files.read(nvml.FACTS)
    chosen = [(f, p) for f, p in nvml.functions(facts) if f.name not in LEFT_OUT and 610 in f.drivers]
    text = HEAD + "".join(emit(f, p, lambda t: nvml.struct_version(t, facts)) for f, p in chosen)
    text += "\nstatic void (*const calls[])(Feed *f) = {\n" + "".join(f"    call_{f.name},\n" for f, _ in chosen) + "};\n"
    Path(argv[2]).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
