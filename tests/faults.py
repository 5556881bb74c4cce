"""Writes files while system calls fail: run by test_faults.py, with tests/native/faults.c loaded.

    LD_PRELOAD=faults.so python tests/faults.py FOLDER

Whatever fails, and whenever: a file is the old one or the new one, whole; the error is a PqrError;
nothing stays behind that the next run does not remove. Prints how many calls have failed.
"""

from __future__ import annotations

import ctypes
import errno
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

from pqrlearn import LR, Batch, Separation
from pqrlearn.errors import PqrError
from pqrlearn.journal import Journal
from pqrlearn.readers import CacheReader
from pqrlearn.readers.cache import kept
from pqrlearn.schema import Column, Schema

SYSTEM = ctypes.CDLL(None)
HALFWAY = 0  # the write is short, and no error
ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, HALFWAY)

Write = Callable[[Path], None]


def rows(size: int) -> Batch:
    return Batch.from_rows([([n, n + 1], [1.0, 0.5]) for n in range(size)], labels=[1.0] * size)


def model(size: int) -> LR:
    found = LR()
    found.learn_many(rows(size))
    return found


def write_cache(path: Path, size: int) -> None:
    list(kept(path, [rows(size)]))


def write_schema(path: Path, size: int) -> None:
    Schema((Column("y", "label"), *(Column(f"c{n}", "category") for n in range(size)))).write(path)


def check_named(error: Exception) -> None:
    """An error of the system says which file it is about, as a PqrError does."""
    found = isinstance(error, PqrError) or getattr(error, "filename", None)
    assert found, f"{error!r} names no file"
    assert "in use" not in str(error), f"{error!r} is not the reason"


def check_journal(path: Path, before: int) -> None:
    """Earlier results are there, and the next one can be added."""
    again = Journal(path)
    assert all(again[str(n)] == n for n in range(before))
    again.put("after", True)
    assert Journal(path)["after"]


def clear_up(target: Path, write: Write) -> None:
    """Only a folder whose removal has failed may be left, and the next run removes it."""
    left = [path.name for path in target.parent.iterdir() if path != target]
    assert len(left) <= 1, left
    head = f".{target.name}."
    assert all(name.startswith(head) and name.endswith(".part") for name in left), left
    if left:
        write(target)
        assert list(target.parent.iterdir()) == [target]


def fail_at_every_call(target: Path, write: Write, error: int, *, for_good: bool) -> int:
    """Until a run makes fewer calls than are to go well; how many calls have failed.

    Nothing else is in the folder of `target`.
    """
    write(target)
    new = target.read_bytes()
    for nth in count(1):
        for old in (None, b"old"):
            target.unlink(missing_ok=True)
            if old is not None:
                target.write_bytes(old)
            failed = False
            SYSTEM.faults_arm(nth, error, for_good)
            try:
                write(target)
            except PqrError:
                failed = True
            finally:
                calls = SYSTEM.faults_disarm()
            found = target.read_bytes() if target.exists() else None
            assert found in (old, new), f"call {nth}, error {error}: half a file"
            assert failed or found == new, f"call {nth}, error {error}: not written, and no error"
            assert error != HALFWAY or not failed, f"call {nth}: a short write is no error"
            clear_up(target, write)
        if calls < nth:
            return nth - 1
    raise AssertionError


def fail_in_a_journal(folder: Path, error: int) -> int:
    path = folder / "journal"
    for nth in count(1):
        path.unlink(missing_ok=True)
        journal = Journal(path)
        for n in range(3):
            journal.put(str(n), n)
        failed = False
        SYSTEM.faults_arm(nth, error, False)
        try:
            journal.put("new", "x" * 100)
        except PqrError:
            failed = True
        finally:
            calls = SYSTEM.faults_disarm()
        assert failed == ("new" not in journal)
        assert failed or "new" in Journal(path), f"call {nth}, error {error}: lost, and no error"
        assert not failed or error != HALFWAY, f"call {nth}: a short write is no error"
        check_journal(path, 3)
        if calls < nth:
            path.unlink()
            return nth - 1
    raise AssertionError


def main(folder: Path) -> None:
    whole, table = model(300), rows(200)
    writers: dict[str, Write] = {
        "model": lambda path: whole.save(path),
        "cache": lambda path: write_cache(path, len(table)),
        "schema": lambda path: write_schema(path, 50),
        "separation": Separation.top_k(table, 20).save,
    }
    failures = 0
    for write in writers.values():
        for error in ERRORS:
            for for_good in (False, True):
                failures += fail_at_every_call(folder / "file", write, error, for_good=for_good)
    writers["cache"](folder / "file")
    assert sum(len(batch) for batch in CacheReader(folder / "file").batches()) == len(table)
    failures += sum(fail_in_a_journal(folder, error) for error in ERRORS)
    print(failures)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
