"""libsvm text: what is read, what is refused and where, and that format and parse are inverse."""

from __future__ import annotations

import gzip
import io
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.datasets import load_svmlight_file

from pqrlearn import Batch, _core
from pqrlearn.errors import DataError, HyperError, RowError
from pqrlearn.readers import LibsvmReader, Source, format_batch

Rows = list[tuple[float, float, dict[int, float]]]
TOO_LONG = b"1" + b" " * (64 << 20)


def reader(text: bytes, **options: Any) -> LibsvmReader:
    source = Source(io.BytesIO(text), "rows.svm", len(text))
    return LibsvmReader(source, **options)


def as_rows(batches: list[Batch]) -> Rows:
    """Label, weight and features of every row."""
    rows: Rows = []
    for b in batches:
        for r, (begin, end) in enumerate(pairwise(b.indptr.tolist())):
            indices, values = b.indices[begin:end].tolist(), b.values[begin:end].tolist()
            features = dict(zip(indices, values, strict=True))
            rows.append((float(b.labels[r]), float(b.weights[r]), features))
    return rows


def read(text: bytes, **options: Any) -> Rows:
    return as_rows(list(reader(text, **options).batches()))


def reference(text: bytes) -> Rows:
    """The format in ten lines, for well-formed text."""
    rows: Rows = []
    for line in text.decode().split("\n"):
        first, *tokens = line.split("#")[0].split() or [""]
        label, _, weight = first.partition(":")
        given: dict[int, list[float]] = defaultdict(list)
        for index, value in (token.split(":") for token in tokens):
            if index != "qid":
                given[int(index)].append(float(np.float32(value)))
        sums = {i: float(np.float32(sum(sorted(given[i])))) for i in sorted(given)}
        if label:
            rows.append((float(label), float(weight or 1), {i: v for i, v in sums.items() if v}))
    return rows


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (b"1 3:0.5 7:2\n", [(1, 1, {3: 0.5, 7: 2})]),
        (b"  1 3:0.5", [(1, 1, {3: 0.5})]),
        (b"1 3:1\r\n0 4:1\r\n", [(1, 1, {3: 1}), (0, 1, {4: 1})]),
        (b"1 3:1\r", [(1, 1, {3: 1})]),
        (b"+1\t3:1 \t 4:2\t\n", [(1, 1, {3: 1, 4: 2})]),
        (b"\n\n  \n\r\n# only a comment 1:x\n1 # 2:3\n", [(1, 1, {})]),
        (b"1 2:3#x", [(1, 1, {2: 3})]),
        (b"1 qid:7 2:3 qid:x#4\n", [(1, 1, {2: 3})]),
        (b"-2.5\n", [(-2.5, 1, {})]),
        (b"1:2.5 3:1\n0:0\n", [(1, 2.5, {3: 1}), (0, 0, {})]),
        (b"1 4294967295:1 0:2\n", [(1, 1, {0: 2, 4294967295: 1})]),
        (b"1 00000000012:1 99999999:2 100000000:3\n", [(1, 1, {12: 1, 99999999: 2, 10**8: 3})]),
        (b"1 9:1 3:2 9:0.5 3:-2\n", [(1, 1, {9: 1.5})]),
        (b"1 1:.5 2:1. 3:+2 4:-1e-3 5:1E2 6:0\n", None),
        (b"1 1:1e-60 2:-1e-999999999999999999999 3:0e999 4:1\n", [(1, 1, {4: 1})]),
        (b"1e-999 1:1\n", [(0, 1, {1: 1})]),
        (b"\xef\xbb\xbf1 1:1\n0 2:1\n", [(1, 1, {1: 1}), (0, 1, {2: 1})]),
        (b"", []),
        (b"\xef\xbb\xbf", []),
        (b"# nothing here\n\n", []),
    ],
)
def test_well_formed_text_is_read(text: bytes, rows: Rows | None) -> None:
    assert read(text) == (reference(text) if rows is None else rows)


@pytest.mark.parametrize(
    ("label", "stored"),
    [("1", 1), ("0", 0), ("-1", 0), ("+1", 1), ("1.0", 1), ("-1e0", 0), ("-0", 0), ("10e-1", 1)],
)
def test_clicks_are_stored_as_0_and_1(label: str, stored: float) -> None:
    assert read(f"{label} 2:1\n".encode(), loss="logistic") == [(stored, 1, {2: 1})]


