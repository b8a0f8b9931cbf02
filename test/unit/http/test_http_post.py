# SPDX-License-Identifier: Apache-2.0
"""Bodies of POST: wire/http/request.c, conn.c."""
import contextlib
import socket

import pytest
from http_under_test import PATIENCE, is_closed, read_answer, read_until, request, serving, wait_until

POSTS = ["--listen", "127.0.0.1:0", "--posts", "/post,/post/two"]


@pytest.fixture(scope="module")
def server(exe):
    with serving(exe, *POSTS) as s:
        yield s


def post(body=b"", path="/post", head="", length=None):
    length = len(body) if length is None else length
    return f"POST {path} HTTP/1.1\r\nHost: x\r\n{head}Content-Length: {length}\r\n\r\n".encode() + body


def ask(s, data):
    s.sendall(data)
    return read_answer(s)


@pytest.mark.parametrize("body", [b"", b"{}", b"\x00\xff" * 10, bytes(range(256)) * 700, b"x" * (1 << 20)])
def test_a_body_arrives_whole(server, body):
    with server.connect() as s:
        for path in ("/post", "/post/two"):
            answer = ask(s, post(body, path))
            assert (answer.status, answer.body) == (200, b"POST %d " % len(body) + body)


def test_a_body_in_pieces(server):
    with server.connect() as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in post(b"in pieces"):
            s.sendall(bytes([byte]))
        assert read_answer(s).body == b"POST 9 in pieces"


def test_requests_in_a_row_keep_their_bodies(server):
    with server.connect() as s:
        s.sendall(b"".join(post(b"%d" % i) + request("/post") + request("/ok") for i in range(50)))
        for i in range(50):
            assert read_answer(s).body == b"POST %d %d" % (len(str(i)), i)
            assert read_answer(s).body == b"GET 0 "
            assert read_answer(s).body == b"ok\n"


def test_expect_continue(server):
    with server.connect() as s:
        s.sendall(post(head="Expect: 100-continue\r\n", length=4))
        assert read_until(s, b"\r\n\r\n").startswith(b"HTTP/1.1 100 ")
        assert ask(s, b"body").body == b"POST 4 body"
        s.sendall(post(head="Expect: 100-continue\r\n", length=(1 << 20) + 1))
        assert read_answer(s).status == 413  # before a byte of it is sent


@pytest.mark.parametrize("path", ["/ok", "/post/", "/post/three", "/", "/posts"])
def test_other_paths_take_none(server, path):
    with server.connect() as s:
        answer = ask(s, post(b"{}", path))
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
        assert is_closed(s, wait=PATIENCE)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "post"])
def test_other_methods_are_refused(server, method):
    assert server.get("/post", method=method).status == 405


def test_too_large_a_body(server):
    for length in ((1 << 20) + 1, 1 << 40, 1 << 64, "99999999999999999999999", "-1", "x"):
        with server.connect() as s:
            assert ask(s, post(length=length)).status in (400, 413)
            assert is_closed(s, wait=PATIENCE)


def test_a_body_of_unknown_length(server):
    for head in ("Transfer-Encoding: chunked\r\n", ""):
        with server.connect() as s:
            s.sendall(f"POST /post HTTP/1.1\r\nHost: x\r\n{head}\r\n".encode())
            assert read_answer(s).status == 411


def test_a_head_and_a_get_with_a_body_are_as_before(server):
    assert server.get("/post", method="HEAD").status == 200
    assert server.get("/post", head="Content-Length: 5\r\n").status == 413


def test_one_that_stalls_in_its_body_is_closed(exe):
    with serving(exe, *POSTS, "--head", "300ms", "--idle", "1h") as server, server.connect() as stalled, server.connect() as cut:
        stalled.sendall(post(b"a part", length=1000))
        cut.sendall(post(b"a part", length=1000))
        wait_until(lambda: server.counts()["held"] == 2000)
        cut.shutdown(socket.SHUT_RDWR)
        assert is_closed(stalled, wait=PATIENCE)
        wait_until(lambda: server.counts()["held"] == 0)


def test_bodies_count_towards_the_ceiling(exe):
    with serving(exe, *POSTS, "--answers", "4MiB") as server, contextlib.ExitStack() as stack:
        first, second, third = [stack.enter_context(server.connect()) for _ in range(3)]
        for s in (first, second):
            s.sendall(post(b"begun", length=1 << 20))
        wait_until(lambda: server.counts()["held"] == 2 << 20)
        answer = ask(third, post(length=1 << 20))
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        first.close()
        wait_until(lambda: server.counts()["held"] == 1 << 20)
        with server.connect() as s:
            assert len(ask(s, post(b"x" * 1000)).body) == 1010
        assert ask(second, b"y" * ((1 << 20) - 5)).status == 200
        wait_until(lambda: server.counts()["held"] == 0)


def test_a_body_waits_for_no_answer_that_nobody_takes(exe):
    with serving(exe, *POSTS, "--answers", "2MiB") as server, server.connect(rcvbuf=4096) as slow, server.connect() as s:
        slow.sendall(request("/own?bytes=2000000"))
        assert slow.recv(1) == b"H"
        s.sendall(post(b"begun", length=1 << 20))
        assert is_closed(slow, wait=PATIENCE)
