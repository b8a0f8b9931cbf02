# SPDX-License-Identifier: Apache-2.0
"""The commands of all documents, run beside an agent on a simulated node, in a folder with the files that their page speaks of."""
import gzip
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import agent_rig as rig
import apiserver
import pytest
from agent_rig import until

ROOT = pathlib.Path(__file__).resolve().parents[3]
QUICK = [ROOT / "README.md", *sorted((ROOT / "docs").glob("quickstart-*.md"))]
PAGES = [*QUICK, *sorted(set((ROOT / "docs").rglob("*.md")) - set(QUICK))]
# They want a cluster, a service or a kernel of their own, which other tests give them; one writes into the machine's kernel log.
NOT_HERE = re.compile(r"stoker kubelet *(?:--|#|$)|stoker bench diff$|stoker place serve|--mlflow|--kernel-log kmsg|nvml-record|stoker sim run --enter|cost merge node\*|comment node1|\(cd out|logger")
# They go on until they are stopped: the ones that are watched for a moment, on a terminal.
GOES_ON = re.compile(r"stoker (?:agent(?! --check)|sim run (?:(?!-- ).)*$|sim show --watch)|--follow|stoker top(?! .*(?:--once|--json))|-- (?:\S*/)?stoker (?:top|agent)")
# What a reader puts there himself.
THEIRS = [(r"\b1jf8v3k2m0\b|(?<=show )ID\b", "$INCIDENT"), (r"\bWINDOW\b", "$WINDOW"), (r"(?<=--gpu )GPU\b|(?<=--device )GPU\b|(?<=why )GPU\b", "0"), (r"(?<=xid )N+\b", "79"),
          (r"127\.0\.0\.1:9400", "127.0.0.1:0"), (r"\bSCENARIO\b", "default"), (r"\bDIR\b", "dir"), (r"\bFILE\b", "file"), (r"/var/lib/grafana/dashboards|/etc/stoker/faults.d", "dir"), (r"/etc/(?:slurm|prometheus/rules)/", ""),
          (r"(?<=bench burn )\d+[mh]", "2s"), (r"/tmp/nccl_trace", "nccl_trace"), (r"\b4700_3\b|(?<=why )serving/chat-0", "4711"), (r"\bbuild/", "")]
PROGRAMS = ("nvtop", "gpustat", "lstopo", "srun", "torchrun", "simulation")  # other people's


def lines_of(page):
    """What a reader types, without the comments behind it."""
    typed = [re.sub(r"\s+#(?= ).*|\s+&$", "", line) for line in re.findall(r"^ {0,4}(?:build/)?(stoker [^\n]*)", page.read_text(), re.M)]
    return [line for line in typed if re.match(r"stoker [a-z]+( |$)(?!.*(?:: (?:python3|gpus=)|`))", line) and not NOT_HERE.search(line)]


LINES = {line: page in QUICK for page in reversed(PAGES) for line in lines_of(page)}


def test_there_are_some():
    assert len(LINES) > 180 and sum(LINES.values()) > 25


def parts(name):
    """The files of a recorded input, each with its name in the first line."""
    for part in (ROOT / "test/data/nccl" / f"{name}.in").read_text().split("\f"):
        yield re.sub(r"\Aname=[^\n]*\n", "", part.lstrip("\n"))


def furnish(folder):
    """What the pages speak of: profiles, logs of NCCL, recordings, layouts, programs."""
    sample, config = ROOT / "data/samples", "version: v1\nmig-configs:\n  all-balanced:\n    - devices: all\n      mig-enabled: true\n      mig-devices: {1g.10gb: 2, 2g.20gb: 1, 3g.40gb: 1}\n"
    for name in ("profile.pt.trace.json.gz", "before.json.gz", "profile.json.gz"):
        shutil.copy(sample / "loading.json.gz", folder / name)
    shutil.copy(sample / "decode.json.gz", folder / "after.json.gz")
    for name in ("profile.json", "big.json"):
        (folder / name).write_bytes(gzip.decompress((sample / "loading.json.gz").read_bytes()))
    (folder / "ranks").symlink_to(sample / "training")
    (folder / "data").symlink_to(ROOT / "data")
    (folder / "snapshot.pickle").write_bytes(gzip.decompress((ROOT / "test/data/allocator/story.pickle.gz").read_bytes()))
    for name, kind in (("nccl_trace_rank_", "flights"), ("rank", "job")):
        for i, text in enumerate(parts(kind)):
            (folder / f"{name}{i}{'.log' if kind == 'job' else ''}").write_text(text)
    (folder / "job.log").write_text(next(parts("job")))
    (folder / "topo.xml").write_text(next(parts("links")))
    for name, text in zip(("8gpus.txt", "16gpus.txt", "32.json"), 2 * list(parts("benches"))):
        (folder / name).write_text(text)
    night = gzip.decompress((ROOT / "test/data/top/xid-79-lost.ndjson.gz").read_bytes())
    (folder / "night.gz").write_bytes(gzip.compress(re.sub(rb"2026-\d\d-\d\dT\d\d:\d\d", b"2026-01-05T03:00", night)))
    (folder / "config.yaml").write_text(config)
    shutil.copy(ROOT / "test/data/place/nodes.csv", folder)
    (folder / "pods.csv").write_bytes(gzip.decompress((ROOT / "test/data/place/pods.csv.gz").read_bytes()))
    (folder / "train.py").write_text("print('trained')\n")
    (folder / "llama.yaml").write_text("about: A job\ngpus: {board: h100-sxm-80gb, count: 8}\nwork: [{name: llama, kind: train, gpus: all, process: python}]\ntruth: []\n")
    (folder / "rest.yaml").write_text("about: Eight GPUs without work\ngpus: {board: h100-sxm-80gb, count: 8}\nwork: []\ntruth: []\n")
    for name in ("monday", "friday", "node-1", "node-2"):
        shutil.copy(ROOT / "test/data/bench/run.json", folder / f"{name}.json")
    for name in ("dir", "bin"):
        (folder / name).mkdir()
    for name in (*PROGRAMS, "scontrol"):
        program = folder / ("" if name == "simulation" else "bin") / name
        program.write_text(SCONTROL if name == "scontrol" else "#!/bin/sh\necho ran\n")
        program.chmod(0o755)


