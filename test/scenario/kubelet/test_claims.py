# SPDX-License-Identifier: Apache-2.0
"""Dynamic resource allocation: what is published, claims prepared and unprepared, health; and what happens when the parties die,
lie and come back."""
import contextlib
import json
import random
import signal
import threading

import pytest
from agent_rig import until
from dra_rig import DRIVER, SLICES, Api, DraKubelet, config, grpc

KIND = f"k8s.{DRIVER}/claim"


@pytest.fixture
def api(tmp_path):
    server = Api(tmp_path)
    yield server
    server.stop()
    assert not server.wrong


@pytest.fixture
def make_claims(make_side, api, tmp_path):
    """A side that offers by claims, with its kubelet registered."""
    made = []

    def make(*scenario, calls="v1", options=(), **more):
        side = make_side(*scenario, options=[*options, "--dra-driver", DRIVER, "--node-name", "worker-7", "--plugins-path", tmp_path / "plugins",
                                             "--plugins-registry", tmp_path, "--cdi-root", tmp_path / "cdi",
                                             "--kubernetes-account", api.account], environ=api.env, **more)
        side.claims = DraKubelet(tmp_path, calls)
        made.append(side.claims)
        until((tmp_path / f"{DRIVER}-reg.sock").exists, side.log_text)
        side.claims.register()
        return side

    yield make
    for kubelet in made:
        kubelet.close()


def published(side, api, count):
    return until(lambda: (pool := api.pool()) and len(pool) == count and pool, lambda: f"{api.slices} {side.log_text()}")


def spec_of(tmp_path, claim):
    return json.loads((tmp_path / f"cdi/k8s.{DRIVER}-claim_{claim['metadata']['uid']}.json").read_text())


def files(tmp_path):
    return sorted(p.name for p in (tmp_path / "cdi").glob("*")) if (tmp_path / "cdi").exists() else []


# -- what is published ------------------------------------------------------------------------------------------------

def test_gpus_are_published(make_claims, api):
    side = make_claims()
    pool = published(side, api, 8)
    assert list(pool) == [f"gpu-{n}" for n in range(8)]
    one = pool["gpu-3"]
    values = {k: next(iter(v.values())) for k, v in one["attributes"].items()}
    gpu = side.agent.gpus()[3]
    assert values["type"] == "gpu" and values["uuid"] == gpu["uuid"] and values["productName"] == gpu["name"]
    assert values["architecture"] == "Hopper" and values["cudaComputeCapability"] == "9.0.0"
    assert values["resource.kubernetes.io/pciBusID"].count(":") == 2 and values["resource.kubernetes.io/pcieRoot"].startswith("pci")
    assert one["capacity"]["memory"]["value"].endswith("Mi")
    assert side.claims.versions == ["v1.DRAPlugin", "v1beta1.DRAPlugin", "v1alpha1.DRAResourceHealth"] and side.claims.endpoint.startswith("/")
    assert not side.kubelet.registered  # not by the device plugin too: nothing is counted twice
    side.claims.register()
    assert not side.claims.prepare(api.claim("a", "gpu-0"))["uid-a"].error
    assert [w[0] for w in api.writes] == ["POST"]  # nothing has changed


def test_mig_devices_are_published(make_claims, api):
    side = make_claims("mig-balanced")
    pool = until(api.pool, side.log_text)
    memories = [int(d["capacity"]["memory"]["value"][:-2]) for d in pool.values() if "profile" in d["attributes"]]
    assert memories and memories == sorted(memories)  # the small ones are taken first
    for name, device in pool.items():
        values = {k: next(iter(v.values())) for k, v in device["attributes"].items()}
        if values["type"] == "mig":
            assert name.startswith("gpu-") and values["profile"].replace(".", "") in name and values["parentUUID"].startswith("GPU-")
            assert "memorySlice" + name.rpartition("-")[2] in device["capacity"]
        else:
            assert name == f"gpu-{[g['uuid'] for g in side.agent.gpus()].index(values['uuid'])}"


