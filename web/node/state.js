// SPDX-License-Identifier: Apache-2.0
// What the agent's numbers mean for a reader: what each GPU does, what is wrong with it, who has it. Pure; reads `seen`.
import { idOf, number, seen } from "./agent.js";
import { M, SEVERITIES, byUrgency, clockReasons, groupBy, lasting, percent, thingOf, whyAbsent } from "./words.js";

/* --- what a GPU does: the agent decides it --- */

export const ACTIVITIES = ["working", "waiting", "idle held", "free", "unusable", "unknown"];
/* Shapes beside the colours, so that neither has to be seen alone. */
export const ICONS = { working: "●", waiting: "◐", "idle held": "◌", free: "○", unusable: "✕", unknown: "?", fatal: "✕", error: "✕", warning: "▲", info: "i", ok: "✓" };

export const activityOf = (device) => device.activity ?? { word: "unknown", text: "" };
export const activityText = ({ word, cause }) => (cause ? `${word}: ${cause}` : word);

/* Somebody has it, and it does not work. */
export const isIdle = (device) => ["waiting", "idle held"].includes(activityOf(device).word);

/* Means of the last minute, which the verdict is about too; null where they are not reported. */
export const smOf = (device) => activityOf(device).sm_active ?? null;
export const utilOf = (device) => activityOf(device).utilization ?? null;

export function memoryShare(device) {
  const used = number(device, M.used), total = number(device, M.total);
  return used === null || !total ? null : used / total;
}

/* How many GPUs do what; those that should be there and are not are unusable. */
export function capacity() {
  const sum = Object.fromEntries(ACTIVITIES.map((word) => [word, 0]));
  for (const gpu of seen.gpus)
    sum[activityOf(gpu).word] += 1;
  sum.total = Math.max(seen.gpus.length, seen.node.gpus_expected ?? 0);
  sum.unusable += sum.total - seen.gpus.length;
  return sum;
}

/* "2 waiting, 1 free": without those of which there are none. */
export const countText = (sum, words = ACTIVITIES) => words.filter((word) => sum[word]).map((word) => `${sum[word]} ${word}`).join(", ");

export const meanOf = (list) => (list.length ? list.reduce((a, b) => a + b, 0) / list.length : null);
export const known = (list) => list.filter((v) => v !== null && v !== undefined);
export const sinceOf = (text) => (text ? lasting((seen.timeMs - Date.parse(text)) / 1000) : "");

/* --- names and ways --- */

export const gpuName = (gpu) => (gpu.index === null || gpu.index === undefined ? `GPU ${gpu.pci?.replace(/^0+:/, "") ?? "?"}` : `GPU ${gpu.index}`);
export const gpuLink = (gpu) => `#/gpu/${gpu.index ?? idOf(gpu)}`;
export const instanceName = (one) => `${one.gpu_instance}/${one.compute_instance}`;
export const instanceLink = (gpu, one) => `${gpuLink(gpu)}/mig/${one.gpu_instance}.${one.compute_instance}`;
export const findGpu = (id) => seen.gpus.find((gpu) => String(gpu.index) === id || gpu.uuid === decodeURIComponent(id) || gpu.pci === decodeURIComponent(id));

/* "0-3, 5" of numbers in order. */
export function rangesOf(list) {
  const parts = [];
  for (const n of list)
    if (parts.length && parts.at(-1)[1] === n - 1)
      parts.at(-1)[1] = n;
    else
      parts.push([n, n]);
  return parts.map(([a, b]) => (a === b ? a : b === a + 1 ? `${a}, ${b}` : `${a}-${b}`)).join(", ");
}

/* --- incidents --- */

export const openIncidents = () => seen.incidents.filter((i) => i.state === "open").sort(byUrgency);
export const isProblem = (incident) => SEVERITIES.indexOf(incident.severity) > 0;
export const isAbout = (incident, gpu) => incident.device && incident.device.kind !== "node"
  && ((gpu.uuid && incident.device.uuid === gpu.uuid) || (incident.device.index !== null && incident.device.index === gpu.index));

/* The worst of what is wrong with a GPU itself; what a program did wrong is not its fault. */
export function severityOf(gpu) {
  let worst = 0;
  for (const incident of seen.incidents)
    if (incident.state === "open" && incident.cause !== "application" && isAbout(incident, gpu))
      worst = Math.max(worst, SEVERITIES.indexOf(incident.severity));
  return worst ? SEVERITIES[worst] : null;
}

/* A class's page on this agent; a site's own address where there is one. */
export function runbookOf(incident) {
  return /^https?:\/\//.test(incident.runbook ?? "") ? incident.runbook : `runbooks/${encodeURIComponent(incident.class ?? "")}`;
}

