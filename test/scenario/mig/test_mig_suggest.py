# SPDX-License-Identifier: Apache-2.0
"""`stoker mig suggest` from the ledger of an agent, with the agent and without it."""
import contextlib
import json
import pathlib
import sqlite3
import subprocess

import jsonschema
import pytest
import yaml
from agent_rig import Agent, Node, until

SCHEMA = json.loads((pathlib.Path(__file__).resolve().parents[3] / "docs" / "mig.schema.json").read_text())
SMALL = [{"name": "notebook", "kind": "idle-context", "gpus": "0", "process": "ipykernel", "user": "ann", "memory": "4GiB"},
         {"name": "search", "kind": "inference", "gpus": "1", "process": "tritonserver", "user": "bob", "load": 0.02, "memory": "6GiB"},
         {"name": "pretrain", "kind": "train", "gpus": "2", "process": "python", "user": "cid", "job": "4711.0"},
         {"name": "batch", "kind": "idle-context", "gpus": "3", "process": "python", "user": "dan", "job": "4712.0", "memory": "30GiB"}]
BOTH = [{"name": "both", "kind": "idle-context", "gpus": "0-1", "process": "python", "user": "eve", "job": "4713.0", "memory": "4GiB"}]


class Place:
    def __init__(self, stoker, folder, work, **gpus):
        folder.mkdir()
        self.stoker, self.journal, scene = stoker, folder / "journal.db", folder / "scene.yaml"
        scene.write_text(yaml.safe_dump({"about": "who uses little", "gpus": {"board": "h100-sxm-80gb", **gpus}, "work": work, "truth": []}))
        # at higher speeds most ticks have no SM activity: utilisation stands in, and its peaks are higher
        self.node = Node(stoker, folder, scene, speed=10)
        self.agent = Agent(stoker, folder, self.node.env, options=["--journal", self.journal, "--clock-speed", "10"])

    def wait(self, owners, minutes=1.5):
        """Until the ledger has so many minutes of each owner."""
        def seen():
            with contextlib.closing(sqlite3.connect(f"file:{self.journal}?mode=ro", uri=True, timeout=60)) as db:
                return {r[0].split("\t")[0] for r in db.execute("SELECT owner FROM ledger_rows WHERE kind NOT LIKE 'free%' GROUP BY owner, device"
                                                                " HAVING sum(until_ns - from_ns) > ?", [minutes * 60e9])} >= set(owners)
        until(seen, "rows of all owners")

    def run(self, *words, code=0, agent=True):
        control = ["--control", str(self.agent.control)] if agent else ["--control", str(self.journal) + ".none", "--journal", str(self.journal)]
        done = subprocess.run([self.stoker, "mig", "suggest", *control, *words], env=self.node.env, capture_output=True, text=True)
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def json(self, *words, **more):
        report = json.loads(self.run("--json", *words, **more))
        jsonschema.validate(report, SCHEMA)
        return report

    def stop(self):
        self.agent.stop()
        self.node.stop()


@pytest.fixture
def make_place(stoker, tmp_path):
    places = []

    def make(work, **gpus):
        places.append(Place(stoker, tmp_path / f"place{len(places)}", work, **gpus))
        return places[-1]

    yield make
    for place in places:
        place.stop()


def advices(report):
    return [g["advice"] for g in report["gpus"]]


