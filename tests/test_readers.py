"""The seam of reading: what every Reader keeps to, and names that come with rows."""

from __future__ import annotations

import gzip
import io
import json
import os
import threading
from collections.abc import Callable, Generator, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import pqrlearn
from command import clicks, failure, write_rows
from pqrlearn import CFM, FM, LR, PQR, Batch, Counts, DiFacto, NuclearBall, Separation
from pqrlearn.checkpoint import cut, skip
from pqrlearn.cli.train import train
from pqrlearn.datasets.base import LayoutReader
from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.errors import DataError, HyperError, RowError
from pqrlearn.learners.pqr import _SplitBatch
from pqrlearn.names import Coded, Names, copied, number
from pqrlearn.progressive import learn
from pqrlearn.readers import Inputs, Reader, Sample, batch_of, open_reader, read
from pqrlearn.readers.cache import kept
from pqrlearn.readers.libsvm import LibsvmReader
from pqrlearn.readers.tables import TableOptions
from pqrlearn.schema import Column as SchemaColumn
from pqrlearn.schema import Schema

ROWS = clicks(seed=71, rows=500)
FIELDS = ("ad", "hour", "site")  # in order of name: dicts number the new names of a row so
Cells = tuple[str | None, ...]


class Table(Reader):
    """Rows of named cells, in blocks of some size."""

    named = True

    def __init__(self, rows: list[Cells], block: int, start: int = 0) -> None:
        super().__init__("table")
        self._cells, self._block, self._start = rows, block, start

    def _read(self) -> Generator[Batch, None, None]:
        for start in range(0, len(self._cells), self._block):
            rows = self._cells[start : start + self._block]
            yield batch_of(
                [encoded(field, [row[at] for row in rows]) for at, field in enumerate(FIELDS)],
                self.names,
                labels=[label(self._start + start + at) for at in range(len(rows))],
            )

    @property
    def enterable(self) -> bool:
        return True

    @property
    def size(self) -> int:
        return len(self._cells)

    def estimated_rows(self) -> float:
        return self.size

    def part(self, start: int, stop: int) -> Table:
        return Table(self._cells[start:stop], self._block, start)


def label(row: int) -> float:
    return float(row * 7919 % 3 == 0)


def encoded(field: str, cells: list[str | None]) -> Coded:
    """With names that no row has, as the dictionary of a file may hold."""
    values = ["never", *sorted({cell for cell in cells if cell is not None})]
    codes = [-1 if cell is None else values.index(cell) for cell in cells]
    return Coded([f"{field}={value}" for value in values], np.array(codes, np.int32))


def as_dicts(rows: list[Cells]) -> list[dict[str, str | None]]:
    return [dict(zip(FIELDS, row, strict=True)) for row in rows]


def random_table(seed: int, rows: int) -> list[Cells]:
    chance = np.random.default_rng(seed)
    drawn = chance.zipf(1.5, (rows, len(FIELDS))) % 40
    return [tuple(None if v == 3 else f"v{v}" for v in row) for row in drawn.tolist()]


TABLE = random_table(1, 300)


def made(learner: Any, rows: list[Cells], block: int) -> bytes:
    learn(learner, Inputs([Table(rows, block)]))
    data: bytes = learner.to_bytes()
    return data


# Numbers of names.

cells = st.sampled_from(["a", "b", "c", "d", "", None])
tables = st.lists(st.tuples(cells, cells), min_size=1, max_size=20)


@given(tables, st.integers(1, 20), st.lists(st.sampled_from("abcd"), max_size=3))
def test_names_are_numbered_row_by_row_however_rows_are_cut(
    rows: list[tuple[str | None, str | None]], block: int, known: list[str]
) -> None:
    """Both columns have the same names: the one that is met first numbers them."""
    names = Names()
    expected: dict[str, int] = {}
    for name in dict.fromkeys(known):
        names.add(len(expected), name)
        expected[name] = len(expected)
    met = [[c for c in row if c] for row in rows]
    for row in met:
        for name in row:
            expected.setdefault(name, len(expected))
    brought: list[str] = []
    found: list[list[int]] = []
    for start in range(0, len(rows), block):
        part = rows[start : start + block]
        values = ["d", "", "b", "c", "a"]
        columns = [
            Coded(
                values, np.array([-1 if r[at] is None else values.index(r[at]) for r in part], "i4")
            )
            for at in range(2)
        ]
        numbered = number(columns, len(part), names)
        brought += numbered.new_names
        bounds = numbered.indptr.tolist()
        found += [numbered.indices[begin:end].tolist() for begin, end in pairwise(bounds)]
    assert {name: names.find(name) for name in expected} == expected
    assert brought == [name for name in expected if name not in known]
    assert found == [sorted({expected[name] for name in row}) for row in met]


