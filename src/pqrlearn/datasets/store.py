"""Where the files of data sets are stored, and atomic, verified downloads."""

from __future__ import annotations

import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from pqrlearn.errors import DataError, MissingExtra, PqrError
from pqrlearn.files import sync, temporary_folder, write_error

OnProgress = Callable[[int, float | None], None]
"""Called with the amount done (rows or bytes) and the fraction of the total, if known."""

TIMEOUT_SECONDS = 30
_BLOCK_BYTES = 1 << 20
_BROKEN = (zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError, zlib.error, EOFError)


@dataclass(frozen=True)
class Download:
    """A file that can be downloaded without an account.

    `checksum` is `algorithm:digest`, None if the publisher has none. `target` is its path in the
    folder of the data set. Of an archive, the files in `folder` become the target.
    """

    url: str
    checksum: str | None
    target: str = ""
    folder: str | None = None


def places(folders: Sequence[str]) -> list[Path]:
    """Folders to search, in order: $PQRLEARN_DATA, then the user's cache."""
    return [root / folder for root in _roots() for folder in folders]


def cache() -> Path:
    """The folder of this package in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pqrlearn"


def _roots() -> list[Path]:
    chosen = os.environ.get("PQRLEARN_DATA")
    return [*([Path(chosen)] if chosen else []), cache()]


def fetch(download: Download, home: Path, watch: OnProgress | None = None) -> None:
    """Downloads a file to its target; on failure nothing is left behind."""
    target = home / download.target
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(home) as folder:
            path = _download(download, folder, watch)
            if download.folder is not None:
                path = _unpack(path, download, folder, watch)
            _move(path, target)
    except OSError as error:
        raise write_error(target, error) from error


def _download(download: Download, folder: Path, watch: OnProgress | None) -> Path:
    try:
        import pooch
        import requests
    except ImportError:
        raise MissingExtra("downloads", "data") from None
    pooch.get_logger().setLevel("ERROR")
    bar = False if watch is None else _Bar(watch)
    try:
        path = pooch.retrieve(
            download.url,
            known_hash=download.checksum,
            fname=PurePosixPath(download.url).name,
            path=folder,
            downloader=pooch.HTTPDownloader(progressbar=bar, timeout=TIMEOUT_SECONDS),
        )
    except requests.RequestException as error:
        raise PqrError(f"{download.url}: {_reason(error)}; nothing was kept") from error
    except ValueError:
        raise DataError(
            f"{download.url}: the checksum is not {download.checksum}: the download was damaged "
            "or the file has changed; nothing was kept"
        ) from None
    return Path(path)


def _reason(error: Exception) -> str:
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the server answers {error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the download was interrupted"
    if isinstance(error, requests.Timeout):
        return f"no answer within {TIMEOUT_SECONDS} seconds"
    if isinstance(error, requests.ConnectionError):
        return "no connection to the server"
    return f"the download failed ({type(error).__name__})"


class _Bar:
    """The interface of a progress bar for pooch."""

    def __init__(self, watch: OnProgress) -> None:
        self._watch, self._done, self.total = watch, 0, 0

    def update(self, size: int) -> None:
        self._done += size
        self._watch(self._done, min(1.0, self._done / self.total) if self.total else None)

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        pass


def _unpack(archive: Path, download: Download, folder: Path, watch: OnProgress | None) -> Path:
    """Extracts the files that are directly in `download.folder` of an archive, and nothing else."""
    unpacked = folder / "unpacked"
    unpacked.mkdir()
    size = archive.stat().st_size
    try:
        with archive.open("rb") as raw:
            for name, file in _entries(raw):
                if str(name.parent) != download.folder:
                    continue
                with open(unpacked / name.name, "wb") as out:
                    while block := file.read(_BLOCK_BYTES):
                        out.write(block)
                        if watch is not None:
                            watch(raw.tell(), raw.tell() / size)
    except _BROKEN as error:
        raise DataError(f"{download.url}: not a complete archive ({error})") from error
    if not any(unpacked.iterdir()):
        raise DataError(f"{download.url}: the archive has no files in {download.folder}/")
    return unpacked


def _entries(raw: IO[bytes]) -> Iterator[tuple[PurePosixPath, IO[bytes]]]:
    """The regular files of a zip or a compressed tar, one after the other."""
    if zipfile.is_zipfile(raw):
        with zipfile.ZipFile(raw) as archive:
            for entry in archive.infolist():
                if not entry.is_dir():
                    with archive.open(entry) as file:
                        yield PurePosixPath(entry.filename), file
        return
    raw.seek(0)
    with tarfile.open(fileobj=raw, mode="r|*") as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isfile() else None
            if content is not None:
                yield PurePosixPath(member.name), content


def _move(path: Path, target: Path) -> None:
    """Moves atomically, after everything is on disk."""
    for part in [*path.iterdir(), path] if path.is_dir() else [path]:
        sync(part)
    if target.is_dir() and any(target.iterdir()):
        raise PqrError(f"{target}: a folder with other files is in the way; move it aside")
    target.parent.mkdir(exist_ok=True)
    os.replace(path, target)
    sync(target.parent)
