# SPDX-License-Identifier: Apache-2.0
"""Whose the processes on the GPUs are, as the agent tells it: found in the node's own /proc, by cgroups as kubelets, runtimes and
Slurm name them, and never in this machine's."""
import json
import os
import pathlib
import subprocess

import pytest
import yaml
from agent_rig import settles, until

BOARD = {"board": "h100-sxm-80gb", "count": 4}
WORK = [{"name": "pretrain", "kind": "train", "gpus": "0", "process": "python", "user": "alice", "job": "4711.3"},
        {"name": "chat", "kind": "decode", "gpus": "1", "process": "vllm", "user": "root", "pod": "serving/chat-0"},
        {"name": "embed", "kind": "inference", "gpus": "2", "process": "tritonserver", "user": "bob", "container": "docker"},
        {"name": "bare", "kind": "train-starved", "gpus": "3", "process": "python", "user": "carol", "stop": "1h"}]


@pytest.fixture
def scene(tmp_path):
    def make(cgroups):
        path = tmp_path / f"{cgroups}.yaml"
        path.write_text(yaml.safe_dump({"about": "owners", "node": {"cgroups": cgroups}, "gpus": BOARD, "work": WORK, "truth": []}))
        return path
    return make


def owners(agent):
    """By the process's GPU."""
    return {gpu["index"]: one for gpu in agent.gpus() for one in gpu.get("processes") or []}


@pytest.mark.parametrize("cgroups", ["systemd", "cgroupfs", "v1"])
def test_owners_of_every_kind(make_node, make_agent, scene, cgroups):
    node = make_node(scene(cgroups))
    agent = make_agent(node.env)

    def known():
        found = owners(agent)
        assert {one["user"] for one in found.values()} == {"alice", "root", "bob", "carol"}
        assert found[0]["job"] == "4711.3" and found[0]["name"] == "python" and found[0]["uid"] == 1001
        assert (found[1]["namespace"], found[1]["pod"]) == ("serving", "chat-0")
        assert len(found[1]["pod_uid"]) == 36 and len(found[1]["container"]) == 64
        assert found[2]["runtime"] == "docker" and len(found[2]["container"]) == 64 and "pod" not in found[2]
        assert not {"job", "container", "pod_uid"} & found[3].keys()
        for one in found.values():
            assert one["pid"] >= 4194304 and one["start_seconds"] == 100 and one["rss_bytes"] > 2**28
            assert one["kind"] == "compute" and one["used_bytes"] > 0 and "command" not in one
        return found

    found = settles(known)
    until(lambda: (s := agent.json("/api/v1/status")[1])["status"] == "ok" and
          {p["user"] for g in s["node"]["gpus"] for p in g["processes"]} == {o["user"] for o in found.values()}, lambda: agent.get("/api/v1/status")[1])
    later = until(lambda: (o := owners(agent))[0]["cpu_seconds"] > found[0]["cpu_seconds"] and o, "it computes")
    assert later[0]["start_seconds"] == 100
    gone = node.tree / f"proc/{found[3]['pid']}"
    assert gone.exists()
    node.inject("stop", "work=bare")
    until(lambda: not gone.exists() and 3 not in owners(agent), lambda: owners(agent))


def test_nobody_of_this_machine_is_taken_for_one(make_node, make_agent, scene, stoker):
    """Of an agent, and of a look without one, that are not told where the node's files are."""
    node = make_node(scene("systemd"))
    env = {name: value for name, value in node.env.items() if name != "STOKER_ROOT"} | {"STOKER_JOURNAL": "none"}
    agent = make_agent(env)
    found = until(lambda: len(o := owners(agent)) == 4 and o, lambda: owners(agent))


    def alone():
        told = json.loads(subprocess.run([stoker, "status", "--json", "--alone"], env=env, capture_output=True, text=True).stdout)
        return [one for gpu in told["node"]["gpus"] for one in gpu.get("processes") or []]

    seen = until(lambda: len(a := alone()) == 4 and a, lambda: str(alone()))
    for one in [*found.values(), *seen]:
        assert not {"user", "name", "start_seconds", "rss_bytes"} & one.keys()
        assert not pathlib.Path(f"/proc/{one['pid']}").exists()
        with pytest.raises(ProcessLookupError):
            os.kill(one["pid"], 0)


def test_an_incident_says_whose_work_was_hit(make_node, make_agent, scene, tmp_path):
    """Of a lost GPU and of a program's own fault: from the lists of the moment before, although the process is gone."""
    log, kept = tmp_path / "kmsg", tmp_path / "journal.db"
    node = make_node(scene("systemd"), options=("--kernel-log", str(log)))
    agent = make_agent(node.env, options=("--kernel-log", log, "--journal", kept))
    until(lambda: len(o := owners(agent)) == 4 and all("user" in one for one in o.values()), lambda: owners(agent))

    def incident(of, gpu):
        return until(lambda: next((i for i in agent.json("/api/v1/incidents?state=all")[1]["incidents"]
                                   if i["class"] == of and i["device"]["index"] == gpu), None),
                     lambda: agent.json("/api/v1/incidents?state=all"))

    node.inject("xid", "79", "gpu=0")
    lost = until(lambda: (i := incident("gpu-lost", 0))["owners"] and i, lambda: str(incident("gpu-lost", 0)))
    assert lost["affected"] == "job 4711 of alice" and lost["job"] == "4711", lost
    [owner] = lost["owners"]
    assert (owner["user"], owner["job"], owner["process"], owner["pod"]) == ("alice", "4711", "python", None), owner
    assert owner["pid"] >= 4194304
    node.inject("xid", "31", "gpu=1")
    fault = incident("app-fault", 1)
    assert fault["affected"] == "pod serving/chat-0" and [o["namespace"] for o in fault["owners"]] == ["serving"], fault
    until(lambda: 0 not in owners(agent), lambda: owners(agent))
    assert incident("gpu-lost", 0)["owners"] == lost["owners"]
    until(lambda: "job 4711 of alice" in agent.verb("status").stdout, lambda: agent.verb("status").stdout)
    assert "affected" in agent.verb("incidents", "show", lost["id"]).stdout
    agent.stop()
    again = make_agent(node.env, options=("--kernel-log", log, "--journal", kept), ready=False)
    agent = again
    assert incident("gpu-lost", 0)["owners"] == lost["owners"]
