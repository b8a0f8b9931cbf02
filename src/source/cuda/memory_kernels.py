# SPDX-License-Identifier: Apache-2.0
"""Kernels that write, read, compare and fill memory. Loads are ld.global.cg: they are served by L2 or memory, never by L1."""
from ptx import Block, Found, Kernel, Sum, begin, hash_word

UNROLL = 4  # accesses of a thread that are under way at once
INVERT, INVERTED = 1, 2
PATTERNS = {"aa": 1, "bytes": 2, "walk": 3, "address": 4, "random": 5, "modulo": 6, "checker": 7}


def stream(k, block, body, prepare=lambda: None, rounds=None):
    """Runs body(indexes, inside) over [0, count): UNROLL indexes (b64) and whether each is below count (pred), ascending in
    each thread. A block handles UNROLL * threads neighbours at a time. With `rounds` all of it is repeated."""
    count = k.argument("count")
    start, step, each, wide = k.b64("start"), k.b64("step"), k.b64("each"), k.b64()
    index = [k.b64(f"index{j}") for j in range(UNROLL)]
    inside = [k.pred(f"inside{j}") for j in range(UNROLL)]
    k(f"cvt.u64.u32 {each}, %threads", f"mul.wide.u32 {start}, %block, %threads", f"cvt.u64.u32 {wide}, %thread",
      f"mad.lo.u64 {start}, {start}, {UNROLL}, {wide}", f"mul.wide.u32 {step}, %blocks, %threads", f"mul.lo.u64 {step}, {step}, {UNROLL}")
    prepare()
    block.start()
    done, again, loop, over = k.label("done"), k.label("again"), k.label("loop"), k.pred()
    left = None
    if rounds:
        left = k.b32("left")
        k(f"mov.u32 {left}, {rounds}")
        k.place(again)
        k(f"setp.eq.u32 {over}, {left}, 0", f"@{over} bra {done}", f"sub.u32 {left}, {left}, 1")
    k(f"mov.u64 {index[0]}, {start}")
    k.place(loop)
    block.halted(done)
    k(f"setp.ge.u64 {over}, {index[0]}, {count}", f"@{over} bra {again if rounds else done}")
    for j in range(1, UNROLL):
        k(f"add.u64 {index[j]}, {index[j - 1]}, {each}")
    for j in range(UNROLL):
        k(f"setp.lt.u64 {inside[j]}, {index[j]}, {count}")
    body(index, inside)
    k(f"add.u64 {index[0]}, {index[0]}, {step}", f"bra {loop}")
    k.place(done)


def addresses(k, name, base, index, size):
    to = [k.b64(f"{name}_at{j}") for j in range(UNROLL)]
    for j in range(UNROLL):
        k(f"mad.lo.u64 {to[j]}, {index[j]}, {size}, {base}")
    return to


def vector(words):
    return "{" + ", ".join(words) + "}"


def load_vectors(k, name, base, index, inside):
    """Four 16-byte loads of the thread, all begun before one is used. Returns their addresses and words."""
    at = addresses(k, name, base, index, 16)
    words = [[k.b32(f"{name}{j}_{n}") for n in range(4)] for j in range(UNROLL)]
    for j in range(UNROLL):
        k(f"@{inside[j]} ld.global.cg.v4.u32 {vector(words[j])}, [{at[j]}]")
    return at, words


