# SPDX-License-Identifier: Apache-2.0
"""The terminal of `stoker top` (src/verb/top/terminal.h): what is shown on terminals of all kinds, what keys and the mouse
are read as, and that the terminal is as it was before, however the program ends. terminal_demo shows what it is told;
the last tests drive the verb itself."""
import os
import pathlib
import re
import signal
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from tmux_rig import Bare, Tmux, until  # noqa: E402
from top_kit import Kit  # noqa: E402

UP, ENTER, ESCAPE, BACKSPACE, F1 = 0x110000, 0x110008, 0x110009, 0x11000a, 0x11000d
ENDS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
ERASES = re.compile(rb"\033\[[23]?J|\033c")


class Events:
    """What the demo notes in its file."""

    def __init__(self, path):
        self.path = path

    def all(self):
        return self.path.read_text().split("\n")[:-1] if self.path.exists() else []

    def wait(self, event, count=1):
        until(lambda: self.all().count(event) >= count, lambda: f"no {event!r} in {self.all()}")


@pytest.fixture
def demo(build):
    return build / "test/scenario/top/terminal_demo"


@pytest.fixture
def events(tmp_path):
    return Events(tmp_path / "events")


@pytest.fixture
def tmux(tmp_path):
    made = []

    def make(*sizes, **env):
        made.append(Tmux(tmp_path, *sizes, **env))
        return made[-1]

    yield make
    for terminal in made:
        terminal.close()


@pytest.fixture
def bare(demo, events):
    made = []

    def make(command=None, **options):
        made.append(Bare(command or [str(demo), str(events.path)], **options))
        return made[-1]

    yield make
    for terminal in made:
        terminal.close()


def start(terminal, demo, events, env=""):
    terminal.line(f"{env} {demo} {events.path}; echo over $?")
    terminal.wait("ink PLAIN")
    terminal.wait("corner")
    return terminal


# --- what is shown ------------------------------------------------------------------------------------------------------


def test_a_picture_on_a_terminal_with_256_colours(tmux, demo, events):
    screen = start(tmux(), demo, events).screen(coloured=True)
    lines = start_lines(screen)
    assert "utf8" in screen
    for ink, colour in (("GOOD", "38;5;28"), ("WARN", "38;5;130"), ("BAD", "38;5;160"), ("SERIES_B", "38;5;163")):
        assert re.search(rf"\033\[[0-9;]*{colour}m(\033\[[0-9;]*m)*ink {ink}", screen), ink
    assert re.search(r"\033\[[0-9;]*7m(\033\[[0-9;]*m)*selected\033\[0", screen)
    assert "╭─ demo ─" in lines[0] and lines[0].endswith("╮") and len(lines[0]) == 100
    assert any("│wide 漢字 é e\u0301 end" in line for line in lines), lines
    assert any("██████████──────────" in line for line in lines)
    assert lines[29].endswith("corner") and len(lines[29]) == 100  # the last cell of the screen too


def start_lines(screen):
    return re.sub(r"\033\[[0-9;]*m", "", screen).split("\n")


@pytest.mark.parametrize("env, utf8, code", [
    ("TERM=linux", True, "32"), ("TERM=xterm", True, "32"), ("TERM=vt100", True, None),
    ("NO_COLOR=1", True, None), ("NO_COLOR=", True, "38;5;28"), ("TERM=xterm-nobody-has-heard-of", True, "38;5;28"),
    ("LANG=C", False, "38;5;28"), ("LANG=xx_YY.UTF-8", True, "38;5;28"), ("LANG=", False, "38;5;28"),
    ("COLORFGBG='0;15' TERM=xterm", True, "32"),
])
def test_the_picture_is_what_the_terminal_can(tmux, demo, events, env, utf8, code):
    terminal = start(tmux(), demo, events, env)
    terminal.wait("utf8" if utf8 else "ascii")
    screen = terminal.screen(coloured=True)
    found = re.search(r"((?:\033\[[0-9;]*m)*)ink GOOD", screen)[1]
    assert (f"{code}m" in found) if code else not re.search(r"3[0-7]m|38;", screen), found
    wide = next(line for line in start_lines(screen) if "wide" in line)
    assert ("漢字 é e\u0301 end" in wide) if utf8 else ("wide ???? e e end" in wide), wide
    assert ("╭─ demo ─" in screen) == utf8 and ("+- demo -" in screen) != utf8
    assert ("█" in screen) == utf8


