# SPDX-License-Identifier: Apache-2.0
"""`stoker dashboard grafana` against a real Prometheus: every query of every dashboard parses and has data, what is healthy is
told from what is not known, and nothing counts twice."""
import importlib.util
import pathlib
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
BOARDS = ["executive", "cost", "on-call", "debug", "gpu", "job"]
NAMES = ["stoker", "dcgm"]
GPUS = 8

# Panels that are empty on a healthy node without MIG, and the node on which they have data.
EMPTY_WHEN_WELL = {
    "Open incidents, and what to do": "broken",
    "Open incidents of its GPUs": "broken",
    "Alerts that fire": "broken",
    "Faults of the time shown": "broken",
    "Incidents over time": "broken",
    "GPUs that are not up": "broken",
    "GPUs with an incident, over time": "broken",
    "GPUs that were not sampled for five seconds": "broken",
    "XIDs": "broken",
    "XIDs of the last five minutes": "broken",
    "Occupied but idle, by node": "broken",
    "Who holds GPUs and does not use them": "broken",
    "Hot GPUs": "broken",
    "GPUs slowed down by heat or power brake": "broken",
    "GPUs with uncorrected memory errors": "broken",
    "GPUs with a narrow PCIe link or replays": "broken",
    "GPUs with NVLink errors": "broken",
    "Fans": "cards",
    "Retired pages": "cards",
    "MIG instances": "mig",
    "MIG instances: a kernel ran": "mig",
    "MIG instances: memory in use": "mig",
}


