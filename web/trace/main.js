// SPDX-License-Identifier: Apache-2.0
// Puts the page together: theme, verdicts, numbers, bars, the timeline's keys and pointer.
let chosen = 0;
const rankNow = () => D.ranks[chosen];

// ---- theme ----
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  document.dispatchEvent(new Event("themechange"));
}
function startTheme() {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  setTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
  $("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
}

// ---- top of the page ----
function showVerdicts() {
  const list = objects(D.verdicts);
  $("verdict").hidden = false;
  $("verdict-of").textContent = D.step_ns ? "percent of the " + (D.ranks[0].steps.length ? "step, " : "whole time, ") + F.ns(D.step_ns) : "";
  for (const verdict of list) {
    const li = make("li", $("verdicts")), percent = verdict.percent_of_step;
    make("div", li, percent > 0 ? F.percent(percent) : "note", "cost" + (percent >= 10 ? " high" : percent >= 3 ? " some" : percent > 0 ? "" : " note"));
    const text = make("div", li), id = make("div", text, verdict.id.replaceAll("-", " "), "verdict-id");
    const about = [verdict.once ? "once" : "", verdict.gain_percent > 0 ? "gain up to " + F.percent(verdict.gain_percent) : "", verdict.rank !== null ? "rank " + verdict.rank : ""];
    make("small", id, about.filter(Boolean).join(" · "));
    make("div", text, verdict.evidence, "evidence");
    make("div", text, verdict.advice, "advice");
  }
  if (!list.length) make("li", $("verdicts")).append(make("div", null, "✓", "cost"), "Nothing stands out: no change with a gain that this profile shows.");
}

function showWarnings() {
  for (const rank of D.ranks) {
    const rows = objects(rank.losses);
    if (!rank.lost && !rows.length) continue;
    const box = make("div", $("warnings"), null, "warning"), list = document.createElement("ul");
    box.setAttribute("role", "note");
    make("strong", box, rank.lost ? F.count(rank.lost) + (rank.lost === 1 ? " event lost" : " events lost") : "No event lost, but faults");
    box.append((rank.lost ? " of " : " in ") + rank.file);
    for (const row of rows.slice(0, 5))
      make("li", list, F.word(row.reason) + " at byte " + F.count(row.byte) + ", event " + F.count(row.event) + (row.excerpt ? ": " + row.excerpt : ""));
    if (rows.length > 5) make("li", list, "and more");
    box.append(list);
  }
}

function card(label, value, more, className) {
  const div = make("div", $("cards"));
  make("dt", div, label);
  const dd = make("dd", div, value, className);
  if (more) make("small", dd, more);
}

function meanStep(rank) {
  const steps = stepsOf(rank).slice(rank.warm_up ? 1 : 0);
  return steps.length ? steps.reduce((sum, s) => sum + s.duration_ns, 0) / steps.length : null;
}

function showNumbers() {
  const rank = rankNow(), sum = sumOf(rank), devices = objects(rank.devices), launch = objects(rank.launch)[0];
  $("numbers").hidden = false;
  $("cards").replaceChildren();
  $("numbers-of").textContent = [D.ranks.length > 1 ? "rank " + rank.rank : "", rank.host, rank.framework, rank.backend].filter(Boolean).join(" · ");
  const names = [...new Set(devices.map((d) => d.name).filter(Boolean))].join(", ");
  card(devices.length > 1 ? "GPUs" : "GPU", devices.length > 1 ? String(devices.length) : names || (devices.length ? "GPU " + F.number(devices[0].device) : "none"),
    devices.length > 1 ? names : "", devices.length > 1 ? "" : "word");
  if (rank.steps.length) card("mean step", F.ns(meanStep(rank)), rank.steps.length + (rank.steps.length === 1 ? " step" : " steps"));
  card("GPU busy", F.percent(share(sum.busy_ns, sum.span_ns)), F.ns(sum.busy_ns) + " of " + F.ns(sum.span_ns));
  card("GPU idle", F.percent(share(sum.idle_ns, sum.span_ns)), F.ns(sum.idle_ns));
  if (sum.communication_ns)
    card("exposed communication", F.percent(share(sum.exposed_communication_ns, sum.span_ns)),
      F.percent(share(sum.communication_overlapped_ns, sum.communication_ns)) + " overlapped");
  card("tensor cores", F.percent(share(sum.tensor_core_ns, sum.compute_ns)),
    sum.tensor_unknown_ns > 0 ? "of compute, not known of " + F.percent(share(sum.tensor_unknown_ns, sum.compute_ns)) : "of compute");
  card("launch to start", F.ns(launch.median_ns), "median");
  if (D.ranks.length > 1) {
    const why = { computes_late: "computes longer", host_late: "host or data late", copies_late: "copies take longer", transfers_late: "transfers take longer" };
    [...objects(D.straggler), ...objects(D.more_stragglers)].forEach((straggler, i) => card("straggler", straggler.rank === null ? "none" : straggler.label,
      straggler.rank === null ? "" : (why[straggler.cause] || "cause unknown") + ", " + F.ns(straggler.late_step_ns) + " late per step; if as the others" + (i ? " too" : "") + ", a step would take " + F.percent(straggler.percent_of_step) + " less"));
  }
}

// ---- bars ----
function bar(parent, parts, whole) {
  const box = make("div", parent, null, "bar");
  for (const [value, colour, label] of parts) {
    if (!(value > 0) || !(whole > 0)) continue;
    const part = make("i", box);
    part.style.width = (100 * value) / whole + "%";
    part.style.background = colour;
    part.title = label + " " + F.percent(share(value, whole));
  }
}

const splitOf = (sum) => [[sum.compute_ns, COMPUTE, "compute"], [sum.exposed_communication_ns, COMMUNICATION, "exposed communication"],
  [sum.exposed_copy_ns, COPY, "exposed copy"], [sum.idle_ns, COLOURS.idle, "idle"]];

function showSplit() {
  $("time").hidden = false;
  $("split-h").textContent = D.ranks.length > 1 ? "Ranks" : "GPU time";
  D.ranks.forEach((rank, i) => {
    const row = make("button", $("split"), null, "bar-row"), sum = sumOf(rank);
    row.type = "button";
    row.setAttribute("aria-label", "rank " + rank.rank + ": " + splitOf(sum).map((p) => p[2] + " " + F.percent(share(p[0], sum.span_ns))).join(", "));
    make("span", row, "rank " + rank.rank, "label");
    bar(row, splitOf(sum), sum.span_ns);
    make("span", row, F.percent(share(sum.busy_ns, sum.span_ns)) + " busy", "value");
    row.addEventListener("click", () => chooseRank(i));
  });
  swatches($("split").parentElement, null, splitOf({}).map((p) => [p[2], p[1]]));
}

function showIdle() {
  const rank = rankNow(), span = sumOf(rank).span_ns, rows = objects(rank.idle_by_cause).map((row, i) => ({ ...row, cause: D.causes[i] }));
  const list = rows.filter((r) => r.total_ns > 0).sort((a, b) => b.total_ns - a.total_ns), most = list.length ? list[0].total_ns : 0;
  $("idle").replaceChildren();
  $("idle-of").textContent = D.ranks.length > 1 ? "rank " + rank.rank : "";
  for (const row of list) {
    const line = make("div", $("idle"), null, "bar-row");
    make("span", line, causeLabel(row.cause), "label");
    bar(line, [[row.total_ns, causeColour(row.cause), causeLabel(row.cause)]], most);
    make("span", line, F.ns(row.total_ns) + " · " + F.percent(share(row.total_ns, span)), "value");
  }
  if (!list.length) make("p", $("idle"), "No idle time.", "quiet");
}

// ---- choosing ----
function fillSteps() {
  $("step").replaceChildren();
  const all = make("option", $("step"), "all");
  all.value = "";
  stepsOf(rankNow()).slice(0, 2000).forEach((step, i) => (make("option", $("step"), step.name).value = i));
}

function chooseRank(index) {
  chosen = index;
  $("rank").value = index;
  timeline.marked = null;
  [...$("split").children].forEach((row, i) => row.setAttribute("aria-pressed", i === index));
  showNumbers();
  showIdle();
  fillSteps();
  if (tabs.current) showTab(tabs.current, rankNow());
  timeline.draw();
}

// ---- the timeline's controls ----
const ACTIONS = {
  in: () => timeline.zoom(0.5), out: () => timeline.zoom(2), fit: () => timeline.fit(), next: () => timeline.nextGap(1),
  previous: () => timeline.nextGap(-1),
};
const KEYS = {
  "+": ACTIONS.in, "=": ACTIONS.in, w: ACTIONS.in, "-": ACTIONS.out, s: ACTIONS.out, 0: ACTIONS.fit, Home: ACTIONS.fit, ".": ACTIONS.next,
  ",": ACTIONS.previous, ArrowLeft: () => timeline.pan(-0.15), a: () => timeline.pan(-0.15), ArrowRight: () => timeline.pan(0.15),
  d: () => timeline.pan(0.15), ArrowUp: () => ($("scroll").scrollTop -= 60), ArrowDown: () => ($("scroll").scrollTop += 60),
  n: () => timeline.nextStep(1), p: () => timeline.nextStep(-1), t: toggleThreads,
};

function toggleThreads() {
  timeline.threads = !timeline.threads;
  $("threads").setAttribute("aria-pressed", timeline.threads);
  timeline.layOut();
}

function showTip(event, found) {
  const lines = found && timeline.describe(found), tip = $("tip");
  tip.hidden = !lines;
  if (!lines) return;
  tip.replaceChildren();
  lines.filter(Boolean).forEach((line, i) => make(i ? "span" : "b", tip, line));
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, window.innerWidth - box.width - 8)) + "px";
  tip.style.top = (event.clientY + 18 + box.height > window.innerHeight ? event.clientY - box.height - 10 : event.clientY + 18) + "px";
}

