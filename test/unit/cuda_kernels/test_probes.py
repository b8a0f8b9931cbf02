# SPDX-License-Identifier: Apache-2.0
"""The probes of fma and mma.sync, run as text: right units give no errors for any number of rounds, wrong ones always do."""
import math
import re
import struct
from pathlib import Path

import pytest

NONE = (1 << 64) - 1
MMA = {  # text, accumulators of a thread, mma's of a chain in a round, bound of exactness
    "probe_mma_f16": ("turing", 32, 2**24),
    "probe_mma_s8": ("turing", 16, 2**31),
    "probe_mma_bf16": ("ampere", 32, 2**24),
    "probe_mma_tf32": ("ampere", 32, 2**24),
    "probe_mma_int8": ("ampere", 32, 2**31),
    "probe_mma_f64": ("ampere", 16, 2**53),
    "probe_mma_fp8": ("ada", 32, 2**13),
}
FMA = {"probe_fma32": 16, "probe_fma64": 8}
ROUND = 16  # mma's of a warp in a round
UP = 8  # those after the last


def value(x, name):
    """A register of results as a number."""
    return (x ^ 0x80000000) - 0x80000000 if MMA[name][2] == 2**31 else x


def launch(modules, on, name, **args):
    (result,) = on.launch(modules[MMA[name][0] if name in MMA else "base"], name, **{"threads": 32, "seed": 5, **args})
    return result


def clean(result):
    return (result.errors, result.first_bad, result.want, result.got, result.stopped) == (0, NONE, 0, 0, 0)


@pytest.mark.parametrize("name", MMA)
def test_right_units_have_no_errors(machine, modules, name):
    """Nor do accumulators ever leave the range in which they are exact."""
    most = 0

    def watch(_, results):
        nonlocal most
        most = max(most, *(abs(value(x, name)) for lane in results for x in lane))

    for rounds, order in ((0, "up"), (1, "down"), (63, 3), (64, "up"), (65, "down"), (130, "up"), (199, 4)):
        on = machine.Machine(order=order)
        on.corrupt = watch
        assert clean(launch(modules, on, name, rounds=rounds)), rounds
        assert on.mmas == rounds * ROUND + UP
    assert 0 < most < MMA[name][2]
    if name == "probe_mma_fp8":
        assert 64 < most, "products are too small to mean anything"


@pytest.mark.parametrize("name", FMA)
def test_right_fma_has_no_errors(machine, modules, name):
    for rounds, order in ((0, "up"), (1, "down"), (64, 3), (70, "up"), (130, "down")):
        assert clean(launch(modules, machine.Machine(order=order), name, rounds=rounds, threads=8)), rounds


@pytest.mark.parametrize("name", MMA)
def test_each_place_counts(machine, modules, name):
    """One wrong bit of one result of one mma: that accumulator is the error, whichever it is and whenever it was."""
    each = MMA[name][1]
    elements = each // 8
    for number, lane, element in ((0, 0, 0), (7, 31, elements - 1), (9, 13, 1), (ROUND * 3 + 2, 5, elements - 1), (ROUND * 5 + 4, 30, 0)):

        def flip(now, results):
            if now == number:
                results[lane][element] += 1

        on = machine.Machine()
        on.corrupt = flip
        result = launch(modules, on, name, rounds=5)
        assert (result.errors, result.first_bad) == (1, lane * each + number % 8 * elements + element)
        want, got = (struct.unpack("<i" if MMA[name][2] == 2**31 else "<f", struct.pack("<I", x))[0] for x in (result.want, result.got))
        if name != "probe_mma_f64":
            assert got == want + 1


def test_halves_of_a_double(machine, modules):
    """want and got are of the upper half where that differs, else of the lower one."""
    for change in (1.0, 2.0**44):

        def flip(now, results):
            if now == 0:
                results[3][1] += change

        on = machine.Machine()
        on.corrupt = flip
        result = launch(modules, on, "probe_mma_f64", rounds=0)
        assert result.errors == 1 and result.want != result.got
        assert (abs(struct.unpack("<d", struct.pack("<II", 0, result.want))[0]) > 2.0**20) == (change > 1)


@pytest.mark.parametrize("name", MMA)
def test_many_wrong(machine, modules, name):
    """All are counted, the lowest is told; also where threads of several warps have some."""
    each = MMA[name][1]

    def flip(now, results):
        for lane in (31, 4):
            results[lane][1] += 2

    on = machine.Machine(order="down")
    on.corrupt = flip
    result = launch(modules, on, name, rounds=1, threads=64)
    assert (result.errors, result.first_bad) == (2 * 2 * 8, 4 * each + 1)


