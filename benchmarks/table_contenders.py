"""Who takes part in the part tables: from CSV, from Parquet, and from frames in memory."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

from benchmarks.contenders import (
    ALPHA,
    BETA,
    PEERS,
    PQR,
    Contender,
    Ours,
    Reading,
    VowpalWabbit,
)
from benchmarks.measure import PEERS_PYTHON, Outcome, near
from benchmarks.table_rows import LABEL

ORDER = 8000


class FromTable(Ours):
    """`pqr train` on a file of a set of rows; the schema is guessed, as for any user."""

    def __init__(self, key: str, suffix: str, model: str) -> None:
        of, order = {"lr": ("LR", []), "pqr": (f"PQR({ORDER})", ["--order", str(ORDER)])}[model]
        self.key, self._suffix = key, suffix
        self.title = f"{of}, {'libsvm' if suffix == 'svm' else suffix}"
        self.kind = ["--model", model, *order]
        self.note = {
            "csv": "the schema is guessed from the first rows, and each text looked up by name",
            "parquet": "as from CSV; columns of categories are dictionaries in the file",
            "svm": "the same rows as numbers, without names",
        }[suffix]

    def command(self, workload: Any) -> list[str]:
        files = [workload.path(self._suffix), "-o", workload.model(self.key)]
        label = [] if self._suffix == "svm" else ["--label", LABEL]
        return [near(PQR), "train", *files, *label, *self.kind, *self.rates, "--json"]


class VwText(VowpalWabbit):
    key, title, suffix = "vw", "VW --ftrl", "vw"
    more: tuple[str, ...] = ()
    note = "the same rows in its own text, as column=value in one namespace; names are hashed"

    def input(self, workload: Any) -> list[str]:
        return ["-d", workload.path(self.suffix), *self.more]

    def kind(self, workload: Any) -> list[str]:
        return ["-b", str(workload.bits)]


class VwCsv(VwText):
    key, title, suffix, more = "vw-csv", "VW --ftrl --csv", "vw.csv", ("--csv",)
    note = "its own reader of CSV; cells are quoted, or it would take some of them for numbers"


class InFrame(Contender):
    """Reports times of its own: those of the process would hold the making of the frame."""

    def reading(self, outcome: Outcome) -> Reading:
        own = json.loads(outcome.stdout)
        times = {name: own[name] for name in ("seconds", "user_seconds", "system_seconds")}
        return replace(super().reading(outcome), **times)

    def figures(self, outcome: Outcome) -> tuple[int, float]:
        shown = json.loads(outcome.stdout)
        return shown["rows"], shown["loss"]


class OurFrame(InFrame):
    def __init__(self, library: str) -> None:
        self.key, self.title, self._library = library, f"LR, {library}", library
        self.note = f"learn_many of a {library} frame of categories; only that call is timed"

    def command(self, workload: Any) -> list[str]:
        files = [workload.path("parquet"), workload.model(self.key)]
        script = [near(sys.executable), "-m", "benchmarks.frame_rows", self._library]
        return [*script, *files, ALPHA, BETA]


class VwFrame(InFrame):
    key, title = "dftovw", "VW DFtoVW"
    note = (
        "DFtoVW turns a pandas frame of text into lines, which are parsed and learned one by one; "
        "the first rows only"
    )
    ROWS = 20_000

    def command(self, workload: Any) -> list[str]:
        rows = str(min(self.ROWS, workload.rows))
        files = [workload.path("csv"), rows, workload.model(self.key), str(workload.bits)]
        return [near(PEERS_PYTHON), near(PEERS / "vw_frame.py"), *files]


class SklearnFrame(InFrame):
    key, title = "onehot", "scikit-learn OneHotEncoder + SGD"
    note = (
        "one pass of SGDClassifier over a pandas frame of categories that OneHotEncoder has "
        "encoded as a whole; its loss is that after the pass; the first rows only"
    )

    def command(self, workload: Any) -> list[str]:
        rows = str(min(workload.few_rows, workload.rows))
        files = [workload.path("csv"), rows, workload.model(self.key)]
        return [near(PEERS_PYTHON), near(PEERS / "sklearn_frame.py"), *files]


def contenders() -> list[Contender]:
    """Everyone, in the order of every round: who is compared with whom runs close to them."""
    return [
        FromTable("csv", "csv", "lr"),
        VwText(),
        VwCsv(),
        FromTable("parquet", "parquet", "lr"),
        FromTable("svm", "svm", "lr"),
        FromTable("pqr-parquet", "parquet", "pqr"),
        FromTable("pqr-svm", "svm", "pqr"),
        OurFrame("polars"),
        OurFrame("pandas"),
        VwFrame(),
        SklearnFrame(),
    ]
