# SPDX-License-Identifier: Apache-2.0
"""`GET /api/v1/self`: a program asks over the unix socket about the GPUs that it, its ancestors and its descendants work on."""
import contextlib
import http.client
import json
import os
import shutil
import socket
import stat
import subprocess
import tempfile

import pytest
from agent_rig import until

IDLE = "about: nothing runs\nnode: {hostname: runs}\ngpus: {board: h100-sxm-80gb, count: 3}\ntruth: []\n"
ASK = """
import http.client, socket, sys
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(sys.argv[1])
connection = Unix("localhost")
connection.request("GET", "/api/v1/self")
answer = connection.getresponse()
print(answer.status, answer.read().decode())
"""
# asks once per line that comes; a child of it asks for "child"
PROGRAM = """import subprocess, sys
for line in sys.stdin:
    subprocess.run([sys.executable, "-c", sys.argv[2], sys.argv[1]]) if line == "child\\n" else exec(sys.argv[2], {})
    sys.stdout.flush()
"""


class Program:
    def __init__(self, path, user=None):
        self.process = subprocess.Popen(["/usr/bin/python3", "-c", PROGRAM, path, ASK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, user=user)
        self.pid = self.process.pid

    def ask(self, who="itself"):
        self.process.stdin.write(who + "\n")
        self.process.stdin.flush()
        status, text = self.process.stdout.readline().split(" ", 1)
        assert status == "200", text
        assert self.process.stdout.readline() == "\n"
        return json.loads(text)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def ask(agent):
    """As this process."""
    connection = UnixConnection(agent.socket)
    with contextlib.closing(connection):
        connection.request("GET", "/api/v1/self")
        answer = connection.getresponse()
        assert answer.status == 200
        return json.loads(answer.read())


@pytest.fixture
def place(make_node, make_agent, tmp_path):
    (tmp_path / "idle.yaml").write_text(IDLE)
    node = make_node(str(tmp_path / "idle.yaml"), options=("--processes",))
    folder = tempfile.mkdtemp()  # that every user may enter; a socket's path is short
    os.chmod(folder, 0o755)
    path = f"{folder}/http.sock"
    programs = [Program(path), Program(path)]
    agent = make_agent({**node.env, "STOKER_SAMPLE_SLOW": "1s"}, listen=f"127.0.0.1:0,unix:{path}?mode=0666")
    agent.socket = path
    yield node, agent, programs
    for program in programs:
        program.process.kill()
        program.process.wait()
    agent.stop()
    shutil.rmtree(folder)


def test_a_program_is_told_of_its_own_gpus(place):
    node, _, (one, two) = place
    assert one.ask()["gpus"] == []
    node.inject("work", "train", "gpus=0", "memory=20GiB", "name=one", f"pid={one.pid}")
    node.inject("work", "tiny-kernels", "gpus=2", "memory=5GiB", "name=two", f"pid={two.pid}")
    working = until(lambda: (a := one.ask()) and [g for g in a["gpus"] if g["activity"] == "working" and g["sm_active"] and g["cause"]] and a, one.ask)
    assert (working["pid"], working["name"]) == (one.pid, "python3")
    gpu, = working["gpus"]
    assert (gpu["gpu"], gpu["instance"], gpu["activity"], gpu["attribution"], gpu["share"]) == (0, None, "working", "exclusive", 1)
    assert gpu["uuid"].startswith("GPU-") and gpu["memory_bytes"] == 20 << 30 and gpu["sm_active"] > 0 and gpu["cause"]
    assert [g["gpu"] for g in until(lambda: two.ask()["gpus"], "the other program's GPU is not known")] == [2]
    child = until(lambda: (a := one.ask("child"))["gpus"] and a, "a child of the program is not told of it")
    assert child["pid"] != one.pid and [g["gpu"] for g in child["gpus"]] == [0]


def test_a_parent_is_told_of_its_children_and_of_nobody_else(place):
    """This process is the parent of both programs and of a stranger; each of them has a GPU, and the programs no other's."""
    node, agent, (one, two) = place
    with subprocess.Popen(["sleep", "1000"]) as stranger:
        try:
            for i, pid in enumerate((one.pid, two.pid, stranger.pid)):
                node.inject("work", "train", f"gpus={i}", "memory=20GiB", f"name=w{i}", f"pid={pid}")
            until(lambda: {g["gpu"] for g in ask(agent)["gpus"]} == {0, 1, 2}, lambda: ask(agent))
            theirs = lambda: [[g["gpu"] for g in program.ask()["gpus"]] for program in (one, two)]
            until(lambda: theirs() == [[0], [1]], lambda: str(theirs()))
        finally:
            stranger.kill()


def put_cgroup(node, pid, path):
    """Of a process that the simulated node does not know."""
    folder = node.tree / "proc" / str(pid)
    folder.mkdir(exist_ok=True)
    (folder / "cgroup").write_text(f"0::{path}\n")


def container_scope(digit):
    return f"/system.slice/docker-{digit * 64}.scope"


def test_a_shell_in_a_container_is_told_of_the_containers_gpus(place):
    """As `docker exec` starts it: no relative of the container's processes, but in their cgroup. And of no other container's."""
    node, agent, (one, two) = place
    node.inject("work", "train", "gpus=0", "memory=20GiB", "name=one", f"pid={one.pid}")
    node.inject("work", "train", "gpus=2", "memory=5GiB", "name=two", f"pid={two.pid}")
    until(lambda: one.ask()["gpus"] and two.ask()["gpus"], "the programs' GPUs are not known")
    put_cgroup(node, one.pid, container_scope("a"))
    put_cgroup(node, two.pid, container_scope("b"))
    shell = Program(agent.socket)
    try:
        gpus = lambda: [gpu["gpu"] for gpu in shell.ask()["gpus"]]
        assert gpus() == []
        for path, told in ((container_scope("a"), [0]), (container_scope("b") + "/exec", [2]), (container_scope("c"), []),
                           ("/user.slice/user-0.slice/user@0.service" + container_scope("a"), [])):
            put_cgroup(node, shell.pid, path)
            until(lambda told=told: gpus() == told, lambda path=path: f"{path} {gpus()}")
        put_cgroup(node, shell.pid, container_scope("b"))
        until(lambda: [g["gpu"] for g in one.ask()["gpus"]] == [0], "who works on one is told of that")
    finally:
        shell.process.kill()
        shell.process.wait()


@pytest.mark.skipif(os.getuid() != 0, reason="starts a program of another user")
def test_another_user_in_the_container_is_told_of_nothing(place):
    node, agent, (one, _) = place
    node.inject("work", "train", "gpus=0", "memory=20GiB", "name=one", f"pid={one.pid}")
    until(lambda: one.ask()["gpus"], "the program's GPU is not known")
    put_cgroup(node, one.pid, container_scope("a"))
    for user, told in ((None, [0]), (65534, [])):
        shell = Program(agent.socket, user=user)
        try:
            put_cgroup(node, shell.pid, container_scope("a"))
            assert [gpu["gpu"] for gpu in shell.ask()["gpus"]] == told, user
        finally:
            shell.process.kill()
            shell.process.wait()


def test_programs_of_every_user_may_ask_where_it_is_said(place):
    _, agent, _ = place
    assert stat.S_IMODE(os.stat(agent.socket).st_mode) == 0o666


def test_over_tcp_nobody_is_told_of_itself(place):
    _, agent, _ = place
    status, text = agent.get("/api/v1/self")
    assert status == 403 and "over the unix socket" in json.loads(text)["error"]
