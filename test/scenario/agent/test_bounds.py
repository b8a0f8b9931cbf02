# SPDX-License-Identifier: Apache-2.0
"""What is used up outside of the agent and what is asked too much of it: a full disk,
clients that read nothing."""
import contextlib
import http.client
import itertools
import json
import os
import pathlib
import socket
import subprocess

import pytest
from agent_rig import PATIENCE, Page, settles, until

MOUNT = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=1m none "$0" && exec "$@"']


def can_mount(folder):
    return subprocess.run([*MOUNT, folder, "true"], capture_output=True, check=False).returncode == 0


def causes(agent):
    return [c["text"] for c in agent.json("/healthz")[1]["causes"]]


def test_a_full_disk_is_said_and_gets_over(make_node, make_agent, tmp_path):
    disk, log = tmp_path / "disk", tmp_path / "kmsg"
    disk.mkdir()
    if not can_mount(disk):
        pytest.skip("no file system can be mounted here")
    node = make_node(options=("--kernel-log", str(log)))
    agent = make_agent(node.env, within=[*MOUNT, disk],
                       options=["--kernel-log", log, "--journal", disk / "journal.db"])
    until(lambda: causes(agent) == [], lambda: str(causes(agent)))
    seen = pathlib.Path(f"/proc/{agent.process.pid}/root{disk}")  # the file system of its own
    with open(seen / "fill", "wb") as fill:
        while True:
            try:
                os.write(fill.fileno(), b"x" * 4096)
            except OSError:
                break

    def has_failed():  # when it has to grow
        node.inject("xid", "31", "gpu=5")
        return agent.page().one("stoker_journal_up") == 0

    until(has_failed, agent.log_text)
    until(lambda: any("disk is full" in text for text in causes(agent)), lambda: f"{causes(agent)} {agent.log_text()}")

    def is_shown():
        status = json.loads(agent.verb("status", "--json").stdout)
        assert status["status"] == "failing" and any("disk is full" in c["text"] for c in status["causes"])

    settles(is_shown)
    (seen / "fill").unlink()
    until(lambda: "the journal is written again" in agent.log_text(), agent.log_text)
    until(lambda: not any("disk is full" in text for text in causes(agent)), lambda: causes(agent))
    assert agent.log_text().count("disk is full; it goes on in memory") == 1 == agent.log_text().count("is written again")


# -- crowds -----------------------------------------------------------------------------------------------------------

PAGES = ["/api/v1/status", "/api/v1/gpus", "/metrics", "/metrics?scraper={n}", "/api/v1/incidents?device={n}",
         "/api/v1/gpus/{g}/history?from=-{n}s", "/api/v1/events?from={n}", "/runbooks/xid-unknown", "/api/v1/stream", "/"]


