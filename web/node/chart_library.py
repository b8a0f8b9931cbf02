#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Gets the page's chart library (uPlot, pinned in package.json and package-lock.json beside this file) by npm.

    chart_library.py FOLDER SCRIPT STYLE LICENCE

npm works below FOLDER and asks its registry only where the pinned version is neither there nor in npm's own cache; what
comes is held against the hash in package-lock.json. No script of a package is run. The last three arguments are the
files that are written."""
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PINS = ("package.json", "package-lock.json")
LIMIT_S = 300
FILES = ("dist/uPlot.iife.min.js", "dist/uPlot.min.css", "LICENSE")
SYSTEM_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
OPTIONS = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--prefer-offline", "--no-bin-links",
           "--fetch-retry-mintimeout=2000", "--fetch-retry-maxtimeout=10000"]


class Unavailable(Exception):
    """The library cannot be had; the text says why and what to do."""


def npm(folder):
    """`npm ci` in the folder."""
    program = shutil.which("npm")
    if not program:
        raise Unavailable("the command npm is not here; tools/deps.sh build installs it (Debian's package is called npm)")
    env = dict(os.environ)
    if os.path.exists(SYSTEM_CERTIFICATES):  # a site's own authority, where packages come through a proxy of its own
        env.setdefault("NODE_EXTRA_CA_CERTS", SYSTEM_CERTIFICATES)
    try:
        done = subprocess.run([program, "ci", *OPTIONS], cwd=folder, env=env, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"npm did not end in {LIMIT_S} s; is its registry (npm config get registry) in reach?") from error
    if done.returncode:
        said = [line for line in (done.stderr + done.stdout).splitlines() if "ERR" in line or "error" in line]
        raise Unavailable("npm could not get it; is its registry (npm config get registry) in reach?\n  "
                          + "\n  ".join(said[:6] or ["npm said nothing"]))


def library(folder):
    """The folder of the library, fetched where it is not there with the pins of now."""
    stamp, home = folder / "fetched", folder / "node_modules" / "uplot"
    pins = "".join((HERE / name).read_text(encoding="utf-8") for name in PINS)
    if stamp.exists() and stamp.read_text(encoding="utf-8") == pins and all((home / f).exists() for f in FILES):
        return home
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in PINS:
        shutil.copyfile(HERE / name, folder / name)
    npm(folder)
    for name in FILES:
        if not (home / name).is_file():
            raise Unavailable(f"npm got a package without {name}")
    stamp.write_text(pins, encoding="utf-8")
    return home


def main():
    folder, *outputs = map(pathlib.Path, sys.argv[1:])
    try:
        home = library(folder)
    except Unavailable as reason:
        sys.exit(f"the chart library of the agent's page: {reason}")
    for name, output in zip(FILES, outputs):
        shutil.copyfile(home / name, output)


if __name__ == "__main__":
    main()
