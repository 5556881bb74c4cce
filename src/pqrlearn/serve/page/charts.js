// Lines over time, and points on a diagonal, as SVG.

import { byId, clock, drawn, element } from "./text.js";

const HEIGHT = 180;
const LEFT = 46;
const RIGHT = 12;
const TOP = 8;
const BOTTOM = 22;
const hovered = new Map();

// `series`: [{name, style, values}], one value or null for each of `times`.
export function lines(id, times, series, format, { zero = false } = {}) {
  const box = byId(id);
  const known = series.flatMap((one) => one.values).filter((value) => value != null);
  if (times.length < 2 || known.length === 0) return empty(box, "waiting for rows");
  const width = box.clientWidth;
  const [low, high] = limits(known, zero);
  const x = (time) => LEFT + ((time - times[0]) / (times.at(-1) - times[0])) * (width - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - ((value - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const names = series.map((one) => one.name).join(", ");
  const svg = drawn("svg", { width, height: HEIGHT, role: "img", "aria-label": names });
  svg.append(...yTicks(low, high, y, width, format), ...xTicks(times, x));
  for (const one of series) svg.append(...curve(one, times, x, y));
  const legend = element("div", { class: "legend" });
  const show = (at) => note(svg, legend, times, series, format, x, at);
  svg.addEventListener("pointermove", (event) => {
    const position = event.clientX - svg.getBoundingClientRect().left;
    const at = nearest(times, x, position);
    hovered.set(id, times[at]);
    show(at);
  });
  svg.addEventListener("pointerleave", () => {
    hovered.delete(id);
    show(null);
  });
  box.replaceChildren(svg, legend);
  const at = times.indexOf(hovered.get(id));
  show(at < 0 ? null : at);
}

function limits(known, zero) {
  let [low, high] = [Math.min(...known), Math.max(...known)];
  if (zero) low = 0;
  const room = (high - low) * 0.08 || Math.abs(high) * 0.1 || 1;
  return [zero ? 0 : low - room, high + room];
}

function curve({ style, values }, times, x, y) {
  const parts = [];
  let path = "";
  values.forEach((value, at) => {
    if (value == null) {
      path += " ";
    } else {
      path += `${path === "" || path.endsWith(" ") ? "M" : "L"}${x(times[at]).toFixed(1)},${y(value).toFixed(1)}`;
    }
    const alone = value != null && values[at - 1] == null && values[at + 1] == null;
    if (alone) parts.push(drawn("circle", { class: style, cx: x(times[at]), cy: y(value), r: 2 }));
  });
  return [drawn("path", { class: `series ${style}`, d: path.trim() || "M0,0" }), ...parts];
}

function steps(low, high, most) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((one) => one >= rough);
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high; at++) found.push(at * step);
  return { found, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

function yTicks(low, high, y, width, format) {
  const { found, digits } = steps(low, high, 4);
  return found.flatMap((value) => [
    drawn("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
    drawn("text", { class: "tick", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, format(value, digits)),
  ]);
}

function xTicks(times, x) {
  const ends = [[0, "start"], [times.length - 1, "end"]];
  return ends.map(([at, anchor]) =>
    drawn("text", { class: "tick", x: x(times[at]), y: HEIGHT - 5, "text-anchor": anchor }, clock(times[at])),
  );
}

function nearest(times, x, position) {
  let best = 0;
  times.forEach((time, at) => {
    if (Math.abs(x(time) - position) < Math.abs(x(times[best]) - position)) best = at;
  });
  return best;
}

// The legend tells the values at the pointer, or else the last ones.
function note(svg, legend, times, series, format, x, at) {
  svg.querySelector(".cursor")?.remove();
  const shown = (values) => (at == null ? values.findLast((value) => value != null) : values[at]);
  const parts = series.map(({ name, style, values }) =>
    element("span", {}, element("i", { class: style }), `${name} ${format(shown(values))}`),
  );
  if (at != null) {
    svg.append(drawn("line", { class: "cursor", x1: x(times[at]), x2: x(times[at]), y1: TOP, y2: HEIGHT - BOTTOM }));
    parts.push(element("span", { class: "quiet" }, new Date(times[at] * 1000).toLocaleTimeString("en-GB")));
  }
  legend.replaceChildren(...parts);
}

// `points`: [{prediction, label, weight}], in [0, 1].
export function calibration(id, points, why) {
  const box = byId(id);
  if (points.length === 0) return empty(box, why);
  const width = box.clientWidth;
  const heaviest = Math.max(...points.map((point) => point.weight));
  const x = (value) => LEFT + value * (width - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - value * (HEIGHT - TOP - BOTTOM);
  const svg = drawn("svg", { width, height: HEIGHT, role: "img", "aria-label": "calibration" });
  for (const value of [0, 0.25, 0.5, 0.75, 1]) {
    svg.append(
      drawn("line", { class: "axis", x1: x(0), x2: x(1), y1: y(value), y2: y(value) }),
      drawn("text", { class: "tick", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, String(value)),
      drawn("text", { class: "tick", x: x(value), y: HEIGHT - 5, "text-anchor": value === 1 ? "end" : "middle" }, String(value)),
    );
  }
  svg.append(drawn("path", { class: "series third", d: `M${x(0)},${y(0)}L${x(1)},${y(1)}` }));
  const path = points.map((point) => `${x(point.prediction)},${y(point.label)}`).join("L");
  svg.append(drawn("path", { class: "series first", d: `M${path}` }));
  for (const point of points) {
    const said = `predicted ${point.prediction.toFixed(3)}, labels ${point.label.toFixed(3)}, weight ${Math.round(point.weight)}`;
    const r = 2.5 + 6 * Math.sqrt(point.weight / heaviest);
    const dot = drawn("circle", { class: "first", cx: x(point.prediction), cy: y(point.label), r, "fill-opacity": 0.75 });
    dot.append(drawn("title", {}, said));
    svg.append(dot);
  }
  const legend = element("div", { class: "legend" });
  legend.append(element("span", {}, element("i", { class: "first" }), "mean label by predicted chance"));
  legend.append(element("span", {}, element("i", { class: "third" }), "perfect"));
  box.replaceChildren(svg, legend);
}

export function bar(value, largest) {
  const half = largest > 0 ? (50 * Math.abs(value)) / largest : 0;
  const svg = drawn("svg", { viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.append(drawn("line", { class: "axis", x1: 50, x2: 50, y1: 0, y2: 12 }));
  const x = value < 0 ? 50 - half : 50;
  svg.append(drawn("rect", { class: value < 0 ? "down" : "up", x, y: 2, width: half, height: 8 }));
  return svg;
}

function empty(box, why) {
  box.replaceChildren(element("p", { class: "empty" }, why));
}
