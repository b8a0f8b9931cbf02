# SPDX-License-Identifier: Apache-2.0
"""The systemd units: they fit one another and the program, they hold, and the agent has no devices."""
import re
import shutil
import subprocess

import pytest

SERVICES = {"stoker.service": 2.0, "stoker-sampler@.service": 2.0}  # with the exposure that systemd-analyze may see at most
AT_BOOT = "stoker-mig.service"
SOCKETS = ["stoker.socket", "stoker-sampler.socket"]
HELD = {"NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "CapabilityBoundingSet": "",
        "AmbientCapabilities": "", "PrivateTmp": "yes", "ReadOnlyPaths": "/run", "ProtectKernelTunables": "yes", "ProtectKernelModules": "yes",
        "ProtectControlGroups": "yes", "RestrictNamespaces": "yes", "RestrictSUIDSGID": "yes", "LockPersonality": "yes",
        "MemoryDenyWriteExecute": "yes", "SystemCallArchitectures": "native"}
NOT_HELD = ["ProtectProc", "PrivateUsers", "PrivatePIDs"]  # the agent could no longer look at a sampler that hangs


class Unit:
    """A unit's settings as [(section, key, value)]."""

    def __init__(self, text):
        section, self.rows = None, []
        for line in text.splitlines():
            if line.startswith("["):
                section = line.strip("[]")
            elif line and not line.startswith("#"):
                key, value = line.split("=", 1)
                self.rows.append((section, key, value))

    def all(self, key):
        return [value for _, k, value in self.rows if k == key]

    def one(self, key):
        values = self.all(key)
        assert len(values) == 1, (key, values)
        return values[0]


