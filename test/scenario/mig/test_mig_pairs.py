# SPDX-License-Identifier: Apache-2.0
"""From any layout to any other, on the simulated node's library: the wanted one stands at the end, and no more instances were
destroyed than the best of all ways to place it destroys."""
import collections
import pathlib
import random
import re

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
BOARDS = {"h100-sxm-80gb": "H100-80GB", "a100-sxm4-80gb": "A100-80GB", "a30-24gb": "A30-24GB", "b200-180gb": "B200-180GB"}
PAIRS = 2000
ROUNDS = 50  # on one node: the simulated one keeps all that was done to it


def all_layouts(table):
    """Of a board: the names of each layout that can be had -> all ways to place it, as sets of (name, start)."""
    layouts = collections.defaultdict(set)

    def place(profiles, taken, slices, names, placed):
        layouts[tuple(sorted(names))].add(frozenset(placed))
        for i, profile in enumerate(profiles):
            count = names.count(profile["name"])
            media = sum("+me" in name for name in names)
            if count == profile["max"] or slices < profile["slices"] or ("+me" in profile["name"] and media):
                continue
            for start in profile["starts"]:
                bits = ((1 << profile["size"]) - 1) << start
                if not bits & taken:
                    place(profiles[i:], taken | bits, slices - profile["slices"], [*names, profile["name"]],
                          [*placed, (profile["name"], start)])

    place(table["profiles"], 0, max(p["slices"] for p in table["profiles"]), [], [])
    return layouts


def as_word(names):
    return "+".join(f"{names.count(name)}x{name}" for name in dict.fromkeys(names)) or "none"


def standing(text):
    """Lines of `export -o text`, as sets of (name, start)."""
    return [frozenset((name, int(start)) for name, start in re.findall(r"(\S+) at (\d+)", line)) for line in text.splitlines()]


@pytest.mark.slow("applies 250 layouts to eight GPUs")
def test_any_layout_becomes_any_other(make_mig):
    tables = {t["name"]: all_layouts(t) for t in yaml.safe_load((ROOT / "data/mig/boards.yaml").read_text())
              if t["name"] in BOARDS.values()}
    gpus = [tables[table] for table in BOARDS.values() for _ in range(2)]
    draw = random.Random(16)
    for turn in range(PAIRS // len(gpus)):
        if turn % ROUNDS == 0:
            mig = make_mig("about: four boards\ngpus:\n" + "".join(f"  - {{board: {b}, count: 2}}\n" for b in BOARDS) + "truth: []\n")
            mig.ok("apply", "all=none")
            before = [frozenset()] * len(gpus)
        wanted = [draw.choice(sorted(layouts)) for layouts in gpus]
        fewest = sum(min(len(now - placed) for placed in layouts[names]) for now, names, layouts in zip(before, wanted, gpus, strict=True))
        mig.ok("apply", *(f"gpu{i}={as_word(names)}" for i, names in enumerate(wanted)))
        after = standing(mig.layout())
        assert [tuple(sorted(name for name, _ in one)) for one in after] == wanted, (before, after)
        assert all(one in layouts[names] for one, names, layouts in zip(after, wanted, gpus, strict=True)), after
        calls = collections.Counter(mig.changes())
        made = sum(len(one - now) for now, one in zip(before, after, strict=True))
        assert (calls["GpuInstanceDestroy"], calls["DeviceCreateGpuInstanceWithPlacement"]) == (fewest, made), (before, wanted, after)
        before = after
