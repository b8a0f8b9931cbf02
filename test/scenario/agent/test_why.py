# SPDX-License-Identifier: Apache-2.0
"""`stoker why` on simulated nodes: by the agent and without one, as text and as JSON, of a GPU, a process and a job."""
import json
import pathlib
import subprocess

import pytest
from agent_rig import settles, until

SCHEMA = json.loads((pathlib.Path(__file__).resolve().parents[3] / "docs" / "why.schema.json").read_text())
WORKS = """about: a starved job, small kernels, a notebook and a free GPU
gpus: {board: h100-sxm-80gb, count: 6}
work:
  - {name: resnet, kind: train-starved, gpus: [0, 1], process: python, user: dave, job: 4711.0}
  - {name: eager, kind: tiny-kernels, gpus: [2], process: python, user: erin, job: 4712}
  - {name: lab, kind: idle-context, gpus: [3], process: ipykernel, user: carol, pod: lab/notebook-1}
  - {name: chat, kind: decode, gpus: [4], process: vllm, user: root, pod: serving/chat}
truth: []
"""
CAUSES = ["input", "input", "launches", "idle_held", "device_memory", "free"]


@pytest.fixture
def works(tmp_path):
    (tmp_path / "works.yaml").write_text(WORKS)
    return str(tmp_path / "works.yaml")


def valid(answer):
    jsonschema = pytest.importorskip("jsonschema", reason="python3-jsonschema is not installed")
    jsonschema.validate(answer, SCHEMA)
    return answer["gpus"]


def asked(agent, *words):
    done = agent.verb("why", "--json", *words)
    assert done.returncode == 0, done.stderr
    return valid(json.loads(done.stdout))


