# SPDX-License-Identifier: Apache-2.0
"""`stoker bench` on simulated nodes whose clock only moves when a test waits for its GPU: the CPU's speed changes no result."""
import json
import os
import subprocess
from dataclasses import dataclass, field

import pytest

NODE = """about: for stoker bench
node: {{driver: "590.48.01", cuda: "13.1", seed: 7, start: "2026-01-05T08:00:00Z"}}
gpus: {{board: {board}, count: {count}}}
at: [{steps}]
{more}truth: []
"""
PATIENCE_S = 200  # only a test that fails waits for so long


@dataclass
class Result:
    code: int
    out: str
    err: str
    run: dict = field(default_factory=dict)

    def found(self):
        """What is more than a notice: {(severity, symptom): GPUs}."""
        found = {}
        for finding in self.run["findings"]:
            if finding["severity"] != "notice":
                found.setdefault((finding["severity"], finding["symptom"]), set()).update(finding["gpus"])
        return found

    def texts(self):
        return "\n".join(finding["text"] for finding in self.run["findings"])


class BenchNode:
    def __init__(self, build, folder, count=4, board="h100-sxm-80gb", steps="", more="", speed=0):
        self.build, self.folder, self.speed = build, folder, speed
        (folder / "node.yaml").write_text(NODE.format(board=board, count=count, steps=steps, more=more), encoding="utf-8")

    def sim(self):
        """The start of a command on the node."""
        return [str(self.build / "stoker"), "sim", "run", "--speed", str(self.speed), "--image", str(self.folder / "image"),
                str(self.folder / "node.yaml"), "--"]

    def start(self, *arguments, env=None):
        command = [*self.sim(), str(self.build / "stoker"), "bench", *arguments]
        return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **(env or {})})

    def bench(self, *arguments, env=None, limit="10m"):
        """A test with much time, its result as JSON; `run` is empty where it was refused."""
        process = self.start(*arguments, "--alone", "--json", "--limit", limit, env=env)
        out, err = process.communicate(timeout=PATIENCE_S)
        return Result(process.returncode, out, err, json.loads(out) if out.startswith("{") else {})


@pytest.fixture
def bench_node(build, tmp_path):
    """bench_node(count=, board=, steps=, more=, speed=, under=): `under` names a folder, for several nodes in a test."""

    def make(under=".", **how):
        (tmp_path / under).mkdir(exist_ok=True)
        return BenchNode(build, (tmp_path / under).resolve(), **how)

    return make
