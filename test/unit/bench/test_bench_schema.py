# SPDX-License-Identifier: Apache-2.0
"""JSON of active tests follows docs/bench.schema.json, which has all words of the tables and no others."""
import json
import pathlib
import re

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCHEMA = json.loads((ROOT / "docs/bench.schema.json").read_text(encoding="utf-8"))
DEFS = SCHEMA["$defs"]
FINDING, CHANGE, MIG, MIG_MEASURE = (DEFS[name]["properties"] for name in ("finding", "change", "mig", "mig_measure"))
WORDS = {
    "BENCH_PART_TABLE": FINDING["part"]["enum"],
    "BENCH_STAGE_TABLE": DEFS["stage"]["enum"],
    "BENCH_ERROR_TABLE": DEFS["error_kind"]["enum"],
    "BENCH_MEASURE_TABLE": DEFS["measure"]["enum"],
    "BENCH_COUNTER_TABLE": DEFS["counters"]["required"],
    "BENCH_VERDICT_TABLE": DEFS["verdict"]["enum"],
    "BENCH_SEVERITY_TABLE": DEFS["severity"]["enum"],
    "BENCH_SYMPTOM_TABLE": FINDING["symptom"]["enum"],
    "BENCH_BASIS_TABLE": FINDING["compared_with"]["enum"],
    "BENCH_REASON_TABLE": FINDING["reason"]["enum"],
    "BENCH_CHANGE_TABLE": CHANGE["kind"]["enum"],
    "BENCH_FLOOD_TABLE": MIG_MEASURE["change"]["required"],
    "ISOLATION_MEASURE_TABLE": MIG_MEASURE["measure"]["enum"],
    "ISOLATION_ROUND_TABLE": MIG_MEASURE["values"]["required"],
    "ISOLATION_VERDICT_TABLE": DEFS["isolation"]["enum"],
    "ISOLATION_SETUP_TABLE": MIG["setup"]["enum"],
}


def closed(schema):
    """The schema without room for keys that it does not name."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    copy = {key: closed(value) for key, value in schema.items()}
    return {**copy, "additionalProperties": False} if schema.get("type") == "object" and "properties" in schema else copy


def table(name):
    text = "".join((ROOT / "src" / file).read_text() for file in
                   ("model/bench.h", "engine/bench/judge.h", "engine/bench/diff.h", "engine/bench/isolation.h"))
    return re.findall(r'(?:WORD|MEASURE)\(\w+, "([^"]+)"', text.split("#define " + name, 1)[1].split("typedef enum", 1)[0])


def test_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", ["run", "empty", "roof", "diff", "fleet", "isolation"])
def test_golden_files_follow_it(name):
    jsonschema.validate(json.loads((ROOT / "test/data/bench" / f"{name}.json").read_text()), closed(SCHEMA))


@pytest.mark.parametrize("name", WORDS)
def test_words_are_those_of_the_table(name):
    assert WORDS[name] == table(name)
