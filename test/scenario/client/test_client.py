# SPDX-License-Identifier: Apache-2.0
"""A client that asks for everything, on each board, with and without MIG, for each driver generation."""
import os
import subprocess
from pathlib import Path

import pytest

BOARDS = Path(__file__).resolve().parents[3] / "sim" / "data" / "boards"
DRIVERS = {535: "535.261.03", 590: "590.48.01", 610: "610.57.02"}
# A large, a small and, where there is room, a middle device.
MIG = {
    "a100-sxm4-80gb": "[3g.40gb, 2g.20gb, 1g.10gb]",
    "a30-24gb": "[2g.12gb, 1g.6gb]",
    "b200-180gb": "[3g.90gb, 1g.23gb, 1g.23gb]",
    "h100-nvl-94gb": "[4g.47gb, 1g.12gb]",
    "h100-sxm-80gb": "[4g.40gb, 2g.20gb, 1g.10gb]",
    "h200-sxm-141gb": "[3g.71gb, 1g.18gb]",
    "rtx-pro-6000-blackwell-server": "[2g.48gb, 1g.24gb]",
}
NODES = [(b.stem, False) for b in sorted(BOARDS.glob("*.yaml"))] + [(board, True) for board in MIG]


def scenario(board, mig, driver):
    text = f'about: a client\nnode: {{driver: "{driver}", seed: 5, start: "2026-01-05T08:00:00Z"}}\ngpus:\n'
    text += f"  - {{board: {board}}}\n"
    text += f"  - {{board: {board}, mig: {MIG[board]}}}\n" if mig else f"  - {{board: {board}}}\n"
    text += "work:\n  - {name: job, kind: train, gpus: 0, process: python}\n"
    text += "  - {name: desk, kind: desktop, gpus: 0, process: Xorg}\n"
    device = ", mig: 0" if mig else ""
    return text + f"  - {{name: tenant, kind: decode, gpus: 1{device}, process: vllm}}\ntruth: []\n"


class Node:
    def __init__(self, build, folder, board, mig, generation):
        self.client = build / "test" / "scenario" / "client" / "client"
        if not self.client.exists():
            pytest.skip(f"{self.client} has not been built")
        self.strict = folder / "strict.log"
        self.image = folder / "node.img"
        self.scenario = folder / "node.yaml"
        self.scenario.write_text(scenario(board, mig, DRIVERS[generation]), encoding="utf-8")
        self.env = dict(os.environ, STOKER_SIM=str(self.image), STOKER_SIM_NOBLOCK="1", STOKER_SIM_STRICT=str(self.strict),
                        LD_LIBRARY_PATH=str(build / "sim" / "nvml" / f"r{generation}"))
        self.make()

    def make(self):
        subprocess.run([self.client, "build", self.scenario, self.image, BOARDS], check=True)

    def ask(self, what):
        run = subprocess.run([self.client, what], env=self.env, capture_output=True, text=True, errors="replace")
        assert run.returncode == 0, run.stderr[-4000:]
        return run.stdout

    def reported(self):
        return self.strict.read_text(encoding="utf-8") if self.strict.exists() else ""


@pytest.mark.parametrize("generation", DRIVERS)
@pytest.mark.parametrize("board,mig", NODES, ids=[f"{b}{'-mig' if m else ''}" for b, m in NODES])
def test_answers_agree(build, tmp_path, board, mig, generation):
    node = Node(build, tmp_path, board, mig, generation)
    node.ask("check")
    assert node.reported() == ""


@pytest.mark.parametrize("board,mig", [("h100-sxm-80gb", True), ("t4", False), ("b200-180gb", False)])
def test_same_time_same_answers(build, tmp_path, board, mig):
    node = Node(build, tmp_path, board, mig, 590)
    first = node.ask("dump")
    assert len(first) > 50000
    assert node.ask("dump") == first  # another process
    node.make()
    assert node.ask("dump") == first  # another run
