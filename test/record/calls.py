#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the recorder's calls: one C function per NVML function that only reads, with all sensible arguments, and one
writer per struct. Bodies follow from the fact files; what needs a hand is in record.c.

usage: calls.py OUT
"""

import re
import sys
from pathlib import Path

import params as nvml

HEAD = """/* SPDX-License-Identifier: Apache-2.0 */
/* Generated from the fact files by calls.py: every reading call with all sensible arguments. */
"""

READS = re.compile(r"Get[A-Z]|IsMigDeviceHandle|OnSameBoard|Query[A-Z]|ValidateInforom")
CHANGES = re.compile(r"Set[A-Z]|Create|Destroy|Reset|Clear|Freeze|Register|Update|Write|Remove")
BY_HAND = {  # in record.c
    "nvmlDeviceGetFieldValues", "nvmlDeviceGetSupportedGraphicsClocks", "nvmlDeviceQueryDrainState",
    "nvmlGpmMetricsGet", "nvmlGpmSampleAlloc", "nvmlGpmSampleFree", "nvmlGpmSampleGet", "nvmlGpmMigSampleGet",
    "nvmlDeviceGetRunningProcessDetailList", "nvmlDeviceGetProcessesUtilizationInfo", "nvmlDeviceReadPRMCounters_v1",
    "nvmlDeviceGetHandleByPciBusId", "nvmlDeviceGetHandleByPciBusId_v2", "nvmlDeviceGetHandleBySerial",
    "nvmlDeviceGetHandleByUUID", "nvmlDeviceGetHandleByUUIDV", "nvmlDeviceGetAccountingStats",
}
RANGES = {  # integers by the name of the parameter: first and last value
    "link": (0, 36), "fan": (0, 1), "profile": (0, 17), "engine_profile": (0, 0), "profile_id": (0, 47),
    "id": (0, 14), "index": (0, 16), "cpu": (0, 0), "counter": (0, 1), "scope": (0, 1), "since_us": (0, 0),
    "pid": (1, 1), "length": (80, 80), "words": (16, 16), "sensor_index": (0, 3),
}
PRIVATE = re.compile(r"uuid|serial|pid$|hostname|guid|busid|remotepci", re.I)
PRIVATE_FUNCTIONS = re.compile(r"GetUUID|GetPdi|GetSerial|GetProcessName|GetHostname|AccountingPids")
ROOM = 512  # places offered to a count


def reads(name):
    return bool(READS.search(name)) and not CHANGES.search(name)


def enum_values(type_, facts):
    for enum in facts.types.enums:
        if enum.name == type_:
            last = re.compile(r"_(COUNT|MAX)$")
            return sorted({value for name, value in enum.members if not last.search(name)})
    return None


def version_tag(type_, facts):
    """The C expression for the version member, or None."""
    if not nvml.struct_version(type_, facts):
        return None
    named = type_ if re.search(r"_v\d+_t$", type_) else nvml.header.alias_of(facts.structs[type_], facts.structs)
    number = re.search(r"_v(\d+)_t$", named or "")
    return f"NVML_STRUCT_TAG({type_}, {number.group(1)})" if number else "1"


def is_text(member):
    return member.type == "char" and member.array


def write_member(member, path, facts):
    """C that writes one member; its name was written."""
    private = "1" if PRIVATE.search(member.name) else "0"
    at = f"{path}{member.name}"
    if is_text(member):
        return f"    rec_text(r, {at}, sizeof {at}, {private});\n"
    if member.pointer or member.type in facts.types.handles:
        return "    rec_raw(r, \"null\");\n"
    if member.array and member.type == "unsigned char":
        return f"    rec_bytes(r, {at}, sizeof {at}, {private});\n"
    if member.array:
        inner = f"write_{member.type}(r, &{at}[i]);" if member.type in facts.structs else (
            f"rec_number(r, (long long){at}[i], {private});")
        if member.inner:
            body = write_inner(member, f"{at}[i].", facts).replace("\n", "\n    ").rstrip(" ")
            inner = "{\n        " + body.strip() + "\n        }"
        return (f"    rec_raw(r, \"[\");\n    for (size_t i = 0; i < sizeof {at} / sizeof {at}[0]; i++) {{\n"
                f"        rec_raw(r, i ? \", \" : \"\");\n        {inner}\n    }}\n    rec_raw(r, \"]\");\n")
    if member.inner:
        return write_inner(member, f"{at}." if member.name else path, facts)
    if member.type in facts.structs:
        return f"    write_{member.type}(r, &{at});\n"
    if member.type in ("double", "float"):
        return f"    rec_double(r, {at});\n"
    return f"    rec_number(r, (long long){at}, {private});\n"


def write_inner(member, path, facts):
    if member.type == "union":
        return "    rec_raw(r, \"null\");\n"  # what it holds depends on other members
    text = "    rec_raw(r, \"{\");\n"
    for i, inner in enumerate(member.inner):
        text += f"    rec_key(r, \"{inner.name}\", {1 if i else 0});\n" + write_member(inner, path, facts)
    return text + "    rec_raw(r, \"}\");\n"


def is_padding(struct, member):
    """Whether nothing is said there. What a board keeps of its memory is called "reserved" too."""
    return member.name.lower().startswith("reserved") and struct.name != "nvmlMemory_v2_t"


def emit_writer(struct, facts):
    text = f"\nstatic void write_{struct.name}(Rec *r, const {struct.name} *v)\n{{\n"
    if struct.union:
        return text + "    rec_bytes(r, v, sizeof *v, 0);\n}\n"
    text += "    rec_raw(r, \"{\");\n"
    members = [m for m in struct.members if m.name != "version" and not is_padding(struct, m)]
    for i, member in enumerate(members):
        text += f"    rec_key(r, \"{member.name}\", {1 if i else 0});\n" + write_member(member, "v->", facts)
    return text + "    rec_raw(r, \"}\");\n}\n"


def value_of(type_, name, place, function, facts):
    """C that writes the element at the pointer expression `place`."""
    private = 1 if PRIVATE_FUNCTIONS.search(function) or name == "pid" else 0
    if type_ in facts.structs:
        return f"write_{type_}(r, {place});"
    if type_ in facts.types.handles:
        return f"rec_raw(r, *({place}) ? \"true\" : \"false\");"
    if type_ == "double":
        return f"rec_double(r, *({place}));"
    return f"rec_number(r, (long long)*({place}), {private});"


def loops(params, facts):
    """(opening lines, names that are arguments to record)."""
    text, args = "", []
    for p in params:
        if p.kind in ("value", "words") or (p.kind == "length" and p.name == "size_bytes"):
            values = enum_values(p.type, facts)
            if p.kind == "length":
                continue
            if values is None and p.name not in RANGES:
                raise nvml.fact_files.FactError(f"calls.py: no values for {p.type} {p.name}")
            args.append(p.name)
            if values is None:
                first, last = RANGES[p.name]
                text += f"    for (long long {p.name} = {first}; {p.name} <= {last}; {p.name}++)\n"
            else:
                text += f"    for (size_t {p.name}_i = 0; {p.name}_i < {len(values)}; {p.name}_i++)\n"
    return text, args


def declare(params, facts):
    text = ""
    for p in params:
        values = enum_values(p.type, facts) if p.kind == "value" else None
        if values is not None:
            listed = ", ".join(map(str, values))
            text += f"        const long long {p.name} = (const long long[]){{{listed}}}[{p.name}_i];\n"
        elif p.kind == "buffer":
            text += f"        char {p.name}[128] = \"\";\n"
        elif p.kind == "out":
            text += f"        static {p.type} {p.name};\n        memset(&{p.name}, 0, sizeof {p.name});\n"
            tag = version_tag(p.type, facts)
            text += f"        {p.name}.version = {tag};\n" if tag else ""
        elif p.kind == "array":
            text += f"        static {p.type} {p.name}[{ROOM}];\n        memset({p.name}, 0, sizeof {p.name});\n"
        elif p.kind == "count":
            text += f"        unsigned int {p.name} = {ROOM};\n"
    return text


def argument(p, handles):
    if p.kind == "handle":
        return handles.pop(0)
    if p.kind == "value" or p.kind == "words":
        return f"({p.type}){p.name}"
    if p.kind == "length":
        return "sizeof states" if p.name == "size_bytes" else "96"
    return f"&{p.name}" if p.kind in ("out", "count") else p.name


def outputs(function, params, facts):
    text = ""
    for p in params:
        if p.kind == "buffer":
            private = 1 if PRIVATE_FUNCTIONS.search(function.name) else 0
            text += f"            rec_out(r, \"{p.name}\", \"text\");\n"
            text += f"            rec_text(r, {p.name}, sizeof {p.name}, {private});\n            rec_raw(r, \"]\");\n"
        elif p.kind == "out":
            text += f"            rec_out(r, \"{p.name}\", \"{p.type}\");\n"
            text += f"            {value_of(p.type, p.name, '&' + p.name, function.name, facts)}\n"
            text += "            rec_raw(r, \"]\");\n"
        elif p.kind == "array":
            places = {"words": "words", "count": "count"}.get(p.sized_by, "count" if p.room else "16")
            text += f"            rec_out(r, \"{p.name}\", \"{p.type}[]\");\n            rec_raw(r, \"[\");\n"
            text += f"            for (size_t i = 0; i < (size_t){places} && i < {ROOM}; i++) {{\n"
            text += "                rec_raw(r, i ? \", \" : \"\");\n"
            text += f"                {value_of(p.type, p.name, '&' + p.name + '[i]', function.name, facts)}\n            }}\n"
            text += "            rec_raw(r, \"]]\");\n"
    return text


def emit_call(function, params, facts):
    opening, args = loops(params, facts)
    handles = {"nvmlDevice_t": ["r->device", "r->second"], "nvmlGpuInstance_t": ["r->instance"],
               "nvmlComputeInstance_t": ["r->compute"]}
    first = next((p.type for p in params if p.kind == "handle"), "nvmlDevice_t")
    pool = list(handles[first])
    text = f"\nstatic void rec_{function.name}(Rec *r)\n{{\n    __typeof__({function.name}) *fn;\n"
    text += f"    if (!rec_find(r, \"{function.name}\", &fn, sizeof fn))\n        return;\n"
    text += f"{opening}    {{\n{declare(params, facts)}"
    call_args = ", ".join(argument(p, pool) for p in params)
    text += f"        const nvmlReturn_t rc = fn({call_args});\n        rec_begin(r, \"{function.name}\");\n"
    text += "".join(f"        rec_arg(r, \"{name}\", (long long){name});\n" for name in args)
    text += "        rec_code(r, rc);\n"
    written = outputs(function, params, facts)
    if written:
        text += "        if (rc == NVML_SUCCESS) {\n" + written + "        }\n"
    return text + "        rec_end(r);\n    }\n}\n"


def kind_of(params):
    handles = [p.type for p in params if p.kind == "handle"]
    if handles == ["nvmlDevice_t", "nvmlDevice_t"]:
        return "pair"
    return {"nvmlDevice_t": "device", "nvmlGpuInstance_t": "instance", "nvmlComputeInstance_t": "compute"}.get(
        handles[0] if handles else "", "system")


def used_structs(chosen, facts):
    """Structs that are written, each after those inside it."""
    seen = []

    def visit(name):
        if name not in facts.structs or name in seen:
            return
        for inner in nvml.header.used_types([m for m in facts.structs[name].members if not m.pointer]):
            visit(inner)
        seen.append(name)

    for _, params in chosen:
        for p in params:
            if p.kind in ("out", "array"):
                visit(p.type)
    return seen


def main(argv):
    if len(argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    facts = nvml.fact_files.read(nvml.FACTS)
    chosen = [(f, p) for f, p in nvml.functions(facts) if reads(f.name) and f.name not in BY_HAND]
    extra = ["nvmlFieldValue_t", "nvmlProcessDetail_v1_t", "nvmlProcessUtilizationInfo_v1_t", "nvmlAccountingStats_t"]
    structs = used_structs(chosen, facts)
    structs += [name for name in extra if name not in structs and name != "nvmlFieldValue_t"]
    text = HEAD + "".join(emit_writer(facts.structs[name], facts) for name in structs)
    text += "".join(emit_call(f, p, facts) for f, p in chosen)
    for kind in ("system", "device", "pair", "instance", "compute"):
        rows = "".join(f"    rec_{f.name},\n" for f, p in chosen if kind_of(p) == kind)
        text += f"\nstatic void (*const {kind}_calls[])(Rec *r) = {{\n{rows}}};\n"
    Path(argv[1]).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
