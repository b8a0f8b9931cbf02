# SPDX-License-Identifier: Apache-2.0
"""What the agent says about a node that is well, against what the simulator and its nvidia-smi say."""
import gzip
import json
import re
import subprocess
import http.client
import urllib.parse
import zlib

import pytest
from agent_rig import Page, settles, until

CLASSIC = {"DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_MEM_CLOCK", "DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_GPU_TEMP",
           "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
           "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_DEV_ENC_UTIL", "DCGM_FI_DEV_DEC_UTIL",
           "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_RESERVED",
           "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
           "DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_DEV_VGPU_LICENSE_STATUS",
           "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_DRAM_ACTIVE",
           "DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES"}


def test_every_default_metric_of_every_gpu_is_there(agent_on):
    _, agent = agent_on()

    def whole():
        page = agent.page()
        for name in CLASSIC:
            assert {l["gpu"] for l, _ in page.all(name)} == {str(i) for i in range(8)}, name
        return page

    page = settles(whole)
    labels, _ = page.all("DCGM_FI_DEV_GPU_TEMP", gpu="3")[0]
    assert labels["device"] == "nvidia3" and labels["modelName"] == "NVIDIA H100 80GB HBM3"
    assert labels["UUID"].startswith("GPU-") and re.match(r"^0000[0-9A-F]{4}:[0-9A-F]{2}:00\.0$", labels["pci_bus_id"])
    assert labels["DCGM_FI_DRIVER_VERSION"] == "590.48.01" and labels["hostname"]


def test_values_are_those_of_nvidia_smi(agent_on):
    """With the node's clock stopped both must say the same."""
    node, agent = agent_on(speed=0)
    node.sim("clock", "step", "90s")
    seen = node.smi("index", "temperature.gpu", "memory.used", "clocks.sm", "clocks.mem", "utilization.gpu", "power.draw")

    def agrees():
        page = agent.page()
        for index, temp, used, sm, mem, util, power in seen:
            got = [page.one(f"DCGM_FI_DEV_{n}", gpu=index) for n in ("GPU_TEMP", "FB_USED", "SM_CLOCK", "MEM_CLOCK", "GPU_UTIL")]
            if got != [float(temp), float(used), float(sm), float(mem), float(util)]:
                return False
            if abs(page.one("DCGM_FI_DEV_POWER_USAGE", gpu=index) - float(power)) > 0.006:  # smi prints two places
                return False
        return True

    until(agrees, lambda: f"{seen} {agent.page().text}")


def test_an_unmoved_energy_counter_and_a_moved_one(agent_on):
    node, agent = agent_on(speed=0)
    first = settles(lambda: agent.page().one("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", gpu="0"))
    node.sim("clock", "step", "10s")
    until(lambda: agent.page().one("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", gpu="0") > first, "the counter grows")


def test_the_sawtooth_between_scrapes_is_seen(agent_on):
    """A starved training job idles for a part of each step: the mean hides it, minimum and maximum do not."""
    _, agent = agent_on("starved-training", speed=1)

    def is_seen():
        page = agent.page()
        assert page.one("stoker_window_seconds") >= 3
        low, mean, high = (page.one(f"stoker_power_watts_{of}", gpu="0") for of in ("min", "mean", "max"))
        assert low < mean < high and high - low > 50

    settles(is_seen)


def test_formats_are_negotiated(agent_on):
    _, agent = agent_on()
    accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"

    def both():
        _, text = agent.get("/metrics", {"Accept": "text/plain"})
        assert agent.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        _, metrics = agent.get("/metrics", {"Accept": accept})
        assert agent.headers["Content-Type"].startswith("application/openmetrics-text")
        assert metrics.endswith("# EOF\n") and "# EOF" not in text
        assert Page(text).names() == Page(metrics).names()

    settles(both)  # of one tick
    connection = http.client.HTTPConnection(agent.address)
    connection.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"})
    answer = connection.getresponse()
    assert answer.getheader("Content-Encoding") == "gzip"
    assert b"DCGM_FI_DEV_GPU_TEMP" in gzip.decompress(answer.read())
    connection.close()


