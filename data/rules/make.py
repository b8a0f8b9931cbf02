#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the fault catalogue as Prometheus' alerting rules, and promtool's test cases for them.

    make.py DIR RULES_YAML CATALOGUE_YAML...

DIR gets stoker.yaml and dcgm.yaml, by whose metrics the rules use, and their tests stoker-test.yaml and dcgm-test.yaml.
`stoker rules` prints these files. For it a line `# group NAME` begins each group's rules or tests, and a line
`# runbook CLASS` stands where the link to a runbook goes, if the user gives an address of the agents."""
import json
import math
import pathlib
import re
import sys

import yaml

GROUPS = ["stoker-incidents", "stoker-readings", "stoker-monitor"]
ABOUT = "# Made by stoker rules, for Prometheus 2.42 and later.\n"
HOST = "node-7"
OF_NODE = {"hostname": HOST}
OF_GPU = {"UUID": "GPU-3", "gpu": "3", "hostname": HOST, "pci_bus_id": "00000000:61:00.0"}
SUMMARY = "{{ if $labels.gpu }}GPU {{ $labels.gpu }} of {{ end }}{{ $labels.hostname }}: "
# A lost GPU may have no UUID, on each of many nodes; the label of the node depends on the profile, and may be left out.
SAME_GPU = "cluster, instance, hostname, Hostname, UUID, uuid, pci_bus_id"
UNNAMED = {"hostname": HOST, "pci_bus_id": "00000000:61:00.0"}
KEEP = "2m"  # a failed scrape or a restart of the agent does not end an alert
FIRE_MIN, OVER_MIN, LATEST_MIN = 12, 45, 55
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def seconds(text):
    return sum(float(n) * UNITS[unit] for n, unit in re.findall(r"([\d.]+)(ms|[smhdw])", text))


def number(value):
    """A parameter as PromQL has it; times are seconds."""
    if isinstance(value, str):
        value = seconds(value)
    return repr(value) if value != int(value) else str(int(value))


class Catalogue:
    """Classes and rules of data/faults. A rule has from its class what it does not say itself."""

    def __init__(self, paths):
        files = [yaml.safe_load(pathlib.Path(path).read_text(encoding="utf-8")) for path in paths]
        self.classes = {name: {**row, "id": name} for file in files for name, row in (file.get("classes") or {}).items()}
        self.rules = {name: row for file in files for name, row in (file.get("rules") or {}).items()}

    @staticmethod
    def alerts(row):
        return row.get("enabled", True) is not False and not row.get("observe") and row["route"] != "none"

    def rule(self, name):
        own = self.rules[name]
        fault = self.classes[own["class"]]
        return fault, {**{k: fault.get(k, "0s") for k in ("severity", "route", "cause", "for", "keep_firing_for")}, **own}


def alert(fault, group, name, **more):
    return {"group": group, "name": name, "class": fault["id"], "text": fault["text"], "advice": fault["advice"],
            "runbook": fault.get("runbook", ""), "labels": None, "for": "0s", "keep": "0s", "on": OF_GPU, "quiet": {}, **more}


def camel(front, name):
    return front + "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]", name))


def series(name, labels):
    return name + "{" + ",".join(f'{k}="{v}"' for k, v in labels.items()) + "}"


def incident_alerts(catalogue):
    """One alert per class, and one for the classes that a site adds: those have their own names in the label."""
    other = {"action": "none", "cause": "unknown", "class": "another", "route": "page", "severity": "fatal"}
    for fault in catalogue.classes.values():
        if not catalogue.alerts(fault):
            continue
        labels = {"action": fault["action"], "cause": fault["cause"], "class": fault["id"], "route": fault["route"],
                  "severity": fault["severity"]}
        on = OF_NODE if fault["scope"] in ("node", "fabric") else OF_GPU
        of = f'{{class="{fault["id"]}"'
        yield incident_alert(fault, camel("Stoker", fault["id"]), of, labels, other, on)
    known = "|".join(catalogue.classes)
    fault = {"id": "another", "text": "{{ $labels.class }}", "advice": "A class of faults of this site: 'stoker incidents' on the node shows it."}
    near = {**other, "class": next(iter(catalogue.classes))}
    yield incident_alert(fault, "StokerOther", f'{{class!~"{known}"', other, near, OF_GPU, runbook=None)


def incident_alert(fault, name, of, labels, near, on, **more):
    silenced = "stoker_incident_silenced" + (of + "}" if "!~" not in of else "")
    return alert(fault, "stoker-incidents", name, expr=f'stoker_incident_open{of},route!="none"}} unless {silenced}',
                 keep=KEEP, on=on, ends=True, sick={series("stoker_incident_open", labels): "1x20 _x100"}, sick_labels=labels,
                 quiet={series("stoker_incident_silenced", labels): "1x120"}, well={series("stoker_incident_open", near): "1x120"}, **more)


def fill(expr, params):
    def put(found):
        value = params[found[1]]
        return found[2] if found[2] and not value else number(value)
    return re.sub(r"%(\w+)(?:\|(\d+))?%", put, expr)


def reading_alerts(catalogue, rows, metrics):
    """Beside the incidents a reading fires only if none of its class is open on the GPU, so that nobody is alerted twice."""
    for row in rows:
        fault, rule = catalogue.rule(row["rule"])
        if row.get("metrics", metrics) != metrics or not catalogue.alerts({**fault, "route": rule["route"]}):
            continue
        expr, quiet = fill(row["expr"], rule.get("with", {})), {}
        if metrics == "stoker":
            expr = f'({expr}) unless on ({SAME_GPU}) stoker_incident_open{{class="{fault["id"]}"}}'
            quiet = {series("stoker_incident_open", {"class": fault["id"]}): "1x120"}
        yield alert(fault, "stoker-readings", camel("StokerReading", row["rule"]), expr=expr, text=rule["name"], keep=rule["keep_firing_for"],
                    labels={"severity": rule["severity"], "route": rule["route"], "class": fault["id"], "cause": rule["cause"]},
                    sick=row["sick"], well=row["well"], quiet=quiet, **{"for": rule["for"]})


def monitor_alerts(rows):
    for row in rows:
        fault = {"id": "monitor-blind", "text": row["text"], "advice": row["advice"]}
        yield alert(fault, "stoker-monitor", row["name"], expr=row["expr"], on=OF_NODE, sick=row["sick"], well=row["well"],
                    labels={"severity": "warning", "route": "ticket", "class": "monitor-blind", "cause": "host"},
                    **{"for": row.get("for", "0s")})


# --- YAML: texts are JSON strings, which YAML reads --------------------------------------------------------------------


def lines_of(indent, mapping):
    return "".join(f"{' ' * indent}{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in mapping.items())


def runbook(indent, one):
    if one["runbook"] is None:
        return ""
    return lines_of(indent, {"runbook_url": one["runbook"]}) if one["runbook"] else f"{' ' * indent}# runbook {one['class']}\n"


def rule(one):
    text = f"      - alert: {one['name']}\n" + lines_of(8, {"expr": one["expr"]})
    for key, span in (("for", one["for"]), ("keep_firing_for", one["keep"])):
        if seconds(span):
            text += f"        {key}: {span}\n"
    if one["labels"]:
        text += "        labels:\n" + lines_of(10, one["labels"])
    return text + "        annotations:\n" + lines_of(10, {"summary": SUMMARY + one["text"], "description": one["advice"]}) + runbook(10, one)


def input_series(one, *sets):
    text = ""
    for name, values in ((name, values) for of in sets for name, values in of.items()):
        metric, _, labels = name.partition("{")
        own = series("", one["on"])[1:-1]
        text += lines_of(6, {"- series": f"{metric}{{{own}{',' + labels[:-1] if labels else ''}}}"}) + f"        values: '{values}'\n"
    return text


def expected(one):
    said = one["text"].replace("{{ $labels.class }}", "another")
    first = dict(re.findall(r'(\w+)="([^"]*)"', next(iter(one["sick"]))))
    labels = {**one["on"], **{k: v for k, v in first.items() if not one["labels"] or k not in one["labels"]}, **(one["labels"] or {})}
    of = "GPU 3 of " if "gpu" in one["on"] else ""
    return ("        exp_alerts:\n          - exp_labels:\n" + lines_of(14, labels) + "            exp_annotations:\n"
            + lines_of(14, {"summary": f"{of}{HOST}: {said}", "description": one["advice"]}) + runbook(14, one))


def tests(one):
    """It fires, and ends; it is silent beside what silences it; it is silent near its limit."""
    fires = FIRE_MIN + math.ceil(seconds(one["for"]) / 60)

    def look(minute, text):
        return f"      - eval_time: {minute}m\n        alertname: {one['name']}\n" + (text or "        exp_alerts: []\n")

    def test(what, *looks_at, looks, of=one, beside=""):
        name = f"{one['name']}: {what}".replace("'", "''")
        return f"  - interval: 1m\n    name: '{name}'\n    input_series:\n" + input_series(of, *looks_at) + beside + \
            "    alert_rule_test:\n" + "".join(looks)

    text = ""
    if fires < LATEST_MIN:
        text += test("it fires", one["sick"], looks=[look(fires, expected(one))] + ([look(OVER_MIN, "")] if one.get("ends") else []))
    if one["quiet"]:
        text += test("silent when it is reported already, or in maintenance", one["sick"], one["quiet"], looks=[look(fires, "")])
    if one["quiet"] and one["group"] == "stoker-readings" and fires < LATEST_MIN:
        mine, theirs = {**one, "on": UNNAMED}, {**one, "on": {**UNNAMED, "hostname": "node-8"}}
        text += test("another node's incident is none of this one", one["sick"], looks=[look(fires, expected(mine))], of=mine,
                     beside=input_series(theirs, one["quiet"]))
    return text + test("silent near its limit", one["well"], looks=[look(fires, "")])


def grouped(alerts, head, write):
    return "".join(f"  # group {group}\n" + head(group) + "".join(write(one) for one in alerts if one["group"] == group)
                   for group in GROUPS if any(one["group"] == group for one in alerts))


def main():
    folder, rows, *paths = sys.argv[1:]
    catalogue, described = Catalogue(paths), yaml.safe_load(pathlib.Path(rows).read_text(encoding="utf-8"))
    stoker = [*incident_alerts(catalogue), *reading_alerts(catalogue, described["readings"], "stoker"), *monitor_alerts(described["monitor"])]
    dcgm = list(reading_alerts(catalogue, described["readings"], "dcgm"))
    for name, alerts in (("stoker", stoker), ("dcgm", dcgm)):
        rules = ABOUT + "groups:\n" + grouped(alerts, lambda group: f"  - name: {group}\n    rules:\n", rule)
        cases = ("# Tests of stoker-rules.yaml: promtool test rules FILE\nrule_files:\n  - stoker-rules.yaml\nevaluation_interval: 1m\ntests:\n"
                 + grouped(alerts, lambda group: "", tests))
        pathlib.Path(folder, f"{name}.yaml").write_text(rules, encoding="utf-8")
        pathlib.Path(folder, f"{name}-test.yaml").write_text(cases, encoding="utf-8")


if __name__ == "__main__":
    main()
