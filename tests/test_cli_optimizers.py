"""pqr train --optimizer through the real command: what is learned, gone on with, and refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from command import clicks, failure, figures, ok, run, write_rows
from pqrlearn import PQR, Batch, FtrlGeneral, Ogd, Separation
from strategies import cut

CLICKS = clicks(seed=34)
GIVEN = {
    "ogd": (["--optimizer", "ogd"], Ogd()),
    "ogd, all options": (
        ["--optimizer", "ogd", "--eta", 0.5, "--schedule", "fixed", "--radius", 0.7],
        Ogd(eta=0.5, schedule="fixed", radius=0.7),
    ),
    "general": (["--optimizer", "ftrl-general"], FtrlGeneral()),
    "general, all options": (
        ["--optimizer", "ftrl-general", "--eta", 0.05, "--radius", 2],
        FtrlGeneral(eta=0.05, radius=2.0),
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """rows.svm, its two parts, and its separation."""
    folder = tmp_path_factory.mktemp("optimizers")
    write_rows(folder / "rows.svm", CLICKS)
    write_rows(folder / "a.svm", cut(CLICKS, 0, 170))
    write_rows(folder / "b.svm", cut(CLICKS, 170, len(CLICKS)))
    Separation.top_k(CLICKS, 5).save(folder / "sep")
    return folder


@pytest.mark.parametrize("name", GIVEN)
def test_the_command_learns_what_the_library_learns(folder: Path, name: str) -> None:
    options, optimizer = GIVEN[name]
    model = PQR(Separation.top_k(CLICKS, 5), "logistic", optimizer)
    model.learn_many(CLICKS)
    path = folder / "model.pqr"
    given = [folder / "rows.svm", "--separation", folder / "sep", *options, "-o", path]
    found = figures("train", "--model", "pqr", *given)
    assert path.read_bytes() == model.to_bytes()
    assert found["settings"]["optimizer"] == optimizer.settings()
    assert figures("inspect", path)["settings"]["optimizer"] == optimizer.settings()


@pytest.mark.parametrize("kind", ["pqr", "lr", "qr"])
@pytest.mark.parametrize("name", ["ogd, all options", "general, all options"])
def test_a_resumed_run_ends_with_the_bytes_of_an_uninterrupted_one(
    folder: Path, name: str, kind: str
) -> None:
    """Also when its options are repeated."""
    options: list[object] = [*GIVEN[name][0], "--model", kind]
    options += ["--separation", folder / "sep"] * (kind == "pqr")
    whole, half, rest = (folder / f"{part}.pqr" for part in ("whole", "half", "rest"))
    ok("train", "--model", "pqr", folder / "a.svm", folder / "b.svm", *options, "-o", whole)
    ok("train", "--model", "pqr", folder / "a.svm", *options, "-o", half)
    for repeated in ([], options):
        ok("train", folder / "b.svm", "--resume", half, *repeated, "-o", rest)
        assert rest.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--optimizer ogd --eta 0", "eta=0.0 must be a number > 0"),
        ("--optimizer ogd --eta -1", "eta=-1.0 must be a number > 0"),
        ("--optimizer ogd --eta nan", "eta=nan must be a number > 0"),
        ("--optimizer ogd --eta much", "'much' is not a valid float"),
        ("--optimizer ogd --radius 0", "radius=0.0 must be a number > 0"),
        ("--optimizer ftrl-general --radius -2", "radius=-2.0 must be a number > 0"),
        ("--optimizer ogd --schedule root", "'root' is not one of 'fixed', 'sqrt'"),
        ("--optimizer adam", "'adam' is not one of 'ftrl', 'ogd', 'ftrl-general'"),
        ("--optimizer sgd", "--optimizer sgd is not for pqr"),
        ("--optimizer ogd --alpha 0.1", "--alpha needs --optimizer ftrl, not ogd"),
        ("--optimizer ogd --l1 0", "--l1 needs --optimizer ftrl, not ogd"),
        ("--optimizer ftrl-general --beta 1", "--beta needs --optimizer ftrl, not ftrl-general"),
        ("--optimizer ftrl-general --schedule sqrt", "--schedule needs --optimizer ogd, not"),
        ("--optimizer ftrl --eta 0.1", "--eta needs --optimizer ogd or ftrl-general, not ftrl"),
        ("--radius 1", "--radius needs --optimizer ogd or ftrl-general, not ftrl"),
    ],
)
def test_wrong_options_are_told_before_any_work(folder: Path, options: str, message: str) -> None:
    output = folder / "refused.pqr"
    said = failure(
        2, "train", "--model", "pqr", folder / "missing.svm", *options.split(), "-o", output
    )
    assert message in said
    assert not output.exists()


@pytest.mark.parametrize(
    "options",
    ["--eta 0.2", "--schedule sqrt", "--radius 3.0", "--alpha 0.1", "--optimizer ftrl", "--l2 0.0"],
)
def test_options_that_contradict_the_model_are_refused(folder: Path, options: str) -> None:
    given = GIVEN["ogd, all options"][0]
    model = folder / "kept.pqr"
    ok("train", folder / "a.svm", *given, "--model", "lr", "-o", model)
    arguments = ["--resume", model, *options.split(), "-o", folder / "refused.pqr"]
    said = failure(2, "train", folder / "b.svm", *arguments)
    assert said.startswith(f"{options} contradicts --resume {model}")


@pytest.mark.parametrize("name", ["ogd", "ftrl-general"])
def test_the_advice_after_a_poor_run_names_an_option_that_there_is(folder: Path, name: str) -> None:
    rng = np.random.default_rng(5)
    noise = Batch.from_rows([([i % 7], [1.0]) for i in range(300)], labels=rng.integers(0, 2, 300))
    path = write_rows(folder / "noise.svm", noise)
    result = run(
        "train",
        "--model",
        "pqr",
        path,
        "--optimizer",
        name,
        "--eta",
        50,
        "-o",
        folder / "noise.pqr",
    )
    assert result.code == 0
    assert "the best constant's; try a smaller --eta" in result.err
