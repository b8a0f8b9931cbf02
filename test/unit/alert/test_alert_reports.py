# SPDX-License-Identifier: Apache-2.0
"""Reports of jobs that have ended: which webhook gets them, and what outages, kills and bounds do to them."""
import json
import re
import threading
from pathlib import Path

import pytest
from alert_rig import PATIENCE

DOCS = (Path(__file__).resolve().parents[3] / "docs" / "alerts.md").read_text()
REPORT = {"version": 1, "id": "r1", "kind": "job", "job": "4711", "gpus": [{"gpu": 0, "energy_j": 1.5}], "notes": ["never used \"it\""]}


def config(hook, more="", keep="1d", reports="job_reports: [bills]"):
    return f"""
receivers:
  bills:
    keep: {keep}
    webhook: {{url: "{hook.url}/jobs"{more}}}
routes: []
{reports}
"""


def report(driver, name="r1", **more):
    driver.do("report", id=name, json=json.dumps({**REPORT, "id": name}), **more)


def names(posts):
    return [p.json["report"]["id"] for p in posts]


def test_report_is_sent_once_with_everything_in_it(start, hook, tmp_path):
    hook, other = hook(), hook()
    (tmp_path / "secret").write_text("s3cret\n")
    driver = start(f"""
receivers:
  bills: {{webhook: {{url: "{hook.url}/jobs", secret_file: secret}}}}
  pager: {{webhook: "{other.url}"}}
job_reports: [bills]
routes: [{{receiver: pager}}]
""")
    report(driver)
    report(driver)
    post, = hook.wait()
    driver.wait_outbox(lambda kept: not kept)
    assert post.path == "/jobs" and post.headers["Idempotency-Key"] == "job-r1"
    assert post.json == {"version": 2, "receiver": "bills", "key": "job-r1", "hostname": "node7", "change": "job-ended",
                         "url": "http://node7:9400/api/v1/jobs/r1", "report": REPORT}
    documented = {}
    exec(re.search(r"^```python\n(.*?)^```", DOCS, re.M | re.S)[1], documented)  # pylint: disable=exec-used
    assert documented["is_genuine"](b"s3cret", post.headers["X-Stoker-Signature"], post.body, patience=3600)
    driver.tell(id="a")
    other.wait()
    driver.end(grace_ms=10000)
    assert names(hook.posts) == ["r1"] and [p.json["change"] for p in other.posts] == ["opened"]


def test_it_is_tried_again_until_it_is_there(start, hook):
    hook = hook()
    hook.say(503)
    driver = start(config(hook))
    report(driver)
    hook.wait(1)
    assert driver.wait_receiver("bills", lambda r: r["failed"] == 1)["queued"] == 1
    hook.say(200)
    driver.advance(2)
    hook.wait(1, lambda p: p.status == 200)
    driver.wait_outbox(lambda kept: not kept)
    assert driver.wait_receiver("bills", lambda r: r["sent"] == 1)["dropped"] == 0
    assert {p.headers["Idempotency-Key"] for p in hook.posts} == {"job-r1"}


@pytest.mark.parametrize("status, kept", [(400, False), (404, False), (401, True), (429, True), (500, True)])
def test_what_an_answer_means(start, hook, status, kept):
    hook = hook()
    hook.say(status)
    driver = start(config(hook))
    report(driver)
    hook.wait(1)
    state = driver.wait_receiver("bills", lambda r: r["failed"] == 1)
    assert (state["dropped"], state["queued"]) == (0 if kept else 1, 1 if kept else 0)
    assert bool(driver.wait_outbox(lambda found: bool(found) == kept)) == kept


