"""The seeded click stream: the same rows however it is cut, and the truth it claims to hold."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace
from hashlib import blake2b
from itertools import combinations, islice

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

from pqrlearn.datasets import arithmetic
from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.datasets.field import Field, Segment, measured
from pqrlearn.errors import DataError, HyperError
from pqrlearn.metrics import Metrics
from pqrlearn.readers.libsvm import format_batch

DEMO = ClickStream.demo()
SAMPLES = {"avazu": ClickStream.avazu, "criteo": ClickStream.criteo, "kdd2012": ClickStream.kdd2012}
PRESETS = [DEMO, ClickStream.avazu(), ClickStream.criteo(), ClickStream.kdd2012()]
SMALL = ClickStream(
    fields=6, features=3_000, click_rate=0.2, interactions=30, pair_scale=2.0, pair_share=0.005
)


def gathered(batches):
    parts = list(batches)
    return [np.concatenate([getattr(b, name) for b in parts]) for name in ("indices", "labels")]


def logloss(margins, labels):
    metrics = Metrics("logistic")
    metrics.update(margins, labels)
    return metrics.result()["logloss"]


def table(stream, rows, start=0):
    """Features as a matrix with one line per row, and the batch it is from."""
    batch = stream.batch(start, rows)
    return batch.indices.reshape(rows, stream.fields), batch


# -- one world, whatever the cut ------------------------------------------------


@pytest.mark.parametrize("batch_rows", [1, 7, 100, 4096])
def test_rows_do_not_depend_on_how_the_stream_is_cut(batch_rows):
    indices, labels = gathered(DEMO.batches(500, batch_rows))
    whole = DEMO.batch(0, 500)
    np.testing.assert_array_equal(indices, whole.indices)
    np.testing.assert_array_equal(labels, whole.labels)


def test_a_stream_started_late_continues_the_same_rows():
    indices, labels = gathered(DEMO.batches(300, 64, start=12_345))
    whole = DEMO.batch(12_000, 1_000)
    np.testing.assert_array_equal(indices, whole.indices[345 * DEMO.fields : 645 * DEMO.fields])
    np.testing.assert_array_equal(labels, whole.labels[345:645])


def test_equal_settings_give_equal_rows_and_another_seed_another_world():
    first, again, other = (ClickStream.demo(seed).batch(0, 200) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first.indices, again.indices)
    np.testing.assert_array_equal(first.labels, again.labels)
    assert (first.indices != other.indices).mean() > 0.5
    assert ClickStream.demo(5).planted() != ClickStream.demo(6).planted()


def test_the_rows_of_a_seed_never_change():
    batch = DEMO.batch(1_000_000, 2)
    assert batch.indices.reshape(2, 12).tolist() == [
        [0, 4, 13, 39, 116, 307, 824, 1946, 4150, 13641, 37288, 156933],
        [1, 6, 13, 41, 109, 463, 943, 1831, 5868, 22636, 49597, 170224],
    ]
    assert DEMO.planted()[0] == ((18, 15205), -1.1976997940815164)


@pytest.mark.parametrize(
    ("stream", "digest"),
    [
        (DEMO, "66573ef127d28cde"),
        (ClickStream.avazu(), "14fe8a81a6d943a1"),
        (ClickStream.criteo(), "a06404e774a69dd7"),
        (ClickStream.kdd2012(), "071e26b54714fb64"),
    ],
)
def test_rows_and_margins_of_a_seed_have_the_same_bits_on_every_machine(stream, digest):
    batch = stream.batch(0, 5_000)
    found = blake2b(batch.indices.tobytes(), digest_size=8)
    found.update(batch.labels.tobytes())
    found.update(stream.margins(batch).tobytes())
    assert found.hexdigest() == digest


def test_no_rows_are_no_batches():
    assert list(DEMO.batches(0)) == []


# -- rows -----------------------------------------------------------------------


@pytest.mark.parametrize("stream", PRESETS)
def test_rows_are_canonical_with_one_feature_of_each_field(stream):
    features, batch = table(stream, 2_000)
    for column, field in zip(features.T, stream.layout, strict=True):
        assert column.min() >= field.offset
        assert column.max() < field.offset + field.size
    assert (np.diff(features.astype(np.int64), axis=1) > 0).all()
    assert batch.indptr.tolist() == list(range(0, len(batch.indices) + 1, stream.fields))
    assert set(batch.labels) == {0.0, 1.0}
    assert (batch.values == 1).all()
    assert (batch.weights == 1).all()
    types = [array.dtype.name for array in (batch.indptr, batch.indices, batch.values)]
    assert types == ["int64", "uint32", "float32"]


@pytest.mark.parametrize("stream", PRESETS)
def test_clicks_come_at_the_rate_asked_for(stream):
    batch = stream.batch(0, 100_000)
    assert batch.labels.mean() == pytest.approx(stream.click_rate, rel=0.03)
    assert stream.probabilities(batch).mean() == pytest.approx(stream.click_rate, rel=0.03)


def test_probabilities_are_those_that_the_clicks_were_drawn_with():
    batch = DEMO.batch(0, 200_000)
    chances = DEMO.probabilities(batch)
    for low, high in [(0, 0.05), (0.05, 0.2), (0.2, 0.5), (0.5, 1)]:
        inside = (chances >= low) & (chances < high)
        error = 4 * np.sqrt(0.25 / inside.sum())
        assert abs(batch.labels[inside].mean() - chances[inside].mean()) < error


# -- fields ---------------------------------------------------------------------


@pytest.mark.parametrize("stream", PRESETS)
def test_fields_share_out_all_features_from_few_values_to_a_large_share(stream):
    sizes = [field.size for field in stream.layout]
    assert sum(sizes) == stream.features
    assert len(sizes) == stream.fields
    assert 2 <= sizes[0] <= 4
    assert sizes == sorted(sizes)
    assert sizes[-1] > stream.features / 5


@pytest.mark.parametrize(("fields", "features"), [(2, 4), (3, 7), (10, 20), (40, 1_000)])
def test_few_features_still_fill_every_field(fields, features):
    stream = ClickStream(fields=fields, features=features, click_rate=0.5, interactions=0)
    sizes = [field.size for field in stream.layout]
    assert min(sizes) >= 2
    assert sum(sizes) == features


@pytest.mark.parametrize("size", [2, 5, 97, 1_000])
def test_every_rank_has_a_feature_of_its_own(size):
    field = Field("site", 10, size, (Segment(0, 0.0, 1.1),), shift=size // 3)
    assert sorted(field.features(np.arange(size))) == list(range(10, 10 + size))


@pytest.mark.parametrize("exponent", [0.0, 0.8, 1.0, 1.1, 2.0])
def test_shares_follow_the_power_law_and_are_what_is_drawn(exponent):
    field = Field("site", 0, 50, (Segment(0, 0.0, exponent),))
    shares = field.shares(np.arange(50))
    assert shares.sum() == pytest.approx(1)
    ends = np.arange(1.0, 52.0)
    mass = np.log(ends) if exponent == 1 else (ends ** (1 - exponent) - 1) / (1 - exponent)
    np.testing.assert_allclose(shares, np.diff(mass) / mass[-1], atol=5e-5)
    assert_drawn_as_shared(field)


@pytest.mark.parametrize("name", SAMPLES)
def test_measured_shares_are_those_of_the_first_ranks(name):
    for known, field in zip(measured()[name]["fields"], SAMPLES[name]().layout, strict=True):
        ranks = np.arange(min(field.size, 2 ** (len(known[2]) - 1)))
        shares = np.cumsum(field.shares(ranks))
        for power, share in enumerate(known[2]):
            assert shares[2**power - 1] == pytest.approx(share, abs=5e-4)
    assert_drawn_as_shared(SAMPLES[name]().layout[3])


def assert_drawn_as_shared(field):
    even = (np.arange(200_000) * (2**32 / 200_000)).astype(np.uint64)
    drawn = np.bincount(field.ranks(even), minlength=field.size) / 200_000
    np.testing.assert_allclose(drawn, field.shares(np.arange(field.size)), atol=2e-5)
    ends = field.ranks(np.array([0, 2**32 - 1], np.uint64))
    assert ends.tolist() == [0, field.size - 1]


def test_frequencies_fall_like_a_power_of_the_rank():
    stream = replace(DEMO, exponent=1.2)
    features, _ = table(stream, 200_000)
    largest = stream.layout[-1]
    counts = np.bincount(features[:, -1] - largest.offset, minlength=largest.size)
    ranked = -np.sort(-counts)[5:200]
    slope = np.polyfit(np.log(np.arange(6, 201)), np.log(ranked), 1)[0]
    assert slope == pytest.approx(-1.2, abs=0.1)


def test_a_stream_keeps_meeting_new_features():
    seen = [len(np.unique(DEMO.batch(0, rows).indices)) for rows in (10_000, 100_000)]
    assert seen[1] > 3 * seen[0] > 30_000


# -- planted pairs --------------------------------------------------------------


@pytest.mark.parametrize("stream", PRESETS)
def test_planted_pairs_meet_often_and_are_from_different_fields(stream):
    features, _ = table(stream, 50_000)
    planted = stream.planted()
    assert len({pair for pair, _ in planted}) == stream.interactions
    for (i, j), _ in planted:
        assert stream.name(i).split("=")[0] != stream.name(j).split("=")[0]
        together = ((features == i).any(axis=1) & (features == j).any(axis=1)).mean()
        assert together > stream.pair_share / 2


def test_planted_effects_are_sorted_by_strength_and_go_both_ways():
    effects = np.array([effect for _, effect in DEMO.planted()])
    assert (np.diff(np.abs(effects)) <= 0).all()
    assert 0.3 < (effects > 0).mean() < 0.7
    assert np.abs(effects).min() >= DEMO.pair_scale / 2
    assert np.abs(effects).max() <= DEMO.pair_scale * 3 / 2


def test_margins_are_the_sum_of_planted_effects():
    linear = replace(SMALL, interactions=0)
    features, batch = table(SMALL, 5_000)
    expected = linear.margins(batch) - linear.intercept + SMALL.intercept
    for (i, j), effect in SMALL.planted():
        expected += effect * ((features == i).any(axis=1) & (features == j).any(axis=1))
    np.testing.assert_allclose(SMALL.margins(batch), expected, atol=1e-12)


def test_without_interactions_margins_are_linear():
    """A swap of one feature moves the margin by the same amount whatever else is in the row."""
    linear = replace(SMALL, interactions=0)
    features, batch = table(linear, 1_000)
    swapped = features.copy()
    swapped[:, 0] = 1 - swapped[:, 0]
    moved = linear.margins(replace(batch, indices=swapped.reshape(-1))) - linear.margins(batch)
    assert len(np.unique(np.abs(moved).round(9))) == 1
    assert np.abs(moved).max() > 0


def test_pairs_are_worth_more_than_any_linear_model_can_see():
    train, test = SMALL.batch(0, 30_000), SMALL.batch(30_000, 20_000)
    shape = (SMALL.fields, SMALL.features)
    linear = [with_columns(batch, *shape) for batch in (train, test)]
    paired = [with_columns(batch, *shape, SMALL.planted()) for batch in (train, test)]
    losses = []
    for fit, score in (linear, paired):
        model = LogisticRegression(C=0.3, max_iter=300).fit(fit, train.labels)
        losses.append(logloss(model.decision_function(score), test.labels))
    best = logloss(SMALL.margins(test), test.labels)
    assert best < losses[1] < losses[0] - 0.02


def with_columns(batch, fields, features, planted=()):
    """The rows as CSR, with a column of its own for each planted pair."""
    lines = batch.indices.reshape(-1, fields)
    extra = [(lines == i).any(axis=1) & (lines == j).any(axis=1) for (i, j), _ in planted]
    rows, columns = np.nonzero(np.array(extra).T) if extra else (np.zeros(0, int),) * 2
    rows = np.concatenate([np.repeat(np.arange(len(batch)), fields), rows])
    columns = np.concatenate([batch.indices.astype(np.int64), features + columns])
    return csr_array((np.ones(len(rows)), (rows, columns)), (len(batch), features + len(extra)))


# -- names and files ------------------------------------------------------------


def test_names_are_unique_and_say_field_and_value():
    names = dict(SMALL.names())
    assert sorted(names) == list(range(SMALL.features))
    assert len(set(names.values())) == SMALL.features
    starts = {field.name: field.offset for field in SMALL.layout}
    for index, name in names.items():
        field, value = name.split("=")
        assert starts[field] + int(value, 16) == index
        assert SMALL.name(index) == name


def test_fields_beyond_the_list_of_words_are_numbered():
    stream = ClickStream(fields=39, features=100_000, click_rate=0.2)
    names = [field.name for field in stream.layout]
    assert names[7] == "site"
    assert names[16:18] == ["f16", "f17"]
    assert len(set(names)) == 39


def test_a_file_holds_the_rows_and_the_names(tmp_path):
    rows, names = tmp_path / "clicks.svm", tmp_path / "names.tsv"
    SMALL.write_libsvm(rows, 300, start=50, names_path=names)
    assert rows.read_bytes() == format_batch(SMALL.batch(50, 300))
    lines = names.read_text().splitlines()
    assert len(lines) == SMALL.features
    assert lines[5] == f"5\t{SMALL.name(5)}"


# -- size -----------------------------------------------------------------------


def test_fifty_four_million_features_cost_no_memory():
    tracemalloc.start()
    stream = ClickStream.kdd2012()
    batches = stream.batches(149_639_105)
    assert sum(len(batch) for batch in islice(batches, 3)) == 3 * 16_384
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64_000_000
    assert stream.name(54_686_451).startswith("user=")


# -- settings -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fields": 1}, "fields=1 must be at least 2"),
        ({"features": 11}, r"features=11 must be between 12 \(two per field\)"),
        ({"features": 2**31 + 1}, "features=2147483649 must be between"),
        ({"click_rate": 0.0}, "click_rate=0.0 must be between 0 and 1"),
        ({"exponent": -1.0}, "exponent=-1.0 must be at least 0"),
        ({"correlation": -1.0}, "correlation=-1.0 must be at least 0"),
        ({"affinities": -1}, "affinities=-1 must be at least 0"),
        ({"drift": -1}, "drift=-1 must be at least 0"),
        ({"sample": "yahoo"}, "sample='yahoo' must be one of avazu, criteo, kdd2012"),
        ({"sample": "avazu"}, "fields=6, features=3000: avazu has 15, 1000000"),
        ({"interactions": -1}, "interactions=-1 must be at least 0"),
        ({"pair_share": 0.0}, "pair_share=0.0 must be between 0.0001 and 0.25"),
    ],
)
def test_a_setting_out_of_range_is_an_error_that_names_it(change, message):
    with pytest.raises(HyperError, match=message):
        replace(SMALL, **change)


def test_more_interactions_than_frequent_pairs_is_an_error():
    with pytest.raises(HyperError, match=r"interactions=100000: only .* pairs occur in"):
        replace(SMALL, interactions=100_000).planted()


def test_an_unknown_feature_or_a_foreign_row_is_an_error():
    with pytest.raises(DataError, match=r"feature 3000 is not in 0\.\.2999"):
        SMALL.name(3_000)
    with pytest.raises(DataError, match="rows of this stream have 6 features each"):
        SMALL.margins(DEMO.batch(0, 3))


def test_more_affinities_than_pairs_of_fields_is_an_error():
    with pytest.raises(HyperError, match="affinities=16: only 10 pairs of fields have 8 values"):
        replace(SMALL, affinities=16).batch(0, 1)


# -- fields that belong together ------------------------------------------------


def strongest_correlation(features, first, second):
    """Of the three most frequent values of one field with those of another."""
    tops = [
        [column == value for value in np.argsort(-np.bincount(column))[:3]]
        for column in (features[:, first], features[:, second])
    ]
    return max(abs(np.corrcoef(a, b)[0, 1]) for a in tops[0] for b in tops[1])


def test_fields_are_independent_without_correlation():
    features, _ = table(replace(DEMO, correlation=0.0), 100_000)
    for a, b in combinations(range(DEMO.fields), 2):
        assert strongest_correlation(features, a, b) < 6 / np.sqrt(len(features))


def test_fields_of_one_latent_are_correlated_and_frequencies_stay():
    features, _ = table(replace(DEMO, correlation=0.8), 100_000)
    apart, _ = table(replace(DEMO, correlation=0.0), 100_000)
    for a, b in combinations(range(DEMO.fields), 2):
        together = DEMO.layout[a].latent == DEMO.layout[b].latent
        assert (strongest_correlation(features, a, b) > 0.1) == together
    for column, other in zip(features.T, apart.T, strict=True):
        value = np.bincount(other).argmax()
        assert (column == value).mean() == pytest.approx((other == value).mean(), abs=0.01)


@pytest.mark.parametrize(
    ("name", "slope", "correlation"),
    [("avazu", -1.54, 0.075), ("criteo", -1.27, 0.023), ("kdd2012", -0.84, 0.104)],
)
def test_streams_are_like_the_samples_they_are_built_after(name, slope, correlation):
    """The figures are those of the samples, in the columns of the stream (docs/simulated.md)."""
    batch = SAMPLES[name]().batch(0, measured()[name]["rows"])
    counts = np.bincount(batch.indices)
    ranks = np.arange(10, 3_001)
    found = np.polyfit(np.log(ranks), np.log(-np.sort(-counts)[ranks - 1]), 1)[0]
    assert found == pytest.approx(slope, abs=0.05)
    often = np.flatnonzero(counts >= 0.02 * len(batch))
    rows = csr_array((np.ones(len(batch.indices)), batch.indices.astype(np.int64), batch.indptr))
    matrix = np.corrcoef(rows[:, often].toarray().T)
    mean = np.abs(matrix[np.triu_indices(len(often), 1)]).mean()
    assert mean == pytest.approx(correlation, rel=0.2)


# -- effects ----------------------------------------------------------------------


def test_scales_are_standard_deviations_of_what_they_scale():
    plain = replace(SMALL, interactions=0, linear_scale=0.7)
    both = replace(plain, affinities=5, affinity_scale=0.4)
    batch = plain.batch(0, 50_000)
    linear = plain.margins(batch)
    assert linear.std() == pytest.approx(0.7, rel=0.02)
    assert (both.margins(batch) - linear).std() == pytest.approx(0.4, rel=0.02)


def test_an_affinity_is_of_low_rank():
    """With one affinity, what two fields do to each other is a sum of two products."""
    stream = replace(SMALL, interactions=0, linear_scale=1e-9, affinities=1)
    features, batch = table(stream, 50_000)
    margins = stream.margins(batch)
    ranks = []
    for a, b in combinations(range(stream.fields), 2):
        values = [np.unique(features[:, field])[:20] for field in (a, b)]
        rows = np.tile(features[:1], (math.prod(map(len, values)), 1))
        rows[:, a], rows[:, b] = (grid.ravel() for grid in np.meshgrid(*values, indexing="ij"))
        one = replace(batch.part(0, len(rows)), indices=rows.reshape(-1))
        effects = stream.margins(one).reshape(len(values[0]), -1)
        double = effects - effects.mean(axis=0) - effects.mean(axis=1)[:, None] + effects.mean()
        ranks.append(np.linalg.matrix_rank(double, tol=1e-6))
    assert margins.std() == pytest.approx(1.0, rel=0.02)
    assert sorted(ranks) == [0] * (len(ranks) - 1) + [2]


def test_effects_drift_step_by_step_and_features_do_not():
    still, moving = replace(SMALL, interactions=0), replace(SMALL, interactions=0, drift=10_000)
    batch = still.batch(0, 2_000)
    np.testing.assert_array_equal(moving.batch(0, 2_000).indices, batch.indices)
    margins = [moving.margins(batch, start) for start in (0, 5_000, 30_000)]
    alike = [np.corrcoef(margins[0], other)[0, 1] for other in margins]
    assert alike[0] > 0.999999
    assert 0.4 < alike[1] < 0.95
    assert abs(alike[2]) < 0.4
    np.testing.assert_array_equal(
        np.concatenate(
            [moving.margins(batch.part(0, 700)), moving.margins(batch.part(700, 2000), 700)]
        ),
        margins[0],
    )


# -- arithmetic -------------------------------------------------------------------


def test_exp_and_log_are_those_of_numpy_to_the_last_places():
    x = np.linspace(-700, 700, 10_001)
    np.testing.assert_allclose(arithmetic.exp(x), np.exp(x), rtol=1e-15)
    positive = np.exp(np.linspace(-300, 300, 10_001))
    np.testing.assert_allclose(arithmetic.log(positive), np.log(positive), rtol=1e-15, atol=1e-15)
    assert arithmetic.sigmoid(np.array([-1e9, 0.0, 1e9])).tolist()[1:] == [0.5, 1.0]
