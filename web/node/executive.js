// SPDX-License-Identifier: Apache-2.0
// For the one who pays: how much there is, how much of it works, how much is wasted, and whether it is well. Everything in
// GPUs, so that the parts sum to the whole; now, and over the day that the agent has seen.
import { keyOf, nowMs, number, seen } from "./agent.js";
import { Chart, axis, toolbar } from "./charts.js";
import { each, fill, h, say, table } from "./element.js";
import { values, want } from "./history.js";
import { capacity, gpuLink, gpuName, memoryShare, openIncidents, processHome, processName, processesOf, smActive, usersOf, workOf } from "./parts.js";
import { chartGroup, keyHelp } from "./oncall.js";
import { marks, timeline } from "./timeline.js";
import { M, SEVERITIES, bytes, lasting, percent, short, watts, whole } from "./words.js";

const KINDS = { busy: ["Busy", "their multiprocessors work (SM active)"], wasted: ["Wasted", "somebody has them, their multiprocessors rest"],
  free: ["Free", "nobody has them"], down: ["Down", "they cannot be used"], unknown: ["Not known", "nothing tells"] };
const NAMES = [M.sm, M.util, M.used, M.power, M.energy];
const HELD_SHARE = 0.02, BUSY_UTIL = 5, DAY = 1440;

/* What one GPU was in one minute, from its means: the same words as now, but that who had it is not kept: memory in use
 * stands for it. null: nothing is known of that minute. */
function minuteOf(gpu, i) {
  const at = (name) => values(keyOf(gpu), name, "minute")(i);
  const sm = at(M.sm), util = at(M.util), used = at(M.used), total = number(gpu, M.total);
  if (sm === undefined && util === undefined)
    return null;
  if (sm === null && util === null)
    return { down: 1 };
  if (sm === null || sm === undefined)
    return { unknown: 1 };
  const taken = (util ?? 0) >= BUSY_UTIL || sm >= 0.05 || (total && used / total > HELD_SHARE);
  return taken ? { busy: sm, wasted: 1 - sm } : { free: 1 };
}

function day() {
  const last = Math.floor(nowMs() / 60000), sum = { busy: 0, wasted: 0, free: 0, down: 0, unknown: 0, known: 0 }, each_ = [];
  for (let i = last - DAY; i < last; i++) {
    let any = null;
    for (const gpu of seen.gpus) {
      const part = minuteOf(gpu, i);
      if (!part)
        continue;
      any ??= { busy: 0, wasted: 0, free: 0, down: 0, unknown: 0 };
      for (const [kind, value] of Object.entries(part)) {
        any[kind] += value;
        sum[kind] += value;
      }
      sum.known++;
    }
    each_.push([i, any]);
  }
  return { sum, minutes: each_ };
}

