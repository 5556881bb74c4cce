"""Frozen models: they predict as their model does, do not learn, and are saved as any model."""

from __future__ import annotations

import copy
import pickle
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import contract
import pqrlearn
from command import clicks, failure, figures, ok, write_rows
from pqrlearn import FM, LR, PQR, QR, Auto, Batch, Frozen, Mixture, Separation
from pqrlearn.errors import Corrupt, HyperError
from strategies import as_dicts, nonzero_weights, random_batch
from test_contract import lr, pqr

BATCH = random_batch(seed=7)


def learned(model: Any, times: int = 1) -> Any:
    for _ in range(times):
        model.learn_many(BATCH)
    return model


MODELS = {
    "lr": learned(LR()),
    "pqr": learned(PQR(Separation.top_k(BATCH, 4))),
    "pqr unscaled": learned(PQR(Separation.top_k(BATCH, 4), interaction_scale=None)),
    "pqr squared": learned(PQR(Separation.top_k(BATCH, 4), "squared", bias=False)),
    "pqr poisson": learned(PQR(Separation.top_k(BATCH, 4), "poisson")),
    "auto": learned(Auto(), 3),
    "auto squared": learned(Auto("squared"), 3),
}
EACH = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


@EACH
def test_a_frozen_linear_model_predicts_the_same_bits(model: Any) -> None:
    if model.kind == "auto":
        pytest.skip("its experts are collapsed: an approximation")
    rows: list[Any] = [*as_dicts(BATCH), {}, {0: 1.0, "new": 2.0}, {99: 1.0}]
    np.testing.assert_array_equal(model.frozen().margin_many(rows), model.margin_many(rows))
    np.testing.assert_array_equal(model.frozen().predict_many(BATCH), model.predict_many(BATCH))


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_a_frozen_auto_has_the_weights_of_auto(loss: str) -> None:
    model = learned(Auto(loss), 3)  # type: ignore[arg-type]
    assert model.nonzeros()["pair"] > 10
    assert nonzero_weights(model.frozen()) == nonzero_weights(model)
    rows = as_dicts(BATCH)
    rows += [dict.fromkeys(range(7), 1.0), {0: 2.0, 9: 1.0, 99: 1.0}]
    by_hand = [weighted_sum(model, row) for row in rows]
    np.testing.assert_allclose(model.frozen().margin_many(rows), by_hand, rtol=1e-5, atol=1e-5)


def weighted_sum(model: Auto, row: dict[int, float]) -> float:
    """Of collapsed weights: linear ones, pairs of high features, and high with low ones."""
    high = set(model.high.tolist())
    low = sum(value for feature, value in row.items() if feature not in high)
    total = float(model.weights("bias")[1][0])
    for block in ("linear", "shared", "pair"):
        features, weights = model.weights(block)
        for key, weight in zip(features.reshape(len(weights), -1).tolist(), weights, strict=True):
            if all(feature in row for feature in key):
                values = float(np.prod([row[feature] for feature in key]))
                total += float(weight) * values * (low if block == "shared" else 1.0)
    pairs = set(map(frozenset, model.weights("pair")[0].tolist()))
    shared = dict(zip(*(part.tolist() for part in model.weights("shared")), strict=True))
    risen = [feature for feature in model.high.tolist() if feature in row]
    for earlier, later in combinations(risen, 2):
        if frozenset((earlier, later)) not in pairs:  # not seen yet: as if `later` were low
            total += shared[earlier] * row[earlier] * row[later]
    return total


def test_a_pair_never_seen_counts_by_the_shared_weight_as_in_auto() -> None:
    model = Auto()
    for number in range(300):  # a user is seen once, so it stays low
        row = [{"a": "0", "b": "0"}, {"a": "0", "b": "1"}, {"a": "1", "b": "0"}][number % 3]
        model.learn_one({**row, "user": str(number)}, number % 3 == 0)
    terms = model.explain_one({"a": "1", "b": "1"}).terms
    (pair,) = (term for term in terms if term.block == "pair")
    shared = dict(zip(*model.weights("shared"), strict=True))
    first = min(map(model.names.find, pair.names), key=model.high.tolist().index)
    assert pair.weight == shared[first] != 0


