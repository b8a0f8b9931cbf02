# SPDX-License-Identifier: Apache-2.0
"""`stoker cost`: whose GPU time it was, over a killed agent and a change of prices, with an agent and without one."""
import contextlib
import csv
import datetime
import io
import json
import pathlib
import signal
import sqlite3
import subprocess

import jsonschema
import pytest
import yaml
from agent_rig import settles, until

WORK = [{"name": "pretrain", "kind": "train", "gpus": "0", "process": "python", "user": "alice", "job": "4711.3"},
        {"name": "chat", "kind": "decode", "gpus": "1", "process": "vllm", "user": "root", "pod": "serving/chat-0"}]
SCENE = {"about": "who pays", "gpus": {"board": "h100-sxm-80gb", "count": 3}, "work": WORK, "truth": []}
PRICES = "prices:\n  currency: EUR\n  list:\n    - {id: h100, board: H100, on_demand: 3.6}\n"
SCHEMA = json.loads((pathlib.Path(__file__).resolve().parents[3] / "docs" / "cost.schema.json").read_text())


class Place:
    def __init__(self, stoker, tmp, make_node, make_agent):
        self.stoker, self.make_agent, self.journal, self.config = stoker, make_agent, tmp / "journal.db", tmp / "stoker.yaml"
        scene = tmp / "scene.yaml"
        scene.write_text(yaml.safe_dump(SCENE))
        self.config.write_text(PRICES)
        self.node = make_node(scene)
        self.agent = None

    def start(self, *options):
        self.agent = self.make_agent(self.node.env, options=["--journal", self.journal, "--config", self.config, *options])
        return self.agent

    def run(self, *words, code=0):
        control = ["--control", str(self.agent.control)] if self.agent else []
        done = subprocess.run([self.stoker, "cost", *control, "--journal", str(self.journal), *words], env=self.node.env,
                              capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    def cost(self, *words):
        report = json.loads(self.run("--json", *words))
        jsonschema.validate(report, SCHEMA)
        return report

    def hours(self, owner, *words):
        return next((o["gpu_hours"] for o in self.cost(*words)["owners"] if o["owner"] == owner), 0)

    def sql(self, query):
        """The rows; none where the file is not made yet."""
        with contextlib.suppress(sqlite3.OperationalError), \
                contextlib.closing(sqlite3.connect(f"file:{self.journal}?mode=ro", uri=True, timeout=60)) as db:
            return db.execute(query).fetchall()
        return []


@pytest.fixture
def place(stoker, tmp_path, make_node, make_agent):
    return Place(stoker, tmp_path, make_node, make_agent)


def assert_law(report):
    parts = sum(o["gpu_hours"] for o in report["owners"]) + sum(report[f"{k}_gpu_hours"] for k in ("unallocated", "unhealthy", "unknown"))
    assert report["total_gpu_hours"] > 0 and abs(parts / report["total_gpu_hours"] - 1) < 1e-6, report


def test_a_killed_agent_and_the_next(place):
    place.start()
    until(lambda: place.hours("alice") > 5 / 3600, lambda: place.run())
    before = place.cost()
    assert_law(before)
    assert before["gpus"] == 3 and before["currency"] == "EUR" and before["by"] == "user"
    alice = next(o for o in before["owners"] if o["owner"] == "alice")
    assert abs(alice["cost"] - 3.6 * alice["gpu_hours"]) < 1e-9
    place.agent.process.send_signal(signal.SIGKILL)
    place.agent.process.wait()
    alone = place.cost()  # without an agent
    assert_law(alone)
    assert alone["total_gpu_hours"] >= before["total_gpu_hours"]
    place.config.write_text(PRICES.replace("3.6", "7.2").replace("id: h100", "id: h100-dear"))
    place.start()
    until(lambda: place.hours("alice") > alice["gpu_hours"] + 5 / 3600, lambda: place.run())

    def grown():
        after = place.cost()
        assert_law(after)
        now = next(o for o in after["owners"] if o["owner"] == "alice")
        assert now["effective_gpu_hours"] > 0 and now["energy_kwh"] > 0
        assert after["unknown_gpu_hours"] > 0 and after["unallocated_gpu_hours"] > alone["unallocated_gpu_hours"]
        return after

    after = settles(grown)
    now = next(o for o in after["owners"] if o["owner"] == "alice")
    assert 3.6 * now["gpu_hours"] < now["cost"] < 7.2 * now["gpu_hours"]  # what is past keeps its price
    # GPUs x time: each GPU's rows cover the time from its first to its last
    for gpu, span, held in place.sql(
            "SELECT substr(device, 1, 44), max(until_ns) - min(from_ns), sum(alloc_ns + unhealthy_ns + gaps_ns) FROM ledger_rows GROUP BY 1"):
        assert abs(held / span - 1) < 1e-3, (gpu, held, span)
    assert len(place.sql("SELECT DISTINCT boot FROM ledger")) == 1


def test_by_what_it_is_asked(place):
    place.start()
    until(lambda: place.hours("4711", "--by", "job") > 0 and place.hours("serving/chat-0", "--by", "pod") > 0, lambda: place.run())
    assert {o["owner"] for o in place.cost("--by", "namespace")["owners"]} == {"serving", ""}
    assert all(o["owner"].startswith("gpu/GPU-") for o in place.cost("--by", "gpu")["owners"])
    rows = list(csv.DictReader(io.StringIO(place.run("--csv", "--by", "pod"))))
    assert {r["kind"] for r in rows} == {"owner", "unallocated", "unhealthy", "unknown", "total"}
    assert "serving/chat-0" in place.run("--by", "pod") and "EUR" in place.run()
    assert place.cost("--from", "2001-01-01", "--to", "2001-02-01")["total_gpu_hours"] == 0
    assert "no rows of this time" in place.run("--from", "2001-01-01", "--to", "2001-02-01")


def test_idle_power_after_a_restart(place):
    """It was learnt while nobody held the GPU, and is known of it when somebody does after a restart."""
    place.start()
    power = until(lambda: place.sql("SELECT uuid, idle_mw FROM gpu_seen WHERE idle_mw > 0 AND NOT idle_held"), lambda: place.run())
    place.agent.process.send_signal(signal.SIGKILL)
    place.agent.process.wait()
    place.node.inject("work", "train", "gpus=2", "user=bob")
    place.start()
    idle = "SELECT device, alloc_ns, energy_idle_mj FROM ledger_rows WHERE owner LIKE 'bob%' AND energy_idle_mj > 0"
    device, held_ns, idle_mj = until(lambda: place.sql(idle), lambda: place.run())[0]
    assert [device.split("\t")[0] for _ in power] == [f"gpu/{uuid}" for uuid, _ in power]
    assert idle_mj <= power[0][1] * held_ns / 1e9 * 1.001
    assert all(mj == 0 for mj, in place.sql("SELECT energy_idle_mj FROM ledger_rows WHERE owner LIKE 'alice%'"))


def test_rows_for_others(place):
    """Those that change no more, each once. A row ends with the hour, or some time after its owner left; else all may still grow."""
    agent = place.start()
    until(lambda: place.hours("alice") > 2 / 3600, lambda: place.run())
    early = agent.json("/api/v1/ledger")[1]["rows"]
    grown = place.hours("alice") + 1 / 3600
    until(lambda: place.hours("alice") > grown, lambda: place.run())
    agent.process.send_signal(signal.SIGKILL)
    agent.process.wait()
    kept = place.sql("SELECT id, from_ns, alloc_ns, unhealthy_ns, gaps_ns, energy_active_mj FROM ledger ORDER BY id")
    agent = place.start()
    until(lambda: place.sql("SELECT max(id) FROM ledger")[0][0] > kept[-1][0], lambda: place.run())

    def each_once():
        """Those, and of each GPU the time in which no agent ran."""
        status, answer = agent.json("/api/v1/ledger?since=0")
        rows = answer["rows"][:len(kept)]
        assert status == 200 and [(r["id"], r["alloc_ns"], r["unhealthy_ns"], r["gaps_ns"], r["energy_active_mj"]) for r in rows] == \
            [(row[0], *row[2:]) for row in kept]
        assert len(answer["rows"]) >= len(kept) + 3 and answer["next"] == answer["rows"][-1]["id"] + 1
        assert [r["id"] for r in agent.json(f"/api/v1/ledger?since={rows[1]['id']}")[1]["rows"]] == [r["id"] for r in answer["rows"][1:]]
        assert agent.json(f"/api/v1/ledger?since={answer['next']}")[1]["rows"] == []
        return rows

    rows = settles(each_once)
    assert rows[:len(early)] == early and len(early) < len(rows)
    alice = next(r for r in rows if r["owner"] and r["owner"]["user"] == "alice")
    assert alice["owner"]["job"] == "4711" and alice["held"] and alice["device"].startswith("gpu/GPU-") and alice["price"].startswith("h100 ")
    free = next(r for r in rows if not r["held"])
    assert free["owner"] is None and free["share_kind"] is None
    assert agent.get("/api/v1/ledger?since=soon")[0] == 400


def test_rows_that_are_not_written_yet(place):
    """Not for others while the journal cannot be written, as what they say now is not all."""
    agent = place.start("--clock-speed", "600")  # an hour in six seconds

    def now():
        return datetime.datetime.fromisoformat(agent.json("/api/v1/status")[1]["node"]["time"].rstrip("Z"))

    until(lambda: len(place.sql("SELECT id FROM ledger")) >= 3, "rows")
    with contextlib.closing(sqlite3.connect(place.journal, isolation_level=None, timeout=60)) as db:
        db.execute("BEGIN IMMEDIATE")
        end = now() + datetime.timedelta(hours=2)
        until(lambda: now() > end, now)
        early = agent.json("/api/v1/ledger")[1]["rows"]
        db.execute("ROLLBACK")
    rows = until(lambda: (found := agent.json("/api/v1/ledger")[1]["rows"])[len(early):] and found, lambda: place.run())
    assert rows[:len(early)] == early


def test_rows_without_a_journal(agent_on):
    _, agent = agent_on("default", options=["--journal", "none"])
    assert agent.get("/api/v1/ledger")[0] == 404


def test_focus_and_several_nodes(place, tmp_path):
    place.start()
    until(lambda: place.hours("4711", "--by", "job") > 0 and place.hours("serving/chat-0", "--by", "pod") > 0, lambda: place.run())
    place.agent.stop()
    lines = list(csv.DictReader(io.StringIO(place.run("--focus"))))
    report = place.cost()
    assert sum(float(l["ConsumedQuantity"]) for l in lines) == pytest.approx(report["total_gpu_hours"] - report["unknown_gpu_hours"], rel=1e-6)
    assert sum(float(l["BilledCost"]) for l in lines) == pytest.approx(report["cost"], rel=1e-6)
    assert {json.loads(l["Tags"]).get("stoker/user") for l in lines} >= {"alice", "root", None}
    parents = {(l["SkuPriceId"], l["SkuId"]) for l in lines}
    assert len(parents) == len({price for price, _ in parents}) and all(price and sku for price, sku in parents)
    assert all(l["BillingPeriodStart"].endswith("-01T00:00:00Z") and l["BillingPeriodStart"] <= l["ChargePeriodStart"] for l in lines)
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for name, path in zip("ab", files):
        path.write_text(json.dumps(dict(report, node=name)))
    merge = [place.stoker, "cost", "merge", "--json"]
    both = json.loads(subprocess.check_output([*merge, *map(str, files)], text=True))
    jsonschema.validate(both, SCHEMA)
    assert_law(both)
    assert both["gpus"] == 6 and both["cost"] == pytest.approx(2 * report["cost"])
    files[1].write_text(json.dumps(dict(report, node="b", unknown_gpu_hours=report["unknown_gpu_hours"] + 1)))
    for given, code, error in ((files, 1, "b.json' does not add up"), ([files[0]] * 2, 3, "in a file before it"), ([], 2, "which reports?"),
                               ([tmp_path / "none"], 3, "none")):
        done = subprocess.run([*merge, *map(str, given)], capture_output=True, text=True)
        assert done.returncode == code and error in done.stderr, done.stderr


@pytest.mark.parametrize("words, error", [
    (["--from", "soon"], "--from: 'soon' is neither a duration"),
    (["--from", "1d", "--to", "2d"], "is not after --from"),
    (["--json", "--csv"], "give one of them"),
    (["--by", "colour"], "colour"),
    (["all"], "takes no argument"),
])
def test_wrong_words(stoker, tmp_path, words, error):
    done = subprocess.run([stoker, "cost", "--journal", str(tmp_path / "none.db"), *words], capture_output=True, text=True)
    assert done.returncode == 2 and error in done.stderr, done.stderr


def test_without_a_journal(stoker, tmp_path):
    done = subprocess.run([stoker, "cost", "--control", str(tmp_path / "none.sock"), "--journal", str(tmp_path / "none.db")],
                          capture_output=True, text=True)
    assert done.returncode == 3 and "there is no journal" in done.stderr, done.stderr


@pytest.mark.parametrize("content, error", [("no database", "file is not a database"), ("", "no ledger in it, or that of an older Stoker; an agent that is started")])
def test_files_that_are_no_ledger(stoker, tmp_path, content, error):
    path = tmp_path / "other.db"
    path.write_text(content)
    done = subprocess.run([stoker, "cost", "--journal", str(path)], capture_output=True, text=True)
    assert done.returncode == 3 and f"'{path}': " in done.stderr and error in done.stderr, done.stderr


def test_wrong_prices_are_named(stoker, tmp_path):
    path = tmp_path / "stoker.yaml"
    path.write_text("prices:\n  list:\n    - {id: a, on_demand: cheap}\n")
    done = subprocess.run([stoker, "agent", "--check-config", "--config", str(path)], capture_output=True, text=True)
    assert done.returncode == 2 and f"{path}:3:" in done.stderr and "'on_demand' must be a number" in done.stderr, done.stderr
