# SPDX-License-Identifier: Apache-2.0
"""`stoker jobs` and /api/v1/jobs: reports of planted owners, while they run, over a killed agent, and after their end."""
import base64
import contextlib
import gzip
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys

import jsonschema
import pytest
import yaml
from agent_rig import until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "unit" / "alert"))
from alert_rig import Hook  # noqa: E402

SCHEMA = json.loads((pathlib.Path(__file__).resolve().parents[3] / "docs" / "jobs.schema.json").read_text())
WORK = [{"name": "pretrain", "kind": "train", "gpus": "0", "process": "python", "user": "alice", "job": "4711.3"},
        {"name": "chat", "kind": "decode", "gpus": "1", "process": "vllm", "user": "root", "pod": "serving/chat-0", "memory": "20GiB"},
        {"name": "draft", "kind": "decode", "gpus": "1", "process": "vllm", "user": "root", "pod": "serving/draft-0", "memory": "20GiB"},
        {"name": "embed", "kind": "inference", "gpus": "2", "process": "tritonserver", "user": "bob", "container": "docker"},
        {"name": "book", "kind": "idle-context", "gpus": "3", "process": "python", "user": "carol", "job": "4712.0"},
        {"name": "bare", "kind": "train", "gpus": "6", "process": "python", "user": "dave"}]
SCENE = {"about": "jobs", "node": {"cgroups": "systemd"}, "gpus": {"board": "h100-sxm-80gb", "count": 8}, "work": WORK, "truth": []}
REPORTS = "alerts:\n  receivers: {{bills: {{webhook: '{url}/jobs'}}}}\n  job_reports: [bills]\n  routes: []\n"
PRICES = "prices:\n  currency: EUR\n  list:\n    - {id: h100, board: H100, on_demand: 3.6}\n"


class Place:
    def __init__(self, stoker, tmp, make_node, make_agent, speed=1):
        self.stoker, self.make_agent = stoker, make_agent
        self.journal, self.config = tmp / "journal.db", tmp / "stoker.yaml"
        scene = tmp / "scene.yaml"
        scene.write_text(yaml.safe_dump(SCENE))
        self.config.write_text(PRICES)
        self.node = make_node(scene, speed=speed)
        self.agent = None

    def start(self, *options):
        self.agent = self.make_agent(self.node.env, options=["--journal", self.journal, "--config", self.config, *options])
        return self.agent

    def run(self, *words, code=0):
        done = subprocess.run([self.stoker, "jobs", *words, "--control", str(self.agent.control), "--journal", str(self.journal)],
                              env=self.node.env, capture_output=True, text=True)
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def jobs(self, *words):
        """By number, pod or user of a container."""
        told = json.loads(self.run("--json", *words))
        jsonschema.validate(told, SCHEMA)
        return {one["job"] or one["pod"] or one["user"]: one for one in told["jobs"]}

    def show(self, name):
        one = json.loads(self.run("show", name, "--json"))
        jsonschema.validate(one, SCHEMA)
        return one


    def has_ended(self, report):
        """In the journal: what is on its way to a webhook is there before it."""
        with contextlib.closing(sqlite3.connect(f"file:{self.journal}?mode=ro", uri=True)) as db:
            return db.execute("SELECT count(*) FROM job_reports WHERE id = ? AND NOT running", (report,)).fetchone()[0] == 1


    def kept(self, job):
        """Reports in the journal, as JSON."""
        with contextlib.closing(sqlite3.connect(f"file:{self.journal}?mode=ro", uri=True)) as db:
            return [json.loads(gzip.decompress(row[0])) for row in db.execute("SELECT gz FROM job_reports WHERE name = ?", (job,))]


@pytest.fixture
def place(stoker, tmp_path, make_node, make_agent):
    return lambda **of_node: Place(stoker, tmp_path, make_node, make_agent, **of_node)


@pytest.fixture
def hook():
    one = Hook()
    yield one
    one.down()


def mean(report):
    return report["gpus"][0]["sm_active"]


