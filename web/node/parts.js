// SPDX-License-Identifier: Apache-2.0
// Pieces that several views are made of: states, bars, incidents, verdicts, tables that keep their place, events.
import { number, seen, when } from "./agent.js";
import { absent, each, fill, h, mark, say } from "./element.js";
import { ICONS, activityOf, activityText, gpuLink, gpuName, hitText, isIdle, noticeOf, runbookOf, sinceOf, sureText, titleOf } from "./state.js";
import { rate, rates, splitVerdict, whole, whyAbsent } from "./words.js";

/* A state: its shape and its word. */
export function stateMark(word, text = word) {
  return h("span", { class: "state", "data-work": word }, h("i", { "aria-hidden": "true" }, ICONS[word]), text);
}

export const severityMark = (severity, text = severity) => h("span", { class: "state", "data-severity": severity }, h("i", { "aria-hidden": "true" }, ICONS[severity]), text);

/* The state of a device, kept up to date. */
export function stateCell() {
  const icon = h("i", { "aria-hidden": "true" }), text = h("span"), element = h("span", { class: "state" }, icon, text);
  return { element, update(device, severity) {
    const activity = activityOf(device);
    mark(element, "data-work", activity.word);
    mark(element, "data-severity", severity);
    say(icon, ICONS[severity ?? activity.word]);
    say(text, activityText(activity));
    mark(element, "title", activity.text || null);
  } };
}

/* A bar of a share, with a tick for a second one, and a text: {element, update(share, text, tick)}. */
export function bar(kind) {
  const piece = h("i"), tick = h("b"), text = h("span", { class: "bar-value" });
  const element = h("span", { class: "bar-cell", "data-kind": kind }, h("span", { class: "bar-track", "aria-hidden": "true" }, piece, tick), text);
  return { element, text, update(share, content, second) {
    piece.style.width = `${Math.min(100, (share ?? 0) * 100)}%`;
    tick.hidden = second === null || second === undefined;
    tick.style.left = `${Math.min(100, (second ?? 0) * 100)}%`;
    if (typeof content === "string")
      say(text, content);
    else if (text.textContent !== content.textContent)
      fill(text, content);
  } };
}

/* A text of a device's reading, or why there is none. */
export function shown(device, name, format) {
  const value = number(device, name);
  return value === null ? absent(whyAbsent(device?.metrics?.[name])) : format(value);
}

export function trafficText(device, tx, rx) {
  const out = device.rates?.[tx], in_ = device.rates?.[rx];
  if (out === null || out === undefined)
    return device.metrics?.[tx]?.value === null || !device.metrics?.[tx] ? absent(whyAbsent(device.metrics?.[tx])) : "…";
  return in_ === null || in_ === undefined ? `↑ ${rate(out)}, ↓ ${whyAbsent(device.metrics?.[rx])}` : rates(out, in_);
}

/* Names and values; those without a value are left out. */
export const facts = (list, kind = "") => h("dl", { class: `facts ${kind}`.trim() }, list.filter(([, v]) => v !== null && v !== undefined && v !== "" && v !== false)
  .map(([name, value, bad]) => h("div", { class: "fact" }, h("dt", {}, name), h("dd", { "data-tone": bad && "bad" }, value))));

export const crumbs = (...way) => h("nav", { class: "crumbs", "aria-label": "Where this is" }, h("a", { href: "#/" }, "Node"), way);
export const gpuChip = (gpu) => h("a", { class: "tag", href: gpuLink(gpu) }, gpuName(gpu));

export function notThere(text) {
  const element = h("section", { "aria-labelledby": "none-h" }, h("h2", { id: "none-h" }, "Not here"), h("p", {}, text), h("p", {}, h("a", { href: "#/" }, "To the node")));
  return { title: "Not here", element, update() {}, end() {} };
}

/* What is inside is made anew; where its reader had moved it, it stays, and so does the focus of the keyboard. */
export function keepScroll(holder, make) {
  const reached = () => [...holder.querySelectorAll(".scroll, a[href], button, summary")], focused = reached().indexOf(document.activeElement);
  const before = [...holder.querySelectorAll(".scroll")].map((s) => s.scrollLeft);
  make();
  if (focused >= 0)
    reached()[focused]?.focus({ preventScroll: true });
  [...holder.querySelectorAll(".scroll")].forEach((s, i) => { s.scrollLeft = before[i] ?? 0; });
}

/* --- incidents --- */

/* One line of a list of incidents: what, whom it hits, since when, what to do. */
export function incidentItem(incident) {
  const age = h("span", { class: "quiet" }), hit = hitText(incident), more = [splitVerdict(incident).advice, hit && `Hits ${hit}.`, incident.maintenance && `In maintenance window ${incident.maintenance}.`];
  const li = h("li", { class: "incident", "data-id": incident.id, "data-severity": incident.severity },
    h("p", { class: "incident-head" }, severityMark(incident.severity), h("a", { class: "incident-title", href: `#/incident/${incident.id}` }, titleOf(incident)), age),
    h("p", {}, h("strong", {}, incident.action_text), " ", h("span", { class: "quiet" }, more.filter(Boolean).join(" ")), " ", h("a", { href: runbookOf(incident) }, "Runbook")));
  li.age = age;
  return li;
}

