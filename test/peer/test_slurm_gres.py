# SPDX-License-Identifier: Apache-2.0
"""`stoker slurm gres` beside slurmd: what it prints is what slurmd detects, and what it says of wrong files is what slurmd does."""
import pathlib
import json
import re
import socket
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "scenario/slurm"))
import gres_node  # noqa: E402

# The processors as hwloc shall see them; those of gres_node.
MACHINE = f"pack:2 core:56 pu:2(indexes=2*{gres_node.COUNT}:{gres_node.COUNT}*1)"
LIMIT_S = 120
NODE = socket.gethostname().split(".", maxsplit=1)[0]
CONF = """ClusterName=peer
SlurmctldHost={node}
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
NodeName={node} Sockets=2 CoresPerSocket=56 ThreadsPerCore=2 Gres={gres}
PartitionName=all Nodes=ALL
"""
LINE = re.compile(r"Gres Name=gpu Type=(\S+) Count=1 .*?File=(\S+)(?: Cores=(\S+) CoreCnt=\d+)?(?: Links=(\S+))?")
SCENES = {
    "default": "default",
    "mig": "mig-balanced",
    "bridged": "about: four H100 NVL in pairs\ngpus: {board: h100-nvl-94gb, count: 4}\ntruth: []\n",
    "mixed": "about: one GPU in MIG mode\ngpus:\n  - {board: h100-sxm-80gb, count: 1, mig: [3g.40gb, 1g.10gb]}\n"
             "  - {board: h100-sxm-80gb, count: 1}\ntruth: []\n",
}


class Scene:
    """A scenario, `stoker slurm gres` and slurmd -G on it, both with the processors of gres_node."""

    def __init__(self, stoker, entered, root, folder, name):
        self.entered, self.root, self.folder, self.stoker = entered, root, folder, stoker
        self.plugins = root / "usr/lib/x86_64-linux-gnu/slurm-wlm"
        self.scenario = SCENES[name]
        if "\n" in self.scenario:
            (folder / "scene.yaml").write_text(self.scenario)
            self.scenario = str(folder / "scene.yaml")
        (folder / "slurmd").symlink_to(root / "usr/sbin/slurmd-wlm")  # it behaves as its name says
        gres_node.write_processors(folder / "processors")
        self.printed = self.gres().stdout
        self.gres_total = re.search(r"Gres=(\S+)", self.printed)[1]

    def gres(self, *words):
        """`stoker slurm gres` on the node's tree, with the processors added."""
        command = [self.stoker, "sim", "run", "--speed", "0", "--image", self.folder / "gres.img", "--no-processes", self.scenario, "--",
                   "sh", "-c", f'cp -r {self.folder}/processors/. $STOKER_ROOT && exec "$@"', "sh", self.stoker, "slurm", "gres", *words]
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=LIMIT_S, check=False)

    def slurmd(self, text, gres=None):
        """(exit code, the devices that it offers as (type, file, cores, links), all that it says)"""
        (self.folder / "spool").mkdir(exist_ok=True)
        (self.folder / "slurm.conf").write_text(CONF.format(node=NODE, plugins=self.plugins, folder=self.folder,
                                                            gres=gres or self.gres_total))
        (self.folder / "gres.conf").write_text(text)
        done = self.entered(self.scenario, self.root, self.folder / "slurmd", "-f", self.folder / "slurm.conf", "-G", HWLOC_SYNTHETIC=MACHINE,
                            LD_LIBRARY_PATH=f"{self.plugins.parent}:{self.plugins}")
        said = done.stdout + done.stderr
        return done.returncode, LINE.findall(said), said


@pytest.fixture
def scene(stoker, client, entered, tmp_path):
    def make(name, peer="slurm"):
        return Scene(stoker, entered, client(peer), tmp_path, name)
    return make




@pytest.mark.parametrize("name", SCENES)
def test_printed_is_what_slurmd_detects(scene, name):
    made = scene(name)
    code, offered, said = made.slurmd(made.printed)
    assert code == 0 and "error" not in said, said
    _, detected, _ = made.slurmd("AutoDetect=nvml\n")
    assert sorted(o[:3] for o in offered) == sorted(d[:3] for d in detected)
    assert [o[3] for o in offered] == ([d[3] for d in detected] if name == "bridged" else [""] * len(offered))
    if name in ("default", "bridged"):
        assert [o[1] for o in offered] == [d[1] for d in detected], "also in this order"


CAPS = "/dev/nvidia-caps/nvidia-cap"
SMALL = f"Name=gpu Type=1g MultipleFiles=/dev/nvidia0,{CAPS}66,{CAPS}67\n"
WRONG = {  # GPU 0 of `mixed` has the instances 3g.40gb with the files 21 and 22, and 1g.10gb with 66 and 67
    "syntax": "Name=gpu Fil=/dev/nvidia1\n",
    "file_missing": "Name=gpu File=/dev/nvidia2\n",
    "instance_gone": f"Name=gpu MultipleFiles=/dev/nvidia0,{CAPS}30,{CAPS}31\n",
    "duplicate": "Name=gpu File=/dev/nvidia1,/dev/nvidia1\n",
    "instance_twice": SMALL + SMALL,
    "count": "Name=gpu File=/dev/nvidia1 Count=2\n",
    "file_and_multiplefiles": f"Name=gpu File=/dev/nvidia1 MultipleFiles=/dev/nvidia0,{CAPS}21\n",
    "multiplefiles_one": "Name=gpu MultipleFiles=/dev/nvidia1\n",
    "file_on_some": "Name=gpu File=/dev/nvidia1\nName=gpu Count=1\n",
    "type_on_some": "Name=gpu Type=a File=/dev/nvidia1\n" + SMALL.replace("Type=1g ", ""),
    "autodetect_differs": f"NodeName={NODE} AutoDetect=off\nNodeName={NODE} AutoDetect=nvml\n",
    "no_file": "Name=gpu Count=3\n",
    "whole_of_mig": "Name=gpu File=/dev/nvidia[0-1]\n",
    "instance_parts": f"Name=gpu MultipleFiles=/dev/nvidia1,{CAPS}21,{CAPS}67\n",
    "not_a_gpu": f"Name=gpu File={CAPS}22\n",
    "cores_invalid": "Name=gpu File=/dev/nvidia1 Cores=0-500\n",
    "links_invalid": "Name=gpu File=/dev/nvidia1 Links=0,1\n",
    "autodetect_word": "AutoDetect=nvlm\n",
    "autodetect_inline": "Name=gpu File=/dev/nvidia1 AutoDetect=nvml\n",
}


@pytest.mark.parametrize("finding", WRONG)
def test_what_is_said_of_wrong_files(scene, tmp_path, finding):
    """It is found, and slurmd starts or not as is said."""
    made = scene("mixed")
    (tmp_path / "wrong.conf").write_text(WRONG[finding])
    checked = json.loads(made.gres("--check", tmp_path / "wrong.conf", "--json").stdout)
    assert finding in [f["finding"] for f in checked["findings"]]
    code, _, said = made.slurmd(WRONG[finding], "gpu:3")
    assert (code == 0) == checked["starts"], (said, checked)


def test_no_plugin(scene, tmp_path):
    """Debian's own packages have no plugin for NVML: slurmd detects nothing, and takes the printed file all the same."""
    made = scene("mixed", "slurm-cluster")
    _, offered, said = made.slurmd("AutoDetect=nvml\n")
    assert offered == [], said
    code, offered, said = made.slurmd(made.printed)
    assert code == 0 and len(offered) == 3, said
