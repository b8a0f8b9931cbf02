# SPDX-License-Identifier: Apache-2.0
"""The agent beside a cluster's API server: labels of pods, devices of DRA and the ConfigMap of counters, and that a server
which fails costs these and nothing else."""
import json
import pathlib
import subprocess
import sys

import pytest
from agent_rig import settles, until
from apiserver import STATUS, Server, pod, resource_slice

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "unit" / "podresources"))
kubelet = pytest.importorskip("kubelet", reason="the kubelet's stand-in needs python3-grpcio")

TEMP = "DCGM_FI_DEV_GPU_TEMP"
PODS, SLICES = "/api/v1/pods", "/apis/resource.k8s.io/v1/resourceslices"
OLDER = SLICES.replace("v1/", "v1beta1/")
MAP = "/api/v1/namespaces/gpu/configmaps/counters"


@pytest.fixture
def api(tmp_path):
    server = Server(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("k") / "kubelet.sock"  # a socket's path is short


@pytest.fixture
def start(make_node, make_agent, path, api):
    def make(*options, scenario="default", env=()):
        node = make_node(scenario)
        return make_agent({**node.env, **api.env, **dict(env)},
                          options=["-k", "--pod-resources-kubelet-socket", path, "--kubernetes-period", "100ms",
                                   "--kubernetes-account", api.account, *options])
    return make


def by_gpu(agent, *names, metric=TEMP):
    """{gpu: [values of these labels, None where there is none]}"""
    return {l["gpu"]: [l.get(n) for n in names] for l, _ in agent.page().all(metric)}


def state(agent, read="pods"):
    (labels, value), = agent.page().all("stoker_kubernetes_api_state", read=read)
    assert value == 1
    return labels["state"]


def one_pod_per_gpu(agent):
    return kubelet.reply(*[kubelet.simple(f"pod-{g['index']}", g["uuid"]) for g in agent.gpus()])


def all_is_well(agent):
    def check():
        assert agent.fresh(range(8)), agent.log_text()
        assert len({l["gpu"] for l, _ in agent.page().all(TEMP)}) == 8
        assert agent.get("/healthz")[0] == 200

    settles(check)


# -- labels of pods ---------------------------------------------------------------------------------------------------

def test_labels_of_pods(start, api, path):
    agent = start("--kubernetes-enable-pod-labels")
    api.lists[PODS] = [
        pod("pod-0", {"app.kubernetes.io/name": "train", "team": "blue \"one\"", "gpu": "9", "pod": "x", "7up": "yes", "a-b": "1", "a.b": "2"}),
        pod("pod-1", None), pod("pod-0", {"team": "other"}, "elsewhere"), pod("web", {"team": "green"})]
    with kubelet.Kubelet(path, one_pod_per_gpu(agent)):
        until(lambda: by_gpu(agent, "team")["0"] == ["blue \\\"one\\\""], agent.log_text)

        def labelled():
            labels = [l for l, _ in agent.page().all(TEMP, gpu="0")]
            assert len(labels) == 1  # a label that the series has of its own stays as it is
            assert {k: labels[0].get(k) for k in ("app_kubernetes_io_name", "pod", "gpu", "_7up", "a_b")} == \
                {"app_kubernetes_io_name": "train", "pod": "pod-0", "gpu": "0", "_7up": "yes", "a_b": "1"}
            assert by_gpu(agent, "team", "pod")["1"] == [None, "pod-1"]
            assert {l.get("team") for l, _ in agent.page().all("DCGM_FI_DEV_POWER_USAGE")} == {"blue \\\"one\\\"", None}

        settles(labelled)
    path_, query, headers = api.asked[0]
    assert (path_, query) == (PODS, {"fieldSelector": "spec.nodeName=worker-7", "limit": "500", "resourceVersion": "0"})
    assert "as=PartialObjectMetadataList" in headers["Accept"] and headers["Authorization"] == "Bearer first.token"


def test_the_list_of_labels_that_are_wanted(start, api, path):
    agent = start("--kubernetes-enable-pod-labels", "--kubernetes-pod-label-allowlist-regex", "^team$",
                  "--kubernetes-pod-label-allowlist-regex", "example[.]com/")
    api.lists[PODS] = [pod("pod-0", {"team": "blue", "teams": "no", "a.example.com/job": "7", "app": "no"})]
    with kubelet.Kubelet(path, one_pod_per_gpu(agent)):
        until(lambda: by_gpu(agent, "team", "a_example_com_job", "teams", "app")["0"] == ["blue", "7", None, None], agent.log_text)


def test_labels_that_change_and_pods_that_come(start, api, path):
    agent = start("--kubernetes-enable-pod-labels")
    gpus = [g["uuid"] for g in agent.gpus()]
    api.lists[PODS] = [pod("a", {"team": "blue"})]
    answers = [kubelet.reply(kubelet.simple("a", gpus[0]))]
    with kubelet.Kubelet(path, lambda request, context: answers[-1]):
        until(lambda: by_gpu(agent, "team")["0"] == ["blue"], agent.log_text)
        api.lists[PODS] = [pod("a", {"team": "red"}), pod("b", {"team": "green"})]
        until(lambda: by_gpu(agent, "team")["0"] == ["red"], agent.log_text)
        answers.append(kubelet.reply(kubelet.simple("a", gpus[0]), kubelet.simple("b", gpus[1])))
        until(lambda: by_gpu(agent, "team")["1"] == ["green"], agent.log_text)
        answers.append(kubelet.reply(kubelet.simple("b", gpus[1])))  # a pod made anew under its name has no label of before
        until(lambda: by_gpu(agent, "pod")["0"] == [None], agent.log_text)
        api.lists[PODS] = [pod("b", {"team": "green"})]
        answers.append(kubelet.reply(kubelet.simple("a", gpus[0]), kubelet.simple("b", gpus[1])))
        until(lambda: by_gpu(agent, "pod", "team")["0"] == ["a", None], agent.log_text)


def test_what_made_a_pod(start, api, path):
    """By the object that controls it; by its name where the server does not say."""
    def owned(name, labels, *references):
        made = pod(name, labels)
        made["metadata"]["ownerReferences"] = [{"kind": kind, "name": of, "controller": controls} for kind, of, controls in references]
        return made

    agent = start("--kubernetes-enable-pod-labels", "--kubernetes-pod-label-allowlist-regex", "^team$")
    api.lists[PODS] = [owned("pod-0", {"pod-template-hash": "6d4cf56db6"}, ("ReplicaSet", "chat-6d4cf56db6", True)),
                       owned("pod-1", {"pod-template-hash": "other"}, ("Node", "n", False), ("ReplicaSet", "bare-6d4cf56db6", True)),
                       owned("pod-2", {}, ("PyTorchJob", "pretrain", True)), pod("pod-3", {})]
    wanted = {"pod-0": ("Deployment", "chat", False), "pod-1": ("ReplicaSet", "bare-6d4cf56db6", False),
              "pod-2": ("PyTorchJob", "pretrain", False), "pod-3": ("StatefulSet", "pod", True)}

    def made():
        held = json.loads(agent.verb("who", "--json").stdout)["allocations"]
        return {w["owner"]["pod"]: (w["workload"]["kind"], w["workload"]["name"], w["workload"]["derived"]) for w in held if w["workload"]}
    with kubelet.Kubelet(path, one_pod_per_gpu(agent)):
        until(lambda: {name: made().get(name) for name in wanted} == wanted, lambda: f"{made()}\n{agent.log_text()}")
        for line in ("of Deployment chat\n", "of StatefulSet pod by its name\n"):
            until(lambda line=line: line in agent.verb("who").stdout, lambda: agent.verb("who").stdout)


def test_a_list_in_pages(start, api, path):
    agent = start("--kubernetes-enable-pod-labels")
    api.page = 3
    api.lists[PODS] = [pod(f"other-{i}", {"team": "x"}) for i in range(20)] + [pod(f"pod-{i}", {"team": f"t{i}"}) for i in range(8)]
    with kubelet.Kubelet(path, one_pod_per_gpu(agent)):
        until(lambda: by_gpu(agent, "team") == {str(i): [f"t{i}"] for i in range(8)}, agent.log_text)


def gone_behind_the_first_page(request):
    return (410, {**STATUS, "message": "The provided continue parameter is too old", "code": 410}) if "continue=" in request.path else None


def endless(request):
    """A list whose pages never end."""
    Server.send(request, 200, {"metadata": {"continue": "more"}, "items": []})
    return "done"


def broken(request):
    request.connection.close()
    return "done"


@pytest.mark.parametrize("fail, expected, said", [
    ((401, {**STATUS, "message": "Unauthorized"}), "denied", "HTTP 401: Unauthorized"),
    ((403, {**STATUS, "message": "pods is forbidden:\nno list"}), "denied", "HTTP 403: pods is forbidden: no list"),
    ((404, b"no JSON"), "not_found", "HTTP 404"),
    ((429, {**STATUS, "message": "slow down"}), "unreachable", "HTTP 429"),
    ((500, b""), "unreachable", "HTTP 500"),
    (gone_behind_the_first_page, "bad_reply", "HTTP 410: The provided continue parameter is too old"),
    (endless, "bad_reply", "more than 64 pages"),
    (broken, "unreachable", "cannot be read"),
    ((200, b'{"items":[{"metadata":{"name":"pod-0","namespace":"ns","labels":{"team":"no"}}},{"meta'), "bad_reply", "no JSON"),
    ((200, b'{"items":[{"metadata":{"name":"pod-0","namespace":"ns","labels":{"team":"no"}}}]'), "bad_reply", "does not end"),
    ((200, b'{"items":[{"metadata":{"name":"pod-0"}}]}'), "bad_reply", "is no pod"),
    ((200, b'[]'), "bad_reply", "no JSON object"),
    ((200, b'{"kind":"Pod"}'), "bad_reply", "no list"),
    ((200, b'{"items":["' + b"x" * (5 << 20) + b'"]}'), "bad_reply", "larger than 4 MiB"),
], ids=["401", "403", "404", "429", "500", "410", "endless", "closed", "cut", "open", "nameless", "array", "no-list", "huge"])
def test_a_server_that_fails_costs_labels_alone(start, api, path, fail, expected, said):
    agent = start("--kubernetes-enable-pod-labels")
    api.page = 4
    api.lists[PODS] = [pod(f"pod-{i}", {"team": f"t{i}"}) for i in range(8)]
    labelled = {str(i): [f"pod-{i}", f"t{i}"] for i in range(8)}
    api.fail = fail
    with kubelet.Kubelet(path, one_pod_per_gpu(agent)):
        until(lambda: state(agent) == expected, lambda: state(agent) + agent.log_text())
        until(lambda: by_gpu(agent, "pod", "team") == {str(i): [f"pod-{i}", None] for i in range(8)}, agent.log_text)
        all_is_well(agent)
        until(lambda: said in agent.log_text(), agent.log_text)
        api.fail = None
        until(lambda: by_gpu(agent, "pod", "team") == labelled and state(agent) == "ok", agent.log_text)
        api.fail = fail
        until(lambda: state(agent) == expected, lambda: state(agent) + agent.log_text())
        until(lambda: by_gpu(agent, "pod", "team") == labelled, agent.log_text)  # what was read last stays
        all_is_well(agent)
    assert agent.log_text().count("pods can be read") == 1  # each change once


def test_a_server_that_hangs(start, api, path):
    agent = start("--kubernetes-enable-pod-labels")
    api.fail = api.hang
    with kubelet.Kubelet(path, one_pod_per_gpu(agent)):
        until(lambda: api.count(PODS) and by_gpu(agent, "pod")["7"] == ["pod-7"], agent.log_text)
        all_is_well(agent)
        until(lambda: state(agent) == "unreachable", agent.log_text)  # after ten seconds
        all_is_well(agent)


def test_a_token_that_is_renewed(start, api, path):
    api.no_watch = True  # one that runs goes on whatever happens to its token
    agent = start("--kubernetes-enable-pod-labels")
    api.lists[PODS] = [pod("pod-0", {"team": "blue"})]
    with kubelet.Kubelet(path, one_pod_per_gpu(agent)):
        until(lambda: by_gpu(agent, "team")["0"] == ["blue"], agent.log_text)
        api.tokens = {"second.token"}
        until(lambda: state(agent) == "denied", agent.log_text)
        (api.account / "token").write_text("second.token")
        until(lambda: state(agent) == "ok", agent.log_text)
        (api.account / "token").unlink()
        until(lambda: state(agent) == "no_account", agent.log_text)
        (api.account / "token").write_text("second.token")
        until(lambda: state(agent) == "ok", agent.log_text)
        until(lambda: by_gpu(agent, "team")["0"] == ["blue"], agent.log_text)


def test_a_server_of_another_authority_sees_no_token(start, api, path, tmp_path_factory):
    foreign = Server(tmp_path_factory.mktemp("foreign"))
    (api.account / "ca.crt").write_bytes((foreign.account / "ca.crt").read_bytes())
    foreign.stop()
    agent = start("--kubernetes-enable-pod-labels")
    with kubelet.Kubelet(path, one_pod_per_gpu(agent)):
        until(lambda: state(agent) == "unreachable", agent.log_text)
        until(lambda: by_gpu(agent, "pod")["7"] == ["pod-7"], agent.log_text)
        all_is_well(agent)
    assert not api.asked


def test_outside_a_cluster(start, path):
    agent = start("--kubernetes-enable-pod-labels", env={"KUBERNETES_SERVICE_HOST": ""})
    with kubelet.Kubelet(path, one_pod_per_gpu(agent)):
        until(lambda: by_gpu(agent, "pod")["7"] == ["pod-7"], agent.log_text)
        until(lambda: state(agent) == "no_account" and "this is no pod of a cluster" in agent.log_text(), agent.log_text)


def test_nothing_is_asked_without_the_option(start, api, path):
    agent = start()
    with kubelet.Kubelet(path, one_pod_per_gpu(agent)):
        until(lambda: by_gpu(agent, "pod")["7"] == ["pod-7"], agent.log_text)
    assert not api.asked and not agent.page().all("stoker_kubernetes_api_state")


# -- devices of DRA ---------------------------------------------------------------------------------------------------

def claim(name, *devices, driver="gpu.nvidia.com", pool="worker-7", namespace="ns"):
    """A DynamicResource of the kubelet's answer, with CDI ids that nobody asked for."""
    return kubelet.field(5, kubelet.field(2, name) + kubelet.field(3, namespace) + b"".join(
        kubelet.field(4, kubelet.field(1, kubelet.field(1, "k8s.gpu.nvidia.com/claim=x")) + kubelet.field(2, driver)
                      + kubelet.field(3, pool) + kubelet.field(4, d)) for d in devices))


def user(name, *claims, container="main"):
    """A pod whose container has these claims."""
    return kubelet.field(1, kubelet.field(1, name) + kubelet.field(2, "ns") +
                         kubelet.field(3, kubelet.field(1, container) + b"".join(claims)))


DRA = ("dra_claim_name", "dra_claim_namespace", "dra_driver_name", "dra_pool_name", "dra_device_name", "dra_mig_profile",
       "dra_mig_device_uuid")


@pytest.mark.parametrize("older", [False, True], ids=["v1", "v1beta1"])
def test_gpus_of_claims(start, api, path, older):
    agent = start("--kubernetes-enable-dra", "--kubernetes-enable-pod-labels")
    gpus = [g["uuid"] for g in agent.gpus()]
    api.lists[PODS] = [pod("train", {"team": "blue"})]
    api.lists[OLDER if older else SLICES] = [
        resource_slice({"gpu-0": {"uuid": gpus[5], "type": "gpu"}, "gpu-1": {"uuid": gpus[1]}, "gpu-2": {"type": "gpu"}}, older=older),
        resource_slice({"gpu-1": {"uuid": gpus[2]}}, generation=2, older=older),  # of the pool as it is now
        resource_slice({"gpu-0": {"uuid": gpus[7]}}, driver="other.example.com", older=older)]
    answer = user("train", claim("c1", "gpu-0", "gpu-1"), claim("nic", "gpu-0", driver="nic.example.com")) + \
        user("web", claim("c2", "gpu-2", "gpu-9"))  # the one has no UUID, the other no slice
    with kubelet.Kubelet(path, answer):
        until(lambda: by_gpu(agent, "pod")["5"] == ["train"], agent.log_text)
        until(lambda: by_gpu(agent, "team")["5"] == ["blue"], agent.log_text)
        known = {"5": "gpu-0", "2": "gpu-1"}
        wanted = {str(i): ["train", "ns", "main", "c1", "ns", "gpu.nvidia.com", "worker-7", known[str(i)], None, None]
                  if str(i) in known else [None] * 10 for i in range(8)}
        until(lambda: by_gpu(agent, "pod", "namespace", "container", *DRA) == wanted, agent.log_text)
    slices = next(a for a in api.asked if a[0] == SLICES)
    assert slices[1] == {"fieldSelector": "spec.nodeName=worker-7", "limit": "500", "resourceVersion": "0"}


def test_mig_devices_of_claims(start, api, path):
    agent = start("--kubernetes-enable-dra", scenario="mig-balanced")
    instance = agent.gpus()[0]["instances"][0]
    api.lists[SLICES] = [resource_slice({"gpu-0-mig-0": {"uuid": instance["uuid"], "profile": "3g.40gb"}})]
    with kubelet.Kubelet(path, user("a", claim("c", "gpu-0-mig-0"))):
        (labels, _), = until(lambda: agent.page().all("DCGM_FI_DEV_FB_USED", gpu="0", pod="a"), agent.log_text)
    assert [labels[n] for n in DRA[4:]] == ["gpu-0-mig-0", "3g.40gb", instance["uuid"]]
    assert labels["GPU_I_ID"] == str(instance["gpu_instance"])


def test_slices_that_come_later_and_change(start, api, path):
    agent = start("--kubernetes-enable-dra")
    gpus = [g["uuid"] for g in agent.gpus()]
    api.fail = (403, STATUS)
    with kubelet.Kubelet(path, user("a", claim("c", "gpu-0"))):
        until(lambda: state(agent, "resourceslices") == "denied", agent.log_text)
        until(lambda: by_gpu(agent, "pod")["0"] == [None], agent.log_text)
        all_is_well(agent)
        api.fail, api.lists[SLICES] = None, [resource_slice({"gpu-0": {"uuid": gpus[0]}})]
        until(lambda: by_gpu(agent, "pod")["0"] == ["a"], agent.log_text)
        api.lists[SLICES] = [resource_slice({"gpu-0": {"uuid": gpus[3]}})]
        until(lambda: by_gpu(agent, "pod")["3"] == ["a"] and by_gpu(agent, "pod")["0"] == [None], agent.log_text)


def test_claims_without_the_option(start, api, path):
    agent = start()
    answer = user("a", claim("c", "gpu-0")) + kubelet.reply(kubelet.simple("b", agent.gpus()[1]["uuid"]))
    api.lists[SLICES] = [resource_slice({"gpu-0": {"uuid": agent.gpus()[0]["uuid"]}})]
    with kubelet.Kubelet(path, answer):
        until(lambda: [by_gpu(agent, "pod")[gpu] for gpu in "10"] == [["b"], [None]], agent.log_text)


# -- the ConfigMap of counters ----------------------------------------------------------------------------------------

def counters(*rows, key="metrics"):
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "counters", "namespace": "gpu"},
            "data": {key: "# format\n" + "".join(f"{row}, gauge, help\n" for row in rows)}}


