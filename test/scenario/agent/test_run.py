# SPDX-License-Identifier: Apache-2.0
"""`stoker run` on a simulated node: real process trees, each put on a GPU by `stoker sim inject work ... pid=`. A command here
runs until the file `go` is there, which the test makes once the series shows what it waits for."""
import contextlib
import datetime
import http.server
import json
import os
import pathlib
import pty
import signal
import subprocess
import threading

import pytest
from agent_rig import until

IDLE = "about: nothing runs\nnode: {hostname: runs}\ngpus: {board: h100-sxm-80gb, count: 2}\ntruth: []\n"
SPLIT = """about: a GPU in MIG mode
gpus: {board: h100-sxm-80gb, count: 1, mig: [3g.40gb, 3g.40gb]}
truth: []
"""
WAIT = "until [ -e go ]; do sleep 0.05; done"
ON_GPU = "stoker sim inject work train gpus=%s memory=20GiB name=w%s pid=$$"


class Run:
    """A `stoker run` that goes on; the folder is its own."""

    def __init__(self, stoker, folder, env, words, options=(), **popen):
        self.folder = folder
        self.report, self.series = folder / "report.json", folder / "series.jsonl"
        files = ["--report", self.report, "--jsonl", self.series]
        self.process = subprocess.Popen([stoker, "run", *files, *options, "--", *words], cwd=folder, env=env, text=True,
                                        stdout=popen.pop("stdout", subprocess.PIPE), stderr=subprocess.PIPE, **popen)

    def lines(self):
        text = self.series.read_text() if self.series.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def on_gpu(self, count=1, **want):
        """Waits for a line with `count` devices whose first has these values and readings with work."""
        def found():
            return [g for line in self.lines() if len(line["gpus"]) == count for g in line["gpus"][:1]
                    if want.items() <= g.items() and (g["sm_active"] or 0) > 0 and (g["energy_j"] or 0) > 0]
        return until(found, lambda: f"no line with {count} devices and {want}: {self.lines()[-3:]}")[-1]

    def go(self):
        (self.folder / "go").touch()
        return self.end()

    def end(self):
        self.out, self.err = self.process.communicate(timeout=300)
        return json.loads(self.report.read_text())


@pytest.fixture
def run_on(make_node, tmp_path):
    """run_on(words, scenario=..., ...): a node with living processes, and a Run on it."""
    runs = []

    def start(words, scenario=IDLE, options=(), env=None, **popen):
        (tmp_path / "scenario.yaml").write_text(scenario)
        if not runs:
            start.node = make_node(str(tmp_path / "scenario.yaml"), options=("--processes",))
        folder = tmp_path / f"run{len(runs)}"
        folder.mkdir()
        words = ["sh", "-c", words] if isinstance(words, str) else words
        runs.append(Run(start.node.stoker, folder, {**start.node.env, **(env or {})}, words, options, **popen))
        return runs[-1]

    yield start
    for run in runs:
        (run.folder / "go").touch()
        if run.process.poll() is None:
            run.process.kill()
            run.process.wait()


