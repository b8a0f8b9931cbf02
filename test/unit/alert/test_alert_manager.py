# SPDX-License-Identifier: Apache-2.0
"""Alertmanagers: what Prometheus would send them."""
import datetime
import json

import pytest


def config(*hooks, more="", route=""):
    urls = ", ".join(f'"{h.url}"' for h in hooks)
    return f"""
receivers: {{am: {{alertmanager: {{urls: [{urls}]{more}}}}}}}
routes: [{{receiver: am{route}}}]
"""


def instant(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def is_firing(alert, post_alerts=None):
    return (instant(alert["endsAt"]) - instant(alert["startsAt"])).total_seconds() > 100


def states(hook, key="gpu"):
    """[(gpu, firing)] in the order of delivery."""
    return [(a["labels"].get(key), is_firing(a)) for a in hook.alerts()]


def test_alert_has_what_people_route_and_read(start, hook):
    hook = hook()
    driver = start("labels: {cluster: east}\n" + config(hook, route=", labels: {team: sre}"))
    driver.tell(id="a", revision=4, gpu=3, gpu_instance=7)
    post, = hook.wait()
    assert post.path == "/api/v2/alerts"
    alert, = post.json
    assert alert["labels"] == {"alertname": "GpuLost", "class": "gpu-lost", "severity": "fatal", "cause": "bus",
                               "action": "drain-and-reboot", "route": "page", "hostname": "node7", "gpu": "3",
                               "UUID": "GPU-3", "pci_bus_id": "00000000:13:00.0", "GPU_I_ID": "7", "code": "79",
                               "team": "sre", "cluster": "east"}
    notes = alert["annotations"]
    assert notes["summary"] == "GPU 3 is lost" and notes["description"] == "It fell off the bus."
    assert notes["incident"] == "a" and notes["runbook_url"] == "https://example/runbooks/gpu-lost"
    assert notes["action"] == "Drain and reboot this node" and "Xid 45" in notes["evidence"]
    assert alert["generatorURL"] == "http://node7:9400/#/incidents/a"
    assert 235 < (instant(alert["endsAt"]) - instant(alert["startsAt"])).total_seconds() < 250


def test_whose_work_was_hit(start, hook):
    hook = hook()
    driver = start(config(hook))
    driver.tell(id="a", gpu=3, owners=[{"user": "alice", "job": "4712", "pid": 77}])
    post, = hook.wait()
    alert, = post.json
    assert (alert["labels"]["user"], alert["labels"]["job"]) == ("alice", "4712")
    assert alert["annotations"]["description"] == "It fell off the bus. Affected: job 4712 of alice."
    assert alert["annotations"]["affected"] == "job 4712 of alice"


def test_lasting_is_resent_each_minute_and_ended_for_a_quarter_of_an_hour(start, hook):
    hook = hook()
    driver = start(config(hook))
    driver.tell(id="a", gpu=0)
    for count in range(1, 6):
        driver.wait_receiver("am", lambda r: r["sent"] == count)
        driver.advance(61)
    driver.wait_receiver("am", lambda r: r["sent"] == 6)
    driver.tell(id="a", gpu=0, revision=2, state="cleared")
    driver.wait_receiver("am", lambda r: r["sent"] == 7)
    ended = hook.alerts()[-1]
    assert not is_firing(ended)
    for count in range(8, 22):
        driver.advance(61)
        driver.wait_receiver("am", lambda r: r["sent"] == count)
    driver.advance(61)
    driver.tell(id="z", gpu=7)
    driver.wait_receiver("am", lambda r: r["sent"] >= 22)
    assert [s for s in states(hook)] == [("0", True)] * 6 + [("0", False)] * 15 + [("7", True)]
    assert {a["endsAt"] for a in hook.alerts()[6:21]} == {ended["endsAt"]}


def test_each_alertmanager_gets_everything_and_a_dead_one_delays_none(start, hook):
    one, two, dead = hook(), hook(), hook()
    two.say("hang")
    dead.down()
    driver = start(config(one, two, dead))
    for gpu in range(5):
        driver.tell(id=f"i{gpu}", gpu=gpu)
    one.wait(1, lambda p: any(a["labels"]["gpu"] == "4" for a in p.json))
    assert {g for g, _ in states(one)} == set("01234")
    two.say(200)
    dead.up()
    driver.advance(20)
    driver.wait_receiver("am", lambda r: r["queued"] == 0 or driver.advance(20))
    assert {g for g, _ in states(two)} == {g for g, _ in states(dead)} == set("01234")


def test_many_go_in_batches(start, hook):
    hook = hook()
    driver = start(config(hook))
    driver.resume(*[{"id": f"i{i}", "gpu": i} for i in range(60)])
    for i in range(60, 200):
        driver.tell(id=f"i{i}", gpu=i)
    driver.wait_receiver("am", lambda r: r["queued"] == 0)
    assert len({g for g, _ in states(hook)}) == 200
    assert max(len(p.json) for p in hook.posts) == 64


@pytest.mark.parametrize("status", [500, 429, "cut"])
def test_outage_is_made_up_for(start, hook, status):
    hook = hook()
    hook.say(status)
    driver = start(config(hook))
    driver.tell(id="a", gpu=0)
    driver.wait_receiver("am", lambda r: r["failed"] >= 1)
    hook.say(200)
    driver.advance(16)
    driver.wait_receiver("am", lambda r: r["sent"] == 1 and r["fine"])
    assert states(hook) == [("0", True)]


def test_refused_alert_comes_again_with_the_next_round_only(start, hook):
    hook = hook()
    hook.say(400)
    driver = start(config(hook))
    driver.tell(id="a", gpu=0)
    driver.wait_receiver("am", lambda r: r["dropped"] == 1)
    driver.advance(30)
    driver.receiver("am")
    assert len(hook.posts) == 1
    hook.say(200)
    driver.advance(31)
    driver.wait_receiver("am", lambda r: r["sent"] == 1)


def test_alert_under_its_old_labels_is_ended_when_they_change(start, hook):
    hook = hook()
    driver = start(config(hook))
    driver.tell(id="a", gpu=0, severity="error", route="ticket")
    driver.heard("am a")
    driver.tell(id="a", gpu=0, severity="fatal", route="page", revision=2, escalations=1)
    hook.wait(2)
    last = hook.posts[1].json
    assert [(a["labels"]["route"], is_firing(a)) for a in last] == [("page", True), ("ticket", False)]
    driver.wait_receiver("am", lambda r: r["sent"] == 2)
    # and back again: the old ones are open once more, and are not ended by what is still told of them
    driver.tell(id="a", gpu=0, severity="error", route="ticket", revision=3, escalations=1)
    hook.wait(3)
    driver.wait_receiver("am", lambda r: r["sent"] == 3)
    driver.advance(61)
    driver.wait_receiver("am", lambda r: r["sent"] >= 4)
    late = [a for p in hook.posts[2:] for a in p.json]
    assert {(a["labels"]["route"], is_firing(a)) for a in late} == {("ticket", True), ("page", False)}


def test_two_that_look_the_same_end_with_the_second(start, hook):
    hook = hook()
    driver = start(config(hook))
    driver.tell(id="a", gpu=0)
    driver.tell(id="b", gpu=0)
    driver.heard("am a", "am b")
    driver.tell(id="a", gpu=0, revision=2, state="cleared")
    driver.wait_outbox(lambda kept: list(kept) == ["am b"])
    assert all(firing for _, firing in states(hook))
    driver.tell(id="b", gpu=0, revision=2, state="cleared")
    driver.wait_outbox(lambda kept: not kept)
    assert states(hook)[-1] == ("0", False)


def test_silenced_is_not_sent_but_what_it_has_is_kept_alive(start, hook):
    hook = hook()
    driver = start(config(hook))
    driver.tell(id="a", gpu=0)
    driver.heard("am a")
    driver.tell(id="a", gpu=0, revision=2, silenced=True, window="w1")
    driver.tell(id="b", gpu=1, silenced=True)
    driver.advance(61)
    driver.wait_receiver("am", lambda r: r["sent"] == 2)
    assert states(hook) == [("0", True), ("0", True)]
    assert hook.alerts()[-1]["annotations"]["maintenance"] == "w1"
    driver.tell(id="b", gpu=1, revision=2)
    driver.tell(id="a", gpu=0, revision=3, silenced=True, state="cleared")
    driver.wait_outbox(lambda kept: list(kept) == ["am b"])
    assert set(states(hook)[2:]) == {("1", True), ("0", False)}


def test_silenced_and_told_stays_alive_over_a_restart(start, hook):
    hook = hook()
    driver = start(config(hook))
    driver.tell(id="a", gpu=0)
    driver.heard("am a")
    driver.end()
    driver = start(config(hook), resume=[{"id": "a", "gpu": 0, "revision": 2, "silenced": True},
                                         {"id": "b", "gpu": 1, "silenced": True}])
    hook.wait(2)
    driver.wait_receiver("am", lambda r: r["sent"] == 1)
    assert states(hook) == [("0", True), ("0", True)]


def test_restart_refreshes_what_is_open_and_ends_what_is_over(start, hook):
    hook = hook()
    driver = start(config(hook))
    for gpu in range(3):
        driver.tell(id=f"i{gpu}", gpu=gpu)
    driver.heard("am i0", "am i1", "am i2")
    driver.kill()
    before = len(hook.alerts())
    driver = start(config(hook), resume=[{"id": "i1", "gpu": 1, "revision": 2}])
    driver.wait_receiver("am", lambda r: r["queued"] == 0)
    driver.wait_outbox(lambda kept: list(kept) == ["am i1"])
    assert sorted(states(hook)[before:]) == [("0", False), ("1", True), ("2", False)]


def test_what_was_over_before_it_could_be_told_is_counted(start, hook):
    hook = hook()
    hook.say(500)
    driver = start(config(hook))
    driver.tell(id="a", gpu=0)
    driver.wait_receiver("am", lambda r: r["failed"] >= 1)
    driver.tell(id="a", gpu=0, revision=2, state="cleared")
    driver.wait_receiver("am", lambda r: r["dropped"] == 1)
    hook.say(200)
    driver.tell(id="b", gpu=1)
    driver.advance(20)
    driver.wait_receiver("am", lambda r: r["sent"] == 1)
    assert states(hook) == [("1", True)]


def test_route_that_is_gone_ends_the_alert(start, hook, tmp_path):
    hook = hook()
    driver = start(config(hook))
    driver.tell(id="a", gpu=0)
    driver.heard("am a")
    (tmp_path / "new.yaml").write_text("alerts:\n" + config(hook, route=", match: {class: x}").replace("\n", "\n  "))
    assert driver.ask("reload", config=str(tmp_path / "new.yaml"))["reloaded"] == 0
    driver.wait_outbox(lambda kept: not kept)
    assert states(hook)[-1] == ("0", False)


def test_url_may_have_a_path(start, hook):
    hook = hook()
    driver = start(f'receivers: {{am: {{alertmanager: {{urls: ["{hook.url}/prefix/"]}}}}}}')
    driver.tell(id="a")
    assert hook.wait()[0].path == "/prefix/api/v2/alerts"


def test_bodies_are_json_whatever_the_texts_hold(start, hook):
    hook = hook()
    driver = start(config(hook))
    driver.tell(id="a", title='quote " backslash \\ newline \n ünï \u0001', verdict="x" * 300, process='a"b')
    alert, = hook.wait()[0].json
    assert alert["annotations"]["summary"] == 'quote " backslash \\ newline \n ünï \u0001'
    assert alert["labels"]["process"] == 'a"b'
    assert json.dumps(alert)
