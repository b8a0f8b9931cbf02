# SPDX-License-Identifier: Apache-2.0
"""A kubelet's pod-resources socket for tests: one on the real gRPC library, one of bare HTTP/2 frames that can lie."""
import contextlib
import os
import socket
import struct
import threading
from concurrent import futures

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
import grpc  # noqa: E402

LIST = "/v1.PodResourcesLister/List"


# -- protobuf ---------------------------------------------------------------------------------------------------------

def varint(n):
    out = b""
    while n > 0x7f:
        out += bytes([n & 0x7f | 0x80])
        n >>= 7
    return out + bytes([n])


def field(number, payload):
    if isinstance(payload, int):
        return varint(number << 3) + varint(payload)
    if isinstance(payload, str):
        payload = payload.encode()
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def devices(resource, ids):
    """ContainerDevices, with a NUMA topology that nobody asked for."""
    return field(1, resource) + b"".join(field(2, i) for i in ids) + field(3, field(1, varint(1 << 3) + varint(1)))


def container(name, given):
    """ContainerResources of (resource, ids) pairs; with cpu_ids, memory and a dynamic resource, as a real one has."""
    claim = field(2, "claim") + field(3, "ns") + field(4, field(2, "gpu.nvidia.com") + field(4, "gpu-0"))
    return (field(1, name) + b"".join(field(2, devices(r, ids)) for r, ids in given) + field(3, varint(3) + varint(300))
            + field(4, field(1, "memory") + varint(2 << 3) + varint(1 << 40)) + field(5, claim))


def pod(name, namespace, containers):
    return field(1, name) + field(2, namespace) + b"".join(field(3, container(n, g)) for n, g in containers)


def reply(*pods):
    """ListPodResourcesResponse of (name, namespace, [(container, [(resource, [id])])])."""
    return b"".join(field(1, pod(*p)) for p in pods)


def simple(name, *ids, resource="nvidia.com/gpu"):
    """A pod in namespace "ns" whose container "main" has these devices."""
    return (name, "ns", [("main", [(resource, list(ids))])])


# -- the honest one ---------------------------------------------------------------------------------------------------

class Kubelet:
    """gRPC on a unix socket. `answer(request, context)` gives the bytes of each reply; `calls` counts them."""

    def __init__(self, path, answer, handlers=None, options=()):
        self.path, self.answer, self.calls, self.metadata, self.remaining = str(path), answer, 0, {}, None
        self.handlers = {LIST: self.list} | (handlers or {})
        self.options = options
        self.server = None
        self.start()

    def list(self, request, context):
        self.calls += 1
        self.metadata = dict(context.invocation_metadata())
        self.remaining = context.time_remaining()
        return self.answer(request, context) if callable(self.answer) else self.answer

    def service(self, details):
        handler = self.handlers.get(details.method)
        return handler and grpc.unary_unary_rpc_method_handler(handler)

    def start(self):
        outer = self

        class Generic(grpc.GenericRpcHandler):
            def service(self, details):
                return outer.service(details)

        self.server = grpc.server(futures.ThreadPoolExecutor(16), options=[("grpc.so_reuseport", 0), *self.options])
        self.server.add_generic_rpc_handlers((Generic(),))
        assert self.server.add_insecure_port("unix:" + self.path)
        self.server.start()

    def stop(self):
        """As when a kubelet dies: connections close, and the socket's file goes."""
        if self.server:
            self.server.stop(None).wait()
            self.server = None
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def restart(self):
        self.stop()
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


# -- the bare one -----------------------------------------------------------------------------------------------------

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
END_STREAM, ACK, END_HEADERS = 1, 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def hpack(fields):
    """Literal fields without indexing and without Huffman coding (RFC 7541 6.2.2)."""
    def text(t):
        assert len(t) < 127
        return bytes([len(t)]) + t.encode()
    return b"".join(b"\0" + text(n) + text(v) for n, v in fields)


def head(stream, *extra, status="200", content_type="application/grpc", flags=END_HEADERS):
    fields = [(":status", status)] + ([("content-type", content_type)] if content_type else []) + list(extra)
    return frame(HEADERS, flags, stream, hpack(fields))


def trailers(stream, status=0, message=None):
    fields = [("grpc-status", str(status))] + ([("grpc-message", message)] if message is not None else [])
    return frame(HEADERS, END_HEADERS | END_STREAM, stream, hpack(fields))


