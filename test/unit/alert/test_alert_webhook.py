# SPDX-License-Identifier: Apache-2.0
"""Webhooks: what is sent, in which order, how often, and what outages and restarts do to it."""
import json
import re
import threading
import time
from pathlib import Path

import pytest

from alert_rig import PATIENCE

DOCS = (Path(__file__).resolve().parents[3] / "docs" / "alerts.md").read_text()

def config(hook, receiver="", route="", more=""):
    return f"""
receivers:
  h:
    webhook: {{url: "{hook.url}/in"{', ' + receiver if receiver else ''}}}
    {more}
routes:
  - {{receiver: h{', ' + route if route else ''}}}
"""


def test_page_is_sent_with_everything_in_it(start, hook, tmp_path):
    hook = hook()
    (tmp_path / "secret").write_text("s3cret\n")
    driver = start(config(hook, receiver="secret_file: secret, headers: {X-Team: gpu}",
                          route="labels: {team: sre}, runbook: 'https://wiki/{class}?x'"))
    driver.tell(id="a", revision=4, gpu=3, code=79)
    post, = hook.wait()
    assert post.path == "/in" and post.headers["Content-Type"] == "application/json"
    assert post.headers["Idempotency-Key"] == "a-0.0" and post.headers["X-Team"] == "gpu"
    told = post.json
    assert (told["version"], told["receiver"], told["key"], told["change"], told["hostname"]) == \
        (2, "h", "a-0.0", "opened", "node7")
    assert told["url"] == "http://node7:9400/#/incidents/a" and told["runbook_url"] == "https://wiki/gpu-lost?x"
    assert told["labels"] == {"alertname": "GpuLost", "class": "gpu-lost", "severity": "fatal", "cause": "bus",
                              "action": "drain-and-reboot", "route": "page", "hostname": "node7", "gpu": "3",
                              "UUID": "GPU-3", "pci_bus_id": "00000000:13:00.0", "code": "79", "team": "sre"}
    incident = told["incident"]
    for member in ("id device instance code class cause severity action route state count opened updated cleared "
                   "evidence").split():
        assert member in incident
    assert (incident["id"], incident["device"]["key"], incident["code"], incident["cleared"]) == ("a", "gpu/GPU-3", 79, None)
    assert incident["evidence"][1]["text"] == 'NVRM: Xid 45, "quoted"' and incident["evidence"][1]["echo"]
    assert incident["counters"] == [{"name": "pcie_replay_counter", "before": 3, "after": 7.5}]
    # as the documentation says that it is checked
    documented = {}
    exec(re.search(r"^```python\n(.*?)^```", DOCS, re.M | re.S)[1], documented)  # pylint: disable=exec-used
    is_genuine, said = documented["is_genuine"], post.headers["X-Stoker-Signature"]
    assert is_genuine(b"s3cret", said, post.body, patience=3600)
    assert not is_genuine(b"s3cret", said, post.body + b" ", patience=3600)
    assert not is_genuine(b"other", said, post.body, patience=3600)
    assert not is_genuine(b"s3cret", said, post.body, now=time.time() + 4000, patience=3600)


def test_each_change_of_state_is_told_once(start, hook):
    hook = hook()
    driver = start(config(hook))
    driver.tell(id="a", revision=1)
    hook.wait(1)
    for revision in range(2, 20):
        driver.tell(id="a", revision=revision, count=revision)
    driver.tell(id="a", revision=20, escalations=1, severity="fatal")
    hook.wait(2)
    driver.tell(id="a", revision=21, escalations=1, state="cleared")
    hook.wait(3)
    driver.tell(id="a", revision=22, reopened=1)
    hook.wait(4)
    driver.tell(id="a", revision=23, reopened=1, state="cleared")
    posts = hook.wait(5)
    assert [(p.json["key"], p.json["change"]) for p in posts] == [
        ("a-0.0", "opened"), ("a-0.1", "escalated"), ("a-0.end", "cleared"), ("a-1.0", "reopened"), ("a-1.end", "cleared")]
    driver.wait_outbox(lambda kept: not kept)
    assert driver.receiver("h") == {"name": "h", "kind": "webhook", "sent": 5, "failed": 0, "dropped": 0, "queued": 0,
                                    "fine": True, "why": ""}


