"""MovieLens: movie ratings; the features describe the user and the genres."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from pqrlearn.datasets.base import DataSet, Layout, Printed
from pqrlearn.datasets.store import Download
from pqrlearn.datasets.table import Field, Label, Rows, matching, read_columns, shown
from pqrlearn.names import Names
from pqrlearn.readers import Source
from pqrlearn.rows import Batch

GENRES = (
    *("unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime"),
    *("Documentary", "Drama", "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery"),
    *("Romance", "Sci-Fi", "Thriller", "War", "Western"),
)
"""The meaning of the 19 flags at the end of a line of u.item."""
OCCUPATIONS = (
    *("other", "academic/educator", "artist", "clerical/admin", "college/grad student"),
    *("customer service", "doctor/health care", "executive/managerial", "farmer", "homemaker"),
    *("K-12 student", "lawyer", "programmer", "retired", "sales/marketing", "scientist"),
    *("self-employed", "technician/engineer", "tradesman/craftsman", "unemployed", "writer"),
)
"""The codes of users.dat, from 0 on."""

_TEXT = r"\S+( \S+)*"
_age = matching("age", "[0-9]{1,3}", "a whole number")
_gender = matching("gender", "[MF]", "M or F")
_job = matching("occupation", _TEXT, "an occupation")
_zip = matching("zip", _TEXT, "a zip code")
_user = matching("user", "[0-9]{1,9}", "a whole number")


def rating(pattern: str, expected: str) -> Label:
    form = re.compile(pattern)

    def label(cell: str) -> float:
        if not form.fullmatch(cell):
            raise ValueError(f"rating {shown(cell)} is not {expected}")
        return float(cell)

    return label


STARS = rating("[1-5]", "a whole number from 1 to 5")
HALF_STARS = rating(r"0\.5|[1-4](\.[05])?|5(\.0)?", "a number from 0.5 to 5 in steps of 0.5")


def read_100k(sources: Sequence[Source], names: Names) -> Iterator[Batch]:
    ratings, users, movies = sources
    user = _fields(
        users,
        5,
        "|",
        lambda _, age, gender, job, code: [_age(age), _gender(gender), _job(job), _zip(code)],
    )
    movie = _fields(movies, 5 + len(GENRES), "|", lambda *cells: _flagged(cells[-len(GENRES) :]))
    return _rated(ratings, "\t", STARS, user, movie, names)


def read_1m(sources: Sequence[Source], names: Names) -> Iterator[Batch]:
    ratings, users, movies = sources
    user = _fields(
        users,
        5,
        "::",
        lambda _, gender, age, code, zip_code: [
            _age(age),
            _gender(gender),
            _occupation(code),
            _zip(zip_code),
        ],
    )
    movie = _fields(movies, 3, "::", lambda _, title, genres: _listed(genres))
    return _rated(ratings, "::", STARS, user, movie, names)


def read_10m(sources: Sequence[Source], names: Names) -> Iterator[Batch]:
    ratings, movies = sources
    movie = _fields(movies, 3, "::", lambda _, title, genres: _listed(genres), "utf-8")
    return _rated(ratings, "::", HALF_STARS, [_user], movie, names)


def _occupation(code: str) -> str:
    if code not in map(str, range(len(OCCUPATIONS))):
        raise ValueError(f"occupation {shown(code)} is not a code from 0 to 20")
    return f"occupation={OCCUPATIONS[int(code)]}"


def _flagged(flags: Sequence[str]) -> list[str]:
    if not set(flags) <= {"0", "1"}:
        raise ValueError(f"expected {len(GENRES)} flags of genres, each 0 or 1")
    return [f"genre={genre}" for genre, flag in zip(GENRES, flags, strict=True) if flag == "1"]


def _listed(genres: str) -> list[str]:
    found = genres.split("|")
    if not all(re.fullmatch(_TEXT, genre) for genre in found):
        raise ValueError(f"genres {shown(genres)} are not names separated by '|'")
    return [f"genre={genre}" for genre in dict.fromkeys(found)]


def _fields(
    source: Source,
    width: int,
    separator: str,
    describe: Callable[..., list[str]],
    encoding: str = "latin-1",
) -> list[Field]:
    """The features of users or movies, from a file with one line each that starts with its number.

    There are as many fields as the largest number of features; others leave the last ones empty.
    """
    known: dict[str, list[str]] = {}
    for table in read_columns(source, width, separator, encoding=encoding):
        for row, cells in enumerate(zip(*table.cells, strict=True)):
            try:
                if cells[0] in known:
                    raise ValueError(f"number {shown(cells[0])} is a duplicate")
                known[cells[0]] = describe(*cells)
            except ValueError as error:
                raise table.wrong(row, str(error)) from None
    most = max(map(len, known.values()), default=1)
    return [_feature(known, at, source.name) for at in range(most)]


def _feature(known: dict[str, list[str]], at: int, path: str) -> Field:
    def field(cell: str) -> str:
        if cell not in known:
            raise ValueError(f"number {shown(cell)} is not in {path}")
        return known[cell][at] if at < len(known[cell]) else ""

    return field


def _rated(
    source: Source,
    separator: str,
    label: Label,
    user: Sequence[Field],
    movie: Sequence[Field],
    names: Names,
) -> Iterator[Batch]:
    fields = [(column, field) for column, known in enumerate((user, movie)) for field in known]
    rows = Rows(names, (2, label), fields, digits={3: "time"})
    for table in read_columns(source, 4, separator):
        yield rows.batch(table)


def _movielens(
    size: str,
    rows: int,
    features: int | None,
    printed: int,
    md5: str,
    layout: Layout,
    folder: str | None = None,
) -> DataSet:
    """`printed` is the paper's number of features; `folder` is the folder in the archive."""
    name = f"ml-{size.lower()}"
    url = f"https://files.grouplens.org/datasets/movielens/{name}.zip"
    return DataSet(
        name=name,
        title=f"MovieLens {size}",
        loss="squared",
        rows=rows,
        features=features,
        licence="research only",
        source=f"https://grouplens.org/datasets/movielens/{size.lower()}/",
        folders=(name, *([folder] if folder else [])),
        layouts=(layout,),
        downloads=(Download(url, f"md5:{md5}", folder=folder or name),),
        paper=Printed(f"ML{size}", rows, printed),
    )


MOVIELENS = (
    _movielens(
        "100K",
        rows=100_000,
        features=898,
        printed=100_000,
        md5="0e33842e24a9c977be4e0107933c0723",
        layout=Layout(("u.data", "u.user", "u.item"), read_100k),
    ),
    _movielens(
        "1M",
        rows=1_000_209,
        features=3_487,
        printed=100_000,
        md5="c4d9eecfca2ab87c1945afe126590906",
        layout=Layout(("ratings.dat", "users.dat", "movies.dat"), read_1m),
    ),
    _movielens(
        "10M",
        rows=10_000_054,
        features=None,
        printed=200_000,
        md5="ce571fd55effeba0271552578f2648bd",
        layout=Layout(("ratings.dat", "movies.dat"), read_10m),
        folder="ml-10M100K",
    ),
)
