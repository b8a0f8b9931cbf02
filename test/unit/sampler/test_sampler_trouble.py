# SPDX-License-Identifier: Apache-2.0
"""What the sampler does when something is wrong: with a GPU, with the driver, with the library, with its owner."""
import os
import signal
import subprocess
import time
from collections import Counter

import pytest

import sampler_kit as kit
from sampler_kit import lines_of, scenario, values

TWO = "  - {board: h100-sxm-80gb, count: 2}\n"
POWER = "DCGM_FI_DEV_POWER_USAGE"
XID = "DCGM_FI_DEV_XID_ERRORS"


def begin(node, puppet, text=None, speed=0, attach="attach", env=None, **plan):
    n = node(text or scenario(TWO), speed)
    p = puppet(dict(n.env, **env or {}))
    p.plan(**plan)
    p.start(attach=attach)
    p.gpus(n.buses())
    return n, p


def reasons(board, gpu):
    """Of all that is read, the last XID left out."""
    got = values(board, gpu)
    return {v if isinstance(v, str) else "value" for k, v in got.items() if k != XID}


# ---- GPUs ----

def test_a_lost_gpu_keeps_its_name_and_its_xid(node, puppet):
    n, p = begin(node, puppet)
    before = p.up(0, 1)["gpus"][1]["reading"]
    n.inject("xid", "79", "gpu=1")
    row = p.until("lost", lambda b: b["gpus"][1]["outcome"] == kit.LOST and b["gpus"][1]["failed"] >= 1 and
                  reasons(b, 1) == {"gpu_lost"} and values(b, 1)[XID] == 79)["gpus"][1]
    assert row["code"] == 15
    assert row["reading"]["uuid"] == before["uuid"] and row["reading"]["texts"] == before["texts"]
    p.until("the event, and word of it", lambda b: p.events and p.news)
    assert p.events == [{"xid": 79, "gpu": before["pci"], "gi": -1, "ci": -1}]
    board = p.settle()
    assert board["gpus"][0]["outcome"] == kit.FINE and not isinstance(values(board, 0)[POWER], str)
    n.step("1s")
    n.inject("reset", "gpu=1")
    n.step("1m")
    p.until("back", lambda b: b["gpus"][1]["outcome"] == kit.FINE and not isinstance(values(b, 1)[POWER], str) and values(b, 1)[XID] == 79)
    assert n.reported() == []


def test_one_that_is_lost_before_it_was_seen_is_tried_again(node, puppet):
    n = node(scenario(TWO))
    buses = n.buses()
    n.inject("lost", "gpu=0")
    p = puppet(n.env)
    p.plan()
    p.start()
    p.gpus(buses)
    board = p.until("two tries", lambda b: b["gpus"][0]["failed"] >= 2 and [g["outcome"] for g in b["gpus"]] == [kit.LOST, kit.FINE])
    assert board["gpus"][0]["reading"]["pci"] == buses[0]


def test_a_gpu_that_wants_a_reset(node, puppet):
    n, p = begin(node, puppet)
    p.up(0, 1)
    n.inject("reset-required", "gpu=0")
    p.until("two tries", lambda b: b["gpus"][0]["failed"] >= 2 and b["gpus"][0]["outcome"] == kit.RESET_REQUIRED and
            reasons(b, 0) == {"reset_required"})


def test_an_address_the_driver_does_not_know(node, puppet):
    _, p = begin(node, puppet)
    p.gpus(["00000000:FE:00.0"])
    p.until("not found", lambda b: b["gpus"][2]["outcome"] == kit.NOT_FOUND and b["gpus"][2]["code"] == 6 and "value" not in reasons(b, 2))
    p.up(0, 1)


def test_an_event_of_an_instance(node, puppet):
    text = scenario("  - {board: h100-sxm-80gb, mig: [1g.10gb, 2g.20gb]}\n",
                    "  - {name: tenant, kind: decode, gpus: 0, mig: 1, process: vllm}\n")
    n, p = begin(node, puppet, text)
    p.up(0)
    n.inject("xid", "31", "gpu=0", "work=tenant")
    n.step("1s")
    p.until("the event", lambda b: values(b, 0)[XID] == 31 and p.events)
    event = p.events[-1]
    instances = p.settle()["gpus"][0]["instances"]
    hit = [r for r in instances if (r["gi"], r["ci"]) == (event["gi"], event["ci"])]
    assert len(hit) == (0 if event["gi"] == -1 else 1)
    assert [r["values"][XID] for r in instances].count(31) == len(hit)


