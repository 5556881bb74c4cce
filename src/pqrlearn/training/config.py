"""The configuration of a training run, typed and validated when it is made."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pqrlearn.errors import HyperError, SettingsConflict
from pqrlearn.files import check_name, check_no_input, check_writable
from pqrlearn.hyper import SAMPLE_ROWS, Settings, check_number, check_whole
from pqrlearn.learners import PQR, Auto, check_settings
from pqrlearn.learners.build import unused
from pqrlearn.learners.mixture import check_mixable
from pqrlearn.loss import LossName, check_loss
from pqrlearn.readers import AnyPath, Reading

CHECKPOINT_ROWS: Final = 1_000_000
"""Default number of rows from one checkpoint to the next."""


def check_passes(passes: int, kind: str) -> None:
    """Auto learns a row once."""
    if passes > 1 and kind == Auto.kind:
        raise SettingsConflict(
            "{passes} needs another {model}, such as pqr or lr: auto takes every row as new "
            "evidence, and rows seen twice make it overconfident"
        )


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """What to learn from, which model, and where to save it.

    Fields have the names of the options of `pqr train`. None means not given: the default of a new
    model, or whatever the resumed model has. With `resume`, settings may only repeat the model's.
    """

    inputs: tuple[Any, ...]
    """Paths or frames."""
    reading: Reading = field(default_factory=Reading)
    on_bad_row: str = "stop"
    bad_rows: AnyPath | None = None

    model: str | None = None
    loss: str | None = None
    settings: Settings = field(default_factory=Settings)
    order: int | Literal["auto"] | None = None
    min_count: int | None = None
    separation: AnyPath | None = None
    sample_rows: int | None = SAMPLE_ROWS
    names: AnyPath | None = None
    resume: AnyPath | None = None

    passes: int | None = None
    holdout: float | None = None
    """The share of the rows, the last ones, that the finished model is judged on."""
    checkpoint: AnyPath | None = None
    every: int | None = None
    output: AnyPath | None
    """None keeps the model in memory alone."""

    def __post_init__(self) -> None:
        for name in ("passes", "every", "min_count", "sample_rows"):
            value = getattr(self, name)
            if value is not None:
                check_whole(name, value, least=1)
        if self.bad_rows is not None and self.on_bad_row != "skip":
            raise SettingsConflict("{bad_rows} needs {on_bad_row} skip")
        if self.holdout is not None:
            self._check_holdout(self.holdout)
        if self.every is not None and self.checkpoint is None:
            raise SettingsConflict("{every} needs {checkpoint}")
        if self.resume is None:
            self._check_model()
            self._check_separation()

    @property
    def kind(self) -> str:
        """The kind of a new model."""
        return self.model or Auto.kind

    @property
    def new_loss(self) -> LossName:
        """The loss of a new model, unless the labels of a table ask for another."""
        return check_loss(self.loss or "logistic")

    @property
    def checkpoint_rows(self) -> int:
        return self.every or CHECKPOINT_ROWS

    def _check_model(self) -> None:
        check_settings(self.kind, self.settings)
        check_passes(self.passes or 1, self.kind)
        if self.kind == Auto.kind and self.new_loss == "poisson":
            raise SettingsConflict(
                "{loss} poisson needs another {model}, such as pqr or lr: auto has no bound there"
            )

    def _check_holdout(self, share: float) -> None:
        if not 0 < check_number("holdout", share) < 1:
            raise HyperError(f"holdout={share!r} must be between 0 and 1")
        if self.checkpoint is not None:
            raise SettingsConflict("{holdout} needs a run without {checkpoint}")

    def _check_separation(self) -> None:
        for name in ("order", "min_count", "separation"):
            if self.kind != PQR.kind and getattr(self, name) is not None:
                raise unused(name, self.kind, [PQR.kind])
        if self.order == "auto":
            check_mixable(self.new_loss)
        decided = "already says which features are high: leave out"
        if self.separation is not None and (self.order is not None or self.min_count is not None):
            other = "{order}" if self.order is not None else "{min_count}"
            raise SettingsConflict(f"{{separation}} {decided} {other}")
        if self.min_count is not None and self.order == "auto":
            raise SettingsConflict(f"{{min_count}} {decided} {{order}} auto")

    def check_files(self) -> None:
        """Fails before long work if an output cannot be written or would overwrite another file."""
        models = [path for path in (self.output, self.checkpoint) if path is not None]
        outputs = models if self.bad_rows is None else [*models, self.bad_rows]
        if len({os.path.realpath(path) for path in outputs}) < len(outputs):
            raise SettingsConflict("{output}, {bad_rows} and {checkpoint} must be different files")
        for path in outputs:
            check_name(path)
            files = [one for one in self.inputs if isinstance(one, str | os.PathLike)]
            check_no_input(path, [*files, self.separation, self.names])
        for path in models:
            check_writable(path)
