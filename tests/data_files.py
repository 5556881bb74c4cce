"""Small files in the original format of every data set, good in each line."""

from __future__ import annotations

from pathlib import Path

from pqrlearn.datasets.avazu import HEADER
from pqrlearn.datasets.kdd2012 import SAMPLE_HEADER


def flags(*genres: int) -> str:
    return "|".join("1" if at in genres else "0" for at in range(19))


IDS = "1fbe01fe,f3845767,28905ebd,ecad2386,7801e8d9,07d7df22,a99f214a,c52e8a62,36d749e5"
CRITEO_ROW = "\t".join(["1", "9", "", "-1", *[""] * 10, "05db9164", *[""] * 25])
GOOD: dict[str, dict[str, str]] = {
    "ml-100k": {
        "u.data": "1\t2\t3\t881250949\n2\t1\t5\t891717742\n",
        "u.user": "1|24|M|technician|85711\n2|53|F|other|T8H1N\n",
        "u.item": f"1|Toy Story (1995)|01-Jan-1995||http://x|{flags(3, 5)}\n"
        f"2|Misérables, Les (1995)|||http://x|{flags(8)}\n",
    },
    "ml-1m": {
        "ratings.dat": "1::2::5::978300760\n2::1::3::978302109\n",
        "users.dat": "1::F::1::10::48067\n2::M::56::16::70072-1234\n",
        "movies.dat": "1::Toy Story (1995)::Animation|Comedy\n2::Misérables (1995)::Drama\n",
    },
    "ml-10m": {
        "ratings.dat": "1::122::5::838985046\n2::185::0.5::838983525\n",
        "movies.dat": "122::Boomerang (1992)::Comedy|Romance\n185::Les Misérables (1995)::Drama\n",
    },
    "avazu": {
        "train": f"{HEADER}\n"
        f"10013378798301872145,1,14102123,1005,1,{IDS},1,0,20362,320,50,2333,0,39,-1,157\n"
        f"10018479281174609265,0,14102200,1005,0,{IDS},1,0,15705,320,50,1722,0,35,-1,79\n"
    },
    "criteo": {"train.txt": f"{CRITEO_ROW}\n0{CRITEO_ROW[1:]}\n"},
    "kdd2012": {
        "training.txt": "0\t1\t4298118681424644510\t7686695\t385\t3\t3\t1601\t5521\t7709\t576\t"
        "490234\n"
        "2\t3\t4860571499428580850\t21560664\t37484\t2\t2\t2255103\t317\t48989\t44771\t0\n"
    },
    "avazu-app-libsvm": {"avazu-app": "1 1:0.5 7:0.5\n-1 3:1\n"},
    "criteo-libsvm": {"criteo.kaggle2014.svm/train.txt.svm": "1 1:0.5 7:0.5\n0 3:1\n"},
    "kdd2012-libsvm": {"kdd12.tr": "1 1:0.5 7:0.5\n", "kdd12.val": "0 3:1\n"},
}
"""The files of data sets by name."""
KDD2012_SAMPLE = (
    f'"{SAMPLE_HEADER}"\n'.replace(",", '","')
    + '"0",1,1.07100252088863e+19,"8343295","11700",3,3,7702266,"21264","27892","1559","0"\n'
)
LATIN_1 = ("u.item", "u.user", "users.dat")


def encoded(name: str, file: str, text: str) -> bytes:
    latin_1 = file in LATIN_1 or (name, file) == ("ml-1m", "movies.dat")
    return text.encode("latin-1" if latin_1 else "utf-8")


def write_good(root: Path, name: str) -> Path:
    """The data set in a folder of `root`, as $PQRLEARN_DATA holds it."""
    home = root / ("libsvm" if name.endswith("-libsvm") else name)
    for file, text in GOOD[name].items():
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_bytes(encoded(name, file, text))
    return home
