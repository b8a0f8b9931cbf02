# SPDX-License-Identifier: Apache-2.0
"""kill -9 at any moment of a storm of faults, while those who are told go down and come back: what was announced is in
the journal, nobody is told the same twice, and in the end everybody knows how things are.

STOKER_KILLS=1000 kills a thousand times instead of a few."""
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest
from agent_rig import until

SOURCE = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(SOURCE / "test" / "unit" / "alert"), str(SOURCE / "test" / "scenario" / "alert")]
from alert_rig import Hook  # noqa: E402
from test_real_alertmanager import Alertmanager, program  # noqa: E402,F401

IDLE = "about: nothing runs\ngpus: {board: h100-sxm-80gb, count: 8}\ntruth: []\n"
LOST = 79  # takes all else of its GPU under itself
OF_GPU = (48, 62, 63, 64, 74, 92, 95, 109, 119)  # page or ticket, one incident per GPU, partly under one another
OF_PROCESS = (13, 31, 94)  # one per process
OPEN_MOST = 120  # of 224 that an agent keeps
HELD_BACK = 0.01  # seconds for which the moment just after a notification is waited for
TOLD_ROUTES = ("page", "ticket", "user")

ALERTS = """
journal: {{patience: 1m}}
alerts:
  receivers:
    hook: {{webhook: {{url: "{hook}/", timeout: 2s}}}}
    second: {{webhook: {{url: "{second}/", timeout: 2s}}}}
    am: {{alertmanager: {{urls: [{managers}], timeout: 2s, resend: 10s}}}}
  routes:
    - match: {{route: [page, ticket, user]}}
      receivers: [hook, am]
      repeat_interval: 4h
      continue: yes
    - match: {{route: [page, ticket, user]}}
      receiver: second
      repeat_interval: 4h
"""


EACH_ALONE = """
route:
  receiver: hook
  group_by: ['...']
  group_wait: 0s
  group_interval: 1s
  repeat_interval: 4h
receivers:
  - name: hook
    webhook_configs: [{{url: "{url}/am", send_resolved: true}}]
"""


