# SPDX-License-Identifier: Apache-2.0
"""A day before the agent was started, for pages that have to be seen with one: minutes of every device, told by a proxy in front
of a real agent whose live numbers they end in. Each GPU works through the day in its own shifts; some of the day may be missing."""
import copy
import http.client
import json
import math
import random
import re

MINUTES = 1440
HISTORY = re.compile(r"/api/v1/gpus/([^/]+)/history\?(.*)")
REST = {"DCGM_FI_DEV_POWER_USAGE": 70, "DCGM_FI_DEV_GPU_TEMP": 31, "DCGM_FI_DEV_MEMORY_TEMP": 38, "DCGM_FI_DEV_SM_CLOCK": 345}
WORK = {"DCGM_FI_PROF_SM_ACTIVE": 0.85, "DCGM_FI_DEV_GPU_UTIL": 99, "DCGM_FI_DEV_POWER_USAGE": 610, "DCGM_FI_DEV_FB_USED": 66000}
STEADY = {"DCGM_FI_DEV_MEM_CLOCK", "DCGM_FI_DEV_ENFORCED_POWER_LIMIT"}


def shift(number, minute):
    """How much of its value at work (WORK, else the live one) a device shows in that minute of the day: 0 at rest, about 1 at work."""
    phase = (minute + 37 * (number % 5)) % MINUTES
    if phase < 90 or 700 < phase < 760 or (number % 4 == 3 and 1000 < phase < 1100):
        return 0.0
    return (0.55 if 400 < phase < 700 else 1.0) * (1 + 0.04 * math.sin(minute / 3 + number))


class Day:
    """proxy.rewrite = Day(devices).rewrite. `devices`: keys as the page asks for them, in their order. `out(number, minute)`: it
    told nothing in that minute, counted from the day's begin."""

    def __init__(self, devices, out=lambda number, minute: False):
        self.numbers, self.out, self.asked, self.points = {key: i for i, key in enumerate(devices)}, out, [], 0

    def rewrite(self, path, told):
        found = HISTORY.match(path)
        if not found or told.get("resolution") != "minute" or found[1] not in self.numbers:
            return told
        back = re.search(r"from=-(\d+)s", found[2])
        self.asked.append((found[1], int(back[1]) // 60 if back else MINUTES))
        for series in told["series"]:
            self.fill(series, self.numbers[found[1]], self.asked[-1][1])
        return told

    def fill(self, series, number, length):
        points = series["points"]
        if not points:
            return
        end, live = int(points[0][0] // 60), next((p for p in reversed(points) if p[-1]), points[-1])
        counter, name = "increase" in series["columns"], series["metric"]
        before, missed = [], 1
        for i in range(end - length + len(points), end):
            minute, noise = MINUTES - (end - i), random.Random(number * 7919 + i).uniform(0.9, 1)
            part = 1 if name in STEADY else shift(number, minute)
            if self.out(number, minute):
                missed += 1
                before.append([i * 60, *([None] * (2 if counter else 3)), 0])
            elif counter:  # what it grew by while nobody looked is in the minute after
                before.append([i * 60, 0, (live[2] or 0) / max(1, live[3]) * 60 * part * noise * missed, 60])
                missed = 1
            else:
                rest, top = REST.get(name, 0), WORK.get(name, live[3] or 0)
                value = rest + (top - rest) * min(1, part * (1 if name in STEADY else noise))
                before.append([i * 60, value if name in STEADY else rest + (value - rest) * 0.8, value, rest + (top - rest) * min(1, part), 60])
        series["points"] = before + points
        self.points += len(before)


def devices_of(look):
    """The keys of all devices of /api/v1/status."""
    return [one["uuid"] for gpu in look["node"]["gpus"] for one in (gpu, *gpu["instances"])]


def events_of(address):
    """(event, data) of an agent's stream, until it ends."""
    connection = http.client.HTTPConnection(address, timeout=120)
    connection.request("GET", "/api/v1/stream")
    answer, event = connection.getresponse(), None
    while line := answer.readline().decode():
        if line.startswith("event: "):
            event = line[7:].strip()
        elif line.startswith("data: "):
            yield event, json.loads(line[6:])
    connection.close()


def tell_hours(proxy, day, seconds):
    """Lets a proxy tell a day, and how many seconds of it each GPU did what."""
    def count(gpus):
        for gpu in gpus:
            gpu["activity"]["day_seconds"] = seconds

    def rewrite(path, told):
        if path == "/api/v1/status":
            count(told["node"]["gpus"])
        return day.rewrite(path, told)

    def stream():
        for event, data in events_of(proxy.address):
            if event == "tick":
                count(data["gpus"])
            yield event, data

    proxy.rewrite, proxy.stream = rewrite, stream


class Crowd:
    """More GPUs than can be simulated: those of a real agent again and again, under indices, UUIDs and addresses of their own."""

    def __init__(self, proxy, count, rewrite=lambda path, told: told):
        self.proxy, self.count, self.then, self.real = proxy, count, rewrite, {}
        proxy.rewrite, proxy.way, proxy.stream = self.rewrite, self.way, self.stream

    def again(self, gpus):
        made = [copy.deepcopy(gpus[i % len(gpus)]) for i in range(self.count)]
        for i, gpu in enumerate(made):
            for one in (gpu, *gpu["instances"]):
                uuid = one["uuid"] if i < len(gpus) else f"{one['uuid']}-{i}"
                self.real[uuid], one["uuid"] = one["uuid"], uuid
            gpu["index"], gpu["pci"] = i, f"00000000:{i:02X}:00.0"
        return made

    def look(self, told):
        told["node"]["gpus"] = self.again(told["node"]["gpus"])
        told["node"]["node"].update(gpus_expected=self.count, gpus_found=self.count, gpus_on_bus=self.count)
        return told

    def rewrite(self, path, told):
        return self.then(path, self.look(told) if path == "/api/v1/status" else told)

    def way(self, path):
        return re.sub(r"(/api/v1/gpus/)([^/]+)", lambda m: m[1] + self.real.get(m[2], m[2]), path)

    def stream(self):
        for event, data in events_of(self.proxy.address):
            if event == "tick":
                data["gpus"] = self.again(data["gpus"])
            yield event, data
