// SPDX-License-Identifier: Apache-2.0
// Charts over one time axis: the same span, zoom, pause, cursor and chosen GPU for all of them. uPlot draws; history.js has the values.
import { readAddress, writeAddress } from "./address.js";
import { nowMs, on, seen, when } from "./agent.js";
import { fill, h, mark, say } from "./element.js";
import { SPANS, inMinutes, since, values, want } from "./history.js";
import { colour, onTheme } from "./theme.js";
import { clock, day, isLocal, isMidnight, onZone, zoneName } from "./time.js";
import { grouped } from "./words.js";

export const AXIS_PX = 64;
export const RIGHT_PX = 18; // room for half a label of time
const FONT = '11px -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", system-ui, sans-serif';
const HOLD_STEPS = 2; // a reading holds that long between two ticks that came a little late
const SYNC = "node", HEIGHT = 120, TIP_ROWS = 16, BAND_PX = 3;

/* What all charts share. `only`: the key of the GPU that was chosen in the legend. */
export const axis = { span: "second", zoom: null, pausedAt: null, only: null };
const charts = new Set(), groups = new Set(), watchers = new Set();
let cursorIndex = null, cursorAt = null; // where the cursor of all charts is; null: nowhere

export const onAxis = (told) => {
  watchers.add(told);
  return () => watchers.delete(told);
};

/* [from, to] in seconds of the node's clock: the span, or as much of it as is known of. */
export function range() {
  const { step, slots, least } = SPANS[axis.span], end = axis.pausedAt ?? nowMs() / 1000;
  return axis.zoom ?? [Math.max(end - step * slots, Math.min(since(axis.span), end - step * least)), end];
}

export function redraw() {
  for (const chart of charts)
    chart.draw();
  for (const one of groups)
    if (one.group.isConnected)
      hideEmpty(one.list, one.undrawn);
    else
      groups.delete(one);
  for (const told of watchers)
    told();
}

/* Soon: what was asked for has come, and more may be on its way. */
const TOGETHER_MS = 300;
let drawn = null;
function redrawSoon() {
  drawn ??= setTimeout(() => {
    drawn = null;
    redraw();
  }, TOGETHER_MS);
}

/* Takes what the address says; `usual`: what the view shows where it says nothing. */
export function axisFromAddress(usual = {}) {
  const { params } = readAddress(), from = Number(params.get("from")), to = Number(params.get("to"));
  const span = params.get("span") ?? usual.span ?? axis.span;
  axis.span = span in SPANS ? span : "second";
  axis.zoom = from > 0 && to > from ? [from, to] : usual.zoom ?? null;
  axis.only = params.get("only") ?? usual.only ?? null;
}

function choose(values_) {
  Object.assign(axis, values_);
  writeAddress({ span: axis.span === "second" ? null : axis.span, only: axis.only, from: axis.zoom && Math.round(axis.zoom[0]), to: axis.zoom && Math.round(axis.zoom[1]) });
  redraw();
}

export const setSpan = (span) => choose({ span, zoom: null });
export const setOnly = (key) => choose({ only: axis.only === key ? null : key });
export function setZoom(zoom) {
  const least = SPANS[axis.span].step * 5;
  choose({ zoom: zoom && zoom[1] - zoom[0] >= least ? zoom : null });
}
export function pause(paused) {
  axis.pausedAt = paused ? nowMs() / 1000 : null;
  redraw();
}

/* Nearer (factor < 1) or farther around the middle. */
function zoomBy(factor) {
  const [from, to] = range(), { step, slots } = SPANS[axis.span], end = axis.pausedAt ?? nowMs() / 1000;
  const half = (to - from) / 2 * factor, middle = (from + to) / 2;
  setZoom(2 * half >= step * slots ? null : [Math.max(end - step * slots, middle - half), Math.min(end, middle + half)]);
}

/* --- one chart --- */

const translucent = (text, alpha) => {
  const n = parseInt(text.slice(1), 16);
  return `rgba(${n >> 16}, ${n >> 8 & 255}, ${n & 255}, ${alpha})`;
};