def test_a_value_of_zero_is_absent_and_brings_no_name() -> None:
    price = Coded(["price"], np.zeros(3, np.int32), np.array([0, 2.5, 0], np.float32))
    batch = batch_of([price], Names(), labels=[0, 1, 0])
    assert (batch.indptr.tolist(), batch.values.tolist()) == ([0, 0, 1, 1], [2.5])
    assert batch.new_names is not None
    assert batch.new_names.rows.tolist() == [1]


def test_a_name_in_two_columns_of_a_row_is_one_feature() -> None:
    tag = Coded(["tag=x"], np.zeros(1, np.int32))
    batch = batch_of([tag, tag], Names(), labels=[0])
    assert (batch.indices.tolist(), batch.values.tolist()) == ([0], [2.0])


# Names that come with a Batch.


def new(batch: Batch) -> list[tuple[int, str, int]]:
    n = batch.new_names
    return [] if n is None else list(zip(n.indices.tolist(), n.names, n.rows.tolist(), strict=True))


@given(st.lists(st.integers(0, 30), max_size=4))
def test_parts_of_a_batch_share_out_its_new_names(cuts: list[int]) -> None:
    (batch,) = Table(TABLE[:30], 30).batches()
    bounds = sorted({0, 30, *cuts})
    parts = [batch.part(a, b) for a, b in pairwise(bounds)]
    for part in parts:
        for index, _, row in new(part):
            assert index in part.indices[part.indptr[row] : part.indptr[row + 1]]
    assert new(Batch.joined(parts)) == new(batch)


def test_rows_that_are_taken_bring_the_names_they_have() -> None:
    (batch,) = Table(TABLE[:30], 30).batches()
    names = {index: name for index, name, _ in new(batch)}
    taken = batch.take(np.array([20, 3, 20]))
    assert {index for index, _, _ in new(taken)} == set(taken.indices.tolist())
    assert all(name == names[index] for index, name, _ in new(taken))
    assert all(row < 2 for _, _, row in new(taken))


# Names in a model.

LEARNERS: dict[str, Callable[[], Any]] = {
    "lr": LR,
    "fm": lambda: FM(rank=2),
    "difacto": DiFacto,
    "cfm": lambda: CFM(ball=NuclearBall(block_rows=16)),
    "pqr": lambda: PQR(Counts.of(as_dicts(TABLE)).separate(order=10)),
}


@pytest.mark.parametrize("kind", LEARNERS)
def test_rows_of_a_table_teach_what_the_same_dicts_do(kind: str) -> None:
    """Dicts number the new names of a row in order of name: here the columns are in that order."""
    by_name = LEARNERS[kind]()
    by_name.learn_many(as_dicts(TABLE), [label(at) for at in range(len(TABLE))])
    for block in (1, 7, 300):
        assert made(LEARNERS[kind](), TABLE, block) == by_name.to_bytes()


@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize(("block", "every"), [(300, 70), (64, 100), (7, 1)])
def test_a_checkpoint_inside_a_batch_holds_the_names_of_the_rows_before_it(
    kind: str, block: int, every: int, tmp_path: Path
) -> None:
    whole = made(LEARNERS[kind](), TABLE, 300)
    model, done = LEARNERS[kind](), 0
    for batch in cut(Inputs([Table(TABLE, block)]).batches(model._prepared), every):
        model.learn_many(batch)
        done += len(batch)
        if done >= 140 and done % every == 0:
            break
    model.save(tmp_path / "checkpoint")
    assert model.to_bytes() == made(LEARNERS[kind](), TABLE[:done], 300)  # however far it had read
    resumed = pqrlearn.load(tmp_path / "checkpoint")
    inputs = Inputs([Table(TABLE, 50)])
    inputs.use_names(resumed.names, resumed.next_feature)
    learn(resumed, skip(inputs, done))
    assert resumed.to_bytes() == whole


