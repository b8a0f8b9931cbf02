# SPDX-License-Identifier: Apache-2.0
"""wgmma, tcgen05 and mbarrier, as far as the kernels use them: matrix descriptors, swizzled K-major tiles in shared memory, the
accumulators of wgmma, tensor memory. What is asynchronous happens as late as it may: results appear when they are waited for."""
import operator

import ptx_tensor
from ptx_tensor import BFLOAT, E4M3

SHARED = 0xFFFF << 32
# Bytes of a row and the bits of the address that choose the place of a chunk, by the swizzling mode of wgmma's descriptors (bits
# 62-63) and of tcgen05's (bits 61-63).
WGMMA_MODES = {1: (128, 7), 2: (64, 3), 3: (32, 1)}
TCGEN05_MODES = {2: (128, 7), 4: (64, 3), 6: (32, 1)}
DECODERS = {"bf16": ("H", BFLOAT), "e4m3": ("B", E4M3)}
COLUMNS = 512


class Wrong(Exception):
    """Of descriptors and of order."""


class Shared:
    """Of one block."""

    def __init__(self, machine):
        self.machine, self.memory = machine, machine.memory
        self.fences, self.products = set(), machine.products
        self.accumulators, self.fenced, self.groups, self.open = None, False, 0, 0
        self.barriers, self.queue, self.patience = {}, [], True
        self.tensor, self.allocated = [[float("nan")] * COLUMNS for _ in range(128)], None

    def do(self, what, asked):
        kind, _, rest = what.partition(" ")
        return getattr(self, kind)(rest, asked)

    def rows(self, descriptor, count, modes, shift):
        """The bytes of each row of one step. K-major: eight rows are one after the other, the next eight are the stride dimension
        byte offset further, and the address bits 7 and up are xored to the bits 4 and up."""
        start, stride = (descriptor & 0x3FFF) << 4, (descriptor >> 32 & 0x3FFF) << 4
        if descriptor >> shift not in modes or descriptor >> 49 & 7 or descriptor >> 16 & 0x3FFF != 1:
            raise Wrong(f"descriptor {descriptor:#x}")
        pitch, mask = modes[descriptor >> shift]
        region = self.memory.regions[SHARED >> 32]
        if start // 16 % 8 * 16 >= pitch or start & ~127 & 8 * pitch - 1:
            raise Wrong(f"a pattern that begins at {start:#x}")
        made = []
        for row in range(count):
            line = b""
            for chunk in range(2):
                at = start + row // 8 * stride + row % 8 * pitch + 16 * chunk
                at ^= (at >> 7 & mask) << 4
                line += bytes(region[at:at + 16])
            if len(line) != 32:
                raise Wrong("a tile beyond shared memory")
            made.append(line)
        return made

    def product(self, rows_a, rows_b, kind):
        """By row, columns one after the other."""
        key = kind, tuple(rows_a), tuple(rows_b)
        if key not in self.products:
            form, decoder = DECODERS[kind]
            a, b = ([[decoder[x] for x in memoryview(line).cast(form)] for line in rows] for rows in (rows_a, rows_b))
            made = [sum(map(operator.mul, row, column)) for row in a for column in b]
            if not all(x.is_integer() for x in made):
                raise Wrong("operands that are no integers")
            self.products[key] = made
        return self.products[key]

    def add(self, old, product, sign, shape):
        """Exact while nothing leaves 2^24, which is seen to."""
        made = list(map(operator.add if sign == 1 else operator.sub, old, product))
        if max(map(abs, made)) >= 2**24:
            raise Wrong("sums that a float does not hold")
        if self.machine.corrupt:
            self.machine.corrupt(self.machine.mmas, made)
        self.machine.mmas += 1
        return made

    # wgmma

    def wgmma_fence(self, _, asked):
        self.fenced = True
        return [None] * len(asked)

    def wgmma_commit_group(self, _, asked):
        self.groups += 1
        self.open = 0
        return [None] * len(asked)

    def wgmma_wait(self, _, asked):
        self.groups = min(self.groups, asked[0])
        if self.groups or self.open or self.accumulators is None:
            return [None] * len(asked)
        made, self.accumulators, self.fenced = self.accumulators, None, False
        return [[made[(16 * (tid >> 5) + (tid >> 2 & 7) + 8 * (n >> 1 & 1)) * 256 + 8 * (n >> 2) + 2 * (tid & 3) + (n & 1)] for n in range(128)]
                for tid in range(128)]

    def wgmma(self, shape, asked):
        size, result, kind, other = shape.split(".")
        assert (size, result, other) == (f"m64n256k{32 if kind == 'e4m3' else 16}", "f32", kind), shape
        if not self.fenced or any(("fence.proxy.async.shared::cta", tid) not in self.fences for tid in range(128)):
            raise Wrong("a fence is missing")
        if len({ask[1:] for ask in asked}) != 1:
            raise Wrong("threads with other descriptors")
        _, a, b, sign = asked[0]
        if self.accumulators is None:
            self.accumulators = [0.0] * (64 * 256)
            for tid, ask in enumerate(asked):
                for n, value in enumerate(ask[0]):
                    self.accumulators[(16 * (tid >> 5) + (tid >> 2 & 7) + 8 * (n >> 1 & 1)) * 256 + 8 * (n >> 2) + 2 * (tid & 3) + (n & 1)] = value
        product = self.product(self.rows(a, 64, WGMMA_MODES, 62), self.rows(b, 256, WGMMA_MODES, 62), kind)
        self.accumulators = self.add(self.accumulators, product, sign, shape)
        self.open = 1
        return [[float("nan")] * 128] * 128

    # mbarrier

    def init(self, address, count):
        assert count == 1
        self.memory.find(address, 8)
        self.barriers[address] = [0, 0]  # phases that are over, arrivals under way

    def try_wait(self, address, parity):
        """Says no at first, each time."""
        barrier = self.barriers[address]
        if barrier[0] & 1 != parity:
            return True  # the phase of that parity is over
        if self.patience:
            self.patience = False
            return False
        self.patience = True
        while self.queue:
            work = self.queue.pop(0)
            if work[0] == "arrive":
                self.barriers[work[1]][0] += 1
                if work[1] == address:
                    break
            else:
                self.multiply(*work[1:])
        return barrier[0] & 1 != parity

    # tcgen05

    def alloc(self, _, asked):
        (address, columns), = set(asked)
        if self.allocated is not None or columns not in (32, 64, 128, 256, 512):
            raise Wrong("tensor memory")
        self.allocated = (64, columns)  # not at 0
        self.memory.store(address, 4, 64)
        return [None] * 32

    def dealloc(self, _, asked):
        if set(asked) != {self.allocated} or self.queue:
            raise Wrong("tensor memory is given back that is not there, or in use")
        self.allocated = None
        return [None] * 32

    def issue(self, tid, address, a, b, how, adds):
        if any(("fence.proxy.async.shared::cta", other) not in self.fences for other in range(128)):
            raise Wrong("a fence is missing")
        self.queue.append(("mma", address, a, b, how, adds))

    def commit(self, tid, address):
        if ("fence.mbarrier_init.release.cluster", tid) not in self.fences or address not in self.barriers:
            raise Wrong("a barrier that is not there")
        self.queue.append(("arrive", address))

    def multiply(self, address, a, b, how, adds):
        """The instruction descriptor of kind::f16, table 42."""
        fields = {"result": how >> 4 & 3, "a": how >> 7 & 7, "b": how >> 10 & 7, "n": (how >> 17 & 63) << 3, "m": (how >> 24 & 31) << 4}
        if fields != {"result": 1, "a": 1, "b": 1, "n": 256, "m": 128} or how & ~(3 << 4 | 7 << 7 | 7 << 10 | 3 << 13 | 63 << 17 | 31 << 24):
            raise Wrong(f"instruction descriptor {how:#x}")
        if a >> 46 & 7 != 1 or b >> 46 & 7 != 1 or self.allocated is None or address != self.allocated[0] or self.allocated[1] < 256:
            raise Wrong("descriptor or tensor memory")
        sign = -1 if (how >> 13 ^ how >> 14) & 1 else 1
        product = self.product(self.rows(a, 128, TCGEN05_MODES, 61), self.rows(b, 256, TCGEN05_MODES, 61), "bf16")
        old = [x for row in self.tensor for x in row[address:address + 256]] if adds else [0.0] * (128 * 256)
        made = self.add(old, product, sign, "tcgen05")
        for number, row in enumerate(self.tensor):
            row[address:address + 256] = made[256 * number:256 * number + 256]

    def tensor_load(self, count, asked):
        """32x32b: lane i of a warp has the lane 32 * (warp % 4) + i of tensor memory. Work that is not over is not seen."""
        address = asked[0]
        lane, column = address >> 16, address & 0xFFFF
        if len(set(asked)) != 1 or lane % 32 or self.queue:
            raise Wrong(f"tensor memory read at {address:#x}")
        return [[ptx_tensor.bits32(self.tensor[lane + i][column + n]) for n in range(int(count))] for i in range(32)]
