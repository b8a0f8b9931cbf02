# SPDX-License-Identifier: Apache-2.0
"""What the tests of the alerts share: the driver, and a receiver that can be made to misbehave."""
import contextlib
import json
import socket
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

PATIENCE = 120  # seconds until a test gives up; says nothing about speed


class Posted:
    def __init__(self, path, headers, body, status):
        self.path, self.headers, self.body, self.status = path, headers, body, status
        self.json = json.loads(body)
        self.at = time.monotonic()

    def __repr__(self):
        return f"<{self.status} {self.headers.get('Idempotency-Key')} {self.body[:200]!r}>"


class Hook:
    """An HTTP server: `status` is what it answers, "hang" or "cut"; `posts` is what came."""

    def __init__(self):
        self.status, self.headers = 200, {}
        self.posts, self.news = [], threading.Condition()
        self.server, self.connections = None, 0
        self.kept = socket.socket()  # does not listen: while the server is down the port is nobody else's
        self.kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.kept.bind(("127.0.0.1", 0))
        self.port = self.kept.getsockname()[1]
        self.up()

    def up(self):
        hook = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = hook.status(self.path, body) if callable(hook.status) else hook.status
                with hook.news:
                    hook.posts.append(Posted(self.path, dict(self.headers), body, status))
                    hook.news.notify_all()
                if status == "hang":
                    with hook.news:
                        hook.news.wait_for(lambda: hook.status != "hang", PATIENCE)
                if status in ("hang", "cut"):
                    self.close_connection = True
                    with contextlib.suppress(OSError):
                        self.connection.shutdown(socket.SHUT_RDWR)
                    return
                self.send_response(status)
                for name, value in hook.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "2")
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(b"{}")

            def log_message(self, *args):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, request, client_address):
                pass  # clients are killed at times

            def get_request(self):
                connection = super().get_request()
                hook.open.append(connection[0])
                hook.count_connection(1)
                return connection

            def shutdown_request(self, request):
                super().shutdown_request(request)
                hook.count_connection(-1)

        self.open = []
        self.server = Server(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def down(self):
        if not self.server:
            return
        self.say(200)
        self.server.shutdown()
        self.server.server_close()
        for connection in self.open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self.server = None

    def count_connection(self, more):
        with self.news:
            self.connections += more
            self.news.notify_all()

    def wait_idle(self):
        """Nobody is connected any more: all that was sent is in `posts`."""
        with self.news:
            assert self.news.wait_for(lambda: self.connections == 0, PATIENCE)

    def say(self, status):
        with self.news:
            self.status = status
            self.news.notify_all()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def delivered(self):
        return [p for p in list(self.posts) if p.status == 200]

    def wait(self, count=1, fits=lambda post: True):
        """The posts that fit, once there are so many."""
        with self.news:
            assert self.news.wait_for(lambda: len([p for p in self.posts if fits(p)]) >= count, PATIENCE), self.posts
            return [p for p in self.posts if fits(p)]

    def incidents(self):
        """(incident, change) of what was delivered, in order; for webhooks."""
        return [(p.json["incident"]["id"], p.json["change"]) for p in self.delivered()]

    def alerts(self):
        """What was delivered, in order; for Alertmanagers."""
        return [alert for p in self.delivered() for alert in p.json]


class Driver:
    def __init__(self, exe, config, outbox, speed=1, offset=0):
        self.args = [str(exe), "run", str(config), str(outbox), str(speed), str(offset)]
        self.process = subprocess.Popen(self.args, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.log = []
        threading.Thread(target=self.read_log, daemon=True).start()

    def read_log(self):
        for line in self.process.stderr:
            self.log.append(line)

    def said(self, text):
        """Whether it comes to the log: what is written there comes by another way than the answers do."""
        end = time.monotonic() + PATIENCE
        while not any(text in line for line in self.log):
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return True

    def do(self, verb, **more):
        self.process.stdin.write(json.dumps({"do": verb, **more}) + "\n")
        self.process.stdin.flush()

    def line(self):
        text = self.process.stdout.readline()
        assert text, "".join(self.log)
        return json.loads(text)

    def ask(self, verb, **more):
        self.do(verb, **more)
        return self.line()

    def resume(self, *incidents):
        self.do("resume", incidents=list(incidents))

    def tell(self, **incident):
        self.do("tell", incident=incident)

    def advance(self, seconds):
        self.do("advance", s=seconds)

    def receiver(self, name):
        return {r["name"]: r for r in self.ask("receivers")["receivers"]}[name]

    def wait_receiver(self, name, fits):
        end = time.monotonic() + PATIENCE
        while not fits(state := self.receiver(name)):
            assert time.monotonic() < end, state
            time.sleep(0.01)
        return state

    def outbox(self):
        return {name.replace("\n", " "): text for name, text in self.ask("outbox")["outbox"]}

    def heard(self, *names):
        """Waits until these ("receiver incident") were told as open, and the answer has come."""
        self.wait_outbox(lambda kept: all(kept.get(name, {}).get("told") == "open" for name in names))

    def wait_outbox(self, fits):
        end = time.monotonic() + PATIENCE
        while not fits(kept := self.outbox()):
            assert time.monotonic() < end, kept
            time.sleep(0.01)
        return kept

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self, grace_ms=0):
        if self.process.poll() is not None:
            return
        self.do("close", grace_ms=grace_ms)
        self.process.stdin.close()
        rest = self.process.stdout.read()
        assert '"closed":true' in rest
        assert self.process.wait(PATIENCE) == 0, "".join(self.log)
        assert not any("runtime error" in line or "AddressSanitizer" in line for line in self.log), "".join(self.log)


@pytest.fixture
def exe(build):
    return build / "test" / "unit" / "alert" / "alert_driver"


@pytest.fixture
def hook():
    hooks = []

    def make(*args):
        hooks.append(Hook(*args))
        return hooks[-1]

    yield make
    for one in hooks:
        one.down()


@pytest.fixture
def start(exe, tmp_path):
    """Starts the driver with the text of `alerts:`; again in the same place after an end or a kill."""
    drivers = []

    def run(alerts, resume=(), **more):
        config = tmp_path / "alerts.yaml"
        config.write_text("alerts:\n" + "".join(f"  {line}\n" for line in alerts.strip("\n").splitlines()))
        drivers.append(Driver(exe, config, tmp_path / "outbox", **more))
        if resume is not None:
            drivers[-1].resume(*resume)
        return drivers[-1]

    yield run
    for driver in drivers:
        driver.end()