@pytest.mark.parametrize("route, sent", [("page", True), ("ticket", True), ("user", True), ("none", False)])
def test_what_nobody_shall_hear_is_sent_on_demand_only(start, hook, route, sent):
    hook = hook()
    driver = start(config(hook))
    driver.tell(id="a", route=route)
    driver.tell(id="z")
    hook.wait(1, lambda p: p.json["incident"]["id"] == "z")
    if sent:
        hook.wait(2)
    assert [i for i, _ in hook.incidents() if i == "a"] == ["a"] * sent
    driver.end()
    driver = start(config(hook, route="match: {route: [none]}"))
    driver.tell(id="b", route="none")
    hook.wait(1, lambda p: p.json["incident"]["id"] == "b")


def test_without_routes_everybody_is_told(start, hook):
    one, two = hook(), hook()
    driver = start(f"receivers: {{a: {{webhook: '{one.url}'}}, b: {{webhook: '{two.url}'}}}}")
    driver.tell(id="x")
    assert one.wait()[0].json["labels"]["class"] == "gpu-lost"
    two.wait()


def test_nobody_without_configuration(start, hook):
    driver = start("labels: {a: b}")
    driver.tell(id="x")
    assert driver.ask("receivers")["receivers"] == []
    assert driver.outbox() == {}


@pytest.mark.parametrize("match, takes", [
    ("class: ['gpu-*']", True), ("class: [ecc-*, gpu-lost]", True), ("class: gpu", False), ("cause: [bus, link]", True),
    ("cause: memory", False), ("severity: error", True), ("gpu: 3", True), ("gpu: [GPU-3]", True), ("gpu: [1, 2]", False),
    ("labels: {rack: 'r*'}", True), ("labels: {rack: 'x*'}", False), ("labels: {none: 'x'}", False),
    ("labels: {hostname: node7, gpu: '3'}", True), ("route: ticket", False)])
def test_match(start, hook, match, takes):
    right, other = hook(), hook()
    driver = start(f"""
labels: {{rack: r12}}
receivers: {{right: {{webhook: "{right.url}"}}, other: {{webhook: "{other.url}"}}}}
routes:
  - {{match: {{{match}}}, receiver: right}}
  - {{receiver: other}}
""")
    driver.tell(id="a", gpu=3)
    (right if takes else other).wait()
    driver.end(grace_ms=10000)
    assert (len(right.posts), len(other.posts)) == ((1, 0) if takes else (0, 1))


ALICE = {"user": "alice", "job": "4712", "process": "python", "pid": 77}
CHAT = {"user": "root", "namespace": "serving", "pod": "chat-0", "pid": 78}


@pytest.mark.parametrize("match, takes", [
    ("user: alice", True), ("user: root", True), ("user: bob", False), ("user: ali", False), ("user: 'a*'", True), ("job: '4712'", True),
    ("namespace: serving", True), ("namespace: serv", False), ("pod: 'chat-*'", True), ("user: 'alice,root'", True)])
def test_owners_are_labels_to_route_by(start, hook, match, takes):
    """Of several owners any will do: each gets what is theirs."""
    right, other = hook(), hook()
    driver = start(f"""
receivers: {{right: {{webhook: "{right.url}"}}, other: {{webhook: "{other.url}"}}}}
routes:
  - {{match: {{labels: {{{match}}}}}, receiver: right}}
  - {{receiver: other}}
""")
    driver.tell(id="a", gpu=3, owners=[ALICE, CHAT])
    post, = (right if takes else other).wait()
    assert {name: post.json["labels"].get(name) for name in ("user", "job", "namespace", "pod", "container")} == \
        {"user": "alice,root", "job": "4712", "namespace": "serving", "pod": "chat-0", "container": None}
    assert post.json["incident"]["affected"] == "job 4712 of alice, pod serving/chat-0"
    assert [o["user"] for o in post.json["incident"]["owners"]] == ["alice", "root"]


def test_severity_of_match_is_at_least(start, hook):
    hook = hook()
    driver = start(config(hook, route="match: {severity: error}"))
    for severity in ("info", "warning", "error", "fatal"):
        driver.tell(id=severity, severity=severity)
    hook.wait(2)
    assert {i for i, _ in hook.incidents()} == {"error", "fatal"}


