# SPDX-License-Identifier: Apache-2.0
"""Runs PTX text: each kernel becomes a Python generator, one per thread, that yields where the threads of a warp or of a block
meet. It knows the instructions that the kernels of src/source/cuda use, by the PTX ISA, and refuses others. Registers that
were not written hold rubbish, a copy by cp.async arrives only when it is waited for, and each warp runs as far as it can before
the next one does, from either end, or they take turns by chance, so that a missing wait or barrier shows. Loads and stores must
be aligned and inside an allocation."""
import collections
import math
import random
import re
import struct

import ptx_shared
import ptx_tensor
from ptx_tensor import F32, bits32, e4m3_of

M32, M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
POISON = {"b16": 0x5A5A, "b32": 0xDEADBEEF, "b64": 0xDEADBEEF5A5A5A5A, "f32": float("nan"), "f64": float("nan"), "pred": True}
# The upper half of an address of shared memory.
SHARED = 0xFFFF
WIDTHS = {"8": 1, "16": 2, "32": 4, "64": 8}
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "neu": "!="}
SPECIAL = {"%tid.x": "tid", "%ntid.x": "env.threads", "%ctaid.x": "env.block", "%ctaid.y": "0", "%ctaid.z": "0", "%nctaid.x": "env.blocks",
           "%nctaid.y": "1", "%nctaid.z": "1", "%smid": "env.smid", "%clock": f"(env.clock() & {M32})", "%clock64": "env.clock()",
           "%globaltimer": "env.nanoseconds()", "%laneid": "(tid & 31)"}

ARGS = ("a", "b", "c", "result", "stop", "count", "m", "n", "k", "rounds", "pattern", "seed", "flags", "pad")
Result = collections.namedtuple("Result", "smid stopped clocks begin_ns end_ns checksum errors first_bad want got")
Shared = collections.namedtuple("Shared", "offset size")


class Fault(Exception):
    """The text does what a GPU would not let pass, or what is not defined."""


def fma32(a, b, c):
    """One rounding: the sum in double is rounded to odd, which float then rounds right."""
    product = a * b
    total = product + c
    part = total - product
    error = (product - (total - part)) + (c - part)
    if error and not struct.unpack("<Q", struct.pack("<d", total))[0] & 1:
        total = math.nextafter(total, math.inf if error > 0 else -math.inf)
    return F32(total)


def fma64(a, b, c):
    if not (a.is_integer() and b.is_integer() and c.is_integer()):
        raise Fault("fma.rn.f64 of other numbers than integers is not known here")
    return float(int(a) * int(b) + int(c))


def float32(x):
    return struct.unpack("<f", struct.pack("<I", x))[0]


def bits64(x):
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def float64(x):
    return struct.unpack("<d", struct.pack("<Q", x))[0]


def prmt(a, b, selector):
    pool, made = a | b << 32, 0
    for n in range(4):
        which = selector >> 4 * n & 15
        byte = pool >> 8 * (which & 7) & 255
        made |= (255 if byte & 128 else 0) << 8 * n if which & 8 else byte << 8 * n
    return made


def dp4a(a, b, c, signed):
    bytes_a, bytes_b = (struct.unpack("<4b" if signed else "<4B", struct.pack("<I", x)) for x in (a, b))
    return (sum(x * y for x, y in zip(bytes_a, bytes_b)) + c) & M32


def bfe_u(a, at, size):
    return a >> (at & 255) & ((1 << (size & 255)) - 1)


def bfe_s(a, at, size):
    got = bfe_u(a, at, size)
    return (got - (1 << size) if got >> (size - 1) & 1 else got) & M32


class Memory:
    """Allocations, each at an address of its own upper half."""

    def __init__(self):
        self.regions = {}

    def add(self, data, name=None):
        name = name or len(self.regions) + 1
        self.regions[name] = data
        return name << 32

    def find(self, address, size):
        region = self.regions.get(address >> 32)
        at = address & M32
        if region is None or at + size > len(region) or at % size:
            raise Fault(f"access of {size} bytes at {address:#x}")
        return region, at

    def load(self, address, size):
        region, at = self.find(address, size)
        return int.from_bytes(region[at:at + size], "little")

    def store(self, address, size, value):
        region, at = self.find(address, size)
        region[at:at + size] = value.to_bytes(size, "little")

    def load_many(self, address, size, count):
        region, at = self.find(address, size * count)
        return [int.from_bytes(region[p:p + size], "little") for p in range(at, at + size * count, size)]

    def store_many(self, address, size, values):
        region, at = self.find(address, size * len(values))
        region[at:at + size * len(values)] = b"".join(value.to_bytes(size, "little") for value in values)


