# SPDX-License-Identifier: Apache-2.0
"""`stoker place serve`, asked as kube-scheduler asks, with an API server of the tests."""
import http.client
import json
import subprocess
import threading

import pytest
import yaml
from agent_rig import until
from place_rig import GPUS, NODES, PLACED_BY, PODS, STATUS, node, pod

NAMES = ["a", "b", "c", "plain"]


@pytest.fixture
def cluster(make_cluster):
    """a: 2 of 8 free; b: all free; c: 4 GPUs; plain: none."""
    return make_cluster([node("a"), node("b"), node("c", gpus=4), node("plain", gpus=0)],
                        [pod("old", gpus=6, on="a", held="0,1,2,3,4,5", phase="Running")])


@pytest.fixture
def extender(make_extender, cluster):
    return make_extender(cluster).wait_known()


def placed(cluster, name):
    one = cluster.objects[f"/api/v1/namespaces/team/pods/{name}"]
    return one["spec"].get("nodeName"), one["metadata"].get("annotations", {}).get(GPUS)


def test_where_a_pod_fits(extender):
    answer = extender.filter(pod("p", gpus=4), NAMES)
    assert answer == {"NodeNames": ["b", "c", "plain"], "FailedNodes": {"a": "stoker: 2 of 8 GPUs free, 4 wanted"},
                      "FailedAndUnresolvableNodes": {}, "Error": ""}
    answer = extender.filter(pod("p", gpus=8), NAMES)
    assert answer["NodeNames"] == ["b", "plain"]  # of a node that it does not decide on it says nothing against
    assert answer["FailedAndUnresolvableNodes"] == {"c": "stoker: 4 of 4 GPUs can be used, 8 wanted"}
    for _ in range(3):  # asking changes nothing
        assert extender.filter(pod("p", gpus=8), NAMES) == answer
    assert extender.count("filter", "decided") == 5


SLICES, CLAIMS = "/apis/resource.k8s.io/v1/resourceslices", "/apis/resource.k8s.io/v1/resourceclaims"


def test_gpus_of_resource_slices(make_cluster, make_extender):
    cluster = make_cluster([node("a", gpus=0), node("b", gpus=0), node("plain", gpus=0)])
    cluster.lists[SLICES] = [{"metadata": {"name": f"of-{n}"}, "spec": {
        "driver": "gpu.nvidia.com", "nodeName": n, "pool": {"name": n, "generation": 1},
        "devices": [{"name": f"gpu-{i}", "attributes": {"type": {"string": "gpu"}, "productName": {"string": "NVIDIA H100"}}} for i in range(4)]}} for n in "ab"]
    held = {"metadata": {"name": "c", "namespace": "team", "uid": "u"}, "status": {"allocation": {"devices": {"results": [
        {"request": "r", "driver": "gpu.nvidia.com", "pool": "a", "device": "gpu-1"}]}}}}
    cluster.lists[CLAIMS] = [held]
    extender = make_extender(cluster).wait_known()
    until(lambda: extender.metric("stoker_place_gpu_nodes") == 2, extender.log)
    until(lambda: extender.filter(pod("p", gpus=4), ["a", "b", "plain"]) == {
        "NodeNames": ["b", "plain"], "FailedNodes": {"a": "stoker: 3 of 4 GPUs free, 4 wanted"}, "FailedAndUnresolvableNodes": {}, "Error": ""}, extender.log)
    one = pod("q", gpus=4)
    cluster.add(one)
    assert extender.bind(one, "b") == ""
    assert "annotations" not in cluster.bindings[0]["metadata"]  # which ones, the allocation decides
    cluster.lists[CLAIMS] = []
    until(lambda: extender.filter(pod("p", gpus=4), ["a", "b"])["NodeNames"] == ["a"], extender.log)
    cluster.lists[SLICES] = []
    until(lambda: extender.filter(pod("p", gpus=4), ["a", "b"])["NodeNames"] == ["a", "b"], extender.log)  # of neither anything is known


def test_a_server_without_resource_slices_is_not_complained_of(extender, cluster):
    until(lambda: cluster.count(SLICES.replace("v1", "v1beta1")) and cluster.count(CLAIMS.replace("v1", "v1beta1")), extender.log)
    assert "resource" not in extender.log() and extender.metric("stoker_place_trusted") == 1


def test_a_role_that_may_not_list_slices_is_named(cluster, make_extender):
    cluster.forbidden = "resource.k8s.io"
    extender = make_extender(cluster).wait_known()
    until(lambda: "resource slices cannot be read: HTTP 403: not you" in extender.log(), extender.log)
    assert extender.filter(pod("p", gpus=8), NAMES)["NodeNames"] == ["b", "plain"]


