// SPDX-License-Identifier: Apache-2.0
// One incident with its evidence: what was seen, when, by whom; what to do; the curves of its GPU around it.
import { seen } from "./agent.js";
import { chartGroup, fleetCharts, keyHelp } from "./oncall.js";
import { toolbar } from "./charts.js";
import { absent, fill, h, table } from "./element.js";
import { findGpu } from "./gpu.js";
import { gpuLink, gpuName, incidentItem, runbookOf, tellAge } from "./parts.js";
import { timeline } from "./timeline.js";
import { END_MEANS, short, stamp, whole } from "./words.js";

export function incidentView({ speak, id }) {
  const known = () => [...seen.incidents, ...seen.past].find((i) => i.id === id) ?? fetched;
  const body = h("div", {}, h("section", {}, h("p", { class: "quiet" }, "Looking for it …"))), charts = fleetCharts(), tools = toolbar({ tenths: false }), strip = timeline((i) => i.id === id, () => false);
  const element = h("div", {}, h("nav", { class: "crumbs", "aria-label": "Where this is" }, h("a", { href: "#/" }, "Node"), h("span", {}, `Incident ${id}`)), body,
    h("section", { "aria-labelledby": "around-h" }, h("h2", { id: "around-h" }, "The GPUs around it"), tools.element, chartGroup(charts, speak, [strip.element]), keyHelp()));
  let fetched = null, asked = false, last = "", shown = null;

  function show(incident) {
    const gpu = incident.device?.kind !== "node" && incident.device?.index !== null && incident.device?.index !== undefined ? findGpu(String(incident.device.index)) : null;
    const card = incidentItem(incident), device = incident.device ?? {}, process = incident.process;
    shown = card;
    card.querySelector("details")?.setAttribute("open", "");
    const facts = [["State", incident.state === "open" ? "open" : `over: ${END_MEANS[incident.ended_by] ?? incident.ended_by ?? ""}`], ["On", gpu ? h("a", { href: gpuLink(gpu) }, gpuName(gpu)) : device.kind === "node" ? "the node" : device.key],
      ["Class", h("a", { href: runbookOf(incident) }, incident.class)], ["Rule", incident.rule], ["Codes", (incident.codes ?? []).join(", ")], ["Cause", incident.cause], ["First evidence", stamp(incident.first)], ["Opened", stamp(incident.opened)],
      ["Over", stamp(incident.cleared)], ["Evidence", `${whole(incident.count ?? 0)} of its own, ${whole(incident.echo_count ?? 0)} consequences`], ["Came back", incident.reopened ? `${incident.reopened} times` : ""],
      ["Process", process && (process.pid ? h("a", { href: `#/process/${process.pid}` }, `${process.name ?? "pid"} ${process.pid}`) : process.name)], ["Affected", incident.affected], ["Serial", device.serial], ["PCI address", device.pci], ["Maintenance", incident.maintenance],
      ["Black box", h("code", {}, `stoker incidents show ${incident.id} --bundle box.json.gz`)], ["As JSON", h("a", { href: `api/v1/incidents/${encodeURIComponent(incident.id)}` }, `api/v1/incidents/${incident.id}`)]];
    fill(body, h("section", { "aria-labelledby": "incident-h" }, h("h2", { id: "incident-h" }, "Incident"), h("ol", { class: "incidents" }, card), h("dl", { class: "facts wide" }, facts.filter(([, v]) => v !== null && v !== undefined && v !== "")
      .map(([name, value]) => h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, value))))),
    h("section", { "aria-labelledby": "evidence-h" }, h("h2", { id: "evidence-h" }, "Evidence"),
      table("Evidence", ["Time, UTC", "Seen by", { text: "Code", number: true }, "What was said"], (incident.evidence ?? []).map((one) => [stamp(one.at).replace(" UTC", ""), one.origin, one.code === null ? "–" : String(one.code), `${one.text ?? ""}${one.echo ? " (a consequence)" : ""}`]), "no evidence was kept"),
      incident.counters?.length > 0 && table("Counters before and after", ["Counter", { text: "Before", number: true }, { text: "After", number: true }], incident.counters.map((c) => [c.name, c.before === null ? absent("not known") : short(c.before, 2), c.after === null ? absent("not known") : short(c.after, 2)]))));
  }

  async function ask() {
    asked = true;
    try {
      const answer = await fetch(`api/v1/incidents/${encodeURIComponent(id)}`);
      fetched = answer.ok ? await answer.json() : null;
    } catch {
      fetched = null;
    }
    if (!known())
      fill(body, h("section", {}, h("h2", {}, "Not here"), h("p", {}, "The agent no longer holds this incident. Its journal may: ", h("code", {}, `stoker incidents show ${id}`))));
    update();
  }

  function update(what) {
    const incident = known();
    tools.update();
    if (what !== "tick")
      strip.update();
    if (!incident && !asked && seen.status !== null)
      ask();
    if (!incident)
      return;
    const text = `${incident.revision} ${incident.state}`;
    if (text !== last)
      show(incident);
    last = text;
    tellAge(shown, incident);
  }
  return { title: `Incident ${id}`, element, update, end() {
    strip.end();
    charts.forEach((chart) => chart.end());
  } };
}
