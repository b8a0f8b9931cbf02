# SPDX-License-Identifier: Apache-2.0
"""The verbs around incidents without an agent, with one that hangs, one that talks nonsense, and wrong words."""
import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time

import pytest

ASK = [["incidents"], ["incidents", "--all", "--json"], ["incidents", "show", "abc"], ["incidents", "clear", "abc"], ["events"],
       ["maintenance", "list"], ["maintenance", "stop", "all"], ["maintenance", "start", "--reason", "x"]]


@pytest.fixture
def run(stoker, tmp_path):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("STOKER_", "SLURM_", "CUDA_", "NVIDIA_"))}
    env.update(STOKER_CONTROL=str(tmp_path / "no-agent.sock"), HOME=str(tmp_path), XDG_STATE_HOME=str(tmp_path / "state"),
               STOKER_ROOT=str(tmp_path / "root"), STOKER_DRIVER_LIBRARY=str(tmp_path / "no-library.so"))

    def call(*words, **more):
        return subprocess.run([stoker, *map(str, words)], env={**env, **more.pop("env", {})}, capture_output=True, text=True,
                              timeout=300, check=False, **more)

    call.env = env
    return call


@pytest.fixture
def pretend(tmp_path):
    """pretend(answer): the socket of an agent that answers this to everything; None: never; a list: in turn, the last again."""
    ends = contextlib.ExitStack()

    def make(answer):
        path = tmp_path / "pretended.sock"
        server = ends.enter_context(socket.socket(socket.AF_UNIX))
        server.bind(str(path))
        server.listen(8)
        kept = []

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = server.accept()
                    kept.append(peer)
                    if answer is None:
                        continue
                    peer.recv(4096)
                    make.asked.set()
                    this = answer if not isinstance(answer, list) else answer.pop(0) if len(answer) > 1 else answer[0]
                    body = this if isinstance(this, bytes) else this.encode()
                    peer.sendall(body)
                    peer.close()

        threading.Thread(target=serve, daemon=True).start()
        ends.callback(lambda: [p.close() for p in kept])
        ends.callback(lambda: server.shutdown(socket.SHUT_RDWR))
        return path

    make.asked = threading.Event()
    yield make
    ends.close()


@pytest.mark.parametrize("words", ASK, ids=" ".join)
def test_no_agent_is_said(run, words):
    done = run(*words)
    assert done.returncode == 3 and done.stdout == ""
    assert "agent" in done.stderr and "no-agent.sock" in done.stderr


@pytest.mark.parametrize("words, said", [
    (["incidents", "list"], "takes no argument, got 'list'"),
    (["incidents", "show"], "the id of one incident"),
    (["incidents", "show", "a", "b"], "the id of one incident"),
    (["incidents", "show", "../../etc/passwd"], "no id of an incident"),
    (["incidents", "clear", "a b"], "no id of an incident"),
    (["incidents", "clear", "x" * 40], "no id of an incident"),
    (["incidents", "--since", "yesterday"], "--since: 'yesterday'"),
    (["events", "--since", "-1"], "--since: '-1'"),
    (["events", "3"], "takes no argument"),
    (["maintenance", "start"], "--reason is needed"),
    (["maintenance", "start", "--reason", " \n "], "--reason is needed"),
    (["maintenance", "start", "--reason", "a " * 200], "--reason is too long"),
    (["maintenance", "start", "--reason", "x" * 160], "--reason is too long"),
    (["maintenance", "start", "--for", "0s", "--reason", "x"], "--for"),
    (["maintenance", "start", "--for", "soon", "--reason", "x"], "--for"),
    (["maintenance", "start", "--reason", "x", "--gpu", "0 all root"], "no GPU"),
    (["maintenance", "start", "new", "fans"], "goes in quotes"),
    (["maintenance", "stop"], "the id of a window"),
    (["maintenance", "stop", "a b"], "no id of a window"),
    (["maintenance", "begin"], "no verb 'begin'"),
    (["check", "3"], "takes no argument"),
    (["check", "--profile", "sturm"], "--profile"),
    (["check", "--timeout", "0s"], "--timeout"),
    (["check", "--json", "--slurm"], "do not go together"),
    (["check", "--gpu", "0, 1"], "no list of GPUs"),
    (["check", "--profile", "epilog", "--since", "soon"], "--since: 'soon'"),
])
def test_wrong_words(run, words, said):
    done = run(*words)
    assert done.returncode == 2 and said in done.stderr and done.stdout == ""


@pytest.mark.parametrize("profile, code", [("slurm", 3), ("prolog", 3), ("epilog", 3), ("liveness", 1), ("readiness", 1)])
@pytest.mark.parametrize("form", ["--json", "--slurm", None])
def test_check_of_an_agent_that_hangs(run, pretend, profile, code, form):
    done = run("check", "--profile", profile, "--timeout", "300ms", "--control", pretend(None), *([form] if form else []))
    assert done.returncode == code
    assert done.stdout.count("\n") == 1
    if form == "--json":
        said = json.loads(done.stdout)
        assert said["code"] == code and said["profile"] == profile and said["findings"] == []
    elif form == "--slurm":
        assert done.stdout == "\n"
    else:
        assert done.stdout.startswith("unknown: " if code == 3 else "not ready: ")


def test_check_waits_for_the_first_sample(run, pretend):
    path = pretend(["3 8\nunknown\n", "3 8\nunknown\n", "0 3\nok\n"])
    done = run("check", "--timeout", "60s", "--control", path)
    assert (done.returncode, done.stdout) == (0, "ok\n")


def test_check_waits_no_longer_than_it_may(run, pretend):
    done = run("check", "--timeout", "500ms", "--control", pretend("3 8\nunknown\n"))
    assert done.returncode == 3 and done.stdout.startswith("unknown")


