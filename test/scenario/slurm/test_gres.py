# SPDX-License-Identifier: Apache-2.0
"""`stoker slurm gres` on simulated nodes: what it prints fits the node, and does not any more after a change."""
import json
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "agent"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import agent_rig as rig  # noqa: E402
import gres_node  # noqa: E402

MIXED = """about: one GPU in MIG mode, one without
gpus:
- {board: h100-sxm-80gb, count: 1, mig: [3g.40gb, 1g.10gb]}
- {board: h100-sxm-80gb, count: 1}
truth: []
"""


class GresNode:
    def __init__(self, stoker, folder, scenario):
        self.stoker, self.folder = stoker, folder
        self.node = rig.Node(stoker, folder, scenario, speed=0)
        gres_node.write_processors(self.node.tree)

    def run(self, code, *words, env=None):
        """stdout and stderr"""
        done = subprocess.run([self.stoker, *map(str, words)], env=dict(self.node.env, **env or {}), capture_output=True, text=True,
                              timeout=rig.PATIENCE, check=False)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done.stdout, done.stderr

    def gres(self, code, *words, env=None):
        return self.run(code, "slurm", "gres", *words, env=env)

    def keep(self, text):
        (self.folder / "gres.conf").write_text(text)
        return self.folder / "gres.conf"


@pytest.fixture
def make_gres(stoker, tmp_path):
    nodes = []

    def make(scenario):
        if "\n" in scenario:
            (tmp_path / "scenario.yaml").write_text(scenario)
            scenario = tmp_path / "scenario.yaml"
        nodes.append(GresNode(stoker, tmp_path, scenario))
        return nodes[-1]

    yield make
    for node in nodes:
        node.node.stop()


def lines_of(text):
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_whole_gpus(make_gres):
    node = make_gres("default")
    text, _ = node.gres(0)
    assert lines_of(text) == [f"Name=gpu Type=nvidia_h100_80gb_hbm3 File=/dev/nvidia{g} Cores={'0-55' if g < 4 else '56-111'}" for g in range(8)]
    assert "#   NodeName=NAME Gres=gpu:nvidia_h100_80gb_hbm3:8\n" in text
    assert node.gres(0, "--check", node.keep(text))[0].endswith("gres.conf fits this node\n")
    named, _ = node.gres(0, "--node", "gpu17")
    assert lines_of(named) == [f"NodeName=gpu17 {line}" for line in lines_of(text)]
    assert node.gres(0, "--node", "gpu17", "--check", node.keep(named)) and "no line offers" in node.gres(1, "--check", node.keep(named))[0]


def test_a_change_of_the_layout_is_found(make_gres):
    node = make_gres(MIXED)
    text, _ = node.gres(0)
    kinds = [(d["gpu"], d["profile"], len(d["files"].split(","))) for d in json.loads(node.gres(0, "--json")[0])["devices"]]
    assert kinds == [(0, "3g.40gb", 3), (0, "1g.10gb", 3), (1, None, 1)]
    assert all((node.node.tree / name.lstrip("/")).exists() for line in lines_of(text) for name in line.split("iles=")[-1].split()[0].split(",")
               if "Multiple" in line), "its device files are there"
    path = node.keep(text)
    node.gres(0, "--check", path)
    node.run(0, "mig", "apply", "--state", node.folder / "state", "--control", node.folder / "no.sock", "gpu0=3g.40gb")
    found = json.loads(node.gres(1, "--check", path, "--json")[0])
    assert not found["starts"] and [(f["line"], f["finding"]) for f in found["findings"]] == [(8, "instance_gone")]
    node.run(0, "mig", "apply", "--state", node.folder / "state", "--control", node.folder / "no.sock", "gpu0=off")
    found = json.loads(node.gres(1, "--check", path, "--json")[0])
    assert {f["finding"] for f in found["findings"]} == {"instance_gone", "not_listed"}


def test_slurm_without_its_nvml_plugin(make_gres):
    node = make_gres(MIXED)
    path = node.keep("AutoDetect=nvml\n")
    node.gres(0, "--check", path)  # no Slurm here
    plugins = node.node.tree / "usr/lib/x86_64-linux-gnu/slurm-wlm"
    plugins.mkdir(parents=True)
    (plugins / "gpu_generic.so").touch()
    assert f"{path}:1: AutoDetect=nvml, and this Slurm has no plugin gpu_nvml.so\n" in node.gres(1, "--check", path)[0]
    (plugins / "gpu_nvml.so").touch()
    node.gres(0, "--check", path)


def test_a_gpu_that_is_lost_and_one_that_hangs(make_gres):
    node = make_gres("default")
    node.node.inject("hang", "gpu=2")
    assert "has not returned for 1000 ms" in node.gres(3, "--timeout", "1s")[1]
    node.node.inject("hang", "clear=on")
    path = node.keep(node.gres(0)[0])
    node.node.inject("xid", "79", "gpu=3")
    text, said = node.gres(3)
    assert len(lines_of(text)) == 7 and "# GPU 3 is left out: " in text and said.startswith("stoker slurm gres: GPU 3: ")
    assert node.gres(3, "--check", path), "its line may be right"


def test_exit_codes(make_gres):
    node = make_gres("default")
    assert "No such file" in node.gres(2, "--check", node.folder / "none.conf")[1]
    assert node.gres(2, "more")[1]
    assert node.gres(3, env={"STOKER_DRIVER_LIBRARY": str(node.folder / "none.so")})[1]
