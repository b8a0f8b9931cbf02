# SPDX-License-Identifier: Apache-2.0
"""Credentials of a kubeconfig: tokens, client certificates and plug-ins, what is re-read, and what is refused and how."""
import base64
import contextlib
import json
import pathlib
import ssl
import subprocess

import pytest
import yaml
from apiserver import STATUS

PATH = "/api/v1/nodes/worker-7"
V1 = "client.authentication.k8s.io/v1"
OUTSIDE = {"KUBERNETES_SERVICE_HOST": "", "no_proxy": "127.0.0.1"}  # no pod of a cluster


def encode(path):
    return base64.b64encode(path.read_bytes()).decode()


class Config:
    """A kubeconfig and its driver; `user` and `cluster` are changed and written again."""

    def __init__(self, driver, api, folder):
        self.file = folder / "kube" / "config"
        self.file.parent.mkdir()
        self.make, self.api = driver, api
        self.cluster = {"server": f"https://127.0.0.1:{api.http.server_port}/", "certificate-authority-data": encode(api.account / "ca.crt")}
        self.user = {"token": "first.token"}

    def text(self):
        return yaml.safe_dump({
            "apiVersion": "v1", "kind": "Config", "current-context": "here", "preferences": {},
            "contexts": [{"name": "other", "context": {"cluster": "none", "user": "none"}},
                         {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "x"}}],
            "clusters": [{"name": "c", "cluster": self.cluster}], "users": [{"name": "u", "user": self.user}]})

    def write(self, **user):
        self.user = user or self.user
        self.file.write_text(self.text())

    def ask(self, **user):
        self.write(**user)
        return self.start().ask("GET", PATH)

    def start(self):
        return self.make(self.file, env=OUTSIDE)

    def plugin(self, *lines, **more):
        """A shell script beside the kubeconfig, and the user that runs it."""
        path = self.file.parent / "plugin"
        path.write_text("#!/bin/sh\necho run >>${0%/*}/runs\n" + "\n".join(lines) + "\n")
        path.chmod(0o755)
        return {"exec": {"apiVersion": V1, "command": "./plugin", "interactiveMode": "Never", "installHint": "install the plug-in", **more}}

    def runs(self):
        path = self.file.parent / "runs"
        return len(path.read_text().split()) if path.exists() else 0


@pytest.fixture
def config(driver, api, tmp_path):
    api.objects[PATH] = {"metadata": {"name": "worker-7", "resourceVersion": "7"}}
    return Config(driver, api, tmp_path)


def say(status, version=V1):
    return "cat <<'E'\n" + json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status}) + "\nE"


# -- the file --------------------------------------------------------------------------------------------------------

def test_tokens(config, api):
    assert config.ask()["state"] == "ok"
    (config.file.parent / "token").write_text("from-a-file\n")
    api.tokens = {"from-a-file"}
    assert config.ask(tokenFile="token", token="old")["state"] == "ok"


def test_authorities(config, api):
    config.cluster["certificate-authority"] = "ca.pem"
    del config.cluster["certificate-authority-data"]
    reply = config.ask()
    assert (reply["state"], "the kubeconfig's 'certificate-authority'" in reply["text"]) == ("no_account", True), reply
    (config.file.parent / "ca.pem").write_bytes((api.account / "ca.crt").read_bytes())
    assert config.ask()["state"] == "ok"
    del config.cluster["certificate-authority"]
    assert config.ask()["state"] == "unreachable"  # the system's authorities do not know it
    config.cluster["insecure-skip-tls-verify"] = True
    assert config.ask()["state"] == "ok"
    del config.cluster["insecure-skip-tls-verify"]
    config.cluster.update({"certificate-authority": "ca.pem", "tls-server-name": "other.example"})
    assert config.ask()["state"] == "unreachable"


def make_client(folder, name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", f"/CN={name}", "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt"],
                   check=True, capture_output=True)


@pytest.fixture
def clients(config, api):
    """The server wants a client certificate of `known`, and takes no token."""
    folder = config.file.parent
    make_client(folder, "a")
    make_client(folder, "b")
    api.tls.verify_mode = ssl.CERT_OPTIONAL
    for name in "ab":
        api.tls.load_verify_locations(folder / f"{name}.crt")
    api.tokens, api.known = {""}, {"a"}

    def check(request):
        subject = dict(x[0] for x in (request.connection.getpeercert() or {}).get("subject", ()))
        return None if subject.get("commonName") in api.known else (401, {**STATUS, "message": "who is it"})

    api.fail = check
    return folder


def test_client_certificates(config, clients):
    assert config.ask(**{"client-certificate": "a.crt", "client-key": "a.key"})["state"] == "ok"
    data = {"client-certificate-data": encode(clients / "a.crt"), "client-key-data": encode(clients / "a.key")}
    assert config.ask(**data)["state"] == "ok"
    assert config.ask(**{"client-certificate": "b.crt", "client-key": "b.key"})["state"] == "denied"


