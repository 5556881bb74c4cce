"""CFM and CCFM: against a dense convex solver, with rows that wait, and on the command line."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import pqrlearn
from command import clicks, failure, figures, ok, write_rows
from pqrlearn import CCFM, CFM, Batch, Ftrl, NuclearBall
from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.errors import Corrupt, HyperError, RefusedRow, RowError
from pqrlearn.learners.base import Learner
from strategies import cut, nonzero_weights, random_batch

Matrix = npt.NDArray[np.float64]
FEATURES = 6
KINDS: list[Any] = [CFM, CCFM]


def batch_of(x: Matrix, labels: Matrix) -> Batch:
    pairs = [(np.flatnonzero(row).tolist(), row[row != 0].tolist()) for row in x]
    return Batch.from_rows(pairs, labels=labels)


def problem(loss: str, rows: int = 120) -> tuple[Matrix, Matrix]:
    """Rows and labels with a bias, linear effects and interactions, and noise."""
    rng = np.random.default_rng(5)
    x = rng.integers(-8, 9, size=(rows, FEATURES)) / 8 * (rng.random((rows, FEATURES)) < 0.7)
    pairs = rng.normal(size=(FEATURES, FEATURES))
    score = 0.5 + x @ rng.normal(size=FEATURES) + ((x @ pairs) * x).sum(axis=1)
    if loss == "squared":
        return x, score + rng.normal(size=rows) / 4
    if loss == "poisson":
        return x, rng.poisson(np.exp(score / 4)).astype(float)
    return x, (rng.random(rows) < 1 / (1 + np.exp(-2 * score))).astype(float)


# The optimum, by a dense solver that shares no code with the models.


def mean_loss(loss: str, margins: Matrix, labels: Matrix) -> float:
    if loss == "squared":
        return float(((margins - labels) ** 2).mean() / 2)
    if loss == "poisson":
        return float((np.exp(margins) - labels * margins).mean())
    return float(np.logaddexp(0, np.where(labels > 0, -margins, margins)).mean())


def in_the_ball(matrix: Matrix, radius: float) -> Matrix:
    """The nearest matrix whose eigenvalues' magnitudes add up to `radius` at most."""
    values, vectors = np.linalg.eigh(matrix)
    size = np.abs(values)
    if size.sum() > radius:
        ordered = np.sort(size)[::-1]
        above = (ordered.cumsum() - radius) / np.arange(1, len(size) + 1)
        values = np.sign(values) * np.maximum(size - above[ordered > above][-1], 0)
    return np.asarray((vectors * values) @ vectors.T)


def optimum(loss: str, x: Matrix, labels: Matrix, radius: float, *, augmented: bool) -> float:
    """Accelerated projected gradient over b, w (CFM) and the matrix."""
    rows, ones = len(x), np.ones((len(x), 1))
    seen = np.hstack([ones, x]) if augmented else x
    outer = np.einsum("ri,rj->rij", seen, seen) / 2
    if not augmented:
        outer[:, np.arange(FEATURES), np.arange(FEATURES)] = 0.0
    linear = np.hstack([ones, x]) * (not augmented)
    joint = np.hstack([linear, outer.reshape(rows, -1)])
    rate = rows / np.linalg.norm(joint, 2) ** 2
    split, size = linear.shape[1], seen.shape[1]

    def project(point: Matrix) -> Matrix:
        matrix = in_the_ball(point[split:].reshape(size, size), radius)
        return np.concatenate([point[:split], matrix.ravel()])

    now = ahead = np.zeros(joint.shape[1])
    for step in range(1, 4001):
        margins = joint @ ahead
        link = {
            "squared": margins,
            "logistic": 1 / (1 + np.exp(-margins)),
            "poisson": np.exp(margins),
        }
        slopes = link[loss] - labels
        after = project(ahead - rate * (joint.T @ slopes) / rows)
        ahead = after + (step - 1) / (step + 2) * (after - now)
        now = after
    return mean_loss(loss, joint @ now, labels)


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
@pytest.mark.parametrize("kind", KINDS)
def test_many_passes_approach_the_optimum_of_a_dense_solver(kind: Any, loss: str) -> None:
    """Within 0.5 % of what there is to gain over predicting 0; the ball is small enough to bind."""
    x, labels = problem(loss)
    ball = NuclearBall(radius=4.0, eta=2.0, block_rows=8)
    best = optimum(loss, x, labels, ball.radius, augmented=kind is CCFM)
    model = CFM(loss, Ftrl(alpha=0.5), ball) if kind is CFM else CCFM(loss, ball)
    batch = batch_of(x, labels)
    for _ in range(50):
        model.learn_many(batch)
    norm = np.abs(model._spectrum.weights).sum()
    assert 0.9 * ball.radius < norm <= ball.radius * (1 + 1e-9)
    gain = mean_loss(loss, np.zeros(len(labels)), labels) - best
    assert mean_loss(loss, model.margin_many(batch), labels) - best < 0.005 * gain


