# SPDX-License-Identifier: Apache-2.0
"""Requests, right and wrong: wire/http/request.c, engine.c, conn.c."""
import json
import random
import socket

import pytest
from http_under_test import PATIENCE, Answer, is_closed, read_all, read_answer, read_until, request, serving, wait_until


@pytest.fixture(scope="module")
def server(exe):
    with serving(exe, "--listen", "127.0.0.1:0") as s:
        yield s


def test_what_a_handler_sees(server):
    answer = server.get("/echo/a%20%C3%A9?b=1%26+2&a", head="X-Test: yes\r\n")
    assert answer.status == 200
    assert json.loads(answer.body) == {"path": "/echo/a é", "a": "", "b": "1& 2", "test": "yes",
                                       "remote": "127.0.0.1"}


def test_every_answer_has_a_length_and_nosniff(server):
    for path, status in (("/ok", 200), ("/nowhere", 404), ("/silent", 500), ("/big", 200)):
        answer = server.get(path)
        assert answer.status == status
        assert int(answer.headers["content-length"]) == len(answer.body)
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.body[:30] == b"abcdefghijklmnopqrstuvwabcdefg"
    assert len(answer.body) == 4 << 20
    answer = server.get("/ok")
    assert answer.headers["x-one"] == "1" and answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-type"] == "text/plain"
    empty = server.get("/ticks")
    assert empty.status == 204 and empty.body == b"" and "content-type" not in empty.headers


def test_head_has_the_length_but_no_body(server):
    raw = server.talk(b"HEAD /big HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    answer = Answer.parse(raw, "HEAD")
    assert answer.status == 200 and answer.headers["content-length"] == str(4 << 20) and answer.body == b""


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "NONSENSE", "get"])
def test_other_methods_are_refused(server, method):
    answer = server.get("/ok", method=method)
    assert answer.status == 405 and answer.headers["allow"] == "GET, HEAD"


def test_a_post_with_a_body_is_refused_at_its_head(server):
    with server.connect() as s:
        s.sendall(b"POST /ok HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n")
        assert read_answer(s).status == 405
        assert is_closed(s, wait=PATIENCE)


@pytest.mark.parametrize("target", ["/echo%00", "/echo/%", "/echo/%4", "/echo/%zz", "/echo?a=%00", "/echo?%0", "echo",
                                    "*", "?a=1", "ftp://x/echo"])
def test_bad_targets(server, target):
    assert server.get(target).status == 400


@pytest.mark.parametrize("target, path", [("http://other/echo/1", "/echo/1"), ("HTTPS://x:9/echo", "/echo"),
                                          ("/echo//..//x", "/echo//..//x"), ("/echo/%2e%2E%2f", "/echo/../")])
def test_odd_but_right_targets(server, target, path):
    answer = server.get(target)
    assert answer.status == 200 and json.loads(answer.body)["path"] == path


@pytest.mark.parametrize("raw", [
    b"\r\n\r\n\r\n\x00\xff\xfe\xfd" * 100,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    b"GET /ok\r\n\r\n",
    b"GET /ok HTTP/1.1\r\n\r\n",  # no Host
    b"GET /ok HTTP/1.1\r\nHost: x\r\nno colon here\r\n\r\n",
    b"GET /ok HTTP/9.9\r\nHost: x\r\n\r\n",
    b"GET /ok HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"GET /ok HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551617\r\n\r\n",
    b"GET /ok HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET  HTTP/1.1\r\nHost: x\r\n\r\n",
])
def test_garbage_gets_an_error_and_harms_nobody(server, raw):
    got = server.talk(raw, half=True)
    assert not got or 400 <= Answer.parse(got).status < 600
    assert server.get("/ok").status == 200


def test_random_bytes(server):
    rng = random.Random(4)
    for _ in range(200):
        parts = [b"GET ", b"/ok", b"?a=%", b" HTTP/1.1", b"\r\n", b"\r\n\r\n", b"Host: x", b": ", bytes([rng.randrange(256)]),
                 b"Content-Length: 3", b"Transfer-Encoding: chunked", rng.randbytes(rng.randrange(300))]
        server.talk(b"".join(rng.choice(parts) for _ in range(rng.randrange(12))), half=True)
    assert server.get("/ok").body == b"ok\n"


