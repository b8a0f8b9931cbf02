# SPDX-License-Identifier: Apache-2.0
"""What the sampler says of NVLink between GPUs: what nvidia-smi says, and nothing where nobody can know."""
import subprocess

import pytest

import sampler_kit as kit
from sampler_kit import scenario

THREE = "  - {board: h100-nvl-94gb, count: 3}\n"  # a bridge joins the first two
P2P = "DCGM_EXP_P2P_STATUS"
OK, GPU_NOT_SUPPORTED, NOT_SUPPORTED, UNKNOWN = 0, 2, 5, 6
WORDS = {"OK": OK, "GNS": GPU_NOT_SUPPORTED, "NS": NOT_SUPPORTED}
SELF = "not_yet"
BRIDGED = [[SELF, OK, NOT_SUPPORTED], [OK, SELF, NOT_SUPPORTED], [NOT_SUPPORTED, NOT_SUPPORTED, SELF]]


def begin(node, puppet, text=None, wanted=P2P, own=None, slow_ms=60):
    n = node(text or scenario(THREE))
    p = puppet(n.env)
    p.plan(wanted, slow_ms=slow_ms)
    p.start()
    p.gpus(n.buses() if own is None else own(n.buses()))
    return n, p


def matrix(board):
    return [gpu["peers"] for gpu in board["gpus"]]


def shows(p, rows):
    return p.until(f"peers {rows}", lambda b: matrix(b) == rows)


def test_it_is_what_nvidia_smi_shows(node, puppet):
    n, p = begin(node, puppet, scenario("  - {board: h100-nvl-94gb, count: 3}\n  - {board: h100-sxm-80gb, count: 2}\n"
                                        "  - {board: l40s, count: 1}\n"))
    out = subprocess.run(["nvidia-smi", "topo", "-p2p", "n"], env=n.env, check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in out.splitlines() if line.lstrip().startswith("GPU")][1:]
    smi = [[SELF if word == "X" else WORDS[word] for word in row[1:]] for row in rows]
    assert len(smi) == 6 and sum(row.count(OK) for row in smi) == 4, out  # a pair by bridge, a pair by switch
    shows(p, smi)
    assert n.reported() == []


def test_a_link_that_goes_and_comes(node, puppet):
    n, p = begin(node, puppet)
    shows(p, BRIDGED)
    n.inject("link", "gpu=1", "down")
    none = [[SELF if i == k else NOT_SUPPORTED for k in range(3)] for i in range(3)]
    shows(p, none)
    n.inject("link", "gpu=1", "up")
    shows(p, BRIDGED)


def test_nobody_asked_for_it(node, puppet):
    n, p = begin(node, puppet, wanted="DCGM_FI_DEV_POWER_USAGE")
    p.up(0, 1, 2)
    assert matrix(p.settle()) == [[SELF] * 3] * 3
    p.do("plan", P2P)
    shows(p, BRIDGED)
    p.do("plan", "none")
    shows(p, [[SELF] * 3] * 3)


def test_mig_has_none(node, puppet):
    mig = "  - {board: h100-sxm-80gb, mig: [1g.10gb]}\n  - {board: h100-sxm-80gb, count: 2}\n"
    _, p = begin(node, puppet, scenario(mig))
    shows(p, [[SELF, 2, 2], [2, SELF, OK], [2, OK, SELF]])


def test_a_gpu_with_a_sampler_of_its_own_is_unknown_both_ways(node, puppet):
    n, p = begin(node, puppet)
    shows(p, BRIDGED)
    p.do("own", 1, "-")
    p.start(1, attach="no-attach")
    p.do("own", 1, 1)
    shows(p, [[SELF, UNKNOWN, NOT_SUPPORTED], [UNKNOWN, SELF, UNKNOWN], [NOT_SUPPORTED, UNKNOWN, SELF]])
    p.do("own", 1, 0)  # back again: known at once, and not only at the next slow turn
    shows(p, BRIDGED)


def test_who_comes_back_is_asked_about_at_once(node, puppet):
    """The slow turn is an hour away."""
    n, p = begin(node, puppet, own=lambda buses: buses[:1], slow_ms=3600000)
    p.up(0)
    p.gpus(n.buses()[1:])
    shows(p, BRIDGED)


