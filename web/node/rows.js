// SPDX-License-Identifier: Apache-2.0
// Every GPU in a line of 36 pixels, which unfolds on a click; more than an eye tells apart as a heat map, with lines for those to look
// at. On a narrow screen those with a fault stand first and the healthy are folded.
import { keyOf, number, seen, when } from "./agent.js";
import { absent, each, fill, h, mark, put, say } from "./element.js";
import { lastBefore, want } from "./history.js";
import { bar, facts, incidentList, stateCell, trafficText, verdictBlock } from "./parts.js";
import { spark } from "./spark.js";
import { ICONS, activityOf, activityText, busOf, gpuLink, gpuName, instanceLink, instanceName, isAbout, isHot, linksOf, memoryShare, openIncidents, reasonsOf, severityOf, sinceOf, smOf, utilOf, whoText } from "./state.js";
import { M, SEVERITIES, STATES, bytes, celsius, megahertz, percent, watts, whole, whyAbsent } from "./words.js";

const CROWD = 16, INSTANCES_MAX = 16, SPARK_TICKS = 5;
/* As style.css: what each of them leaves of nine columns, and of the six between state and sparkline. */
const WIDTHS = [[matchMedia("(max-width: 560px)"), 3, 1], [matchMedia("(max-width: 800px)"), 5, 3], [matchMedia("(max-width: 1180px)"), 7, 5]];
const isNarrow = () => WIDTHS[0][0].matches;
const columnsLeft = () => WIDTHS.find(([query]) => query.matches)?.slice(1) ?? [9, 6];

const HEADS = [["GPU", null], ["State", "c-state"], ["SM activity", "c-sm", "of the last minute: share of the time in which multiprocessors had work; the tick is utilisation, the share in which any kernel ran"],
  ["Memory", "c-memory"], ["Power", "c-number c-power"], ["Temp.", "c-number c-temp"], ["Clock", "c-number c-clock"], ["Used by", "c-who"], ["10 min", "c-spark"]];

const gib = (mib) => (mib / 1024).toFixed(1);
function memoryText(device) {
  const used = number(device, M.used), total = number(device, M.total);
  return used === null ? absent(whyAbsent(device.metrics?.[M.used])) : total === null ? bytes(used * 1048576) : `${gib(used)} / ${Math.round(total / 1024)} GiB`;
}

/* A mean of the last minute, or why there is none. */
const meanText = (device, mean, name) => (mean === null ? absent(number(device, name) === null ? whyAbsent(device.metrics?.[name]) : "not yet known") : percent(mean));

/* SM activity with utilisation as a tick; where one of them is not reported, the other alone. */
function work() {
  const one = bar("sm");
  return { element: one.element, update(device) {
    const sm = smOf(device), util = utilOf(device), text = (mean, name) => { const told = meanText(device, mean, name); return told.textContent ?? told; };
    mark(one.element, "data-kind", sm === null ? "util" : "sm");
    one.update(sm ?? util, sm !== null ? percent(sm) : util !== null ? `${percent(util)} util.` : meanText(device, sm, M.sm), sm === null ? null : util);
    mark(one.element, "title", `SM activity: ${text(sm, M.sm)}; utilisation: ${text(util, M.util)}; means of the last minute`);
  } };
}

/* --- what unfolds: that which is not normal, and the numbers behind the line --- */

function errorsOf(gpu) {
  const told = (name, text) => number(gpu, name) && `${whole(number(gpu, name))} ${text}`;
  return [number(gpu, M.remapFailed) && "remapping failed", number(gpu, M.remapPending) && "a row waits for a reset", told(M.dbe, "uncorrected"), told(M.sbe, "corrected"), told(M.remapBad, "rows remapped")].filter(Boolean).join(", ");
}

function detailFacts(gpu) {
  const { tensor, dram } = activityOf(gpu), power = number(gpu, M.power), limit = number(gpu, M.limit), temp = number(gpu, M.temp);
  const reasons = (reasonsOf(gpu) ?? []).filter((r) => r.trouble), bus = busOf(gpu), links = linksOf(gpu), slow = number(gpu, M.slowdown), top = number(gpu, M.maxClock), at = number(gpu, M.clock);
  return facts([["SM activity", meanText(gpu, smOf(gpu), M.sm)], ["Utilisation", meanText(gpu, utilOf(gpu), M.util)], ["Tensor cores", typeof tensor === "number" && percent(tensor)], ["DRAM", typeof dram === "number" && percent(dram)], ["Memory", memoryText(gpu)],
    ["Power", power !== null && `${watts(power)}${limit === null ? "" : ` of ${watts(limit)}`}`], ["Temperature", temp !== null && `${celsius(temp)}${slow === null ? "" : `, slows down at ${celsius(slow)}`}`, isHot(gpu)],
    ["Memory temp.", number(gpu, M.memTemp) !== null && celsius(number(gpu, M.memTemp))], ["SM clock", at !== null && `${megahertz(at)}${top === null ? "" : ` of ${megahertz(top)}`}`],
    ["Held down by", reasons.map((r) => r.text).join(", "), true], ["Memory errors", errorsOf(gpu), number(gpu, M.dbe) > 0], ["PCIe", gpu.rates && trafficText(gpu, M.pcieTx, M.pcieRx)], ["PCIe link", bus.bad && bus.text, true],
    ["NVLink", links && trafficText(gpu, M.nvTx, M.nvRx)], ["NVLinks up", links?.bad && links.text, true], ["Processes", gpu.processes?.length > 1 && String(gpu.processes.length)]], "wide");
}

