# SPDX-License-Identifier: Apache-2.0
"""`stoker mig`: each verb, the files and words that it takes, and what mig-parted gets wrong (the layout lost on a typo, on an
impossible layout, success where nothing was done)."""
import json
import pathlib

import jsonschema
import pytest

SCHEMA = json.loads((pathlib.Path(__file__).resolve().parents[3] / "docs" / "mig.schema.json").read_text())
SMALL = "GPU 0: 1g.10gb at 2, 1g.10gb at 3, 2g.20gb at 0-1, 3g.40gb at 4-7\n"
CONFIG = """version: v1
mig-configs:
  all-disabled:
  - {devices: all, mig-enabled: false}
  all-enabled:
  - {devices: all, mig-enabled: true, mig-devices: {}}
  all-1g.10gb:
  - {devices: all, mig-enabled: true, mig-devices: {"1g.10gb": 7}}
  by-board:
  - {device-filter: ["0x20B010DE", "0x233010DE"], devices: [0, 1], mig-enabled: true, mig-devices: {"3g.40gb": 1, "4g.40gb": 1}}
  - {device-filter: "0x20B210DE", devices: all, mig-enabled: true, mig-devices: {"7g.80gb": 1}}
  split:
  - {devices: [0], mig-enabled: true, mig-devices: {"1c.3g.40gb": 3, "4g.40gb": 1}}
  - {devices: [1], mig-enabled: false, mig-devices: {}}
  typo:
  - {devices: [0], mig-enabled: true, mig-devices: {"1g.5gb": 7}}
  - {devices: [1], mig-enabled: true, mig-devices: {"1g.10gb": 7}}
  impossible:
  - {devices: all, mig-enabled: true, mig-devices: {"3g.40gb": 2, "1g.10gb": 1}}
  no-such-board:
  - {device-filter: "0x20B010DE", devices: all, mig-enabled: true, mig-devices: {"1g.5gb": 7}}
"""


