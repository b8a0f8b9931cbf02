// SPDX-License-Identifier: Apache-2.0
// One GPU, or one MIG device of it: what it does, what is wrong with it, who has it, its curves down to tenths of a
// second, and every reading there is.
import { keyOf, number, seen, unitOf, when } from "./agent.js";
import { Chart, lineOf, toolbar } from "./charts.js";
import { absent, each, fill, h, mark, say, table } from "./element.js";
import { ever, inMinutes } from "./history.js";
import { keepScroll } from "./debug.js";
import { busyBars, eventList, gpuCard, gpuLink, gpuName, incidentList, instanceLink, instanceName, isAbout, openIncidents, processHome, processName, processesOf, sinceOf,
  activityOf, holdingsOf, tellActivity, verdictBlock } from "./parts.js";
import { chartGroup, keyHelp } from "./oncall.js";
import { marks, timeline } from "./timeline.js";
import { ABSENCES, M, bytes, celsius, gibibytes, grouped, lasting, megahertz, modelOf, percent, rate, reading, short, watts, whyAbsent } from "./words.js";

export const findGpu = (id) => seen.gpus.find((gpu) => String(gpu.index) === id || gpu.uuid === decodeURIComponent(id) || gpu.pci === decodeURIComponent(id));
const share = (v) => percent(v);

/* A dashed line of a limit. */
const limitLine = (device, name, label, scale) => ({ device, name, label, scale, colour: "--bad", width: 1, dash: [5, 4] });

/* Limits that are read once are the same all the time. */
function constant(value, label) {
  return value === null ? [] : [{ label, colour: "--bad", width: 1, dash: [5, 4], at: () => value }];
}

/* Of the readings that this device has ever had. */
const has = (device, name) => number(device, name) !== null || ever(keyOf(device), name);

function chartsOf(find, only) {
  const key = () => keyOf(find() ?? {}), dev = () => find() ?? { metrics: {} };
  const wants = (names) => () => (find() ? [[find(), names]] : []);
  const why = (name) => () => `Not shown: ${whyAbsent(dev().metrics?.[name])}.`;
  const lines = (list) => (span) => list.filter(([name]) => has(dev(), name)).flatMap(([name, label, ink, options]) => lineOf(key(), name, label, ink, options ?? {})(span));
  const make = (title, note, list, format, more) => new Chart({ title, note, format, lines: lines(list), wants: wants(list.map(([n]) => n)), why: why(list[0][0]), marks: () => marks(only), height: 150, ...more });
  const work = make("Busy or only occupied", "shaded: occupied, not busy", [[M.util, "utilisation", "--util", { scale: 0.01, width: 1.2 }], [M.sm, "SM active", "--sm", { width: 2 }]], share, { max: 1 });
  const plain = work.options.lines;
  work.options.lines = (span) => {
    const made = plain(span);
    if (!inMinutes(span) && made.length === 2)
      work.options.between = [0, 1, "--occupied"];
    else
      work.options.between = null;
    return made;
  };
  return [work,
    make("Inside the multiprocessors", null, [[M.tensor, "tensor", "--c1", {}], [M.dram, "DRAM", "--c2", {}], [M.occupancy, "occupancy", "--c3", {}]], share, { max: 1 }),
    make("Memory used", null, [[M.used, "used", "--c1", { scale: 1 / 1024 }]], gibibytes, { max: () => (number(dev(), M.total) ?? 0) / 1024 }),
    new Chart({ title: "Power", height: 150, format: watts, marks: () => marks(only), wants: wants([M.power, M.limit]), why: why(M.power),
      lines: (span) => (has(dev(), M.power) ? [...lineOf(key(), M.power, "power", "--c1", {})(span), ...(has(dev(), M.limit) ? [limitLine(key(), M.limit, "limit")] : [])] : []) }),
    new Chart({ title: "Temperature", height: 150, format: celsius, loose: true, marks: () => marks(only), wants: wants([M.temp, M.memTemp]), why: why(M.temp),
      lines: (span) => [...(has(dev(), M.temp) ? lineOf(key(), M.temp, "GPU", "--c1", {})(span) : []), ...(has(dev(), M.memTemp) ? lineOf(key(), M.memTemp, "memory", "--c2", {})(span) : []),
        ...(has(dev(), M.temp) ? constant(number(dev(), M.slowdown), "slows down") : [])] }),
    make("Clocks", null, [[M.clock, "SM", "--c1", {}], [M.memClock, "memory", "--c2", {}]], megahertz, {}),
    make("Clocks held down", "share of the time", [[M.capNs, "power limit", "--c1", { scale: 1e-9 }], [M.softHeatNs, "heat (driver)", "--c2", { scale: 1e-9 }], [M.hardHeatNs, "heat (hardware)", "--c4", { scale: 1e-9 }],
      [M.brakeNs, "power brake", "--c3", { scale: 1e-9 }]], share, { max: 1 }),
    make("PCIe", null, [[M.pcieTx, "sent", "--c1", {}], [M.pcieRx, "received", "--c2", {}]], rate, {}),
    make("NVLink", null, [[M.nvTx, "sent", "--c1", {}], [M.nvRx, "received", "--c2", {}]], rate, {}),
  ];
}

