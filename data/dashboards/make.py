#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the Grafana dashboards as JSON models of schema version 39 (Grafana 10 and later).

    make.py DIR METRIC_DEF OWN_METRIC_DEF BOARDS_YAML PANELS_YAML

DIR gets for each dashboard and naming (stoker, dcgm) stoker-NAME.json or stoker-dcgm-NAME.json, and the same as
....exported.json, where the labels of pods are called exported_pod and exported_namespace (a scrape without
honor_labels). Further list.txt (names and texts), panels.md (every panel, for docs/appendix/panels.md) and counters.csv (the
metrics that panels need). `stoker dashboard` prints these files. Elements of lists stand on lines of their own: the
program drops the line of the data source's variable if the user names a data source."""
import json
import pathlib
import re
import sys

import yaml

NAMINGS = {"stoker": "stoker-", "dcgm": "stoker-dcgm-"}
KINDS = {"stat": "stat", "time": "timeseries", "stack": "timeseries", "bars": "bargauge", "table": "table", "states": "state-timeline"}
OVER_TIME = ("time", "stack", "states")
WIDTHS = {"stat": 4, "time": 12, "stack": 12, "bars": 8, "table": 24, "states": 24}
GRID = 24
COLUMNS = {
    "gpu": [["hostname", "Node"], ["Hostname", "Node "], ["instance", "Instance"], ["gpu", "GPU"]],
    "owner": [["%namespace%", "Namespace"], ["%pod%", "Pod"], ["hpc_job", "Job"]],
}

MATCH_NODE = 'cluster=~"$cluster",job=~"$scrape",instance=~"$node"'
MATCH_WORK = 'hpc_job=~"$job",%namespace%=~"$namespace",%pod%=~"$pod"'
MATCH = {
    "nodes": MATCH_NODE,
    "gpus": MATCH_NODE + ',gpu=~"$gpu"',
    "gpu": MATCH_NODE + ',gpu=~"$gpu"',
    "work": MATCH_NODE + "," + MATCH_WORK,
}
# With our own names work is found by its owner's series, so that jobs need no labels on each metric: OF_WORK marks a selector.
OF_WORK = ',of="work"'
SELECTED = re.compile(r'(\w+)\((\w+)\{([^{}]*?),of="work"([^{}]*)\}(\[[^\[\]]*\])\)|(\w+)\{([^{}]*?),of="work"([^{}]*)\}')
OWNED = "group by (%at%) (stoker_owner_share{" + MATCH_NODE + "," + MATCH_WORK + "})"
# Of the two spellings of the host's label a series has at most one; the other is empty.
WORDS = {
    "node": MATCH_NODE,
    "by": "cluster, instance, hostname, Hostname, gpu",
    "inst": "%by%, GPU_I_ID, GPU_I_PROFILE",
    "owner": "%namespace%, %pod%, hpc_job",
    "name": "{{hostname}}{{Hostname}} GPU {{gpu}}",
    "mig": "%name% {{GPU_I_PROFILE}} {{GPU_I_ID}}",
    "host": "{{hostname}}{{Hostname}} ({{instance}})",
}
OF_METRIC = {
    "board": "max by (%by%) (@{%gpu%})",
    "instance": "max by (%inst%) (@{%gpu%})",
    "rate": "max by (%by%) (rate(@{%gpu%}[$__rate_interval]))",
    "limited": "avg(%slowed_by @%)",
}
SLOWED_BY = {"stoker": "%rate DCGM_FI_DEV_CLOCKS_EVENT_REASON_@_NS%", "dcgm": "%rate DCGM_FI_DEV_CLOCKS_EVENT_REASON_@_NS% / 1e9"}

METRIC = re.compile(r'^METRIC\((\w+),\s*\d+,\s*"(\w+)",\s*(\w+),.*?\b(ON|OFF),.*?"([^"]*)"\)$', re.M | re.S)
OWN_METRIC = re.compile(r'^OWN_METRIC\((\w+), "(\w+)"\)$', re.M)
TYPES = {"GAUGE": "gauge", "COUNTER": "counter", "LABEL": "label", "GAUGE_WAS_COUNTER": "counter"}


