// SPDX-License-Identifier: Apache-2.0
// The frame of the page: the answers that stand on top of every view, the way between views (the address' hash), and the
// turn of the loop that draws what has changed.
import { linkState, on, seen, start } from "./agent.js";
import { axis, redraw } from "./charts.js";
import { debug } from "./debug.js";
import { fill, h, mark, say } from "./element.js";
import { executive } from "./executive.js";
import { gpuView, migView } from "./gpu.js";
import { incidentView } from "./incident.js";
import { oncall } from "./oncall.js";
import { ACTIVITIES, activityOf, capacity, countText, gpuLink, gpuName, isIdle, openIncidents } from "./parts.js";
import { processView } from "./process.js";
import { switchTheme } from "./theme.js";
import { SEVERITIES, clock, lasting, percent, splitVerdict, thingOf } from "./words.js";

const $ = (id) => document.getElementById(id);
const ROUTES = [
  [/^\/?$/, oncall, "oncall"], [/^\/executive$/, executive, "executive"], [/^\/debug$/, debug, "debug"],
  [/^\/gpu\/([^/]+)$/, (all) => gpuView(all), "", ["id"]], [/^\/gpu\/([^/]+)\/mig\/([^/]+)$/, (all) => migView(all), "", ["id", "instance"]],
  [/^\/process\/(\d+)$/, (all) => processView(all), "", ["pid"]], [/^\/incident\/([^/]+)$/, (all) => incidentView(all), "", ["id"]],
];
const THINGS = 6;
let view = null, shownRoute = null, shownKnown = false;

/* Said by a screen reader. */
const speak = (text) => say($("spoken"), text);

/* --- the answers --- */

/* What is wrong, by name: as the head of `stoker status` has it. */
function things() {
  const names = [];
  for (const incident of openIncidents())
    if (SEVERITIES.indexOf(incident.severity) > 0) {
      const thing = thingOf(incident);
      names.push(incident.cause === "application" ? (thing === "node" ? "a program" : `a program on ${thing}`) : thing);
    }
  const once = [...new Set(names)];
  return once.slice(0, THINGS).join(", ") + (once.length > THINGS ? ` and ${once.length - THINGS} more` : "");
}

function verdict() {
  if (seen.status === null)
    return { tone: "unknown", text: seen.problem ? "not known" : "looking …", more: seen.problem ? `The agent does not answer (${seen.problem}).` : "" };
  if (seen.status === "ok")
    return { tone: "ok", text: "All healthy", more: `${seen.gpus.length} GPUs, no open problem` };
  if (seen.status === "unknown" && !seen.gpus.length && seen.node.driver_why)
    return { tone: "unknown", text: "No NVIDIA driver here", more: "Install it, or try: stoker sim run default -- stoker agent" };
  if (seen.status === "unknown")
    return { tone: "unknown", text: "Unknown", more: seen.causes[0]?.text ?? "Nothing has been sampled yet." };
  const open = openIncidents(), worst = open[0];
  const severe = open.some((i) => SEVERITIES.indexOf(i.severity) > 1);
  return { tone: severe ? "wrong" : "warning", text: `Problem: ${things()}`, more: worst?.title ?? seen.causes[0]?.text ?? "" };
}

function working() {
  if (!seen.gpus.length)
    return { text: seen.status === null ? "…" : "No GPU", more: "" };
  const sum = capacity(), others = countText(sum, ACTIVITIES.slice(1)), known = seen.gpus.map(activityOf);
  const mean = (name) => { const list = known.map((a) => a[name]).filter((v) => v !== undefined); return list.length ? list.reduce((x, y) => x + y, 0) / list.length : null; };
  const sm = mean("sm_active"), util = mean("utilization"), waits = seen.gpus.find(isIdle);
  const measured = [sm === null ? "SM activity not reported by these GPUs" : `SM active ${percent(sm)}`, util === null ? "" : `utilisation ${percent(util)}`].filter(Boolean).join(" · ");
  return { tone: sum.unusable ? "wrong" : waits ? "warning" : sum.unknown ? "unknown" : "ok", text: `${sum.working} of ${sum.total} working${others ? `, ${others}` : ""}`,
    more: `${measured}${waits ? ` · ${waits.verdict?.text ?? activityOf(waits).text}` : ""}` };
}

function whatToDo() {
  const open = openIncidents().filter((i) => !i.maintenance), first = open.find((i) => SEVERITIES.indexOf(i.severity) > 0 && i.action !== "none");
  const others = open.filter((i) => i !== first && SEVERITIES.indexOf(i.severity) > 0).length;
  if (first)
    return { text: `${thingOf(first)}: ${first.action_text}`, more: splitVerdict(first).advice, href: `#/incident/${first.id}`, others };
  if (seen.status === null || seen.status === "unknown")
    return { text: "…", more: "" };
  return { text: "Nothing to do", more: openIncidents().some((i) => i.maintenance) ? "What is open is in a maintenance window." : "No open incident asks for anything.", others: 0 };
}

