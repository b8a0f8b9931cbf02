# SPDX-License-Identifier: Apache-2.0
"""One GPU in trouble never costs another's numbers, and what is served stays true."""
import contextlib
import fcntl
import http.client
import os
import pty
import resource
import select
import shutil
import signal
import socket
import subprocess
import termios
import time

import pytest
from agent_rig import settles, until

OTHERS = [0, 1, 3, 4, 5, 6, 7]


def stays_fresh(agent, indexes, turns=20):
    """Looks at these GPUs again and again: none has an old sample, and one that is late for a tick, as on a busy machine, is up
    again. How late they may be, test_chaos.c says."""
    shown = lambda: [(g["index"], g["state"], g.get("last_sample_age_seconds"), g.get("why")) for g in agent.gpus()]
    for _ in range(turns):
        gpus = agent.gpus()
        assert all(g.get("last_sample_age_seconds", 99) < 30 for g in gpus if g["index"] in indexes), (shown(), agent.log_text())
        until(lambda: agent.fresh(indexes), lambda: f"{shown()} {agent.log_text()}")
        time.sleep(0.05)


def test_one_gpu_hangs_and_comes_back(agent_on):
    node, agent = agent_on(options=["--sampler-kill-after", "1s", "--sampler-rejoin-after", "2s", "--sampler-retry-max", "2s"])
    node.inject("hang", "gpu=2", "function=nvmlDeviceGetPowerUsage")
    while (hung := agent.gpu(2))["state"] != "hung":
        stays_fresh(agent, OTHERS, turns=1)
    assert "nvmlDeviceGetPowerUsage" in hung["why"], hung
    assert hung["metrics"]["DCGM_FI_DEV_GPU_TEMP"]["value"] is None  # never a stale number
    stays_fresh(agent, OTHERS)

    def is_said():
        page = agent.page()
        assert page.one("stoker_gpu_up", gpu="2") == 0 and page.one("stoker_gpu_up", gpu="3") == 1
        assert not page.all("DCGM_FI_DEV_GPU_TEMP", gpu="2") and page.all("DCGM_FI_DEV_GPU_TEMP", gpu="3")
        status, body = agent.json("/healthz")
        assert status == 503 and any("GPU 2" in c["text"] for c in body["causes"]), body

    settles(is_said)
    until(lambda: agent.verb("status").returncode == 1, lambda: agent.verb("status").stdout)
    # retried, killed, retried: the others never notice
    until(lambda: int(agent.page().one("stoker_samplers_started_total")) >= 4, agent.log_text)
    stays_fresh(agent, OTHERS)
    node.inject("hang", "clear=on")
    until(lambda: agent.gpu(2)["state"] == "up", agent.log_text)
    until(lambda: agent.get("/healthz")[0] == 200, lambda: agent.get("/healthz")[1])
    until(lambda: len(agent.samplers()) == 1, lambda: f"{agent.samplers()} {agent.log_text()}")
    stays_fresh(agent, range(8))


def test_a_call_about_two_gpus_hangs_and_neither_is_blamed(agent_on, tmp_path):
    counters = tmp_path / "c.csv"
    counters.write_text("DCGM_FI_DEV_GPU_TEMP, gauge, core\nDCGM_EXP_P2P_STATUS, gauge, nvlink\n")
    node, agent = agent_on(options=["-f", counters, "--sample-slow", "1s", "--sampler-kill-after", "1s"])
    until(lambda: len(agent.page().all("DCGM_EXP_P2P_STATUS", link_status="OK")) == 56, lambda: agent.page().text)
    node.inject("hang", "gpu=2", "function=nvmlDeviceGetP2PStatus")
    while "neither is blamed" not in agent.log_text():
        stays_fresh(agent, range(8), turns=1)
    stays_fresh(agent, range(8))
    until(lambda: [(g["state"], g["own_sampler"], g["missed_calls"]) for g in agent.gpus()] == [("up", False, 0)] * 8,
          lambda: f"{agent.gpus()} {agent.log_text()}")
    until(lambda: agent.get("/healthz")[0] == 200, lambda: agent.get("/healthz")[1])
    # no number is left from before, and the reason is told
    until(lambda: not agent.page().all("DCGM_EXP_P2P_STATUS"), lambda: agent.page().text)
    until(lambda: len(agent.page().all("stoker_metric_unavailable", metric="DCGM_EXP_P2P_STATUS", reason="timed_out")) == 8,
          lambda: agent.page().text)


