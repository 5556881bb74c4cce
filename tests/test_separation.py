"""Counting features, drawing the line, and sampling what is too long to count."""

from __future__ import annotations

import gzip
import os
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pqrlearn
from command import write_rows
from pqrlearn import PQR, Batch, Counts, Separation, modelfile
from pqrlearn.errors import Corrupt, DataError, HyperError, NotAModel, RowError
from pqrlearn.readers import at_most, open_reader
from pqrlearn.readers.sample import first_rows
from strategies import Labelled, as_batch, as_dicts, cut, labelled_rows, random_batch

Named = list[dict[Any, Any]]
BATCH = random_batch(seed=11, rows=200)


def ranked(rows: list[dict[int, float]]) -> list[tuple[int, int]]:
    """(feature, in how many rows it is non-zero), most frequent first, ties to the smaller."""
    counts = Counter(feature for row in rows for feature, value in row.items() if value)
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def line(separation: Separation) -> list[tuple[int, int]]:
    return list(zip(separation.features.tolist(), separation.counts.tolist(), strict=True))


def same(one: Separation, other: Separation) -> bool:
    return (line(one), one.settings()) == (line(other), other.settings())


# Counting and drawing the line.


@settings(max_examples=100)
@given(labelled_rows(), st.integers(0, 10), st.integers(1, 5))
def test_the_line_is_drawn_by_rank_or_by_count(
    rows: list[Labelled], order: int, min_count: int
) -> None:
    expected = ranked([r.row for r in rows])
    batch = as_batch(rows)
    assert line(Separation.top_k(batch, order)) == expected[:order]
    assert line(Separation.threshold(batch, min_count)) == [
        pair for pair in expected if pair[1] >= min_count
    ]


def test_a_count_is_the_number_of_rows_in_which_a_feature_is_not_zero() -> None:
    rows = [{1: 5.0, 2: 0.0}, {1: -0.5, 2: 1.0}, {1: 0.0}, {}]
    separation = Separation.top_k(rows, 10)
    assert line(separation) == [(1, 2), (2, 1)]
    assert (separation.rows, separation.distinct, separation.order) == (4, 2, 2)


def test_a_feature_given_twice_in_a_row_counts_once() -> None:
    batch = Batch.from_rows([([7, 7, 3], [1.0, 1.0, 1.0]), ([3], [2.0])])
    assert line(Separation.top_k(batch, 2)) == [(3, 2), (7, 1)]


def test_ties_go_to_the_smaller_index() -> None:
    rows = [{9: 1.0, 4: 1.0, 2**32 - 1: 1.0, 6: 1.0}]
    assert Separation.top_k(rows, 3).features.tolist() == [4, 6, 9]


def test_row_weights_and_labels_do_not_matter() -> None:
    weightless = Batch.from_rows([([1], [1.0]), ([2], [1.0])], labels=[0, 1], weights=[0, 9])
    assert line(Separation.top_k(weightless, 2)) == [(1, 1), (2, 1)]


def test_an_order_above_the_number_of_features_makes_all_of_them_high() -> None:
    separation = Separation.top_k(BATCH, 4_000_000_000)
    assert separation.order == separation.distinct == len(np.unique(BATCH.indices))


def test_orders_to_choose_from_are_multiples_of_the_root_up_to_all_features() -> None:
    for distinct, orders in ((0, [0]), (1, [0, 1]), (10, [0, 4, 10]), (400, [0, 20, 80, 320])):
        assert Counts.of([{f: 1.0} for f in range(distinct)]).orders() == orders


def test_by_default_the_order_is_the_root_of_the_number_of_features() -> None:
    for distinct, order in [(0, 0), (1, 1), (2, 2), (4, 2), (5, 3), (9, 3), (10, 4), (10_001, 101)]:
        counts = Counts.of([dict.fromkeys(range(distinct), 1.0)])
        assert counts.separate().order == order


@pytest.mark.parametrize(
    "given_as",
    [
        lambda batch, path: Separation.top_k([batch], 5),
        lambda batch, path: Separation.top_k(iter([cut(batch, 0, 7), cut(batch, 7, 200)]), 5),
        lambda batch, path: Separation.top_k(as_dicts(batch), 5),
        lambda batch, path: Separation.top_k(iter(as_dicts(batch)), 5),
        lambda batch, path: Separation.from_file(write_rows(path, batch), order=5),
        lambda batch, path: Separation.from_file(str(write_rows(path, batch)), order=5),
        lambda batch, path: Counts.of(batch).separate(order=5),
    ],
    ids=["batches", "iterator", "dicts", "iterator of dicts", "file", "str", "counts"],
)
def test_rows_may_be_given_in_any_form(
    given_as: Callable[[Batch, Path], Separation], tmp_path: Path
) -> None:
    assert same(given_as(BATCH, tmp_path / "rows.svm"), Separation.top_k(BATCH, 5))