def read_metrics(path, own_path):
    """{name: (type of the CSV, on by default, help)} in the order of the table; GAUGE_WAS_COUNTER is a counter in the CSV. And
    {name: our own name of it}, which is exported whatever list of counters there is."""
    rows = METRIC.findall(pathlib.Path(path).read_text(encoding="utf-8"))
    names = {key: name for key, name, *_ in rows}
    own = OWN_METRIC.findall(pathlib.Path(own_path).read_text(encoding="utf-8"))
    return {name: (TYPES[kind], on == "ON", text) for _, name, kind, on, text in rows}, {names[key]: name for key, name in own}


class Maker:
    """One dashboard under one naming."""

    def __init__(self, made, board, naming, exported):
        self.made, self.board, self.naming, self.exported = made, board, naming, exported
        self.scope = board["scope"]
        before = "exported_" if exported else ""
        self.by_owner = naming == "stoker" and self.scope == "work"
        self.words = {**WORDS, **made.words, "gpu": MATCH_NODE + OF_WORK if self.by_owner else MATCH[self.scope], "namespace": before + "namespace",
                      "pod": before + "pod"}
        self.source = {"type": "prometheus", "uid": "${datasource}"}
        self.next_id = 1

    def expand(self, text):
        def put(found):
            word, metric = found[1], found[2]
            of = SLOWED_BY[self.naming] if word == "slowed_by" else OF_METRIC.get(word)
            return self.expand(of.replace("@", metric) if metric else self.words[word])
        return re.sub(r"%(\w+)(?: (\w+))?%", put, text)

    def expression(self, text):
        """A query as Prometheus reads it: with our own names of metrics that are off by default, and of the work's devices alone."""
        text = self.expand(text)
        if self.naming == "stoker":
            text = re.sub(r"\bDCGM_\w+", lambda found: self.made.own.get(found[0], found[0]), text)
        return SELECTED.sub(self.select_owned, text)

    def select_owned(self, found):
        function, metric, before, after, span, plain, plain_before, plain_after = found.groups()
        selected = f"{function}({metric}{{{before}{after}}}{span})" if function else f"{plain}{{{plain_before}{plain_after}}}"
        of_device = (metric or plain).startswith("DCGM_") or (metric or plain) in self.made.of_device
        owned = OWNED.replace("%at%", "cluster, instance, gpu" + (", GPU_I_ID" if of_device else ""))
        return f"({selected} and on (cluster, instance, gpu{', GPU_I_ID' if of_device else ''}) {self.expand(owned)})"

    def queries(self, panel):
        """[(expression, legend)] that the panel has here."""
        return queries_of(panel, self.board, self.naming)

    # --- one panel ---

    def target(self, i, panel, query, legend):
        over = panel["kind"] in OVER_TIME
        return {"refId": "ABCDEF"[i], "datasource": self.source, "editorMode": "code", "expr": self.expression(query),
                "legendFormat": self.expand(legend), "instant": not over, "range": over,
                "format": "table" if panel["kind"] == "table" else "time_series"}

    def description(self, panel):
        needs = self.made.needs((q for q, _ in self.queries(panel)), self.naming)
        if not needs:
            return panel["text"]
        return f"{panel['text']}\n\nNeeds {', '.join(needs)}, not on by default: `stoker dashboard counters` prints a list with it."

    def link_to_gpu(self, node, gpu):
        return [{"title": "This GPU", "url": f"/d/{NAMINGS[self.naming]}gpu?var-node={node}&var-gpu={gpu}"
                                             "&var-datasource=${datasource}&${__url_time_range}"}]

    def column_properties(self, panel, field, unit):
        look = self.made.looks.get(panel.get("look"))
        made = [{"id": "unit", "value": unit}] if unit else []
        if field == "Value" and look:
            made += [{"id": "thresholds", "value": thresholds(look)}, {"id": "mappings", "value": mappings(look)},
                     {"id": "color", "value": {"mode": "thresholds"}},
                     {"id": "custom.cellOptions", "value": {"type": "color-background"}}]
        if field == "gpu" and self.scope != "gpu":
            made.append({"id": "links", "value": self.link_to_gpu("${__data.fields.Instance}", "${__data.fields.GPU}")})
        return made

    def overrides(self, panel):
        made = [(title, self.column_properties(panel, field, unit)) for field, title, unit in columns_of(panel)]
        return [{"matcher": {"id": "byName", "options": title}, "properties": p} for title, p in made if p]

    def transformations(self, panel, count):
        """One row per thing; only the columns of the table, in its order and under its titles."""
        columns = [(self.expand(field), title) for field, title, _ in columns_of(panel)]
        return ([{"id": "merge", "options": {}}] if count > 1 else []) + [
            {"id": "filterFieldsByName", "options": {"include": {"names": [f for f, _ in columns]}}},
            {"id": "organize", "options": {"excludeByName": {}, "indexByName": {f: i for i, (f, _) in enumerate(columns)},
                                           "renameByName": dict(columns)}}]

    def field_config(self, panel):
        look = None if panel["kind"] == "table" else self.made.looks.get(panel.get("look"))
        defaults = {"unit": panel.get("unit", "none"), "noValue": panel.get("empty", "no data"), "thresholds": thresholds(look),
                    "mappings": mappings(look), "color": color(panel), "custom": custom(panel)}
        legend = self.queries(panel)[0][1]
        if self.scope != "gpu" and panel["kind"] in OVER_TIME and ("%name%" in legend or "%mig%" in legend):
            defaults["links"] = self.link_to_gpu("${__field.labels.instance}", "${__field.labels.gpu}")
        return {"defaults": defaults, "overrides": self.overrides(panel)}

    def panel(self, panel, place):
        queries = self.queries(panel)
        made = {"id": self.take_id(), "type": KINDS[panel["kind"]], "title": panel["title"], "description": self.description(panel),
                "datasource": self.source, "gridPos": place,
                "targets": [self.target(i, panel, *query) for i, query in enumerate(queries)],
                "fieldConfig": self.field_config(panel), "options": options_of(panel, len(queries))}
        if panel["kind"] == "table":
            made["transformations"] = self.transformations(panel, len(queries))
        return made

    # --- sections ---

    def take_id(self):
        self.next_id += 1
        return self.next_id - 1

    def sections(self):
        """A section without a panel is left out. Panels of a folded one lie in its row and take no room."""
        made, y = [], 0
        for section in self.board["sections"]:
            panels = [p for p in (self.made.panels[key] for key in section["panels"]) if self.queries(p)]
            if not panels:
                continue
            places, below = lay_out(panels, y + 1)
            folded = section.get("folded", False)
            row = {"id": self.take_id(), "type": "row", "title": section["title"], "collapsed": folded,
                   "gridPos": {"h": 1, "w": GRID, "x": 0, "y": y}, "panels": []}
            inner = [self.panel(*pair) for pair in zip(panels, places)]
            row["panels"] = inner if folded else []
            made += [row] + ([] if folded else inner)
            y = y + 1 if folded else below
        return made

    # --- variables and annotations ---

    def variable(self, name, label, query, many=True, sort=1, regex=""):
        """Asked for again whenever the time range changes, so that nodes of that time are found."""
        kind = 3 if query.startswith("query_result") else 1
        made = {"type": "query", "name": name, "label": label, "datasource": self.source, "definition": query,
                "query": {"qryType": kind, "query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"}, "regex": regex,
                "refresh": 2, "sort": sort, "hide": 0, "includeAll": many, "multi": many, "skipUrlSync": False, "options": [],
                "current": {"selected": True, "text": ["All"], "value": ["$__all"]} if many else {}}
        if many:
            made["allValue"] = ".*"
        return made

    def variables(self):
        """A node is shown by its host's name, if its series have one, and identified by its instance."""
        anchor = "stoker_gpu_up" if self.naming == "stoker" else "DCGM_FI_DEV_GPU_TEMP"
        owned = "stoker_owner_share" if self.by_owner else "DCGM_FI_DEV_FB_USED" if self.scope == "work" else anchor
        one, at = self.scope == "gpu", 'cluster=~"$cluster",job=~"$scrape"'
        here, pod, namespace = at + ',instance=~"$node"', self.words["pod"], self.words["namespace"]
        made = [
            {"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus", "regex": "", "current": {},
             "options": [], "refresh": 1, "hide": 0, "includeAll": False, "multi": False, "skipUrlSync": False},
            self.variable("cluster", "Cluster", f"label_values({anchor}, cluster)"),
            self.variable("scrape", "Scrape job", f'label_values({anchor}{{cluster=~"$cluster"}}, job)'),
            self.variable("node", "Node", f"query_result(count by (instance, hostname, Hostname) (last_over_time({anchor}{{{at}}}[$__range])))",
                          not one, regex='/[Hh]ostname="(?<text>[^"]+)|instance="(?<value>[^"]+)/g'),
        ]
        if self.scope in ("gpus", "gpu"):
            made.append(self.variable("gpu", "GPU", f"label_values({anchor}{{{here}}}, gpu)", not one, sort=3))
        if self.scope == "work":
            made += [self.variable("job", "Job", f"label_values({owned}{{{here}}}, hpc_job)", sort=3),
                     self.variable("namespace", "Namespace", f"label_values({owned}{{{here}}}, {namespace})"),
                     self.variable("pod", "Pod", f'label_values({owned}{{{here},{namespace}=~"$namespace"}}, {pod})')]
        if self.board.get("priced"):
            one = {"text": "1", "value": "1"}
            made.append({"type": "textbox", "name": "price", "label": "Price of a GPU hour", "query": "1", "current": one,
                         "options": [{"selected": True, **one}], "hide": 0, "skipUrlSync": False})
        return made

    def annotations(self):
        """Series that last are drawn as regions. Incidents have no owner: those of the work's GPUs are shown."""
        def mark(name, color_name, expr, title, text, tags):
            return {"name": name, "enable": True, "hide": False, "iconColor": color_name, "datasource": self.source,
                    "expr": self.expression(expr), "titleFormat": title, "textFormat": self.expand(text), "tagKeys": tags,
                    "useValueForTime": False}
        if self.naming == "stoker":
            where = "%node%" if self.scope == "work" else "%gpu%"
            owned = " and on (%by%) max by (%by%) (DCGM_FI_DEV_FB_USED{%gpu%})" if self.scope == "work" else ""
            return [mark("Incidents", "red", f'max by (%by%, class, severity, action) (stoker_incident_open{{{where},severity!="info"}})' + owned,
                         "{{class}}", "%name%: {{severity}}, {{action}}", "severity,class"),
                    mark("Maintenance", "blue", "max by (instance, hostname, Hostname, gpu, id) (stoker_maintenance_active{%node%})",
                         "maintenance {{id}}", "%name%", "id")]
        xid = "max by (%by%, err_code, err_msg) (DCGM_FI_DEV_XID_ERRORS{%gpu%}"
        return [mark("New XIDs", "red", f"{xid}) > 0 unless {xid} offset 5m) > 0", "XID {{err_code}}", "%name%: {{err_msg}}", "err_code"),
                mark("Alerts", "orange", 'max by (%by%, alertname, severity) (ALERTS{%gpu%,alertstate="firing"})', "{{alertname}}",
                     "%name%: {{severity}}", "severity,alertname")]

    def model(self):
        dcgm = self.naming == "dcgm"
        return {
            "id": None, "uid": NAMINGS[self.naming] + self.board["name"], "title": self.board["title"] + (" (DCGM)" if dcgm else ""),
            "description": self.board["text"], "tags": [NAMINGS[self.naming].rstrip("-")], "schemaVersion": 39, "version": 1,
            "editable": True, "graphTooltip": 1, "liveNow": False, "timezone": "browser", "refresh": self.board["refresh"],
            "time": {"from": self.board["from"], "to": "now"}, "timepicker": {},
            "links": [{"type": "dashboards", "title": "Stoker", "tags": [NAMINGS[self.naming].rstrip("-")], "asDropdown": True,
                       "includeVars": True, "keepTime": True, "targetBlank": False, "icon": "external link", "tooltip": "", "url": ""}],
            "templating": {"list": self.variables()}, "annotations": {"list": self.annotations()}, "panels": self.sections()}