def test_all_calls_on_one_gpu_hang_from_the_start(agent_on):
    node, agent = agent_on(ready=False, options=["--sampler-attach-deadline", "1s"], speed=1)
    node.inject("hang", "gpu=5")
    until(lambda: agent.fresh([0, 1, 2, 3, 4, 6, 7]), agent.log_text)
    until(lambda: any(g["state"] == "hung" for g in agent.gpus()), agent.log_text)
    assert agent.page().one("stoker_gpus_expected") == 8


def test_who_reads_the_output_of_an_agent_waits_for_no_sampler(agent_on):
    """One that a driver holds for ever outlives the agent; it has no part of the agent's output."""
    _, agent = agent_on()
    outputs = lambda: [os.readlink(f"/proc/{pid}/fd/{fd}") for pid, _ in agent.children() for fd in (1, 2)]
    until(lambda: outputs() == ["/dev/null"] * 2, outputs)


def test_all_gpus_hang_one_soon_after_another(agent_on):
    """Each is named, and none is up without samples meanwhile; how soon, test_several.c says."""
    node, agent = agent_on(options=["--sampler-attach-deadline", "1s"])
    for index in range(8):
        node.inject("hang", f"gpu={index}")
    until(lambda: all(g["state"] == "hung" for g in agent.gpus()), lambda: f"{agent.gpus()} {agent.log_text()}")

    def is_said():
        assert [v for _, v in agent.page().all("stoker_gpu_up", reason="hung")] == [0] * 8
        status, body = agent.json("/healthz")
        assert status == 503 and all(any(f"GPU {i} " in c["text"] for c in body["causes"]) for i in range(8)), body

    settles(is_said)
    node.inject("hang", "clear=on")
    until(lambda: agent.fresh(range(8)), agent.log_text)


def test_a_lost_gpu_says_so_and_keeps_its_name(agent_on):
    node, agent = agent_on()
    uuid = agent.gpu(3)["uuid"]
    node.inject("xid", "79", "gpu=3")
    until(lambda: agent.gpu(3)["state"] == "lost", agent.log_text)

    def is_said():
        page = agent.page()
        assert page.one("stoker_gpu_up", gpu="3", UUID=uuid) == 0
        assert not page.all("DCGM_FI_DEV_GPU_TEMP", gpu="3")
        assert agent.get("/healthz")[0] == 503

    settles(is_said)
    stays_fresh(agent, [0, 1, 2, 4, 5, 6, 7])
    node.inject("reset", "gpu=3")
    until(lambda: agent.gpu(3)["state"] == "up", agent.log_text)
    until(lambda: agent.get("/healthz")[0] == 200, lambda: agent.get("/healthz")[1])


def test_a_gpu_that_flaps(agent_on):
    node, agent = agent_on()
    for _ in range(3):
        node.inject("lost", "gpu=1")
        until(lambda: agent.gpu(1)["state"] != "up", agent.log_text)
        node.inject("reset", "gpu=1")
        until(lambda: agent.gpu(1)["state"] == "up", agent.log_text)
    stays_fresh(agent, range(8))
    until(lambda: len(agent.samplers()) <= 2, agent.log_text)


def test_a_gpu_that_is_unplugged_and_plugged_in(agent_on):
    node, agent = agent_on()
    node.inject("plug", "remove", "gpu=6")
    until(lambda: agent.gpu(6)["state"] in ("gone", "missing", "lost"), lambda: f"{agent.gpus()[6]} {agent.log_text()}")
    stays_fresh(agent, [0, 1, 2, 3, 4, 5, 7])
    node.inject("plug", "add", "gpu=6")
    until(lambda: agent.fresh(range(8)), agent.log_text)


def test_devices_that_are_not_there_are_said(agent_on):
    _, agent = agent_on(options=["--devices", "g:0,7,9+i:0.7"])
    until(lambda: "'g:0,7,9+i:0.7' names what this node lacks: GPU 9, instance 7 of GPU 0" in agent.log_text(), agent.log_text)
    assert agent.log_text().count("this node lacks") == 1


