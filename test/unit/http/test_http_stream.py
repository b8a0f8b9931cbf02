# SPDX-License-Identifier: Apache-2.0
"""Streams of events: wire/http/stream.c."""
import contextlib

from http_under_test import PATIENCE, Answer, is_closed, read_all, read_answer, read_until, request, serving, wait_until


def unchunk(data):
    out = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        n = int(size, 16)
        out += data[:n]
        assert data[n:n + 2] == b"\r\n"
        data = data[n + 2:]
        if not n:
            assert data == b""
            return out
    raise AssertionError("no last chunk")


def test_the_head_comes_at_once_and_events_follow(exe):
    with serving(exe, "--listen", "127.0.0.1:0") as server, server.connect() as s:
        s.sendall(request("/stream"))
        answer = Answer.parse(read_until(s, b"\r\n\r\n"))
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert server.get("/ticks?ms=20").status == 204
        for i in range(1, 6):
            assert read_until(s, b"\n\n").endswith(f"data: {i}\n\n".encode())


def test_a_stream_that_ends(exe):
    with serving(exe, "--listen", "127.0.0.1:0") as server:
        with server.connect() as s:
            s.sendall(request("/stream?first=5&bytes=40000&end"))
            head = read_until(s, b"\r\n\r\n")
            data = b""
            while not data.endswith(b"\r\n0\r\n\r\n"):
                data += s.recv(65536)
            assert b"chunked" in head and unchunk(data) == b"x" * 200000
            s.sendall(request())  # the connection stays
            assert read_answer(s).body == b"ok\n"
        counts = server.counts()
        assert counts["streams"] == 0 and counts["streams_closed"] == 1 and counts["sent"] >= 200000
        old = server.talk(b"GET /stream?first=2&end HTTP/1.0\r\n\r\n")
        assert old.partition(b"\r\n\r\n")[2] == b"x" * 32


def test_head_of_a_stream(exe):
    with serving(exe, "--listen", "127.0.0.1:0") as server:
        assert server.get("/stream?first=3", method="HEAD").body == b""
        wait_until(lambda: server.counts()["streams"] == 0)
        assert server.counts()["streams_closed"] == 1


def test_a_client_that_leaves_is_noticed_without_an_event(exe):
    with serving(exe, "--listen", "127.0.0.1:0") as server:
        with contextlib.ExitStack() as stack:
            for _ in range(10):
                s = stack.enter_context(server.connect())
                s.sendall(request("/stream"))
                read_until(s, b"\r\n\r\n")
            assert server.counts()["streams"] == 10
        wait_until(lambda: server.counts()["connections"] == 1)
        counts = server.counts()
        assert counts["streams_closed"] == 10 and counts["streams"] == 0


def test_a_quiet_stream_is_not_idle(exe):
    with serving(exe, "--listen", "127.0.0.1:0", "--idle", "1s", "--head", "1s") as server, server.connect() as s:
        s.sendall(request("/stream"))
        read_until(s, b"\r\n\r\n")
        with server.connect() as other:  # idle; its end shows that the time has passed twice
            assert is_closed(other, wait=PATIENCE)
        with server.connect() as other:
            other.sendall(request())
            assert read_answer(other).status == 200
            assert is_closed(other, wait=PATIENCE)
        assert not is_closed(s)
        server.get("/ticks?ms=10")
        assert b"data" in read_until(s, b"\n\n")


def test_a_slow_client_is_dropped_and_others_are_not(exe):
    with serving(exe, "--listen", "127.0.0.1:0") as server:
        with server.connect(rcvbuf=4096) as slow, server.connect() as good:
            good.sendall(request("/stream"))
            read_until(good, b"\r\n\r\n")
            slow.sendall(request("/stream?max=8&first=8&bytes=4000000"))
            read_until(slow, b"\r\n\r\n")
            server.get("/ticks?ms=10")
            wait_until(lambda: server.counts()["streams"] == 1)
            assert b"data" in read_until(good, b"\n\n")
            assert len(read_all(slow)) < 32000000
        assert server.counts()["evicted"] == 1


def test_more_than_the_queue_at_once_drops(exe):
    with serving(exe, "--listen", "127.0.0.1:0") as server:
        server.talk(request("/stream?max=4&first=5"))
        wait_until(lambda: server.counts()["streams"] == 0)


def test_many_streams_share_what_is_sent(exe):
    with serving(exe, "--listen", "127.0.0.1:0") as server, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in range(50)]
        for s in clients:
            s.sendall(request("/stream"))
            read_until(s, b"\r\n\r\n")
        server.get("/ticks?ms=10")
        for s in clients:
            for _ in range(5):
                assert b"data: " in read_until(s, b"\n\n")
        for s in clients[:25]:
            s.close()
        wait_until(lambda: server.counts()["streams"] == 25)