def test_without_interactions_cfm_is_lr() -> None:
    """In a ball with no room for interactions, what is left is the linear part."""
    batch = random_batch(seed=3, rows=200)
    rates = Ftrl(alpha=0.2, beta=0.5, l1=0.05, l2=0.3)
    lr, cfm = pqrlearn.LR("logistic", rates), CFM("logistic", rates, NuclearBall(radius=1e-12))
    for model in (lr, cfm):
        model.learn_many(batch)
    np.testing.assert_allclose(cfm.margin_many(batch), lr.margin_many(batch), rtol=1e-4, atol=1e-5)


def test_interactions_that_a_linear_model_cannot_see_are_learned() -> None:
    rows = [{0: 1.0, 2: 1.0}, {0: 1.0, 3: 1.0}, {1: 1.0, 2: 1.0}, {1: 1.0, 3: 1.0}]
    models: list[Learner] = [CFM(), CCFM()]
    for model in models:
        for _ in range(300):
            model.learn_many(rows, [1, 0, 0, 1])
        assert (model.predict_many(rows) > 0.5).tolist() == [True, False, False, True]


def test_one_pass_with_the_defaults_is_better_than_lr() -> None:
    stream = ClickStream(10, 300, click_rate=0.2, interactions=60, pair_scale=1.5, pair_share=0.02)
    train, test = stream.batch(0, 20_000), stream.batch(20_000, 5000)
    losses = {}
    for model in (pqrlearn.LR(), CFM(), CCFM()):
        model.learn_many(train)
        losses[model.kind] = mean_loss("logistic", model.margin_many(test), test.labels)
    assert losses["cfm"] < 0.95 * losses["lr"]
    assert losses["ccfm"] < 0.95 * losses["lr"]


# What the weights say.


@pytest.mark.parametrize("kind", KINDS)
def test_the_weights_of_all_blocks_give_the_margin(kind: Any) -> None:
    batch = random_batch(seed=8)
    model = kind("squared", ball=NuclearBall(block_rows=1))
    model.learn_many(batch)
    weights = nonzero_weights(model)
    for row, margin in zip(range(len(batch)), model.margin_many(batch), strict=True):
        part = batch.part(row, row + 1)
        x = dict(zip(part.indices.tolist(), part.values.tolist(), strict=True))
        total = weights.get(("bias",), 0.0)
        for i in x:
            total += weights.get(("linear", i), 0.0) * x[i]
            total += weights.get(("square", i), 0.0) * x[i] ** 2
        for i, j in itertools.combinations(sorted(x), 2):
            total += weights.get(("pair", i, j), 0.0) * x[i] * x[j]
        assert margin == pytest.approx(total, rel=1e-9, abs=1e-12)


def test_a_block_that_does_not_exist_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="cfm has no block 'square'"):
        CFM().weights("square")


# Blocks of rows.


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_steps_wait_for_a_quarter_of_the_rows_before(kind: Any) -> None:
    model = kind("squared", ball=NuclearBall(block_rows=5))
    steps = [0]
    for _ in range(17):
        model.learn_one({0: 1.0, 1: 1.0}, 1.0)
        steps.append(model.settings()["steps"])
    stepped = [row for row in range(1, 18) if steps[row] > steps[row - 1]]
    assert stepped == [*range(1, 9), 10, 12, 15]


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_stopped_between_two_steps_goes_on_exactly(kind: Any) -> None:
    batch = random_batch(seed=11)
    whole = kind("squared", ball=NuclearBall(block_rows=20))
    whole.learn_many(batch)
    for stop in (30, 40):
        model = kind("squared", ball=NuclearBall(block_rows=20))
        model.learn_many(cut(batch, 0, stop))
        waiting = pqrlearn.from_bytes(model.to_bytes())
        assert len(waiting._waiting_slopes) > 0  # type: ignore[attr-defined]
        waiting.learn_many(cut(batch, stop, len(batch)))
        assert waiting.to_bytes() == whole.to_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_the_largest_indices_cost_nothing(kind: Any) -> None:
    model = kind("squared", ball=NuclearBall(block_rows=1))
    for _ in range(20):
        model.learn_one({4_000_000_000: 1.0, 2**32 - 1: 1.0, 0: 1.0}, 1.0)
    assert model.predict_one({4_000_000_000: 1.0, 2**32 - 1: 1.0, 0: 1.0}) == pytest.approx(1, 0.1)
    assert len(model.to_bytes()) < 10_000


@pytest.mark.parametrize("kind", KINDS)
def test_merging_terms_does_not_break_resuming(kind: Any) -> None:
    batch = random_batch(seed=2, rows=150)
    model = kind("squared", ball=NuclearBall(block_rows=1))
    model.learn_many(cut(batch, 0, 75))
    twin = pqrlearn.from_bytes(model.to_bytes())
    for half in (model, twin):
        half.learn_many(cut(batch, 75, 150))
    assert twin.to_bytes() == model.to_bytes()
    assert model.settings()["steps"] == 150 > model.settings()["terms"]


