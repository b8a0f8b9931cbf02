# SPDX-License-Identifier: Apache-2.0
"""`stoker place defrag` on what kubectl and scontrol print."""
import json
import subprocess

import pytest

AT = "2026-11-30T12:00:00Z"


def node(name, gpus=8, **spec):
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": "H100"}}, "spec": spec,
            "status": {"allocatable": {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": str(gpus)}}}


def pod(name, gpus, on=None, owner="ReplicaSet", started="2026-11-30T10:00:00Z", annotations=None, resource="nvidia.com/gpu"):
    meta = {"namespace": "team-a", "name": name, "annotations": annotations or {}, "labels": {"app": name}}
    if owner:
        meta["ownerReferences"] = [{"kind": owner, "apiVersion": "apps/v1", "name": "of-" + name, "uid": "u-" + name, "controller": True}]
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "8", "memory": "8Gi"}, "limits": {resource: str(gpus)}}}]}
    if on:
        spec["nodeName"] = on
    status = {"phase": "Running", "startTime": started} if on else {"phase": "Pending"}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": spec, "status": status}


CHECKPOINTS = {"stoker.dev/checkpoint-interval": "50m", "stoker.dev/restart-cost": "5m"}
ITEMS = [node("gpu-1"), node("gpu-2"), pod("eval", 1, on="gpu-1", annotations=CHECKPOINTS), pod("serve", 7, on="gpu-2", owner=None), pod("train", 8)]
BUDGET = {"kind": "PodDisruptionBudget", "apiVersion": "policy/v1", "metadata": {"namespace": "team-a", "name": "b"},
          "spec": {"selector": {"matchLabels": {"app": "eval"}}, "minAvailable": 1}, "status": {"disruptionsAllowed": 0}}
SLURM_NODES = "".join(f"NodeName=g{i} CPUTot=64 RealMemory=512000 Gres=gpu:h100:8 State=MIXED Partitions=gpu\n" for i in (1, 2))
SLURM_JOB = ("JobId={} JobName=x UserId=al(7) GroupId=al(7) Priority=5 Account=phys JobState=RUNNING Requeue={} NumNodes=1 NumCPUs=8 TRES=cpu=8,mem=8G,node=1 "
             "Partition=gpu StartTime=2026-11-30T11:00:00 EndTime=2026-11-30T14:00:00 TimeLimit=04:00:00 NodeList={} "
             "JOB_GRES=gpu:h100:{} Nodes={} CPU_IDs=0-7 Mem=8192 GRES=gpu:h100:{}(IDX:{})\n")


@pytest.fixture
def run(stoker, tmp_path):
    def call(code, *words, items=None, text=True):
        (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items or ITEMS}))
        (tmp_path / "nodes.txt").write_text(SLURM_NODES)
        (tmp_path / "jobs.txt").write_text(SLURM_JOB.format(1, 1, "g1", 1, "g1", 1, "2") + SLURM_JOB.format(2, 0, "g2", 7, "g2", 7, "0-6"))
        files = () if "--cluster" in words else ("--cluster", "cluster.json")
        done = subprocess.run([stoker, "place", "defrag", "--at", AT, *files, *words], cwd=tmp_path, capture_output=text, text=text, timeout=60, check=False)
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout or done.stderr
    return call


def test_room_for_the_waiting_job(run):
    assert run(0) == """\
team-a/train (8 GPUs on one node): moves make room
Idle: 8 of 16 GPUs, of these 8 on nodes with fewer than 8 idle
More pods that fit now (were all idle GPUs together): 8 (8) of 1 GPU, 3 (4) of 2 GPUs, 1 (2) of 4 GPUs, 0 (1) of 8 GPUs
Plan 1: 1 move, 1 job restarts, 0.417 GPU hours of work lost
  1. team-a/eval (1 GPU) from gpu-1 to gpu-2
  Then there is room on gpu-1; 0 idle GPUs are on nodes with fewer than 8 idle
No plan has fewer moves or loses less work.
"""


def test_as_json(run):
    said = json.loads(run(0, "--for", "train", "--json"))
    assert (said["outcome"], said["job"], said["gpus_per_pod"], said["complete"]) == ("found", "team-a/train", 8, True)
    assert said["plans"][0]["moves"] == [{"job": "team-a/eval", "pod": 1, "gpus": 1, "from": {"node": "gpu-1"}, "to": {"node": "gpu-2"}}]
    assert said["plans"][0]["lost_gpu_s"] == 25 * 60  # 20 min since the last checkpoint, 5 min to restart
    assert said["now"]["pods_fit"][3] == {"gpus": 8, "fit": 0, "if_together": 1}
    assert said["plans"][0]["after"]["pods_fit"][3]["fit"] == 1


def test_blocks_of_gpus(run):
    assert run(0, "--gpus", "4").startswith("4 GPUs on one node: there is room now, without moves\n")
    assert run(1, "--nodes", "2").startswith("2 times 8 GPUs on one node: fewer GPUs are idle than it needs: moves cannot help\n")


@pytest.mark.parametrize("items", [[*ITEMS, BUDGET], [*ITEMS[:2], pod("eval", 1, on="gpu-1", owner=None), *ITEMS[3:]]], ids=["budget", "bare pod"])
def test_what_must_not_stop_is_not_moved(run, items):
    assert run(1, items=items).startswith("team-a/train (8 GPUs on one node): no running job may be moved\n")


def test_no_place_on_cordoned_nodes(run):
    assert "moves cannot help" in run(1, items=[ITEMS[0], node("gpu-2", unschedulable=True), *ITEMS[2:]])


def test_mig_is_left_to_mig_suggest(run):
    said = run(0, items=[*ITEMS, pod("slice", 1, resource="nvidia.com/mig-1g.10gb")])
    assert said.splitlines()[-1].startswith("Left out: waiting pods that ask for parts of GPUs (MIG, time-slicing): 1, nodes shared so: 0. 'stoker mig suggest'")
    assert "team-a/slice waits for a MIG instance, and whole GPUs alone are moved together" in run(
        2, "--for", "slice", items=[*ITEMS, pod("slice", 1, resource="nvidia.com/mig-1g.10gb")])
    split = node("gpu-1", 7)
    split["status"]["allocatable"]["nvidia.com/mig-1g.10gb"] = "7"
    said = run(1, items=[split, *ITEMS[1:], pod("slice", 1, on="gpu-1", resource="nvidia.com/mig-1g.10gb")])  # gpu-1 has 7 whole GPUs, of which 6 are idle
    assert "\nIdle: 7 of 15 GPUs, of these 7 on nodes with fewer than 8 idle\n" in said


def test_jobs_of_slurm(run):
    said = run(0, "--gpus", "8", "--cluster", "nodes.txt", "--cluster", "jobs.txt")
    assert "  1. 1 (1 GPU) from GPU 2 of g1 to GPU 7 of g2\n" in said


@pytest.mark.parametrize("words, said", [
    (["--for", "train", "--gpus", "8"], "leave out --gpus and --nodes"),
    (["--for", "nobody"], "no job 'nobody' waits; 1 wait: team-a/train"),
    (["--gpus", "17"], "--gpus"),
    (["--cluster", "missing"], "No such file"),
    (["--at", "noon"], "--at: "),
])
def test_what_is_wrong_is_said(run, words, said):
    assert said in run(2, *words)
