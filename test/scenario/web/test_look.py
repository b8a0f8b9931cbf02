# SPDX-License-Identifier: Apache-2.0
"""The page as a visitor meets it: the verdict first, nothing hangs out, everything can be reached and has a name, and can be read
in both themes."""
import pytest
import site_day
from agent_rig import until

VIEWS = {"oncall": "#/", "jobs": "#/jobs", "topology": "#/topology", "executive": "#/executive", "debug": "#/debug", "gpu": "#/gpu/3"}

# Every text that is seen: its colour against what is behind it (WCAG 2.2, 1.4.3).
CONTRAST = """(() => {
  const parse = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const over = (a, b) => [0, 1, 2].map((i) => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
  const light = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => { const layers = []; for (let p = e; p; p = p.parentElement) { const c = parse(getComputedStyle(p).backgroundColor); if (c[3] > 0) layers.push(c); if (c[3] === 1) break; }
    return layers.reverse().reduce((under, c) => over(c, under), [255, 255, 255, 1]); };
  const poor = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement, s = getComputedStyle(e);
    if (!walk.currentNode.data.trim() || !e.getClientRects().length || s.visibility === "hidden" || e.closest(".spoken, .skip, option, .bar, noscript")) continue;
    const back = behind(e), ink = over(parse(s.color), back), [a, b] = [light(ink), light(back)].sort((x, y) => y - x), size = parseFloat(s.fontSize);
    const needed = size >= 24 || (size >= 18.66 && Number(s.fontWeight) >= 700) ? 3 : 4.5, ratio = (a + 0.05) / (b + 0.05);
    if (ratio < needed) poor.push([walk.currentNode.data.trim().slice(0, 40), e.className || e.tagName, Math.round(ratio * 100) / 100, s.color, back.join()]);
  }
  return poor;
})()"""

# What is drawn and means something, against what it is drawn on (WCAG 2.2, 1.4.11): [name, ground, ratio] of those that are too faint.
FAINT = """((needed) => {
  const light = (hex) => { const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const of = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const ratio = (a, b) => { const [x, y] = [light(of(a)), light(of(b))].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const drawn = ["sm", "util", "occupied", "line-quiet", "c1", "c2", "c3", "c4", "g0", "g1", "g2", "g3", "g4", "g5", "g6", "g7", "work-working", "work-waiting", "work-idle", "work-free", "work-unusable", "work-unknown", "accent", "ok", "bad", "info", "warning", "error", "fatal"];
  return drawn.map((name) => [name, "card", ratio(name, "card")]).concat(["sm", "util", "accent"].map((name) => [name, "soft", ratio(name, "soft")])).filter(([, , r]) => !(r >= needed))
    .concat([["quiet", "card", ratio("quiet", "card")]].filter(([, , r]) => !(r >= 4.5))); // labels of axes, which are text on a canvas
})(3)"""

# What can be operated and what it is called.
NAMELESS = """[...document.querySelectorAll("a[href], button, select, input, summary, [tabindex='0']")].filter((e) => e.getClientRects().length &&
  !(e.getAttribute("aria-label") || e.labels?.[0]?.textContent || e.textContent.trim() || e.title)).map((e) => e.outerHTML.slice(0, 120))"""

SMALL = """[...document.querySelectorAll("button, input, .tabs a, .press, .tag, .heat-cell, .box")].filter((e) => e.getClientRects().length && e.getBoundingClientRect().height < 24).map((e) => e.outerHTML.slice(0, 100))"""


def url(agent):
    return f"http://{agent.address}/"


BOTTOM = "document.querySelector('{}').getBoundingClientRect().bottom"