def test_the_best_node_has_the_highest_score(extender):
    for gpus, best in ((2, "a"), (4, "c"), (8, "b")):
        names = extender.filter(pod("p", gpus=gpus), NAMES)["NodeNames"]
        scores = extender.scores(pod("p", gpus=gpus), names)
        assert list(scores) == names and scores[best] == 10 and all(0 <= scores[n] <= 9 for n in names if n != best), (gpus, scores)
        assert scores["plain"] == 0


def test_a_pod_is_bound_with_its_gpus(extender, cluster):
    one = pod("p", gpus=2)
    cluster.add(one)
    assert extender.bind(one, "a") == ""
    (body,) = cluster.bindings
    assert body["target"] == {"apiVersion": "v1", "kind": "Node", "name": "a"} and body["metadata"]["uid"] == "uid-p"
    assert body["metadata"]["annotations"] == {GPUS: "6,7", PLACED_BY: "stoker"}
    assert placed(cluster, "p") == ("a", "6,7")
    assert "a" in extender.filter(pod("q"), NAMES)["FailedNodes"]
    assert extender.bind(one, "a") == ""  # asked again
    assert len(cluster.bindings) == 1
    assert extender.bind(one, "b") == "pod team/p is on node a already"
    until(lambda: extender.metric("stoker_place_reserved_pods") == 0, extender.log)  # it was seen
    assert "a" in extender.filter(pod("q"), NAMES)["FailedNodes"]
    cluster.remove("p")
    until(lambda: "a" in extender.filter(pod("q", gpus=2), NAMES)["NodeNames"], extender.log)


def test_two_pods_race_for_the_same_gpus(extender, cluster):
    pods = [pod(f"p{i}", gpus=2) for i in range(6)]
    errors = {}
    for one in pods:
        cluster.add(one)

    def ask(one):
        client, meta = http.client.HTTPConnection("127.0.0.1", extender.port, timeout=120), one["metadata"]
        client.request("POST", "/bind", json.dumps({"PodName": meta["name"], "PodNamespace": "team", "PodUID": meta["uid"], "Node": "c"}),
                       {"Content-Type": "application/json"})
        errors[meta["name"]] = json.loads(client.getresponse().read())["Error"]

    threads = [threading.Thread(target=ask, args=(one,)) for one in pods]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    held = sorted(placed(cluster, name)[1] for name, error in errors.items() if not error)
    assert held == ["0,1", "2,3"]
    assert [e for e in errors.values() if e] == ["node c: 0 of 4 GPUs free, 2 wanted"] * 4
    assert len(cluster.bindings) == 2  # those that were refused left nothing
    assert all(placed(cluster, name) == (None, None) for name, error in errors.items() if error)


def test_the_same_pod_twice_at_once(extender, cluster):
    one = pod("p", gpus=2)
    cluster.add(one)
    read = threading.Barrier(3)
    cluster.fail = lambda request: request.command == "POST" and read.wait(60) and None  # each has read the pod before it is bound
    body = json.dumps({"PodName": "p", "PodNamespace": "team", "PodUID": "uid-p", "Node": "a"})
    clients = [http.client.HTTPConnection("127.0.0.1", extender.port, timeout=120) for _ in range(3)]
    for client in clients:
        client.request("POST", "/bind", body, {"Content-Type": "application/json"})
    errors = [json.loads(client.getresponse().read())["Error"] for client in clients]
    assert errors == ["", "", ""] and placed(cluster, "p") == ("a", "6,7")


def test_a_binding_that_is_refused_gives_its_gpus_back(extender, cluster):
    one = pod("p", gpus=8)
    cluster.add(one)
    cluster.refuse = 403, {**STATUS, "message": "pods/binding is forbidden", "code": 403}
    assert extender.bind(one, "b") == "HTTP 403: pods/binding is forbidden"
    assert extender.metric("stoker_place_reserved_pods") == 0 and extender.count("bind", "refused") == 1
    cluster.refuse = None
    assert "b" in extender.filter(pod("q", gpus=8), NAMES)["NodeNames"]
    assert extender.bind(pod("q"), "b") == "HTTP 404: the server could not find the requested resource"
    assert extender.bind(pod("p", uid="uid-older"), "b").startswith("pod team/p is another one now")


def test_pods_without_gpus_go_anywhere(extender, cluster):
    for one in (pod("p", gpus=0), pod("p", gpus=40), {"metadata": {"name": "x"}}, {}):
        names = [*NAMES, "never-heard-of"]
        assert extender.filter(one, names) == {"NodeNames": names, "FailedNodes": {}, "FailedAndUnresolvableNodes": {}, "Error": ""}
        assert set(extender.scores(one, names).values()) == {0}
    one = pod("p", gpus=0)
    cluster.add(one)
    assert extender.bind(one, "plain") == "" and "annotations" not in cluster.bindings[0]["metadata"]
    assert extender.count("filter", "passed") == 4 and extender.count("bind", "passed") == 1


