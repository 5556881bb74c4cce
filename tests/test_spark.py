"""Estimators on a real Spark: two executors in processes of their own."""

from __future__ import annotations

import gc
import math
import os
import pickle
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from command import ok
from pqrlearn import LR, PQR, Separation
from pqrlearn.errors import Corrupt, HyperError, NotAModel, PqrError, RowError
from pqrlearn.guess import Choices, guess
from pqrlearn.merging import learn_in_rounds
from pqrlearn.merging.rounds import Round
from programs import needs_program
from spark_errors import failing_fits, lr
from spark_rows import (
    IN_ORDER,
    INPUTS,
    ROWS,
    SCHEMA,
    TABLE,
    by_number,
    clicks,
    in_order,
    weighted,
)


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
        "spark.task.maxFailures": "1",  # tests of errors would wait for three more
        "spark.sql.warehouse.dir": str(folder),
        "spark.local.dir": str(folder),
    }
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("pqrlearn")
    for name, value in settings.items():
        builder = builder.config(name, value)
    on_interrupt = signal.getsignal(signal.SIGINT)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    application = session.sparkContext.applicationId
    yield session
    session.stop()
    signal.signal(signal.SIGINT, on_interrupt)  # other tests of this process, too, are interrupted
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    shutil.rmtree(home / "work" / application, ignore_errors=True)  # logs of the executors


# One worker: the bytes of the single machine.


def test_one_worker_gives_the_bytes_of_the_single_machine(spark: Any, tmp_path: Path) -> None:
    from pqrlearn.spark import PQRClassifier

    table = clicks(12_000)
    rows = in_order(table)
    schema = guess(rows, Choices(label="click"))
    expected = PQR(Separation.top_k(rows, schema=schema), alpha=0.2)
    expected.learn_many(rows)
    frame = spark.createDataFrame(table).repartition(3)
    columns: dict[str, Any] = {"input_cols": INPUTS, "label_col": "click", "order_col": "at"}
    model = PQRClassifier(**columns, rounds=2, alpha=0.2).fit(frame)
    assert model.native.to_bytes() == expected.to_bytes()
    assert [each.rows for each in model.report] == [6_000, 6_000]
    shown = model.transform(frame.filter("at < 500")).orderBy("at").collect()
    chances = expected.predict_many(rows.slice(0, 500).drop_columns(["click"]))
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
    assert pickle.loads(pickle.dumps(again)).native.to_bytes() == model.native.to_bytes()
    assert again.transform(frame).columns == model.transform(frame).columns
    estimator = PQRClassifier(input_cols=INPUTS, rounds=3, schema=SCHEMA)
    estimator.save(f"file://{folder}/estimator")
    loaded = PQRClassifier.load(f"file://{folder}/estimator")
    assert (loaded.getInputCols(), loaded.getOrDefault("rounds")) == (INPUTS, 3)
    assert loaded._columns().schema == SCHEMA


def test_vectors_counts_and_weights_are_those_of_the_single_machine(spark: Any) -> None:
    from pqrlearn.spark import PQRRegressor

    separation = Separation.top_k(ROWS, order=50)
    assert len(np.unique(separation.counts)) < 50  # ties, broken alike
    expected = PQR(separation, "squared", l1=0.1)
    expected.learn_margins(weighted(ROWS))
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


def test_counts_with_weights_are_learned_from_a_table(spark: Any) -> None:
    from pqrlearn.spark import PQRRegressor

    rng = np.random.default_rng(2)
    amount = pa.array(rng.integers(0, 4, len(TABLE)) / 2)  # of some rows it is 0
    table = TABLE.append_column("amount", amount).append_column(
        "visits", pa.array(rng.poisson(1.5, len(TABLE)))
    )
    columns = ["site", "user", "visits", "amount"]
    rows = in_order(table).select(columns)
    schema = guess(rows, Choices(label="visits", weight="amount"))
    expected = PQR(Separation.top_k(rows, schema=schema), "poisson")
    expected.learn_many(rows)
    estimator = PQRRegressor(
        input_cols=columns[:2],
        label_col="visits",
        weight_col="amount",
        order_col="at",
        loss="poisson",
        rounds=1,
    )
    assert estimator.fit(spark.createDataFrame(table)).native.to_bytes() == expected.to_bytes()


# Several workers: those of rounds over processes.


