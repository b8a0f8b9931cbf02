# SPDX-License-Identifier: Apache-2.0
"""Rounds of chaos (chaos_rig.py): the agent answers all the time, its memory stays small and within a cgroup of 64 MiB, healthy
GPUs come back, and no counter goes back. How old a number may be meanwhile, test_chaos.c says, under a fake clock; how old they
are on a machine, test/bench/chaos.py measures."""
import pathlib

import pytest
from chaos_rig import SPEED, Chaos

ROUNDS, SEED = 40, 7
RSS_MOST = 24 << 20


@pytest.mark.slow("minutes of chaos")
def test_all_at_once(stoker, make_node, tmp_path):
    chaos = Chaos(stoker, tmp_path, make_node(speed=SPEED, strict=False), SEED)
    try:
        chaos.start()
        chaos.wait_for_up()
        for _ in range(ROUNDS):
            chaos.round()
        chaos.calm()
        assert sum(one.sent for one in chaos.hostile) > 100 and chaos.ages.ages
        sanitized = b"__asan_init" in pathlib.Path(stoker).read_bytes()
        assert sanitized or chaos.peak < RSS_MOST, chaos.peak
        assert sanitized or not chaos.cgroup.kills(), chaos.cgroup.kills()
    finally:
        chaos.close()
