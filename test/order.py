# SPDX-License-Identifier: Apache-2.0
"""In which order the Python tests run, and which of them stay together. A file's tests run in one worker, as they may share
what is slow to start; the long files whose tests each start their own things are spread over all workers. What takes long
comes first, so that no worker is left with it at the end."""
from xdist.scheduler import LoadScopeScheduling

# From the longest on.
TOGETHER = (
    "test/unit/deploy/test_deb.py",
    "test/scenario/web/test_scenes.py",
    "test/scenario/web/test_look.py",
    "test/scenario/web/test_life.py",
    "test/unit/trace_report/test_report_browser.py",
    "test/peer/test_dashboard.py",
    "test/scenario/top/test_top.py",
)
SPREAD = (
    "test/scenario/agent/test_long.py",
    "test/scenario/agent/test_kills.py",
    "test/scenario/agent/test_new_clients.py",
    "test/scenario/agent/test_truths.py",
    "test/scenario/agent/test_trial.py",
    "test/scenario/agent/test_remembered.py",
    "test/unit/sampler/test_sampler_values.py",
    "test/unit/verb/test_rules.py",
    "test/scenario/agent/test_kubelet.py",
    "test/scenario/agent/test_faults.py",
    "test/scenario/agent/test_dcgm.py",
    "test/scenario/agent/test_clients.py",
)
RANK = {path: rank for rank, path in enumerate(TOGETHER[:1] + SPREAD + TOGETHER[1:])}


def path_of(nodeid):
    return nodeid.split("::", 1)[0]


def longest_first(items):
    """Sorts pytest's items; files that are not named here keep their order."""
    items.sort(key=lambda item: RANK.get(path_of(item.nodeid), len(RANK)))


class Scheduling(LoadScopeScheduling):
    """What pytest-xdist asks which tests belong together."""

    def _split_scope(self, nodeid):
        path = path_of(nodeid)
        return nodeid if path in SPREAD else path
