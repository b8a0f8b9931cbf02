# SPDX-License-Identifier: Apache-2.0
"""The page in a browser: it draws, moves by keys and pointer, sorts and filters, in both themes and narrow, complains
about nothing and asks for nothing."""
import pytest

SAMPLES = ["small", "one", "many", "big", "empty", "hostile", "diff"]


@pytest.fixture
def opened(browser, printed, tmp_path):
    """opened(sample, width, height, theme): the browser with that page."""

    def open_page(sample, width=1400, height=900, theme="light"):
        file = tmp_path / f"{sample}.html"
        if not file.exists():
            file.write_bytes(printed(sample, "html"))
        browser.look(width, height, theme)
        browser.open(file.as_uri())
        return browser

    yield open_page
    assert browser.complaints == []
    assert [a for a in browser.asked if not a.startswith(tmp_path.as_uri())] == []


def view(page):
    return page.js("[timeline.from, timeline.to]")


def centre(page, what):
    box = page.js(f"(() => {{ const b = {what}.getBoundingClientRect(); return [b.x, b.y, b.width, b.height] }})()")
    return box[0] + box[2] / 2, box[1] + box[3] / 2


def pixels(page, colour):
    """How many pixels of the timeline have a colour, "#rrggbb"."""
    return page.js("""((colour) => { timeline.drawNow(); const from = $("canvas"), to = document.createElement("canvas");
        to.width = from.width; to.height = from.height; const c = to.getContext("2d"); c.drawImage(from, 0, 0);
        const d = c.getImageData(0, 0, to.width, to.height).data, wanted = parseInt(colour.slice(1), 16); let n = 0;
        for (let i = 0; i < d.length; i += 4) n += (d[i] << 16 | d[i + 1] << 8 | d[i + 2]) === wanted;
        return n })("%s")""" % colour)


@pytest.mark.parametrize("width, theme", [(1400, "light"), (1400, "dark"), (700, "dark"), (360, "light")])
@pytest.mark.parametrize("sample", SAMPLES)
def test_it_opens_without_a_complaint(opened, sample, width, theme):
    page = opened(sample, width, 900, theme)
    assert page.js("document.documentElement.dataset.theme") == theme
    assert page.js("document.documentElement.scrollWidth") <= width  # nothing hangs out of the page
    assert page.js("document.title").endswith("stoker trace")
    assert page.js("$('tables').hidden") is False
    assert page.js("$('timeline').hidden") is (sample in ("empty", "diff"))


def test_verdicts_and_numbers_are_at_the_top(opened):
    page = opened("small")
    assert page.js("[...document.querySelectorAll('#verdicts .cost')].map((e) => e.textContent)") == ["13.3 %", "11.9 %", "2.9 %"]
    assert page.js("$('warnings').textContent").startswith("412 events lost of rank_1.pt.trace.json.gz")
    assert "rank 1" in page.js("$('cards').textContent")  # the straggler's numbers
    assert page.js("$('verdict').getBoundingClientRect().top") < page.js("$('timeline').getBoundingClientRect().top")


def test_the_timeline_shows_classes_and_causes(opened):
    page = opened("small")
    shown = page.js("[...COLOURS.classes.slice(0, 2), causeColour('data_loading')]")
    assert all(pixels(page, colour) > 200 for colour in shown)
    page.js("D.ranks.forEach((r) => { r.lanes.forEach((l) => { slicesOf(l).n = 0; busyOf(l).fill(0) }); gapsOf(r).length = 0 })")
    assert [pixels(page, colour) for colour in shown] == [0, 0, 0]


def test_keys_zoom_move_and_go_from_gap_to_gap(opened):
    page = opened("small")
    page.js("$('canvas').focus()")
    whole = view(page)
    page.key("+")
    near = view(page)
    assert near[1] - near[0] == pytest.approx((whole[1] - whole[0]) / 2)
    page.key("ArrowRight")
    assert view(page)[0] > near[0]
    page.key("-")
    page.key("0")
    assert view(page) == pytest.approx(whole)
    page.key(".")
    assert "idle, data loading, while the host was in enumerate(DataLoader)" in page.js("$('spoken').textContent")
    first = page.js("timeline.marked.start")
    page.key(".")
    assert page.js("timeline.marked.start") > first
    page.key(",")
    assert page.js("timeline.marked.start") == first
    page.key("0")
    page.key("n")
    step = page.js("[stepsOf(rankNow())[0].start, stepsOf(rankNow())[0].end]")
    assert view(page) == pytest.approx(step)
    page.key("t")
    assert page.js("$('threads').getAttribute('aria-pressed')") == "false"
    assert page.js("timeline.lanes.some((l) => l.kind === 'thread')") is False


def test_the_pointer_zooms_moves_and_asks(opened):
    page = opened("small")
    page.js("$('timeline').scrollIntoView()")
    x, y = centre(page, "$('canvas')")
    whole, under = view(page), page.js(f"timeline.time({x} - $('canvas').getBoundingClientRect().left)")
    page.pointer("mouseWheel", x, y, deltaX=0, deltaY=-200)
    near = view(page)
    assert near[1] - near[0] < whole[1] - whole[0]
    assert page.js(f"timeline.time({x} - $('canvas').getBoundingClientRect().left)") == pytest.approx(under)
    page.pointer("mousePressed", x, y, button="left", clickCount=1)
    page.pointer("mouseMoved", x - 100, y, button="left")
    page.pointer("mouseReleased", x - 100, y, button="left", clickCount=1)
    assert view(page)[0] > near[0]
    lane = page.js("""(() => { const l = timeline.lanes.find((l) => l.kind === "gaps"), g = gapsOf(l.rank).find((g) => g.length > 1e6),
        b = $("canvas").getBoundingClientRect(); timeline.view(g.start - g.length, g.end + g.length);
        return [b.left + timeline.x((g.start + g.end) / 2), b.top + l.y + 5 - $("scroll").scrollTop] })()""")
    page.frame()
    page.pointer("mouseMoved", *lane)
    assert page.js("$('tip').hidden") is False
    assert "idle: data loading" in page.js("$('tip').textContent")


