# SPDX-License-Identifier: Apache-2.0
"""What stood at the peak of a device: one training step in which each kind of block comes and goes."""
import json

import pytest

MIB = 1 << 20
FORWARD, BACKWARD = 1, 2


class Step:
    """Events of a step; `total` is what the allocator holds, 100 MiB of it from before the profile."""

    def __init__(self, addresses=True):
        self.events, self.total, self.held, self.addresses = [], 100 * MIB, {}, addresses

    def span(self, tid, name, at, length, cat="cpu_op"):
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": at, "dur": length, "args": {}})

    def memory(self, tid, at, block, size):
        """`block` comes with `size` MiB, or goes (0)."""
        change = size * MIB if size else -self.held.pop(block)
        if size:
            self.held[block] = change
        self.total += change
        args = {"Device Type": 1, "Device Id": 0, "Bytes": change, "Total Allocated": self.total, "Total Reserved": 256 * MIB}
        if self.addresses:
            args["Addr"] = 0x7F0000000000 + block * 4096
        self.events.append({"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": tid, "ts": at,
                            "args": args})


def training(addresses=True):
    s = Step(addresses)
    s.span(FORWARD, "aten::linear", 100, 100)
    s.span(FORWARD, "aten::addmm", 110, 50)
    s.memory(FORWARD, 120, 1, 10)  # activation, of addmm
    s.span(FORWARD, "aten::relu", 300, 100)
    s.memory(FORWARD, 310, 2, 20)  # activation
    s.memory(FORWARD, 320, 3, 5)   # gone before relu ends
    s.memory(FORWARD, 390, 3, 0)
    s.memory(FORWARD, 450, 4, 7)   # outside of all operators: unknown
    s.span(BACKWARD, "autograd::engine::evaluate_function: ReluBackward0", 500, 100)
    s.span(BACKWARD, "aten::threshold_backward", 510, 50)
    s.memory(BACKWARD, 520, 5, 8)  # a gradient that the pass itself uses up: temporary
    s.memory(BACKWARD, 580, 2, 0)
    s.span(BACKWARD, "autograd::engine::evaluate_function: AddmmBackward0", 700, 100)
    s.span(BACKWARD, "aten::mm", 710, 60)
    s.memory(BACKWARD, 720, 6, 12)  # gradient
    s.memory(BACKWARD, 790, 5, 0)
    s.memory(BACKWARD, 795, 1, 0)
    s.span(FORWARD, "Optimizer.step#AdamW.step", 1000, 200, "user_annotation")
    s.span(FORWARD, "aten::zeros_like", 1010, 20)
    s.memory(FORWARD, 1015, 7, 24)  # state
    s.span(FORWARD, "aten::_foreach_add", 1100, 50)
    s.memory(FORWARD, 1110, 8, 50)  # gone with the operator: temporary, and the peak
    s.memory(FORWARD, 1140, 8, 0)
    s.memory(FORWARD, 1300, 6, 0)
    return s


def device_of(trace, tmp_path, events, *options):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    (device,) = trace.report(path, *options)["ranks"][0]["memory"]
    return device


def test_the_peak_in_the_optimizer(trace, tmp_path):
    device = device_of(trace, tmp_path, training().events)
    assert (device["peak_allocated_bytes"], device["reserved_at_peak_bytes"]) == (193 * MIB, 256 * MIB)
    assert device["by_category"] == {"before_profile": 100 * MIB, "activation": 0, "gradient": 12 * MIB, "optimizer": 24 * MIB,
                                     "temporary": 50 * MIB, "unknown": 7 * MIB}
    assert [(h["name"], h["category"], h["bytes"] // MIB, h["blocks"]) for h in device["holders"]] == [
        ("aten::_foreach_add", "temporary", 50, 1), ("aten::zeros_like", "optimizer", 24, 1), ("aten::mm", "gradient", 12, 1),
        (None, "unknown", 7, 1)]


def test_the_peak_in_the_backward_pass(trace, tmp_path):
    step = training()
    step.events = [e for e in step.events if e["ts"] not in (1110, 1140)]
    for event in step.events:
        if event["name"] == "[memory]" and event["ts"] == 520:
            event["args"]["Total Allocated"] += 200 * MIB  # something else that nobody recorded
    device = device_of(trace, tmp_path, step.events)
    assert device["by_category"] == {"before_profile": 300 * MIB, "activation": 30 * MIB, "gradient": 0, "optimizer": 0,
                                     "temporary": 8 * MIB, "unknown": 7 * MIB}
    assert device["peak_op"] == "aten::threshold_backward"
    assert [h["name"] for h in device["holders"]] == ["aten::relu", "aten::addmm", "aten::threshold_backward", None]


@pytest.mark.parametrize("drop, category", [((), "gradient"), ((1000,), "unknown")])
def test_a_gradient_is_known_by_the_optimizer_alone(trace, tmp_path, drop, category):
    events = [e for e in training().events if e["ts"] not in (1015, 1110, 1140, *drop)]
    for event in events:
        if event["name"] == "[memory]" and event["ts"] == 720:
            event["args"]["Total Allocated"] += 500 * MIB
    device = device_of(trace, tmp_path, events)
    assert [h["category"] for h in device["holders"] if h["name"] == "aten::mm"] == [category]


def test_without_addresses_or_totals(trace, tmp_path):
    device = device_of(trace, tmp_path, training(addresses=False).events)
    assert device["by_category"]["unknown"] == 193 * MIB and device["holders"] == []
    assert sum(device["by_category"].values()) == 193 * MIB
    events = training().events
    for event in events:
        event["args"].pop("Total Allocated", None)
    device = device_of(trace, tmp_path, events)
    assert device["from_totals"] is False and device["reserved_at_peak_bytes"] is None
    assert device["by_category"]["before_profile"] == 0 and sum(device["by_category"].values()) == 93 * MIB


def test_the_text_says_what_stood_there(trace, tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": training().events}))
    text = trace(path).stdout.decode()
    assert "What stood at the peak" in text and "optimizer 24.0 MiB" in text
    assert "reserved and not allocated 63.0 MiB (24.6 %)" in text
    assert "aten::zeros_like" in text
    rows = trace(path, "--csv", "memory_holders").stdout.decode().splitlines()
    assert rows[:2] == ["rank,device,name,category,bytes,blocks", f"0,0,aten::_foreach_add,temporary,{50 * MIB},1"]
