// SPDX-License-Identifier: Apache-2.0
// For the one who pays: how much there is, how much of it works, how much is wasted, and whether it is well. Everything in
// GPUs, so that the parts sum to the whole; now, and over the day that the agent has seen.
import { keyOf, nowMs, number, seen } from "./agent.js";
import { Chart, axis, toolbar } from "./charts.js";
import { absent, each, fill, h, say, table } from "./element.js";
import { MINUTES, inMinutes, values, want } from "./history.js";
import { capacity, gpuLink, gpuName, isAbout, memoryShare, openIncidents, processHome, processName, processesOf, smActive, usersOf, workOf } from "./parts.js";
import { chartGroup, keyHelp } from "./oncall.js";
import { marks, timeline } from "./timeline.js";
import { M, SEVERITIES, bytes, lasting, percent, short, watts, whole } from "./words.js";

const KINDS = { busy: ["Busy", "their multiprocessors work (SM active)"], wasted: ["Wasted", "somebody has them, their multiprocessors rest"],
  free: ["Free", "nobody has them"], down: ["Down", "they cannot be used"], unknown: ["Not known", "nothing tells"] };
const NAMES = [M.sm, M.util, M.used, M.power, M.energy];
const HELD_SHARE = 0.02, BUSY_UTIL = 5, DAY = MINUTES, LEAST_MS = 1000;

/* What a GPU was in each minute of the last day, from its means: the same words as now, but that who had it is not kept:
 * memory in use stands for it. A minute without any value is one in which it was down, if there were values before or it is
 * down since then; else nothing is known of it. ran(i): the agent read something in minute i. */
function minutesOf(gpu, first, ran) {
  const [sm, util, used, power] = [M.sm, M.util, M.used, M.power].map((name) => values(keyOf(gpu), name, "minute"));
  const total = number(gpu, M.total), isDown = workOf(gpu).kind === "down", since = isDown ? Date.parse(gpu.since) / 60000 : Infinity;
  let known = false;
  return Array.from({ length: DAY }, (_, k) => {
    const i = first + k, [s, u, m] = [sm(i) ?? null, util(i) ?? null, used(i) ?? null];
    if (s === null && u === null && m === null && typeof power(i) !== "number")
      return (known && ran(i)) || i >= since ? { down: 1 } : null;
    known = true;
    if (s === null)
      return { unknown: 1 };
    const taken = (u ?? 0) >= BUSY_UTIL || s >= 0.05 || (total && m !== null && m / total > HELD_SHARE);
    return taken ? { busy: s, wasted: 1 - s } : { free: 1 };
  });
}

const NONE = () => ({ busy: 0, wasted: 0, free: 0, down: 0, unknown: 0 });

/* {sum, known: in GPU minutes; minutes: [what all GPUs were together, or null]; up: of each GPU its share of the time that is
 * known; joules, or null}. */
function dayOf(first) {
  const power = seen.gpus.map((gpu) => values(keyOf(gpu), M.power, "minute"));
  const ran = (i) => power.some((at) => typeof at(i) === "number");
  const day = { sum: NONE(), known: 0, minutes: new Array(DAY).fill(null), up: new Map(), joules: null };
  for (const gpu of seen.gpus) {
    const energy = values(keyOf(gpu), M.energy, "minute");
    let known = 0, down = 0;
    minutesOf(gpu, first, ran).forEach((part, k) => {
      const mw = energy(first + k); // a counter's minute: its growth a second, mJ/s
      if (typeof mw === "number")
        day.joules = (day.joules ?? 0) + mw / 1000 * 60;
      if (!part)
        return;
      known++;
      down += part.down ?? 0;
      const all = (day.minutes[k] ??= NONE());
      for (const [kind, value] of Object.entries(part)) {
        all[kind] += value;
        day.sum[kind] += value;
      }
    });
    day.known += known;
    day.up.set(keyOf(gpu), known ? 1 - down / known : null);
  }
  return day;
}

