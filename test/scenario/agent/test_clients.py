# SPDX-License-Identifier: Apache-2.0
"""What clients see: MIG devices that come and go, other drivers and profiles, jobs, many scrapers, other doors, large
nodes, and a driver that is slow."""
import http.client
import socket
import threading
import time

import pytest
from agent_rig import Page, settles, until

TEMP = "DCGM_FI_DEV_GPU_TEMP"


# -- MIG --------------------------------------------------------------------------------------------------------------

def instances(page, gpu):
    return sorted((l["GPU_I_PROFILE"], l["GPU_I_ID"]) for l, _ in page.all("DCGM_FI_DEV_FB_USED", gpu=gpu) if "GPU_I_ID" in l)


def test_mig_devices_are_made_and_destroyed(agent_on):
    node, agent = agent_on("mig-balanced", options=["--sample-slow", "1s"])
    before = until(lambda: (i := instances(agent.page(), "0")) and len(i) == 4 and i, agent.log_text)
    others = until(lambda: (o := {g: instances(agent.page(), g) for g in "123"}) and all(o.values()) and o, agent.log_text)
    node.inject("mig-destroy", "device=3", "gpu=0")
    left = until(lambda: (i := instances(agent.page(), "0")) and len(i) == 3 and i, agent.log_text)
    assert set(left) < set(before)
    node.inject("mig-create", "1g.10gb", "gpu=0")
    until(lambda: len(instances(agent.page(), "0")) == 4, agent.log_text)
    until(lambda: {g: instances(agent.page(), g) for g in "123"} == others, agent.log_text)
    until(lambda: agent.page().one("stoker_gpu_instances", gpu="0") == 4, agent.log_text)
    assert agent.page().one("stoker_samplers_started_total") == 1, "nothing was started again for that"


def test_mig_is_switched_on_and_off(make_node, make_agent, tmp_path):
    scenario = tmp_path / "two.yaml"
    scenario.write_text("about: two GPUs\ngpus: {board: h100-sxm-80gb, count: 2}\ntruth: []\n")
    node = make_node(scenario)
    agent = make_agent(node.env, options=["--sample-slow", "1s"])
    assert "GPU_I_ID" not in agent.page().text
    node.inject("mig-mode", "on", "gpu=1")
    node.inject("mig-create", "2g.20gb", "gpu=1")
    until(lambda: [i[0] for i in instances(agent.page(), "1")] == ["2g.20gb"], lambda: agent.page().text)
    until(lambda: [l.get("GPU_I_ID") for l, _ in agent.page().all("DCGM_FI_DEV_FB_USED", gpu="0")] == [None], agent.log_text)
    node.inject("mig-destroy", "device=0", "gpu=1")
    node.inject("mig-mode", "off", "gpu=1")
    until(lambda: "GPU_I_ID" not in agent.page().text and agent.page().all("DCGM_FI_DEV_FB_USED", gpu="1"), agent.log_text)


@pytest.mark.slow("fifty changes of MIG")
def test_fifty_changes_of_mig_leave_nothing_behind(agent_on):
    node, agent = agent_on("mig-balanced", speed=10, options=["--clock-speed", "10", "--sample-slow", "1s"])
    until(lambda: len(instances(agent.page(), "0")) == 4, agent.log_text)

    def change(count):
        node.inject("mig-destroy", "device=3", "gpu=0")
        until(lambda: len(instances(agent.page(), "0")) == 3, lambda: f"{count} {agent.page().text}")
        node.inject("mig-create", "1g.10gb", "gpu=0")
        until(lambda: len(instances(agent.page(), "0")) == 4, lambda: f"{count} {agent.page().text}")

    for i in range(10):
        change(i)
    before, files = agent.rss(), agent.descriptors()
    history = agent.page().one("stoker_store_memory_bytes")
    for i in range(15):
        change(i)
    assert agent.descriptors() <= files + 1 and len(agent.children()) == 1
    page = agent.page()
    rings = page.one("stoker_store_memory_bytes") - history  # of what is kept, they fill meanwhile
    assert agent.rss() - before < rings + (1 << 20), (agent.rss(), before, rings)


# -- drivers and profiles ---------------------------------------------------------------------------------------------