const axisStyle = () => ({ stroke: colour("--quiet"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { stroke: colour("--grid"), width: 1, size: 4 }, font: FONT });

/* Labels of time: with seconds only where minutes would repeat. */
function timeLabels(splits) {
  const fine = splits.length > 1 && splits[1] - splits[0] < 60;
  return splits.map((s) => (inMinutes(axis.span) && isMidnight(s * 1000) ? day(s * 1000) : fine ? clock(s * 1000) : clock(s * 1000).slice(0, 5)));
}

/* Time at steps of the span, and each line's values there. A hole of a reading is a hole in its line. */
function columns(lines, span) {
  const [from, to] = range(), { step } = SPANS[span];
  const first = Math.max(0, Math.floor(from / step)), last = Math.ceil(to / step);
  const x = [];
  for (let i = first; i <= last; i++)
    x.push(span === "tenth" ? i / 10 : i * step);
  const data = lines.map((line) => {
    const of = line.at ?? values(line.device, line.name, span, line.of), y = new Array(x.length), scale = line.scale ?? 1;
    let holes = 0;
    for (let i = 0; i < x.length; i++) {
      const value = of(first + i);
      if (value === undefined && ++holes <= HOLD_STEPS * (span === "tenth" ? 10 : 1)) {
        y[i] = undefined;
        continue;
      }
      if (value !== undefined) {
        holes = 0;
      } else if (span !== "tenth") {
        for (let k = 1; k < holes && k <= i; k++)
          y[i - k] = null;
      }
      y[i] = value === undefined || value === null ? null : value * scale;
    }
    return y;
  });
  return [x, ...data];
}

/* {title, note, lines: () => [{label, device (key), name (reading), colour: "--sm", scale, width, dash, alpha, of}], format, max,
 *  height, marks: () => [{from, to, severity}], wants: () => [[device, names]], between: [i, j, colour]}.
 * `fleet`: a line per GPU, whose legend is that of the group. Lines are asked for again when what there is changes. */
export class Chart {
  constructor(options) {
    this.options = { height: HEIGHT, ...options };
    this.value = h("span", { class: "chart-value" });
    this.legend = h("span", { class: "legend" });
    this.tip = h("div", { class: "tip", hidden: true, "aria-hidden": "true" });
    this.body = h("div", { class: "chart-body" });
    this.empty = h("p", { class: "chart-empty quiet", hidden: true });
    this.element = h("figure", { class: "chart", role: "group", "aria-label": options.title },
      h("figcaption", {}, h("b", {}, options.title), options.note && h("span", { class: "quiet" }, options.note), this.legend, this.value), this.body, this.tip, this.empty);
    charts.add(this);
    this.keys = []; // of the legend
    this.width = 0; // as it was last told: asking for it anew would make the browser lay the page out each time
    this.resizer = new ResizeObserver(([entry]) => this.resize(Math.floor(entry.contentRect.width)));
    this.resizer.observe(this.element);
  }

  end() {
    charts.delete(this);
    this.resizer.disconnect();
    this.plot?.destroy();
    this.plot = null;
  }

  renew() {
    this.plot?.destroy();
    this.plot = null;
    this.draw();
  }

  resize(width) {
    this.width = width;
    if (this.plot && width > 0 && width !== this.plot.width)
      this.plot.setSize({ width, height: this.options.height });
    else if (!this.plot && width > 0)
      this.draw();
  }

  make(data) {
    const { format, max, height, between, fleet } = this.options, style = axisStyle(), lines = this.lines;
    const series = lines.map((line) => ({ label: line.label, stroke: colour(line.colour), width: line.width ?? 1.5, dash: line.dash, points: { show: false }, spanGaps: false, alpha: line.alpha ?? 1, show: true }));
    const bands = lines.flatMap((line, i) => (line.band ? [{ series: [i + 1, i + 2], fill: translucent(colour(line.colour), 0.16) }] : []));
    if (between)
      bands.push({ series: [between[0] + 1, between[1] + 1], fill: translucent(colour(between[2]), 0.2) });
    this.plot = new uPlot({
      width: this.width, height, series: [{}, ...series], bands, legend: { show: false }, padding: [8, RIGHT_PX, 0, 0],
      tzDate: (ts) => (isLocal() ? new Date(ts * 1000) : uPlot.tzDate(new Date(ts * 1000), "Etc/UTC")),
      scales: { x: { time: true, range: () => range() }, y: { range: (u, low, high) => this.yRange(low, high, max) } },
      axes: [{ ...style, size: 24, space: 64, values: (u, splits) => timeLabels(splits) },
        { ...style, size: AXIS_PX, space: 28, values: (u, splits) => splits.map((v) => (this.blank ? "" : format(v))) }], // no value, no scale
      cursor: {
        sync: { key: SYNC, setSeries: false }, y: false, drag: { x: true, y: false, setScale: false }, points: { size: 6, show: lines.length <= 4 },
        bind: { dblclick: () => () => setZoom(null) },
      },
      hooks: { draw: [(u) => this.drawMarks(u)], setCursor: [(u) => this.moved(u)], setSelect: [(u) => this.select(u)] },
    }, data, this.body);
    this.plot.root.setAttribute("role", "img");
    this.keys = fleet ? [] : lines.flatMap((line, i) => (line.label ? [{ i, value: h("b") }] : []));
    fill(this.legend, this.keys.map(({ i, value }) => h("span", { class: "key" }, swatch(lines[i].colour, lines[i].dash), lines[i].label, value)));
  }

  yRange(low, high, max) {
    const top = typeof max === "function" ? max() : max;
    if (this.blank || low === null || low === undefined)
      return [0, top ?? 1];
    if (top !== undefined && top !== null)
      return [0, Math.max(top, high)];
    if (this.options.loose && low > 0) { // temperatures: around where they are
      const room = Math.max(2, (high - low) * 0.15);
      return [Math.max(0, low - room), high + room];
    }
    return [0, high > 0 ? high * 1.08 : 1];
  }

  select(u) {
    const { left, width } = u.select;
    if (width < 4)
      return;
    const zoom = [u.posToVal(left, "x"), u.posToVal(left + width, "x")];
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    if (u.cursor.event) // the chart that was dragged over: the others follow it, and lose their place when values come meanwhile
      setZoom(zoom);
  }

  /* Incidents: a thin band on top from when to when, in the colour of their severity, and a hairline where they began. */
  drawMarks(u) {
    const { ctx } = u, { left, top, width, height } = u.bbox, band = BAND_PX * devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    for (const { from, to: until, severity } of this.options.marks?.() ?? []) {
      const at = u.valToPos(from, "x", true), to = u.valToPos(until, "x", true);
      if (to < left || at > left + width)
        continue;
      ctx.fillStyle = colour(`--${severity}`);
      ctx.fillRect(at, top, Math.max(1, to - at), band);
      ctx.globalAlpha = 0.45;
      ctx.fillRect(at, top, Math.max(1, devicePixelRatio), height);
      ctx.globalAlpha = 1;
    }
    ctx.restore();
  }

  moved(u) {
    cursorIndex = u.cursor.idx ?? null;
    cursorAt = cursorIndex === null ? null : u.data[0][cursorIndex];
    this.point(u.cursor.idx);
    this.showTip(u);
  }

  /* Beside the pointer: all values there, the highest first. */
  showTip(u) {
    const { idx, left } = u.cursor, here = idx !== null && idx !== undefined && this.body.matches(":hover") && this.options.fleet;
    this.tip.hidden = !here;
    if (!here)
      return;
    const rows = this.lines.map((line, i) => ({ line, value: this.valueAt(i, idx) })).filter(({ line, value }) => line.label && value !== null).sort((a, b) => b.value - a.value);
    fill(this.tip, h("b", {}, when(u.data[0][idx] * 1000)), h("ul", { class: rows.length > 8 && "wide" }, rows.slice(0, TIP_ROWS).map(({ line, value }) => h("li", {}, swatch(line.colour, line.dash), h("span", {}, line.label), h("b", {}, this.options.format(value))))));
    const x = AXIS_PX + left, right = x > this.width / 2;
    this.tip.style.left = right ? "" : `${x + 12}px`;
    this.tip.style.right = right ? `${this.width - x + 12}px` : "";
  }

  /* What stands under the cursor, else what is last: of lines with names of their own in the legend. */
  point(index) {
    const { plot, lines } = this;
    if (!plot)
      return;
    if (index >= plot.data[0].length) // the cursor of a longer span
      index = null;
    const chosen = this.options.fleet ? lines.findIndex((line) => line.key && line.key === axis.only) : -1, at = index === null || index === undefined ? "" : when(plot.data[0][index] * 1000);
    this.keys.forEach(({ i, value }) => say(value, this.told(i, index)));
    say(this.value, [at || (this.blank || this.options.fleet ? "" : "now"), this.blank ? this.nothing() : chosen >= 0 ? `${lines[chosen].label} ${this.told(chosen, index)}` : this.options.fleet ? this.spread(index) : ""].filter(Boolean).join("  "));
  }

  told(i, index) {
    const value = this.valueAt(i, index);
    return value === null ? this.blank ? "" : "–" : this.options.format(value);
  }

  /* The same for a screen reader. */
  spoken() {
    return [this.options.title, [...this.keys.map(({ i, value }) => `${this.lines[i].label} ${value.textContent}`), this.value.textContent].join(", ")].join(": ");
  }

  /* Said where there is no value in all that is drawn. */
  nothing() {
    const why = (this.options.why?.() ?? "").replace(/^Not shown: |\.$/g, "");
    return `no value in this span${why ? `: ${why}` : ""}`;
  }

  /* From the lowest to the highest of all lines. */
  spread(index) {
    const now = this.lines.map((_, i) => this.valueAt(i, index)).filter((v) => v !== null);
    if (!now.length)
      return "no value";
    const [low, high] = [Math.min(...now), Math.max(...now)].map(this.options.format);
    return `${index === null || index === undefined ? "now " : ""}${low === high ? low : `${low} to ${high}`}`;
  }

  /* Of a line: its value there; what is read more seldom than there are steps holds until the next. */
  valueAt(i, index) {
    const data = this.plot.data[i + 1], newest = index === null || index === undefined, most = axis.span === "tenth" ? 25 : 4;
    for (let at = newest ? data.length - 1 : index, back = 0; at >= 0 && back < most; at--, back++)
      if (typeof data[at] === "number")
        return data[at];
      else if (data[at] === null && !newest)
        return null;
    return null;
  }

  draw() {
    if (!this.element.isConnected)
      return;
    for (const [device, names] of this.options.wants?.() ?? [])
      want(device, names, axis.span, redrawSoon);
    const lines = this.options.lines(axis.span);
    const shape = lines.map((l) => `${l.label}|${l.device}|${l.name}|${l.of}|${l.colour}|${l.width}|${l.alpha}`).join(";");
    if (shape !== this.shape) {
      this.plot?.destroy();
      this.plot = null;
    }
    this.shape = shape;
    this.lines = lines; // asked for where the chart is hidden too: it is shown once it has some
    if (this.width === 0)
      return;
    this.empty.hidden = lines.length > 0;
    this.body.hidden = lines.length === 0;
    if (!lines.length) {
      say(this.empty, this.options.why?.() ?? "nothing to draw");
      return;
    }
    const data = columns(lines, axis.span), blank = data.slice(1).every((line) => !line.some((value) => typeof value === "number"));
    if (blank !== this.blank) { // it gets a scale, or loses it
      this.plot?.destroy();
      this.plot = null;
    }
    this.blank = blank;
    if (!this.plot) {
      const at = cursorAt;
      this.make(data);
      if (at !== null) // one that is made anew takes its place among the others
        this.plot.setCursor({ left: this.plot.valToPos(at, "x"), top: 10 });
    } else {
      this.plot.setData(data, true);
    }
    this.point(this.plot.cursor.idx);
    this.describe();
  }

  /* For those who do not see it. */
  describe() {
    const parts = this.lines.slice(0, 4).filter((line) => line.label).map((line) => {
      const i = this.lines.indexOf(line);
      let low = Infinity, high = -Infinity;
      for (const value of this.plot.data[i + 1])
        if (typeof value === "number") {
          low = Math.min(low, value);
          high = Math.max(high, value);
        }
      return low <= high ? `${line.label} between ${this.options.format(low)} and ${this.options.format(high)}` : `${line.label}: no value`;
    });
    mark(this.plot.root, "aria-label", `${this.options.title}, ${SPANS[axis.span].more}: ${parts.join("; ")}`);
  }
}

/* The colour of a line, for a legend. */
export function swatch(ink, dash) {
  const key = h("i", { "aria-hidden": "true", class: dash && "dashed" });
  key.style.background = dash ? "none" : `var(${ink})`;
  key.style.borderColor = `var(${ink})`;
  return key;
}

/* Mean and, over a day, the band from minimum to maximum of one reading of one device. */
export function lineOf(device, name, label, ink, options = {}) {
  return (span) => (inMinutes(span)
    ? [{ device, name, colour: ink, width: 0.5, of: "max", band: true, alpha: 0.5 },
      { device, name, colour: ink, width: 0.5, of: "min", alpha: 0.5 },
      { device, name, label, colour: ink, of: "mean", ...options }]
    : [{ device, name, label, colour: ink, ...options }]).map((line) => ({ scale: options.scale, ...line }));
}

/* --- what moves all of them --- */

/* Span, pause, zoom. `tenths`: tenths of a second make sense here (one GPU). */
export function toolbar({ tenths }) {
  const spans = h("span", { class: "switch", role: "group", "aria-label": "Span of the charts" },
    Object.entries(SPANS).filter(([key]) => tenths || key !== "tenth").map(([key, { text, more }]) => h("button", { type: "button", "data-span": key, title: more, onclick: () => setSpan(key) }, text)));
  const paused = h("button", { type: "button", class: "pause", onclick: () => pause(axis.pausedAt === null) });
  const out = h("button", { type: "button", onclick: () => setZoom(null) }, "Whole span");
  const note = h("span", { class: "quiet chart-note" });
  const bar = h("div", { class: "toolbar", role: "toolbar", "aria-label": "Charts" }, spans, paused, out, note);
  const update = () => {
    for (const button of spans.children)
      mark(button, "aria-pressed", String(button.dataset.span === axis.span));
    say(paused, axis.pausedAt === null ? "Pause" : "Go on");
    mark(paused, "aria-pressed", String(axis.pausedAt !== null));
    out.hidden = !axis.zoom;
    const [from, to] = range();
    say(note, axis.pausedAt !== null ? `Charts stand still since ${clock(axis.pausedAt * 1000)} ${zoneName()}; the rest of the page goes on`
      : axis.zoom ? `${when(from * 1000)} to ${when(to * 1000)} ${zoneName()}, fixed` : "drag to zoom, double click for all");
    note.classList.toggle("warned", axis.pausedAt !== null);
  };
  update();
  return { element: bar, update };
}

/* Charts that have nothing to draw and never had are one line together. */
function hideEmpty(list, note) {
  const none = list.filter((chart) => chart.lines && chart.lines.length === 0);
  for (const chart of list)
    chart.element.hidden = none.includes(chart);
  say(note, grouped("Not drawn", none.map((chart) => [chart.options.title, (chart.options.why?.() ?? "").replace(/^Not shown: |\.$/g, "")])));
}

/* A group of charts under one toolbar, and keys for it: the cursor moves over all of them. `more`: what stands above them. */
export function chartGroup(list, speak, more = []) {
  const help = h("p", { class: "quiet keys", id: "chart-keys" }, "Keys, when the charts have the focus: ", [["←", ""], ["→", " cursor, "], ["+", ""], ["-", " zoom, "], ["0", " whole span, "], ["p", " pause."]].flatMap(([key, text]) => [h("kbd", {}, key), text || " "]));
  const undrawn = h("p", { class: "quiet" });
  const group = h("div", { class: "charts", role: "group", tabindex: "0", "aria-label": "Charts", "aria-describedby": "chart-keys" }, more, h("div", { class: "chart-grid" }, list.map((chart) => chart.element)), undrawn, help);
  groups.add({ group, list, undrawn });
  group.addEventListener("keydown", (event) => {
    const said = event.target === group ? onKey(event, list) : null;
    if (said)
      speak(said);
  });
  return group;
}

function onKey(event, list) {
  const shown = list.filter((chart) => chart.plot), steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 };
  if (event.key in steps && shown.length) {
    const { plot } = shown[0], n = plot.data[0].length, index = Math.min(n - 1, Math.max(0, (cursorIndex ?? n - 1) + steps[event.key]));
    plot.setCursor({ left: plot.valToPos(plot.data[0][index], "x"), top: 10 });
    event.preventDefault();
    return shown.map((chart) => chart.spoken()).join(". ");
  }
  const acts = { "+": () => zoomBy(0.5), "-": () => zoomBy(2), 0: () => setZoom(null), p: () => pause(axis.pausedAt === null) };
  if (event.key in acts && !event.ctrlKey && !event.metaKey && !event.altKey) {
    acts[event.key]();
    event.preventDefault();
  }
  return null;
}

const renewAll = () => charts.forEach((chart) => chart.renew());
onTheme(renewAll);
onZone(renewAll);
on("tick", () => {
  if (!document.hidden && axis.pausedAt === null && (!inMinutes(axis.span) || seen.tick % 10 === 0))
    requestAnimationFrame(redraw);
});
