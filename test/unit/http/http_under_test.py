# SPDX-License-Identifier: Apache-2.0
"""Runs http_test_server and speaks to it, by hand where a proper client would not do it."""
import contextlib
import json
import os
import resource
import select
import signal
import socket
import subprocess
import time
from pathlib import Path

PATIENCE = 120  # seconds until a test gives up; says nothing about speed


class Server:
    def __init__(self, exe, *args, files=None, cwd=None, **popen):
        def limit():
            if files:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        self.process = subprocess.Popen([exe, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        preexec_fn=limit, cwd=cwd, **popen)
        self.urls = []
        self.err = None
        while True:
            line = self.process.stdout.readline().strip()
            if line == "ready":
                break
            if not line:
                self.err = self.process.stderr.read()
                self.process.wait()
                break
            self.urls.append(line)

    @property
    def port(self):
        return int(self.urls[0].rstrip("/").rsplit(":", 1)[1])

    def connect(self, host="127.0.0.1", source=None, rcvbuf=None):
        s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        s.settimeout(PATIENCE)
        if rcvbuf:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        if source:
            s.bind((source, 0))
        s.connect((host, self.port))
        return s

    def talk(self, data, half=False, **how):
        """Sends bytes, reads to the end."""
        with self.connect(**how) as s:
            s.sendall(data)
            if half:
                s.shutdown(socket.SHUT_WR)
            return read_all(s)

    def get(self, path, head="", method="GET", **how):
        raw = self.talk(f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{head}\r\n".encode(), **how)
        return Answer.parse(raw)

    def counts(self):
        return json.loads(self.get("/counts").body)

    def cpu_s(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def reload(self):
        self.process.send_signal(signal.SIGHUP)
        return self.process.stdout.readline().strip()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, err
        assert out.endswith("closed\n")
        return err


@contextlib.contextmanager
def serving(exe, *args, **how):
    server = Server(exe, *args, **how)
    try:
        assert server.err is None, server.err
        yield server
        if server.process.poll() is None:
            server.stop()
    finally:
        if server.process.poll() is None:
            server.process.kill()
        server.process.communicate()


def read_all(s):
    data = b""
    try:
        while True:
            more = s.recv(65536)
            if not more:
                return data
            data += more
    except ConnectionResetError:
        return data


def read_until(s, mark):
    data = b""
    while mark not in data:
        more = s.recv(1 if len(mark) > 1 else 65536)
        if not more:
            break
        data += more
    return data


class Answer:
    def __init__(self, status, headers, body, rest=b""):
        self.status, self.headers, self.body, self.rest = status, headers, body, rest

    @classmethod
    def parse(cls, raw, method="GET"):
        head, _, rest = raw.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        assert lines[0].startswith("HTTP/1."), raw[:200]
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        size = len(rest) if method == "HEAD" or "content-length" not in headers else int(headers["content-length"])
        return cls(int(lines[0].split()[1]), headers, rest[:size], rest[size:])


def read_answer(s):
    """One answer of known length from a connection that stays."""
    head = read_until(s, b"\r\n\r\n")
    answer = Answer.parse(head)
    left = int(answer.headers.get("content-length", 0))
    body = b""
    while len(body) < left:
        more = s.recv(left - len(body))
        assert more, "closed within a body"
        body += more
    answer.body = body
    return answer


def is_closed(s, wait=0):
    """True where the server closed it; what it sent before is read away."""
    end = time.monotonic() + wait
    while True:
        ready, _, _ = select.select([s], [], [], max(0, end - time.monotonic()))
        if not ready:
            return False
        try:
            if not s.recv(65536):
                return True
        except ConnectionResetError:
            return True


def wait_until(check):
    end = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)
    return True


def request(path="/ok", extra=""):
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n{extra}\r\n".encode()
