"""pqr report: one page with all figures of a model, and the figures one by one."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pqrlearn
from command import clicks, failure, figures, ok, run, write_rows
from pqrlearn import FM, LR, QR, Auto, Batch, Mixture, plots
from pqrlearn.errors import MissingExtra
from pqrlearn.loss import loss_named
from pqrlearn.report import Report, report
from pqrlearn.report.gather import gather, untaught

SITES = ["news", "shop", "games", "mail", "video", "maps", "blog", "wiki"]
HOSTILE = '<script>alert("x")</script>'


def table(rows: int = 2000) -> pd.DataFrame:
    """Clicks that depend on the site and on pairs of site and hour."""
    chance = np.random.default_rng(7)
    sites, hours = chance.integers(0, 8, rows), chance.integers(0, 6, rows)
    margins = 0.5 * (sites - 4) + 2.0 * ((sites + hours) % 3 == 0) - 1.0
    return pd.DataFrame(
        {
            "click": (chance.random(rows) < 1 / (1 + np.exp(-margins))).astype(int),
            "site": [SITES[site] for site in sites],
            "hour": [f"h{hour}" for hour in hours],
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("report")
    table().to_csv(made / "clicks.csv", index=False)
    ok("train", made / "clicks.csv", "--label", "click", "-o", made / "clicks.pqr", "--json")
    given = ("report", "-m", made / "clicks.pqr", made / "clicks.csv", "-o", made / "report.html")
    (made / "printed.txt").write_text(ok(*given, "--figures", made / "figures", "--dark"))
    return made


class Page(HTMLParser):
    """What a page would fetch, run and show."""

    VOID = ("meta", "br", "path", "use", "img")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.fetched: list[str] = []
        self.anchors: list[str] = []
        self.targets: list[str] = []
        self.handlers: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            text = str(value)
            if name in ("src", "href", "xlink:href", "srcset", "data", "action"):
                (self.anchors if text.startswith("#") else self.fetched).append(text)
            if name.startswith("on"):
                self.handlers.append(name)
            if name == "id":
                self.targets.append(text)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def checked(text: str) -> Page:
    """A page that is whole and safe, and needs no other file."""
    page = Page(text)
    assert page.open == []
    assert page.fetched == []
    assert page.handlers == []
    assert "script" not in page.tags
    assert {anchor[1:] for anchor in page.anchors} <= {*page.targets}
    assert len(page.targets) == len({*page.targets})
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    assert not re.search(r"https?:", re.sub(r'xmlns(:xlink)?="[^"]+"', "", text))
    for element in re.findall(r"<svg .*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(element)
    return page


def names_of(found: Report) -> list[str]:
    return [one.name for one in found.figures]


# The page.


def test_the_command_writes_a_page_with_every_figure(folder: Path) -> None:
    text = (folder / "report.html").read_text()
    page = checked(text)
    names = [
        *("learning-curve", "reliability", "predictions", "roc", "lift", "strongest-features"),
        *("strongest-interactions", "pairs-of-fields", "pairs-of-features", "occurrence", "worst"),
    ]
    assert text.count("<svg ") == len(names) == text.count("<figcaption>")
    for name in names:
        assert f'id="{name}-figure_1"' in text
        for form in ("png", "svg"):
            assert (folder / "figures" / f"{name}.{form}").stat().st_size > 1000
    written = {str(path) for path in (folder / "figures").iterdir()}
    printed = (folder / "printed.txt").read_text()
    assert {*printed.split()} == {str(folder / "report.html"), *written}
    assert plots.DARK.paper in (folder / "figures" / "roc.svg").read_text()
    contents = text[text.index("<nav") : text.index("</nav>")]
    assert contents.count("<li>") == len(names)
    assert "auto on clicks.csv" in "".join(page.words)


def test_the_page_says_what_evaluate_says(folder: Path) -> None:
    given = ("-m", folder / "clicks.pqr", folder / "clicks.csv")
    expected = figures("evaluate", *given)
    words = checked((folder / "report.html").read_text()).words
    for key in ("logloss", "constant_logloss", "auc", "mean_label", "mean_prediction"):
        assert f"{expected[key]:.5f}" in words


def test_two_reports_on_the_same_rows_are_the_same_bytes(folder: Path) -> None:
    ok("report", "-m", folder / "clicks.pqr", folder / "clicks.csv", "-o", folder / "again.html")
    assert (folder / "report.html").read_bytes() == (folder / "again.html").read_bytes()


def test_the_model_is_not_changed_by_a_report(folder: Path) -> None:
    model = pqrlearn.load(folder / "clicks.pqr")
    before = model.to_bytes()
    assert report(model, folder / "clicks.csv").figures
    assert model.to_bytes() == before


def test_a_limit_on_rows_is_said(folder: Path) -> None:
    given = ("-m", folder / "clicks.pqr", folder / "clicks.csv", "--rows", 300)
    ok("report", *given, "-o", folder / "few.html")
    assert "the first 300 rows" in "".join(checked((folder / "few.html").read_text()).words)


def test_names_of_strangers_are_text(tmp_path: Path) -> None:
    frame = table(600)
    frame[HOSTILE] = frame["site"].replace(
        {
            "news": '"><img src=x onerror=alert(1)>',
            "shop": "$\\frac{1}{0$ $",
            "games": "-->]]></svg><script>",
            "mail": "\u202enever\u2067\x07",
            "wiki": "日本語 😀",
        }
    )
    frame = frame.drop(columns="site")
    path = tmp_path / "<b onclick=x>&.csv"
    frame.to_csv(path, index=False)
    ok("train", path, "--label", "click", "-o", tmp_path / "model.pqr", "--json")
    ok("report", "-m", tmp_path / "model.pqr", path, "-o", tmp_path / "page.html")
    page = checked((tmp_path / "page.html").read_text())
    words = "".join(page.words)
    assert f'{HOSTILE}="><img src=x onerror=alert(1)>' in words
    assert "<b onclick=x>&.csv" in words
    assert "img" not in page.tags
    assert "b" not in page.tags


# Models and losses.


def learners(batch: Batch) -> dict[str, Any]:
    separation = pqrlearn.Separation.top_k(batch, order=4)
    return {
        "auto": Auto(),
        "pqr": pqrlearn.PQR(separation),
        "lr": LR(),
        "qr": QR(),
        "fm": FM(rank=2),
        "difacto": pqrlearn.DiFacto(),
        "cfm": pqrlearn.CFM(),
        "ccfm": pqrlearn.CCFM(),
        "mixture": Mixture([LR(), pqrlearn.PQR(separation)]),
        "frozen": Auto(),
    }


@pytest.mark.parametrize("kind", learners(clicks(seed=1, rows=50)))
def test_every_kind_of_model_has_a_report(kind: str) -> None:
    rows = clicks(seed=1, rows=500)
    model = learners(rows)[kind]
    model.learn_many(rows)
    model = model.frozen() if kind == "frozen" else model
    found = report(model, [rows])
    checked(found.html())
    names = names_of(found)
    assert {"learning-curve", "reliability", "roc", "lift", "occurrence"} <= {*names}
    assert ("pairs-of-features" in names) == ("pair" in model.blocks)
    caption = found.figures[0].caption
    assert ("does not learn" in caption) == (kind == "frozen")


@pytest.mark.parametrize("loss", ["squared", "poisson"])
def test_ratings_and_counts_have_residuals_instead_of_a_roc_curve(loss: Any) -> None:
    rows = clicks(seed=2, rows=800)
    rows = replace(rows, labels=np.round(3 * rows.labels + np.random.default_rng(0).random(800)))
    model = pqrlearn.PQR(pqrlearn.Separation.top_k(rows), loss)
    model.learn_many(rows)
    found = report(model, [rows])
    words = "".join(checked(found.html()).words)
    assert {"residuals", "reliability", "lift"} <= {*names_of(found)}
    assert "roc" not in names_of(found)
    assert "Predicted against observed" in words


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_rows_of_one_label_have_a_page_without_a_roc_curve(label: float) -> None:
    rows = replace(clicks(seed=2, rows=60), labels=np.full(60, label))
    found = report(LR(), [rows])
    checked(found.html())
    assert "roc" not in names_of(found)


def test_one_row_has_a_page() -> None:
    model = Auto()
    model.learn_one({"site": "news"}, 1)
    checked(report(model, Batch.from_rows([([0], [1.0])], labels=[1])).html())


# What is drawn.


@pytest.mark.parametrize("kind", ["auto", "pqr", "lr"])
def test_the_learning_curve_ends_where_training_ends(folder: Path, kind: str) -> None:
    given = (folder / "clicks.csv", "--label", "click")
    path = folder / f"{kind}-curve.pqr"
    trained = {
        one: figures("train", *given, "--model", one, "-o", folder / f"{one}-curve.pqr")
        for one in {kind, "lr"}
    }
    curve = dict(report(pqrlearn.load(path), folder / "clicks.csv").figures[0].rows)
    assert curve.pop(f"{kind}, from the start") == f"{trained[kind]['logloss']:.5f}"
    assert curve.pop("best constant") == f"{trained['lr']['constant_logloss']:.5f}"
    if kind != "lr":
        assert curve.pop("lr") == f"{trained['lr']['logloss']:.5f}"
    assert curve == {}


def test_the_worst_values_are_those_of_a_group_by(folder: Path) -> None:
    frame, model = table(), pqrlearn.load(folder / "clicks.pqr")
    found = report(model, frame)
    worst = {name: line for name, *line in found.figures[-1].rows}
    frame["loss"] = loss_named("logistic").loss(model.margin_many(frame), frame["click"].to_numpy())
    for column in ("site", "hour"):
        groups = frame.groupby(column)
        for value, mean in groups["loss"].mean().items():
            line = worst.pop(f"{column}={value}", None)
            assert (line is not None) == (mean > frame["loss"].mean())
            if line is not None:
                rate = groups["click"].mean()[value]
                entropy = -rate * np.log(rate) - (1 - rate) * np.log(1 - rate)
                count = f"{groups.size()[value]:,}"
                assert line == [f"{mean:.4f}", f"{entropy:.4f}", count]
    assert worst == {}


@pytest.mark.parametrize("loss", ["logistic", "squared", "poisson"])
def test_constants_of_features_are_the_best_for_their_rows(loss: Any) -> None:
    rows = clicks(seed=6, rows=300)
    found = gather(LR(loss), [rows.part(0, 100), rows.part(100, 300)])
    features, record = found.features, loss_named(loss)
    constants = features.constants(record)
    mean, error = features.mean_losses()
    row_of = np.repeat(np.arange(300), np.diff(rows.indptr))
    for at, feature in enumerate(features.features.tolist()):
        mine = row_of[rows.indices == feature]
        labels, weights = rows.labels[mine], rows.weights[mine].astype(float)
        best = min(
            np.average(record.loss(np.full(len(mine), margin), labels), weights=weights)
            for margin in np.linspace(-6, 6, 2001)
        )
        assert constants[at] == pytest.approx(best, abs=0.01)
        losses = found.losses[mine]
        assert mean[at] == pytest.approx(np.average(losses, weights=weights))
        spread = np.average((losses - mean[at]) ** 2, weights=weights)
        effective = weights.sum() ** 2 / (weights**2).sum()
        assert error[at] == pytest.approx(np.sqrt(spread / effective), abs=1e-7)


def test_a_new_model_of_a_kind_has_its_settings() -> None:
    rows = clicks(seed=1, rows=50)
    for kind, model in learners(rows).items():
        if kind not in ("mixture", "frozen"):
            fresh, copy = untaught(model), model.to_bytes()
            assert fresh is not None
            fresh.use_names(model.names)
            assert fresh.to_bytes() == copy
    assert untaught(LR().frozen()) is None


# Doors and errors.


def test_a_path_a_frame_and_batches_are_the_same_rows(folder: Path) -> None:
    model = pqrlearn.load(folder / "clicks.pqr")
    rows = pqrlearn.read(folder / "clicks.csv", schema=model.schema, loss="logistic")
    rows.use_names(model.names, model.next_feature)
    given: list[Any] = [folder / "clicks.csv", [str(folder / "clicks.csv")], table(), rows]
    found = [report(model, data, source="clicks") for data in given]
    assert len({str(one.summary) for one in found}) == 1
    assert len({str([figure.rows for figure in one.figures]) for one in found}) == 1


def test_a_row_that_is_too_large_is_skipped_if_that_is_wanted(tmp_path: Path) -> None:
    good = clicks(seed=3, rows=100)
    huge = Batch.from_rows([([0, 1], [3e38, 3e38])], labels=[1])
    path = write_rows(tmp_path / "rows.svm", good, huge, good)
    ok("train", write_rows(tmp_path / "good.svm", good), "-o", tmp_path / "m.pqr")
    given = ("report", "-m", tmp_path / "m.pqr", path, "-o", tmp_path / "r.html")
    assert "too large" in failure(3, *given)
    assert not (tmp_path / "r.html").exists()
    result = run(*given, "--on-bad-row", "skip")
    assert (result.code, "1 bad row was skipped" in result.err) == (0, True)
    assert "200" in Page((tmp_path / "r.html").read_text()).words


def test_names_beside_a_row_that_is_skipped_are_kept(tmp_path: Path) -> None:
    (tmp_path / "old.vw").write_text("1 | old\n-1 | older\n" * 50)
    (tmp_path / "new.vw").write_text("1 | huge:3e38 large:3e38\n" + "-1 | newcomer\n1 | old\n" * 50)
    ok("train", tmp_path / "old.vw", "-o", tmp_path / "m.pqr")
    model = pqrlearn.load(tmp_path / "m.pqr")
    rows = pqrlearn.read(tmp_path / "new.vw", loss="logistic")
    rows.use_names(model.names, model.next_feature)
    found = report(model, rows, skip_refused=True)
    assert found.found.refused == 1
    names = {found.found.name_of(one) for one in found.found.features.features.tolist()}
    assert names == {"old", "newcomer"}


def test_what_cannot_be_written_is_said_first(folder: Path) -> None:
    given = ("report", "-m", folder / "clicks.pqr", folder / "clicks.csv")
    assert "is an input" in failure(2, *given, "-o", folder / "clicks.csv")
    assert "is an input" in failure(2, *given, "-o", folder / "clicks.pqr")
    assert "--dark needs --figures" in failure(2, *given, "-o", folder / "x.html", "--dark")
    assert "no-folder" in failure(1, *given, "-o", folder / "no-folder" / "x.html")


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r'pip install "pqrlearn\[plots\]"'):
        report(LR(), clicks(seed=1, rows=10))


def test_no_rows_and_rows_without_weight_are_errors() -> None:
    with pytest.raises(pqrlearn.PqrError, match="no rows"):
        report(LR(), [])
    rows = clicks(seed=1, rows=10)
    with pytest.raises(pqrlearn.PqrError, match="weight 0"):
        report(LR(), replace(rows, weights=np.zeros(10, np.float32)))
