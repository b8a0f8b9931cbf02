# SPDX-License-Identifier: Apache-2.0
"""The scenes of docs/scenes.md: what a reader should see at once is there, and no face contradicts another. And the page on the
scenario library: it opens on each, and what is planted stands first, with what to do; STOKER_ALL_SCENES=1 plays the whole library."""
import os
import pathlib
import sys

import pytest
import yaml
import faces
import scenes

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))
import trial  # noqa: E402

CLASSES = yaml.safe_load((ROOT / "data/faults/classes.yaml").read_text())["classes"]
ALL = bool(os.environ.get("STOKER_ALL_SCENES"))
PLANTED = [t for t in trial.TRIALS if t.fault and (ALL or t.name in ("power-brake", "xid-31-app-fault"))]
# What it must cope with: other boards, no rights.
OPENED = ["healthy-mixed-boards", "access-lost"]
LIBRARY = sorted(p.stem for p in (ROOT / "sim/data/scenarios").glob("*.yaml"))


def options(speed):
    return ["--clock-speed", speed, "--sample-fast", "1s", "--sample-normal", "2s", "--sample-slow", "5s", "--sample-blocking", "60s"]


HITS = ("xid-79-lost", "power-brake")  # their work is told, which the agent has to have seen before


def pace(one):
    """Slower where ten quiet minutes end the incident, or work has to be seen before: a busy machine takes its time for page and agent."""
    return min(one.speed, 5) if CLASSES[one.fault]["clear"] == "quiet" or one.name in HITS else one.speed


def test_the_document_has_every_scene_and_its_pictures():
    assert list(scenes.sentences()) == list(scenes.SCENES)
    text, drawn = scenes.DOCUMENT.read_text(), {f"{name}-{width}-{theme}.webp" for name in scenes.SCENES for width in scenes.SIZES for theme in scenes.THEMES}
    assert all(f"(pictures/scenes/{name})" in text for name in drawn)
    assert {p.name for p in scenes.PICTURES.glob("*")} == drawn | {"incident.webp"}


SLOW = ("neighbour", "hang", "no-driver", "day")


def beside_its_tick(face, ticks):
    """The face, and what it says otherwise than each tick that it may be of."""
    wrong = [faces.differences(face, tick) for tick in ticks.of(face)]
    return wrong and (face, wrong)


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow("one more scene") if name in SLOW else ()) for name in scenes.SCENES])
def test_what_a_reader_should_see_at_once(visit, tmp_path, stoker, name):
    """At three widths, without scrolling. And what the faces say of one second is the same."""
    parts = scenes.sentences()[name]
    with scenes.played(stoker, tmp_path, name) as (agent, url):
        ticks, page = faces.Ticks(agent.address), visit(url, may_be_cut=True)
        for width, height in scenes.SIZES.items():
            page.look(width, height)
            scenes.rig.until(lambda: not scenes.unseen(page, parts), lambda: f"{width}: {scenes.unseen(page, parts)}")
        page.look(1400, 900)
        if name == "sixteen":
            assert page.js("[...document.querySelectorAll('.rows tr.gpu')].every((row) => row.getBoundingClientRect().bottom <= 900)")
        page.go("#/")
        verdicts = set()
        for look in (faces.status, faces.top, faces.metrics, lambda _: faces.page(page)):
            face, wrong = scenes.rig.until(lambda: beside_its_tick(look(agent), ticks), "a tick that was not missed")
            assert [] in wrong, (look, wrong)
            verdicts.add(face.get("verdict"))
        assert len(verdicts - {None}) == 1, verdicts
        page.browser.open("about:blank")  # before the agent goes


