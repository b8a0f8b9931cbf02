# SPDX-License-Identifier: Apache-2.0
"""A terminal that closes ends all that was started in it: `stoker sim run`, its command, and what make run starts."""
import contextlib
import os
import pathlib
import pty
import select
import signal

import pytest
from agent_rig import until

REPO = pathlib.Path(__file__).resolve().parents[3]
NEVER = "trap '' HUP; echo ready; while :; do sleep 1; done"


def processes_of(mark):
    """Processes with `mark` in their environment."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            pass
    return found


@pytest.fixture
def terminal(tmp_path):
    """terminal(command, word): runs it in a terminal of its own until it has printed the word, then closes the terminal.
    It ignores the signals in `deaf`."""
    started = []

    def run(command, word, deaf=()):
        env = {**os.environ, "STOKER_SIM_RUNTIME": str(tmp_path / "nodes"), "TMPDIR": str(tmp_path / "tmp"), "TERM": "xterm",
               "STOKER_CONTROL": str(tmp_path / "c.sock"), "STOKER_JOURNAL": str(tmp_path / "j.db")}
        env.pop("STOKER_ROOT", None)
        (tmp_path / "tmp").mkdir()
        pid, ours = pty.fork()
        if pid == 0:
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):  # ignored where the tests run in the background
                signal.signal(number, signal.SIG_IGN if number in deaf else signal.SIG_DFL)
            os.execve(command[0], [str(word) for word in command], env)
        started.append(pid)
        seen = b""
        while word.encode() not in seen:
            assert select.select([ours], [], [], 300)[0], seen
            seen += os.read(ours, 65536)
        assert processes_of(str(tmp_path / "nodes"))
        os.close(ours)
        until(lambda: os.waitpid(pid, os.WNOHANG)[0], "the end of the command")
        started.remove(pid)

    yield run
    for pid in started + processes_of(str(tmp_path / "nodes")):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)


@pytest.mark.parametrize("command, word", [
    (["agent", "--listen", "127.0.0.1:0"], "http://"),
    (["/bin/sh", "-c", NEVER], "ready"),
    ([], "Ctrl-C"),
], ids=["agent", "deaf", "alone"])
def test_a_node_ends_with_its_terminal(stoker, terminal, tmp_path, command, word):
    if command and command[0] == "agent":
        command = [stoker, *command]
    terminal([stoker, "sim", "run", "default", *(["--", *command] if command else [])], word)
    until(lambda: not processes_of(str(tmp_path / "nodes")), "the end")
    until(lambda: list((tmp_path / "nodes").iterdir()) == [], "the folder is empty")


def test_make_run_ends_with_its_terminal(build, terminal, tmp_path):
    if os.path.exists("/proc/driver/nvidia/version"):
        pytest.skip("make run uses this machine's GPUs")
    terminal(["/bin/sh", REPO / "tools/run.sh", build, "--listen", "127.0.0.1:0"], "http://")
    until(lambda: not processes_of(str(tmp_path / "nodes")), "the end")
    until(lambda: list((tmp_path / "nodes").iterdir()) == [] and list((tmp_path / "tmp").iterdir()) == [], "the folders are empty")


@pytest.mark.parametrize("deaf", [(), (signal.SIGHUP,)], ids=["", "nohup"])
def test_a_watch_ends_with_its_terminal(stoker, terminal, make_node, tmp_path, deaf):
    node = make_node()
    terminal([stoker, "sim", "show", "--watch", "--image", node.env["STOKER_SIM"]], "driver", deaf)
    until(lambda: not processes_of(str(tmp_path / "nodes")), "the end")


def test_a_watched_status_ends_with_its_terminal(stoker, terminal, tmp_path):
    command = [stoker, "status", "--watch", "--interval", "200ms", "--driver-library", "/nonexistent"]
    terminal(command, "NVIDIA", (signal.SIGHUP,))
    until(lambda: not processes_of(str(tmp_path / "nodes")), "the end")
