# SPDX-License-Identifier: Apache-2.0
"""Crowds: limits, who gives way to whom, and descriptors running out: wire/http/accept.c, conn.c."""
import contextlib
import resource
import socket
import time

import pytest
from http_under_test import PATIENCE, is_closed, read_answer, read_until, request, serving, wait_until


def connections(stack, server, count, **how):
    return [stack.enter_context(server.connect(**how)) for _ in range(count)]


def open_streams(stack, server, count):
    made = connections(stack, server, count)
    for s in made:
        s.sendall(request("/stream"))
        assert b"200" in read_until(s, b"\r\n\r\n")
    return made


def test_the_longest_idle_gives_way(exe):
    with serving(exe, "--listen", "127.0.0.1:0", "--connections", "8") as server, contextlib.ExitStack() as stack:
        first = connections(stack, server, 8)
        for s in first:  # in use one after the other: the order of their last use counts
            s.sendall(request())
            assert read_answer(s).status == 200
        first[0].sendall(request())
        assert read_answer(first[0]).status == 200
        late = connections(stack, server, 3)
        assert [is_closed(s, wait=PATIENCE) for s in first[1:4]] == [True] * 3
        for s in [first[0], *first[4:], *late]:
            s.sendall(request())
            assert read_answer(s).status == 200
        first[0].sendall(request("/counts"))
        assert b'"connections":8' in read_answer(first[0]).body


def test_one_address_does_not_push_out_another(exe):
    with serving(exe, "--listen", "127.0.0.1:0", "--per-peer", "4") as server, contextlib.ExitStack() as stack:
        other = connections(stack, server, 3, source="127.0.0.2")
        crowd = connections(stack, server, 20)
        assert all(is_closed(s, wait=PATIENCE) for s in crowd[:16])
        for s in other + crowd[16:]:
            s.sendall(request())
            assert read_answer(s).status == 200
        other[0].sendall(request("/counts"))
        assert b'"evicted":16' in read_answer(other[0]).body


def busy(stack, server, path, source=None):
    """A connection that was answered with more than it takes."""
    s = server.connect(source=source, rcvbuf=4096)
    stack.enter_context(s)
    s.sendall(request(path))
    assert s.recv(1) == b"H"
    return s


def test_who_gives_way_by_what_he_does(exe):
    options = ["--listen", "127.0.0.1:0", "--per-peer", "4", "--young", "0s", "--kept", "/big"]
    with serving(exe, *options) as server, contextlib.ExitStack() as stack:
        kept = busy(stack, server, "/big")
        stream = open_streams(stack, server, 1)[0]
        other = busy(stack, server, "/own?bytes=4000000")
        idle = connections(stack, server, 1)[0]
        idle.sendall(request())
        assert read_answer(idle).status == 200
        for i, victim in enumerate([idle, other, stream, kept]):
            later = [idle, other, stream, kept][i + 1:]
            busy(stack, server, "/big")
            assert is_closed(victim, wait=PATIENCE)
            assert not any(is_closed(s) for s in later if s is stream)  # a stalled one has much unread
            with server.connect(source="127.0.0.2") as s:
                s.sendall(request("/counts"))
                counts = read_answer(s).body
                assert b'"evicted":%d,' % (i + 1) in counts and b'"refused":0' in counts


def test_the_address_with_most_connections_gives_way(exe):
    with serving(exe, "--listen", "127.0.0.1:0", "--connections", "5") as server, contextlib.ExitStack() as stack:
        two = [busy(stack, server, "/stream?first=1", source="127.0.0.2") for _ in range(2)]
        three = [busy(stack, server, "/stream?first=1", source="127.0.0.3") for _ in range(3)]
        busy(stack, server, "/stream?first=1", source="127.0.0.4")
        assert is_closed(three[0], wait=PATIENCE)
        assert not any(is_closed(s) for s in two + three[1:])


@pytest.mark.parametrize("young, first", [("0s", 0), ("1h", 1)])
def test_one_that_has_just_come_gives_way_last(exe, young, first):
    with serving(exe, "--listen", "127.0.0.1:0", "--per-peer", "2", "--young", young) as server, \
            contextlib.ExitStack() as stack:
        fresh, served = connections(stack, server, 2)  # `fresh` has said nothing yet
        served.sendall(request())
        assert read_answer(served).status == 200
        connections(stack, server, 1)
        assert is_closed([fresh, served][first], wait=PATIENCE)
        assert not is_closed([served, fresh][first])


def test_answers_have_a_ceiling(exe):
    options = ["--listen", "127.0.0.1:0", "--answers", "4100KiB", "--kept", "/own/kept"]
    with serving(exe, *options) as server, contextlib.ExitStack() as stack:
        first = [busy(stack, server, "/own?bytes=1048576") for _ in range(4)]
        assert server.counts()["held"] == 4 << 20
        refused = server.get("/own?bytes=524288&more=524288")
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert is_closed(first[0], wait=PATIENCE)  # it had its answer for longest
        wait_until(lambda: server.counts()["held"] == 3 << 20)
        last = busy(stack, server, "/own?bytes=524288&more=524288")
        assert server.counts()["held"] == 4 << 20
        kept = server.get("/own/kept?bytes=1048576")
        assert (kept.status, len(kept.body)) == (200, 1 << 20)
        assert is_closed(first[1], wait=PATIENCE)
        counts = server.counts()
        assert (counts["evicted"], counts["refused_answers"]) == (2, 1)
        assert counts["held"] <= 4 << 20
        assert not is_closed(last)  # at the end: what this reads away makes room


