# SPDX-License-Identifier: Apache-2.0
"""Pods get the GPUs that `stoker place serve` chose for them, where their order and the kubelet's are the same; and whatever is
missing, each gets as many as it asks for."""
import subprocess

import pytest
from agent_rig import until
from apiserver import STATUS, Server

PODS = "/api/v1/pods"


def pod(name, gpus, count, second, started=False):
    status = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": f"2026-03-01T10:00:{second:02}Z"}]}
    return {"metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": "7",
                         **({"annotations": {"stoker.dev/gpus": gpus}} if gpus else {})},
            "spec": {"nodeName": "worker-7", "containers": [{"resources": {"limits": {"nvidia.com/gpu": str(count)}}}]},
            "status": {**status, **({"startTime": "2026-03-01T10:01:00Z"} if started else {})}}


@pytest.fixture
def api(tmp_path):
    server = Server(tmp_path)
    server.lists[PODS] = []
    yield server
    server.stop()


@pytest.fixture
def placed(make_side, api):
    return lambda *words: make_side(options=["--follow-placement", "--kubernetes-account", api.account, "--node-period", "200ms", *words],
                                    environ=api.env)


class Node:
    """What a kubelet keeps: which devices are free."""

    def __init__(self, side):
        self.side, self.plugin = side, side.plugin()
        self.uuids = [g["uuid"] for g in side.agent.gpus()]
        self.free = list(reversed(self.uuids))

    def take(self, count):
        chosen = self.plugin.prefer(self.free, count)
        assert len(chosen) == count
        granted = self.plugin.allocate(*chosen).envs["NVIDIA_VISIBLE_DEVICES"].split(",")
        self.free = [u for u in self.free if u not in granted]
        return sorted(map(self.uuids.index, granted))


def follow(api, side):
    until(lambda: any(q.get("watch") for path, q, _ in api.asked if path == PODS), side.log_text)


def test_pods_get_what_was_chosen_for_them(placed, api):
    api.lists[PODS] = [pod("second", "6", 1, 5), pod("first", "3", 1, 2), pod("pair", "1,5", 2, 9), pod("runs", "7", 1, 1, started=True)]
    side = placed()
    follow(api, side)
    node = Node(side)
    assert [node.take(1), node.take(2), node.take(1)] == [[3], [1, 5], [6]]
    path, query, _ = next(a for a in api.asked if a[0] == PODS)
    assert query["fieldSelector"] == "spec.nodeName=worker-7,status.phase=Pending" and query["resourceVersion"] == "0"
    assert len(node.take(2)) == 2  # all of them have theirs
    side.node.inject("xid", "79", "gpu=0")  # so that the agent is asked again now
    metric = lambda outcome: side.agent.page().one("stoker_kubelet_placed_total", outcome=outcome)  # noqa: E731
    until(lambda: [metric(o) for o in ("as_chosen", "other", "unknown")] == [3, 0, 1], side.log_text)


def test_a_pod_that_comes_later(placed, api):
    side = placed()
    follow(api, side)
    node = Node(side)
    assert len(node.take(1)) == 1  # no pod is told of: it is waited for, for a while only
    gpus = sorted(map(node.uuids.index, node.free))[2:5:2]
    api.lists[PODS] = [pod("a", ",".join(map(str, gpus)), 2, 1)]
    until(lambda: node.plugin.prefer(node.free, 2) == [node.uuids[g] for g in gpus], side.log_text)
    assert node.take(2) == gpus


@pytest.mark.parametrize("status", [403, 500])
def test_without_the_right_all_is_as_ever(placed, api, status):
    api.fail = (status, {**STATUS, "message": "no pods for you", "code": status})
    api.lists[PODS] = [pod("first", "3", 1, 2)]
    side = placed()
    node = Node(side)
    until(lambda: side.log_text().count("the node's pods that wait cannot be read: HTTP"), side.log_text)
    taken = node.take(4)
    assert len(node.take(1)) == 1 and len(taken) == 4
    tried = api.count(PODS)
    until(lambda: api.count(PODS) > tried, side.log_text)
    assert side.log_text().count("no pods for you") == 1
    side.node.inject("xid", "79", f"gpu={taken[0]}")  # so that the agent is asked again now
    state = "denied" if status == 403 else "unreachable"
    until(lambda: side.agent.page().one("stoker_kubernetes_api_state", read="the node's pods that wait", state=state) == 1, side.log_text)
    api.fail = None
    follow(api, side)
    api.lists[PODS] = [pod("next", str(node.uuids.index(node.free[0])), 1, 2)]
    until(lambda: node.plugin.prefer(node.free, 1) == node.free[:1] and node.plugin.prefer(node.free[::-1], 1) == node.free[:1], side.log_text)


@pytest.mark.parametrize("words, says", [
    (["--follow-placement", "--node-name", ""], "--node-name"),
    (["--follow-placement", "--node-name", "n", "--dra-driver", "gpu.nvidia.com"], "is not for claims")])
def test_wrong_options(stoker, words, says):
    result = subprocess.run([stoker, "kubelet", *words], capture_output=True, text=True)
    assert result.returncode == 2 and says in result.stderr, result.stderr
