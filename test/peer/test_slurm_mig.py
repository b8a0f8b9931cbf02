# SPDX-License-Identifier: Apache-2.0
"""The real Slurm on a simulated node in MIG mode, with the gres.conf that `stoker slurm gres` prints there: a job per instance."""
import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import test_slurm_cluster as slurm  # noqa: E402

SCENE = {"about": "two GPUs in MIG mode, one without", "truth": [],
         "gpus": [{"board": "h100-sxm-80gb", "count": 1, "mig": ["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"]},
                  {"board": "h100-sxm-80gb", "count": 1, "mig": ["4g.40gb", "1g.10gb"]}, {"board": "h100-sxm-80gb", "count": 1}]}
# Debian's Slurm detects nothing: its plugin for NVML is in contrib, and is not here. No accounting.
PREPARE = """{stoker} slurm gres > gres.conf && sed -i "s|Gres=printed|$(grep -o 'Gres=.*' gres.conf)|" slurm.conf
accounts() {{ false; }}"""
DEVICE = re.compile(r"Name=gpu Type=(\S+) (?:Multiple)?Files?=(\S+)")
# Which device files of GPUs and instances (nvidia-cap1 and 2 are none) the job can open: no driver is behind them, but the
# kernel lets it try, or the cgroup does not.
JOB = """#!/bin/sh
for file in /dev/nvidia[0-9]* /dev/nvidia-caps/nvidia-cap[0-9][0-9]*; do
    said=$( (exec 3< $file) 2>&1 ) || case $said in *"not permitted"*) continue;; esac
    echo $file
done > {folder}/opened.$SLURM_JOB_ID
echo "$CUDA_VISIBLE_DEVICES" > {folder}/visible.$SLURM_JOB_ID
until [ -e /run/released/$SLURM_JOB_ID ]; do sleep 0.2; done
"""


@pytest.fixture
def cluster(stoker, fetched, may_enter, tmp_path):
    if may_enter:
        pytest.skip(may_enter)
    made = slurm.Cluster(stoker, fetched("slurm-cluster"), tmp_path, scene=SCENE, node=f"{slurm.NODE}m", gres="printed",
                         prepare=PREPARE.format(stoker=stoker), cgroup="ConstrainDevices=yes\n")
    try:
        made.until_idle()
        yield made
    finally:
        made.end()


def test_a_job_per_instance(cluster):
    printed = DEVICE.findall((cluster.folder / "gres.conf").read_text())
    assert len(printed) == 7
    script = cluster.folder / "one"
    script.write_text(JOB.format(folder=cluster.folder))
    submit = lambda kind: cluster.run("sbatch", "--parsable", "-o", "/dev/null", "-D", "/", f"--gres=gpu:{kind}:1", script).strip()
    jobs = {submit(kind): kind for kind, _ in printed}
    states = lambda: dict(line.split() for line in cluster.run("squeue", "-h", "-o", "%A %t").splitlines())
    cluster.until(lambda: states() == dict.fromkeys(jobs, "R"), states)
    read = lambda name, job: path.read_text().split() if (path := cluster.folder / f"{name}.{job}").exists() else []
    cluster.until(lambda: all(read("visible", job) for job in jobs), lambda: [read("opened", job) for job in jobs])
    opened = {job: sorted(read("opened", job)) for job in jobs}
    assert sorted(opened.values()) == sorted(sorted(files.split(",")) for _, files in printed), "each job has one device, with all of its files"
    of = {",".join(sorted(files.split(","))): kind for kind, files in printed}
    assert {job: of[",".join(files)] for job, files in opened.items()} == jobs, "of the type that it asked for"
    assert all(read("visible", job) == ["0"] for job in jobs)
    waits = submit(printed[0][0])
    cluster.until(lambda: cluster.run("squeue", "-h", "-j", waits, "-o", "%t %r").split() == ["PD", "Resources"], states)
    cluster.release(*jobs)
    cluster.until(lambda: states() == {waits: "R"}, states)
    cluster.release(waits)
    cluster.until(lambda: states() == {}, states)