def test_the_first_screen_answers(visit, training):
    """Healthy, the verdict is a line; below it eight GPUs of a line each, and their charts, without scrolling."""
    page = visit(url(training), width=1400, height=900)
    page.until("document.getElementById('verdict-text').innerText === 'All healthy'")
    page.until("/^8 of 8 working · SM activity \\d+ % · utilisation \\d+ %$/.test(document.getElementById('working-text').innerText)")
    assert page.js("document.title").startswith("All healthy · ")
    assert page.js("document.getElementById('hero').getBoundingClientRect().height") <= 48
    assert page.js("['hit', 'notices', 'verdict-more'].every((id) => document.getElementById(id).hidden) && !document.getElementById('todo').children.length")
    assert page.texts(".rows .fold") == [f"GPU {i}" for i in range(8)]
    assert page.js("[...document.querySelectorAll('.rows tr.gpu')].every((row) => row.getBoundingClientRect().height <= 37)")
    page.until("document.querySelectorAll('.chart-grid canvas').length === 6")
    assert page.js(BOTTOM.format(".chart-grid")) <= 900


def test_on_a_phone_the_healthy_are_folded(visit, training, proxied):
    proxy = proxied(training.address)

    def idle(gpus):
        gpus[2]["activity"] |= {"word": "idle held", "text": "in use by a program and nothing runs"}

    def lose(look):
        idle(look["node"]["gpus"])
        gpu = look["node"]["gpus"][6]
        look["incidents"] = [{"id": "1x", "revision": 1, "state": "open", "class": "thermal", "severity": "error", "cause": "thermal", "action": "check-cooling", "action_text": "Check fans and airflow", "route": "ticket",
                              "title": "GPU 6 (0000:d1:00.0) is slowed down by heat", "device": {"kind": "gpu", "index": 6, "uuid": gpu["uuid"]}, "opened": look["node"]["time"], "count": 1, "evidence": []}]
        return look

    proxy.change["/api/v1/status"] = lose

    def stream():
        for event, data in site_day.events_of(training.address):
            if event == "tick":
                idle(data["gpus"])
            yield event, data

    proxy.stream = stream
    page = visit(proxy.url, may_be_cut=True, width=390, height=844)
    page.until("document.querySelectorAll('.rows tr.gpu').length === 2")
    assert page.texts(".rows .fold") == ["GPU 6", "GPU 2"]
    assert page.js("document.querySelector('.rows + button').innerText") == "Show 6 healthy GPUs"
    page.click(".rows + button")
    assert page.js("document.querySelectorAll('.rows tr.gpu').length") == 8
    page.click(".rows .fold")
    page.until("document.querySelector('.detail') !== null")
    assert page.js("document.documentElement.scrollWidth") <= 390 and page.js("document.querySelector('.c-sm').getBoundingClientRect().width") > 100


def test_no_number_contradicts_another(visit, training):
    """What stands in the verdict's line, in the lines of the GPUs and in what unfolds is of the same minute."""
    page = visit(url(training))
    page.until("/SM activity/.test(document.getElementById('working-text').innerText)")
    page.click(".rows .fold")
    page.until("document.querySelector('.detail .fact dd') !== null")
    every = "[document.getElementById('working-text'), ...document.querySelectorAll('.c-sm .bar-value'), document.querySelector('.detail .fact dd')].map((e) => Number(/(\\d+) %/.exec(e.innerText)[1]))"
    mean, *gpus, unfolded = page.js(every)
    assert len(gpus) == 8 and unfolded == gpus[0] and abs(mean - sum(gpus) / 8) <= 1


@pytest.mark.parametrize("width, theme", [(360, "light"), (360, "dark"), (800, "light"), (1400, "dark")])
def test_nothing_hangs_out_and_everything_can_be_read(visit, training, width, theme):
    page = visit(url(training), width=width, theme=theme)
    assert page.js("document.documentElement.dataset.theme") == theme
    for name, way in VIEWS.items():
        page.go(way)
        page.until("document.querySelector('#view .chart canvas, #view table') !== null")
        assert page.js("document.documentElement.scrollWidth") <= width, name
        assert page.js(CONTRAST) == [] and page.js(FAINT) == [], name
        assert page.js(NAMELESS) == [], name
        assert page.js(SMALL) == [], name


