# SPDX-License-Identifier: Apache-2.0
"""Profiling metrics of GPUs without GPM through libdcgm, for which a small library of our own stands
(test/unit/dcgm/fake.h): the value of field F at entity E is E + F / 10000."""
import contextlib
import pathlib
import time

import pytest
from agent_rig import settles, until

BUSES = "00000000:17:00.0,00000000:18:00.0,00000000:3D:00.0"  # of healthy-mixed-boards: two L40S and a T4; one more T4
ENGINE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
TEMP = "DCGM_FI_DEV_GPU_TEMP"


class Dcgm:
    def __init__(self, build, folder):
        self.library = build / "test" / "unit" / "dcgm" / "libdcgm.so.4"
        self.orders, self.log = folder / "orders", folder / "trace"
        self.env = {"FAKE_DCGM_GPUS": BUSES, "FAKE_DCGM_ORDERS": str(self.orders), "FAKE_DCGM_TRACE": str(self.log)}
        self.options = ["--dcgm", "--dcgm-library", self.library]
        self.order()

    def order(self, **orders):
        new = self.orders.with_suffix(".new")
        new.write_text("".join(f"FAKE_DCGM_{name.upper()}={text}\n" for name, text in orders.items()))
        new.replace(self.orders)

    def calls(self):
        return [line.split()[1] for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def count(self, function):
        return self.calls().count(function)


@pytest.fixture
def dcgm(build, tmp_path):
    return Dcgm(build, tmp_path)


@pytest.fixture
def measured(make_node, make_agent, dcgm):
    """An agent that may use libdcgm: `node, agent = measured(options...)`."""

    def start(*options, scenario="healthy-mixed-boards", **env):
        node = make_node(scenario)
        return node, make_agent({**node.env, **dcgm.env, **env}, options=[*dcgm.options, *options])

    return start


def reason(agent, gpu, metric=ENGINE):
    """Why there is no value; None where there is one."""
    page = agent.page()
    if page.all(metric, gpu=str(gpu)):
        return None
    return [labels["reason"] for labels, _ in page.all("stoker_metric_unavailable", gpu=str(gpu), metric=metric)]


def becomes(agent, gpu, why):
    until(lambda: reason(agent, gpu) == (why and [why]), lambda: f"{reason(agent, gpu)} {agent.log_text()}")


def maps(agent):
    found = ""
    for pid, _ in agent.children():
        with contextlib.suppress(OSError):  # it may end meanwhile
            found += pathlib.Path(f"/proc/{pid}/maps").read_text()
    return found


def test_values(measured, dcgm):
    _, agent = measured()
    becomes(agent, 2, None)

    def shown():
        page = agent.page()
        assert [page.one(ENGINE, gpu=str(i)) for i in range(3)] == pytest.approx([10.1001, 11.1001, 12.1001])
        assert page.one("DCGM_FI_PROF_DRAM_ACTIVE", gpu="1") == pytest.approx(11.1005)
        assert page.one("DCGM_FI_PROF_PCIE_TX_BYTES", gpu="1") == 111009
        assert page.one("stoker_gpm_supported", gpu="1") == 0
        assert not page.all("stoker_metric_unavailable", gpu="1", metric=ENGINE)

    settles(shown)
    becomes(agent, 3, "not_supported")  # which DCGM does not know
    assert dcgm.count("dcgmInit") == 1 and "libdcgm" not in pathlib.Path(f"/proc/{agent.process.pid}/maps").read_text()
    until(lambda: agent.get("/healthz")[0] == 200, lambda: agent.get("/healthz")[1])


def test_not_without_being_asked(make_node, make_agent, dcgm):
    agent = make_agent(dict(make_node("healthy-mixed-boards").env, **dcgm.env,
                            STOKER_DCGM_LIBRARY=str(dcgm.library)))
    becomes(agent, 0, "not_supported")
    assert dcgm.calls() == [] and "libdcgm" not in maps(agent)


def test_asked_for_by_the_environment(make_node, make_agent, dcgm):
    agent = make_agent(dict(make_node("healthy-mixed-boards").env, **dcgm.env, STOKER_DCGM="true",
                            STOKER_DCGM_LIBRARY=str(dcgm.library)))
    becomes(agent, 0, None)


def test_gpus_with_gpm_do_not_need_it(measured, dcgm):
    _, agent = measured(scenario="default")
    until(lambda: agent.page().all(ENGINE, gpu="7"), agent.log_text)
    assert dcgm.calls() == [] and "libdcgm" not in maps(agent)


def test_no_library(make_node, make_agent):
    agent = make_agent(make_node("healthy-mixed-boards").env, options=["--dcgm", "--dcgm-library", "/nowhere/libdcgm.so.4"])
    becomes(agent, 0, "no_library")
    until(lambda: agent.fresh(range(4)), agent.log_text)


def test_no_permission(measured, dcgm):
    dcgm.order(fail="dcgmStartEmbedded:-17")
    _, agent = measured()
    becomes(agent, 0, "no_permission")


def test_another_tool_holds_the_counters(measured, dcgm):
    dcgm.order(watch="11:-37")
    _, agent = measured("--clock-speed", "10")  # they are tried again every minute
    becomes(agent, 0, None)
    until(lambda: reason(agent, 1) in (["in_use"], ["no_permission"]), agent.log_text)  # by whether we may have them
    until(lambda: agent.page().one(TEMP, gpu="1") > 0, agent.log_text)
    dcgm.order()
    becomes(agent, 1, None)
    assert dcgm.count("dcgmInit") == 1


def stays_there(agent, seconds):
    """No GPU is blamed, and none is without a sample for long: another sampler has them."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        gpus = [(g["state"], g.get("last_sample_age_seconds", 99)) for g in agent.gpus()]
        assert len(gpus) == 4 and all(state in ("up", "starting") and age < 30 for state, age in gpus), (gpus, agent.log_text())
        time.sleep(0.1)
    until(lambda: agent.fresh(range(4)) and len(agent.page().all(TEMP)) == 4, agent.log_text)


@pytest.mark.parametrize("function", ["dcgmInit", "dcgmWatchFields", "dcgmEntitiesGetLatestValues"])
def test_it_hangs(measured, dcgm, function):
    dcgm.order(hang=function)
    _, agent = measured("--sampler-kill-after", "1s")
    until(lambda: "DCGM is left alone" in agent.log_text(), agent.log_text)
    stays_there(agent, 2)
    becomes(agent, 0, "timed_out")
    until(lambda: agent.fresh(range(4)) and agent.get("/healthz")[0] == 200, lambda: agent.get("/healthz")[1])
    until(lambda: len(agent.samplers()) == 1, lambda: str(agent.samplers()))
    assert dcgm.count("dcgmInit") == 1
    assert agent.page().one("stoker_samplers_started_total") == 2
    assert "DCGM" not in "".join(g.get("why", "") for g in agent.gpus())


def test_it_crashes(measured, dcgm):
    dcgm.order(crash="dcgmStartEmbedded")
    _, agent = measured()
    until(lambda: "DCGM is left alone" in agent.log_text(), agent.log_text)
    stays_there(agent, 1)
    becomes(agent, 0, "timed_out")
    until(lambda: agent.fresh(range(4)), agent.log_text)
    assert dcgm.count("dcgmInit") == 1


def test_release_lets_go_of_it(measured, dcgm):
    node, agent = measured()
    becomes(agent, 2, None)
    assert agent.verb("release", "--for", "1h").returncode == 0, agent.log_text()
    calls = dcgm.calls()
    assert calls[-2:] == ["dcgmStopEmbedded", "dcgmShutdown"] and "libdcgm" not in maps(agent)
    until(lambda: not agent.page().all(ENGINE), agent.log_text)
    assert dcgm.calls() == calls
    assert agent.verb("release", "--end").returncode == 0
    becomes(agent, 2, None)
    assert dcgm.count("dcgmInit") == 2


def test_no_engine_while_a_gpu_hangs(measured, dcgm):
    node, agent = measured("--sampler-kill-after", "1s", "--sampler-rejoin-after", "2s", "--sampler-retry-max", "1s")
    becomes(agent, 2, None)
    node.inject("hang", "gpu=3", "function=nvmlDeviceGetPowerUsage")
    until(lambda: agent.gpu(3)["state"] == "hung", agent.log_text)
    becomes(agent, 0, "no_data")
    until(lambda: agent.page().one("stoker_samplers_started_total") >= 4, agent.log_text)
    until(lambda: agent.fresh([0, 1, 2]), agent.log_text)
    assert dcgm.count("dcgmInit") == 1
    node.inject("hang", "clear=on")
    becomes(agent, 0, None)
    assert len(agent.samplers()) <= 2 and dcgm.count("dcgmInit") == 2
    assert "left alone" not in agent.log_text()


def test_a_gpu_that_is_gone_does_not_stand_in_the_way(measured, dcgm):
    node, agent = measured()
    becomes(agent, 0, None)
    node.inject("plug", "remove", "gpu=3")
    until(lambda: 3 not in [g["index"] for g in agent.gpus() if g["state"] == "up"], agent.log_text)
    agent.verb("release", "--for", "1s")
    until(lambda: dcgm.count("dcgmInit") >= 2, agent.log_text)
    becomes(agent, 0, None)


def test_a_host_engine_that_goes_away(measured, dcgm):
    _, agent = measured("--dcgm-address", "node1:5555", "--clock-speed", "5")
    becomes(agent, 0, None)
    dcgm.order(fail="dcgmEntitiesGetLatestValues:-21")
    becomes(agent, 0, "failed")
    dcgm.order()
    becomes(agent, 0, None)
    assert dcgm.count("dcgmConnect_v2") == dcgm.count("dcgmInit") >= 2 and dcgm.count("dcgmStartEmbedded") == 0


def test_mig_devices(measured, dcgm, tmp_path):
    scenario = tmp_path / "mig.yaml"
    scenario.write_text('about: MIG before Hopper\nnode: {driver: "535.261.03", cuda: "12.2", seed: 3}\n'
                        "gpus: {board: a100-sxm4-80gb, count: 2, mig: [2g.20gb, 2g.20gb, 2g.20gb]}\ntruth: []\n")
    node, agent = measured(scenario=scenario, FAKE_DCGM_GPUS="00000000:07:00.0,00000000:0F:00.0")
    instance = {"gpu": "1", "GPU_I_ID": "3"}
    until(lambda: agent.page().all(ENGINE, **instance), lambda: f"{agent.page().all(TEMP)} {agent.log_text()}")

    def shown():
        page = agent.page()
        assert page.one(ENGINE, **instance) == pytest.approx(203.1001)  # of the compute instance
        assert page.one("DCGM_FI_PROF_DRAM_ACTIVE", **instance) == pytest.approx(103.1005)  # of the GPU instance
        assert len(page.all(ENGINE, gpu="1")) == 1

    settles(shown)
