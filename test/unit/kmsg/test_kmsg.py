# SPDX-License-Identifier: Apache-2.0
"""The kernel log as it comes (source/kmsg/kmsg.c): what it held, what follows, where reading goes on, what is denied."""
import itertools
import json
import os
import queue
import stat
import subprocess
import threading
import time

import pytest

XID = "NVRM: Xid (PCI:0000:18:00): {}, GPU has fallen off the bus."


class Watch:
    def __init__(self, build, *args):
        self.process = subprocess.Popen([build / "test/unit/kmsg/kmsg_watch", *map(str, args)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)  # a line each
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))

    def next(self):
        return self.lines.get(timeout=300)

    def state(self, until=lambda state: True):
        """The state, asked for until it is as wanted; events that come meanwhile are kept."""
        events = []
        for _ in range(3000):
            self.process.stdin.write("state\n")
            self.process.stdin.flush()
            while "log" not in (answer := self.next()):
                events.append(answer)
            if until(answer):
                for event in events:
                    self.lines.put(event)
                return answer
            time.sleep(0.1)
        raise AssertionError(f"never as wanted: {answer}")

    def end(self):
        self.process.stdin.close()
        code = self.process.wait(120)
        assert code == 0


@pytest.fixture
def watch(build):
    made = []

    def make(*args):
        made.append(Watch(build, *args))
        return made[-1]
    yield make
    for one in made:
        one.process.kill()
        one.process.wait()


def record(sequence, text):
    return f"4,{sequence},{sequence * 1000},-;{text}\n"


def test_what_a_file_holds_and_what_follows(watch, tmp_path):
    log = tmp_path / "kmsg"
    log.write_text(record(7, XID.format(48)) + record(8, "nothing") + record(9, XID.format(79))[:-10])
    w = watch(log, "", "", tmp_path)
    first = w.next()
    assert (first["code"], first["before"], first["sequence"]) == (48, True, 7)
    w.state(lambda s: s["caught_up"])
    with log.open("a") as f:
        f.write(record(9, XID.format(79))[-10:] + record(10, XID.format(74)))
    for code in 79, 74:
        event = w.next()
        assert (event["code"], event["before"], event["origin"]) == (code, False, "kmsg")
    assert w.state()["next"] == 11
    w.end()


def test_numbers_that_a_file_leaves_out_are_lost_records(watch, tmp_path):
    log = tmp_path / "kmsg"
    log.write_text(record(7, "nothing") + record(8, "nothing"))
    w = watch(log, "", "", tmp_path)
    w.state(lambda s: s["caught_up"] and s["lost"] == 0)
    with log.open("a") as f:
        f.write(record(20, XID.format(79)))
    assert "11 records of the kernel log were overwritten" in w.next()["text"]
    assert w.next()["code"] == 79
    assert w.state()["lost"] == 11
    w.end()


def test_a_file_that_comes_later_and_is_rotated(watch, tmp_path):
    fabric = tmp_path / "fabricmanager.log"
    line = "[Jul 23 2024 07:53:55] [ERROR] [tid 841] detected NVSwitch fatal error {} on fid 0 on NVSwitch pci bus id 00000000:86:00.0\n"
    w = watch("", "", fabric, tmp_path)
    w.state(lambda s: not s["fabric_log"])
    fabric.write_text(line.format(20034))
    assert w.next()["code"] == 20034
    fabric.rename(tmp_path / "old")
    fabric.write_text(line.format(20009))
    event = w.next()
    assert (event["code"], event["origin"]) == (20009, "fabric-log")
    fabric.write_text("")
    w.state(lambda s: s["fabric_log"])
    with fabric.open("a") as f:
        f.write(line.format(24007))
    assert w.next()["code"] == 24007
    w.end()


def test_reading_goes_on_where_it_ended(watch, tmp_path):
    boot = tmp_path / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("11111111-2222-3333-4444-555555555555\n")
    log = tmp_path / "kmsg"
    log.write_text("".join(record(n, XID.format(n)) for n in range(40, 50)))
    w = watch(log, "", "", tmp_path, "11111111-2222-3333-4444-555555555555", 48)
    assert [w.next()["code"] for _ in range(2)] == [48, 49]
    w.end()
    w = watch(log, "", "", tmp_path, "another", 47)
    assert [w.next()["code"] for _ in range(10)] == list(range(40, 50))
    w.end()