def test_a_second_pass_brings_the_same_names() -> None:
    inputs, model = Inputs([Table(TABLE, 64), Table(random_table(2, 50), 64)]), LR()
    for batch in inputs:
        model.learn_many(batch)
        break  # the reader has gone further
    for _ in range(2):
        learn(model, inputs)
    assert len(inputs.names) == len(model.names) == len(LR.from_bytes(model.to_bytes()).names)
    assert [model.names.name(at) for at in range(5)] == [inputs.names.name(at) for at in range(5)]


def test_rows_that_teach_nothing_still_bring_their_names() -> None:
    (batch,) = Table(TABLE[:10], 10).batches()
    model = LR()
    model.learn_many(batch, weights=np.zeros(10))
    assert (model.rows, len(model.names)) == (0, len(new(batch)))


def test_a_batch_that_is_refused_brings_no_names() -> None:
    (batch,) = Table(TABLE[:10], 10).batches()
    model = LR()
    with pytest.raises(RowError):
        model.learn_many(batch, np.full(10, 0.5))
    assert len(model.names) == 0


def test_prediction_adds_no_names() -> None:
    model = LR()
    made(model, TABLE[:50], 50)
    inputs, before = Inputs([Table(TABLE, 50)]), model.to_bytes()
    inputs.use_names(model.names, model.next_feature)
    expected = model.predict_many(as_dicts(TABLE))
    found = np.concatenate([model.predict_many(batch) for batch in inputs])
    assert np.array_equal(found, expected)
    assert model.to_bytes() == before


def test_rows_numbered_by_other_names_are_refused() -> None:
    model = LR()
    made(model, TABLE, 300)
    (other,) = Table(TABLE[::-1], 300).batches()
    with pytest.raises(DataError, match=r"number '.*' as feature .*read them with the names of"):
        model.learn_many(other)


def test_new_names_leave_the_numbers_of_features_without_names() -> None:
    model = LR()
    model.learn_many(Batch.from_rows([([0, 9], [1, 1])], [1]))
    inputs = Inputs([Table(TABLE, 100)])
    inputs.use_names(model.names, model.next_feature)
    learn(model, inputs)
    assert inputs.names.find("never") is None
    assert min(int(batch.indices.min()) for batch in inputs) == 10
    assert len(copied(model.names)) == len(model.names)


def test_counting_a_sample_and_then_learning_agree_on_numbers() -> None:
    counts = Counts.of_readers([Table(TABLE, 16)], 100)
    assert 60 <= counts.rows < 300
    separation = counts.separate(order=5)
    assert all("=" in name for name in separation.high_names())
    models = []
    for block in (16, 300):
        model = PQR(separation)
        inputs = Inputs([Table(TABLE, block)])
        inputs.use_names(model.names, model.next_feature)
        learn(model, inputs)
        models.append(model.to_bytes())
        assert len(model.names) == len(Counts.of(as_dicts(TABLE)).separate(order=1).names)
    assert models[0] == models[1]


def test_a_head_that_was_counted_is_learned_with_its_names() -> None:
    inputs = Inputs([Table(TABLE, 32)])
    head = inputs.head(50)
    assert sum(map(len, head)) == 64
    model = PQR(Counts.of(head).separate(order=5))
    inputs.use_names(model.names, model.next_feature)
    learn(model, inputs.batches(model._prepared))
    assert (model.rows, len(model.names)) == (300, len(inputs.names))


# What every Reader keeps to.


def as_libsvm(folder: Path) -> Reader:
    return open_reader(write_rows(folder / "rows.svm", ROWS))


def as_cache(folder: Path) -> Reader:
    for _ in kept(folder / "rows.cache", [ROWS]):
        pass
    return open_reader(folder / "rows.cache")


def as_gz(folder: Path) -> Reader:
    text = write_rows(folder / "plain", ROWS).read_bytes()
    (folder / "rows.gz").write_bytes(gzip.compress(text))
    return open_reader(folder / "rows.gz")