def test_warnings_on_a_light_background_are_not_yellow(tmux, demo, events):
    terminal = start(tmux(), demo, events, "COLORFGBG='0;15' TERM=xterm")
    assert re.search(r"35m(\033\[[0-9;]*m)*ink WARN", terminal.screen(coloured=True))


@pytest.mark.parametrize("env, said", [("TERM=dumb", "cannot place its cursor"), ("TERM=", "TERM is not set")])
def test_a_terminal_that_cannot_is_told_what_to_do(tmux, demo, events, env, said):
    terminal = tmux()
    before = terminal.ask("stty -g")
    terminal.line(f"{env} {demo} {events.path}; echo over $?")
    assert said in terminal.wait("over 2").replace("\n", "")
    assert terminal.ask("stty -g") == before


def test_into_a_pipe_there_is_no_picture(tmux, demo, events):
    terminal = tmux()
    terminal.line(f"{demo} {events.path} | cat; echo over")
    terminal.wait("\nover")
    assert "stdout is no terminal" in terminal.screen() and events.all() == []


def test_keys_come_from_the_terminal_where_stdin_is_none(tmux, demo, events):
    terminal = start(tmux(), demo, events, "</dev/null")
    terminal.type("x")
    events.wait("key 78")
    terminal.type("q")
    terminal.wait("over 0")


def test_only_what_changed_is_sent(bare, events):
    terminal = bare(LANG="C.UTF-8")
    terminal.wait(lambda data: b"corne" in data, "the first picture")
    terminal.wait(lambda data: b"tick 1" in data or b"\x08" in data or data.count(b"\033[") > 40, "a tick")
    terminal.rest()
    first = len(terminal.data)
    terminal.wait(lambda data: len(data) >= first + 40, "ticks")
    more = terminal.data[first:]
    assert not ERASES.search(more) and b"corne" not in more and b"ink" not in more, more
    sent = len(terminal.data)
    terminal.send(b"x")  # a line of the picture says so
    events.wait("key 78")
    terminal.wait(lambda data: b"key 78" in data[sent:], "what changed")
    assert not ERASES.search(terminal.data[first:]) and b"corne" not in terminal.data[first:]
    terminal.send(b"\x0c")
    terminal.wait(lambda data: b"corne" in data[first:], "everything anew after Ctrl-L")
    assert "key c" not in events.all()


# --- keys and the mouse -------------------------------------------------------------------------------------------------

NAMED = ["Up", "Down", "Left", "Right", "PPage", "NPage", "Home", "End", "Enter", "Escape", "BSpace", "Tab", "BTab"]


@pytest.mark.parametrize("term", ["tmux-256color", "xterm", "linux", "vt220"])
def test_keys_are_what_they_are_called(tmux, demo, events, term):
    terminal = start(tmux(), demo, events, f"TERM={term}")
    # what tmux sends are xterm's sequences; a Linux console and a VT220 have others for some
    sent = NAMED if "-" in term or term == "xterm" else ["Up", "Down", "Left", "Right", "PPage", "NPage", "Enter", "BSpace", "Tab"]
    for name in sent:
        terminal.type(name)
        events.wait(f"key {UP + NAMED.index(name):x}")
    for name, key in (("a", "61"), ("Z", "5a"), ("/", "2f"), ("Space", "20"), ("C-a", "1"), ("ä", "e4"), ("漢", "6f22")):
        terminal.type(name)
        events.wait(f"key {key}")
    if len(sent) == len(NAMED):
        for i in range(12):
            terminal.type(f"F{i + 1}")
            events.wait(f"key {F1 + i:x}")
    seen = [event for event in events.all() if event.startswith("key")]
    assert len(seen) == len(set(seen)), seen  # none came twice, or as something else


