# SPDX-License-Identifier: Apache-2.0
"""What the sampler reads is what the node shows by other ways: nvidia-smi, and the simulator's own knowledge."""
import subprocess
import time

import pytest

import sampler_kit as kit
from sampler_kit import scenario, values

TRAIN = "  - {name: job, kind: train, gpus: all, process: python}\n"
DECODE = "  - {name: tenant, kind: decode, gpus: all, independent: yes, process: vllm}\n"
BOARDS = ["a100-sxm4-80gb", "a30-24gb", "b200-180gb", "h100-nvl-94gb", "h100-sxm-80gb", "h200-sxm-141gb", "l40s",
          "rtx-pro-6000-blackwell-server", "t4"]
MIG = {
    "a100-sxm4-80gb": "[3g.40gb, 2g.20gb, 1g.10gb]",
    "a30-24gb": "[2g.12gb, 1g.6gb]",
    "b200-180gb": "[3g.90gb, 1g.23gb, 1g.23gb]",
    "h100-sxm-80gb": "[{profile: 3g.40gb, compute: [1, 2]}, 2g.20gb, 1g.10gb]",
    "rtx-pro-6000-blackwell-server": "[2g.48gb, 1g.24gb]",
}

# What nvidia-smi calls it, and how it is made a number of ours.
SMI = {
    "clocks.sm": ("DCGM_FI_DEV_SM_CLOCK", int),
    "clocks.mem": ("DCGM_FI_DEV_MEM_CLOCK", int),
    "clocks.video": ("DCGM_FI_DEV_VIDEO_CLOCK", int),
    "clocks.max.sm": ("DCGM_FI_DEV_MAX_SM_CLOCK", int),
    "clocks.max.memory": ("DCGM_FI_DEV_MAX_MEM_CLOCK", int),
    "temperature.gpu": ("DCGM_FI_DEV_GPU_TEMP", int),
    "temperature.memory": ("DCGM_FI_DEV_MEMORY_TEMP", int),
    "power.draw": ("DCGM_FI_DEV_POWER_USAGE", float),
    "power.limit": ("DCGM_FI_DEV_POWER_MGMT_LIMIT", float),
    "enforced.power.limit": ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", float),
    "power.min_limit": ("DCGM_FI_DEV_POWER_MGMT_LIMIT_MIN", float),
    "power.max_limit": ("DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX", float),
    "power.default_limit": ("DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF", float),
    "utilization.gpu": ("DCGM_FI_DEV_GPU_UTIL", int),
    "utilization.memory": ("DCGM_FI_DEV_MEM_COPY_UTIL", int),
    "utilization.encoder": ("DCGM_FI_DEV_ENC_UTIL", int),
    "utilization.decoder": ("DCGM_FI_DEV_DEC_UTIL", int),
    "memory.total": ("DCGM_FI_DEV_FB_TOTAL", int),
    "memory.used": ("DCGM_FI_DEV_FB_USED", int),
    "memory.free": ("DCGM_FI_DEV_FB_FREE", int),
    "memory.reserved": ("DCGM_FI_DEV_FB_RESERVED", int),
    "pcie.link.gen.current": ("DCGM_FI_DEV_PCIE_LINK_GEN", int),
    "pcie.link.width.current": ("DCGM_FI_DEV_PCIE_LINK_WIDTH", int),
    "pcie.link.gen.max": ("DCGM_FI_DEV_PCIE_MAX_LINK_GEN", int),
    "pcie.link.width.max": ("DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", int),
    "fan.speed": ("DCGM_FI_DEV_FAN_SPEED", int),
    "pstate": ("DCGM_FI_DEV_PSTATE", lambda text: int(text[1:])),
    "clocks_event_reasons.active": ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", lambda text: int(text, 16)),
    "ecc.errors.corrected.volatile.total": ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", int),
    "ecc.errors.uncorrected.aggregate.total": ("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", int),
    "retired_pages.double_bit.count": ("DCGM_FI_DEV_RETIRED_DBE", int),
    "retired_pages.single_bit_ecc.count": ("DCGM_FI_DEV_RETIRED_SBE", int),
}


def start(node, puppet, text, speed=0, **plan):
    """A sampler of all GPUs, begun some time after the work did, so that it sees no past."""
    n = node(text, speed)
    if not speed:
        n.step("95s")
    p = puppet(n.env)
    p.start()
    p.plan(**plan)
    p.gpus(n.buses())
    return n, p


def compare(cell, convert, got, what):
    if isinstance(got, str):
        assert cell.startswith("[") or cell == "N/A", f"{what}: nvidia-smi has {cell}, we say {got}"
    elif convert is float:
        assert abs(float(cell) - got) <= 0.006, what
    else:
        assert convert(cell) == got, what


