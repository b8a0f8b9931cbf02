#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of a build folder and closes with one line: N passed, N failed, N skipped.

C tests are run by meson (TAP: every case counts), which builds what it runs; Python tests by pytest. Both report as JUnit
XML, which is counted here. A test that is skipped says why, and the reasons are printed.

    test/run.py build                  all but the slow ones
    test/run.py build --all            all
    test/run.py build --since HEAD     what the changes since a commit can have broken, slow ones too"""
import argparse
import importlib.util
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET

ROOT = pathlib.Path(__file__).resolve().parent.parent
SPEC = importlib.util.spec_from_file_location("order", ROOT / "test/order.py")
order = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(order)

# Most of the Python tests wait for something rather than compute, so that a core serves four of them.
WORKERS = 4 * len(os.sched_getaffinity(0))
# Options of sanitizers beside the file for their reports.
SANITIZERS = {"ASAN": "", "UBSAN": "halt_on_error=1:print_stacktrace=1", "TSAN": ""}


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.reasons, self.failures = [], []

    def fail(self, what, text=""):
        """`text`: what the test printed; kept are the lines of pytest that say what was wrong, or else its end."""
        lines = text.rstrip().split("\n")
        told = [line for line in lines if line.startswith("E  ")] or lines[-20:]
        self.failed += 1
        self.failures.append("\n".join([f"FAILED {what}", *(line[:300] for line in told[:20])]))

    @staticmethod
    def reason(case, skipped):
        """pytest writes it as an attribute, meson as output."""
        return skipped.get("message") or (skipped.text or "").strip() or (case.findtext("system-out") or "").strip() or "no reason given"

    def add_junit(self, path):
        for suite in ET.parse(path).iter("testsuite"):
            for case in suite.iter("testcase"):
                name = f'{case.get("classname", "")}: {case.get("name", "")}'
                skipped = case.find("skipped")
                wrong = [part for part in case if part.tag in ("failure", "error")]
                if wrong:
                    self.fail(name, wrong[0].text or suite.findtext("system-err") or case.findtext("system-out") or "")
                elif skipped is not None:
                    self.skipped += 1
                    self.reasons.append(f'skipped {name}: {self.reason(case, skipped)}')
                else:
                    self.passed += 1


def output(*command):
    return subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, check=True).stdout


def meson_tests(build, words, tally, meanwhile=lambda: None):
    """`meanwhile`: what is done while they run; what they print comes after it."""
    report = build / "meson-logs" / "testlog.junit.xml"
    report.unlink(missing_ok=True)
    with tempfile.TemporaryFile() as file:
        running = subprocess.Popen(["nice", "meson", "test", "-C", str(build), "--print-errorlogs", "--timeout-multiplier", "10", *words],
                                   stdout=file, stderr=subprocess.STDOUT)
        meanwhile()
        code = running.wait()
        file.seek(0)
        said = file.read().decode(errors="replace")
    print(said, flush=True)
    before = tally.failed
    if report.exists():
        tally.add_junit(report)
    if code and tally.failed == before:
        tally.fail("a C test that died without a failed case, or did not build", said)


def scratch_folder():
    """For the files of the Python tests. In memory, if programs and devices there can be used: each simulated node has thousands of
    small files, which cost a disk ten times as much."""
    memory, fits = "/dev/shm", False
    if os.access(memory, os.W_OK):
        state = os.statvfs(memory)
        fits = not state.f_flag & (os.ST_NOEXEC | os.ST_NODEV) and state.f_bavail * state.f_frsize >= 2 << 30
    return tempfile.TemporaryDirectory(prefix="stoker-", dir=memory if fits else None, ignore_cleanup_errors=True)


def python_tests(build, paths, slow, tally):
    """`paths`: folders and files below the source folder."""
    paths = [path for path in paths if (ROOT / path).exists()]
    if not paths:
        return
    report = build / "pytest.xml"
    report.unlink(missing_ok=True)
    reports = build / "sanitizer-reports"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir()
    env = dict(os.environ, STOKER_BUILD=str(build), PYTHONDONTWRITEBYTECODE="", PYTHONPYCACHEPREFIX=str(build / "pycache"),
               **{f"{name}_OPTIONS": f"log_path={reports}/{name.lower()}:{more}" for name, more in SANITIZERS.items()})
    select = ["-m", "slow or not slow"] if slow else []
    with scratch_folder() as scratch:
        code = subprocess.call(["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib",
                                "-n", str(WORKERS), "--dist", "loadscope", f"--basetemp={scratch}/t", *select,
                                f"--junitxml={report}", *paths], env=env, cwd=ROOT)
    before = tally.failed
    if report.exists():
        tally.add_junit(report)
    if code and code != 5 and tally.failed == before:  # 5: none of these tests is wanted
        tally.fail(f"pytest, exit status {code}")
    for path in sorted(reports.iterdir()):  # of programs whose exit status nobody asked for, too
        text = path.read_text(errors="replace")[:5000]
        print(text)
        tally.fail(f"a program under a sanitizer, {path.name}", "\n".join(text.split("\n")[:20]))


def build_programs(build, paths):
    """Builds the program and what the tests in these folders and files start."""
    folders = {path if not path.endswith(".py") else os.path.dirname(path) for path in paths}
    wanted = ["stoker", "test/bench/gen_trace"]
    for line in output("ninja", "-C", build, "-t", "targets", "all").splitlines():
        target, _, rule = line.partition(": ")
        loaded = target.startswith("test/") and ".so" in target  # by tests of other folders too
        if rule.startswith("c_LINKER") and (loaded or target.startswith(("sim/", "src/", *(f"{f}/" for f in folders)))):
            wanted.append(target)
    return subprocess.call(["ninja", "-C", str(build), *wanted]) == 0


def changed_since(revision):
    """Files that differ from a commit, relative to the source folder."""
    names = output("git", "diff", "--name-only", revision) + output("git", "ls-files", "--others", "--exclude-standard")
    return sorted(set(names.split("\n")) - {""})


def c_tests_of(build, changed):
    """The names of the C tests whose sources, headers or data are among the changed files."""
    files = {str(ROOT / name) for name in changed}
    touched, current = set(), None
    for line in output("ninja", "-C", build, "-t", "deps").splitlines():
        if not line.startswith(" "):
            current = line.split(": ")[0]
        elif str((build / line.strip()).resolve()) in files:
            touched.add(current)

    def depends(target):
        inputs = output("ninja", "-C", build, "-t", "inputs", target).split("\n")
        return any(name in touched or str((build / name).resolve()) in files for name in inputs if name)

    targets = {t["id"]: [os.path.relpath(f, build) for f in t["filename"]] for t in json.loads(output("meson", "introspect", "--targets", build))}
    asked = {target: depends(target) for target in {t for files_ in targets.values() for t in files_} if target.startswith(("test/", "sim/nvml"))}
    names = []
    for test in json.loads(output("meson", "introspect", "--tests", build)):
        data = [word for word in test["cmd"][1:] if any(name.startswith(word + "/") or name == word for name in files)]
        if data or any(asked.get(target) for id_ in test["depends"] for target in targets[id_]):
            names.append(test["name"])
    return names


def run_since(build, revision, tally):
    changed = changed_since(revision)
    print(f"{len(changed)} files differ from {revision}")
    if subprocess.call(["ninja", "-C", str(build)]):
        tally.fail("the build")
        return
    if names := c_tests_of(build, changed):
        meson_tests(build, names, tally)
    suites = [order.suites_of(path) for path in changed]
    paths = ["test"] if None in suites else sorted({path for suite in suites for path in suite} | {"test/unit/house"})
    python_tests(build, paths, True, tally)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--name", default="", help="said in the heading")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="the slow tests too")
    which.add_argument("--bytes", action="store_true", help="the C tests and the Python tests that feed bytes")
    which.add_argument("--threads", action="store_true", help="the tests of programs with threads")
    which.add_argument("--since", metavar="REV", help="only what changes since this commit can have broken")
    args = parser.parse_args()
    build = args.build.resolve()
    if args.name:
        print(f"== {args.name}: {shlex.quote(str(args.build))}", flush=True)
    tally = Tally()
    if args.since:
        run_since(build, args.since, tally)
    else:
        part = order.BYTES if args.bytes else order.THREADS if args.threads else ()
        if not (build_programs(build, part) if part else subprocess.call(["ninja", "-C", str(build)]) == 0):
            tally.fail("the build")
        # The Python tests wait for much of their time, which is enough for the C tests.
        meson_tests(build, ["--suite", "threads"] if args.threads else [], tally,
                    lambda: python_tests(build, part or ["test"], args.all, tally))
    for reason in sorted(tally.reasons):
        print(reason)
    for failure in tally.failures:
        print(failure)
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    return 1 if tally.failed or not tally.passed and not args.since else 0


sys.exit(main())
