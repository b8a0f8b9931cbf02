# SPDX-License-Identifier: Apache-2.0
"""`stoker trace` as a person calls it."""
import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import trace_kit as kit  # noqa: E402


@pytest.fixture
def trace(stoker):
    env = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")}
    env.update(LC_ALL="C.UTF-8", TERM="xterm")
    return kit.Tool(stoker, env)


@pytest.fixture(scope="session")
def generate(build):
    """generate(PATH, words...): a generated profile or folder of ranks."""

    def make(path, *words):
        subprocess.run([build / "test" / "bench" / "gen_trace", *map(str, words), path], check=True, capture_output=True)
        return path

    return make