/* The thing that is wrong, as the head of `stoker status` names it. */
export function problemOf(incident) {
  const thing = thingOf(incident);
  return incident.cause === "application" ? (thing === "node" ? "a program" : `a program on ${thing}`) : thing;
}

/* The GPU that an incident is about; null: none. */
export const gpuOf = ({ device }) => (device && device.kind !== "node" && device.index !== null && device.index !== undefined ? findGpu(String(device.index)) ?? null : null);

/* Without the PCI address, where the number says which GPU it is. */
export const titleOf = ({ title, device, class: name }) => (device?.index === null || device?.index === undefined ? title : title?.replace(/ \((\w+:)+\w+\.\d\)/, "")) ?? name;

const HITS = 4;

/* Whose work an incident hits: as it was when the incident opened; at most `most` of several owners by name. */
export function hitText({ owners = [], affected, device, state }, most = HITS) {
  const named = owners.map((o) => [o.job && `job ${o.job}`, o.pod && `pod ${[o.namespace, o.pod].filter(Boolean).join("/")}`, !o.job && !o.pod && o.process].filter(Boolean).join(", ") + (o.user ? ` of ${o.user}` : ""));
  const gpu = state === "open" && gpuOf({ device }), waiters = gpu && waitersText(gpu);
  const all = [...new Set(named)].filter(Boolean), more = all.length > most ? all.splice(most - 1).length : 0;
  return (all.join("; ") + (more ? `; and ${more} more` : "") || affected || "") + (waiters ? `: ${waiters}` : "");
}

/* --- readings --- */

export function reasonsOf(gpu) {
  const bits = number(gpu, M.reasons);
  return bits === null ? null : clockReasons(bits);
}

export const isHot = (gpu) => {
  const temp = number(gpu, M.temp), slow = number(gpu, M.slowdown);
  return temp !== null && slow !== null && temp >= slow - 3;
};

export function linksOf(gpu) {
  const links = (gpu.nvlinks ?? []).filter((link) => link.active !== null);
  if (!links.length)
    return null;
  const up = links.filter((link) => link.active).length;
  return { up, text: `${up} of ${links.length} links`, bad: up < links.length };
}

/* {text, bad}; text null where it is not known. */
export function busOf(gpu) {
  const [gen, maxGen, width, maxWidth] = [M.gen, M.maxGen, M.width, M.maxWidth].map((name) => number(gpu, name));
  if (width === null)
    return { text: null, why: whyAbsent(gpu.metrics?.[M.width]), bad: false };
  const narrow = maxWidth !== null && width < maxWidth;
  return { text: `gen ${gen ?? "?"} x${width}${narrow ? ` of x${maxWidth}` : ""}${maxGen !== null && gen !== null && gen < maxGen ? ` (can ${maxGen})` : ""}`, bad: narrow };
}

/* --- who --- */

export const processesOf = (device) => device.processes ?? [];
export const processName = (p) => p.name ?? `process ${p.pid}`;
export function processHome(p) {
  return [p.job && `job ${p.job}`, p.pod && [p.namespace, p.pod].filter(Boolean).join("/"), !p.pod && p.container && `${p.runtime ?? "container"} ${p.container.slice(0, 12)}`]
    .filter(Boolean).join(", ");
}

/* What is held of a device, of a split GPU of its instances. */
export const holdingsOf = (device) => [...(device.holdings ?? []), ...(device.instances ?? []).flatMap((one) => one.holdings ?? [])];

const HOLDING_NOTES = { unmanaged: "unmanaged", reserved: "reserved" };

/* One of those who hold a device: of several with its part of it and how that was found. */
function holderText({ owner, share, attribution, state }, shared) {
  const note = shared && state === "idle_held" ? "idle" : HOLDING_NOTES[state];
  return shared ? `${ownerName(owner)} ${percent(share)} (${[attribution, note].filter(Boolean).join(", ")})` : `${ownerName(owner)}${note ? ` (${note})` : ""}`;
}

/* Who has a device, in a few words; null: nobody that is known. */
export function whoText(device) {
  const own = device.holdings ?? [], inner = (device.instances ?? []).flatMap((one) => (one.holdings ?? []).map((holding) => ownerName(holding.owner)));
  const names = [...own.map((holding) => holderText(holding, own.length > 1)), ...new Set(inner)];
  return names.length ? names.slice(0, 3).join(", ") + (names.length > 3 ? ` and ${names.length - 3} more` : "") : null;
}

/* --- why --- */

