"""The figures that the paper prints."""

from __future__ import annotations

from typing import Final

Figure = tuple[float, float | None]
"""A value and, for repeated models, its standard deviation."""

RATINGS: Final = ("ml-100k", "ml-1m", "ml-10m")
CLICKS: Final = ("avazu", "criteo", "kdd2012")
ORDERS: Final[dict[str, tuple[int, ...]]] = {
    **dict.fromkeys(RATINGS, (500, 1000, 2000)),
    "avazu": (2000, 4000, 8000),
    "criteo": (200, 500, 1000),
    "kdd2012": (20, 50, 100),
}
COMPLEXITY: Final = {
    "linear models": ("O(nd)", "O(d)"),
    "FM models": ("O(nmd)", "O(md)"),
    "PQR": ("O(nd + nk²)", "O(d + k²)"),
}
"""Time and space for n rows of d features, rank m and order k."""


def _models(data: str, *figures: Figure | float) -> dict[str, Figure]:
    names = ("lr", "fm", "difacto", *(f"pqr {order}" for order in ORDERS[data]))
    pairs = (f if isinstance(f, tuple) else (f, None) for f in figures)
    return dict(zip(names, pairs, strict=True))


FIGURES: Final[dict[str, dict[str, dict[str, Figure]]]] = {
    "ml-100k": {
        "rmse": _models(
            "ml-100k", 1.0429, (1.0316, 1.2e-3), (1.0312, 9.0e-4), 1.0225, 1.0215, 1.0215
        )
        | {"cfm": (1.0326, None)},
    },
    "ml-1m": {
        "rmse": _models("ml-1m", 1.0487, (1.0434, 5.0e-4), (1.0411, 9.0e-4), 1.0321, 1.0250, 1.0190)
        | {"cfm": (1.0403, None)},
    },
    "ml-10m": {
        "rmse": _models(
            "ml-10m", 0.9651, (0.9605, 1.7e-3), (0.9572, 1.1e-3), 0.9547, 0.9541, 0.9536
        )
        | {"cfm": (0.9616, None)},
    },
    "avazu": {
        "auc": _models("avazu", 0.7562, (0.7752, 1.8e-4), (0.7743, 1.1e-4), 0.7757, 0.7777, 0.7785),
        "logloss": _models(
            "avazu", 0.3939, (0.3840, 1.1e-4), (0.3840, 1.2e-4), 0.3830, 0.3818, 0.3812
        ),
        "time": _models("avazu", 1.0, 58.5, 58.0, 3.3, 3.6, 3.8),
        "size": _models("avazu", 16.37e3, 1.17e6, 0.29e6, 0.68e6, 1.32e6, 1.97e6),
    },
    "criteo": {
        "auc": _models(
            "criteo", 0.7151, (0.7218, 1.6e-4), (0.7216, 1.6e-4), 0.7207, 0.7220, 0.7221
        ),
        "logloss": _models(
            "criteo", 0.5116, (0.5068, 2.0e-4), (0.5070, 8.0e-5), 0.5076, 0.5067, 0.5066
        ),
        "time": _models("criteo", 1.0, 20.1, 20.6, 17.1, 18.3, 19.2),
        "size": _models("criteo", 1.09e3, 17e3, 14.6e3, 18.30e3, 77.68e3, 98.61e3),
    },
    "kdd2012": {
        "auc": _models(
            "kdd2012", 0.7944, (0.7968, 1.9e-4), (0.7955, 3.0e-4), 0.8013, 0.8015, 0.8016
        ),
        "logloss": _models(
            "kdd2012", 0.1541, (0.1535, 5.1e-5), (0.1534, 6.5e-5), 0.1524, 0.1524, 0.1523
        ),
        "time": _models("kdd2012", 1.0, 10.4, 11.8, 3.1, 3.1, 3.2),
        "size": _models("kdd2012", 9.11e6, 91.6e6, 72.2e6, 9.70e6, 9.71e6, 9.71e6),
    },
}


def printed(data: str, measure: str, column: str | None) -> Figure | None:
    """The value of a cell of the paper; None if it has no such cell."""
    return FIGURES[data].get(measure, {}).get(column or "")
