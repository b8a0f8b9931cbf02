# SPDX-License-Identifier: Apache-2.0
"""`stoker bench` beside an agent: it keeps the result, over a restart too; metrics and HTTP have it. What the load of a test causes is no
incident, an XID that comes with it is one and says so."""
import datetime
import json
import os
import pathlib
import pwd
import subprocess
import sys

import jsonschema
import pytest
import yaml
from agent_rig import until

SCHEMA = json.loads((pathlib.Path(__file__).resolve().parents[3] / "docs" / "bench.schema.json").read_text())
REST = {"about": "GPUs without work", "gpus": {"board": "h100-sxm-80gb"}, "work": [], "truth": []}
ASK = """import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(" ".join(sys.argv[2:]).encode() + b"\\n")
print(b"".join(iter(lambda: s.recv(65536), b"")).decode(), end="")
"""


def ask(agent, *words, **how):
    """What the agent answers on its control socket: code and text."""
    head, _, text = subprocess.run([sys.executable, "-c", ASK, agent.control, *map(str, words)], check=True, capture_output=True, text=True, **how).stdout.partition("\n")
    return int(head.split()[0]), text


class Place:
    def __init__(self, stoker, tmp, make_node, make_agent, count=2, speed=1):
        scene = tmp / "rest.yaml"
        scene.write_text(yaml.safe_dump({**REST, "gpus": {**REST["gpus"], "count": count}}))
        self.stoker, self.make_agent, self.journal = stoker, make_agent, tmp / "journal.db"
        self.node, self.count, self.speed = make_node(scene, speed=speed), count, speed
        self.env = dict(self.node.env, XDG_RUNTIME_DIR=str(tmp))
        self.start()

    def start(self, ready=True):
        self.agent = self.make_agent(self.node.env, options=["--journal", self.journal, *(["--clock-speed", self.speed] if self.speed != 1 else [])], ready=ready)
        until(lambda: len(self.agent.gpus()) == self.count and all(gpu["uuid"] for gpu in self.agent.gpus()), self.agent.log_text)
        return self.agent

    def bench(self, *words, codes=(0, 3)):
        done = subprocess.run([self.stoker, "bench", *words, "--json", "--control", str(self.agent.control)], env=self.env, capture_output=True, text=True)
        assert done.returncode in codes and done.stderr == "", (done.returncode, done.stderr)
        return json.loads(done.stdout)


@pytest.fixture
def place(stoker, tmp_path, make_node, make_agent):
    return Place(stoker, tmp_path, make_node, make_agent)


def run_of(place, real="2026-11-30T08:00:00Z", gpus=None):
    """A result as the verb writes it."""
    one = {"version": 1, "rung": "memory", "node": "n", "time": real, "verdict": "fit", "stages": ["memory"], "gpus": [], "measures": [], "errors": [], "findings": []}
    for gpu in place.agent.gpus():
        if gpus is None or gpu["index"] in gpus:
            one["gpus"].append({"index": gpu["index"], "uuid": gpu["uuid"], "name": gpu["name"], "verdict": "fit"})
    return one


def verdicts(page):
    return {labels["gpu"]: labels["verdict"] for labels, value in page.all("stoker_bench_verdict") if value}


def test_a_test_is_kept(place):
    assert place.agent.json("/api/v1/bench") == (200, None)
    assert not place.agent.page().all("stoker_bench_age_seconds")
    told = place.bench("memory")
    assert [gpu["index"] for gpu in told["gpus"]] == [0, 1]
    until(lambda: place.agent.page().all("stoker_bench_age_seconds"), place.agent.log_text)
    page, (_, kept) = place.agent.page(), place.agent.json("/api/v1/bench")
    jsonschema.validate(kept, SCHEMA)
    assert kept == told
    assert verdicts(page) == {str(gpu["index"]): gpu["verdict"] for gpu in told["gpus"]}
    assert page.one("stoker_bench_value", gpu="1", measure="memory.read") > 1000
    assert "# EOF" not in page.text
    assert place.agent.get("/metrics", {"Accept": "application/openmetrics-text"})[1].endswith("# EOF\n")
    assert [path.name for path in place.agent.control.parent.glob("bench-*")] == []
    assert place.agent.json("/api/v1/incidents?state=open")[1]["incidents"] == []

    place.agent.stop()
    place.start()
    assert verdicts(place.agent.page()) == verdicts(page) and place.agent.json("/api/v1/bench")[1] == told
    assert json.loads(ask(place.agent, "bench", "history")[1]) == told


