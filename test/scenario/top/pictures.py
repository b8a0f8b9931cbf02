#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of docs/top.md anew: `stoker top` in a terminal of tmux beside an agent, on a simulated node whose clock runs
ten times as fast, some minutes after it began.

    test/scenario/top/pictures.py BUILD [NAME...]        into docs/pictures/top"""
import pathlib
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(HERE)]
import picture  # noqa: E402
from top_kit import Kit  # noqa: E402

SPEED, PLAYED_S, WIDTH, HEIGHT = 10, 75, 120, 36
# name, scenario, what is typed
PICTURES = [("gpus", "thermal-throttle-fan", ()), ("topology", "default", ("5",)), ("processes", "default", ("3",))]


def draw(kit, name, scenario, keys, folder):
    node = kit.node(scenario, speed=SPEED)
    agent = kit.agent(node, options=("--journal", "none", "--clock-speed", SPEED, "--sample-fast", "1s", "--sample-normal", "1s", "--sample-slow", "5s"))
    time.sleep(PLAYED_S)
    screen = kit.screen(node, width=WIDTH, height=HEIGHT)
    screen.top("--control", agent.control, "--interval", "500ms")  # of a clock that is ten times as fast
    screen.wait("F10Quit")
    for key in keys:
        screen.type(key)
    time.sleep(3)  # the plots' past comes, and colours
    (folder / f"{name}.svg").write_text(picture.draw([("stoker top", screen.screen(coloured=True))], columns=WIDTH))
    screen.type("q")


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    folder, names = ROOT / "docs/pictures/top", sys.argv[2:]
    folder.mkdir(exist_ok=True)
    for name, scenario, keys in (p for p in PICTURES if not names or p[0] in names):
        with tempfile.TemporaryDirectory() as place:
            kit = Kit(build / "stoker", pathlib.Path(place))
            try:
                draw(kit, name, scenario, keys, folder)
            finally:
                kit.close()


if __name__ == "__main__":
    main()
