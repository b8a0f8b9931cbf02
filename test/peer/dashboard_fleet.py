# SPDX-License-Identifier: Apache-2.0
"""A small fleet of simulated nodes for dashboards: a healthy one with pods and jobs, one with MIG, one on which about everything
is wrong at once, one with cards that have fans and retire pages, and one whose page is dcgm-exporter's alone."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "unit" / "podresources"))

SPEED = "5"

BROKEN = """
about: About everything is wrong at once
node: {seed: 7}
gpus: {board: h100-sxm-80gb, count: 8}
work:
  - {name: chat, kind: decode, gpus: 0, process: vllm, user: 1002, independent: yes}
  - {name: train, kind: train, gpus: 1-4, process: python, user: 1001}
  - {name: notebook, kind: idle-context, gpus: 6, process: ipykernel, memory: 40GiB, independent: yes}
at:
  - {time: 20s, do: thermal, gpu: 0, ambient: +35}
  - {time: 20s, do: hw-slowdown, gpu: 2}
  - {time: 20s, do: pcie, gpu: 2, width: 8, rate: 5}
  - {time: 20s, do: link, gpu: 3, link: 7, state: errors, counter: crc-flit, rate: 40}
  - {time: 20s, do: link, gpu: 3, link: 8, state: errors, counter: recovery, rate: 2}
  - {time: 20s, do: ecc, gpu: 4, corrected: 20, corrected_rate: 180, uncorrected: 1, location: dram}
  - {time: 20s, do: remap, gpu: 4, uncorrected: 1}
  - {time: 20s, do: xid, gpu: 4, code: 64}
  - {time: 20s, do: xid, gpu: 5, code: 31, every: 60s, times: 100}
  - {time: 30s, do: xid, gpu: 7, code: 79}
truth: []
"""

CARDS = """
about: Cards with fans, and cards that retire pages
node: {driver: "535.261.03", cuda: "12.2", seed: 9}
gpus:
  - {board: rtx-4080-super, count: 1}
  - {board: t4, count: 1}
work:
  - {name: render, kind: inference, gpus: all, process: blender, load: 0.8, independent: yes}
at:
  - {time: 5s, do: retire, gpu: 1, single_bit: 2, double_bit: 3}
truth: []
"""

# One that nobody listens at: the agents' own alerts go nowhere.
RECEIVER = "alerts: {receivers: {ops: {webhook: 'http://127.0.0.1:9/'}}}\n"

PODS = {0: ("trainer-0", "research"), 1: ("trainer-1", "research"), 2: ("chat", "serving")}
JOBS = {4: "5822", 5: "5822"}


class Node:
    """`stoker agent` on a simulated node with its /proc, /sys and kernel log."""

    def __init__(self, stoker, folder, servers, scenario, *flags):
        folder.mkdir()
        if "\n" in scenario:
            (folder / "scenario.yaml").write_text(scenario)
            scenario = folder / "scenario.yaml"
        (folder / "stoker.yaml").write_text(RECEIVER)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("STOKER_", "DCGM_", "NVIDIA_", "KUBERNETES_"))}
        env.update(XDG_RUNTIME_DIR=str(folder), STOKER_SIM_RUNTIME=str(folder / "nodes"), STOKER_JOURNAL=str(folder / "journal.db"))
        self.image, self.control, log = folder / "node.img", folder / "control", folder / "agent.log"
        command = [stoker, "sim", "run", "--image", self.image, "--tree", folder / "tree", "--no-processes", "--speed", SPEED,
                   scenario, "--", stoker, "agent", "--config", folder / "stoker.yaml", "--listen", "127.0.0.1:0", "--control",
                   self.control, "--clock-speed", SPEED, *flags]
        self.process = servers.started("the agent's URL", lambda: self._url(log), command, log, cwd=folder, env=env)
        assert self.process, log.read_text()
        self.instance = self._url(log)

    @staticmethod
    def _url(log):
        found = re.search(r"http://(127\.0\.0\.1:\d+)/", log.read_text(errors="replace"))
        return found[1] if found else None

    def end(self):
        self.process.end()


def pods(kubelet, stoker, image):
    """What the kubelet says of the node: a pod for each GPU of PODS."""
    done = subprocess.run([stoker, "sim", "show", "--image", image, "--json"], capture_output=True, text=True, check=True, timeout=60)
    uuids = {g["gpu"]: g["uuid"] for g in json.loads(done.stdout)["gpus"]}
    return kubelet.reply(*[(pod, space, [("main", [("nvidia.com/gpu", [uuids[gpu]])])]) for gpu, (pod, space) in PODS.items()])


def job(name, node, **more):
    return {"job_name": name, "static_configs": [{"targets": [node.instance], **more.pop("static", {})}], **more}


class Fleet:
    """The nodes, a Prometheus that scrapes them with alerting rules loaded, and the dashboards."""

    def __init__(self, *of):
        self.stoker, self.nodes, self.kubelet = of[0], {}, None
        try:
            self._start(*of)
        except BaseException:
            self.end()
            raise

    def _start(self, stoker, folder, sockets, servers, kubelet, prometheus):
        counters = folder / "counters.csv"
        counters.write_text(self.said("dashboard", "counters"))
        jobs_dir = folder / "jobs"
        jobs_dir.mkdir()
        for gpu, name in JOBS.items():
            (jobs_dir / str(gpu)).write_text(f"{name}\n")
        owners = ["-k", "--pod-resources-kubelet-socket", sockets / "kubelet.sock", "--kubernetes-period", "1s",
                  "--hpc-job-mapping-dir", jobs_dir]
        for name, scenario, flags in (("well", "default", owners), ("mig", "mig-balanced", []), ("broken", BROKEN, []),
                                      ("cards", CARDS, []), ("old", "default", ["--profile", "4.8.2"])):
            self.nodes[name] = Node(stoker, folder / name, servers, scenario, "-f", counters, "--owner-series", "100", *flags)
        self.said("maintenance", "start", "--for", "2h", "--reason", "new fans", "--gpu", "6", "--control", self.nodes["broken"].control)
        self.kubelet = kubelet.Kubelet(sockets / "kubelet.sock", pods(kubelet, stoker, self.nodes["well"].image))
        rules = folder / "rules.yaml"
        rules.write_text(self.said("rules", "--metrics", "dcgm"))
        self.prometheus = prometheus(
            *[job(name, self.nodes[name]) for name in ("well", "mig", "broken", "cards")],
            # as a fleet that still runs dcgm-exporter: not one name of ours
            job("old", self.nodes["old"], metric_relabel_configs=[{"source_labels": ["__name__"], "regex": "stoker_.*", "action": "drop"}]),
            # as in a cluster: the exporter's own pod is the scrape's label, and the other one is renamed
            job("cluster", self.nodes["well"], static={"labels": {"pod": "stoker-x7k2p", "namespace": "monitoring"}}))
        self._load_rules(rules)

    def _load_rules(self, rules):
        config = self.prometheus.process.log.parent / "prometheus.yaml"
        whole = json.loads(config.read_text())
        whole["global"]["evaluation_interval"] = "1s"
        config.write_text(json.dumps({**whole, "rule_files": [str(rules)]}))
        self.prometheus.process.popen.send_signal(signal.SIGHUP)

    def said(self, *words):
        return subprocess.run([self.stoker, *words], capture_output=True, text=True, check=True, timeout=60).stdout

    def dashboard(self, name, *words):
        return json.loads(self.said("dashboard", "grafana", name, *words))

    def instance(self, node):
        return self.nodes[node].instance

    def end(self):
        for node in self.nodes.values():
            node.end()
        if self.kubelet:
            self.kubelet.stop()
