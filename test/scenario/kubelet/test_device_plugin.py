# SPDX-License-Identifier: Apache-2.0
"""`stoker kubelet` beside a kubelet: registration, lists, health, allocation; what NVIDIA's device plugin gets wrong (G5 to G11)
as it must be."""
import select
import signal
import socket
import subprocess

import grpc
import pytest
from agent_rig import until


def refused(call):
    with pytest.raises(grpc.RpcError) as error:
        call()
    return error.value.details()


# -- what is offered ---------------------------------------------------------------------------------------------------

def test_eight_gpus(make_side):
    side = make_side()
    plugin = side.plugin()
    gpus = side.agent.gpus()
    assert [d.id for d in plugin.devices] == [g["uuid"] for g in gpus]
    assert plugin.endpoint == "nvidia-gpu.sock" and plugin.healthy == [g["uuid"] for g in gpus]
    assert [d.numa for d in plugin.devices] == [[g["numa_node"]] for g in gpus] and plugin.devices[0].numa == [0]
    assert plugin.options == {2: [1]}  # a preferred allocation can be had, and no start is waited for
    grant = plugin.allocate(gpus[3]["uuid"], gpus[1]["uuid"])
    assert grant.envs == {"NVIDIA_VISIBLE_DEVICES": f"{gpus[3]['uuid']},{gpus[1]['uuid']}"}
    assert not (grant.mounts or grant.nodes or grant.annotations or grant.cdi)


def test_other_strategies(make_side):
    side = make_side(options=["--device-list-strategy", "volume-mounts", "--device-id-strategy", "index", "--pass-device-specs",
                              "--nvidia-driver-root", "/run/nvidia/driver"], environ={"GDRCOPY_ENABLED": "true"})
    plugin = side.plugin()
    grant = plugin.allocate(side.uuid(5))
    assert grant.envs == {"NVIDIA_VISIBLE_DEVICES": "/var/run/nvidia-container-devices", "NVIDIA_GDRCOPY": "enabled"}
    assert grant.mounts == [("/dev/null", "/var/run/nvidia-container-devices/5")]
    assert ("/run/nvidia/driver/dev/nvidia5", "/dev/nvidia5", "rw") == grant.nodes[-1]
    assert ("/run/nvidia/driver/dev/nvidiactl", "/dev/nvidiactl", "rw") == grant.nodes[0]


def test_mig_devices_are_resources_of_their_own(make_side):
    side = make_side("mig-balanced", options=["--mig-strategy", "mixed", "--pass-device-specs"])
    small, large = side.plugin("nvidia.com/mig-1g.10gb"), side.plugin("nvidia.com/mig-3g.40gb")
    gpus = side.agent.gpus()
    assert [d.id for d in small.devices] == [i["uuid"] for g in gpus for i in g["instances"] if i["profile"] == "1g.10gb"]
    assert len(large.devices) == len(gpus) and "nvidia.com/gpu" not in side.kubelet.plugins
    assert small.endpoint == "nvidia-mig-1g.10gb.sock"
    nodes = [n[1] for n in large.allocate(large.devices[0].id).nodes]
    assert "/dev/nvidia0" in nodes and sum(n.startswith("/dev/nvidia-caps/nvidia-cap") for n in nodes) == 2
    # devices are packed: two small ones come from one GPU, so that another stays whole
    chosen = small.prefer([d.id for d in small.devices][1:], 2)
    first = [d.id for d in small.devices]
    assert chosen == [first[1], first[2]] or {chosen[0], chosen[1]} <= set(first[2:]) and chosen[0] == first[1]


def test_mig_devices_without_device_files(make_side):
    side = make_side("mig-balanced", options=["--mig-strategy", "mixed"])
    assert side.plugin("nvidia.com/mig-3g.40gb").healthy  # where NVIDIA's runtime finds the files itself
    side.process.terminate()
    side.process.wait(60)
    (side.node.tree / "proc/driver/nvidia-caps/mig-minors").unlink()
    side.options = [*side.options, "--pass-device-specs"]
    side.start()
    until(lambda: "mig-minors has no device files" in side.log_text(), side.log_text)
    until(lambda: not side.plugin("nvidia.com/mig-3g.40gb").healthy, side.log_text)
    plugin = side.plugin("nvidia.com/mig-3g.40gb")
    assert "mig-minors" in refused(lambda: plugin.allocate(plugin.devices[0].id))


