# SPDX-License-Identifier: Apache-2.0
"""Each fault of a simulated node and its near miss: `stoker bench` finds it, names the part that has it and blames nothing else."""
import pytest

FIT, FINDING, UNKNOWN = 0, 1, 3


def at(do, time=0):
    return f"{{time: {time}s, do: {do}}}"


def compute(text):
    return at(f"compute, {text}")


# Name, rung and arguments, steps, exit code, {(severity, symptom): GPUs}, words of the texts.
CASES = [
    ("healthy", "ready", "", FIT, {}, []),
    ("slow memory", "memory", compute("gpu: 3, memory: 0.94"), FINDING, {("degraded", "slow"): {3}}, ["memory", "behind"]),
    ("memory one per cent behind", "memory", compute("gpu: 3, memory: 0.99"), FIT, {}, []),
    ("memory a fault", "memory", compute("gpu: 3, memory: 0.85"), FINDING, {("fault", "slow"): {3}}, []),
    ("slow SM", "matmul", compute("gpu: 2, sm: 17, speed: 0.8"), FINDING, {("degraded", "slow-sm"): {2}}, ["SM 17"]),
    ("SM half a per cent slow", "matmul", compute("gpu: 2, sm: 17, speed: 0.996"), FIT, {}, []),
    ("missing SM", "matmul", compute("gpu: 2, sm_missing: 40"), FINDING, {("fault", "missing-sm"): {2}}, []),
    ("rare wrong results", "ready", compute("gpu: 1, wrong: 1.0e-9, wrong_sm: 9"), FINDING, {("fault", "wrong-values"): {1}}, ["SM 9", "silent"]),
    ("the same wrong result each time", "matmul", compute("gpu: 1, wrong: 1.0e-6, wrong_sm: 9, repeats: yes"), FINDING,
     {("fault", "wrong-values"): {1}}, ["SM 9"]),
    ("results that are no numbers", "matmul", compute("gpu: 1, wrong: 1.0e-6, nan: yes"), FINDING, {("fault", "wrong-values"): {1}}, []),
    ("stuck bit", "memory", compute("gpu: 0, bad_address: 30000001024"), FINDING, {("fault", "wrong-values"): {0}}, []),
    ("corrected ECC errors", "memory", at("ecc, gpu: 1, corrected: 300", 2), FIT, {}, ["300 corrected ECC errors"]),
    ("uncorrectable error", "memory", at("xid, gpu: 2, code: 48", 2), FINDING, {("fault", "memory-error"): {2}}, []),
    ("PCIe idles at Gen1", "links", "", FIT, {}, []),
    ("PCIe at Gen1", "links", at("pcie, gpu: 1, gen: 1"), FINDING, {("fault", "slow"): {1}}, ["PCIe"]),
    ("PCIe with 8 lanes", "links", at("pcie, gpu: 1, width: 8"), FINDING, {("degraded", "slow"): {1}}, ["PCIe"]),
    ("no access", "links", compute("gpu: 1, peer: 3, access: none"), FINDING, {("fault", "no-access"): {1, 3}}, []),
    ("corrupt pair", "links", compute("gpu: 1, peer: 3, access: corrupt"), FINDING, {("fault", "corrupts"): {1, 3}}, []),
    ("one of 18 NVLinks down", "links", at("link, gpu: 2, state: down, link: 3"), FINDING, {("degraded", "slow"): {2}}, ["1 of its NVLinks is down"]),
    ("half of the NVLinks down", "links", ", ".join(at(f"link, gpu: 2, state: down, link: {link}") for link in range(9)), FINDING,
     {("degraded", "slow"): {2}}, ["9 of its NVLinks are down"]),
    ("staged", "links", compute("gpu: 1, peer: 3, access: staged"), FINDING, {("degraded", "staged"): {1, 3}}, []),
    ("power limit", "burn 3s", at("power-limit, gpu: 1, watts: 400"), FIT, {}, []),
    ("memory held by nobody", "memory", compute("gpu: 0, out_of_memory_at: 0.6"), FINDING, {("degraded", "held-memory"): {0}}, []),
    ("fabric manager", "memory", compute("gpu: 0-3, cuda: 802"), UNKNOWN, {("untested", "call-failed"): {0, 1, 2, 3}}, ["fabric manager"]),
]


# A whole `ready`, and links whose data go wrong: seconds of computing each.
LONG = ("rare wrong results", "corrupt pair")


def marks(name):
    return [pytest.mark.slow("computes for seconds")] if name in LONG else []


@pytest.mark.parametrize("rung, steps, code, found, words", [pytest.param(*case, id=name.replace(" ", "-"), marks=marks(name)) for name, *case in CASES])
def test_fault(bench_node, rung, steps, code, found, words):
    result = bench_node(steps=steps).bench(*rung.split())
    assert (result.found(), result.code) == (found, code), result.err + result.texts()
    for word in words:
        assert word in result.texts()


@pytest.mark.parametrize("code, word", [(803, "803"), (100, "100"), (46, "46"), (999, "999"), (221, "221"), (222, "222")])
def test_cuda_does_not_start(bench_node, code, word):
    result = bench_node(count=1, steps=compute(f"gpu: 0, cuda: {code}")).bench("matmul", "--type", "fma.fp32")
    assert result.code == UNKNOWN and result.run["verdict"] == "unknown" and word in result.texts(), result.texts()


def test_without_libcuda(bench_node):
    result = bench_node(count=1).bench("memory", env={"STOKER_CUDA_LIBRARY": "libcuda-is-not-here.so.1"})
    assert result.code == UNKNOWN and "libcuda.so.1 cannot be loaded" in result.texts(), result.texts()


@pytest.mark.slow("computes for seconds")
def test_it_gets_too_hot(bench_node):
    result = bench_node(count=4, steps=at("thermal, gpu: 2, cooling: 0.15", 9)).bench("burn", "20s")
    print(result.texts())
    assert result.code == FINDING and set(result.found()) == {("degraded", "hot")}


def test_one_slow_mig_device(bench_node):
    """A board of instances: the one that has the SM is named, its peers are fit."""
    node = bench_node(count=1, board="h100-sxm-80gb, mig: [1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb]",
                      steps=compute("gpu: 0, sm: 17, speed: 0.8"))
    result = node.bench("matmul", "--type", "mma.bf16")
    print(result.texts())
    assert result.code == FINDING and [len(gpus) for gpus in result.found().values()] == [1]