@EACH
def test_a_frozen_model_is_saved_copied_and_pickled(model: Any, tmp_path: Path) -> None:
    frozen = model.frozen(keep=9, data=BATCH)
    frozen.save(tmp_path / "frozen.pqr")
    twins = [pqrlearn.load(tmp_path / "frozen.pqr"), Frozen.from_state(frozen.state())]
    twins += [copy.copy(frozen), pickle.loads(pickle.dumps(frozen))]
    for twin in twins:
        assert type(twin) is Frozen
        assert twin.to_bytes() == frozen.to_bytes()
        assert (twin.of, twin.keep, twin.measured) == (model.kind, 9, frozen.measured)
        np.testing.assert_array_equal(twin.margin_many(BATCH), frozen.margin_many(BATCH))


APPLY = [
    contract.check_predicting_changes_nothing,
    contract.check_save_then_load_is_the_identity,
    contract.check_predictions_are_the_link_of_margins,
    contract.check_nonzeros_count_the_weights,
    contract.check_two_runs_agree,
]


@pytest.mark.parametrize("make", [lr(), pqr(interaction_scale=0.3)], ids=["lr", "pqr"])
@pytest.mark.parametrize("check", APPLY, ids=lambda check: check.__name__[6:])
def test_the_contract_of_predicting_holds(
    make: contract.Make, check: contract.Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract, "learned", lambda make, batch: make())
    check(lambda rows=None: learned(make(rows)).frozen(), BATCH)


@EACH
def test_learning_is_a_clear_error_and_changes_nothing(model: Any) -> None:
    frozen = model.frozen()
    before = frozen.to_bytes()
    attempts: list[Any] = [
        lambda: frozen.learn_one({0: 1.0}, 1),
        lambda: frozen.learn_many(BATCH),
        lambda: frozen.learn_many([{0: 1.0}], [1]),
        lambda: frozen.learn_many(BATCH, BATCH.labels),
        lambda: pqrlearn.learn(frozen, [BATCH]),
    ]
    for attempt in attempts:
        with pytest.raises(HyperError, match="a frozen model does not learn"):
            attempt()
    assert frozen.to_bytes() == before


@EACH
def test_keep_takes_the_weights_that_matter_most(model: Any) -> None:
    total = sum(model.nonzeros().values()) - 1 if "bias" in model.nonzeros() else 0
    for keep in (0, 1, 7, total, 10**6):
        kept = model.frozen(keep=keep).nonzeros()
        kept.pop("bias")
        assert sum(kept.values()) == min(keep, sum(model.frozen().nonzeros().values()) - 1) or (
            model.kind != "auto" and sum(kept.values()) <= keep
        )
    losses = [model.frozen(keep, data=BATCH).measured["difference"] for keep in (0, 5, None)]
    assert losses[0] > losses[1] > losses[2]


def test_keep_prefers_a_weight_that_counts_in_many_rows() -> None:
    rows = [{"common": 1.0}] * 60 + [{"rare": 1.0}] * 2
    model = Auto()
    model.learn_many(rows, [1] * 60 + [1, 1])
    features, weights = model.frozen(keep=1).weights("linear")
    assert [model.name_of(feature) for feature in features] == ["common"]
    assert len(weights) == 1


def test_a_pruned_model_forgets_names_it_has_no_use_for() -> None:
    rows = [{"user": str(number), "site": "a"} for number in range(64)]
    model = Auto()
    model.learn_many(rows, [number % 2 for number in range(64)])
    frozen = model.frozen(keep=1)
    assert len(frozen.names) < len(model.names)
    for row in (*rows, {"user": "nobody"}):
        assert frozen.margin_one(row) == model.frozen(keep=1).margin_one(row)
    numbers = [model.names.find(f"user={number}") for number in range(64)]
    batch = Batch.from_rows(
        [([number, model.names.find("site=a")], [1.0, 1.0]) for number in numbers]
    )
    np.testing.assert_array_equal(frozen.margin_many(rows), frozen.margin_many(batch))


def test_the_measured_difference_is_that_of_the_losses() -> None:
    model = MODELS["auto"]
    frozen = model.frozen(keep=10, data=[BATCH.part(0, 20), BATCH.part(20, 60)])
    before, after = (pqrlearn.evaluate(one, [BATCH]).loss for one in (model, frozen))
    assert frozen.measured == {
        "rows": 60,
        "figure": "logloss",
        "loss": pytest.approx(before),
        "frozen": pytest.approx(after),
        "difference": pytest.approx(after - before),
    }
    with pytest.raises(HyperError, match="no row with a label"):
        model.frozen(data=[BATCH.part(0, 0)])


