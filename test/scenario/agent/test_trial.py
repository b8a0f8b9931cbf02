# SPDX-License-Identifier: Apache-2.0
"""A person's trial: from `stoker status` alone, in a terminal of 80 x 24, what is wrong and what to do is on the first screen.
And the pictures of it in docs/trial.md show what the program prints."""
import copy
import itertools
import pathlib
import re
import sys

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))
import picture  # noqa: E402
import trial  # noqa: E402

CLASSES = yaml.safe_load((ROOT / "data/faults/classes.yaml").read_text())["classes"]
ACTIONS = dict(re.findall(r'ACTION\(\w+, "([^"]+)", "([^"]+)"\)', (ROOT / "src/model/fault.h").read_text()))
ROUTES = {"page": "Critical: act now.", "ticket": "Ticket: can wait for working hours.",
          "user": "For the owner of the work."}


def flat(text):
    return re.sub(r"\s+", " ", trial.plain(text))


def picture_of(one):
    return (trial.PICTURES / f"{one.name}.svg").read_text()


def says_it(one, text, size):
    """The screen of a node with a fault, as one reads it from the top."""
    fault, lines = CLASSES[one.fault], trial.plain(text).rstrip("\n").split("\n")
    assert len(lines) < size[1] and max(map(len, lines)) <= size[0], "it scrolls, or its lines are broken"
    if lines[1].startswith(" " * 9):  # the GPUs have a line of their own where the screen is narrow
        lines[:2] = [f"{lines[0]}  {lines[1].strip()}"]
    assert "\033[1;37;41m Problem \033[0m" in text or "\033[1;30;43m Problem \033[0m" in text
    blamed = one.thing if fault["cause"] != "application" else "a program on " + one.thing
    assert lines[1] == " Problem  " + blamed.replace(" on the node", "").removeprefix("the ")
    table = next((i for i, line in enumerate(lines) if line.startswith(" GPU ")), len(lines))
    first = flat("\n".join(lines[2:table]))
    # the first words of the incident: how bad it is, which thing, and that in the catalogue's words
    what = re.sub(r"^(the|an) (GPU|fabric|link) ", "", fault["text"])
    assert re.match(rf" {fault['severity']} {one.thing}\b", first, re.IGNORECASE) and what in first
    action = ACTIONS[fault["action"]]
    rows = [line.split()[0] for line in lines[2:table] if re.match(r" \S", line)]
    assert [row for row in rows if row != "whose"] == ["DO", "means", "why", "more"]
    after = " whose " if "whose" in rows else " why "  # where no work runs nobody is hit
    for wanted in (f" DO {action} {fault['advice']} means ", ROUTES[fault["route"]] + after, " more stoker runbook "):
        assert flat(wanted) in first, f"{wanted!r} is not there"
    marked = re.findall(r"^>\s+(\d+)", "\n".join(lines[table:]), re.MULTILINE)
    assert marked == ([one.thing.split()[1]] if "GPU" in one.thing and fault["cause"] != "application" else [])


def above_table(lines):
    """What is wrong and what to do. The evidence grows with time, the reason of an activity changes with it, and how much of
    the table has room below depends on how long its numbers are."""
    text = "\n".join(itertools.takewhile(lambda line: not re.match(r" GPU |.*all: stoker status", line), map(trial.plain, lines))).rstrip("\n")
    text = re.sub(r"\n(?:working|waiting|idle held|free|unusable|unknown): .*(?:\n .*)*", "", text)
    return re.sub(r"\n why .*?(?=\n more )", "", text, flags=re.DOTALL).rstrip("\n")


QUICK = ("xid-79-lost", "driver-unloaded", "hung-driver-call", "healthy-training", "mig-56-devices")


@pytest.mark.parametrize("one", [pytest.param(t, id=t.name, marks=() if t.name in QUICK else pytest.mark.slow("one more first screen"))
                                 for t in trial.TRIALS])
def test_first_screen(stoker, one):
    slower = copy.copy(one)
    slower.speed = max(1, one.speed // 4)  # a busy machine keeps pace with this
    screens = trial.play(stoker, slower)
    for size, (text, code) in screens.items():
        if one.fault:
            assert code == 1
            says_it(one, text, size)
        else:
            assert code == 0 and trial.plain(text).split("\n")[1] == "All healthy"
            assert "\033[1;32mAll healthy" in text
    now = trial.words(above_table(trial.same_everywhere(screens[trial.SMALL][0]).split("\n")))
    drawn = trial.words(above_table(picture.read(picture_of(one))))
    assert drawn == now, "the picture is stale: tools/trial.py draws it anew"


def test_every_picture_is_in_the_page():
    page = (ROOT / "docs/trial.md").read_text()
    shown = re.findall(r"^!\[[^\]]+\]\(pictures/(\S+)\.svg\)$", page, re.MULTILINE)
    assert shown == [t.name for t in trial.TRIALS]
    assert {p.stem for p in trial.PICTURES.glob("*.svg")} == set(shown)
    assert len({t.scenario for t in trial.TRIALS if t.fault}) >= 10
    assert len({CLASSES[t.fault]["cause"] for t in trial.TRIALS if t.fault}) >= 8
    for one in trial.TRIALS:
        assert len(picture_of(one)) < 40_000


def test_a_picture_reads_back():
    text = "a \033[1;31mred < word\033[0m & \033[2mdim\033[0m\n\n  \033[7mthen\033[27m some\n"
    svg = picture.draw([("title", text)], columns=80)
    assert picture.read(svg) == trial.plain(text).rstrip("\n").split("\n")
    assert trial.words("GPU 3 at 12:00:01 UTC, XID 79, 84C") == trial.words("GPU 3 at 13:59:59 UTC, XID 79, 9C")
    assert trial.words("XID 79 in the kernel log at 12:00:01 UTC (2 times)") == trial.words("XID 79 reported by the driver at 12:00:02 UTC")
    assert trial.words("above 54; for 40 s") == trial.words("above 54; for 2 min") != trial.words("above 54; for 2 GPUs")
    assert trial.words("GPU 3") != trial.words("GPU 4") and trial.words("XID 79") != trial.words("XID 48")
