# SPDX-License-Identifier: Apache-2.0
"""JSON of a report: it follows docs/trace.schema.json, whatever the names in it, and holds what the sample holds."""
import json

import pytest

SAMPLES = ["small", "one", "many", "empty", "hostile", "diff"]
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "number": (int, float),
         "integer": int}

# What users of the JSON were promised.
PROMISED = {
    "ranks": {"rank", "file", "events", "lost"},
    "devices": {"device", "span_ns", "busy_ns", "idle_ns", "compute_ns", "communication_ns", "copy_ns",
                "communication_overlapped_ns", "exposed_communication_ns", "exposed_copy_ns", "gap_count", "max_gap_ns",
                "operation_count", "stream_count"},
    "kernels": {"name", "count", "total_ns"}, "copies": {"kind", "count", "bytes", "total_ns"},
    "steps": {"name", "duration_ns"}, "launch": {"linked", "unlinked", "median_ns", "max_ns"},
    "verdicts": {"id", "percent_of_step", "evidence", "advice", "gain_percent"}, "straggler": {"rank", "cause"},
}


def is_type(value, name):
    return isinstance(value, TYPES[name]) and not (isinstance(value, bool) and name in ("number", "integer"))


class Checker:
    """The part of JSON Schema that the schema uses; a keyword that is not known here is an error."""

    def __init__(self, schema):
        self.schema = schema

    def wrong(self, value, rule, at="$"):
        for word, wanted in rule.items():
            if not word.startswith("$") or word == "$ref":
                yield from getattr(self, "check_" + word.replace("$", ""))(value, wanted, rule, at)

    def nothing(self, *_):
        return ()

    check_title = check_description = nothing

    def check_ref(self, value, wanted, _rule, at):
        yield from self.wrong(value, self.schema["$defs"][wanted.removeprefix("#/$defs/")], at)

    def check_oneOf(self, value, wanted, _rule, at):
        fine = [r for r in wanted if not any(True for _ in self.wrong(value, r, at))]
        if len(fine) != 1:
            yield f"{at}: {len(fine)} of the alternatives fit; " + "; ".join(next(self.wrong(value, r, at), "") for r in wanted)

    def check_type(self, value, wanted, _rule, at):
        if not any(is_type(value, t) for t in ([wanted] if isinstance(wanted, str) else wanted)):
            yield f"{at}: {value!r} is no {wanted}"

    def check_enum(self, value, wanted, _rule, at):
        if value not in wanted:
            yield f"{at}: {value!r} is none of {wanted}"

    def check_const(self, value, wanted, _rule, at):
        if value != wanted:
            yield f"{at}: {value!r} is not {wanted!r}"

    def check_minimum(self, value, wanted, _rule, at):
        if value is not None and value < wanted:
            yield f"{at}: {value} is under {wanted}"

    def check_minItems(self, value, wanted, _rule, at):
        if value is not None and len(value) < wanted:
            yield f"{at}: fewer than {wanted}"

    def check_maxItems(self, value, wanted, _rule, at):
        if value is not None and len(value) > wanted:
            yield f"{at}: more than {wanted}"

    def check_items(self, value, wanted, _rule, at):
        for i, item in enumerate(value or []):
            yield from self.wrong(item, wanted, f"{at}[{i}]")

    def check_required(self, value, wanted, _rule, at):
        for key in wanted if isinstance(value, dict) else ():
            if key not in value:
                yield f"{at}: no {key}"

    def check_properties(self, value, wanted, _rule, at):
        for key in wanted:
            if isinstance(value, dict) and key in value:
                yield from self.wrong(value[key], wanted[key], f"{at}.{key}")

    def check_additionalProperties(self, value, wanted, rule, at):
        assert wanted is False
        for key in value if isinstance(value, dict) else ():
            if key not in rule["properties"]:
                yield f"{at}: {key} is not in the schema"


@pytest.mark.parametrize("sample", SAMPLES)
def test_every_output_follows_the_schema(report, schema, sample):
    assert list(Checker(schema).wrong(report(sample), schema))[:5] == []


@pytest.mark.slow("python3-jsonschema is slow")
@pytest.mark.parametrize("sample", SAMPLES)
def test_a_validator_of_others_agrees(report, schema, sample):
    jsonschema = pytest.importorskip("jsonschema", reason="python3-jsonschema is not installed")
    jsonschema.validate(report(sample), schema)


@pytest.mark.parametrize("change, complaint", [
    (lambda r: r.pop("step_ns"), "no step_ns"), (lambda r: r.update(more=1), "more is not in the schema"),
    (lambda r: r["ranks"][0].update(events=-1), "under 0"), (lambda r: r["ranks"][0].update(rank="0"), "is no integer"),
    (lambda r: r["gaps_by_cause"][0].update(cause="luck"), "is none of")])
def test_the_check_sees_what_is_wrong(report, schema, change, complaint):
    changed = report("small")
    change(changed)
    assert any(complaint in w for w in Checker(schema).wrong(changed, schema["$defs"]["report"]))


def test_it_has_what_was_promised(report):
    made = report("small")
    rank = made["ranks"][0]
    found = {"ranks": rank, "launch": rank["launch"], "straggler": made["straggler"], "verdicts": made["verdicts"][0],
             **{k: rank[k][0] for k in ("devices", "kernels", "copies", "steps")}}
    assert {k: PROMISED[k] - set(found[k]) for k in PROMISED} == {k: set() for k in PROMISED}
    assert {"cause", "count", "total_ns"} <= set(made["gaps_by_cause"][0])


def test_times_of_the_sample_add_up(report):
    for rank in report("small")["ranks"]:
        for device in rank["devices"]:
            assert device["busy_ns"] + device["idle_ns"] == device["span_ns"] == device["end_ns"] - device["start_ns"]
            assert sum(c["total_ns"] for c in rank["idle_by_cause"]) == device["idle_ns"]
        for gap in rank["gaps"]:
            assert sum(gap["slices_ns"].values()) == gap["end_ns"] - gap["start_ns"]


def test_unknown_values_are_null(report):
    made = report("empty")
    assert made["step_ns"] is None and made["straggler"]["rank"] is None and made["straggler"]["cause"] is None
    rank = made["ranks"][0]
    assert rank["host"] is None and rank["world_size"] is None and rank["launch"]["median_ns"] is None


def test_any_name_can_be_read(report):
    made = report("hostile")
    name = '</script><b>"x" & \'y\',\n\x01\x1b[31m\ufffd\ufffd \u202e <!-- 中\U0001f600'
    rank = made["ranks"][0]
    assert rank["kernels"][0]["name"] == rank["file"] == made["notes"][-1] == rank["losses"][-1]["excerpt"] == name
    assert rank["losses"][-1]["byte"] == 2**64 - 1
    assert rank["kernels"][1]["mean_ns"] is None  # infinite


def test_it_is_one_line_of_utf8(printed):
    raw = printed("hostile", "json")
    assert raw.count(b"\n") == 1 and raw.endswith(b"}\n")
    assert json.loads(raw.decode("utf-8"))
