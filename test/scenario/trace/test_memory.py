# SPDX-License-Identifier: Apache-2.0
"""A profile that does not fit is read in windows of time, and the numbers are the same."""
import gzip

import pytest
from trace_kit import OF_THE_FILE, Profile, busy_profile, differences, forget

# What differs where windows are joined, as docs/trace.md says: medians come from histograms, and of a launch whose work
# runs in a later window the queue does not know in its own.
APPROXIMATE = {"median_ns", "p99_ns", "call_median_ns", "call_p99_ns", "paths", "queue_points", "mean_length",
               "empty_launches", "max_length", "full_ns", "points"}


def exact(report):
    return forget(report, OF_THE_FILE | APPROXIMATE)


def windowed(trace, *words):
    report = trace.report(*words)
    assert any("windows of time" in note for note in report["notes"]), "it fitted: the test tests nothing"
    assert report["ranks"][0]["windows"] > 1
    return report


@pytest.mark.parametrize("options", [[], ["--python"], ["--memory"]], ids=str)
@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_the_same_numbers(trace, tmp_path, generate, options, name):
    path = generate(tmp_path / name, "--size", 20, "--steps", 7, *options)
    whole, parts = trace.report(path), windowed(trace, path, "--memory", "1MiB")
    assert differences(exact(whole), exact(parts)) == []
    for key in ("events", "lost", "ignored", "bytes"):
        assert parts["ranks"][0][key] == whole["ranks"][0][key], key
    median, about = whole["ranks"][0]["launch"]["median_ns"], parts["ranks"][0]["launch"]["median_ns"]
    assert abs(median - about) <= median * 0.02


def test_with_a_window_and_a_step(trace, tmp_path, generate):
    path = generate(tmp_path / "t.json", "--size", 20, "--steps", 7)
    for words in (["--from", "10ms", "--to", "200ms"], ["--step", "4-6"]):
        parts = windowed(trace, path, *words, "--memory", "1MiB")
        assert differences(exact(trace.report(path, *words)), exact(parts)) == [], words


def test_work_long_after_its_launch(trace, tmp_path):
    """All launches at the beginning, all kernels much later: each window needs calls of the first one, and the operators
    around them."""
    profile = Profile()
    for i in range(1500):
        profile.op("aten::outer", i * 10_000, 9_000)
        profile.op("aten::inner", i * 10_000 + 1_000, 7_000)
        profile.launched(f"k{i % 5}", i * 10_000 + 2_000, 20_000_000 + i * 30_000, 25_000, i + 1)
    for i in range(40_000):
        profile.op(f"aten::other_{i % 7}", 15_000_000 + i * 1_000, 900)
    path = profile.write(tmp_path / "t.json")
    whole, parts = trace.report(path), windowed(trace, path, "--memory", "2MiB")
    assert parts["ranks"][0]["launch"]["unlinked"] == 0
    assert differences(exact(whole), exact(parts)) == []


def test_a_pipe_cannot_be_read_again(trace, tmp_path, generate):
    path = generate(tmp_path / "t.json", "--size", 20)
    done = trace("-", "--memory", "1MiB", input=gzip.compress(path.read_bytes(), 1))
    assert done.returncode == 3 and b"cannot be read twice; save it to a file" in done.stderr


def test_more_at_once_than_fits(trace, tmp_path):
    profile = Profile()
    for i in range(40_000):
        profile.kernel("k", 1_000, 1_000, i + 1, stream=i)
    done = trace(profile.write(tmp_path / "t.json"), "--memory", "1MiB")
    assert done.returncode == 3 and b"too many events at once for --memory" in done.stderr


def test_small_ones_fit(trace, tmp_path):
    report = trace.report(busy_profile(1).write(tmp_path / "t.json"), "--memory", "8MiB")
    assert report["ranks"][0]["windows"] == 1 and not [n for n in report["notes"] if "windows" in n]
