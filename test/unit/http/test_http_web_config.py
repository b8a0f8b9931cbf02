# SPDX-License-Identifier: Apache-2.0
"""TLS, client certificates, passwords and headers from a web-config: wire/http/web_config.c, tls.c, tls_priority.c,
auth.c, auth_job.c."""
import base64
import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time

import pytest
from http_under_test import PATIENCE, Answer, is_closed, read_all, read_answer, read_until, request, serving, wait_until

TLS = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"
MTLS = TLS + "  client_ca_file: ca.crt\n  client_auth_type: "


@pytest.fixture
def folder(certs, tmp_path):
    for file in certs.iterdir():
        shutil.copy(file, tmp_path)
    return tmp_path


def write(folder, text):
    path = folder / "web.yml"
    path.write_text(text)
    return path


def tls_context(folder, client=None):
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    if client:
        context.load_cert_chain(folder / f"{client}.crt", folder / f"{client}.key")
    return context


@contextlib.contextmanager
def tls_connect(server, context):
    with server.connect() as raw, context.wrap_socket(raw, server_hostname="localhost") as s:
        yield s


def tls_get(server, context, path="/ok", head=""):
    with tls_connect(server, context) as s:
        s.sendall(request(path, head + "Connection: close\r\n"))
        return Answer.parse(read_all(s))


def comes_in(server, context):
    """Whether a request is answered. With TLS 1.3 a client learns only afterwards that it was not wanted."""
    try:
        return tls_get(server, context).status == 200
    except (ssl.SSLError, ConnectionError, AssertionError):
        return False


def basic(user, password):
    return f"Authorization: Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}\r\n"


# TLS


def test_tls(exe, folder):
    config = write(folder, TLS + "http_server_config:\n  http2: true\n")
    with serving(exe, "--listen", "127.0.0.1:0", "--web-config", str(config), cwd="/") as server:
        assert server.urls[0] == f"https://127.0.0.1:{server.port}/"
        context = tls_context(folder)
        assert tls_get(server, context).body == b"ok\n"
        assert len(tls_get(server, context, "/big").body) == 4 << 20
        with tls_connect(server, context) as s:
            assert s.version() == "TLSv1.3"
            for i in range(20):
                s.sendall(request(f"/echo/{i}"))
                assert f"/echo/{i}".encode() in read_answer(s).body
        got = server.talk(request())  # without TLS
        assert b"HTTP" not in got and b"ok" not in got
        server.talk(b"\x16\x03\x01\x00\x05garbage" * 30)
        assert tls_get(server, context).status == 200


def test_alpn_of_go_clients(exe, folder):
    config = write(folder, TLS)
    with serving(exe, "--listen", "127.0.0.1:0", "--web-config", str(config)) as server:
        context = tls_context(folder)
        context.set_alpn_protocols(["h2", "http/1.1"])
        with tls_connect(server, context) as s:
            assert s.selected_alpn_protocol() in (None, "http/1.1")
        assert tls_get(server, context).status == 200


def test_a_handshake_that_does_not_go_on(exe, folder):
    config = write(folder, TLS)
    with serving(exe, "--listen", "127.0.0.1:0", "--web-config", str(config), "--head", "1s") as server:
        begin, cpu = time.monotonic(), server.cpu_s()
        with server.connect() as silent, server.connect() as partial:
            partial.sendall(b"\x16\x03\x01\x02\x00")
            assert read_all(silent) == b"" and read_all(partial) == b""
            assert time.monotonic() - begin >= 0.9  # not sooner
            assert server.cpu_s() - cpu < 0.3  # it sleeps
        assert tls_get(server, tls_context(folder)).status == 200


def test_streams_over_tls(exe, folder):
    config = write(folder, TLS)
    with serving(exe, "--listen", "127.0.0.1:0", "--web-config", str(config)) as server:
        context = tls_context(folder)
        with tls_connect(server, context) as s:
            s.sendall(request("/stream"))
            assert b"200" in read_until(s, b"\r\n\r\n")
            tls_get(server, context, "/ticks?ms=20")
            for i in range(1, 6):
                assert f"data: {i}\n\n".encode() in read_until(s, b"\n\n")


