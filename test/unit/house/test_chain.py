# SPDX-License-Identifier: Apache-2.0
"""The way from a line of the kernel log to the POST of a webhook is as short as triage.h says, and goes as it says."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[3]
FOLDERS = ["src/source/kmsg", "src/verb/agent", "src/engine/health", "src/service/alert", "src/wire/fetch"]
DEFINITION = re.compile(r"^[a-zA-Z_][^;{}=\n]*?\b(\w+)\([^;{}]*?\)\n\{\n(.*?)^\}", re.M | re.S)
# Who calls back: the name that stands in the caller's body for the next function on the way.
CALLBACKS = {"handle_line": "give", "handle_change": "changed", "send_webhooks": "send_due"}


def bodies():
    found = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).glob("*.c")):
            for name, body in DEFINITION.findall(path.read_text()):
                found[name, path.name] = body
    return found


def steps():
    """The rows of the table in triage.h, each a list of (function, file or None)."""
    text = (ROOT / "src/verb/agent/triage.h").read_text()
    rows = re.findall(r"^ \*   (?:kernel log|timer|on disk) +(.*)$", text, re.M)
    return [re.findall(r"(\w+)(?: \(([\w.]+)\))?(?:, |$)", row) for row in rows]


def test_the_way_is_short():
    rows = steps()
    assert len(rows) == 4
    assert sum(map(len, rows[:2])) <= 10, "until the alert is decided"
    assert sum(map(len, rows)) <= 16, "until it is sent"


def test_each_function_calls_the_next():
    found = bodies()
    for row in steps():
        for (name, file), (following, _) in zip(row, row[1:]):
            body = [b for (n, f), b in found.items() if n == name and f == (file or f)]
            assert len(body) == 1, (name, file)
            assert re.search(rf"\b{CALLBACKS.get(following, following)}\(", body[0]), (name, following)
