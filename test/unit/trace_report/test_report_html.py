# SPDX-License-Identifier: Apache-2.0
"""The page as a file: one document that asks for nothing, in which no name is markup or code, and whose packed data
unpack to what the report says."""
import base64
import hashlib
import html.parser
import re

import pytest

SAMPLES = ["small", "many", "empty", "hostile", "diff"]
VOID = {"meta", "link", "input", "br", "img", "hr"}


class Structure(html.parser.HTMLParser):
    """Tags opened, ids, attributes that point somewhere; complains about tags that do not nest."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.pointers, self.handlers, self.refers = [], [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "action", "data", "poster", "srcset", "background", "ping"):
                self.pointers.append(value)
            if name.startswith("on") or name == "style":
                self.handlers.append((tag, name))
            if name in ("aria-labelledby", "aria-describedby", "aria-controls", "for"):
                self.refers.append(value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes <{self.open[-1:]}>"
        self.open.pop()


class Unpack:
    """Variable-length integers out of base64."""

    def __init__(self, text):
        self.bytes, self.at = base64.b64decode(text, validate=True), 0

    def byte(self):
        self.at += 1
        return self.bytes[self.at - 1]

    def number(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def ended(self):
        return self.at == len(self.bytes)


def digest(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


@pytest.mark.parametrize("sample", SAMPLES)
def test_it_is_one_well_formed_document(page, sample):
    made = page(sample)
    structure = Structure(made.text)
    assert made.text.startswith("<!doctype html>") and structure.open == []
    assert structure.tags.count("script") == 2 and structure.tags.count("style") == 1
    assert len(structure.ids) == len(set(structure.ids))
    assert set(structure.refers) <= set(structure.ids)


@pytest.mark.parametrize("sample", SAMPLES)
def test_it_asks_for_nothing(page, sample):
    made = page(sample)
    structure = Structure(made.text)
    assert [p for p in structure.pointers if not p.startswith("#")] == []
    assert structure.handlers == []  # the policy would refuse them
    assert not re.search(r"url\(|@import|https?:|//[a-z]", made.style)
    assert not re.search(r"\bfetch\(|XMLHttpRequest|WebSocket|import\(|https?:|innerHTML|eval\(|document\.write", made.script)


@pytest.mark.parametrize("sample", SAMPLES)
def test_its_policy_allows_its_own_style_and_script_alone(page, sample):
    made = page(sample)
    policy = dict(p.strip().split(" ", 1) for p in made.part(r'Content-Security-Policy" content="([^"]*)"').split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["style-src"] == digest(made.style) and policy["script-src"] == digest(made.script)
    assert made.text.index("Content-Security-Policy") < made.text.index("<style>")


def test_names_are_neither_markup_nor_code(page):
    hostile, tame = page("hostile"), page("one")
    assert Structure(hostile.text).tags == Structure(tame.text).tags
    raw = hostile.part(r'id="data">(.*?)</script>')
    assert "<" not in raw
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", "".join(hostile.data["texts"]))
    assert hostile.data["title"].startswith('</script><b>"x" & \'y\', ')


@pytest.mark.parametrize("sample", ["small", "many"])
def test_tables_hold_what_the_json_holds(page, report, sample):
    made, wanted = page(sample), report(sample)
    assert made.data["step_ns"] == wanted["step_ns"]
    for rank, own in zip(made.data["ranks"], wanted["ranks"], strict=True):
        assert made.rows(rank["about"])[0]["file"] == own["file"]
        for name in ("kernels", "copies", "operators", "shapes", "modules", "origins", "inference", "decode_gaps", "annotations", "calls"):
            rows = made.rows(rank[name])
            assert len(rows) + rank[name]["left_out"] == len(own[name])
            for row, value in zip(rows, own[name]):
                assert {k: v for k, v in row.items() if v != ""} == {k: v for k, v in value.items() if v is not None} | {
                    k: None for k in value if value[k] is None and row.get(k, 0) is None}


@pytest.mark.parametrize("sample", ["small", "hostile"])
def test_gaps_unpack(page, report, sample):
    made, wanted = page(sample), report(sample)
    for rank, own in zip(made.data["ranks"], wanted["ranks"], strict=True):
        data, start = Unpack(rank["gaps"]["data"]), rank["gaps"]["from"]
        found = []
        for _ in range(rank["gaps"]["count"]):
            start += data.number()
            length, cause, device = data.number(), made.data["causes"][data.byte()], data.number() - 1
            host, _, before, after = (made.data["texts"][data.number()] for _ in range(4))
            found.append((start, length, cause, device, host, before, after))
        idle = own["gaps"] + own["edges"]
        assert data.ended() and len(found) + rank["gaps"]["left_out"] == len(idle)
        shift = own["clock_offset_ns"]
        plain = [(g["start_ns"] + shift, g["end_ns"] - g["start_ns"], g["cause"], g["device"], g["host"], g["before"] or "", g["after"] or "")
                 for g in idle]
        if sample == "small":
            assert sorted(found) == sorted(plain)
        else:
            assert len(found) == len(plain)


def slices(lane):
    data, start, made = Unpack(lane["slices"]), None, []
    for _ in range(lane["count"]):
        number = data.number()
        start = (number >> 1) ^ -(number & 1) if start is None else start + number
        made.append((start, data.number(), data.number(), data.byte(), data.byte()))  # start, length, text, kind, depth
    assert data.ended()
    return made


# On the host, in the sample.
SLICES = {"enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "aten::item", "cudaStreamSynchronize", "cudaLaunchKernel",
          "Optimizer.step#AdamW.step", "cudaMalloc", "aten::linear", "torch/_dynamo/eval_frame.py(55): inner"}


def test_slices_unpack(page):
    """The sample's streams: equal slices, one after the other, 9/10 of a step of span / 900 each."""
    made = page("small")
    for rank in made.data["ranks"]:
        about = made.rows(rank["about"])[0]
        kernels = {row["name"] for row in made.rows(rank["kernels"]) if "triton_poi" not in row["name"]}  # that take their share
        span = made.rows(rank["devices"])[0]["span_ns"]
        step = span // 900
        for lane in rank["lanes"]:
            found = slices(lane)
            assert {made.data["texts"][s[2]] for s in found} == SLICES | kernels
            if lane["gpu"]:
                assert {s[1] for s in found} == {step * 9 // 10}
                assert {(s[0] - about["clock_offset_ns"]) % step for s in found} == {0}
            assert lane["left_out"] == 12345
            assert len(base64.b64decode(lane["busy"])) == 3 * 1024


def test_a_large_profile_makes_a_page_that_can_be_sent(page):
    """Eight ranks with lanes full of slices: the longest are kept, what is left out is counted."""
    made = page("big")
    assert len(made.raw) < 15e6
    lanes = [lane for rank in made.data["ranks"] for lane in rank["lanes"]]
    assert sum(lane["count"] for lane in lanes) <= 400000
    for lane in lanes[:3]:
        found = slices(lane)
        assert lane["count"] == len(found) > 3000
        assert lane["left_out"] > 12345
        # the sample's slices are of a few lengths: what is kept of equal ones is spread over the whole time
        gaps = [b[0] - a[0] for a, b in zip(found, found[1:])]
        assert max(gaps) < (found[-1][0] - found[0][0]) / 50


def test_times_begin_with_the_page(page):
    """Absolute times in nanoseconds are beyond what a browser's numbers hold; the page's are not."""
    for sample in ("small", "hostile"):
        made = page(sample)
        times = [row[2] for rank in made.data["ranks"] for row in rank["steps"]]
        assert max(map(abs, times)) <= 2**53