@pytest.mark.parametrize("answer", ["", "0 5\nab", "x y\n", b"\xff" * 300, "0 99999999999\n"])
def test_an_agent_that_talks_nonsense(run, pretend, answer):
    path = pretend(answer)
    for words in (["incidents"], ["incidents", "show", "a"], ["events"], ["maintenance", "list"], ["check"]):
        done = run(*words, "--control", path)
        assert done.returncode == 3, words
        assert done.stderr.startswith(f"stoker {words[0]}") or words == ["check"]


@pytest.mark.parametrize("body", ["", "{}", "[]", "{\"incidents\":[{}]}", "nonsense\n"])
def test_an_answer_that_is_no_answer(run, pretend, body):
    path = pretend(f"0 {len(body)}\n{body}")
    for words in (["incidents"], ["incidents", "show", "a"], ["events"]):
        done = run(*words, "--control", path)
        assert done.returncode == 3, (words, done.stdout)


def test_an_agent_of_another_version(run, pretend):
    text = "this agent does not know that word\n"
    path = pretend(f"2 {len(text)}\n{text}")
    assert run("check", "--control", path).stdout.startswith("unknown: the agent does not understand")
    assert run("check", "--control", path).returncode == 3
    assert run("incidents", "--control", path).returncode == 3
    assert run("maintenance", "list", "--control", path).returncode == 2


@pytest.mark.parametrize("variable", ["SLURM_JOB_GPUS", "NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"])
@pytest.mark.parametrize("value", ["", "none", "void", "NoDevFiles", "-1"])
def test_a_job_without_gpus(run, variable, value):
    done = run("check", "--profile", "prolog", env={variable: value})
    assert done.returncode == 0 and done.stdout == "ok: the job has no GPU\n"
    assert json.loads(run("check", "-p", "epilog", "--json", env={variable: value}).stdout)["status"] == "fine"


def test_what_a_job_asks(run, pretend, tmp_path):
    """The words that go to the agent: GPUs from the scheduler before those of the container, times as milliseconds."""
    asked = []
    path = tmp_path / "listening.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(8)

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = server.accept()
                    asked.append(peer.recv(4096).decode().strip())
                    peer.sendall(b"0 3\nok\n")
                    peer.close()

        threading.Thread(target=serve, daemon=True).start()
        both = {"SLURM_JOB_GPUS": "2,3", "CUDA_VISIBLE_DEVICES": "0,1", "SLURM_JOB_START_TIME": "1767600000"}
        for words, env in ((["-p", "prolog"], both), (["-p", "epilog"], both), (["-p", "prolog", "--gpu", "GPU-7"], both),
                           (["-p", "slurm"], both), (["-p", "prolog", "--shared"], {"CUDA_VISIBLE_DEVICES": "all"}),
                           (["-p", "epilog", "--since", "2026-01-05T08:00:00Z", "--json"], {})):
            assert run("check", *words, "--control", path, env=env).stdout == "ok\n"
        server.shutdown(socket.SHUT_RDWR)
    assert asked == ["check prolog line 0 0 2 3", "check epilog line 1767600000000 0 2 3", "check prolog line 0 0 GPU-7",
                     "check slurm line 0 0", "check prolog line 0 1", "check epilog json 1767600000000 0"]


def test_check_without_agent_and_driver(run):
    done = run("check")
    assert done.returncode == 1 and "no-library.so" in done.stdout and done.stdout.count("\n") == 1
    assert run("check", "--slurm").stdout.startswith("stoker: no_driver")
    assert run("check", "--profile", "liveness").returncode == 1


def test_check_ends_in_time_whatever_ends_slowly(stoker, run, pretend):
    """The deadline is the verb's own: an agent that never answers does not make it longer."""
    path = pretend(None)
    begin = time.monotonic()
    with subprocess.Popen([stoker, "check", "--timeout", "1s", "--control", path], env=run.env, stdout=subprocess.PIPE) as verb:
        assert verb.wait(timeout=120) == 3
        assert time.monotonic() - begin >= 0.5


@pytest.mark.parametrize("words", [["incidents", "show", "abc", "--journal"], ["incidents", "--journal"], ["events", "--journal"]])
def test_a_journal_that_is_none(run, tmp_path, words):
    (tmp_path / "journal.db").write_text("this is no database" * 100)
    done = run(*words, tmp_path / "journal.db")
    assert done.returncode == 3 and "journal.db" in done.stderr
    done = run(*words, tmp_path / "not-there.db")
    assert done.returncode == 3 and "not-there.db" in done.stderr


def test_follow_waits_for_an_agent_and_ends_when_told(stoker, run, tmp_path):
    """An agent that does not run yet is no error for who waits; Ctrl-C is no error either."""
    journal = tmp_path / "journal.db"
    with subprocess.Popen([stoker, "events", "--follow", "--journal", journal], env=run.env, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as verb:
        assert verb.wait(timeout=120) == 3  # neither agent nor journal: there is nothing to wait for
        assert "no journal" in verb.stderr.read()


def test_follow_ends_on_an_interrupt(stoker, run, pretend):
    text = '{"events":[],"next":0,"started":"2026-01-05T08:00:00.000Z"}'
    path = pretend(f"0 {len(text)}\n{text}")
    with subprocess.Popen([stoker, "events", "--follow", "--control", path, "--journal", "none"], env=run.env,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as verb:
        pretend.asked.wait()
        assert verb.poll() is None
        verb.send_signal(signal.SIGINT)
        assert verb.wait(timeout=120) == 0
        assert verb.stderr.read() == ""
