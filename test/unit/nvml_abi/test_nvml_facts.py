# SPDX-License-Identifier: Apache-2.0
"""Tests the fact files in sim/nvml/facts and what sim/nvml/gen makes of them: which name is exported, stubbed, written by hand."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FACTS = ROOT / "sim/nvml/facts"
sys.path.insert(0, str(ROOT / "sim/nvml/gen"))

import facts as fact_files  # noqa: E402
import generate  # noqa: E402

COUNTS = {535: 332, 590: 405, 610: 417}


@pytest.fixture(scope="module")
def facts():
    return fact_files.read(FACTS)


@pytest.fixture(scope="module")
def generated(facts):
    return dict(generate.outputs(facts))


def stub_names(generated):
    return re.findall(r"^nvmlReturn_t (nvml\w+)\(void\)$", generated["nvml_stubs.c"], re.M)


def prototypes(generated):
    return re.findall(r"^NVML_EXPORT [\w *]*?(nvml\w+)\(", generated["nvml_abi.h"], re.M)


def test_priorities(facts):
    priorities = [function.priority for function in facts.functions.values()]
    assert [priorities.count(level) for level in (1, 2, 3)] == [81, 139, 203]


@pytest.mark.parametrize("generation", COUNTS)
def test_export_counts(generated, generation):
    names = generated[f"exports_{generation}.txt"].split()
    assert len(names) == len(set(names)) == COUNTS[generation]


def test_a_newer_driver_exports_what_an_older_one_did(generated):
    old, mid, new = (set(generated[f"exports_{generation}.txt"].split()) for generation in COUNTS)
    assert old < mid < new


@pytest.mark.parametrize("generation", COUNTS)
def test_map_names_the_exports(generated, generation):
    text = generated[f"r{generation}.map"]
    assert re.findall(r"(nvml\w+);", text) == generated[f"exports_{generation}.txt"].split()
    assert re.search(r"^\{", text, re.M) and re.search(r"local:\s+\*;", text)


def test_each_export_is_either_a_stub_or_has_a_prototype(facts, generated):
    stubs, protos = stub_names(generated), prototypes(generated)
    assert not set(stubs) & set(protos)
    assert sorted(stubs + protos) == generated["exports_610.txt"].split()
    assert len(stubs) > 100 and len(protos) > 250


def test_priority_1_and_2_have_signatures(facts):
    missing = [f.name for f in facts.functions.values() if f.priority < 3 and not f.params]
    assert missing == []


def test_undocumented_exports_are_stubs(generated):
    assert {"nvmlInternalGetExportTable", "nvmlDeviceGetHandles"} <= set(stub_names(generated))


def test_enum_values_are_the_measured_ones(facts):
    enums = {enum.name: dict(enum.members) for enum in facts.types.enums}
    measured = fact_files.layout_enums(FACTS / "layouts.txt")
    assert len(measured) > 60
    for name, members in measured.items():
        wrong = {n: v for n, v in members if enums[name].get(n) != v}
        assert not wrong, name


def test_field_ids_are_unique_but_for_the_known_second_names(facts):
    seen = {}
    for _, _, pairs in facts.types.defines:
        for name, value in pairs:
            if name.startswith(("NVML_FI_DEV_", "NVML_FI_PWR_")):
                seen.setdefault(value, []).append(name)
    assert sorted(value for value, names in seen.items() if len(names) > 1) == [74, 76]
    assert set(range(1, 275)) <= set(seen) and max(seen) < 303


def broken(tmp_path, name, change):
    folder = tmp_path / "facts"
    shutil.copytree(FACTS, folder)
    file = folder / name
    text = file.read_text()
    changed = change(text)
    assert changed != text
    file.write_text(changed)
    return folder


@pytest.mark.parametrize(
    "name, change, message",
    [
        ("signatures.txt", lambda t: t.replace("nvmlShutdown(void)\n", ""), "nvmlShutdown"),
        ("signatures.txt", lambda t: t + "nvmlShutdown(void)\n", "second signature"),
        ("signatures.txt", lambda t: t + "nvmlNoSuchThing(void)\n", "nvmlNoSuchThing"),
        ("signatures.txt", lambda t: t + "nvmlUnitGetLedState(nvmlUnit_t unit)\n", "nvmlUnitGetLedState"),
        ("handwritten.txt", lambda t: t + "nvmlUnitGetLedState\n", "nvmlUnitGetLedState"),
        ("handwritten.txt", lambda t: t + "nvmlInit_v2\n", "nvmlInit_v2"),
        ("refusals.txt", lambda t: t + "nvmlInit_v2 NVML_ERROR_NO_DATA\n", "nvmlInit_v2"),
        ("refusals.txt", lambda t: t + "nvmlUnitGetLedState NVML_ERROR_NO_SUCH\n", "nvmlUnitGetLedState"),
        ("layouts_old.txt", lambda t: t + "nvmlMemory_t [8] 0:u64 total;\n", "nvmlMemory_t"),
        ("layouts.txt", lambda t: t.replace("0:u32 gpu; 4:u32 memory;", "0:u32 gpu; 4:nvmlNone_t memory;"), "nvmlNone_t"),
        ("enums.txt", lambda t: t + "\ndefine U\nNVML_SUCCESS 0\n", "NVML_SUCCESS"),
    ],
)
def test_contradictions_are_refused(tmp_path, name, change, message):
    with pytest.raises(fact_files.FactError, match=message):
        dict(generate.outputs(fact_files.read(broken(tmp_path, name, change))))


def test_a_wrong_offset_does_not_compile(tmp_path, generated):
    compiler = shutil.which("cc") or pytest.skip("no compiler")
    for name in ("nvml_abi.h", "nvml_layout_check.c"):
        (tmp_path / name).write_text(generated[name])
    command = [compiler, "-std=gnu17", "-fsyntax-only", str(tmp_path / "nvml_layout_check.c")]
    assert subprocess.run(command, check=False).returncode == 0
    header = tmp_path / "nvml_abi.h"
    header.write_text(header.read_text().replace("unsigned int gpu;\n    unsigned int memory;", "unsigned int memory;\n    unsigned int gpu;"))
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode != 0 and "nvmlUtilization_t.gpu" in result.stderr


@pytest.mark.parametrize("generation", COUNTS)
def test_linked_stubs_show_this_generation_only(build, generated, generation):
    library = build / "test" / "unit" / "nvml_abi" / f"libnvml_abi_stubs_{generation}.so"
    listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    shown = {line.split()[2] for line in listing.splitlines() if not line.split()[2].startswith("_")}
    assert shown == set(stub_names(generated)) & set(generated[f"exports_{generation}.txt"].split())


def test_generated_files_in_the_build_are_current(build, generated):
    for name, text in generated.items():
        assert (build / "sim" / "nvml" / "gen" / name).read_text() == text, name
