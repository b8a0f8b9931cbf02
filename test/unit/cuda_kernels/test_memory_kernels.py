# SPDX-License-Identifier: Apache-2.0
"""The memory kernels, run as text, against the contract of sim/cuda/abi/cuda_kernel.h."""
import math
import random
import struct

import pytest

NONE = (1 << 64) - 1
INVERT, INVERTED = 1, 2
PATTERNS = range(8)
ORDERS = ("up", "down", 7)


def hash_word(x):
    x ^= x >> 16
    x = x * 0x85EBCA6B & 0xFFFFFFFF
    x ^= x >> 13
    x = x * 0xC2B2AE35 & 0xFFFFFFFF
    return x ^ x >> 16


def pattern_word(pattern, seed, index):
    i = index & 0xFFFFFFFF
    return (0, 0xAAAAAAAA, 0x00FF00FF, 1 << (i & 31), i, hash_word(i ^ seed), 0xFFFFFFFF if index % 20 == seed % 20 else 0,
            0xAAAAAAAA if i >> 3 & 1 else 0x55555555)[pattern]


def words(count, seed=1):
    made = random.Random(seed)
    return [made.getrandbits(32) for _ in range(count)]


def pack(values, form="I"):
    return struct.pack(f"<{len(values)}{form}", *values)


def total(results):
    return sum(one.checksum for one in results) & 0xFFFFFFFF


def check_block(results, blocks, machine):
    """What every kernel leaves besides its findings."""
    assert [one.smid for one in results] == [100 + block for block in range(blocks)]
    assert all(one.stopped == 0 and one.clocks > 0 and one.end_ns > one.begin_ns > 0 for one in results)


def clean(results):
    return all((one.errors, one.first_bad, one.want, one.got) == (0, NONE, 0, 0) for one in results)


# 37 threads: no whole warp; 3 blocks: not even; counts below, at and beyond one turn of the grid.
GRIDS = [(1, 64, 5), (3, 37, 700), (2, 64, 512), (2, 32, 0)]


@pytest.fixture
def run(machine, modules):
    """run(kernel, ...) on a machine of its own, unless one is given"""

    def launch(name, on, text="base", **args):
        return on.launch(modules[text], name, **args)

    return launch


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("flags", (0, INVERT))
def test_write(machine, run, pattern, flags):
    for blocks, threads, count in GRIDS:
        on = machine.Machine()
        a = on.alloc(b"\x33" * (16 * count + 32))
        results = run("memory_write", on, blocks=blocks, threads=threads, a=a, count=count, pattern=pattern, seed=0x1234567, flags=flags)
        want = [pattern_word(pattern, 0x1234567, i) ^ (0xFFFFFFFF if flags else 0) for i in range(4 * count)]
        assert on.read(a, "I") == want + [0x33333333] * 8
        assert total(results) == sum(want) & 0xFFFFFFFF and clean(results)
        check_block(results, blocks, on)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_verify(machine, run, pattern):
    """A word that differs is an error, the lowest index of a block is told; INVERT leaves the complement, INVERTED expects it."""
    seed, count, blocks = 99, 300, 2
    for flags in range(4):
        mask = 0xFFFFFFFF if flags & INVERTED else 0
        want = [pattern_word(pattern, seed, i) ^ mask for i in range(4 * count)]
        for bad in ((), (517,), (0, 1199), (1021, 1022, 1023)):
            on = machine.Machine(order=ORDERS[flags % 3])
            data = list(want)
            for index in bad:
                data[index] ^= 1 << index % 32
            a = on.alloc(pack(data))
            results = run("memory_verify", on, blocks=blocks, threads=32, a=a, count=count, pattern=pattern, seed=seed, flags=flags)
            assert total(results) == sum(data) & 0xFFFFFFFF
            assert sum(one.errors for one in results) == len(bad)
            firsts = [one for one in results if one.first_bad != NONE]
            if bad:
                first = min(firsts, key=lambda one: one.first_bad)
                assert (first.first_bad, first.want, first.got) == (bad[0], want[bad[0]], data[bad[0]])
            else:
                assert clean(results)
            assert on.read(a, "I") == ([word ^ mask ^ 0xFFFFFFFF for word in want] if flags & INVERT else data)