function detail(first, alone) {
  const down = h("p"), numbers = h("div"), incidents = h("ol", { class: "incidents" }), verdict = verdictBlock();
  return { element: h("div", { class: "detail" }, down, incidents, verdict.element, numbers, h("p", {}, !alone && h("a", { href: gpuLink(first) }, `All about ${gpuName(first)}`), first.name && h("span", { class: "quiet" }, ` ${first.name.replace(/^NVIDIA /, "")}`))), update(gpu) {
    incidentList(incidents, openIncidents().filter((i) => isAbout(i, gpu)));
    verdict.update(gpu);
    numbers.hidden = gpu.state !== "up";
    down.hidden = gpu.state === "up" || !isNarrow(); // else the line has it
    say(down, gpu.state === "up" ? "" : downText(gpu));
    if (gpu.state === "up")
      put(numbers, detailFacts(gpu));
  } };
}

/* --- a line --- */

/* "last seen 18:40:02: 64.9 GiB, 62 °C, 611 W", of a GPU that gives no values any more. */
export function lastText(gpu, until = Date.parse(gpu.since) / 1000) {
  want(gpu, [M.used, M.temp, M.power], "minute", () => {});
  const found = [[M.used, (v) => bytes(v * 1048576)], [M.temp, celsius], [M.power, watts]].map(([name, format]) => [lastBefore(keyOf(gpu), name, until), format]).filter(([last]) => last);
  return found.length ? `Last seen ${when(Math.max(...found.map(([last]) => last.at)) * 1000)}: ${found.map(([last, format]) => format(last.value)).join(", ")}` : "";
}

/* Why a GPU gives no values, and what it last gave: where there is room. */
const downText = (gpu) => [`No data for ${sinceOf(gpu.since)}: ${STATES[gpu.state] ?? gpu.state}`, lastText(gpu)].filter(Boolean).join(". ");
const shortDownText = (gpu) => `No data for ${sinceOf(gpu.since)}`;

/* The cells that a GPU and a MIG device have in common. */
function cells() {
  const state = stateCell(), sm = work(), memory = bar("memory"), power = h("span"), temp = h("span"), speed = h("span"), who = h("span", { class: "who" });
  const cell = (name, content) => h("td", { class: name }, content);
  return { all: [cell("c-state", state.element), cell("c-sm", sm.element), cell("c-memory", memory.element), cell("c-number c-power", power), cell("c-number c-temp", temp), cell("c-number c-clock", speed), cell("c-who", who)],
    update(device, gpu, severity) {
      state.update(device, severity);
      sm.update(device);
      memory.update(memoryShare(device), memoryText(device));
      const told = (name, format) => { const v = number(device, name); return v === null ? (device === gpu ? "–" : "") : format(v); };
      const held = device === gpu && (reasonsOf(gpu) ?? []).filter((r) => r.trouble);
      say(power, told(M.power, watts));
      say(temp, told(M.temp, celsius));
      mark(temp, "data-tone", device === gpu && isHot(gpu) ? "bad" : null);
      say(speed, `${held?.length ? "▼ " : ""}${told(M.clock, megahertz)}`);
      mark(speed, "data-tone", held?.length ? "bad" : null);
      mark(speed, "title", held?.length ? `held down by ${held.map((r) => r.text).join(", ")}` : null);
      say(who, whoText(device) ?? "–");
      mark(who, "title", whoText(device));
    } };
}

function instanceRow(gpu, first) {
  const row = cells(), element = h("tr", { class: "instance" }, h("th", { scope: "row" }, h("a", { href: instanceLink(gpu, first) }, `${first.profile ?? "MIG"} ${instanceName(first)}`)), row.all, h("td", { class: "c-spark" }));
  element.update = (one, of) => row.update(one, of, null);
  return element;
}

