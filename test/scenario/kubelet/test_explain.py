# SPDX-License-Identifier: Apache-2.0
"""`stoker kubelet explain` beside a kubelet that has given devices to pods."""
import json
import pathlib
import subprocess
import sys

from agent_rig import settles, until

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "unit/podresources"))
import kubelet as pods  # noqa: E402


def explain(side, *words):
    command = [side.stoker, "kubelet", "explain", "--control", side.agent.control, *words]
    done = subprocess.run(list(map(str, command)), env=side.node.env, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_who_has_what_and_why_not(make_side, tmp_path):
    answer = [b""]
    with pods.Kubelet(tmp_path / "pods.sock", lambda request, context: answer[0]):
        side = make_side(agent_options=["--kubernetes", "--pod-resources-kubelet-socket", tmp_path / "pods.sock"])
        uuid = [g["uuid"] for g in side.agent.gpus()]
        answer[0] = pods.reply(pods.simple("train-0", uuid[1], uuid[2]), pods.simple("notebook", uuid[4]))
        side.node.inject("xid", "79", "gpu=6")
        until(lambda: side.unhealthy() == [uuid[6]], side.log_text)

        def told():
            code, text, _ = explain(side)
            assert code == 0 and text.startswith("nvidia.com/gpu: 8 devices, 7 healthy, 4 free\n")
            return text

        text = settles(told)
        lines = text.splitlines()
        assert f"  GPU 0  {uuid[0]}  free" in lines and f"  GPU 4  {uuid[4]}  taken" in lines
        assert lines[lines.index(f"  GPU 4  {uuid[4]}  taken") + 1] == "      ns/notebook, container main"
        broken = next(line for line in lines if uuid[6] in line)
        assert "unhealthy: " in broken and "incident" in broken
        assert lines[-1] == "  A pod can ask for up to 4."
        code, text, _ = explain(side, "ns/train-0")
        assert code == 0 and [line.split("  ")[1].split(" ")[0] for line in text.splitlines()] == uuid[1:3]
        code, text, errors = explain(side, "nobody")
        assert (code, text) == (1, "") and "pod 'nobody' has no device of this node" in errors
        resource, = json.loads(explain(side, "--json")[1])["resources"]
        assert (resource["devices"], resource["healthy"], resource["free"]) == (8, 7, 4)
        assert resource["units"][2]["owners"] == [{"namespace": "ns", "pod": "train-0", "container": "main"}]
        assert resource["units"][6]["incident"] and not resource["units"][6]["healthy"]


def test_what_nobody_tells_is_not_free(make_side):
    side = make_side()  # an agent that does not ask the kubelet
    code, text, _ = explain(side)
    assert code == 0 and text.startswith("nvidia.com/gpu: 8 devices, 8 healthy\n") and "  free" not in text
    assert "not known: the agent does not read the kubelet's pod-resources" in text
    resource, = json.loads(explain(side, "--json")[1])["resources"]
    assert resource["free"] is None and resource["units"][0]["free"] is None


def test_for_claims_classes_are_named(make_side):
    side = make_side("mig-balanced")
    until(lambda: "nvidia.com/gpu" in side.log_text(), side.log_text)
    code, text, _ = explain(side, "--dra-driver", "gpu.example.com", "--node-name", "n")
    assert code == 0 and "mig.nvidia.com 1g.10gb: 8 devices" in text and "nvidia.com/" not in text
    code, text, _ = explain(side, "--node-name", "n")
    assert code == 0 and text.startswith("nvidia.com/gpu: 4 devices")


def test_wrong_words(stoker, tmp_path):
    for words, code, says in (["a", "b"], 2, "one pod at most"), ([], 3, "none.sock"):
        done = subprocess.run([stoker, "kubelet", "explain", "--control", tmp_path / "none.sock", *words],
                              capture_output=True, text=True)
        assert done.returncode == code and says in done.stderr