def exported(agent):
    return {n for n in agent.page().names() if n.startswith("DCGM_")}


@pytest.fixture
def start_counting(make_node, make_agent, api, tmp_path):
    """The ConfigMap needs no kubelet."""
    file = tmp_path / "counters.csv"
    file.write_text(f"{TEMP}, gauge, help\n")

    def make(*options):
        return make_agent({**make_node("default").env, **api.env}, options=[
            "-m", "gpu:counters", "-f", file, "--kubernetes-period", "100ms", "--kubernetes-account", api.account, *options])
    return make


def test_the_configmap_stands_above_the_file(start_counting, api):
    agent = start_counting()
    until(lambda: state(agent, "configmap") == "not_found", agent.log_text)
    until(lambda: exported(agent) == {TEMP}, agent.log_text)
    api.objects[MAP] = counters("DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_POWER_USAGE")
    until(lambda: exported(agent) == {"DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_POWER_USAGE"}, agent.log_text)
    api.objects[MAP] = counters("DCGM_FI_DEV_MEM_CLOCK", "DCGM_FI_DEV_NONE")
    until(lambda: exported(agent) == {"DCGM_FI_DEV_MEM_CLOCK"}, agent.log_text)
    assert "ConfigMap gpu:counters:3: no metric is called 'DCGM_FI_DEV_NONE'" in agent.log_text()
    assert agent.ask("reload")[0] == 0
    assert exported(agent) <= {"DCGM_FI_DEV_MEM_CLOCK"}  # a reload of the file does not bring its rows back
    until(lambda: exported(agent) == {"DCGM_FI_DEV_MEM_CLOCK"}, agent.log_text)


