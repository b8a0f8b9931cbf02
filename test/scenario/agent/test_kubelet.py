# SPDX-License-Identifier: Apache-2.0
"""The agent beside a kubelet that answers, dies, hangs, lies or has many pods: who has which GPU is said as long as it is
known, and neither scrapes nor numbers wait for it."""
import pathlib
import sys

import pytest
from agent_rig import settles, until

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "unit" / "podresources"))
kubelet = pytest.importorskip("kubelet", reason="the kubelet's stand-in needs python3-grpcio")

PERIOD, LONGER = "100ms", "1s"  # a table without an answer is kept for twelve of these
TEMP = "DCGM_FI_DEV_GPU_TEMP"


@pytest.fixture
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("k") / "kubelet.sock"  # a socket's path is short


@pytest.fixture
def with_kubelet(make_node, make_agent, path):
    """A node and an agent that asks the kubelet at `path`."""

    def start(scenario="default", options=(), env=(), period=PERIOD, **of_node):
        node = make_node(scenario, **of_node)
        agent = make_agent(dict(node.env, **dict(env)),
                           options=["-k", "--pod-resources-kubelet-socket", path, "--kubernetes-period", period, *options])
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
    def check():
        assert agent.fresh(range(8)), agent.log_text()
        assert len({l["gpu"] for l, _ in agent.page().all(TEMP)}) == 8
        assert agent.get("/healthz")[0] == 200

    settles(check)


def keeps(agent, said, wanted):
    """At each look nothing else is said of a GPU that has a value; and what is wanted of all of them."""
    now = said(agent)
    if isinstance(now, dict):
        now, wanted = now.items(), wanted.items()
    assert now <= wanted, f"labels were lost: {now} {agent.log_text()}"
    return now == wanted


def test_pods_of_whole_gpus_and_of_shared_ones(with_kubelet, path):
    _, agent = with_kubelet(options=["--nvidia-resource-names", "nvidia.com/gpu.shared"], env={"NODE_NAME": "worker-7"})
    until(lambda: state(agent) in ("waiting", "no_socket") and owners(agent) == NOBODYS, lambda: state(agent) + agent.log_text())
    uuids = {g["index"]: g["uuid"] for g in agent.gpus()}
    answer = kubelet.reply(
        ("train-0", "team-a", [("main", [("nvidia.com/gpu", [uuids[0], uuids[1]])]), ("sidecar", [("cpu", ["3"])])]),
        ("web-0", "team-b", [("srv", [("nvidia.com/gpu.shared", [uuids[2] + "::0"])])]),
        ("web-1", "team-b", [("srv", [("nvidia.com/gpu.shared", [uuids[2] + "::1"])])]),
        ("two", "team-b", [("a", [("nvidia.com/gpu.shared", [uuids[3] + "::0"])]), ("b", [("nvidia.com/gpu.shared", [uuids[3] + "::1"])])]),
        ("gke", "team-c", [("m", [("nvidia.com/gpu", ["nvidia7"])])]))
    with kubelet.Kubelet(path, answer):
        until(lambda: state(agent) == "ok", lambda: state(agent) + agent.log_text())
        given = {("0", "train-0", "team-a", "main"), ("1", "train-0", "team-a", "main"), ("2", "web-0", "team-b", "srv"),
                 ("2", "web-1", "team-b", "srv"), ("3", "two", "team-b", "a"), ("3", "two", "team-b", "b"), ("4", "", "", ""),
                 ("5", "", "", ""), ("6", "", "", ""), ("7", "gke", "team-c", "m")}
        until(lambda: owners(agent) == given, lambda: f"{owners(agent)} {agent.log_text()}")

        def shared():
            page = agent.page()
            both = page.all("DCGM_FI_DEV_POWER_USAGE", gpu="2")
            assert len(both) == 2 and both[0][1] == both[1][1] and {l["vgpu"] for l, _ in both} == {"0", "1"}
            assert {l["hostname"] for l, _ in page.all(TEMP)} == {"worker-7"}
            assert page.one("stoker_pods_mapped") == 5
            # energy is counted once per GPU, however many pods share it
            assert len(page.all("stoker_gpu_power_watts", gpu="2")) == 1
            gpu = str(agent.gpu(2))
            assert "web-0" in gpu and "web-1" in gpu and "train-0" not in gpu

        settles(shared)


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

        def labelled():
            page = agent.page()
            by_pod = {l.get("pod"): l["GPU_I_ID"] for l, _ in page.all("DCGM_FI_DEV_FB_USED", gpu="0")}
            assert set(by_pod) == {"a", "b", "c", None} and by_pod["b"] == by_pod["c"] != by_pod["a"]
            assert not [l for l, _ in page.all("DCGM_FI_DEV_FB_USED", gpu="1") if l.get("pod")]

        settles(labelled)


