# SPDX-License-Identifier: Apache-2.0
"""Addresses, unix sockets, sockets of systemd, and the end: wire/http/listen.c, server.c."""
import contextlib
import os
import signal
import socket
import stat
import subprocess

import pytest
from http_under_test import PATIENCE, Answer, Server, is_closed, read_all, read_until, request, serving


def unix_get(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(PATIENCE)
        s.connect(str(path))
        s.sendall(request("/echo", "Connection: close\r\n"))
        return Answer.parse(read_all(s))


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
        return True
    except OSError:
        return False


def failure(exe, *args, **how):
    server = Server(exe, *args, **how)
    assert server.err is not None
    assert server.process.returncode == 1, server.err
    server.process.communicate()
    return server.err


def test_every_address(exe):
    with serving(exe, "--listen", ":0") as server:
        assert b'"remote":"127.0.0.1"' in server.get("/echo").body
        if has_ipv6():
            assert server.urls[0] == f"http://[::]:{server.port}/"
            assert b'"remote":"::1"' in server.get("/echo", host="::1").body


def test_several_addresses(exe, tmp_path):
    with serving(exe, "--listen", "localhost:0", "--listen", f"unix:{tmp_path}/s", "--listen", "0.0.0.0:0") as server:
        assert server.urls[0] == f"http://127.0.0.1:{server.port}/"
        assert server.urls[1] == f"unix:{tmp_path}/s"
        assert server.urls[2].startswith("http://0.0.0.0:")
        assert server.get("/ok").status == 200
        assert b'"remote":"unix"' in unix_get(tmp_path / "s").body


@pytest.mark.skipif(not has_ipv6(), reason="no IPv6 here")
def test_ipv6_alone(exe):
    with serving(exe, "--listen", "[::1]:0") as server:
        assert server.urls[0].startswith("http://[::1]:")
        assert server.get("/ok", host="::1").status == 200
        with pytest.raises(ConnectionRefusedError):
            server.get("/ok")


@pytest.mark.parametrize("address", ["", ":", "x", "1.2.3:80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "[::1]",
                                     "[::1:80", "::1:80", "example.org:80", ":-1", ":08x", "unix:", "[]:1",
                                     "unix:" + "x" * 108, "unix:/tmp/x?mode=9", "unix:/tmp/x?mode=", "unix:/tmp/x?mode=7777",
                                     "[127.0.0.1]:80", "127.0.0.1:" + "9" * 400, "y" * 400 + ":1"])
def test_wrong_addresses(exe, address):
    said = failure(exe, "--listen=" + address)
    assert "expected" in said and address[:100] in said


def test_all_listeners_or_none(exe, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        said = failure(exe, "--listen", f"unix:{tmp_path}/s", "--listen", taken)
        assert taken in said and "Address already in use" in said
        assert not (tmp_path / "s").exists()
    assert "no address" in failure(exe)


def test_mode_and_end_of_a_socket_file(exe, tmp_path):
    with serving(exe, "--listen", f"unix:{tmp_path}/a", "--listen", f"unix:{tmp_path}/b?mode=0606") as server:
        assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o660
        assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o606
        server.stop()
        assert list(tmp_path.iterdir()) == []


def test_a_stale_socket_file_is_replaced(exe, tmp_path):
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(path))
    assert path.exists()
    with serving(exe, "--listen", f"unix:{path}"):
        assert unix_get(path).status == 200
        said = failure(exe, "--listen", f"unix:{path}")
        assert "another process listens" in said
        assert unix_get(path).status == 200
    path.write_text("precious")
    assert "is no socket" in failure(exe, "--listen", f"unix:{path}")
    assert path.read_text() == "precious"


def test_a_socket_file_of_somebody_else_is_left(exe, tmp_path):
    path = tmp_path / "s"
    with serving(exe, "--listen", f"unix:{path}") as server, socket.socket(socket.AF_UNIX) as s:
        path.unlink()
        s.bind(str(path))
        server.stop()
        assert path.exists()


def test_unix_clients_are_many(exe, tmp_path):
    """They are one peer, but not held to a peer's limit."""
    with serving(exe, "--listen", f"unix:{tmp_path}/s", "--per-peer", "2") as server, contextlib.ExitStack() as stack:
        clients = []
        for _ in range(20):
            s = stack.enter_context(socket.socket(socket.AF_UNIX))
            s.settimeout(PATIENCE)
            s.connect(f"{tmp_path}/s")
            clients.append(s)
        for s in clients:
            s.sendall(request())
            assert b"200" in read_until(s, b"\r\n\r\n")
        assert server.process.poll() is None


def systemd(exe, *sockets, count=None, pid="$$"):
    def arrange():
        kept = [os.dup(s.fileno()) for s in sockets]
        top = [os.dup2(fd, 200 + i) for i, fd in enumerate(kept)]
        for i, fd in enumerate(top):
            os.dup2(fd, 3 + i, inheritable=True)

    script = f'export LISTEN_PID={pid} LISTEN_FDS={len(sockets) if count is None else count}; exec "$0" --systemd'
    return subprocess.Popen(["/bin/sh", "-c", script, str(exe)], preexec_fn=arrange, close_fds=False,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_sockets_of_systemd(exe, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as local:
        local.bind(f"{tmp_path}/s")
        local.listen()
        process = systemd(exe, tcp, local)
        port = tcp.getsockname()[1]
        assert [process.stdout.readline().strip() for _ in range(3)] == [f"http://127.0.0.1:{port}/",
                                                                         f"unix:{tmp_path}/s", "ready"]
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as s:
            s.sendall(request("/ok", "Connection: close\r\n"))
            assert Answer.parse(read_all(s)).status == 200
        assert unix_get(f"{tmp_path}/s").status == 200
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
        assert out == "closed\n"
        assert os.path.exists(f"{tmp_path}/s")  # systemd's, not ours


def test_wrong_sockets_of_systemd(exe, tmp_path):
    with socket.socket() as idle, socket.create_server(("127.0.0.1", 0)) as tcp, open(tmp_path / "f", "w") as file, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        for sockets, how, words in (((idle,), {}, "descriptor 3"), ((tcp, file), {}, "descriptor 4"),
                                    ((tcp, udp), {}, "descriptor 4"), ((tcp,), {"pid": "1"}, "no sockets"),
                                    ((tcp,), {"count": "0"}, "LISTEN_FDS is '0'"),
                                    ((tcp,), {"count": "99999"}, "LISTEN_FDS is '99999'")):
            process = systemd(exe, *sockets, **how)
            _, err = process.communicate(timeout=PATIENCE)
            assert process.returncode == 1
            assert words in err


def test_at_the_end_answers_are_finished_and_idle_ones_closed(exe):
    with serving(exe, "--listen", "127.0.0.1:0", "--grace", "60s") as server:
        with server.connect() as idle, server.connect(rcvbuf=4096) as big, server.connect() as stream:
            stream.sendall(request("/stream"))
            read_until(stream, b"\r\n\r\n")
            big.sendall(request("/big"))
            head = read_until(big, b"\r\n\r\n")
            server.process.send_signal(signal.SIGTERM)
            assert is_closed(idle, wait=PATIENCE)
            assert read_all(stream) == b"0\r\n\r\n"
            assert len(read_all(big)) == 4 << 20 and b"200 OK" in head
            with pytest.raises(ConnectionRefusedError):
                server.connect()
        out, err = server.process.communicate(timeout=PATIENCE)
        assert server.process.returncode == 0, err


def test_at_the_end_stuck_clients_do_not_hold_it_up(exe):
    with serving(exe, "--listen", "127.0.0.1:0", "--grace", "100ms") as server, server.connect(rcvbuf=4096) as s:
        s.sendall(request("/big") * 8)
        read_until(s, b"\r\n\r\n")
        server.stop()
