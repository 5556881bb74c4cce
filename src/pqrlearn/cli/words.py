"""Values of options: words in any case, sizes, lists."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar

import click

AUTO = "auto"
"""The --order that mixes several orders."""


class SampleRows(click.ParamType[int | None]):
    """A number of rows, or `all`."""

    name = "rows"

    def convert(self, value: Any, param: Any, context: Any) -> int | None:
        if value is None or str(value).lower() == "all":
            return None
        if isinstance(value, int):
            return value
        try:
            rows = int(value)
        except ValueError:
            rows = 0
        if rows < 1:
            self.fail(f"{value!r} is neither 'all' nor a whole number >= 1")
        return rows


class Bytes(click.ParamType[int]):
    """A number of bytes, as in 500MB or 2GB."""

    name = "SIZE"
    _UNITS: ClassVar[dict[str, int]] = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}

    def convert(self, value: Any, param: Any, context: Any) -> int:
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([KMG]?B?)", str(value), re.IGNORECASE)
        unit = match[2].upper() if match else ""
        if match is None or (unit and unit not in self._UNITS):
            self.fail(f"{value!r} is not a size, as in 500MB or 2GB")
        return int(float(match[1]) * self._UNITS[unit])


class Order(click.ParamType[int | str]):
    """A number of features, or `auto`."""

    name = "order"

    def convert(self, value: Any, param: Any, context: Any) -> int | str:
        if str(value).lower() == AUTO:
            return AUTO
        if isinstance(value, int):
            return value
        try:
            order = int(value)
        except ValueError:
            order = -1
        if order < 0:
            self.fail(f"{value!r} is neither '{AUTO}' nor a whole number >= 0")
        return order


class Scale(click.ParamType[float | str]):
    """A factor, or `none`."""

    name = "scale"

    def convert(self, value: Any, param: Any, context: Any) -> float | str:
        if str(value).lower() == "none":
            return "none"
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is neither 'none' nor a number")


class Tiers(click.ParamType[tuple[tuple[int, int], ...]]):
    """Counts and ranks, as in 10:4,100:8."""

    name = "C:M,..."

    def convert(self, value: Any, param: Any, context: Any) -> tuple[tuple[int, int], ...]:
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        try:
            pairs = [pair.split(":") for pair in value.split(",")]
            return tuple((int(count), int(rank)) for count, rank in pairs)
        except ValueError:
            self.fail(f"{value!r} is not a list of counts and ranks, as in 10:4,100:8")


class Choice(click.Choice[str]):
    """One of some words, in any case."""

    def __init__(self, words: Iterable[str]) -> None:
        super().__init__(list(words), case_sensitive=False)
