# SPDX-License-Identifier: Apache-2.0
"""`stoker place why` on what kubectl and scontrol print, and on what an API server says."""
import json
import subprocess

import pytest

AT = "2026-11-30T12:00:00Z"


def node(name, **spec):
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": "H100"}}, "spec": spec,
            "status": {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8"}}}


def pod(name, gpus, cpu="8", on=None):
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "8Gi"}, "limits": {"nvidia.com/gpu": str(gpus)}}}]}
    if on:
        spec["nodeName"] = on
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"namespace": "team-a", "name": name}, "spec": spec,
            "status": {"phase": "Running" if on else "Pending"}}


ITEMS = [node("gpu-1"), node("gpu-2", unschedulable=True), pod("eval-1", 6, on="gpu-1"), pod("train-7", 4), pod("big", 2, cpu="200")]
SLURM_NODES = "NodeName=g1 CPUTot=64 RealMemory=512000 Gres=gpu:h100:8 State=MIXED Partitions=gpu\n"
SLURM_JOB = "JobId={} JobName=x UserId=al(7) GroupId=al(7) Priority=5 Account=phys JobState={} NumNodes=1 NumCPUs=8 TRES=cpu=8,mem=8G,node=1 Partition=gpu {}\n"
SLURM_JOBS = SLURM_JOB.format(4711, "PENDING", "Reason=Resources TresPerNode=gres/gpu:h100:4 SubmitTime=2026-11-30T11:00:00") + SLURM_JOB.format(
    4710, "RUNNING", "StartTime=2026-11-30T10:00:00 EndTime=2026-11-30T14:00:00 TimeLimit=04:00:00 NodeList=g1 "
    "JOB_GRES=gpu:h100:8 Nodes=g1 CPU_IDs=0-7 Mem=8192 GRES=gpu:h100:8(IDX:0-7)")


@pytest.fixture
def run(stoker, tmp_path):
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": ITEMS}))
    (tmp_path / "nodes.txt").write_text(SLURM_NODES)
    (tmp_path / "jobs.txt").write_text(SLURM_JOBS)
    (tmp_path / "other.txt").write_text("hello\n")

    def call(code, *words, **more):
        done = subprocess.run([stoker, "place", "why", "--at", AT, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False, **more)
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout or done.stderr
    return call


def test_a_pod_waits_for_gpus(run):
    said = run(1, "train-7", "--cluster", "cluster.json")
    assert said.splitlines()[0] == "team-a/train-7 waits for 4 GPUs: GPUs are in use, the best node has 2 of 4 free"
    assert "  1. ask for 2 instead of 4 GPUs per pod\n  2. uncordon or resume gpu-2\n" in said
    assert "Who holds GPUs that it could use: team-a/eval-1 (6)\n" in said
    assert "  1 node with 8 H100, 8 of 8 GPUs free: cordoned or drained\n" in said


def mig_node(name, **instances):
    made = node(name)
    made["status"] = {"allocatable": {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "2", **{f"nvidia.com/mig-{p}": str(n) for p, n in instances.items()}}}
    return made


def mig_pod(name, profile, on=None, count=1):
    made = pod(name, 1, on=on)
    made["spec"]["containers"][0]["resources"]["limits"] = {f"nvidia.com/mig-{profile}": str(count)}
    return made


def test_a_pod_waits_for_a_mig_instance(run):
    items = [mig_node("m-1", **{"1g.10gb": 2, "3g.40gb": 1}), mig_node("m-2", **{"1g.10gb": 3}), node("gpu-1"), mig_pod("wait", "1g.10gb"),
             mig_pod("two", "1g.10gb", count=2), *(mig_pod(f"run-{i}", "1g.10gb", on=f"m-{i % 2 + 1}") for i in range(3)), mig_pod("both", "1g.10gb", "m-2", 2)]
    lists = json.dumps({"kind": "List", "apiVersion": "v1", "items": items})
    said = run(1, "wait", "--cluster", "-", input=lists)
    assert said.startswith("team-a/wait waits for a MIG instance 1g.10gb: the MIG instances 1g.10gb that it could use are in use\n"
                           "What would let it run now:\n  1. ask for a MIG instance 3g.40gb instead of 1g.10gb\n"), said
    assert "Who holds MIG instances that it could use: team-a/both (2), " in said
    assert "  2 nodes with 2 H100 and MIG, 0 of 5 1g.10gb free: its MIG instances are in use\n" in said
    assert "  1 node with 8 H100, 0 of 0 1g.10gb free: no MIG instance of this profile\n" in said
    as_json = json.loads(run(1, "wait", "--json", "--cluster", "-", input=lists))
    assert as_json["mig_profile"] == "1g.10gb" and (as_json["nodes"][0]["mig_instances"], as_json["nodes"][0]["mig_instances_free"]) == (5, 0)
    said = run(2, "two", "--cluster", "-", input=lists)
    assert "no job 'two' waits; 1 wait: team-a/wait; 2 pods with time-sliced GPUs or several MIG instances are not explained" in said


def claim(name, count=1, devices=()):
    results = [{"request": "r", "driver": "gpu.nvidia.com", "pool": "dra-1", "device": one} for one in devices]
    return {"kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1", "metadata": {"namespace": "team-a", "name": name},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": count}}]}},
            "status": {"allocation": {"devices": {"results": results}}} if devices else {}}


def claim_pod(name, of, on=None):
    made = pod(name, 0, on=on)
    made["spec"]["containers"][0]["resources"]["limits"] = {}
    made["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": of}]
    return made


