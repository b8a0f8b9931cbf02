# SPDX-License-Identifier: Apache-2.0
"""A stand-in for a cluster's API server: TLS with a certificate of its own authority, a service account's folder, pods,
resource slices, a ConfigMap and a node that can be patched, and the ways in which a server fails."""
import base64
import contextlib
import http.server
import json
import socketserver
import ssl
import subprocess
import threading
import time
import urllib.parse

TOKEN = "first.token"
FIRST_VERSION = 100
STATUS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}


def pod(name, labels, namespace="ns"):
    """As the server writes a pod's metadata, with what nobody asked for."""
    return {"metadata": {"name": name, "namespace": namespace, "uid": "0e6c", "resourceVersion": "7", "labels": labels,
                         "annotations": {"a": "}]\"items\":["}, "managedFields": [{"manager": "kubelet"}]}}


def resource_slice(devices, pool="worker-7", generation=1, driver="gpu.nvidia.com", older=False):
    """`devices`: {name: {attribute: text}}."""
    def device(name, attributes):
        inside = {"attributes": {k: {"string": v} for k, v in attributes.items()}, "capacity": {"memory": {"value": "80Gi"}}}
        return {"name": name, **({"basic": inside} if older else inside)}
    return {"metadata": {"name": f"{pool}-{driver}"},
            "spec": {"driver": driver, "nodeName": "worker-7", "devices": [device(*d) for d in devices.items()],
                     "pool": {"name": pool, "generation": generation, "resourceSliceCount": 1}}}


def merge(into, patch):
    """RFC 7386."""
    for key, value in patch.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict):
            merge(into.setdefault(key, {}), value)
        else:
            into[key] = value