def test_a_pool_of_two_slices_is_never_mixed(make_claims, api, tmp_path):
    scene = tmp_path / "scene.yaml"
    scene.write_text(json.dumps({"about": "many MIG devices", "work": [], "truth": [],
                                 "gpus": {"board": "h100-sxm-80gb", "count": 10, "mig": ["1g.10gb"] * 7}}))
    side = make_claims(scene)
    published(side, api, 70)
    assert [len(s["spec"]["devices"]) for s in api.slices] == [64, 6]
    last = list(api.pool())[-1].split("-")[1]
    side.node.inject("xid", "79", f"gpu={last}")  # all of its seven devices, one in the first slice, six in the other
    until(lambda: (pool := api.pool()) and sum("taints" in d for d in pool.values()) == 7, lambda: f"{api.slices} {side.log_text()}")
    assert len(api.pool()) == 70
    assert len({d["attributes"]["parentUUID"]["string"] for d in api.pool().values() if "taints" in d}) == 1
    assert {s["spec"]["pool"]["generation"] for s in api.slices} == {2}
    lost = api.slices[0]["metadata"]["name"]
    api.lists[SLICES] = api.slices[1:]  # somebody removes one of them
    side.claims.register()
    published(side, api, 70)
    assert {s["spec"]["pool"]["generation"] for s in api.slices} == {2} and api.writes[-1][0] == "POST"
    assert api.writes[-1][2]["metadata"]["name"] == lost


@pytest.mark.parametrize("no_watch", [False, True])
def test_a_wiped_pool_comes_back(make_claims, api, no_watch):
    api.no_watch = no_watch
    side = make_claims()
    published(side, api, 8)
    for _ in range(3):
        api.wipe()
        side.claims.register()
        published(side, api, 8)
    assert side.log_text().count("registered with the kubelet") == 4


def test_a_fault_is_a_taint_and_ends(make_claims, api):
    side = make_claims()
    published(side, api, 8)
    side.claims.watch()
    until(lambda: side.claims.health and set(h for h, _ in side.claims.health[-1].values()) == {1}, side.log_text)
    side.node.inject("xid", "79", "gpu=3")
    until(lambda: "taints" in api.pool()["gpu-3"], side.log_text)
    taint, = api.pool()["gpu-3"]["taints"]
    assert taint["key"] == f"{DRIVER}/unhealthy" and taint["effect"] == "NoSchedule" and taint["value"]
    assert sum("taints" in d for d in api.pool().values()) == 1
    assert api.slices[0]["spec"]["pool"]["generation"] == 1  # one slice is changed within its generation
    until(lambda: side.claims.health[-1]["gpu-3"][0] == 2, side.log_text)
    assert "GPU 3" in side.claims.health[-1]["gpu-3"][1] and side.claims.health[-1]["gpu-2"] == (1, "")
    claim, wanted = api.claim("a", "gpu-3"), api.claim("b", {"request": "gpu", "device": "gpu-3", "tolerations": [{"operator": "Exists"}]})
    assert "gpu-3 cannot be used now: GPU 3" in side.claims.prepare(claim)["uid-a"].error
    assert not side.claims.prepare(wanted)["uid-b"].error
    side.node.inject("reset", "gpu=3")
    until(lambda: "taints" not in api.pool()["gpu-3"], side.log_text)
    until(lambda: side.claims.health[-1]["gpu-3"] == (1, ""), side.log_text)


def test_a_server_without_taints_does_not_see_what_is_unhealthy(make_claims, api):
    api.keeps_taints = False
    side = make_claims()
    published(side, api, 8)
    side.node.inject("xid", "79", "gpu=3")
    assert "gpu-3" not in published(side, api, 7)
    side.node.inject("reset", "gpu=3")
    published(side, api, 8)


def test_a_server_that_refuses_is_asked_again(make_claims, api):
    api.fail = (403, {"kind": "Status", "message": "resourceslices are forbidden, says the server", "code": 403})
    side = make_claims()
    until(lambda: "forbidden, says the server" in side.log_text(), side.log_text)
    claim = api.claim("a", "gpu-1")
    assert "forbidden, says the server" in side.claims.prepare(claim)["uid-a"].error
    api.fail = None
    published(side, api, 8)
    assert not side.claims.prepare(claim)["uid-a"].error