def test_planted_owners_over_a_killed_agent(place, tmp_path):
    place = place()
    place.start()
    found = until(lambda: (j := place.jobs()).keys() == {"4711", "4712", "chat-0", "draft-0", "bob"} and
                  all(r["elapsed_s"] > 8 and mean(r) is not None for r in j.values()) and j, lambda: place.run())
    assert {name: [g["gpu"] for g in r["gpus"]] for name, r in found.items()} == {
        "4711": [0], "chat-0": [1], "draft-0": [1], "bob": [2], "4712": [3]}
    assert {r["kind"] for r in found.values()} == {"job", "pod", "container"}
    assert mean(found["4711"]) > 0.5 and found["4711"]["user"] == "alice" and found["4711"]["gpus"][0]["attribution"] == "exclusive"
    assert found["4711"]["verdicts"] and found["4711"]["energy_j"] > 0
    for name in ("chat-0", "draft-0"):  # neither shows the whole GPU's numbers
        gpu = found[name]["gpus"][0]
        assert gpu["share"] < 0.95 and gpu["sm_active"] < 0.95 * gpu["device"]["sm_active"], gpu
    assert abs(found["4711"]["cost"] / found["4711"]["priced_s"] - 3.6 / 3600) < 1e-9
    idle = until(lambda: (r := place.show("4712"))["verdicts"][0]["cause"] == "idle_held" and r, lambda: place.run("show", "4712"))
    assert mean(idle) < 0.05

    # as the ledger has it, to a tick or two
    cost = lambda: {o["owner"]: o["gpu_hours"] for o in json.loads(place.agent.verb("cost", "--by", "job", "--json").stdout)["owners"]}
    until(lambda: abs(place.show("4711")["gpu_hours"] - cost()["4711"]) < 3 / 3600, lambda: (place.run(), cost()))

    # by every name and in every form
    for name in ("serving/chat-0", "chat-0", found["chat-0"]["id"]):
        assert place.show(name)["id"] == found["chat-0"]["id"]
    assert place.show(found["bob"]["container"][:12])["id"] == found["bob"]["id"]
    assert place.agent.json("/api/v1/jobs/4711")[1]["id"] == found["4711"]["id"]
    assert place.agent.json("/api/v1/jobs/serving/chat-0")[1]["id"] == found["chat-0"]["id"]
    assert {r["id"] for r in place.agent.json("/api/v1/jobs")[1]["jobs"]} == {r["id"] for r in found.values()}
    assert place.agent.get("/api/v1/jobs/9999")[0] == 404
    line = place.run("show", "4711", "--line")
    assert line.startswith("stoker: gpus=1 time=") and line.endswith(f" report={found['4711']['id']}\n") and line.count("\n") == 1
    assert "Job 4711 of alice: runs" in place.run("show", "4711") and "alice" in place.run("--user", "alice")
    assert place.jobs("--user", "alice").keys() == {"4711"}
    place.run("show", "4711", "--html", str(tmp_path / "report.html"))
    assert "Job 4711 of alice" in (tmp_path / "report.html").read_text()
    assert "no report of '9999'" in place.run("show", "9999", code=3)
    place.run("show", "4711", "--json", "--line", code=2)
    place.run("show", code=2)

    # killed: what was saved last is there, and the next agent goes on with it
    saved = until(lambda: (r := place.show("4711"))["elapsed_s"] > 17 and r, lambda: place.run())  # the save at 16 s is on its way
    until(lambda: place.agent.json("/api/v1/jobs/4711")[1]["elapsed_s"] > saved["elapsed_s"] + 2, lambda: place.run())
    place.agent.process.send_signal(signal.SIGKILL)
    place.agent.process.wait()
    kept = place.show("4711")
    assert kept["id"] == saved["id"] and kept["state"] == "running" and 0 < kept["gpu_hours"] <= kept["elapsed_s"] / 3600 + 1e-9
    assert kept["elapsed_s"] >= 8 and mean(kept) > 0.5
    place.start()
    after = until(lambda: (r := place.show("4711"))["agent_restarts"] == 1 and r["elapsed_s"] > saved["elapsed_s"] + 2 and
                  r["gpu_hours"] > kept["gpu_hours"] and r, lambda: place.run())
    assert after["id"] == saved["id"] and after["unseen_s"] > 0
    assert after["gpu_hours"] * 3600 <= after["elapsed_s"] - after["unseen_s"] + 1.5
    until(lambda: place.jobs().keys() == found.keys(), lambda: place.run())  # nobody twice


