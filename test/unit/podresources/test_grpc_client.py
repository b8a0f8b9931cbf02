# SPDX-License-Identifier: Apache-2.0
"""src/wire/grpc/grpc.c against the real gRPC library: many calls, cancelled, late, large."""
import threading

import pytest

from kubelet import Bare, Connection, Driven, Kubelet, data, grpc, head, prefixed, trailers, whole


@pytest.fixture
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("g") / "s"


@pytest.fixture
def client(build, path):
    return lambda: Driven(build / "test/unit/podresources/grpc_calls", path)


def body(number, size):
    """The message that the program sends as call `number`."""
    return bytes((i * 7 + number) & 0xff for i in range(size))


def checksum(message):
    n = 0
    for byte in message:
        n = (n * 31 + byte) & 0xffffffff
    return n


def echo(request, context):
    return request[::-1]


def answered(number, message):
    return f"reply {number} answered OK {len(message)} {checksum(message)} "


@pytest.mark.parametrize("size", [0, 1, 5, 16379, 16380, 70000, 1_500_000])
def test_a_message_goes_there_and_back(path, client, size):
    with Kubelet(path, b"", {"/t.T/Echo": echo}, [("grpc.max_receive_message_length", -1)]), client() as c:
        c.say(f"call 1 /t.T/Echo 60000 {size}")
        assert c.wait("reply 1") == answered(1, body(1, size)[::-1])


def test_many_calls_at_once(path, client):
    """All are on their way before the first is answered, each over a connection of its own."""
    gate = threading.Semaphore(0)

    def slow(request, context):
        gate.acquire(timeout=120)
        return request
    with Kubelet(path, b"", {"/t.T/Slow": slow, "/t.T/Echo": echo}), \
            client() as c:
        for n in range(40):
            c.say(f"call {n} /t.T/Slow 60000 {n * 100}")
        c.stat()
        for n in range(40):
            gate.release()
        got = {c.wait("reply") for _ in range(40)}
        assert got == {answered(n, body(n, n * 100)) for n in range(40)}


def test_errors_of_the_server(path, client):
    def fail(request, context):
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no 100 % \u00fc\nline")

    def crash(request, context):
        raise ValueError("oops")
    with Kubelet(path, b"", {"/t.T/Fail": fail, "/t.T/Crash": crash}), client() as c:
        c.say("call 1 /t.T/Fail 60000 1")
        assert c.wait("reply") == "reply 1 answered FAILED_PRECONDITION 0 0 FAILED_PRECONDITION: no 100 % ???line"
        c.say("call 2 /t.T/Crash 60000 1")
        assert c.wait("reply").startswith("reply 2 answered UNKNOWN 0 0 UNKNOWN: Exception calling application: oops")
        c.say("call 3 /t.T/None 60000 1")
        assert c.wait("reply").startswith("reply 3 answered UNIMPLEMENTED")


def test_a_deadline_ends_one_call_only(path, client):
    late = threading.Event()

    def script(connection, stream):
        if connection.number == 2:
            late.wait(60)
            connection.send(whole(stream, b"second"))
    with Bare(path, script), client() as c:
        c.say("call 1 /t.T/A 1000 1")
        c.say("call 2 /t.T/B 60000 1")
        assert c.wait("reply") == "reply 1 timed_out DEADLINE_EXCEEDED 0 0 no answer within 1s"
        late.set()
        assert c.wait("reply") == answered(2, b"second")


def test_a_timeout_of_nothing(path, client):
    with Kubelet(path, b"", {"/t.T/Echo": echo}), client() as c:
        c.say("call 1 /t.T/Echo 0 1")
        assert c.wait("reply").startswith("reply 1 timed_out")


def test_cancel(path, client):
    """Waiting, under way, behind the server's limit: no reply comes, and the others are not harmed."""
    gate = threading.Event()

    def slow(request, context):
        gate.wait(60)
        return request
    with Kubelet(path, b"", {"/t.T/Slow": slow}), client() as c:
        for n in range(6):
            c.say(f"call {n} /t.T/Slow 60000 {n}")
        for n in (0, 2, 4):
            c.say(f"cancel {n}")
        c.say("call 7 /t.T/Slow 60000 7")
        c.say("cancel 7")
        gate.set()
        got = {c.wait("reply") for _ in range(3)}
        assert got == {answered(n, body(n, n)) for n in (1, 3, 5)}
        c.say("call 8 /t.T/Slow 60000 8")
        c.wait("reply 8")
    replies = [line.split()[1] for line in c.lines if line.startswith("reply")]
    assert sorted(replies) == ["1", "3", "5", "8"]


def test_a_call_out_of_a_reply_and_a_client_that_goes_in_one(path, client):
    with Kubelet(path, b"", {"/t.T/Echo": echo}), client() as c:
        c.say("again 1")
        c.say("call 1 /t.T/Echo 60000 3")
        assert c.wait("reply") == c.wait("reply") == answered(1, body(1, 3)[::-1])
        # in one write: it may be gone before a second one
        c.say("\n".join(["close_in 2", *(f"call {n} /t.T/Echo 60000 3" for n in range(2, 20))]))
        c.wait("closed")
        assert c.process.wait(timeout=120) == 0


def test_a_client_that_goes_with_calls_under_way(path, client):
    with Bare(path, lambda connection, stream: None), client() as c:
        for n in range(10):
            c.say(f"call {n} /t.T/Never 60000 {n * 50000}")
        c.stat()
        c.say("quit")
        c.wait("closed")
    assert not [line for line in c.lines if line.startswith("reply")]


def test_a_server_that_answers_before_the_request_is_there(path, client):
    """Its trailers end the call though the request is stuck behind a closed window."""
    def script(connection: Connection):
        connection.read(24)
        connection.send(b"\0\0\0\4\0\0\0\0\0")
        for kind, _, stream, _ in connection.frames():
            if kind == 1:
                connection.send(head(stream) + data(stream, prefixed(b"early")) + trailers(stream))
    with Bare(path, script, greet=False), client() as c:
        for n in range(3):
            c.say(f"call {n} /t.T/A 60000 100000")
        assert {c.wait("reply") for _ in range(3)} == {answered(n, b"early") for n in range(3)}


def test_a_hundred_thousand_bytes_of_calls_leave_nothing(path, client):
    with Kubelet(path, b"", {"/t.T/Echo": echo}), client() as c:
        costs = []
        for batch in range(20):
            for n in range(50):
                c.say(f"call {n} /t.T/Echo 60000 2000")
            for n in range(50):
                c.wait("reply")
            costs.append(c.stat())
        assert max(s["fds"] for s in costs) == costs[0]["fds"]
        assert max(s["heap"] for s in costs[5:]) <= max(s["heap"] for s in costs[:5]) + 16 * 1024
