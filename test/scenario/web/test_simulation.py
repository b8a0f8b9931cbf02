# SPDX-License-Identifier: Apache-2.0
"""The page of `stoker place simulate --page` in a browser. With UPDATE_PICTURES=1 the picture of docs/place.md is drawn anew."""
import os
import pathlib
import subprocess

import pytest

PICTURE = pathlib.Path(__file__).resolve().parents[3] / "docs/pictures/simulation.webp"


@pytest.fixture(scope="module")
def drawn(stoker, tmp_path_factory):
    folder = tmp_path_factory.mktemp("simulation")
    plan = folder / "plan.yaml"
    plan.write_text(subprocess.run([stoker, "place", "simulate", "--example"], check=True, capture_output=True, text=True).stdout)
    subprocess.run([stoker, "place", "simulate", plan, "--mode", "churn,spread,fgd", "--page", folder / "plan.html"], check=True, capture_output=True)
    return folder / "plan.html"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width, height", [(1100, 900), (390, 844)])
def test_curves_and_figures_are_seen(browser, drawn, width, height, theme):
    browser.look(width, height, theme)
    browser.open(drawn.as_uri())
    assert browser.js("document.querySelectorAll('svg').length") == 5
    assert browser.js("[...document.querySelectorAll('svg')].every((svg) => svg.querySelectorAll('polyline').length === 3)")
    assert browser.js("document.documentElement.scrollWidth <= window.innerWidth"), "the page is wider than the screen"
    assert [browser.js(f"document.querySelectorAll('.k')[{i}].textContent") for i in range(3)] == ["churn", "spread", "fgd"]
    # each mode has a colour of its own, which its curve has too
    assert browser.js("new Set([...document.querySelectorAll('svg')[0].querySelectorAll('polyline')].map((p) => getComputedStyle(p).stroke)).size") == 3
    assert "GPUs allocated" in browser.js("document.querySelector('pre').textContent")
    assert browser.js("document.querySelector('svg').getBoundingClientRect().top < window.innerHeight / 2"), "the first curve is not on the first screen"
    if "UPDATE_PICTURES" in os.environ and (width, theme) == (1100, "light"):
        browser.picture(PICTURE)
