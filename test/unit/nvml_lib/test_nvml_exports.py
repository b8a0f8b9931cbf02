# SPDX-License-Identifier: Apache-2.0
"""The libraries as the dynamic linker sees them: what they export, what they are called, what they need."""

import os
import re
import subprocess
from pathlib import Path

import pytest

GENERATIONS = ["535", "550", "590", "610"]


@pytest.fixture
def library(build, generation):
    return build / "sim" / "nvml" / f"r{generation}" / "libnvidia-ml.so.1"


def tool(*args):
    return subprocess.run(args, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("generation", GENERATIONS)
def test_exports_are_those_of_the_driver(build, library, generation):
    wanted = (build / "sim" / "nvml" / "gen" / f"exports_{generation}.txt").read_text().split()
    lines = tool("nm", "-D", "--defined-only", str(library)).splitlines()
    assert sorted(line.split()[2] for line in lines) == sorted(wanted)
    assert all(line.split()[1] == "T" for line in lines)


def test_550_lies_between_535_and_590(build):
    """It has what nvidia-smi of 550 asks for and 535 lacks, and nothing that came later."""
    names = {g: set((build / "sim/nvml/gen" / f"exports_{g}.txt").read_text().split()) for g in GENERATIONS}
    assert names["535"] < names["550"] < names["590"] and len(names["550"] - names["535"]) == 18
    assert {"nvmlDeviceGetPciInfoExt", "nvmlDeviceGetC2cModeInfoV", "nvmlDeviceGetGpuFabricInfoV"} <= names["550"] - names["535"]
    assert "nvmlDeviceGetCapabilities" not in names["550"]  # 12.5


@pytest.mark.parametrize("generation", GENERATIONS)
def test_nothing_of_the_library_is_missing(library, generation):
    undefined = tool("nm", "-D", "--undefined-only", str(library))
    assert not re.findall(r"\b(?:nvml|sim)_?\w*", undefined)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_needs_libc_only(library, generation):
    dynamic = tool("readelf", "-d", str(library))
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    if any(name.startswith(("libasan", "libubsan", "libtsan")) for name in needed):
        pytest.skip("the library is built with a sanitizer, which brings its own libraries")
    assert needed == ["libc.so.6"]
    assert re.findall(r"\(SONAME\).*\[(.*)\]", dynamic) == ["libnvidia-ml.so.1"]


@pytest.mark.parametrize("generation", GENERATIONS)
def test_both_names_lie_in_a_folder_of_their_own(library, generation):
    path = library
    assert path.name == "libnvidia-ml.so.1" and path.parent.name == f"r{generation}"
    assert (path.parent / "libnvidia-ml.so").resolve() == path.resolve()
