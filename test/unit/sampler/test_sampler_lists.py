# SPDX-License-Identifier: Apache-2.0
"""The lists beside the readings: each NVLink, and who runs on a GPU. And the values that only faults change."""
import pytest

import sampler_kit as kit
from sampler_kit import scenario, values

ONE = "  - {board: h100-sxm-80gb}\n"
WORK = ("  - {name: a, kind: decode, gpus: all, independent: yes, memory: 10GiB, process: vllm}\n"
        "  - {name: b, kind: idle-context, gpus: 0, independent: yes, memory: 4GiB, process: notebook}\n")
ACTIVE, FLIT, DATA, REPLAY, RECOVERY = range(5)
NOT_SUPPORTED, UNTOLD = "not_supported", 255


def begin(node, puppet, text, wishes=("links", "processes"), slow_ms=60, wanted="none", speed=0):
    n = node(text, speed)
    n.step("95s")
    p = puppet(n.env)
    for wish in wishes:
        p.do("wish", wish, "on")
    p.plan(wanted, slow_ms=slow_ms)
    p.start()
    p.gpus(n.buses())
    return n, p


def links(board, gpu=0):
    return board["gpus"][gpu]["links"]


def processes(board, gpu=0):
    return board["gpus"][gpu]["processes"]


# ---- links ----

@pytest.mark.parametrize("driver", kit.DRIVERS)
def test_links_of_hopper(node, puppet, driver):
    """Eighteen links, whose checksum errors are told in one number."""
    n, p = begin(node, puppet, scenario(ONE, driver=driver))
    fresh = [1, 0, NOT_SUPPORTED, 0, 0]
    p.until("all up", lambda b: links(b) == [fresh] * 18)
    n.inject("link", "gpu=0", "link=4", "down")
    n.inject("link", "gpu=0", "link=7", "sleep")
    n.inject("link", "gpu=0", "link=17", "errors", "counter=replay", "count=5")
    n.inject("link", "gpu=0", "link=17", "errors", "counter=recovery", "count=2")
    n.inject("link", "gpu=0", "link=16", "errors", "counter=crc-flit", "count=3")
    n.inject("link", "gpu=0", "link=16", "errors", "counter=crc-data", "count=4")
    want = [list(fresh) for _ in range(18)]
    want[4][ACTIVE] = 0
    want[16][FLIT] = 7
    want[17] = [1, 0, NOT_SUPPORTED, 5, 2]
    p.until("faults", lambda b: links(b) == want)
    assert n.reported() == []


def test_links_of_ampere_tell_checksum_errors_apart(node, puppet):
    n, p = begin(node, puppet, scenario("  - {board: a100-sxm4-80gb}\n"))
    p.until("all up", lambda b: links(b) == [[1, 0, 0, 0, 0]] * 12)
    for link, counter in ((5, "crc-flit"), (6, "crc-data"), (11, "replay"), (0, "recovery")):
        n.inject("link", "gpu=0", f"link={link}", "errors", f"counter={counter}", "count=9")
    want = [[1, 0, 0, 0, 0] for _ in range(12)]
    want[5][FLIT] = want[6][DATA] = want[11][REPLAY] = want[0][RECOVERY] = 9
    p.until("errors", lambda b: links(b) == want)
    assert n.reported() == []


@pytest.mark.parametrize("driver", [590, 610])
def test_links_of_blackwell_tell_recoveries_alone(node, puppet, driver):
    n, p = begin(node, puppet, scenario("  - {board: b200-180gb}\n", driver=driver))
    none = NOT_SUPPORTED
    p.until("all up", lambda b: links(b) == [[1, none, none, none, 0]] * 18)
    n.inject("link", "gpu=0", "link=3", "errors", "counter=recovery", "count=2")
    p.until("a recovery", lambda b: links(b)[3] == [1, none, none, none, 2])
    assert n.reported() == []


def test_no_links_and_links_under_mig(node, puppet):
    _, p = begin(node, puppet, scenario("  - {board: l40s}\n  - {board: h100-sxm-80gb, mig: [1g.10gb]}\n"))
    p.until("mig", lambda b: links(b, 1) == [["mig_mode"] * 5] * 18 and links(b, 0) == [])


def test_state_comes_sooner_than_errors(node, puppet):
    """The slow turn is an hour away."""
    n, p = begin(node, puppet, scenario(ONE), slow_ms=3600000)
    p.until("all up", lambda b: [x[ACTIVE] for x in links(b)] == [1] * 18)
    n.inject("link", "gpu=0", "link=4", "down")
    n.inject("link", "gpu=0", "link=4", "errors", "counter=replay", "count=5")
    board = p.until("one down", lambda b: links(b)[4][ACTIVE] == 0)
    assert links(board)[4][REPLAY] == 0