@pytest.mark.parametrize("minimum, maximum, offers, works", [
    ("TLS12", "TLS13", ssl.TLSVersion.TLSv1_2, True), ("TLS12", "TLS13", ssl.TLSVersion.TLSv1_3, True),
    ("TLS13", "TLS13", ssl.TLSVersion.TLSv1_2, False), ("TLS13", "TLS13", ssl.TLSVersion.TLSv1_3, True),
    ("TLS12", "TLS12", ssl.TLSVersion.TLSv1_3, False), ("TLS10", "TLS12", ssl.TLSVersion.TLSv1_2, True)])
def test_versions(exe, folder, minimum, maximum, offers, works):
    config = write(folder, TLS + f"  min_version: {minimum}\n  max_version: {maximum}\n")
    with serving(exe, "--listen", "127.0.0.1:0", "--web-config", str(config)) as server:
        context = tls_context(folder)
        context.minimum_version = context.maximum_version = offers
        assert comes_in(server, context) is works


@pytest.mark.parametrize("suites, cipher", [
    (["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"], {"TLS_AES_256_GCM_SHA384"}),
    (["TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"], {"ECDHE-ECDSA-AES128-SHA"}),
    (["TLS_CHACHA20_POLY1305_SHA256"], {"TLS_CHACHA20_POLY1305_SHA256"}),
    (["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"], {"TLS_AES_128_GCM_SHA256"})])
def test_cipher_suites(exe, folder, suites, cipher):
    config = write(folder, TLS + f"  cipher_suites: [{', '.join(suites)}]\n  curve_preferences: [CurveP384, X25519]\n")
    with serving(exe, "--listen", "127.0.0.1:0", "--web-config", str(config)) as server:
        context = tls_context(folder)
        context.set_ciphers("ALL:@SECLEVEL=1")
        with tls_connect(server, context) as s:
            assert s.cipher()[0] in cipher
        context.set_ecdh_curve("prime256v1")
        assert not comes_in(server, context)
        if cipher != {"ECDHE-ECDSA-AES128-SHA"}:  # in TLS 1.2 the certificate's own curve must be allowed too
            context.set_ecdh_curve("secp384r1")
            assert comes_in(server, context)


@pytest.mark.parametrize("kind, none, good, stranger, misused", [
    ("NoClientCert", 1, 1, 1, 1), ("RequestClientCert", 1, 1, 1, 1), ("RequireAnyClientCert", 0, 1, 1, 1),
    ("VerifyClientCertIfGiven", 1, 1, 0, 0), ("RequireAndVerifyClientCert", 0, 1, 0, 0)])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_client_certificates(exe, folder, kind, none, good, stranger, misused, version):
    text = MTLS + kind if kind != "NoClientCert" else TLS + f"  client_auth_type: {kind}"
    with serving(exe, "--listen", "127.0.0.1:0", "--web-config", str(write(folder, text + "\n"))) as server:
        for client, works in ((None, none), ("client", good), ("stranger", stranger), ("misused", misused)):
            context = tls_context(folder, client)
            context.minimum_version = context.maximum_version = version
            # Clients that hold a certificate of another authority may not send it; without trust in the server's
            # list of authorities they would be as those without one.
            if client == "stranger" and kind == "VerifyClientCertIfGiven":
                continue
            assert comes_in(server, context) == bool(works), client
        assert (server.stop().count("refused: ") > 0) == (not misused)


@pytest.mark.parametrize("san, works", [("scraper.example", True), ("10.1.2.3", True), ("a@example.org", True),
                                        ("spiffe://x/y", True), ("example", False), ("10.1.2.4", False),
                                        ("SCRAPER.example.", False)])
def test_allowed_names(exe, folder, san, works):
    config = write(folder, MTLS + f'RequireAndVerifyClientCert\n  client_allowed_sans: [nobody.example, "{san}"]\n')
    with serving(exe, "--listen", "127.0.0.1:0", "--web-config", str(config)) as server:
        assert comes_in(server, tls_context(folder, "client")) is works


def test_reading_anew(exe, folder):
    config = write(folder, TLS)
    with serving(exe, "--listen", "127.0.0.1:0", "--web-config", str(config)) as server:
        context = tls_context(folder)

        def serial():
            with tls_connect(server, context) as s:
                return s.getpeercert()["serialNumber"]

        first = serial()
        with tls_connect(server, context) as kept:
            kept.sendall(request())
            assert read_answer(kept).status == 200
            config.write_text(TLS.replace("server.", "second."))
            assert server.reload() == f"reloaded {server.urls[0]}"
            second = serial()
            assert second != first
            for text, words in (("tls_server_config: {cert_file: none.crt, key_file: server.key}", "none.crt"),
                                ("nonsense: 1", "nonsense"), ("a: [", "web.yml:"),
                                (TLS.replace("server.key", "second.key"), "does not belong"),
                                ("# nothing\n", "only a restart turns TLS on or off")):
                config.write_text(text)
                said = server.reload()
                assert said.startswith("reload failed") and words in said
                assert serial() == second
            config.unlink()
            assert "web.yml" in server.reload()
            assert serial() == second
            config.write_text(TLS)
            assert server.reload().startswith("reloaded https://")
            assert serial() == first
            kept.sendall(request())
            assert read_answer(kept).status == 200


