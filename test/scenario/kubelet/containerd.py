# SPDX-License-Identifier: Apache-2.0
"""Debian's containerd with runc, in namespaces of its own, and as much of a kubelet as it takes to start a container there."""
import hashlib
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile

import grpc
import pytest
from agent_rig import until
from device_kubelet import fields, text

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "unit/podresources"))
from kubelet import field  # noqa: E402

IMAGE = "stoker.test/busybox:1"
NODE = 2  # NamespaceMode: the node's network, so that no CNI plugin is needed
EXITED = 2
# What is mounted, made in /run and started ends with this shell.
INSIDE = """mount -t tmpfs none /run
trap 'find /sys/fs/cgroup -depth -type d -path "*/$PARENT*" -exec rmdir {} +' EXIT
trap : TERM
"$@"
"""
CONFIG = """version = 2
root = "{folder}/root"
state = "/run/containerd"
[grpc]
address = "{folder}/c.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{image}"
enable_cdi = true
cdi_spec_dirs = ["{cdi}"]
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = "{programs}/usr/sbin/runc"
"""


def tar_of(files):
    """{name: (bytes, mode)} as a tar archive; bytes None: a folder."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, (data, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.mode, entry.type, entry.size = mode, tarfile.REGTYPE if data is not None else tarfile.DIRTYPE, len(data or b"")
            tar.addfile(entry, io.BytesIO(data or b""))
    return out.getvalue()


def image_of(busybox):
    """An image that sleeps, as `docker save` writes it: of Red Hat's kind by its folder of libraries."""
    layer = tar_of({"bin": (None, 0o755), "bin/busybox": (busybox, 0o755), "usr": (None, 0o755), "usr/lib64": (None, 0o755)})
    config = {"architecture": "amd64", "os": "linux", "config": {"Entrypoint": ["/bin/busybox", "sleep", "3600"]},
              "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]}}
    manifest = [{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]
    return tar_of({"manifest.json": (json.dumps(manifest).encode(), 0o644), "config.json": (json.dumps(config).encode(), 0o644),
                   "layer.tar": (layer, 0o644)})


class Containerd:
    """`programs`: the root of the unpacked packages; `folder`: its own; `cdi`: where specifications lie."""

    def __init__(self, programs, folder, cdi):
        folder.mkdir()
        self.folder, self.parent = folder, f"stoker-test-{os.getpid()}"
        (folder / "config.toml").write_text(CONFIG.format(folder=folder, programs=programs, cdi=cdi, image=IMAGE))
        (folder / "image.tar").write_bytes(image_of((programs / "bin/busybox").read_bytes()))
        self.env = {**os.environ, "LD_LIBRARY_PATH": f"{programs}/usr/lib/x86_64-linux-gnu", "PARENT": self.parent,
                    "PATH": f"{programs}/usr/bin:{os.environ['PATH']}"}
        self.process = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", INSIDE, "sh", "containerd", "--config",
             folder / "config.toml"], env=self.env, stderr=open(folder / "log", "wb"), start_new_session=True)
        self.channel = grpc.insecure_channel(f"unix:{folder / 'c.sock'}")

    def load_image(self):
        until(lambda: (self.folder / "c.sock").exists() or self.process.poll() is not None, self.log_text)
        if self.process.poll() is not None:
            pytest.skip(f"no container can be started here: {self.log_text()[-200:]}")
        subprocess.run(["ctr", "-a", self.folder / "c.sock", "-n", "k8s.io", "images", "import", "--local", "--snapshotter", "native",
                        self.folder / "image.tar"], env=self.env, check=True, capture_output=True, timeout=120)
        until(lambda: self.call("ImageService/ImageStatus", field(1, field(1, IMAGE)))[1], self.log_text)

    def log_text(self):
        return (self.folder / "log").read_text()

    def call(self, method, request):
        return fields(self.channel.unary_unary(f"/runtime.v1.{method}")(request, timeout=120))

    def start_pod(self, sandbox):
        try:
            return text(self.call("RuntimeService/RunPodSandbox", field(1, sandbox)), 1)
        except grpc.RpcError as error:
            if "operation not permitted" in error.details().lower():
                pytest.skip(f"no container can be started here: {error.details()[-200:]}")
            raise

    def run(self, device, command):
        """What a container with this CDI device writes to its end. grpc.RpcError says what the runtime says."""
        sandbox = (field(1, field(1, "pod") + field(2, "uid") + field(3, "default")) + field(3, str(self.folder / "logs"))
                   + field(8, field(1, f"/{self.parent}") + field(2, field(1, field(1, NODE)))))
        pod = self.start_pod(sandbox)
        config = (field(1, field(1, "one")) + field(2, field(1, IMAGE)) + b"".join(field(3, w) for w in ("/bin/busybox", "sh", "-c", command))
                  + field(11, "one.log") + field(17, field(1, device)))
        try:
            name = text(self.call("RuntimeService/CreateContainer", field(1, pod) + field(2, config) + field(3, sandbox)), 1)
            self.call("RuntimeService/StartContainer", field(1, name))
            until(lambda: fields(self.call("RuntimeService/ContainerStatus", field(1, name))[1][0]).get(3) == [EXITED], self.log_text)
        finally:
            self.call("RuntimeService/StopPodSandbox", field(1, pod))
            self.call("RuntimeService/RemovePodSandbox", field(1, pod))
        return [line.split(" ", 3)[3] for line in (self.folder / "logs/one.log").read_text().splitlines()]

    def stop(self):
        self.channel.close()
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)  # containerd's; unshare and the shell wait for it
        self.process.wait(60)
