# SPDX-License-Identifier: Apache-2.0
"""python3-pynvml on simulated nodes: every function it wraps, on every GPU, and short programs as monitors have them."""
import json
import re
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
NAME, GPUS, MIB = "NVIDIA H100 80GB HBM3", 8, 1 << 20
TOTAL_MIB, RESERVED_MIB = 81559, 479

# Every error that the driver's documentation gives for some call; 999 "Unknown Error" is none of them.
DOCUMENTED = {2, 3, 4, 6, 7, 13, 19, 23, 25, 26}
# Not exported by any driver that the simulator stands for.
NEVER_EXPORTED = {"nvmlDeviceCcuGetStreamState", "nvmlDeviceCcuSetStreamState"}


@pytest.fixture(scope="module")
def pynvml(client):
    return client("pynvml")


def python(node, root, *words, **more):
    done = node.run(root, "/usr/bin/python3", "-X", "faulthandler", *words, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Answers:
    """What a sweep brought back, by function."""

    def __init__(self, path):
        self.rows = {}
        for line in path.read_text().splitlines():
            name, gpu, args, *answer = json.loads(line)
            self.rows.setdefault(name, []).append((gpu, args, answer))

    def values(self, name):
        """The value for each GPU of the first arguments tried."""
        first = {}
        for gpu, _, answer in self.rows[name]:
            first.setdefault(gpu, answer[0] if len(answer) == 1 else answer)
        return [first[g] for g in sorted(first)]

    def by_args(self, name, gpu=0):
        return {tuple(args): answer[0] if len(answer) == 1 else answer for g, args, answer in self.rows[name] if g == gpu}

    def errors(self):
        return [(name, a[1]) for name, rows in self.rows.items() for _, _, a in rows if len(a) == 2 and a[0] == "!"]


def sweep(node, root):
    out = node.folder / "sweep.json"
    python(node, root, HERE / "pynvml_sweep.py", out)
    return Answers(out)


def wrapped(root):
    text = (root / "usr/lib/python3/dist-packages/pynvml.py").read_text()
    return set(re.findall(r"^def (nvml\w+)", text, re.M))


@pytest.fixture(scope="module")
def swept(stoker, pynvml, tmp_path_factory, node_of):
    """One sweep of the default node, what the node knew before it, and the node."""
    n = node_of(stoker, tmp_path_factory.mktemp("sweep"), "default")
    n.step("60s")
    true = n.show()
    return sweep(n, pynvml), true, n


def test_every_wrapped_function_was_called(swept, pynvml):
    scenes = (HERE / "pynvml_scenes.py").read_text()
    missing = {f for f in wrapped(pynvml) if f not in swept[0].rows and f"N.{f}" not in scenes}
    # the same function under its other name, and two that only scenes could call but NVML's init covers
    assert missing <= {"nvmlInitWithFlags", "nvmlEventSetWait_v2"}, missing


def test_every_error_is_a_documented_one(swept):
    assert {code for _, code in swept[0].errors()} <= DOCUMENTED
    assert {name for name, code in swept[0].errors() if code == 13} == NEVER_EXPORTED


@pytest.mark.parametrize("name, wanted", [
    ("nvmlDeviceGetName", NAME),
    ("nvmlDeviceGetBrand", 14),
    ("nvmlDeviceGetArchitecture", 9),
    ("nvmlDeviceGetBoardPartNumber", "692-2G520-0200-000"),
    ("nvmlDeviceGetVbiosVersion", "96.00.61.00.01"),
    ("nvmlDeviceGetCudaComputeCapability", [9, 0]),
    ("nvmlDeviceGetNumGpuCores", 132 * 128),
    ("nvmlDeviceGetMemoryBusWidth", 5120),
    ("nvmlDeviceGetMaxPcieLinkGeneration", 5),
    ("nvmlDeviceGetMaxPcieLinkWidth", 16),
    ("nvmlDeviceGetPcieSpeed", 32000),
    ("nvmlDeviceGetMaxClockInfo", 1980),
    ("nvmlDeviceGetSupportedMemoryClocks", [2619, 1593]),
    ("nvmlDeviceGetPowerManagementDefaultLimit", 700000),
    ("nvmlDeviceGetPowerManagementLimitConstraints", [200000, 700000]),
    ("nvmlDeviceGetEnforcedPowerLimit", 700000),
    ("nvmlDeviceGetEccMode", [1, 1]),
    ("nvmlDeviceGetMigMode", [0, 0]),
    ("nvmlDeviceGetRemappedRows", [0, 0, 0, 0]),
    ("nvmlDeviceGetFanSpeed", ["!", 3]),
    ("nvmlDeviceGetNvLinkState", 1),
    ("nvmlDeviceGetNvLinkVersion", 6),
    ("nvmlDeviceGetNvLinkRemoteDeviceType", 2),
    ("nvmlDeviceGetBAR1MemoryInfo", None),
])
def test_the_board_is_as_described(swept, name, wanted):
    values = swept[0].values(name)
    if name == "nvmlDeviceGetBAR1MemoryInfo":
        values, wanted = [v["bar1Total"] for v in values], 131072 * MIB
    assert values == [wanted] * GPUS


def test_identities_are_distinct_and_lead_back(swept):
    answers, true, _ = swept
    assert answers.values("nvmlDeviceGetUUID") == [t["uuid"] for t in true]
    for name in ("nvmlDeviceGetSerial", "nvmlDeviceGetUUID", "nvmlDeviceGetMinorNumber", "nvmlDeviceGetBoardId"):
        assert len(set(answers.values(name))) == GPUS, name
    handles = answers.values("nvmlDeviceGetHandleByIndex")
    for way in ("Serial", "UUID", "PciBusId"):
        assert answers.values(f"nvmlDeviceGetHandleBy{way}") == handles, way
    for pci in answers.values("nvmlDeviceGetPciInfo"):
        assert pci["pciDeviceId"] == 0x233010DE and pci["busId"] == f"{pci['domain']:08X}:{pci['bus']:02X}:00.0"


def test_readings_agree_with_the_node(swept):
    answers, true, _ = swept
    read = answers.values
    for g, t in enumerate(true):
        assert abs(read("nvmlDeviceGetPowerUsage")[g] - t["watt_mean"] * 1000) <= 1
        assert abs(read("nvmlDeviceGetTotalEnergyConsumption")[g] - t["energy_mj"]) <= 1
        assert abs(read("nvmlDeviceGetTemperature")[g] - t["temp_c"]) <= 1
        assert abs(read("nvmlDeviceGetUtilizationRates")[g]["gpu"] - t["window"][0] * 100) <= 1
        assert abs(read("nvmlDeviceGetUtilizationRates")[g]["memory"] - t["window"][12] * 100) <= 1
        assert read("nvmlDeviceGetClockInfo")[g] == t["sm_mhz"]
        assert read("nvmlDeviceGetCurrentClocksThrottleReasons")[g] == t["reasons"]


def test_memory_adds_up_in_both_versions(swept):
    answers, true, _ = swept
    values = [answer[0] for _, _, answer in answers.rows["nvmlDeviceGetMemoryInfo"]]
    for old, new, t in zip(values[::2], values[1::2], true):
        assert old["total"] == new["total"] == TOTAL_MIB * MIB and new["reserved"] == RESERVED_MIB * MIB
        assert old["used"] == new["used"] + new["reserved"] and old["free"] == new["free"]
        assert new["used"] + new["reserved"] + new["free"] == new["total"]
        assert abs(new["used"] / MIB - t["used_mib"]) <= 1


def test_topology_is_found_without_knowing_sizes(swept):
    nearest = swept[0].by_args("nvmlDeviceGetTopologyNearestGpus")
    handles = swept[0].values("nvmlDeviceGetHandleByIndex")
    assert nearest[("gpu0", 40)] == handles[1:4] and nearest[("gpu0", 50)] == handles[4:]
    sets = swept[0].by_args("nvmlSystemGetTopologyGpuSet")
    assert sets[(0,)] == handles[:4] and sets[(100,)] == handles[4:]


def test_field_values_each_have_an_answer_of_their_own(swept):
    fields = {f["fieldId"]: f for f in swept[0].values("nvmlDeviceGetFieldValues")[0]}
    assert {f["nvmlReturn"] for f in fields.values()} <= {0, 2, 3, 26}
    assert fields[83]["value"]["ullVal"] == swept[0].values("nvmlDeviceGetTotalEnergyConsumption")[0]
    assert fields[91]["value"]["uiVal"] == 18 and fields[82]["nvmlReturn"] == 0


def test_nothing_it_does_is_wrong_by_itself(swept):
    assert [w for w in swept[2].wrongs() if "not an event set" not in w] == []


@pytest.mark.parametrize("driver", ["535.261.03", "610.57.02"])
def test_every_function_on_other_driver_generations(node, pynvml, driver):
    answers = sweep(node("default", "60s", "--driver", driver), pynvml)
    assert {code for _, code in answers.errors()} <= DOCUMENTED
    assert {name for name, code in answers.errors() if code == 13} == NEVER_EXPORTED
    assert answers.values("nvmlDeviceGetName") == [NAME] * GPUS


def test_every_function_on_other_boards(node, pynvml):
    n = node("healthy-mixed-boards")
    true = n.show()
    answers = sweep(n, pynvml)
    assert {code for _, code in answers.errors()} <= DOCUMENTED
    assert answers.values("nvmlDeviceGetName") == [t["board"] for t in true]


def scene(node, root, name, *command):
    return json.loads(python(node, root, HERE / "pynvml_scenes.py", name, *command))


def test_each_failure_has_its_class(node, pynvml):
    n = node("default")
    seen = scene(n, pynvml, "errors")
    assert {k: v[:2] for k, v in seen.items()} == {
        "before init": ["NVMLError_Uninitialized", 1],
        "no such index": ["NVMLError_InvalidArgument", 2],
        "no such uuid": ["NVMLError_NotFound", 6],
        "not on this board": ["NVMLError_NotSupported", 3],
        "not in this driver": ["NVMLError_FunctionNotFound", 13],
        "no such threshold": ["NVMLError_InvalidArgument", 2],
        "limit out of range": ["NVMLError_InvalidArgument", 2],
        "after shutdown": ["NVMLError_Uninitialized", 1],
    }
    assert any("before nvmlInit" in w for w in n.wrongs()), "strict mode names it"


def test_a_lost_gpu_fails_alone(node, pynvml):
    n = node("xid-79-lost", "6m")
    assert [c and c[0] for c in scene(n, pynvml, "lost")] == [0, 0, 0, "NVMLError_GpuIsLost", 0, 0, 0, 0]


def test_a_live_handle_of_a_lost_gpu_says_so(node, pynvml, stoker):
    n = node("default")
    seen = scene(n, pynvml, "lost_meanwhile", stoker, "sim", "inject", "--image", n.image, "xid", "gpu=3", "code=79")
    assert seen["count"] == GPUS and seen["reads"][0] == 0  # the library keeps its name
    assert [r[0] for r in seen["reads"][1:]] == ["NVMLError_GpuIsLost"] * 3


def test_events_reach_the_set(node, pynvml, stoker):
    n = node("default")
    seen = scene(n, pynvml, "events", stoker, "sim", "inject", "--image", n.image, "xid", "gpu=3", "code=48")
    assert seen["at first"][0] == "NVMLError_Timeout"
    assert sorted(seen["seen"]) == [[3, 2, 0], [3, 8, 48]]


def test_gpm_between_two_samples(node, pynvml, stoker):
    n = node("default")
    before = n.show()[0]["total"]
    seen = scene(n, pynvml, "gpm", stoker, "sim", "clock", "--image", n.image, "step", "1s")
    after = n.show()[0]["total"]
    assert seen["support"] == 1
    for (code, value), channel in zip(seen["metrics"], (1, 3)):
        assert code == 0 and abs(value - (after[channel] - before[channel]) * 100) <= 0.1


def test_mig_devices_are_found(node, pynvml):
    n = node("mig-balanced")
    seen, true = scene(n, pynvml, "mig"), n.show()
    assert seen["mode"] == [[1, 1]] * 4 and [u[0] for u in seen["utilization"]] == ["NVMLError_NotSupported"] * 4
    uuids = [d["uuid"] for devices in seen["devices"] for d in devices]
    assert len(set(uuids)) == 16 and all(u.startswith("MIG-") for u in uuids)
    for devices, t in zip(seen["devices"], true):
        parts = [(d["name"].removeprefix(f"{NAME} MIG "), d["slices"], d["sms"], d["total_mib"]) for d in devices]
        assert parts == [("3g.40gb", 3, 60, 40448), ("2g.20gb", 2, 32, 20096)] + [("1g.10gb", 1, 16, 9984)] * 2
        assert sorted(p for d in devices for p in d["pids"]) == sorted(p["pid"] for p in t["processes"])
        assert all(d["by uuid"] == d["name"] and d["utilization"][1] == 3 for d in devices)


def test_mig_devices_are_made_and_destroyed(node, pynvml):
    seen = scene(node("default"), pynvml, "mig_life")
    assert (seen["on"], seen["mode"], seen["off"], seen["mode after"]) == (0, [1, 1], 0, [0, 0])
    assert [d["name"] for d in seen["devices"]] == [f"{NAME} MIG 3g.40gb"] * 2
    assert [seen[k][0] for k in ("no room", "in use", "dead device", "dead instance")] == [
        "NVMLError_InsufficientResources", "NVMLError_InUse", "NVMLError_InvalidArgument", "NVMLError_InvalidArgument"]
