# SPDX-License-Identifier: Apache-2.0
"""GPUs that were here: one that is gone after a restart is missed, and what is no loss is not."""
import contextlib
import json
import os
import signal
import sqlite3

import pytest
from agent_rig import Agent, Node, settles, until

SPEED = 60
PLAIN = "about: nothing runs\nnode: {seed: %d}\ngpus:\n%struth: []\n"


def scenario(folder, name, boards, seed=5):
    rows = "".join(f"  - {{board: {board}, count: {count}}}\n" for board, count in boards)
    path = folder / f"{name}.yaml"
    path.write_text(PLAIN % (seed, rows))
    return str(path)


class Place:
    """A node, and agents on it one after another with one journal."""

    def __init__(self, stoker, tmp):
        self.stoker, self.tmp, self.journal = stoker, tmp, tmp / "journal.db"
        self.node = self.agent = None
        self.starts = 0

    def boot(self, boards=(("l40s", 4),), **more):
        self.shut()
        self.starts += 1
        folder = self.tmp / f"node{self.starts}"
        folder.mkdir()
        self.node = Node(self.stoker, folder, scenario(folder, "it", boards, **more), speed=SPEED, strict=False)
        return self.node

    def unplug(self, *gpus):
        """The agent looks when both driver and bus have changed: a look between the two is long at this speed."""
        with self.standing():
            self.plug("remove", *gpus)

    def plug(self, what, *gpus):
        devices = self.node.tree / "sys" / "bus" / "pci" / "devices"
        count = len(list(devices.iterdir())) + (len(gpus) if what == "add" else -len(gpus))
        for gpu in gpus:
            self.node.inject("plug", what, f"gpu={gpu}")
        until(lambda: len(list(devices.iterdir())) == count, "the bus does not change")

    @contextlib.contextmanager
    def standing(self):
        if not self.agent:
            yield
            return
        os.kill(self.agent.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.agent.process.pid, signal.SIGCONT)

    def shut(self):
        self.end()
        if self.node:
            self.node.stop()
            self.node = None

    def start(self, *options, journal=None, **env):
        self.end()
        self.starts += 1
        folder = self.tmp / f"agent{self.starts}"
        folder.mkdir()
        self.agent = Agent(self.stoker, folder, {**self.node.env, **env}, ready=False, options=[
            "--clock-speed", SPEED, "--sample-fast", "1s", "--sample-normal", "2s", "--sample-slow", "10s",
            "--sample-blocking", "60s", "--journal", journal or self.journal, *options])
        until(lambda: any(g["state"] == "up" for g in self.agent.gpus()), self.agent.log_text)
        return self.agent

    def up(self, count):
        until(lambda: len([g for g in self.agent.gpus() if g["state"] == "up"]) == count, self.agent.log_text)

    def end(self):
        if self.agent:
            self.agent.stop()
            self.agent = None

    def rows(self):
        """None where the file is not made yet."""
        with contextlib.suppress(sqlite3.OperationalError), \
                contextlib.closing(sqlite3.connect(f"file:{self.journal}?mode=ro", uri=True, timeout=60)) as db:
            db.row_factory = sqlite3.Row
            return {r["uuid"]: dict(r) for r in db.execute("SELECT * FROM gpu_seen ORDER BY pci")}
        return {}

    def sql(self, text, *values):
        with contextlib.closing(sqlite3.connect(self.journal, timeout=60)) as db, db:
            db.execute(text, values)

    def known(self, count):
        """The agent has noted so many GPUs, and has ended."""
        until(lambda: len(self.rows()) == count, lambda: f"{self.rows()} {self.agent.log_text()}")
        self.end()
        return self.rows()

    def missing(self, state="all"):
        found = self.agent.json(f"/api/v1/incidents?state={state}")[1]["incidents"]
        return [i for i in found if i["class"] == "gpu-missing"]

    def a_missing_one(self):
        [one] = until(lambda: self.missing("open"), lambda: self.agent.log_text() + str(self.agent.gpus()))
        return one

    def wait(self, seconds):
        """So much of the node's time."""
        now = lambda: json.loads(self.node.sim("clock", "--json"))["virtual_ns"] / 1e9
        end = now() + seconds
        until(lambda: now() >= end, "the clock stands")

    def none_is_missing(self):
        """Not now, and not after all grace is over. One that was late for a moment is up again: at this speed that is soon."""
        self.wait(240)
        assert not self.missing("open"), (self.missing("open"), self.agent.log_text())
        until(lambda: {g["state"] for g in self.agent.gpus()} == {"up"}, lambda: f"{self.agent.gpus()} {self.agent.log_text()}")
        assert not self.missing("open"), (self.missing("open"), self.agent.log_text())

    def is_well(self):
        until(lambda: self.agent.get("/healthz")[0] == 200, lambda: self.agent.get("/healthz")[1])


