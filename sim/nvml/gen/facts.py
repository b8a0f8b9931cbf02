# SPDX-License-Identifier: Apache-2.0
"""Readers of the fact files about the NVML interface: structs, types and constants, functions, refusals."""

import csv
import re
from dataclasses import dataclass, field
from pathlib import Path

GENERATIONS = (535, 550, 590, 610)
MEASURED = (535, 590, 610)  # of these the exports were read; those of 550 are what 535 has and what came with CUDA 12.3 and 12.4
ADDED_550 = ("12.3", "12.4")
C_TYPES = {
    "u8": "unsigned char",
    "u16": "unsigned short",
    "u32": "unsigned int",
    "u64": "unsigned long long",
    "i64": "long long",
}


class FactError(Exception):
    """A fact file that contradicts itself or cannot be read."""


@dataclass
class Member:
    """One member of a struct or union. `number` is its offset, or its size in a union."""

    number: int
    type: str  # the C type; "struct" and "union" for a nested one
    name: str  # "" for an anonymous one
    array: str  # "[16]" or ""
    pointer: bool = False
    inner: list = field(default_factory=list)


@dataclass
class Struct:
    name: str
    size: int
    union: bool
    members: list


@dataclass
class EnumType:
    name: str
    members: list  # (name, value)


@dataclass
class Types:
    handles: list = field(default_factory=list)
    scalars: list = field(default_factory=list)  # (C type, name)
    enums: list = field(default_factory=list)
    defines: list = field(default_factory=list)  # (title, suffix, [(name, value)])


@dataclass
class Function:
    name: str
    priority: int
    drivers: tuple  # generations that export it, oldest first
    result: str = "nvmlReturn_t"
    params: list = field(default_factory=list)
    handwritten: bool = False
    refusal: str = "NVML_ERROR_NOT_SUPPORTED"
    deprecated_since: int = 0

    @property
    def stubbed(self):
        return bool(self.drivers) and not self.handwritten


def lines(path):
    """(line number, text) of the lines that are neither empty nor a comment."""
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            yield number, line.strip()


def closing_brace(text, start):
    depth = 0
    for pos in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[pos], 0)
        if depth == 0:
            return pos
    raise FactError(f"no closing brace: {text[start:start + 60]}")


def parse_declarator(text):
    match = re.fullmatch(r"(.*?)\s*(\*?)(\w+)((?:\[\d+\])?)", text)
    if not match:
        raise FactError(f"not a member: {text}")
    return match.groups()


def parse_members(text):
    members = []
    pos = 0
    while text[pos:].strip():
        head = re.compile(r"\s*(\d+):\s*").match(text, pos)
        if not head:
            raise FactError(f"not a member list: {text[pos:pos + 60]}")
        number, pos = int(head.group(1)), head.end()
        nested = re.compile(r"(struct|union) \{").match(text, pos)
        inner = []
        if nested:
            brace = closing_brace(text, nested.end() - 1)
            inner = parse_members(text[nested.end():brace])
            end = text.index(";", brace)
            rest = text[brace + 1:end].strip()
            _, _, name, array = parse_declarator("x " + rest) if rest else ("", "", "", "")
            members.append(Member(number, nested.group(1), name, array, False, inner))
        else:
            end = text.index(";", pos)
            ctype, star, name, array = parse_declarator(text[pos:end])
            members.append(Member(number, C_TYPES.get(ctype, ctype), name, array, bool(star)))
        pos = end + 1
    return members


def read_layouts(path):
    """Structs by name, in file order; enum lines are left to layout_enums."""
    structs = {}
    for number, line in lines(path):
        match = re.fullmatch(r"(nvml\w+) \[(\d+)\] (.*)", line)
        if not match:
            raise FactError(f"{path}:{number}: not a layout")
        name, size, body = match.groups()
        if body.startswith("enum"):
            continue
        union = name.endswith("Params_t") or name in ("nvmlValue_t", "nvmlUUIDValue_t")
        structs[name] = Struct(name, int(size), union, parse_members(body))
    return structs


