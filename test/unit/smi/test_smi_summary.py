# SPDX-License-Identifier: Apache-2.0
"""The table without arguments, -L and topo."""

import re

WIDTH = 91


def test_every_line_is_as_wide(training, boards):
    for node in (training, boards):
        lines = node.ok().splitlines()
        assert re.match(r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}", lines[0])
        assert {len(line) for line in lines[1:] if line} == {WIDTH}


def test_rows(training):
    text = training.ok()
    assert "| NVIDIA-SMI 590.48.01              Driver Version: 590.48.01      CUDA Version: 13.1     |" in text
    assert re.search(r"^\|   0  NVIDIA H100 80GB HBM3          On  \|   0{8}:[0-9A-F]{2}:[0-9A-F]{2}\.0 Off \| +0 \|$",
                     text, re.M)
    assert re.search(r"^\| N/A   \d\dC    P0 +\d+W /  700W \| +\d+MiB /  81559MiB \| +\d+%      Default \|$", text, re.M)
    assert re.search(r"^\|  2    2   0   0  \| +0MiB / 40448MiB    \| 60      0 \|  3   0    3    0    3 \|$", text, re.M)
    processes = re.findall(r"^\|    (\d)   N/A  N/A +(\d+)      C   python +(\d+)MiB \|$", text, re.M)
    assert [p[0] for p in processes] == ["0", "1"]


def test_idle(boards):
    text = boards.ok("-i", "1")
    assert "|  No running processes found                                                             |" in text
    assert "MIG devices" not in text
    assert "Tesla T4" in text and "L40S" not in text


def test_list(training):
    lines = training.ok("-L").splitlines()
    gpu = r"GPU {}: NVIDIA H100 80GB HBM3 \(UUID: GPU-[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}\)"
    mig = r"  MIG {:<12}Device  {}: \(UUID: MIG-[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}\)"
    shapes = [gpu.format(0), gpu.format(1), gpu.format(2), mig.format("3g.40gb", 0), mig.format("1g.10gb", 1)]
    assert len(lines) == len(shapes)
    assert all(re.fullmatch(shape, line) for shape, line in zip(shapes, lines)), lines
    assert training.ok("--list-gpus").splitlines() == lines


def matrix(text):
    rows = [line.split("\t") for line in text.split("\n\n")[0].splitlines()]
    return rows[0], {row[0]: row[1:] for row in rows[1:]}


def test_topology(make_node):
    head, rows = matrix(make_node("healthy-training").ok("topo", "-m"))
    count = len(rows)
    assert head == [""] + [f"GPU{i}" for i in range(count)] + ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]
    for i in range(count):
        cells = rows[f"GPU{i}"]
        assert [cells[k] for k in range(count)] == [" X " if k == i else "NV18" for k in range(count)]
        assert re.fullmatch(r"\d+-\d+(,\d+-\d+)*", cells[count])
        assert cells[count + 1] in ("0", "1")


def test_topology_without_links(make_node):
    node = make_node("about: no NVLink\ngpus: [{board: l40s, count: 2}, {board: t4, count: 2}]\ntruth: []\n")
    _, rows = matrix(node.ok("topo", "-m"))
    paths = {(i, k): rows[f"GPU{i}"][k] for i in range(4) for k in range(4) if i != k}
    assert set(paths.values()) <= {"PIX", "PXB", "PHB", "NODE", "SYS"}
    assert all(paths[i, k] == paths[k, i] for i, k in paths)


def test_p2p(boards, training):
    _, rows = matrix(training.ok("topo", "-p2p", "r"))
    assert rows["GPU0"][:2] == ["X", "OK"]
    assert boards.run("topo", "-p2p", "z").returncode == 2
