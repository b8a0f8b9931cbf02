# SPDX-License-Identifier: Apache-2.0
"""Receivers on the node itself: commands and the journal."""
import json
import os
import socket
import time

import pytest

PATIENCE = 120


def script(folder, text):
    path = folder / "script"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def command(argv, more=""):
    return f"""
receivers: {{c: {{command: {{argv: {argv}{more}}}}}}}
routes: [{{receiver: c}}]
"""


def wait_for(fits):
    end = time.monotonic() + PATIENCE
    while not (got := fits()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return got


def test_command_gets_json_and_environment_without_a_shell(start, tmp_path):
    run = script(tmp_path, 'cat <&3 > "$1.part"; env > "$1.env"; echo "$2" > "$1.arg"; mv "$1.part" "$1"\n')
    driver = start(command(json.dumps([str(run), str(tmp_path / "out"), "$(id); *"]), more=", env: {TEAM: 'a b'}"))
    driver.tell(id="a", revision=4, gpu=3, title='say "hi"')
    wait_for((tmp_path / "out").exists)
    told = json.loads((tmp_path / "out").read_text())
    assert (told["key"], told["change"], told["incident"]["title"]) == ("a-0.0", "opened", 'say "hi"')
    env = dict(line.split("=", 1) for line in (tmp_path / "out.env").read_text().splitlines() if "=" in line)
    assert (tmp_path / "out.arg").read_text() == "$(id); *\n"
    assert env["TEAM"] == "a b"
    ours = {"RECEIVER": "c", "KEY": "a-0.0", "CHANGE": "opened", "HOSTNAME": "node7", "INCIDENT": "a",
            "CLASS": "gpu-lost", "CODE": "79", "CAUSE": "bus", "SEVERITY": "fatal", "ACTION": "drain-and-reboot",
            "ROUTE": "page", "STATE": "open", "TITLE": 'say "hi"', "VERDICT": "It fell off the bus.", "COUNT": "1",
            "UUID": "GPU-3", "GPU": "3", "PCI_BUS_ID": "00000000:13:00.0",
            "RUNBOOK": "https://example/runbooks/gpu-lost", "URL": "http://node7:9400/#/incidents/a"}
    assert {name: env.get(f"STOKER_{name}") for name in ours} == ours
    assert not env.get("STOKER_AFFECTED")
    driver.wait_receiver("c", lambda r: r["sent"] == 1)


def test_command_that_fails_is_run_again(start, tmp_path):
    run = script(tmp_path, f'echo "$STOKER_KEY" >> {tmp_path}/runs; test -e {tmp_path}/good || exit 3\n')
    driver = start(command(json.dumps([str(run)])))
    driver.tell(id="a")
    state = driver.wait_receiver("c", lambda r: r["failed"] >= 1)
    assert state["why"] == "command: exit code 3"
    (tmp_path / "good").touch()
    driver.advance(2)
    driver.wait_receiver("c", lambda r: r["sent"] == 1)
    runs = (tmp_path / "runs").read_text().splitlines()
    assert len(runs) >= 2 and set(runs) == {"a-0.0"}


def is_over(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "Z"  # nobody may reap it in a container
    except OSError:
        return True


def pid_in(path):
    """Of the first run that came so far: a busy machine ends one before it says its number, and there is another."""
    return int(wait_for(lambda: path.exists() and path.read_text().strip()))


@pytest.mark.parametrize("text", ["sleep 1000\n", "trap '' TERM\nwhile :; do sleep 1; done\n"])
def test_command_that_hangs_is_ended_with_its_children(start, tmp_path, text):
    run = script(tmp_path, f"echo $$ > {tmp_path}/part; mv {tmp_path}/part {tmp_path}/pid\n" + text)
    driver = start(command(json.dumps([str(run)]), more=", timeout: 200ms"))
    driver.tell(id="a")
    state = driver.wait_receiver("c", lambda r: r["failed"] >= 1)
    assert state["why"] == "command: timed out"
    pid = pid_in(tmp_path / "pid")
    wait_for(lambda: is_over(pid))


def test_what_a_hanging_command_started_ends_with_it(start, tmp_path):
    run = script(tmp_path, f"(trap '' TERM; while :; do sleep 1; done) &\necho $! > {tmp_path}/part; mv {tmp_path}/part {tmp_path}/pid; wait\n")
    driver = start(command(json.dumps([str(run)]), more=", timeout: 1s"))
    driver.tell(id="a")
    pid = pid_in(tmp_path / "pid")
    driver.wait_receiver("c", lambda r: r["failed"] >= 1)
    try:
        wait_for(lambda: is_over(pid))
    finally:
        if not is_over(pid):
            os.kill(pid, 9)


def test_command_that_cannot_be_run(start):
    driver = start(command('["/nonexistent/page"]'))
    driver.tell(id="a")
    state = driver.wait_receiver("c", lambda r: r["failed"] >= 1)
    assert "/nonexistent/page" in state["why"] and not state["fine"]


def test_hanging_command_does_not_hold_up_the_end(start, tmp_path):
    run = script(tmp_path, f"echo $$ > {tmp_path}/part; mv {tmp_path}/part {tmp_path}/pid\nexec sleep 1000\n")
    driver = start(command(json.dumps([str(run)])))
    driver.tell(id="a")
    wait_for((tmp_path / "pid").exists)
    driver.end(grace_ms=20)
    wait_for(lambda: is_over(pid_in(tmp_path / "pid")))


def test_many_commands_at_once_are_few_at_a_time(start, tmp_path):
    run = script(tmp_path, f"ls {tmp_path}/now 2>/dev/null | wc -l >> {tmp_path}/seen; mkdir -p {tmp_path}/now; touch {tmp_path}/now/$$; "
                           f"sleep 0.05; rm {tmp_path}/now/$$; echo $STOKER_INCIDENT >> {tmp_path}/runs\n")
    driver = start(command(json.dumps([str(run)])))
    for i in range(15):
        driver.tell(id=f"i{i}")
    driver.wait_receiver("c", lambda r: r["sent"] == 15)
    assert sorted((tmp_path / "runs").read_text().split()) == sorted(f"i{i}" for i in range(15))
    assert max(int(n) for n in (tmp_path / "seen").read_text().split()) < 4


def fields_of(record):
    """The native protocol of the journal."""
    fields = {}
    while record:
        line, _, record = record.partition(b"\n")
        if b"=" in line:
            name, _, value = line.partition(b"=")
        else:
            name, size = line, int.from_bytes(record[:8], "little")
            value, record = record[8:8 + size], record[8 + size + 1:]
        fields[name.decode()] = value.decode()
    return fields


@pytest.fixture
def journal(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.settimeout(PATIENCE)
        s.bind(str(tmp_path / "journal"))
        yield s


def test_journal_gets_each_change_with_fields(start, tmp_path, journal):
    driver = start(f"receivers: {{j: {{journald: {{socket: {tmp_path}/journal}}}}}}")
    driver.tell(id="a", gpu=3, route="ticket")
    got = fields_of(journal.recv(1 << 16))
    evidence = got.pop("STOKER_EVIDENCE").splitlines()
    assert len(evidence) == 2 and evidence[1].endswith('NVRM: Xid 45, "quoted"')
    labels = json.loads(got.pop("STOKER_LABELS"))
    assert labels["alertname"] == "GpuLost"
    assert got == {"MESSAGE": "opened: GPU 3 is lost It fell off the bus.", "PRIORITY": "2", "SYSLOG_IDENTIFIER": "stoker",
                   "STOKER_INCIDENT": "a", "STOKER_CHANGE": "opened", "STOKER_CLASS": "gpu-lost",
                   "STOKER_SEVERITY": "fatal", "STOKER_CAUSE": "bus", "STOKER_ACTION": "drain-and-reboot",
                   "STOKER_ROUTE": "ticket", "STOKER_STATE": "open", "STOKER_GPU": "3", "STOKER_UUID": "GPU-3",
                   "STOKER_PCI_BUS_ID": "00000000:13:00.0", "STOKER_RUNBOOK": "https://example/runbooks/gpu-lost",
                   "STOKER_RECEIVER": "j", "STOKER_KEY": "a-0.0", "STOKER_HOSTNAME": "node7", "STOKER_CODE": "79",
                   "STOKER_TITLE": "GPU 3 is lost", "STOKER_VERDICT": "It fell off the bus.", "STOKER_COUNT": "1",
                   "STOKER_URL": "http://node7:9400/#/incidents/a"}
    driver.tell(id="a", gpu=3, revision=2, route="ticket", state="cleared")
    got = fields_of(journal.recv(1 << 16))
    assert (got["MESSAGE"], got["PRIORITY"]) == ("cleared: GPU 3 is lost", "5")
    driver.tell(id="c", gpu=1, job="4712", owners=[{"user": "alice", "job": "4712"}, {"user": "bob", "process": "python", "pid": 7}])
    got = fields_of(journal.recv(1 << 16))
    assert (got["STOKER_AFFECTED"], got["STOKER_USER"], got["STOKER_JOB"]) == ("job 4712 of alice, python (7) of bob", "alice", "4712")
    driver.tell(id="b", severity="warning")
    assert fields_of(journal.recv(1 << 16))["PRIORITY"] == "4"


def test_absent_journal_is_tried_again(start, tmp_path):
    driver = start(f"receivers: {{j: {{journald: {{socket: {tmp_path}/journal}}}}}}")
    driver.tell(id="a")
    state = driver.wait_receiver("j", lambda r: r["failed"] >= 1)
    assert "No such file" in state["why"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.settimeout(PATIENCE)
        s.bind(str(tmp_path / "journal"))
        driver.advance(3)
        assert fields_of(s.recv(1 << 16))["STOKER_INCIDENT"] == "a"


def test_full_journal_delays_nothing_and_loses_nothing(start, tmp_path, journal):
    driver = start(f"receivers: {{j: {{journald: {{socket: {tmp_path}/journal}}}}}}")
    for i in range(400):
        driver.tell(id=f"i{i}")
    driver.wait_receiver("j", lambda r: r["failed"] > 0)
    seen = set()
    while len(seen) < 400:
        journal.settimeout(0.05)
        try:
            seen.add(fields_of(journal.recv(1 << 16))["STOKER_INCIDENT"])
        except TimeoutError:
            driver.advance(10)
    driver.wait_receiver("j", lambda r: r["queued"] == 0)