def test_reading_anew_often(exe, folder):
    config = write(folder, TLS)
    with serving(exe, "--listen", "127.0.0.1:0", "--web-config", str(config)) as server:
        for i in range(30):
            config.write_text((TLS, "", TLS.replace("server.", "second."))[i % 3])
            assert server.reload().startswith("reload failed" if i % 3 == 1 else "reloaded")
        config.write_text(TLS)
        server.reload()
        assert tls_get(server, tls_context(folder)).status == 200


# Passwords


@pytest.fixture
def users(folder, bcrypt):
    def make(cost=4, **passwords):
        lines = "".join(f'  {u}: "{bcrypt(p, cost).replace("$2b$", "$2y$")}"\n' for u, p in passwords.items())
        return write(folder, "basic_auth_users:\n" + lines)
    return make


def test_passwords(exe, users):
    config = users(alice="secret", bob="pass:word é", empty="")
    with serving(exe, "--listen", "127.0.0.1:0", "--web-config", str(config)) as server:
        def status(head):
            return server.get("/ok", head=head).status

        answer = server.get("/ok")
        assert answer.status == 401 and answer.headers["www-authenticate"].startswith('Basic realm="')
        assert answer.headers["x-content-type-options"] == "nosniff" and b"ok\n" not in answer.body
        for _ in range(2):  # checked, then remembered
            assert status(basic("alice", "secret")) == 200
            assert status(basic("bob", "pass:word é")) == 200
            assert status(basic("empty", "")) == 200
            assert status(basic("alice", "secret").replace("Basic", "bAsIc  ")) == 200
            for user, password in (("alice", "Secret"), ("alice", ""), ("bob", "secret"), ("", ""), ("", "secret"),
                                   ("carol", "secret"), ("alice ", "secret"), ("Alice", "secret"), ("alice", "secret\0x")):
                assert status(basic(user, password)) == 401
        for head in ("Authorization: Basic\r\n", "Authorization: Basic !!!\r\n", "Authorization: Basic YQ==\r\n",
                     "Authorization: Bearer abc\r\n", "Authorization: \r\n", "Authorization: Basic =\r\n",
                     "Authorization: Basic " + "QUFB" * 1500 + "\r\n",
                     basic("alice", "secret").replace("\r\n", " x\r\n")):
            assert status(head) == 401
        log = server.stop()
        assert "wrong user or password" in log and "secret" not in log and "alice" not in log


def test_a_check_is_paid_once(exe, users):
    config = users(cost=11, alice="secret")
    with serving(exe, "--listen", "127.0.0.1:0", "--web-config", str(config)) as server, server.connect() as s:
        def ask(password):
            s.sendall(request("/ok", basic("alice", password)) * 1)
            return read_answer(s).status

        start = server.cpu_s()
        assert ask("secret") == 200
        one = server.cpu_s() - start
        if one < 0.05:
            pytest.skip("a check costs too little here to be seen")
        start = server.cpu_s()
        assert {ask("secret") for _ in range(40)} == {200}
        assert server.cpu_s() - start < 10 * one
        assert ask("wrong") == 401
        start = server.cpu_s()
        assert {ask("wrong") for _ in range(40)} == {401}
        assert server.cpu_s() - start < 10 * one
        assert ask("secret") == 200


def test_the_loop_goes_on_during_checks(exe, users):
    config = users(cost=12, alice="secret")
    config.write_text(config.read_text() + "auth_excluded_paths: [/ok, /counts]\n")
    with serving(exe, "--listen", "127.0.0.1:0", "--web-config", str(config)) as server, server.connect() as s:
        s.sendall(request("/echo", basic("alice", "secret")))
        for _ in range(20):
            assert server.get("/ok").status == 200
        assert server.get("/echo").status == 401
        assert read_answer(s).status == 200