def timestamp(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000


def state_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # it may go while it is read
        return ""


def schema(name):
    return json.loads((pathlib.Path(__file__).resolve().parents[3] / "docs" / f"{name}.schema.json").read_text())


def follows_schema(report):
    jsonschema = pytest.importorskip("jsonschema", reason="python3-jsonschema is not installed")
    jsonschema.validate(report, schema("run"))


def test_a_command_and_what_it_execs_are_reported(run_on):
    run = run_on(f"{ON_GPU % (0, 0)}; exec sh -c '{WAIT}; exit 3'")
    line = run.on_gpu()
    report = run.go()
    follows_schema(report)
    assert run.process.returncode == 3 and report["exit_status"] == 3 and report["signal"] is None
    assert [g["gpu"] for g in report["gpus"]] == [0]
    gpu = report["gpus"][0]
    assert (gpu["attribution"], gpu["share"], gpu["processes"]) == ("exclusive", 1, 1)
    assert gpu["memory_peak_bytes"] == report["memory_peak_bytes"] == 20 << 30
    assert gpu["memory_before_bytes"] < 1 << 30 < gpu["memory_total_bytes"]
    assert gpu["sm_active"] == gpu["device"]["sm_active"] == pytest.approx(line["sm_active"], abs=0.1)
    assert 0 < gpu["held_s"] <= report["measured_s"] and 0 < report["wall_s"]
    assert report["energy_j"] == gpu["energy_j"] >= line["energy_j"]
    assert gpu["energy_basis"] == "counter" and 20 < gpu["temperature_max_c"] < 100 and 0 <= gpu["throttled_share"] <= 1
    assert sum(v["seconds"] for v in report["verdicts"]) == pytest.approx(gpu["held_s"] - gpu["gap_s"])
    assert sum(v["share"] for v in report["verdicts"]) == pytest.approx(1 - gpu["gap_s"] / gpu["held_s"])
    assert "exit status 3; 1 GPU" in run.err and "GPU 0 H100 80GB HBM3" in run.err and "SM active" in run.err


def test_causes_are_those_of_why():
    assert schema("run")["properties"]["verdicts"]["items"]["properties"]["cause"]["enum"] == schema("why")["$defs"]["cause"]["enum"]


@pytest.mark.parametrize("kind, cause, advice", [("tiny-kernels", "launches", "CUDA graphs"), ("train", "tensor_cores", ""),
                                                 ("idle-context", "idle_held", "MIG")])
def test_verdicts_over_the_commands_life(run_on, kind, cause, advice):
    run = run_on(f"stoker sim inject work {kind} gpus=0 memory=20GiB pid=$$; {WAIT}")
    until(lambda: len([g for line in run.lines() for g in line["gpus"] if g["cause"] == cause]) >= 3, lambda: str(run.lines()[-3:]))
    report = run.go()
    follows_schema(report)
    verdict, = [v for v in report["verdicts"] if v["cause"] == cause]
    assert verdict["gpu"] == 0 and verdict["instance"] is None and verdict["seconds"] > 1 and advice in verdict["advice"]
    assert [v["seconds"] for v in report["verdicts"]] == sorted((v["seconds"] for v in report["verdicts"]), reverse=True)
    assert f"{verdict['title']}: " in run.err


PRICES = "prices: {currency: EUR, list: [{id: rent, board: H100, on_demand: 3600}]}\n"


def costs_so(run, per_second):
    run.on_gpu()
    report = run.go()
    follows_schema(report)
    gpu, = report["gpus"]
    assert (gpu["price"], report["currency"]) == ("rent", "EUR")
    assert gpu["cost"] == report["cost"] == pytest.approx(gpu["held_s"] * per_second)
    assert "EUR (rent, 3600.00 EUR an hour of a whole GPU)" in run.err


def test_the_cost_by_a_file_of_prices(run_on, tmp_path):
    (tmp_path / "stoker.yaml").write_text(PRICES)
    costs_so(run_on(f"{ON_GPU % (0, 0)}; {WAIT}", options=("--prices", tmp_path / "stoker.yaml")), 1)


def test_the_cost_of_a_mig_instance_by_the_agents_prices(run_on, make_agent, tmp_path):
    (tmp_path / "stoker.yaml").write_text(PRICES)
    run_on("exit 0", scenario=SPLIT).end()
    agent = make_agent(run_on.node.env, options=["--config", tmp_path / "stoker.yaml"])
    work = f"stoker sim inject work train gpus=0 mig=1 memory=10GiB pid=$$; {WAIT}"
    costs_so(run_on(work, options=("--control", agent.control)), 3 / 7)


def test_prices_that_cannot_be_read_are_found_before_the_start(run_on, tmp_path):
    (tmp_path / "none.yaml").write_text("listen: ':9400'\n")
    for name, why in (("none.yaml", "has no 'prices'"), ("nowhere.yaml", "No such file or directory")):
        run = run_on("touch started", options=("--prices", tmp_path / name))
        _, err = run.process.communicate(timeout=300)
        assert run.process.returncode == 2 and why in err and not (run.folder / "started").exists()


def test_a_grandchild_and_its_second_gpu_belong_to_the_command(run_on):
    run = run_on(f"sh -c '(sh -c \"{ON_GPU % (0, 0)}; {ON_GPU % (1, 1)}; {WAIT}\")' & wait".replace("$$", "\\$\\$"))
    run.on_gpu(count=2)
    report = run.go()
    assert [g["gpu"] for g in report["gpus"]] == [0, 1]
    assert report["memory_peak_bytes"] == 40 << 30
    assert report["energy_j"] == pytest.approx(sum(g["energy_j"] for g in report["gpus"]))


def test_a_killed_child_leaves_the_gpu(run_on):
    run = run_on(f"sh -c 'echo $$ > child; {ON_GPU % (0, 0)}; exec sleep 1000' & wait; {WAIT}; exit 4")
    run.on_gpu()
    os.kill(int((run.folder / "child").read_text()), signal.SIGKILL)
    until(lambda: run.lines()[-1]["gpus"] == [], "the GPU is not free")
    report = run.go()
    assert report["exit_status"] == 4
    assert 0 < report["gpus"][0]["held_s"] < report["wall_s"]


def test_a_detached_process_counts_and_goes_on(run_on):
    run = run_on(f"setsid sh -c 'sh -c \"echo \\$\\$ > child; {ON_GPU % (0, 0)}; exec sleep 1000\" >/dev/null 2>&1 &' ; {WAIT}".replace("pid=$$", "pid=\\$\\$"))
    run.on_gpu()
    pid = int((run.folder / "child").read_text())
    try:
        report = run.go()
        assert report["gpus"][0]["attribution"] == "exclusive"
        assert any(f"pid {pid}" in note for note in report["notes"]), report["notes"]
        assert state_of(pid) not in ("", "Z")
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_process_of_another_parent_is_known_by_its_mark(run_on):
    """As tasks are that slurmd starts for srun, with the environment of the command."""
    run = run_on(f"echo $STOKER_RUN_ID > mark; {WAIT}")
    mark = until(lambda: (run.folder / "mark").exists() and (run.folder / "mark").read_text().strip(), "no mark")
    env = run_on.node.env
    with subprocess.Popen(["sleep", "1000"], env={**env, "STOKER_RUN_ID": mark}) as task, \
            subprocess.Popen(["sleep", "1000"], env={**env, "STOKER_RUN_ID": mark[::-1]}) as stranger:
        try:
            run_on.node.inject("work", "train", "gpus=0", "memory=20GiB", "name=task", f"pid={task.pid}")
            run_on.node.inject("work", "train", "gpus=1", "memory=20GiB", "name=stranger", f"pid={stranger.pid}")
            run.on_gpu(gpu=0)
            report = run.go()
        finally:
            task.kill()
            stranger.kill()
    assert [g["gpu"] for g in report["gpus"]] == [0]


def test_a_neighbour_on_the_gpu_keeps_its_part(run_on):
    with subprocess.Popen(["sleep", "1000"]) as neighbour:
        try:
            run = run_on(f"{WAIT.replace('go', 'begin')}; {ON_GPU % (0, 0)}; {WAIT}")
            run_on.node.inject("work", "train", "gpus=0", "memory=30GiB", "name=other", f"pid={neighbour.pid}")
            count = len(run.lines())
            until(lambda: len(run.lines()) > count + 2, "the driver does not answer")  # of these the last was measured after it
            assert run.lines()[-1]["gpus"] == []
            (run.folder / "begin").touch()
            until(lambda: any(0.2 < g["share"] < 0.8 for line in run.lines() for g in line["gpus"]), lambda: str(run.lines()[-3:]))
            report = run.go()
        finally:
            neighbour.kill()
    gpu = report["gpus"][0]
    assert gpu["attribution"] in ("sampled", "even") and 0 < gpu["share"] < 1
    assert gpu["sm_active"] < gpu["device"]["sm_active"] and gpu["power_mean_w"] < gpu["device"]["power_mean_w"]
    assert gpu["memory_peak_bytes"] == 20 << 30 and gpu["memory_before_bytes"] == pytest.approx(30 << 30, rel=0.05)
    assert gpu["device"]["memory_peak_bytes"] == pytest.approx(50 << 30, rel=0.05)


def test_a_mig_instance_is_reported_by_itself(run_on):
    run = run_on(f"stoker sim inject work train gpus=0 mig=1 memory=10GiB pid=$$; {WAIT}", scenario=SPLIT)
    run.on_gpu()
    report = run.go()
    follows_schema(report)
    gpu, = report["gpus"]
    assert (gpu["gpu"], gpu["profile"], gpu["attribution"]) == (0, "3g.40gb", "mig")
    assert gpu["instance"]["compute_instance"] == 0 and gpu["uuid"].startswith("MIG-")
    assert gpu["power_mean_w"] == pytest.approx(gpu["device"]["power_mean_w"] * 3 / 7)
    assert f"instance {gpu['instance']['gpu_instance']}/0 (3g.40gb)" in run.err


def test_named_gpus_are_reported_whoever_uses_them(run_on):
    run = run_on(f"{ON_GPU % (0, 0)}; {WAIT}", options=("--gpus", "1,gpu7"))
    until(lambda: [g["gpu"] for line in run.lines()[-1:] for g in line["gpus"]] == [1], "no line")
    report = run.go()
    assert [(g["gpu"], g["attribution"]) for g in report["gpus"]] == [(1, "unknown")]
    assert [n for n in report["notes"] if "--gpus" in n] == ["--gpus: no GPU 'gpu7' was read; 'stoker status' lists the GPUs"]


def test_an_xid_meanwhile_is_in_the_report(run_on):
    run = run_on(f"{ON_GPU % (0, 0)}; {WAIT}")
    run.on_gpu()
    run_on.node.inject("xid", "31", "gpu=0")
    run_on.node.inject("xid", "31", "gpu=0")
    run_on.node.inject("xid", "31", "gpu=1")
    count = len(run.lines())
    # its energy grows as the driver is read, which tells of events too
    until(lambda: len({g["energy_j"] for line in run.lines()[count:] for g in line["gpus"]}) > 3, "the driver is not read")
    report = run.go()
    assert [(x["xid"], x["count"]) for x in report["gpus"][0]["xids"]] == [(31, 2)]
    assert "'stoker xid 31'" in run.err


def test_a_gpu_that_is_lost_meanwhile_is_unusable(run_on):
    """By its incident, as everywhere, and not only a gap."""
    run = run_on(f"{ON_GPU % (0, 0)}; {WAIT}")
    run.on_gpu()
    run_on.node.inject("xid", "79", "gpu=0")
    lost = lambda: [g for line in run.lines() for g in line["gpus"] if g["activity"] == "unusable"]
    until(lambda: len(lost()) >= 3, lambda: str(run.lines()[-3:]))
    assert {(g["gpu"], g["cause"]) for g in lost()} == {(0, "unusable")}
    report = run.go()
    follows_schema(report)
    verdict = next(v for v in report["verdicts"] if v["cause"] == "unusable")
    assert verdict["gpu"] == 0 and verdict["activity"] == "unusable" and verdict["seconds"] > 0, report["verdicts"]
    assert report["gpus"][0]["gap_s"] > 0 and report["problems"], report
    assert "unusable" in run.err and "Problem: " in run.err


@pytest.mark.parametrize("words, code", [("exit 0", 0), ("exit 255", 255), ("kill -9 $$", 137), ("kill -TERM $$", 143)])
def test_the_exit_status_is_the_commands(run_on, words, code):
    run = run_on(words)
    report = run.end()
    assert run.process.returncode == report["exit_status"] == code
    assert report["signal"] == (code - 128 if 128 < code < 255 else None)
    follows_schema(report)
    assert report["gpus"] == [] and report["energy_j"] is None


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2"])
def test_a_signal_reaches_the_command_once(run_on, name):
    run = run_on(f"trap 'echo got {name}' {name}; touch ready; {WAIT}")
    until(lambda: (run.folder / "ready").exists(), "not started")
    run.process.send_signal(getattr(signal, f"SIG{name}"))
    assert run.process.stdout.readline() == f"got {name}\n"
    assert run.go()["exit_status"] == 0
    assert run.out == ""


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2"])
def test_a_signal_to_the_group_reaches_the_command_once(run_on, name):
    """As a shell sends it: to all processes of the group, stoker run and the command among them. Behind it comes one to stoker run
    alone, which it passes on: what a second copy of the first would have done is seen by then."""
    run = run_on(f"trap 'echo got {name}' {name}; trap 'echo behind' CONT; touch ready; {WAIT}; exit 0", process_group=0)
    until(lambda: (run.folder / "ready").exists(), "not started")
    for _ in range(3):
        os.killpg(run.process.pid, getattr(signal, f"SIG{name}"))
        assert run.process.stdout.readline() == f"got {name}\n"
        run.process.send_signal(signal.SIGCONT)
        assert run.process.stdout.readline() == "behind\n"
    run.process.send_signal(getattr(signal, f"SIG{name}"))  # one for stoker run alone is passed on as ever
    assert run.process.stdout.readline() == f"got {name}\n"
    assert run.go()["exit_status"] == 0
    assert run.out == ""


def test_a_signal_to_the_group_reaches_a_command_that_left_it(run_on):
    run = run_on(["setsid", "sh", "-c", f"trap 'echo got it' TERM; touch ready; {WAIT}"], process_group=0)
    until(lambda: (run.folder / "ready").exists(), "not started")
    os.killpg(run.process.pid, signal.SIGTERM)
    assert run.process.stdout.readline() == "got it\n"
    assert run.go()["exit_status"] == 0
    assert run.out == ""


def test_signals_are_passed_on_without_the_witness(run_on):
    run = run_on(f"trap 'echo got it' TERM; touch ready; {WAIT}")
    until(lambda: (run.folder / "ready").exists(), "not started")
    children = pathlib.Path(f"/proc/{run.process.pid}/task/{run.process.pid}/children").read_text().split()
    witness, = [c for c in children if pathlib.Path(f"/proc/{c}/comm").read_text() == "stoker-signals\n"]
    os.kill(int(witness), signal.SIGKILL)
    until(lambda: state_of(witness) == "", "it is not reaped")
    run.process.send_signal(signal.SIGTERM)
    assert run.process.stdout.readline() == "got it\n"
    assert run.go()["exit_status"] == 0
    assert run.out == ""


def test_the_terminal_is_the_commands(run_on):
    """Ctrl-C comes to it as without us; standard input and output are not touched."""
    ours, theirs = pty.openpty()
    script = f"trap 'echo interrupted' INT; read line; echo \"<$line>\"; {WAIT}; exit 0"
    leader = "import os, sys, fcntl, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
    run_on("exit 0").end()
    env, folder = run_on.node.env, run_on.node.tmp
    process = subprocess.Popen(["python3", "-c", leader, run_on.node.stoker, "run", "sh", "-c", script], cwd=folder, env=env,
                               stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""

    def shows(text):
        nonlocal seen
        with contextlib.suppress(OSError):  # its end
            while text not in seen:
                seen += os.read(ours, 4096)
        assert text in seen

    try:
        os.write(ours, b"hello\n")
        shows(b"<hello>")
        os.write(ours, b"\x03")
        shows(b"interrupted")
        assert process.poll() is None
        (folder / "go").touch()
        shows(b"exit status 0")
        assert process.wait(300) == 0
        assert seen.count(b"interrupted") == 1
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        os.close(ours)


def test_a_terminal_that_goes_ends_the_command(run_on):
    """It tells the leader of its session alone, which is `stoker run` where a login runs nothing else."""
    run_on("exit 0").end()
    env, folder = run_on.node.env, run_on.node.tmp
    script = f"trap 'touch hung-up; exit 0' HUP; touch ready; {WAIT}"
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(run_on.node.stoker, ["stoker", "run", "--report", "report.json", "sh", "-c", script], env)
    until(lambda: (folder / "ready").exists(), "not started")
    os.close(terminal)
    until(lambda: (folder / "hung-up").exists(), "the command is not told")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert json.loads((folder / "report.json").read_text())["signal"] is None


def test_the_command_stops_and_goes_on_with_its_group(run_on):
    run = run_on(f"echo $$ > pid; exec sh -c '{WAIT}'", process_group=0)
    pid = until(lambda: (run.folder / "pid").exists() and int((run.folder / "pid").read_text()), "not started")
    os.killpg(run.process.pid, signal.SIGTSTP)
    # D: a shell whose vfork child is stopped
    until(lambda: state_of(pid) in ("T", "D") and state_of(run.process.pid) == "T", lambda: f"{state_of(pid)} {state_of(run.process.pid)}")
    os.killpg(run.process.pid, signal.SIGCONT)
    until(lambda: state_of(run.process.pid) == "S" and state_of(pid) != "T", "does not go on")
    assert run.go()["exit_status"] == 0


def test_a_full_disk_does_not_change_the_exit_status(run_on):
    """How long the driver needs to answer the first time is the machine's business: a run that was too short is done again."""
    def is_said():
        run = run_on(f"{ON_GPU % (0, 0)}; sleep 1; exit 6", options=("--report", "/dev/full", "--jsonl", "/dev/full"))
        _, err = run.process.communicate(timeout=300)
        assert run.process.returncode == 6
        assert "the report could not be written to '/dev/full': No space left on device" in err
        return "'/dev/full' is incomplete: No space left on device" in err or "nothing was measured" not in err and fail(err)
    fail = lambda err: pytest.fail(f"a line was lost, and it is not said: {err}")
    until(is_said, "the driver does not answer")


@pytest.mark.parametrize("option", ["--report", "--jsonl"])
def test_a_file_that_cannot_be_written_is_found_before_the_start(run_on, option):
    run = run_on("touch started", options=(option, "/nowhere/at/all"))
    _, err = run.process.communicate(timeout=300)
    assert run.process.returncode == 2
    assert f"stoker run: {option}: write '/nowhere/at/all': No such file or directory" in err
    assert not (run.folder / "started").exists()


@pytest.mark.parametrize("words, code, why", [(["/nowhere/x"], 127, "'/nowhere/x': No such file or directory"),
                                              (["/etc/passwd"], 126, "'/etc/passwd': Permission denied")])
def test_a_command_that_cannot_be_started(run_on, words, code, why):
    run = run_on(words)
    report = run.end()
    assert run.process.returncode == report["exit_status"] == code
    assert f"stoker run: {why}" in run.err
    assert "the command was not started" in report["notes"][0]


def test_without_a_driver_the_command_runs_as_ever(run_on):
    run = run_on(f"{WAIT}; exit 5", options=("--driver-library", "/nowhere/libnvidia-ml.so.1"))
    report = run.go()
    assert run.process.returncode == 5 and report["gpus"] == []
    assert "nothing was measured" in report["notes"][0]


def test_a_driver_that_hangs_delays_nothing(run_on):
    run_on("exit 0").end()
    run_on.node.inject("hang", "all")
    run = run_on(f"touch started; {WAIT}; exit 5")
    until(lambda: (run.folder / "started").exists(), "not started")
    report = run.go()
    assert run.process.returncode == 5 and report["gpus"] == []
    assert "nothing was measured" in report["notes"][0]
    run_on.node.inject("hang", "clear=on")


def test_numbers_survive_the_observer(run_on):
    run = run_on(f"{ON_GPU % (0, 0)}; {WAIT}; exit 5")
    run.on_gpu()
    children = pathlib.Path(f"/proc/{run.process.pid}/task/{run.process.pid}/children").read_text().split()
    observer, = [c for c in children if pathlib.Path(f"/proc/{c}/comm").read_text() == "stoker-observe\n"]
    os.kill(int(observer), signal.SIGKILL)
    report = run.go()
    assert run.process.returncode == 5
    assert report["gpus"][0]["energy_j"] > 0
    assert "did not answer at the end" in report["notes"][-1]


def test_an_ignored_end_of_children_is_seen(run_on):
    """As a caller leaves it that ignores SIGCHLD: the command finds it ignored, and its end is not missed."""
    ignore = lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    assert run_on("exit 3", preexec_fn=ignore).end()["exit_status"] == 3
    run = run_on(["grep", "SigIgn", "/proc/self/status"], preexec_fn=ignore)  # a shell would change it
    assert run.end()["exit_status"] == 0
    assert int(run.out.split()[1], 16) >> (signal.SIGCHLD - 1) & 1


def test_closed_inputs_and_outputs_stay_closed(run_on):
    """None of ours takes their numbers: the report is whole, and the command finds them closed."""
    run = run_on(f"{ON_GPU % (0, 0)}; for i in 0 1 2; do [ -e /proc/$$/fd/$i ] && touch open$i; done; {WAIT}; exit 4", preexec_fn=lambda: os.closerange(0, 3))
    run.on_gpu()
    report = run.go()
    assert report["exit_status"] == 4 and report["gpus"][0]["energy_j"] > 0
    assert not list(run.folder.glob("open*"))


def test_no_zombie_is_left_to_an_init_that_reaps_none(run_on):
    run_on("exit 0").end()
    script = """import ctypes, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
subprocess.run(sys.argv[1:], check=True)
print(open("/proc/self/task/%d/children" % __import__("os").getpid()).read())
"""
    left = lambda: subprocess.run(["python3", "-c", script, run_on.node.stoker, "run", "true"], env=run_on.node.env, capture_output=True,
                                  text=True, check=True, timeout=300).stdout.split()
    until(lambda: not left(), "each run leaves a child")


def test_a_fork_storm_leaves_no_process_behind(run_on):
    """Orphans come to us, and are reaped."""
    storm = "i=0; while [ $i -lt 400 ]; do (true & true &); i=$((i+1)); done"
    run = run_on(f"{storm}; {ON_GPU % (0, 0)}; touch stormed; {WAIT}")
    until(lambda: (run.folder / "stormed").exists(), "the storm does not end")
    run.on_gpu()
    children = lambda: pathlib.Path(f"/proc/{run.process.pid}/task/{run.process.pid}/children").read_text().split()
    until(lambda: not any(state_of(c) == "Z" for c in children()), "they are reaped")
    assert run.go()["gpus"][0]["processes"] == 1


def test_a_run_that_is_killed_leaves_only_the_command(run_on):
    run = run_on(f"echo $$ > pid; exec sh -c '{WAIT}'")
    pid = until(lambda: (run.folder / "pid").exists() and int((run.folder / "pid").read_text()), "not started")
    children = pathlib.Path(f"/proc/{run.process.pid}/task/{run.process.pid}/children").read_text().split()
    run.process.kill()
    run.process.wait()
    for child in children:
        if int(child) != pid:
            until(lambda c=child: state_of(c) in ("", "Z"), f"{child} still runs")
    assert state_of(pid) not in ("", "Z")
    (run.folder / "go").touch()
    until(lambda: state_of(pid) in ("", "Z"), "the command does not end")


# --- MLflow ---------------------------------------------------------------------------------------------------------


class TrackingServer:
    """The part of MLflow's REST API that is asked, with its checks: `seen` has (method, path, body) of each request; `broken`
    answers 500, `refusing` a status and an error as MLflow has it."""

    def __init__(self):
        self.seen, self.runs, self.broken, self.refusing, self.users = [], {"given": []}, False, None, []
        tracking = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.answer(None)

            def do_POST(self):
                assert self.headers["Content-Type"] == "application/json"
                self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def answer(self, body):
                tracking.users.append(self.headers["Authorization"])
                tracking.seen.append((self.command, self.path, body))
                status, answer = tracking.handle(self.path.removeprefix("/base/api/2.0/mlflow/"), body)
                text = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self.server.server_port}/base/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def handle(self, path, body):
        if self.broken:
            return 500, {}
        if self.refusing:
            return self.refusing
        if path.startswith("experiments/get-by-name?experiment_name="):
            return 200, {"experiment": {"experiment_id": "7", "name": path.split("=", 1)[1]}}
        if path == "runs/create":
            self.runs["made"] = []
            return 200, {"run": {"info": {"run_id": "made", "experiment_id": body["experiment_id"]}, "data": {}}}
        if path == "runs/log-batch":
            assert len(body["metrics"]) <= 1000
            self.runs[body["run_id"]] += body["metrics"]
        return 200, {}

    def asked(self, what):
        return [body for _, path, body in self.seen if f"/mlflow/{what}" in path]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def tracking():
    server = TrackingServer()
    yield server
    server.close()


def logged(run_on, tracking, words=WAIT, env=None, meanwhile=lambda run: None):
    """A run whose readings are logged, and its report. How long the server may take at the end is limited, and this machine may
    take longer: such a run is done again."""
    def done():
        tracking.seen, tracking.runs, tracking.users = [], {"given": []}, []
        run = run_on(words, options=("--mlflow", tracking.uri), env=env)
        meanwhile(run)
        report = run.go()
        return not any("MLflow" in note for note in report["notes"]) and (run, report)
    return until(done, "the server does not answer in time")


def test_readings_are_system_metrics_of_a_new_run(run_on, tracking):
    env = {"MLFLOW_EXPERIMENT_NAME": "a/b c", "MLFLOW_TRACKING_USERNAME": "me", "MLFLOW_TRACKING_PASSWORD": "secret"}
    run, report = logged(run_on, tracking, f"{ON_GPU % (0, 0)}; {WAIT}; exit 3", env, lambda run: run.on_gpu())
    assert run.process.returncode == 3
    assert [path for _, path, _ in tracking.seen][0] == "/base/api/2.0/mlflow/experiments/get-by-name?experiment_name=a%2Fb%20c"
    made, = tracking.asked("runs/create")
    assert (made["experiment_id"], made["run_name"]) == ("7", "sh")
    ended, = tracking.asked("runs/update")
    assert (ended["run_id"], ended["status"]) == ("made", "FAILED") and ended["end_time"] >= made["start_time"] > 1e12
    assert set(tracking.users) == {"Basic bWU6c2VjcmV0"}
    points = tracking.runs["made"]
    last = {p["key"]: p["value"] for p in points}
    assert {"system/gpu_0_utilization_percentage", "system/gpu_0_memory_usage_megabytes", "system/gpu_0_memory_usage_percentage",
            "system/gpu_0_power_usage_watts", "system/gpu_0_power_usage_percentage", "system/gpu_0_sm_active_percentage"} <= set(last)
    assert last["system/gpu_0_memory_usage_megabytes"] == pytest.approx((20 << 30) / 1e6, rel=0.1)
    assert last["system/gpu_0_memory_usage_percentage"] == pytest.approx(25, rel=0.1)
    assert 0 < last["system/gpu_0_power_usage_percentage"] <= 110 and last["system/gpu_0_share_percentage"] == 100
    assert 0 < last["system/gpu_0_energy_joules"] <= report["energy_j"]
    steps = [(p["step"], p["timestamp"]) for p in points if p["key"] == "system/gpu_0_power_usage_watts"]
    assert steps == sorted(set(steps)) and steps[0][1] >= made["start_time"]


def test_readings_join_the_run_that_is_named(run_on, tracking):
    logged(run_on, tracking, f"{ON_GPU % (0, 0)}; {WAIT}", {"MLFLOW_RUN_ID": "given"}, lambda run: run.on_gpu())
    assert tracking.runs["given"] and {path for _, path, _ in tracking.seen} == {"/base/api/2.0/mlflow/runs/log-batch"}


def test_a_command_without_a_gpu_makes_no_run(run_on, tracking):
    logged(run_on, tracking, meanwhile=lambda run: until(lambda: run.lines(), "the driver does not answer"))
    assert tracking.seen == []


def test_points_wait_for_a_server_that_is_away(run_on, tracking):
    def away(run):
        tracking.broken = True
        until(lambda: len(tracking.asked("runs/create")) > 1, "it does not try again")
        assert not tracking.runs.get("made")
        tracking.broken = False
        until(lambda: tracking.runs.get("made"), lambda: tracking.seen)
    run, _ = logged(run_on, tracking, f"{ON_GPU % (0, 0)}; {WAIT}", meanwhile=away)
    first = next(line for line in run.lines() if line["gpus"])
    assert tracking.runs["made"][0]["timestamp"] <= timestamp(first["time"]) + 1
    assert tracking.asked("runs/update")[-1]["status"] == "FINISHED"


@pytest.mark.parametrize("refusal, why", [
    ((404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "No Experiment with id=0 exists"}), "status 404: No Experiment with id=0 exists"),
    ((200, {}), "the answer names no run: is this an MLflow server?"), ((503, {}), "status 503"), (None, "Connection refused|connect")])
def test_what_cannot_be_logged_is_said_once(run_on, tracking, refusal, why):
    tracking.refusing = refusal
    uri = tracking.uri if refusal else "http://127.0.0.1:1/"
    run = run_on(f"{ON_GPU % (0, 0)}; {WAIT}; exit 5", options=("--mlflow", uri))
    run.on_gpu()
    until(lambda: not refusal or len(tracking.seen) > (refusal[0] >= 500), "it is not asked")  # how long it may take at the end is limited
    report = run.go()
    assert run.process.returncode == 5
    note, = [n for n in report["notes"] if "MLflow" in n]
    assert "points were not logged to MLflow" in note and any(w in note for w in why.split("|")), note
    assert run.err.count("MLflow:") == 1


def test_an_address_that_is_no_server_is_found_before_the_start(run_on):
    run = run_on("touch started", options=("--mlflow", "file:./mlruns"))
    _, err = run.process.communicate(timeout=300)
    assert run.process.returncode == 2 and "--mlflow: 'file:./mlruns' is no URL" in err and not (run.folder / "started").exists()
