# SPDX-License-Identifier: Apache-2.0
"""Probes of the instructions that read both operands from shared memory: wgmma (sm_90a) and tcgen05 (sm_100a).

They count on what probe_kernels.py says, with these differences. A step is one instruction, 32 bytes of each operand along k. The
steps lie beside each other in a tile, in pairs: a pair has operands A and B, and A', B' with the halves of k exchanged, B'
negated and 1 added to the element at k = 0. e = -1 is made by the instruction, which negates A. After the last round each
accumulator moves up once more, by the first step.

A tile has rows of 128 or 64 bytes, K-major, with 128-byte or 64-byte swizzle: the 16-byte chunk c of a row lies in place c ^ (row &
7), or c ^ (row / 2 & 3); eight rows are one pattern, which begins at a multiple of its size. So the next eight rows (stride
dimension byte offset) are 1024 or 512 bytes further, the leading dimension byte offset means nothing, and the descriptor of a
step is that of the tile 32 bytes further."""
import typing

from probe_kernels import CHUNK, Check, Operands, Rounds
from ptx import Block, Kernel, begin

BLOCK = 128
COLUMNS = 256


class Tile(typing.NamedTuple):
    kind: str  # of an element
    depth: int  # elements of a step: 32 bytes
    rows: int  # of A; B has COLUMNS
    pairs: int

    @property
    def pitch(self):
        return self.pairs * 64

    @property
    def swizzle_mask(self):
        return self.pitch // 16 - 1

    @property
    def swizzle_shift(self):
        """64-byte rows: two of them have the same places."""
        return 0 if self.pitch == 128 else 1

    @property
    def bytes(self):
        return (self.rows + COLUMNS) * self.pitch

    @property
    def words(self):
        return self.depth // 4


