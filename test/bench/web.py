#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the agent's page weighs, how soon a browser paints it, and what viewers cost the agent.

usage: web.py BUILD [--seconds 60] [--write]      --write puts the tables into docs/appendix/measurements.md

First paint is what a headless Chromium tells of itself, the page on loopback, its cache empty. A viewer is what a browser with the
page open asks for: the page once, the event stream, a look each ten seconds, the history that its charts want. What many GPUs cost
the browser is measured on 72 of them, sixteen simulated ones again and again, with a day of history behind each; its time is CPU time
of its main thread. Nothing here passes or fails: goals stand beside the figures for a reader to judge."""
import gzip
import http.client
import json
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import run as bench

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- web: written by test/bench/web.py with --write -->", "<!-- end of web -->"
VIEWERS, PAINTS, SETTLE_S = (0, 1, 10), 7, 5
CROWD, SIMULATED, UPDATES_S = 72, 16, 20
SHOWN = [("on call, ten minutes", "#/", "second"), ("on call, 24 h", "#/", "minute"), ("executive", "#/executive", None), ("debug, ten minutes", "#/debug", "second"),
         ("debug, 24 h", "#/debug", "minute"), ("one GPU, a minute of tenths", "#/gpu/40", "tenth")]
CHARTED = "DCGM_FI_PROF_SM_ACTIVE,DCGM_FI_DEV_GPU_UTIL,DCGM_FI_DEV_POWER_USAGE,DCGM_FI_DEV_GPU_TEMP"
BROWSER = {"Accept": "text/html,*/*", "Accept-Encoding": "gzip"}

agent_bench = bench.load("agent_bench", ROOT / "test/bench/agent.py")
rig = agent_bench.rig


class Viewer:
    """One browser's requests, without the browser."""

    def __init__(self, address):
        self.address, self.bytes, self.ends = address, 0, threading.Event()
        self.threads = [threading.Thread(target=target, daemon=True) for target in (self.stream, self.looks)]
        for thread in self.threads:
            thread.start()

    def ask(self, path):
        connection = http.client.HTTPConnection(self.address, timeout=30)
        connection.request("GET", path, headers=BROWSER)
        answer = connection.getresponse()
        body = answer.read()
        self.bytes += len(body)
        connection.close()
        return gzip.decompress(body) if answer.getheader("Content-Encoding") == "gzip" else body

    def stream(self):
        connection = http.client.HTTPConnection(self.address, timeout=30)
        connection.request("GET", "/api/v1/stream", headers=BROWSER)
        answer = connection.getresponse()
        while not self.ends.is_set():
            self.bytes += len(answer.read1(1 << 20))
        connection.close()

    def looks(self):
        page = self.ask("/").decode()
        for part in page.split('"web/')[1:]:
            self.ask("/web/" + part.split('"')[0])
        look = json.loads(self.ask("/api/v1/status"))
        for gpu in look["node"]["gpus"]:
            self.ask(f"/api/v1/gpus/{gpu['uuid']}/history?resolution=second&metric={CHARTED}")
        while not self.ends.wait(10):
            self.ask("/api/v1/status")

    def end(self):
        self.ends.set()
        for thread in self.threads:
            thread.join()


def cost(agent, viewers, seconds):
    """(percent of a core, bytes a second to each) with that many viewers; what they ask when they come is included."""
    process = agent_bench.Process(agent.process.pid)
    watching = [Viewer(agent.address) for _ in range(viewers)]
    time.sleep(seconds)
    percent = process.percent()
    sent = sum(v.bytes for v in watching)
    for viewer in watching:
        viewer.end()
    return percent, sent / seconds / viewers if viewers else None


def weights(agent):
    viewer = lambda path, packed: len(ask(agent, path, packed))
    page = ask(agent, "/", False).decode()
    paths = ["/"] + ["/web/" + part.split('"')[0] for part in page.split('"web/')[1:]]
    files = [(path, viewer(path, False), viewer(path, True)) for path in paths if "licence" not in path]
    return len(files), sum(f[1] for f in files), sum(f[2] for f in files), sum(f[1] for f in files if "uplot" in f[0])


