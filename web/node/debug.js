// SPDX-License-Identifier: Apache-2.0
// For who has to find out: everything by failure mode. Rows are GPUs, columns are readings; a reading that is not there
// says why. Values out of range are marked.
import { linkState, number, seen, unitOf } from "./agent.js";
import { chartGroup, toolbar } from "./charts.js";
import { absent, fill, h, put, say, table } from "./element.js";
import { fleetCharts, gpuLegend } from "./fleet.js";
import { eventList, keepScroll, trafficText } from "./parts.js";
import { activityOf, busOf, gpuLink, gpuName, isHot, linksOf, reasonsOf, sinceOf, sureText } from "./state.js";
import { timeline } from "./timeline.js";
import { M, RECOVERY, grouped, lasting, megahertz, percent, rate, reading, short, whyAbsent } from "./words.js";

const bad = (content, isBad) => (isBad ? h("span", { class: "bad" }, content) : content);
/* A reading's cell; wrong(value): it is out of order. */
const cell = (name, wrong) => (gpu) => {
  const metric = gpu.metrics?.[name], value = number(gpu, name);
  return value === null ? absent(whyAbsent(metric)) : bad(reading(value, unitOf(name)), wrong?.(value, gpu));
};
const some = (v) => v > 0;

/* What takes its time, and how sure that is. */
function verdictCell({ verdict }) {
  return verdict ? h("span", {}, verdict.text, h("span", { class: "quiet" }, ` ${sureText(verdict)}`)) : absent("not decided");
}

const MODES = [
  ["health", "Health", [
    ["State", (gpu) => bad(gpu.state, gpu.state !== "up")],
    ["Recovery wanted", (gpu) => { const v = number(gpu, M.recovery); return v === null ? absent(whyAbsent(gpu.metrics?.[M.recovery])) : bad(RECOVERY[v] ?? String(v), v > 0); }],
    ["ECC uncorrected", cell(M.dbe, some)], ["ECC corrected", cell(M.sbe)],
    ["Rows remapped, uncorrectable", cell(M.remapBad)], ["Rows remapped, correctable", cell(M.remapGood)], ["Remap pending", cell(M.remapPending, some)], ["Remap failed", cell(M.remapFailed, some)],
    ["PCIe replays", cell(M.replays)], ["PCIe link", (gpu) => { const bus = busOf(gpu); return bus.text === null ? absent(bus.why) : bad(bus.text, bus.bad); }],
    ["NVLinks", (gpu) => { const links = linksOf(gpu); return links ? bad(links.text, links.bad) : absent("not reported"); }],
    ["Temperature", cell(M.temp, (v, gpu) => isHot(gpu))], ["Memory temp.", cell(M.memTemp)], ["Slows down at", cell(M.slowdown)], ["Last XID", (gpu) => (gpu.metrics?.[M.xid]?.absent === "no_data" ? h("span", { class: "quiet" }, "none") : cell(M.xid)(gpu))],
  ]],
  ["throughput", "Throughput now", [
    ["SM activity", cell(M.sm)],
    ["Utilisation", cell(M.util)], ["Occupancy", cell(M.occupancy)], ["Tensor", cell(M.tensor)], ["DRAM", cell(M.dram)], ["Mem. util.", cell(M.memUtil)],
    ["Memory used", cell(M.used)], ["Power", cell(M.power)], ["PCIe", (gpu) => trafficText(gpu, M.pcieTx, M.pcieRx)], ["NVLink", (gpu) => trafficText(gpu, M.nvTx, M.nvRx)],
  ]],
  ["limits", "Bottlenecks", [
    ["Activity", (gpu) => `${activityOf(gpu).word}: ${activityOf(gpu).text ?? ""}`], ["What takes its time", verdictCell],
    ["Held down by", (gpu) => { const r = reasonsOf(gpu); return r === null ? absent(whyAbsent(gpu.metrics?.[M.reasons])) : bad(r.map((x) => x.text).join(", ") || "nothing", r.some((x) => x.trouble)); }],
    ["SM clock", cell(M.clock)], ["of at most", cell(M.maxClock)], ["Memory clock", cell(M.memClock)], ["Power limit", cell(M.limit)],
  ]],
];

