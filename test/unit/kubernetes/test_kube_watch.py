# SPDX-License-Identifier: Apache-2.0
"""What is read is watched: changes come at once, and every way in which a watch ends."""
import json
import threading
import time
import urllib.parse

import pytest
from apiserver import STATUS, pod

PODS, NODE = "/api/v1/pods", "/api/v1/nodes/worker-7"
LIST = PODS + "?fieldSelector=spec.nodeName%3Dworker-7"


@pytest.fixture
def start(driver, api):
    def make(path=LIST):
        return driver("", path)

    api.lists[PODS] = [pod("a", {})]
    return make


def asked(api, watch):
    return [query for path, query, _ in api.asked if path in (PODS, NODE, NODE.rsplit("/", 1)[0]) and ("watch" in query) == watch]


def test_a_list(start, api):
    one = start()
    assert one.reply() == ["a"]
    api.lists[PODS] = [pod("a", {}), pod("b", {})]
    assert sorted(one.reply()) == ["a", "b"]
    api.lists[PODS] = [pod("a", {"x": "y"}), pod("b", {})]
    assert sorted(one.reply()) == ["a", "b"]
    api.lists[PODS] = [pod("b", {})]
    assert one.reply() == ["b"]
    assert len(asked(api, False)) == 1
    first = asked(api, True)[0]
    assert first["allowWatchBookmarks"] == "true" and first["fieldSelector"] == "spec.nodeName=worker-7" and "limit" not in first
    assert int(first["timeoutSeconds"]) >= 1


def test_a_list_of_which_changes_are_told(start, api):
    api.lists[PODS], api.page = [pod(name, {}) for name in "abc"], 2
    one = start(PODS + "?pretty=false")
    assert one.reply() == ["a", "b", "c"]
    for names, change in (("abcd", ["there", "d"]), ("abc", ["gone", "d"]), ("bc", ["gone", "a"])):
        api.lists[PODS] = [pod(name, {}) for name in names]
        assert one.reply() == change
    api.lists[PODS] = [pod("b", {"x": "y"}), pod("c", {})]
    assert one.reply() == ["there", "b"]
    lists = asked(api, False)
    assert [(q["limit"], q.get("continue"), q.get("resourceVersion")) for q in lists] == [("100", None, None), ("100", "2", None)]


@pytest.mark.parametrize("path", [NODE, NODE + "/status"])
def test_an_object(start, api, path):
    api.objects[path] = api.objects[NODE] = {"metadata": {"name": "worker-7", "resourceVersion": "7"}}
    one = start(path)
    assert one.reply() == ["worker-7"]
    api.change(NODE, labels={"a": "b"})
    assert one.reply() == ["worker-7"]
    watch = next(a for a in api.asked if "watch" in a[1])
    assert watch[0] == "/api/v1/nodes" and watch[1]["fieldSelector"] == "metadata.name=worker-7"
    item = api.objects.pop(NODE)
    api.objects.pop(path, None)
    while "the server could not find" not in one.log() and "it was deleted" not in one.log():
        assert one.process.poll() is None
        time.sleep(0.01)
    api.objects[path] = api.objects[NODE] = item
    assert one.reply() == ["worker-7"]


class Script:
    """Answers watches from a list of functions, and all later ones as the server does."""

    def __init__(self, api, *steps):
        self.api, self.steps, self.watches, self.done = api, list(steps), [], threading.Event()

    def __call__(self, request):
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(request.path).query))
        if "watch" not in query:
            return None
        self.watches.append(query["resourceVersion"])
        if not self.steps:
            self.done.set()
            return None
        return self.steps.pop(0)(request)


def stream(api, *parts, end=True):
    def run(request):
        request.send_response(200)
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        for part in parts:
            api.send_chunk(request, part if isinstance(part, bytes) else json.dumps(part).encode() + b"\n")
        if end:
            api.send_chunk(request, b"")
        else:
            request.close_connection = True
        return "done"
    return run


def event(kind, name, version):
    return {"type": kind, "object": {"metadata": {"name": name, "namespace": "ns", "resourceVersion": version}}}


def bookmark(version):
    return {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": version}}}


def test_it_goes_on_from_the_last_version(start, api):
    text = json.dumps(event("ADDED", "c", "210")).encode() + b"\n"
    script = api.fail = Script(api, stream(api), stream(api, event("ADDED", "b", "200")), stream(api, bookmark("205")),
                               stream(api, text[:30], text[30:] + b"\n\n", event("DELETED", "b", "220")), stream(api))
    one = start()
    assert one.reply() == ["a"] and sorted(one.reply()) == ["a", "b"]
    last = []
    while "c" not in last or "b" in last:
        last = one.reply()
    assert sorted(last) == ["a", "c"]
    assert script.done.wait(60)
    assert script.watches[0] == script.watches[1] and script.watches[2:6] == ["200", "205", "220", "220"]


GONE = {"type": "ERROR", "object": {**STATUS, "code": 410, "reason": "Expired", "message": "too old resource version"}}


@pytest.mark.parametrize("step", [
    lambda api: lambda request: (410, {**STATUS, "code": 410}),
    lambda api: stream(api, GONE),
    lambda api: stream(api, {"type": "ERROR", "object": {**STATUS, "code": 500, "message": "etcd"}}),
    lambda api: stream(api, b"{\"type\": \n"),
    lambda api: stream(api, b"[]\n"),
    lambda api: stream(api, {"type": "ADDED", "object": {}}),
    lambda api: stream(api, *[b"x" * 100000] * 50),
    lambda api: stream(api, event("ADDED", "b", "9"), end=False),
    lambda api: stream(api, b'{"kind": "List", "items": []}'),
    lambda api: lambda request: (500, STATUS),
], ids=["410", "gone", "error", "no-json", "no-event", "no-name", "long", "cut", "no-watch", "500"])
def test_it_is_read_again(start, api, step):
    script = api.fail = Script(api, step(api))
    one = start()
    assert one.reply() == ["a"] and script.done.wait(60)
    assert len(asked(api, False)) == 2 and "7" not in script.watches
    api.fail = None  # the watch of the script's end goes on as the server's
    api.lists[PODS] = [pod("z", {})]
    while one.reply() != ["z"]:
        pass


def test_a_watch_that_hangs_is_noticed(start, api):
    script = api.fail = Script(api, api.hang)
    one = start()
    assert one.reply() == ["a"] and one.reply() == ["a"]  # that is read again
    assert script.done.wait(60) and "cannot be read" in one.log()


def test_retry_after_is_kept(start, api):
    times = []

    def busy(request):
        times.append(time.monotonic())
        request.send_response(429)
        request.send_header("Retry-After", "1")
        request.send_header("Content-Length", "0")
        request.end_headers()
        return "done"

    api.fail = Script(api, busy)
    one = start()
    assert one.reply() == ["a"] and one.reply() == ["a"]
    assert time.monotonic() - times[0] >= 1


def test_a_server_that_lets_no_watch(start, api):
    """Said once; what was read stays, and the period of before counts (an hour here)."""
    api.fail = Script(api, *[lambda request: (403, {**STATUS, "message": "cannot watch"})] * 9)
    one = start()
    assert one.reply() == ["a"]
    while "cannot be watched" not in one.log():
        assert one.process.poll() is None
        time.sleep(0.01)
    assert "things cannot be watched: HTTP 403: cannot watch; it is read every 1h instead" in one.log()
    assert len(api.asked) == 2 and one.end() == []
