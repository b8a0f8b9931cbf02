// SPDX-License-Identifier: Apache-2.0
// What charts are drawn from: rings of seconds (ten minutes), tenths (a minute) and minutes (a day), for each device and
// reading that a chart asked for. Ticks fill them; the agent's store gives what was before the page was opened. Rings
// have a fixed size, and there are as many as devices and readings.
import { idOf, keyOf, number, on, seen } from "./agent.js";
import { FAST, Growth, M, RATES } from "./words.js";

const AT_ONCE = 2;

/* Values per step of time, in so many columns. What was written a whole turn ago is not there any more. */
export class Ring {
  constructor(slots, columns = 1) {
    this.slots = slots;
    this.columns = Array.from({ length: columns }, () => new Float32Array(slots));
    this.stamps = new Float64Array(slots).fill(-1);
  }

  put(step, ...values) {
    const at = step % this.slots;
    this.stamps[at] = step;
    this.columns.forEach((column, i) => { column[at] = values[i] ?? NaN; });
  }

  /* A number; null: it was absent; undefined: nothing is known of that time. */
  get(step, column = 0) {
    const at = step % this.slots;
    if (step < 0 || this.stamps[at] !== step)
      return undefined;
    const value = this.columns[column][at];
    return value !== value ? null : value;
  }
}

/* Spans: how long a step is, how many there are, how few are drawn at first. */
export const SPANS = {
  tenth: { step: 0.1, slots: 600, least: 300, text: "1 min", more: "a minute in tenths of a second" },
  second: { step: 1, slots: 600, least: 60, text: "10 min", more: "ten minutes in seconds" },
  hour: { step: 60, slots: 60, least: 10, text: "1 h", more: "an hour in minutes" },
  minute: { step: 60, slots: 1440, least: 30, text: "24 h", more: "a day in minutes" },
};
export const MINUTES = SPANS.minute.slots;
export const inMinutes = (span) => SPANS[span].step === 60;
const COLUMNS = { mean: 0, min: 1, max: 2 }, SLACK = 60;

const LIVE = [M.sm, M.util, M.tensor, M.dram, M.occupancy, M.engine, M.used, M.power, M.limit, M.temp, M.memTemp, M.clock, M.memClock, M.pcieTx,
  M.pcieRx, M.nvTx, M.nvRx, M.capNs, M.softHeatNs, M.hardHeatNs, M.brakeNs];
const tracks = new Map(); // device -> reading -> {second, tenth, minute, ever}
const loaded = new Map(); // device/reading/resolution -> when
const stale = new Set(); // of these: a connection was lost since

const oldest = { second: Infinity, minute: Infinity };

/* The first second that anything is known of. */
export const since = (span) => Math.min(oldest[inMinutes(span) ? "minute" : "second"], seen.timeMs / 1000);

function track(device, name) {
  const all = tracks.get(device) ?? tracks.set(device, new Map()).get(device);
  return all.get(name) ?? all.set(name, { second: new Ring(SPANS.second.slots + SLACK), minute: null, tenth: null, ever: false }).get(name);
}

/* Whether a device's reading has had a value since the page was opened, or in what was fetched. */
export const ever = (device, name) => tracks.get(device)?.get(name)?.ever ?? false;

/* The last value of a reading before a time, in seconds of the node's clock: {value, at}; null: none is kept. */
export function lastBefore(device, name, time) {
  const found = tracks.get(device)?.get(name);
  for (const [ring, step] of [[found?.second, 1], [found?.minute, 60]])
    for (let i = Math.floor(time / step); ring && i > Math.floor(time / step) - ring.slots; i--) {
      const value = ring.get(i);
      if (typeof value === "number")
        return { value, at: Math.min(time, (i + 1) * step - 1) };
    }
  return null;
}

const NOTHING = () => undefined;

