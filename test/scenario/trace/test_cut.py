# SPDX-License-Identifier: Apache-2.0
"""What `stoker trace cut` writes is a trace, whatever it was cut from, and it is there whole or not at all."""
import gzip
import json
import os
import pathlib
import signal
import subprocess

import pytest
from trace_kit import Profile, busy_profile, forget, plain_numbers, strict_json


def cut(trace, path, out, *words, code=0):
    done = trace("cut", path, "-o", out, *words)
    assert done.returncode == code, done.stderr
    return strict_json(gzip.decompress(out.read_bytes()) if out.suffix == ".gz" else out.read_bytes())


def test_events_are_copied_as_they_stand(trace, tmp_path):
    profile = busy_profile(3, rank=5)
    whole = cut(trace, profile.write(tmp_path / "t.json"), tmp_path / "c.json")
    assert whole == json.loads(profile.dump())
    first = next(event for event in profile.events if event["ph"] == "X" and event["ts"].endswith("0#"))
    assert f'"ts": {first["ts"].strip("#")}, ' in (tmp_path / "c.json").read_text(), "no digit is lost"


@pytest.mark.parametrize("name", ["c.json", "c.json.gz"])
@pytest.mark.parametrize("source", ["t.json", "t.json.gz"])
def test_packed_or_not(trace, tmp_path, source, name):
    profile = busy_profile(3)
    assert cut(trace, profile.write(tmp_path / source), tmp_path / name) == json.loads(profile.dump())


def test_to_and_from_pipes(trace):
    profile = busy_profile(3)
    for text in (profile.dump().encode(), gzip.compress(profile.dump().encode())):
        done = trace("cut", "-", "-o", "-", input=text)
        assert done.returncode == 0 and done.stderr == b""
        assert strict_json(done.stdout) == json.loads(profile.dump())


def test_metadata_is_kept_wherever_it_stands(trace, tmp_path):
    profile = busy_profile(3, rank=2)
    profile.head["deviceProperties"] = [{"id": 0, "name": "[a] {GPU}, \"traceEvents\": [", "totalGlobalMem": 2**36}]
    for text in (profile.dump(), profile.dump(indent=2),
                 plain_numbers(json.dumps({"traceEvents": profile.events, **profile.tail, **profile.head}))):
        (tmp_path / "t.json").write_text(text)
        small = cut(trace, tmp_path / "t.json", tmp_path / "c.json", "--step", "2")
        assert {k: v for k, v in small.items() if k != "traceEvents"} == {**profile.head, **profile.tail}
        assert 0 < len(small["traceEvents"]) < len(profile.events)


def test_what_events_said_of_the_recording_is_kept(trace, tmp_path):
    profile = busy_profile(3)
    profile.head = {}
    profile.call("hipLaunchKernel", 6_000_000, 1000, 9999)
    small = cut(trace, profile.write(tmp_path / "t.json"), tmp_path / "c.json", "--from", "100s")
    assert {"with_stack", "profile_memory", "hip_runtime_version"} <= set(small)
    rank = trace.report(tmp_path / "c.json")["ranks"][0]
    assert rank["with_stack"] and rank["with_memory"] and rank["rocm"]


def test_bare_list_and_no_events(trace, tmp_path):
    (tmp_path / "bare.json").write_text(plain_numbers(json.dumps(Profile().launched("k", 0, 10_000, 5_000, 1).events)))
    assert len(cut(trace, tmp_path / "bare.json", tmp_path / "c.json")["traceEvents"]) == 4
    path = busy_profile(1).write(tmp_path / "t.json")
    small = cut(trace, path, tmp_path / "c.json", "--from", "100s")
    assert [e for e in small["traceEvents"] if e["ph"] != "M"] == [] and small["schemaVersion"] == 1


def test_without_the_host(trace, tmp_path):
    small = cut(trace, busy_profile(1).write(tmp_path / "t.json"), tmp_path / "c.json", "--no-cpu")["traceEvents"]
    assert {e["cat"] for e in small if e["ph"] == "X"} == {"kernel", "gpu_memcpy", "user_annotation"}
    assert not [e for e in small if e["ph"] in "sf"]
    small = cut(trace, busy_profile(1).write(tmp_path / "t.json"), tmp_path / "c.json", "--no-python")["traceEvents"]
    assert "python_function" not in {e.get("cat") for e in small} and "cpu_op" in {e.get("cat") for e in small}


def test_begins_and_ends_stay_together(trace, tmp_path):
    profile = Profile().launched("k", 0, 10_000, 5_000, 1)
    spans = [("outer", 1_000, 90_000), ("inner a", 2_000, 30_000), ("inner b", 40_000, 80_000)]
    for name, begin, end in spans:
        profile.add(ph="B", name=name, pid=1, tid=9, ts=begin / 1000)
        profile.add(ph="E", name=name, pid=1, tid=9, ts=end / 1000)
    profile.add(ph="E", name="never begun", pid=1, tid=9, ts=3.0)
    path = profile.write(tmp_path / "t.json")
    small = cut(trace, path, tmp_path / "c.json", "--from", 35_000, "--to", 39_000, code=1)["traceEvents"]
    assert sorted((e["ph"], e["name"]) for e in small if e["ph"] in "BE") == [("B", "outer"), ("E", "outer")]


