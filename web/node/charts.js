// SPDX-License-Identifier: Apache-2.0
// Charts over one time axis: the same span, zoom, pause and cursor for all of them. uPlot draws; history.js has the values.
import { nowMs, on, seen, when } from "./agent.js";
import { fill, h, say } from "./element.js";
import { SPANS, inMinutes, since, values, want } from "./history.js";
import { colour, onTheme } from "./theme.js";
import { clock, day } from "./words.js";

export const AXIS_PX = 66, RIGHT_PX = 26; // room for half a label of time
const FONT = '11px -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", system-ui, sans-serif';
const HOLD_STEPS = 2; // a reading holds that long between two ticks that came a little late
const SYNC = "node", STACK_INK = 0.9;

/* What all charts share. */
export const axis = { span: "second", zoom: null, pausedAt: null };
const charts = new Set(), watchers = new Set();
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

export function setSpan(span) {
  Object.assign(axis, { span, zoom: null });
  redraw();
}
export function setZoom(zoom) {
  const least = SPANS[axis.span].step * 5;
  axis.zoom = zoom && zoom[1] - zoom[0] >= least ? zoom : null;
  redraw();
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

function axisStyle() {
  return { stroke: colour("--quiet"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { stroke: colour("--grid"), width: 1, size: 4 },
    font: FONT };
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

/* {title, note, lines: () => [{label, device (key), name (reading), colour: "--sm", scale, width, dash, fill, of}], format, max,
 *  height, marks: () => [{from, to, severity}], wants: () => [[device, names]], between: [i, j, colour]}.
 * Lines are asked for again when what there is changes (theme, span, `renew`). */
export class Chart {
  constructor(options) {
    this.options = options;
    this.value = h("span", { class: "chart-value" });
    this.legend = h("span", { class: "legend" });
    this.body = h("div", { class: "chart-body" });
    this.empty = h("p", { class: "chart-empty quiet", hidden: true });
    this.element = h("figure", { class: "chart", role: "group", "aria-label": options.title },
      h("figcaption", {}, h("b", {}, options.title), options.note && h("span", { class: "quiet" }, options.note), this.legend, this.value),
      this.body, this.empty);
    charts.add(this);
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
      this.plot.setSize({ width, height: this.options.height ?? 132 });
    else if (!this.plot && width > 0)
      this.draw();
  }

  make() {
    const { format, max, height = 132, bare, between } = this.options, style = axisStyle(), lines = this.lines;
    const series = lines.map((line) => ({
      label: line.label, stroke: colour(line.colour), width: line.width ?? 1.5, dash: line.dash, points: { show: false }, spanGaps: false,
      fill: this.options.stacked ? (line === lines[lines.length - 1] ? translucent(colour(line.colour), STACK_INK) : undefined) : line.fill && translucent(colour(line.colour), line.fill), alpha: line.alpha ?? 1, show: true,
    }));
    const bands = this.options.stacked ? lines.slice(1).map((line, i) => ({ series: [i + 1, i + 2], fill: translucent(colour(lines[i].colour), STACK_INK) })) : lines.flatMap((line, i) => (line.band ? [{ series: [i + 1, i + 2], fill: translucent(colour(line.colour), 0.16) }] : []));
    if (between)
      bands.push({ series: [between[0] + 1, between[1] + 1], fill: translucent(colour(between[2]), 0.2) });
    this.plot = new uPlot({
      width: this.width, height, series: [{}, ...series], bands, legend: { show: false }, padding: bare ? [2, 0, 2, 0] : [8, RIGHT_PX, 0, 0],
      tzDate: (ts) => uPlot.tzDate(new Date(ts * 1000), "Etc/UTC"),
      scales: { x: { time: true, range: () => range() }, y: { range: (u, low, high) => this.yRange(low, high, max) } },
      axes: bare ? [{ show: false }, { show: false }] : [
        { ...style, size: 24, space: 64, values: (u, splits) => splits.map((s) => (inMinutes(axis.span) ? (s % 86400 === 0 ? day(s * 1000) : clock(s * 1000).slice(0, 5)) : clock(s * 1000))) },
        { ...style, size: AXIS_PX, space: 30, values: (u, splits) => splits.map((v) => (this.blank ? "" : format(v))) }, // no value, no scale
      ],
      cursor: bare ? { show: false } : {
        sync: { key: SYNC, setSeries: false }, y: false, drag: { x: true, y: false, setScale: false }, focus: { prox: lines.length > 4 ? 24 : -1 },
        points: { size: 6 }, bind: { dblclick: () => () => setZoom(null) },
      },
      focus: { alpha: lines.length > 4 ? 0.25 : 1 },
      hooks: {
        draw: [(u) => this.drawMarks(u)],
        setCursor: [(u) => this.moved(u)],
        setSeries: [(u, i) => { this.near = i; this.point(u.cursor.idx); }],
        setSelect: [(u) => this.select(u)],
      },
    }, columns(lines, axis.span), this.body);
    this.plot.root.setAttribute("role", "img");
    const named = this.options.fleet && !lines[0].band ? lines.filter((line) => line.colour !== "--line-quiet") : lines;
    fill(this.legend, bare || named.length > 8 ? null : (this.options.stacked ? [...named].reverse() : named).filter((line) => line.label).map((line) => {
      const key = h("i", { "aria-hidden": "true", class: line.dash && "dashed" });
      key.style.background = line.dash ? "none" : colour(line.colour);
      key.style.borderColor = colour(line.colour);
      return h("span", { class: "key" }, key, line.label);
    }));
  }

  yRange(low, high, max) {
    const top = typeof max === "function" ? max() : max;
    this.blank = low === null || high === null || low === undefined;
    if (this.blank)
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

  /* Incidents: from when to when, in the colour of their severity. */
  drawMarks(u) {
    const { ctx } = u, { left, top, width, height } = u.bbox;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    for (const mark of this.options.marks?.() ?? []) {
      const at = u.valToPos(mark.from, "x", true), to = u.valToPos(mark.to, "x", true), ink = colour(`--${mark.severity}`);
      if (to < left || at > left + width)
        continue;
      ctx.fillStyle = translucent(ink, 0.09);
      ctx.fillRect(at, top, Math.max(1, to - at), height);
      ctx.fillStyle = ink;
      ctx.fillRect(at, top, Math.max(1, devicePixelRatio), height);
    }
    ctx.restore();
  }

  moved(u) {
    cursorIndex = u.cursor.idx ?? null;
    cursorAt = cursorIndex === null ? null : u.data[0][cursorIndex];
    this.point(u.cursor.idx);
  }

  /* What stands under the cursor, else what is last. */
  point(index) {
    const { plot, lines } = this;
    if (!plot || this.options.bare)
      return;
    const { format } = this.options, crowd = this.options.fleet && lines[0].band, fleet = this.options.fleet && !crowd, shown = fleet ? (this.near ? [this.near - 1] : []) : lines.map((_, i) => i);
    const text = (this.options.stacked ? shown.reverse() : shown).filter((i) => lines[i].label || crowd).map((i) => {
      const value = this.valueAt(i, index);
      return `${fleet || lines.length > 1 ? `${lines[i].label} ` : ""}${value === null ? "no value" : format(value)}`;
    });
    if (crowd) { // a crowd: of all of them, then those that are named
      const [high, low, middle] = [0, 1, 2].map((i) => this.valueAt(i, index));
      text.splice(0, 3, ...(high === null ? [] : [`${format(low)} to ${format(high)}, middle ${format(middle)}`]));
    }
    const at = index === null || index === undefined ? "" : `${when(plot.data[0][index] * 1000)}  `;
    say(this.value, at + (this.blank ? this.nothing() : text.join(" · ") || this.spread(index)));
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
    return low === high ? low : `${low} to ${high}`;
  }

  /* Of a line: its value there; what is read more seldom than there are steps holds until the next. Of a stack each line
   * is what it adds. */
  valueAt(i, index) {
    const value = this.heldAt(i, index);
    return value === null || !this.options.stacked || i + 1 >= this.lines.length ? value : value - (this.heldAt(i + 1, index) ?? 0);
  }

  heldAt(i, index) {
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
    if (!this.plot) {
      const at = cursorAt;
      this.make();
      if (at !== null && !this.options.bare) // one that is made anew takes its place among the others
        this.plot.setCursor({ left: this.plot.valToPos(at, "x"), top: 10 });
    } else {
      this.plot.setData(columns(lines, axis.span), true);
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
    this.plot.root.setAttribute("aria-label", `${this.options.title}, ${SPANS[axis.span].more}: ${parts.join("; ")}`);
  }
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

/* Span, pause, zoom. `wide`: tenths of a second make sense here (one GPU). */
export function toolbar({ tenths }) {
  const spans = h("span", { class: "switch", role: "group", "aria-label": "Span of the charts" },
    Object.entries(SPANS).filter(([key]) => tenths || key !== "tenth").map(([key, { text, more }]) => h("button", { type: "button", "data-span": key, title: more, onclick: () => setSpan(key) }, text)));
  const paused = h("button", { type: "button", class: "pause", onclick: () => pause(axis.pausedAt === null) });
  const out = h("button", { type: "button", onclick: () => setZoom(null) }, "Whole span");
  const note = h("span", { class: "quiet chart-note" });
  const bar = h("div", { class: "toolbar", role: "toolbar", "aria-label": "Charts" }, spans, paused, out, note);
  const update = () => {
    for (const button of spans.children)
      button.setAttribute("aria-pressed", String(button.dataset.span === axis.span));
    say(paused, axis.pausedAt === null ? "Pause charts" : "Go on");
    paused.setAttribute("aria-pressed", String(axis.pausedAt !== null));
    out.hidden = !axis.zoom;
    const [from, to] = range(), shown = `${when(from * 1000)} to ${when(to * 1000)} UTC`;
    say(note, axis.pausedAt !== null ? `Charts stand still since ${clock(axis.pausedAt * 1000)} UTC; the rest of the page goes on`
      : axis.zoom ? `${shown}, fixed` : "drag to zoom, double click for all");
    note.classList.toggle("warned", axis.pausedAt !== null);
  };
  update();
  return { element: bar, update };
}

/* Keys for a group of charts that has the focus: the cursor moves over all of them. */
export function keys(event, group) {
  const shown = [...charts].filter((chart) => group.contains(chart.element) && chart.plot);
  const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 };
  if (event.key in steps && shown.length) {
    const plot = shown[0].plot, n = plot.data[0].length;
    const index = Math.min(n - 1, Math.max(0, (cursorIndex ?? n - 1) + steps[event.key]));
    plot.setCursor({ left: plot.valToPos(plot.data[0][index], "x"), top: 10 });
    event.preventDefault();
    return shown.map((chart) => `${chart.options.title}: ${chart.value.textContent}`).join(". ");
  }
  const acts = { "+": () => zoomBy(0.5), "-": () => zoomBy(2), 0: () => setZoom(null), p: () => pause(axis.pausedAt === null) };
  if (event.key in acts && !event.ctrlKey && !event.metaKey && !event.altKey) {
    acts[event.key]();
    event.preventDefault();
  }
  return null;
}

onTheme(() => charts.forEach((chart) => chart.renew()));
on("tick", () => {
  if (!document.hidden && axis.pausedAt === null && (!inMinutes(axis.span) || seen.tick % 10 === 0))
    requestAnimationFrame(redraw);
});
