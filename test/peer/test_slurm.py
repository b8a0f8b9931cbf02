# SPDX-License-Identifier: Apache-2.0
"""slurmd with AutoDetect=nvml: which GPUs, cores, links and MIG devices it would offer to jobs."""
import re
import socket

import pytest

# The processors of the node that the scenarios stand for, as hwloc shall see them: two sockets of 56 cores, two threads each.
MACHINE = "pack:2 core:56 pu:2(indexes=2*112:112*1)"
FIRST, SECOND = "0-55", "56-111"

CONF = """ClusterName=peer
SlurmctldHost={host}
AuthType=auth/none
CredType=cred/none
PluginDir={plugins}
GresTypes=gpu
SlurmUser=root
SlurmdUser=root
SlurmdSpoolDir={folder}/spool
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
NodeName={host} Sockets=2 CoresPerSocket=56 ThreadsPerCore=2 Gres={gres}
PartitionName=all Nodes=ALL
"""
LINE = re.compile(r"Gres Name=gpu Type=(\S+) Count=1 Index=(\d+) \S+ File=(\S+) Cores=(\S+) CoreCnt=224 Links=(\S+)")

BRIDGED = """
about: four H100 NVL in pairs
gpus: {board: h100-nvl-94gb, count: 4}
truth: []
"""


@pytest.fixture
def slurmd(client, entered, tmp_path):
    """slurmd(scenario, gres): the lines it prints about GPUs, as (type, index, file, cores, links)."""
    root = client("slurm")
    plugins = root / "usr/lib/x86_64-linux-gnu/slurm-wlm"
    host = socket.gethostname().split(".", maxsplit=1)[0]

    def run(scenario, gres):
        (tmp_path / "spool").mkdir()
        (tmp_path / "slurmd").symlink_to(root / "usr/sbin/slurmd-wlm")  # it behaves as its name says
        (tmp_path / "slurm.conf").write_text(CONF.format(host=host, plugins=plugins, folder=tmp_path, gres=gres))
        (tmp_path / "gres.conf").write_text("AutoDetect=nvml\n")
        done = entered(scenario, root, tmp_path / "slurmd", "-f", tmp_path / "slurm.conf", "-G", HWLOC_SYNTHETIC=MACHINE,
                       LD_LIBRARY_PATH=f"{plugins.parent}:{plugins}")
        assert done.returncode == 0, done.stdout + done.stderr
        return LINE.findall(done.stdout + done.stderr)

    return run


def test_gpus_with_cores_and_links(slurmd, entered):
    found = slurmd("default", "gpu:nvidia_h100_80gb_hbm3:8")
    assert [(f[0], f[2]) for f in found] == [("nvidia_h100_80gb_hbm3", f"/dev/nvidia{g}") for g in range(8)]
    assert [f[3] for f in found] == [FIRST] * 4 + [SECOND] * 4
    for g, f in enumerate(found):  # links lead to switches, which slurmd does not count
        assert f[4] == ",".join("-1" if i == g else "0" for i in range(8))
    assert entered.wrongs() == []


def test_bridged_pairs(slurmd):
    found = slurmd(BRIDGED, "gpu:nvidia_h100_nvl:4")
    assert [f[4] for f in found] == ["-1,12,0,0", "12,-1,0,0", "0,0,-1,12", "0,0,12,-1"]


def test_mig_devices_with_their_files(slurmd):
    name = "nvidia_h100_80gb_hbm3"
    found = slurmd("mig-balanced", f"gpu:{name}_3g.40gb:4,gpu:{name}_2g.20gb:4,gpu:{name}_1g.10gb:8")
    kinds = [f[0].removeprefix(name + "_") for f in found]
    assert (kinds.count("3g.40gb"), kinds.count("2g.20gb"), kinds.count("1g.10gb")) == (4, 4, 8) and len(found) == 16
    files = [f[2].split(",") for f in found]
    assert all(len(f) == 3 and re.fullmatch(r"/dev/nvidia[0-3]", f[0]) for f in files)
    assert all(part.startswith("/dev/nvidia-caps/nvidia-cap") for f in files for part in f[1:])
    assert len({f[2] for f in files}) == 16, "each has an access file of its own"
    assert {f[0]: c for f, (_, _, _, c, _) in zip(files, found)} == {
        "/dev/nvidia0": FIRST, "/dev/nvidia1": FIRST, "/dev/nvidia2": SECOND, "/dev/nvidia3": SECOND}
