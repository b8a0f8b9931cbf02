#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Changes the code a little, again and again, and reports the share of changes that the tests notice.

usage: tools/mutants.py [--minutes N] [--count N] [--seed N] [--only PATH...]

Works in a copy of the tracked files below build-mutants, so that the tree stays as it is. A change is drawn from the
operators below, evenly over the lines of src/engine and src/service. The C tests that link the changed object run
first, those of few objects before those of many; where they notice nothing, the Python tests of that folder run (the
table of test/order.py). A change that does not compile is drawn again. Stops after --minutes."""
import argparse
import collections
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "test"))
import order  # noqa: E402  which Python tests belong to which folder
WORK = ROOT / "build-mutants"
FLOORS = ("src/engine", "src/service")
# A mutant may loop: what a test may compute, and how long it may wait. Generous, so that a busy machine is not taken for a catch.
TEST_CPU_S, TEST_WALL_S, PYTEST_WALL_S = 120, 900, 1800
BATCH = 4  # tests that are linked at once
# Code, without what stands in comments, strings and directives.
SKIPPED = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*', re.S | re.M)
OPERATORS = [  # (name, pattern, replacement)
    ("less-equal", r" < ", " <= "), ("less", r" <= ", " < "), ("more-equal", r" > ", " >= "), ("more", r" >= ", " > "),
    ("reversed", r" < ", " > "), ("reversed", r" > ", " < "),
    ("unequal", r" == ", " != "), ("equal", r" != ", " == "),
    ("or", r" && ", " || "), ("and", r" \|\| ", " && "),
    ("minus", r"(?<=[\w)\]]) \+ ", " - "), ("plus", r"(?<=[\w)\]]) - ", " + "),
    ("true", r"\breturn false;", "return true;"), ("false", r"\breturn true;", "return false;"),
    ("not", r"\bif \((?!!)(?=[^()]*(?:\([^()]*\)[^()]*)*\)\n)", "if (!"),
    ("dropped-call", r"(?<=\n)( +)(?!return|else|case|goto)[a-z]\w*\([^;{}\n]*\);(?=\n)", r"\1;"),
    ("dropped-assignment", r"(?<=\n)( +)[a-z][\w>.\[\]-]* (?:[-+|&]?=) [^;{}\n]*;(?=\n)", r"\1;"),
]


def masked(text):
    """The text with all that is no code blanked, of the same length."""
    return SKIPPED.sub(lambda m: re.sub(r"[^\n]", "\0", m[0]), text)


def candidates(path):
    text = (ROOT / path).read_text()
    code = masked(text)
    body = code.find("\n{\n")  # declarations above the first function are left alone
    for name, pattern, replacement in OPERATORS:
        for match in re.finditer(pattern, code):
            if match.start() < body:
                continue
            start, end = match.span()
            if name == "not":
                close = matching(code, code.index("(", start))
                changed = text[:start] + "if (!(" + text[code.index("(", start) + 1:close] + "))" + text[close + 1:]
            else:
                changed = text[:start] + match.expand(replacement) + text[end:]
            yield name, path, text.count("\n", 0, end if name.startswith("dropped") else start) + 1, changed


def matching(code, opening):
    depth = 0
    for i in range(opening, len(code)):
        depth += (code[i] == "(") - (code[i] == ")")
        if depth == 0:
            return i
    return len(code) - 1


def tracked(paths):
    names = subprocess.run(["git", "ls-files", *paths], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [name for name in names if name.endswith(".c")]


class Copy:
    """The copy that is changed, with its build folder and who tests what."""

    def __init__(self):
        WORK.mkdir(exist_ok=True)
        self.source, self.build = WORK / "tree", WORK / "tree" / "build"
        names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
        for name in filter(None, names):
            to = self.source / name
            to.parent.mkdir(parents=True, exist_ok=True)
            if not to.exists() or to.read_bytes() != (ROOT / name).read_bytes():
                shutil.copyfile(ROOT / name, to)
                shutil.copymode(ROOT / name, to)
        if not (self.build / "build.ninja").exists():
            self.run(["meson", "setup", str(self.build), str(self.source)], check=True)
        self.run(["ninja", "-C", str(self.build)], check=True)
        self.tests = json.loads(self.run(["meson", "introspect", "--tests", str(self.build)], check=True).stdout)
        self.commands = json.loads((self.build / "compile_commands.json").read_text())
        self.inputs = {}
        for test in self.tests:
            exe = pathlib.Path(test["cmd"][0])
            if exe.is_relative_to(self.build):
                found = self.run(["ninja", "-C", str(self.build), "-t", "inputs", str(exe.relative_to(self.build))]).stdout.split("\n")
                self.inputs[test["name"]] = {line for line in found if line.endswith(".c.o")}
        broken = [test["name"] for test in self.tests if self.inputs.get(test["name"]) and not self.passes(test)]
        if broken:
            sys.exit(f"without any change these tests fail: {', '.join(broken)}")

    def run(self, command, limit=None, check=False, env=None):
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=env, stdin=subprocess.DEVNULL)
        if check and done.returncode:
            sys.exit(f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done

    def objects(self, path):
        """Ninja's names of the objects made of a source."""
        return {entry["output"] for entry in self.commands
                if (self.build / entry["file"]).resolve() == (self.source / path).resolve()}

    def tests_of(self, path):
        wanted = self.objects(path)
        found = [t for t in self.tests if self.inputs.get(t["name"], set()) & wanted]
        return sorted(found, key=lambda t: len(self.inputs[t["name"]]))

    def compiles(self, path):
        wanted = sorted(self.objects(path))
        return bool(wanted) and self.run(["ninja", "-C", str(self.build), *wanted]).returncode == 0

    def c_notices(self, tests):
        for i in range(0, len(tests), BATCH):
            batch = tests[i:i + BATCH]
            exes = [str(pathlib.Path(t["cmd"][0]).relative_to(self.build)) for t in batch]
            self.run(["ninja", "-C", str(self.build), *exes], check=True)
            failed = next((test["name"] for test in batch if not self.passes(test)), None)
            if failed:
                return failed
        return None

    def passes(self, test):
        """As meson runs it: in the build folder."""
        try:
            done = subprocess.run(["prlimit", f"--cpu={TEST_CPU_S}", *test["cmd"]], env=dict(os.environ, **test["env"]), cwd=self.build,
                                  capture_output=True, text=True, timeout=TEST_WALL_S, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0 and "\nnot ok" not in "\n" + done.stdout

    def pytest(self, *what):
        """None: nothing failed. Else the first test that did."""
        self.run(["ninja", "-C", str(self.build)])
        env = dict(os.environ, STOKER_BUILD=str(self.build), PYTHONDONTWRITEBYTECODE="1")
        command = ["/usr/bin/python3", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--import-mode=importlib", *what]
        try:
            done = subprocess.run(command, env=env, cwd=self.source, capture_output=True, text=True, timeout=PYTEST_WALL_S, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return "pytest (time)"
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
        return failed[1] if failed else "pytest" if done.returncode not in (0, 5) else None

    def judge(self, path, changed):
        """None: it does not compile. Else what noticed it, '' nothing."""
        to = self.source / path
        whole = to.read_text()
        to.write_text(changed)
        by_pytest = None
        try:
            if not self.compiles(path):
                return None
            by = self.c_notices(self.tests_of(path))
            folders = [] if by else [f for f in order.suites_of(path) or () if (self.source / f).exists()]
            if folders:
                by_pytest = self.pytest("-n", "4", *folders)
        finally:
            to.write_text(whole)
        if by_pytest and "::" in by_pytest and self.pytest(by_pytest):
            return ""  # it fails without the change too
        return by or by_pytest or ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--minutes", type=float, default=40)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=list(FLOORS), help="folders or files")
    args = parser.parse_args()
    end = time.monotonic() + 60 * args.minutes
    copy = Copy()
    drawn = [c for path in tracked(args.only) for c in candidates(path)]
    random.Random(args.seed).shuffle(drawn)
    print(f"{len(drawn)} possible changes; at most {args.count} are tried, in {args.minutes:g} minutes", flush=True)
    noticed, missed = collections.Counter(), []
    for name, path, line, changed in drawn:
        if noticed.total() + len(missed) >= args.count or time.monotonic() > end:
            break
        by = copy.judge(path, changed)
        if by is None:
            continue
        floor = "/".join(path.split("/")[:2])
        if by:
            noticed[floor] += 1
        else:
            missed.append((floor, f"{path}:{line}: {name}"))
        print(f"{'noticed' if by else 'MISSED '} {path}:{line}: {name}{' by ' + by if by else ''}", flush=True)
    for floor in sorted({*noticed, *(f for f, _ in missed)}):
        left = sum(f == floor for f, _ in missed)
        print(f"{floor}: {noticed[floor]} of {noticed[floor] + left} noticed, {100 * noticed[floor] / (noticed[floor] + left):.0f} %")


main()
