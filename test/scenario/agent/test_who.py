# SPDX-License-Identifier: Apache-2.0
"""`stoker who` and /api/v1/who: what the kubelet and job files declare joined with the processes of a simulated node."""
import json
import pathlib
import subprocess
import sys

import jsonschema
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
    jsonschema.validate(told, SCHEMA)
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


def test_nobody_is_named_where_the_driver_hangs(node, stoker):
    node.inject("hang", "all")
    ask = lambda *words: subprocess.run([stoker, *words, "--alone"], env=node.env, capture_output=True, text=True, timeout=120, check=False)
    text, told, one = ask("who"), ask("who", "--json"), ask("who", "--gpu", "0")
    assert text.returncode == told.returncode == one.returncode == 3, (text, told, one)
    assert text.stdout.count("Not known who holds GPU") == 1 and "Nobody" not in text.stdout
    assert rows(told.stdout) == {} and [g["gpu"] for g in json.loads(told.stdout)["not_known"]] == [None] * 6
    assert all(g["reason"] and g["pci"] for g in json.loads(told.stdout)["not_known"])
    assert "the GPUs cannot be read: " in one.stderr and not one.stdout
    why = ask("why", "0", "--for", "2s")
    assert why.returncode == 3 and "'0' is not found, and not all GPUs can be read: " in why.stderr


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


