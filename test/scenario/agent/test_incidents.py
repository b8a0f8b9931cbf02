# SPDX-License-Identifier: Apache-2.0
"""Incidents from end to end: a fault on a simulated node, and the verbs, the API and the page that tell of it."""
import contextlib
import gzip
import json
import os
import pathlib
import select
import signal
import sqlite3
import subprocess
import sys

import pytest
from agent_rig import Agent, settles, until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "unit" / "alert"))
from alert_rig import Hook  # noqa: E402

IDLE = "about: nothing runs\ngpus: {board: h100-sxm-80gb, count: 8}\ntruth: []\n"
SCHEMA = json.loads((pathlib.Path(__file__).resolve().parents[3] / "docs" / "incidents.schema.json").read_text())


@pytest.fixture
def judged(make_node, tmp_path):
    """judged(): node and agent with kernel log and journal; agent.again() kills it and starts another."""
    agents = []

    def start(options=()):
        log, journal = tmp_path / "kmsg", tmp_path / "journal.db"
        (tmp_path / "idle.yaml").write_text(IDLE)
        node = make_node(str(tmp_path / "idle.yaml"), options=("--kernel-log", str(log)))
        folder = tmp_path / "agent"
        folder.mkdir()

        def make(ready=True):
            agent = Agent(node.stoker, folder, node.env, options=("--kernel-log", log, "--journal", journal, *options), ready=ready)
            agents.append(agent)
            agent.journal = journal
            return agent

        agent = make()
        agent.make = make
        return node, agent

    yield start
    for follower in Follower.alive:
        follower.kill()
        follower.wait()
    Follower.alive.clear()
    for agent in agents:
        agent.stop()


def validator():
    return pytest.importorskip("jsonschema", reason="python3-jsonschema is not installed")


def listed(agent, *words):
    return json.loads(agent.verb("incidents", "--json", *words).stdout)["incidents"]


def journal_rows(path, question):
    """None where the file is not made yet."""
    with contextlib.suppress(sqlite3.OperationalError), \
            contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=60)) as db:
        return db.execute(question).fetchall()
    return []


def incident(agent, **wanted):
    return until(lambda: next((i for i in listed(agent) if wanted.items() <= i.items()), None),
                 lambda: f"{wanted} in {listed(agent)}")


def alone(agent, *words):
    """The verb without an agent."""
    return subprocess.run([agent.stoker, *map(str, words)], env={**agent.env, "STOKER_CONTROL": "/nonexistent.sock"},
                          capture_output=True, text=True, timeout=120, check=False)


def test_a_lost_gpu_from_the_log_to_every_door(judged):
    node, agent = judged()
    assert agent.verb("incidents").stdout == "no incident\n"
    until(lambda: agent.verb("check").returncode == 0, lambda: agent.verb("check").stdout)
    node.inject("xid", "79", "gpu=3")
    until(lambda: any(sign["code"] == 79 and sign["origin"] == "kmsg" for sign in incident(agent, **{"class": "gpu-lost"})["evidence"]),
          "the log's line, which may come behind the driver's word")
    lost = incident(agent, **{"class": "gpu-lost"})
    validator().validate(json.loads(agent.verb("incidents", "--all", "--json").stdout), SCHEMA)
    assert lost["device"]["index"] == 3 and lost["state"] == "open" and lost["severity"] == "fatal"

    def is_shown():
        status = agent.verb("status")
        lines = status.stdout.splitlines()
        assert status.returncode == 1
        assert lines[1] == "Problem: GPU 3" and lines[3].startswith("fatal    GPU 3") and lines[4].startswith(" DO  ")
        assert lines.index(next(l for l in lines if l.startswith(" GPU  "))) > 4
        told = json.loads(agent.verb("status", "--json").stdout)
        assert told["status"] == "failing" and lost["id"] in [i["id"] for i in told["incidents"]]

    settles(is_shown)

    assert agent.json(f"/api/v1/incidents/{lost['id']}")[1]["id"] == lost["id"]
    shown = agent.verb("incidents", "show", lost["id"])
    assert shown.returncode == 0 and "\nevidence\n" in shown.stdout and "Xid (PCI:0000:61:00): 79" in shown.stdout
    assert listed(agent, "--device", "3") and not listed(agent, "--device", "4")
    assert agent.verb("incidents", "show", "nonsuch").returncode == 3


