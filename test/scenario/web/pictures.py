#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of docs/scenes.md anew, at three widths, light and dark: plays each scene and waits until the page says what the
document says. And the incident of docs/web.md, which is one click away.

    test/scenario/web/pictures.py BUILD [SCENE...]"""
import pathlib
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(ROOT / "test"), str(ROOT / "test/peer"), str(HERE)]
import browser  # noqa: E402
import fetch  # noqa: E402
import scenes  # noqa: E402
import site_rig  # noqa: E402

WAITED_S, DRAWN_S = 20, 1  # until the charts have something to show, and are drawn


def main():
    build, wanted = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    found = browser.program() or browser.program(fetch.Peers(build / "peers").get("chromium"))
    scenes.PICTURES.mkdir(exist_ok=True)
    for name, parts in scenes.sentences().items():
        if wanted and name not in wanted:
            continue
        with tempfile.TemporaryDirectory() as tmp, scenes.played(build / "stoker", pathlib.Path(tmp), name) as (_, url):
            page = browser.Browser(*found, pathlib.Path(tmp) / "profile")
            visitor = site_rig.Visitor(page, url).open()
            scenes.rig.until(lambda: not scenes.unseen(visitor, parts), lambda: f"{name}: {scenes.unseen(visitor, parts)}")
            time.sleep(WAITED_S)
            for width, height in scenes.SIZES.items():
                for theme in scenes.THEMES:
                    visitor.look(width, height, theme)
                    time.sleep(DRAWN_S)
                    page.picture(scenes.PICTURES / f"{name}-{width}-{theme}.webp")
            if name == "hot":
                visitor.look(1400, 900, "light")
                visitor.click("#todo-text")
                time.sleep(DRAWN_S)
                page.picture(scenes.PICTURES / "incident.webp")
            page.end()
            print(name)


if __name__ == "__main__":
    main()