def test_the_theme_can_be_chosen_and_stays(visit, training):
    page = visit(url(training), theme="light")
    assert page.js("document.documentElement.dataset.theme") == "light"
    page.click("#theme")
    assert page.js("document.documentElement.dataset.theme") == "dark"
    page.open(theme="light")
    assert page.js("document.documentElement.dataset.theme") == "dark"
    page.click("#theme")
    assert page.js("document.documentElement.dataset.theme") == "light"


def test_landmarks_and_headings(visit, training):
    page = visit(url(training))
    assert page.js("document.documentElement.lang") == "en"
    assert page.js("[document.querySelectorAll('main').length, document.querySelectorAll('header.top').length, document.querySelectorAll('nav[aria-label]').length]") == [1, 1, 1]
    assert page.js("document.querySelectorAll('h1').length") == 1
    assert page.js("document.querySelector('#verdict').getAttribute('aria-live')") == "polite"
    for way in VIEWS.values():
        page.go(way)
        levels = page.js("[...document.querySelectorAll('h1, h2, h3')].filter((e) => e.getClientRects().length).map((e) => Number(e.tagName[1]))")
        assert levels[0] == 1 and all(b - a <= 1 for a, b in zip(levels, levels[1:])), (way, levels)
        assert page.js("[...document.querySelectorAll('#view section')].every((s) => s.getAttribute('aria-labelledby') && document.getElementById(s.getAttribute('aria-labelledby')))")
        ids = page.js("[...document.querySelectorAll('[id]')].map((e) => e.id)")
        assert len(ids) == len(set(ids)), way


@pytest.mark.parametrize("way", VIEWS.values(), ids=VIEWS)
def test_everything_is_reached_by_keys_and_seen_to_be(visit, training, way):
    page = visit(url(training), way, width=1400)
    page.until("document.querySelector('#view .chart canvas, #view table') !== null")
    page.js("document.activeElement.blur()")
    wanted = page.js("[...document.querySelectorAll(\"a[href], button, select, [tabindex='0'], summary\")].filter((e) => e.getClientRects().length).length")
    seen, outlined = set(), 0
    for _ in range(wanted + 5):
        page.browser.call("Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab", windowsVirtualKeyCode=9)
        page.browser.call("Input.dispatchKeyEvent", type="keyUp", key="Tab", code="Tab", windowsVirtualKeyCode=9)
        at, outline = page.js("(() => { const e = document.activeElement, all = [...document.querySelectorAll('*')]; return [all.indexOf(e), getComputedStyle(e).outlineStyle] })()")
        seen.add(at)
        outlined += outline not in ("none", "")
    assert len(seen) >= wanted - 2, f"{len(seen)} of {wanted}"
    assert outlined >= wanted - 2, "the focus cannot be seen"


def test_a_table_that_is_made_anew_keeps_the_focus(visit, training):
    page = visit(url(training), "#/executive")
    link = "document.querySelector('section[aria-labelledby=\"health-h\"] tr:nth-child(3) a')"
    page.until(f"{link} !== null")
    page.js(f"window.before = {link}; window.before.focus()")
    page.until(f"!window.before.isConnected && document.activeElement === {link}")


def test_the_parts_of_a_long_view_are_reached_by_keys(visit, training):
    page = visit(url(training), "#/debug")
    page.until("document.querySelectorAll('#view .chart canvas').length >= 4")  # there is something to scroll to
    page.js("[...document.querySelectorAll('nav.parts button')].find((b) => b.innerText === 'Over time').focus()")
    page.browser.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
    page.browser.call("Input.dispatchKeyEvent", type="keyUp", key="Enter", code="Enter", windowsVirtualKeyCode=13)
    page.until("document.activeElement.id === 'curves-h'")
    assert page.js("document.getElementById('curves-h').getBoundingClientRect().top") < 400