def test_a_lost_gpu_has_no_links_that_are_up(node, puppet):
    n, p = begin(node, puppet, scenario(ONE, WORK))
    p.until("all up", lambda b: [x[ACTIVE] for x in links(b)] == [1] * 18 and len(processes(b)) == 2)
    n.inject("lost", "gpu=0")
    p.until("lost", lambda b: b["gpus"][0]["outcome"] == kit.LOST and links(b) == [["gpu_lost"] * 5] * 18 and
            b["gpus"][0]["process_count"] == "gpu_lost" and processes(b) == [])


# ---- processes ----

@pytest.mark.parametrize("driver", kit.DRIVERS)
def test_processes_are_those_of_the_node(node, puppet, driver):
    n, p = begin(node, puppet, scenario("  - {board: h100-sxm-80gb, count: 2}\n", WORK, driver), speed=1)
    board = p.until("processes", lambda b: len(processes(b, 0)) == 2 and len(processes(b, 1)) == 1 and
                    sorted(0 < q["sm"] <= 100 for q in processes(b)) == [False, True])
    for gpu, shown in enumerate(n.show()):
        want = {q["pid"]: q["mib"] for q in shown["processes"]}
        got = {q["pid"]: q["used"] / 1048576 for q in processes(board, gpu)}
        assert got.keys() == want.keys() and all(abs(got[pid] - want[pid]) < 1 for pid in got)
        assert board["gpus"][gpu]["process_count"] == len(want)
    busy = [q for q in processes(board) if q["used"] > 8 << 30][0]
    idle = [q for q in processes(board) if q["used"] < 8 << 30][0]
    assert 0 < busy["sm"] <= 100 and (idle["sm"], idle["memory"]) == (0, 0)
    assert all((q["gi"], q["ci"], q["graphics"]) == (-1, -1, False) for q in processes(board))
    assert n.reported() == []


def test_a_read_that_comes_before_the_next_sample(node, puppet):
    """Nothing is newer than the read before, and the process is busy all the same."""
    _, p = begin(node, puppet, scenario(ONE, "  - {name: a, kind: decode, gpus: all, process: vllm}\n"), slow_ms=2, speed=1)
    p.until("busy", lambda b: [q["sm"] > 0 for q in processes(b) or []] == [True])
    passes = p.dump()["samplers"][0]["passes"]
    while (board := p.dump())["samplers"][0]["passes"] < passes + 100:
        for q in processes(board) or []:  # None: it was written all the while it was read
            assert q["sm"] > 0


def test_processes_come_and_go(node, puppet):
    n, p = begin(node, puppet, scenario(ONE, WORK))
    p.until("two", lambda b: len(processes(b)) == 2)
    n.inject("work", "desktop", "gpus=0", "process=X")
    p.until("three", lambda b: sorted(q["graphics"] for q in processes(b)) == [False, False, True])
    n.inject("stop", "a")
    n.inject("stop", "b")
    p.until("one", lambda b: [q["graphics"] for q in processes(b)] == [True] and b["gpus"][0]["process_count"] == 1)


def test_processes_are_listed_at_the_normal_pace(node, puppet):
    n, p = begin(node, puppet, scenario(ONE, WORK), wishes=("processes",), slow_ms=3600 * 1000)
    p.until("two", lambda b: len(processes(b)) == 2)
    n.inject("stop", "a")
    p.until("one", lambda b: len(processes(b)) == 1)


def test_slow_lists_of_processes_wait_for_the_slow_pace(node, puppet):
    """A pass with them takes 100 ms or more. The next slow turn is an hour away, or comes with a new plan."""
    n, p = begin(node, puppet, scenario(ONE, WORK), wishes=("processes",), slow_ms=3600 * 1000)
    p.until("two", lambda b: len(processes(b)) == 2)
    passed = lambda b: b["gpus"][0]["pass_ns"]
    n.inject("hang", "gpu=0", "nvmlDeviceGetComputeRunningProcesses_v3", "delay=100ms")
    p.until("a slow pass", lambda b: passed(b) >= 100e6)
    p.until("quick passes", lambda b: 0 < passed(b) < 100e6)
    n.inject("hang", "clear=on")
    n.inject("stop", "a")
    before = p.dump()["samplers"][0]["passes"]
    board = p.until("more passes", lambda b: b["samplers"][0]["passes"] > before + 3)
    assert len(processes(board)) == 2
    p.plan("none", slow_ms=50)
    p.until("one", lambda b: len(processes(b)) == 1)
    p.plan("none", slow_ms=3600 * 1000)  # the lists are quick again
    n.inject("stop", "b")
    p.until("none", lambda b: processes(b) == [])


