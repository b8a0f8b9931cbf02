# SPDX-License-Identifier: Apache-2.0
"""jobstats' comment of a job, read back as jobstats reads it: the part behind JS1: is base64 of gzip of JSON."""
import base64
import gzip
import json
import subprocess

import pytest

GIB = 1 << 30


HOST = {"cpu_s": 7200.26, "cpus": 16, "memory_peak_bytes": 12 * GIB, "memory_limit_bytes": 64 * GIB}
NODE = {"total_time": 7200.3, "cpus": 16, "used_memory": 12 * GIB, "total_memory": 64 * GIB}


def gpu(index, util, sm=None, used=20 * GIB, total=80 * GIB, instance=None):
    known = {"utilization": 100 if util is not None else 0, "sm_active": 100 if sm is not None else 0}
    return {"gpu": index, "instance": instance, "uuid": f"GPU-{index}-{instance}", "held_s": 100, "memory_total_bytes": total,
            "memory_peak_bytes": used, "utilization": util, "sm_active": sm, "known_s": known,
            "device": {"utilization": util, "sm_active": sm, "memory_peak_bytes": used}}


def report(node, *gpus, job="4711", elapsed=600.4, kind="job", host=HOST, nodes=None):
    return {"version": 1, "id": f"r{node}", "kind": kind, "job": job, "node": node, "elapsed_s": elapsed, "gpus": list(gpus), "host": host,
            "nodes": nodes}


@pytest.fixture
def comment(build, tmp_path):
    """What is printed, and what is said on stderr."""

    def run(*reports, code=0):
        files = []
        for i, one in enumerate(reports):
            files.append(tmp_path / f"{i}.json")
            files[-1].write_text(one if isinstance(one, str) else json.dumps(one))
        done = subprocess.run([build / "stoker", "jobs", "comment", *files], capture_output=True, text=True)
        assert done.returncode == code, (done.stdout, done.stderr)
        return (read(done.stdout), done.stderr) if code == 0 else done.stderr

    return run


def read(text):
    assert text.startswith("JS1:") and text.endswith("\n") and text.count("\n") == 1 and text.isascii()
    return json.loads(gzip.decompress(base64.b64decode(text[4:-1], validate=True)))


def test_two_nodes(comment):
    found, gaps = comment(report("n1", gpu(0, 0.9634), gpu(3, 0.0), nodes=2), report("n2", gpu(1, 1.0, used=GIB), elapsed=604.6))
    assert found == {
        "nodes": {"n1": {**NODE, "gpu_total_memory": {"0": 80 * GIB, "3": 80 * GIB}, "gpu_used_memory": {"0": 20 * GIB, "3": 20 * GIB},
                         "gpu_utilization": {"0": 96.3, "3": 0}},
                  "n2": {**NODE, "gpu_total_memory": {"1": 80 * GIB}, "gpu_used_memory": {"1": GIB}, "gpu_utilization": {"1": 100}}},
        "total_time": 605, "gpus": 3}
    assert gaps == ""


def test_what_is_not_known_is_not_there(comment):
    """jobstats reads the memories of a GPU in pairs, and divides by the sum of an object that is there."""
    instance = {"gpu_instance": 2, "compute_instance": 0}
    found, _ = comment(report("n1", gpu(0, None, sm=0.25, instance=instance), gpu(1, None), gpu(2, 0.5, used=None), gpu(3, 0, total=None)))
    node = found["nodes"]["n1"]
    assert node["gpu_utilization"] == {"0:2": 25, "2": 50, "3": 0} and found["gpus"] == 4
    assert node["gpu_used_memory"].keys() == node["gpu_total_memory"].keys() == {"0:2", "1"}
    found, _ = comment(report("n1", gpu(0, None, used=None)))
    assert found["nodes"]["n1"] == NODE


@pytest.mark.parametrize("key, name", [("cpu_s", "total_time"), ("cpus", "cpus"), ("memory_peak_bytes", "used_memory"),
                                       ("memory_limit_bytes", "total_memory")])
def test_a_gap_is_said(comment, key, name):
    found, gaps = comment(report("n1", gpu(0, 1)), report("n2", gpu(0, 1), host={**HOST, key: None}))
    assert found["nodes"]["n1"].items() >= NODE.items() and name not in found["nodes"]["n2"]
    assert gaps == "stoker jobs comment: the job's processors or memory on n2 are not known: jobstats cannot show the whole job\n"


def test_a_node_is_missing(comment):
    found, gaps = comment(report("n1", gpu(0, 1), nodes=3), report("n2", gpu(0, 1), nodes=3))
    assert found["nodes"].keys() == {"n1", "n2"} and gaps == "stoker jobs comment: the job is on 3 nodes, and this is of 2\n"


@pytest.mark.parametrize("reports, says", [
    ([report("n1"), report("n2", job="4712")], "jobs '4711' and '4712'"), ([report("n1"), report("n1")], "of node 'n1'"),
    ([report("n1", kind="pod")], "no job of a workload manager"), (["{"], "no JSON of job reports"), (['{"jobs": []}'], "no report")])
def test_wrong_files(comment, reports, says):
    assert says in comment(*reports, code=3)


def test_no_files(build):
    done = subprocess.run([build / "stoker", "jobs", "comment"], capture_output=True, text=True)
    assert done.returncode == 2 and "as a file of JSON" in done.stderr
