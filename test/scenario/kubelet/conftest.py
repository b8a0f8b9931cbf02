# SPDX-License-Identifier: Apache-2.0
"""A node, its agent, `stoker kubelet` on it, and a kubelet of the tests."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "agent"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import agent_rig as rig  # noqa: E402
import device_kubelet  # noqa: E402


class Side:
    """`stoker kubelet`, with the agent it asks and the kubelet it serves."""

    def __init__(self, stoker, tmp, node, agent, options, environ):
        self.stoker, self.tmp, self.node, self.agent, self.options = stoker, tmp, node, agent, options
        self.kubelet = device_kubelet.Kubelet(tmp / "dp")
        self.environ, self.log_path = environ, tmp / "kubelet.log"
        self.process = None
        self.start()

    def start(self):
        command = [self.stoker, "kubelet", "--healthy-after", "1s", "--device-plugin-path", self.tmp / "dp", "--control", self.agent.control,
                   *self.options]
        self.process = subprocess.Popen(list(map(str, command)), env=self.node.env | self.environ,
                                        stderr=open(self.log_path, "ab"), start_new_session=True)

    def log_text(self):
        return self.log_path.read_text()

    def plugin(self, resource="nvidia.com/gpu"):
        """The plugin of a resource, once it has told its devices."""
        return rig.until(lambda: (p := self.kubelet.plugins[resource]).lists and p, self.log_text)

    def unhealthy(self, resource="nvidia.com/gpu"):
        return [d.id for d in self.plugin(resource).devices if d.health != "Healthy"]

    def uuid(self, index):
        return self.agent.gpus()[index]["uuid"]

    def stop(self):
        self.process.terminate()
        try:
            assert self.process.wait(60) == 0, self.log_text()
        except subprocess.TimeoutExpired:  # what it waits for
            folder = pathlib.Path(f"/proc/{self.process.pid}")
            held = {f.name: os.readlink(f) for f in (folder / "fd").iterdir()}
            tree = subprocess.run(["ps", "-eo", "pid,ppid,stat,wchan:20,args"], capture_output=True, text=True).stdout
            ours = [line for line in tree.splitlines() if str(self.tmp) in line]
            raise AssertionError(f"it does not end: {held} {ours} {(folder / 'wchan').read_text()} {self.log_text()}") from None
        self.kubelet.stop()


@pytest.fixture
def make_side(stoker, tmp_path):
    """`side = make_side("default", options=[...], environ={...})`"""
    with contextlib.ExitStack() as ends:

        def make(scenario="default", options=(), environ=None, agent_options=(), prepare=None, **of_node):
            node = rig.Node(stoker, tmp_path, scenario, **of_node)
            ends.callback(node.stop)
            if prepare:
                prepare(node)
            agent = rig.Agent(stoker, tmp_path, node.env, options=agent_options)
            ends.callback(agent.stop)
            side = Side(stoker, tmp_path, node, agent, options, environ or {})
            ends.callback(side.stop)
            return side

        yield make


class Driver:
    """A root with stand-ins of NVIDIA's programs (test/unit/kubelet/fake_mps.c), a folder for daemons and a configuration."""

    def __init__(self, build, tmp):
        self.root, self.state, self.mps, self.config = tmp / "driver", tmp / "driver/state", tmp / "mps", tmp / "config.yaml"
        for folder in ("usr/bin", "mnt", "dev/shm", "state/lives"):
            (self.root / folder).mkdir(parents=True)
        for name in ("nvidia-smi", "nvidia-cuda-mps-control"):
            shutil.copy(build / "test/unit/kubelet/fake_mps", self.root / "usr/bin" / name)
        self.configure(4)
        self.options = ["--config-file", self.config, "--mps-root", self.mps, "--driver-root-ctr-path", self.root]

    def configure(self, replicas, more=""):
        self.config.write_text(f"version: v1\nsharing:\n  mps:\n    resources: [{{name: nvidia.com/gpu, replicas: {replicas}}}]\n{more}")

    def log(self):
        path = self.state / "log"
        return path.read_text().splitlines() if path.exists() else []

    def lives(self):
        found = []
        for path in (self.state / "lives").iterdir():
            with contextlib.suppress(OSError):  # a zombie has no program
                os.readlink(f"/proc/{path.name}/exe")
                found.append(int(path.name))
        return found

    def modes(self):
        return {path.read_text() for path in self.state.glob("mode-*")}

    def stop(self):
        for pid in self.lives():
            os.kill(pid, signal.SIGKILL)
        for line in pathlib.Path("/proc/mounts").read_text().splitlines():  # where tmp_path is no tmpfs itself
            if line.split()[1].startswith(f"{self.root.parent}/"):
                subprocess.run(["umount", "-q", line.split()[1]], check=False, capture_output=True)


@pytest.fixture
def driver(build, tmp_path):
    if subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode:
        pytest.skip("mount namespaces need root")
    made = Driver(build, tmp_path)
    yield made
    made.stop()