def test_processes_of_mig_devices(node, puppet):
    work = ("  - {name: a, kind: decode, gpus: 0, mig: 0, independent: yes}\n"
            "  - {name: b, kind: decode, gpus: 0, mig: 1, independent: yes}\n")
    n, p = begin(node, puppet, scenario("  - {board: h100-sxm-80gb, mig: [3g.40gb, 1g.10gb]}\n", work))
    board = p.until("both", lambda b: len(processes(b)) == 2 and len(b["gpus"][0]["instances"]) == 2)
    instances = sorted((r["gi"], r["ci"]) for r in board["gpus"][0]["instances"])
    assert sorted((q["gi"], q["ci"]) for q in processes(board)) == instances
    assert {q["sm"] for q in processes(board)} == {UNTOLD}  # the driver does not tell shares under MIG
    assert n.reported() == []


def test_nobody_asked(node, puppet):
    n, p = begin(node, puppet, scenario(ONE, WORK), wishes=(), wanted="DCGM_FI_DEV_POWER_USAGE")
    n.inject("hang", "gpu=0", "nvmlDeviceGetComputeRunningProcesses_v3")  # whoever asked would be seen in it
    p.up(0)
    board = p.settle()
    assert links(board) == [] and processes(board) == [] and board["gpus"][0]["process_count"] == "not_yet"
    n.inject("hang", "clear=on")
    p.do("wish", "processes", "on")
    p.until("processes", lambda b: len(processes(b)) == 2)
    p.do("wish", "processes", "off")
    p.until("none", lambda b: b["gpus"][0]["process_count"] == "not_yet" and processes(b) == [])


def test_a_list_that_hangs_names_its_gpu(node, puppet):
    n, p = begin(node, puppet, scenario(ONE, WORK))
    p.until("processes", lambda b: len(processes(b)) == 2)
    n.inject("hang", "gpu=0", "nvmlDeviceGetProcessUtilization")
    board = p.until("a hang", lambda b: b["samplers"][0]["call_ms"] > 200)
    assert board["samplers"][0]["function"] == "nvmlDeviceGetProcessUtilization"
    assert board["samplers"][0]["call_gpu"] == 0


@pytest.fixture
def fake(tmp_path, on_fake_driver):
    """A driver with as many processes as are written, in the second form of the function alone."""
    count = tmp_path / "count"

    def run(text):
        count.write_text(text, encoding="utf-8")
        return on_fake_driver("none", wish=["processes"], FAKE_PROCESSES=str(count)), count
    return run


def test_more_than_the_board_holds(fake):
    p, count = fake("100 0 3\n")
    board = p.until("all", lambda b: b["gpus"][0]["process_count"] == 100)
    kept = processes(board)
    # those with the most memory; who does not tell has the least
    told = sorted((i for i in range(100) if i % 3), reverse=True)[:64]
    assert [q["pid"] for q in kept] == sorted(1000 + i for i in told)
    assert {q["sm"] for q in kept} == {UNTOLD}  # this driver does not tell
    count.write_text("3 0 3\n", encoding="utf-8")
    board = p.until("three", lambda b: b["gpus"][0]["process_count"] == 3)
    assert [q["used"] for q in processes(board)] == [2 ** 64 - 1, 1 << 20, 2 << 20]
    count.write_text("0 0 3\n", encoding="utf-8")
    p.until("none", lambda b: b["gpus"][0]["process_count"] == 0 and processes(b) == [])


def test_a_list_that_grows_while_it_is_read(fake):
    p, count = fake("60 10 3\n")
    p.until("it fits", lambda b: b["gpus"][0]["process_count"] == 70)
    count.write_text("60 100 3\n", encoding="utf-8")  # faster than anybody can ask
    p.until("no list", lambda b: b["gpus"][0]["process_count"] == "no_data" and processes(b) == [])


@pytest.mark.parametrize("answer, shown", [(3, 5), (13, 5), (0, 5), (4, "no_permission"), (999, "failed")])
def test_half_a_list_is_none(fake, answer, shown):
    """A process that is in no list has ended; so there must be no list where a part of it was refused."""
    p, _ = fake(f"5 0 {answer}\n")
    p.until("the list", lambda b: b["gpus"][0]["process_count"] == shown)


