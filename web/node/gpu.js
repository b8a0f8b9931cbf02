// SPDX-License-Identifier: Apache-2.0
// One GPU, or one MIG device of it: what it does, what is wrong with it, who has it, its curves down to tenths of a
// second, and every reading there is. Of a GPU that is lost: what it last gave.
import { keyOf, number, seen, unitOf, when } from "./agent.js";
import { testFacts } from "./bench.js";
import { Chart, chartGroup, lineOf, toolbar } from "./charts.js";
import { absent, each, fill, h, table } from "./element.js";
import { ever, inMinutes } from "./history.js";
import { crumbs, eventList, facts, keepScroll, notThere, shown, stateCell, verdictBlock } from "./parts.js";
import { gpuRows } from "./rows.js";
import { findGpu, gpuLink, gpuName, holdingsOf, instanceLink, instanceName, isAbout, processHome, processName, processesOf, sinceOf, smOf } from "./state.js";
import { marks, timeline } from "./timeline.js";
import { ABSENCES, M, bytes, celsius, gibibytes, lasting, megahertz, modelOf, percent, rate, reading, short, watts, whyAbsent } from "./words.js";

const AROUND_S = 300;

/* A dashed line of a limit. */
const limitLine = (device, name, label, scale) => ({ device, name, label, scale, colour: "--bad", width: 1, dash: [5, 4] });

/* Limits that are read once are the same all the time. */
const constant = (value, label) => (value === null ? [] : [{ label, colour: "--bad", width: 1, dash: [5, 4], at: () => value }]);

/* Of the readings that this device has ever had. */
const has = (device, name) => number(device, name) !== null || ever(keyOf(device), name);

function chartsOf(find, only) {
  const key = () => keyOf(find() ?? {}), dev = () => find() ?? { metrics: {} };
  const wants = (names) => () => (find() ? [[find(), names]] : []);
  const why = (name) => () => `Not shown: ${whyAbsent(dev().metrics?.[name])}.`;
  const lines = (list) => (span) => list.filter(([name]) => has(dev(), name)).flatMap(([name, label, ink, options]) => lineOf(key(), name, label, ink, options ?? {})(span));
  const make = (title, note, list, format, more) => new Chart({ title, note, format, lines: lines(list), wants: wants(list.map(([n]) => n)), why: why(list[0][0]), marks: () => marks(only), ...more });
  const work = make("SM activity, utilisation", null, [[M.util, "utilisation", "--util", { scale: 0.01, width: 1.2 }], [M.sm, "SM activity", "--sm", { width: 2 }]], percent, { max: 1 });
  const plain = work.options.lines;
  work.options.lines = (span) => {
    const made = plain(span);
    work.options.between = !inMinutes(span) && made.length === 2 ? [0, 1, "--occupied"] : null;
    return made;
  };
  return [work,
    make("Inside the multiprocessors", null, [[M.tensor, "tensor", "--c1"], [M.dram, "DRAM", "--c2"], [M.occupancy, "occupancy", "--c3"]], percent, { max: 1 }),
    make("Memory used", null, [[M.used, "used", "--c1", { scale: 1 / 1024 }]], gibibytes, { max: () => (number(dev(), M.total) ?? 0) / 1024 }),
    make("Power", null, [[M.power, "power", "--c1"]], watts, { wants: wants([M.power, M.limit]), lines: (span) => (has(dev(), M.power) ? [...lineOf(key(), M.power, "power", "--c1")(span), ...(has(dev(), M.limit) ? [limitLine(key(), M.limit, "limit")] : [])] : []) }),
    make("Temperature", null, [[M.temp, "GPU", "--c1"]], celsius, { loose: true, wants: wants([M.temp, M.memTemp]),
      lines: (span) => [...(has(dev(), M.temp) ? lineOf(key(), M.temp, "GPU", "--c1")(span) : []), ...(has(dev(), M.memTemp) ? lineOf(key(), M.memTemp, "memory", "--c2")(span) : []), ...(has(dev(), M.temp) ? constant(number(dev(), M.slowdown), "slows down") : [])] }),
    make("Clocks", null, [[M.clock, "SM", "--c1"], [M.memClock, "memory", "--c2"]], megahertz, {}),
    make("Clocks held down", "share of the time", [[M.capNs, "power limit", "--c1", { scale: 1e-9 }], [M.softHeatNs, "heat (driver)", "--c2", { scale: 1e-9 }], [M.hardHeatNs, "heat (hardware)", "--c4", { scale: 1e-9 }], [M.brakeNs, "power brake", "--c3", { scale: 1e-9 }]], percent, { max: 1 }),
    make("PCIe", null, [[M.pcieTx, "sent", "--c1"], [M.pcieRx, "received", "--c2"]], rate, {}),
    make("NVLink", null, [[M.nvTx, "sent", "--c1"], [M.nvRx, "received", "--c2"]], rate, {}),
  ];
}