def test_the_first_record_is_processed_once(watch, tmp_path):
    """Kernels count from 0."""
    boot = tmp_path / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("11111111-2222-3333-4444-555555555555\n")
    log = tmp_path / "kmsg"
    log.write_text("")
    w = watch(log, "", "", tmp_path)
    state = w.state(lambda s: s["caught_up"])
    assert (state["read"], state["next"]) == (True, 0)
    w.end()
    log.write_text(record(0, XID.format(48)))  # while nobody read
    w = watch(log, "", "", tmp_path, state["boot_id"], state["next"])
    assert w.next()["code"] == 48
    state = w.state(lambda s: s["next"])
    assert (state["next"], state["lost"]) == (1, 0)
    w.end()
    log.write_text(record(0, XID.format(48)) + record(1, XID.format(79)))
    w = watch(log, "", "", tmp_path, state["boot_id"], state["next"])
    assert w.next()["code"] == 79
    anew = tmp_path / "anew"  # written anew with what it held
    anew.write_text(log.read_text() + record(2, XID.format(74)))
    anew.rename(log)
    assert w.next()["code"] == 74
    w.end()


def test_the_first_record_of_a_file_that_is_written_anew_comes_once(watch, tmp_path):
    log, anew = tmp_path / "kmsg", tmp_path / "anew"
    log.write_text(record(0, XID.format(48)))
    w = watch(log, "", "", tmp_path)
    assert w.next()["code"] == 48
    w.state(lambda s: s["caught_up"])
    anew.write_text(log.read_text() + record(1, XID.format(79)))
    anew.rename(log)
    assert w.next()["code"] == 79
    w.end()


def test_a_log_that_is_denied_was_not_read(watch, tmp_path):
    w = watch(tmp_path / "missing/kmsg", "", "", tmp_path)
    assert not w.state(lambda s: s["log"] == 3 and s["caught_up"])["read"]
    w.end()


def test_records_of_a_file_that_is_written_anew_come_once(watch, tmp_path):
    log = tmp_path / "kmsg"
    log.write_text(record(7, XID.format(48)) + record(8, XID.format(79)))
    w = watch(log, "", "", tmp_path)
    assert [w.next()["code"] for _ in range(2)] == [48, 79]
    w.state(lambda s: s["caught_up"])
    anew = tmp_path / "anew"
    anew.write_text(log.read_text() + record(9, XID.format(74)))
    anew.rename(log)
    assert w.next()["code"] == 74
    anew.write_text(record(7, XID.format(79)) + f"4,8,9999,-;{XID.format(79)}\n")  # numbers of another log
    anew.rename(log)
    assert [w.next()["sequence"] for _ in range(2)] == [7, 8]
    w.end()


def test_plain_lines_of_syslog(watch, tmp_path):
    log = tmp_path / "messages"
    log.write_text("Nov 21 07:00:00 host kernel: [12.3] " + XID.format(79) + "\n")
    w = watch(log, "", "", tmp_path)
    assert w.next()["code"] == 79
    w.end()


S = 10**9
AGES = 7200, 3600, 0  # of three lines of a file, in seconds


def write_lines(log, prefix):
    """Of each age a line as `prefix` begins it, and one behind the last that says nothing."""
    lines = [prefix(age) + XID.format(40 + i) for i, age in enumerate(AGES)]
    log.write_text("\n".join([*lines, prefix(0) + "nothing", ""]))


def clock(form, ago=0, zone=time.localtime):
    return lambda age: time.strftime(form, zone(time.time() - age - ago))