def test_the_other_answers(agent_on):
    _, agent = agent_on()
    assert agent.get("/health") == (200, "OK")
    assert agent.headers["X-Registry-Available"] == "true"

    def is_well(path):
        status, body = agent.json(path)
        assert status == 200 and body["status"] == "ok" and body["causes"] == [], body
        assert body["gpus"] == {"expected": 8, "found": 8, "on_bus": 8}

    for path in ("/healthz", "/readyz"):
        settles(lambda: is_well(path))  # noqa: B023
    status, text = agent.get("/")
    assert status == 200 and "api/v1/gpus" in text
    assert agent.get("/nothing")[0] == 404

    def is_listed():
        gpus = agent.gpus()
        assert [g["index"] for g in gpus] == list(range(8))
        temp = gpus[0]["metrics"]["DCGM_FI_DEV_GPU_TEMP"]
        assert temp["unit"] == "C" and 20 < temp["value"] < 100 and temp["age_seconds"] < 5
        return gpus

    fan = settles(is_listed)[0]["metrics"].get("DCGM_FI_DEV_FAN_SPEED")
    assert fan is None or fan["value"] is None  # an SXM board has none: never a 0


def test_which_gpus_reach_each_other_over_nvlink(agent_on, tmp_path):
    """A bridge joins the first two of three; then it goes, then a GPU."""
    scenario, counters = tmp_path / "bridge.yaml", tmp_path / "c.csv"
    scenario.write_text("about: a bridge\nnode: {seed: 3}\ngpus: {board: h100-nvl-94gb, count: 3}\nwork: []\ntruth: []\n")
    counters.write_text("DCGM_FI_DEV_GPU_TEMP, gauge, core\nDCGM_EXP_P2P_STATUS, gauge, nvlink\n")
    node, agent = agent_on(scenario, options=["-f", counters, "--sample-slow", "1s"])

    def says(expected):
        def seen():
            found = {(l["gpu"], l["peer_gpu"]): (l["link_status"], v) for l, v in agent.page().all("DCGM_EXP_P2P_STATUS")}
            return found == {pair: WORDS[number] for pair, number in expected.items()}
        until(seen, lambda: f"{expected} {agent.page().text}")

    WORDS = {0: ("OK", 0), 5: ("NotSupported", 5), 6: ("Unknown", 6)}
    pairs = [(a, b) for a in "012" for b in "012" if a != b]
    bridged = {pair: 0 if "2" not in pair else 5 for pair in pairs}
    says(bridged)
    until(lambda: [(p["gpu"], p["nvlink_status"], p["age_seconds"] < 10) for p in agent.gpu(0)["peers"]] ==
          [(1, "ok", True), (2, "not_supported", True)], lambda: str(agent.gpu(0)))
    assert not agent.page().all("stoker_metric_unavailable", metric="DCGM_EXP_P2P_STATUS")
    node.inject("link", "gpu=1", "down")
    says(dict.fromkeys(pairs, 5))
    node.inject("link", "gpu=1", "up")
    says(bridged)
    # a GPU that is lost says nothing, and nobody knows of it
    node.inject("lost", "gpu=1")
    says({("0", "1"): 6, ("0", "2"): 5, ("2", "0"): 5, ("2", "1"): 6})
    until(lambda: [p["absent"] for p in agent.gpu(1)["peers"]] == ["gpu_lost", "gpu_lost"], lambda: str(agent.gpu(1)))
    node.inject("reset", "gpu=1")
    says(bridged)


def test_history_by_index_uuid_and_address(agent_on):
    _, agent = agent_on()
    gpu = agent.gpu(2)
    name = "DCGM_FI_DEV_POWER_USAGE"
    until(lambda: len([p for p in agent.json(f"/api/v1/gpus/2/history?metric={name}")[1]["series"][0]["points"] if p[1]]) >= 3, "three seconds")
    series = [agent.json(f"/api/v1/gpus/{i}/history?metric={name}&from=-1m")[1]["series"][0]
              for i in ("2", gpu["uuid"], gpu["pci"].lower())]
    assert all(s["metric"] == name and s["unit"] == "W" for s in series)
    times = [p[0] for p in series[0]["points"]]
    assert times == sorted(times) and all(p[1] is None or p[1] > 30 for p in series[0]["points"])
    status, minutes = agent.json(f"/api/v1/gpus/2/history?metric={name}&resolution=minute")
    assert status == 200 and minutes["series"][0]["columns"] == ["time", "min", "mean", "max", "valid_seconds"]
    assert agent.json("/api/v1/gpus/2/history")[1]["series"]