const orAbsent = (value, format, why = "not reported") => (value === undefined || value === null ? absent(why) : format(value));

function processTable(processes, gpu) {
  const split = gpu.instances?.length > 0;
  return table("Processes", ["Process", { text: "Pid", number: true }, "User", "Pod, job or container", ...(split ? ["MIG"] : []), { text: "GPU memory", number: true }, { text: "Utilisation", number: true }, { text: "Host memory", number: true }, { text: "Runs for", number: true }],
    processes.slice(0, 100).map((p) => [h("a", { href: `#/process/${p.pid}` }, processName(p)), String(p.pid), p.user ?? orAbsent(p.uid, String, "not known"), processHome(p) || h("span", { class: "quiet" }, "none that is known"),
      ...(split ? [p.gpu_instance === undefined ? "–" : `${p.gpu_instance}/${p.compute_instance ?? 0}`] : []), orAbsent(p.used_bytes, bytes), orAbsent(p.sm_percent, (v) => `${v} %`), orAbsent(p.rss_bytes || null, bytes, "not known"), runsFor(p)]),
    "The driver lists no process.");
}

/* start_seconds counts from the node's boot. */
function runsFor(p) {
  const age = seen.boot && p.start_seconds ? (seen.timeMs - Date.parse(seen.boot)) / 1000 - p.start_seconds : -1;
  return age >= 0 ? lasting(age) : absent("not known");
}

/* Who has it, each with its part and how that was found. */
function holderTable(device, gpu) {
  const split = gpu.instances?.length && device === gpu;
  return table("Owners", ["Owner", ...(split ? ["MIG"] : []), "State", "Activity", { text: "Share", number: true }, "Share by", { text: "GPU memory", number: true }, { text: "Processes", number: true }],
    holdingsOf(device).slice(0, 100).map((one) => [one.owner.text, ...(split ? [one.instance ? `${one.instance.gpu_instance}/${one.instance.compute_instance}` : "–"] : []), one.state.replace("_", " "), one.activity,
      percent(one.share), one.attribution, one.memory_bytes ? bytes(one.memory_bytes) : absent("none"), String(one.processes.length)]), "No owner.");
}

const none = (metric) => (metric.value === null || metric.value === undefined ? 1 : 0);

/* Every reading with unit, age or reason: first those that have a value, by name. */
function everything(find) {
  const filter = h("input", { type: "search", placeholder: "part of a name", "aria-label": "Filter readings", oninput: () => update() }), body = h("div");
  const element = h("details", { class: "everything", ontoggle: () => update() }, h("summary", {}, "Every reading"), h("label", {}, "Filter ", filter), body);
  function update() {
    const device = find();
    if (!element.open || !device)
      return;
    const rows = Object.entries(device.metrics).filter(([name]) => name.toLowerCase().includes(filter.value.toLowerCase()))
      .sort(([a, one], [b, other]) => none(one) - none(other) || (a < b ? -1 : 1)).map(([name, m]) => [name, none(m) ? absent(`${whyAbsent(m)}${m.absent && ABSENCES[m.absent] ? ` (${m.absent})` : ""}`) : reading(m.value, unitOf(name)), none(m) ? "" : String(m.value),
        m.age_seconds === undefined ? "" : `${short(m.age_seconds)} s`]);
    keepScroll(body, () => fill(body, table("Every reading", ["Reading", { text: "Value or reason", number: true }, { text: "As read", number: true }, { text: "Age", number: true }], rows, "no reading of that name")));
  }
  return { element, update };
}

/* The parts that a GPU and a MIG device have in common. */
function common(find, only, speak, strip, tenths) {
  const charts = chartsOf(find, only), tools = toolbar({ tenths }), all = everything(find), owners = h("div"), processes = h("div");
  let last = "";
  return { all, charts, tools,
    curves: h("section", { "aria-labelledby": "curves-h" }, h("h2", { id: "curves-h", class: "spoken" }, "Over time"), tools.element, chartGroup(charts, speak, strip)),
    who: h("section", { "aria-labelledby": "who-h" }, h("h2", { id: "who-h" }, "Who uses it"), owners, processes),
    update(device, gpu, list, what) {
      tools.update();
      const text = JSON.stringify([list, holdingsOf(device)]);
      if (text !== last) {
        keepScroll(owners, () => fill(owners, holderTable(device, gpu)));
        keepScroll(processes, () => fill(processes, gpu.processes ? processTable(list, gpu) : h("p", { class: "quiet" }, gpu.processes_absent ? `Not known: ${ABSENCES[gpu.processes_absent] ?? gpu.processes_absent}.` : "Processes are not reported.")));
      }
      last = text;
      if (what !== "tick" || seen.tick % 5 === 0)
        all.update();
    }, end: () => charts.forEach((chart) => chart.end()) };
}