class Translator:
    """The text of one kernel as a Python function."""

    def __init__(self, name, body):
        self.name = name
        self.kinds, self.shared, self.shared_size = {}, {}, 0
        self.labels, self.meetings, self.accumulators = {}, 0, None
        statements = []
        for line in body.splitlines():
            line = line.split("//")[0].strip()
            if line.startswith(".reg"):
                kind, names = re.fullmatch(r"\.reg \.(\w+) (.*);", line).groups()
                self.kinds.update({one.strip(): kind for one in names.split(",")})
            elif line.startswith(".shared"):
                align, what, size = re.fullmatch(r"\.shared \.align (\d+) \.b8 (\w+)\[(\d+)\];", line).groups()
                self.shared_size = -(-self.shared_size // int(align)) * int(align)
                self.shared[what] = Shared(self.shared_size, int(size))
                self.shared_size += int(size)
            elif line.endswith(":"):
                statements.append(line)
            elif line:
                statements += [part.strip() for part in line.split(";") if part.strip()]
        self.blocks = [[]]
        for statement in statements:
            if statement.endswith(":"):
                self.blocks.append([])
                self.labels[statement[:-1]] = len(self.blocks) - 1
            else:
                self.blocks[-1].append(statement)
        # A wait may come before the first wgmma in the text.
        first = next((one for block in self.blocks for one in block if one.startswith("wgmma.mma_async")), None)
        if first:
            self.accumulators = [self.reg(name) for name in split_operands(split_operands(first.partition(" ")[2])[0][1:-1])]
        self.function = self.compile()

    def compile(self):
        lines = ["def thread(env, mem, tid):"]
        for name, kind in self.kinds.items():
            lines.append(f" {self.reg(name)} = env.poison[{kind!r}]")
        lines += [" pc = 0", " while True:"]
        for number, block in enumerate(self.blocks):
            lines.append(f"  if pc == {number}:")
            for statement in block:
                lines += ["   " + line for line in self.statement(statement)]
            lines.append(f"   pc = {number + 1}")
        lines.append("  raise Fault('fell off the end')")
        scope = dict(globals())
        exec(compile("\n".join(lines), self.name, "exec"), scope)
        return scope["thread"]

    @staticmethod
    def reg(name):
        return "r_" + name[1:]

    def value(self, text, bits=32):
        """An operand as an expression."""
        text = text.strip()
        if text in SPECIAL:
            return SPECIAL[text]
        if text in self.kinds:
            return self.reg(text)
        if text in self.shared:
            return str(SHARED << 32 | self.shared[text].offset) if bits == 64 else str(self.shared[text].offset)
        if match := re.fullmatch(r"0f([0-9a-fA-F]{8})", text):
            return repr(float32(int(match[1], 16)))
        if match := re.fullmatch(r"0d([0-9a-fA-F]{16})", text):
            return repr(float64(int(match[1], 16)))
        return str(int(text, 0) & ((1 << bits) - 1))

    def statement(self, text):
        guard = ""
        if text.startswith("@"):
            predicate, text = text.split(None, 1)
            guard = f"if not {self.reg(predicate[2:])}: " if predicate[1] == "!" else f"if {self.reg(predicate[1:])}: "
        opcode, _, rest = text.partition(" ")
        operands = split_operands(rest)
        parts = opcode.split(".")
        method = getattr(self, "do_" + parts[0], None)
        if method is None:
            raise Fault(f"{self.name}: {text} is not known here")
        made = method(parts, operands)
        made = [made] if isinstance(made, str) else made
        if guard and len(made) == 1:
            return [guard + made[0]]
        return [guard] + [" " + line for line in made] if guard else made

    def signed(self, expression, kind):
        return {"s32": f"(({expression} ^ 0x80000000) - 0x80000000)", "s64": f"(({expression} ^ {1 << 63}) - {1 << 63})"}.get(kind, expression)

    def arithmetic(self, parts, ops, operator):
        """d = a operator b, wrapped or rounded by its type."""
        kind = parts[-1]
        bits = int(kind[1:])
        d, a, b = self.reg(ops[0]), self.value(ops[1], bits), self.value(ops[2], bits)
        if kind == "f32":
            return f"{d} = F32({a} {operator} {b})"
        if kind == "f64":
            return f"{d} = {a} {operator} {b}"
        return f"{d} = ({a} {operator} {b}) & {M64 if bits == 64 else M32}"

    def do_add(self, parts, ops):
        return self.arithmetic(parts, ops, "+")

    def do_sub(self, parts, ops):
        return self.arithmetic(parts, ops, "-")

    def do_mul(self, parts, ops):
        if parts[1] == "wide":
            bits = int(parts[2][1:])
            a, b = (self.signed(self.value(op, bits), parts[2]) for op in ops[1:])
            return f"{self.reg(ops[0])} = ({a} * {b}) & {(1 << 2 * bits) - 1}"
        return self.arithmetic(parts, ops, "*")

    def do_mad(self, parts, ops):
        bits = int(parts[2][1:])
        a, b = (self.value(op, bits) for op in ops[1:3])
        if parts[1] == "wide":
            a, b, bits = self.signed(a, parts[2]), self.signed(b, parts[2]), 2 * bits
        return f"{self.reg(ops[0])} = ({a} * {b} + {self.value(ops[3], bits)}) & {(1 << bits) - 1}"

    def do_fma(self, parts, ops):
        return f"{self.reg(ops[0])} = fma{parts[-1][1:]}({', '.join(self.value(op) for op in ops[1:])})"

    def do_neg(self, parts, ops):
        a = self.value(ops[1])
        return f"{self.reg(ops[0])} = -{a}" if parts[1][0] == "f" else f"{self.reg(ops[0])} = -{a} & {(1 << int(parts[1][1:])) - 1}"

    def do_rem(self, parts, ops):
        assert parts[1] == "u32"
        return f"{self.reg(ops[0])} = {self.value(ops[1])} % {self.value(ops[2])}"

    def do_div(self, parts, ops):
        assert parts[1] == "u32"
        return f"{self.reg(ops[0])} = {self.value(ops[1])} // {self.value(ops[2])}"

    def do_min(self, parts, ops):
        assert parts[1][0] == "u"
        return f"{self.reg(ops[0])} = {parts[0]}({self.value(ops[1], 64)}, {self.value(ops[2], 64)})"

    do_max = do_min

    def do_and(self, parts, ops):
        return f"{self.reg(ops[0])} = {self.value(ops[1], 64)} & {self.value(ops[2], 64)}"

    def do_or(self, parts, ops):
        return f"{self.reg(ops[0])} = {self.value(ops[1], 64)} | {self.value(ops[2], 64)}"

    def do_xor(self, parts, ops):
        return f"{self.reg(ops[0])} = {self.value(ops[1], 64)} ^ {self.value(ops[2], 64)}"

    def do_not(self, parts, ops):
        if parts[1] == "pred":
            return f"{self.reg(ops[0])} = not {self.value(ops[1])}"
        return f"{self.reg(ops[0])} = {self.value(ops[1])} ^ {(1 << int(parts[1][1:])) - 1}"

    def do_shl(self, parts, ops):
        return f"{self.reg(ops[0])} = {self.value(ops[1])} << {self.value(ops[2])} & {(1 << int(parts[1][1:])) - 1}"

    def do_shr(self, parts, ops):
        bits = int(parts[1][1:])
        return f"{self.reg(ops[0])} = {self.signed(self.value(ops[1], bits), parts[1])} >> {self.value(ops[2])} & {(1 << bits) - 1}"

    def do_bfe(self, parts, ops):
        return f"{self.reg(ops[0])} = bfe_{parts[1][0]}({', '.join(self.value(op) for op in ops[1:])})"

    def do_prmt(self, parts, ops):
        return f"{self.reg(ops[0])} = prmt({', '.join(self.value(op) for op in ops[1:])})"

    def do_dp4a(self, parts, ops):
        return f"{self.reg(ops[0])} = dp4a({', '.join(self.value(op) for op in ops[1:])}, {parts[1][0] == 's'})"

    def do_setp(self, parts, ops):
        kind = parts[-1]
        a, b = (self.signed(self.value(op, int(kind[1:])), kind) for op in ops[1:3])
        made = f"{a} {COMPARE[parts[1]]} {b}"
        if parts[1] == "neu":
            made = f"not {a} == {b}"
        if len(parts) == 4:
            made = f"({made}) {parts[2]} {self.value(ops[3])}"
        return f"{self.reg(ops[0])} = {made}"

    def do_selp(self, parts, ops):
        bits = int(parts[1][1:])
        return f"{self.reg(ops[0])} = {self.value(ops[1], bits)} if {self.value(ops[3])} else {self.value(ops[2], bits)}"

    def do_mov(self, parts, ops):
        if ops[0].startswith("{"):
            halves = split_operands(ops[0][1:-1])
            size = int(parts[1][1:]) // len(halves)
            source = self.value(ops[1])
            if self.kinds.get(ops[1], "b")[0] == "f":
                source = f"bits{parts[1][1:]}({source})"
            return [f"{self.reg(half)} = {source} >> {size * n} & {(1 << size) - 1}" for n, half in enumerate(halves)]
        d, bits = self.reg(ops[0]), int(parts[1][1:]) if parts[1] != "pred" else 1
        if ops[1].startswith("{"):
            halves = split_operands(ops[1][1:-1])
            made = " | ".join(f"{self.value(half)} << {bits // len(halves) * n}" for n, half in enumerate(halves))
            return f"{d} = {made}"
        source, to, of = self.value(ops[1], bits), self.kinds[ops[0]], self.kinds.get(ops[1])
        if to[0] == "f" and of and of[0] == "b":
            return f"{d} = float{bits}({source})"
        if to[0] == "b" and of and of[0] == "f":
            return f"{d} = bits{bits}({source})"
        return f"{d} = {source}"

    def do_cvt(self, parts, ops):
        d, to, of = self.reg(ops[0]), parts[-2], parts[-1]
        sources = [self.value(op) for op in ops[1:]]
        if to == "e4m3x2":
            return f"{d} = e4m3_of({sources[0]}) << 8 | e4m3_of({sources[1]})"
        source = self.signed(sources[0], of)
        if to == "f32" and of == "s32":
            return f"{d} = F32(float({source}))"
        if to == "f64" and of in ("s64", "s32"):
            return f"{d} = float({source})"
        if to == "f16" and of == "f32":
            return f"{d} = int.from_bytes(struct.pack('<e', {source}), 'little')"
        assert to[0] in "us" and of[0] in "us", parts
        return f"{d} = {source} & {(1 << int(to[1:])) - 1}"

    def address(self, text, space):
        base, _, offset = text.strip()[1:-1].partition("+")
        base = self.value(base, 32 if space == "shared" else 64)
        made = f"{base} + {offset}" if offset else base
        return f"{SHARED << 32} + {made}" if space == "shared" else made

    def do_ld(self, parts, ops):
        if parts[1] == "param":
            offset = int(ops[1][1:-1].partition("+")[2] or 0)
            return f"{self.reg(ops[0])} = int.from_bytes(env.args[{offset}:{offset + WIDTHS[parts[2][1:]]}], 'little')"
        size = WIDTHS[parts[-1][1:]]
        address = self.address(ops[1], "shared" if "shared" in parts else "global")
        convert = f"float{size * 8}" if parts[-1][0] == "f" else ""
        if ops[0].startswith("{"):
            names = split_operands(ops[0][1:-1])
            lines = [f"loaded = mem.load_many({address}, {size}, {len(names)})"]
            return lines + [f"{self.reg(name)} = {convert}(loaded[{n}])" for n, name in enumerate(names)]
        return f"{self.reg(ops[0])} = {convert}(mem.load({address}, {size}))"

    def do_st(self, parts, ops):
        size = WIDTHS[parts[-1][1:]]
        address = self.address(ops[0], "shared" if "shared" in parts else "global")
        convert = f"bits{size * 8}" if parts[-1][0] == "f" else ""
        if ops[1].startswith("{"):
            values = ", ".join(f"{convert}({self.value(op)})" for op in split_operands(ops[1][1:-1]))
            return f"mem.store_many({address}, {size}, ({values}))"
        return f"mem.store({address}, {size}, {convert}({self.value(ops[1], size * 8)}))"

    def do_red(self, parts, ops):
        size, address = WIDTHS[parts[-1][1:]], self.address(ops[0], "shared")
        old = f"mem.load({address}, {size})"
        new = {"add": f"({old} + {self.value(ops[1])}) & {(1 << 8 * size) - 1}", "min": f"min({old}, {self.value(ops[1])})"}[parts[2]]
        return f"mem.store({address}, {size}, {new})"

    def do_bra(self, parts, ops):
        return [f"pc = {self.labels[ops[0]]}", "continue"]

    def do_ret(self, parts, ops):
        return "return"

    def meet(self, who, what, operands="()"):
        self.meetings += 1
        return f"yield ({who!r}, {self.meetings}, {what!r}, {operands})"

    def do_bar(self, parts, ops):
        if parts[1] == "warp":
            return self.meet("warp", "sync")
        if parts[1] == "red":
            return f"{self.reg(ops[0])} = " + self.meet("block", parts[2], self.value(ops[2]))
        return self.meet("block", "sync")

    def do_vote(self, parts, ops):
        assert parts[1:] == ["sync", "any", "pred"]
        return f"{self.reg(ops[0])} = " + self.meet("warp", "any", self.value(ops[1]))

    def vector(self, text):
        return "(" + ", ".join(self.value(op) for op in split_operands(text[1:-1])) + ",)"

    def do_mma(self, parts, ops):
        assert parts[1:3] == ["sync", "aligned"] and parts[4:6] == ["row", "col"], parts
        got = ", ".join(self.reg(name) for name in split_operands(ops[0][1:-1]))
        operands = ", ".join(self.vector(op) for op in ops[1:])
        shape = ".".join([parts[3], *parts[6:]])
        return f"({got},) = " + self.meet("warp", "mma " + shape, f"({operands})")

    def do_ldmatrix(self, parts, ops):
        assert parts[1:4] == ["sync", "aligned", "m8n8"] and parts[-2:] == ["shared", "b16"], parts
        got = ", ".join(self.reg(name) for name in split_operands(ops[0][1:-1]))
        return f"({got},) = " + self.meet("warp", "ldmatrix " + parts[4] + (" trans" if "trans" in parts else ""),
                                          self.address(ops[1], "shared"))

    def do_fence(self, parts, ops):
        name = ".".join(parts)
        assert name in ("fence.proxy.async.shared::cta", "fence.mbarrier_init.release.cluster"), name
        return f"env.shared.fences.add(({name!r}, tid))"

    def do_wgmma(self, parts, ops):
        """The registers of the accumulators hold rubbish until the last group has been waited for."""
        if parts[1] == "mma_async":
            names = [self.reg(name) for name in split_operands(ops[0][1:-1])]
            assert self.accumulators in (None, names), "accumulators of one list alone"
            self.accumulators = names
            shape, signs = ".".join(parts[4:]), [int(op) for op in ops[3:]]
            assert signs[0] == 1 and signs[3:] in ([], [0, 0]), ops
            got = self.meet("block", "wgmma " + shape, f"(({', '.join(names)},), {self.value(ops[1], 64)}, {self.value(ops[2], 64)}, {signs[1] * signs[2]})")
            return f"({', '.join(names)},) = " + got
        if parts[1] == "wait_group":
            names = ", ".join(self.accumulators)
            return ["got = " + self.meet("block", "wgmma_wait", ops[0]), f"if got: ({names},) = got"]
        return self.meet("block", "wgmma_" + parts[1])

    def do_mbarrier(self, parts, ops):
        if parts[1] == "init":
            return f"env.shared.init({self.address(ops[0], 'shared')}, {self.value(ops[1])})"
        assert parts[1:3] == ["try_wait", "parity"], parts
        return f"{self.reg(ops[0])} = env.shared.try_wait({self.address(ops[1], 'shared')}, {self.value(ops[2])})"

    def do_tcgen05(self, parts, ops):
        what = parts[1]
        if what == "alloc":
            return self.meet("warp", "alloc", f"({self.address(ops[0], 'shared')}, {self.value(ops[1])})")
        if what == "dealloc":
            return self.meet("warp", "dealloc", f"({self.value(ops[0])}, {self.value(ops[1])})")
        if what == "mma":
            assert parts[2:] == ["cta_group::1", "kind::f16"], parts
            a, b = self.value(ops[1], 64), self.value(ops[2], 64)
            return f"env.shared.issue(tid, {self.value(ops[0][1:-1])}, {a}, {b}, {self.value(ops[3])}, {self.value(ops[4])})"
        if what == "commit":
            return f"env.shared.commit(tid, {self.address(ops[0], 'shared')})"
        if what == "ld":
            names = [self.reg(name) for name in split_operands(ops[0][1:-1])]
            assert parts[2:5] == ["sync", "aligned", "32x32b"] and parts[5] == f"x{len(names)}", parts
            return f"({', '.join(names)},) = " + self.meet("warp", f"tensor_load {len(names)}", self.value(ops[1][1:-1]))
        assert what in ("fence::before_thread_sync", "fence::after_thread_sync", "wait::ld", "relinquish_alloc_permit"), what
        return "pass"

    def do_cp(self, parts, ops):
        if parts[2] == "commit_group":
            return "env.groups[tid].append([])"
        if parts[2] in ("wait_group", "wait_all"):
            return f"env.arrive(tid, {ops[0] if ops else 0})"
        assert parts[2] in ("ca", "cg"), parts
        to, of = self.address(ops[0], "shared"), self.address(ops[1], "global")
        return f"env.groups[tid][-1].append(({to}, {of}, {ops[2]}))"


def split_operands(text):
    """Operands are divided by commas outside of braces and brackets."""
    parts, depth, now = [], 0, ""
    for letter in text:
        depth += (letter in "{[") - (letter in "}]")
        if letter == "," and not depth:
            parts.append(now.strip())
            now = ""
        else:
            now += letter
    return parts + [now.strip()] if now.strip() else parts


class Module:
    def __init__(self, text):
        self.texts = dict(re.findall(r"\.visible \.entry (\w+)\([^)]*\)\n(.*?)\n\}\n", text, re.DOTALL))
        self.limits = {name: (int(re.search(r"\.(?:maxntid|reqntid) (\d+)", body)[1]), "reqntid" in body) for name, body in self.texts.items()}
        self.made = {}

    def kernel(self, name):
        if name not in self.made:
            self.made[name] = Translator(name, self.texts[name].split("{\n", 1)[1])
        return self.made[name]


class Machine:
    """Memory and a clock. `order`: up, down, or the seed of chance. `corrupt`: called with the number of each
    mma and its 32 lanes of results, which it may change. `tick`: clocks from one reading of a clock to the next."""

    def __init__(self, order="up", tick=1000):
        self.memory = Memory()
        self.order, self.tick, self.now = order, tick, 0
        self.corrupt = None
        self.mmas, self.products = 0, {}
        self.stop = self.memory.add(bytearray(4))
        self.args = self.groups = self.poison = None
        self.block = self.blocks = self.threads = self.smid = 0

    def alloc(self, data):
        return self.memory.add(bytearray(data))

    def read(self, address, form):
        """All of an allocation, as numbers of struct's format."""
        data = self.memory.regions[address >> 32]
        return list(struct.unpack(f"<{len(data) // struct.calcsize(form)}{form}", data))

    def data(self, address):
        return self.memory.regions[address >> 32]

    def clock(self):
        self.now += self.tick
        return self.now

    def nanoseconds(self):
        self.now += self.tick
        return 1000000 + self.now

    def arrive(self, tid, left):
        """The copies of all groups but the newest `left` arrive. The last entry is the group that is not yet committed."""
        groups = self.groups[tid]
        while len(groups) - 1 > left:
            for to, of, size in groups.pop(0):
                self.memory.find(to, size)
                self.memory.find(of, size)
                self.memory.store_many(to, 1, self.memory.load_many(of, 1, size))

    def launch(self, module, name, blocks=1, threads=None, only=None, **args):
        """Runs a kernel to its end. Returns the Result of each block; `only`: of this block alone, the others are not run."""
        limit, exact = module.limits[name]
        threads = threads or limit
        if threads > limit or exact and threads != limit:
            raise Fault(f"{name} is not for {threads} threads")
        run = range(blocks) if only is None else (only,)
        result = self.alloc(b"\xaa" * 64 * len(run))
        values = {**dict.fromkeys(ARGS, 0), "result": (result - 64 * run[0]) & M64, "stop": self.stop, **args}
        self.args = struct.pack("<6Q8I", *(values[field] for field in ARGS))
        self.poison = POISON if self.order == "up" else {"b16": 1, "b32": 3, "b64": 1 << 40, "f32": 1e30, "f64": 1e300, "pred": False}
        kernel = module.kernel(name)
        self.blocks, self.threads = blocks, threads
        for self.block in run:
            self.smid = 100 + self.block
            self.run_block(kernel)
        return [Result(*struct.unpack_from("<2I6Q2I", self.data(result), 64 * number)) for number in range(len(run))]

    def run_block(self, kernel):
        self.memory.add(bytearray(b"\x5a" * kernel.shared_size), SHARED)
        self.groups = [[[]] for _ in range(self.threads)]
        tensor = ptx_tensor.Tensor(self)
        self.shared = ptx_shared.Shared(self)
        warps = [list(range(base, min(base + 32, self.threads))) for base in range(0, self.threads, 32)]
        chance = None if self.order in ("up", "down") else random.Random(self.order)
        if self.order == "down":
            warps = [warp[::-1] for warp in warps[::-1]]
        threads = {tid: kernel.function(self, self.memory, tid) for warp in warps for tid in warp}
        wanted, replies = {}, {tid: None for tid in threads}
        while threads:
            going = [warp for warp in warps if any(tid in replies for tid in warp)]
            if not going:
                self.meet_block(wanted, replies)
                continue
            warp = chance.choice(going) if chance else going[0]
            for tid in chance.sample(warp, len(warp)) if chance else warp:
                if tid in replies:
                    try:
                        wanted[tid] = threads[tid].send(replies.pop(tid))
                    except StopIteration:
                        del threads[tid]
                        wanted.pop(tid, None)
            self.meet_warp(tensor, sorted(warp), wanted, replies)

    def meet_warp(self, tensor, lanes, wanted, replies):
        """Does what a whole warp has come to, if it has."""
        asked = [wanted.get(tid) for tid in lanes]
        if None in asked or any(ask[0] != "warp" for ask in asked):
            return
        if len({ask[1] for ask in asked}) > 1:
            raise Fault(f"warp {lanes[0] // 32} has come apart: {sorted({ask[1:3] for ask in asked})}")
        what, operands = asked[0][2], [ask[3] for ask in asked]
        if what == "any":
            got = [any(operands)] * len(operands)
        elif what == "sync":
            got = [None] * len(operands)
        elif len(operands) != 32:
            raise Fault(f"{what} by {len(operands)} threads")
        elif hasattr(self.shared, what.partition(" ")[0]):
            got = self.shared.do(what, operands)
        else:
            got = tensor.do(what, operands)
        for tid, value in zip(lanes, got):
            del wanted[tid]
            replies[tid] = value

    def meet_block(self, wanted, replies):
        if len(wanted) != self.threads or any(ask[0] != "block" for ask in wanted.values()) or len({ask[1] for ask in wanted.values()}) > 1:
            raise Fault(f"nothing goes on: {collections.Counter(ask[:3] for ask in wanted.values())} of {self.threads} threads")
        what = wanted[0][2]
        asked = [wanted[tid][3] for tid in range(self.threads)]
        if what.startswith("wgmma"):
            if self.threads != 128:
                raise Fault(f"{what} by {self.threads} threads")
            got = self.shared.do(what, asked)
        else:
            got = [any(asked) if what == "or" else None] * self.threads
        wanted.clear()
        replies.update(enumerate(got))