def test_labels_of_the_old_namespace(with_kubelet, path):
    _, agent = with_kubelet(options=["-o"])
    with kubelet.Kubelet(path, one_pod_per_gpu(agent)):
        until(lambda: state(agent) == "ok", agent.log_text)
        for labels, _ in until(lambda: agent.page().all(TEMP), agent.log_text):
            assert labels["pod_name"] == f"pod-{labels['gpu']}" and labels["pod_namespace"] == "ns"
            assert labels["container_name"] == "main" and labels["uuid"].startswith("GPU-")
            assert not {"pod", "namespace", "container", "UUID"} & set(labels)


def test_a_kubelet_that_is_started_anew(with_kubelet, path):
    """Not one page without the labels."""
    _, agent = with_kubelet(period=LONGER)
    with kubelet.Kubelet(path, one_pod_per_gpu(agent)) as server:
        until(lambda: owners(agent) == ALL_OWNED, agent.log_text)
        for _ in range(3):
            server.restart()
            calls = server.calls
            until(lambda: keeps(agent, owners, ALL_OWNED) and server.calls > calls, "it asks again")


def test_a_kubelet_that_goes_and_comes_back(with_kubelet, path):
    _, agent = with_kubelet()
    server = kubelet.Kubelet(path, one_pod_per_gpu(agent))
    try:
        until(lambda: owners(agent) == ALL_OWNED, agent.log_text)
        server.stop()
        until(lambda: state(agent) == "no_socket", lambda: state(agent) + agent.log_text())
        assert agent.page().one("stoker_pods_age_seconds") < 3600
        until(lambda: (all_is_well(agent), owners(agent) == NOBODYS)[1], agent.log_text)  # too old by now
        until(lambda: (p := agent.page()).one("stoker_pods_mapped") == 0 and p.one("stoker_pods_failures_total") > 0, agent.log_text)
        server.start()
        until(lambda: owners(agent) == ALL_OWNED and state(agent) == "ok", agent.log_text)
    finally:
        server.stop()
    all_is_well(agent)


def test_labels_outlive_a_reload(with_kubelet, path, tmp_path):
    counters = tmp_path / "c.csv"
    counters.write_text(f"{TEMP}, gauge, t\n")
    _, agent = with_kubelet(options=["-f", counters], period=LONGER)
    with kubelet.Kubelet(path, one_pod_per_gpu(agent)):
        until(lambda: owners(agent) == ALL_OWNED, agent.log_text)
        counters.write_text(f"{TEMP}, gauge, t\nDCGM_FI_DEV_POWER_USAGE, gauge, p\n")
        until(lambda: keeps(agent, owners, ALL_OWNED) and "DCGM_FI_DEV_POWER_USAGE" in agent.page().names(), agent.log_text)
        until(lambda: owners(agent, "DCGM_FI_DEV_POWER_USAGE") == ALL_OWNED, agent.log_text)


UID = "5e0f1c1a-9d3b-4b52-8f57-%012d"
STATIC = "9bd5d1a2c7e44f0b8a6d3c2e1f009bd5"  # a static pod's is a hash of its file


def uids(agent):
    """gpu -> pod_uid of its series, None where the label is absent."""
    return {l["gpu"]: l.get("pod_uid") for l, _ in agent.page().all(TEMP)}


@pytest.fixture
def on_node(make_node, make_agent, path):
    """A node, the folder of pod logs below its root (not made yet), and an agent that is to say pods' UIDs."""

    def start(*options, ask=("--kubernetes-enable-pod-uid",), period=PERIOD):
        node = make_node("healthy-training")  # whose processes are in no pod: nothing is in the folder yet
        agent = make_agent(node.env, options=["-k", "--pod-resources-kubelet-socket", path, "--kubernetes-period", period, *ask, *options])
        return agent, node.tree / "var" / "log" / "pods"

    return start


def make_pods(logs, *names):
    for name in names:
        (logs / name / "main").mkdir(parents=True)


