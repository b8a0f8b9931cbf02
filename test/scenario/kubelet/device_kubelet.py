# SPDX-License-Identifier: Apache-2.0
"""A kubelet's side of device plugins, on the real gRPC library: takes registrations, watches lists, allocates; and can die, lie
and come back as a real one does."""
import contextlib
import os
import pathlib
import sys
import threading
from concurrent import futures

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
import grpc  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "unit/podresources"))
from kubelet import field  # noqa: E402

SERVICE = "/v1beta1.DevicePlugin/"


# -- protobuf ---------------------------------------------------------------------------------------------------------

def fields(message):
    """{number: [value]} of a message: int, or bytes."""
    found, at = {}, 0

    def read():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = read()
        if key & 7 == 0:
            value = read()
        else:
            assert key & 7 == 2, f"wire type {key & 7}"
            size = read()
            value, at = message[at:at + size], at + size
            assert len(value) == size
        found.setdefault(key >> 3, []).append(value)
    return found


def text(message, number):
    return message.get(number, [b""])[0].decode()


def pairs(entries):
    return {text(fields(e), 1): text(fields(e), 2) for e in entries}


class Device:
    def __init__(self, message):
        parsed = fields(message)
        self.id, self.health = text(parsed, 1), text(parsed, 2)
        self.numa = None
        for topology in parsed.get(3, []):
            self.numa = [fields(n).get(1, [0])[0] for n in fields(topology).get(1, [])]


class Grant:
    """What a container gets."""

    def __init__(self, message):
        parsed = fields(message)
        self.envs, self.annotations = pairs(parsed.get(1, [])), pairs(parsed.get(4, []))
        self.mounts = [(text(m, 2), text(m, 1)) for m in map(fields, parsed.get(2, []))]
        self.nodes = [(text(d, 2), text(d, 1), text(d, 3)) for d in map(fields, parsed.get(3, []))]
        self.cdi = [text(fields(c), 1) for c in parsed.get(5, [])]


# -- one plugin, as the kubelet sees it ---------------------------------------------------------------------------------

class Plugin:
    def __init__(self, folder, endpoint, resource):
        self.endpoint, self.resource = endpoint, resource
        self.lists, self.ended = [], threading.Event()
        self.channel = grpc.insecure_channel(f"unix:{folder / endpoint}")
        self.options = fields(self.call("GetDevicePluginOptions", b""))
        self.stream = self.channel.unary_stream(SERVICE + "ListAndWatch")(b"")
        threading.Thread(target=self.watch, daemon=True).start()

    def call(self, method, request, timeout=30):
        return self.channel.unary_unary(SERVICE + method)(request, timeout=timeout)

    def watch(self):
        with contextlib.suppress(grpc.RpcError, ValueError):
            for message in self.stream:
                self.lists.append([Device(d) for d in fields(message).get(1, [])])
        self.ended.set()

    @property
    def devices(self):
        return self.lists[-1] if self.lists else []

    @property
    def healthy(self):
        return [d.id for d in self.devices if d.health == "Healthy"]

    def prefer(self, available, size, must=()):
        request = field(1, b"".join(field(1, i) for i in available) + b"".join(field(2, i) for i in must) + field(3, size))
        reply = fields(self.call("GetPreferredAllocation", request))
        return [i.decode() for i in fields(reply[1][0]).get(1, [])]

    def allocate(self, *ids):
        reply = fields(self.call("Allocate", field(1, b"".join(field(1, i) for i in ids))))
        return Grant(reply[1][0])

    def close(self):
        self.stream.cancel()
        self.channel.close()


class Kubelet:
    """Listens on kubelet.sock of `folder`. `refuse`: a text with which registrations are refused; `deaf`: they are taken, and
    the plugin is never called."""

    def __init__(self, folder):
        self.folder, self.plugins, self.registered, self.server = folder, {}, [], None
        self.refuse, self.deaf = None, False
        folder.mkdir(exist_ok=True)
        self.start()

    def register(self, request, context):
        parsed = fields(request)
        version, endpoint, resource = (text(parsed, n) for n in (1, 2, 3))
        self.registered.append(resource)
        if self.refuse:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, self.refuse)
        assert version == "v1beta1"
        if not self.deaf:  # as the real one: it calls the plugin before it answers
            if old := self.plugins.pop(resource, None):
                old.close()
            self.plugins[resource] = Plugin(self.folder, endpoint, resource)
        return b""

    def start(self):
        outer = self

        class Generic(grpc.GenericRpcHandler):
            def service(self, details):
                if details.method == "/v1beta1.Registration/Register":
                    return grpc.unary_unary_rpc_method_handler(outer.register)
                return None

        self.server = grpc.server(futures.ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
        self.server.add_generic_rpc_handlers((Generic(),))
        assert self.server.add_insecure_port(f"unix:{self.folder / 'kubelet.sock'}")
        self.server.start()

    def stop(self):
        self.server.stop(None).wait()  # first: a plugin that registers meanwhile would be added to those that are closed
        for plugin in list(self.plugins.values()):
            plugin.close()
        self.plugins = {}

    def restart(self):
        """A real one that starts removes every socket of the folder before it makes its own."""
        self.stop()
        for path in self.folder.iterdir():
            path.unlink()
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