def test_the_agent_says_it_of_gpus_processes_and_jobs(agent_on, works):
    node, agent = agent_on(works, speed=10, options=["--clock-speed", 10])

    def right():
        gpus = asked(agent)
        assert [g["cause"] for g in gpus] == CAUSES
        assert [g["gpu"] for g in gpus] == [0, 1, 2, 3, 4, 5]
        assert [g["activity"] for g in gpus] == ["waiting", "waiting", "waiting", "idle held", "working", "free"]
        assert {e["counter"] for e in gpus[2]["evidence"]} >= {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_SM_ACTIVE"}
        assert "100 % busy by utilisation, yet nearly idle" in gpus[2]["text"] and "CUDA graphs" in gpus[2]["advice"]
        assert "num_workers" in gpus[0]["advice"] and 0.2 < gpus[0]["share"] <= 1
        assert gpus[4]["processes"]
        return gpus

    gpus = settles(right)
    until(lambda: valid(agent.json("/api/v1/why")[1])[3]["cause"] == "idle_held", lambda: agent.get("/api/v1/why")[1])
    # in short, beside the activity
    until(lambda: [g["verdict"]["cause"] for g in agent.gpus()] == CAUSES, lambda: str(agent.gpus()))
    # of a GPU, a process, a job with its step or without, a pod
    assert [g["gpu"] for g in asked(agent, "2")] == [2]
    assert [g["gpu"] for g in asked(agent, gpus[1]["uuid"])] == [1]
    until(lambda: {p["job"] for p in asked(agent, "0")[0]["processes"]} == {"4711.0"}, "whose the processes are is known")
    pid = gpus[4]["processes"][0]["pid"]

    def found():
        assert [(g["gpu"], [p["pid"] for p in g["processes"]]) for g in asked(agent, str(pid))] == [(4, [pid])]
        assert [g["gpu"] for g in asked(agent, "4711")] == [0, 1] == [g["gpu"] for g in asked(agent, "4711.0")]
        assert [g["gpu"] for g in valid(agent.json("/api/v1/why?of=4712")[1])] == [2]

    settles(found)
    nobody = agent.verb("why", "471")
    assert nobody.returncode == 3 and "'471' is no GPU" in nobody.stderr
    assert agent.json("/api/v1/why?of=471")[0] == 404
    # as text: GPUs of one cause and one job together
    text = lambda: agent.verb("why").stdout
    until(lambda: all(words in text() for words in ("GPU 0, 1  H100", "num_workers=4", "py-spy")), text)


ROOFS = """about: work whose activity is known, and a GPU without profiling counters
gpus:
  - {board: h100-sxm-80gb, count: 5}
  - {board: h100-sxm-80gb, mig: [3g.40gb]}
  - {board: t4}
work:
  - {name: burn, kind: burn, gpus: [0], process: burn, user: dave}
  - {name: chat, kind: decode, gpus: [1], process: vllm, user: root}
  - {name: old, kind: train-fp32, gpus: [2], process: python, user: erin}
  - {name: int8, kind: quantized, gpus: [3], process: python, user: erin}
  - {name: slice, kind: burn, gpus: [5], mig: 0, process: burn, user: dave}
  - {name: small, kind: burn, gpus: [6], process: burn, user: dave}
truth: []
"""
H100_BYTES, H100_CLOCK = 5120 / 8 * 2619e6 * 2, 1980e6
# Means of the phases of sim/core/kinds.c: operations per multiprocessor and clock; memory activity, which follows a lower
# clock where compute is the bound; nearest roof.
TRUTH = {0: (0.72 * 4096 + 0.20 * 256 + 0.05 * 512, 0.62, "compute"), 1: (0.946 * (0.06 * 4096 + 0.05 * 256 + 0.04 * 512), 0.946 * 0.86, "memory"),
         2: (0.633 * 256, 0.318, "compute"), 3: (0.952 * (0.05 * 4096 + 0.48 * 8192 + 0.06 * 256 + 0.03 * 512), 0.952 * 0.48, "both")}


def test_operations_and_bytes_are_those_of_the_work(agent_on, tmp_path):
    """Estimated from the counters alone, against what the simulator's work does; what is not measured is not 0."""
    (tmp_path / "roofs.yaml").write_text(ROOFS)
    _, agent = agent_on(str(tmp_path / "roofs.yaml"), speed=10, options=["--clock-speed", 10])

    def right():
        gpus, status = asked(agent), agent.gpus()
        for index, (per_clock, dram, nearest) in TRUTH.items():
            roof, clock = gpus[index]["roof"], status[index]["metrics"]["DCGM_FI_DEV_SM_CLOCK"]["value"] * 1e6
            assert roof["flops_per_second"] == pytest.approx(per_clock * 132 * clock, rel=0.08), index
            assert roof["bytes_per_second"] == pytest.approx(dram * H100_BYTES * (clock / H100_CLOCK), rel=0.08), index
            assert roof["flop_per_byte"] == pytest.approx(roof["flops_per_second"] / roof["bytes_per_second"], rel=0.001)
            assert roof["nearest"] == nearest and roof["window_s"] >= 30, index
        assert gpus[0]["roof"]["flops_high"] > 1.9 * gpus[0]["roof"]["flops_per_second"] and gpus[3]["roof"]["type"] == "int8"
        rest = [g for g in gpus if g["gpu"] > 3]
        assert sum(g["activity"] == "free" and g["roof"] is None for g in rest) == 1
        part = next(g["roof"] for g in rest if g["instance"])
        assert part["flops_per_second"] == pytest.approx(TRUTH[0][0] * 60 * H100_CLOCK, rel=0.08)  # 60 of 132 multiprocessors
        assert part["bytes_per_second"] == pytest.approx(0.62 * H100_BYTES / 2, rel=0.08)
        none = next(g["roof"] for g in rest if "T4" in g["model"])
        assert "flops_per_second" not in none and "bytes_per_second" not in none and "tensor activity: " in none["absent"]
        shown = [g.get("verdict", {}).get("roof") for g in status]
        assert all(shown[i]["nearest"] == nearest for i, (_, _, nearest) in TRUTH.items())

    settles(right)
    text = agent.verb("why", "0").stdout
    assert "  roof      about " in text and "the counters do not tell" in " ".join(text.split())
    until(lambda: agent.page().one("stoker_gpu_estimated_memory_bytes_per_second", gpu="1") > 2e12, "the estimate is on the page of metrics")


def test_without_an_agent_it_looks_for_itself(make_node, works):
    node = make_node(works)
    env = {**node.env, "STOKER_CONTROL": "/nonexistent.sock"}
    ask = lambda *words: subprocess.run([node.stoker, "why", "--for", "3s", *words], env=env, capture_output=True, text=True,
                                        timeout=120, check=False)
    def told():
        done = ask("--json")
        assert done.returncode == 0, done.stderr
        gpus = valid(json.loads(done.stdout))
        return [g["cause"] for g in gpus][2:] == CAUSES[2:] and gpus
    gpus = until(told, "the causes are not found")  # it may read little in 3 s on a busy machine
    assert all(g["window_s"] >= 1 for g in gpus)
    assert all(g["confidence"] != "high" for g in gpus[:3] if g["window_s"] < 10)  # so few seconds
    text = lambda: ask("2").stdout
    until(lambda: (t := text()).startswith("GPU 2  H100") and "looked for 3s" in t, text)
    assert ask("471").returncode == 3
    assert ask("1", "2").returncode == 2
    assert ask("").returncode == 2  # of a variable that is not set
    with open("/dev/full", "w", encoding="utf-8") as full:
        lost = subprocess.run([node.stoker, "why", "--for", "2s"], env=env, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    assert (lost.returncode, lost.stderr) == (3, "stoker why: the output could not be written: it is incomplete\n")


@pytest.mark.slow("a whole job; the scenarios' truths hold the verdict too")
def test_checkpoints_are_told_by_why_and_the_jobs_report(agent_on, tmp_path):
    """And the same pauses without writes are not one."""
    journal = tmp_path / "journal.db"
    told = {}
    for scenario in ("checkpointing", "near-miss-pauses"):
        node, agent = agent_on(scenario, speed=10, options=["--clock-speed", 10, "--journal", journal])
        verdicts = lambda gpu: {v["cause"]: v["text"] for v in (gpu, *gpu["beside"])}
        report = lambda a=agent: json.loads(a.verb("jobs", "show", "4711", "--json", "--journal", journal).stdout)
        parts = lambda r: {v["cause"]: v["share"] for v in r["verdicts"]}
        until(lambda: report()["elapsed_s"] > 200, report)  # three pauses are over
        if scenario == "checkpointing":
            gpu = until(lambda: (g := asked(agent, "4711")[0]) and "a checkpoint, every " in verdicts(g).get("checkpoint", "") and g,
                        lambda: asked(agent))
            assert gpu["activity"] == "working" and "tensor_cores" in verdicts(gpu) and "input" not in verdicts(gpu)
            assert "async_save" in gpu["advice"] and {"/proc/PID/io"} <= {e["counter"] for e in gpu["evidence"]}
        else:
            assert all("checkpoint" not in verdicts(g) for g in asked(agent))
        told[scenario] = parts(report())
        agent.stop()
        node.stop()
        journal = tmp_path / "other.db"
    assert 0.02 < told["checkpointing"]["checkpoint"] < 0.25 < told["checkpointing"]["tensor_cores"]
    assert "checkpoint" not in told["near-miss-pauses"]