def as_layout(folder: Path) -> Reader:
    def read(sources: Any, names: Names) -> Iterator[Batch]:
        return LibsvmReader(sources[0]).batches()

    return LayoutReader([write_rows(folder / "rows.svm", ROWS)], read)


def as_table() -> Any:
    """The rows as a table with a column for each feature."""
    import pyarrow as pa

    dense = np.full((len(ROWS), int(ROWS.indices.max()) + 1), np.nan)
    for row, (begin, end) in enumerate(pairwise(ROWS.indptr.tolist())):
        dense[row, ROWS.indices[begin:end]] = ROWS.values[begin:end]
    columns = {"y": ROWS.labels, "w": ROWS.weights}
    columns |= {f"f{at}": column for at, column in enumerate(dense.T)}
    return pa.table({name: pa.array(c, from_pandas=True) for name, c in columns.items()})


def table_reader(path: Path) -> Reader:
    features = range(int(ROWS.indices.max()) + 1)
    columns = [SchemaColumn("y", "label"), SchemaColumn("w", "weight")]
    columns += [SchemaColumn(f"f{at}", "number") for at in features]
    return open_reader(path, table=TableOptions(Schema(tuple(columns))))


def as_csv(folder: Path) -> Reader:
    from pyarrow.csv import write_csv

    write_csv(as_table(), folder / "rows.csv")
    text = (folder / "rows.csv").read_text().replace('"', "")
    (folder / "rows.csv").write_text(text)
    return table_reader(folder / "rows.csv")


def as_quoted_csv(folder: Path) -> Reader:
    as_csv(folder)
    text = (folder / "rows.csv").read_text().replace("\n1,", '\n"1",')
    (folder / "quoted.csv").write_text(text)
    return table_reader(folder / "quoted.csv")


def as_parquet(folder: Path) -> Reader:
    from pyarrow.parquet import write_table

    write_table(as_table(), folder / "rows.parquet", row_group_size=130)
    return table_reader(folder / "rows.parquet")


def as_arrow(folder: Path) -> Reader:
    from pyarrow.feather import write_feather

    write_feather(as_table(), folder / "rows.feather", chunksize=170)
    return table_reader(folder / "rows.feather")


def as_jsonl(folder: Path) -> Reader:
    rows = as_table().to_pylist()
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return table_reader(folder / "rows.jsonl")


def as_vw(folder: Path) -> Reader:
    def line(row: dict[str, float | None]) -> str:
        features = [f"{name}:{v!r}" for name, v in row.items() if name[0] == "f" and v is not None]
        return f"{row['y']} {row['w']} | {' '.join(features)}\n"

    (folder / "rows.vw").write_text("".join(map(line, as_table().to_pylist())))
    return open_reader(folder / "rows.vw")


TABLES = [as_csv, as_quoted_csv, as_parquet, as_arrow, as_jsonl, as_vw]
MAKERS = [as_libsvm, as_cache, as_gz, as_layout, *TABLES]


def content(rows: Batch, names: Names) -> list[Any]:
    """What rows say, whatever the numbers of features are."""
    found = []
    for row, (begin, end) in enumerate(pairwise(rows.indptr.tolist())):
        indices = rows.indices[begin:end].tolist()
        called = [(names.name(index) or f"f{index}") for index in indices]
        features = dict(zip(called, rows.values[begin:end].tolist(), strict=True))
        found.append((rows.labels[row], rows.weights[row], features))
    return found


EXPECTED = content(ROWS, Names())


@pytest.mark.parametrize("make", MAKERS)
def test_a_reader_gives_all_rows_and_says_how_far_it_is(make: Any, tmp_path: Path) -> None:
    reader = make(tmp_path)
    for _ in range(2):
        batches = list(reader.batches())
        assert content(Batch.joined(batches), reader.names) == EXPECTED
        assert all(map(len, batches))
        assert (reader.rows, reader.bad_rows, reader.first_bad) == (500, 0, [])
        assert reader.fraction() == 1.0
    assert reader.bytes == os.path.getsize(reader.path)
    assert reader.digest() == make(tmp_path).digest() != "stream"