def test_modules_open(opened):
    page = opened("small")
    page.js("$('tab-modules').click()")
    assert page.js("document.querySelectorAll('.tree .leaf').length") == 0
    page.js("document.querySelector('.tree summary').click()")
    page.frame()
    assert page.js("[...document.querySelectorAll('.tree .leaf')].map((l) => l.textContent.split(' · ')[2].split(' ')[0])") == [
        "Attention_0", "Linear_0"]


def test_the_roofline_has_a_circle(opened):
    page = opened("small")
    page.js("$('tab-shapes').click()")
    page.frame()
    assert page.js("document.querySelector('#panel canvas').getAttribute('aria-label')").startswith("Roofline")
    assert "MFU at least 8.2 % of H100 SXM" in page.js("$('panel').textContent")


def test_tables_sort_and_filter(opened):
    page = opened("small")
    page.js("$('tab-kernels').click()")

    def column(key):
        return page.js("(() => { const at = [...document.querySelectorAll('thead th')].findIndex((t) => t.dataset.key === '%s');"
                       "return [...document.querySelectorAll('tbody tr')].map((r) => r.children[at].textContent) })()" % key)

    assert len(column("name")) == 24
    page.js("document.querySelector('th[data-key=count] button').click()")
    counts = [int(c) for c in column("count")]
    assert counts == sorted(counts, reverse=True)
    assert page.js("document.querySelector('th[data-key=count]').getAttribute('aria-sort')") == "descending"
    page.js("document.querySelector('th[data-key=count] button').click()")
    assert [int(c) for c in column("count")] == sorted(counts)
    page.js("{ const i = document.querySelector('#panel input'); i.value = 'NCCL'; i.dispatchEvent(new Event('input')) }")
    assert len(column("name")) == 2 and all("nccl" in n for n in column("name"))
    assert page.js("document.querySelector('[role=status]').textContent") == "2 of 24 rows"


def test_rows_lead_into_the_timeline(opened):
    page = opened("small")
    page.js("document.querySelectorAll('tbody .show, tbody button')[2].click()")
    assert view(page) == pytest.approx(page.js("[stepsOf(rankNow())[2].start, stepsOf(rankNow())[2].end]"))
    assert page.js("document.activeElement.id") == "canvas"


def test_every_tab_can_be_opened_by_keys(opened):
    page = opened("small")
    page.js("$('tabs').firstChild.focus()")
    seen = []
    for _ in range(page.js("$('tabs').childElementCount")):
        seen.append(page.js("document.activeElement.id"))
        assert page.js("document.activeElement.getAttribute('aria-selected')") == "true"
        assert page.js("$('panel').childElementCount") > 0
        page.key("ArrowRight")
    assert len(set(seen)) == len(seen) > 10
    assert page.js("document.activeElement.id") == seen[0]


def test_choosing_a_rank_changes_what_is_shown(opened):
    page = opened("small")
    assert page.js("$('rank').value") == "1"  # the straggler's
    page.js("{ $('rank').value = '0'; $('rank').dispatchEvent(new Event('change')) }")
    assert page.js("$('numbers-of').textContent").startswith("rank 0")
    assert page.js("$('tables-of').textContent") == "rank 0"


def test_what_stood_at_the_peak_is_beside_the_memory(opened):
    page = opened("small")
    page.js("$('tab-memory').click()")
    assert page.js("document.querySelectorAll('#panel .columns canvas').length") == 1
    assert page.js("[...document.querySelectorAll('#panel .columns tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))") == [
        ["26.0 GiB", "44.8 %", "96", "activation", "aten::_scaled_dot_product_flash_attention"],
        ["1.00 GiB", "1.7 %", "1", "temporary", "aten::_log_softmax"]]
    assert "before profile 31.0 GiB · activation 26.0 GiB · temporary 1.00 GiB" in page.js("$('panel').textContent")


def test_everything_that_can_be_used_has_a_name(opened):
    page = opened("small")
    nameless = page.js("""[...document.querySelectorAll("button, select, input, canvas, [role]")].filter((e) => e.offsetParent &&
        !(e.textContent.trim() || e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || (e.labels && e.labels.length)))
        .map((e) => e.outerHTML.slice(0, 80))""")
    assert nameless == []


def test_names_make_no_element(opened):
    page = opened("hostile")
    page.js("tabs.tables.forEach((t) => showTab(t, rankNow()))")
    assert page.js("document.querySelectorAll('#verdicts b, #cards b, #panel b, #warnings b, #notes b, h1 b').length") == 0
    assert page.js("$('title').textContent").startswith("</script><b>")


def test_a_large_page_moves(opened):
    page = opened("big")
    whole = view(page)
    page.js("$('canvas').focus()")
    for _ in range(12):
        page.key("+")
    assert view(page)[1] - view(page)[0] == pytest.approx((whole[1] - whole[0]) / 4096)
    assert pixels(page, page.js("COMPUTE")) > 50
