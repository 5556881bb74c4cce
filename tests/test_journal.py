"""Results outlive the process that found them, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from pqrlearn import journal as journal_room
from pqrlearn.errors import PqrError
from pqrlearn.journal import Journal, key_of


def test_a_second_journal_on_the_same_file_knows_the_first_ones_results(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "results.jsonl"
    Journal(path).put("a", {"loss": 0.1, "tiers": ((1, 2),)})
    again = Journal(path)
    assert "a" in again
    assert again["a"] == {"loss": 0.1, "tiers": [[1, 2]]}


def test_what_is_read_is_what_was_read_back(tmp_path: Path) -> None:
    """A result looks the same in the process that found it as in a later one."""
    fresh = Journal(tmp_path / "results.jsonl")
    fresh.put("a", (1, 2))
    assert fresh["a"] == Journal(tmp_path / "results.jsonl")["a"] == [1, 2]


@pytest.mark.parametrize("lost", range(1, 12))
def test_a_line_cut_off_by_a_crash_costs_that_line_only(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "results.jsonl"
    Journal(path).put("a", 1)
    Journal(path).put("b", 2)
    path.write_bytes(path.read_bytes()[:-lost])
    damaged = Journal(path)
    damaged.put("c", 3)
    again = Journal(path)
    assert ("a" in again, "c" in again) == (True, True)
    assert "b" not in again or again["b"] == 2


def test_a_journal_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PqrError, match="cannot be written"):
        Journal(tmp_path / "file" / "results.jsonl").put("a", 1)


def test_a_key_follows_from_the_content_and_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    key = key_of("lr", {"alpha": 0.1, "l1": 0.0})
    assert key == key_of("lr", {"l1": 0.0, "alpha": 0.1})
    assert key != key_of("lr", {"alpha": 0.1, "l1": 0.1})
    monkeypatch.setattr(journal_room, "_code_digest", lambda: "other code")
    assert key != key_of("lr", {"alpha": 0.1, "l1": 0.0})
