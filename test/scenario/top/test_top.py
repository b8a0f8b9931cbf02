# SPDX-License-Identifier: Apache-2.0
"""The verb `top` as a person meets it: faults found and drilled into by keys, an agent that goes away, nodes without one,
recordings, yesterday, and what scripts get."""
import gzip
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from top_kit import Kit, until  # noqa: E402


@pytest.fixture
def kit(stoker, tmp_path):
    kit = Kit(stoker, tmp_path)
    yield kit
    kit.close()


@pytest.fixture(scope="module")
def quiet(stoker, tmp_path_factory):
    """A node on which nothing is wrong, its agent: for tests that only look."""
    kit = Kit(stoker, tmp_path_factory.mktemp("quiet"))
    kit.node_there = kit.node()
    kit.agent_there = kit.agent(kit.node_there)
    yield kit
    kit.close()


def once(quiet, *options, **more):
    return quiet.run(quiet.node_there, "--once", "--control", quiet.agent_there.control, *options, **more)


# --- how GPUs are joined ---------------------------------------------------------------------------------------------

NODES = [("h100-sxm-80gb", 8), ("a100-sxm4-80gb", 8), ("h100-nvl-94gb", 2), ("h100-nvl-94gb", 8), ("l40s", 5), ("rtx-4080-super", 2)]


def matrix(text):
    """The rows of a matrix of GPUs, as lists of words, whoever printed it."""
    rows = [line.strip("│").split() for line in text.splitlines()]
    head = next(i for i, row in enumerate(rows) if len([w for w in row if re.fullmatch(r"GPU\d+", w)]) > 1)
    count = sum(re.fullmatch(r"GPU\d+", word) is not None for word in rows[head])
    return {row[0]: row[1:1 + count] for row in rows[head + 1:head + 1 + count]}


@pytest.mark.parametrize("board,count", NODES, ids=lambda value: str(value))
def test_the_matrix_is_that_of_the_driver(kit, board, count):
    """Paths over PCIe are found without the driver, in sysfs; nvidia-smi is told them by it."""
    scenario = kit.tmp / "scenario.yaml"
    scenario.write_text(f"about: topology\ngpus: {{board: {board}, count: {count}}}\nwork: []\ntruth: []\n")
    node = kit.node(str(scenario))
    screen = kit.run(node, "--alone", "--once", "--view", "topology", "--size", "160x50", "--colour", "never").stdout
    told = subprocess.run(["nvidia-smi", "topo", "-m"], env=node.env, capture_output=True, text=True, check=True).stdout
    mine, theirs = matrix(screen), matrix(told)
    assert len(theirs) == count and mine.keys() == theirs.keys(), screen
    for gpu, row in theirs.items():
        assert mine[gpu] == row, (gpu, screen)
    for line in (line for line in told.splitlines() if re.match(r"GPU\d+\t", line)):
        name, cpus, numa = line.split("\t")[0], *line.split("\t")[1 + count:3 + count]
        assert re.search(rf"^│?{name} .* {numa} +{re.escape(cpus)} ", screen, re.M), (line, screen)


# --- on a terminal ---------------------------------------------------------------------------------------------------


def test_a_fault_is_found_by_keys(kit):
    node = kit.node()
    agent = kit.agent(node)
    screen = kit.screen(node)
    before = screen.modes(), screen.ask("stty -a")
    screen.line("clear")
    screen.line("echo this stays")
    screen.top("--control", agent.control)
    screen.wait("All healthy")
    node.inject("xid", "79", "gpu=3")
    first = screen.wait("Problem:")
    assert "fallen off the bus" in first or "gpu-lost" in first or "GPU 3" in first
    screen.wait("LOST")
    screen.type("4")  # incidents
    screen.wait("GPU 3")
    screen.type("Enter")
    sheet = screen.wait("─ incident ─")
    assert "reboot" in sheet and "79" in sheet
    screen.type("Escape")
    screen.wait_gone("─ incident ─")
    screen.type("3")
    screen.wait("PID USER")
    screen.type("2")
    screen.type("1")
    screen.wait("LOST")
    screen.type("q")
    screen.wait("this stays")
    assert screen.ended() == 0
    screen.line("clear")
    assert (screen.modes(), screen.ask("stty -a")) == before


