# SPDX-License-Identifier: Apache-2.0
"""src/source/podresources/podresources.c and src/wire/grpc against a kubelet's socket, honest and otherwise."""
import os
import random
import socket
import struct
import threading
import time

import pytest

from kubelet import (DATA, END_STREAM, GOAWAY, RST_STREAM, Bare, Driven, Kubelet, container, data, devices, field, frame,
                     grpc, head, prefixed, reply, simple, trailers, whole)

G = "GPU-8f2a63d1-0b9c-4d5e-a6f7-%012d"
ONE = reply(simple("train-0", G % 1))
ONE_ROW = [f"{G % 1} -1 -1 -1 - ns/train-0/main"]


@pytest.fixture
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("k") / "kubelet.sock"


@pytest.fixture
def watch(build, path):
    def start(*options):
        return Driven(build / "test/unit/podresources/podresources_watch", path, *options)
    return start


# -- what it reads ----------------------------------------------------------------------------------------------------

def test_rows_of_all_forms(path, watch):
    mig = "MIG-41b36a2c-5d4f-5c7e-9c1e-%012d"
    answer = reply(
        ("whole", "a", [("main", [("nvidia.com/gpu", [G % 1, G % 2])]), ("side", [("cpu", ["7"])])]),
        ("slice", "a", [("main", [("nvidia.com/gpu.shared", [G % 3 + "::4"])])]),
        ("mig", "b", [("m", [("nvidia.com/mig-1g.10gb", [mig % 1]), ("nvidia.com/mig-2g.20gb", [mig % 2 + "::0"])])]),
        ("old", "b", [("m", [("nvidia.com/mig-3g.20gb", ["MIG-" + G % 4 + "/7/1"])])]),
        ("gke", "c", [("m", [("nvidia.com/gpu", ["nvidia0", "nvidia1/gi3", "nvidia2/vgpu1", "nvidia3/gi4/vgpu2"])])]),
        ("others", "c", [("m", [("amd.com/gpu", [G % 9]), ("nvidia.com/gpu.other", [G % 9]), ("smarter/mig-", [G % 9])])]),
        ("odd", "c", [("m", [("nvidia.com/gpu", ["", "GPU", "what/ever", "nvidia", "nvidiaX"])])]))
    with Kubelet(path, answer), watch("name=nvidia.com/gpu.shared", "name=nvidia.com/none") as w:
        rows = w.table()
        assert sorted(rows) == sorted([
            f"{G % 1} -1 -1 -1 - a/whole/main", f"{G % 2} -1 -1 -1 - a/whole/main", f"{G % 3} -1 -1 -1 4 a/slice/main",
            f"{mig % 1} -1 -1 -1 - b/mig/m", f"{mig % 2} -1 -1 -1 0 b/mig/m", f"{G % 4} -1 7 1 - b/old/m",
            "- 0 -1 -1 - c/gke/m", "- 1 3 -1 - c/gke/m", "- 2 -1 -1 1 c/gke/m", "- 3 4 -1 2 c/gke/m"])
        assert w.stat()["pods"] == 5
    assert any("5 device ids of an unknown form" in line for line in w.log)


ODD_PODS = {
    "a byte": (simple("bad\nname", G % 1), "0x0a"),
    "none": (simple("", G % 1), "empty"),
    "too long": (simple("x" * 254, G % 1), "253"),
    "a namespace": (("p", "n s", [("m", [("nvidia.com/gpu", [G % 1])])]), "a namespace name with byte 0x20"),
    "the second container": (("p", "n", [("m", [("nvidia.com/gpu", [G % 1])]), ("\x7f", [("nvidia.com/gpu", [G % 2])])]),
                             "a container name with byte 0x7f"),
}


@pytest.mark.parametrize("odd", ODD_PODS)
def test_an_odd_name_costs_that_pod(path, watch, odd):
    pod, word = ODD_PODS[odd]
    with Kubelet(path, reply(simple("before", G % 7), pod, simple("after", G % 8))), watch("period_ms=10") as w:
        assert w.table() == [f"{G % 7} -1 -1 -1 - ns/before/main", f"{G % 8} -1 -1 -1 - ns/after/main"]
        assert w.stat()["pods"] == 2
    assert len([line for line in w.log if "1 pods with devices are left out" in line and word in line]) == 1, w.log


