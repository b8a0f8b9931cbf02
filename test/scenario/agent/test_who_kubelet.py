# SPDX-License-Identifier: Apache-2.0
"""`stoker who` beside a pod-resources server of another implementation: gRPC's own C library, and messages made by Google's protobuf
from the whole of the v1 API."""
import json
import pathlib
import sys
import time

import pytest
import yaml
from agent_rig import settles, until
from apiserver import Server, resource_slice

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "unit" / "podresources"))
kubelet = pytest.importorskip("kubelet", reason="the kubelet's stand-in needs python3-grpcio")
pb2 = pytest.importorskip("google.protobuf.descriptor_pb2", reason="needs python3-protobuf")
from google.protobuf import message_factory  # noqa: E402

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
# kubelet/pkg/apis/podresources/v1/api.proto: "*" before a repeated field
API = {
    "NUMANode": ["int64 ID"],
    "TopologyInfo": ["*NUMANode nodes"],
    "ContainerDevices": ["string resource_name", "*string device_ids", "TopologyInfo topology"],
    "ContainerMemory": ["string memory_type", "uint64 size", "TopologyInfo topology"],
    "CDIDevice": ["string name"],
    "ClaimResource": ["*CDIDevice cdi_devices", "string driver_name", "string pool_name", "string device_name"],
    "DynamicResource": ["string class_name", "string claim_name", "string claim_namespace", "*ClaimResource claim_resources"],
    "ContainerResources": ["string name", "*ContainerDevices devices", "*int64 cpu_ids", "*ContainerMemory memory",
                           "*DynamicResource dynamic_resources"],
    "PodResources": ["string name", "string namespace", "*ContainerResources containers"],
    "ListPodResourcesRequest": [],
    "ListPodResourcesResponse": ["*PodResources pod_resources"],
    "AllocatableResourcesRequest": [],
    "AllocatableResourcesResponse": ["*ContainerDevices devices", "*int64 cpu_ids", "*ContainerMemory memory"],
    "GetPodResourcesRequest": ["string pod_name", "string pod_namespace"],
    "GetPodResourcesResponse": ["PodResources pod_resources"],
}


def make_messages():
    file = pb2.FileDescriptorProto(name="podresources/v1/api.proto", package="v1", syntax="proto3")
    for name, fields in API.items():
        message = file.message_type.add(name=name)
        for number, field in enumerate(fields, 1):
            kind, label = field.lstrip("*").split()
            made = message.field.add(name=label, number=number, label=3 if field[0] == "*" else 1)
            if kind in API:
                made.type, made.type_name = made.TYPE_MESSAGE, f".v1.{kind}"
            else:
                made.type = {"string": made.TYPE_STRING, "int64": made.TYPE_INT64, "uint64": made.TYPE_UINT64}[kind]
    return {name.rpartition(".")[2]: made for name, made in message_factory.GetMessages([file]).items()}


V1 = make_messages()
NUMA = {"nodes": [{}, {"ID": 1}]}  # node 0 comes as an empty message


def pod(name, *ids, resource="nvidia.com/gpu", claims=(), namespace="ml"):
    """With a container beside it that has processors and memory alone."""
    devices = [{"resource_name": resource, "device_ids": [i], "topology": NUMA} for i in ids]
    main = {"name": "main", "devices": devices, "cpu_ids": [4, 5], "dynamic_resources": list(claims)}
    side = {"name": "side", "cpu_ids": list(range(8)), "memory": [{"memory_type": "memory", "size": 1 << 40, "topology": NUMA}]}
    return {"name": name, "namespace": namespace, "containers": [side, main]}


def claim(device):
    return {"claim_name": "c1", "claim_namespace": "ml", "claim_resources": [
        {"cdi_devices": [{"name": f"k8s.gpu.nvidia.com/claim={device}"}], "driver_name": "gpu.nvidia.com", "pool_name": "worker-7",
         "device_name": device},
        {"driver_name": "nic.example.com", "pool_name": "worker-7", "device_name": "nic-0"}]}


class Service(kubelet.Kubelet):
    """List, GetAllocatableResources and Get; `pods` is what it knows, `odd` may answer a List in its place."""

    def __init__(self, path):
        self.pods, self.odd = [], None
        names = {"GetAllocatableResources": self.allocatable, "Get": self.get}
        super().__init__(path, self.answer_list, {f"/v1.PodResourcesLister/{name}": call for name, call in names.items()},
                         options=[("grpc.max_send_message_length", -1)])

    def answer_list(self, request, context):
        V1["ListPodResourcesRequest"].FromString(request)
        return self.odd(context) if self.odd else V1["ListPodResourcesResponse"](pod_resources=self.pods).SerializeToString()

    def allocatable(self, request, context):
        V1["AllocatableResourcesRequest"].FromString(request)
        devices = [d for p in self.pods for c in p["containers"] for d in c.get("devices", [])]
        return V1["AllocatableResourcesResponse"](devices=devices, cpu_ids=range(64)).SerializeToString()

    def get(self, request, context):
        asked = V1["GetPodResourcesRequest"].FromString(request)
        for one in self.pods:
            if (one["name"], one["namespace"]) == (asked.pod_name, asked.pod_namespace):
                return V1["GetPodResourcesResponse"](pod_resources=one).SerializeToString()
        context.abort(kubelet.grpc.StatusCode.NOT_FOUND, "no such pod")