/* A list of incidents, told again only where one of them changed. */
export function incidentList(element, list) {
  each(element, list, (i) => `${i.id}/${i.revision}/${i.state}/${i.maintenance}`, incidentItem, (item, i) => say(item.age, i.state === "open" ? `for ${sinceOf(i.opened)}` : `over for ${sinceOf(i.cleared)}`));
}

/* What takes the time of a device that somebody has: {element, update(device)}. */
export function verdictBlock() {
  const text = h("p"), advice = h("p"), sure = h("p", { class: "quiet" }), roof = h("p", { class: "quiet" }), also = h("p");
  const element = h("div", { class: "verdict" }, text, advice, sure, roof, also);
  return { element, update(device) {
    const { verdict } = device, isShown = verdict && (isIdle(device) || activityOf(device).word === "working");
    element.hidden = !isShown;
    if (!isShown)
      return;
    const notice = noticeOf(device), beside = notice && notice !== verdict ? notice : null;
    say(text, verdict.text);
    advice.hidden = !verdict.advice;
    say(advice, verdict.advice ? `Do: ${verdict.advice}` : "");
    say(sure, [sureText(verdict), verdict.next && `next: ${verdict.next}`].filter(Boolean).join("; "));
    roof.hidden = !verdict.roof;
    say(roof, verdict.roof ? `Roof (estimate): ${verdict.roof.text}` : "");
    also.hidden = !beside;
    say(also, beside ? `Also: ${beside.text} (${sureText({ ...beside, window_s: verdict.window_s })}). ${beside.advice ? `Do: ${beside.advice}` : ""}` : "");
  } };
}

/* --- events --- */

const EVENT_APART_MS = 2000;
/* One thing that two sources tell of within two seconds. */
const isSame = (a, b) => a.kind === b.kind && a.code === b.code && a.gpu === b.gpu && a.origin !== b.origin && a.code !== null && Math.abs(Date.parse(a.time) - Date.parse(b.time)) < EVENT_APART_MS;

/* Events, and where incidents began and ended, the newest first; what two sources tell is told once. */
export function pastEvents(only = () => true, onlyIncident = () => true) {
  const told = [];
  for (const event of seen.events.filter(only)) {
    const same = told.slice(-8).find((one) => isSame(one, event));
    if (same)
      same.origins.add(event.origin);
    else
      told.push({ ...event, origins: new Set([event.origin]), key: event.n });
  }
  for (const i of [...seen.incidents, ...seen.past].filter(onlyIncident))
    for (const [time, word] of [[i.opened, "opened"], [i.cleared, "resolved"]])
      if (time && i.state !== "pending")
        told.push({ key: `${i.id}${word}`, kind: word, time, gpu: i.device?.index, text: titleOf(i), incident: i.id, origins: new Set(), severity: word === "opened" ? i.severity : "ok" });
  return told.sort((a, b) => (a.time < b.time ? 1 : a.time > b.time ? -1 : 0));
}

function eventItem(event) {
  const what = [event.kind, event.code, event.word].filter((x) => x !== "" && x !== null && x !== undefined).join(" ");
  const where = event.gpu === null || event.gpu === undefined ? event.pci ?? "" : `GPU ${event.gpu}`;
  return h("li", {}, h("time", { datetime: event.time }, event.time ? when(Date.parse(event.time)) : ""), event.severity ? severityMark(event.severity, what) : h("b", {}, what), h("span", {}, where),
    event.incident ? h("a", { class: "event-text", href: `#/incident/${event.incident}` }, event.text ?? "incident") : h("span", { class: "event-text" }, event.text ?? ""), h("span", { class: "quiet" }, [...event.origins].join(", ")));
}

/* The newest of them; `more` shows up to all that are kept. */
export function eventList(only, onlyIncident, few = 12) {
  const list = h("ol", { class: "events" }), none = h("p", { class: "quiet" }, "No event since the agent started.");
  const more = h("button", { type: "button", onclick: () => { all = !all; update(); } });
  let all = false;
  function update() {
    const chosen = pastEvents(only, onlyIncident);
    each(list, chosen.slice(0, all ? 200 : few), (event) => `${event.key} ${event.origins.size}`, eventItem);
    none.hidden = chosen.length > 0;
    more.hidden = chosen.length <= few;
    say(more, all ? "Fewer" : `Show ${Math.min(200, chosen.length)} of ${whole(chosen.length)}`);
  }
  return { element: h("div", {}, list, none, more), update };
}
