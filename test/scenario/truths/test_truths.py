# SPDX-License-Identifier: Apache-2.0
"""Every scenario played to its end; `make test` stops ten minutes before."""
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.mark.slow("a quarter of an hour of the node's clock behind the last truth of each scenario")
def test_nothing_false_is_told_late(build):
    done = subprocess.run([build / "test/scenario/truths/truths", ROOT / "sim/data/scenarios", ROOT / "sim/data/boards", build / "sim/nvml",
                           build / "src/source/nvml/stoker-sampler"], capture_output=True, text=True)
    assert done.returncode == 0, "\n".join(line for line in done.stdout.splitlines() if not line.startswith("ok"))
