# SPDX-License-Identifier: Apache-2.0
"""A cluster of GPU nodes at an API server of the tests, `stoker place serve` beside it, and kube-scheduler's requests."""
import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "agent"))
from agent_rig import until  # noqa: E402
from apiserver import STATUS, Server  # noqa: E402

NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
GPUS, PLACED_BY, UNHEALTHY = "stoker.dev/gpus", "stoker.dev/placed-by", "stoker.dev/gpus-unhealthy"


def node(name, gpus=8, usable=None, cores=96, model="NVIDIA-H100-80GB-HBM3", broken=None, unhealthy=None):
    count = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    conditions = [{"type": "Ready", "status": "True"}]
    if broken:
        conditions.append({"type": "GPUsHealthy", "status": "False", "reason": "GpuLost", "message": broken})
    return {"metadata": {"name": name, "labels": {"nvidia.com/gpu.product": model}, "annotations": {UNHEALTHY: unhealthy} if unhealthy else {}},
            "status": {"capacity": {"cpu": str(cores), **count}, "conditions": conditions,
                       "allocatable": {"cpu": f"{cores * 1000 - 500}m", **(count if usable is None else {"nvidia.com/gpu": str(usable)})}}}


def pod(name, gpus=1, on=None, held=None, cores=4, uid=None, phase="Pending"):
    asked = {"cpu": str(cores), **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    return {"metadata": {"name": name, "namespace": "team", "uid": uid or f"uid-{name}", **({"annotations": {GPUS: held}} if held else {})},
            "spec": {"containers": [{"name": "main", "resources": {"requests": asked, "limits": dict(asked)}}], **({"nodeName": on} if on else {})},
            "status": {"phase": phase}}


class Cluster(Server):
    """An API server that binds. `bindings`: every body of a binding, `refuse`: what the next ones are answered with."""

    def __init__(self, folder, nodes, pods=()):
        super().__init__(folder)
        self.lists[NODES], self.lists[PODS] = list(nodes), []
        self.bindings, self.refuse = [], None
        self.forbidden = None  # a part of paths that the account may not read
        self.quiet = False  # a watch has no events: comparing thousands of objects takes this server long
        for one in pods:
            self.add(one)

    def answer(self, request):
        if self.forbidden and self.forbidden in request.path:
            self.send(request, 403, {**STATUS, "message": "not you", "code": 403})
        else:
            super().answer(request)

    def add(self, one):
        with self.lock:
            self.objects[f"/api/v1/namespaces/team/pods/{one['metadata']['name']}"] = one
            if one["spec"].get("nodeName"):
                self.lists[PODS] = [*self.lists[PODS], one]

    def remove(self, name):
        with self.lock:
            del self.objects[f"/api/v1/namespaces/team/pods/{name}"]
            self.lists[PODS] = [p for p in self.lists[PODS] if p["metadata"]["name"] != name]

    def watch(self, request, path, query):
        if not self.quiet:
            return super().watch(request, path, query)
        request.send_response(200)
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        self.held.wait(int(query["timeoutSeconds"]))
        request.close_connection = True

    def write(self, method, path, data):
        if not path.endswith("/binding"):
            return super().write(method, path, data)
        with self.lock:
            body = json.loads(data)
            self.bindings.append(body)
            if self.refuse:
                return self.refuse
            found = self.objects.get(path.removesuffix("/binding"))
            if not found or found["metadata"]["uid"] != body["metadata"]["uid"]:
                return 404, {**STATUS, "message": "pods not found", "code": 404}
            if found["spec"].get("nodeName"):
                return 409, {**STATUS, "message": "pod is already assigned", "reason": "Conflict", "code": 409}
            found["spec"]["nodeName"] = body["target"]["name"]
            found["metadata"].setdefault("annotations", {}).update(body["metadata"].get("annotations", {}))
            self.lists[PODS] = [*self.lists[PODS], found]
            return 201, {**STATUS, "status": "Success", "code": 201}


class Extender:
    def __init__(self, stoker, folder, api, *options):
        self.command = [stoker, "place", "serve", "--listen", "127.0.0.1:0", "--kubernetes-account", api.account, *options]
        self.api, self.log_path, self.env = api, folder / "extender.log", {**os.environ, **api.env}
        self.start()

    def start(self):
        self.log_path.write_text("")
        self.process = subprocess.Popen(list(map(str, self.command)), env=self.env, stderr=open(self.log_path, "ab"))
        self.port = int(until(lambda: self.log().split("listening on http://127.0.0.1:")[1].split("/\n")[0], self.log))
        self.client = None

    def log(self):
        return self.log_path.read_text()

    def wait_known(self):
        until(lambda: self.metric("stoker_place_trusted") == 1, self.log)
        return self

    def request(self, method, path, body=None, headers=None, fresh=False):
        """As Go's client: one connection that is kept."""
        if not self.client or fresh:
            self.client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        self.client.request(method, path, body, {"User-Agent": "Go-http-client/1.1", "Accept-Encoding": "gzip",
                                                 **({"Content-Type": "application/json"} if body is not None else {}), **(headers or {})})
        answer = self.client.getresponse()
        return answer.status, answer.read()

    def post(self, path, body, **how):
        status, data = self.request("POST", path, json.dumps(body), **how)
        assert status == 200, data
        return json.loads(data)

    def filter(self, one, names):
        return self.post("/filter", {"Pod": one, "Nodes": None, "NodeNames": names})

    def scores(self, one, names):
        return {row["Host"]: row["Score"] for row in self.post("/prioritize", {"Pod": one, "Nodes": None, "NodeNames": names})}

    def bind(self, one, on, **how):
        """What went wrong, "" where nothing did."""
        meta = one["metadata"]
        return self.post("/bind", {"PodName": meta["name"], "PodNamespace": "team", "PodUID": meta["uid"], "Node": on}, **how)["Error"]

    def metric(self, name):
        rows = dict(line.rsplit(" ", 1) for line in self.request("GET", "/metrics")[1].decode().splitlines() if line[0] != "#")
        return float(rows[name])

    def count(self, verb, outcome):
        return self.metric(f'stoker_place_requests_total{{verb="{verb}",outcome="{outcome}"}}')

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0, self.log()
