// SPDX-License-Identifier: Apache-2.0
// Tables that sort and filter. A table is {id, title, rows(rank), columns: [key, title, format, options]}.
const ROWS_FIRST = 100;

const name = (title) => ["name", title, "text", { name: true }];
const copyWhere = (row) => [row.source, row.target].map((w) => w || "?").join(" → ");

const TABLES = [
  {
    id: "steps", title: "Steps", rows: stepsOf, go: (row) => ({ from: row.start, to: row.end }),
    columns: [["name", "step", "text"], ["start", "at", "ns"], ["duration_ns", "time", "ns", { bar: true }], ["busy", "busy", "percent"],
      ["compute", "compute", "percent"], ["communication", "exposed communication", "percent"], ["copy", "exposed copy", "percent"],
      ["idle", "idle", "percent"], ["mostly", "idle mostly", "text"], ["operation_count", "GPU operations", "count"]],
    fill: (row) => ({
      busy: share(row.busy_ns, row.window_ns), compute: share(row.compute_ns, row.window_ns),
      communication: share(row.exposed_communication_ns, row.window_ns), copy: share(row.exposed_copy_ns, row.window_ns),
      idle: share(row.idle_ns, row.window_ns),
    }),
  },
  {
    id: "gaps", title: "Idle times", rows: gapsOf, go: (row) => ({ from: row.start - row.length, to: row.end + row.length }), sort: "length",
    columns: [["length", "idle", "ns", { bar: true }], ["start", "at", "ns"], ["device", "GPU", "number"], ["cause", "cause", "word"],
      ["host", "while the host was in", "text", { name: true }], ["thread", "thread", "text"], ["after", "then ran", "text", { name: true }]],
  },
  {
    id: "inference", title: "Inference", rows: (rank) => objects(rank.inference),
    columns: [["kind", "kind", "word"], ["steps", "steps", "count"], ["mean_ns", "mean", "ns"], ["median_ns", "median", "ns"], ["p99_ns", "99 %", "ns"],
      ["mean_sequences", "sequences", "mean"], ["tokens_per_second", "tokens/s", "count"], ["token_ns", "per token", "ns"],
      ["between_mean_ns", "idle between", "ns"], ["graph_percent", "from graphs", "percent"], ["eager_sequences", "sequences without a graph", "text"]],
  },
  {
    id: "decode_gaps", title: "Idle between decode steps", rows: (rank) => objects(rank.decode_gaps), left: (rank) => rank.decode_gaps.left_out,
    columns: [["total_ns", "idle", "ns", { bar: true }], ["count", "count", "count"], name("while the host was in")],
  },
  {
    id: "kernels", title: "Kernels", rows: (rank) => objects(rank.kernels), left: (rank) => rank.kernels.left_out,
    columns: [["total_ns", "time", "ns", { bar: true }], ["share", "share", "percent"], ["count", "count", "count"], name("kernel"), ["mean_ns", "mean", "ns"],
      ["sd_ns", "deviation", "ns"], ["max_ns", "max", "ns"], ["class", "class", "word"], ["tensor_core", "tensor core", "yes"],
      ["grid", "grid", "shape"], ["block", "block", "shape"], ["occupancy_percent", "occupancy", "percent"]],
    fill: (row, rank) => ({ share: share(row.total_ns, sumOf(rank).kernel_sum_ns) }),
  },
  {
    id: "operators", title: "Operators", rows: (rank) => objects(rank.operators), left: (rank) => rank.operators.left_out,
    columns: [["device_self_ns", "GPU, self", "ns", { bar: true }], ["device_ns", "GPU", "ns"], ["host_self_ns", "host, self", "ns"],
      ["host_ns", "host", "ns"], ["count", "count", "count"], ["kernel_count", "kernels", "count"], ["tensor_core_ns", "tensor core", "ns"],
      ["misaligned_count", "unaligned", "count"], name("operator"), ["misaligned_dims", "unaligned shapes", "text"]],
  },
  {
    id: "shapes", title: "Operators by shape", rows: (rank) => objects(rank.shapes), left: (rank) => rank.shapes.left_out, extra: drawRoofline,
    columns: [["total_ns", "time", "ns", { bar: true }], ["count", "count", "count"], ["helper_ns", "of it helpers", "ns"], ["tflops", "TFLOP/s", "mean"],
      ["peak_percent", "of peak", "percent"], ["roof_percent", "of roof", "percent"], ["intensity", "FLOP per byte", "mean"], ["bound", "bound", "text"],
      ["type", "type", "text"], name("operator"), ["dims", "shapes", "text", { name: true }], ["arguments", "arguments", "text", { name: true }],
      ["kernel", "longest kernel", "text", { name: true }]],
  },
  {
    id: "modules", title: "Modules", rows: (rank) => objects(rank.modules), left: (rank) => rank.modules.left_out, extra: drawModules,
    columns: [["total_ns", "GPU", "ns", { bar: true }], ["own_ns", "own", "ns"], ["backward_ns", "backward", "ns"], ["per_step_ns", "per step", "ns"],
      ["calls", "calls", "count"], ["kernel_count", "operations", "count"], name("module")],
  },
  {
    id: "origins", title: "Kernel to line", rows: (rank) => objects(rank.origins), left: (rank) => rank.origins.left_out,
    columns: [["total_ns", "time", "ns", { bar: true }], ["count", "count", "count"], name("kernel"), ["operator", "operator", "text"],
      ["module", "module", "text", { name: true }], ["line", "line", "text"], ["backward", "backward", "yes"], ["dims", "shapes", "text", { name: true }]],
  },
  {
    id: "copies", title: "Copies", rows: (rank) => objects(rank.copies),
    columns: [["total_ns", "time", "ns", { bar: true }], ["count", "count", "count"], ["bytes", "bytes", "bytes"], ["bandwidth_gbs", "bandwidth", "rate"],
      ["max_ns", "longest", "ns"], ["exposed_ns", "exposed", "ns"], ["small_count", "under 64 KiB", "count"], ["kind", "kind", "text"], ["where", "memory", "text"]],
    fill: (row) => ({ where: copyWhere(row) }),
  },
  {
    id: "collectives", title: "Collectives", all: true, rows: () => objects(D.collectives), left: () => D.collectives.left_out,
    columns: [["total_ns", "time", "ns", { bar: true }], ["count", "count", "count"], ["bytes", "size", "bytes"], ["group_size", "ranks", "count"],
      ["best_ns", "best", "ns"], ["algorithm_gbs", "algorithm", "rate"], ["bus_gbs", "bus", "rate"], ["skew_median_ns", "skew", "ns"],
      ["skew_max_ns", "largest skew", "ns"], ["wait_ns", "waited", "ns"], ["matched", "matched", "count"], ["name", "collective", "text"],
      ["group", "group", "text"]],
  },
  {
    id: "annotations", title: "Annotations", rows: (rank) => objects(rank.annotations), left: (rank) => rank.annotations.left_out,
    columns: [["total_ns", "time", "ns", { bar: true }], ["count", "count", "count"], ["min_ns", "min", "ns"], ["max_ns", "max", "ns"],
      ["device_ns", "GPU time", "ns"], ["busy_ns", "GPU busy", "ns"], ["on_gpu", "on GPU", "yes"], name("annotation")],
  },
  {
    id: "launches", title: "Launches", rows: (rank) => objects(rank.queues), extra: drawLaunches,
    columns: [["device", "GPU", "number"], ["stream", "stream", "number"], ["operation_count", "operations", "count"], ["busy_ns", "busy", "ns"],
      ["mean_length", "mean queue", "mean"], ["max_length", "longest queue", "count"], ["full_ns", "full", "ns"], ["empty_launches", "into an empty queue", "count"]],
  },
  {
    id: "calls", title: "Runtime calls", rows: (rank) => objects(rank.calls), left: (rank) => rank.calls.left_out,
    columns: [["total_ns", "time", "ns", { bar: true }], ["count", "count", "count"], ["max_ns", "longest", "ns"], ["step_count", "in steps", "count"],
      ["class", "kind", "word"], ["name", "call", "text"], ["inner", "operator", "text"], ["outer", "outermost", "text"]],
  },
  {
    id: "path", title: "Critical path", rows: pathRows, sort: "total_ns",
    columns: [["total_ns", "time", "ns", { bar: true }], ["share", "share", "percent"], ["kind", "kind", "word"], ["count", "count", "count"],
      ["what", "of", "text"], name("name")],
  },
  {
    id: "memory", title: "Memory", rows: (rank) => rank.memory.map((m) => objects(m.sums)[0]), extra: drawMemory,
    columns: [["device", "GPU", "number"], ["peak_allocated_bytes", "allocated", "bytes"], ["peak_reserved_bytes", "reserved", "bytes"],
      ["capacity_bytes", "of", "bytes"], ["growth_bytes", "growth", "bytes"], ["allocations", "allocations", "count"], ["releases", "releases", "count"],
      ["peak_at_ns", "peak at", "ns"], ["peak_op", "at the peak in", "text", { name: true }]],
  },
  {
    id: "ranks", title: "Ranks", all: true, rows: () => objects(D.rank_times),
    columns: [["rank", "rank", "number"], ["step_ns", "step", "ns", { bar: true }], ["compute_ns", "compute", "ns"], ["communication_ns", "communication", "ns"],
      ["exposed_communication_ns", "exposed", "ns"], ["idle_ns", "idle", "ns"], ["late_ns", "late", "ns"], ["last_share", "last", "part"],
      ["slowest_share", "slowest", "part"]],
  },
];

