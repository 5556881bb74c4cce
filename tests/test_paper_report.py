"""The order study and the report, on a simulated stream that is small enough for a test."""

from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from command import figures, ok
from pqrlearn.paper import complexity
from pqrlearn.paper.plan import FULL, QUICK, Plan
from pqrlearn.paper.protocol import Contender, pqr
from pqrlearn.paper.report import Figure, Report, Section, choices, made, markdown_table
from pqrlearn.paper.sources import Source
from pqrlearn.paper.study import GRID, orders, study
from pqrlearn.paper.tables import Table
from pqrlearn.paper.work import Workspace, accuracy
from pqrlearn.plots import Line, Panel

TINY = Source("kdd2012", 5e-6)


def as_if_real(monkeypatch: pytest.MonkeyPatch) -> Source:
    """The rows of TINY, as if they were those of the data set."""
    rows = TINY.rows()
    monkeypatch.setattr(Source, "rows", lambda self: rows)
    monkeypatch.setattr(Source, "title", "KDD2012")
    return Source("kdd2012")


PLAN = Plan(splits=1, repeats=1, trials=2, timings=2)


# The order study.


def test_orders_go_up_to_the_number_of_features() -> None:
    found = orders(TINY)
    assert found[:3] == [10, 30, 100]
    assert found == sorted(set(found))
    assert found[-1] == len({*TINY.rows().batch.indices.tolist()}) < GRID[-1]


def test_the_study_has_a_line_for_every_order_and_panels_for_loss_time_and_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = as_if_real(monkeypatch)
    (table, answer), panels = study(Workspace(None), PLAN, [real])
    assert [line[0] for line in table.rows] == ["LR", *(f"{k:,}" for k in orders(TINY)), "Auto"]
    assert answer.title == "KDD2012: Auto's answer to the question of the order"
    assert answer.data["regret"] <= answer.data["bound"]
    assert 0 <= answer.data["frequent"] <= 1
    assert answer.data["high"] > 0
    losses = {line[0]: line[1] for line in table.rows}
    tests = {point["title"]: f"{point['loss']:.4f}" for point in table.data}
    assert losses["LR"] == tests["LR"]
    assert losses["Auto"] == tests["Auto"] != tests["LR"]
    assert [panel.y_label for panel in panels] == [
        "test LogLoss",
        "training time × LR",
        "non-zeros",
    ]
    linear, _, none, default = panels[2].lines
    assert [line.name for line in panels[2].lines] == ["LR", "Auto", "PQR (none)", "PQR (default)"]
    assert list(none.x) == list(default.x) == orders(TINY)
    assert len({*linear.y}) == 1
    assert [point["nonzeros"] for point in table.data if point["scale"] == "none"] == list(none.y)


def test_the_error_bars_of_losses_are_those_of_all_splits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, plan = as_if_real(monkeypatch), replace(PLAN, splits=3)
    (table, _), panels = study(Workspace(None), plan, [real])
    k = orders(TINY)[0]
    entries = [(real, Contender("LR", "lr")), (real, pqr(k, "none"))]
    linear, mine = accuracy(Workspace(None), plan, entries, tuned=1)
    losses = [result["tests"][0]["logloss"] for result in mine]
    paired = [a - b["tests"][0]["logloss"] for a, b in zip(losses, linear, strict=True)]
    line = next(line for line in panels[0].lines if line.name == "PQR (none)")
    assert len(losses) == 3
    assert line.y[0] == pytest.approx(sum(losses) / 3)
    assert line.spread is not None
    assert line.spread[0] == pytest.approx(np.std(paired, ddof=1) / math.sqrt(3))
    assert "means over 3 splits, tuned on the first" in table.notes[1]


def test_the_study_of_a_simulated_stream_shows_no_loss() -> None:
    (table,), panels = study(Workspace(None), PLAN, [TINY])
    assert table.columns[:3] == ["k", "time × LR (none)", "non-zeros (none)"]
    assert not any("loss" in name for point in table.data for name in point)
    assert [panel.y_label for panel in panels] == ["training time × LR", "non-zeros"]


# Complexity.


def test_the_complexity_table_measures_every_letter_of_the_papers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(complexity, "ROWS", 200)
    paper, *measured = complexity.tables(Workspace(None))
    assert ["PQR", "O(nd + nk²)", "O(d + k²)"] in list(paper.rows)
    assert [table.name for table in measured] == [f"complexity {x}" for x in "dsmk"]
    ranks = measured[2].data
    assert [cell["m"] for cell in ranks] == [4, 16, 64]
    sizes = [cell["models"]["fm"]["nonzeros"] for cell in ranks]
    assert (sizes[1] - sizes[0]) * 4 == sizes[2] - sizes[1]  # d (1 + m), so linear in m


