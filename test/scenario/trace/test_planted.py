# SPDX-License-Identifier: Apache-2.0
"""Jobs with planted causes (test/bench/planted.py): a few of those that `make bench-verdicts` runs."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))
import planted  # noqa: E402

JOBS = planted.jobs()
FOUND = ("loader", "collate", "item", "allocator", "exposed-copy", "low-occupancy", "python-between", "loader-xla", "slow-gpu")
CLEAN = ("clean-ddp", "clean-xla", "jitter", "warm-up")


@pytest.mark.parametrize("name", FOUND)
def test_the_cause_comes_first_with_its_gain(stoker, tmp_path, name):
    result = planted.check_job(stoker, JOBS[name], tmp_path)
    assert result["right"], result
    assert abs(result["said"] - result["true"]) <= 0.2 * result["true"], result


@pytest.mark.parametrize("name", CLEAN)
def test_nothing_is_said_where_nothing_is_wrong(stoker, tmp_path, name):
    result = planted.check_job(stoker, JOBS[name], tmp_path)
    assert not result["false"], result


def test_a_job_is_the_same_by_its_seed():
    one, other = (planted.simulate(JOBS["clean-fsdp"])[3].events for _ in range(2))
    assert one == other and one != planted.simulate(planted.replace(JOBS["clean-fsdp"], seed=2))[3].events