DAMAGED = {
    "stray quotes": (b'"aten::outer"', b'"load {"device": "cpu"}"'),
    "trailing commas": (b'"bytes": 4096', b'"bytes": 4096,'),
    "an event that is none": (b'{"ph": "X"', b'{"ph": @@@ "X"'),
}

ODD = {
    "control characters": (b'"aten::outer"', b'"aten\x01\n\t::outer"'),
    "not UTF-8": (b'"aten::outer"', b'"\xff\xfeouter\xed\xa0\x80"'),
    "wrong escape": (b'"aten::outer"', b'"C:\\path\\qux"'),
    "bare words": (b'"bytes": 4096', b'"bytes": 4096, "memory bandwidth (GB/s)": inf, "x": N/A, "y": -nan, "z": 007'),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_damaged_events_are_left_out(trace, tmp_path, what):
    text = busy_profile(3).dump().encode()
    right, wrong = DAMAGED[what]
    path = tmp_path / "t.json"
    path.write_bytes(text.replace(right, wrong, 3))
    done = trace("cut", path, "-o", tmp_path / "c.json")
    assert done.returncode == 1 and b"the profile is damaged" in done.stderr
    kept = len(strict_json((tmp_path / "c.json").read_bytes())["traceEvents"])
    assert len(busy_profile(3).events) - 3 <= kept < len(busy_profile(3).events)


@pytest.mark.parametrize("what", ODD)
def test_odd_events_stay_as_they_are(trace, tmp_path, what):
    """No JSON by the letter, but readable: they are copied byte by byte."""
    text = busy_profile(3).dump().encode()
    right, wrong = ODD[what]
    path = tmp_path / "t.json"
    path.write_bytes(text.replace(right, wrong, 3))
    assert trace("cut", path, "-o", tmp_path / "c.json").returncode == 0
    assert (tmp_path / "c.json").read_bytes().count(wrong) == 3
    assert forget(trace.report(tmp_path / "c.json")) == forget(trace.report(path))


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 0.999])
@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_a_cut_file_is_cut(trace, tmp_path, share, name):
    whole = busy_profile(3).write(tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[:int(len(whole) * share)])
    small = cut(trace, tmp_path / name, tmp_path / "c.json", code=1)
    assert len(small["traceEvents"]) > 5 and small["schemaVersion"] == 1


def test_memory_that_does_not_suffice_for_the_whole(trace, tmp_path, generate):
    path = generate(tmp_path / "t.json", "--size", 12)
    for words in (["--from", "20ms", "--to", "40ms"], ["--step", "4"]):
        assert cut(trace, path, tmp_path / "a.json", *words, "--memory", "1MiB") == cut(trace, path, tmp_path / "b.json", *words)


def test_wrong_words(trace, tmp_path):
    path = busy_profile(1).write(tmp_path / "t.json")
    for words, said in ((["cut", path], "needs to know where to write"), (["cut", "-o", "x"], "needs one profile"),
                        (["cut", path, path, "-o", "x"], "got 2"), (["cut", path, "-o", "x", "--from", "x"], "no time")):
        done = trace(*words)
        assert done.returncode == 2 and said in done.stderr.decode()
    done = trace("cut", path, "-o", tmp_path)
    assert done.returncode == 3 and b"is a folder" in done.stderr
    done = trace("cut", path, "-o", tmp_path / "absent" / "c.json")
    assert done.returncode == 3 and b"No such file" in done.stderr
    done = trace("cut", busy_profile(1, rank=3).write(tmp_path / "r.json"), "--rank", 1, "-o", tmp_path / "c.json")
    assert done.returncode == 3 and not (tmp_path / "c.json").exists()


def test_a_full_disk(trace, tmp_path):
    path = busy_profile(1).write(tmp_path / "t.json")
    for words in (["cut", path, "-o", "/dev/full"], [path, "--json", "-o", "/dev/full"], [path, "--html", "/dev/full"]):
        done = trace(*words)
        assert done.returncode == 3 and b"No space left" in done.stderr, words


def wait_until(process, there):
    """Until one of the process's open files has `there` in its path."""
    fds = pathlib.Path(f"/proc/{process.pid}/fd")
    while process.poll() is None:
        try:
            if any(there in os.readlink(fd) for fd in fds.iterdir()):
                return
        except FileNotFoundError:
            pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_it_leaves_nothing(trace, tmp_path, generate, number):
    """Stopped while it reads from a pipe that is not at its end, and as it begins to write: the old file stays as it was."""
    path = generate(tmp_path / "t.json", "--size", 60)
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "c.json").write_text("old")
    spool = tmp_path / "spool"
    spool.mkdir()
    for source, there in (("-", str(spool)), (path, str(folder))):
        process = subprocess.Popen([trace.stoker, "trace", "cut", source, "-o", folder / "c.json"], stdin=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**trace.env, "TMPDIR": str(spool)})
        if source == "-":
            process.stdin.write(b'{"traceEvents": [' + b" " * 2**17)
            process.stdin.flush()
        wait_until(process, there)
        process.send_signal(number)
        assert process.wait(timeout=60) == -number
        process.stdin.close()
        assert os.listdir(folder) == ["c.json"] and (folder / "c.json").read_text() == "old"
