# SPDX-License-Identifier: Apache-2.0
"""MIG devices that are made for claims: what is published, made and removed; and what happens when something ends between."""
import contextlib
import json
import random
import subprocess
import threading

import pytest
from agent_rig import until
from dra_rig import DRIVER, grpc
from test_claims import api, files, make_claims, published, registered, spec_of  # noqa: F401

EMPTY = "GPU 0: no instances\nGPU 1: no instances\nGPU 2: MIG disabled\n"


def change(side_node, stoker, tmp_path, *words):
    subprocess.run([stoker, "mig", "apply", "--state", tmp_path / "change.json", "--control", tmp_path / "none.sock", *words],
                   env=side_node.env, check=True, capture_output=True)


@pytest.fixture
def make_split(make_claims, stoker, tmp_path):  # noqa: F811
    """A side with three H100s: two in MIG mode without MIG devices, one that is whole."""
    def make(*words, options=("--dra-dynamic-mig",), count=3):
        scene = tmp_path / "scene.yaml"
        scene.write_text(json.dumps({"about": "GPUs to be split", "work": [], "truth": [], "gpus": {"board": "h100-sxm-80gb", "count": count}}))
        return make_claims(scene, options=options, prepare=lambda node: change(node, stoker, tmp_path, *(words or ("gpu0=none", "gpu1=none"))))

    return make


def layout(side):
    """What the driver has: "GPU 0: ..." with places, a line for each MIG device."""
    return subprocess.run([side.stoker, "mig", "export", "-o", "text"], env=side.node.env, capture_output=True, text=True, check=True).stdout


def fits(pool, names):
    """Whether a scheduler would give all of them out at once."""
    used = {}
    for name in names:
        for use in pool[name]["consumesCounters"]:
            for counter, amount in use["counters"].items():
                used[use["counterSet"], counter] = used.get((use["counterSet"], counter), 0) + int(amount["value"])
    have = {(s["name"], c): int(a["value"]) for s in pool.counters for c, a in s["counters"].items()}
    return all(amount <= have.get(key, 0) for key, amount in used.items())


def kept(tmp_path):
    return json.loads((tmp_path / f"plugins/{DRIVER}/claims.json").read_text())["claims"]


def is_mig(name):
    return "-mig-" in name


def test_all_that_could_be_made_is_published(make_split, api):  # noqa: F811
    side = make_split()
    pool = until(api.pool, side.log_text)
    assert [c["name"] for c in pool.counters] == ["gpu-0-counter-set", "gpu-1-counter-set"]
    assert list(pool)[0] == "gpu-0-mig-1g10gb-19-6" and list(pool)[-1] == "gpu-2" and "gpu-0" not in pool  # the last GPU is whole
    assert sum(is_mig(n) for n in pool) == 2 * (7 + 7 + 4 + 3 + 2 + 1 + 1)
    one = pool["gpu-1-mig-3g40gb-9-4"]
    values = {k: next(iter(v.values())) for k, v in one["attributes"].items()}
    assert values["type"] == "mig" and values["profile"] == "3g.40gb" and values["parentUUID"] == side.uuid(1) and "uuid" not in values
    assert one["capacity"]["multiprocessors"] == {"value": "60"} and int(one["capacity"]["copyEngines"]["value"]) > 0
    assert fits(pool, [f"gpu-0-mig-1g10gb-19-{n}" for n in range(7)]) and not fits(pool, ["gpu-0-mig-7g80gb-0-0", "gpu-0-mig-1g10gb-19-6"])
    assert fits(pool, ["gpu-0-mig-7g80gb-0-0", "gpu-1-mig-1g10gb-19-6"])
    assert not fits(pool, ["gpu-0-mig-1g10gb-me-20-0", "gpu-0-mig-1g10gb-me-20-1"])  # there is one optical flow engine


