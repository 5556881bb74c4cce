"""Sources give plain bytes, whatever the file holds and whatever it is called."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sys
import threading
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pqrlearn.errors import DataError
from pqrlearn.readers import Source, open_source
from pqrlearn.readers.source import lines_between, whole_lines

TEXT = b"".join(b"%d 1:1 %d:0.5\n" % (i % 2, i + 2) for i in range(20_000))
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": zstandard.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}
each_format = pytest.mark.parametrize("compress", COMPRESS.values(), ids=COMPRESS.keys())


def in_memory(data: bytes) -> Source:
    return Source(io.BytesIO(data), "memory", len(data))


def content(path: Path | str) -> bytes:
    with open_source(path) as source:
        return source.read()


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes], Path]:
    def write_file(data: bytes) -> Path:
        path = tmp_path / "rows.svm"
        path.write_bytes(data)
        return path

    return write_file


def test_a_plain_file_is_given_as_it_is(write: Callable[[bytes], Path]) -> None:
    path = write(TEXT)
    with open_source(path) as source:
        assert (source.name, source.size) == (str(path), len(TEXT))
        assert source.seekable
        assert not source.compressed
        assert source.position == 0
        assert source.read(10) == TEXT[:10]
        assert source.position == 10
        source.seek(5)
        assert source.read() == TEXT[5:]
        assert source.position == len(TEXT)


@each_format
def test_compressed_files_are_known_by_their_first_bytes(
    write: Callable[[bytes], Path], compress: Callable[[bytes], bytes]
) -> None:
    path = write(compress(TEXT))
    with open_source(path) as source:
        assert source.compressed
        assert not source.seekable
        assert source.read() == TEXT
        assert source.position == source.size == path.stat().st_size
        with pytest.raises(DataError, match="only a plain file"):
            source.seek(0)


@each_format
def test_members_one_after_the_other_are_one_stream(
    write: Callable[[bytes], Path], compress: Callable[[bytes], bytes]
) -> None:
    path = write(compress(TEXT[:100]) + compress(b"") + b"\0" * 9000 + compress(TEXT[100:]))
    assert content(path) == TEXT


def test_a_skippable_zstd_frame_is_passed_over(write: Callable[[bytes], Path]) -> None:
    path = write(b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"abcd" + COMPRESS["zstd"](TEXT))
    assert content(path) == TEXT


@each_format
def test_a_file_cut_off_anywhere_says_so(
    write: Callable[[bytes], Path], compress: Callable[[bytes], bytes]
) -> None:
    whole = compress(b"1 2:3\n" * 5)
    for cut in range(6, len(whole)):
        with pytest.raises(DataError, match=r"rows\.svm: the compressed file is truncated"):
            content(write(whole[:cut]))


@each_format
def test_a_damaged_file_says_so(
    write: Callable[[bytes], Path], compress: Callable[[bytes], bytes]
) -> None:
    whole = bytearray(compress(TEXT))
    middle = len(whole) // 2
    whole[middle : middle + 40] = bytes(40)
    with pytest.raises(DataError, match=r"rows\.svm: the compressed file is (damaged|truncated)"):
        content(write(bytes(whole)))


def test_garbage_after_the_last_member_is_damage(write: Callable[[bytes], Path]) -> None:
    with pytest.raises(DataError, match="damaged"):
        content(write(gzip.compress(TEXT) + b"garbage"))


def test_without_the_extra_a_zst_file_names_it(
    write: Callable[[bytes], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(DataError, match=r'pip install "pqrlearn\[zst\]"'):
        content(write(COMPRESS["zstd"](TEXT)))


def test_an_archive_that_grows_without_bound_does_not_fill_the_memory() -> None:
    compressor = zstandard.ZstdCompressor().compressobj()
    zeros = bytes(1 << 20)
    bomb = b"".join(compressor.compress(zeros) for _ in range(2048)) + compressor.flush()
    source = in_memory(bomb)
    tracemalloc.start()
    try:
        assert source.read(10) == bytes(10)
        assert tracemalloc.get_traced_memory()[1] < 300 << 20
    finally:
        tracemalloc.stop()


def test_an_empty_file_is_empty(write: Callable[[bytes], Path]) -> None:
    assert content(write(b"")) == b""


@pytest.mark.parametrize("text", [b"1", b"\x1f", b"BZ", b"1 2:3"])
def test_files_shorter_than_any_magic_are_plain(
    write: Callable[[bytes], Path], text: bytes
) -> None:
    assert content(write(text)) == text


def test_files_that_cannot_be_opened_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent\.svm: cannot be read: No such file"):
        open_source(tmp_path / "absent.svm")
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        open_source(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_named(write: Callable[[bytes], Path]) -> None:
    path = write(TEXT)
    path.chmod(0)
    with pytest.raises(DataError, match="cannot be read: Permission denied"):
        open_source(path)


@pytest.mark.parametrize("data", [TEXT, gzip.compress(TEXT)], ids=["plain", "gzip"])
def test_a_dash_is_stdin(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with io.TextIOWrapper(io.BytesIO(data)) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with open_source("-") as source:
            assert (source.name, source.size) == ("<stdin>", None)
        with open_source("-") as source:  # opening alone has used up nothing
            assert not source.seekable
            assert source.read() == TEXT
        assert not stdin.closed


@pytest.mark.parametrize("data", [b"1 2:3\n", gzip.compress(b"1 2:3\n")], ids=["plain", "gzip"])
def test_a_pipe_that_drips_is_recognised_too(data: bytes) -> None:
    reader, writer = os.pipe()

    def drip() -> None:
        for i in range(len(data)):
            os.write(writer, data[i : i + 1])
        os.close(writer)

    thread = threading.Thread(target=drip)
    thread.start()
    with Source(os.fdopen(reader, "rb", buffering=0), "pipe", None) as source:
        assert source.read() == b"1 2:3\n"
    thread.join()


def test_a_file_that_fails_while_it_is_read_is_named() -> None:
    class Failing(io.RawIOBase):
        def readinto(self, buffer: object) -> int:
            raise OSError(5, "Input/output error")

    with pytest.raises(DataError, match="disk: cannot be read: Input/output error"):
        Source(Failing(), "disk", None).read()


texts = st.lists(st.sampled_from([b"", b"1", b"ab", b"1 2:3 4:5"]), max_size=12).map(b"\n".join)


@given(texts, st.integers(1, 20))
def test_whole_lines_are_the_text_cut_at_newlines(text: bytes, chunk_bytes: int) -> None:
    at = 0
    for offset, piece in whole_lines(in_memory(text), chunk_bytes):
        assert offset == at
        at += len(piece)
        assert bytes(piece) == text[offset:at]
        assert at == len(text) or piece[-1] == ord("\n")
    assert at == len(text)


@given(texts, st.lists(st.integers(0, 70), max_size=5), st.integers(1, 20))
def test_ranges_side_by_side_share_out_the_lines(
    text: bytes, cuts: list[int], chunk_bytes: int
) -> None:
    bounds = sorted([0, *cuts, max(len(text), *cuts, 0)])
    pieces = b""
    for start, stop in pairwise(bounds):
        for offset, piece in lines_between(in_memory(text), chunk_bytes, start, stop):
            assert start <= offset < stop
            assert offset == 0 or text[offset - 1 : offset] == b"\n"
            pieces += piece
    assert pieces == text
