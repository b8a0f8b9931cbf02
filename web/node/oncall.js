// SPDX-License-Identifier: Apache-2.0
// On call: what is wrong now and what to do about it, then every GPU, then what led there.
import { keyOf, seen } from "./agent.js";
import { Chart, keys, toolbar } from "./charts.js";
import { each, h, say } from "./element.js";
import { ever, values } from "./history.js";
import { cardGrid, eventList, gpuName, idleGroups, idleItem, incidentList, openIncidents, severityOf } from "./parts.js";
import { marks, timeline } from "./timeline.js";
import { M, celsius, clock, percent, watts, whyAbsent } from "./words.js";

const SHOWN = 12, LINES_MAX = 8;

/* Of very many GPUs the lowest, the middle and the highest at each time; made anew for each drawing. */
function crowdLines(gpus, name, scale) {
  const all = gpus.map((gpu) => keyOf(gpu)), row = new Float64Array(all.length), made = new Map();
  return (span) => {
    const at = all.map((key) => values(key, name, span));
    const three = (i) => {
      if (made.has(i))
        return made.get(i);
      let n = 0, told = false;
      for (const of of at) {
        const value = of(i);
        told ||= value === null;
        if (typeof value === "number")
          row[n++] = value;
      }
      const sorted = row.subarray(0, n).sort(), found = n ? [sorted[n - 1], sorted[0], sorted[n >> 1]] : told ? null : undefined;
      made.set(i, found);
      return found;
    };
    return ["lowest to highest", "", "middle"].map((label, k) => ({ label, scale, colour: k === 2 ? "--c1" : "--line-quiet", width: k === 2 ? 1.8 : 1, band: k === 0, at: (i) => (three(i) ? three(i)[k] : three(i)) }));
  };
}

/* One line per GPU: those with a fault of their own in its colour, the others quiet; or of a crowd only those. */
export function everyGpu(name, scale) {
  return (span) => {
    const gpus = seen.gpus.filter((gpu) => ever(keyOf(gpu), name)).map((gpu) => ({ gpu, severity: severityOf(gpu) })).sort((a, b) => (a.severity ? 1 : 0) - (b.severity ? 1 : 0));
    const one = ({ gpu, severity }) => ({ label: gpuName(gpu), device: keyOf(gpu), name, scale, colour: severity ? `--${severity}` : "--line-quiet", width: severity ? 2.2 : 1.1 });
    return seen.gpus.length > LINES_MAX && gpus.length ? [...crowdLines(gpus.map(({ gpu }) => gpu), name, scale)(span), ...gpus.filter(({ severity }) => severity).slice(0, SHOWN).map(one)] : gpus.map(one);
  };
}

/* Why no GPU has a line. */
export const noLine = (name) => () => (seen.gpus.length ? `Not shown: ${whyAbsent(seen.gpus[0].metrics?.[name])}.` : "There is no GPU.");
export const wantsAll = (names) => () => seen.gpus.map((gpu) => [gpu, names]);
export const fleetNames = [M.sm, M.util, M.power, M.temp];

export function fleetCharts() {
  const make = (title, note, name, format, more) => new Chart({ title, note, format, fleet: true, lines: everyGpu(name, more.scale), why: noLine(name), wants: wantsAll(fleetNames), marks: () => marks(), ...more });
  return [
    make("SM active", null, M.sm, percent, { max: 1 }),
    make("Utilisation", null, M.util, percent, { max: 1, scale: 0.01 }),
    make("Power", null, M.power, watts, {}),
    make("Temperature", null, M.temp, celsius, { loose: true }),
  ];
}

export function chartGroup(charts, speak, more = []) {
  const group = h("div", { class: "charts", role: "group", tabindex: "0", "aria-label": "Charts", "aria-describedby": "chart-keys" }, more, h("div", { class: "chart-grid" }, charts.map((chart) => chart.element)));
  group.addEventListener("keydown", (event) => {
    const said = event.target === group ? keys(event, group) : null;
    if (said)
      speak(said);
  });
  return group;
}

export const keyHelp = () => h("p", { class: "quiet", id: "chart-keys" }, "Keys, when the charts have the focus: ", h("kbd", {}, "←"), " ", h("kbd", {}, "→"), " cursor, ", h("kbd", {}, "+"), " ", h("kbd", {}, "-"),
  " zoom, ", h("kbd", {}, "0"), " whole span, ", h("kbd", {}, "p"), " pause.");

/* Those that a maintenance window covers; by UUID where their numbers are not told. */
function ofWindow({ gpus, uuids }) {
  return gpus === "all" ? "the node" : gpus.length ? `GPU ${gpus.join(", ")}` : seen.gpus.filter((gpu) => uuids?.includes(gpu.uuid)).map(gpuName).join(", ") || (uuids ?? []).join(", ");
}

export function oncall({ speak }) {
  const incidents = h("ol", { class: "incidents" }), fine = h("p", { class: "fine" });
  const windows = h("ul", { class: "windows" }), more = h("p", { class: "quiet" }), grid = cardGrid(), charts = fleetCharts(), bar = toolbar({ tenths: false });
  const strip = timeline(), events = eventList(), idle = h("ol", { class: "incidents" }), idlers = h("section", { "aria-labelledby": "idle-h", id: "idle", hidden: true }, h("h2", { id: "idle-h" }, "In use and not working well"), idle);
  const element = h("div", {},
    h("section", { "aria-labelledby": "wrong-h", id: "wrong" }, h("h2", { id: "wrong-h" }, "Problems"), windows, incidents, more, fine),
    idlers,
    h("section", { "aria-labelledby": "gpus-h", class: "bare" }, h("h2", { id: "gpus-h" }, "GPUs"), grid.element),
    h("section", { "aria-labelledby": "time-h" }, h("h2", { id: "time-h" }, "Timeline"), bar.element, chartGroup(charts, speak, [strip.element]), keyHelp()),
    h("section", { "aria-labelledby": "events-h" }, h("h2", { id: "events-h" }, "Recent events"), events.element));

  function update(what) {
    const open = openIncidents();
    incidentList(incidents, open.slice(0, SHOWN));
    more.hidden = open.length <= SHOWN;
    say(more, `and ${open.length - SHOWN} more: stoker incidents lists all of them`);
    fine.hidden = open.length > 0 || seen.status === null;
    say(fine, seen.status === "unknown" ? "Nothing has been sampled yet." : "All healthy: no open incident.");
    each(windows, seen.maintenance.filter((w) => w.active), (w) => w.id, (w) => h("li", {}, h("b", {}, "Maintenance"), ` of ${ofWindow(w)} until ${clock(Date.parse(w.until))} UTC: ${w.reason} (${w.who})`));
    const groups = idleGroups();
    idlers.hidden = !groups.length;
    each(idle, groups, (group) => group.key, idleItem, (item, group) => item.update(group));
    grid.update();
    bar.update();
    if (what !== "tick")
      strip.update();
    events.update();
  }
  return { title: "On call", element, update, end() {
    grid.end();
    strip.end();
    charts.forEach((chart) => chart.end());
  } };
}
