// SPDX-License-Identifier: Apache-2.0
// What the agent says: a look at everything now and then (status), each second in between (stream), incidents and events as
// they come. One object, `seen`, is what all views draw from; nothing in it grows with time. Whatever is here has its
// time, and `linkState` says whether it is still true.
import { clockOf } from "./time.js";
import { Growth, M } from "./words.js";

const EVENTS_MAX = 500, PAST_MAX = 100, LOOK_EVERY_MS = 10000, LOST_AFTER_MS = 3500, HIDDEN_FOR_MS = 30000;
const RETRY_MS = [500, 1000, 2000, 4000, 5000];

export const seen = {
  status: null, // "ok", "failing", "unknown"; null: nothing is known yet
  node: {}, gpus: [], samplers: [], incidents: [], maintenance: [], causes: [],
  boot: null, // when the node was started
  past: [], // incidents that are over, the newest first
  events: [], // the newest first, each with its number `n`
  timeMs: 0, // the node's clock at the last tick
  tickAt: 0, lookAt: 0, // performance.now(); 0: never
  link: "connecting", // "live", "lost"
  problem: "", // why there is no status
};

const listeners = { open: new Set(), tick: new Set(), look: new Set(), event: new Set() };
export const on = (what, told) => listeners[what].add(told);
const tell = (what) => listeners[what].forEach((told) => told());

export const keyOf = (device) => device.uuid ?? device.pci ?? `index-${device.index}`;
/* How the agent is asked about a device. */
export const idOf = (device) => encodeURIComponent(device.uuid ?? device.pci ?? device.index);

/* "live"; "lost": what is shown was true `ageMs` ago and may no longer be. */
export function linkState() {
  const ageMs = seen.tickAt ? performance.now() - seen.tickAt : Infinity;
  return { fresh: seen.link === "live" && ageMs < LOST_AFTER_MS, ageMs, ever: seen.tickAt > 0 };
}

/* The node's clock now, for as long as its ticks come; it stands still with them. */
export const nowMs = () => seen.timeMs;
/* A time of the node's clock, with its day where that is not today. */
export const when = (ms) => clockOf(ms, seen.timeMs);

/* The unit of a reading, which is told with a value alone. */
const units = new Map();
export const unitOf = (name) => units.get(name) ?? "";

export const number = (device, name) => {
  const value = device?.metrics?.[name]?.value;
  return typeof value === "number" ? value : null;
};

/* --- the look --- */

let looking = false, again = false, lookTimer = null;
let heard = []; // incidents that came while a look was made, which may be older than they are

async function json(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok)
    throw new Error(`${path.split("?")[0]}: HTTP ${answer.status}`);
  return answer.json();
}

/* A look is older than the ticks that came while it was made: their numbers stay. */
function merge(old, fresh, lookTick) {
  if (!old)
    return;
  fresh.fast = old.fast;
  fresh.rates = old.rates;
  fresh.growth = old.growth;
  if (seen.tick > lookTick)
    Object.assign(fresh, { state: old.state, why: old.why, activity: old.activity, verdict: old.verdict });
  for (const [name, metric] of Object.entries(old.metrics))
    if (metric.tick && fresh.metrics[name]) {
      fresh.metrics[name].tick = metric.tick;
      if (metric.tick > lookTick && metric.value !== null)
        Object.assign(fresh.metrics[name], { value: metric.value, absent: undefined, text: undefined });
    }
}

/* Each device gets what is held of it. */
function shareOut(gpus, holdings) {
  const name = (uuid, index, gi, ci) => `${uuid ?? index}/${gi ?? ""}/${ci ?? ""}`, by = new Map();
  for (const one of holdings) {
    const key = name(one.uuid, one.gpu, one.instance?.gpu_instance, one.instance?.compute_instance);
    by.set(key, [...(by.get(key) ?? []), one]);
  }
  for (const gpu of gpus) {
    gpu.holdings = by.get(name(gpu.uuid, gpu.index)) ?? [];
    for (const one of gpu.instances ?? [])
      one.holdings = by.get(name(gpu.uuid, gpu.index, one.gpu_instance, one.compute_instance)) ?? [];
  }
}