const diffColumns = [["difference", "difference", "signed", { delta: true }], ["change", "change", "change", { delta: true }],
  ["before", "before", "ns"], ["after", "after", "ns"], ["count_before", "count before", "count"], ["count_after", "count after", "count"],
  ["name", "name", "text", { name: true }], ["was", "was", "text", { name: true }]];
function diffFill(row) {
  const per = D.diff.per_step;
  const before = per ? row.per_step_before_ns : row.total_before_ns, after = per ? row.per_step_after_ns : row.total_after_ns;
  return { before, after, difference: after - before, change: before > 0 ? share(after - before, before) : null };
}
const DIFF_TABLES = [["kernels", "Kernels"], ["modules", "Modules"], ["operators", "Operators"]].map(([id, title]) => ({
  id, title, all: true, rows: () => objects(D.diff[id]), left: () => D.diff[id].left_out, columns: diffColumns, fill: diffFill,
  sort: "difference",
}));

function pathRows(rank) {
  return rank.paths.flatMap((path) => objects(path.names).map((row) => ({
    ...row, what: D.texts[path.what], share: share(row.total_ns, path.total_ns),
  })));
}

// Rows with what is worked out of them, once per rank.
function rowsOf(table, rank) {
  const rows = table.rows(rank);
  if (table.fill) for (const row of rows) if (!row.filled) Object.assign(row, table.fill(row, rank), { filled: true });
  return rows;
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined || a === "") return 1;
  if (b === null || b === undefined || b === "") return -1;
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a) < String(b) ? -1 : 1;
}

