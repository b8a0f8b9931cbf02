# SPDX-License-Identifier: Apache-2.0
"""The text of the sample reports as a whole, at several widths. UPDATE_GOLDEN=1 writes it anew; look at it before it is kept."""
import difflib
import os
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"
TEXTS = {"small": ("100", "utf8", "verbose"), "one": ("72",), "diff": ("100",), "empty": ("80",),
         "hostile": ("80", "verbose")}


@pytest.mark.parametrize("name", TEXTS)
def test_text(printed, name):
    text, path = printed(name, "text", *TEXTS[name]).decode(), GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    want = path.read_text(encoding="utf-8")
    assert text == want, "\n".join(list(difflib.unified_diff(want.split("\n"), text.split("\n"), "golden", "now", n=1))[:60])


def test_what_is_kept_is_what_is_tested():
    assert {path.stem for path in GOLDEN.glob("*")} == set(TEXTS)
