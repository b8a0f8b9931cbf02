# SPDX-License-Identifier: Apache-2.0
"""Nodes and agents that end with their test."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import agent_rig as rig  # noqa: E402


@pytest.fixture
def make_node(stoker, tmp_path):
    nodes = []

    def make(scenario="default", **options):
        folder = tmp_path / f"node{len(nodes)}"
        folder.mkdir()
        nodes.append(rig.Node(stoker, folder, scenario, **options))
        return nodes[-1]

    yield make
    for node in nodes:
        node.stop()
    for node in nodes:
        assert node.misuse() == "", "the samplers misuse the driver's library"


@pytest.fixture
def make_agent(stoker, tmp_path):
    agents = []

    def make(env, **options):
        folder = tmp_path / f"agent{len(agents)}"
        folder.mkdir()
        agents.append(rig.Agent(stoker, folder, env, **options))
        return agents[-1]

    yield make
    for agent in agents:
        agent.stop()


@pytest.fixture
def agent_on(make_node, make_agent):
    """An agent on a node: `node, agent = agent_on("default", options=[...])`."""

    def start(scenario="default", options=(), ready=True, **of_node):
        node = make_node(scenario, **of_node)
        return node, make_agent(node.env, options=options, ready=ready)

    return start


@pytest.fixture(scope="module")
def shared_agent(stoker, tmp_path_factory):
    """One agent for tests that only ask."""
    folder = tmp_path_factory.mktemp("shared")
    node = rig.Node(stoker, folder, "default")
    agent = rig.Agent(stoker, folder, node.env)
    yield agent
    agent.stop()
    node.stop()
