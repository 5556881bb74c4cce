"""The standing attack, briefly: each kind runs, and what fails is counted and told."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT)
    from attack import base

    return base


@pytest.mark.parametrize(
    ("kind", "counted"),
    [
        ("kills", "killed runs"),
        ("services", "service kills"),
        ("folders", "damaged folders"),
        ("models", "model files"),
        ("tables", "tables"),
        ("threads", "storms"),
        ("forks", "forks"),
        ("collisions", "collisions"),
    ],
)
def test_an_attack_ends_in_one_line_of_counts(kind: str, counted: str) -> None:
    command = [sys.executable, "-m", "attack", "--only", kind, "--minutes", "0.01", "--seed", "7"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    assert done.stdout.startswith("seed 7, ")
    assert f" {counted}" in done.stdout
    assert done.stdout.endswith("; 0 failed\n")


def test_what_fails_is_counted_and_told_with_its_seed(
    base: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    counts: Counter[str] = Counter()
    for seed in base.seeds(5, 0.0):
        base.tried(counts, "divisions", seed, lambda: 1 / 1)
        base.tried(counts, "divisions", seed, lambda: 1 / 0)
    assert counts == {"divisions": 1, "failed": 1}
    told = capsys.readouterr().err
    assert told.startswith("FAILED: divisions, seed 5\n")
    assert "ZeroDivisionError" in told