@pytest.fixture
def place(stoker, tmp_path):
    it = Place(stoker, tmp_path)
    yield it
    it.shut()


def evidence(incident):
    return " | ".join(e["text"] for e in incident["evidence"])


def test_a_lost_gpu_keeps_its_name_over_a_restart(place):
    """It cannot say who it is any more; the journal can. Or its alerts would end and begin as others."""
    place.boot()
    agent = place.start()
    until(lambda: len(place.rows()) == 4, agent.log_text)
    place.up(4)
    before = agent.gpu(2)
    place.node.inject("xid", "79", "gpu=2")
    until(lambda: agent.gpu(2)["state"] == "lost" and agent.page().all("stoker_incident_open", gpu="2"), agent.log_text)
    [(labels, _)] = until(lambda: agent.page().all("stoker_gpu_up", reason="lost"), agent.log_text)
    assert labels["gpu"] == "2" and labels["UUID"] == before["uuid"]
    place.agent.process.kill()
    agent = place.start()

    def is_named():
        page, after = agent.page(), agent.gpu(2)
        assert page.all("stoker_gpu_up", reason="lost") == [(labels, 0)]
        assert [l["UUID"] for l, _ in page.all("stoker_incident_open", gpu="2")] == [before["uuid"]]
        assert [after[k] for k in ("uuid", "name", "pci")] == [before[k] for k in ("uuid", "name", "pci")], after
        status = agent.verb("status").stdout
        assert "GPU 2" in status and " ?  " not in status

    settles(is_named)


def test_counters_go_on_over_a_restart(place):
    """`increase()` over a restart sees the new one alone."""
    place.boot()
    agent = place.start()
    until(lambda: len(place.rows()) == 4, agent.log_text)
    place.up(4)
    page = until(lambda: (p := agent.page()).one("stoker_gpu_xid_errors_total", gpu="1") == 0 and p.all("stoker_events_total", kind="xid") and p,
                 agent.log_text)
    assert not any(v for _, v in page.all("stoker_events_total", kind="xid"))
    counters = ("stoker_events_total", "stoker_gpu_xid_errors_total", "stoker_xid_errors_total", "stoker_incidents_opened_total",
                "stoker_incidents_cleared_total")

    def counted(page):
        return {(n, tuple(sorted(l.items()))): v for n, l, v in page.series if n in counters and l.get("kind") != "agent-start"}

    for _ in range(2):
        place.node.inject("xid", "31", "gpu=1")
    until(lambda: agent.page().one("stoker_gpu_xid_errors_total", gpu="1") == 2, agent.log_text)
    until(lambda: agent.page().one("stoker_xid_errors_total", gpu="1", xid="31") == 2, agent.log_text)  # a minute of the node
    # what is not on the disk yet goes with the agent
    before = counted(until(lambda: (p := agent.page()).one("stoker_journal_up") == 1 and p.one("stoker_journal_queued") == 0 and p, agent.log_text))
    place.agent.process.kill()
    agent = place.start()

    def goes_on():
        page = agent.page()
        after = counted(page)
        assert all(after.get(k, 0) >= v for k, v in before.items()), {k: (v, after.get(k)) for k, v in before.items() if after.get(k) != v}
        assert page.one("stoker_gpu_xid_errors_total", gpu="1") == page.one("stoker_xid_errors_total", gpu="1", xid="31") == 2

    settles(goes_on)
    place.node.inject("xid", "31", "gpu=1")
    until(lambda: agent.page().one("stoker_gpu_xid_errors_total", gpu="1") == 3, agent.log_text)