def test_uids_of_pods(on_node, path):
    agent, logs = on_node(period=LONGER)
    make_pods(logs, *[f"ns_pod-{i}_{UID % i}" for i in range(1, 7)], f"ns_pod-0_{STATIC}", f"other_pod-7_{UID % 7}",
              "ns_pod-7", "ns_pod-7_", "ns_pod-7_unlikely", f"ns_pod-7_x_{UID % 8}", f"ns_pod_7_{UID % 9}", "\udcff\n_\x01_" + UID % 1,
              f"{'n' * 64}_pod-7_{UID % 1}", f"pod-7_ns_{UID % 1}", f"ns_pod-7_{UID % 1}0")
    (logs / f"ns_pod-7_{UID % 10}").write_text("")
    (logs / f"ns_pod-7_{UID % 11}").symlink_to(logs)
    expected = {"0": STATIC, **{str(i): UID % i for i in range(1, 7)}, "7": None}
    with kubelet.Kubelet(path, one_pod_per_gpu(agent)) as server:
        until(lambda: uids(agent) == expected, lambda: f"{uids(agent)} {agent.log_text()}")
        until(lambda: owners(agent) == ALL_OWNED, agent.log_text)
        assert STATIC in str(agent.gpu(0)) and STATIC not in str(agent.gpu(1))
        make_pods(logs, f"ns_pod-7_{UID % 7}")  # a folder that comes later is found too
        until(lambda: uids(agent)["7"] == UID % 7, lambda: f"{uids(agent)} {agent.log_text()}")
        server.restart()  # and is kept over a restart of the kubelet
        calls = server.calls
        until(lambda: keeps(agent, uids, {**expected, "7": UID % 7}) and server.calls > calls + 1, "it asks")
        all_is_well(agent)
    assert "pod_uid" not in agent.log_text()


def test_a_pod_made_anew_under_its_name(on_node, path):
    agent, logs = on_node()
    make_pods(logs, f"ns_pod-0_{UID % 900}", f"ns_pod-1_{UID % 1}")
    with kubelet.Kubelet(path, one_pod_per_gpu(agent)):
        until(lambda: uids(agent)["0"] == UID % 900, lambda: f"{uids(agent)} {agent.log_text()}")
        make_pods(logs, f"ns_pod-0_{UID % 100}")  # the kubelet's answer stays the same; the old folder is still there
        until(lambda: uids(agent)["0"] == UID % 100, lambda: f"{uids(agent)} {agent.log_text()}")
        until(lambda: len(agent.page().all(TEMP, gpu="0")) == 1, agent.log_text)
        (logs / f"ns_pod-0_{UID % 900}" / "main").rmdir()
        (logs / f"ns_pod-0_{UID % 900}").rmdir()
        (logs / f"ns_pod-1_{UID % 1}" / "main").rmdir()
        (logs / f"ns_pod-1_{UID % 1}").rmdir()
        until(lambda: uids(agent)["1"] is None, lambda: f"{uids(agent)} {agent.log_text()}")
        until(lambda: uids(agent)["0"] == UID % 100, lambda: f"{uids(agent)} {agent.log_text()}")
        all_is_well(agent)


def test_a_folder_of_pod_logs_that_is_missing(on_node, path):
    agent, logs = on_node()
    with kubelet.Kubelet(path, one_pod_per_gpu(agent)) as server:
        until(lambda: "pod_uid" in agent.log_text(), agent.log_text)
        calls = server.calls
        until(lambda: server.calls > calls + 30, "it asks")
        line, = [l for l in agent.log_text().splitlines() if "pod_uid" in l]
        assert str(logs) in line and "No such file" in line and "/var/log/pods" in line and "--kubernetes-pod-logs" in line
        until(lambda: owners(agent) == ALL_OWNED and set(uids(agent).values()) == {None}, lambda: f"{uids(agent)} {agent.log_text()}")
        all_is_well(agent)
        make_pods(logs, *[f"ns_pod-{i}_{UID % i}" for i in range(8)])
        until(lambda: uids(agent) == {str(i): UID % i for i in range(8)}, lambda: f"{uids(agent)} {agent.log_text()}")
        logs.rename(logs.with_name("gone"))  # what was known stays, and it is said
        until(lambda: agent.log_text().count("label pod_uid: open") == 2, agent.log_text)
        until(lambda: uids(agent) == {str(i): UID % i for i in range(8)}, lambda: f"{uids(agent)} {agent.log_text()}")


def test_a_folder_of_pod_logs_that_is_a_file(on_node, path, tmp_path):
    agent, logs = on_node("--kubernetes-pod-logs", "/here")
    here = logs.parents[2] / "here"
    here.write_text("")
    with kubelet.Kubelet(path, one_pod_per_gpu(agent)):
        until(lambda: "Not a directory" in agent.log_text(), agent.log_text)
        until(lambda: owners(agent) == ALL_OWNED and set(uids(agent).values()) == {None}, lambda: f"{uids(agent)} {agent.log_text()}")
        all_is_well(agent)
        here.unlink()
        make_pods(here, f"ns_pod-3_{UID % 3}")
        until(lambda: uids(agent)["3"] == UID % 3, lambda: f"{uids(agent)} {agent.log_text()}")