def test_mig_devices_that_move_while_they_are_listed(tmp_path, on_fake_driver):
    """A new one comes in front: who lists them meanwhile finds the first one twice."""
    layout = tmp_path / "layout"

    def say(text):
        fresh = layout.with_suffix(".new")
        fresh.write_text(text, encoding="utf-8")
        fresh.rename(layout)

    def devices(board):
        return [i["uuid"] for i in board["gpus"][0]["instances"]]

    say("ab\n")
    p = on_fake_driver("none", FAKE_MIG=str(layout))
    p.until("two", lambda b: devices(b) == ["MIG-a", "MIG-b"])
    say("ab cab\n")
    for _ in range(10):
        assert devices(p.settle(passes=4)) == ["MIG-a", "MIG-b"]
    say("cab\n")
    p.until("three", lambda b: devices(b) == ["MIG-a", "MIG-b", "MIG-c"])


# ---- values ----

def test_sram_and_repairs(node, puppet):
    n, p = begin(node, puppet, scenario(ONE), wishes=(), wanted="all")
    p.up(0)
    got = values(p.settle(), 0)
    assert got["stoker_sram_threshold_exceeded"] == got["stoker_unrepairable_memory"] == 0
    assert got["stoker_channel_repair_pending"] == got["stoker_tpc_repair_pending"] == 0
    n.inject("ecc", "gpu=0", "uncorrected=2", "location=sram")
    n.inject("ecc", "gpu=0", "uncorrected=1", "location=register")
    n.inject("ecc", "gpu=0", "corrected=5", "location=l2")
    n.inject("ecc", "gpu=0", "corrected=50", "location=dram")
    n.inject("sram-threshold", "gpu=0")
    p.until("the flag", lambda b: values(b, 0)["stoker_sram_threshold_exceeded"] == 1)
    got = values(p.settle(), 0)
    assert [got[f"stoker_ecc_sram_{name}_total"] for name in (
        "uncorrected_volatile", "uncorrected_aggregate", "corrected_volatile", "corrected_aggregate")] == [3, 3, 5, 5]
    n.inject("reset", "gpu=0")
    p.until("the reset", lambda b: values(b, 0)["stoker_ecc_sram_uncorrected_volatile_total"] == 0)
    assert values(p.settle(), 0)["stoker_ecc_sram_uncorrected_aggregate_total"] == 3


def test_what_older_drivers_and_boards_lack(node, puppet):
    _, p = begin(node, puppet, scenario("  - {board: t4}\n", driver=535), wishes=(), wanted="all")
    p.up(0)
    got = values(p.settle(), 0)
    assert got["stoker_unrepairable_memory"] == got["stoker_tpc_repair_pending"] == "driver_lacks"
    assert got["stoker_sram_threshold_exceeded"] == "not_supported"  # Turing has no such counters
    assert got["stoker_gsp_enabled"] == 1 and got["stoker_fans"] == got["stoker_fan_target_percent"] == "not_supported"


def test_the_inforom_is_looked_at_once_an_hour(node, puppet):
    n, p = begin(node, puppet, scenario(ONE), wishes=(), wanted="all")
    p.until("valid", lambda b: values(b, 0)["stoker_inforom_valid"] == 1)
    n.inject("inforom", "gpu=0")
    p.settle()
    assert values(p.settle(), 0)["stoker_inforom_valid"] == 1  # not asked again
    fresh = puppet(n.env)
    fresh.plan("all", slow_ms=60)
    fresh.start()
    fresh.gpus(n.buses())
    fresh.until("corrupt", lambda b: values(b, 0)["stoker_inforom_valid"] == 0)
    assert fresh.dump()["gpus"][0]["outcome"] == kit.FINE


def test_fans(node, puppet):
    n, p = begin(node, puppet, scenario("  - {board: rtx-4080-super}\n  - {board: l40s}\n",
                                        "  - {name: a, kind: burn, gpus: 0}\n"), wishes=(), wanted="all")
    p.up(0, 1)
    board = p.settle()
    assert values(board, 1)["stoker_fans"] == values(board, 1)["stoker_fan_slowest_percent"] == NOT_SUPPORTED
    assert values(board, 0)["stoker_fans"] == 2
    assert values(board, 0)["stoker_fan_slowest_percent"] == values(board, 0)["stoker_fan_target_percent"] > 0
    n.inject("fan-fail", "gpu=0")
    board = p.until("it stands", lambda b: values(b, 0)["stoker_fan_slowest_percent"] == 0)
    assert values(board, 0)["stoker_fan_target_percent"] > 0