@pytest.fixture
def config(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    return lambda name: ["-f", str(file), "-c", name]


def plan(mig, *words, code=0):
    done = mig.run("plan", "--json", *words)
    assert done.returncode == code, done.stderr
    told = json.loads(done.stdout)
    jsonschema.validate(told, SCHEMA)
    return told


def test_plan_shows_what_would_change_and_changes_nothing(make_mig, golden):
    mig = make_mig()
    golden(mig.ok("plan", "gpu0=3g.40gb+4g.40gb", "gpu1=balanced"), "mig/plan.txt")
    assert mig.changes() == [] and mig.layout().startswith(SMALL)
    told = plan(mig, "gpu0=3g.40gb+4g.40gb")
    one, other = told["gpus"]
    assert told["possible"] and one["asked"] and not other["asked"]
    assert one["keep"] == [{"profile": "3g.40gb", "start": 4, "size": 4, "compute": [3]}]
    assert one["create"] == [{"profile": "4g.40gb", "start": 0, "size": 4, "compute": [4]}]
    assert sorted(i["start"] for i in one["destroy"]) == [0, 2, 3] and one["blocked_by"] == []


def test_plan_says_why_not_and_what_is_near(make_mig, golden):
    mig = make_mig()
    done = mig.run("plan", "gpu0=2x3g.40gb+1g.10gb")
    assert done.returncode == 5
    golden(done.stdout, "mig/impossible.txt")
    told = plan(mig, "all=2x3g.40gb+1g.10gb", code=5)
    assert not told["possible"] and told["reason"] == told["gpus"][0]["reason"] and told["gpus"][0]["nearest"][0] == "2 x 3g.40gb"


def test_plan_by_a_table_needs_no_driver(make_mig, golden, config):
    mig = make_mig()
    mig.env["STOKER_DRIVER_LIBRARY"] = "/nowhere"
    golden(mig.ok("plan", "--board", "h100-80gb", *config("by-board")), "mig/board.txt")
    told = plan(mig, "--board", "A30-24GB", "all=5x1g.6gb", code=5)
    assert (told["board"], told["verified"], told["possible"]) == ("A30-24GB", "inferred", False)
    assert "H200-141GB" in mig.refused_plainly(2, "plan", "--board", "Voodoo2", "all=none")
    assert mig.refused_plainly(3, "plan", "all=none")


def test_apply_makes_the_fewest_calls(make_mig, config):
    """mig-parted creates 30 and destroys 16 GPU instances for its balanced layout on two GPUs."""
    mig = make_mig()
    assert mig.ok("apply", "all=balanced") == "MIG configuration applied successfully\n"
    assert mig.changes() == [], "it stands already"
    mig.ok("apply", *config("by-board"))
    assert sorted(mig.changes()) == ["ComputeInstanceDestroy"] * 6 + ["DeviceCreateGpuInstanceWithPlacement"] * 2 + [
        "GpuInstanceCreateComputeInstance"] * 2 + ["GpuInstanceDestroy"] * 6, "3g.40gb stays on both"
    assert mig.ok("assert", *config("by-board")) == "Selected MIG configuration currently applied\n"


def test_an_apply_of_eight_gpus(make_mig):
    mig = make_mig("about: eight\ngpus: {board: h100-sxm-80gb, count: 8}\ntruth: []\n")
    mig.ok("apply", "all=7x1g.10gb")
    assert mig.changes().count("DeviceSetMigMode") == 8
    assert mig.changes().count("DeviceCreateGpuInstanceWithPlacement") == 56 and "GpuInstanceDestroy" not in mig.changes()


def test_a_typo_destroys_nothing(make_mig, config):
    mig = make_mig()
    assert "has no MIG profile '1g.5gb'; it has 1g.10gb" in mig.refused(4, "apply", *config("typo"))
    assert "has no MIG profile '7g.79gb'" in mig.refused(4, "apply", "gpu1=7g.79gb")
    assert "is not the name of a MIG profile" in mig.refused(2, "apply", "gpu1=7gb")


def test_an_impossible_layout_leaves_the_old_one(make_mig, config):
    mig = make_mig()
    assert "the nearest that can be had: 2 x 3g.40gb" in mig.refused(5, "apply", *config("impossible"))
    for layout in ("8x1g.10gb", "2x1g.10gb+me", "4g.40gb+2g.20gb+2x1g.10gb", "99x1g.10gb"):
        mig.refused(5, "apply", f"gpu1={layout}")


def test_a_configuration_that_matches_no_gpu_fails(make_mig, config):
    mig = make_mig()
    for verb in ("plan", "apply", "assert"):
        assert "no-such-board matches none of the 2 GPUs" in mig.refused(2, verb, *config("no-such-board"))


def test_assert_compares_only_what_is_asked(make_mig, config):
    mig = make_mig()
    assert mig.ok("assert", "gpu0=3g.40gb+2g.20gb+2x1g.10gb") == "Selected MIG configuration currently applied\n"
    assert "Assertion failure: selected configuration not currently applied" in mig.refused(1, "assert", *config("all-1g.10gb"))
    assert mig.ok("assert", "-a", *config("all-1g.10gb")) == "Selected MIG configuration is valid\n"
    assert mig.ok("assert", "-m", *config("all-1g.10gb")) == "Selected MIG mode settings from configuration currently applied\n"
    assert mig.refused(1, "assert", "-m", *config("all-disabled")) and mig.refused(5, "assert", "-a", *config("impossible"))


def test_forms_of_a_configuration(make_mig, config):
    mig = make_mig()
    mig.ok("apply", *config("split"))
    assert mig.layout() == "GPU 0: 3g.40gb (1c+1c+1c) at 4-7, 4g.40gb at 0-3\nGPU 1: MIG disabled\n"
    mig.ok("apply", *config("all-enabled"))
    assert mig.layout() == "GPU 0: no instances\nGPU 1: no instances\n"
    mig.ok("apply", "-f", "-", "-c", "all-1g.10gb", input=CONFIG)
    assert mig.layout().count("1g.10gb at") == 14
    mig.ok("apply", "--mode-only", *config("all-disabled"))
    assert mig.layout() == "GPU 0: MIG disabled\nGPU 1: MIG disabled\n"
    mig.ok("apply", "-m", *config("all-1g.10gb"))
    assert mig.layout() == "GPU 0: no instances\nGPU 1: no instances\n"
    mig.env.update(MIG_PARTED_CONFIG_FILE=config("x")[1], MIG_PARTED_SELECTED_CONFIG="by-board")
    mig.ok("apply")
    assert mig.layout().startswith("GPU 0: 3g.40gb at 4-7, 4g.40gb at 0-3\n")


WRONG = [("version: v2\nmig-configs: {}\n", "'version: v1' is needed"),
         ("version: v1\nmig-configs:\n  a: [{devices: all, mig-enabled: true, mig-device: {}}]\n", "unknown key 'mig-device'"),
         ("version: v1\nmig-configs:\n  a: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 0}}]\n", "all numbers"),
         ("version: v1\nmig-configs:\n  a: []\n", "the configuration 'a' is empty"),
         ("", "the file is empty")]


@pytest.mark.parametrize("text, why", WRONG, ids=lambda v: v[:30])
def test_a_wrong_file_is_refused_with_its_place(make_mig, text, why):
    assert why in make_mig().refused(2, "apply", "-f", "-", input=text)


def test_a_configuration_has_to_be_named(make_mig, config):
    mig = make_mig()
    assert "name one with --config: all-disabled, all-enabled" in mig.refused(2, "apply", *config("x")[:2])
    assert "no configuration 'x'; there are all-disabled" in mig.refused(2, "apply", *config("x"))
    assert "no layout is given" in mig.refused(2, "apply")
    assert "both speak of GPU 0" in mig.refused(2, "apply", "all=none", "gpu0=7g.80gb")


def test_an_export_is_a_configuration(make_mig, golden, tmp_path):
    mig = make_mig()
    mig.ok("apply", "gpu1=1c.4g.40gb+2c.4g.40gb+3g.40gb")
    golden(mig.ok("export"), "mig/export_yaml.txt")
    golden(mig.ok("export", "-o", "json", "-l", "mine"), "mig/export.json")
    before = mig.layout()
    golden(before, "mig/export.txt")
    (tmp_path / "now.yaml").write_text(mig.ok("export"))
    assert mig.ok("assert", "-f", tmp_path / "now.yaml")
    mig.ok("apply", "all=none")
    mig.ok("apply", "-f", tmp_path / "now.yaml")
    assert mig.ok("assert", "-f", tmp_path / "now.yaml")


def test_checkpoint_and_restore(make_mig, golden, tmp_path):
    mig = make_mig()
    file = tmp_path / "new folder" / "kept.json"
    mig.ok("apply", "gpu0=1g.10gb+3g.40gb", "gpu1=off")
    before = mig.layout()
    assert mig.ok("checkpoint", "-f", file) == "MIG configuration checkpointed successfully\n"
    kept = json.loads(file.read_text())
    assert [d["MigMode"] for d in kept["MigState"]["Devices"]] == [1, 0] and kept["Version"] == "v1"
    mig.ok("apply", "gpu0=7g.80gb", "gpu1=7x1g.10gb")
    assert mig.ok("restore", "-f", file) == "MIG configuration restored successfully\n"
    assert mig.layout() == before
    mig.ok("restore", "-f", file)
    assert mig.changes() == [], "it stands already"
    instance = kept["MigState"]["Devices"][0]["GpuInstances"][0]
    for change, code in (({"Placement": {"Start": 7}}, 5), ({"ComputeInstances": [{"ProfileID": 4}]}, 2), ({"ProfileID": 99}, 4)):
        kept["MigState"]["Devices"][0]["GpuInstances"][0] = {**instance, **change}
        file.write_text(json.dumps(kept))
        mig.refused(code, "restore", "-f", file)
    kept["MigState"]["Devices"][0]["UUID"] = "GPU-of-another-node"
    file.write_text(json.dumps(kept))
    assert "the node has no such GPU" in mig.refused(4, "restore", "-f", file)
    file.write_text("{")
    mig.refused(2, "restore", "-f", file)
    mig.refused(2, "restore", "-f", tmp_path / "no-such")


def test_a_process_in_the_way_is_named_and_nothing_is_touched(make_mig, golden):
    mig = make_mig("mig-balanced")
    mig.node.sim("clock", "step", "1m")
    said = mig.refused(6, "apply", "gpu1=7g.80gb")
    golden(said, "mig/busy.txt")
    assert "GPU 0:" not in said and "pod serving/chat-" in said
    told = plan(mig, "gpu1=7g.80gb", code=6)
    assert {b["process"] for b in told["gpus"][1]["blocked_by"]} == {"vllm", "tritonserver"} and told["possible"]
    assert mig.refused(6, "apply", "gpu1=off")
    mig.ok("apply", "gpu1=3g.40gb+2g.20gb+2x1g.10gb")
    assert mig.changes() == [], "what is in use stays"


OTHERS = """about: what runs on the GPUs is no compute process
gpus: {board: h100-sxm-80gb, count: 3, mig: [3g.40gb, 2g.20gb]}
work:
- {name: client, kind: inference, gpus: 0, mig: 1, process: left, memory: 4GiB, mps: yes}
- {name: screen, kind: desktop, gpus: 1, mig: 0, process: Xorg}
truth: []
"""


def test_clients_of_mps_and_graphics_are_in_the_way(make_mig):
    mig = make_mig(OTHERS)
    mig.node.sim("clock", "step", "1m")
    told = plan(mig, "all=7g.80gb", code=6)
    assert [[b["process"] for b in gpu["blocked_by"]] for gpu in told["gpus"]] == [["left"], ["Xorg"], []]
    for gpu in (0, 1):
        mig.refused(6, "apply", f"gpu{gpu}=7g.80gb")
    told = plan(mig, "gpu0=3g.40gb+4g.40gb", "gpu1=7x1g.10gb", code=6)
    assert {i["profile"] for i in told["gpus"][0]["destroy"]} == {"2g.20gb"} and told["gpus"][0]["blocked_by"]
    mig.ok("apply", "gpu2=7g.80gb")


def test_apply_waits_for_a_process(make_mig):
    mig = make_mig("mig-balanced")
    mig.node.sim("clock", "step", "1m")
    waits = mig.start("apply", "--wait", "1h", "all=7g.80gb")
    assert waits.poll() is None
    for work in ("chat", "search"):
        mig.node.inject("stop", work)
    out, err = waits.communicate(timeout=120)
    assert (waits.returncode, out, err) == (0, "MIG configuration applied successfully\n", "")
    assert mig.layout().count(": 7g.80gb at 0-7\n") == 4


HOOKS = """version: v1
hooks:
  apply-start:
  - {command: sh, args: [-c, "echo start >> log"], workdir: "%(folder)s"}
  pre-apply-mode:
  - {command: sh, args: [-c, 'echo mode >> "$LOG"'], envs: {LOG: "%(folder)s/log"}}
  pre-apply-config:
  - {command: %(config)s, args: [-c, "echo config >> %(folder)s/log"]}
  apply-exit:
  - {command: sh, args: [-c, "echo exit >> %(folder)s/log"]}
"""


@pytest.fixture
def hooks(tmp_path):
    def make(config="sh"):
        (tmp_path / "hooks.yaml").write_text(HOOKS % {"folder": tmp_path, "config": config})
        return str(tmp_path / "hooks.yaml")

    def ran():
        log = tmp_path / "log"
        lines = log.read_text().split() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines

    make.ran = ran
    return make


def test_hooks_run_around_the_steps(make_mig, hooks):
    mig = make_mig()
    mig.ok("apply", "-k", hooks(), "gpu0=7g.80gb")
    assert hooks.ran() == ["start", "config", "exit"]
    mig.ok("apply", "-k", hooks(), "gpu0=off")
    assert hooks.ran() == ["start", "mode", "config", "exit"]
    mig.ok("apply", "-k", hooks(), "gpu0=off")
    assert hooks.ran() == ["start", "exit"], "nothing to do"
    mig.refused(5, "apply", "-k", hooks(), "all=8x1g.10gb")
    assert hooks.ran() == ["start", "exit"]


def test_a_hook_that_fails_changes_nothing(make_mig, hooks):
    mig = make_mig()
    assert "hook pre-apply-config: false: exit" in mig.refused(7, "apply", "-k", hooks("'false'"), "gpu0=7g.80gb")
    assert hooks.ran() == ["start", "exit"]


@pytest.mark.parametrize("text, why", [
    ("version: v1\nhooks:\n  before: []\n", "unknown hook 'before'"),
    ("version: v1\nhooks:\n  apply-start: [{command: a, when: b}]\n", "unknown key 'when'"),
    ("version: v1\nhooks:\n  apply-start: [{args: [b]}]\n", "a hook needs 'command'"),
    ("hooks: {}\n", "'version: v1' and 'hooks' are needed"), ("", "the file is empty")])
def test_a_wrong_file_of_hooks(make_mig, tmp_path, text, why):
    (tmp_path / "hooks.yaml").write_text(text)
    assert why in make_mig().refused(2, "apply", "-k", tmp_path / "hooks.yaml", "gpu0=7g.80gb")


def test_a_board_without_mig(make_mig):
    mig = make_mig("about: one of each\ngpus:\n- {board: l40s}\n- {board: h100-sxm-80gb}\ntruth: []\n")
    assert mig.layout() == "GPU 0: its board has no MIG\nGPU 1: MIG disabled\n"
    assert "GPU 0: its board has no MIG" in mig.refused(4, "apply", "all=balanced")
    mig.ok("apply", "gpu1=balanced")
    mig.ok("apply", "all=off")
    assert mig.layout() == "GPU 0: its board has no MIG\nGPU 1: MIG disabled\n"


@pytest.mark.parametrize("board", ["a30-24gb", "b200-180gb", "rtx-pro-6000-blackwell-server", "h100-nvl-94gb"])
def test_other_boards(make_mig, board):
    mig = make_mig(f"about: one\ngpus: {{board: {board}}}\ntruth: []\n")
    mig.ok("apply", "all=balanced")
    assert mig.ok("assert", "all=balanced")
    full = max(mig.refused(4, "plan", "all=9g.1gb").split("it has ")[1].strip().split(", "), key=lambda name: int(name.split("g")[0]))
    mig.ok("apply", f"all={full}")
    assert mig.layout().startswith(f"GPU 0: {full} at 0-")
