# SPDX-License-Identifier: Apache-2.0
"""The CDI specification that `stoker kubelet` keeps: what it promises is there, and stays true."""
import json
import os
import stat

from agent_rig import until

FIVE = {"ro", "nosuid", "nodev", "rbind", "rprivate"}


def spec_of(side):
    path = side.tmp / "cdi/k8s.device-plugin.nvidia.com-gpu.json"
    return until(lambda: path.exists() and json.loads(path.read_text()), side.log_text)


def cdi_side(make_side, tmp_path, *scenario, strategy="cdi-cri", options=()):
    return make_side(*scenario, options=["--device-list-strategy", strategy, "--cdi-root", tmp_path / "cdi", *options])


def names(spec):
    return [d["name"] for d in spec["devices"]]


def check(side, spec):
    """What the format demands, and that what is promised exists on the node."""
    assert spec["cdiVersion"] == "0.5.0" and spec["kind"] == "k8s.device-plugin.nvidia.com/gpu"
    assert len(set(names(spec))) == len(spec["devices"])
    common = spec["containerEdits"]
    assert common["env"] == ["NVIDIA_VISIBLE_DEVICES=void"]
    targets = [m["containerPath"] for m in common["mounts"]]
    assert len(set(targets)) == len(targets)
    for mount in common["mounts"]:
        assert (side.node.tree / mount["hostPath"].lstrip("/")).exists() and len(mount["options"]) == 5
    for edits in [common] + [d["containerEdits"] for d in spec["devices"]]:
        assert edits["deviceNodes"]
        for node in edits["deviceNodes"]:
            there = side.node.tree / node["path"].lstrip("/")
            if there.exists() and stat.S_ISCHR(there.stat().st_mode):
                device = there.stat().st_rdev
                assert (node["type"], node["major"], node["minor"]) == ("c", os.major(device), os.minor(device))
    return targets


def test_what_containers_get(make_side, tmp_path):
    side = cdi_side(make_side, tmp_path)
    spec = spec_of(side)
    targets = check(side, spec)
    assert names(spec) == [g["uuid"] for g in side.agent.gpus()]
    for folder in ("/usr/lib64", "/usr/lib/x86_64-linux-gnu"):
        assert f"{folder}/libcuda.so.1" in targets and f"{folder}/libnvidia-ml.so.1" in targets
    library = next(m for m in spec["containerEdits"]["mounts"] if m["containerPath"].endswith("/libcuda.so.1"))
    assert library["hostPath"].startswith("/usr/lib64/libcuda.so.") and set(library["options"]) == FIVE
    grant = side.plugin().allocate(side.uuid(2))
    assert grant.cdi == [f"k8s.device-plugin.nvidia.com/gpu={side.uuid(2)}"] and not (grant.envs or grant.mounts or grant.nodes)


def test_named_in_annotations(make_side, tmp_path):
    side = cdi_side(make_side, tmp_path, strategy="cdi-annotations", options=["--device-id-strategy", "index"])
    assert names(spec_of(side)) == [str(n) for n in range(8)]
    grants = [side.plugin().allocate(side.uuid(n)) for n in (1, 1)]
    assert [list(g.annotations.values()) for g in grants] == 2 * [["k8s.device-plugin.nvidia.com/gpu=1"]]
    keys = [next(iter(g.annotations)) for g in grants]
    assert keys[0] != keys[1] and all(k.startswith("cdi.k8s.io/nvidia-device-plugin_") and len(k) < 80 for k in keys)


def test_mig_devices(make_side, tmp_path):
    side = cdi_side(make_side, tmp_path, "mig-balanced", options=["--mig-strategy", "mixed"])
    spec = spec_of(side)
    check(side, spec)
    uuids = [i["uuid"] for g in side.agent.gpus() for i in g["instances"]]
    assert sorted(names(spec)) == sorted(uuids)
    for device in spec["devices"]:
        paths = [n["path"] for n in device["containerEdits"]["deviceNodes"]]
        assert len(paths) == 3 and sum("/nvidia-caps/nvidia-cap" in p for p in paths) == 2
        assert all(n["type"] == "c" and n["major"] for n in device["containerEdits"]["deviceNodes"])


def test_kept_true(make_side, tmp_path):
    side = cdi_side(make_side, tmp_path)
    good = spec_of(side)
    path = tmp_path / "cdi/k8s.device-plugin.nvidia.com-gpu.json"
    path.write_text("{}")
    until(lambda: json.loads(path.read_text()) == good, side.log_text)
    path.unlink()
    assert spec_of(side) == good
    assert [p.name for p in path.parent.iterdir()] == [path.name]  # nothing half-written is left


def test_a_folder_that_cannot_be_written(make_side, tmp_path):
    (tmp_path / "cdi").write_text("no folder")
    side = cdi_side(make_side, tmp_path)
    until(lambda: "CDI:" in side.log_text() and "tried again" in side.log_text(), side.log_text)
    (tmp_path / "cdi").unlink()
    spec_of(side)


def test_without_the_drivers_libraries(make_side, tmp_path):
    side = cdi_side(make_side, tmp_path, options=["--driver-root-ctr-path", tmp_path])
    spec = spec_of(side)
    assert "there is no libcuda.so.1 of driver 590.48.01" in side.log_text()
    assert len(spec["devices"]) == 8
    assert not [m for m in spec["containerEdits"]["mounts"] if "/lib" in m["containerPath"]]


def test_links_by_which_systemd_knows_the_devices(make_side, tmp_path):
    side = make_side("mig-balanced", options=["--mig-strategy", "mixed"])
    folder = side.node.tree / "dev/char"
    assert not folder.exists()  # as long as there is none, none is made
    side.plugin("nvidia.com/mig-3g.40gb")
    folder.mkdir()

    def linked():
        return {p.name: os.readlink(p) for p in folder.iterdir()}

    until(lambda: sum(n.startswith("403:") for n in linked()) == 32, side.log_text)  # two of each of 16 devices
    caps = [n for n in linked() if n.startswith("403:")]
    assert (linked()["195:255"], linked()["195:3"]) == ("../nvidiactl", "../nvidia3")
    (folder / caps[0]).unlink()
    until(lambda: caps[0] in linked(), side.log_text)
    assert all((folder / n).exists() for n in linked() if n.startswith("195:"))


def test_in_a_container_with_the_driver_of_the_host(make_side, tmp_path):
    """Of the host's folder of the driver a container may see no /proc; its own is of the same kernel."""
    (tmp_path / "driver").mkdir()
    for name in ("dev", "usr"):
        (tmp_path / "driver" / name).symlink_to(tmp_path / "tree" / name)
    side = cdi_side(make_side, tmp_path, "mig-balanced", options=["--mig-strategy", "mixed", "--driver-root-ctr-path", tmp_path / "driver"])
    spec = spec_of(side)
    check(side, spec)
    assert all(sum("/nvidia-cap" in n["path"] for n in d["containerEdits"]["deviceNodes"]) == 2 for d in spec["devices"])
