# SPDX-License-Identifier: Apache-2.0
"""The page over time: the agent goes and comes back, a proxy stands between, a day of events goes by, names are hostile."""
import datetime
import json
import http.client
import time

import pytest
import agent_rig as rig
from agent_rig import until

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\"'&"


def first_tick(agent):
    connection = http.client.HTTPConnection(agent.address, timeout=120)
    connection.request("GET", "/api/v1/stream")
    answer = connection.getresponse()
    while True:
        line = answer.readline()
        if line.startswith(b"data: "):
            connection.close()
            return json.loads(line[6:])


def stale(page):
    return page.js("document.documentElement.dataset.stale") == "yes"


def test_a_restart_of_the_agent_is_survived(visit, played, proxied, stoker, tmp_path):
    node, agent = played("healthy-training")
    proxy = proxied(agent.address)
    page = visit(proxy.url, "#/gpu/1", may_be_cut=True)
    page.until("document.querySelector('#view .chart canvas') !== null")
    assert not stale(page)
    agent.process.kill()
    agent.process.wait()
    page.until("document.documentElement.dataset.stale === 'yes'")
    assert "no contact" in page.text("#verdict-text") and not page.js("document.getElementById('lost').hidden")
    assert "may be wrong by now" in page.text("#lost") and page.js("document.title").startswith("? ")
    first = page.text("#lost")
    page.until(f"document.getElementById('lost').innerText !== {first!r}")  # its age goes on
    again = rig.Agent(stoker, tmp_path, node.env, options=["--journal", "none"])
    try:
        proxy.address = again.address
        page.until("document.documentElement.dataset.stale === 'no' && document.getElementById('lost').hidden")
        page.until("document.getElementById('verdict-text').innerText === 'All healthy'")
        assert page.text("#view .crumbs").endswith("GPU 1")  # where the visitor was
    finally:
        again.stop()


def test_a_proxy_with_a_prefix_that_fails_for_a_while(visit, training, proxied):
    proxy = proxied(training.address, prefix="/gpu/nodes/7/")
    page = visit(proxy.url, may_be_cut=True)
    page.until("document.getElementById('verdict-text').innerText === 'All healthy'")
    for way in ("#/executive", "#/debug", "#/gpu/0"):
        page.go(way)
        page.until("document.querySelector('#view canvas, #view table') !== null")
    assert [s for s in proxy.strays if s != "/favicon.ico"] == []
    proxy.down = True
    for connection in list(proxy.open):
        connection.sock and connection.sock.shutdown(2)
    page.until("document.documentElement.dataset.stale === 'yes'")
    proxy.down = False
    page.until("document.documentElement.dataset.stale === 'no'")


def test_numbers_that_stand_still_do_not_look_fresh(visit, training, proxied):
    """A connection that stays open and says nothing."""
    proxy = proxied(training.address)
    tick, gate = first_tick(training), []

    def some_then_silence():
        for i in range(3):
            yield "tick", {**tick, "tick": tick["tick"] + i}
        until(lambda: gate, "the test is over")

    proxy.stream = some_then_silence
    page = visit(proxy.url, may_be_cut=True)
    page.until("document.documentElement.dataset.stale === 'yes'")
    assert "no contact" in page.text("#verdict-text")
    gate.append(1)


