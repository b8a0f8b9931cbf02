// SPDX-License-Identifier: Apache-2.0
// One incident as a story: what is wrong and what to do, whom it hits, the five minutes before and after it, how it came to it, and a
// text of all that for a ticket.
import { keyOf, seen, when } from "./agent.js";
import { chartGroup, toolbar } from "./charts.js";
import { absent, fill, h, mark, say, table } from "./element.js";
import { fleetCharts, gpuLegend } from "./fleet.js";
import { aroundOf } from "./gpu.js";
import { crumbs, facts, gpuChip, keepScroll, severityMark } from "./parts.js";
import { lastText } from "./rows.js";
import { gpuOf, hitText, runbookOf, sinceOf, titleOf } from "./state.js";
import { stamp, zoneName } from "./time.js";
import { timeline } from "./timeline.js";
import { END_MEANS, ROUTE_WANTS, lasting, short, splitVerdict, whole } from "./words.js";

const KEPT_MAX = 12; // the agent keeps the first six and the last six pieces

/* What was seen, each thing once, whatever numbers it had: [{at, last, times, more, origins, text, echo}], by time; `more`: there may have
 * been more than `times`. */
export function storyOf(incident) {
  const by = new Map();
  for (const one of incident.evidence ?? []) {
    const key = `${one.code ?? ""} ${(one.text ?? "").replace(/\d+/g, "0")}`, found = by.get(key);
    if (found)
      Object.assign(found, { times: found.times + 1, last: one.at, origins: found.origins.add(one.origin) });
    else
      by.set(key, { at: one.at, last: one.at, times: 1, origins: new Set([one.origin]), text: one.text ?? `code ${one.code}`, echo: one.echo });
  }
  const list = [...by.values()], most = list.reduce((a, b) => (b.times > (a?.times ?? 1) ? b : a), null);
  if (most && (incident.evidence?.length ?? 0) >= KEPT_MAX) { // what is not kept is of the one that repeats most
    const dropped = incident.count + incident.echo_count - KEPT_MAX; // conditions that hold are not counted each time
    most.times += Math.max(0, dropped);
    most.more = dropped <= 0;
  }
  return list;
}

/* What was done with it, by the agent and by people. */
function doneOf(incident) {
  return [[incident.opened, `Opened as ${incident.severity}: ${ROUTE_WANTS[incident.route] ?? incident.route}.`], [incident.updated, incident.escalations && `Became more severe ${incident.escalations} time${incident.escalations === 1 ? "" : "s"}.`],
    [incident.updated, incident.reopened && `Came back ${incident.reopened} time${incident.reopened === 1 ? "" : "s"} after it was over.`], [incident.opened, incident.maintenance && `Covered by maintenance window ${incident.maintenance}: nobody is notified.`],
    [incident.cleared, incident.cleared && `Resolved: ${END_MEANS[incident.ended_by] ?? incident.ended_by ?? ""}.`]].filter(([, text]) => text);
}

const repeated = (one) => (one.times > 1 ? `repeated ${whole(one.times)} times${one.more ? " or more" : ""}, last ${when(Date.parse(one.last))}` : "");
const identity = ({ device = {} }) => [device.model, device.serial && `serial ${device.serial}`, device.pci && `PCI ${device.pci}`, device.uuid].filter(Boolean).join(", ");

/* The whole of it as plain text. */
function ticketOf(incident, last) {
  const { why, advice } = splitVerdict(incident), hit = hitText(incident, Infinity);
  return [`[${incident.severity}] ${incident.title} on ${seen.node.hostname ?? "node"}`, "", `Do: ${incident.action_text}. ${advice}`, `Device: ${identity(incident) || "the node"}`,
    `Since: ${stamp(incident.opened)}${incident.cleared ? `, resolved ${stamp(incident.cleared)}` : ", still open"}`, hit && `Hits: ${hit}`, last && `GPU ${last}`, incident.driver && `Driver: ${incident.driver}`, "", "Why:", why, "", "Timeline:",
    ...storyOf(incident).map((one) => `  ${stamp(one.at)}  ${one.text}${one.times > 1 ? ` (${repeated(one)})` : ""}`), "", `Incident ${incident.id}, class ${incident.class}, ${new URL(runbookOf(incident), document.baseURI).href}`, location.href]
    .filter((line) => typeof line === "string").join("\n");
}

