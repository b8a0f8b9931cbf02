# SPDX-License-Identifier: Apache-2.0
"""`stoker mig apply` when something fails: the old layout stands or the new one, never a third."""
import os
import random
import signal
import subprocess

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may change MIG")
A100 = "about: boards whose mode takes a reset\ngpus: {board: a100-sxm4-80gb, count: 2}\ntruth: []\n"
OLD, NEW = "all=balanced", "all=7x1g.10gb"


def test_killed_at_any_moment_the_next_apply_ends_it(make_mig):
    mig = make_mig()
    old = mig.layout()
    mig.ok("apply", NEW)
    new = mig.layout()
    calls = len(mig.calls.read_text().splitlines())
    moments = random.Random(16)
    for _ in range(12):
        mig.ok("restore" if False else "apply", OLD)
        mig.node.inject("hang", "gpu=0-1", "function=all", f"after={moments.randrange(calls)}")
        process = mig.start("apply", NEW)
        try:
            process.communicate(timeout=moments.random())
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=120)
        mig.node.inject("hang", "gpu=0-1", "clear=on")
        began = mig.state.exists()
        done = mig.run("apply", OLD)
        assert done.returncode == 0, done.stderr
        assert ("a change that was cut off was" in done.stderr) == began
        assert mig.layout() == old and not mig.state.exists()
    assert new != old
