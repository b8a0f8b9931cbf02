# SPDX-License-Identifier: Apache-2.0
"""Debian's containerd and runc start a container with a CDI device of the simulated node, as a kubelet asks for it: what the
specification promises is there, and no more."""
import json
import subprocess

import containerd
import grpc
import pytest
from agent_rig import until

pytestmark = pytest.mark.slow("containers of Debian's containerd")


@pytest.fixture
def side(make_side, tmp_path):
    """With its specification in tmp_path/cdi."""
    made = make_side("mig-balanced", options=["--mig-strategy", "mixed", "--device-list-strategy", "cdi-cri", "--cdi-root", tmp_path / "cdi",
                                              "--nvidia-driver-root", tmp_path / "tree"])
    until(lambda: (tmp_path / "cdi/k8s.device-plugin.nvidia.com-gpu.json").exists(), made.log_text)
    return made


@pytest.fixture
def runtime(fetched, tmp_path):
    made = containerd.Containerd(fetched("container"), tmp_path / "c", tmp_path / "cdi")
    try:
        made.load_image()
        yield made
    finally:
        made.stop()


SHOW = """busybox env; busybox find /dev -type c; busybox cat /usr/lib64/libnvidia-ml.so.1 | busybox sha256sum
busybox ls /usr/lib64 /usr/lib/x86_64-linux-gnu; busybox touch /usr/lib64/libcuda.so.1 2>/dev/null || echo read-only
(: </dev/nvidia{own}) 2>&1 | busybox grep -q 'not permitted' && echo own refused
busybox mknod /other c 195 {other}; (: </other) 2>&1 | busybox grep -q 'not permitted' && echo other refused
"""


def test_what_cdi_promises_is_there(side, runtime, tmp_path):
    spec = json.loads((tmp_path / "cdi/k8s.device-plugin.nvidia.com-gpu.json").read_text())
    plugin = side.plugin("nvidia.com/mig-2g.20gb")
    device, = plugin.allocate(plugin.devices[1].id).cdi
    kind, _, name = device.partition("=")
    assert kind == spec["kind"]
    own, = (d["containerEdits"]["deviceNodes"] for d in spec["devices"] if d["name"] == name)
    shown = runtime.run(device, SHOW.format(own=own[0]["minor"], other=own[0]["minor"] + 1))
    assert "other refused" in shown and "own refused" not in shown, shown
    assert "NVIDIA_VISIBLE_DEVICES=void" in shown and "read-only" in shown
    devices = {line for line in shown if line.startswith("/dev/nvidia")}
    assert devices == {n["path"] for n in own + spec["containerEdits"]["deviceNodes"]}  # and none of another device
    assert sum(line == "libcuda.so.1" for line in shown) == 2
    library = side.node.tree / "usr/lib64/libnvidia-ml.so.1"
    expected = subprocess.run(["sha256sum", library], capture_output=True, text=True, check=True).stdout.split()[0]
    assert any(line.startswith(expected) for line in shown)


def test_an_id_that_is_not_offered(side, runtime):
    side.plugin("nvidia.com/mig-2g.20gb")
    device = "k8s.device-plugin.nvidia.com/gpu=GPU-0"
    with pytest.raises(grpc.RpcError) as refused:
        runtime.run(device, "busybox env")
    assert f"unresolvable CDI devices {device}" in refused.value.details()