function sortRows(rows, key, down) {
  const known = (v) => v !== null && v !== undefined && v !== "";
  return [...rows].sort((a, b) => {
    if (known(a[key]) !== known(b[key])) return known(a[key]) ? -1 : 1;
    return down ? compare(b[key], a[key]) : compare(a[key], b[key]);
  });
}

// One table in `panel`; its order and filter live in `state`.
function showTable(panel, table, rank, state) {
  const all = rowsOf(table, rank), columns = table.columns;
  const numeric = (format) => !["text", "word", "yes"].includes(format);
  panel.replaceChildren();
  if (table.extra) table.extra(panel, rank);
  if (!all.length) {
    if (!table.extra || !panel.childElementCount) make("p", panel, "Nothing of this in the profile.", "quiet");
    return;
  }
  const bar = make("div", panel, null, "filter");
  const input = make("input", bar);
  input.type = "search";
  input.placeholder = "Filter";
  input.setAttribute("aria-label", "Filter " + table.title);
  input.value = state.filter;
  const said = make("span", bar, null, "quiet");
  said.setAttribute("role", "status");
  const box = make("div", panel, null, "table"), grid = make("table", box);
  make("caption", grid, table.title, "spoken");
  const head = make("tr", make("thead", grid)), body = make("tbody", grid);
  const more = make("button", panel, null, "more");
  more.type = "button";
  if (table.go) make("th", head, "");
  columns.forEach(([key, title, format]) => {
    const th = make("th", head, null, numeric(format) ? "number" : "");
    th.scope = "col";
    const button = make("button", th, title);
    button.type = "button";
    button.addEventListener("click", () => {
      state.down = state.sort === key ? !state.down : numeric(format);
      state.sort = key;
      fill();
    });
    th.dataset.key = key;
  });

  function cell(tr, row, [key, , format, options = {}], most) {
    const value = row[key] === undefined ? null : row[key], td = make("td", tr);
    if (numeric(format)) td.className = "number";
    if (options.delta && value) td.classList.add(value > 0 ? "bad" : "good");
    if (options.bar && most > 0 && value > 0) make("i", td, null, "share").style.width = Math.max(1, (44 * value) / most) + "px";
    const text = F[format](value);
    const short = options.name ? shortName(text) : text;
    if (options.name) td.className = "name";
    if (short !== text || (options.name && text.length > 160)) {
      const details = make("details", td);
      make("summary", details, short.length > 160 ? short.slice(0, 110) + " … " + short.slice(-40) : short);
      make("span", details, text, "quiet");
      return;
    }
    td.append(text);
  }

  function fill() {
    const wanted = state.filter.toLowerCase();
    const hit = (row) => columns.some(([key, , format]) => !numeric(format) && row[key] && String(row[key]).toLowerCase().includes(wanted));
    let rows = wanted ? all.filter(hit) : all;
    if (state.sort) rows = sortRows(rows, state.sort, state.down);
    const shown = rows.slice(0, state.shown);
    const barred = columns.find((c) => c[3] && c[3].bar);
    const most = barred ? Math.max(...shown.map((r) => r[barred[0]] || 0), 0) : 0;
    body.replaceChildren();
    for (const row of shown) {
      const tr = make("tr", body);
      if (table.go) {
        const button = make("button", make("td", tr), "show");
        button.type = "button";
        button.title = "Show in the timeline";
        button.setAttribute("aria-label", "Show " + (row.name || row.cause) + " at " + F.ns(row.start) + " in the timeline");
        button.addEventListener("click", () => timeline.show(table.go(row)));
      }
      for (const column of columns) cell(tr, row, column, most);
    }
    const left = table.left ? table.left(rank) : 0;
    said.textContent = F.count(rows.length) + (wanted ? " of " + F.count(all.length) : "") + (rows.length === 1 ? " row" : " rows") +
      (left ? ", " + F.count(left) + " smaller ones are not in this page" : "");
    more.hidden = shown.length === rows.length;
    more.textContent = "Show " + F.count(Math.min(rows.length - shown.length, 10 * ROWS_FIRST)) + " more";
    for (const th of head.children)
      if (th.dataset.key) th.setAttribute("aria-sort", th.dataset.key !== state.sort ? "none" : state.down ? "descending" : "ascending");
  }
  input.addEventListener("input", () => {
    state.filter = input.value;
    state.shown = ROWS_FIRST;
    fill();
  });
  more.addEventListener("click", () => {
    state.shown += 10 * ROWS_FIRST;
    fill();
  });
  fill();
}

