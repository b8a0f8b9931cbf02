# SPDX-License-Identifier: Apache-2.0
"""Nodes and puppets that end with their test."""
import os
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


@pytest.fixture
def on_fake_driver(build, tmp_path, puppet):
    """on_fake_driver(wanted, FAKE_...=...): a puppet whose library is fake_driver.c, its driver loaded and well."""
    library, control = build / "test/unit/sampler/libfake_driver.so", tmp_path / "driver"
    assert library.exists()
    control.write_text("1 0\n", encoding="utf-8")

    def begin(wanted, wish=(), buses=("00000000:3B:00.0",), **env):
        p = puppet({**os.environ, "FAKE_DRIVER": str(control), **env})
        for word in wish:
            p.do("wish", word, "on")
        p.plan(wanted, slow_ms=60)
        p.start(library=library)
        p.gpus(buses)
        return p
    return begin
