# SPDX-License-Identifier: Apache-2.0
"""The page on the scenario library: it opens on each, and what is planted stands first, with what to do. Here a choice of them;
STOKER_ALL_SCENES=1 plays the whole library."""
import os
import pathlib
import sys

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))
import trial  # noqa: E402

CLASSES = yaml.safe_load((ROOT / "data/faults/classes.yaml").read_text())["classes"]
ALL = bool(os.environ.get("STOKER_ALL_SCENES"))
PLANTED = [t for t in trial.TRIALS if t.fault and (ALL or t.name in ("xid-79-lost", "power-brake", "xid-31-app-fault", "mig-56-devices"))]
# What it must cope with: other boards, nobody at work, no driver, no rights.
OPENED = ["healthy-mixed-boards", "idle-holding-memory", "access-lost", "driver-unloaded"]
LIBRARY = sorted(p.stem for p in (ROOT / "sim/data/scenarios").glob("*.yaml"))


def options(speed):
    return ["--clock-speed", speed, "--sample-fast", "1s", "--sample-normal", "2s", "--sample-slow", "5s", "--sample-blocking", "60s"]


def pace(one):
    """Slower where ten quiet minutes end the incident: they have to be longer than a busy machine takes for the page."""
    return min(one.speed, 5) if CLASSES[one.fault]["clear"] == "quiet" else one.speed


@pytest.mark.parametrize("one", PLANTED, ids=[t.name for t in PLANTED])
def test_what_is_planted_stands_first(visit, played, tmp_path, stoker, one):
    scene = tmp_path / f"{one.name}.yaml"
    scene.write_text(yaml.safe_dump(trial.brought_forward(one)))
    _, agent = played(scene, speed=pace(one), options=options(pace(one)), ready=False)
    page = visit(f"http://{agent.address}/", may_be_cut=True)  # twenty ticks a second may be more than it takes
    fault = CLASSES[one.fault]
    title = one.thing if fault["cause"] != "application" else "a program on " + one.thing
    page.until(f"document.getElementById('verdict-text').innerText.startsWith('Problem: {title.replace(' on the node', '').removeprefix('the ')}')")
    first, top = page.until("((i) => i?.querySelector('.links a[href*=\"runbooks/\"]')?.getAttribute('href') === "
                            f"'runbooks/{one.fault}' && [i.innerText, i.getBoundingClientRect().top])(document.querySelector('.incident'))")
    assert first.startswith(fault["severity"]) and fault["advice"][:40] in " ".join(first.split())
    assert top < 500
    thing, action = page.text("#todo-text").split(": ", 1)
    assert thing.split()[0] in one.thing + "a" and action in " ".join(first.split()).replace("Do ", "").lower() or action.lower() in first.lower()
    wrong = page.js("[...document.querySelectorAll('.card[data-severity]')].map((e) => e.getAttribute('aria-label'))")
    assert wrong == ([one.thing] if one.thing.startswith("GPU") and fault["cause"] != "application" else [])
    if one.down == 1:
        page.until(f"document.querySelector(\".card[aria-label='{one.thing}']\").innerText.includes('No number of it is shown')")  # with the next tick
    page.click("#todo-text a")  # the evidence is one click away
    page.until("document.querySelector('#evidence-h') !== null && document.querySelectorAll('#view table tbody tr').length > 0")


@pytest.mark.parametrize("name", LIBRARY if ALL else OPENED)
def test_it_opens(visit, played, name):
    _, agent = played(name, ready=False)
    page = visit(f"http://{agent.address}/")
    page.until("document.getElementById('verdict-text').innerText !== 'looking …'")
    for way in ("#/executive", "#/debug", "#/gpu/0", "#/"):
        page.go(way)
        page.until("document.querySelector('#view').innerText.length > 40")
        assert "NaN" not in page.text("#view") and "undefined" not in page.text("#view") and "[object" not in page.text("#view")
        assert page.js("document.documentElement.scrollWidth") <= 1400


