"""Parts of the estimators for Spark that need no cluster."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from pyspark.errors import PySparkImportError
from pyspark.sql.pandas.utils import (
    require_minimum_pandas_version,
    require_minimum_pyarrow_version,
)

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


@pytest.mark.parametrize(
    ("package", "check"),
    [("pandas", require_minimum_pandas_version), ("pyarrow", require_minimum_pyarrow_version)],
)
def test_the_extra_brings_packages_as_new_as_spark_asks_for(
    package: str, check: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(PySparkImportError) as asked:
        check()
    least = re.search(r">= ([\d.]+)", str(asked.value))
    assert least is not None
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())[
        "project"
    ]
    extra = {one.name: one for one in map(Requirement, project["optional-dependencies"]["spark"])}
    assert max(Version(each.version) for each in extra[package].specifier) >= Version(least[1])


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