/* The verdict that the agent tells without being asked; undefined: none. */
export const noticeOf = ({ verdict }) => (verdict?.noticed ? verdict : verdict?.beside?.find((one) => one.noticed));
export const sureText = ({ share, window_s: window, confidence }) => [share !== null && share !== undefined && `${percent(share)} of ${window} s`, `confidence ${confidence}`].filter(Boolean).join(", ");

/* One that stands for all processes of a job, pod, container or user. */
export const ownerKey = ({ user, job, namespace, pod, container, process }) => (job ? `job ${job}` : pod ? `pod ${namespace ?? ""}/${pod}` : container ? `container ${container}` : `${user ?? ""}: ${process ?? ""}`);
const ownersKey = (device) => (device.holdings ?? []).map(({ owner }) => ownerKey(owner)).join();
/* An owner in few words: a process by its user, without its number. */
export const ownerName = ({ job, pod, container, user, process, text }) => (job || pod || container ? text : [process, user && `of ${user}`].filter(Boolean).join(" ") || text);

/* "GPU 0-2, 5", "GPU 0 MIG 7/0, 8/0, GPU 1 MIG 7/0" */
function deviceNames(all) {
  if (all.every(({ gpu, device }) => gpu === device && gpu.index !== null))
    return `GPU ${rangesOf(all.map(({ gpu }) => gpu.index))}`;
  return all.map(({ gpu, device }, i) => (device === gpu ? gpuName(gpu) : `${all[i - 1]?.gpu === gpu ? "" : `${gpuName(gpu)} MIG `}${instanceName(device)}`)).join(", ");
}

/* A GPU that others of its job wait for: how many, and how fast they go; "" where nobody does. */
export function waitersText(gpu) {
  const { waiters: n, waiters_speed: speed } = activityOf(gpu);
  return n ? `${n} GPU${n === 1 ? " waits" : "s wait"} for ${gpuName(gpu)}${speed === undefined ? "" : `, at about ${percent(speed)} of its speed`}` : "";
}

/* Idle GPUs of one user belong together, whatever holds them; those that wait for the same, whoever has them. */
const noticeKey = ({ device }) => [activityOf(device).word, activityOf(device).cause, noticeOf(device)?.cause, activityOf(device).word === "idle held" ? (device.holdings ?? []).map(({ owner }) => owner.user ?? ownerKey(owner)).join() : noticeOf(device)?.cause === "straggler" && ownersKey(device)].join("|");

/* "2 GPUs wait for input", of all that a notice is about. */
function noticeText(some, count, owners) {
  const [{ gpu, device }] = some, { word, text } = activityOf(device), who = owners.slice(0, 3).join(", ") + (owners.length > 3 ? ` and ${owners.length - 3} more` : "");
  if (word === "idle held") {
    const since = some.map((one) => activityOf(one.device).since).filter(Boolean).sort()[0], { user } = device.holdings?.length === 1 ? device.holdings[0].owner : {};
    return `${user ?? (who || "A program")} holds ${count} idle${since ? ` for ${sinceOf(since)}` : ""}`;
  }
  const many = some.length === 1 ? text : text.replace(/^waits/, "wait").replace(owners.length > 1 ? /:.*/ : "", "");
  return `${who ? `${who}: ` : ""}${(noticeOf(device)?.cause === "straggler" && waitersText(gpu)) || `${count} ${many}`}`;
}

/* What could be better: GPUs and instances that somebody has and that do not work, or that keep others waiting, by
 * cause: [{key, word, text, where, advice, detail, href}]. What only follows from the fault of `faulty` is told with the fault. */
export function notices(faulty) {
  const all = seen.gpus.flatMap((gpu) => (gpu.instances?.length ? gpu.instances : [gpu]).map((device) => ({ gpu, device }))).filter(({ device }) => isIdle(device) || noticeOf(device))
    .filter(({ device }) => !faulty || (device !== faulty && !activityOf(device).text.startsWith(`waits in a collective for ${gpuName(faulty)},`)));
  return [...groupBy(all, noticeKey)].map(([key, some]) => {
    const [{ gpu, device }] = some, notice = noticeOf(device), n = some.length, owners = [...new Set(some.flatMap((one) => (one.device.holdings ?? []).map((held) => ownerName(held.owner))))];
    return { key, word: activityOf(device).word, text: noticeText(some, `${n} ${device === gpu ? "GPU" : "MIG device"}${n === 1 ? "" : "s"}`, owners), where: notice?.cause === "straggler" ? "" : deviceNames(some), advice: notice?.advice,
      detail: notice && `${notice.text} (${sureText({ ...notice, window_s: device.verdict.window_s })})`, href: device === gpu ? gpuLink(gpu) : instanceLink(gpu, device) };
  });
}