def test_features_may_have_names() -> None:
    rows: Named = [
        {"site": "a", "clicks": 2.0},
        {"site": "a", "clicks": 0.0},
        {"site": "b", "x": None},
    ]
    separation = Separation.top_k(rows, 2)
    assert separation.high_names() == ["site=a", "clicks"]
    assert separation.counts.tolist() == [2, 1]
    assert separation.distinct == 3


def test_a_separation_does_not_hold_on_to_the_counts() -> None:
    counts = Counts.of([{"a": 1.0}, {"a": 1.0, "b": 1.0}])
    before = sys.getrefcount(counts._counter)
    separation = counts.separate(order=1)
    after = sys.getrefcount(counts._counter)
    assert after == before
    counts.add({"c": 1.0})
    assert len(separation.names) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Separation.top_k(BATCH, -1),
        lambda: Separation.top_k(BATCH, 1.5),  # type: ignore[arg-type]
        lambda: Separation.top_k(BATCH, True),
        lambda: Separation.top_k(BATCH, 2**32),
        lambda: Separation.threshold(BATCH, 0),
        lambda: Separation.from_file(__file__, order=1, sample_rows=0),
        lambda: Separation(np.array([1, 1], np.uint32), np.array([2, 2], np.uint64), 2, 1),
        lambda: Separation(np.array([1], np.uint32), np.zeros(0, np.uint64), 2, 1),
    ],
)
def test_settings_out_of_range_are_refused(wrong: Callable[[], Separation]) -> None:
    with pytest.raises(HyperError):
        wrong()


def test_bad_rows_are_errors() -> None:
    rows: Named = [{1: float("nan")}, {-1: 1.0}, {2**32: 1.0}]
    for row in rows:
        with pytest.raises(RowError):
            Separation.top_k([row], 1)


# Files too long to be counted whole.


@pytest.fixture(scope="module")
def long_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600,000 rows, 8 MB. Feature 7 is in all of them, 1000 + s in those of the s-th hundredth."""
    path = tmp_path_factory.mktemp("long") / "long.svm"
    path.write_text("".join(f"0 7:1 {1000 + s}:1\n" * 6000 for s in range(100)))
    return path


def test_of_a_long_file_about_the_sample_is_counted(long_file: Path) -> None:
    for sample_rows in (1000, 20_000, 200_000):
        counts = Counts.of_files([long_file], sample_rows)
        assert counts.rows == pytest.approx(sample_rows, rel=0.1)


def test_the_sample_is_spread_evenly_over_the_file(long_file: Path) -> None:
    separation = Separation.from_file(long_file, order=200, sample_rows=20_000)
    features, counts = separation.features, separation.counts
    assert features[0] == 7
    assert counts[0] == separation.rows
    twentieths = np.bincount((features[1:] - 1000) // 5, weights=counts[1:], minlength=20)
    assert twentieths.min() > 0.7 * separation.rows / 20
    assert twentieths.max() < 1.4 * separation.rows / 20


def test_the_same_sample_is_drawn_every_time(long_file: Path) -> None:
    one, other = (Separation.from_file(long_file, order=50, sample_rows=5000) for _ in range(2))
    assert same(one, other)


def test_a_long_file_is_not_read_through(long_file: Path) -> None:
    before = bytes_read()
    Counts.of_files([long_file], 2000)
    assert bytes_read() - before < 0.4 * long_file.stat().st_size


def bytes_read() -> int:
    try:
        return int(Path("/proc/self/io").read_text().split()[1])
    except OSError:
        pytest.skip("the system does not count the bytes a process reads")


def test_a_sample_may_be_spread_over_several_files(long_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.svm"
    other.write_text("0 5:1 123456:1\n" * 300_000)
    counts = Counts.of_files([long_file, other], 9000)
    separation = counts.separate(order=2)
    assert line(separation)[0][0] == 7
    assert line(separation)[0][1] == pytest.approx(6000, rel=0.15)
    assert line(separation)[1][0] == 5
    assert line(separation)[1][1] == pytest.approx(3000, rel=0.15)


def test_what_is_smaller_than_the_sample_is_counted_whole(long_file: Path) -> None:
    for sample_rows in (600_000, 10**9, None):
        counts = Counts.of_files([long_file], sample_rows)
        assert (counts.rows, counts.distinct) == (600_000, 101)


def test_the_least_sample_is_a_row_of_each_block_at_most(long_file: Path) -> None:
    assert 1 <= Counts.of_files([long_file], 1).rows <= 64


def test_of_a_compressed_file_the_first_rows_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "rows.svm.gz"
    path.write_bytes(gzip.compress(b"0 1:1\n" * 30 + b"0 2:1\n" * 70))
    assert not open_reader(path).enterable
    assert line(Separation.from_file(path, order=2, sample_rows=40)) == [(1, 30), (2, 10)]
    assert line(Separation.from_file(path, order=2)) == [(2, 70), (1, 30)]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.integers(1, 250))
def test_first_rows_do_not_depend_on_how_they_were_cut(sizes: list[int], rows: int) -> None:
    ends = np.minimum(np.cumsum([0, *sizes]), len(BATCH)).tolist()
    parts = [cut(BATCH, a, b) for a, b in pairwise(ends) if a < b]
    counted = list(at_most(parts, rows))
    assert sum(map(len, counted)) == min(rows, ends[-1])
    expected = Separation.top_k(cut(BATCH, 0, min(rows, ends[-1])), 20)
    assert same(Separation.top_k(counted, 20), expected)
    kept = list(first_rows(parts, rows))  # whole batches: what is kept must still be learned
    assert kept == parts[: len(kept)]
    assert sum(map(len, kept)) >= min(rows, ends[-1])


def test_a_named_pipe_is_not_opened_to_look_at_it(tmp_path: Path) -> None:
    """Its writer would see it close; without a writer, opening it would wait for ever."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert not open_reader(pipe).enterable


