// SPDX-License-Identifier: Apache-2.0
// The page's vocabulary: which readings it shows under which name, and how numbers, times and absences are written.
// Pure; nothing here touches the page.

/* Short names of the readings that have a place of their own. */
export const M = {
  util: "DCGM_FI_DEV_GPU_UTIL", memUtil: "DCGM_FI_DEV_MEM_COPY_UTIL", sm: "DCGM_FI_PROF_SM_ACTIVE",
  engine: "DCGM_FI_PROF_GR_ENGINE_ACTIVE", occupancy: "DCGM_FI_PROF_SM_OCCUPANCY",
  tensor: "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", dram: "DCGM_FI_PROF_DRAM_ACTIVE",
  used: "DCGM_FI_DEV_FB_USED", free: "DCGM_FI_DEV_FB_FREE", total: "DCGM_FI_DEV_FB_TOTAL",
  reserved: "DCGM_FI_DEV_FB_RESERVED",
  power: "DCGM_FI_DEV_POWER_USAGE", limit: "DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
  energy: "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
  temp: "DCGM_FI_DEV_GPU_TEMP", memTemp: "DCGM_FI_DEV_MEMORY_TEMP", slowdown: "DCGM_FI_DEV_SLOWDOWN_TEMP",
  clock: "DCGM_FI_DEV_SM_CLOCK", maxClock: "DCGM_FI_DEV_MAX_SM_CLOCK", memClock: "DCGM_FI_DEV_MEM_CLOCK",
  reasons: "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
  gen: "DCGM_FI_DEV_PCIE_LINK_GEN", maxGen: "DCGM_FI_DEV_PCIE_MAX_LINK_GEN",
  width: "DCGM_FI_DEV_PCIE_LINK_WIDTH", maxWidth: "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH",
  replays: "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
  pcieTx: "stoker_pcie_tx_bytes_total", pcieRx: "stoker_pcie_rx_bytes_total",
  nvTx: "stoker_nvlink_tx_bytes_total", nvRx: "stoker_nvlink_rx_bytes_total",
  sbe: "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", dbe: "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
  remapBad: "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", remapGood: "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
  remapFailed: "DCGM_FI_DEV_ROW_REMAP_FAILURE", remapPending: "DCGM_FI_DEV_ROW_REMAP_PENDING",
  recovery: "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", xid: "DCGM_FI_DEV_XID_ERRORS",
  mig: "DCGM_FI_DEV_MIG_MODE",
  capNs: "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS",
  softHeatNs: "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS",
  hardHeatNs: "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS",
  brakeNs: "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS",
};

/* What grows: shown and drawn as a rate. */
export const RATES = new Set([M.pcieTx, M.pcieRx, M.nvTx, M.nvRx, M.energy, M.capNs, M.softHeatNs, M.hardHeatNs, M.brakeNs,
  M.sbe, M.dbe, M.replays]);
/* What the agent reads ten times a second. */
export const FAST = new Set([M.power, M.util, M.memUtil, M.clock, M.memClock, M.reasons]);

export const SEVERITIES = ["info", "warning", "error", "fatal"];
const ROUTES = ["none", "user", "ticket", "page"];
export const ROUTE_WANTS = {
  none: "Recorded only, no alert", user: "For the owner of the work", ticket: "Ticket: can wait for working hours",
  page: "Critical: act now",
};
export const END_MEANS = {
  gone: "the condition is over", quiet: "no further evidence came", reset: "the GPU was reset",
  "driver-reload": "the driver was reloaded", reboot: "the node was rebooted", replaced: "another board is in its place",
  hand: "cleared by hand", merged: "it turned out to be a consequence of another incident",
};
export const STATES = {
  starting: "not sampled yet", up: "sampled as it should be", hung: "the driver does not answer for it",
  lost: "it fell off the bus or needs a reset",
  missing: "on the PCI bus, but the driver does not know it", gone: "no longer on the PCI bus",
  no_driver: "the driver or its library cannot be used", released: "let go for maintenance",
  failed: "the driver reports an error for it",
};
export const ABSENCES = {
  not_yet: "not sampled yet", not_supported: "this device does not have it",
  driver_lacks: "this driver is too old to tell", deprecated: "newer drivers no longer tell",
  mig_mode: "not measured while MIG is on", no_permission: "more permissions are needed",
  no_library: "the vendor's library is missing", in_use: "another tool holds the counters",
  no_data: "the driver had no value to give", timed_out: "the driver did not answer in time",
  gpu_lost: "the GPU is lost", reset_required: "the GPU needs a reset",
  released: "the driver was let go for maintenance", gone: "the device or instance no longer exists",
  turned_off: "not collected by choice", failed: "the driver reported an error", stale: "no fresh value",
};
/* Bits of the clock event reasons; trouble: they mean more than work or rest. */
const CLOCK_REASONS = [
  [0x80, "power brake", true], [0x40, "heat (hardware)", true], [0x20, "heat (driver)", true],
  [0x08, "hardware slowdown", true], [0x04, "power limit", false], [0x10, "sync boost", false],
  [0x02, "clock setting", false], [0x100, "display", false], [0x01, "idle", false],
];
export const RECOVERY = ["nothing", "a GPU reset", "a reboot of the node", "draining its peers", "draining and a reset"];

export function clockReasons(bits) {
  return CLOCK_REASONS.filter(([bit]) => Math.floor(bits / bit) % 2 === 1)
    .map(([, text, trouble]) => ({ text, trouble }));
}

/* The worst first, as `stoker status` has it. */
export function byUrgency(a, b) {
  const open = (x) => (x.state === "open" ? 1 : 0);
  return open(b) - open(a)
    || (open(a) && SEVERITIES.indexOf(b.severity) - SEVERITIES.indexOf(a.severity))
    || (open(a) && ROUTES.indexOf(b.route) - ROUTES.indexOf(a.route))
    || (a.id < b.id ? 1 : a.id > b.id ? -1 : 0);
}