def test_check_by_profile(judged):
    node, agent = judged()
    check = lambda *words: agent.verb("check", *words)

    def is_ok(profile):
        done = check("--profile", profile)
        assert done.returncode == 0 and done.stdout.startswith("ok: ") and done.stdout.count("\n") == 1

    for profile in ("slurm", "liveness", "readiness", "prolog", "epilog"):
        settles(lambda: is_ok(profile))  # noqa: B023
    node.inject("xid", "13", "gpu=1")
    node.inject("xid", "31", "gpu=2")
    incident(agent, code=31)
    incident(agent, code=13)
    until(lambda: check().returncode == 0 and check("--slurm").stdout == "\n", lambda: check().stdout)
    node.inject("xid", "79", "gpu=3")
    lost = incident(agent, **{"class": "gpu-lost"})

    def is_found():
        assert check().returncode == 1 and check().stdout.startswith("GPU 3 ")
        assert check("--slurm").stdout.startswith(f"stoker: gpu3 gpu-lost {lost['action']} {lost['id']}")
        assert check("--profile", "liveness").returncode == 0
        assert check("--profile", "prolog", "--gpu", "0,1").returncode == 0
        assert check("--profile", "prolog", "--gpu", "0,3").returncode == 1
        assert json.loads(check("--json").stdout)["findings"][0]["incident"] == lost["id"]

    settles(is_found)


def test_check_while_the_agent_is_stopped(judged):
    _, agent = judged()
    os.kill(agent.process.pid, signal.SIGSTOP)
    try:
        for profile, code in (("slurm", 3), ("liveness", 1)):
            done = agent.verb("check", "--profile", profile, "--timeout", "500ms")
            assert done.returncode == code and done.stdout.count("\n") == 1
    finally:
        os.kill(agent.process.pid, signal.SIGCONT)


def test_check_without_an_agent(judged):
    node, agent = judged()
    check = lambda: alone(agent, "check", "--timeout", "60s")
    until(lambda: (d := check()).returncode == 0 and d.stdout == "ok: nothing against 8 GPUs (no agent runs; one sample taken)\n",
          lambda: check().stdout)
    node.inject("xid", "79", "gpu=3")
    until(lambda: (d := check()).returncode == 1 and "0000:61:00.0" in d.stdout, lambda: check().stdout)


def test_check_without_an_agent_on_a_driver_that_hangs(judged):
    """Whatever the driver does it ends in time, and leaves no process behind that it could end."""
    node, agent = judged()
    node.inject("hang", "gpu=2")
    done = alone(agent, "check", "--timeout", "3s")
    assert done.returncode in (1, 3) and done.stdout.count("\n") == 1
    node.inject("hang", "clear=on")


def test_left_over_work_stops_a_prolog(judged):
    node, agent = judged()
    node.inject("work", "decode", "gpus=5", "memory=1GiB")
    until(lambda: agent.verb("check", "-p", "prolog", "--gpu", "5").returncode == 1, "a process on GPU 5")
    until(lambda: " on it: " in agent.verb("check", "-p", "epilog", "--gpu", "5").stdout, "its name")
    for words in (["5", "--shared"], ["4"]):
        until(lambda: agent.verb("check", "-p", "prolog", "--gpu", *words).returncode == 0, agent.log_text)  # noqa: B023


def test_the_black_box(judged, tmp_path):
    node, agent = judged()
    node.inject("xid", "79", "gpu=3")
    lost = incident(agent, **{"class": "gpu-lost"})
    path = tmp_path / "box.json.gz"
    until(lambda: agent.verb("incidents", "show", lost["id"], "--bundle", path).returncode == 0, "a box")
    box = json.loads(gzip.decompress(path.read_bytes()))
    assert box["incident"]["id"] == lost["id"] and box["node"] and len(box["gpus"]) == 8
    assert {"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE"} <= {s["metric"] for s in box["series"]}
    assert any(e["code"] == 79 for e in box["events"])
    assert json.loads(agent.verb("incidents", "show", lost["id"], "--bundle", "-").stdout)["incident"]["id"] == lost["id"]
    assert agent.verb("incidents", "show", lost["id"], "--bundle", tmp_path / "no" / "folder").returncode == 3
    with open("/dev/full", "wb") as full:
        done = subprocess.run([agent.stoker, "incidents", "show", lost["id"], "--bundle", "-", "--control", agent.control],
                              env=agent.env, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 3
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith("box")] == ["box.json.gz"]


