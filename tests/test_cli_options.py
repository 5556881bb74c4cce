"""Options that mean one thing everywhere, options from a file, and the pages of help."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import click
import pytest

import pqrlearn
from command import PQR as COMMAND
from command import SECONDS, clicks, failure, figures, ok, run, write_rows
from pqrlearn import LR, PQR, Separation
from pqrlearn.cli import COMMANDS, pqr
from pqrlearn.cli.page import HEADINGS
from strategies import cut

ROWS = clicks(seed=61)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("options")
    write_rows(folder / "rows.svm", ROWS)
    model = PQR(Separation.top_k(ROWS))
    model.learn_many(ROWS)
    model.save(folder / "model.pqr")
    return folder


def _commands(group: click.Group = pqr, head: str = "") -> list[tuple[str, click.Command]]:
    """All commands, and those of groups."""
    context, found = click.Context(group), []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found += [(f"{head}{name}", command)]
        found += _commands(command, f"{name} ") if isinstance(command, click.Group) else []
    return found


ALL = _commands()


# One thing everywhere.


@pytest.mark.parametrize(
    ("option", "also", "metavar"),
    [
        ("--output", "-o", "FILE"),
        ("--model-file", "-m", "FILE"),
        ("--quiet", "-q", None),
        ("--json", None, None),
        ("--config", None, "FILE"),
    ],
)
def test_an_option_has_the_same_form_in_every_command(
    option: str, also: str | None, metavar: str | None
) -> None:
    users: list[str] = []
    for name, command in ALL:
        for param in command.params:
            if option in param.opts or (also and also in param.opts):
                users.append(name)
                assert param.opts == ([also, option] if also else [option]), name
                assert isinstance(param, click.Option)
                if name != "paper all":  # a folder
                    assert param.metavar == metavar, name
    assert len(users) >= 3


def test_a_short_option_means_one_thing() -> None:
    meanings: dict[str, set[str]] = {}
    for _, command in [("pqr", pqr), *ALL]:
        for param in command.params:
            for name in param.opts:
                if isinstance(param, click.Option) and re.fullmatch("-[a-zA-Z]", name):
                    meanings.setdefault(name, set()).add(max(param.opts, key=len))
    assert all(len(long) == 1 for long in meanings.values()), meanings


def test_the_kind_of_a_model_and_its_file_have_names_of_their_own() -> None:
    for name, command in ALL:
        for param in command.params:
            if "--model" in param.opts:
                assert isinstance(param.type, click.Choice), name


def test_short_options_work(folder: Path) -> None:
    assert ok("-V") == ok("--version")
    given = ["train", folder / "rows.svm", "--model", "lr"]
    assert "LogLoss" in ok(*given, "-q")
    assert ok("predict", "-q", "-m", folder / "model.pqr", folder / "rows.svm")


@pytest.mark.parametrize("word", ["ALL", "All", "all"])
def test_words_may_be_written_in_any_case(folder: Path, tmp_path: Path, word: str) -> None:
    given = ["--model", "PQR", "--loss", "Logistic", "--sample-rows", word]
    given += ["--interaction-scale", {"ALL": "NONE", "All": "None", "all": "none"}[word]]
    ok("train", folder / "rows.svm", *given, "-o", tmp_path / "model")
    assert pqrlearn.load(tmp_path / "model").settings()["interaction_scale"] is None
    found = figures("train", folder / "rows.svm", "--model", "pqr", "--order", "AUTO")
    assert len(found["posterior"]) > 1


def test_advice_names_only_options_that_would_help(folder: Path, tmp_path: Path) -> None:
    rows = tmp_path / "ratings.svm"
    rows.write_text("3 1:1\n")
    assert "--loss squared" in failure(3, "train", rows)
    for command in (["evaluate", "-m"], ["train", "--resume"]):
        said = failure(3, *command, folder / "model.pqr", rows)
        assert "--loss" not in said
        assert said.endswith("--on-bad-row skip skips such rows")


# A run that only measures, and rows that are held out.


def test_a_run_without_output_measures_and_saves_nothing(folder: Path, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.svm", ROWS)
    before = sorted(tmp_path.iterdir())
    out = ok("train", rows, "--model", "lr")
    assert re.search(r"saved as +nothing: -o FILE saves the model", out)
    assert sorted(tmp_path.iterdir()) == before
    found = figures("train", rows, "--model", "lr")
    assert found["output"] is None
    saved = figures("train", rows, "--model", "lr", "-o", tmp_path / "model")
    assert saved["output"] == str(tmp_path / "model")
    assert found["logloss"] == saved["logloss"]


@pytest.mark.parametrize("source", ["file", "stdin", "passes"])
@pytest.mark.parametrize("model", ["lr", "pqr"])
def test_held_out_rows_are_the_last_and_judge_the_finished_model(
    folder: Path, tmp_path: Path, source: str, model: str
) -> None:
    head, tail = cut(ROWS, 0, 320), cut(ROWS, 320, 400)
    write_rows(tmp_path / "head.svm", head)
    write_rows(tmp_path / "tail.svm", tail)
    text = (folder / "rows.svm").read_bytes() if source == "stdin" else b""
    rows = "-" if source == "stdin" else folder / "rows.svm"
    more = ["--passes", 2] if source == "passes" else []
    given = ["--model", model, *more]
    if model == "pqr":  # bytes of text are not rows, so counted rows may differ at the border
        Separation.top_k(head, 5).save(tmp_path / "sep")
        given += ["--separation", tmp_path / "sep"]
    found = figures("train", rows, *given, "--holdout", 0.2, "-o", tmp_path / "a.pqr", stdin=text)
    ok("train", tmp_path / "head.svm", *given, "-o", tmp_path / "b.pqr")
    assert (tmp_path / "a.pqr").read_bytes() == (tmp_path / "b.pqr").read_bytes()
    expected = figures("evaluate", "-m", tmp_path / "b.pqr", tmp_path / "tail.svm")
    assert found["rows"] == 320
    assert found["held_out"]["rows"] == 80
    for name in ("logloss", "auc", "mean_label"):
        assert found["held_out"][name] == pytest.approx(expected[name], abs=0)


@pytest.mark.parametrize("stdin", [False, True])
def test_features_of_held_out_rows_are_not_counted(
    folder: Path, tmp_path: Path, stdin: bool
) -> None:
    text = b"1 1:1\n0 2:1\n" * 100 + b"1 7:1 8:1\n" * 50
    (tmp_path / "rows.svm").write_bytes(text)
    rows = "-" if stdin else tmp_path / "rows.svm"
    given = ["--model", "pqr", "--order", 4, "--holdout", 0.5]
    found = figures("train", rows, *given, stdin=text if stdin else b"")
    assert (found["order"], found["rows"]) == (2, 125)


def test_held_out_figures_stand_beside_the_progressive_ones(folder: Path) -> None:
    out = ok("train", folder / "rows.svm", "--model", "lr", "--holdout", 0.1)
    assert re.search(r"\nrows +360  held out 40 ", out)
    assert re.search(r"progressive LogLoss +0\.\d{5}  held out 0\.\d{5} ", out)


def test_too_few_rows_cannot_be_held_out() -> None:
    said = failure(3, "train", "-", "--holdout", 0.5, stdin=b"1 1:1\n")
    assert said == "1 rows are too few to hold some of them out"


def test_a_checkpoint_cannot_go_on_with_rows_held_out(folder: Path, tmp_path: Path) -> None:
    rows, kept = folder / "rows.svm", tmp_path / "kept"
    ok("train", rows, "--model", "lr", "--checkpoint", kept, "--every", 100)
    said = failure(2, "train", rows, "--resume", kept, "--holdout", 0.1)
    assert said == "--holdout needs a finished model to --resume, no checkpoint"


# Options from a file.


def test_options_may_come_from_a_file_and_those_given_win(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(
        f"""
        model = "lr"
        alpha = 0.5
        l2 = 1
        bias = false
        sample-rows = "all"
        output = "{tmp_path / "model"}"
        """
    )
    ok("train", folder / "rows.svm", "--config", tmp_path / "run.toml", "--alpha", 0.25)
    settings = pqrlearn.load(tmp_path / "model").settings()
    assert settings["bias"] is False
    assert (settings["optimizer"]["alpha"], settings["optimizer"]["l2"]) == (0.25, 1.0)


def test_a_file_may_have_a_table_for_each_command(tmp_path: Path) -> None:
    table = tmp_path / "clicks.csv"
    table.write_text("click,site,day,id\n" + "1,a,x,1\n0,b,y,2\n" * 50)
    model = tmp_path / "clicks.pqr"
    (tmp_path / "pqr.toml").write_text(
        f"""
        [train]
        files = ["{table}"]
        label = "click"
        ignore = ["id", "day"]
        output = "{model}"
        quiet = true
        [predict]
        model-file = "{model}"
        as = "label"
        """
    )
    assert run("train", "--config", tmp_path / "pqr.toml").code == 0
    schema = pqrlearn.load(model).schema
    assert schema is not None
    assert [column.name for column in schema.features] == ["site"]
    out = ok("predict", table, "--config", tmp_path / "pqr.toml")
    assert out.splitlines()[:2] == ["1", "0"]
    (tmp_path / "other.toml").write_text("[predict]\nas = 'label'")
    table_options = ["--label", "click", "-o", tmp_path / "n.pqr", "--quiet"]
    assert run("train", table, *table_options, "--config", tmp_path / "other.toml").code == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("alhpa = 1", "run.toml: pqr train has no option 'alhpa'; did you mean 'alpha'? (see"),
        ("config = 'x'", "run.toml: pqr train has no option 'config'"),
        ("alpha = 'fast'", "Invalid value for '--alpha': 'fast' is not a valid float"),
        ("alpha = [", "run.toml: not TOML: "),
        ("loss = 'hinge'", "'hinge' is not one of"),
    ],
)
def test_a_wrong_file_of_options_is_told_in_one_line(
    folder: Path, tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "run.toml").write_text(text)
    told = failure(2, "train", folder / "rows.svm", "--config", "run.toml", cwd=tmp_path)
    assert said in told
    told = failure(2, "train", folder / "rows.svm", "--config", "missing.toml", cwd=tmp_path)
    assert told.startswith("missing.toml: cannot be read: No such file")


# Help and completion.


@pytest.mark.parametrize("name", ["train", "predict", "evaluate", "tune", "separate", "schema"])
def test_help_has_headings(name: str) -> None:
    out = ok(name, "--help")
    titles = re.findall(r"^(\w+):$", out, re.MULTILINE)
    assert titles == [title for title in [*HEADINGS, "Options"] if title in titles]
    assert len(titles) > 1


def test_every_option_of_train_has_a_heading_and_is_shown_once() -> None:
    command = dict(ALL)["train"]
    known = [name for names in HEADINGS.values() for name in names]
    assert len(set(known)) == len(known)
    lacking = {p.name for p in command.params if isinstance(p, click.Option)} - {*known}
    assert lacking == {"config", "quiet", "as_json"}
    out = ok("train", "--help")
    for param in command.params:
        for option in param.opts if isinstance(param, click.Option) else []:
            assert len(re.findall(rf"^  (-\w, )?{option}\b[ ,/]", out, re.MULTILINE)) <= 1


@pytest.mark.parametrize("columns", [80, 60])
@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_fits_the_terminal(name: str, columns: int) -> None:
    environment = os.environ | {"COLUMNS": str(columns)}
    command = [COMMAND, *([name] if name else []), "--help"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=SECONDS, check=True
    )
    assert max(map(len, done.stdout.splitlines())) <= columns


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete_commands(shell: str) -> None:
    done = subprocess.run(
        [COMMAND],
        env=os.environ | {"_PQR_COMPLETE": f"{shell}_source"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert "_pqr_completion" in done.stdout
    words = {"COMP_WORDS": "pqr tr", "COMP_CWORD": "1" if shell != "fish" else "tr"}
    done = subprocess.run(
        [COMMAND],
        env=os.environ | words | {"_PQR_COMPLETE": f"{shell}_complete"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert "train" in done.stdout


def test_a_learner_of_the_library_takes_the_names_of_the_command(folder: Path) -> None:
    """So that a line of the command can be carried over."""
    found = figures("train", folder / "rows.svm", "--model", "lr", "--alpha", 0.3, "--l2", 0.1)
    assert found["settings"]["optimizer"] == LR(alpha=0.3, l2=0.1).optimizer.settings()
