# SPDX-License-Identifier: Apache-2.0
"""Labels of the node, and the whole of what a kubelet gets on each simulated board, as kept in test/data/kubelet."""
import json
import pathlib
import subprocess

import pytest
from agent_rig import until

BOARDS = pathlib.Path(__file__).parents[3] / "sim/data/boards"
SMALL = {"a100-sxm4-80gb": "1g.10gb", "a30-24gb": "1g.6gb", "b200-180gb": "1g.23gb", "h100-nvl-94gb": "1g.12gb",
         "h100-sxm-80gb": "1g.10gb", "h200-sxm-141gb": "1g.18gb", "rtx-pro-6000-blackwell-server": "1g.24gb"}


def labels_of(side, *options):
    command = [side.stoker, "kubelet", "labels", "--control", side.agent.control, *options]
    done = subprocess.run(list(map(str, command)), env=side.node.env | side.environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines == sorted(lines)
    return dict(line.split("=", 1) for line in lines)


def scenario(tmp_path, gpus):
    path = tmp_path / "node.yaml"
    path.write_text(f"about: a node of the tests\nnode: {{seed: 7}}\ngpus: {gpus}\nwork: []\ntruth: []\n")
    return path


OFTEN = ("a30-24gb", "h100-sxm-80gb", "l40s")


@pytest.mark.parametrize("board", [b if b in OFTEN else pytest.param(b, marks=pytest.mark.slow("seven more boards"))
                                   for b in sorted(b.stem for b in BOARDS.glob("*.yaml"))])
def test_each_board(make_side, tmp_path, golden, board):
    gpus = [f"{{board: {board}, count: 1}}"]
    if board in SMALL:
        gpus += [f'{{board: {board}, count: 1, mig: ["{SMALL[board]}", "{SMALL[board]}"]}}']
    side = make_side(scenario(tmp_path, f"[{', '.join(gpus)}]"),
                     options=["--mig-strategy", "mixed", "--device-list-strategy", "cdi-cri", "--cdi-root", tmp_path / "cdi"])
    resources = ["nvidia.com/gpu"] + ([f"nvidia.com/mig-{SMALL[board]}"] if board in SMALL else [])
    text = "".join(f"{k}={v}\n" for k, v in labels_of(side, "--mig-strategy", "mixed", "--no-timestamp").items())
    for name in resources:
        plugin = side.plugin(name)
        text += f"\n{name} at {plugin.endpoint}\n"
        text += "".join(f"  {d.id} {d.health} NUMA {d.numa}\n" for d in plugin.devices)
        text += f"  allocated: {' '.join(plugin.allocate(plugin.devices[-1].id).cdi)}\n"
    spec = json.loads((tmp_path / "cdi/k8s.device-plugin.nvidia.com-gpu.json").read_text())
    golden(text + "\n" + json.dumps(spec["devices"], indent=1) + "\n", f"kubelet/{board}.txt")
    assert not any(k.startswith(".") for k in labels_of(side))


def test_labels_agree_with_what_is_offered(make_side, tmp_path):  # G9
    side = make_side(scenario(tmp_path, '[{board: h100-sxm-80gb, count: 1}, {board: h100-sxm-80gb, count: 1, mig: ["3g.40gb"]}]'))
    none = labels_of(side)
    assert (none["nvidia.com/gpu.count"], none["nvidia.com/gpu.replicas"]) == ("2", "1") and len(side.plugin().devices) == 2
    assert "nvidia.com/mig.strategy" not in none
    mixed = labels_of(side, "--mig-strategy", "mixed")
    assert (mixed["nvidia.com/gpu.count"], mixed["nvidia.com/mig-3g.40gb.count"]) == ("1", "1")
    as_gfd = labels_of(side, "--physical-counts")
    assert (as_gfd["nvidia.com/gpu.count"], as_gfd["nvidia.com/gpu.replicas"]) == ("2", "0")
    single = labels_of(side, "--mig-strategy", "single")
    assert single["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3-MIG-INVALID"
    assert [single[f"nvidia.com/gpu.{n}"] for n in ("count", "replicas", "memory", "sharing-strategy")] == ["0", "0", "0", ""]
    assert single["nvidia.com/gpu.family"] == "hopper"


def test_single_strategy(make_side, tmp_path):
    side = make_side(scenario(tmp_path, '{board: a30-24gb, count: 2, mig: ["2g.12gb", "2g.12gb"]}'),
                     options=["--mig-strategy", "single"])
    labels = labels_of(side, "--mig-strategy", "single")
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-A30-MIG-2g.12gb" and labels["nvidia.com/gpu.count"] == "4"
    assert labels["nvidia.com/gpu.slices.gi"] == "2" and labels["nvidia.com/mig.strategy"] == "single"
    assert len(side.plugin().devices) == 4


def test_shared_and_several_models(make_side, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("version: v1\nsharing:\n  timeSlicing:\n    resources: [{name: gpu, replicas: 3}]\n")
    side = make_side(scenario(tmp_path, "[{board: t4, count: 1}, {board: l40s, count: 2}]"))
    labels = labels_of(side, "--config-file", config)
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-L40S-SHARED"  # the model with the most GPUs, each time
    assert (labels["nvidia.com/gpu.replicas"], labels["nvidia.com/gpu.sharing-strategy"]) == ("3", "time-slicing")
    assert (labels["stoker.dev/gpu.NVIDIA-L40S.count"], labels["stoker.dev/gpu.Tesla-T4.count"]) == ("2", "1")


def test_kept_in_a_file(make_side, tmp_path):
    path = tmp_path / "gfd"
    side = make_side(options=["--features-file", path])

    def read():
        return path.exists() and dict(line.split("=", 1) for line in path.read_text().splitlines())

    first = until(read, side.log_text)
    assert first["nvidia.com/gpu.count"] == "8" and first["stoker.dev/gpu.devices.healthy"] == "8"
    side.node.inject("xid", "79", "gpu=3")
    until(lambda: read()["stoker.dev/gpu.devices.healthy"] == "7", lambda: f"{read()} {side.log_text()}")
    changed = path.stat().st_ino
    assert labels_of(side, "--features-file", path) == {}
    assert path.stat().st_ino == changed  # the time alone is no reason to write
    side.process.terminate()
    assert side.process.wait(60) == 0
    assert not path.exists()
    side.start()
    until(read, side.log_text)


def test_a_driver_that_hangs_holds_up_no_device(make_side, tmp_path):
    side = make_side(options=["--features-file", tmp_path / "gfd"])
    side.plugin()
    side.node.inject("hang", "gpu=5")
    until(lambda: side.unhealthy() == [side.uuid(5)], side.log_text)
    assert side.plugin().allocate(side.uuid(1)).envs


def test_without_an_agent(stoker, tmp_path):
    done = subprocess.run([stoker, "kubelet", "labels", "--control", tmp_path / "none.sock"], capture_output=True, text=True)
    assert done.returncode == 3 and "none.sock" in done.stderr and not done.stdout
