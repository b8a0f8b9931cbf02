# SPDX-License-Identifier: Apache-2.0
"""A profile that needs more memory than it is allowed is refused with the size it needs, and `cut` takes a part of it."""
import gzip
import re

import pytest


UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def refused(done):
    """How many bytes the text of a refusal says are needed; None where it names no size."""
    text = done.stderr.decode()
    assert done.returncode == 3 and done.stdout == b"", text
    assert "stoker trace cut" in text and "--memory gives it" in text
    found = re.search(r"needs about ([0-9.]+) (.iB) of memory, and --memory gives it ([0-9.]+) (.iB)", text)
    if not found:
        return None
    need, given = (float(found[at]) * UNITS[found[at + 1]] for at in (1, 3))
    assert need > given
    return need


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_too_large_is_refused_with_the_size_it_needs(trace, tmp_path, generate, name, threads):
    path = generate(tmp_path / name, "--size", 20, "--steps", 7)
    need = refused(trace(path, "--memory", "1MiB", "--threads", threads))
    whole = trace.report(path, "--threads", threads)["ranks"][0]["memory_bytes"] / 5 * 8
    assert need is None or whole * 0.7 < need < whole * 2
    assert trace(path, "--memory", int(whole * 2), "--threads", threads).returncode in (0, 1)


def test_a_file_read_in_one_thread_names_its_size(trace, tmp_path, generate):
    path = generate(tmp_path / "t.json", "--size", 20)
    assert refused(trace(path, "--memory", "1MiB", "--threads", 1)) is not None


def test_a_pipe_is_refused_without_a_size(trace, tmp_path, generate):
    path = generate(tmp_path / "t.json", "--size", 20)
    assert refused(trace("-", "--memory", "1MiB", input=gzip.compress(path.read_bytes(), 1))) is None


def test_the_part_that_is_cut_fits(trace, tmp_path, generate):
    path = generate(tmp_path / "t.json", "--size", 20, "--steps", 20)
    refused(trace(path, "--memory", "1MiB"))
    assert trace("cut", path, "--from", "10ms", "--to", "20ms", "-o", tmp_path / "c.json", "--memory", "1MiB").returncode == 0
    assert trace(tmp_path / "c.json", "--memory", "1MiB").returncode in (0, 1)


def test_files_that_fit_are_analysed_beside_one_that_does_not(trace, tmp_path, generate):
    small = generate(tmp_path / "small.json", "--size", 0.1)
    large = generate(tmp_path / "large.json", "--size", 20)
    done = trace(small, large, "--memory", "2MiB", "--json")
    assert done.returncode == 3 and b"large.json' needs" in done.stderr and b"small.json" in done.stdout