def test_heat_is_spread(make_side):
    side = make_side(options=["--spread-heat"])
    ids = [d.id for d in side.plugin().devices]
    assert side.plugin().prefer(ids[1:], 1) == [ids[4]]  # GPU 0 is in use: the first of the other socket
    assert {side.plugin().prefer(ids, 2)[1]} <= set(ids[4:])


def test_single_strategy_needs_one_profile(make_side):
    side = make_side("mig-balanced", options=["--mig-strategy", "single"])
    until(lambda: "more than one profile" in side.log_text(), side.log_text)
    assert side.kubelet.registered == []


def test_shared_replicas(make_side, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("version: v1\nsharing:\n  timeSlicing:\n    renameByDefault: true\n    failRequestsGreaterThanOne: true\n"
                      "    resources:\n    - name: nvidia.com/gpu\n      replicas: 4\n")
    side = make_side(options=["--config-file", config])
    plugin = side.plugin("nvidia.com/gpu.shared")
    uuid = side.uuid(0)
    assert len(plugin.devices) == 32 and [d.id for d in plugin.devices[:4]] == [f"{uuid}::{n}" for n in range(4)]
    assert plugin.allocate(f"{uuid}::2").envs == {"NVIDIA_VISIBLE_DEVICES": uuid}
    assert "the most of one container is 1" in refused(lambda: plugin.allocate(f"{uuid}::0", f"{uuid}::1"))
    free = [d.id for d in plugin.devices if d.id not in (f"{uuid}::0", f"{uuid}::1")]
    assert not any(i.startswith(uuid) for i in plugin.prefer(free, 7))  # of the GPUs with the fewest taken
    # another configuration is read on SIGHUP; a wrong one changes nothing
    config.write_text("version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 1\n")
    side.process.send_signal(signal.SIGHUP)
    until(lambda: "stays as it was" in side.log_text(), side.log_text)
    assert "config.yaml:6" in side.log_text() and "replicas" in side.log_text()
    config.write_text("version: v1\n")
    side.process.send_signal(signal.SIGHUP)
    assert len(side.plugin().devices) == 8
    until(lambda: plugin.devices == [], "the old name has no devices any more")


# -- health ------------------------------------------------------------------------------------------------------------

def test_one_lost_gpu_costs_one_device(make_side):  # G6; and it comes back without a restart: G10
    side = make_side()
    plugin, uuid = side.plugin(), side.uuid(3)
    side.node.inject("xid", "79", "gpu=3")
    until(lambda: side.unhealthy() == [uuid], side.log_text)
    assert "drain" in side.log_text().lower() and uuid in side.log_text()
    message = refused(lambda: plugin.allocate(uuid))
    assert "cannot be used now" in message and "incident" in message
    assert plugin.allocate(side.uuid(2)).envs
    side.node.inject("reset", "gpu=3")
    until(lambda: side.unhealthy() == [], side.log_text)
    assert len(plugin.lists) == 3 and not plugin.ended.is_set()  # each state once, over one stream


def test_mig_devices_of_a_lost_gpu_stay_and_are_unhealthy(make_side):
    side = make_side("mig-balanced", options=["--mig-strategy", "mixed"])
    small = "nvidia.com/mig-1g.10gb"
    ids = {d.id for d in side.plugin(small).devices}
    side.node.inject("xid", "79", "gpu=1")
    until(lambda: len(side.unhealthy(small)) == 2, side.log_text)
    asked = len(side.plugin(small).lists)
    side.node.inject("xid", "48", "gpu=2")  # what comes next is seen behind further readings of the lost one
    until(lambda: len(side.plugin(small).lists) > asked, side.log_text)
    assert {d.id for d in side.plugin(small).devices} == ids and "nvidia.com/gpu" not in side.kubelet.plugins


def test_program_faults_change_nothing(make_side):
    side = make_side()
    side.plugin()
    side.node.inject("xid", "31", "gpu=2")
    until(lambda: any(31 in i["codes"] for i in side.agent.json("/api/v1/incidents")[1]["incidents"]), "the incident")
    side.node.inject("xid", "79", "gpu=4")
    until(lambda: side.unhealthy() == [side.uuid(4)], side.log_text)
    assert [len([d for d in l if d.health == "Unhealthy"]) for l in side.plugin().lists] == [0, 1]


@pytest.mark.parametrize("disabled, enabled, unhealthy", [
    ("79", None, False), ("all", None, False), ("xids", "48,79", True)])
def test_variables_of_the_device_plugin(make_side, disabled, enabled, unhealthy):  # G11: what is enabled wins
    environ = {k: v for k, v in (("DP_DISABLE_HEALTHCHECKS", disabled), ("DP_ENABLE_HEALTHCHECKS", enabled)) if v}
    side = make_side(environ=environ)
    side.plugin()
    side.node.inject("xid", "79", "gpu=1")
    until(lambda: any(79 in i["codes"] for i in side.agent.json("/api/v1/incidents")[1]["incidents"]), "the incident")
    if unhealthy:
        until(lambda: side.unhealthy() == [side.uuid(1)], side.log_text)
    else:
        side.node.inject("reset", "gpu=1")
        until(lambda: not side.agent.json("/api/v1/incidents?state=open")[1]["incidents"], "its end")
        assert len(side.plugin().lists) == 1


# -- the kubelet restarts, lies, and is away -----------------------------------------------------------------------------

def test_registered_again_after_each_restart(make_side):
    side = make_side()
    for n in range(5):
        assert len(side.plugin().devices) == 8
        side.kubelet.restart()
    assert len(side.plugin().devices) == 8 and len(side.kubelet.registered) >= 6


def test_a_kubelet_that_refuses_or_does_not_listen(make_side):
    side = make_side()
    side.plugin()
    side.kubelet.refuse = "no resources today"
    side.kubelet.restart()
    until(lambda: "no resources today" in side.log_text(), side.log_text)
    side.kubelet.refuse = None
    assert side.plugin()
    side.kubelet.deaf = True
    side.kubelet.restart()
    count = len(side.kubelet.registered)
    until(lambda: len(side.kubelet.registered) >= count + 2, "told again, as nobody asks for the list")
    side.kubelet.deaf = False
    assert len(side.plugin().devices) == 8


def test_killed_and_started_again(make_side):
    side = make_side()
    side.plugin()
    side.process.kill()
    side.process.wait()
    until(lambda: side.kubelet.plugins["nvidia.com/gpu"].ended.is_set(), "the end of the stream")
    side.start()
    until(lambda: len(side.kubelet.registered) >= 2 and len(side.plugin().devices) == 8, side.log_text)


def test_what_the_agent_said_last_stays(make_side):
    side = make_side()
    plugin = side.plugin()
    side.agent.process.kill()
    side.agent.process.wait()
    until(lambda: "what it said last stays in force" in side.log_text(), side.log_text)
    assert plugin.allocate(plugin.devices[0].id).envs and len(plugin.lists) == 1
    assert len(plugin.healthy) == 8


def test_sockets_are_removed_at_the_end(make_side, tmp_path):
    side = make_side()
    side.plugin()
    assert (tmp_path / "dp" / "nvidia-gpu.sock").exists()
    side.process.terminate()
    assert side.process.wait(60) == 0
    assert [p.name for p in (tmp_path / "dp").iterdir()] == ["kubelet.sock"]
    side.start()
    until(lambda: len(side.kubelet.registered) >= 2, side.log_text)


@pytest.mark.parametrize("text, says", [
    ("version: v2\n", "'v2' is not v1"),
    ("version: v1\nflags:\n  migStrategy: both\n", "migStrategy"),
    ("version: v1\nflags:\n  plugin:\n    deviceListStrategy: [envvar, envvars]\n", "'envvars'"),
    ("version: v1\nsharing:\n  timeSlicing:\n    resources: []\n", "at least one entry"),
    ("version: v1\nsharing:\n  mps:\n    resources: [{name: nvidia.com/gpu, replicas: 2}]\n", "--mps-root"),
    ("version: v1\nflags:\n  mpsRoot: run/mps\n", "not an absolute path"),
    ("version: v1\nflag: {}\n", "flag"),
    ("version: v1\n", "one of them is needed"),
])
def test_wrong_configurations(stoker, tmp_path, text, says):
    config = tmp_path / "config.yaml"
    config.write_text(text)
    more = ["--config-dir", tmp_path, "--node-name", "n"] if "needed" in says else []
    result = subprocess.run([stoker, "kubelet", "--config-file", config, *more], capture_output=True, text=True)
    assert result.returncode == 2 and says in result.stderr, result.stderr


def test_askers_that_die_make_room(make_side):
    side = make_side()
    side.plugin()
    revision = int(side.agent.ask("devices")[1].split("\n", 1)[0])
    for _ in range(40):  # more than may ask at a time, each of them held
        with socket.socket(socket.AF_UNIX) as asker:
            asker.connect(str(side.agent.control))
            asker.sendall(f"devices {revision}\n".encode())
            select.select([asker], [], [], 0.01)
    assert int(side.agent.ask("devices")[1].split("\n", 1)[0]) >= revision
