// SPDX-License-Identifier: Apache-2.0
// The timeline: lanes of streams and threads per rank, drawn into a canvas that is as large as what is seen of it. Zoomed out a
// lane shows the share of each moment that was busy, by class; zoomed in, its operations.
const HEADER = 22, GAPS = 15, STREAM = 26, SMALL = 12, ROW = 13, RULER = 22, PAD = 3, DEPTH_MAX = 8, SLICES_MAX = 20000, SLICES_FEW = 3000;

const timeline = {
  lanes: [], height: 0, width: 0, label: 168, from: 0, to: 1, first: 0, last: 1, threads: true, folded: new Set(), drawing: false, under: null, marked: null,

  x(time) {
    return this.label + ((time - this.from) / (this.to - this.from)) * (this.width - this.label);
  },
  time(x) {
    return this.from + ((x - this.label) / (this.width - this.label)) * (this.to - this.from);
  },
  perPixel() {
    return (this.to - this.from) / Math.max(1, this.width - this.label);
  },

  // ---- what there is ----
  start() {
    let first = Infinity, last = -Infinity;
    for (const rank of D.ranks) {
      for (const device of objects(rank.devices)) {
        first = Math.min(first, device.start_ns);
        last = Math.max(last, device.end_ns);
      }
      for (const step of stepsOf(rank)) {
        first = Math.min(first, step.start);
        last = Math.max(last, step.end);
      }
      for (const lane of rank.lanes) {
        first = Math.min(first, lane.first);
        last = Math.max(last, lane.first + (lane.bucket_ns * bytes(lane.busy).length) / 3);
      }
    }
    if (!(last > first)) return false;
    const some = (last - first) * 0.005;
    Object.assign(this, { first: first - some, last: last + some, from: first - some, to: last + some });
    if (D.ranks.length > 2) for (const rank of D.ranks.slice(1)) this.folded.add(rank);
    this.layOut();
    return true;
  },

  // Rows from top to bottom, each with y and height.
  layOut() {
    const lanes = [];
    let y = RULER;
    const add = (lane) => {
      lane.y = y;
      y += lane.height + (lane.kind === "rank" ? 0 : PAD);
      lanes.push(lane);
    };
    for (const rank of D.ranks) {
      const folded = this.folded.has(rank), devices = objects(rank.devices);
      add({ kind: "rank", rank, height: HEADER, label: (D.ranks.length > 1 ? (folded ? "▸ " : "▾ ") : "") + "rank " + rank.rank });
      for (const device of devices)
        add({ kind: "gaps", rank, device: device.device, height: GAPS, label: devices.length > 1 ? "GPU " + F.number(device.device) + " idle" : "idle, by cause" });
      for (const source of rank.lanes) {
        if (source.gpu)
          add({ kind: "stream", rank, source, height: folded ? SMALL : STREAM, label: (devices.length > 1 && source.device >= 0 ? source.device + ": " : "") + source.name });
        else if (this.threads && !folded)
          add({ kind: "thread", rank, source, height: 2 + ROW * Math.min(DEPTH_MAX, slicesOf(source).rows), label: source.name });
      }
      y += 6;
    }
    this.lanes = lanes;
    this.height = y;
    $("space").style.height = y + "px";
    this.resize();
  },

  resize() {
    const canvas = $("canvas"), ratio = window.devicePixelRatio || 1, height = Math.max(60, Math.min(this.height, Math.round(window.innerHeight * 0.62) - 2));
    this.width = canvas.clientWidth; // asked for here alone: asking makes the browser lay out the page
    this.label = this.width < 640 ? 96 : 168;
    canvas.style.height = height + "px";
    canvas.width = Math.round(this.width * ratio);
    canvas.height = Math.round(height * ratio);
    this.draw();
  },

  // ---- moving ----
  view(from, to) {
    const least = 20, most = this.last - this.first;
    let length = Math.min(Math.max(to - from, least), most), middle = (from + to) / 2;
    from = Math.min(Math.max(middle - length / 2, this.first), this.last - length);
    this.from = from;
    this.to = from + length;
    this.draw();
  },
  zoom(factor, x) {
    const at = x === undefined ? (this.from + this.to) / 2 : this.time(x);
    this.view(at - (at - this.from) * factor, at + (this.to - at) * factor);
  },
  pan(part) {
    const by = (this.to - this.from) * part;
    this.view(this.from + by, this.to + by);
  },
  fit() {
    this.marked = null;
    this.view(this.first, this.last);
  },
  show({ from, to }) {
    this.view(from, to);
    $("timeline").scrollIntoView({ block: "nearest" });
    $("canvas").focus({ preventScroll: true });
    this.say("from " + F.ns(from) + " to " + F.ns(to));
  },
  say(text) {
    $("spoken").textContent = text;
  },
  // The next idle time of the chosen rank after (1) or before (-1) the middle of what is seen, of those that can be seen at
  // all now.
  nextGap(direction) {
    const gaps = gapsOf(rankNow()), middle = this.marked ? this.marked.start : direction > 0 ? this.from : this.to;
    const least = this.marked ? 0 : this.perPixel() * 2;
    const list = direction > 0 ? gaps : [...gaps].reverse();
    const gap = list.find((g) => (g.start - middle) * direction > 0 && g.length >= least);
    if (!gap) {
      this.say("no further idle time");
      return;
    }
    this.marked = gap;
    if (gap.start < this.from || gap.end > this.to || gap.length < this.perPixel() * 8) this.view(gap.start - 3 * gap.length, gap.end + 3 * gap.length);
    else this.draw();
    this.say(F.ns(gap.length) + " idle, " + causeLabel(gap.cause) + (gap.host ? ", while the host was in " + gap.host : ""));
  },
  nextStep(direction) {
    const steps = stepsOf(rankNow());
    if (!steps.length) return;
    const middle = (this.from + this.to) / 2, whole = this.to - this.from > 0.9 * (this.last - this.first);
    let at = steps.findIndex((s) => s.start <= middle && middle < s.end);
    at = whole || at < 0 ? (direction > 0 ? 0 : steps.length - 1) : Math.min(Math.max(at + direction, 0), steps.length - 1);
    this.view(steps[at].start, steps[at].end);
    this.say(steps[at].name + ", " + F.ns(steps[at].duration_ns));
  },

  // ---- drawing ----
  draw() {
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      this.drawNow();
    });
  },
  colours() {
    const style = getComputedStyle(document.documentElement), get = (n) => style.getPropertyValue("--" + n).trim();
    return { card: get("card"), soft: get("soft"), line: get("line"), text: get("text"), quiet: get("quiet"), accent: get("accent") };
  },
  drawNow() {
    const canvas = $("canvas"), ratio = window.devicePixelRatio || 1, c = canvas.getContext("2d");
    const w = this.width, h = canvas.height / ratio, scroll = $("scroll").scrollTop;
    if (!w) return;
    this.theme = this.colours();
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.fillStyle = this.theme.card;
    c.fillRect(0, 0, w, h);
    c.textBaseline = "middle";
    c.save();
    c.translate(0, -scroll);
    for (const lane of this.lanes) {
      if (lane.y + lane.height < scroll || lane.y > scroll + h) continue;
      this.drawLane(c, lane, w);
    }
    if (this.marked) this.drawMark(c);
    c.restore();
    this.drawRuler(c, w, h);
    $("range").textContent = F.ns(Math.max(0, this.from)) + " – " + F.ns(this.to) + " (" + F.ns(this.to - this.from) + ")";
  },
  drawLane(c, lane, w) {
    if (lane.kind === "rank") {
      c.fillStyle = this.theme.soft;
      c.fillRect(0, lane.y, w, lane.height);
    }
    c.save();
    c.beginPath();
    c.rect(this.label, lane.y, w - this.label, lane.height);
    c.clip();
    if (lane.kind === "rank") this.drawSteps(c, lane, w);
    else if (lane.kind === "gaps") this.drawGaps(c, lane, w);
    else this.drawWork(c, lane, w);
    c.restore();
    if (lane.height >= SMALL) {
      c.font = (lane.kind === "rank" ? "600 12px" : "11px") + " system-ui, 'DejaVu Sans', sans-serif";
      c.fillStyle = lane.kind === "rank" ? this.theme.text : this.theme.quiet;
      c.textAlign = "left";
      c.fillText(fitted(c, lane.label, this.label - 16), 8, lane.y + Math.min(lane.height, STREAM) / 2 + 0.5);
    }
  },
  drawSteps(c, lane, w) {
    const steps = stepsOf(lane.rank);
    c.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    c.textAlign = "left";
    steps.forEach((step, i) => {
      const a = this.x(step.start), b = this.x(step.end);
      if (b < this.label || a > w) return;
      if (i % 2 === 0) {
        c.fillStyle = this.theme.line;
        c.globalAlpha = 0.6;
        c.fillRect(a, lane.y, Math.max(b - a, 0.5), lane.height);
        c.globalAlpha = 1;
      }
      const from = Math.max(a, this.label), room = Math.min(b, w) - from - 8;
      if (room < 34) return;
      c.fillStyle = this.theme.text;
      const long = step.name + "  " + F.ns(step.duration_ns);
      c.fillText(fitted(c, c.measureText(long).width <= room ? long : room > 90 ? step.name : "#" + step.number, room), from + 4, lane.y + lane.height / 2 + 0.5);
    });
  },
  // Each idle time in its cause's colour. Those under a pixel are added up: a pixel's column is as high as its share of
  // idle time, so that many short ones do not look like one long one.
  drawGaps(c, lane, w) {
    const gaps = gapsOf(lane.rank), causes = D.causes.length, perPixel = this.perPixel();
    const sums = new Float64Array((Math.ceil(w - this.label) + 1) * causes);
    c.fillStyle = this.theme.soft;
    c.fillRect(this.label, lane.y + 2, w - this.label, lane.height - 4);
    for (let i = firstReaching(gaps.length, (k) => gaps[k].reach, this.from); i < gaps.length && gaps[i].start < this.to; i++) {
      const gap = gaps[i];
      if ((gap.device !== lane.device && lane.device !== null && gap.device >= 0) || gap.end < this.from) continue;
      const a = this.x(gap.start), b = this.x(gap.end);
      if (b - a < 1.5) {
        const pixel = Math.floor((a + b) / 2 - this.label);
        if (pixel >= 0) sums[pixel * causes + D.causes.indexOf(gap.cause)] += gap.length;
        continue;
      }
      c.fillStyle = causeColour(gap.cause);
      c.fillRect(a, lane.y, b - a, lane.height);
    }
    for (let pixel = 0; pixel * causes < sums.length; pixel++) {
      let y = lane.y + lane.height;
      for (let k = 0; k < causes; k++) {
        const ns = sums[pixel * causes + k];
        if (!ns) continue;
        const height = Math.min(Math.max(1, (lane.height * ns) / perPixel), y - lane.y);
        c.fillStyle = COLOURS.causes[k];
        c.fillRect(this.label + pixel, y - height, 1, height);
        y -= height;
      }
    }
  },
  drawMark(c) {
    const lane = this.lanes.find((l) => l.kind === "gaps" && l.rank === rankNow());
    if (!lane) return;
    const a = Math.max(this.x(this.marked.start), this.label);
    c.strokeStyle = this.theme.text;
    c.lineWidth = 2;
    c.strokeRect(a - 1, lane.y - 1, Math.max(this.x(this.marked.end) - a, 1) + 2, lane.height + 2);
  },
  drawWork(c, lane, w) {
    const slices = slicesOf(lane.source), gpu = lane.source.gpu;
    const from = firstReaching(slices.n, (k) => slices.reach[k], this.from), to = firstReaching(slices.n, (k) => slices.start[k], this.to);
    const bucketPixels = lane.source.bucket_ns / this.perPixel();
    const zoomed = bucketPixels >= 1.5 && to - from <= SLICES_MAX, few = !lane.source.left_out && to - from <= SLICES_FEW;
    const detail = slices.n > 0 && lane.height > SMALL && (zoomed || few);
    if (!detail || (gpu && lane.source.left_out)) this.drawBusy(c, lane, w, detail ? 0.3 : 1);
    if (detail) this.drawSlices(c, lane, slices, from, to, w, gpu);
  },
  // Shares of each pixel that the three classes were busy, stacked from below.
  drawBusy(c, lane, w, alpha) {
    const source = lane.source, shares = busyOf(source), count = shares.length / 3, base = lane.y + lane.height;
    const colours = source.gpu ? COLOURS.classes : COLOURS.busy;
    const tall = Math.min(lane.height, source.gpu ? lane.height : STREAM), floor = source.gpu ? base : lane.y + tall;
    const tops = new Float32Array(Math.max(0, Math.ceil(w - this.label))).fill(floor);
    const per = this.perPixel() / source.bucket_ns, first = (this.from - source.first) / source.bucket_ns;
    c.globalAlpha = alpha;
    for (let k = 0; k < 3; k++) {
      const below = tops.slice();
      let any = false;
      for (let p = 0; p < tops.length; p++) {
        const a = first + p * per, b = a + per;
        if (b <= 0 || a >= count) continue;
        const i0 = Math.max(0, Math.floor(a)), i1 = Math.min(count, Math.max(i0 + 1, Math.ceil(b)));
        let sum = 0;
        for (let i = i0; i < i1; i++) sum += shares[3 * i + k];
        if (!sum) continue;
        any = true;
        tops[p] -= Math.min((tall * sum) / (255 * (i1 - i0)), tops[p] - lane.y);
      }
      if (!any) continue;
      c.beginPath();
      c.moveTo(this.label, floor);
      outline(c, this.label, tops, 0, tops.length, 1);
      outline(c, this.label, below, tops.length - 1, -1, -1);
      c.fillStyle = colours[k];
      c.fill();
    }
    c.globalAlpha = 1;
  },
  drawSlices(c, lane, slices, from, to, w, gpu) {
    const rows = gpu ? 1 : Math.min(DEPTH_MAX, slices.rows), height = gpu ? lane.height : ROW, filled = new Float64Array(rows).fill(-1);
    c.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    c.textAlign = "left";
    for (let i = from; i < to; i++) {
      const depth = gpu ? 0 : slices.depth[i];
      if (depth >= rows || slices.end[i] < this.from) continue;
      const a = Math.max(this.x(slices.start[i]), this.label), b = Math.min(this.x(slices.end[i]), w);
      if (b - a < 1 && a < filled[depth]) continue;
      const y = lane.y + (gpu ? 0 : depth * ROW), wide = Math.max(b - a, 0.8);
      filled[depth] = a + wide;
      c.fillStyle = gpu ? classColour(slices.kind[i]) : hostColour(slices.kind[i]);
      c.fillRect(a, y, wide > 3 ? wide - 0.7 : wide, height - (gpu ? 0 : 1));
      if (wide > 30 && height >= ROW) {
        c.fillStyle = "#ffffff";
        c.fillText(fitted(c, shortName(D.texts[slices.text[i]]), wide - 8), a + 4, y + height / 2 + 0.5);
      }
    }
  },
  drawRuler(c, w, h) {
    c.fillStyle = this.theme.card;
    c.fillRect(0, 0, w, RULER);
    c.strokeStyle = this.theme.line;
    c.fillStyle = this.theme.quiet;
    c.lineWidth = 1;
    c.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    c.textAlign = "left";
    const step = nice(this.perPixel() * 110), first = Math.ceil(this.from / step) * step;
    c.beginPath();
    for (let t = first; t < this.to; t += step) {
      const x = Math.round(this.x(t)) + 0.5;
      c.moveTo(x, RULER - 6);
      c.lineTo(x, RULER);
      if (x < w - 40) c.fillText(tick(t, step), x + 4, RULER / 2);
    }
    c.moveTo(0, RULER - 0.5);
    c.lineTo(w, RULER - 0.5);
    c.moveTo(this.label - 0.5, 0);
    c.lineTo(this.label - 0.5, h);
    c.stroke();
  },

  // ---- what is under the pointer ----
  find(x, y) {
    const at = y + $("scroll").scrollTop;
    const lane = y < RULER ? null : this.lanes.find((l) => at >= l.y && at < l.y + l.height);
    if (!lane) return null;
    if (x < this.label) return { lane };
    const time = this.time(x), slack = this.perPixel() * 1.5;
    if (lane.kind === "rank") return { lane, step: stepsOf(lane.rank).find((s) => s.start <= time && time < s.end) };
    if (lane.kind === "gaps") {
      const near = gapsOf(lane.rank).filter((g) => g.start - slack <= time && time <= g.end + slack && (g.device === lane.device || g.device < 0));
      return { lane, gap: near.sort((a, b) => b.length - a.length)[0] };
    }
    const slices = slicesOf(lane.source), depth = lane.source.gpu ? -1 : Math.floor((at - lane.y) / ROW);
    let found = -1;
    for (let i = firstReaching(slices.n, (k) => slices.reach[k], time - slack); i < slices.n && slices.start[i] <= time + slack; i++)
      if (slices.end[i] >= time - slack && (depth < 0 || slices.depth[i] === depth)) found = i;
    return { lane, slice: found };
  },
  describe(found) {
    const { lane } = found;
    if (found.step) return [found.step.name, F.ns(found.step.duration_ns), "busy " + F.percent(share(found.step.busy_ns, found.step.window_ns)) +
      (found.step.mostly ? ", idle mostly " + found.step.mostly : "")];
    if (found.gap) {
      const g = found.gap;
      return [F.ns(g.length) + " idle: " + causeLabel(g.cause), "at " + F.ns(g.start), g.host && "host: " + g.host + (g.thread ? " (" + g.thread + ")" : ""),
        g.before && "after " + g.before, g.after && "then " + g.after];
    }
    if (found.slice >= 0) {
      const s = slicesOf(lane.source), i = found.slice;
      const kind = lane.source.gpu ? D.classes[s.kind[i]] : D.hosts[s.kind[i]];
      return [D.texts[s.text[i]], F.ns(s.end[i] - s.start[i]) + " at " + F.ns(s.start[i]), (kind || "") + ", " + lane.source.name];
    }
    return lane.kind !== "rank" && lane.source ? [lane.source.name, lane.source.left_out ? F.count(lane.source.left_out) + " shorter events are not in this page" : ""] : null;
  },
  range(found) {
    if (found.step) return [found.step.start, found.step.end];
    if (found.gap) return [found.gap.start - found.gap.length, found.gap.end + found.gap.length];
    if (found.slice >= 0) {
      const s = slicesOf(found.lane.source), a = s.start[found.slice], b = s.end[found.slice];
      return [a - (b - a) * 0.2, b + (b - a) * 0.2];
    }
    return null;
  },
};