def test_each_gpu_has_its_last_test(place, tmp_path):
    """The last ten are kept, and found by their GPUs, also after a restart."""
    file = tmp_path / "run.json"
    for minute in range(12):
        file.write_text(json.dumps(run_of(place, f"2026-11-30T08:{minute:02}:00Z", gpus=[0] if minute else [0, 1]), indent=2))
        assert ask(place.agent, "bench", "end", file) == (0, "")
        if minute == 5:
            assert place.agent.json("/api/v1/bench?gpu=1")[1]["time"].startswith("2026-11-30T08:00:00")

    def told():
        return [json.loads(line)["time"][14:16] for line in ask(place.agent, "bench", "history")[1].splitlines()]

    assert told() == [f"{minute:02}" for minute in range(11, 1, -1)]
    assert place.agent.json("/api/v1/bench?gpu=1") == (200, None)  # ten of the other one came since
    assert place.agent.json(f"/api/v1/bench?gpu={place.agent.gpus()[0]['uuid']}")[1]["time"].startswith("2026-11-30T08:11:00")
    place.agent.stop()
    place.start()
    assert told() == [f"{minute:02}" for minute in range(11, 1, -1)]


def test_what_is_refused(place, tmp_path):
    uuid, good = place.agent.gpus()[0]["uuid"], tmp_path / "good.json"
    good.write_text(json.dumps(run_of(place)))
    wrong = {"text.json": "no JSON\n", "other.json": json.dumps({"version": 1}), "bare.json": json.dumps({**run_of(place), "gpus": []}),
             "timeless.json": json.dumps({**run_of(place), "time": None}), "large.json": " " * (8 * 1024 * 1024 + 1)}
    for name, text in wrong.items():
        (tmp_path / name).write_text(text)
        code, said = ask(place.agent, "bench", "end", tmp_path / name)
        assert code == 3 and name in said, said
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(good)
    for path, why in ((tmp_path / "pipe", "no regular file"), (tmp_path / "link", "open"), (tmp_path / "none", "open"), ("good.json", "no absolute path")):
        code, said = ask(place.agent, "bench", "end", path)
        assert code == 3 and why in said, said
    for words in (("begin",), ("begin", "10"), ("begin", "x", uuid), ("begin", "1000000", uuid), ("end",), ("end", good, good), ("what",)):
        assert ask(place.agent, "bench", *words)[0] == 2, words
    assert ask(place.agent, "bench", "begin", 10, uuid) == (0, "")
    code, said = ask(place.agent, "bench", "begin", 10, "GPU-none")
    assert code == 3 and "GPU-none" in said
    assert place.agent.json("/api/v1/bench") == (200, None)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_only_its_owner_may(place, tmp_path):
    uuid, nobody = place.agent.gpus()[0]["uuid"], pwd.getpwnam("nobody").pw_uid
    for folder in (place.agent.control.parent, *place.agent.control.parent.parents):
        if folder.stat().st_mode & 1 == 0 and folder != folder.parent:
            folder.chmod(folder.stat().st_mode | 0o11)
    for words in (("begin", 10, uuid), ("end", tmp_path / "rest.yaml")):
        code, said = ask(place.agent, "bench", *words, user=nobody)
        assert code == 3 and "only root" in said, said
    assert ask(place.agent, "bench", "history", user=nobody) == (0, "")


def test_load_is_no_incident_and_an_xid_is_one(stoker, tmp_path, make_node, make_agent):
    """Heat of a GPU under test opens nothing while it is, and that of another one does; an XID opens, and its evidence tells of the test."""
    place = Place(stoker, tmp_path, make_node, make_agent, count=5, speed=20)
    uuid = place.agent.gpus()[0]["uuid"]

    def opened(name):
        return {one["device"]["index"]: one for one in place.agent.json("/api/v1/incidents?state=open")[1]["incidents"] if one["class"] == name}

    assert ask(place.agent, "bench", "begin", 86400, uuid) == (0, "")
    place.node.inject("throttle", "hw-thermal", "gpu=0-1")
    until(lambda: opened("thermal"), place.agent.log_text)
    place.node.inject("xid", "94", "gpu=0")
    one = until(lambda: opened("ecc-contained"), lambda: place.agent.json("/api/v1/incidents")[1])[0]
    assert any(line["text"].endswith("(during 'stoker bench')") for line in one["evidence"]), one
    assert set(opened("thermal")) == {1}
    assert ask(place.agent, "bench", "begin", 0, uuid) == (0, "")
    until(lambda: set(opened("thermal")) == {0, 1}, place.agent.log_text)


def finding(gpu, severity, symptom, text):
    return {"severity": severity, "symptom": symptom, "part": "memory", "gpus": [gpu], "gpu": gpu, "text": f"GPU {gpu}: {text}"}


def open_incidents(agent):
    return {(one["class"], one["device"]["index"]): one for one in agent.json("/api/v1/incidents?state=open")[1]["incidents"]}


def wait_ticks(agent, count=3):
    before = agent.page().one("stoker_ticks_total")
    until(lambda: agent.page().one("stoker_ticks_total") >= before + count, agent.log_text)


