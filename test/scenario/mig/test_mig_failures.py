# SPDX-License-Identifier: Apache-2.0
"""`stoker mig apply` when something fails: the old layout stands or the new one, never a third."""
import os
import random
import resource
import shutil
import signal
import subprocess

import pytest
from agent_rig import Agent, until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may change MIG")
A100 = "about: boards whose mode takes a reset\ngpus: {board: a100-sxm4-80gb, count: 2}\ntruth: []\n"
OLD, NEW = "all=balanced", "all=7x1g.10gb"


def hang(mig, function, after=0, gpu="0-1"):
    mig.node.inject("hang", f"gpu={gpu}", f"function={function}", f"after={after}")


def unhang(mig):
    mig.node.inject("hang", "gpu=0-1", "clear=on")


def test_killed_at_any_moment_the_next_apply_ends_it(make_mig):
    mig = make_mig()
    old = mig.layout()
    mig.ok("apply", NEW)
    new = mig.layout()
    calls = len(mig.calls.read_text().splitlines())
    moments = random.Random(16)
    for _ in range(12):
        mig.ok("apply", OLD)
        hang(mig, "all", moments.randrange(calls // 2))
        process = mig.start("apply", NEW)
        try:
            process.communicate(timeout=moments.random())
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=120)
        unhang(mig)
        began = mig.state.exists()
        done = mig.run("apply", OLD)
        assert done.returncode == 0, done.stderr
        assert ("a change that was cut off was" in done.stderr) == began
        assert mig.layout() == old and not mig.state.exists()
    assert new != old


@pytest.mark.parametrize("function, gpu, after", [("nvmlDeviceCreateGpuInstanceWithPlacement", 0, 0),
                                                  ("nvmlDeviceCreateGpuInstanceWithPlacement", 1, 2), ("nvmlDeviceGetMigMode", 0, 2)])
def test_a_call_that_hangs_is_given_up_and_the_next_apply_puts_back(make_mig, function, gpu, after):
    mig = make_mig()
    old = mig.layout()
    hang(mig, function, after, gpu)
    done = mig.run("apply", "--timeout", "2s", NEW)
    assert done.returncode == 8 and f"the driver's {function} has not returned for 2000 ms" in done.stderr
    assert "could not be put back" in done.stderr and mig.state.exists()
    again = mig.run("apply", "--timeout", "2s", NEW)
    assert again.returncode in (3, 8) and mig.state.exists(), "it hangs still"
    unhang(mig)
    done = mig.run("apply", "--timeout", "2s", OLD)
    assert (done.returncode, done.stderr) == (0, "stoker mig apply: a change that was cut off was undone\n")
    assert mig.layout() == old and not mig.state.exists()


@pytest.mark.parametrize("function", ["nvmlDeviceGetMigMode", "nvmlDeviceGetHandleByIndex_v2", "all"])
def test_a_gpu_that_hangs_is_left_out(make_mig, function, tmp_path):
    """`all`: even the driver's start hangs unless it attaches no GPU."""
    mig = make_mig()
    mig.ok("checkpoint", "-f", tmp_path / "before.json")
    uuid = mig.node.smi("uuid")[0][0]
    old = mig.layout().splitlines()
    hang(mig, function, gpu=0)
    for verb in ("plan", "assert"):
        done = mig.run(verb, "--timeout", "1s", NEW)
        assert done.returncode == 1 and not mig.changes()
        assert verb == "assert" or ("GPU 0 is left out: the driver's nvml" in done.stderr and "GPU 1: 2 x 1g.10gb" in done.stdout)
    for words in (("gpu0=7g.80gb", "gpu1=7g.80gb"), (f"{uuid}=7g.80gb", "gpu1=7g.80gb"), ("gpu0=off",)):
        done = mig.run("apply", "--timeout", "1s", *words)
        assert done.returncode == 3 and "GPU 0" in done.stderr and "has not returned for 1000 ms" in done.stderr
        assert not mig.changes() and not mig.state.exists()
    done = mig.run("apply", "--timeout", "1s", NEW)
    assert done.returncode == 1 and done.stdout == "" and "GPU 0 is left out: the driver's nvml" in done.stderr
    assert mig.changes() and not mig.state.exists()
    assert mig.run("assert", "--timeout", "1s", "gpu1=7x1g.10gb").returncode == 0
    assert mig.run("restore", "--timeout", "1s", "-f", tmp_path / "before.json").returncode == 1
    unhang(mig)
    assert mig.layout().splitlines() == old


def test_where_every_gpu_hangs_nothing_is_changed(make_mig):
    mig = make_mig()
    hang(mig, "nvmlDeviceGetMigMode")
    for verb in ("plan", "apply", "assert"):
        done = mig.run(verb, "--timeout", "1s", NEW)
        assert done.returncode == 3 and "GPU 0: the driver's nvmlDeviceGetMigMode has not returned for 1000 ms" in done.stderr
        assert not mig.changes()


def test_a_gpu_that_cannot_be_read(make_mig):
    mig = make_mig()
    mig.node.inject("xid", "79", "gpu=1")
    assert mig.run("apply", "gpu1=7g.80gb").returncode == 3 and not mig.changes()
    assert mig.run("export").returncode == 1
    mig.ok("apply", "gpu0=7g.80gb")
    assert mig.run("apply", NEW).returncode == 1
    assert mig.run("export", "-o", "text").stdout.count("1g.10gb at") == 7


def test_where_the_change_cannot_be_kept_nothing_is_changed(make_mig, tmp_path):
    mig = make_mig()
    assert mig.refused(3, "apply", "--state", "/dev/null/no/change.json", NEW)
    assert mig.refused(3, "apply", "--state", "/proc/change.json", NEW)
    full = mig.refused(3, "apply", NEW, restore_signals=False,
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
    assert "nothing was changed: " in full


def test_a_record_that_cannot_be_read_is_not_passed_over(make_mig):
    mig = make_mig()
    mig.state.parent.mkdir()
    before = mig.layout()
    for text in ("{", "{}", '{"version":1,"before":{},"after":{}}'):
        mig.state.write_text(text)
        done = mig.run("apply", NEW)
        assert done.returncode == 3 and "holds a change that was cut off and cannot be read" in done.stderr
        assert mig.layout() == before and mig.state.read_text() == text


def test_one_apply_at_a_time(make_mig):
    mig = make_mig()
    hang(mig, "nvmlDeviceCreateGpuInstanceWithPlacement")
    first = mig.start("apply", NEW)
    until(mig.state.exists, "a change under way")
    done = mig.run("apply", OLD)
    assert done.returncode == 6 and "another 'stoker mig' is changing layouts" in done.stderr and not mig.changes()
    unhang(mig)
    assert first.communicate(timeout=120)[1] == "" and first.returncode == 0
    assert mig.ok("assert", NEW)


def test_ctrl_c_ends_the_waiting_but_not_a_change(make_mig):
    mig = make_mig("mig-balanced")
    mig.node.sim("clock", "step", "1m")
    waits = mig.start("apply", "--wait", "1h", "gpu0=7g.80gb")
    until(lambda: mig.state.with_suffix(".json.lock").exists(), "its lock")

    def interrupted():
        waits.send_signal(signal.SIGINT)
        return waits.poll() is not None
    until(interrupted, "it ends")
    assert waits.returncode in (6, -signal.SIGINT)
    for work in ("chat", "search"):
        mig.node.inject("stop", work)
    mig.node.inject("hang", "gpu=0", "function=nvmlDeviceCreateGpuInstanceWithPlacement")
    changes = mig.start("apply", "gpu0=7g.80gb")
    until(mig.state.exists, "a change under way")
    changes.send_signal(signal.SIGINT)
    mig.node.inject("hang", "gpu=0", "clear=on")
    assert changes.communicate(timeout=120)[0] == "MIG configuration applied successfully\n"


@pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv is not here")
def test_without_root(make_mig, stoker):
    """A user who may open all files here, but is not root."""
    mig = make_mig(A100)
    mig.stoker = "setpriv"
    start = ["--reuid=65534", "--inh-caps=+dac_override", "--ambient-caps=+dac_override", str(stoker), "mig"]
    mig.words = lambda verb, *words: ["setpriv", *start, verb, *(["--state", str(mig.state)] if verb == "apply" else []), *map(str, words)]
    assert "enable MIG" in mig.ok("plan", "all=none")
    done = mig.run("apply", "all=none")
    assert done.returncode == 7 and "Insufficient Permissions" in done.stderr and "GPU 0: MIG disabled" in mig.layout()
    subprocess.run([stoker, "mig", "apply", "--state", mig.state, "all=7g.80gb"], env=mig.env, check=True, capture_output=True)
    assert "only root may list its instances" in mig.refused_plainly(3, "plan", "all=none")


# --- boards whose mode takes a reset

@pytest.fixture
def ampere(make_mig):
    mig = make_mig(A100)
    mig.node.sim("clock", "step", "1m")  # what is set at the start of a scenario is so at once
    return mig


def test_a_mode_change_resets_where_the_board_needs_it(ampere):
    assert "mode    enable MIG, with a reset of the GPU" in ampere.ok("plan", "gpu1=balanced")
    assert ampere.ok("apply", "gpu1=balanced") == "MIG configuration applied successfully\n", "not what nvidia-smi says"
    assert ampere.layout() == "GPU 0: MIG disabled\nGPU 1: 1g.10gb at 2, 1g.10gb at 3, 2g.20gb at 0-1, 3g.40gb at 4-7\n"
    ampere.ok("apply", "all=off")
    assert ampere.layout() == "GPU 0: MIG disabled\nGPU 1: MIG disabled\n"


def modes(mig):
    return mig.node.smi("mig.mode.current", "mig.mode.pending")


def test_a_reset_that_fails_takes_the_mode_back(ampere, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nvidia-smi").write_text("#!/bin/sh\nseq 40000\necho Unable to reset\nexit 255\n")
    (tmp_path / "bin/nvidia-smi").chmod(0o755)
    path, ampere.env["PATH"] = ampere.env["PATH"], f"{tmp_path}/bin:{ampere.env['PATH']}"
    done = ampere.run("apply", "gpu0=balanced")
    assert done.returncode == 7 and "reset of 00000000:07:00.0: nvidia-smi: exit" in done.stderr
    assert done.stdout == "" and done.stderr.startswith("1\n2\n")
    ampere.env["PATH"] = path
    assert modes(ampere) == [["Disabled", "Disabled"]] * 2
    done = ampere.run("apply", "--skip-reset", "gpu0=balanced")
    assert done.returncode == 7 and "--skip-reset forbids it" in done.stderr
    assert modes(ampere) == [["Disabled", "Disabled"]] * 2


def test_a_mode_may_wait_for_a_reset(ampere):
    said = ampere.ok("apply", "--skip-reset", "--mode-only", "gpu0=balanced")
    assert said == "GPU 0: MIG is enabled after a reset of the GPU or a reboot\nMIG configuration applied successfully\n"
    assert modes(ampere) == [["Disabled", "Enabled"], ["Disabled", "Disabled"]]
    assert ampere.refused(1, "assert", "--mode-only", "gpu0=balanced")
    ampere.ok("apply", "gpu0=off")
    assert modes(ampere) == [["Disabled", "Disabled"]] * 2


def test_the_agent_lets_the_driver_go_while_a_gpu_is_reset(ampere, tmp_path, stoker):
    (tmp_path / "agent").mkdir()
    agent = Agent(stoker, tmp_path / "agent", ampere.env)
    try:
        real = shutil.which("nvidia-smi", path=ampere.env["PATH"])
        (tmp_path / "nvidia-smi").write_text(f"""#!/bin/sh
for try in $(seq 600); do
    curl -s http://{agent.address}/api/v1/gpus | grep -q '"state":"released"' && exec {real} "$@"
    sleep 0.1
done
exit 1
""")
        (tmp_path / "nvidia-smi").chmod(0o755)
        ampere.env["PATH"] = f"{tmp_path}:{ampere.env['PATH']}"
        ampere.ok("apply", "--control", agent.control, "gpu0=balanced")
        until(lambda: "released" not in {g["state"] for g in agent.gpus()}, "it is taken up again")
    finally:
        agent.stop()
