# SPDX-License-Identifier: Apache-2.0
"""The probes of wgmma and tcgen05, run as text by what the PTX ISA says of their descriptors, tiles and registers."""
import struct

import pytest

NONE = (1 << 64) - 1
PROBES = {  # text, rows of the result, accumulators of a thread, bound of exactness
    "probe_wgmma_bf16": ("hopper", 64, 128, 2**24),
    "probe_wgmma_fp8": ("hopper", 64, 128, 2**13),
    "probe_tcgen05_bf16": ("blackwell", 128, 256, 2**24),
}


def launch(modules, on, name, **args):
    (result, ) = on.launch(modules[PROBES[name][0]], name, **{"seed": 5, **args})
    return result


def clean(result):
    return (result.errors, result.first_bad, result.want, result.got, result.stopped) == (0, NONE, 0, 0, 0)


def place(name, row, column):
    """The index of an accumulator, by the thread that has it."""
    if "tcgen05" in name:
        return row * 256 + column
    thread = 32 * (row // 16) + 4 * (row % 8) + column % 8 // 2
    return thread * 128 + column // 8 * 4 + row % 16 // 8 * 2 + column % 2


@pytest.mark.parametrize("name", PROBES)
def test_right_units_have_no_errors(machine, modules, name):
    most = 0

    def watch(_, made):
        nonlocal most
        most = max(most, max(made), -min(made))

    for rounds, order in ((0, "up"), (1, "down"), (65, 3), (130, "up")):
        on = machine.Machine(order=order)
        on.corrupt = watch
        assert clean(launch(modules, on, name, rounds=rounds)), rounds
        assert on.mmas == 4 * rounds + 1
    assert 0 < most < PROBES[name][3]


@pytest.mark.slow("an interpreter of PTX, type by type")
@pytest.mark.parametrize("name", PROBES)
def test_each_place_counts(machine, modules, name):
    rows = PROBES[name][1]
    for number, row, column in ((0, 0, 0), (3, rows - 1, 255), (6, 21, 130), (8, 9, 7)):

        def flip(now, made):
            if now == number:
                made[row * 256 + column] += 1

        on = machine.Machine(order="down")
        on.corrupt = flip
        result = launch(modules, on, name, rounds=2)
        assert (result.errors, result.first_bad) == (1, place(name, row, column))
        want, got = (struct.unpack("<f", struct.pack("<I", x))[0] for x in (result.want, result.got))
        assert got == want + 1


@pytest.mark.slow("an interpreter of PTX, type by type")
@pytest.mark.parametrize("name", PROBES)
def test_broken_units_are_seen(machine, modules, name, monkeypatch):
    """A dead unit, one row that is another's, one element of an operand lost, and an instruction that never adds."""
    from ptx_shared import Shared
    right, rows = Shared.product, PROBES[name][1]

    def nothing(self, a, b, kind):
        return [0.0] * (rows * 256)

    def other_row(self, a, b, kind):
        return right(self, a[:5] + a[6:7] + a[6:], b, kind)

    def lost(self, a, b, kind):
        return right(self, a, b[:99] + [b[99][:6] + b"\0\0" + b[99][8:]] + b[100:], kind)

    for fault in (nothing, other_row, lost):
        monkeypatch.setattr(Shared, "product", fault)
        for rounds in (0, 2):
            result = launch(modules, machine.Machine(), name, rounds=rounds)
            assert result.errors > 0, (fault, rounds)
        if fault is nothing:
            assert result.errors > 0.9 * rows * 256


@pytest.mark.parametrize("name", PROBES)
def test_checksum_and_blocks(machine, modules, name):
    seen = [[one.checksum for one in machine.Machine(order=order).launch(modules[PROBES[name][0]], name, blocks=2, rounds=rounds, seed=seed)]
            for order, rounds, seed in (("up", 1, 1), (2, 1, 1), ("up", 2, 1), ("up", 1, 2))]
    assert all(len(set(pair)) == 1 for pair in seen)
    one, again, longer, other = (pair[0] for pair in seen)
    assert one == again and len({one, longer, other}) == 3


@pytest.mark.slow("an interpreter of PTX, type by type")
@pytest.mark.parametrize("name", PROBES)
def test_stop(machine, modules, name):

    class Later(bytearray):
        looks = 0

        def __getitem__(self, at):
            self.looks += 1
            return b"\0\0\0\0" if self.looks == 1 else b"\1\0\0\0"

    for stop in (bytearray(b"\1\0\0\0"), Later(4)):
        on = machine.Machine(tick=1 << 19)
        on.memory.regions[on.stop >> 32] = stop
        result = launch(modules, on, name, rounds=100000)
        assert (result.stopped, result.errors) == (1, 0)
        assert on.mmas in (1, 1 + 4 * 64, 1 + 4 * 128)


@pytest.mark.parametrize("rounds", (0, 3))
def test_tensor_core_that_never_ends(machine, modules, monkeypatch, rounds):
    """A wait is bounded: one error, wanted 1, got 0, and tensor memory is not read."""
    from ptx_shared import Shared
    monkeypatch.setattr(Shared, "try_wait", lambda self, address, parity: False)
    monkeypatch.setattr(Shared, "dealloc", lambda self, rest, asked: [None] * 32)
    result = launch(modules, machine.Machine(tick=1 << 28), "probe_tcgen05_bf16", rounds=rounds)
    assert (result.errors, result.first_bad, result.want, result.got) == (1, 0, 1, 0)


@pytest.mark.slow("an interpreter of PTX, type by type")
@pytest.mark.parametrize("name, old, new", (
    ("probe_wgmma_bf16", "mov.u32 %upper, 1073741888;", "mov.u32 %upper, 1073741856;"),  # eight rows 512 bytes further
    ("probe_wgmma_bf16", "mov.u32 %upper, 1073741888;", "mov.u32 %upper, 2147483712;"),  # another swizzle
    ("probe_wgmma_fp8", "wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 1;"),
    ("probe_wgmma_bf16", "    fence.proxy.async.shared::cta;\n", ""),
    ("probe_tcgen05_bf16", "mov.u32 %upper, 2147500064;", "mov.u32 %upper, 1073758240;"),  # another swizzle
    ("probe_tcgen05_bf16", "mov.u32 %upper, 2147500064;", "mov.u32 %upper, 2147483680;"),  # no version
    ("probe_tcgen05_bf16", "xor.b32 %how, %how, 8192;", "xor.b32 %how, %how, 16384;\n    xor.b32 %how, %how, 8192;"),
))
def test_changes_show(machine, texts, name, old, new):
    from ptx_shared import Wrong
    text = texts[PROBES[name][0]]
    assert old in text
    module = machine.Module(text.replace(old, new))
    try:
        (result, ) = machine.Machine().launch(module, name, rounds=66, seed=3)
    except Wrong:
        return
    assert result.errors