# Errors.


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: NuclearBall(radius=0), "radius=0 must be a number > 0"),
        (lambda: NuclearBall(radius=1e31), "radius=1e[+]31 must be from 1e-12 to 1e12"),
        (lambda: NuclearBall(eta=-1), "eta=-1 must be a number > 0"),
        (lambda: NuclearBall(block_rows=0), "block_rows=0 must be a whole number >= 1"),
        (lambda: NuclearBall(block_rows=1.5), "block_rows=1.5 must be a whole number"),  # type: ignore[arg-type]
        (lambda: CFM("hinge"), "loss='hinge' must be one of"),
        (lambda: CFM(optimizer=pqrlearn.Ogd()), "must be a Ftrl"),  # type: ignore[arg-type]
        (lambda: CCFM(ball=3), "ball=3 must be a NuclearBall"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_setting_is_named(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(HyperError, match=said):
        make()


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_whose_gradient_would_overflow_is_refused(kind: Any) -> None:
    model = kind("squared", ball=NuclearBall(block_rows=1))
    model.learn_one({0: 1.0, 1: 1.0}, 1.0)
    before = model.to_bytes()
    with pytest.raises(RowError, match="too large"):
        model.learn_one({0: 3e38, 1: 3e38}, 1.0)
    assert model.to_bytes() == before
    rows = Batch.from_rows(
        [([0, 1], [1.0, 1.0]), ([0, 1], [3e38, 3e38]), ([0], [1.0])], labels=[1.0, 0.0, 1.0]
    )
    with pytest.raises(RefusedRow) as caught:
        model.learn_many(rows)
    assert (caught.value.row, len(caught.value.margins)) == (1, 1)
    assert model.rows == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_model_is_corrupt(kind: Any) -> None:
    model = kind("squared", ball=NuclearBall(block_rows=8))
    model.learn_many(random_batch(seed=4))
    settings, good = model.settings(), model._tensors()
    for name, tensor in good.items():
        wrong = [tensor[:-1], tensor.astype(np.float16)]
        if tensor.dtype.kind == "f" and tensor.size:
            wrong.append(np.full_like(tensor, np.nan))
        if tensor.dtype == np.uint32:
            wrong.append(np.full_like(tensor, 77))
        for bad in wrong:
            with pytest.raises(Corrupt):
                kind._from_parts("model", kind.kind, dict(settings), good | {name: bad})
    for name in ("loss", "ball", "rows", "next_feature", "steps", "terms"):
        with pytest.raises(Corrupt):
            kind._from_parts("model", kind.kind, settings | {name: -1}, good)


# The command.


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("convex")
    write_rows(folder / "a.svm", clicks(seed=61))
    write_rows(folder / "b.svm", clicks(seed=62))
    return folder


@pytest.mark.parametrize(
    ("kind", "flags"),
    [
        ("cfm", ["--alpha", 0.2, "--l2", 0.5, "--radius", 5, "--eta", 0.2, "--block-rows", 50]),
        ("ccfm", ["--radius", 5, "--eta", 0.2, "--block-rows", 50]),
    ],
)
def test_the_command_trains_resumes_and_inspects(
    folder: Path, kind: str, flags: list[object]
) -> None:
    a, b, half, whole, again = (
        folder / name for name in ("a.svm", "b.svm", "half.pqr", "whole.pqr", "again.pqr")
    )
    chosen = ["--model", kind, *flags]
    found = figures("train", a, b, "-o", whole, *chosen)
    assert found["settings"]["ball"] == {"radius": 5, "eta": 0.2, "block_rows": 50}
    ok("train", a, "-o", half, *chosen, "--quiet")
    ok("train", b, "-o", again, "--resume", half, *chosen, "--quiet")
    assert again.read_bytes() == whole.read_bytes()
    shown = figures("inspect", whole)
    assert shown["model"] == kind
    assert shown["strongest"]["pair"]
    assert len(ok("predict", "-m", whole, b).splitlines()) == 400
    for flag, value in (("--radius", 6), ("--block-rows", 7), ("--model", "lr")):
        said = failure(2, "train", b, "-o", again, "--resume", half, flag, value)
        assert "contradicts --resume" in said


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--model cfm --order 3", "--order needs --model pqr, not cfm"),
        ("--model cfm --interaction-scale 1", "--interaction-scale needs --model pqr or qr"),
        ("--model cfm --schedule fixed", "--schedule needs --model pqr, lr, qr or fm, not cfm"),
        ("--model cfm --optimizer ogd", "--optimizer ogd is not for cfm: use ftrl"),
        ("--model ccfm --alpha 0.1", "--alpha needs --model pqr, lr, qr, difacto or cfm, not ccfm"),
        ("--model ccfm --no-bias", "--bias needs --model pqr, lr, qr, fm, difacto or cfm, not"),
        ("--model ccfm --radius 0", "radius=0.0 must be a number > 0"),
        ("--model lr --block-rows 3", "--block-rows needs --model cfm or ccfm"),
        ("--block-rows 0 --model cfm", "Invalid value for '--block-rows'"),
    ],
)
def test_options_of_other_models_are_refused(folder: Path, flags: str, said: str) -> None:
    output = folder / "refused.pqr"
    assert said in failure(2, "train", folder / "a.svm", "-o", output, *flags.split())
    assert not output.exists()
