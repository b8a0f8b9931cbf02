// SPDX-License-Identifier: Apache-2.0
// Pieces that several views are made of: incidents, GPU cards, bars, who uses what, and what each
// GPU does.
import { idOf, keyOf, number, seen, when } from "./agent.js";
import { Chart } from "./charts.js";
import { absent, each, h, mark, put, say } from "./element.js";
import { M, ROUTE_WANTS, SEVERITIES, SEVERITY_MEANS, STATES, byUrgency, bytes, celsius, clockReasons, lasting, megahertz, modelOf, percent, rate, rates,
  splitVerdict, watts, whole, whyAbsent } from "./words.js";

/* --- what a GPU does: the agent decides it --- */

export const ACTIVITIES = ["working", "waiting", "idle held", "free", "unusable", "unknown"];

export const activityOf = (device) => device.activity ?? { word: "unknown", text: "" };

/* SM active of a device, of a split GPU over its instances; null where it is not reported. */
export const smActive = (device) => number(device, M.sm) ?? (device.instances?.length ? device.activity?.sm_active ?? null : null);

export function memoryShare(device) {
  const used = number(device, M.used), total = number(device, M.total);
  return used === null || !total ? null : used / total;
}

export const processesOf = (device) => device.processes ?? [];

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

/* --- incidents --- */

export const openIncidents = () => seen.incidents.filter((i) => i.state === "open").sort(byUrgency);
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

export const sinceOf = (text) => (text ? lasting((seen.timeMs - Date.parse(text)) / 1000) : "");

/* A class's page on this agent; a site's own address where there is one. */
export function runbookOf(incident) {
  return /^https?:\/\//.test(incident.runbook ?? "") ? incident.runbook : `runbooks/${encodeURIComponent(incident.class ?? "")}`;
}

export function incidentItem(incident) {
  const li = h("li", { class: "incident", "data-id": incident.id });
  li.parts = { age: h("span", { class: "quiet" }), evidence: null };
  const { why, advice } = splitVerdict(incident);
  const about = [ROUTE_WANTS[incident.route] ?? "", incident.maintenance ? `in maintenance window ${incident.maintenance}` : ""].filter(Boolean).join("; ");
  li.dataset.severity = incident.severity;
  li.append(...[
    h("div", { class: "incident-head" }, h("span", { class: "severity", "data-severity": incident.severity }, incident.severity),
      h("a", { class: "incident-title", href: `#/incident/${incident.id}` }, incident.title ?? incident.class)),
    h("p", { class: "do" }, h("b", {}, "Do"), h("span", {}, h("strong", {}, incident.action_text), advice && h("span", { class: "advice" }, ` ${advice}`))),
    h("p", { class: "quiet" }, `${SEVERITY_MEANS[incident.severity] ?? ""}. ${about}.`),
    why && h("details", {}, h("summary", {}, "Why"), h("p", {}, why), evidenceList(incident)),
    h("p", { class: "links" }, li.parts.age, h("a", { href: `#/incident/${incident.id}` }, "Evidence"),
      h("a", { href: runbookOf(incident) }, "Runbook, step by step"))].filter(Boolean));
  return li;
}
export function evidenceList(incident) {
  const list = (incident.evidence ?? []).slice(0, 12);
  return h("ol", { class: "evidence" }, list.map((one) => h("li", {}, h("time", {}, one.at ? when(Date.parse(one.at)) : ""), h("span", { class: "quiet" }, one.origin),
    h("span", {}, one.text ?? (one.code === null ? "" : `code ${one.code}`), one.echo && h("em", {}, " (a consequence)")))));
}

export function tellAge(item, incident) {
  say(item.parts.age, incident.state === "open" ? `for ${sinceOf(incident.opened)}, seen ${whole(incident.count)} time${incident.count === 1 ? "" : "s"}` : `over for ${sinceOf(incident.cleared)}`);
}

/* A list of incidents, told again only where one of them changed. */
export function incidentList(element, list) {
  each(element, list, (i) => `${i.id}/${i.revision}/${i.state}/${i.maintenance}`, (incident) => {
    const made = incidentItem(incident), before = element.querySelector(`[data-id="${CSS.escape(incident.id)}"] details`);
    if (before?.open && made.querySelector("details"))
      made.querySelector("details").open = true;
    return made;
  }, (item, incident) => tellAge(item, incident));
}

