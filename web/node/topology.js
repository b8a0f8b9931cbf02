// SPDX-License-Identifier: Apache-2.0
// Where GPUs and network adapters are: by NUMA node and PCIe switch, and how each pair reaches the other.
import { keyOf, seen } from "./agent.js";
import { absent, fill, h, table } from "./element.js";
import { keepScroll, stateMark } from "./parts.js";
import { activityOf, gpuLink, gpuName, linksOf, severityOf, smOf, whoText } from "./state.js";
import { groupBy, percent, whole } from "./words.js";

const stepsOf = (thing) => (thing.pcie_path ?? "").split("/").filter(Boolean);
/* The root port that a device is behind; "" where it is not known. */
const portOf = (thing) => stepsOf(thing).slice(0, 2).join("/");

/* How two devices reach each other over PCIe, in the words of `nvidia-smi topo`; null: not known. */
function reach(a, b) {
  const [one, other] = [stepsOf(a), stepsOf(b)];
  if (!one.length || !other.length)
    return null;
  if (a.numa_node !== b.numa_node)
    return "SYS";
  const same = one.findIndex((step, i) => step !== other[i]);
  return same < 1 ? "NODE" : same === 1 ? "PHB" : one.length - same <= 2 && other.length - same <= 2 ? "PIX" : "PXB";
}
const MEANS = { PIX: "one PCIe switch", PXB: "several PCIe switches", PHB: "one PCIe root", NODE: "one NUMA node", SYS: "between NUMA nodes" };

/* NVLinks of a GPU that lead to where those of another lead too. */
function linksBetween(a, b) {
  const ends = new Set((b.nvlinks ?? []).filter((link) => link.active).map((link) => link.remote)), own = (b.pci ?? "").toLowerCase().replace(/^0000/, "");
  return (a.nvlinks ?? []).filter((link) => link.active && (ends.has(link.remote) || link.remote?.toLowerCase() === own)).length;
}

function pair(a, b) {
  if (a === b)
    return "·";
  const links = a.nvlinks && b.nvlinks ? linksBetween(a, b) : 0, over = reach(a, b), peer = a.peers?.find((p) => p.gpu === b.index);
  if (peer?.nvlink_status && !["ok", "not_supported"].includes(peer.nvlink_status))
    return h("span", { class: "bad" }, peer.nvlink_status.replaceAll("_", " "));
  return links ? h("span", { class: "near" }, `NV${links}`) : over ? h("span", { title: MEANS[over] }, over) : absent("not known");
}

function matrix() {
  const adapters = seen.node.adapters ?? [], all = [...seen.gpus, ...adapters], name = (one) => (one.metrics ? String(one.index ?? one.pci) : one.name);
  return table("How GPUs and adapters reach each other", ["GPU", ...all.map(name)], seen.gpus.map((gpu) => [h("a", { href: gpuLink(gpu) }, gpuName(gpu)), ...all.map((other) => pair(gpu, other))]), "No GPU.");
}

function gpuBox(gpu) {
  const sm = smOf(gpu), links = linksOf(gpu);
  return h("a", { class: "box", href: gpuLink(gpu), "data-severity": severityOf(gpu) }, h("b", {}, gpuName(gpu)), stateMark(activityOf(gpu).word), h("span", { class: "quiet" }, [sm !== null && gpu.state === "up" && percent(sm), links && `${links.up} NVLinks`, whoText(gpu)].filter(Boolean).join(" · ")));
}

/* A box per NUMA node, in it a box per PCIe root port with what is behind it. */
function drawing() {
  const nodes = groupBy([...seen.gpus, ...(seen.node.adapters ?? [])], (one) => one.numa_node ?? null);
  const box = (one) => (one.metrics ? gpuBox(one) : h("span", { class: "box" }, h("b", {}, one.name), h("span", { class: "quiet" }, "network adapter")));
  return h("div", { class: "numa" }, [...nodes].sort(([a], [b]) => (a ?? 99) - (b ?? 99)).map(([numa, things]) => h("div", { class: "numa-node" },
    h("h3", {}, numa === null ? "NUMA node not known" : `NUMA node ${numa}`, h("span", { class: "quiet" }, things[0].cpus ? ` CPUs ${things[0].cpus}` : "")),
    h("div", { class: "ports" }, [...groupBy(things, portOf).values()].map((behind) => h("div", { class: "port" }, behind.map(box)))))));
}

/* Links that are down or have erred. */
function links() {
  const rows = seen.gpus.flatMap((gpu) => (gpu.nvlinks ?? []).filter((link) => link.active === false || Object.values(link.errors ?? {}).some((n) => n > 0))
    .map((link) => [`${gpuName(gpu)} link ${link.link}`, link.active ? "up" : h("span", { class: "bad" }, "down"), Object.entries(link.errors ?? {}).filter(([, n]) => n > 0).map(([name, n]) => `${name.replaceAll("_", " ")} ${whole(n)}`).join(", ")]));
  return rows.length ? h("div", {}, h("h3", {}, "NVLinks that are down or have errors"), table("NVLinks that are down or have errors", ["Link", "State", "Errors"], rows.slice(0, 200))) : null;
}

export function topology() {
  const where = h("div"), pairs = h("div"), legend = h("p", { class: "quiet" }, "NV18: NVLink, with the number of links. ", Object.entries(MEANS).map(([word, text]) => `${word}: ${text}. `));
  const element = h("div", {}, h("section", { "aria-labelledby": "where-h" }, h("h2", { id: "where-h" }, "Where GPUs and adapters are"), where), h("section", { "aria-labelledby": "pairs-h" }, h("h2", { id: "pairs-h" }, "How they reach each other"), pairs, legend));
  let last = "";
  function update() {
    const text = JSON.stringify(seen.gpus.map((gpu) => [keyOf(gpu), gpu.state, activityOf(gpu).word, severityOf(gpu), Math.round(20 * (smOf(gpu) ?? 0)), gpu.nvlinks?.filter((l) => l.active).length, whoText(gpu)]));
    if (text === last || (element.contains(document.activeElement) && document.activeElement.closest("table")))
      return;
    last = text;
    keepScroll(where, () => fill(where, drawing()));
    keepScroll(pairs, () => fill(pairs, matrix(), links()));
  }
  return { title: "Topology", element, update, end() {} };
}
