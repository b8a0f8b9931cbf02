# SPDX-License-Identifier: Apache-2.0
"""nvidia-smi on simulated nodes.

A node is an image made for one scenario and one moment: its clock stands still, so every number is the same each time.
Every run is watched by the library's strict mode, which reports what a client does wrong.
"""

import os
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[3]


class Node:
    """Runs nvidia-smi on one image."""

    def __init__(self, build, image, strict, generation):
        self.program = build / "sim" / "smi" / "nvidia-smi"
        self.clock = [build / "test" / "unit" / "smi" / "smi_image", image]
        self.strict = strict
        self.env = {
            "PATH": os.environ["PATH"],
            "TZ": "UTC",
            "STOKER_SIM": str(image),
            "STOKER_SIM_STRICT": str(strict),
            "LD_LIBRARY_PATH": str(build / "sim" / "nvml" / f"r{generation}"),
        }

    def run(self, *args):
        return subprocess.run([self.program, *args], env=self.env, capture_output=True, text=True, check=False)

    def ok(self, *args):
        done = self.run(*args)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stderr == ""
        return done.stdout

    def advance(self, seconds):
        subprocess.run([*self.clock, str(seconds)], check=True)

    def start(self, *args):
        return subprocess.Popen([self.program, *args], env=self.env, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def make_node(build, tmp_path):
    """make_node(scenario, at=seconds, generation="590"); the scenario is a name or a file's text."""
    nodes = []

    def make(scenario, at=0, generation="590"):
        number = len(nodes)
        image = tmp_path / f"node{number}.img"
        if "\n" in scenario:
            file = tmp_path / f"node{number}.yaml"
            file.write_text(scenario)
            scenario = str(file)
        data = SOURCE / "sim" / "data"
        program = build / "test" / "unit" / "smi" / "smi_image"
        subprocess.run([program, scenario, image, str(at), data / "scenarios", data / "boards"], check=True)
        node = Node(build, image, tmp_path / f"strict{number}", generation)
        nodes.append(node)
        return node

    yield make
    for node in nodes:
        assert not node.strict.exists() or node.strict.read_text() == ""


TRAINING = """
about: two GPUs at work, one with MIG devices
gpus:
  - {board: h100-sxm-80gb, count: 2}
  - {board: h100-sxm-80gb, mig: [3g.40gb, 1g.10gb]}
work:
  - {name: job, kind: train, gpus: 0-1, process: python}
truth: []
"""

BOARDS = """
about: one of each
gpus:
  - {board: l40s}
  - {board: t4}
  - {board: a100-sxm4-80gb}
  - {board: b200-180gb}
truth: []
"""


@pytest.fixture
def training(make_node):
    return make_node(TRAINING, at=60)


@pytest.fixture
def boards(make_node):
    return make_node(BOARDS, at=60)