def test_a_body_that_many_take_counts_once(exe):
    with serving(exe, "--listen", "127.0.0.1:0", "--answers", "4100KiB") as server, contextlib.ExitStack() as stack:
        crowd = [busy(stack, server, "/big") for _ in range(20)]
        assert server.counts()["held"] == 4 << 20
        assert server.get("/own?bytes=10000").status == 503
        assert all(is_closed(s, wait=PATIENCE) for s in crowd)
        wait_until(lambda: server.counts()["held"] == 0)
        assert len(server.get("/own?bytes=8388608").body) == 8 << 20  # larger than all, alone


def test_streams_count_too(exe):
    with serving(exe, "--listen", "127.0.0.1:0", "--answers", "1MiB") as server, contextlib.ExitStack() as stack:
        slow = busy(stack, server, "/stream?first=8&bytes=100000")
        wait_until(lambda: 400000 < server.counts()["held"] < 1 << 20)
        busy(stack, server, "/own?bytes=900000")
        assert is_closed(slow, wait=PATIENCE)


def test_two_parts_are_one_body(exe):
    with serving(exe, "--listen", "127.0.0.1:0") as server:
        for first, second in ((1, 1), (0, 5), (5, 0), (300000, 7), (7, 300000)):
            path = f"/own?bytes={first}&more={second}"
            assert server.get(path).body == b"x" * first + b"y" * second
            head = server.get(path, method="HEAD")
            assert (head.headers["content-length"], head.body) == (str(first + second), b"")


def queues(server):
    """The bytes that the kernel holds for the server's connections: (unsent, unread)."""
    with open(f"/proc/{server.process.pid}/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table][1:]
    mine = [row[4].split(":") for row in rows if row[1].endswith(f":{server.port:04X}") and row[3] == "01"]
    return [int(unsent, 16) for unsent, _ in mine], [int(unread, 16) for _, unread in mine]


def test_the_kernel_holds_little_for_a_connection(exe):
    with serving(exe, "--listen", "127.0.0.1:0") as server, contextlib.ExitStack() as stack:
        s = busy(stack, server, "/big")
        s.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:  # more requests than are read before the first is taken
                s.send(request() * 1000)
        wait_until(lambda: queues(server)[0][0] > 0)
        unsent, unread = queues(server)
        assert max(unsent) <= 64 << 10 and max(unread) <= 64 << 10
        # several segments of it: a client acknowledges every second one at once, a single one up to 40 ms later
        assert s.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG) <= 16 << 10


@pytest.mark.parametrize("count", [2000, 10000])
def test_idle_crowd_and_a_scraper(exe, count):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count + 200:
        pytest.skip(f"only {hard} descriptors are allowed here")
    if soft != resource.RLIM_INFINITY and soft < count + 200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count + 200, hard))
    try:
        with serving(exe, "--listen", "127.0.0.1:0") as server, contextlib.ExitStack() as stack:
            before = server.counts()["rss"]
            for _ in range(10):
                connections(stack, server, count // 10)
                assert server.get("/ok").body == b"ok\n"
            counts = server.counts()
            assert counts["connections"] <= 64
            assert counts["evicted"] >= count - 64
            if b"__asan_init" not in exe.read_bytes():
                assert counts["rss"] - before < 1024  # pages
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_partial_heads_give_way_too(exe):
    with serving(exe, "--listen", "127.0.0.1:0", "--per-peer", "10") as server, contextlib.ExitStack() as stack:
        for s in connections(stack, server, 10):
            s.sendall(b"GET /ok HTTP/1.1\r\nHost: x\r\nX-A")
        assert server.get("/ok").status == 200


def test_descriptors_run_out_with_everybody_busy(exe):
    with serving(exe, "--listen", "127.0.0.1:0", files=40) as server, contextlib.ExitStack() as stack:
        streams = []
        while True:
            s = stack.enter_context(server.connect())
            s.sendall(request("/stream"))
            if not got_something(s):
                break
            streams.append(s)
        assert 5 < len(streams) < 40
        for s in connections(stack, server, 30):
            assert is_closed(s, wait=PATIENCE)
        cpu = server.cpu_s()
        time.sleep(0.5)
        assert server.cpu_s() - cpu < 0.25  # it sleeps
        streams[0].close()
        streams[1].close()
        wait_until(lambda: try_get(server))
        assert server.counts()["refused"] >= 30


def got_something(s):
    try:
        return s.recv(1) != b""
    except ConnectionResetError:
        return False


def try_get(server):
    try:
        return server.get("/ok").status == 200
    except (AssertionError, ConnectionError):
        return False


def test_descriptors_run_out_with_idle_ones(exe):
    with serving(exe, "--listen", "127.0.0.1:0", files=40) as server, contextlib.ExitStack() as stack:
        for s in connections(stack, server, 100):
            s.sendall(request())
        assert server.get("/ok").status == 200
        assert server.counts()["refused"] == 0
