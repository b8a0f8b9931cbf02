# SPDX-License-Identifier: Apache-2.0
"""Recordings of real GPUs against simulated nodes, and the recorder itself on simulated nodes.

STOKER_BUILD names the build folder. A recording is made on a machine with GPUs by `nvml-record FILE` and lies in
test/data/real; each one becomes a test.
"""

import copy
import importlib.util
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REAL = sorted((ROOT / "test" / "data" / "real").rglob("nvml-*.json"))

spec = importlib.util.spec_from_file_location("compare", Path(__file__).with_name("compare.py"))
compare = importlib.util.module_from_spec(spec)
spec.loader.exec_module(compare)

NODE = """
about: one of each kind that answers differently
node: {driver: "590.48.01"}
gpus:
  - {board: h100-sxm-80gb, count: 2}
  - {board: h100-sxm-80gb, mig: [3g.40gb, 1g.10gb]}
  - {board: l40s}
  - {board: t4}
work:
  - {name: job, kind: train, gpus: 0-1, process: secretive}
truth: []
"""


@pytest.fixture(scope="module")
def build():
    if "STOKER_BUILD" not in os.environ:
        pytest.skip("STOKER_BUILD does not name a build folder")
    return Path(os.environ["STOKER_BUILD"])


def record(build, folder, name, scenario):
    """A recording of a simulated node, and what the library saw its client do."""
    file, out, strict, trace = (folder / f"{name}{end}" for end in (".yaml", ".json", ".strict", ".trace"))
    file.write_text(scenario, encoding="utf-8")
    env = dict(os.environ, STOKER_SIM_RUNTIME=str(folder), STOKER_SIM_NOBLOCK="1", STOKER_SIM_TRACE=str(trace))
    done = subprocess.run(
        [build / "stoker", "sim", "run", "--strict", str(strict), str(file), "--",
         build / "test" / "record" / "nvml-record", str(out)],
        env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(out.read_text(encoding="utf-8")), strict, trace


@pytest.fixture(scope="module")
def simulated(build, tmp_path_factory):
    return record(build, tmp_path_factory.mktemp("record"), "node", NODE)


def gpu_of(recording, mig=False):
    """The first H100, with or without MIG devices."""
    return next(str(g) for g, (name, devices) in compare.names(recording).items() if "H100" in name and bool(devices) == mig)


def find(recording, function, on=None, **args):
    on = gpu_of(recording) if on is None else on
    return next(c for c in recording["calls"] if (c["f"], c["on"], c["args"]) == (function, on, args))


@pytest.mark.parametrize("path", REAL or [None], ids=[p.stem for p in REAL] or ["none"])
def test_a_simulated_node_answers_as_the_real_one(path, build, tmp_path):
    if path is None:
        pytest.skip("no recording of a real GPU yet")
    real = json.loads(path.read_text(encoding="utf-8"))
    sim, _, _ = record(build, tmp_path, "sim", compare.scenario_of(real, ROOT / "sim" / "data"))
    found = list(compare.compare(real, sim))
    assert not found, "\n".join(found[:200])


def test_every_gpu_is_asked_for_everything(simulated):
    recording, strict, _ = simulated
    asked = {c["f"] for c in recording["calls"]}
    assert recording["driver"] == "590.48.01"
    assert len(asked) > 150
    for gpu in "01234":
        assert len({c["f"] for c in recording["calls"] if c["on"] == gpu}) > 100, gpu
    assert find(recording, "nvmlDeviceGetMaxClockInfo", type=1)["out"]["mhz"] == ["unsigned int", 1980]
    assert find(recording, "nvmlDeviceGetMemoryInfo_v2")["out"]["memory"][1]["reserved"] > 400 << 20
    mig = gpu_of(recording, mig=True)
    assert find(recording, "nvmlDeviceGetName", on=f"{mig}/0")["out"]["name"][1].endswith("3g.40gb")
    assert any(c["f"] == "nvmlGpmMetricsGet" and c["rc"] == 0 for c in recording["calls"])
    assert any(c["f"] == "nvmlComputeInstanceGetInfo_v2" and c["rc"] == 0 for c in recording["calls"])


def test_nothing_is_changed_on_the_node(simulated):
    _, _, trace = simulated
    called = set(re.findall(r"\bnvml\w+", trace.read_text(encoding="utf-8")))
    assert "nvmlDeviceGetName" in called
    allowed = {"nvmlInit_v2", "nvmlShutdown", "nvmlGpmSampleAlloc", "nvmlGpmSampleFree"}
    changing = re.compile(r"Set[A-Z]|Create|Destroy|Reset|Clear|Freeze|Register|Update|Write|Remove|Alloc|Free")
    assert not {name for name in called if changing.search(name)} - allowed


def test_nobody_is_named(simulated):
    recording, _, _ = simulated
    text = json.dumps(recording)
    assert "secretive" not in text
    assert find(recording, "nvmlDeviceGetUUID")["out"]["uuid"][1].strip("GPU-x0") == ""
    for call in recording["calls"]:
        for type_, value in call["out"].values():
            if type_.startswith("nvmlProcess") and value:
                assert all(v.get("pid", 0) in (0, 1) for v in (value if isinstance(value, list) else [value]))


def test_the_recorder_uses_the_library_rightly(simulated):
    _, strict, _ = simulated
    said = strict.read_text(encoding="utf-8").splitlines() if strict.exists() else []
    assert [line for line in said if "nvmlDeviceGetFieldValues: field" not in line] == []  # unknown fields are its trade


def test_a_recording_equals_itself(simulated):
    recording, _, _ = simulated
    assert list(compare.compare(recording, copy.deepcopy(recording))) == []


def test_two_recordings_of_one_node_agree(simulated, build, tmp_path):
    recording, _, _ = simulated
    again, _, _ = record(build, tmp_path, "again", NODE)
    assert list(compare.compare(recording, again)) == []


def test_the_node_of_a_recording_can_be_made(simulated, build, tmp_path):
    recording, _, _ = simulated
    scenario = compare.scenario_of(recording, ROOT / "sim" / "data")
    assert scenario.count("board: h100-sxm-80gb") == 3 and scenario.count("mig: [") == 1
    rebuilt, _, _ = record(build, tmp_path, "rebuilt", scenario)
    assert list(compare.compare(recording, rebuilt)) == []


FALSE = {
    "a clock": ("nvmlDeviceGetMaxClockInfo", {"type": 1}, lambda c: c["out"]["mhz"].__setitem__(1, 1975), "mhz is 1975"),
    "a code": ("nvmlDeviceGetFanSpeed", {}, lambda c: c.__setitem__("rc", 0), "a value (0), not not supported (3)"),
    "a type": ("nvmlDeviceGetPowerUsage", {}, lambda c: c["out"]["milliwatts"].__setitem__(0, "int"), "of type int"),
    "a name": ("nvmlDeviceGetName", {}, lambda c: c["out"]["name"].__setitem__(1, "NVIDIA H200"), "NVIDIA H200"),
    "a size": ("nvmlDeviceGetMemoryInfo_v2", {}, lambda c: c["out"]["memory"][1].__setitem__("total", 1), "total is 1"),
    "a reading": ("nvmlDeviceGetTemperature", {"sensor": 0}, lambda c: c["out"]["celsius"].__setitem__(1, 400), "400"),
    "a list": ("nvmlDeviceGetSupportedMemoryClocks", {}, lambda c: c["out"]["mhz"][1].pop(), "entries"),
    "a limit": ("nvmlDeviceGetFieldValues", {"fieldId": 196, "scopeId": 0},
                lambda c: c["out"]["value"].__setitem__(1, -40), "value is -40"),
}


@pytest.mark.parametrize("what", FALSE)
def test_what_is_false_is_reported(what, simulated):
    recording, _, _ = simulated
    function, args, falsify, wanted = FALSE[what]
    false = copy.deepcopy(recording)
    falsify(find(false, function, **args))
    found = list(compare.compare(recording, false))
    assert len(found) == 1 and function in found[0] and wanted in found[0], found


def test_a_missing_function_is_reported(simulated):
    recording, _, _ = simulated
    false = copy.deepcopy(recording)
    find(false, "nvmlDeviceGetBrand")["rc"] = None
    assert ["no such function" in line for line in compare.compare(recording, false)] == [True]