def test_keys_are_on_no_disk(config, clients):
    config.write(**{"client-certificate-data": encode(clients / "a.crt"), "client-key-data": encode(clients / "a.key")})
    one = config.start()
    assert one.ask("GET", PATH)["state"] == "ok"
    open_files = [p.readlink() for p in pathlib.Path(f"/proc/{one.process.pid}/fd").iterdir()]
    assert sum("memfd:stoker-tls" in str(p) for p in open_files) == 3  # the authority, the certificate, the key


def test_files_that_change(config, clients, api):
    """Each next request uses what the files say then; the connection of before is not used for it."""
    config.write(**{"client-certificate": "c.crt", "client-key": "c.key"})
    one = config.start()
    for name in "abab":
        for end in ("crt", "key"):
            (clients / f"c.{end}").write_bytes((clients / f"{name}.{end}").read_bytes())
        api.known = {name}
        assert one.ask("GET", PATH)["state"] == "ok", name
    config.write(**{"client-certificate": "b.crt", "client-key": "b.key"})
    assert one.ask("GET", PATH)["state"] == "ok"
    config.file.write_text("current-context: [")
    assert one.ask("GET", PATH)["state"] == "ok"  # what it said before stays in force
    config.write(token="other")
    assert one.ask("GET", PATH)["state"] == "denied"


@pytest.mark.parametrize("change, said", [
    ({"user": {"username": "u", "password": "p"}}, "'username' is not supported: use a token"),
    ({"user": {"auth-provider": {"name": "gcp"}}}, "'auth-provider' is not supported"),
    ({"user": {"token": "t", "as": "root"}}, "'as' is not supported"),
    ({"user": {"client-certificate": "x"}}, "'client-certificate' and 'client-key' need each other"),
    ({"user": {"client-certificate-data": "?", "client-key-data": "?"}}, "'client-certificate-data' is no base64"),
    ({"user": {"token": ["t"]}}, "'token' must be a text, not a list"),
    ({"user": {"tokenFile": "none"}}, "none': No such file"),
    ({"cluster": {"server": ""}}, "the cluster has no 'server'"),
    ({"cluster": {"proxy-url": "http://p"}}, "'proxy-url' is not supported: set https_proxy"),
    ({"cluster": {"insecure-skip-tls-verify": True}}, "exclude each other"),
    ({"cluster": {"insecure-skip-tls-verify": "yes"}}, "must be true or false, not 'yes'"),
    ({"cluster": {"server": "ftp://x"}}, "only http and https are spoken"),
    ({"exec": {"interactiveMode": "Always"}}, "'interactiveMode' Always is not supported: there is no terminal"),
    ({"exec": {"apiVersion": "client.authentication.k8s.io/v1alpha1"}}, "must be client.authentication.k8s.io/v1 or v1beta1"),
    ({"exec": {"command": ""}}, "'exec' has no 'command'"),
    ({"exec": {"env": [{"value": "x"}]}}, "an entry of 'env' needs a name"),
    ({"text": "a: b"}, "'current-context' names no context"),
    ({"text": "current-context: x"}, "'contexts' has no entry 'x'"),
    ({"text": "current-context: here\ncontexts: [{name: here, context: {cluster: c, user: u}}]"}, "'clusters' has no entry 'c'"),
    ({"text": "\t"}, "config:1"),
], ids=lambda x: x if isinstance(x, str) else "")
def test_what_is_refused(config, change, said):
    config.cluster.update(change.get("cluster", {}))
    config.user = change.get("user", config.user)
    if "exec" in change:
        config.user = config.plugin()
        config.user["exec"].update(change["exec"])
    config.write()
    if "text" in change:
        config.file.write_text(change["text"])
    reply = config.start().ask("GET", PATH)
    assert said in reply["text"], reply
    assert reply["state"] == ("unreachable" if "spoken" in said else "no_account") and not config.api.asked


def test_no_file(config, tmp_path):
    reply = config.start().ask("GET", PATH)
    assert reply["state"] == "no_account" and f"{config.file}': No such file" in reply["text"]


# -- plug-ins --------------------------------------------------------------------------------------------------------

