# SPDX-License-Identifier: Apache-2.0
"""Matrix products from memory: c (m x n float) = a (m x k bfloat16) * b (n x k bfloat16), all row major."""
from ptx import Block, Kernel, Sum, begin, hash_word

BLOCK = 256
TILE, SLAB = 128, 32  # of gemm_bf16: a block's part of c, and what it multiplies at a time along k
STAGES = 3
ROW_BYTES = SLAB * 2
STAGE_BYTES = 2 * TILE * ROW_BYTES  # a slab of a, then one of b
SMALL, THIN = 64, 16  # of gemm_reference
PITCH = SMALL + 4  # floats of a row in shared memory


def braces(registers):
    return "{" + ", ".join(registers) + "}"


def place_of(k, tiles_per_row, tile, size, row, column):
    """The first row and column of a tile."""
    k(f"div.u32 {row}, {tile}, {tiles_per_row}", f"rem.u32 {column}, {tile}, {tiles_per_row}", f"mul.lo.u32 {row}, {row}, {size}",
      f"mul.lo.u32 {column}, {column}, {size}")


class Output:
    """Writes neighbours of a row of c, and adds them to the checksum: cuda_hash(bits ^ (row * n + column)) of each. Zeros are
    written as +0, so that products of other instructions are the same bits."""

    def __init__(self, k, c, n, total):
        self.k, self.c, self.n, self.total = k, c, n, total
        self.position, self.wide, self.at, self.term = k.b32("position"), k.b64("wide_position"), k.b64("c_at"), k.b32("term")

    def write(self, row, column, values):
        k = self.k
        k(*(f"add.rn.f32 {value}, {value}, 0f00000000" for value in values), f"mul.wide.u32 {self.wide}, {row}, {self.n}",
          f"cvt.u64.u32 {self.at}, {column}", f"add.u64 {self.wide}, {self.wide}, {self.at}", f"cvt.u32.u64 {self.position}, {self.wide}",
          f"mad.lo.u64 {self.at}, {self.wide}, 4, {self.c}", f"st.global.v{len(values)}.f32 [{self.at}], {braces(values)}")
        for value in values:
            k(f"mov.b32 {self.term}, {value}", f"xor.b32 {self.term}, {self.term}, {self.position}")
            hash_word(k, self.term)
            self.total.add([self.term])
            k(f"add.u32 {self.position}, {self.position}, 1")


