// SPDX-License-Identifier: Apache-2.0
// What charts are drawn from: rings of seconds (ten minutes), tenths (a minute) and minutes (a day), for each device and
// reading that a chart asked for. Ticks fill them; the agent's store gives what was before the page was opened. Rings
// have a fixed size, and there are as many as devices and readings.
import { idOf, keyOf, number, on, seen } from "./agent.js";
import { FAST, Growth, M, RATES } from "./words.js";

const AT_ONCE = 2;

/* A value per step of time. What was written a whole turn ago is not there any more. */
export class Ring {
  constructor(slots) {
    this.slots = slots;
    this.values = new Float64Array(slots);
    this.stamps = new Float64Array(slots).fill(-1);
  }

  put(step, value) {
    this.values[step % this.slots] = value === null || value === undefined ? NaN : value;
    this.stamps[step % this.slots] = step;
  }

  /* A number; null: it was absent; undefined: nothing is known of that time. */
  get(step) {
    if (step < 0 || this.stamps[step % this.slots] !== step)
      return undefined;
    const value = this.values[step % this.slots];
    return Number.isNaN(value) ? null : value;
  }
}

/* Spans: how long a step is, how many there are. */
export const SPANS = {
  tenth: { step: 0.1, slots: 600, least: 300, text: "1 min of tenths" },
  second: { step: 1, slots: 600, least: 60, text: "10 min of seconds" },
  minute: { step: 60, slots: 1440, least: 30, text: "24 h of minutes" },
};

const LIVE = [M.sm, M.util, M.tensor, M.dram, M.occupancy, M.engine, M.used, M.power, M.limit, M.temp, M.memTemp, M.clock, M.memClock, M.pcieTx,
  M.pcieRx, M.nvTx, M.nvRx, M.capNs, M.softHeatNs, M.hardHeatNs, M.brakeNs];
const tracks = new Map(); // device -> reading -> {second, tenth, mean, min, max}
const loaded = new Map(); // device/reading/resolution -> when

const oldest = { second: Infinity, minute: Infinity };

/* The first second that anything is known of. */
export const since = (span) => Math.min(oldest[span === "minute" ? "minute" : "second"], seen.timeMs / 1000);

function track(device, name) {
  const all = tracks.get(device) ?? tracks.set(device, new Map()).get(device);
  if (!all.has(name))
    all.set(name, { second: new Ring(SPANS.second.slots + 60) });
  return all.get(name);
}

function write(made, ring, step, value) {
  made[ring].put(step, value);
  made.ever ||= value !== null && value !== undefined;
}

/* Whether a device's reading has had a value since the page was opened, or in what was fetched. */
export const ever = (device, name) => tracks.get(device)?.get(name)?.ever ?? false;

/* value(i) of a device's reading at step i of the span; `of` is "mean", "min" or "max" for minutes. */
export function values(device, name, span, of = "mean") {
  const found = tracks.get(device)?.get(name);
  const ring = span === "minute" ? found?.[of] : span === "tenth" ? found?.tenth ?? found?.second : found?.second;
  if (!ring)
    return () => undefined;
  if (span === "tenth" && ring === found.second) // not read that often: its seconds
    return (i) => (i % 10 === 0 ? ring.get(i / 10) : undefined);
  return (i) => ring.get(i);
}

function keep(device, at) {
  const key = keyOf(device);
  for (const name of LIVE) {
    const value = RATES.has(name) ? device.rates?.[name] ?? null : number(device, name);
    if (value !== null || tracks.get(key)?.has(name))
      write(track(key, name), "second", at, value);
  }
  const fast = device.fast;
  if (!fast)
    return;
  for (const name of Object.keys(fast))
    if (FAST.has(name) && tracks.get(key)?.has(name)) {
      const ring = (track(key, name).tenth ??= new Ring(SPANS.tenth.slots + 60));
      fast.age_seconds.forEach((age, i) => ring.put(Math.round((seen.timeMs / 1000 - age) * 10), fast[name][i]));
    }
}

on("tick", () => {
  const at = Math.round(seen.timeMs / 1000);
  oldest.second = Math.min(oldest.second, at);
  const here = new Set();
  for (const gpu of seen.gpus) {
    for (const device of [gpu, ...gpu.instances]) {
      keep(device, at);
      here.add(keyOf(device));
    }
  }
  if (tracks.size > 2 * here.size + 16) // MIG devices come and go under new names
    for (const key of tracks.keys())
      if (!here.has(key))
        tracks.delete(key);
});

/* --- the store --- */

const waiting = [];
let running = 0;

function next() {
  while (running < AT_ONCE && waiting.length) {
    running++;
    waiting.shift()().finally(() => {
      running--;
      next();
    });
  }
}

function takeSeconds(key, series) {
  const counter = series.type === "counter" && RATES.has(series.metric);
  const made = track(key, series.metric), ring = made.second;
  const growth = new Growth();
  for (const [time, value] of series.points) {
    const at = Math.round(time), told = counter ? growth.next(time, value) : value;
    oldest.second = Math.min(oldest.second, at);
    if (ring.get(at) === undefined || ring.get(at) === null)
      write(made, "second", at, told);
  }
}

function takeMinutes(key, series) {
  const made = track(key, series.metric);
  for (const of of ["mean", "min", "max"])
    made[of] ??= new Ring(SPANS.minute.slots + 60);
  const counter = series.columns.includes("increase");
  for (const [time, ...v] of series.points) {
    const at = Math.floor(time / 60), valid = v[v.length - 1];
    oldest.minute = Math.min(oldest.minute, at * 60);
    const [min, mean, max] = counter ? Array(3).fill(valid ? v[1] / valid : null) : v;
    made.min.put(at, min);
    write(made, "mean", at, mean);
    made.max.put(at, max);
  }
  made.valid ??= new Ring(SPANS.minute.slots + 60);
  series.points.forEach((point) => made.valid.put(Math.floor(point[0] / 60), point[point.length - 1]));
}

/* `names` null: whatever is kept. */
async function ask(device, names, resolution) {
  const answer = await fetch(`api/v1/gpus/${idOf(device)}/history?resolution=${resolution}${names ? `&metric=${names.join(",")}` : ""}`);
  if (!answer.ok)
    throw new Error(`HTTP ${answer.status}`);
  for (const series of (await answer.json()).series)
    if (LIVE.includes(series.metric))
      (resolution === "minute" ? takeMinutes : takeSeconds)(keyOf(device), series);
}

/* Fetches what was before, once per device, reading and resolution; minutes again when a new one is over. A reading
 * that has no value may not be kept at all, which the agent would call a mistake: it is asked for once it has one. Of a
 * GPU that is lost nothing has a value, and what it did before is what one wants to see: all that is kept is asked for. */
export function want(device, names, span, done) {
  const resolution = span === "minute" ? "minute" : "second", key = keyOf(device), down = !["up", "starting", undefined].includes(device.state);
  const stamp = (name) => `${key} ${name} ${resolution}`;
  const missing = (down ? LIVE : names).filter((name) => {
    const when = loaded.get(stamp(name));
    return (down ? seen.tick : number(device, name) !== null && device.metrics[name].tick === seen.tick) && (when === undefined || (resolution === "minute" && seen.timeMs - when > 60000));
  });
  if (!missing.length)
    return;
  for (const name of missing)
    loaded.set(stamp(name), seen.timeMs);
  waiting.push(() => ask(device, down ? null : missing, resolution).then(done, () => missing.forEach((name) => loaded.delete(stamp(name)))));
  next();
}

on("open", () => loaded.clear()); // the store may know what was not told while the connection was lost