def load(name):
    spec = importlib.util.spec_from_file_location(f"peer_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


grafana = load("dashboard_grafana")
dashboard_fleet = load("dashboard_fleet")


@pytest.fixture(scope="module")
def fleet(stoker, web, prometheus, tmp_path_factory):
    kubelet = pytest.importorskip("kubelet", reason="the kubelet's stand-in needs python3-grpcio")
    made = dashboard_fleet.Fleet(stoker, tmp_path_factory.mktemp("fleet"), tmp_path_factory.mktemp("k"), web, kubelet, prometheus)
    try:
        settle(made.prometheus.wait_query)
        yield made
    finally:
        made.end()


def settle(wait):
    """Waits until all has happened that is going to."""
    for scrape in ("well", "mig", "broken", "cards", "old", "cluster"):
        wait(f'count_over_time(DCGM_FI_DEV_FB_USED{{job="{scrape}"}}[1m]) >= {grafana.RATE_S + 2}')
    for late in ('stoker_incident_open{job="broken",class="gpu-lost"}', 'DCGM_EXP_XID_ERRORS_COUNT{job="broken",xid="31"}',
                 'DCGM_FI_DEV_SLOWDOWN_TEMP{job="broken"} - DCGM_FI_DEV_GPU_TEMP < 10',
                 'increase(DCGM_FI_DEV_PCIE_REPLAY_COUNTER{job="broken"}[1m]) > 0',
                 'DCGM_FI_DEV_RETIRED_SBE{job="cards"} > 0', 'ALERTS{alertstate="firing",job="broken"}',
                 'stoker_gpu_activity{job="broken",activity="idle held"} == 1', 'stoker_gpu_activity{job="broken",activity="unusable"} == 1',
                 'DCGM_FI_PROF_SM_ACTIVE{job="mig"} > 0', 'DCGM_FI_DEV_FB_USED{job="well",pod="chat"}'):
        wait(late)


def series(fleet, board, target, **chosen):
    """What Grafana would get: [(labels, last value)]."""
    text = grafana.query(board, target["expr"], **chosen)
    if target["instant"]:
        return fleet.prometheus.query(text)
    now = time.time()
    found = fleet.prometheus.api("query_range", query=text, start=now - 20, end=now, step=grafana.INTERVAL_S)["result"]
    return [(s["metric"], float(s["values"][-1][1])) for s in found]


def places(fleet, name, scrape=None):
    """What to choose, one after another: for one GPU every GPU, else all that is there."""
    if name != "gpu":
        return [{"scrape": scrape} if scrape else {}]
    found = fleet.prometheus.query("group by (job, instance, gpu) (DCGM_FI_DEV_FB_USED" + (f'{{job="{scrape}"}})' if scrape else ")"))
    return [{"scrape": m["job"], "node": m["instance"], "gpu": m["gpu"]} for m, _ in found]


def empty_targets(fleet, board, name, scrape=None):
    """{panel's title: [legends of queries that give nothing anywhere]}"""
    empty = {}
    for panel in grafana.panels(board):
        for target in panel["targets"]:
            if not any(series(fleet, board, target, **chosen) for chosen in places(fleet, name, scrape)):
                empty.setdefault(panel["title"], []).append(target["legendFormat"])
    return empty


def stat(fleet, board, title, **chosen):
    panel = next(p for p in grafana.panels(board) if p["title"] == title)
    return [series(fleet, board, t, **chosen)[0][1] for t in panel["targets"]]


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("name", BOARDS)
def test_every_query_has_data_on_the_fleet(fleet, name, names):
    assert empty_targets(fleet, fleet.dashboard(name, "--names", names), name) == {}


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("name", BOARDS)
def test_a_healthy_node_lacks_only_what_says_so(fleet, name, names):
    board = fleet.dashboard(name, "--names", names)
    for panel in grafana.panels(board):
        title, gone = panel["title"], not any(series(fleet, board, t, **c) for t in panel["targets"] for c in places(fleet, name, "well"))
        assert gone == (title in EMPTY_WHEN_WELL), title
        assert not gone or panel["fieldConfig"]["defaults"]["noValue"] != "no data", title


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("name", BOARDS)
def test_what_is_empty_there_is_filled_by_a_scenario(fleet, name, names):
    board = fleet.dashboard(name, "--names", names)
    for panel in grafana.panels(board):
        scrape = EMPTY_WHEN_WELL.get(panel["title"])
        if scrape:
            assert any(series(fleet, board, t, **c) for t in panel["targets"] for c in places(fleet, name, scrape)), panel["title"]


@pytest.mark.parametrize("name", BOARDS)
def test_on_a_fleet_that_still_runs_dcgm_exporter(fleet, name):
    """Labels and names of 4.8.2, where not one name is ours."""
    assert fleet.prometheus.query('count({__name__=~"stoker_.+",job="old"})') == []
    board = fleet.dashboard(name, "--names", "dcgm")
    empty = empty_targets(fleet, board, name, "old")
    assert set(empty) <= {t for t in EMPTY_WHEN_WELL} | {"Devices by namespace", "Busy by namespace"}
    shown = [grafana.legend(t, m) for p in grafana.panels(board) for t in p["targets"] if "{{gpu}}" in t["legendFormat"]
             for c in places(fleet, name, "old")[:1] for m, _ in series(fleet, board, t, **c)]
    host = fleet.prometheus.query('group by (Hostname) (DCGM_FI_DEV_GPU_TEMP{job="old"})')[0][0]["Hostname"]
    assert all(host in text and "GPU " in text for text in shown) and (shown or name in ("executive", "cost", "on-call"))


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("name", BOARDS)
def test_what_is_not_known_is_absent(fleet, name, names):
    """A node that nobody scrapes: not one query makes a number of nothing."""
    board = fleet.dashboard(name, "--names", names)
    chosen = {"node": "10.0.0.1:9400", "gpu": "0"} if name == "gpu" else {"node": "10.0.0.1:9400"}
    for panel in grafana.panels(board):
        for target in panel["targets"]:
            assert series(fleet, board, target, **chosen) == [], panel["title"]


@pytest.mark.parametrize("names", NAMES)
def test_marks_have_data(fleet, names):
    for name in BOARDS:
        board = fleet.dashboard(name, "--names", names)
        for mark in board["annotations"]["list"]:
            found = [fleet.prometheus.query(grafana.query(board, mark["expr"], **chosen)) for chosen in places(fleet, name, "broken")]
            assert any(found), (name, mark["name"])


@pytest.mark.parametrize("names", NAMES)
def test_mig_counts_nothing_twice(fleet, names):
    board = fleet.dashboard("executive", "--names", names)
    boards = fleet.prometheus.query('stoker_gpu_power_watts{job="mig"}')
    power, = stat(fleet, board, "Power now", scrape="mig")
    assert len(boards) == 4 and abs(power - sum(v for _, v in boards)) < 0.2 * power
    assert stat(fleet, board, "GPUs", scrape="mig") == ([4, 4] if names == "stoker" else [4])
    assert stat(fleet, fleet.dashboard("job", "--names", names), "Devices", scrape="mig") == [16]
    held, = stat(fleet, board, "Memory held", scrape="mig")
    assert 0 < held < 1


@pytest.mark.parametrize("names", NAMES)
def test_gpus_are_working_idle_or_free(fleet, names):
    board = fleet.dashboard("executive", "--names", names)
    panel = next(p for p in grafana.panels(board) if p["title"] == "What the GPUs do")
    found = {t["legendFormat"]: series(fleet, board, t, scrape="broken")[0][1] for t in panel["targets"]}
    if names == "stoker":
        assert sum(found.values()) == GPUS and found["unusable"] >= 1, found
    else:
        assert sum(found.values()) == GPUS - 1, "the lost GPU has no values"
    assert found["occupied but idle"] == 1, found
    assert stat(fleet, board, "Occupied but idle", scrape="broken") == [1]
    assert stat(fleet, board, "Occupied but idle", scrape="well") == [0], "no such GPU is 0, not nothing"
    hours, = stat(fleet, board, "Wasted GPU hours", scrape="broken")
    cost, = stat(fleet, board, "What that cost", scrape="broken", price="250")
    assert 0 < hours <= grafana.RANGE_S / 3600 and abs(cost / hours - 250) < 50


@pytest.mark.parametrize("names", NAMES)
def test_one_job_has_its_devices_alone(fleet, names):
    board = fleet.dashboard("job", "--names", names)

    def devices(**chosen):
        return {m["gpu"] for m, _ in series(fleet, board, next(p for p in grafana.panels(board) if p["title"] == "SM active")["targets"][0],
                                            scrape="well", **chosen)}

    assert devices(job="5822") == {"4", "5"} and stat(fleet, board, "Devices", scrape="well", job="5822") == [2]
    assert devices(namespace="research") == {"0", "1"} and devices(namespace="research", pod="trainer-1") == {"1"}
    if names == "dcgm":
        assert devices(namespace=["research", "serving"]) == {"0", "1", "2"} and devices() == {str(g) for g in range(GPUS)}
    else:  # those that somebody holds; the node's own processes of a pod and of a job need neither kubelet nor prolog
        assert devices(namespace=["research", "serving"]) == {"0", "1", "2", "4"}
        assert devices() >= {"0", "1", "2", "3", "4", "5"} and devices(job="4711") >= {"3"}


def test_pods_of_a_scrape_that_renames_them(fleet):
    plain, renamed = fleet.dashboard("job"), fleet.dashboard("job", "--exported")
    assert stat(fleet, renamed, "Devices", scrape="cluster", namespace="research") == [2]
    panel = next(p for p in grafana.panels(plain) if p["title"] == "Devices")
    assert series(fleet, plain, panel["targets"][0], scrape="cluster", namespace="research") == []


def choices(fleet, board, name, **chosen):
    """What the list of a variable offers, from Prometheus."""
    variable = grafana.variables(board)[name]
    kind, text = variable["query"]["qryType"], grafana.query(board, variable["query"]["query"], **chosen)
    if kind == 1:
        match, label = text[len("label_values("):-1].rsplit(", ", 1)
        return grafana.options(variable, fleet.prometheus.api(f"label/{label}/values", **{"match[]": match}))
    rows = fleet.prometheus.query(text[len("query_result("):-1])
    return grafana.options(variable, ["{" + ", ".join(f'{k}="{v}"' for k, v in m.items()) + f"}} {v}" for m, v in rows])


@pytest.mark.parametrize("names", NAMES)
def test_variables_offer_what_there_is(fleet, names):
    board = fleet.dashboard("job", "--names", names)
    hosts = choices(fleet, board, "node", scrape="well")
    assert [value for _, value in hosts] == [fleet.instance("well")] and hosts[0][0] and ":" not in hosts[0][0], "shown by its name"
    assert {"well", "mig", "broken", "cards"} <= {value for _, value in choices(fleet, board, "scrape")}
    assert ("5822", "5822") in choices(fleet, board, "job", scrape="well")
    assert choices(fleet, board, "pod", scrape="well", namespace="research") == [("trainer-0", "trainer-0"), ("trainer-1", "trainer-1")]
    one = fleet.dashboard("gpu", "--names", names)
    assert len(choices(fleet, one, "gpu", node=fleet.instance("cards"))) == 2
    assert choices(fleet, board, "cluster") == [], "no cluster label: All is all there is"
    old = choices(fleet, fleet.dashboard("debug", "--names", "dcgm"), "node", scrape="old")
    assert old and ":" not in old[0][0], "Hostname will do too"


def test_the_counters_are_ones_that_the_agent_takes(fleet):
    assert [v for m, v in fleet.prometheus.query("stoker_csv_rows_left_out") if v] == []
