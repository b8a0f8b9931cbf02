#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Changes the code a little, again and again, and reports the share of changes that the tests notice.

usage: tools/mutants.py [--minutes N] [--count N] [--seed N] [--only PATH...]

Works in a copy of all files that git does not ignore, below build-mutants. The copy is built without optimisation and with AddressSanitizer,
as CI runs the C tests too, and counts what is executed. A change is drawn from the operators below, evenly over all places of src/engine
and src/service where one of them fits, and is tried

1. with the C tests of test/unit that execute its line, quickest first;
2. where none of these notices it, with those of test/scenario that do, and with the Python tests of its folder (the table of
   test/order.py), those named after the changed file or its folder first. These have SUITES_S seconds for a change; one that they do not
   notice by then counts as missed.

Which lines a C test executes is found with gcov when it is first needed, and kept until the test's program changes. A change that does not
compile is drawn again. What cannot be noticed by construction is not drawn (is_equivalent). --only takes folders, files, and what an earlier
run printed ("src/engine/trace/gaps.c:20: less"), to try a change again.

A test counts where it fails twice with the change and passes without. One that did not end in time counts so too, and is told
apart ("does not end"). Stops after --minutes; a change that stage 2 had no time for is called open, and counts as not noticed.
What a test left running is ended before the next one begins, and when the tool ends."""
import argparse
import collections
import concurrent.futures
import contextlib
import ctypes
import functools
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "test"))
import order  # noqa: E402  which Python tests belong to which folder
WORK = ROOT / "build-mutants"
RUNS = WORK / "runs.json"  # what each C test executed when it last ran without a change
FLOORS = ("src/engine", "src/service")
# A mutant may loop, wait or allocate without end. What a test may compute and how long it may take: at most, and in multiples of what it
# took before. Generous, so that a busy machine is not taken for a catch.
TEST_CPU_S, TEST_CPU_TIMES, TEST_WALL_S, TEST_WALL_TIMES, SUITES_S = 60, 5, 300, 20, 240
NO_PROGRAMS = ("test/bench/bench", "test/record", "test/real")
BATCH = 4  # tests that are linked and run at once
# What compiles and links in the least time. The seed: the same source gives the same program.
SETUP = ("--buildtype=debug", "-Dc_args=-g0 -frandom-seed=1", "-Db_sanitize=address", "-Db_lundef=false", "-Db_coverage=true")
OPEN = None  # no time to find out
# A change may allocate without end. What is executed with a change does not count.
ENV = {"ASAN_OPTIONS": "hard_rss_limit_mb=4096:allocator_may_return_null=1", "GCOV_PREFIX": "/dev/null", "GCOV_ERROR_FILE": "/dev/null"}
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
        self.source, self.build = WORK / "tree", WORK / "tree" / "build-counts"
        copy_tree(self.source)
        if not (self.build / "build.ninja").exists():
            self.run(["meson", "setup", *SETUP, str(self.build), str(self.source)], check=True)
        self.run(["ninja", "-C", str(self.build), "build.ninja"], check=True)
        self.tests = json.loads(self.run(["meson", "introspect", "--tests", str(self.build)], check=True).stdout)
        targets = json.loads(self.run(["meson", "introspect", "--targets", str(self.build)], check=True).stdout)
        self.files = {t["id"]: [os.path.relpath(name, self.build) for name in t["filename"]] for t in targets}
        # What Python tests start or load: all that is linked and is neither a C test nor a measurement.
        ours = {os.path.relpath(test["cmd"][0], self.build) for test in self.tests}
        self.programs = [name for t in targets if t["type"] in ("executable", "shared library") and t["build_by_default"]
                         for name in self.files[t["id"]] if name not in ours and not name.startswith(NO_PROGRAMS)]
        self.commands = json.loads((self.build / "compile_commands.json").read_text())
        self.inputs = {}
        for test in [t for t in self.tests if pathlib.Path(t["cmd"][0]).is_relative_to(self.build)]:
            exe = os.path.relpath(test["cmd"][0], self.build)
            found = self.run(["ninja", "-C", str(self.build), "-t", "inputs", exe]).stdout.split("\n")
            self.inputs[test["name"]] = {line for line in found if line.startswith(FLOORS) and line.endswith(".c.o")}
        self.runs = json.loads(RUNS.read_text()) if RUNS.exists() else {}  # by test: digest, seconds and lines by source
        self.compared, self.broken = set(), set()  # tests whose program was compared with that of its run; that fail without a change

    def run(self, command, limit=None, check=False, env=None, cwd=None):
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=limit, env=env, cwd=cwd,
                              stdin=subprocess.DEVNULL)
        if check and done.returncode:
            sys.exit(f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done

    def objects(self, path):
        """Ninja's names of the objects made of a source."""
        return {entry["output"] for entry in self.commands
                if (self.build / entry["file"]).resolve() == (self.source / path).resolve()}

    def tests_of(self, path, line, is_scenario):
        """The C tests that execute the line, quickest first. No change is made here."""
        wanted, line = self.objects(path), next((n for n in self.counted_lines(path) if n <= line), 0)
        found = [t for t in self.tests if self.inputs.get(t["name"], set()) & wanted and is_scenario == ("/test/scenario/" in t["cmd"][0])]
        self.learn([t for t in found if t["name"] not in self.compared])
        found = [t for t in found if t["name"] not in self.broken and line in self.runs[t["name"]]["lines"].get(path, ())]
        return sorted(found, key=lambda t: self.runs[t["name"]]["seconds"])

    @functools.cache
    def counted_lines(self, path):
        """Those that gcov counts, in descending order."""
        counts = self.gcov([name.removesuffix("o") + "gcno" for name in self.objects(path)], self.build)
        return sorted(counts.get(path, {}), reverse=True)

    def gcov(self, names, folder):
        """By source how often each line was executed."""
        text = self.run(["gcov", "--json-format", "--stdout", *names], cwd=folder).stdout if names else ""
        return {os.path.relpath(self.build / file["file"], self.source): {line["line_number"]: line["count"] for line in file["lines"]}
                for objects in text.splitlines() for file in json.loads(objects)["files"]}

    def learn(self, tests):
        """Runs those tests whose program has changed since their last run, and keeps what they execute."""
        self.link(tests)
        for test in tests:
            name, start = test["name"], time.monotonic()
            digest = hashlib.sha256(pathlib.Path(test["cmd"][0]).read_bytes() + repr(test["cmd"]).encode()).hexdigest()
            self.compared.add(name)
            if self.runs.get(name, {}).get("digest") == digest:
                continue
            self.runs.pop(name, None)
            shutil.rmtree(WORK / "counts", ignore_errors=True)
            if self.outcome(test, GCOV_PREFIX=str(WORK / "counts")) == PASSED:
                self.runs[name] = {"digest": digest, "seconds": time.monotonic() - start, "lines": self.executed(WORK / "counts")}
                RUNS.write_text(json.dumps(self.runs))
            else:
                self.broken.add(name)
                print(f"without a change fails {name}", flush=True)

    def executed(self, counts):
        """The lines by source."""
        folder = counts / self.build.relative_to("/")
        names = [f.relative_to(folder) for floor in FLOORS for f in (folder / floor).rglob("*.gcda")]
        for name in names:
            (folder / name).with_suffix(".gcno").symlink_to((self.build / name).with_suffix(".gcno"))
        return {source: [line for line, count in lines.items() if count] for source, lines in self.gcov(names, folder).items()}

    def link(self, tests):
        """With what the tests start or load."""
        if names := sorted({name for test in tests for target in test["depends"] for name in self.files[target]}):
            self.run(["ninja", "-C", str(self.build), *names], check=True)

    def c_notices(self, tests):
        """The test that notices, and how; None for none."""
        for i in range(0, len(tests), BATCH):
            self.link(tests[i:i + BATCH])
            with concurrent.futures.ThreadPoolExecutor(BATCH) as pool:
                ended = list(pool.map(self.outcome, tests[i:i + BATCH]))
            end_strays()
            for test in [t for t, how in zip(tests[i:], ended) if how != PASSED]:
                if (again := self.outcome(test)) != PASSED:  # by itself
                    return test, again
        return None

    def outcome(self, test, **env):
        """As meson runs it, in the build folder."""
        cpu, wall = TEST_CPU_S, max(TEST_WALL_S, test["timeout"])
        if run := self.runs.get(test["name"]):
            cpu, wall = min(cpu, 5 + TEST_CPU_TIMES * run["seconds"]), min(wall, 30 + TEST_WALL_TIMES * run["seconds"])
        try:
            done = self.run(["prlimit", f"--cpu={cpu:.0f}", *test["cmd"]], wall, env={**os.environ, **ENV, **test["env"], **env}, cwd=self.build)
        except subprocess.TimeoutExpired:
            return STUCK
        if done.returncode in (-signal.SIGKILL, -signal.SIGXCPU):
            return STUCK
        if done.returncode or "\nnot ok" in re.sub(r"\nnot ok (\d+ # SKIP)", r"\nok \1", "\n" + done.stdout):
            return FAILED
        return PASSED

    def pytest(self, end, *what):
        """"": nothing failed, OPEN: out of time. Else the first test that failed."""
        env = dict(os.environ, STOKER_BUILD=str(self.build), PYTHONDONTWRITEBYTECODE="1", **ENV)
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

    def judge_by_c(self, path, line, changed, is_scenario=False):
        """None: it does not compile. Else the C test that noticed it, "" for none."""
        objects = sorted(self.objects(path))
        while True:
            tests = self.tests_of(path, line, is_scenario)
            with self.change(path, changed):
                if not objects or self.run(["ninja", "-C", str(self.build), *objects]).returncode:
                    return None
                found = self.c_notices(tests)
            if not found:
                return ""
            test, how = found
            self.link([test])
            if self.outcome(test) == PASSED:
                return test["name"] if how == FAILED else f"{test['name']}, which {how}"
            self.broken.add(test["name"])  # the machine may have become busier

    def python_tests(self, path):
        """Files, those named after the changed file or its folder first."""
        folder, stem = pathlib.Path(path).parent.name.removesuffix("s"), pathlib.Path(path).stem.removesuffix("s")
        found = {f for suite in (*(order.suites_of(path) or ()), f"test/unit/{pathlib.Path(path).parent.name}") for f in
                 ([self.source / suite] if suite.endswith(".py") else (self.source / suite).rglob("test_*.py")) if f.exists()}
        names = sorted(str(f.relative_to(self.source)) for f in found)
        return sorted(names, key=lambda name: (-(stem in name) - (folder in name), name.startswith("test/scenario")))

    def judge_by_suites(self, path, line, changed, end):
        """What noticed it, "" for none, OPEN if time ran out."""
        if by := self.judge_by_c(path, line, changed, is_scenario=True):
            return by
        limit = min(end, time.monotonic() + SUITES_S)
        files = self.python_tests(path)
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
    ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def end_strays():
    """Ends every process that this one still has, children of children too. No test is running here."""
    while strays := list_children():
        for pid in strays:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)  # its own children are ours now


def list_children():
    """From all threads, for each may have started some."""
    found = []
    for task in pathlib.Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += [int(pid) for pid in (task / "children").read_text().split()]
    return found


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
        by = copy.judge_by_c(*c[1:])
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
        by = copy.judge_by_suites(*c[1:], end) if time.monotonic() < end else OPEN
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