# ---- calls that do not return ----

def test_a_call_that_hangs_is_named(node, puppet):
    n, p = begin(node, puppet)
    p.up(0, 1)
    n.inject("hang", "gpu=1", "nvmlDeviceGetPowerUsage")
    board = p.until("a hang", lambda b: b["samplers"][0]["call_ms"] > 200)
    sampler = board["samplers"][0]
    assert sampler["function"] == "nvmlDeviceGetPowerUsage" and sampler["call_gpu"] == 1 and sampler["in_call"]
    assert sampler["beat_ms"] >= 200
    p.do("signal", 0, int(signal.SIGTERM))
    board = p.until("the end", lambda b: p.do("ended", 0)["ended"])


def test_the_first_handle_has_a_deadline_of_its_own(node, puppet):
    n = node(scenario(TWO))
    buses = n.buses()
    n.inject("hang", "gpu=0", "nvmlDeviceGetHandleByPciBusId_v2")
    p = puppet(n.env)
    p.start(attach="no-attach")
    p.gpus(buses)
    board = p.until("a hang", lambda b: b["samplers"][0]["call_ms"] > 100)
    sampler = board["samplers"][0]
    assert sampler["function"] == "nvmlDeviceGetHandleByPciBusId_v2" and sampler["limit_ms"] == 3000


def test_what_comes_back_late_is_not_published(node, puppet):
    """The GPU was given to another sampler meanwhile, whose values stay."""
    n, p = begin(node, puppet, speed=0)
    p.up(0, 1)
    p.settle()
    n.inject("hang", "gpu=0", "nvmlDeviceGetPowerUsage", "delay=3s")
    p.until("a hang", lambda b: b["samplers"][0]["call_ms"] > 50 and b["samplers"][0]["call_gpu"] == 0)
    p.do("own", 0, "-")
    before = p.dump()["gpus"][0]
    p.until("back", lambda b: not b["samplers"][0]["in_call"] or b["samplers"][0]["call_gpu"] == 1)
    after = p.settle()["gpus"][0]
    for row in before, after:
        row.pop("fast"), row.pop("fast_lost")
    assert before == after
    assert p.dump()["gpus"][1]["outcome"] == kit.FINE


def test_a_gpu_given_to_another_is_touched_no_more(node, puppet, tmp_path):
    trace = tmp_path / "trace.log"
    n, p = begin(node, puppet, env={"STOKER_SIM_TRACE": str(trace)})
    p.up(0, 1)
    p.do("own", 1, "-")
    p.settle()
    seen = len(lines_of(trace))
    p.settle()
    later = "".join(lines_of(trace)[seen:])
    assert " gpu0 " in later and " gpu1 " not in later
    p.do("own", 1, 0)
    p.until("again", lambda b: values(b, 1)[POWER] != "not_yet" and b["gpus"][1]["last"] > b["gpus"][0]["last"] - 10**9)


def test_two_samplers_share_a_node(node, puppet):
    n, p = begin(node, puppet)
    p.up(0, 1)
    p.start(slot=1, attach="no-attach")
    p.do("own", 1, 1)
    board = p.settle(slot=1)
    assert board["samplers"][1]["driver"] == kit.DRIVER_FINE and board["samplers"][1]["found"] == []
    last = board["gpus"][1]["last"]
    assert p.until("sampled by the other", lambda b: b["gpus"][1]["last"] > last)["gpus"][0]["outcome"] == kit.FINE


# ---- the driver ----

@pytest.mark.parametrize("state,words", [("mismatch", "different versions"), ("unloaded", "not loaded"),
                                         ("unknown-error", "999")])