@pytest.mark.slow("an interpreter of PTX, type by type")
@pytest.mark.parametrize("name", MMA)
def test_broken_units_are_seen(machine, modules, name, monkeypatch):
    """What a dead or sticking unit would do, in every mma alike: does nothing, writes zeros, exchanges two columns or two lanes,
    takes a bit of a multiplier's operand as 0. For numbers of rounds after which everything is where it began, too."""
    import ptx_tensor
    right = ptx_tensor.products

    def nothing(shape, lanes):
        return [[0] * len(lane) for lane in right(shape, lanes)]

    def exchanged(shape, lanes):
        made = right(shape, lanes)
        made[2], made[9] = made[9], made[2]
        return made

    def other_column(shape, lanes):
        return [lane[1::-1] + lane[2:] for lane in right(shape, lanes)]

    def lost_row(shape, lanes):
        lanes = [list(lane) for lane in lanes]
        lanes[6][0] = tuple(0 if name != "probe_mma_f64" else 0.0 for _ in lanes[6][0])
        return right(shape, lanes)

    for fault in (nothing, exchanged, other_column, lost_row):
        monkeypatch.setattr(ptx_tensor, "products", fault)
        for rounds in (0, 1, 64, 128):
            result = launch(modules, machine.Machine(), name, rounds=rounds)
            assert result.errors > 0, (fault, rounds)
        if fault is nothing:
            assert result.errors > 0.9 * 32 * MMA[name][1]


def faulty(text, machine, monkeypatch, name, fault):
    """The module of `text` with another fma."""
    monkeypatch.setattr(machine, name, fault)
    return machine.Module(text)


@pytest.mark.parametrize("name", FMA)
def test_broken_fma_is_seen(machine, texts, name, monkeypatch):
    each = FMA[name]
    which = "fma" + name[-2:]
    right = getattr(machine, which)
    calls = 0

    def once(number):

        def fault(a, b, c):
            nonlocal calls
            calls += 1
            return right(a, b, c) + (1.0 if calls == number + 1 else 0.0)

        return fault

    for number in (0, 77, each * 16 * 2 + 3):
        calls = 0
        module = faulty(texts["base"], machine, monkeypatch, which, once(number))
        (result,) = machine.Machine().launch(module, name, threads=1, rounds=2, seed=1)
        assert (result.errors, result.first_bad) == (1, number % each) and result.want != result.got
    for fault in (lambda a, b, c: c, lambda a, b, c: 0.0, lambda a, b, c: right(abs(a), b, c), lambda a, b, c: right(a, b - b % 2, c)):
        module = faulty(texts["base"], machine, monkeypatch, which, fault)
        for rounds in (0, 1, 128):
            (result,) = machine.Machine().launch(module, name, threads=2, rounds=rounds, seed=1)
            assert result.errors > 0, rounds


@pytest.mark.parametrize("name", list(MMA) + list(FMA))
def test_checksum(machine, modules, name):
    """The same for each block and order, another for another seed or number of rounds."""
    text = MMA[name][0] if name in MMA else "base"
    seen = [[one.checksum for one in machine.Machine(order=order).launch(modules[text], name, blocks=2, threads=64, rounds=rounds, seed=seed)]
            for order, rounds, seed in (("up", 1, 1), ("down", 1, 1), ("up", 2, 1), ("up", 1, 2))]
    assert all(len(set(pair)) == 1 for pair in seen)
    one, again, longer, other = (pair[0] for pair in seen)
    assert one == again and len({one, longer, other}) == 3


@pytest.mark.parametrize("name", MMA)
def test_operands_differ(machine, modules, name, monkeypatch):
    """Between lanes, chains, warps, seeds, and up and down."""
    import ptx_tensor
    right, seen = ptx_tensor.products, set()

    def watch(shape, lanes):
        seen.update(lanes)
        return right(shape, lanes)

    monkeypatch.setattr(ptx_tensor, "products", watch)
    for seed in (1, 2):
        launch(modules, machine.Machine(), name, rounds=1, threads=64, seed=seed)
    assert len(seen) == 2 * 2 * 2 * 8 * 32


@pytest.mark.parametrize("name", list(MMA) + list(FMA))
def test_stop(machine, modules, name):
    """The rounds that were done are right, also where warps have done different numbers, and fewer than asked for."""

    class Later(bytearray):
        looks = 0

        def __getitem__(self, at):
            self.looks += 1
            return b"\0\0\0\0" if self.looks == 1 else b"\1\0\0\0"

    for stop in (bytearray(b"\1\0\0\0"), Later(4)):
        on = machine.Machine(tick=1 << 19)
        on.memory.regions[on.stop >> 32] = stop
        result = launch(modules, on, name, rounds=100000, threads=64 if name in MMA else 4)
        assert (result.stopped, result.errors) == (1, 0)
        if name in MMA:
            assert (on.mmas - 2 * UP) % (64 * ROUND) == 0 and on.mmas < 8 * 64 * ROUND


def test_operations_of_a_round(modules, machine):
    """The figure of the header is what a full block does."""
    header = (Path(__file__).resolve().parents[3] / "sim/cuda/abi/cuda_kernel.h").read_text()
    for name, threads, operations in re.findall(r'KERNEL\(\w+, "(probe_(?:mma|fma)\w+)", \w+, (\d+), ([\d* ]+)\)', header):
        body = modules[MMA[name][0] if name in MMA else "base"].texts[name]
        loop = max(re.findall(r"^loop_\d+:\n(.*?)bra", body, re.DOTALL | re.MULTILINE), key=len)
        if name in MMA:
            m, n, k = map(int, re.search(r"m(\d+)n(\d+)k(\d+)", loop).groups())
            done = int(threads) // 32 * loop.count("mma.sync") * m * n * k * 2
        else:
            done = int(threads) * loop.count("fma.rn") * 2
        assert done == math.prod(map(int, operations.split("*"))), name
