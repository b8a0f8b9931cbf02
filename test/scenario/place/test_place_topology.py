# SPDX-License-Identifier: Apache-2.0
"""`stoker place config --for kueue` and `--for volcano`: what is known of where nodes are, as objects of theirs."""
import json
import re
import subprocess

import pytest
import yaml

RACK, BLOCK, CLIQUE = "cloud.provider.com/topology-rack", "cloud.provider.com/topology-block", "nvidia.com/gpu.clique"
LEAF, PRODUCT = "network.topology.nvidia.com/leaf", "nvidia.com/gpu.product"
PLACES = "node,rack,block\nh100-[1-4],r1,b1\nh100-[5-8],r2,b1\nt4-[1-2],R_3,b2\n"


def node(name, model, gpus=8, **labels):
    count = {"nvidia.com/gpu": str(gpus)}
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "labels": {**({PRODUCT: model} if model else {}), **labels.get("labels", {})}},
            "status": {"capacity": count, "allocatable": {"cpu": "96", "memory": "1Ti", **count}}}


def pod(name, gpus, model):
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"namespace": "a", "name": name}, "status": {"phase": "Pending"},
            "spec": {"nodeSelector": {PRODUCT: model}, "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}]}}


def nodes(**labels):
    return [node(f"h100-{i}", "NVIDIA-H100-80GB-HBM3", **labels) for i in range(1, 9)] + [node(f"t4-{i}", "Tesla_T4", 1, **labels) for i in (1, 2)]


@pytest.fixture
def run(stoker, tmp_path):
    def call(target, items, places=PLACES, code=0):
        (tmp_path / "places.csv").write_text(places or "")
        words = [stoker, "place", "config", "--for", target, "--cluster", "-", *(["--places", "places.csv"] if places else [])]
        done = subprocess.run(words, input=json.dumps({"kind": "List", "apiVersion": "v1", "items": items}), cwd=tmp_path, capture_output=True, text=True,
                              timeout=60, check=False)
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stderr
    return call


def objects(text):
    return [one for one in yaml.safe_load_all(text) if one]


def label_nodes(text, items):
    """Does what the comments say."""
    by_name = {one["metadata"]["name"]: one for one in items}
    for line in re.findall(r"^# (kubectl label node .*)$", text, re.M):
        *names, pair = line.removeprefix("kubectl label node --overwrite ").split()
        for name in names:
            by_name[name]["metadata"]["labels"].update([pair.split("=")])
    return items


@pytest.mark.parametrize("target", ["kueue", "volcano"])
def test_whole(run, golden, target):
    golden(run(target, nodes()), f"place/topology.{target}")


@pytest.mark.parametrize("target", ["kueue", "volcano"])
def test_the_labels_that_it_asks_for_are_all_that_it_needs(run, target):
    items = nodes()
    text = run(target, items)
    again = run(target, label_nodes(text, items), places=None)
    assert objects(again) == objects(text) and "kubectl" in text and "kubectl" not in again
    assert [items[0]["metadata"]["labels"][key] for key in (RACK, BLOCK)] == ["r1", "b1"] and CLIQUE not in items[0]["metadata"]["labels"]


def test_the_label_that_most_nodes_have_is_used_and_a_csv_counts_before_it(run):
    items = nodes(labels={LEAF: "sw-1", CLIQUE: "uuid.1"})
    items[0]["metadata"]["labels"][RACK] = "sw-1"  # the better label, of one node
    text = run("kueue", items, places="node,rack\nh100-8,sw-2\n")
    topology = objects(text)[0]
    assert [level["nodeLabel"] for level in topology["spec"]["levels"]] == [LEAF, CLIQUE, "kubernetes.io/hostname"]
    assert re.findall(r"^# kubectl.*", text, re.M) == [f"# kubectl label node --overwrite h100-8 {LEAF}=sw-2", f"# kubectl label node --overwrite h100-1 {LEAF}=sw-1"]


def test_a_topology_has_the_levels_that_its_models_nodes_have(run):
    items = [node("g1", "GB200", 4, labels={CLIQUE: "c.1", RACK: "r1"}), node("g2", "GB200", 4, labels={CLIQUE: "c.1"}), node("h1", "H100", labels={RACK: "r2"}),
             node("n1", None), node("cpu", "x", 0, labels={RACK: "r2"})]
    text = run("kueue", items, places=None)
    found = {(one["kind"], one["metadata"]["name"]): one["spec"] for one in objects(text)}
    assert set(found) == {("Topology", "gpus-rack"), ("Topology", "gpus-rack-nvlink"), ("ResourceFlavor", "gb200"), ("ResourceFlavor", "h100")}
    assert found["ResourceFlavor", "gb200"] == {"nodeLabels": {PRODUCT: "GB200"}, "topologyName": "gpus-rack-nvlink"}
    assert found["ResourceFlavor", "h100"]["topologyName"] == "gpus-rack"
    assert "# Not used where a rack counts, because theirs is not known: g2\n" in text
    assert "# 1 nodes with 8 GPUs have no label of their model: no flavor\n" in text


def flavors(text):
    return [one["metadata"]["name"] for one in objects(text) if one["kind"] == "ResourceFlavor"]


def test_scarce_models_come_last(run):
    h100, t4 = "nvidia-h100-80gb-hbm3", "tesla-t4"
    assert flavors(run("kueue", nodes())) == [h100, t4]  # by how many there are
    asked = [pod("p", 8, "NVIDIA-H100-80GB-HBM3")]  # 8 of 64, 0 of 2
    assert flavors(run("kueue", nodes() + asked)) == [t4, h100]
    assert flavors(run("kueue", nodes() + asked + [pod("q", 1, "Tesla_T4")])) == [h100, t4]  # 1 of 2 is more


def test_hyper_nodes_make_a_tree(run):
    found = {one["metadata"]["name"]: one["spec"] for one in objects(run("volcano", nodes()))}
    assert {name: spec["tier"] for name, spec in found.items()} == {"rack-r1": 1, "rack-r2": 1, "rack-r-3": 1, "block-b1": 2, "block-b2": 2}
    assert [m["selector"]["exactMatch"]["name"] for m in found["block-b1"]["members"]] == ["rack-r1", "rack-r2"]
    assert found["rack-r-3"]["members"] == [{"type": "Node", "selector": {"labelMatch": {"matchLabels": {RACK: "R_3"}}}}]
    blocks = objects(run("volcano", nodes(), places="node,block\nh100-[1-8],b1\n"))
    assert [one["spec"]["members"] for one in blocks] == [[{"type": "Node", "selector": {"labelMatch": {"matchLabels": {BLOCK: "b1"}}}}]]
    cliques = objects(run("volcano", nodes(), places="node,nvlink\nh100-[1-8],n1\n"))  # where there are no racks
    assert [(one["metadata"]["name"], one["spec"]["tier"]) for one in cliques] == [("nvlink-n1", 1)]


@pytest.mark.parametrize("target, places, said", [
    ("kueue", "node,rack\nh100-9,r1\n", "places.csv:2: the cluster has no node h100-9"),
    ("kueue", "node,rack\nh100-1,-r1\n", "rack '-r1': a label's value has at most 63 letters"),
    ("volcano", "node,rack,block\nh100-1,r1,b1\nh100-2,r1,b2\n", "rack r1 is in two blocks: node h100-2"),
    ("volcano", "node,rack\nh100-1,R_1\nh100-2,r-1\n", "rack R_1 and r-1 would be one object, r-1"),
    ("kube-scheduler", None, "--cluster and --places are for --for kueue"),
    ("slurm", None, "--for"),
])
def test_what_is_refused(run, target, places, said):
    assert said in run(target, nodes(), places, 2)


def test_other_clusters(stoker):
    nodes_of_slurm = "NodeName=g1 CPUTot=64 RealMemory=512000 Gres=gpu:h100:8 State=IDLE Partitions=gpu\n"
    done = subprocess.run([stoker, "place", "config", "--for", "kueue", "--cluster", "-"], input=nodes_of_slurm, capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 2 and "needs the output of both 'scontrol show node" in done.stderr
