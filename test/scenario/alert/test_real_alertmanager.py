# SPDX-License-Identifier: Apache-2.0
"""Debian's prometheus-alertmanager: it takes our alerts, groups them, tells of their end, and loses none over a restart
of its own. test/peer/fetch.py fetches it; without it these tests are skipped."""
import json
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow("the real Alertmanager")

PATIENCE = 120

CONFIG = """
route:
  receiver: hook
  group_by: [alertname, hostname]
  group_wait: 1s
  group_interval: 1s
  repeat_interval: 1h
receivers:
  - name: hook
    webhook_configs: [{{url: "{url}/am", send_resolved: true}}]
"""


@pytest.fixture(scope="session")
def program(fetched):
    return fetched("alertmanager") / "usr/bin/prometheus-alertmanager"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Alertmanager:
    def __init__(self, program, folder, hook):
        self.program, self.folder, self.port = program, folder, free_port()
        folder.mkdir()
        (folder / "am.yml").write_text(CONFIG.format(url=hook.url))
        self.up()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def up(self, data="data"):
        self.process = subprocess.Popen(
            [self.program, f"--config.file={self.folder}/am.yml", f"--storage.path={self.folder}/{data}",
             f"--web.listen-address=127.0.0.1:{self.port}", "--cluster.listen-address="],
            cwd=self.program.parents[1] / "share" / "prometheus" / "alertmanager",
            stdout=subprocess.DEVNULL, stderr=open(self.folder / "log", "a"))
        self.wait(lambda: self.get("/-/ready") is not None)

    def down(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait(PATIENCE)

    def get(self, path):
        try:
            with urllib.request.urlopen(self.url + path, timeout=PATIENCE) as answer:
                return answer.read()
        except (urllib.error.URLError, ConnectionError):
            return None

    def wait(self, fits):
        end = time.monotonic() + PATIENCE
        while not (got := fits()):
            assert self.process.poll() is None and time.monotonic() < end, (self.folder / "log").read_text()
            time.sleep(0.02)
        return got

    def alerts(self):
        return {a["labels"]["gpu"]: a for a in json.loads(self.get("/api/v2/alerts") or b"[]")}

    def wait_alerts(self, *gpus):
        self.wait(lambda: set(self.alerts()) == set(gpus))
        return self.alerts()


@pytest.fixture
def manager(program, tmp_path, hook):
    hook = hook()
    one = Alertmanager(program, tmp_path / "am", hook)
    one.hook = hook
    yield one
    if one.process.poll() is None:
        one.down()


def config(*managers, resend="10s"):
    urls = ", ".join(f'"{m.url}"' for m in managers)
    return f"receivers: {{am: {{alertmanager: {{urls: [{urls}], resend: {resend}}}}}}}"


def of_status(hook, status, *gpus):
    """Notifications with these GPUs in this state."""
    return hook.wait(1, lambda p: {a["labels"]["gpu"] for a in p.json["alerts"] if a["status"] == status} == set(gpus))


def test_alerts_appear_are_grouped_and_resolved(start, manager):
    driver = start(config(manager))
    for gpu in range(3):
        driver.tell(id=f"i{gpu}", gpu=gpu)
    seen = manager.wait_alerts("0", "1", "2")
    assert seen["1"]["annotations"]["incident"] == "i1" and seen["1"]["status"]["state"] == "active"
    assert seen["1"]["generatorURL"] == "http://node7:9400/#/incidents/i1"
    told = of_status(manager.hook, "firing", "0", "1", "2")[0]
    assert told.json["groupLabels"] == {"alertname": "GpuLost", "hostname": "node7"}
    assert driver.receiver("am")["failed"] == 0
    driver.tell(id="i1", gpu=1, revision=2, state="cleared")
    manager.wait_alerts("0", "2")
    of_status(manager.hook, "resolved", "1")
    firing = [p for p in manager.hook.posts if p.json["status"] == "firing"]
    assert {a["labels"]["gpu"] for a in firing[-1].json["alerts"] if a["status"] == "firing"} == {"0", "2"}


def test_escalation_ends_the_old_alert(start, manager):
    driver = start(config(manager))
    driver.tell(id="a", gpu=0, severity="error", route="ticket")
    driver.heard("am a")
    manager.wait_alerts("0")
    driver.tell(id="a", gpu=0, severity="fatal", revision=2, escalations=1)
    manager.wait(lambda: manager.alerts()["0"]["labels"]["severity"] == "fatal" and
                 len(json.loads(manager.get("/api/v2/alerts"))) == 1)


@pytest.mark.parametrize("data", ["data", "empty"])
def test_restart_of_alertmanager(start, manager, data):
    driver = start(config(manager, resend="2s"))
    driver.tell(id="a", gpu=0)
    driver.heard("am a")
    of_status(manager.hook, "firing", "0")
    manager.down(signal.SIGKILL if data == "empty" else signal.SIGTERM)
    driver.tell(id="b", gpu=1)
    driver.wait_receiver("am", lambda r: not r["fine"])
    manager.up(data)
    manager.wait_alerts("0", "1")
    driver.tell(id="a", gpu=0, revision=2, state="cleared")
    driver.tell(id="b", gpu=1, revision=2, state="cleared")
    manager.wait_alerts()
    driver.wait_outbox(lambda kept: not kept)
    manager.hook.wait(1, lambda p: "0" in {a["labels"]["gpu"] for a in p.json["alerts"] if a["status"] == "resolved"})
    manager.hook.wait(1, lambda p: "1" in {a["labels"]["gpu"] for a in p.json["alerts"] if a["status"] == "resolved"})


def test_agent_that_is_killed_lets_no_alert_end(start, manager):
    driver = start(config(manager, resend="10s"))
    driver.tell(id="a", gpu=0)
    driver.tell(id="b", gpu=1)
    driver.heard("am a", "am b")
    of_status(manager.hook, "firing", "0", "1")
    driver.kill()
    driver = start(config(manager, resend="10s"), resume=[{"id": "a", "gpu": 0, "revision": 2}])
    manager.wait_alerts("0")
    of_status(manager.hook, "resolved", "1")
    assert all("0" not in {a["labels"]["gpu"] for a in p.json["alerts"] if a["status"] == "resolved"}
               for p in manager.hook.posts)


def test_agent_that_is_gone_for_good_lets_its_alerts_end(start, manager):
    driver = start(config(manager, resend="1s"))
    driver.tell(id="a", gpu=0)
    of_status(manager.hook, "firing", "0")
    driver.kill()
    of_status(manager.hook, "resolved", "0")


def test_two_alertmanagers_of_which_one_is_down(start, program, manager, tmp_path):
    other = Alertmanager(program, tmp_path / "other", manager.hook)
    other.down()
    driver = start(config(manager, other, resend="2s"))
    driver.tell(id="a", gpu=0)
    manager.wait_alerts("0")
    other.up()
    try:
        other.wait_alerts("0")
    finally:
        other.down()
