# SPDX-License-Identifier: Apache-2.0
"""A terminal with a shell in it, by tmux, and a bare one whose bytes are seen."""
import contextlib
import fcntl
import os
import pathlib
import pty
import select
import shutil
import signal
import struct
import subprocess
import termios
import time

PATIENCE = 120  # seconds until a test gives up; nothing is measured
# What a program may leave behind on a terminal, as tmux knows it.
MODES = ("alternate_on", "cursor_flag", "keypad_flag", "keypad_cursor_flag", "mouse_any_flag", "mouse_sgr_flag",
         "insert_flag", "origin_flag", "wrap_flag")


def until(found, what):
    """What `found` returns once it is true."""
    end = time.monotonic() + PATIENCE
    while not (value := found()):
        assert time.monotonic() < end, what() if callable(what) else what
        time.sleep(0.02)
    return value


def plain_environment(**more):
    """Without what the one who runs the tests has set of terminals; None leaves a name out."""
    names = ("TERM", "COLORTERM", "COLORFGBG", "NO_COLOR", "LANG", "LC_ALL", "LC_CTYPE", "TMUX", "ESCDELAY", "LINES", "COLUMNS")
    env = {k: v for k, v in os.environ.items() if k not in names} | {"LANG": "C.UTF-8"} | more
    return {k: v for k, v in env.items() if v is not None}


class Tmux:
    """A shell in a terminal of so many columns and rows."""

    def __init__(self, folder, width=100, height=30, **env):
        self.socket, self.folder = folder / "tmux", folder
        assert shutil.which("tmux"), "tmux is needed: tools/deps.sh test"
        settings = folder / "tmux.conf"
        settings.write_text("set -g default-terminal tmux-256color\nset -g history-limit 1000\nset -sg escape-time 0\n")
        shell = ["bash", "--norc", "--noprofile", "-i"]
        prompt = r"\[\e[J\]ready> "  # what a narrower window has wrapped to below it is cleared
        self.tmux("-f", str(settings), "new-session", "-d", "-x", str(width), "-y", str(height), *shell,
                  env=plain_environment(PS1=prompt, **env))
        self.wait("ready>")

    def tmux(self, *words, env=None):
        return subprocess.run(["tmux", "-S", str(self.socket), *words], check=True, text=True, stdout=subprocess.PIPE,
                              env=env).stdout

    def type(self, *keys):
        """Keys by tmux's names, or text of which none is the name of a key."""
        self.tmux("send-keys", *keys)

    def line(self, text):
        """A command for the shell."""
        self.tmux("send-keys", "-l", text)
        self.type("Enter")

    def screen(self, coloured=False, past=False):
        """What it shows; `past`: with the lines that have gone out at its top."""
        return self.tmux("capture-pane", "-p", *(["-e"] if coloured else []), *(["-S", "-"] if past else []))

    def wait(self, text):
        """The screen once `text` is on it."""
        return until(lambda: text in (screen := self.screen()) and screen, lambda: f"no {text!r} on\n{self.screen()}")

    def wait_gone(self, text):
        until(lambda: text not in self.screen(), lambda: f"still {text!r} on\n{self.screen()}")

    def ask(self, command):
        """What a command of the shell says, by way of a file; its lines stay on the screen."""
        answer = self.folder / "answer"
        answer.unlink(missing_ok=True)
        self.line(f"{{ {command}; }} > {answer}.new; mv {answer}.new {answer}")
        until(answer.exists, lambda: f"the shell does not answer:\n{self.screen()}")
        return answer.read_text()

    def modes(self):
        return self.tmux("display-message", "-p", " ".join(f"{name}=#{{{name}}}" for name in MODES)).strip()

    def resize(self, width, height):
        self.tmux("resize-window", "-x", str(width), "-y", str(height))

    def foreground(self):
        """The process group that has the terminal."""
        shell = self.tmux("display-message", "-p", "#{pane_pid}").strip()
        stat = (pathlib.Path("/proc") / shell / "stat").read_text().rpartition(")")[2].split()
        return int(stat[5])

    def close(self):
        with contextlib.suppress(subprocess.CalledProcessError):
            self.tmux("kill-server")


class Bare:
    """A program on a pseudo terminal of which the bytes are read."""

    def __init__(self, command, width=100, height=30, **env):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", height, width, 0, 0))
            os.execvpe(command[0], command, plain_environment(TERM="xterm-256color") | {k: v for k, v in env.items() if v})
        self.data, self.status = b"", None

    def read(self):
        """Takes what there is; False where nothing comes any more."""
        if not select.select([self.master], [], [], 0.05)[0]:
            return True
        try:
            part = os.read(self.master, 1 << 16)
        except OSError:  # the last one has closed it
            part = b""
        self.data += part
        return bool(part)

    def wait(self, found, what):
        end = time.monotonic() + PATIENCE
        while not found(self.data):
            alive = self.read()
            assert time.monotonic() < end and (alive or found(self.data)), f"{what}: {self.data[-2000:]!r}"

    def rest(self, seconds=0.3):
        """Reads for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read()

    def send(self, data):
        os.write(self.master, data)

    def hang_up(self):
        os.close(self.master)
        self.master = -1

    def end(self, number=None):
        """Waits for its end; returns the exit status, negative for a signal."""
        if number:
            os.kill(self.pid, number)
        found = lambda: os.waitpid(self.pid, os.WNOHANG)[1:] if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) else None
        while self.master >= 0 and self.read():
            pass
        self.status = os.waitstatus_to_exitcode(until(found, "it does not end")[0])
        return self.status

    def close(self):
        if self.status is None:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
        if self.master >= 0:
            os.close(self.master)