/* --- readings --- */

/* A text of a device's reading, or why there is none. */
export function shown(device, name, format) {
  const value = number(device, name);
  return value === null ? absent(whyAbsent(device?.metrics?.[name])) : format(value);
}

/* A row "name value" with a bar where there is a share. */
function row(name, title) {
  const value = h("dd"), element = h("div", { class: "fact" }, h("dt", { title }, name), value);
  return { element, value, update(text, share, tone) {
    put(value, text);
    mark(value, "data-tone", tone);
    element.classList.toggle("with-bar", share !== null && share !== undefined);
    element.style.setProperty("--share", `${Math.round(1000 * Math.min(1, share ?? 0)) / 10}%`);
  } };
}

/* SM activity and utilisation side by side. */
export function busyBars() {
  const make = (label, title, kind) => {
    const bar = h("i"), text = h("span", { class: "bar-value" });
    return { bar, text, element: h("div", { class: "busy-row", "data-kind": kind }, h("span", { class: "bar-label", title }, label), h("span", { class: "bar-track", "aria-hidden": "true" }, bar), text) };
  };
  const sm = make("SM active", "share of the time in which a multiprocessor had work, over all of them", "sm");
  const util = make("Utilisation", "share of the time in which any kernel ran, however small", "util");
  return { element: h("div", { class: "busy" }, sm.element, util.element), update(device) {
    for (const [row_, value, name, format] of [[sm, smActive(device), M.sm, percent], [util, number(device, M.util), M.util, (v) => percent(v / 100)]]) {
      const share = value === null ? 0 : name === M.util ? value / 100 : value;
      row_.bar.style.width = `${Math.min(100, share * 100)}%`;
      if (value === null)
        put(row_.text, absent(whyAbsent(device.metrics?.[name])));
      else
        put(row_.text, format(value));
      row_.element.classList.toggle("none", value === null);
    }
  } };
}

function memoryText(device) {
  const used = number(device, M.used), total = number(device, M.total);
  return used === null ? absent(whyAbsent(device.metrics?.[M.used])) : total === null ? bytes(used * 1048576)
    : `${(used / 1024).toFixed(1)} / ${Math.round(total / 1024)} GiB`;
}

function powerText(gpu) {
  const power = number(gpu, M.power), limit = number(gpu, M.limit);
  return power === null ? absent(whyAbsent(gpu.metrics?.[M.power])) : limit === null ? watts(power) : `${whole(power)} / ${whole(limit)} W`;
}

function heatText(gpu) {
  const temp = number(gpu, M.temp), slow = number(gpu, M.slowdown);
  return temp === null ? absent(whyAbsent(gpu.metrics?.[M.temp])) : `${celsius(temp)}${slow === null ? "" : `, slows at ${Math.round(slow)}`}`;
}

export function reasonsOf(gpu) {
  const bits = number(gpu, M.reasons);
  return bits === null ? null : clockReasons(bits);
}

function clockText(gpu) {
  const at = number(gpu, M.clock), most = number(gpu, M.maxClock);
  return at === null ? absent(whyAbsent(gpu.metrics?.[M.clock])) : most === null ? megahertz(at) : `${whole(at)} / ${whole(most)} MHz`;
}

function heldText(gpu) {
  const reasons = reasonsOf(gpu);
  return reasons === null ? absent(whyAbsent(gpu.metrics?.[M.reasons])) : reasons.length ? reasons.map((r) => r.text).join(", ") : "no";
}

function errorsOf(gpu) {
  const dbe = number(gpu, M.dbe), parts = [];
  if (number(gpu, M.remapFailed))
    parts.push("remapping failed");
  if (number(gpu, M.remapPending))
    parts.push("a row waits for a reset");
  if (dbe)
    parts.push(`${whole(dbe)} uncorrected`);
  const bad = parts.length > 0, sbe = number(gpu, M.sbe), rows = (number(gpu, M.remapBad) ?? 0) + (number(gpu, M.remapGood) ?? 0);
  if (dbe === null && sbe === null)
    return { text: absent(whyAbsent(gpu.metrics?.[M.dbe])), bad };
  if (dbe === null)
    parts.push(`uncorrected: ${whyAbsent(gpu.metrics?.[M.dbe])}`);
  else if (!bad)
    parts.push("no uncorrected error");
  if (sbe)
    parts.push(`${whole(sbe)} corrected`);
  if (rows)
    parts.push(`${whole(rows)} row${rows === 1 ? "" : "s"} remapped`);
  return { text: parts.join(", "), bad };
}

