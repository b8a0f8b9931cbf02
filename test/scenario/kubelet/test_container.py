# SPDX-License-Identifier: Apache-2.0
"""Debian's runc starts a container with the CDI devices of the simulated node: what the specification promises is there, and no
more. What a CDI runtime does with a specification is done here: Debian 12 has none that is new enough."""
import json
import os
import shutil
import subprocess

import pytest
from agent_rig import until

pytestmark = pytest.mark.slow("a container of Debian's runc")


def config_of(spec, name, command):
    """runc's configuration of a container that has this device."""
    chosen = [spec["containerEdits"]] + [d["containerEdits"] for d in spec["devices"] if d["name"] == name]
    assert len(chosen) == 2
    nodes = [node for edits in chosen for node in edits.get("deviceNodes", [])]
    return {
        "ociVersion": "1.0.2", "root": {"path": "rootfs"},
        "process": {"user": {"uid": 0, "gid": 0}, "args": command, "cwd": "/",
                    "env": ["PATH=/bin", *(e for edits in chosen for e in edits.get("env", []))]},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"},
                   {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
                   *({"destination": m["containerPath"], "source": m["hostPath"], "type": "bind", "options": m["options"]}
                     for edits in chosen for m in edits.get("mounts", []))],
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts", "network")],
                  "devices": [{"path": n["path"], "type": n["type"], "major": n["major"], "minor": n["minor"], "fileMode": 0o666,
                               "uid": 0, "gid": 0} for n in nodes],
                  "resources": {"devices": [{"allow": False, "access": "rwm"}, *(
                      {"allow": True, "type": n["type"], "major": n["major"], "minor": n["minor"], "access": n["permissions"]}
                      for n in nodes)]}}}


@pytest.fixture
def run_container(fetched, tmp_path):
    root = fetched("container")

    def run(spec, name, command):
        bundle = tmp_path / "bundle"
        for folder in ("bin", "proc", "dev", "etc", "usr/lib64"):  # as an image of Red Hat's kind; the other folder is made
            (bundle / "rootfs" / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(root / "bin/busybox", bundle / "rootfs/bin/busybox")
        (bundle / "config.json").write_text(json.dumps(config_of(spec, name, ["/bin/busybox", "sh", "-c", command])))
        env = {**os.environ, "LD_LIBRARY_PATH": f"{root}/usr/lib/x86_64-linux-gnu"}
        done = subprocess.run([root / "usr/sbin/runc", "--root", tmp_path / "state", "run", "-b", bundle, f"stoker-test-{os.getpid()}"],
                              env=env, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode and "operation not permitted" in done.stderr.lower():
            pytest.skip(f"no container can be started here: {done.stderr.strip()[-200:]}")
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


def test_what_cdi_promises_is_there(make_side, run_container, tmp_path):
    side = make_side("mig-balanced", options=["--mig-strategy", "mixed", "--device-list-strategy", "cdi-cri", "--cdi-root", tmp_path / "cdi",
                                              "--nvidia-driver-root", tmp_path / "tree"])
    path = tmp_path / "cdi/k8s.device-plugin.nvidia.com-gpu.json"
    spec = until(lambda: path.exists() and json.loads(path.read_text()), side.log_text)
    plugin = side.plugin("nvidia.com/mig-2g.20gb")
    kind, _, name = plugin.allocate(plugin.devices[1].id).cdi[0].partition("=")
    assert kind == spec["kind"]
    shown = run_container(spec, name, "busybox env; busybox find /dev -type c; busybox cat /usr/lib64/libnvidia-ml.so.1 | busybox sha256sum; "
                                      "busybox ls /usr/lib64 /usr/lib/x86_64-linux-gnu; busybox touch /usr/lib64/libcuda.so.1 2>/dev/null || echo read-only")
    assert "NVIDIA_VISIBLE_DEVICES=void" in shown and "read-only" in shown
    devices = {line for line in shown if line.startswith("/dev/nvidia")}
    own, = (d["containerEdits"]["deviceNodes"] for d in spec["devices"] if d["name"] == name)
    assert devices == {n["path"] for n in own + spec["containerEdits"]["deviceNodes"]}  # and none of another device
    assert sum(line == "libcuda.so.1" for line in shown) == 2
    library = side.node.tree / "usr/lib64/libnvidia-ml.so.1"
    expected = subprocess.run(["sha256sum", library], capture_output=True, text=True, check=True).stdout.split()[0]
    assert any(line.startswith(expected) for line in shown)