@pytest.mark.parametrize("bytes_", [
    b"\033x", b"\033\033[A", b"\033[27;5;9~", b"\033[I", b"\033[?62;1c", b"\033]11;rgb:0000/0000/0000\033\\",
    b"\033]11;rgb:ffff/ffff/ffff\007", b"\033P1$r0m\033\\", b"\033Oz", b"\033[200~", b"\033[1;9A",
])
def test_alt_and_what_nobody_knows_are_nothing(bare, events, bytes_):
    terminal = bare(LANG="C.UTF-8")
    terminal.wait(lambda data: b"corne" in data, "the picture")
    terminal.send(bytes_)
    terminal.rest()
    terminal.send(b"y")
    events.wait("key 79")
    assert [event for event in events.all() if event.startswith("key")] == ["key 79"]


def test_escape_alone_is_a_key_and_does_not_wait_for_more(bare, events):
    terminal = bare(LANG="C.UTF-8")
    terminal.wait(lambda data: b"corne" in data, "the picture")
    terminal.send(b"\033")
    events.wait(f"key {ESCAPE:x}")
    terminal.send(b"[")
    events.wait("key 5b")


def test_the_mouse_clicks_and_turns(bare, events):
    terminal = bare(LANG="C.UTF-8")
    terminal.wait(lambda data: b"corne" in data, "the picture")
    assert b"\033[?1000h" in terminal.data and b"\033[?1006h" in terminal.data
    click = b"\033[<0;11;6M\033[<0;11;6m"
    terminal.send(click)
    events.wait("mouse click 10 5")
    terminal.send(b"\033[<0;21;7M\033[<0;21;7m" + click + click)  # quick ones are not merged
    events.wait("mouse click 10 5", count=3)
    terminal.send(b"\033[<64;3;4M")
    events.wait("mouse up 2 3")
    terminal.send(b"\033[<65;3;4M\033[<2;3;4M\033[<2;3;4m\033[<1;3;4M\033[<35;3;4M\033[<0;0;0M\033[<9;9M"
                  b"\033[<0;1;1;1M\033[<999999999999;1;1Mz")
    events.wait("key 7a")
    mice = [event for event in events.all() if event.startswith("mouse")]
    assert mice == ["mouse click 10 5", "mouse click 20 6", "mouse click 10 5", "mouse click 10 5", "mouse up 2 3",
                    "mouse down 2 3"]
    terminal.send(b"\033[M +%\033[M#+%\033[M`!!y")  # as terminals say it that know no better
    events.wait("key 79")
    assert [event for event in events.all() if event.startswith("mouse")][6:] == ["mouse click 10 4", "mouse up 0 0"]




# --- sizes --------------------------------------------------------------------------------------------------------------


def test_every_size(tmux, demo, events):
    terminal = start(tmux(), demo, events)
    for width, height in ((60, 15), (300, 100), (80, 24), (61, 16), (200, 15), (60, 100), (100, 30)):
        terminal.resize(width, height)
        events.wait(f"resize {width} {height}")
        terminal.wait(f"{width}x{height} utf8")
        lines = until(lambda: (found := terminal.screen().split("\n")) and found[height - 1].endswith("corner") and found,
                      terminal.screen)
        assert len(lines[0]) == width and lines[0].endswith("╮") and len(lines[height - 1]) == width
        assert terminal.screen().count("demo") == 1
    terminal.type("q")
    terminal.wait("over 0")


def test_a_size_that_is_too_small_says_so(tmux, demo, events):
    terminal = start(tmux(), demo, events)
    for width, height in ((59, 15), (60, 14), (20, 5), (40, 2)):
        terminal.resize(width, height)
        events.wait(f"resize {width} {height}")
        terminal.wait(f"{width}x{height} is too small: 60x15"[:width])
        assert "ink" not in terminal.screen()
    terminal.resize(1, 1)
    events.wait("resize 1 1")
    terminal.resize(100, 30)
    terminal.wait("ink PLAIN")
    assert "small" not in terminal.screen()


