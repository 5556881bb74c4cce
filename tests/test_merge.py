"""Models that learned different rows become one: by the rule, by name, with checks."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pqrlearn
from command import ok, run
from pqrlearn import FM, LR, PQR, QR, Auto, Batch, Ogd, Separation, merge
from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.errors import DataError, HyperError
from pqrlearn.learners import Learner
from pqrlearn.merging import CHOICES, learn_in_rounds, merged
from pqrlearn.merging.models import loss_on
from pqrlearn.merging.rule import Rates
from pqrlearn.rows import NewNames

STREAM = ClickStream(fields=6, features=400, click_rate=0.3, interactions=20, pair_scale=1.5)
TRAIN = Batch.joined(STREAM.batches(16_000))
HELD = Batch.joined(STREAM.batches(3_000, start=16_000))
TEST = Batch.joined(STREAM.batches(10_000, start=20_000))
SEPARATION = Separation.top_k(TRAIN)
MAKERS: dict[str, Callable[[], Learner]] = {
    "lr": lambda: LR(),
    "pqr": lambda: PQR(SEPARATION),
    "qr": lambda: QR(),
    "l1": lambda: PQR(SEPARATION, l1=0.3),
    "l2": lambda: PQR(SEPARATION, l2=2.0),
    "no bias": lambda: LR(bias=False),
}


def taught(make: Callable[[], Learner], start: int, stop: int) -> Learner:
    model = make()
    model.learn_margins(TRAIN.part(start, stop))
    return model


def shares(make: Callable[[], Learner], workers: int, start: int = 0) -> list[Learner]:
    cuts = np.linspace(start, len(TRAIN), workers + 1).astype(int).tolist()
    return [taught(make, a, b) for a, b in pairwise(cuts)]


def copy_of(model: Learner) -> Learner:
    return pqrlearn.from_bytes(model.to_bytes())


# The rule.


def contracted(
    w0: float, n0: float, ends: Sequence[tuple[float, float]], rates: Rates, m: float
) -> float:
    """The weight by the formula as it is printed in docs/merging.md, one coordinate at a time."""

    def f(a: float, b: float) -> float:
        root_a, root_b, beta = math.sqrt(a), math.sqrt(b), rates.beta
        way = root_b - root_a
        if beta:
            way -= beta * math.log((beta + root_b) / (beta + root_a))
        return 1.0 if m == math.inf else 1 - math.exp(-2 * rates.alpha * m * way)

    total = sum(n - n0 for _, n in ends)
    mean = sum((n - n0) / total * (w - w0) / f(n0, n) for w, n in ends)
    return w0 + f(n0, n0 + total) * mean


weights = st.floats(-2, 2).map(lambda w: round(w, 3))
growths = st.floats(0.01, 100)


@given(
    w0=weights,
    n0=st.sampled_from([0.0, 0.5, 30.0]),
    ends=st.lists(st.tuples(weights, growths), min_size=2, max_size=5),
    m=st.sampled_from([*CHOICES, 7.3]),
    beta=st.sampled_from([0.0, 1.0]),
    l2=st.sampled_from([0.0, 3.0]),
)
def test_a_merged_weight_is_that_of_the_formula(
    w0: float, n0: float, ends: list[tuple[float, float]], m: float, beta: float, l2: float
) -> None:
    maker = LR(alpha=0.5, beta=beta, l2=l2)
    w0 = w0 if n0 else 0.0

    def model(weight: float, n: float, rows: int) -> LR:
        state = maker.state()
        arrays = state.arrays | {"bias": maker.bias_slot_of(weight, n)}
        settings = state.settings | {"rows": rows}
        return LR.from_state(replace(state, arrays=arrays, settings=settings))

    base = model(w0, n0, 1)
    found = _with_m([model(w, n0 + d, 9) for w, d in ends], base, m)
    rates = Rates(0.5, beta + 0.5 * l2)
    expected = contracted(w0, n0, [(w, n0 + d) for w, d in ends], rates, m)
    assert found.weights("bias")[1][0] == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert found.state().arrays["bias"][1] ** 2 == pytest.approx(n0 + sum(d for _, d in ends))


def _with_m(models: Sequence[Learner], base: Learner | None, m: float) -> Learner:
    """A merge with a given m, whatever rows would choose."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pqrlearn.merging.models.CHOICES", (m,))
        patch.setattr("pqrlearn.merging.models.loss_on", lambda *_: 0.0)
        return merged(models, base, rows=HELD).learner


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_merge_is_close_to_the_sequential_run(make: Callable[[], Learner]) -> None:
    """And far from what one worker knows, or from nothing."""
    sequential = loss_on(taught(make, 0, len(TRAIN)), [TEST])
    workers = shares(make, 8)
    alone = min(loss_on(worker, [TEST]) for worker in workers)
    found = loss_on(merge(workers, rows=HELD), [TEST])
    assert found < sequential * 1.03
    # Without a bias every feature carries it, and those of a row err together.
    gap = 0.8 if isinstance(workers[0], LR) and not workers[0].bias else 0.5
    assert found - sequential < (alone - sequential) * gap


