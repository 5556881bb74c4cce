"""Tables in a folder that all nodes share: Spark writes them, tasks read them directly.

Spark's committer makes a table appear as a whole, whatever tasks were retried or run twice. A task
reads what it needs by itself, so that a state is not shuffled once for each worker, and nothing
of it passes through the driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Folder:
    """A folder as a path or as a URI that both Spark and pyarrow know."""

    path: str

    def __truediv__(self, name: str) -> Folder:
        return Folder(f"{self.path.rstrip('/')}/{name}")

    @property
    def uri(self) -> str:
        """For Spark: a plain path would lie in its default file system."""
        return f"file://{self.path}" if self.path.startswith("/") else self.path

    def write(self, frame: Any, *partitioned_by: str) -> None:
        """Writes a DataFrame here, in place of what is there."""
        writer = frame.write.mode("overwrite").option("compression", "zstd")
        (writer.partitionBy(*partitioned_by) if partitioned_by else writer).parquet(self.uri)

    def batches(self, columns: list[str] | None = None, **equal: int) -> Iterator[Any]:
        """The rows here as Arrow RecordBatches, files by name; only those whose columns `equal`."""
        from pyarrow import dataset, fs

        system, path = fs.FileSystem.from_uri(self.uri)
        found = dataset.dataset(path, format="parquet", filesystem=system)
        wanted = None
        for name, value in equal.items():
            one = dataset.field(name) == value
            wanted = one if wanted is None else wanted & one
        yield from found.to_batches(columns=columns, filter=wanted, use_threads=False)

    def exists(self) -> bool:
        from pyarrow import fs

        system, path = fs.FileSystem.from_uri(self.uri)
        return bool(system.get_file_info(path).type != fs.FileType.NotFound)

    def remove(self) -> None:
        """Removes it, if it is there."""
        from pyarrow import fs

        system, path = fs.FileSystem.from_uri(self.uri)
        if self.exists():
            system.delete_dir(path)
