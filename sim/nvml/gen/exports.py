# SPDX-License-Identifier: Apache-2.0
"""Emitters of what follows from the list of exported functions: names, stubs, version scripts, export lists."""

from header import LICENCE

NAMES_HEAD = (
    LICENCE
    + """/*
 * Every function that some driver generation exports, sorted by name: an id, and a table for counters, rules and traces.
 * Generated from the fact files in sim/nvml/facts. Thread-safe: constant data only.
 */
#pragma once

#include <stddef.h>
#include <string.h>

/* X(name, priority, first driver generation that exports it, driver generation that answers "deprecated" from then on or 0) */
"""
)
NAMES_TAIL = """
typedef struct NvmlFnInfo {
    const char *name;
    unsigned short priority;
    unsigned short since;            /* driver generation: 535, 550, 590 or 610 */
    unsigned short deprecated_since; /* driver generation, 0 = never */
} NvmlFnInfo;

/* The row of a function; fn must be below NVML_FN_COUNT. */
static inline const NvmlFnInfo *nvml_fn_info(unsigned int fn)
{
#define X(name, priority, since, deprecated) {#name, priority, since, deprecated},
    static const NvmlFnInfo rows[NVML_FN_COUNT] = {NVML_FN_LIST(X)};
#undef X
    return &rows[fn];
}

/* The exported name of a function; NULL if fn is none. */
static inline const char *nvml_fn_name(unsigned int fn)
{
    return fn < NVML_FN_COUNT ? nvml_fn_info(fn)->name : NULL;
}

/* The id of an exported name, or NVML_FN_COUNT if no driver exports it. */
static inline NvmlFn nvml_fn_find(const char *name)
{
    unsigned int low = 0, high = NVML_FN_COUNT;
    while (low < high) {
        unsigned int middle = low + (high - low) / 2;
        int order = strcmp(name, nvml_fn_info(middle)->name);
        if (order == 0)
            return (NvmlFn)middle;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NVML_FN_COUNT;
}
"""
STUBS_HEAD = (
    LICENCE
    + """/*
 * Functions without a body of their own: each answers its refusal. They take no arguments in C: the callers' arguments sit in
 * registers or on the callers' stack and are not looked at. Generated.
 */
#include "sim/nvml/lib.h"

"""
)


def emit_names(facts):
    rows = [f"    X({f.name}, {f.priority}, {f.drivers[0]}, {f.deprecated_since})" for f in facts.exported()]
    text = NAMES_HEAD + "#define NVML_FN_LIST(X) \\\n" + " \\\n".join(rows) + "\n\ntypedef enum NvmlFn {\n"
    text += "".join(f"    NVML_FN_{f.name},\n" for f in facts.exported())
    return text + "    NVML_FN_COUNT\n} NvmlFn;\n" + NAMES_TAIL


def emit_stubs(facts):
    text = STUBS_HEAD
    for function in facts.exported():
        if function.stubbed:
            text += f"NVML_EXPORT nvmlReturn_t {function.name}(void);\n"
            text += f"nvmlReturn_t {function.name}(void)\n{{\n"
            text += f'    return nvml_stub_enter("{function.name}", {function.refusal});\n}}\n\n'
    return text


def exported_by(facts, generation):
    return [f.name for f in facts.exported() if generation in f.drivers]


def emit_map(facts, generation):
    names = "".join(f"        {name};\n" for name in exported_by(facts, generation))
    head = f"/* SPDX-License-Identifier: Apache-2.0 */\n/* The symbols of driver generation {generation}, without versions. */\n"
    return f"{head}{{\n    global:\n{names}    local:\n        *;\n}};\n"


def emit_export_list(facts, generation):
    return "".join(name + "\n" for name in exported_by(facts, generation))
