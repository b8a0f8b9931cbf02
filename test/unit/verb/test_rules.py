# SPDX-License-Identifier: Apache-2.0
"""`stoker rules`: what it prints, and what Prometheus' own promtool says of it."""
import re
import subprocess

import pytest
import yaml


@pytest.fixture(scope="session")
def promtool(fetched):
    path = fetched("prometheus") / "usr/bin/promtool"
    return lambda *words, **more: subprocess.run([path, *map(str, words)], capture_output=True, text=True, check=False,
                                                 timeout=1800, **more)


@pytest.fixture
def rules(stoker):
    return lambda *words: subprocess.run([stoker, "rules", *map(str, words)], capture_output=True, text=True, check=False,
                                         timeout=1800)


@pytest.fixture
def classes(stoker):
    out = subprocess.run([stoker, "xid", "--list", "--markdown"], capture_output=True, text=True, check=True).stdout
    return {row.split("|")[1].strip(" `"): row.split("|")[7].strip() for row in out.splitlines() if row.startswith("| `")}


def names(text, group=None):
    return [r["alert"] for g in yaml.safe_load(text)["groups"] if group in (None, g["name"]) for r in g["rules"]]


def test_an_alert_for_each_class_that_somebody_is_told_of(rules, classes):
    done = rules("--group", "stoker-incidents")
    assert done.returncode == 0
    found = [re.search(r'class="([a-z0-9-]+)"', r["expr"]) for g in yaml.safe_load(done.stdout)["groups"] for r in g["rules"]]
    assert {m[1] for m in found if m} == {name for name, route in classes.items() if route != "none"}
    assert len(set(names(done.stdout))) == len(found)


def test_one_alert_for_the_classes_that_a_site_adds(rules, classes):
    other, = (r["expr"] for g in yaml.safe_load(rules().stdout)["groups"] for r in g["rules"] if r["alert"] == "StokerOther")
    assert set(re.search(r'class!~"([^"]*)"', other)[1].split("|")) == set(classes)


def test_groups(rules):
    everything = rules().stdout
    assert [g["name"] for g in yaml.safe_load(everything)["groups"]] == ["stoker-incidents", "stoker-readings",
                                                                         "stoker-monitor"]
    assert len(set(names(everything))) == len(names(everything))
    dcgm = rules("--metrics", "dcgm").stdout
    assert [g["name"] for g in yaml.safe_load(dcgm)["groups"]] == ["stoker-readings"]
    assert "stoker_" not in dcgm


def test_two_nodes_are_never_one(rules):
    """Lost GPUs of two nodes may both lack a UUID."""
    matches = [m for r in re.findall(r"on \(([^)]*)\)", rules().stdout) for m in [{word.strip() for word in r.split(",")}]]
    assert matches and all({"instance", "hostname", "Hostname", "UUID", "pci_bus_id"} <= m for m in matches), matches


@pytest.mark.parametrize("words, said", [
    (["--group", "mine"], "no group 'mine'"),
    (["--metrics", "dcgm", "--group", "stoker-monitor"], "no group 'stoker-monitor' with --metrics dcgm"),
    (["--metrics", "influx"], "--metrics"),
    (["gpu"], "takes no argument"),
])
def test_wrong_words(rules, words, said):
    done = rules(*words)
    assert done.returncode in (2, 3) and said in done.stderr and done.stdout == ""


def test_files_that_cannot_be_written(rules, tmp_path):
    (tmp_path / "file").write_text("")
    done = rules("--tests", tmp_path / "file")
    assert done.returncode == 3 and str(tmp_path / "file") in done.stderr


@pytest.mark.slow("promtool")
@pytest.mark.parametrize("metrics", ["stoker", "dcgm"])
def test_promtool_has_nothing_to_say(rules, promtool, tmp_path, metrics):
    printed = rules("--metrics", metrics, "--tests", tmp_path / "out")
    assert printed.returncode == 0
    assert (tmp_path / "out" / "stoker-rules.yaml").read_text() == printed.stdout
    done = promtool("check", "rules", tmp_path / "out" / "stoker-rules.yaml")
    assert done.returncode == 0 and "SUCCESS" in done.stdout, done.stdout + done.stderr
    assert "duplicate" not in (done.stdout + done.stderr).lower()
    done = promtool("test", "rules", "stoker-rules-test.yaml", cwd=tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow("promtool")
def test_the_tests_can_fail(rules, promtool, tmp_path):
    rules("--group", "stoker-monitor", "--tests", tmp_path)
    path = tmp_path / "stoker-rules.yaml"
    path.write_text(path.read_text().replace("stoker_journal_up == 0", "stoker_journal_up == 2"))
    done = promtool("test", "rules", "stoker-rules-test.yaml", cwd=tmp_path)
    assert done.returncode != 0 and "StokerJournalDown" in done.stdout + done.stderr


@pytest.mark.slow("promtool")
def test_links_to_the_agents_runbooks(rules, promtool, tmp_path):
    assert "runbook" not in rules().stdout
    at = ("--external-url", "http://{hostname}:9400")
    links = {r["alert"]: (re.search(r'class="([a-z0-9-]+)"', r["expr"]), r.get("labels", {}).get("class"), r["annotations"].get("runbook_url"))
             for g in yaml.safe_load(rules(*at).stdout)["groups"] for r in g["rules"]}
    assert links.pop("StokerOther")[2] is None and links["StokerGpuLost"][2] == "http://{{ $labels.hostname }}:9400/runbooks/gpu-lost"
    assert all(link == f"http://{{{{ $labels.hostname }}}}:9400/runbooks/{label or found[1]}" for found, label, link in links.values())
    rules("--group", "stoker-monitor", *at, "--tests", tmp_path / "out")
    assert "runbook_url: \"http://node-7:9400/runbooks/monitor-blind\"" in (tmp_path / "out/stoker-rules-test.yaml").read_text()
    tested = promtool("test", "rules", tmp_path / "out/stoker-rules-test.yaml")
    assert tested.returncode == 0, tested.stdout + tested.stderr
