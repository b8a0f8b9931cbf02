# SPDX-License-Identifier: Apache-2.0
"""A client that asks for everything, on each board, with and without MIG, for each driver generation."""
import os
import subprocess
from pathlib import Path

import pytest

BOARDS = Path(__file__).resolve().parents[3] / "sim" / "data" / "boards"
DRIVERS = {535: "535.261.03", 550: "550.54.15", 590: "590.48.01", 610: "610.57.02"}
CUDA = {535: ("535.274.02", "12.2"), 550: ("550.54.15", "12.4"), 590: ("590.48.01", "13.1"), 610: ("610.57.02", "13.3")}
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
    def __init__(self, build, folder, generation, text):
        self.client = build / "test" / "scenario" / "client" / "client"
        assert self.client.exists()
        self.strict = folder / "strict.log"
        self.image = folder / "node.img"
        self.scenario = folder / "node.yaml"
        self.scenario.write_text(text, encoding="utf-8")
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
    node = Node(build, tmp_path, generation, scenario(board, mig, DRIVERS[generation]))
    node.ask("check")
    assert node.reported() == ""


@pytest.mark.parametrize("board,mig", [("h100-sxm-80gb", True), ("t4", False), ("b200-180gb", False)])
def test_same_time_same_answers(build, tmp_path, board, mig):
    node = Node(build, tmp_path, 590, scenario(board, mig, DRIVERS[590]))
    first = node.ask("dump")
    assert len(first) > 50000
    assert node.ask("dump") == first  # another process
    node.make()
    assert node.ask("dump") == first  # another run


@pytest.mark.parametrize("generation", CUDA)
def test_a_lost_gpu_takes_no_other_from_kubernetes(build, tmp_path, generation):
    """The device plugin, feature discovery and mig-parted, call by call: what each makes of its GPUs."""
    driver, cuda = CUDA[generation]
    node = Node(build, tmp_path, generation, f'about: x\nnode: {{driver: "{driver}"}}\ngpus: {{board: h100-sxm-80gb, count: 4}}\ntruth: []\n')
    lines = node.ask("kube").splitlines()
    assert [line for line in lines if not line.startswith("parted")] == [
        "labels: 4 x NVIDIA H100 80GB HBM3, 81559 MiB, 9.0, clique 0",
        f"discovery, well: driver {driver}, CUDA {cuda}, 0",
        f"discovery, 3 lost: driver {driver}, CUDA {cuda}, 15",  # it gives up; the labels stay as they were
        "plugin, well: 0 1 2 3",
        "plugin, 31 on 0: 0 1 2 3",
        "plugin, 79 on 3: 0 1 2 -",
        "plugin, 95 on 1: 0 - 2 -",
        "plugin, 2 lost without an XID: 0 - 2 -",
        "plugin, started again: 16",  # of GPU 1
        "plugin, after resets: 0",
    ]
    if os.geteuid() == 0:  # for each GPU: rc and MIG devices made; then those that the plugin finds
        assert [line for line in lines if line.startswith("parted")] == [
            "parted, well: 4 GPUs, 0 4 0 4 0 4 0 4; the plugin finds 4 4 4 4",
            "parted, 3 lost later: 4 GPUs, 0 4 0 4 0 4 0 4; the plugin finds 4 4 4 0",
            "parted, 3 lost: 3 GPUs, 0 4 0 4 0 4; the plugin finds 4 4 4",
        ]
    assert node.reported() == ""
