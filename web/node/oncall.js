// SPDX-License-Identifier: Apache-2.0
// On call: what is wrong now and what to do about it, then every GPU, then what led there.
import { keyOf, seen } from "./agent.js";
import { Chart, keys, toolbar } from "./charts.js";
import { each, h, say } from "./element.js";
import { ever } from "./history.js";
import { cardGrid, eventList, findingList, gpuName, incidentList, openIncidents, severityOf } from "./parts.js";
import { marks, timeline } from "./timeline.js";
import { M, celsius, clock, percent, watts, whyAbsent } from "./words.js";

const SHOWN = 12;

/* One line per GPU: those with a fault of their own in its colour, the others quiet. */
export function everyGpu(name, scale) {
  return () => seen.gpus.filter((gpu) => ever(keyOf(gpu), name)).map((gpu) => ({ gpu, severity: severityOf(gpu) })).sort((a, b) => (a.severity ? 1 : 0) - (b.severity ? 1 : 0))
    .map(({ gpu, severity }) => ({ label: gpuName(gpu), device: keyOf(gpu), name, scale, colour: severity ? `--${severity}` : "--line-quiet", width: severity ? 2.2 : 1.1 }));
}

/* Why no GPU has a line. */
export const noLine = (name) => () => (seen.gpus.length ? `Not shown: ${whyAbsent(seen.gpus[0].metrics?.[name])}.` : "There is no GPU.");
export const wantsAll = (names) => () => seen.gpus.map((gpu) => [gpu, names]);
export const fleetNames = [M.sm, M.util, M.power, M.temp];

export function fleetCharts() {
  const make = (title, note, name, format, more) => new Chart({ title, note, format, fleet: true, lines: everyGpu(name, more.scale), why: noLine(name), wants: wantsAll(fleetNames), marks: () => marks(), ...more });
  return [
    make("SM active", "really busy", M.sm, percent, { max: 1 }),
    make("Utilisation", "busy or only occupied", M.util, percent, { max: 1, scale: 0.01 }),
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

export function oncall({ speak }) {
  const incidents = h("ol", { class: "incidents" }), findings = h("ol", { class: "incidents" }), fine = h("p", { class: "fine" });
  const windows = h("ul", { class: "windows" }), more = h("p", { class: "quiet" }), grid = cardGrid(), charts = fleetCharts(), bar = toolbar({ tenths: false });
  const strip = timeline(), events = eventList();
  const element = h("div", {},
    h("section", { "aria-labelledby": "wrong-h", id: "wrong" }, h("h2", { id: "wrong-h" }, "What is wrong now"), windows, incidents, findings, more, fine),
    h("section", { "aria-labelledby": "gpus-h", class: "bare" }, h("h2", { id: "gpus-h" }, "GPUs"), grid.element),
    h("section", { "aria-labelledby": "time-h" }, h("h2", { id: "time-h" }, "How it came to this"), bar.element, chartGroup(charts, speak, [strip.element]), keyHelp()),
    h("section", { "aria-labelledby": "events-h" }, h("h2", { id: "events-h" }, "What was noticed"), events.element));

  function update(what) {
    const open = openIncidents();
    incidentList(incidents, open.slice(0, SHOWN));
    findingList(findings, seen.findings);
    more.hidden = open.length <= SHOWN;
    say(more, `and ${open.length - SHOWN} more: stoker incidents lists all of them`);
    fine.hidden = open.length + seen.findings.length > 0 || seen.status === null;
    say(fine, seen.status === "unknown" ? "Nothing has been sampled yet." : "No open incident, nothing out of order.");
    each(windows, seen.maintenance.filter((w) => w.active), (w) => w.id, (w) => h("li", {}, h("b", {}, "Maintenance"), ` of ${w.gpus === "all" ? "the node" : `GPU ${w.gpus.join(", ")}`} until ${clock(Date.parse(w.until))} UTC: ${w.reason} (${w.who})`));
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
