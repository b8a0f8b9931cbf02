// SPDX-License-Identifier: Apache-2.0
// The report in the page, unpacked when it is looked at; numbers as people read them; small helpers.
const D = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);

function make(tag, parent, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined && text !== null) element.textContent = text;
  if (className) element.className = className;
  if (parent) parent.append(element);
  return element;
}

for (const rank of D.ranks || []) Object.assign(rank, objects(rank.about)[0]);

// ---- units ----
function digits(value) {
  return value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
}
function scaled(value, units, step) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  let size = Math.abs(value), i = 0;
  while (i + 1 < units.length && size >= step - 0.5) {
    size /= step;
    i++;
  }
  return (value < 0 ? "−" : "") + size.toFixed(i ? digits(size) : 0) + " " + units[i];
}
const F = {
  ns: (v) => scaled(v, ["ns", "us", "ms", "s"], 1000),
  bytes: (v) => scaled(v, ["B", "KiB", "MiB", "GiB", "TiB"], 1024),
  count: (v) => (v === null ? "–" : Math.round(v).toLocaleString("en-US")),
  number: (v) => (v === null ? "–" : String(v)),
  mean: (v) => (v === null ? "–" : v.toFixed(1)),
  percent: (v) => (v === null || !Number.isFinite(v) ? "–" : v.toFixed(1) + " %"),
  part: (v) => (v === null ? "–" : (100 * v).toFixed(1) + " %"),
  rate: (v) => (v === null ? "–" : v.toFixed(digits(Math.abs(v))) + " GB/s"),
  change: (v) => (v === null ? "–" : (v > 0 ? "+" : v < 0 ? "−" : "") + Math.abs(v).toFixed(1) + " %"),
  signed: (v) => (v > 0 ? "+" : "") + F.ns(v),
  text: (v) => (v === null || v === "" ? "–" : v),
  word: (v) => (v === null || v === "" ? "–" : v.replaceAll("_", " ")),
  yes: (v) => (v ? "yes" : ""),
  shape: (v) => (v ? v.join(" × ").replace(/( × 1)+$/, "") : "–"),
};
// A C++ symbol without its return type, argument list and name spaces: "void a::b<c::d>(e)" as "b<d>".
function shortName(text) {
  const symbol = text.startsWith("void ") || text.indexOf("<") > 0;
  if (!symbol) return text;
  let end = text.length;
  if (text.endsWith(")")) {
    let depth = 0;
    for (let i = text.length - 1; i > 0; i--) {
      depth += (text[i] === ")") - (text[i] === "(");
      if (depth) continue;
      if (!" :".includes(text[i - 1])) end = i;
      break;
    }
  }
  const short = text.slice(0, end).replace(/^void /, "").replace(/\(anonymous namespace\)::/g, "").replace(/\b[A-Za-z_]\w*::/g, "");
  return short || text;
}
const share = (part, whole) => (whole > 0 ? (100 * part) / whole : null);
const causeLabel = (cause) => (cause === "short" ? "short gaps" : cause.replaceAll("_", " "));

// ---- unpacking ----
// {columns, rows} as objects. Columns that end with '#' are numbers of texts.
function objects(table) {
  if (table.made) return table.made;
  const names = table.columns.map((c) => (c.endsWith("#") ? c.slice(0, -1) : c));
  const texts = table.columns.map((c) => c.endsWith("#"));
  table.made = table.rows.map((row) => {
    const object = {};
    for (let i = 0; i < names.length; i++) object[names[i]] = texts[i] && row[i] !== null ? D.texts[row[i]] : row[i];
    return object;
  });
  return table.made;
}

function bytes(base64) {
  const text = atob(base64), out = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) out[i] = text.charCodeAt(i);
  return out;
}

class Unpack {
  constructor(base64) {
    this.bytes = bytes(base64);
    this.at = 0;
  }
  byte() {
    return this.bytes[this.at++];
  }
  // Seven bits a byte, the low ones first. Exact below 2^53.
  number() {
    let value = 0, unit = 1, byte;
    do {
      byte = this.bytes[this.at++];
      value += (byte & 127) * unit;
      unit *= 128;
    } while (byte & 128);
    return value;
  }
  zigzag() {
    const value = this.number();
    return value % 2 ? -(value + 1) / 2 : value / 2;
  }
}