function answers() {
  const state = linkState(), known = seen.status !== null, fresh = state.fresh || (!state.ever && seen.link !== "lost");
  const stale = known && !fresh, well = verdict(), works = working();
  const todo = stale && !whatToDo().href ? { text: "Unknown", more: "No contact with the agent." } : whatToDo();
  document.documentElement.dataset.stale = stale ? "yes" : "no";
  mark($("verdict"), "data-tone", stale ? "unknown" : well.tone);
  say($("verdict-text"), stale ? "not known: no contact with the agent" : well.text);
  say($("verdict-more"), stale ? `When last heard of: ${well.text}` : well.more);
  mark($("working"), "data-tone", stale ? "unknown" : works.tone);
  say($("working-text"), works.text);
  say($("working-more"), works.more);
  const link = todo.href ? h("a", { href: todo.href }, todo.text) : h("span", {}, todo.text);
  if ($("todo-text").firstElementChild?.textContent !== todo.text || $("todo-text").firstElementChild?.getAttribute("href") !== (todo.href ?? null))
    fill($("todo-text"), link);
  mark($("todo"), "data-tone", stale ? "unknown" : todo.href ? well.tone : "ok");
  say($("todo-more"), `${todo.more ?? ""}${todo.others > 0 ? ` (and ${todo.others} more below)` : ""}`);
  document.title = `${stale ? "? " : well.tone === "ok" ? "" : well.tone === "unknown" ? "" : "✕ "}${stale ? "no contact" : well.text} · ${seen.node.hostname ?? "node"} · Stoker`;
}

/* Live, or how old what is shown is: by the second, and never quietly. */
function contact() {
  const state = linkState(), pill = $("contact"), bar = $("lost");
  const text = state.fresh ? `live, ${clock(seen.timeMs)} UTC` : state.ever ? `no contact for ${lasting(state.ageMs / 1000)}` : seen.problem ? "no answer" : "connecting …";
  say(pill, text);
  mark(pill, "data-state", state.fresh ? "live" : state.ever || seen.problem ? "lost" : "connecting");
  bar.hidden = state.fresh || (!state.ever && !seen.problem);
  if (!bar.hidden)
    say(bar, state.ever ? `No contact with the agent for ${lasting(state.ageMs / 1000)}. All numbers on this page are from ${clock(seen.timeMs)} UTC and may be wrong by now. Trying again …`
      : `The agent does not answer (${seen.problem}). Trying again …`);
}

function head() {
  say($("host"), seen.node.hostname ?? "…");
  say($("about"), [seen.gpus.length ? `${seen.gpus.length} GPU${seen.gpus.length > 1 ? "s" : ""}` : "", seen.node.driver_version ? `driver ${seen.node.driver_version}` : ""].filter(Boolean).join(" · "));
  const jump = $("jump");
  const wanted = seen.gpus.map((gpu) => gpuLink(gpu)).join();
  if (jump.dataset.of !== wanted) {
    jump.dataset.of = wanted;
    fill(jump, h("option", { value: "" }, "go to …"), seen.gpus.map((gpu) => h("option", { value: gpuLink(gpu) }, gpuName(gpu))));
  }
}

/* --- the way --- */

function route() {
  const path = location.hash.replace(/^#/, "") || "/";
  const skipped = path.startsWith("main"); // the link that skips to the content
  if (skipped)
    return;
  const known = seen.status !== null;
  if (path === shownRoute && known === shownKnown)
    return;
  const moved = shownRoute !== null && path !== shownRoute;
  shownRoute = path;
  shownKnown = known;
  for (const [pattern, make, name, words] of ROUTES) {
    const found = pattern.exec(path);
    if (!found)
      continue;
    if (!known && name === "")
      break; // it cannot be said yet what there is
    view?.end();
    view = null;
    const options = { speak };
    (words ?? []).forEach((word, i) => { options[word] = found[i + 1]; });
    show(make(options), name, moved);
    return;
  }
  if (known)
    location.replace("#/");
}

function show(made, name, moved) {
  view = made;
  axis.zoom = null;
  if (name !== "" && axis.span === "tenth")
    axis.span = "second";
  fill($("view"), view.element);
  for (const link of document.querySelectorAll("nav.tabs a"))
    mark(link, "aria-current", link.dataset.view === name ? "page" : null);
  view.update("route");
  redraw();
  if (moved) {
    scrollTo(0, 0);
    $("main").focus({ preventScroll: true });
    speak(view.title);
  }
}

/* --- the turn --- */

const pending = new Set();

function draw() {
  const what = pending.has("route") ? "route" : pending.has("look") || pending.has("event") ? "look" : "tick";
  pending.clear();
  answers();
  contact();
  head();
  route();
  view?.update(what);
  if (what !== "tick")
    redraw();
}

function soon(what) {
  if (pending.size === 0)
    requestAnimationFrame(draw);
  pending.add(what);
}

for (const what of ["tick", "look", "event"])
  on(what, () => soon(what));
addEventListener("hashchange", () => soon("route"));
document.addEventListener("visibilitychange", () => soon("look"));
$("theme").addEventListener("click", switchTheme);
$("jump").addEventListener("change", (event) => {
  if (event.target.value)
    location.hash = event.target.value.slice(1);
  event.target.value = "";
});
document.documentElement.dataset.script = "yes";
start();
draw();
