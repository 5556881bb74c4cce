"""Tables in a folder that all nodes share: Spark writes them, tasks read them directly.

Spark's committer makes a table appear as a whole, whatever tasks were retried or run twice. A task
reads what it needs by itself, so that a state is not shuffled once for each worker, and nothing
of it passes through the driver.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pqrlearn.errors import HyperError


@dataclass(frozen=True)
class Folder:
    """A folder as an absolute path, or as a URI that both Spark and pyarrow know.

    >>> Folder.of("file:///mnt/shared/pqr") / "rows"
    Folder(path='/mnt/shared/pqr/rows')
    """

    path: str

    @staticmethod
    def of(given: str) -> Folder:
        """From what a person says."""
        path = re.sub("^file:(//)?(?=/)", "", given)
        if not path.startswith("/") and "://" not in path:
            raise HyperError(f"work_folder={given!r} must be an absolute path or a URI")
        return Folder(path)

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
        from pyarrow import dataset

        system, path = self._opened()
        found = dataset.dataset(path, format="parquet", filesystem=system)
        wanted = None
        for name, value in equal.items():
            one = dataset.field(name) == value
            wanted = one if wanted is None else wanted & one
        yield from found.to_batches(columns=columns, filter=wanted, use_threads=False)

    def make(self) -> None:
        """Makes it; HyperError if that cannot be done from here."""
        try:
            system, path = self._opened()
            system.create_dir(path)
        except (OSError, ValueError) as error:  # pyarrow's errors are among them
            reason = str(error).splitlines()[0]
            raise HyperError(
                f"work_folder: {self.path} cannot be made: {reason}; give a folder that this "
                "machine and all nodes can write, as a path or a URI that Spark and pyarrow know"
            ) from None

    def exists(self) -> bool:
        from pyarrow import fs

        system, path = self._opened()
        return bool(system.get_file_info(path).type != fs.FileType.NotFound)

    def remove(self) -> None:
        """Removes it, if it is there."""
        system, path = self._opened()
        if self.exists():
            system.delete_dir(path)

    def _opened(self) -> tuple[Any, str]:
        """The file system, and the path in it. A plain path may have any characters in it."""
        from pyarrow import fs

        if self.path.startswith("/"):
            return fs.LocalFileSystem(), self.path
        system, path = fs.FileSystem.from_uri(self.path)
        return system, path
