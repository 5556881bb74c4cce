"""Slots by feature: where features lie may change memory and time, never what is learned."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import pqrlearn
from pqrlearn import FM, LR, PQR, Batch, Counts, DiFacto, Separation
from pqrlearn.learners.base import Learner
from programs import COMPILER, needs_compiler

ROOT = Path(__file__).parent.parent
FLAGS = ["-std=c++17", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
REFUSE = ["-include", str(ROOT / "tests/native/refuse.hpp")]

Features = npt.NDArray[np.uint32]
LAST = 2**32 - 1

# Rising maps from 0..DISTINCT-1 to features. Each goes through other stages of the table.
DISTINCT = 6000
NUMBERS = np.arange(DISTINCT, dtype=np.int64)
LAYOUTS = {
    "in_between": 3 * NUMBERS + NUMBERS % 2,
    "sparser": 30 * NUMBERS,
    "thin": 700_000 * NUMBERS,
    "blocks": NUMBERS + NUMBERS // 1000 * 2**27,
    "borders": NUMBERS // 130 * 4096 + 4031 + NUMBERS % 130,
    "at_the_end": LAST + 1 - DISTINCT + NUMBERS,
}


def rows_of(features: Features, rows: int = 6000) -> Batch:
    """Some features are frequent; all that occur do so late or soon."""
    random = np.random.default_rng(5)
    chosen = (DISTINCT * random.random((rows, 9)) ** 3).astype(np.int64)
    lines = [np.unique(line) for line in chosen]
    data = [(features[line].tolist(), [1.0] * len(line)) for line in lines]
    return Batch.from_rows(data, labels=random.integers(0, 2, rows).astype(float).tolist())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", [LR, PQR, FM, DiFacto])
def test_a_model_does_not_depend_on_where_its_features_lie(family: type, layout: str) -> None:
    """FM and DiFacto have factors that start from a hash of the index."""
    features = LAYOUTS[layout].astype(np.uint32)
    far, near = rows_of(features), rows_of(NUMBERS.astype(np.uint32))

    def learned(batch: Batch) -> tuple[Learner, npt.NDArray[np.float64]]:
        model = PQR(Separation.top_k(batch, 50)) if family is PQR else family()
        return model, model.learn_margins(batch)

    (model, margins), (other, expected) = learned(far), learned(near)
    keys, weights = model.weights("linear")
    assert keys.tolist() == features[other.weights("linear")[0]].tolist()
    if family in (LR, PQR):
        assert margins.tolist() == expected.tolist()
        assert weights.tolist() == other.weights("linear")[1].tolist()
    again = pqrlearn.from_bytes(model.to_bytes())
    assert again.to_bytes() == model.to_bytes()
    assert again.margin_many(far).tolist() == model.margin_many(far).tolist()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", [LR, PQR])
def test_nor_on_how_many_others_have_arrays(family: type, layout: str) -> None:
    """Once 512 chunks of 4096 features are arrays, those that come later are packed."""
    first, each = 2**30 + 1, np.arange(16)

    def learned(numbers: npt.NDArray[np.int64], apart: int) -> npt.NDArray[np.float64]:
        others = [((first + apart * n + each).tolist(), [1.0] * 16) for n in range(512)]
        batch = rows_of(numbers.astype(np.uint32))
        model = PQR(Separation.top_k(batch, 50)) if family is PQR else LR()
        model.learn_many(Batch.from_rows(others, labels=[float(n % 2) for n in range(512)]))
        return model.learn_margins(batch)

    packed, in_arrays = learned(LAYOUTS[layout], apart=4096), learned(NUMBERS, apart=16)
    assert packed.tolist() == in_arrays.tolist()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_counts_are_those_of_numpy(layout: str) -> None:
    batch = rows_of(LAYOUTS[layout].astype(np.uint32))
    separation = Counts.of(batch).separate(order=DISTINCT)
    found = dict(zip(separation.features.tolist(), separation.counts.tolist(), strict=True))
    expected = np.unique(batch.indices, return_counts=True)
    assert found == dict(zip(*(part.tolist() for part in expected), strict=True))


def tables() -> Iterator[Any]:
    """Two builds of each, and for the long tests the two others."""
    for name, share in (("table", 16), ("pairs", 1)):
        yield pytest.param(name, ["-O1"], 1, id=name)
        yield pytest.param(name, ["-O0", *REFUSE], share, id=f"{name} O0 refused")
        yield pytest.param(name, ["-O1", *REFUSE], 1, id=f"{name} refused", marks=pytest.mark.long)
        yield pytest.param(name, ["-O0"], 1, id=f"{name} O0", marks=pytest.mark.long)


@pytest.mark.parametrize(("name", "build", "share"), list(tables()))
def test_tables_agree_with_a_map(tmp_path: Path, name: str, build: list[str], share: int) -> None:
    """The native tables alone, under the address sanitizer, some with a share of the rows."""
    flags = [*FLAGS, *build]
    needs_compiler(tmp_path, *flags)
    source, program = ROOT / f"tests/native/{name}.cpp", tmp_path / "run"
    build_it = [COMPILER, *flags, f"-I{ROOT / 'csrc'}", str(source), "-o", str(program)]
    for command in (build_it, [str(program), str(share)]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


GROWN = """
import re
import numpy as np
from pqrlearn import LR, Batch

def peak():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])

random, size, rows = np.random.default_rng(1), 20_000_000, 20_000
model, before = LR(), 0
for turn in range(40):
    indices = np.sort(random.integers(0, size, (rows, 9), dtype=np.uint32), axis=1)
    indices += np.arange(9, dtype=np.uint32)
    batch = Batch(
        indptr=np.arange(0, 9 * rows + 1, 9, dtype=np.int64),
        indices=indices.reshape(-1),
        values=np.ones(9 * rows, np.float32),
        labels=np.ones(rows),
        weights=np.ones(rows, np.float32),
    )
    model.learn_margins(batch)
    before = before or peak()
grown = peak() - before
print(grown / (8 * len(model.weights("linear")[0])))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_follows_the_slots_also_while_it_grows() -> None:
    """Features a third of which occur; a table that doubles would need several times as much."""
    done = subprocess.run([sys.executable, "-c", GROWN], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 1.6
