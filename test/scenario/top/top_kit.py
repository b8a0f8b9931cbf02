# SPDX-License-Identifier: Apache-2.0
"""`stoker top` in a terminal of tmux, beside a simulated node and a real agent on it."""
import pathlib
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "agent")]
import agent_rig  # noqa: E402
from agent_rig import until  # noqa: E402
from tmux_rig import Tmux  # noqa: E402

SIM_NAMES = ("STOKER_ROOT", "STOKER_SIM", "STOKER_SIM_STRICT", "LD_LIBRARY_PATH", "PATH")


def of_sim(env):
    return {name: env[name] for name in SIM_NAMES if name in env}


class Screen(Tmux):
    """A shell in a terminal, from which `stoker top` is started."""

    def __init__(self, stoker, folder, env, width=120, height=36):
        folder.mkdir()
        self.config = folder / "config"  # not that of who runs the tests
        super().__init__(folder, width, height, XDG_CONFIG_HOME=str(self.config), **of_sim(env))
        self.stoker = stoker

    def top(self, *options):
        self.line(shlex.join(map(str, (self.stoker, "top", *options))))

    def wait(self, text):
        """With the patience of a busy machine."""
        return until(lambda: text in (screen := self.screen()) and screen, lambda: f"no {text!r} on\n{self.screen()}")

    def ended(self):
        """The shell's words for how the last program ended."""
        # until the program has ended, the terminal forgets what is typed
        until(lambda: self.screen().rstrip().endswith("ready>"), self.screen)
        self.line("echo ended=$?")
        until(lambda: "ended=" in self.screen().replace("ended=$?", ""), lambda: self.screen())
        return int(self.screen().replace("ended=$?", "").rpartition("ended=")[2].split()[0])


class Kit:
    def __init__(self, stoker, tmp):
        self.stoker, self.tmp, self.all = stoker, tmp, []

    def folder(self, name):
        folder = self.tmp / f"{name}{len(self.all)}"
        folder.mkdir()
        return folder

    def keep(self, thing):
        self.all.append(thing)
        return thing

    def node(self, scenario="default", **options):
        return self.keep(agent_rig.Node(self.stoker, self.folder("node"), scenario, **options))

    def agent(self, node, folder=None, **options):
        return self.keep(agent_rig.Agent(self.stoker, folder or self.folder("agent"), node.env, **options))

    def screen(self, node, **size):
        return self.keep(Screen(self.stoker, self.tmp / f"screen{len(self.all)}", node.env, **size))

    def run(self, node, *options, **more):
        """`stoker top` without a terminal."""
        return subprocess.run([self.stoker, "top", *map(str, options)], env={**node.env, "LANG": "C.UTF-8", **more.pop("env", {})},
                              capture_output=True, text=True, timeout=120, **more)

    def close(self):
        for thing in reversed(self.all):
            thing.close() if isinstance(thing, Screen) else thing.stop()
