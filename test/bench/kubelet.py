#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What `stoker kubelet` costs and how soon it tells a kubelet: beside an agent on a simulated node, with a kubelet of the tests.

usage: kubelet.py BUILD

Nothing here passes or fails: limits stand beside the figures for a reader to judge."""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
for part in ("test/scenario/agent", "test/scenario/kubelet"):
    sys.path.insert(0, str(ROOT / part))
import agent_rig as rig  # noqa: E402
import conftest  # noqa: E402
import dra_rig  # noqa: E402

ROUNDS, IDLE_S = 51, 60


def status(process, name):
    line = next(line for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1])


def memory(process):
    """Of its own, with its share of the pages that others use too (PSS), and with all of those."""
    lines = pathlib.Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
    share = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    own, whole = status(process, "RssAnon"), status(process, "VmRSS")
    return f"{own / 1024:.1f} MiB of its own, {share / 1024:.1f} MiB with its share of libraries (limit 6 MiB), {whole / 1024:.1f} MiB with all of them"


def cpu_percent(processes, seconds):
    """Of a core, each, over these seconds."""
    def ticks(process):
        return sum(map(int, pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))

    before = [ticks(p) for p in processes]
    time.sleep(seconds)
    return [(ticks(p) - b) / os.sysconf("SC_CLK_TCK") / seconds * 100 for p, b in zip(processes, before)]


def start(build, folder, scenario, *options, environ=None, prepare=None):
    node = rig.Node(build / "stoker", folder, scenario)
    if prepare:
        prepare(node)
    agent = rig.Agent(build / "stoker", folder, node.env)
    return conftest.Side(build / "stoker", folder, node, agent, options, environ or {})


def stop(side):
    side.stop()
    side.agent.stop()
    side.node.stop()


def median_ms(call):
    times = []
    for _ in range(ROUNDS):
        began = time.monotonic()
        call()
        times.append((time.monotonic() - began) * 1000)
    return statistics.median(times)


def idle(build, folder):
    side = start(build, folder, "mig-balanced", "--mig-strategy", "mixed")
    side.plugin("nvidia.com/mig-1g.10gb")
    own, agent = cpu_percent([side.process, side.agent.process], IDLE_S)
    side.process.terminate()
    side.process.wait()
    (alone,) = cpu_percent([side.agent.process], IDLE_S)
    print(f"processor time while nothing changes: {own:.2f} % of a core; the agent {agent:.2f} %, and {alone:.2f} % without it")
    side.kubelet.stop()
    side.agent.stop()
    side.node.stop()


def faults(build, folder):
    side = start(build, folder, "default")
    plugin, times = side.plugin(), []
    empty = median_ms(lambda: plugin.call("GetDevicePluginOptions", b""))
    ids = [d.id for d in plugin.devices]
    for size in (1, 2, 4, 8):
        print(f"preferred set of {size} of 8 GPUs: {median_ms(lambda: plugin.prefer(ids, size)):.2f} ms, "
              f"a call without any work {empty:.2f} ms (limit 1 ms)")
    spawn = median_ms(lambda: side.node.sim("show"))
    for gpu in range(8):
        known, began = len(plugin.lists), time.monotonic()
        side.node.inject("xid", "79", f"gpu={gpu}")
        while len(plugin.lists) == known:
            time.sleep(0.001)
        times.append((time.monotonic() - began) * 1000)
    print(f"XID 79 to Unhealthy at the kubelet: {statistics.median(times):.0f} ms, longest {max(times):.0f} ms, of these "
          f"{spawn:.0f} ms to start the command that injects it (limit 200 ms)")
    print(f"memory: {memory(side.process)}")
    stop(side)


def many(build, folder):
    scenario, config = folder / "node.yaml", folder / "config.yaml"
    layout = ", ".join(['"1g.10gb"'] * 7)
    scenario.write_text("about: eight times seven\nnode: {seed: 3}\n"
                        f"gpus: {{board: h100-sxm-80gb, count: 8, mig: [{layout}]}}\nwork: []\ntruth: []\n")
    config.write_text("version: v1\nsharing:\n  timeSlicing:\n    resources: [{name: nvidia.com/mig-1g.10gb, replicas: 10}]\n")
    side = start(build, folder, scenario, "--mig-strategy", "mixed", "--config-file", config)
    plugin = side.plugin("nvidia.com/mig-1g.10gb")
    assert len(plugin.devices) == 560

    def listed():
        stream = plugin.channel.unary_stream("/v1beta1.DevicePlugin/ListAndWatch")(b"")
        next(iter(stream))
        stream.cancel()

    empty = median_ms(lambda: plugin.call("GetDevicePluginOptions", b""))
    print(f"ListAndWatch of 8 x 7 instances x 10 replicas: {median_ms(listed):.2f} ms to the first list, a call without any work "
          f"{empty:.2f} ms (limit 5 ms)")
    print(f"memory then: {memory(side.process)}")
    stop(side)


def claims(build, folder):
    api = dra_rig.Api(folder)
    side = start(build, folder, "default", "--dra-driver", dra_rig.DRIVER, "--node-name", "worker-7", "--plugins-path", folder / "plugins",
                 "--plugins-registry", folder, "--cdi-root", folder / "cdi", "--kubernetes-account", api.account, environ=api.env)
    kubelet = dra_rig.DraKubelet(folder)
    rig.until((folder / f"{dra_rig.DRIVER}-reg.sock").exists, side.log_text)
    kubelet.register()
    rig.until(api.pool, side.log_text)
    made = [api.claim(f"c{n}", f"gpu-{n % 8}") for n in range(ROUNDS)]
    asked, times = iter(made), []

    def prepare_next():
        claim = next(asked)
        began = time.monotonic()
        kubelet.prepare(claim)
        times.append((time.monotonic() - began) * 1000)
        kubelet.unprepare(claim)

    whole = median_ms(prepare_next)
    kubelet.prepare(made[0])
    again = median_ms(lambda: kubelet.prepare(made[0]))
    empty = median_ms(lambda: kubelet.unprepare(made[1]))
    print(f"a claim: {statistics.median(times):.1f} ms to prepare, {whole:.1f} ms with its end; {again:.1f} ms when it is "
          f"prepared already, a call without any work {empty:.2f} ms (a kubelet waits 45 s)")
    spawn = median_ms(lambda: side.node.sim("show"))
    began = time.monotonic()
    side.node.inject("xid", "79", "gpu=3")
    while "taints" not in api.pool()["gpu-3"]:
        time.sleep(0.001)
    print(f"XID 79 to the taint on the API server: {(time.monotonic() - began) * 1000:.0f} ms, of these {spawn:.0f} ms to start the command that "
          f"injects it (limit 1000 ms)")
    print(f"memory with claims: {memory(side.process)}")
    kubelet.close()
    stop(side)
    api.stop()


def made(build, folder):
    api, scene = dra_rig.Api(folder), folder / "scene.yaml"
    scene.write_text('{about: a GPU to be split, gpus: {board: h100-sxm-80gb, count: 1}, truth: []}')

    def split(node):
        subprocess.run([build / "stoker", "mig", "apply", "--state", folder / "change.json", "gpu0=none"], env=node.env, check=True, capture_output=True)

    side = start(build, folder, scene, "--dra-driver", dra_rig.DRIVER, "--dra-dynamic-mig", "--node-name", "worker-7", "--plugins-path", folder / "plugins",
                 "--plugins-registry", folder, "--cdi-root", folder / "cdi", "--kubernetes-account", api.account, environ=api.env, prepare=split)
    kubelet = dra_rig.DraKubelet(folder)
    rig.until((folder / f"{dra_rig.DRIVER}-reg.sock").exists, side.log_text)
    kubelet.register()
    rig.until(api.pool, side.log_text)
    asked, times, alone, uuid = iter(range(ROUNDS)), [], [], side.uuid(0)
    word = [build / "stoker", "kubelet", "instance"]

    def prepare_next():
        claim = api.claim(f"c{next(asked)}", "gpu-0-mig-1g10gb-19-6")
        began = time.monotonic()
        rig.until(lambda: not next(iter(kubelet.prepare(claim).values())).error, side.log_text)
        times.append((time.monotonic() - began) * 1000)
        kubelet.unprepare(claim)

    median_ms(prepare_next)
    for way in ("make", "remove") * ROUNDS:
        began = time.monotonic()
        subprocess.run([*word, way, uuid, "19", "0"], env=side.node.env, check=True, capture_output=True)
        alone.append((time.monotonic() - began) * 1000)
    print(f"a claim for which a MIG device is made: {statistics.median(times):.0f} ms to prepare, of these {statistics.median(alone[::2]):.0f} ms to make "
          f"it; the rest until the agent lists it (a kubelet waits 45 s). {statistics.median(alone[1::2]):.0f} ms to remove one")
    kubelet.close()
    stop(side)
    api.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    build = parser.parse_args().build.resolve()
    for part in idle, faults, many, claims, made:
        with tempfile.TemporaryDirectory() as folder:
            part(build, pathlib.Path(folder))


main()
