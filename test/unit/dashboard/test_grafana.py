# SPDX-License-Identifier: Apache-2.0
"""`stoker dashboard`: the command line, the JSON model that Grafana imports, and the documentation of every panel."""
import csv
import importlib.util
import io
import itertools
import json
import pathlib
import re
import subprocess
import sys

import pytest
import yaml

REPO = pathlib.Path(__file__).resolve().parents[3]
BOARDS = ["executive", "cost", "on-call", "debug", "gpu", "job"]
NAMES = ["stoker", "dcgm"]

# A panel type's own options, and Grafana's macros and fields that are no variables of a dashboard.
TYPES = {"stat": "reduceOptions", "bargauge": "reduceOptions", "timeseries": "legend", "table": "showHeader", "state-timeline": "mergeValues"}
BUILT_IN = {"__rate_interval", "__range", "__range_s", "__interval", "__interval_ms", "__url_time_range", "__data", "__field"}
UNITS = {"none", "percentunit", "percent", "bytes", "Bps", "celsius", "watt", "hertz", "kwatth", "h", "s", "cps", "bool_yes_no", "dateTimeFromNow"}
COLORS = {"text", "green", "yellow", "orange", "red", "blue"}


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


grafana = load(REPO / "test/peer/dashboard_grafana.py")


@pytest.fixture(scope="module")
def said(stoker):
    return lambda *words: subprocess.run([stoker, "dashboard", *map(str, words)], capture_output=True, text=True, check=False,
                                         timeout=60)


@pytest.fixture(scope="module", params=list(itertools.product(BOARDS, NAMES)), ids="-".join)
def board(request, said):
    name, names = request.param
    done = said("grafana", name, "--names", names)
    assert done.returncode == 0 and done.stderr == ""
    return json.loads(done.stdout, object_pairs_hook=once)


def once(pairs):
    """A mapping whose keys are there once."""
    assert len({k for k, _ in pairs}) == len(pairs)
    return dict(pairs)


