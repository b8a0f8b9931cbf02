# SPDX-License-Identifier: Apache-2.0
"""An agent of the tests that says what it is told to: a thousand flaps, answers that are none, and silence."""
import contextlib
import socket
import threading

import pytest
from agent_rig import until


class SpokenAgent:
    """Answers `devices REVISION` as the agent does: at once where that is not the revision, else when there is another."""

    def __init__(self, path):
        self.changed = threading.Condition()
        self.revision, self.text, self.raw, self.asked = 0, b"", None, 0
        path.unlink(missing_ok=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self.answer, args=(client,), daemon=True).start()

    def answer(self, client):
        with client, contextlib.suppress(OSError):
            words = client.makefile().readline().split()
            assert words[0] == "devices"
            self.asked += 1
            with self.changed:
                self.changed.wait_for(lambda: self.raw is not None or str(self.revision) != words[1], 20)
                text = f"{self.revision}\n".encode() + self.text if str(self.revision) != words[1] else b""
                raw = self.raw
            if raw == b"hang":
                client.recv(1)
            client.sendall(f"0 {len(text)}\n".encode() + text if raw is None else raw)

    def say(self, text=None, raw=None):
        with self.changed:
            self.raw = raw
            if text is not None:
                self.revision += 1
                self.text = text
            self.changed.notify_all()

    def close(self):
        self.listener.close()


def ask(path):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(b"devices\n")
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    return answer.partition(b"\n")[2].partition(b"\n")[2]


@pytest.fixture
def spoken(make_side, tmp_path):
    """`stoker kubelet` on an agent of the tests, and two answers: all are healthy, GPU 3 is lost."""
    side = make_side(options=["--healthy-after", "0s"])
    side.plugin()
    fine = ask(side.agent.control)
    side.node.inject("xid", "79", "gpu=3")
    until(lambda: side.unhealthy() == [side.uuid(3)], side.log_text)
    lost, uuid = ask(side.agent.control), side.uuid(3)
    side.agent.process.kill()
    side.agent.process.wait()
    agent = SpokenAgent(side.agent.control)
    agent.say(fine)
    until(lambda: side.unhealthy() == [], side.log_text)
    yield side, agent, fine, lost, uuid
    agent.close()


def test_a_thousand_flaps(spoken):
    side, agent, fine, lost, uuid = spoken
    plugin = side.plugin()
    known = len(plugin.lists)
    for n in range(1000):
        agent.say(lost if n % 2 == 0 else fine)
        until(lambda: len(plugin.lists) == known + n + 1, side.log_text)
    states = [[d.id for d in l if d.health != "Healthy"] for l in plugin.lists[known:]]
    assert states == 500 * [[uuid], []]  # each state once, and no other device in any
    assert not plugin.ended.is_set()
    agent.say(fine)  # another revision of the same changes nothing
    assert plugin.allocate(plugin.devices[0].id).envs and len(plugin.lists) == known + 1000


NO_ANSWERS = [b"0 5\n1\n{}}", b"0 9\n12", b"no head", b"0 2\n{}", b"0 6\n7\nnull", b"",
              b'0 52\n9\n{"incidents":[],"node":{"gpus":[{"index":"three"}]}}']


def test_an_answer_that_is_none_changes_nothing(spoken):
    side, agent, fine, lost, uuid = spoken
    plugin = side.plugin()
    known = len(plugin.lists)
    for raw in NO_ANSWERS:
        agent.say(raw=raw)
        asked = agent.asked
        until(lambda: agent.asked > asked + 2, side.log_text)
        assert len(plugin.healthy) == 8 and len(plugin.lists) == known and plugin.allocate(uuid).envs
    until(lambda: "stays in force" in side.log_text(), side.log_text)
    agent.say(lost)
    until(lambda: side.unhealthy() == [uuid], side.log_text)
    until(lambda: "the agent answers again" in side.log_text(), side.log_text)
    agent.say(raw=b"hang")
    assert plugin.allocate(side.kubelet.plugins["nvidia.com/gpu"].healthy[0]).envs
