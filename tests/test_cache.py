"""Caches: what was parsed comes back as it was, and nothing else passes for one."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from command import clicks, failure, ok, run, write_rows
from pqrlearn import LR, Batch, Counts
from pqrlearn.cache import BATCH_ROWS, CacheReader, is_cache, kept
from pqrlearn.errors import DataError, PqrError, RowError
from pqrlearn.readers import LibsvmReader
from strategies import random_batch

ARRAYS = ("indptr", "indices", "values", "labels", "weights")


def one_hot(rows: int) -> Batch:
    indices = np.arange(2 * rows, dtype=np.uint32).reshape(rows, 2)
    return Batch(
        np.arange(0, 2 * rows + 1, 2),
        indices.reshape(-1),
        np.ones(2 * rows, np.float32),
        np.arange(rows) % 2.0,
        np.ones(rows, np.float32),
    )


def cached(path: Path, *batches: Batch, source: Path | None = None) -> Path:
    assert [len(b) for b in kept(path, batches, source and str(source))] == [
        len(b) for b in batches
    ]
    return path


def assert_same_rows(path: Path, *batches: Batch) -> None:
    read = list(CacheReader(path).batches())
    for name in ARRAYS[1:]:
        expected = np.concatenate([getattr(batch, name) for batch in batches])
        assert np.array_equal(np.concatenate([getattr(b, name) for b in read]), expected)
    lengths = [np.diff(b.indptr) for b in batches]
    assert np.array_equal(
        np.concatenate([np.diff(b.indptr) for b in read]), np.concatenate(lengths)
    )


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    batches = [random_batch(seed, 50 * seed) for seed in (1, 2, 3)]
    assert_same_rows(cached(tmp_path / "rows", *batches), *batches)


def test_more_rows_than_a_batch_holds_come_back_in_order(tmp_path: Path) -> None:
    batch = one_hot(BATCH_ROWS + 1000)
    assert_same_rows(cached(tmp_path / "rows", batch), batch)


def test_values_and_weights_of_one_take_no_room(tmp_path: Path) -> None:
    plain = load_file(cached(tmp_path / "plain", one_hot(10)))
    assert set(plain) == {"indptr", "indices", "labels"}
    weighted = replace(one_hot(10), weights=np.full(10, 2, np.float32))
    assert set(load_file(cached(tmp_path / "weighted", one_hot(10), weighted))) == {
        *plain,
        "weights",
    }


def test_a_part_of_the_rows_can_be_read(tmp_path: Path) -> None:
    batch = one_hot(100)
    (part,) = CacheReader(cached(tmp_path / "rows", batch)).batches(20, 30)
    assert part.indices.tolist() == list(range(40, 60))


def test_clicks_come_as_zero_and_one(tmp_path: Path) -> None:
    batch = replace(one_hot(4), labels=np.array([-1.0, 1, 0, -1]))
    (read,) = CacheReader(cached(tmp_path / "rows", batch), loss="logistic").batches()
    assert read.labels.tolist() == [0, 1, 0, 0]


def test_a_label_that_is_no_click_is_told_with_its_row(tmp_path: Path) -> None:
    batch = replace(one_hot(4), labels=np.array([0.0, 1, 3.5, 0]))
    reader = CacheReader(cached(tmp_path / "rows", batch), loss="logistic")
    with pytest.raises(RowError, match=r"rows:3: label 3.5 is not a click"):
        list(reader.batches())


def test_a_run_that_is_stopped_leaves_no_cache(tmp_path: Path) -> None:
    batches = kept(tmp_path / "rows", [one_hot(3), one_hot(3)])
    next(batches)
    batches.close()
    assert list(tmp_path.iterdir()) == []


def test_a_cache_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    whole = cached(tmp_path / "rows", random_batch(7, 20)).read_bytes()
    short = tmp_path / "short"
    for size in range(len(whole)):
        short.write_bytes(whole[:size])
        with pytest.raises(DataError):
            CacheReader(short)


def test_a_damaged_cache_is_refused_or_read_but_never_crashes(tmp_path: Path) -> None:
    whole = cached(tmp_path / "rows", random_batch(8, 20)).read_bytes()
    damaged, chance = tmp_path / "damaged", random.Random(1)
    for _ in range(2000):
        data = bytearray(whole)
        for _ in range(chance.choice([1, 1, 2, 8])):
            data[chance.randrange(len(data))] = chance.choice(
                [0, 1, 0x7F, 0xFF, chance.randrange(256)]
            )
        damaged.write_bytes(data)
        try:
            rows = list(CacheReader(damaged).batches())
            LR("squared").learn_many(rows[0])
        except PqrError:
            pass


def test_a_model_is_not_rows(tmp_path: Path) -> None:
    LR().save(tmp_path / "model")
    assert is_cache(tmp_path / "model")
    with pytest.raises(DataError, match="a lr of pqrlearn, not rows"):
        CacheReader(tmp_path / "model")


def test_text_is_no_cache(tmp_path: Path) -> None:
    assert not is_cache(write_rows(tmp_path / "rows.svm", one_hot(5)))
    assert not is_cache(tmp_path / "missing")


def test_a_cache_is_refused_once_its_source_has_changed(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "rows.svm", one_hot(5))
    path = cached(tmp_path / "rows.cache", one_hot(5), source=source)
    assert CacheReader(path, loss="logistic").rows == 5
    write_rows(source, one_hot(6))
    with pytest.raises(DataError, match=r"rows.svm has changed since this cache was made"):
        CacheReader(path, loss="logistic")
    source.unlink()
    assert CacheReader(path, loss="logistic").rows == 5


def test_a_cache_is_counted_like_its_text(tmp_path: Path) -> None:
    batch = random_batch(9, 300)
    text, path = write_rows(tmp_path / "rows.svm", batch), cached(tmp_path / "rows", batch)
    for rows in (None, 100):
        counts = Counts.of_files([path], rows)
        assert counts.rows <= 300
        assert counts.distinct > 0
    assert Counts.of_files([path], None).rows == Counts.of_files([text], None).rows == 300
    separations = [Counts.of_files([p], None).separate(order=5) for p in (text, path)]
    assert np.array_equal(separations[0].features, separations[1].features)


# Through the command.


def test_a_model_from_a_cache_is_that_from_its_text(tmp_path: Path) -> None:
    text, path = write_rows(tmp_path / "rows.svm", clicks(seed=3)), tmp_path / "rows.cache"
    ok("data", "convert", text, "--to", "cache", "-o", path)
    batches = list(LibsvmReader(text).batches())
    assert_same_rows(path, *batches)
    for source, model in ((text, tmp_path / "a"), (path, tmp_path / "b")):
        ok("train", source, "-o", model, "--order", 5, "--sample-rows", "all")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_several_passes_parse_once_and_leave_nothing_behind(tmp_path: Path) -> None:
    batch = clicks(seed=4)
    text = write_rows(tmp_path / "rows.svm", batch)
    ok("train", text, "-o", tmp_path / "model", "--model", "lr", "--passes", 3)
    learner = LR()
    for _ in range(3):
        learner.learn_many(next(LibsvmReader(text, loss="logistic").batches()))
    assert (tmp_path / "model").read_bytes() == learner.to_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "rows.svm"]


def test_bad_rows_are_reported_after_several_passes(tmp_path: Path) -> None:
    text = write_rows(tmp_path / "rows.svm", clicks(seed=5))
    with text.open("ab") as file:
        file.write(b"1 2:x\n")
    given = ["--model", "lr", "--passes", 2, "--on-bad-row", "skip"]
    result = run("train", text, "-o", tmp_path / "model", *given)
    assert result.code == 0
    assert "1 bad row was left out" in result.err


def test_a_stale_cache_is_bad_data(tmp_path: Path) -> None:
    text, path = write_rows(tmp_path / "rows.svm", clicks(seed=6)), tmp_path / "rows.cache"
    ok("data", "convert", text, "--to", "cache", "-o", path)
    write_rows(text, clicks(seed=7))
    assert "has changed" in failure(3, "train", path, "-o", tmp_path / "model", "--model", "lr")