def test_a_frozen_model_can_be_frozen_and_pruned_again() -> None:
    frozen = MODELS["pqr"].frozen()
    assert frozen.frozen().to_bytes() == frozen.to_bytes()
    assert sum(frozen.frozen(keep=3).nonzeros().values()) <= 4


def test_models_that_are_no_table_of_weights_cannot_be_frozen() -> None:
    for model in (QR(), FM(), Mixture([LR()])):
        with pytest.raises(HyperError, match=f"a {model.kind} model cannot be frozen"):
            model.frozen()
    with pytest.raises(HyperError, match="keep=-1"):
        LR().frozen(keep=-1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bias", np.array([np.nan])),
        ("bias", np.zeros(2)),
        ("linear.weights", np.zeros(1, np.float32)),
        ("linear.weights", np.full(7, np.inf, np.float32)),
        ("pair.keys", np.array([[0, 9]], np.uint32)),
        ("pair.keys", np.zeros((3, 1), np.uint32)),
        ("support.counts", np.zeros(1, np.uint64)),
        ("high", np.zeros(2, np.uint32)),
    ],
)
def test_parts_that_do_not_fit_are_refused(name: str, value: Any) -> None:
    from pqrlearn import modelfile

    state = MODELS["pqr"].frozen().state()
    data = modelfile.to_bytes("frozen", state.settings, state.arrays | {name: value})
    with pytest.raises(Corrupt, match="a damaged frozen model"):
        pqrlearn.from_bytes(data)


# By the command.


def test_the_command_freezes_measures_and_predicts(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.svm", clicks(seed=3))
    model, frozen = tmp_path / "model.pqr", tmp_path / "frozen.pqr"
    ok("train", rows, "-o", model, "-q")
    found = figures("export", "-m", model, "-o", frozen, "--keep", 20, "--data", rows)
    assert found["weights"] <= 21
    assert found["measured"] == pqrlearn.load(frozen).settings()["measured"]
    assert found["measured"]["frozen"] == pytest.approx(
        figures("evaluate", "-m", frozen, rows)["logloss"]
    )
    shown = ok("export", "-m", model, "-o", frozen, "--data", rows)
    assert "logloss frozen" in shown
    assert f"{found['measured']['loss']:.5f}" in shown
    assert len(ok("predict", "-m", frozen, rows).splitlines()) == 400
    message = failure(2, "train", rows, "--resume", frozen, "-o", tmp_path / "more.pqr")
    assert message == (
        f"--resume {frozen}: a frozen model does not learn; resume the model it was made of"
    )


def test_a_frozen_auto_takes_as_many_high_features_of_a_row_as_auto_does() -> None:
    """Of a row with more than 512, those that rose later count as low."""
    rng = np.random.default_rng(3)
    rows = [(np.sort(rng.choice(600, 560, replace=False)), np.ones(560)) for _ in range(200)]
    batch = Batch.from_rows(rows, rng.integers(0, 2, 200).astype(float))
    model = Auto()
    model.learn_many(batch)
    assert len(model.high) == 600
    frozen = model.frozen()
    weights = {block: dict(zip_weights(frozen, block)) for block in frozen.blocks}
    high, last = [int(feature) for feature in frozen._high()], set(batch.indices[-560:].tolist())
    first = [feature for feature in high if feature in last]
    margin = weights["bias"][()] + sum(weights["linear"].get((f,), 0.0) for f in last)
    for at, feature in enumerate(first[:512]):
        shared = weights["shared"].get((feature,), 0.0)
        margin += shared * len(first[512:])
        for other in first[at + 1 : 512]:
            pair = weights["pair"]
            margin += pair.get((feature, other), pair.get((other, feature), shared))
    assert frozen.margin_many(batch)[-1] == pytest.approx(margin, abs=1e-4)
    assert (
        Frozen.from_bytes(frozen.to_bytes()).margin_many(batch)[-1] == frozen.margin_many(batch)[-1]
    )


def zip_weights(model: Frozen, block: str) -> list[tuple[tuple[int, ...], float]]:
    features, weights = model.weights(block)
    keys = features.reshape(len(weights), -1).tolist()
    return [(tuple(key), float(weight)) for key, weight in zip(keys, weights, strict=True)]
