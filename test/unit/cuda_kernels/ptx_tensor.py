# SPDX-License-Identifier: Apache-2.0
"""What a warp does together, by the fragment layouts of the PTX ISA (chapter on mma): which thread has which element of a
matrix in which register. g is lane / 4, t is lane % 4."""
import operator
import struct

HALF = struct.unpack("<65536e", struct.pack("<65536H", *range(65536)))
BFLOAT = struct.unpack("<65536f", struct.pack("<65536I", *(x << 16 for x in range(65536))))


def e4m3(x):
    sign, exponent, mantissa = -1.0 if x & 128 else 1.0, x >> 3 & 15, x & 7
    if x & 127 == 127:
        return float("nan")
    return sign * (mantissa / 8 * 2.0**-6 if not exponent else (1 + mantissa / 8) * 2.0**(exponent - 7))


E4M3 = [e4m3(x) for x in range(256)]
E4M3_BITS = {value: x for x, value in reversed(list(enumerate(E4M3)))}


def e4m3_of(value):
    """Only of numbers that it has: the kernels use no others."""
    return E4M3_BITS[value]


def F32(x):
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return float("inf") if x > 0 else float("-inf")


def bits32(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


# Rows of A in eights (the register of row g + 8 follows that of g), groups along k, elements in a register, how they are decoded.
# An element has k = group * 4 * per + t * per + its place; B has the same k for column g; a result has columns 2 * t and 2 * t + 1.
SHAPES = {
    "m16n8k8.f32.f16.f16.f32": (2, 1, 2, HALF, "f"),
    "m16n8k16.f32.bf16.bf16.f32": (2, 2, 2, BFLOAT, "f"),
    "m16n8k8.f32.tf32.tf32.f32": (2, 2, 1, None, "f"),
    "m8n8k16.s32.s8.s8.s32": (1, 1, 4, None, "i"),
    "m16n8k32.s32.s8.s8.s32": (2, 2, 4, None, "i"),
    "m16n8k32.f32.e4m3.e4m3.f32": (2, 2, 4, E4M3, "f"),
    "m8n8k4.f64.f64.f64.f64": (1, 1, 1, None, "d"),
}


def unpack(register, per_register, decoder, kind):
    """The elements of a register."""
    if kind == "d":
        return (register,)
    if per_register == 1:  # tf32: the lower 13 bits are not looked at
        return struct.unpack("<f", struct.pack("<I", register & 0xFFFFE000))
    if kind == "i":
        return struct.unpack("<4b", struct.pack("<I", register))
    parts = struct.unpack("<2H" if per_register == 2 else "<4B", struct.pack("<I", register))
    return tuple(decoder[part] for part in parts)


def products(shape, lanes):
    """What an mma adds to the accumulators of each lane."""
    rows, groups, per, decoder, kind = SHAPES[shape]
    depth = groups * 4 * per
    a = [[None] * depth for _ in range(8 * rows)]
    b = [[None] * depth for _ in range(8)]  # by column
    for lane, (regs_a, regs_b) in enumerate(lanes):
        g, t = lane >> 2, lane & 3
        assert len(regs_a) == rows * groups and len(regs_b) == groups
        for number, register in enumerate(regs_a):
            at = number // rows * 4 * per + t * per
            a[g + 8 * (number % rows)][at:at + per] = unpack(register, per, decoder, kind)
        for number, register in enumerate(regs_b):
            at = number * 4 * per + t * per
            b[g][at:at + per] = unpack(register, per, decoder, kind)
    c = [[sum(map(operator.mul, row, column)) for column in b] for row in a]
    return [[c[(lane >> 2) + 8 * (number // 2)][2 * (lane & 3) + number % 2] for number in range(2 * rows)] for lane in range(32)]


class Tensor:
    """The units of one block."""

    def __init__(self, machine):
        self.machine = machine

    def do(self, what, lanes):
        kind, _, rest = what.partition(" ")
        return getattr(self, kind)(rest, lanes)

    def mma(self, shape, lanes):
        rows, kind = SHAPES[shape][0], SHAPES[shape][4]
        key = shape, tuple((a, b) for a, b, _ in lanes)
        cache = self.machine.products
        if key not in cache:
            if len(cache) > 1000:
                cache.clear()
            cache[key] = products(shape, key[1])
        results = []
        for number, (_, _, c) in enumerate(lanes):
            assert len(c) == 2 * rows
            added = [x + y for x, y in zip(c, cache[key][number])]
            results.append([x & 0xFFFFFFFF for x in added] if kind == "i" else [F32(x) for x in added] if kind == "f" else added)
        return self.finished(results)

    def finished(self, results):
        if self.machine.corrupt:
            self.machine.corrupt(self.machine.mmas, results)
        self.machine.mmas += 1
        return results

    def ldmatrix(self, rest, lanes):
        """Eight lanes at a time give the addresses of the eight rows of a matrix; each row is eight 16-bit elements."""
        count = int(rest.split()[0][1:])
        memory = self.machine.memory
        matrices = [[memory.load_many(lanes[8 * number + row], 2, 8) for row in range(8)] for number in range(count)]
        for number in range(8 * count):
            memory.find(lanes[number], 16)
        if rest.endswith("trans"):
            matrices = [[list(column) for column in zip(*matrix)] for matrix in matrices]
        return [[matrix[lane >> 2][2 * (lane & 3)] | matrix[lane >> 2][2 * (lane & 3) + 1] << 16 for matrix in matrices] for lane in range(32)]