def find_pid(shown, command):
    """Of the first process with this command, not of a group's line."""
    return int(re.search(rf"^│? *(\d+) (?!proc ).*{command}", shown, re.M)[1])


def status_of(pid):
    return dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())


@pytest.mark.parametrize("way", ["agent", "alone"])
def test_a_simulated_process_gets_no_signal(kit, way):
    """Its pid is that of somebody here: the sleeper that the simulator lends to it. Nobody of this machine is sent anything."""
    node = kit.node(options=["--processes"])
    options = ("--control", kit.agent(node).control) if way == "agent" else ("--alone",)
    screen = kit.screen(node)
    screen.top(*options, "--view", "processes")
    # its command line comes from the node's files too
    shown = until(lambda: (s := screen.screen()) and all(word in s for word in ("train.py", "alice", "4711.0")) and s, screen.screen)
    pid = find_pid(shown, "alice")
    assert status_of(pid)["State"].split()[0] == "S"
    screen.type("/")
    screen.type(*str(pid), "Enter")
    screen.type("F9")
    screen.wait("SIGKILL")
    screen.type("9")
    screen.type("Enter")
    screen.wait("sends it")
    screen.type("y")
    screen.wait("no signal was sent")
    assert status_of(pid)["State"].split()[0] == "S"
    screen.type("q")


def test_what_was_chosen_is_kept(kit):
    node = kit.node()
    agent = kit.agent(node)
    screen = kit.screen(node)
    file = screen.config / "stoker/top.yaml"

    def run(*keys):
        screen.line("clear")
        screen.top("--control", agent.control)
        screen.wait("F10Quit")
        for key in keys:
            screen.type(key)
        shown = ""
        if "F2" in keys:
            shown = screen.wait("colours: dark")
            screen.type("Escape")
            screen.wait_gone("colours:")  # together with q it would be Alt-q
        screen.type("q")
        assert screen.ended() == 0
        return shown

    run("3")
    assert not file.exists()  # nothing was chosen
    run("-", "F2", "End", "Space")
    kept = file.read_text()
    assert "theme: dark\nspan: 1h\n" in kept
    assert "colours: dark" in run("F2")
    assert file.read_text() == kept
    file.write_text("theme: pink\n")
    screen.top("--control", agent.control)
    screen.wait("pink")
    screen.type("-")
    screen.type("q")
    assert screen.ended() == 0
    assert file.read_text() == "theme: pink\n"  # somebody wrote it: it is not lost


def test_an_agent_goes_and_comes_back(kit):
    node = kit.node()
    folder = kit.folder("agent")
    agent = kit.agent(node, folder)
    screen = kit.screen(node)
    screen.top("--control", agent.control)
    screen.wait("All healthy")
    agent.process.kill()
    agent.process.wait()
    screen.wait("STALE")
    screen.type("3")  # the screen lives
    screen.wait("PID USER")
    screen.type("1")
    kit.agent(node, folder)
    until(lambda: "STALE" not in screen.screen() and "All healthy" in screen.screen(), screen.screen)
    screen.type("q")
    assert screen.ended() == 0


def test_an_agent_that_does_not_answer_stops_nothing(kit):
    node = kit.node()
    agent = kit.agent(node)
    screen = kit.screen(node)
    screen.top("--control", agent.control)
    screen.wait("All healthy")
    agent.process.send_signal(signal.SIGSTOP)
    try:
        screen.wait("STALE")
        screen.type("5")
        screen.wait("GPU7")
        screen.resize(80, 24)
        until(lambda: len(screen.screen().split("\n")) == 25 and "STALE" in screen.screen(), screen.screen)
        screen.type("q")
        assert screen.ended() == 0
    finally:
        agent.process.send_signal(signal.SIGCONT)


