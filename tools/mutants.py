#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Changes the code a little, again and again, and reports the share of changes that the tests notice.

usage: tools/mutants.py [--minutes N] [--count N] [--seed N] [--only PATH...]

Works in a copy of the tree below build-mutants, so that the tree stays as it is: of all files that git does not ignore. The copy is built
without optimisation and with AddressSanitizer, as CI runs the C tests too. A change is drawn from the operators below, evenly over
all places of src/engine and src/service where one of them fits, and is tried

1. with the C tests that link the changed object: those named after its folder first, then those of few objects before those of many;
2. where none of these notices it, with those C tests that computed for long when they last ran (more than LONG_S), and with the suites
   of its folder (the table of test/order.py) and its own: the C tests of test/scenario, which link nearly everything, and the Python
   tests, those named after the changed file or its folder first. The Python tests have SUITES_S seconds for a change; one that they do
   not notice by then counts as missed.

A change that does not compile is drawn again. What cannot be noticed by construction is not drawn (is_equivalent). --only takes folders, files,
and what an earlier run printed ("src/engine/trace/gaps.c:20: less"), to try a change again.

A test counts where it fails twice with the change and passes without. One that did not end in time counts so too, and is told
apart ("does not end"). Stops after --minutes; a change that stage 2 had no time for is called open, and counts as not noticed.
What a test left running is ended before the next one begins, and when the tool ends."""
import argparse
import collections
import concurrent.futures
import contextlib
import ctypes
import hashlib
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "test"))
import order  # noqa: E402  which Python tests belong to which folder
WORK = ROOT / "build-mutants"
TIMES, LONG_S = WORK / "times.json", 2
FLOORS = ("src/engine", "src/service")
# A mutant may loop, wait or allocate without end. What a test may compute and how long it may take: at most, and in multiples of what it
# took before. Generous, so that a busy machine is not taken for a catch.
TEST_CPU_S, TEST_CPU_TIMES, TEST_WALL_S, TEST_WALL_TIMES, SUITES_S = 60, 5, 300, 20, 240
NO_PROGRAMS = ("test/bench/bench", "test/record", "test/real")
BATCH = 4  # tests that are linked and run at once
SETUP = ("--buildtype=debug", "-Dc_args=-g0", "-Db_sanitize=address", "-Db_lundef=false")  # what compiles and links in the least time
OPEN = None  # no time to find out
PR_SET_CHILD_SUBREAPER = 36
ASAN_OPTIONS = "hard_rss_limit_mb=4096:allocator_may_return_null=1"  # a change may allocate without end
PASSED, FAILED, STUCK = "passed", "failed", "does not end"  # what came of a test; the last had to be ended
# Pytest's line about a test, whose parameters may have spaces in them.
FAILED_LINE = re.compile(r"^(?:FAILED|ERROR) ([^\s\[]+(?:\[.*?\])?)(?= - |$)", re.M)
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


OPERAND = r"[\w.>\[\]-]+(?:\([^()]*\))?"
# At equality both sides of a maximum, a minimum or a difference that stops at 0 are the same.
CHOICE = re.compile(rf"({OPERAND})(?P<sign> [<>]=? )({OPERAND}) \? ({OPERAND}(?: - {OPERAND})?) : ({OPERAND})")
LIMIT = re.compile(rf"if \(({OPERAND})(?P<sign> [<>]=? )({OPERAND})\)\n +({OPERAND}) = ({OPERAND});\n")


def is_equivalent(name, code, at):
    """Whether a change at this place cannot be noticed, whatever is tested: of an assertion, which states what no user can reach; of va_end,
    which does nothing on the machines that are built for; of explicit_bzero, for what it wipes is freed at once; and of whether equality
    belongs to `a > b ? a : b`, `a > b ? a - b : 0` or `if (a > b) a = b;`."""
    begin = code.rfind("\n", 0, at) + 1
    if re.match(r"\s*(?:assert|va_end|explicit_bzero)\(", code[begin:]):
        return True
    if name not in ("less-equal", "less", "more-equal", "more"):
        return False
    for pattern in (CHOICE, LIMIT):
        for found in pattern.finditer(code, begin, code.find("\n", code.find("\n", at) + 1) + 1):
            a, _, b, first, second = found.groups()
            if found.start("sign") == at and ({first, second} == {a, b} or (first, second) in ((f"{a} - {b}", "0"), (f"{b} - {a}", "0"))):
                return True
    return False


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
            if is_equivalent(name, code, match.start(1) if name == "dropped-call" else start):
                continue
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


def files(*paths):
    """What git does not ignore, new files too."""
    names = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard", *paths], cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted({name for name in names.stdout.split("\0") if name and (ROOT / name).exists()})


def copy_tree(to):
    """Leaves alone what has not changed, and the folders of builds."""
    wanted = files()
    for name in wanted:
        there = to / name
        there.parent.mkdir(parents=True, exist_ok=True)
        if not there.exists() or there.read_bytes() != (ROOT / name).read_bytes():
            shutil.copyfile(ROOT / name, there)
        shutil.copymode(ROOT / name, there)
    for there in [f for top in to.iterdir() if not top.name.startswith("build") for f in (top.rglob("*") if top.is_dir() else [top])]:
        if there.is_file() and "__pycache__" not in there.parts and str(there.relative_to(to)) not in wanted:
            there.unlink()


class Copy:
    """The copy that is changed, with a build folder and who tests what."""

    def __init__(self):
        self.source, self.build = WORK / "tree", WORK / "tree" / "build"
        self.source.mkdir(parents=True, exist_ok=True)
        copy_tree(self.source)
        if not (self.build / "build.ninja").exists():
            self.run(["meson", "setup", *SETUP, str(self.build), str(self.source)], check=True)
        self.run(["ninja", "-C", str(self.build), "build.ninja"], check=True)
        self.tests = json.loads(self.run(["meson", "introspect", "--tests", str(self.build)], check=True).stdout)
        self.programs = self.find_programs({test["cmd"][0] for test in self.tests})
        self.commands = json.loads((self.build / "compile_commands.json").read_text())
        self.inputs = {}
        for test in self.tests:
            exe = pathlib.Path(test["cmd"][0])
            if exe.is_relative_to(self.build):
                found = self.run(["ninja", "-C", str(self.build), "-t", "inputs", str(exe.relative_to(self.build))]).stdout.split("\n")
                if any(line.startswith(FLOORS) for line in found):
                    self.inputs[test["name"]] = {line for line in found if line.endswith(".c.o")}
        self.tests = [test for test in self.tests if test["name"] in self.inputs]
        self.link(self.tests)
        self.unchanged = {name: self.digest(name) for name in self.inputs}
        self.times = json.loads(TIMES.read_text()) if TIMES.exists() else {}  # processor seconds by test, for the order alone
        self.took = {}  # (CPU, wall) seconds of the C tests that passed in this run, for they pass without a change too
        self.broken = set()  # the tests that fail without a change

    def run(self, command, limit=None, check=False, env=None, cwd=None):
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=limit, env=env, cwd=cwd,
                              stdin=subprocess.DEVNULL)
        if check and done.returncode:
            sys.exit(f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done

    def find_programs(self, tests):
        """What Python tests start or load: all that is linked and is neither a C test nor a measurement."""
        targets = json.loads(self.run(["meson", "introspect", "--targets", str(self.build)], check=True).stdout)
        names = [name for target in targets if target["type"] in ("executable", "shared library") and target["build_by_default"]
                 for name in target["filename"] if name not in tests]
        return [name for name in (str(pathlib.Path(n).relative_to(self.build)) for n in names) if not name.startswith(NO_PROGRAMS)]

    def objects(self, path):
        """Ninja's names of the objects made of a source."""
        return {entry["output"] for entry in self.commands
                if (self.build / entry["file"]).resolve() == (self.source / path).resolve()}

    def tests_of(self, path):
        wanted = self.objects(path)
        found = [t for t in self.tests if self.inputs[t["name"]] & wanted]
        named = f"test/unit/{pathlib.Path(path).parent.name}/"
        return sorted(found, key=lambda t: (named not in t["cmd"][0], len(self.inputs[t["name"]])))

    def compiles(self, path):
        wanted = sorted(self.objects(path))
        return bool(wanted) and self.run(["ninja", "-C", str(self.build), *wanted]).returncode == 0

    def link(self, tests):
        exes = {str(pathlib.Path(t["cmd"][0]).relative_to(self.build)) for t in tests}
        self.run(["ninja", "-C", str(self.build), *sorted(exes)], check=True)

    def is_below(self, test, suite):
        """Where the suite is None: the test belongs to no scenario."""
        folder = pathlib.Path(test["cmd"][0]).parent.relative_to(self.build)
        return folder.is_relative_to(suite) if suite else not folder.is_relative_to("test/scenario")

    def digest(self, name):
        """Of the program of a test."""
        exe = next(t["cmd"][0] for t in self.tests if t["name"] == name)
        return hashlib.sha256(pathlib.Path(exe).read_bytes()).digest()

    def c_notices(self, path, suite, is_long):
        """The test that notices, and how; None for none."""
        tests = [t for t in self.tests_of(path) if t["name"] not in self.broken and self.is_below(t, suite)
                 and (suite or (self.times.get(t["name"], 0) > LONG_S) == is_long)]
        for i in range(0, len(tests), BATCH):
            self.link(tests[i:i + BATCH])
            # A linker leaves out the objects of an archive that nothing refers to.
            changed = [t for t in tests[i:i + BATCH] if self.digest(t["name"]) != self.unchanged[t["name"]]]
            with concurrent.futures.ThreadPoolExecutor(BATCH) as pool:
                ended = list(pool.map(self.outcome, changed))
            end_strays()
            for test in [t for t, how in zip(changed, ended) if how != PASSED]:
                if (again := self.outcome(test)) != PASSED:  # by itself
                    return test, again
        return None

    def outcome(self, test):
        """As meson runs it, in the build folder."""
        before, start, name = cpu_of_children(), time.monotonic(), test["name"]
        cpu, wall = self.took.get(name, (TEST_CPU_S, TEST_WALL_S))
        cpu, wall = min(TEST_CPU_S, 5 + TEST_CPU_TIMES * cpu), min(TEST_WALL_S, 30 + TEST_WALL_TIMES * wall)
        try:
            done = self.run(["prlimit", f"--cpu={cpu:.0f}", *test["cmd"]], wall,
                            env=dict(os.environ, ASAN_OPTIONS=ASAN_OPTIONS, **test["env"]), cwd=self.build)
        except subprocess.TimeoutExpired:
            return STUCK
        if done.returncode in (-signal.SIGKILL, -signal.SIGXCPU):
            return STUCK
        if done.returncode or "\nnot ok" in re.sub(r"\nnot ok (\d+ # SKIP)", r"\nok \1", "\n" + done.stdout):
            return FAILED
        self.took.setdefault(name, (cpu_of_children() - before, time.monotonic() - start))
        self.times.setdefault(name, self.took[name][0])
        TIMES.write_text(json.dumps(self.times))
        return PASSED

    def pytest(self, end, *what):
        """"": nothing failed, OPEN: out of time. Else the first test that failed."""
        env = dict(os.environ, STOKER_BUILD=str(self.build), PYTHONDONTWRITEBYTECODE="1")
        command = ["/usr/bin/python3", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--import-mode=importlib", *what]
        try:
            done = self.run(command, max(1, end - time.monotonic()), env=env, cwd=self.source)
        except subprocess.TimeoutExpired:
            return OPEN
        finally:
            end_strays()
        failed = FAILED_LINE.search(done.stdout)
        return failed[1] if failed else "pytest" if done.returncode not in (0, 5) else ""

    def pytest_notices(self, files, end):
        skipped = set()
        while True:
            by = self.pytest(end, "-n", str(os.cpu_count()), *files, *(f"--deselect={t}" for t in {*skipped, *self.broken}))
            if not by or "::" not in by or (again := self.pytest(end, by)):
                return by
            if again is OPEN:
                return OPEN
            skipped.add(by)  # it passes by itself: the machine was busy

    def judge_by_c(self, path, changed, suite=None, is_long=False):
        """None: it does not compile. Else the C test that noticed it, "" for none. The suite: one of test/scenario."""
        while True:
            with self.change(path, changed):
                if not self.compiles(path):
                    return None
                found = self.c_notices(path, suite, is_long)
            if not found:
                return ""
            test, how = found
            if test["name"] not in self.took or how == STUCK:  # the machine may have become busier since
                self.link([test])
                if self.outcome(test) != PASSED:
                    self.broken.add(test["name"])
                    continue
            return test["name"] if how == FAILED else f"{test['name']}, which {how}"

    def python_tests(self, path, suites):
        """Files, those named after the changed file or its folder first."""
        folder, stem = pathlib.Path(path).parent.name.removesuffix("s"), pathlib.Path(path).stem.removesuffix("s")
        found = {f for suite in (*suites, f"test/unit/{pathlib.Path(path).parent.name}") for f in
                 ([self.source / suite] if suite.endswith(".py") else (self.source / suite).rglob("test_*.py")) if f.exists()}
        names = sorted(str(f.relative_to(self.source)) for f in found)
        return sorted(names, key=lambda name: (-(stem in name) - (folder in name), name.startswith("test/scenario")))

    def judge_by_suites(self, path, changed, end):
        """What noticed it, "" for none, OPEN if time ran out."""
        if by := self.judge_by_c(path, changed, is_long=True):
            return by
        suites = order.suites_of(path) or ()
        for suite in [s for s in suites if s.startswith("test/scenario") and (self.source / s).exists()]:
            if by := self.judge_by_c(path, changed, suite):
                return by
        limit = min(end, time.monotonic() + SUITES_S)
        files = self.python_tests(path, suites)
        while files:
            with self.change(path, changed):
                self.run(["ninja", "-C", str(self.build), *self.programs], check=True)
                by = self.pytest_notices(files, limit)
            if by == "" or by is OPEN:
                return OPEN if time.monotonic() > end else ""
            self.run(["ninja", "-C", str(self.build), *self.programs], check=True)
            unchanged = self.pytest(time.monotonic() + SUITES_S, by if "::" in by else files[0])
            if unchanged == "":
                return by
            if unchanged is OPEN or "::" not in by:
                return OPEN
            self.broken.add(by)
        return ""

    @contextlib.contextmanager
    def change(self, path, changed):
        to = self.source / path
        whole = to.read_text()
        to.write_text(changed)
        try:
            yield
        finally:
            to.write_text(whole)


def keep_orphans():
    """What a test started becomes a child of this process when its own parent ends, in whatever session it is."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_strays():
    """Ends every process that this one still has, children of children too. No test is running here."""
    while strays := children_of("self"):
        for pid in strays:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)  # its own children are ours now


def children_of(process):
    """From all threads, for each may have started some."""
    found = []
    for task in pathlib.Path("/proc", process, "task").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += [int(pid) for pid in (task / "children").read_text().split()]
    return found


def cpu_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--minutes", type=float, default=40)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=list(FLOORS), help="folders, files or changes")
    args = parser.parse_args()
    keep_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    end = time.monotonic() + 60 * args.minutes
    copy = Copy()
    names = [only for only in args.only if ":" in only]
    drawn = [c for path in files(*(only.split(":")[0] for only in args.only)) if path.endswith(".c") for c in candidates(path)]
    drawn = [c for c in drawn if not names or title_of(c) in names]
    random.Random(args.seed).shuffle(drawn)
    print(f"{len(drawn)} possible changes; at most {args.count} are tried, in {args.minutes:g} minutes", flush=True)
    noticed, missed, stuck = collections.Counter(), [], 0
    for c in drawn:
        if noticed.total() + len(missed) >= args.count or time.monotonic() > end:
            break
        by = copy.judge_by_c(c[1], c[3])
        if by:
            noticed[floor_of(c)] += 1
            stuck += by.endswith(STUCK)
            print(f"noticed {title_of(c)} by {by}", flush=True)
        elif by == "":
            missed.append(c)
            print(f"not yet {title_of(c)}", flush=True)
    tried = noticed + collections.Counter(map(floor_of, missed))
    print(f"the C tests notice {noticed.total()} of {tried.total()}", flush=True)
    for c in missed:
        by = copy.judge_by_suites(c[1], c[3], end) if time.monotonic() < end else OPEN
        noticed[floor_of(c)] += bool(by)
        stuck += bool(by) and by.endswith(STUCK)
        print(f"{'OPEN   ' if by is OPEN else 'noticed' if by else 'MISSED '} {title_of(c)}{' by ' + by if by else ''}", flush=True)
    print(f"{stuck} of those noticed by a test that had to be ended")
    for floor in sorted(tried):
        print(f"{floor}: {noticed[floor]} of {tried[floor]} noticed, {100 * noticed[floor] / tried[floor]:.0f} %")


def title_of(c):
    return f"{c[1]}:{c[2]}: {c[0]}"


def floor_of(c):
    return "/".join(c[1].split("/")[:2])


try:
    main()
finally:
    end_strays()