/* Copies without the clipboard interface, which a page over plain HTTP does not have. */
function copyText(text) {
  const area = h("textarea", { readonly: true, class: "spoken", "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

export function incidentView({ speak, id }) {
  const find = () => [...seen.incidents, ...seen.past].find((i) => i.id === id) ?? fetched;
  const body = h("div", {}, h("section", { "aria-labelledby": "incident-h" }, h("h2", { id: "incident-h" }, "Looking for it …"))), rest = h("div"), charts = fleetCharts(), tools = toolbar({ tenths: false }), legend = gpuLegend(), strip = timeline((i) => i.id === id, () => false);
  tools.element.append(legend.element);
  const curves = h("section", { "aria-labelledby": "around-h" }, h("h2", { id: "around-h" }, "Five minutes before and after"), tools.element, chartGroup(charts, speak, [strip.element]));
  const element = h("div", {}, crumbs(h("span", {}, `Incident ${id}`)), body, curves, rest);
  let fetched = null, asked = false, last = "", told = "", age = h("span"), lastSeen = h("p");

  function show(incident) {
    const gpu = gpuOf(incident), { advice } = splitVerdict(incident), { process } = incident, hit = hitText(incident, Infinity);
    const copy = h("button", { type: "button", onclick: () => { const done = copyText(ticketOf(incident, lastSeen.textContent)); copy.textContent = done ? "Copied" : "Could not copy"; speak(copy.textContent); } }, "Copy as ticket");
    age = h("span", { class: "quiet" });
    lastSeen = h("p", { class: "quiet" });
    fill(body, h("section", { "aria-labelledby": "incident-h", class: "story", "data-severity": incident.severity },
      h("p", { class: "incident-head" }, severityMark(incident.severity), age),
      h("h2", { id: "incident-h" }, titleOf(incident)), h("p", {}, h("strong", {}, incident.action_text), ". ", advice),
      h("p", { class: "links" }, gpu && gpuChip(gpu), h("a", { href: runbookOf(incident) }, "Runbook, step by step"), copy),
      facts([["Hits", hit], ["Process", process && (process.pid ? h("a", { href: `#/process/${process.pid}` }, `${process.name ?? "process"} (${process.pid})`) : process.name)]]), lastSeen));
  }

  /* What comes on with time. */
  function tell(incident) {
    const { why } = splitVerdict(incident), isOpen = rest.querySelector("details")?.open;
    fill(rest, h("section", { "aria-labelledby": "evidence-h" }, h("h2", { id: "evidence-h" }, "What happened"), why && h("p", {}, why),
      table("Evidence", [`Time, ${zoneName()}`, "Seen by", "What", "Again"], storyOf(incident).map((one) => [when(Date.parse(one.at)), [...one.origins].join(", "), `${one.text}${one.echo ? " (a consequence)" : ""}`, repeated(one)]), "No evidence was kept."),
      incident.counters?.length > 0 && table("Counters before and after", ["Counter", { text: "Before", number: true }, { text: "After", number: true }], incident.counters.map((c) => [c.name, ...[c.before, c.after].map((v) => (v === null ? absent("not known") : short(v, 2)))]))),
    h("section", { "aria-labelledby": "done-h" }, h("h2", { id: "done-h" }, "What was done"), h("ol", { class: "events done" }, doneOf(incident).map(([at, text]) => h("li", {}, h("time", {}, stamp(at)), h("span", {}, text)))),
      h("details", { open: isOpen }, h("summary", {}, "For a report of the fault"), facts([["Class", h("a", { href: runbookOf(incident) }, incident.class)], ["Rule", incident.rule], ["Codes", (incident.codes ?? []).join(", ")],
        ["Cause", incident.cause], ["Device", identity(incident)], ["First evidence", stamp(incident.first)],
        ["Evidence", `${whole(incident.count ?? 0)} of its own, ${whole(incident.echo_count ?? 0)} consequence${incident.echo_count === 1 ? "" : "s"}`], ["Driver", incident.driver], ["Black box", h("code", {}, `stoker incidents show ${incident.id} --bundle box.json.gz`)], ["As JSON", h("a", { href: `api/v1/incidents/${encodeURIComponent(incident.id)}` }, incident.id)]], "wide"))));
  }

  async function ask() {
    asked = true;
    try {
      const answer = await fetch(`api/v1/incidents/${encodeURIComponent(id)}`);
      fetched = answer.ok ? await answer.json() : null;
    } catch {
      fetched = null;
    }
    curves.hidden = !find();
    if (!find())
      fill(body, h("section", { "aria-labelledby": "incident-h" }, h("h2", { id: "incident-h" }, "Not here"), h("p", {}, "The agent no longer holds this incident. Its journal may: ", h("code", {}, `stoker incidents show ${id}`))));
    update();
  }

  function update(what) {
    const incident = find();
    tools.update();
    if (what !== "tick")
      strip.update();
    if (!incident && !asked && seen.status !== null)
      ask();
    if (!incident)
      return;
    const text = `${incident.revision} ${incident.state}`, gpu = gpuOf(incident);
    if (text !== last)
      show(incident);
    const evidence = `${text} ${incident.count} ${incident.evidence?.at(-1)?.at}`;
    if (evidence !== told)
      keepScroll(rest, () => tell(incident));
    last = text;
    told = evidence;
    say(age, incident.state === "open" ? `for ${sinceOf(incident.opened)}, since ${stamp(incident.opened)}` : `lasted ${lasting((Date.parse(incident.cleared) - Date.parse(incident.opened)) / 1000)}, over since ${stamp(incident.cleared)}`);
    say(lastSeen, gpu && gpu.state !== "up" ? lastText(gpu, Date.parse(incident.first ?? incident.opened) / 1000) : "");
    mark(lastSeen, "hidden", lastSeen.textContent ? null : "");
  }
  const known = find(), gpu = known && gpuOf(known);
  return { title: known ? titleOf(known) : `Incident ${id}`, element, update, axis: known ? { ...aroundOf(Date.parse(known.first ?? known.opened) / 1000), only: gpu ? keyOf(gpu) : null } : {}, end() {
    strip.end();
    legend.end();
    charts.forEach((chart) => chart.end());
  } };
}