// ---- tabs ----
const tabs = { current: null, states: new Map(), tables: [] };

function stateOf(table) {
  if (!tabs.states.has(table.id)) tabs.states.set(table.id, { sort: table.sort || "", down: true, filter: "", shown: ROWS_FIRST });
  return tabs.states.get(table.id);
}

function showTab(table, rank) {
  tabs.current = table;
  for (const tab of $("tabs").children) {
    const on = tab.id === "tab-" + table.id;
    tab.setAttribute("aria-selected", on);
    tab.tabIndex = on ? 0 : -1;
  }
  $("panel").setAttribute("aria-labelledby", "tab-" + table.id);
  $("tables-of").textContent = !D.ranks || D.ranks.length < 2 ? "" : table.all ? "all ranks" : "rank " + rank.rank;
  showTable($("panel"), table, rank, stateOf(table));
}

function startTabs(tables, rankNow) {
  tabs.tables = tables;
  for (const table of tables) {
    const tab = make("button", $("tabs"), table.title);
    tab.type = "button";
    tab.id = "tab-" + table.id;
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", "panel");
    tab.addEventListener("click", () => showTab(table, rankNow()));
  }
  $("tabs").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = (tables.indexOf(tabs.current) + step + tables.length) % tables.length;
    showTab(tables[at], rankNow());
    $("tab-" + tables[at].id).focus();
    event.preventDefault();
  });
  showTab(tables[0], rankNow());
}

