# SPDX-License-Identifier: Apache-2.0
"""Text and JSON of one result have the same numbers: each row of the text is made again of what the JSON says."""
import json
import pathlib
import re

DATA = pathlib.Path(__file__).resolve().parents[3] / "test/data/bench"


def both(name):
    """The rows of the text, which begin with two spaces, the whole text, and the JSON."""
    text = (DATA / f"{name}.txt").read_text()
    return [line for line in text.splitlines() if re.match(r"  \S", line)], text, json.loads((DATA / f"{name}.json").read_text())


def test_neighbour():
    rows, text, told = both("isolation")
    assert [float(re.search(r"  ([\d.]+) ", row[18:])[1]) for row in rows[:-1]] == [round(measure["alone"], 1) for measure in told["measures"]]
    for row, measure in zip(rows, told["measures"]):
        cells = re.findall(r"([+-][\d.]+) %|([\d.]+) times|(-)(?= )", row[36:])
        for cell, flood in zip(cells, ("memory", "l2", "compute", "copy"), strict=True):
            change = measure["change"][flood]
            assert change is None if cell[2] else float(cell[0] or (float(cell[1]) - 1) * 100) == round(100 * change, 1)
    assert " ".join(told["text"].split()) in " ".join(text.split()) and told["slow_measure"] == "memory.read"