def test_workers_give_the_bytes_of_rounds_over_processes(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pqrlearn.spark import PQRClassifier, shards

    monkeypatch.setattr(shards, "_MOST", 4_000)  # more shards than workers
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


def test_workers_that_count_with_weights_are_merged_as_processes_are(spark: Any) -> None:
    from pqrlearn.spark import LRRegressor

    how: dict[str, Any] = {"rounds": 1, "passes": 1}
    expected, _ = learn_in_rounds(
        LR("poisson"), weighted(ROWS), workers=3, held=300, processes=0, **how
    )
    estimator = LRRegressor(
        order_col="at", weight_col="amount", loss="poisson", num_workers=3, held_rows=300, **how
    )
    assert estimator.fit(by_number(spark).coalesce(1)).native.to_bytes() == expected.to_bytes()


# Spark leaves a pool of threads to the garbage collector, which complains.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_estimators_work_in_pipelines_and_cross_validation(spark: Any, tmp_path: Path) -> None:
    from pyspark.ml import Pipeline, PipelineModel
    from pyspark.ml.evaluation import BinaryClassificationEvaluator
    from pyspark.ml.feature import VectorAssembler
    from pyspark.ml.tuning import CrossValidator, ParamGridBuilder

    from pqrlearn.spark import LRClassifier

    assembler = VectorAssembler(inputCols=["features", "amount"], outputCol="all")
    estimator = LRClassifier(features_col="all", order_col="at", rounds=1)
    grid = ParamGridBuilder().addGrid(estimator.alpha, [0.001, 0.3]).build()
    evaluator = BinaryClassificationEvaluator()
    search = CrossValidator(
        estimator=Pipeline(stages=[assembler, estimator]),
        estimatorParamMaps=grid,
        evaluator=evaluator,
        numFolds=2,
        seed=1,
    )
    frame = by_number(spark)
    found = search.fit(frame)
    assert found.avgMetrics[1] > found.avgMetrics[0] - 0.05
    model = found.bestModel.stages[1]
    found.bestModel.save(f"file://{tmp_path}/pipeline")
    again = PipelineModel.load(f"file://{tmp_path}/pipeline").stages[1]
    assert again.native.to_bytes() == model.native.to_bytes()
    assert model.native.settings()["optimizer"]["alpha"] in (0.001, 0.3)
    assert evaluator.evaluate(found.transform(frame)) > 0.6
    gc.collect()  # here, not in another test


# Predictions.


def test_a_stream_of_rows_is_predicted(spark: Any, tmp_path: Path) -> None:
    from pqrlearn.spark import ClassifierModel

    pyarrow.parquet.write_table(IN_ORDER.slice(0, 50), tmp_path / "rows.parquet")
    model = ClassifierModel()
    model._set(inputCols=INPUTS)
    model.native = LR()
    model.native.schema = SCHEMA
    model.native.learn_many(IN_ORDER)
    kinds = "site string, user string, age double, click long"
    stream = spark.readStream.schema(kinds).parquet(f"file://{tmp_path}")
    shown = model.transform(stream).writeStream.format("memory").queryName("predicted")
    shown.option("checkpointLocation", f"file://{tmp_path}/checkpoint")
    shown.trigger(availableNow=True).start().awaitTermination()
    found = spark.sql("select probability from predicted").collect()
    expected = model.native.predict_many(IN_ORDER.slice(0, 50).drop_columns(["click"]))
    assert sorted(row["probability"][1] for row in found) == sorted(expected.tolist())


def test_columns_may_have_any_name(spark: Any) -> None:
    from pqrlearn.spark import LRClassifier

    names = {"site": "a.b", "user": "a`b c=", "age": "pqr_found", "click": "pqr_part"}
    frame = spark.createDataFrame(
        TABLE.rename_columns([names.get(n, n) for n in TABLE.column_names])
    )
    inputs = [names[name] for name in INPUTS]
    estimator = LRClassifier(input_cols=inputs, label_col="pqr_part", order_col="at", rounds=1)
    model = estimator.fit(frame)
    assert model.native.rows == len(TABLE)
    predicted = model.transform(frame)
    assert predicted.columns[: len(names)] == [*names.values()]
    assert predicted.select("prediction").count() == len(TABLE)


# Folders.


def test_a_model_is_saved_in_any_file_system_that_spark_knows(spark: Any, tmp_path: Path) -> None:
    from pqrlearn.spark import ClassifierModel, LRClassifier, RegressorModel

    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    configuration.set("fs.viewfs.mounttable.pqr.link./models", f"file://{tmp_path}")
    model = ClassifierModel()
    model.native, model.report = LR(), [Round(0, 10, 0.5, math.inf, None, 100, 0.1)]
    model.native.learn_one({"site": "a"}, 1)
    model.save("viewfs://pqr/models/clicks")
    assert (tmp_path / "clicks" / "metadata").is_dir()
    again = ClassifierModel.load("viewfs://pqr/models/clicks")
    assert (again.native.to_bytes(), again.report) == (model.native.to_bytes(), model.report)
    with pytest.raises(HyperError, match=r"has a model already: .*overwrite\(\)\.save"):
        model.save("viewfs://pqr/models/clicks")
    model.write().overwrite().save("viewfs://pqr/models/clicks")
    with pytest.raises(PqrError, match=r'Spark failed to save nope://x: .*scheme "nope"'):
        model.save("nope://x")
    here = f"file://{tmp_path}/clicks"
    with pytest.raises(NotAModel, match="has a ClassifierModel, not a RegressorModel"):
        RegressorModel.load(here)
    with pytest.raises(NotAModel, match="has a ClassifierModel, not a LRClassifier"):
        LRClassifier.load(here)
    with pytest.raises(NotAModel, match="nowhere: there is no ClassifierModel"):
        ClassifierModel.load(f"file://{tmp_path}/nowhere")
    for damage in (_cut, _flip, shutil.rmtree):
        shutil.copytree(tmp_path / "clicks", tmp_path / "damaged", dirs_exist_ok=True)
        damage(tmp_path / "damaged" / "native")
        with pytest.raises(Corrupt, match=r"damaged is incomplete or damaged: [^\n]*$"):
            ClassifierModel.load(f"file://{tmp_path}/damaged")


def _cut(folder: Path) -> None:
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:100])