# --- the terminal as it was ---------------------------------------------------------------------------------------------


class Before:
    """What the terminal was like, to be so again."""

    def __init__(self, terminal):
        self.terminal = terminal
        terminal.line("echo this stays")
        self.see()
        self.stty, self.modes = terminal.ask("stty -g"), terminal.modes()

    def see(self):
        until(lambda: "this stays" in self.terminal.screen(past=True).split("\n"), self.terminal.screen)

    def check(self):
        self.see()
        until(lambda: self.terminal.modes() == self.modes, lambda: f"{self.terminal.modes()}, was {self.modes}")
        assert self.terminal.ask("stty -g") == self.stty


def alternate(terminal):
    return "alternate_on=1" in terminal.modes()


# a bad address: 139, and 1 where a sanitizer takes it
@pytest.mark.parametrize("key, status", [("q", 0), ("X", 7), ("A", 134), ("B", 1)])
def test_the_terminal_is_as_it_was_after_a_key(tmux, demo, events, key, status):
    terminal = tmux()
    before = Before(terminal)
    start(terminal, demo, events)
    assert alternate(terminal) and terminal.modes() != before.modes
    terminal.type(key)
    terminal.wait(f"over {status}")
    before.check()
    if key == "A":
        assert "Assertion" in terminal.screen()  # why it ended is not lost with the picture


@pytest.mark.parametrize("number", ENDS)
def test_the_terminal_is_as_it_was_after_a_signal(tmux, demo, events, number):
    terminal = tmux()
    before = Before(terminal)
    start(terminal, demo, events)
    os.kill(terminal.foreground(), number)
    events.wait(f"end {int(number)}")
    terminal.wait("over 3")
    before.check()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT])
def test_one_that_listens_no_more_can_be_ended(tmux, demo, events, number):
    terminal = tmux()
    before = Before(terminal)
    start(terminal, demo, events)
    terminal.type("H")
    events.wait("deaf")
    group = terminal.foreground()
    os.kill(group, number)
    if number == signal.SIGTERM:
        time.sleep(0.2)
        assert alternate(terminal)
        os.kill(group, number)
    terminal.wait(f"over {128 + number}")
    before.check()


@pytest.mark.parametrize("key", ["C-z", None])
def test_stopped_and_in_the_foreground_again(tmux, demo, events, key):
    terminal = tmux()
    before = Before(terminal)
    terminal.line(f"{demo} {events.path}")
    terminal.wait("corner")
    picture = terminal.screen()
    for i in range(2):
        if key:
            terminal.type(key)
            terminal.wait("Stopped")
            before.check()
        else:  # nobody can see this one coming
            os.kill(terminal.foreground(), signal.SIGSTOP)
            until(lambda: "Stopped" in terminal.ask("jobs"), terminal.screen)
            terminal.line("clear")
        terminal.resize(90 + i, 28)
        terminal.line("fg")
        events.wait(f"resize {90 + i} 28")
        terminal.wait(f"{90 + i}x28 utf8")
        terminal.wait("corner")
        assert alternate(terminal)
        terminal.type("y")
        events.wait("key 79", count=i + 1)
        terminal.resize(100, 30)
        events.wait("resize 100 30", count=i + 1)
        terminal.wait("last: resize 100 30")
    assert len(terminal.screen()) == len(picture) or "demo" in terminal.screen()
    terminal.type("q")
    terminal.wait_gone("corner")
    before.check()


def test_killed_while_it_is_stopped(tmux, demo, events):
    terminal = tmux()
    before = Before(terminal)
    terminal.line(f"{demo} {events.path}")
    terminal.wait("corner")
    group = terminal.foreground()
    terminal.type("C-z")
    terminal.wait("Stopped")
    os.kill(group, signal.SIGKILL)
    terminal.line("wait; echo reaped")
    terminal.wait("\nreaped")
    before.check()