/* Who has what now, the most wasteful first. A device that several have counts for each. */
function users() {
  const rows = new Map();
  const addTo = (name, device, weight, memory) => {
    const row = rows.get(name) ?? rows.set(name, { name, devices: 0, wasted: 0, sm: [], memory: 0 }).get(name);
    const sm = smActive(device);
    row.devices += weight;
    row.memory += memory ?? 0;
    if (sm !== null) {
      row.sm.push(sm);
      row.wasted += (1 - sm) * weight;
    }
  };
  for (const gpu of seen.gpus) {
    const parts = gpu.instances?.length ? gpu.instances.map((one) => [one, 1 / 7 * Number(/(\d+)g/.exec(one.profile ?? "")?.[1] ?? 1)]) : [[gpu, 1]];
    for (const [device, weight] of parts) {
      const processes = processesOf(gpu).filter((p) => device === gpu || (p.gpu_instance === device.gpu_instance && (p.compute_instance ?? 0) === device.compute_instance));
      const names = new Map(usersOf(device).map((o) => [[o.namespace, o.pod].filter(Boolean).join("/") || "a pod", 0]));
      const pods = names.size > 0;
      for (const p of processes)
        if (!pods || p.pod || p.job) {
          const name = processHome(p) || [p.user, processName(p)].filter(Boolean).join(": ");
          names.set(name, (names.get(name) ?? 0) + (p.used_bytes ?? 0));
        }
      if (!names.size && (memoryShare(device) ?? 0) > HELD_SHARE)
        names.set("not known", 0);
      for (const [name, memory] of names)
        addTo(name, device, weight, memory || (names.size === 1 ? (number(device, M.used) ?? 0) * 1048576 : 0));
    }
  }
  return [...rows.values()].sort((a, b) => b.wasted - a.wasted || (a.name < b.name ? -1 : 1));
}

/* 100 % is said only of all of it. */
const percentBelow = (share) => (share < 1 && share > 0.995 ? `${(Math.floor(1000 * share) / 10).toFixed(1)} %` : percent(share));
const inGpus = (n) => `${short(n)} GPU${short(n) === "1" ? "" : "s"}`;
const mean = (list) => (list.length ? list.reduce((a, b) => a + b, 0) / list.length : null);

function bar() {
  const pieces = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, h("i", { "data-work": kind })]));
  const legend = h("ul", { class: "shares" });
  const element = h("div", {}, h("div", { class: "share-bar", "aria-hidden": "true" }, Object.values(pieces)), legend);
  return { element, update(sum, total, unit) {
    const shownKinds = Object.keys(KINDS).filter((kind) => sum[kind] > 0.0005 || kind === "busy" || kind === "wasted");
    for (const [kind, piece] of Object.entries(pieces))
      piece.style.width = `${total ? 100 * sum[kind] / total : 0}%`;
    each(legend, shownKinds, (kind) => kind, (kind) => h("li", { "data-work": kind }, h("i", { "aria-hidden": "true" }), h("b"), h("span", {}, ` ${KINDS[kind][0].toLowerCase()}`), h("span", { class: "quiet" }, KINDS[kind][1])),
      (item, kind) => say(item.querySelector("b"), `${short(sum[kind], sum[kind] < 1 ? 2 : 1)}${unit} · ${total ? percent(sum[kind] / total) : ""}`));
  } };
}

function tile(name) {
  const value = h("dd"), note = h("dd", { class: "quiet" });
  return { element: h("div", { class: "tile" }, h("dt", {}, name), value, note), update(text, more) {
    say(value, text);
    say(note, more ?? "");
  } };
}

/* Shares of the day stacked: each line is the sum of those below it. */
function stackLines({ minutes, sum }, first) {
  const order = Object.keys(KINDS).filter((kind) => kind !== "unknown" || sum.unknown > 0);
  return order.map((kind, k) => ({ label: KINDS[kind][0], colour: `--work-${kind}`, width: 1, at: (i) => {
    const parts = minutes[i - first];
    return parts ? order.slice(0, k + 1).reduce((sum, one) => sum + parts[one], 0) : undefined;
  } })).reverse();
}

