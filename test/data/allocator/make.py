#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the memory snapshots beside it, which test/unit/allocator/test_allocator.c reads. Run it after a change of it, then the test with
STOKER_UPDATE=1; look at what has changed."""
import gzip
import pathlib
import pickle
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "scenario/trace"))
from test_snapshot import MIB, Allocator, frames, snapshot, story  # noqa: E402


def busy(seed, device=0):
    """Sizes of whole MiB, so that lines and levels tie; blocks from before the recording; more events than points are kept."""
    dice, a, held = random.Random(seed), Allocator(device), []
    for step in range(700):
        if step == 30:
            a.events.clear()
        if held and dice.random() < 0.48:
            a.free(held.pop(dice.randrange(len(held))))
            continue
        size = dice.choice([1, 1, 2, 4]) * MIB
        segment = next((s for s in a.segments if s["used"] + size <= s["total_size"]), None) or a.segment(64 * MIB, dice.random() < 0.3)
        held.append(a.alloc(segment, size, dice.randrange(4), asked=size - dice.choice([0, 512])))
    return a


def failed(size):
    a = story()
    for number in range(3):
        a.event("oom", size, device_free=7 * MIB, frames=frames(9 + number, "attention"))
    del a.events[-1]["device_free"]
    return a


def pending():
    a = Allocator(device=1)
    address = a.alloc(a.segment(20 * MIB), 4 * MIB, 2)
    a.live[address]["state"] = "active_pending_free"
    a.segment(8 * MIB)
    return a


def older(what):
    for segment in what["segments"]:
        for block in segment["blocks"]:
            block["history"] = [{"addr": block.pop("address"), "frames": block.pop("frames"), "real_size": block.pop("requested_size")}]
    return what


def odd():
    """What fits no timeline, a device without events, frames that say nothing."""
    a, b = story(), Allocator(device=2)
    a.events.append({"action": "alloc", "size": 1 << 34, "addr": 1, "frames": []})
    b.stacks[0] = [{"filename": "??", "line": 0, "name": "at::empty_cuda"}]
    b.stacks[1] = [{"filename": "/usr/lib/python3.12/site-packages/torch/nn/modules/linear.py", "line": 125, "name": "forward"}]
    for line in (0, 1):
        b.alloc(b.segment(32 * MIB), 31 * MIB, line)
    b.events.clear()
    return snapshot(a, b)


def share(device, parts):
    """A segment whose blocks are (MiB / 10, in use) after each other."""
    at, blocks = 0, []
    for size, state in parts:
        blocks.append({"size": size, "requested_size": size, "address": at, "state": "active_allocated" if state else "inactive", "frames": []})
        at += size
    return {"address": device << 40, "total_size": at, "device": device, "is_expandable": False, "blocks": blocks}


def limits():
    """Free parts of a tenth and of a little less; sizes beyond what a block may have; as many failures as are kept, and one more."""
    tenth = 10 * MIB
    segments = [share(0, [(tenth, False), (9 * tenth, True)]), share(1, [(tenth - 100, False), (9 * tenth + 100, True)]),
                share(2, [(9 * tenth, True)]), share(2, [(tenth, False)]), share(3, [(9 * tenth + 100, True)]), share(3, [(tenth - 100, False)]),
                share(4, [(1 << 41, True), (-5, True), (7, False), (7, False)])]
    events = [[] for _ in range(4)] + [[{"action": "oom", "size": n, "time_us": n, "frames": []} for n in range(65)]]
    return {"segments": segments, "device_traces": events}


WILD = {"segments": [1, {"blocks": 2}, {"blocks": [None, {"size": "x"}]}], "device_traces": [[3, {"action": 4}], 5]}
SNAPSHOTS = {"story": snapshot(story()), "busy": snapshot(busy(1), busy(2, 1)), "failed": snapshot(failed(40 * MIB)),
             "failed-more": snapshot(failed(65 * MIB)), "older": older(snapshot(story(), pending())), "odd": odd(), "limits": limits(), "wild": WILD}

for name, what in SNAPSHOTS.items():
    packed = gzip.compress(pickle.dumps(what, protocol=2 + len(name) % 3), 9, mtime=0)
    (HERE / f"{name}.pickle.gz").write_bytes(packed)
