// SPDX-License-Identifier: Apache-2.0
// On call: below the verdict every GPU, what they did, the other incidents, and what led there.
import { seen } from "./agent.js";
import { chartGroup, toolbar } from "./charts.js";
import { each, h, say } from "./element.js";
import { fleetCharts, gpuLegend } from "./fleet.js";
import { mainIncident } from "./hero.js";
import { eventList, incidentList } from "./parts.js";
import { gpuRows } from "./rows.js";
import { gpuName, openIncidents, rangesOf } from "./state.js";
import { clock, zoneName } from "./time.js";
import { timeline } from "./timeline.js";

const SHOWN = 12;

/* Those that a maintenance window covers; by UUID where their numbers are not told. */
function ofWindow({ gpus, uuids }) {
  return gpus === "all" ? "the node" : gpus.length ? `GPU ${rangesOf(gpus)}` : seen.gpus.filter((gpu) => uuids?.includes(gpu.uuid)).map(gpuName).join(", ") || (uuids ?? []).join(", ");
}

export function oncall({ speak }) {
  const incidents = h("ol", { class: "incidents" }), windows = h("ul", { class: "windows" }), more = h("p", { class: "quiet" }), rows = gpuRows(), charts = fleetCharts(), tools = toolbar({ tenths: false }), legend = gpuLegend();
  const strip = timeline(), events = eventList(), title = h("h2", { id: "wrong-h" }), problems = h("section", { "aria-labelledby": "wrong-h", id: "wrong" }, title, windows, incidents, more);
  tools.element.append(legend.element);
  const gpus = [h("section", { "aria-labelledby": "gpus-h", class: "tight" }, h("h2", { id: "gpus-h", class: "spoken" }, "GPUs"), rows.element),
    h("section", { "aria-labelledby": "time-h" }, h("h2", { id: "time-h", class: "spoken" }, "Over time"), tools.element, chartGroup(charts, speak, [strip.element]))];
  const element = h("div", {}, problems, gpus,
    h("section", { "aria-labelledby": "events-h" }, h("h2", { id: "events-h" }, "Recent events"), events.element));

  function update(what) {
    const main = mainIncident(), open = openIncidents().filter((i) => i !== main), active = seen.maintenance.filter((w) => w.active); // that one is the verdict above
    problems.hidden = !open.length && !active.length;
    say(title, main ? "Also open" : open.length ? "Worth knowing" : "Maintenance");
    incidentList(incidents, open.slice(0, SHOWN));
    more.hidden = open.length <= SHOWN;
    say(more, `and ${open.length - SHOWN} more: stoker incidents lists all of them`);
    each(windows, active, (w) => w.id, (w) => h("li", {}, h("b", {}, "Maintenance"), ` of ${ofWindow(w)} until ${clock(Date.parse(w.until))} ${zoneName()}: ${w.reason} (${w.who})`));
    gpus.forEach((part) => { part.hidden = !seen.gpus.length; });
    rows.update();
    tools.update();
    if (what !== "tick")
      strip.update();
    events.update();
  }
  return { title: "On call", element, update, end() {
    strip.end();
    legend.end();
    charts.forEach((chart) => chart.end());
  } };
}
