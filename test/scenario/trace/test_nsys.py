# SPDX-License-Identifier: Apache-2.0
"""Exports of Nsight Systems through the same door as trace JSON."""
import gzip
import json
import sqlite3
import subprocess

import pytest

TID = 500 << 24 | 501
PID = 500 << 24


@pytest.fixture
def trace(stoker):
    def run(*words):
        return subprocess.run([stoker, "trace", *map(str, words)], capture_output=True, text=True, timeout=120)

    return run


def made(path):
    """Two kernels, 3 us apart: the host launches late, inside an NVTX range."""
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE StringIds (id, value)")
    db.executemany("INSERT INTO StringIds VALUES (?, ?)",
                   [(1, "gemm"), (2, "cudaLaunchKernel_v7000"), (3, "train"), (4, "cudaMalloc_v3020")])
    db.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId, globalPid, demangledName)")
    db.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 7, ?, ?, 1)",
                   [(1000, 3000, 1, PID), (53000, 58000, 2, PID)])
    db.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId, nameId)")
    db.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?)",
                   [(100, 300, TID, 1, 2), (3500, 52000, TID, 3, 4), (52100, 52300, TID, 2, 2)])
    db.execute("CREATE TABLE NVTX_EVENTS (start, end, globalTid, eventType, text, textId)")
    db.execute("INSERT INTO NVTX_EVENTS VALUES (0, 60000, ?, 59, NULL, 3)", (TID,))
    db.commit()
    db.close()


def test_sqlite(trace, tmp_path):
    made(tmp_path / "p.sqlite")
    done = trace(tmp_path / "p.sqlite", "--json")
    assert done.returncode in (0, 1) and done.stderr == ""
    rank = json.loads(done.stdout)["ranks"][0]
    device = rank["devices"][0]
    assert rank["framework"] == "nsys" and rank["events"] == 6
    assert (device["span_ns"], device["busy_ns"], device["idle_ns"], device["gap_count"]) == (57000, 7000, 50000, 1)
    assert (rank["launch"]["linked"], rank["launch"]["unlinked"]) == (2, 0)
    assert rank["gaps"][0]["cause"] == "allocator"
    assert [a["name"] for a in rank["annotations"]] == ["train"]
    assert json.loads(trace(tmp_path / "p.sqlite", "--json", "--no-cpu").stdout)["ranks"][0]["launch"]["linked"] == 0


@pytest.mark.parametrize("kind", [59, 60], ids=["push and pop", "start and end"])
@pytest.mark.parametrize("registered", [False, True])
def test_ranges_of_nvtx_are_steps_and_name_collectives(trace, tmp_path, kind, registered):
    """Four steps, in each a product and what NCCL's own range says was an all-reduce."""
    made(tmp_path / "p.sqlite")
    db = sqlite3.connect(tmp_path / "p.sqlite")
    for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"):
        db.execute(f"DELETE FROM {table}")
    db.executemany("INSERT INTO StringIds VALUES (?, ?)",
                   [(10, "ncclAllReduce"), (11, "ncclDevKernel_Generic")] + [(20 + n, f"step {n}") for n in range(4)])
    for n in range(4):
        t = n * 1_000_000
        text = (None, 20 + n) if registered else (f"step {n}", None)
        db.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?, ?)", (t, t + 900_000, TID, kind, *text))
        db.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, 59, NULL, 10)", (t + 500_000, t + 520_000, TID))
        db.execute("INSERT INTO NVTX_EVENTS VALUES (?, NULL, ?, 34, ?, NULL)", (t + 10, TID, f"step {n + 100}"))  # a mark
        db.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, 2)",
                       [(t + 1_000, t + 3_000, TID, 2 * n + 1), (t + 501_000, t + 503_000, TID, 2 * n + 2)])
        db.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 7, ?, ?, ?)",
                       [(t + 5_000, t + 405_000, 2 * n + 1, PID, 1), (t + 505_000, t + 605_000, 2 * n + 2, PID, 11)])
    db.commit()
    db.close()
    rank = json.loads(trace(tmp_path / "p.sqlite", "--json").stdout)["ranks"][0]
    assert [(s["name"], s["number"], s["duration_ns"]) for s in rank["steps"]] == [(f"step {n}", n, 900_000) for n in range(4)]
    assert [d["busy_ns"] for s in rank["steps"] for d in s["devices"]] == [500_000] * 4
    assert [c["name"] for c in rank["collectives"]] == ["all_reduce"] * 4
    one = json.loads(trace(tmp_path / "p.sqlite", "--json", "--step", "2").stdout)["ranks"][0]
    assert (one["devices"][0]["operation_count"], one["devices"][0]["busy_ns"]) == (2, 500_000)


def test_what_cannot_be_done_with_sqlite(trace, stoker, tmp_path):
    made(tmp_path / "p.sqlite")
    done = trace("cut", tmp_path / "p.sqlite", "-o", tmp_path / "x.json")
    assert done.returncode == 3 and "Nsight" in done.stderr, done.stderr
    assert not (tmp_path / "x.json").exists()
    with open(tmp_path / "p.sqlite", "rb") as file:
        done = subprocess.run([stoker, "trace", "-"], stdin=file, capture_output=True, text=True, timeout=120)
    assert done.returncode == 3 and "cannot be read from standard input; give its file" in done.stderr
    sqlite3.connect(tmp_path / "other.sqlite").execute("CREATE TABLE a (b)")
    done = trace(tmp_path / "other.sqlite")
    assert done.returncode == 3 and "nsys export" in done.stderr


def test_table_of_events(trace, tmp_path):
    text = ("Start (ns),Duration (ns),CorrId,Device,Strm,Name\n"
            "1000,2000,1,GPU (0),7,gemm\n53000,5000,2,GPU (0),7,gemm\n")
    (tmp_path / "p.csv").write_text(text)
    with gzip.open(tmp_path / "q.csv.gz", "wt") as out:
        out.write(text)
    for name in ("p.csv", "q.csv.gz"):
        device = json.loads(trace(tmp_path / name, "--json").stdout)["ranks"][0]["devices"][0]
        assert (device["span_ns"], device["busy_ns"], device["gap_count"]) == (57000, 7000, 1)


def test_summary(trace, tmp_path):
    (tmp_path / "p.csv").write_text("Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
                                    "60.0,3000,2,1500.0,1500,1000,2000,707.1,ncclDevKernel_AllReduce\n")
    done = trace(tmp_path / "p.csv", "--json")
    rank = json.loads(done.stdout)["ranks"][0]
    assert [(k["name"], k["count"], k["total_ns"], k["class"]) for k in rank["kernels"]] == [
        ("ncclDevKernel_AllReduce", 2, 3000, "communication")]
    assert any("summary" in note for note in json.loads(done.stdout)["notes"])
    assert "ncclDevKernel_AllReduce" in trace(tmp_path / "p.csv").stdout