def end(place, tmp_path, minute, rung, verdict, *findings, gpus=(0, 1)):
    """Gives the agent a result in which the GPUs of findings, else all, have this verdict."""
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=minute)
    run = {**run_of(place, at.strftime("%Y-%m-%dT%H:%M:%SZ"), gpus=gpus), "rung": rung, "findings": list(findings)}
    bad = {one["gpu"] for one in findings}
    for gpu in run["gpus"]:
        gpu["verdict"] = verdict if not findings or gpu["index"] in bad else "fit"
    (tmp_path / "run.json").write_text(json.dumps(run))
    assert ask(place.agent, "bench", "end", tmp_path / "run.json") == (0, "")


def test_a_gpu_that_is_not_fit_has_an_incident_until_the_same_test_passes(place, tmp_path):
    slow, wrong = finding(0, "degraded", "slow", "memory is slow"), finding(1, "fault", "wrong-values", "SM 97 computes wrong")
    end(place, tmp_path, 0, "ready", "not-fit", slow, wrong)
    found = until(lambda: len(open_incidents(place.agent)) == 2 and open_incidents(place.agent), place.agent.log_text)
    assert set(found) == {("test-slow", 0), ("test-failed", 1)}
    one, other = found["test-failed", 1], found["test-slow", 0]
    assert (one["severity"], one["action"], one["route"]) == ("error", "drain-and-reset", "ticket")
    assert (other["severity"], other["action"]) == ("warning", "watch")
    assert one["evidence"][0]["text"] == "'stoker bench ready': SM 97 computes wrong"

    end(place, tmp_path, 1, "memory", "fit")  # another test
    end(place, tmp_path, 2, "ready", "unknown")  # one that could not tell
    wait_ticks(place.agent)
    assert set(open_incidents(place.agent)) == set(found)

    end(place, tmp_path, 3, "ready", "fit", gpus=[1])
    until(lambda: set(open_incidents(place.agent)) == {("test-slow", 0)}, lambda: place.agent.json("/api/v1/incidents")[1])
    assert place.agent.verb("incidents", "clear", other["id"]).returncode == 0  # somebody knows better
    until(lambda: not open_incidents(place.agent), place.agent.log_text)
    wait_ticks(place.agent)
    assert not open_incidents(place.agent)
    end(place, tmp_path, 4, "ready", "not-fit", slow)
    until(lambda: set(open_incidents(place.agent)) == {("test-slow", 0)}, lambda: place.agent.json("/api/v1/incidents")[1])

    place.agent.stop()
    place.start()
    again = until(lambda: open_incidents(place.agent), place.agent.log_text)
    wait_ticks(place.agent)
    assert open_incidents(place.agent).keys() == again.keys() == {("test-slow", 0)}
    assert again["test-slow", 0]["id"] == other["id"] and again["test-slow", 0]["reopened"] == 1


def test_what_opens_no_incident(place, tmp_path):
    """A notice, what could not be told, and what the driver reports itself."""
    end(place, tmp_path, 0, "ready", "fit", finding(0, "notice", "slow", "memory is a little slow"), finding(1, "notice", "corrected-ecc", "corrected"))
    end(place, tmp_path, 1, "memory", "unknown", finding(0, "untested", "hung", "no answer"))
    end(place, tmp_path, 2, "burn", "not-fit", finding(1, "fault", "xid", "XID 79 during the test"))
    wait_ticks(place.agent)
    assert not open_incidents(place.agent)


def test_most_gpus_slow_are_one_incident_of_the_node(stoker, tmp_path, make_node, make_agent):
    place = Place(stoker, tmp_path, make_node, make_agent, count=4)
    end(place, tmp_path, 0, "links", "not-fit", *(finding(gpu, "fault", "slow", "host to GPU 12 GB/s") for gpu in range(3)), gpus=range(4))
    found = until(lambda: open_incidents(place.agent), place.agent.log_text)
    assert [key[0] for key in found] == ["test-slow"]
    one, = found.values()
    assert one["device"]["kind"] == "node" and one["evidence"][0]["text"].startswith("3 of 4 GPUs; GPU 0: 'stoker bench links'")


def test_the_last_runs_are_compared(place, tmp_path):
    """Without files the last two of one test; with one, that and the last one of its test."""
    def diff(*files):
        done = place.agent.verb("bench", "diff", "--json", *files)
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

    code, said = diff()
    assert code == 3 and "two results of one test" in said
    for minute, rung in enumerate(("memory", "links", "memory")):
        end(place, tmp_path, minute, rung, "fit")
    code, told = diff()
    assert code == 0 and [told[side]["rung"] for side in ("before", "after")] == ["memory"] * 2
    assert told["before"]["time"] < told["after"]["time"]
    (tmp_path / "old.json").write_text(json.dumps({**run_of(place, "2026-11-29T08:00:00Z"), "rung": "links"}))
    code, told = diff(tmp_path / "old.json")
    assert code == 0 and told["after"]["rung"] == "links" and told["before"]["time"].startswith("2026-11-29")
