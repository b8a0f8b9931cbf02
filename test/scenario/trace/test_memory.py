# SPDX-License-Identifier: Apache-2.0
"""A profile that needs more memory than it is allowed is refused with the size it needs, and `cut` takes a part of it."""
import gzip
import re

import pytest


def refused(done):
    """How much the text of a refusal says is needed, in MiB; None where it names no size."""
    text = done.stderr.decode()
    assert done.returncode == 3 and done.stdout == b"", text
    assert "stoker trace cut" in text and "--memory gives it" in text
    found = re.search(r"needs about (\d+) MiB of memory, and --memory gives it (\d+) MiB", text)
    assert not found or int(found[1]) > int(found[2])
    return int(found[1]) if found else None


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_too_large_is_refused_with_the_size_it_needs(trace, tmp_path, generate, name, threads):
    path = generate(tmp_path / name, "--size", 20, "--steps", 7)
    need = refused(trace(path, "--memory", "1MiB", "--threads", threads))
    whole = trace.report(path, "--threads", threads)["ranks"][0]["memory_bytes"] / 5 * 8 / 2**20
    assert need is None or whole * 0.7 - 1 < need < whole * 1.5 + 1
    assert trace(path, "--memory", f"{int(whole * 2) + 1}MiB", "--threads", threads).returncode in (0, 1)


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
