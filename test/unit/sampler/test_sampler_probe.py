# SPDX-License-Identifier: Apache-2.0
"""What an operator announces by draining a GPU, and what a new client of the driver is told."""
import sampler_kit as kit
from sampler_kit import scenario

TWO = "  - {board: h100-sxm-80gb, count: 2}\n"
UNLOADED, MISMATCH, REFUSES, NO_LIBRARY = 2, 3, 6, 7  # NodeDriver


def begin(node, puppet, driver=590):
    n = node(scenario(TWO, driver=driver))
    p = puppet(n.env)
    p.plan()
    p.start()
    p.gpus(n.buses())
    p.up(0, 1)
    return n, p


def drained(board):
    return [gpu["drained"] for gpu in board["gpus"]]


def test_a_gpu_is_drained_and_no_longer(node, puppet):
    n, p = begin(node, puppet)
    p.until("asked", lambda b: drained(b) == [1, 1])
    n.inject("set", "gpu=1", "drain=on")
    p.until("drained", lambda b: drained(b) == [1, 2])
    assert p.settle()["gpus"][1]["outcome"] == kit.FINE  # those who were there before go on
    n.inject("set", "gpu=1", "drain=off")
    p.until("not drained", lambda b: drained(b) == [1, 1])
    assert n.reported() == []


def test_the_last_word_stays_while_it_is_gone(node, puppet):
    n, p = begin(node, puppet)
    n.inject("set", "gpu=1", "drain=on")
    p.until("drained", lambda b: drained(b) == [1, 2])
    n.inject("plug", "gpu=1", "what=remove", "for=1h")
    board = p.until("gone", lambda b: b["gpus"][1]["outcome"] != kit.FINE)
    board = p.until("tried again", lambda b: b["gpus"][1]["failed"] > board["gpus"][1]["failed"])
    assert drained(board) == [1, 2]
    p.do("own", 1, "-")
    assert drained(p.settle()) == [1, 2]


def probe(p, slot=1, library=""):
    """Its last word, once it has ended by itself."""
    p.start(slot, "probe", library)
    for _ in range(kit.PATIENCE_S * 100):
        end = p.do("ended", slot)
        if end["ended"]:
            assert end == {"ended": True, "status": 0}
            return p.dump()["samplers"][slot]
        kit.time.sleep(0.01)
    raise AssertionError("the probe does not end")


def test_a_new_client_is_served(node, puppet):
    n, p = begin(node, puppet)
    said = probe(p)
    assert (said["driver"], said["trouble"], said["code"], said["why"]) == (kit.DRIVER_RELEASED, 0, 0, "")
    assert not said["in_call"] and said["passes"] == 0
    assert p.settle()["gpus"][0]["outcome"] == kit.FINE
    assert n.reported() == []


def test_new_clients_are_refused_while_the_old_one_goes_on(node, puppet):
    n, p = begin(node, puppet)
    for state, trouble, code, word in (("unknown-error", REFUSES, 999, "error 999"), ("loaded", 0, 0, "")):
        n.inject("driver", f"state={state}")
        said = probe(p)
        assert (said["trouble"], said["code"]) == (trouble, code) and word in said["why"], said
        assert said["driver"] == (kit.DRIVER_INIT_FAILED if code else kit.DRIVER_RELEASED)
        board = p.settle()
        assert [g["outcome"] for g in board["gpus"]] == [kit.FINE] * 2 and board["samplers"][0]["driver"] == kit.DRIVER_FINE
    assert n.reported() == []


def test_a_probe_without_a_library(node, puppet):
    _, p = begin(node, puppet)
    said = probe(p, library="/nowhere/libnvidia-ml.so.1")
    assert (said["driver"], said["trouble"]) == (kit.DRIVER_NO_LIBRARY, NO_LIBRARY) and "/nowhere" in said["why"]


def test_a_sampler_says_what_it_is_refused_with(node, puppet):
    n = node(scenario(TWO))
    n.inject("driver", "state=mismatch")
    p = puppet(n.env)
    p.plan()
    p.start()
    board = p.until("refused", lambda b: b["samplers"][0]["driver"] == kit.DRIVER_INIT_FAILED)
    assert (board["samplers"][0]["trouble"], board["samplers"][0]["code"]) == (MISMATCH, 18)
    n.inject("driver", "state=unloaded")
    board = p.until("not loaded", lambda b: b["samplers"][0]["code"] == 9)
    assert board["samplers"][0]["trouble"] == UNLOADED
    n.inject("driver", "state=loaded")
    board = p.until("fine", lambda b: b["samplers"][0]["driver"] == kit.DRIVER_FINE)
    assert (board["samplers"][0]["trouble"], board["samplers"][0]["code"]) == (0, 0)
