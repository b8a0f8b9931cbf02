# SPDX-License-Identifier: Apache-2.0
"""Servers on ports of 127.0.0.1 for one test or module: they end with it, and a wait ends with what the server last wrote."""
import contextlib
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import time
import urllib.parse
import urllib.request

LIMIT_S = 120
USER, PASSWORD = "prometheus", "a pass: word"
START_TRIES = 3


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(what, condition, said=lambda: ""):
    """What `condition` returns once it is true; it may raise what a server raises that is not there yet."""
    end, last = time.monotonic() + LIMIT_S, None
    while time.monotonic() < end:
        try:
            last = condition()
            if last:
                return last
        except (OSError, ValueError) as error:
            last = error
        time.sleep(0.1)
    raise AssertionError(f"{what} did not come in {LIMIT_S} s; last: {last!r}\n{said()}")


class Process:
    """A program in a session of its own that writes into a file."""

    def __init__(self, command, log, **more):
        self.log = log
        with open(log, "wb") as out:
            self.popen = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=out,
                                          stderr=subprocess.STDOUT, start_new_session=True, **more)

    def said(self):
        return self.log.read_text(errors="replace")[-8000:]

    def alive(self):
        return self.popen.poll() is None

    def end(self):
        """Ends it gently, then its whole session; returns the exit code of the program, None where it had to be killed."""
        code = None
        if self.alive():
            self.popen.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self.popen.wait(120)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()
        return code


def started(what, ready, command, log, **more):
    """The process once ready() is true, None where it ended before; it does not outlive a wait in vain."""
    process = Process(command, log, **more)
    try:
        wait_for(what, lambda: not process.alive() or ready(), process.said)
    except BaseException:
        process.end()
        raise
    return process if process.alive() else None


def started_on_a_port(what, ready, command, log, **more):
    """The process and its port; `ready` and `command` are functions of the port, which another may take meanwhile."""
    for _ in range(START_TRIES):
        port = free_port()
        process = started(what, lambda p=port: ready(p), command(port), log, **more)
        if process:
            return process, port
    raise AssertionError(log.read_text(errors="replace"))


class Secrets:
    """A certificate for 127.0.0.1, its key and a web-config file of Prometheus's kind that asks for a password."""

    def __init__(self, folder, bcrypt):
        self.cert, self.key, self.web_config = folder / "cert.pem", folder / "key.pem", folder / "web.yaml"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-days", "2", "-subj", "/CN=stoker", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-addext", "keyUsage=digitalSignature,keyCertSign", "-keyout", self.key, "-out", self.cert],
                       check=True, capture_output=True, timeout=LIMIT_S)
        self.web_config.write_text(f"tls_server_config:\n  cert_file: {self.cert}\n  key_file: {self.key}\n"
                                   f"basic_auth_users:\n  {USER}: {bcrypt(PASSWORD)}\n")

    def context(self):
        return ssl.create_default_context(cafile=str(self.cert))

    def job(self, name, url, password=PASSWORD, scheme="https"):
        """A scrape_config for a server with this web-config."""
        return {"job_name": name, "scheme": scheme, "basic_auth": {"username": USER, "password": password},
                "tls_config": {"ca_file": str(self.cert)}, "static_configs": [{"targets": [urllib.parse.urlsplit(url).netloc]}]}


def get(url, headers=None, context=None):
    """A page, as (headers, text); never by way of a proxy."""
    request = urllib.request.Request(url, headers=headers or {})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    with opener.open(request, timeout=120) as answer:
        return answer.headers, answer.read().decode()


class Prometheus:
    """A Prometheus that scrapes every second and keeps little."""

    def __init__(self, program, folder, jobs):
        config = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": jobs}
        (folder / "prometheus.yaml").write_text(json.dumps(config))  # which is YAML
        command = [program, f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/data",
                   "--storage.tsdb.retention.time=1h", "--storage.tsdb.retention.size=64MB", "--log.level=warn"]
        self.process, port = started_on_a_port(
            "Prometheus", lambda p: get(f"http://127.0.0.1:{p}/-/ready"),
            lambda p: [*command, f"--web.listen-address=127.0.0.1:{p}"], folder / "prometheus.log", cwd=folder)
        self.url = f"http://127.0.0.1:{port}"

    def api(self, path, **words):
        query = urllib.parse.urlencode(words, doseq=True)
        answer = json.loads(get(f"{self.url}/api/v1/{path}?{query}")[1])
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression):
        """[(labels, value)] of an instant query."""
        return [(r["metric"], float(r["value"][1])) for r in self.api("query", query=expression)["result"]]

    def wait_query(self, expression, accept=bool):
        return wait_for(f"'{expression}'", lambda: (lambda r: r if accept(r) else None)(self.query(expression)), self.said)

    def target(self, job):
        """The target of a job once it was scraped: its health and last error."""
        def found():
            for t in self.api("targets", state="active")["activeTargets"]:
                if t["labels"]["job"] == job and t["health"] != "unknown":
                    return t
            return None

        return wait_for(f"a scrape of {job}", found, self.said)

    def said(self):
        return self.process.said()

    def end(self):
        self.process.end()


class NodeExporter:
    def __init__(self, program, folder, web_config):
        command = [program, f"--web.config.file={web_config}", "--collector.disable-defaults", "--collector.loadavg"]
        self.process, port = started_on_a_port(
            "node_exporter", listens, lambda p: [*command, f"--web.listen-address=127.0.0.1:{p}"],
            folder / "node_exporter.log", cwd=folder)
        self.url = f"https://127.0.0.1:{port}/"

    def end(self):
        self.process.end()


def listens(port):
    with socket.create_connection(("127.0.0.1", port), 5):
        return True


class Agent:
    """`stoker agent` on a simulated node, on a port that it says itself."""

    def __init__(self, stoker, folder, scenario, *flags):
        self.image = folder / "node.img"
        (folder / "stoker.yaml").write_text("{}\n")
        env = {k: v for k, v in os.environ.items() if not k.startswith(("STOKER_", "DCGM_", "NVIDIA_", "KUBERNETES_"))}
        env.update(XDG_RUNTIME_DIR=str(folder), STOKER_SIM_RUNTIME=str(folder / "nodes"), STOKER_JOURNAL="none")
        command = [stoker, "sim", "run", "--image", self.image, scenario, "--", stoker, "agent", "--config",
                   folder / "stoker.yaml", "--listen", "127.0.0.1:0", "--control", folder / "control", *flags]
        log = folder / "agent.log"
        self.process = started("the agent's URL", lambda: self._url(log), command, log, cwd=folder, env=env)
        assert self.process, log.read_text()
        self.url = self._url(log)

    @staticmethod
    def _url(log):
        found = re.search(r"https?://127\.0\.0\.1:\d+/", log.read_text(errors="replace"))
        return found[0] if found else None

    def said(self):
        return self.process.said()

    def end(self):
        return self.process.end()