@pytest.mark.parametrize("one", PLANTED, ids=[t.name for t in PLANTED])
def test_what_is_planted_stands_first(visit, played, tmp_path, stoker, one):
    scene = tmp_path / f"{one.name}.yaml"
    scene.write_text(yaml.safe_dump(trial.brought_forward(one)))
    _, agent = played(scene, speed=pace(one), options=options(pace(one)), ready=False)
    page = visit(f"http://{agent.address}/", may_be_cut=True)  # twenty ticks a second may be more than it takes
    fault = CLASSES[one.fault]
    title = one.thing if fault["cause"] != "application" else "a program on " + one.thing
    page.until(f"document.getElementById('verdict-text').innerText.startsWith('Problem: {title.replace(' on the node', '').removeprefix('the ')}')")
    main = "document.getElementById('hero')"
    page.until(f"{main}.querySelector('a[href*=\"runbooks/\"]')?.getAttribute('href') === 'runbooks/{one.fault}'")
    told = " ".join(page.text("#hero").split())
    assert fault["advice"][:40] in told and page.js(f"{main}.getBoundingClientRect().bottom") < 300
    page.until(f"{main}.dataset.tone === '{'warning' if fault['severity'] == 'warning' else 'wrong'}'")
    if one.name in HITS:
        page.until("/^Hits (job|pod|python) .*Since /.test(document.getElementById('hit').innerText)")
    wrong = page.js("[...document.querySelectorAll('.rows tbody[data-severity]')].map((e) => e.dataset.gpu)")
    assert wrong == ([one.thing] if one.thing.startswith("GPU") and fault["cause"] != "application" else [])
    if one.down == 1:  # with the next tick
        page.until(f"/^No data for .* Last seen .*GiB/.test(document.querySelector(\".rows tbody[data-gpu='{one.thing}'] .c-down\").innerText)")
    action = page.text("#todo-text")
    page.click("#todo-text")  # the story is one click away
    page.until("document.querySelector('#evidence-h') !== null && document.querySelectorAll('#view table tbody tr').length > 0")
    assert action.lower() in page.text(".story").lower()


def test_an_incident_is_a_story(visit, played, tmp_path):
    """Of a GPU that was lost: whom it hit, its last values, the minutes around it with its peers, each piece of evidence once, and a text for a ticket."""
    one = next(t for t in trial.TRIALS if t.name == "xid-79-lost")
    scene = tmp_path / "lost.yaml"
    scene.write_text(yaml.safe_dump(trial.brought_forward(one) | {"at": []}))
    node, agent = played(scene, speed=one.speed, options=options(one.speed))
    page = visit(f"http://{agent.address}/", may_be_cut=True, width=390, height=844)
    scenes.rig.until(lambda: [gpu["activity"]["word"] for gpu in agent.gpus()] == ["working"] * 8, agent.log_text)  # who waits later is known by it
    node.inject("xid", "79", "gpu=3")
    page.until("document.querySelector('.rows .fold')?.innerText === 'GPU 3' && /^No data for [^:]*$/.test(document.querySelector('.rows .c-down').innerText)")  # on a phone it stands first
    page.click(".rows .fold")
    page.until("/it fell off the bus.* Last seen/.test(document.querySelector('.detail').innerText)")
    page.look(1400, 900)
    page.click("#todo-text")
    page.until("document.querySelector('.story h2')?.innerText === 'GPU 3 has fallen off the bus'")
    page.until("document.querySelector('.story').innerText.includes('job 4712 of alice: 7 GPUs wait for GPU 3')")
    page.until("/Last seen .*: .*GiB, .*°C, .* W/.test(document.querySelector('.story').innerText)")
    page.until("document.querySelector('.gpu-legend [aria-pressed=true]')?.innerText === 'GPU 3'")
    what = "[...document.querySelectorAll('[aria-label=Evidence] tbody td:nth-child(3)')].map((td) => td.innerText)"
    page.until(f"document.querySelector('[aria-label=Evidence]').innerText.includes('repeated ')")
    evidence = page.js(what)
    assert len(evidence) == len(set(evidence)) and any("79" in line for line in evidence)
    page.js("document.execCommand = (what) => { window.copied = document.activeElement.value; return what === 'copy'; }")
    page.click(".story button")
    page.until("document.querySelector('.story button').innerText === 'Copied'")
    ticket = page.js("window.copied")
    for text in ("[fatal] GPU 3", "Do: Drain and reboot this node.", "Hits: job 4712 of alice", "Last seen", "Timeline:", "runbooks/gpu-lost"):
        assert text in ticket, ticket


