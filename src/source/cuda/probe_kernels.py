# SPDX-License-Identifier: Apache-2.0
"""Probes: one kind of instruction on registers alone, as fast as it goes, with results that are known exactly.

The operands are integers from cuda_hash of args.seed (mixed) and of where in its matrix the element is, so that each lane, warp and
seed has others, and each SM the same. A round moves every accumulator up by a product X of the operands A and B, and then
down by -X + D: the downward operands are those of A and B with neighbours along k exchanged, so that each multiplier has other
numbers than on the way up, B negated, and e added to the element of B at k = 0; D is e times an element of A. A wrong
product leaves a difference that no other step takes away. e is 1 for CHUNK rounds and -1 for the next, so that an accumulator
stays near 0 for any number of rounds, exact in every type. After the last round (and after the clock is read) each moves up
once more: what it has to be, X + D * (rounds with 1 less rounds with -1), is computed with integers by dp4a."""
import typing

from ptx import Block, Found, Kernel, Sum, begin, hash_word

CHUNK = 64  # rounds between two looks at whether to stop


class Rounds:
    """The loop of a probe."""

    def __init__(self, k, block):
        self.k, self.block = k, block
        self.rounds = k.argument("rounds")
        self.left, self.wave = k.b32("left"), k.b32("wave")

    def run(self, bodies, flip=lambda: None, after=lambda: None, alike="warp"):
        """A body is a round; there is one for e = 1 and one for e = -1, or one for both and flip() turns e round. after() is
        what has to be done before the clock is read."""
        k, part, over = self.k, self.k.b32("part"), self.k.pred("over")
        done, again = k.label("done"), k.label("again")
        k(f"mov.u32 {self.left}, {self.rounds}")
        self.block.start()
        k.place(again)
        for body in bodies:
            loop = k.label("loop")
            self.block.halted(done, alike=alike)
            k(f"min.u32 {part}, {self.left}, {CHUNK}", f"setp.eq.u32 {over}, {part}, 0", f"@{over} bra {done}",
              f"sub.u32 {self.left}, {self.left}, {part}")
            k.place(loop)
            body()
            k(f"sub.u32 {part}, {part}, 1", f"setp.ne.u32 {over}, {part}, 0", f"@{over} bra {loop}")
            flip()
        k(f"bra {again}")
        k.place(done)
        after()
        self.block.stamp()
        self.count_wave(part)
        return self.wave

    def count_wave(self, part):
        k = self.k
        k.note("rounds with e = 1 less those with e = -1: up and down between 0 and CHUNK")
        k(f"sub.u32 {part}, {self.rounds}, {self.left}", f"and.b32 {part}, {part}, {2 * CHUNK - 1}", f"sub.u32 {self.wave}, {2 * CHUNK}, {part}",
          f"min.u32 {self.wave}, {self.wave}, {part}")


def swap(k, one, other, spare, kind):
    k(f"mov.{kind} {spare}, {one}", f"mov.{kind} {one}, {other}", f"mov.{kind} {other}, {spare}")


def mixed_seed(k):
    """Seeds that differ in a few bits would only exchange operands, since they are xored with small keys."""
    seed, mixed = k.argument("seed"), k.b32("mixed")
    k(f"add.u32 {mixed}, {seed}, 0x9e3779b9")
    return hash_word(k, mixed)