@pytest.mark.parametrize("fault, code, reason", [("lost", kit.LOST, "gpu_lost"),
                                                 ("reset-required", kit.RESET_REQUIRED, "reset_required")])
def test_a_lost_peer_is_unknown_and_takes_nobody_along(node, puppet, fault, code, reason):
    n, p = begin(node, puppet)
    shows(p, BRIDGED)
    n.inject(fault, "gpu=1")
    board = shows(p, [[SELF, UNKNOWN, NOT_SUPPORTED], [reason, SELF, reason], [NOT_SUPPORTED, UNKNOWN, SELF]])
    p.settle()
    board = p.until("its outcome", lambda b: [g["outcome"] for g in b["gpus"]] == [kit.FINE, code, kit.FINE])
    assert board["gpus"][0]["failed"] == board["gpus"][2]["failed"] == 0


@pytest.mark.parametrize("answer, status, shown", [
    (0, 0, 0), (0, 1, 1), (0, 3, 3), (0, 4, 4), (0, 6, 6), (0, 7, UNKNOWN), (0, -1, UNKNOWN),  # numbers of newer drivers
    (15, 0, UNKNOWN), (16, 0, UNKNOWN),  # one of the two is lost, or wants a reset
    (2, 0, "not_supported"), (3, 0, "not_supported"), (4, 0, "no_permission"), (13, 0, "driver_lacks"), (10, 0, "timed_out"),
    (999, 0, "failed")])
def test_what_the_driver_answers(on_fake_driver, answer, status, shown):
    """An answer about two GPUs says nothing of either: both stay fine."""
    p = on_fake_driver(P2P, buses=["00000000:3B:00.0", "00000000:3C:00.0"], FAKE_P2P=f"{answer} {status}")
    shows(p, [[SELF, shown], [shown, SELF]])
    board = p.settle()
    assert [(g["outcome"], g["failed"]) for g in board["gpus"]] == [(kit.FINE, 0)] * 2
    assert board["samplers"][0]["driver"] == kit.DRIVER_FINE


def test_a_call_that_hangs_names_no_gpu(node, puppet):
    n, p = begin(node, puppet)
    shows(p, BRIDGED)
    n.inject("hang", "gpu=1", "nvmlDeviceGetP2PStatus")
    board = p.until("a hang", lambda b: b["samplers"][0]["call_ms"] > 200)
    sampler = board["samplers"][0]
    assert sampler["function"] == "nvmlDeviceGetP2PStatus" and sampler["call_gpu"] == -1 and sampler["limit_ms"] == 0


def test_pairs_are_left_alone_when_told(node, puppet):
    n, p = begin(node, puppet)
    shows(p, BRIDGED)
    n.inject("hang", "gpu=all", "nvmlDeviceGetP2PStatus", "delay=1ms")  # whoever asked would be seen in it
    p.do("pause", 3600000)
    late = "timed_out"
    shows(p, [[SELF, late, late], [late, SELF, late], [late, late, SELF]])
    n.inject("hang", "clear=on")
    p.do("pause", 0)
    shows(p, BRIDGED)


def test_what_comes_back_late_is_not_published(node, puppet):
    n, p = begin(node, puppet)
    shows(p, BRIDGED)
    n.inject("link", "gpu=1", "down")
    n.inject("hang", "gpu=0", "nvmlDeviceGetP2PStatus", "delay=3s")
    p.until("a hang", lambda b: b["samplers"][0]["call_ms"] > 50)
    before = p.dump()["gpus"][0]["peers"]
    p.do("own", 0, "-")
    p.until("back", lambda b: not b["samplers"][0]["in_call"])
    assert p.settle()["gpus"][0]["peers"] == before


def test_a_fresh_sampler_does_not_show_the_numbers_of_the_one_before(node, puppet):
    n, p = begin(node, puppet)
    shows(p, BRIDGED)
    p.do("signal", 0, 9)
    p.until("the end", lambda b: p.do("ended", 0)["ended"])
    p.do("plan", "DCGM_FI_DEV_POWER_USAGE")
    p.start(1)
    for gpu in range(3):
        p.do("own", gpu, 1)
    shows(p, [[SELF] * 3] * 3)
