# SPDX-License-Identifier: Apache-2.0
"""`stoker trace` of a memory snapshot: pickles in the form of torch.cuda.memory._dump_snapshot, made by a small
allocator that knows what it holds."""
import gzip
import json
import pickle
import random

import pytest

MIB = 1 << 20
TORCH = {"filename": "/usr/lib/python3.12/site-packages/torch/nn/modules/linear.py", "line": 125, "name": "forward"}
NATIVE = {"filename": "??", "line": 0, "name": "at::empty_cuda"}


def frames(line, name="forward"):
    return [NATIVE, TORCH, {"filename": f"/home/me/job/{name}.py", "line": line, "name": name},
            {"filename": "/home/me/job/train.py", "line": 1, "name": "<module>"}]


class Allocator:
    """Blocks of a device by address; each segment holds what was put into it, then one free block."""

    def __init__(self, device=0):
        self.device, self.segments, self.events, self.live = device, [], [], {}
        self.stacks = [frames(line) for line in range(4)]
        self.stacks_bytes = {}

    def event(self, action, size, **more):
        self.events.append({"action": action, "size": size, "stream": 0, "time_us": 1_700_000_000_000_000 + len(self.events),
                            "frames": [], **more})

    def segment(self, size, expandable=False):
        address = 0x7F0000000000 + sum(s["total_size"] for s in self.segments) + (len(self.segments) << 30)
        self.segments.append({"address": address, "total_size": size, "stream": 0, "segment_type": "large", "device": self.device,
                              "is_expandable": expandable, "segment_pool_id": (0, 0), "frames": [], "used": 0})
        self.event("segment_map" if expandable else "segment_alloc", size, addr=address)
        return self.segments[-1]

    def alloc(self, segment, size, line, record=True, asked=None):
        address = segment["address"] + segment["used"]
        segment["used"] += size
        self.live[address] = {"size": size, "requested_size": asked or size, "address": address, "state": "active_allocated",
                              "frames": self.stacks[line], "line": line}
        if record:
            self.event("alloc", asked or size, addr=address, frames=self.stacks[line])
        return address

    def free(self, address, record=True):
        block = self.live[address]
        if record:
            self.event("free_requested", block["requested_size"], addr=address)
            self.event("free_completed", block["requested_size"], addr=address)
        block["state"] = "inactive"

    def blocks(self, segment):
        blocks = [b for a, b in self.live.items() if 0 <= a - segment["address"] < segment["total_size"]]
        rest = segment["total_size"] - segment["used"]
        if rest:
            blocks.append({"size": rest, "requested_size": 0, "address": segment["address"] + segment["used"], "state": "inactive",
                           "frames": []})
        return [{k: v for k, v in b.items() if k != "line"} for b in blocks]

    def close(self):
        return [{k: v for k, v in s.items() if k != "used"} | {"blocks": self.blocks(s)} for s in self.segments]


def snapshot(*allocators):
    return {"segments": [s for a in allocators for s in a.close()], "device_traces": [a.events for a in allocators],
            "allocator_settings": {"max_split_size": 2**64 - 1, "expandable_segments": False, "garbage_collection_threshold": 0.0},
            "external_annotations": []}


@pytest.fixture
def show(trace, tmp_path):
    def run(what, *options, protocol=4, code=None):
        path = tmp_path / "snapshot.pickle"
        path.write_bytes(what if isinstance(what, bytes) else pickle.dumps(what, protocol=protocol))
        done = trace(path, *options)
        assert code is None or done.returncode == code, done.stderr.decode() + done.stdout.decode()
        return done
    return run