def test_many_wrong_passwords_at_once(exe, users):
    config = users(alice="secret")
    with serving(exe, "--listen", "127.0.0.1:0", "--web-config", str(config), "--per-peer", "30") as server:
        with contextlib.ExitStack() as stack:
            crowd = [stack.enter_context(server.connect()) for _ in range(25)]
            for i, s in enumerate(crowd):
                s.sendall(request("/ok", basic("alice", f"guess{i}")))
            assert server.get("/ok", head=basic("alice", "secret")).status == 200
            assert {read_answer(s).status for s in crowd} == {401}


def test_those_who_wait_for_a_check_give_way(exe, users):
    config = users(cost=13, alice="secret")
    with serving(exe, "--listen", "127.0.0.1:0", "--web-config", str(config), "--per-peer", "6") as server:
        with contextlib.ExitStack() as stack:
            crowd = [stack.enter_context(server.connect()) for _ in range(6)]
            for i, s in enumerate(crowd):
                s.sendall(request("/ok", basic("alice", f"guess{i}")))
            late = [stack.enter_context(server.connect()) for _ in range(6)]
            for s in late:
                s.sendall(request())
                assert read_answer(s).status == 401
            assert all(is_closed(s, wait=PATIENCE) for s in crowd)


def test_the_end_during_checks(exe, users):
    config = users(cost=12, alice="secret")
    with serving(exe, "--listen", "127.0.0.1:0", "--web-config", str(config), "--grace", "10ms") as server:
        with contextlib.ExitStack() as stack:
            for i in range(10):
                s = stack.enter_context(server.connect())
                s.sendall(request("/ok", basic("alice", f"guess{i}")))
            server.stop()


def test_clients_that_leave_during_checks(exe, users):
    config = users(cost=10, alice="secret")
    with serving(exe, "--listen", "127.0.0.1:0", "--web-config", str(config)) as server:
        for i in range(10):
            with server.connect() as s:
                s.sendall(request("/ok", basic("alice", f"guess{i}")))
        assert server.get("/ok", head=basic("alice", "secret")).status == 200


def test_passwords_read_anew(exe, users, folder):
    config = users(alice="old")
    with serving(exe, "--listen", "127.0.0.1:0", "--web-config", str(config)) as server, server.connect() as kept:
        kept.sendall(request("/ok", basic("alice", "old")))
        assert read_answer(kept).status == 200
        users(alice="new")
        assert server.reload().startswith("reloaded")
        kept.sendall(request("/ok", basic("alice", "old")))
        assert read_answer(kept).status == 401
        assert server.get("/ok", head=basic("alice", "new")).status == 200
        config.write_text("basic_auth_users: {alice: plain}\n")
        assert "reload failed" in server.reload()
        assert server.get("/ok").status == 401
        assert server.get("/ok", head=basic("alice", "new")).status == 200


def test_reading_anew_during_checks(exe, users):
    config = users(cost=12, alice="old")
    with serving(exe, "--listen", "127.0.0.1:0", "--web-config", str(config)) as server, server.connect() as s:
        s.sendall(request("/ok", basic("alice", "old")))
        users(alice="new")
        assert server.reload().startswith("reloaded")
        assert read_answer(s).status in (200, 401)
        s.sendall(request("/ok", basic("alice", "old")))
        assert read_answer(s).status == 401


def test_excluded_paths(exe, users):
    config = users(alice="secret")
    config.write_text(config.read_text() + "auth_excluded_paths:\n- /ok\n")
    with serving(exe, "--listen", "127.0.0.1:0", "--web-config", str(config)) as server:
        assert server.get("/ok").status == 200
        assert server.get("/o%6b?x=1").status == 200
        assert server.get("/ok/").status == 401
        assert server.get("/ok/../echo").status == 401
        assert server.get("/echo").status == 401


def test_passwords_over_tls_and_unix_sockets(exe, users, folder):
    config = users(alice="secret")
    config.write_text(TLS + config.read_text())
    with serving(exe, "--listen", "127.0.0.1:0", "--listen", f"unix:{folder}/s", "--web-config", str(config)) as server:
        context = tls_context(folder)
        assert tls_get(server, context).status == 401
        assert tls_get(server, context, head=basic("alice", "secret")).status == 200
        with socket.socket(socket.AF_UNIX) as raw:
            raw.settimeout(PATIENCE)
            raw.connect(f"{folder}/s")
            with context.wrap_socket(raw, server_hostname="localhost") as s:
                s.sendall(request("/ok", basic("alice", "secret")))
                assert read_answer(s).status == 200