@pytest.fixture(scope="module")
def rendered(deploy, tmp_path_factory):
    """A folder with the units as an installation has them, and programs that they can start."""
    folder = tmp_path_factory.mktemp("units")
    for program in ("bin/stoker", "libexec/stoker/stoker-sampler"):
        (folder / program).parent.mkdir(parents=True)
        (folder / program).write_text("#!/bin/sh\n")
        (folder / program).chmod(0o755)
    for name in [*SERVICES, AT_BOOT]:
        text = (deploy / "systemd" / f"{name}.in").read_text()
        text = text.replace("@bindir@", str(folder / "bin")).replace("@libexecdir@", str(folder / "libexec"))
        assert not re.search(r"@\w+@", text)
        (folder / name).write_text(text)
    for name in SOCKETS:
        shutil.copy(deploy / "systemd" / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def units(rendered):
    return {name: Unit((rendered / name).read_text()) for name in [*SERVICES, AT_BOOT, *SOCKETS]}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_held(units, name):
    assert {key: units[name].one(key) for key in HELD} == HELD
    assert not [key for key in NOT_HELD if units[name].all(key)]
    assert "@system-service" in units[name].all("SystemCallFilter")[0] and int(units[name].one("MemoryMax").rstrip("M")) <= 128


def test_only_a_sampler_has_devices(units):
    agent, sampler = (units[name] for name in SERVICES)
    assert agent.one("PrivateDevices") == "yes" and not agent.all("DeviceAllow")
    assert sampler.one("DevicePolicy") == "closed" and sampler.all("DeviceAllow") == ["char-nvidia* rw"]
    assert not sampler.all("PrivateDevices")


def test_a_sampler_has_no_network(units):
    sampler = units["stoker-sampler@.service"]
    assert sampler.one("PrivateNetwork") == "yes" and sampler.one("RestrictAddressFamilies") == "AF_UNIX"


def test_the_agent_may_end_a_sampler(units, deploy):
    users = {units[name].one("User") for name in SERVICES} | {units["stoker-sampler.socket"].one("SocketUser")}
    assert users == {"stoker"}
    assert re.search(r"^u stoker ", (deploy / "systemd/stoker.sysusers").read_text(), re.M)


def test_the_agent_finds_its_samplers(units, deploy):
    socket, agent = units["stoker-sampler.socket"], units["stoker.service"]
    path = socket.one("ListenSequentialPacket")
    assert f"--sampler-socket {path}" in agent.one("ExecStart") and socket.one("Accept") == "yes"
    assert agent.one("Requires") == "stoker-sampler.socket" and "stoker-sampler.socket" in agent.one("After").split()
    assert socket.one("SocketMode") == "0600"
    folder = path.rsplit("/", 1)[0]
    assert f"d {folder} 0755 stoker stoker" in (deploy / "systemd/stoker.tmpfiles").read_text()
    assert agent.one("ReadWritePaths") == folder and not agent.all("RuntimeDirectory"), "it would go with the socket in it"
    assert f"--control {folder}/" in agent.one("ExecStart")


def test_samplers_end_with_the_agent_and_are_not_started_without_it(units):
    sampler = units["stoker-sampler@.service"]
    assert sampler.one("StopPropagatedFrom") == "stoker.service" and sampler.one("Before") == "stoker.service"
    assert sampler.one("Restart") == "no" and not any(sampler.all(key) for key in ("PartOf", "Requires", "BindsTo", "WantedBy"))


def test_there_is_a_connection_for_every_sampler(units, source):
    most = re.search(r"NODE_SAMPLERS_MAX = (\d+)", (source / "src/model/node.h").read_text())[1]
    assert units["stoker-sampler.socket"].one("MaxConnections") == most


def test_the_agent_comes_back_but_not_with_a_bad_configuration(units, run_agent):
    assert units["stoker.service"].one("Restart") == "always" and units["stoker.service"].one("StartLimitIntervalSec") == "0"
    assert units["stoker.service"].one("RestartPreventExitStatus") == str(run_agent("--no-such-flag").returncode)


def test_the_port_is_the_default_one(units, agent_words):
    assert units["stoker.socket"].one("ListenStream") == "9400" and not units["stoker.socket"].all("Accept")
    assert "--web-systemd-socket" in agent_words.flags


def test_the_agent_knows_its_flags(units, agent_words):
    program, verb, *words = units["stoker.service"].one("ExecStart").split()
    assert program.endswith("/bin/stoker") and verb == "agent"
    assert {w for w in words if w.startswith("-")} <= agent_words.flags


def test_the_layout_comes_back_before_anybody_uses_gpus(units, stoker):
    unit = units[AT_BOOT]
    program, *words = unit.one("ExecStart").split()
    assert program.endswith("/bin/stoker") and words == ["mig", "restore"] and unit.one("Type") == "oneshot"
    assert {"stoker.service", "kubelet.service"} <= set(unit.one("Before").split())
    page = subprocess.run([stoker, *words, "--help"], capture_output=True, text=True, check=True).stdout
    assert unit.one("ConditionPathExists") in page, "the file that is read without --file"
    assert not unit.all("StateDirectory"), "the folder belongs to the agent's user"


def test_the_build_installs_every_unit(deploy):
    listed = (deploy / "meson.build").read_text()
    for file in (deploy / "systemd").iterdir():
        assert f"'{file.name.removesuffix('.in')}'" in listed or f"'systemd/{file.name}'" in listed, file.name


@pytest.fixture(scope="module")
def analyze():
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze on this machine")
    return lambda *words: subprocess.run(["systemd-analyze", "--no-pager", *map(str, words)], capture_output=True, text=True,
                                         timeout=120, check=False)


def test_systemd_understands_them(analyze, rendered):
    done = analyze("verify", "--man=no", *(rendered / name for name in [*SERVICES, AT_BOOT, *SOCKETS]))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("name", SERVICES)
def test_systemd_finds_little_exposed(analyze, rendered, name):
    done = analyze("security", "--offline=yes", rendered / name)
    if "offline" in done.stderr:
        pytest.skip("this systemd-analyze cannot look at files")
    level = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert level and float(level[1]) <= SERVICES[name], done.stdout + done.stderr
