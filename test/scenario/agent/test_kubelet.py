# SPDX-License-Identifier: Apache-2.0
"""The agent beside a kubelet that answers, dies, hangs, lies or has many pods: who has which GPU is said as long as it is
known, and neither scrapes nor numbers wait for it."""
import pathlib
import sys
import time

import pytest
from agent_rig import until

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "unit" / "podresources"))
kubelet = pytest.importorskip("kubelet", reason="the kubelet's stand-in needs python3-grpcio")

PERIOD = ["--kubernetes-period", "100ms"]  # a table without an answer is kept for twelve of these
TEMP = "DCGM_FI_DEV_GPU_TEMP"


@pytest.fixture
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("k") / "kubelet.sock"  # a socket's path is short


@pytest.fixture
def with_kubelet(make_node, make_agent, path):
    """A node and an agent that asks the kubelet at `path`."""

    def start(scenario="default", options=(), env=(), **of_node):
        node = make_node(scenario, **of_node)
        agent = make_agent(dict(node.env, **dict(env)),
                           options=["-k", "--pod-resources-kubelet-socket", path, *PERIOD, *options])
        return node, agent

    return start


def state(agent):
    (labels, value), = agent.page().all("stoker_pods_state")
    assert value == 1
    return labels["state"]


def owners(agent, name=TEMP, **labels):
    """(gpu, pod, namespace, container) of every series of this metric, "" where there is no such label."""
    return {(l["gpu"], l.get("pod", ""), l.get("namespace", ""), l.get("container", "")) for l, _ in agent.page().all(name, **labels)}


def one_pod_per_gpu(agent):
    return kubelet.reply(*[kubelet.simple(f"pod-{g['index']}", g["uuid"]) for g in agent.gpus()])


ALL_OWNED = {(str(i), f"pod-{i}", "ns", "main") for i in range(8)}
NOBODYS = {(str(i), "", "", "") for i in range(8)}


def all_is_well(agent):
    """GPUs' numbers are fresh and the page is complete, whatever the kubelet does."""
    assert agent.fresh(range(8)), agent.log_text()
    assert len({l["gpu"] for l, _ in agent.page().all(TEMP)}) == 8
    assert agent.get("/healthz")[0] == 200


def test_pods_of_whole_gpus_and_of_shared_ones(with_kubelet, path):
    _, agent = with_kubelet(options=["--nvidia-resource-names", "nvidia.com/gpu.shared"], env={"NODE_NAME": "worker-7"})
    assert state(agent) in ("waiting", "no_socket") and owners(agent) == NOBODYS
    uuids = {g["index"]: g["uuid"] for g in agent.gpus()}
    answer = kubelet.reply(
        ("train-0", "team-a", [("main", [("nvidia.com/gpu", [uuids[0], uuids[1]])]), ("sidecar", [("cpu", ["3"])])]),
        ("web-0", "team-b", [("srv", [("nvidia.com/gpu.shared", [uuids[2] + "::0"])])]),
        ("web-1", "team-b", [("srv", [("nvidia.com/gpu.shared", [uuids[2] + "::1"])])]),
        ("two", "team-b", [("a", [("nvidia.com/gpu.shared", [uuids[3] + "::0"])]), ("b", [("nvidia.com/gpu.shared", [uuids[3] + "::1"])])]),
        ("gke", "team-c", [("m", [("nvidia.com/gpu", ["nvidia7"])])]))
    with kubelet.Kubelet(path, answer):
        until(lambda: state(agent) == "ok", lambda: state(agent) + agent.log_text())
        assert owners(agent) == {
            ("0", "train-0", "team-a", "main"), ("1", "train-0", "team-a", "main"), ("2", "web-0", "team-b", "srv"),
            ("2", "web-1", "team-b", "srv"), ("3", "two", "team-b", "a"), ("3", "two", "team-b", "b"), ("4", "", "", ""),
            ("5", "", "", ""), ("6", "", "", ""), ("7", "gke", "team-c", "m")}
        page = agent.page()
        both = page.all("DCGM_FI_DEV_POWER_USAGE", gpu="2")
        assert len(both) == 2 and both[0][1] == both[1][1] and {l["vgpu"] for l, _ in both} == {"0", "1"}
        assert {l["hostname"] for l, _ in page.all(TEMP)} == {"worker-7"}
        assert page.one("stoker_pods_mapped") == 5
        shared = next(g for g in agent.gpus() if g["index"] == 2)
        assert "web-0" in str(shared) and "web-1" in str(shared) and "train-0" not in str(shared)
        # energy is counted once per GPU, however many pods share it
        assert len(page.all("stoker_gpu_power_watts", gpu="2")) == 1


