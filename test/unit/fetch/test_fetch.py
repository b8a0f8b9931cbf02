# SPDX-License-Identifier: Apache-2.0
"""src/wire/fetch against servers that misbehave. Nothing here measures time: what must not wait is shown by order."""
import contextlib
import json
import socket
import ssl
import subprocess
import threading
import time

import pytest

PATIENCE = 120


def failed(answer, why):
    return answer["status"] == 0 and why in answer["text"]


class Driver:
    def __init__(self, exe, env=None):
        self.process = subprocess.Popen([exe], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env=env)
        self.kept = {}

    def tell(self, **command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def send(self, id, url, **more):
        self.tell(**{"do": "send", "id": id, "url": url, "body": "{}", **more})

    def line(self):
        text = self.process.stdout.readline()
        assert text, self.process.stderr.read()
        return json.loads(text)

    def answer(self, id):
        while id not in self.kept:
            line = self.line()
            self.kept[line.get("id")] = line
        return self.kept.pop(id)

    def ask(self, url, **more):
        self.send("one", url, **more)
        return self.answer("one")

    def end(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        rest = self.process.stdout.read()
        assert self.process.wait(PATIENCE) == 0, self.process.stderr.read()
        assert self.process.stderr.read() == ""
        return [json.loads(line) for line in rest.splitlines()]


class Server:
    """Gives each connection to `serve(self, connection, request)`, where request is its head and body."""

    def __init__(self, serve, family=socket.AF_INET, address=("127.0.0.1", 0), tls=None):
        self.serve, self.tls, self.requests, self.open = serve, tls, [], []
        self.lock = threading.Condition()
        self.listening = socket.socket(family)
        self.listening.bind(address)
        self.listening.listen(64)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.listening.getsockname()[1]}/api" \
            if family == socket.AF_INET else None
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self.one, args=(connection,), daemon=True).start()

    def one(self, connection):
        with contextlib.suppress(OSError, ValueError):
            if self.tls:
                connection = self.tls.wrap_socket(connection, server_side=True)
            self.open.append(connection)
            data = connection.makefile("rb")
            while True:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    line = data.readline()
                    if not line:
                        return
                    head += line
                length = [int(l.split(b":")[1]) for l in head.split(b"\r\n") if l.lower().startswith(b"content-length:")]
                body = data.read(length[0]) if length else b""
                with self.lock:
                    self.requests.append((head.decode(), body))
                    self.lock.notify_all()
                self.serve(self, connection, (head, body))

    def wait(self, count):
        with self.lock:
            assert self.lock.wait_for(lambda: len(self.requests) >= count, PATIENCE)

    def close(self):
        self.listening.close()
        for connection in self.open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()


def reply(status="200 OK", body=b"fine", head=""):
    def serve(server, connection, request):
        connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{head}\r\n".encode() + body)
    return serve


def hang(server, connection, request):
    threading.Event().wait(PATIENCE)


@pytest.fixture
def exe(build):
    return build / "test" / "unit" / "fetch" / "fetch_driver"


@pytest.fixture
def driver(exe):
    driver = Driver(exe)
    yield driver
    if driver.process.poll() is None and not driver.process.stdin.closed:
        driver.end()


@pytest.fixture
def serve():
    servers = []

    def make(*args, **more):
        servers.append(Server(*args, **more))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


def openssl(*args, cwd):
    subprocess.run(["openssl", *args], cwd=cwd, check=True, capture_output=True)


@pytest.fixture(scope="session")
def certs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certs")
    ec = ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")
    for ca in ("ca", "other"):
        openssl("req", "-x509", "-newkey", *ec, "-nodes", "-days", "2", "-subj", f"/CN={ca}", "-addext",
                "keyUsage=critical,keyCertSign,cRLSign", "-keyout", f"{ca}.key", "-out", f"{ca}.crt", cwd=folder)
    for name, san, usage in (("local", "IP:127.0.0.1", "serverAuth"), ("named", "DNS:alerts.example", "serverAuth"),
                             ("client", "DNS:node.example", "clientAuth")):
        (folder / "ext").write_text(f"subjectAltName={san}\nextendedKeyUsage={usage}\n")
        openssl("req", "-newkey", *ec, "-nodes", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", "csr",
                cwd=folder)
        openssl("x509", "-req", "-in", "csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                "-extfile", "ext", "-out", f"{name}.crt", cwd=folder)
    return folder


def tls_of(certs, name, client=False):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certs / f"{name}.crt", certs / f"{name}.key")
    if client:
        context.load_verify_locations(certs / "ca.crt")
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def test_request_arrives_as_it_is_and_answer_comes_back(driver, serve):
    server = serve(reply(body=b'{"status":"ok"}'))
    got = driver.ask(server.url, body='{"a":"ä"}', headers=["Content-Type: application/json", "X-Key: 7"])
    assert (got["status"], got["body"], got["text"]) == (200, '{"status":"ok"}', "")
    head, body = server.requests[0]
    assert head.startswith("POST /api HTTP/1.1\r\n") and body == '{"a":"ä"}'.encode()
    assert "Content-Type: application/json\r\n" in head and "X-Key: 7\r\n" in head and "Expect" not in head


