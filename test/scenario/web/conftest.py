# SPDX-License-Identifier: Apache-2.0
"""The agent's page on simulated nodes. Each test has nodes and agents of its own, but for those that only look."""
import pathlib
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "agent")]
import agent_rig as rig  # noqa: E402
import site_rig  # noqa: E402


@pytest.fixture
def played(stoker, tmp_path):
    """played(scenario, speed=..., options=[...]): (node, agent)"""
    made = []

    def start(scenario, speed=1, options=(), of_node=(), ready=True):
        folder = tmp_path / f"node{len(made)}"
        folder.mkdir()
        node = rig.Node(stoker, folder, scenario, speed=speed, strict=False, options=of_node)
        made.append(node)
        agent = rig.Agent(stoker, folder, node.env, options=["--journal", "none", *options], ready=ready)
        made.append(agent)
        return node, agent

    yield start
    for one in reversed(made):
        one.stop()


@pytest.fixture(scope="module")
def training(stoker, tmp_path_factory):
    """The address of an agent on eight healthy GPUs that train, for tests that only look."""
    folder = tmp_path_factory.mktemp("training")
    node = rig.Node(stoker, folder, "healthy-training")
    agent = rig.Agent(stoker, folder, node.env, options=["--journal", "none"])
    yield agent
    agent.stop()
    node.stop()


@pytest.fixture
def proxied():
    made = []

    def stand_before(address, **options):
        made.append(site_rig.Proxy(address, **options))
        return made[-1]

    yield stand_before
    for proxy in made:
        proxy.end()


@pytest.fixture
def visit(browser, played, proxied):  # which are there for as long as the page is
    """visit(url, way="", ...): the page there, opened; at the end nothing may have been complained about."""
    visitors, cut = [], []

    def open_page(url, way="", may_be_cut=False, **how):
        visitors.append(site_rig.Visitor(browser, url))
        cut.append(may_be_cut)
        return visitors[-1].open(way, **how)

    yield open_page
    browser.js("1")  # what was said until now has been heard
    browser.open("about:blank")
    for visitor, was_cut in zip(visitors, cut, strict=True):
        assert visitor.complaints(was_cut) == []
    assert site_rig.foreign(browser.asked, [visitor.url for visitor in visitors]) == []
