#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Packs what Kubernetes takes: the Helm chart with the installed dashboards, rules and counters in it and a schema of its
values, and a kustomize folder with the components rules and dashboards. The same input gives the same bytes.

    manifests.py CHART_TGZ FOLDER DEPFILE HELM KUBERNETES COUNTERS RULES DASHBOARDS

HELM and KUBERNETES are the folders of the sources, COUNTERS a file, RULES and DASHBOARDS folders with what was built."""
import gzip
import io
import json
import pathlib
import shutil
import sys
import tarfile

import yaml

BOARDS = ["executive", "on-call", "debug", "gpu", "job"]
# Maps whose keys are Kubernetes' or the user's.
FREE = {"rollingUpdate", "podSecurityContext", "securityContext", "resources", "dashboards.labels", "startupProbe",
        "livenessProbe", "readinessProbe"}
TYPES = {bool: ["boolean"], int: ["integer"], str: ["string"], list: ["array"]}


def schema_of(value, path=""):
    if not isinstance(value, dict):
        return {"type": TYPES[type(value)] + ["null"]}
    if not value or path in FREE:
        return {"type": ["object", "null"]}
    known = {key: schema_of(below, f"{path}.{key}".lstrip(".")) for key, below in value.items()}
    if not path:
        known["global"] = {"type": "object"}  # of a chart that has this one in it
    return {"type": "object", "properties": known, "additionalProperties": False}


def chart_files(helm, counters, rules, dashboards):
    """{path in the chart: bytes}"""
    found = {str(p.relative_to(helm)): p.read_bytes() for p in helm.rglob("*") if p.is_file()}
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", **schema_of(yaml.safe_load(found["values.yaml"]))}
    found["values.schema.json"] = json.dumps(schema, indent=1).encode() + b"\n"
    found["files/default-counters.csv"] = counters.read_bytes()
    for name in ("stoker", "dcgm"):
        found[f"files/rules/{name}.yaml"] = (rules / f"{name}.yaml").read_bytes()
    for path in dashboards.glob("stoker-*.json"):
        found[f"files/dashboards/{path.name}"] = path.read_bytes()
    return found


def pack(files, top, path):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    path.write_bytes(gzip.compress(raw.getvalue(), mtime=0))


def write_component(folder, more):
    folder.mkdir()
    text = yaml.safe_dump({"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component", **more}, sort_keys=False)
    (folder / "kustomization.yaml").write_text("# SPDX-License-Identifier: Apache-2.0\n" + text)


def write_kubernetes(folder, sources, rules, dashboards):
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(sources, folder)
    write_component(folder / "rules", {"resources": ["prometheusrule.yaml"]})
    head = {"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
            "metadata": {"name": "stoker", "labels": {"app.kubernetes.io/name": "stoker"}}}
    text = "".join("  " + line for line in (rules / "stoker.yaml").read_text().splitlines(True))
    (folder / "rules/prometheusrule.yaml").write_text(yaml.safe_dump(head, sort_keys=False) + "spec:\n" + text)
    write_component(folder / "dashboards", {
        "generatorOptions": {"disableNameSuffixHash": True, "labels": {"grafana_dashboard": "1"}},
        "configMapGenerator": [{"name": f"stoker-dashboard-{b}", "files": [f"stoker-{b}.json"]} for b in BOARDS]})
    for board in BOARDS:
        shutil.copy(dashboards / f"stoker-{board}.json", folder / "dashboards")


def main(chart, folder, depfile, helm, kubernetes, counters, rules, dashboards):
    pack(chart_files(helm, counters, rules, dashboards), helm.name, chart)
    write_kubernetes(folder, kubernetes, rules, dashboards)
    sources = [str(p) for top in (helm, kubernetes) for p in sorted(top.rglob("*")) if p.is_file()]
    depfile.write_text(f"{chart}: {' '.join(sources)}\n")


main(*map(pathlib.Path, sys.argv[1:]))