@pytest.mark.parametrize("prefix", [
    lambda age, numbers=itertools.count(): f"4,{next(numbers)},{(9000 - age) * 10**6},-;",
    lambda age: f"[{9000 - age:5d}.000000] ",
    lambda age: f"<4>[{9000 - age:5d}.000000] ",
    clock("%Y-%m-%dT%H:%M:%S.123456+00:00 host kernel: [    3.5] ", zone=time.gmtime),
    clock("%Y-%m-%dT%H:%M:%S,123456%z ", ago=5),
    clock("[%a %b %d %H:%M:%S %Y] "),
    clock("%b %e %H:%M:%S host kernel: [    3.5] "),
    clock("%Y-%m-%dT%H:%M:%SZ ", ago=-5 * 3600, zone=time.gmtime),  # a clock that goes ahead: beside its newest line
], ids=["records", "dmesg", "dmesg-r", "iso", "iso-zone", "dmesg-T", "syslog", "ahead"])
def test_old_lines_of_a_file_are_as_old_as_they_say(watch, tmp_path, prefix):
    log = tmp_path / "log"
    write_lines(log, prefix)
    w = watch(log, "", "", tmp_path)
    events = [w.next() for _ in AGES]
    assert [(e["code"], e["before"], e["undated"]) for e in events] == [(40, True, False), (41, True, False), (42, True, False)]
    apart = [(events[-1]["real"] - e["real"]) / S for e in events]
    assert all(abs(a - age) < 60 for a, age in zip(apart, AGES)), apart
    w.state(lambda s: s["caught_up"])
    with log.open("a") as f:
        f.write(prefix(0) + XID.format(43) + "\n")
    event = w.next()
    assert (event["code"], event["before"], event["undated"]) == (43, False, False)
    w.end()


def test_old_lines_are_as_old_as_a_file_that_nobody_writes(watch, tmp_path):
    log = tmp_path / "log"
    write_lines(log, lambda age: f"[{9000 - age:5d}.000000] ")
    day = 86400
    os.utime(log, (time.time() - 90 * day,) * 2)
    w = watch(log, "", "", tmp_path)
    ages = [time.time() - w.next()["real"] / S - 90 * day for _ in AGES]
    assert all(abs(a - age) < 600 for a, age in zip(ages, AGES)), ages
    w.end()


def test_an_old_line_without_a_time_is_undated(watch, tmp_path):
    log = tmp_path / "log"
    log.write_text(XID.format(40) + "\n[ 5000.000000] nothing\n" + XID.format(41) + "\n[ 9000.000000] " + XID.format(42) + "\n")
    w = watch(log, "", "", tmp_path)
    events = [w.next() for _ in range(3)]
    assert [(e["code"], e["undated"]) for e in events] == [(40, True), (41, False), (42, False)]
    assert abs((events[2]["real"] - events[1]["real"]) / S - 4000) < 60  # as old as the line before it
    w.end()


def test_old_lines_of_another_boot_are_undated(watch, tmp_path):
    log = tmp_path / "log"
    log.write_text("[ 9000.000000] " + XID.format(40) + "\n[   12.000000] " + XID.format(41) + "\n")
    w = watch(log, "", "", tmp_path)
    assert [(e["code"], e["undated"]) for e in (w.next(), w.next())] == [(40, True), (41, False)]
    w.end()


def test_all_that_a_large_file_holds_is_old(watch, tmp_path):
    log = tmp_path / "log"
    with log.open("w") as f:
        f.write(record(1, XID.format(40)))
        for n in range(2, 2000):
            f.write(record(n, "x" * 4000))
        f.write(record(2000, XID.format(41)))
    assert log.stat().st_size > 7 << 20
    w = watch(log, "", "", tmp_path)
    assert [(e["code"], e["before"]) for e in (w.next(), w.next())] == [(40, True), (41, True)]
    w.state(lambda s: s["caught_up"])
    with log.open("a") as f:
        f.write(record(2001, XID.format(42)))
    event = w.next()
    assert (event["code"], event["before"]) == (42, False)
    w.end()


def fake_journalctl(tmp_path, body):
    program = tmp_path / "journalctl"
    program.write_text("#!/bin/sh\n" + body)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def test_the_journal_where_the_log_is_denied(watch, tmp_path):
    old = json.dumps({"MESSAGE": XID.format(48), "_SOURCE_MONOTONIC_TIMESTAMP": "5000000", "__REALTIME_TIMESTAMP": "1700000000000000"})
    octets = json.dumps({"MESSAGE": list(XID.format(62).encode() + b"\xff"), "__MONOTONIC_TIMESTAMP": "6000000",
                         "__REALTIME_TIMESTAMP": "4000000000000000"})
    program = fake_journalctl(tmp_path, f"echo '{old}'\necho 'no json'\necho '{octets}'\nexec sleep 100\n")
    w = watch(tmp_path / "missing/kmsg", program, "", tmp_path)
    first, second = w.next(), w.next()
    assert (first["code"], first["origin"], first["before"]) == (48, "journal", True)
    assert abs(first["real"] - 1700000000 * 10**9) < 10**9
    assert (second["code"], second["before"]) == (62, False)
    state = w.state(lambda s: s["caught_up"])
    assert state["log"] == 2
    w.end()


