"""Simulated ratings: seeded, unlimited, and with a taste that is known.

MovieLens may not be redistributed, so tutorials and tests use this. A row is one rating: who (a
user with an age group), what (a film with a genre and a decade), and one to five stars. Some users
are kinder than others and some films better; beyond that each age group has a taste, an effect of
its own for each genre, which no model without interactions can learn.

As in clicks.py, everything is a hash of the seed, a purpose and a counter: a row depends only on
its number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pqrlearn.datasets.arithmetic import key, mixed, uniform
from pqrlearn.errors import HyperError
from pqrlearn.rows import FloatArray

AGES = ("18-24", "25-34", "35-44", "45-54", "55+")
GENRES = ("action", "children", "comedy", "documentary", "drama", "horror", "romance", "sci-fi")
DECADES = ("1970s", "1980s", "1990s", "2000s")
MEAN, USER, FILM, TASTE, NOISE = 3.6, 0.35, 0.4, 0.5, 0.75
"""The mean rating, and the standard deviations of what moves it."""

SQRT3 = 1.7320508075688772
Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RatingStream:
    """The settings of a stream; two streams with equal settings are equal.

    >>> stream = RatingStream()
    >>> stream.header
    ('stars', 'user', 'age', 'film', 'genre', 'decade')
    >>> next(stream.lines(1))
    ('4', 'u1932', '35-44', 'f65', 'sci-fi', '1970s')
    """

    users: int = 2_000
    films: int = 800
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("users", "films"):
            value = getattr(self, name)
            if value < 1:
                raise HyperError(f"{name}={value} must be at least 1")

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the columns.

        >>> RatingStream().header[0]
        'stars'
        """
        return ("stars", "user", "age", "film", "genre", "decade")

    def lines(self, rows: int, start: int = 0) -> Iterator[tuple[str, ...]]:
        """The cells of rows `start` to `start + rows`.

        >>> len(list(RatingStream().lines(5, start=100)))
        5
        """
        numbers = np.arange(start, start + rows)
        users = self._drawn("user of a row", numbers, self.users)
        films = self._drawn("film of a row", numbers, self.films)
        ages, genres = self._age(users), self._genre(films)
        decades = self._pick("decade", films, len(DECADES))
        stars = self._stars(numbers, users, films)
        for star, user, age, film, genre, decade in zip(
            stars, users, ages, films, genres, decades, strict=True
        ):
            yield str(star), f"u{user}", AGES[age], f"f{film}", GENRES[genre], DECADES[decade]

    def taste(self) -> FloatArray:
        """What each age group (a row) adds to films of each genre (a column), in stars.

        >>> RatingStream().taste().shape
        (5, 8)
        """
        cells = np.arange(len(AGES) * len(GENRES))
        return (TASTE * self._normal("taste", cells)).reshape(len(AGES), len(GENRES))

    def _stars(self, numbers: Whole, users: Whole, films: Whole) -> Whole:
        kind = USER * self._normal("kindness", users) + FILM * self._normal("quality", films)
        taste = self.taste()[self._age(users), self._genre(films)]
        exact = MEAN + kind + taste + NOISE * self._normal("noise", numbers)
        return np.clip(np.rint(exact), 1, 5).astype(np.int64)

    def _age(self, users: Whole) -> Whole:
        return self._pick("age", users, len(AGES))

    def _genre(self, films: Whole) -> Whole:
        return self._pick("genre", films, len(GENRES))

    def _uniform(self, purpose: str, counters: Whole) -> FloatArray:
        return uniform(mixed(counters.astype(np.uint64), key(self.seed, purpose)))

    def _pick(self, purpose: str, counters: Whole, size: int) -> Whole:
        return (self._uniform(purpose, counters) * size).astype(np.int64)

    def _drawn(self, purpose: str, counters: Whole, size: int) -> Whole:
        """Small numbers more often than large ones: few users rate much, few films are popular."""
        share = self._uniform(purpose, counters)
        return (share * share * size).astype(np.int64)

    def _normal(self, purpose: str, counters: Whole) -> FloatArray:
        """Nearly normal, with variance 1: the sum of four uniform numbers."""
        total = np.full(len(counters), -2.0)
        for part in range(4):
            total += self._uniform(f"{purpose} {part}", counters)
        return SQRT3 * total
