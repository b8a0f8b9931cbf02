# SPDX-License-Identifier: Apache-2.0
"""The commands of README and of the quick starts, run beside an agent on a simulated node."""
import os
import pathlib
import re
import subprocess

import agent_rig as rig
import pytest
from agent_rig import until

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("quickstart-*.md"))]
# What does not end, changes the machine, or reads what a reader has and the tests have not.
NOT_HERE = re.compile(r"stoker (?:agent(?! --check)|kubelet(?! explain)|run |sim |mig apply|nccl |top|release)|profile\.json|node\*|/var/lib")
LINES = sorted({line.strip() for page in PAGES for line in re.findall(r"^    (?:build/)?(stoker [^#\n]*)", page.read_text(), re.M)
                if not NOT_HERE.search(line)})


def test_there_are_some():
    assert len(LINES) > 25


@pytest.fixture(scope="module")
def place(stoker, tmp_path_factory):
    folder = tmp_path_factory.mktemp("quickstart")
    node = rig.Node(stoker, folder, "default")
    agent = rig.Agent(stoker, folder, node.env, options=["--journal", folder / "journal.db"])
    (folder / "data").symlink_to(ROOT / "data")
    env = {**os.environ, **node.env, "PATH": f"{stoker.parent}:{os.environ['PATH']}", "STOKER_CONTROL": str(agent.control),
           "STOKER_JOURNAL": str(folder / "journal.db")}
    until(lambda: agent.verb("why", "4711").returncode in (0, 1) and agent.verb("jobs", "show", "4711").returncode == 0, agent.log_text)
    yield folder, env
    agent.stop()
    node.stop()


@pytest.mark.parametrize("line", LINES)
def test_a_command_of_the_pages_runs(place, line):
    folder, env = place
    if "jq" in line and subprocess.run(["which", "jq"], capture_output=True, check=False).returncode:
        line = line.split(" | ")[0]
    done = subprocess.run(["bash", "-c", line], cwd=folder, env=env, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    assert done.returncode in ((0, 1, 6) if " plan " in line else (0, 1)), f"{done.returncode}: {done.stderr}"
    assert done.stdout or ">" in line or "--check-config" in line, done.stderr
