# SPDX-License-Identifier: Apache-2.0
"""Text and JSON of one result have the same numbers: each row of the text is made again of what the JSON says."""
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[3]
DATA = ROOT / "test/data/bench"
LABELS = {key: label.replace(",", "") for key, label in re.findall(r'MEASURE\(\w+, "([^"]+)", "([^"]+)"', (ROOT / "src/model/bench.h").read_text())}
LABELS["clock"] = "clock under load"


def both(name):
    """The rows of the text, which begin with two spaces, the whole text, and the JSON."""
    text = (DATA / f"{name}.txt").read_text()
    return [line for line in text.splitlines() if re.match(r"  \S", line)], text, json.loads((DATA / f"{name}.json").read_text())


def number(value):
    """As bench_number writes it."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 999.5 else f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def change_row(change):
    row = f"  {LABELS[change['measure']]:<26} {number(change['before']):>10} {number(change['after']):>10}"
    percent = "       =" if abs(change["worse_percent"]) < 0.05 else f"{-change['worse_percent']:+6.1f} %"
    return f"{row}  {percent}  {change['unit']}" + (f"  worse: {change['severity']}" if change["severity"] else "")


def test_diff():
    rows, text, told = both("diff")
    gpus = text.split("\nGPU ")[1:]
    assert len(gpus) == len({(c["before_gpu"], c["after_gpu"]) for c in told["changes"]})
    for place, part in enumerate(gpus):
        gpu, changes = told["after"]["gpus"][place], [change for change in told["changes"] if change["after_gpu"] == place]
        assert part.startswith(f"{gpu['index']}, H100, {gpu['uuid']}")
        if ": was not there before" in part:
            assert [(c["kind"], c["before_gpu"], c["measure"], c["unit"], c["after"]) for c in changes] == [("appeared", None, None, None, None)]
            continue
        shown = [line for line in part.splitlines() if line in rows and "as before" not in line]
        assert set(shown) <= set(map(change_row, changes))
        assert f"{len(changes) - len(shown)} values as before" in part
        assert all(change_row(change) in shown for change in changes if change["severity"])
    worse = [change for change in told["changes"] if change["severity"]]
    assert told["worse"] == len(worse) + sum(finding["severity"] != "notice" for finding in told["new_findings"])
    assert " ".join(re.findall(r"^(?:new| )      +(\S.*)$", text[text.index("\nnew"):], re.M)) == " ".join(finding["text"] for finding in told["new_findings"])
    assert told["gone_findings"] == [] and told["other_data"] is False


def fleet_row(row):
    setting = f" at {row['power_limit_w']} W" if row["power_limit_w"] else " without ECC" if row["without_ecc"] else ""
    return (f"  {LABELS[row['measure']]:<26} {row['nodes']:>7} {row['gpus']:>6} {number(row['median']):>11} {row['spread_percent']:8.2f} %"
            f" {number(row['least']):>11} {number(row['most']):>11}  {row['unit']}{setting}")


def test_fleet():
    rows, text, told = both("fleet")
    assert rows == [fleet_row(row) for row in told["measures"]] and {row["model"] for row in told["measures"]} == {text.splitlines()[2]}
    assert text.startswith(f"{len(told['nodes'])} nodes, {told['not_fit']} not fit\n")
    found = [node for node in told["nodes"] if node["findings"]]
    assert re.findall(r"^(\S+): not fit$", text, re.M) == [node["node"] for node in found] == [node["node"] for node in told["nodes"][:2]]
    assert {node["verdict"] for node in found} == {"not-fit"} and f"\n{len(told['nodes']) - len(found)} nodes without a finding\n" in text
    for node in found:
        for finding in node["findings"]:
            assert finding["text"].split() in [part.split()[1:] for part in re.split(r"\n(?=\S)|\n\n", text)]
            assert {node["gpus"][place]["verdict"] for place in finding["gpus"]} == {"not-fit"}


def ceiling_row(c):
    return (f"  {LABELS[c['measure']]:<24} {number(c['value']):>8} {c['unit']:<7} {number(c['sm_clock_mhz']):>8}  {c['share_percent']:4.0f} %"
            f"  {number(c['ridge_op_per_byte']):>8} {number(c['l2_ridge_op_per_byte']):>8}")


def test_roof():
    rows, _, told = both("roof")
    (roof,) = told["roof"]
    assert rows[0].split() == ["memory", "read", number(roof["memory_gbs"]), "GB/s", f"{roof['memory_share_percent']:.0f}", "%"]
    assert rows[1].split() == ["L2", "read", number(roof["l2_gbs"]), "GB/s", "-"]
    assert rows[2:] == [ceiling_row(ceiling) for ceiling in roof["ceilings"]]


def test_neighbour():
    rows, text, told = both("isolation")
    assert [float(re.search(r"  ([\d.]+) ", row[18:])[1]) for row in rows[:-1]] == [round(measure["alone"], 1) for measure in told["measures"]]
    for row, measure in zip(rows, told["measures"]):
        cells = re.findall(r"([+-][\d.]+) %|([\d.]+) times|(-)(?= )", row[36:])
        for cell, flood in zip(cells, ("memory", "l2", "compute", "copy"), strict=True):
            change = measure["change"][flood]
            assert change is None if cell[2] else float(cell[0] or (float(cell[1]) - 1) * 100) == round(100 * change, 1)
    assert " ".join(told["text"].split()) in " ".join(text.split()) and told["slow_measure"] == "memory.read"