def test_a_label_that_is_no_click_is_a_bad_row_where_clicks_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "rows.svm"
    path.write_text("1 1:1\n0.5 2:1\n")
    assert Counts.of_files([path]).distinct == 2
    assert Counts.of_files([path], on_bad_row="skip", loss="logistic").distinct == 1
    with pytest.raises(RowError, match=r"rows\.svm:2:1"):
        Counts.of_files([path], loss="logistic")


def test_files_that_cannot_be_read_are_errors(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(DataError, match="cannot be read"):
            Separation.from_file(path, order=1)


# Saving.


def test_save_then_load_is_the_identity(tmp_path: Path) -> None:
    named: Named = [{"site": "ä ✓", "hour": "9"}, {"hour": "9", 3: 1.0}]
    separations = [Separation.top_k(rows, 6) for rows in (BATCH, [], named)]
    for number, separation in enumerate(separations):
        path, again = tmp_path / f"{number}.sep", tmp_path / "again.sep"
        separation.save(path)
        twin = Separation.load(path)
        assert same(twin, separation)
        assert twin.high_names() == separation.high_names()
        twin.save(again)
        assert again.read_bytes() == path.read_bytes()


def test_a_loaded_separation_makes_the_same_model(tmp_path: Path) -> None:
    separation = Separation.top_k(BATCH, 4)
    separation.save(tmp_path / "sep")
    models = [PQR(separation), PQR(Separation.load(tmp_path / "sep"))]
    for model in models:
        model.learn_many(BATCH)
    assert models[0].to_bytes() == models[1].to_bytes()


def test_a_model_is_not_a_separation_and_the_other_way_round(tmp_path: Path) -> None:
    separation = Separation.top_k(BATCH, 4)
    separation.save(tmp_path / "sep")
    PQR(separation).save(tmp_path / "model")
    with pytest.raises(NotAModel, match="a pqr model, not a separation"):
        Separation.load(tmp_path / "model")
    with pytest.raises(NotAModel, match="a separation file, not a model"):
        pqrlearn.load(tmp_path / "sep")


def test_a_separation_that_contradicts_itself_is_corrupt(tmp_path: Path) -> None:
    twice: modelfile.Tensors = {
        "features": np.array([1, 1], np.uint32),
        "counts": np.array([2, 2], np.uint64),
    }
    nothing = {name: array[:0] for name, array in twice.items()}
    for described, tensors in [
        ({"rows": 2, "distinct": 2}, twice),
        ({"rows": 2, "distinct": 2}, {"features": twice["features"]}),
        ({"rows": -1, "distinct": 0}, nothing),
        ({}, nothing),
    ]:
        modelfile.write(tmp_path / "sep", "separation", described, tensors)
        with pytest.raises(Corrupt, match="a damaged separation"):
            Separation.load(tmp_path / "sep")
