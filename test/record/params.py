# SPDX-License-Identifier: Apache-2.0
"""What each parameter of an NVML function is for, from the fact files: shared by the recorder and the fuzzer.

A function becomes a list of Param in the order of its C parameters. Kinds:
  handle    a handle by value (device, instance, event set, sample)
  value     an integer or enum by value
  text      a NUL-ended text that is read
  read      a struct that is read only
  buffer    a text that is written; its length is the next parameter, or `room` bytes where there is none
  length    the length in bytes of the buffer or array before it
  words     the number of words of the array after it (by value)
  count     in: places in the arrays; out: how many there are
  array     of elements; `count` or `words` say how many, otherwise `room` is what always suffices
  out       one element that is written (or read and written)
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "sim" / "nvml" / "gen"))
import facts as fact_files  # noqa: E402  (its folder is only known now)
import header  # noqa: E402

FACTS = Path(__file__).resolve().parents[2] / "sim" / "nvml" / "facts"


@dataclass
class Param:
    kind: str
    type: str  # without the '*'
    name: str
    room: int = 0
    sized_by: str = ""  # name of the parameter that says how many


def split(text):
    type_, star, name = re.fullmatch(r"(.*?)\s*(\*?)(\w+)", text).groups()
    return type_, bool(star), name


def is_count(raw, i):
    """Whether parameter i is the count of an array beside it: (count, array...) or (array, count)."""
    type_, star, name = raw[i]
    if type_ != "unsigned int" or not star or name != "count":
        return ""
    if i + 1 < len(raw) and raw[i + 1][1]:
        return "after"
    return "before" if i > 0 and raw[i - 1][1] else ""


def classify(function, facts):
    handles = set(facts.types.handles)
    raw = [] if function.params == ["void"] else [split(p) for p in function.params]
    out = []
    for i, (type_, star, name) in enumerate(raw):
        before = out[-1] if out else None
        if is_count(raw, i):
            out.append(Param("count", type_, name))
            if is_count(raw, i) == "before":
                before.kind, before.sized_by = "array", name
                if re.search("Instances|Placements", function.name):  # no capacity: the caller provides for a board
                    before.room, before.sized_by = 16, ""
        elif before and before.kind in ("count", "array") and star and before.sized_by != before.name:
            out.append(Param("array", type_, name, 0, before.sized_by or before.name))
        elif star and type_ == "char":
            out.append(Param("buffer", type_, name, 64))
        elif before and before.kind == "buffer" and name == "length":
            before.sized_by = name
            out.append(Param("length", type_, name))
        elif star and type_ == "const char":
            out.append(Param("text", "char", name))
        elif star and type_.startswith("const "):
            out.append(Param("read", type_[6:], name))
        elif star and before and before.kind == "value" and before.name in ("words", "count"):
            before.kind = "words"
            out.append(Param("array", type_, name, 0, before.name))
        elif star:
            out.append(Param("out", type_, name))
        elif before and before.kind == "out" and name == "size_bytes":
            before.kind, before.sized_by = "array", name
            out.append(Param("length", type_, name))
        else:
            out.append(Param("handle" if type_ in handles else "value", type_, name))
    return out


def functions(facts=None):
    """(Function, [Param]) of every function with a signature that returns a code."""
    facts = facts or fact_files.read(FACTS)
    return [(f, classify(f, facts)) for f in facts.exported() if f.handwritten and f.result == "nvmlReturn_t"]


def struct_version(type_, facts):
    """Whether the struct begins with a version tag."""
    struct = facts.structs.get(type_)
    return bool(struct and struct.members and struct.members[0].name == "version")
