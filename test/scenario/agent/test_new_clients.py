# SPDX-License-Identifier: Apache-2.0
"""What only shows to those who come, and what somebody announced: new clients that are refused, GPUs that are taken out."""
import json
import time

import pytest
from agent_rig import until

pytestmark = pytest.mark.slow("an hour of a fast clock")

SPEED = 60


@pytest.fixture
def play(make_node, make_agent):
    """A node and an agent whose clocks run fast."""
    def start(scenario, speed=SPEED, options=()):
        node = make_node(scenario, speed=speed, strict=False)
        return node, make_agent(node.env, options=[
            "--clock-speed", speed, "--sample-fast", "1s", "--sample-normal", "2s", "--sample-slow", "10s",
            "--sample-blocking", "60s", "--journal", "none", *options])

    return start


def virtual(node):
    return json.loads(node.sim("clock", "--json"))["virtual_ns"] / 1e9


def incidents(agent, **like):
    found = agent.json("/api/v1/incidents?state=all")[1]["incidents"]
    return [i for i in found if all(i[k] == v for k, v in like.items())]


def wait(node, seconds):
    end = virtual(node) + seconds
    until(lambda: virtual(node) >= end, "the clock stands")


def evidence(incident):
    return " | ".join(e["text"] for e in incident["evidence"])


# ---- GPUs that are taken out ----

def test_a_drained_gpu_is_taken_out_and_comes_back(play):
    node, agent = play("hotplug", options=["--gpus-expected", "4"])
    until(lambda: incidents(agent, **{"class": "gpu-missing"}), agent.log_text)
    [one] = incidents(agent, **{"class": "gpu-missing"})
    assert (one["cause"], one["action"], one["route"], one["severity"]) == ("operator", "none", "none", "info"), one
    assert one["device"]["index"] == 3 and one["opened"] and "drained it before" in evidence(one)
    assert 11 * 60 <= virtual(node) < 31 * 60
    assert agent.gpu(3)["state"] in ("lost", "gone") and agent.gpu(3)["drained"]  # until the bus is scanned again
    assert agent.get("/healthz")[0] == 200, agent.get("/healthz")[1]
    status = agent.verb("status")
    assert status.returncode == 0, status.stdout
    wait(node, 10 * 60)  # the whole time it is away
    assert incidents(agent, **{"class": "gpu-missing"})[0]["id"] == one["id"]
    until(lambda: virtual(node) > 32 * 60 and agent.gpu(3)["state"] == "up" and "drained" not in agent.gpu(3), agent.log_text)
    until(lambda: incidents(agent, id=one["id"])[0]["state"] == "cleared", lambda: str(incidents(agent)))
    assert not [i for i in incidents(agent) if i["route"] != "none"], incidents(agent)
    node.inject("plug", "gpu=3", "what=remove", "for=1h")  # and nobody announced this
    # Whether the driver or the bus notices first decides the class.
    until(lambda: [i for i in incidents(agent, route="page") if i["class"] in ("gpu-missing", "gpu-lost")], lambda: str(incidents(agent)))


def test_a_gpu_that_nobody_drained_pages(play):
    node, agent = play("default")
    until(lambda: agent.gpu(5)["state"] == "up", agent.log_text)
    node.inject("set", "gpu=4", "drain=on")  # another one
    until(lambda: agent.gpu(4).get("drained"), agent.log_text)
    node.inject("plug", "gpu=5", "what=remove", "for=1h")
    until(lambda: incidents(agent, **{"class": "gpu-missing"}), agent.log_text)
    [one] = incidents(agent, **{"class": "gpu-missing"})
    assert (one["device"]["index"], one["cause"], one["route"]) == (5, "bus", "page"), one
    assert agent.get("/healthz")[0] == 503 and agent.verb("status").returncode == 1


# ---- new clients ----

def probes(node, agent, seconds, every=30):
    """Lets so much time pass, and looks how many samplers were there at most."""
    end, most = virtual(node) + seconds, 0
    while virtual(node) < end:
        most = max(most, len(agent.samplers()))
        time.sleep(every / SPEED / 20)
    return most


def test_new_clients_are_refused(play):
    node, agent = play("driver-error", options=["--sampler-probe", "1m"])
    until(lambda: incidents(agent, **{"class": "driver-error"}), lambda: f"{virtual(node)} {agent.log_text()}")
    assert 5 * 60 <= virtual(node)
    [one] = incidents(agent)
    assert (one["cause"], one["action"], one["route"]) == ("driver", "drain-and-reboot", "page"), one
    assert one["device"]["index"] is None and "new clients are refused" in evidence(one) and "999" in evidence(one)
    assert agent.fresh(range(8), limit=60), agent.gpus()  # those who came before do not feel it
    node.inject("driver", "state=loaded")
    until(lambda: incidents(agent, id=one["id"])[0]["state"] == "cleared", lambda: str(incidents(agent)))
    assert len(incidents(agent)) == 1


def test_a_single_refusal_is_none(play):
    """It lasts for less than the time between two probes; the second one, soon after the first, is served."""
    node, agent = play("default", speed=20, options=["--sampler-probe", "30s", "--log-level", "debug"])
    node.inject("driver", "state=unknown-error")
    until(lambda: "Probe of the driver: new clients are refused" in agent.log_text(), agent.log_text)
    node.inject("driver", "state=loaded")
    wait(node, 180)
    assert agent.log_text().count("Probe of the driver: new clients are refused") == 1
    assert not incidents(agent), incidents(agent)


def test_none_is_sent_where_it_is_turned_off(play):
    node, agent = play("default", speed=240, options=["--sampler-probe", "0"])
    node.inject("driver", "state=unknown-error")
    assert probes(node, agent, 20 * 60) == 1 and not incidents(agent)


def test_none_is_sent_during_a_release(play):
    node, agent = play("default", options=["--sampler-probe", "10s", "--log-level", "debug"])
    assert agent.verb("release", "--for", "10m").returncode == 0
    node.inject("driver", "state=unknown-error")
    wait(node, 5 * 60)
    assert "Probe of the driver" not in agent.log_text() and not incidents(agent)
    node.inject("driver", "state=loaded")
    assert agent.verb("release", "--end").returncode == 0
    until(lambda: agent.fresh(range(8), limit=60), agent.log_text)
    wait(node, 2 * 60)
    assert not incidents(agent), incidents(agent)
