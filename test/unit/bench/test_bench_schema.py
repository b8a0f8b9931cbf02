# SPDX-License-Identifier: Apache-2.0
"""JSON of runs of active tests follows docs/bench.schema.json, which has all words of the tables and no others."""
import json
import pathlib
import re

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCHEMA = json.loads((ROOT / "docs/bench.schema.json").read_text(encoding="utf-8"))
FINDING = SCHEMA["properties"]["findings"]["items"]["properties"]
ERROR = SCHEMA["properties"]["errors"]["items"]["properties"]
WORDS = {
    "BENCH_PART_TABLE": FINDING["part"]["enum"],
    "BENCH_STAGE_TABLE": SCHEMA["$defs"]["stage"]["enum"],
    "BENCH_ERROR_TABLE": ERROR["kind"]["enum"],
    "BENCH_MEASURE_TABLE": SCHEMA["$defs"]["measure"]["enum"],
    "BENCH_COUNTER_TABLE": SCHEMA["$defs"]["counters"]["required"],
    "BENCH_VERDICT_TABLE": SCHEMA["$defs"]["verdict"]["enum"],
    "BENCH_SEVERITY_TABLE": FINDING["severity"]["enum"],
    "BENCH_SYMPTOM_TABLE": FINDING["symptom"]["enum"],
    "BENCH_BASIS_TABLE": FINDING["compared_with"]["enum"],
    "BENCH_REASON_TABLE": FINDING["reason"]["enum"],
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
    text = (ROOT / "src/model/bench.h").read_text() + (ROOT / "src/engine/bench/judge.h").read_text()
    return re.findall(r'(?:WORD|MEASURE)\(\w+, "([^"]+)"', text.split("#define " + name, 1)[1].split("typedef enum", 1)[0])


def test_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", ["run.json", "empty.json"])
def test_golden_runs_follow_it(name):
    jsonschema.validate(json.loads((ROOT / "test/data/bench" / name).read_text()), closed(SCHEMA))


@pytest.mark.parametrize("name", WORDS)
def test_words_are_those_of_the_table(name):
    assert WORDS[name] == table(name)
