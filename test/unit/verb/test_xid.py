# SPDX-License-Identifier: Apache-2.0
"""`stoker xid`: what a person gets who has a code, or a line, in hand."""
import json
import subprocess

import pytest


@pytest.fixture
def xid(stoker, tmp_path):
    def call(*words, root=tmp_path):
        return subprocess.run([stoker, "xid", *words], capture_output=True, text=True, check=False,
                              env={"PATH": "/usr/bin", "COLUMNS": "100", "STOKER_ROOT": str(root)})
    return call


def said(done):
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def test_a_code_is_explained(xid):
    done = xid("79")
    assert done.returncode == 0
    text = " ".join(done.stdout.split())
    for part in ("XID 79: the GPU has fallen off the bus", "cause bus", "drain-and-reboot", "page", "by a reboot",
                 "gpu-missing", "runbook stoker runbook gpu-lost", "source"):
        assert part in text
    assert max(map(len, done.stdout.splitlines())) <= 100


@pytest.mark.parametrize("words, rule", [
    (["79"], "xid-79"), (["xid:79"], "xid-79"), (["20034"], "sxid-20034"), (["SXID:20034"], "sxid-20034"),
    (["139", "--driver", "535.261.03"], "xid-139-fast-path"), (["139", "--driver", "580.65"], "xid-139"),
    (["63", "--arch", "turing"], "xid-63-pre-ampere"), (["63", "--arch", "hopper"], "xid-63"),
    (["NVRM: Xid (PCI:0000:18:00): 79, pid=1, GPU has fallen off the bus."], "xid-79"),
    (["NVRM:", "Xid", "(PCI:0000:01:00 GPU-I:05):", "94,", "pid=7194,", "Contained: CE User"], "xid-94"),
    (["NVRM: Xid (PCI:0000:01:00): 63, Dynamic Page Retirement: New retired page, reload"], "xid-63-retired"),
    (["nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 11012, Fatal, Link 28 something"], "sxid-fatal"),
    (["nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Non-fatal, Link 28"], "sxid-non-fatal"),
])
def test_the_right_rule_is_found(xid, words, rule):
    assert said(xid("--json", *words))["rule"] == rule


@pytest.mark.parametrize("line, rule, head", [
    ("Memory cgroup out of memory: Killed process 1532 (python) total-vm:1kB", "oom-kill", "oom-kill: killed for lack of memory"),
    ("[  12.5] INFO: task jfsmount:136986 blocked for more than 120 seconds.", "hung-task", "hung-task: a task is blocked in the kernel"),
    ("Nov  3 10:00:00 n kernel: NVRM: GPU 0000:0a:00.0: RmInitAdapter failed! (0x25:0x40:1250)", "init-failed", "init-failed: "),
])
def test_any_line_that_the_agent_reads_is_explained(xid, line, rule, head):
    told = said(xid("--json", line))
    assert told["rule"] == rule and "code" not in told and xid(line).stdout.startswith(head)


def test_this_nodes_driver_counts_unless_another_is_named(xid, tmp_path):
    folder = tmp_path / "proc/driver/nvidia"
    folder.mkdir(parents=True)
    (folder / "version").write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  Thu\nGCC version: 12.2.0\n")
    assert said(xid("--json", "139"))["driver"] == 535
    assert said(xid("--json", "139"))["rule"] == "xid-139-fast-path"
    assert said(xid("--json", "139", "--driver", "560.35"))["rule"] == "xid-139"


def test_an_unknown_code_is_a_finding(xid):
    done = xid("--json", "999")
    assert done.returncode == 1
    assert said(done)["known"] is False


@pytest.mark.parametrize("words, text", [
    ([], "which code?"), (["a line without a fault"], "neither a code"), (["seventy"], "neither a code"), (["100000"], "neither a code"), (["-5"], "option"),
    (["NVRM: Xid (PCI:0000): none"], "neither a code"), (["79", "--driver", "new"], "is no version"),
    (["79", "--arch", "hoper"], "is no architecture"), (["--list", "79"], "takes no code"),
    (["79", "--markdown"], "goes with --list"),
    (["{1}[Hardware Error]: event severity: fatal"], "give the line of its section"),
    (["event severity: fatal"], "give the line of its section"),
])
def test_wrong_words(xid, words, text):
    done = xid(*words)
    assert done.returncode == 2 and text in done.stderr and done.stdout == ""


def test_an_error_record_is_read_with_its_section(xid):
    told = said(xid("--json", "{1}[Hardware Error]: event severity: fatal\n{1}[Hardware Error]:   section_type: memory error"))
    assert (told["class"], told["severity"]) == ("host-memory", "error")


def test_files_of_ones_own(xid, tmp_path):
    folder = tmp_path / "faults.d"
    folder.mkdir()
    (folder / "10.yaml").write_text("rules: {xid-109: {route: page}}\n")
    (folder / "20.yml").write_text("rules: {xid-109: {route: user, name: of ours}}\n")
    (folder / "note.txt").write_text("classes: [")
    told = said(xid("--json", "109", "--faults", str(folder)))
    assert (told["route"], told["name"], told["class"]) == ("user", "of ours", "engine-error")
    (folder / "30.yaml").write_text("rules:\n  xid-109: {rout: user}\n")
    done = xid("109", "--faults", str(folder))
    assert done.returncode == 2 and "30.yaml:2:13: unknown key 'rout', did you mean 'route'?" in done.stderr
    done = xid("109", "--faults", str(tmp_path / "none"))
    assert done.returncode == 3 and "No such file" in done.stderr


def test_list_has_all(xid):
    rules = said(xid("--list", "--json"))
    codes = {rule["code"] for rule in rules if rule["event"] == "xid"}
    assert set(range(1, 177)) <= codes
    assert sum(rule["event"] == "sxid" for rule in rules) > 270
    assert len(xid("--list").stdout.splitlines()) > len(rules)
