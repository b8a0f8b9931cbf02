# SPDX-License-Identifier: Apache-2.0
"""The Dockerfile: what it copies is there, what the program needs is in it, and it can take dcgm-exporter's place."""
import json
import re
import shutil
import subprocess

import pytest


@pytest.fixture(scope="module")
def lines(deploy):
    """[instruction, rest] with continued lines joined."""
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", (deploy / "docker/Dockerfile").read_text(), flags=re.M))
    return [line.split(None, 1) for line in text.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def stages(lines):
    """{name: [base, [instruction, rest]...]} in order."""
    found, rows = {}, []
    for word, rest in lines:
        if word == "FROM":
            base, _, name = rest.split()
            found[name] = rows = [base]
        else:
            rows.append((word, rest))
    return found


@pytest.fixture(scope="module")
def packages(stages):
    text = " ".join(rest for word, rest in stages["agent"][1:] if word == "RUN")
    return re.search(r"--no-install-recommends ([^&]+)", text)[1].split()


def test_it_builds_from_the_checkout_alone(lines, source):
    copied = [rest.split()[:-1] for word, rest in lines if word == "COPY" and not rest.startswith("--from")]
    assert copied == [["tools/deps.sh"], ["."]]
    assert all((source / path).exists() for paths in copied for path in paths)
    assert not [rest for word, rest in lines if word == "ADD" or re.search(r"\b(curl|wget|git)\b|https?:", rest)]


def test_builds_and_history_stay_outside(deploy):
    kept_out = (deploy / "docker/Dockerfile.dockerignore").read_text().split()
    assert {".git", "build", "build-*"} <= set(kept_out)


def test_every_stage_is_this_debian(stages):
    assert [rows[0] for rows in stages.values()] == ["debian:12-slim", "debian:12-slim", "agent", "agent"]


def test_nobody_is_root_unless_asked_for(stages):
    assert list(stages)[-1] == "exporter" and stages["exporter"][1:] == [("USER", "65532:65532")]
    assert stages["operator"][1:] == [("USER", "0:0")]


def test_it_stands_where_dcgm_exporter_stood(stages, deploy):
    entry = [json.loads(rest) for word, rest in stages["agent"][1:] if word == "ENTRYPOINT"]
    assert entry == [["/usr/bin/dcgm-exporter"]]
    made = " ".join(rest for word, rest in stages["build"][1:] if word == "RUN")
    assert "ln -s stoker /agent/usr/bin/dcgm-exporter" in made and "cp deploy/counters/*.csv /agent/etc/dcgm-exporter/" in made
    assert all(f"/image/usr/share/stoker/{name}" in made for name in ("dashboards", "rules", "runbooks.gz"))
    # the lists that the chart and the GPU operator name
    assert {"default-counters.csv", "dcp-metrics-included.csv"} <= {p.name for p in (deploy / "counters").iterdir()}


def test_the_agent_understands_its_environment(stages, agent_words):
    names = re.findall(r"([A-Z_]+)=", " ".join(rest for word, rest in stages["agent"][1:] if word == "ENV"))
    assert {n for n in names if not n.startswith("NVIDIA_")} <= agent_words.variables
    assert {"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"} <= set(names)


@pytest.mark.slow("asks dpkg whose each library is")
def test_its_libraries_are_those_of_the_program(build, packages):
    """Each library that the built programs name comes from a package of the image."""
    programs = [build / "stoker", *(build / "src").rglob("stoker-sampler")]
    assert len(programs) == 2
    needed = set()
    for program in programs:
        text = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
        needed |= set(re.findall(r"\(NEEDED\).*\[([^]]+)\]", text))
    if not shutil.which("dpkg-query"):
        pytest.skip("no dpkg-query on this machine, which knows whose the libraries are")
    for library in needed:
        done = subprocess.run(["dpkg-query", "-S", f"*/{library}"], capture_output=True, text=True, check=False)
        owners = {line.split(":")[0] for line in done.stdout.splitlines()}
        assert owners & {*packages, "libc6"}, f"{library} is of {owners or 'no package'}"


@pytest.mark.slow("asks the archive for packages")
def test_debian_has_the_packages(packages):
    release = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', open("/etc/os-release", encoding="utf-8").read(), re.M))
    if (release.get("ID"), release.get("VERSION_ID")) != ("debian", "12"):
        pytest.skip("this machine is not the Debian of the image")
    done = subprocess.run(["apt-cache", "policy", *packages], capture_output=True, text=True, timeout=120, check=False)
    known = set(re.findall(r"^(\S+):\n  Installed: .*\n  Candidate: (?!\(none\))", done.stdout, re.M))
    if not known:
        pytest.skip("apt has no package lists here")
    assert set(packages) <= known