/* value(i) of a device's reading at step i of the span; `of` is "mean", "min" or "max" for minutes. */
export function values(device, name, span, of = "mean") {
  const found = tracks.get(device)?.get(name);
  const ring = inMinutes(span) ? found?.minute : found?.second;
  if (!ring)
    return NOTHING;
  if (span === "tenth") // where no tenths are known: its seconds
    return (i) => {
      const value = found.tenth?.get(i);
      return value === undefined && i % 10 === 0 ? found.second.get(i / 10) : value;
    };
  const column = inMinutes(span) ? COLUMNS[of] : 0;
  return (i) => ring.get(i, column);
}

function keep(device, at) {
  const key = keyOf(device);
  for (const name of LIVE) {
    const value = RATES.has(name) ? device.rates?.[name] ?? null : number(device, name);
    const made = value !== null ? track(key, name) : tracks.get(key)?.get(name);
    if (!made)
      continue;
    made.second.put(at, value);
    made.ever ||= value !== null;
  }
  const fast = device.fast;
  if (!fast)
    return;
  for (const name of Object.keys(fast))
    if (FAST.has(name) && tracks.get(key)?.has(name)) {
      const ring = (track(key, name).tenth ??= new Ring(SPANS.tenth.slots + SLACK));
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
      ring.put(at, told);
    made.ever ||= told !== null && told !== undefined;
  }
}

/* How many seconds a counter took to grow by what its minute tells: since the last minute that it was read in. Before
 * the first there is no telling but by the seconds that it was read in. */
function spent(at, valid, before) {
  const end = Math.min((at + 1) * 60, Math.max(seen.timeMs / 1000, at * 60 + 1));
  return before === null ? valid : end - (before + 1) * 60;
}

function takeMinutes(key, series, again) {
  const made = track(key, series.metric), ring = (made.minute ??= new Ring(MINUTES + SLACK, 3));
  const counter = series.columns.includes("increase");
  let before = null;
  for (const [time, ...v] of series.points) {
    const at = Math.floor(time / 60), valid = v[v.length - 1];
    oldest.minute = Math.min(oldest.minute, at * 60);
    if (!valid)
      ring.put(at, null, null, null);
    else if (!counter)
      ring.put(at, v[1], v[0], v[2]);
    else if (before !== null || !again) // else it is known better from the first time
      ring.put(at, ...Array(3).fill(v[1] / Math.max(1, spent(at, valid, before))));
    if (valid)
      before = at;
    made.ever ||= valid > 0;
  }
}

async function ask(device, names, resolution, from) {
  const answer = await fetch(`api/v1/gpus/${idOf(device)}/history?resolution=${resolution}${from ? `&from=-${from}s` : ""}&metric=${names.join(",")}`);
  if (!answer.ok)
    throw new Error(`HTTP ${answer.status}`);
  for (const series of (await answer.json()).series)
    if (resolution === "minute")
      takeMinutes(keyOf(device), series, from !== 0);
    else
      takeSeconds(keyOf(device), series);
}

/* Fetches what was before, once per device, reading and resolution; when minutes are over, or the connection was lost for a
 * while, what is new alone. */
export function want(device, names, span, done) {
  const resolution = inMinutes(span) ? "minute" : "second", stamp = (name) => `${keyOf(device)} ${name} ${resolution}`;
  const late = new Map(); // seconds to ask for, 0: all -> names
  for (const name of names) {
    const when = loaded.get(stamp(name)), age = (seen.timeMs - when) / 1000;
    if (when !== undefined && !stale.has(stamp(name)) && (resolution === "second" || age < 60))
      continue;
    stale.delete(stamp(name));
    const from = when === undefined ? 0 : Math.ceil(age) + 180;
    late.set(from, [...(late.get(from) ?? []), name]);
    loaded.set(stamp(name), seen.timeMs);
  }
  for (const [from, some] of late)
    waiting.push(() => ask(device, some, resolution, from).then(done, () => some.forEach((name) => loaded.delete(stamp(name)))));
  next();
}

let connected = false;
on("open", () => { // again: the store may know what was not told
  if (connected)
    loaded.forEach((_, key) => stale.add(key));
  connected = true;
});
