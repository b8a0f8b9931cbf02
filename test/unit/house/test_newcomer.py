# SPDX-License-Identifier: Apache-2.0
"""CONTRIBUTING.md's places are all places: a metric, a board, an XID with a class of its own and a verb are added to a copy of
the tree as it says, and the tests that walk these lists still pass."""
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LIMIT_S = 1800
C_TESTS = ("model metric", "exporter counters", "exporter profiles", "health catalogue", "health incidents_data", "scenario-boards",
           "scenario-errors", "scenario-library", "scenario-page", "sim-core-state", "sim-core-thermal", "sim-core-mig_pack", "nvml-abi",
           "sampler plan", "dashboard", "runbook")
SUITES = ("test/unit/verb/test_verbs.py", "test/unit/verb/test_xid.py", "test/unit/verb/test_runbook.py", "test/unit/exporter",
          "test/unit/dashboard", "test/unit/runbook", "test/unit/health", "test/unit/deploy", "test/unit/house")

METRIC = """METRIC(NEWCOMER_HEAT, 0, "stoker_newcomer_heat", GAUGE, COUNT, INT64, GPU,
       FIELD(173), NORMAL, ON, KEEP, UNCHANGED,
       "What a newcomer measures")
"""
CLASS = """  newcomer-fault:
    text: the GPU has a fault that a newcomer found
    advice: Ask the newcomer. Meanwhile nothing has to be done.
    cause: firmware
    severity: warning
    scope: gpu
    action: none
    route: ticket
    clear: quiet
    quiet: 10m
    source: a test
"""
XID = """  xid-177:
    on: {xid: 177}
    class: newcomer-fault
    name: an error of a newcomer
    source: a test
"""
VERB = """/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker newcomer`. */
#include <stdio.h>

#include "verb/verb.h"

static int newcomer_run(VerbCall *call, const void *options)
{
    (void)options;
    puts("hello");
    return verb_end(call, EXIT_FINE);
}

const Verb verb_newcomer = {
    .name = "newcomer",
    .summary = "say hello",
    .examples = "stoker newcomer",
    .run = newcomer_run,
};
"""


def run(*command, cwd, **more):
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, timeout=LIMIT_S, check=False, **more)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return done.stdout


def append(path, text):
    path.write_text(path.read_text() + text)


def insert(path, before, text):
    whole = path.read_text()
    assert whole.count(before) == 1, f"{path}: {before!r}"
    path.write_text(whole.replace(before, text + before))


def add_one_of_each(tree):
    append(tree / "src/model/metric.def", METRIC)
    board = (tree / "sim/data/boards/t4.yaml").read_text()
    (tree / "sim/data/boards/newcomer.yaml").write_text(board.replace("name: Tesla T4", "name: NVIDIA Newcomer").replace("0x1EB810DE", "0x1EB910DE"))
    insert(tree / "data/faults/classes.yaml", "  app-fault:\n", CLASS)
    insert(tree / "data/faults/xid.yaml", "  xid-unknown:\n", XID)
    page = (tree / "docs/runbooks/ecc-storm.md").read_text().replace("ecc-storm", "newcomer-fault")
    (tree / "docs/runbooks/newcomer-fault.md").write_text(page)
    insert(tree / "docs/runbooks/README.md", "- [app-fault]", "- [newcomer-fault](newcomer-fault.md): the GPU has a fault that a newcomer found.\n")
    (tree / "src/verb/newcomer.c").write_text(VERB)
    insert(tree / "src/verb/verbs.def", "VERB(version)", "VERB(newcomer)\n")
    insert(tree / "src/verb/meson.build", "'nccl.c', ", "'newcomer.c', ")


@pytest.mark.slow("builds a copy of the tree")
def test_one_more_of_each(tmp_path):
    tree = tmp_path / "tree"
    for name in run("git", "ls-files", "-coz", "--exclude-standard", cwd=ROOT).split("\0"):
        if name and (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    add_one_of_each(tree)
    run("git", "init", "-q", cwd=tree)
    run("git", "add", "-A", cwd=tree)  # what measures the house asks git for its files
    build = tree / "build"
    run("meson", "setup", build, "--werror", cwd=tree)
    run("ninja", "-C", build, cwd=tree)
    table = run(build / "stoker", "xid", "--list", "--markdown", cwd=tree)
    page = tree / "docs/faults.md"
    page.write_text(re.sub(r"(<!-- made by: stoker xid --list --markdown -->\n).*?\n\n", lambda made: made[1] + table + "\n", page.read_text(), count=1,
                           flags=re.DOTALL))
    run("meson", "test", "-C", build, "--no-rebuild", "--print-errorlogs", "--timeout-multiplier", "10", *C_TESTS, cwd=tree)
    assert run(build / "stoker", "newcomer", cwd=tree) == "hello\n" and (build / "man1/stoker-newcomer.1").exists()
    assert "newcomer-fault" in run(build / "stoker", "xid", "177", cwd=tree)
    run("/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", *SUITES,
        cwd=tree, env={**os.environ, "STOKER_BUILD": str(build)})
