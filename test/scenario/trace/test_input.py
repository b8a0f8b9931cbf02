# SPDX-License-Identifier: Apache-2.0
"""Whatever form a profile comes in, the numbers are the same; what is no profile is named as what it is."""
import contextlib
import gzip
import json
import os
import sqlite3
import threading
import zlib

import pytest
from trace_kit import OF_THE_FILE, Profile, busy_profile, forget, plain_numbers

PROFILE = busy_profile(1)
TEXT = PROFILE.dump().encode()


@pytest.fixture
def plain(trace, tmp_path):
    return forget(trace.report(PROFILE.write(tmp_path / "plain.json")))


def members(text):
    middle = len(text) // 2
    return gzip.compress(text[:middle], 1) + gzip.compress(b"") + gzip.compress(text[middle:], 9)


def zstd(text):
    """A frame of blocks that are stored (RFC 8878): 4 bytes of content size, one segment."""
    blocks = [text[i:i + 65536] for i in range(0, len(text), 65536)] or [b""]
    heads = [(len(block) << 3 | (block is blocks[-1])).to_bytes(3, "little") for block in blocks]
    return b"\x28\xb5\x2f\xfd\xa0" + len(text).to_bytes(4, "little") + b"".join(map(bytes.__add__, heads, blocks))


FORMS = {
    "gzip": gzip.compress(TEXT),
    "members": members(TEXT),
    "padding behind gzip": gzip.compress(TEXT) + bytes(512),
    "stored": gzip.compress(TEXT, 0),
    "gzip twice": gzip.compress(gzip.compress(TEXT)),
    "zstd": zstd(TEXT),
    "zstd frames": zstd(TEXT[:1000]) + zstd(b"") + zstd(TEXT[1000:]),
    "zstd in gzip": gzip.compress(zstd(TEXT)),
    "indented": PROFILE.dump(indent=4).encode(),
    "blanks around": b"\n\n  " + TEXT + b"\n\n",
    "metadata behind": plain_numbers(json.dumps({"traceEvents": PROFILE.events, **PROFILE.head, **PROFILE.tail})).encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_a_file(trace, tmp_path, plain, form):
    path = tmp_path / "misnamed.bin"
    path.write_bytes(FORMS[form])
    assert forget(trace.report(path)) == plain


@pytest.mark.parametrize("form", ["gzip", "members", "indented", "zstd in gzip"])
@pytest.mark.parametrize("threads", [1, 4])
def test_standard_input(trace, plain, form, threads):
    assert forget(trace.report("-", "-j", threads, input=FORMS[form])) == plain


def test_a_redirected_file(trace, tmp_path, plain):
    with open(PROFILE.write(tmp_path / "t.json"), "rb") as file:
        assert forget(trace.report("-", stdin=file)) == plain


def test_a_named_pipe(trace, tmp_path, plain):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(FORMS["gzip"]))
    writer.start()
    assert forget(trace.report(pipe)) == plain
    writer.join()


def test_a_bare_list(trace, tmp_path):
    small = Profile().launched("k", 0, 10_000, 5_000, 1)
    bare = tmp_path / "bare.json"
    bare.write_text(plain_numbers(json.dumps(small.events)))
    said = ({"framework", "with_stack", "with_shapes", "with_memory"} | OF_THE_FILE)
    assert forget(trace.report(bare), said) == forget(trace.report(small.write(tmp_path / "object.json")), said)


def test_threads_and_order_do_not_matter(trace, tmp_path, generate):
    folder = generate(tmp_path / "ranks", "--size", 9, "--ranks", 3, "--memory")
    one, *more = (forget(trace.report(folder, "-j", n)) for n in (1, 2, 3, 7, 8))
    assert all(many == one for many in more)
    assert [rank["rank"] for rank in one["ranks"]] == [0, 1, 2]
    backwards = forget(trace.report(*sorted(folder.iterdir(), reverse=True)))
    assert backwards["ranks"] == one["ranks"] and backwards["straggler"] == one["straggler"]