def test_kill_loses_none(start, hook):
    """The same key again where the answer was lost with the process."""
    hook = hook()
    hook.say("hang")
    driver = start(config(hook))
    report(driver, "r1")
    report(driver, "r2")
    hook.wait(1)
    driver.wait_outbox(lambda kept: len(kept) == 2)
    driver.kill()
    hook.say(200)
    driver = start(config(hook))
    hook.wait(2, lambda p: p.status == 200)
    driver.wait_outbox(lambda kept: not kept)
    assert sorted(names(hook.delivered())) == ["r1", "r2"] and hook.delivered()[0].json["report"] == {**REPORT, "id": "r1"}


def test_another_receiver_of_the_name_gets_none(start, hook):
    hook = hook()
    hook.say("hang")
    driver = start(config(hook))
    report(driver)
    hook.wait(1)
    driver.wait_outbox(lambda kept: len(kept) == 1)
    driver.kill()
    driver = start(f"""
receivers: {{bills: {{alertmanager: {{urls: ["{hook.url}"]}}}}}}
routes: []
""")
    driver.wait_outbox(lambda kept: not kept)
    driver.end(grace_ms=10000)
    assert len(hook.posts) == 1


def test_only_what_is_older_than_keep_is_given_up(start, hook):
    hook = hook()
    hook.down()
    driver = start(config(hook, keep="1h"))
    report(driver, "old", ended_ago_s=3500)
    report(driver, "new")
    driver.wait_receiver("bills", lambda r: r["failed"] >= 1)
    driver.advance(200)
    assert driver.wait_receiver("bills", lambda r: r["dropped"] == 1)["queued"] == 1
    assert driver.said("waited for too long (keep)")
    hook.up()
    driver.advance(400)
    hook.wait(1)
    driver.wait_outbox(lambda kept: not kept)
    assert names(hook.delivered()) == ["new"]


def test_they_are_bounded_and_the_newest_stay(start, hook):
    hook = hook()
    hook.down()
    driver = start(config(hook))
    for i in range(260):
        report(driver, f"r{i}")
    state = driver.wait_receiver("bills", lambda r: r["dropped"] == 4)
    assert state["queued"] == 256 and len(driver.outbox()) == 256
    hook.up()
    driver.advance(400)
    driver.wait_outbox(lambda kept: not kept)
    assert set(names(hook.delivered())) >= {f"r{i}" for i in range(5, 260)}


def test_reports_hold_up_no_incident(start, hook):
    hook, gate = hook(), threading.Event()
    hook.status = lambda path, body: 200 if b'"report"' not in body or gate.wait(PATIENCE) else 500
    driver = start(config(hook).replace("routes: []", "routes: [{receiver: bills}]"))
    for i in range(8):
        report(driver, f"r{i}")
    driver.tell(id="a")
    hook.wait(1, lambda p: "incident" in p.json)
    assert not [p for p in hook.posts if "report" in p.json]
    gate.set()
    hook.wait(8, lambda p: "report" in p.json)


def test_reload(start, hook, tmp_path):
    one, two = hook(), hook()
    one.down()
    driver = start(config(one))
    report(driver)
    driver.wait_receiver("bills", lambda r: r["failed"] >= 1)
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("alerts:\n  receivers: {log: {journald: }}\n  job_reports: [log]\n")
    assert driver.ask("reload", config=str(wrong))["reloaded"] < 0
    fresh = tmp_path / "fresh.yaml"
    fresh.write_text(f"alerts: {{receivers: {{bills: {{webhook: '{two.url}'}}}}, job_reports: bills}}\n")
    assert driver.ask("reload", config=str(fresh))["reloaded"] == 0
    two.wait()  # goes on under its name, at the new place
    two.down()
    report(driver, "r2")
    driver.wait_outbox(lambda kept: "bills job-r2" in kept)
    none = tmp_path / "none.yaml"
    none.write_text("alerts: {receivers: {log: {journald: }}}\n")
    assert driver.ask("reload", config=str(none))["reloaded"] == 0
    driver.wait_outbox(lambda kept: not kept)
    report(driver, "r3")
    assert driver.outbox() == {}
