# SPDX-License-Identifier: Apache-2.0
"""Changes of MIG layouts as events: by whom, why and with which result; over a restart of the agent; by another tool."""
import contextlib
import getpass
import json
import re
import sqlite3
import subprocess

import pytest
from agent_rig import Agent, until

SMALL, LARGE = "3g.40gb+2g.20gb+2x1g.10gb", "4g.40gb+3g.40gb"


class Watched:
    """An agent with a journal on a MIG node, and `stoker mig` that reaches it."""

    def __init__(self, mig, folder):
        self.mig, self.folder, self.agent = mig, folder, None
        plain = mig.words
        mig.words = lambda verb, *words: [str(self.agent.control) if w.endswith("/no.sock") else w for w in plain(verb, *words)]
        self.start()

    def start(self):
        self.agent = Agent(self.mig.stoker, self.folder, self.mig.env, options=["--journal", self.folder / "journal.db"])
        self.knows()

    def stop(self):
        self.agent.stop()

    def knows(self):
        """Both GPUs' layouts are in the journal: a change is seen from now on."""
        def rows():
            with contextlib.closing(sqlite3.connect(f"file:{self.folder}/journal.db?mode=ro", uri=True)) as db:
                return db.execute("SELECT count(*) FROM gpu_seen WHERE mig_layout <> ''").fetchone()[0]
        until(lambda: rows() == 2, "the layouts are in the journal")

    def events(self, *words):
        out = self.agent.verb("events", "--kind", "mig-layout", "--json", *words, check=True).stdout
        return [json.loads(line) for line in out.splitlines()]

    def texts(self, count, *words):
        """The texts of the events, once there are so many; pids without their number."""
        until(lambda: len(self.events(*words)) >= count, lambda: f"{self.events(*words)} {self.agent.log_text()}")
        events = self.events(*words)
        assert len(events) == count, events
        return [re.sub(r"pid \d+", "pid N", e["text"]) for e in events]


A100 = "about: boards whose mode takes a reset\ngpus: {board: a100-sxm4-80gb, count: 2}\ntruth: []\n"


@pytest.fixture
def watched(make_mig, tmp_path, request):
    (tmp_path / "agent").mkdir()
    watched = Watched(make_mig(*request.param) if hasattr(request, "param") else make_mig(), tmp_path / "agent")
    yield watched
    watched.stop()


BY = f"by {getpass.getuser()} (stoker mig apply, pid N)"


def test_who_changed_what_and_why(watched, tmp_path):
    mig = watched.mig
    mig.ok("apply", "--reason", "more room\nfor chat", "gpu1=3g.40gb+4g.40gb")
    (tmp_path / "c.yaml").write_text("version: v1\nmig-configs:\n  large: [{devices: all, mig-enabled: true, mig-devices: {7g.80gb: 1}}]\n")
    mig.ok("apply", "-f", tmp_path / "c.yaml", "-c", "large")
    told = watched.texts(3)
    assert told[0] == f"{SMALL} -> {LARGE}, applied {BY}: more room for chat"
    assert sorted(told[1:]) == sorted(f"{old} -> 7g.80gb, applied {BY}: large of {tmp_path}/c.yaml" for old in (SMALL, LARGE))
    assert len(watched.texts(2, "--device", "1")) == 2
    first = watched.events()[0]
    assert (first["gpu"], first["origin"], first["incident"]) == (1, "agent", None) and first["pid"] > 0
    mig.ok("apply", "all=7g.80gb")  # it stands: nothing is changed
    gpu = until(lambda: next(g for g in watched.agent.gpus() if g["index"] == 1 and g["mig_layout"] == "7g.80gb"), "the page shows it")
    assert gpu["mig_change"].startswith(f"{LARGE} -> 7g.80gb, applied by ") and gpu["mig_changed"].endswith("Z")
    line = watched.agent.verb("events", "--kind", "mig-layout", check=True).stdout.splitlines()[0]
    assert re.search(r"Z  GPU 1 +mig-layout +3g.40gb\+2g", line)
    assert watched.agent.verb("events", "--kind", "mig").returncode == 2
    watched.stop()
    watched.start()  # the journal has them, and the change that was last
    assert len(watched.texts(3)) == 3
    gpu = until(lambda: next(g for g in watched.agent.gpus() if g["index"] == 1 and g.get("mig_change")), "it is remembered")
    assert gpu["mig_change"].startswith(f"{LARGE} -> 7g.80gb, applied by ")


def test_an_apply_that_is_left_half_done(watched):
    mig = watched.mig
    mig.node.inject("hang", "gpu=1", "function=nvmlDeviceCreateGpuInstanceWithPlacement", "after=1")
    process = mig.start("apply", "--timeout", "1s", "--reason", "a try", "gpu1=7x1g.10gb")
    until(lambda: mig.state.exists(), "it has begun")
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 8, said
    told = watched.texts(1)[0]
    assert told.startswith(f"{SMALL} -> 7x1g.10gb, failed and left half done {BY}: a try; GPU 1: ")
    mig.node.inject("hang", "gpu=1", "clear=on")
    assert mig.run("apply", f"gpu1={SMALL}").returncode == 0
    assert watched.texts(2)[1].endswith(f"-> {SMALL}, cut off earlier and now undone {BY}")


@pytest.mark.parametrize("watched", [[A100]], indirect=True)
def test_an_apply_that_is_put_back(watched, tmp_path):
    watched.mig.node.sim("clock", "step", "1m")  # what is set at the start of a scenario is so at once
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nexit 255\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    watched.mig.env["PATH"] = f"{tmp_path}:{watched.mig.env['PATH']}"
    assert watched.mig.run("apply", "gpu0=balanced").returncode == 7
    told = watched.texts(1)[0]
    assert told.startswith(f"off -> 3g.40gb+2g.20gb+2x1g.10gb, failed and put back {BY}: GPU 0: reset of ")


def test_another_tool_changes_a_layout(watched):
    mig = watched.mig
    subprocess.run(mig.words("apply", "--control", "/nowhere", "gpu0=7x1g.10gb"), env=mig.env, check=True, capture_output=True)
    assert watched.texts(1) == [f"{SMALL} -> 7x1g.10gb, not by stoker"]
    watched.stop()
    subprocess.run(mig.words("apply", "--control", "/nowhere", "gpu0=off"), env=mig.env, check=True, capture_output=True)
    watched.start()
    assert watched.texts(2)[1] == "7x1g.10gb -> off, while no agent ran"


def test_a_gpu_that_cannot_be_read_has_no_other_layout(watched):
    """It is lost; beside it a layout changes, whose event would come behind one of it."""
    mig = watched.mig
    mig.node.inject("xid", "79", "gpu=0")
    until(lambda: watched.agent.gpu(0)["state"] != "up", "it is lost")
    mig.ok("apply", "gpu1=none")
    mig.ok("apply", "gpu1=off")
    assert [t.split(", applied")[0] for t in watched.texts(2)] == [f"{SMALL} -> none", "none -> off"]
