# SPDX-License-Identifier: Apache-2.0
"""`stoker place slurm` and `stoker slurm topology` with a scontrol that is a script: what it prints, and how it fails."""
import json
import os
import subprocess

import pytest

NODE = "NodeName={name} CPUTot=32 CPUAlloc={used} RealMemory=256000 State={state} Gres={gres} Partitions={parts} ActiveFeatures={features} Weight=1 {more}\n"
JOB = "JobId={id} JobName=x UserId=alice(1001) GroupId=alice(1001) Priority=5 Account=physics QOS=normal JobState={state} Reason={reason} "
NODES = "".join(NODE.format(name=f"gpu{i:02}", used=8 if i < 3 else 0, state="IDLE+DRAIN" if i == 4 else "MIXED", gres="gpu:h100:8(S:0-1)", parts="gpu",
                            features="ib,nvme", more="Reason=bad fan [root@2026-11-30T00:00:00]" if i == 4 else "") for i in range(1, 5))
NODES += NODE.format(name="a10", used=0, state="IDLE", gres="gpu:a10:1", parts="gpu", features="eth", more="")
NODES += NODE.format(name="login1", used=0, state="IDLE", gres="(null)", parts="cpu", features="(null)", more="")
JOBS = JOB.format(id=1, state="RUNNING", reason="None") + (
    "TimeLimit=02:00:00 SubmitTime=2026-11-30T00:00:00 StartTime=2026-11-30T00:00:00 EndTime=2026-11-30T02:00:00 NodeList=gpu[01-02] NumNodes=2 NumCPUs=16 "
    "JOB_GRES=gpu:h100:12 Nodes=gpu01 CPU_IDs=0-7 Mem=1000 GRES=gpu:h100:8(IDX:0-7) Nodes=gpu02 CPU_IDs=0-7 Mem=1000 GRES=gpu:h100:4(IDX:0-3) X=1\n")
JOBS += JOB.format(id=2, state="PENDING", reason="Priority") + (
    "TimeLimit=01:00:00 SubmitTime=2026-11-30T00:00:00 StartTime=2026-11-30T03:00:00 NumNodes=3-3 NumCPUs=3 TRES=cpu=3,mem=3G,node=3 Partition=gpu "
    "Features=ib&nvme ExcNodeList=gpu01 TresPerNode=gres:gpu:h100:4\n")
JOBS += JOB.format(id=3, state="PENDING", reason="QOSMaxGRESPerUser") + "TimeLimit=UNLIMITED NumNodes=9 NumCPUs=9 Partition=gpu TresPerNode=gres/gpu:1\n"
TOPOLOGY = "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=gpu[01-04]\n"
PLACES = "node,nvlink,rack,block\ngpu[01-02],n1,r1,b1\ngpu[03-04],n2,r2,b1\na10,,r3,b2\n"


class Slurm:
    """A folder with a scontrol that prints what it is told to, and notes how it was called."""

    def __init__(self, stoker, folder):
        self.stoker, self.folder = stoker, folder
        for name, text in {"node": NODES, "job": JOBS, "topology": TOPOLOGY, "places.csv": PLACES}.items():
            (folder / name).write_text(text)
        (folder / "bin").mkdir()
        self.script('cat "$0.$2"')
        for name in ("node", "job", "topology"):
            (folder / f"bin/scontrol.{name}").symlink_to(folder / name)

    def script(self, line):
        path = self.folder / "bin/scontrol"
        path.write_text(f'#!/bin/sh\necho "$TZ $*" >> {self.folder}/calls\n{line}\n')
        path.chmod(0o755)

    def run(self, code, *words, path=None, **more):
        done = subprocess.run([self.stoker, *map(str, words)], env={**os.environ, "PATH": path or f"{self.folder}/bin:/usr/bin:/bin"}, capture_output=True,
                              text=True, timeout=120, cwd=self.folder, check=False, **more)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def calls(self):
        return (self.folder / "calls").read_text().splitlines()


@pytest.fixture
def slurm(stoker, tmp_path):
    return Slurm(stoker, tmp_path)


def test_why_a_job_waits(slurm):
    """Slurm puts each share on another node: three are free of their rules, one of them drained."""
    said = slurm.run(0, "place", "slurm", "2").splitlines()
    assert said[:6] == [
        "Job 2 of alice waits: Priority",
        "Means:     jobs with a higher priority wait for the same nodes",
        "To do:     wait, or ask for a shorter time so that it can be backfilled; 'sprio -j 2' shows its priority",
        "Expected:  Slurm expects it to start at 2026-11-30T03:00:00Z",
        "",
        "2 waits for 12 GPUs (3 pods of 4 h100): 2 of its 3 pods fit now, and it starts with all or none"]
    assert "  1. uncordon or resume gpu04" in said and "Who holds GPUs that it could use: 1 (4)" in said
    assert "  1 node with 8 h100, 0 of 8 GPUs free: excluded by exclude gpu01" in said
    assert slurm.calls() == ["UTC show node --oneliner", "UTC show job --oneliner -d", "UTC show topology"]


def test_a_job_that_can_never_start(slurm):
    said = slurm.run(0, "place", "slurm", "3")
    assert "Job 3 of alice waits: QOSMaxGRESPerUser\nMeans:     its user's running jobs are at the limit of the QOS\n" in said
    assert "3 waits for 9 GPUs (9 pods): even when empty, the cluster has room for 5 of its 9 pods only\n" in said