def test_verify_counts_all(machine, run):
    """Each block counts its own and names its lowest."""
    on, count = machine.Machine(), 600
    a = on.alloc(b"\xff" * 16 * count)
    results = run("memory_verify", on, blocks=2, threads=32, a=a, count=count)
    assert sum(one.errors for one in results) == 4 * count
    assert [one.first_bad for one in results] == [0, 4 * 32 * 4] and all((one.want, one.got) == (0, 0xFFFFFFFF) for one in results)


def test_verify_knows_indexes_beyond_32_bits(machine, run):
    """modulo goes by the whole index, the others by its lower 32 bits; an error's index is whole. The memory begins so far
    below the allocation that the first 2^32 16-byte words are never touched: a block of the grid far behind handles these."""
    on, threads = machine.Machine(), 32
    start = (1 << 32) + 7 * 128
    block = start // (4 * threads)
    seed = 13
    data = [pattern_word(6, seed, 4 * start + i) for i in range(512)]
    assert data != [pattern_word(6, seed, (4 * start + i) & 0xFFFFFFFF) for i in range(512)]
    data[77] ^= 4
    a = on.alloc(pack(data))
    (result,) = run("memory_verify", on, only=block, blocks=block + 1, threads=threads, a=(a - 16 * start) & NONE, count=start + 128, pattern=6,
                    seed=seed)
    assert (result.errors, result.first_bad, result.want ^ result.got) == (1, 4 * start + 77, 4)


def test_read(machine, run):
    for blocks, threads, count in GRIDS:
        for rounds in (1, 3):
            on, data = machine.Machine(), words(4 * count)
            results = run("memory_read", on, blocks=blocks, threads=threads, a=on.alloc(pack(data)), count=count, rounds=rounds)
            assert total(results) == sum(data) * rounds & 0xFFFFFFFF and clean(results)
            check_block(results, blocks, on)


def test_copy(machine, run):
    for blocks, threads, count in GRIDS:
        on, data = machine.Machine(), words(4 * count)
        a, b = on.alloc(pack(data)), on.alloc(bytes(16 * count + 16))
        results = run("memory_copy", on, blocks=blocks, threads=threads, a=a, b=b, count=count)
        assert on.read(b, "I") == data + [0] * 4 and on.read(a, "I") == data
        assert total(results) == sum(data) & 0xFFFFFFFF
        check_block(results, blocks, on)


def test_triad_and_add(machine, run):
    for blocks, threads, count in GRIDS:
        made = random.Random(5)
        x, y = ([struct.unpack("<f", struct.pack("<f", made.gauss(0, 9)))[0] for _ in range(4 * count)] for _ in "ab")
        on = machine.Machine()
        a, b, c = on.alloc(pack(x, "f")), on.alloc(pack(y, "f")), on.alloc(bytes(16 * count))
        results = run("memory_triad", on, blocks=blocks, threads=threads, a=a, b=b, c=c, count=count)
        assert on.read(c, "f") == [machine.fma32(v, 3.0, u) for u, v in zip(x, y)]
        assert total(results) == sum(on.read(c, "I")) & 0xFFFFFFFF
        results = run("add_float", on, blocks=blocks, threads=threads, a=a, b=b, count=count)
        assert on.read(a, "f") == [machine.F32(u + v) for u, v in zip(x, y)] and on.read(b, "f") == y
        assert total(results) == sum(on.read(a, "I")) & 0xFFFFFFFF
        check_block(results, blocks, on)


@pytest.mark.parametrize("rounds", (0, 1, 5, 1024, 2500))
def test_chase(machine, run, rounds):
    on, size = machine.Machine(), 64
    links = list(range(1, size)) + [0]
    random.Random(3).shuffle(links)
    (result,) = run("memory_chase", on, a=on.alloc(pack(links)), rounds=rounds)
    at, seen = 0, 0
    for _ in range(rounds):
        at = links[at]
        seen += at
    assert result.checksum == seen & 0xFFFFFFFF
    check_block([result], 1, on)


def bfloat(x):
    word = struct.unpack("<I", struct.pack("<f", x))[0]
    return word + 0x7FFF + (word >> 16 & 1) >> 16


def normal_half(hashes):
    deviation = struct.unpack("<f", struct.pack("<f", 1 / math.sqrt(8 * 65535 / 12)))[0]
    return bfloat(struct.unpack("<f", struct.pack("<f", (sum(b"".join(h.to_bytes(4, "little") for h in hashes)) - 1020) * deviation))[0])