def ask(agent, path, packed):
    connection = http.client.HTTPConnection(agent.address, timeout=30)
    connection.request("GET", path, headers={"Accept": "text/html", **({"Accept-Encoding": "gzip"} if packed else {})})
    body = connection.getresponse().read()
    connection.close()
    return body


def chromium(build):
    browser, fetch = bench.load("bench_browser", ROOT / "test/browser.py"), bench.load("bench_fetch", ROOT / "test/peer/fetch.py")
    found = browser.program()
    try:
        return browser, found or browser.program(fetch.Peers(build / "peers").get("chromium"))
    except fetch.Unavailable as reason:
        print(f"no Chromium, so no paint is measured: {reason}", file=sys.stderr)
        return browser, None


def paints(build, agent, tmp):
    """Milliseconds to the first paint of the page and of a plain one and to the first numbers, percent of a core and bytes of the browser
    that looks at it; None: no browser."""
    module, found = chromium(build)
    if not found:
        return None
    browser = module.Browser(*found, tmp / "profile")
    first, plain, numbers = [], [], []
    try:
        browser.call("Network.setCacheDisabled", cacheDisabled=True)
        browser.call("Performance.enable", timeDomain="threadTicks")
        browser.look(1400, 900)
        for _ in range(PAINTS):
            plain.append(paint(browser, agent, "api/"))
            first.append(paint(browser, agent, ""))
            browser.until("document.querySelector('.rows .bar-value')?.textContent.includes('%')")
            numbers.append(browser.js("performance.now()"))
        share = busy(browser, 10)
        heap = browser.call("Runtime.getHeapUsage")["usedSize"]
    finally:
        browser.end()
    return statistics.median(first), statistics.median(plain), statistics.median(numbers), share, heap


def busy(browser, seconds):
    """Percent of a core that the page's main thread takes."""
    work = lambda: {m["name"]: m["value"] for m in browser.call("Performance.getMetrics")["metrics"]}["TaskDuration"]
    before, at = work(), time.monotonic()
    time.sleep(seconds)
    return (work() - before) / (time.monotonic() - at) * 100


def crowd(build):
    """What CROWD GPUs with a day of history cost the browser: a table; "" where there is none."""
    sys.path.insert(0, str(ROOT / "test/scenario/web"))
    site_rig, site_day = bench.load("site_rig", ROOT / "test/scenario/web/site_rig.py"), bench.load("site_day", ROOT / "test/scenario/web/site_day.py")
    module, found = chromium(build)
    if not found:
        return ""
    with tempfile.TemporaryDirectory() as tmp:
        scene = Path(tmp) / "many.yaml"
        scene.write_text(f"about: Many GPUs that train, for the benchmarks\ngpus: {{board: h100-sxm-80gb, count: {SIMULATED}}}\nwork:\n  - {{name: train, kind: train, gpus: all}}\ntruth: []\n")
        node = rig.Node(build / "stoker", Path(tmp), scene, strict=False)
        agent = rig.Agent(build / "stoker", Path(tmp), node.env, options=["--journal", "none"])
        proxy, browser = site_rig.Proxy(agent.address), module.Browser(*found, Path(tmp) / "profile")
        try:
            many = site_day.Crowd(proxy, CROWD)
            many.then = site_day.Day(site_day.devices_of(many.look(agent.json("/api/v1/status")[1]))).rewrite
            browser.call("Performance.enable", timeDomain="threadTicks")
            return table([looked_at(site_rig.Visitor(browser, proxy.url), *one) for one in SHOWN], ("view", "CPU of the main thread", "script heap", "values of curves", "elements"))
        finally:
            browser.end()
            proxy.end()
            agent.stop()
            node.stop()