@pytest.mark.parametrize("driver", kit.DRIVERS)
@pytest.mark.parametrize("board", BOARDS)
def test_values_are_those_of_nvidia_smi(node, puppet, board, driver):
    n, p = start(node, puppet, scenario(f"  - {{board: {board}, count: 2}}\n", TRAIN, driver))
    n.inject("ecc", "gpu=1", "corrected=7", "location=dram")
    p.up(0, 1)
    board_now = p.settle()
    fields = [f for f in SMI if driver > 535 or f not in ("clocks_event_reasons.active",)]
    for gpu, row in enumerate(n.smi(",".join(fields))):
        got = values(board_now, gpu)
        for field, cell in zip(fields, row):
            compare(cell, SMI[field][1], got[SMI[field][0]], f"gpu {gpu} {field}")
    assert n.reported() == []


def test_old_spellings_of_reasons(node, puppet):
    n, p = start(node, puppet, scenario("  - {board: h100-sxm-80gb}\n", TRAIN, 535))
    p.up(0)
    got = values(p.settle(), 0)
    assert got["DCGM_FI_DEV_CLOCKS_EVENT_REASONS"] == n.show()[0]["reasons"]
    assert got["DCGM_FI_DEV_GPU_TEMP_LIMIT"] == "driver_lacks"
    assert got["DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION"] == "driver_lacks"
    assert got["DCGM_FI_DEV_FABRIC_HEALTH_SUMMARY"] == "driver_lacks"
    assert got["DCGM_FI_DEV_FABRIC_MANAGER_STATUS"] == 3


def test_identity_is_that_of_nvidia_smi(node, puppet):
    n, p = start(node, puppet, scenario("  - {board: h100-sxm-80gb, count: 2}\n  - {board: t4}\n"))
    p.up(0, 1, 2)
    board = p.settle()
    rows = n.smi("pci.bus_id,uuid,name,serial,index,vbios_version,inforom.img,inforom.ecc,driver_version")
    for gpu, row in enumerate(rows):
        reading = board["gpus"][gpu]["reading"]
        texts = reading["texts"]
        assert row[:5] == [reading["pci"], reading["uuid"], reading["name"], reading["serial"], str(reading["index"])]
        assert row[5:] == [texts["DCGM_FI_DEV_VBIOS_VERSION"], texts["DCGM_FI_DEV_INFOROM_IMAGE_VER"],
                           texts["DCGM_FI_DEV_ECC_INFOROM_VER"], texts["DCGM_FI_DRIVER_VERSION"]]
        assert reading["kind"] == "gpu" and reading["board"]
    assert sorted(g["reading"]["minor"] for g in board["gpus"]) == [0, 1, 2]
    kinds = {r["name"]: (r["arch"], r["texts"]["DCGM_FI_DEV_BRAND"]) for r in (g["reading"] for g in board["gpus"])}
    assert kinds == {"NVIDIA H100 80GB HBM3": ("hopper", "NVIDIA"), "Tesla T4": ("turing", "NVIDIA")}
    sampler = board["samplers"][0]
    assert sampler["driver"] == kit.DRIVER_FINE and sampler["count"] == 3 and sampler["driver_version"] == "590.48.01"


def test_counters_are_the_simulators_own(node, puppet):
    n, p = start(node, puppet, scenario("  - {board: h100-sxm-80gb, count: 2}\n", TRAIN))
    p.up(0, 1)
    got, truth = values(p.settle(), 1), n.show()[1]
    total = truth["total"]
    assert abs(got["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"] - truth["energy_mj"]) <= 1
    assert abs(got["stoker_pcie_tx_bytes_total"] - total[17]) <= 1
    assert abs(got["stoker_pcie_rx_bytes_total"] - total[18]) <= 1
    assert abs(got["stoker_nvlink_tx_bytes_total"] - total[19]) <= 1024
    assert got["stoker_nvlink_tx_bytes_total"] % 1024 == 0
    assert abs(got["DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS"] - truth["throttle_ns"][0]) <= 1


def test_links_of_the_fifth_generation_are_added_up(node, puppet):
    n, p = start(node, puppet, scenario("  - {board: b200-180gb, count: 2}\n", TRAIN, 610))
    p.up(0, 1)
    got, truth = values(p.settle(), 0), n.show()[0]
    assert abs(got["DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES"] - truth["total"][19]) <= 18
    assert got["DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"] == "not_supported"


def steps(n, p, condition, what):
    """A second of the node's at a time, until something has been read twice."""
    for _ in range(60):
        n.step("1s")
        board = p.settle(passes=12)
        if condition(board):
            return board
    raise AssertionError(f"never: {what}")