def test_history_of_some_that_are_not_kept(agent_on):
    """What there is comes; what there is not says why, one by one."""
    node, agent = agent_on("page-retirement-t4")
    names = ["DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_DEV_MAX_SM_CLOCK", "nonsense\u00e9", "DCGM_FI_DEV_GPU_TEMP"]
    asked = f"/api/v1/gpus/0/history?metric=,{urllib.parse.quote(','.join(names))},"

    def some(resolution):
        status, got = agent.json(f"{asked}&resolution={resolution}")
        assert status == 200 and [s["metric"] for s in got["series"]] == [names[0], names[4]] and all(s["points"] for s in got["series"])
        assert [(m["metric"], m["why"]) for m in got["missing"]] == [(names[1], "not_supported"), (names[2], "not_kept"), (names[3], "no_metric")]
        assert all(m["text"] for m in got["missing"])

    for resolution in ("second", "minute"):
        settles(lambda: some(resolution))  # noqa: B023
    assert agent.json("/api/v1/gpus/0/history")[1]["missing"] == []
    # the same words on the control socket, which `stoker top` asks
    code, text = agent.ask("history 0 " + ",".join(names[:3]) + " minute -1d -0")
    told = json.loads(text)
    assert code == 0 and len(told["series"]) == 1 and len(told["missing"]) == 2


@pytest.mark.parametrize("path, status, says", [
    ("/api/v1/gpus/99/history", 404, "no GPU"), ("/api/v1/gpus/GPU-none/history", 404, "no GPU"),
    ("/api/v1/gpus/0/history?metric=nonsense", 404, "no metric"), ("/api/v1/gpus/0/history?resolution=hour", 400, "second"),
    ("/api/v1/gpus/0/history?from=yesterday", 400, "RFC|T12|-10m"), ("/api/v1/gpus/0/history?from=-1m&to=-5m", 400, "after")])
def test_wrong_history_requests_say_what_is_wrong(shared_agent, path, status, says):
    got, body = shared_agent.json(path)
    assert got == status and re.search(says, body["error"]), body


def test_ticks_come_as_a_stream(shared_agent):
    connection = http.client.HTTPConnection(shared_agent.address, timeout=120)
    connection.request("GET", "/api/v1/stream")
    answer = connection.getresponse()
    assert answer.getheader("Content-Type") == "text/event-stream"
    ticks = []

    def enough():
        line = answer.readline().decode()
        if line.startswith("data: "):
            ticks.append(json.loads(line[len("data: "):]))
        fast = [t["gpus"][0]["fast"] for t in ticks if "fast" in t["gpus"][0]]
        return len({t["tick"] for t in ticks}) >= 2 and ticks[-1]["gpus"][0]["metrics"]["DCGM_FI_DEV_POWER_USAGE"] > 0 and \
            any(len(f["DCGM_FI_DEV_POWER_USAGE"]) == len(f["age_seconds"]) > 1 for f in fast)

    until(enough, lambda: str(ticks))
    connection.close()
    assert len(ticks[0]["gpus"]) == 8
    gpu = ticks[-1]["gpus"][0]  # counters that grow have the age of their sample
    assert all(0 <= age < 60 and gpu["metrics"][name] > 0 for name, age in gpu["counter_age_seconds"].items())
    assert "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" in gpu["counter_age_seconds"] and "DCGM_FI_DEV_POWER_USAGE" not in gpu["counter_age_seconds"]
    assert "DCGM_FI_DEV_FAN_SPEED" not in gpu["metrics"]  # which this board does not have


def test_a_stream_is_packed_and_each_tick_of_it_is_there_at_once(shared_agent):
    connection = http.client.HTTPConnection(shared_agent.address, timeout=120)
    connection.request("GET", "/api/v1/stream", headers={"Accept-Encoding": "gzip"})
    answer, unpack = connection.getresponse(), zlib.decompressobj(31)
    assert answer.getheader("Content-Type") == "text/event-stream" and answer.getheader("Content-Encoding") == "gzip"
    text, packed = b"", 0
    while text.count(b"\n\n") < 3:
        part = answer.read1(1 << 20)
        packed += len(part)
        text += unpack.decompress(part)
    connection.close()
    ticks = [json.loads(event.split("data: ", 1)[1]) for event in text.decode().split("\n\n") if event.startswith("event: tick")]
    assert text.endswith(b"\n\n") and len(ticks) >= 2 and ticks[0]["tick"] < ticks[-1]["tick"]  # nothing is held back for more to come
    assert packed < len(text) / 4