def gemm_reference():
    """64 x 64 of c at a time, 4 x 4 of each thread. A slab of 16 along k lies in shared memory as float, k after k."""
    k = Kernel("gemm_reference", BLOCK, exact_threads=True)
    begin(k)
    block = Block(k)
    a, b, c, m, n, depth = (k.argument(name) for name in ("a", "b", "c", "m", "n", "k"))
    slabs = k.share("slabs", 2 * THIN * PITCH * 4)
    total = Sum(k)
    tile, tiles, per_row, row, column = k.b32("tile"), k.b32("tiles"), k.b32("per_row"), k.b32("row"), k.b32("column")
    k(f"shr.u32 {per_row}, {n}, 6", f"shr.u32 {tiles}, {m}, 6", f"mul.lo.u32 {tiles}, {tiles}, {per_row}", f"mov.u32 {tile}, %block")

    k.note("threads 0..127 load a, the others b: row (thread & 127) / 2 of the tile, eight of the 16 along k")
    of_b, source, line, part, wide = k.pred("of_b"), k.b64("source"), k.b32("line"), k.b32("part"), k.b64()
    store = k.b32("store")
    k(f"setp.ge.u32 {of_b}, %thread, 128", f"bfe.u32 {line}, %thread, 1, 6", f"and.b32 {part}, %thread, 1", f"shl.b32 {part}, {part}, 3",
      f"mad.lo.u32 {store}, {part}, {PITCH}, {line}", f"shl.b32 {store}, {store}, 2", f"@{of_b} add.u32 {store}, {store}, {THIN * PITCH * 4}")
    base, tx, ty, from_a, from_b = k.b32("base"), k.b32("tx"), k.b32("ty"), k.b32("from_a"), k.b32("from_b")
    k(f"mov.u32 {base}, {slabs}", f"add.u32 {store}, {store}, {base}", f"and.b32 {tx}, %thread, 15", f"shr.u32 {ty}, %thread, 4",
      f"mad.lo.u32 {from_a}, {ty}, 16, {base}", f"mad.lo.u32 {from_b}, {tx}, 16, {base}", f"add.u32 {from_b}, {from_b}, {THIN * PITCH * 4}")
    acc = [[k.f32(f"acc{i}_{j}") for j in range(4)] for i in range(4)]
    loaded = [k.b32(f"loaded{i}") for i in range(4)]
    left, first, test = k.b32("left"), k.b32("first"), k.pred("test")
    block.start()
    done, next_tile, next_slab = k.label("done"), k.label("tile"), k.label("slab")
    k.place(next_tile)
    block.halted(done, alike="block")
    k(f"setp.ge.u32 {test}, {tile}, {tiles}", f"@{test} bra {done}")
    place_of(k, per_row, tile, SMALL, row, column)
    k(f"mov.u32 {first}, {row}", f"@{of_b} mov.u32 {first}, {column}", f"mov.u64 {source}, {a}", f"@{of_b} mov.u64 {source}, {b}",
      f"add.u32 {first}, {first}, {line}", f"mul.wide.u32 {wide}, {first}, {depth}", f"mad.lo.u64 {source}, {wide}, 2, {source}",
      f"mad.wide.u32 {source}, {part}, 2, {source}")
    k(*(f"mov.f32 {one}, 0f00000000" for line_of in acc for one in line_of))
    k(f"ld.global.v4.u32 {braces(loaded)}, [{source}]", f"mov.u32 {left}, {depth}")
    k.place(next_slab)
    for i, word in enumerate(loaded):
        for half in range(2):
            bits = k.b32()
            k(f"shl.b32 {bits}, {word}, 16" if half == 0 else f"and.b32 {bits}, {word}, 0xffff0000",
              f"st.shared.u32 [{store}+{(2 * i + half) * PITCH * 4}], {bits}")
    k("bar.sync 0", f"sub.u32 {left}, {left}, {THIN}", f"setp.ne.u32 {test}, {left}, 0", f"add.u64 {source}, {source}, {THIN * 2}",
      f"@{test} ld.global.v4.u32 {braces(loaded)}, [{source}]")
    x, y = [k.f32(f"x{i}") for i in range(4)], [k.f32(f"y{j}") for j in range(4)]
    for at in range(THIN):
        k(f"ld.shared.v4.f32 {braces(x)}, [{from_a}+{at * PITCH * 4}]", f"ld.shared.v4.f32 {braces(y)}, [{from_b}+{at * PITCH * 4}]")
        k(*(f"fma.rn.f32 {acc[i][j]}, {x[i]}, {y[j]}, {acc[i][j]}" for i in range(4) for j in range(4)))
    k("bar.sync 0", f"@{test} bra {next_slab}")
    output = Output(k, c, n, total)
    to_row, to_column = k.b32("to_row"), k.b32("to_column")
    k(f"mad.lo.u32 {to_row}, {ty}, 4, {row}", f"mad.lo.u32 {to_column}, {tx}, 4, {column}")
    for i in range(4):
        output.write(to_row, to_column, acc[i])
        k(f"add.u32 {to_row}, {to_row}, 1")
    k(f"add.u32 {tile}, {tile}, %blocks", f"bra {next_tile}")
    k.place(done)
    block.stamp()
    block.finish(total.total)
    return k