export function gpuView({ speak, id }) {
  const find = () => findGpu(id), first = find();
  if (!first)
    return notThere(seen.status === null ? "Nothing is known yet." : "There is no such GPU on this node.");
  const mine = (gpu) => keyOf(gpu) === keyOf(first), only = (i) => isAbout(i, find() ?? {}) || i.device?.kind === "node", own = (i) => isAbout(i, find() ?? {});
  const rows = gpuRows(mine, true), strip = timeline(only, (e) => e.gpu === first.index), shared = common(find, only, speak, [strip.element], true);
  const events = eventList((e) => e.gpu === first.index && e.gpu !== null, own, 10), about = h("div");
  const element = h("div", {}, crumbs(h("span", {}, gpuName(first))),
    h("section", { "aria-labelledby": "gpu-h", class: "tight" }, h("h2", { id: "gpu-h", class: "spoken" }, gpuName(first)), rows.element), shared.curves, shared.who,
    h("section", { "aria-labelledby": "noticed-h" }, h("h2", { id: "noticed-h" }, "Recent events"), events.element),
    h("section", { "aria-labelledby": "facts-h" }, h("h2", { id: "facts-h" }, "What it is"), about, shared.all.element));

  function update(what) {
    const gpu = find();
    if (!gpu)
      return;
    rows.update();
    if (what !== "tick")
      strip.update();
    shared.update(gpu, gpu, processesOf(gpu), what);
    events.update();
    if (what !== "tick" || seen.tick % 5 === 0)
      fill(about, facts([["Model", modelOf(gpu.name)], ["UUID", gpu.uuid], ["PCI address", gpu.pci], ["Serial", gpu.serial], ["VBIOS", gpu.metrics?.DCGM_FI_DEV_VBIOS_VERSION?.value ?? gpu.DCGM_FI_DEV_VBIOS_VERSION], ["State", `${gpu.state}, for ${sinceOf(gpu.since)}`],
        ["MIG", gpu.mig ? `on, ${gpu.mig_layout ?? `${gpu.instances.length} devices`}` : ""], ["MIG layout changed", gpu.mig_change && `${when(Date.parse(gpu.mig_changed))}: ${gpu.mig_change}`],
        ["Late calls", gpu.missed_calls ? String(gpu.missed_calls) : ""], ["Drained", gpu.drained && "yes"], ...testFacts(gpu)], "wide"));
  }
  const lostAt = first.state !== "up" && first.since ? Date.parse(first.since) / 1000 : null;
  return { title: gpuName(first), element, update, axis: lostAt ? aroundOf(lostAt) : {}, end() {
    strip.end();
    shared.end();
  } };
}

/* What charts show of a failure: five minutes before and after it, in seconds where they are still kept. */
export function aroundOf(at) {
  const now = seen.timeMs / 1000;
  return { span: at - AROUND_S > now - 600 ? "second" : "minute", zoom: now - at < AROUND_S && at - AROUND_S > now - 600 ? null : [at - AROUND_S, at + AROUND_S] };
}

export function migView({ speak, id, instance }) {
  const find = () => findGpu(id)?.instances?.find((one) => `${one.gpu_instance}.${one.compute_instance}` === instance), gpu = findGpu(id), first = find();
  if (!first)
    return notThere(seen.status === null ? "Nothing is known yet." : "There is no such MIG device now; they come and go.");
  const title = `${first.profile ?? "MIG device"} ${instanceName(first)} of ${gpuName(gpu)}`, state = stateCell(), shared = common(find, (i) => isAbout(i, gpu), speak, [], false), verdict = verdictBlock(), numbers = h("div"), siblings = h("ul", { class: "siblings" });
  const element = h("div", {}, crumbs(h("a", { href: gpuLink(gpu) }, gpuName(gpu)), h("span", {}, `MIG ${instanceName(first)}`)),
    h("section", { "aria-labelledby": "mig-h" }, h("h2", { id: "mig-h" }, title, " "), state.element, verdict.element, numbers, siblings), shared.curves, shared.who,
    h("section", { "aria-labelledby": "facts-h" }, h("h2", { id: "facts-h" }, "Every reading of it"), shared.all.element));
  shared.all.element.open = true;
  function update(what) {
    const one = find(), whole = findGpu(id);
    if (!one)
      return;
    state.update(one, null);
    verdict.update(one);
    fill(numbers, facts([["SM activity", smOf(one) === null ? shown(one, M.sm, percent) : percent(smOf(one))], ["Memory", shown(one, M.used, (v) => bytes(v * 1048576))], ["UUID", one.uuid], ...testFacts(one)], "wide"));
    each(siblings, whole.instances, keyOf, (other) => h("li", {}, h("a", { href: instanceLink(whole, other), "aria-current": keyOf(other) === keyOf(first) ? "page" : null }, `${instanceName(other)} ${other.profile ?? ""}`)));
    shared.update(one, whole, processesOf(whole).filter((p) => p.gpu_instance === one.gpu_instance && (p.compute_instance ?? 0) === one.compute_instance), what);
  }
  return { title, element, update, end: shared.end };
}
