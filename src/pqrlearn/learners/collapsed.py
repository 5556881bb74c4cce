"""Auto explained: the terms of its frozen copy, and what mixing adds to their sum."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pqrlearn.learners.terms import Explainer, RowTerms
from pqrlearn.rows import Batch

if TYPE_CHECKING:
    from pqrlearn.learners.auto import Auto


def collapsed_explainer(model: Auto) -> Explainer:
    """Collapses the model once, for any number of rows."""
    frozen = model.frozen()
    explain_frozen = frozen._explainer()

    def explain(batch: Batch) -> RowTerms:
        mixing = model._batch_margins(batch) - frozen._batch_margins(batch)
        return replace(explain_frozen(batch), mixing=mixing)

    return explain