/* Charts that have nothing to draw and never had are one line together. */
function hideEmpty(charts, note) {
  const none = charts.filter((chart) => chart.lines && chart.lines.length === 0);
  for (const chart of charts)
    chart.element.hidden = none.includes(chart);
  say(note, grouped("Not drawn", none.map((chart) => [chart.options.title, (chart.options.why?.() ?? "").replace(/^Not shown: |\.$/g, "")])));
}

function processTable(processes, gpu) {
  return table("Processes", ["Process", { text: "Pid", number: true }, "User", "Pod, job or container", gpu.instances?.length && "MIG", { text: "GPU memory", number: true }, { text: "SM", number: true }, { text: "Host memory", number: true },
    { text: "Runs for", number: true }].filter(Boolean),
  processes.slice(0, 100).map((p) => [h("a", { href: `#/process/${p.pid}` }, processName(p)), String(p.pid), p.user ?? (p.uid === undefined ? absent("not known") : String(p.uid)), processHome(p) || h("span", { class: "quiet" }, "none that is known"),
    ...(gpu.instances?.length ? [p.gpu_instance === undefined ? "–" : `${p.gpu_instance}/${p.compute_instance ?? 0}`] : []),
    p.used_bytes === undefined || p.used_bytes === null ? absent("not reported") : bytes(p.used_bytes), p.sm_percent === undefined || p.sm_percent === null ? absent("not reported") : `${p.sm_percent} %`,
    p.rss_bytes ? bytes(p.rss_bytes) : absent("not known"), runsFor(p)]),
  "No process that the driver tells of.");
}

/* start_seconds counts from the node's boot. */
function runsFor(p) {
  const age = seen.boot && p.start_seconds ? (seen.timeMs - Date.parse(seen.boot)) / 1000 - p.start_seconds : -1;
  return age >= 0 ? lasting(age) : absent("not known");
}

/* Who has it, each with its part and how that was found. */
function holderTable(device, gpu) {
  const split = gpu.instances?.length && device === gpu;
  return table("Owners", ["Owner", split && "MIG", "State", "Activity", { text: "Share", number: true }, "Share by", { text: "GPU memory", number: true }, { text: "Processes", number: true }].filter(Boolean),
    holdingsOf(device).slice(0, 100).map((one) => [one.owner.text, ...(split ? [one.instance ? `${one.instance.gpu_instance}/${one.instance.compute_instance}` : "–"] : []), one.state.replace("_", " "), one.activity,
      percent(one.share), one.attribution, one.memory_bytes ? bytes(one.memory_bytes) : absent("none"), String(one.processes.length)]), "Nobody holds it.");
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
      .sort(([a, one], [b, other]) => none(one) - none(other) || (a < b ? -1 : 1)).map(([name, m]) => [name, m.value === null || m.value === undefined ? absent(`${whyAbsent(m)}${m.absent && ABSENCES[m.absent] ? ` (${m.absent})` : ""}`) : reading(m.value, unitOf(name)), m.value === null || m.value === undefined ? "" : String(m.value),
        m.age_seconds === undefined ? "" : `${short(m.age_seconds)} s`]);
    keepScroll(body, () => fill(body, table("Every reading", ["Reading", { text: "Value or reason", number: true }, { text: "As read", number: true }, { text: "Age", number: true }], rows, "no reading of that name")));
  }
  return { element, update };
}

