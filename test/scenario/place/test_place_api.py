# SPDX-License-Identifier: Apache-2.0
"""`stoker place why` and `stoker place defrag` on a cluster that the API server tells of, without a file."""
import os
import subprocess

import pytest
from place_rig import NODES, PODS, STATUS
from test_place_why import dra_items, node, pod

SLICES, CLAIMS = "/apis/resource.k8s.io/v1/resourceslices", "/apis/resource.k8s.io/v1/resourceclaims"


@pytest.fixture
def api(make_cluster):
    made = make_cluster([node("gpu-1"), node("gpu-2", unschedulable=True)])
    made.lists[PODS] = [pod("eval-1", 6, on="gpu-1"), pod("train-7", 4), pod("moved", 1, on="gpu-2")]
    return made


@pytest.fixture
def run(stoker, tmp_path, api):
    config = tmp_path / "config"
    api.write_kubeconfig(config)

    def call(code, *words, env=None):
        env = {"KUBERNETES_SERVICE_HOST": "", "KUBECONFIG": str(config), "no_proxy": "127.0.0.1", **(env or {})}
        done = subprocess.run([stoker, "place", *words], env={**os.environ, **env}, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout, done.stderr
    return call


def test_kinds_that_the_server_does_not_have_do_not_matter(run, api):
    said, notes = run(1, "why", "train-7")
    assert said.startswith("team-a/train-7 waits for 4 GPUs: GPUs are in use, the best node has 2 of 4 free\n") and notes == ""
    asked = [path for path, _, _ in api.asked]
    assert asked.count(NODES) == 1 and SLICES in asked and SLICES.replace("v1", "v1beta1") in asked
    said, notes = run(1, "defrag", "--gpus", "4")
    assert said.startswith("4 GPUs on one node: ") and notes == ""


def test_a_home_folder_has_a_kubeconfig(run, tmp_path):
    (tmp_path / ".kube").mkdir()
    (tmp_path / "config").rename(tmp_path / ".kube" / "config")
    assert "2 of 4 free" in run(1, "why", "train-7", env={"KUBECONFIG": "", "HOME": str(tmp_path)})[0]
    said = run(2, "why", "train-7", env={"KUBECONFIG": "", "HOME": str(tmp_path / "none")})[1]
    assert "KUBERNETES_SERVICE_HOST is not set" in said and "(give --kubeconfig FILE or --cluster FILE)" in said


def test_topology_objects_come_from_the_server_too(run):
    said = run(0, "config", "--for", "kueue")[0]
    assert "kind: ResourceFlavor" in said


def test_lists_come_in_pages(run, api):
    api.page = 1
    assert "2 of 4 free" in run(1, "why", "train-7")[0]
    assert api.count(PODS) == 3


def test_what_may_not_be_listed_is_named(run, api):
    def refuse(request):
        return (403, {**STATUS, "message": "you cannot list resourceslices"}) if request.path.startswith(SLICES) else None

    api.fail = refuse
    said, notes = run(1, "why", "train-7")
    assert "2 of 4 free" in said
    assert notes == f"stoker place why: without {SLICES}, which may not be listed: HTTP 403: you cannot list resourceslices\n"


@pytest.mark.parametrize("path", [NODES, PODS])
def test_without_nodes_or_pods_nothing_is_said(run, api, path):
    api.fail = lambda request: (403, {**STATUS, "message": "not you"}) if request.path.startswith(path + "?") else None
    assert run(2, "why", "train-7") == ("", f"stoker place why: {path}: HTTP 403: not you\n")


def test_a_server_that_breaks_is_an_error(run, api):
    api.fail = lambda request: (500, {**STATUS, "message": "no"}) if request.path.startswith("/apis/batch") else None
    assert run(2, "why", "train-7")[1] == "stoker place why: /apis/batch/v1/jobs: HTTP 500: no\n"


def test_claims_are_listed(run, api):
    items = dra_items()
    api.lists.update({NODES: items[:1], SLICES: [i for i in items if i["kind"] == "ResourceSlice"], CLAIMS: [i for i in items if i["kind"] == "ResourceClaim"],
                      PODS: [i for i in items if i["kind"] == "Pod"]})
    assert run(1, "why", "wait")[0].startswith("team-a/wait waits for 2 GPUs: GPUs are in use, the best node has 1 of 2 free\n")
