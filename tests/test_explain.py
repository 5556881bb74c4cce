"""Explanations: terms add up to the margin, have names and counts, and tell what matters."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import contract
from pqrlearn import (
    FM,
    LR,
    PQR,
    Auto,
    Batch,
    Column,
    DiFacto,
    Explanation,
    FtrlGeneral,
    Learner,
    Mixture,
    Ogd,
    Schema,
    Separation,
)
from pqrlearn.errors import HyperError, RowError
from pqrlearn.explain import (
    LOW,
    count_low,
    effect_scale,
    explained,
    importance,
    most_frequent_low,
    typical_scale,
    worth_of_interactions,
)
from strategies import as_dicts, random_batch
from test_contract import convex_learners, fm, lr, pqr, qr

BATCH = random_batch(seed=7)
SMALL = random_batch(seed=7, rows=32, features=8)

LINEAR: dict[str, contract.Make] = {
    "lr": lr(),
    "lr ogd": lr(loss="squared", optimizer=Ogd(eta=0.02, schedule="fixed", radius=0.5)),
    "qr": qr(),
    "qr scaled": qr(interaction_scale=0.3),
    "pqr": pqr(),
    "pqr scaled": pqr(interaction_scale=0.3),
    "pqr general": pqr(loss="squared", optimizer=FtrlGeneral(eta=0.1, radius=0.5)),
    "pqr unbiased": pqr(bias=False),
}


def learned(make: contract.Make) -> Learner:
    model = make()
    model.learn_many(BATCH)
    return model


def defined_sum(found: Explanation) -> float:
    """As the core adds up a row: eight strided sums of floats, a tree of doubles, the bias."""
    bias, *rest = (term.contribution for term in found.terms)
    padded = np.array([*rest, *[0.0] * (-len(rest) % 8)], np.float32).reshape(-1, 8)
    part = np.zeros(8, np.float32)
    for eight in padded:
        part += eight
    p = part.astype(np.float64).tolist()
    even, odd = (p[0] + p[4]) + (p[2] + p[6]), (p[1] + p[5]) + (p[3] + p[7])
    return float(bias + (even + odd))


@pytest.mark.parametrize("make", LINEAR.values(), ids=LINEAR)
def test_the_terms_of_a_linear_model_add_up_to_the_margin_exactly(make: contract.Make) -> None:
    model = learned(make)
    rows: list[Any] = [*as_dicts(BATCH), {}, {0: 1.0, "new": 2.0}, {99: 1.0}]
    for row, margin in zip(rows, model.margin_many(rows).tolist(), strict=True):
        found = model.explain_one(row)
        assert found.margin == margin == defined_sum(found)
        assert found.prediction == model.predict_one(row)
        for term in found.terms:
            product = np.float32(term.weight) * np.float32(term.value)
            assert term.block == "bias" or term.contribution == product


@pytest.mark.parametrize("make", LINEAR.values(), ids=LINEAR)
def test_terms_have_the_weights_of_the_model(make: contract.Make) -> None:
    model = learned(make)
    known: dict[tuple[str, ...], float] = {}
    for block in model.blocks:
        features, weights = model.weights(block)
        for at, weight in enumerate(weights.tolist()):
            names = () if block == "bias" else map(model.name_of, np.atleast_1d(features[at]))
            known[block, *names] = weight
    for row in as_dicts(BATCH):
        for term in model.explain_one(row).terms:
            assert term.weight == known.get((term.block, *term.names), 0.0)


EMBEDDED = {
    "fm": fm(rank=3, init=0.1),
    "difacto": lambda rows=None: DiFacto(tiers=((3, 2), (12, 5)), factor_eta=0.1, init=0.1),
}


@pytest.mark.parametrize("make", EMBEDDED.values(), ids=EMBEDDED)
def test_the_pairs_of_a_model_with_factors_are_products_of_vectors(make: contract.Make) -> None:
    model = learned(make)
    vectors: dict[int, dict[int, float]] = {}
    for (feature, component), value in zip(*model.weights("factor"), strict=True):
        vectors.setdefault(int(feature), {})[int(component)] = float(value)
    linear = dict(zip(*(part.tolist() for part in model.weights("linear")), strict=True))

    def masked(feature: int) -> bool:  # DiFacto ignores the factors of a feature without weight
        return model.kind == "difacto" and linear[feature] == 0

    for row in as_dicts(BATCH):
        found = model.explain_one(row)
        assert sum(term.contribution for term in found.terms) == pytest.approx(
            found.margin, abs=1e-6
        )
        for term in found.terms[1:]:
            features = [int(name) for name in term.names]
            if term.block == "linear":
                expected = linear[features[0]] * row[features[0]]
            else:
                one, other = ({} if masked(f) else vectors.get(f, {}) for f in features)
                product = sum(one[c] * other[c] for c in one.keys() & other.keys())
                expected = product * row[features[0]] * row[features[1]]
            assert term.contribution == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", ["cfm squared", "ccfm squared"])
def test_the_terms_of_convex_factorization_machines_have_their_weights(name: str) -> None:
    model = convex_learners()[name]()
    model.learn_many(SMALL)
    known: dict[tuple[Any, ...], float] = {}
    for block in model.blocks:
        features, weights = model.weights(block)
        for at, weight in enumerate(weights.tolist()):
            key = () if block == "bias" else sorted(np.atleast_1d(features[at]).tolist())
            known[block, *key] = weight
    for row in as_dicts(SMALL):
        found = model.explain_one(row)
        assert sum(t.contribution for t in found.terms) == pytest.approx(found.margin, abs=1e-9)
        for term in found.terms:
            expected = known.get((term.block, *map(int, term.names)), 0.0)
            assert term.weight == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_the_terms_of_auto_are_those_of_its_weights_and_mixing_has_the_rest(loss: str) -> None:
    model = Auto(loss)  # type: ignore[arg-type]
    for _ in range(3):
        model.learn_many(BATCH)
    frozen = model.frozen()
    for row in as_dicts(BATCH):
        found = model.explain_one(row)
        *terms, mixing = found.terms
        assert mixing.block == "mixing"
        assert sum(t.contribution for t in found.terms) == pytest.approx(found.margin, abs=1e-5)
        assert tuple(terms) == frozen.explain_one(row).terms
        assert mixing.contribution == found.margin - frozen.margin_one(row)
    assert {"pair", "shared", "linear"} <= {t.block for t in model.explain_one(row).terms}


def test_a_mixture_says_what_to_explain_instead() -> None:
    with pytest.raises(HyperError, match=r"explain one of model\.learners"):
        Mixture([LR(), LR(alpha=0.2)]).explain_one({"site": "a"})


def test_terms_have_names_and_counts_also_of_features_never_seen() -> None:
    rows = [{"site": "a", "ad": "x"}, {"site": "b", "ad": "x"}, {"site": "a", "ad": "y"}]
    model = PQR(Separation.top_k(rows, order=2))
    model.learn_many(rows, [1, 0, 0])
    before = model.to_bytes()
    found = model.explain_one(MappingProxyType({"site": "a", "ad": "x", "hour": "9"}))
    counts = {(term.block, *term.names): term.count for term in found.terms}
    assert counts == {
        ("bias",): 3,
        ("linear", "ad=x"): 2,
        ("linear", "site=a"): 2,
        ("linear", "hour=9"): None,
        ("shared", "ad=x"): 2,
        ("shared", "site=a"): 2,
        ("pair", "ad=x", "site=a"): None,
    }
    assert model.to_bytes() == before
    with pytest.raises(RowError, match="not a finite"):
        model.explain_one({"age": float("inf")})
    with pytest.raises(TypeError, match="a row must be a dict"):
        model.explain_one(7)  # type: ignore[arg-type]


def test_rows_are_read_by_the_schema_of_the_model() -> None:
    model = LR()
    model.schema = Schema((Column("user", "category"),))
    model.learn_one({"user": 17}, 1)
    found = model.explain_one({"user": 17})
    assert [term.names for term in found.terms] == [(), ("user=17",)]
    assert model.explain_one({"user": 18}).terms[1].names == ("user=18",)
    assert found.margin == model.margin_one({"user": 17})


def test_many_rows_are_explained_as_one() -> None:
    model = learned(pqr())
    alone = [model.explain_one(row) for row in as_dicts(BATCH)]
    assert list(explained(model, [BATCH.part(0, 10), BATCH.part(10, 60)])) == alone
    assert list(explained(model, [BATCH.part(0, 10), BATCH.part(10, 60)], first=12)) == alone[12:]


# What matters.


def test_importance_is_the_mean_absolute_contribution_by_field() -> None:
    rows = [{"site": site, "ad": ad, "price": 0.5} for site in "abc" for ad in "xy"] * 5
    model = PQR(Separation.top_k(rows, order=4))
    model.learn_many(rows, [1, 0, 0, 1, 1, 0] * 5)
    batch = Batch.from_rows(
        [([model.names.find(name) for name in named(row)], [*named(row).values()]) for row in rows]
    )
    found = importance(model, batch)
    assert found.rows == 30
    fields: dict[str, float] = {}
    pairs: dict[tuple[str, ...], float] = {}
    for row in rows:
        for term in model.explain_one(row).terms[1:]:
            key = tuple(sorted(name.split("=")[0] for name in term.names))
            size = abs(term.contribution) / 30
            if term.block == "linear":
                fields[key[0]] = fields.get(key[0], 0.0) + size
            else:
                key = (*key, LOW) if term.block == "shared" else key
                pairs[key] = pairs.get(key, 0.0) + size
    assert found.fields == pytest.approx(fields)
    assert found.pairs == pytest.approx(pairs)
    assert list(found.fields.values()) == sorted(found.fields.values(), reverse=True)


def named(row: dict[str, Any]) -> dict[str, float]:
    return {
        f"{key}={value}" if isinstance(value, str) else key: 1.0
        if isinstance(value, str)
        else value
        for key, value in row.items()
    }


def test_the_effects_of_weights_are_on_one_scale() -> None:
    """In rows that are all alike the typical scale is that of each row."""
    rows = [{"site": site, "ad": "x", "age": "7"} for site in "ab"] * 10
    model = PQR(Separation.top_k(rows, order=4), interaction_scale=0.5)
    model.learn_many(rows, [1, 0] * 10)
    scale = typical_scale(model)
    for term in model.explain_one({"site": "a", "ad": "x", "age": "7", "new": 1.0}).terms:
        of = effect_scale(model, term.block)
        assert term.value == pytest.approx(1.0 if term.block in ("bias", "linear") else scale)
        assert of == pytest.approx(term.value)
    assert typical_scale(learned(qr(interaction_scale=0.5))) is None
    assert typical_scale(learned(pqr())) == typical_scale(LR()) == 1.0
    assert effect_scale(FM(), "factor") is None


def test_auto_says_what_interactions_are_worth() -> None:
    paired, plain, random = Auto(), Auto(), np.random.default_rng(1)
    rows = [{"a": a, "b": b} for a in "01" for b in "01"]
    for _ in range(200):
        paired.learn_many(rows, [0, 1, 1, 0])  # which no linear model learns
        plain.learn_many(rows, random.integers(0, 2, 4))
    losses = paired.summary()["losses"]
    best = min(loss for name, loss in losses.items() if name.startswith("pairs"))
    rest = min(loss for name, loss in losses.items() if not name.startswith("pairs"))
    expected = f"interactions are worth {100 * (1 - best / rest):.1f} % of the loss here"
    assert worth_of_interactions(paired) == expected
    assert 1 - best / rest > 0.5
    assert worth_of_interactions(plain).startswith("interactions do not pay here: ")


def test_low_features_are_listed_by_how_often_they_were_seen() -> None:
    model = Auto()
    model.learn_many([{"site": "a"}] * 64 + [{"ad": "x"}, {"ad": "y"}, {"ad": "y"}], [1] * 67)
    assert most_frequent_low(model, 5) == [("ad=y", 2), ("ad=x", 1)]
    assert most_frequent_low(model, 1) == [("ad=y", 2)]
    assert most_frequent_low(LR(), 5) == []
    assert count_low(model) == 2