class Tiles:
    """A and then B in shared memory, filled by the threads of the block."""

    def __init__(self, k, tile):
        self.k, self.tile = k, tile
        self.operands = Operands(k, tile.kind)
        self.memory = k.share("tiles", tile.bytes, 1024)
        self.base = k.b32("tiles_at")
        k(f"mov.u32 {self.base}, {self.memory}")
        self.fill(False, tile.rows, 0)
        self.fill(True, COLUMNS, tile.rows * tile.pitch)
        k.note("what the threads have written is seen by the tensor cores")
        k("fence.proxy.async.shared::cta")

    def fill(self, of_b, rows, offset):
        """Each thread writes every 128th row."""
        k, tile = self.k, self.tile
        row, at, swizzle, test, loop = k.b32(), k.b32(), k.b32(), k.pred(), k.label("fill")
        k(f"mov.u32 {row}, %thread")
        done = k.label("filled")
        k.place(loop)
        k(f"setp.ge.u32 {test}, {row}, {rows}", f"@{test} bra {done}", f"mad.lo.u32 {at}, {row}, {tile.pitch}, {self.base}",
          f"add.u32 {at}, {at}, {offset}", f"shr.u32 {swizzle}, {row}, {tile.swizzle_shift}",
          f"and.b32 {swizzle}, {swizzle}, {tile.swizzle_mask}", f"shl.b32 {swizzle}, {swizzle}, 4")
        for pair in range(tile.pairs):
            words = [self.operands.word(of_b, row, pair * tile.words + n) for n in range(tile.words)]
            values = [self.operands.element(words[n // 4], n % 4 * 8) for n in range(tile.depth)]
            half = tile.depth // 2
            self.write(at, swizzle, 4 * pair, values)
            values = values[half:] + values[:half]
            if of_b:
                k(*(f"neg.s32 {value}, {value}" for value in values), f"add.s32 {values[0]}, {values[0]}, 1")
            self.write(at, swizzle, 4 * pair + 2, values)
        k(f"add.u32 {row}, {row}, {BLOCK}", f"bra {loop}")
        k.place(done)

    def write(self, at, swizzle, chunk, values):
        """The two chunks of a step, from number `chunk` on."""
        k, tile, size = self.k, self.tile, 32 // self.tile.depth
        per = 4 // size
        packed = [self.operands.pack(values[n:n + per]) for n in range(0, tile.depth, per)]
        for number in range(2):
            to = k.b32()
            k(f"xor.b32 {to}, {swizzle}, {16 * (chunk + number)}", f"add.u32 {to}, {to}, {at}",
              f"st.shared.v4.u32 [{to}], {{{', '.join(packed[4 * number:4 * number + 4])}}}")

    def descriptors(self, name, offset, upper):
        """Of each step. `upper`: the upper half, which is the same for all."""
        k, made = self.k, []
        low = k.b32()
        k(f"add.u32 {low}, {self.base}, {offset}", f"and.b32 {low}, {low}, 0x3ffff", f"shr.u32 {low}, {low}, 4", f"or.b32 {low}, {low}, 0x10000")
        for step in range(2 * self.tile.pairs):
            made.append(k.b64(f"{name}{step}"))
            part = k.b32()
            k(f"add.u32 {part}, {low}, {2 * step}", f"mov.b64 {made[-1]}, {{{part}, {upper}}}")
        return made

    def both(self, upper):
        return self.descriptors("a_step", 0, upper), self.descriptors("b_step", self.tile.rows * self.tile.pitch, upper)

    def keep_columns(self):
        """When the tiles are done with: the words of each column of B's first step, for the threads to look up."""
        k, tile = self.k, self.tile
        column, at = k.b32(), k.b32()
        for part in range(COLUMNS // BLOCK):
            k(f"add.u32 {column}, %thread, {part * BLOCK}", f"mad.lo.u32 {at}, {column}, {tile.depth}, {self.base}")
            words = [self.operands.word(True, column, n) for n in range(tile.words)]
            for n in range(0, tile.words, 4):
                k(f"st.shared.v4.u32 [{at}+{4 * n}], {{{', '.join(words[n:n + 4])}}}")

    def row(self, row):
        """The words of a row of A's first step, and D for both or the one pair."""
        k, tile = self.k, self.tile
        words = [self.operands.word(False, row, n) for n in range(tile.words)]
        drift, beside = k.b32(), tile.words // 2
        for pair in range(tile.pairs):
            word = words[beside] if pair == 0 else self.operands.word(False, row, pair * tile.words + beside)
            one = self.operands.element(word, 0)
            k(f"mov.u32 {drift}, {one}" if pair == 0 else f"add.s32 {drift}, {drift}, {one}")
        return words, drift

    def column(self, at, offset):
        """The words of a column, by the address of keep_columns."""
        words = [self.k.b32() for _ in range(self.tile.words)]
        for n in range(0, self.tile.words, 4):
            self.k(f"ld.shared.v4.u32 {{{', '.join(words[n:n + 4])}}}, [{at}+{offset + 4 * n}]")
        return words

    def expected(self, row, column, wave):
        k, expected = self.k, self.k.b32()
        words, drift = row
        k(f"mul.lo.s32 {expected}, {drift}, {wave}", *(f"dp4a.s32.s32 {expected}, {x}, {y}, {expected}" for x, y in zip(words, column)))
        return expected


def probe_wgmma(name, tile):
    """Four warps, one m64n256 product: of the result, thread g, t of warp w has the rows 16 * w + g and 8 further, and of each eight
    columns 2 * t and 2 * t + 1."""
    k = Kernel(name, BLOCK, exact_threads=True)
    begin(k)
    block = Block(k)
    rounds, tiles, upper = Rounds(k, block), Tiles(k, tile), k.b32("upper")
    k.note("128-byte swizzle, 1024 bytes from eight rows to the next")
    k(f"mov.u32 {upper}, {1 << 30 | 1024 >> 4}")
    a, b = tiles.both(upper)
    acc = [k.f32(f"acc{n}") for n in range(COLUMNS // 2)]
    k(*(f"mov.f32 {one}, 0f00000000" for one in acc))
    shape = f"m64n256k{tile.depth}.f32.{tile.kind}.{tile.kind}"

    def step(number, sign):
        transpose = ", 0, 0" if tile.kind == "bf16" else ""
        k(f"wgmma.mma_async.sync.aligned.{shape} {{{', '.join(acc)}}}, {a[number]}, {b[number]}, 1, {sign}, 1{transpose}")

    def body(sign):
        k("wgmma.fence.sync.aligned")
        for number in range(2 * tile.pairs):
            step(number, sign)
        k("wgmma.commit_group.sync.aligned", "wgmma.wait_group.sync.aligned 1")

    wave = rounds.run([lambda: body(1), lambda: body(-1)], after=lambda: k("wgmma.wait_group.sync.aligned 0"), alike="block")
    k("wgmma.fence.sync.aligned")
    step(0, 1)
    k("wgmma.commit_group.sync.aligned", "wgmma.wait_group.sync.aligned 0", "bar.sync 0")
    tiles.keep_columns()
    k("bar.sync 0")
    row, lower, lane, t, at = k.b32("row"), k.b32("lower"), k.b32("lane"), k.b32("t"), k.b32("column_at")
    k(f"and.b32 {lane}, %thread, 31", f"shr.u32 {row}, %thread, 5", f"shl.b32 {row}, {row}, 4", f"shr.u32 {t}, {lane}, 2",
      f"add.u32 {row}, {row}, {t}", f"add.u32 {lower}, {row}, 8", f"and.b32 {t}, {lane}, 3", f"mad.lo.u32 {at}, {t}, {2 * tile.depth}, {tiles.base}")
    rows = [tiles.row(row), tiles.row(lower)]
    check = Check(k, len(acc))
    for eight in range(COLUMNS // 8):
        columns = [tiles.column(at, (8 * eight + n) * tile.depth) for n in range(2)]
        for n in range(4):
            check.add(acc[4 * eight + n], tiles.expected(rows[n // 2], columns[n % 2], wave), "f32")
    check.finish(block)
    return k


# Of the instruction descriptor: result f32, both bf16, N / 8, M / 16; bit 13 negates A.
TCGEN05 = 1 << 4 | 1 << 7 | 1 << 10 | COLUMNS // 8 << 17 | 128 // 16 << 24
NEGATE = 1 << 13
PATIENCE = 1 << 31  # clocks: about a second
LOADED = 32  # columns that a thread loads at a time


def probe_tcgen05(name):
    """Thread 0 gives the instructions, m128n256k16 on the tensor memory; it is ahead by one chunk of rounds. Two mbarriers in turn tell that
    a chunk is done. Row r of the result is lane r of tensor memory, which thread r of the block reads."""
    tile = Tile("bf16", 16, 128, 1)
    k = Kernel(name, BLOCK, exact_threads=True)
    begin(k)
    block = Block(k)
    rounds, tiles, upper = Rounds(k, block), Tiles(k, tile), k.b32("upper")
    barriers, slot, late = k.share("barriers", 16), k.share("slot", 4), k.share("late", 4)
    k.note("64-byte swizzle, 512 bytes from eight rows to the next, version 1")
    k(f"mov.u32 {upper}, {4 << 29 | 1 << 14 | 512 >> 4}")
    a, b = tiles.both(upper)
    other, test, tensor = k.label("other"), k.pred("test"), k.b32("tensor")
    k(f"setp.ge.u32 {test}, %thread, 32", f"@{test} bra {other}", "bar.warp.sync -1",
      f"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [{slot}], {COLUMNS}", "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned",
      f"@%leader mbarrier.init.shared::cta.b64 [{barriers}], 1", f"@%leader mbarrier.init.shared::cta.b64 [{barriers}+8], 1",
      f"mov.u32 {tensor}, 0", f"@%leader st.shared.u32 [{late}], {tensor}", "fence.mbarrier_init.release.cluster")
    k.place(other)
    k("tcgen05.fence::before_thread_sync")
    k(f"mov.u32 {rounds.left}, {rounds.rounds}")
    block.start()
    k("tcgen05.fence::after_thread_sync", f"ld.shared.u32 {tensor}, [{slot}]")

    live, how, chunk, waited, part, over = k.pred("live"), k.b32("how"), k.b32("chunk"), k.b32("waited"), k.b32("part"), k.pred("over")
    begun, now = k.b64("wait_begun"), k.b64("wait_now")
    at, parity, first = k.b32("barrier_at"), k.b32("parity"), k.b32("barriers_at")

    def step(number):
        k(f"tcgen05.mma.cta_group::1.kind::f16 [{tensor}], {a[number]}, {b[number]}, {how}, {live}")

    def barrier(number):
        k(f"and.b32 {at}, {number}, 1", f"shl.b32 {at}, {at}, 3", f"add.u32 {at}, {at}, {first}")

    def commit():
        barrier(chunk)
        k(f"tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{at}]", f"add.u32 {chunk}, {chunk}, 1")

    def wait(give_up):
        """For the chunk `waited`."""
        again, there = k.label("wait"), k.label("there")
        barrier(waited)
        k(f"bfe.u32 {parity}, {waited}, 1, 1", f"add.u32 {waited}, {waited}, 1", f"mov.u64 {begun}, %clock64")
        k.place(again)
        k(f"mbarrier.try_wait.parity.shared::cta.b64 {test}, [{at}], {parity}", f"@{test} bra {there}", f"mov.u64 {now}, %clock64",
          f"sub.u64 {now}, {now}, {begun}", f"setp.lt.u64 {over}, {now}, {PATIENCE}", f"@{over} bra {again}", f"bra {give_up}")
        k.place(there)
        k("tcgen05.fence::after_thread_sync")

    issued, again, loop, drain, drained, give_up = (k.label(n) for n in ("issued", "again", "loop", "drain", "drained", "late"))
    k(f"@!%leader bra {issued}", f"mov.u32 {first}, {barriers}", f"mov.u32 {how}, {TCGEN05}", f"mov.u32 {chunk}, 0", f"mov.u32 {waited}, 0",
      f"setp.ne.u32 {live}, {chunk}, 0")
    k.place(again)
    block.halted(drain)
    k(f"min.u32 {part}, {rounds.left}, {CHUNK}", f"setp.eq.u32 {over}, {part}, 0", f"@{over} bra {drain}",
      f"sub.u32 {rounds.left}, {rounds.left}, {part}")
    k.place(loop)
    for number in range(4):
        step(number % 2)
        if number == 0:
            k.note("the first one of all begins at 0, the others add")
            k(f"setp.eq.u32 {live}, 0, 0")
    k(f"sub.u32 {part}, {part}, 1", f"setp.ne.u32 {over}, {part}, 0", f"@{over} bra {loop}")
    commit()
    k(f"xor.b32 {how}, {how}, {NEGATE}", f"setp.eq.u32 {over}, {chunk}, 1", f"@{over} bra {again}")
    k.note("the chunk before")
    wait(give_up)
    k(f"bra {again}")
    k.place(drain)
    k(f"setp.eq.u32 {over}, {waited}, {chunk}", f"@{over} bra {drained}")
    wait(give_up)
    k(f"bra {drain}")
    k.place(give_up)
    k(f"mov.u32 {part}, 1", f"st.shared.u32 [{late}], {part}")
    k.place(drained)
    k("tcgen05.fence::before_thread_sync")
    k.place(issued)
    block.stamp()
    k.note("rounds.left is thread 0's alone: handed to all by the place of the tensor memory's address, which all have read")
    k(f"@%leader st.shared.u32 [{slot}], {rounds.left}")

    last, skip, timed_out = k.label("last"), k.label("skip"), k.pred("timed_out")
    k(f"ld.shared.u32 {part}, [{late}]", f"setp.ne.u32 {timed_out}, {part}, 0", f"@!%leader bra {last}", f"@{timed_out} bra {last}",
      f"mov.u32 {how}, {TCGEN05}")
    step(0)
    commit()
    wait(skip)
    k("tcgen05.fence::before_thread_sync", f"bra {last}")
    k.place(skip)
    k(f"mov.u32 {part}, 1", f"st.shared.u32 [{late}], {part}")
    k.place(last)
    k("bar.sync 0", "tcgen05.fence::after_thread_sync", f"ld.shared.u32 {rounds.left}, [{slot}]", f"ld.shared.u32 {part}, [{late}]",
      f"setp.ne.u32 {timed_out}, {part}, 0")
    rounds.count_wave(part)
    wave = rounds.wave
    k.note("a round has both steps twice")
    k(f"shl.b32 {wave}, {wave}, 1")
    check = Check(k, COLUMNS)
    end = k.label("checked")
    found = check.found
    k.note("tensor memory that is still written is not read: one error, wanted 1, got 0")
    k(f"@{timed_out} mov.u32 {found.errors}, 1", f"@{timed_out} mov.u32 {found.want}, 1",
      f"@{timed_out} cvt.u64.u32 {found.first}, %thread", f"setp.ne.and.u32 {test}, %thread, 0, {timed_out}",
      f"@{test} mov.u32 {found.errors}, 0", f"@{timed_out} bra {end}")
    tiles.keep_columns()
    k("bar.sync 0")
    row, from_tensor, column_at, left = tiles.row("%thread"), k.b32("from_tensor"), k.b32("column_at"), k.b32("columns_left")
    k.note("lanes are in the upper half of the address; a warp reads its own 32")
    k(f"and.b32 {from_tensor}, %thread, 0x60", f"shl.b32 {from_tensor}, {from_tensor}, 16", f"add.u32 {from_tensor}, {from_tensor}, {tensor}",
      f"mov.u32 {column_at}, {tiles.base}", f"mov.u32 {left}, {COLUMNS // LOADED}")
    values, real, reading = [k.b32(f"value{n}") for n in range(LOADED)], k.f32("real"), k.label("read")
    k.place(reading)
    k(f"tcgen05.ld.sync.aligned.32x32b.x{LOADED}.b32 {{{', '.join(values)}}}, [{from_tensor}]", "tcgen05.wait::ld.sync.aligned")
    for n, value in enumerate(values):
        k(f"mov.b32 {real}, {value}")
        check.add(real, tiles.expected(row, tiles.column(column_at, n * tile.depth), wave), "f32")
    k(f"add.u32 {from_tensor}, {from_tensor}, {LOADED}", f"add.u32 {column_at}, {column_at}, {LOADED * tile.depth}", f"sub.u32 {left}, {left}, 1",
      f"setp.ne.u32 {test}, {left}, 0", f"@{test} bra {reading}")
    k.place(end)
    freed = k.label("freed")
    k("tcgen05.fence::before_thread_sync", "bar.sync 0", "tcgen05.fence::after_thread_sync", f"setp.ge.u32 {test}, %thread, 32", f"@{test} bra {freed}",
      "bar.warp.sync -1", f"tcgen05.dealloc.cta_group::1.sync.aligned.b32 {tensor}, {COLUMNS}")
    k.place(freed)
    check.finish(block)
    return k


KERNELS = {
    "probe_wgmma_bf16": lambda: probe_wgmma("probe_wgmma_bf16", Tile("bf16", 16, 64, 2)),
    "probe_wgmma_fp8": lambda: probe_wgmma("probe_wgmma_fp8", Tile("e4m3", 32, 64, 2)),
    "probe_tcgen05_bf16": lambda: probe_tcgen05("probe_tcgen05_bf16"),
}