def test_as_json_from_files(slurm):
    found = json.loads(slurm.run(0, "place", "slurm", "2", "--json", "--nodes", "node", "--jobs", "job", "--topology", "topology"))
    assert (found["job"], found["account"], found["reason"], found["expected"]) == ("2", "physics", "Priority", "2026-11-30T03:00:00.000Z")
    why = found["why"]
    assert (why["causes"][0]["cause"], why["pods"], why["pods_fit"], why["gpus"]) == ("gang", 3, 2, 12)
    assert {c["cause"] for c in why["causes"]} == {"gang", "rule", "closed"}
    assert "sprio -j 2" in found["remedy"] and not (slurm.folder / "calls").exists()


def test_nodes_on_stdin(slurm):
    said = slurm.run(0, "place", "slurm", "2", "--nodes", "-", "--jobs", "job", input=NODES)
    assert "at 2026-11-30T03:00:00\n" in said  # of files the zone is not known


@pytest.mark.parametrize("code, words, said", [
    (2, ["place", "slurm"], "needs the id of one job"),
    (2, ["place", "slurm", "9"], "no job 9 waits or runs"),
    (2, ["place", "slurm", "1"], "job 1 runs; this verb is for jobs that wait"),
    (2, ["place", "slurm", "2", "--jobs", "job"], "needs --nodes FILE too"),
    (2, ["place", "slurm", "2", "--nodes", "node"], "needs --jobs FILE too"),
    (2, ["place", "slurm", "2", "--nodes", "gone", "--jobs", "job"], "gone"),
    (2, ["place", "slurm", "2", "--nodes", "job", "--jobs", "job"], "job: no line with NodeName="),
    (2, ["slurm", "topology"], "needs --places CSV"),
    (2, ["slurm", "topology", "--places", "node"], "node:1: its first line has to name the columns"),
])
def test_what_is_refused(slurm, code, words, said):
    assert said in slurm.run(code, *words)


def test_without_slurm(slurm):
    said = slurm.run(3, "place", "slurm", "2", path="/nowhere")
    assert "Slurm is not installed here (no scontrol in PATH); give files with its output" in said


def test_slurm_does_not_answer(slurm):
    slurm.script("echo 'slurm_load_node error: Unable to contact slurm controller' >&2; exit 1")
    assert "'scontrol show node': exit code 1: slurm_load_node error: Unable to contact slurm controller" in slurm.run(3, "place", "slurm", "2")
    slurm.script("exec sleep 60")
    assert "'scontrol show node': no answer in time" in slurm.run(3, "place", "slurm", "2", "--timeout", "100ms")


def test_a_tree(slurm):
    said = slurm.run(0, "slurm", "topology", "--places", "places.csv")
    assert said.splitlines() == [
        "# topology.conf by 'stoker slurm topology', for TopologyPlugin=topology/tree",
        "SwitchName=r1 Nodes=gpu[01-02]",
        "SwitchName=r2 Nodes=gpu[03-04]",
        "SwitchName=r3 Nodes=a10",
        "SwitchName=unplaced Nodes=login1",
        "SwitchName=b1 Switches=r[1-2]",
        "SwitchName=b2 Switches=r3",
        "SwitchName=top Switches=unplaced,b[1-2]",
        "# Weights for the lines of these nodes in slurm.conf; Slurm takes the lowest first.",
        "# NodeName=login1 Weight=10",
        "# NodeName=a10 Weight=20 # 1 a10",
        "# NodeName=gpu[01-04] Weight=30 # 8 h100"]
    (slurm.folder / "topology").write_text(said)  # and it reads its own
    slurm.run(0, "place", "slurm", "2", "--nodes", "node", "--jobs", "job", "--topology", "topology")


def test_blocks(slurm):
    said = slurm.run(0, "slurm", "topology", "--places", "places.csv", "--block", "--nodes", "-", input=NODES)
    assert said.splitlines()[:5] == ["# topology.conf by 'stoker slurm topology', for TopologyPlugin=topology/block", "BlockName=n1 Nodes=gpu[01-02]",
                                     "BlockName=n2 Nodes=gpu[03-04]", "BlockSizes=2", "# in no block: a10,login1"]


@pytest.mark.parametrize("places, said", [
    ("node,rack,block\ngpu01,r1,b1\ngpu02,r1,b2\n", "rack r1 is in two blocks: node gpu02"),
    ("node,rack,block\ngpu01,x,x\n", "x is the name of a rack and of a block"),
    ("node,rack\ngpu09,r1\n", "places.csv:2: the cluster has no node gpu09"),
])
def test_places_that_do_not_fit(slurm, places, said):
    (slurm.folder / "places.csv").write_text(places)
    assert said in slurm.run(2, "slurm", "topology", "--places", "places.csv")


def test_weights_keep_scarce_nodes_for_last(slurm):
    kinds = {"h100x8": ("gpu:h100:8", 3), "a100x8": ("gpu:a100:8", 1), "mig": ("gpu:a100_1g.5gb:7", 2), "t4x1": ("gpu:t4:1", 1), "none": ("(null)", 1)}
    text = "".join(NODE.format(name=f"{name}-{i}", used=0, state="IDLE", gres=gres, parts="p", features="f", more="") for name, (gres, n) in kinds.items()
                   for i in range(n))
    (slurm.folder / "places.csv").write_text("node,rack\nnone-0,r\n")
    said = slurm.run(0, "slurm", "topology", "--places", "places.csv", "--nodes", "-", input=text)
    order = [line.split("NodeName=")[1].split("-")[0] for line in said.splitlines() if line.startswith("# NodeName=")]
    assert order == ["none", "mig", "t4x1", "h100x8", "a100x8"]
