#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of docs/web.md anew: a fault of the scenario library, brought forward, played twenty times as fast with an agent
beside it, and the agent's page in a browser.

    test/scenario/web/pictures.py BUILD [FOLDER]        docs/pictures by default"""
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

SPEED, PLAYED_S = 20, 14
PICTURES = [("xid-79-lost", "web-oncall", "#/", 1280, 1000, "light"), ("thermal-throttle-fan", "web-gpu", "#/gpu/5", 1280, 1000, "light"),
            ("xid-79-lost", "web-narrow", "#/", 360, 780, "dark")]


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
    build, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "docs/pictures")
    found = browser.program() or browser.program(fetch.Peers(build / "peers").get("chromium"))
    with tempfile.TemporaryDirectory() as tmp:
        for i, (name, picture, way, width, height, theme) in enumerate(PICTURES):
            place = pathlib.Path(tmp) / str(i)
            place.mkdir()
            process, address = play(build / "stoker", name, place)
            page = browser.Browser(*found, place / "profile")
            visitor = site_rig.Visitor(page, f"http://{address}/").open(way, width=width, height=height, theme=theme)
            time.sleep(PLAYED_S)
            visitor.until("document.getElementById('contact').dataset.state === 'live' && document.querySelector('.incident') !== null")
            page.picture(folder / f"{picture}.png")
            page.end()
            process.terminate()
            process.wait(30)


if __name__ == "__main__":
    main()