def test_nodes_change(extender, cluster):
    fits = lambda gpus: set(extender.filter(pod("p", gpus=gpus), NAMES)["NodeNames"])  # noqa: E731
    cluster.lists[NODES] = [node("a"), node("b", usable=7, unhealthy="0",
                                                 broken="1 of 8 devices unhealthy: GPU 0 has fallen off the bus: drain and reboot"),
                            node("c", gpus=4), node("plain", gpus=0)]
    until(lambda: fits(8) == {"plain"}, extender.log)
    text = "stoker: 7 of 8 GPUs can be used, 8 wanted; 1 of 8 devices unhealthy: GPU 0 has fallen off the bus: drain and reboot"
    assert extender.filter(pod("p", gpus=8), NAMES)["FailedAndUnresolvableNodes"]["b"] == text
    one = pod("p", gpus=2)
    cluster.add(one)
    assert extender.bind(one, "b") == "" and placed(cluster, "p") == ("b", "1,2")  # not the broken one
    cluster.lists[NODES] = [node("c", gpus=4), node("d")]
    until(lambda: "d" in extender.scores(pod("p"), ["c", "d"]) and extender.metric("stoker_place_gpu_nodes") == 2, extender.log)
    assert fits(8) == {"a", "b", "plain"}  # what it does not know, it does not refuse


def test_gpus_of_pods_that_were_not_placed_by_it_count(extender, cluster):
    cluster.add(pod("theirs", gpus=3, on="b", phase="Running"))
    until(lambda: extender.filter(pod("p", gpus=6), ["b"])["FailedNodes"] == {"b": "stoker: 5 of 8 GPUs free, 6 wanted"}, extender.log)
    one = pod("p", gpus=5)
    cluster.add(one)
    assert extender.bind(one, "b") == ""
    assert extender.filter(pod("q"), ["b"])["FailedNodes"] == {"b": "stoker: 0 of 8 GPUs free, 1 wanted"}
    cluster.remove("theirs")
    until(lambda: extender.filter(pod("q", gpus=3), ["b"])["NodeNames"] == ["b"], extender.log)


def test_killed_and_started_again(extender, cluster):
    one = pod("p", gpus=2)
    cluster.add(one)
    assert extender.bind(one, "a") == ""
    before = extender.scores(pod("q", gpus=2), NAMES)
    extender.kill()
    extender.start()
    assert extender.filter(pod("q"), NAMES)["Error"] == ""  # at once
    extender.wait_known()
    assert extender.filter(pod("q"), NAMES)["FailedNodes"] == {"a": "stoker: 0 of 8 GPUs free, 1 wanted"}
    assert extender.scores(pod("q", gpus=2), NAMES) == before and extender.bind(one, "a") == ""


def test_without_the_api_server_every_node_fits(make_extender, cluster):
    cluster.fail = 503, {**STATUS, "message": "later", "code": 503}
    extender = make_extender(cluster, "--stale", "300ms")
    everything = {"NodeNames": NAMES, "FailedNodes": {}, "FailedAndUnresolvableNodes": {}, "Error": ""}
    assert extender.filter(pod("p", gpus=8), NAMES) == everything  # it has only just started
    assert extender.count("filter", "open") == 1
    cluster.fail = None
    extender.wait_known()
    assert "a" not in extender.filter(pod("p", gpus=8), NAMES)["NodeNames"]
    cluster.fail = 503, {**STATUS, "message": "later", "code": 503}
    until(lambda: extender.metric("stoker_place_trusted") == 0, extender.log)
    assert extender.filter(pod("p", gpus=8), NAMES) == everything
    assert set(extender.scores(pod("p", gpus=8), NAMES).values()) == {0}
    assert extender.bind(pod("p", gpus=8), "a") == "HTTP 503: later"
    cluster.fail = None
    extender.wait_known()
    assert "a" not in extender.filter(pod("p", gpus=8), NAMES)["NodeNames"]


def test_an_answer_that_never_came_keeps_the_gpus_for_a_while(make_extender, cluster):
    extender = make_extender(cluster, "--stale", "1h").wait_known()
    one = pod("p", gpus=8)
    cluster.add(one)
    cluster.refuse = 504, {**STATUS, "message": "timed out", "code": 504}  # it may be bound
    assert extender.bind(one, "b") == "HTTP 504: timed out"
    assert extender.metric("stoker_place_reserved_pods") == 1 and "b" not in extender.filter(pod("q"), NAMES)["NodeNames"]
    cluster.refuse = None
    assert extender.bind(one, "b") == "" and placed(cluster, "p")[1] == "0,1,2,3,4,5,6,7"