def _flip(folder: Path) -> None:
    for path in folder.glob("*.parquet"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)


# Errors: one sentence on the driver.


def test_what_cannot_be_learned_is_an_error_before_any_task_runs(
    spark: Any, tmp_path: Path
) -> None:
    for estimator, rows, message in failing_fits(spark, tmp_path):
        with pytest.raises(HyperError, match=message):
            estimator.fit(rows)
    with pytest.raises(TypeError, match="LRClassifier has no argument 'alhpa': did you mean alpha"):
        lr(alhpa=0.1)


def test_a_bad_row_is_told_in_a_sentence_with_its_number(spark: Any) -> None:
    from pyspark.ml.linalg import Vectors
    from pyspark.sql import functions as sql

    from pqrlearn.spark import PQRClassifier

    frame = spark.createDataFrame(TABLE).repartition(3)
    odd = sql.col("at") == 1_100
    with pytest.raises(RowError, match=r"^row 1100 in the order of learning: label 'click': 2 is"):
        lr().fit(frame.withColumn("click", sql.when(odd, 2).otherwise(sql.col("click"))))
    with pytest.raises(HyperError, match=r"^order_col='age' has one value in several rows"):
        lr(order_col="age").fit(frame)
    missing = sql.when(odd, float("nan")).otherwise(sql.col("at").cast("double"))
    with pytest.raises(HyperError, match=r"^order_col='at' has rows without a value, or NaN"):
        lr().fit(frame.withColumn("at", missing))
    with pytest.raises(HyperError, match="1200 rows are too few for rounds=8, num_workers=2"):
        lr(rounds=8, num_workers=2).fit(frame)
    vectors = PQRClassifier(order_col="at", rounds=1, order=2)
    good = [(row, Vectors.dense([1.0, float(row)]), 1.0) for row in range(9)]
    for bad, why in (
        ((9, None, 1.0), "column 'features': there is no vector"),
        ((9, Vectors.dense([1e38, 1e38]), 1.0), "its values are too large"),
        ((9, Vectors.dense([1.0]), None), "label 'label': it is missing"),
    ):
        rows = spark.createDataFrame([*good, bad], ["at", "features", "label"])
        with pytest.raises(RowError, match=f"^row 9 in the order of learning: {why}"):
            vectors.fit(rows)


def test_executors_without_the_package_are_told_apart(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['pqrlearn'] = None\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}:$PYTHONPATH exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    with pytest.raises(PqrError, match=r"^the executors have no pqrlearn: install it on all nodes"):
        lr().fit(spark.createDataFrame(TABLE))


def test_what_cannot_be_predicted_is_an_error(spark: Any) -> None:
    from pyspark.errors import PythonException
    from pyspark.ml.linalg import Vectors

    from pqrlearn.spark import ClassifierModel

    model = ClassifierModel()
    model.native = LR()
    with pytest.raises(HyperError, match="no column 'features', only site"):
        model.transform(spark.createDataFrame(TABLE))
    rows = spark.createDataFrame([(Vectors.dense([1.0]),), (None,)], ["features"])
    with pytest.raises(PythonException, match="RowError: column 'features': there is no vector"):
        model.transform(rows).collect()
