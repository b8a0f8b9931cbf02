# SPDX-License-Identifier: Apache-2.0
"""Labels and the condition GPUsHealthy of the node, by an API server of the tests."""
import json

import pytest
from agent_rig import until
from apiserver import STATUS, Server

NODE = "/api/v1/nodes/worker-7"
OTHERS = {"team": "blue", "nvidia.com/gpu.deploy.dcgm": "true", "nvidia.com/gpu.present": "true"}
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}


@pytest.fixture
def api(tmp_path):
    server = Server(tmp_path)
    node = {"kind": "Node", "metadata": {"name": "worker-7", "resourceVersion": "100", "labels": dict(OTHERS)},
            "status": {"conditions": [dict(READY)]}}
    server.objects[NODE] = server.objects[NODE + "/status"] = node
    server.node = node
    yield server
    server.stop()


@pytest.fixture
def kept(make_side, api, tmp_path):
    def make(*words):
        return make_side(options=["--update-node", "--features-file", tmp_path / "gfd", "--kubernetes-account", api.account,
                                  "--node-period", "200ms", *words], environ=api.env)

    return make


def labels(api):
    return api.node["metadata"]["labels"]


def condition(api):
    return next((c for c in api.node["status"]["conditions"] if c["type"] == "GPUsHealthy"), {})


def test_what_is_offered_is_on_the_node(kept, api):
    side = kept()
    until(lambda: labels(api).get("nvidia.com/gpu.count") == "8" and condition(api), lambda: f"{api.node} {side.log_text()}")
    assert OTHERS.items() <= labels(api).items() and READY in api.node["status"]["conditions"]
    assert "nvidia.com/gfd.timestamp" not in labels(api)  # it alone is no reason to change a node
    assert (condition(api)["status"], condition(api)["reason"], condition(api)["message"]) == ("True", "AllHealthy", "8 devices")
    since = condition(api)["lastTransitionTime"]
    writes = len(api.patches)
    side.node.inject("xid", "79", "gpu=3")
    until(lambda: condition(api)["status"] == "False", lambda: f"{api.node} {side.log_text()}")
    assert condition(api)["reason"] == "GpuLost" and condition(api)["message"].startswith("1 of 8 devices unhealthy: GPU 3")
    assert condition(api)["lastTransitionTime"] >= since
    until(lambda: labels(api)["stoker.dev/gpu.devices.healthy"] == "7", lambda: f"{labels(api)}")
    changed = {key: value for patch in api.patches[writes:] for key, value in patch["labels"].items()}
    assert changed == {"stoker.dev/gpu.devices.healthy": "7", "stoker.dev/gpu.health": "fatal"}  # only what has changed


def test_the_node_says_which_gpus_are_unhealthy(kept, api):
    unhealthy = lambda: api.node["metadata"].get("annotations", {}).get("stoker.dev/gpus-unhealthy")  # noqa: E731
    api.change(NODE, annotations={"stoker.dev/gpus-unhealthy": "7", "theirs": "stays"})
    side = kept()
    until(lambda: unhealthy() is None, side.log_text)  # of before
    for gpu in (5, 3):
        side.node.inject("xid", "79", f"gpu={gpu}")
    until(lambda: unhealthy() == "3,5", lambda: f"{api.node} {side.log_text()}")
    side.node.inject("reset", "gpu=3")
    until(lambda: unhealthy() == "5", side.log_text)
    api.change(NODE, annotations={"stoker.dev/gpus-unhealthy": "1"})  # somebody else
    until(lambda: unhealthy() == "5", side.log_text)
    side.node.inject("reset", "gpu=5")
    until(lambda: unhealthy() is None and api.node["metadata"]["annotations"]["theirs"] == "stays", side.log_text)


def test_the_node_says_how_near_its_gpus_are(kept, api):
    links = lambda: api.node["metadata"].get("annotations", {}).get("stoker.dev/gpu-links")  # noqa: E731
    side = kept()
    until(lambda: links(), side.log_text)
    rows = [[int(score) for score in row.split(",")] for row in links().split(";")]
    assert [len(row) for row in rows] == [8, 7, 6, 5, 4, 3, 2, 1]
    assert all(score > 100 for row in rows for score in row[1:])  # by NVSwitch
    assert all(10 <= row[0] <= 50 for row in rows)  # to a network adapter


def test_labels_of_before_go_and_others_stay(kept, api):
    old = "nvidia.com/mig-1g.10gb.count"
    api.change(NODE, labels={old: "7", "stoker.dev/theirs": "yes"}, annotations={"stoker.dev/labels": f"{old},team,kubernetes.io/x"})
    side = kept()
    until(lambda: old not in labels(api) and "nvidia.com/gpu.count" in labels(api), lambda: f"{labels(api)} {side.log_text()}")
    assert OTHERS.items() <= labels(api).items() and labels(api)["stoker.dev/theirs"] == "yes"
    listed = api.node["metadata"]["annotations"]["stoker.dev/labels"].split(",")
    assert set(listed) == labels(api).keys() - OTHERS.keys() - {"stoker.dev/theirs"}
    api.change(NODE, labels={"nvidia.com/gpu.count": "3"})  # somebody else sets one
    until(lambda: labels(api)["nvidia.com/gpu.count"] == "8", side.log_text)