def test_three_generations_of_the_driver_look_alike(agent_on):
    def shape(agent):
        return {(n, l.get("gpu")) for n, l, _ in agent.page().series if n.startswith("DCGM_")}

    agents = {driver: agent_on("healthy-training", driver=driver)[1] for driver in ("535.288.01", "590.48.01", "610.43.02")}
    last = {("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "7"), ("DCGM_FI_PROF_PCIE_RX_BYTES", "7")}  # what needs two readings
    for driver, agent in agents.items():
        until(lambda: last <= shape(agent), agent.log_text)  # noqa: B023
        until(lambda: {l["DCGM_FI_DRIVER_VERSION"] for l, _ in agent.page().all(TEMP)} == {driver}, agent.log_text)  # noqa: B023
    for driver, agent in agents.items():
        until(lambda: shape(agent) == shape(agents["590.48.01"]), lambda: f"{driver}: {sorted(shape(agent) ^ shape(agents['590.48.01']))[:10]}")  # noqa: B023


def test_an_older_profile(agent_on):
    _, agent = agent_on(options=["--profile", "4.8.2"])
    for labels, _ in agent.page().all(TEMP):
        assert "Hostname" in labels and "hostname" not in labels


def test_a_newer_profile_and_both_at_once(agent_on):
    _, newer = agent_on(options=["--profile", "4.9"])
    _, both = agent_on(options=["--profile", "both"])
    names = until(lambda: (p := newer.page()) and {n for n in p.names() if "temp" in n.lower()}, newer.log_text)
    assert TEMP not in newer.page().names()
    until(lambda: names <= (p := both.page()).names() and len(p.all(TEMP)) == 8, both.log_text)


# -- jobs -------------------------------------------------------------------------------------------------------------

def test_jobs_of_a_workload_manager(agent_on, tmp_path):
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "0").write_text("4711\n")
    _, agent = agent_on(options=["--hpc-job-mapping-dir", jobs])

    def shown():
        return {(l["gpu"], l["hpc_job"]) for l, _ in agent.page().all(TEMP) if "hpc_job" in l}

    until(lambda: shown() == {("0", "4711")}, lambda: agent.page().text)
    (jobs / "0").write_text("4712\n4713\n")
    (jobs / "5").write_text("4712\n")
    until(lambda: shown() == {("0", "4712"), ("0", "4713"), ("5", "4712")}, lambda: agent.page().text)
    (jobs / "0").unlink()
    (jobs / "5").write_text("")
    until(lambda: shown() == set() and len(agent.page().all(TEMP)) == 8, lambda: agent.page().text)


# -- many clients, other doors ----------------------------------------------------------------------------------------

def test_sixteen_scrapers_get_whole_pages(agent_on):
    _, agent = agent_on("healthy-training")
    broken, pages, windows, lock = [], [], 0, threading.Lock()

    def scrape(number):
        nonlocal windows
        connection = http.client.HTTPConnection(agent.address, timeout=120)
        last = None
        for _ in range(20):
            connection.request("GET", "/metrics", headers={"User-Agent": f"scraper-{number}"})
            page = Page(connection.getresponse().read().decode())
            tick = page.one("stoker_ticks_total")
            here = {l["gpu"]: v for l, v in page.all("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION")} | {"ticks": tick}
            with lock:
                windows += len(page.all("stoker_power_watts_max")) == 8
                if len(page.all("stoker_gpu_up")) != 8 or not page.text.endswith("\n"):
                    broken.append(page.text)
                if last and any(here.get(name, value) < value for name, value in last.items()):
                    broken.append(f"{last} then {here}")
                pages.append((tick, tuple(sorted(here.items()))))
            last = here
            time.sleep(0.1)
        connection.close()

    threads = [threading.Thread(target=scrape, args=(n,)) for n in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not broken and len(pages) == 16 * 20
    assert windows >= 16  # each in the page after a tick; between two ticks nothing is added
    assert len({tick for tick, _ in pages}) == len({page for _, page in pages}), "one tick, one page"
    assert agent.page().one("stoker_http_refused_total") == 0


def test_a_unix_socket(make_node, make_agent, tmp_path_factory):
    path = tmp_path_factory.mktemp("u") / "http.sock"
    agent = make_agent(make_node().env, listen=f"127.0.0.1:0,unix:{path}")

    def all_eight():
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(120)
            s.connect(str(path))
            s.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer = b""
            while part := s.recv(65536):
                answer += part
        head, body = answer.split(b"\r\n\r\n", 1)
        assert head.startswith(b"HTTP/1.1 200"), head
        return len(Page(body.decode()).all(TEMP)) == 8

    until(all_eight, agent.log_text)
    assert agent.get("/metrics")[0] == 200


def test_head_and_the_scrapers_own_timeout(agent_on):
    _, agent = agent_on()
    for value in ("10", "0.001", "nonsense", "-1"):
        until(lambda: len(agent.page(**{"X-Prometheus-Scrape-Timeout-Seconds": value}).all(TEMP)) == 8, agent.log_text)  # noqa: B023
    for path, status in (("/metrics", 200), ("/health", 200), ("/healthz", 200), ("/nothing", 404)):
        connection = http.client.HTTPConnection(agent.address, timeout=120)
        connection.request("HEAD", path)
        answer = connection.getresponse()
        assert answer.status == status and int(answer.getheader("Content-Length")) > 0 and answer.read() == b""
        connection.request("GET", "/health")  # the connection is still in step
        assert connection.getresponse().read() == b"OK"
        connection.close()
    connection = http.client.HTTPConnection(agent.address, timeout=120)
    connection.request("POST", "/metrics", body=b"x")
    assert connection.getresponse().status == 405
    connection.close()


# -- large nodes ------------------------------------------------------------------------------------------------------

def test_sixteen_gpus(make_node, make_agent, tmp_path):
    scenario = tmp_path / "sixteen.yaml"
    scenario.write_text("about: as many GPUs as there may be\ngpus: {board: h200-sxm-141gb, count: 16}\n"
                        "work:\n  - {name: t, kind: train, gpus: all}\ntruth: []\n")
    node = make_node(scenario)
    agent = make_agent(node.env)

    def whole():
        page = agent.page()
        assert len(page.all("DCGM_FI_PROF_GR_ENGINE_ACTIVE")) == 16
        assert {l["gpu"] for l, _ in page.all(TEMP)} == {str(i) for i in range(16)}
        assert len({l["UUID"] for l, _ in page.all(TEMP)}) == 16
        assert agent.fresh(range(16)) and page.one("stoker_gpus_found") == 16

    settles(whole)
    node.inject("lost", "gpu=15")
    until(lambda: agent.gpu(15)["state"] == "lost", agent.log_text)
    until(lambda: agent.fresh(range(15)) and not agent.page().all(TEMP, gpu="15"), agent.log_text)
    assert agent.verb("status").stdout.count("\n") < 40  # the fault, why the others wait, and a line each


def test_fifty_six_mig_devices(make_node, make_agent, pytestconfig):
    scenario = pytestconfig.rootpath / "test" / "bench" / "mig-8x7.yaml"
    agent = make_agent(make_node(scenario).env)

    def whole():
        page = agent.page()
        assert len(page.all("DCGM_FI_PROF_GR_ENGINE_ACTIVE")) == 56, agent.log_text()
        assert len({(l["gpu"], l["GPU_I_ID"]) for l, _ in page.all("DCGM_FI_DEV_FB_USED")}) == 56
        assert {v for _, v in page.all("stoker_gpu_instances")} == {7}
        for gpu in range(8):  # power is the board's: once
            assert len(page.all("stoker_gpu_power_watts", gpu=str(gpu))) == 1
        assert agent.fresh(range(8))

    settles(whole)
    assert agent.page().one("stoker_store_refused_total") == 0


# -- a slow driver ----------------------------------------------------------------------------------------------------

def changes(agent, gpu, turns):
    """The states of this GPU over so many ticks."""
    seen = []
    tick = agent.json("/api/v1/gpus")[1]["tick"]
    while (now := agent.json("/api/v1/gpus")[1])["tick"] < tick + turns:
        state = next(g["state"] for g in now["gpus"] if g["index"] == gpu)
        if not seen or seen[-1] != state:
            seen.append(state)
        time.sleep(0.02)
    return seen


def test_a_slow_driver_is_no_hung_one(agent_on):
    """Each reading of power takes a second and a half: every GPU gets a sampler of its own, and is up there."""
    node, agent = agent_on("slow-driver")
    node.sim("clock", "step", "3m")
    until(lambda: all(g["own_sampler"] and g["state"] == "up" for g in agent.gpus()),
          lambda: f"{[(g['state'], g['own_sampler']) for g in agent.gpus()]} {agent.log_text()}")

    def stands():
        lines, samplers = len(agent.log_text().splitlines()), agent.page().one("stoker_samplers_started_total")
        assert changes(agent, 0, 5) == ["up"]
        for gpu in agent.gpus():
            assert gpu["state"] == "up" and "nvmlDeviceGetPowerUsage took as long as" in gpu["why"]
            assert gpu["missed_calls"] > 1
            temp = gpu["metrics"][TEMP]
            assert temp["value"] is not None and temp["age_seconds"] < 10
        page = agent.page()
        assert len(page.all(TEMP)) == 8 and all(v == 1 for _, v in page.all("stoker_gpu_up"))
        assert len(agent.log_text().splitlines()) == lines, "it was said once"
        assert page.one("stoker_samplers_started_total") == samplers >= len(agent.samplers()) == 8
        assert agent.get("/healthz")[0] == 200

    settles(stands)


def test_a_driver_that_was_slow_once(agent_on):
    node, agent = agent_on("near-miss-slow-once", options=["--sampler-rejoin-after", "1s"])
    node.sim("clock", "step", "598s")
    tick = agent.json("/api/v1/gpus")[1]["tick"]
    until(lambda: agent.json("/api/v1/gpus")[1]["tick"] > tick + 4, "it is over")
    until(lambda: len(agent.samplers()) == 1 and agent.fresh(range(8)), agent.log_text)
    until(lambda: agent.get("/healthz")[0] == 200 and agent.gpu(2).get("why") is None, lambda: f"{agent.gpu(2)} {agent.log_text()}")
    until(lambda: changes(agent, 2, 2) == ["up"], agent.log_text)
    assert len(agent.log_text().splitlines()) <= 4 and agent.page().one("stoker_samplers_started_total") <= 2
