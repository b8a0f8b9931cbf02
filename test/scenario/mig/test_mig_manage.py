# SPDX-License-Identifier: Apache-2.0
"""`stoker mig manage`: the node-label contract of NVIDIA's mig-manager, with an API server and GPU clients of our own. What the
node's labels went through is read from the patches that the server carried out."""
import os
import signal
import subprocess
import time

import agent_rig as rig
import pytest
from agent_rig import until
from apiserver import STATUS, Server, pod

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may change MIG")
NODE, PODS = "/api/v1/nodes/worker-7", "/api/v1/namespaces/gpu-operator/pods"
CONFIG, STATE, MESSAGE = "nvidia.com/mig.config", "nvidia.com/mig.config.state", "stoker.dev/mig.config.message"
DEPLOY, PAUSED = "nvidia.com/gpu.deploy.", "paused-for-mig-change"
APPS = {"device-plugin": "nvidia-device-plugin-daemonset", "gpu-feature-discovery": "gpu-feature-discovery",
        "dcgm-exporter": "nvidia-dcgm-exporter", "dcgm": "nvidia-dcgm"}
RUNNING = {DEPLOY + "device-plugin": "true", DEPLOY + "dcgm-exporter": "true", DEPLOY + "client": "true"}
OTHERS = {DEPLOY + "dcgm": "false", DEPLOY + "driver": "true", DEPLOY + "mig-manager": "true", "team": "blue"}
CONFIGS = """version: v1
mig-configs:
  all-balanced:
  - {devices: all, mig-enabled: true, mig-devices: {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}}
  all-1g.10gb:
  - {devices: all, mig-enabled: true, mig-devices: {"1g.10gb": 7}}
  all-7g.80gb:
  - {devices: all, mig-enabled: true, mig-devices: {"7g.80gb": 1}}
  typo:
  - {devices: [0], mig-enabled: true, mig-devices: {"1g.5gb": 7}}
  - {devices: [1], mig-enabled: true, mig-devices: {"1g.10gb": 7}}
  impossible:
  - {devices: all, mig-enabled: true, mig-devices: {"3g.40gb": 2, "1g.10gb": 1}}
  no-such-board:
  - {device-filter: "0x20B010DE", devices: all, mig-enabled: true, mig-devices: {"1g.5gb": 7}}
"""
SMALL = 14 * ["1g.10gb"]
PAUSE = {STATE: "pending", **dict.fromkeys(RUNNING, PAUSED)}
SUCCESS = {STATE: "success", **RUNNING}


class Cluster(Server):
    """This node, and pods of GPU clients as their DaemonSets have them; `stubborn` pods stay."""

    def __init__(self, folder):
        super().__init__(folder)
        self.objects[NODE] = {"kind": "Node", "metadata": {"name": "worker-7", "resourceVersion": "100", "labels": {**RUNNING, **OTHERS}}}
        self.stubborn, self.before = [], None

    def answer(self, request):
        labels = self.labels()
        pods = {f"{app}-x1": {"app": app} for name, app in APPS.items() if labels.get(DEPLOY + name) == "true" or app in self.stubborn}
        self.lists[PODS] = [pod(name, wanted) for name, wanted in {**pods, "other": {"app": "other"}}.items()]
        if self.before:
            self.before(request)
        super().answer(request)

    def labels(self):
        return dict(self.objects[NODE]["metadata"]["labels"])

    def message(self):
        return self.objects[NODE]["metadata"].get("annotations", {}).get(MESSAGE)

    def sequence(self):
        return [patch["labels"] for patch in self.patches]