def test_what_could_be_better_stands_below_the_verdict(visit, played):
    _, agent = played("idle-holding-memory", speed=20, options=options(20))
    page = visit(f"http://{agent.address}/", may_be_cut=True)
    page.until("/^frank holds 2 GPUs idle for /.test(document.querySelector('#notices li a')?.innerText)")
    assert page.js("document.querySelectorAll('#notices li').length") == 1 and "GPU 2, 3." in page.text("#notices")
    page.go("#/jobs")
    page.until("document.querySelector('[aria-label=\"Who has GPUs now\"]')?.innerText.includes('pod jupyter/frank')")
    page.click("[aria-label='Who has GPUs now'] tbody a[href*='4715']")
    page.until("document.querySelector('#job-h')?.innerText === 'job 4715 of alice' && document.querySelectorAll('.rows tr.gpu').length === 4")
    page.until("document.querySelectorAll('.gpu-legend button').length === 4")


def test_waste_has_a_price(visit, training, proxied):
    """Of the jobs that have one: what did not work of the last day, by user and in money, and what ended among the jobs."""
    proxy = proxied(training.address)
    ended = {"id": "aa", "state": "ended", "user": "carol", "job": "99", "seen_until": training.json("/api/v1/status")[1]["node"]["time"], "elapsed_s": 7200, "gpu_hours": 16, "cost": 48, "priced_s": 57600,
             "currency": "EUR", "sm_active": 0.4, "verdicts": [{"cause": "input", "share": 0.25}, {"cause": "idle_held", "share": 0.25}, {"cause": "tensor_cores", "share": 0.5}], "gpus": [{"gpu": 0}], "notes": ["a note"]}
    proxy.change["/api/v1/jobs"] = lambda told: {**told, "jobs": [ended]}
    page = visit(proxy.url, "#/executive")
    page.until("document.querySelector('.ranking')?.innerText.replaceAll('\\n', ' ') === 'carol 8 h, 24 EUR'")
    page.until("document.querySelector('.sentence').innerText.includes('at 3 EUR a GPU hour')")
    page.go("#/jobs")
    page.until("document.querySelector('[aria-label=Ended]')?.innerText.includes('48 EUR')")
    page.click("[aria-label=Ended] a")
    page.until("document.querySelector('#job-h')?.innerText === 'job 99' && document.querySelector('#view .plain')?.innerText === 'a note'")


@pytest.mark.parametrize("name", LIBRARY if ALL else OPENED)
def test_it_opens(visit, played, name):
    _, agent = played(name, ready=False)
    page = visit(f"http://{agent.address}/")
    page.until("document.getElementById('verdict-text').innerText !== 'Connecting …'")
    for way in ("#/jobs", "#/topology", "#/executive", "#/debug", "#/gpu/0", "#/"):
        page.go(way)
        page.until("document.querySelector('#view').innerText.length > 40")
        assert "NaN" not in page.text("#view") and "undefined" not in page.text("#view") and "[object" not in page.text("#view")
        assert page.js("document.documentElement.scrollWidth") <= 1400


def test_what_is_not_there_says_why(visit, played):
    """A T4 has no SM active, a GPU that is split has no utilisation: neither is a zero."""
    _, agent = played("page-retirement-t4")
    page = visit(f"http://{agent.address}/")
    page.until("document.querySelector('.bar-cell[data-kind=util] .bar-value')?.innerText.endsWith('util.')")  # the other measure, by its name
    page.click(".rows .fold")
    page.until("document.querySelector('.detail .fact .absent') !== null")
    assert "does not have it" in page.text(".detail .fact dd") and "0 %" not in page.text(".detail .fact dd")
    _, agent = played("mig-balanced")
    page = visit(f"http://{agent.address}/")
    page.click(".rows .fold")
    page.until("document.querySelector('.detail .fact:nth-child(2) .absent')?.innerText.includes('MIG')")


