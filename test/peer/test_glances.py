# SPDX-License-Identifier: Apache-2.0
"""glances on simulated nodes. Debian's glances asks for the module py3nvml, which Debian does not have; here it gets
python3-pynvml under that name."""
import json
import re

import pytest

NAME, GPUS, RESERVED_MIB, TOTAL_MIB = "NVIDIA H100 80GB HBM3", 8, 479, 81559


@pytest.fixture
def glances(client, tmp_path):
    root, alias = client("glances"), tmp_path / "alias" / "py3nvml"
    alias.mkdir(parents=True)
    (alias / "__init__.py").write_text("")
    (alias / "py3nvml.py").write_text("from pynvml import *\n")

    def run(node):
        path = f"{alias.parent}:{root}/usr/lib/python3/dist-packages"
        done = node.run(root, "/usr/bin/python3", root / "usr/bin/glances", "--stdout-json", "gpu", "--time", "1",
                        "--stop-after", "1", PYTHONPATH=path, HOME=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(re.search(r"^gpu: (\[.*\])$", done.stdout, re.M)[1])

    return run


def test_gpus_agree_with_the_node(node, glances):
    n = node("default")
    said, true = glances(n), n.show()
    assert [(g["gpu_id"], g["name"]) for g in said] == [(g, NAME) for g in range(GPUS)]
    for s, t in zip(said, true):
        assert abs(s["proc"] - t["window"][0] * 100) <= 1
        assert abs(s["temperature"] - t["temp_c"]) <= 1
        assert abs(s["mem"] - (t["used_mib"] + RESERVED_MIB) * 100 / TOTAL_MIB) <= 0.01


def test_mig_hides_the_load_only(node, glances):
    said = glances(node("mig-balanced"))
    assert [g["proc"] for g in said] == [None] * 4 and all(g["mem"] > 1 for g in said)