def story():
    """Two segments: 40 MiB before the recording, 20 more by line 1, of which 20 are freed after the peak."""
    a = Allocator()
    first = a.segment(64 * MIB)
    kept, gone = a.alloc(first, 30 * MIB, 0), a.alloc(first, 10 * MIB, 2)
    a.events.clear()
    second = a.segment(32 * MIB)
    late = a.alloc(second, 20 * MIB, 1)
    a.alloc(first, 2 * MIB, 3, asked=2 * MIB - 512)
    a.free(gone)
    a.free(late)
    return a


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_what_stands_now_and_at_the_peak(show, protocol):
    report = json.loads(show(snapshot(story()), "--json", protocol=protocol, code=1).stdout)
    assert report["version"] == 1
    (device,) = report["memory_snapshot"]["devices"]
    now = {"reserved_bytes": 96 * MIB, "allocated_bytes": 32 * MIB, "requested_bytes": 32 * MIB - 512, "awaiting_bytes": 0,
           "inactive_bytes": 64 * MIB, "largest_free_bytes": 22 * MIB, "releasable_bytes": 32 * MIB, "segments": 2,
           "expandable_segments": 0, "fragmentation": 1 - 22 / 64}
    assert {key: device[key] for key in now} == now
    assert [(s["name"], s["bytes"], s["blocks"]) for s in device["sites"]] == [
        ("job/forward.py:0 forward", 30 * MIB, 1), ("job/forward.py:3 forward", 2 * MIB, 1)]
    peak = {"peak_bytes": 62 * MIB - 512, "peak_event": 2, "peak_time_us": 1_700_000_000_000_002, "peak_reserved_bytes": 96 * MIB,
            "largest_reserved_bytes": 96 * MIB, "before_bytes": 10 * MIB}
    assert {key: device[key] for key in peak} == peak
    assert [(s["name"], s["bytes"]) for s in device["peak_sites"]] == [
        ("job/forward.py:0 forward", 30 * MIB), ("job/forward.py:1 forward", 20 * MIB), ("job/forward.py:3 forward", 2 * MIB - 512)]
    assert [(p["allocated_bytes"], p["reserved_bytes"]) for p in device["points"]] == [
        (n, 96 * MIB) for n in (40 * MIB, 60 * MIB, 62 * MIB - 512, 62 * MIB - 512, 52 * MIB - 512, 52 * MIB - 512, 32 * MIB - 512)]
    found = {f["id"]: f["bytes"] for f in report["memory_snapshot"]["findings"]}
    assert found == {"fragmented": 32 * MIB, "cached": 32 * MIB}


def test_random_allocations_agree_with_the_allocator(show):
    """Levels, peak and lines of random allocations, each recorded from a random moment on."""
    for seed in range(6):
        dice = random.Random(seed)
        a, held, peak, at_peak = Allocator(), {}, -1, {}
        for step in range(300):
            if step == dice.randrange(100):
                a.events.clear()
            if held and dice.random() < 0.45:
                held.pop(address := dice.choice(list(held)))
                a.free(address)
            else:
                segment = a.segments[-1] if a.segments and dice.random() < 0.8 else a.segment(64 * MIB, dice.random() < 0.3)
                size = dice.randrange(1, 40) * 1024
                if segment["used"] + size < segment["total_size"]:
                    held[a.alloc(segment, size, dice.randrange(4))] = size
        level = sum(held.values()) - sum(e["size"] * {"alloc": 1, "free_completed": -1}.get(e["action"], 0) for e in a.events)
        for event in a.events:
            level += event["size"] * {"alloc": 1, "free_completed": -1}.get(event["action"], 0)
            peak = max(peak, level)
        (device,) = json.loads(show(snapshot(a), "--json").stdout)["memory_snapshot"]["devices"]
        assert device["peak_bytes"] == peak == max(p["allocated_bytes"] for p in device["points"])
        assert device["allocated_bytes"] == sum(held.values()) == sum(s["bytes"] for s in device["sites"])
        assert sum(s["bytes"] for s in device["peak_sites"]) + device["before_bytes"] == peak
        for site in device["sites"]:
            line = int(site["name"].split(":")[1].split()[0])
            assert site["bytes"] == sum(size for at, size in held.items() if a.live[at]["line"] == line)
        live, level = {}, device["peak_bytes"] + 1
        for event in a.events[:device["peak_event"] + 1]:
            if event["action"] == "alloc":
                live[event["addr"]] = event
            elif event["action"] == "free_completed":
                live.pop(event["addr"], None)
        seen = {e["addr"] for e in a.events if e["action"] == "alloc"}
        blocks = [(e["frames"][2]["line"], e["size"]) for e in live.values()]
        blocks += [(a.live[at]["line"], size) for at, size in held.items() if at not in seen]
        for site in device["peak_sites"]:
            line = int(site["name"].split(":")[1].split()[0])
            assert site["bytes"] == sum(size for at, size in blocks if at == line)