function notThere(text) {
  const element = h("section", {}, h("h2", {}, "Not here"), h("p", {}, text), h("p", {}, h("a", { href: "#/" }, "To the node")));
  return { title: "Not here", element, update() {}, end() {} };
}

export function gpuView({ speak, id }) {
  const find = () => findGpu(id), first = find();
  if (!first)
    return notThere(seen.status === null ? "Nothing is known yet." : "There is no such GPU on this node.");
  const card = gpuCard(first, { small: false }), incidents = h("ol", { class: "incidents" }), fine = h("p", { class: "fine" }, "All healthy.");
  const only = (i) => isAbout(i, find() ?? {}) || i.device?.kind === "node", charts = chartsOf(find, only), tools = toolbar({ tenths: true }), strip = timeline(only, (e) => e.gpu === first.index);
  const processes = h("div"), owners = h("div"), verdict = verdictBlock(), none = h("p", { class: "quiet" }), all = everything(find), facts = h("dl", { class: "facts wide" });
  const events = eventList((e) => e.gpu === first.index && e.gpu !== null, 10), undrawn = h("p", { class: "quiet" });
  const element = h("div", {}, h("nav", { class: "crumbs", "aria-label": "Where this is" }, h("a", { href: "#/" }, "Node"), h("span", {}, gpuName(first))),
    h("div", { class: "two" }, h("section", { "aria-labelledby": "gpu-h", class: "bare" }, h("h2", { id: "gpu-h", class: "spoken" }, gpuName(first)), card.element),
      h("section", { "aria-labelledby": "wrong-h" }, h("h2", { id: "wrong-h" }, "Problems"), incidents, fine, h("h3", {}, "What takes its time"), verdict.element, none)),
    h("section", { "aria-labelledby": "curves-h" }, h("h2", { id: "curves-h" }, "Over time"), tools.element, chartGroup(charts, speak, [strip.element]), undrawn, keyHelp()),
    h("section", { "aria-labelledby": "who-h" }, h("h2", { id: "who-h" }, "Who uses it"), owners, processes),
    h("section", { "aria-labelledby": "noticed-h" }, h("h2", { id: "noticed-h" }, "Recent events"), events.element),
    h("section", { "aria-labelledby": "facts-h" }, h("h2", { id: "facts-h" }, "What it is"), facts, all.element));
  let lastProcesses = "";

  function update(what) {
    const gpu = find();
    tools.update();
    if (!gpu)
      return;
    card.update(gpu);
    const open = openIncidents().filter((i) => isAbout(i, gpu));
    incidentList(incidents, open);
    fine.hidden = open.length > 0 || gpu.state !== "up";
    verdict.update(gpu);
    say(none, gpu.state !== "up" ? "No data from this GPU." : !verdict.element.hidden ? "" : `${activityOf(gpu).word}${activityOf(gpu).text ? `: ${activityOf(gpu).text}` : ""}`);
    if (what !== "tick")
      strip.update();
    hideEmpty(charts, undrawn);
    const list = processesOf(gpu), text = JSON.stringify([list, holdingsOf(gpu)]);
    if (text !== lastProcesses || !processes.firstChild) {
      keepScroll(owners, () => fill(owners, holderTable(gpu, gpu)));
      keepScroll(processes, () => fill(processes, gpu.processes ? processTable(list, gpu) : h("p", { class: "quiet" }, gpu.processes_absent ? `Not known: ${ABSENCES[gpu.processes_absent] ?? gpu.processes_absent}.` : "Processes are not reported.")));
    }
    lastProcesses = text;
    events.update();
    if (what !== "tick" || seen.tick % 5 === 0) {
      fill(facts, [["Model", modelOf(gpu.name)], ["UUID", gpu.uuid], ["PCI address", gpu.pci], ["Serial", gpu.serial], ["VBIOS", gpu.metrics?.DCGM_FI_DEV_VBIOS_VERSION?.value ?? gpu.DCGM_FI_DEV_VBIOS_VERSION], ["State", `${gpu.state}, for ${sinceOf(gpu.since)}`],
        ["MIG", gpu.mig ? `on, ${gpu.mig_layout ?? `${gpu.instances.length} devices`}` : "off"], ["MIG layout changed", gpu.mig_change && `${when(Date.parse(gpu.mig_changed))}: ${gpu.mig_change}`],
        ["Late calls", gpu.missed_calls === undefined ? "" : String(gpu.missed_calls)], ["Drained", gpu.drained && "yes"]].filter(([, v]) => v).map(([name, v]) => h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, v))));
      all.update();
    }
  }
  return { title: gpuName(first), element, update, end() {
    card.end();
    strip.end();
    charts.forEach((chart) => chart.end());
  } };
}

