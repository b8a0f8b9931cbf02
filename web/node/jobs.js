// SPDX-License-Identifier: Apache-2.0
// Jobs, pods, containers and programs: who has which GPUs, how well they work for it, and what it cost. One of them has a page of its own.
import { keyOf, number, seen } from "./agent.js";
import { chartGroup, toolbar } from "./charts.js";
import { absent, fill, h, table } from "./element.js";
import { fleetCharts, gpuLegend } from "./fleet.js";
import { crumbs, facts, gpuChip, incidentList, keepScroll, notThere, severityMark, stateMark } from "./parts.js";
import { gpuRows } from "./rows.js";
import { activityOf, activityText, isAbout, isIdle, known, meanOf, noticeOf, openIncidents, ownerKey, ownerName, rangesOf } from "./state.js";
import { stamp } from "./time.js";
import { timeline } from "./timeline.js";
import { M, bytes, lasting, percent, short } from "./words.js";

const ASK_EVERY_MS = 10000, IDLE_CAUSES = new Set(["idle_held", "input", "launches", "collective", "other_rank", "stuck"]), SLICES = 7, CHIPS_MAX = 2;

/* --- the agent's reports --- */

let reports = [], askedAt = -Infinity;

/* What the agent has counted of each job, pod and container: those that run and the last that ended. Asked for while somebody looks. */
export function jobReports() {
  if (performance.now() - askedAt > ASK_EVERY_MS) {
    askedAt = performance.now();
    fetch("api/v1/jobs", { cache: "no-store" }).then((answer) => (answer.ok ? answer.json() : { jobs: [] })).then((all) => { reports = all.jobs ?? []; }, () => {});
  }
  return reports;
}

export const priceText = ({ cost, currency }) => (cost === null || cost === undefined ? null : `${short(cost, 2)} ${currency}`);
/* GPU hours of a report in which a GPU was held and did not work. */
export const wasteOf = (report) => (report.gpu_hours ?? 0) * (report.verdicts ?? []).reduce((sum, { cause, share }) => sum + (IDLE_CAUSES.has(cause) ? share ?? 0 : 0), 0);

/* --- who holds what --- */

/* A GPU counts one, an instance its slices. */
const weightOf = (gpu, device) => (device === gpu ? 1 : Number(/(\d+)g/.exec(device.profile ?? "")?.[1] ?? 1) / SLICES);

/* Of those who hold something now: [{key, owner, name, devices, gpus, sharing, idle, memory, sm, report}], the most idle first. */
export function holders() {
  const rows = new Map(), told = new Map(jobReports().filter((r) => r.state === "running").map((r) => [ownerKey(r), r]));
  const take = (key, owner, name, gpu, device, share, idle, attribution, memory, alone) => {
    const row = rows.get(key) ?? rows.set(key, { key, owner, name, devices: 0, gpus: new Set(), idle: 0, memory: 0, sm: [], by: new Set(), of: [], report: told.get(key) }).get(key), weight = weightOf(gpu, device) * share;
    row.devices += weight;
    row.idle += idle ? weight : 0;
    row.memory += memory ?? 0;
    row.by.add(attribution);
    row.gpus.add(gpu);
    row.of.push(device);
    if (alone)
      row.sm.push(activityOf(device).sm_active ?? null);
  };
  for (const gpu of seen.gpus)
    for (const device of gpu.instances?.length ? gpu.instances : [gpu]) {
      const held = device.holdings ?? [];
      for (const one of held)
        take(ownerKey(one.owner), one.owner, ownerName(one.owner), gpu, device, one.share, one.state === "reserved" || ["waiting", "idle held"].includes(one.activity), one.attribution, one.memory_bytes, held.length === 1);
      if (!held.length && activityOf(device).held)
        take("unknown", {}, "not known", gpu, device, 1, isIdle(device), "unknown", (number(device, M.used) ?? 0) * 1048576, true);
    }
  return [...rows.values()].map((row) => ({ ...row, gpus: [...row.gpus], by: [...row.by].sort().join(", "), sm: meanOf(known(row.sm)) })).sort((a, b) => b.idle - a.idle || b.devices - a.devices || (a.name < b.name ? -1 : 1));
}

const WORST_FIRST = ["unusable", "waiting", "idle held", "unknown", "free", "working"];

/* What stands out of one: that GPUs of it wait for another, or the worst that some of them do. */
function stateOf({ of }) {
  const straggler = of.find((device) => noticeOf(device)?.cause === "straggler"), word = WORST_FIRST.find((one) => of.some((device) => activityOf(device).word === one)), some = of.filter((device) => activityOf(device).word === word);
  return straggler ? severityMark("warning", `GPU ${straggler.index} is slower than the others`) : stateMark(word, `${some.length < of.length ? `${some.length} of ${of.length} ` : ""}${activityText(activityOf(some[0]))}`);
}

export const jobLink = (key) => `#/job/${encodeURIComponent(key)}`;

/* Columns that say nothing of anybody are left out. */
function tableOf(caption, columns, rows, empty) {
  const told = columns.filter(([, cell, isOptional]) => !isOptional || rows.some((r) => cell(r)));
  return table(caption, told.map(([head]) => head), rows.map((r) => told.map(([, cell]) => cell(r) ?? "")), empty);
}
const numeric = (text) => ({ text, number: true });