SCONTROL = """#!/bin/sh
case "$2" in
node) echo 'NodeName=gpu01 CPUTot=96 RealMemory=1000000 State=IDLE Gres=gpu:h100:8 Partitions=gpu' ;;
job) echo 'JobId=4711 UserId=alice(1) Account=physics JobState=PENDING Reason=Resources NumNodes=2 NumCPUs=16 Partition=gpu TresPerNode=gres/gpu:8' ;;
topology) echo 'SwitchName=s1 Nodes=gpu01' ;;
esac
"""


def furnish_cluster(folder):
    """What `stoker place`, `slurm` and `job` are shown with. Returns an API server that has the same cluster."""
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "train-7", "namespace": "team-a"},
           "spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]}}
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "gpu01", "labels": {"nvidia.com/gpu.product": "H100"}},
            "status": {side: {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "4"} for side in ("allocatable", "capacity")}}
    (folder / "cluster.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [node, pod]}))
    shutil.copy(ROOT / "test/data/place/train.yaml", folder)
    (folder / "places.csv").write_text("node,rack\ngpu01,r1\n")
    api = apiserver.Server(folder)
    api.lists = {"/api/v1/nodes": [node], "/api/v1/pods": [pod]}
    api.write_kubeconfig(folder / "kubeconfig")
    return api


@pytest.fixture(scope="module")
def place(stoker, tmp_path_factory):
    """(folder, agent, env(line)): an agent on a node at work; a node of their own for steps that break it, and one without work to be split."""
    folder = tmp_path_factory.mktemp("documented")
    furnish(folder)
    api = furnish_cluster(folder)
    (folder / "plan.yaml").write_text(subprocess.run([stoker, "place", "simulate", "--example"], check=True, capture_output=True, text=True).stdout)
    nodes = {}
    for name, scenario in (("work", "default"), ("sim inject", "default"), ("llama", folder / "llama.yaml"), ("inject retire", "page-retirement-t4"), ("mig ", folder / "rest.yaml"), ("stoker bench", folder / "rest.yaml")):
        (folder / f"node of {name}").mkdir()
        nodes[name] = rig.Node(stoker, folder / f"node of {name}", scenario, speed=0 if name == "stoker bench" else 1, strict=False)
    agent = rig.Agent(stoker, folder, nodes["work"].env, options=["--journal", folder / "journal.db"])
    shared = {"PATH": f"{stoker.parent}:{folder}/bin:{os.environ['PATH']}", "STOKER_CONTROL": str(agent.control), "STOKER_JOURNAL": str(folder / "journal.db"), "SLURM_JOB_ID": "4711",
              "begin": "2026-01-01T00:00:00Z", "TERM": "xterm", "DCGM_EXPORTER_LISTEN": "127.0.0.1:0"}
    until(lambda: agent.verb("why", "4711").returncode in (0, 1) and agent.verb("jobs", "show", "4711").returncode == 0, agent.log_text)
    nodes["work"].inject("xid", "31", "gpu=0")
    shared["INCIDENT"] = until(lambda: [i["id"] for i in agent.json("/api/v1/incidents")[1]["incidents"] if i["state"] == "open"], "an incident")[0]

    def env(line):
        own = next((name for name in reversed(nodes) if name in line), "work")
        alone = own != "work" and "suggest" not in line or "stoker agent" in line
        kubernetes = {"KUBECONFIG": str(folder / "kubeconfig"), "no_proxy": "127.0.0.1"} if "stoker place" in line else {}
        return nodes[own].env | shared | kubernetes | ({"STOKER_CONTROL": str(folder / "none"), "STOKER_JOURNAL": "none"} if alone else {})

    yield folder, agent, env
    agent.stop()
    api.stop()
    for node in nodes.values():
        node.stop()


@pytest.mark.parametrize("line", [pytest.param(line, marks=() if quick else pytest.mark.slow("one more command"), id=line) for line, quick in LINES.items()])
def test_a_command_of_the_documents_runs(place, line):
    folder, agent, env_of = place
    for theirs, ours in THEIRS:
        line = re.sub(theirs, ours, line)
    env = env_of(line)
    if "$WINDOW" in line:
        env["WINDOW"] = re.search(r"\b1[0-9a-z]{8}\b", agent.verb("maintenance", "start", "--for", "1h", "--gpu", "1", "--reason", "a test").stdout)[0]
    if "jq" in line and not shutil.which("jq"):
        line = line.split(" | jq")[0]
    if goes_on := GOES_ON.search(line):
        line = f"timeout -s INT -k 20 2 script -qefc {shlex.quote(line)} /dev/null"
    done = subprocess.run(["bash", "-c", line], cwd=folder, env=env, capture_output=True, text=True, errors="replace", timeout=300, stdin=subprocess.DEVNULL)
    if "release --for" in line:
        agent.verb("release", "--end")
    right = ({0, 124} if goes_on else {0, 1, 6} if " plan " in line else {0, 1}) | ({3} if "keeps a day of minutes" in done.stdout else set())
    assert done.returncode in right, f"{done.returncode}: {done.stdout[-500:]} {done.stderr}"
    assert done.stdout or ">" in line or done.returncode == 0, done.stderr