/* A tbody with update(gpu). */
function gpuRow(first, open, share) {
  const row = cells(), line = spark(), arrow = h("i", { class: "arrow", "aria-hidden": "true" }), fold = h("button", { type: "button", class: "fold" }, arrow, gpuName(first)), down = h("td", { class: "c-down" }), more = h("tr", { class: "more" }, h("td"));
  const head = h("tr", { class: "gpu", onclick: (event) => { if (!event.target.closest("a") && !document.getSelection()?.toString()) toggle(); } }, h("th", { scope: "row" }, fold), row.all, down, h("td", { class: "c-spark" }, line.element));
  const element = h("tbody", { "data-gpu": gpuName(first) }, head, more);
  let inside = null, latest = first;
  function toggle() {
    open.has(keyOf(first)) ? open.delete(keyOf(first)) : open.add(keyOf(first));
    update(latest);
  }
  function update(gpu) {
    const isOpen = open.has(keyOf(gpu)), severity = severityOf(gpu), up = gpu.state === "up", [all, inner] = columnsLeft();
    mark(more.firstElementChild, "colspan", all);
    mark(down, "colspan", inner);
    latest = gpu;
    mark(element, "data-severity", severity);
    mark(fold, "aria-expanded", String(isOpen));
    row.update(gpu, gpu, severity);
    row.all.slice(1).forEach((td) => { td.hidden = !up; });
    down.hidden = up;
    if (!up)
      say(down, isNarrow() ? shortDownText(gpu) : downText(gpu));
    if (!(Math.abs(seen.tick - line.drawn) < SPARK_TICKS)) {
      line.update(gpu);
      line.drawn = seen.tick;
    }
    more.hidden = !isOpen;
    if (isOpen && !inside) {
      inside = detail(first, share.alone);
      fill(more.firstElementChild, inside.element);
    }
    if (isOpen)
      inside.update(gpu);
    const instances = isOpen || share.instances <= INSTANCES_MAX ? gpu.instances ?? [] : [];
    const old = element.querySelectorAll("tr.instance");
    if (old.length || instances.length)
      each(element, [{ is: head }, { is: more }, ...instances], (one) => (one.is ? (one.is === head ? "head" : "more") : keyOf(one)), (one) => one.is ?? instanceRow(gpu, one), (tr, one) => tr.update?.(one, gpu));
  }
  element.update = update;
  return element;
}

/* --- all of them --- */

function heatCell(first) {
  const level = h("i", { "aria-hidden": "true" }), icon = h("b", { "aria-hidden": "true" }), value = h("span");
  const element = h("a", { class: "heat-cell", href: gpuLink(first) }, level, h("span", { class: "heat-name" }, icon, String(first.index ?? "?")), value);
  element.update = (gpu) => {
    const severity = severityOf(gpu), activity = activityOf(gpu), sm = smOf(gpu) ?? utilOf(gpu), up = gpu.state === "up" && sm !== null;
    mark(element, "data-work", activity.word);
    mark(element, "data-severity", severity);
    level.style.height = `${up ? Math.min(100, sm * 100) : 0}%`;
    say(icon, severity || activity.word !== "working" ? ICONS[severity ?? activity.word] : "");
    say(value, up ? percent(sm) : "–");
    mark(element, "aria-label", `${gpuName(gpu)}, ${activityText(activity)}${up ? `, SM activity ${percent(sm)}` : ""}${severity ? `, ${severity}` : ""}`);
    mark(element, "title", whoText(gpu));
  };
  return element;
}

const isPoor = (gpu) => severityOf(gpu) !== null || !["working", "free"].includes(activityOf(gpu).word);

/* {element, update()}; `only(gpu)` chooses; `unfold`: all are open at first. */
export function gpuRows(only = () => true, unfold = false) {
  const heat = h("div", { class: "heat", role: "group", "aria-label": "All GPUs: the filled part is SM activity" }), head = h("thead", {}, h("tr", {}, HEADS.map(([text, name, title]) => h("th", { scope: "col", class: name, title }, text))));
  const open = new Set(unfold ? seen.gpus.filter(only).map(keyOf) : []), share = { instances: 0, alone: unfold };
  const folded = h("button", { type: "button", hidden: true, onclick: () => { unfolded = !unfolded; update(); } });
  const table = h("table", { class: "rows" }, h("caption", { class: "spoken" }, "GPUs"), head), element = h("div", {}, heat, table, folded);
  let unfolded = false;
  function update() {
    const gpus = seen.gpus.filter(only), crowd = gpus.length > CROWD, rank = (gpu) => SEVERITIES.indexOf(severityOf(gpu));
    const poor = gpus.filter(isPoor).sort((a, b) => rank(b) - rank(a)), isList = !crowd && isNarrow(), fold = isList && poor.length < gpus.length && gpus.length > 1;
    share.instances = gpus.reduce((n, gpu) => n + (gpu.instances?.length ?? 0), 0);
    heat.hidden = !crowd;
    each(heat, crowd ? gpus : [], keyOf, heatCell, (cell, gpu) => cell.update(gpu));
    const lines = crowd ? poor.slice(0, CROWD) : isList ? [...poor, ...(unfolded || !fold ? gpus.filter((gpu) => !isPoor(gpu)) : [])] : gpus;
    each(table, [{ is: table.caption }, { is: head }, ...lines], (one) => (one.is ? one.is.tagName : `${keyOf(one)} ${gpuName(one)}`), (one) => one.is ?? gpuRow(one, open, share), (body, gpu) => body.update?.(gpu));
    table.hidden = !lines.length;
    folded.hidden = !fold;
    say(folded, unfolded ? "Hide the healthy GPUs" : `Show ${gpus.length - poor.length} healthy GPU${gpus.length - poor.length === 1 ? "" : "s"}`);
  }
  return { element, update };
}
