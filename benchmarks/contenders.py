"""Who takes part. A contender turns a workload into a Reading, by one command."""

from __future__ import annotations

import json
import re
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.measure import PEERS_PYTHON, ROOT, BenchmarkError, Outcome, measure, near
from benchmarks.workloads import Workload, keep_at_hand

ALPHA, BETA = "0.1", "1"
"""Of FTRL-Proximal, the same for everyone who has it; no L1, no L2."""

PQR = Path(sys.executable).with_name("pqr")
PEERS = Path(__file__).with_name("peers")


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

    def is_there(self) -> bool:
        """Whether it is installed; all but the peers that not every machine can build are."""
        return True

    def prepare(self, workload: Workload) -> None:  # noqa: B027
        """Makes what the command reads, outside of the time; the texts are there already."""

    def run(self, workload: Workload) -> Reading:
        model = ROOT / workload.model(self.key)
        model.unlink(missing_ok=True)
        outcome = measure(self.command(workload))
        if not model.exists():
            raise BenchmarkError(f"{self.key} saved no model")
        return self.reading(outcome)

    def reading(self, outcome: Outcome) -> Reading:
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
    rates: tuple[str, ...] = ("--alpha", ALPHA, "--beta", BETA)

    def input(self, workload: Workload) -> str:
        return workload.libsvm

    def command(self, workload: Workload) -> list[str]:
        files = [self.input(workload), "-o", workload.model(self.key)]
        return [near(PQR), "train", *files, *self.kind, *self.rates, "--json"]

    def figures(self, outcome: Outcome) -> tuple[int, float]:
        shown = json.loads(outcome.stdout)
        return shown["rows"], shown["logloss"]


class Linear(Ours):
    key, title, kind = "lr", "LR", ["--model", "lr"]
    note = "two threads, one that reads and one that learns"


def make_cache(workload: Workload) -> None:
    """The libsvm text as parsed rows, which `pqr train` reads block by block."""
    if not (ROOT / workload.cache).exists():
        measure(
            [near(PQR), "data", "convert", workload.libsvm, "--to", "cache", "-o", workload.cache]
        )
    keep_at_hand(ROOT / workload.cache)


class LinearFromCache(Linear):
    key, title = "lr-cache", "LR, cache"
    note = (
        "from the cache that `pqr data convert --to cache` made of the text, to a saved model; "
        "making the cache is not counted"
    )

    def prepare(self, workload: Workload) -> None:
        make_cache(workload)

    def input(self, workload: Workload) -> str:
        return workload.cache


class LinearInMemory(LinearFromCache):
    """Reports times of its own: those of the process would hold the reading and the saving."""

    key, title = "lr-memory", "LR, in memory"
    note = (
        "learn_many of Batches that are in memory already; only learning is timed, but memory is "
        "that of the whole process, with all rows in it"
    )

    def command(self, workload: Workload) -> list[str]:
        files = [self.input(workload), workload.model(self.key)]
        return [near(sys.executable), "-m", "benchmarks.in_memory", *files, ALPHA, BETA]

    def reading(self, outcome: Outcome) -> Reading:
        own = json.loads(outcome.stdout)
        times = {name: own[name] for name in ("seconds", "user_seconds", "system_seconds")}
        return replace(super().reading(outcome), **times)


class Factorized(Ours):
    key, title, kind, rates = "fm", "FM(8)", ["--model", "fm", "--rank", "8"], ()
    note = "rank 8, AdaGrad with the rates that it has by default; two threads, as LR"


class SelfTuning(Ours):
    key, title, kind, rates = "auto", "Auto", ["--model", "auto"], ()
    note = "nothing set, nothing counted before; two threads, as LR"


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

    def input(self, workload: Workload) -> list[str]:
        return ["-d", workload.vw]

    def command(self, workload: Workload) -> list[str]:
        files = [*self.input(workload), "-f", workload.model(self.key), "--no_stdin"]
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