class Server:
    """`lists` by path; `objects` by path; `fail` may answer a request itself: a (status, body) or a function of the
    handler. `asked` has every (path, query, headers), `patches` every body of a patch that was carried out."""

    def __init__(self, folder):
        self.account = folder / "account"
        self.account.mkdir()
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", "/CN=kubernetes", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem",
                        "-out", self.account / "ca.crt"], check=True, capture_output=True)
        self.tokens, self.lists, self.objects, self.asked, self.fail, self.page = {TOKEN}, {}, {}, [], None, None
        self.patches, self.version, self.lock = [], FIRST_VERSION, threading.RLock()
        self.no_watch = False  # refused, as by a role without that verb
        self.sent = {}  # what a client has seen, by path and version: a watch begins there
        (self.account / "token").write_text(TOKEN + "\n")
        self.held = threading.Event()  # lets go of those who hang
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.answer(self)

            do_PATCH = do_POST = do_PUT = do_DELETE = do_GET

            def log_message(self, *args):
                pass

        class Threads(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass

        self.tls = tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self.account / "ca.crt", folder / "key.pem")
        self.http = Threads(("127.0.0.1", 0), Handler, bind_and_activate=False)
        self.http.server_bind()
        self.http.server_activate()
        # the handshake belongs to the connection's own thread
        self.http.socket = tls.wrap_socket(self.http.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()
        self.env = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.http.server_port),
                    "NODE_NAME": "worker-7", "no_proxy": "127.0.0.1"}

    def write_kubeconfig(self, path):
        """For those who come by kubectl's file instead of an account."""
        server = {"server": f"https://127.0.0.1:{self.http.server_port}", "certificate-authority-data": base64.b64encode((self.account / "ca.crt").read_bytes()).decode()}
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": server}], "users": [{"name": "u", "user": {"token": TOKEN}}]}))

    def answer(self, request):
        url = urllib.parse.urlsplit(request.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        self.asked.append((url.path, query, request.headers))
        failed = self.fail(request) if callable(self.fail) else self.fail
        if failed == "done":
            return
        data = request.rfile.read(int(request.headers.get("Content-Length", 0)))  # a connection is used again
        if failed:
            status, body = failed
        elif request.headers.get("Authorization", "")[7:] not in self.tokens:
            status, body = 401, {**STATUS, "message": "Unauthorized", "code": 401}
        elif url.path in self.objects and request.command == "PATCH":
            status, body = self.patch(self.objects[url.path], request.headers, json.loads(data))
        elif request.command in ("POST", "PUT", "DELETE"):
            status, body = self.write(request.command, url.path, data)
        elif url.path in self.objects:
            status, body = 200, self.partial(self.remember(url.path), request.headers)
        elif query.get("watch"):
            self.watch(request, url.path, query)
            return
        elif url.path in self.lists and not query.get("continue", "0").isdigit():
            status, body = 410, {**STATUS, "message": "The provided continue parameter is too old", "code": 410}
        elif url.path in self.lists and not (query.get("resourceVersion") and query.get("continue")):
            status, body = 200, self.list(url.path, query)
        else:
            status, body = 404, {**STATUS, "message": "the server could not find the requested resource", "code": 404}
        self.send(request, status, body)

    def change(self, path, **metadata):
        """What somebody else changes of an object: change(path, labels={...})."""
        with self.lock:
            merge(self.objects[path]["metadata"], metadata)
            self.version += 1
            self.objects[path]["metadata"]["resourceVersion"] = str(self.version)

    def patch(self, item, headers, patch):
        if headers["Content-Type"] == "application/strategic-merge-patch+json":
            return self.patch_status(item, headers, patch)
        assert headers["Content-Type"] == "application/merge-patch+json"
        with self.lock:
            if patch.get("metadata", {}).get("resourceVersion", item["metadata"]["resourceVersion"]) != item["metadata"]["resourceVersion"]:
                return 409, {**STATUS, "message": "the object has been modified; please apply your changes to the latest version",
                             "reason": "Conflict", "code": 409}
            if "metadata" in patch:
                self.patches.append(patch["metadata"])
            merge(item, patch)
            self.version += 1
            item["metadata"]["resourceVersion"] = str(self.version)
            self.remember_all()
            return 200, self.partial(item, headers)

    def write(self, method, path, data):
        """A POST to a collection, a PUT or DELETE of an object."""
        with self.lock:
            item = json.loads(data) if data else None
            if method == "POST":
                path += "/" + item["metadata"]["name"]
            if (path in self.objects) == (method == "POST"):
                status = 409 if method == "POST" else 404
                return status, {**STATUS, "message": "already exists" if method == "POST" else "not found", "code": status}
            if method == "DELETE":
                return 200, self.objects.pop(path)
            self.objects[path] = item
            return 201 if method == "POST" else 200, item

    def patch_status(self, item, headers, patch):
        """Conditions are merged by their type."""
        with self.lock:
            (wanted,) = patch["status"]["conditions"]
            there = item.setdefault("status", {}).setdefault("conditions", [])
            for one in there:
                if one["type"] == wanted["type"]:
                    one.update(wanted)
                    break
            else:
                there.append(wanted)
            self.version += 1
            item["metadata"]["resourceVersion"] = str(self.version)
            self.remember_all()
            return 200, self.partial(item, headers)

    def now(self, path, name=None):
        """{name: (object, its text)} of a list, or of the one object."""
        found = self.lists.get(path) or [] if name is None else [o for o in [self.objects.get(f"{path}/{name}")] if o]
        return {(o["metadata"].get("namespace"), o["metadata"].get("name", name)): (o, json.dumps(o)) for o in found}

    def remember(self, path):
        with self.lock:
            item = self.objects[path]
            collection, name = path.removesuffix("/status").rsplit("/", 1)
            if "resourceVersion" not in item["metadata"]:
                self.version += 1
                item["metadata"].update({"name": name, "resourceVersion": str(self.version)})
            self.sent[collection, name, item["metadata"]["resourceVersion"]] = self.now(collection, name)
            return item

    def remember_all(self):
        for path in self.objects:
            self.remember(path)

    def watch(self, request, path, query):
        name = query["fieldSelector"].removeprefix("metadata.name=") if "metadata.name" in query.get("fieldSelector", "") else None
        if self.no_watch:
            return self.send(request, 403, {**STATUS, "message": "cannot watch", "code": 403})
        known = self.sent.get((path, name, query["resourceVersion"]))
        if known is None:
            return self.send(request, 410, {**STATUS, "message": "too old resource version", "code": 410})
        request.send_response(200)
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        end = time.monotonic() + int(query["timeoutSeconds"])
        with contextlib.suppress(OSError):
            while time.monotonic() < end and not self.fail and not self.held.wait(0.01):
                known = self.send_events(request, path, name, known)
            if not self.fail:  # one that fails ends in the midst
                self.send_chunk(request, b"")
        request.close_connection = True

    def send_events(self, request, path, name, known):
        with self.lock:
            now, events = self.now(path, name), []
            for key in known.keys() | now.keys():
                before, item = known.get(key), now.get(key)
                if before and item and before[1] == item[1]:
                    continue
                if not item or int(item[0]["metadata"].get("resourceVersion", 0)) < FIRST_VERSION:
                    self.version += 1  # an object that can be written has its own
                    version = str(self.version)
                else:
                    version = item[0]["metadata"]["resourceVersion"]
                shown = json.loads((item or before)[1])
                shown["metadata"].update({"name": key[1], "resourceVersion": version})
                events.append({"type": "DELETED" if not item else "MODIFIED" if before else "ADDED",
                               "object": self.partial(shown, request.headers)})
                self.sent[path, name, version] = now
        for event in events:
            self.send_chunk(request, json.dumps(event).encode() + b"\n")
        return now

    @staticmethod
    def send_chunk(request, data):
        request.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        request.wfile.flush()

    @staticmethod
    def partial(item, headers):
        if "as=PartialObjectMetadata;" not in headers.get("Accept", ""):
            return item
        return json.loads(json.dumps({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]}))

    def list(self, path, query):
        items = self.lists[path]
        start, size = int(query.get("continue", "0")), self.page or len(items)
        with self.lock:
            self.version += 1
            metadata = {"resourceVersion": str(self.version)}
            self.sent[path, None, str(self.version)] = self.now(path)
        if start + size < len(items):
            metadata.update({"continue": str(start + size), "remainingItemCount": len(items) - start - size})
        return {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items[start:start + size] or None}

    @staticmethod
    def send(request, status, body):
        data = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
        request.send_response(status)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)

    def hang(self, request):
        self.held.wait(600)
        return "done"

    def count(self, path):
        return sum(asked[0] == path for asked in self.asked)

    def stop(self):
        self.held.set()
        self.http.shutdown()
        self.http.server_close()