def test_made_for_a_claim_and_removed_after(make_split, api, tmp_path):  # noqa: F811
    side = make_split()
    until(api.pool, side.log_text)
    names = ["gpu-0-mig-3g40gb-9-4", "gpu-0-mig-1g10gb-19-0", "gpu-1-mig-7g80gb-0-0"]
    both, large = api.claim("both", *names[:2]), api.claim("large", names[2])
    first = side.claims.prepare(both, large)
    assert not any(p.error for p in first.values()), side.log_text()
    assert layout(side) == "GPU 0: 1g.10gb at 0, 3g.40gb at 4-7\nGPU 1: 7g.80gb at 0-7\nGPU 2: MIG disabled\n"
    for device in spec_of(tmp_path, both)["devices"]:
        assert [n["path"].rstrip("0123456789") for n in device["containerEdits"]["deviceNodes"]] == ["/dev/nvidia", *["/dev/nvidia-caps/nvidia-cap"] * 2]
    until(lambda: sum(map(is_mig, api.pool() or [])) == 50, side.log_text)  # what is published stays as it is
    assert side.claims.prepare(both)["uid-both"].devices == first["uid-both"].devices
    other = api.claim("other", names[0])
    assert "held by claim ns/both (uid-both), which is still prepared" in side.claims.prepare(other)["uid-other"].error
    assert side.claims.unprepare(both) == {"uid-both": ""}
    until(lambda: layout(side) == "GPU 0: no instances\nGPU 1: 7g.80gb at 0-7\nGPU 2: MIG disabled\n", lambda: layout(side) + side.log_text())
    assert side.claims.unprepare(large, both) == {"uid-large": "", "uid-both": ""}
    until(lambda: layout(side) == EMPTY, lambda: layout(side) + side.log_text())
    until(lambda: not kept(tmp_path), side.log_text)
    assert not files(tmp_path)


def test_what_the_counters_allow_can_be_made(make_split, api, tmp_path):  # noqa: F811
    side = make_split(count=1, *["gpu0=none"])
    pool = until(api.pool, side.log_text)
    chance = random.Random(7)
    for attempt in range(4):
        chosen = []
        for name in chance.sample(list(pool), len(pool)):
            if fits(pool, [*chosen, name]):
                chosen.append(name)
        claim = api.claim(f"c{attempt}", *chosen)
        assert not side.claims.prepare(claim)[f"uid-c{attempt}"].error, (chosen, side.log_text())
        refused = api.claim("r", next(n for n in pool if n not in chosen))
        assert "cannot be made" in side.claims.prepare(refused)["uid-r"].error
        side.claims.unprepare(refused, claim)
        until(lambda: not kept(tmp_path), side.log_text)
        assert layout(side) == "GPU 0: no instances\n"


def test_what_an_operator_made_is_left_alone(make_split, api, stoker, tmp_path):  # noqa: F811
    side = make_split("gpu0=1g.10gb", "gpu1=none")
    pool = until(api.pool, side.log_text)
    own, = [n for n in pool if n.startswith("gpu-0-")]
    assert pool[own]["attributes"]["uuid"]["string"].startswith("MIG-") and [c["name"] for c in pool.counters] == ["gpu-1-counter-set"]
    held = api.claim("held", own)
    assert not side.claims.prepare(held)["uid-held"].error
    side.claims.unprepare(held)
    assert "1g.10gb" in layout(side)
    made = api.claim("made", "gpu-1-mig-1g10gb-19-6")
    assert not side.claims.prepare(made)["uid-made"].error
    change(side.node, stoker, tmp_path, "gpu1=2x1g.10gb")  # an operator adds another beside it
    until(lambda: (pool := api.pool()) and not pool.counters and sum(n.startswith("gpu-1-") for n in pool) == 2, lambda: f"{api.slices} {side.log_text()}")
    side.claims.unprepare(made)
    until(lambda: (pool := api.pool()) and sum(n.startswith("gpu-1-") for n in pool) == 1, lambda: f"{api.slices} {side.log_text()}")


def test_a_server_without_counters_sees_no_such_device(make_split, api):  # noqa: F811
    api.keeps_counters = False
    side = make_split()
    published(side, api, 1)
    assert list(api.pool()) == ["gpu-2"]
    assert side.log_text().count("does not take counters of devices") == 1