def test_a_large_head_is_refused(server):
    assert server.get("/echo/" + "x" * 7000).status == 200
    assert server.get("/echo/" + "x" * 9000).status in (414, 431)
    assert server.get("/echo/" + "x" * 100000).status in (414, 431)
    assert server.get("/ok", head=f"X-Test: {'y' * 9000}\r\n").status == 431
    assert server.get("/ok", head=f"X-Test: {'y' * 200000}\r\n").status == 431
    assert server.get("/ok", head="".join(f"X-{i}: {i}\r\n" for i in range(2000))).status == 431
    assert server.get("/ok", head="".join(f"X-{i}: {i}\r\n" for i in range(100))).status == 200
    assert server.get("/ok").status == 200


def test_bodies_are_refused(server):
    assert server.get("/ok", head="Content-Length: 5\r\n").status == 413
    assert server.get("/ok", head="Transfer-Encoding: chunked\r\n").status == 411
    assert server.get("/ok", head="Content-Length: 0\r\n").status == 200


def test_a_body_that_is_allowed_is_skipped(exe):
    with serving(exe, "--listen", "127.0.0.1:0", "--body-bytes", "10") as server, server.connect() as s:
        for _ in range(3):
            s.sendall(b"GET /ok HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nGET /big H")
            assert read_answer(s).body == b"ok\n"
        s.sendall(b"GET /ok HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n")
        assert read_answer(s).status == 413
        assert is_closed(s, wait=PATIENCE)


def test_connections_are_kept(server):
    before = server.counts()
    with server.connect() as s:
        for _ in range(50):
            s.sendall(request())
            assert read_answer(s).body == b"ok\n"
    after = server.counts()
    assert after["requests"] - before["requests"] == 51
    assert after["sent"] - before["sent"] >= 150


def test_http_1_0(server):
    assert Answer.parse(server.talk(b"GET /ok HTTP/1.0\r\n\r\n")).body == b"ok\n"
    with server.connect() as s:
        for _ in range(3):
            s.sendall(b"GET /ok HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n")
            assert read_answer(s).body == b"ok\n"


def test_pipelined_requests_are_answered_in_order(server):
    with server.connect() as s:
        s.sendall(b"".join(request(f"/echo/{i}") for i in range(100)))
        for i in range(100):
            assert json.loads(read_answer(s).body)["path"] == f"/echo/{i}"


def test_a_client_that_ends_its_side_is_still_answered(server):
    assert Answer.parse(server.talk(request("/big"), half=True)).headers["content-length"] == str(4 << 20)
    got = server.talk(request() * 3, half=True)
    assert got.count(b"\r\n\r\nok\n") == 3


def test_a_head_byte_by_byte(server):
    with server.connect() as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request("/echo/slow", "X-Test: 1\r\n"):
            s.sendall(bytes([byte]))
        assert json.loads(read_answer(s).body)["path"] == "/echo/slow"


def test_a_client_that_leaves_within_an_answer(server):
    for _ in range(20):
        with server.connect(rcvbuf=4096) as s:
            s.sendall(request("/big"))
            read_until(s, b"\r\n\r\n")
    wait_until(lambda: server.counts()["connections"] == 1)
    assert server.get("/ok").status == 200


def test_slow_senders_and_idle_ones_are_closed(exe):
    with serving(exe, "--listen", "127.0.0.1:0", "--head", "2s", "--idle", "2500ms") as server:
        with server.connect() as silent, server.connect() as slow, server.connect() as kept, server.connect() as second:
            kept.sendall(request())
            assert read_answer(kept).body == b"ok\n"
            second.sendall(request() + b"GET /ok HTTP/1.1\r\nHost")
            sent = 0
            try:
                while not is_closed(slow, wait=0.05):
                    slow.sendall(b"GET /ok HTTP/1.1\r\nX-A: "[sent:sent + 1] or b"y")
                    sent += 1
            except (BrokenPipeError, ConnectionResetError):
                pass
            assert sent > 1
            assert read_all(silent) == b""
            assert read_all(kept) == b""
            assert b"ok\n" in read_all(second)
        assert server.get("/ok").status == 200