def looked_at(page, name, way, span):
    """A row: one view of it, all that it wants to draw being there."""
    page.open(way, width=1400, height=900)
    if span:
        page.click(f"#view [data-span={span}]")
    asked = lambda: page.js("performance.getEntriesByType('resource').filter((r) => r.name.includes('/history')).length")
    before = -1
    while (now := asked()) != before:
        before = now
        time.sleep(3)
    share = busy(page.browser, UPDATES_S)
    _, _, heap = page.weight()
    stored = page.browser.call("Runtime.getHeapUsage").get("backingStorageSize", 0)
    return (name, f"{share:.1f} % of a core", f"{heap / 2**20:.1f} MiB", f"{stored / 2**20:.1f} MiB", str(page.js("document.getElementsByTagName('*').length")))


def paint(browser, agent, path):
    """Milliseconds to the first paint of a page, coming from an empty one."""
    browser.open("about:blank")
    browser.call("Page.navigate", url=f"http://{agent.address}/{path}")
    browser.until("performance.getEntriesByName('first-contentful-paint').length > 0")
    return browser.js("performance.getEntriesByName('first-contentful-paint')[0].startTime")


def case(build, title, scenario, seconds):
    rows = []
    with tempfile.TemporaryDirectory() as tmp:
        node = rig.Node(build / "stoker", Path(tmp), scenario, strict=False)
        agent = rig.Agent(build / "stoker", Path(tmp), node.env, options=["--journal", "none"])
        try:
            time.sleep(SETTLE_S)
            painted = paints(build, agent, Path(tmp))
            if painted:
                rows += [("first paint", f"{painted[0]:.0f} ms", "< 200 ms"), ("first paint of a page without style or script, for comparison", f"{painted[1]:.0f} ms", ""),
                         ("first numbers, at the latest", f"{painted[2]:.0f} ms", ""), ("the browser's main thread, page open", f"{painted[3]:.1f} % of a core", ""),
                         ("its script heap", f"{painted[4] / 2**20:.1f} MiB", "")]
            none = None
            for viewers in VIEWERS:
                percent, sent = cost(agent, viewers, seconds)
                none = percent if none is None else none
                rows.append((f"CPU of the agent, {viewers} viewer{'' if viewers == 1 else 's'}", f"{percent:.2f} % of a core", ""))
                if sent:
                    rows.append((f"sent to each of {viewers}", f"{sent / 1024:.1f} KiB/s", ""))
            rows.append(("CPU for one viewer more", f"{(percent - none) / VIEWERS[-1]:.3f} % of a core", ""))
            if none:
                rows.append((f"{VIEWERS[-1]} viewers against none", f"{percent / none:.2f} times the CPU", ""))
            return f"### {title}\n\n" + table(rows), weights(agent)
        finally:
            agent.stop()
            node.stop()


def table(rows, heads=("what", "stoker", "goal")):
    lines = [heads, ("---",) * len(heads), *rows]
    return bench.columns(lines) + "\n"


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="of each number of viewers")
    args = parser.parse_args()
    cases = [case(args.build, title, scenario, args.seconds)
             for title, scenario in (("8 GPUs", "default"), ("8 x 7 MIG devices", str(ROOT / "test/bench/mig-8x7.yaml")))]
    many = crowd(args.build)
    files, plain, packed, library = cases[0][1]
    weight = table([("the page, all files", f"{plain / 1000:.0f} kB", "< 300 kB"),
                    ("of these the chart library", f"{library / 1000:.0f} kB", ""),
                    ("as it is sent, packed", f"{packed / 1000:.0f} kB", ""), ("files", str(files), "")])
    crowded = f"\n### {CROWD} GPUs in the browser, with a day of history\n\n{many}" if many else ""
    bench.tell(args, f"{args.seconds:g} s for each number of viewers", f"\n{weight}\n" + "\n".join(c[0] for c in cases) + crowded, BEGIN, END)


if __name__ == "__main__":
    sys.exit(main())