def test_a_look_that_comes_late_takes_nothing_back(visit, training, proxied):
    """An answer that the agent made before an incident opened and that arrives after it: the page goes on telling of the incident."""
    proxy, tick, asked, gate = proxied(training.address), first_tick(training), [], []
    old = training.json("/api/v1/status")[1]
    late = {**old, "node": {**old["node"], "node": {**old["node"]["node"], "hostname": "late"}}}
    for gpu in tick["gpus"]:
        gpu["activity"] = {**gpu["activity"], "word": "unusable"}

    def status(_):
        asked.append(1)
        number = len(asked)
        until(lambda: len(gate) >= min(number, 3) - 1, "the test goes on")
        return late if number == 2 else old

    def stream():
        until(lambda: len(asked) > 1, "the page asks again")
        yield "incident", {"change": "opened", "incident": {
            "id": "1new", "revision": 1, "state": "open", "class": "gpu-lost", "severity": "fatal", "action": "drain-and-reboot", "action_text": "Drain and reboot this node.", "title": "GPU 3 is lost",
            "verdict": "It is lost.", "cause": "bus", "scope": "gpu", "codes": [], "device": {"kind": "gpu", "index": 3}, "opened": tick["time"], "first": tick["time"], "count": 1, "echo_count": 0, "evidence": []}}
        for i in range(1000):
            yield "tick", {**tick, "tick": tick["tick"] + 1000 + i}
            time.sleep(0.1)
            if len(gate) == 2:
                return

    proxy.change["/api/v1/status"], proxy.stream = status, stream
    page = visit(proxy.url, may_be_cut=True)
    page.until("document.getElementById('working-text').innerText.startsWith('0 of 8 working') && document.getElementById('verdict-text').innerText === 'Problem: GPU 3'")
    page.js("window.told = []; new MutationObserver(() => told.push(document.getElementById('hero').innerText)).observe(document.getElementById('hero'), { subtree: true, childList: true, characterData: true })")
    gate.append(1)
    page.until("document.getElementById('host').innerText === 'late'")
    told = page.js("told.filter((text) => !text.includes('Problem: GPU 3') || !text.includes('8 unusable'))")
    gate.append(1)
    assert told == []


LATE = {4, 5, 9}  # ticks whose newest sample is 0.8 s old


def test_a_late_sample_is_no_faster_counter(visit, training, proxied):
    """A counter that grows by 100 MB a second, read sooner in some seconds than in others: its rate is that in all of them."""
    proxy, tick, gate = proxied(training.address), first_tick(training), []
    start = datetime.datetime.fromisoformat(tick["time"].replace("Z", "+00:00"))
    proxy.rewrite = lambda path, told: {**told, "series": []} if "/history" in path else told

    def stream():
        for i in range(14):
            sampled = i - 0.8 if i in LATE else i
            for gpu in tick["gpus"]:
                gpu["metrics"]["stoker_pcie_tx_bytes_total"] = 1e12 + 1e8 * sampled
                gpu["counter_age_seconds"] = {"stoker_pcie_tx_bytes_total": i - sampled}
            yield "tick", {**tick, "tick": tick["tick"] + i, "time": (start + datetime.timedelta(seconds=i)).isoformat().replace("+00:00", "Z")}
        until(lambda: gate, "the test is over")

    proxy.stream = stream
    page = visit(proxy.url, "#/gpu/0", may_be_cut=True)
    page.until("/sent between 100 MB.s and 100 MB.s/.test(document.querySelector('#view .chart[aria-label=PCIe] .uplot')?.getAttribute('aria-label'))")
    gate.append(1)