def test_a_driver_that_hangs_is_shown_as_that(kit):
    node = kit.node()
    screen = kit.screen(node)
    screen.top("--alone")
    screen.wait("no agent")
    screen.wait("8 of 8 GPUs up")
    node.inject("hang", "gpu=2", "function=nvmlDeviceGetPowerUsage")
    screen.wait("HUNG")
    screen.type("3")
    screen.wait("PID USER")
    screen.type("q")
    assert screen.ended() == 0
    until(lambda: not samplers_of(node), lambda: f"left behind: {samplers_of(node)}")


def samplers_of(node):
    """Samplers that work for this node."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if "stoker-sampler" in os.readlink(process / "exe") and str(node.image).encode() in (process / "environ").read_bytes():
                found.append(process.name)
        except OSError:
            continue
    return found


def test_killed_it_leaves_the_terminal_as_it_was(kit):
    node = kit.node()
    agent = kit.agent(node)
    screen = kit.screen(node)
    before = screen.modes(), screen.ask("stty -a")
    for number in (signal.SIGTERM, signal.SIGHUP):
        screen.line("clear")
        screen.top("--control", agent.control)
        screen.wait("All healthy")
        os.kill(screen.foreground(), number)
        screen.wait("ready>")
        assert screen.ended() == 128 + number
        screen.line("clear")
        assert (screen.modes(), screen.ask("stty -a")) == before


def test_live_looks_can_be_held(kit):
    node = kit.node()
    agent = kit.agent(node)
    screen = kit.screen(node)
    screen.top("--control", agent.control)
    screen.wait("All healthy")
    screen.type("Space")
    screen.wait("PAUSED")
    node.inject("xid", "79", "gpu=3")
    until(lambda: agent.gpu(3)["state"] == "lost", lambda: agent.gpu(3))
    time.sleep(1.5)  # a look has come, which is not shown
    assert "All healthy" in screen.screen()
    screen.type("Space")
    screen.wait("Problem:")
    screen.type("q")
    assert screen.ended() == 0


def bare(kit):
    """A terminal in which nothing says that a simulated node is there, so that its processes are real ones."""

    class Nothing:
        env = {"PATH": os.environ["PATH"]}

    return kit.screen(Nothing)


def on_a_node(kit, screen, *options):
    """Where STOKER_ROOT is set there is no tree: the processes are those that the simulator lends, of this machine."""
    screen.line("STOKER_ROOT= " + shlex.join(map(str, (kit.stoker, "sim", "run", "default", "--", kit.stoker, "top", "--alone", *options))))
    screen.wait("PID USER")
    return find_pid(screen.wait("vllm"), "vllm")


def test_a_process_is_ended_after_a_question(kit):
    screen = bare(kit)
    pid = on_a_node(kit, screen, "--view", "processes", "--filter", "vllm")
    assert pathlib.Path(f"/proc/{pid}").exists()
    screen.type("F9")
    screen.wait("SIGTERM")
    screen.type("Enter")
    screen.wait("y sends it")
    screen.type("n")
    screen.wait_gone("y sends it")
    assert pathlib.Path(f"/proc/{pid}").exists()
    screen.wait_gone("send a signal")
    screen.type("F9")
    screen.wait("SIGTERM")
    screen.type("Enter")
    screen.wait("y sends it")
    screen.type("y")
    screen.wait(f"SIGTERM was sent to process {pid}")
    until(lambda: not pathlib.Path(f"/proc/{pid}/exe").exists(), "it lives")
    screen.type("q")
    assert screen.ended() == 0


def test_who_only_looks_sends_nothing(kit):
    screen = bare(kit)
    on_a_node(kit, screen, "--view", "processes", "--filter", "vllm", "--read-only")
    screen.type("F9")
    screen.type("c")
    time.sleep(0.5)
    assert "SIGTERM" not in screen.screen()
    screen.type("q")
    assert screen.ended() == 0


# --- recordings ------------------------------------------------------------------------------------------------------


def play(kit, node, screen, path):
    screen.top("--replay", path, "--speed", "20")
    screen.wait("REPLAY")
    screen.wait("Problem:")
    screen.type("Space")
    screen.wait("PAUSED")
    screen.type("{")  # a minute back: its beginning, where a slow machine does not know everything yet
    screen.wait("8 of 8 GPUs up")
    screen.wait_gone("Problem:")
    screen.type("Space")
    screen.wait("Problem:")
    screen.type("q")
    assert screen.ended() == 0


@pytest.mark.parametrize("name", ["night.json", "night.gz"])
def test_what_was_recorded_is_seen_again(kit, name):
    node = kit.node()
    agent = kit.agent(node)
    once = lambda: kit.run(node, "--once", "--control", agent.control).stdout
    until(lambda: "All healthy" in once(), once)  # not the agent's first moments, in which it knows of no work yet
    path = kit.tmp / name
    recording = subprocess.Popen([kit.stoker, "top", "--record", path, "--control", agent.control, "-i", "200ms"], env=node.env,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    read = gzip.decompress if name.endswith(".gz") else bytes

    def lines():
        try:
            return read(path.read_bytes()).decode().splitlines() if path.exists() else [""]
        except EOFError:  # a part of it was being written
            return [""]

    until(lambda: len(lines()) > 5, lines)
    node.inject("xid", "79", "gpu=3")
    until(lambda: '"state":"lost"' in lines()[-1] and '"status":"failing"' in lines()[-1], lambda: lines()[-1])
    recording.send_signal(signal.SIGTERM)
    assert recording.wait(120) == 0 and re.search(r"\d+ snapshots, \d+ bytes", recording.stderr.read())
    recording.stderr.close()
    head, *looks = map(json.loads, lines())
    assert head["format"] == "stoker-top" and head["version"] == 1
    assert looks[0]["status"] == "ok" and looks[-1]["status"] == "failing"
    assert all(look["node"]["gpus"] for look in looks)
    play(kit, node, kit.screen(node), path)
    last = kit.run(node, "--replay", path, "--once", "--size", "120x40")
    assert last.returncode == 1 and "GPU 3" in last.stdout
    first = kit.run(node, "--replay", path, "--json", "--from", looks[0]["node"]["time"])
    assert first.returncode == 0 and json.loads(first.stdout) == looks[0]
    again = kit.run(node, "--record", path, "--control", agent.control)
    assert again.returncode == 2 and "is there already" in again.stderr


def test_recording_ends_by_itself(quiet, tmp_path):
    path = tmp_path / "short"
    done = quiet.run(quiet.node_there, "--record", path, "--for", "1s", "-i", "100ms", "--control", quiet.agent_there.control)
    assert done.returncode == 0, done.stderr
    assert len(path.read_text().splitlines()) > 1  # its head, and as many looks as this machine was good for


def test_looks_of_status_are_a_recording(quiet, tmp_path):
    path = tmp_path / "looks"
    for _ in range(2):
        path.open("a").write(quiet.agent_there.verb("status", "--json").stdout)
    shown = quiet.run(quiet.node_there, "--replay", path, "--once")
    assert shown.returncode == 0 and "8 of 8 GPUs up" in shown.stdout
    piped = quiet.run(quiet.node_there, "--replay", "-", "--once", input=path.read_text())
    assert piped.returncode == 0 and "8 of 8 GPUs up" in piped.stdout


def test_what_the_agent_saw_is_shown(kit):
    """A node whose clock runs sixty times as fast: minutes of history in seconds."""
    node = kit.node(speed=60, strict=False)
    agent = kit.agent(node, options=["--clock-speed", "60"])
    minute = lambda: agent.json("/api/v1/gpus/0/history?metric=DCGM_FI_DEV_POWER_USAGE&resolution=minute")[1]["series"][0]["points"]
    until(lambda: sum(p[-1] > 50 for p in minute()) >= 3, minute)
    shown = kit.run(node, "--from", "2026-01-01T00:00:00Z", "--once", "--size", "120x40", "--control", agent.control)
    assert shown.returncode == 0, shown.stderr
    assert "history of" in shown.stdout and "8 of 8 GPUs up" in shown.stdout
    nothing = kit.run(node, "--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T01:00:00Z", "--once", "--control", agent.control)
    assert nothing.returncode == 3 and "knows nothing of that time" in nothing.stderr


# --- for pipes and scripts -------------------------------------------------------------------------------------------


def test_one_screen(quiet):
    shown = once(quiet, "--size", "100x30")
    lines = shown.stdout.split("\n")
    assert shown.returncode == 0 and "All healthy" in shown.stdout and "\033" not in shown.stdout
    assert len(lines) <= 31 and max(map(len, lines)) <= 100
    assert "\033[" in once(quiet, "--colour", "always").stdout
    assert once(quiet, "--ascii").stdout.isascii()
    assert once(quiet, env={"LANG": "C", "LC_ALL": "C"}).stdout.isascii()
    assert "GPU 5" in once(quiet, "--view", "gpu", "--gpu", "5").stdout
    assert "PID USER" in once(quiet, "--keys", "3").stdout


def test_plots_begin_before_the_first_look(quiet):
    """Each plot is that of its own GPU, and is filled from the agent's store."""
    points = lambda: quiet.agent_there.json("/api/v1/gpus/7/history?metric=DCGM_FI_DEV_POWER_USAGE")[1]["series"][0]["points"]
    until(lambda: len(points()) > 8, points)
    columns = {}
    for gpu in (0, 7):  # one works, one is idle
        shown = once(quiet, "--view", "gpu", "--gpu", gpu, "--size", "160x60", "--keys", "b -").stdout
        columns[gpu] = sum(c in "▁▂▃▄▅▆▇█" for line in shown.split("\n") for c in line)
    assert columns[0] > columns[7] and columns[0] > 8, columns