# -- claims -----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("calls", ["v1", "v1beta1"])
def test_a_claim_is_prepared_alike_each_time(make_claims, api, tmp_path, calls):
    side = make_claims(calls=calls)
    claim = api.claim("a", "gpu-0", {"request": "more/big", "device": "gpu-5"})
    first = side.claims.prepare(claim, raw=True)
    path = tmp_path / f"cdi/k8s.{DRIVER}-claim_uid-a.json"
    written = path.stat().st_mtime_ns
    asked = api.count("/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/a")
    assert side.claims.prepare(claim, raw=True) == first and path.stat().st_mtime_ns == written
    assert api.count("/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/a") == asked == 1
    prepared = side.claims.prepare(claim)["uid-a"]
    assert [(d["requests"], d["pool"], d["name"], d["cdi"]) for d in prepared.devices] == [
        (["gpu"], "worker-7", "gpu-0", [f"{KIND}=uid-a-gpu-0"]), (["more"], "worker-7", "gpu-5", [f"{KIND}=uid-a-gpu-5"])]
    spec = spec_of(tmp_path, claim)
    assert spec["kind"] == KIND and spec["cdiVersion"] == "0.5.0"
    nodes = {d["name"]: [n["path"] for n in d["containerEdits"]["deviceNodes"]] for d in spec["devices"]}
    assert nodes == {"uid-a-gpu-0": ["/dev/nvidia0"], "uid-a-gpu-5": ["/dev/nvidia5"]}
    assert {"/dev/nvidiactl", "/dev/nvidia-uvm"} <= {n["path"] for n in spec["containerEdits"]["deviceNodes"]}
    assert side.claims.unprepare(claim) == {"uid-a": ""} == side.claims.unprepare(claim)
    twice = api.claim("twice", "gpu-3")
    assert [p.error for p in side.claims.prepare(twice, twice).values()] == [""]  # both were read before one was prepared
    side.claims.unprepare(twice)
    assert not files(tmp_path) and json.loads((tmp_path / f"plugins/{DRIVER}/claims.json").read_text())["claims"] == []


def test_a_mig_device_by_claim(make_claims, api, tmp_path):
    side = make_claims("mig-balanced")
    pool = until(api.pool, side.log_text)
    name = next(n for n in pool if "-mig-" in n)
    claim = api.claim("a", name)
    assert not side.claims.prepare(claim)["uid-a"].error
    device, = spec_of(tmp_path, claim)["devices"]
    paths = [n["path"] for n in device["containerEdits"]["deviceNodes"]]
    assert paths[0] == "/dev/nvidia" + name.split("-")[1] and len(paths) == 3 and all("nvidia-cap" in p for p in paths[1:])


def test_what_cannot_be_prepared_says_why_and_holds_up_no_other(make_claims, api, tmp_path):
    side = make_claims()
    fine, foreign = api.claim("fine", "gpu-0"), api.claim("nic", {"request": "n", "driver": "nic.example.com", "device": "gpu-1"}, "gpu-1")
    other = api.claim("other", "gpu-2", uid="uid-now")
    replaced = {"metadata": {**other["metadata"], "uid": "uid-before"}}
    waiting = api.claim("waiting")
    waiting["status"] = {}
    gone = {"metadata": {"name": "gone", "namespace": "ns", "uid": "uid-gone"}}
    unknown, evil = api.claim("unknown", "gpu-77"), {"metadata": {"name": "../../x", "namespace": "ns", "uid": "uid-evil"}}
    sly = {"metadata": {"name": "x", "namespace": "ns", "uid": "../../../etc/x"}}
    reply = side.claims.prepare(fine, foreign, replaced, waiting, gone, unknown, evil, sly)
    errors = {uid: p.error for uid, p in reply.items() if p.error}
    assert reply.keys() - errors.keys() == {"uid-fine", "uid-nic"}
    assert [d["name"] for d in reply["uid-nic"].devices] == ["gpu-1"]
    assert "is another one now (uid-now)" in errors["uid-before"] and "it is not allocated" in errors["uid-waiting"]
    assert "could not find" in errors["uid-gone"] and "no device gpu-77 any more" in errors["uid-unknown"]
    assert "is none" in errors["uid-evil"] and "is none" in errors["../../../etc/x"]
    kept = (tmp_path / f"plugins/{DRIVER}/claims.json").read_text()
    assert "uid-fine" in kept and "uid-unknown" not in kept and len(files(tmp_path)) == 2


def test_a_device_is_held_once(make_claims, api, tmp_path):
    side = make_claims()
    first, second = api.claim("first", "gpu-4"), api.claim("second", "gpu-4")
    watcher = api.claim("watcher", {"request": "gpu", "device": "gpu-4", "adminAccess": True})
    assert not side.claims.prepare(first)["uid-first"].error
    assert "held by claim ns/first (uid-first)" in side.claims.prepare(second)["uid-second"].error
    assert not side.claims.prepare(watcher)["uid-watcher"].error
    side.claims.unprepare(watcher)
    assert "held by claim ns/first" in side.claims.prepare(second)["uid-second"].error
    side.claims.unprepare(first)
    assert not side.claims.prepare(second)["uid-second"].error


