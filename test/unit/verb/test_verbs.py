# SPDX-License-Identifier: Apache-2.0
"""The command line as a person meets it: help, errors, exit codes, and the verbs of the simulated node."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

VERBS = [["sim", "run"], ["sim", "env"], ["sim", "list"], ["sim", "show"], ["sim", "inject"], ["sim", "clock"], ["help"],
         ["version"], ["trace"], ["trace", "cut"], ["trace", "diff"], ["nccl"], ["xid"], ["runbook"],
         ["incidents"], ["incidents", "show"], ["incidents", "clear"], ["events"], ["check"], ["maintenance", "start"],
         ["maintenance", "stop"], ["maintenance", "list"], ["rules"], ["run"],
         ["place", "slurm"], ["slurm", "topology"], ["mig", "plan"], ["mig", "apply"], ["mig", "assert"], ["mig", "export"], ["mig", "checkpoint"], ["mig", "restore"]]


@pytest.fixture
def run(stoker, tmp_path):
    """run(words...): the finished process; nodes made by it are in a folder of this test."""
    runtime = tmp_path / "nodes"
    env = {k: v for k, v in os.environ.items() if not k.startswith("STOKER_SIM")}
    env.update(STOKER_SIM_RUNTIME=str(runtime), COLUMNS="100")

    def call(*words, **more):
        return subprocess.run([stoker, *words], env={**env, **more.pop("env", {})}, capture_output=True, text=True,
                              timeout=120, check=False, **more)

    call.env = env
    call.runtime = runtime
    return call


@pytest.fixture
def node(run):
    """A node of its own: env of a client, clock standing at 0."""

    def make(scenario="default", *options):
        done = run("sim", "env", "--speed", "0", *options, scenario)
        assert done.returncode == 0, done.stderr
        script = done.stdout + 'printf "%s\\n" "$STOKER_SIM" "$LD_LIBRARY_PATH" "$PATH"'
        image, libraries, path = subprocess.run(["sh", "-c", script], env=run.env, capture_output=True, text=True,
                                                check=True).stdout.split("\n")[:3]
        return {"STOKER_SIM": image, "LD_LIBRARY_PATH": libraries, "PATH": path}

    return make


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_every_verb_has_help_with_an_example(run, words):
    done = run(*words, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: stoker {' '.join(words)}")
    assert "Examples:" in done.stdout and "Exit codes:" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100 or words == ["sim", "run"]
    assert run("help", *words).stdout == done.stdout


def test_every_verb_has_a_man_page(run, tmp_path):
    assert run("help", "--man-pages", tmp_path / "new/man1").returncode == 0
    pages = {path.name: path.read_text() for path in (tmp_path / "new/man1").iterdir()}
    assert set(pages) >= {"-".join(["stoker", *words]) + ".1" for words in VERBS}
    for file, page in pages.items():
        words = file.removesuffix(".1").split("-")
        name = "\\-".join(words)
        assert page.startswith(f".TH {name.upper()} 1 ") and f"{name} \\- " in page
        assert page == run("help", "--man", *words[1:]).stdout
    assert all(f"\n.B stoker {verb}\n" in pages["stoker.1"] for verb in {words[0] for words in VERBS})
    assert run("help", "--man-pages", "/dev/null/no").returncode == 3


WORDS = [
    (["t"], "top trace"),
    (["sim", ""], "--help run env list show inject clock"),
    (["sim", "r"], "run"),
    (["sim", "run", "--kernel-log-f"], "--kernel-log-format"),
    (["sim", "run", "--kernel-log-format", ""], "kmsg dmesg"),
    (["sim", "run", "--kernel-log-format", "=", "d"], "dmesg"),
    (["sim", "run", "--kernel-log-format", "="], "kmsg dmesg"),
    (["sim", "run", "--no-p"], "--no-processes"),
    (["sim", "run", "default", "--se"], "--seed"),
    (["sim", "run", "default", "s"], ""),
    (["sim", "clock", "--im"], "--image"),
    (["run", "--ke"], ""),
    (["top", "--interval", ""], ""),
    (["top", "--view", "p"], "processes"),
    (["sim", "run", "xid-79"], "xid-79-lost"),
    (["runbook", "gpu-lo"], "gpu-lost"),
    (["dashboard", "grafana", "on"], "on-call"),
    (["--h"], "--help"),
]


@pytest.mark.parametrize("words, reply", WORDS)
def test_completion_in_bash(run, stoker, words, reply):
    script = run("help", "--completion").stdout
    assert script == run("help", "--completion", "bash").stdout
    ask = 'eval "$1"; COMP_WORDS=("$2" "${@:3}"); COMP_CWORD=$(($# - 2)); _stoker; echo "${COMPREPLY[*]}"'
    done = subprocess.run(["bash", "--norc", "-c", ask, "bash", script, str(stoker), *words], capture_output=True, text=True,
                          check=True)
    assert done.stdout.strip() == reply and done.stderr == ""


def joined(words):
    """As those shells have it that do not part --flag=value."""
    if "=" not in words:
        return words, ""
    at = words.index("=")
    return [*words[:at - 1], f"{words[at - 1]}={''.join(words[at + 1:])}"], words[at - 1] + "="


@pytest.mark.skipif(not shutil.which("fish"), reason="no fish on this machine")
@pytest.mark.parametrize("words, reply", WORDS)
def test_completion_in_fish(run, stoker, tmp_path, words, reply):
    (tmp_path / "stoker.fish").write_text(run("help", "--completion", "fish").stdout)
    words, front = joined(words)
    ask = "source $argv[1]; complete -C (string join -- ' ' stoker $argv[2..])"
    env = {"PATH": f"{stoker.parent}:/usr/bin:/bin", "HOME": str(tmp_path), "TERM": "dumb"}
    done = subprocess.run(["fish", "--no-config", "-c", ask, tmp_path / "stoker.fish", *words], capture_output=True, text=True, check=True,
                          env=env, cwd=tmp_path)
    offered = [line.split("\t")[0] for line in done.stdout.splitlines()]
    assert {w for w in offered if w.startswith(front) and w != "stoker.fish"} >= {front + w for w in reply.split()}
    if reply:
        assert {w for w in offered if not w.startswith("-")} <= {front + w for w in reply.split()} | {"stoker.fish"}


@pytest.mark.skipif(not shutil.which("zsh"), reason="no zsh on this machine")
@pytest.mark.parametrize("words, reply", WORDS)
def test_completion_in_zsh(run, stoker, tmp_path, words, reply):
    """With stand-ins for what only the line editor has."""
    (tmp_path / "_stoker").write_text(run("help", "--completion", "zsh").stdout)
    words, _ = joined(words)
    ask = """
        compdef() { : }
        compset() { PREFIX=${PREFIX#*=} }
        compadd() { shift; for each in "$@"; do [[ $each == $PREFIX* ]] && offered+=($each); done; (($#offered)) }
        _files() { : }
        source $1
        words=("${@:2}") CURRENT=$(($# - 1)) PREFIX=${@[-1]} offered=()
        _stoker
        print -- $offered
    """
    done = subprocess.run(["zsh", "-f", "-c", ask, "zsh", tmp_path / "_stoker", stoker, *words], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == reply and done.stderr == ""


def test_completion_names_its_shells(run):
    assert run("help", "--completion", "tcsh").returncode == 2


@pytest.mark.parametrize("words, said", [
    (["rum"], "no verb 'rum'"),
    (["sim", "rum"], "did you mean 'run'"),
    (["sim", "run", "--spede", "3", "default"], "did you mean --speed"),
    (["sim", "run", "--speed", "fast", "default"], "--speed"),
    (["sim", "run", "--speed", "-1", "default"], "--speed"),
    (["sim", "run"], "which scenario"),
    (["sim", "run", "defualt"], "did you mean 'default'"),
    (["sim", "run", "--start", "yesterday", "default"], "--start 'yesterday'"),
    (["sim", "run", "--enter", "default"], "--enter needs a command"),
    (["sim", "show", "default", "other"], "at most one scenario"),
    (["sim", "show", "defualt"], "did you mean 'default'"),
    (["jobs", "--control", "x", "show", "4711"], "options stand behind 'show': stoker jobs show [OPTION...]"),
    (["sim", "env"], "takes one scenario"),
    (["version", "3"], "takes no argument"),
])
def test_usage_errors_say_what_is_wrong(run, words, said):
    done = run(*words)
    assert done.returncode == 2
    assert said in done.stderr and done.stderr.startswith("stoker") and done.stdout == ""


def test_version(run):
    assert re.fullmatch(r"stoker \d+\.\d+\.\d+\n", run("version").stdout)
    assert json.loads(run("version", "--json").stdout)["version"]


def test_list_names_what_the_files_say(run):
    scenarios = json.loads(run("sim", "list", "--json").stdout)
    names = [s["name"] for s in scenarios]
    assert len(names) >= 25 and names == sorted(names) and "xid-79-lost" in names
    lost = next(s for s in scenarios if s["name"] == "xid-79-lost")
    assert lost["truth"] and lost["gpus"] == 8
    assert [line.split()[0] for line in run("sim", "list").stdout.splitlines()] == names
    assert {b["key"] for b in json.loads(run("sim", "list", "--boards", "--json").stdout)} >= {"t4", "b200-180gb"}


def test_truth_and_text_of_a_scenario(run):
    assert re.search(r"\nxid-79-lost .*\n    gpu 3.*gpu-lost", run("sim", "list", "--truth").stdout)
    text = run("sim", "show", "xid-79-lost").stdout
    assert text.startswith("# SPDX") and "code: 79" in text


def test_a_bad_scenario_of_ones_own_says_where(run, tmp_path):
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "mine.yaml").write_text("about: mine\ngpus: {board: h100-sxm-80gb, count: 99}\ntruth: []\n")
    done = run("sim", "run", "mine", "--", "true", env={"STOKER_SIM_DATA": str(tmp_path)})
    assert done.returncode == 2
    assert re.search(r"mine\.yaml:2:\d+: ", done.stderr) and "1 to 16" in done.stderr


def test_no_node_to_ask(run):
    for words in (["sim", "show"], ["sim", "clock"], ["sim", "inject", "xid", "79", "gpu=0"]):
        done = run(*words)
        assert done.returncode == 3 and "no simulated node runs" in done.stderr


def test_something_else_is_not_a_node(run, tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"x" * 4096)
    done = run("sim", "show", "--image", str(other))
    assert done.returncode == 3 and "not the image of a simulated node" in done.stderr


def test_clock(run, node):
    env = node()
    show = lambda: json.loads(run("sim", "clock", "--json", env=env).stdout)
    assert show()["virtual_ns"] == 0 and show()["speed"] == 0
    run("sim", "clock", "step", "1h30m", env=env)
    assert show()["virtual_ns"] == 5400 * 10**9
    run("sim", "clock", "speed", "1000", env=env)
    before = show()["virtual_ns"]
    time.sleep(0.05)
    assert show()["virtual_ns"] > before + 10 * 10**9
    run("sim", "clock", "pause", env=env)
    assert show()["virtual_ns"] == show()["virtual_ns"]
    for words in (["step"], ["step", "backwards"], ["speed", "-1"], ["jump", "3"]):
        assert run("sim", "clock", *words, env=env).returncode == 2


def test_inject_changes_what_clients_see(run, node):
    env = node("healthy-training")
    smi = lambda *words: subprocess.run(["nvidia-smi", *words], env={**run.env, **env}, capture_output=True, text=True,
                                        check=False)
    run("sim", "clock", "step", "5m", env=env)
    assert smi("-L").returncode == 0
    assert run("sim", "inject", "xid", "79", "gpu=3", env=env).returncode == 0
    run("sim", "clock", "step", "1s", env=env)
    assert smi("-L").returncode == 15
    state = json.loads(run("sim", "show", "--json", env=env).stdout)
    assert [g["lost"] for g in state["gpus"]] == [0, 0, 0, 1, 0, 0, 0, 0]
    assert all(g["window"][0] > 0.99 and g["window"][1] < 0.2 for g in state["gpus"] if not g["lost"])  # waiting for it
    assert "XID 79" in run("sim", "show", env=env).stdout


def test_inject_work_and_its_listing(run, node):
    env = node("healthy-mixed-boards")
    assert run("sim", "inject", "work", "decode", "gpus=0", "memory=1GiB", env=env).returncode == 0
    run("sim", "clock", "step", "10s", env=env)
    state = json.loads(run("sim", "show", "--json", env=env).stdout)
    assert any(abs(p["mib"] - 1024) < 1 for p in state["gpus"][0]["processes"])
    listed = run("sim", "inject", "--list").stdout
    assert "hang" in listed and "ecc" in listed and "work train" in listed


@pytest.mark.parametrize("words", [["xid", "79", "gpu=99"], ["xxid", "79"], ["xid", "79", "colour=red", "gpu=0"], []])
def test_inject_refuses_what_makes_no_sense(run, node, words):
    before = node()
    done = run("sim", "inject", *words, env=before)
    assert done.returncode == 2 and done.stderr


def test_the_same_time_shows_the_same_bytes(run, node):
    texts = set()
    for _ in range(2):
        env = node("a-bad-week", "--start", "2026-01-05T08:00:00Z")
        run("sim", "clock", "step", "70h", env=env)
        texts.add(run("sim", "show", "--json", env=env).stdout)
        texts.add(run("sim", "show", "--json", env=env).stdout)
        os.unlink(env["STOKER_SIM"])
    assert len(texts) == 1 and len(texts.pop()) > 5000


def test_run_passes_the_exit_code_on(run):
    assert run("sim", "run", "default", "--", "sh", "-c", "exit 7").returncode == 7
    assert run("sim", "run", "default", "--", "sh", "-c", "kill -TERM $$").returncode == 143
    assert run("sim", "run", "default", "--", "no-such-command").returncode == 127


def test_run_lends_living_processes(run):
    for pause in (0.3, 3, 30):  # until each has its name
        done = run("sim", "run", "default", "--", "sh", "-c",
                   f"sleep {pause}; nvidia-smi --query-compute-apps=pid,name --format=csv,noheader | "
                   "while IFS=', ' read pid name; do echo $pid $name $(cat /proc/$pid/comm); done")
        rows = [line.split() for line in done.stdout.splitlines()]
        if len(rows) >= 5 and all(row[1:2] == row[2:] for row in rows):
            break
    else:
        raise AssertionError(done)
    pids = [int(row[0]) for row in rows]
    end = time.monotonic() + 120
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < end, pids
        time.sleep(0.02)


def test_run_leaves_nothing_behind(run, stoker):
    with subprocess.Popen([stoker, "sim", "run", "default"], env=run.env, stdout=subprocess.PIPE, text=True) as running:
        assert "8 GPUs" in running.stdout.readline()
        there = {path.name.partition(".")[2].lstrip("0123456789") for path in run.runtime.iterdir()}
        assert there == {".img", ".img.tree"} or running.kill()
        assert run("sim", "show").returncode == 0  # finds the only one
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=120) == 0
    assert list(run.runtime.iterdir()) == []


def shown(script, run, *options, env=None):
    """What a shell inside `sim run` prints, by lines."""
    return run("sim", "run", *options, "default", "--", "sh", "-c", script, env=env or {}).stdout.splitlines()


def test_run_has_a_tree_of_its_own(run, tmp_path):
    """So that nothing is taken for the node's that is this machine's: its files, and its processes."""
    root, version, *pids = shown('echo $STOKER_ROOT; grep -c 590.48 $STOKER_ROOT/proc/driver/nvidia/version; '
                                 'nvidia-smi --query-compute-apps=pid --format=csv,noheader', run)
    assert root.startswith(str(run.runtime)) and version == "1" and len(pids) == 8 and not pathlib.Path(root).exists()
    owners = shown('for pid in $(nvidia-smi --query-compute-apps=pid --format=csv,noheader); do cat $STOKER_ROOT/proc/$pid/cgroup; done', run)
    assert sum("/job_4711/" in line for line in owners) == 4 and sum("docker-" in line for line in owners) == 2
    assert shown("echo =$STOKER_ROOT", run, "--tree", str(tmp_path / "named")) == [f"={tmp_path}/named"]
    assert shown("echo =$STOKER_ROOT", run, env={"STOKER_ROOT": "/elsewhere"}) == ["=/elsewhere"]
    assert list(run.runtime.iterdir()) == []


def test_made_up_pids_are_nobodys(run):
    """No process of this machine can have such a pid: whoever looks in its /proc finds nothing, whoever kills hits nothing."""
    pids = shown("nvidia-smi --query-compute-apps=pid --format=csv,noheader", run, "--no-processes", env={"STOKER_ROOT": ""})
    assert len(pids) == 8 and min(map(int, pids)) >= 4194304


def test_a_killed_run_is_forgotten(run, stoker):
    with subprocess.Popen([stoker, "sim", "run", "default"], env=run.env, stdout=subprocess.PIPE, text=True) as running:
        running.stdout.readline()
        running.kill()
        running.wait(timeout=120)
    assert len(list(run.runtime.iterdir())) == 2
    assert run("sim", "show").returncode == 3
    assert list(run.runtime.iterdir()) == []


def test_a_killed_run_takes_its_command_along(run, stoker):
    with subprocess.Popen([stoker, "sim", "run", "default", "--", "sh", "-c", "echo $$; exec sleep 1000"], env=run.env,
                          stdout=subprocess.PIPE, text=True) as running:
        command = int(running.stdout.readline())
        running.kill()
    end = time.monotonic() + 120
    while os.path.exists(f"/proc/{command}"):
        assert time.monotonic() < end, os.kill(command, 9)
        time.sleep(0.02)


ENTERED = r"""
grep ^SigBlk /proc/self/status
stat -c '%F %a' /dev/nvidia0
test -c /dev/kmsg && echo the machine\'s log
until grep -q 'Xid (PCI:0000:61:00): 79' /dev/kmsg; do sleep 0.05; done
ls -L /usr/lib64/libcuda.so.590.48.01 /usr/lib64/libnvidia-ml.so.1 /usr/lib64/libnvidia-ml.so.590.48.01
cmp /usr/lib64/libnvidia-ml.so.1 ${LD_LIBRARY_PATH%%:*}/libnvidia-ml.so.1 && echo the same
"""


def test_a_command_inside_has_the_nodes_files_and_signals(run):
    """With signals blocked, slurmd and the agent could not be stopped; nvidia-ctk wants nodes, and libraries named by version."""
    may = subprocess.run(["unshare", "-m", "--propagation", "private", "true"], capture_output=True, check=False)
    if os.geteuid() != 0 or may.returncode:
        pytest.skip("a mount namespace of its own is for root")
    done = run("sim", "run", "--enter", "--speed", "3000", "xid-79-lost", "--", "sh", "-c", ENTERED)
    blocked, node, *rest = done.stdout.splitlines()
    ours = [signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD]
    assert not int(blocked.split()[1], 16) & sum(1 << number - 1 for number in ours), blocked
    assert node == "character special file 666" or "symbolic link" in node, done.stdout  # where no device may be made
    assert rest == ["/usr/lib64/libcuda.so.590.48.01", "/usr/lib64/libnvidia-ml.so.1", "/usr/lib64/libnvidia-ml.so.590.48.01",
                    "the same"], done.stdout + done.stderr
    assert run("sim", "run", "--enter", "default", "--", "no-such-command").returncode == 127


def test_a_full_disk_is_said(run, node):
    env = node()
    with open("/dev/full", "w") as full:
        done = subprocess.run(["stoker", "sim", "show", "--json"], env={**run.env, **env}, stdout=full,
                              stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 3 and "could not be written" in done.stderr


def test_kernel_log_and_tree(run, tmp_path):
    log, tree = tmp_path / "kmsg", tmp_path / "tree"
    done = run("sim", "run", "--speed", "3000", "--kernel-log", str(log), "--tree", str(tree), "xid-79-lost", "--", "sh",
               "-c", f"until grep -q ': 79' {log}; do sleep 0.1; done; cat {tree}/proc/driver/nvidia/version; stoker sim clock --json")
    assert "590.48.01" in done.stdout
    at = json.loads(done.stdout.splitlines()[-1])["virtual_ns"] / 1e9
    lines = log.read_text().splitlines()
    assert at > 300 and any("Xid (PCI:0000:61:00): 79" in line for line in lines)
    assert all(re.match(r"\d+,\d+,\d+,-;", line) for line in lines)


def test_no_room_for_a_node_is_said(run, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("a small file system to fill is mounted by root only")
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", small], check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        done = run("sim", "run", "default", "--", "true", env={"STOKER_SIM_RUNTIME": str(small)})
        assert done.returncode == 3 and "No space left" in done.stderr
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_hung_driver_hangs_the_client_alone(run, node):
    env = node("default")
    assert run("sim", "inject", "hang", "gpu=2", env=env).returncode == 0
    with subprocess.Popen(["nvidia-smi", "-L"], env={**run.env, **env}, stdout=subprocess.PIPE) as client:
        with pytest.raises(subprocess.TimeoutExpired):
            client.wait(timeout=1)
        assert run("sim", "show", env=env).returncode == 0
        assert run("sim", "inject", "hang", "clear=on", env=env).returncode == 0
        assert client.wait(timeout=120) == 0