// ---- charts ----
// Lines over time: series [{label, colour, points: [[x, y]], fill}]; `format` of y, `across` of x.
function drawChart(parent, title, series, format, across = F.ns) {
  make("p", parent, title, "chart-title");
  const canvas = make("canvas", parent, null, "chart");
  const most = Math.max(1e-9, ...series.flatMap((s) => s.points.map((p) => p[1])));
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", title + ", at most " + format(most));
  const from = Math.min(...series.flatMap((s) => s.points.map((p) => p[0]))), to = Math.max(...series.flatMap((s) => s.points.map((p) => p[0])));
  function draw() {
    const ratio = window.devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
    if (!w) return;
    canvas.width = w * ratio;
    canvas.height = h * ratio;
    const c = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
    c.scale(ratio, ratio);
    const left = 76, bottom = 20, x = (t) => left + ((w - left - 8) * (t - from)) / (to - from || 1), y = (v) => 8 + (h - bottom - 8) * (1 - v / most / 1.05);
    c.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    c.fillStyle = style.getPropertyValue("--quiet");
    c.strokeStyle = style.getPropertyValue("--line");
    c.textAlign = "right";
    c.textBaseline = "middle";
    for (let i = 0; i <= 4; i++) {
      const v = (most * i) / 4;
      c.fillText(format(v), left - 8, y(v));
      c.beginPath();
      c.moveTo(left, y(v));
      c.lineTo(w - 8, y(v));
      c.stroke();
    }
    c.textAlign = "center";
    for (let i = 0; i <= 4; i++) c.fillText(across(from + ((to - from) * i) / 4), Math.min(x(from + ((to - from) * i) / 4), w - 26), h - 8);
    for (const s of series) {
      c.strokeStyle = s.colour;
      c.fillStyle = s.colour + "33";
      c.lineWidth = 1.5;
      c.beginPath();
      s.points.forEach(([t, v], i) => (i ? c.lineTo(x(t), y(v)) : c.moveTo(x(t), y(v))));
      c.stroke();
      if (s.fill && s.points.length) {
        c.lineTo(x(s.points[s.points.length - 1][0]), y(0));
        c.lineTo(x(s.points[0][0]), y(0));
        c.fill();
      }
    }
  }
  new ResizeObserver(draw).observe(canvas);
  document.addEventListener("themechange", draw);
  draw();
  if (series.length > 1) swatches(parent, null, series.map((s) => [s.label, s.colour]));
}

