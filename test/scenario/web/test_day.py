# SPDX-License-Identifier: Apache-2.0
"""The page with a day behind it and with more GPUs than an eye tells apart."""
import datetime
import re

import pytest
import scenes
import site_day
from agent_rig import until
from test_look import CONTRAST, NAMELESS, SMALL

LOST_GPU, LOST_H, OUT_GPU, OUT = 3, 8, 1, range(500, 640)


def parsed(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def written(when):
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.fixture
def day(training, proxied):
    """(proxy, Day) of eight GPUs, of which one told nothing for two hours."""
    kept = "/api/v1/gpus/{}/history?resolution=minute&metric=DCGM_FI_PROF_SM_ACTIVE,DCGM_FI_DEV_POWER_USAGE,DCGM_FI_DEV_FB_USED"
    until(lambda: all(len(training.json(kept.format(i))[1]["series"]) == 3 for i in range(8)), "the agent has begun to keep them")
    proxy = proxied(training.address)
    made = site_day.Day(site_day.devices_of(training.json("/api/v1/status")[1]), lambda number, minute: number == OUT_GPU and minute in OUT)
    proxy.rewrite = made.rewrite
    return proxy, made


def test_a_day_in_gpu_hours(visit, day):
    """What each GPU did, as the agent counted it."""
    proxy, made = day
    site_day.tell_hours(proxy, made, scenes.DAY_S)
    page = visit(proxy.url, "#/executive", may_be_cut=True)
    page.until("document.querySelectorAll('#view table tbody tr').length >= 8")
    page.until("document.querySelector('[aria-labelledby=day-h] .shares').innerText.includes('160')")
    shares = " ".join(page.text("[aria-labelledby=day-h] .shares").split())
    for text in ("160 h · 83 % working", "8 h · 4 % waiting", "16 h · 8 % idle held", "8 h · 4 % unusable"):
        assert text in shares, shares
    assert page.text(".sentence").startswith("24 of 192 GPU hours of the last day (13 %) were held and did not work.")
    assert page.js("document.querySelectorAll('[aria-labelledby=health-h] tbody tr')[0].children[2].innerText") == "96 %"


def test_a_minute_later_a_minute_is_asked_for(visit, day, training):
    """Not the day again."""
    proxy, made = day
    later = [0]

    def stream():
        for event, data in site_day.events_of(training.address):
            if event == "tick":
                data["time"] = written(parsed(data["time"]) + datetime.timedelta(seconds=later[0]))
            yield event, data

    proxy.stream = stream
    page = visit(proxy.url, "#/gpu/0", may_be_cut=True)
    page.click("#view [data-span=minute]")
    until(lambda: made.asked, "the day is asked for")
    before = len(made.asked)
    later[0] = 70
    until(lambda: len(made.asked) > before, "what is new is asked for")
    assert {back for _, back in made.asked[before:]} <= {4, 5, site_day.MINUTES}, made.asked[before:]


def test_hour_and_day_of_one_gpu(visit, day):
    proxy, _ = day
    page = visit(proxy.url, f"#/gpu/{OUT_GPU}")
    label = "document.querySelector('#view .chart[aria-label={}] .uplot')?.getAttribute('aria-label') ?? ''"
    for span, text in (("hour", "an hour in minutes"), ("minute", "a day in minutes")):
        page.click(f"#view [data-span={span}]")
        page.until(f"{label.format('Power')}.includes('{text}: power between')")
    # a counter that was not read for two hours has not grown in one minute
    most = lambda: float(re.search(r"sent between .* and ([\d.]+) MB/s", page.js(label.format("PCIe")))[1])
    page.until(f"/sent between .* and [\\d.]+ MB.s/.test({label.format('PCIe')})")
    with_hole = most()
    page.go("#/gpu/0")
    page.until(f"/sent between .* and [\\d.]+ MB.s/.test({label.format('PCIe')}) && document.querySelector('#view .crumbs').innerText.endsWith('GPU 0')")
    assert with_hole < 1.5 * most()


def lose(proxy, made):
    """GPU 3 was lost eight hours ago."""
    def down(gpus, now):
        gpus[LOST_GPU].update(state="lost", why="it fell off the bus", since=written(now - datetime.timedelta(hours=LOST_H)), metrics={
            name: {"value": None, "absent": "gpu_lost", "text": "the GPU is lost"} for name in gpus[LOST_GPU]["metrics"]})

    def rewrite(path, told):
        if path == "/api/v1/status":
            down(told["node"]["gpus"], parsed(told["node"]["time"]))
        told = made.rewrite(path, told)
        if f"/{keys[LOST_GPU]}/" in path:
            for series in told["series"]:  # the store leaves out what is not known at the ends
                series["points"] = [p for p in series["points"] if p[0] < parsed_now - LOST_H * 3600]
        return told

    def stream():
        for event, data in site_day.events_of(proxy.address):
            if event == "tick":
                data["gpus"][LOST_GPU].update(state="lost", why="it fell off the bus", metrics={})
                data["gpus"][LOST_GPU].pop("fast", None)
            yield event, data

    keys, parsed_now = list(made.numbers), datetime.datetime.now(datetime.timezone.utc).timestamp()
    proxy.rewrite, proxy.stream = rewrite, stream


def test_the_curves_of_a_lost_gpu_end(visit, day):
    proxy, made = day
    lose(proxy, made)
    page = visit(proxy.url, may_be_cut=True)
    page.go(f"#/gpu/{LOST_GPU}")
    page.until("document.querySelector('#view .chart-note').innerText.includes('fixed')")  # five minutes before and after the loss
    page.until("/Last seen .*: .*, .*°C, .*W/.test(document.querySelector('.rows .c-down').innerText)")
    power = "#view .chart[aria-label=Power]"
    page.until(f"document.querySelector('{power} .uplot')?.getAttribute('aria-label').includes('a day in minutes: power between')")
    page.click("#view [data-span=second]")  # of the last ten minutes nothing is known: no scale, and the reason
    page.until(f"document.querySelector('{power} .chart-value').innerText === 'no value in this span: the GPU is lost'")
    assert "No data for 8 h" in page.text(".rows .c-down")


def test_what_was_yesterday_says_so(visit, day):
    proxy, _ = day
    now = datetime.datetime.now(datetime.timezone.utc)
    before = now - datetime.timedelta(days=1)
    event = {"kind": "xid", "origin": "kernel", "code": 31, "pci": None, "gpu": 1, "incident": None, "word": None}
    proxy.change["/api/v1/events"] = lambda told: {"events": [{**event, "time": written(before), "text": "then"}, {**event, "time": written(now), "text": "now"}], "next": 3}
    page = visit(proxy.url)
    page.until("document.querySelectorAll('.events li').length >= 2")
    assert page.texts(".events li time")[-1].startswith(f"{before.day} {before:%b} ") and " " not in page.texts(".events li time")[0]


@pytest.mark.slow("a day of 72 GPUs")
def test_seventy_two_gpus(visit, training, proxied):
    proxy = proxied(training.address)
    crowd = site_day.Crowd(proxy, 72)
    page = visit(proxy.url, may_be_cut=True)
    page.until("document.querySelectorAll('.heat-cell').length === 72 && document.getElementById('working-text').innerText.startsWith('72 of 72 working')")
    page.until("document.querySelector('#view .chart[aria-label=Power] .chart-value').innerText.includes(' W to ')")
    assert page.js("document.querySelector('.chart-grid').getBoundingClientRect().top") < 900
    for width in (360, 2560):
        page.look(width, 900)
        for way in ("#/", "#/executive", "#/debug", "#/gpu/71"):
            page.go(way)
            page.until("document.querySelector('#view table, #view .heat-cell') !== null")
            assert page.js("document.documentElement.scrollWidth") <= width, (way, width)
            assert page.js(NAMELESS) == [] and page.js(SMALL) == [] and page.js(CONTRAST) == [], (way, width)
    page.go("#/debug")
    page.until("document.querySelectorAll('.matrix')[0].querySelectorAll('tbody tr').length === 72")
    page.js("window.cell = document.querySelector('.matrix tbody tr:last-child th')")
    tick = page.text("#contact")
    page.until(f"document.getElementById('contact').innerText !== {tick!r} && document.querySelectorAll('.matrix')[1].innerText.includes('%')")
    assert page.js("window.cell.isConnected")  # tables are written into, not made anew
    assert len(crowd.real) >= 72