@pytest.mark.parametrize("make", MAKERS)
def test_parts_share_out_the_rows_or_are_refused(make: Any, tmp_path: Path) -> None:
    reader = make(tmp_path)
    if not reader.enterable:
        with pytest.raises(DataError, match="only a plain file can be read in parts"):
            reader.part(0, 1)
        return
    assert 400 < reader.estimated_rows() < 600
    bounds = [0, reader.size // 3, reader.size // 2, reader.size]
    parts, names = [reader.part(a, b) for a, b in pairwise(bounds)], Names()
    rows = Batch.joined(batch for part in parts for batch in part.batches(names))
    assert content(rows, names) == EXPECTED


@pytest.mark.parametrize("make", MAKERS)
def test_a_sample_has_about_as_many_rows_as_are_asked_for(make: Any, tmp_path: Path) -> None:
    found = sum(map(len, Sample([make(tmp_path)], 200).batches()))
    assert 150 <= found <= 270
    assert sum(map(len, Sample([make(tmp_path)], None).batches())) == 500


# pqrlearn.read


def test_several_inputs_of_several_formats_are_read_one_after_the_other(tmp_path: Path) -> None:
    paths = [make(tmp_path).path for make in (as_libsvm, as_cache, as_gz)]
    rows = read(paths, loss="logistic")
    assert rows.schema is None
    for _ in range(2):
        assert Batch.joined(rows).digest() == Batch.joined([ROWS] * 3).digest()
        assert rows.fraction() == 1.0
    assert rows.digest() == read(paths).digest() != read(paths[:2]).digest()


def test_progress_and_bad_rows_are_those_of_the_current_pass(tmp_path: Path) -> None:
    path = tmp_path / "rows.svm"
    path.write_text("1 1:1\n1 x\n")
    rows = read([path] * 20, on_bad_row="skip")
    assert len(Batch.joined(rows)) == rows.bad_rows == 20
    second = rows.batches()
    next(second)
    share = rows.fraction()
    assert share is not None
    assert share < 0.5  # the thread reads a few batches ahead
    assert rows.bad_rows < 10
    list(second)
    assert (rows.rows, rows.bad_rows, rows.fraction()) == (20, 20, 1.0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"schema": {}}, "a schema must have a list of columns"),
        (
            {"schema": {"columns": [{"name": "y", "kind": "label"}]}},
            "schemas belong to tables, and libsvm has no columns",
        ),
        ({"format": "excel"}, "format='excel' must be one of arrow, cache, csv"),
        ({"on_bad_row": "keep"}, "on_bad_row='keep' must be 'stop' or 'skip'"),
        ({"loss": "hinge"}, "loss='hinge' must be one of"),
        ({"paths": []}, "give at least one input"),
        ({"paths": ["-", "-"]}, "can be read only once"),
    ],
)
def test_what_cannot_be_meant_is_a_hyper_error(given: dict[str, Any], said: str) -> None:
    with pytest.raises(HyperError, match=said):
        read(**{"paths": ["rows.svm"], **given})


def test_the_format_can_be_given(tmp_path: Path) -> None:
    path = as_libsvm(tmp_path).path
    assert len(Batch.joined(read(path, format="libsvm"))) == 500
    with pytest.raises(DataError):
        read(path, format="cache")


def test_stdin_cannot_be_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"1 1:1\n")))
    rows = read("-")
    assert (len(Batch.joined(rows)), rows.fraction(), rows.digest()) == (1, None, "stream")
    with pytest.raises(DataError, match="<stdin>: a stream can be read only once"):
        list(rows)


def test_a_named_pipe_cannot_be_read_twice(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=[b"1 1:1\n"])
    writer.start()
    rows = read(pipe)
    assert len(Batch.joined(rows)) == 1
    writer.join()
    with pytest.raises(DataError, match="a stream can be read only once"):
        list(rows)


def test_inputs_without_rows_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"\n")
    with pytest.raises(DataError, match="empty: no rows"):
        list(read(tmp_path / "empty"))


def test_bad_rows_stop_or_are_counted_and_named_without_options(tmp_path: Path) -> None:
    path = tmp_path / "rows.svm"
    path.write_text("1 1:1\n1 x\n0 2:1\n")
    with pytest.raises(RowError, match=r"rows\.svm:2:3: index 'x' is not a whole number$"):
        list(read(path))
    rows = read(path, on_bad_row="skip")
    assert len(Batch.joined(rows)) == 2
    assert rows.bad_rows == len(rows.first_bad) == 1
    assert rows.first_bad[0].line == 2


