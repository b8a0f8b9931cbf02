// SPDX-License-Identifier: Apache-2.0
// One box that finds a GPU, a pod, a process, a job, a user or an incident and goes there.
import { seen } from "./agent.js";
import { fill, h, mark } from "./element.js";
import { jobLink } from "./jobs.js";
import { activityText, activityOf, gpuLink, gpuName, instanceLink, instanceName, holdingsOf, ownerKey, ownerName, processHome, processName, processesOf, titleOf } from "./state.js";

const SHOWN = 8;

/* Everything that can be found: {kind, text, more, href, words}. */
function everything() {
  const all = [], add = (kind, text, more, href, words) => all.push({ kind, text, more, href, words: [kind, text, more, ...words].filter(Boolean).join(" ").toLowerCase() });
  for (const gpu of seen.gpus) {
    add("GPU", gpuName(gpu), activityText(activityOf(gpu)), gpuLink(gpu), [gpu.uuid, gpu.pci, gpu.serial, gpu.name]);
    for (const one of gpu.instances ?? [])
      add("MIG", `${gpuName(gpu)} MIG ${instanceName(one)}`, one.profile, instanceLink(gpu, one), [one.uuid]);
  }
  const owners = new Map(seen.gpus.flatMap(holdingsOf).map(({ owner }) => [ownerKey(owner), owner]));
  for (const [key, owner] of owners)
    add(owner.job ? "job" : owner.pod ? "pod" : "program", ownerName(owner), owner.user, jobLink(key), [owner.namespace, owner.account, owner.container]);
  for (const [pid, p] of new Map(seen.gpus.flatMap(processesOf).map((p) => [p.pid, p])))
    add("process", `${processName(p)} (${pid})`, [p.user, processHome(p)].filter(Boolean).join(", "), `#/process/${pid}`, [p.container, p.pod_uid]);
  for (const i of [...seen.incidents, ...seen.past])
    add("incident", titleOf(i), i.state === "open" ? i.severity : "resolved", `#/incident/${i.id}`, [i.id, i.class, ...(i.codes ?? []).map((code) => `xid ${code}`)]);
  return all;
}

/* Those that have every word, at the begin of one of theirs first. */
function found(text) {
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean), rank = (one) => (one.text.toLowerCase().startsWith(wanted.join(" ")) ? 0 : 1);
  return wanted.length ? everything().filter((one) => wanted.every((word) => one.words.includes(word))).sort((a, b) => rank(a) - rank(b)).slice(0, SHOWN) : [];
}

export function search(holder) {
  const list = h("ul", { id: "found", class: "found", role: "listbox", "aria-label": "Found", hidden: true });
  const input = h("input", { type: "search", role: "combobox", "aria-label": "Find a GPU, pod, process, job or incident", "aria-expanded": "false", "aria-controls": "found", "aria-autocomplete": "list",
    placeholder: "Find GPU, pod, job …", autocomplete: "off", oninput: () => show(), onkeydown: (event) => onKey(event), onblur: () => close() });
  let results = [], at = 0;
  function show() {
    results = found(input.value);
    at = 0;
    const option = (one, i) => h("li", { role: "option", id: `found-${i}`, onmousedown: (event) => { event.preventDefault(); go(one); } }, h("span", { class: "quiet" }, one.kind), h("b", {}, one.text), h("span", { class: "quiet" }, one.more));
    fill(list, results.length ? results.map(option) : h("li", { class: "quiet" }, "Nothing of that name."));
    list.hidden = !input.value.trim();
    mark(input, "aria-expanded", String(!list.hidden));
    choose();
  }
  function choose() {
    [...list.children].forEach((li, i) => mark(li, "aria-selected", i === at && results.length ? "true" : null));
    mark(input, "aria-activedescendant", results.length ? `found-${at}` : null);
  }
  function close() {
    list.hidden = true;
    mark(input, "aria-expanded", "false");
  }
  function go(one) {
    location.hash = one.href.slice(1);
    input.value = "";
    close();
  }
  function onKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter" && results[at] && !list.hidden)
      go(results[at]);
    else if (event.key === "Escape")
      close();
    else if (step && results.length)
      at = (at + step + results.length) % results.length;
    else
      return;
    event.preventDefault();
    choose();
  }
  holder.append(input, list);
  addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.target.closest("input, textarea, select")) {
      event.preventDefault();
      input.focus();
    }
  });
}
