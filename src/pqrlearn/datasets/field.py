"""The fields of a simulated click stream: how large each is, and how often its values occur."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from itertools import accumulate, count, repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from pqrlearn.datasets.arithmetic import Bits, exp, follows, log
from pqrlearn.rows import FloatArray

IntArray = npt.NDArray[np.int64]

CELL_BITS = 12
"""Frequencies are a table of 2^12 cells of equal probability; within a cell they are uniform."""
LATENTS = 3
"""Such as the user, the item and the context of a row."""

FIELD_NAMES = (
    *("banner", "connection", "position", "device", "category", "region", "app", "site"),
    *("campaign", "ad", "query", "user", "cookie", "page", "referrer", "session"),
)


@dataclass(frozen=True)
class Segment:
    """Ranks from `begin` (0 is the most frequent) on: those before it have the probability `below`
    together, and frequencies fall like the power `-exponent` of the rank + 1."""

    begin: int
    below: float
    exponent: float


@dataclass(frozen=True)
class Field:
    """A range of features, and how often each is drawn.

    Ranks are scattered over the range, as frequent features are in real files. With probability
    `fidelity` the value of a row is decided by its latent number, which other fields share; else it
    is drawn by itself. Either way a value is drawn with the same probability.
    """

    name: str
    offset: int
    size: int
    segments: tuple[Segment, ...]
    strength: float = 1.0
    """The spread of linear effects, compared with other fields."""
    latent: int = 0
    fidelity: float = 0.0
    shift: int = 0

    def draw(self, bits: Bits, latent: Bits) -> IntArray:
        """One feature for every 64 random bits; `latent` has 32 random bits for each row."""
        own = bits >> np.uint64(32)
        drawn = np.where(follows(bits, self.fidelity), latent, own)
        return self.features(self.ranks(drawn))

    def ranks(self, draws: Bits) -> IntArray:
        """The rank at each draw of 32 bits."""
        shift = np.uint64(32 - CELL_BITS)
        cells = (draws >> shift).astype(np.intp)
        within = (draws & np.uint64(2 ** (32 - CELL_BITS) - 1)).astype(np.float64)
        begins, widths = self._cells
        return (begins[cells] + widths[cells] * within).astype(np.int64)

    def features(self, ranks: IntArray) -> IntArray:
        """The feature of each rank; a bijection, because stride and size are coprime."""
        scattered = ranks * self._stride + self.shift
        return scattered - scattered // self.size * self.size + self.offset

    def shares(self, ranks: IntArray) -> FloatArray:
        """The expected share of rows that hold the feature of each rank."""
        places = ranks.astype(np.float64)
        return self._below(places + 1.0) - self._below(places)

    @cached_property
    def _stride(self) -> int:
        golden = count(1 + int(0.618 * self.size))
        return next(stride for stride in golden if math.gcd(stride, self.size) == 1)

    @cached_property
    def _edges(self) -> FloatArray:
        """The places between ranks at which 0, 1, 2, ... of all cells lie below."""
        mass = np.arange(2**CELL_BITS + 1) * 2.0**-CELL_BITS
        edges = np.empty_like(mass)
        ends = [(one.begin, one.below) for one in self.segments[1:]] + [(self.size, 1.0)]
        for one, (end, above) in zip(self.segments, ends, strict=True):
            inside = (mass >= one.below) & (mass <= above)
            done = (mass[inside] - one.below) / max(above - one.below, 1e-300)
            edges[inside] = _places(done, one.begin + 1.0, end + 1.0, one.exponent) - 1.0
        edges[0], edges[-1] = 0.0, self.size
        return np.minimum(edges, self.size)

    @cached_property
    def _cells(self) -> tuple[FloatArray, FloatArray]:
        edges = self._edges
        return edges[:-1], (edges[1:] - edges[:-1]) * 2.0 ** (CELL_BITS - 32)

    def _below(self, place: FloatArray) -> FloatArray:
        """The probability of all ranks below a place."""
        edges = self._edges
        cell = np.minimum(np.searchsorted(edges, place, "right"), 2**CELL_BITS) - 1
        width = np.maximum(edges[cell + 1] - edges[cell], 1e-300)
        found: FloatArray = (
            cell + np.minimum((place - edges[cell]) / width, 1.0)
        ) * 2.0**-CELL_BITS
        return found


def _places(done: FloatArray, begin: float, end: float, exponent: float) -> FloatArray:
    """Where the integral of x^-exponent from `begin` has reached each share of that to `end`."""
    power, span = 1.0 - exponent, log(np.array([begin, end]))
    if abs(power) < 1e-9:
        return exp(span[0] + done * (span[1] - span[0]))
    low, high = exp(power * span)
    return exp(log(low + done * (high - low)) / power)


def geometric(fields: int, features: int, exponent: float) -> Iterator[Field]:
    """Fields from two values to a large share of all features, each with one power law."""
    names = [*FIELD_NAMES, *(f"f{number}" for number in range(len(FIELD_NAMES), fields))]
    offset = 0
    for number, size in enumerate(_geometric_sizes(fields, features)):
        segments = (Segment(0, 0.0, exponent),)
        yield Field(names[number], offset, size, segments, latent=number % LATENTS, fidelity=1.0)
        offset += size


def _geometric_sizes(fields: int, features: int) -> list[int]:
    """2, 2q, 2q^2, ... rounded down, with q as large as the sum allows; the last takes the rest."""
    low, high = 1.0, float(features)
    for _ in range(100):
        ratio = (low + high) / 2
        fits = sum(_powers(ratio, fields, features)) <= features
        low, high = (ratio, high) if fits else (low, ratio)
    sizes = _powers(low, fields, features)
    return [*sizes[:-1], features - sum(sizes[:-1])]


def _powers(ratio: float, number: int, limit: int) -> list[int]:
    """By multiplication, whose bits do not depend on the machine."""
    return [
        int(x)
        for x in accumulate(
            repeat(ratio, number - 1), lambda x, q: min(x * q, limit + 1.0), initial=2.0
        )
    ]


def like(name: str) -> Iterator[Field]:
    """Fields with the statistics of a real sample (benchmarks/studies/click_statistics.py)."""
    offset = 0
    for known in measured()[name]["fields"]:
        field, size, shares, tail, strength, latent, fidelity = known
        begins = [0, *(2**k for k in range(len(shares)))]
        exponents = [*(1.0 for _ in shares), tail]
        segments = tuple(map(Segment, begins, [0.0, *shares], exponents))
        yield Field(field, offset, size, segments, strength, latent, fidelity)
        offset += size


@cache
def measured() -> dict[str, dict[str, Any]]:
    """Statistics of real samples, by name."""
    found = json.loads(files(__package__).joinpath("measured.json").read_text())
    return {name: one for name, one in found.items() if "fields" in one}