def test_large_body_is_sent_without_asking_first(driver, serve):
    server = serve(reply())
    body = "x" * (3 << 20)
    assert driver.ask(server.url, body=body)["status"] == 200
    assert server.requests[0][1] == body.encode() and "expect" not in server.requests[0][0].lower()


def test_one_connection_serves_many_requests(driver, serve):
    server = serve(reply())
    for _ in range(5):
        assert driver.ask(server.url)["status"] == 200
    assert len(server.open) == 1


def test_connection_that_died_meanwhile_is_made_anew(driver, serve):
    def once(server, connection, request):
        reply()(server, connection, request)
        connection.shutdown(socket.SHUT_RDWR)

    server = serve(once)
    for _ in range(3):
        assert driver.ask(server.url)["status"] == 200


def test_credentials(driver, serve):
    server = serve(reply())
    driver.ask(server.url, user="ann", password="p:w")
    driver.ask(server.url, bearer="tok.en")
    assert "Authorization: Basic YW5uOnA6dw==\r\n" in server.requests[0][0]
    assert "Authorization: Bearer tok.en\r\n" in server.requests[1][0]


def test_redirect_is_not_followed(driver, serve):
    server = serve(reply("302 Found", head="Location: /elsewhere\r\n"))
    assert driver.ask(server.url)["status"] == 302
    assert len(server.requests) == 1


def test_busy_server_says_when_to_come_again(driver, serve):
    server = serve(reply("503 Busy", head="Retry-After: 7\r\n"))
    got = driver.ask(server.url)
    assert (got["status"], got["retry_after_ms"]) == (503, 7000)
    silly = serve(reply("429 Slow down", head="Retry-After: 99999999999\r\n"))
    assert driver.ask(silly.url)["retry_after_ms"] == 6 * 3600 * 1000


def test_of_a_huge_answer_only_the_beginning_is_kept(driver, serve):
    server = serve(reply(body=b"0123456789" * 800_000))
    got = driver.ask(server.url)
    assert (got["status"], len(got["body"])) == (200, 4096)


def test_closed_port(driver):
    with socket.socket() as s:  # which does not listen
        s.bind(("127.0.0.1", 0))
        assert failed(driver.ask(f"http://127.0.0.1:{s.getsockname()[1]}/"), "connect to")


def test_unknown_name(driver):
    assert failed(driver.ask("http://nowhere.test/"), "resolve")


def test_server_that_never_answers_runs_into_the_deadline(driver, serve):
    server = serve(hang)
    assert failed(driver.ask(server.url, timeout_ms=2000), "timed out")
    server.wait(1)
    assert len(server.requests) == 1


def test_answer_that_comes_in_drops_runs_into_the_deadline(driver, serve):
    def drip(server, connection, request):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(b"x")
                time.sleep(0.01)

    assert failed(driver.ask(serve(drip).url, timeout_ms=400), "timed out")


def test_hanging_server_delays_no_other(driver, serve):
    slow, quick = serve(hang), serve(reply())
    for i in range(20):
        driver.send(f"slow{i}", slow.url)
    slow.wait(20)
    assert driver.ask(quick.url)["status"] == 200


