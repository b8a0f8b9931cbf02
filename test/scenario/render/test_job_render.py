# SPDX-License-Identifier: Apache-2.0
"""`stoker job render`: what it prints is read by those who take it: YAML parsers, bash, kubectl, and the reader of clusters."""
import json
import os
import pathlib
import random
import re
import shutil
import subprocess

import pytest
import yaml

TRAIN = pathlib.Path(__file__).resolve().parents[2] / "data/place/train.yaml"
TARGETS = ["kubernetes", "kueue", "volcano", "slurm"]
HOSTILE = ["", " ", "a b", "it's", '"', "''", "a\nb", "\n", "key: value", "- item", "-x", "#", "a #b", "yes", "NO", "null", "~", "3e-4", "1_000", "0x10", "010", "12:30",
           "2026-01-01", ".inf", "!tag", "&a", "*a", "{a: b}", "[1]", "%d", "@x", "`id`", "$(id)", "$$(A)", "$$", "$", "${HOME}", "$HOME", "\\", "\\n", "a\\'b", "\t", "a:", ":a",
           "!!", "a\x7fb", "\x85", "\x1b[0m", "\u2028", "ü", "\U0001f600", "\ufeff", "|", ">", "? x", "=", "a=b", "*", "~root", "<<EOF", ";", "&&", "\r\n", "--"]


def spell(text):
    """As YAML reads it back, in ASCII."""
    return '"' + "".join(c if " " <= c < "\x7f" and c not in '"\\' else f"\\U{ord(c):08x}" for c in text) + '"'


def describe(command, env=None, **more):
    lines = ["name: job", "image: registry.example/train:1", "nodes: 2", "queue: research", f"command: [{', '.join(map(spell, command))}]"]
    lines += [f"{k}: {json.dumps(v)}" for k, v in more.items()]
    return "\n".join(lines + ["env:"] * bool(env) + [f"  {k}: {spell(v)}" for k, v in (env or {}).items()]) + "\n"


@pytest.fixture
def render(stoker):
    def call(target, text, code=0):
        done = subprocess.run([stoker, "job", "render", "--for", target, "-"], input=text.encode(), capture_output=True, check=False)
        assert done.returncode == code, (done.stdout, done.stderr)
        return (done.stdout if code == 0 else done.stderr).decode()  # with each CR

    return call


def hostile_jobs():
    draw = random.Random(7)
    jobs = [(["prog", text], {"A": text}) for text in HOSTILE]
    jobs += [(["torchrun", "".join(draw.choices(HOSTILE, k=3)), *draw.choices(HOSTILE, k=3)], {"A": "".join(draw.choices(HOSTILE, k=4)), "_b1": draw.choice(HOSTILE)}) for _ in range(60)]
    return jobs


def expand(text):
    """What Kubernetes makes of a text with $(NAME) and $$, of which the tests define none."""
    return re.sub(r"\$\$|\$\([^)]*\)", lambda m: "$" if m[0] == "$$" else f"<{m[0]}>", text)


def container(target, text):
    job = list(yaml.safe_load_all(text))[-1]
    template = job["spec"]["tasks"][0]["template"] if target == "volcano" else job["spec"]["template"]
    return template["spec"]["containers"][0]


@pytest.mark.parametrize("target", TARGETS)
def test_the_whole_is_as_it_was(stoker, golden, target):
    golden(subprocess.run([stoker, "job", "render", "--for", target, TRAIN], capture_output=True, text=True, check=True).stdout, f"place/train.{target}")


def test_kubernetes_is_the_default(stoker, golden):
    golden(subprocess.run([stoker, "job", "render", TRAIN], capture_output=True, text=True, check=True).stdout, "place/train.kubernetes")


@pytest.mark.parametrize("target", ["kubernetes", "kueue", "volcano"])
def test_hostile_texts_arrive_in_the_pod(render, target):
    for command, env in hostile_jobs():
        made = container(target, render(target, describe(command, env)))
        assert [expand(word) for word in made["command"]] == command
        assert {e["name"]: expand(e["value"]) for e in made["env"] if e["name"] in env} == env


def test_kubectl_reads_the_same(render):
    if not shutil.which("kubectl"):
        pytest.skip("there is no kubectl")
    command, env = ["torchrun", *HOSTILE], {f"A{i}": text for i, text in enumerate(HOSTILE)}
    done = subprocess.run(["kubectl", "label", "--local", "-f", "-", "a=b", "-o", "json"], input=render("kubernetes", describe(command, env)), capture_output=True, text=True, check=True)
    decoder, text, at, objects = json.JSONDecoder(), done.stdout.strip(), 0, []
    while at < len(text):
        found, at = decoder.raw_decode(text, at)
        objects.append(found)
        at += len(text[at:]) - len(text[at:].lstrip())
    assert [o["kind"] for o in objects] == ["Service", "Job"]
    made = objects[1]["spec"]["template"]["spec"]["containers"][0]
    assert [expand(word) for word in made["command"]] == command
    assert {e["name"]: expand(e.get("value", "")) for e in made["env"] if e["name"] in env} == env