def test_where_the_journal_was_read_to_says_nothing_about_the_log(watch, tmp_path):
    boot = tmp_path / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("11111111-2222-3333-4444-555555555555\n")
    line = json.dumps({"MESSAGE": XID.format(48), "_SOURCE_MONOTONIC_TIMESTAMP": "5000000", "__REALTIME_TIMESTAMP": "1700000000000000"})
    program = fake_journalctl(tmp_path, f"echo '{line}'\nexec sleep 100\n")
    w = watch(tmp_path / "missing", program, "", tmp_path)
    assert w.next()["code"] == 48
    read_to = w.state(lambda s: s["caught_up"])
    w.end()
    w = watch(tmp_path / "missing", program, "", tmp_path, read_to["boot_id"], read_to["next"])
    assert w.state(lambda s: s["log"] == 2 and s["caught_up"])["next"] == read_to["next"]
    assert w.lines.empty()  # it was given before
    w.end()
    log = tmp_path / "kmsg"
    log.write_text(record(7, XID.format(79)))
    w = watch(log, "", "", tmp_path, read_to["boot_id"], read_to["next"])
    assert w.next()["code"] == 79
    assert w.state(lambda s: s["caught_up"])["next"] == 8
    w.end()
    w = watch(tmp_path / "missing", program, "", tmp_path, read_to["boot_id"], 10**8)  # of the log, and larger
    assert w.next()["code"] == 48
    w.end()


@pytest.mark.parametrize("body", ["exit 1\n", None], ids=["ends", "missing"])
def test_neither_is_there(watch, tmp_path, body):
    program = fake_journalctl(tmp_path, body) if body else tmp_path / "no-such-program"
    w = watch(tmp_path / "missing/kmsg", program, "", tmp_path)
    state = w.state(lambda s: s["log"] == 3 and s["why"].startswith("'"))
    assert "denied, and" in state["why"]
    (tmp_path / "missing").mkdir()
    (tmp_path / "missing/kmsg").write_text(record(1, XID.format(79)))
    assert w.next()["code"] == 79  # it tries again
    w.end()


def test_what_a_device_holds_that_comes_later_is_from_before(watch, tmp_path):
    w = watch(tmp_path / "kmsg", "", "", tmp_path)
    w.state(lambda s: s["log"] == 3 and s["caught_up"])
    os.mkfifo(tmp_path / "made")
    fd = os.open(tmp_path / "made", os.O_RDWR | os.O_NONBLOCK)
    os.write(fd, record(7, XID.format(48)).encode())
    (tmp_path / "made").rename(tmp_path / "kmsg")
    event = w.next()
    assert (event["code"], event["before"]) == (48, True)
    w.state(lambda s: s["caught_up"])
    os.write(fd, record(8, XID.format(79)).encode())
    event = w.next()
    assert (event["code"], event["before"]) == (79, False)
    w.end()
    os.close(fd)


def test_the_real_log(watch):
    try:
        fd = os.open("/dev/kmsg", os.O_WRONLY)
        os.close(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        pytest.skip(f"/dev/kmsg cannot be read and written here: {error}")
    w = watch("/dev/kmsg", "", "", "")
    w.state(lambda s: s["caught_up"])
    mark = f"{os.getpid()}"
    os.write(fd, f"<4>NVRM: Xid (PCI:0000:fe:00): 14, test of Stoker {mark}\n".encode())
    while mark not in (event := w.next()).get("text", ""):
        pass
    assert (event["kind"], event["code"], event["before"], event["pci"]) == ("xid", 14, False, "0000:fe:00.0")
    # An agent that starts now finds it in what the log holds, and not again where it knows that it has read it.
    state = w.state()
    again = watch("/dev/kmsg", "", "", "")
    while mark not in (event := again.next()).get("text", ""):
        pass
    assert event["before"]
    third = watch("/dev/kmsg", "", "", "", state["boot_id"], state["next"])
    third.state(lambda s: s["caught_up"])
    os.write(fd, f"<4>NVRM: Xid (PCI:0000:fe:00): 14, second test of Stoker {mark}\n".encode())
    while mark not in (event := third.next()).get("text", ""):
        pass
    assert "second" in event["text"]
    os.close(fd)
    for one in w, again, third:
        one.end()