def plant(tree, pid, name, parent=1, uid=0, files=(), environ=None, start=7):
    """A process that the driver does not list."""
    folder = tree / f"proc/{pid}"
    (folder / "fd").mkdir(parents=True)
    for fd, target in enumerate(files):
        (folder / f"fd/{fd}").symlink_to(target)
    if environ:
        (folder / "environ").write_bytes(b"".join(f"{k}={v}".encode() + b"\0" for k, v in environ.items()))
    (folder / "comm").write_text(name + "\n")
    (folder / "status").write_text(f"Name:\t{name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    (folder / "cgroup").write_text("0::/system.slice\n")
    (folder / "stat").write_text(f"{pid} ({name}) S {parent} 1 1 0 -1 0 0 0 0 0 5 6 0 0 20 0 1 0 {start} 1000000 10 0\n")


def test_gpus_by_the_environment_of_a_slurm_job(node, make_agent):
    """Without prolog files: what a job was given, also where it has not begun, and who is on a GPU without a job."""
    plant(node.tree, 900, "slurmd")
    plant(node.tree, 901, "slurmstepd")
    plant(node.tree, 902, "slurm_script", parent=901, environ={"SLURM_JOB_ID": 4711, "SLURM_JOB_GPUS": "0,4", "CUDA_VISIBLE_DEVICES": "0,1"})
    agent = make_agent(node.env, options=["--sample-slow", "1s", "--owner-series", "2"])
    ask = lambda: rows(agent.verb("who", "--json").stdout)
    wanted = {0: ("4711", "used", "exclusive", "process", "environ"), 4: ("4711", "reserved", "exclusive", "grant", "environ"),
              3: ("carol", "unmanaged", "exclusive", "process", "none")}
    told = lambda f: {gpu: (*kinds(f)[gpu][0], f[gpu][0]["basis"], f[gpu][0]["grant"]) for gpu in wanted if gpu in f}
    until(lambda: told(ask()) == wanted, lambda: f"{told(ask())}\n{agent.log_text()}")
    until(lambda: len((page := agent.page()).all("stoker_owner_share")) == 2 and page.one("stoker_owners_left_out") == 4 and
          page.one("stoker_owner_share", gpu="0", user="alice", hpc_job="4711", attribution="exclusive") == 1,
          lambda: str([s for s in agent.page().series if s[0].startswith("stoker_owner")]))


def test_a_holder_that_the_driver_does_not_list(node, make_agent):
    """A loader whose parent was killed keeps the GPU's memory; a monitor has the GPU open too and holds nothing."""
    computes = ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia3", "/dev/nvidia4", "/dev/nvidia5"]
    plant(node.tree, 910, "pt_data_worker", uid=1001, files=computes)
    plant(node.tree, 911, "monitor", files=[f for f in computes if f != "/dev/nvidia-uvm"])
    agent = make_agent(node.env, options=["--sample-slow", "1s"])
    ask = lambda: rows(agent.verb("who", "--json").stdout)
    until(lambda: identified(ask()) and 5 not in ask(), lambda: str(ask()))
    node.inject("orphan-memory", "gpu=5", "memory=20GiB")
    found = until(lambda: kinds(f := ask()).get(5) == [("alice", "idle_held", "exclusive")] and
                  kinds(f).get(3) == [("carol", "idle_held", "exclusive")] and f,  # where somebody is listed, an open file is nothing
                  lambda: f"{ask()}\n{agent.log_text()}")
    assert found[5][0]["basis"] == "open_file" and [p["pid"] for p in found[5][0]["processes"]] == [910] and 4 not in found
    until(lambda: "pt_data_worker (910) of alice, has it open" in agent.verb("who").stdout, lambda: agent.verb("who").stdout)
    until(lambda: "unlisted_why" not in json.loads(agent.verb("who", "--json").stdout), lambda: agent.verb("who", "--json").stdout)
    (node.tree / "proc/910/fd/4").unlink()  # its last sign
    until(lambda: 5 not in ask(), lambda: str(ask()))


def test_two_containers_of_a_pod_on_one_gpu(make_node, make_agent, tmp_path, tmp_path_factory):
    """The kubelet says which containers have the GPU, its links to their logs which process is in which."""
    kubelet = pytest.importorskip("kubelet", reason="the kubelet's stand-in needs python3-grpcio")
    works = [{"name": name, "kind": "decode", "gpus": "0", "process": name, "user": "root", "pod": "serving/pair", "memory": "10GiB"}
             for name in ("train", "serve")]
    scene = tmp_path / "pair.yaml"
    scene.write_text(yaml.safe_dump(SCENE | {"work": works}))
    node, path = make_node(scene), tmp_path_factory.mktemp("k") / "kubelet.sock"
    agent = make_agent(node.env, options=["-k", "--pod-resources-kubelet-socket", path, "--kubernetes-period", "100ms", "--sample-slow", "1s"])
    ids = until(lambda: (p := agent.gpus()[0].get("processes") or []) and len(p) == 2 and all("container" in one for one in p) and
                {one["name"]: one["container"] for one in p}, lambda: str(agent.gpus()[0]))
    assert len(set(ids.values())) == 2
    uuid = agent.gpus()[0]["uuid"]
    given = ("pair", "serving", [(name, [("nvidia.com/gpu", [f"{uuid}::{i}"])]) for i, name in enumerate(ids)])
    ask = lambda: {one["owner"]["container"]: one for one in rows(agent.verb("who", "--json").stdout).get(0, [])}
    with kubelet.Kubelet(path, kubelet.reply(given)):
        until(lambda: set(ask()) == set(ids.values()), lambda: str(ask()))  # not told which is which yet
        (node.tree / "var/log/containers").mkdir(parents=True)
        for name, container in ids.items():
            (node.tree / f"var/log/containers/pair_serving_{name}-{container}.log").symlink_to("/nowhere")
        wanted = {name: ([name], "kubelet", "used") for name in ids}
        told = lambda: {name: ([p.get("name") for p in one["processes"]], one["grant"], one["state"]) for name, one in ask().items()}
        until(lambda: told() == wanted, lambda: f"{told()}\n{agent.log_text()}")


def test_two_pods_on_a_gpu_are_never_both_the_whole(make_node, make_agent, tmp_path, tmp_path_factory):
    """Time slices and clients of MPS: each pod has its own part on every screen, in the API, in metrics and in the bill."""
    kubelet = pytest.importorskip("kubelet", reason="the kubelet's stand-in needs python3-grpcio")
    one = lambda name, gpu, **more: {"name": name, "kind": "inference", "gpus": gpu, "process": name, "user": "root", "pod": f"serving/{name}",
                                     "memory": "10GiB", **more}
    works = [one("chat", "0"), one("draft", "0", memory="20GiB"), one("left", "1", mps=True), one("right", "1", mps=True),
             {"name": "mps", "kind": "idle-context", "gpus": "1", "process": "nvidia-cuda-mps-server", "user": "root", "memory": "28MiB"}]
    scene = tmp_path / "shared.yaml"
    scene.write_text(yaml.safe_dump(SCENE | {"work": works}))
    node, path = make_node(scene), tmp_path_factory.mktemp("k") / "kubelet.sock"
    agent = make_agent(node.env, options=["-k", "--pod-resources-kubelet-socket", path, "--kubernetes-period", "100ms", "--sample-slow", "1s",
                                          "--owner-series", "50", "--journal", tmp_path / "journal.db"])
    pods = [["chat", "draft"], ["left", "right"]]
    uuids = {g["index"]: g["uuid"] for g in agent.gpus()}
    given = [(name, "serving", [("main", [("nvidia.com/gpu", [f"{uuids[gpu]}::{i}"])])]) for gpu in (0, 1) for i, name in enumerate(pods[gpu])]

    def whole():
        found, page = rows(agent.verb("who", "--json").stdout), agent.page()
        assert set(found) == {0, 1}
        for gpu in (0, 1):
            assert sorted((one["owner"]["pod"], one["state"], one["attribution"]) for one in found[gpu]) == \
                [(name, "used", "sampled") for name in pods[gpu]], found[gpu]
            assert all(0.3 < one["share"] < 0.7 for one in found[gpu]), found[gpu]
            part = lambda metric: {labels["pod"]: value for labels, value in page.all(metric, gpu=str(gpu))}
            shares, util, memory = part("stoker_owner_share"), part("DCGM_FI_DEV_GPU_UTIL"), part("DCGM_FI_DEV_FB_USED")
            assert set(shares) == set(util) == set(memory) == set(pods[gpu])
            assert abs(sum(shares.values()) - 1) < 1e-9 and max(shares.values()) < 0.7
            assert memory == {name: 20480 if name == "draft" else 10240 for name in pods[gpu]}
            assert min(util.values()) > 0
        holdings = agent.json("/api/v1/gpus")[1]["holdings"]
        assert len(holdings) == 4 and all(0.3 < one["share"] < 0.7 for one in holdings)
        for name in sum(pods, []):  # the screen of status, as top's and the page's: with the part and how it was found
            assert any(f"serving/{name}" in line and "sampled" in line for line in agent.verb("status").stdout.splitlines())

    def billed():
        told = json.loads(agent.verb("cost", "--json", "--by", "pod", "--journal", tmp_path / "journal.db").stdout)
        hours = {one["owner"]: one["gpu_hours"] for one in told["owners"]}
        assert all(hours.get(f"serving/{name}", 0) > 3 / 3600 for name in sum(pods, [])), hours
        assert sum(hours.values()) + sum(told[f"{kind}_gpu_hours"] for kind in ("unallocated", "unhealthy", "unknown")) == \
            pytest.approx(told["total_gpu_hours"], rel=1e-6)

    with kubelet.Kubelet(path, kubelet.reply(*given)):
        settles(whole)
        settles(billed)


def test_from_another_pid_namespace(make_node, make_agent, tmp_path):
    """No process is visible, neither in /proc nor by the driver: who holds a GPU is unknown, and nobody's is only the free one."""
    scene = tmp_path / "hidden.yaml"
    scene.write_text(yaml.safe_dump(SCENE | {"node": {"pids": "unlisted"}}))
    agent = make_agent(make_node(scene).env, options=["--sample-slow", "1s"])
    ask = lambda: rows(agent.verb("who", "--json").stdout)
    wanted = {gpu: [(None, "idle_held" if gpu == 3 else "used", "unknown")] for gpu in range(4)}
    found = until(lambda: kinds(f := ask()) == wanted and f, lambda: f"{ask()}\n{agent.log_text()}")
    assert {(one["basis"], one["processes"] == []) for held in found.values() for one in held} == {("memory", True)}

    def said():
        text = agent.verb("who").stdout
        assert "Nobody holds GPU 4, 5" in text and "a pod needs hostPID" in text and text.count("unknown") == 8
    settles(said)


def test_who_held_them_since(node, make_agent, stoker, tmp_path):
    """By the ledger: with an agent, and from its journal where none runs any more."""
    journal = tmp_path / "journal.db"
    agent = make_agent(node.env, options=["--journal", journal])

    def held(*words):
        told = json.loads(agent.verb("who", "--since", "1h", "--json", *words).stdout)
        jsonschema.validate(told, SCHEMA)
        return told
    hours = lambda *words: {one["owner"]: one["gpu_hours"] for one in held("--by", "user", *words)["owners"]}
    until(lambda: all(hours()[user] > 0 for user in ("alice", "root", "bob", "carol")), lambda: str(hours()))
    until(lambda: set(hours("--gpu", "0")) <= {"alice", None} and hours("--gpu", "0")["alice"] > 0, lambda: str(hours("--gpu", "0")))
    until(lambda: held()["unheld_gpu_hours"] > 0, lambda: str(held()))  # GPUs 4 and 5
    shared = lambda: {one["owner"]["pod"] for one in held()["held"] if one["attribution"] in ("sampled", "even")}
    until(lambda: shared() == {"chat-0", "draft-0"}, lambda: str(held()))
    assert agent.verb("who", "--since", "yesterday").returncode == 2
    agent.stop()
    done = subprocess.run([stoker, "who", "--since", "1h", "--by", "job", "--journal", journal], env=node.env, capture_output=True, text=True)
    assert done.returncode == 0 and "4711" in done.stdout, done.stdout + done.stderr


def test_owners_of_mig_instances(make_node, make_agent, tmp_path):
    """Each instance has its own owner, now and in the ledger, and what nobody uses nobody pays."""
    works = [{"name": "chat", "kind": "decode", "gpus": "0", "mig": "0", "process": "vllm", "user": "alice", "job": "4711.0"},
             {"name": "search", "kind": "inference", "gpus": "0", "mig": "1", "process": "tritonserver", "user": "bob"}]
    scene = tmp_path / "mig.yaml"
    scene.write_text(yaml.safe_dump({"about": "who", "node": {"cgroups": "systemd"}, "work": works, "truth": [],
                                     "gpus": {"board": "h100-sxm-80gb", "count": 1, "mig": ["3g.40gb", "2g.20gb", "1g.10gb"]}}))
    agent = make_agent(make_node(scene).env, options=["--journal", tmp_path / "journal.db"])

    def now():
        held = json.loads(agent.verb("who", "--json").stdout)["allocations"]
        return sorted((one["owner"]["user"], one["owner"]["job"], one["attribution"], one["share"], one["instance"] is not None)
                      for one in held)
    until(lambda: now() == [("alice", "4711", "mig", 1, True), ("bob", None, "mig", 1, True)], lambda: str(now()))

    def past():
        held = json.loads(agent.verb("who", "--since", "1h", "--json").stdout)["held"]
        return {(one["owner"]["user"], one["attribution"]): one["device"] for one in held if one["gpu_hours"] > 0}
    devices = until(lambda: len(p := past()) >= 2 and (p["alice", "mig"], p["bob", "mig"]), lambda: str(past()))
    assert len(set(devices)) == 2 and all("/gi/" in device for device in devices), devices