# --- Slurm

FAKES = {"srun": 'printf "%s\\0" "$@" > "$OUT/argv"; env -0 > "$OUT/env"\n', "scontrol": 'printf "n1\\nn2\\n"\n', "scancel": 'echo "$*" >> "$OUT/scancel"\n'}


@pytest.fixture
def batch(tmp_path):
    """Runs a script as sbatch would on its first node: (exit code, argv of srun, its environment)."""
    for name, text in FAKES.items():
        (tmp_path / name).write_text("#!/bin/bash\n" + text)
        (tmp_path / name).chmod(0o755)

    def run(script, **env):
        assert subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False).stderr == ""
        path = f"{tmp_path}:/usr/bin:/bin"
        done = subprocess.run(["bash"], input=script, capture_output=True, text=True, check=False, cwd=tmp_path,
                              env={"PATH": path, "OUT": str(tmp_path), "SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NNODES": "2", "SLURM_PROCID": "1", **env})
        assert done.stderr == "" or done.returncode != 0, done.stderr
        argv = (tmp_path / "argv").read_bytes().decode().split("\0")[:-1] if (tmp_path / "argv").exists() else None
        environ = dict(e.split("=", 1) for e in (tmp_path / "env").read_bytes().decode().split("\0")[:-1]) if argv else None
        return done.returncode, argv, environ

    return run


def test_srun_gets_the_very_command(render, batch):
    for command, env in hostile_jobs():
        code, argv, environ = batch(render("slurm", describe(command, env)))
        assert code == 0 and argv[:2] == ["--kill-on-bad-exit=1", "--container-image=registry.example#train:1"]
        launcher = command[0] == "torchrun"
        assert argv[2:] == command if launcher else argv[2:4] == ["bash", "-c"] and argv[5:] == ["bash", *command]
        assert env.items() <= environ.items()
        assert environ["MASTER_ADDR"] == "n1" and environ["MASTER_PORT"] == "24711"
        assert environ["WORLD_SIZE"] == ("16" if launcher else "2")
        assert not launcher or environ["PET_RDZV_ENDPOINT"] == "n1:24711" and environ["PET_RDZV_ID"] == "4711" and environ["PET_NNODES"] == "2"


