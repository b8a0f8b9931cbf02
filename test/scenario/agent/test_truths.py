# SPDX-License-Identifier: Apache-2.0
"""The agent's judgement against the scenarios' own truth: what is planted is found, named, and nothing else is."""
import pytest
from agent_rig import until
from truths import LATE, LATER, SCENARIOS, TOLD, Play, fits, load, short, speed_for

MOST = 40 * 60  # virtual seconds that are played at most
# Why these are not played here; `make bench-verdicts` plays them too.
LEFT_OUT = {
    "a-bad-week": "days; test_long plays them",
    "leaking-memory": "the trend needs an hour",
    "slow-driver": "deadlines of driver calls are in real time, the node's here is not",
    "slow-calls-one-gpu": "deadlines of driver calls are in real time, the node's here is not",
    "hung-driver-call": "deadlines of driver calls are in real time, the node's here is not",
}


@pytest.mark.parametrize("path", SCENARIOS, ids=[p.stem for p in SCENARIOS])
def test_truth(make_node, make_agent, path):
    if path.stem in LEFT_OUT:
        pytest.skip(LEFT_OUT[path.stem])
    _, count, truths, last = load(path)
    if not truths:
        last = min(last, MOST)
    if last > MOST:
        pytest.skip(f"its last fault comes after {last / 3600:.1f} h")
    until_s = last + LATE + LATER.get(path.stem, 0)
    speed = speed_for(path.stem, until_s)
    try:
        hold(make_node, make_agent, path, until_s, speed)
    except AssertionError:  # a machine that is busy falls behind a fast clock: once more, in more time
        hold(make_node, make_agent, path, until_s, max(speed / 3, 1))


def hold(make_node, make_agent, path, until_s, speed):
    """Plays the scenario and holds the agent to its truth."""
    _, count, truths, _ = load(path)
    play = Play(make_node, make_agent, path.stem, speed, [(until_s, speed)])
    # The simulator writes the kernel's log a few times a second, which is minutes here: what the library says first may
    # turn out to be another's consequence.
    told = [i for i in play.seen.values() if i["route"] in TOLD]
    for truth in truths:
        found = [i for i in told if fits(i, truth, count)]
        if truth["route"] == "none":
            found = [i for i in play.seen.values() if fits(i, truth, count)]
        assert found, f"not found: {truth}\nfound: {[short(i) for i in play.seen.values()]}\n{play.agent.log_text()[-2000:]}"
        for key in ("cause", "action", "route"):
            assert {i[key] for i in found} == {truth[key]}, (truth, [short(i) for i in found])
        if "xid" in truth:
            assert any(truth["xid"] in i["codes"] for i in found), (truth, [short(i) for i in found])
    others = [short(i) for i in told if i["ended_by"] != "merged" and not any(fits(i, t, count) for t in truths)]
    assert not others, f"nothing of the kind is planted: {others}"


STORM = 20_000


def channels(buses, first):
    """The end of a program with many channels on all GPUs, as the kernel's log has it."""
    return [f"4,{first + i},{1000000 + i},-;NVRM: Xid (PCI:{buses[i % len(buses)]}): 45, pid=4711, name=python, Ch {i:08x}\n"
            for i in range(STORM)]


def test_a_storm_of_lines_is_one_incident_at_most(make_node, make_agent, tmp_path):
    log = tmp_path / "kmsg"
    log.touch()
    node = make_node("healthy-training")
    agent = make_agent(node.env, options=["--kernel-log", log, "--journal", tmp_path / "journal.db"])
    buses = [g["pci"].lower()[4:-2] for g in agent.gpus()]  # as the kernel writes it

    def opened(name):
        until(lambda: any(i["class"] == name for i in incidents()), lambda: f"{name}: {agent.log_text()}")
        return next(i for i in incidents() if i["class"] == name)

    def incidents():
        return agent.json("/api/v1/incidents?state=all")[1]["incidents"]

    with open(log, "a", encoding="ascii") as out:
        out.writelines(channels(buses, 1))
        out.write(f"4,{STORM + 1},3000000,-;NVRM: Xid (PCI:{buses[0]}): 13, pid=4712, name=other, Graphics Exception\n")
    fault = opened("app-fault")  # the one line that is another's: those before it have been read and opened nothing
    assert [i["id"] for i in incidents()] == [fault["id"]] and fault["count"] == 1 and fault["route"] == "user"
    with open(log, "a", encoding="ascii") as out:
        out.write(f"4,{STORM + 2},4000000,-;NVRM: Xid (PCI:{buses[3]}): 79, pid=4711, name=python, GPU has fallen off the bus.\n")
        out.writelines(channels(buses, STORM + 3))
    opened("gpu-lost")
    # of this GPU, those right before it too
    until(lambda: opened("gpu-lost")["echo_count"] == 2 * STORM // len(buses), lambda: str(incidents()))
    assert [i["count"] for i in incidents() if i["class"] == "gpu-lost"] == [1]
    assert [i["class"] for i in incidents() if i["route"] in ("page", "ticket")] == ["gpu-lost"]