def test_the_order_of_pods_is_no_change(path, watch):
    pods = [simple(f"p{n}", *[G % (n * 10 + i) for i in range(3)]) for n in range(20)]
    served = []

    def answer(request, context):
        served.append(1)
        mixed = list(pods)
        random.shuffle(mixed)
        return reply(*mixed)
    with Kubelet(path, answer) as kubelet, watch("period_ms=2") as w:
        rows = w.table(60)
        assert rows == sorted(rows)
        while kubelet.calls < 100:
            time.sleep(0.01)
        pods.pop()
        assert len(w.table()) == 57  # the very next table is the smaller one
        assert sum(line.startswith("table") for line in w.lines) == 2


def test_many_pods_share_a_device(path, watch):
    answer = reply(*[simple(f"p{n:03}", G % 1 + f"::{n}", G % 2) for n in range(100)],
                   simple("p007", G % 1 + "::7"))  # once more the same
    with Kubelet(path, answer), watch() as w:
        rows = w.table()
    assert len([r for r in rows if r.startswith(G % 1)]) == 100
    assert len({r for r in rows if r.startswith(f"{G % 2} -1 -1 -1 - ")}) == 100


def test_a_node_full_of_pods(path, watch):
    pods = [simple(f"pod-{n:04}-{'x' * 60}", *[G % (n * 16 + i) + "::1" for i in range(16)]) for n in range(500)]
    with Kubelet(path, reply(*pods)), watch("period_ms=1000") as w:
        assert len(w.table()) == 8000
        assert w.stat()["pods"] == 500


def test_a_node_without_gpu_pods(path, watch):
    with Kubelet(path, reply(("p", "ns", [("c", [("cpu", ["1"])])]))) as kubelet, watch() as w:
        w.wait("state ok")
        while kubelet.calls < 10:
            time.sleep(0.01)
        assert w.stat()["rows"] == 0
    assert not [line for line in w.lines if line.startswith("table")]  # empty before and after


def test_what_the_kubelet_is_asked(path, watch):
    with Kubelet(path, ONE) as kubelet, watch("timeout_ms=7000") as w:
        assert w.table() == ONE_ROW
        assert kubelet.metadata["user-agent"] == "stoker"
        assert 0 < kubelet.remaining <= 7.001


def test_uids_come_behind_the_rows_and_stay(path, watch, tmp_path):
    """A table without UIDs first, for nobody waits for the disk; then the same rows with them, and no more of either."""
    uid = "1b7c0c2e-33f5-4c58-9a63-%012d"
    for n, name in enumerate(["train-0", "other"]):
        (tmp_path / f"ns_{name}_{uid % n}").mkdir()
    pods = [simple("train-0", G % 1, G % 2), simple("web", G % 3)]
    with Kubelet(path, lambda request, context: reply(*pods)) as kubelet, watch("period_ms=2", f"logs={tmp_path}") as w:
        bare = [f"{G % 1} -1 -1 -1 - ns/train-0/main", f"{G % 2} -1 -1 -1 - ns/train-0/main", f"{G % 3} -1 -1 -1 - ns/web/main"]
        assert w.table() == bare
        known = [f"{row}/{uid % 0}" for row in bare[:2]]
        assert w.table() == known + bare[2:]
        calls = kubelet.calls
        while kubelet.calls < calls + 20:
            time.sleep(0.01)
        pods.append(simple("other", G % 4))
        other = f"{G % 4} -1 -1 -1 - ns/other/main"
        assert w.table() == known + bare[2:] + [other]  # what is known is not lost meanwhile
        assert w.table() == known + bare[2:] + [f"{other}/{uid % 1}"]
        pods.clear()
        assert w.table() == []
    assert sum(line.startswith("table") for line in w.lines) == 5


# -- where there is none, and where it comes again --------------------------------------------------------------------

def test_no_socket_is_said_once(path, watch):
    with watch("period_ms=2") as w:
        w.wait("state no_socket")
        while w.stat()["failures"] < 50:
            time.sleep(0.01)
        with Kubelet(path, ONE):
            w.wait("state ok")
            assert "table 1" in w.lines
            assert w.stat()["known"] == 1
            assert w.quit() == 0
    assert len([line for line in w.log if "No such file" in line]) == 1
    assert len([line for line in w.log if "the kubelet answers: 1 pods" in line]) == 1


def test_nobody_listens(path, watch):
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()
    with watch() as w:
        w.wait("state unreachable")
    assert [line for line in w.log if "Connection refused" in line]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything")
