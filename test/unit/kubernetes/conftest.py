# SPDX-License-Identifier: Apache-2.0
"""The client of the API server in a driver, and the tests' own server."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "scenario" / "agent"))
from apiserver import Server  # noqa: E402


class Driver:
    def __init__(self, exe, account, env, log, *config):
        self.log_path = log.name
        self.process = subprocess.Popen([exe, account, *config], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=env)

    def log(self):
        return pathlib.Path(self.log_path).read_text()

    def tell(self, *lines):
        self.process.stdin.write("".join(line + "\n" for line in lines))
        self.process.stdin.flush()

    def reply(self):
        line = self.process.stdout.readline()
        assert line, "the driver has ended"
        return json.loads(line)

    def ask(self, method, path, body=None):
        self.tell(f"call {method} {path}" + (f" {json.dumps(body)}" if body else ""))
        return self.reply()

    def end(self):
        """What it still says; nothing of it may be left in its loop."""
        rest, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0
        return rest.splitlines()


@pytest.fixture
def api(tmp_path):
    server = Server(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def driver(build, api, tmp_path):
    made, log = [], tmp_path / "driver.log"

    def make(*config, account=api.account, env=api.env):
        made.append(Driver(build / "test" / "unit" / "kubernetes" / "kube_driver", account, {**os.environ, **env}, open(log, "wb"), *config))
        return made[-1]

    yield make
    for one in made:
        one.process.kill()
        one.process.communicate()
