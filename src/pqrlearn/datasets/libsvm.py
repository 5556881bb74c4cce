"""The paper's click data as LIBSVM files: hashed or numbered features, without names.

File names and numbers of rows and features are those of the LIBSVM page, which publishes no
checksums. The test files have no true labels and are not used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from pqrlearn.datasets.avazu import AVAZU
from pqrlearn.datasets.base import DataSet, Layout, Printed
from pqrlearn.datasets.criteo import CRITEO
from pqrlearn.datasets.kdd2012 import KDD2012
from pqrlearn.datasets.store import Download
from pqrlearn.names import Names
from pqrlearn.readers import LibsvmReader, Source
from pqrlearn.rows import Batch

PAGE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"
_CRITEO_FOLDER = "criteo.kaggle2014.svm"


def read(sources: Sequence[Source], names: Names) -> Iterator[Batch]:
    for source in sources:
        yield from LibsvmReader(source, loss="logistic").batches()


def _layouts(*stems: str) -> tuple[Layout, ...]:
    """Whole files, or the two parts that each is split into; decompressed or as published."""
    whole, parts = list(stems), [f"{stem}{part}" for stem, part in product(stems, (".tr", ".val"))]
    return tuple(
        Layout(tuple(f"{name}{suffix}" for name in files), read)
        for files, suffix in product((whole, parts), ("", ".bz2"))
    )


def _bz2(*stems: str) -> tuple[Download, ...]:
    return tuple(Download(f"{PAGE}/{stem}.bz2", None, f"{stem}.bz2") for stem in stems)


def _libsvm(
    name: str,
    title: str,
    rows: int,
    features: int,
    layouts: tuple[Layout, ...],
    downloads: tuple[Download, ...],
    paper: Printed | None,
) -> DataSet:
    return DataSet(
        name=f"{name}-libsvm",
        title=f"{title} (LIBSVM)",
        loss="logistic",
        rows=rows,
        features=features,
        licence="as the original",
        source=f"{PAGE}.html#{name.partition('-')[0]}",
        folders=("libsvm",),
        layouts=layouts,
        downloads=downloads,
        paper=paper,
    )


def _avazu(
    name: str, title: str, rows: int, stems: Sequence[str], paper: Printed | None = None
) -> DataSet:
    return _libsvm(name, title, rows, 1_000_000, _layouts(*stems), _bz2(*stems), paper)


LIBSVM = (
    _avazu("avazu", "Avazu", 40_428_967, ["avazu-app", "avazu-site"], AVAZU.paper),
    _avazu("avazu-app", "Avazu, apps", 14_596_137, ["avazu-app"]),
    _avazu("avazu-site", "Avazu, sites", 25_832_830, ["avazu-site"]),
    _libsvm(
        "criteo",
        "Criteo",
        45_840_617,
        1_000_000,
        (
            Layout((f"{_CRITEO_FOLDER}/train.txt.svm",), read),
            Layout(("criteo.kaggle2014.train.svm",), read),
        ),
        (Download(f"{PAGE}/{_CRITEO_FOLDER}.tar.xz", None, _CRITEO_FOLDER, _CRITEO_FOLDER),),
        CRITEO.paper,
    ),
    _libsvm(
        "kdd2012",
        "KDD2012",
        149_639_105,
        54_686_452,
        _layouts("kdd12"),
        _bz2("kdd12"),
        KDD2012.paper,
    ),
)