export function executive({ speak }) {
  const nowBar = bar(), dayBar = bar(), who = h("div"), health = h("div"), dayNote = h("p", { class: "quiet" });
  const tiles = { capacity: tile("Capacity"), busy: tile("Busy"), wasted: tile("Wasted"), health: tile("Healthy"), power: tile("Power"), memory: tile("Memory in use") };
  let stacked = [], spanBefore = axis.span, due = true, minute = 0, madeAt = -LEAST_MS, day = null, lastText = "";
  const chart = new Chart({ stacked: true, title: "GPUs over the day", height: 200, max: () => Math.max(1, seen.gpus.length), format: (v) => short(v), lines: () => (inMinutes(axis.span) ? stacked : []),
    why: () => "The day is drawn in minutes: choose 1 h or 24 h.", marks: () => marks(), wants: () => seen.gpus.map((gpu) => [gpu, NAMES]) });
  const tools = toolbar({ tenths: false }), strip = timeline();
  const element = h("div", {},
    h("section", { "aria-labelledby": "now-h" }, h("h2", { id: "now-h" }, "Now"), h("dl", { class: "tiles" }, Object.values(tiles).map((t) => t.element)), nowBar.element),
    h("section", { "aria-labelledby": "day-h" }, h("h2", { id: "day-h" }, "The last day"), dayNote, dayBar.element, tools.element, chartGroup([chart], speak, [strip.element]), keyHelp()),
    h("section", { "aria-labelledby": "who-h" }, h("h2", { id: "who-h" }, "Who has what"), who),
    h("section", { "aria-labelledby": "health-h" }, h("h2", { id: "health-h" }, "Health"), health));
  axis.span = "minute";
  axis.zoom = null;

  /* Anew when a minute is over, and while minutes come in. */
  function daily() {
    for (const gpu of seen.gpus)
      want(gpu, NAMES, "minute", () => { due = true; });
    const now = Math.floor(nowMs() / 60000), first = now - DAY;
    if ((!due && now === minute) || performance.now() - madeAt < LEAST_MS)
      return;
    due = false;
    minute = now;
    madeAt = performance.now();
    day = dayOf(first);
    stacked = stackLines(day, first);
    say(dayNote, day.known ? `The agent has seen ${lasting(60 * day.minutes.filter(Boolean).length)} of it${day.joules === null ? "" : `; energy ${short(day.joules / 3.6e6, 2)} kWh`}. Shares are GPU hours.`
      : "The first minute is not over yet.");
    dayBar.element.hidden = !day.known;
    dayBar.update(Object.fromEntries(Object.entries(day.sum).map(([kind, minutes]) => [kind, minutes / 60])), day.known / 60, " h");
    chart.shape = null; // what its lines are drawn from is another
    chart.draw();
    healthTable();
  }

  function healthTable() {
    fill(health, table("Health of each GPU", ["GPU", "State", { text: "Up, of the seen day", number: true }, "Open incidents", { text: "Incidents that are over", number: true }],
      seen.gpus.map((gpu) => {
        const mine = (i) => isAbout(i, gpu), open = openIncidents().filter(mine), up = day?.up.get(keyOf(gpu)) ?? null;
        return [h("a", { href: gpuLink(gpu) }, gpuName(gpu)), gpu.state, up === null ? absent("not known yet") : percentBelow(up),
          open.length ? open.map((i) => h("a", { class: "tag", "data-severity": i.severity, href: `#/incident/${i.id}` }, i.class)) : h("span", { class: "quiet" }, "none"), String(seen.past.filter(mine).length)];
      }), "no GPU"));
  }

  function update(what) {
    const sum = capacity(), up = seen.gpus.filter((gpu) => gpu.state === "up");
    const power = up.map((gpu) => number(gpu, M.power)).filter((v) => v !== null), limit = up.map((gpu) => number(gpu, M.limit)).filter((v) => v !== null);
    const used = up.map((gpu) => number(gpu, M.used)).filter((v) => v !== null), total = up.map((gpu) => number(gpu, M.total)).filter((v) => v !== null);
    const add = (list) => list.reduce((a, b) => a + b, 0);
    const works = seen.gpus.map((gpu) => workOf(gpu).kind), wrong = openIncidents().filter((i) => SEVERITIES.indexOf(i.severity) > 0);
    tiles.capacity.update(`${whole(sum.total)} GPU${sum.total === 1 ? "" : "s"}`, total.length ? `${bytes(add(total) * 1048576)} of memory` : "");
    tiles.busy.update(inGpus(sum.busy), sum.total ? `${percent(sum.busy / sum.total)} of capacity` : "");
    tiles.wasted.update(inGpus(sum.wasted), `${works.filter((k) => k === "occupied").length} only occupied, ${works.filter((k) => k === "held").length} held and idle`);
    tiles.health.update(`${up.length} of ${sum.total} up`, wrong.length ? `${wrong.length} open incident${wrong.length > 1 ? "s" : ""}` : "no open incident");
    tiles.power.update(power.length ? watts(add(power)) : "not told", [power.length && power.length < up.length && `of ${power.length} of ${up.length} GPUs`, limit.length && `limit ${watts(add(limit))}`].filter(Boolean).join(", "));
    tiles.memory.update(total.length ? percent(add(used) / add(total)) : "not told", used.length ? bytes(add(used) * 1048576) : "");
    nowBar.update(sum, sum.total, "");
    daily();
    tools.update();
    if (what === "tick" && seen.tick % 5)
      return;
    strip.update();
    const rows = users(), text = JSON.stringify(rows);
    if (text !== lastText)
      fill(who, table("Who has what", ["Who", { text: "GPUs", number: true }, { text: "SM active", number: true }, { text: "Wasted, in GPUs", number: true }, { text: "Memory", number: true }],
        rows.slice(0, 100).map((r) => [r.name, short(r.devices, 2), mean(r.sm) === null ? absent("SM active is not told") : percent(mean(r.sm)), mean(r.sm) === null ? absent("not known") : short(r.wasted, 2), r.memory ? bytes(r.memory) : absent("not told")]), "Nobody that is known."));
    lastText = text;
    healthTable();
  }
  return { title: "Executive", element, update, end() {
    axis.span = spanBefore === "tenth" ? "second" : spanBefore;
    strip.end();
    chart.end();
  } };
}
