# SPDX-License-Identifier: Apache-2.0
"""Begins and ends (B, E) with correlations, ids over 32 bits, and what both mean to `cut`."""
import copy
import random

import pytest

import build
import compare
from test_properties import told
from trace_kit import differences, forget, strict_json

WIDE = (1 << 32) + 5


def in_pairs(trace, seed):
    """Each complete event of a thread or a stream becomes a pair; its args stand with the begin, the end, or both."""
    r = random.Random(seed)
    other = copy.copy(trace)
    other.events = []
    for event in trace.events:
        if event["ph"] != "X" or event["dur"] <= 0 or r.random() < 0.3:
            other.events.append(event)
            continue
        first = {key: value for key, value in event.items() if key != "dur"}
        first.update(ph="B")
        last = {**first, "ph": "E", "ts": event["ts"] + event["dur"]}
        if "args" in event and event.get("cat") in ("cuda_runtime", "cpu_op"):
            r.choice([first, last]).pop("args")
        other.events += [first, last]
    return other


def apart(seed):
    """A small job without two rows of a lane that overlap or touch: pairs say no more than that."""
    r, trace, at = random.Random(seed), build.Trace(), 10_000
    trace.step(1, 1_000, 4_000_000)
    for index in range(30):
        trace.op("aten::mm", at, 9_000, External_id=1000 + index)
        trace.launch(at + 1_000, "gemm", at + 20_000, 7_000, took=4_000, stream=7)
        trace.events[-1]["args"]["External id"] = 1000 + index
        at += 30_000 + r.randrange(20_000)
    return trace


@pytest.mark.parametrize("seed", range(6))
def test_pairs_say_what_complete_events_say(stoker, tmp_path, seed):
    trace = apart(seed)
    whole = compare.report(stoker, trace.write(tmp_path / "x.json"))["ranks"][0]
    pairs = in_pairs(trace, seed)
    assert any(event["ph"] == "E" and event.get("cat") == "cuda_runtime" for event in pairs.events)
    first = told(stoker, pairs.write(tmp_path / "p.json"))
    rank = compare.report(stoker, tmp_path / "p.json")["ranks"][0]
    assert rank["launch"]["linked"] == 30 and rank["launch"]["median_ns"] == whole["launch"]["median_ns"]
    assert rank["operators"][0]["kernel_count"] == 30 and rank["devices"] == whole["devices"]
    assert rank["lost"] == 0
    for shuffle in range(2):
        assert told(stoker, "--threads", 2, pairs.shuffled(shuffle).write(tmp_path / "s.json")) == first


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_cut_keeps_launches_that_lie_before_the_window(trace, tmp_path, seed, wide):
    made = apart(seed)
    for event in made.events:
        if wide and "correlation" in event.get("args", {}):
            event["args"]["correlation"] += WIDE if event["args"]["correlation"] % 3 else 1 << 40
    for event in [e for e in made.events if e.get("cat") == "kernel"]:
        link = event["args"]["correlation"]
        made.events.append({"ph": "s", "id": link, "pid": made.pid, "tid": 1, "ts": event["ts"] - 19_000, "cat": "ac2g",
                            "name": "ac2g"})
        made.events.append({"ph": "f", "id": link, "pid": 0, "tid": 7, "ts": event["ts"], "cat": "ac2g", "name": "ac2g", "bp": "e"})
    for one in (made, in_pairs(made, seed)):
        path = one.shuffled(seed).write(tmp_path / "t.json")
        edge = next(e["ts"] for e in made.events if e.get("cat") == "kernel" and e["ts"] > 500_000)
        words = ["--from", edge // 1000 * 1000, "--to", edge + 200_000]
        direct = trace.report(path, *words)
        assert direct["ranks"][0]["launch"]["unlinked"] == 0 and direct["ranks"][0]["launch"]["linked"] > 3
        assert trace("cut", path, *words, "-o", tmp_path / "c.json").returncode == 0
        assert differences(forget(trace.report(tmp_path / "c.json")), forget(direct)) == []
        kept = strict_json((tmp_path / "c.json").read_text())["traceEvents"]
        begun, ended = ({e["id"] for e in kept if e["ph"] == phase} for phase in "sf")
        assert ended <= begun and len(ended) == direct["ranks"][0]["launch"]["linked"]


def test_ids_that_meet_in_their_lower_bits_stay_apart(stoker, tmp_path):
    trace = build.Trace()
    for link, name in ((5, "narrow"), (WIDE, "wide"), (WIDE + (1 << 32), "wider")):
        trace.op(name, link % 97 * 100_000, 50_000)
        trace.call("cudaLaunchKernel", link % 97 * 100_000 + 1_000, 1_000, link)
        trace.gpu("k", 20_000_000 + link % 97 * 1_000, 500, correlation=link)
    rank = compare.report(stoker, trace.write(tmp_path / "t.json"))["ranks"][0]
    assert {row["name"]: row["kernel_count"] for row in rank["operators"]} == {"narrow": 1, "wide": 1, "wider": 1}