def test_a_socket_that_may_not_be_opened(path, watch):
    with Kubelet(path, ONE):
        path.parent.chmod(0)
        with watch() as w:
            w.wait("state unreachable")
        path.parent.chmod(0o700)


def test_a_new_kubelet_is_asked_though_the_old_one_hangs(path, watch):
    """The hour of the call to the dead one is not waited for."""
    asked = threading.Event()
    with Bare(path, lambda connection, stream: asked.set()) as old, watch("timeout_ms=3600000", "period_ms=50") as w:
        assert asked.wait(120)
        path.rename(path.with_name("old"))  # the old process lives, with its connection
        with Kubelet(path, ONE):
            assert w.table() == ONE_ROW
            assert w.stat()["failures"] == 0
        old.path = str(path.with_name("old"))


def test_restarts(path, watch):
    with Kubelet(path, ONE) as kubelet, watch("period_ms=5") as w:
        assert w.table() == ONE_ROW
        for n in range(2, 12):
            kubelet.stop()
            w.wait("state no_socket")
            kubelet.answer = reply(simple("p", G % n))
            kubelet.start()
            assert w.table() == [f"{G % n} -1 -1 -1 - ns/p/main"]
            w.wait("state ok")


def test_the_table_outlives_a_restart_but_not_for_ever(path, watch):
    with Kubelet(path, ONE) as kubelet, watch("period_ms=5", "keep_ms=3600000") as w:
        assert w.table() == ONE_ROW
        kubelet.stop()
        w.wait("state no_socket")
        assert w.stat()["rows"] == 1
        kubelet.start()
        w.wait("state ok")
        assert w.stat()["rows"] == 1
    assert sum(line.startswith("table") for line in w.lines) == 1
    with Kubelet(path, ONE) as kubelet, watch("period_ms=5", "keep_ms=50") as w:
        assert w.table() == ONE_ROW
        kubelet.stop()
        assert w.table() == []
        stat = w.stat()
        assert (stat["rows"], stat["pods"]) == (0, 0)
        kubelet.start()
        assert w.table() == ONE_ROW


def test_a_hanging_kubelet(path, watch):
    with Kubelet(path, ONE) as kubelet, watch("period_ms=5", "timeout_ms=100") as w:
        assert w.table() == ONE_ROW
        free = threading.Event()
        kubelet.answer = lambda request, context: free.wait(120) and ONE or ONE
        w.wait("state timed_out")
        assert w.stat()["rows"] == 1
        kubelet.answer = ONE
        free.set()
        w.wait("state ok")
    assert any("no answer within 100ms" in line or "DEADLINE_EXCEEDED" in line for line in w.log), w.log


