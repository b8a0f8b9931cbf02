# SPDX-License-Identifier: Apache-2.0
"""Reading `alerts`: what is accepted, and what is said of it. test_alert_config.c has what is refused."""
import re
import subprocess
from pathlib import Path

import pytest

DOCS = (Path(__file__).resolve().parents[3] / "docs" / "alerts.md").read_text()

GOOD = """\
external_url: https://node7.example/stoker/
labels: {cluster: east, team: sre}
receivers:
  - name: am
    alertmanager:
      urls: [http://am1:9093, "https://am2:9093/prefix/"]
      resend: 30s
      tls: {ca_file: ca.pem, server_name: am}
      basic_auth: {username: stoker, password_file: password}
      headers: {X-Scope-OrgID: gpu}
  - name: hook
    keep: 2d
    webhook: {url: "http://hooks/x?y=1", secret_file: secret}
  - {name: short, webhook: "http://hooks/"}
  - name: page
    command: [/bin/true, --now, "a, b"]
  - name: script
    command: {argv: [/bin/true], timeout: 5s, env: {TEAM: gpu}}
  - name: log
    journald: {}
routes:
  - match: {route: [page, ticket], class: ["gpu-*", ecc-storm], cause: memory, severity: error, gpu: [0, GPU-1], labels: {team: s*}}
    receivers: [am, hook]
    labels: {team: memory}
    runbook: https://wiki/{class}
    repeat_interval: 1h
    continue: yes
  - match: {route: [none, user]}
    receiver: log
    receivers: [short, page, script]
  - {receiver: log, match: {route: [page, ticket]}}
  - {receivers: []}
job_reports: [hook, short]
"""


def check(exe, folder, alerts):
    (folder / "c.yaml").write_text("alerts:\n" + "".join(f"  {line}\n" for line in alerts.splitlines()))
    got = subprocess.run([exe, "check", folder / "c.yaml"], capture_output=True, text=True)
    assert got.stderr == ""
    return got.stdout.strip()


def test_everything_is_read(exe, tmp_path):
    (tmp_path / "password").write_text("x\n")
    (tmp_path / "secret").write_text("y")
    (tmp_path / "ca.pem").write_text("z")
    assert check(exe, tmp_path, GOOD) == "fine"


NO_SCRIPT = "alerts: receiver '{}': '{}': No such file or directory\n"


def test_what_is_hardly_meant_is_said(exe, tmp_path):
    assert check(exe, tmp_path, """\
receivers: {a: {journald: }, b: {journald: }, c: {command: [/nowhere/page]}, d: {command: [env]}, e: {command: [no-such-program]}}
routes:
  - {receivers: [a, c, d, e], match: {route: page}}
  - {receivers: [], match: {route: ticket, gpu: [0, 7, 8, GPU-8]}}
""") == ("alerts: no route leads to receiver 'b'\n" + NO_SCRIPT.format("c", "/nowhere/page") +
         NO_SCRIPT.format("e", "no-such-program") +
         "alerts: incidents of route 'user' reach nobody\nalerts: incidents of route 'ticket' reach nobody\n"
         "alerts: a route names GPU 8, this node has 8 GPUs")


NOBODY = "of the incidents of route '{}' these reach nobody: "


@pytest.mark.parametrize("match, route, heard, unheard", [
    ("route: page, class: gpu-lost", "page", "gpu-lost", "gpu-missing (fatal)"),
    ("route: ticket, severity: fatal", "ticket", "(fatal)", "(warning)"),
    ("route: page, cause: bus", "page", "gpu-lost", "gsp-failure"),
])
def test_a_route_with_one_class_or_severity_reaches_few(exe, tmp_path, match, route, heard, unheard):
    said = check(exe, tmp_path, "receivers: {a: {journald: }, b: {journald: }}\nroutes:\n"
                 "  - {receiver: a, match: {" + match + "}}\n  - {receiver: b, match: {route: none}}")
    line = next(line for line in said.splitlines() if f"route '{route}'" in line)
    assert line.startswith("alerts: " + NOBODY.format(route)) and f"a last route {{match: {{route: {route}}}}}" in line
    assert unheard in line and heard not in line.split(": ", 2)[2].split(";")[0]


def test_a_route_for_nobody_ends_the_search(exe, tmp_path):
    said = check(exe, tmp_path, "receivers: {a: {journald: }}\nroutes:\n"
                 "  - {receivers: [], match: {class: gpu-lost}}\n  - {receiver: a}")
    assert said == "alerts: " + NOBODY.format("page") + \
        "gpu-lost (fatal); a last route {match: {route: page}} with a receiver catches them"


def test_none_is_fine(exe, tmp_path):
    (tmp_path / "c.yaml").write_text("other: 1\n")
    got = subprocess.run([exe, "check", tmp_path / "c.yaml"], capture_output=True, text=True)
    assert got.stdout == "fine\n"


def test_many_receivers_and_routes_have_an_end(exe, tmp_path):
    many = "receivers:\n" + "".join(f"  r{i}: {{journald: }}\n" for i in range(33))
    assert "more than 32 receivers" in check(exe, tmp_path, many)
    many = "receivers: {a: {journald: }}\nroutes:\n" + "  - {receiver: a}\n" * 257
    assert "more than 256 routes" in check(exe, tmp_path, many)


@pytest.mark.parametrize("number", range(6))
def test_examples_of_the_documentation_are_accepted(exe, tmp_path, number):
    examples = re.findall(r"^```yaml\n(.*?)^```", DOCS, re.M | re.S)
    assert len(examples) == 6
    (tmp_path / "c.yaml").write_text(examples[number])
    for name in re.findall(r"_file: ([a-z.-]+)", examples[number]):
        (tmp_path / name).write_text("x\n")
    got = subprocess.run([exe, "check", tmp_path / "c.yaml"], capture_output=True, text=True)
    assert [line for line in got.stdout.splitlines() if line and "'/usr/" not in line] in ([], ["fine"]), got.stdout