def queries_of(panel, board, naming):
    found = []
    for query in panel["queries"]:
        of_work = naming == "stoker" and board["scope"] == "work"
        text = query.get("both") or (query.get("work") if of_work else None) or query.get(naming)
        if text:
            found.append((text, query.get("legend", "")))
    return found


def columns_of(panel):
    """(field, title, unit or None) of a table."""
    for column in panel.get("columns", ()):
        for field, title, *unit in COLUMNS[column] if isinstance(column, str) else [column]:
            yield field, title, unit[0] if unit else None


def thresholds(look):
    steps = [{"color": look["base"] if look else "text", "value": None}]
    return {"mode": "absolute", "steps": steps + [{"color": c, "value": v} for v, c in (look["steps"] if look else ())]}


def mappings(look):
    words = {str(v): {"text": text, "color": c, "index": i} for i, (v, text, c) in enumerate((look or {}).get("values", ()))}
    return [{"type": "value", "options": words}] if words else []


def color(panel):
    if panel["kind"] in ("time", "stack") or (panel["kind"] == "bars" and "look" not in panel):
        return {"mode": "palette-classic"}
    if "look" in panel and panel["kind"] != "table":
        return {"mode": "thresholds"}
    return {"mode": "fixed", "fixedColor": "text"}


def custom(panel):
    kind, unit, stack = panel["kind"], panel.get("unit"), panel["kind"] == "stack"
    if kind == "states":
        return {"fillOpacity": 80, "lineWidth": 0}
    if kind == "table":
        return {"align": "auto", "filterable": True, "cellOptions": {"type": "auto"}}
    if kind not in OVER_TIME:
        return {}
    drawn = {"drawStyle": "line", "lineInterpolation": "linear", "lineWidth": 1, "fillOpacity": 40 if stack else 0,
             "showPoints": "auto", "spanNulls": False, "stacking": {"mode": "normal" if stack else "none", "group": "A"},
             "thresholdsStyle": {"mode": "dashed" if "look" in panel else "off"}}
    # soft limits: values beyond are shown
    if unit != "celsius":
        drawn["axisSoftMin"] = 0
    if unit == "percentunit":
        drawn["axisSoftMax"] = 1
    return drawn