def test_the_command_adds_the_way_out_that_it_has(tmp_path: Path) -> None:
    path = tmp_path / "rows.svm"
    path.write_text("1 1:1\n1 1:x\n")
    hint = "; --on-bad-row skip skips such rows"
    LR().save(tmp_path / "model")
    for arguments in (
        ["train", "--model", "pqr", "-o", tmp_path / "m"],
        ["separate", "-o", tmp_path / "sep"],
    ):
        assert failure(3, *arguments, path).endswith(f"value 'x' is not a number{hint}")
    for arguments in (["tune"], ["data", "convert", "-o", tmp_path / "out"]):
        assert failure(3, *arguments, path).endswith("value 'x' is not a number")
    path.write_text("3 1:1\n4 2:1\n")
    assert failure(3, "train", "-o", tmp_path / "m", path).endswith(
        "; --loss squared accepts any number"
    )
    assert failure(3, "evaluate", "-m", tmp_path / "model", path).endswith(hint)
    said = failure(
        4, "train", "--model", "pqr", path, "-o", tmp_path / "m", "--separation", tmp_path / "model"
    )
    assert said.endswith("model: a lr model, not a separation; pqr separate writes one")
    said = failure(3, "data", "stats", "criteo", env={**os.environ, "PQRLEARN_DATA": str(tmp_path)})
    assert said.endswith(", or fetch it; pqr data get criteo downloads it or says how")


# Rows prepared before their turn.


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of three chunks or more."""
    path = tmp_path_factory.mktemp("many") / "rows.svm"
    ClickStream(fields=12, features=400, click_rate=0.3).write_libsvm(path, 100_000)
    assert path.stat().st_size > 2 << 21
    return path


@pytest.mark.parametrize("form", ["plain", "gz", "stdin", "every", "gz every"])
@pytest.mark.parametrize("sample", ["1000", "all"])
def test_every_batch_is_split_before_its_turn(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, sample: str
) -> None:
    learned: list[tuple[bool, int]] = []
    threads: set[str] = set()
    made, split_ahead = PQR._learned, PQR._prepared

    def prepared(self: PQR, batch: Batch) -> Batch:
        threads.add(threading.current_thread().name)
        return split_ahead(self, batch)

    def noted(self: PQR, batch: Batch) -> Any:
        split = isinstance(batch, _SplitBatch) and batch.split_by is self.separation.snapshot
        learned.append((split, len(batch)))
        return made(self, batch)

    monkeypatch.setattr(PQR, "_learned", noted)
    monkeypatch.setattr(PQR, "_prepared", prepared)
    path, text = str(many), many.read_bytes()
    if "gz" in form:
        path = str(tmp_path / "rows.gz")
        Path(path).write_bytes(gzip.compress(text, 1))
    options = [
        "-o",
        tmp_path / "model",
        "--model",
        "pqr",
        "--order",
        20,
        "--sample-rows",
        sample,
        "--quiet",
    ]
    if "every" in form:
        options += ["--checkpoint", tmp_path / "checkpoint", "--every", 7000]
    arguments = ["-" if form == "stdin" else path, *map(str, options)]
    given = text if form == "stdin" else None
    done = CliRunner().invoke(train, arguments, input=given, catch_exceptions=False)
    assert done.exit_code == 0
    assert sum(size for _, size in learned) == 100_000
    assert len(learned) >= 3
    assert all(split for split, _ in learned)
    assert threads == {"prefetch"}


def test_splits_survive_being_skipped_into(many: Path) -> None:
    separation = Separation.from_file(many, order=20)
    model = PQR(separation)
    rows = read(many, loss="logistic")
    batches = list(cut(skip(rows.batches(model._prepared), 12_345), 5000, 12_345))
    assert all(isinstance(batch, _SplitBatch) for batch in batches)
    plain = PQR(separation)
    for batch in batches:
        plain.learn_many(batch.take(np.arange(len(batch))))
        model.learn_many(batch)
    assert model.to_bytes() == plain.to_bytes()