def test_continue_leads_on_and_one_receiver_is_told_once(start, hook):
    one, two = hook(), hook()
    driver = start(f"""
receivers: {{one: {{webhook: "{one.url}"}}, two: {{webhook: "{two.url}"}}}}
routes:
  - {{receiver: one, labels: {{first: y}}, continue: yes}}
  - {{receivers: [one, two], labels: {{second: y}}}}
  - {{receiver: two, labels: {{third: y}}}}
""")
    driver.tell(id="a")
    assert "first" in one.wait()[0].json["labels"] and "second" not in one.posts[0].json["labels"]
    assert "second" in two.wait()[0].json["labels"]
    driver.end(grace_ms=10000)
    assert len(one.posts) == len(two.posts) == 1


# --- repeating ---

def test_what_lasts_is_repeated_as_configured(start, hook):
    hook = hook()
    driver = start(config(hook, route="repeat_interval: 1h"))
    driver.tell(id="a")
    hook.wait(1)
    driver.heard("h a")
    driver.advance(3500)
    driver.receiver("h")
    assert len(hook.posts) == 1
    driver.advance(200)
    repeated = hook.wait(2)[1]
    driver.wait_receiver("h", lambda r: r["sent"] == 2)
    assert repeated.json["change"] == "repeated" and repeated.json["incident"]["id"] == "a"
    driver.advance(3700)
    again = hook.wait(3)[2]
    driver.wait_receiver("h", lambda r: r["sent"] == 3)
    assert again.json["change"] == "repeated" and again.json["key"] != repeated.json["key"]
    driver.tell(id="a", revision=2, state="cleared")
    hook.wait(4)
    driver.wait_outbox(lambda kept: not kept)
    driver.advance(7200)
    driver.tell(id="z")
    hook.wait(1, lambda p: p.json["incident"]["id"] == "z")
    assert [p.json["change"] for p in hook.posts].count("repeated") == 2


def test_what_is_for_information_is_sent_once(start, hook):
    hook = hook()
    driver = start(config(hook, route="repeat_interval: 1h"))
    driver.tell(id="a", severity="info")
    hook.wait(1)
    driver.heard("h a")
    driver.advance(7200)
    driver.tell(id="z")
    hook.wait(2)
    driver.heard("h z")
    driver.advance(3700)
    hook.wait(1, lambda p: p.json["change"] == "repeated")
    driver.tell(id="a", severity="info", revision=2, state="cleared")
    hook.wait(1, lambda p: p.json["change"] == "cleared")
    assert [c for i, c in hook.incidents() if i == "a"] == ["opened", "cleared"]


def test_repeat_interval_of_nothing_is_never(start, hook):
    hook = hook()
    driver = start(config(hook, route="repeat_interval: 0"))
    driver.tell(id="a")
    driver.heard("h a")
    driver.advance(1000000)
    driver.tell(id="b")
    driver.heard("h b")
    assert hook.incidents() == [("a", "opened"), ("b", "opened")]


# --- outages ---

@pytest.mark.parametrize("status", [500, 503, 408, 429, "cut", 301, 401])
def test_failed_try_is_made_again_with_the_same_key(start, hook, status):
    hook = hook()
    hook.say(status)
    driver = start(config(hook))
    driver.tell(id="a", revision=3)
    hook.wait(1)
    driver.tell(id="a", revision=4, count=50)
    driver.advance(2)
    hook.wait(2)
    hook.say(200)
    driver.advance(10)
    posts = hook.wait(1, lambda p: p.status == 200)
    assert {p.json["key"] for p in hook.posts} == {"a-0.0"} and posts[-1].json["incident"]["count"] == 50
    state = driver.wait_receiver("h", lambda r: r["fine"])
    assert state["sent"] == 1 and state["failed"] >= 2 and state["dropped"] == 0


def test_rejected_is_dropped_and_said(start, hook):
    hook = hook()
    hook.say(400)
    driver = start(config(hook))
    driver.tell(id="a")
    hook.wait(1)
    state = driver.wait_receiver("h", lambda r: r["dropped"])
    assert (state["dropped"], state["queued"], state["failed"]) == (1, 0, 1) and "HTTP status 400" in state["why"]
    driver.advance(1000)
    hook.say(200)
    driver.tell(id="b")
    hook.wait(1, lambda p: p.json["incident"]["id"] == "b")
    assert hook.incidents() == [("b", "opened")]