def test_an_allocation_that_failed(show):
    a = story()
    a.event("oom", 40 * MIB, device_free=7 * MIB, frames=frames(9, "attention"))
    (finding, *_) = json.loads(show(snapshot(a), "--json", code=1).stdout)["memory_snapshot"]["findings"]
    assert finding["id"] == "out-of-memory" and finding["bytes"] == 40 * MIB
    assert "asked for 40.0 MiB, the GPU had 7.00 MiB free, and the allocator held 64.0 MiB" in finding["evidence"]
    assert "expandable_segments" in finding["advice"]
    text = show(snapshot(a), code=1).stdout.decode()
    assert "Failed allocations" in text and "job/attention.py:9 attention" in text
    a.events[-1]["size"] = 65 * MIB  # more than all that is free: other segments would not help
    (finding, *_) = json.loads(show(snapshot(a), "--json", code=1).stdout)["memory_snapshot"]["findings"]
    assert "Most is held by job/forward.py:0 forward" in finding["advice"]


def test_nothing_to_change(show):
    a = Allocator()
    a.alloc(a.segment(10 * MIB), 9 * MIB + 4096, 1)
    assert b"Nothing stands out" in show(snapshot(a), code=0).stdout
    expandable = Allocator()
    segment = expandable.segment(64 * MIB, expandable=True)
    gone = expandable.alloc(segment, 32 * MIB, 0)
    expandable.alloc(segment, 8 * MIB, 0)
    expandable.free(gone)
    assert b"Nothing stands out" in show(snapshot(expandable), code=0).stdout


def test_events_that_do_not_fit_have_no_timeline(show):
    a = story()
    a.events.append({"action": "alloc", "size": 1 << 34, "addr": 1, "frames": []})
    done = show(snapshot(a), "--json", code=1)
    (device,) = json.loads(done.stdout)["memory_snapshot"]["devices"]
    assert device["peak_bytes"] is None and device["points"] == [] and device["before_bytes"] is None
    assert b"do not fit the blocks" in show(snapshot(a)).stdout


def test_two_devices_older_forms_and_packed(show, trace, tmp_path):
    a, b = story(), Allocator(device=1)
    address = b.alloc(b.segment(20 * MIB), 4 * MIB, 2)
    b.live[address]["state"] = "active_pending_free"
    old = snapshot(a, b)
    for segment in old["segments"]:
        for block in segment["blocks"]:
            block["history"] = [{"addr": block.pop("address"), "frames": block.pop("frames"), "real_size": block.pop("requested_size")}]
    path = tmp_path / "packed.pickle.gz"
    path.write_bytes(gzip.compress(pickle.dumps(old)))
    one, two = trace.report(path)["memory_snapshot"]["devices"]
    assert (one["device"], two["device"], two["awaiting_bytes"]) == (0, 1, 4 * MIB)
    assert one["sites"][0]["name"] == "job/forward.py:0 forward" and one["peak_sites"][0]["name"] == "job/forward.py:0 forward"