class Pattern:
    """cuda_pattern_word for four words at a time. Zero, aa, bytes and checker are one word, which checker inverts in every
    other 32-byte sector; the others have code of their own."""

    def __init__(self, k, inverting):
        self.k = k
        pattern, self.seed, flags = k.argument("pattern"), k.argument("seed"), k.argument("flags")
        self.plain, self.sector, self.invert = k.b32("plain"), k.b32("sector"), k.b32("invert")
        self.fifth, self.fourth = k.b32("fifth"), k.b32("fourth")
        self.own = {name: k.pred("is_" + name) for name in ("random", "walk", "address", "modulo")}
        test = k.pred()
        k(f"mov.u32 {self.plain}, 0", f"mov.u32 {self.sector}, 0")
        for name, word in (("aa", "0xaaaaaaaa"), ("bytes", "0x00ff00ff"), ("checker", "0x55555555")):
            k(f"setp.eq.u32 {test}, {pattern}, {PATTERNS[name]}", f"@{test} mov.u32 {self.plain}, {word}")
        k(f"@{test} mov.u32 {self.sector}, 0xffffffff")
        for name, which in self.own.items():
            k(f"setp.eq.u32 {which}, {pattern}, {PATTERNS[name]}")
        k.note("index % 20 == seed % 20 where index / 4 % 5 == fifth, at the word index % 4 == fourth")
        k(f"rem.u32 {self.fifth}, {self.seed}, 20", f"and.b32 {self.fourth}, {self.fifth}, 3", f"shr.u32 {self.fifth}, {self.fifth}, 2",
          f"and.b32 {self.invert}, {flags}, {inverting}", f"setp.ne.u32 {test}, {self.invert}, 0",
          f"selp.b32 {self.invert}, 0xffffffff, 0, {test}")
        self.words = [k.b32(f"word{n}") for n in range(4)]
        self.low, self.high, self.test = k.b32("low"), k.b32("high"), k.pred("test")

    def make(self, index):
        """The four words of the 16-byte word `index`. They are overwritten by the next call."""
        k, words, low, high, test = self.k, self.words, self.low, self.high, self.test
        labels = {name: k.label(name) for name in self.own}
        made = k.label("made")
        k(f"mov.b64 {{{low}, {high}}}, {index}")
        for name, which in self.own.items():
            k(f"@{which} bra {labels[name]}")
        k(f"and.b32 {high}, {low}, 2", f"setp.ne.u32 {test}, {high}, 0", f"mov.u32 {words[0]}, {self.plain}",
          f"@{test} xor.b32 {words[0]}, {words[0]}, {self.sector}", *(f"mov.u32 {word}, {words[0]}" for word in words[1:]), f"bra {made}")
        k.place(labels["random"])
        k(f"shl.b32 {low}, {low}, 2")
        for n, word in enumerate(words):
            k(f"add.u32 {word}, {low}, {n}", f"xor.b32 {word}, {word}, {self.seed}")
            hash_word(k, word)
        k(f"bra {made}")
        k.place(labels["walk"])
        k(f"shl.b32 {low}, {low}, 2", f"and.b32 {low}, {low}, 31", *(f"shl.b32 {word}, {1 << n}, {low}" for n, word in enumerate(words)),
          f"bra {made}")
        k.place(labels["address"])
        k(f"shl.b32 {low}, {low}, 2", *(f"add.u32 {word}, {low}, {n}" for n, word in enumerate(words)), f"bra {made}")
        k.place(labels["modulo"])
        k.note("2^32 % 5 == 1, so that index % 5 is that of the sum of its halves")
        k(f"rem.u32 {low}, {low}, 5", f"rem.u32 {high}, {high}, 5", f"add.u32 {low}, {low}, {high}", f"rem.u32 {low}, {low}, 5")
        for n, word in enumerate(words):
            k(f"setp.eq.u32 {test}, {self.fourth}, {n}", f"setp.eq.and.u32 {test}, {low}, {self.fifth}, {test}",
              f"selp.b32 {word}, 0xffffffff, 0, {test}")
        k.place(made)
        k(*(f"xor.b32 {word}, {word}, {self.invert}" for word in words))
        return words


def opened(name, threads=1024):
    k = Kernel(name, threads)
    begin(k)
    return k, Block(k)


def memory_write():
    k, block = opened("memory_write")
    a, total, pattern = k.argument("a"), Sum(k), Pattern(k, INVERT)

    def body(index, inside):
        at = addresses(k, "a", a, index, 16)
        for j in range(UNROLL):
            words = pattern.make(index[j])
            k(f"@{inside[j]} st.global.v4.u32 [{at[j]}], {vector(words)}")
            total.add(words, inside[j])

    stream(k, block, body)
    block.stamp()
    block.finish(total.total)
    return k


def memory_verify():
    k, block = opened("memory_verify")
    a, total, pattern, found = k.argument("a"), Sum(k), Pattern(k, INVERTED), Found(k)
    leave, own = k.pred("leave"), k.b32()

    def prepare():
        k(f"and.b32 {own}, %flags, {INVERT}", f"setp.ne.u32 {leave}, {own}, 0")

    def body(index, inside):
        at, got = load_vectors(k, "a", a, index, inside)
        differ, any_differs, store = k.b32("differ"), k.b32("any_differs"), k.pred("store")
        word_index, outside, same = k.b64("word_index"), k.pred("outside"), k.pred("same")
        for j in range(UNROLL):
            want = pattern.make(index[j])
            next_vector, equal = k.label("next"), k.label("equal")
            k(f"not.pred {outside}, {inside[j]}", f"@{outside} bra {next_vector}")
            total.add(got[j])
            k(f"xor.b32 {any_differs}, {got[j][0]}, {want[0]}")
            for n in range(1, 4):
                k(f"xor.b32 {differ}, {got[j][n]}, {want[n]}", f"or.b32 {any_differs}, {any_differs}, {differ}")
            k(f"setp.eq.u32 {same}, {any_differs}, 0", f"@{same} bra {equal}", f"shl.b64 {word_index}, {index[j]}, 2")
            for n in range(4):
                found.check(word_index, want[n], got[j][n])
                k(f"add.u64 {word_index}, {word_index}, 1")
            k.place(equal)
            k.note("want ^ invert is the pattern")
            k(f"mov.pred {store}, {leave}", *(f"xor.b32 {word}, {word}, {pattern.invert}" for word in want),
              *(f"not.b32 {word}, {word}" for word in want), f"@{store} st.global.v4.u32 [{at[j]}], {vector(want)}")
            k.place(next_vector)

    stream(k, block, body, prepare)
    block.stamp()
    block.finish(total.total, found.all())
    return k