@pytest.mark.parametrize("body, text", [
    (b"", "is no JSON object"), (b"[]", "is no JSON object"), (b'{"Pod": {}', "is no JSON object"), (b'{"NodeNames": []}', "has no Pod"),
    (b'{"Pod": {}, "Nodes": {"items": []}, "NodeNames": null}', "nodeCacheCapable: true"), (b'{"Pod": {}, "NodeNames": [3]}', "NodeNames[0]"),
], ids=["empty", "list", "cut", "no-pod", "nodes", "number"])
def test_requests_that_are_wrong(extender, body, text):
    status, data = extender.request("POST", "/filter", body)
    assert status == 200 and text in json.loads(data)["Error"] and json.loads(data)["NodeNames"] == []
    status, data = extender.request("POST", "/prioritize", body)
    assert status == 400 and text in data.decode()
    status, data = extender.request("POST", "/bind", body)
    assert status == 200 and json.loads(data)["Error"]


def test_binds_with_names_that_are_none(extender, cluster):
    right = {"PodName": "p", "PodNamespace": "team", "PodUID": "u", "Node": "a"}
    for key, value in (("PodName", "../nodes"), ("PodName", "p?x=y"), ("PodName", "p/binding"), ("PodNamespace", "."), ("PodNamespace", "a.b"),
                       ("Node", ""), ("Node", "x" * 254), ("PodUID", 'a"b'), ("PodUID", None)):
        assert key in extender.post("/bind", {**right, key: value})["Error"]
    assert not [a for a in cluster.asked if a[0].startswith("/api/v1/namespaces/")]


def test_what_is_not_kube_scheduler(extender):
    assert extender.request("GET", "/filter")[0] == 405
    assert extender.request("POST", "/healthz", "{}", fresh=True)[0] == 405
    assert extender.request("POST", "/bind", "{}", {"Content-Type": "text/plain"}, fresh=True)[0] == 415
    assert extender.request("POST", "/bind", "{}", {"Host": "evil.example"}, fresh=True)[0] == 421
    assert extender.request("GET", "/healthz", fresh=True) == (200, b"ok\n")
    assert extender.request("GET", "/nothing")[0] == 404


def test_the_configuration(stoker):
    def run(*words):
        return subprocess.run([stoker, "place", "config", *words], capture_output=True, text=True)

    text = run("--url", "https://stoker.kube-system.svc:9405", "--resource", "example.com/gpu").stdout
    for line in ("kind: KubeSchedulerConfiguration", 'urlPrefix: "https://stoker.kube-system.svc:9405"', "filterVerb: filter", "bindVerb: bind",
                 "prioritizeVerb: prioritize", "nodeCacheCapable: true", "ignorable: true", 'name: "example.com/gpu"', "ignoredByScheduler: false"):
        assert line in text
    (extender,) = yaml.safe_load(text)["extenders"]
    assert extender["enableHTTPS"] is True and set(extender["tlsConfig"]) == {"caFile", "certFile", "keyFile"}
    (extender,) = yaml.safe_load(run().stdout)["extenders"]
    assert "enableHTTPS" not in extender and "tlsConfig" not in extender
    weight = int(text.split("weight: ")[1].split(" ")[0])
    assert weight * 10 > 1500  # one point of ours is more than all of kube-scheduler's plugins give
    for words in (("--url", 'http://x"\n'), ("--resource", "a b")):
        assert run(*words).returncode == 2 and words[0] in run(*words).stderr


def test_five_thousand_nodes(make_cluster, make_extender):
    names = [f"node-{i:05}.internal.example.com" for i in range(5000)]
    cluster = make_cluster([node(name) for name in names], [pod(f"old-{i}", gpus=8 - i % 9, on=names[i], held=",".join(map(str, range(8 - i % 9))))
                                                            for i in range(4990) if i % 9 < 8])
    cluster.quiet = True
    cluster.page = 100
    extender = make_extender(cluster, "--stale", "1h").wait_known()
    answer = extender.filter(pod("p", gpus=4), names)
    assert len(answer["NodeNames"]) + len(answer["FailedNodes"]) == 5000 and answer["FailedNodes"][names[0]] == "stoker: 0 of 8 GPUs free, 4 wanted"
    scores = extender.scores(pod("p", gpus=4), answer["NodeNames"])
    (best,) = [name for name, score in scores.items() if score == 10]
    assert int(best[5:10]) % 9 == 4  # exactly four are left there


def test_it_lists_in_pages_and_only_what_it_needs(extender, cluster):
    pods = [q for path, q, _ in cluster.asked if path == PODS and "watch" not in q]
    assert pods[0]["fieldSelector"] == "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed" and pods[0]["limit"] == "100"
