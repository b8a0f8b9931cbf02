// SPDX-License-Identifier: Apache-2.0
// The incident timeline: over the charts and with their time axis, a bar per incident that leads to its evidence, and a
// tick per event.
import { nowMs, seen } from "./agent.js";
import { AXIS_PX, RIGHT_PX, onAxis, range } from "./charts.js";
import { each, h, mark, say } from "./element.js";
import { byUrgency, clock, thingOf } from "./words.js";

const LANES = 6, TICKS = 200;
const seconds = (text) => Date.parse(text) / 1000;

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

/* Bars that do not overlap share a lane. */
function lanes(incidents, share) {
  const ends = [];
  const placed = [];
  for (const incident of incidents) {
    const left = share(seconds(incident.opened)), right = incident.state === "open" ? 1 : share(seconds(incident.cleared));
    let lane = ends.findIndex((busy) => busy.every(([a, b]) => right < a || left > b));
    if (lane < 0) {
      if (ends.length === LANES)
        continue;
      lane = ends.push([]) - 1;
    }
    ends[lane].push([left, Math.max(right, left + 0.18)]); // room for its words
    placed.push({ incident, lane, left, right });
  }
  return { placed, count: ends.length, hidden: incidents.length - placed.length };
}

export function timeline(only = () => true, onlyEvent = () => true) {
  const track = h("div", { class: "track" }), ticks = h("div", { class: "ticks", "aria-hidden": "true" });
  const note = h("p", { class: "quiet track-note" });
  const element = h("div", { class: "timeline", role: "group", "aria-label": "Incidents over the time of the charts" }, track, ticks, note);
  track.style.marginLeft = ticks.style.marginLeft = `${AXIS_PX}px`;
  track.style.marginRight = ticks.style.marginRight = `${RIGHT_PX}px`;

  function update() {
    const [from, to] = range(), share = (at) => Math.min(1, Math.max(0, (at - from) / (to - from)));
    const { placed, count, hidden } = lanes(shownIncidents(only), share);
    track.style.height = `${Math.max(1, count) * 24}px`;
    each(track, placed, ({ incident }) => incident.id, ({ incident }) => h("a", { class: "bar", href: `#/incident/${incident.id}` }, h("span")),
      (bar, { incident, lane, left, right }) => {
        const begun = clock(Date.parse(incident.opened));
        bar.style.left = `${left * 100}%`;
        bar.style.width = `max(10px, ${(right - left) * 100}%)`;
        bar.style.top = `${lane * 24}px`;
        mark(bar, "data-severity", incident.severity);
        mark(bar, "data-over", incident.state === "cleared" ? "yes" : null);
        mark(bar, "data-flip", left > 0.75 ? "yes" : null);
        mark(bar, "title", `${incident.title}, since ${begun}`);
        mark(bar, "aria-label", `${incident.severity}, ${incident.state === "open" ? "open" : "over"}, since ${begun} UTC: ${incident.title}. Evidence`);
        say(bar.firstElementChild, `${thingOf(incident)} ${incident.class}`);
      });
    const shown = seen.events.filter((e) => onlyEvent(e) && seconds(e.time) >= from && seconds(e.time) <= to).slice(0, TICKS);
    each(ticks, shown, (event) => event.n, (event) => h("i", { title: `${clock(Date.parse(event.time))} ${event.kind} ${event.code ?? ""}` }),
      (tick, event) => {
        tick.style.left = `${share(seconds(event.time)) * 100}%`;
      });
    say(note, [placed.length ? "" : "No incident in this span.", hidden ? `${hidden} more are in the list.` : "",
      shown.length ? `Ticks below: ${shown.length} event${shown.length > 1 ? "s" : ""}.` : ""].filter(Boolean).join(" "));
  }
  const end = onAxis(update);
  return { element, update, end };
}
