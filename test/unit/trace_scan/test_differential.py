# SPDX-License-Identifier: Apache-2.0
"""The scanner against Python's json: every row of a trace, from a second reading that shares nothing with the first.
Traces are generated; with SCAN_TRACES=FOLDER all of its .json and .json.gz are compared as well."""
import collections
import decimal
import gzip
import json
import os
import pathlib
import random
import re
import subprocess

import pytest

KINDS = {
    "kernel": "kernel", "Kernel": "kernel", "mtia_ccp_events": "kernel", "gpu_memcpy": "copy", "Memcpy": "copy",
    "gpu_memset": "set", "Memset": "set", "cuda_runtime": "call", "cuda_driver": "call", "Runtime": "call",
    "xpu_runtime": "call", "cpu_op": "op", "Operator": "op", "user_annotation": "annotation",
    "python_function": "python", "overhead": "overhead", "gpu_user_annotation": "gpu_annotation",
}
IGNORED = {"Trace", "cuda_event", "cuda_profiler_range", "external_correlation", "cuda_sync"}
GPU = {"kernel", "copy", "set"}
WEEK = 7 * 86400 * 10**9


def nanoseconds(value):
    """Microseconds to integer nanoseconds, half away from zero; None where there is no number."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        us = decimal.Decimal(value if isinstance(value, str) else str(value))
    except decimal.InvalidOperation:
        return None
    if not us.is_finite():
        return None
    with decimal.localcontext() as context:
        context.prec = 60
        return int((us * 1000).to_integral_value(decimal.ROUND_HALF_UP))


def number(value):
    if isinstance(value, (int, decimal.Decimal)) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"-?\d+", value):
        return int(value)
    return None


def known(value):
    """A device's or a stream's number, -1 where it is none."""
    got = number(value)
    return -1 if got is None else got


def identity(value):
    """An id of 32 bits, 0 for none."""
    got = number(value)
    return got if got is not None and 0 < got < 2**32 - 1 else 0


def expected(document):
    events = document if isinstance(document, list) else document["traceEvents"]
    rows = collections.Counter()
    for event in events:
        complete = "X" if "ts" in event and "dur" in event else None  # without a phase
        if event.get("ph", complete) != "X" or event.get("cat") in IGNORED:
            continue
        kind = KINDS.get(event.get("cat"), "other")
        start, duration = nanoseconds(event.get("ts")), nanoseconds(event.get("dur"))
        if start is None or duration is None or duration > WEEK:
            continue
        duration = max(duration, 0)
        if kind in GPU | {"gpu_annotation"} and start == duration == 0:
            continue
        args = event.get("args") or {}
        link = external = None
        if kind in GPU or kind == "call":
            link = identity(args.get("correlation"))
        elif kind == "op":
            link = identity(args.get("External id", args.get("external id")))
        if kind in GPU:
            external = identity(args.get("External id", args.get("external id")))
        if kind in GPU | {"gpu_annotation"}:
            place = ("gpu", known(args.get("device", event.get("pid"))),
                     known(args.get("stream", re.sub(r"^stream ", "", str(event.get("tid"))))))
        else:
            place = ("cpu", number(event.get("pid")) or 0, number(event.get("tid")) or 0)
        rows[(kind, start, duration, place, link or 0, external, event.get("name") or "")] += 1
    # A GPU operation or a call that stands there twice, id and all, is one.
    for row in rows:
        if row[0] in GPU | {"call"} and row[4]:
            rows[row] = 1
    return rows, len(events)


ROW = re.compile(r'(?:gpu|host|mark) (\w+) start=(-?\d+) dur=(\d+) lane=(\d+) link=(\d+) extra=-?\d+'
                 r'(?: external=(\d+))? name=(.*)')
LANE = re.compile(r"lane (\d+) gpu=(\d) device=(-?\d+) pid=(-?\d+) tid=(-?\d+)")


def scanned(build, path, threads):
    dump = build / "test/unit/trace_scan/scan_dump"
    text = subprocess.run([dump, path, str(threads)], check=True, capture_output=True).stdout.decode()
    lanes, rows, count, lost = {}, collections.Counter(), None, 0
    for line in text.split("\n"):
        if match := LANE.match(line):
            number_, gpu, device, pid, tid = map(int, match.groups())
            lanes[number_] = ("gpu", device, tid) if gpu else ("cpu", pid, tid)
        elif match := ROW.match(line):
            kind, start, duration, lane, link, external, name = match.groups()
            rows[(kind, int(start), int(duration), lanes[int(lane)], int(link),
                  None if external is None or kind == "gpu_annotation" else int(external),
                  None if name == "none" else json.loads(name))] += 1
        elif match := re.match(r"read bytes=\d+ events=(\d+)", line):
            count = int(match.group(1))
        elif match := re.match(r"lost (syntax|truncated)\w*=(\d+)", line):
            lost += int(match.group(2))
    return rows, count, lost


def compare(build, path, document):
    rows, count = expected(document)
    for threads in (0, 2):
        got_rows, got_count, lost = scanned(build, path, threads)
        assert got_count == count
        assert lost == 0
        assert got_rows - rows == collections.Counter()
        assert rows - got_rows == collections.Counter()


def some_event(rng):
    event = {
        "ph": rng.choice("XXXXXXMsfi"),
        "cat": rng.choice(list(KINDS) + ["Trace", "cuda_event", "something else"]),
        "name": rng.choice(["aten::mm", "k<1>", "é\n\"\\", "", "Memcpy DtoD (Device -> Device)", "x" * 90, "\U0001f600"]),
        "pid": rng.choice([0, 1, 2910249]),
        "tid": rng.choice([7, "7", 2910249, -1]),
        "ts": rng.choice([rng.randrange(10**6), rng.randrange(10**15) / 1000, f"{rng.randrange(10**4)}.5", 1e-4, -3, 0]),
        "dur": rng.choice([rng.randrange(10**4), rng.randrange(10**7) / 1000, 0, -1, 10**12]),
        "args": {},
    }
    for key in rng.sample(["correlation", "External id", "stream", "device"], rng.randrange(5)):
        event["args"][key] = rng.choice([0, 1, 2, 77, 4294967294 if key in ("correlation", "External id") else 3])
    for key in rng.sample(["Input Dims", "Ev Idx", "nested", "Call stack", "nothing"], rng.randrange(4)):
        event["args"][key] = rng.choice([[[1, 2], []], 3.25, {"a": [{"b": "]}"}]}, "a;\"b\";c", None, True, 1e300])
    for key in rng.sample(list(event), rng.randrange(3)):
        del event[key]
    items = list(event.items())
    if rng.random() < 0.3:
        rng.shuffle(items)
    return dict(items)


@pytest.mark.parametrize("seed", range(12))
def test_generated(build, seed, tmp_path):
    rng = random.Random(seed)
    events = [some_event(rng) for _ in range(rng.choice([0, 1, 50, 2000]))]
    document = rng.choice([lambda: events, lambda: {"traceEvents": events, "distributedInfo": {"rank": 1}}])()
    style = rng.choice([{}, {"indent": 4}, {"indent": 1}, {"separators": (",", ":")}, {"ensure_ascii": False}])
    text = json.dumps(document, sort_keys=rng.random() < 0.2, **style)
    path = tmp_path / "trace.json"
    path.write_text(text)
    compare(build, path, json.loads(text, parse_float=decimal.Decimal))


FOLDER = os.environ.get("SCAN_TRACES")


@pytest.mark.parametrize("path", sorted(pathlib.Path(FOLDER).glob("*.json*")) if FOLDER else [None], ids=str)
def test_recorded(build, path, tmp_path):
    if path is None:
        pytest.skip("SCAN_TRACES names a folder of profiles to try")
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    plain = tmp_path / "trace.json"
    plain.write_bytes(data)
    compare(build, plain, json.loads(data, parse_float=decimal.Decimal))
