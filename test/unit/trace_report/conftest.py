# SPDX-License-Identifier: Apache-2.0
"""Outputs of the sample reports, as `report-print` writes them."""
import json
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
LIMIT_S = 120


@pytest.fixture(scope="session")
def printed(build):
    """printed(sample, output, options...): bytes."""

    def run(*words):
        done = subprocess.run([build / "test/unit/trace_report/report-print", *words], capture_output=True, timeout=LIMIT_S,
                              check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    return run


@pytest.fixture(scope="session")
def report(printed):
    """report(sample): its JSON, read."""
    return lambda sample: json.loads(printed(sample, "json"))


@pytest.fixture(scope="session")
def schema():
    return json.loads((ROOT / "docs/trace.schema.json").read_text(encoding="utf-8"))


class Page:
    """A page's parts, and its data unpacked as its script does."""

    def __init__(self, raw):
        self.raw, self.text = raw, raw.decode("utf-8")
        self.data = json.loads(self.part(r'<script type="application/json" id="data">(.*?)</script>'))
        self.style, self.script = self.part("<style>(.*?)</style>"), self.part("<script>(.*?)</script>")

    def part(self, pattern):
        found = re.findall(pattern, self.text, re.S)
        assert len(found) == 1, pattern
        return found[0]

    def rows(self, table):
        """A table's rows as dictionaries, texts looked up."""
        made = []
        for row in table["rows"]:
            pairs = zip(table["columns"], row, strict=True)
            made.append({k.rstrip("#"): self.data["texts"][v] if k.endswith("#") else v for k, v in pairs})
        return made


@pytest.fixture(scope="session")
def page(printed):
    return lambda sample: Page(printed(sample, "html"))