class Slabs:
    """Copies slabs of a and b to shared memory with cp.async. A row has 64 bytes, four chunks of 16; chunk c of row r lies in the
    place c ^ (r / 2 & 3) of its row, so that eight rows of one chunk, which ldmatrix reads at once, are in different banks."""

    def __init__(self, k, base, row, column, depth):
        self.k, self.depth = k, depth
        line, chunk, place, self.to = k.b32("line"), k.b32("chunk"), k.b32("place"), k.b32("copy_to")
        k.note("a thread copies one chunk each of the rows thread / 4 and thread / 4 + 64")
        k(f"shr.u32 {line}, %thread, 2", f"and.b32 {chunk}, %thread, 3", f"bfe.u32 {place}, {line}, 1, 2", f"xor.b32 {place}, {place}, {chunk}",
          f"shl.b32 {place}, {place}, 4", f"mad.lo.u32 {self.to}, {line}, {ROW_BYTES}, {place}", f"add.u32 {self.to}, {self.to}, {base}")
        self.sources = []
        first, wide = k.b32(), k.b64()
        for name, start in (("a", row), ("b", column)):
            of, source, lower = k.argument(name), k.b64("from_" + name), k.b64("from_lower_" + name)
            k(f"add.u32 {first}, {start}, {line}", f"mul.wide.u32 {wide}, {first}, {depth}", f"mad.lo.u64 {source}, {wide}, 2, {of}",
              f"mad.wide.u32 {source}, {chunk}, 16, {source}", f"mul.wide.u32 {wide}, {depth}, {TILE}", f"add.u64 {lower}, {source}, {wide}")
            self.sources += [source, lower]
        self.left, self.any = k.b32("to_copy"), k.pred("any_left")
        k(f"mov.u32 {self.left}, {depth}")

    def copy(self, stage):
        """Begins to copy the next slab, where there is one, into a stage (the register of its offset); a group in any case."""
        k, at = self.k, self.k.b32()
        k(f"setp.ne.u32 {self.any}, {self.left}, 0", f"add.u32 {at}, {self.to}, {stage}")
        for number, source in enumerate(self.sources):
            k(f"@{self.any} cp.async.cg.shared.global [{at}+{number * TILE // 2 * ROW_BYTES}], [{source}], 16")
        k(*(f"add.u64 {source}, {source}, {ROW_BYTES}" for source in self.sources), f"@{self.any} sub.u32 {self.left}, {self.left}, {SLAB}",
          "cp.async.commit_group")


def advance(k, stage, test):
    k(f"add.u32 {stage}, {stage}, {STAGE_BYTES}", f"setp.eq.u32 {test}, {stage}, {STAGES * STAGE_BYTES}", f"@{test} mov.u32 {stage}, 0")


