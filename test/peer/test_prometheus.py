# SPDX-License-Identifier: Apache-2.0
"""Prometheus and promtool: what they make of the agent's page, and what a dashboard then gets."""
import json
import re
import subprocess
import urllib.error

import pytest

GPUS = 8
PROFILES = ["4.8.3", "4.8.2", "4.9", "both"]

# Names that are DCGM's, so that we cannot choose them, with what promtool may say about them.
DCGM_NAME = re.compile(r"(DCGM|dcgm)_\w+ ")

# What the widespread dashboard for these metrics asks for, and what a panel or a legend does with it.
PANELS = ["DCGM_FI_DEV_GPU_TEMP{S}", "DCGM_FI_DEV_POWER_USAGE{S}", "DCGM_FI_DEV_SM_CLOCK{S} * 1000000", "DCGM_FI_DEV_GPU_UTIL{S}",
          "DCGM_FI_DEV_FB_USED{S}", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{S}"]
FORMS = ["{}", "avg({})", "sum({})", "max by (instance) ({})"]
SELECTOR = '{instance=~"127.0.0.1:.+", gpu=~"[0-9]+"}'


@pytest.fixture(scope="module")
def scraped(agent, prometheus, secrets):
    """The agent behind TLS and a password, and a Prometheus that has scraped it: also with a wrong password, and without TLS."""
    a = agent("default", "--web-config-file", secrets.web_config)
    p = prometheus(secrets.job("gpus", a.url), secrets.job("wrong", a.url, password="guessed"),
                   secrets.job("plain", a.url, scheme="http"))
    # GPU performance monitoring needs two samples
    p.wait_query("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", lambda rows: len(rows) == GPUS)
    return a, p


def test_the_web_config_is_one_that_other_exporters_take(node_exporter, prometheus, secrets):
    p = prometheus(secrets.job("right", node_exporter.url), secrets.job("wrong", node_exporter.url, password="guessed"))
    assert p.target("right")["health"] == "up", p.target("right")["lastError"]
    assert p.target("wrong")["health"] == "down" and "401" in p.target("wrong")["lastError"]
    assert p.wait_query("node_load1")[0][1] >= 0


def test_scraped_over_tls_with_a_password(scraped):
    _, p = scraped
    assert p.target("gpus")["health"] == "up", p.target("gpus")["lastError"]
    assert p.target("gpus")["scrapeUrl"].startswith("https://")
    assert p.wait_query('up{job="gpus"}')[0][1] == 1
    assert sorted(m["gpu"] for m, _ in p.query("DCGM_FI_DEV_GPU_TEMP")) == [str(g) for g in range(GPUS)]


def test_nobody_else_gets_in(scraped, secrets, web):
    a, p = scraped
    assert p.target("wrong")["health"] == "down" and "401" in p.target("wrong")["lastError"]
    assert p.target("plain")["health"] == "down"
    with pytest.raises(OSError):
        web.get(a.url.replace("https", "http") + "metrics")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        web.get(a.url + "metrics", context=secrets.context())
    assert p.query('count by (job) ({__name__=~"DCGM_.+"})')[0][0] == {"job": "gpus"}


def test_the_series_are_those_of_the_node(scraped, stoker):
    a, p = scraped
    done = subprocess.run([stoker, "sim", "show", "--image", a.image, "--json"], capture_output=True, text=True, check=True,
                          timeout=120)
    true = json.loads(done.stdout)["gpus"]
    temps = {m["gpu"]: (m, value) for m, value in p.query("DCGM_FI_DEV_GPU_TEMP")}
    for t in true:
        labels, value = temps[str(t["gpu"])]
        assert labels["UUID"] == t["uuid"] and labels["device"] == f"nvidia{t['gpu']}"
        assert labels["job"] == "gpus" and labels["hostname"]
        assert abs(value - t["temp_c"]) <= 10, "the node warms up while it is looked at"


def test_prometheus_knows_the_types(scraped):
    _, p = scraped
    types = {m["metric"]: m["type"] for m in p.api("targets/metadata")}
    assert types["DCGM_FI_DEV_GPU_TEMP"] == "gauge" and types["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"] in ("counter", "unknown")
    assert not [name for name, kind in types.items() if name.startswith("stoker_") and kind == "unknown"]


def test_counters_can_be_rated(scraped):
    _, p = scraped
    name = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
    p.wait_query(f"count_over_time({name}[1m]) >= 6", lambda rows: len(rows) == GPUS)
    assert len(p.query(f"rate({name}[1m]) > 0")) == GPUS
    for series in p.api("query", query=f"{name}[1m]")["result"]:
        (start, first), (end, last) = series["values"][0], series["values"][-1]
        # millijoules; every GPU of this node draws between 70 and 700 W, and a scrape may come just before a sample or just after
        assert 40 < (float(last) - float(first)) / 1000 / (end - start) < 1000, series


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("panel", PANELS)
def test_a_dashboard_finds_its_data(scraped, panel, form):
    _, p = scraped
    rows = p.query(form.format(panel.replace("{S}", SELECTOR)))
    assert len(rows) == (GPUS if form == "{}" else 1)
    assert all(value >= 0 for _, value in rows) and max(value for _, value in rows) > 0
    if form == "{}":
        assert {m["gpu"] for m, _ in rows} == {str(g) for g in range(GPUS)} and all(m["instance"] for m, _ in rows)


@pytest.mark.parametrize("label", ["instance", "gpu", "UUID", "modelName", "hostname"])
def test_a_dashboard_can_list_what_to_choose_from(scraped, label):
    _, p = scraped
    found = p.api(f"label/{label}/values", **{"match[]": "DCGM_FI_DEV_GPU_TEMP"})
    assert len(found) == {"gpu": GPUS, "UUID": GPUS}.get(label, 1)


@pytest.mark.parametrize("profile", PROFILES)
def test_promtool_finds_nothing_that_is_ours(agent, promtool, web, profile):
    a = agent("mig-balanced", "--profile", profile)
    page = web.wait_for("a page with samples", lambda: whole(web.get(a.url + "metrics")[1]), a.said)
    a.end()
    done = promtool(page, "check", "metrics")
    assert done.returncode in (0, 3), done.stderr
    assert [line for line in done.stderr.splitlines() if line.strip() and not DCGM_NAME.match(line)] == []


def whole(page):
    """The page, where it has samples of each kind: DCGM's per MIG device, ours, and the process's."""
    wanted = (r'^DCGM_\w+\{.*GPU_I_ID="', r"^stoker_\w+", r"^process_\w+")
    return page if all(re.search(pattern, page, re.M) for pattern in wanted) else None
