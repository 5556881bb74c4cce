"""Data sets: their features, their names, and every way in which a line can be wrong."""

from __future__ import annotations

import gzip
import math
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_files import GOOD, KDD2012_SAMPLE, encoded, write_good
from pqrlearn import Batch, datasets
from pqrlearn.datasets import table
from pqrlearn.datasets.criteo import count
from pqrlearn.errors import DataError, RowError
from pqrlearn.names import Names
from pqrlearn.readers import format_names, open_source, read_names

REAL = Path(os.environ.get("PQRLEARN_DATA") or Path(__file__).parents[2] / "shared/data")


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """$PQRLEARN_DATA, with a cache that is as empty."""
    monkeypatch.setenv("PQRLEARN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "data"


def named(batch: Batch, names: Names) -> list[set[str | None]]:
    """The features of every row by name."""
    return [
        {names.name(int(i)) for i in batch.indices[begin:end]}
        for begin, end in zip(batch.indptr[:-1], batch.indptr[1:], strict=True)
    ]


# Real files.


def needs(path: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not (REAL / path).exists(), reason=f"{path} is not in $PQRLEARN_DATA")


@pytest.mark.parametrize(
    ("name", "rows", "features", "per_row", "sample"),
    [
        pytest.param("ml-100k", 100_000, 898, None, False, marks=needs("ml-100k/u.data")),
        pytest.param("ml-1m", 1_000_209, 3_487, None, False, marks=needs("ml-1m/ratings.dat")),
        pytest.param("avazu", 23_299, 29_217, 22, True, marks=needs("avazu")),
        pytest.param("criteo", 137_139, 317_022, None, True, marks=needs("criteo")),
        pytest.param("kdd2012", 39_948, 160_606, 10, True, marks=needs("kdd2012")),
    ],
)
def test_real_files_have_the_rows_and_features_that_were_counted(
    name: str,
    rows: int,
    features: int,
    per_row: int | None,
    sample: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PQRLEARN_DATA", str(REAL))
    data = datasets.get(name)
    loaded = data.load()
    assert (len(loaded.batch), len(loaded.names), loaded.sample) == (rows, features, sample)
    assert len(np.unique(loaded.batch.indices)) == features
    assert data.whole() != sample
    if per_row is not None:
        assert set(np.diff(loaded.batch.indptr)) == {per_row}
    if not sample:
        assert (data.rows, data.features) == (rows, features)


# Features and names.


@pytest.mark.parametrize(
    ("name", "labels", "rows"),
    [
        (
            "ml-100k",
            [3, 5],
            [
                {"age=24", "gender=M", "occupation=technician", "zip=85711", "genre=Drama"},
                {"age=53", "gender=F", "occupation=other", "zip=T8H1N", "genre=Animation"}
                | {"genre=Comedy"},
            ],
        ),
        (
            "ml-1m",
            [5, 3],
            [
                {"age=1", "gender=F", "occupation=K-12 student", "zip=48067", "genre=Drama"},
                {"age=56", "gender=M", "occupation=self-employed", "zip=70072-1234"}
                | {"genre=Animation", "genre=Comedy"},
            ],
        ),
        (
            "ml-10m",
            [5, 0.5],
            [{"user=1", "genre=Comedy", "genre=Romance"}, {"user=2", "genre=Drama"}],
        ),
        ("criteo", [1, 0], [{"I1=8..9", "I3=-1", "C1=05db9164"}] * 2),
        (
            "kdd2012",
            [0, 1],
            [
                {"url=4298118681424644510", "ad=7686695", "advertiser=385", "depth=3"}
                | {"position=3", "query=1601", "keyword=5521", "title=7709", "description=576"}
                | {"user=490234"},
                {"url=4860571499428580850", "ad=21560664", "advertiser=37484", "depth=2"}
                | {"position=2", "query=2255103", "keyword=317", "title=48989"}
                | {"description=44771", "user=0"},
            ],
        ),
    ],
)
def test_a_row_has_these_features(
    root: Path, name: str, labels: list[float], rows: list[set[str]]
) -> None:
    write_good(root, name)
    loaded = datasets.get(name).load()
    assert loaded.batch.labels.tolist() == labels
    assert named(loaded.batch, loaded.names) == rows
    assert loaded.sample
    assert loaded.files == list(GOOD[name])


def test_avazu_keeps_22_columns_and_of_the_hour_only_that_of_the_day(root: Path) -> None:
    write_good(root, "avazu")
    loaded = datasets.get("avazu").load()
    first, second = named(loaded.batch, loaded.names)
    assert len(first) == len(second) == 22
    assert {"hour=23", "C14=20362", "site_id=1fbe01fe", "C20=-1"} <= first
    assert "hour=00" in second


@given(st.integers(3, 10**9), st.integers(3, 10**9))
def test_criteo_counts_fall_together_when_their_floor_of_log_squared_is_equal(
    one: int, other: int
) -> None:
    features = [count("I1")(str(value)) for value in (one, other)]
    buckets = [math.floor(math.log(value) ** 2) for value in (one, other)]
    assert (features[0] == features[1]) == (buckets[0] == buckets[1])
    low, _, high = features[0].removeprefix("I1=").partition("..")
    assert int(low) <= one <= int(high or low)


ROWS = st.lists(
    st.lists(st.sampled_from(["", "0", "1", "-1", "2", "3", "7", "100"]), min_size=3, max_size=3),
    min_size=1,
    max_size=30,
)


@given(ROWS, st.integers(1, 200), st.integers(1, 5))
def test_features_are_numbered_as_they_appear_however_the_file_is_cut(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], chunk: int, remembered: int
) -> None:
    path = tmp_path_factory.mktemp("cut") / "train.txt"
    path.write_text("".join("\t".join(["1", *row, *[""] * 36]) + "\n" for row in rows))
    expected: dict[str, int] = {}
    for row in rows:
        for at, cell in enumerate(row, 1):
            if cell:
                expected.setdefault(count(f"I{at}")(cell), len(expected))
    names = Names()
    with pytest.MonkeyPatch.context() as patch, open_source(path) as source:
        patch.setattr(table, "CHUNK_BYTES", chunk)
        patch.setattr(table, "CACHED_CELLS", remembered)
        read = datasets.get("criteo").layouts[0].read
        found = [row for batch in read([source], names) for row in named(batch, names)]
    assert [names.name(at) for at in range(len(names))] == list(expected)
    wanted = [{count(f"I{at}")(cell) for at, cell in enumerate(row, 1) if cell} for row in rows]
    assert found == wanted


def test_the_names_of_a_data_set_survive_their_file(root: Path, tmp_path: Path) -> None:
    write_good(root, "ml-1m")
    names = datasets.get("ml-1m").load().names
    (tmp_path / "names").write_bytes(b"".join(format_names(names)))
    again = read_names(tmp_path / "names")
    assert [again.name(at) for at in range(len(again))] == [names.name(at) for at in range(11)]


# Files that are there.


def test_a_name_that_is_not_known_is_told_with_all_that_are() -> None:
    with pytest.raises(DataError, match=r"no data set is called 'ml-2k': there are ml-100k, ml-1m"):
        datasets.get("ml-2k")


@pytest.mark.parametrize("name", datasets.NAMES)
def test_a_data_set_that_is_not_there_says_what_to_do(root: Path, name: str) -> None:
    data = datasets.get(name)
    assert not data.present()
    assert data.home.parent == root
    with pytest.raises(DataError, match=r"\$PQRLEARN_DATA .* or fetch it"):
        data.load()


@pytest.mark.parametrize("name", datasets.NAMES)
def test_every_data_set_says_where_it_comes_from(name: str) -> None:
    data = datasets.get(name)
    assert data.source.startswith("https://")
    assert data.licence
    assert data.loss in ("squared", "logistic")
    assert (data.paper_title is None) == (data.paper_rows is None) == (data.paper_features is None)


def test_the_users_cache_is_the_second_place(root: Path, tmp_path: Path) -> None:
    in_cache = write_good(tmp_path / "cache/pqrlearn", "ml-1m")
    assert datasets.get("ml-1m").home == in_cache
    assert write_good(root, "ml-1m") == datasets.get("ml-1m").home


def test_without_a_choice_there_is_the_cache_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PQRLEARN_DATA", "")
    assert datasets.get("ml-1m").home == tmp_path / "cache/pqrlearn/ml-1m"


def test_whole_files_go_before_samples_also_those_of_the_other_place(
    root: Path, tmp_path: Path
) -> None:
    (root / "kdd2012").mkdir(parents=True)
    (root / "kdd2012/Click_prediction_small.csv").write_text(KDD2012_SAMPLE)
    data = datasets.get("kdd2012")
    loaded = data.load()
    assert (loaded.files, data.whole()) == (["Click_prediction_small.csv"], False)
    assert "url=1.07100252088863e+19" in named(loaded.batch, loaded.names)[0]
    write_good(tmp_path / "cache/pqrlearn", "kdd2012")
    assert data.load().files == ["training.txt"]
    assert data.whole()


def test_a_compressed_original_is_read_as_it_is(root: Path) -> None:
    home = write_good(root, "avazu")
    (home / "train.gz").write_bytes(gzip.compress((home / "train").read_bytes()))
    (home / "train").unlink()
    loaded = datasets.get("avazu").load()
    assert (loaded.files, len(loaded.batch)) == (["train.gz"], 2)


@pytest.mark.parametrize("name", ["avazu-app-libsvm", "criteo-libsvm", "kdd2012-libsvm"])
def test_libsvm_files_are_read_with_their_own_numbers(root: Path, name: str) -> None:
    write_good(root, name)
    loaded = datasets.get(name).load()
    assert loaded.batch.indices.tolist() == [1, 7, 3]
    assert loaded.batch.values.tolist() == [0.5, 0.5, 1]
    assert loaded.batch.labels.tolist() == [1, 0]
    assert len(loaded.names) == 0


@pytest.mark.parametrize(("name", "size"), [("ml-100k", 3), ("criteo", 1)])
def test_lines_may_end_as_on_windows(root: Path, name: str, size: int) -> None:
    before = (write_good(root, name), datasets.get(name).load())[1]
    for file, text in GOOD[name].items():
        (root / name / file).write_bytes(encoded(name, file, text.replace("\n", "\r\n")))
    after = datasets.get(name).load()
    assert len(after.files) == size
    assert named(after.batch, after.names) == named(before.batch, before.names)


def test_progress_is_told_up_to_the_end(root: Path) -> None:
    write_good(root, "kdd2012-libsvm")
    seen: list[tuple[int, float | None]] = []
    datasets.get("kdd2012-libsvm").load(lambda rows, share: seen.append((rows, share)))
    assert [rows for rows, _ in seen] == [1, 2]
    assert seen[-1][1] == 1.0


# Lines that are wrong.


BROKEN = [
    ("ml-100k", "u.data", "1\t2\t3", r"u\.data:3: expected 4 cells separated by tabs, found 3"),
    ("ml-100k", "u.data", "1\t2\t6\t8", r"u\.data:3: rating '6' is not a whole number from 1 to 5"),
    ("ml-100k", "u.data", "1\t2\tx\t8", r"u\.data:3: rating 'x'"),
    ("ml-100k", "u.data", "9\t2\t3\t8", r"u\.data:3: number '9' is not in .*u\.user"),
    ("ml-100k", "u.data", "1\t9\t3\t8", r"u\.data:3: number '9' is not in .*u\.item"),
    ("ml-100k", "u.data", "1\t2\t3\tx", r"u\.data:3: time 'x' is not a whole number"),
    ("ml-100k", "u.data", "", r"u\.data:3: expected 4 cells separated by tabs, found 1"),
    ("ml-100k", "u.data", "1\t2\t3\té", r"u\.data:3:7: byte 0xc3 is not ASCII text"),
    ("ml-100k", "u.user", "3|x|M|other|1", r"u\.user:3: age 'x' is not a whole number"),
    ("ml-100k", "u.user", "3|1|X|other|1", r"u\.user:3: gender 'X' is not M or F"),
    ("ml-100k", "u.user", "3|1|M| |1", r"u\.user:3: occupation ' ' is not an occupation"),
    ("ml-100k", "u.user", "3|1|M|other|\t", r"u\.user:3: zip '\\t' is not a zip code"),
    ("ml-100k", "u.user", "3|1|M|other|1\r2", r"u\.user:3: zip '1\\r2' is not a zip code"),
    ("ml-100k", "u.user", "1|1|M|other|1", r"u\.user:3: number '1' is a duplicate"),
    ("ml-100k", "u.item", "3|x|0|1", r"u\.item:3: expected 24 cells separated by '\|', found 4"),
    ("ml-100k", "u.item", "3" + "|2" * 23, r"u\.item:3: expected 19 flags of genres, each 0 or 1"),
    ("ml-1m", "ratings.dat", "1::2::3", r"ratings\.dat:3: expected 4 cells separated by '::'"),
    ("ml-1m", "ratings.dat", "1::2::4.5::8", r"ratings\.dat:3: rating '4\.5'"),
    ("ml-1m", "users.dat", "3::M::25::21::1", r"users\.dat:3: occupation '21' is not a code"),
    ("ml-1m", "movies.dat", "3::x::", r"movies\.dat:3: genres '' are not names"),
    ("ml-1m", "movies.dat", "3::x::Drama||War", r"movies\.dat:3: genres 'Drama\|\|War' are not"),
    ("ml-10m", "ratings.dat", "1::122::5.5::8", r"ratings\.dat:3: rating '5\.5' is not a number"),
    ("ml-10m", "ratings.dat", "x::122::5::8", r"ratings\.dat:3: user 'x' is not a whole number"),
    ("ml-10m", "movies.dat", b"3::\xff::War", r"movies\.dat:3:4: byte 0xff is not UTF-8 text"),
    ("avazu", "train", "1,0,14102100", r"train:4: expected 24 cells separated by ',', found 3"),
    ("avazu", "train", ("157", "x"), r"train:2: C21 'x' is not a whole number"),
    ("avazu", "train", ("1fbe01fe", "1FBE01FE"), r"train:2: site_id '1FBE01FE' is not 8 hex"),
    ("avazu", "train", ("14102123", "14102124"), r"train:2: hour '14102124' is not of the form"),
    ("avazu", "train", (",1,14", ",2,14"), r"train:2: label '2' is not a click: expected 0 or 1"),
    ("avazu", "train", ("10013", "x"), r"train:2: id 'x378798301872145' is not a whole number"),
    ("avazu", "train", ("id,click", "id,clicks"), r"train:1: expected the header id,click,hour"),
    ("criteo", "train.txt", "1\t9", r"train\.txt:3: expected 40 cells separated by tabs, found 2"),
    ("criteo", "train.txt", ("1\t9", "2\t9"), r"train\.txt:1: label '2' is not a click"),
    ("criteo", "train.txt", ("1\t9", "\t9"), r"train\.txt:1: label '' is not a click"),
    ("criteo", "train.txt", ("1\t9", "1\t9.5"), r"train\.txt:1: I1 '9\.5' is not a whole number"),
    ("criteo", "train.txt", ("\t9", "\t" + "9" * 99), r"I1 '99999999999999999999'\.\.\. is not"),
    ("criteo", "train.txt", ("05db9164", "05db916"), r"train\.txt:1: C1 '05db916' is not 8 hex"),
    ("kdd2012", "training.txt", ("0\t1\t", "x\t1\t"), r"training\.txt:1: label 'x' is not a num"),
    ("kdd2012", "training.txt", ("0\t1\t", "0\t\t"), r"training\.txt:1: impression '' is not a"),
    ("kdd2012", "training.txt", ("490234", "me"), r"training\.txt:1: user 'me' is not a whole"),
    ("kdd2012", "training.txt", ("4298118681424644510", "-"), r"training\.txt:1: url '-' is not"),
    ("criteo-libsvm", "criteo.kaggle2014.svm/train.txt.svm", "1 x:1", r"train\.txt\.svm:3:3: "),
    ("criteo-libsvm", "criteo.kaggle2014.svm/train.txt.svm", "2 1:1", r"train\.txt\.svm:3:1: "),
]


@pytest.mark.parametrize(("name", "file", "change", "expected"), BROKEN)
def test_a_line_that_breaks_the_format_is_an_error_with_its_place(
    root: Path, name: str, file: str, change: str | bytes | tuple[str, str], expected: str
) -> None:
    """The change is a line more, or a text in the place of another."""
    path = write_good(root, name) / file
    text = path.read_bytes()
    if isinstance(change, tuple):
        text = text.replace(change[0].encode(), change[1].encode(), 1)
    else:
        text += (change if isinstance(change, bytes) else encoded(name, file, change)) + b"\n"
    path.write_bytes(text)
    with pytest.raises(RowError, match=expected):
        datasets.get(name).load()


@pytest.mark.parametrize(("name", "file"), [(name, file) for name in GOOD for file in GOOD[name]])
def test_a_file_that_is_cut_off_is_read_or_refused_with_its_name(
    root: Path, name: str, file: str
) -> None:
    path = write_good(root, name) / file
    whole = path.read_bytes()
    messages = []
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        try:
            datasets.get(name).load()
        except DataError as error:
            messages.append(str(error))
    assert messages
    assert all(message.startswith(str(root)) for message in messages)


@given(st.binary(max_size=200))
def test_bytes_from_anywhere_are_rows_or_a_row_error(
    tmp_path_factory: pytest.TempPathFactory, text: bytes
) -> None:
    path = tmp_path_factory.mktemp("bytes") / "train.txt"
    path.write_bytes(text)
    for name in ("criteo", "avazu", "kdd2012"):
        for layout in datasets.get(name).layouts:
            with open_source(path) as source, suppress(DataError):
                list(layout.read([source], Names()))


def test_a_file_without_rows_is_an_error(root: Path) -> None:
    (write_good(root, "criteo") / "train.txt").write_text("")
    with pytest.raises(DataError, match=r"train\.txt: no rows"):
        datasets.get("criteo").load()


def test_rows_before_a_bad_line_come_first(root: Path) -> None:
    path = write_good(root, "criteo") / "train.txt"
    path.write_text(path.read_text() + "1\n")
    batches = iter(datasets.get("criteo").read())
    first = next(batches)
    assert (len(first), first.lines.tolist()) == (2, [1, 2])  # type: ignore[union-attr]
    with pytest.raises(RowError, match=r"train\.txt:3: "):
        next(batches)
