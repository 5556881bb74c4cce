"""What merging costs in loss, against the workers and the rounds, beside one sequential pass.

    python -m benchmarks.studies.merge [SET...]

Sets: criteo (its sample), avazu (600,000 rows of its shape), long (1,200,000 rows of Avazu's
shape, another seed), ml-1m (ratings). The model is PQR with default settings. The last sixth of
the rows is held out from all learning; the loss of the final model on it is compared. Prints
Markdown.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from benchmarks.machine import circumstances
from benchmarks.measure import tell
from benchmarks.studies.sets import rows_of
from pqrlearn import PQR, Batch, Separation
from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.merging import learn_in_rounds
from pqrlearn.merging.models import loss_on

SETS = {
    "criteo": ("logistic", lambda: rows_of("criteo")),
    "avazu": ("logistic", lambda: Batch.joined(ClickStream.avazu().batches(600_000))),
    "long": ("logistic", lambda: Batch.joined(ClickStream.avazu(2).batches(1_200_000))),
    "ml-1m": ("squared", lambda: rows_of("ml-1m")),
}
WORKERS = (4, 16)
ROUNDS = (1, 8, 16, 32)


@dataclass(frozen=True)
class Case:
    """A set, cut into rows to learn and rows to test, with one separation for all runs."""

    name: str
    loss: Any
    train: Batch
    test: Batch
    separation: Separation

    @staticmethod
    def of(name: str) -> Case:
        loss, load = SETS[name]
        rows = load()
        cut = len(rows) * 5 // 6
        train = rows.part(0, cut)
        return Case(name, loss, train, rows.part(cut, len(rows)), Separation.top_k(train))

    def found(self, workers: int, rounds: int, passes: int = 1) -> float:
        model = PQR(self.separation, self.loss)
        found, shown = learn_in_rounds(
            model, self.train, workers=workers, rounds=rounds, passes=passes, processes=2
        )
        loss = loss_on(found, [self.test])
        alone = sum(each.alone is not None for each in shown)
        megabytes = sum(each.bytes for each in shown) / len(shown) / 1e6
        what = f"{self.name}: {workers} workers, {rounds} rounds, {passes} passes"
        tell(f"{what}: {loss:.5f}, {alone} rounds not merged, {megabytes:.0f} MB a round")
        return loss


def lines(case: Case) -> list[str]:
    once, twice = case.found(1, 1), case.found(1, 1, passes=2)
    rows = f"{len(case.train):,}"
    made = [f"| {case.name} | {rows} | 1 | {once:.5f} | | | | {(twice / once - 1):+.2%} |"]
    for workers in WORKERS:
        losses = [case.found(workers, rounds) for rounds in ROUNDS]
        losses.append(case.found(workers, 16, passes=2))
        cells = " | ".join(f"{loss / once - 1:+.2%}" for loss in losses)
        made.append(f"| {case.name} | {rows} | {workers} | {cells} |")
    return made


def main(names: list[str]) -> None:
    about = circumstances()
    print("| set | rows learned | workers |", end="")
    print("".join(f" {rounds} rounds |" for rounds in ROUNDS), "two passes of 16 rounds |")
    print("|---|" + "---|" * (len(ROUNDS) + 3))
    for name in names or list(SETS):
        print("\n".join(lines(Case.of(name))), flush=True)
    print(f"\n{about}")


if __name__ == "__main__":
    main(sys.argv[1:])
