# SPDX-License-Identifier: Apache-2.0
"""The words of faults stand in three places that may not include each other: src/model/fault.h, the catalogue's data and
the simulator's truths. They must say the same, and docs/faults.md must show what the catalogue holds."""
import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
JOB_CLASSES = {"hung-collective", "straggler", "starved", "memory-bound", "tiny-kernels", "no-tensor-cores", "idle-memory",
               "throughput-drop", "checkpointing"}
DOC = ROOT / "docs" / "faults.md"
BEGIN = "<!-- made by: stoker xid --list --markdown -->\n"


def model_words(table):
    text = (ROOT / "src/model/fault.h").read_text()
    body = re.search(rf"#define FAULT_{table}_TABLE\(\w+\)(.*?)\n\n", text, re.S)[1]
    return re.findall(r'\w+\(\w+, "([^"]+)", "([^"]+)"\)', body)


def truth_words(name):
    text = (ROOT / "sim/scenario/truth.c").read_text()
    body = re.search(rf"static const Word {name}_words\[\] = \{{(.*?)\}};", text, re.S)[1]
    return re.findall(r'\{"([^"]+)",\s*"([^"]+)"\}', body)


def classes():
    text = (ROOT / "data/faults/classes.yaml").read_text()
    return re.findall(r"^  ([a-z0-9-]+):$", text, re.M)


@pytest.mark.parametrize("table, name", [("CAUSE", "cause"), ("ACTION", "action"), ("ROUTE", "route")])
def test_the_simulator_has_the_words_of_the_model(table, name):
    assert model_words(table) and truth_words(name) == model_words(table)


def test_the_simulator_has_the_classes_of_the_catalogue():
    words = [key for key, _ in truth_words("class")]
    assert len(words) == len(set(words))
    assert set(words) - JOB_CLASSES <= set(classes())
    assert JOB_CLASSES <= set(words)


def test_every_truth_goes_with_the_catalogue(stoker):
    """A truth of a class never has a route above the worst that a rule of that class gives."""
    rules = json.loads(subprocess.run([stoker, "xid", "--list", "--json"], capture_output=True, text=True, check=True).stdout)
    assert len(rules) > 550
    order = ["none", "user", "ticket", "page"]
    worst = {}
    for line in (ROOT / "data/faults/classes.yaml").read_text().split("\n"):
        if m := re.match(r"  ([a-z0-9-]+):$", line):
            name = m[1]
        elif m := re.match(r"    route: (\w+)$", line):
            worst[name] = m[1]
    for rule in rules:
        if rule["class"]:
            worst[rule["class"]] = max(worst[rule["class"]], rule["route"], key=order.index)
    worst["thermal"] = "page"  # of a whole node, by a detector's rule
    checked = 0
    for path in sorted((ROOT / "sim/data/scenarios").glob("*.yaml")):
        for entry in re.findall(r"^  - \{(.*class: .*)\}$", path.read_text(), re.M):
            said = dict(part.split(": ", 1) for part in re.split(r", (?=\w+: )", entry))
            if said["class"] in worst:
                assert order.index(said["route"]) <= order.index(worst[said["class"]]), (path.name, entry)
                checked += 1
    assert checked > 30


def test_the_table_of_classes_is_current(stoker):
    table = subprocess.run([stoker, "xid", "--list", "--markdown"], capture_output=True, text=True, check=True).stdout
    text = DOC.read_text()
    before, after = text.split(BEGIN)
    after = after[after.index("\n\n"):]
    wanted = before + BEGIN + table.rstrip("\n") + after
    if os.environ.get("STOKER_UPDATE"):
        DOC.write_text(wanted)
    assert text == wanted or os.environ.get("STOKER_UPDATE"), "run this test with STOKER_UPDATE=1"
