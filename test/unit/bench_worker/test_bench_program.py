# SPDX-License-Identifier: Apache-2.0
"""stoker-bench as a program: its arguments, its descriptor, its signals and what it makes of its environment, before a CUDA of
our own (fake_cuda.c). What its stages find is tested in C."""
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import bench_kit as kit  # noqa: E402

MANY = "stages=patterns,memory,probes,gemm,burn"
QUICK = ("keep_mib=4", "windows=1", "seconds=1", "shape=128x128x32")
MIG = "MIG-8d2c5a1e-0000-0000-0000-000000000000"


@pytest.fixture
def worker(build, tmp_path):
    """worker(ARGUMENT..., library=, env=): not started yet."""
    made = []

    def make(*arguments, **how):
        made.append(kit.Worker(build, tmp_path, *arguments, **how))
        return made[-1]

    yield make
    for one in made:
        if getattr(one, "process", None) and one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def test_everything_is_sent_and_it_ends_well(worker):
    code, records, err = worker("gpu", MANY, *QUICK).start().finish()
    assert code == 0 and err == ""
    assert kit.stages(records) == ["start", "patterns", "memory", "probes", "gemm", "burn", "end"]
    assert {"memory.read", "fma.fp32", "gemm.bf16", "burn"} <= kit.measures(records)
    assert not kit.of_kind(records, "error")


@pytest.mark.parametrize("arguments", [(), ("gpus",), ("gpu", "seconds=x"), ("links", "stages=burn"), ("gpu", "what=1")])
def test_wrong_arguments(worker, arguments):
    code, records, err = worker(*arguments, library=None).start().finish()
    assert code == 3 and records == [] and err.startswith("stoker-bench: ") and err.count("\n") == 1


def test_mig_devices_have_no_links(worker):
    code, records, err = worker("links", "stages=host", env={"CUDA_VISIBLE_DEVICES": MIG}).start().finish()
    assert code == 3 and records == [] and "MIG" in err
    code, records, _ = worker("gpu", env={"CUDA_VISIBLE_DEVICES": MIG}).start().finish()
    assert code == 0 and records[1]["uuid"].startswith("MIG-00102030-")


@pytest.mark.parametrize("library, what, number", [("/nowhere/libcuda.so.1", "dlopen", 0), ("libm.so.6", "cuInit", 500)])
def test_no_library(worker, library, what, number):
    code, records, _ = worker("gpu", MANY, library=library).start().finish()
    assert code == 0
    assert [(e["error"], e["stage"], e["what"], e["code"]) for e in kit.of_kind(records, "error")] == [("call", "start", what, number)]
    assert kit.stages(records) == ["start", "end"]


def test_nobody_reads(worker):
    reader, writer = os.pipe()
    os.close(reader)
    one = worker("gpu", MANY, *QUICK).start(writer)
    assert one.process.wait(kit.PATIENCE_S) == 4
    closed = subprocess.run(["sh", "-c", 'exec 3>&-; exec "$0" "$@"', *one.command], check=False)
    assert closed.returncode == 4


@pytest.mark.parametrize("launches", [1, 4, 40, 60])
def test_a_signal_ends_a_kernel_that_runs_on(worker, launches):
    one = worker("gpu", MANY, *QUICK, env={"FAKE_CUDA_LAUNCHES": str(launches)}).start()
    one.runner()
    one.process.send_signal(signal.SIGTERM)
    code, records, err = one.finish()
    assert code == 0 and err == ""
    errors = kit.of_kind(records, "error")
    assert [e["error"] for e in errors] == ["stopped"]
    assert kit.stages(records)[-2:] == [errors[0]["stage"], "end"]


def test_it_ends_with_its_parent(worker, tmp_path):
    """A parent that is killed leaves no kernel running."""
    one = worker("gpu", MANY, *QUICK, env={"FAKE_CUDA_LAUNCHES": "1"}).start(prefix=("sh", "-c", '"$@" & wait', "sh"))
    pid = one.runner()
    one.process.kill()
    kit.wait_until(lambda: not os.path.exists(f"/proc/{pid}"))
    code, records, err = one.finish()
    assert code == -signal.SIGKILL and err == ""
    assert [e["error"] for e in kit.of_kind(records, "error")] == ["stopped"]


def test_environment(worker, tmp_path):
    """What the driver's library finds when it starts."""
    env = {"FAKE_CUDA_ENVIRONMENT": str(tmp_path / "env"), "CUDA_MPS_PIPE_DIRECTORY": "/x", "CUDA_MPS_LOG_DIRECTORY": "/y", "CUDA_CACHE_DISABLE": "0"}
    assert worker("gpu", env=env).start().finish()[0] == 0
    seen = (tmp_path / "env").read_text().splitlines()
    assert sorted(seen) == ["CUDA_CACHE_DISABLE=1", "CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_MODULE_LOADING=LAZY"]


def test_nothing_of_the_parent_stays_open(worker, tmp_path):
    with open(tmp_path / "held", "w", encoding="utf-8") as held:
        os.set_inheritable(held.fileno(), True)
        one = worker("gpu", MANY, *QUICK, env={"FAKE_CUDA_LAUNCHES": "1"}).start()
        one.runner()
        opened = [os.readlink(f"/proc/{one.process.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{one.process.pid}/fd")]
        one.process.send_signal(signal.SIGTERM)
        one.finish()
    assert str(tmp_path / "held") not in opened and str(one.path) in opened


def test_links_of_one_gpu(worker):
    code, records, _ = worker("links", "stages=host,pairs,collectives", "keep_mib=4", "windows=1").start().finish()
    assert code == 0 and not kit.of_kind(records, "error")
    assert kit.measures(records) == {"context", "host.to", "host.from", "host.to-all", "host.from-all"}