def test_a_missing_device_file_is_no_success(make_claims, api, tmp_path):
    side = make_claims()
    claim = api.claim("a", "gpu-6")
    node = side.node.tree / "dev/nvidia6"
    node.rename(tmp_path / "away")
    assert "/dev/nvidia6 is not on this node" in side.claims.prepare(claim)["uid-a"].error and not files(tmp_path)
    (tmp_path / "away").rename(node)
    assert not side.claims.prepare(claim)["uid-a"].error


def test_claims_of_nvidias_driver_are_left_alone_until_they_end(make_claims, api, tmp_path):
    (tmp_path / "cdi").mkdir()
    for uid in ("uid-a", "uid-b"):
        (tmp_path / f"cdi/k8s.{DRIVER}-claim_{uid}.yaml").write_text("kind: k8s.gpu.nvidia.com/claim\n")
    side = make_claims()
    assert len(files(tmp_path)) == 2
    claim = api.claim("a", "gpu-1")
    assert not side.claims.prepare(claim)["uid-a"].error  # again, by this one: a device in two files would be none
    assert files(tmp_path) == [f"k8s.{DRIVER}-claim_uid-a.json", f"k8s.{DRIVER}-claim_uid-b.yaml"]
    other = {"metadata": {"name": "b", "namespace": "ns", "uid": "uid-b"}}
    assert side.claims.unprepare(claim, other) == {"uid-a": "", "uid-b": ""} and not files(tmp_path)


# -- sharing ----------------------------------------------------------------------------------------------------------

TIME = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}
MPS = {"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 30, "defaultPinnedDeviceMemoryLimit": "10Gi",
                                        "defaultPerDevicePinnedMemoryLimit": {"1": "4Gi"}}}


def sharing_side(make_claims, driver):
    return make_claims(options=["--driver-root-ctr-path", driver.root])


def test_a_time_slice_is_set_and_taken_back(make_claims, api, driver):
    side = sharing_side(make_claims, driver)
    uuids = {n: d["attributes"]["uuid"]["string"] for n, d in published(side, api, 8).items()}
    claim = api.claim("a", "gpu-2", {"request": "other", "device": "gpu-3"}, config=[config(requests=["gpu"], sharing=TIME)])
    watcher = api.claim("watcher", {"request": "gpu", "device": "gpu-2", "adminAccess": True}, config=[config(sharing=TIME)])
    assert not side.claims.prepare(claim)["uid-a"].error
    assert driver.log() == [f"slice {uuids['gpu-2']} 3"]
    side.claims.prepare(watcher)
    side.claims.unprepare(watcher)
    assert driver.log() == [f"slice {uuids['gpu-2']} 3"]  # whoever looks on changes nothing
    (driver.state / f"refuse-{uuids['gpu-4']}").touch()
    refused = api.claim("r", "gpu-4", config=[config(sharing=TIME)])
    assert f"the time slice of {uuids['gpu-4']} cannot be set" in side.claims.prepare(refused)["uid-r"].error
    (driver.state / f"refuse-{uuids['gpu-4']}").unlink()
    assert not side.claims.prepare(refused)["uid-r"].error
    # killed before it is taken back
    (driver.state / f"hang-{uuids['gpu-2']}").touch()
    assert side.claims.unprepare(claim) == {"uid-a": ""}
    side.process.kill()
    side.process.wait()
    (driver.state / f"hang-{uuids['gpu-2']}").unlink()
    before = len(driver.log())
    side.start()
    until(lambda: f"slice {uuids['gpu-2']} 0" in driver.log()[before:], side.log_text)
    until(lambda: registered(side), side.log_text)
    until(lambda: "uid-a" not in (side.tmp / f"plugins/{DRIVER}/claims.json").read_text(), side.log_text)
    assert not side.claims.prepare(api.claim("b", "gpu-2"))["uid-b"].error


