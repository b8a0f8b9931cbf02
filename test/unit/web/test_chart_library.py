# SPDX-License-Identifier: Apache-2.0
"""How the build gets the page's chart library: pinned by hash, no place named, asked for once, and a clear word where it cannot be had."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "web/node/chart_library.py"
NPM = """#!/bin/sh
[ -n "$FAKE_FAILS" ] && { echo "npm error network request to somewhere failed" >&2; exit 1; }
echo "$@" >> "$FAKE_LOG"
mkdir -p node_modules/uplot/dist
for f in dist/uPlot.iife.min.js dist/uPlot.min.css LICENSE; do echo "$f" > node_modules/uplot/$f; done
"""


@pytest.fixture
def get(tmp_path):
    """get(npm=True, **env): runs the script with a stand-in for npm."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for tool in ("sh", "mkdir", "echo"):
        (bin_ / tool).symlink_to(shutil.which(tool))

    def run(npm=True, **env):
        program = bin_ / "npm"
        program.unlink(missing_ok=True)
        if npm:
            program.write_text(NPM)
            program.chmod(0o755)
        return subprocess.run([sys.executable, "-B", SCRIPT, tmp_path / "npm", *(tmp_path / name for name in ("a.js", "a.css", "a.txt"))],
                              env={"PATH": str(bin_), "HOME": str(tmp_path), "FAKE_LOG": str(tmp_path / "log"), **env}, capture_output=True, text=True, check=False)

    return run


def test_the_pin_names_a_hash_and_no_place():
    lock, package = (json.loads((ROOT / "web/node" / name).read_text()) for name in ("package-lock.json", "package.json"))
    version = package["dependencies"]["uplot"]
    assert version[0].isdigit() and list(package["dependencies"]) == ["uplot"]
    pinned = {name: entry for name, entry in lock["packages"].items() if name}
    assert list(pinned) == ["node_modules/uplot"]  # and nothing that it needs in turn
    assert pinned["node_modules/uplot"]["version"] == version and pinned["node_modules/uplot"]["integrity"].startswith("sha512-")
    assert "resolved" not in json.dumps(lock) and "://" not in json.dumps([lock, package])


def test_it_is_asked_for_once(get, tmp_path):
    assert get().returncode == 0
    assert (tmp_path / "a.js").read_text() == "dist/uPlot.iife.min.js\n" and (tmp_path / "a.txt").read_text() == "LICENSE\n"
    asked = (tmp_path / "log").read_text().split()
    assert asked[0] == "ci" and "--ignore-scripts" in asked
    os.unlink(tmp_path / "a.js")
    assert get(npm=False).returncode == 0  # not even npm is needed again
    assert (tmp_path / "a.js").exists() and (tmp_path / "log").read_text().split() == asked
    os.unlink(tmp_path / "npm/node_modules/uplot/LICENSE")
    assert get().returncode == 0 and (tmp_path / "log").read_text().split() == 2 * asked  # what is damaged is fetched anew


def test_no_npm_and_no_registry_are_said(get):
    done = get(npm=False)
    assert done.returncode == 1 and "the command npm is not here; tools/deps.sh build installs it" in done.stderr
    done = get(FAKE_FAILS="1")
    assert done.returncode == 1 and "could not get it; is its registry" in done.stderr and "network request to somewhere failed" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_module_of_the_page_needs_itself():
    needs = {f.name: re.findall(r'from "\./(\w+\.js)"', f.read_text()) for f in (ROOT / "web/node").glob("*.js")}

    def take(name, way=()):
        assert name not in way, way
        for other in needs[name]:
            take(other, (*way, name))

    for name in needs:
        take(name)