def test_waits_as_long_as_the_receiver_asks(start, hook):
    hook = hook()
    hook.say(503)
    hook.headers["Retry-After"] = "120"
    driver = start(config(hook))
    driver.tell(id="a")
    hook.wait(1)
    driver.wait_receiver("h", lambda r: not r["fine"])
    hook.say(200)
    driver.advance(100)
    driver.receiver("h")
    assert len(hook.posts) == 1
    driver.advance(30)
    hook.wait(2)


def test_waits_longer_from_try_to_try_up_to_five_minutes(start, hook):
    hook = hook()
    hook.say(500)
    driver = start(config(hook))
    driver.tell(id="a")
    hook.wait(1)
    while (count := len(hook.posts)) < 13:  # the first waits are as short as those of a busy machine
        driver.wait_receiver("h", lambda r: r["failed"] >= count)  # noqa: B023
        wait = min(2 ** (count - 1), 300)
        driver.advance(int(wait * 0.5))
        driver.receiver("h")
        assert len(hook.posts) == count or wait <= 8
        driver.advance(int(wait * 0.6) + 1)
        hook.wait(count + 1)


def test_only_the_newest_state_is_sent_after_an_outage(start, hook):
    hook = hook()
    hook.say(500)
    driver = start(config(hook))
    driver.tell(id="a", revision=1)
    hook.wait(1)
    for revision in range(2, 9):
        driver.tell(id="a", revision=revision, escalations=revision)
    driver.tell(id="gone", revision=1)
    driver.tell(id="gone", revision=2, state="cleared")
    hook.wait(1, lambda p: p.json["change"] == "opened-and-cleared")
    driver.wait_receiver("h", lambda r: r["failed"] >= 2)
    hook.say(200)
    driver.advance(3)
    hook.wait(2, lambda p: p.status == 200)
    assert sorted(hook.incidents()) == [("a", "opened"), ("gone", "opened-and-cleared")]
    driver.wait_receiver("h", lambda r: r["queued"] == 0)
    assert list(driver.outbox()) == ["h a"]


def test_what_is_over_for_too_long_is_given_up_and_counted(start, hook):
    hook = hook()
    hook.say(500)
    driver = start(config(hook, more="keep: 1h"))
    driver.tell(id="a")
    driver.tell(id="open")
    hook.wait(2)
    driver.tell(id="a", revision=2, state="cleared")
    driver.wait_receiver("h", lambda r: r["failed"] >= 2)
    driver.advance(4000)
    state = driver.wait_receiver("h", lambda r: r["dropped"])
    assert state["dropped"] == 1 and driver.said("too long")
    hook.say(200)
    driver.advance(400)
    hook.wait(1, lambda p: p.status == 200)
    assert hook.incidents() == [("open", "opened")], "what is open is told, however late"


def test_hanging_receiver_delays_no_other(start, hook):
    slow, quick = hook(), hook()
    slow.say("hang")
    driver = start(f"""
receivers: {{slow: {{webhook: {{url: "{slow.url}", timeout: 60s}}}}, quick: {{webhook: "{quick.url}"}}}}
routes: [{{receivers: [slow, quick]}}]
""")
    for i in range(12):
        driver.tell(id=f"i{i}")
    quick.wait(12)
    assert len(slow.posts) <= 4 and not slow.delivered()
    slow.say(200)
    driver.advance(10)
    driver.wait_receiver("slow", lambda r: r["queued"] == 0 or driver.advance(10))


def test_page_does_not_wait_behind_what_a_receiver_refuses(start, hook):
    hook = hook()
    hook.say(lambda path, body: 500 if json.loads(body)["incident"]["route"] == "ticket" else 200)
    driver = start(config(hook))
    for i in range(20):
        driver.tell(id=f"t{i}", route="ticket")
    driver.wait_receiver("h", lambda r: r["failed"] >= 20)
    driver.tell(id="page")
    hook.wait(1, lambda p: p.json["incident"]["id"] == "page")


def test_a_page_overtakes_what_waits_for_a_busy_receiver(start, hook):
    hook = hook()
    entered, first, rest = [], threading.Event(), threading.Event()

    def status(path, body):
        incident = json.loads(body)["incident"]["id"]
        entered.append(incident)
        if incident in "abcd":
            (first if incident == "a" else rest).wait(PATIENCE)
        return 200

    hook.status = status
    driver = start(config(hook))
    for incident in "abcd":  # as many as are sent at a time
        driver.tell(id=incident, route="user")
    end = time.monotonic() + PATIENCE
    while len(entered) < 4:
        assert time.monotonic() < end, entered
        time.sleep(0.01)
    driver.tell(id="e", route="user")
    driver.tell(id="p", route="page")
    assert driver.receiver("h")["queued"] == 6
    first.set()
    posts = hook.wait(3)
    rest.set()
    assert [p.json["incident"]["id"] for p in posts[:3]] == ["a", "p", "e"]


