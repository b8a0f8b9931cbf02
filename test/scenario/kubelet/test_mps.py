# SPDX-License-Identifier: Apache-2.0
"""`stoker kubelet` with GPUs shared by MPS."""
import json
import os
import signal

from agent_rig import settles, until
from test_device_plugin import refused
from test_explain import explain
from test_node import api, condition, kept  # noqa: F401

NAME = "nvidia.com/gpu"


def healthy(side, count):
    return until(lambda: len(side.plugin().healthy) == count and side.plugin(), side.log_text)


def reload(side):
    side.process.send_signal(signal.SIGHUP)


def test_from_start_to_end(make_side, driver):
    side = make_side(options=driver.options)
    uuids = [g["uuid"] for g in side.agent.gpus()]
    plugin = healthy(side, 32)
    daemon, = driver.lives()
    log = driver.log()
    assert log[:8] == [f"smi {uuid} EXCLUSIVE_PROCESS" for uuid in uuids] and log[8] == "start " + ",".join(uuids)[:100]
    limits = [line.split() for line in log if "mem_limit" in line]
    assert [words[1] for words in limits] == uuids and {words[2] for words in limits} == {"20389M"}  # 81559 MiB of four
    assert log[-1] == "set_default_active_thread_percentage 25"
    grant = plugin.allocate(f"{uuids[2]}::1")
    assert grant.envs == {"NVIDIA_VISIBLE_DEVICES": uuids[2], "CUDA_MPS_PIPE_DIRECTORY": f"/mps/{NAME}/pipe"}
    assert grant.mounts == [(str(driver.mps / NAME / "pipe"), f"/mps/{NAME}/pipe"), (str(driver.mps / "shm"), "/dev/shm")]
    assert (driver.mps / NAME / "pipe/control").is_socket()
    code, text, _ = explain(side, *driver.options)
    assert code == 0 and "  MPS daemon: ready\n" in text and "unhealthy" not in text
    # a lost GPU costs its replicas, and the daemon is let be
    side.node.inject("xid", "79", "gpu=5")
    until(lambda: side.unhealthy() == [f"{uuids[5]}::{n}" for n in range(4)], side.log_text)
    side.node.inject("reset", "gpu=5")
    healthy(side, 32)
    # the daemon outlives this process, which may be updated, and the next one takes it over
    side.process.terminate()
    assert side.process.wait(60) == 0 and driver.lives() == [daemon]
    side.start()
    until(lambda: len(side.kubelet.registered) == 2, side.log_text)
    healthy(side, 32)
    assert driver.lives() == [daemon] and driver.log() == log
    # other settings, then none
    driver.configure(100)
    reload(side)
    healthy(side, 800)
    other, = driver.lives()
    assert other != daemon and driver.log()[-1] == "set_default_active_thread_percentage 1"
    assert "fewer than its 100 replicas" in side.log_text() and "serves 48 processes" in explain(side, *driver.options)[1]
    driver.config.write_text("version: v1\n")
    reload(side)
    until(lambda: not driver.lives() and driver.modes() == {"DEFAULT"} and not (driver.mps / NAME).exists(), side.log_text)
    healthy(side, 8)


def test_devices_need_their_daemon(make_side, driver):
    (driver.state / "refuse-start").touch()
    side = make_side(options=driver.options)
    plugin = side.plugin()
    assert len(plugin.devices) == 32
    until(lambda: "start is refused" in side.log_text(), side.log_text)
    assert plugin.healthy == []
    assert "its MPS daemon is not ready" in refused(lambda: plugin.allocate(plugin.devices[0].id))
    resource, = json.loads(explain(side, "--json", *driver.options)[1])["resources"]
    assert resource["mps"]["clients_max"] == 48 and resource["healthy"] == 0 and not resource["units"][0]["incident"]

    def failed():
        text = explain(side, *driver.options)[1]
        assert "  MPS daemon: failed: " in text and "start is refused" in text

    settles(failed)
    (driver.state / "refuse-start").unlink()
    plugin = healthy(side, 32)
    assert sum("MPS daemon of" in line and "start is refused" in line for line in side.log_text().splitlines()) == 1  # however often it was tried
    daemon, = driver.lives()
    os.kill(daemon, signal.SIGKILL)
    until(lambda: plugin.healthy == [], side.log_text)
    healthy(side, 32)
    assert len(driver.lives()) == 1 and "ended by itself" in side.log_text()


def test_killed_while_the_daemon_starts(make_side, driver):
    side = make_side(options=driver.options)

    def restart():
        side.process.kill()
        side.process.wait()
        count = len(side.kubelet.registered)
        side.start()
        until(lambda: len(side.kubelet.registered) > count, side.log_text)

    for lines in (1, 9, 10, 18):  # the first mode, the start, the first limit, the percentage: all of its commands
        until(lambda: len(driver.log()) >= lines, side.log_text)
        restart()
        plugin = healthy(side, 32)
        daemon, = driver.lives()
        assert plugin.allocate(plugin.devices[0].id).mounts and driver.log()[-1] == "set_default_active_thread_percentage 25"
        (driver.state / "log").unlink()
        os.kill(daemon, signal.SIGKILL)
        restart()


def test_the_condition_of_the_node(kept, api, driver):  # noqa: F811
    (driver.state / "hang-smi").touch()
    side = kept(*driver.options)
    assert not side.plugin().healthy
    until(lambda: condition(api).get("status") == "True", lambda: f"{api.node} {side.log_text()}")  # a start is no fault
    assert not side.plugin().healthy
    (driver.state / "hang-smi").unlink()
    healthy(side, 32)
    (driver.state / "refuse-start").touch()
    os.kill(*driver.lives(), signal.SIGKILL)
    until(lambda: condition(api)["status"] == "False", lambda: f"{api.node} {side.log_text()}")
    assert "its MPS daemon is not ready (failed)" in condition(api)["message"]


def test_the_folder_stays(make_side, driver, tmp_path):
    driver.configure(2, f"flags: {{mpsRoot: {driver.mps}}}\n")
    side = make_side(options=driver.options[:2] + driver.options[4:])
    healthy(side, 16)
    driver.configure(2, f"flags: {{mpsRoot: {tmp_path / 'other'}}}\n")
    reload(side)
    until(lambda: "after a restart only" in side.log_text(), side.log_text)
    assert len(side.plugin().healthy) == 16 and len(driver.lives()) == 1
