// SPDX-License-Identifier: Apache-2.0
// For those who pay: how much there is, how much of it works, what is wasted - held and not working - by whom, and what that costs. In
// GPUs and GPU hours, so that the parts sum to the whole; now, and over the last day. Made to be printed too.
import { keyOf, nowMs, number, seen } from "./agent.js";
import { absent, each, fill, h, say, table } from "./element.js";
import { MINUTES, values, want } from "./history.js";
import { holders, jobLink, jobReports, wasteOf } from "./jobs.js";
import { keepScroll } from "./parts.js";
import { ACTIVITIES, ICONS, activityOf, capacity, gpuLink, gpuName, isAbout, isProblem, known, openIncidents } from "./state.js";
import { stamp } from "./time.js";
import { M, bytes, groupBy, lasting, percent, short, watts, whole } from "./words.js";

const MEANS = { working: "their multiprocessors work", waiting: "a program has them and they mostly wait", "idle held": "a program has them and nothing runs",
  free: "no program has them", unusable: "an incident takes them out of use", unknown: "not known what they do" };
const WASTERS_MAX = 8, DAY_MS = 86400000;

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

/* What a GPU hour cost in the jobs that the agent priced; null: no price is known. */
function priceOf() {
  const priced = jobReports().filter((r) => r.cost !== null && r.cost !== undefined && r.priced_s > 0 && r.gpu_hours > 0), [first] = priced, same = priced.filter((r) => r.currency === first.currency);
  const hours = same.reduce((sum, r) => sum + r.gpu_hours, 0);
  return hours ? { hour: same.reduce((sum, r) => sum + r.cost, 0) / hours, currency: first.currency } : null;
}

/* 100 % is said only of all of it. */
const percentBelow = (share) => (share < 1 && share > 0.995 ? `${(Math.floor(1000 * share) / 10).toFixed(1)} %` : percent(share));
const inGpus = (n) => `${short(n)} GPU${short(n) === "1" ? "" : "s"}`;
const add = (list) => list.reduce((a, b) => a + b, 0);