def test_a_plugin(config, api):
    api.tokens = {"made-here"}
    version = "client.authentication.k8s.io/v1beta1"
    config.write(**config.plugin(
        'echo "$KUBERNETES_EXEC_INFO" >info; echo "$1 $TOKEN" >said; test -t 0 && exit 1; test -z "$(cat)" || exit 1',
        'echo "{\\"kind\\": \\"ExecCredential\\", \\"apiVersion\\": \\"%s\\", \\"status\\": {\\"token\\": \\"$TOKEN\\"}}"' % version,
        apiVersion=version, args=["get-token"], env=[{"name": "TOKEN", "value": "made-here"}], provideClusterInfo=True))
    text = config.file.parent / "plugin"
    text.write_text(text.read_text().replace(">info", ">${0%/*}/info").replace(">said", ">${0%/*}/said"))
    one = config.start()
    one.tell(*[f"call GET {PATH}"] * 3)
    assert [one.reply()["state"] for _ in range(3)] == ["ok"] * 3 and config.runs() == 1
    assert one.ask("GET", PATH)["state"] == "ok" and config.runs() == 1  # kept: it never expires
    assert (config.file.parent / "said").read_text() == "get-token made-here\n"
    info = json.loads((config.file.parent / "info").read_text())
    assert info == {"kind": "ExecCredential", "apiVersion": version, "spec": {"interactive": False, "cluster": {
        "server": config.cluster["server"].rstrip("/"), "insecure-skip-tls-verify": False,
        "certificate-authority-data": config.cluster["certificate-authority-data"]}}}


def test_a_plugin_with_a_certificate(config, clients):
    status = {"clientCertificateData": (clients / "a.crt").read_text(), "clientKeyData": (clients / "a.key").read_text()}
    assert config.ask(**config.plugin(say(status)))["state"] == "ok"


def test_what_was_given_expires(config, api):
    api.tokens = {"made-here"}
    config.write(**config.plugin('now=$(date -u -d "+4 seconds" +%Y-%m-%dT%H:%M:%SZ)', say(
        {"token": "made-here", "expirationTimestamp": "NOW"}).replace("'E'", "E").replace("NOW", "$now")))
    one = config.start()
    for _ in range(1000):  # until it was run again
        assert one.ask("GET", PATH)["state"] == "ok"
        if config.runs() > 1:
            break
        one.process.poll()
        with contextlib.suppress(subprocess.TimeoutExpired):
            one.process.wait(0.05)
    assert config.runs() == 2


def test_a_refusal_runs_it_again_once(config, api):
    (config.file.parent / "now").write_text("old")
    api.tokens = {"old"}
    config.write(**config.plugin('t=$(cat ${0%/*}/now)', say({"token": "NOW"}).replace("'E'", "E").replace("NOW", "$t")))
    one = config.start()
    assert one.ask("GET", PATH)["state"] == "ok" and config.runs() == 1
    api.tokens = {"new"}
    (config.file.parent / "now").write_text("new")
    one.tell(*[f"call GET {PATH}"] * 3)
    assert [one.reply()["state"] for _ in range(3)] == ["ok"] * 3 and config.runs() == 2
    api.tokens = set()
    assert one.ask("GET", PATH)["state"] == "denied" and config.runs() == 2  # that one came after a refusal already
    assert one.ask("GET", PATH)["state"] == "denied" and config.runs() == 4


@pytest.mark.parametrize("lines, said", [
    (["echo no card >&2; exit 7"], "exit code 7: no card; install the plug-in"),
    (["echo nothing"], "its answer is no JSON"),
    ([say({})], "neither 'token' nor 'clientCertificateData'"),
    ([say({"token": "x"}, "client.authentication.k8s.io/v1beta1")], "its answer is no ExecCredential of " + V1),
    ([say({"token": "x", "expirationTimestamp": "2020-01-01T00:00:00Z"})], "has expired already"),
    ([say({"token": "x", "expirationTimestamp": "soon"})], "expirationTimestamp"),
    (["head -c 300000 /dev/zero; sleep 600"], "its answer is larger than 262144 bytes"),
    (["kill -9 $$"], "killed by signal 9"),
])
def test_plugins_that_fail(config, api, lines, said):
    reply = config.ask(**config.plugin(*lines))
    assert (reply["state"], said in reply["text"]) == ("no_account", True), reply
    assert not api.asked


def test_a_plugin_that_is_not_there(config):
    config.plugin()
    (config.file.parent / "plugin").unlink()
    reply = config.ask(**{"exec": {"apiVersion": V1, "command": "no-such-plugin", "installHint": "get it at example.com"}})
    assert "no-such-plugin': No such file" in reply["text"] and "get it at example.com" in reply["text"]


def test_a_plugin_under_way_ends_with_the_client(config):
    config.write(**config.plugin("echo $$ >${0%/*}/pid.new; mv ${0%/*}/pid.new ${0%/*}/pid; exec sleep 600"))
    one = config.start()
    one.tell(f"call GET {PATH}")
    pid = config.file.parent / "pid"
    while not pid.exists():
        with contextlib.suppress(subprocess.TimeoutExpired):
            one.process.wait(0.02)
        assert one.process.poll() is None
    assert one.end() == []
    assert not pathlib.Path(f"/proc/{pid.read_text().strip()}").exists()