// The tree of modules: each opens to those in it, which are made when it opens first.
function drawModules(panel, rank) {
  const rows = objects(rank.modules), sum = objects(rank.origin_sum)[0];
  if (!rows.length) return;
  const joined = sum.backward_ns ? F.percent(share(sum.joined_ns, sum.backward_ns)) + " of the backward pass joined with its forward pass" : "no backward pass with sequence numbers was recorded";
  make("p", panel, F.percent(share(sum.module_ns, sum.total_ns)) + " of GPU time is in a module · " + joined, "chart-title");
  function endOf(at) {
    let end = at + 1;
    while (end < rows.length && rows[end].depth > rows[at].depth) end++;
    return end;
  }
  function fill(parent, from, to) {
    for (let at = from, end; at < to; at = end) {
      const row = rows[at], first = at + 1;
      end = endOf(at);
      const text = F.ns(row.total_ns) + " · " + F.percent(share(row.total_ns, sum.total_ns)) + " · " + row.name.split("/").pop() +
        " (own " + F.ns(row.own_ns) + ", backward " + F.ns(row.backward_ns) + ", " + F.count(row.calls) + " calls)";
      if (end === first) {
        make("div", parent, text, "leaf");
        continue;
      }
      const last = end, details = make("details", parent);
      make("summary", details, text);
      details.addEventListener("toggle", () => details.childElementCount === 1 && fill(details, first, last));
    }
  }
  fill(make("div", panel, null, "tree"), 0, rows.length);
}

// Arithmetic over arithmetic per byte, both logarithmic; a circle's area is the time. Lines: the board's roof by type.
function drawRoofline(panel, rank) {
  const roof = objects(rank.roof)[0], rows = objects(rank.shapes).filter((row) => row.tflops > 0 && row.intensity > 0).slice(0, 400);
  const facts = [];
  if (roof.flops_per_step !== null) facts.push((roof.flops_per_step / 1e12).toPrecision(3) + " TFLOP per step");
  if (roof.mfu_percent !== null) facts.push("MFU " + (roof.known_ns < roof.matrix_ns ? "at least " : "") + F.percent(roof.mfu_percent) + " of " + roof.board + " (data sheet, dense; what clock and power limit allow is not in a profile)");
  if (roof.matrix_ns) facts.push("arithmetic known for " + F.percent(share(roof.known_ns, roof.matrix_ns)) + " of the time of matrix kernels");
  if (facts.length) make("p", panel, facts.join(" · "), "chart-title");
  if (!rows.length) return;
  const types = [...new Set(rows.map((row) => row.type))], colours = [COMPUTE, COMMUNICATION, COPY], colour = (type) => colours[types.indexOf(type) % 3];
  const roofs = types.map((type) => [type, roof[type + "_tflops"]]).filter(([, peak]) => peak && roof.memory_gbs);
  const xs = rows.map((row) => row.intensity), ys = rows.map((row) => row.tflops).concat(roofs.map(([, peak]) => peak));
  const low = Math.min(...xs) / 2, high = Math.max(...xs, ...roofs.map(([, peak]) => (2000 * peak) / roof.memory_gbs)) * 2;
  const least = Math.min(...ys) / 2, most = Math.max(...ys) * 2, longest = Math.max(...rows.map((row) => row.total_ns));
  const canvas = make("canvas", panel, null, "chart");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", "Roofline: TFLOP/s over FLOP per byte; the table below has the numbers");
  function draw() {
    const ratio = window.devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
    if (!w) return;
    canvas.width = w * ratio;
    canvas.height = h * ratio;
    const c = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
    const left = 76, bottom = 20, along = (v, from, to) => Math.log(v / from) / Math.log(to / from);
    const x = (v) => left + (w - left - 8) * along(v, low, high), y = (v) => 8 + (h - bottom - 8) * (1 - along(v, least, most));
    c.scale(ratio, ratio);
    c.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    c.fillStyle = style.getPropertyValue("--quiet");
    c.strokeStyle = style.getPropertyValue("--line");
    c.textBaseline = "middle";
    for (let ten = 10 ** Math.ceil(Math.log10(least)); ten < most; ten *= 10) {
      c.textAlign = "right";
      c.fillText(ten.toPrecision(1) * 1 + " TFLOP/s", left - 8, y(ten));
      c.beginPath();
      c.moveTo(left, y(ten));
      c.lineTo(w - 8, y(ten));
      c.stroke();
    }
    c.textAlign = "center";
    for (let ten = 10 ** Math.ceil(Math.log10(low)); ten < high; ten *= 10) c.fillText(ten.toPrecision(1) * 1 + " FLOP/B", Math.min(x(ten), w - 34), h - 8);
    for (const [type, peak] of roofs) {
      c.strokeStyle = colour(type);
      c.beginPath();
      c.moveTo(x(Math.max(low, (1000 * least) / roof.memory_gbs)), y(Math.max(least, (low * roof.memory_gbs) / 1000)));
      c.lineTo(x((1000 * peak) / roof.memory_gbs), y(peak));
      c.lineTo(x(high), y(peak));
      c.stroke();
    }
    for (const row of rows) {
      c.fillStyle = colour(row.type) + "99";
      c.beginPath();
      c.arc(x(row.intensity), y(row.tflops), 2 + 10 * Math.sqrt(row.total_ns / longest), 0, 2 * Math.PI);
      c.fill();
    }
  }
  new ResizeObserver(draw).observe(canvas);
  document.addEventListener("themechange", draw);
  draw();
  swatches(panel, null, types.map((type) => [type, colour(type)]));
}