export function migView({ speak, id, instance }) {
  const find = () => findGpu(id)?.instances?.find((one) => `${one.gpu_instance}.${one.compute_instance}` === instance), gpu = findGpu(id), first = find();
  if (!first)
    return notThere(seen.status === null ? "Nothing is known yet." : "There is no such MIG device now; they come and go.");
  const title = `${first.profile ?? "MIG device"} ${instanceName(first)} of ${gpuName(gpu)}`, busy = busyBars(), charts = chartsOf(find, (i) => isAbout(i, gpu)), tools = toolbar({ tenths: false }), all = everything(find);
  const processes = h("div"), owners = h("div"), verdict = verdictBlock(), chip = h("span", { class: "chip" }), undrawn = h("p", { class: "quiet" }), siblings = h("ul", { class: "siblings" });
  const element = h("div", {}, h("nav", { class: "crumbs", "aria-label": "Where this is" }, h("a", { href: "#/" }, "Node"), h("a", { href: gpuLink(gpu) }, gpuName(gpu)), h("span", {}, `MIG ${instanceName(first)}`)),
    h("section", { "aria-labelledby": "mig-h" }, h("h2", { id: "mig-h" }, title, " ", chip), busy.element, verdict.element, h("p", { class: "quiet" }, first.uuid ?? ""), siblings),
    h("section", { "aria-labelledby": "curves-h" }, h("h2", { id: "curves-h" }, "Over time"), tools.element, chartGroup(charts, speak), undrawn, keyHelp()),
    h("section", { "aria-labelledby": "who-h" }, h("h2", { id: "who-h" }, "Who uses it"), owners, processes),
    h("section", { "aria-labelledby": "facts-h" }, h("h2", { id: "facts-h" }, "What is read of it"), all.element));
  all.element.open = true;
  function update(what) {
    const one = find(), whole_ = findGpu(id);
    tools.update();
    if (!one)
      return;
    busy.update(one);
    tellActivity(chip, activityOf(one));
    hideEmpty(charts, undrawn);
    verdict.update(one);
    each(siblings, whole_.instances, keyOf, (other) => h("li", {}, h("a", { href: instanceLink(whole_, other), "aria-current": keyOf(other) === keyOf(first) ? "page" : null }, `${instanceName(other)} ${other.profile ?? ""}`)));
    if (what !== "tick" || seen.tick % 5 === 0) {
      keepScroll(owners, () => fill(owners, holderTable(one, whole_)));
      keepScroll(processes, () => fill(processes, processTable(processesOf(whole_).filter((p) => p.gpu_instance === one.gpu_instance && (p.compute_instance ?? 0) === one.compute_instance), whole_)));
      all.update();
    }
  }
  return { title, element, update, end: () => charts.forEach((chart) => chart.end()) };
}
