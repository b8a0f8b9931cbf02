#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the recordings beside it: plays scenarios of the library, each on a simulated node with an agent beside it, and keeps what
`stoker status --json` prints, a few snapshots each, one a line, gzipped.

    test/data/top/record.py --build build [NAME...]

The tests of `stoker top` draw them. Readings differ a little each time, so that the golden screens have to be made anew with them:
STOKER_UPDATE=1 with the test `top screens`. A few are made from others by hand here, as no scenario has what they are for:
"shared" has several owners on one GPU, "many" has 120 processes with users, pods, Slurm jobs and containers, "pods" gives each MIG device to a pod. Who the processes of all
others are is what the simulated node says. Who holds what follows from that by the same words as in the agent."""
import argparse
import gzip
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "test/scenario/agent")]
import agent_rig as rig  # noqa: E402
import trial  # noqa: E402

LOOKS = 2
MIG = {"board": "h100-sxm-80gb", "count": 8, "mig": ["1g.10gb"] * 7}
TRIALS = [t for t in trial.TRIALS if t.name not in ("fabric-not-ready", "oom-kill", "remap-failure")] + [
    trial.Trial("default", 0, None, None),
    trial.Trial("remap-failure", 600, "GPU 4", "row-remap-failed"),
    trial.Trial("fabric-not-ready", 0, "the fabric", "fabric", speed=40),
    trial.Trial("mig-balanced", 0, None, None),
    trial.Trial("page-retirement-t4", 0, None, None),
    trial.Trial("healthy-mixed-boards", 0, None, None),
    trial.Trial("idle-holding-memory", 0, None, None),
    trial.Trial("hung-collective", 720, None, None),
    trial.Trial("gpu-not-started", 0, None, None),
    trial.Trial("tiny-kernels", 0, None, None),
    trial.Trial("healthy-training", 0, None, None, name="maintenance"),
]


def ready(node, agent, one):
    virtual = float(re.search(r'"virtual_ns": ?(\d+)', node.sim("clock", "--json")).group(1)) / 1e9
    incidents = agent.json("/api/v1/incidents?state=open")[1]["incidents"]
    return (not one.fault or any(i["class"] == one.fault for i in incidents)) and virtual > trial.FAULT_AT + 60


def play(stoker, one):
    """Looks of a scenario, as texts."""
    with tempfile.TemporaryDirectory() as folder, trial.node_and_agent(
            stoker, pathlib.Path(folder), trial.brought_forward(one), one.speed) as (node, agent):
        def run(*words):
            return subprocess.run([stoker, *words, "--control", agent.control], env=node.env, capture_output=True, text=True).stdout

        rig.until(lambda: ready(node, agent, one), lambda: run("status"))
        if one.name == "maintenance":
            assert run("maintenance", "start", "--for", "2h", "--reason", "new fans", "--gpu", "0", "--gpu", "1"), "no window began"
        looks = []
        for _ in range(LOOKS):
            time.sleep(1)
            looks.append(json.loads(run("status", "--json")))
        return with_commands(looks, node.tree)


def renamed(looks):
    """The same host, boot and incident ids each time, so that a new recording differs in what matters alone."""
    text = "\n".join(json.dumps(look, separators=(",", ":")) for look in looks)
    text = re.sub(r'"boot_id":"[^"]*"', '"boot_id":"6f9d2f0e-3b52-4c1f-a8d7-5e0c1b2a3f4d"', text)
    text = text.replace(f'"hostname":{json.dumps(looks[0]["node"]["node"]["hostname"])}', '"hostname":"node-7"')
    for number, found in enumerate(dict.fromkeys(i["id"] for look in looks for i in look["incidents"])):
        text = text.replace(found, f"1jf8v3k2{chr(ord('m') + number)}".ljust(len(found), "0"))
    return [json.loads(line) for line in text.split("\n")]


def with_commands(looks, tree):
    """Command lines of the processes, which `stoker top` reads itself where it runs on the node."""
    for p in (p for look in looks for gpu in look["node"]["gpus"] for p in (gpu.get("processes") or [])):
        path = tree / f"proc/{p['pid']}/cmdline"
        if path.exists():
            p["command"] = path.read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode()
    return looks


def many(looks):
    """120 processes of five users on eight GPUs, in pods, jobs and containers."""
    for number, look in enumerate(looks):
        for index, gpu in enumerate(look["node"]["gpus"]):
            gpu["processes"] = [who(index, k, number) for k in range(15)]
        look["node"]["holdings"] = [one for gpu in look["node"]["gpus"] for one in held(gpu)]
    return looks


def who(gpu, k, look):
    pid = 4000 + gpu * 100 + k
    user, name = [("alice", "python3"), ("bob", "vllm"), ("carol", "tritonserver"), ("dave", "jupyter-lab"), ("erin", "a.out")][k % 5]
    one = {"pid": pid, "kind": "graphics" if k == 14 else "compute", "used_bytes": (1 + 97 * (k + gpu) % 41) * 2**27, "name": name,
           "user": user, "uid": 1000 + k % 5, "rss_bytes": (pid * 7919 * 65537) % 2**34, "cpu_seconds": pid + look * (k % 4) * 0.4,
           "start_seconds": 1000 + k * 9000, "state": "R"}
    if k % 3 != 2:
        one["sm_percent"] = (k * 7 + gpu) % 30
    if k % 5 == 0:
        one |= {"job": f"{4711 + gpu}.0", "command": "python3 -m torch.distributed.run --nproc-per-node=8 train.py --config big.yaml"}
    elif k % 5 == 1:
        one |= {"runtime": "containerd", "container": hashlib.sha256(str(pid).encode()).hexdigest(), "pod_uid": f"0b1c-{pid}", "pod": f"chat-{gpu}-7d9f",
                "namespace": "serving", "command": "vllm serve meta/llama --tensor-parallel-size 2"}
    elif k % 5 == 2:
        one |= {"runtime": "docker", "container": hashlib.sha256(str(pid).encode()).hexdigest(), "command": "/opt/tritonserver/bin/tritonserver --model-repository=/m"}
    return one


def holding(gpu, instance, owner, share, how, processes=()):
    names = dict.fromkeys(("user", "job", "account", "pod", "namespace", "container", "process"))
    return {"gpu": gpu["index"], "uuid": gpu["uuid"], "instance": instance, "owner": names | {"pid": None} | owner, "state": "used",
            "attribution": how, "activity": "working", "share": share, "sm_share": None,
            "memory_bytes": sum(p["used_bytes"] for p in processes), "processes": [{"pid": p["pid"]} for p in processes]}


def held(gpu):
    """Of one GPU with the processes of many(): by job, pod, container and user, with equal parts."""
    owners = {}
    for p in gpu["processes"]:
        key = ("job", p["job"].split(".")[0]) if "job" in p else ("pod", p["pod"]) if "pod" in p else ("container", p.get("container"))
        owners.setdefault((key, p["user"]), []).append(p)
    return [holding(gpu, None, {key[0]: key[1], "user": user, "namespace": found[0].get("namespace"), "process": found[0]["name"],
                                "pid": found[0]["pid"]}, 1 / len(owners), "even", found) for (key, user), found in owners.items()]


def pods(looks):
    for look in looks:
        look["node"]["holdings"] = [
            holding(gpu, {"gpu_instance": one["gpu_instance"], "compute_instance": one["compute_instance"]},
                    {"pod": f"notebook-{gpu['index']}{k}", "namespace": "lab", "container": "main"}, 1, "mig")
            for gpu in look["node"]["gpus"] for k, one in enumerate(gpu["instances"])]
        for gpu in look["node"]["gpus"]:
            for k, instance in enumerate(gpu["instances"]):
                instance["owners"] = [{"kind": "pod", "pod": f"notebook-{gpu['index']}{k}", "namespace": "lab", "container": "main"}]
    return looks


def shared(looks):
    """GPU 4 is in two pods' hands, a third has it reserved, and a process that nobody was given the GPU for runs there too."""
    for look in looks:
        gpu = look["node"]["gpus"][4]
        parts = (("chat-0", 0.62, "used"), ("tune-1", 0.3, "idle_held"), ("batch-2", 0, "reserved"))
        rows = [holding(gpu, None, {"pod": pod, "namespace": "serving", "container": "main"}, part, "sampled") | {"state": state, "memory_bytes": int(part * 2**35)}
                for pod, part, state in parts]
        rows.append(holding(gpu, None, {"user": "mallory", "process": "xmrig", "pid": 666}, 0.08, "sampled") | {"state": "unmanaged"})
        look["node"]["holdings"] = [one for one in look["node"]["holdings"] if one["gpu"] != 4] + rows
    return looks


MADE = {"many": ("healthy-training", many), "pods": ("mig-balanced", pods), "shared": ("idle-holding-memory", shared)}


def write(name, looks):
    path = HERE / f"{name}.ndjson.gz"
    text = "".join(json.dumps(look, separators=(",", ":"), ensure_ascii=False) + "\n" for look in looks)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{path.relative_to(ROOT)}: {len(looks)} looks, {path.stat().st_size} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    for one in TRIALS:
        if not options.names or one.name in options.names:
            write(one.name, renamed(play(options.build.resolve() / "stoker", one)))
    for name, (base, make) in MADE.items():
        if not options.names or name in options.names:
            text = gzip.decompress((HERE / f"{base}.ndjson.gz").read_bytes()).decode()
            write(name, make([json.loads(line) for line in text.splitlines()]))


if __name__ == "__main__":
    main()
