# SPDX-License-Identifier: Apache-2.0
"""Where it is written, in which form, and what the exit code says."""
import csv
import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import time

import build
import pytest
from trace_kit import Profile, busy_profile


@pytest.fixture
def path(tmp_path):
    return busy_profile(1).write(tmp_path / "t.json")


def test_forms(trace, tmp_path, path):
    text = trace(path).stdout.decode()
    assert "sgemm_128x64" in text and "\033[" not in text
    assert "\033[" in trace(path, "--colour", "always").stdout.decode()
    assert max(map(len, trace(path, "--width", 80).stdout.decode().splitlines())) <= 80
    page = tmp_path / "page.html"
    done = trace(path, "--html", page)
    assert done.stdout.decode().split("GPU 0", 1)[1] == text.split("GPU 0", 1)[1], "the head says how long it took"
    assert "<html" in page.read_text() and not re.search(r"""(src|href)=["']?(https?:)?//""", page.read_text())
    assert "<html" in trace(path, "--html", "-").stdout.decode()


@pytest.mark.parametrize("with_step, whole", [(False, 10_000_000), (True, 1_500_000)])
def test_the_page_means_by_its_time_what_the_text_does(trace, tmp_path, with_step, whole):
    """Without steps the whole time is the host's and the GPU's, whichever is longer."""
    made = build.Trace()
    made.op("preprocess", 0, 10_000_000)
    if with_step:
        made.step(0, 0, 10_000_000)
    made.launch(2_000_000, "gemm", 2_010_000, 1_000_000)
    made.launch(3_200_000, "gemm", 3_410_000, 100_000)
    path = made.write(tmp_path / "t.json")
    text, page = trace(path).stdout.decode(), trace(path, "--html", "-").stdout.decode()
    assert ("busy 1.10 ms of 1.50 ms" if with_step else "busy 1.10 ms of 10.0 ms") in text
    table = json.loads(re.search(r'"sum":(\{"columns":\[[^]]*\],"rows":\[\[[^]]*\]\])', page)[1] + "}")
    total = dict(zip(table["columns"], table["rows"][0], strict=True))
    assert (total["span_ns"], total["busy_ns"], total["idle_ns"]) == (whole, 1_100_000, whole - 1_100_000)
    causes = json.loads(re.search(r'"idle_by_cause":(\{"columns":\[[^]]*\],"rows":\[(\[[^]]*\],?)+\])', page)[1] + "}")
    assert sum(row[causes["columns"].index("total_ns")] for row in causes["rows"]) == total["idle_ns"]


def test_into_a_file(trace, tmp_path, path):
    out = tmp_path / "report.json"
    done = trace(path, "--json", "-o", out)
    assert done.stdout == b"" and json.loads(out.read_text())["ranks"]
    assert sorted(os.listdir(tmp_path)) == ["report.json", "t.json"]


def test_every_table(trace, path):
    names = trace("--csv", "list").stdout.decode().split()
    assert {"devices", "steps", "kernels", "gaps"} <= set(names)
    for name in names:
        done = trace(path, "--csv", name)
        rows = list(csv.reader(io.StringIO(done.stdout.decode())))
        assert len(rows) >= 1 and len({len(row) for row in rows}) == 1, name


def test_required_keys(trace, path):
    report = trace.report(path)
    rank = report["ranks"][0]
    assert {"rank", "file", "events", "lost", "devices", "kernels", "copies", "steps", "launch"} <= set(rank)
    assert {"device", "span_ns", "busy_ns", "idle_ns", "compute_ns", "communication_ns", "copy_ns",
            "communication_overlapped_ns", "exposed_communication_ns", "exposed_copy_ns", "gap_count", "max_gap_ns",
            "operation_count", "stream_count"} <= set(rank["devices"][0])
    assert {"linked", "unlinked", "median_ns", "max_ns"} <= set(rank["launch"])
    assert {"gaps_by_cause", "verdicts", "straggler"} <= set(report)
    for device in rank["devices"]:
        assert device["busy_ns"] + device["idle_ns"] == device["span_ns"]


def test_exit_codes(trace, tmp_path):
    calm = Profile()
    for i in range(200):
        calm.launched("sm90_xmma_gemm", i * 100_000, (i + 3) * 100_000, 100_000, i + 1)
    calm.step(1, 0, 20_400_000)
    done = trace(calm.write(tmp_path / "calm.json"), "--json")
    found = [v for v in json.loads(done.stdout)["verdicts"] if v["id"] != "gpu-well-used"]
    assert (done.returncode == 1) == bool(found)
    text = busy_profile(1).dump()
    (tmp_path / "cut.json").write_text(text[:len(text) // 2])
    assert trace(tmp_path / "cut.json").returncode == 1


def test_diff(trace, tmp_path, path):
    other = busy_profile(2).write(tmp_path / "other.json")
    one, two = trace("diff", path, other, "--json"), trace("--diff", path, other, "--json")
    assert one.returncode == 0 and one.stdout == two.stdout
    names = {row["name"] for row in json.loads(one.stdout)["diff"]["kernels"]}
    assert {"sgemm_128x64", "elementwise_kernel"} <= names
    assert trace("diff", path).returncode == 2
    assert trace("diff", path, tmp_path / "absent.json").returncode == 3
    same = json.loads(trace("diff", path, path, "--json").stdout)
    assert all(row["total_before_ns"] == row["total_after_ns"] for row in same["diff"]["kernels"])


@pytest.mark.parametrize("words", [[], ["cut"], ["diff"]], ids=str)
def test_help(trace, words):
    done = trace(*words, "--help")
    assert done.returncode == 0 and b"Examples:" in done.stdout and b"Exit codes:" in done.stdout


def test_a_file_that_is_called_like_a_verb(trace, tmp_path):
    busy_profile(1).write(tmp_path / "cut")
    assert trace("./cut", cwd=tmp_path).returncode in (0, 1)


def test_a_closed_pipe_is_not_a_crash(trace, path):
    process = subprocess.Popen(f"'{trace.stoker}' trace '{path}' --json | head -c 10", shell=True, env=trace.env,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, _ = process.communicate(timeout=120)
    assert len(out) == 10 and process.returncode == 0


def on_a_terminal(words, env, feed=None, until=b"", seconds=30):
    """Runs with a terminal as stderr; returns what was shown there."""
    main, side = pty.openpty()
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=side, env=env)
    os.close(side)
    shown, end = b"", time.monotonic() + seconds
    if feed:
        process.stdin.write(feed)
        process.stdin.flush()
    while time.monotonic() < end and not (until and until in shown):
        if select.select([main], [], [], 0.1)[0]:
            try:
                shown += os.read(main, 4096)
            except OSError:
                break
        elif process.poll() is not None:
            break
    return process, shown, main


def test_progress_is_shown_on_a_terminal_and_interrupted(trace):
    process, shown, main = on_a_terminal([trace.stoker, "trace", "-"], trace.env, b'{"traceEvents": [' + b" " * 100_000,
                                         until=b"MB/s")
    assert b"MB read" in shown
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == -signal.SIGINT
    process.stdin.close()
    os.close(main)


def test_progress_can_be_switched_off(trace):
    process, shown, main = on_a_terminal([trace.stoker, "trace", "--no-progress", "-"], trace.env,
                                         b'{"traceEvents": [' + b" " * 100_000, until=b"MB/s", seconds=1.5)
    assert shown == b""
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=120) == -signal.SIGTERM
    process.stdin.close()
    os.close(main)