def test_an_xid_is_counted(agent_on, tmp_path):
    counters = tmp_path / "c.csv"
    counters.write_text("DCGM_FI_DEV_XID_ERRORS, gauge, last\nDCGM_EXP_XID_ERRORS_COUNT, gauge, window\n"
                        "DCGM_EXP_XID_ERRORS_TOTAL, counter, all\n")
    node, agent = agent_on(options=["-f", counters])
    until(lambda: (p := agent.page()).one("DCGM_FI_DEV_XID_ERRORS", gpu="4") == p.one("stoker_gpu_xid_errors_total", gpu="4") == 0, agent.log_text)
    node.inject("xid", "31", "gpu=4")
    # by the driver's library, and by what was counted, in whatever order
    until(lambda: (p := agent.page()).one("DCGM_FI_DEV_XID_ERRORS", gpu="4") == 31 and p.one("stoker_gpu_xid_errors_total", gpu="4") == 1,
          agent.log_text)
    page = until(lambda: (p := agent.page()).one("DCGM_EXP_XID_ERRORS_COUNT", gpu="4", xid="31") == 1 and
                 p.one("DCGM_EXP_XID_ERRORS_TOTAL", gpu="4", xid="31") == 1 and p, agent.log_text)
    assert page.one("stoker_xid_errors_total", gpu="4", xid="31") == 0  # for a minute, so that the first one is an increase


def test_the_driver_is_let_go_and_taken_up(make_node, make_agent, tmp_path):
    trace = tmp_path / "trace"
    agent = make_agent(dict(make_node().env, STOKER_SIM_TRACE=str(trace)))
    run = agent.verb("release", "--for", "1h")
    assert run.returncode == 0, run.stderr + agent.log_text()
    calls = trace.read_text()
    assert "nvmlShutdown" in calls.splitlines()[-1]  # not one call after that, and none comes
    tick = agent.json("/api/v1/gpus")[1]["tick"]
    until(lambda: agent.json("/api/v1/gpus")[1]["tick"] > tick + 1, "two ticks")
    assert trace.read_text() == calls
    until(lambda: {g["state"] for g in agent.gpus()} == {"released"}, agent.log_text)
    until(lambda: agent.page().one("stoker_released") == 1 and not agent.page().all("DCGM_FI_DEV_GPU_TEMP"), agent.log_text)
    until(lambda: agent.get("/healthz")[0] == 200 and agent.get("/readyz")[0] == 503, lambda: agent.get("/healthz")[1])
    assert agent.verb("release", "--end").returncode == 0
    until(lambda: agent.fresh(range(8)), agent.log_text)
    assert agent.verb("release", "--for", "1s").returncode == 0
    until(lambda: agent.fresh(range(8)), agent.log_text)  # by itself


def test_samplers_are_killed_at_any_time(agent_on):
    _, agent = agent_on()
    for _ in range(5):
        for pid, _ in agent.children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert agent.get("/metrics")[0] == 200
        until(lambda: agent.fresh(range(8)), agent.log_text)
    until(lambda: all(state != "Z" for _, state in agent.children()), "the dead are reaped")
    assert "ended unexpectedly: killed by signal 9 (Killed)." in agent.log_text()
    assert "the driver" not in agent.log_text()  # it has nothing to do with that


def test_a_stopped_sampler_is_replaced(agent_on):
    _, agent = agent_on()
    (pid, _), = until(lambda: len(c := agent.children()) == 1 and c, lambda: str(agent.children()))
    os.kill(pid, signal.SIGSTOP)
    until(lambda: pid not in [p for p, _ in agent.children()] and agent.fresh(range(8)), agent.log_text)


def test_samplers_end_with_a_killed_agent(agent_on):
    _, agent = agent_on()
    pids = [pid for pid, _ in agent.children()]
    assert pids
    agent.process.kill()
    agent.process.wait(120)
    until(lambda: not any(os.path.exists(f"/proc/{p}/exe") for p in pids), "the samplers end")


def test_the_library_is_missing_then_there(make_node, make_agent, tmp_path):
    node = make_node()
    library = next(p for p in node.env["LD_LIBRARY_PATH"].split(":") if os.path.exists(f"{p}/libnvidia-ml.so.1"))
    where = tmp_path / "libnvidia-ml.so.1"
    agent = make_agent(node.env, ready=False, options=["--driver-library", where])
    until(lambda: agent.json("/healthz")[1]["causes"] and "libnvidia-ml" in agent.json("/healthz")[1]["causes"][0]["text"],
          lambda: agent.get("/healthz")[1] + agent.log_text())
    assert agent.get("/metrics")[0] == 200
    shutil.copy(f"{library}/libnvidia-ml.so.1", where)
    until(lambda: agent.fresh(range(8)), agent.log_text)
    until(lambda: agent.get("/healthz")[0] == 200, lambda: agent.get("/healthz")[1])


