"""The models that a service has had, in its folder, each under a digest of its bytes."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

from pqrlearn.files import atomic_write
from pqrlearn.learners import from_bytes
from pqrlearn.serve.replica import check_learns


def name_of(data: bytes) -> str:
    return f"{blake2b(data, digest_size=16).hexdigest()}.pqr"


def keep(folder: Path, data: bytes) -> str:
    """Keeps a model that is fit to be served; the name of its file."""
    check_learns(from_bytes(data))
    path = folder / "models" / name_of(data)
    if not path.exists():
        atomic_write(path, data)
    return path.name


def prune(folder: Path, needed: Iterable[str]) -> None:
    """Removes the models that no record that is kept swaps in."""
    kept = {*needed}
    for path in (folder / "models").glob("*.pqr"):
        if path.name not in kept:
            path.unlink()
