# SPDX-License-Identifier: Apache-2.0
"""The matrix products, run as text, against sums in Python; and as they are used: fill, multiply twice, compare."""
import operator
import random
import struct

import pytest

NONE = (1 << 64) - 1
KERNELS = {"gemm_bf16": "ampere", "gemm_reference": "base"}


def hash_word(x):
    x ^= x >> 16
    x = x * 0x85EBCA6B & 0xFFFFFFFF
    x ^= x >> 13
    x = x * 0xC2B2AE35 & 0xFFFFFFFF
    return x ^ x >> 16


def bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def integers(rows, columns, seed):
    made = random.Random(seed)
    return [[made.randint(-8, 7) for _ in range(columns)] for _ in range(rows)]


def bfloats(matrix):
    return b"".join(struct.pack("<H", bits(x) >> 16) for row in matrix for x in row)


def product(a, b):
    return [float(sum(map(operator.mul, row, column))) for row in a for column in b]


def grid(name, m, n):
    return m // 128 * (n // 128) if name == "gemm_bf16" else 3


# One tile with fewer slabs than stages, as many, more; several tiles in both directions.
SIZES = ((128, 128, 32, "up"), (128, 128, 64, "down"), (128, 256, 96, 1), (256, 128, 160, 2))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("m, n, k, order", SIZES)
def test_product(machine, modules, name, m, n, k, order):
    """Each element is right, nothing beside c is written, and a block's checksum is that of its tile."""
    on = machine.Machine(order=order)
    a, b = integers(m, k, 1), integers(n, k, 2)
    a[3] = [0] * k
    want = product(a, b)
    c = on.alloc(b"\x7f" * 4 * (m * n + 4))
    results = on.launch(modules[KERNELS[name]], name, blocks=grid(name, m, n), a=on.alloc(bfloats(a)), b=on.alloc(bfloats(b)), c=c, m=m, n=n, k=k)
    assert on.read(c, "f")[:m * n] == want and on.data(c)[4 * m * n:] == b"\x7f" * 16
    assert on.read(c, "I")[3 * n:4 * n] == [0] * n, "zeros are +0"
    terms = [hash_word(bits(x) ^ i) for i, x in enumerate(want)]
    if name == "gemm_bf16":
        tiles = [[terms[(row + i) * n + column + j] for i in range(128) for j in range(128)] for row in range(0, m, 128) for column in range(0, n, 128)]
        assert [one.checksum for one in results] == [sum(tile) & 0xFFFFFFFF for tile in tiles]
    assert sum(one.checksum for one in results) & 0xFFFFFFFF == sum(terms) & 0xFFFFFFFF
    for number, one in enumerate(results):
        assert (one.smid, one.stopped, one.errors, one.first_bad, one.want, one.got) == (100 + number, 0, 0, NONE, 0, 0)
        assert one.clocks > 0 and one.end_ns > one.begin_ns


def test_real_numbers(machine, modules):
    """With other numbers than integers the two agree but for rounding."""
    m = n = 128
    k = 64
    on, made = machine.Machine(), random.Random(4)
    a, b = ([[made.gauss(0, 1) for _ in range(k)] for _ in range(128)] for _ in "ab")
    at_a, at_b = on.alloc(bfloats(a)), on.alloc(bfloats(b))
    seen = []
    for name, text in KERNELS.items():
        c = on.alloc(bytes(4 * m * n))
        on.launch(modules[text], name, a=at_a, b=at_b, c=c, m=m, n=n, k=k)
        seen.append(on.read(c, "f"))
    assert max(abs(x - y) for x, y in zip(*seen)) < 1e-4 and max(map(abs, seen[0])) > 10


