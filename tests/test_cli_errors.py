"""What people get wrong, through the real command: the exit code and one line that helps."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from command import PQR as PQR_COMMAND
from command import SECONDS, Result, clicks, failure, message, ok, run, write_rows
from pqrlearn import PQR, Separation

ROWS = clicks(seed=51, rows=200)
VW_FILE = b"1 2 'tag | price:.23 sqft:.25 age:.05 2006\n0 1 | price:.18\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """rows.svm, a model and a separation of it."""
    folder = tmp_path_factory.mktemp("errors")
    write_rows(folder / "rows.svm", ROWS)
    separation = Separation.top_k(ROWS, 4)
    separation.save(folder / "sep")
    model = PQR(separation)
    model.learn_many(ROWS)
    model.save(folder / "model.pqr")
    return folder


# Wrong usage: exit code 2.


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("unknown", "No such command 'unknown' (see pqr --help)"),
        ("trian rows", "No such command 'trian'. Did you mean 'train'? (see pqr --help)"),
        ("data lst", "No such command 'lst'. Did you mean 'list'? (see pqr data --help)"),
        ("--unknown", "No such option '--unknown' (see pqr --help)"),
        (
            "train rows -o out --alhpa 1",
            "No such option '--alhpa'. (Did you mean one of: '--alpha'",
        ),
        ("predict rows -m model.pqr --outptu x", "Did you mean '--output'? (see"),
        ("train -o out", "Missing argument 'FILE...' (see pqr train --help)"),
        ("predict rows", "Missing option '-m' / '--model-file'"),
        ("inspect", "give one FILE to inspect (see pqr inspect --help)"),
        ("inspect model.pqr -m model.pqr", "give one FILE to inspect"),
        ("predict rows -m model.pqr --bad-rows bad", "--bad-rows needs --on-bad-row skip"),
        ("evaluate rows -m model.pqr --bad-rows bad", "--bad-rows needs --on-bad-row skip"),
        ("predict rows -m model.pqr --id user", "rows.svm: no column 'user': this format has none"),
        ("train rows --holdout 1", "Invalid value for '--holdout'"),
        ("train rows --holdout 0.1 --checkpoint out", "--holdout needs a run without --checkpoint"),
        ("train rows -o out --model pqr --alpha 0", "alpha=0.0 must be a number > 0"),
        ("train rows -o out --model pqr --l1 -1", "l1=-1.0 must be a number >= 0"),
        ("train rows -o out --model pqr --alpha fast", "Invalid value for '--alpha'"),
        (
            "train rows -o out --loss hinge",
            "'hinge' is not one of 'logistic', 'squared', 'poisson'",
        ),
        ("train rows -o out --model pqr --order -1", "Invalid value for '--order'"),
        (
            "train rows -o out --model pqr --order 9999999999",
            "order=9999999999 must be a whole number",
        ),
        (
            "train rows -o out --model pqr --order x",
            "'x' is neither 'auto' nor a whole number >= 0",
        ),
        (
            "train rows -o out --passes 2",
            "--passes needs another --model, such as pqr or lr: auto takes",
        ),
        (
            "train rows -o out --alpha 0.1",
            "--alpha needs --model pqr, lr, qr, difacto or cfm: auto, the default, tunes itself",
        ),
        (
            "train rows -o out --order 5",
            "--order needs --model pqr: auto, the default, tunes itself",
        ),
        (
            "train rows -o out --rank 5",
            "--rank needs --model fm: auto, the default, tunes itself",
        ),
        (
            "train rows -o out --loss poisson",
            "--loss poisson needs another --model, such as pqr or lr",
        ),
        ("train rows -o out --memory 3x", "'3x' is not a size, as in 500MB or 2GB"),
        ("train rows -o out --memory 1MB --model lr", "--memory needs --model auto"),
        ("train rows -o out --order auto --model lr", "--order needs --model pqr, not lr"),
        (
            "train rows -o out --model pqr --order auto --min-count 3",
            "--min-count already says which features",
        ),
        (
            "train rows -o out --model pqr --order auto --separation sep",
            "--separation already says which",
        ),
        (
            "train rows -o out --model pqr --order auto --loss poisson",
            "loss='poisson' is not for Mixture: a",
        ),
        ("train rows -o out --model pqr --order auto --alpha 0", "alpha=0.0 must be a number > 0"),
        ("separate rows -o out --order auto", "--order auto needs pqr train: a separation has one"),
        ("tune rows --order auto", "--order auto needs pqr train: settings are found for one"),
        ("train rows -o out --sample-rows 0", "'0' is neither 'all' nor a whole number"),
        (
            "train rows -o out --model pqr --interaction-scale 0",
            "--interaction-scale=0.0 must be a number > 0",
        ),
        ("train rows -o out --every 10", "--every needs --checkpoint"),
        ("train rows -o out --checkpoint out", "must be different files"),
        ("train rows -o out --model lr --order 3", "--order needs --model pqr"),
        ("train rows -o out --model lr --interaction-scale 1", "needs --model pqr or qr"),
        ("train rows -o out --model lr --rank 3", "--rank needs --model fm"),
        ("train rows -o out --model fm --order 3", "--order needs --model pqr"),
        ("train rows -o out --model fm --interaction-scale 1", "needs --model pqr or qr"),
        ("train rows -o out --model fm --optimizer ftrl", "use adagrad or sgd"),
        (
            "train rows -o out --model fm --alpha 1",
            "--alpha needs --model pqr, lr, qr, difacto or cfm, not fm",
        ),
        (
            "train rows -o out --model fm --schedule sqrt",
            "--schedule needs --optimizer sgd, not adagrad",
        ),
        ("train rows -o out --model fm --rank 513", "rank=513 must be a whole number"),
        ("train rows -o out --model fm --init 0", "init=0.0 must be a number > 0"),
        ("train rows -o out --model lr --seed 3", "--seed needs --model fm or difacto, not lr"),
        ("train rows -o out --model fm --tiers 1:2", "--tiers needs --model difacto"),
        ("train rows -o out --model difacto --rank 3", "--rank needs --model fm"),
        (
            "train rows -o out --model difacto --eta 1",
            "--eta needs --model pqr, lr, qr, fm, cfm or ccfm, not difacto",
        ),
        ("train rows -o out --model difacto --optimizer ogd", "is not for difacto: use ftrl"),
        ("train rows -o out --model difacto --tiers 10", "'10' is not a list of counts and ranks"),
        ("train rows -o out --model difacto --tiers 9:4,8:5", "must increase, in count"),
        ("train rows -o out --model difacto --tiers 0:4", "tiers: count=0 must be a whole number"),
        ("train rows -o out --model pqr --optimizer sgd", "use ftrl, ogd or ftrl-general"),
        ("train rows -o out --model pqr --separation sep --order 3", "--separation already says"),
        ("train rows -o rows", "rows.svm is an input: it would be overwritten"),
        ("train rows -o out --on-bad-row skip --bad-rows rows", "rows.svm is an input"),
        ("train rows -o out --bad-rows bad", "--bad-rows needs --on-bad-row skip"),
        ("train rows -o out --memory 10", "--memory=10 must be a whole number of bytes"),
        ("train rows -o out --passes 2", "--passes needs another --model"),
        ("train rows -o out --schema none", "schema none: No such file"),
        ("train - - -o out", "- (stdin) can be read only once"),
        ("train - -o out --model lr --passes 2", "--passes needs files that can be read again"),
    ],
)
def test_wrong_usage_is_told_in_one_line(folder: Path, arguments: str, said: str) -> None:
    files = {"rows": "rows.svm"}
    given = [files.get(argument, argument) for argument in arguments.split()]
    rows = (folder / "rows.svm").read_bytes()
    assert said in failure(2, *given, cwd=folder)
    assert not (folder / "out").exists()
    assert (folder / "rows.svm").read_bytes() == rows


def test_debug_shows_the_traceback(folder: Path) -> None:
    result = run(
        "--debug",
        "train",
        "--model",
        "pqr",
        folder / "rows.svm",
        "-o",
        folder / "out",
        "--alpha",
        0,
    )
    assert result.code == 2
    assert "Traceback (most recent call last)" in result.err
    assert result.err.endswith("\npqr: --alpha=0.0 must be a number > 0\n")
    assert (
        run(
            "train", "--model", "pqr", folder / "missing", "-o", folder / "out", "--debug"
        ).err.count("\n")
        > 3
    )


# Bad data: exit code 3.


@pytest.mark.parametrize(
    ("row", "byte", "said"),
    [
        (b"0.5 1:1", 1, "label '0.5' is not a click: logistic loss takes 0/1 or -1/1"),
        (b"high 1:1", 1, "label 'high'"),
        (b"nan 1:1", 1, "label 'nan'"),
        (b"1 1:1 2:nan", 9, "value 'nan'"),
        (b"1 1:1 2:inf", 9, "value 'inf'"),
        (b"1 2:-Infinity", 5, "value '-Infinity'"),
        (b"1 1:1 2:1e39", 9, "value '1e39' is too large for a 32-bit float"),
        (b"1 -1:1", 3, "index '-1'"),
        (b"1 4294967296:1", 3, "index '4294967296'"),
        (b"1 1:1 17", 7, "':'"),
        (b"1 1:", 5, "value"),
        (b"1:-1 1:1", 3, "weight '-1'"),
        (b"\x00\xff\x80junk", 1, "is this a text file?"),
        (VW_FILE.splitlines()[0], 10, "looks like Vowpal Wabbit text"),
        (b"1,0.5,red", 2, "looks like CSV"),
    ],
)
def test_a_bad_row_is_named_by_file_line_and_byte(
    tmp_path: Path, row: bytes, byte: int, said: str
) -> None:
    path = tmp_path / "rows.svm"
    path.write_bytes(b"1 1:1\n\n" + row + b"\n0 2:1\n")
    told = failure(3, "train", path, "-o", tmp_path / "model.pqr")
    assert told.startswith(f"{path}:3:{byte}: ")
    assert said in told
    assert "; " in told  # the way out
    assert told.isprintable()
    assert not (tmp_path / "model.pqr").exists()


def test_a_label_that_does_not_fit_names_the_loss_that_takes_it(tmp_path: Path) -> None:
    path = tmp_path / "ratings.svm"
    path.write_text("3 1:1\n4 2:1\n")
    assert "--loss squared" in failure(3, "train", path, "-o", tmp_path / "model.pqr")
    assert (
        run("train", "--model", "pqr", path, "-o", tmp_path / "model.pqr", "--loss", "squared").code
        == 0
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no rows"),
        (b"\n\n# nothing\n", "no rows"),
        (VW_FILE, ":1:10: the '|' looks like Vowpal Wabbit text"),
        (b"label,site,hour\n1,a,9\n", ":1:6: the ',' looks like CSV"),
        (bytes(range(256)) * 40, ":1:1: control byte"),
        (gzip.compress(b"1 1:1\n" * 1000)[:-12], "the compressed file is truncated"),
        (gzip.compress(b"1 1:1\n" * 1000)[:30] + b"\0" * 30, "the compressed file is damaged"),
        (gzip.compress(b""), "no rows"),
    ],
    ids=["empty", "blank", "vw", "csv", "junk", "cut gz", "damaged gz", "empty gz"],
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "rows"
    path.write_bytes(content)
    told = failure(3, "train", path, "-o", tmp_path / "model.pqr")
    assert told.startswith(str(path))
    assert said in told
    assert told.isprintable()


@pytest.mark.parametrize("command", ["train", "separate", "predict", "evaluate"])
def test_a_file_that_is_not_there_is_named(folder: Path, command: str, tmp_path: Path) -> None:
    model = ["-m", folder / "model.pqr"]
    output = ["-o", tmp_path / "out"]
    given = output if command in ("train", "separate") else model
    missing = tmp_path / "missing"
    said = failure(3, command, missing, *given)
    assert said == f"{missing}: cannot be read: No such file or directory"


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    said = failure(3, "train", tmp_path, "-o", tmp_path / "out")
    assert said == f"{tmp_path}: a folder without Parquet parts (*.parquet)"


def test_the_file_at_fault_is_named_among_several(folder: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.svm"
    bad.write_text("1 1:1\n1 x\n")
    said = failure(3, "train", folder / "rows.svm", bad, "-o", tmp_path / "out")
    assert said.startswith(f"{bad}:2:3: ")
    said = failure(3, "train", "-", "-o", tmp_path / "out", stdin=b"1 1:1\n1 x\n")
    assert said.startswith("<stdin>:2:3: ")


def test_a_row_too_large_for_the_model_is_named_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "rows.svm"
    path.write_text("1 1:1\n0 1:1e30 2:1e30\n")
    said = failure(3, "train", "--model", "pqr", path, "-o", tmp_path / "out")
    assert said.startswith(f"{path}:2:1: ")


def test_a_row_too_large_for_the_model_can_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "rows.svm"
    path.write_text("1 1:1\n0 1:1e30 2:1e30\n0 2:1\n")
    result = run("train", "--model", "pqr", path, "--on-bad-row", "skip", "-o", tmp_path / "out")
    assert result.code == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"1 a\n2\n", ":2:1: expected an index and a name"),
        (b"1 a\n\n1 b\n", ":3:1: duplicate index"),
        (b"1 a\n2 a\n", ":2:1: duplicate name"),
        (b"-1 a\n", ":1:1: index '-1' is not in 0 to 4294967295"),
        (b"4294967296 a\n", ":1:1: index '4294967296' is not in"),
        (b"1 a\n2 b\xff\n", ":2:4: the name is not UTF-8"),
    ],
)
def test_a_bad_names_file_is_named_by_line(
    folder: Path, tmp_path: Path, text: bytes, said: str
) -> None:
    names = tmp_path / "names"
    names.write_bytes(text)
    arguments = [folder / "rows.svm", "-o", tmp_path / "out", "--names", names]
    assert failure(3, "train", *arguments).startswith(f"{names}{said}")


def test_an_endless_index_in_a_names_file_is_bad_data(folder: Path, tmp_path: Path) -> None:
    names = tmp_path / "names"
    names.write_text("9" * 5000 + " a\n")
    failure(3, "train", folder / "rows.svm", "-o", tmp_path / "out", "--names", names)


# Leaving bad rows out.

BAD = [b"0.5 1:1 77:1", b"1 3:nan 78:1", b"1 5000000000:1", b"rubbish"]


@pytest.fixture(scope="module")
def dirty(folder: Path) -> Path:
    rows = (folder / "rows.svm").read_bytes().splitlines()
    mixed = [BAD[0], *rows[:50], BAD[1], BAD[2], *rows[50:], BAD[3]]
    path = folder / "dirty.svm"
    path.write_bytes(b"\n".join(mixed) + b"\n")
    (folder / "dirty.svm.gz").write_bytes(gzip.compress(path.read_bytes()))
    ok("train", "--model", "pqr", folder / "rows.svm", "-o", folder / "clean.pqr")
    return path


def check_skipped(result: Result, name: object) -> None:
    assert result.code == 0
    lines = result.err.splitlines()
    assert lines[0].startswith(f"pqr: skipped {name}:1:1: label '0.5' is not a click")
    assert lines[1] == f"pqr: skipped {name}:52:5: value 'nan' is not finite"
    assert len(lines) == 4
    assert lines[3] == "pqr: 4 bad rows were skipped"


@pytest.mark.parametrize("name", ["dirty.svm", "dirty.svm.gz", "-"])
def test_rows_left_out_leave_the_model_of_the_clean_file(
    folder: Path, dirty: Path, name: str, tmp_path: Path
) -> None:
    path = name if name == "-" else str(folder / name)
    kept, model = tmp_path / "bad.svm", tmp_path / "model.pqr"
    given = ["--on-bad-row", "skip", "--bad-rows", kept, "-o", model]
    result = run("train", "--model", "pqr", path, *given, stdin=dirty.read_bytes())
    check_skipped(result, path if name != "-" else "<stdin>")
    assert kept.read_bytes().splitlines() == BAD
    assert model.read_bytes() == (folder / "clean.pqr").read_bytes()


def test_bad_rows_are_counted_and_kept_once_however_many_passes(
    dirty: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "bad.svm"
    given = ["--on-bad-row", "skip", "--bad-rows", kept, "-o", tmp_path / "model.pqr"]
    check_skipped(run("train", "--model", "pqr", dirty, "--passes", 2, *given), dirty)
    assert kept.read_bytes().splitlines() == BAD


def test_rows_that_only_the_model_refuses_are_kept_as_well(tmp_path: Path) -> None:
    path, kept = tmp_path / "rows.svm", tmp_path / "bad.svm"
    path.write_bytes(b"1 1:1\n0:2 1:3e38 2:1\nrubbish\n1 2:1\n0 2:2e38 # too large\n")
    given = ["--on-bad-row", "skip", "--bad-rows", kept, "-o", tmp_path / "model.pqr", "--json"]
    result = run("train", "--model", "pqr", path, "--passes", 2, *given)
    assert (result.code, json.loads(result.out)["bad_rows"]) == (0, 3)
    assert kept.read_bytes().splitlines() == [b"0:2 1:3e+38 2:1", b"rubbish", b"0 2:2e+38"]


def test_nothing_but_bad_rows_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "bad.svm"
    path.write_bytes(b"\n".join(BAD))
    given = ["--on-bad-row", "skip", "-o", tmp_path / "model.pqr"]
    assert failure(3, "train", path, *given) == f"{path}: no rows"


# Bad model files: exit code 4.


@pytest.fixture(scope="module")
def wrong_models(folder: Path) -> dict[str, Path]:
    """Files that are no models, by what is wrong with them."""
    wrong = {
        name: folder / f"{name}.pqr"
        for name in ("missing", "empty", "text", "foreign", "cut", "damaged", "newer", "older")
    }
    model = (folder / "model.pqr").read_bytes()
    wrong["empty"].touch()
    wrong["text"].write_text("this is not a model\n" * 10)
    save_file({"weight": np.zeros(3)}, wrong["foreign"], metadata={"format": "pt"})
    wrong["cut"].write_bytes(model[:-5])
    wrong["damaged"].write_bytes(model[:-1] + bytes([model[-1] ^ 1]))
    for name, version in (("newer", b"4"), ("older", b"1")):
        other = model.replace(b'\\"format\\": 3', b'\\"format\\": ' + version)
        wrong[name].write_bytes(other)
    return wrong | {"folder": folder, "separation": folder / "sep"}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("missing", "No such file or directory"),
        ("empty", "the file is empty"),
        ("text", "not a model of pqrlearn"),
        ("foreign", "a safetensors file, but not a model of pqrlearn"),
        ("cut", "the file is cut off or damaged"),
        ("damaged", "the file is damaged: its digest does not match its content"),
        ("newer", "format 4 is newer than this pqrlearn reads (2 and 3): upgrade pqrlearn"),
        ("older", "format 1 is older than this pqrlearn reads (2 and 3): make the file again"),
        ("folder", "a folder; expected a model"),
        ("separation", "a separation file, not a model written by pqr train"),
    ],
)
def test_a_bad_model_file_is_told_in_one_line(
    folder: Path, wrong_models: dict[str, Path], wrong: str, said: str
) -> None:
    path = wrong_models[wrong]
    told = failure(4, "predict", "-m", path, folder / "rows.svm")
    assert told.startswith(f"{path}: ")
    assert said in told


@pytest.mark.parametrize("wrong", ["missing", "empty", "text", "newer"])
def test_inspect_refuses_bad_model_files(wrong_models: dict[str, Path], wrong: str) -> None:
    assert failure(4, "inspect", wrong_models[wrong]).startswith(f"{wrong_models[wrong]}: ")


def test_every_command_refuses_bad_model_files(
    folder: Path, wrong_models: dict[str, Path], tmp_path: Path
) -> None:
    rows, output = folder / "rows.svm", tmp_path / "out"
    failure(4, "evaluate", "-m", wrong_models["cut"], rows)
    failure(4, "train", rows, "--resume", wrong_models["cut"], "-o", output)
    failure(4, "train", rows, "--resume", wrong_models["damaged"], "-o", output)
    failure(4, "train", "--model", "pqr", rows, "--separation", wrong_models["text"], "-o", output)
    separation = bytearray((folder / "sep").read_bytes())
    separation[-1] ^= 1
    (tmp_path / "damaged").write_bytes(separation)
    said = failure(
        4, "train", "--model", "pqr", rows, "--separation", tmp_path / "damaged", "-o", output
    )
    assert "the file is damaged: its digest does not match" in said
    said = failure(
        4, "train", "--model", "pqr", rows, "--separation", folder / "model.pqr", "-o", output
    )
    assert "a pqr model, not a separation" in said
    assert not output.exists()


def test_a_closed_standard_output_is_one_line(folder: Path) -> None:
    command = f"exec {PQR_COMMAND} inspect {folder / 'model.pqr'} >&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=False, timeout=SECONDS)
    assert done.returncode == 1
    assert message(done.stderr.decode()).startswith("standard output is closed")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_standard_output_is_one_line(folder: Path, unbuffered: str) -> None:
    command = f"exec {PQR_COMMAND} inspect {folder / 'model.pqr'} >/dev/full"
    done = subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        check=False,
        timeout=SECONDS,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
    )
    assert done.returncode == 1
    assert "No space left on device" in message(done.stderr.decode())
