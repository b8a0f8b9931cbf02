# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes manifests: what the agent needs is there, what it does not need is not, and both sides agree on names."""
import shutil
import subprocess

import pytest

yaml = pytest.importorskip("yaml", reason="python3-yaml is not installed")
LABELS = {"app.kubernetes.io/name": "stoker"}
SET_BY_RUNTIME = {"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "NODE_NAME"}  # read by others, or no option
SMALL = {"requests": {"cpu": "20m", "memory": "32Mi"}, "limits": {"cpu": "250m", "memory": "128Mi"}}


@pytest.fixture(scope="module")
def manifests(deploy):
    return {path.stem: yaml.safe_load(path.read_text()) for path in (deploy / "kubernetes").glob("*.yaml")}


@pytest.fixture(scope="module")
def pod(manifests):
    return manifests["daemonset"]["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def container(pod):
    assert len(pod["containers"]) == 1 and "initContainers" not in pod
    return pod["containers"][0]


def test_the_pod_has_no_privilege(pod, container):
    assert container["securityContext"] == {
        "runAsUser": 0, "runAsGroup": 0, "privileged": False, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]}}
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostPID", "hostIPC", "hostNetwork"} & set(pod) and pod["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in pod


def test_nothing_of_the_node_is_mounted_but_the_kubelets_socket(pod, container):
    paths = {v["name"]: v["hostPath"]["path"] for v in pod["volumes"] if "hostPath" in v}
    assert paths == {"pod-resources": "/var/lib/kubelet/pod-resources"}
    mounts = {m["name"]: m for m in container["volumeMounts"]}
    assert set(mounts) == {v["name"] for v in pod["volumes"]}
    assert mounts["pod-resources"]["readOnly"] is True
    assert mounts["pod-resources"]["mountPath"] == "/var/lib/kubelet/pod-resources"


def test_the_folder_of_pod_logs_is_mounted_only_where_pod_uid_is_asked_for(deploy, agent_words, run_agent, manifests):
    component = yaml.safe_load((deploy / "kubernetes" / "pod-uid" / "kustomization.yaml").read_text())
    assert component["kind"] == "Component" and "pod-uid" not in manifests["kustomization"]["components"]
    (entry,) = component["patches"]
    assert entry["target"] == {"kind": "DaemonSet", "name": manifests["daemonset"]["metadata"]["name"]}
    patch = yaml.safe_load(entry["patch"])["spec"]["template"]["spec"]
    (added,) = patch["containers"]
    assert added["name"] == manifests["daemonset"]["spec"]["template"]["spec"]["containers"][0]["name"]
    assert {e["name"] for e in added["env"]} <= agent_words.variables
    (volume,), (mount,) = patch["volumes"], added["volumeMounts"]
    assert mount == {"name": volume["name"], "mountPath": volume["hostPath"]["path"], "readOnly": True}
    assert set(patch) == {"containers", "volumes"} and set(added) == {"name", "env", "volumeMounts"}, "and nothing else"
    help_text = run_agent("--help").stdout
    assert "--kubernetes-pod-logs" in help_text and f"default {mount['mountPath']};" in " ".join(help_text.split())


def test_it_is_small(container):
    assert container["resources"] == SMALL


def test_the_agent_understands_its_environment(container, agent_words):
    names = {e["name"] for e in container["env"]}
    assert "DCGM_EXPORTER_KUBERNETES" in names and SET_BY_RUNTIME <= names
    assert names - SET_BY_RUNTIME <= agent_words.variables
    assert {a.split("=")[0] for a in container.get("args", []) if a.startswith("-")} <= agent_words.flags


