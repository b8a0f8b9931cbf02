# SPDX-License-Identifier: Apache-2.0
"""When a sampler has an engine of libdcgm and when it has none. The stand-in is that of test/unit/dcgm/fake.h."""
import pytest
from sampler_kit import lines_of, scenario, values

TWO = "  - {board: a100-sxm4-80gb, count: 2}\n"
ENGINE, TEMP = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_GPU_TEMP"


@pytest.fixture
def begin(node, puppet, build, tmp_path):
    def start(after_ms=0, wanted="all", **env):
        n = node(scenario(TWO), speed=1)
        log = tmp_path / "trace"
        p = puppet(dict(n.env, FAKE_DCGM_GPUS=",".join(n.buses()), FAKE_DCGM_TRACE=str(log), **env))
        p.calls = lambda: [line.split()[1] for line in lines_of(log)]
        p.plan(wanted, normal_ms=1000)
        p.do("dcgm", build / "test" / "unit" / "dcgm" / "libdcgm.so.4", after_ms)
        p.start()
        p.gpus(n.buses())
        return n, p

    return start


def has(value, gpu=0):
    return lambda board: board["gpus"][gpu]["reading"] is not None and values(board, gpu)[ENGINE] == value


def test_from_the_first_pass_to_the_last(begin):
    n, p = begin()
    p.until("values", lambda b: has(10.1001, 0)(b) and has(11.1001, 1)(b))
    p.until("a temperature", lambda b: not isinstance(values(b, 0)[TEMP], str))
    p.plan(f"{TEMP}", normal_ms=1000)
    p.until("no longer wanted", lambda b: p.calls()[-1] == "dcgmShutdown")
    p.until("it is said", has("turned_off"))
    p.plan(f"{ENGINE}", normal_ms=1000)
    p.until("wanted again", has(10.1001))
    p.do("close", 0)
    p.until("the end", lambda b: p.do("ended", 0)["ended"])
    assert p.calls()[-2:] == ["dcgmStopEmbedded", "dcgmShutdown"] and p.calls().count("dcgmInit") == 2
    assert n.reported() == []


def test_not_for_a_while(begin):
    _, p = begin(after_ms=3000)
    p.until("the reason", has("timed_out"))
    assert p.calls() == []
    p.until("values", has(10.1001))


def test_not_while_a_gpu_is_anothers(begin):
    n, p = begin()
    p.until("values", has(10.1001))
    for other in (7, "-"):  # another sampler's; nobody's, as it hangs
        p.do("own", 1, other)
        p.until("closed", has("no_data"))
        assert p.calls()[-1] == "dcgmShutdown"
        p.settle()
        assert p.calls()[-1] == "dcgmShutdown"
        p.do("own", 1, 0)
        p.until("open again", lambda b: has(10.1001, 0)(b) and has(11.1001, 1)(b))
    assert n.reported() == []


def test_a_new_plan_measures_anew(begin):
    _, p = begin(wanted=ENGINE)
    p.until("values", has(10.1001))
    p.plan("DCGM_FI_PROF_DRAM_ACTIVE", normal_ms=1000)
    p.until("values", lambda b: values(b, 0)["DCGM_FI_PROF_DRAM_ACTIVE"] == 10.1005 and values(b, 0)[ENGINE] == "turned_off")
    assert p.calls().count("dcgmInit") == 1


def test_release(begin):
    _, p = begin()
    p.until("values", has(10.1001))
    p.do("release", 3600000)
    p.until("let go", has("released"))
    assert p.calls()[-1] == "dcgmShutdown"
    p.do("release", 0)
    p.until("values", has(10.1001))