const NOW = [["Job, pod or program", (r) => h("a", { href: jobLink(r.key) }, r.name)], ["User", (r) => r.owner.user, true],
  ["GPUs", (r) => h("span", { class: "chips" }, r.gpus.length <= CHIPS_MAX ? r.gpus.map(gpuChip) : `${r.gpus.length}: GPU ${rangesOf(r.gpus.map((gpu) => gpu.index))}`,
    Math.abs(r.devices - r.gpus.length) > 0.005 && h("span", { class: "quiet" }, ` ${short(r.devices, 2)} in all`))],
  ["Doing", stateOf], [numeric("SM activity"), (r) => (r.sm === null ? absent("not reported") : percent(r.sm))], [numeric("GPU memory"), (r) => (r.memory ? bytes(r.memory) : absent("not reported"))], [{ text: "Share by", title: "how the part of each owner was found" }, (r) => r.by],
  [numeric("GPU hours"), (r) => r.report && short(r.report.gpu_hours ?? 0, 2), true], [numeric("Cost"), (r) => r.report && priceText(r.report), true]];
const ENDED = [["Job, pod or container", (r) => h("a", { href: jobLink(ownerKey(r)) }, reportName(r))], ["User", (r) => r.user, true], ["Ended", (r) => stamp(r.seen_until)], [numeric("Ran for"), (r) => lasting(r.elapsed_s ?? 0)], [numeric("GPUs"), (r) => String(r.gpus?.length ?? 0)],
  [numeric("SM activity"), (r) => (typeof r.sm_active === "number" ? percent(r.sm_active) : absent("not reported"))], [numeric("GPU hours"), (r) => short(r.gpu_hours ?? 0, 2)], [numeric("of these idle or waiting"), (r) => short(wasteOf(r), 2)], [numeric("Cost"), priceText, true]];

const reportName = (r) => (r.job ? `job ${r.job}` : r.pod ? `pod ${[r.namespace, r.pod].filter(Boolean).join("/")}` : `container ${(r.container ?? "").slice(0, 12)}`);

export function jobs() {
  const now = h("div"), past = h("div"), ended = h("section", { "aria-labelledby": "past-h", hidden: true }, h("h2", { id: "past-h" }, "Ended"), past);
  const element = h("div", {}, h("section", { "aria-labelledby": "jobs-h" }, h("h2", { id: "jobs-h" }, "Who has GPUs now"), now), ended);
  let last = "";
  function update() {
    const rows = holders(), over = jobReports().filter((r) => r.state !== "running"), text = JSON.stringify([rows.map((r) => [r.key, r.devices, r.sm && Math.round(100 * r.sm), r.memory, r.idle, r.of.map((d) => activityOf(d).word), r.report?.gpu_hours]), over.map((r) => r.id)]);
    if (text === last || document.getSelection()?.toString()) // who reads or copies a table keeps it
      return;
    last = text;
    keepScroll(now, () => fill(now, tableOf("Who has GPUs now", NOW, rows, "Nobody holds a GPU.")));
    ended.hidden = !over.length;
    keepScroll(past, () => fill(past, tableOf("Ended", ENDED, over.slice(0, 100))));
  }
  return { title: "Jobs", element, update, end() {} };
}

/* --- one --- */

export function jobView({ speak, id }) {
  const key = decodeURIComponent(id), find = () => holders().find((row) => row.key === key), report = () => jobReports().find((r) => ownerKey(r) === key), first = find();
  if (!first && !report() && performance.now() - askedAt > 1000)
    return notThere("The agent knows of no job, pod or program of this name now.");
  const mine = (gpu) => find()?.gpus.some((one) => keyOf(one) === keyOf(gpu)) ?? false, gpus = () => seen.gpus.filter(mine), about = (i) => gpus().some((gpu) => isAbout(i, gpu));
  const rows = gpuRows(mine), charts = fleetCharts(undefined, { gpus, only: about }), tools = toolbar({ tenths: false }), legend = gpuLegend(gpus), strip = timeline(about, () => false), incidents = h("ol", { class: "incidents" }), told = h("div"), title = h("h2", { id: "job-h" });
  tools.element.append(legend.element);
  const live = h("div", {}, h("section", { "aria-labelledby": "gpus-h", class: "tight" }, h("h2", { id: "gpus-h", class: "spoken" }, "Its GPUs"), rows.element),
    h("section", { "aria-labelledby": "curves-h" }, h("h2", { id: "curves-h", class: "spoken" }, "Over time"), tools.element, chartGroup(charts, speak, [strip.element])));
  const element = h("div", {}, crumbs(h("a", { href: "#/jobs" }, "Jobs"), h("span", {}, key)), h("section", { "aria-labelledby": "job-h" }, title, incidents, told), live);
  function update(what) {
    const row = find(), r = report();
    fill(title, row?.name ?? (r ? reportName(r) : key));
    live.hidden = !row;
    incidentList(incidents, openIncidents().filter(about));
    if (what !== "tick" || seen.tick % 5 === 0 || !told.firstChild)
      keepScroll(told, () => fill(told, facts([["User", row?.owner.user ?? r?.user], ["Name", r?.name], ["Doing", row ? stateOf(row) : r && "ended"], ["GPUs", row && short(row.devices, 2)],
        ["SM activity", typeof row?.sm === "number" && `${percent(row.sm)} now`], ["Mean SM activity", typeof r?.sm_active === "number" && percent(r.sm_active)],
        ["Runs for", r && lasting(r.elapsed_s ?? 0)], ["GPU hours", r && `${short(r.gpu_hours ?? 0, 2)}, of these ${short(wasteOf(r), 2)} idle or waiting`], ["Energy", r?.energy_j && `${short(r.energy_j / 3.6e6, 2)} kWh`], ["Cost", r && priceText(r)]], "wide"),
      r?.notes?.length > 0 && h("ul", { class: "plain" }, r.notes.map((note) => h("li", {}, note)))));
    if (!row)
      return;
    rows.update();
    tools.update();
    if (what !== "tick")
      strip.update();
  }
  return { title: key, element, update, end() {
    strip.end();
    legend.end();
    charts.forEach((chart) => chart.end());
  } };
}
