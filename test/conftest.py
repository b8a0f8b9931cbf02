# SPDX-License-Identifier: Apache-2.0
"""What all Python tests share: the build folder under test, named by STOKER_BUILD. Without it they are skipped."""
import os
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def build():
    if "STOKER_BUILD" not in os.environ:
        pytest.skip("STOKER_BUILD does not name a build folder; 'make test' sets it")
    return Path(os.environ["STOKER_BUILD"]).resolve()


@pytest.fixture(scope="session")
def stoker(build):
    return build / "stoker"