def test_rates_are_what_went_over_the_links(node, puppet):
    n, p = start(node, puppet, scenario("  - {board: h100-sxm-80gb, count: 2}\n", TRAIN))
    name = "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"
    p.up(0, 1)
    assert values(p.settle(), 0)[name] == "no_data"  # one reading makes no rate
    before = n.show()[0]["total"]
    n.step("10s")
    board = p.until("a rate", lambda b: not isinstance(values(b, 0)[name], str))
    after = n.show()[0]["total"]
    kib = (after[19] + after[20] - before[19] - before[20]) / 1024
    assert abs(values(board, 0)[name] - kib / 10 / 1000) <= 1
    sent = (after[19] - before[19]) / 1024 / 10 / 1000
    assert abs(values(board, 0)["DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_TOTAL"] - sent) <= 1
    assert abs(values(board, 0)["DCGM_FI_DEV_NVLINK_BANDWIDTH_L17"] - kib / 18 / 10 / 1000) <= 1


def test_gpm_is_what_ran(node, puppet):
    n, p = start(node, puppet, scenario("  - {board: h100-sxm-80gb, count: 2}\n", TRAIN))
    name = "DCGM_FI_PROF_SM_ACTIVE"
    p.up(0, 1)
    p.settle()
    before = n.show()[0]["total"]
    n.step("10s")
    board = p.until("a share", lambda b: not isinstance(values(b, 0)[name], str))
    after = n.show()[0]["total"]
    got = values(board, 0)
    share = [(b - a) / 10 for a, b in zip(before, after)]
    for metric, channel in (("GR_ENGINE_ACTIVE", 0), ("SM_ACTIVE", 1), ("SM_OCCUPANCY", 2), ("PIPE_TENSOR_ACTIVE", 3),
                            ("DRAM_ACTIVE", 11), ("PIPE_FP32_ACTIVE", 8)):
        assert abs(got[f"DCGM_FI_PROF_{metric}"] - share[channel]) < 1e-6, metric
    assert abs(got["DCGM_FI_PROF_PCIE_TX_BYTES"] - share[17]) <= 1
    assert abs(got["DCGM_FI_PROF_NVLINK_RX_BYTES"] - share[20]) <= 1
    assert board["gpus"][0]["gpm"] == 2


@pytest.mark.parametrize("board", ["l40s", "t4", "a100-sxm4-80gb"])
def test_without_gpm_the_reason_is_told(node, puppet, board):
    n, p = start(node, puppet, scenario(f"  - {{board: {board}}}\n", DECODE))
    p.up(0)
    board = p.settle()
    assert board["gpus"][0]["gpm"] == 1
    prof = {k: v for k, v in values(board, 0).items() if k.startswith("DCGM_FI_PROF_")}
    assert set(prof.values()) == {"not_supported"}


def test_mig_devices(node, puppet):
    gpus = "  - {board: a100-sxm4-80gb, mig: [3g.40gb, {profile: 2g.20gb, compute: [1, 1]}, 1g.10gb]}\n"
    work = "  - {name: tenant, kind: decode, gpus: 0, mig: 0, memory: 30GiB, process: vllm}\n"
    n, p = start(node, puppet, scenario(gpus, work))
    p.up(0)
    gpu = p.settle()["gpus"][0]
    rows = gpu["instances"]
    listed = subprocess.run(["nvidia-smi", "-L"], env=n.env, capture_output=True, text=True, check=True).stdout
    assert gpu["reading"]["mig"] and len(rows) == 4
    assert sorted(r["profile"] for r in rows) == ["1c.2g.20gb", "1c.2g.20gb", "1g.10gb", "3g.40gb"]
    assert [(r["gi"], r["ci"]) for r in rows] == sorted((r["gi"], r["ci"]) for r in rows)
    for row in rows:
        assert row["uuid"].startswith("MIG-") and row["uuid"] in listed
        assert row["kind"] == "compute_instance" and row["parent"] == gpu["reading"]["uuid"]
        assert row["pci"] == gpu["reading"]["pci"]
        assert row["values"]["DCGM_FI_DEV_GPU_TEMP"] == "not_supported"
        assert row["values"]["DCGM_FI_DEV_XID_ERRORS"] == "no_data"
    assert [r["head"] for r in rows] == [i == 0 or rows[i - 1]["gi"] != r["gi"] for i, r in enumerate(rows)]
    assert sum(r["head"] for r in rows) == 3
    busy = next(r for r in rows if r["profile"] == "3g.40gb")
    assert busy["values"]["DCGM_FI_DEV_FB_USED"] == 30 * 1024
    assert busy["values"]["DCGM_FI_DEV_FB_TOTAL"] < 41000
    assert next(r for r in rows if r["profile"] == "1g.10gb")["values"]["DCGM_FI_DEV_FB_USED"] == 0
    whole = gpu["reading"]["values"]
    assert whole["DCGM_FI_DEV_GPU_UTIL"] == "mig_mode" and whole["DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"] == "mig_mode"
    assert whole["DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"] == "mig_mode" and whole["DCGM_FI_DEV_MIG_MODE"] == 1
    assert whole["DCGM_FI_DEV_FAN_SPEED"] == "not_supported" and whole["DCGM_FI_DEV_GPU_TEMP"] > 20