def test_ends_with_and_without_an_agent(place, tmp_path, hook):
    """And the report of each goes to a webhook, as `stoker jobs show --json` has it."""
    place, given = place(speed=60), tmp_path / "given"
    place.config.write_text(PRICES + REPORTS.format(url=hook.url))
    sent = lambda: {p.json["report"]["job"]: p.json for p in hook.delivered()}
    given.mkdir()
    for gpu, job in ((4, "4720"), (5, "4721")):
        (given / str(gpu)).write_text(f"{job}\n")
    scontrol = tmp_path / "scontrol"
    scontrol.write_text('#!/bin/sh\n[ "$3" = 4720 ] || exit 1\n'
                        'echo "JobId=4720 ArrayJobId=4700 ArrayTaskId=3 JobName=sweep StartTime=2026-11-23T17:46:04"\n')
    scontrol.chmod(0o755)
    options = ["--clock-speed", "60", "--hpc-job-mapping-dir", given, "--slurm-scontrol", scontrol]
    place.start(*options)
    until(lambda: {"4720", "4721", "chat-0"} <= place.jobs().keys(), lambda: place.run())
    until(lambda: place.show("4720")["array_task"] == "4700_3", lambda: place.agent.log_text())
    (given / "4").unlink()
    ended = until(lambda: (r := place.show("4720"))["state"] == "ended" and r, lambda: place.run())
    assert ended["ended_by"] == "left" and [g["gpu"] for g in ended["gpus"]] == [4] and ended["gpus"][0]["processes"] == 0
    assert place.show("4721")["state"] == "running"
    assert "Job 4700_3, sweep: ended" in place.run("show", "4720") and place.show("4700_3") == ended
    until(lambda: "4720" in sent(), lambda: hook.posts)
    assert sent()["4720"]["report"] == ended and sent()["4720"]["change"] == "job-ended"
    hook.down()
    place.agent.stop()
    last = place.show("4721")
    assert place.show("4700_3") == place.show("4720") == ended  # of the journal
    (given / "5").unlink()
    place.start(*options)
    missed = until(lambda: (r := place.show("4721"))["state"] == "ended" and r, lambda: place.run())
    assert missed["ended_by"] == "no_agent" and missed["seen_until"] == last["seen_until"]
    assert missed["gpu_hours"] == pytest.approx(last["gpu_hours"]) and "ended while no agent ran" in place.run("show", "4721")
    assert place.show("4720") == ended  # as it was kept
    until(lambda: place.has_ended(missed["id"]), lambda: place.agent.log_text())
    place.agent.process.send_signal(signal.SIGKILL)  # what waits for the webhook outlives it
    place.agent.process.wait()
    hook.up()
    place.start(*options)
    until(lambda: "4721" in sent(), lambda: (hook.posts, place.agent.log_text()))
    assert sent()["4721"]["report"] == missed and sent()["4721"]["url"].endswith(f"/api/v1/jobs/{missed['id']}")
    assert {r["job"] for r in place.agent.json("/api/v1/jobs")[1]["jobs"]} >= {"4720", "4721"}  # those that have ended too


class Cgroup:
    """Of a planted job, in the node's tree."""

    def __init__(self, tree, job):
        self.tree = tree
        process = lambda: next(p.read_text().strip().partition("::")[2] for p in tree.glob("proc/[0-9]*/cgroup") if f"job_{job}/" in p.read_text())
        self.path = tree / "sys/fs/cgroup" / until(process, "a process of the job").partition("/step_")[0].lstrip("/")
        self.path.mkdir(parents=True)

    def write(self, cpu_s, anon, **more):
        texts = {"cpu.stat": f"usage_usec {cpu_s * 1000000}\n", "memory.stat": f"anon {anon}\nfile 4096\nshmem 1024\n", **more}
        for name, text in texts.items():
            (self.path / "new").write_text(text)
            os.rename(self.path / "new", self.path / name)

    def remove(self):
        for file in self.path.iterdir():
            file.unlink()
        self.path.rmdir()


def unpack(comment):
    assert comment.startswith("JS1:") and comment.endswith("\n")
    return json.loads(gzip.decompress(base64.b64decode(comment[4:-1], validate=True)))


def test_processors_and_memory_of_a_job(place):
    """Read from its cgroup until that is gone, kept over a killed agent, in every form; for jobstats too."""
    place = place(speed=60)
    cgroup = Cgroup(place.node.tree, 4711)
    cgroup.write(100, 3 << 30, **{"memory.max": f"{16 << 30}\n", "cpuset.cpus": "0-7\n", "cpuset.cpus.effective": "0-7\n"})
    place.start("--clock-speed", "60")
    until(lambda: {"4711", "4712"} <= place.jobs().keys(), lambda: place.run())
    host = lambda: place.show("4711")["host"]
    first = {"cpu_s": 100, "cpus": 8, "memory_peak_bytes": (3 << 30) + 1024, "memory_limit_bytes": 16 << 30}
    until(lambda: host() == first, host)
    cgroup.write(250, 1 << 30)
    last = {**first, "cpu_s": 250}  # the most memory stays
    until(lambda: host() == last, host)
    assert "CPU time 4m10s on 8 processors, memory at most 3.00 GiB of 16.0 GiB\n" in place.run("show", "4711")
    cgroup.remove()
    saved = lambda: [report["host"] for report in place.kept("4711")]
    until(lambda: last in saved(), saved)
    place.agent.process.send_signal(signal.SIGKILL)
    place.agent.process.wait()
    place.start("--clock-speed", "60")
    until(lambda: (r := place.show("4711"))["agent_restarts"] == 1 and r["host"] == last, lambda: place.run())
    comment = unpack(place.run("show", "4711", "--comment"))
    node = comment["nodes"][place.show("4711")["node"]]
    assert comment["gpus"] == 1 and {k: node[k] for k in ("total_time", "cpus", "used_memory", "total_memory")} == {
        "total_time": 250, "cpus": 8, "used_memory": (3 << 30) + 1024, "total_memory": 16 << 30}
    assert node["gpu_utilization"]["0"] > 50 and node["gpu_used_memory"]["0"] < node["gpu_total_memory"]["0"]
    until(lambda: place.show("4712")["host"] == dict.fromkeys(first), lambda: place.run())  # no cgroup that can be read
    place.run("show", "4711", "--comment", "--line", code=2)
