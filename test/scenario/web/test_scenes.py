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


@pytest.mark.parametrize("one", PLANTED, ids=[t.name for t in PLANTED])
def test_what_is_planted_stands_first(visit, played, tmp_path, stoker, one):
    scene = tmp_path / f"{one.name}.yaml"
    scene.write_text(yaml.safe_dump(trial.brought_forward(one)))
    _, agent = played(scene, speed=one.speed, options=options(one.speed), ready=False)
    page = visit(f"http://{agent.address}/", may_be_cut=True)  # twenty ticks a second may be more than it takes
    fault = CLASSES[one.fault]
    title = one.thing if fault["cause"] != "application" else "a program on " + one.thing
    page.until(f"document.getElementById('verdict-text').innerText.startsWith('Problem: {title.replace(' on the node', '').removeprefix('the ')}')")
    page.until(f"document.querySelector('.incident .links a[href*=\"runbooks/\"]')?.getAttribute('href') === 'runbooks/{one.fault}'")
    first = page.js("document.querySelector('.incident').innerText")
    assert first.startswith(fault["severity"]) and fault["advice"][:40] in " ".join(first.split())
    assert page.js("document.querySelector('.incident').getBoundingClientRect().top") < 500
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


def test_the_way_down_to_an_instance_and_a_process(visit, played):
    _, agent = played("mig-balanced")
    page = visit(f"http://{agent.address}/")
    page.until("document.querySelectorAll('.instances a').length > 0")
    page.click(".instances a")
    page.until("location.hash.includes('/mig/') && document.querySelector('#mig-h') !== null")
    page.until("document.querySelectorAll('#view .chart canvas').length > 0")
    gpu = page.js("location.hash.split('/mig/')[0]")
    page.go(gpu)
    page.until("document.querySelector('#view td a[href^=\"#/process/\"], #view th a[href^=\"#/process/\"]') !== null")
    page.click("#view th a[href^='#/process/']")
    page.until("document.querySelector('#process-h') !== null && document.querySelector('#view table a[href^=\"#/gpu/\"]') !== null")