def test_small_work_is_packed(make_place, stoker):
    place = make_place(SMALL, count=5)
    place.wait(["ann", "bob", "cid", "dan"])
    report = place.json()
    assert advices(report) == ["change", "free", "keep", "free", "unused"]
    assert (report["used_gpus"], report["freed_gpus"], report["at_once"], report["proven"]) == (4, 2, 4, True)
    assert report["gpus"][0]["suggested"] == "3g.40gb, 2 x 1g.10gb" and report["gpus"][0]["slices_used"] == 5
    assert "job 4711 of cid needs " in report["gpus"][2]["why"]
    work = {d["owner"]: d for d in report["demands"]}
    assert work["ann"]["memory_peak_bytes"] == 4 << 30 and work["ann"]["idle_share"] > 0.9 and work["ann"]["sm_peak"] == 0
    assert 0.01 < work["bob"]["sm_peak"] < 0.1 and work["bob"]["profile"] == "1g.10gb"
    assert work["job 4712 of dan"]["profile"] == "3g.40gb" and work["job 4711 of cid"]["profile"] is None
    assert report["command"] == "stoker mig plan gpu0=2x1g.10gb+3g.40gb"
    plan = subprocess.run([stoker, *report["command"].split()[1:], "--json"], env=place.node.env, capture_output=True, text=True)
    assert plan.returncode in (0, 6) and json.loads(plan.stdout)["possible"], plan.stderr

    text = place.run()
    assert text.startswith("The work of the last 24h fits on 2 of the 4 GPUs that it held: GPU 1, 3 would be free.\n")
    assert text.endswith("\n" + report["command"] + "\n") and "\nThe ledger knows" not in text.partition("Not known")[0]
    one = place.json("--gpu", "1")
    assert advices(one) == ["none", "change", "none", "none", "none"] and one["gpus"][1]["suggested"] == "1g.10gb"
    assert place.run("--gpu", one["gpus"][1]["uuid"]).startswith("The work of the last 24h needs 1 of the 7 compute slices that it held on GPU 1;")
    assert "there is no GPU '9'" in place.run("--gpu", "9", code=2)
    assert "Nobody held a GPU in the time since 2200-01-01T00:00:00Z" in place.run("--since", "2200-01-01T00:00:00Z")

    place.agent.stop()
    alone = place.json(agent=False)
    assert advices(alone) == advices(report) and "No agent runs" in " ".join(alone["notes"])
    table = place.json("--board", "h100-80gb", agent=False)
    assert (table["used_gpus"], table["freed_gpus"]) == (4, 2) and table["notes"][0].startswith("By the table of H100-80GB (measured)")
    assert table["command"].startswith("stoker mig plan --board H100-80GB gpu0=")
    assert "no table of a board 'K80'" in place.run("--board", "K80", code=2, agent=False)


def test_several_gpus_and_idle_instances(make_place):
    place = make_place(BOTH, count=2)
    mig = make_place([dict(BOTH[0], mig=0)], count=2, mig=["3g.40gb", "1g.10gb"])
    for one in (place, mig):
        one.wait(["eve"])
    report = place.json()
    assert advices(report) == ["keep", "keep"] and report["command"] is None
    assert report["gpus"][0]["why"] == "job 4713 of eve held several GPUs at once: it needs whole GPUs"
    assert place.run().startswith("Keep the layout: for the work of the last 24h no other one frees a GPU or a slice.\n")
    report = mig.json()  # instances have no NVLink: each may move
    assert report["freed_gpus"] == 1 and report["gpus"][0]["idle_instances"] == ["1g.10gb"], report


@pytest.mark.slow("a leak is told from other growth after ten minutes of the node's clock")
def test_a_shortage_of_memory(make_place):
    work = [{"name": "captions", "kind": "leak", "gpus": "0", "mig": 0, "process": "python", "user": "ann", "memory": "4GiB", "leak": "3MiB"},
            {"name": "other", "kind": "idle-context", "gpus": "0", "mig": 1, "process": "python", "user": "bob", "memory": "4GiB"}]
    place = make_place(work, count=1, mig=["1g.10gb", "1g.10gb"])
    report = until(lambda: (found := place.json())["command"] and found, lambda: place.run())
    assert [d["profile"] for d in report["demands"]] == ["1g.20gb", "1g.10gb"] and "shortage" in report["demands"][0]["risks"]
    assert report["gpus"][0]["suggested"] == "1g.20gb, 1g.10gb"
    assert place.run().startswith("Some work runs short of memory and needs larger instances, on GPU 0.\n")


@pytest.mark.parametrize("words, code, error", [
    (["--since", "soon"], 2, "'soon' is neither a duration"),
    (["all"], 2, "takes no argument"),
    (["--board", "H100-80GB", "--journal", "/nowhere/none.db"], 3, "there is no journal at '/nowhere/none.db'"),
])
def test_wrong_words(stoker, tmp_path, words, code, error):
    done = subprocess.run([stoker, "mig", "suggest", "--control", str(tmp_path / "none.sock"), *words], capture_output=True, text=True)
    assert done.returncode == code and error in done.stderr, done.stderr