/* What was seen, and the advice: an incident's verdict is both, and repeats the action. */
export function splitVerdict(incident) {
  const text = incident.verdict ?? "";
  const last = text.lastIndexOf(" UTC");
  const stop = last < 0 ? -1 : text.indexOf(". ", last + 4);
  const why = last < 0 ? "" : stop < 0 ? text : text.slice(0, stop + 1);
  let advice = text.slice(why.length).trim();
  const again = `Do: ${incident.action_text}. `;
  if (advice.startsWith(again))
    advice = advice.slice(again.length);
  return { why, advice };
}

/* --- numbers --- */

/* Digits are grouped from five on. */
export const whole = (value) => String(Math.round(value)).replace(/^(-?\d{2,})(?=\d{3}$)|^(-?\d+)(?=\d{3}$)/, (all) => (all.length > 1 ? `${all}\u202f` : all));

/* At most `places` behind the point, and three digits where that is enough. */
export function short(value, places = 1) {
  const size = Math.abs(value);
  if (size >= 1000)
    return whole(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? Math.min(1, places) : places).replace(/\.0+$/, "");
}

export const percent = (ratio) => `${Math.abs(ratio) < 0.0095 && ratio ? (100 * ratio).toFixed(1) : Math.round(100 * ratio)} %`;

function scaled(value, step, names, places = 1) {
  let i = 0;
  for (; Math.abs(value) >= step * 0.9995 && i < names.length - 1; i++)
    value /= step;
  return `${short(value, i ? places : 0)} ${names[i]}`;
}
export const bytes = (value) => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
export const rate = (value) => scaled(value, 1000, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"]);
export const watts = (value) => (Math.abs(value) >= 10000 ? `${short(value / 1000)} kW` : `${whole(value)} W`);
/* Both directions in the unit of the larger. */
export function rates(out, back) {
  const [, unit] = rate(Math.max(out, back)).split(" "), names = ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"], by = 1000 ** names.indexOf(unit);
  return `↑ ${short(out / by)} ↓ ${short(back / by)} ${unit}`;
}
export const gibibytes = (value) => `${short(value)} GiB`;
export const celsius = (value) => `${Math.round(value)} °C`;
export const megahertz = (value) => `${Math.round(value)} MHz`;

/* --- times --- */

export function lasting(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60)
    return `${s} s`;
  if (s < 3600)
    return s % 60 && s < 600 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 60)} min`;
  if (s < 86400)
    return `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s % 86400 / 3600)} h`;
}

/* --- a reading of any kind --- */

const UNITS = {
  C: celsius, W: (v) => `${short(v)} W`, mJ: (v) => `${short(v / 3.6e9, 2)} kWh`, J: (v) => `${short(v / 3.6e6, 2)} kWh`,
  MHz: megahertz, bytes, MiB: (v) => bytes(v * 1048576), "bytes/s": rate, "KB/s": (v) => rate(v * 1e3),
  "MB/s": (v) => rate(v * 1024e3), "%": (v) => `${short(v)} %`, ratio: percent, ns: (v) => lasting(v / 1e9), s: lasting,
  bool: (v) => (v ? "yes" : "no"), bitmask: (v) => `0x${v.toString(16)}`, gen: (v) => `gen ${v}`, lanes: (v) => `${v} lanes`,
  "0-15": (v) => `P${v}`,
};
export function reading(value, unit) {
  return (UNITS[unit] ?? ((v) => (Number.isInteger(v) ? whole(v) : short(v, 3))))(value);
}

/* Of {value, absent, text}: why there is no value. */
export const whyAbsent = (metric) => metric?.text ?? ABSENCES[metric?.absent] ?? "not collected";

/* A map of lists, in the order of `list`. */
export function groupBy(list, key) {
  const by = new Map();
  for (const one of list)
    by.set(key(one), [...(by.get(key(one)) ?? []), one]);
  return by;
}

/* "What: a, b (why); c (another reason)." of [name, why]; empty where there is none. */
export function grouped(what, list) {
  return list.length ? `${what}: ${[...groupBy(list, ([, why]) => why)].map(([why, names]) => `${names.map(([name]) => name).join(", ")} (${why})`).join("; ")}.` : "";
}

export function modelOf(name) {
  return (name ?? "").replace(/^(NVIDIA|Tesla) /, "");
}
export function thingOf(incident) {
  const d = incident.device ?? {};
  if (d.kind === "node" || !d.kind)
    return incident.scope === "fabric" ? "fabric" : "node";
  if (d.kind.includes("switch"))
    return `switch ${d.pci ?? ""}`;
  const gpu = d.index === null || d.index === undefined ? `GPU ${d.pci ?? ""}` : `GPU ${d.index}`;
  return gpu;
}

/* The growth of a counter, a second: from one change of it to the next, by the times at which it was sampled; what has not
 * changed for `rest` seconds stands still. null: nothing to tell yet, or it began anew. */
export class Growth {
  constructor(rest = 5) {
    Object.assign(this, { rest, value: null, at: 0, rate: null });
  }

  next(at, value) {
    if (typeof value !== "number" || this.value === null || value < this.value || at - this.at > 60) {
      Object.assign(this, { value: typeof value === "number" ? value : null, at, rate: null });
    } else if (value > this.value) {
      if (at > this.at)
        this.rate = (value - this.value) / (at - this.at);
      Object.assign(this, { value, at });
    } else if (at - this.at > this.rest) {
      Object.assign(this, { at, rate: 0 });
    }
    return this.rate;
  }
}
