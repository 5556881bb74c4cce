"""pqr predict through a pipe: a row is answered when it comes; ids and formats of answers."""

from __future__ import annotations

import csv
import io
import json
import os
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from command import PQR as COMMAND
from command import failure, ok, run
from pqrlearn import LR, load, train

ANSWER_SECONDS = 120  # a loaded machine may take its time, but not this long
TABLE = "user,site,hour,click\n" + "".join(
    f"u{n},{site},{n % 24},{int(site == 'news')}\n" for n in range(300) for site in ("news", "shop")
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """clicks.pqr has learned a table, rows.pqr numbered rows."""
    folder = tmp_path_factory.mktemp("stream")
    (folder / "clicks.csv").write_text(TABLE)
    model = train(folder / "clicks.csv", label="click", ignore="user", categories="hour")
    model.save(folder / "clicks.pqr")
    numbered = LR()
    numbered.learn_many([{1: 1.0}, {2: 1.0}] * 50, [1, 0] * 50)
    numbered.save(folder / "rows.pqr")
    return folder


@contextmanager
def listening(*arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    command, pipe = [COMMAND, "predict", *map(str, arguments)], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def ask(process: subprocess.Popen[bytes], text: str, lines: int = 1) -> list[str]:
    """Sends some text, and waits for so many lines; the pipe stays open."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(text.encode())
    process.stdin.flush()
    found = b""
    while found.count(b"\n") < lines:
        ready, _, _ = select.select([process.stdout], [], [], ANSWER_SECONDS)
        assert ready, "no answer"
        piece = os.read(process.stdout.fileno(), 1 << 16)
        assert piece, process.stderr and process.stderr.read()
        found += piece
    return found.decode().splitlines()


FORMS = {
    "libsvm": ("rows.pqr", [], "", ["0 1:1\n", "0 2:1\n"]),
    "short libsvm": ("rows.pqr", [], "", ["1\n", "0\n"]),
    "vw": ("rows.pqr", ["--format", "vw"], "", ["| 1\n", "| 2:0.5\n"]),
    "jsonl": (
        "clicks.pqr",
        ["--format", "jsonl", "--other-columns", "accept"],
        "",
        ['{"site": "news", "hour": "3"}\n', '{"site": "shop", "hour": "4"}\n'],
    ),
    "csv": ("clicks.pqr", ["--format", "csv"], "site,hour\n", ["news,3\n", "shop,4\n"]),
    "quoted csv": (
        "clicks.pqr",
        ["--format", "csv"],
        "site,hour\n",
        ['"news",3\n', '"shop",4\n', "news,5\n", '"a\nb",6\n'],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_row_on_a_pipe_is_answered_when_it_comes(folder: Path, form: str) -> None:
    name, options, head, rows = FORMS[form]
    answers = []
    with listening("-m", folder / name, "-", *options) as process:
        for row in rows:
            answers += ask(process, head + row)
            head = ""
        assert process.poll() is None
    assert len(answers) == len(rows)
    head = FORMS[form][2]
    assert (
        answers
        == ok(
            "predict", "-m", folder / name, "-", *options, stdin=(head + "".join(rows)).encode()
        ).splitlines()
    )


def test_a_quote_that_stays_open_on_a_pipe_is_an_error(folder: Path) -> None:
    """Also if another one, within a cell, makes their number even."""
    rows = b'site,hour\nnews,5"\nshop,"4\n'
    found = run("predict", "-m", folder / "clicks.pqr", "-", "--format", "csv", stdin=rows)
    assert found.code == 3
    assert "a quote is not closed before the file ends" in found.err


def test_ids_are_echoed_while_the_pipe_is_open(folder: Path) -> None:
    given = ["--format", "csv", "--id", "user", "--to", "jsonl"]
    with listening("-m", folder / "clicks.pqr", "-", *given) as process:
        (first,) = ask(process, "user,site,hour\nann,news,3\n")
        assert json.loads(first)["user"] == "ann"
        (second,) = ask(process, "ben,shop,3\n")
        assert json.loads(second)["user"] == "ben"
        assert json.loads(second)["prediction"] < 0.5 < json.loads(first)["prediction"]


ROWS = b"user,site,hour\n7,news,3\n\xc3\xa4 b,shop,4\n"


def test_answers_may_be_lines_csv_or_json_lines(folder: Path) -> None:
    given = ["predict", "-m", folder / "clicks.pqr", "-", "--format", "csv", "--id", "user"]
    model = load(folder / "clicks.pqr")
    rows = [{"site": "news", "hour": "3"}, {"site": "shop", "hour": "4"}]
    expected = [f"{value:.9g}" for value in model.predict_many(rows)]
    lines = ok(*given, stdin=ROWS).splitlines()
    assert lines == [f"7\t{expected[0]}", f"ä b\t{expected[1]}"]
    cells = list(csv.reader(io.StringIO(ok(*given, "--to", "csv", stdin=ROWS))))
    assert cells == [["user", "prediction"], ["7", expected[0]], ["ä b", expected[1]]]
    found = [json.loads(line) for line in ok(*given, "--to", "jsonl", stdin=ROWS).splitlines()]
    assert found == [
        {"user": "7", "prediction": float(expected[0])},
        {"user": "ä b", "prediction": float(expected[1])},
    ]
    assert ok(*given, "--to", "csv", "--as", "label", stdin=ROWS).splitlines() == [
        "user,label",
        "7,1",
        "ä b,0",
    ]


def test_formats_need_no_id(folder: Path) -> None:
    given = ["predict", "-m", folder / "rows.pqr", "-", "--as", "label"]
    out = ok(*given, "--to", "csv", stdin=b"0 1:1\n0 2:1\n")
    assert out == "label\n1\n0\n"
    out = ok(*given, "--to", "jsonl", stdin=b"0 1:1\n")
    assert out == '{"label": 1.0}\n'


def test_ids_keep_their_type_in_json(folder: Path) -> None:
    given = ["-m", folder / "clicks.pqr", "-", "--format", "jsonl", "--id", "user", "--to", "jsonl"]
    row = b'{"user": 7, "site": "news", "hour": "3"}\n'
    assert json.loads(ok("predict", *given, stdin=row))["user"] == 7


def test_an_id_may_be_an_ignored_column_or_a_feature(folder: Path) -> None:
    given = ["predict", "-m", folder / "clicks.pqr", folder / "clicks.csv"]
    for column in ("user", "site"):
        first = ok(*given, "--id", column).splitlines()[0]
        assert first.split("\t")[0] == {"user": "u0", "site": "news"}[column]
    said = failure(3, *given, "--id", "usr")
    assert "there is no column 'usr' to be the id, only " in said


def test_a_bad_row_has_no_answer_and_ids_show_which(folder: Path) -> None:
    rows = b"user,site,hour\nann,news,3\nben,shop\ncyd,shop,4\n"
    given = ["predict", "-m", folder / "clicks.pqr", "-", "--format", "csv", "--id", "user"]
    result = run(*given, "--on-bad-row", "skip", stdin=rows)
    assert [line.split("\t")[0] for line in result.out.splitlines()] == ["ann", "cyd"]