@pytest.mark.parametrize("data, said", [
    ({}, "no metric is in it"),
    ({"metrics": ""}, "no metric is in it"),
    ({"metrics": "# nothing\n"}, "no metric is in it"),
    ({"metrics": "DCGM_FI_DEV_NONE, gauge, help\n"}, "no row of it could be used"),
    ({"other": "DCGM_FI_DEV_SM_CLOCK, gauge, help\n"}, "it has no key 'metrics'"),
], ids=["no-data", "empty", "comments", "unknown", "other-key"])
def test_a_configmap_that_is_refused(start_counting, api, data, said):
    api.no_watch = True  # so that it is read again and again
    agent = start_counting()
    until(lambda: "stays" in agent.log_text(), agent.log_text)  # the first answer: there is no ConfigMap yet
    api.objects[MAP] = counters("DCGM_FI_DEV_SM_CLOCK")
    until(lambda: exported(agent) == {"DCGM_FI_DEV_SM_CLOCK"}, agent.log_text)
    api.objects[MAP] = {**counters(), "data": data}
    until(lambda: said in agent.log_text() or (not data and "no key 'metrics'" in agent.log_text()), agent.log_text)
    asked = api.count(MAP)
    until(lambda: api.count(MAP) > asked + 2, "it asks")
    until(lambda: exported(agent) == {"DCGM_FI_DEV_SM_CLOCK"}, agent.log_text)
    assert agent.log_text().count("stays") == 2  # that one, and this one once
    api.objects[MAP] = counters("DCGM_FI_DEV_MEM_CLOCK")
    until(lambda: exported(agent) == {"DCGM_FI_DEV_MEM_CLOCK"}, agent.log_text)


