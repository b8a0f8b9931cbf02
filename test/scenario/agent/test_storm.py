# SPDX-License-Identifier: Apache-2.0
"""A storm of lines in the kernel's log, from end to end. The scenarios and their truths are played in process
(test/scenario/truths), ten of them from end to end in test_trial.py."""
from agent_rig import until

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
        """But for those about the disk of a busy machine."""
        return [i for i in agent.json("/api/v1/incidents?state=all")[1]["incidents"] if i["class"] != "monitor-journal"]

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