def prefixed(message, flag=0, length=None):
    return bytes([flag]) + struct.pack(">I", len(message) if length is None else length) + message


def data(stream, payload, flags=0, step=16384):
    """DATA frames of at most `step` bytes; `flags` on the last."""
    parts = [payload[i:i + step] for i in range(0, len(payload), step)] or [b""]
    return b"".join(frame(DATA, flags if n == len(parts) - 1 else 0, stream, p) for n, p in enumerate(parts))


def whole(stream, message):
    return head(stream) + data(stream, prefixed(message)) + trailers(stream)


class Connection:
    def __init__(self, sock, number):
        self.sock, self.number, self.streams = sock, number, 0

    def send(self, data):
        self.sock.sendall(data)

    def read(self, count):
        out = b""
        while len(out) < count:
            part = self.sock.recv(count - len(out))
            if not part:
                raise ConnectionError("closed")
            out += part
        return out

    def frames(self):
        while True:
            header = self.read(9)
            yield header[3], header[4], struct.unpack(">I", header[5:])[0], self.read(int.from_bytes(header[:3], "big"))

    def serve(self, script):
        """Greets, and calls script(connection, stream) at the end of each request; its truth ends the connection."""
        assert self.read(len(PREFACE)) == PREFACE
        self.send(frame(SETTINGS, 0, 0))
        for kind, flags, stream, _ in self.frames():
            if kind == SETTINGS and not flags & ACK:
                self.send(frame(SETTINGS, ACK, 0))
            if kind == DATA and flags & END_STREAM:
                self.streams += 1
                if script(self, stream):
                    return


class Bare:
    """Accepts on a unix socket and plays `script` on each connection in a thread. With greet=False the script gets the
    connection as it is, before anything was read."""

    def __init__(self, path, script, greet=True, backlog=64):
        self.path, self.script, self.greet, self.connections = str(path), script, greet, 0
        self.open = set()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(backlog)
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            self.open.add(sock)
            threading.Thread(target=self.play, args=(Connection(sock, self.connections),), daemon=True).start()

    def play(self, connection):
        try:
            if self.greet:
                connection.serve(self.script)
            else:
                self.script(connection)
        except (OSError, ConnectionError):
            pass
        finally:
            self.open.discard(connection.sock)
            connection.sock.close()

    def stop(self, unlink=True):
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        for sock in list(self.open):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        if unlink:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


# -- the program under test -------------------------------------------------------------------------------------------

class Driven:
    """A test program that prints lines and takes commands."""

    def __init__(self, *argv):
        import queue
        import subprocess
        self.process = subprocess.Popen([str(a) for a in argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.lines, self.log, self.queue = [], [], queue.Queue()
        self.readers = [threading.Thread(target=self.drain, args=a, daemon=True)
                        for a in ((self.process.stdout, self.queue.put), (self.process.stderr, self.log.append))]
        for reader in self.readers:
            reader.start()

    @staticmethod
    def drain(stream, put):
        for line in stream:
            put(line.rstrip("\n"))

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def wait(self, wanted, timeout=120):
        """The next line that begins with `wanted` (or satisfies it). The timeout is only there to end a broken test."""
        import queue
        matches = wanted if callable(wanted) else lambda line: line.startswith(wanted)
        while True:
            try:
                line = self.queue.get(timeout=timeout)
            except queue.Empty:
                raise AssertionError(f"no line {wanted!r} came; before: {self.lines[-20:]}, log: {self.log[-20:]}")
            self.lines.append(line)
            if matches(line):
                return line

    def stat(self):
        self.say("stat")
        return {k: int(v) for k, v in (p.split("=") for p in self.wait("stat ").split()[1:])}

    def table(self, wanted=None):
        """The next table as a list of rows; with `wanted` rows, the next such one."""
        while True:
            start = len(self.lines)
            end = self.wait("table ")
            rows = [line[4:] for line in self.lines[start:] if line.startswith("row ")]
            assert len(rows) == int(end.split()[1])
            if wanted is None or len(rows) == wanted:
                return rows

    def quit(self):
        if self.process.poll() is None:
            self.say("quit")
        code = self.process.wait(timeout=120)
        for reader in self.readers:
            reader.join()
        return code

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            self.process.kill()
            return
        assert self.quit() == 0, self.log
        assert not [line for line in self.log if "ERROR:" in line or "runtime error" in line], self.log
