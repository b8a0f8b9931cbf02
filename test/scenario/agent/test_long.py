# SPDX-License-Identifier: Apache-2.0
"""A long time in a short one: the agent's clock and the node's run many times as fast, what happens in `a-bad-week`
happens, and neither memory nor descriptors nor processes grow. And the wall clock, which may jump as it likes."""
import datetime
import json
import os
import re
import signal
import time

import pytest
from agent_rig import settles, until

SPEED = 900  # a millisecond per tick
FAST_CLOCK = ["--clock-speed", SPEED, "--sample-fast", "1s", "--sample-normal", "60s", "--sample-slow", "60s",
              "--sample-blocking", "60s", "--sampler-kill-after", "1s", "--sampler-retry-max", "1s", "--sampler-rejoin-after",
              "2s"]
VALUES = ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_FB_USED")
GPUS = [str(i) for i in range(8)]


class Week:
    """Looks at the agent while the days go by. `jump`: quiet times are left out, so that a day of the agent's clock
    holds what happens in a week."""

    def __init__(self, node, agent, jump):
        self.node, self.agent, self.jump = node, agent, jump
        self.start, self.looks = time.monotonic(), []
        self.down, self.back = set(), float("inf")  # GPUs, and the node's hour until which they are

    def agent_hours(self):
        return (time.monotonic() - self.start) * SPEED / 3600

    def node_hours(self):
        return json.loads(self.node.sim("clock", "--json"))["virtual_ns"] / 3600e9

    def look(self):
        """One look: what is served must fit together, and GPUs known to be down must show no value."""
        page, (status, body) = self.agent.page(), self.agent.json("/healthz")
        down = self.down if self.node_hours() < self.back - 0.1 else set()
        up = {l["gpu"]: v for l, v in page.all("stoker_gpu_up")}
        assert set(up) == set(GPUS)
        for gpu in GPUS:
            shown = [n for n in VALUES if page.all(n, gpu=gpu)]
            if up[gpu] == 0 or gpu in down:
                assert not shown, f"GPU {gpu} is down and shows {shown}"
        assert not [g for g in down if up[g]], f"{down} must be down: {up}"
        assert (status == 200) == (body["causes"] == []) == (body["status"] == "ok"), body
        text = json.dumps(body)
        if 0 < len(down) < len(GPUS):  # one that is down is named; all are down with the driver, which is said instead
            assert status == 503 and all(re.search(f"GPU {g} ", text) for g in down), body
        self.looks.append({
            "hours": self.agent_hours(), "rss": page.one("process_resident_memory_bytes"),
            "descriptors": page.one("process_open_fds"), "children": self.agent.children(),
            "rings": page.one("stoker_store_memory_bytes"), "cpu": sum(v for _, v in page.all("process_cpu_seconds_total")),
            "ticks": page.one("stoker_ticks_total"), "late": page.one("stoker_late_ticks_total")})
        return page

    def live_until(self, hours):
        while self.node_hours() < hours:
            self.look()

    def go_to(self, hours):
        missing = hours - self.node_hours()
        if self.jump and missing > 0:
            self.node.sim("clock", "step", f"{int(missing * 3600)}s")
        self.live_until(hours)

    def goes_down(self, hours, gpus, state, end_samplers=False):
        """At this hour these GPUs go down. The node's clock waits until that is seen, so that nothing is too short. Who
        has the driver open keeps it when it is unloaded, so that samplers have to be ended to see that."""
        self.go_to(hours + 0.02)
        self.node.sim("clock", "speed", "1")
        for pid, _ in self.agent.children() if end_samplers else ():
            os.kill(pid, signal.SIGKILL)
        until(lambda: (self.look(), {s["state"] for s in self.agent.gpus() if str(s["index"]) in gpus} == {state})[1],
              lambda: f"{gpus} {state}: {[(g['index'], g['state']) for g in self.agent.gpus()]} {self.agent.log_text()[-2000:]}")
        until(lambda: not any(l["gpu"] in gpus and v for l, v in self.agent.page().all("stoker_gpu_up")), "no longer up")
        self.down, self.back = set(gpus), float("inf")
        for _ in range(10):
            self.look()
        self.node.sim("clock", "speed", str(SPEED))

    def comes_back(self, hours):
        """From this hour on all is well."""
        self.back = hours
        self.live_until(hours)
        until(lambda: (self.look(), self.agent.get("/healthz")[0] == 200)[1],
              lambda: self.agent.get("/healthz")[1] + self.agent.log_text()[-2000:])
        page = self.look()
        assert {l["gpu"] for l, v in page.all("stoker_gpu_up") if v} == set(GPUS)

    def xid(self, gpu, code):
        until(lambda: self.look().all("stoker_xid_errors_total", gpu=gpu, xid=str(code)), lambda: f"XID {code} {self.agent.log_text()}")