/* A row per GPU, whose cells are written only where they are another: who reads or copies it keeps it. */
function matrix(title, columns) {
  const body = h("div", { class: "matrix" }), note = h("p", { class: "quiet" });
  let of = null, cells = [], heads = [];
  function update() {
    const gpus = seen.gpus.map((gpu) => gpuLink(gpu)).join();
    if (of !== gpus) {
      of = gpus;
      fill(body, table(title, ["GPU", ...columns.map(([head]) => head)], seen.gpus.map((gpu) => [h("a", { href: gpuLink(gpu) }, gpuName(gpu)), ...columns.map(() => "")]), "no GPU"));
      cells = seen.gpus.length ? [...body.querySelectorAll("tbody tr")].map((row) => [...row.children].slice(1)) : [];
      heads = [...body.querySelectorAll("thead th")].slice(1);
    }
    cells.forEach((row, i) => row.forEach((td, k) => put(td, columns[k][1](seen.gpus[i]))));
    say(note, leaveOut());
  }
  /* A column that no GPU has a value for, for one and the same reason, is that reason in a line. */
  function leaveOut() {
    const reasons = columns.map((_, k) => {
      const first = cells[0]?.[k];
      return first?.firstElementChild?.classList.contains("absent") && cells.every((row) => row[k].textContent === first.textContent) ? first.textContent.replace(/^– /, "") : null;
    });
    reasons.forEach((why, k) => [heads[k], ...cells.map((row) => row[k])].forEach((cell_) => { cell_ && (cell_.hidden = why !== null); }));
    return grouped("Of no GPU here", columns.map(([head], k) => [head, reasons[k]]).filter(([, why]) => why));
  }
  return { element: h("div", {}, body, note), update };
}

function monitoring() {
  const link = linkState(), samplers = seen.samplers.filter((s) => s.state !== "free");
  return [
    h("dl", { class: "facts wide" }, [["Page", link.fresh ? `live, last second ${short(link.ageMs / 1000)} s ago` : "no contact"], ["Driver", seen.node.driver_version ?? seen.node.driver_why ?? "not reported"],
      ["GPUs", `${seen.node.gpus_found ?? "?"} found, ${seen.node.gpus_expected ?? "?"} expected, ${seen.node.gpus_on_bus ?? "?"} on the bus`],
      seen.node.released_for_seconds && ["Released", `for ${lasting(seen.node.released_for_seconds)} more`], ["Causes", seen.causes.length ? seen.causes.map((c) => c.text).join("; ") : "none"]].filter(Boolean)
      .map(([name, value]) => h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, value)))),
    table("Samplers", ["Process", "State", { text: "GPUs", number: true }, { text: "Memory", number: true }, "Since", "Stuck in"],
      samplers.map((s) => [String(s.pid), s.state, String(s.gpus), s.rss_bytes ? reading(s.rss_bytes, "bytes") : "–", sinceOf(s.since), [s.stuck_gpu, s.stuck_function, s.wchan].filter(Boolean).join(", ") || "–"]), "no sampler"),
  ];
}

/* To a heading, with the eyes and with the focus. */
function goTo(id) {
  const heading = document.getElementById(id);
  heading.tabIndex = -1;
  heading.focus({ preventScroll: true });
  heading.scrollIntoView({ block: "start" });
}

export function debug({ speak }) {
  const bodies = MODES.map(([id, title, columns]) => ({ id, title, body: matrix(title, columns) })), rest = h("div"), tools = toolbar({ tenths: false }), strip = timeline(), events = eventList(undefined, undefined, 40), legend = gpuLegend();
  const charts = fleetCharts(["sm", "util", "tensor", ["DRAM", M.dram, percent, { max: 1 }], "memory", "power", "temp", ["SM clock", M.clock, megahertz, {}], ["PCIe received", M.pcieRx, rate, {}], ["NVLink sent", M.nvTx, rate, {}]]);
  tools.element.append(legend.element);
  const parts = [...MODES.map(([id, title]) => [id, title]), ["curves", "Over time"], ["monitor", "The monitoring itself"], ["noticed", "Recent events"]];
  const element = h("div", {}, h("nav", { class: "parts", "aria-label": "Parts of this view" }, parts.map(([id, title]) => h("button", { type: "button", onclick: () => goTo(`${id}-h`) }, title))),
    bodies.map(({ id, title, body }) => h("section", { "aria-labelledby": `${id}-h` }, h("h2", { id: `${id}-h` }, title), body.element)),
    h("section", { "aria-labelledby": "curves-h" }, h("h2", { id: "curves-h" }, "Over time"), tools.element, chartGroup(charts, speak, [strip.element])),
    h("section", { "aria-labelledby": "monitor-h" }, h("h2", { id: "monitor-h" }, "The monitoring itself"), rest),
    h("section", { "aria-labelledby": "noticed-h" }, h("h2", { id: "noticed-h" }, "Recent events"), events.element));
  function update(what) {
    tools.update();
    if (what === "tick" && seen.tick % 2)
      return;
    bodies.forEach(({ body }) => body.update());
    const busy = element.contains(document.activeElement) && document.activeElement.closest("table");
    if (!busy && !document.getSelection()?.toString()) // who reads or copies a table keeps it
      keepScroll(rest, () => fill(rest, ...monitoring()));
    strip.update();
    events.update();
  }
  return { title: "Debug", element, update, end() {
    strip.end();
    legend.end();
    charts.forEach((chart) => chart.end());
  } };
}