def test_a_full_listener(path, watch):
    """connect(2) says EAGAIN there: not a failure yet, and nothing blocks."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(0)
    fill = []
    try:
        while True:
            one = socket.socket(socket.AF_UNIX)
            one.setblocking(False)
            fill.append(one)
            one.connect(str(path))
    except BlockingIOError:
        pass
    with watch("timeout_ms=100") as w:
        w.wait("state timed_out")
        w.stat()  # the loop turns
        listener.close()
        path.unlink()
        with Kubelet(path, ONE):
            assert w.table() == ONE_ROW
    assert any("no connection within 100ms" in line for line in w.log)
    assert fill


def test_a_listener_that_has_room_again(path, watch):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(0)
    fill = socket.socket(socket.AF_UNIX)
    fill.connect(str(path))
    with watch("timeout_ms=3600000") as w:
        time.sleep(0.1)  # it tries in vain meanwhile
        listener.accept()[0].close()
        sock, _ = listener.accept()
        assert sock.recv(3) == b"PRI"
        assert w.stat()["failures"] == 0
        sock.close()
    fill.close()


# -- lies -------------------------------------------------------------------------------------------------------------

def ends(stream, *more, flags=END_STREAM):
    return head(stream) + b"".join(more) + frame(DATA, flags, stream)


def claims(n):
    """A reply whose fields nest wrongly: bytes where a pod would be."""
    return field(1, bytes(range(256)) * n)


# what is sent at a request -> the state, and a word of the log
LIES = {
    "not protobuf": (lambda s: whole(s, b"\xff" * 50), "bad_reply", "damaged"),
    "a wrong type": (lambda s: whole(s, b"\x08\x01"), "bad_reply", "damaged"),  # field 1 as a number
    "no pod": (lambda s: whole(s, claims(3)), "bad_reply", "damaged"),
    "a cut field": (lambda s: whole(s, ONE[:-3]), "bad_reply", "damaged"),
    "too many devices": (lambda s: whole(s, reply(simple("p", *["GPU-%d" % n for n in range(65537)]))), "bad_reply",
                         "more than 65536 devices"),
    "a bomb": (lambda s: whole(s, field(1, field(3, field(2, b"") * 2_000_000))), "bad_reply", "MiB"),
    "larger than allowed": (lambda s: whole(s, b"\0" * (9 << 20)), "bad_reply", "bytes, and"),
    "4 GiB announced": (lambda s: head(s) + data(s, prefixed(b"", length=0xffffffff)), "bad_reply", "4294967295"),
    "compressed": (lambda s: head(s) + data(s, prefixed(ONE, flag=1)) + trailers(s), "bad_reply", "compressed"),
    "another flag": (lambda s: head(s) + data(s, prefixed(ONE, flag=9)) + trailers(s), "bad_reply", "flag 9"),
    "two messages": (lambda s: head(s) + data(s, prefixed(ONE) * 2) + trailers(s), "bad_reply", "more than one"),
    "no message": (lambda s: head(s) + trailers(s), "bad_reply", "no message"),
    "a message cut short": (lambda s: head(s) + data(s, prefixed(ONE)[:-1]) + trailers(s), "bad_reply", "cut short"),
    "a cut prefix": (lambda s: head(s) + data(s, b"\0\0") + trailers(s), "bad_reply", "cut short"),
    "no trailers": (lambda s: head(s) + data(s, prefixed(ONE), END_STREAM), "bad_reply", "without a grpc-status"),
    "a status that is no number": (lambda s: head(s) + data(s, prefixed(ONE)) + trailers(s, "ok"), "bad_reply",
                                   "without a grpc-status"),
    "UNIMPLEMENTED": (lambda s: trailers_only(s, 12, "unknown%20service%0Aof%20mine"), "bad_reply",
                      "UNIMPLEMENTED: unknown service?of mine"),
    "UNAVAILABLE": (lambda s: trailers_only(s, 14, "not%20yet"), "unreachable", "UNAVAILABLE: not yet"),
    "the rate limit": (lambda s: trailers_only(s, 8, "rejected by rate limit"), "unreachable", "rate limit"),
    "its own deadline": (lambda s: trailers_only(s, 4, "slow"), "timed_out", "slow"),
    "a status of the future": (lambda s: trailers_only(s, 99, "new"), "bad_reply", "UNKNOWN: new"),
    "another content type": (lambda s: head(s, content_type="text/html") + data(s, b"<html>", END_STREAM), "bad_reply",
                             "content-type"),
    "almost a content type": (lambda s: head(s, content_type="application/grpcx") + data(s, prefixed(ONE))
                              + trailers(s), "bad_reply", "content-type"),
    "no content type": (lambda s: head(s, content_type=None) + data(s, prefixed(ONE)) + trailers(s), "bad_reply",
                        "content-type"),
    "HTTP 404": (lambda s: head(s, status="404", content_type="text/plain") + data(s, b"no", END_STREAM), "bad_reply",
                 "HTTP status 404"),
    "no status": (lambda s: frame(1, 4, s, b"\0\x01x\x01y") + ends(s), "bad_reply", "PROTOCOL_ERROR"),
    "data before the head": (lambda s: data(s, prefixed(ONE)), "bad_reply", "PROTOCOL_ERROR"),
    "a reset": (lambda s: frame(RST_STREAM, 0, s, struct.pack(">I", 2)), "bad_reply", "INTERNAL_ERROR"),
    "a call dropped": (lambda s: head(s) + frame(RST_STREAM, 0, s, struct.pack(">I", 8)), "unreachable", "CANCEL"),
    "a call turned away, twice": (lambda s: frame(RST_STREAM, 0, s, struct.pack(">I", 7)), "unreachable",
                                  "turned the call away"),
    "a frame too large": (lambda s: frame(DATA, 0, s, b"x" * 20000), "bad_reply", "FRAME_SIZE_ERROR"),
    "a frame of stream 0": (lambda s: frame(DATA, 0, 0, b"x"), "bad_reply", "PROTOCOL_ERROR"),
    "broken header compression": (lambda s: frame(1, 4, s, b"\xff\xff\xff\xff\xff\xff\xff"), "bad_reply",
                                  "COMPRESSION_ERROR"),
    "a push": (lambda s: frame(5, 4, s, struct.pack(">I", 2) + b"\x82"), "bad_reply", "PROTOCOL_ERROR"),
    "an interim answer": (lambda s: frame(1, 4, s, b"\0\x07:status\x03103") + whole(s, ONE), "ok", None),
    "padding and an unknown frame": (lambda s: frame(0xbe, 0, 0, b"?") + head(s) + frame(
        DATA, 8, s, bytes([3]) + prefixed(ONE) + b"\0\0\0") + trailers(s), "ok", None),
    "a byte in each frame": (lambda s: head(s) + data(s, prefixed(ONE), step=1) + trailers(s), "ok", None),
}


def trailers_only(stream, status, message):
    return head(stream, ("grpc-status", str(status)), ("grpc-message", message), flags=END_STREAM | 4)


@pytest.mark.parametrize("lie", LIES)
def test_a_lie(path, watch, lie):
    send, state, word = LIES[lie]
    lying = [True]

    def script(connection, stream):
        connection.send(send(stream) if lying[0] else whole(stream, reply(simple("after", G % 5))))
    with Bare(path, script), watch("period_ms=10", "timeout_ms=60000", "reply_bytes=8388608") as w:
        w.wait(f"state {state}")
        lying[0] = False
        w.wait(lambda line: line.endswith("ns/after/main"))
        if state != "ok":
            w.wait("state ok")
    assert word is None or any(word in line for line in w.log), w.log


# what a whole connection does -> the state
def speaks_http1(connection):
    connection.read(24)
    connection.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    connection.sock.recv(65536)


def sends_garbage(connection):
    connection.send(random.Random(7).randbytes(100000))
    while connection.sock.recv(65536):
        pass


def floods(connection):
    connection.send(frame(4, 0, 0))
    while True:
        connection.send(frame(6, 0, 0, b"12345678") * 1000)


def floods_settings(connection):
    while True:
        connection.send(frame(4, 0, 0, struct.pack(">HI", 3, 100)) * 1000)


WHOLE = {
    "closes at once": (lambda c: None, "unreachable"),
    "closes after the preface": (lambda c: c.read(24), "unreachable"),
    "speaks HTTP/1": (speaks_http1, "bad_reply"),
    "garbage": (sends_garbage, "bad_reply"),
    "says nothing": (lambda c: threading.Event().wait(20), "timed_out"),
    "reads without end": (lambda c: [None for _ in iter(lambda: c.sock.recv(65536), b"")], "timed_out"),
    "floods with pings": (floods, "bad_reply"),
    "floods with settings": (floods_settings, "bad_reply"),
}


@pytest.mark.parametrize("what", WHOLE)
def test_a_connection_that(path, watch, what):
    play, state = WHOLE[what]
    with watch("period_ms=10", "timeout_ms=300", "keep_ms=3600000") as w:
        w.wait("state no_socket")
        with Bare(path, play, greet=False):
            # a server that floods may be found out, or be slower than the deadline
            w.wait(lambda line: line == f"state {state}" or what.startswith("floods") and line == "state timed_out")
            w.stat()
        with Kubelet(path, ONE):
            assert w.table() == ONE_ROW


@pytest.mark.parametrize("cut", [1, 9, 30, 60, -1])
def test_a_connection_that_closes_in_the_middle(path, watch, cut):
    def script(connection, stream):
        if connection.number > 3:
            connection.send(whole(stream, ONE))
            return False
        connection.send(whole(stream, ONE)[:cut])
        return True
    with Bare(path, script), watch("period_ms=10") as w:
        w.wait("state unreachable")
        assert w.table() == ONE_ROW
    assert any("closed the connection" in line for line in w.log), w.log


def goaway(last, code=0, debug=b""):
    return frame(GOAWAY, 0, 0, struct.pack(">II", last, code) + debug)


def test_goaway_before_the_call_was_begun(path, watch):
    """A failure until the next poll."""
    def script(connection, stream):
        if connection.number % 2:
            connection.send(goaway(0))
        else:
            connection.send(whole(stream, ONE) + goaway(stream))
    with Bare(path, script), watch("period_ms=5") as w:
        w.wait("state unreachable")
        assert w.table() == ONE_ROW


def test_goaway_for_ever_ends(path, watch):
    with Bare(path, lambda c, s: c.send(goaway(0, 11, b"too_many_pings"))), watch("period_ms=5") as w:
        w.wait("state unreachable")


def test_goaway_while_the_answer_is_on_its_way(path, watch):
    def script(connection, stream):
        bye = goaway(stream, 0, b"bye")
        early, late = (bye, b"") if connection.number % 2 else (b"", bye)
        connection.send(head(stream) + early)
        connection.send(data(stream, prefixed(ONE)[:20]))
        time.sleep(0.005)
        connection.send(data(stream, prefixed(ONE)[20:]) + trailers(stream) + late)
    with Bare(path, script) as bare, watch("period_ms=5") as w:
        assert w.table() == ONE_ROW
        while bare.connections < 10:
            time.sleep(0.01)
        assert w.stat()["failures"] == 0


def test_an_answer_and_the_end_at_once(path, watch):
    def script(connection, stream):
        connection.send(whole(stream, ONE))
        return True
    with Bare(path, script) as bare, watch("period_ms=5") as w:
        assert w.table() == ONE_ROW
        while bare.connections < 20:
            time.sleep(0.01)
        assert w.stat()["failures"] == 0


@pytest.mark.parametrize("gap, timeout, state", [(0.001, 60000, "ok"), (0.2, 300, "timed_out")])
def test_a_drip_of_bytes(path, watch, gap, timeout, state):
    def script(connection, stream):
        for byte in whole(stream, ONE):
            connection.send(bytes([byte]))
            time.sleep(gap)
    with Bare(path, script), watch(f"timeout_ms={timeout}") as w:
        w.wait(f"state {state}")


def test_a_connection_stuck_in_a_frame_is_left(path, watch):
    """After a call's deadline the next one does not queue behind half a frame."""
    over = threading.Event()

    def script(connection, stream):
        answer = whole(stream, ONE)
        if connection.number > 1:
            connection.send(answer)
            return
        connection.send(answer[:50])
        over.wait(3600)
    try:
        with Bare(path, script), watch("timeout_ms=200") as w:
            w.wait("state timed_out")
            w.wait("state ok")
    finally:
        over.set()


