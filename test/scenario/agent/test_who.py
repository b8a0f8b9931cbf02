# SPDX-License-Identifier: Apache-2.0
"""`stoker who` and /api/v1/who: what the kubelet and job files declare joined with the processes of a simulated node."""
import json
import pathlib
import subprocess
import sys

import pytest
import yaml
from agent_rig import settles, until

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "unit" / "podresources"))

SCHEMA = json.loads((pathlib.Path(__file__).resolve().parents[3] / "docs" / "who.schema.json").read_text())
WORK = [{"name": "pretrain", "kind": "train", "gpus": "0", "process": "python", "user": "alice", "job": "4711.3"},
        {"name": "chat", "kind": "decode", "gpus": "1", "process": "vllm", "user": "root", "pod": "serving/chat-0", "memory": "20GiB"},
        {"name": "draft", "kind": "decode", "gpus": "1", "process": "vllm", "user": "root", "pod": "serving/draft-0", "memory": "20GiB"},
        {"name": "embed", "kind": "inference", "gpus": "2", "process": "tritonserver", "user": "bob", "container": "docker"},
        {"name": "bare", "kind": "idle-context", "gpus": "3", "process": "python", "user": "carol"}]
SCENE = {"about": "who", "node": {"cgroups": "systemd"}, "gpus": {"board": "h100-sxm-80gb", "count": 6}, "work": WORK, "truth": []}


@pytest.fixture
def node(make_node, tmp_path):
    path = tmp_path / "who.yaml"
    path.write_text(yaml.safe_dump(SCENE))
    return make_node(path)


def rows(text):
    """The allocations by GPU, and checks that those of each sum to the whole."""
    told = json.loads(text)
    try:
        import jsonschema
        jsonschema.validate(told, SCHEMA)
    except ImportError:
        pass  # python3-jsonschema is not installed
    found = {}
    for one in told["allocations"]:
        found.setdefault(one["gpu"], []).append(one)
    for gpu, held in found.items():
        assert abs(sum(one["share"] for one in held) - 1) < 1e-9, (gpu, held)
    return found


def identified(found):
    return len(found) >= 4 and all(one["owner"]["user"] for held in found.values() for one in held if one["processes"])


def kinds(found):
    return {gpu: [(one["owner"]["pod"] or one["owner"]["job"] or one["owner"]["user"], one["state"], one["attribution"]) for one in held]
            for gpu, held in found.items()}


def test_processes_alone(node, make_agent, stoker):
    """Where nothing is declared nothing is unmanaged; with and without an agent, by every door."""
    agent = make_agent(node.env)
    ask = lambda *words: rows(agent.verb("who", "--json", *words).stdout)

    def whole():
        found = ask()
        assert identified(found)
        assert kinds(found)[0] == [("4711", "used", "exclusive")]
        assert {k[:2] for k in kinds(found)[1]} == {("chat-0", "used"), ("draft-0", "used")}
        assert found[2][0]["owner"]["user"] == "bob" and len(found[2][0]["owner"]["container"]) == 64
        assert kinds(found)[3] == [("carol", "idle_held", "exclusive")] and found[3][0]["activity"] == "idle held"
        return found

    found = settles(whole)
    until(lambda: [(one["attribution"], 0.2 < one["share"] < 0.8) for one in ask()[1]] == [("sampled", True)] * 2, lambda: str(ask()[1]))
    until(lambda: kinds(rows(agent.get("/api/v1/who?gpu=0")[1])) == {0: kinds(found)[0]}, lambda: agent.get("/api/v1/who?gpu=0")[1])
    assert agent.get("/api/v1/who?by=colour")[0] == 400 and agent.get("/api/v1/who?gpu=77")[0] == 400
    until(lambda: {h["gpu"] for h in agent.json("/api/v1/gpus")[1]["holdings"]} == {0, 1, 2, 3}, lambda: agent.get("/api/v1/gpus")[1])
    sums = lambda: {(s["owner"], round(s["gpus"], 6)) for s in json.loads(agent.get("/api/v1/who?by=user")[1])["owners"]}
    until(lambda: sums() == {("alice", 1), ("root", 1), ("bob", 1), ("carol", 1)}, lambda: str(sums()))

    def shown():
        text = agent.verb("who").stdout
        assert "job 4711 of alice" in text and text.splitlines()[-1] == "Nobody holds GPU 4, 5"

    settles(shown)
    assert agent.verb("who", "--gpu", "9").returncode == 2 and agent.verb("who", "--by", "colour").returncode == 2
    alone = lambda: kinds(rows(subprocess.run([stoker, "who", "--alone", "--json"], env=node.env, capture_output=True, text=True).stdout))
    names = lambda held: {gpu: sorted(k[0] for k in one) for gpu, one in held.items()}
    until(lambda: names(alone()) == names(kinds(found)), lambda: str(alone()))