class Manager:
    def __init__(self, mig, api):
        self.mig, self.api, self.process, self.log = mig, api, None, mig.folder / "manage.log"
        self.config = mig.folder / "configs.yaml"
        self.config.write_text(CONFIGS)
        self.env = {**mig.env, **api.env, "CONFIG_FILE": str(self.config)}

    def start(self, *words):
        own = ["--state", self.mig.state, "--control", self.mig.folder / "no.sock", "--period", "100ms", "--kubernetes-account", self.api.account]
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen([self.mig.stoker, "mig", "manage", *map(str, own), *words], env=self.env, stderr=log)

    def end(self, number=signal.SIGKILL):
        if self.process:
            self.process.send_signal(number)
            return self.process.wait(rig.PATIENCE)
        return None

    def want(self, config):
        self.api.change(NODE, labels={CONFIG: config})

    def until(self, state, what=None):
        """Waits until the node has this state, and the clients run."""
        until(lambda: self.api.labels().get(STATE) == state and (what is None or what()),
              lambda: f"{self.api.labels()} {self.api.patches} {self.log.read_text()}")

    def becomes(self, layout):
        """Success, with this layout, and nothing is left to do."""
        self.until("success")
        labels = self.api.labels()
        assert {k: labels.get(k) for k in {**RUNNING, **OTHERS}} == {**RUNNING, **OTHERS} and self.api.message() is None
        assert sorted(word for word in self.mig.layout().split() if "g." in word) == sorted(layout)
        assert not self.mig.state.exists() and not (self.mig.state.parent / "change.json.units").exists()


