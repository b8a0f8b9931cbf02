// SPDX-License-Identifier: Apache-2.0
// For those who pay: how much there is, how much of it works, waits or idles, and whether it is healthy. Everything in
// GPUs, so that the parts sum to the whole; now, and over the last day.
import { keyOf, nowMs, number, seen } from "./agent.js";
import { absent, each, fill, h, say, table } from "./element.js";
import { keepScroll } from "./debug.js";
import { MINUTES, values, want } from "./history.js";
import { ACTIVITIES, activityOf, capacity, gpuLink, gpuName, isAbout, isIdle, openIncidents } from "./parts.js";
import { timeline } from "./timeline.js";
import { M, SEVERITIES, bytes, lasting, percent, short, watts, whole } from "./words.js";

const MEANS = { working: "their multiprocessors work", waiting: "a program has them and they mostly wait", "idle held": "a program has them and nothing runs",
  free: "no program has them", unusable: "an incident takes them out of use", unknown: "not known what they do" };

/* Seconds of each activity in the last day: {sum, seen}. */
function dayOf(gpus) {
  const sum = Object.fromEntries(ACTIVITIES.map((word) => [word, 0]));
  for (const gpu of gpus)
    for (const word of ACTIVITIES)
      sum[word] += activityOf(gpu).day_seconds?.[word] ?? 0;
  return { sum, seen: ACTIVITIES.reduce((all, word) => all + sum[word], 0) };
}

/* Joules of the last day, by the minutes that the agent kept; null: none is known. */
function energyOfDay() {
  const first = Math.floor(nowMs() / 60000) - MINUTES;
  let joules = null;
  for (const gpu of seen.gpus) {
    want(gpu, [M.energy], "minute", () => {});
    const mw = values(keyOf(gpu), M.energy, "minute"); // of a counter: its growth a second, mJ/s
    for (let i = first; i < first + MINUTES; i++)
      if (typeof mw(i) === "number")
        joules = (joules ?? 0) + mw(i) / 1000 * 60;
  }
  return joules;
}

/* A pod, job or container by its name; a process outside of these by its user and name. */
const ownerName = ({ job, pod, container, user, process, text }) => (job || pod || container ? text : [user, process].filter(Boolean).join(": ") || text);

/* Who has what now, the most idle first. Of a device that several have, each has its part. */
function users() {
  const rows = new Map();
  const addTo = (name, weight, idle, attribution, sm, memory) => {
    const row = rows.get(name) ?? rows.set(name, { name, devices: 0, idle: 0, sm: [], memory: 0, by: new Set() }).get(name);
    row.devices += weight;
    row.idle += idle ? weight : 0;
    row.memory += memory ?? 0;
    row.by.add(attribution);
    if (sm !== null)
      row.sm.push(sm);
  };
  for (const gpu of seen.gpus) {
    const parts = gpu.instances?.length ? gpu.instances.map((one) => [one, 1 / 7 * Number(/(\d+)g/.exec(one.profile ?? "")?.[1] ?? 1)]) : [[gpu, 1]];
    for (const [device, weight] of parts) {
      const held = device.holdings ?? [];
      for (const one of held)
        addTo(ownerName(one.owner), weight * one.share, one.state === "reserved" || ["waiting", "idle held"].includes(one.activity), one.attribution,
          held.length === 1 ? activityOf(device).sm_active ?? null : null, one.memory_bytes);
      if (!held.length && activityOf(device).held)
        addTo("not known", weight, isIdle(device), "unknown", activityOf(device).sm_active ?? null, (number(device, M.used) ?? 0) * 1048576);
    }
  }
  return [...rows.values()].map((row) => ({ ...row, by: [...row.by].sort().join(", ") })).sort((a, b) => b.idle - a.idle || (a.name < b.name ? -1 : 1));
}

/* 100 % is said only of all of it. */
const percentBelow = (share) => (share < 1 && share > 0.995 ? `${(Math.floor(1000 * share) / 10).toFixed(1)} %` : percent(share));
const inGpus = (n) => `${short(n)} GPU${short(n) === "1" ? "" : "s"}`;
const mean = (list) => (list.length ? list.reduce((a, b) => a + b, 0) / list.length : null);