# Headers, rates, and what a file may say


def test_headers(exe, folder):
    config = write(folder, """http_server_config:
  headers:
    Strict-Transport-Security: max-age=31536000; includeSubDomains
    X-Frame-Options: deny
    x-xss-protection: "0"
    X-Content-Type-Options: nosniff
    Content-Security-Policy: ""
""")
    with serving(exe, "--listen", "127.0.0.1:0", "--web-config", str(config)) as server:
        for path in ("/ok", "/nowhere", "/echo%00"):
            raw = server.talk(request(path, "Connection: close\r\n"))
            headers = Answer.parse(raw).headers
            assert headers["strict-transport-security"] == "max-age=31536000; includeSubDomains"
            assert headers["x-frame-options"] == "deny"
            assert headers["x-xss-protection"] == "0"
            assert "content-security-policy" not in headers
            assert raw.lower().count(b"x-content-type-options") == 1


def test_rate_limit(exe, folder):
    config = write(folder, "rate_limit: {interval: 1h, burst: 3}\n")
    with serving(exe, "--listen", "127.0.0.1:0", "--web-config", str(config)) as server:
        assert [server.get("/ok").status for _ in range(5)] == [200, 200, 200, 429, 429]
        config.write_text("rate_limit: {interval: 0}\n")
        server.reload()
        assert {server.get("/ok").status for _ in range(30)} == {200}


HASH = "$2y$10$" + "a" * 53


