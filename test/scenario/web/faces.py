# SPDX-License-Identifier: Apache-2.0
"""What the faces of an agent say of each GPU at one moment, in numbers: the page, `stoker status`, `stoker top` and /metrics, each
beside the tick that it is of. The ticks come from the agent's own stream."""
import collections
import contextlib
import http.client
import re
import threading
import time

import site_day

LATE_S = 5  # so long a tick may take to come
# Of `stoker top` SM and UTIL are the newest readings, on the other faces means of the last minute.
NOW = {"sm_now": "DCGM_FI_PROF_SM_ACTIVE", "util_now": "DCGM_FI_DEV_GPU_UTIL"}
FIELDS = {"power": "DCGM_FI_DEV_POWER_USAGE", "temp": "DCGM_FI_DEV_GPU_TEMP", "clock": "DCGM_FI_DEV_SM_CLOCK", "used": "DCGM_FI_DEV_FB_USED"}
WORDS = "working|waiting|idle held|free|unusable|unknown"


class Ticks:
    """The ticks of an agent, by number and by the second that they are shown with."""

    def __init__(self, address):
        self.by_number, self.by_second = {}, collections.defaultdict(list)
        threading.Thread(target=self.listen, args=(address,), daemon=True).start()

    def listen(self, address):
        with contextlib.suppress(OSError):  # the agent has gone
            while True:
                with contextlib.suppress(http.client.HTTPException, ValueError):  # a reader that falls behind is cut off
                    self.note_all(site_day.events_of(address))

    def note_all(self, events):
        for event, tick in events:
            if event == "tick":
                self.by_number[tick["tick"]] = tick
                self.by_second[tick["time"][11:19]].append(tick)

    def of(self, face):
        """Those that a face may be of; none where they were missed."""
        end = time.monotonic() + LATE_S
        while time.monotonic() < end:
            found = [self.by_number.get(face["tick"])] if "tick" in face else self.by_second.get(face["time"])
            if found and found[0]:
                return list(found)
            time.sleep(0.02)
        return []


def key(name):
    """A GPU by its number; without a driver by its PCI address, which the page shows without its zeroes."""
    return int(name) if name.isdigit() else name[-7:]


def told(tick):
    """{GPU: {word, sm, util, ...}} of a tick; what is not known is left out."""
    gpus = {}
    for gpu in tick["gpus"]:
        activity, values = gpu["activity"], {name: gpu["metrics"].get(field) for name, field in (FIELDS | NOW).items()}
        values |= {"word": activity["word"], "sm": activity.get("sm_active"), "util": activity.get("utilization")}
        gpus[key(gpu["pci"] if gpu["index"] is None else str(gpu["index"]))] = {name: value for name, value in values.items() if value is not None}
    return gpus


# What a number on a face may differ by: half of its last place.
def number(text, scale=1):
    digits = len(text.partition(".")[2])
    return float(text) * scale, 0.5 * 10 ** -digits * scale


def columns(found):
    """{name: (value, half of the last place)} of what a line says; "-" is left out."""
    scales = {"sm": 0.01, "util": 0.01, "sm_now": 0.01, "used": 1024}
    return {name: text if name == "word" else number(text, scales.get(name, 1)) for name, text in found.items() if text and text != "-"}


STATUS = re.compile(rf"^>?\s+(?P<gpu>\d+)  \S.*? (?P<word>{WORDS})(?:: \S+(?: \S+)?)?\s+(?P<util>\d+|-)%?\s+(?P<sm>\d+|-)%?\s+(?P<used>[\d.]+)/\d+G\s+(?P<power>\d+|-)W?\s+(?P<temp>\d+|-)C?\s+(?P<clock>\d+|-)\b", re.MULTILINE)
TOP = re.compile(r"^│>?\s+(?P<gpu>\d+) (?P<bars>.*?)(?P<used>[\d.]+)/\d+ GiB \S+\s+(?P<power>\d+)/\d+ W\s+(?P<temp>\d+)/\d+°C\s+(?P<clock>\d+)\b", re.MULTILINE)


