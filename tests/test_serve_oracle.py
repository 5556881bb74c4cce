"""Random histories of a service, beside an oracle that knows only what ids are for.

Requests of all kinds, time that passes, snapshots, and crashes that lose what was not committed.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pqrlearn import LR
from pqrlearn.serve.errors import Contradiction, Refused, TooLate, UnknownId
from pqrlearn.serve.keeper import Keeper
from pqrlearn.serve.service import Service
from pqrlearn.serve.settings import Settings
from pqrlearn.serve.windows import expire
from serving import Features, row

WINDOW = 60.0


class Oracle:
    """What each id has become, and the rows that were learned, in order."""

    def __init__(self, *, late: bool) -> None:
        self.late = late
        self.ids: dict[str, dict[str, Any]] = {}
        self.learned: list[tuple[Features, float]] = []

    def predicted(self, id: str, features: Features) -> type[Refused] | None:
        known = self.ids.get(id)
        return None if known is None or known["row"] == features else Contradiction

    def labelled(self, id: str, label: float) -> type[Refused] | bool:
        known = self.ids.get(id)
        if known is None:
            return UnknownId
        if known["state"] == "waits":
            return self._learn(known, label, "learned")
        if known["label"] == label:
            return False
        if known["state"] == "learned":
            return Contradiction
        return self._learn(known, label, "learned") if self.late else TooLate

    def passes(self, now: float) -> None:
        for known in self.ids.values():
            if known["state"] == "waits" and known["time"] <= now - WINDOW * 1e6:
                self._learn(known, 0.0, "timeout")

    def _learn(self, known: dict[str, Any], label: float, state: str) -> bool:
        self.learned.append((known["row"], label))
        known |= {"state": state, "label": label}
        return True

    def model(self) -> bytes:
        model = LR()
        for features, label in self.learned:
            model.learn_one(features, label)
        return model.to_bytes()


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or the kind of its refusal."""
    try:
        return call()
    except Refused as error:
        return type(error)


class History:
    """A service and its oracle, which do the same."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random, self.folder = Random(seed), folder
        late = seed % 2 == 0
        self.settings = Settings(
            label_window=WINDOW,
            late="learn" if late else "refuse",
            keep_log=True,
            segment_bytes=self.random.choice([500, 5_000, 1_000_000]),
        )
        self.oracle = Oracle(late=late)
        self.committed = deepcopy(self.oracle)
        self.service = Service(folder, self.settings, model=LR().to_bytes())
        self.keeper = Keeper(self.service)

    def step(self) -> None:
        steps = [self.predict] * 8 + [self.learn] * 8 + [self.commit] * 4
        self.random.choice([*steps, self.wait, self.snapshot, self.crash])()

    def id(self) -> str:
        return f"{self.random.randrange(200)}" + "x" * self.random.choice([0, 50])

    def predict(self) -> None:
        id, features = self.id(), row(self.random)
        if id in self.oracle.ids and self.random.random() < 0.5:
            features = self.oracle.ids[id]["row"]
        expected = self.oracle.predicted(id, features)
        found = outcome(lambda: self.service.predict(features, id))
        if expected is not None:
            assert found is expected
            return
        new = {"row": features, "answer": found, "state": "waits", "time": self.service.log.time}
        assert self.oracle.ids.setdefault(id, new)["answer"] == found

    def learn(self) -> None:
        id, label = self.id(), float(self.random.random() < 0.5)
        expected = self.oracle.labelled(id, label)
        assert outcome(lambda: self.service.learn(id, label)) is expected

    def commit(self) -> None:
        self.service.commit()
        self.committed = deepcopy(self.oracle)
        assert self.service.model.to_bytes() == self.oracle.model()

    def wait(self) -> None:
        self.commit()
        self.service._offset += self.random.uniform(0, WINDOW)
        now = self.service.now()
        self.service.now = lambda: now  # type: ignore[method-assign]
        try:
            while expire(self.service):
                self.service.commit()
            self.oracle.passes(now)
        finally:
            del self.service.now  # type: ignore[method-assign]
        self.commit()

    def snapshot(self) -> None:
        self.commit()
        self.keeper.take()
        self.keeper.remove_needless()

    def crash(self) -> None:
        """What was in line is gone; the rest is there."""
        self.service.close()
        self.oracle = deepcopy(self.committed)
        self.service = Service(self.folder, self.settings)
        self.keeper = Keeper(self.service)
        assert self.service.model.to_bytes() == self.oracle.model()
        waiting = [id for id, known in self.oracle.ids.items() if known["state"] == "waits"]
        assert len(self.service.ids.waiting) == len(waiting)


@pytest.mark.parametrize("seed", range(12))
def test_a_service_does_what_its_oracle_does(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path / "log", seed)
    for _ in range(400):
        history.step()
    history.commit()
    history.crash()
    assert history.oracle.learned
