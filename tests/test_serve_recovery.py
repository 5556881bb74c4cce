"""What a service is after it was closed: snapshots, replay, models, erased ids."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

import pqrlearn
from pqrlearn import LR, Auto, Column, Schema
from pqrlearn.errors import Corrupt, HyperError, PqrError
from pqrlearn.serve import models, snapshots
from pqrlearn.serve.errors import UnknownId
from pqrlearn.serve.keeper import Keeper
from pqrlearn.serve.service import Service
from pqrlearn.serve.settings import Settings
from pqrlearn.serve.windows import expire
from serving import busy, label, records, replay, row, start, start_lr

A = {"site": "news", "price": 0.5}
B = {"site": "shop"}


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return start_lr(tmp_path / "log")


def swap(service: Service, data: bytes) -> bool:
    return service.take_over(models.keep(service.folder, data))


def passing(service: Service, seconds: float) -> None:
    """As if so much time had passed."""
    service._offset += seconds


@pytest.mark.parametrize("make", [LR, Auto])
def test_the_model_is_what_replaying_the_log_gives(tmp_path: Path, make: type) -> None:
    folder = tmp_path / "log"
    service = start(folder, model=make().to_bytes())
    busy(service, Random(3), 500)
    assert replay(folder) == service.model.to_bytes()


@pytest.mark.parametrize("snapshots", [0, 3])
def test_a_service_that_is_opened_again_is_where_it_was(tmp_path: Path, snapshots: int) -> None:
    folder, random = tmp_path / "log", Random(4)
    settings = {"segment_bytes": 10_000, "keep_log": True}
    service = start_lr(folder, **settings)
    for _ in range(snapshots):
        busy(service, random, 200)
        Keeper(service).take()
    busy(service, random, 300)
    bytes_before, ids = service.model.to_bytes(), service.ids.frozen()
    service.close()
    again = start_lr(folder, **settings)
    assert again.model.to_bytes() == bytes_before == replay(folder)
    assert again.ids.frozen() == ids
    assert again.replica.position == again.log.appended
    busy(again, random, 100)
    assert again.model.to_bytes() == replay(folder)


def test_what_is_not_needed_is_removed(tmp_path: Path) -> None:
    folder, random = tmp_path / "log", Random(5)
    service = start_lr(folder, segment_bytes=5_000, label_window=1000)
    keeper = Keeper(service)
    waiting = busy(service, random, 100)
    for _ in range(4):
        busy(service, random, 100, labelled=1.0)
        keeper.take()
        keeper.remove_needless()
    assert service.log.first == 0  # the first rows wait
    for id in waiting:
        service.learn(id, 1.0)
    passing(service, 1001)
    service.commit()
    for _ in range(3):
        while expire(service):
            service.commit()
        keeper.take()
        keeper.remove_needless()
        busy(service, random, 50, labelled=1.0)
    assert service.log.first > 0
    assert len(list((folder / "snapshots").iterdir())) == 2
    before = service.model.to_bytes()
    service.close()
    assert start_lr(folder).model.to_bytes() == before


def test_the_snapshot_before_serves_if_the_last_one_is_damaged(tmp_path: Path) -> None:
    folder, random = tmp_path / "log", Random(6)
    service = start_lr(folder, segment_bytes=5_000, label_window=1, late="learn")
    keeper = Keeper(service)
    for _ in range(4):
        waiting = busy(service, random, 100)
        passing(service, 2)
        while expire(service):
            service.commit()
        service.commit()
        for id in waiting[:20]:
            service.learn(id, 1.0)
        keeper.take()
        keeper.remove_needless()
    assert service.log.first > 0
    before = service.model.to_bytes()
    service.close()
    last = sorted((folder / "snapshots").iterdir())[-1]
    (last / "ids").write_bytes(b"\x93")
    with pytest.raises(PqrError, match=r"a damaged snapshot .* remove it") as caught:
        start_lr(folder)
    assert caught.value.exit_code == 4
    for path in last.iterdir():
        path.unlink()
    last.rmdir()
    assert start_lr(folder, label_window=1).model.to_bytes() == before


def test_requests_go_on_while_a_snapshot_is_written(tmp_path: Path) -> None:
    folder, random = tmp_path / "log", Random(7)
    service = start_lr(folder)
    busy(service, random, 100)
    service.predict(A, "before")
    keeper = Keeper(service)
    keeper.begin()
    service.predict(A, "meanwhile")
    service.learn("before", 1.0)
    rows = service.model.rows
    service.commit()
    assert keeper.ready
    assert service.model.rows == rows  # what came after the beginning waits
    keeper.write(service.replica.figures.to_bytes())
    keeper.end()
    assert service.model.rows == rows + 1
    before = service.model.to_bytes()
    service.close()
    again = start_lr(folder)
    assert again.recovered.records == 2
    assert again.model.to_bytes() == before
    assert again.learn("meanwhile", 1.0)
    assert not again.learn("before", 1.0)


def test_figures_survive_a_crash(tmp_path: Path) -> None:
    folder, random = tmp_path / "log", Random(8)
    service = start(folder, model=Auto().to_bytes())
    busy(service, random, 700)
    Keeper(service).take()
    busy(service, random, 500)
    before = service.replica.figures.summary()
    service.close()
    again = start(folder)
    assert 0 < again.recovered.records < 1200
    assert again.replica.figures.summary() == before
    assert before["rows"] == 1200
    assert before["auc"] is not None
    [path] = snapshots.saved(folder)
    again.close()
    (path / "figures.npz").write_bytes(b"nonsense")
    with pytest.raises(Corrupt, match="figures do not match their checksum"):
        start(folder)


def test_a_snapshot_of_an_older_version_has_no_figures(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    service = start_lr(folder)
    busy(service, Random(9), 100)
    Keeper(service).take()
    before = service.model.to_bytes()
    service.close()
    [path] = snapshots.saved(folder)
    about = json.loads((path / "about.json").read_text())
    del about["figures_checksum"]
    (path / "about.json").write_text(json.dumps(about))
    (path / "figures.npz").unlink()
    again = start_lr(folder)
    assert again.model.to_bytes() == before
    assert again.replica.figures.summary()["rows"] == 0


def test_a_second_service_is_refused(service: Service) -> None:
    with pytest.raises(PqrError, match=r"in use by another pqr serve, process \d+"):
        start_lr(service.folder)


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "clicks.csv").touch()
    with pytest.raises(PqrError, match=r"neither empty nor a log: it has 'clicks.csv'"):
        start_lr(tmp_path)


def test_steps_of_the_clock_do_not_show(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    service = Service(folder, Settings(label_window=60), clock=lambda: 2e9)
    service.predict(A, "a")
    service.commit()
    service.close()
    again = Service(folder, Settings(label_window=60), clock=lambda: 1e9)  # set back by 30 years
    again.predict(A, "b")
    again.commit()
    times = [record.time for record in again.log.records()]
    assert times == sorted(times)
    expire(again)
    assert len(again.ids.waiting) == 2


# Models.


def test_a_model_that_is_swapped_in_takes_over(service: Service) -> None:
    busy(service, Random(8), 100)
    service.predict(A, "a")
    other = LR(alpha=0.5)
    other.learn_many([A, B] * 20, [0, 1] * 20)
    swap(service, other.to_bytes())
    assert service.predict(A).margin != other.margin_one(A)
    service.commit()
    assert service.predict(A).margin == other.margin_one(A)
    assert service.learn("a", 1.0)  # its row survives
    service.commit()
    before = service.model.to_bytes()
    assert replay(service.folder) == before
    service.close()
    assert start_lr(service.folder).model.to_bytes() == before


def test_the_same_model_again_changes_nothing(service: Service) -> None:
    other = LR(alpha=0.5).to_bytes()
    assert swap(service, other)
    assert not swap(service, other)
    service.commit()
    service.learn("a", 1.0, features=A)
    service.commit()
    swap(service, other)
    service.commit()
    assert service.model.rows == 1


def test_rows_that_a_swapped_model_refuses_are_refused_alike_in_replay(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    service = start_lr(folder)
    service.predict(A, "a")
    other = LR()
    other.schema = Schema((Column("color", "category"),))
    swap(service, other.to_bytes())
    service.commit()
    assert service.learn("a", 1.0)
    service.commit()
    assert (service.replica.refused, service.model.rows) == (1, 0)
    service.close()
    again = start_lr(folder)
    assert (again.replica.refused, again.model.rows) == (1, 0)


def test_a_frozen_model_is_not_served(service: Service) -> None:
    with pytest.raises(PqrError, match="does not learn"):
        swap(service, LR().frozen().to_bytes())
    with pytest.raises(PqrError):
        swap(service, b"no model")


def test_the_model_given_must_be_the_folders(tmp_path: Path) -> None:
    folder, given = tmp_path / "log", LR().to_bytes()
    start(folder, model=given).close()
    start(folder, model=given).close()
    with pytest.raises(HyperError, match="another model"):
        start(folder, model=LR(alpha=0.5).to_bytes())
    assert pqrlearn.load(next((folder / "models").iterdir())).to_bytes() == given


def test_the_schema_given_must_be_the_models(tmp_path: Path) -> None:
    folder, schema = tmp_path / "log", Schema((Column("site", "category"),))
    Service(folder, Settings(), schema=schema).close()
    Service(folder, Settings(), schema=schema).close()
    with pytest.raises(HyperError, match="another schema"):
        Service(folder, Settings(), schema=Schema((Column("site", "number"),)))


def test_models_that_no_record_needs_are_removed(service: Service) -> None:
    keeper = Keeper(service)
    for alpha in (0.1, 0.2, 0.3):
        swap(service, LR(alpha=alpha).to_bytes())
        keeper.take()
        keeper.remove_needless()
    assert len(list((service.folder / "models").iterdir())) <= 2


# Erasing.


def test_an_erased_id_is_nowhere_in_the_folder(tmp_path: Path) -> None:
    folder, random = tmp_path / "log", Random(9)
    service = start_lr(folder, keep_log=True)
    service.predict({"site": "very-secret"}, "alice")
    busy(service, random, 50)
    service.predict({"site": "very-secret"}, "alice-2")
    service.learn("alice-2", 1.0)
    keeper = Keeper(service)
    keeper.take()
    busy(service, random, 50)
    for id, count in (("alice", 2), ("alice-2", 2)):
        assert keeper.forget(id)
        keeper.take()
        assert keeper.erase(id) == count
        service.log.close_files()
    rows = [payload for _, _, payload in records(folder)]
    assert not [payload for payload in rows if b"alice" in payload or b"very-secret" in payload]
    for path in folder.glob("snapshots/*/ids"):
        assert b"alice" not in path.read_bytes()
    with pytest.raises(UnknownId):
        service.learn("alice", 1.0)
    busy(service, random, 50)
    before = service.model.to_bytes()
    service.close()
    assert start_lr(folder).model.to_bytes() == before


def test_rows_may_come_in_while_an_id_is_erased(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    service = start_lr(folder, keep_log=True)
    service.predict(A, "alice")
    keeper = Keeper(service)
    keeper.forget("alice")
    keeper.take()
    service.predict(A, "bob")  # in line, and not committed
    assert keeper.erase("alice") == 2
    service.log.close_files()
    service.commit()
    service.close()
    assert list(start_lr(folder).ids.waiting) == [b"bob"]


def test_what_was_scored_is_what_was_served(service: Service) -> None:
    random = Random(10)
    margins, labels = [], []
    for _ in range(300):
        features = row(random)
        found = service.predict(features)
        margins.append(found.margin)
        labels.append(label(features, random))
        service.learn(found.id, labels[-1])
        if random.random() < 0.2:
            service.commit()
    service.commit()
    expected = pqrlearn.Metrics("logistic")
    expected.update(margins, labels)
    found = service.replica.figures.summary()
    assert found["model"] == expected.result()["logloss"]
    assert found["constant"] == expected.result()["constant_logloss"]
    assert (found["rows"], found["labels"]) == (300, 300)
