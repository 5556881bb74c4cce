"""A comparison: models that learn the same rows side by side, and who has won."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pqrlearn.comparison.config import CompareConfig
from pqrlearn.comparison.paired import Blocks, Interval, paired_interval
from pqrlearn.comparison.race import Race
from pqrlearn.errors import RowError
from pqrlearn.learners import PQR, Learner
from pqrlearn.loss import LossName, Measures, loss_named
from pqrlearn.metrics import Metrics
from pqrlearn.readers import Inputs
from pqrlearn.rows import Batch, FloatArray
from pqrlearn.training import Monitor
from pqrlearn.training.model import new_learner, open_inputs
from pqrlearn.training.run import SILENT


@dataclass(frozen=True)
class Compared:
    """One model of a comparison.

    `seconds` are those of learning, for PQR with counting, without reading. `size` is that of its
    file in bytes. `beyond_best` is its progressive loss beyond the best model's, in the units of
    the main figure (LogLoss, RMSE or deviance); None for the best.
    """

    learner: Learner
    measures: Measures
    metrics: dict[str, float]
    seconds: float
    nonzeros: int
    size: int
    beyond_best: Interval | None

    @property
    def kind(self) -> str:
        """As in `pqr train --model`.

        >>> from pqrlearn import Batch, compare
        >>> import numpy as np
        >>> rows = np.array([("a", 1), ("b", 0)] * 9, [("site", "U9"), ("click", "i4")])
        >>> compare(rows, label="click", models=["lr"]).models[0].kind
        'lr'
        """
        return self.learner.kind

    @property
    def loss(self) -> float:
        """The progressive loss: LogLoss, RMSE or deviance.

        >>> import numpy as np
        >>> from pqrlearn import compare
        >>> rows = np.array([("a", 1), ("b", 0)] * 9, [("site", "U9"), ("click", "i4")])
        >>> compare(rows, label="click", models=["lr"]).models[0].loss < 0.7
        True
        """
        return self.metrics[self.measures.key]


@dataclass(frozen=True)
class Comparison:
    """What a comparison showed; `models` are in the order in which they were given."""

    models: list[Compared]
    bad_rows: int
    first_bad: list[RowError]

    @property
    def measures(self) -> Measures:
        """How the loss is reported.

        >>> import numpy as np
        >>> from pqrlearn import compare
        >>> rows = np.array([("a", 1), ("b", 0)] * 99, [("site", "U9"), ("click", "i4")])
        >>> compare(rows, label="click", models=["lr"]).measures.title
        'LogLoss'
        """
        return self.models[0].measures

    @property
    def rows(self) -> int:
        """How many rows were compared on.

        >>> import numpy as np
        >>> from pqrlearn import compare
        >>> rows = np.array([("a", 1), ("b", 0)] * 99, [("site", "U9"), ("click", "i4")])
        >>> compare(rows, label="click", models=["lr"]).rows
        198
        """
        return int(self.models[0].metrics["rows"])

    @property
    def constant(self) -> float:
        """The loss of the best constant prediction.

        >>> import numpy as np
        >>> from pqrlearn import compare
        >>> rows = np.array([("a", 1), ("b", 0)] * 99, [("site", "U9"), ("click", "i4")])
        >>> round(compare(rows, label="click", models=["lr"]).constant, 4)
        0.6931
        """
        return self.models[0].metrics[f"constant_{self.measures.key}"]

    @cached_property
    def best(self) -> Compared:
        """The model of the smallest loss.

        >>> import numpy as np
        >>> from pqrlearn import compare
        >>> rows = np.array([("a", 1), ("b", 0)] * 99, [("site", "U9"), ("click", "i4")])
        >>> compare(rows, label="click", models=["lr"]).best.kind
        'lr'
        """
        return min(self.models, key=lambda one: _rank(one.loss))

    @cached_property
    def advised(self) -> Compared | None:
        """The smallest model that cannot be told from the best; None if a constant is as good.

        >>> import numpy as np
        >>> from pqrlearn import compare
        >>> rows = np.array([("a", 1), ("b", 0)] * 99, [("site", "U9"), ("click", "i4")])
        >>> compare(rows, label="click", models=["lr"]).advised.kind
        'lr'
        """
        if not self.best.loss < self.constant:
            return None
        equals = [one for one in self.models if not self._is_worse(one)]
        return min(equals, key=lambda one: one.nonzeros)

    def _is_worse(self, one: Compared) -> bool:
        return one.beyond_best is not None and one.beyond_best.is_significant

    @property
    def advice(self) -> str:
        """A sentence that says which model to take, and how sure that is.

        >>> import numpy as np
        >>> from pqrlearn import compare
        >>> rows = np.array([("a", 1), ("b", 0)] * 99, [("site", "U9"), ("click", "i4")])
        >>> compare(rows, label="click", models=["lr"]).advice[:27]
        'take lr: its LogLoss of 0.4'
        """
        title, best, advised = self.measures.title, self.best, self.advised
        if advised is None:
            return (
                f"take none: the best {title}, {best.loss:.5f} of {best.kind}, is not below "
                f"{self.constant:.5f}, the best constant's"
            )
        if advised is not best:
            return self._smaller(advised)
        others = sorted((one for one in self.models if one is not best), key=lambda one: one.loss)
        if not others:
            share = _percent(best.loss, self.constant)
            return f"take {best.kind}: its {title} of {best.loss:.5f} is {share} below a constant's"
        after = others[0]
        share = _percent(best.loss, after.loss)
        return (
            f"take {best.kind}: its {title} of {best.loss:.5f} is {share} below {after.kind}'s"
            + (
                ""
                if self._is_worse(after)
                else ", which may be chance, and it is the smaller model"
            )
        )

    def _smaller(self, advised: Compared) -> str:
        best, found = self.best, advised.beyond_best
        assert found is not None
        where = ""
        if found.is_known:
            where = f" (95 % interval: {found.low:+.5f} to {found.high:+.5f})"
        return (
            f"take {advised.kind}: its {self.measures.title} of {advised.loss:.5f} is "
            f"{found.difference:.5f} above {best.kind}'s{where}, which may be chance, and it is "
            "the smallest model of those that cannot be told apart"
        )


def _rank(loss: float) -> float:
    """A loss that is not a number is the worst."""
    return math.inf if math.isnan(loss) else loss


def _percent(loss: float, other: float) -> str:
    share = 100 * (1 - loss / other) if other > 0 else 0.0
    return f"{share:.2f} %" if share >= 0.01 else "less than 0.01 %"


def run(config: CompareConfig, monitor: Monitor = SILENT) -> Comparison:
    """Trains all models on all rows in one read, and saves the one that is advised."""
    config.check_files()
    inputs, loss = open_inputs(config.training("lr"), None)
    if inputs.schema is not None:
        monitor.guessed(inputs.schema, loss)
    learners, counting = _learners(config, inputs, loss, monitor)
    metrics = [Metrics(loss) for _ in learners]
    blocks = Blocks(len(learners) + 1)
    race = Race(learners, inputs, skip_refused=config.on_bad_row == "skip")
    with monitor.progress(f"comparing {len(learners)} models", inputs.fraction) as show:
        for batch, margins in race:
            blocks.add(_weighted(batch, margins, loss))
            for one, its in zip(metrics, margins, strict=True):
                one.update(its, batch.labels, batch.weights)
            show(metrics[0])
    seconds = [a + b for a, b in zip(race.seconds, counting, strict=True)]
    models = _compared(learners, [one.result() for one in metrics], seconds, blocks)
    first_bad = [*inputs.first_bad, *race.refused]
    found = Comparison(models, inputs.bad_rows + len(race.refused), first_bad)
    if config.output is not None and found.advised is not None:
        found.advised.learner.save(config.output)
    return found


def _learners(
    config: CompareConfig, inputs: Inputs, loss: LossName, monitor: Monitor
) -> tuple[list[Learner], list[float]]:
    """New learners that number features alike, and the seconds that each has counted before."""
    kinds, made, seconds = config.chosen(loss), {}, {}
    for kind in sorted(kinds, key=lambda kind: kind != PQR.kind):  # who counts names features
        learner, counted = new_learner(config.training(kind), inputs, loss, monitor.counted)
        made[kind], seconds[kind] = learner, counted.seconds if counted else 0.0
    if PQR.kind in made:
        for learner in made.values():
            if learner is not made[PQR.kind]:
                learner.use_names(made[PQR.kind].names)
    first = made.get(PQR.kind) or made[kinds[0]]
    inputs.use_names(first.names, first.next_feature)
    return [made[kind] for kind in kinds], [seconds[kind] for kind in kinds]


def _weighted(batch: Batch, margins: FloatArray, loss: LossName) -> FloatArray:
    """The loss of each row times its weight, a line for each model, and the weights."""
    weights = batch.weights.astype(np.float64)
    labels = loss_named(loss).kept(batch.labels)
    losses = [weights * loss_named(loss).loss(its, labels) for its in margins]
    return np.array([*losses, weights])


def _compared(
    learners: Sequence[Learner],
    figures: Sequence[dict[str, float]],
    seconds: Sequence[float],
    blocks: Blocks,
) -> list[Compared]:
    measures = loss_named(learners[0].loss).metrics
    *losses, weights = blocks.sums
    best = min(range(len(learners)), key=lambda at: _rank(figures[at][measures.key]))
    return [
        Compared(
            learner,
            measures,
            figures[at],
            seconds[at],
            sum(learner.nonzeros().values()),
            _size(learner),
            None if at == best else paired_interval(losses[at], losses[best], weights, measures),
        )
        for at, learner in enumerate(learners)
    ]


def _size(learner: Learner) -> int:
    """Of its file, which is written in parts: that needs less memory than `to_bytes`."""
    with TemporaryDirectory(prefix="pqr-") as folder:
        path = Path(folder, "model.pqr")
        learner.save(path)
        return os.path.getsize(path)
