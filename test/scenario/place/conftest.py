# SPDX-License-Identifier: Apache-2.0
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from place_rig import Cluster, Extender  # noqa: E402


@pytest.fixture
def make_cluster(tmp_path):
    made = []

    def make(*how):
        made.append(Cluster(tmp_path, *how))
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.fixture
def make_extender(stoker, tmp_path):
    made = []

    def make(*how):
        made.append(Extender(stoker, tmp_path, *how))
        return made[-1]

    yield make
    for one in made:
        if one.process.poll() is None:
            one.stop()
        assert "Sanitizer" not in one.log()
