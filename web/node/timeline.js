// SPDX-License-Identifier: Apache-2.0
// The incident timeline: over the charts and with their time axis, a bar per incident that leads to its evidence, and a
// tick per event.
import { nowMs, seen, when } from "./agent.js";
import { AXIS_PX, RIGHT_PX, onAxis, range } from "./charts.js";
import { each, h, mark, say } from "./element.js";
import { titleOf } from "./state.js";
import { zoneName } from "./time.js";
import { byUrgency, thingOf } from "./words.js";

const LANES = 6, TICKS = 200, LETTER_PX = 7, PAD_PX = 14, LEAST_PX = 10, LANE_PX = 24;
const seconds = (text) => Date.parse(text) / 1000;
const labelOf = (incident) => `${thingOf(incident)} ${incident.class}`;

/* Incidents that touch the span, the worst of them first; `only(incident)` chooses. */
export function shownIncidents(only = () => true) {
  const [from, to] = range();
  return [...seen.incidents, ...seen.past].filter((i) => i.state !== "pending" && only(i))
    .filter((i) => seconds(i.opened) <= to && (i.state === "open" || seconds(i.cleared) >= from)).sort(byUrgency);
}

/* The same as marks on charts. */
export function marks(only) {
  return shownIncidents(only).slice(0, 24).map((i) => ({
    from: seconds(i.first ?? i.opened), to: i.state === "open" ? nowMs() / 1000 : seconds(i.cleared), severity: i.severity,
  }));
}

/* Where a bar and its words stand: in it where there is room, else behind it, else before it; all in shares of `px`. */
function placeOf(incident, share, px) {
  const left = share(seconds(incident.opened)), right = incident.state === "open" ? 1 : share(seconds(incident.cleared));
  const words = labelOf(incident).length * LETTER_PX / px, bar = Math.max(right - left, LEAST_PX / px), end = left + bar;
  if (words + PAD_PX / px <= bar)
    return { incident, left, bar, words: "in", from: left, to: end };
  return end + words <= 1 ? { incident, left, bar, words: "behind", from: left, to: end + words } : { incident, left, bar, words: "before", from: Math.max(0, left - words), to: end };
}

/* What does not overlap shares a lane. */
function lanes(incidents, share, px) {
  const taken = [], placed = [];
  for (const incident of incidents) {
    const place = placeOf(incident, share, px);
    let lane = taken.findIndex((busy) => busy.every(([a, b]) => place.to < a || place.from > b));
    if (lane < 0) {
      if (taken.length === LANES)
        continue;
      lane = taken.push([]) - 1;
    }
    taken[lane].push([place.from, place.to]);
    placed.push({ ...place, lane });
  }
  return { placed, count: taken.length, hidden: incidents.length - placed.length };
}

export function timeline(only = () => true, onlyEvent = () => true) {
  const track = h("div", { class: "track" }), ticks = h("div", { class: "ticks", "aria-hidden": "true" });
  const note = h("p", { class: "quiet track-note" });
  let width = 800; // of the track, as it was last told
  const element = h("div", { class: "timeline", role: "group", "aria-label": "Incidents over the time of the charts" }, track, ticks, note);
  track.style.marginLeft = ticks.style.marginLeft = `${AXIS_PX}px`;
  track.style.marginRight = ticks.style.marginRight = `${RIGHT_PX}px`;

  function update() {
    const [from, to] = range(), share = (at) => Math.min(1, Math.max(0, (at - from) / (to - from)));
    const { placed, count, hidden } = lanes(shownIncidents(only), share, width);
    track.style.height = `${Math.max(1, count) * LANE_PX}px`;
    each(track, placed, ({ incident }) => incident.id, ({ incident }) => h("a", { class: "bar", href: `#/incident/${incident.id}` }, h("span")),
      (bar, { incident, lane, left, bar: share_, words }) => {
        const begun = when(Date.parse(incident.opened));
        bar.style.left = `${left * 100}%`;
        bar.style.width = `${share_ * 100}%`;
        bar.style.top = `${lane * LANE_PX}px`;
        mark(bar, "data-severity", incident.severity);
        mark(bar, "data-over", incident.state === "cleared" ? "yes" : null);
        mark(bar, "data-words", words);
        mark(bar, "title", `${titleOf(incident)}, since ${begun}`);
        mark(bar, "aria-label", `${incident.severity}, ${incident.state === "open" ? "open" : "over"}, since ${begun} ${zoneName()}: ${titleOf(incident)}. Evidence`);
        say(bar.firstElementChild, labelOf(incident));
      });
    const shown = seen.events.filter((e) => onlyEvent(e) && seconds(e.time) >= from && seconds(e.time) <= to).slice(0, TICKS);
    each(ticks, shown, (event) => event.n, (event) => h("i", { title: `${when(Date.parse(event.time))} ${event.kind} ${event.code ?? ""}` }),
      (tick, event) => {
        tick.style.left = `${share(seconds(event.time)) * 100}%`;
      });
    track.hidden = !placed.length;
    ticks.hidden = !shown.length;
    say(note, hidden ? `${hidden} more are in the list.` : "");
    note.hidden = !hidden;
  }
  const end = onAxis(update), resizer = new ResizeObserver(([entry]) => {
    if (Math.abs(entry.contentRect.width - width) > 1) {
      width = Math.max(1, entry.contentRect.width);
      update();
    }
  });
  resizer.observe(track);
  return { element, update, end() {
    end();
    resizer.disconnect();
  } };
}
