# SPDX-License-Identifier: Apache-2.0
"""What the tests of deploy/ share: the sources, and what the built agent understands."""
import os
import re
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[3]
LIMIT_S = 120


@pytest.fixture(scope="session")
def source():
    return SOURCE


@pytest.fixture(scope="session")
def deploy():
    return SOURCE / "deploy"


@pytest.fixture(scope="session")
def version():
    return re.search(r"^  version: '([^']+)'", (SOURCE / "meson.build").read_text(), re.M)[1]


class AgentWords:
    """The flags and variables of `stoker agent`, from its own help and man page."""

    def __init__(self, help_text, man_page):
        self.flags = set()
        for line in re.findall(r"^ +(?:-\w, )?(--\S+)", help_text, re.M):
            self.flags |= {line.replace("[no-]", ""), line.replace("[no-]", "no-")}
        self.variables = set(re.findall(r"^\.B ([A-Z][A-Z0-9_]+)$", man_page, re.M))


@pytest.fixture(scope="session")
def run_agent(stoker):
    """run_agent(words...): the finished process, in an environment that says nothing about GPUs; skips where it is no verb."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("STOKER_", "DCGM_", "NVIDIA_", "KUBERNETES_"))}

    def run(*words):
        return subprocess.run([stoker, "agent", *map(str, words)], env=env, capture_output=True, text=True, timeout=LIMIT_S,
                              check=False)

    done = run("--help")
    if done.returncode:
        pytest.skip(f"'stoker agent' is not there yet: {done.stderr.strip()}")
    return run


@pytest.fixture(scope="session")
def agent_words(run_agent, stoker):
    man = subprocess.run([stoker, "help", "--man", "agent"], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    words = AgentWords(run_agent("--help").stdout, man.stdout)
    assert "--listen" in words.flags and "DCGM_EXPORTER_LISTEN" in words.variables
    return words