def test_uids_only_where_they_are_asked_for(on_node, path):
    agent, logs = on_node(ask=())
    make_pods(logs, *[f"ns_pod-{i}_{UID % i}" for i in range(8)])
    with kubelet.Kubelet(path, one_pod_per_gpu(agent)) as server:
        until(lambda: owners(agent) == ALL_OWNED, agent.log_text)
        calls = server.calls
        until(lambda: server.calls > calls + 15, "it asks")
        assert set(uids(agent).values()) == {None} and UID % 1 not in agent.get("/api/v1/gpus")[1]


def test_virtual_gpus_bring_uids(on_node, path):
    agent, logs = on_node(ask=["--kubernetes-virtual-gpus"])
    make_pods(logs, f"ns_pod-5_{UID % 5}")
    with kubelet.Kubelet(path, one_pod_per_gpu(agent)):
        until(lambda: uids(agent)["5"] == UID % 5, lambda: f"{uids(agent)} {agent.log_text()}")


def test_uids_are_turned_on_by_a_reload(make_node, make_agent, path, tmp_path):
    config = tmp_path / "stoker.yaml"
    text = f"kubernetes: {{enabled: true, socket: {path}, period: 100ms, pod_uid: %s, pod_logs: %s}}\n"
    config.write_text(text % ("false", "/one"))
    node = make_node()
    agent = make_agent(node.env, options=["--config", config])
    make_pods(node.tree / "one", f"ns_pod-1_{UID % 1}")
    make_pods(node.tree / "two", f"ns_pod-2_{UID % 2}")
    with kubelet.Kubelet(path, one_pod_per_gpu(agent)):
        until(lambda: owners(agent) == ALL_OWNED and set(uids(agent).values()) == {None}, agent.log_text)
        for on, folder, found in ("true", "/one", {"1": UID % 1}), ("true", "two", {"2": UID % 2}), ("false", "two", {}):
            config.write_text(text % (on, folder))
            until(lambda: {g: u for g, u in uids(agent).items() if u} == found and owners(agent) == ALL_OWNED,
                  lambda: f"{uids(agent)} {agent.log_text()}")


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
        until(lambda: owners(agent) == NOBODYS, agent.log_text)
        all_is_well(agent)
        failures = agent.page().one("stoker_pods_failures_total")
        until(lambda: agent.page().one("stoker_pods_failures_total") > failures, "it asks again")
    assert len(agent.log_text().splitlines()) < 20, "one line says it"
    with kubelet.Kubelet(path, one_pod_per_gpu(agent)):
        until(lambda: owners(agent) == ALL_OWNED, agent.log_text)


def test_scrapes_do_not_wait_for_a_kubelet_that_hangs(with_kubelet, path):
    _, agent = with_kubelet()
    with kubelet.Kubelet(path, one_pod_per_gpu(agent)):
        until(lambda: owners(agent) == ALL_OWNED, agent.log_text)
    asked = {}  # what is under way: questions by connection

    def take(connection, stream):  # the question, and never answer
        asked[connection.number] = stream

    with kubelet.Bare(path, take) as silent:
        def comes_meanwhile():
            """A scrape that begins and ends while one question stands."""
            before = dict(asked)
            page = agent.page()
            return page.names() and before and before == asked and len(silent.open) == 1

        for _ in range(3):
            until(comes_meanwhile, "a page while the kubelet is silent")
        until(lambda: owners(agent) == ALL_OWNED or state(agent) != "ok", agent.log_text)
        all_is_well(agent)
        until(lambda: state(agent) == "timed_out", lambda: state(agent) + agent.log_text())
        until(lambda: owners(agent) == NOBODYS, agent.log_text)
        all_is_well(agent)
        until(comes_meanwhile, "a page while the kubelet is silent")


@pytest.mark.slow("500 pods")
def test_five_hundred_pods(with_kubelet, path):
    """Sixty replicas of each GPU and pods without one: scrapes and numbers go on, and all are named."""
    _, agent = with_kubelet(options=["--nvidia-resource-names", "nvidia.com/gpu.shared"])
    pods = [(f"web-{g['index']}-{k}", f"team-{k % 7}", [("srv", [("nvidia.com/gpu.shared", [f"{g['uuid']}::{k}"])])])
            for g in agent.gpus() for k in range(60)]
    pods += [(f"cpu-{n}", "kube-system", [("main", [("cpu", [str(n)])])]) for n in range(20)]
    with kubelet.Kubelet(path, kubelet.reply(*pods)):
        until(lambda: len(owners(agent)) == 480, lambda: f"{len(owners(agent))} {agent.log_text()}")

        def whole():
            page = agent.page()
            assert page.one("stoker_pods_mapped") == 480
            for index in range(8):
                mine = page.all(TEMP, gpu=str(index))
                assert len(mine) == 60 and len({l["vgpu"] for l, _ in mine}) == 60 and len({v for _, v in mine}) == 1

        settles(whole)
        all_is_well(agent)
