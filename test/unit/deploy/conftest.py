# SPDX-License-Identifier: Apache-2.0
"""What the tests of deploy/ share: the sources, and what the built agent understands."""
import contextlib
import fcntl
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[3]
LIMIT_S = 120
ROOT_S = 3600  # to fetch a root, and to build in one


@pytest.fixture(scope="session")
def source():
    return SOURCE


@pytest.fixture(scope="session")
def deploy():
    return SOURCE / "deploy"


@pytest.fixture(scope="session")
def version():
    return re.search(r"^  version: '([^']+)'", (SOURCE / "meson.build").read_text(), re.M)[1]


class AgentWords:
    """The flags and variables of `stoker agent`, from its own help and man page."""

    def __init__(self, help_text, man_page):
        self.flags = set()
        for line in re.findall(r"^ +(?:-\w, )?(--\S+)", help_text, re.M):
            self.flags |= {line.replace("[no-]", ""), line.replace("[no-]", "no-")}
        self.variables = set(re.findall(r"^\.B ([A-Z][A-Z0-9_]+)$", man_page, re.M))


@pytest.fixture(scope="session")
def run_agent(stoker):
    """run_agent(words...): the finished process, in an environment that says nothing about GPUs."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("STOKER_", "DCGM_", "NVIDIA_", "KUBERNETES_"))}

    def run(*words):
        return subprocess.run([stoker, "agent", *map(str, words)], env=env, capture_output=True, text=True, timeout=LIMIT_S,
                              check=False)

    done = run("--help")
    assert done.returncode == 0, done.stderr
    return run


@pytest.fixture(scope="session")
def agent_words(run_agent, stoker):
    man = subprocess.run([stoker, "help", "--man", "agent"], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    words = AgentWords(run_agent("--help").stdout, man.stdout)
    assert "--listen" in words.flags and "DCGM_EXPORTER_LISTEN" in words.variables
    return words


@pytest.fixture
def check_manager(stoker):
    """check_manager(container): `stoker mig manage` knows its variables, and its files are where it looks."""
    def check(manager):
        man = subprocess.run([stoker, "help", "--man", "mig", "manage"], capture_output=True, text=True, timeout=120, check=True).stdout
        names = {e["name"] for e in manager["env"]} - {"NVIDIA_VISIBLE_DEVICES", "NVIDIA_MIG_CONFIG_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"}
        assert names >= {"NODE_NAME", "CONFIG_FILE"} and all(name in man for name in names)
        env = {e["name"]: e.get("value") for e in manager["env"]}
        mounts = {m["mountPath"] for m in manager["volumeMounts"]}
        assert {env[n].rsplit("/", 1)[0] for n in ("CONFIG_FILE", "GPU_CLIENTS_FILE") if n in env} <= mounts
        assert "/var/run/secrets/kubernetes.io/serviceaccount" in mounts and "/var/run/secrets/kubernetes.io/serviceaccount" in man

    return check


@pytest.fixture
def check_device_plugin(stoker):
    """check_device_plugin(container, volumes): `stoker kubelet` knows its variables, its folders are mounted, and it has no privileges.
    Gives its variables."""
    def check(plugin, volumes):
        man = subprocess.run([stoker, "help", "--man", "kubelet"], capture_output=True, text=True, timeout=120, check=True).stdout
        man = man.replace("\\-", "-")
        env = {e["name"]: e.get("value") for e in plugin["env"]}
        given = env.keys() - {"NVIDIA_VISIBLE_DEVICES", "NVIDIA_MIG_MONITOR_DEVICES", "NVIDIA_MIG_CONFIG_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"}
        assert "MIG_STRATEGY" in given and all(name in man for name in given)
        assert plugin["command"] == ["/usr/bin/stoker", "kubelet"]
        mounts = {m["mountPath"]: m["name"] for m in plugin["volumeMounts"]}
        assert {"/var/lib/kubelet/device-plugins", "/run/stoker", "/driver-root", "/driver-root/dev"} <= mounts.keys()
        assert "/var/lib/kubelet/device-plugins" in man and "/driver-root" in man
        assert set(mounts.values()) <= {v["name"] for v in volumes}
        security = plugin["securityContext"]
        shared = [m["mountPath"] for m in plugin["volumeMounts"] if m.get("mountPropagation") == "Bidirectional"]
        makes_mig = env.get("STOKER_DRA_DYNAMIC_MIG") == "true"
        assert makes_mig == (env.get("NVIDIA_MIG_CONFIG_DEVICES") == "all")
        assert set(shared) <= {env.get("MPS_ROOT"), "/var/lib/kubelet/plugins"}
        if shared or makes_mig:  # a privileged container that may not escalate is refused
            assert security["privileged"] is True and not security.keys() & {"allowPrivilegeEscalation", "capabilities"}
        else:
            assert "MPS_ROOT" not in env and security["privileged"] is False and security["capabilities"] == {"drop": ["ALL"]}
        return env

    return check


@pytest.fixture
def check_placement(stoker):
    """check_placement(objects, [tls]): the extender is one, has what it needs of the API server and no more, and nothing of the node."""
    yaml = pytest.importorskip("yaml", reason="python3-yaml is not installed")
    help_text = subprocess.run([stoker, "place", "serve", "--help"], capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout

    def check(objects, tls):
        of = {one["kind"]: one for one in objects if one["metadata"]["name"] == "stoker-place" or one["kind"] == "ConfigMap"}
        spec = of["Deployment"]["spec"]
        pod, (container,) = spec["template"]["spec"], spec["template"]["spec"]["containers"]
        assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
        labels = spec["template"]["metadata"]["labels"]
        assert spec["selector"]["matchLabels"] == of["Service"]["spec"]["selector"] == labels
        agents = [one["spec"]["selector"] for one in objects if one["kind"] == "Service" and one["metadata"]["name"] == "stoker"]
        assert agents and all(not selector.items() <= labels.items() for selector in agents)
        assert {tuple(rule["resources"]): rule["verbs"] for rule in of["ClusterRole"]["rules"]} == {
            ("nodes",): ["list", "watch"], ("pods",): ["get", "list", "watch"], ("pods/binding",): ["create"],
            ("resourceslices", "resourceclaims"): ["list", "watch"]}
        (subject,) = of["ClusterRoleBinding"]["subjects"]
        assert subject["name"] == of["ServiceAccount"]["metadata"]["name"] == pod["serviceAccountName"]
        assert of["ServiceAccount"]["automountServiceAccountToken"] is False and pod["automountServiceAccountToken"] is True
        assert pod["securityContext"]["runAsNonRoot"] is True and pod["securityContext"]["fsGroup"] == 65532
        assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
        assert container["command"] == ["/usr/bin/stoker", "place", "serve"] and "nvidia.com/gpu" not in str(container["resources"])
        assert all(f" {flag.split('=')[0]} " in help_text for flag in container["args"])
        assert "--listen=:9405" in container["args"] and {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in container["env"]
        assert container["ports"][0]["containerPort"] == of["Service"]["spec"]["ports"][0]["port"] == 9405
        probe = {"tcpSocket": {"port": "place"}} if tls else {"httpGet": {"path": "/healthz", "port": "place"}}
        assert all(probe.items() <= container[f"{kind}Probe"].items() for kind in ("liveness", "readiness"))
        assert bool(tls) == ("--web-config-file=/etc/stoker/web/web.yaml" in container["args"]) == ("volumes" in pod)
        if tls:
            volumes = {v["name"]: v for v in pod["volumes"]}
            assert volumes["tls"]["secret"]["secretName"] == tls
            assert volumes["web"]["configMap"]["name"] == of["ConfigMap"]["metadata"]["name"]
            mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
            config = yaml.safe_load(of["ConfigMap"]["data"]["web.yaml"])["tls_server_config"]
            assert config.pop("client_auth_type") == "RequireAndVerifyClientCert" and mounts["web"] == "/etc/stoker/web"
            assert {path.rpartition("/")[0] for path in config.values()} == {mounts["tls"]} and len(config) == 3
        return pod

    return check


def copy_tree(source, to):
    """What git knows of the tree; a file that has not changed keeps its time."""
    listed = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=source, capture_output=True, text=True, check=True).stdout
    names = {name for name in listed.split("\0") if name and (source / name).is_file()}
    for old in [p for p in to.rglob("*") if p.is_file() and p.relative_to(to).parts[0] != "build"]:
        if str(old.relative_to(to)) not in names:
            old.unlink()
    for name in names:
        if not (to / name).exists() or (to / name).read_bytes() != (source / name).read_bytes():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, to / name)


@pytest.fixture(scope="session")
def this_debian():
    """"12", or None where this machine is no Debian."""
    release = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', Path("/etc/os-release").read_text(), re.M))
    return release.get("VERSION_ID") if release.get("ID") == "debian" else None


@contextlib.contextmanager
def alone(path):
    """Tests in several workers share a root: one after the other."""
    with open(f"{path}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class DebianRoot:
    """A root of a Debian release: path, copy(source) to /src, and run(script), which returns what the script prints."""

    def __init__(self, path):
        self.path = path

    def copy(self, source):
        with alone(self.path):
            copy_tree(source, self.path / "src")

    def run(self, script):
        with alone(self.path):
            done = subprocess.run([SOURCE / "tools/root.sh", "enter", self.path, script], stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=ROOT_S, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
        return done.stdout


@pytest.fixture(scope="session")
def debian_root(build):
    """debian_root(suite, [name], [packages]): a root that stays in the build folder, so that a second run has it; skips where it
    cannot be had."""
    def make(suite, name=None, packages="ca-certificates,make,git,curl"):
        if os.geteuid() or not shutil.which("debootstrap"):
            pytest.skip("needs root and debootstrap; 'make test-all' installs it")
        path = build / "roots" / (name or suite)
        path.parent.mkdir(exist_ok=True)
        with alone(path):
            made = subprocess.run([SOURCE / "tools/root.sh", "make", path, suite, packages], capture_output=True, text=True, timeout=ROOT_S, check=False)
        if made.returncode == 3:
            pytest.skip(f"{suite} cannot be fetched: {made.stderr[-300:]}")
        assert made.returncode == 0, made.stderr
        return DebianRoot(path)

    return make
