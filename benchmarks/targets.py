"""What was promised, as data: which reading, which bound. What was not measured is not claimed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.kdd import ROWS as KDD_ROWS
from benchmarks.results import Result, table

Parts = Mapping[str, Result]
"""The results by part: avazu, criteo, memory, tables, kdd."""

Read = Callable[[Parts], float]
"""KeyError when it was not measured."""

NOT_MEASURED = "–"


@dataclass(frozen=True)
class Target:
    what: str
    sign: Literal["≥", "≤"]
    bound: float
    unit: Literal["×", "µs", "%", "rows", "bytes"]
    read: Read

    def reading(self, parts: Parts) -> float | None:
        try:
            return self.read(parts)
        except KeyError:
            return None

    def is_met(self, reading: float) -> bool:
        return reading >= self.bound if self.sign == "≥" else reading <= self.bound

    def cells(self, parts: Parts) -> list[str]:
        target, reading = f"{self.sign} {self.bound:,} {self.unit}", self.reading(parts)
        if reading is None:
            return [self.what, target, NOT_MEASURED, NOT_MEASURED]
        shown = f"{reading:,.0f}" if self.unit == "rows" else f"{reading:.2f}"
        return [self.what, target, f"{shown} {self.unit}", "yes" if self.is_met(reading) else "no"]


def speed(part: str, of: str, to: str, *within: str) -> Read:
    """How many times as many rows per second, by the medians of both."""

    def read(parts: Parts) -> float:
        found = parts[part]
        for key in within:
            found = found[key]
        rates = {one["key"]: one["rows_per_second"] for one in found["contenders"]}
        return float(rates[of] / rates[to])

    return read


def duration(part: str, of: str, to: str) -> Read:
    """How many times as long."""
    return speed(part, to, of)


def figure(*keys: str) -> Read:
    """The number at this place of the results."""

    def read(parts: Parts) -> float:
        found: Any = parts
        for key in keys:
            found = found[key]
        return float(found)

    return read


def _linear(part: str, shape: str) -> tuple[Target, ...]:
    fast = "from a cache : VW from its cache", "in memory : VW from its cache"
    return (
        Target(f"LR : VW --ftrl, {shape}", "≥", 5, "×", speed(part, "lr", "vw")),
        Target(f"LR {fast[0]}, {shape}", "≥", 8, "×", speed(part, "lr-cache", "vw-cache")),
        Target(f"LR {fast[1]}, {shape}", "≥", 8, "×", speed(part, "lr-memory", "vw-cache")),
    )


def _factorized(part: str, shape: str) -> tuple[Target, ...]:
    """The second counts where xLearn does not install."""
    return (
        Target(f"FM(8) : xLearn FM(8), {shape}", "≥", 2, "×", speed(part, "fm", "xlearn")),
        Target(f"or FM(8) : VW --ftrl, {shape}", "≥", 0.5, "×", speed(part, "fm", "vw")),
    )


def _predicting(part: str, shape: str, order: int) -> tuple[Target, ...]:
    return tuple(
        Target(
            f"{title}: predict_many at rest : learn_many, {shape}",
            "≥",
            3,
            "×",
            figure("memory", "many", part, title, "ratio"),
        )
        for title in ("LR", f"PQR({order})")
    )


def _one_by_one(kind: str, names: str) -> tuple[Target, ...]:
    return tuple(
        Target(
            f"{title}: learn_one, {names}",
            "≤",
            bound,
            "µs",
            figure("memory", "learn_one", kind, title, "microseconds"),
        )
        for title, bound in (("LR", 3), ("PQR(1000)", 20))
    )


def _kdd(model: str, title: str) -> tuple[Target, ...]:
    at = ("kdd", "models", model)
    return (
        Target(f"{title}: one pass over KDD2012", "≥", KDD_ROWS, "rows", figure(*at, "rows")),
        Target(f"{title}: peak memory : state", "≤", 1.5, "×", figure(*at, "peak_to_state")),
        Target(f"{title}: mean prediction off by", "≤", 1, "%", figure(*at, "off_percent")),
    )


def _tables(rows: str, *within: str) -> tuple[Target, ...]:
    def ratio(what: str, bound: float, of: str, to: str) -> Target:
        return Target(f"{what}, {rows}", "≥", bound, "×", speed("tables", of, to, *within))

    memory = ("tables", *within, "memory")
    return (
        ratio("LR from CSV : VW --ftrl", 2.5, "csv", "vw"),
        ratio("LR from CSV : VW --ftrl --csv", 3, "csv", "vw-csv"),
        ratio("LR from Parquet : from libsvm", 1, "parquet", "svm"),
        ratio("PQR(8000) from Parquet : from libsvm", 1, "pqr-parquet", "pqr-svm"),
        ratio("LR of a polars frame : VW DFtoVW", 30, "polars", "dftovw"),
        ratio("LR of a pandas frame : VW DFtoVW", 30, "pandas", "dftovw"),
        ratio("LR of a polars frame : OneHotEncoder + SGD", 3, "polars", "onehot"),
        ratio("LR of a pandas frame : OneHotEncoder + SGD", 3, "pandas", "onehot"),
        Target(
            f"peak memory of all rows twice : once, {rows}",
            "≤",
            1.1,
            "×",
            figure(*memory, "growth"),
        ),
        Target(
            f"dictionary of names, each beside its text, {rows}",
            "≤",
            100,
            "bytes",
            figure(*memory, "bytes_a_name"),
        ),
    )


TARGETS = (
    *_linear("avazu", "Avazu"),
    *_linear("criteo", "Criteo"),
    Target("PQR(8000) : VW --ftrl, Avazu", "≥", 2, "×", speed("avazu", "pqr", "vw")),
    Target("PQR(8000) : VW --ftrl -q, Avazu", "≥", 12, "×", speed("avazu", "pqr", "vw-q")),
    Target("time of PQR(8000) : LR, Avazu", "≤", 3, "×", duration("avazu", "pqr", "lr")),
    Target("PQR(1000) : VW --ftrl -q, Criteo", "≥", 12, "×", speed("criteo", "pqr", "vw-q")),
    Target("time of PQR(1000) : LR, Criteo", "≤", 10, "×", duration("criteo", "pqr", "lr")),
    Target("Auto : VW --ftrl, Avazu", "≥", 0.5, "×", speed("avazu", "auto", "vw")),
    Target("Auto : VW --ftrl -q, Avazu", "≥", 3, "×", speed("avazu", "auto", "vw-q")),
    *_factorized("avazu", "Avazu"),
    *_factorized("criteo", "Criteo"),
    *_one_by_one("columns", "the same names"),
    *_one_by_one("clicks", "new names all the time"),
    *_predicting("avazu", "Avazu", 8000),
    *_predicting("criteo", "Criteo", 1000),
    *_tables("Avazu's shape"),
    *_tables("a sample of Avazu", "sample"),
    *_kdd("lr", "LR"),
    *_kdd("pqr", "PQR(100)"),
    Target("time of PQR(100) : LR, KDD2012", "≤", 2, "×", figure("kdd", "time_ratio")),
)


def targets_table(parts: Parts) -> str:
    columns = ["what", "target", "reading", "met"]
    return table(columns, [target.cells(parts) for target in TARGETS])