def test_a_gpu_that_went_while_the_agent_was_away(place):
    place.boot()
    agent = place.start()
    place.up(4)
    lost = agent.gpu(2)
    row = place.known(4)[lost["uuid"]]
    assert (row["serial"], row["name"], row["drained"]) == (lost["serial"], lost["name"], 0), row
    assert row["pci"] == lost["pci"].lower()[4:] and row["first_real_ns"] <= row["last_real_ns"]
    place.unplug(2)
    agent = place.start()
    one = place.a_missing_one()
    assert (one["cause"], one["route"], one["severity"]) == ("bus", "page", "fatal"), one
    assert one["device"]["uuid"] == lost["uuid"] and one["device"]["serial"] == lost["serial"], one
    assert "no longer on the PCI bus; 3 GPUs are" in evidence(one) and "last seen at 20" in evidence(one), one
    [gone] = until(lambda: [g for g in agent.gpus() if g["state"] == "gone"], lambda: str(agent.gpus()))
    assert gone["uuid"] == lost["uuid"] and "before the agent was started" in gone["why"], gone
    until(lambda: agent.get("/healthz")[0] == 503 and agent.verb("status").returncode == 1, lambda: agent.get("/healthz")[1])
    until(lambda: lost["uuid"] in agent.verb("status", "--json").stdout, lambda: agent.verb("status", "--json").stdout)
    for text in agent.page().text.splitlines():
        assert "4294967295" not in text, text

    agent = place.start()  # it goes on where it was
    place.wait(240)
    assert [i["id"] for i in place.missing("open")] == [one["id"]], place.missing()
    place.end()
    place.plug("add", 2)
    agent = place.start()
    until(lambda: not place.missing("open"), agent.log_text)
    place.up(4)
    assert [(i["id"], i["state"], i["ended_by"]) for i in place.missing()] == [(one["id"], "cleared", "gone")], place.missing()
    place.none_is_missing()


def test_one_that_went_before_the_restart_stays_missed(place):
    place.boot()
    agent = place.start()
    until(lambda: len(place.rows()) == 4, agent.log_text)
    place.unplug(0)
    one = place.a_missing_one()
    place.start("--gpus-expected", "4")  # the number finds no second one
    place.wait(240)
    assert [i["id"] for i in place.missing("open")] == [one["id"]], place.missing()
    assert one["id"] in [i["id"] for i in place.missing()] and len(place.missing()) == 1, place.missing()


@pytest.mark.parametrize("live", [True, False], ids=["live", "after a restart"])
def test_cleared_by_hand_is_forgotten(place, live):
    place.boot()
    agent = place.start()
    until(lambda: len(place.rows()) == 4, agent.log_text)
    if not live:
        place.end()
    place.unplug(1)
    agent = agent if live else place.start()
    one = place.a_missing_one()
    done = agent.verb("incidents", "clear", one["id"])
    assert done.returncode == 0 and done.stdout == "1 GPU is no longer missed\n", done
    until(lambda: len(place.rows()) == 3, lambda: str(place.rows()))
    place.none_is_missing()
    assert len(agent.gpus()) == 3, agent.gpus()
    place.is_well()
    agent = place.start()
    place.none_is_missing()
    place.end()
    place.plug("add", 1)
    agent = place.start()  # it is one of them again
    until(lambda: len([g for g in agent.gpus() if g["state"] == "up"]) == 4 and len(place.rows()) == 4, agent.log_text)


def test_a_drained_one_stays_taken_out(place):
    node = place.boot()
    agent = place.start()
    until(lambda: len(place.rows()) == 4, agent.log_text)
    node.inject("set", "drain=on", "gpu=3")
    until(lambda: sum(r["drained"] for r in place.rows().values()) == 1, agent.log_text)
    place.end()
    place.unplug(3)
    agent = place.start()
    one = place.a_missing_one()
    assert (one["cause"], one["action"], one["route"], one["severity"]) == ("operator", "none", "none", "info"), one
    place.wait(240)
    assert [i["route"] for i in place.missing()] == ["none"], place.missing()
    place.is_well()


