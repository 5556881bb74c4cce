"""Hostile bytes, briefly: the corpora are replayed, with a few random inputs of a fixed seed.

`make fuzz` goes on from here; fuzz/README.md says how far it went.
"""

from __future__ import annotations

import os
import subprocess
from itertools import islice
from pathlib import Path
from types import ModuleType

import pytest

from pqrlearn import _core
from programs import needs_compiler, needs_program

ROOT = Path(__file__).parent.parent
CORPUS = ROOT / "fuzz" / "corpus"
TEXTS = sorted((CORPUS / "libsvm").iterdir())
TOO_LONG = "the line is longer than 64 MiB"  # no corpus should hold one


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reader of libsvm text under ASan and UBSan, as `make fuzz` builds it."""
    return _built("libsvm", tmp_path_factory.mktemp("probe"))


@pytest.fixture(scope="module")
def vw_target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same of Vowpal Wabbit text."""
    return _built("vw", tmp_path_factory.mktemp("probe"))


def _built(name: str, scratch: Path) -> Path:
    needs_program("make", package="make")
    needs_compiler(scratch, "-fsanitize=address,undefined")
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    subprocess.run(["make", f"build/fuzz/{name}"], cwd=ROOT, env=plain, check=True)
    return ROOT / "build" / "fuzz" / name


@pytest.fixture
def fuzz_models(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "fuzz")
    import models

    return models


def test_the_corpus_has_every_kind_of_bad_row() -> None:
    kinds = set()
    for path in TEXTS:
        data = path.read_bytes().ljust(2)
        loss = "logistic" if data[0] & 1 else "poisson" if data[0] & 32 else "squared"
        kinds |= {kind for kind, *_ in _core.parse_libsvm(data[2:], True, loss, 1, True)[-1]}
    missing = set(range(len(_core.BAD_ROW_MESSAGES))) - kinds
    assert [_core.BAD_ROW_MESSAGES[kind] for kind in missing] == [TOO_LONG]


def test_the_corpus_of_libsvm_text_replays(target: Path) -> None:
    subprocess.run([target, *TEXTS], check=True)


def test_random_libsvm_text_keeps_every_promise(target: Path, tmp_path: Path) -> None:
    flags = ["-runs=20000", "-seed=1", "-max_len=512", f"-artifact_prefix={tmp_path}/"]
    words = f"-dict={ROOT / 'fuzz' / 'libsvm.dict'}"
    subprocess.run([target, *flags, words, tmp_path, CORPUS / "libsvm"], check=True)


def test_text_from_the_grammar_is_read_as_the_reference_reads_it(
    target: Path, tmp_path: Path
) -> None:
    """By the reader as it is shipped."""
    grammar = _built("grammar", tmp_path)
    flags = ["-runs=100000", "-seed=1", f"-artifact_prefix={tmp_path}/"]
    done = subprocess.run([grammar, *flags], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("done: 100000 inputs")


def test_the_corpus_has_every_kind_of_bad_vowpal_wabbit_row() -> None:
    texts = [path.read_bytes() for path in sorted((CORPUS / "vw").iterdir())]
    kinds = {bad[0] for text in texts for bad in _core.parse_vw(text, True, 1)[-1]}
    missing = set(range(len(_core.BAD_VW_MESSAGES))) - kinds
    assert [_core.BAD_VW_MESSAGES[kind] for kind in missing] == [TOO_LONG]


def test_vowpal_wabbit_text_keeps_every_promise(vw_target: Path, tmp_path: Path) -> None:
    subprocess.run([vw_target, *sorted((CORPUS / "vw").iterdir())], check=True)
    flags = ["-runs=20000", "-seed=1", "-max_len=512", f"-artifact_prefix={tmp_path}/"]
    words = f"-dict={ROOT / 'fuzz' / 'vw.dict'}"
    subprocess.run([vw_target, *flags, words, tmp_path, CORPUS / "vw"], check=True)


def test_pages_of_parquet_keep_every_promise(tmp_path: Path) -> None:
    target, pages = _built("parquet", tmp_path), CORPUS / "parquet"
    subprocess.run([target, *sorted(pages.iterdir())], check=True)
    flags = ["-runs=20000", "-seed=1", "-max_len=512", f"-artifact_prefix={tmp_path}/"]
    (tmp_path / "found").mkdir()
    subprocess.run([target, *flags, tmp_path / "found", pages], check=True)


def test_damaged_tables_and_schemas_are_read_or_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(ROOT / "fuzz")
    import tables

    for path in sorted((CORPUS / "tables").iterdir()):
        assert not tables.try_file(path.read_bytes(), tmp_path / path.name)
    tally = tables.run(1, 1000, None, tmp_path)
    assert tally["failed"] == 0
    assert sum(tally.values()) == 1000
    assert len(tally) == 14  # some of each format were read, and some refused


MODELS = sorted((CORPUS / "models").glob("*.pqr"))


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_the_corpus_of_models_replays(path: Path, fuzz_models: ModuleType, tmp_path: Path) -> None:
    fuzz_models.try_file(path.read_bytes(), tmp_path / "model.pqr", save=True)


def test_mutated_models_are_refused_or_work(fuzz_models: ModuleType, tmp_path: Path) -> None:
    files = fuzz_models.mutations(1, fuzz_models.seeds())
    tally = fuzz_models.run(islice(files, 300), tmp_path)
    assert tally.failures == {}
    assert 50 < tally.loaded < 250


def test_damaged_models_are_refused_or_the_same(fuzz_models: ModuleType, tmp_path: Path) -> None:
    seeds = fuzz_models.seeds()
    tally = fuzz_models.run(islice(fuzz_models.damages(1, seeds), 2000), tmp_path, set(seeds))
    assert tally.failures == {}
    assert tally.loaded < 400