def test_a_library_of_another_driver(agent_on):
    """Clients that are there go on; the next one to start is refused."""
    node, agent = agent_on("driver-mismatch")
    node.sim("clock", "step", "11m")
    for pid, _ in agent.children():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until(lambda: "different versions" in agent.get("/healthz")[1], lambda: agent.get("/healthz")[1] + agent.log_text())
    assert agent.get("/metrics")[0] == 200
    until(lambda: agent.get("/readyz")[0] == 503 and {g["state"] for g in agent.gpus()} == {"no_driver"}, agent.log_text)


def test_mig_devices_come_and_go(agent_on):
    node, agent = agent_on("mig-balanced")
    instances = lambda page: {(l["GPU_I_PROFILE"], l["GPU_I_ID"]) for l, _ in page.all("DCGM_FI_DEV_FB_USED", gpu="0")}
    until(lambda: (p := agent.page()).all("DCGM_FI_PROF_GR_ENGINE_ACTIVE", GPU_I_PROFILE="1g.10gb") and len(instances(p)) == 4,
          lambda: agent.page().text)
    listed = subprocess.run(["nvidia-smi", "-L"], env=node.env, capture_output=True, text=True, check=True).stdout
    until(lambda: sum("MIG-" in line for line in listed.splitlines()) == sum(len(g["instances"]) for g in agent.gpus()), lambda: str(agent.gpus()))


def test_a_full_disk_and_closed_outputs_do_not_stop_it(make_node, stoker, tmp_path):
    node = make_node()
    with open("/dev/full", "w") as full:
        process = subprocess.Popen([stoker, "agent", "--listen", f"unix:{tmp_path}/h.sock", "--control", tmp_path / "c.sock"],
                                   env=node.env, stdout=full, stderr=full)
        try:
            until(lambda: (tmp_path / "h.sock").exists(), "the socket")

            def page():
                with socket.socket(socket.AF_UNIX) as s:
                    s.settimeout(120)
                    s.connect(str(tmp_path / "h.sock"))
                    s.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                    text = b""
                    while chunk := s.recv(65536):
                        text += chunk
                return text

            until(lambda: b"DCGM_FI_DEV_GPU_TEMP{" in page(), "a page")
        finally:
            process.terminate()
            assert process.wait(120) == 0


def test_idle_connections_do_not_keep_a_scraper_out(agent_on):
    wanted = 10000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard < wanted + 500 else wanted + 500, hard))
    room = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200
    if room < wanted:
        pytest.skip(f"only {room} descriptors are allowed here, {wanted} are needed")
    _, agent = agent_on()
    before = agent.rss()
    host, port = agent.address.rsplit(":", 1)
    idle = []
    try:
        for i in range(wanted):
            s = socket.socket()
            s.settimeout(120)
            s.connect((host, int(port)))
            idle.append(s)
            if i % 1000 == 999:
                assert agent.get("/metrics")[0] == 200
                until(lambda: agent.fresh(range(8)), agent.log_text)
        until(lambda: agent.get("/healthz")[0] == 200, lambda: agent.get("/healthz")[1])
        assert agent.rss() - before < 32 << 20
        assert agent.descriptors() < 1000
    finally:
        for s in idle:
            s.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    until(lambda: agent.fresh(range(8)), agent.log_text)


def test_a_bad_configuration_leaves_the_good_one_in_force(agent_on, tmp_path):
    counters, config = tmp_path / "counters.csv", tmp_path / "stoker.yaml"
    counters.write_text("DCGM_FI_DEV_GPU_TEMP, gauge, core\n")
    config.write_text(f"collectors: {counters}\nlog: {{level: info}}\n")
    _, agent = agent_on(options=["--config", config])
    assert "DCGM_FI_DEV_POWER_USAGE" not in agent.page().names()
    counters.write_text("DCGM_FI_DEV_GPU_TEMP, gauge, core\nDCGM_FI_DEV_POWER_USAGE, gauge, power\n")
    until(lambda: "DCGM_FI_DEV_POWER_USAGE" in agent.page().names(), agent.log_text)  # by itself
    config.write_text("collectors: x.csv\nlog: {levl: info}\n")
    until(lambda: "levl" in agent.log_text(), agent.log_text)
    log = agent.log_text()
    assert "stoker.yaml:2:" in log and "level" in log and "stays in force" in log
    until(lambda: "DCGM_FI_DEV_POWER_USAGE" in agent.page().names(), agent.log_text)
    counters.write_text("# cut short\n")
    config.write_text(f"collectors: {counters}\nprofile: '4.8.2'\n")
    until(lambda: "no metric is in it any more" in agent.log_text(), agent.log_text)
    until(lambda: "DCGM_FI_DEV_POWER_USAGE" in agent.page().names(), agent.log_text)
    counters.write_text("DCGM_FI_DEV_GPU_TEMP, gauge, core\n")
    agent.process.send_signal(signal.SIGHUP)
    until(lambda: "Hostname=" in agent.page().text, agent.log_text)