function bar() {
  const pieces = Object.fromEntries(ACTIVITIES.map((kind) => [kind, h("i", { "data-work": kind })]));
  const legend = h("ul", { class: "shares" });
  const element = h("div", {}, h("div", { class: "share-bar", "aria-hidden": "true" }, Object.values(pieces)), legend);
  return { element, update(sum, total, unit) {
    const shownKinds = ACTIVITIES.filter((kind) => sum[kind] > 0.0005 || kind === "working");
    for (const [kind, piece] of Object.entries(pieces))
      piece.style.width = `${total ? 100 * sum[kind] / total : 0}%`;
    each(legend, shownKinds, (kind) => kind, (kind) => h("li", { "data-work": kind }, h("i", { "aria-hidden": "true" }), h("b"), h("span", {}, ` ${kind}`), h("span", { class: "quiet" }, MEANS[kind])),
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

export function executive() {
  const nowBar = bar(), dayBar = bar(), who = h("div"), health = h("div"), dayNote = h("p", { class: "quiet" });
  const tiles = { capacity: tile("Capacity"), working: tile("Working"), idle: tile("Waiting or idle"), health: tile("Health"), power: tile("Power"), memory: tile("Memory in use") };
  const strip = timeline();
  let lastText = "", joules = null;
  const element = h("div", {},
    h("section", { "aria-labelledby": "now-h" }, h("h2", { id: "now-h" }, "Now"), h("dl", { class: "tiles" }, Object.values(tiles).map((t) => t.element)), nowBar.element),
    h("section", { "aria-labelledby": "day-h" }, h("h2", { id: "day-h" }, "The last day"), dayNote, dayBar.element, strip.element),
    h("section", { "aria-labelledby": "who-h" }, h("h2", { id: "who-h" }, "Who has what"), who),
    h("section", { "aria-labelledby": "health-h" }, h("h2", { id: "health-h" }, "Health"), health));
  function daily() {
    const day = dayOf(seen.gpus);
    say(dayNote, day.seen ? `Seen: ${lasting(day.seen / Math.max(1, seen.gpus.length))} of each GPU${joules === null ? "" : `; energy ${short(joules / 3.6e6, 2)} kWh`}. Shares are GPU hours.` : "Nothing is known of it yet.");
    dayBar.element.hidden = !day.seen;
    dayBar.update(Object.fromEntries(Object.entries(day.sum).map(([word, seconds]) => [word, seconds / 3600])), day.seen / 3600, " h");
  }

  function healthTable() {
    keepScroll(health, () => fill(health, table("Health of each GPU", ["GPU", "State", { text: "Usable (24 h)", number: true }, "Open incidents", { text: "Resolved incidents", number: true }],
      seen.gpus.map((gpu) => {
        const mine = (i) => isAbout(i, gpu), open = openIncidents().filter(mine), { sum, seen: all } = dayOf([gpu]), up = all ? 1 - sum.unusable / all : null;
        return [h("a", { href: gpuLink(gpu) }, gpuName(gpu)), activityOf(gpu).word, up === null ? absent("not known yet") : percentBelow(up),
          open.length ? open.map((i) => h("a", { class: "tag", "data-severity": i.severity, href: `#/incident/${i.id}` }, i.class)) : h("span", { class: "quiet" }, "none"), String(seen.past.filter(mine).length)];
      }), "no GPU")));
  }

  function update(what) {
    const sum = capacity(), up = seen.gpus.filter((gpu) => gpu.state === "up");
    const power = up.map((gpu) => number(gpu, M.power)).filter((v) => v !== null), limit = up.map((gpu) => number(gpu, M.limit)).filter((v) => v !== null);
    const used = up.map((gpu) => number(gpu, M.used)).filter((v) => v !== null), total = up.map((gpu) => number(gpu, M.total)).filter((v) => v !== null);
    const add = (list) => list.reduce((a, b) => a + b, 0);
    const wrong = openIncidents().filter((i) => SEVERITIES.indexOf(i.severity) > 0);
    tiles.capacity.update(`${whole(sum.total)} GPU${sum.total === 1 ? "" : "s"}`, total.length ? `${bytes(add(total) * 1048576)} of memory` : "");
    tiles.working.update(inGpus(sum.working), sum.total ? `${percent(sum.working / sum.total)} of capacity` : "");
    tiles.idle.update(inGpus(sum.waiting + sum["idle held"]), `${sum.waiting} waiting, ${sum["idle held"]} idle held`);
    tiles.health.update(sum.unusable ? `${sum.unusable} of ${sum.total} unusable` : wrong.length ? "Problem" : "All healthy", wrong.length ? `${wrong.length} open incident${wrong.length > 1 ? "s" : ""}` : "no open incident");
    tiles.power.update(power.length ? watts(add(power)) : "not reported", [power.length && power.length < up.length && `of ${power.length} of ${up.length} GPUs`, limit.length && `limit ${watts(add(limit))}`].filter(Boolean).join(", "));
    tiles.memory.update(total.length ? percent(add(used) / add(total)) : "not reported", used.length ? bytes(add(used) * 1048576) : "");
    nowBar.update(sum, sum.total, "");
    daily();
    if (what === "tick" && seen.tick % 5)
      return;
    strip.update();
    joules = energyOfDay();
    const rows = users(), text = JSON.stringify(rows);
    if (text !== lastText)
      keepScroll(who, () => fill(who, table("Who has what", ["Who", { text: "GPUs", number: true }, { text: "SM active", number: true }, { text: "Waiting or idle, in GPUs", number: true }, { text: "Memory", number: true }, "Share by"],
        rows.slice(0, 100).map((r) => [r.name, short(r.devices, 2), mean(r.sm) === null ? absent("not reported for one owner of several, nor by some GPUs") : percent(mean(r.sm)), short(r.idle, 2), r.memory ? bytes(r.memory) : absent("not reported"), r.by]), "No process.")));
    lastText = text;
    healthTable();
  }
  return { title: "Executive", element, update, end() {
    strip.end();
  } };
}
