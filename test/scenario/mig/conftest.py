# SPDX-License-Identifier: Apache-2.0
"""`stoker mig` on simulated nodes whose clock stands still."""
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "agent"))
import agent_rig as rig  # noqa: E402

H100 = """about: two GPUs in MIG mode
gpus: {board: h100-sxm-80gb, count: 2, mig: [3g.40gb, 2g.20gb, 1g.10gb, 1g.10gb]}
truth: []
"""


class MigNode:
    """A node, and `stoker mig` on it with its own file for a change under way."""

    def __init__(self, stoker, folder, scenario, **options):
        self.stoker, self.folder, self.state = stoker, folder, folder / "state" / "change.json"
        self.node = rig.Node(stoker, folder, scenario, speed=0, **options)
        self.env, self.calls = self.node.env, folder / "calls"

    def words(self, verb, *words):
        own = ["--state", self.state, "--control", self.folder / "no.sock"] if verb in ("apply", "restore") else []
        return [str(w) for w in (self.stoker, "mig", verb, *own, *words)]

    def start(self, *words, **more):
        return subprocess.Popen(self.words(*words), env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)

    def run(self, *words, **more):
        self.calls.unlink(missing_ok=True)
        env = dict(self.env, STOKER_SIM_TRACE=str(self.calls))
        return subprocess.run(self.words(*words), env=env, capture_output=True, text=True, timeout=rig.PATIENCE, check=False, **more)

    def ok(self, *words, **more):
        done = self.run(*words, **more)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def refused(self, code, *words, **more):
        """What it says; and nothing was changed."""
        before = self.layout()
        done = self.run(*words, **more)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        assert done.stderr and not self.changes() and not self.state.exists()
        assert self.layout() == before
        return done.stderr

    def refused_plainly(self, code, *words):
        done = self.run(*words)
        assert done.returncode == code and done.stderr, (done.returncode, done.stdout, done.stderr)
        return done.stderr

    def changes(self):
        """The calls of the last run that change something, without those that came to nothing."""
        verbs = ("SetMigMode", "CreateGpuInstance", "CreateComputeInstance", "InstanceDestroy")
        return [line.split()[0].removeprefix("nvml") for line in self.calls.read_text().splitlines()
                if any(verb in line for verb in verbs)] if self.calls.exists() else []

    def layout(self):
        return self.plain("export", "-o", "text").stdout

    def plain(self, *words):
        return subprocess.run(self.words(*words), env=self.env, capture_output=True, text=True, timeout=rig.PATIENCE, check=True)


@pytest.fixture
def make_mig(stoker, tmp_path):
    """make_mig(scenario): a MigNode; the scenario is a name or a file's text."""
    nodes = []

    def make(scenario=H100, **options):
        folder = tmp_path / f"node{len(nodes)}"
        folder.mkdir()
        if "\n" in scenario:
            (folder / "scenario.yaml").write_text(scenario)
            scenario = folder / "scenario.yaml"
        nodes.append(MigNode(stoker, folder, scenario, **options))
        return nodes[-1]

    yield make
    for node in nodes:
        node.node.stop()