def test_flood_into_a_dead_receiver_is_bounded_and_said(start, hook):
    hook = hook()
    hook.down()
    driver = start(config(hook))
    for i in range(1200):
        driver.tell(id=f"i{i}")
        driver.tell(id=f"i{i}", revision=2, state="cleared")
    state = driver.wait_receiver("h", lambda r: r["dropped"] >= 176)
    assert state["queued"] == 1024 and driver.said("too many wait")
    assert len(driver.outbox()) == 1024


# --- silence ---

def test_silenced_is_told_to_nobody_until_the_window_ends(start, hook):
    hook = hook()
    driver = start(config(hook))
    driver.tell(id="a", silenced=True)
    driver.tell(id="over", silenced=True)
    driver.tell(id="over", silenced=True, state="cleared", revision=2)
    driver.tell(id="z")
    hook.wait(1)
    driver.tell(id="a", revision=2)
    hook.wait(2)
    assert hook.incidents() == [("z", "opened"), ("a", "opened")]


def test_silence_stops_repeats_and_the_end_is_told(start, hook):
    hook = hook()
    driver = start(config(hook, route="repeat_interval: 1h"))
    driver.tell(id="a")
    hook.wait(1)
    driver.tell(id="a", revision=2, silenced=True)
    driver.tell(id="a", revision=3, silenced=True, escalations=1)
    driver.advance(10000)
    driver.tell(id="z")
    hook.wait(2)
    assert [c for _, c in hook.incidents()] == ["opened", "opened"]
    driver.tell(id="a", revision=4, silenced=True, escalations=1, state="cleared")
    assert hook.wait(3)[2].json["change"] == "cleared"


def test_silence_holds_what_waits_to_be_sent(start, hook):
    hook = hook()
    hook.say(500)
    driver = start(config(hook))
    driver.tell(id="a")
    driver.wait_receiver("h", lambda r: r["failed"] >= 1)
    driver.tell(id="a", revision=2, silenced=True)
    driver.receiver("h")  # it has heard of that
    hook.say(200)
    driver.advance(10)
    driver.tell(id="z")
    hook.wait(1, lambda p: p.status == 200)
    assert hook.incidents() == [("z", "opened")]
    driver.tell(id="a", revision=3)
    driver.advance(10)
    hook.wait(2, lambda p: p.status == 200)


# --- restarts ---

def test_restart_tells_nothing_twice(start, hook):
    hook = hook()
    text = config(hook, route="repeat_interval: 1h")
    driver = start(text)
    driver.tell(id="a", revision=3)
    hook.wait(1)
    driver.heard("h a")
    driver.end()
    driver = start(text, resume=[{"id": "a", "revision": 5}])
    driver.tell(id="z")
    driver.heard("h z")
    driver.end()
    driver = start(text, resume=[{"id": "a", "revision": 6}, {"id": "z"}], offset=4000)
    hook.wait(2, lambda p: p.json["change"] == "repeated")
    assert [(i, c) for i, c in hook.incidents() if c != "repeated"] == [("a", "opened"), ("z", "opened")]


def test_kill_while_a_notification_is_under_way(start, hook):
    hook = hook()
    hook.say("hang")
    driver = start(config(hook))
    driver.tell(id="a", revision=3)
    hook.wait(1)
    driver.kill()
    hook.say(200)
    driver = start(config(hook), resume=[{"id": "a", "revision": 9}])
    posts = hook.wait(2)
    assert [p.json["key"] for p in posts] == ["a-0.0", "a-0.0"], "the receiver can tell that it is the same"


def test_a_return_after_an_end_that_may_have_been_heard_is_told(start, hook):
    hook = hook()
    driver = start(config(hook))
    driver.tell(id="a")
    driver.heard("h a")
    hook.say("cut")
    driver.tell(id="a", revision=2, state="cleared")
    hook.wait(1, lambda p: p.json["change"] == "cleared")
    driver.tell(id="a", revision=3, reopened=1)
    driver.advance(2)
    driver.wait_receiver("h", lambda r: r["failed"] >= 2)
    hook.say(200)
    driver.advance(5)
    driver.wait_receiver("h", lambda r: r["queued"] == 0)
    assert [(p.json["key"], p.json["change"]) for p in hook.delivered()] == \
        [("a-0.0", "opened"), ("a-1.0", "reopened")], "it believes that it is over"