def test_history_after_the_agent(judged):
    node, agent = judged()
    node.inject("xid", "79", "gpu=3")
    lost = incident(agent, **{"class": "gpu-lost"})
    kept = lambda *words: alone(agent, *words, "--json", "--journal", agent.journal).stdout
    until(lambda: lost["id"] in kept("incidents", "--all") and '"code":79' in kept("events"), "it is on disk")
    agent.process.kill()
    agent.process.wait()
    done = alone(agent, "incidents", "--all", "--json", "--journal", agent.journal)
    assert lost["id"] in [i["id"] for i in json.loads(done.stdout)["incidents"]] and "no agent runs" in done.stderr
    assert alone(agent, "incidents", "show", lost["id"], "--journal", agent.journal).returncode == 0
    events = alone(agent, "events", "--json", "--journal", agent.journal)
    assert any(json.loads(line)["code"] == 79 for line in events.stdout.splitlines())
    assert alone(agent, "incidents", "--journal", agent.journal, "--since", "2020-01-01T00:00:00Z").returncode == 1
    assert json.loads(alone(agent, "incidents", "--json", "--device", "4", "--journal", agent.journal).stdout)["incidents"] == []


def test_an_incident_is_cleared_by_hand(judged):
    node, agent = judged()
    node.inject("xid", "31", "gpu=1")
    fault = incident(agent, code=31)
    assert agent.verb("incidents", "clear", fault["id"]).returncode == 0
    over = until(lambda: next((i for i in listed(agent, "--all") if i["id"] == fault["id"] and i["state"] == "cleared"), None),
                 lambda: listed(agent, "--all"))
    assert over["ended_by"] == "hand"
    assert agent.verb("incidents", "clear", fault["id"]).returncode == 3
    assert fault["id"] not in [i["id"] for i in listed(agent)]


