"""Files that shrink while they are read, and what safetensors itself says about a file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from safetensors import SafetensorError
from safetensors.numpy import load, save

import pqrlearn
from command import SECONDS
from golden_files import golden
from pqrlearn import LR, container
from pqrlearn.container import Unreadable, open_tensors
from pqrlearn.errors import Corrupt
from pqrlearn.readers import cache
from strategies import random_batch

SHRINKING = """
import os, sys
from pqrlearn.errors import DataError
from pqrlearn.readers import CacheReader
batches = CacheReader(sys.argv[1]).batches()
next(batches)
os.truncate(sys.argv[1], os.path.getsize(sys.argv[1]) // 2)
try:
    list(batches)
except DataError as error:
    print(error)
    sys.exit(error.exit_code)
"""


def test_a_cache_that_shrinks_while_it_is_read_is_bad_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process of its own: one that had mapped the file would be killed by SIGBUS."""
    monkeypatch.setattr(cache, "BATCH_ROWS", 1000)
    path = tmp_path / "rows.cache"
    list(cache.kept(path, [random_batch(1, rows=20_000)]))
    done = subprocess.run(
        [sys.executable, "-c", SHRINKING, path],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert done.stdout == (
        f"{path}: incomplete: the file has become shorter while it was read; make it again\n"
    )


def test_a_model_that_shrinks_while_it_is_read_is_corrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, read = tmp_path / "model.pqr", container._header
    model = LR()
    model.learn_many(random_batch(1))
    model.save(path)

    def read_and_shrink(file: Any) -> Any:
        header = read(file)
        os.truncate(path, os.path.getsize(path) - 1)
        return header

    monkeypatch.setattr(container, "_header", read_and_shrink)
    with pytest.raises(Corrupt, match=r"cut off or damaged \(incomplete: the file has become"):
        pqrlearn.load(path)


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    path = tmp_path / "model.pqr"
    LR().save(path)
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    for _ in range(5):
        pqrlearn.load(path)
    assert before in (0, len(os.listdir("/proc/self/fd")))


def seeds() -> list[bytes]:
    kinds = [np.float16, np.float32, np.bool_, np.int8, np.int16, np.int32, np.uint16, np.uint64]
    many = {str(number): np.ones((number, 2), kind) for number, kind in enumerate(kinds)}
    return [golden("pqr"), golden("auto"), save(many), save({"empty": np.zeros((0, 3))}), save({})]


def damaged(chance: Random, data: bytes) -> bytes:
    """Mostly in the header."""
    found = bytearray(data)
    for _ in range(chance.randint(0, 3)):
        at = chance.randrange(min(len(found), chance.choice([8, 400, len(found)])))
        found[at] = chance.choice([*b'0123456789,:"[]{} -.e', chance.randrange(256)])
    return bytes(found[: chance.choice([len(found)] * 9 + [chance.randrange(len(found))])])


def test_safetensors_accepts_the_same_files_and_reads_the_same(tmp_path: Path) -> None:
    chance, path, accepted = Random(5), tmp_path / "file", 0
    for _ in range(3000):
        data = damaged(chance, chance.choice(seeds()))
        path.write_bytes(data)
        try:
            expected = load(data)
        except (SafetensorError, ValueError, KeyError, TypeError, AttributeError):
            expected = None  # or a type that NumPy does not have
        try:
            found = {name: tensor.whole() for name, tensor in open_tensors(path)[1].items()}
        except Unreadable:
            found = None
        assert (found is None) == (expected is None), data
        if found is not None and expected is not None:
            accepted += 1
            assert found.keys() == expected.keys()
            for name, tensor in found.items():
                assert (tensor.dtype, tensor.shape) == (expected[name].dtype, expected[name].shape)
                assert tensor.tobytes() == expected[name].tobytes()
    assert 300 < accepted < 2900
