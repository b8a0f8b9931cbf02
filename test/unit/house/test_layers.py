# SPDX-License-Identifier: Apache-2.0
"""The floors of the house: who may include whom (docs/appendix/decisions.md). Includes are rooted at src/ or at the top."""
import os
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]

# floor -> floors it may include (itself always)
ALLOWED = {
    "base": set(),
    "wire": {"base"},
    "model": {"base"},
    "source": {"base", "wire", "model"},
    "engine": {"base", "model"},
    "service": {"base", "wire", "model", "engine"},
    "verb": {"base", "wire", "model", "source", "engine", "service", "sim"},
    "main.c": {"verb", "base"},
}
# inside the simulated node
SIM_ALLOWED = {
    "core": set(),
    "cuda": {"core"},
    "nvml": {"core"},
    "scenario": {"core", "base"},
    "node": {"core", "base"},
    "smi": {"base"},
}
RESET = ("smi", "sim/core/control.h")  # a reset, which the library has no call for
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def includes(path):
    return INCLUDE.findall(path.read_text())


def sources(top):
    return [p for p in sorted((ROOT / top).rglob("*")) if p.suffix in (".c", ".h", ".def")]


def wrong_src(path, text):
    floor = path.relative_to(ROOT / "src").parts[0]
    for name in text:
        parts = name.split("/")
        if len(parts) == 1:
            if not (path.parent / name).exists():  # generated beside the object
                continue
            yield f"{path}: include \"{name}\" is not rooted"
        elif parts[0] != floor and parts[0] not in ALLOWED[floor]:
            yield f"{path}: {floor} may not include {name}"


def wrong_sim(path, text):
    room = path.relative_to(ROOT / "sim").parts[0]
    for name in text:
        parts = name.split("/")
        if parts[0] == "sim" and parts[1] != room and parts[1] not in SIM_ALLOWED[room] and (room, name) != RESET:
            yield f"{path}: sim/{room} may not include {name}"
        elif (ROOT / "src" / parts[0]).is_dir() and parts[0] not in SIM_ALLOWED[room]:
            yield f"{path}: sim/{room} may not include {name}"


def test_no_include_points_up():
    wrong = [w for p in sources("src") for w in wrong_src(p, includes(p))]
    wrong += [w for p in sources("sim") for w in wrong_sim(p, includes(p))]
    assert wrong == []


@pytest.mark.parametrize("path, name", [("src/base/x.c", "model/metric.h"), ("src/model/x.c", "verb/verb.h"),
                                        ("src/engine/x.c", "service/api.h"), ("src/source/x.c", "engine/rules.h")])
def test_the_check_sees_a_wrong_arrow(path, name):
    assert list(wrong_src(ROOT / path, [name]))


@pytest.mark.parametrize("path, name", [("sim/core/x.c", "base/str.h"), ("sim/nvml/x.c", "sim/scenario/scenario.h"),
                                        ("sim/smi/x.c", "sim/core/state.h")])
def test_the_check_sees_a_wrong_arrow_in_the_simulator(path, name):
    assert list(wrong_sim(ROOT / path, [name]))


def tracked():
    for folder, below, names in os.walk(ROOT):
        below[:] = [name for name in below if name not in (".git", "__pycache__") and not name.startswith("build")]
        yield from (pathlib.Path(folder, name) for name in names)


def test_every_source_file_begins_with_the_licence_line():
    bare = []
    for p in tracked():
        if p.suffix in (".c", ".h", ".def", ".py", ".sh", ".build", ".yaml", ".yml") or p.name in ("Makefile", "run"):
            if "corpus" in p.parts:
                continue
            head = p.read_text(errors="replace").split("\n")[:2]
            if not any("SPDX-License-Identifier: Apache-2.0" in line for line in head):
                bare.append(str(p.relative_to(ROOT)))
    assert bare == []


def test_no_name_that_says_nothing():
    empty = [p for p in tracked() if re.fullmatch(r"(utils?|misc|common|helpers?|manager)\.(c|h|py|js)", p.name)]
    assert empty == []