def test_an_end_after_a_beginning_that_may_have_been_heard_is_told(start, hook):
    hook = hook()
    hook.say("cut")
    driver = start(config(hook))
    driver.tell(id="a")
    hook.wait(1)
    driver.wait_receiver("h", lambda r: r["failed"] >= 1)
    driver.tell(id="a", revision=2, silenced=True, window="w1")
    driver.ask("receivers")
    driver.kill()
    hook.say(200)
    driver = start(config(hook), resume=[{"id": "a", "revision": 3, "silenced": True}], offset=400)
    driver.tell(id="a", revision=4, silenced=True, state="cleared")
    told = hook.wait(1, lambda p: p.status == 200)[0].json
    assert (told["key"], told["change"]) == ("a-0.end", "opened-and-cleared")


@pytest.mark.parametrize("revision", [1, 9])
def test_the_same_news_have_the_same_key_whatever_a_kill_has_lost(start, hook, revision, tmp_path):
    """It was heard and nothing of that is on disk: the next process reckons the same key from a later revision."""
    hook = hook()
    hook.say("hang")
    driver = start(config(hook))
    driver.tell(id="a", escalations=2)
    hook.wait(1)
    driver.kill()
    (tmp_path / "outbox").unlink()
    hook.say(200)
    driver = start(config(hook), resume=[{"id": "a", "revision": revision, "escalations": 2}])
    assert {p.json["key"] for p in hook.wait(2)} == {"a-0.2"}


def test_an_end_and_a_return_during_an_absence(start, hook):
    """What was told before the kill is not known for sure: that it came back is told all the same."""
    hook = hook()
    driver = start(config(hook))
    driver.tell(id="a")
    driver.heard("h a")
    driver.kill()
    driver = start(config(hook), resume=[{"id": "a", "revision": 7, "reopened": 1}], offset=400)
    assert [(p.json["key"], p.json["change"]) for p in hook.wait(2)] == [("a-0.0", "opened"), ("a-1.0", "reopened")]


def test_kill_before_the_outbox_knew_of_it(start, hook):
    hook = hook()
    driver = start(config(hook), resume=[{"id": "a", "revision": 1}])
    hook.wait(1)
    assert hook.incidents() == [("a", "opened")]


def test_end_that_fell_into_the_absence_is_told(start, hook):
    hook = hook()
    driver = start(config(hook))
    driver.tell(id="a", revision=3)
    hook.wait(1)
    driver.heard("h a")
    driver.kill()
    driver = start(config(hook), resume=[])
    told = hook.wait(2)[1].json
    assert (told["change"], told["key"], told["incident"]["state"]) == ("cleared", "a-0.end", "cleared")
    assert told["incident"]["device"]["key"] == "node" and told["incident"]["evidence"][0]["text"].startswith("NVRM: Xid")
    driver.wait_outbox(lambda kept: not kept)


def test_outage_over_several_restarts_loses_nothing(start, hook):
    hook = hook()
    hook.down()
    for i in range(4):
        driver = start(config(hook), resume=[{"id": f"i{k}"} for k in range(i)])
        driver.tell(id=f"i{i}")
        driver.tell(id=f"c{i}")
        driver.tell(id=f"c{i}", revision=2, state="cleared")
        driver.wait_receiver("h", lambda r: r["failed"] >= 2)
        driver.kill() if i % 2 else driver.end()
    hook.up()
    driver = start(config(hook), resume=[{"id": f"i{k}"} for k in range(4)])
    driver.wait_receiver("h", lambda r: r["queued"] == 0)
    assert sorted(hook.incidents()) == sorted([(f"i{k}", "opened") for k in range(4)] +
                                              [(f"c{k}", "opened-and-cleared") for k in range(4)])


def test_close_gives_what_is_due_its_time(start, hook):
    hook = hook()
    driver = start(config(hook))
    driver.tell(id="a")
    driver.end(grace_ms=30000)
    assert hook.incidents() == [("a", "opened")]