// A lane's slices as columns; `reach` is the latest end so far, for finding what covers a time.
function slicesOf(lane) {
  if (lane.made) return lane.made;
  const n = lane.count, from = new Unpack(lane.slices);
  const s = {
    n, start: new Float64Array(n), end: new Float64Array(n), reach: new Float64Array(n), text: new Uint32Array(n),
    kind: new Uint8Array(n), depth: new Uint8Array(n), rows: 1,
  };
  let before = 0, reach = -Infinity;
  for (let i = 0; i < n; i++) {
    before = i ? before + from.number() : from.zigzag();
    s.start[i] = before;
    s.end[i] = before + from.number();
    reach = Math.max(reach, s.end[i]);
    s.reach[i] = reach;
    s.text[i] = from.number();
    s.kind[i] = from.byte();
    s.depth[i] = from.byte();
    s.rows = Math.max(s.rows, s.depth[i] + 1);
  }
  lane.slices = null;
  lane.made = s;
  return s;
}

function busyOf(lane) {
  if (!lane.shares) lane.shares = bytes(lane.busy);
  return lane.shares;
}

function gapsOf(rank) {
  if (rank.gaps.made) return rank.gaps.made;
  const from = new Unpack(rank.gaps.data), list = [];
  let before = rank.gaps.from;
  for (let i = 0; i < rank.gaps.count; i++) {
    before += from.number();
    const gap = { start: before, length: from.number(), cause: D.causes[from.byte()], device: from.number() - 1 };
    gap.end = gap.start + gap.length;
    gap.host = D.texts[from.number()];
    gap.thread = D.texts[from.number()];
    gap.before = D.texts[from.number()];
    gap.after = D.texts[from.number()];
    list.push(gap);
  }
  let reach = -Infinity;
  for (const gap of list) gap.reach = reach = Math.max(reach, gap.end);
  rank.gaps.made = list;
  return list;
}

function stepsOf(rank) {
  if (rank.stepsMade) return rank.stepsMade;
  rank.stepsMade = rank.steps.map((row) => {
    const step = {
      name: D.texts[row[0]], number: row[1], start: row[2], end: row[3], duration_ns: row[4], window_ns: row[5],
      busy_ns: row[6], idle_ns: row[7], compute_ns: row[8], exposed_communication_ns: row[9], exposed_copy_ns: row[10],
      operation_count: row[11], causes: row.slice(12),
    };
    let most = -1;
    step.causes.forEach((ns, i) => {
      if (ns > 0 && (most < 0 || ns > step.causes[most])) most = i;
    });
    step.mostly = most < 0 ? "" : causeLabel(D.causes[most]);
    return step;
  });
  return rank.stepsMade;
}

// A rank's devices added; without steps with what is idle around them.
function sumOf(rank) {
  rank.sumMade ??= objects(rank.sum)[0];
  return rank.sumMade;
}

// ---- colours ----
// In the order of the words that the page brings along.
const COLOURS = {
  classes: ["#35a271", "#3f83d8", "#d99a2b"], // compute, communication, copy
  idle: "#c9535f",
  // data loading, host bound, synchronisation, copy, allocator, collective wait, python, compile, tokenising, garbage
  // collection, checkpoint, logging, module loading, initialisation, queued, before profile, unknown, short
  causes: ["#d1495b", "#e07f3c", "#9a62d9", "#d0a92f", "#97735f", "#3f83d8", "#5f9c56", "#c2479b", "#b8607a", "#7a8f3c", "#4f6fa8", "#a8924f", "#a05fb0",
    "#b0705f", "#3fa3a8", "#6f7f8f", "#8a94a3", "#b3bbc6"],
  // other, op, launch, sync, copy, allocator, data, collective, compile, tokenising, garbage collection, checkpoint,
  // logging, module loading, initialisation, runtime, python, mark
  hosts: ["#8a94a3", "#6a8fd8", "#35a271", "#9a62d9", "#d99a2b", "#97735f", "#d1495b", "#3f83d8", "#c2479b", "#b8607a", "#7a8f3c", "#4f6fa8", "#a8924f",
    "#a05fb0", "#b0705f", "#5aa7a0", "#b5a53a", "#aab3bf"],
  busy: ["#6a8fd8", "#5aa7a0", "#8a94a3"], // a thread zoomed out: operators, runtime calls, all else
};
const [COMPUTE, COMMUNICATION, COPY] = COLOURS.classes;
const classColour = (index) => COLOURS.classes[index] || COLOURS.hosts[0];
const causeColour = (cause) => COLOURS.causes[D.causes.indexOf(cause)] || COLOURS.hosts[0];
const hostColour = (index) => COLOURS.hosts[index] || COLOURS.hosts[0];

function swatches(parent, title, rows) {
  const line = make("div", parent, null, "swatches");
  if (title) make("b", line, title);
  for (const [label, colour] of rows) {
    const swatch = make("span", line, null, "swatch");
    make("i", swatch).style.background = colour;
    make("span", swatch, label);
  }
}