class Check:
    """Compares accumulators in ascending order; the index of one is thread * (accumulators of a thread) + its number."""

    def __init__(self, k, each):
        self.k = k
        self.found, self.total = Found(k), Sum(k)
        self.index = k.b64("index")
        self.want, self.got = k.b32("want_bits"), k.b32("got_bits")
        k(f"mul.wide.u32 {self.index}, %thread, {each}")

    def add(self, got, expected, kind):
        """`expected`: an integer, s32 (s64 for an accumulator of f64)."""
        k, found, want_bits, got_bits = self.k, self.found, self.want, self.got
        if kind == "s32":
            k(f"mov.b32 {want_bits}, {expected}", f"mov.b32 {got_bits}, {got}", f"setp.ne.u32 {found.wrong}, {want_bits}, {got_bits}")
        elif kind == "f32":
            want = k.f32()
            k(f"cvt.rn.f32.s32 {want}, {expected}", f"setp.neu.f32 {found.wrong}, {want}, {got}", f"mov.b32 {want_bits}, {want}",
              f"mov.b32 {got_bits}, {got}")
        else:
            want, upper, differs = k.f64(), [k.b32(), k.b32()], k.pred()
            k(f"cvt.rn.f64.s64 {want}, {expected}", f"setp.neu.f64 {found.wrong}, {want}, {got}",
              f"mov.b64 {{{want_bits}, {upper[0]}}}, {want}", f"mov.b64 {{{got_bits}, {upper[1]}}}, {got}")
            self.sum_up(got_bits)
            k.note("of the halves that which differs, the upper one first")
            k(f"setp.ne.u32 {differs}, {upper[0]}, {upper[1]}", f"@{differs} mov.u32 {want_bits}, {upper[0]}", f"@{differs} mov.u32 {got_bits}, {upper[1]}")
            self.sum_up(upper[1])
        if kind != "f64":
            self.sum_up(got_bits)
        found.note(self.index, want_bits, got_bits)
        k(f"add.u64 {self.index}, {self.index}, 1")

    def sum_up(self, bits):
        self.k(f"mad.lo.u32 {self.total.total}, {self.total.total}, 0x01000193, {bits}")

    def finish(self, block):
        total = self.total.total
        self.k(f"xor.b32 {total}, {total}, %thread")
        hash_word(self.k, total)
        block.finish(total, self.found.all())


def probe_fma(name, kind, xs, ys, pairs):
    """acc = x * y + acc and acc = -(x + e) * y + acc in turn, xs * ys chains; `pairs` of both in a round."""
    k = Kernel(name, 1024)
    begin(k)
    block = Block(k)
    seed, key = mixed_seed(k), k.b32("key")
    bits = 11 if kind == "f32" else 25  # the product and its drift fit the mantissa
    real = k.f32 if kind == "f32" else k.f64
    rounds = Rounds(k, block)

    def integer(name, number):
        value = k.b32(name)
        k(f"shl.b32 {key}, %thread, 3", f"add.u32 {key}, {key}, {number}", f"xor.b32 {value}, {key}, {seed}")
        hash_word(k, value)
        k(f"shr.s32 {value}, {value}, {32 - bits}")
        return value

    def number(name, integer):
        value = real(name)
        k(f"cvt.rn.{kind}.s32 {value}, {integer}")
        return value

    x = [integer(f"ix{i}", i) for i in range(xs)]
    y = [integer(f"iy{j}", xs + j) for j in range(ys)]
    k.note("not 0, or its chains stand still")
    k(*(f"or.b32 {one}, {one}, 1" for one in y))
    up, down, other = [number(f"x{i}", one) for i, one in enumerate(x)], [], []
    for i, one in enumerate(x):
        less = k.b32()
        k(f"not.b32 {less}, {one}")  # -(x + 1)
        down.append(number(f"down{i}", less))
        k(f"add.s32 {less}, {less}, 2")
        other.append(number(f"other{i}", less))
    by = [number(f"y{j}", one) for j, one in enumerate(y)]
    chains = [(i, j, real(f"acc{i * ys + j}")) for i in range(xs) for j in range(ys)]
    zero = "0f00000000" if kind == "f32" else "0d0000000000000000"
    k(*(f"mov.{kind} {acc}, {zero}" for _, _, acc in chains))
    spare = real("spare")

    def step(factors):
        k(*(f"fma.rn.{kind} {acc}, {factors[i]}, {by[j]}, {acc}" for i, j, acc in chains))

    def body():
        for _ in range(pairs):
            step(up)
            step(down)

    def flip():
        for one, two in zip(down, other):
            swap(k, one, two, spare, kind)

    wave = rounds.run([body], flip)
    step(up)
    drift = k.b32("drift")
    k(f"mul.lo.s32 {drift}, {wave}, {-pairs}")
    check = Check(k, len(chains))
    for i, j, acc in chains:
        expected = k.b32() if kind == "f32" else k.b64()
        if kind == "f32":
            k(f"mul.lo.s32 {expected}, {drift}, {y[j]}", f"mad.lo.s32 {expected}, {x[i]}, {y[j]}, {expected}")
        else:
            k(f"mul.wide.s32 {expected}, {drift}, {y[j]}", f"mad.wide.s32 {expected}, {x[i]}, {y[j]}, {expected}")
        check.add(acc, expected, kind)
    check.finish(block)
    return k


