// The strongest weights, with a search; and what the prediction of a row comes from.

import { ask } from "./api.js";
import { bar } from "./charts.js";
import { byId, cells, count, element, figure, numbers, put, signed } from "./text.js";

const BLOCKS = {
  pair: "pairs of features",
  square: "squares",
  shared: "shared with rare features",
  linear: "single features",
  factor: "factors",
};
const TOP = 30;
const SLOW = 1000; // milliseconds: a larger model is not asked again by itself
let newest = 0;
let slow = false;

export function connect() {
  byId("search").addEventListener("submit", (event) => {
    event.preventDefault();
    showWeights();
  });
  byId("block").addEventListener("change", showWeights);
  byId("explain").addEventListener("submit", (event) => {
    event.preventDefault();
    explain();
  });
}

export function refreshWeights() {
  if (!slow) showWeights();
}

async function showWeights() {
  const search = byId("search-text").value.trim();
  const asked = ++newest;
  const started = performance.now();
  let found;
  try {
    found = await ask(`/v1/weights?top=${TOP}&search=${encodeURIComponent(search)}`);
  } catch (error) {
    if (asked === newest) put("weights-note", `No weights: ${error.message}`);
    return;
  }
  slow = performance.now() - started > SLOW;
  if (asked !== newest) return; // a later search is on its way
  const rows = found[chosenBlock(Object.keys(found))] ?? [];
  byId("weights").tBodies[0].replaceChildren(...rows.map(weightRow));
  byId("weights").hidden = rows.length === 0;
  const counted = rows.some((row) => row.support != null);
  byId("weights").classList.toggle("no-rows", !counted);
  put("weights-note", weightsNote(rows, search, counted));
}

function chosenBlock(blocks) {
  const choice = byId("block");
  const offered = Object.keys(BLOCKS).filter((block) => blocks.includes(block));
  const known = [...choice.options].map((option) => option.value);
  if (known.join() !== offered.join()) {
    const before = choice.value;
    choice.replaceChildren(...offered.map((block) => element("option", { value: block }, BLOCKS[block])));
    choice.value = offered.includes(before) ? before : offered[0];
  }
  return choice.value;
}

function weightRow({ names, weight, effect, support }) {
  const strength = effect == null ? figure(weight) : signed(effect);
  const rows = support == null ? "–" : count(support);
  const seen = element("td", { class: "number rows" }, rows);
  return element("tr", {}, ...cells(names.join(" × ")), ...numbers(strength), seen);
}

function weightsNote(rows, search, counted) {
  if (rows.length === 0) return search ? `No feature with “${search}” has such a weight.` : "No such weights yet.";
  return "Effect: on the margin of a typical row." + (counted ? " Rows: how many had the feature." : "");
}

async function explain() {
  const text = byId("row").value.trim() || byId("row").placeholder;
  put("explained", "");
  let found;
  try {
    found = await ask("/v1/explain", JSON.stringify({ features: JSON.parse(text) }));
  } catch (error) {
    const wrong = error instanceof SyntaxError ? "not a JSON object: " : "";
    byId("explained").className = "bad";
    put("explained", wrong + error.message);
    byId("terms").hidden = true;
    put("terms-note", "");
    return;
  }
  byId("explained").className = "";
  put("explained", `prediction ${figure(found.prediction)}, margin ${signed(found.margin)}`);
  showTerms(found.terms.filter((term) => term.contribution !== 0));
}

function showTerms(terms) {
  const largest = Math.max(0, ...terms.map((term) => Math.abs(term.contribution)));
  const rows = terms.slice(0, 100).map((term) => {
    const drawn = element("td", { class: "bar" }, bar(term.contribution, largest));
    const part = element("td", { class: "part" }, term.block);
    return element("tr", {}, part, ...cells(term.names.join(" × ")), ...numbers(signed(term.contribution)), drawn);
  });
  byId("terms").tBodies[0].replaceChildren(...rows);
  byId("terms").hidden = rows.length === 0;
  const more = terms.length > rows.length ? ` The largest ${rows.length} of ${count(terms.length)} are shown.` : "";
  put("terms-note", rows.length ? `The contributions sum to the margin.${more}` : "No part of this row has a weight yet.");
}