def test_a_claim_shared_by_mps_has_a_daemon(make_claims, api, tmp_path, driver):
    side = sharing_side(make_claims, driver)
    uuids = {n: d["attributes"]["uuid"]["string"] for n, d in published(side, api, 8).items()}
    claim = api.claim("a", "gpu-5", "gpu-1", config=[config("GpuConfig", requests=["gpu"], sharing=MPS)])
    claim["status"]["allocation"]["devices"]["results"][1]["request"] = "gpu/big"
    prepared = side.claims.prepare(claim)["uid-a"]
    assert not prepared.error and [d["requests"] for d in prepared.devices] == [["gpu"], ["gpu"]]
    daemon, = driver.lives()
    log = driver.log()
    assert f"start {uuids['gpu-5']},{uuids['gpu-1']}"[:100] in log and "set_default_active_thread_percentage 30" in log
    assert {f"set_default_device_pinned_mem_limit {uuids['gpu-5']} 10240M", f"set_default_device_pinned_mem_limit {uuids['gpu-1']} 4096M"} <= set(log)
    folder = tmp_path / f"plugins/{DRIVER}/mps/uid-a-0"
    for device in spec_of(tmp_path, claim)["devices"]:
        assert device["containerEdits"]["env"] == ["CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps"]
        assert [(m["hostPath"], m["containerPath"]) for m in device["containerEdits"]["mounts"]] == [
            (f"{folder}/pipe", "/tmp/nvidia-mps"), (f"{folder}/shm", "/dev/shm")]
    assert (folder / "pipe/control").is_socket() and (folder / "shm").is_dir()
    side.process.kill()
    side.process.wait()
    side.start()
    until(lambda: registered(side), side.log_text)
    assert not side.claims.prepare(claim)["uid-a"].error and driver.lives() == [daemon] and driver.log() == log
    assert side.claims.unprepare(claim) == {"uid-a": ""}
    until(lambda: not driver.lives() and driver.modes() == {"DEFAULT"}, side.log_text)
    (driver.state / "refuse-start").touch()
    assert "MPS on gpu-5: " in side.claims.prepare(claim)["uid-a"].error
    (driver.state / "refuse-start").unlink()
    until(lambda: not side.claims.prepare(claim)["uid-a"].error, side.log_text)


# -- ends and beginnings ----------------------------------------------------------------------------------------------

def test_claims_outlive_the_process(make_claims, api, tmp_path):
    side = make_claims()
    claim, gone = api.claim("a", "gpu-1"), api.claim("gone", "gpu-2")
    first = side.claims.prepare(claim, raw=True)
    side.claims.prepare(gone)
    spec = spec_of(tmp_path, claim)
    side.process.kill()
    side.process.wait()
    for path in (tmp_path / "cdi").glob("*"):
        path.unlink()
    (tmp_path / f"cdi/k8s.{DRIVER}-claim_uid-old.json").write_text("{}")  # of an end between two steps
    side.start()
    until(lambda: files(tmp_path) == [f"k8s.{DRIVER}-claim_uid-a.json", f"k8s.{DRIVER}-claim_uid-gone.json"], side.log_text)
    assert spec_of(tmp_path, claim) == spec
    until(lambda: registered(side), side.log_text)
    assert side.claims.prepare(claim, raw=True) == first
    assert "held by claim ns/a" in side.claims.prepare(api.claim("b", "gpu-1"))["uid-b"].error
    assert side.claims.unprepare(gone) == {"uid-gone": ""} and files(tmp_path) == [f"k8s.{DRIVER}-claim_uid-a.json"]


def registered(side):
    try:
        side.claims.register()
        return True
    except Exception:  # noqa: BLE001 the socket is not there yet, or another's
        return False


def test_after_a_reboot_nothing_is_prepared(make_claims, api, tmp_path):
    side = make_claims()
    claim = api.claim("a", "gpu-1")
    side.claims.prepare(claim)
    side.process.kill()
    side.process.wait()
    path = tmp_path / f"plugins/{DRIVER}/claims.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "boot_id": "another", "of_later": 1}))
    side.start()
    until(lambda: registered(side), side.log_text)
    assert not files(tmp_path)
    assert not side.claims.prepare(api.claim("b", "gpu-1"))["uid-b"].error


def test_a_file_of_claims_that_cannot_be_read_is_not_thrown_away(make_claims, api, tmp_path):
    side = make_claims()
    side.claims.prepare(api.claim("a", "gpu-1"))
    side.process.kill()
    side.process.wait()
    path = tmp_path / f"plugins/{DRIVER}/claims.json"
    path.write_text("no JSON")
    side.start()
    assert side.process.wait(60) == 3
    assert "claims.json' is no file of prepared claims" in side.log_text() and path.read_text() == "no JSON"
    path.unlink()
    side.start()
    until(lambda: registered(side), side.log_text)