def status(agent):
    text = re.sub(r"\n {9}(?=\d+ GPUs: )", " ", agent.verb("status", "--all").stdout, count=1)  # its head in one line
    head = re.search(r" (\d\d:\d\d:\d\d)Z", text)
    return {"time": head[1], "verdict": text.split("\n")[1].strip(), "gpus": {int(found["gpu"]): columns({k: v for k, v in found.groupdict().items() if k != "gpu"}) for found in STATUS.finditer(text)}, "counts": counted(text.split("\n")[0].partition("GPUs: ")[2])}


def top(agent):
    text = agent.verb("top", "--once", "--size", "160x60").stdout
    head, bars = re.search(r" (\d\d:\d\d:\d\d)Z", text), [name for name in ("sm_now", "util_now") if f" {name[:-4].upper()} " in text]
    gpus = {}
    for found in TOP.finditer(text):
        one = {name: found[name] for name in FIELDS} | dict(zip(bars, re.findall(r"(?<= )(?:(\d+)%|-)(?= )", found["bars"])))
        gpus[int(found["gpu"])] = columns(one)
    return {"time": head[1], "verdict": re.sub(r"  .*", "", text.split("\n")[1].strip()), "gpus": gpus}


def metrics(agent):
    page, gpus = agent.page(), collections.defaultdict(dict)
    for name, field in FIELDS.items():
        for labels, value in page.all(field):
            if not labels.get("GPU_I_ID"):
                gpus[key(labels.get("gpu") or labels["pci_bus_id"])][name] = (value, 1e-6 * abs(value))
    for labels, value in page.all("stoker_gpu_activity"):
        if value and not labels.get("GPU_I_ID"):
            gpus[key(labels.get("gpu") or labels["pci_bus_id"])]["word"] = labels["activity"]
    return {"tick": int(page.one("stoker_ticks_total")), "gpus": dict(gpus)}


ROWS = """(() => ({ time: document.getElementById('contact').innerText.slice(6), verdict: document.getElementById('verdict-text').innerText, counts: document.getElementById('working-text').innerText,
  rows: [...document.querySelectorAll('.rows tbody tr.gpu')].map((tr) => { const text = (name) => tr.querySelector(name)?.innerText ?? ''; return {
    gpu: text('.fold'), word: text('.c-state .state span'), mean: tr.querySelector('.c-sm .bar-cell').title, used: text('.c-memory'), power: text('.c-power'), temp: text('.c-temp'), clock: text('.c-clock'), down: tr.querySelector('.c-down').hidden ? '' : text('.c-down') }; }) }))()"""


def page(visitor):
    seen, gpus = visitor.js(ROWS), {}
    for row in seen["rows"]:
        mean = dict(re.findall(r"(SM activity|utilisation): (\d+) %", row["mean"]))
        one = {"word": row["word"].split(":")[0]}
        if not row["down"]:
            one |= {"sm": mean.get("SM activity"), "util": mean.get("utilisation")} | {name: (re.findall(r"[\d.]+", row[name]) or [None])[0] for name in FIELDS}
        gpus[key(row["gpu"].split()[1])] = columns(one)
    return {"time": seen["time"], "verdict": seen["verdict"], "gpus": gpus, "counts": counted(seen["counts"])}


def counted(text):
    return {word: int(n) for n, word in re.findall(rf"(\d+)(?: of \d+)? ({WORDS})", text)}


def differences(face, tick):
    """[(GPU, what, said, true)] of what a face says otherwise than a tick."""
    true, wrong = told(tick), []
    for gpu, said in face["gpus"].items():
        for name, value in said.items():
            if name == "word":
                good = value == true[gpu]["word"]
            else:
                good = name in true[gpu] and abs(true[gpu][name] - value[0]) <= value[1] * 1.0001
            if not good:
                wrong.append((gpu, name, value, true[gpu].get(name)))
    if "counts" in face:
        counts = dict(collections.Counter(one["word"] for one in true.values()))
        if {word: n for word, n in face["counts"].items() if n} != counts:
            wrong.append(("counts", face["counts"], counts))
    return wrong