def test_status_is_one_screen_with_and_without_an_agent(agent_on):
    node, agent = agent_on("healthy-training")  # of which no GPU waits: nothing is added once more is known

    def one_screen():
        asked = agent.verb("status")
        assert asked.returncode == 0, asked.stdout + asked.stderr
        lines = asked.stdout.splitlines()
        assert len(lines) <= 12 and max(map(len, lines)) <= 80 and lines[1] == "All healthy"
        alone = subprocess.run([agent.stoker, "status", "--alone"], env=node.env, capture_output=True, text=True, timeout=300)
        assert alone.returncode == 0, alone.stdout + alone.stderr
        assert [l[:26] for l in alone.stdout.splitlines() if l[:1] == " "] == [l[:26] for l in lines if l[:1] == " "]
        assert re.fullmatch(r"\S+: All healthy: [^\n]*\n", agent.verb("status", "--brief").stdout)
        assert agent.verb("status", "--brief", "--json").returncode == 2
        body = json.loads(agent.verb("status", "--json").stdout)
        assert body["status"] == "ok" and len(body["node"]["gpus"]) == 8

    settles(one_screen)


def test_status_without_driver_or_agent_says_so(stoker, tmp_path):
    env = {"PATH": "/usr/bin:/bin", "STOKER_CONTROL": str(tmp_path / "none.sock"), "STOKER_ROOT": str(tmp_path)}
    run = subprocess.run([stoker, "status"], env=env, capture_output=True, text=True, timeout=300)
    assert run.returncode == 3
    told = "No NVIDIA driver: install it, or try 'stoker sim run default -- stoker agent'"
    assert run.stdout.splitlines()[1:] == [told]
    brief = subprocess.run([stoker, "status", "--brief"], env=env, capture_output=True, text=True, timeout=300)
    assert brief.returncode == 3 and brief.stdout.count("\n") == 1 and brief.stdout.endswith(f": {told}\n")
    top = subprocess.run([stoker, "top", "--once", "--size", "80x24"], env={**env, "LANG": "C.UTF-8"}, capture_output=True, text=True, timeout=300)
    assert top.returncode == 3 and [line for line in top.stdout.splitlines()[1:-1] if line] == [told]  # once


def test_the_exporters_own_command_line(make_node, build, tmp_path, stoker):
    node = make_node()
    link = tmp_path / "dcgm-exporter"
    link.symlink_to(stoker)
    counters = tmp_path / "c.csv"
    counters.write_text("# only two\nDCGM_FI_DEV_GPU_TEMP, gauge, core\nDCGM_FI_NO_SUCH, gauge, none\n"
                        "DCGM_FI_DEV_POWER_USAGE, gauge, power\n")
    env = dict(node.env, DCGM_EXPORTER_LISTEN="127.0.0.1:0", DCGM_EXPORTER_KUBERNETES="false", NODE_NAME="worker-9",
               STOKER_CONTROL=str(tmp_path / "c.sock"), STOKER_SAMPLER_PROGRAM=str(build / "src/source/nvml/stoker-sampler"))
    process = subprocess.Popen([link, "-f", counters, "-d=f", "--c", "30000", "-no-hostname=false"], env=env,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = re.search(r"http://([^/]+)/", process.stdout.readline())[1]

        def page():
            connection = http.client.HTTPConnection(address, timeout=120)
            connection.request("GET", "/metrics")
            return Page(connection.getresponse().read().decode())

        got = until(lambda: (p := page()).all("DCGM_FI_DEV_GPU_TEMP") and p, "the first page")
        assert {n for n in got.names() if n.startswith("DCGM_")} == {"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE"}
        assert {l["hostname"] for l, _ in got.all("DCGM_FI_DEV_GPU_TEMP")} == {"worker-9"}
    finally:
        process.terminate()
        _, log = process.communicate(timeout=120)
    assert "DCGM_FI_NO_SUCH" in log and process.returncode == 0


def test_each_nvlink_with_its_errors(agent_on):
    _, agent = agent_on()
    links = until(lambda: (l := agent.gpu(0)["nvlinks"]) and [(link["link"], link["active"]) for link in l] == [(i, True) for i in range(18)] and l,
                  lambda: str(agent.gpu(0)))
    assert all(set(link["errors"]) <= {"crc_flit", "crc_data", "replay", "recovery"} for link in links)
