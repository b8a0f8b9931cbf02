# SPDX-License-Identifier: Apache-2.0
"""The example configuration and the lists of metrics, against the program and the catalogue."""
import csv
import io
import re
import subprocess

import pytest

LISTS = ["default-counters.csv", "dcp-metrics-included.csv", "1.x-compatibility-metrics.csv"]
READ_CATALOGUE = """
#define METRIC(id, number, name, type, unit, value, scope, source, pace, on, history, newer, help) @ #id name #type #on help
#include "model/metric.def"
"""
EXAMPLES = "config_file"  # a value that is no default


def rows(path, commented=False):
    """[name, type, help] of a counters CSV; with `commented`, of the rows behind '# '."""
    lines = path.read_text().splitlines()
    lines = [line[2:] for line in lines if re.match(r"# \w+, \w+,", line)] if commented else [
        line for line in lines if line and not line.startswith("#")]
    return [[field.strip() for field in row] for row in csv.reader(io.StringIO("\n".join(lines)))]


@pytest.fixture(scope="module")
def catalogue(source):
    """{name: (type in a CSV, on by default, help)} of metric.def, and the aliases."""
    done = subprocess.run(["cc", "-E", "-P", "-x", "c", "-I", source / "src", "-"], input=READ_CATALOGUE, capture_output=True,
                          text=True, check=True, timeout=120)
    kinds = {"GAUGE": "gauge", "COUNTER": "counter", "GAUGE_WAS_COUNTER": "counter", "LABEL": "label"}
    ids, names = {}, {}
    for key, name, kind, on, text in re.findall(r'@ "(\w+)" "(\w+)" "(\w+)" "(\w+)" ((?:"[^"]*" *)+)', done.stdout):
        ids[key] = names[name] = (kinds[kind], on == "ON", "".join(re.findall(r'"([^"]*)"', text)))
    assert len(names) == done.stdout.count("@")
    for metric, name in re.findall(r'METRIC_ALIAS\((\w+), "(\w+)"\)', (source / "src/model/metric_alias.def").read_text()):
        names[name] = (ids[metric][0], False, ids[metric][2])
    return names


@pytest.mark.parametrize("name", LISTS)
def test_a_list_is_one_that_dcgm_exporter_could_read(deploy, name):
    found = rows(deploy / "counters" / name) + rows(deploy / "counters" / name, commented=True)
    assert {len(row) for row in found} == {3} and {row[1] for row in found} <= {"gauge", "counter", "label"}
    assert len({row[0] for row in found}) == len(found)


@pytest.mark.parametrize("name", LISTS)
def test_a_list_agrees_with_the_catalogue(deploy, catalogue, name):
    for metric, kind, text in rows(deploy / "counters" / name) + rows(deploy / "counters" / name, commented=True):
        assert (kind, text) == (catalogue[metric][0], catalogue[metric][2]), metric


@pytest.mark.parametrize("name", LISTS[:2])
def test_what_is_on_by_default_is_on_in_the_lists(deploy, catalogue, name):
    on = {metric for metric, row in catalogue.items() if row[1] and metric.startswith("DCGM_")}
    assert {row[0] for row in rows(deploy / "counters" / name)} == on


@pytest.mark.parametrize("name", LISTS)
def test_the_agent_takes_every_row(deploy, run_agent, tmp_path, name):
    text = (deploy / "counters" / name).read_text()
    (tmp_path / "all.csv").write_text(re.sub(r"^# (\w+, \w+,)", r"\1", text, flags=re.M))
    (tmp_path / "empty.yaml").write_text("{}\n")
    for file in (deploy / "counters" / name, tmp_path / "all.csv"):
        done = run_agent("--check-config", "--config", tmp_path / "empty.yaml", "--strict-counters", "--collectors", file)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_list_without_a_metric_is_said(run_agent, tmp_path):
    (tmp_path / "empty.yaml").write_text("{}\n")
    (tmp_path / "empty.csv").write_text("# DCGM_FI_DEV_GPU_TEMP, gauge, x\n")
    done = run_agent("--check-config", "--config", tmp_path / "empty.yaml", "--collectors", tmp_path / "empty.csv")
    assert f"note: collectors: {tmp_path}/empty.csv: no metric is in it (a line is: field, type, help)" in done.stdout, done.stdout


def test_devices_that_the_node_lacks_are_said(run_agent, tmp_path):
    (tmp_path / "empty.yaml").write_text("{}\n")
    args = "--check-config", "--config", tmp_path / "empty.yaml", "--gpus-expected", "8", "--root", tmp_path, "--devices"
    done = run_agent(*args, "g:0,7-9")
    assert "note: devices: 'g:0,7-9' names what this node of 8 GPUs lacks: GPU 8, GPU 9" in done.stdout, done.stdout
    assert "lacks" not in run_agent(*args, "g:0-7").stdout


def test_a_journal_that_cannot_be_written_is_said(run_agent, tmp_path):
    (tmp_path / "file").write_text("")
    config = tmp_path / "c.yaml"
    for path, said in ((tmp_path / "new/deeper/j.db", None), (tmp_path / "j.db", None), ("none", None),
                       (tmp_path / "file/j.db", f"'{tmp_path}/file': Not a directory"),
                       (tmp_path / "file/deeper/j.db", f"'{tmp_path}/file/deeper': Not a directory")):
        config.write_text(f"journal: {{path: {path}}}\n")
        done = run_agent("--check-config", "--config", config)
        assert done.returncode == 0, done.stdout + done.stderr
        notes = [line for line in done.stdout.splitlines() if "journal" in line and line.startswith("note")]
        if said:
            assert notes == [f"note: {config}:1:17: 'journal.path': the journal cannot be written in {said}"], done.stdout
        else:
            assert not notes, done.stdout
    assert not (tmp_path / "new").exists()


def settings(text):
    """The example with its settings uncommented: a '#' with no blank behind it."""
    return re.sub(r"^( *)#(?=\w)", r"\1", text, flags=re.M)


def test_the_agent_takes_the_example(deploy, run_agent, tmp_path):
    text = (deploy / "stoker.yaml").read_text()
    full = "".join(line for line in settings(text).splitlines(True) if EXAMPLES not in line)
    assert "sample:\n" in full and "\n  fast: 100ms" in full
    for name, content in {"as it is": text, "all": full}.items():
        (tmp_path / f"{name}.yaml").write_text(content)
        done = run_agent("--check-config", "--config", tmp_path / f"{name}.yaml")
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_shows_defaults(deploy, run_agent):
    """Each value of the example stands as the default in the help."""
    yaml = pytest.importorskip("yaml", reason="python3-yaml is not installed")
    text = " ".join(run_agent("--help").stdout.split())
    seen = 0
    for key, value in flat(yaml.safe_load(settings((deploy / "stoker.yaml").read_text()))):
        value = value[0] if isinstance(value, list) else value
        if key.rsplit(".", 1)[-1] == EXAMPLES or isinstance(value, bool):
            continue
        flag = {"kubernetes.enabled": "kubernetes"}.get(key, key).replace(".", "-").replace("_", "-")
        row = re.search(rf"--{flag} [A-Z].*?(?= --|$)", text)
        assert row and re.search(rf"default {re.escape(str(value))}\b", row[0]), (key, value, row and row[0])
        seen += 1
    assert seen >= 9


def flat(map_, before=""):
    for key, value in map_.items():
        if isinstance(value, dict):
            yield from flat(value, f"{before}{key}.")
        else:
            yield before + key, value
