// SPDX-License-Identifier: Apache-2.0
// What stands on top of every view: the verdict, the one thing to do, whom it hits, and what could be better. Healthy, it is one line.
import { linkState, seen, when } from "./agent.js";
import { each, fill, h, mark, say } from "./element.js";
import { ACTIVITIES, ICONS, activityOf, capacity, countText, gpuOf, hitText, isProblem, known, meanOf, notices, openIncidents, problemOf, runbookOf, sinceOf, titleOf } from "./state.js";
import { zoneName } from "./time.js";
import { percent, splitVerdict } from "./words.js";

const $ = (id) => document.getElementById(id);
const THINGS = 6;

function verdict() {
  if (seen.status === null)
    return { tone: "unknown", text: seen.problem ? "Unknown" : "Connecting …", more: seen.problem ? `The agent does not answer (${seen.problem}).` : "" };
  if (seen.status === "ok")
    return { tone: "ok", text: "All healthy", more: "" };
  if (seen.status === "unknown" && !seen.gpus.length && seen.node.driver_why)
    return { tone: "unknown", text: "No NVIDIA driver here", more: "Install it, or try: stoker sim run default -- stoker agent" };
  if (seen.status === "unknown")
    return { tone: "unknown", text: "Unknown", more: seen.causes[0]?.text ?? "Nothing has been sampled yet." };
  const open = openIncidents(), names = [...new Set(open.filter(isProblem).map(problemOf))];
  return { tone: open.some((i) => ["error", "fatal"].includes(i.severity)) ? "wrong" : "warning",
    text: `Problem: ${names.slice(0, THINGS).join(", ")}${names.length > THINGS ? ` and ${names.length - THINGS} more` : ""}`, more: (mainIncident() && titleOf(mainIncident())) ?? seen.causes[0]?.text ?? "" };
}

/* How many GPUs do what, and how busy they are. */
function working() {
  if (!seen.gpus.length)
    return "";
  const sum = capacity(), others = countText(sum, ACTIVITIES.slice(1)), mean = (name) => meanOf(known(seen.gpus.map((gpu) => activityOf(gpu)[name]))), sm = mean("sm_active"), util = mean("utilization");
  return [`${sum.working} of ${sum.total} working${others ? `, ${others}` : ""}`, sm === null ? "SM activity not reported" : `SM activity ${percent(sm)}`, util !== null && `utilisation ${percent(util)}`].filter(Boolean).join(" · ");
}

/* The incident that the verdict is about: the first to act on of those that nobody works on already, else the worst. */
const isToDo = (i) => isProblem(i) && !i.maintenance && i.action !== "none";
export const mainIncident = () => openIncidents().find(isToDo) ?? openIncidents().find(isProblem);

function action(incident) {
  if ($("todo").dataset.of === `${incident?.id} ${incident?.revision}`)
    return;
  $("todo").dataset.of = `${incident?.id} ${incident?.revision}`;
  fill($("todo"), incident && [h("a", { class: "press", id: "todo-text", href: `#/incident/${incident.id}` }, incident.action_text), h("p", { class: "quiet" }, splitVerdict(incident).advice, " ", h("a", { href: runbookOf(incident) }, "Runbook"))]);
}

/* What could be better: as many lines as it takes, none where all is well. */
function better(stale, main) {
  const list = stale ? [] : notices(main && gpuOf(main));
  $("notices").hidden = !list.length;
  each($("notices"), list, (one) => one.key, () => h("li", {}, h("i", { "aria-hidden": "true" }), h("div", {}, h("a"), h("p", { class: "quiet" }))), (li, { text, where, word, href, advice, detail }) => {
    const [link, more] = li.querySelectorAll("a, .quiet");
    say(li.firstElementChild, ICONS[word === "working" ? "warning" : word]);
    mark(link, "href", href);
    mark(li, "title", [detail, advice].filter(Boolean).join(" "));
    say(link, text);
    say(more, [where && `${where}.`, advice].filter(Boolean).join(" "));
  });
}

export function updateHero() {
  const state = linkState(), stale = seen.status !== null && !(state.fresh || (!state.ever && seen.link !== "lost")), well = verdict(), main = mainIncident();
  const tone = stale ? "unknown" : well.tone, hit = main ? hitText(main) : "";
  document.documentElement.dataset.stale = stale ? "yes" : "no";
  mark($("hero"), "data-tone", tone);
  say($("hero-icon"), ICONS[{ ok: "ok", warning: "warning", wrong: "fatal", unknown: "unknown" }[tone]]);
  say($("verdict-text"), stale ? "Unknown: no contact with the agent" : well.text);
  say($("verdict-more"), stale ? `When last heard of: ${well.text}` : well.more);
  $("verdict-more").hidden = !$("verdict-more").textContent;
  say($("working-text"), working());
  $("hit").hidden = stale || !main;
  say($("hit"), main ? `${hit ? `Hits ${hit}. ` : ""}Since ${when(Date.parse(main.opened))} ${zoneName()}, for ${sinceOf(main.opened)}.${main.maintenance ? " In a maintenance window." : ""}` : "");
  action(!stale && main && isToDo(main) ? main : null);
  better(stale, main);
  document.title = `${stale ? "? " : ["ok", "unknown"].includes(tone) ? "" : "✕ "}${stale ? "no contact" : well.text} · ${seen.node.hostname ?? "node"} · Stoker`;
}
