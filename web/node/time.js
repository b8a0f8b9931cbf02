// SPDX-License-Identifier: Apache-2.0
// Times of the node's clock, as UTC (as in the node's logs) or in the time of the browser's place; the choice is kept in this browser.
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const listeners = new Set();
let local = false;

try {
  local = localStorage.getItem("stoker-time") === "local";
} catch { /* a browser that keeps nothing: UTC */ }

export const isLocal = () => local;
export const zoneName = () => (local ? "local" : "UTC");
export const onZone = (told) => listeners.add(told);

export function switchZone() {
  local = !local;
  try {
    localStorage.setItem("stoker-time", local ? "local" : "UTC");
  } catch { /* for this visit, then */ }
  for (const told of listeners)
    told();
}

/* Its UTC fields are those of the chosen zone. */
const shifted = (ms) => new Date(local ? ms - new Date(ms).getTimezoneOffset() * 60000 : ms);

export const clock = (ms) => shifted(ms).toISOString().slice(11, 19);
export const isMidnight = (ms) => shifted(ms).getTime() % 86400000 === 0;
export function day(ms) {
  const t = shifted(ms);
  return `${t.getUTCDate()} ${MONTHS[t.getUTCMonth()]}`;
}
/* With its day, where that is another than that of `now`. */
export const clockOf = (ms, now) => (day(ms) === day(now) ? clock(ms) : `${day(ms)} ${clock(ms)}`);
/* A time of the agent's JSON in full. */
export const stamp = (text) => (text ? `${shifted(Date.parse(text)).toISOString().slice(0, 19).replace("T", " ")} ${zoneName()}` : "");
