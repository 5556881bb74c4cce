"""What to compare: models, rows, and how rows are read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from pqrlearn.errors import HyperError
from pqrlearn.files import check_name, check_no_input, check_writable
from pqrlearn.hyper import SAMPLE_ROWS
from pqrlearn.learners import LEARNERS, PQR, Auto
from pqrlearn.loss import LossName
from pqrlearn.readers import AnyPath, Reading
from pqrlearn.training import TrainConfig

MODELS: Final = ("auto", "lr", "pqr")
"""What is compared by default."""


@dataclass(frozen=True, kw_only=True)
class CompareConfig:
    """Fields have the names of the options of `pqr compare`; None means not given."""

    inputs: tuple[Any, ...]
    reading: Reading = field(default_factory=Reading)
    on_bad_row: str = "stop"
    models: tuple[str, ...] | None = None
    loss: str | None = None
    order: int | None = None
    min_count: int | None = None
    sample_rows: int | None = SAMPLE_ROWS
    names: AnyPath | None = None
    output: AnyPath | None = None
    """Where to save the model that is advised."""

    def __post_init__(self) -> None:
        models = MODELS if self.models is None else self.models
        if not models:
            raise HyperError(f"models: nothing to compare; choose from {', '.join(LEARNERS)}")
        for kind in models:
            if kind not in LEARNERS:
                raise HyperError(f"models: {kind!r} must be one of {', '.join(LEARNERS)}")
            if models.count(kind) > 1:
                raise HyperError(f"models: {kind} is there twice; give each model once")
            self.training(kind)  # rejects what its model cannot use

    def training(self, kind: str) -> TrainConfig:
        """A training run of one of the models."""
        counting: dict[str, Any] = {}
        if kind == PQR.kind:
            counting = {"order": self.order, "min_count": self.min_count}
        return TrainConfig(
            inputs=self.inputs,
            reading=self.reading,
            on_bad_row=self.on_bad_row,
            model=kind,
            loss=None if self.models is None and kind == Auto.kind else self.loss,
            sample_rows=self.sample_rows,
            names=self.names,
            output=self.output,
            **counting,
        )

    def chosen(self, loss: LossName) -> list[str]:
        """The models to compare; of the default ones those that have this loss."""
        if self.models is not None:
            return list(self.models)
        return [kind for kind in MODELS if kind != Auto.kind or loss != "poisson"]

    def check_files(self) -> None:
        """Fails before long work if the output cannot be written or is an input."""
        if self.output is not None:
            check_name(self.output)
            files = [one for one in self.inputs if isinstance(one, str)]
            check_no_input(self.output, [*files, self.names])
            check_writable(self.output)
