# SPDX-License-Identifier: Apache-2.0
"""The way from a line of the kernel log to the POST of a webhook is as short as CONTRIBUTING.md says, and goes as it says."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[3]
FOLDERS = ["src/source/kmsg", "src/verb/agent", "src/engine/health", "src/service/journal", "src/service/alert", "src/wire/fetch"]
DEFINITION = re.compile(r"^[a-zA-Z_][^;{}=\n]*?\b(\w+)\([^;{}]*?\)\n\{\n(.*?)^\}", re.M | re.S)
# Who calls back: the name that stands in the caller's body for the next function on the way.
CALLBACKS = {"handle_line": "give", "handle_change": "changed", "handle_ack": "acked", "send_webhooks": "send_due"}


def bodies():
    found = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).glob("*.c")):
            for name, body in DEFINITION.findall(path.read_text()):
                found[name, path.name] = body
    return found


def steps():
    """The rows of the table, each a list of (function, file or "")."""
    section = (ROOT / "CONTRIBUTING.md").read_text().split("## From a line", 1)[1].split("\n## ", 1)[0]
    rows = [line.split("|")[2] for line in section.splitlines() if line.startswith("|") and "`" in line]
    return [re.findall(r"`(\w+)`(?: \(([\w.]+)\))?", row) for row in rows]


def test_the_way_is_short():
    rows = steps()
    assert len(rows) == 5
    journal = [name for row in rows for name, file in row if file == "journal.c" or name.startswith(("journal_", "db_"))]
    assert len(journal) <= 5, "through the journal"
    assert sum(map(len, rows)) - len(journal) <= 16, "all others"


def test_each_function_calls_the_next():
    found = bodies()
    for row in steps():
        for (name, file), (following, _) in zip(row, row[1:]):
            body = [b for (n, f), b in found.items() if n == name and f == (file or f)]
            assert len(body) == 1, (name, file)
            assert re.search(rf"\b{CALLBACKS.get(following, following)}\(", body[0]), (name, following)
        last, file = row[-1]
        assert [f for n, f in found if n == last and f == (file or f)], last
