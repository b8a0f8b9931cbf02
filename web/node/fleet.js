// SPDX-License-Identifier: Apache-2.0
// Charts with a line for each GPU, in the GPU's own colour, and the legend that all of them share. Of more GPUs than an eye tells apart: the
// lowest, the middle and the highest, and a line for each that is chosen or has a fault.
import { keyOf, number, seen } from "./agent.js";
import { Chart, axis, onAxis, setOnly, swatch } from "./charts.js";
import { each, h, mark } from "./element.js";
import { ever, values } from "./history.js";
import { gpuName, severityOf } from "./state.js";
import { marks } from "./timeline.js";
import { M, celsius, gibibytes, percent, watts, whyAbsent } from "./words.js";

const HUES = 8, LINES_MAX = 16, FAULTS_MAX = 8, MUTED = 0.15;

const inkOf = (gpu) => `--g${(gpu.index ?? seen.gpus.indexOf(gpu)) % HUES}`;
/* The second eight have the colours of the first, dashed. */
const dashOf = (gpu) => ((gpu.index ?? 0) % (2 * HUES) >= HUES ? [5, 3] : undefined);

/* Of very many GPUs the lowest, the middle and the highest at each time; made anew for each drawing. */
function crowdLines(gpus, name, scale) {
  const all = gpus.map((gpu) => keyOf(gpu)), row = new Float64Array(all.length), made = new Map();
  return (span) => {
    const at = all.map((key) => values(key, name, span));
    const three = (i) => {
      if (made.has(i))
        return made.get(i);
      let n = 0, told = false;
      for (const of of at) {
        const value = of(i);
        told ||= value === null;
        if (typeof value === "number")
          row[n++] = value;
      }
      const sorted = row.subarray(0, n).sort(), found = n ? [sorted[n - 1], sorted[0], sorted[n >> 1]] : told ? null : undefined;
      made.set(i, found);
      return found;
    };
    return ["highest", "lowest", "middle"].map((label, k) => ({ label, scale, colour: k === 2 ? "--c1" : "--line-quiet", width: k === 2 ? 1.8 : 1, band: k === 0, at: (i) => (three(i) ? three(i)[k] : three(i)) }));
  };
}

/* Those that have a line of their own, of `gpus`. */
const namedOf = (gpus) => (gpus.length <= LINES_MAX ? gpus : gpus.filter((gpu) => keyOf(gpu) === axis.only || severityOf(gpu)).slice(0, FAULTS_MAX));

/* One line per GPU: the one that was chosen alone, else those with a fault stronger than the others. */
const lineEach = (gpusOf, name, scale) => (span) => {
  const gpus = gpusOf().filter((gpu) => ever(keyOf(gpu), name)), crowd = gpus.length > LINES_MAX ? crowdLines(gpus, name, scale)(span) : [];
  return [...crowd, ...namedOf(gpus).map((gpu) => {
    const key = keyOf(gpu), strong = axis.only ? key === axis.only : severityOf(gpu) !== null;
    return { label: gpuName(gpu), key, device: key, name, scale, colour: inkOf(gpu), dash: dashOf(gpu), width: strong ? 2.4 : 1.4, alpha: axis.only && !strong ? MUTED : 1 };
  })];
};

const CHARTS = {
  sm: ["SM activity", M.sm, percent, { max: 1 }], util: ["Utilisation", M.util, percent, { max: 1, scale: 0.01 }], tensor: ["Tensor cores", M.tensor, percent, { max: 1 }],
  memory: ["Memory used", M.used, gibibytes, { scale: 1 / 1024 }], power: ["Power", M.power, watts, {}], temp: ["Temperature", M.temp, celsius, { loose: true }],
};

/* [title, reading, format, more] or a name of those above. */
export function fleetCharts(list = Object.keys(CHARTS), { gpus = () => seen.gpus, only } = {}) {
  const all = list.map((one) => CHARTS[one] ?? one), names = all.map(([, name]) => name);
  return all.map(([title, name, format, more]) => new Chart({ title, format, fleet: true, lines: lineEach(gpus, name, more.scale), marks: () => marks(only),
    why: () => (!gpus().length ? "There is no GPU." : number(gpus()[0], name) === null ? `Not shown: ${whyAbsent(gpus()[0].metrics?.[name])}.` : ""), wants: () => [...gpus()].sort((a, b) => (keyOf(b) === axis.only) - (keyOf(a) === axis.only)).map((gpu) => [gpu, names]), ...more }));
}

/* A button for each line: it alone, or all again. */
export function gpuLegend(gpus = () => seen.gpus) {
  const element = h("div", { class: "gpu-legend", role: "group", "aria-label": "GPUs in the charts" });
  const end = onAxis(() => each(element, gpus().length > 1 ? namedOf(gpus()) : [], keyOf, (gpu) => h("button", { type: "button", title: "Show this GPU alone", onclick: () => setOnly(keyOf(gpu)) }, swatch(inkOf(gpu), dashOf(gpu)), gpuName(gpu)),
    (button, gpu) => mark(button, "aria-pressed", String(axis.only === keyOf(gpu)))));
  return { element, end };
}