@pytest.mark.parametrize("said, why", [(b"", "Empty reply"), (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf", "46 bytes"),
                                       (b"SSH-2.0-server\r\n", "HTTP/0.9")])
def test_connection_that_is_cut(driver, serve, said, why):
    def cut(server, connection, request):
        connection.sendall(said)
        connection.shutdown(socket.SHUT_RDWR)

    assert failed(driver.ask(serve(cut).url), why)


def test_unix_socket(driver, serve, tmp_path):
    path = str(tmp_path / "s")
    serve(reply(body=b"local"), family=socket.AF_UNIX, address=path)
    assert driver.ask("http://node/api", unix_socket=path)["body"] == "local"
    assert failed(driver.ask("http://node/api", unix_socket=path + ".none"), "connect to")


def test_own_authority_and_client_certificate(driver, serve, certs):
    server = serve(reply(), tls=tls_of(certs, "local", client=True))
    ours = {"cert_file": str(certs / "client.crt"), "key_file": str(certs / "client.key")}
    assert driver.ask(server.url, ca_file=str(certs / "ca.crt"), **ours)["status"] == 200
    unknown = driver.ask(server.url, ca_file=str(certs / "ca.crt"))  # the text is TLS' or that of the cut connection
    assert unknown["status"] == 0 and unknown["text"] and "connect to" not in unknown["text"]
    assert failed(driver.ask(server.url, ca_file=str(certs / "other.crt"), **ours), "verification failed")
    assert failed(driver.ask(server.url, **ours), "verification failed"), "the system's authorities do not know ours"
    assert failed(driver.ask(server.url, ca_file=str(certs / "none.crt"), **ours), "CA cert")
    assert driver.ask(server.url, insecure=True, **ours)["status"] == 200


def test_file_of_authorities_that_was_replaced(driver, serve, certs, tmp_path):
    """A cluster's authority is replaced while the agent runs. libcurl 8.9 with GnuTLS, and 7.87 with OpenSSL, keep one for a day."""
    ca = tmp_path / "ca.crt"
    for authority, status in (("ca", 200), ("other", 0), ("ca", 200)):
        ca.write_bytes((certs / f"{authority}.crt").read_bytes())
        got = driver.ask(serve(reply(), tls=tls_of(certs, "local")).url, ca_file=str(ca))
        assert got["status"] == status and (status or failed(got, "verification failed")), got


def test_certificate_of_another_name(driver, serve, certs):
    server = serve(reply(), tls=tls_of(certs, "named"))
    ca = {"ca_file": str(certs / "ca.crt")}
    assert failed(driver.ask(server.url, **ca), "does not match target host")
    got = driver.ask(server.url, server_name="alerts.example", **ca)
    assert got["status"] == 200, got
    assert f"Host: {server.url.split('/')[2]}\r\n" in server.requests[0][0]
    answer = driver.ask(server.url, server_name="other.example", **ca)
    assert failed(answer, "does not match target host") and failed(answer, "'other.example'")


def test_proxy_of_the_environment(exe, serve):
    proxy = serve(reply(body=b"by proxy"))
    driver = Driver(exe, env={"http_proxy": proxy.url.removesuffix("/api"), "no_proxy": "127.0.0.1"})
    assert driver.ask("http://alerts.example/api")["body"] == "by proxy"
    assert proxy.requests[0][0].startswith("POST http://alerts.example/api ")
    direct = serve(reply(body=b"direct"))
    assert driver.ask(direct.url)["body"] == "direct"
    driver.end()


@pytest.mark.parametrize("more", [{"url": "no url"}, {"url": "ftp://127.0.0.1/"}, {"url": "http://"}, {"url": ""},
                                  {"url": "http://a/\r\nX: y"}, {"headers": ["X: a\r\nY: b"]}, {"headers": ["none"]}])
def test_nonsense_is_refused_at_once(driver, more):
    driver.send("bad", **{"url": "http://127.0.0.1:1/", **more})
    assert driver.line()["refused"] == "EINVAL"


def test_cancelled_request_is_not_told(driver, serve):
    server = serve(hang)
    driver.send("gone", server.url)
    server.wait(1)
    driver.tell(do="cancel", id="gone")
    assert driver.line() == {"cancelled": "gone"}
    assert driver.ask(serve(reply()).url)["status"] == 200
    assert driver.end() == []


def test_close_ends_what_is_under_way(driver, serve):
    server = serve(hang)
    for i in range(3):
        driver.send(f"r{i}", server.url)
    server.wait(3)
    driver.tell(do="close")
    told = [driver.line() for _ in range(4)]
    assert sorted(t["id"] for t in told[:3]) == ["r0", "r1", "r2"]
    assert all(failed(t, "being closed") for t in told[:3])
    assert told[3] == {"said": "closed"}
    assert driver.end() == []


@pytest.mark.parametrize("then", ["close", "cancel-all", "again"])
def test_answer_may_close_cancel_and_send(driver, serve, then):
    slow, quick = serve(hang), serve(reply())
    for i in range(3):
        driver.send(f"slow{i}", slow.url)
    slow.wait(3)
    driver.send("quick", quick.url, then=then)
    assert driver.answer("quick")["status"] == 200
    if then == "again":
        assert driver.answer("again")["status"] == 200
    rest = driver.end()
    assert [failed(r, "being closed") for r in rest] == ([] if then == "cancel-all" else [True] * 3)


def test_name_server_that_hangs_delays_nothing(driver, serve):
    quick = serve(reply())
    driver.send("lost", "http://hang.test:1/")
    driver.send("late", "http://hang.test:1/", timeout_ms=200)
    assert failed(driver.answer("late"), "timed out")
    driver.tell(do="cancel", id="lost")
    assert driver.line() == {"cancelled": "lost"}
    assert driver.ask(quick.url)["status"] == 200
    driver.tell(do="count")
    assert driver.line()["lookups"] == 2, "both still hang"
    driver.tell(do="release")
    while True:
        driver.tell(do="count")
        now = driver.line()
        if now["lookups"] == 0 and now["threads"] == 1:
            break
        time.sleep(0.01)


def test_close_while_a_name_is_looked_up(driver):
    driver.send("lost", "http://hang.test:1/")
    driver.tell(do="close")
    assert failed(driver.line(), "being closed")
    assert driver.line() == {"said": "closed"}
    driver.end()