def test_a_program_of_its_own_gets_its_rank(render, batch, tmp_path):
    _, argv, _ = batch(render("slurm", describe(["python", "x.py"])))
    done = subprocess.run([*argv[2:5], "bash", "sh", "-c", 'echo "$RANK $NODE_RANK $LOCAL_RANK"'], env={"SLURM_PROCID": "3", "SLURM_NODEID": "2", "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True)
    assert done.stdout == "3 2 0\n"


def test_a_job_ends_after_its_last_restart(render, batch):
    script = render("slurm", describe(["prog"], restart={"max": 2}))
    assert batch(script, SLURM_RESTART_COUNT="2")[0] == 0
    assert batch(script, SLURM_RESTART_COUNT="3")[0] == 1


def test_out_of_time_the_steps_are_told_and_the_job_is_queued_again(render, batch, tmp_path):
    """The program ends when scancel has told it, as one that saves does."""
    script = render("slurm", describe(["prog"], checkpoint={"every": "30m"}, restart={"max": 1}))
    (tmp_path / "scontrol").write_text('#!/bin/bash\nif [ "$1" = requeue ]; then echo "$*" >> "$OUT/said"; fi\nprintf "n1\\nn2\\n"\n')
    (tmp_path / "srun").write_text('#!/bin/bash\nkill -USR1 "$PPID"; read -r _ < "$OUT/told"; exit 5\n')
    (tmp_path / "scancel").write_text('#!/bin/bash\necho "scancel $*" >> "$OUT/said"; echo > "$OUT/told"\n')
    os.mkfifo(tmp_path / "told")
    assert batch(script, SLURM_RESTART_COUNT="0")[0] == 5
    assert (tmp_path / "said").read_text() == "scancel --signal=TERM 4711\nrequeue 4711\n"
    (tmp_path / "said").unlink()
    assert batch(script, SLURM_RESTART_COUNT="1")[0] == 5  # that was the last one
    assert (tmp_path / "said").read_text() == "scancel --signal=TERM 4711\n"


# --- what is refused, and what is left out


@pytest.mark.parametrize("target, text, says", [
    ("kubernetes", "", "-: is empty"),
    ("kubernetes", "image: x\ncommand: [a]\n", "-:1:1: 'name' is missing"),
    ("kubernetes", "name: a\nimage: x\n", "-:1:1: 'command' is missing"),
    ("kubernetes", "name: a\ncommand: [a]\n", "'image' is missing"),
    ("kubernetes", "name: Train 7\n", "-:1:7: 'name'"),
    ("kubernetes", "name: a\nnodez: 2\n", "nodes"),
    ("kubernetes", "name: a\ngpus: 17\n", "-:2:7:"),
    ("kubernetes", "name: a\ncommand: [a]\nimage: x\nenv: {a-b: c}\n", "-:4:7: env: 'a-b'"),
    ("kubernetes", "name: a\ncommand: [a]\nimage: x\nenv: {A: [c]}\n", "-:4:10:"),
    ("kubernetes", "name: a\ntopology: {required: true}\ncommand: [a]\n", "-:2:22: 'topology.required'"),
    ("kubernetes", "name: a\nnccl: {fabric: tcp, hca: mlx5}\ncommand: [a]\n", "is of fabric infiniband or roce alone"),
    ("kubernetes", "name: a\nnccl: {fabric: infiniband, gid_index: 3}\ncommand: [a]\n", "is of fabric roce alone"),
    ("kubernetes", "name: a\nqueue: a b\n", "-:2:8: 'queue'"),
    ("slurm", "name: a\npartition: \"a\\n#SBATCH --x\"\n", "-:2:12: 'partition'"),
    ("kueue", "name: a\ncommand: [a]\nimage: x\n", "'queue' is missing"),
    ("volcano", "name: a\ncommand: [a]\nimage: x\ntopology: {within: nvlink}\n", "Volcano has no tier for nvlink"),
    ("slurm", "name: a\ncommand: [a]\ntopology: {within: block}\n", "Slurm has no option"),
    ("slurm", "name: a\ncommand: [a]\ntopology: {within: nvlink}\n", "Slurm has no option"),
])
def test_what_is_wrong_is_told_with_its_place(render, target, text, says):
    assert says in render(target, text, code=2)


NCCL = {"infiniband": {"NCCL_SOCKET_IFNAME": "e", "NCCL_IB_HCA": "mlx5"}, "roce": {"NCCL_SOCKET_IFNAME": "e", "NCCL_IB_HCA": "mlx5", "NCCL_IB_GID_INDEX": "3"},
        "efa": {"NCCL_SOCKET_IFNAME": "e", "FI_PROVIDER": "efa"}, "tcp": {"NCCL_SOCKET_IFNAME": "e", "NCCL_IB_DISABLE": "1"}}


@pytest.mark.parametrize("fabric", NCCL)
def test_nccl_gets_what_it_cannot_know(render, batch, fabric):
    nccl = {"fabric": fabric, "interface": "e"} | ({"hca": "mlx5"} if fabric in ("infiniband", "roce") else {}) | ({"gid_index": 3} if fabric == "roce" else {})
    text = describe(["prog"], nccl=nccl)
    made = {e["name"]: e.get("value") for e in container("kubernetes", render("kubernetes", text))["env"]}
    _, _, environ = batch(render("slurm", text))
    for has in (made, environ):
        assert {k: v for k, v in has.items() if k.startswith(("NCCL_", "FI_"))} == NCCL[fabric]


def test_a_variable_of_the_description_is_the_only_one_of_its_name(render):
    made = container("kubernetes", render("kubernetes", describe(["torchrun"], {"MASTER_PORT": "1", "NCCL_DEBUG": "TRACE"}, nccl={"debug": "warn"})))
    assert [e["value"] for e in made["env"] if e["name"] in ("MASTER_PORT", "NCCL_DEBUG")] == ["1", "TRACE"]


# --- the reader of clusters finds the job

NODE = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}}


@pytest.mark.parametrize("target, kind, role", [("kubernetes", "Job", ""), ("kueue", "Job", ""), ("volcano", "Volcano Job", "worker")])
@pytest.mark.parametrize("within, required", [(None, False), ("rack", True), ("block", False)])
def test_the_reader_finds_one_gang(render, build, tmp_path, target, kind, role, within, required):
    more = {"cpus": 96, "memory": "1TiB", "time_limit": "24h", "checkpoint": {"every": "30m"}} | ({"topology": {"within": within, "required": required}} if within else {})
    objects = [NODE, *yaml.safe_load_all(render(target, describe(["torchrun"], **more)))]
    for made in objects[1:]:
        made["metadata"]["namespace"] = "team"
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))
    done = subprocess.run([build / "test/unit/kubernetes/kube_cluster_driver", tmp_path / "cluster.json"], capture_output=True, text=True, check=True)
    queue = "" if target == "kubernetes" else " queue=research"
    domain = f" within={within}{'!' if required else ''}" if within else ""
    assert done.stdout.split("\n")[1:-2] == [f"{kind} team/job priority=0 preemptible{queue}{domain} duration=86400 checkpoint=1800",
                                             f"  role '{role}' 2..2 cpu=96000 memory=1048576 gpus=8"]


def test_the_help_has_every_key(stoker, render):
    page = " ".join(subprocess.run([stoker, "job", "render", "--help"], capture_output=True, text=True, check=True).stdout.split())
    for section in ("", "topology", "checkpoint", "restart", "nccl"):
        says = render("slurm", "name: a\n" + (f"{section}: {{zzz: 1}}\n" if section else "zzz: 1\n"), code=2)
        keys = says.strip().split("allowed: ")[1].split(", ")
        assert all(f"{section}.{key}" in page if section else key in page for key in keys) and len(keys) > 0
