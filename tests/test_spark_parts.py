"""Parts of the estimators for Spark that need no cluster."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest

from pqrlearn import PQR, Separation
from pqrlearn.errors import HyperError, MissingExtra
from pqrlearn.merging.states import blocks_of
from pqrlearn.spark.folder import Folder
from pqrlearn.spark.reading import placed
from pqrlearn.spark.shards import Ranges, from_bytes, joined, to_bytes
from spark_rows import ROWS


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("pqrlearn.spark")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.split(".")[0] in ("pyspark", "py4j")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "py4j", None)
    with pytest.raises(MissingExtra, match=r'need an extra: pip install "pqrlearn\[spark\]"'):
        import pqrlearn.spark  # noqa: F401


def test_shards_are_parts_of_a_state_that_fit_together() -> None:
    model = PQR(Separation.top_k(ROWS, order=20))
    model.learn_margins(ROWS)
    blocks = blocks_of(model.state())
    for shards in (1, 3, 7):
        ranges = Ranges.of(blocks, features=200, order=20, shards=shards)
        parts = [from_bytes(to_bytes(ranges.cut(blocks, shard))) for shard in range(shards)]
        whole = joined(parts)
        for name, slots in blocks.items():
            assert whole[name].keys.tolist() == slots.keys.tolist()
            assert whole[name].slots.tobytes() == slots.slots.tobytes()
    sizes = [len(part["pair"].keys) for part in parts]
    assert max(sizes) < 2 * sum(sizes) / len(sizes)


@pytest.mark.parametrize("name", ["plain", "with a space", "%41#?", "_hidden/.folder"])
@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str, scheme: str) -> None:
    folder = Folder.of(f"{scheme}{tmp_path}/{name}")
    folder.make()
    assert (tmp_path / name).is_dir()
    assert folder.exists()
    folder.remove()
    assert not (tmp_path / name).exists()
    folder.remove()


def test_an_executor_that_does_not_see_the_drivers_folder_says_so(tmp_path: Path) -> None:
    rows = [pa.RecordBatch.from_pydict({"column_0": [1, 2]})]
    shared = Folder(f"{tmp_path}/shared")
    with pytest.raises(HyperError, match=r"not the same folder on all nodes: .*/shared was made"):
        list(placed(rows, ordered_by=None, shared=shared))
    shared.make()
    assert [batch.num_rows for batch in placed(rows, ordered_by=None, shared=shared)] == [2]