def test_close_does_not_wait_for_the_dead(start, hook):
    hook = hook()
    hook.say("hang")
    driver = start(config(hook))
    driver.tell(id="a")
    hook.wait(1)
    driver.end(grace_ms=50)
    driver = start(config(hook), resume=None)
    assert driver.outbox()["h a"]["told"] == "nothing"


def test_damaged_entry_and_one_of_a_receiver_that_is_gone_are_removed(start, hook, tmp_path):
    hook = hook()
    lines = [["h", "x", "{}"], ["h", "y", '{"v":1,"told":"open","labels":{},"incident":{"id":7}}'], ["gone", "z", '{"v":1}']]
    (tmp_path / "outbox").write_text("".join(json.dumps(line) + "\n" for line in lines))
    driver = start(config(hook))
    assert driver.outbox() == {}
    driver.tell(id="a")
    hook.wait(1)
    assert driver.said("1 for receivers that are gone, 2 unreadable")


# --- reload ---

def reload(driver, tmp_path, text):
    path = tmp_path / "new.yaml"
    path.write_text("alerts:\n" + "".join(f"  {line}\n" for line in text.strip("\n").splitlines()))
    return driver.ask("reload", config=str(path))


def test_reload_takes_along_what_is_under_way_and_told(start, hook, tmp_path):
    old, new = hook(), hook()
    old.say(500)
    driver = start(config(old))
    driver.tell(id="a")
    old.wait(1)
    driver.wait_receiver("h", lambda r: r["failed"] >= 1)
    assert reload(driver, tmp_path, config(new))["reloaded"] == 0
    assert new.wait(1)[0].json["key"] == "a-0.0"
    assert reload(driver, tmp_path, config(new, route="labels: {x: y}"))["reloaded"] == 0
    driver.tell(id="a", revision=2, state="cleared")
    assert new.wait(2)[1].json["labels"]["x"] == "y"
    assert new.incidents() == [("a", "opened"), ("a", "cleared")]


def test_reload_that_is_wrong_changes_nothing(start, hook, tmp_path):
    hook = hook()
    driver = start(config(hook))
    got = reload(driver, tmp_path, "receivers: {h: {webhook: {url: 'http://x', secret_file: /none}}}")
    assert got["reloaded"] < 0 and "/none" in got["text"]
    assert reload(driver, tmp_path, "routes: [{receiver: nobody}]")["reloaded"] < 0
    driver.tell(id="a")
    hook.wait(1)


def test_new_receiver_hears_of_what_is_open_and_a_removed_one_nothing_more(start, hook, tmp_path):
    one, two = hook(), hook()
    driver = start(config(one))
    driver.tell(id="a")
    one.wait(1)
    assert reload(driver, tmp_path, config(two).replace("h:", "other:").replace("receiver: h", "receiver: other"))["reloaded"] == 0
    assert two.wait(1)[0].json["change"] == "opened"
    driver.heard("other a")
    driver.tell(id="a", revision=2, state="cleared")
    driver.advance(400)
    two.wait(2)
    driver.wait_outbox(lambda kept: not kept)
    assert len(one.posts) == 1


def test_route_that_ends_is_followed_to_the_end_of_what_was_told(start, hook, tmp_path):
    hook = hook()
    driver = start(config(hook))
    driver.tell(id="a")
    hook.wait(1)
    driver.heard("h a")
    assert reload(driver, tmp_path, config(hook, route="match: {class: x}"))["reloaded"] == 0
    driver.tell(id="b")
    driver.tell(id="a", revision=2, state="cleared")
    hook.wait(2)
    assert hook.incidents() == [("a", "opened"), ("a", "cleared")]


def test_new_secret_is_read_when_the_old_one_is_refused(start, hook, tmp_path):
    hook = hook()
    (tmp_path / "token").write_text("old")
    hook.say(401)
    driver = start(config(hook, receiver="bearer_file: token"))
    driver.tell(id="a")
    hook.wait(1)
    driver.wait_receiver("h", lambda r: r["failed"] >= 1)
    (tmp_path / "token").write_text("new")
    count = len(hook.posts) + 1
    driver.advance(3)
    hook.wait(count)
    driver.wait_receiver("h", lambda r: r["failed"] >= count)
    hook.say(200)
    driver.advance(60)
    assert [p.headers["Authorization"] for p in hook.wait(1, lambda p: p.status == 200)] == ["Bearer new"]
    said = [p.headers["Authorization"] for p in hook.posts]
    assert said == sorted(said, reverse=True) and said.count("Bearer old") >= 2