def normal_word(index, seed):
    h = hash_word(index ^ seed)
    others = [hash_word((h + n) & 0xFFFFFFFF) for n in (1, 2, 3)]
    return normal_half((h, others[0])) | normal_half(others[1:]) << 16


def integer_word(index, seed):
    h = hash_word(index ^ seed)
    return bfloat((h & 15) - 8) | bfloat((h >> 16 & 15) - 8) << 16


@pytest.mark.parametrize("name, word", (("fill_normal", normal_word), ("fill_integer", integer_word)))
def test_fill(machine, run, name, word):
    for blocks, threads, count in ((1, 32, 3), (3, 64, 1501)):
        on = machine.Machine()
        a = on.alloc(bytes(4 * count + 8))
        results = run(name, on, blocks=blocks, threads=threads, a=a, count=count, seed=77)
        want = [word(i, 77) for i in range(count)]
        assert on.read(a, "I") == want + [0, 0]
        assert total(results) == sum(want) & 0xFFFFFFFF
        check_block(results, blocks, on)


def test_normal_is_normal():
    values = [struct.unpack("<f", struct.pack("<I", half << 16))[0] for i in range(8000) for half in divmod(normal_word(i, 3), 65536)]
    n = len(values)
    mean = sum(values) / n
    deviation = math.sqrt(sum((x - mean)**2 for x in values) / n)
    assert abs(mean) < 0.03 and abs(deviation - 1) < 0.03
    for limit, share in ((1, 0.3173), (2, 0.0455), (3, 0.0027)):
        assert abs(sum(abs(x) > limit for x in values) / n - share) < 0.01
    pairs = list(zip(values[::2], values[1::2]))
    assert abs(sum(x * y for x, y in pairs) / len(pairs)) < 0.04, "the numbers of a pair hang together"


def test_compare(machine, run):
    for blocks, threads, count in ((1, 32, 5), (2, 64, 1003)):
        for bad in ((), (4,), (2, 3), (count - 1, )):
            on, data = machine.Machine(order="down"), words(count)
            other = list(data)
            for index in bad:
                other[index] ^= 0x80000001
            results = run("compare", on, blocks=blocks, threads=threads, a=on.alloc(pack(data)), b=on.alloc(pack(other)), count=count)
            assert sum(one.errors for one in results) == len(bad) and total(results) == sum(data) & 0xFFFFFFFF
            if bad:
                first = min(results, key=lambda one: one.first_bad)
                assert (first.first_bad, first.want, first.got) == (bad[0], other[bad[0]], data[bad[0]])
            else:
                assert clean(results)


STREAMS = ("memory_write", "memory_verify", "memory_read", "memory_copy", "memory_triad", "fill_normal", "fill_integer", "compare", "add_float")


@pytest.mark.parametrize("name", STREAMS + ("memory_chase", ))
def test_stop(machine, run, name):
    """A stop word that is set before the start, and one that is set on the way, end the kernel early."""

    class Later(bytearray):
        """Is 0 when it is looked at first."""
        looks = 0

        def __getitem__(self, at):
            self.looks += 1
            return b"\0\0\0\0" if self.looks == 1 else b"\1\0\0\0"

    for stop in (bytearray(b"\1\0\0\0"), Later(4)):
        on = machine.Machine(tick=1 << 19)
        on.memory.regions[on.stop >> 32] = stop
        count = 4096
        a, b, c = (on.alloc(bytes(16 * count)) for _ in "abc")
        threads = 1 if name == "memory_chase" else 32
        (result,) = run(name, on, threads=threads, a=a, b=b, c=c, count=count, rounds=5000, pattern=1, seed=1)
        assert result.stopped == 1
        if name == "memory_write":
            written = on.read(a, "I").count(0xAAAAAAAA)
            assert written == (0 if not isinstance(stop, Later) else written) and written < 4 * count / 2


def test_orders(machine, run):
    """However threads are scheduled, the results are the same."""
    seen = set()
    for order in ("up", "down", 1, 2, 3):
        on = machine.Machine(order=order)
        a = on.alloc(b"\x11" * 16 * 500)
        results = run("memory_verify", on, blocks=2, threads=96, a=a, count=500, pattern=5, seed=6)
        seen.add(tuple(one[5:] for one in results))
    assert len(seen) == 1