def test_one_look(quiet):
    look = quiet.run(quiet.node_there, "--json", "--control", quiet.agent_there.control)
    seen = json.loads(look.stdout)
    assert look.returncode == 0 and seen["status"] == "ok" and len(seen["node"]["gpus"]) == 8
    assert any(g.get("processes") for g in seen["node"]["gpus"])


def test_without_an_agent(quiet):
    shown = quiet.run(quiet.node_there, "--once", "--alone", "--size", "120x40")
    assert shown.returncode == 0 and "no agent" in shown.stdout and "8 of 8 GPUs up" in shown.stdout
    seen = json.loads(quiet.run(quiet.node_there, "--json", "--alone").stdout)
    assert {g["state"] for g in seen["node"]["gpus"]} == {"up"}


WRONG = [
    (["now"], 2, "takes no argument"),
    (["--keys", "j"], 2, "are for --once"),
    (["--once", "--keys", "jj"], 2, "'jj' is no key"),
    (["--once", "--size", "10"], 2, "is no size"),
    (["--once", "--view", "moon"], 2, "no view 'moon'"),
    (["--once", "--sort", "moon"], 2, "no column 'moon'"),
    (["--record", "x", "--replay", "y"], 2, "no meaning with a replay"),
    (["--speed", "2"], 2, "are for a replay"),
    (["--replay", "/nothing/here", "--once"], 2, "/nothing/here"),
    (["--from", "yesterday", "--once"], 2, "--from"),
    (["--once", "--control", "/nothing/here"], 3, "/nothing/here"),
    ([], 3, "no terminal"),
    (["--interval", "1ms"], 2, "interval"),
]


@pytest.mark.parametrize("options, code, words", WRONG, ids=[" ".join(w[0]) or "none" for w in WRONG])
def test_what_is_wrong_is_said(quiet, options, code, words):
    done = quiet.run(quiet.node_there, *options)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert done.stderr.startswith("stoker top: ") and words in done.stderr and done.stderr.count("\n") == 1