@pytest.mark.parametrize("text, says", [
    ("sample: {fast: 1ms}", "stoker.yaml:1:.*fast.*20ms"), ("devises: f", "devices"), ("listen: [", "stoker.yaml:"),
    ("profile: '4.7'", "4.8.3"), ("collectors: /nonexistent.csv", "nonexistent"), ("listen: 70000", "'70000': expected"),
    ("listen: 'unix:'", "unix:PATH")])
def test_check_config_says_what_is_wrong(stoker, tmp_path, text, says):
    config = tmp_path / "stoker.yaml"
    config.write_text(text + "\n")
    run = subprocess.run([stoker, "agent", "--check-config", "--config", config], capture_output=True, text=True, timeout=300)
    import re
    assert run.returncode == 2 and re.search(says, run.stderr), run.stderr


def test_check_config_of_a_good_file(stoker, tmp_path):
    config = tmp_path / "stoker.yaml"
    config.write_text("sample: {normal: 2s}\n")
    run = subprocess.run([stoker, "agent", "--check-config", "--config", config], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0 and "fine" in run.stdout


def journald_below(tree):
    path = tree / "run/systemd/journal/socket"
    path.parent.mkdir(parents=True)
    journald = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    journald.bind(str(path))
    journald.settimeout(120)
    return journald


def test_log_to_journald(make_node, make_agent):
    node = make_node()
    with journald_below(node.tree) as journald:
        agent = make_agent(node.env, options=["--log-format", "journal"])
        agent.process.send_signal(signal.SIGHUP)
        lines = []
        while not any(b"MESSAGE=reloaded (SIGHUP)" in line for line in lines):
            lines.append(journald.recv(65536))
    assert all(b"\nSYSLOG_IDENTIFIER=stoker\n" in line and b"\nPRIORITY=" in line for line in lines), lines
    assert agent.log_text() == ""


def test_log_without_journald(agent_on):
    _, agent = agent_on(options=["--log-format", "journal"])
    agent.process.send_signal(signal.SIGHUP)
    until(lambda: "reloaded (SIGHUP)" in agent.log_text(), agent.log_text)
    assert agent.log_text().count("connect to journald at") == 1 == agent.log_text().count(" warn ")


def in_a_terminal(command, env):
    """The process, leader of a session whose terminal is a new one, and the terminal's other end."""
    ours, theirs = pty.openpty()

    def take_terminal():
        os.setsid()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(list(map(str, command)), env=env, stdin=theirs, stdout=theirs, stderr=theirs,
                               preexec_fn=take_terminal)
    os.close(theirs)
    return process, ours


def output_until(terminal, text):
    seen = b""
    while text not in seen:
        assert select.select([terminal], [], [], 300)[0], seen
        seen += os.read(terminal, 4096)
    return seen


@pytest.mark.parametrize("nohup", [False, True])
def test_a_closed_terminal_ends_the_agent(make_node, stoker, tmp_path, nohup):
    """As nohup says, it goes on after that, and reads its files again."""
    node = make_node()
    agent = [stoker, "agent", "--listen", "127.0.0.1:0", "--control", tmp_path / "c.sock"]
    if nohup:
        agent = ["sh", "-c", "trap '' HUP; exec \"$@\" 2>\"$LOG\"", "sh", *agent]
    log = tmp_path / "log"
    process, terminal = in_a_terminal(agent, dict(node.env, LOG=str(log)))
    try:
        output_until(terminal, b"http://")
        os.close(terminal)
        if nohup:
            until(lambda: "reloaded (SIGHUP)" in log.read_text(), log.read_text)
            process.terminate()
        assert process.wait(120) == 0
    finally:
        process.kill()
        process.wait()
