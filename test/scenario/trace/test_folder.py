# SPDX-License-Identifier: Apache-2.0
"""What of a folder is read: profiles in it and below it, each once; nothing that is no file."""
import os
import pathlib
import socket

import pytest
from trace_kit import Profile


def put(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Profile().launched("k", 0, 10_000, 5_000 + len(str(name)), 1).write(folder / name)


def read(trace, folder):
    report = trace.report(folder)
    return [os.path.relpath(rank["file"], folder) for rank in report["ranks"]], report["notes"]


def test_folders_below_it_are_searched_by_name(trace, tmp_path):
    put(tmp_path, "b/rank_10.json", "b/rank_9.json", "a/deeper/x.json.gz", "top.json", ".git/hidden.json", "notes.txt")
    assert read(trace, tmp_path)[0] == ["a/deeper/x.json.gz", "b/rank_9.json", "b/rank_10.json", "top.json"]


def test_links_that_lead_back_are_followed_once(trace, tmp_path):
    put(tmp_path, "a/one.json")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "self").symlink_to(".")
    (tmp_path / "twice").symlink_to("a")
    assert len(read(trace, tmp_path)[0]) == 1


def test_a_depth_has_an_end_and_that_is_said(trace, tmp_path):
    deep = pathlib.Path(*"12345678")
    put(tmp_path, deep / "seen.json", deep / "9" / "unseen.json")
    found, notes = read(trace, tmp_path)
    assert found == [str(deep / "seen.json")]
    assert any("too deep" in note for note in notes)


def test_of_jax_sessions_the_newest_counts_once(trace, tmp_path):
    sessions = tmp_path / "plugins" / "profile"
    put(sessions, "2026_01_02_10_00_00/host.trace.json.gz", "2026_01_02_09_59_59/host.trace.json.gz")
    (sessions / "2026_01_02_10_00_00" / "host.xplane.pb").write_bytes(b"the same session")
    newest = "plugins/profile/2026_01_02_10_00_00/host.trace.json.gz"
    found, notes = read(trace, tmp_path)
    assert found == [newest]
    assert any("has 2 sessions: the newest, 2026_01_02_10_00_00," in note for note in notes)
    assert len(read(trace, sessions / "2026_01_02_09_59_59")[0]) == 1


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_what_is_no_file_is_left_out(trace, tmp_path, kind, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a socket's path has to be short
    if kind == "pipe":
        os.mkfifo("a.json")
    else:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("a.json")
    done = trace(".")
    assert done.returncode == 3 and f"a.json is a {kind} and was left out".encode() in done.stderr
    put(tmp_path, "b.json")
    found, notes = read(trace, tmp_path)
    assert found == ["b.json"]
    assert any(f"a.json is a {kind} and was left out" in note for note in notes)


def test_a_file_that_is_no_profile_costs_itself_alone(trace, tmp_path):
    put(tmp_path, "a/good.json")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "config.json").write_text('{"layers": 3}')
    (tmp_path / "b" / "gone.json").symlink_to("nowhere")
    done = trace(tmp_path)
    assert done.returncode == 3 and b"good.json" in done.stdout
    said = done.stderr.decode().splitlines()
    assert len(said) == 2 and "config.json" in said[0] and "gone.json" in said[1]