function takeLook(look) {
  const node = look.node;
  const old = new Map(seen.gpus.map((gpu) => [keyOf(gpu), gpu]));
  for (const gpu of node.gpus) {
    const before = old.get(keyOf(gpu));
    merge(before, gpu, node.tick);
    const inner = new Map((before?.instances ?? []).map((one) => [keyOf(one), one]));
    for (const one of gpu.instances ?? [])
      merge(inner.get(keyOf(one)), one, node.tick);
  }
  shareOut(node.gpus, node.holdings ?? []);
  Object.assign(seen, {
    status: look.status, incidents: look.incidents ?? [], maintenance: look.maintenance ?? [], boot: look.boot ?? null,
    causes: look.causes ?? [], node: node.node ?? {}, gpus: node.gpus, samplers: node.samplers ?? [], lookAt: performance.now(), problem: "",
  });
  seen.timeMs = Math.max(seen.timeMs, Date.parse(node.time));
  for (const gpu of seen.gpus)
    for (const device of [gpu, ...gpu.instances])
      for (const [name, metric] of Object.entries(device.metrics))
        if (metric.unit)
          units.set(name, metric.unit);
}

export async function look() {
  again = looking;
  if (looking)
    return;
  looking = true;
  heard = [];
  try {
    takeLook(await json("api/v1/status"));
    heard.forEach(takeIncident);
  } catch (error) {
    seen.problem = error.message;
  }
  looking = false;
  if (again)
    lookSoon();
  tell("look");
}

/* Soon: what the stream said is not all there is to know of it. */
export function lookSoon(ms = 300) {
  if (lookTimer === null)
    lookTimer = setTimeout(() => {
      lookTimer = null;
      look();
    }, ms);
}

/* --- incidents that are over, and events --- */

let nextEvent = 0;

async function catchUp() {
  try {
    const all = await json("api/v1/incidents?state=all");
    seen.past = all.incidents.filter((i) => i.state === "cleared").sort((a, b) => (a.cleared < b.cleared ? 1 : -1)).slice(0, PAST_MAX);
    const list = await json(`api/v1/events?from=${nextEvent}`);
    addEvents(list.events);
    nextEvent = list.next;
  } catch { /* the next connection asks again */ }
  tell("event");
}

const sameEvent = (a, b) => a.time === b.time && a.kind === b.kind && a.code === b.code && a.pci === b.pci && a.text === b.text;
let numbered = 0;

function addEvents(list) {
  for (const event of list) {
    if (seen.events.slice(0, 50).some((known) => sameEvent(known, event)))
      continue;
    event.n = numbered++;
    seen.events.unshift(event);
  }
  seen.events.sort((a, b) => (a.time < b.time ? 1 : a.time > b.time ? -1 : b.n - a.n));
  seen.events.length = Math.min(seen.events.length, EVENTS_MAX);
}

function takeIncident({ incident }) {
  const others = (list) => list.filter((one) => one.id !== incident.id);
  seen.incidents = others(seen.incidents);
  seen.past = others(seen.past);
  if (incident.state === "cleared")
    seen.past = [incident, ...seen.past].slice(0, PAST_MAX);
  else
    seen.incidents.push(incident);
  if (seen.status === "ok" && incident.state === "open" && incident.severity !== "info" && !incident.maintenance)
    seen.status = "failing"; // what to do must not stand beside "All healthy"
  lookSoon(); // the verdict is the agent's to make
}

/* --- the second --- */

const COUNTERS = [M.pcieTx, M.pcieRx, M.nvTx, M.nvRx, M.energy, M.capNs, M.softHeatNs, M.hardHeatNs, M.brakeNs];

/* What counters grow by is a reading of its own, under `rates`; `ages`: how old a counter's sample is, as a late one grew for longer. */
function takeValues(device, { metrics: values, counter_age_seconds: ages = {} }, tick, at) {
  device.rates ??= {};
  device.growth ??= new Map();
  for (const name of COUNTERS)
    if (name in values || device.growth.has(name))
      device.rates[name] = (device.growth.get(name) ?? device.growth.set(name, new Growth()).get(name)).next(at - (ages[name] ?? 0), values[name]);
  for (const [name, metric] of Object.entries(device.metrics))
    if (!(name in values) && metric.tick) { // it was in ticks before: it is no longer told
      metric.value = null;
      metric.absent = "stale";
    }
  for (const [name, value] of Object.entries(values)) {
    const metric = (device.metrics[name] ??= {});
    if (value === null && metric.value !== null && metric.value !== undefined) {
      lookSoon(1000); // which says why
      Object.assign(metric, { value: null, absent: "stale", text: undefined });
    } else if (value !== null) {
      Object.assign(metric, { value, absent: undefined, text: undefined, age_seconds: 0 });
    }
    metric.tick = tick;
  }
}