def test_hostile_names_are_text(visit, training, proxied):
    proxy = proxied(training.address)

    def poison(look):
        look["node"]["node"]["hostname"] = HOSTILE
        for gpu in look["node"]["gpus"]:
            gpu["name"] = gpu["why"] = gpu["activity"]["text"] = HOSTILE
            gpu["verdict"] = {"cause": HOSTILE, "title": HOSTILE, "text": HOSTILE, "share": 1, "window_s": 60, "confidence": HOSTILE, "advice": HOSTILE, "next": HOSTILE}
            gpu["processes"] = [{"pid": 4711, "kind": "compute", "used_bytes": 1 << 30, "name": HOSTILE, "user": HOSTILE, "job": HOSTILE, "container": HOSTILE}]
        look["node"]["holdings"] = [{"gpu": g["index"], "uuid": g["uuid"], "instance": None, "state": HOSTILE, "attribution": HOSTILE, "activity": HOSTILE, "share": 1,
                                     "sm_share": None, "memory_bytes": 1, "processes": [], "owner": {"user": HOSTILE, "text": HOSTILE, "pod": HOSTILE}} for g in look["node"]["gpus"]]
        look["status"] = "failing"
        look["incidents"] = [{"id": "1hostile", "revision": 1, "state": "open", "class": HOSTILE, "severity": "fatal", "action": "reset-gpu", "action_text": HOSTILE,
                              "route": "page", "title": HOSTILE, "verdict": HOSTILE, "runbook": "javascript:alert(1)", "cause": "memory", "scope": "gpu", "codes": [],
                              "device": {"kind": "gpu", "index": 0, "key": HOSTILE}, "process": {"pid": 1, "name": HOSTILE}, "opened": look["node"]["time"], "first": look["node"]["time"],
                              "count": 1, "echo_count": 0, "evidence": [{"origin": "kernel", "at": look["node"]["time"], "code": 1, "echo": False, "text": HOSTILE}],
                              "counters": [{"name": HOSTILE, "before": 1, "after": 2}]}]
        return look

    proxy.change["/api/v1/status"] = poison
    page = visit(proxy.url)
    page.until("document.getElementById('verdict-text').innerText.startsWith('Problem: GPU 0')")
    for way in ("#/", "#/executive", "#/debug", "#/gpu/0", "#/process/4711", "#/incident/1hostile"):
        page.go(way)
        page.until("document.querySelector('#view').innerText.includes('<script>')")
        assert page.js("document.querySelectorAll('#view script, #view img, body img').length") == 0
        assert page.js("[...document.querySelectorAll('a')].every((a) => a.protocol !== 'javascript:')")
        assert "owned" not in page.js("document.title").split("·")[0] or "<script>" in page.js("document.title")
    page.until("document.querySelector('h1').innerText.includes('<script>')")


DAY_S, STEP_S, PART = 24 * 3600, 90, 400


