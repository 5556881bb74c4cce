"""Who takes part. A contender turns a workload into a Reading, by one command."""

from __future__ import annotations

import json
import re
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import ROOT, BenchmarkError, Outcome, measure, near
from benchmarks.workloads import Workload

ALPHA, BETA = "0.1", "1"
"""Of FTRL-Proximal, the same for everyone who has it; no L1, no L2."""

PQR = Path(sys.executable).with_name("pqr")
PEERS = Path(__file__).with_name("peers")
PEERS_PYTHON = ROOT / ".venv-bench" / "bin" / "python"


@dataclass(frozen=True)
class Reading:
    """One run, end to end: process started, file read, every row predicted and learned, saved."""

    seconds: float
    rows: int
    loss: float
    peak_bytes: int
    user_seconds: float
    system_seconds: float


class Contender(ABC):
    """Says which command to run and how to read what it prints; `run` does the rest."""

    key: str
    title: str
    note: str
    """What a reader should know before comparing."""

    def run(self, workload: Workload) -> Reading:
        model = ROOT / workload.model(self.key)
        model.unlink(missing_ok=True)
        outcome = measure(self.command(workload))
        if not model.exists():
            raise BenchmarkError(f"{self.key} saved no model")
        rows, loss = self.figures(outcome)
        return Reading(
            outcome.seconds,
            rows,
            loss,
            outcome.peak_bytes,
            outcome.user_seconds,
            outcome.system_seconds,
        )

    @abstractmethod
    def command(self, workload: Workload) -> list[str]: ...

    @abstractmethod
    def figures(self, outcome: Outcome) -> tuple[int, float]:
        """Rows learned and their progressive LogLoss."""


class Ours(Contender):
    """`pqr train`, as a user runs it."""

    kind: list[str]

    def command(self, workload: Workload) -> list[str]:
        files = [workload.libsvm, "-o", workload.model(self.key)]
        return [near(PQR), "train", *files, *self.kind, "--alpha", ALPHA, "--beta", BETA, "--json"]

    def figures(self, outcome: Outcome) -> tuple[int, float]:
        shown = json.loads(outcome.stdout)
        return shown["rows"], shown["logloss"]


class Linear(Ours):
    key, title, kind = "lr", "LR", ["--model", "lr"]
    note = "two threads, one that reads and one that learns"


class Projective(Ours):
    key = "pqr"
    note = (
        "two threads, one that reads and one that learns; the time includes a first look at a "
        "million rows, to find the most frequent features"
    )

    def __init__(self, order: int) -> None:
        self.title = f"PQR({order})"
        self.kind = ["--model", "pqr", "--order", str(order)]


class VowpalWabbit(Contender):
    """The driver loop of the wheel (`python -m vowpalwabbit`): C++ reads the file and learns."""

    def command(self, workload: Workload) -> list[str]:
        files = ["-d", workload.vw, "-f", workload.model(self.key), "--no_stdin"]
        rates = ["--ftrl", "--ftrl_alpha", ALPHA, "--ftrl_beta", BETA]
        loss = ["--loss_function", "logistic", "--link", "logistic"]
        run = [near(PEERS_PYTHON), "-m", "vowpalwabbit"]
        return [*run, *files, *rates, *loss, *self.kind(workload)]

    @abstractmethod
    def kind(self, workload: Workload) -> list[str]: ...

    def figures(self, outcome: Outcome) -> tuple[int, float]:
        def shown(name: str) -> str:
            found = re.search(rf"^{name} = (\S+)$", outcome.stderr + outcome.stdout, re.MULTILINE)
            if found is None:
                raise BenchmarkError(f"{self.key} did not print its {name}")
            return found[1]

        return int(shown("number of examples")), float(shown("average loss"))


class VwLinear(VowpalWabbit):
    key, title = "vw", "VW --ftrl"
    note = (
        "two threads, one that reads and one that learns; a slot for every feature, none shared; "
        "the same algorithm and rates as LR"
    )

    def kind(self, workload: Workload) -> list[str]:
        return ["-b", str(workload.bits)]


class VwPairs(VowpalWabbit):
    key, title = "vw-q", "VW --ftrl -q"
    note = (
        "every pair of features in a row, hashed into 2^24 slots; there are more pairs than slots, "
        "and sharing them costs loss but saves time and memory"
    )

    def kind(self, workload: Workload) -> list[str]:
        return ["-q", "ff", "-b", "24"]


class PeerScript(Contender):
    """A script in `peers/` that takes FILE NUMBER MODEL and prints rows and loss as JSON."""

    script: str

    @abstractmethod
    def number(self, workload: Workload) -> int: ...

    def command(self, workload: Workload) -> list[str]:
        script = near(PEERS / self.script)
        arguments = [workload.libsvm, str(self.number(workload)), workload.model(self.key)]
        return [near(PEERS_PYTHON), script, *arguments]

    def figures(self, outcome: Outcome) -> tuple[int, float]:
        shown = json.loads(outcome.stdout)
        return shown["rows"], shown["loss"]


class ScikitLearn(PeerScript):
    key, title, script = "sklearn", "scikit-learn SGD", "sklearn_sgd.py"
    note = (
        "SGDClassifier learns row by row within mini-batches of 10,000 but predicts them as a "
        "whole, so its loss is not quite progressive; plain SGD, no FTRL, no interactions; reading "
        "by load_svmlight_file is most of its time"
    )

    def number(self, workload: Workload) -> int:
        """Of features: it must know them beforehand."""
        return workload.features


class River(PeerScript):
    key, title, script = "river", "River FTRL", "river_ftrl.py"
    note = (
        "LogisticRegression with FTRLProximal, on the first 100,000 rows only; its loss is that of "
        "these rows, not comparable; no interactions at a speed that could take part"
    )
    ROWS = 100_000

    def number(self, workload: Workload) -> int:
        """Of rows: all of them would take minutes each time."""
        return min(self.ROWS, workload.rows)


def contenders(order: int) -> list[Contender]:
    """Everyone, in the order of every round."""
    return [
        Linear(),
        Projective(order),
        VwLinear(),
        VwPairs(),
        ScikitLearn(),
        River(),
    ]
