# SPDX-License-Identifier: Apache-2.0
"""A GPU that is held idle: its owner is told once, also when the agent is killed meanwhile, and it is taken back when the
GPU is used again."""
import json
import signal
import subprocess

import pytest
import yaml
from agent_rig import until

WORK = [{"name": "notebook", "kind": "idle-context", "gpus": "0", "process": "ipykernel", "user": "carol"},
        {"name": "cell", "kind": "train", "gpus": "0", "process": "python", "user": "carol", "start": "1000h"},
        {"name": "daemon", "kind": "idle-context", "gpus": "1", "process": "sleeper", "user": "bob"}]
SCENE = {"about": "who holds what", "gpus": {"board": "h100-sxm-80gb", "count": 2}, "work": WORK, "truth": []}
CONFIG = """\
idle:
  - {user: bob, after: never}
  - {after: 5s}
prices: {currency: EUR, list: [{id: h100, board: H100, on_demand: 3600}]}
alerts:
  receivers:
    file: {command: [sh, -c, 'echo "$STOKER_CHANGE $STOKER_CLASS $STOKER_USER $STOKER_KEY" >> "$0"', %s]}
"""


class Place:
    def __init__(self, tmp, make_node, make_agent):
        scene, self.config, self.file = tmp / "scene.yaml", tmp / "stoker.yaml", tmp / "heard"
        scene.write_text(yaml.safe_dump(SCENE))
        self.config.write_text(CONFIG % self.file)
        self.node, self.make_agent, self.journal, self.agent = make_node(scene), make_agent, tmp / "journal.db", None

    def start(self):
        self.agent = self.make_agent(self.node.env, options=["--journal", self.journal, "--config", self.config])
        return self.agent

    def told(self):
        """What was sent of GPUs that are held idle, in its order; the same key again is the same news. A busy machine may
        have other incidents, as of a late sampler."""
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [tuple(line.split()[:3]) for line in dict.fromkeys(lines) if line.split()[1:2] == ["gpu-held-idle"]]

    def incidents(self):
        got = json.loads(self.agent.verb("incidents", "--json").stdout)
        return [i for i in got["incidents"] if i["class"] == "gpu-held-idle"]


@pytest.fixture
def place(tmp_path, make_node, make_agent):
    return Place(tmp_path, make_node, make_agent)


def test_told_and_taken_back(place):
    agent = place.start()
    until(place.told, agent.log_text)
    assert place.told() == [("opened", "gpu-held-idle", "carol")]
    incident, = place.incidents()
    assert incident["severity"] == "info" and incident["route"] == "user" and incident["owners"][0]["user"] == "carol", incident
    text = incident["evidence"][0]["text"]
    assert "of carol has held it idle for" in text and "EUR so far" in text, text
    assert {"held_idle_gpu_hours", "cost"} <= {c["name"] for c in incident["counters"]}, incident
    place.node.inject("start", "work=cell")
    until(lambda: len(place.told()) > 1, lambda: (place.told(), agent.gpu(0), agent.log_text()))
    assert place.told() == [(change, "gpu-held-idle", "carol") for change in ("opened", "cleared")]


def test_told_once_over_a_kill(place):
    agent = place.start()
    until(place.told, agent.log_text)
    before, = place.incidents()
    agent.process.send_signal(signal.SIGKILL)
    agent.process.wait()
    agent = place.start()
    until(lambda: agent.gpu(0)["activity"]["word"] == "idle held", lambda: agent.gpu(0))
    until(lambda: len(place.incidents()) == 1 and
          place.incidents()[0]["counters"][0]["after"] > before["counters"][0]["after"], place.incidents)
    after, = place.incidents()
    assert after["id"] == before["id"] and place.told() == [("opened", "gpu-held-idle", "carol")]


def test_a_wrong_policy_is_named(stoker, tmp_path):
    config = tmp_path / "stoker.yaml"
    config.write_text("idle:\n  - {user: bob, after: never}\n  - {partition: debug, after: soon}\n")
    done = subprocess.run([stoker, "agent", "--config", config, "--check-config"], capture_output=True, text=True)
    assert done.returncode == 2 and f"{config}:3:31: 'after' must be" in done.stderr, done.stderr
