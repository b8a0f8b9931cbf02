# SPDX-License-Identifier: Apache-2.0
"""That the machine sees what it is there for: texts with one line changed, each of which would fail on some GPU some time."""
import random
import re
import struct

import pytest


def changed(machine, text, name, pattern, replacement, which):
    """The module of one kernel, with the match number `which` of a pattern replaced."""
    body = re.search(rf"\.visible \.entry {name}\(.*?\n\}}\n", text, re.DOTALL)[0]
    found = list(re.finditer(pattern, body, re.MULTILINE))
    assert found, pattern
    match = found[which]
    return machine.Module(body[:match.start()] + match.expand(replacement) + body[match.end():])


def gemm(machine, module, order):
    """c of a product whose order of threads is chosen, or the Fault."""
    on, made = machine.Machine(order=order), random.Random(1)
    a, b = (on.alloc(b"".join(struct.pack("<f", made.randint(-8, 7))[2:] for _ in range(128 * 128))) for _ in "ab")
    c = on.alloc(bytes(4 * 128 * 128))
    try:
        result = on.launch(module, "gemm_bf16", a=a, b=b, c=c, m=128, n=128, k=128)
    except machine.Fault as fault:
        return str(fault)
    return on.read(c, "f"), result[0][5:]


ORDERS = ("up", "down", 1)
CHANGES = (
    ("a copy that is not waited for", r"cp\.async\.wait_group 1", "cp.async.wait_group 2", 0),
    ("a stage filled while it is read", r"^    bar\.sync 0;\n(?=    setp\.ne\.u32 %any)", "", 0),
    ("no barrier before shared memory is used again", r"^    bar\.sync 0;\n(?=    mov\.u64 %clock_end)", "", 0),
    ("another place of a chunk", r"bfe\.u32 %place, %line, 1, 2", "bfe.u32 %place, %line, 0, 2", 0),
    ("a source that is not aligned", r"(mad\.wide\.u32 %from_a, %chunk), 16,", r"\1, 8,", 0),
    ("a source beyond the end", r"(mad\.wide\.u32 %from_b, %chunk), 16,", r"\1, 32,", 0),
    ("fragments exchanged", r"\{%b2_0, %b2_1, %b3_0, %b3_1\}", "{%b2_0, %b3_0, %b2_1, %b3_1}", 0),
    ("an accumulator not set to 0", r"^    mov\.f32 %acc2_3_1, 0f00000000;\n", "", 0),
    ("a warp come apart", r"^    ldmatrix", "    @%leader ldmatrix", 0),
)


@pytest.fixture(scope="module")
def right(machine, texts):
    module = machine.Module(texts["ampere"])
    first, *others = (gemm(machine, module, order) for order in ORDERS)
    assert all(one == first for one in others)
    return first


@pytest.mark.parametrize("what, pattern, replacement, which", CHANGES)
def test_changes_show(machine, texts, right, what, pattern, replacement, which):
    module = changed(machine, texts["ampere"], "gemm_bf16", pattern, replacement, which)
    assert any(gemm(machine, module, order) != right for order in ORDERS), what


def test_unknown_instructions_are_refused(machine, texts):
    module = machine.Module(texts["base"].replace("red.shared.min.u64", "frob.shared.u64"))
    with pytest.raises(machine.Fault, match="frob"):
        machine.Machine().launch(module, "compare", threads=1)


def test_fma_rounds_once(machine):
    """Against exact arithmetic, at ties and just beside them."""
    from fractions import Fraction
    made = random.Random(2)

    def exact(a, b, c):
        """The nearest float of a * b + c, ties to even, by its two neighbours."""
        value = Fraction(a) * Fraction(b) + Fraction(c)
        near = machine.F32(float(value))
        best = [near]
        for step in (-1, 1):
            if near:
                best.append(machine.float32((machine.bits32(near) + step) & 0xFFFFFFFF))
        return min(best, key=lambda x: (abs(Fraction(x) - value), machine.bits32(x) & 1))

    for _ in range(3000):
        a, b = (machine.F32(made.choice((1, -1)) * (1 + made.getrandbits(23) / 2**23)) for _ in "ab")
        c = machine.F32(-a * b * made.choice((1, 1 + 2**-23, 2**24, 2**25, 2**-24)) + made.choice((0, 2**-40)))
        assert machine.fma32(a, b, c) == exact(a, b, c)
    tie = machine.F32(1 + 2**-23)
    assert machine.fma32(2.0**-24, tie, 1.0) == 1 + 2**-23  # the product is above half a step by 2^-47: double alone loses that