def test_what_is_said_on_stderr_is_not_in_the_picture_and_not_lost(tmux, demo, events):
    terminal = tmux()
    before = Before(terminal)
    start(terminal, demo, events)
    picture = terminal.screen().split("\n")
    terminal.type("E")
    events.wait("key 45")
    terminal.wait("last: key 45")
    assert terminal.screen().split("\n")[3:9] == picture[3:9] and "said" not in terminal.screen()
    terminal.type("q")
    terminal.wait("over 0")
    assert "said on stderr" in terminal.screen()
    before.check()


def test_stderr_that_goes_into_a_file_is_left_alone(tmux, demo, events, tmp_path):
    terminal = start(tmux(), demo, events, f"2>{tmp_path}/said")
    terminal.type("E")
    until(lambda: (tmp_path / "said").read_text() == "said on stderr\n", "nothing in the file")


def test_it_ends_with_its_terminal(bare, events):
    terminal = bare(LANG="C.UTF-8")
    terminal.wait(lambda data: b"corne" in data, "the picture")
    terminal.hang_up()
    assert terminal.end() == 3
    assert events.all()[-1] in ("end 0", "end 1")


def test_it_ends_with_its_terminal_where_nobody_sends_a_signal(bare, demo, events):
    """As after nohup: SIGHUP is ignored, and the terminal says that it is gone."""
    terminal = bare(["sh", "-c", f"trap '' HUP; exec {demo} {events.path}"], LANG="C.UTF-8")
    terminal.wait(lambda data: b"corne" in data, "the picture")
    terminal.hang_up()
    assert terminal.end() == 3
    assert events.all()[-1] == "end 0"


# --- the verb itself ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def node(stoker, tmp_path_factory):
    kit = Kit(stoker, tmp_path_factory.mktemp("node"))
    yield kit.node()
    kit.close()


@pytest.fixture
def top(stoker, node, tmp_path):
    """A terminal in which `stoker top` is started by .top(), and what the terminal was like before: .before."""
    kit = Kit(stoker, tmp_path)
    screen = kit.screen(node)
    screen.before = Before(screen)
    yield screen
    kit.close()


def run_top(top, *options):
    top.top("--alone", *options)
    top.wait("8 of 8 GPUs up")


@pytest.mark.parametrize("number", ENDS)
def test_top_leaves_the_terminal_as_it_was_after_a_signal(top, number):
    run_top(top)
    os.kill(top.foreground(), number)
    assert top.ended() == 128 + number
    top.before.check()


def test_top_stops_and_goes_on_and_may_be_killed_while_it_is_stopped(top):
    run_top(top)
    group = top.foreground()
    top.type("C-z")
    top.wait("Stopped")
    top.before.check()
    top.line("clear; echo this stays; fg")
    top.wait("8 of 8 GPUs up")
    assert alternate(top)
    top.type("3")
    top.wait("PID USER")
    top.type("C-z")
    top.wait("Stopped")
    os.killpg(group, signal.SIGKILL)
    top.line("wait; echo reaped")
    top.wait("\nreaped")
    top.before.check()


def test_top_in_every_size(top):
    run_top(top)
    for width, height in ((60, 15), (300, 100), (59, 15), (80, 24)):
        top.resize(width, height)
        if width < 60:
            top.wait("is too small: 60x15")
        else:
            until(lambda: "All healthy" in top.screen() and "Help" in top.screen().split("\n")[height - 1], top.screen)
    top.type("C-l")
    top.wait("8 of 8 GPUs up")
    top.type("q")
    assert top.ended() == 0
    top.before.check()


@pytest.mark.parametrize("options, coloured, utf8, mouse", [
    ((), True, True, True), (("--colour", "never"), False, True, True), (("--ascii", "--no-mouse"), True, False, False)])
def test_top_is_shown_as_it_was_asked_for(top, options, coloured, utf8, mouse):
    run_top(top, *options)
    screen = top.screen(coloured=True)
    assert ("38;5;" in screen) == coloured
    assert any(ord(c) > 127 for c in screen) == utf8
    assert ("mouse_any_flag=1" in top.modes()) == mouse
    top.type("q")
    assert top.ended() == 0
    top.before.check()