def test_gpm_of_each_instance(node, puppet):
    gpus = "  - {board: h100-sxm-80gb, mig: [{profile: 3g.40gb, compute: [1, 2]}, 2g.20gb, 1g.10gb]}\n"
    work = "  - {name: tenant, kind: decode, gpus: 0, mig: 2, process: vllm}\n"
    n, p = start(node, puppet, scenario(gpus, work))
    name = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
    p.up(0)
    board = steps(n, p, lambda b: all(not isinstance(r["values"][name], str) for r in b["gpus"][0]["instances"]), name)
    rows = board["gpus"][0]["instances"]
    assert len(rows) == 4
    active = {r["profile"]: r["values"][name] for r in rows}
    assert active["2g.20gb"] > 0.5 and active["1g.10gb"] == 0
    shared = [r["values"] for r in rows if "3g" in r["profile"]]
    assert len(shared) == 2
    assert {k: v for k, v in shared[0].items() if "PROF" in k} == {k: v for k, v in shared[1].items() if "PROF" in k}
    for row in rows:
        assert row["values"]["DCGM_FI_PROF_PCIE_TX_BYTES"] == "not_supported"
        assert not isinstance(row["values"]["DCGM_FI_PROF_DRAM_ACTIVE"], str)


def test_mig_changes_are_followed(node, puppet):
    n, p = start(node, puppet, scenario("  - {board: h100-sxm-80gb, mig: [1g.10gb, 2g.20gb]}\n"))
    p.up(0)
    before = p.settle()["gpus"][0]["instances"]
    assert len(before) == 2
    n.inject("mig-create", "gpu=0", "profile=3g.40gb")
    after = p.until("a third device", lambda b: len(b["gpus"][0]["instances"]) == 3)["gpus"][0]["instances"]
    assert {r["uuid"] for r in before} < {r["uuid"] for r in after}
    n.inject("mig-mode", "gpu=0", "off")
    board = p.until("no device", lambda b: not b["gpus"][0]["instances"] and not b["gpus"][0]["reading"]["mig"])
    assert not isinstance(values(board, 0)["DCGM_FI_DEV_GPU_UTIL"], str)
    n.inject("mig-mode", "gpu=0", "on")
    n.inject("mig-create", "gpu=0", "profile=7g.80gb")
    board = p.until("one device", lambda b: len(b["gpus"][0]["instances"]) == 1)
    assert board["gpus"][0]["instances"][0]["profile"] == "7g.80gb"
    assert n.reported() == []


def test_fast_readings(node, puppet):
    n, p = start(node, puppet, scenario("  - {board: h100-sxm-80gb}\n", TRAIN), wanted="DCGM_FI_DEV_POWER_USAGE,DCGM_FI_DEV_GPU_UTIL")
    p.up(0)
    p.settle(passes=60)
    fast = p.fast[0][5:]
    assert len(fast) > 20
    assert all(set(f) == {"time", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_UTIL"} for f in fast)
    assert all(b["time"] > a["time"] for a, b in zip(fast, fast[1:]))
    assert abs(fast[-1]["DCGM_FI_DEV_POWER_USAGE"] - n.show()[0]["watt_mean"]) < 0.001


NODES = [(b, False) for b in BOARDS] + [(b, True) for b in MIG]


@pytest.mark.parametrize("driver", kit.DRIVERS)
@pytest.mark.parametrize("board,mig", NODES, ids=[f"{b}{'-mig' if m else ''}" for b, m in NODES])
def test_nothing_is_asked_in_a_wrong_way(node, puppet, board, mig, driver):
    """On a node whose time goes on, as strict mode wants samples of GPM some time apart."""
    slices = f", mig: {MIG[board]}" if mig else ""
    work = "" if mig else DECODE
    n, p = start(node, puppet, scenario(f"  - {{board: {board}{slices}}}\n  - {{board: {board}}}\n", work, driver), speed=1)
    p.up(0, 1)
    p.settle(passes=80)
    p.do("close", 0)
    end = time.monotonic() + kit.PATIENCE_S
    while not p.do("ended", 0)["ended"]:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert n.reported() == []