# The report.


def report() -> Report:
    table = Table(
        "a <table>", "RMSE <here>", ["", "k & m"], [["LR", "1.0"]], ["note <1>"], {"x": 1}
    )
    panel = Panel("a panel", "x", "y", [Line("line", [1, 2], [3, 4])])
    section = Section(
        "One", [table], [Figure("a-figure", "what it shows", [panel])], "words & more"
    )
    return Report([section], choices(FULL, quick=False), made("pqr paper all", 12.0, 3))


class Tags(HTMLParser):
    """Opens and closes, and what a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "path", "use", "br"):
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href") and not str(value).startswith("#"):
                self.fetched.append(str(value))

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.cells.append(data)


def test_the_page_is_whole_and_needs_no_other_file(tmp_path: Path) -> None:
    report().save(tmp_path)
    page = (tmp_path / "report.html").read_text()
    tags = Tags()
    tags.feed(page)
    assert not tags.fetched
    assert {"LR", "1.0", "k & m"} <= {*tags.cells}
    assert "RMSE &lt;here&gt;" in page
    assert "note &lt;1&gt;" in page
    svg = page[page.index("<svg") : page.index("</svg>") + 6]
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert not re.search(
        r"https?://(?!www\.w3\.org|purl\.org|creativecommons\.org|matplotlib)", page
    )


def test_everything_is_saved_in_every_form(tmp_path: Path) -> None:
    paths = report().save(tmp_path / "new" / "folder")
    names = ["report.html", "tables.md", "results.json", "a-figure.png", "a-figure.svg"]
    assert [path.name for path in paths] == names
    assert all(path.is_file() for path in paths)
    data = json.loads(paths[2].read_text())
    assert data["tables"]["a <table>"]["data"] == {"x": 1}
    assert data["made"]["command"] == "pqr paper all"
    assert "\nFigure `a-figure.svg`: what it shows.\n" in paths[1].read_text()


def test_how_where_and_when_are_said() -> None:
    text = report().markdown()
    for word in ("pqr paper all", "commit", "cores", "12 seconds; 3 cells came from earlier runs"):
        assert word in text


def test_a_quick_run_says_that_it_is_one() -> None:
    assert "QUICK" in choices(QUICK, quick=True)[0]
    assert not any("QUICK" in choice for choice in choices(FULL, quick=False))
    assert choices(FULL, quick=False, finished=True)[0].startswith("NOT ALL OF IT")
    assert any("20 (ml-1m 5, ml-10m 5) seeds" in choice for choice in choices(FULL, quick=False))


def test_a_markdown_table_has_a_cell_for_every_column() -> None:
    table = Table("t", "Title", ["", "here"], [["LR", "1.0"], ["FM", "2.0"]], ["a note"])
    title, _, *lines = markdown_table(table).splitlines()
    assert title == "**Title**"
    assert lines[:4] == ["|  | here |", "| :-- | --: |", "| LR | 1.0 |", "| FM | 2.0 |"]
    assert lines[-1] == "a note"


# The commands.

GIVEN = ("--simulated", "--fraction", "5e-6", "--data", "kdd2012", "--quick", "--splits", 1)
SMALL = ("--repeats", 1, "--trials", 2, "--jobs", 1)


def test_the_study_is_drawn_where_it_is_wanted(tmp_path: Path) -> None:
    given = ("paper", "study", *GIVEN, *SMALL, "--cache", tmp_path / "cache")
    found = figures(*given)
    assert [*found["tables"]] == ["study kdd2012 simulated"]


def test_all_of_it_in_one_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PQRLEARN_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    given = ("paper", "all", *GIVEN, *SMALL, "-o", tmp_path / "report")
    out = ok(*given)
    assert "KDD2012: not measured" in out
    assert "KDD2012, simulated: what the order changes" in out
    assert out.rstrip().endswith("order-study.svg")
    page = (tmp_path / "report" / "report.html").read_text()
    assert "THIS IS A QUICK RUN" in page
    again = figures(*given)
    assert again["made"]["cells_from_earlier_runs"] > 0
    assert "simulated" in json.dumps([*again["tables"]])


def test_a_report_without_finished_cells_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PQRLEARN_DATA", str(tmp_path))
    monkeypatch.setattr(complexity, "ROWS", 200)
    done = ("--finished", "--cache", tmp_path / "cache", "-o", tmp_path / "report")
    out = ok("paper", "all", *GIVEN, *SMALL, *done)
    assert "NOT ALL OF IT WAS MEASURED" in out
    assert "not finished: LR, FM (AdaGrad)" in out
    assert "KDD2012, simulated: not finished" in out
    assert not (tmp_path / "report" / "order-study.svg").exists()
