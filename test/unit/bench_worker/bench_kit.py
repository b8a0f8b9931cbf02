# SPDX-License-Identifier: Apache-2.0
"""Starts stoker-bench with a file or a pipe at its descriptor 3 and reads its records."""
import json
import os
import subprocess
import time

PATIENCE_S = 120  # only a test that fails waits for so long


class Worker:
    """stoker-bench with a file for its records."""

    def __init__(self, build, folder, *arguments, library="", env=None):
        self.build, self.path, self.running = build, folder / "records", folder / "running"
        if library is not None:
            arguments += (f"library={library or build / 'test/unit/bench_worker/libfake_cuda.so'}",)
        self.command = [str(build / "src/source/cuda/stoker-bench"), *arguments]
        self.env = {**{k: v for k, v in os.environ.items() if not k.startswith("CUDA_")}, "FAKE_CUDA_RUNNING": str(self.running), **(env or {})}

    def start(self, out=None, prefix=()):
        """`out`: the descriptor to use as the worker's third; else a file's."""
        fd = os.open(self.path, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o600) if out is None else out
        self.process = subprocess.Popen(["sh", "-c", 'exec 3>&0 </dev/null; exec "$@"', "sh", *prefix, *self.command], env=self.env, text=True,
                                        stdin=fd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, close_fds=False)
        os.close(fd)
        return self

    def runner(self):
        """The pid of the worker, once its kernel of FAKE_CUDA_LAUNCHES runs."""
        wait_until(lambda: self.running.exists() and self.running.read_text().endswith("\n"))
        return int(self.running.read_text())

    def finish(self):
        """Exit code, records, what it wrote to stderr."""
        out, err = self.process.communicate(timeout=PATIENCE_S)
        assert out == ""
        with open(self.path, "rb") as file:
            text = subprocess.run([self.build / "test/unit/bench_worker/bench_records"], stdin=file, capture_output=True, text=True, check=True)
        return self.process.returncode, [json.loads(line) for line in text.stdout.splitlines()], err


def wait_until(holds):
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def of_kind(records, kind):
    return [r for r in records if r["kind"] == kind]


def stages(records):
    return [r["stage"] for r in of_kind(records, "stage")]


def measures(records):
    return {r["measure"] for r in of_kind(records, "measure")}
