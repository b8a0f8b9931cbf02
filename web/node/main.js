// SPDX-License-Identifier: Apache-2.0
// The frame of the page: the way between views (the address' hash), and the turn of the loop that draws what has changed.
import { readAddress } from "./address.js";
import { linkState, on, seen, start } from "./agent.js";
import { axisFromAddress, redraw } from "./charts.js";
import { debug } from "./debug.js";
import { fill, mark, say } from "./element.js";
import { executive } from "./executive.js";
import { gpuView, migView } from "./gpu.js";
import { updateHero } from "./hero.js";
import { incidentView } from "./incident.js";
import { jobView, jobs } from "./jobs.js";
import { oncall } from "./oncall.js";
import { processView } from "./process.js";
import { search } from "./search.js";
import { switchTheme } from "./theme.js";
import { clock, onZone, switchZone, zoneName } from "./time.js";
import { topology } from "./topology.js";
import { lasting } from "./words.js";

const $ = (id) => document.getElementById(id);
const ROUTES = [
  [/^\/?$/, oncall, "oncall"], [/^\/jobs$/, jobs, "jobs"], [/^\/topology$/, topology, "topology"], [/^\/executive$/, executive, "executive"], [/^\/debug$/, debug, "debug"],
  [/^\/gpu\/([^/]+)$/, gpuView, "", ["id"]], [/^\/gpu\/([^/]+)\/mig\/([^/]+)$/, migView, "", ["id", "instance"]],
  [/^\/process\/(\d+)$/, processView, "", ["pid"]], [/^\/job\/([^/]+)$/, jobView, "", ["id"]], [/^\/incident\/([^/]+)$/, incidentView, "", ["id"]],
];
let view = null, shownRoute = null, shownKnown = false;

/* Said by a screen reader. */
const speak = (text) => say($("spoken"), text);

/* Live, or how old what is shown is: by the second, and never quietly. */
function contact() {
  const state = linkState(), pill = $("contact"), lost = $("lost");
  say(pill, state.fresh ? `live, ${clock(seen.timeMs)}` : state.ever ? `no contact for ${lasting(state.ageMs / 1000)}` : seen.problem ? "no answer" : "connecting …");
  mark(pill, "data-state", state.fresh ? "live" : state.ever || seen.problem ? "lost" : "connecting");
  lost.hidden = state.fresh || (!state.ever && !seen.problem);
  if (!lost.hidden)
    say(lost, state.ever ? `No contact with the agent for ${lasting(state.ageMs / 1000)}. All numbers on this page are from ${clock(seen.timeMs)} ${zoneName()} and may be wrong by now. Trying again …`
      : `The agent does not answer (${seen.problem}). Trying again …`);
}

function head() {
  say($("host"), seen.node.hostname ?? "…");
  say($("about"), [seen.gpus.length ? `${seen.gpus.length} GPU${seen.gpus.length > 1 ? "s" : ""}` : "", seen.node.driver_version ? `driver ${seen.node.driver_version}` : ""].filter(Boolean).join(" · "));
  say($("zone"), zoneName() === "local" ? "Local" : "UTC");
}

/* --- the way --- */

function route() {
  const { path } = readAddress();
  if (path.startsWith("main")) // the link that skips to the content
    return;
  const isKnown = seen.status !== null;
  if (path === shownRoute && isKnown === shownKnown)
    return;
  const moved = shownRoute !== null && path !== shownRoute;
  shownRoute = path;
  shownKnown = isKnown;
  for (const [pattern, make, name, words] of ROUTES) {
    const found = pattern.exec(path);
    if (!found)
      continue;
    if (!isKnown && name === "")
      break; // it cannot be said yet what there is
    view?.end();
    view = null;
    const options = { speak };
    (words ?? []).forEach((word, i) => { options[word] = found[i + 1]; });
    show(make(options), name, moved);
    return;
  }
  if (isKnown)
    location.replace("#/");
}

function show(made, name, moved) {
  view = made;
  axisFromAddress({ span: "second", ...view.axis });
  mark(document.documentElement, "data-view", name || "one");
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
  updateHero();
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
addEventListener("hashchange", () => {
  if (view && readAddress().path === shownRoute) // another choice in the same view
    axisFromAddress({ span: "second", ...view.axis });
  soon("route");
});
document.addEventListener("visibilitychange", () => soon("look"));
$("theme").addEventListener("click", switchTheme);
$("zone").addEventListener("click", switchZone);
onZone(() => {
  shownRoute = null; // every time on the page is told anew
  soon("route");
});
search($("search"));
document.documentElement.dataset.script = "yes";
start();
draw();