def test_lines_are_those_of_the_file() -> None:
    (batch,) = reader(b"# header\n1 1:1\n\n0 2:1\r\n1\n").batches()
    assert batch.lines is not None
    assert batch.lines.tolist() == [2, 4, 5]


finite32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
finite = st.floats(allow_nan=False, allow_infinity=False)
spaces = st.sampled_from([" ", "  ", "\t", " \t "])
numbers = st.one_of(
    finite32.map(lambda v: str(np.float32(v))),
    st.integers(-9, 9).map(str),
    st.sampled_from(["1", "1", "1", "0.5", "+3", ".25", "-7.", "1e2", "12345.678"]),
)


@st.composite
def lines(draw: st.DrawFn) -> str:
    """One well-formed line; values are moderate, so that sums of repeats stay finite."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(["", "  ", "# 1:2", "\t# comment"]))
    weight = draw(st.sampled_from(["", "", ":2", ":0.25", ":0"]))
    tokens = [draw(st.sampled_from(["1", "0", "-1", "+1", "3.5", "-1e3"])) + weight]
    moderate = numbers.filter(lambda v: abs(float(v)) < 1e30)
    for _ in range(draw(st.integers(0, 6))):
        index = draw(st.integers(0, 2**32 - 1) | st.integers(0, 3))
        tokens.append(f"{index}:{draw(moderate)}")
    return "".join(token + draw(spaces) for token in tokens) + draw(st.sampled_from(["", "#c"]))


line_ends = st.sampled_from(["\n", "\r\n"])
good_texts = st.builds(
    lambda rows, end, last: (end.join(rows) + (end if last else "")).encode(),
    st.lists(lines(), max_size=8),
    line_ends,
    st.booleans(),
)


@given(good_texts)
def test_random_text_is_read_as_the_reference_reads_it(text: bytes) -> None:
    assert read(text) == reference(text)


odd = st.sampled_from([":1", "/:1", "5:2", "5:11", "5: 1", "5", "123456789:1", "5:1 ", "5:1\t6:1"])
ones = st.integers(0, 10**8 - 1) | st.integers(0, 999)


@given(
    st.lists(ones.map("{}:1".format), min_size=4, max_size=40),
    st.lists(st.tuples(st.integers(0, 40), odd), max_size=1),
    line_ends,
)
def test_a_row_of_ones_is_read_alike_with_and_without_text_after_it(
    tokens: list[str], oddities: list[tuple[int, str]], end: str
) -> None:
    for place, token in oddities:
        tokens.insert(place, token)
    row = f"1 {' '.join(tokens)}{end}".encode()
    alone = _core.parse_libsvm(row, True, "logistic", 1, False)  # too near to the end for vectors
    (*arrays, _, _, bad) = _core.parse_libsvm(row + b"#" * 64, True, "logistic", 1, False)
    assert [a.tobytes() for a in arrays] == [a.tobytes() for a in alone[:6]]
    assert bad == alone[8]


@pytest.mark.parametrize("size", [4, 2000, 50_000])
def test_a_row_of_ones_may_be_long(size: int) -> None:
    row = b"1 %b\n" % b" ".join(b"%d:1" % i for i in range(size))
    (batch,) = reader(row * 2 + b"#" * 64).batches()
    np.testing.assert_array_equal(batch.indices, np.tile(np.arange(size), 2))


@given(
    st.from_regex(
        r"[+-]?([0-9]{1,12}(\.[0-9]{0,12})?|\.[0-9]{1,12})(e[+-]?[0-9]{1,2})?", fullmatch=True
    )
)
def test_a_value_is_the_float_nearest_to_its_decimal_text(text: str) -> None:
    exact, largest = Fraction(text), Fraction(float(np.finfo(np.float32).max))
    r = reader(f"1 5:{text}".encode(), on_bad_row="skip")
    rows = as_rows(list(r.batches()))
    if not rows:
        assert abs(exact) > largest
        assert "is too large" in r.first_bad[0].message
        return
    found = rows[0][2].get(5, 0.0)
    near = [np.nextafter(np.float32(found), np.float32(side)) for side in (-np.inf, np.inf)]
    distance = abs(Fraction(found) - exact)
    assert all(distance <= abs(Fraction(float(n)) - exact) for n in near if np.isfinite(n))


def test_scikit_learn_reads_the_same_rows() -> None:
    rng = np.random.default_rng(5)
    parts = []
    for _ in range(300):
        indices = np.flatnonzero(rng.random(400) < 0.03)
        features = " ".join(f"{i}:{rng.integers(1, 99) / 8}" for i in indices)
        parts.append(f"{rng.choice([-1, 1])} {features} # c\n")
    text = "".join(parts).encode()
    X, y = load_svmlight_file(io.BytesIO(text), zero_based=True)
    (batch,) = reader(text).batches()
    np.testing.assert_array_equal(batch.indptr, X.indptr)
    np.testing.assert_array_equal(batch.indices, X.indices)
    np.testing.assert_array_equal(batch.values, X.data)
    np.testing.assert_array_equal(batch.labels, y)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """Canonical rows with any finite values, down to the smallest subnormal."""
    rows = []
    for _ in range(draw(st.integers(1, 5))):
        indices = sorted(draw(st.sets(st.integers(0, 2**32 - 1) | st.integers(0, 9), max_size=6)))
        nonzero = finite32.filter(bool)
        rows.append((indices, [draw(nonzero) for _ in indices]))
    labels = draw(hnp.arrays(np.float64, len(rows), elements=finite))
    weights = st.floats(0, width=32, allow_infinity=False) | st.just(1.0)
    return Batch.from_rows(rows, labels, draw(hnp.arrays(np.float32, len(rows), elements=weights)))


@given(batches())
def test_parsing_formatted_rows_gives_the_same_bits(batch: Batch) -> None:
    (again,) = reader(format_batch(batch)).batches()
    for name in ("indptr", "indices", "values", "labels", "weights"):
        assert getattr(again, name).tobytes() == getattr(batch, name).tobytes()


BAD = [
    (b"1 |f a:1 b", 3, "the '|' looks like Vowpal Wabbit text"),
    (b"|f a b", 1, "the '|' looks like Vowpal Wabbit text"),
    (b"1 2.0 'tag|f a", 11, "the '|' looks like Vowpal Wabbit text"),
    (b"0,12,3.4", 2, "the ',' looks like CSV"),
    (b"label,f1", 6, "the ',' looks like CSV"),
    (b"spam 1:1", 1, "label 'spam' is not a number"),
    (b" qid:3 1:1", 2, "label 'qid' is not a number"),
    (b"1x 1:1", 1, "label '1x' is not a number"),
    (b"0x1 1:1", 1, "label '0x1' is not a number"),
    (b":1 2:3", 1, "label ':1' is not a number"),
    (b"\xc3\xa9 1:1", 1, r"label '\xc3\xa9' is not a number"),
    (b"NaN 1:1", 1, "label 'NaN' is not finite"),
    (b"-inf:1 1:1", 1, "label '-inf' is not finite"),
    (b"1e999", 1, "label '1e999' is not finite"),
    (b"2 1:1", 1, "label '2' is not a click: logistic loss takes 0/1 or -1/1"),
    (b"1: 2:3", 3, "weight '' is not a number"),
    (b"1:x 2:3", 3, "weight 'x' is not a number"),
    (b"1:2:3", 3, "weight '2' is not a number"),
    (b"1:nan", 3, "weight 'nan' is not finite"),
    (b"1:-0.5 2:3", 3, "weight '-0.5' is negative"),
    (b"1:1e39 2:3", 3, "weight '1e39' is too large for a 32-bit float"),
    (b"1 2:3 name:1", 7, "index 'name' is not a whole number"),
    (b"1 +3:1", 3, "index '+3' is not a whole number"),
    (b"1 :1", 3, "index ':1' is not a whole number"),
    (b"1 -3:1", 3, "index '-3' is negative"),
    (b"1 4294967296:1", 3, "index '4294967296' is too large"),
    (b"1 18446744073709551617:1", 3, "index '18446744073709551617' is too large"),
    (b"1 2:3 17 4:5", 7, "expected ':' and a value after index '17'"),
    (b"1 17: 3", 6, "expected a value after ':'"),
    (b"1 17:", 6, "expected a value after ':'"),
    (b"1 17:abc", 6, "value 'abc' is not a number"),
    (b"1 17:+-1", 6, "value '+-1' is not a number"),
    (b"1 17:nano", 6, "value 'nano' is not a number"),
    (b"1 17:nan 18:1", 6, "value 'nan' is not finite"),
    (b"1 17:-Infinity", 6, "value '-Infinity' is not finite"),
    (b"1 17:3.5e38", 6, "value '3.5e38' is too large for a 32-bit float"),
    (b"1 17:1" + b"0" * 60, 6, "value '10000000000000000000'... is too large"),
    (b"1 1:2x", 6, "unexpected 'x' after a value"),
    (b"1 1:0x10", 6, "unexpected 'x10' after a value"),
    (b"1 1:1_000", 6, "unexpected '_000' after a value"),
    (b"1 1:1,5", 6, "unexpected ',5' after a value"),
    (b"1 1:1e", 6, "unexpected 'e' after a value"),
    (b"1 1:2:3", 6, "unexpected ':3' after a value"),
    (b"1 1:2\x00 3:4", 6, r"control byte in '\x00'"),
    (b"1\x1b[31m 1:1", 2, r"control byte in '\x1b[31m'"),
    (b"1 1:1\r2 3:4", 6, r"control byte in '\r2'"),
    (b"1 qid:\x7f 3:4", 7, r"control byte in '\x7f'"),
    (b"1 5:3e38 6:1 5:3e38", 1, "the values of a repeated index add up to more"),
]


@pytest.mark.parametrize(
    ("row", "byte", "message"), BAD, ids=[repr(row)[1:40] for row, _, _ in BAD]
)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""], ids=["lf", "crlf", "end"])
def test_a_bad_row_is_named_with_line_and_byte(
    row: bytes, byte: int, message: str, end: bytes
) -> None:
    stream = reader(b"1 1:1\n\n0 2:1\n" + row + end, loss="logistic").batches()
    assert len(next(stream)) == 2
    with pytest.raises(RowError) as caught:
        next(stream)
    error = caught.value
    assert (error.path, error.line, error.byte) == ("rows.svm", 4, byte)
    assert error.message.startswith(message)


def test_every_kind_of_bad_row_has_an_example() -> None:
    texts = [row for row, _, _ in BAD] + [TOO_LONG]
    kinds = [_core.parse_libsvm(text, True, "logistic", 1, False)[-1][0][0] for text in texts]
    assert sorted(set(kinds)) == list(range(len(_core.BAD_ROW_MESSAGES)))


def test_a_message_reads_as_a_sentence_with_the_way_out() -> None:
    with pytest.raises(RowError) as caught:
        read(b"1 1:1 33:nan\n")
    assert str(caught.value) == "rows.svm:1:10: value 'nan' is not finite"


def test_a_byte_order_mark_is_part_of_the_first_line_only() -> None:
    with pytest.raises(RowError, match=r"rows\.svm:1:6: index 'a'"):
        read(b"\xef\xbb\xbf1 a:1\n")
    with pytest.raises(RowError, match=r"rows\.svm:2:1: label '\\xef\\xbb\\xbf1'"):
        read(b"1 1:1\n\xef\xbb\xbf1 1:1\n")


def test_squared_loss_takes_any_finite_label() -> None:
    assert [label for label, _, _ in read(b"2\n-0.125\n1e300\n")] == [2, -0.125, 1e300]


mixed_texts = st.builds(
    lambda rows, end: end.join(rows),
    st.lists(lines().map(str.encode) | st.sampled_from([row for row, _, _ in BAD]), max_size=10),
    line_ends.map(str.encode),
)


def outcome(text: bytes, **options: Any) -> tuple[object, ...]:
    kept = io.BytesIO()
    r = reader(text, on_bad_row="skip", keep_bad=kept, **options)
    found = list(r.batches())
    assert all(len(batch) for batch in found)
    at = [line for batch in found if batch.lines is not None for line in batch.lines.tolist()]
    described = [str(error) for error in r.first_bad]
    return as_rows(found), at, r.rows, r.lines, r.bad_rows, described, kept.getvalue()


@given(mixed_texts, st.integers(1, 64))
def test_the_size_of_a_chunk_cannot_be_seen(text: bytes, chunk_bytes: int) -> None:
    assert outcome(text, chunk_bytes=chunk_bytes) == outcome(text)


def test_bad_rows_are_skipped_counted_and_kept() -> None:
    kept = io.BytesIO()
    r = reader(b"1 1:1\nspam\n0 2:1\r\n1 x:1\r\n1 3:1", on_bad_row="skip", keep_bad=kept)
    assert as_rows(list(r.batches())) == [(1, 1, {1: 1}), (0, 1, {2: 1}), (1, 1, {3: 1})]
    assert (r.rows, r.lines, r.bad_rows) == (3, 5, 2)
    assert [str(error) for error in r.first_bad] == [
        "rows.svm:2:1: label 'spam' is not a number",
        "rows.svm:4:3: index 'x' is not a whole number",
    ]
    assert kept.getvalue() == b"spam\n1 x:1\n"


def test_only_the_first_few_bad_rows_are_described() -> None:
    r = reader(b"spam\n" * 1000, on_bad_row="skip", chunk_bytes=64)
    assert list(r.batches()) == []
    assert r.bad_rows == 1000
    assert [error.line for error in r.first_bad] == list(range(1, 11))


@pytest.mark.parametrize("chunk_bytes", [1 << 21, 1 << 27])
def test_an_endless_line_is_a_bad_row(chunk_bytes: int) -> None:
    text = b"1 1:1\n" + TOO_LONG + b" " * 100 + b"9:9\n0 2:1\n"
    r = reader(text, on_bad_row="skip", chunk_bytes=chunk_bytes)
    assert as_rows(list(r.batches())) == [(1, 1, {1: 1}), (0, 1, {2: 1})]
    assert [str(error) for error in r.first_bad] == ["rows.svm:2:1: the line is longer than 64 MiB"]
    assert r.lines == 3
    with pytest.raises(RowError, match=r"rows\.svm:2:1: the line is longer than 64 MiB"):
        read(text, chunk_bytes=chunk_bytes)


def test_a_line_of_exactly_the_limit_is_a_row() -> None:
    assert read(TOO_LONG[:-1] + b"\n0 2:1\n") == [(1, 1, {}), (0, 1, {2: 1})]


@given(good_texts, st.lists(st.integers(0, 300), max_size=5), st.integers(1, 40))
def test_ranges_share_out_the_rows(text: bytes, cuts: list[int], chunk_bytes: int) -> None:
    bounds = sorted([0, *cuts, max(len(text), *cuts, 0)])
    rows: Rows = []
    for start, stop in pairwise(bounds):
        part = reader(text, start=start, stop=stop, chunk_bytes=chunk_bytes)
        found = list(part.batches())
        assert all(batch.lines is None for batch in found)
        rows += as_rows(found)
    assert rows == read(text)


def test_in_a_range_a_bad_row_is_named_by_its_byte_in_the_file() -> None:
    text = b"1 1:1\n1 x:1\n"
    with pytest.raises(RowError) as caught:
        read(text, start=1)
    assert str(caught.value).startswith("rows.svm: at byte 9: index 'x' is not a whole number")
    assert text[8:9] == b"x"
    assert caught.value.line is None


def test_a_path_is_read_anew_each_time(tmp_path: Path) -> None:
    path = tmp_path / "two.svm"
    path.write_bytes(b"1 1:1\n0 2:1\n")
    r = LibsvmReader(path, loss="logistic")
    first, second = as_rows(list(r.batches())), as_rows(list(r.batches()))
    assert first == second == [(1, 1, {1: 1}), (0, 1, {2: 1})]
    assert r.rows == 2


def test_a_range_of_a_compressed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.gz"
    path.write_bytes(gzip.compress(b"1 1:1\n"))
    with pytest.raises(DataError, match="only a plain file"):
        list(LibsvmReader(path, loss="logistic", start=3, stop=9).batches())


def test_an_unknown_way_with_bad_rows_is_refused() -> None:
    with pytest.raises(HyperError, match="on_bad_row='ignore' must be 'stop' or 'skip'"):
        reader(b"", on_bad_row="ignore")


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_the_native_parser_takes_any_bytes(make: Callable[[bytes], Any]) -> None:
    parsed = _core.parse_libsvm(make(b"1 2:3\n0 4"), False, "logistic", 1, False)
    assert parsed[6:] == (6, 1, [])
