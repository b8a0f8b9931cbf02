# SPDX-License-Identifier: Apache-2.0
"""What `stoker kubelet --dra-driver` talks to: the kubelet's side of DRA plugins on the real gRPC library, and an API server with
resource slices and claims that checks what is written as a real one does."""
import contextlib
import json
import os
import re
import sys
import pathlib
import threading

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
import grpc  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "unit/podresources"))
from apiserver import STATUS, Server  # noqa: E402
from device_kubelet import fields, text  # noqa: E402
from kubelet import field  # noqa: E402

DRIVER = "gpu.nvidia.com"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/{}"
SERVICE = "/k8s.io.kubelet.pkg.apis.dra.{}.DRAPlugin/{}"


# -- the API server ---------------------------------------------------------------------------------------------------

def check_counters(used, name):
    assert used.keys() == {name, "counters"} and re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", used[name])
    assert 1 <= len(used["counters"]) <= 32
    for counter, amount in used["counters"].items():
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", counter) and int(amount["value"]) >= 1


class Pool(dict):
    """Devices by name, and the counters that they share."""

    counters = ()


def check_slice(item):
    """The rules of resource.k8s.io/v1 that a server of 1.36 holds slices to."""
    spec = item["spec"]
    assert item["apiVersion"] == "resource.k8s.io/v1" and item["kind"] == "ResourceSlice"
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", item["metadata"]["name"]) and len(item["metadata"]["name"]) <= 253
    owner, = item["metadata"]["ownerReferences"]
    assert owner == {"apiVersion": "v1", "kind": "Node", "name": "worker-7", "uid": "node-uid-1", "controller": True}
    assert spec["driver"] == DRIVER and spec["nodeName"] == "worker-7" and spec["pool"]["name"] == "worker-7"
    assert spec["pool"]["generation"] >= 1 and spec["pool"]["resourceSliceCount"] >= 1
    assert ("devices" in spec) != ("sharedCounters" in spec)
    if "sharedCounters" in spec:
        assert 1 <= len(spec["sharedCounters"]) <= 8
        for used in spec["sharedCounters"]:
            check_counters(used, "name")
        return
    assert 1 <= len(spec["devices"]) <= 64
    assert sum(len(u["counters"]) for d in spec["devices"] for u in d.get("consumesCounters", [])) <= 1024
    for device in spec["devices"]:
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", device["name"])
        assert device.keys() <= {"name", "attributes", "capacity", "taints", "consumesCounters"}
        for used in device.get("consumesCounters", []):
            check_counters(used, "counterSet")
        assert len(device["attributes"]) + len(device["capacity"]) <= 32
        for name, value in device["attributes"].items():
            assert re.fullmatch(r"([a-z0-9.]{1,63}/)?[A-Za-z_][A-Za-z0-9_]{0,31}", name)
            (kind, held), = value.items()
            assert kind in ("int", "bool", "string", "version") and (kind != "string" or len(held) <= 64)
            assert kind != "version" or re.fullmatch(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", held), held
        for value in device["capacity"].values():
            assert re.fullmatch(r"\d+(Mi)?", value["value"])
        for taint in device.get("taints", []):
            assert taint["effect"] in ("None", "NoSchedule", "NoExecute") and "/" in taint["key"] and len(taint["value"]) <= 63


class Api(Server):
    """Slices and claims. `keeps_taints`, `keeps_counters` False: a server that does not know them."""

    def __init__(self, folder):
        super().__init__(folder)
        self.keeps_taints, self.keeps_counters, self.writes, self.wrong = True, True, [], []
        self.lists[SLICES] = []
        self.objects["/api/v1/nodes/worker-7"] = {"kind": "Node", "metadata": {"name": "worker-7", "uid": "node-uid-1", "resourceVersion": "1"}}

    def write(self, method, path, data):
        with self.lock:
            return self.write_slice(method, path, data)

    def write_slice(self, method, path, data):
        item = json.loads(data) if data else None
        self.writes.append((method, path, item))
        if not path.startswith(SLICES):
            return 404, {**STATUS, "message": "not found", "code": 404}
        name = item["metadata"]["name"] if item else path.rpartition("/")[2]
        there = next((s for s in self.slices if s["metadata"]["name"] == name), None)
        if (method == "POST") == bool(there):
            status = 409 if there else 404
            return status, {**STATUS, "message": "already exists" if there else "not found", "code": status}
        if method == "DELETE":
            self.lists[SLICES] = [s for s in self.slices if s is not there]
            return 200, {**STATUS, "status": "Success"}
        try:
            check_slice(item)
        except (AssertionError, KeyError) as error:
            self.wrong.append((item, error))
            return 422, {**STATUS, "message": f"invalid: {error}", "code": 422}
        if method == "PUT" and item["metadata"].get("resourceVersion") != there["metadata"]["resourceVersion"]:
            return 409, {**STATUS, "message": "the object has been modified", "code": 409}
        if not self.keeps_counters:
            item["spec"].pop("sharedCounters", None)
        for device in item["spec"].get("devices", []):
            if not self.keeps_counters:
                device.pop("consumesCounters", None)
            if not self.keeps_taints:
                device.pop("taints", None)
            for taint in device.get("taints", []):
                taint["timeAdded"] = "2026-01-01T00:00:00Z"
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        self.lists[SLICES] = sorted([s for s in self.slices if s is not there] + [item], key=lambda s: s["metadata"]["name"])
        return 200 if there else 201, item

    @property
    def slices(self):
        return self.lists[SLICES]

    def wipe(self):
        """A kubelet that starts deletes all slices of its node."""
        with self.lock:
            self.lists[SLICES] = []

    def pool(self):
        """The devices that a scheduler sees, by name; None while the pool is not complete."""
        with self.lock:
            newest = max((s["spec"]["pool"]["generation"] for s in self.slices), default=0)
            seen = [s for s in self.slices if s["spec"]["pool"]["generation"] == newest]
            if not seen or any(s["spec"]["pool"]["resourceSliceCount"] != len(seen) for s in seen):
                return None
            devices = [d for s in seen for d in s["spec"].get("devices", [])]
            assert len({d["name"] for d in devices}) == len(devices)
            pool = Pool({d["name"]: d for d in devices})
            pool.counters = [c for s in seen for c in s["spec"].get("sharedCounters", [])]
            assert {u["counterSet"] for d in devices for u in d.get("consumesCounters", [])} <= {c["name"] for c in pool.counters}
            return pool

    def claim(self, name, *devices, uid=None, config=(), namespace="ns", **more):
        """An allocated claim. `devices`: names, or whole results."""
        results = [{"request": "gpu", "driver": DRIVER, "pool": "worker-7", "device": d} if isinstance(d, str) else
                   {"driver": DRIVER, "pool": "worker-7", **d} for d in devices]
        made = {"kind": "ResourceClaim", "metadata": {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}"},
                "spec": {"devices": {}}, "status": {"allocation": {"devices": {"results": results, "config": list(config)}}}, **more}
        self.objects[CLAIMS.format(namespace, name)] = made
        return made


def config(kind="GpuConfig", source="FromClaim", requests=(), driver=DRIVER, version="resource.nvidia.com/v1beta1", **parameters):
    return {"source": source, "requests": list(requests),
            "opaque": {"driver": driver, "parameters": {"apiVersion": version, "kind": kind, **parameters}}}


# -- the kubelet ------------------------------------------------------------------------------------------------------

def connect(socket):
    """A connection of its own: one that failed keeps others to the same place waiting."""
    return grpc.insecure_channel(f"unix:{socket}", options=[("grpc.use_local_subchannel_pool", 1)])


class Prepared:
    def __init__(self, message):
        parsed = fields(message)
        self.error = text(parsed, 2)
        self.devices = [{"requests": [r.decode() for r in d.get(1, [])], "pool": text(d, 2), "name": text(d, 3),
                         "cdi": [i.decode() for i in d.get(4, [])], "share": text(d, 5)} for d in map(fields, parsed.get(1, []))]


class DraKubelet:
    """Finds the plugin in the registry folder as the kubelet does, and calls it. `api`: which version of the calls."""

    def __init__(self, registry, api="v1"):
        self.registry, self.api, self.channel, self.health = registry, api, None, []

    def register(self, registered=True, error=""):
        with connect(self.registry / f"{DRIVER}-reg.sock") as channel:
            info = fields(channel.unary_unary("/pluginregistration.Registration/GetInfo")(b"", timeout=10))
            status = (field(1, 1) if registered else b"") + field(2, error)
            channel.unary_unary("/pluginregistration.Registration/NotifyRegistrationStatus")(status, timeout=10)
        assert (text(info, 1), text(info, 2)) == ("DRAPlugin", DRIVER)
        self.versions, self.endpoint = [v.decode() for v in info[4]], text(info, 3)
        self.close()
        self.channel = connect(self.endpoint)

    def call(self, method, claims, timeout=45):
        """`claims`: (namespace, uid, name)."""
        request = b"".join(field(1, field(1, ns) + field(2, uid) + field(3, name)) for ns, uid, name in claims)
        return self.channel.unary_unary(SERVICE.format(self.api, method))(request, timeout=timeout)

    def prepare(self, *claims, raw=False):
        """Of claims as the API server has them: {uid: Prepared}."""
        reply = self.call("NodePrepareResources", [self.name(c) for c in claims])
        return reply if raw else {text(e, 1): Prepared(e[2][0]) for e in map(fields, fields(reply).get(1, []))}

    def unprepare(self, *claims):
        """{uid: error}."""
        reply = fields(self.call("NodeUnprepareResources", [self.name(c) for c in claims]))
        return {text(e, 1): text(fields(e[2][0]), 1) for e in map(fields, reply.get(1, []))}

    @staticmethod
    def name(claim):
        metadata = claim["metadata"]
        return metadata["namespace"], metadata["uid"], metadata["name"]

    def watch(self):
        stream = self.channel.unary_stream("/v1alpha1.DRAResourceHealth/NodeWatchResources")(b"")

        def read():
            with contextlib.suppress(grpc.RpcError, ValueError):
                for message in stream:
                    self.health.append({text(fields(d[1][0]), 2): (d.get(2, [0])[0], text(d, 5))
                                        for d in map(fields, fields(message).get(1, []))})
        threading.Thread(target=read, daemon=True).start()
        return stream

    def close(self):
        if self.channel:
            self.channel.close()