def test_rounds_bring_a_merge_closer_to_the_sequential_run() -> None:
    make = MAKERS["pqr"]
    sequential = loss_on(taught(make, 0, len(TRAIN)), [TEST])
    model = make()
    for start in range(0, len(TRAIN), 2_000):
        workers = [copy_of(model) for _ in range(8)]
        for number, worker in enumerate(workers):
            first = start + 250 * number
            worker.learn_margins(TRAIN.part(first, first + 250))
        model = merged(workers, model, rows=HELD).learner
    assert loss_on(model, [TEST]) < sequential * 1.01
    assert model.rows <= len(TRAIN)


def test_without_rows_the_size_of_a_row_decides() -> None:
    """For clicks, the mean of ‖x̃‖² over rows by their squared slopes."""
    found = merged(shares(MAKERS["lr"], 4))
    assert found.m == pytest.approx(7.0, rel=1e-4)  # six features and the bias, all of value 1
    assert loss_on(found.learner, [TEST]) < loss_on(shares(MAKERS["lr"], 4)[0], [TEST])
    assert merged(shares(MAKERS["no bias"], 2)).m == math.inf


def test_labels_in_other_units_are_merged_alike() -> None:
    """Ratings times 8, with rates times 8: the same model, in these units."""
    found = []
    for unit in (1.0, 8.0):
        models: list[Learner] = []
        for start in (0, 1_000):
            model = LR("squared", alpha=0.25 * unit, beta=unit)
            part = TRAIN.part(start, start + 1_000)
            labels = (part.labels + part.indices[part.indptr[:-1]] % 3) * unit
            model.learn_margins(Batch(part.indptr, part.indices, part.values, labels, part.weights))
            models.append(model)
        found.append(merge(models).margin_many(HELD) / unit)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_model_alone_passes_through_with_its_bytes(make: Callable[[], Learner]) -> None:
    base = taught(make, 0, 500)
    model = copy_of(base)
    model.learn_margins(TRAIN.part(500, 900))
    assert merge([model], base).to_bytes() == model.to_bytes()
    assert merge([model]).to_bytes() == model.to_bytes()


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_merge_repeats_bit_for_bit_and_goes_on_learning(make: Callable[[], Learner]) -> None:
    one, other = (merge(shares(make, 3), rows=HELD) for _ in range(2))
    assert one.to_bytes() == other.to_bytes()
    one.learn_margins(HELD)
    assert one.rows == len(TRAIN) + len(HELD)
    assert copy_of(one).to_bytes() == one.to_bytes()


def test_a_worker_that_learned_nothing_changes_nothing() -> None:
    base = taught(MAKERS["pqr"], 0, 1_000)
    model = copy_of(base)
    model.learn_margins(TRAIN.part(1_000, 2_000))
    assert merge([copy_of(base), model, copy_of(base)], base).to_bytes() == model.to_bytes()


def test_a_coordinate_that_one_worker_alone_has_moved_keeps_its_bits() -> None:
    here, there = LR(), LR()
    here.learn_many([{"site": "news"}] * 9, [1] * 9)
    there.learn_many([{"site": "shop"}] * 9, [0] * 9)
    both = merge([here, there])
    features, found = both.weights("linear")
    by_name = {both.name_of(f): w for f, w in zip(features.tolist(), found.tolist(), strict=True)}
    assert by_name["site=news"] == here.weights("linear")[1][0]
    assert by_name["site=shop"] == there.weights("linear")[1][0]


def test_evidence_below_l1_adds_up() -> None:
    """Each worker alone has seen too little of a feature to give it a weight."""
    models = []
    for start in range(4):
        model = LR(l1=2.0, bias=False)
        model.learn_many([{"site": "news"}] * 3, [1] * 3)
        assert model.nonzeros()["linear"] == 0, start
        models.append(model)
    assert merge(models).nonzeros()["linear"] == 1


