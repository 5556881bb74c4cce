"""Files of earlier releases: they load, predict what they did, go on, and are saved as they were.

From 0.2.0 on these are read for ever: a new format comes with a reader for the old one.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import pqrlearn
from command import ok, run
from golden_files import (
    BATCH,
    FORMAT_2,
    GOLDEN,
    KINDS,
    OLD_KINDS,
    PROGRESS,
    ROWS,
    golden,
    learned_on,
    models,
    variants,
)
from golden_runs import ERASED, FORGETTING, RESUMED, SCHEMA, SERVICE, TABLE, table_margins
from pqrlearn import Schema, Separation
from pqrlearn.errors import Corrupt
from pqrlearn.logfile import Kind
from pqrlearn.readers import CacheReader
from pqrlearn.readers.cache import kept
from pqrlearn.serve.service import Service
from serving import records, replay
from strategies import nonzero_weights

VARIANTS = ["auto-clicks", "fm-sgd", "lr-counts", "lr-ogd", "pqr-clicks", "pqr-general"]
MARGINS = json.loads((GOLDEN / "margins.json").read_text())
# By the exp() of the system, or the numerics of NumPy: bits are promised for one machine only.
ROUNDED = {"mixture", "cfm", "ccfm", "auto-clicks", "lr-counts", "pqr-clicks"}


@pytest.mark.parametrize("name", [*KINDS, *VARIANTS])
def test_a_golden_model_loads_and_saves_as_it_was(name: str, tmp_path: Path) -> None:
    model = pqrlearn.from_bytes(golden(name))
    assert model.kind == name.partition("-")[0]
    assert model.to_bytes() == golden(name)
    model.save(tmp_path / "again.pqr")
    assert (tmp_path / "again.pqr").read_bytes() == golden(name)
    assert pqrlearn.load(GOLDEN / f"{name}.pqr").to_bytes() == golden(name)


@pytest.mark.parametrize("name", [*KINDS, *VARIANTS])
def test_a_golden_model_predicts_what_it_did_and_goes_on_as_it_did(name: str) -> None:
    found, expected = learned_on(pqrlearn.from_bytes(golden(name))), MARGINS[name]
    assert len(found) == 2 - (name == "frozen")
    if name not in ROUNDED:
        assert found == expected
    for some, others in zip(found, expected, strict=True):
        margins = [[float.fromhex(bits) for bits in part] for part in (some, others)]
        np.testing.assert_allclose(*margins, rtol=1e-6, atol=1e-9)


def test_every_learner_has_a_golden_file() -> None:
    from pqrlearn.learners.build import LEARNERS

    assert {*LEARNERS, "mixture", "frozen"} == {*KINDS}
    assert {*MARGINS} == {*KINDS, *VARIANTS} == {*models(), *variants()}


@pytest.mark.parametrize("kind", OLD_KINDS)
def test_a_model_of_format_2_loads_and_is_saved_in_this_format(kind: str) -> None:
    old = pqrlearn.load(FORMAT_2 / f"{kind}.pqr")
    new = pqrlearn.from_bytes(golden(kind))
    np.testing.assert_array_equal(old.predict_many(ROWS), new.predict_many(ROWS))
    assert pqrlearn.from_bytes((FORMAT_2 / f"{kind}.pqr").read_bytes()).to_bytes() == golden(kind)
    assert old.to_bytes() == golden(kind)


@pytest.mark.parametrize("name", [*KINDS, *VARIANTS])
def test_a_golden_model_still_means_the_same(name: str) -> None:
    old, new = pqrlearn.from_bytes(golden(name)), (models() | variants())[name]
    assert old.settings() == new.settings()
    assert nonzero_weights(old) == pytest.approx(nonzero_weights(new), rel=1e-5)
    assert [old.name_of(f) for f in range(7)] == [new.name_of(f) for f in range(7)]
    np.testing.assert_allclose(old.predict_many(ROWS), new.predict_many(ROWS), rtol=1e-5)


def test_a_golden_separation_loads_and_saves_as_it_was(tmp_path: Path) -> None:
    for folder in (GOLDEN, FORMAT_2):
        separation = Separation.load(folder / "separation.pqr")
        assert separation.high_names() == ["site=ä", "hour=9"]
        assert separation.counts.tolist() == [4, 3]
        separation.save(tmp_path / "again.pqr")
        assert (tmp_path / "again.pqr").read_bytes() == golden("separation")


def test_a_golden_checkpoint_loads_and_saves_as_it_was(tmp_path: Path) -> None:
    for folder in (GOLDEN, FORMAT_2):
        model = pqrlearn.load(folder / "checkpoint.pqr")
        assert model.progress == PROGRESS
        model.save(tmp_path / "again.pqr", progress=model.progress)
        assert (tmp_path / "again.pqr").read_bytes() == golden("checkpoint")


def test_a_golden_cache_has_the_same_rows_and_is_made_as_it_was(tmp_path: Path) -> None:
    for folder in (GOLDEN, FORMAT_2):
        (rows,) = CacheReader(folder / "rows.cache").batches()
        for name in ("indptr", "indices", "values", "labels", "weights"):
            np.testing.assert_array_equal(getattr(rows, name), getattr(BATCH, name))
    list(kept(tmp_path / "again.cache", [BATCH]))
    assert (tmp_path / "again.cache").read_bytes() == (GOLDEN / "rows.cache").read_bytes()


# Of whole runs.


def test_a_golden_schema_is_read_and_written_as_it_was(tmp_path: Path) -> None:
    schema = Schema.read(TABLE / "schema.toml")
    assert schema == SCHEMA
    schema.write(tmp_path / "again.toml")
    assert (tmp_path / "again.toml").read_bytes() == (TABLE / "schema.toml").read_bytes()


def test_a_golden_model_of_a_table_reads_and_predicts_it_as_it_did() -> None:
    assert pqrlearn.load(TABLE / "model.pqr").schema == SCHEMA
    assert table_margins(TABLE) == json.loads((TABLE / "margins.json").read_text())


def test_a_run_goes_on_from_a_golden_checkpoint_to_the_same_bytes(tmp_path: Path) -> None:
    progress = pqrlearn.load(RESUMED / "checkpoint.pqr").progress
    assert (progress["done_passes"], progress["rows"]) == (1, 140)
    given = ["--resume", RESUMED / "checkpoint.pqr", "-o", tmp_path / "model.pqr", "-q"]
    assert run("train", RESUMED / "rows.svm", *given).code == 0
    assert (tmp_path / "model.pqr").read_bytes() == (RESUMED / "model.pqr").read_bytes()


@pytest.fixture
def live(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SERVICE / "live", tmp_path / "live"))


def test_golden_logs_have_every_kind_of_record() -> None:
    assert {kind for one in (SERVICE, ERASED) for _, kind, _ in records(one / "live")} == {*Kind}


@pytest.mark.parametrize("snapshots", [1, 0])
def test_a_service_goes_on_from_a_golden_folder(live: Path, snapshots: int) -> None:
    for later in sorted((live / "snapshots").iterdir())[snapshots:]:
        shutil.rmtree(later)
    service = Service(live, FORGETTING)
    assert service.model.to_bytes() == (SERVICE / "model.pqr").read_bytes() == replay(live)
    waiting = json.loads((SERVICE / "waiting.json").read_text())
    assert sorted(key.hex() for key in service.ids.waiting) == waiting
    assert service.learn(bytes.fromhex(waiting[0]).decode(), 1.0)
    service.commit()
    service.close()
    assert Service(live, FORGETTING).model.to_bytes() == replay(live)


def test_a_service_goes_on_from_a_golden_log_with_an_erased_row(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(ERASED / "live", tmp_path / "live"))
    service = Service(folder, FORGETTING)
    assert service.model.to_bytes() == (ERASED / "model.pqr").read_bytes()
    service.close()
    (snapshot,) = (folder / "snapshots").iterdir()
    shutil.rmtree(snapshot)
    with pytest.raises(Corrupt, match="needs a later snapshot"):
        Service(folder, FORGETTING)


def test_a_golden_log_can_be_trained_from(live: Path, tmp_path: Path) -> None:
    given = ["--model", "lr", "--loss", "squared", "-o", tmp_path / "model.pqr", "-q"]
    ok("train", live, *given)
    assert pqrlearn.load(tmp_path / "model.pqr").rows > 50
