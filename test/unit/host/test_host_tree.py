# SPDX-License-Identifier: Apache-2.0
"""What a look (source/host) tells of the simulated node's tree, before and after something was done to the node."""
import json
import os
import subprocess
import time

import pytest

PATIENCE = 120


@pytest.fixture
def look(build, stoker, tmp_path):
    shower = build / "test/unit/host/show_facts"
    assert shower.exists()
    nodes = []

    def run(scenario, *steps):
        """Facts at the start, and after each step, (words for `sim inject`, what is true of the facts then, beside the first): what belongs to one
        change is written file by file."""
        tree, env = tmp_path / "tree", {**os.environ, "STOKER_SIM_RUNTIME": str(tmp_path / "nodes")}
        nodes.append(subprocess.Popen([stoker, "sim", "run", "--speed", "0", "--tree", tree, scenario], env=env, stdout=subprocess.PIPE, text=True))
        for line in nodes[-1].stdout:
            if line.startswith("then"):
                break
        facts = lambda: json.loads(subprocess.run([shower, tree], check=True, capture_output=True, text=True).stdout)
        found = [facts()]
        for words, is_so in steps:
            subprocess.run([stoker, "sim", "inject", *words.split()], env=env, check=True, capture_output=True)
            subprocess.run([stoker, "sim", "clock", "step", "5s"], env=env, check=True, capture_output=True)
            end = time.monotonic() + PATIENCE
            while not is_so(now := facts(), found[0]):
                assert time.monotonic() < end, (words, now)
                time.sleep(0.05)
            found.append(now)
        return found

    yield run
    for node in nodes:
        node.terminate()
        node.communicate(timeout=PATIENCE)


def test_a_healthy_node(look):
    facts, = look("default")
    assert len(facts["gpus"]) == 8
    assert facts["gpus"][0] == {"pci": "0000:1b:00.0", "lost": 0, "driver": "nvidia", "current": [32000, 16],
                                "max": [32000, 16], "slot": [32000, 16], "has_aer": 1, "aer": [0] * 3, "port_aer": [0] * 3}
    assert facts["loaded"] and facts["module"].count(".") == 2
    assert facts["persistenced"] and facts["fabric_manager"] and facts["switches"] and not facts["denied"]
    assert len(facts["boot_id"]) == 36 and facts["boot_s"] > 1_600_000_000
    assert facts["stuck"] == []


def test_pcie_errors_of_a_gpu_and_of_its_port(look):
    _, own, port = look("default", ("aer correctable gpu=2 error=BadTLP count=40", lambda f, _: f["gpus"][2]["aer"] == [40, 0, 0]),
                        ("aer fatal gpu=2 error=UncorrIntErr port=yes", lambda f, _: f["gpus"][2]["port_aer"] == [0, 0, 1]))
    assert [gpu["aer"] for gpu in own["gpus"]] == [[0, 0, 0]] * 2 + [[40, 0, 0]] + [[0, 0, 0]] * 5
    assert port["gpus"][2]["aer"] == [40, 0, 0]
    assert port["gpus"][3]["port_aer"] == [0, 0, 0]


def test_a_slot_that_is_narrower_than_the_card(look):
    _, facts = look("default", ("pcie gpu=1 width=8 slot_width=8 slot_gen=4",
                                lambda f, _: f["gpus"][1]["slot"] == [16000, 8] and f["gpus"][1]["current"][1] == 8))
    assert facts["gpus"][1]["max"] == [32000, 16]
    assert facts["gpus"][0]["slot"] == [32000, 16]


def test_off_the_bus(look):
    look("default", ("lost gpu=3", lambda f, _: [gpu["lost"] for gpu in f["gpus"]] == [0, 0, 0, 1, 0, 0, 0, 0]))


def test_tasks_that_hang(look):
    look("default", ("stuck 3", lambda f, _: sorted(f["stuck"]) == [
        ["nvidia-smi", "rwsem_down_read_slowpath"], ["python", "os_acquire_rwlock_write"], ["train", "__down_common"]]),
        ("stuck 0", lambda f, _: f["stuck"] == []))


def test_services(look):
    _, no_manager, _ = look("default", ("fabric-manager down", lambda f, _: not f["fabric_manager"]),
                            ("persistenced down", lambda f, _: not f["persistenced"] and not f["fabric_manager"]))
    assert no_manager["persistenced"]


def test_a_driver_that_goes_and_comes(look):
    look("default", ("driver unloaded", lambda f, _: not f["loaded"] and not f["persistenced"] and f["gpus"][0]["driver"] == ""),
         ("driver loaded", lambda f, before: f == before))


def test_a_module_of_another_version(look):
    look("default", ("driver mismatch", lambda f, before: f["loaded"] and f["module"] != before["module"]))