def test_a_driver_that_does_not_start(node, puppet, state, words):
    n = node(scenario(TWO))
    buses = n.buses()
    n.inject("driver", state)
    p = puppet(n.env)
    p.plan()
    p.start()
    p.gpus(buses)
    board = p.until("a reason", lambda b: b["samplers"][0]["driver"] == kit.DRIVER_INIT_FAILED)
    assert words in board["samplers"][0]["why"]
    p.until("values gone", lambda b: reasons(b, 0) == {"failed"})
    n.inject("driver", "loaded")
    board = p.up(0, 1)
    assert board["samplers"][0]["driver"] == kit.DRIVER_FINE and board["samplers"][0]["why"] == ""


def test_no_library(node, puppet):
    n = node(scenario(TWO))
    p = puppet(n.env)
    p.plan()
    p.start(library="/nowhere/libnvidia-ml.so.1")
    p.gpus(n.buses())
    board = p.until("a reason", lambda b: b["samplers"][0]["driver"] == kit.DRIVER_NO_LIBRARY)
    assert "/nowhere/libnvidia-ml.so.1" in board["samplers"][0]["why"]
    p.until("values gone", lambda b: reasons(b, 0) == {"no_library"})


def test_gpus_are_named_where_the_board_has_none(node, puppet):
    n = node(scenario(TWO))
    p = puppet(n.env)
    p.start()
    board = p.until("names", lambda b: b["samplers"][0]["count"] == 2)
    assert board["samplers"][0]["found"] == n.buses()


# ---- letting go ----

def test_release_lets_go_of_everything(node, puppet):
    n, p = begin(node, puppet)
    p.up(0, 1)
    p.do("release", 3600_000)
    p.until("released", lambda b: b["samplers"][0]["driver"] == kit.DRIVER_RELEASED and b["gpus"][0]["reading"]["uuid"] and
            reasons(b, 0) == reasons(b, 1) == {"released"})
    p.do("release", 0)
    p.until("back", lambda b: b["samplers"][0]["driver"] == kit.DRIVER_FINE and not isinstance(values(b, 1)[POWER], str))
    assert n.reported() == []  # the event sets were freed before the shutdown


def test_release_ends_by_itself(node, puppet):
    _, p = begin(node, puppet)
    p.up(0, 1)
    p.do("release", 300)
    p.until("released", lambda b: b["samplers"][0]["driver"] == kit.DRIVER_RELEASED)
    p.until("back", lambda b: b["samplers"][0]["driver"] == kit.DRIVER_FINE and not isinstance(values(b, 0)[POWER], str))


# ---- the agent ----

def test_it_ends_with_its_agent(node, puppet):
    _, p = begin(node, puppet)
    p.up(0, 1)
    p.do("signal", 0, int(signal.SIGINT))
    p.do("signal", 0, int(signal.SIGHUP))
    p.settle()
    assert not p.do("ended", 0)["ended"]  # Ctrl-C is the agent's
    p.do("close", 0)
    end = time.monotonic() + kit.PATIENCE_S
    answer = p.do("ended", 0)
    while not answer["ended"] and time.monotonic() < end:
        time.sleep(0.01)
        answer = p.do("ended", 0)
    assert answer == {"ended": True, "status": 0}


def test_nothing_of_the_agents_stays_open(node, puppet):
    _, p = begin(node, puppet)
    p.up(0, 1)

    def few(_):
        open_now = [d for d in kit.descriptors(p.pids[0]) if not d.endswith(".log")]
        return len(open_now) == 4 and sum(d.startswith("socket:") for d in open_now) == 1

    p.until("few are open", few)


def test_alone_it_says_what_it_is(build):
    with subprocess.Popen([build / "src" / "source" / "nvml" / "stoker-sampler"], stdin=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True) as alone:
        words = alone.communicate()[1]
    assert alone.returncode == 3 and "stoker agent" in words


# ---- what is wanted ----

def calls(trace, seen=0):
    """Those of the lines behind so many."""
    return Counter(line.split()[0] for line in lines_of(trace)[seen:])


