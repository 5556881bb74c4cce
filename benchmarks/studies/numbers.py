"""How should columns of numbers, and missing cells, be taken where nobody says?

Each rule makes a Schema of the first rows of a table, as `pqrlearn.guess` does, and changes one
thing of the rule that is in use. One progressive pass of Auto and of LR over each table; a rule is
as good as its loss, in percent of that of the best constant, so that tables can be compared.

    PQRLEARN_DATA=... python -m benchmarks.studies.numbers [--coded] [-o RESULT.json]

With --coded, texts of 21 to 400 values are made arbitrary whole numbers first, as ids often are.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import pqrlearn
from benchmarks.machine import commit, machine
from benchmarks.studies.number_sets import TABLES, Frame, Table, with_codes
from pqrlearn import Column, Schema
from pqrlearn.guess import SAMPLE_ROWS, quantiles

MODELS = ("auto", "lr")
WORST = 200.0
"""What a rule counts at most, in percent, so that no table decides alone."""
TELLING = 3.0
"""Standard errors by which labels differ where a cell is missing, if that tells something."""


@dataclass(frozen=True)
class Rule:
    """How whole numbers, other numbers and missing cells are taken.

    A way is raw, standardised, category or bins; ids is category for whole numbers of which half
    the cells have a value that comes again, and bins otherwise. `more` than so many different
    values are asked of ids, besides those of at most `few`.
    """

    whole: str = "ids"
    real: str = "bins"
    bins: int = 20
    place: bool = True
    few: int = 20
    more: int = 400
    missing: str = "feature"

    @property
    def name(self) -> str:
        changed = [
            f"{key}={value}" for key, value in vars(self).items() if value != getattr(Rule, key)
        ]
        return ", ".join(changed) or "the rule in use"

    def schema(self, frame: Frame, label: str) -> Schema:
        sample = frame.iloc[:SAMPLE_ROWS]
        guessed = pqrlearn.read(sample, label=label).schema
        columns = [self._column(c, sample, label) for c in guessed.columns]
        return replace(guessed, columns=tuple(columns))

    def _column(self, column: Column, sample: Frame, label: str) -> Column:
        cells = sample[column.name]
        if not column.is_feature:
            return column
        missing = self._missing(cells.isna(), sample[label])
        if cells.dtype.kind not in "iuf":
            return replace(column, missing=missing)
        values = cells.dropna().to_numpy(float)
        way = self.whole if (values == np.floor(values)).all() else self.real
        return replace(self._of(way, column.name, values), missing=missing)

    def _of(self, way: str, name: str, values: np.ndarray) -> Column:
        if way == "ids":
            way = "category" if self._are_ids(values) else "bins"
        if way in ("raw", "category"):
            return Column(name, "number" if way == "raw" else way)
        if way == "standardised":
            return Column(name, "number", center=values.mean(), scale=values.std() or 1.0)
        edges = quantiles(values, self.bins)
        if not edges:
            return Column(name, "category")
        return Column(name, "bins", edges=edges, place=self.place)

    def _are_ids(self, values: np.ndarray) -> bool:
        _, counts = np.unique(values, return_counts=True)
        again = bool(2 * counts[counts > 1].sum() >= len(values))
        return again and (len(counts) <= self.few or len(counts) > self.more)

    def _missing(self, missing: Any, labels: Any) -> bool:
        if self.missing == "absent" or not missing.any():
            return False
        if self.missing == "feature":
            return True
        there, gone = labels[~missing], labels[missing]
        error = np.sqrt(labels.var() * (1 / max(len(there), 1) + 1 / len(gone)))
        return bool(abs(there.mean() - gone.mean()) > TELLING * error)


RULES = [
    Rule(),
    Rule(place=False, few=0, more=0),
    Rule(place=False),
    *(Rule(real=way) for way in ("raw", "standardised", "category")),
    *(Rule(bins=bins) for bins in (5, 10, 16, 32, 64)),
    *(Rule(whole=way) for way in ("raw", "standardised", "category", "bins")),
    *(Rule(more=more) for more in (0, 100, 200, 1000)),
    Rule(few=0),
    *(Rule(missing=way) for way in ("absent", "feature if it tells")),
]


def measured(table: Table, frame: Frame, rule: Rule, model: str) -> float:
    """The loss of one pass, in percent of the best constant's; WORST if rows are refused."""
    schema = rule.schema(frame, table.label)
    try:
        figures = pqrlearn.train(frame, schema=schema, loss=table.loss, model=model).run.metrics
    except pqrlearn.PqrError:
        return WORST
    loss = 100 * figures[table.figure] / figures[f"constant_{table.figure}"]
    return round(min(WORST, float(loss)), 3)


def all_measured(*, coded: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {"machine": machine(), "commit": commit(), "skipped": {}, "tables": {}}
    for table in TABLES.values():
        try:
            frame = table.frame()
        except (ImportError, OSError) as error:
            found["skipped"][table.name] = str(error)
            print(f"skipped {table.name}: {error}", flush=True)
            continue
        frame = with_codes(frame) if coded else frame
        losses = {
            model: {r.name: measured(table, frame, r, model) for r in RULES} for model in MODELS
        }
        found["tables"][table.name] = {"rows": len(frame), "columns": frame.shape[1], **losses}
        print(table.name, losses["auto"], flush=True)
    return found


def best(losses: list[Mapping[str, float]]) -> str:
    """The rule with the lowest mean."""
    return min(losses[0], key=lambda rule: float(np.mean([table[rule] for table in losses])))


def left_out(tables: Mapping[str, Any], model: str) -> list[tuple[str, str, float, float, float]]:
    """Per table: the rule that is best on all others, and its loss here; that in use; the best."""
    found = []
    for name, table in tables.items():
        here = table[model]
        chosen = best([other[model] for key, other in tables.items() if key != name])
        found.append((name, chosen, here[chosen], here[Rule().name], min(here.values())))
    return found


def page(found: Mapping[str, Any]) -> str:
    """Two tables in Markdown: differences to the rule in use, and what choosing costs."""
    tables = found["tables"]
    lines = ["| rule | " + " | ".join(f"{m}: mean, worst, best" for m in MODELS) + " |"]
    lines.append("|---" * (len(MODELS) + 1) + "|")
    for rule in RULES[1:]:
        cells = []
        for model in MODELS:
            change = [t[model][rule.name] - t[model][Rule().name] for t in tables.values()]
            cells.append(f"{np.mean(change):+.2f}, {max(change):+.2f}, {min(change):+.2f}")
        lines.append(f"| {rule.name} | {' | '.join(cells)} |")
    for model in MODELS:
        lines += ["", f"| {model} | rule chosen on the others | its loss | in use | best |"]
        lines.append("|---|---|---|---|---|")
        for name, rule, *losses in left_out(tables, model):
            lines.append(f"| {name} | {rule} | " + " | ".join(f"{x:.2f}" for x in losses) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--coded", action="store_true")
    options = parser.parse_args()
    found = all_measured(coded=options.coded)
    if options.output:
        options.output.write_text(json.dumps(found, indent=1) + "\n")
    print(page(found))


if __name__ == "__main__":
    main()
