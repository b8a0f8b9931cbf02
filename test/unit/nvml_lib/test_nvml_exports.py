# SPDX-License-Identifier: Apache-2.0
"""The three libraries as the dynamic linker sees them: what they export, what they are called, what they need."""

import os
import re
import subprocess
from pathlib import Path

import pytest

GENERATIONS = ["535", "590", "610"]


def library(generation):
    return Path(os.environ[f"NVML_LIB_{generation}"])


def tool(*args):
    return subprocess.run(args, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("generation", GENERATIONS)
def test_exports_are_those_of_the_driver(generation):
    wanted = (Path(os.environ["NVML_LISTS_DIR"]) / f"exports_{generation}.txt").read_text().split()
    lines = tool("nm", "-D", "--defined-only", str(library(generation))).splitlines()
    assert sorted(line.split()[2] for line in lines) == sorted(wanted)
    assert all(line.split()[1] == "T" for line in lines)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_nothing_of_the_library_is_missing(generation):
    undefined = tool("nm", "-D", "--undefined-only", str(library(generation)))
    assert not re.findall(r"\b(?:nvml|sim)_?\w*", undefined)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_needs_libc_only(generation):
    dynamic = tool("readelf", "-d", str(library(generation)))
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    assert [n for n in needed if not n.startswith("ld-linux")] == ["libc.so.6"]
    assert re.findall(r"\(SONAME\).*\[(.*)\]", dynamic) == ["libnvidia-ml.so.1"]


@pytest.mark.parametrize("generation", GENERATIONS)
def test_both_names_lie_in_a_folder_of_their_own(generation):
    path = library(generation)
    assert path.name == "libnvidia-ml.so.1" and path.parent.name == f"r{generation}"
    assert (path.parent / "libnvidia-ml.so").resolve() == path.resolve()