// The first rows of a list, as texts; the last column is a name, the first `numbers` are numbers. `rest`: of the others.
const SHORT_ROWS = 8;

function shortTable(parent, title, heads, numbers, rows, rest) {
  make("p", parent, title, "chart-title");
  const grid = make("table", make("div", parent, null, "table")), head = make("tr", make("thead", grid)), body = make("tbody", grid);
  heads.forEach((text, i) => (make("th", head, text, i < numbers ? "plain number" : "plain").scope = "col"));
  for (const row of rows.slice(0, SHORT_ROWS)) {
    const tr = make("tr", body);
    row.forEach((text, i) => make("td", tr, text, i < numbers ? "number" : i === row.length - 1 ? "name" : ""));
  }
  if (rows.length > SHORT_ROWS) make("p", parent, rest(SHORT_ROWS), "quiet");
}

const sumBytes = (rows) => rows.reduce((sum, row) => sum + row.bytes, 0);
const othersHold = (rows) => (shown) => F.count(rows.length - shown) + " more hold " + F.bytes(sumBytes(rows.slice(shown)));

// The blocks that stood at a device's peak, the largest; beside the chart of its memory.
function drawHolders(parent, memory, sums) {
  const holders = objects(memory.holders), peak = sums.peak_allocated_bytes;
  const parts = Object.entries(memory.by_category).map(([word, bytes]) => F.word(word) + " " + F.bytes(bytes));
  shortTable(parent, "What stood at the peak of " + F.bytes(peak) + ": " + parts.join(" · "), ["bytes", "share", "blocks", "category", "allocated in"], 3,
    holders.map((row) => [F.bytes(row.bytes), F.percent(share(row.bytes, peak)), F.count(row.blocks), F.word(row.category), row.name || "(no operator)"]),
    othersHold(holders));
}

const memorySeries = (points, x) => [["reserved", "reserved_bytes", COMMUNICATION, false], ["allocated", "allocated_bytes", COMPUTE, true]].map(
  ([label, key, colour, fill]) => ({ label, colour, fill, points: points.filter((p) => p[key] !== null).map((p) => [p[x], p[key]]) }));

function drawMemory(panel, rank) {
  for (const memory of rank.memory) {
    const points = objects(memory.points), sums = objects(memory.sums)[0], held = memory.holders.rows.length > 0;
    const box = make("div", panel, null, held ? "columns" : "");
    if (points.length > 1)
      drawChart(make("div", box), "Memory of " + (sums.device === null ? "the host" : "GPU " + sums.device), memorySeries(points, "start_ns").filter((s) => s.points.length > 1), F.bytes);
    if (held) drawHolders(make("div", box), memory, sums);
    if (!box.childElementCount) box.remove();
  }
}

function cards(parent, facts) {
  const list = make("dl", parent, null, "cards");
  for (const [label, value] of facts) {
    const div = make("div", list);
    make("dt", div, label);
    make("dd", div, value);
  }
}

