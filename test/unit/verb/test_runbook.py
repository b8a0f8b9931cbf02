# SPDX-License-Identifier: Apache-2.0
"""`stoker runbook`: the page for a class, a code or a line; what is said where there is none. Incidents by their id are
in test/scenario/agent/test_runbooks.py."""
import json
import os
import pathlib
import pty
import subprocess

import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "docs" / "runbooks"


@pytest.fixture
def runbook(stoker, tmp_path):
    env = {"PATH": "/usr/bin", "COLUMNS": "100", "TERM": "xterm", "STOKER_ROOT": str(tmp_path / "root"),
           "STOKER_CONTROL": str(tmp_path / "no-agent.sock"), "HOME": str(tmp_path)}

    def call(*words, more=None, **how):
        return subprocess.run([stoker, "runbook", *map(str, words)], check=False, env={**env, **(more or {})},
                              **{"capture_output": True, "text": True, **how})

    return call


def page(name):
    return (FOLDER / f"{name}.md").read_text().split("\n", 1)[1]


def test_without_an_argument_all_are_listed(runbook):
    done = runbook()
    assert done.returncode == 0 and done.stderr == ""
    rows = [line.split(None, 1) for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == sorted(p.stem for p in FOLDER.glob("*.md") if p.stem != "README")
    assert ["gpu-lost", "the GPU has fallen off the bus"] in rows
    told = json.loads(runbook("--json").stdout)
    assert [[one["class"], one["title"]] for one in told] == rows


@pytest.mark.parametrize("words, name", [
    (["gpu-lost"], "gpu-lost"), (["79"], "gpu-lost"), (["xid:79"], "gpu-lost"), (["48"], "ecc-uncorrectable"),
    (["NVRM: Xid (PCI:0000:18:00): 79, pid=1, GPU has fallen off the bus."], "gpu-lost"),
    (["NVRM:", "Xid", "(PCI:0000:18:00):", "79,", "GPU has fallen off the bus."], "gpu-lost"),
    (["20034"], "nvswitch"), (["sxid:20034"], "nvswitch"), (["20001"], "nvlink-errors"),
    (["NVRM: Xid (PCI:0000:01:00): 63, Dynamic Page Retirement: New retired page, reload"], "page-retirement"),
])
def test_the_page_is_found(runbook, words, name):
    done = runbook(*words)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", page(name))


def test_a_code_follows_the_driver(runbook):
    def of(*words):
        return json.loads(runbook("--json", "139", *words).stdout)["class"]

    assert of("--driver", "535.261.03") != of("--driver", "580.65")


def test_a_terminal_gets_bold_headings(runbook, stoker):
    def shown(**more):
        ours, theirs = pty.openpty()
        done = runbook("gpu-lost", more=more, stdout=theirs, stderr=subprocess.PIPE, capture_output=False)
        os.close(theirs)
        text = b""
        try:
            while part := os.read(ours, 65536):
                text += part
        except OSError:  # the other end is closed: all was read
            pass
        os.close(ours)
        assert done.returncode == 0
        return text.decode().replace("\r\n", "\n")

    text = shown()
    for line in page("gpu-lost").splitlines():
        if line.startswith("## "):
            assert f"\n\x1b[1m{line}\x1b[0m\n" in text
    assert text.count("\x1b[1m") == 7 and text.replace("\x1b[1m", "").replace("\x1b[0m", "") == page("gpu-lost")
    assert shown(NO_COLOR="1") == page("gpu-lost")


@pytest.mark.parametrize("words, said", [
    (["gpu-lots"], "did you mean gpu-lost?"), (["remap"], "row-remap-failed, row-remap-low, row-remap-pending?"),
    (["zzz"], "'zzz' is no class of faults"), (["README"], "is no class"), (["../gpu-lost"], "is no class"),
    (["79", "--driver", "new"], "is no version"), (["79", "--fault", "x"], "--faults"), ([""], "is no class"),
])
def test_wrong_words(runbook, words, said):
    done = runbook(*words)
    assert done.returncode == 2 and said in done.stderr and done.stdout == ""


def test_an_incident_wants_somebody_to_ask(runbook):
    done = runbook("1jf8v3k2m0")
    assert done.returncode == 3 and "no agent answers" in done.stderr and done.stdout == ""


def test_what_is_no_fault_has_no_page(runbook, tmp_path):
    (tmp_path / "ours.yaml").write_text("rules: {xid-109: {class: none}}\n")
    done = runbook("109", "--faults", tmp_path / "ours.yaml")
    assert done.returncode == 1 and "is no fault" in done.stderr and "stoker xid 109" in done.stderr


def test_classes_of_a_site(runbook, tmp_path):
    (tmp_path / "ours.yaml").write_text(
        "classes:\n"
        "  lab-door: {text: the door is open, advice: Close it., cause: host, severity: warning, scope: node,\n"
        "             action: none, route: ticket, clear: hand, runbook: 'https://wiki.example/door', source: us}\n"
        "rules: {xid-109: {class: lab-door}}\n")
    for word in ("lab-door", "109"):
        done = runbook(word, "--faults", tmp_path / "ours.yaml")
        assert done.returncode == 1 and "https://wiki.example/door" in done.stderr, done.stderr
    assert runbook("lab-door").returncode == 2
    (tmp_path / "ours.yaml").write_text("rules: {xid-109: {clas: none}}\n")
    assert runbook("109", "--faults", tmp_path / "ours.yaml").returncode == 2
    assert runbook("109", "--faults", tmp_path / "none.yaml").returncode == 3
