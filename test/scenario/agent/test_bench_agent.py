# SPDX-License-Identifier: Apache-2.0
"""`stoker bench` beside an agent: it keeps the result, over a restart too; metrics and HTTP have it. What the load of a test causes is no
incident, an XID that comes with it is one and says so."""
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

    def start(self):
        self.agent = self.make_agent(self.node.env, options=["--journal", self.journal, *(["--clock-speed", self.speed] if self.speed != 1 else [])])
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