function place(event) {
  const box = $("canvas").getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

function startPointer() {
  const canvas = $("canvas");
  let grip = null;
  canvas.addEventListener("wheel", (event) => {
    const [x] = place(event);
    const across = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey, by = across && !event.deltaX ? event.deltaY : event.deltaX;
    if (x < timeline.label) return; // over the names the lanes scroll
    event.preventDefault();
    if (across) timeline.pan(by / Math.max(200, timeline.width));
    else timeline.zoom(Math.exp(Math.max(-200, Math.min(200, event.deltaY)) * 0.0025), x);
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    grip = { x: event.clientX, y: event.clientY, from: timeline.from, to: timeline.to, scroll: $("scroll").scrollTop, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!grip) {
      showTip(event, timeline.find(...place(event)));
      return;
    }
    const by = ((grip.x - event.clientX) / Math.max(1, timeline.width - timeline.label)) * (grip.to - grip.from);
    grip.moved = grip.moved || Math.abs(grip.x - event.clientX) + Math.abs(grip.y - event.clientY) > 4;
    if (!grip.moved) return;
    canvas.classList.add("moving");
    $("tip").hidden = true;
    $("scroll").scrollTop = grip.scroll + grip.y - event.clientY;
    timeline.view(grip.from + by, grip.to + by);
  });
  canvas.addEventListener("pointerup", (event) => {
    const found = grip && !grip.moved ? timeline.find(...place(event)) : null;
    grip = null;
    canvas.classList.remove("moving");
    if (!found) return;
    if (found.lane.kind === "rank" && D.ranks.length > 1 && place(event)[0] < timeline.label) {
      const { rank } = found.lane;
      if (!timeline.folded.delete(rank)) timeline.folded.add(rank);
      timeline.layOut();
    }
    if (found.lane.rank !== rankNow()) chooseRank(D.ranks.indexOf(found.lane.rank));
  });
  canvas.addEventListener("pointercancel", () => (grip = null));
  canvas.addEventListener("pointerleave", () => ($("tip").hidden = true));
  canvas.addEventListener("dblclick", (event) => {
    const found = timeline.find(...place(event)), range = found && timeline.range(found);
    if (range) timeline.view(...range);
  });
}

function startTimeline() {
  $("timeline").hidden = false;
  if (!timeline.start()) {
    $("timeline").hidden = true;
    return;
  }
  for (const button of document.querySelectorAll("[data-do]")) button.addEventListener("click", () => ACTIONS[button.dataset.do]());
  $("threads").addEventListener("click", toggleThreads);
  $("step").addEventListener("change", () => {
    const step = stepsOf(rankNow())[$("step").value];
    if (step) timeline.view(step.start, step.end);
    else timeline.fit();
  });
  $("canvas").addEventListener("keydown", (event) => {
    const action = KEYS[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    $("tip").hidden = true;
    action();
  });
  $("scroll").addEventListener("scroll", () => timeline.draw());
  window.addEventListener("resize", () => timeline.resize());
  document.addEventListener("themechange", () => timeline.draw());
  startPointer();
  swatches($("legend"), "GPU", D.classes.map((name, i) => [name, classColour(i)]));
  const causes = objects(D.ranks[0].idle_by_cause).map((r, i) => D.causes[i]).filter((cause, i) => D.ranks.some((rank) => rank.idle_by_cause.rows[i][1] > 0));
  swatches($("legend"), "GPU idle", causes.map((cause) => [causeLabel(cause), causeColour(cause)]));
  if (D.ranks.some((rank) => rank.lanes.some((lane) => !lane.gpu))) swatches($("legend"), "Host", D.hosts.map((name, i) => [F.word(name), hostColour(i)]));
}

function startReport() {
  const events = D.ranks.reduce((sum, rank) => sum + rank.events, 0), size = D.ranks.reduce((sum, rank) => sum + rank.bytes, 0);
  $("subtitle").textContent = (D.ranks.length > 1 ? D.ranks.length + " ranks · " : "") + F.count(events) + " events · " + F.bytes(size);
  if (!D.ranks.length) return;
  const straggler = objects(D.straggler)[0].rank, late = D.ranks.findIndex((rank) => rank.rank === straggler);
  D.ranks.forEach((rank, i) => (make("option", $("rank"), String(rank.rank)).value = i));
  $("rank-label").hidden = D.ranks.length < 2;
  $("rank").addEventListener("change", () => chooseRank(Number($("rank").value)));
  showWarnings();
  showVerdicts();
  showSplit();
  chosen = Math.max(0, late);
  startTimeline();
  $("tables").hidden = false;
  startTabs(TABLES.filter((table) => D.ranks.length > 1 || table.id !== "ranks"), rankNow);
  chooseRank(chosen);
  if (D.notes.length) {
    $("notes").hidden = false;
    for (const note of D.notes) make("li", $("notes-list"), note);
  }
}

function startDiff() {
  const rows = [["step", "step_before_ns", "step_after_ns"], ["GPU busy", "busy_before_ns", "busy_after_ns"], ["GPU idle", "idle_before_ns", "idle_after_ns"]];
  $("subtitle").textContent = "difference of two profiles" + (D.diff.per_step ? ", per step" : "");
  $("numbers").hidden = false;
  for (const [label, before, after] of rows) {
    const a = D.diff[before], b = D.diff[after];
    if (a === null || b === null) continue;
    card(label, F.ns(b), "was " + F.ns(a) + (a > 0 ? ", " + (b >= a ? "+" : "") + F.percent(share(b - a, a)) : ""));
  }
  $("tables").hidden = false;
  startTabs(DIFF_TABLES, () => null);
}

function startSnapshot() {
  const findings = objects(D.snapshot.findings);
  $("subtitle").textContent = "memory snapshot";
  $("verdict").hidden = false;
  for (const finding of findings) {
    const li = make("li", $("verdicts"));
    make("div", li, F.bytes(finding.bytes), "cost note");
    const text = make("div", li);
    make("small", make("div", text, finding.id.replaceAll("-", " "), "verdict-id"), "GPU " + finding.device);
    make("div", text, finding.evidence, "evidence");
    make("div", text, finding.advice, "advice");
  }
  if (!findings.length) make("li", $("verdicts")).append(make("div", null, "✓", "cost"), "Nothing stands out.");
  if (!D.snapshot.devices.length) return;
  $("tables").hidden = false;
  startTabs(D.snapshot.devices.map(snapshotTable), () => null);
}

startTheme();
document.title = D.title + " – stoker trace";
$("title").textContent = D.title;
if (D.diff) startDiff();
else if (D.snapshot) startSnapshot();
else startReport();
