# SPDX-License-Identifier: Apache-2.0
"""Exports of Nsight Systems, made here with the tables and columns that its exporter documents."""
import sqlite3
import subprocess

import pytest

TID = 0x0001_0000_0000_0000 | 500 << 24 | 501  # hardware bits, process 500, thread 501
PID = 0x0001_0000_0000_0000 | 500 << 24


def dump(build, path):
    done = subprocess.run([build / "test/unit/nsys/nsys-dump", path], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.splitlines(), done.stderr


def table(db, name, columns, *rows):
    db.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
    for row in rows:
        db.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)


@pytest.fixture
def db(tmp_path):
    made = sqlite3.connect(tmp_path / "x.sqlite")
    table(made, "StringIds", ["id", "value"], (1, "void gemm<float>(int)"), (2, "cudaLaunchKernel_v7000"), (3, "train"),
          (4, "poll"), (5, "main thread"))
    yield made
    made.close()


def kernels(db, *rows):
    table(db, "CUPTI_ACTIVITY_KIND_KERNEL",
          ["start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "demangledName", "shortName",
           "registersPerThread", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "staticSharedMemory",
           "dynamicSharedMemory", "graphNodeId"], *rows)


def test_everything(db, build, tmp_path):
    kernels(db, (1000, 3000, 0, 1, 7, 42, PID, 1, 1, 64, 8, 1, 1, 256, 1, 1, 1024, 2048, None))
    table(db, "CUPTI_ACTIVITY_KIND_MEMCPY",
          ["start", "end", "deviceId", "streamId", "correlationId", "globalPid", "bytes", "copyKind", "srcKind", "dstKind"],
          (100, 600, 0, 7, 41, PID, 4096, 1, 0, 2))
    table(db, "CUPTI_ACTIVITY_KIND_MEMSET",
          ["start", "end", "deviceId", "streamId", "correlationId", "globalPid", "bytes", "memKind"],
          (700, 710, 0, 7, 40, PID, 128, 2))
    table(db, "CUPTI_ACTIVITY_KIND_RUNTIME", ["start", "end", "globalTid", "correlationId", "nameId", "returnValue"],
          (900, 950, TID, 42, 2, 0))
    table(db, "NVTX_EVENTS", ["start", "end", "eventType", "text", "globalTid", "textId"],
          (50, 4000, 59, None, TID, 3), (60, 70, 60, "own text", TID, None), (65, None, 34, "mark", TID, None))
    table(db, "OSRT_API", ["start", "end", "globalTid", "nameId"], (10, 20, TID, 4))
    table(db, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
          ["start", "end", "deviceId", "streamId", "correlationId", "globalPid", "syncType"], (960, 3010, 0, 7, 43, PID, 3))
    table(db, "ThreadNames", ["nameId", "globalTid"], (5, TID))
    table(db, "TARGET_INFO_GPU", ["id", "name", "totalMemory", "smCount", "computeMajor", "computeMinor"],
          (3, "NVIDIA H100", 85 << 30, 132, 9, 0))
    table(db, "TARGET_INFO_CUDA_DEVICE", ["gpuId", "cudaId", "pid"], (3, 0, 500))
    table(db, "TARGET_INFO_SESSION_START_TIME", ["utcEpochNs"], (1700000000000000000,))
    table(db, "TARGET_INFO_SYSTEM_ENV", ["name", "value"], ("Hostname", "node7"))
    table(db, "DIAGNOSTIC_EVENT", ["timestamp", "severity", "text"], (0, 1, "fine"), (0, 2, "Events were lost"))
    table(db, "CUDA_GPU_MEMORY_USAGE_EVENTS",
          ["start", "globalPid", "deviceId", "address", "bytes", "memoryOperationType", "memKind"],
          (5, PID, 0, 4096, 1 << 20, 0, 2), (6, PID, 0, 4096, 1 << 20, 1, 2), (7, PID, 0, 0, 99, 0, 1))
    db.commit()
    code, lines, error = dump(build, tmp_path / "x.sqlite")
    assert (code, error) == (0, "")
    assert lines == [
        "copy 100 500 gpu3/7 link=41 bytes=4096 kind=1 1->3 Memcpy HtoD (Pageable -> Device)",
        "set 700 10 gpu3/7 link=40 bytes=128 kind=6 0->3 Memset (Device)",
        "kernel 1000 2000 gpu3/7 link=42 grid=8,1,1 block=256,1,1 regs=64 shared=3072 graph=0 void gemm<float>(int)",
        "other 10 10 500/501 link=0 poll",
        "annotation 50 3950 500/501 link=0 train",
        "annotation 60 10 500/501 link=0 own text",
        "call 900 50 500/501 link=42 cudaLaunchKernel_v7000",
        "sync 960 2050 gpu3/7 Stream Sync",
        "memory 5 gpu3 1048576",
        "memory 6 gpu3 -1048576",
        "device 3 NVIDIA H100 sms=132 cc=9.0",
        "label 500/501 main thread",
        "host node7 base 1700000000000000000 events 12 ignored 2 lost 0",
        "loss dropped_by_profiler 0 Events were lost",
    ]