def memory_read():
    k, block = opened("memory_read")
    a, rounds, total = k.argument("a"), k.argument("rounds"), Sum(k)

    def body(index, inside):
        _, words = load_vectors(k, "a", a, index, inside)
        for j in range(UNROLL):
            total.add(words[j], inside[j])

    stream(k, block, body, rounds=rounds)
    block.stamp()
    block.finish(total.total)
    return k


def memory_copy():
    k, block = opened("memory_copy")
    a, b, total = k.argument("a"), k.argument("b"), Sum(k)

    def body(index, inside):
        _, words = load_vectors(k, "a", a, index, inside)
        to = addresses(k, "b", b, index, 16)
        for j in range(UNROLL):
            k(f"@{inside[j]} st.global.v4.u32 [{to[j]}], {vector(words[j])}")
        for j in range(UNROLL):
            total.add(words[j], inside[j])

    stream(k, block, body)
    block.stamp()
    block.finish(total.total)
    return k


def two_sources(name, threads, combine, target):
    """a and b as float, count 16-byte words; combine(sum, a, b) is the instruction, `target` the argument written."""
    k, block = opened(name, threads)
    base = {which: k.argument(which) for which in sorted({"a", "b", target})}
    total = Sum(k)

    def body(index, inside):
        at_a, of_a = load_vectors(k, "a", base["a"], index, inside)
        _, of_b = load_vectors(k, "b", base["b"], index, inside)
        to = at_a if target == "a" else addresses(k, target, base[target], index, 16)
        x, y = k.f32("x"), k.f32("y")
        for j in range(UNROLL):
            for n in range(4):
                k(f"mov.b32 {x}, {of_a[j][n]}", f"mov.b32 {y}, {of_b[j][n]}", combine(x, y), f"mov.b32 {of_a[j][n]}, {x}")
            k(f"@{inside[j]} st.global.v4.u32 [{to[j]}], {vector(of_a[j])}")
            total.add(of_a[j], inside[j])

    stream(k, block, body)
    block.stamp()
    block.finish(total.total)
    return k


def memory_triad():
    return two_sources("memory_triad", 1024, lambda x, y: f"fma.rn.f32 {x}, {y}, 0f40400000, {x}", "c")  # 3.0


def add_float():
    return two_sources("add_float", 256, lambda x, y: f"add.rn.f32 {x}, {x}, {y}", "a")


def memory_chase():
    """One load after the other: the address of each is the word that the one before has loaded."""
    k, block = opened("memory_chase", 1)
    a, rounds, total = k.argument("a"), k.argument("rounds"), Sum(k)
    link, at, left, part, over = k.b32("link"), k.b64("at"), k.b32("left"), k.b32("part"), k.pred()
    k(f"mov.u32 {link}, 0", f"mov.u32 {left}, {rounds}")
    block.start()
    done, again, loop = k.label("done"), k.label("again"), k.label("loop")
    k.place(again)
    block.halted(done)
    k.note("as many links as take some 0.1 to 1 ms")
    k(f"min.u32 {part}, {left}, 1024", f"setp.eq.u32 {over}, {part}, 0", f"@{over} bra {done}", f"sub.u32 {left}, {left}, {part}")
    k.place(loop)
    k(f"mad.wide.u32 {at}, {link}, 4, {a}", f"ld.global.cg.u32 {link}, [{at}]")
    total.add([link])
    k(f"sub.u32 {part}, {part}, 1", f"setp.ne.u32 {over}, {part}, 0", f"@{over} bra {loop}", f"bra {again}")
    k.place(done)
    block.stamp()
    block.finish(total.total)
    return k


