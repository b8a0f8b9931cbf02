// SPDX-License-Identifier: Apache-2.0
// Ten minutes of one GPU on 36 pixels: SM activity as an area, utilisation as a line above it.
import { keyOf, nowMs } from "./agent.js";
import { h } from "./element.js";
import { SPANS, values, want } from "./history.js";
import { colour } from "./theme.js";
import { M } from "./words.js";

const WIDTH = 120, HEIGHT = 24;

/* {element, update(gpu)} */
export function spark() {
  const element = h("canvas", { class: "spark", width: 2 * WIDTH, height: 2 * HEIGHT, "aria-hidden": "true" });
  return { element, update(gpu) {
    want(gpu, [M.sm, M.util], "second", () => {});
    const pen = element.getContext("2d"), end = Math.floor(nowMs() / 1000), { slots } = SPANS.second, per = slots / WIDTH;
    pen.setTransform(2, 0, 0, 2, 0, 0);
    pen.clearRect(0, 0, WIDTH, HEIGHT);
    for (const [name, scale, ink, area] of [[M.sm, 1, "--sm", true], [M.util, 0.01, "--util", false]]) {
      const of = values(keyOf(gpu), name, "second");
      pen.fillStyle = pen.strokeStyle = colour(ink);
      pen.beginPath();
      let open = false;
      for (let x = 0; x < WIDTH; x++) {
        let sum = 0, n = 0;
        for (let i = 0; i < per; i++) {
          const value = of(end - slots + Math.floor(x * per) + i + 1);
          if (typeof value === "number") {
            sum += value;
            n++;
          }
        }
        const y = HEIGHT - 1 - (n ? Math.min(1, sum / n * scale) : 0) * (HEIGHT - 2);
        if (area && n)
          pen.fillRect(x, y, 1, HEIGHT - y);
        else if (n && open)
          pen.lineTo(x, y);
        else if (n)
          pen.moveTo(x, y);
        open = n > 0;
      }
      pen.stroke();
    }
  } };
}