@pytest.mark.parametrize("wrong", (0, 1))
def test_as_it_is_used(machine, modules, wrong):
    """fill_integer, gemm_bf16, gemm_reference, compare: no difference, or the one that an mma made."""
    m, n, k = 128, 256, 32
    on = machine.Machine()
    a, b, c, right = (on.alloc(bytes(size)) for size in (2 * m * k, 2 * n * k, 4 * m * n, 4 * m * n))
    for at, rows, seed in ((a, m, 1), (b, n, 2)):
        on.launch(modules["base"], "fill_integer", blocks=2, threads=64, a=at, count=rows * k // 2, seed=seed)

    def flip(number, results):
        if number == 64 * 5 + 7:
            results[6][3] += 1

    on.corrupt = flip if wrong else None
    results = on.launch(modules["ampere"], "gemm_bf16", blocks=2, a=a, b=b, c=c, m=m, n=n, k=k)
    reference = on.launch(modules["base"], "gemm_reference", blocks=2, a=a, b=b, c=right, m=m, n=n, k=k)
    (found,) = on.launch(modules["base"], "compare", threads=256, a=c, b=right, count=m * n)
    values = on.read(right, "f")
    assert max(values) > 100 and len(set(values)) > 300
    assert found.errors == wrong
    same = sum(one.checksum for one in results) & 0xFFFFFFFF == sum(one.checksum for one in reference) & 0xFFFFFFFF
    assert same == (not wrong)
    if wrong:
        got, want = on.read(c, "f"), values
        assert [i for i in range(m * n) if got[i] != want[i]] == [found.first_bad]
        assert (found.want, found.got) == (bits(want[found.first_bad]), bits(got[found.first_bad]))


def test_exchanged_values_change_the_checksum(machine, modules):
    """The same values in other places are another checksum."""
    sums = []
    for exchange in (False, True):
        on = machine.Machine()
        a, b = integers(128, 32, 1), integers(128, 32, 2)
        if exchange:
            a[5], a[90] = a[90], a[5]
        c = on.alloc(bytes(4 * 128 * 128))
        (one,) = on.launch(modules["ampere"], "gemm_bf16", a=on.alloc(bfloats(a)), b=on.alloc(bfloats(b)), c=c, m=128, n=128, k=32)
        sums.append(one.checksum)
    assert sums[0] != sums[1]


@pytest.mark.parametrize("name", KERNELS)
def test_stop_and_too_many_blocks(machine, modules, name):
    """A stop word that is set leaves c alone; blocks beyond the last tile do nothing."""
    on = machine.Machine()
    a, c = on.alloc(bytes(2 * 128 * 32)), on.alloc(b"\x7f" * 4 * 128 * 128)
    on.data(on.stop)[0] = 1
    results = on.launch(modules[KERNELS[name]], name, blocks=2, a=a, b=a, c=c, m=128, n=128, k=32)
    assert [one.stopped for one in results] == [1, 1] and set(on.data(c)) == {0x7F}
    on.data(on.stop)[0] = 0
    results = on.launch(modules[KERNELS[name]], name, blocks=6, a=a, b=a, c=c, m=128, n=128, k=32)
    assert [one.stopped for one in results] == [0] * 6 and results[5].checksum == 0 and set(on.data(c)) == {0}


def test_shared_memory_is_read_without_conflicts(machine, modules, monkeypatch):
    """Each eight rows that ldmatrix reads at once lie in different banks."""
    from ptx_tensor import Tensor
    right, seen = Tensor.ldmatrix, 0

    def watch(self, rest, lanes):
        nonlocal seen
        for at in range(0, 32, 8):
            assert len({address // 16 % 8 for address in lanes[at:at + 8]}) == 8
            seen += 1
        return right(self, rest, lanes)

    monkeypatch.setattr(Tensor, "ldmatrix", watch)
    on = machine.Machine()
    a, c = on.alloc(bytes(2 * 128 * 128)), on.alloc(bytes(4 * 128 * 128))
    on.launch(modules["ampere"], "gemm_bf16", a=a, b=a, c=c, m=128, n=128, k=128)
    assert seen == 4 * 8 * 2 * 6 * 4
