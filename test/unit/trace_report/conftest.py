# SPDX-License-Identifier: Apache-2.0
"""Outputs of the sample reports, as `report-print` writes them."""
import importlib.util
import json
import pathlib
import re
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
LIMIT_S = 120


def load(path):
    """A module by its file; tests are imported without a package."""
    spec = importlib.util.spec_from_file_location(f"report_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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


@pytest.fixture(scope="session")
def chromium(build):
    """browser.py and the program and environment of a Chromium: this machine's own, else one of Debian's archive,
    unpacked as the peers are."""
    browser, fetch = load(HERE / "browser.py"), load(ROOT / "test/peer/fetch.py")
    found = browser.program()
    if found:
        return browser, found
    try:
        found = browser.program(fetch.Peers(build / "peers").get("chromium"))
    except fetch.Unavailable as reason:
        pytest.skip(f"no Chromium here, and none can be fetched: {reason}")
    if not found:
        pytest.skip("the Chromium that was fetched has no headless shell")
    return browser, found


@pytest.fixture
def browser(chromium, tmp_path):
    module, (path, env) = chromium
    made = module.Browser(path, env, tmp_path / "profile")
    yield made
    made.end()