# Choosing by rows.


def test_the_merge_that_is_chosen_is_the_best_that_was_tried() -> None:
    found = merged(shares(MAKERS["pqr"], 4), rows=HELD)
    assert [each.m for each in found.tried] == [*CHOICES, None, None, None, None]
    assert found.alone is None
    best = min(found.tried, key=lambda each: each.loss)
    every_other = [HELD.take(np.arange(at, len(HELD), 2)) for at in (0, 1)]
    assert best.m == found.m
    assert best.halves == tuple(loss_on(found.learner, [rows]) for rows in every_other)


def test_a_merge_worse_than_one_of_the_models_is_not_accepted() -> None:
    """One worker has learned labels that were turned over."""
    good = taught(MAKERS["lr"], 0, 8_000)
    part = TRAIN.part(8_000, 16_000)
    bad = LR()
    bad.learn_margins(Batch(part.indptr, part.indices, part.values, 1 - part.labels, part.weights))
    with pytest.warns(UserWarning, match="as well as model 2 alone"):
        found = merge([bad, good], rows=HELD)
    assert found.to_bytes() == good.to_bytes()


def test_rows_may_be_batches_a_frame_or_files(tmp_path: Path) -> None:
    import pyarrow as pa

    def table(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        site, user = rng.integers(0, 9, 600), rng.integers(0, 50, 600)
        clicks = (rng.random(600) < 0.1 + 0.08 * site).astype(int)
        return pa.table({"site": [f"s{n}" for n in site], "user": user.astype(str), "y": clicks})

    from pyarrow import csv

    from pqrlearn.guess import Choices, guess

    schema = guess(table(0), Choices(label="y"))
    models = []
    for seed in (1, 2, 3):
        model = LR()
        model.schema = schema
        model.learn_many(table(seed))
        models.append(model)
    csv.write_csv(table(9), tmp_path / "held.csv")
    by_frame = merge(models, rows=table(9))
    by_file = merge(models, rows=pqrlearn.read(tmp_path / "held.csv", schema=schema))
    assert by_frame.to_bytes() == by_file.to_bytes()
    assert by_frame.schema == schema


def test_no_rows_to_choose_by_is_an_error() -> None:
    with pytest.raises(DataError, match="there are too few rows to choose the merge by"):
        merge(shares(MAKERS["lr"], 2), rows=HELD.part(0, 0))


# Names.


def test_features_are_matched_by_name_not_by_number() -> None:
    base = LR()
    base.learn_one({"hour": "9"}, 1)
    here, there = copy_of(base), copy_of(base)
    here.learn_many([{"site": "news"}, {"site": "shop"}] * 20, [1, 0] * 20)
    there.learn_many([{"site": "shop"}, {"ad": "x"}, {"site": "news"}] * 20, [0, 1, 1] * 20)
    assert here.names.find("site=shop") != there.names.find("site=shop")
    both = merge([here, there], base)
    assert [both.name_of(n) for n in range(4)] == ["hour=9", "site=news", "site=shop", "ad=x"]
    assert both.next_feature == 4
    for name in ("site=news", "site=shop", "ad=x"):
        site, value = name.split("=")
        signs = {m.margin_one({site: value}) > 0 for m in (both, there)}
        assert len(signs) == 1
    both.learn_one({"new": "one"}, 1)
    assert both.name_of(4) == "new=one"


def test_names_of_rows_that_taught_nothing_keep_their_numbers() -> None:
    """A row of weight 0 names its features, and is not learned."""
    base = LR()
    base.learn_one({"hour": "9"}, 1)
    base.learn_margins(_named_row("hour=23", 1, weight=0.0))
    here, there = copy_of(base), copy_of(base)
    here.learn_one({"site": "news"}, 1)
    there.learn_one({"site": "shop"}, 1)
    both = merge([here, there], base)
    assert both.names.find("hour=23") == 1
    assert len({both.names.find(f"site={name}") for name in ("news", "shop")} - {0, 1}) == 2


def _named_row(name: str, number: int, weight: float) -> Batch:
    new = NewNames(np.array([number], np.uint32), [name], np.zeros(1, np.int64))
    ones = np.ones(1, np.float32)
    place = np.array([0, 1], np.int64), np.array([number], np.uint32)
    return Batch(*place, ones, np.ones(1), weight * ones, new_names=new)


def test_qr_matches_pairs_by_name() -> None:
    """Workers met the features in different orders, so their ranks differ."""
    here, there = QR(), QR()
    rows = [{"a": "1", "b": "1"}, {"a": "1", "b": "2"}, {"a": "2", "b": "1"}]
    here.learn_many(rows * 30, [1, 0, 0] * 30)
    there.learn_many(rows[::-1] * 30, [0, 0, 1] * 30)
    both = merge([here, there])
    found, expected = both.predict_many(rows), here.predict_many(rows)
    assert (np.round(found) == [1, 0, 0]).all()
    np.testing.assert_allclose(found, expected, atol=0.2)
    assert both.nonzeros() == here.nonzeros()


def test_a_number_without_a_name_that_another_model_has_named_is_an_error() -> None:
    named, numbered = LR(), LR()
    named.learn_one({"site": "news"}, 1)
    numbered.learn_one({0: 1.0}, 1)
    with pytest.raises(HyperError, match="feature 0 has no name in model 2, but is 'site=news'"):
        merge([named, numbered])


# What cannot be merged.


def learned(model: Learner) -> Learner:
    model.learn_margins(TRAIN.part(0, 100))
    return model


OTHER = Separation.top_k(TRAIN, order=7)


@pytest.mark.parametrize(
    ("models", "base", "message"),
    [
        ([], None, "there is nothing to merge"),
        ([LR(), QR()], None, "model 2 is a model of kind qr, model 1 of kind lr"),
        ([LR(), LR(alpha=0.5)], None, "model 2 and model 1 differ in optimizer"),
        ([LR(), LR("squared")], None, r"differ in loss \('squared' and 'logistic'\)"),
        ([LR(), LR(bias=False)], None, r"differ in bias \(False and True\)"),
        ([LR(), LR()], LR(l2=1.0), "the base and model 1 differ in optimizer"),
        ([PQR(SEPARATION), PQR(OTHER)], None, "model 2 and model 1 have different separations"),
        ([PQR(SEPARATION)] * 2, PQR(OTHER), "model 1 and the base have different separations"),
        ([LR(optimizer=Ogd())] * 2, None, "a model with optimizer ogd cannot be merged"),
        ([FM(), FM()], None, "a model of kind fm cannot be merged"),
        ([LR()] * 2, None, "model 1 and model 2 are one and the same: its rows would count twice"),
        ([learned(LR()), LR()], learned(LR()), "model 2 did not start from the base"),
    ],
)
def test_models_that_do_not_fit_together_are_an_error(
    models: list[Learner], base: Learner | None, message: str
) -> None:
    with pytest.raises(HyperError, match=message):
        merge(models, base)


def test_every_kind_is_merged_or_refused_in_a_sentence() -> None:
    from pqrlearn.learners import LEARNERS
    from pqrlearn.merging.states import BLOCKS, REFUSED

    assert {*LEARNERS, "mixture", "frozen"} <= {*BLOCKS, *REFUSED}
    assert not set(BLOCKS) & set(REFUSED)


def test_schemas_that_differ_are_an_error() -> None:
    models = [LR(), LR()]
    models[0].schema = pqrlearn.Schema((pqrlearn.Column("site", "category"),))
    models[1].schema = pqrlearn.Schema((pqrlearn.Column("site", "number"),))
    with pytest.raises(HyperError, match="model 2 and model 1 differ in schema"):
        merge(models)


# The command.


def saved(folder: Path) -> list[Path]:
    paths = [folder / f"{name}.pqr" for name in ("base", "one", "two")]
    base = taught(MAKERS["pqr"], 0, 2_000)
    base.save(paths[0])
    for number, path in enumerate(paths[1:]):
        model = copy_of(base)
        model.learn_margins(TRAIN.part(2_000 + 2_000 * number, 4_000 + 2_000 * number))
        model.save(path)
    STREAM.write_libsvm(folder / "held.svm", 3_000, start=16_000)
    return paths


def test_the_command_merges_as_the_library_does(tmp_path: Path) -> None:
    base, one, two = saved(tmp_path)
    out = tmp_path / "both.pqr"
    held = tmp_path / "held.svm"
    printed = ok("merge", one, two, "--base", base, "--rows", held, "-o", out, "--json")
    expected = merged(
        [pqrlearn.load(one), pqrlearn.load(two)], pqrlearn.load(base), rows=pqrlearn.read(held)
    )
    assert out.read_bytes() == expected.learner.to_bytes()
    figures = json.loads(printed)
    assert figures["rows"] == 6_000
    assert (figures["m"], figures["alone"]) == (f"{expected.m:g}", None)
    assert [each["loss"] for each in figures["tried"]] == [each.loss for each in expected.tried]


def test_the_command_shows_what_it_tried(tmp_path: Path) -> None:
    base, one, two = saved(tmp_path)
    shown = ok("merge", one, two, "--base", base, "-o", tmp_path / "both.pqr")
    assert "rows learned" in shown
    shown = ok("merge", one, two, "--rows", tmp_path / "held.svm", "-o", tmp_path / "both.pqr")
    assert "merge with m = 16" in shown
    assert "one.pqr alone" in shown


def test_one_model_passes_through_the_command(tmp_path: Path) -> None:
    _, one, _ = saved(tmp_path)
    ok("merge", one, "-o", tmp_path / "copy.pqr")
    assert (tmp_path / "copy.pqr").read_bytes() == one.read_bytes()


def test_errors_of_the_command_name_the_files(tmp_path: Path) -> None:
    base, one, _ = saved(tmp_path)
    LR().save(tmp_path / "lr.pqr")
    result = run("merge", one, tmp_path / "lr.pqr", "-o", tmp_path / "both.pqr")
    assert (result.code, result.out) == (2, "")
    assert "lr.pqr is a model of kind lr" in result.err
    assert not (tmp_path / "both.pqr").exists()
    result = run("merge", base, one, "--base", one, "-o", tmp_path / "both.pqr")
    assert result.code == 2
    assert "base.pqr did not start from the base" in result.err
    result = run("merge", one, "--base", base, "-o", one)
    assert result.code == 2
    (tmp_path / "again.pqr").symlink_to(one)
    result = run("merge", one, tmp_path / "again.pqr", "--base", base, "-o", tmp_path / "both.pqr")
    assert result.code == 2
    assert "one.pqr and" in result.err
    assert "again.pqr are one and the same" in result.err
    result = run("merge", "-o", tmp_path / "both.pqr")
    assert result.code == 2


def test_the_command_says_when_one_model_is_better_alone(tmp_path: Path) -> None:
    _, one, _ = saved(tmp_path)
    part = TRAIN.part(0, 4_000)
    turned = PQR(SEPARATION)
    turned.learn_margins(
        Batch(part.indptr, part.indices, part.values, 1 - part.labels, part.weights)
    )
    turned.save(tmp_path / "turned.pqr")
    held, out = tmp_path / "held.svm", tmp_path / "both.pqr"
    result = run("merge", tmp_path / "turned.pqr", one, "--rows", held, "-o", out)
    assert result.code == 0
    assert "one.pqr alone, which was saved" in result.err
    assert out.read_bytes() == one.read_bytes()


def test_auto_is_refused_with_its_reason() -> None:
    with pytest.raises(HyperError, match="kind auto cannot be merged: no rule"):
        merge([Auto(), Auto()])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        merge([LR(), LR()])


# Rounds over processes.


def test_rounds_over_processes_are_those_in_one_process() -> None:
    found = [
        learn_in_rounds(
            MAKERS["pqr"](), TRAIN, workers=3, rounds=2, held=2_000, processes=processes
        )
        for processes in (0, 2)
    ]
    assert found[0][0].to_bytes() == found[1][0].to_bytes()
    assert [each.loss for each in found[0][1]] == [each.loss for each in found[1][1]]
    assert found[0][0].rows == len(TRAIN)


@pytest.mark.parametrize("passes", [1, 2])
def test_one_worker_ends_with_the_bytes_of_the_sequential_run(passes: int) -> None:
    sequential = MAKERS["pqr"]()
    for _ in range(passes):
        sequential.learn_margins(TRAIN)
    model, found = learn_in_rounds(
        MAKERS["pqr"](), TRAIN, workers=1, rounds=5, passes=passes, processes=0
    )
    assert model.to_bytes() == sequential.to_bytes()
    assert sum(each.rows for each in found) == passes * len(TRAIN)


def test_too_few_rows_for_the_rounds_are_an_error() -> None:
    with pytest.raises(HyperError, match="100 rows are too few for 2 rounds of 4 workers"):
        learn_in_rounds(LR(), TRAIN.part(0, 100), workers=4, rounds=2, held=95, processes=0)
