// Shows what GET /v1/status says.

import { calibration, lines } from "./charts.js";
import { byId, bytes, cells, count, duration, element, figure, milliseconds, numbers, put, putAll, rate } from "./text.js";

const MOMENT = 10; // seconds of a point of the history
const TITLES = { logloss: "LogLoss", rmse: "RMSE", deviance: "Deviance" };

export function showStatus(status) {
  const { figures, ids, model, rates } = status;
  const title = TITLES[figures.figure] ?? figures.figure;
  showState(status);
  put("rows-rate", rate(rates.rows_per_second));
  const since = figures.since == null ? "" : ` in ${duration(status.time - figures.since)}`;
  put("rows-total", `${count(figures.rows)}${since}`);
  put("labels-rate", rate(rates.labels_per_second));
  putAll("labels-total", `${count(figures.labels)} learned`, `${count(figures.timeouts)} timed out`);
  put("waiting", count(ids.waiting));
  putAll("oldest", ...waited(ids));
  const delay = figures.delay_seconds;
  put("delay", duration(delay?.p50));
  const longer = delay ? [`95 % within ${duration(delay.p95)}`, `longest ${duration(delay.max)}`] : ["no labels yet"];
  putAll("delays", ...longer);
  put("loss-title", title);
  put("loss", figure(figures.model));
  putAll("losses", `constant ${figure(figures.constant)}`, `LR ${figure(figures.reference)}`);
  put("mean", figure(figures.mean_prediction));
  put("means", `labels ${figure(figures.mean_label)}`);
  put("about", `${model.kind}, ${model.loss}; ${count(model.rows)} rows learned, ${count(model.features)} features`);
  put("version", `· pqrlearn ${status.version} · up for ${duration(status.uptime_seconds)}`);
  showCharts(figures, title);
  showHealth(status);
  showReaders(status.readers);
}

function waited(ids) {
  const oldest = ids.oldest_seconds == null ? "none waits" : `oldest ${duration(ids.oldest_seconds)}`;
  return ids.window_seconds == null ? [oldest] : [oldest, `window ${duration(ids.window_seconds)}`];
}

function showState(status) {
  const state = byId("state");
  const bad = status.log.failed != null || !status.ready;
  state.className = `pill ${bad ? "bad" : "good"}`;
  put("state", status.log.failed != null ? "log failed" : status.ready ? "ready" : "stopping");
}

function showCharts(figures, title) {
  const history = whole(figures.history);
  const times = history.map((moment) => moment.time);
  const of = (key, scale = 1) => history.map((moment) => (moment[key] == null ? null : moment[key] / scale));
  const rows = { name: "rows", style: "first", values: of("rows", MOMENT) };
  const labels = { name: "labels", style: "second", values: of("labels", MOMENT) };
  lines("chart-rates", times, [rows, labels], rate, { zero: true });
  put("chart-loss-title", `Progressive ${figures.figure === "logloss" ? title : "loss"}`);
  const losses = [
    { name: "model", style: "first", values: of("loss") },
    { name: "LR", style: "second", values: of("reference_loss") },
  ];
  // Only LogLoss is the mean of what its chart shows: the RMSE is a root.
  const constant = figures.figure === "logloss" ? figures.constant : null;
  if (constant != null) losses.push({ name: "best constant", style: "third", values: times.map(() => constant) });
  lines("chart-loss", times, losses, figure);
  const means = [
    { name: "predictions", style: "first", values: of("mean_prediction") },
    { name: "labels", style: "second", values: of("mean_label") },
  ];
  lines("chart-drift", times, means, figure);
  const why = figures.figure === "logloss" ? "waiting for labels" : "of clicks only";
  calibration("chart-calibration", figures.calibration, why);
}

// Moments in which nothing happened are missing, and the last one is still going on.
function whole(history) {
  const found = [];
  for (const moment of history.slice(0, -1)) {
    while (found.length && moment.time - found.at(-1).time > 1.5 * MOMENT && found.length < 2000) {
      found.push({ time: found.at(-1).time + MOMENT, rows: 0, labels: 0 });
    }
    found.push(moment);
  }
  return found;
}

function showHealth({ log, disk, snapshot, model }) {
  const full = disk.free_bytes < 0.05 * disk.total_bytes;
  const facts = [
    ["Log", log.failed == null ? "writes and syncs" : `failed: ${log.failed}`, log.failed != null],
    ["Disk free", `${bytes(disk.free_bytes)} of ${bytes(disk.total_bytes)}`, full],
    ["Log on disk", `${bytes(log.bytes)} in ${count(log.segments)} ${log.segments === 1 ? "segment" : "segments"}`],
    ["Records logged", count(log.sequence)],
    ["Waiting for the disk", `${count(log.pending)} records`],
    ["Sync, median and 99 %", `${milliseconds(log.sync_ms_p50)}, ${milliseconds(log.sync_ms_p99)}`],
    ["Records per sync, median", log.group_records_p50 == null ? "–" : count(log.group_records_p50)],
    ["Records since the snapshot", count(snapshot.records_since)],
    ["Last snapshot", snapshot.failed == null ? "no error" : `failed: ${snapshot.failed}`, snapshot.failed != null],
    ["Replayed at the start", `${count(log.replayed_records)} records in ${duration(log.replayed_seconds)}`],
    ["Torn bytes cut at the start", bytes(log.cut_bytes)],
    ["Rows refused at learning", count(model.refused)],
  ];
  const shown = facts.flatMap(([name, value, bad]) => [
    element("dt", {}, name),
    element("dd", bad ? { class: "bad" } : {}, value),
  ]);
  byId("health").replaceChildren(...shown);
}

function showReaders(readers) {
  byId("readers").hidden = readers.length === 0;
  const rows = readers.map(({ reader, lag_bytes, seen_seconds }) =>
    element("tr", {}, ...cells(String(reader)), ...numbers(bytes(lag_bytes), `${duration(seen_seconds)} ago`)),
  );
  byId("readers").tBodies[0].replaceChildren(...rows);
  put("readers-note", readers.length ? "Lag: bytes of the log that a reader has yet to learn." : "None: see --readers.");
}