// The first k whose at(k), which never falls, is over `time`.
function firstReaching(n, at, time) {
  let low = 0, high = n;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (at(middle) > time) high = middle;
    else low = middle + 1;
  }
  return low;
}

function fitted(c, text, room) {
  if (room < 14) return "";
  if (text.length * 3 > room * 2) text = text.slice(0, Math.ceil(room / 2));
  if (c.measureText(text).width <= room) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (c.measureText(text.slice(0, middle) + "…").width <= room) low = middle;
    else high = middle - 1;
  }
  return low > 1 ? text.slice(0, low) + "…" : "";
}

// Steps along `tops`, one pixel each, equal neighbours in one.
function outline(c, left, tops, from, to, by) {
  for (let p = from; p !== to; p += by) {
    if (p !== from && p + by !== to && tops[p] === tops[p - by] && tops[p] === tops[p + by]) continue;
    c.lineTo(left + (by > 0 ? p : p + 1), tops[p]);
    c.lineTo(left + (by > 0 ? p + 1 : p), tops[p]);
  }
}

function nice(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((m) => m * power).find((s) => s >= least);
}

// A time with the digits that its neighbours differ in.
function tick(t, step) {
  const [unit, size] = t >= 1e9 || step >= 1e9 ? ["s", 1e9] : t >= 1e6 ? ["ms", 1e6] : t >= 1e3 ? ["us", 1e3] : ["ns", 1];
  return (t / size).toFixed(Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / size) - 1e-9)))) + " " + unit;
}