def gemm_bf16():
    """128 x 128 of c by eight warps of 64 x 32 each: four times four mma.sync m16n8k16. Three stages of slabs: while one is
    multiplied, two are on their way."""
    k = Kernel("gemm_bf16", BLOCK, exact_threads=True, blocks=2)
    begin(k)
    tiles = k.share("tiles", STAGES * STAGE_BYTES, 128)
    block = Block(k, inside=tiles)
    c, m, n, depth = (k.argument(name) for name in ("c", "m", "n", "k"))
    total = Sum(k)
    base, per_row, count, row, column, test = k.b32("base"), k.b32("per_row"), k.b32("tile_count"), k.b32("row"), k.b32("column"), k.pred("test")
    k(f"mov.u32 {base}, {tiles}", f"shr.u32 {per_row}, {n}, 7", f"shr.u32 {count}, {m}, 7", f"mul.lo.u32 {count}, {count}, {per_row}")
    block.start()
    done = k.label("done")
    k(f"@{block.stopped} bra {done}", f"setp.ge.u32 {test}, %block, {count}", f"@{test} bra {done}")
    place_of(k, per_row, "%block", TILE, row, column)
    slabs = Slabs(k, base, row, column, depth)

    lane, warp, warp_row, warp_column = k.b32("lane"), k.b32("warp"), k.b32("warp_row"), k.b32("warp_column")
    k(f"and.b32 {lane}, %thread, 31", f"shr.u32 {warp}, %thread, 5", f"and.b32 {warp_row}, {warp}, 1", f"shl.b32 {warp_row}, {warp_row}, 6",
      f"shr.u32 {warp_column}, {warp}, 1", f"shl.b32 {warp_column}, {warp_column}, 5")
    low, eights, sixteens, place = k.b32("low"), k.b32("eights"), k.b32("sixteens"), k.b32("lane_place")
    at_a, at_b = [k.b32("a_at0"), k.b32("a_at1")], [k.b32("b_at0"), k.b32("b_at1")]
    k(f"and.b32 {low}, {lane}, 7", f"bfe.u32 {eights}, {lane}, 3, 1", f"bfe.u32 {sixteens}, {lane}, 4, 1")
    k.note("ldmatrix of a: lanes 0..7 have rows 0..7 of chunk 0, 8..15 rows 8..15, 16..31 the same of chunk 1")
    k(f"bfe.u32 {place}, {low}, 1, 2", f"xor.b32 {place}, {place}, {sixteens}", f"mad.lo.u32 {at_a[0]}, {eights}, 8, {low}",
      f"add.u32 {at_a[0]}, {at_a[0]}, {warp_row}", f"shl.b32 {at_a[0]}, {at_a[0]}, 6", f"mad.lo.u32 {at_a[0]}, {place}, 16, {at_a[0]}")
    k.note("of b: lanes 0..7 have columns 0..7 of chunk 0, 8..15 the same of chunk 1, 16..31 columns 8..15")
    k(f"bfe.u32 {place}, {low}, 1, 2", f"xor.b32 {place}, {place}, {eights}", f"mad.lo.u32 {at_b[0]}, {sixteens}, 8, {low}",
      f"add.u32 {at_b[0]}, {at_b[0]}, {warp_column}", f"shl.b32 {at_b[0]}, {at_b[0]}, 6", f"mad.lo.u32 {at_b[0]}, {place}, 16, {at_b[0]}",
      f"add.u32 {at_b[0]}, {at_b[0]}, {TILE * ROW_BYTES}")
    k.note("the second half of a slab has the chunks 2 and 3: bit 5 of the address the other way")
    for at in (at_a, at_b):
        k(f"xor.b32 {at[1]}, {at[0]}, 32", *(f"add.u32 {one}, {one}, {base}" for one in at))

    acc = [[[k.f32(f"acc{i}_{j}_{e}") for e in range(4)] for j in range(4)] for i in range(4)]
    k(*(f"mov.f32 {one}, 0f00000000" for line in acc for four in line for one in four))
    read, write, left = k.b32("read_stage"), k.b32("write_stage"), k.b32("left")
    k(f"mov.u32 {write}, 0", f"mov.u32 {read}, 0", f"mov.u32 {left}, {depth}")
    for _ in range(STAGES - 1):
        slabs.copy(write)
        advance(k, write, test)
    loop = k.label("loop")
    k.place(loop)
    k.note("the oldest slab is there, and all warps are through with the one before, whose stage is filled next")
    k(f"cp.async.wait_group {STAGES - 2}", "bar.sync 0")
    slabs.copy(write)
    advance(k, write, test)
    of_a = [[k.b32(f"a{i}_{r}") for r in range(4)] for i in range(4)]
    of_b = [[k.b32(f"b{j}_{r}") for r in range(2)] for j in range(4)]
    now_a, now_b = k.b32("a_now"), k.b32("b_now")
    for half in range(2):
        k(f"add.u32 {now_a}, {at_a[half]}, {read}", f"add.u32 {now_b}, {at_b[half]}, {read}")
        for i in range(4):
            k(f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {braces(of_a[i])}, [{now_a}+{16 * i * ROW_BYTES}]")
        for j in (0, 2):
            k(f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {braces(of_b[j] + of_b[j + 1])}, [{now_b}+{8 * j * ROW_BYTES}]")
        for i in range(4):
            for j in range(4):
                k(f"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {braces(acc[i][j])}, {braces(of_a[i])}, {braces(of_b[j])}, {braces(acc[i][j])}")
    advance(k, read, test)
    k(f"sub.u32 {left}, {left}, {SLAB}", f"setp.ne.u32 {test}, {left}, 0", f"@{test} bra {loop}")

    output = Output(k, c, n, total)
    g, t, to_row, to_column = k.b32("g"), k.b32("t"), k.b32("to_row"), k.b32("to_column")
    k(f"shr.u32 {g}, {lane}, 2", f"and.b32 {t}, {lane}, 3", f"add.u32 {row}, {row}, {warp_row}", f"add.u32 {row}, {row}, {g}",
      f"add.u32 {column}, {column}, {warp_column}", f"mad.lo.u32 {column}, {t}, 2, {column}")
    for i in range(4):
        for upper in range(2):
            k(f"add.u32 {to_row}, {row}, {16 * i + 8 * upper}")
            for j in range(4):
                k(f"add.u32 {to_column}, {column}, {8 * j}")
                output.write(to_row, to_column, acc[i][j][2 * upper:2 * upper + 2])
    k.place(done)
    k("cp.async.wait_group 0")
    block.stamp()
    block.finish(total.total)
    return k


KERNELS = {"gemm_reference": gemm_reference, "gemm_bf16": gemm_bf16}