def test_a_client_that_does_not_read_is_closed(exe):
    with serving(exe, "--listen", "127.0.0.1:0", "--idle", "500ms") as server, server.connect(rcvbuf=4096) as s:
        s.sendall(request("/big") * 8)
        wait_until(lambda: server.counts()["connections"] == 1)
        assert len(read_all(s)) < 32 << 20


def test_memory_does_not_grow(exe):
    if b"__asan_init" in exe.read_bytes():
        pytest.skip("AddressSanitizer keeps what was freed")
    with serving(exe, "--listen", "127.0.0.1:0") as server:
        def ask(count):
            with server.connect() as s:
                for _ in range(count // 100):
                    s.sendall(request("/ok") * 50 + request("/echo?a=1&b=2") * 50)
                    got = b""
                    while got.count(b"HTTP/1.1 200") < 100 or not got.endswith(b"}"):
                        got += s.recv(1 << 20)

        def churn():
            for _ in range(1000):
                assert server.get("/echo").status == 200

        ask(10000)
        churn()
        before = server.counts()["rss"]
        ask(100000)
        churn()
        assert server.counts()["rss"] - before <= 32  # pages


HOSTS = [  # Host -> status, where "node-7", "NODE-7.example.org" and "*.svc" are listed
    ("127.0.0.1:9400", 200), ("10.1.2.3", 200), ("[::1]:9400", 200), ("[fd00::7]", 200), ("localhost", 200),
    ("LocalHost:80", 200), ("a.localhost", 200), ("", 200), ("node-7", 200), ("Node-7.", 200), ("node-7.example.org:9400", 200),
    ("stoker.monitoring.svc:9400", 200), ("evil.example", 421), ("node-7.evil.example", 421), ("anode-7", 421), ("svc", 421),
    (".svc", 421), ("monitoring.svc.evil.example", 421), ("127.0.0.1.evil.example", 421), ("localhost.evil.example", 421),
    ("notlocalhost", 421), ("x@127.0.0.1", 421), ("[evil.example]", 421), ("1.2.3", 421), ("a" * 300, 421),
]


@pytest.mark.parametrize("host, status", HOSTS)
def test_host(exe, host, status):
    hosts = ["--hosts", "node-7,NODE-7.example.org,*.svc"]
    with serving(exe, "--listen", "127.0.0.1:0", *hosts) as server:
        for target in ("/ok", f"http://{host or 'localhost'}/ok"):
            answer = Answer.parse(server.talk(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()))
            assert answer.status == status
            if status == 421:
                assert b"web.hosts" in answer.body
                assert answer.headers["content-type"].startswith("text/plain")
        err = server.stop()
        assert ("web.hosts lists names" in err) == (status == 421)


def test_any_host_where_none_is_listed_and_with_a_star(exe):
    for options in ([], ["--hosts", "*"]):
        with serving(exe, "--listen", "127.0.0.1:0", *options) as server:
            assert server.get("/ok").status == 200  # "Host: x"


def test_a_target_with_another_host(exe):
    with serving(exe, "--listen", "127.0.0.1:0", "--hosts", "node-7") as server:
        raw = server.talk(b"GET http://evil.example/ok HTTP/1.1\r\nHost: node-7\r\nConnection: close\r\n\r\n")
        assert Answer.parse(raw).status == 421


def test_a_unix_socket_asks_by_any_host(exe, tmp_path):
    with serving(exe, "--listen", f"unix:{tmp_path}/s", "--hosts", "node-7") as server, socket.socket(socket.AF_UNIX) as s:
        s.connect(f"{tmp_path}/s")
        s.sendall(b"GET /ok HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        assert Answer.parse(read_all(s)).status == 200
        assert server.urls


def test_two_hosts(exe):
    for second in ("x", "y"):
        with serving(exe, "--listen", "127.0.0.1:0") as server:
            assert server.get("/ok", head=f"Host: {second}\r\n").status == 400