def fill(name, make):
    """make(k, index, seed) leaves the 32-bit word of an index (b32) in a register that it returns."""
    k, block = opened(name, 256)
    a, seed, total = k.argument("a"), k.argument("seed"), Sum(k)

    def body(index, inside):
        at = addresses(k, "a", a, index, 4)
        for j in range(UNROLL):
            low = k.b32()
            k(f"cvt.u32.u64 {low}, {index[j]}")
            word = make(k, low, seed)
            k(f"@{inside[j]} st.global.u32 [{at[j]}], {word}")
            total.add([word], inside[j])

    stream(k, block, body)
    block.stamp()
    block.finish(total.total)
    return k


def bfloat(k, x):
    """The bits of a float as those of the nearest bfloat16 (ties to even), in the upper half."""
    word, odd = k.b32(), k.b32()
    k(f"mov.b32 {word}, {x}", f"bfe.u32 {odd}, {word}, 16, 1", f"add.u32 {word}, {word}, {odd}", f"add.u32 {word}, {word}, 0x7fff")
    return word


def normal_word(k, index, seed):
    """Each number is the sum of eight uniform bytes, less its mean of 1020, by its deviation of sqrt(8 * (256^2 - 1) / 12):
    normal to four deviations and more, and the same bits on every GPU. The bytes of the lower half come from h =
    cuda_hash(index ^ seed) and cuda_hash(h + 1), those of the upper from cuda_hash(h + 2) and cuda_hash(h + 3)."""
    h, halves = k.b32(), []
    k(f"xor.b32 {h}, {index}, {seed}")
    hash_word(k, h)
    hashes = [h]
    for n in (1, 2, 3):
        other = k.b32()
        k(f"add.u32 {other}, {h}, {n}")
        hashes.append(hash_word(k, other))
    for pair in (hashes[:2], hashes[2:]):
        total, x = k.b32(), k.f32()
        k(f"mov.u32 {total}, 0", *(f"dp4a.u32.u32 {total}, {one}, 0x01010101, {total}" for one in pair), f"sub.s32 {total}, {total}, 1020",
          f"cvt.rn.f32.s32 {x}, {total}", f"mul.rn.f32 {x}, {x}, 0f3b9cc4bf")
        halves.append(bfloat(k, x))
    word = k.b32()
    k(f"prmt.b32 {word}, {halves[0]}, {halves[1]}, 0x7632")
    return word


def integer_word(k, index, seed):
    """(h & 15) - 8 in the lower half and (h >> 16 & 15) - 8 in the upper, of h = cuda_hash(index ^ seed)."""
    h, halves = k.b32(), []
    k(f"xor.b32 {h}, {index}, {seed}")
    hash_word(k, h)
    for shift in (0, 16):
        part, x, bits = k.b32(), k.f32(), k.b32()
        k(f"bfe.u32 {part}, {h}, {shift}, 4", f"sub.s32 {part}, {part}, 8", f"cvt.rn.f32.s32 {x}, {part}", f"mov.b32 {bits}, {x}")
        halves.append(bits)
    word = k.b32()
    k(f"prmt.b32 {word}, {halves[0]}, {halves[1]}, 0x7632")
    return word


def compare():
    k, block = opened("compare", 256)
    a, b, total, found = k.argument("a"), k.argument("b"), Sum(k), Found(k)

    def body(index, inside):
        at_a, at_b = addresses(k, "a", a, index, 4), addresses(k, "b", b, index, 4)
        got, want = [k.b32(f"got{j}") for j in range(UNROLL)], [k.b32(f"want{j}") for j in range(UNROLL)]
        for j in range(UNROLL):
            k(f"@{inside[j]} ld.global.cg.u32 {got[j]}, [{at_a[j]}]", f"@{inside[j]} ld.global.cg.u32 {want[j]}, [{at_b[j]}]")
        for j in range(UNROLL):
            total.add([got[j]], inside[j])
            k(f"setp.ne.and.u32 {found.wrong}, {want[j]}, {got[j]}, {inside[j]}")
            found.note(index[j], want[j], got[j])

    stream(k, block, body)
    block.stamp()
    block.finish(total.total, found.all())
    return k


KERNELS = {
    "memory_write": memory_write,
    "memory_verify": memory_verify,
    "memory_read": memory_read,
    "memory_copy": memory_copy,
    "memory_triad": memory_triad,
    "memory_chase": memory_chase,
    "fill_normal": lambda: fill("fill_normal", normal_word),
    "fill_integer": lambda: fill("fill_integer", integer_word),
    "compare": compare,
    "add_float": add_float,
}
