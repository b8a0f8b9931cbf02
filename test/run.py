#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every test of a build folder and closes with one line: N passed, N failed, N skipped.

C tests are run by meson (TAP: every case counts), Python tests by pytest; both report as JUnit XML, which is counted
here. A test that is skipped says why, and the reasons are printed."""
import argparse
import os
import pathlib
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET

ROOT = pathlib.Path(__file__).resolve().parent.parent


# Most of these tests wait for something rather than compute, so that a core serves two of them; order.py says which are together.
SPREAD = ["-n", str(2 * len(os.sched_getaffinity(0))), "--dist", "loadscope"]


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.reasons = []

    def add_junit(self, path):
        for case in ET.parse(path).iter("testcase"):
            name = f'{case.get("classname", "")}: {case.get("name", "")}'
            skipped = case.find("skipped")
            if case.find("failure") is not None or case.find("error") is not None:
                self.failed += 1
                print(f"FAILED {name}")
            elif skipped is not None:
                self.skipped += 1
                self.reasons.append(f'skipped {name}: {skipped.get("message") or (skipped.text or "").strip() or "no reason given"}')
            else:
                self.passed += 1


def meson_tests(build, suite, tally):
    command = ["meson", "test", "-C", str(build), "--no-rebuild", "--print-errorlogs", "--timeout-multiplier", "10"]
    if suite:
        command += ["--suite", suite]
    code = subprocess.call(command)
    report = build / "meson-logs" / "testlog.junit.xml"
    before = tally.failed
    tally.add_junit(report)
    if code and tally.failed == before:  # a program that died without a failed case
        tally.failed += 1


def python_tests(build, tally):
    report = build / "pytest.xml"
    env = dict(os.environ, STOKER_BUILD=str(build), PYTHONDONTWRITEBYTECODE="1")
    folders = sorted({str(p.parent) for p in (ROOT / "test").rglob("test_*.py")})
    if not folders:
        return
    code = subprocess.call(["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib",
                            *SPREAD,
                            f"--junitxml={report}", *folders], env=env, cwd=ROOT)
    before = tally.failed
    if report.exists():
        tally.add_junit(report)
    if code and tally.failed == before:
        tally.failed += 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--suite", help="only this meson suite, no Python tests")
    parser.add_argument("--name", default="", help="said in the heading")
    args = parser.parse_args()
    build = args.build.resolve()
    if args.name:
        print(f"== {args.name}: {shlex.quote(str(args.build))}")
    tally = Tally()
    meson_tests(build, args.suite, tally)
    if not args.suite:
        python_tests(build, tally)
    for reason in sorted(tally.reasons):
        print(reason)
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    return 1 if tally.failed or not tally.passed else 0


sys.exit(main())
