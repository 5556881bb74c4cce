"""Caches: what was parsed comes back as it was, and nothing else passes for one."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from command import clicks, failure, ok, run, write_rows
from pqrlearn import LR, Batch, Counts, modelfile
from pqrlearn.errors import DataError, PqrError, RowError
from pqrlearn.readers import CacheReader, LibsvmReader, cache, open_reader
from pqrlearn.readers.cache import BATCH_ROWS, kept
from strategies import random_batch

FORMAT_2 = Path(__file__).parent / "golden" / "format-2" / "rows.cache"
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
    assert set(plain) == {"indptr", "indices", "labels", "digests"}
    weighted = replace(one_hot(10), weights=np.full(10, 2, np.float32))
    assert set(load_file(cached(tmp_path / "weighted", one_hot(10), weighted))) == {
        *plain,
        "weights",
    }


def test_a_part_of_the_rows_can_be_read(tmp_path: Path) -> None:
    batch = one_hot(100)
    (part,) = CacheReader(cached(tmp_path / "rows", batch)).part(20, 30).batches()
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


def rows_of(path: Path) -> list[bytes]:
    batches = list(CacheReader(path).batches())
    return [getattr(batch, name).tobytes() for batch in batches for name in ARRAYS]


def mangled(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 8])):
        at = chance.randrange(len(data))
        changed[at] = chance.choice([0, 1, 0x7F, 0xFF, chance.randrange(256)])
    return bytes(changed)


def test_a_damaged_cache_is_refused_or_the_same(tmp_path: Path) -> None:
    whole = cached(tmp_path / "rows", random_batch(8, 20))
    damaged, chance = tmp_path / "damaged", random.Random(1)
    for _ in range(2000):
        damaged.write_bytes(mangled(whole.read_bytes(), chance))
        with suppress(DataError):
            assert rows_of(damaged) == rows_of(whole)


def test_a_damaged_cache_without_digests_never_crashes(tmp_path: Path) -> None:
    damaged, chance = tmp_path / "damaged", random.Random(1)
    for _ in range(2000):
        damaged.write_bytes(mangled(FORMAT_2.read_bytes(), chance))
        with suppress(PqrError):
            rows = list(CacheReader(damaged).batches())
            LR("squared").learn_many(rows[0])


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "BATCH_ROWS", 8)


@pytest.mark.usefixtures("small_blocks")
def test_every_flipped_bit_of_a_cache_is_found_or_changes_nothing(tmp_path: Path) -> None:
    path, flipped = cached(tmp_path / "rows", random_batch(8, 20)), tmp_path / "flipped"
    whole, expected = path.read_bytes(), rows_of(path)
    for at in range(len(whole)):
        for bit in range(8):
            data = bytearray(whole)
            data[at] ^= 1 << bit
            flipped.write_bytes(data)
            with suppress(DataError):
                assert rows_of(flipped) == expected


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("column", ARRAYS)
def test_only_blocks_that_are_read_are_checked(column: str, tmp_path: Path) -> None:
    path = cached(tmp_path / "rows", random_batch(8, 13), random_batch(9, 17))
    kept_columns = modelfile.stored(path)[2]
    place = {"indices": "indptr", "values": "indptr"}.get(column)
    at = int(kept_columns[place].whole()[9]) if place else 9  # of the second block
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[:8], "little")
    begin = json.loads(data[8 : 8 + size])[column]["data_offsets"][0]
    data[8 + size + begin + at * kept_columns[column].dtype.itemsize] ^= 1
    path.write_bytes(data)
    reader = CacheReader(path)
    assert [len(batch) for batch in reader.part(0, 8).batches()] == [8]
    assert [len(batch) for batch in reader.part(17, 30).batches()] == [7, 6]
    for start, stop in ((8, 16), (15, 16), (3, 9), (0, 30)):
        with pytest.raises(DataError, match=f"of rows 9 to 16 does not match their {column}"):
            list(reader.part(start, stop).batches())


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("sizes", [(30,), (8, 8, 8, 6), (3, 5, 7, 15), (1,) * 30])
def test_how_rows_arrive_makes_no_difference(sizes: tuple[int, ...], tmp_path: Path) -> None:
    batch, start, parts = random_batch(8, 30), 0, []
    for size in sizes:
        parts.append(batch.part(start, start + size))
        start += size
    assert (
        cached(tmp_path / "parts", *parts).read_bytes()
        == cached(tmp_path / "whole", batch).read_bytes()
    )
    assert [len(b) for b in CacheReader(tmp_path / "parts").batches()] == [8, 8, 8, 6]


def test_a_file_remembers_how_large_its_blocks_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(cache, "BATCH_ROWS", 8)
        path = cached(tmp_path / "rows", random_batch(8, 30))
    assert_same_rows(path, random_batch(8, 30))


def test_a_cache_without_rows_is_empty(tmp_path: Path) -> None:
    assert list(CacheReader(cached(tmp_path / "rows")).batches()) == []


def test_a_model_is_not_rows(tmp_path: Path) -> None:
    LR().save(tmp_path / "model")
    with pytest.raises(DataError, match="a lr of pqrlearn, not rows"):
        open_reader(tmp_path / "model")


def test_text_is_no_cache(tmp_path: Path) -> None:
    text = write_rows(tmp_path / "rows.svm", one_hot(5))
    assert isinstance(open_reader(text), LibsvmReader)
    assert isinstance(open_reader(tmp_path / "missing"), LibsvmReader)


def test_a_cache_is_refused_once_its_source_has_changed(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "rows.svm", one_hot(5))
    path = cached(tmp_path / "rows.cache", one_hot(5), source=source)
    assert CacheReader(path, loss="logistic").size == 5
    write_rows(source, one_hot(6))
    with pytest.raises(DataError, match=r"rows.svm has changed since this cache was made"):
        CacheReader(path, loss="logistic")
    source.unlink()
    assert CacheReader(path, loss="logistic").size == 5


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
        ok("train", "--model", "pqr", source, "-o", model, "--order", 5, "--sample-rows", "all")
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
    result = run("train", "--model", "pqr", text, "-o", tmp_path / "model", *given)
    assert result.code == 0
    assert "1 bad row was skipped" in result.err


def test_a_stale_cache_is_bad_data(tmp_path: Path) -> None:
    text, path = write_rows(tmp_path / "rows.svm", clicks(seed=6)), tmp_path / "rows.cache"
    ok("data", "convert", text, "--to", "cache", "-o", path)
    write_rows(text, clicks(seed=7))
    said = failure(3, "train", path, "-o", tmp_path / "model", "--model", "lr")
    assert "has changed" in said
    assert said.endswith(f"; make it again with pqr data convert {text} --to cache -o {path}")


def test_a_damaged_cache_is_bad_data(tmp_path: Path) -> None:
    text, path = write_rows(tmp_path / "rows.svm", clicks(seed=6)), tmp_path / "rows.cache"
    ok("data", "convert", text, "--to", "cache", "-o", path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    told = failure(3, "train", path, "-o", tmp_path / "model", "--model", "lr")
    assert "the file is damaged: the digest of rows 1 to " in told
    assert not (tmp_path / "model").exists()
