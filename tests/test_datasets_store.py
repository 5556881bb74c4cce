"""Downloads from a server of our own: whole, cut off, wrong, missing, and never half a file."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from click.testing import CliRunner

from data_files import GOOD, encoded
from pqrlearn import datasets
from pqrlearn.cli import pqr
from pqrlearn.datasets import store
from pqrlearn.datasets.base import DataSet
from pqrlearn.datasets.store import Download
from pqrlearn.errors import DataError, MissingExtra, PqrError

FILES: dict[str, bytes] = {}
"""What the server has, by path. It hangs up early on paths that begin with /cut."""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = FILES.get(self.path)
        if body is None:
            self.send_error(404, "Not Found")
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if self.path.startswith("/cut") else body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    FILES.clear()
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PQRLEARN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "data"


def zipped(name: str, folder: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{folder}/", "")
        for file, text in GOOD[name].items():
            archive.writestr(f"{folder}/{file}", encoded(name, file, text))
        archive.writestr(f"{folder}/../../escaped", "evil")
        archive.writestr("__MACOSX/ml-100k/u.data", "not ours")
    return stream.getvalue()


def tarred(name: str) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:xz") as archive:
        for file, text in GOOD[name].items():
            member = tarfile.TarInfo(file)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
        link = tarfile.TarInfo("criteo.kaggle2014.svm/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return stream.getvalue()


def served(server: str, name: str, path: str, body: bytes, checksum: str | None = None) -> DataSet:
    """The data set, to be had from our server."""
    FILES[path] = body
    data = datasets.get(name)
    return replace(
        data, downloads=(replace(data.downloads[0], url=server + path, checksum=checksum),)
    )


def md5(body: bytes) -> str:
    return f"md5:{hashlib.md5(body).hexdigest()}"


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize(
    ("name", "folder"), [("ml-100k", "ml-100k"), ("ml-1m", "ml-1m"), ("ml-10m", "ml-10M100K")]
)
def test_an_archive_is_checked_unpacked_and_moved_in_place(
    server: str, root: Path, name: str, folder: str
) -> None:
    body = zipped(name, folder)
    data = served(server, name, "/good.zip", body, md5(body))
    told: list[tuple[int, float | None]] = []
    data.fetch(lambda done, share: told.append((done, share)))
    assert everything(root) == sorted([name, *(f"{name}/{file}" for file in GOOD[name])])
    assert len(data.load().batch) == 2
    assert told[0][0] > 0
    assert all(share is not None and 0 <= share <= 1 for _, share in told)
    assert os.stat(root / name).st_mode & 0o777 == 0o777 & ~current_umask()


def current_umask() -> int:
    os.umask(umask := os.umask(0))
    return umask


def test_the_criteo_archive_is_a_compressed_tar(server: str, root: Path) -> None:
    data = served(server, "criteo-libsvm", "/criteo.tar.xz", tarred("criteo-libsvm"))
    data.fetch()
    folder = "libsvm/criteo.kaggle2014.svm"
    assert everything(root) == ["libsvm", folder, f"{folder}/train.txt.svm"]
    assert len(data.load().batch) == 2


def test_of_two_files_only_the_one_that_is_missing_is_fetched(server: str, root: Path) -> None:
    FILES["/avazu-site.bz2"] = b"1 1:1\n"
    (root / "libsvm").mkdir(parents=True)
    (root / "libsvm/avazu-app.bz2").write_text("0 2:1\n")
    downloads = tuple(
        replace(download, url=f"{server}/{download.target}")
        for download in datasets.get("avazu-libsvm").downloads
    )
    data = replace(datasets.get("avazu-libsvm"), downloads=downloads)
    data.fetch()
    assert data.load().batch.indices.tolist() == [2, 1]


BODY = zipped("ml-100k", "ml-100k")


@pytest.mark.parametrize(
    ("path", "body", "checksum", "kind", "expected"),
    [
        ("/cut.zip", BODY, md5(BODY), PqrError, "the download was interrupted; nothing was kept"),
        ("/cut.zip", BODY, None, PqrError, "the download was interrupted; nothing was kept"),
        (
            "/x.zip",
            BODY[:-9],
            md5(BODY),
            DataError,
            f"the checksum is not {md5(BODY)}: the download was",
        ),
        ("/x.zip", b"<html>", None, DataError, "not a complete archive"),
        ("/x.zip", BODY[:-40], None, DataError, "not a complete archive"),
        ("/x.zip", zipped("ml-1m", "x"), None, DataError, "the archive has no files in ml-100k/"),
    ],
    ids=["cut, checked", "cut", "other bytes", "no archive", "half an archive", "other folder"],
)
def test_a_download_that_went_wrong_is_one_sentence_and_leaves_nothing(
    server: str,
    root: Path,
    path: str,
    body: bytes,
    checksum: str | None,
    kind: type[PqrError],
    expected: str,
) -> None:
    data = served(server, "ml-100k", path, body, checksum)
    with pytest.raises(kind) as caught:
        data.fetch()
    assert str(caught.value).startswith(f"{server}{path}: {expected}")
    assert "\n" not in str(caught.value)
    assert everything(root) == []
    assert not data.present()


def test_a_file_that_is_gone_is_told(server: str, root: Path) -> None:
    with pytest.raises(
        PqrError, match=r"/gone: the server answers 404 Not Found; nothing was kept"
    ):
        store.fetch(Download(f"{server}/gone", None), root / "ml-1m")
    assert everything(root) == []


def test_no_network_is_told(root: Path) -> None:
    with pytest.raises(PqrError, match=r"^http://127\.0\.0\.1:9/x: no connection to the server"):
        store.fetch(Download("http://127.0.0.1:9/x", None), root / "ml-1m")


def test_a_full_disk_is_told_and_nothing_is_left(
    server: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    data = served(server, "ml-100k", "/good.zip", BODY)
    monkeypatch.setattr(store, "sync", full)
    with pytest.raises(PqrError, match=r"ml-100k: cannot be written: No space left on device"):
        data.fetch()
    assert everything(root) == []


def test_an_interrupted_download_leaves_nothing(server: str, root: Path) -> None:
    def interrupt(done: int, share: float | None) -> None:
        raise KeyboardInterrupt

    data = served(server, "ml-100k", "/good.zip", BODY)
    with pytest.raises(KeyboardInterrupt):
        data.fetch(interrupt)
    assert everything(root) == []


def test_what_a_killed_download_has_left_is_cleared_by_the_next(server: str, root: Path) -> None:
    left = root / ".ml-100k.999999999.abc.part"
    left.mkdir(parents=True)
    served(server, "ml-100k", "/good.zip", BODY).fetch()
    assert not left.exists()


def test_a_folder_with_other_files_is_not_replaced(server: str, root: Path) -> None:
    (root / "ml-100k").mkdir(parents=True)
    (root / "ml-100k/notes").write_text("mine")
    with pytest.raises(PqrError, match="a folder with other files is in the way; move it aside"):
        served(server, "ml-100k", "/good.zip", BODY).fetch()
    assert everything(root) == ["ml-100k", "ml-100k/notes"]


@pytest.mark.parametrize("name", ["avazu", "criteo", "kdd2012"])
def test_what_takes_a_consent_says_where_to_go_and_where_to_put_it(root: Path, name: str) -> None:
    data = datasets.get(name)
    with pytest.raises(PqrError) as caught:
        data.fetch()
    assert data.source in str(caught.value)
    assert str(root / name) in str(caught.value)
    assert data.layouts[0].files[0] in str(caught.value)
    assert "sample" not in str(caught.value)


def test_without_pooch_the_extra_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingExtra, match=r'pip install "pqrlearn\[data\]"'):
        datasets.get("ml-1m").fetch()
    assert everything(root) == []


def test_the_command_prints_the_files_and_says_the_licence(
    server: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = served(server, "ml-100k", "/good.zip", BODY, md5(BODY))
    monkeypatch.setitem(datasets._ALL, "ml-100k", data)
    result = CliRunner().invoke(pqr, ["data", "get", "ml-100k"])
    assert result.stdout.splitlines() == [str(root / "ml-100k" / file) for file in GOOD["ml-100k"]]
    assert result.stderr == f"pqr: licence of MovieLens 100K: research only, see {data.source}\n"
    FILES.clear()
    again = CliRunner().invoke(pqr, ["data", "get", "ml-100k"])
    assert (again.exit_code, again.stdout, again.stderr) == (0, result.stdout, "")


@pytest.mark.parametrize("name", datasets.NAMES)
def test_a_checksum_is_known_or_said_not_to_be(name: str) -> None:
    for download in datasets.get(name).downloads:
        assert download.url.startswith("https://")
        assert download.checksum is None or len(download.checksum) == len("md5:") + 32
