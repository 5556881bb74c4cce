"""Snapshots: a model with its position in the log, and the ids at that position.

A snapshot is a folder, written beside and renamed. Its model is an ordinary model file.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from pqrlearn.errors import Corrupt, PqrError
from pqrlearn.files import sync, write_error
from pqrlearn.learners import Learner, load
from pqrlearn.logfile import crc32c
from pqrlearn.serve.figures import Figures
from pqrlearn.serve.ids import Ids

KEPT: Final = 2
"""How many snapshots are kept: the last one, and the one before in case that it is damaged."""


@dataclass(frozen=True)
class About:
    """Where in the log a snapshot is. Recovery from it reads the log from `oldest` on."""

    position: int
    sequence: int
    time: int
    oldest: int
    """No row before this position waits for a label."""
    refused: int
    """How many rows the model could not learn so far."""
    swaps: list[tuple[int, str]]
    """Where in the log models were swapped in, and the names of their files; the last is in use."""
    ids_checksum: int = 0
    figures_checksum: int | None = None
    """None: it was written by a version that kept no figures."""


@dataclass(frozen=True)
class Snapshot:
    about: About
    model: Learner
    reference: Learner | None
    ids: Ids
    figures: Figures | None


def saved(folder: Path) -> list[Path]:
    """All whole snapshots, the oldest first."""
    return sorted(path for path in (folder / "snapshots").iterdir() if path.name.isdigit())


def save(
    folder: Path,
    about: About,
    model: Learner,
    reference: Learner | None,
    ids: Any,
    figures: bytes,
) -> Path:
    """Writes a snapshot; `ids` are frozen ones."""
    target = folder / "snapshots" / f"{about.position:020}"
    temporary = target.with_name(f".{target.name}.part")
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        model.save(temporary / "model.pqr")
        if reference is not None:
            reference.save(temporary / "reference.pqr")
        data = Ids.to_bytes(ids)
        _write(temporary / "ids", data)
        _write(temporary / "figures.npz", figures)
        sums = {"ids_checksum": crc32c(data), "figures_checksum": crc32c(figures)}
        text = json.dumps(asdict(about) | sums)
        _write(temporary / "about.json", text.encode())
        sync(temporary)
        if target.exists():  # of the same position, so of the same content
            shutil.rmtree(temporary)
            return target
        os.rename(temporary, target)
        sync(target.parent)
    except OSError as error:
        raise write_error(target, error) from error
    return target


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    sync(path)


def about(path: Path) -> About:
    try:
        given = json.loads((path / "about.json").read_bytes())
        given["swaps"] = [(position, name) for position, name in given["swaps"]]
        return About(**given)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise _corrupt(path, str(error)) from None


def restore(path: Path, most_finished: int) -> Snapshot:
    found = about(path)
    try:
        data = (path / "ids").read_bytes()
        reference = path / "reference.pqr"
        if crc32c(data) != found.ids_checksum:
            raise ValueError("the ids do not match their checksum")
        ids = Ids.from_bytes(data, most_finished)
        beside = load(reference) if reference.exists() else None
        figures = _figures(path, found.figures_checksum)
        return Snapshot(found, load(path / "model.pqr"), beside, ids, figures)
    except (OSError, ValueError) as error:
        raise _corrupt(path, str(error)) from None


def _figures(path: Path, checksum: int | None) -> Figures | None:
    if checksum is None:
        return None
    data = (path / "figures.npz").read_bytes()
    if crc32c(data) != checksum:
        raise ValueError("the figures do not match their checksum")
    return Figures.from_bytes(data)


def _corrupt(path: Path, why: str) -> Corrupt:
    return Corrupt(f"{path}: a damaged snapshot ({why}); remove it to start from the one before")


def prune(folder: Path) -> tuple[int, int]:
    """Removes snapshots that are not needed.

    Returns the positions from which records are replayed, and from which rows are read.
    """
    kept = saved(folder)
    for path in kept[:-KEPT]:
        remove(path)
    for path in (folder / "snapshots").glob(".*.part"):
        shutil.rmtree(path, ignore_errors=True)
    found = [about(path) for path in kept[-KEPT:]]
    replayed = min((one.position for one in found), default=0)
    return replayed, min([replayed, *(one.oldest for one in found)])


def remove(path: Path) -> None:
    """Renamed first: half a snapshot must not look like one."""
    gone = path.with_name(f".{path.name}.part")
    try:
        shutil.rmtree(gone, ignore_errors=True)
        path.rename(gone)
        shutil.rmtree(gone)
    except OSError as error:
        raise PqrError(f"{path}: cannot be removed: {error.strerror or error}") from error
