# SPDX-License-Identifier: Apache-2.0
"""The instances of src/model/peak.def, by which work is estimated, are those of data/mig/boards.yaml."""
import pathlib
import re

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_instances_are_those_of_the_boards():
    boards = yaml.safe_load((ROOT / "data" / "mig" / "boards.yaml").read_text())
    rows = re.findall(r'^PEAK_MIG\("([^"]+)", (\d+), (\d+), (\d+), (\d+)\)$', (ROOT / "src" / "model" / "peak.def").read_text(), re.M)
    assert rows
    for word, *numbers in rows:
        slices, size, grid, sm = map(int, numbers)
        named = word.removesuffix(" Blackwell").replace(" ", "-")
        mine = [b for b in boards if re.match(rf"{re.escape(named)}(-|$)", b["name"])]
        assert mine, word
        for board in mine:
            assert max(p.get("size", 0) for p in board["profiles"]) == grid, board["name"]
            found = [p for p in board["profiles"] if p["slices"] == slices and p.get("size") == size]
            assert found and all(p.get("sm", sm) == sm for p in found), (board["name"], numbers)  # not all are known there