def test_files_of_a_folder_are_counted_as_people_count(trace, tmp_path):
    for number in (10, 9, 1):
        Profile().launched("k", 0, 10_000, 5_000, 1).write(tmp_path / f"rank_{number}.json")
    Profile().launched("k", 0, 10_000, 5_000, 1).write(tmp_path / "rank_2.json.gz")
    (tmp_path / ".hidden.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("no profile")
    report = trace.report(tmp_path)
    assert [rank["file"].rsplit("/", 1)[1] for rank in report["ranks"]] == ["rank_1.json", "rank_2.json.gz", "rank_9.json",
                                                                             "rank_10.json"]


def test_ranks_can_be_chosen(trace, tmp_path):
    for number in range(4):
        busy_profile(number, rank=number).write(tmp_path / f"{number}.json")
    assert [rank["rank"] for rank in trace.report(tmp_path, "--rank", "1-2")["ranks"]] == [1, 2]
    done = trace(tmp_path, "--rank", "7")
    assert done.returncode == 3 and b"no file is of a rank" in done.stderr


WRONG = {
    "empty": (b"", "is empty"),
    "png": (b"\x89PNG\r\n\x1a\n" + bytes(100), "is a PNG image"),
    "not zstd": (b"\x28\xb5\x2f\xfd" + bytes(100), "zstd data is damaged"),
    "zlib": (zlib.compress(TEXT), "pigz -dz"),
    "tar": (bytes(257) + b"ustar" + bytes(250), "a tar archive"),
    "tar.gz": (gzip.compress(bytes(257) + b"ustar" + bytes(250)), "a tar archive"),
    "utf-16": (TEXT.decode().encode("utf-16"), "iconv -f UTF-16 "),
    "utf-16-le": (TEXT.decode().encode("utf-16-le"), "iconv -f UTF-16LE "),
    "utf-32": (TEXT.decode().encode("utf-32"), "iconv -f UTF-32 "),
    "pickle": (b"\x80\x04\x95" + bytes(100), "Python pickle"),
    "page": (b"<!DOCTYPE html><html></html>", "a web page"),
    "text": (b"hello, this is a log\n" * 50, None),
    "other json": (b'{"a": [1, 2, 3], "b": {}}', None),
    "not gzip": (b"\x1f\x8b\x08\x00 but not really", "gzip data is damaged"),
    "gzip of nothing": (gzip.compress(b""), None),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_profile(trace, tmp_path, what):
    content, said = WRONG[what]
    path = tmp_path / "file.json"
    path.write_bytes(content)
    done = trace(path)
    assert done.returncode == 3
    assert done.stdout == b""
    assert str(path) in done.stderr.decode()
    assert said is None or said in done.stderr.decode()
    assert len(done.stderr.decode().splitlines()) == 1


@pytest.mark.parametrize("ending, said", [("nsys-rep", "nsys export --type sqlite"), ("ncu-rep", "Nsight Compute"),
                                          ("pftrace", "rocprofv3: record with --output-format json"), ("otf2", "--output-format json")])
def test_formats_that_are_known_by_name(trace, tmp_path, ending, said):
    path = tmp_path / f"run.{ending}"
    path.write_bytes(b"\x0a\x05bytes" * 20)
    done = trace(path)
    assert done.returncode == 3 and said in done.stderr.decode()
    path.write_text(TEXT.decode())  # a name alone refuses nothing
    assert trace(path).returncode in (0, 1)


def test_a_database_of_rocprofv3_is_told(trace, tmp_path):
    path = tmp_path / "run.db"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE rocpd_kernel_dispatch_0000_1 (id INTEGER)")
        db.commit()
    done = trace(path)
    assert done.returncode == 3 and b"rocprofv3 --output-format json" in done.stderr


def test_a_zstd_file_that_was_cut(trace, tmp_path):
    path = tmp_path / "cut.json.zst"
    path.write_bytes(zstd(TEXT)[:len(TEXT) // 2])
    rank = trace.report(path, codes=(1,))["ranks"][0]
    assert 0 < rank["events"] < len(PROFILE.events)
    assert any(loss["reason"] == "compression" and "end is missing" in loss["excerpt"] for loss in rank["losses"])


def test_a_cut_of_a_file_that_is_packed_twice(trace, tmp_path):
    twice, cut = tmp_path / "twice.gz", tmp_path / "cut.json"
    twice.write_bytes(FORMS["zstd in gzip"])
    assert trace("cut", twice, "--step", "last", "-o", cut).returncode == 0
    plain = trace.report(PROFILE.write(tmp_path / "plain.json"), "--step", "last")
    assert forget(trace.report(cut))["ranks"][0]["kernels"] == plain["ranks"][0]["kernels"]


def test_what_is_not_there(trace, tmp_path):
    done = trace(tmp_path / "absent.json")
    assert done.returncode == 3 and b"No such file" in done.stderr
    done = trace(tmp_path)
    assert done.returncode == 3 and b"no profile in folder" in done.stderr
    done = trace()
    assert done.returncode == 2 and b"needs a profile" in done.stderr


def test_one_bad_file_does_not_stop_the_others(trace, tmp_path):
    busy_profile(1, rank=0).write(tmp_path / "a.json")
    (tmp_path / "b.json").write_bytes(b"\x89PNG....")
    busy_profile(2, rank=1).write(tmp_path / "c.json")
    done = trace(tmp_path, tmp_path / "absent.json", "--json")
    assert done.returncode == 3
    assert [rank["rank"] for rank in json.loads(done.stdout)["ranks"]] == [0, 1]
    said = done.stderr.decode().splitlines()
    assert len(said) == 2 and "b.json" in said[0] and "absent.json" in said[1]


@pytest.mark.parametrize("share", [0.3, 0.7, 0.99])
def test_a_gzip_file_that_was_cut(trace, tmp_path, share):
    packed = FORMS["gzip"]
    path = tmp_path / "cut.json.gz"
    path.write_bytes(packed[:int(len(packed) * share)])
    report = trace.report(path, codes=(1,))
    rank = report["ranks"][0]
    assert 0 < rank["events"] <= len(PROFILE.events)
    assert rank["lost"] > 0
    assert any(loss["reason"] == "compression" and "end is missing" in loss["excerpt"] for loss in rank["losses"])


def test_a_gzip_file_with_a_wrong_byte(trace, tmp_path):
    packed = bytearray(FORMS["gzip"])
    packed[-5] ^= 0x40  # of the checksum: all of the text is there
    path = tmp_path / "damaged.json.gz"
    path.write_bytes(packed)
    rank = trace.report(path, codes=(1,))["ranks"][0]
    assert rank["events"] == len(PROFILE.events)
    assert [loss["reason"] for loss in rank["losses"]] == ["compression"]


def test_garbage_behind_gzip_is_told(trace, tmp_path):
    path = tmp_path / "t.json.gz"
    path.write_bytes(FORMS["gzip"] + b"garbage")
    assert any("behind the end of the gzip" in note for note in trace.report(path)["notes"])


def test_several_ranks_in_one_file_are_refused(trace, tmp_path):
    """Marked in front of the process. Both number their launches from 1, so nothing could be said of either."""
    events = [{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": f"[TP0{rank}] 7", "tid": 1, "ts": 5,
               "dur": 5, "args": {"correlation": 1}} for rank in range(2)]
    path = tmp_path / "merged.json"
    path.write_text(json.dumps({"traceEvents": events}))
    done = trace(path)
    assert done.returncode == 3 and b"holds several ranks ([TP00], [TP01])" in done.stderr
    path.write_text(json.dumps({"traceEvents": events[:1]}))
    assert trace(path).returncode in (0, 1)


def test_a_profile_that_is_given_twice_counts_once(trace, tmp_path):
    """Packed and not, and a copy with other blanks; another recording of the same rank is kept, and that is said."""
    folder = tmp_path / "ranks"
    folder.mkdir()
    busy_profile(1, rank=0).write(folder / "rank0.json")
    busy_profile(2, rank=1).write(folder / "rank1.json")
    alone = trace.report(folder)
    busy_profile(1, rank=0).write(folder / "rank0.json.gz")
    (folder / "rank0.copy.json").write_text(busy_profile(1, rank=0).dump(indent=1))
    report = trace.report(folder)
    assert [rank["rank"] for rank in report["ranks"]] == [0, 1]
    assert sum("it is left out" in note for note in report["notes"]) == 2
    assert report["gaps_by_cause"] == alone["gaps_by_cause"] and report["verdicts"] == alone["verdicts"]
    busy_profile(3, rank=0).write(folder / "rank0.later.json")
    report = trace.report(folder)
    assert [rank["rank"] for rank in report["ranks"]] == [0, 0, 1]
    assert any("two files of rank 0" in note and "both are kept" in note for note in report["notes"])


def test_files_of_no_rank_are_no_copies(trace, tmp_path):
    for name in "ab":
        busy_profile(1).write(tmp_path / f"{name}.json")
    assert [rank["rank"] for rank in trace.report(tmp_path)["ranks"]] == [0, 1]


@pytest.mark.parametrize("absent", [{}, {"name": None}], ids=["none", "null"])
def test_an_event_without_a_name_counts_under_the_empty_one(trace, tmp_path, absent):
    path = tmp_path / "nameless.json"
    on_gpu = {"args": {"device": 0, "stream": 7}}
    path.write_text(json.dumps({"traceEvents": [
        {"ph": "X", "cat": "kernel", "ts": 1, "dur": 5, "pid": 0, "tid": 7, **on_gpu, **absent},
        {"ph": "X", "cat": "cpu_op", "ts": 1, "dur": 5, "pid": 1, "tid": 1, **absent},
        {"ph": "X", "cat": "user_annotation", "ts": 1, "dur": 5, "pid": 1, "tid": 1, **absent},
        {"ph": "X", "cat": "gpu_user_annotation", "ts": 1, "dur": 5, "pid": 0, "tid": 7, **on_gpu, **absent}]}))
    rank = trace.report(path)["ranks"][0]
    assert [(row["name"], row["count"]) for row in rank["kernels"] + rank["operators"]] == [("", 1), ("", 1)]
    assert [(row["name"], row["on_gpu"]) for row in rank["annotations"]] == [("", False), ("", True)]


NAMELESS = {kind: {"ph": "X", "cat": kind, "ts": 1, "dur": 5, "pid": 0, "tid": 7, "args": {"device": 0, "stream": 7, "correlation": 1}}
            for kind in ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cpu_op", "python_function", "user_annotation",
                         "gpu_user_annotation", "cuda_sync", "overhead", "unheard_of")}
NAMELESS["no category"] = {"ph": "X", "ts": 1, "dur": 5, "pid": 1, "tid": 1}
NAMELESS["a step"] = {"ph": "X", "ts": 1, "dur": 5, "pid": 1, "tid": 1, "args": {"step_num": 3}}
NAMELESS["a process"] = {"ph": "M", "pid": 1, "args": {"name": None}}
NAMELESS["memory"] = {"ph": "i", "ts": 2, "pid": 1, "tid": 1, "args": {"Bytes": 8}}
BEGIN = {"ph": "B", "ts": 1, "pid": 1, "tid": 1}
WAYS = [[], ["-v"], ["--json"], ["--html", "OUT"], ["--csv", "kernels"], ["--csv", "gaps"], ["--csv", "annotations"], ["--no-cpu"]]


@pytest.fixture
def nameless(tmp_path):
    path = tmp_path / "nameless.json"
    path.write_text(json.dumps({"traceEvents": [{**event, **absent} for event in NAMELESS.values() for absent in ({}, {"name": None})]
                                + [BEGIN, {**BEGIN, "name": None, "ts": 2}, {**BEGIN, "ph": "E", "ts": 4}]}))
    return path


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_events_of_all_kinds_without_a_name(trace, tmp_path, nameless, way):
    done = trace(nameless, *(tmp_path / "page.html" if word == "OUT" else word for word in way))
    assert done.returncode in (0, 1), done.stderr


@pytest.mark.parametrize("kind", NAMELESS)
def test_one_event_without_a_name(trace, tmp_path, kind):
    path = tmp_path / "one.json"
    path.write_text(json.dumps({"traceEvents": [NAMELESS[kind]]}))
    assert trace(path).returncode in (0, 1)


def test_events_without_a_name_in_a_difference_a_cut_and_a_folder(trace, tmp_path, nameless):
    good = busy_profile(1).write(tmp_path / "rank1.json")
    for pair in ((good, nameless), (nameless, good), (nameless, nameless)):
        assert trace("diff", *pair).returncode == 0
    smaller = tmp_path / "smaller.json"
    assert trace("cut", nameless, "-o", smaller).returncode in (0, 1)
    assert json.loads(smaller.read_text())["traceEvents"]
    assert [rank["rank"] for rank in trace.report(tmp_path)["ranks"]] == [0, 1, 2]


def test_counters_without_times_are_named(trace, tmp_path):
    path = tmp_path / "counters.json"
    event = {"ph": "X", "name": "gemm", "ts": 1, "dur": 5, "pid": 0, "tid": 7, "args": {"device": 0, "stream": 7}}
    path.write_text(json.dumps({"traceEvents": [{**event, "cat": "cuda_profiler_range"}] * 3 + [{**event, "cat": "cpu_op"}]}))
    verdict, = trace.report(path)["verdicts"]
    assert verdict["id"] == "no-gpu-work" and "3 kernels have counters of CUPTI's range profiler and no times" in verdict["evidence"]