@pytest.mark.parametrize("text, place, words", [
    ("tls: 1", "1:1", ["unknown key 'tls'", "tls_server_config", "basic_auth_users", "http_server_config"]),
    ("tls_server_config:\n  cert: a\n  key: b\n  cert_fiel: x", "4:3", ["cert_fiel", "did you mean 'cert_file'"]),
    (TLS + "  client_auth_type: Sometimes", "4:21", ["client_auth_type", "RequireAndVerifyClientCert"]),
    (TLS + "  min_version: TLS14", "4:16", ["min_version", "TLS12"]),
    (TLS + "  min_version: TLS13\n  max_version: TLS12", "5:16", ["'tls_server_config.max_version'", "min_version"]),
    (TLS + "  max_version: TLS11", "4:16", ["TLS11 is under 'min_version' TLS12"]),
    (TLS + "  cipher_suites: [TLS_AES_128_GCM_SHA256, TLS_RSA_WITH_RC4_128_SHA]", "4:43", ["RC4"]),
    (TLS + "  cipher_suites: [TLS_AES_128_GCM_SHA256]\n  max_version: TLS12", "4:19", ["no TLS version"]),
    (TLS + "  curve_preferences: [X25519, Curve448]", "4:31", ["Curve448", "CurveP"]),
    ("tls_server_config:\n  key_file: server.key", "2:3", ["cert_file"]),
    ("tls_server_config:\n  cert_file: server.crt", "2:3", ["key_file"]),
    ("tls_server_config:\n  min_version: TLS12", "2:3", ["cert_file"]),
    (TLS + "  cert: x", "4:9", ["both"]),
    (TLS + "  client_ca_file: ca.crt", "4:19", ["client_auth_type"]),
    (TLS + "  client_auth_type: RequireAndVerifyClientCert", "4:21", ["client_ca_file"]),
    (TLS + "  client_allowed_sans: [x]", "4:25", ["client_allowed_sans"]),
    (TLS.replace("server.crt", "gone.crt"), "2:14", ["'tls_server_config.cert_file'", "gone.crt", "No such file"]),
    (TLS.replace("server.key", "/gone.key"), "3:13", ["'tls_server_config.key_file'", "'/gone.key'", "No such file"]),
    (TLS.replace("server.key", "second.key"), "3:13", ["second.key", "does not belong", "server.crt"]),
    (TLS.replace("server.crt", "web.yml"), "2:14", ["web.yml", "server.key"]),
    (MTLS.replace("ca.crt", "server.key") + "RequireAndVerifyClientCert", "4:19", ["'tls_server_config.client_ca_file'", "server.key"]),
    ("basic_auth_users: [a]", "1:19", ["basic_auth_users"]),
    ("basic_auth_users:\n  a: secret", "2:6", ["user 'a'", "bcrypt"]),
    (f"basic_auth_users:\n  a: {HASH[:-1]}", "2:6", ["user 'a'", "bcrypt"]),
    (f"basic_auth_users:\n  a: {HASH.replace('$10$', '$31$')}", "2:6", ["cost"]),
    (f"basic_auth_users:\n  a: {HASH.replace('$2y', '$2x')}", "2:6", ["bcrypt"]),
    (f"basic_auth_users:\n  'a:b': {HASH}", "2:3", ["':'"]),
    (f"basic_auth_users:\n  a: {HASH}\n  a: {HASH}", "3:3", ["already"]),
    ("http_server_config:\n  http2: perhaps", "2:10", ["http2"]),
    ("http_server_config:\n  headers: {Server: x}", "2:13", ["Server", "X-Frame-Options"]),
    ("http_server_config:\n  headers: {X-Frame-Options: no}", "2:30", ["deny, sameorigin"]),
    ('http_server_config:\n  headers: {X-XSS-Protection: "a\\r\\nb: c"}', "2:31", ["control"]),
    ("http_server_config:\n  headers: {X-XSS-Protection: [1]}", "2:31", ["X-XSS-Protection"]),
    ("rate_limit: {interval: soon}", "1:24", ["interval"]),
    ("rate_limit: {burst: 0}", "1:21", ["burst"]),
    ("rate_limit: {interval: 1s, brust: 1}", "1:28", ["brust", "burst"]),
    ("- a", "1:1", ["mapping"]),
    ("a: &x 1", "1:4", ["anchors"]),
    ("\x00", "1:1", []),
])
def test_what_is_wrong_is_named(exe, folder, text, place, words):
    path = write(folder, text)
    done = subprocess.run([exe, "--check", str(path)], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{path}:{place}:"), done.stderr
    for word in words:
        assert word in done.stderr


@pytest.mark.parametrize("text", [
    "", "{}", "tls_server_config:\n", "tls_server_config: {}", "basic_auth_users:\n", "http_server_config:\n  headers:\n",
    TLS, MTLS + "RequireAndVerifyClientCert", TLS.replace(": server", ": ./server"),
    TLS + "  client_auth_type: RequestClientCert\n  client_allowed_sans: []",
    TLS + "  prefer_server_cipher_suites: false\n  cipher_suites: []\n  curve_preferences:\n  - CurveP521",
    f"basic_auth_users: {{a: {HASH}, b: '{HASH.replace('y', 'a')}', c: \"{HASH.replace('y', 'b')}\"}}",
])
def test_what_is_right(exe, folder, text):
    done = subprocess.run([exe, "--check", str(write(folder, text))], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr


def test_certificates_within_the_file(exe, folder):
    def block(name):
        return "|\n" + "".join(f"    {line}\n" for line in (folder / name).read_text().splitlines())

    config = write(folder, f"tls_server_config:\n  cert: {block('server.crt')}  key: {block('server.key')}"
                           f"  client_ca: {block('ca.crt')}  client_auth_type: RequireAndVerifyClientCert\n")
    with serving(exe, "--listen", "127.0.0.1:0", "--web-config", str(config)) as server:
        assert comes_in(server, tls_context(folder, "client"))
        assert not comes_in(server, tls_context(folder))


def test_an_unreadable_file(exe, folder):
    missing = subprocess.run([exe, "--check", str(folder / "none.yml")], capture_output=True, text=True)
    assert missing.returncode == 1 and "none.yml" in missing.stderr
    folder_itself = subprocess.run([exe, "--check", str(folder)], capture_output=True, text=True)
    assert folder_itself.returncode == 1 and str(folder) in folder_itself.stderr
    if os.getuid() != 0:
        path = write(folder, TLS)
        (folder / "server.key").chmod(0)
        denied = subprocess.run([exe, "--check", str(path)], capture_output=True, text=True)
        assert denied.returncode == 1 and "server.key" in denied.stderr


def test_the_log_of_handshakes_is_limited(exe, folder):
    config = write(folder, MTLS + "RequireAndVerifyClientCert\n")
    with serving(exe, "--listen", "127.0.0.1:0", "--web-config", str(config)) as server:
        for _ in range(30):
            assert not comes_in(server, tls_context(folder, "misused"))
        wait_until(lambda: True)
        assert 1 <= server.stop().count("refused: ") <= 10


def test_hangup_of_the_terminal_is_a_reload(exe, folder):
    config = write(folder, "")
    with serving(exe, "--listen", "127.0.0.1:0", "--web-config", str(config)) as server:
        server.process.send_signal(signal.SIGHUP)
        assert server.process.stdout.readline().startswith("reloaded")