def test_only_what_is_wanted_is_asked(node, puppet, tmp_path):
    trace = tmp_path / "trace.log"
    n, p = begin(node, puppet, env={"STOKER_SIM_TRACE": str(trace)}, wanted=POWER)
    p.up(0, 1)
    p.settle(passes=60)
    seen = calls(trace)
    per_gpu = {"nvmlDeviceGetPowerUsage", "nvmlDeviceGetMigMode", "nvmlDeviceQueryDrainState"}
    once = {"nvmlInitWithFlags", "nvmlSystemGetDriverVersion", "nvmlSystemGetNVMLVersion", "nvmlDeviceGetCount_v2",
            "nvmlDeviceGetHandleByPciBusId_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetPciInfo_v3",
            "nvmlDeviceGetFieldValues", "nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetSerial",
            "nvmlDeviceGetBoardPartNumber", "nvmlDeviceGetIndex", "nvmlDeviceGetMinorNumber", "nvmlDeviceGetArchitecture"}
    assert set(seen) <= per_gpu | once
    assert all(seen[c] < 20 < seen["nvmlDeviceGetPowerUsage"] for c in once if c in seen)  # some are asked every ten seconds
    board = p.dump()
    assert {v for k, v in values(board, 0).items() if isinstance(v, str)} == {"turned_off", "not_yet"}
    assert values(board, 0)["DCGM_FI_DEV_GPU_TEMP"] == "turned_off"


def test_a_new_plan_is_followed(node, puppet, tmp_path):
    trace = tmp_path / "trace.log"
    n, p = begin(node, puppet, env={"STOKER_SIM_TRACE": str(trace)}, wanted="DCGM_FI_DEV_GPU_TEMP")
    p.until("a temperature", lambda b: not isinstance(values(b, 0)["DCGM_FI_DEV_GPU_TEMP"], str))
    p.do("plan", "DCGM_FI_DEV_MAX_SM_CLOCK,DCGM_FI_DEV_XID_ERRORS,DCGM_FI_DEV_VBIOS_VERSION")
    p.until("a clock", lambda b: values(b, 0)["DCGM_FI_DEV_MAX_SM_CLOCK"] == 1980 and values(b, 0)["DCGM_FI_DEV_GPU_TEMP"] == "turned_off" and
            values(b, 0)[XID] == "no_data" and b["gpus"][0]["reading"]["texts"]["DCGM_FI_DEV_VBIOS_VERSION"])
    seen = len(lines_of(trace))
    p.settle()
    p.until("events are waited for", lambda b: calls(trace, seen)["nvmlEventSetWait_v2"] > 10)
    later = calls(trace, seen)
    assert "nvmlDeviceGetTemperature" not in later and "nvmlDeviceGetMaxClockInfo" not in later


def test_blocking_calls_come_one_by_one(node, puppet, tmp_path):
    trace = tmp_path / "trace.log"
    _, p = begin(node, puppet, env={"STOKER_SIM_TRACE": str(trace)},
                 wanted=f"{POWER},DCGM_FI_DEV_PCIE_TX_THROUGHPUT,DCGM_FI_DEV_PCIE_RX_THROUGHPUT")
    p.until("all four", lambda b: all(not isinstance(values(b, g)[f"DCGM_FI_DEV_PCIE_{d}_THROUGHPUT"], str)
                                      for g in (0, 1) for d in ("TX", "RX")))
    lines = [line.split()[0] for line in lines_of(trace)]
    fast = [i for i, name in enumerate(lines) if name == "nvmlDeviceGetPowerUsage"]
    slow = [i for i, name in enumerate(lines) if name == "nvmlDeviceGetPcieThroughput"]
    assert len(slow) >= 4
    assert not any(slow[i + 3] - slow[i] == 3 for i in range(len(slow) - 3))  # never a round of them without a fast pass
    assert fast[0] < slow[-1]


# ---- an old driver, one that is reloaded, one that can be unloaded ----

class Fake:
    def __init__(self, build, folder, puppet):
        self.control, self.log = folder / "driver", folder / "driver.log"
        self.library = build / "test" / "unit" / "sampler" / "libfake_driver.so"
        self.say(1, 0)
        self.puppet = puppet(dict(os.environ, FAKE_DRIVER=str(self.control)))
        self.puppet.plan()
        self.puppet.start(library=self.library)
        self.puppet.gpus(["00000000:3B:00.0"])

    def say(self, load, answer):
        fresh = self.control.with_suffix(".new")
        fresh.write_text(f"{load} {answer}\n", encoding="utf-8")
        fresh.rename(self.control)

    def count(self, what):
        return lines_of(self.log).count(what + "\n")