def test_nothing_moves_by_itself(visit, training):
    """Neither for who asked for less motion nor for anybody."""
    page = visit(url(training))
    for way in VIEWS.values():
        page.go(way)
        assert page.js("document.getAnimations().length") == 0
        assert page.js("[...document.querySelectorAll('*')].every((e) => getComputedStyle(e).transitionDuration === '0s' && getComputedStyle(e).scrollBehavior === 'auto')"), way


def test_the_way_to_a_gpu_and_back(visit, training):
    page = visit(url(training))
    page.click(".rows tbody[data-gpu='GPU 3'] .fold")  # its line unfolds
    page.until("document.querySelector(\".rows tbody[data-gpu='GPU 3'] .detail\")?.innerText.includes('1980 MHz')")
    assert page.js("document.querySelectorAll('.fold[aria-expanded=true]').length") == 1
    for normal in ("uncorrected", "Held down", "PCIe link", "NVLinks up"):
        assert normal not in page.text(".detail")
    page.click(".detail a[href='#/gpu/3']")
    page.until("location.hash === '#/gpu/3' && document.activeElement.id === 'main'")
    assert page.text("#view .crumbs").endswith("GPU 3")
    page.until("document.querySelectorAll('#view .chart canvas').length >= 6")
    page.js("history.back()")
    page.until("location.hash !== '#/gpu/3' && document.querySelectorAll('.rows tr.gpu').length === 8")
    page.open("#/gpu/5")  # a link that was shared
    page.until("document.querySelector('#view .crumbs')?.innerText.endsWith('GPU 5')")
    page.go("#/gpu/77")
    page.until("document.querySelector('#view').innerText.includes('no such GPU')")
    page.go("#/no/such/place")
    page.until("location.hash === '#/'")


def test_charts_move_together(visit, training):
    page = visit(url(training), "#/gpu/2")
    page.until("document.querySelectorAll('#view .chart canvas').length >= 6")
    page.until("[...document.querySelectorAll('#view .charts .key b')].filter((e) => e.getClientRects().length).every((e) => e.innerText && e.innerText !== '–')")
    page.js("document.querySelector('#view .charts').scrollIntoView()")
    box = page.js("(() => { const b = document.querySelector('#view .charts .u-over').getBoundingClientRect(); return [b.x, b.y, b.width, b.height] })()")
    middle = box[1] + box[3] / 2
    page.browser.pointer("mouseMoved", box[0] + box[2] * 0.97, middle)
    cursors = "[...document.querySelectorAll('#view .charts .u-cursor-x')].map((e) => e.style.transform)"
    page.until(f"new Set({cursors}.filter((t) => !t.includes('-10px'))).size >= 1")
    assert len(set(page.js("[...document.querySelectorAll('#view .charts .chart-value')].filter((e) => e.getClientRects().length).map((e) => e.innerText.slice(0, 8))"))) == 1  # one time over all
    # a drag zooms all of them, also one during which values come
    before = page.text("#view .chart-note")
    page.browser.pointer("mousePressed", box[0] + box[2] * 0.1, middle, button="left", buttons=1, clickCount=1)
    page.browser.pointer("mouseMoved", box[0] + box[2] * 0.7, middle, button="left", buttons=1)
    page.browser.pointer("mouseMoved", box[0] + box[2] * 0.9, middle, button="left", buttons=1)
    clock = page.text("#contact")
    page.until(f"document.getElementById('contact').innerText !== {clock!r}")
    page.browser.pointer("mouseReleased", box[0] + box[2] * 0.9, middle, button="left", clickCount=1)
    page.until("document.querySelector('#view .chart-note').innerText.includes('fixed')")
    assert "from=" in page.js("location.hash") and "to=" in page.js("location.hash")  # whoever gets the address sees the same minutes
    page.click("#view .toolbar button:nth-of-type(2)")
    page.until("!document.querySelector('#view .chart-note').innerText.includes('fixed')")
    assert page.text("#view .chart-note") == before
    # pause by key; the rest goes on
    page.js("document.querySelector('#view .charts').focus()")
    page.browser.key("p")
    page.until("document.querySelector('#view .chart-note').innerText.includes('stand still')")
    clock = page.text("#contact")
    page.until(f"document.getElementById('contact').innerText !== {clock!r}")
    page.browser.key("p")
    page.until("!document.querySelector('#view .chart-note').innerText.includes('stand still')")
    page.browser.key("ArrowLeft")
    page.until("/Power: power \\d+ W, limit 700 W/.test(document.getElementById('spoken').innerText)")


