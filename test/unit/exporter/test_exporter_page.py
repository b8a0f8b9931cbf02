# SPDX-License-Identifier: Apache-2.0
"""The page as other programs read it: every family is there once, the names the docs promise exist, and, where they are
installed, promtool and the Python client's OpenMetrics parser have nothing to say against what is ours."""
import re
import subprocess

import pytest

PROFILES = ["4.8.3", "4.8.2", "4.9", "both"]
OURS = re.compile(r"^(stoker|process)_")


@pytest.fixture
def page(build):
    program = build / "test" / "unit" / "exporter" / "exporter_page"

    def make(profile, form):
        return subprocess.run([program, profile, form], capture_output=True, text=True, check=True).stdout

    return make


def families(text):
    return re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M)


@pytest.mark.parametrize("profile", PROFILES)
def test_families_once_and_in_order(page, profile):
    text = page(profile, "text")
    names = [name for name, _ in families(text)]
    assert len(names) == len(set(names)) > 60
    shared = names[: next(i for i, n in enumerate(names) if n.endswith("_max"))]
    if profile != "4.8.2":
        assert shared == sorted(shared)
    assert not text.endswith("# EOF\n")


@pytest.mark.parametrize("profile", PROFILES)
def test_our_names_are_the_same_under_every_profile(page, profile):
    ours = {f for f in families(page(profile, "text")) if OURS.match(f[0])}
    assert ours == {f for f in families(page("4.8.3", "text")) if OURS.match(f[0])}
    assert {"stoker_gpu_up", "stoker_build_info", "stoker_metric_unavailable", "stoker_pcie_tx_bytes_total",
            "stoker_power_watts_min", "stoker_window_seconds"} <= {name for name, _ in ours}


def test_open_metrics_has_the_same_series(page):
    def series(text):
        return sorted(line for line in text.splitlines() if not line.startswith("#"))

    assert series(page("4.8.3", "text")) == series(page("4.8.3", "openmetrics"))
    assert page("4.8.3", "openmetrics").endswith("\n# EOF\n")


def test_our_labels_are_snake_case(page):
    for line in page("4.8.3", "text").splitlines():
        if OURS.match(line):
            assert not re.search(r"[{,]\w*[a-z][A-Z]\w*=", line), line


@pytest.mark.slow("promtool")
@pytest.mark.parametrize("profile", PROFILES)
def test_promtool(page, profile, fetched):
    done = subprocess.run([fetched("prometheus") / "usr/bin/promtool", "check", "metrics"], input=page(profile, "text"), capture_output=True, text=True,
                          check=False)
    assert "error while linting" not in done.stderr
    assert [line for line in (done.stdout + done.stderr).splitlines() if OURS.match(line)] == []


@pytest.mark.slow("the Python client of Prometheus")
@pytest.mark.parametrize("profile", PROFILES)
def test_client_parser(page, profile):
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    text = page(profile, "openmetrics")
    found = list(parser.text_string_to_metric_families(text))
    assert sum(len(family.samples) for family in found) == sum(
        1 for line in text.splitlines() if not line.startswith("#"))