def test_a_configmap_that_goes_stays_in_force(start_counting, api):
    agent = start_counting()
    api.objects[MAP] = counters("DCGM_FI_DEV_SM_CLOCK")
    until(lambda: exported(agent) == {"DCGM_FI_DEV_SM_CLOCK"}, agent.log_text)
    del api.objects[MAP]
    until(lambda: state(agent, "configmap") == "not_found", agent.log_text)
    until(lambda: exported(agent) == {"DCGM_FI_DEV_SM_CLOCK"}, agent.log_text)


@pytest.mark.parametrize("options, said", [
    (["-m", "counters"], "option --configmap-data: 'counters' is no NAMESPACE:NAME"),
    (["-m", "gpu:a/../b"], "is no NAMESPACE:NAME"),
    (["-m", ":counters"], "is no NAMESPACE:NAME"),
    (["--kubernetes-pod-label-allowlist-regex", "^team$,(open"], "option --kubernetes-pod-label-allowlist-regex: '(open' is no"),
    (["--kubernetes-pod-label-allowlist-regex", r"app\d"], r"\d is not understood"),
    (["-m", "none", "--kubernetes-pod-label-allowlist-regex", r"^app\.kubernetes\.io/|\w+[0-9]$"], None),
])
def test_options_that_are_checked(stoker, options, said):
    done = subprocess.run([stoker, "agent", "--check-config", *options], capture_output=True, text=True)
    assert (done.returncode, said in done.stderr) == (2, True) if said else done.returncode == 0, done.stderr
