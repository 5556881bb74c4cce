"""The regret of Auto against the best of its experts, beside its bound (docs/auto.md).

The comparator is another one than Theorem 1's: not the best fixed weights in hindsight, but the
best of eight learners that have seen no more than Auto itself. For squared loss, losses are sums of
(prediction - label)².
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from pqrlearn.learners import Auto
from pqrlearn.loss import LossName
from pqrlearn.paper.tables import Table
from pqrlearn.rows import Batch


@dataclass(frozen=True)
class ExpertPoint:
    """Auto after T rows: its loss beyond that of the best expert, and what it cannot exceed."""

    rows: int
    expert: str
    lost: float
    """The total loss of that expert."""
    regret: float
    bound: float


def auto_regret(batch: Batch, loss: LossName, horizons: Sequence[int]) -> list[ExpertPoint]:
    """One pass, looked at after each number of rows.

    >>> rows = Batch.from_rows([([0], [1.0]), ([1], [1.0])] * 50, labels=[1, 0] * 50)
    >>> [point.regret <= point.bound for point in auto_regret(rows, "logistic", [10, 100])]
    [True, True]
    """
    learner, done, found = Auto(loss), 0, []
    for rows in horizons:
        learner.learn_margins(batch.part(done, rows))
        done, about = rows, learner.summary()
        best = min(about["losses"], key=about["losses"].__getitem__)
        lost = about["losses"][best]
        found.append(ExpertPoint(rows, best, lost, about["regret"], about["bound"]))
    return found


def table(points: Sequence[ExpertPoint], title: str) -> Table:
    """A line for each T."""
    columns = ["T", "best expert", "its loss", "regret of Auto", "bound", "regret / T"]
    lines = [
        [
            f"{point.rows:,}",
            point.expert,
            f"{point.lost:,.2f}",
            f"{point.regret:+,.2f}".replace("-", "−"),
            f"{point.bound:,.2f}",
            f"{point.regret / point.rows:+.5f}".replace("-", "−"),
        ]
        for point in points
    ]
    note = "a negative regret: the mixture predicts better than the best expert"
    name, data = f"experts {title}", [asdict(point) for point in points]
    return Table(name, f"Auto against its experts: {title}", columns, lines, [note], data, 0)
