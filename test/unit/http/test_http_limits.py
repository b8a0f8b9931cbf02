# SPDX-License-Identifier: Apache-2.0
"""Crowds: limits, who gives way to whom, and descriptors running out: wire/http/accept.c, conn.c."""
import contextlib
import resource
import time

import pytest
from http_under_test import is_closed, read_answer, read_until, request, serving, wait_until


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
        assert [is_closed(s, wait=30) for s in first[1:4]] == [True] * 3
        for s in [first[0], *first[4:], *late]:
            s.sendall(request())
            assert read_answer(s).status == 200
        first[0].sendall(request("/counts"))
        assert b'"connections":8' in read_answer(first[0]).body


def test_one_address_does_not_push_out_another(exe):
    with serving(exe, "--listen", "127.0.0.1:0", "--per-peer", "4") as server, contextlib.ExitStack() as stack:
        other = connections(stack, server, 3, source="127.0.0.2")
        crowd = connections(stack, server, 20)
        assert all(is_closed(s, wait=30) for s in crowd[:16])
        for s in other + crowd[16:]:
            s.sendall(request())
            assert read_answer(s).status == 200
        other[0].sendall(request("/counts"))
        assert b'"evicted":16' in read_answer(other[0]).body


def test_where_everybody_is_busy_the_new_one_is_refused(exe):
    with serving(exe, "--listen", "127.0.0.1:0", "--per-peer", "3") as server, contextlib.ExitStack() as stack:
        streams = open_streams(stack, server, 3)
        refused = connections(stack, server, 5)
        assert all(is_closed(s, wait=30) for s in refused)
        assert not any(is_closed(s) for s in streams)
        with server.connect(source="127.0.0.2") as s:
            s.sendall(request("/counts"))
            assert b'"refused":5' in read_answer(s).body


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
            assert is_closed(s, wait=30)
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