class VwFromCache(VwLinear):
    """Its command must name the text, or no row is read; it says that the text is ignored."""

    key, title = "vw-cache", "VW --ftrl, cache"
    note = (
        "from its own cache, made by a run before that is not counted; otherwise as VW --ftrl, "
        "with the same loss"
    )

    def prepare(self, workload: Workload) -> None:
        path = ROOT / workload.vw_cache
        if not path.exists():
            beside = path.with_suffix(".new")
            files = ["-d", workload.vw, "--cache_file", near(beside), "-k", "--no_stdin"]
            measure([near(PEERS_PYTHON), "-m", "vowpalwabbit", *files, *self.kind(workload)])
            beside.rename(path)
        keep_at_hand(path)

    def input(self, workload: Workload) -> list[str]:
        return [*super().input(workload), "--cache_file", workload.vw_cache]

    def reading(self, outcome: Outcome) -> Reading:
        if "ignoring text input in favor of cache" not in outcome.stderr + outcome.stdout:
            raise BenchmarkError(f"{self.key} did not say that it reads its cache")
        return super().reading(outcome)


class VwPairs(VowpalWabbit):
    key, title = "vw-q", "VW --ftrl -q"
    note = (
        "every pair of features in a row, hashed into 2^24 slots; there are more pairs than slots, "
        "and sharing them costs loss but saves time and memory; of Criteo's shape the first rows "
        "only, as all of them would take minutes each time"
    )

    def kind(self, workload: Workload) -> list[str]:
        return ["-q", "ff", "-b", "24", "--examples", str(workload.all_pairs_rows)]


class PeerScript(Contender):
    """A script in `peers/` that takes FILE ROWS MODEL and prints rows and loss as JSON."""

    script: str

    def rows(self, workload: Workload) -> int:
        return workload.few_rows

    def more(self, workload: Workload) -> list[str]:
        """What else the script must be told."""
        return []

    def command(self, workload: Workload) -> list[str]:
        script = near(PEERS / self.script)
        arguments = [workload.libsvm, str(self.rows(workload)), workload.model(self.key)]
        return [near(PEERS_PYTHON), script, *arguments, *self.more(workload)]

    def figures(self, outcome: Outcome) -> tuple[int, float]:
        shown = json.loads(outcome.stdout)
        return shown["rows"], shown["loss"]


class ScikitLearn(PeerScript):
    key, title, script = "sklearn", "scikit-learn SGD", "sklearn_sgd.py"
    note = (
        "SGDClassifier learns row by row within mini-batches of 10,000 but predicts them as a "
        "whole, so its loss is not quite progressive; plain SGD, no FTRL, no interactions; reading "
        "by load_svmlight_file is most of its time; the first rows only"
    )

    def more(self, workload: Workload) -> list[str]:
        """The number of features: it must know them beforehand."""
        return [str(workload.features)]


class River(PeerScript):
    key, title, script = "river", "River FTRL", "river_ftrl.py"
    note = (
        "LogisticRegression with FTRLProximal, on the first rows only; its loss is that of "
        "these rows, not comparable; no interactions at a speed that could take part"
    )
    ROWS = 50_000

    def rows(self, workload: Workload) -> int:
        return min(self.ROWS, workload.few_rows)


class XLearn(PeerScript):
    """Prints what it does for a person, in colours."""

    key, title, script = "xlearn", "xLearn FM(8)", "xlearn_fm.py"
    note = (
        "rank 8, with the rates that it has by default; two threads learn without locks, so no two "
        "runs are alike; it first turns the text into a binary file, removed before each run"
    )

    def is_there(self) -> bool:
        return any(PEERS_PYTHON.parent.parent.glob("lib/python*/site-packages/xlearn"))

    def run(self, workload: Workload) -> Reading:
        (ROOT / f"{workload.libsvm}.bin").unlink(missing_ok=True)
        return super().run(workload)

    def rows(self, workload: Workload) -> int:
        return workload.rows

    def figures(self, outcome: Outcome) -> tuple[int, float]:
        plain = re.sub(r"\x1b\[\d*m", "", outcome.stdout)
        rows = re.search(r'^{"rows": (\d+)}$', plain, re.MULTILINE)
        loss = re.search(r"^\[ *100% *\] +1 +(\d\S+)", plain, re.MULTILINE)
        if rows is None or loss is None:
            raise BenchmarkError(f"{self.key} did not print its loss")
        return int(rows[1]), float(loss[1])


def contenders(order: int) -> list[Contender]:
    """Everyone, in the order of every round: who is compared with whom runs close to them."""
    return [
        Linear(),
        VwLinear(),
        Projective(order),
        SelfTuning(),
        VwPairs(),
        Factorized(),
        XLearn(),
        LinearFromCache(),
        VwFromCache(),
        LinearInMemory(),
        ScikitLearn(),
        River(),
    ]
