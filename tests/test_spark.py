"""Estimators on a real Spark: two executors in processes of their own."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from command import ok
from pqrlearn import LR, PQR, Batch, Separation
from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.errors import HyperError, MissingExtra
from pqrlearn.guess import Choices, guess
from pqrlearn.merging import learn_in_rounds
from pqrlearn.schema import Schema
from pqrlearn.spark.shards import Ranges, from_bytes, joined, to_bytes
from programs import needs_program

STREAM = ClickStream(fields=5, features=200, click_rate=0.3, interactions=10, pair_scale=1.5)
ROWS = Batch.joined(STREAM.batches(3_000))


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    needs_program("java", package="default-jre-headless")
    import pyspark
    from pyspark.sql import SparkSession

    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder),
        "spark.local.dir": str(folder),
    }
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("pqrlearn")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    application = session.sparkContext.applicationId
    yield session
    session.stop()
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    shutil.rmtree(home / "work" / application, ignore_errors=True)  # logs of the executors


def clicks(rows: int = 1_200) -> pa.Table:
    rng = np.random.default_rng(1)
    site, user = rng.integers(0, 9, rows), rng.integers(0, 60, rows)
    return pa.table(
        {
            "site": [f"s{n}" for n in site],
            "user": [f"u{n}" for n in user],
            "age": rng.integers(18, 80, rows).astype(float),
            "click": (rng.random(rows) < 0.1 + 0.08 * site).astype(int),
            "at": rng.permutation(rows),
        }
    )


INPUTS = ["site", "user", "age"]
TABLE = clicks()
IN_ORDER = TABLE.sort_by("at").drop_columns(["at"])
SCHEMA = guess(IN_ORDER, Choices(label="click"))


def vectors(batch: Batch, size: int) -> list[tuple[int, Any, float, float]]:
    from pyspark.ml.linalg import Vectors

    ends = batch.indptr.tolist()
    return [
        (
            row,
            Vectors.sparse(
                size,
                batch.indices[ends[row] : ends[row + 1]].tolist(),
                batch.values[ends[row] : ends[row + 1]].tolist(),
            ),
            float(batch.labels[row]),
            1.0 + row % 2,
        )
        for row in range(len(batch))
    ]


def by_number(spark: Any) -> Any:
    frame = spark.createDataFrame(vectors(ROWS, 200), ["at", "features", "label", "amount"])
    return frame.repartition(4)


# Without a cluster.


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("pqrlearn.spark")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.split(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtra, match=r'need an extra: pip install "pqrlearn\[spark\]"'):
        import pqrlearn.spark  # noqa: F401


def test_shards_are_parts_of_a_state_that_fit_together() -> None:
    from pqrlearn.merging.states import blocks_of

    model = PQR(Separation.top_k(ROWS, order=20))
    model.learn_margins(ROWS)
    blocks = blocks_of(model.state())
    for shards in (1, 3, 7):
        ranges = Ranges.of(blocks, features=200, order=20, shards=shards)
        parts = [from_bytes(to_bytes(ranges.cut(blocks, shard))) for shard in range(shards)]
        whole = joined(parts)
        for name, slots in blocks.items():
            assert whole[name].keys.tolist() == slots.keys.tolist()
            assert whole[name].slots.tobytes() == slots.slots.tobytes()
    sizes = [len(part["pair"].keys) for part in parts]
    assert max(sizes) < 2 * sum(sizes) / len(sizes)


# One worker: the bytes of the single machine.


def test_one_worker_gives_the_bytes_of_the_single_machine(spark: Any, tmp_path: Path) -> None:
    from pqrlearn.spark import PQRClassifier

    expected = PQR(Separation.top_k(IN_ORDER, schema=SCHEMA), alpha=0.2)
    expected.learn_many(IN_ORDER)
    frame = spark.createDataFrame(TABLE).repartition(3)
    columns: dict[str, Any] = {"input_cols": INPUTS, "label_col": "click", "order_col": "at"}
    model = PQRClassifier(**columns, rounds=2, alpha=0.2).fit(frame)
    assert model.native.to_bytes() == expected.to_bytes()
    assert [each.rows for each in model.report] == [600, 600]
    shown = model.transform(frame).orderBy("at").select("probability", "prediction").collect()
    chances = expected.predict_many(IN_ORDER.drop_columns(["click"]))
    assert [row["probability"][1] for row in shown] == chances.tolist()
    assert [row["prediction"] for row in shown] == (chances > 0.5).astype(float).tolist()
    model.native.save(tmp_path / "clicks.pqr")
    assert "site=s1" in ok("inspect", tmp_path / "clicks.pqr", "--top", "200")
    _check_persistence(model, frame, tmp_path)


def _check_persistence(model: Any, frame: Any, folder: Path) -> None:
    from pqrlearn.spark import ClassifierModel, PQRClassifier

    model.save(f"file://{folder}/model")
    again = ClassifierModel.load(f"file://{folder}/model")
    assert again.native.to_bytes() == model.native.to_bytes()
    assert again.report == model.report
    assert again.getLabelCol() == "click"
    assert again.transform(frame).columns == model.transform(frame).columns
    estimator = PQRClassifier(input_cols=INPUTS, rounds=3, schema=SCHEMA)
    estimator.save(f"file://{folder}/estimator")
    loaded = PQRClassifier.load(f"file://{folder}/estimator")
    assert (loaded.getInputCols(), loaded.getOrDefault("rounds")) == (INPUTS, 3)
    assert loaded._columns().schema == SCHEMA


def test_vectors_counts_and_weights_are_those_of_the_single_machine(spark: Any) -> None:
    from pqrlearn.spark import PQRRegressor

    weights = 1.0 + np.arange(len(ROWS)) % 2
    separation = Separation.top_k(ROWS, order=50)
    assert len(np.unique(separation.counts)) < 50  # ties, broken alike
    expected = PQR(separation, "squared", l1=0.1)
    columns = ROWS.indptr, ROWS.indices, ROWS.values, ROWS.labels, weights.astype(np.float32)
    expected.learn_margins(Batch(*columns))
    estimator = PQRRegressor(
        order_col="at", weight_col="amount", order=50, l1=0.1, rounds=1, loss="squared"
    )
    model = estimator.fit(by_number(spark))
    assert model.native.to_bytes() == expected.to_bytes()
    found = model.transform(by_number(spark)).orderBy("at").select("prediction").collect()
    assert [row["prediction"] for row in found] == expected.predict_many(ROWS).tolist()


def test_rows_of_files_are_learned_in_the_order_of_their_names(spark: Any, tmp_path: Path) -> None:
    from pqrlearn.spark import LRClassifier

    folder = tmp_path / "days"
    folder.mkdir()
    for name, start in (("b.csv", 700), ("a.csv", 0), ("c.csv", 900)):
        stop = {"a.csv": 700, "b.csv": 900, "c.csv": 1_200}[name]
        pyarrow.csv.write_csv(IN_ORDER.slice(start, stop - start), folder / name)
    expected = LR()
    expected.schema = SCHEMA
    expected.learn_many(IN_ORDER)
    frame = spark.read.csv(f"file://{folder}", header=True, inferSchema=True)
    estimator = LRClassifier(input_cols=INPUTS, label_col="click", rounds=1, schema=SCHEMA)
    assert estimator.fit(frame).native.to_bytes() == expected.to_bytes()


# Several workers: those of rounds over processes.


def test_workers_give_the_bytes_of_rounds_over_processes(spark: Any) -> None:
    from pqrlearn.spark import PQRClassifier

    start = PQR(Separation.top_k(ROWS, order=20))
    expected, shown = learn_in_rounds(
        start, ROWS, workers=2, rounds=2, passes=2, held=600, processes=0
    )
    estimator = PQRClassifier(
        order_col="at", order=20, num_workers=2, rounds=2, passes=2, held_rows=600
    )
    model = estimator.fit(by_number(spark))
    assert model.native.to_bytes() == expected.to_bytes()
    assert [(r.rows, r.loss, r.m, r.alone) for r in model.report] == [
        (r.rows, pytest.approx(r.loss, rel=1e-12), r.m, r.alone) for r in shown
    ]
    assert all(each.bytes > 0 and each.seconds > 0 for each in model.report)


# Spark leaves a pool of threads to the garbage collector, which complains.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_estimators_work_in_pipelines_and_cross_validation(spark: Any) -> None:
    from pyspark.ml import Pipeline
    from pyspark.ml.evaluation import BinaryClassificationEvaluator
    from pyspark.ml.tuning import CrossValidator, ParamGridBuilder

    from pqrlearn.spark import LRClassifier

    estimator = LRClassifier(order_col="at", rounds=1)
    grid = ParamGridBuilder().addGrid(estimator.alpha, [0.001, 0.3]).build()
    evaluator = BinaryClassificationEvaluator()
    search = CrossValidator(
        estimator=Pipeline(stages=[estimator]),
        estimatorParamMaps=grid,
        evaluator=evaluator,
        numFolds=2,
        seed=1,
    )
    frame = by_number(spark)
    found = search.fit(frame)
    assert found.avgMetrics[1] > found.avgMetrics[0] - 0.05
    model = found.bestModel.stages[0]
    assert model.native.settings()["optimizer"]["alpha"] in (0.001, 0.3)
    assert evaluator.evaluate(found.transform(frame)) > 0.6
    gc.collect()  # here, not in another test


# Errors.


def test_what_cannot_be_learned_is_an_error(spark: Any) -> None:
    from pqrlearn.spark import LRClassifier

    frame = spark.createDataFrame(TABLE)
    good: dict[str, Any] = {"input_cols": INPUTS, "label_col": "click"}
    with pytest.raises(HyperError, match="no column 'clicks', only site, user, age, click, at"):
        LRClassifier(**(good | {"label_col": "clicks"})).fit(frame)
    with pytest.raises(HyperError, match="give order_col"):
        LRClassifier(**good).fit(frame)
    with pytest.raises(Exception, match="order_col='age' has one value in several rows"):
        LRClassifier(**good, order_col="age").fit(frame)
    with pytest.raises(HyperError, match="1200 rows are too few"):
        LRClassifier(**good, order_col="at", num_workers=2).fit(frame)
    hashed = Schema(SCHEMA.columns, hash_bits=10)
    with pytest.raises(HyperError, match="hash_bits and max_features"):
        LRClassifier(**good, order_col="at", schema=hashed).fit(frame)