def test_the_gpus_and_the_name_of_the_node_come_in(container):
    env = {e["name"]: e for e in container["env"]}
    assert env["NVIDIA_VISIBLE_DEVICES"]["value"] == "all"
    assert env["NODE_NAME"]["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"
    assert "nvidia.com/gpu" not in str(container["resources"]), "it must not take a GPU from the jobs"


def test_no_probe_fails_because_a_gpu_does(container):
    """/healthz and /readyz do; the kubelet would restart the agent for ever and a rollout would wait for ever."""
    probes = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    assert all(p == {"path": "/health", "port": "metrics"} for p in probes.values())


def test_port_service_and_monitor_belong_together(manifests, container):
    assert container["ports"] == [{"name": "metrics", "containerPort": 9400}]
    service, monitor, daemonset = (manifests[name] for name in ("service", "servicemonitor", "daemonset"))
    assert service["spec"]["ports"] == [{"name": "metrics", "port": 9400, "targetPort": "metrics"}]
    assert service["spec"]["selector"] == daemonset["spec"]["selector"]["matchLabels"] == LABELS
    assert daemonset["spec"]["template"]["metadata"]["labels"] == LABELS
    assert monitor["spec"]["selector"]["matchLabels"] == service["metadata"]["labels"] == LABELS
    endpoint = monitor["spec"]["endpoints"][0]
    assert endpoint["port"] == "metrics" and endpoint["path"] == "/metrics"
    assert endpoint["honorLabels"] is True, "else pod and namespace are the exporter's own"


def test_nodes_with_gpus_are_not_out_of_bounds(pod):
    assert {(t["key"], t["effect"]) for t in pod["tolerations"]} >= {("nvidia.com/gpu", "NoSchedule")}


def test_the_kustomization_names_every_file_and_this_version(manifests, deploy, container, version):
    files = {p.name for p in (deploy / "kubernetes").glob("*.yaml")} - {"kustomization.yaml"}
    assert set(manifests["kustomization"]["resources"]) == files
    assert container["image"] == f"stoker:{version}"
    assert manifests["kustomization"]["images"][0]["newTag"] == version
    assert manifests["namespace"]["metadata"]["name"] == manifests["kustomization"]["namespace"]


def test_kubectl_builds_it(deploy):
    if not shutil.which("kubectl"):
        pytest.skip("no kubectl on this machine")
    done = subprocess.run(["kubectl", "kustomize", deploy / "kubernetes"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    kinds = sorted(d["kind"] for d in yaml.safe_load_all(done.stdout))
    assert kinds == ["DaemonSet", "Namespace", "Service", "ServiceMonitor"]


def built_with(source, tmp_path, components):
    """The objects with these components instead of those that stand on."""
    folder = tmp_path / "kubernetes"
    shutil.copytree(source, folder)
    text = (folder / "kustomization.yaml").read_text()
    every = "\ncomponents: [kernel-log, incidents]\n"
    assert every in text
    (folder / "kustomization.yaml").write_text(text.replace(every, f"\ncomponents: [{', '.join(components)}]\n"))
    done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def pod_of(objects):
    (pod,) = [d["spec"]["template"]["spec"] for d in objects if d["kind"] == "DaemonSet"]
    return pod


@pytest.mark.skipif(not shutil.which("kubectl"), reason="no kubectl on this machine")
@pytest.mark.parametrize("components, volumes, variables", [
    (["pod-uid"], {"pod-logs": "/var/log/pods"}, {"DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID": "true"}),
    (["kernel-log"], {"kmsg": "/dev/kmsg"}, {"STOKER_KERNEL_LOG": "/dev/kmsg"}),
    (["incidents"], {"state": "/var/lib/stoker", "config": None}, {"STOKER_JOURNAL": "/var/lib/stoker/journal.db"}),
    (["kernel-log", "incidents", "pod-uid"],
     {"pod-logs": "/var/log/pods", "kmsg": "/dev/kmsg", "state": "/var/lib/stoker", "config": None},
     {"DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID": "true", "STOKER_KERNEL_LOG": "/dev/kmsg",
      "STOKER_JOURNAL": "/var/lib/stoker/journal.db"}),
])
def test_kubectl_builds_it_with_components(deploy, pod, container, agent_words, tmp_path, components, volumes, variables):
    built = pod_of(built_with(deploy / "kubernetes", tmp_path, components))
    assert "hostPID" not in built
    (with_more,) = built["containers"]
    assert {v["name"] for v in built["volumes"]} == {v["name"] for v in pod["volumes"]} | set(volumes)
    paths = {v["name"]: v["hostPath"]["path"] for v in built["volumes"] if "hostPath" in v}
    assert {n: paths.get(n) for n in volumes} == volumes
    mounts = {m["name"]: m for m in with_more["volumeMounts"]}
    assert set(mounts) == {v["name"] for v in built["volumes"]}
    assert all(mounts[n].get("readOnly") for n in volumes if n != "state"), "but for its own folder it writes nowhere"
    was = {e["name"]: e.get("value") for e in container["env"]}
    env = {e["name"]: e.get("value") for e in with_more["env"]}
    assert env == was | variables and set(variables) <= agent_words.variables
    assert with_more["securityContext"]["privileged"] == ("kernel-log" in components), "only what needs it gets it"


@pytest.mark.skipif(not shutil.which("kubectl"), reason="no kubectl on this machine")
@pytest.mark.parametrize("component, role, rule, variable", [
    ("pod-labels", "ClusterRole", {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
     {"DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS": "true"}),
    ("dra", "ClusterRole", {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["list", "watch"]},
     {"KUBERNETES_ENABLE_DRA": "true"}),
    ("counters", "Role", {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["stoker-counters"], "verbs": ["get", "watch"]},
     {"DCGM_EXPORTER_CONFIGMAP_DATA": "stoker:stoker-counters"}),
])
def test_only_what_needs_the_api_server_gets_a_token(deploy, pod, container, agent_words, tmp_path, component, role, rule, variable):
    objects = built_with(deploy / "kubernetes", tmp_path, [component])
    built, of = pod_of(objects), {d["kind"]: d for d in objects}
    (with_more,) = built["containers"]
    assert built["automountServiceAccountToken"] is True and not pod["automountServiceAccountToken"]
    assert {e["name"]: e.get("value") for e in with_more["env"]} == {e["name"]: e.get("value") for e in container["env"]} | variable
    assert set(variable) <= agent_words.variables and with_more["securityContext"] == container["securityContext"]
    found, binding = of[role], of[role + "Binding"]
    assert found["rules"] == [rule]
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": found["metadata"]["name"]}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "default", "namespace": "stoker"}]


@pytest.mark.skipif(not shutil.which("kubectl"), reason="no kubectl on this machine")
def test_all_components_go_together(deploy, tmp_path):
    objects = built_with(deploy / "kubernetes", tmp_path, ["kernel-log", "incidents", "pod-uid", "pod-labels", "dra", "counters", "mig-manager", "device-plugin"])
    containers = [c["name"] for c in pod_of(objects)["containers"]]
    assert containers[0] == "stoker" and set(containers[1:]) == {"mig-manager", "device-plugin"}
    assert sum(d["kind"] == "ClusterRole" for d in objects) == 3


@pytest.mark.skipif(not shutil.which("kubectl"), reason="no kubectl on this machine")
def test_the_mig_manager_stands_beside_an_agent_that_gets_nothing_by_it(deploy, pod, container, tmp_path, version, check_manager):
    objects = built_with(deploy / "kubernetes", tmp_path, ["mig-manager"])
    built = pod_of(objects)
    agent, manager = built["containers"]
    assert agent == container and built["automountServiceAccountToken"] is False and built["hostPID"] is True
    assert manager["image"] == f"stoker:{version}" and manager["command"] == ["/usr/bin/stoker", "mig", "manage"]
    mounts = {m["mountPath"]: m["name"] for m in manager["volumeMounts"]}
    volumes = {v["name"]: v for v in built["volumes"]}
    assert set(mounts.values()) <= set(volumes) and mounts["/var/lib/stoker"] == "mig-state" and mounts["/run/stoker"] == "run"
    check_manager(manager)
    (role,) = [d for d in objects if d["kind"] == "ClusterRole"]
    assert {rule["resources"][0]: rule["verbs"] for rule in role["rules"]} == {"nodes": ["get", "watch", "patch"], "pods": ["list"]}


@pytest.mark.skipif(not shutil.which("kubectl"), reason="no kubectl on this machine")
def test_the_device_plugin_needs_no_privileges(deploy, container, tmp_path, check_device_plugin):
    objects = built_with(deploy / "kubernetes", tmp_path, ["device-plugin"])
    built = pod_of(objects)
    agent, plugin = built["containers"]
    assert agent == container and built["automountServiceAccountToken"] is False and "hostPID" not in built
    check_device_plugin(plugin, built["volumes"])
    assert not [d for d in objects if "Role" in d["kind"]]
    objects = built_with(deploy / "kubernetes", tmp_path / "more", ["device-plugin", "update-node"])
    built = pod_of(objects)
    plugin = next(c for c in built["containers"] if c["name"] == "device-plugin")
    env = check_device_plugin(plugin, built["volumes"])
    assert env["STOKER_UPDATE_NODE"] == "true" and "NODE_NAME" in env and built["automountServiceAccountToken"] is False
    sharing = pod_of(built_with(deploy / "kubernetes", tmp_path / "mps", ["device-plugin", "mps"]))
    plugin = next(c for c in sharing["containers"] if c["name"] == "device-plugin")
    assert check_device_plugin(plugin, sharing["volumes"])["MPS_ROOT"] and sharing["hostPID"] is True
    (role,) = [d for d in objects if d["kind"] == "ClusterRole"]
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "watch", "patch"]},
        {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]}]
    objects = built_with(deploy / "kubernetes", tmp_path / "placed", ["device-plugin", "update-node", "follow-placement"])
    built = pod_of(objects)
    plugin = next(c for c in built["containers"] if c["name"] == "device-plugin")
    env = check_device_plugin(plugin, built["volumes"])
    assert (env["STOKER_FOLLOW_PLACEMENT"], env["STOKER_UPDATE_NODE"]) == ("true", "true") and "NODE_NAME" in env
    roles = {d["metadata"]["name"]: d["rules"] for d in objects if d["kind"] == "ClusterRole"}
    assert roles["stoker-follow-placement"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
    objects = built_with(deploy / "kubernetes", tmp_path / "claims", ["device-plugin", "claims"])
    built = pod_of(objects)
    plugin = next(c for c in built["containers"] if c["name"] == "device-plugin")
    env = check_device_plugin(plugin, built["volumes"])
    assert env["STOKER_DRA_DRIVER"] == "gpu.nvidia.com" and "NODE_NAME" in env and built["automountServiceAccountToken"] is False
    assert {m["mountPath"] for m in plugin["volumeMounts"]} >= {"/var/lib/kubelet/plugins", "/var/lib/kubelet/plugins_registry", "/var/run/cdi"}
    sharing = pod_of(built_with(deploy / "kubernetes", tmp_path / "sharing", ["device-plugin", "claims", "claims-sharing"]))
    plugin = next(c for c in sharing["containers"] if c["name"] == "device-plugin")
    check_device_plugin(plugin, sharing["volumes"])
    assert plugin["securityContext"]["privileged"] is True and sharing["hostPID"] is True
    made = pod_of(built_with(deploy / "kubernetes", tmp_path / "made", ["device-plugin", "claims", "claims-dynamic-mig"]))
    plugin = next(c for c in made["containers"] if c["name"] == "device-plugin")
    assert check_device_plugin(plugin, made["volumes"])["STOKER_DRA_DYNAMIC_MIG"] == "true" and plugin["securityContext"]["privileged"] is True
    assert sorted(d["metadata"]["name"] for d in objects if d["kind"] == "DeviceClass") == ["gpu.nvidia.com", "mig.nvidia.com"]


@pytest.mark.skipif(not shutil.which("kubectl"), reason="no kubectl on this machine")
def test_placement_is_beside_agents_that_get_nothing_by_it(deploy, tmp_path, version, check_placement):
    plain = built_with(deploy / "kubernetes", tmp_path / "plain", [])
    objects = built_with(deploy / "kubernetes", tmp_path / "more", ["placement"])
    pod = check_placement(objects, "stoker-place-tls")
    assert pod["containers"][0]["image"] == f"stoker:{version}"
    assert all(one in objects for one in plain) and len(objects) == len(plain) + 6


def test_what_no_component_gives_is_off_and_no_ticket(container):
    env = {e["name"]: e.get("value") for e in container["env"]}
    assert env["STOKER_KERNEL_LOG"] == env["STOKER_JOURNAL"] == "none"


@pytest.mark.skipif(not shutil.which("kubectl"), reason="no kubectl on this machine")
def test_by_default_incidents_outlive_the_pod_and_the_kernels_log_is_read(deploy):
    done = subprocess.run(["kubectl", "kustomize", deploy / "kubernetes"], capture_output=True, text=True, timeout=120, check=True)
    (container,) = pod_of(yaml.safe_load_all(done.stdout))["containers"]
    env = {e["name"]: e.get("value") for e in container["env"]}
    assert (env["STOKER_KERNEL_LOG"], env["STOKER_JOURNAL"]) == ("/dev/kmsg", "/var/lib/stoker/journal.db")


@pytest.mark.skipif(not shutil.which("kubectl"), reason="no kubectl on this machine")
def test_components_that_stand_off(deploy, build, tmp_path):
    """Each alone, in the folder that the build makes: what it adds, and that nothing else changes."""
    plain = {d["kind"] for d in built_with(deploy / "kubernetes", tmp_path / "plain", [])}
    seen = {name: built_with(build / "deploy/kubernetes", tmp_path / name, [name])
            for name in ("host-pid", "pod-monitor", "network-policy", "rules", "dashboards")}
    kinds = {name: {d["kind"] for d in objects} for name, objects in seen.items()}
    assert kinds["host-pid"] == plain and pod_of(seen["host-pid"])["hostPID"] is True
    assert kinds["pod-monitor"] == plain - {"ServiceMonitor"} | {"PodMonitor"}
    assert kinds["network-policy"] == plain | {"NetworkPolicy"}
    assert kinds["rules"] == plain | {"PrometheusRule"}
    assert kinds["dashboards"] == plain | {"ConfigMap"}
    maps = [d for d in seen["dashboards"] if d["kind"] == "ConfigMap"]
    assert len(maps) == 5 and all(d["metadata"]["labels"]["grafana_dashboard"] == "1" for d in maps)
    assert all("hostPID" not in pod_of(objects) for name, objects in seen.items() if name != "host-pid")


def test_both_monitors_scrape_alike(deploy, manifests):
    pods = yaml.safe_load((deploy / "kubernetes/pod-monitor/podmonitor.yaml").read_text())
    assert pods["spec"]["podMetricsEndpoints"] == manifests["servicemonitor"]["spec"]["endpoints"]
    assert pods["spec"]["selector"] == manifests["servicemonitor"]["spec"]["selector"]