class Follower:
    alive = []

    def __init__(self, agent, *words):
        self.process = subprocess.Popen([agent.stoker, "events", "--follow", "--json", "--control", agent.control,
                                         "--journal", agent.journal, *words], env=agent.env, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self.alive.append(self.process)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.text = b""

    def events(self):
        while select.select([self.process.stdout], [], [], 0)[0]:
            part = self.process.stdout.read()
            if not part:
                break
            self.text += part
        return [json.loads(line) for line in self.text.splitlines(keepends=True) if line.endswith(b"\n")]

    def xids(self, code):
        return [e for e in self.events() if e["code"] == code and e["origin"] == "kmsg"]

    def end(self, number=signal.SIGINT):
        self.process.send_signal(number)
        code = self.process.wait(120)
        self.process.stdout.close()
        self.process.stderr.close()
        return code


def test_follow_goes_on_over_a_restart(judged):
    node, agent = judged()
    follower = Follower(agent)
    until(lambda: any(e["kind"] == "agent-start" for e in follower.events()), "the first event")
    node.inject("xid", "31", "gpu=1")
    until(lambda: follower.xids(31), follower.events)
    until(lambda: journal_rows(agent.journal, "SELECT 1 FROM events WHERE json->>'code' = 31 AND json->>'origin' = 'kmsg'"), "it is on disk")
    agent.process.kill()
    agent.process.wait()
    again = agent.make()
    node.inject("xid", "13", "gpu=2")
    until(lambda: follower.xids(13), follower.events)
    until(lambda: sum(e["kind"] == "agent-start" for e in follower.events()) == 2, follower.events)
    assert len(follower.xids(31)) == 1
    texts = [(e["time"], e["text"]) for e in follower.events()]
    assert len(texts) == len(set(texts)), "one was told twice"
    assert follower.xids(13)[0]["gpu"] == 2
    assert follower.end() == 0
    assert again.verb("events", "--device", "2").stdout.count("XID 13") >= 1
    assert "XID 31" not in again.verb("events", "--device", "2").stdout


def test_no_log_is_read_again_after_a_kill(judged):
    """The kernel's first record has number 0, and the fabric manager's file may grow while the kernel says nothing."""
    node, agent = judged()
    fabric = pathlib.Path(node.env["STOKER_ROOT"]) / "var/log/fabricmanager.log"
    fabric.parent.mkdir(parents=True, exist_ok=True)
    fabric.touch()
    where = lambda: dict(journal_rows(agent.journal, "SELECT key, value FROM meta"))
    codes = lambda: [code for code, in journal_rows(agent.journal, "SELECT json_extract(json, '$.code') FROM events WHERE "
                                                    "json_extract(json, '$.kind') IN ('xid', 'sxid')")]
    until(lambda: where().get("sequence") == "-1", where)  # an empty log was read
    assert where()["boot_id"]

    def happen(xid, sxid):
        before = where()
        node.inject("kmsg", f"text=NVRM: Xid (PCI:0000:43:00): {xid}, pid=1, name=python, Ch 00000010")
        until(lambda: where()["sequence"] == str(int(before["sequence"]) + 1), where)
        with fabric.open("a") as out:
            out.write(f"[Jul 23 2026 07:53:55] [ERROR] [tid 8] detected NVSwitch fatal error {sxid} on fid 0 on NVSwitch "
                      "pci bus id 00000000:86:00.0\n")
        until(lambda: where()["fabric_offset"] == str(fabric.stat().st_size), where)

    happen(31, 20034)
    assert where()["sequence"] == "0"
    agent.process.kill()
    agent.process.wait()
    agent = agent.make(ready=False)
    happen(13, 20009)
    until(lambda: {13, 20009} <= set(codes()), codes)
    assert sorted(codes()) == [13, 31, 20009, 20034]


def test_follow_ends_with_its_reader(judged):
    node, agent = judged()
    follower = Follower(agent)
    until(follower.events, "the first event")
    follower.process.stdout.close()
    node.inject("xid", "13", "gpu=2")
    assert follower.process.wait(120) == 0
    assert follower.process.stderr.read() == b""
    follower.process.stderr.close()


def test_maintenance(judged):
    node, agent = judged()
    made = agent.verb("maintenance", "start", "--for", "2h", "--reason", "new  power 'supply'\n", "--gpu", "3", "--gpu", "4")
    assert made.returncode == 0 and "GPU 3,4 for 2h" in made.stdout
    [window] = until(lambda: json.loads(agent.verb("maintenance", "list", "--json").stdout)["windows"], "it is listed")
    assert window["gpus"] == [3, 4] and window["reason"] == "new power 'supply'" and window["id"] in made.stdout
    assert "active" in until(lambda: (lambda t: t if "active" in t else None)(agent.verb("maintenance", "list").stdout), "active")
    node.inject("xid", "79", "gpu=3")
    lost = incident(agent, **{"class": "gpu-lost", "maintenance": window["id"]})
    until(lambda: "maintenance of GPU 3,4 until" in agent.verb("status").stdout, lambda: agent.verb("status").stdout)
    until(lambda: agent.verb("check").returncode == 0, "somebody is at work on it")
    assert agent.verb("maintenance", "stop", "nonsuch").returncode == 3
    assert agent.verb("maintenance", "start", "--reason", "x", "--gpu", "99").returncode == 2
    assert agent.verb("maintenance", "stop", window["id"]).returncode == 0
    incident(agent, id=lost["id"], maintenance=None)
    until(lambda: agent.verb("maintenance", "list").stdout == "no maintenance\n", lambda: agent.verb("maintenance", "list").stdout)


def test_the_page(judged):
    node, agent = judged()
    assert not agent.page().all("stoker_incident_open")
    node.inject("xid", "79", "gpu=3")
    incident(agent, **{"class": "gpu-lost"})
    wanted = {"stoker_incident_open", "stoker_incidents_opened_total", "stoker_xid_errors_total"}

    def is_there():
        """Series of the incident and of the XID, which the driver may tell later than the log."""
        page = agent.page()
        assert wanted <= page.names()
        assert page.one("stoker_incident_open", **{"class": "gpu-lost", "gpu": "3", "severity": "fatal"}) == 1
        assert page.one("stoker_gpu_health", gpu="3") == 3 and page.one("stoker_gpu_health", gpu="1") == 0
        assert page.one("stoker_journal_up") == 1

    settles(is_there)
    until(lambda: [v for _, v in agent.page().all("stoker_incidents_opened_total", **{"class": "gpu-lost"}) if v] == [1],
          "one incident opened")
    until(lambda: agent.page().one("stoker_gpu_xid_errors_total", gpu="3") >= 2, "XID 79, and 154 which comes with it")
    assert agent.page().one("stoker_gpu_xid_errors_total", gpu="3") == 2, "log and library told the same ones"
    node.inject("xid", "119", "gpu=1")
    until(lambda: agent.page().all("stoker_xid_errors_total", gpu="1", xid="119"), "XID 119 of the log")


SITE = """
classes:
  site-warm:
    text: the GPU is warmer than this site likes
    advice: Open a window.
    cause: thermal
    severity: error
    scope: gpu
    action: check-cooling
    route: ticket
    clear: gone
    for: 0s
    source: this test
rules:
  site-warm:
    on: {detector: metric}
    with: {metric: DCGM_FI_DEV_GPU_TEMP, above: 1}
    class: site-warm
    name: any temperature at all
    source: this test
"""


def test_a_class_of_the_site_reaches_every_output_and_none_contradicts(judged, tmp_path):
    (tmp_path / "site.yaml").write_text(SITE.replace("above: 1", "above: 200"))
    node, agent = judged(("--faults", tmp_path / "site.yaml"))
    (tmp_path / "site.yaml").write_text(SITE)
    agent.process.send_signal(signal.SIGHUP)
    incident(agent, **{"class": "site-warm"})
    until(lambda: {g["activity"]["word"] for g in agent.gpus()} == {"unusable"}, "free GPUs that let no new work in")

    def agree():
        body = json.loads(agent.verb("status", "--json").stdout)  # what the page is drawn from
        assert body["status"] == "failing" and {i["class"] for i in body["incidents"]} >= {"site-warm"}
        assert {c["cause"] for c in body["causes"]} >= {"site-warm"}
        status, health = agent.json("/healthz")
        assert status == 503 and {c["cause"] for c in health["causes"]} >= {"site-warm"}
        assert "warmer than this site likes" in agent.verb("status").stdout and agent.verb("status").returncode == 1
        for view in ("gpus", "incidents"):
            screen = agent.verb("top", "--once", "--view", view, "--size", "160x40")
            assert "warmer than this site likes" in screen.stdout and screen.returncode == 1
        assert "warmer than this site likes" in agent.verb("incidents").stdout
        checked = json.loads(agent.verb("check", "--json").stdout)
        assert checked["code"] == 1 and {f["class"] for f in checked["findings"]} >= {"site-warm"}
        page = agent.page()
        assert any(l["class"] == "site-warm" for l, _ in page.all("stoker_incident_open"))
        words = {l["gpu"]: l["activity"] for l, v in page.all("stoker_gpu_activity") if v == 1}
        assert words == {str(g["index"]): g["activity"]["word"] for g in body["node"]["gpus"]}
        assert {v for _, v in page.all("stoker_gpu_health")} == {2}

    settles(agree)


# --- faults that were repaired while no agent looked ---------------------------------------------------------------------

SPEED = 60
TELL_ALL = """
alerts:
  receivers:
    hook: {{webhook: {{url: "{hook}/", timeout: 10s}}}}
  routes:
    - match: {{route: [page, ticket, user]}}
      receiver: hook
"""


class Nights:
    """Agents one after another on one node, and the person who is called."""

    def __init__(self, make_node, tmp_path, driver):
        (tmp_path / "idle.yaml").write_text(IDLE)
        self.node = make_node(str(tmp_path / "idle.yaml"), speed=SPEED, strict=False, driver=driver,
                              options=("--kernel-log", str(tmp_path / "kmsg")))
        self.hook, self.tmp, self.agent, self.starts, self.journal = Hook(), tmp_path, None, 0, None
        self.slots = {row[0][-12:].lower(): int(row[1]) for row in self.node.smi("pci.bus_id", "index")}
        self.config = tmp_path / "stoker.yaml"
        self.config.write_text(TELL_ALL.format(hook=f"http://127.0.0.1:{self.hook.port}"))

    def start(self, journal):
        self.starts, self.journal = self.starts + 1, journal
        folder = self.tmp / f"agent{self.starts}"
        folder.mkdir()
        self.agent = Agent(self.node.stoker, folder, self.node.env, ready=False, options=(
            "--config", self.config, "--kernel-log", self.tmp / "kmsg", "--journal", self.tmp / journal, "--clock-speed", SPEED,
            "--sample-fast", "1s", "--sample-normal", "2s"))

    def kill(self):
        """Once the journal has what it told: the next one would tell it again, for it cannot know that it arrived."""
        until(lambda: {p.json["incident"]["id"] for p in self.hook.posts} <= self.heard(), self.heard)
        self.agent.process.kill()
        self.agent.stop()

    def clock(self):
        return json.loads(self.node.sim("clock", "--json"))["virtual_ns"] / 1e9

    def wait(self, seconds):
        end = self.clock() + seconds
        until(lambda: self.clock() >= end, "the clock stands")

    def gpu(self, incident):
        """By its address: one that was lost before the agent's first look has no index."""
        return self.slots[incident["device"]["pci"][-12:].lower()]

    def energies(self):
        """What the journal has, by GPU."""
        return {self.slots[pci[-12:]]: mj for pci, mj in journal_rows(self.tmp / self.journal, "SELECT pci, energy_mj FROM gpu_seen")}

    def heard(self):
        """The incidents that the receiver is known to have heard of."""
        kept = {key: json.loads(text) for key, text in journal_rows(self.tmp / self.journal, "SELECT key, text FROM outbox")}
        return {key for key, one in kept.items() if one["told"] == "open" and not one["unsure"]}

    def told(self):
        """(change, class, GPU) of all that was sent."""
        return [(p.json["change"], p.json["incident"]["class"], self.gpu(p.json["incident"])) for p in self.hook.posts]

    def done(self):
        if self.agent:
            self.agent.stop()
        self.hook.down()


@pytest.fixture
def make_nights(make_node, tmp_path):
    made = []

    def make(driver):
        made.append(Nights(make_node, tmp_path, driver))
        return made[-1]

    yield make
    for it in made:
        it.done()


@pytest.mark.parametrize("driver", ["570.86.15", "535.183.06"])
def test_what_was_repaired_before_the_agent_looked(make_nights, driver):
    nights = make_nights(driver)
    for xid, gpu in ((119, 5), (79, 3), (48, 1), (94, 2)):
        nights.node.inject("xid", str(xid), f"gpu={gpu}")
        nights.wait(5)
        nights.node.inject("reset", f"gpu={gpu}")
    nights.node.inject("xid", "119", "gpu=7")  # this one stands
    nights.wait(30)
    nights.start("fresh.db")
    incident(nights.agent, **{"class": "gsp-failure"})
    nights.wait(120)  # longer than readings are waited for
    assert [(i["class"], nights.gpu(i)) for i in listed(nights.agent, "--all")] == [("gsp-failure", 7)]
    until(lambda: nights.told(), "the page")
    assert nights.told() == [("opened", "gsp-failure", 7)]

    # a new version of the agent, by a stop or a kill: nobody hears of it, and what stands goes on
    for end in (nights.agent.stop, nights.kill):
        [one] = listed(nights.agent)
        end()
        nights.start("fresh.db")
        incident(nights.agent, id=one["id"])
        nights.wait(120)
        assert [i["id"] for i in listed(nights.agent, "--all")] == [one["id"]], listed(nights.agent, "--all")
    assert nights.told() == [("opened", "gsp-failure", 7)]


@pytest.mark.parametrize("driver", ["570.86.15", "535.183.06"])
def test_a_reset_while_the_agent_was_down(make_nights, driver):
    """By the energy that the journal has; drivers before R565 have no word of their own on it."""
    nights = make_nights(driver)
    # on a busy machine the driver's own word on GPU 4 may be read before the kernel's line, and is then told and taken back
    told = lambda: [one for one in nights.told() if one[1] != "reset-required"]
    nights.wait(300)  # more than it will have run since its reset
    nights.start("journal.db")
    until(lambda: len(nights.energies()) == 8 and all(nights.energies().values()), nights.energies)
    nights.node.inject("xid", "119", "gpu=5")
    nights.node.inject("xid", "62", "gpu=4")
    until(lambda: {(c, g) for _, c, g in told()} == {("gsp-failure", 5), ("firmware-error", 4)}, nights.told)
    nights.kill()
    nights.node.inject("reset", "gpu=5")
    nights.start("journal.db")
    over = lambda: next((i for i in listed(nights.agent, "--all") if nights.gpu(i) == 5 and i["state"] == "cleared"), None)
    assert until(over, lambda: listed(nights.agent, "--all"))["ended_by"] == "reset"
    until(lambda: ("cleared", "gsp-failure", 5) in nights.told(), nights.told)
    nights.wait(120)
    assert [nights.gpu(i) for i in listed(nights.agent)] == [4], listed(nights.agent)
    events = [json.loads(line) for line in nights.agent.verb("events", "--json").stdout.splitlines()]
    [reset] = [e for e in events if e["kind"] == "reset"]
    assert "while no agent ran" in reset["text"] and nights.slots[reset["pci"][-12:].lower()] == 5, reset
    assert sorted(told())[1:] == [("opened", "firmware-error", 4), ("opened", "gsp-failure", 5)], nights.told()