def test_small_kernels_are_no_work(visit, played):
    _, agent = played("tiny-kernels")
    page = visit(f"http://{agent.address}/")
    page.until("[...document.querySelectorAll('.rows .state')].some((e) => e.innerText.endsWith('waiting: launches'))")
    assert "2 waiting" in page.text("#working-text")
    # both in one, and none of those that work
    page.until("document.querySelectorAll('#notices li').length === 1 && document.querySelector('#notices a').innerText.includes('2 GPUs')")
    assert page.text("#notices p").startswith("GPU 0, 1. Launch less and more")
    page.go("#/gpu/0")
    page.until("document.querySelector('.verdict')?.innerText.includes('confidence high')")
    page.go("#/gpu/5")  # works well: what it does is said, and nothing to do
    page.until("document.querySelector('.verdict')?.innerText.includes('tensor cores')")
    assert "Do:" not in page.text(".verdict")
    page.until("/Roof \\(estimate\\): about [\\d.]+ TFLOP\\/s .*of memory/.test(document.querySelector('.verdict').innerText)")


def test_sharers_have_their_part_each(visit, training, proxied):
    """Two pods on one GPU: on no view do both have the whole of it, and each number says where it is from."""
    proxy = proxied(training.address)

    def share(look):
        gpu = look["node"]["gpus"][0]
        base = {"gpu": gpu["index"], "uuid": gpu["uuid"], "instance": None, "state": "used", "activity": "working", "sm_share": None, "processes": []}
        empty = dict.fromkeys(("user", "job", "account", "namespace", "container", "process", "pid"))
        look["node"]["holdings"] = [one for one in look["node"].get("holdings", []) if one["uuid"] != gpu["uuid"]] + [
            base | {"owner": empty | {"pod": pod, "text": f"pod ml/{pod}"}, "attribution": "sampled", "share": part, "memory_bytes": memory << 30}
            for pod, part, memory in (("chat-0", 0.75, 20), ("tune-1", 0.25, 10))]
        return look

    proxy.change["/api/v1/status"] = share
    page = visit(proxy.url)
    page.until("document.querySelector('.rows tbody .c-who')?.innerText.includes('pod ml/chat-0 75 % (sampled), pod ml/tune-1 25 % (sampled)')")
    page.go("#/gpu/0")
    page.until("document.querySelector('[aria-label=Owners] tbody tr:nth-child(2)') !== null")
    rows = page.js("[...document.querySelectorAll('[aria-label=Owners] tbody tr')].map((r) => [...r.children].map((c) => c.innerText))")
    assert [(r[0], r[3], r[4]) for r in rows] == [("pod ml/chat-0", "75 %", "sampled"), ("pod ml/tune-1", "25 %", "sampled")]
    page.go("#/jobs")
    page.until("document.querySelector('[aria-label=\"Who has GPUs now\"]')?.innerText.includes('pod ml/tune-1')")
    rows = page.js("[...document.querySelectorAll('[aria-label=\"Who has GPUs now\"] tbody tr')].map((r) => [...r.children].map((c) => c.innerText))")
    parts = {r[0]: " ".join(r[1:]) for r in rows}
    for pod, part in (("pod ml/chat-0", "0.75"), ("pod ml/tune-1", "0.25")):
        assert f"GPU 0 {part} in all" in " ".join(parts[pod].split()) and "sampled" in parts[pod], parts


def test_the_way_down_to_an_instance_and_a_process(visit, played):
    _, agent = played("mig-balanced")
    page = visit(f"http://{agent.address}/")
    page.until("document.querySelectorAll('.rows .instance a').length > 0")
    page.click(".rows .instance a")
    page.until("location.hash.includes('/mig/') && document.querySelector('#mig-h') !== null")
    page.until("document.querySelectorAll('#view .chart canvas').length > 0")
    gpu = page.js("location.hash.split('/mig/')[0]")
    page.go(gpu)
    page.until("[...document.querySelectorAll('.fact')].some((fact) => fact.textContent === 'MIGon, 3g.40gb+2g.20gb+2x1g.10gb')")
    page.until("document.querySelector('#view td a[href^=\"#/process/\"], #view th a[href^=\"#/process/\"]') !== null")
    page.click("#view th a[href^='#/process/']")
    page.until("document.querySelector('#process-h') !== null && document.querySelector('#view table a[href^=\"#/gpu/\"]') !== null")