function energyOf() {
  let joules = 0, known = false;
  const last = Math.floor(nowMs() / 60000);
  for (const gpu of seen.gpus) {
    const at = values(keyOf(gpu), M.energy, "minute");
    for (let i = last - DAY; i < last; i++) {
      const mw = at(i); // a counter's minute: its growth a second, mJ/s
      if (typeof mw === "number") {
        joules += mw / 1000 * 60;
        known = true;
      }
    }
  }
  return known ? joules / 3.6e6 : null;
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
function stackLines(minutes) {
  const order = ["busy", "wasted", "free", "down"], at = new Map(minutes.map(([i, parts]) => [i, parts]));
  return order.map((kind, k) => ({ label: KINDS[kind][0], colour: `--work-${kind}`, width: 1, fill: 0.55, at: (i) => {
    const parts = at.get(i);
    return parts ? order.slice(0, k + 1).reduce((sum, one) => sum + parts[one], 0) : undefined;
  } })).reverse();
}

export function executive({ speak }) {
  const nowBar = bar(), dayBar = bar(), who = h("div"), health = h("div"), dayNote = h("p", { class: "quiet" });
  const tiles = { capacity: tile("Capacity"), busy: tile("Busy"), wasted: tile("Wasted"), health: tile("Healthy"), power: tile("Power"), memory: tile("Memory in use") };
  let stacked = [], spanBefore = axis.span, lastDay = 0, lastText = "";
  const chart = new Chart({ stacked: true, title: "GPUs over the day", note: "busy, wasted, free, down", height: 200, max: () => Math.max(1, seen.gpus.length), format: (v) => short(v), lines: () => (axis.span === "minute" ? stacked : []),
    why: () => "The day is drawn in minutes: choose 24 h.", marks: () => marks(), wants: () => seen.gpus.map((gpu) => [gpu, NAMES]) });
  const tools = toolbar({ tenths: false }), strip = timeline();
  const element = h("div", {},
    h("section", { "aria-labelledby": "now-h" }, h("h2", { id: "now-h" }, "Now"), h("dl", { class: "tiles" }, Object.values(tiles).map((t) => t.element)), nowBar.element),
    h("section", { "aria-labelledby": "day-h" }, h("h2", { id: "day-h" }, "The last day"), dayNote, dayBar.element, tools.element, chartGroup([chart], speak, [strip.element]), keyHelp()),
    h("section", { "aria-labelledby": "who-h" }, h("h2", { id: "who-h" }, "Who has what"), who),
    h("section", { "aria-labelledby": "health-h" }, h("h2", { id: "health-h" }, "Health"), health));
  axis.span = "minute";
  axis.zoom = null;

  function daily() {
    for (const gpu of seen.gpus)
      want(gpu, NAMES, "minute", () => { lastDay = 0; });
    if (performance.now() - lastDay < 5000 && lastDay)
      return;
    lastDay = performance.now();
    const { sum, minutes } = day(), energy = energyOf();
    stacked = stackLines(minutes);
    dayNote.textContent = sum.known ? `The agent has seen ${lasting(60 * sum.known / Math.max(1, seen.gpus.length))} of it${energy === null ? "" : `; energy ${short(energy, 2)} kWh`}. Shares are GPU hours.`
      : "The first minute is not over yet.";
    const hours = Object.fromEntries(Object.entries(sum).map(([kind, minutes_]) => [kind, minutes_ / 60]));
    dayBar.element.hidden = !sum.known;
    dayBar.update(hours, sum.known / 60, " h");
    chart.shape = null;
    chart.draw();
  }

  function healthTable() {
    const last = Math.floor(nowMs() / 60000);
    fill(health, table("Health of each GPU", ["GPU", "State", { text: "Up, of the seen day", number: true }, "Open incidents", { text: "Incidents that are over", number: true }],
      seen.gpus.map((gpu) => {
        const at = values(keyOf(gpu), M.power, "minute");
        let up = 0, known = 0;
        for (let i = last - DAY; i < last; i++) {
          const value = at(i);
          known += value !== undefined;
          up += typeof value === "number";
        }
        const mine = (i) => i.device?.index === gpu.index && i.device?.kind !== "node";
        return [h("a", { href: gpuLink(gpu) }, gpuName(gpu)), gpu.state, known ? percent(up / known) : "–",
          openIncidents().filter(mine).map((i) => h("a", { class: "tag", "data-severity": i.severity, href: `#/incident/${i.id}` }, i.class)).concat(openIncidents().some(mine) ? [] : h("span", { class: "quiet" }, "none")), String(seen.past.filter(mine).length)];
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
    tiles.power.update(power.length ? watts(add(power)) : "not told", limit.length ? `limit ${watts(add(limit))}` : "");
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
        rows.slice(0, 100).map((r) => [r.name, short(r.devices, 2), mean(r.sm) === null ? "not told" : percent(mean(r.sm)), short(r.wasted, 2), r.memory ? bytes(r.memory) : "–"]), "Nobody that is known."));
    lastText = text;
    healthTable();
  }
  return { title: "Executive", element, update, end() {
    axis.span = spanBefore === "tenth" ? "second" : spanBefore;
    strip.end();
    chart.end();
  } };
}