def a_day(tick, incident, clock):
    """What a stream says of a day in which something happens every minute and a half: 960 ticks and events, 80 incidents that open and clear."""
    start = datetime.datetime.fromisoformat(tick["time"].replace("Z", "+00:00"))
    for i in range(DAY_S // STEP_S):
        now = (start + datetime.timedelta(seconds=i * STEP_S)).isoformat().replace("+00:00", "Z")
        clock["now"], clock["i"] = now, i
        yield "tick", {**tick, "tick": tick["tick"] + i, "time": now}
        yield "event", {"kind": "xid", "time": now, "origin": "kernel", "code": 31, "pci": f"0000:00:{i}", "gpu": i % 2, "text": f"event number {i}", "incident": None, "word": None}
        if i % 12 == 0:
            one = {**incident, "id": f"1day{i:05d}", "revision": 1, "state": "open", "opened": now, "first": now}
            yield "incident", {"change": "opened", "incident": one}
        if i % 12 == 6:
            yield "incident", {"change": "cleared", "incident": {**incident, "id": f"1day{i - 6:05d}", "revision": 2, "state": "cleared", "opened": now, "first": now, "cleared": now, "ended_by": "quiet"}}


@pytest.mark.slow("a day of events")
def test_a_day_of_events_does_not_make_it_grow(visit, training, proxied):
    proxy, tick, clock, sizes = proxied(training.address), first_tick(training), {}, []
    tick["gpus"] = tick["gpus"][:2]
    incident = {"class": "app-fault", "severity": "warning", "action": "check-app", "action_text": "Check the program and its input", "route": "user", "title": "XID 31 on GPU 0", "verdict": "", "cause": "application", "scope": "gpu",
                "codes": [31], "device": {"kind": "gpu", "index": 0, "key": "k"}, "count": 1, "echo_count": 0, "evidence": [{"origin": "kernel", "at": tick["time"], "code": 31, "echo": False, "text": "a line"}], "counters": []}
    passed = []

    def look(answer):
        answer["node"]["gpus"] = answer["node"]["gpus"][:2]
        answer["node"].update(tick=tick["tick"] + clock.get("i", 0), time=clock.get("now", tick["time"]))
        return answer

    def in_parts():
        for i, one in enumerate(a_day(tick, incident, clock)):
            if i and i % PART == 0:
                target = len(passed) + 1
                until(lambda n=target: len(passed) >= n, "the page was looked at")
            yield one
        until(lambda: len(passed) >= 99, "the test is over")

    proxy.change["/api/v1/status"] = look
    proxy.change["/api/v1/events"] = lambda _: {"events": [], "next": 0}
    proxy.stream = in_parts
    page = visit(proxy.url, may_be_cut=True)
    ticks = DAY_S // STEP_S
    parts = (ticks * 2 + ticks // 6) // PART
    for part in range(parts + 1):
        last = min((part + 1) * PART // 13 * 6, ticks) - 8  # of thirteen things six are events
        page.until(f"document.querySelector('.events li')?.innerText.match(/number (\\d+)/)?.[1] >= {last - 6}")
        page.browser.frame()
        sizes.append(page.weight())
        passed.append(1)
    assert len(sizes) >= 4
    nodes, listeners, heap = zip(*sizes[2:])  # its lists are full by then: 500 events are kept
    assert max(nodes) <= 1.15 * nodes[0] + 50, sizes
    assert max(listeners) <= listeners[0] + 10, sizes
    assert heap[-1] <= 1.15 * heap[0] + 1_000_000, sizes
    passed.extend([1] * 99)


WAYS = ("#/gpu/1", "#/executive", "#/debug", "#/")
ROUNDS, CUTS = 7, 4


@pytest.mark.slow("hundreds of views, and lost connections")
def test_going_to_and_fro_and_lost_connections_leave_nothing_behind(visit, training, proxied):
    proxy = proxied(training.address)
    page = visit(proxy.url, may_be_cut=True)
    weights = []
    for _ in range(ROUNDS):
        for way in WAYS:
            page.go(way)
            page.until("document.querySelector('#view canvas, #view table') !== null")
        weights.append(page.weight())
    nodes, listeners, heap = weights[2]  # what is kept for each view is there by then

    def is_light(weight):
        return weight[0] <= 1.1 * nodes + 50 and weight[1] <= listeners + 10 and weight[2] <= 1.15 * heap + 1_000_000

    # the lightest of the last rounds: answers that are on their way weigh, in a round or another
    assert is_light([min(values) for values in zip(*weights[-3:])]), weights
    for _ in range(CUTS):
        page.js("window.was = document.getElementById('contact').innerText")
        for connection in list(proxy.open):
            connection.sock and connection.sock.shutdown(2)
        page.until("document.getElementById('contact').innerText !== window.was && document.getElementById('contact').dataset.state === 'live'")
    # what was missed is being fetched: its answers weigh until they are taken
    until(lambda: is_light(page.weight()), lambda: (weights, page.weight()))


def test_the_last_test_of_a_gpu(visit, training, proxied):
    """What `stoker bench` found of it last, and when; nothing of a GPU that was never tested."""
    proxy, uuids = proxied(training.address), [gpu["uuid"] for gpu in training.gpus()]
    told = {"rung": "ready", "time": training.json("/api/v1/status")[1]["node"]["time"], "gpus": [{"uuid": uuid, "verdict": "not-fit" if uuid == uuids[1] else "fit"} for uuid in uuids[:2]],
            "findings": [{"gpus": [1], "severity": "fault", "text": "GPU 1: SM 17 computes wrong values."}, {"gpus": [1], "severity": "notice", "text": "older"}, {"gpus": [], "severity": "notice", "text": "node"}]}
    proxy.change["/api/v1/bench"] = lambda _: told
    page = visit(proxy.url, "#/gpu/1")
    fact = "[...document.querySelectorAll('.fact')].find((e) => e.innerText.startsWith('{}'))?.innerText"
    page.until(f"/not fit, .*\\(stoker bench ready\\)/.test({fact.format('Last test')})")
    page.until(f"{fact.format('Its worst finding')}.includes('SM 17 computes wrong values. And 1 more.')")
    page.go("#/gpu/0")
    page.until(f"/^Last test\\s+fit, /.test({fact.format('Last test')})")
    assert page.js(f"{fact.format('Its worst finding')} === undefined")
    page.go("#/gpu/2")
    page.until(f"{fact.format('UUID')}?.includes('{uuids[2]}')")
    assert page.js(f"{fact.format('Last test')} === undefined")
