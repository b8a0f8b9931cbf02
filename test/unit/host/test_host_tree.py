# SPDX-License-Identifier: Apache-2.0
"""What a look (source/host) tells of the simulated node's tree, before and after something was done to the node."""
import json
import subprocess

import pytest


@pytest.fixture
def look(build, stoker, tmp_path):
    shower = build / "test/unit/host/show_facts"
    if not shower.exists():
        pytest.skip(f"{shower} is not built")

    def run(scenario, *steps):
        """Facts at the start, and after each step (words for `sim inject`) once they have changed."""
        tree = tmp_path / "tree"
        lines = [f"a=$('{shower}' '{tree}'); echo \"$a\""]
        for step in steps:
            lines.append(f"'{stoker}' sim inject {step}; '{stoker}' sim clock step 5s >/dev/null; "
                         f"while b=$('{shower}' '{tree}'); [ \"$a\" = \"$b\" ]; do sleep 0.05; done; a=$b; "
                         # what belongs to one change is written file by file
                         f"while sleep 0.3; b=$('{shower}' '{tree}'); [ \"$a\" != \"$b\" ]; do a=$b; done; echo \"$a\"")
        done = subprocess.run([stoker, "sim", "run", "--speed", "0", "--tree", tree, scenario, "--", "sh", "-ec",
                               "\n".join(lines)], check=True, text=True, capture_output=True, timeout=120)
        return [json.loads(line) for line in done.stdout.splitlines()]
    return run


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
    _, own, port = look("default", "aer correctable gpu=2 error=BadTLP count=40",
                        "aer fatal gpu=2 error=UncorrIntErr port=yes")
    assert [gpu["aer"] for gpu in own["gpus"]] == [[0, 0, 0]] * 2 + [[40, 0, 0]] + [[0, 0, 0]] * 5
    assert port["gpus"][2]["aer"] == [40, 0, 0] and port["gpus"][2]["port_aer"] == [0, 0, 1]
    assert port["gpus"][3]["port_aer"] == [0, 0, 0]


def test_a_slot_that_is_narrower_than_the_card(look):
    _, facts = look("default", "pcie gpu=1 width=8 slot_width=8 slot_gen=4")
    assert facts["gpus"][1]["slot"] == [16000, 8] and facts["gpus"][1]["max"] == [32000, 16]
    assert facts["gpus"][1]["current"][1] == 8
    assert facts["gpus"][0]["slot"] == [32000, 16]


def test_off_the_bus(look):
    _, facts = look("default", "lost gpu=3")
    assert [gpu["lost"] for gpu in facts["gpus"]] == [0, 0, 0, 1, 0, 0, 0, 0]


def test_tasks_that_hang(look):
    _, three, none = look("default", "stuck 3", "stuck 0")
    assert sorted(three["stuck"]) == [["nvidia-smi", "rwsem_down_read_slowpath"], ["python", "os_acquire_rwlock_write"],
                                      ["train", "__down_common"]]
    assert none["stuck"] == []


def test_services(look):
    _, no_manager, neither = look("default", "fabric-manager down", "persistenced down")
    assert no_manager["persistenced"] and not no_manager["fabric_manager"]
    assert not neither["persistenced"] and not neither["fabric_manager"]


def test_a_driver_that_goes_and_comes(look):
    before, away, back = look("default", "driver unloaded", "driver loaded")
    assert not away["loaded"] and not away["persistenced"] and away["gpus"][0]["driver"] == ""
    assert back == before


def test_a_module_of_another_version(look):
    before, after = look("default", "driver mismatch")
    assert after["loaded"] and after["module"] != before["module"]