def dra_items():
    bare = node("dra-1")
    bare["metadata"]["labels"], bare["status"] = {}, {"allocatable": {"cpu": "96", "memory": "1Ti"}}
    devices = [{"name": f"gpu-{i}", "attributes": {"type": {"string": "gpu"}, "productName": {"string": "NVIDIA H100"}}} for i in range(4)]
    slices = {"kind": "ResourceSlice", "apiVersion": "resource.k8s.io/v1", "metadata": {"name": "s"},
              "spec": {"driver": "gpu.nvidia.com", "nodeName": "dra-1", "pool": {"name": "dra-1", "generation": 1, "resourceSliceCount": 1}, "devices": devices}}
    return [bare, slices, claim("held", 2, ["gpu-0", "gpu-3"]), claim("idle", 1, ["gpu-1"]), claim("wanted", 2), claim_pod("run", "held", "dra-1"),
            claim_pod("wait", "wanted")]


def test_a_pod_waits_for_its_claim(run):
    said = run(1, "wait", "--cluster", "-", input=json.dumps({"kind": "List", "apiVersion": "v1", "items": dra_items()}))
    assert said.startswith("team-a/wait waits for 2 GPUs: GPUs are in use, the best node has 1 of 2 free\n"), said
    assert "Who holds GPUs that it could use: team-a/run (2), team-a/idle (1)\n" in said
    assert "  1 node with 4 NVIDIA-H100, 1 of 4 GPUs free: GPUs in use\n" in said
    without = [item for item in dra_items() if item["kind"] != "ResourceClaim"]
    done = run(0, "wait", "--cluster", "-", input=json.dumps({"kind": "List", "apiVersion": "v1", "items": without}))
    assert "it fits now" in done


def test_as_json_from_stdin(run):
    said = json.loads(run(1, "team-a/big", "--json", "--cluster", "-", input=json.dumps({"kind": "List", "apiVersion": "v1", "items": ITEMS})))
    assert (said["causes"][0]["cause"], said["causes"][0]["have"], said["causes"][0]["want"]) == ("too-few-cpus", 96, 200)
    assert said["changes"][0]["steps"] == [{"kind": "lower-cpu", "from": 200, "to": 88, "items": []}]
    assert said["impossible"]


def test_a_job_of_slurm_starts_when_another_ends(run):
    said = run(1, "4711", "--cluster", "nodes.txt", "--cluster", "jobs.txt")
    assert "Likely start: 2026-11-30 14:00 UTC (in 2 h), when 4710 ends\n" in said


@pytest.mark.parametrize("words, said", [
    (["--cluster", "cluster.json"], "needs the name of one job"),
    (["nobody", "--cluster", "cluster.json"], "no job 'nobody' waits; 2 wait: team-a/train-7, team-a/big"),
    (["eval-1", "--cluster", "cluster.json"], "no job 'eval-1' waits"),
    (["x", "--cluster", "other.txt"], "other.txt: neither JSON of 'kubectl get -o json' nor output of 'scontrol"),
    (["x", "--cluster", "nodes.txt"], "needs the output of both"),
    (["x", "--cluster", "nodes.txt", "--cluster", "nodes.txt"], "says the same of Slurm as nodes.txt"),
    (["x", "--cluster", "nodes.txt", "--cluster", "cluster.json"], "of two clusters"),
    (["x", "--cluster", "missing"], "No such file"),
    (["x", "--at", "noon", "--cluster", "cluster.json"], "--at: "),
])
def test_what_is_wrong_is_said(run, words, said):
    assert said in run(2, *words)
