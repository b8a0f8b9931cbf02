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
                                                 timeout=300, **more)


@pytest.fixture
def rules(stoker):
    return lambda *words: subprocess.run([stoker, "rules", *map(str, words)], capture_output=True, text=True, check=False,
                                         timeout=60)


@pytest.fixture
def classes(stoker):
    out = subprocess.run([stoker, "xid", "--list", "--markdown"], capture_output=True, text=True, check=True).stdout
    return {row.split("|")[1].strip(" `"): row.split("|")[7].strip() for row in out.splitlines() if row.startswith("| `")}


def names(text, group=None):
    return [r["alert"] for g in yaml.safe_load(text)["groups"] if group in (None, g["name"]) for r in g["rules"]]


def test_an_alert_for_each_class_that_somebody_is_told_of(rules, classes):
    done = rules("--group", "stoker-incidents")
    assert done.returncode == 0
    said = {re.search(r'class="([a-z0-9-]+)"', r["expr"])[1] for g in yaml.safe_load(done.stdout)["groups"] for r in g["rules"]}
    assert said == {name for name, route in classes.items() if route != "none"}
    assert len(set(names(done.stdout))) == len(said)


def test_groups(rules):
    everything = rules().stdout
    assert [g["name"] for g in yaml.safe_load(everything)["groups"]] == ["stoker-incidents", "stoker-readings",
                                                                         "stoker-monitor"]
    assert len(set(names(everything))) == len(names(everything))
    dcgm = rules("--metrics", "dcgm").stdout
    assert [g["name"] for g in yaml.safe_load(dcgm)["groups"]] == ["stoker-readings"]
    assert "stoker_" not in dcgm


@pytest.mark.parametrize("words, said", [
    (["--group", "mine"], "no group 'mine'"),
    (["--metrics", "dcgm", "--group", "stoker-monitor"], "has no rule"),
    (["--metrics", "influx"], "--metrics"),
    (["gpu"], "takes no argument"),
    (["--faults", "/nonexistent.yaml"], "/nonexistent.yaml"),
])
def test_wrong_words(rules, words, said):
    done = rules(*words)
    assert done.returncode in (2, 3) and said in done.stderr and done.stdout == ""


def test_a_site_that_tells_nobody(rules, tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "classes:\n  fan: {route: none}\n  thermal: {enabled: false}\n"
        "rules:\n  remap-rows:\n    with: {rows: 100}\n")
    text = rules("--faults", tmp_path / "mine.yaml").stdout
    assert 'class=\\"fan\\"' not in text and 'class=\\"thermal\\"' not in text
    assert "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS >= 100" in text


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
def test_a_rule_of_the_site_over_a_metric(rules, promtool, tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "classes:\n"
        "  too-hot-for-us:\n    text: it is hotter than we like\n    advice: Open the window.\n    cause: thermal\n"
        "    severity: warning\n    scope: gpu\n    action: check-cooling\n    route: ticket\n    clear: gone\n    source: us\n"
        "rules:\n"
        "  our-limit:\n    on: {detector: metric}\n    with: {metric: DCGM_FI_DEV_GPU_TEMP, above: 70}\n"
        "    class: too-hot-for-us\n    name: over 70 degrees\n    source: us\n")
    done = rules("--faults", tmp_path / "mine.yaml", "--group", "stoker-readings", "--tests", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    if "StokerReadingOurLimit" not in done.stdout:
        pytest.skip("this build's detectors are not linked")
    assert "DCGM_FI_DEV_GPU_TEMP > 70" in done.stdout
    done = promtool("test", "rules", "stoker-rules-test.yaml", cwd=tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow("promtool")
def test_links_to_the_agents_runbooks(rules, promtool, tmp_path):
    (tmp_path / "mine.yaml").write_text("classes: {fan: {runbook: 'https://wiki.example/fan'}}\n")
    assert "runbook_url" not in rules().stdout
    at = ("--external-url", "http://{hostname}:9400")
    done = rules("--faults", tmp_path / "mine.yaml", *at)
    links = {r["labels"]["class"] if "labels" in r else re.search(r'class="([a-z0-9-]+)"', r["expr"])[1]: r["annotations"].get("runbook_url")
             for g in yaml.safe_load(done.stdout)["groups"] for r in g["rules"]}
    assert links.pop("fan") == "https://wiki.example/fan"
    assert links["gpu-lost"] == "http://{{ $labels.hostname }}:9400/runbooks/gpu-lost" and len(links) > 20
    assert all(link == f"http://{{{{ $labels.hostname }}}}:9400/runbooks/{name}" for name, link in links.items())
    rules("--group", "stoker-monitor", *at, "--tests", tmp_path / "out")
    assert "runbook_url: \"http://node-7:9400/runbooks/monitor-blind\"" in (tmp_path / "out/stoker-rules-test.yaml").read_text()
    tested = promtool("test", "rules", tmp_path / "out/stoker-rules-test.yaml")
    assert tested.returncode == 0, tested.stdout + tested.stderr
