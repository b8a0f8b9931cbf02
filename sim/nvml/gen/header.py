# SPDX-License-Identifier: Apache-2.0
"""Emitters of nvml_abi.h (types and prototypes) and nvml_layout_check.c (their sizes and offsets)."""

import re
import textwrap

from facts import FactError

LICENCE = "/* SPDX-License-Identifier: Apache-2.0 */\n"
HEAD = (
    LICENCE
    + """/*
 * The NVML interface as this program sees it: handles, constants, structs and the functions with a body of their own.
 * Generated from the fact files in sim/nvml/facts; nvml_layout_check.c proves every size and offset. A function whose name has a
 * newer _vN keeps its oldest form, with the smaller struct of its callers. For 64-bit Linux only.
 */
#pragma once

#ifndef __LP64__
#error "the layouts are those of LP64"
#endif

#define NVML_EXPORT __attribute__((visibility("default")))

/* The number a caller puts into the `version` member: the size of its struct and the struct's version. */
#define NVML_STRUCT_TAG(type, ver) ((unsigned int)(sizeof(type) | ((unsigned long)(ver) << 24)))
"""
)


def constant(value, suffix):
    if suffix == "ULL":
        return f"0x{value:x}ULL"
    return f"({value})" if value < 0 else f"{value}{suffix}"


def emit_enum(enum):
    if any(value > 0x7FFFFFFF for _, value in enum.members):  # an enum constant of ISO C is an int
        text = f"typedef unsigned int {enum.name};\n"
        return text + "".join(f"#define {name} {value}U\n" for name, value in enum.members)
    text = "".join(f"    {name} = {value},\n" for name, value in enum.members)
    return f"typedef enum {{\n{text}}} {enum.name};\n"


def emit_members(members, indent):
    text = ""
    pad = "    " * indent
    for member in members:
        if member.inner:
            name = f" {member.name}{member.array}" if member.name else ""
            text += f"{pad}{member.type} {{\n{emit_members(member.inner, indent + 1)}{pad}}}{name};\n"
        else:
            star = "*" if member.pointer else ""
            text += f"{pad}{member.type} {star}{member.name}{member.array};\n"
    return text


def alias_of(struct, structs):
    """The versioned name of the same struct: nvmlUUID_t is nvmlUUID_v1_t."""
    base = re.fullmatch(r"(nvml\w+?)V?_t", struct.name)
    if re.search(r"_v\d+_t$", struct.name) or not base:
        return None
    for other in structs.values():
        if re.fullmatch(rf"{base.group(1)}_v\d+_t", other.name) and other.members == struct.members:
            return other.name
    return None


def used_types(members):
    for member in members:
        yield from used_types(member.inner) if member.inner else [member.type]


def ordered(structs):
    """Structs such that each comes after those it uses."""
    done, result = set(), []

    def visit(struct, path):
        if struct.name in done:
            return
        if struct.name in path:
            raise FactError(f"{struct.name} contains itself")
        needs = list(used_types(struct.members)) + [alias_of(struct, structs)]
        for need in needs:
            if need in structs:
                visit(structs[need], path + [struct.name])
        done.add(struct.name)
        result.append(struct)

    for struct in structs.values():
        visit(struct, [])
    return result


def emit_struct(struct, structs):
    alias = alias_of(struct, structs)
    if alias:
        return f"typedef {alias} {struct.name};\n"
    kind = "union" if struct.union else "struct"
    return f"typedef {kind} {{\n{emit_members(struct.members, 1)}}} {struct.name};\n"


def tags(structs):
    for struct in structs.values():
        match = re.fullmatch(r"(nvml\w+_v(\d+))_t", struct.name)
        if match and struct.members[0].name == "version":
            yield match.group(1), struct.name, int(match.group(2))


def emit_prototype(function):
    star = "" if function.result.endswith("*") else " "
    text = f"NVML_EXPORT {function.result}{star}{function.name}({', '.join(function.params)});"
    return "\n".join(textwrap.wrap(text, 120, subsequent_indent="    ", break_long_words=False)) + "\n"


def check_names(facts):
    known = {name for _, name in facts.types.scalars} | set(facts.types.handles) | set(facts.structs)
    known |= {enum.name for enum in facts.types.enums}
    used = {t for struct in facts.structs.values() for t in used_types(struct.members)}
    used |= set(re.findall(r"nvml\w+", " ".join(p for f in facts.functions.values() for p in f.params)))
    missing = sorted(t for t in used if t.startswith("nvml") and t not in known)
    if missing:
        raise FactError(f"types without a definition: {' '.join(missing)}")
    names = [n for e in facts.types.enums for n, _ in e.members] + [n for d in facts.types.defines for n, _ in d[2]]
    names += [name for name, _, _ in tags(facts.structs)] + list(facts.functions)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise FactError(f"names defined twice: {' '.join(twice)}")


def emit_abi(facts):
    check_names(facts)
    out = [HEAD, "\n/* handles */\n"]
    out += [f"typedef struct {name[:-2]}_st *{name};\n" for name in facts.types.handles]
    out += ["\n/* integers with a type name */\n"]
    out += [f"typedef {ctype} {name};\n" for ctype, name in facts.types.scalars]
    out += ["\n/* enums */\n"] + [emit_enum(enum) + "\n" for enum in facts.types.enums]
    for title, suffix, pairs in facts.types.defines:
        out.append(f"/* {title} */\n")
        out += [f"#define {name} {constant(value, suffix)}\n" for name, value in pairs] + ["\n"]
    out += ["/* structs */\n"] + [emit_struct(struct, facts.structs) for struct in ordered(facts.structs)]
    out += ["\n/* what the `version` member of a struct must hold */\n"]
    out += [f"#define {name} NVML_STRUCT_TAG({struct}, {ver})\n" for name, struct, ver in tags(facts.structs)]
    out += ["\n/* functions */\n"]
    out += [emit_prototype(function) for function in facts.exported() if function.handwritten]
    return "".join(out)


def offset_checks(struct, members, prefix, base, union):
    for member in members:
        path = prefix + member.name
        offset = base if union else member.number
        if not union and prefix and prefix.endswith("[0]."):
            offset = base + member.number
        if member.name:
            yield f'_Static_assert(offsetof({struct}, {path}) == {offset}, "{struct}.{path}");\n'
            if union:
                yield f'_Static_assert(sizeof((({struct} *)0)->{path}) == {member.number}, "{struct}.{path}");\n'
        if member.inner:
            inner = f"{path}[0]." if member.array else (f"{path}." if member.name else prefix)
            yield from offset_checks(struct, member.inner, inner, offset, member.type == "union")


def emit_layout_check(facts):
    text = LICENCE + "/* Every size and offset of nvml_abi.h against what was measured. Generated; has no code. */\n"
    text += '#include <stddef.h>\n\n#include "nvml_abi.h"\n\n'
    for enum in facts.types.enums:
        text += f'_Static_assert(sizeof({enum.name}) == 4, "{enum.name}");\n'
    for struct in facts.structs.values():
        text += f'_Static_assert(sizeof({struct.name}) == {struct.size}, "{struct.name}");\n'
        text += "".join(offset_checks(struct.name, struct.members, "", 0, struct.union))
    return text