export function trafficText(device, tx, rx) {
  const out = device.rates?.[tx], in_ = device.rates?.[rx];
  if (out === null || out === undefined)
    return device.metrics?.[tx]?.value === null || !device.metrics?.[tx] ? absent(whyAbsent(device.metrics?.[tx])) : "…";
  return in_ === null || in_ === undefined ? `↑ ${rate(out)}, ↓ ${whyAbsent(device.metrics?.[rx])}` : rates(out, in_);
}

export function busOf(gpu) {
  const [gen, maxGen, width, maxWidth] = [M.gen, M.maxGen, M.width, M.maxWidth].map((name) => number(gpu, name));
  if (width === null)
    return { text: absent(whyAbsent(gpu.metrics?.[M.width])), bad: false };
  const narrow = maxWidth !== null && width < maxWidth;
  return { text: `gen ${gen ?? "?"} x${width}${narrow ? ` of x${maxWidth}` : ""}${maxGen !== null && gen !== null && gen < maxGen ? ` (can ${maxGen})` : ""}`, bad: narrow };
}

export function linksOf(gpu) {
  const links = (gpu.nvlinks ?? []).filter((link) => link.active !== null);
  if (!links.length)
    return null;
  const up = links.filter((link) => link.active).length;
  return { text: `${up} of ${links.length} links`, bad: up < links.length };
}

/* --- who --- */

export function processName(p) {
  return p.name ?? `process ${p.pid}`;
}
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
  return shared ? `${owner.text} ${percent(share)} (${[attribution, note].filter(Boolean).join(", ")})` : `${owner.text}${note ? ` (${note})` : ""}`;
}

/* Who has a device, in a few words; null: nobody that is known. */
export function whoText(device) {
  const own = device.holdings ?? [], inner = (device.instances ?? []).flatMap((one) => (one.holdings ?? []).map((holding) => holding.owner.text));
  const names = [...own.map((holding) => holderText(holding, own.length > 1)), ...new Set(inner)];
  return names.length ? names.slice(0, 3).join(", ") + (names.length > 3 ? ` and ${names.length - 3} more` : "") : null;
}

/* --- why --- */

/* Each GPU, of a split one its instances: what can be told of. */
const devicesOf = (gpu) => (gpu.instances?.length ? gpu.instances : [gpu]);

/* The verdict that the agent tells without being asked; undefined: none. */
export const noticeOf = ({ verdict }) => (verdict?.noticed ? verdict : verdict?.beside?.find((one) => one.noticed));

/* Somebody has it, and it does not work. */
export const isIdle = (device) => ["waiting", "idle held"].includes(activityOf(device).word);

export const sureText = ({ share, window_s: window, confidence }) => [share !== null && share !== undefined && `${percent(share)} of ${window} s`, `confidence ${confidence}`].filter(Boolean).join(", ");

/* What takes the time of a device that somebody has: {element, update(device)}. */
export function verdictBlock() {
  const text = h("p"), advice = h("span"), sure = h("p", { class: "quiet" }), doing = h("p", { class: "do" }, h("b", {}, "Do"), advice);
  const also = h("p", { class: "also" }), other = h("span"), othersDo = h("p", { class: "do" }, h("b", {}, "Do"), other);
  const element = h("div", { class: "verdict" }, text, doing, sure, also, othersDo);
  return { element, update(device) {
    const { verdict } = device, shown_ = verdict && (isIdle(device) || activityOf(device).word === "working");
    element.hidden = !shown_;
    if (!shown_)
      return;
    say(text, verdict.text);
    doing.hidden = !verdict.advice;
    say(advice, verdict.advice ?? "");
    say(sure, [sureText(verdict), verdict.next && `next: ${verdict.next}`].filter(Boolean).join("; "));
    const notice = noticeOf(device), beside = notice && notice !== verdict ? notice : null;
    also.hidden = othersDo.hidden = !beside;
    say(also, beside ? `Also: ${beside.text} (${sureText({ ...beside, window_s: verdict.window_s })})` : "");
    say(other, beside?.advice ?? "");
  } };
}

