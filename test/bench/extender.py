#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How long `stoker place serve` takes for a pod: filter and prioritize with the names of all nodes, over one connection of 127.0.0.1, beside
/healthz in the same run, which is what HTTP alone costs.

usage: extender.py BUILD [--nodes N]

Nothing here passes or fails: the limit stands beside the figures for a reader to judge."""
import argparse
import json
import pathlib
import socket
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "test/scenario/place"))
from place_rig import Cluster, Extender, node, pod  # noqa: E402

ROUNDS = 401


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request):
        """(seconds, body)"""
        began, data = time.perf_counter(), b""
        self.socket.sendall(request)
        while b"\r\n\r\n" not in data:
            data += self.socket.recv(1 << 20)
        head, _, body = data.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        left = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]) - len(body)
        parts = [body]
        while left > 0:
            parts.append(self.socket.recv(1 << 20))
            left -= len(parts[-1])
        return time.perf_counter() - began, b"".join(parts)


def make_request(path, body=None):
    data = json.dumps(body, separators=(",", ":")).encode() if body else b""
    head = f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n" + (f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n" if body else "")
    return head.encode() + b"\r\n" + data


def cpu_s(process):
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--nodes", type=int, default=5000)
    o = parser.parse_args()
    names = [f"node-{i:05}.internal.example.com" for i in range(o.nodes)]
    shapes = [(8 - i % 9, 4 * (1 + i % 12)) for i in range(o.nodes)]
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(pathlib.Path(folder), map(node, names))
        cluster.lists["/api/v1/pods"] = [pod(f"old-{i}", gpus=gpus, cores=cores, on=names[i], held=",".join(map(str, range(gpus))), phase="Running")
                                         for i, (gpus, cores) in enumerate(shapes) if gpus]
        cluster.quiet, cluster.page = True, 100
        extender = Extender(o.build.resolve() / "stoker", pathlib.Path(folder), cluster, "--stale", "1h").wait_known()
        client = Client(extender.port)
        args = {"Pod": pod("p", gpus=2, cores=16), "Nodes": None, "NodeNames": names}
        fits = json.loads(client.ask(make_request("/filter", args))[1])["NodeNames"]
        asks = {"/healthz": make_request("/healthz"), "filter": make_request("/filter", args),
                "prioritize": make_request("/prioritize", {**args, "NodeNames": fits})}
        took = {name: [] for name in asks}
        before = cpu_s(extender.process)
        for _ in range(ROUNDS):
            for name, request in asks.items():
                took[name].append(client.ask(request)[0])
        cpu = (cpu_s(extender.process) - before) / ROUNDS
        print(f"{o.nodes} nodes, {len(fits)} of them fit; {ROUNDS} rounds; body of filter: {len(asks['filter']) / 1e3:.0f} kB")
        for name, seconds in took.items():
            middle = statistics.median(seconds)
            print(f"{name:12} {middle * 1e3:7.3f} ms  {1 / middle:9.0f} requests/s  {middle / statistics.median(took['/healthz']):6.1f} x /healthz")
        both = [a + b for a, b in zip(took["filter"], took["prioritize"])]
        print(f"{'both':12} {statistics.median(both) * 1e3:7.3f} ms  (limit 5 ms), slowest of {ROUNDS}: {max(both) * 1e3:.1f} ms; CPU of the server: {cpu * 1e3:.2f} ms")
        memory = next(line for line in pathlib.Path(f"/proc/{extender.process.pid}/status").read_text().splitlines() if line.startswith("RssAnon"))
        print(f"memory: {int(memory.split()[1]) / 1024:.1f} MiB")
        extender.stop()
        cluster.stop()


if __name__ == "__main__":
    main()
