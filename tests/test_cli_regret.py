"""pqr paper regret, on rows made here and on the real ones where they are."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pqrlearn import Batch, datasets
from pqrlearn.cli.regret import regret
from pqrlearn.datasets.clicks import ClickStream
from pqrlearn.errors import DataError, HyperError

REAL = Path(os.environ.get("PQRLEARN_DATA") or Path(__file__).parents[2] / "shared/data")
STREAM = ClickStream(fields=6, features=80, click_rate=0.3, interactions=10, pair_share=0.01)


@dataclass(frozen=True)
class Made:
    """A data set that is made on the spot."""

    title = "Made clicks"
    loss = "logistic"
    rows = 1500

    def read(self) -> Iterator[Batch]:
        return STREAM.batches(self.rows, batch_rows=400)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "get", lambda name: Made())


def out(*arguments: object) -> str:
    done = CliRunner().invoke(regret, [*map(str, arguments)], catch_exceptions=False)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


def figures(*arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(out(*arguments, "--json"))
    return found


def check(found: dict[str, Any]) -> None:
    """The average regret falls, and Theorem 1 holds."""
    points = found["points"]
    for name in ("ogd", "ftrl-general", "ftrl"):
        averages = [point["average_regret"][name] for point in points]
        assert all(before > after for before, after in pairwise(averages))
    for point in points:
        bounds = point["theorem"]["bound"], point["theorem"]["worst"]
        assert point["regret"]["ftrl-general"] <= bounds[0] <= bounds[1]
        assert point["length"] <= found["radius"] * (1 + 1e-9)


@pytest.mark.usefixtures("made")
def test_the_figures_of_made_rows() -> None:
    found = figures("made", "--radius", 3, "--order", 12, "--points", 4)
    check(found)
    assert (found["data"], found["rows"], found["order"], found["radius"]) == ("made", 1500, 12, 3)
    assert [point["rows"] for point in found["points"]] == [100, 247, 608, 1500]
    assert [each["name"] for each in found["optimizers"]] == ["ogd", "ftrl"]
    assert found["interaction_scale"] is None  # the paper's model
    assert [point["rows"] for point in found["experts"]] == [100, 247, 608, 1500]
    assert all(point["regret"] <= point["bound"] for point in found["experts"])


@pytest.mark.parametrize("name", ["ml-100k", "criteo"])
def test_the_figures_of_real_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PQRLEARN_DATA", str(REAL))
    if not datasets.get(name).present():
        pytest.skip(f"{name} is not in $PQRLEARN_DATA")
    order = {"ml-100k": 100, "criteo": 20}[name]
    check(figures(name, "--radius", 5, "--order", order, "--rows", 2000, "--points", 5))


@pytest.mark.usefixtures("made")
def test_rows_and_optimizers_can_be_chosen() -> None:
    found = figures("made", "--rows", 500, "--points", 1, "--optimizers", "ftrl", "--alpha", 0.3)
    (point,) = found["points"]
    assert point["rows"] == 500
    assert list(point["regret"]) == ["ftrl"]
    assert point["theorem"] is None
    assert found["optimizers"][0]["alpha"] == 0.3
    whole = figures("made", "--rows", "all", "--points", 1, "--interaction-scale", 0.5)
    assert (whole["points"][0]["rows"], whole["interaction_scale"]) == (1500, 0.5)


@pytest.mark.usefixtures("made")
def test_people_see_two_tables_and_the_constants() -> None:
    text = out("made", "--radius", 3, "--order", 12, "--points", 3)
    assert "regret_T: Made clicks, 1,500 rows, order 12, ‖θ‖ ≤ 3, logistic loss, inter" in text
    assert "interactions as in the paper" in text
    assert "Auto against its experts: Made clicks, 1,500 rows" in text
    assert "regret_T / T: Made clicks" in text
    for column in ("OGD", "FTRL", "FTRL-Proximal", "Theorem 1", "worst case", "best loss"):
        assert text.count(f" {column} ") == 2 or column == "FTRL"
    assert "FTRL at T = 1,500: D_R = 2.121, G_R = " in text


@pytest.mark.usefixtures("made")
def test_the_curves_are_drawn(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        regret, ["made", "--points", "2", "--order", "5", "--figure", str(tmp_path / "regret")]
    )
    assert done.exit_code == 0
    assert (tmp_path / "regret.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "regret.svg").read_bytes()
    assert done.stderr.count("drawn as") == 2


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--optimizers", "ftrl,adam"], "'adam' is not one of ftrl, ogd, ftrl-general"),
        (["--points", "0"], "Invalid value for '--points'"),
        (["--rows", "none"], "'none' is neither 'all' nor a whole number"),
    ],
)
def test_wrong_options_are_named(flags: list[str], said: str) -> None:
    done = CliRunner().invoke(regret, ["made", *flags])
    assert done.exit_code == 2
    assert said in done.stderr


@pytest.mark.usefixtures("made")
def test_a_ball_without_room_is_refused() -> None:
    with pytest.raises(HyperError, match=r"radius=0.0 must be a number > 0"):
        out("made", "--radius", 0, "--points", 1)


def test_a_name_that_is_none_is_answered_with_those_that_are() -> None:
    with pytest.raises(DataError, match="ml-100k"):
        out("ml-100")