def live_through_the_week(week):
    week.go_to(37.8)
    week.live_until(38.1)
    week.xid("5", 48)
    week.go_to(46.9)
    week.comes_back(47.2)
    week.go_to(61.8)
    week.live_until(62.1)
    week.xid("1", 74)
    week.go_to(68.9)
    week.comes_back(69.2)
    week.go_to(83.9)
    week.live_until(84.3)
    week.go_to(89.8)
    week.goes_down(90, ["3"], "hung")
    week.comes_back(90 + 26 / 60)
    week.go_to(99.8)
    week.goes_down(100, GPUS, "no_driver", end_samplers=True)
    week.comes_back(100.3)
    week.go_to(109.8)
    week.goes_down(110, ["2"], "lost")
    week.xid("2", 79)
    week.comes_back(118.1)
    week.go_to(149.8)
    week.goes_down(150, ["6"], "lost")
    week.xid("6", 119)
    week.comes_back(152.1)


def stayed_small(week, say):
    first = next(l for l in week.looks if l["hours"] > 1.5)
    last = week.looks[-1]
    hours = last["hours"] - first["hours"]
    # the day of minutes fills; everything else has its size by now
    rings = last["rings"] - first["rings"]
    say(f"{len(week.looks)} looks in {last['hours']:.1f} h; RSS {week.looks[0]['rss'] / 1e6:.1f} MB at first, "
        f"{first['rss'] / 1e6:.1f} after {first['hours']:.1f} h, {last['rss'] / 1e6:.1f} at the end, of which the rings took "
        f"{rings / 1e6:.1f}; {(last['cpu'] - first['cpu']) / hours:.3f} CPU seconds per hour; {last['ticks']:.0f} ticks, "
        f"{last['late']:.0f} late; {last['descriptors']:.0f} descriptors")
    assert last["rss"] - first["rss"] < rings + (2 << 20)
    assert last["late"] < last["ticks"] / 2, "this machine is too slow for this speed"
    quiet = [l for l in week.looks if len(l["children"]) == 1]
    assert len(quiet) > len(week.looks) / 2
    assert max(l["descriptors"] for l in quiet[-100:]) <= max(l["descriptors"] for l in quiet[:100]) + 2
    assert len(last["children"]) == 1, last["children"]
    assert max(len(l["children"]) for l in week.looks) <= 6
    zombies = [pid for l in week.looks for pid, state in l["children"] if state == "Z"]
    assert all(zombies.count(pid) < 20 for pid in zombies), "processes that ended are not collected"


def a_day_of_minutes(agent):
    series = agent.json("/api/v1/gpus/0/history?metric=DCGM_FI_DEV_POWER_USAGE&resolution=minute")[1]["series"][0]
    times = [p[0] for p in series["points"]]
    assert 1430 <= len(times) <= 1441
    assert all(abs(b - a - 60) < 0.01 for a, b in zip(times, times[1:]))
    known = [p for p in series["points"] if p[1] is not None]
    assert len(known) > 1000 and all(30 < low <= mean <= high < 900 for _, low, mean, high, _ in known)


def bad_week(agent_on, jump, say):
    node, agent = agent_on("a-bad-week", speed=SPEED, options=FAST_CLOCK)
    week = Week(node, agent, jump)
    week.go_to(37)
    live_through_the_week(week)
    while week.agent_hours() < 24.2:
        week.look()
    stayed_small(week, say)
    a_day_of_minutes(agent)