const ownersKey = (gpu) => (gpu.holdings ?? []).map(({ owner }) => [owner.user, owner.job, owner.namespace, owner.pod, owner.container].join("/")).join();

/* GPUs and instances that are told of: that somebody has and that do not work, or that keep others waiting; those of one
   cause and owner together. */
export function idleGroups() {
  const groups = new Map();
  for (const gpu of seen.gpus)
    for (const device of devicesOf(gpu).filter((one) => isIdle(one) || noticeOf(one))) {
      const { word, cause } = activityOf(device), key = [word, cause, noticeOf(device)?.cause, ownersKey(device)].join("|");
      groups.set(key, [...(groups.get(key) ?? []), { gpu, device }]);
    }
  return [...groups].map(([key, all]) => ({ key, all }));
}

/* "GPU 0, 1", "GPU 0 MIG 7/0, 8/0, GPU 1 MIG 7/0" */
const deviceNames = (all) => all.map(({ gpu, device }, i) => {
  const again = all[i - 1]?.gpu === gpu, name = gpu.index ?? gpu.pci;
  return device === gpu ? `${i ? "" : "GPU "}${name}` : `${again ? "" : `GPU ${name} MIG `}${instanceName(device)}`;
}).join(", ");

/* One of these groups, in the form of an incident; the numbers are those of its first GPU. */
export function idleItem({ all: [{ gpu: first, device }] }) {
  const chip = h("span", { class: "chip" }), title = h("b", { class: "incident-title" }), text = h("p"), advice = h("span"), doing = h("p", { class: "do" }, h("b", {}, "Do"), advice);
  const li = h("li", { class: "incident", "data-work": activityOf(device).word }, h("div", { class: "incident-head" }, chip, title), text, doing,
    h("p", { class: "links" }, h("a", { href: device === first ? gpuLink(first) : instanceLink(first, device) }, `More on ${deviceNames([{ gpu: first, device }])}`)));
  li.update = ({ all }) => {
    const [{ device: one }] = all, verdict = noticeOf(one), activity = activityOf(one), who = all.length === 1 || (one.holdings ?? []).length !== 1 ? whoText(one) : one.holdings[0].owner.job || one.holdings[0].owner.pod ? one.holdings[0].owner.text : one.holdings[0].owner.user;
    tellActivity(chip, activity);
    say(title, `${deviceNames(all)}${who ? `: ${who}` : ""}`);
    say(text, verdict ? `${verdict.text} (${sureText({ ...verdict, window_s: one.verdict.window_s })})` : activity.text);
    doing.hidden = !verdict?.advice;
    say(advice, verdict?.advice ?? "");
  };
  return li;
}

/* --- a card --- */

export const gpuName = (gpu) => (gpu.index === null || gpu.index === undefined ? `GPU ${gpu.pci ?? "?"}` : `GPU ${gpu.index}`);
export const gpuLink = (gpu) => `#/gpu/${gpu.index ?? idOf(gpu)}`;
export const instanceName = (one) => `${one.gpu_instance}/${one.compute_instance}`;
export const instanceLink = (gpu, one) => `${gpuLink(gpu)}/mig/${one.gpu_instance}.${one.compute_instance}`;

function sparkline(gpu) {
  const device = keyOf(gpu);
  return new Chart({ title: `${gpuName(gpu)}, activity`, bare: true, height: 40, max: 1, format: percent, lines: () => [
    { device, name: M.util, colour: "--util", scale: 0.01, width: 1, fill: 0.18, label: "utilisation" },
    { device, name: M.sm, colour: "--sm", width: 1.5, fill: 0.45, label: "SM active" }], wants: () => [[gpu, [M.sm, M.util]]] });
}

function instanceRow(gpu, one) {
  const bar = h("i"), text = h("span", { class: "bar-value" }), who = h("span", { class: "quiet who" });
  const element = h("li", {}, h("a", { href: instanceLink(gpu, one) }, h("span", {}, one.profile ?? "MIG"), h("span", { class: "quiet" }, instanceName(one))),
    h("span", { class: "bar-track", "aria-hidden": "true" }, bar), text, who);
  element.update = (now) => {
    const sm = number(now, M.sm);
    bar.style.width = `${Math.min(100, (sm ?? 0) * 100)}%`;
    const used = number(now, M.used), memory = used === null ? "" : ` · ${bytes(used * 1048576)}`;
    put(text, sm === null ? h("span", {}, absent(whyAbsent(now.metrics?.[M.sm])), memory) : `${percent(sm)}${memory}`);
    say(who, whoText(now) ?? "");
  };
  return element;
}

