// SPDX-License-Identifier: Apache-2.0
// One process: who it is and what it has on which GPUs.
import { seen } from "./agent.js";
import { absent, fill, h, table } from "./element.js";
import { crumbs, facts, incidentList } from "./parts.js";
import { activityOf, gpuLink, gpuName, openIncidents, processHome, processName, processesOf } from "./state.js";
import { bytes, lasting } from "./words.js";

export function processView({ pid }) {
  const find = () => seen.gpus.flatMap((gpu) => processesOf(gpu).filter((p) => String(p.pid) === pid).map((p) => ({ gpu, p })));
  const about = h("div"), where = h("div"), incidents = h("ol", { class: "incidents" }), gone = h("p", { class: "warned", hidden: true }), title = h("h2", { id: "process-h" }, `Process ${pid}`);
  const element = h("div", {}, crumbs(h("span", {}, `Process ${pid}`)), h("section", { "aria-labelledby": "process-h" }, title, gone, about, where, incidents));
  let last = "";
  function update() {
    const found = find(), text = JSON.stringify(found.map(({ gpu, p }) => [gpu.index, p, activityOf(gpu).word]));
    incidentList(incidents, openIncidents().filter((i) => String(i.process?.pid) === pid));
    gone.hidden = found.length > 0;
    gone.textContent = last ? "The driver no longer lists this process; these are its last known values." : "The driver lists no process with this number.";
    if (!found.length || text === last)
      return;
    last = text;
    const p = found[0].p;
    fill(title, processName(p), " ", h("span", { class: "quiet" }, `pid ${pid}`));
    fill(about, facts([["User", p.user ?? (p.uid === undefined ? null : String(p.uid))], ["Pod, job or container", processHome(p)], ["Container", p.container],
      ["Host memory", p.rss_bytes && bytes(p.rss_bytes)], ["CPU time", p.cpu_seconds !== undefined && lasting(p.cpu_seconds)]], "wide"));
    fill(where, table("What it has", ["GPU", "Activity", "Kind", { text: "GPU memory", number: true }, { text: "Utilisation", number: true }], found.map(({ gpu, p: one }) => [
      h("a", { href: gpuLink(gpu) }, `${gpuName(gpu)}${one.gpu_instance === undefined ? "" : ` MIG ${one.gpu_instance}/${one.compute_instance ?? 0}`}`),
      activityOf(gpu).word, one.kind ?? "–", one.used_bytes === undefined || one.used_bytes === null ? absent("not reported") : bytes(one.used_bytes), one.sm_percent === undefined || one.sm_percent === null ? absent("not reported") : `${one.sm_percent} %`])));
  }
  return { title: `Process ${pid}`, element, update, end() {} };
}