class Shape(typing.NamedTuple):
    """An mma.sync, by the fragment layouts of the PTX ISA. With g = lane / 4 and t = lane % 4 a thread has of A the rows g (and
    g + 8) and of B the column g; of k the `per` neighbours from per * t on, and with two groups those 4 * per further."""
    instruction: str
    rows: int  # of A: registers for g, g + 8
    groups: int  # of k
    per: int  # elements in a register
    kind: str  # of an element
    result: str

    @property
    def depth(self):
        return self.groups * 4 * self.per


MMA = {
    "probe_mma_f16": Shape("m16n8k8.row.col.f32.f16.f16.f32", 2, 1, 2, "f16", "f32"),
    "probe_mma_s8": Shape("m8n8k16.row.col.s32.s8.s8.s32", 1, 1, 4, "s8", "s32"),
    "probe_mma_bf16": Shape("m16n8k16.row.col.f32.bf16.bf16.f32", 2, 2, 2, "bf16", "f32"),
    "probe_mma_tf32": Shape("m16n8k8.row.col.f32.tf32.tf32.f32", 2, 2, 1, "tf32", "f32"),
    "probe_mma_int8": Shape("m16n8k32.row.col.s32.s8.s8.s32", 2, 2, 4, "s8", "s32"),
    "probe_mma_f64": Shape("m8n8k4.row.col.f64.f64.f64.f64", 1, 1, 1, "f64", "f64"),
    "probe_mma_fp8": Shape("m16n8k32.row.col.f32.e4m3.e4m3.f32", 2, 2, 4, "e4m3", "f32"),
}
AS, BS = 2, 4  # fragments; each pair is a chain
BLOCK = 256


class Operands:
    """Elements of A and B as integers. Four neighbours along k are the bytes of a word, cuda_hash(mixed seed ^ key), key = (1 << 30 for
    B) + 16 * (row or column) + k / 4. Those of A are -128..127 and those of B -64..63, of e4m3 -8..7 both: exact in each type.
    Those of f64 have a word for each k and are its upper 25 bits."""

    def __init__(self, k, kind):
        self.k, self.kind = k, kind
        self.seed = mixed_seed(k)

    def word(self, of_b, line, which):
        """`line`: the register of a row or column; `which`: k / 4, a register or a number."""
        k, word = self.k, self.k.b32()
        k(f"shl.b32 {word}, {line}, 4", f"add.u32 {word}, {word}, {which}")
        if of_b:
            k(f"or.b32 {word}, {word}, {1 << 30}")
        k(f"xor.b32 {word}, {word}, {self.seed}")
        hash_word(k, word)
        if self.kind == "f64":
            k(f"shr.s32 {word}, {word}, 7")
        elif self.kind == "e4m3":
            sign = k.b32()
            k(f"and.b32 {sign}, {word}, 0x08080808", f"and.b32 {word}, {word}, 0x0f0f0f0f", f"mad.lo.u32 {word}, {sign}, 30, {word}")
        elif of_b:
            sign = k.b32()
            k(f"and.b32 {sign}, {word}, 0x40404040", f"and.b32 {word}, {word}, 0x7f7f7f7f", f"mad.lo.u32 {word}, {sign}, 2, {word}")
        return word

    def element(self, word, shift):
        value = self.k.b32()
        self.k(f"bfe.s32 {value}, {word}, {shift}, 8")
        return value

    def pack(self, values):
        """Integers as one operand register, the lowest k first."""
        k, kind = self.k, self.kind
        if kind == "f64":
            packed = k.f64()
            k(f"cvt.rn.f64.s32 {packed}, {values[0]}")
            return packed
        packed = k.b32()
        if kind == "s8":
            halves = [k.b32(), k.b32()]
            k(*(f"prmt.b32 {half}, {low}, {high}, 0x0040" for half, low, high in zip(halves, values[::2], values[1::2])),
              f"prmt.b32 {packed}, {halves[0]}, {halves[1]}, 0x5410")
            return packed
        reals = [k.f32() for _ in values]
        k(*(f"cvt.rn.f32.s32 {real}, {value}" for real, value in zip(reals, values)))
        if kind == "tf32":
            k(f"mov.b32 {packed}, {reals[0]}")
        elif kind == "bf16":
            words = [k.b32(), k.b32()]
            k(*(f"mov.b32 {word}, {real}" for word, real in zip(words, reals)), f"prmt.b32 {packed}, {words[0]}, {words[1]}, 0x7632")
        elif kind == "f16":
            halves = [k.b16(), k.b16()]
            k(*(f"cvt.rn.f16.f32 {half}, {real}" for half, real in zip(halves, reals)), f"mov.b32 {packed}, {{{halves[0]}, {halves[1]}}}")
        else:
            halves = [k.b16(), k.b16()]
            k(*(f"cvt.rn.satfinite.e4m3x2.f32 {half}, {high}, {low}" for half, low, high in zip(halves, reals[::2], reals[1::2])),
              f"mov.b32 {packed}, {{{halves[0]}, {halves[1]}}}")
        return packed


