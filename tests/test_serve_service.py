"""The core of the service: ids, labels, windows, snapshots; without HTTP."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from pqrlearn import LR, Auto, Column, Schema
from pqrlearn.errors import HyperError
from pqrlearn.logfile import Kind
from pqrlearn.serve.errors import Contradiction, Refused, TooLate, Unavailable, UnknownId
from pqrlearn.serve.keeper import Keeper
from pqrlearn.serve.scoring import score
from pqrlearn.serve.service import Service
from pqrlearn.serve.settings import Settings
from pqrlearn.serve.windows import expire
from serving import busy, records, replay, start, start_lr

A = {"site": "news", "price": 0.5}
B = {"site": "shop"}


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return start_lr(tmp_path / "log")


def passing(service: Service, seconds: float) -> None:
    """As if so much time had passed."""
    service._offset += seconds


# Rows and labels.


def test_a_prediction_is_the_models(service: Service) -> None:
    busy(service, Random(1), 200)
    found = service.predict(A)
    assert found.margin == service.model.margin_one(A)
    assert found.prediction == service.model.predict_one(A)
    assert score(service.model, A, service.settings) == (found.margin, found.prediction)


def test_a_label_is_learned_once_it_is_synced(service: Service) -> None:
    id = service.predict(A).id
    assert service.learn(id, 1.0)
    assert service.model.rows == 0
    service.commit()
    assert service.model.rows == 1


def test_a_repeated_label_is_not_learned(service: Service) -> None:
    service.predict(A, "a")
    assert service.learn("a", 1.0)
    assert not service.learn("a", 1.0)
    service.commit()
    assert not service.learn("a", 1.0)
    assert service.model.rows == 1


def test_minus_one_and_zero_are_the_same_label(service: Service) -> None:
    service.predict(A, "a")
    assert service.learn("a", -1.0)
    assert not service.learn("a", 0.0)


def test_another_label_is_a_contradiction(service: Service) -> None:
    service.predict(A, "a")
    service.learn("a", 1.0)
    with pytest.raises(Contradiction, match="has the label 1, not 0"):
        service.learn("a", 0.0)


def test_an_unknown_id_is_refused(service: Service) -> None:
    with pytest.raises(UnknownId, match="'nobody'"):
        service.learn("nobody", 1.0)


def test_the_same_row_again_gets_the_same_answer(service: Service) -> None:
    first = service.predict(A, "a")
    assert service.predict(A, "a") == first  # before it is on disk
    service.commit()
    busy(service, Random(2), 50)
    assert service.predict(A, "a") == first
    service.learn("a", 1.0)
    service.commit()
    assert service.predict(A, "a") == first
    rows = [payload for _, kind, payload in records(service.folder) if kind == Kind.PREDICT]
    assert len([payload for payload in rows if payload[8:11] == b"\1\0a"]) == 1


def test_another_row_under_the_same_id_is_a_contradiction(service: Service) -> None:
    service.predict(A, "a")
    with pytest.raises(Contradiction, match="other features"):
        service.predict(B, "a")
    with pytest.raises(Contradiction, match="other features"):
        service.learn("a", 1.0, features=B)


def test_a_row_and_its_label_may_come_together(service: Service) -> None:
    assert service.learn("a", 1.0, features=A)
    assert not service.learn("a", 1.0, features=A)
    service.commit()
    assert service.model.rows == 1
    assert service.predict(A, "a").margin == 0.0


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"a": float("inf")}, "not a finite"),
        ({"a": [1, 2]}, "a list needs a model with a schema"),
        ({"a": {"b": 1}}, "not a number"),
        ({"a": 1e38, "b": 1e39}, "not a finite"),
    ],
)
def test_a_row_is_checked_before_it_is_logged(
    service: Service, features: dict[str, object], message: str
) -> None:
    before = service.log.appended
    with pytest.raises(Refused, match=message):
        service.predict(features)
    assert service.log.appended == before


@pytest.mark.parametrize("bad", [0.5, 2.0, float("nan"), float("inf")])
def test_a_label_is_checked_before_it_is_logged(service: Service, bad: float) -> None:
    service.predict(A, "a")
    with pytest.raises(Refused, match="label"):
        service.learn("a", bad)
    with pytest.raises(Refused, match="weight"):
        service.learn("a", 1.0, -1.0)
    assert service.learn("a", 1.0)


@pytest.mark.parametrize("id", ["", "a\nb", "x" * 201, "\ud800"])
def test_an_id_is_short_printable_text(service: Service, id: str) -> None:
    with pytest.raises(Refused, match="1 to 200 bytes"):
        service.predict(A, id)


def test_long_ids_are_told_apart(service: Service) -> None:
    service.predict(A, "x" * 199 + "a")
    service.predict(B, "x" * 199 + "b")
    assert service.learn("x" * 199 + "a", 1.0)
    assert service.learn("x" * 199 + "b", 0.0)


def test_features_and_pairs_of_a_row_are_bounded(tmp_path: Path) -> None:
    service = start(tmp_path / "log", max_features=10, max_pairs=30)
    with pytest.raises(Refused, match="11 features; at most 10"):
        service.predict({str(n): "x" for n in range(11)})
    with pytest.raises(Refused, match="45 pairs; at most 30"):
        service.predict({str(n): "x" for n in range(10)})


def test_the_bytes_of_a_row_are_bounded(service: Service) -> None:
    with pytest.raises(Refused, match="bytes; at most 16,777,216"):
        service.predict({"a": "x" * (1 << 24)})


def test_records_that_are_not_on_disk_are_bounded(tmp_path: Path) -> None:
    service = start_lr(tmp_path / "log", max_pending=3)
    for _ in range(3):
        service.predict(A)
    with pytest.raises(Unavailable, match="try again"):
        service.predict(A)
    service.commit()
    service.predict(A)


def test_records_that_are_not_learned_are_bounded(tmp_path: Path) -> None:
    service = start_lr(tmp_path / "log", max_unlearned=3)
    keeper = Keeper(service)
    keeper.begin()
    for _ in range(3):
        service.predict(A)
        service.commit()
    with pytest.raises(Unavailable, match="too many records wait to be learned"):
        service.predict(A)
    keeper.end()
    service.predict(A)
    assert service.unlearned == 1


def test_rows_pass_the_schema_of_an_empty_start(tmp_path: Path) -> None:
    schema = Schema((Column("site", "category"), Column("hour", "number", center=12, scale=6)))
    service = Service(tmp_path / "log", Settings(), schema=schema)
    assert isinstance(service.model, Auto)
    with pytest.raises(Refused, match="field 'color' is not in the schema"):
        service.predict({"color": "red"})
    service.learn("a", 1.0, features={"site": 17, "hour": "9"})
    service.commit()
    assert service.model.names.find("site=17") is not None


# Windows.


def test_a_row_without_a_label_becomes_a_negative(tmp_path: Path) -> None:
    service = start_lr(tmp_path / "log", label_window=60)
    service.predict(A, "a")
    service.commit()
    expire(service)
    assert "a" in {key.decode() for key in service.ids.waiting}
    passing(service, 61)
    expire(service)
    service.commit()
    assert service.model.rows == 1
    assert service.model.predict_one(A) < 0.5
    assert not service.learn("a", 0.0)
    with pytest.raises(TooLate, match="as a negative"):
        service.learn("a", 1.0)
    assert replay(service.folder) == service.model.to_bytes()


def test_a_late_label_may_be_learned_after_the_negative(tmp_path: Path) -> None:
    service = start_lr(tmp_path / "log", label_window=60, late="learn")
    service.predict(A, "a")
    service.commit()
    passing(service, 61)
    expire(service)
    assert service.learn("a", 1.0)
    assert not service.learn("a", 1.0)
    service.commit()
    assert service.model.rows == 2
    assert replay(service.folder) == service.model.to_bytes()


def test_a_row_may_be_forgotten_instead(tmp_path: Path) -> None:
    service = start_lr(tmp_path / "log", label_window=60, unlabelled="forget")
    service.predict(A, "a")
    service.commit()
    passing(service, 61)
    expire(service)
    service.commit()
    assert service.model.rows == 0
    with pytest.raises(TooLate, match="expired"):
        service.learn("a", 1.0)


def test_waiting_ids_are_bounded(tmp_path: Path) -> None:
    service = start_lr(tmp_path / "log", max_waiting=10)
    for n in range(25):
        service.predict(A, str(n))
    service.commit()
    expire(service)
    assert sorted(map(int, service.ids.waiting)) == list(range(15, 25))
    with pytest.raises(TooLate, match="expired"):
        service.learn("3", 1.0)


def test_ratings_have_no_negatives(tmp_path: Path) -> None:
    with pytest.raises(HyperError, match="no negatives"):
        start(tmp_path / "log", model=LR("squared").to_bytes(), label_window=60)


def test_finished_ids_are_forgotten_in_the_end(tmp_path: Path) -> None:
    service = start_lr(tmp_path / "log", max_finished=5)
    for n in range(20):
        service.learn(str(n), 1.0, features=A)
    assert not service.learn("19", 1.0)
    assert not service.learn("15", 1.0)
    with pytest.raises(UnknownId):
        service.learn("1", 1.0)