def test_an_older_export_has_fewer_columns(db, build, tmp_path):
    table(db, "CUPTI_ACTIVITY_KIND_KERNEL", ["start", "end", "deviceId", "streamId", "correlationId", "shortName"],
          (10, 30, 1, 7, 5, 1), (40, 35, 1, 7, 6, 99), (None, 50, 1, 7, 7, 1))
    db.commit()
    code, lines, _ = dump(build, tmp_path / "x.sqlite")
    assert code == 0
    assert lines[0].startswith("kernel 10 20 gpu1/7 link=5 grid=0,0,0")
    assert lines[1].startswith("kernel 40 0 gpu1/7 link=6") and lines[1].endswith(" kernel")
    assert "lost 1" in lines[2]
    assert {line.split()[1] for line in lines[3:]} == {"bad_duration", "no_time"}


def test_correlations_of_two_processes_stay_apart(db, build, tmp_path):
    other = 0x0001_0000_0000_0000 | 600 << 24
    kernels(db, (10, 20, 0, 1, 7, 5, PID, 1, 1, *[0] * 9, None), (10, 20, 0, 1, 7, 5, other, 1, 1, *[0] * 9, 3))
    table(db, "CUPTI_ACTIVITY_KIND_RUNTIME", ["start", "end", "globalTid", "correlationId", "nameId"],
          (1, 2, PID | 1, 5, 2), (3, 4, other | 1, 5, 2))
    table(db, "TARGET_INFO_CUDA_DEVICE", ["gpuId", "cudaId", "pid"], (0, 0, 500), (1, 0, 600))
    db.commit()
    code, lines, _ = dump(build, tmp_path / "x.sqlite")
    assert code == 0
    links = {line.split()[3]: line.split()[4] for line in lines if line.startswith(("kernel", "call"))}
    assert links["gpu0/7"] == links["500/1"]
    assert links["gpu1/7"] == links["600/1"]
    assert links["gpu0/7"] != links["gpu1/7"]
    assert "graph=1" in [line for line in lines if "gpu1/7" in line][0]


def test_graphs_recorded_whole(db, build, tmp_path):
    table(db, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", ["start", "end", "deviceId", "streamId", "correlationId", "graphId"],
          (10, 110, 0, 13, 9, 1))
    db.commit()
    _, lines, _ = dump(build, tmp_path / "x.sqlite")
    assert lines[0] == ("kernel 10 100 gpu0/13 link=9 grid=0,0,0 block=0,0,0 regs=0 shared=0 graph=1 "
                        "CUDA graph (recorded whole)")


def test_other_databases(db, build, tmp_path):
    db.commit()
    code, _, error = dump(build, tmp_path / "x.sqlite")
    assert code == 1 and "no export of Nsight Systems" in error
    whole = (tmp_path / "x.sqlite").read_bytes()
    (tmp_path / "cut.sqlite").write_bytes(whole[:5000])
    code, _, error = dump(build, tmp_path / "cut.sqlite")
    assert code == 1 and error