class Fragments:
    """The registers of A and B of a thread, upward and downward."""

    def __init__(self, k, shape):
        self.k, self.shape, self.operands = k, shape, Operands(k, shape.kind)
        lane, warp = k.b32("lane"), k.b32("warp")
        self.g, self.t, self.origin = k.b32("g"), k.b32("t"), k.pred("origin")
        k(f"and.b32 {lane}, %thread, 31", f"shr.u32 {warp}, %thread, 5", f"shr.u32 {self.g}, {lane}, 2", f"and.b32 {self.t}, {lane}, 3",
          f"setp.eq.u32 {self.origin}, {self.t}, 0")
        self.rows = [[k.b32(f"row{a}_{r}") for r in range(shape.rows)] for a in range(AS)]
        self.column = [k.b32(f"column{b}") for b in range(BS)]
        for a in range(AS):
            for r in range(shape.rows):
                k(f"mad.lo.u32 {self.rows[a][r]}, {warp}, {16 * AS}, {self.g}", f"add.u32 {self.rows[a][r]}, {self.rows[a][r]}, {16 * a + 8 * r}")
        for b in range(BS):
            k(f"mad.lo.u32 {self.column[b]}, {warp}, {8 * BS}, {self.g}", f"add.u32 {self.column[b]}, {self.column[b]}, {8 * b}")
        # k / 4 of the thread's elements in the first group, and where in the word the first one is.
        self.which, self.shift = k.b32("which"), k.b32("shift")
        k(f"mul.lo.u32 {self.which}, {self.t}, {shape.per}", f"and.b32 {self.shift}, {self.which}, 3", f"shr.u32 {self.which}, {self.which}, 2",
          f"shl.b32 {self.shift}, {self.shift}, 3")
        if shape.kind == "f64":
            k(f"mov.u32 {self.which}, {self.t}")

    def values(self, of_b, line, group, beside=False):
        """The integers of a register; `beside`: those of k ^ 1."""
        k, shape, which, shift = self.k, self.shape, self.k.b32(), self.k.b32()
        k(f"add.u32 {which}, {self.which}, {group * shape.per}", f"mov.u32 {shift}, {self.shift}")
        if beside and shape.per == 1:
            k(f"xor.b32 {which}, {which}, 1" if shape.kind == "f64" else f"xor.b32 {shift}, {shift}, 8")
        word = self.operands.word(of_b, line, which)
        if shape.kind == "f64":
            return [word]
        made = []
        for n in range(shape.per):
            place = k.b32()
            k(f"add.u32 {place}, {shift}, {8 * (n ^ 1 if beside and shape.per > 1 else n)}")
            made.append(self.operands.element(word, place))
        return made

    def fragment_a(self, a, beside=False):
        """Registers in the order of the instruction: rows before groups."""
        return [self.operands.pack(self.values(False, row, group, beside)) for group in range(self.shape.groups) for row in self.rows[a]]

    def up_b(self, b):
        return [self.operands.pack(self.values(True, self.column[b], group)) for group in range(self.shape.groups)]

    def down_b(self, b):
        """Two of it: with e = 1 and with e = -1. They differ in the first register alone, and share the other."""
        k = self.k
        groups = [self.values(True, self.column[b], group, beside=True) for group in range(self.shape.groups)]
        for values in groups:
            k(*(f"neg.s32 {value}, {value}" for value in values))
        variants = []
        for e in (1, -1):
            first = k.b32()
            k(f"mov.u32 {first}, {groups[0][0]}", f"@{self.origin} add.s32 {first}, {first}, {e}")
            variants.append(self.operands.pack([first] + groups[0][1:]))
        rest = [self.operands.pack(values) for values in groups[1:]]
        return [[first] + rest for first in variants]