def test_the_charts_of_all_gpus(visit, training):
    """A colour each, one of them alone by a click in the legend, all values beside the pointer, and the choice in the address."""
    page = visit(url(training))
    page.until("document.querySelectorAll('.chart-grid canvas').length === 6 && document.querySelectorAll('.gpu-legend button').length === 8")
    assert len(set(page.js("[...document.querySelectorAll('.gpu-legend i')].map((e) => getComputedStyle(e).backgroundColor)"))) == 8
    power = "document.querySelector('#view .chart[aria-label=Power]')"
    page.until(f"{power}.querySelector('.chart-value').innerText.includes(' W to ')")
    x, y, width = page.js(f"(() => {{ const b = {power}.querySelector('.u-over').getBoundingClientRect(); return [b.x, b.y + b.height / 2, b.width] }})()")
    page.browser.pointer("mouseMoved", x + width * 0.98, y)
    page.until(f"{power}.querySelectorAll('.tip:not([hidden]) li').length === 8")
    values = page.js(f"[...{power}.querySelectorAll('.tip li b')].map((e) => parseInt(e.innerText))")
    assert values == sorted(values, reverse=True)
    assert page.js("document.querySelectorAll('.tip:not([hidden])').length") == 1
    page.click(".gpu-legend button:nth-child(6)")
    page.until(f"/ GPU 5 \\d+ W$/.test(' ' + {power}.querySelector('.chart-value').innerText)")
    assert page.js("document.querySelector('.gpu-legend [aria-pressed=true]').innerText") == "GPU 5"
    page.click("#view [data-span=hour]")
    shared = page.js("location.hash")
    assert "span=hour" in shared and "only=GPU-" in shared
    page.open(shared)
    page.until("document.querySelector('.gpu-legend [aria-pressed=true]')?.innerText === 'GPU 5' && document.querySelector('[data-span=hour]').getAttribute('aria-pressed') === 'true'")


def test_one_box_finds_all(visit, training):
    page = visit(url(training), "#/debug")
    page.until("document.querySelectorAll('#view table').length >= 3")
    page.js("document.querySelector('main').focus()")
    page.browser.key("/")
    assert page.js("document.activeElement.type") == "search"
    for key in "gpu 6":
        page.browser.key(key)
    page.until("document.querySelector('#found [aria-selected] b')?.innerText === 'GPU 6'")
    page.browser.key("Enter")
    page.until("location.hash === '#/gpu/6'")
    pid = page.until("document.querySelector('#view td a[href^=\"#/process/\"], #view th a[href^=\"#/process/\"]')?.getAttribute('href').split('/').pop()")
    page.js(f"(() => {{ const box = document.querySelector('#search input'); box.focus(); box.value = '{pid}'; box.dispatchEvent(new Event('input')) }})()")
    page.until("document.querySelector('#found [aria-selected] .quiet')?.innerText === 'process'")
    page.browser.key("Enter")
    page.until(f"location.hash === '#/process/{pid}'")
    page.js("(() => { const box = document.querySelector('#search input'); box.focus(); box.value = 'no such thing'; box.dispatchEvent(new Event('input')) })()")
    page.until("document.getElementById('found').innerText === 'Nothing of that name.'")


