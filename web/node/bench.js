// SPDX-License-Identifier: Apache-2.0
// The last test of a GPU or MIG device (`stoker bench`), as the agent keeps it; nothing of one that was never tested.
import { idOf, when } from "./agent.js";

const ASK_EVERY_MS = 60000, VERDICTS = { fit: "fit", "not-fit": "not fit", unknown: "could not tell" };

let asked = { id: null, at: -Infinity, run: null };

/* Asked for while somebody looks. */
function lastTest(id) {
  if (asked.id !== id || performance.now() - asked.at > ASK_EVERY_MS) {
    const mine = { id, at: performance.now(), run: asked.id === id ? asked.run : null };
    asked = mine;
    fetch(`api/v1/bench?gpu=${id}`, { cache: "no-store" }).then((answer) => (answer.ok ? answer.json() : null)).then((run) => { mine.run = run; }, () => {});
  }
  return asked.run;
}

/* Rows of facts: what it said and when, and the worst that it found. */
export function testFacts(device) {
  const run = lastTest(idOf(device)), place = run?.gpus.findIndex((gpu) => gpu.uuid === device.uuid) ?? -1;
  if (place < 0)
    return [];
  const gpu = run.gpus[place], found = run.findings.filter((one) => one.gpus.includes(place));
  return [["Last test", `${VERDICTS[gpu.verdict] ?? VERDICTS.unknown}, ${when(Date.parse(run.time))} (stoker bench ${run.rung})`, gpu.verdict === "not-fit"],
    ["Its worst finding", found[0] && `${found[0].text}${found.length > 1 ? ` And ${found.length - 1} more.` : ""}`, found[0]?.severity === "fault"]];
}