/* The word on a chip, the reason in its title. */
export function tellActivity(chip, activity) {
  say(chip, activity.cause ? `${activity.word}: ${activity.cause}` : activity.word);
  mark(chip, "data-work", activity.word);
  mark(chip, "title", activity.text || null);
}

/* One of very many: what it does, what is wrong with it, and its numbers in one line. */
function gpuTile(first) {
  const flag = h("span", { class: "severity" }), chip = h("span", { class: "chip" }), busy = busyBars(), line = h("p", { class: "quiet" });
  const element = h("article", { class: "card gpu", "aria-label": gpuName(first) }, h("header", {}, h("h3", {}, h("a", { href: gpuLink(first) }, gpuName(first))), flag, chip), busy.element, line);
  function update(gpu) {
    const activity = activityOf(gpu), severity = severityOf(gpu), up = gpu.state === "up";
    mark(element, "data-severity", severity);
    flag.hidden = !severity;
    say(flag, severity ?? "");
    mark(flag, "data-severity", severity);
    chip.hidden = activity.word === "working"; // as most are; the bars say so
    tellActivity(chip, activity);
    busy.element.hidden = !up;
    if (up)
      busy.update(gpu);
    const told = (what, name, format) => { const value = number(gpu, name); return value === null ? `${what}: ${whyAbsent(gpu.metrics?.[name])}` : format(value); };
    say(line, up ? [told("memory", M.used, (v) => bytes(v * 1048576)), told("power", M.power, watts), told("temperature", M.temp, celsius)].join(" · ") : [STATES[gpu.state] ?? gpu.state, gpu.why].filter(Boolean).join(": "));
  }
  return { element, update, end() {} };
}

/* {element, update(gpu), end()} */
export function gpuCard(first, { small }) {
  const chip = h("span", { class: "chip" }), model = h("span", { class: "quiet model" }), flag = h("span", { class: "severity" });
  const down = h("p", { class: "down" }), busy = busyBars(), facts = h("dl", { class: "facts" }), instances = h("ul", { class: "instances" });
  const rows = { memory: row("Memory"), power: row("Power"), heat: row("Temperature"), clock: row("Clock"), held: row("Throttled", "what keeps the clocks from their highest"), errors: row("ECC", "errors of the memory"),
    bus: row("PCIe"), link: row("NVLink"), who: row("Used by") };
  const spark = small || first.instances?.length ? null : sparkline(first);
  facts.append(...(small ? [rows.memory, rows.power, rows.heat, rows.who] : Object.values(rows)).map((r) => r.element));
  const element = h("article", { class: "card gpu", "aria-label": gpuName(first) },
    h("header", {}, h("h3", {}, h("a", { href: gpuLink(first) }, gpuName(first))), flag, chip, model), down, busy.element, spark?.element, facts, instances);

  function update(gpu) {
    const activity = activityOf(gpu), severity = severityOf(gpu), up = gpu.state === "up";
    mark(element, "data-severity", severity);
    mark(element, "data-work", activity.word);
    tellActivity(chip, activity);
    flag.hidden = !severity;
    say(flag, severity ?? "");
    mark(flag, "data-severity", severity);
    say(model, modelOf(gpu.name));
    down.hidden = up;
    busy.element.hidden = facts.hidden = !up;
    if (spark)
      spark.element.hidden = !up;
    instances.hidden = !up || !gpu.instances?.length;
    if (!up) {
      say(down, `${STATES[gpu.state] ?? gpu.state}${gpu.since ? `, for ${sinceOf(gpu.since)}` : ""}${gpu.why ? `: ${gpu.why}` : ""}. No number of it is shown, as none is known.`);
      return;
    }
    busy.update(gpu);
    const power = number(gpu, M.power), limit = number(gpu, M.limit), temp = number(gpu, M.temp), slow = number(gpu, M.slowdown);
    rows.memory.update(memoryText(gpu), memoryShare(gpu));
    rows.power.update(powerText(gpu), power !== null && limit ? power / limit : null);
    rows.heat.update(heatText(gpu), temp !== null && slow ? temp / slow : null, temp !== null && slow !== null && temp >= slow - 3 ? "bad" : null);
    rows.who.update(whoText(gpu) ?? "no process");
    if (small)
      return each(instances, gpu.instances ?? [], keyOf, (one) => instanceRow(gpu, one), (item, one) => item.update(one));
    const reasons = reasonsOf(gpu), errors = errorsOf(gpu), bus = busOf(gpu), links = linksOf(gpu);
    rows.clock.update(clockText(gpu));
    rows.held.update(heldText(gpu), null, reasons?.some((r) => r.trouble) ? "bad" : null);
    rows.errors.update(errors.text, null, errors.bad ? "bad" : null);
    rows.bus.update(h("span", {}, bus.text, " ", h("span", { class: "quiet" }, trafficText(gpu, M.pcieTx, M.pcieRx))), null, bus.bad ? "bad" : null);
    rows.link.update(h("span", {}, links ? `${links.text} ` : "", h("span", { class: "quiet" }, trafficText(gpu, M.nvTx, M.nvRx))), null, links?.bad ? "bad" : null);
    return each(instances, gpu.instances ?? [], keyOf, (one) => instanceRow(gpu, one), (item, one) => item.update(one));
  }
  return { element, update, end: () => spark?.end(), spark };
}