function takeInstance(to, one, tick, at) {
  to.activity = one.activity;
  to.verdict = one.verdict;
  takeValues(to, one, tick, at);
}

function takeTick(tick) {
  const timeMs = Date.parse(tick.time), at = timeMs / 1000;
  const known = new Map(seen.gpus.map((gpu) => [keyOf(gpu), gpu]));
  let other = tick.gpus.length !== seen.gpus.length;
  seen.tick = tick.tick;
  for (const told of tick.gpus) {
    const gpu = known.get(keyOf(told));
    if (!gpu) {
      other = true;
      continue;
    }
    other ||= gpu.state !== told.state || told.instances.length !== gpu.instances.length;
    gpu.state = told.state;
    gpu.why = told.why;
    gpu.activity = told.activity;
    gpu.verdict = told.verdict;
    takeValues(gpu, told, tick.tick, at);
    gpu.fast = told.fast;
    const inner = new Map(gpu.instances.map((one) => [keyOf(one), one]));
    for (const one of told.instances)
      if (inner.has(keyOf(one)))
        takeInstance(inner.get(keyOf(one)), one, tick.tick, at);
      else
        other = true;
  }
  seen.timeMs = timeMs;
  seen.tickAt = performance.now();
  seen.link = "live";
  if (other || (!looking && performance.now() - seen.lookAt > LOOK_EVERY_MS))
    lookSoon(other ? 100 : 0);
  tell("tick");
}

/* --- the stream --- */

let stream = null, opened = 0, failures = 0, retry = null, watch = null;

function lost() {
  stream?.close();
  stream = null;
  if (seen.link === "live")
    seen.link = "lost";
  clearTimeout(retry);
  retry = setTimeout(connect, RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)]);
  tell("look");
}

function parsed(take, what) {
  return (message) => {
    let data;
    try {
      data = JSON.parse(message.data);
    } catch {
      return; // cut in the middle; the next one is whole
    }
    take(data);
    if (what)
      tell(what);
  };
}

/* It may be another agent than before, whose ticks count from one again. */
function anew() {
  seen.tick = null;
  for (const gpu of seen.gpus)
    for (const device of [gpu, ...gpu.instances])
      for (const metric of Object.values(device.metrics))
        metric.tick = undefined;
}

function connect() {
  clearTimeout(retry);
  stream?.close();
  stream = new EventSource("api/v1/stream");
  opened = performance.now();
  stream.onopen = () => {
    anew();
    tell("open");
    lookSoon(0);
    catchUp();
  };
  stream.onerror = lost;
  stream.addEventListener("tick", parsed((tick) => {
    failures = 0;
    takeTick(tick);
  }));
  stream.addEventListener("incident", parsed((told) => {
    if (looking)
      heard.push(told);
    takeIncident(told);
  }, "look"));
  stream.addEventListener("event", parsed((event) => addEvents([event]), "event"));
}

/* Nobody looks: the agent need not talk. */
function visibility() {
  clearTimeout(watch);
  if (document.hidden) {
    watch = setTimeout(() => {
      clearTimeout(retry);
      stream?.close();
      stream = null;
      seen.link = "lost";
    }, HIDDEN_FOR_MS);
  } else if (!stream) {
    connect();
  }
}

export function start() {
  connect();
  look();
  document.addEventListener("visibilitychange", visibility);
  setInterval(() => { // a connection that says nothing is none, whatever the browser thinks of it
    if (stream && performance.now() - Math.max(seen.tickAt, opened) > 3 * LOST_AFTER_MS)
      lost();
    else if (!linkState().fresh)
      tell("look"); // the age of what is shown
  }, 1000);
}