@pytest.mark.slow("a day at 900 times the speed")
def test_a_day_with_the_faults_of_a_week(agent_on, capsys):
    def say(text):
        with capsys.disabled():
            print(f"\n{text}")

    bad_week(agent_on, True, say)


@pytest.mark.slow("11 minutes: a week at 900 times the speed")
def test_a_whole_week(agent_on):
    bad_week(agent_on, False, print)


# -- the wall clock ---------------------------------------------------------------------------------------------------

def shown_time(agent):
    return datetime.datetime.fromisoformat(agent.json("/api/v1/gpus")[1]["time"].replace("Z", "+00:00")).timestamp()


def looks_right(agent, fresh_seconds):
    """Nothing that is measured depends on the wall clock."""
    assert agent.fresh(range(8), fresh_seconds), agent.gpus()
    for gpu in agent.gpus():
        for name, metric in gpu["metrics"].items():
            assert metric["value"] is None or -0.001 <= metric["age_seconds"] < 60, (name, metric)
        assert gpu["metrics"]["DCGM_FI_DEV_POWER_USAGE"]["value"] is not None
    page = agent.page()
    assert all(v == 1 for _, v in page.all("stoker_gpu_up")) and page.all("DCGM_FI_DEV_GPU_TEMP", gpu="7")
    assert agent.get("/healthz")[0] == 200
    points = agent.json("/api/v1/gpus/0/history?metric=DCGM_FI_DEV_POWER_USAGE")[1]["series"][0]["points"]
    times = [p[0] for p in points]
    now = shown_time(agent)
    assert all(0 < b - a < 30 for a, b in zip(times, times[1:])), times
    assert abs(times[-1] - now) < 60 and now - times[0] < 600, (times[0], times[-1], now)
    return page, len(points)


def test_the_wall_clock_jumps_by_a_day(agent_on, tmp_path):
    counters = tmp_path / "c.csv"
    counters.write_text("DCGM_FI_DEV_GPU_TEMP, gauge, t\nDCGM_FI_DEV_XID_ERRORS, gauge, last\n"
                        "DCGM_EXP_XID_ERRORS_COUNT, gauge, window\nDCGM_EXP_XID_ERRORS_TOTAL, counter, all\n")
    node, agent = agent_on(speed=2, options=["--clock-speed", "2", "-f", counters, "--sample-normal", "2s"])
    day = 86400

    def counts():
        page = agent.page()
        return [sum(v for _, v in page.all(f"DCGM_EXP_XID_ERRORS_{n}", gpu="4", xid="31")) for n in ("COUNT", "TOTAL")]

    node.inject("xid", "31", "gpu=4")
    until(lambda: counts() == [1, 1], agent.log_text)
    until(lambda: len(agent.json("/api/v1/gpus/0/history?metric=DCGM_FI_DEV_POWER_USAGE")[1]["series"][0]["points"]) >= 4,
          "some history")
    xids = 1
    for step in (day, -day, -day, day):
        _, length = settles(lambda: looks_right(agent, 20))
        before, tick = shown_time(agent), agent.json("/api/v1/gpus")[1]["tick"]
        assert agent.ask(f"clock {step}") == (0, "")
        until(lambda: agent.json("/api/v1/gpus")[1]["tick"] > tick + 1, "two ticks")
        assert step - 1 < shown_time(agent) - before < step + 600
        _, later = settles(lambda: looks_right(agent, 20))
        assert later > length  # what was known before the step is still there
        assert counts() == [xids, xids]
        node.inject("xid", "31", "gpu=4")
        xids += 1
        until(lambda: counts() == [xids, xids], lambda: f"{counts()} {agent.log_text()}")
        last = agent.page().one("stoker_xid_last_timestamp_seconds", gpu="4", xid="31")
        assert abs(last - shown_time(agent)) < 120  # of the newest one, also where the clock went back


def test_only_a_test_steps_the_clock(agent_on):
    _, agent = agent_on()
    code, text = agent.ask("clock 86400")
    assert code == 2 and "clock" in text and abs(shown_time(agent) - time.time()) < 600
