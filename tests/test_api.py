"""The library as a person meets it: what it refuses, what it shows, what its help says."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import coo_matrix, csc_array, csr_array

import pqrlearn
from pqrlearn import (
    CCFM,
    CFM,
    FM,
    LR,
    PQR,
    QR,
    Auto,
    Batch,
    Column,
    Counts,
    DiFacto,
    Ftrl,
    Learner,
    Mixture,
    Ogd,
    Schema,
    Separation,
    learn,
    train,
)
from pqrlearn.errors import HyperError

ROWS = [{"site": "a", "ad": "x"}, {"site": "b", "ad": "x"}, {"site": "a", "ad": "y"}]
SEPARATION = Separation.top_k(ROWS, order=2)
CLASSES = [thing for name in pqrlearn.__all__ if inspect.isclass(thing := getattr(pqrlearn, name))]
FUNCTIONS = [
    thing for name in pqrlearn.__all__ if inspect.isfunction(thing := getattr(pqrlearn, name))
]
LEARNERS: dict[str, Callable[[], Learner]] = {
    "Auto": Auto,
    "PQR": lambda: PQR(SEPARATION),
    "LR": LR,
    "QR": QR,
    "FM": FM,
    "DiFacto": DiFacto,
    "CFM": CFM,
    "CCFM": CCFM,
    "Mixture": lambda: Mixture([LR(), LR(alpha=0.2)]),
}


# Settings without an optimizer.


@pytest.mark.parametrize("kind", [LR, QR, DiFacto, CFM])
def test_rates_may_be_given_to_the_learner(kind: Any) -> None:
    default = kind().optimizer
    assert kind(alpha=0.3, l2=0.5).optimizer == Ftrl(alpha=0.3, l1=default.l1, l2=0.5)


def test_rates_of_pqr_and_fm_may_be_given_to_the_learner() -> None:
    assert PQR(SEPARATION, alpha=0.05).optimizer == Ftrl(alpha=0.05)
    assert FM(eta=0.3, factor_l2=0.1).settings()["optimizer"]["eta"] == 0.3


def test_both_forms_learn_the_same_model() -> None:
    one, other = LR(alpha=0.3), LR(optimizer=Ftrl(alpha=0.3))
    for model in (one, other):
        model.learn_many(ROWS, [1, 0, 1])
    assert one.to_bytes() == other.to_bytes()


def test_an_order_beside_a_separation_is_no_setting() -> None:
    with pytest.raises(TypeError, match="PQR has no setting 'order'"):
        PQR(SEPARATION, order=3)  # type: ignore[call-arg]


def test_rates_beside_an_optimizer_are_an_error_that_shows_both_forms() -> None:
    with pytest.raises(HyperError, match=r"alpha=0.3 beside optimizer=Ogd.*as in LR\(alpha=0.3\)"):
        LR(optimizer=Ogd(), alpha=0.3)


def test_a_rate_that_does_not_exist_is_an_error_that_names_those_that_do() -> None:
    with pytest.raises(TypeError, match=r"LR has no setting 'alhpa'; .* alpha, beta, l1, l2"):
        LR(alhpa=0.3)  # type: ignore[call-arg]
    with pytest.raises(HyperError, match="alpha=-1 must be a number > 0"):
        LR(alpha=-1)


@pytest.mark.parametrize(("given", "shown"), [({}, "rows"), ({"order": 3}, "rows, order=3")])
def test_pqr_without_a_separation_names_both_ways_out(given: dict[str, Any], shown: str) -> None:
    with pytest.raises(HyperError) as caught:
        PQR(**given)
    assert f"PQR(Separation.top_k({shown}))" in str(caught.value)
    assert "Auto()" in str(caught.value)


# Counting.


def test_a_separation_has_the_default_order_of_the_command() -> None:
    rows = [{number: 1.0} for number in range(101)]
    assert Separation.top_k(rows).order == 11
    assert Separation.top_k(rows).order == Counts.of(rows).default_order()


MATRIX = [[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]]
COUNTED: dict[str, Any] = {
    "dicts": [{0: 1.0, 2: 2.0}, {2: 3.0}],
    "mappings": [MappingProxyType({0: 1.0, 2: 2.0}), OrderedDict({2: 3.0})],
    "an iterator of dicts": iter([{0: 1.0, 2: 2.0}, {2: 3.0}]),
    "csr": csr_array(MATRIX),
    "csc": csc_array(MATRIX),
    "coo": coo_matrix(MATRIX),
    "a Batch": Batch.from_csr(csr_array(MATRIX)),
    "Batches": [Batch.from_csr(csr_array(MATRIX[:1])), Batch.from_csr(csr_array(MATRIX[1:]))],
}


@pytest.mark.parametrize("form", COUNTED)
def test_a_separation_counts_rows_in_every_form(form: str) -> None:
    separation = Separation.top_k(COUNTED[form], order=1)
    assert (separation.rows, separation.distinct) == (2, 2)
    assert (separation.features.tolist(), separation.counts.tolist()) == ([2], [2])


FRAME = {"site": ["a", "a", "b"], "hour": ["9", "10", "11"]}


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(FRAME),
        pl.DataFrame(FRAME),
        np.array(list(zip(*FRAME.values(), strict=True)), [("site", "U1"), ("hour", "U2")]),
    ],
    ids=["pandas", "polars", "a structured array"],
)
def test_a_separation_counts_frames(frame: Any) -> None:
    separation = Separation.top_k(frame, order=1)
    assert separation.high_names() == ["site=a"]
    model = PQR(separation)
    assert len(model.learn_many(frame, [1, 0, 1])) == 3


@pytest.mark.parametrize("rows", ["oops", b"oops", 3, {"site": "a"}, None])
def test_what_is_not_rows_cannot_be_counted(rows: Any) -> None:
    with pytest.raises(TypeError, match=f"rows must be .*, not {type(rows).__name__}"):
        Separation.top_k(rows)


# What is shown.


@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_shows_kind_loss_rows_and_nonzeros(name: str) -> None:
    model = LEARNERS[name]()
    model.learn_many(ROWS, [1, 0, 1])
    assert repr(model).startswith(f"{name}(loss='logistic', ")
    assert repr(model).endswith(f"rows=3, nonzeros={sum(model.nonzeros().values())})")


def test_a_learner_shows_its_order_or_what_rose() -> None:
    assert repr(PQR(SEPARATION)) == "PQR(loss='logistic', order=2, rows=0, nonzeros=0)"
    model = Auto("squared")
    assert repr(model) == "Auto(loss='squared', high=0, rows=0, nonzeros=0)"
    model.learn_many(ROWS * 50, [1.0, 2.0, 3.0] * 50)
    assert f"high={len(model.high)}, " in repr(model)
    assert len(model.high) > 0
    assert "rank=16" in repr(FM())
    assert "learners=[LR(loss='logistic', rows=0" in repr(Mixture([LR(), LR(alpha=0.2)]))


def test_other_things_show_their_sizes() -> None:
    assert repr(SEPARATION) == "Separation(order=2, rows=3, distinct=4)"
    assert repr(Counts.of(ROWS)) == "Counts(rows=3, distinct=4)"
    batch = Batch.from_rows([([1, 2], [1.0, 1.0]), ([3], [1.0])])
    assert repr(batch) == "Batch(rows=2, nonzeros=3, labelled=False)"
    assert repr(PQR(SEPARATION)._prepared(batch)) == repr(batch)
    columns = [Column("click", "label"), *(Column(f"c{n}", "category") for n in range(20))]
    assert repr(Schema(tuple(columns[:2]))) == "Schema(click: label, c0: category)"
    assert repr(Schema(tuple(columns))).endswith("c10: category, and 9 more)")


def test_the_version_is_an_attribute() -> None:
    from importlib.metadata import version

    assert pqrlearn.__version__ == version("pqrlearn")


# Help.


def _public(of: type) -> list[tuple[str, Any]]:
    """Methods and properties that the package defines."""
    found = []
    for name in dir(of):
        member = inspect.getattr_static(of, name)
        function = getattr(member, "__func__", member)
        function = getattr(member, "fget", None) or getattr(member, "func", None) or function
        home = getattr(function, "__module__", "") or ""
        if not name.startswith("_") and inspect.isfunction(function) and home.startswith("pqr"):
            found.append((name, function))
    return found


def _example(name: str, function: Any, of: type) -> str:
    """Its docstring, or that of the method it overrides."""
    for one in of.__mro__:
        member = inspect.getattr_static(one, name, None)
        if getattr(member, "__doc__", None):
            return str(member.__doc__)
    return ""


@pytest.mark.parametrize("thing", [*CLASSES, *FUNCTIONS], ids=lambda thing: thing.__name__)
def test_every_public_method_has_an_example_that_runs(thing: Any) -> None:
    """That it runs is checked by the doctests."""
    lacking = [] if ">>>" in (thing.__doc__ or "") or inspect.isclass(thing) else [thing.__name__]
    if inspect.isclass(thing):
        lacking += [name for name, f in _public(thing) if ">>>" not in _example(name, f, thing)]
    assert not lacking


def test_internals_are_not_in_the_help() -> None:
    text = pydoc.plain(pydoc.render_doc(PQR))
    for name in ("prepared", "batch_margins", "strengths", "_core.Model"):
        assert f" {name}(" not in text
    for name in ("learn_one", "predict_many", "save", "nonzeros"):
        assert f" {name}(" in text


# Errors.


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("label", ["1", None, [1], b"1"], ids=repr)
def test_a_label_that_is_no_number_is_named(name: str, label: Any) -> None:
    model = LEARNERS[name]()
    with pytest.raises(TypeError) as caught:
        model.learn_one({"site": "a"}, label)
    assert str(caught.value) == f"label {label!r} is not a number"
    with pytest.raises(TypeError, match="weight 'x' is not a number"):
        model.learn_one({"site": "a"}, 1, "x")  # type: ignore[arg-type]
    assert model.rows == 0


def test_with_a_schema_labels_are_checked_as_well() -> None:
    model = LR()
    model.schema = Schema((Column("site", "category"),))
    with pytest.raises(TypeError, match="label '1' is not a number"):
        model.learn_one({"site": "a"}, "1")  # type: ignore[arg-type]


def test_labels_may_be_numbers_of_numpy() -> None:
    model = LR()
    for label in (np.float32(1), np.int64(0), np.bool_(True), True):
        model.learn_one({"site": "a"}, label)  # type: ignore[arg-type]
    assert model.rows == 4


@pytest.mark.parametrize("rows", [ROWS, Batch.from_rows([([1], [1.0])] * 3), csr_array((3, 2))])
@pytest.mark.parametrize(
    "labels", ["oops", 3, [[1, 0, 1]], ["a", "b", "c"], [None, {}, 1]], ids=repr
)
def test_labels_that_are_no_numbers_are_refused(rows: Any, labels: Any) -> None:
    with pytest.raises(pqrlearn.PqrError, match="labels must be a sequence of numbers, one per"):
        LR().learn_many(rows, labels)


NONSENSE: list[Any] = ["oops", 3, None, 1.5, [], {}, object(), [None], np.zeros(3), b"x"]
BINDING = ("incompatible function arguments", "nanobind", "_core.", "std::", "ndarray[dtype")


@pytest.mark.parametrize("name", [*LEARNERS, "Separation", "Counts", "Batch"])
def test_no_error_speaks_of_the_binding(name: str) -> None:
    makers: dict[str, Callable[[], Any]] = {
        **LEARNERS,
        "Separation": lambda: SEPARATION,
        "Counts": Counts,
        "Batch": lambda: Batch.from_rows([([1], [1.0])]),
    }
    paths = ("load", "from_file", "of_files", "save", "write")  # a number may be an open file
    for method, function in _public(type(makers[name]())):
        needed = [
            p
            for p in inspect.signature(function).parameters.values()
            if p.default is p.empty and p.name not in ("self", "cls") and p.kind <= 1
        ]
        for nonsense in NONSENSE if needed and method not in paths else ():
            thing = makers[name]()
            said = _said(getattr(thing, method), [nonsense] * len(needed))
            assert not any(word in said for word in BINDING), (
                f"{name}.{method}({nonsense!r}): {said}"
            )


def _said(call: Callable[..., Any], arguments: list[Any]) -> str:
    try:
        call(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.parametrize("make", [Batch, Separation], ids=["Batch", "Separation"])
def test_making_things_of_nonsense_speaks_of_them(make: Any) -> None:
    count = 5 if make is Batch else 4
    for nonsense in NONSENSE:
        with pytest.raises((TypeError, ValueError)) as caught:
            make(*[nonsense] * count)
        assert not any(word in str(caught.value) for word in BINDING), str(caught.value)


# Warnings.


def test_a_run_worse_than_a_constant_warns_in_the_library_too() -> None:
    rows = Batch.from_rows([([0], [1.0])] * 1000, labels=[0, 1] * 500)
    learn(LR(alpha=5.0), [rows.part(0, 999)])  # too few to say so
    with pytest.warns(
        UserWarning, match="worse than 0.6931, the best constant's; try a smaller al"
    ):
        learn(LR(alpha=5.0), [rows])


def test_train_warns_as_well(tmp_path: Path) -> None:
    frame = pd.DataFrame({"site": ["a"] * 1000, "click": [0, 1] * 500})
    with pytest.warns(UserWarning, match="the best constant's; try a smaller alpha") as caught:
        model = train(frame, label="click", model="lr", alpha=5.0)
    assert caught[0].filename == __file__
    assert model.run.worse_than_constant()


def test_train_may_hold_out_the_last_rows() -> None:
    frame = pd.DataFrame({"site": ["a", "b"] * 50, "click": [0, 1] * 50})
    model = train(frame, label="click", holdout=0.2)
    assert (model.rows, model.run.rows, model.held_out.rows) == (80, 80, 20)
    assert model.held_out.loss < model.run.loss
    assert train(frame, label="click").held_out is None


# Types.

GOOD = """
from collections.abc import Mapping
import numpy as np
from pqrlearn import FM, LR, PQR, Auto, Batch, Separation, learn, read, train
rows = [{"site": "a", "age": 3.0}]
model = PQR(Separation.top_k(rows), "squared", alpha=0.05)
model.learn_one(rows[0], 1)
model.learn_many(rows, [1])
model.learn_many(rows, np.ones(1), [1.0])
model.predict_many(np.ones((3, 3)))
model.predict_many(Batch.from_rows([([1], [1.0])]))
mapping: Mapping[str, str] = {"site": "a"}
Auto(loss="logistic").predict_one(mapping)
learn(LR(alpha=0.1), read("rows.svm", loss="logistic"))
FM(eta=0.1, rank=4)
train("rows.csv", label="click", model="lr", alpha=0.1)
"""
BAD = {
    'LR().learn_many("oops", 3)': "learn_many",
    "LR().learn_many(rows, 3)": "learn_many",
    "LR().predict_many(3)": "predict_many",
    'LR().predict_many("oops")': "predict_many",
    'LR(loss="logit")': "LR",
    'Auto("logit")': "Auto",
    'FM(loss="logit")': "FM",
    "LR(alhpa=0.1)": "LR",
    "LR().learn_one(3, 1)": "learn_one",
    'LR().learn_one({}, "1")': "learn_one",
    "PQR(order=3)": "PQR",
    "Separation.top_k(3)": "top_k",
    'read("rows.svm", on_bad_row="ignore")': "read",
    'read("rows.svm", format="xml")': "read",
    'train("rows.csv", label="click", model="svm")': "train",
    "train(3)": "train",
    'Ogd(schedule="cubic")': "Ogd",
}


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """What mypy says of each line of the good and the bad examples, in one run."""
    head = "from pqrlearn import Ogd\n"
    path = tmp_path_factory.mktemp("types") / "snippets.py"
    path.write_text(GOOD.lstrip() + head + "\n".join(BAD) + "\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", path.parent / "cache", path]
    found = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert "error" in found.stdout, found.stderr
    lines: dict[int, str] = {}
    for line in found.stdout.splitlines():
        if line.startswith(str(path)):
            lines[int(line.split(":")[1])] = line
    return lines


def test_mypy_takes_what_works(checked: Mapping[int, str]) -> None:
    lines = GOOD.strip().count("\n") + 2
    assert not [text for line, text in checked.items() if line <= lines]


@pytest.mark.parametrize("snippet", BAD)
def test_mypy_rejects_nonsense(checked: Mapping[int, str], snippet: str) -> None:
    line = GOOD.strip().count("\n") + 3 + list(BAD).index(snippet)
    assert BAD[snippet] in checked.get(line, "no error")
