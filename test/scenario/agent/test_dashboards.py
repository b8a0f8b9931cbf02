# SPDX-License-Identifier: Apache-2.0
"""What an agent exports by default is all that the dashboards with our names ask for."""
import json
import re
import subprocess

from agent_rig import until

BOARDS = ["executive", "cost", "on-call", "debug", "gpu", "job"]
HOOK = "alerts:\n  receivers:\n  - name: desk\n    webhook:\n      url: http://127.0.0.1:9/\n"


def expressions(value):
    if isinstance(value, dict):
        yield from (v for k, v in value.items() if k == "expr")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from expressions(inner)


def test_a_full_node_has_all_that_dashboards_ask_for(agent_on, stoker, tmp_path):
    asked = set()
    for board in BOARDS:
        model = json.loads(subprocess.run([stoker, "dashboard", "grafana", board], capture_output=True, text=True, check=True).stdout)
        asked |= {m for e in expressions(model) for m in re.findall(r"\b((?:DCGM|stoker)_\w+)\{", e)}
    assert len(asked) > 60
    config = tmp_path / "agent.yaml"
    config.write_text(HOOK)
    node, agent = agent_on("default", options=["--config", config, "--journal", tmp_path / "journal.db", "--sample-slow", "1s"])
    fans, old = "stoker_fan_speed_ratio", {name for name in asked if name.startswith("stoker_retired_pages")}  # not on this board
    node.inject("xid", "79", "gpu=3")
    node.inject("throttle", "hw-thermal", "gpu=2", "for=5m")
    assert agent.verb("maintenance", "start", "--for", "2h", "--reason", "a window", "--gpu", "5").returncode == 0
    node.inject("set", "gpu=1", "ecc=off")
    missing = lambda: asked - {s[0] for s in agent.page().series} - {fans, *old}
    until(lambda: missing() <= {"stoker_metric_unavailable"}, lambda: f"{sorted(missing())}\n{agent.log_text()}")