def test_damaged_anywhere(db, build, tmp_path):
    kernels(db, *[(i, i + 5, 0, 1, 7, i, PID, 1, 1, *[0] * 9, None) for i in range(300)])
    db.commit()
    whole = (tmp_path / "x.sqlite").read_bytes()
    for at in range(100, len(whole), 997):
        (tmp_path / "bad.sqlite").write_bytes(whole[:at] + b"\xff\x00\xff" + whole[at + 3:])
        code, _, _ = dump(build, tmp_path / "bad.sqlite")
        assert code in (0, 1)


TRACE = """NOTICE: Existing SQLite export found: x.sqlite
Processing [x.sqlite] with [/opt/nsys/cuda_gpu_trace.py]...

Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),\
Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name
9223372036854775,1504,5,,,,,,,,,,0.004,2.7,Pageable,Device,NVIDIA H100 (1),1,,7,[CUDA memcpy Host-to-Device]
9223372036856000,2000,6,8,2,1,128,1,1,32,0.000,0.001,,,,,NVIDIA H100 (1),1,,7,"void k<int, ""x"">(float)"
9223372036859000,10,7,,,,,,,,,,0.000,1,,Device,NVIDIA H100 (1),1,,7,[CUDA memset]
oops,,,,,,,,,,,,,,,,,,,,nothing
"""


def test_csv_trace(build, tmp_path):
    (tmp_path / "x.csv").write_text(TRACE)
    code, lines, error = dump(build, tmp_path / "x.csv")
    assert (code, error) == (0, "")
    assert lines == [
        "table trace",
        "copy 9223372036854775 1504 gpu1/7 link=5 bytes=4000 kind=1 1->3 [CUDA memcpy Host-to-Device]",
        'kernel 9223372036856000 2000 gpu1/7 link=6 grid=8,2,1 block=128,1,1 regs=32 shared=0 graph=0 void k<int, "x">(float)',
        "set 9223372036859000 10 gpu1/7 link=7 bytes=0 kind=6 0->3 [CUDA memset]",
        "host  base 0 events 4 ignored 0 lost 1",
        f"loss syntax {TRACE.index('oops')} oops,,,,,,,,,,,,,,,,,,,,nothing\n".rstrip("\n"),
    ]


@pytest.mark.parametrize("unit, factor", [("ns", 1), ("us", 1000), ("ms", 10**6), ("s", 10**9)])
def test_units(build, tmp_path, unit, factor):
    (tmp_path / "x.csv").write_text(f"Start ({unit}),Duration ({unit}),Device,Strm,Name\n2,3,0,7,k\n")
    _, lines, _ = dump(build, tmp_path / "x.csv")
    assert lines[1].startswith(f"kernel {2 * factor} {3 * factor} gpu0/7 ")


@pytest.mark.parametrize("header, table_name", [
    ("Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name", "kernels"),
    ("Time(%),Total Time (ns),Instances,Average,Med,Minimum,Maximum,StdDev,Name", "kernels"),
    ("Time (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Operation", "copies"),
    ("Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name", "calls"),
    ("Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Style,Range", "ranges"),
], ids=["kernels", "old kernels", "copies", "calls", "ranges"])
def test_summaries(build, tmp_path, header, table_name):
    style = "PushPop," if "Style" in header else ""
    (tmp_path / "x.csv").write_text(f"\nNOTICE: x\n{header}\n60.0,3000,2,1500.0,1500,1000,2000,707.1,{style}gemm\n")
    code, lines, _ = dump(build, tmp_path / "x.csv")
    assert code == 0
    assert lines[:2] == [f"table {table_name}", "row 2 3000 1000 2000 1500.0 gemm"]


@pytest.mark.parametrize("text", ["", "a,b,c\n1,2,3\n", '"unclosed', "{}", '[{"ph":"X"}]', "\n" * 5000, "," * 5000],
                         ids=["empty", "other", "quote", "object", "array", "lines", "commas"])
def test_other_texts(build, tmp_path, text):
    (tmp_path / "x.csv").write_text(text)
    code, _, error = dump(build, tmp_path / "x.csv")
    assert code == 1 and error