def braces(registers):
    return "{" + ", ".join(registers) + "}"


def probe_mma(name):
    shape = MMA[name]
    k = Kernel(name, BLOCK)
    begin(k)
    block = Block(k)
    rounds = Rounds(k, block)
    fragments = Fragments(k, shape)
    up_a, down_a = ([fragments.fragment_a(a, beside) for a in range(AS)] for beside in (False, True))
    up_b = [fragments.up_b(b) for b in range(BS)]
    down_b, other_b = zip(*(fragments.down_b(b) for b in range(BS)))
    real = {"s32": k.b32, "f32": k.f32, "f64": k.f64}[shape.result]
    zero = {"s32": "0", "f32": "0f00000000", "f64": "0d0000000000000000"}[shape.result]
    chains = [(a, b, [real(f"acc{(a * BS + b) * 2 * shape.rows + n}") for n in range(2 * shape.rows)]) for a in range(AS) for b in range(BS)]
    for _, _, acc in chains:
        k(*(f"mov.{'u32' if shape.result == 's32' else shape.result} {one}, {zero}" for one in acc))

    def step(of_a, of_b):
        k(*(f"mma.sync.aligned.{shape.instruction} {braces(acc)}, {braces(of_a[a])}, {braces(of_b[b])}, {braces(acc)}" for a, b, acc in chains))

    def body():
        step(up_a, up_b)
        step(down_a, down_b)

    move = "f64" if shape.kind == "f64" else "b32"
    spare = k.f64("spare") if shape.kind == "f64" else k.b32("spare")

    def flip():
        for one, two in zip(down_b, other_b):
            swap(k, one[0], two[0], spare, move)

    wave = rounds.run([body], flip)
    step(up_a, up_b)
    check_mma(k, block, shape, fragments, chains, wave)
    return k


def check_mma(k, block, shape, fragments, chains, wave):
    """A thread has of the result the rows of A and the columns 2 * t, 2 * t + 1 of each B."""
    check = Check(k, len(chains) * 2 * shape.rows)
    words = shape.depth if shape.kind == "f64" else shape.depth // 4
    columns, first = [], k.b32()
    for b in range(BS):
        k(f"sub.u32 {first}, {fragments.column[b]}, {fragments.g}", f"mad.lo.u32 {first}, {fragments.t}, 2, {first}")
        for n in range(2):
            line = k.b32()
            k(f"add.u32 {line}, {first}, {n}")
            columns.append([fragments.operands.word(True, line, which) for which in range(words)])
    of_rows, drifts = {}, {}  # D: the element of A at k = 1, which is exchanged with that at 0
    for a in range(AS):
        for r in range(shape.rows):
            of_rows[a, r] = [fragments.operands.word(False, fragments.rows[a][r], which) for which in range(words)]
            drift = drifts[a, r] = k.b32()
            if shape.kind == "f64":
                k(f"mov.u32 {drift}, {of_rows[a, r][1]}")
            else:
                k(f"bfe.s32 {drift}, {of_rows[a, r][0]}, 8, 8")
    for a, b, acc in chains:
        for n, one in enumerate(acc):
            row, column = of_rows[a, n // 2], columns[2 * b + n % 2]
            if shape.kind == "f64":
                expected = k.b64()
                k(f"mul.wide.s32 {expected}, {drifts[a, n // 2]}, {wave}")
                k(*(f"mad.wide.s32 {expected}, {x}, {y}, {expected}" for x, y in zip(row, column)))
            else:
                expected = k.b32()
                k(f"mul.lo.s32 {expected}, {drifts[a, n // 2]}, {wave}")
                k(*(f"dp4a.s32.s32 {expected}, {x}, {y}, {expected}" for x, y in zip(row, column)))
            check.add(one, expected, shape.result)
    check.finish(block)


KERNELS = {
    "probe_fma32": lambda: probe_fma("probe_fma32", "f32", 4, 4, 8),
    "probe_fma64": lambda: probe_fma("probe_fma64", "f64", 2, 4, 8),
    **{name: (lambda name=name: probe_mma(name)) for name in MMA},
}