def test_with_a_kubelet_and_job_files(node, make_agent, tmp_path, tmp_path_factory):
    """Who was given a GPU and does not run there, and who runs on one without having been given it."""
    kubelet = pytest.importorskip("kubelet", reason="the kubelet's stand-in needs python3-grpcio")
    path, jobs = tmp_path_factory.mktemp("k") / "kubelet.sock", tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "0").write_text("4711\n")
    agent = make_agent(node.env, options=["-k", "--pod-resources-kubelet-socket", path, "--kubernetes-period", "100ms",
                                          "--hpc-job-mapping-dir", jobs])
    ask = lambda: kinds(rows(agent.verb("who", "--json").stdout))
    uuids = {g["index"]: g["uuid"] for g in agent.gpus()}
    given = [(name, "serving", [("main", [("nvidia.com/gpu", [uuid])])]) for name, uuid in
             (("chat-0", uuids[1] + "::0"), ("draft-0", uuids[1] + "::1"), ("late-0", uuids[4]))]
    with kubelet.Kubelet(path, kubelet.reply(*given)):
        until(lambda: (k := ask()).get(0) == [("4711", "used", "exclusive")] and k.get(2) == [("bob", "unmanaged", "exclusive")] and
              k.get(3) == [("carol", "unmanaged", "exclusive")] and k.get(4) == [("late-0", "reserved", "exclusive")] and
              {one[:2] for one in k[1]} == {("chat-0", "used"), ("draft-0", "used")}, lambda: f"{ask()}\n{agent.log_text()}")
        until(lambda: {one["owner"]["container"] for one in rows(agent.verb("who", "--json").stdout)[1]} == {"main"}, lambda: str(ask()))
        (jobs / "0").unlink()
        until(lambda: ask()[0] == [("4711", "unmanaged", "exclusive")], lambda: str(ask()))


def test_what_slurm_says(node, make_agent, tmp_path):
    """Asked once; a job that Slurm does not know is only a number."""
    asked, scontrol = tmp_path / "asked", tmp_path / "scontrol"
    scontrol.write_text(f"""#!/bin/sh
echo "$@" >> {asked}
echo 'JobId=4711 JobName=pretrain UserId=alice(1001) GroupId=alice(1001) Account=physics QOS=normal TimeLimit=1-12:00:00 Partition=gpu NumNodes=2'
""")
    scontrol.chmod(0o755)
    agent = make_agent(node.env, options=["--slurm-scontrol", scontrol])
    told = until(lambda: (w := json.loads(agent.verb("who", "--json").stdout))["jobs"] and
                 w["allocations"][0]["owner"]["account"] == "physics" and w, agent.log_text)
    assert told["jobs"] == [{"job": "4711", "name": "pretrain", "user": "alice", "account": "physics", "partition": "gpu", "nodes": 2,
                             "limit_seconds": 129600}]
    tick = agent.json("/api/v1/gpus")[1]["tick"]
    until(lambda: agent.json("/api/v1/gpus")[1]["tick"] > tick + 3, "ticks")
    assert asked.read_text() == "show job 4711 -o\n"
    sums = lambda: {(s["owner"], round(s["gpus"])) for s in json.loads(agent.verb("who", "--by", "account", "--json").stdout)["owners"]}
    until(lambda: sums() == {("physics", 1), (None, 3)}, lambda: str(sums()))
    until(lambda: "job 4711 of alice, pretrain" in agent.verb("who").stdout, lambda: agent.verb("who").stdout)
