"""pqr predict, evaluate and inspect: what a trained model says."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import log_loss, mean_squared_error, roc_auc_score

import pqrlearn
from command import clicks, failure, figures, ok, run, write_rows
from pqrlearn import LR, PQR, QR, Batch, Separation
from strategies import nonzero_weights

TRAINING, HELD_OUT = clicks(seed=41), clicks(seed=42, rows=150)
MODELS = {
    "clicks": PQR(Separation.top_k(TRAINING, 5)),
    "ratings": PQR(Separation.top_k(TRAINING, 5), "squared"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("predict")
    write_rows(folder / "rows.svm", HELD_OUT)
    for name, model in MODELS.items():
        model.learn_many(TRAINING)
        model.save(folder / name)
    return folder


def numbers(out: str) -> list[float]:
    return [float(line) for line in out.splitlines()]


# Predictions.


@pytest.mark.parametrize("name", MODELS)
def test_there_is_one_prediction_per_row_in_order(folder: Path, name: str) -> None:
    found = numbers(ok("predict", "-m", folder / name, folder / "rows.svm"))
    np.testing.assert_allclose(found, MODELS[name].predict_many(HELD_OUT), rtol=1e-8)


def test_margins_and_labels_may_be_had_instead(folder: Path) -> None:
    arguments = ["predict", "-m", folder / "clicks", folder / "rows.svm", "--as"]
    model = MODELS["clicks"]
    margins, probabilities = model.margin_many(HELD_OUT), model.predict_many(HELD_OUT)
    np.testing.assert_allclose(numbers(ok(*arguments, "margin")), margins, rtol=1e-8)
    np.testing.assert_allclose(numbers(ok(*arguments, "probability")), probabilities, rtol=1e-8)
    labels = ok(*arguments, "label").splitlines()
    assert labels == ["1" if margin > 0 else "0" for margin in margins]


@pytest.mark.parametrize("shown", ["probability", "label"])
def test_ratings_have_no_probabilities(folder: Path, shown: str) -> None:
    arguments = ["-m", folder / "ratings", folder / "rows.svm", "--as", shown]
    said = failure(2, "predict", *arguments)
    assert said == f"--as {shown} needs a model with logistic loss; this one has squared"


def test_old_spellings_work_and_say_so(folder: Path, tmp_path: Path) -> None:
    """For one release."""
    new = ok("predict", "-m", folder / "clicks", folder / "rows.svm", "--as", "margin")
    model = folder / "clicks"
    result = run("predict", "--model", model, folder / "rows.svm", "--output=margin")
    assert (result.code, result.out) == (0, new)
    assert result.err.splitlines() == [
        f"pqr: --model {model} is now --model-file {model}; the next release drops the old form",
        "pqr: --output margin is now --as margin; the next release drops the old form",
    ]
    result = run("predict", "-m", model, folder / "rows.svm", "--to", tmp_path / "out")
    assert result.err.startswith(f"pqr: --to {tmp_path / 'out'} is now --output ")
    assert (tmp_path / "out").read_text() == ok("predict", "-m", model, folder / "rows.svm")
    assert "--model-file" in run("evaluate", "--model", model, folder / "rows.svm").err


def test_rows_may_come_from_several_places(folder: Path, tmp_path: Path) -> None:
    text = (folder / "rows.svm").read_bytes()
    packed = tmp_path / "rows.gz"
    packed.write_bytes(gzip.compress(text))
    once = ok("predict", "-m", folder / "clicks", folder / "rows.svm")
    out = ok("predict", "-m", folder / "clicks", "-", packed, stdin=text)
    assert out == once * 2


def test_predictions_may_go_to_a_file(folder: Path, tmp_path: Path) -> None:
    arguments = ["predict", "-m", folder / "clicks", folder / "rows.svm"]
    assert ok(*arguments, "-o", tmp_path / "out") == ""
    assert (tmp_path / "out").read_text() == ok(*arguments)


def test_predictions_do_not_look_at_labels(folder: Path) -> None:
    out = [
        ok("predict", "-m", folder / "clicks", "-", stdin=label + b" 1:1 3:0.5\n")
        for label in (b"1", b"0.25")
    ]
    assert out[0] == out[1]


def test_many_rows_stay_in_order(folder: Path, tmp_path: Path) -> None:
    """More than one block of the file: rows are parsed ahead on another thread."""
    values = np.random.default_rng(3).integers(1, 1000, 130_000) / 64
    path = tmp_path / "many.svm"
    path.write_text("".join(f"0 1:{value} 99999:0.125 99998:0.25\n" for value in values.tolist()))
    assert path.stat().st_size > 3 << 20
    found = numbers(ok("predict", "-m", folder / "ratings", path))
    features = [1, 99998, 99999]
    rows = Batch.from_rows([(features, [value, 0.25, 0.125]) for value in values.tolist()])
    np.testing.assert_allclose(found, MODELS["ratings"].predict_many(rows), rtol=1e-8)


# Evaluation.


def test_figures_of_clicks_are_those_of_scikit_learn(folder: Path) -> None:
    found = figures("evaluate", "-m", folder / "clicks", folder / "rows.svm")
    predictions = numbers(ok("predict", "-m", folder / "clicks", folder / "rows.svm"))
    labels, weights = HELD_OUT.labels, HELD_OUT.weights
    assert found["rows"] == len(HELD_OUT)
    expected = log_loss(labels, predictions, sample_weight=weights)
    assert found["logloss"] == pytest.approx(expected, rel=1e-7)
    auc = roc_auc_score(labels, predictions, sample_weight=weights)
    assert abs(found["auc"] - auc) <= found["auc_error"] + 1e-12
    assert found["mean_label"] == pytest.approx(np.average(labels, weights=weights))
    assert found["mean_prediction"] == pytest.approx(np.average(predictions, weights=weights))


def test_figures_of_ratings_are_those_of_scikit_learn(folder: Path) -> None:
    found = figures("evaluate", "-m", folder / "ratings", folder / "rows.svm")
    predictions = numbers(ok("predict", "-m", folder / "ratings", folder / "rows.svm"))
    error = mean_squared_error(HELD_OUT.labels, predictions, sample_weight=HELD_OUT.weights)
    assert found["rmse"] == pytest.approx(math.sqrt(error), rel=1e-7)
    assert found["rows"] == len(HELD_OUT)


def test_people_are_told_the_same_in_a_table(folder: Path) -> None:
    found = figures("evaluate", "-m", folder / "clicks", folder / "rows.svm")
    out = ok("evaluate", "-m", folder / "clicks", folder / "rows.svm")
    shown = [line.split() for line in out.splitlines()]
    assert ["rows", "150"] in shown
    assert ["LogLoss", f"{found['logloss']:.5f}"] in shown


def test_evaluation_learns_nothing(folder: Path) -> None:
    before = (folder / "clicks").read_bytes()
    one, other = (figures("evaluate", "-m", folder / "clicks", folder / "rows.svm") for _ in "ab")
    assert one | {"seconds": 0} == other | {"seconds": 0}
    assert (folder / "clicks").read_bytes() == before


def test_a_figure_without_meaning_is_null(folder: Path) -> None:
    found = figures("evaluate", "-m", folder / "clicks", "-", stdin=b"1 1:1\n1 2:1\n")
    assert found["auc"] is None
    assert found["logloss"] > 0


def test_labels_beyond_all_measure_are_no_crash(folder: Path) -> None:
    found = figures("evaluate", "-m", folder / "ratings", "-", stdin=b"1e200 1:1\n")
    assert found["rmse"] is None


# Bad rows.


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_bad_rows_stop_it_or_are_left_out(folder: Path, tmp_path: Path, command: str) -> None:
    path = tmp_path / "rows.svm"
    path.write_text("1 1:1\n0 2:nan\n0 2:1\n")
    result = run(command, "-m", folder / "clicks", path)
    assert result.code == 3
    assert result.err.startswith(f"pqr: {path}:2:5: value 'nan'")
    result = run(command, "-m", folder / "clicks", path, "--on-bad-row", "skip")
    assert result.code == 0
    assert "pqr: 1 bad row" in result.err
    if command == "predict":
        assert len(result.out.splitlines()) == 2
    kept = ["--on-bad-row", "skip", "--bad-rows", tmp_path / "kept"]
    assert run(command, "-m", folder / "clicks", path, *kept).code == 0
    assert (tmp_path / "kept").read_text() == "0 2:nan\n"


def test_a_label_that_is_no_click_cannot_be_evaluated(folder: Path) -> None:
    said = failure(3, "evaluate", "-m", folder / "clicks", "-", stdin=b"1 1:1\n5 1:1\n")
    assert said.startswith("<stdin>:2:1: label '5' is not a click")


# Inspection.


@pytest.mark.parametrize("model", [MODELS["clicks"], LR(), QR("squared")], ids=["pqr", "lr", "qr"])
def test_inspect_tells_settings_sizes_and_strongest_weights(
    tmp_path: Path, model: pqrlearn.learners.Learner
) -> None:
    if not model.rows:
        model.learn_many(TRAINING)
    model.save(tmp_path / "model")
    found = figures("inspect", tmp_path / "model", "--top", 1000)
    assert found["model"] == model.kind
    assert found["settings"] == model.settings()
    assert found["nonzeros"] == model.nonzeros()
    shown = {
        (block, *sorted(map(int, weight["features"]))): weight["weight"]
        for block, weights in found["strongest"].items()
        for weight in weights
    }
    assert shown | {("bias",): found["bias"]} == nonzero_weights(model)
    for weights in found["strongest"].values():
        sizes = [abs(weight["weight"]) for weight in weights]
        assert sizes == sorted(sizes, reverse=True)


def test_inspect_shows_people_the_strongest_weights_only(folder: Path) -> None:
    out = ok("inspect", folder / "clicks", "--top", 2)
    head, *blocks = out.split("\nstrongest ")
    assert "optimizer.alpha" in head
    assert [block.split()[0] for block in blocks] == ["linear", "pair", "shared"]
    assert all(len(block.strip().splitlines()) == 4 for block in blocks)


def test_rows_too_large_for_the_model_stop_it_or_have_no_prediction(tmp_path: Path) -> None:
    rows = tmp_path / "rows.svm"
    rows.write_text("1 1:1\n0 1:1\n" * 50)
    assert run("train", rows, "--model", "qr", "-o", tmp_path / "model").code == 0
    rows.write_text("1 1:1\n0 1:3e38\n0 1:1\n")
    predict = ["predict", "-m", tmp_path / "model", rows]
    assert failure(3, *predict).startswith(f"{rows}:2:1: its values are too large")
    result = run(*predict, "--on-bad-row", "skip")
    assert (result.code, len(result.out.splitlines())) == (0, 2)
    assert result.err == "pqr: 1 bad row has no prediction\n"
    kept = ["--on-bad-row", "skip", "--bad-rows", tmp_path / "kept"]
    assert run(*predict, *kept).code == 0
    assert (tmp_path / "kept").read_text().startswith("0 1:3")


@pytest.mark.parametrize("name", ["clicks", "sep"])
def test_inspect_names_can_be_given_to_train(tmp_path: Path, name: str) -> None:
    rows = [{"site": "news", "hour": "9"}, {"site": "new york", "hour": "9"}]
    separation = Separation.top_k(rows)
    model = PQR(separation)
    model.learn_many(rows, [1, 0])
    (model if name == "clicks" else separation).save(tmp_path / "file")
    out = ok("inspect", tmp_path / "file", "--names")
    assert out.splitlines() == [f"{n} {separation.names.name(n)}" for n in range(3)]
    (tmp_path / "names").write_text(out)
    (tmp_path / "rows.svm").write_text("1 0:1 1:1\n0 2:1\n" * 50)
    given = ["--model", "lr", "--names", tmp_path / "names", "-o", tmp_path / "named.pqr"]
    ok("train", tmp_path / "rows.svm", *given)
    assert pqrlearn.load(tmp_path / "named.pqr").name_of(2) == separation.names.name(2)
    found = figures("inspect", "-m", tmp_path / "file", "--names")
    assert found == {"names": {separation.names.name(n): n for n in range(3)}}