def work(name, gpus, **more):
    return {"name": name, "kind": "inference", "gpus": gpus, "process": "python", "user": "root", "pod": f"ml/{name}", "memory": "4GiB", **more}


SCENE = {"about": "a kubelet's pods", "truth": [],
         "gpus": [{"board": "h100-sxm-80gb", "count": 6}, {"board": "h100-sxm-80gb", "count": 1, "mig": ["3g.40gb", "2g.20gb"]}],
         "work": [work("train-0", "0"), work("chat-0", "1"), work("draft-0", "1"), work("gke-0", "2"), work("dra-0", "3"),
                  work("stray-0", "5"), work("mig-0", "6", mig=0), work("mig-1", "6", mig=1)]}
ALONE = {(0, "train-0"): "used", (1, "chat-0"): "used", (1, "draft-0"): "used", (2, "gke-0"): "used", (3, "dra-0"): "used",
         (5, "stray-0"): "used", (6, "mig-0"): "used", (6, "mig-1"): "used"}
PLANTED = {**ALONE, (4, "late-0"): "reserved", (5, "stray-0"): "unmanaged"}


@pytest.fixture
def place(make_node, make_agent, tmp_path, tmp_path_factory):
    scene, path = tmp_path / "scene.yaml", tmp_path_factory.mktemp("k") / "kubelet.sock"  # a socket's path is short
    scene.write_text(yaml.safe_dump(SCENE))
    api = Server(tmp_path)
    agent = make_agent({**make_node(scene).env, **api.env},
                       options=["-k", "--pod-resources-kubelet-socket", path, "--kubernetes-period", "100ms", "--kubernetes-enable-dra",
                                "--kubernetes-account", api.account, "--nvidia-resource-names", "nvidia.com/gpu.shared"])
    uuids, instances = until(lambda: (g := agent.gpus()) and len(g[6]["instances"]) == 2 and
                             ([x["uuid"] for x in g], [i["uuid"] for i in g[6]["instances"]]), agent.log_text)
    api.lists[SLICES] = [resource_slice({"gpu-3": {"uuid": uuids[3], "type": "gpu"}})]
    with Service(path) as service:
        service.pods = [
            pod("train-0", uuids[0]), pod("chat-0", uuids[1] + "::0", resource="nvidia.com/gpu.shared"),
            pod("draft-0", uuids[1] + "::1", resource="nvidia.com/gpu.shared"), pod("gke-0", "nvidia2"), pod("dra-0", claims=[claim("gpu-3")]),
            pod("late-0", uuids[4]), pod("mig-0", instances[0], resource="nvidia.com/mig-3g.40gb"),
            pod("mig-1", instances[1] + "::0", resource="nvidia.com/mig-2g.20gb"), pod("web-0", namespace="shop")]
        yield agent, service
    api.stop()


def allocations(agent):
    return json.loads(agent.verb("who", "--json").stdout)["allocations"]


def states(agent):
    return {(one["gpu"], one["owner"]["pod"]): one["state"] for one in allocations(agent)}


def wait_for(agent, wanted):
    until(lambda: states(agent) == wanted, lambda: f"{states(agent)}\n{agent.log_text()}")


def test_planted_owners(place):
    agent, _ = place
    wait_for(agent, PLANTED)

    def shared():
        shares = {}
        for one in allocations(agent):
            assert (one["owner"]["namespace"], one["owner"]["container"]) == ("ml", "main") or one["owner"]["pod"] == "stray-0", one
            shares.setdefault((one["gpu"], str(one["instance"])), []).append((one["attribution"], one["share"]))
        for (gpu, _), held in shares.items():
            assert abs(sum(share for _, share in held) - 1) < 1e-9
            wanted = {"sampled", "even"} if gpu == 1 else {"mig"} if gpu == 6 else {"exclusive"}
            assert {kind for kind, _ in held} <= wanted, (gpu, held)
        assert len(shares) == 8

    settles(shared)


def test_a_kubelet_in_trouble(place):
    """Slow, huge, without an answer, started anew: what is known stays for a moment, then processes alone speak, then all is back."""
    agent, service = place
    wait_for(agent, PLANTED)
    answer = lambda pods: V1["ListPodResourcesResponse"](pod_resources=pods).SerializeToString()
    odd = {
        "slow": lambda context: time.sleep(0.5) or answer(service.pods[1:]),  # one pod less, to see that it was read
        "huge": lambda context: answer(service.pods[1:] + [pod(f"pod-{i}", *[f"cpu-{i}-{k}" for k in range(20)], resource="example.com/cpu",
                                                               namespace="shop") for i in range(1000)]),
    }
    for how in odd.values():
        service.odd = how
        wait_for(agent, {**PLANTED, (0, "train-0"): "unmanaged"})
        service.odd = None
        wait_for(agent, PLANTED)
    for status in ("UNAVAILABLE", "RESOURCE_EXHAUSTED", "PERMISSION_DENIED", "UNIMPLEMENTED"):
        service.odd = lambda context, status=status: context.abort(kubelet.grpc.StatusCode[status], "not now")
        wait_for(agent, ALONE)
        service.odd = None
        wait_for(agent, PLANTED)
    service.stop()
    wait_for(agent, ALONE)
    service.start()
    wait_for(agent, PLANTED)