def test_pods_of_mig_devices(with_kubelet, path):
    _, agent = with_kubelet("mig-balanced", options=["--kubernetes-gpu-id-type", "uid"])
    gpus = agent.gpus()
    first, second = gpus[0]["instances"][0], gpus[0]["instances"][1]
    answer = kubelet.reply(
        ("a", "ns", [("main", [("nvidia.com/mig-3g.40gb", [first["uuid"]])])]),
        ("b", "ns", [("main", [("nvidia.com/mig-2g.20gb", [second["uuid"] + "::0"])])]),
        ("c", "ns", [("main", [("nvidia.com/mig-2g.20gb", [second["uuid"] + "::1"])])]))
    with kubelet.Kubelet(path, answer):
        until(lambda: state(agent) == "ok", agent.log_text)
        page = agent.page()
        used = page.all("DCGM_FI_DEV_FB_USED", gpu="0")
        by_pod = {l.get("pod"): l["GPU_I_ID"] for l, _ in used}
        assert set(by_pod) == {"a", "b", "c", None} and by_pod["b"] == by_pod["c"] != by_pod["a"]
        assert not [l for l, _ in page.all("DCGM_FI_DEV_FB_USED", gpu="1") if l.get("pod")]


def test_labels_of_the_old_namespace(with_kubelet, path):
    _, agent = with_kubelet(options=["-o"])
    with kubelet.Kubelet(path, one_pod_per_gpu(agent)):
        until(lambda: state(agent) == "ok", agent.log_text)
        for labels, _ in agent.page().all(TEMP):
            assert labels["pod_name"] == f"pod-{labels['gpu']}" and labels["pod_namespace"] == "ns"
            assert labels["container_name"] == "main" and labels["uuid"].startswith("GPU-")
            assert not {"pod", "namespace", "container", "UUID"} & set(labels)


def test_a_kubelet_that_goes_and_comes_back(with_kubelet, path):
    _, agent = with_kubelet()
    server = kubelet.Kubelet(path, one_pod_per_gpu(agent))
    try:
        until(lambda: owners(agent) == ALL_OWNED, agent.log_text)
        for _ in range(3):  # restarts: not one page without the labels
            server.restart()
            calls = server.calls
            until(lambda: (owners(agent) == ALL_OWNED or pytest.fail("labels were lost"), server.calls > calls)[1], "it asks again")
        server.stop()
        until(lambda: state(agent) == "no_socket", lambda: state(agent) + agent.log_text())
        assert agent.page().one("stoker_pods_age_seconds") < 3600
        until(lambda: (all_is_well(agent), owners(agent) == NOBODYS)[1], agent.log_text)  # too old by now
        assert agent.page().one("stoker_pods_mapped") == 0 and agent.page().one("stoker_pods_failures_total") > 0
        server.start()
        until(lambda: owners(agent) == ALL_OWNED and state(agent) == "ok", agent.log_text)
    finally:
        server.stop()
    all_is_well(agent)


def test_labels_outlive_a_reload(with_kubelet, path, tmp_path):
    counters = tmp_path / "c.csv"
    counters.write_text(f"{TEMP}, gauge, t\n")
    _, agent = with_kubelet(options=["-f", counters])
    with kubelet.Kubelet(path, one_pod_per_gpu(agent)):
        until(lambda: owners(agent) == ALL_OWNED, agent.log_text)
        counters.write_text(f"{TEMP}, gauge, t\nDCGM_FI_DEV_POWER_USAGE, gauge, p\n")
        until(lambda: (owners(agent) == ALL_OWNED or pytest.fail("a page without pods"),
                       "DCGM_FI_DEV_POWER_USAGE" in agent.page().names())[1], agent.log_text)
        assert owners(agent, "DCGM_FI_DEV_POWER_USAGE") == ALL_OWNED