/* More GPUs than an eye tells apart, one by one. */
const CROWD = 16;
const isCrowd = () => seen.gpus.length > CROWD;

/* Cards for all GPUs, kept as they come and go. */
export function cardGrid() {
  const element = h("div", { class: "cards" }), cards = new Map();
  let size = null;
  function update() {
    const instances = seen.gpus.reduce((n, gpu) => n + (gpu.instances?.length ?? 0), 0);
    const wanted = isCrowd() && !instances ? "tiny" : seen.gpus.length > 16 || instances > 16 ? "small" : "";
    if (wanted !== size) {
      size = wanted;
      end();
      element.replaceChildren();
      element.madeOf = undefined;
      element.className = `cards ${size}`.trim();
    }
    each(element, seen.gpus, (gpu) => `${keyOf(gpu)} ${gpu.instances?.length ? "mig" : ""}`, (gpu) => {
      const card = size === "tiny" ? gpuTile(gpu) : gpuCard(gpu, { small: size === "small" });
      card.element.card = card;
      cards.set(card.element, card);
      return card.element;
    }, (item, gpu) => item.card.update(gpu));
    for (const [made, card] of cards)
      if (!made.isConnected && element.isConnected) {
        card.end();
        cards.delete(made);
      }
  }
  function end() {
    for (const card of cards.values())
      card.end();
    cards.clear();
  }
  return { element, update, end };
}

/* --- events --- */

export function eventItem(event) {
  const what = [event.kind, event.code !== null && event.code !== undefined ? event.code : "", event.word].filter((x) => x !== "" && x !== null && x !== undefined).join(" ");
  const where = event.gpu === null || event.gpu === undefined ? event.pci ?? "" : `GPU ${event.gpu}`;
  return h("li", {}, h("time", { datetime: event.time }, event.time ? when(Date.parse(event.time)) : ""), h("b", {}, what), h("span", {}, where), h("span", { class: "event-text" }, event.text ?? ""),
    event.incident ? h("a", { href: `#/incident/${event.incident}` }, "incident") : h("span", { class: "quiet" }, event.origin ?? ""));
}

/* The newest events; `more` shows up to all that are kept. */
export function eventList(only = () => true, few = 15) {
  const list = h("ol", { class: "events" }), none = h("p", { class: "quiet" }, "No event since the agent started.");
  const more = h("button", { type: "button", onclick: () => { all = !all; update(); } });
  let all = false;
  function update() {
    const chosen = seen.events.filter(only), cut = chosen.slice(0, all ? 200 : few);
    each(list, cut, (event) => event.n, eventItem);
    none.hidden = chosen.length > 0;
    more.hidden = chosen.length <= few;
    say(more, all ? "Fewer" : `Show ${Math.min(200, chosen.length)} of ${chosen.length}`);
  }
  return { element: h("div", {}, list, none, more), update };
}

