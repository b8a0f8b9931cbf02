#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of docs/web.md anew: a fault of the scenario library, brought forward, played twenty times as fast with an agent
beside it, and the agent's page in a browser. With a folder: every view at three widths, light and dark, for the eye.

    test/scenario/web/pictures.py BUILD [FOLDER]"""
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "test"), str(ROOT / "test/peer"), str(HERE)]
import browser  # noqa: E402
import fetch  # noqa: E402
import site_rig  # noqa: E402
import trial  # noqa: E402

SPEED, PLAYED_S, DRAWN_S = 20, 14, 2
# Picture, way, what to press first, width, height, theme.
IN_DOCS = {"xid-79-lost": [("web-oncall", "#/", None, 1400, 900, "light"), ("web-incident", "#/", "#todo-text", 1400, 900, "light"), ("web-narrow", "#/", None, 390, 844, "dark")]}
WAYS = {"oncall": ("#/", None), "unfolded": ("#/", ".rows .fold"), "jobs": ("#/jobs", None), "topology": ("#/topology", None), "executive": ("#/executive", None), "debug": ("#/debug", None), "gpu": ("#/gpu/5", None),
        "incident": ("#/", "#todo-text")}
EVERY = {"thermal-throttle-fan": [(f"{name}-{width}-{theme}", way, press, width, height, theme) for name, (way, press) in WAYS.items()
                                  for width, height in ((1400, 900), (900, 900), (390, 844)) for theme in ("light", "dark")]}


def play(stoker, name, folder):
    """An agent beside a node with real processes: (process, address)"""
    one = next(t for t in trial.TRIALS if t.name == name)
    scene = folder / f"{name}.yaml"
    scenario = trial.brought_forward(one)
    scenario["node"] = {**(scenario.get("node") or {}), "hostname": "node-7"}
    scene.write_text(yaml.safe_dump(scenario))
    command = [stoker, "sim", "run", "--tree", folder / "tree", "--speed", SPEED, scene, "--", stoker, "agent", "--listen", "127.0.0.1:0", "--control",
               folder / "control", "--journal", "none", "--clock-speed", SPEED, "--sample-fast", "1s", "--sample-normal", "1s", "--sample-slow", "5s"]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in process.stdout:
        found = re.search(r"http://([^/]+)/", line)
        if found:
            return process, found[1]
    sys.exit(f"{name}: the agent does not start")


def main():
    build, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
    found = browser.program() or browser.program(fetch.Peers(build / "peers").get("chromium"))
    with tempfile.TemporaryDirectory() as tmp:
        for name, pictures in (EVERY if folder else IN_DOCS).items():
            place = pathlib.Path(tmp) / name
            place.mkdir()
            process, address = play(build / "stoker", name, place)
            page = browser.Browser(*found, place / "profile")
            time.sleep(PLAYED_S)
            for picture, way, press, width, height, theme in pictures:
                page.fresh()
                visitor = site_rig.Visitor(page, f"http://{address}/").open(way, width=width, height=height, theme=theme)
                if press:
                    visitor.click(press)
                visitor.until("document.getElementById('hero').dataset.tone === 'wrong' && document.querySelector('#view table, #view canvas') !== null")
                time.sleep(DRAWN_S)
                page.picture((folder or ROOT / "docs/pictures") / f"{picture}.png")
            page.end()
            process.terminate()
            process.wait(30)


if __name__ == "__main__":
    main()