@pytest.mark.parametrize("rounds", [6, pytest.param(60, marks=pytest.mark.slow("kills at many more instants"))])
def test_killed_at_any_step(make_claims, api, tmp_path, rounds):
    side = make_claims()
    claims = [api.claim(f"c{n}", f"gpu-{n % 4}") for n in range(8)]  # two for each of four devices
    chance = random.Random(rounds)
    done = {}
    for _ in range(rounds):
        timer = threading.Timer(chance.uniform(0, 0.03), side.process.kill)
        timer.start()
        with contextlib.suppress(grpc.RpcError):
            while True:
                claim = chance.choice(claims)
                if claim["metadata"]["name"] in done and chance.random() < 0.5:
                    done.pop(claim["metadata"]["name"])
                    side.claims.unprepare(claim)
                elif not (prepared := next(iter(side.claims.prepare(claim).values()))).error:
                    done[claim["metadata"]["name"]] = prepared.devices
        timer.join()
        side.process.wait()
        side.start()
        until(lambda: registered(side), side.log_text)
        path = tmp_path / f"plugins/{DRIVER}/claims.json"
        kept = json.loads(path.read_text())["claims"] if path.exists() else []
        names = {k["claim"]["metadata"]["name"] for k in kept}
        assert names >= done.keys()  # what the kubelet was told is prepared
        assert len({k["uuids"][0] for k in kept}) == len(kept)  # no device twice
        until(lambda: files(tmp_path) == sorted(f"k8s.{DRIVER}-claim_uid-{n}.json" for n in names), side.log_text)
        for name, devices in done.items():
            assert next(iter(side.claims.prepare(claims[int(name[1:])]).values())).devices == devices


def test_sockets_that_are_removed_come_back(make_claims, api, tmp_path):
    side = make_claims()
    claim = api.claim("a", "gpu-1")
    side.claims.prepare(claim)
    (tmp_path / f"plugins/{DRIVER}/dra.sock").unlink()
    (tmp_path / f"{DRIVER}-reg.sock").unlink()
    until(lambda: registered(side), side.log_text)
    assert not side.claims.prepare(claim)["uid-a"].error
    side.process.send_signal(signal.SIGTERM)
    assert side.process.wait(60) == 0
    assert not (tmp_path / f"plugins/{DRIVER}/dra.sock").exists() and not (tmp_path / f"{DRIVER}-reg.sock").exists()
    assert files(tmp_path) and api.slices  # pods go on, and the next process goes on from here
    side.start()
    until(lambda: registered(side), side.log_text)


def test_what_is_unprepared_is_not_prepared_behind_it(make_claims, api, tmp_path):
    side = make_claims()
    claim = api.claim("a", "gpu-1")
    api.fail = lambda request: api.hang(request) if "resourceclaims" in request.path else None
    with pytest.raises(Exception, match="DEADLINE_EXCEEDED"):
        side.claims.call("NodePrepareResources", [side.claims.name(claim)], timeout=1)
    assert side.claims.unprepare(claim) == {"uid-a": ""}
    api.fail = None
    api.held.set()
    assert not side.claims.prepare(api.claim("b", "gpu-1"))["uid-b"].error
    assert files(tmp_path) == [f"k8s.{DRIVER}-claim_uid-b.json"]


@pytest.mark.parametrize("wrong, words", [
    (config(sharing={"strategy": "TimeSlicing", "timeSlicingConfig": {"intervall": "Long"}}), "timeSlicingConfig has no 'intervall'"),
    (config(sharing={"strategy": "Magic"}), "'Magic' is neither TimeSlicing nor MPS"),
    (config("MigDeviceConfig", requests=["gpu"]), "a MigDeviceConfig is no configuration for a GPU"),
    (config("VfioDeviceConfig"), "is a VfioDeviceConfig of"),
    (config(version="resource.nvidia.com/v9"), "of 'resource.nvidia.com/v9'"),
    (config(sharing={"strategy": "MPS", "mpsConfig": {"defaultPinnedDeviceMemoryLimit": "much"}}), "'much' is no amount of memory"),
])
def test_a_wrong_configuration_names_what_is_wrong(make_claims, api, wrong, words):
    side = make_claims()
    claim = api.claim("a", "gpu-0", config=[config("MigDeviceConfig"), config("X", driver="nic.example.com"), wrong])
    assert words in side.claims.prepare(claim)["uid-a"].error


def test_wrong_words(stoker, tmp_path):
    import subprocess
    for words, error in ([("--dra-driver", DRIVER), "--dra-driver need --node-name"],
                         [("--dra-driver", "A B", "--node-name", "n"), "'A B' is no name of a driver"]):
        done = subprocess.run([stoker, "kubelet", *words], capture_output=True, text=True, env={"PATH": "/bin"})
        assert done.returncode == 2 and error in done.stderr