# -- what it costs ----------------------------------------------------------------------------------------------------

def test_memory_and_descriptors_stay_flat(path, watch):
    """A thousand polls and a hundred restarts, with errors between."""
    pods = [simple(f"p{n}", *[G % (n * 8 + i) for i in range(8)]) for n in range(50)]
    answers = [reply(*pods), reply(*pods[1:]), b"\xff\xff", reply(*pods)]

    def answer(request, context):
        turn = kubelet.calls % 25
        if turn == 7:
            context.abort(grpc.StatusCode.INTERNAL, "seven")
        return answers[2 if turn == 9 else turn % 2]
    with Kubelet(path, answer) as kubelet, watch("period_ms=1") as w:
        samples = []
        for n in range(100):
            target = (n + 1) * 10
            while kubelet.calls < target:
                time.sleep(0.002)
            kubelet.restart()
            if n >= 20:
                samples.append(w.stat())
        assert kubelet.calls >= 1000
        assert max(s["fds"] for s in samples) <= min(s["fds"] for s in samples) + 2  # a connection, an old one closing
        early, late = samples[:20], samples[-20:]
        assert max(s["heap"] for s in late) <= max(s["heap"] for s in early) + 64 * 1024


def test_hostile_replies_leave_no_memory_behind(path, watch):
    bombs = [field(1, field(3, field(2, b"") * 500_000)), b"\0" * (4 << 20), reply(simple("p", *["GPU-%d" % n for n in range(65537)]))]

    def script(connection, stream):
        connection.send(whole(stream, bombs[connection.number % 3]) if connection.number % 4 else whole(stream, ONE))
        return False
    with Bare(path, script), watch("period_ms=5") as w:
        w.wait("table 1")
        heaps = []
        for _ in range(5):
            w.wait("state ok")
            heaps.append(w.stat()["heap"])
        assert heaps[-1] < 2 << 20


@pytest.mark.parametrize("socket_path, word", [("x" * 108, "too long"), ("", "empty")])
def test_a_path_that_cannot_be(build, socket_path, word):
    w = Driven(build / "test/unit/podresources/podresources_watch", socket_path)
    w.process.stdin.close()
    assert w.process.wait(timeout=120) == 1
    w.readers[1].join()
    assert any(word in line for line in w.log)


def test_the_parts_of_this_test():
    """The encoder against known bytes: a device entry as the kubelet's own code writes it."""
    assert devices("r", ["ab"]) == b"\x0a\x01r\x12\x02ab\x1a\x04\x0a\x02\x08\x01"
    assert container("c", [])[:3] == b"\x0a\x01c"
