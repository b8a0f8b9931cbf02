# SPDX-License-Identifier: Apache-2.0
"""Third-party programs on simulated nodes. Their clocks stand still, so that what a client shows can be held against what
the simulator knows; every node notes in strict mode what its clients do wrong, which is printed and fails nothing."""
import importlib.util
import json
import os
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
LIMIT_S = 120


def load(name):
    """A module of this folder; tests are imported without a package."""
    spec = importlib.util.spec_from_file_location(f"peer_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


servers = load("servers")


def joined(*parts):
    return ":".join(str(p) for p in parts if p)


def complaints(strict):
    """What strict mode wrote about clients, each once."""
    return sorted(set(strict.read_text().splitlines())) if strict.exists() else []


def evaluated(exports):
    """What a shell has in its environment after these exports."""
    done = subprocess.run(["sh", "-c", 'eval "$1"; exec /usr/bin/env -0', "sh", exports], env={}, capture_output=True,
                          text=True, timeout=LIMIT_S, check=True)
    return dict(word.split("=", 1) for word in done.stdout.split("\0") if word and not word.startswith("PWD="))


class Node:
    """One simulated node with its clock stopped, and the way to run an unpacked client on it."""

    def __init__(self, stoker, folder, scenario, *options):
        self.stoker, self.image, self.strict = stoker, folder / "node.img", folder / "strict"
        self.folder = folder
        text = self.tool("env", "--speed", "0", "--image", self.image, "--strict", self.strict, *options, scenario)
        self.exports = evaluated(text)

    def tool(self, verb, *words):
        command = [self.stoker, "sim", verb, *map(str, words)]
        env = {"PATH": os.environ["PATH"]}
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env=env, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def step(self, duration):
        self.tool("clock", "--image", self.image, "step", duration)

    def inject(self, *words):
        self.tool("inject", "--image", self.image, *words)

    def show(self):
        """What the simulator itself knows, by GPU."""
        return json.loads(self.tool("show", "--image", self.image, "--json"))["gpus"]

    def env(self, root=None, **more):
        return environment(self.exports, root, **more)

    def run(self, root, *command, **more):
        """Runs a client from its unpacked root; nothing of its output is lost when it fails."""
        env = self.env(root, **more)
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=LIMIT_S, env=env,
                              cwd=self.folder, check=False)
        return done

    def wrongs(self):
        return complaints(self.strict)


def environment(exports, root=None, **more):
    """A clean environment with the simulated driver first and the client's own libraries and modules after it."""
    lib = joined(root / "usr/lib/x86_64-linux-gnu", root / "lib/x86_64-linux-gnu") if root else None
    env = {
        **exports,
        "PATH": joined(exports.get("PATH"), root and root / "usr/bin", root and root / "usr/sbin", os.environ["PATH"]),
        "LD_LIBRARY_PATH": joined(exports.get("LD_LIBRARY_PATH"), lib),
        "PYTHONPATH": joined(root and root / "usr/lib/python3/dist-packages"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": "/nonexistent",
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm",
        "TZ": "UTC",
    }
    return {k: str(v) for k, v in {**env, **more}.items()}


@pytest.fixture(scope="session")
def client(fetched):
    """The same for a program that loads the driver library."""
    return fetched


@pytest.fixture(scope="session")
def node_of():
    return Node


@pytest.fixture(scope="session")
def client_env():
    return environment


def note(made, record_property):
    """Says what the clients of a node did wrong: it is their fault, so no test fails."""
    for line in made.wrongs():
        print("strict:", line)
        record_property("strict", line)


@pytest.fixture
def node(stoker, tmp_path, record_property):
    """node(scenario, at, options...): a node at that time; the scenario is a name or a file's text."""
    nodes = []

    def make(scenario, at="60s", *options):
        folder = tmp_path / f"node{len(nodes)}"
        folder.mkdir()
        if "\n" in scenario:
            (folder / "scenario.yaml").write_text(scenario)
            scenario = folder / "scenario.yaml"
        made = Node(stoker, folder, scenario, *options)
        nodes.append(made)
        made.step(at)
        return made

    yield make
    for made in nodes:
        note(made, record_property)


class Entered:
    """Runs a client on a node of its own, which the client sees as the machine itself: devices, /proc and /sys too."""

    def __init__(self, stoker, folder):
        self.stoker, self.folder, self.strict = stoker, folder, folder / "strict"

    def __call__(self, scenario, root, *command, limit=LIMIT_S, **more):
        if "\n" in str(scenario):
            (self.folder / "scenario.yaml").write_text(scenario)
            scenario = self.folder / "scenario.yaml"
        words = [self.stoker, "sim", "run", "--enter", "--speed", "0", "--strict", self.strict,
                 "--image", self.folder / "node.img", scenario, "--", *command]
        env = environment({}, root, **more)
        return subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=limit, env=env, cwd=self.folder,
                              check=False)

    def wrongs(self):
        return complaints(self.strict)


@pytest.fixture(scope="session")
def may_enter(stoker, tmp_path_factory):
    """Why a node cannot be entered here; None where it can."""
    if os.geteuid() != 0:
        return "entering a simulated node needs root"
    done = Entered(stoker, tmp_path_factory.mktemp("enter"))("default", None, "true")
    return f"a simulated node cannot be entered here: {done.stderr.strip()}" if done.returncode else None


@pytest.fixture
def entered(stoker, tmp_path, may_enter, record_property):
    if may_enter:
        pytest.skip(may_enter)
    made = Entered(stoker, tmp_path)
    yield made
    note(made, record_property)


@pytest.fixture(scope="session")
def web():
    """get() and wait_for() for pages."""
    return servers


@pytest.fixture(scope="session")
def secrets(tmp_path_factory, bcrypt):
    return servers.Secrets(tmp_path_factory.mktemp("secrets"), bcrypt)


@pytest.fixture(scope="session")
def promtool(fetched):
    """promtool(text, words...): the finished process."""
    program = fetched("prometheus") / "usr/bin/promtool"

    def run(text, *words):
        return subprocess.run([program, *words], input=text, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    return run


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """running(kind, words...): a server in a folder of its own, which ends with the module."""
    made = []

    def start(kind, *words):
        made.append(kind(*words[:1], tmp_path_factory.mktemp("server"), *words[1:]))
        return made[-1]

    yield start
    for server in reversed(made):
        server.end()


@pytest.fixture(scope="module")
def prometheus(fetched, running):
    """prometheus(job...): a Prometheus that scrapes these."""
    program = fetched("prometheus") / "usr/bin/prometheus"
    return lambda *jobs: running(servers.Prometheus, program, list(jobs))


@pytest.fixture(scope="module")
def node_exporter(fetched, running, secrets):
    """A node_exporter behind the web-config of `secrets`."""
    program = fetched("node-exporter") / "usr/bin/prometheus-node-exporter"
    return running(servers.NodeExporter, program, secrets.web_config)


@pytest.fixture(scope="module")
def agent(stoker, running):
    """agent(scenario, flags...): the agent on a simulated node."""
    return lambda scenario, *flags: running(servers.Agent, stoker, scenario, *flags)