@pytest.mark.parametrize("status", [403, 429, 500])
def test_a_server_that_refuses_holds_up_no_device(kept, api, status):
    api.fail = (status, {**STATUS, "message": "not now, says the server", "code": status})
    side = kept()
    assert len(side.plugin().devices) == 8
    until(lambda: "not now, says the server" in side.log_text(), side.log_text)
    api.fail = None
    until(lambda: "nvidia.com/gpu.count" in labels(api) and condition(api), lambda: f"{api.node} {side.log_text()}")
    assert json.dumps(side.log_text()).count("not now") <= 4  # once for each thing, not for each try


def test_a_configuration_by_the_nodes_label(make_side, api, tmp_path):
    folder = tmp_path / "configs"
    folder.mkdir()
    for name, replicas in (("any", 2), ("busy", 4)):
        (folder / name).write_text("version: v1\nsharing:\n  timeSlicing:\n    resources: "
                                   f"[{{name: nvidia.com/gpu, replicas: {replicas}}}]\n")
    side = make_side(options=["--config-dir", folder, "--default-config", "any", "--kubernetes-account", api.account,
                              "--node-period", "200ms"], environ=api.env)
    until(lambda: len(side.plugin().devices) == 16, side.log_text)
    for value, count in (("busy", 32), ("none-such", 32), ("../any", 32), (None, 16)):
        api.change(NODE, labels={"nvidia.com/device-plugin.config": value})
        until(lambda: f"is '{value or ''}'" in side.log_text(), side.log_text)
        until(lambda: len(side.plugin().devices) == count, side.log_text)
    assert side.log_text().count("stays as it was") == 2
    assert not api.patches and "GPUsHealthy" not in json.dumps(api.node)  # the node was only read


EVENTS = "/api/v1/namespaces/default/events"


def events(api, end):
    return [o for path, o in api.objects.items() if path.startswith(EVENTS) and path.endswith(".end") == end]


def posts(api):
    return api.count(EVENTS)


def test_an_incident_is_an_event_of_the_node(kept, api):
    side = kept()
    until(lambda: condition(api), side.log_text)
    side.node.inject("xid", "79", "gpu=3")
    (event,) = until(lambda: events(api, False), side.log_text)
    assert (event["type"], event["reason"]) == ("Warning", "GpuLost") and event["count"] >= 1
    assert event["message"].startswith("GPU 3") and "reboot" in event["message"] and f"(incident {event['metadata']['name'].split('.')[-1]})" in event["message"]
    assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "worker-7", "uid": "worker-7"}
    assert event["source"] == {"component": "stoker", "host": "worker-7"} and event["firstTimestamp"].endswith("Z") and "." not in event["firstTimestamp"]
    side.process.terminate()
    assert side.process.wait(60) == 0
    told = posts(api)
    side.start()
    until(lambda: posts(api) > told, side.log_text)  # which the server refuses: it is there
    side.node.inject("reset", "gpu=3")
    (end,) = until(lambda: events(api, True), side.log_text)
    assert (end["type"], end["reason"]) == ("Normal", "GpuLost") and ": over (incident " in end["message"]
    assert len(events(api, False)) == 1 and posts(api) == told + 2


def test_events_that_are_refused_hold_up_nothing(kept, api):
    api.fail = lambda request: (403, {**STATUS, "message": "no events here"}) if "/events" in request.path else None
    api.no_watch = True
    side = kept()
    until(lambda: condition(api), side.log_text)
    side.node.inject("xid", "79", "gpu=3")
    until(lambda: "events of the node cannot be written: HTTP 403: no events here" in side.log_text(), side.log_text)
    until(lambda: condition(api)["status"] == "False", side.log_text)
    api.fail = None
    until(lambda: events(api, False), side.log_text)
    assert side.log_text().count("no events here") == 1


def test_many_incidents_are_few_requests(kept, api):
    side = kept()
    until(lambda: condition(api), side.log_text)
    for gpu in range(8):
        side.node.inject("xid", "79", f"gpu={gpu}")
    until(lambda: posts(api) == 8, lambda: f"{posts(api)} {side.log_text()}")
    for gpu in range(4):
        side.node.inject("reset", f"gpu={gpu}")
    until(lambda: condition(api)["message"].startswith("4 of 8"), side.log_text)
    assert posts(api) == 10 and len(events(api, True)) == 2  # the others wait for the next minute
