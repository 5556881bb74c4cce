"""Pages in a real browser: they load without complaint, fit the screen, follow its colours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from browser import Browser, browser
from pqrlearn import Auto, Batch, plots
from pqrlearn.paper.plan import FULL
from pqrlearn.paper.report import Figure, Report, Section, choices, made
from pqrlearn.paper.tables import Table
from pqrlearn.plots import Line, Panel
from pqrlearn.report import report


def own_model(folder: Path) -> Path:
    """A report on a model whose names are as long as names can be."""
    chance = np.random.default_rng(0)
    sites = [f"https://example.org/{'long/' * 9}{site}" for site in range(40)]
    rows = [{"site": sites[chance.integers(0, 40)], "hour": f"{n % 24}"} for n in range(1500)]
    labels = (chance.random(1500) < 0.3).astype(int).tolist()
    model = Auto()
    model.learn_many(rows, labels)
    numbers = [{model.names.find(f"{k}={v}"): 1.0 for k, v in row.items()} for row in rows]
    batch = Batch.from_rows([([*row], [*row.values()]) for row in numbers], labels=labels)
    report(model, batch, source="a" * 300).save(folder / "own.html")
    return folder / "own.html"


def paper(folder: Path) -> Path:
    """The paper's report, with a table as wide as the one of clicks."""
    line = Line("PQR (default)", [10, 100, 1000], [0.3, 0.2, 0.1], spread=[0.01, 0.02, 0.01])
    panels = [Panel("Criteo, simulated", "order k", "LogLoss", [line], x_axis="log")] * 6
    columns = ["", "AUC paper", "here", "± seeds", "LogLoss paper", "here", "± seeds", "here − LR"]
    columns += ["±", "time × LR paper", "here", "non-zeros paper", "here"]
    cells = ["0.7968 ± 1.9e-04", "0.6270", "1.2e-04", "0.1535 ± 5.1e-05", "0.4493", "5.1e-05"]
    cells += ["+0.0140", "1.2e-04", "118.4", "110.8", "91,600,000", "91,600,000"]
    table = Table("t", "Clicks", columns, [["PQR k=8000 (default)", *cells]])
    section = Section("Clicks", [table], [Figure("order", "the order", panels)])
    Report([section], choices(FULL, quick=False), made("pqr paper all", 1.0, 0)).save(folder)
    return folder / "report.html"


@pytest.fixture(scope="module", params=[own_model, paper], ids=["own", "paper"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = request.param(tmp_path_factory.mktemp("pages"))
    return path


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_a_page_loads_fits_and_follows_the_colours(
    page: Path, width: int, dark: bool, window: Browser
) -> None:
    window.open(page, width, dark=dark)
    assert window.errors() == []
    assert window.run("return window.innerWidth") == width
    assert window.run("return document.documentElement.scrollWidth") <= width
    assert window.run("return document.querySelectorAll('figure svg').length") > 0
    theme = plots.DARK if dark else plots.LIGHT
    for element, key, colour in (
        ("document.body", "backgroundColor", theme.paper),
        ("document.body", "color", theme.ink),
        (
            """document.querySelector('figure svg [style*="fill: var(--ink"]')""",
            "fill",
            theme.ink,
        ),
    ):
        red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
        found = window.run(f"return getComputedStyle({element}).{key}")
        assert found == f"rgb({red}, {green}, {blue})"
    loaded = window.run("return performance.getEntriesByType('resource').length")
    assert loaded == 0, "a page fetches nothing"
    if width == 1280:
        hidden = "one => one.scrollWidth > one.clientWidth"
        every = "[...document.querySelectorAll('.scrolled')]"
        assert window.run(f"return {every}.filter({hidden}).length") == 0
    lost = window.run(
        "return [...document.querySelectorAll('nav a')].filter("
        "a => !document.getElementById(a.hash.slice(1))).length"
    )
    assert lost == 0