@pytest.fixture
def api(tmp_path):
    server = Cluster(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def manage(make_mig, api):
    managers = []

    def make(*scenario):
        managers.append(Manager(make_mig(*scenario), api))
        return managers[-1]

    yield make
    for one in managers:
        if one.process and one.process.poll() is None:
            one.end()


def test_a_label_is_followed(manage, api):
    m = manage()
    m.want("all-1g.10gb")
    m.start()
    m.becomes(SMALL)
    assert api.sequence() == [PAUSE, SUCCESS], "clients that are off, and others, stay as they are"
    m.want("all-7g.80gb")
    m.until("pending")
    m.becomes(2 * ["7g.80gb"])
    assert api.sequence() == [PAUSE, SUCCESS] * 2
    assert m.end(signal.SIGTERM) == 0
    gets = [headers for path, _, headers in api.asked if path == NODE]
    assert all("as=PartialObjectMetadata;" in headers["Accept"] for headers in gets)
    (query, *_) = [query for path, query, _ in api.asked if path == PODS]
    assert query["fieldSelector"] == "spec.nodeName=worker-7"


def test_a_layout_that_stands_pauses_nothing(manage, api):
    api.no_watch = True
    m = manage()
    m.want("all-balanced")
    m.start()
    m.until("success")
    assert api.sequence() == [{STATE: "success"}]
    m.end()
    m.start()
    before = api.count(NODE)
    until(lambda: api.count(NODE) > before + 20, "it reads on")
    assert len(api.patches) == 1 and not api.count(PODS)


@pytest.mark.parametrize("config, why", [("typo", "has no MIG profile '1g.5gb'"), ("impossible", "the nearest that can be had: 2 x 3g.40gb"),
                                         ("no-such-board", "matches none of the 2 GPUs"), ("nothing", "no configuration 'nothing'")])
def test_a_configuration_that_cannot_be_had_fails_and_touches_nothing(manage, api, config, why):
    m = manage()
    before = m.mig.layout()
    m.want(config)
    m.start()
    m.until("failed")
    assert why in api.message() and why in m.log.read_text()
    assert api.sequence() == [{STATE: "failed"}] and m.mig.layout() == before
    m.want("all-1g.10gb")
    m.becomes(SMALL)


def test_a_process_in_the_way_is_waited_for_and_named(manage, api):
    m = manage("mig-balanced")
    m.mig.node.sim("clock", "step", "1m")
    before = m.mig.layout()
    m.want("all-7g.80gb")
    m.start("--wait", "1s")
    m.until("failed")
    assert "is in use by vllm (pid " in api.message() and "pod serving/chat-" in api.message()
    assert api.sequence() == [PAUSE, {STATE: "failed", **RUNNING}] and m.mig.layout() == before
    m.end()
    m.start("--wait", "1h")
    m.until("pending")
    for work in ("chat", "search"):
        m.mig.node.inject("stop", work)
    m.becomes(4 * ["7g.80gb"])


def test_pods_of_clients_are_waited_for(manage, api):
    m = manage()
    api.stubborn = ["nvidia-dcgm-exporter", "nvidia-dcgm"]  # the label of the second says that it is not ours
    m.want("all-1g.10gb")
    m.start("--pods-wait", "1s")
    m.until("failed")
    assert "are still there after 1s: nvidia-dcgm-exporter-x1; nothing was changed" in api.message()
    assert api.sequence() == [PAUSE, {STATE: "failed", **RUNNING}] and m.mig.layout().count("3g.40gb") == 2
    m.end()
    m.start()
    m.until("pending")
    asked = api.count(PODS)
    until(lambda: api.count(PODS) > asked + 2, "it looks again")
    assert m.mig.layout().count("3g.40gb") == 2
    api.stubborn = []
    m.becomes(SMALL)


def test_a_label_that_changes_meanwhile_is_followed_after_it(manage, api):
    m = manage()
    m.mig.node.inject("hang", "gpu=0-1", "function=nvmlDeviceCreateGpuInstanceWithPlacement")
    m.want("all-1g.10gb")
    m.start()
    until(m.mig.state.exists, "a change under way")
    m.want("all-7g.80gb")
    m.mig.node.inject("hang", "gpu=0-1", "clear=on")
    until(lambda: len(api.patches) == 4, lambda: f"{api.patches} {m.log.read_text()}")
    m.becomes(2 * ["7g.80gb"])
    assert api.sequence() == [PAUSE, SUCCESS] * 2


# --- killed at each step

def refuse_patches(api, after=0):
    """Every patch after some is refused until the fail is taken away."""
    def fail(request):
        return (503, STATUS) if request.command == "PATCH" and len(api.patches) >= after else None
    api.fail = fail


def kill_before_pending(m, api):
    refuse_patches(api)
    until(lambda: "cannot be changed" in m.log.read_text(), "a patch is refused")
    assert m.mig.layout().count("3g.40gb") == 2 and not m.mig.state.exists()


def kill_waiting_for_pods(m, api):
    api.stubborn = ["nvidia-dcgm-exporter"]
    until(lambda: api.count(PODS) > 1, "it waits")


def kill_in_the_driver(m, api):
    m.mig.node.inject("hang", "gpu=1", "function=nvmlDeviceCreateGpuInstanceWithPlacement", "after=2")
    until(m.mig.state.exists, "a change under way")


def kill_before_success(m, api):
    refuse_patches(api, after=1)
    until(lambda: "cannot be changed" in m.log.read_text(), "a patch is refused")
    assert api.labels()[STATE] == "pending" and not m.mig.state.exists()


@pytest.mark.parametrize("step", [kill_before_pending, kill_waiting_for_pods, kill_in_the_driver, kill_before_success])
@pytest.mark.parametrize("wanted", ["all-1g.10gb", "all-7g.80gb", None])
def test_killed_at_any_step_the_next_start_ends_it(manage, api, step, wanted):
    """`wanted`: the label as the next start finds it."""
    api.no_watch = True
    m = manage()
    before = m.mig.layout()
    m.want("all-1g.10gb")
    m.start()
    step(m, api)
    m.end()
    m.mig.node.inject("hang", "gpu=1", "clear=on")
    api.fail, api.stubborn = None, []
    m.want(wanted)
    m.start()
    if wanted:
        return m.becomes(SMALL if wanted == "all-1g.10gb" else 2 * ["7g.80gb"])
    if step == kill_before_pending:
        before_reads = api.count(NODE)
        until(lambda: api.count(NODE) > before_reads + 10, "it reads on")
        return assert_untouched(m, api, before)
    m.until("failed")
    assert "the label was removed" in api.message() and not m.mig.state.exists()
    assert {k: api.labels().get(k) for k in RUNNING} == RUNNING
    assert m.mig.layout() == before or step == kill_before_success
    return None


def assert_untouched(m, api, layout):
    assert not api.patches and m.mig.layout() == layout


def test_a_signal_while_it_waits(manage, api):
    m = manage()
    api.stubborn = ["nvidia-dcgm-exporter"]
    m.want("all-1g.10gb")
    m.start()
    until(lambda: api.count(PODS) > 1, "it waits")
    assert m.end(signal.SIGTERM) == 0
    assert api.sequence() == [PAUSE, RUNNING], "clients run, and the state says that there is something to do"
    api.stubborn = []
    m.start()
    m.becomes(SMALL)


# --- the API server

@pytest.mark.parametrize("status", [401, 403, 404, 409, 429, 500, 503, 0])
def test_an_api_server_that_fails_is_asked_again(manage, api, status):
    """For every request; and only for patches. 0: it closes the connection."""
    api.no_watch = True
    m = manage()
    failed = []

    def fail(request):
        if len(failed) >= 12 or len(failed) % 3 == 2 and request.command == "GET":
            return None
        failed.append(request.command)
        if not status:
            request.close_connection = True
            return "done"
        return status, {**STATUS, "message": "not so", "code": status}

    api.fail = fail
    m.want("all-1g.10gb")
    m.start()
    m.becomes(SMALL)
    assert api.sequence() == [PAUSE, SUCCESS] and "PATCH" in failed
    log = m.log.read_text()
    assert status == 409 or log.count("API server: the node cannot be changed") == 1, log
    assert log.count("API server: the node cannot be read") <= failed.count("GET")


def test_a_server_that_is_away_for_long(manage, api):
    api.no_watch = True
    m = manage()
    m.start()
    until(lambda: api.count(NODE) > 1, "it reads")
    api.tokens = set()
    m.want("all-1g.10gb")
    asked = api.count(NODE)
    until(lambda: api.count(NODE) > asked + 10, "it asks on")
    assert m.log.read_text().count("cannot be read: HTTP 401: Unauthorized") == 1
    (api.account / "token").write_text("second.token")
    api.tokens = {"second.token"}
    m.becomes(SMALL)


def test_retry_after_is_obeyed(manage, api):
    m = manage()
    ends, early = [], []

    def fail(request):
        if ends:
            early.extend(end for end in ends if time.monotonic() < end)
        elif request.command == "PATCH":
            ends.append(time.monotonic() + 2)
            request.send_response(429)
            request.send_header("Retry-After", "2")
            request.send_header("Content-Length", "0")
            request.end_headers()
            return "done"
        return None

    api.fail = fail
    m.want("all-1g.10gb")
    m.start()
    m.becomes(SMALL)
    assert ends and not early


def test_what_somebody_else_sets_meanwhile_stays(manage, api):
    """A client that is turned off between our reading and our patch is not turned on again."""
    m = manage()
    turned = []

    def turn_off(request):
        if request.command == "PATCH" and not turned:
            turned.append(1)
            api.change(NODE, labels={DEPLOY + "client": "false"})

    api.before = turn_off
    m.want("all-1g.10gb")
    m.start()
    m.until("success")
    pause, success = api.sequence()
    assert DEPLOY + "client" not in {**pause, **success} and api.labels()[DEPLOY + "client"] == "false"


def test_a_driver_that_does_not_answer_is_tried_again(manage, api):
    m = manage()
    m.mig.node.inject("hang", "gpu=0-1", "function=nvmlDeviceGetMigMode")
    m.want("all-1g.10gb")
    m.start("--timeout", "1s", "--retry", "100ms")
    m.until("failed")
    assert "has not returned for 1000 ms" in api.message() and api.sequence() == [{STATE: "failed"}]
    m.mig.node.inject("hang", "gpu=0-1", "clear=on")
    m.becomes(SMALL)


def test_a_layout_that_could_not_be_put_back_is_tried_again(manage, api):
    m = manage()
    m.mig.node.inject("hang", "gpu=1", "function=nvmlDeviceCreateGpuInstanceWithPlacement", "after=2")
    m.want("all-1g.10gb")
    m.start("--timeout", "1s", "--retry", "100ms")
    m.until("failed")
    assert "could not be put back" in api.message() and m.mig.state.exists()
    assert {k: api.labels().get(k) for k in RUNNING} == RUNNING
    m.mig.node.inject("hang", "gpu=1", "clear=on")
    m.becomes(SMALL)


def test_a_name_that_is_cut_within_a_character(manage, api):
    """What is written to the node is compared with what it then has: it is written once."""
    api.no_watch = True
    m = manage()
    m.config.write_text(CONFIGS + "  odd:\n  - {devices: all, " + "x" * 39 + "\u00e9: 1}\n")
    m.want("odd")
    m.start()
    m.until("failed")
    before = api.count(NODE)
    until(lambda: api.count(NODE) > before + 10, "it reads on")
    assert api.sequence() == [{STATE: "failed"}] and f"unknown key '{'x' * 39}?'" in api.message()


# --- units of the host

CHROOT = """#!/bin/sh
# chroot HOST systemctl VERB UNIT: units are files of the host's folder
[ "$2" = systemctl ] || exit 127
case "$3" in
-q) test -e "$1/$5" || exit 3;;
stop) rm -f "$1/$4" && echo "stop $4" >> "$1/log";;
start) echo "start $4" >> "$1/log"; test ! -e "$1/broken" && touch "$1/$4";;
esac
"""


@pytest.fixture
def host(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/chroot").write_text(CHROOT)
    (tmp_path / "bin/chroot").chmod(0o755)
    folder = tmp_path / "host"
    folder.mkdir()
    for unit in ("nvsm.service", "nvidia-dcgm.service"):
        (folder / unit).touch()
    (tmp_path / "clients.yaml").write_text("version: v1\nsystemd-services: [nvsm.service, not-there.service, nvidia-dcgm.service]\n")
    return folder


def with_host(m, host, *, stop="true"):
    m.env.update(PATH=f"{host.parent}/bin:{m.env['PATH']}", HOST_ROOT_MOUNT=str(host), GPU_CLIENTS_FILE=str(host.parent / "clients.yaml"),
                 WITH_SHUTDOWN_HOST_GPU_CLIENTS=stop)


STOPPED = ["stop nvsm.service", "stop nvidia-dcgm.service"]
STARTED = ["start nvidia-dcgm.service", "start nvsm.service"]


def test_units_of_the_host_are_stopped_where_it_is_asked_for(manage, api, host):
    m = manage()
    with_host(m, host, stop="false")
    m.want("all-1g.10gb")
    m.start()
    m.becomes(SMALL)
    assert not (host / "log").exists()
    m.end()
    with_host(m, host)
    m.want("all-7g.80gb")
    m.start()
    m.until("pending")
    m.becomes(2 * ["7g.80gb"])
    assert (host / "log").read_text().splitlines() == STOPPED + STARTED


def test_units_are_started_after_a_kill(manage, api, host):
    m = manage()
    with_host(m, host)
    m.mig.node.inject("hang", "gpu=1", "function=nvmlDeviceCreateGpuInstanceWithPlacement", "after=2")
    m.want("all-1g.10gb")
    m.start()
    until(m.mig.state.exists, "a change under way")
    m.end()
    m.mig.node.inject("hang", "gpu=1", "clear=on")
    assert (host / "log").read_text().splitlines() == STOPPED
    (host / "broken").touch()
    m.start()
    m.until("failed")
    assert "the layout stands, but a unit of the host does not start: systemctl start" in api.message()
    (host / "broken").unlink()
    m.end()
    m.start()
    m.becomes(SMALL)
    assert (host / "nvsm.service").exists() and (host / "nvidia-dcgm.service").exists()


@pytest.mark.parametrize("env, why", [({"NODE_NAME": ""}, "NODE_NAME"), ({"NODE_NAME": "a/b"}, "NODE_NAME"), ({"CONFIG_FILE": ""}, "--config-file"),
                                      ({"DEFAULT_GPU_CLIENTS_NAMESPACE": "a/b"}, "namespace"),
                                      ({"WITH_SHUTDOWN_HOST_GPU_CLIENTS": "true"}, "--gpu-clients-file"),
                                      ({"WITH_SHUTDOWN_HOST_GPU_CLIENTS": "true", "GPU_CLIENTS_FILE": "wrong.yaml"}, "'-x.service' is not the name")])
def test_wrong_options(manage, tmp_path, env, why):
    m = manage()
    (tmp_path / "wrong.yaml").write_text("version: v1\nsystemd-services: [-x.service]\n")
    done = subprocess.run([m.mig.stoker, "mig", "manage"], env={**m.env, **env}, cwd=tmp_path, capture_output=True, text=True,
                          timeout=rig.PATIENCE, check=False)
    assert done.returncode == 2 and why in done.stderr