def test_what_is_not_there_says_why(visit, played):
    """A T4 has no SM active, a GPU that is split has no utilisation: neither is a zero."""
    _, agent = played("page-retirement-t4")
    page = visit(f"http://{agent.address}/")
    page.until("document.querySelector('.busy-row[data-kind=sm] .absent') !== null")
    assert "not" in page.text(".busy-row[data-kind=sm]") and "0 %" not in page.text(".busy-row[data-kind=sm]")
    _, agent = played("mig-balanced")
    page = visit(f"http://{agent.address}/")
    page.until("document.querySelector('.busy-row[data-kind=util] .absent') !== null")
    assert "MIG" in page.text(".busy-row[data-kind=util]")


def test_small_kernels_are_no_work(visit, played):
    _, agent = played("tiny-kernels")
    page = visit(f"http://{agent.address}/")
    page.until("[...document.querySelectorAll('.card .chip')].some((e) => e.innerText === 'waiting: launches')")
    assert "2 waiting" in page.text("#working-text")
    page.until("document.querySelector('#idle .incident p')?.innerText.startsWith('100 % busy by utilisation, yet nearly idle')")
    # both in one, and none of those that work
    page.until("[...document.querySelectorAll('#idle .incident-title')].map((e) => e.innerText.split(':')[0]).join('|') === 'GPU 0, 1'")
    assert page.js("document.querySelector('#idle .do').innerText").split()[1:5] == ["Launch", "less", "and", "more"]
    page.go("#/gpu/0")
    page.until("document.querySelector('.verdict')?.innerText.includes('confidence high')")
    page.go("#/gpu/5")  # works well: what it does is said, and nothing to do
    page.until("document.querySelector('.verdict')?.innerText.includes('tensor cores')")
    assert not page.js("document.querySelector('.verdict .do').checkVisibility()")


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
    page.until("document.querySelector('.card')?.innerText.includes('pod ml/chat-0 75 % (sampled), pod ml/tune-1 25 % (sampled)')")
    page.go("#/gpu/0")
    page.until("document.querySelector('[aria-label=Owners] tbody tr:nth-child(2)') !== null")
    rows = page.js("[...document.querySelectorAll('[aria-label=Owners] tbody tr')].map((r) => [...r.children].map((c) => c.innerText))")
    assert [(r[0], r[3], r[4]) for r in rows] == [("pod ml/chat-0", "75 %", "sampled"), ("pod ml/tune-1", "25 %", "sampled")]
    page.go("#/executive")
    page.until("document.querySelector('[aria-label=\"Who has what\"]')?.innerText.includes('pod ml/tune-1')")
    rows = page.js("[...document.querySelectorAll('[aria-label=\"Who has what\"] tbody tr')].map((r) => [...r.children].map((c) => c.innerText))")
    parts = {r[0]: (r[1], r[5]) for r in rows}
    assert parts["pod ml/chat-0"] == ("0.75", "sampled") and parts["pod ml/tune-1"] == ("0.25", "sampled")


def test_the_way_down_to_an_instance_and_a_process(visit, played):
    _, agent = played("mig-balanced")
    page = visit(f"http://{agent.address}/")
    page.until("document.querySelectorAll('.instances a').length > 0")
    page.click(".instances a")
    page.until("location.hash.includes('/mig/') && document.querySelector('#mig-h') !== null")
    page.until("document.querySelectorAll('#view .chart canvas').length > 0")
    gpu = page.js("location.hash.split('/mig/')[0]")
    page.go(gpu)
    page.until("[...document.querySelectorAll('.fact')].some((fact) => fact.textContent === 'MIGon, 3g.40gb+2g.20gb+2x1g.10gb')")
    page.until("document.querySelector('#view td a[href^=\"#/process/\"], #view th a[href^=\"#/process/\"]') !== null")
    page.click("#view th a[href^='#/process/']")
    page.until("document.querySelector('#process-h') !== null && document.querySelector('#view table a[href^=\"#/gpu/\"]') !== null")