function drawLaunches(panel, rank) {
  const launch = objects(rank.launch)[0];
  const facts = [["launch to start, median", F.ns(launch.median_ns)], ["99 % of them under", F.ns(launch.p99_ns)], ["call, median", F.ns(launch.call_median_ns)],
    ["all calls", F.ns(launch.call_ns)], ["short kernels", F.count(launch.short_kernels)], ["shorter than their launch", F.count(launch.launch_bound_kernels)],
    ["without a recorded launch", F.count(launch.unlinked)]];
  if (launch.graph_launches) facts.push(["graph launches", F.count(launch.graph_launches)]);
  cards(panel, facts);
  const points = objects(rank.queue_points);
  for (const device of new Set(points.map((p) => p.device))) {
    const own = points.filter((p) => p.device === device), title = "Operations launched and not started, all streams of GPU ";
    if (own.length < 2) continue;
    drawChart(panel, title + F.number(device), [{ label: "queue", colour: COMMUNICATION, fill: true, points: own.map((p) => [p.start_ns, p.length]) }],
      (v) => v.toFixed(1));
  }
}

// ---- memory snapshots: a table for each GPU, of the lines that hold its memory now ----
const siteName = (row) => row.name || "(not recorded)";

function drawSnapshot(panel, device, sums) {
  const points = objects(device.points), sites = objects(device.peak_sites), ooms = objects(device.ooms);
  cards(panel, [["reserved", F.bytes(sums.reserved_bytes)], ["allocated", F.bytes(sums.allocated_bytes)], ["of it asked for", F.bytes(sums.requested_bytes)],
    ["awaiting another stream", F.bytes(sums.awaiting_bytes)], ["free", F.bytes(sums.inactive_bytes)], ["largest free block", F.bytes(sums.largest_free_bytes)],
    ["fragmentation", F.part(sums.fragmentation)], ["in empty segments", F.bytes(sums.releasable_bytes)]]);
  if (sums.events && sums.peak_bytes === null)
    make("p", panel, "The " + F.count(sums.events) + " recorded events do not fit the blocks: no timeline and no peak.", "warning");
  const box = make("div", panel, null, sites.length ? "columns" : "");
  if (points.length > 1) drawChart(make("div", box), "Memory over " + F.count(sums.events) + " events", memorySeries(points, "event"), F.bytes, F.count);
  if (sites.length) {
    const held = sums.before_bytes > 0 ? ", of it before the first event " + F.bytes(sums.before_bytes) : "";
    shortTable(make("div", box), "What stood at the peak of " + F.bytes(sums.peak_bytes) + held, ["bytes", "share", "blocks", "allocated by"], 3,
      sites.map((row) => [F.bytes(row.bytes), F.percent(share(row.bytes, sums.peak_bytes)), F.count(row.blocks), siteName(row)]), othersHold(sites));
  }
  if (ooms.length)
    shortTable(panel, "Failed allocations, the last one first", ["asked for", "GPU had free", "reserved", "allocated", "by"], 4,
      ooms.map((row) => [...["asked_bytes", "device_free_bytes", "reserved_bytes", "allocated_bytes"].map((key) => F.bytes(row[key])), siteName(row)]),
      (shown) => F.count(ooms.length - shown) + " more");
  make("p", panel, "Allocated at the snapshot", "chart-title");
}

function snapshotTable(device) {
  const sums = objects(device.sums)[0];
  return {
    id: "gpu-" + sums.device, title: "GPU " + sums.device, rows: () => objects(device.sites), left: () => device.sites.left_out,
    extra: (panel) => drawSnapshot(panel, device, sums), fill: (row) => ({ share: share(row.bytes, sums.allocated_bytes), line: siteName(row) }),
    columns: [["bytes", "bytes", "bytes", { bar: true }], ["share", "share", "percent"], ["blocks", "blocks", "count"],
      ["line", "allocated by", "text", { name: true }]],
  };
}