def test_another_gpu_in_the_slot(place):
    place.boot()
    place.start()
    before = place.known(4)
    place.boot((("l40s", 3), ("t4", 1)))
    agent = place.start()
    until(lambda: place.rows().keys() == {g["uuid"] for g in agent.gpus()}, agent.log_text)
    assert len(before.keys() & place.rows().keys()) == 3
    until(lambda: "was replaced by another" in agent.log_text(), agent.log_text)
    place.none_is_missing()
    place.start()
    place.none_is_missing()


def test_the_same_gpu_in_another_slot(place):
    place.boot()
    place.start()
    uuid = list(place.known(4))[1]
    place.sql("UPDATE gpu_seen SET pci = '0000:f1:00.0' WHERE uuid = ?", uuid)
    agent = place.start()
    place.none_is_missing()
    until(lambda: place.rows()[uuid]["pci"] == agent.gpu(1)["pci"].lower()[4:], lambda: f"{place.rows()} {agent.gpus()}")
    assert not place.missing() and len(agent.gpus()) == 4


def test_another_gpu_in_another_slot(place):
    """As many are here as before."""
    place.boot()
    place.start()
    uuid = list(place.known(4))[1]
    place.sql("UPDATE gpu_seen SET pci = '0000:f1:00.0', uuid = 'GPU-dead' WHERE uuid = ?", uuid)
    agent = place.start()
    until(lambda: "GPU-dead" not in place.rows() and uuid in place.rows(), agent.log_text)
    place.none_is_missing()
    assert not place.missing()


def test_the_journal_of_another_machine(place):
    place.boot((("l40s", 8),))
    place.start()
    place.known(8)
    place.boot((("l40s", 3),), seed=77)  # the same model in the same slots
    agent = place.start()
    until(lambda: place.rows().keys() == {g["uuid"] for g in agent.gpus()}, agent.log_text)
    place.none_is_missing()
    assert not place.missing()
    assert agent.log_text().count("none of the 8 GPUs that the journal knows is here") == 1, agent.log_text()
    assert "was replaced" not in agent.log_text()


def test_fewer_are_expected(place):
    place.boot()
    place.start()
    place.known(4)
    place.unplug(2)
    agent = place.start("--gpus-expected", "3")
    until(lambda: len(place.rows()) == 3, agent.log_text)
    place.none_is_missing()
    place.start()  # and the number is not needed any more
    place.none_is_missing()
    assert not place.missing()


def test_as_many_are_expected_as_before(place):
    place.boot()
    place.start()
    uuid = list(place.known(4))[2]
    place.unplug(2)
    place.start("--gpus-expected", "4")
    place.a_missing_one()
    place.wait(240)
    [one] = place.missing()  # no second one for the number
    assert one["device"]["uuid"] == uuid and "3 GPUs are, 4 expected" in evidence(one), one


def test_a_container_that_is_given_fewer(place):
    place.boot()
    place.start()
    uuids = list(place.known(4))
    place.unplug(2, 3)
    place.start(NVIDIA_VISIBLE_DEVICES=",".join(uuids[:2]))
    place.none_is_missing()
    assert not place.missing()


def test_without_a_journal(place):
    place.boot()
    agent = place.start(journal="none")
    place.up(4)
    place.end()
    place.unplug(2)
    place.start(journal="none")
    place.none_is_missing()
    assert not place.missing()


def test_given_to_a_virtual_machine(place):
    """While the agent looks, and over a restart."""
    place.boot()
    agent = place.start()
    until(lambda: len(place.rows()) == 4, agent.log_text)
    link = place.node.tree / "sys/bus/pci/devices" / list(place.rows().values())[3]["pci"] / "driver"
    other = link.with_name("driver.new")
    other.symlink_to("../../../../bus/pci/drivers/vfio-pci")
    other.replace(link)
    until(lambda: len(agent.gpus()) == 3, lambda: agent.log_text() + str(agent.gpus()))
    place.none_is_missing()
    place.start()
    place.none_is_missing()
    assert not place.missing() and len(place.rows()) == 4, (place.missing(), place.rows())