class Crowd:
    """Connections from four addresses that ask `depth` times each and read nothing."""

    def __init__(self, address, paths, size=256, depth=20):
        host, port = address.rsplit(":", 1)
        self.to, self.paths, self.size, self.depth, self.asked = (host, int(port)), paths, size, depth, 0
        self.sockets = []

    def one_more(self):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.bind((f"127.0.0.{2 + self.asked % 4}", 0))
        s.connect(self.to)
        path = self.paths[self.asked % len(self.paths)].format(n=self.asked, g=self.asked % 4)
        self.asked += 1
        with contextlib.suppress(ConnectionError):  # it may have given way already
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: {self.asked % 40}\r\n\r\n".encode() * self.depth)
        s.setblocking(False)
        return s

    def close(self):
        for s in self.sockets:
            s.close()

    def round(self):
        """A quarter goes, and as many come."""
        for s in self.sockets[:self.size // 4]:
            s.close()
        del self.sockets[:self.size // 4]
        while len(self.sockets) < self.size:
            self.sockets.append(self.one_more())


@pytest.mark.parametrize("paths", [PAGES[:1], PAGES[2:3], PAGES], ids=["status", "metrics", "all"])
def test_a_crowd_that_reads_nothing(agent_on, paths):
    """Within 24 MiB, and everybody else gets health and metrics, from the crowd's addresses too."""
    _, agent = agent_on("mig-balanced")
    assert len(agent.get("/api/v1/status")[1]) > 300000
    crowd, most = Crowd(agent.address, paths), 0
    try:
        for i in range(12):  # each with pages of other ticks
            tick = agent.page().one("stoker_ticks_total")
            crowd.round()
            for path in ("/health", "/metrics"):
                for source in ("127.0.0.1", f"127.0.0.{2 + i % 4}"):
                    connection = http.client.HTTPConnection(agent.address, timeout=PATIENCE, source_address=(source, 0))
                    connection.request("GET", path)
                    answer = connection.getresponse()
                    assert answer.status == 200 and (path == "/health" or b"stoker_gpu_up" in answer.read())
                    connection.close()
            most = max(most, agent.rss())
            until(lambda: agent.page().one("stoker_ticks_total") > tick, "a tick")  # noqa: B023
            most = max(most, agent.rss())
    finally:
        crowd.close()
    print(f"{most / 2**20:.1f} MiB at most, {crowd.asked} connections")
    if b"__asan_init" not in agent.stoker.read_bytes():
        assert most < 24 << 20, f"{most / 2**20:.1f} MiB"


def test_a_crowd_of_many_addresses_refuses_nobody(agent_on):
    """More connections than there may be, all of other addresses and all with pages of metrics that nobody reads."""
    _, agent = agent_on()
    crowd = []
    try:
        for i in range(320):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.bind((f"127.0.1.{1 + i % 200}", 0))
            s.connect(("127.0.0.1", int(agent.address.rsplit(":", 1)[1])))
            crowd.append(s)
            with contextlib.suppress(ConnectionError):
                s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
            if i % 40 == 39:
                assert agent.get("/health")[0] == 200
                assert agent.page().one("stoker_http_connections") <= 300
    finally:
        for s in crowd:
            s.close()


# -- scrapers ---------------------------------------------------------------------------------------------------------

def scrape(connection, path="/metrics", **headers):
    connection.request("GET", path, headers={"User-Agent": "Prometheus/3.5.3", **headers})
    return Page(connection.getresponse().read().decode())


def test_scrapers_that_cannot_be_told_apart_take_nothing_from_each_other(agent_on):
    _, agent = agent_on()
    jobs = [http.client.HTTPConnection(agent.address, timeout=PATIENCE) for _ in range(5)]
    until(lambda: agent.page().one("stoker_window_seconds") > 2, "a few seconds")
    for _ in range(2):  # each has its connection; four of them are there between two scrapes of the fifth
        for page in [scrape(job) for job in jobs]:
            assert len(page.all("stoker_power_watts_max")) == 8
            assert page.one("stoker_window_seconds") > 2


def test_a_scraper_with_a_name_or_a_connection_has_its_window(agent_on):
    _, agent = agent_on()
    name = {"path": "/metrics?scraper=a%20b"}, {"X-Scrape-Job": "c"}
    one_more = lambda: http.client.HTTPConnection(agent.address, timeout=PATIENCE)
    window = lambda connection, **how: scrape(connection, **how).one("stoker_window_seconds")
    all_of_it = lambda: agent.page().one("stoker_window_seconds")
    until(lambda: all_of_it() > 2, "a few seconds")
    kept = one_more()
    assert window(kept) > 2

    def the_same_again():
        """At once, which a busy machine may miss: then of another scraper."""
        connection, program = one_more(), {"User-Agent": f"another/{next(numbers)}"}
        return window(connection, **program) > 2 and window(connection, **program) > 2

    numbers = itertools.count()
    until(the_same_again, "the same window")
    tick = agent.page().one("stoker_ticks_total")
    for how in name:
        assert window(one_more(), **how) > 2
    until(lambda: agent.page().one("stoker_ticks_total") >= tick + 1, "a tick")
    for how in name:  # over a connection of its own each time
        assert 0 < window(one_more(), **how) < all_of_it() - 1
    assert 0 < window(kept) < all_of_it() - 1
    now = all_of_it()
    assert window(one_more()) >= now
    assert window(kept) >= now  # which took it from nobody


# -- hosts ------------------------------------------------------------------------------------------------------------

def ask_for(agent, *hosts):
    """The status of /metrics with these Host headers."""
    head = "".join(f"Host: {host}\r\n" for host in hosts)
    with socket.create_connection(("127.0.0.1", int(agent.address.rsplit(":", 1)[1])), timeout=PATIENCE) as s:
        s.sendall(f"GET /metrics HTTP/1.1\r\n{head}Connection: close\r\n\r\n".encode())
        answer = b""
        while part := s.recv(65536):
            answer += part
    return int(answer.split()[1]), answer


def test_hosts(agent_on):
    _, agent = agent_on(options=["--external-url", "https://gpus.example.org:8443/node", "--web-hosts", "a.example,*.b.example"])
    own = [socket.gethostname(), agent.page().all("stoker_gpu_up")[0][0]["hostname"], "gpus.example.org", "127.0.0.1:9400", "[::1]:1",
           "localhost:9400", "a.example", "x.b.example"]
    for host in own:
        assert ask_for(agent, host)[0] == 200, host
    for host in ["evil.example", "b.example", "x.a.example", "stoker.monitoring.svc"]:
        status, answer = ask_for(agent, host)
        assert status == 421 and b"web.hosts" in answer and b"stoker_" not in answer, host
    assert ask_for(agent, "localhost", "localhost")[0] == 400


def test_hosts_by_default(agent_on):
    _, agent = agent_on()
    for host in ("10.42.0.17:9400", "stoker.monitoring.svc:9400", "stoker.monitoring.svc.cluster.local"):
        assert ask_for(agent, host)[0] == 200, host  # as Prometheus and a Service ask
    assert ask_for(agent, "rebound.example")[0] == 421
