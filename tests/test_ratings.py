"""Simulated ratings have the statistics that they are said to have."""

from __future__ import annotations

import numpy as np
import pytest

from pqrlearn.datasets.ratings import AGES, GENRES, MEAN, RatingStream
from pqrlearn.errors import HyperError

ROWS = list(RatingStream().lines(40_000))


def test_stars_are_whole_and_around_the_mean() -> None:
    stars = np.array([int(row[0]) for row in ROWS])
    assert set(stars) == {1, 2, 3, 4, 5}
    assert abs(stars.mean() - MEAN) < 0.15


def test_a_user_has_one_age_and_a_film_one_genre() -> None:
    for one, other in ((1, 2), (3, 4), (3, 5)):
        assert len({(row[one], row[other]) for row in ROWS}) == len({row[one] for row in ROWS})


def test_means_of_age_groups_and_genres_follow_the_taste() -> None:
    taste = RatingStream().taste()
    means = np.array(
        [
            [np.mean([int(r[0]) for r in ROWS if (r[2], r[4]) == (age, genre)]) for genre in GENRES]
            for age in AGES
        ]
    )
    assert np.corrcoef(means.ravel(), taste.ravel())[0, 1] > 0.9


def test_few_films_have_many_ratings() -> None:
    _, counts = np.unique([row[3] for row in ROWS], return_counts=True)
    assert np.sort(counts)[::-1][:80].sum() > 0.25 * len(ROWS)


def test_a_stream_without_users_is_an_error() -> None:
    with pytest.raises(HyperError, match="users=0 must be at least 1"):
        RatingStream(users=0)
