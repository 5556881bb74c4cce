// Numbers for people, and elements. Text goes into the page as text: never as HTML.

const SCALES = [[1e9, "G"], [1e6, "M"], [1e4, "k"]];

export function count(value) {
  if (value == null) return "–";
  for (const [size, letter] of SCALES) {
    if (Math.abs(value) >= size) return `${trimmed(value / (letter === "k" ? 1e3 : size))} ${letter}`;
  }
  return Math.round(value).toLocaleString("en");
}

export function rate(value) {
  if (value == null) return "–";
  return value > 0 && value < 10 ? value.toFixed(1) : count(value);
}

export function figure(value, digits = 4) {
  if (value == null) return "–";
  return Math.abs(value) >= 1000 ? count(value) : value.toFixed(digits);
}

export function bytes(value) {
  if (value == null) return "–";
  for (const [size, unit] of [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
    if (value >= size) return `${trimmed(value / size)} ${unit}`;
  }
  return `${value} B`;
}

export function duration(seconds) {
  if (seconds == null) return "–";
  if (seconds < 0.0995) return `${Math.max(0, Math.round(seconds * 1000))} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Number((seconds / 3600).toFixed(1))} h`;
  return `${Number((seconds / 86400).toFixed(1))} d`;
}

export function milliseconds(value) {
  return value == null ? "–" : `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`;
}

export function clock(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}

export function signed(value) {
  return (value < 0 ? "−" : "+") + Math.abs(value).toFixed(4);
}

function trimmed(value) {
  return value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0);
}

export function byId(id) {
  return document.getElementById(id);
}

export function put(id, text) {
  const element = byId(id);
  if (element.textContent !== text) element.textContent = text;
}

// Several facts in a small space: a line breaks between them only.
export function putAll(id, ...texts) {
  byId(id).replaceChildren(...texts.map((text) => element("span", {}, text)));
}

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  return filled(made, attributes, children);
}

export function drawn(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  return filled(made, attributes, children);
}

function filled(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function cells(...texts) {
  return texts.map((text) => element("td", {}, text));
}

export function numbers(...texts) {
  return texts.map((text) => element("td", { class: "number" }, text));
}
