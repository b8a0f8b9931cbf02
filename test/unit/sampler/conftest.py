# SPDX-License-Identifier: Apache-2.0
"""Nodes and puppets that end with their test."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import sampler_kit as kit  # noqa: E402


@pytest.fixture
def node(stoker, tmp_path):
    made = []

    def make(text, speed=0):
        made.append(kit.Node(stoker, tmp_path, text, speed))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def puppet(build):
    made = []

    def make(env):
        assert (build / "test" / "unit" / "sampler" / "sampler_puppet").exists()
        made.append(kit.Puppet(build, env))
        return made[-1]

    yield make
    for one in made:
        one.close()