def test_the_page_shows_the_lines_that_hold_the_memory(show, browser, tmp_path):
    a, other = story(), Allocator(1)
    a.event("oom", 40 * MIB, device_free=7 * MIB, frames=frames(9, "<b>attention"))
    other.alloc(other.segment(8 * MIB), 4 * MIB, 2)
    page = tmp_path / "page.html"
    assert b"memory snapshot" in show(snapshot(a, other), "--html", page, code=1).stdout
    browser.look(1400, 900)
    browser.open(page.as_uri())
    assert browser.js("$('title').textContent + ': ' + $('subtitle').textContent") == "snapshot.pickle: memory snapshot"
    assert browser.js("[...document.querySelectorAll('#verdicts .cost')].map((e) => e.textContent)")[0] == "40.0 MiB"
    rows = "[...document.querySelectorAll('%s tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))"
    assert browser.js(rows % "#panel .columns") == [
        ["30.0 MiB", "48.4 %", "1", "job/forward.py:0 forward"], ["20.0 MiB", "32.3 %", "1", "job/forward.py:1 forward"],
        ["2.00 MiB", "3.2 %", "1", "job/forward.py:3 forward"]]
    assert "of it before the first event 10.0 MiB" in browser.js("$('panel').textContent")
    assert browser.js(rows % "#panel > .table")[-2:] == [
        ["30.0 MiB", "93.8 %", "1", "job/forward.py:0 forward"], ["2.00 MiB", "6.3 %", "1", "job/forward.py:3 forward"]]
    assert browser.js(rows % "#panel > .table")[0][4] == "job/<b>attention.py:9 <b>attention"
    browser.js("$('tab-gpu-1').click()")
    assert browser.js(rows % "#panel > .table") == [["4.00 MiB", "100.0 %", "1", "job/forward.py:2 forward"]]
    assert browser.complaints == [] and [u for u in browser.asked if u != page.as_uri()] == []


def test_the_schema_has_every_key(show, build):
    a = story()
    a.event("oom", 40 * MIB, device_free=7 * MIB, frames=frames(9))
    schema = json.loads((build.parent / "docs/trace.schema.json").read_text(encoding="utf-8"))

    def check(value, node):
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rpartition("/")[2]]
        if isinstance(value, dict):
            assert set(value) == set(node["properties"]) == set(node["required"])
            for key, part in value.items():
                check(part, node["properties"][key])
        for part in value if isinstance(value, list) else []:
            check(part, node["items"])

    check(json.loads(show(snapshot(a), "--json").stdout), schema["$defs"]["memory_snapshot"])


class Call:
    def __reduce__(self):
        return print, ("called",)


WRONG = {
    "no snapshot": ({"a": 1}, 'it has no list "segments"'),
    "a list": ([1, 2], 'it has no list "segments"'),
    "a call": ({"segments": [Call()]}, "it has an operation that plain values do not need"),
    "cut": (pickle.dumps(snapshot(story()))[:-500], "it ends in the middle"),
    "wild": ({"segments": [1, {"blocks": 2}, {"blocks": [None, {"size": "x"}]}], "device_traces": [[3, {"action": 4}], 5]}, None),
}


@pytest.mark.parametrize("what", WRONG)
def test_bad_pickles(show, what):
    content, said = WRONG[what]
    done = show(content)
    assert b"called" not in done.stdout
    if said:
        assert done.returncode == 3 and said in done.stderr.decode() and b"snapshot.pickle'" in done.stderr
    else:
        assert done.returncode in (0, 1)


def test_options_of_profiles_and_other_ways_are_refused(show, trace, tmp_path):
    for option in (["--csv", "kernels"], ["--step", "1"], ["--filter", "x"]):
        assert b"is a memory snapshot" in show(snapshot(story()), *option, code=2).stderr
    path = tmp_path / "snapshot.pickle"
    for words in (["cut", path, "-o", tmp_path / "c"], [path, path], ["diff", path, path]):
        done = trace(*words)
        assert done.returncode == 3 and b"analysed alone" in done.stderr
    assert b"analysed alone" in trace("-", input=path.read_bytes()).stderr