def lies(connection, stream):
    connection.send(kubelet.whole(stream, b"\x0a\xff\xff\xff\xff\x0f nonsense"))


def closes(connection, stream):
    connection.send(kubelet.head(stream))
    return True


def refuses(connection, stream):
    connection.send(kubelet.head(stream, flags=kubelet.END_HEADERS) + kubelet.trailers(stream, 16, "not you"))


def floods(connection, stream):
    connection.send(kubelet.head(stream) + kubelet.data(stream, kubelet.prefixed(b"", length=1 << 31)))


@pytest.mark.parametrize("script, seen", [(lies, "bad_reply"), (refuses, "bad_reply"), (floods, "bad_reply"),
                                          (closes, ("unreachable", "bad_reply"))])
def test_a_kubelet_that_lies(with_kubelet, path, script, seen):
    _, agent = with_kubelet()
    with kubelet.Bare(path, script):
        until(lambda: state(agent) in seen, lambda: state(agent) + agent.log_text())
        assert owners(agent) == NOBODYS
        all_is_well(agent)
        failures = agent.page().one("stoker_pods_failures_total")
        until(lambda: agent.page().one("stoker_pods_failures_total") > failures, "it asks again")
    assert len(agent.log_text().splitlines()) < 20, "one line says it"
    with kubelet.Kubelet(path, one_pod_per_gpu(agent)):
        until(lambda: owners(agent) == ALL_OWNED, agent.log_text)


def median_of_scrapes(agent, count=60):
    times = []
    for _ in range(count):
        start = time.perf_counter()
        agent.page()
        times.append(time.perf_counter() - start)
    return sorted(times)[count // 2]


def test_scrapes_do_not_wait_for_a_kubelet_that_hangs(with_kubelet, path):
    _, agent = with_kubelet()
    with kubelet.Kubelet(path, one_pod_per_gpu(agent)):
        until(lambda: owners(agent) == ALL_OWNED, agent.log_text)
        good = median_of_scrapes(agent)
    with kubelet.Bare(path, lambda connection, stream: None) as silent:  # takes the question, never answers
        until(lambda: silent.connections, "it asks")
        hanging = median_of_scrapes(agent)
        assert owners(agent) == ALL_OWNED or state(agent) != "ok"
        all_is_well(agent)
        until(lambda: state(agent) == "timed_out", lambda: state(agent) + agent.log_text())
        until(lambda: owners(agent) == NOBODYS, agent.log_text)
        all_is_well(agent)
        hanging = min(hanging, median_of_scrapes(agent))
    assert hanging < 5 * good + 0.002, (hanging, good)


def test_five_hundred_pods(with_kubelet, path):
    """Sixty replicas of each GPU and pods without one: scrapes and numbers go on, and all are named."""
    _, agent = with_kubelet(options=["--nvidia-resource-names", "nvidia.com/gpu.shared"])
    alone = median_of_scrapes(agent, 30)
    series = len(agent.page().series)
    pods = [(f"web-{g['index']}-{k}", f"team-{k % 7}", [("srv", [("nvidia.com/gpu.shared", [f"{g['uuid']}::{k}"])])])
            for g in agent.gpus() for k in range(60)]
    pods += [(f"cpu-{n}", "kube-system", [("main", [("cpu", [str(n)])])]) for n in range(20)]
    with kubelet.Kubelet(path, kubelet.reply(*pods)):
        until(lambda: len(owners(agent)) == 480, lambda: f"{len(owners(agent))} {agent.log_text()}")
        assert agent.page().one("stoker_pods_mapped") == 480
        page = agent.page()
        for index in range(8):
            mine = page.all(TEMP, gpu=str(index))
            assert len(mine) == 60 and len({l["vgpu"] for l, _ in mine}) == 60 and len({v for _, v in mine}) == 1
        many = len(page.series)
        busy = median_of_scrapes(agent, 30)
        all_is_well(agent)
    # the time of a scrape may grow with the page, here mostly that of reading it in the test
    assert busy < 3 * alone * many / series + 0.005, (busy, alone, many, series)