def test_local_time_or_utc(visit, training):
    page = visit(url(training))
    page.browser.call("Emulation.setTimezoneOverride", timezoneId="Asia/Kolkata")  # half an hour beside UTC's hours
    try:
        hours = lambda: page.js("document.getElementById('contact').innerText.split(' ')[1].split(':').map(Number)")
        assert page.text("#zone") == "UTC"
        (h, m, _), at = hours(), page.js("((d) => [d.getUTCHours(), d.getUTCMinutes()])(new Date())")
        assert abs((h * 60 + m) - (at[0] * 60 + at[1])) % 1438 <= 2
        page.click("#zone")
        page.until("document.getElementById('zone').innerText === 'Local'")
        (h, m, _), at = hours(), page.js("((d) => [d.getHours(), d.getMinutes()])(new Date())")
        assert abs((h * 60 + m) - (at[0] * 60 + at[1])) % 1438 <= 2
        page.open()
        page.until("document.getElementById('zone').innerText === 'Local'")  # it is remembered
    finally:
        page.browser.call("Emulation.setTimezoneOverride", timezoneId="")


def test_where_gpus_are(visit, training):
    page = visit(url(training), "#/topology")
    page.until("document.querySelectorAll('.numa-node').length === 2 && document.querySelectorAll('a.box').length === 8")
    row = page.js("[...document.querySelectorAll('[aria-label=\"How GPUs and adapters reach each other\"] tbody tr:first-child td')].map((td) => td.innerText)")
    assert row[:8] == ["·", *["NV18"] * 7] and row[8:] == ["PIX", "NODE", "NODE", "NODE", "SYS", "SYS", "SYS", "SYS"]


def test_tenths_of_a_second_on_demand(visit, training):
    page = visit(url(training), "#/gpu/2")
    page.click("#view [data-span=tenth]")
    page.until("document.querySelector('#view [data-span=tenth]').getAttribute('aria-pressed') === 'true'")
    page.until("document.querySelector('#view .chart[aria-label=Power] .uplot')?.getAttribute('aria-label')?.includes('a minute in tenths of a second: power between')")
    # full from the start: where no tenths are known yet the seconds of the store stand
    points = lambda: training.json("/api/v1/gpus/2/history?metric=DCGM_FI_DEV_POWER_USAGE")[1]["series"][0]["points"]
    until(lambda: points()[-1][0] - points()[0][0] > 60, "the agent has a minute")
    page.open("#/gpu/2?span=tenth")
    x, y, width = page.until("((b) => b && [b.x, b.y + b.height / 2, b.width])(document.querySelector('#view .chart[aria-label=Power] .u-over')?.getBoundingClientRect())")
    page.browser.pointer("mouseMoved", x + width * 0.1, y)
    page.until("/^\\d+ W$/.test(document.querySelector('#view .chart[aria-label=Power] .key b').innerText)")
    page.click("#view [data-span=minute]")
    page.until("document.querySelector('#view .chart[aria-label=Power]').innerText.length > 0")


def test_a_visitor_of_another_view_sees_what_idles(visit, training):
    page = visit(url(training), "#/executive")
    page.until("document.querySelectorAll('.tile').length === 6")
    tiles = "Object.fromEntries([...document.querySelectorAll('.tile')].map(t => [t.querySelector('dt').innerText, t.querySelector('dd').innerText]))"
    page.until(f"(t => t.Capacity === '8 GPUs' && t.Health === 'All healthy')({tiles})")  # an agent that just started knows of none
    page.until("document.querySelector('.tile:nth-child(2) dd').innerText === '8 GPUs'")
    page.go("#/debug")
    page.until("document.querySelectorAll('#view table').length >= 4")
    assert page.texts("#view section > h2")[:3] == ["Health", "Throughput now", "Bottlenecks"]