def seconds(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


# --- who is told -------------------------------------------------------------------------------------------------------


class Sink:
    """Takes the place of a Hook's list of posts: what came is checked as it comes, so that a storm needs no memory."""

    def __init__(self):
        self.lock, self.news = threading.Lock(), threading.Event()
        self.posts = self.delivered = 0
        self.wrong = []
        self.heard = {}  # incident: (revision, (class, UUID)), of what was told at all, answered or not
        self.named = set()  # incidents of GPUs whose UUID came only later

    def append(self, post):
        with self.lock:
            self.posts += 1
            self.delivered += post.status == 200
            self.take(post)
        self.news.set()

    def hear(self, incident, revision, kind):
        known = self.heard.get(incident, (0, kind))
        if known[1][1] is None and kind[1]:  # a line of before the agent's first look at the GPUs
            self.named.add(incident)
        elif known[1] != kind and (known[1][0] != kind[0] or kind[1]):
            self.wrong.append(f"one id for two incidents: {incident}: {known[1]}, {kind}")
        self.heard[incident] = (max(known[0], revision), kind if kind[1] else known[1])

    def snapshot(self):
        with self.lock:
            return dict(self.heard)


class Webhook(Sink):
    """A receiver that keeps keys: the same key is the same news. Each incident's news must make sense one after another."""

    def __init__(self):
        super().__init__()
        self.keys, self.state, self.again, self.changes = set(), {}, 0, Counter()

    def take(self, post):
        if post.json["key"] != post.headers["Idempotency-Key"]:
            self.wrong.append(f"header {post.headers['Idempotency-Key']}, body {post.json['key']}")
        incident = post.json["incident"]
        self.hear(incident["id"], incident["revision"], (incident["class"], incident["device"]["uuid"]))
        if post.status == 200:
            self.follow(post.json["key"], post.json["change"], incident)

    def follow(self, key, change, incident):
        """The state machine of one incident's news: no beginning of what is known to have begun, no end of what has ended.
        Where an answer was lost the next news may be of a later state: worse, come back, or over."""
        if key in self.keys:
            self.again += 1
            return
        self.keys.add(key)
        self.changes[change] += 1
        new = {"over": "cleared" in change, "escalations": incident["escalations"], "reopened": incident["reopened"]}
        old = self.state.get(incident["id"])
        worse = old is not None and not old["over"] and new["escalations"] > old["escalations"]
        back = old is not None and new["reopened"] > old["reopened"]
        lasts = old is not None and not old["over"]
        fine = {
            "opened": old is None or worse,
            "reopened": old is None or back or worse,
            "escalated": worse,
            "cleared": lasts or back,
            "opened-and-cleared": old is None or lasts or back,
        }.get(change, False)
        if not fine:
            self.wrong.append(f"told twice: {key} {change} of {incident['class']}, {new} after {old}")
        self.state[incident["id"]] = new


class Manager(Sink):
    """What an Alertmanager holds: an alert is its labels. One that fires anew is an announcement."""

    def __init__(self):
        super().__init__()
        self.ends, self.fired = {}, Counter()
        self.owners = {}  # labels: the incidents under them

    def take(self, post):
        now = time.time()
        for alert in post.json:
            labels, name = json.dumps(alert["labels"], sort_keys=True), alert.get("annotations", {}).get("incident")
            if name:  # without annotations it is the end of labels that are no longer used
                self.hear(name, 0, (alert["labels"]["class"], alert["labels"].get("UUID")))
            if post.status != 200:
                continue
            end = seconds(alert["endsAt"])
            if end > now:
                self.owners.setdefault(labels, set()).add(name)
                self.fired[labels] += self.ends.get(labels, 0) <= now
            self.ends[labels] = end

    def firing(self):
        return {labels for labels, end in self.ends.items() if end > time.time()}


class Doors:
    """The receivers, going down, answering nonsense and coming back."""

    STATES = (200, 200, 200, 200, 503, 500, "cut", "hang", "down")

    def __init__(self, random_):
        self.random, self.hook, self.second, self.manager = random_, Hook(), Hook(), Hook()
        self.sinks = Webhook(), Webhook(), Manager()
        self.all = self.hook, self.second, self.manager
        for door, sink in zip(self.all, self.sinks):
            door.posts = sink

    def put(self, door, state):
        if state == "down":
            door.down()
            return
        if not door.server:
            door.up()
        door.say(state)

    def disturb(self):
        self.put(self.random.choice(self.all), self.random.choice(self.STATES))

    def calm(self):
        for door in self.all:
            self.put(door, 200)

    def down(self):
        for door in self.all:
            door.down()


# --- what happens ------------------------------------------------------------------------------------------------------


class Storm(threading.Thread):
    """The kernel's log as a file that grows: XIDs on all GPUs, without end."""

    def __init__(self, path, gpus, seed):
        super().__init__(daemon=True)
        self.path, self.gpus, self.random = path, gpus, random.Random(seed)
        self.lock, self.over, self.sequence, self.calmer = threading.Lock(), threading.Event(), 0, False
        path.write_text("")

    def line(self):
        self.sequence += 1
        gpu, pid, kind = self.random.choice(self.gpus), self.random.randrange(100), self.random.random()
        if self.calmer or kind < 0.4:
            text = f"NVRM: Xid (PCI:{gpu}): {self.random.choice(OF_GPU)}, a line of the storm, number {self.sequence}"
        elif kind < 0.75:
            text = f"NVRM: Xid (PCI:{gpu}): {self.random.choice(OF_PROCESS)}, pid={10000 + pid}, name=worker{pid}, the storm"
        elif kind < 0.999:
            text = f"Out of memory: Killed process {10000 + pid} (worker{pid}) total-vm:1kB, anon-rss:1kB, file-rss:0kB"
        else:
            text = f"NVRM: Xid (PCI:{gpu}): {LOST}, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
        return f"4,{self.sequence},{time.monotonic_ns() // 1000},-;{text}\n"

    def write(self, count):
        with self.lock, open(self.path, "a", encoding="ascii") as log:
            log.write("".join(self.line() for _ in range(count)))

    def run(self):
        while not self.over.is_set():
            self.write(self.random.choice((1, 1, 1, 2, 5, 20)))
            self.over.wait(self.random.uniform(0.005, 0.1))

    def forget(self, read_to):
        """As the kernel's own buffer: what is old goes, here nothing that was not read."""
        with self.lock:
            lines = self.path.read_text(encoding="ascii").splitlines(keepends=True)
            kept = [l for l in lines if int(l.split(",")[1]) > min(read_to, self.sequence - 200)]
            if len(kept) < len(lines):
                self.path.write_text("".join(kept), encoding="ascii")


class Victim:
    """An agent that need not come far before it is killed."""

    def __init__(self, stoker, folder, node, config, log):
        self.control, self.log_path = folder / "control.sock", folder / "agent.log"
        with contextlib.suppress(FileNotFoundError):
            self.control.unlink()
        with open(self.log_path, "ab") as out:
            self.process = subprocess.Popen(
                [stoker, "agent", "--listen", f"unix:{folder}/http.sock", "--control", self.control, "--config", config,
                 "--kernel-log", log, "--journal", folder / "journal.db"],
                env=node.env, stdout=subprocess.DEVNULL, stderr=out)

    def ask(self, line):
        """A line for the control socket; None where nobody answers yet."""
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(120)
                s.connect(str(self.control))
                s.sendall(line.encode() + b"\n")
                answer = b""
                while part := s.recv(65536):
                    answer += part
                return answer.decode().split("\n", 1)[1]
        except (OSError, IndexError):
            return None

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(120)

    def open_incidents(self):
        text = self.ask("incidents open")
        return None if text is None else json.loads(text)["incidents"]

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(120) == 0, self.log_path.read_text()[-3000:]


class Journal:
    """A copy of the file as the kill left it: to look at the file itself would repair it."""

    def __init__(self, folder):
        copy = folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        for name in ("journal.db", "journal.db-wal"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copy(folder / name, copy / name)
        self.db = sqlite3.connect(copy / "journal.db")

    def rows(self, question):
        return self.db.execute(question).fetchall()

    def read_to(self):
        found = self.rows("SELECT value FROM meta WHERE key = 'sequence'")
        return int(found[0][0]) if found else 0

    def incidents(self):
        return {i: (revision, kind) for i, revision, kind in self.rows("SELECT id, json ->> 'revision', json ->> 'class' FROM incidents")}

    def whole(self):
        assert self.rows("PRAGMA integrity_check") == [("ok",)]
        for table, column in (("events", "json ->> 'incident'"), ("bundles", "incident"), ("outbox", "key")):
            orphans = self.rows(f"SELECT {column} FROM {table} WHERE {column} <> '' AND {column} NOT IN (SELECT id FROM incidents)")
            assert not orphans, f"{table} of incidents that nobody knows: {orphans[:5]}"
        # What a hand clears is dated by the last tick.
        wrong = self.rows("SELECT id, state, opened_ns, updated_ns, cleared_ns FROM incidents WHERE opened_ns = 0 OR "
                          "updated_ns + (json ->> 'ended_by' IS 'hand') * 2000000000 < opened_ns OR "
                          "(state = 'cleared') <> (cleared_ns > 0) OR json ->> 'revision' = 0")
        assert not wrong, wrong

    def close(self):
        self.db.close()


class Day:
    def __init__(self, stoker, tmp_path, node, seed, managers=()):
        self.random, self.node, self.stoker, self.folder = random.Random(seed), node, stoker, tmp_path / "victim"
        self.folder.mkdir()
        self.doors = Doors(self.random)
        self.config = self.folder / "stoker.yaml"
        self.config.write_text(ALERTS.format(
            hook=self.doors.hook.url, second=self.doors.second.url,
            managers=", ".join(f'"{url}"' for url in (self.doors.manager.url, *managers))))
        gpus = [row[0].lower()[4:14] for row in node.smi("pci.bus_id")]
        self.storm = Storm(self.folder / "kmsg", gpus, seed)
        self.storm.start()
        self.kills = self.checks = 0
        self.moments = Counter()

    def start(self):
        return Victim(self.stoker, self.folder, self.node, self.config, self.storm.path)

    def clear_some(self, victim):
        """What a person does: so that there is always something that can open, or come back."""
        heard = self.doors.sinks[0].state
        known = [i for i, s in list(heard.items()) if not s["over"]]
        self.storm.calmer = len(known) > OPEN_MOST
        for name in self.random.sample(known, min(len(known), self.random.randrange(2 + len(known) // 6))):
            victim.ask(f"clear {name} somebody")

    def live(self, victim):
        """Some time, which ends at any moment; often just after somebody was told, or while the agent starts."""
        what = self.random.random()
        end = time.monotonic() + (self.random.uniform(0, 0.3) if what < 0.25 else self.random.uniform(0.2, 1.3))
        while (left := end - time.monotonic()) > 0:
            if self.random.random() < 0.1:
                self.doors.disturb()
            if self.random.random() < 0.3:
                self.clear_some(victim)
            time.sleep(min(left, 0.05))
        if what < 0.25:
            self.moments["start"] += 1
            return
        self.moments["any"] += what < 0.6
        if what >= 0.6:  # just after a POST has come: before, while or after the agent keeps what was told
            sink = self.random.choice(self.doors.sinks)
            sink.news.clear()
            came = sink.news.wait(1)
            self.moments["told" if came else "any"] += 1
            time.sleep(self.random.uniform(0, HELD_BACK) * came)

    def check(self):
        heard = [sink.snapshot() for sink in self.doors.sinks]
        wrong = [w for sink in self.doors.sinks for w in sink.wrong]
        assert not wrong, wrong
        journal = Journal(self.folder)
        try:
            kept = journal.incidents() if any(heard) else {}
            for told in heard:
                for name, (revision, kind) in told.items():
                    assert name in kept, f"{name} was announced and is lost"
                    assert kept[name][0] >= revision, f"{name}: revision {revision} was announced, {kept[name][0]} is on disk"
                    assert kept[name][1] == kind[0]
            if self.kills % 10 == 0 and kept:
                journal.whole()
                self.storm.forget(journal.read_to())
                self.checks += 1
        finally:
            journal.close()

    def round(self):
        """One agent, from its start to its end."""
        victim = self.start()
        try:
            self.live(victim)
            early = victim.process.poll()
            assert early is None, f"the agent ended by itself ({early}): {victim.log_path.read_text()[-3000:]}"
        finally:
            victim.kill()
        self.kills += 1
        self.check()

    def end(self):
        """All is up again and one agent lives on: then everybody must come to know how things are."""
        self.storm.over.set()
        self.storm.join()
        self.doors.calm()
        victim = self.start()
        try:
            hook, second, manager = self.doors.sinks

            def settled():
                still = victim.open_incidents()
                if not still:
                    return None
                told = {i["id"] for i in still if i["route"] in TOLD_ROUTES}
                # What was told to an Alertmanager just before a kill and is over since ends by itself: four times `resend`.
                known = [{i for i, s in list(sink.state.items()) if not s["over"]} for sink in (hook, second)]
                firing = manager.firing()
                owned = set().union(*(manager.owners[l] for l in firing)) if firing else set()
                idle = known[0] == known[1] == told and told <= owned and all(manager.owners[l] & told for l in firing)
                stale = [(l, manager.owners[l]) for l in firing if not manager.owners[l] & told]
                self.last = f"open {len(told)}, told {len(known[0])} and {len(known[1])}, firing {len(firing)}: " \
                            f"{sorted(told ^ known[0])} {sorted(told ^ known[1])} {sorted(told - owned)} {stale}"
                return told if idle else None

            told = until(settled, lambda: self.last + victim.log_path.read_text()[-3000:], patience=240)
            self.alive = victim
            yield told
        finally:
            victim.end()
        self.check()
        self.finish()

    def finish(self):
        journal = Journal(self.folder)
        journal.whole()
        self.last_rows = journal.rows("SELECT id, json ->> 'reopened' FROM incidents")
        states = {row[0]: row[1:] for row in journal.rows("SELECT id, state, json ->> 'reopened', json ->> 'route' FROM incidents")}
        hook, second, manager = self.doors.sinks
        for labels, times in manager.fired.items():
            most = sum(1 + states[name][1] for name in manager.owners[labels])
            assert times <= most, f"an Alertmanager was told {times} times instead of {most}: {labels}"
        unheard = [name for name, (state, _, route) in states.items() if route in TOLD_ROUTES and name not in hook.heard]
        assert all(states[name][0] == "cleared" for name in unheard), "one that is open was told to nobody"
        twice = journal.rows("SELECT count(*) FROM (SELECT 1 FROM events WHERE json ->> 'origin' = 'kmsg' GROUP BY sequence "
                             "HAVING count(*) > 1)")
        seen = journal.rows("SELECT count(DISTINCT sequence), max(sequence) FROM events WHERE json ->> 'origin' = 'kmsg'")[0]
        print(f"\n{self.kills} kills ({dict(self.moments)}): {self.storm.sequence} lines, {len(states)} incidents, "
              f"{sum(s[1] for s in states.values())} returns; webhooks took {hook.delivered} and {second.delivered} of "
              f"{hook.posts} and {second.posts} POSTs, {hook.again} and {second.again} news again under their keys, "
              f"{dict(hook.changes)}; Alertmanager took {manager.delivered} of {manager.posts}, {sum(manager.fired.values())} alerts "
              f"began; {self.checks} whole checks of the file; {len(unheard)} were over before anybody was "
              f"told; {len(hook.named | manager.named)} were told before the agent knew their GPU; of "
              f"{seen[1]} lines {seen[0]} are events, {twice[0][0]} of them twice")
        journal.close()


def kills(few):
    return int(os.environ.get("STOKER_KILLS", few))


@pytest.fixture
def make_day(make_node, stoker, tmp_path):
    days = []

    def make(seed, managers=()):
        (tmp_path / "idle.yaml").write_text(IDLE)
        days.append(Day(stoker, tmp_path, make_node(str(tmp_path / "idle.yaml"), strict=False), seed, managers))
        return days[-1]

    yield make
    for day in days:
        day.storm.over.set()
        day.doors.down()


def test_kills_in_a_storm(make_day):
    day = make_day(int(os.environ.get("STOKER_SEED", 1)))
    for _ in range(kills(15)):
        day.round()
    for _ in day.end():
        pass


class Passed(Sink):
    """What an Alertmanager tells people: each alert alone."""

    def __init__(self):
        super().__init__()
        self.firing, self.fired, self.owners = {}, Counter(), {}

    def take(self, post):
        for alert in post.json["alerts"]:
            labels = json.dumps(alert["labels"], sort_keys=True)
            fires = alert["status"] == "firing"
            self.fired[labels] += fires
            self.owners.setdefault(labels, set()).add(alert["annotations"].get("incident"))
            self.firing[labels] = fires


@pytest.mark.slow("the real Alertmanager")
def test_kills_with_the_real_alertmanager(make_day, program, tmp_path, monkeypatch):  # noqa: F811
    """Debian's Alertmanager in the storm, stopped and started too: whom it tells, it tells once."""
    people = Hook()
    people.posts = passed = Passed()
    monkeypatch.setattr("test_real_alertmanager.CONFIG", EACH_ALONE)
    manager = Alertmanager(program, tmp_path / "am", people)
    try:
        day = make_day(int(os.environ.get("STOKER_SEED", 1)), managers=[manager.url])
        for i in range(kills(15) // 5 + 3):
            if i % 4 == 2:
                manager.down()
            elif i % 4 == 3:
                manager.up()
            day.round()
        if manager.process.poll() is not None:
            manager.up()
        owners = day.doors.sinks[2].owners
        for told in day.end():
            open_now = {labels for labels, names in owners.items() if names & told} & day.doors.sinks[2].firing()
            until(lambda: open_now <= {json.dumps(a["labels"], sort_keys=True) for a in json.loads(manager.get("/api/v2/alerts"))},
                  "every open incident is an alert of the Alertmanager", patience=200)
            until(lambda: open_now <= {labels for labels, fires in list(passed.firing.items()) if fires},
                  "people were told of every open incident", patience=200)
        lives = {name: 1 + reopened for name, reopened in day.last_rows}
        for labels, times in passed.fired.items():
            assert times <= sum(lives[name] for name in passed.owners[labels] - {None}), f"people were told {times} times: {labels}"
        print(f"the Alertmanager told people of {sum(passed.fired.values())} alerts in {passed.posts} notifications")
    finally:
        if manager.process.poll() is None:
            manager.down()
        people.down()