@pytest.fixture
def fake(build, tmp_path, puppet):
    assert (build / "test" / "unit" / "sampler" / "libfake_driver.so").exists()
    return Fake(build, tmp_path, puppet)


def test_an_old_driver(fake):
    p = fake.puppet
    p.up(0)
    board = p.settle()
    got = values(board, 0)
    assert got["DCGM_FI_DEV_FB_USED"] == 700 and got["DCGM_FI_DEV_FB_RESERVED"] == "driver_lacks"
    assert got["DCGM_FI_DEV_CLOCKS_EVENT_REASONS"] == 0x24
    assert got[POWER] == 61.5
    assert got["DCGM_FI_DEV_GPU_TEMP"] == "no_data"  # 255 degrees
    assert got["DCGM_FI_DEV_FAN_SPEED"] == "failed" and got["DCGM_FI_DEV_SM_CLOCK"] == "driver_lacks"
    assert got["DCGM_FI_DEV_VGPU_LICENSE_STATUS"] == 1
    assert got["DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"] == "not_supported"  # no time stamp
    assert got["DCGM_FI_DEV_ECC_DBE_AGG_TOTAL"] == 6
    assert got["DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION"] == "driver_lacks"
    p.until("the event", lambda b: values(b, 0)[XID] == p.events[0]["xid"] == 43 and p.events[0]["gi"] == -1)
    assert board["samplers"][0]["driver_version"] == "450.80.02"


def test_odd_values_of_gpm(fake):
    got = values(fake.puppet.until("a share", lambda b: not isinstance(values(b, 0)["DCGM_FI_PROF_SM_ACTIVE"], str)), 0)
    assert got["DCGM_FI_PROF_SM_ACTIVE"] == 1  # of 150 %
    assert got["DCGM_FI_PROF_GR_ENGINE_ACTIVE"] == "no_data"  # not a number
    assert got["DCGM_FI_PROF_SM_OCCUPANCY"] == "not_supported"
    assert got["DCGM_FI_PROF_DRAM_ACTIVE"] == 0.5
    assert got["DCGM_FI_PROF_PCIE_TX_BYTES"] == 50 * 1048576


def test_a_reloaded_driver_is_taken_up_again(fake):
    fake.puppet.up(0)
    fake.say(2, 0)
    fake.puppet.until("a second init", lambda b: fake.count("init") >= 2)
    fake.puppet.until("values", lambda b: values(b, 0)[POWER] == 61.5 and b["samplers"][0]["driver"] == kit.DRIVER_FINE)
    fake.say(0, 0)
    board = fake.puppet.until("no driver", lambda b: b["samplers"][0]["driver"] == kit.DRIVER_INIT_FAILED)
    fake.puppet.until("values gone", lambda b: reasons(b, 0) == {"failed"})
    fake.say(3, 0)
    fake.puppet.until("values", lambda b: values(b, 0)[POWER] == 61.5)


def test_a_gpu_that_is_refused(fake):
    fake.puppet.up(0)
    fake.say(1, 999)
    fake.puppet.until("refused", lambda b: b["gpus"][0]["outcome"] == kit.REFUSED and b["gpus"][0]["code"] == 999 and reasons(b, 0) == {"failed"})
    fake.say(1, 0)
    fake.puppet.up(0)


def test_release_unloads_the_library(fake):
    p, pid = fake.puppet, fake.puppet.pids[0]
    p.until("GPM", lambda b: not isinstance(values(b, 0)["DCGM_FI_PROF_SM_ACTIVE"], str))
    p.until("it is open", lambda b: "libfake_driver" in kit.maps(pid) and "/dev/full" in kit.descriptors(pid))
    p.do("release", 3600_000)
    p.until("released", lambda b: b["samplers"][0]["driver"] == kit.DRIVER_RELEASED and "libfake_driver" not in kit.maps(pid) and
            "/dev/full" not in kit.descriptors(pid))
    assert fake.count("events freed") == 1 and fake.count("sample freed") == 2 and fake.count("shutdown") == 1
    p.do("release", 0)
    p.until("back", lambda b: values(b, 0)[POWER] == 61.5)
    assert "libfake_driver" in kit.maps(pid)