def options_of(panel, count):
    now = {"calcs": ["lastNotNull"], "fields": "", "values": False}  # an instant query has one value
    made = {
        "stat": {"colorMode": "value" if "look" in panel else "none", "graphMode": "none", "justifyMode": "auto", "orientation": "auto",
                 "textMode": "value_and_name" if count > 1 else "value", "reduceOptions": now},
        "bars": {"displayMode": "basic", "orientation": "horizontal", "valueMode": "color", "reduceOptions": now},
        "table": {"showHeader": True, "cellHeight": "sm"},
        "states": {"mergeValues": True, "rowHeight": 0.8, "showValue": "auto",
                   "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True}},
    }
    return made.get(panel["kind"], {
        "legend": {"displayMode": "table", "placement": "bottom", "showLegend": True, "calcs": ["min", "mean", "max"]},
        "tooltip": {"mode": "multi", "sort": "desc"}})


def lay_out(panels, y):
    """Places from left to right in lines of panels of one height, each line widened to fill the grid; and the next y."""
    places = []
    while len(places) < len(panels):
        line, height, width = [], None, 0
        for panel in panels[len(places):]:
            of = 4 if panel["kind"] == "stat" else 8
            width += panel.get("width", WIDTHS[panel["kind"]])
            if width > GRID or height not in (None, of):
                break
            height = of
            line.append(panel.get("width", WIDTHS[panel["kind"]]))
        left, x = GRID - sum(line), 0
        for i, own in enumerate(line):
            more = left // (len(line) - i)
            left -= more
            places.append({"h": height, "w": own + more, "x": x, "y": y})
            x += own + more
        y += height
    return places, y


class Made:
    """What all dashboards are made from."""

    def __init__(self, metric_def, own_metric_def, boards, panels):
        self.metrics, self.own = read_metrics(metric_def, own_metric_def)
        self.of_device = {*self.own.values(), *(name for name in self.metrics if name.startswith("stoker_"))}  # with the labels of MIG instances
        described = yaml.safe_load(pathlib.Path(panels).read_text(encoding="utf-8"))
        self.words, self.looks, self.panels = described["words"], described["looks"], described["panels"]
        self.boards = [{"name": name, **row} for name, row in yaml.safe_load(pathlib.Path(boards).read_text(encoding="utf-8"))["boards"].items()]

    def named(self, texts):
        """Metrics that queries name, the words' own included."""
        found = set()
        for text in texts:
            for cause in re.findall(r"%(?:limited|slowed_by) (\w+)%", text):
                found.add(f"DCGM_FI_DEV_CLOCKS_EVENT_REASON_{cause}_NS")
            found |= set(re.findall(r"DCGM_\w+", text))
            found |= self.named(self.words[w] for w in re.findall(r"%(\w+)%", text) if w in self.words)
        if found - self.metrics.keys():
            sys.exit(f"metric.def has no {', '.join(sorted(found - self.metrics.keys()))}")
        return found

    def needs(self, queries, naming):
        named = self.named(queries)
        return [name for name, (_, on, _) in self.metrics.items() if name in named and not on and not (naming == "stoker" and name in self.own)]

    def counters(self):
        """Go's encoding/csv reads it: a help with a comma stands in quotes."""
        named = self.named(q[k] for p in self.panels.values() for q in p["queries"] for k in ("both", "stoker", "dcgm") if k in q)

        def rows(wanted):
            for name, (kind, on, text) in self.metrics.items():
                if wanted(name, on):
                    yield f'{name},{kind},"{text}"\n' if "," in text else f"{name},{kind},{text}\n"
        return ("# What the dashboards of stoker dashboard need: name, type, help. First the rows that are on anyway.\n"
                + "".join(rows(lambda name, on: on and name.startswith("DCGM_"))) + "# And those that are not.\n"
                + "".join(rows(lambda name, on: not on and name in named)))

    def markdown(self):
        parts = []
        for board in self.boards:
            lines = [f"### `{board['name']}`: {board['title']}\n\n{board['text']}\n\n| panel | names | what it says | needs also, with the names of dcgm-exporter |\n|---|---|---|---|\n"]
            for panel in (self.panels[key] for section in board["sections"] for key in section["panels"]):
                queries = {naming: queries_of(panel, board, naming) for naming in NAMINGS}
                names = "both" if all(queries.values()) else "stoker" if queries["stoker"] else "dcgm"
                needs = self.needs((q for q, _ in queries["dcgm"]), "dcgm")
                lines.append(f"| {panel['title']} | {names} | {panel['text']} | {', '.join(needs)} |\n")
            parts.append("".join(lines))
        return "\n".join(parts)


def one_per_line(model):
    """The model as JSON, elements of the top's lists on lines of their own."""
    def value(of):
        if isinstance(of, list):
            return "[\n" + ",\n".join(json.dumps(v, ensure_ascii=False) for v in of) + "\n]"
        if isinstance(of, dict) and "list" in of:
            return '{"list": ' + value(of["list"]) + "}"
        return json.dumps(of, ensure_ascii=False)
    return "{\n" + ",\n".join(f"{json.dumps(k)}: {value(v)}" for k, v in model.items()) + "\n}\n"


def main():
    folder, *sources = sys.argv[1:]
    made, folder = Made(*sources), pathlib.Path(folder)
    files = {"list.txt": "".join(f"{b['name']:<10} {b['text']}\n" for b in made.boards), "panels.md": made.markdown(),
             "counters.csv": made.counters()}
    for board in made.boards:
        for naming, front in NAMINGS.items():
            for exported, end in ((False, ".json"), (True, ".exported.json")):
                files[f"{front}{board['name']}{end}"] = one_per_line(Maker(made, board, naming, exported).model())
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
