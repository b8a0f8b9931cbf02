# SPDX-License-Identifier: Apache-2.0
"""Series of NVLinks, named and labelled as dcgm-exporter does it, on the boards that have them."""
import subprocess

import pytest
from agent_rig import until

PORT = "DCGM_FI_DEV_NVLINK_PPCNT_"
RECOVERED, DOWN, SINCE = PORT + "RECOVERY_TOTAL_SUCCESSFUL_EVENTS", PORT + "PHYSICAL_LINK_DOWN_COUNTER", PORT + "RECOVERY_TIME_SINCE_LAST"


@pytest.fixture
def start(make_node, make_agent, tmp_path):
    def make(board, *options):
        scenario, rows = tmp_path / "links.yaml", tmp_path / "rows.csv"
        scenario.write_text('about: links\nnode: {driver: "590.48.01", seed: 5, start: "2026-01-05T08:00:00Z"}\n'
                            f"gpus:\n  - {{board: {board}, count: 2}}\ntruth: []\n")
        rows.write_text(f"{RECOVERED}, counter, a\n{DOWN}, counter, b\n{SINCE}, gauge, c\nDCGM_FI_DEV_GPU_TEMP, gauge, d\n")
        node = make_node(str(scenario))
        return node, make_agent(node.env, options=["-f", rows, "--sample-slow", "1s", *options])
    return make


def links(agent, name):
    return {(l["gpu"], l["nvlink"]): v for l, v in agent.page().all(name)}


EVERY = {(str(g), str(n)) for g in range(2) for n in range(1, 19)}


def test_links_of_blackwell(start):
    node, agent = start("b200-180gb")
    until(lambda: set(links(agent, RECOVERED)) == EVERY, agent.log_text)
    node.inject("link", "gpu=1", "link=3", "errors", "counter=recovery", "count=2")
    node.inject("link", "gpu=0", "link=17", "down")
    until(lambda: links(agent, RECOVERED)["1", "4"] == 2 and links(agent, DOWN)["0", "18"] == 1, agent.log_text)
    until(lambda: set(links(agent, SINCE)) == set(links(agent, RECOVERED)) == set(links(agent, DOWN)) == EVERY, agent.log_text)
    assert sum(links(agent, RECOVERED).values()) == 2 and sum(links(agent, DOWN).values()) == 1
    labels = until(lambda: agent.page().all(RECOVERED, gpu="1", nvlink="4"), agent.log_text)[0][0]
    gpu = agent.gpu(1)
    assert set(labels) == {"device", "gpu", "gpu_uuid", "hostname", "model_name", "nvlink", "pci_bus_id"}
    assert (labels["gpu_uuid"], labels["device"], labels["model_name"]) == (gpu["uuid"], "nvidia1", "NVIDIA B200")


@pytest.mark.parametrize("selector, wanted", [
    ("i:1-3", {(g, n) for g in "01" for n in "123"}), ("i:0.5", {("0", "5")}), ("i", EVERY), ("f", EVERY)])
def test_links_that_are_chosen(start, selector, wanted):
    _, agent = start("b200-180gb", "-s", selector)
    until(lambda: set(links(agent, RECOVERED)) == wanted, agent.log_text)


def test_boards_and_choices_without_such_series(start):
    _, agent = start("h100-sxm-80gb", "-s", "g", "-p", "f")
    until(lambda: agent.page().all("stoker_metric_unavailable", metric=RECOVERED, reason="not_supported"), agent.log_text)
    assert not links(agent, RECOVERED)
    assert "g in --switch-devices (NVSwitches tell their counters to libnvidia-nscq alone) has no effect here" in agent.log_text()
    assert "--cpu-devices (of the processors beside the GPUs node_exporter tells) has no effect here" in agent.log_text()


def test_a_selector_that_is_none(stoker):
    done = subprocess.run([stoker, "agent", "--check-config", "-s", "x"], capture_output=True, text=True)
    assert done.returncode == 2 and "option --switch-devices: 'x' selects no devices" in done.stderr
