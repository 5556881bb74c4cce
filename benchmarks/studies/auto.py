"""How good is the learner that tunes itself, beside rivals tuned in hindsight?

    PQRLEARN_DATA=... python -m benchmarks.studies.auto

One pass over each set, progressive loss. The rivals are 102 settings of LR and PQR, Vowpal Wabbit
in six ways and the running mean. Finished runs are kept in a journal below build/, so a study that
was stopped goes on where it was. Prints Markdown; writes auto.json beside this file.

Runs of LR, PQR and Vowpal Wabbit are kept until `--again`; those of Auto only as long as its code
stays the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click

from benchmarks.machine import circumstances
from benchmarks.measure import ROOT, tell
from benchmarks.results import as_json
from benchmarks.studies.rivals import Figures, Rival, rivals, vw_rivals
from benchmarks.studies.sets import STUDIES, rows_of
from pqrlearn.files import atomic_path
from pqrlearn.journal import Journal, key_of

FOLDER = ROOT / "build" / "studies"
OUTPUT = Path(__file__).with_suffix(".json")
DIGITS = 5

Runs = dict[str, dict[str, Figures]]
"""By rival; a run has figures of one or two kinds, `progressive` and `frozen`."""


def run(study: str, rival: Rival) -> tuple[str, str, dict[str, Figures]]:
    return study, rival.name, rival.run(study, FOLDER)


def results(studies: Sequence[str], jobs: int, again: bool) -> dict[str, Runs]:
    """Of every rival on every set; those in the journal are not run again."""
    path = FOLDER / "auto.jsonl"
    if again:
        path.unlink(missing_ok=True)
    journal, everyone = Journal(path), rivals()
    keys = {(study, rival.name): _key(study, rival) for study in studies for rival in everyone}
    missing = [(s, r) for s in studies for r in everyone if keys[s, r.name] not in journal]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        started = [pool.submit(run, study, rival) for study, rival in missing]
        for done, future in enumerate(as_completed(started), 1):
            study, name, found = future.result()
            journal.put(keys[study, name], found)
            tell(f"{done} of {len(missing)}: {study}, {name}")
    return {
        study: {rival.name: journal[keys[study, rival.name]] for rival in everyone}
        for study in studies
    }


def _key(study: str, rival: Rival) -> str:
    parts = [study, rows_of(study).digest(), rival.name]
    return key_of(*parts) if rival.family == "auto" else json.dumps(parts)


# What is told of it.


def summary(study: str, runs: Runs) -> dict[str, Any]:
    """The best of each family, and the best of all; small enough to be committed."""
    figure = STUDIES[study].figure
    by_family = {rival.name: rival.family for rival in rivals()}
    families = {
        "running mean": ["mean"],
        "auto": ["auto"],
        "best LR of 18": ["lr"],
        "best of 102": ["lr", "pqr"],
        **{rival.family: [rival.family] for rival in vw_rivals()},
    }
    columns = {}
    for title, members in families.items():
        names = [name for name in runs if by_family[name] in members]
        columns[title] = _best(runs, names, "progressive") if names else None
    frozen = {
        title: _best(runs, [name for name in runs if by_family[name] in families[title]], "frozen")
        for title in ("auto", "best of 102")
        if columns[title] is not None
    }
    return {
        "rows": len(rows_of(study)),
        "figure": figure,
        "progressive": columns,
        "frozen": frozen,
    }


def _best(runs: Runs, names: Iterable[str], kind: str) -> dict[str, Any]:
    def loss(name: str) -> float:
        figures = runs[name][kind]
        return figures.get("logloss", figures.get("rmse", math.inf))

    name = min(names, key=loss)
    figures = {key: round(value, DIGITS) for key, value in runs[name][kind].items()}
    return {"name": name, **figures}


def table(found: dict[str, dict[str, Any]]) -> str:
    titles = list(next(iter(found.values()))["progressive"])
    lines = [_line(["set", "rows", *titles, "auto against the best of all"])]
    lines.append(_line(["---"] * (len(titles) + 3)))
    for study, one in found.items():
        figures = {
            title: best[one["figure"]] if best else None
            for title, best in one["progressive"].items()
        }
        shown = [_shown(figures[title]) for title in titles]
        lines.append(_line([study, f"{one['rows']:,}", *shown, _against(figures)]))
    return "\n".join(lines)


def frozen_table(found: dict[str, dict[str, Any]]) -> str:
    """The last 20 % of the rows, by models that have learned the others and learn no more."""
    lines = [_line(["set", "auto", "AUC", "best of 102", "AUC", "which", "auto against it"])]
    lines.append(_line(["---"] * 7))
    for study, one in found.items():
        ours, best = one["frozen"].get("auto"), one["frozen"]["best of 102"]
        figures = {"auto": ours and ours[one["figure"]], "best": best[one["figure"]]}
        cells = [
            *(_shown(figures["auto"]), _shown(ours and ours.get("auc"))),
            *(_shown(figures["best"]), _shown(best.get("auc"))),
        ]
        lines.append(_line([study, *cells, best["name"], _against(figures)]))
    return "\n".join(lines)


def _against(figures: dict[str, float | None]) -> str:
    ours = figures["auto"]
    if ours is None:
        return "–"
    best = min(value for title, value in figures.items() if value is not None and title != "auto")
    return f"{100 * (ours / best - 1):+.2f} %"


def _shown(figure: float | None) -> str:
    return "–" if figure is None else f"{figure:.{DIGITS}f}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


@click.command()
@click.option("--set", "studies", multiple=True, type=click.Choice(list(STUDIES)))
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True)
@click.option("--again", is_flag=True, help="Discard the journal and run everything again.")
@click.option("--output", type=click.Path(path_type=Path), default=OUTPUT)
def main(studies: tuple[str, ...], jobs: int, again: bool, output: Path) -> None:
    """Compares Auto with rivals that were tuned in hindsight."""
    about = circumstances()
    done = results(studies or tuple(STUDIES), jobs, again)
    found = {study: summary(study, runs) for study, runs in done.items()}
    with atomic_path(output) as beside:
        beside.write_text(as_json({**about, "sets": found}) + "\n")
    print(f"Progressive loss:\n\n{table(found)}\n\nFrozen after 80 %:\n\n{frozen_table(found)}")


if __name__ == "__main__":
    main()