def test_a_fault_of_the_gpu_is_a_taint_of_all_of_it(make_split, api):  # noqa: F811
    side = make_split()
    until(api.pool, side.log_text)
    held = api.claim("held", "gpu-0-mig-1g10gb-19-6")
    assert not side.claims.prepare(held)["uid-held"].error
    side.node.inject("xid", "79", "gpu=0")
    pool = until(lambda: (pool := api.pool()) and sum("taints" in device for device in pool.values()) == 25 and pool,
                 lambda: f"{api.slices} {side.log_text()}")
    assert {n for n in pool if "taints" in pool[n]} == {n for n in pool if n.startswith("gpu-0-")} and len(pool.counters) == 2
    refused = api.claim("r", "gpu-0-mig-1g10gb-19-0")
    assert "cannot be used now" in side.claims.prepare(refused)["uid-r"].error


def test_one_that_is_in_use_is_removed_when_it_is_not(make_split, api):  # noqa: F811
    side = make_split()
    until(api.pool, side.log_text)
    held, next_one = api.claim("held", "gpu-0-mig-1g10gb-19-6"), api.claim("next", "gpu-0-mig-1g10gb-19-6")
    assert not side.claims.prepare(held)["uid-held"].error
    side.node.inject("work", "decode", "gpus=0", "mig=0", "name=late")
    side.claims.unprepare(held)
    until(lambda: "gpu-0-mig-1g10gb-19-6 cannot be removed" in side.log_text(), side.log_text)
    assert "just being unprepared" in side.claims.prepare(next_one)["uid-next"].error  # a new pod gets no device with an old process
    side.node.inject("stop", "late")
    until(lambda: layout(side) == EMPTY, lambda: layout(side) + side.log_text())
    until(lambda: not side.claims.prepare(next_one)["uid-next"].error, side.log_text)


@pytest.mark.parametrize("rounds", [4, pytest.param(30, marks=pytest.mark.slow("kills at many more instants"))])
def test_killed_while_it_makes_and_removes(make_split, api, tmp_path, rounds):  # noqa: F811
    side = make_split()
    pool = until(api.pool, side.log_text)
    names = [n for n in pool if n.startswith("gpu-0-mig-2g20gb-") or n == "gpu-0-mig-1g10gb-19-6"]
    claims = [api.claim(f"c{i}", name) for i, name in enumerate(names)]
    assert len(claims) == 4 and fits(pool, names)
    chance = random.Random(rounds)
    done = {}
    for _ in range(rounds):
        timer = threading.Timer(chance.uniform(0, 1.5), side.process.kill)
        timer.start()
        with contextlib.suppress(grpc.RpcError):
            while True:
                claim = chance.choice(claims)
                if done.pop(claim["metadata"]["name"], None):
                    side.claims.unprepare(claim)
                elif not (prepared := next(iter(side.claims.prepare(claim).values()))).error:
                    done[claim["metadata"]["name"]] = prepared.devices
        timer.join()
        side.process.wait()
        side.start()
        until(lambda: registered(side), side.log_text)
        for name, devices in done.items():  # what the kubelet was told is there
            assert next(iter(side.claims.prepare(claims[int(name[1:])]).values())).devices == devices
    side.claims.unprepare(*claims)
    until(lambda: layout(side) == EMPTY, lambda: layout(side) + side.log_text())  # and nothing else is left
    until(lambda: not kept(tmp_path), side.log_text)


def test_wrong_words(stoker):
    def refused(*words):
        done = subprocess.run([stoker, "kubelet", *words], capture_output=True, text=True, env={"PATH": "/bin"})
        assert done.returncode == 2
        return done.stderr

    assert "--dra-driver is needed too" in refused("--dra-dynamic-mig")
    assert "make or remove, a GPU's UUID" in refused("instance", "create", "GPU-1", "19", "0")
    assert "'x'" in refused("instance", "make", "GPU-1", "x", "0")