def texts(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from texts(inner)


# -- the model --------------------------------------------------------------------------------------------------------

def test_head(board):
    assert board["id"] is None and re.fullmatch(r"[a-z-]{1,40}", board["uid"]) and board["title"]
    assert board["schemaVersion"] == 39 and board["editable"] is True and board["tags"]
    assert re.fullmatch(r"now-\d+[mhd]", board["time"]["from"]) and board["time"]["to"] == "now"
    assert re.fullmatch(r"\d+[sm]", board["refresh"]) and board["description"]
    link, = board["links"]
    assert link["type"] == "dashboards" and link["tags"] == board["tags"] and link["includeVars"] and link["keepTime"]
    assert "__inputs" not in board, "nothing is asked at the import"


def test_ids_and_places(board):
    ids = [p["id"] for p in board["panels"]] + [p["id"] for r in board["panels"] for p in r.get("panels", [])]
    assert len(ids) == len(set(ids)) and min(ids) > 0
    for group in [board["panels"], *(r["panels"] for r in board["panels"] if r.get("panels"))]:
        taken = set()
        for panel in group:
            at = panel["gridPos"]
            assert at["x"] >= 0 and at["w"] > 0 and at["x"] + at["w"] <= 24 and at["h"] > 0 and at["y"] >= 0
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            assert not cells & taken, panel["title"]
            taken |= cells
        ys = {y for _, y in taken}
        assert len(taken) == 24 * len(ys), "every line is full"


def test_rows(board):
    rows = [p for p in board["panels"] if p["type"] == "row"]
    assert board["panels"][0]["type"] == "row" and len({r["title"] for r in rows}) == len(rows)
    assert all(bool(r["panels"]) == r["collapsed"] for r in rows)
    for row, after in zip(board["panels"], board["panels"][1:]):
        assert row["type"] != "row" or row["collapsed"] or after["type"] != "row", "an open row has panels"
    ordered = [(p["gridPos"]["y"], p["gridPos"]["x"]) for p in board["panels"]]
    assert ordered == sorted(ordered)


def test_every_panel_says_what_it_is(board):
    seen = set()
    for panel in grafana.panels(board):
        assert panel["type"] in TYPES and TYPES[panel["type"]] in panel["options"]
        assert panel["title"] not in seen, panel["title"]
        seen.add(panel["title"])
        assert len(panel["description"]) > 25 and "%" not in re.sub(r"\d+ %", "", panel["description"])
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["unit"] in UNITS and defaults["noValue"]
        steps = defaults["thresholds"]["steps"]
        assert steps[0]["value"] is None and [s["value"] for s in steps[1:]] == sorted(s["value"] for s in steps[1:])
        assert {s["color"] for s in steps} <= COLORS
        if panel["type"] == "timeseries":
            assert defaults["custom"]["spanNulls"] is False, "a gap is a gap"
        assert "min" not in defaults and "max" not in defaults, "nothing that is beyond is cut off"
        if panel["type"] == "stat" and len(panel["targets"]) > 1:
            assert panel["options"]["textMode"] == "value_and_name"


def test_every_query_is_whole(board):
    for panel in grafana.panels(board):
        assert [t["refId"] for t in panel["targets"]] == list("ABCDEF"[:len(panel["targets"])])
        for target in panel["targets"]:
            assert target["instant"] != target["range"] and target["datasource"] == panel["datasource"]
            assert target["range"] == (panel["type"] in ("timeseries", "state-timeline"))
            assert target["format"] == ("table" if panel["type"] == "table" else "time_series")
            assert target["legendFormat"] or panel["type"] == "table"
            assert "%" not in target["expr"] + target["legendFormat"] and "vector(" not in target["expr"]
            assert not re.search(r"\b(rate|irate)\([^)]*\[(?!\$__rate_interval\])", target["expr"])
            for labels in re.findall(r"\{(?!\{)([^}]*)\}", target["expr"]):
                assert 'cluster=~"$cluster"' in labels and 'instance=~"$node"' in labels and 'job=~"$scrape"' in labels


def test_a_series_of_gpus_is_named_by_its_gpu(board):
    """What is not added up over GPUs has the GPU in its legend, and that label in its result."""
    for panel in grafana.panels(board):
        for target in panel["targets"]:
            by = re.match(r"(?:60 \* )?\(?(?:max|avg|sum) by \(([^)]*)\)", target["expr"])
            if by and "gpu" in by[1].split(", ") and panel["type"] != "table":
                assert "{{gpu}}" in target["legendFormat"], panel["title"]
                assert "{{hostname}}{{Hostname}}" in target["legendFormat"], panel["title"]


def test_tables_have_the_columns_they_name(board):
    for panel in grafana.panels(board):
        if panel["type"] != "table":
            continue
        steps = {t["id"]: t["options"] for t in panel["transformations"]}
        assert ("merge" in steps) == (len(panel["targets"]) > 1)
        fields = steps["filterFieldsByName"]["include"]["names"]
        assert set(fields) == set(steps["organize"]["indexByName"]) == set(steps["organize"]["renameByName"])
        titles = list(steps["organize"]["renameByName"].values())
        assert len(set(titles)) == len(titles)
        assert {o["matcher"]["options"] for o in panel["fieldConfig"]["overrides"]} <= set(titles)
        for field in fields:
            value = re.fullmatch(r"Value( #([A-F]))?", field)
            if not value:
                assert any(re.search(rf"\b{field}\b", t["expr"]) for t in panel["targets"]) or not "by (" in panel["targets"][0]["expr"] or \
                    field in ("xid", "err_code", "err_msg"), field
            elif value[2]:
                assert len(panel["targets"]) > 1 or panel["title"] == "XIDs"
        for override in panel["fieldConfig"]["overrides"]:
            for prop in override["properties"]:
                assert prop["id"] != "unit" or prop["value"] in UNITS


def test_variables(board):
    known = grafana.variables(board)
    assert len(known) == len(board["templating"]["list"])
    used = {name for text in texts({k: v for k, v in board.items() if k != "templating"}) for name in re.findall(r"\$\{?(\w+)", text)}
    assert used - BUILT_IN - {"__all"} <= set(known)
    for name, variable in known.items():
        # a name of ours is used; those that only narrow the lists below are used by these
        assert name in used or any(f"${name}" in text for text in texts(board["templating"])), name
        if variable["type"] == "query":
            assert variable["refresh"] == 2 and variable["query"]["query"] == variable["definition"]
            later = re.findall(r"\$(\w+)", variable["definition"])
            before = list(known)[:list(known).index(name)]
            assert set(later) - BUILT_IN <= set(before), "a list depends on those before it"
            if variable["includeAll"]:
                assert variable["allValue"] == ".*", "also what has no such label"


def test_no_data_source_but_the_one_chosen(board, said):
    def sources(of):
        if isinstance(of, dict):
            if "datasource" in of:
                yield of["datasource"]
            of = of.values()
        if not isinstance(of, str):
            for inner in of if hasattr(of, "__iter__") else ():
                yield from sources(inner)

    assert all(s == {"type": "prometheus", "uid": "${datasource}"} for s in sources(board))
    name, names = next((n, m) for n in BOARDS for m in NAMES if board["uid"] == f"stoker-{'dcgm-' if m == 'dcgm' else ''}{n}")
    fixed = json.loads(said("grafana", name, "--names", names, "--datasource", "P1_x-9").stdout)
    assert all(s == {"type": "prometheus", "uid": "P1_x-9"} for s in sources(fixed))
    assert "datasource" not in grafana.variables(fixed) and "${datasource}" not in json.dumps(fixed)


def test_links_lead_to_dashboards_there_are(board, said):
    there = {f"stoker-{b}" for b in BOARDS} | {f"stoker-dcgm-{b}" for b in BOARDS}
    links = [text for text in texts(board) if text.startswith("/d/")]
    assert bool(links) == (not board["uid"].endswith("gpu"))
    for link in links:
        uid = re.match(r"/d/([\w-]+)\?", link)[1]
        assert uid in there and ("dcgm" in uid) == ("dcgm" in board["uid"])
        target = json.loads(said("grafana", "gpu").stdout)
        assert set(re.findall(r"var-(\w+)=", link)) <= set(grafana.variables(target))


def test_marks(board):
    assert board["annotations"]["list"]
    for mark in board["annotations"]["list"]:
        assert mark["enable"] and mark["expr"] and mark["titleFormat"] and mark["iconColor"] in COLORS and "$__" not in mark["expr"]


def test_names_of_dcgm_alone(said):
    for name in BOARDS:
        dcgm = said("grafana", name, "--names", "dcgm").stdout
        assert not re.search(r"stoker_\w+", dcgm)
        assert "stoker_" in said("grafana", name).stdout


# -- the command line -------------------------------------------------------------------------------------------------

def test_the_first_is_printed_where_none_is_named(said):
    assert said("grafana").stdout == said("grafana", BOARDS[0]).stdout


def test_list(said):
    lines = said("grafana", "--list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == BOARDS and all(len(line.split()) > 5 for line in lines)


@pytest.mark.parametrize("names", NAMES)
def test_all_as_files(said, tmp_path, names):
    done = said("grafana", "--names", names, "--all", tmp_path / "new" / "folder")
    files = [pathlib.Path(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and len(files) == len(BOARDS) and {f.parent for f in files} == {tmp_path / "new" / "folder"}
    for name, file in zip(BOARDS, files):
        assert file.read_text() == said("grafana", name, "--names", names).stdout
        assert json.loads(file.read_text())["uid"] == file.stem


def test_every_panel_is_used_and_absent_data_stays_absent():
    described = yaml.safe_load((REPO / "data/dashboards/panels.yaml").read_text())["panels"]
    boards = yaml.safe_load((REPO / "data/dashboards/boards.yaml").read_text())["boards"]
    assert set(described) == {key for b in boards.values() for s in b["sections"] for key in s["panels"]}
    for key, panel in described.items():
        assert (panel["kind"] == "table") == ("columns" in panel), key
        for query in panel["queries"]:
            assert ("both" in query) != bool({"stoker", "dcgm"} & set(query)), key
            assert "stoker_" not in query.get("both", "") + query.get("dcgm", ""), key


def test_a_metric_that_is_unknown_is_refused(tmp_path):
    panels = (REPO / "data/dashboards/panels.yaml").read_text()
    (tmp_path / "panels.yaml").write_text(panels.replace("DCGM_FI_DEV_FAN_SPEED", "DCGM_FI_DEV_FUN_SPEED"))
    done = subprocess.run([sys.executable, "-B", REPO / "data/dashboards/make.py", tmp_path, REPO / "src/model/metric.def",
                           REPO / "src/service/prometheus/own_metric.def", REPO / "data/dashboards/boards.yaml", tmp_path / "panels.yaml"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "DCGM_FI_DEV_FUN_SPEED" in done.stderr


def test_files_are_found_in_stoker_data(stoker, tmp_path):
    env = {"STOKER_DATA": str(tmp_path), "PATH": "/usr/bin"}
    done = subprocess.run([stoker, "dashboard", "counters"], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 3 and str(tmp_path / "dashboards/counters.csv") in done.stderr and done.stdout == ""
    (tmp_path / "dashboards").mkdir()
    (tmp_path / "dashboards/counters.csv").write_text("mine\n")
    assert subprocess.run([stoker, "dashboard", "counters"], capture_output=True, text=True, check=True, env=env).stdout == "mine\n"


def test_both_namings_can_be_installed_beside_each_other(said):
    models = [json.loads(said("grafana", b, "--names", n).stdout) for b in BOARDS for n in NAMES]
    assert len({m["uid"] for m in models}) == len({m["title"] for m in models}) == len(models)


def test_exported_labels(said):
    plain, exported = said("grafana", "job").stdout, said("grafana", "job", "--exported").stdout
    assert "exported_" not in plain
    assert 'exported_namespace=~\\"$namespace\\",exported_pod=~\\"$pod\\"' in exported and ',pod=~' not in exported
    assert "}, exported_pod)" in exported


@pytest.mark.parametrize("words, code, text", [
    (["grafana", "ceo"], 2, "there is no dashboard 'ceo': executive, cost, on-call"),
    (["grafana", "gpu", "job"], 2, "'job' too"),
    (["grafana", "gpu", "--list"], 2, "do not go together"),
    (["grafana", "--names", "influx"], 2, "--names"),
    (["grafana", "--datasource", "a b"], 2, "is not a uid"),
    (["grafana", "--datasource", "x" * 41], 2, "is not a uid"),
    (["grafana", "--all", "/proc/nowhere"], 3, "/proc/nowhere"),
    (["counters", "all"], 2, "takes no argument"),
    (["kibana"], 2, "kibana"),
])
def test_wrong_words(said, words, code, text):
    done = said(*words)
    assert done.returncode == code and text in done.stderr and done.stdout == "", done.stderr


@pytest.mark.parametrize("words", [["grafana"], ["counters"]])
def test_help_has_an_example(said, words):
    done = said(*words, "--help")
    assert done.returncode == 0 and "stoker dashboard " + words[0] in done.stdout and "xit" in done.stdout


# -- counters and documentation ---------------------------------------------------------------------------------------

def test_the_counters_have_all_that_queries_name(said):
    text = said("counters").stdout
    rows = {r[0]: r for r in csv.reader(io.StringIO(text)) if not r[0].startswith("#")}
    assert all(len(r) == 3 and r[1] in ("gauge", "counter", "label") and r[2] for r in rows.values())
    asked = {m for n in NAMES for b in BOARDS for p in grafana.panels(json.loads(said("grafana", b, "--names", n).stdout))
             for t in p["targets"] for m in re.findall(r"DCGM_\w+", t["expr"])}
    assert asked <= set(rows)


def test_what_is_not_on_by_default_is_said_in_the_panel(said):
    on = [line.split(",")[0] for line in said("counters").stdout.split("# And")[0].splitlines() if line.startswith("DCGM")]
    for name, names in itertools.product(BOARDS, NAMES):
        for panel in grafana.panels(json.loads(said("grafana", name, "--names", names).stdout)):
            asked = {m for t in panel["targets"] for m in re.findall(r"DCGM_\w+", t["expr"])}
            for metric in asked:
                assert (metric in panel["description"]) == (metric not in on), (panel["title"], metric)


def test_the_documentation_has_every_panel(build):
    page = (REPO / "docs/appendix/panels.md").read_text()
    made = (build / "data/dashboards/panels.md").read_text()
    assert page.split("<!-- build/data/dashboards/panels.md -->\n", 1)[1] == made, "the end of docs/appendix/panels.md is not the panels.md of the build"


def test_the_documentation_names_what_there_is(said):
    page = (REPO / "docs/dashboards.md").read_text()
    words = said("grafana", "--help").stdout
    for option in re.findall(r"--[a-z]+", words):
        assert option in page or option == "--help", option
    for variable in {v for b in BOARDS for v in grafana.variables(json.loads(said("grafana", b).stdout))}:
        assert f"`{variable}`" in page, variable
