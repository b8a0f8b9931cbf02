# SPDX-License-Identifier: Apache-2.0
"""Single requests to the API server (kube_call) against the tests' own server."""
import threading

import pytest
from apiserver import STATUS

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims"
CLAIM = {"metadata": {"name": "a"}, "spec": {}}


def test_methods(driver, api):
    one = driver()
    reply = one.ask("POST", CLAIMS, CLAIM)
    assert reply == {"call": 0, "state": "ok", "text": "", "wait_ms": 0, "object": CLAIM}
    path, _, headers = api.asked[0]
    assert (path, headers["Content-Type"], headers["Authorization"]) == (CLAIMS, "application/json", "Bearer first.token")
    again = one.ask("POST", CLAIMS, CLAIM)
    assert (again["state"], again["text"]) == ("conflict", "HTTP 409: already exists")
    changed = {**CLAIM, "spec": {"devices": {}}}
    assert one.ask("PUT", f"{CLAIMS}/a", changed)["object"] == changed
    assert one.ask("GET", f"{CLAIMS}/a")["object"]["spec"] == changed["spec"]
    assert one.ask("PATCH", f"{CLAIMS}/a", {"spec": {"x": "y"}})["object"]["spec"] == {"devices": {}, "x": "y"}
    assert one.ask("DELETE", f"{CLAIMS}/a")["state"] == "ok" and not api.objects
    assert one.ask("DELETE", f"{CLAIMS}/a")["state"] == "not_found"
    assert len(api.asked) == 7 and one.end() == []


@pytest.mark.parametrize("answer, state, text", [
    ((401, {**STATUS, "message": "Unauthorized"}), "denied", "HTTP 401: Unauthorized"),
    ((403, {**STATUS, "message": "not\nyou"}), "denied", "HTTP 403: not you"),
    ((422, {**STATUS, "message": "invalid"}), "bad_reply", "HTTP 422: invalid"),
    ((503, b"<html>"), "unreachable", "HTTP 503"),
    ((301, b""), "bad_reply", "HTTP 301"),
    ((200, b"<html>"), "bad_reply", "the answer is no JSON object"),
    ((200, b"[1]"), "bad_reply", "the answer is no JSON object"),
    ((200, b'{"a": "' + b"x" * (4 << 20) + b'"}'), "bad_reply", "the answer is larger than 4 MiB"),
    ((204, b""), "ok", ""),
])
def test_answers(driver, api, answer, state, text):
    api.fail = answer
    one = driver()
    reply = one.ask("GET", CLAIMS)
    assert (reply["state"], reply["text"], reply["wait_ms"]) == (state, text, 0)
    assert reply.get("object") == (answer[1] if isinstance(answer[1], dict) else None)
    assert one.end() == [] and len(api.asked) == 1  # nothing is repeated


def test_a_server_that_wants_a_pause(driver, api):
    def refuse(request):
        request.send_response(429)
        request.send_header("Retry-After", "7")
        request.send_header("Content-Length", "0")
        request.end_headers()
        return "done"

    api.fail = refuse
    reply = driver().ask("GET", CLAIMS)
    assert (reply["state"], reply["wait_ms"]) == ("unreachable", 7000)


def test_without_an_account_or_a_server(driver, api, tmp_path):
    reply = driver(account=tmp_path / "none").ask("GET", CLAIMS)
    assert reply["state"] == "no_account" and "none/token" in reply["text"]
    reply = driver(env={"KUBERNETES_SERVICE_HOST": ""}).ask("GET", CLAIMS)
    assert reply["state"] == "no_account" and "KUBERNETES_SERVICE_HOST is not set" in reply["text"]
    assert not api.asked


@pytest.mark.parametrize("how", ["cancel", "close", "end"])
def test_what_is_under_way_ends_with_its_client(driver, api, how):
    seen = threading.Event()

    def hang(request):
        seen.set()
        return api.hang(request)

    api.fail = hang
    one = driver()
    one.tell(f"call GET {CLAIMS}")
    assert seen.wait(60)
    one.tell(f"call POST {CLAIMS} {{}}", *([how] if how != "end" else []))
    assert one.end() == []


@pytest.mark.parametrize("how", ["cancel", "close"])
def test_a_call_back_may_end_the_others(driver, api, how, tmp_path):
    one = driver()
    one.tell(f"then {how}", *[f"call GET {CLAIMS}"] * 3)
    assert one.reply()["state"] == "not_found" and one.end() == []
    one = driver(account=tmp_path / "none")  # no request is sent at all
    one.tell(f"then {how}", *[f"call GET {CLAIMS}"] * 3)
    assert one.reply()["state"] == "no_account" and one.end() == []