function shareBar() {
  const pieces = Object.fromEntries(ACTIVITIES.map((kind) => [kind, h("i", { "data-work": kind })])), legend = h("ul", { class: "shares" });
  const element = h("div", {}, h("div", { class: "share-bar", "aria-hidden": "true" }, Object.values(pieces)), legend);
  return { element, update(sum, total, unit) {
    for (const [kind, piece] of Object.entries(pieces))
      piece.style.width = `${total ? 100 * sum[kind] / total : 0}%`;
    each(legend, ACTIVITIES.filter((kind) => sum[kind] > 0.001 * total || kind === "working"), (kind) => kind, (kind) => h("li", { "data-work": kind }, h("i", { "aria-hidden": "true" }), h("b"), h("span", {}, ` ${kind}`), h("span", { class: "quiet" }, MEANS[kind])),
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

/* Names with a bar each, the largest first. */
function ranking(rows, format) {
  const most = Math.max(...rows.map((r) => r.value), 1e-9);
  return h("ol", { class: "ranking" }, rows.slice(0, WASTERS_MAX).map((r) => {
    const piece = h("i");
    piece.style.width = `${100 * r.value / most}%`;
    return h("li", {}, r.href ? h("a", { href: r.href }, r.name) : h("span", {}, r.name), h("span", { class: "bar-track", "aria-hidden": "true" }, piece), h("b", {}, format(r)));
  }));
}

const summed = (rows, key, value) => [...groupBy(rows, key)].map(([name, some]) => ({ name, value: add(some.map(value)) })).filter((r) => r.value > 0.005).sort((a, b) => b.value - a.value);

export function executive() {
  const nowBar = shareBar(), dayBar = shareBar(), wasted = h("p", { class: "sentence" }), wasters = h("div", { class: "two" }), health = h("div"), dayNote = h("p", { class: "quiet" });
  const tiles = { capacity: tile("Capacity"), working: tile("Working"), waste: tile("Wasted now"), health: tile("Health"), power: tile("Power"), memory: tile("Memory in use") };
  let lastText = "", joules = null;
  const element = h("div", {},
    h("section", { "aria-labelledby": "waste-h" }, h("h2", { id: "waste-h" }, "Waste: held and not working"), wasted, wasters),
    h("section", { "aria-labelledby": "now-h" }, h("h2", { id: "now-h" }, "Now"), h("dl", { class: "tiles" }, Object.values(tiles).map((t) => t.element)), nowBar.element),
    h("section", { "aria-labelledby": "day-h" }, h("h2", { id: "day-h" }, "The last day"), dayBar.element, dayNote),
    h("section", { "aria-labelledby": "health-h" }, h("h2", { id: "health-h" }, "Health"), health),
    h("p", { class: "print-row" }, h("button", { type: "button", onclick: () => print() }, "Print"), h("span", { class: "printed quiet" })));

  function daily() {
    const day = dayOf(seen.gpus), price = priceOf(), hours = (day.sum.waiting + day.sum["idle held"]) / 3600, total = day.seen / 3600;
    const money = price && ` That is ${short(hours * price.hour, 2)} ${price.currency}, at ${short(price.hour, 2)} ${price.currency} a GPU hour, the mean of the jobs that have a price.`;
    say(dayNote, day.seen ? `Known: ${lasting(day.seen / Math.max(1, seen.gpus.length))} of each GPU${joules === null ? "" : `; energy ${short(joules / 3.6e6, 2)} kWh`}. Shares are GPU hours.` : "Nothing is known of it yet.");
    dayBar.element.hidden = !day.seen;
    dayBar.update(Object.fromEntries(Object.entries(day.sum).map(([word, seconds]) => [word, seconds / 3600])), total, " h");
    say(wasted, day.seen ? `${short(hours, hours < 1 ? 2 : 1)} of ${short(total, total < 1 ? 2 : 1)} GPU hours of the last day (${percent(hours / total)}) were held and did not work.${money || " No price of a GPU hour is known: prices are in the agent's configuration."}` : "");
  }

  function whoWastes() {
    const now = holders().filter((r) => r.idle > 0.005).map((r) => ({ name: r.name, href: jobLink(r.key), value: r.idle })), price = priceOf();
    const recent = jobReports().filter((r) => nowMs() - Date.parse(r.seen_until) < DAY_MS), byUser = summed(recent, (r) => r.user ?? "user not known", wasteOf);
    const text = JSON.stringify([now, byUser, price]);
    if (text === lastText)
      return;
    lastText = text;
    const part = (title, rows, format, none) => h("div", {}, h("h3", {}, title), rows.length ? ranking(rows, format) : h("p", { class: "quiet" }, none));
    keepScroll(wasters, () => fill(wasters, part("Now, in GPUs", now, (r) => inGpus(r.value), "Nobody holds a GPU that does not work."),
      part("Jobs, pods and containers of the last day, by user", byUser, (r) => `${short(r.value, 2)} h${price ? `, ${short(r.value * price.hour, 2)} ${price.currency}` : ""}`, "None of them wasted GPU hours, or none has a report.")));
  }

  function healthTable() {
    keepScroll(health, () => fill(health, table("Health of each GPU", ["GPU", "State", { text: "Usable (24 h)", number: true }, "Open incidents", { text: "Resolved incidents", number: true }],
      seen.gpus.map((gpu) => {
        const mine = (i) => isAbout(i, gpu), open = openIncidents().filter(mine), { sum, seen: all } = dayOf([gpu]), up = all ? 1 - sum.unusable / all : null;
        return [h("a", { href: gpuLink(gpu) }, gpuName(gpu)), `${ICONS[activityOf(gpu).word]} ${activityOf(gpu).word}`, up === null ? absent("not known yet") : percentBelow(up),
          open.length ? open.map((i) => h("a", { class: "tag", "data-severity": i.severity, href: `#/incident/${i.id}` }, i.class)) : h("span", { class: "quiet" }, "none"), String(seen.past.filter(mine).length)];
      }), "no GPU")));
  }

  function update(what) {
    const sum = capacity(), up = seen.gpus.filter((gpu) => gpu.state === "up"), told = (name) => known(up.map((gpu) => number(gpu, name)));
    const power = told(M.power), limit = told(M.limit), used = told(M.used), total = told(M.total), wrong = openIncidents().filter(isProblem);
    tiles.capacity.update(`${whole(sum.total)} GPU${sum.total === 1 ? "" : "s"}`, total.length ? `${bytes(add(total) * 1048576)} of memory` : "");
    tiles.working.update(inGpus(sum.working), sum.total ? `${percent(sum.working / sum.total)} of capacity` : "");
    tiles.waste.update(inGpus(sum.waiting + sum["idle held"]), `${sum.waiting} waiting, ${sum["idle held"]} held idle`);
    tiles.health.update(sum.unusable ? `${sum.unusable} of ${sum.total} unusable` : wrong.length ? "Problem" : "All healthy", wrong.length ? `${wrong.length} open incident${wrong.length > 1 ? "s" : ""}` : "no open incident");
    tiles.power.update(power.length ? watts(add(power)) : "not reported", [power.length && power.length < up.length && `of ${power.length} of ${up.length} GPUs`, limit.length && `limit ${watts(add(limit))}`].filter(Boolean).join(", "));
    tiles.memory.update(total.length ? percent(add(used) / add(total)) : "not reported", used.length ? bytes(add(used) * 1048576) : "");
    nowBar.update(sum, sum.total, "");
    daily();
    if (what === "tick" && seen.tick % 5)
      return;
    joules = energyOfDay();
    say(element.querySelector(".printed"), `${seen.node.hostname ?? "node"}, ${stamp(new Date(seen.timeMs).toISOString())}`);
    whoWastes();
    healthTable();
  }
  return { title: "Executive", element, update, end() {} };
}