def layout_enums(path):
    """Enum members as measured; the last one of a line that was cut off is dropped."""
    enums = {}
    for _, line in lines(path):
        match = re.fullmatch(r"(nvml\w+) \[4\] enum(?: \w+)? \{([^}]*)(\}?)", line)
        if not match:
            continue
        name, body, whole = match.groups()
        items = [item.strip() for item in body.split(",")]
        value, members = -1, []
        for item in items if whole else items[:-1]:
            constant, _, given = item.partition(" = ")
            value = int(given) if given else value + 1
            members.append((constant, value))
        enums[name] = members
    return enums


def read_types(path):
    types = Types()
    section, title = None, ""
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            title = line.lstrip("# ")
            continue
        words = line.split()
        if words[0] == "handle":
            types.handles.append(words[1])
        elif words[0] == "scalar":
            types.scalars.append((" ".join(words[1:-1]), words[-1]))
        elif words[0] == "enum":
            section = []
            types.enums.append(EnumType(words[1], section))
        elif words[0] == "define":
            section = []
            types.defines.append((title, "" if words[1] == "-" else words[1], section))
        else:
            section.append((words[0], int(words[1], 0)))
    return types


def read_symbols(path):
    functions = {}
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            exported = row["exported_by_real_driver"]
            drivers = {gen for gen in MEASURED if f"R{gen}" in exported}
            if 535 in drivers or drivers and row["introduced/versions"].split(";")[0] in ADDED_550:
                drivers.add(550)
            functions[row["symbol"]] = Function(row["symbol"], int(row["priority"]), tuple(sorted(drivers)))
    return functions


def read_handwritten(path):
    return [line for _, line in lines(path)]


def add_signatures(functions, path):
    seen = set()
    for number, line in lines(path):
        match = re.fullmatch(r"(?:(.*?[ *]))?(\w+)\((.*)\)", line)
        if not match or match.group(2) not in functions:
            raise FactError(f"{path}:{number}: not the signature of a known function: {line}")
        result, name, params = match.groups()
        if name in seen:
            raise FactError(f"{path}:{number}: second signature of {name}")
        seen.add(name)
        functions[name].result = (result or "nvmlReturn_t").strip()
        functions[name].params = [param.strip() for param in params.split(",")]
    return seen


def add_refusals(functions, path, codes):
    for number, line in lines(path):
        words = line.split()
        if len(words) not in (2, 4) or words[0] not in functions or words[1] not in codes:
            raise FactError(f"{path}:{number}: not a refusal of a known function: {line}")
        function = functions[words[0]]
        if len(words) == 2:
            if not function.stubbed:
                raise FactError(f"{path}:{number}: {words[0]} has a body of its own")
            function.refusal = words[1]
        else:
            if words[1] != "NVML_ERROR_DEPRECATED" or words[2] != "since" or int(words[3]) not in GENERATIONS:
                raise FactError(f"{path}:{number}: only 'NVML_ERROR_DEPRECATED since <driver>' can depend on the driver")
            function.deprecated_since = int(words[3])


@dataclass
class Facts:
    structs: dict
    types: Types
    functions: dict

    def exported(self):
        """Functions that some driver exports, in the order of strcmp."""
        return [self.functions[name] for name in sorted(self.functions) if self.functions[name].drivers]


def read(folder):
    folder = Path(folder)
    structs = read_layouts(folder / "layouts.txt")
    for name, struct in read_layouts(folder / "layouts_old.txt").items():
        if name in structs:
            raise FactError(f"layouts_old.txt: {name} is in layouts.txt too")
        structs[name] = struct
    types = read_types(folder / "enums.txt")
    functions = read_symbols(folder / "symbols.csv")
    signed = add_signatures(functions, folder / "signatures.txt")
    extra = read_handwritten(folder / "handwritten.txt")
    for name, function in functions.items():
        function.handwritten = function.priority < 3 or name in extra
        if function.handwritten != (name in signed):
            raise FactError(f"{name}: a body of its own and a signature go together")
    for name in extra:
        if name not in functions or functions[name].priority < 3:
            raise FactError(f"handwritten.txt: {name} is not a function of priority 3")
    codes = {name for enum in types.enums if enum.name == "nvmlReturn_t" for name, _ in enum.members}
    add_refusals(functions, folder / "refusals.txt", codes)
    return Facts(structs, types, functions)
