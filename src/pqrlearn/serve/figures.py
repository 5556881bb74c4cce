"""What the records of a log have shown: losses, calibration, drift, delays.

Figures are of what was served: margins are those that were answered, hours before their labels.
The reference was asked when the label came, so it knew more.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from io import BytesIO
from statistics import quantiles
from typing import Any, Final
from zipfile import BadZipFile

import numpy as np

from pqrlearn.loss import LossName, loss_named
from pqrlearn.metrics import Metrics

BUFFER_ROWS: Final = 1024
MOMENT: Final = 10_000_000
"""Microseconds of one point of the history."""
MOMENTS: Final = 360
BINS: Final = 10
_DELAYS = 1024
_WHOLE = ("time", "rows", "labels")  # of a Moment


class Moment:
    """Sums over a short time."""

    __slots__ = ("labels", "loss", "mean", "predicted", "reference", "rows", "time", "weight")

    def __init__(self, time: int) -> None:
        self.time = time
        self.rows = self.labels = 0
        self.predicted = self.mean = self.loss = self.reference = self.weight = 0.0


class Figures:
    """Since the first row of a log, or since another loss: a snapshot keeps them.

    Rows are summed in blocks, because arrays are quick.
    """

    def __init__(self, loss: LossName) -> None:
        self.loss = loss
        self.since: int | None = None
        """The time of the first record."""
        self._of = loss_named(loss)
        self.metrics = Metrics(loss)
        self.reference = Metrics(loss)
        self.rows = self.labels = self.timeouts = self.expired = 0
        self._margins: list[float] = []
        self._scored: list[tuple[float, float, float, float]] = []
        self._bins = np.zeros((3, BINS))
        self._delays: deque[int] = deque(maxlen=_DELAYS)
        self.history: deque[Moment] = deque(maxlen=MOMENTS)

    def predicted(self, time: int, margins: Sequence[float]) -> None:
        """Rows that were answered, all of them in the moment of `time`."""
        self.rows += len(margins)
        self._moment(time).rows += len(margins)
        self._margins.extend(margins)
        if len(self._margins) >= BUFFER_ROWS:
            self._flush_rows()

    def delayed(self, microseconds: Sequence[int], *, timeout: bool) -> None:
        """How long labels took to come."""
        if timeout:
            self.timeouts += len(microseconds)
        else:
            self._delays.extend(microseconds)

    def learned(self, time: int, rows: Sequence[tuple[float, float, float, float]]) -> None:
        """Margins, labels, weights and margins of the reference, all in the moment of `time`."""
        self.labels += len(rows)
        self._moment(time).labels += len(rows)
        self._scored.extend(rows)
        if len(self._scored) >= BUFFER_ROWS:
            self._flush_labels()

    def _moment(self, time: int) -> Moment:
        start = time - time % MOMENT
        history = self.history
        if not history or history[-1].time < start:
            self._flush_rows()
            self._flush_labels()
            history.append(Moment(start))
            if self.since is None:
                self.since = time
        return history[-1]

    # -- kept by snapshots ---------------------------------------------------------

    def to_bytes(self) -> bytes:
        self._flush_rows()
        self._flush_labels()
        counts = self.rows, self.labels, self.timeouts, self.expired, self.since or 0
        moments = [[getattr(one, name) for name in Moment.__slots__] for one in self.history]
        arrays = {
            "loss": np.array(self.loss),
            "counts": np.array(counts, np.int64),
            "calibration": self._bins,
            "delays": np.array(self._delays, np.int64),
            "history": np.array(moments, np.float64).reshape(-1, len(Moment.__slots__)),
        }
        arrays |= {f"model.{name}": array for name, array in self.metrics.state().items()}
        arrays |= {f"reference.{name}": array for name, array in self.reference.state().items()}
        file = BytesIO()
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Figures:
        """ValueError if `to_bytes` has not written it."""
        try:
            with np.load(BytesIO(data), allow_pickle=False) as arrays:
                return cls._restored({name: arrays[name] for name in arrays})
        except (KeyError, IndexError, TypeError, OSError, BadZipFile) as error:
            raise ValueError(f"no figures: {error}") from None

    @classmethod
    def _restored(cls, arrays: dict[str, Any]) -> Figures:
        loss: Any = str(arrays["loss"])
        found = cls(loss)
        rows, labels, timeouts, expired, since = arrays["counts"].tolist()
        found.rows, found.labels, found.timeouts, found.expired = rows, labels, timeouts, expired
        found.since, found._bins = since or None, arrays["calibration"]
        found._delays.extend(arrays["delays"].tolist())
        for values in arrays["history"].tolist():
            moment = Moment(0)
            for name, value in zip(Moment.__slots__, values, strict=True):
                setattr(moment, name, int(value) if name in _WHOLE else value)
            found.history.append(moment)
        found.metrics, found.reference = (
            Metrics.from_state(loss, {name: arrays[f"{of}.{name}"] for name in _parts(arrays, of)})
            for of in ("model", "reference")
        )
        return found

    def _flush_rows(self) -> None:
        if self._margins:
            predictions = self._of.link(np.array(self._margins))
            self.history[-1].predicted += float(predictions.sum())
            self._margins.clear()

    def _flush_labels(self) -> None:
        if not self._scored:
            return
        margins, labels, weights, beside = np.array(self._scored).T
        self._scored.clear()
        labels = self._of.kept(labels)
        self.metrics.update(margins, labels, weights)
        moment = self.history[-1]
        moment.weight += float(weights.sum())
        moment.mean += float((weights * labels).sum())
        moment.loss += float((weights * self._of.loss(margins, labels)).sum())
        self._calibrate(self._of.link(margins), labels, weights)
        known = ~np.isnan(beside)
        if known.any():
            beside, labels, weights = beside[known], labels[known], weights[known]
            self.reference.update(beside, labels, weights)
            moment.reference += float((weights * self._of.loss(beside, labels)).sum())

    def _calibrate(self, predictions: Any, labels: Any, weights: Any) -> None:
        if not self._of.metrics.ranks:
            return
        at = np.minimum((predictions * BINS).astype(int), BINS - 1)
        for row, values in enumerate((weights, weights * predictions, weights * labels)):
            self._bins[row] += np.bincount(at, values, BINS)

    def summary(self) -> dict[str, Any]:
        """All of it, as plain values; None where a figure is not known yet."""
        self._flush_rows()
        self._flush_labels()
        key = self._of.metrics.key
        of_model = self.metrics.result()
        weights, predictions, labels = self._bins.tolist()
        return {
            "since": None if self.since is None else self.since / 1e6,
            "rows": self.rows,
            "labels": self.labels,
            "timeouts": self.timeouts,
            "expired": self.expired,
            "figure": key,
            "model": _known(of_model[key]),
            "constant": _known(of_model[f"constant_{key}"]),
            "reference": _known(self.reference.progress()["loss"]),
            "auc": _known(of_model.get("auc", math.nan)),
            "mean_label": _known(of_model["mean_label"]),
            "mean_prediction": _known(of_model["mean_prediction"]),
            "delay_seconds": self._delay(),
            "calibration": [
                {"weight": w, "prediction": p / w, "label": y / w}
                for w, p, y in zip(weights, predictions, labels, strict=True)
                if w > 0
            ],
            "history": [self._point(moment) for moment in self.history],
        }

    def _delay(self) -> dict[str, float] | None:
        if len(self._delays) < 2:
            return None
        found = quantiles(self._delays, n=20)
        return {"p50": found[9] / 1e6, "p95": found[18] / 1e6, "max": max(self._delays) / 1e6}

    def _point(self, moment: Moment) -> dict[str, Any]:
        return {
            "time": moment.time / 1e6,
            "rows": moment.rows,
            "labels": moment.labels,
            "mean_prediction": moment.predicted / moment.rows if moment.rows else None,
            "mean_label": moment.mean / moment.weight if moment.weight else None,
            "loss": moment.loss / moment.weight if moment.weight else None,
            "reference_loss": moment.reference / moment.weight
            if moment.weight and moment.reference
            else None,
        }


def _parts(arrays: dict[str, Any], of: str) -> list[str]:
    return [name.removeprefix(f"{of}.") for name in arrays if name.startswith(f"{of}.")]


def _known(figure: float) -> float | None:
    return None if math.isnan(figure) or math.isinf(figure) else float(figure)
