"""What works with `pip install pqrlearn` alone: no extra, nothing of the developers but pytest.

`make test-bare` runs these in an empty environment with a wheel, where extras are absent; elsewhere
their packages are made unimportable.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

import pqrlearn
from pqrlearn import LR, PQR, Auto, Separation, load

ROOT = Path(__file__).parent.parent.parent
PQR_COMMAND = os.environ.get("PQR_COMMAND") or str(Path(sysconfig.get_path("scripts")) / "pqr")
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"^ *(?:\$ )?(pqr (?:train|predict|inspect|schema) .*\.\w+.*)$", README, re.M)
RUN = "import sys; sys.argv = ['pqr', %s]\nfrom pqrlearn.cli import main; main()"
EXTRAS = {
    "sklearn": (["sklearn"], "import pqrlearn.sklearn"),
    "river": (["river"], "import pqrlearn.river"),
    "spark": (["pyspark"], "import pqrlearn.spark"),
    "plots": (["matplotlib"], "from pqrlearn import plots; plots.reliability([0.5], [1])"),
    "data": (
        ["pooch"],
        "import os; os.environ['PQRLEARN_DATA'] = '.'\n" + RUN % "'data', 'get', 'ml-100k'",
    ),
    "serve": (["uvicorn"], RUN % "'serve', 'service'"),
    "zst": (["zstandard"], "import pqrlearn; next(pqrlearn.read('rows.svm.zst').batches())"),
}


def rows(count: int = 400) -> list[tuple[int, str, str, float]]:
    chance = np.random.default_rng(3)
    sites, ads = chance.integers(0, 4, count), chance.integers(0, 6, count)
    clicks = (chance.random(count) < np.where(sites == ads % 4, 0.8, 0.1)).astype(int)
    price = chance.integers(0, 90, count) / 8
    columns = (clicks.tolist(), sites.tolist(), ads.tolist(), price.tolist())
    return [(y, f"s{s}", f"a{a}", p) for y, s, a, p in zip(*columns, strict=True)]


def write_csv(path: Path, label: str = "click") -> Path:
    lines = [f"{y},{site},{ad},{price}" for y, site, ad, price in rows()]
    path.write_text("\n".join([f"{label},site,ad,price", *lines]) + "\n", encoding="utf-8")
    return path


def pqr(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    return run([PQR_COMMAND, *map(str, arguments)], folder)


def python(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return run([sys.executable, "-c", script], folder)


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    text = {"text": True, "errors": "replace"}
    return subprocess.run(command, cwd=folder, capture_output=True, check=False, **text)


def test_the_first_commands_of_the_readme_run(tmp_path: Path) -> None:
    assert any(line.startswith("pqr train") for line in SHOWN[:3]), SHOWN
    for line in SHOWN[:3]:
        words = shlex.split(line, comments=True)
        label = words[words.index("--label") + 1] if "--label" in words else "click"
        for name in (word for word in words if word.endswith((".csv", ".parquet"))):
            table = write_csv(tmp_path / f"{Path(name).stem}.csv", label)
            if name.endswith(".parquet"):
                pyarrow.parquet.write_table(pyarrow.csv.read_csv(table), tmp_path / name)
        done = pqr(*words[1:], folder=tmp_path)
        assert done.returncode == 0, f"{line}\n{done.stderr}"


def test_a_csv_is_trained_on_inspected_and_predicted(tmp_path: Path) -> None:
    write_csv(tmp_path / "clicks.csv")
    train = ("train", "clicks.csv", "--label", "click", "-o", "clicks.pqr", "--json")
    done = pqr(*train, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == 400
    done = pqr("inspect", "clicks.pqr", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "site=s0" in done.stdout
    done = pqr("predict", "-m", "clicks.pqr", "clicks.csv", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    predicted = np.array([float(line.split(",")[-1]) for line in done.stdout.split()[-400:]])
    clicked = np.array([y for y, *_ in rows()], bool)
    assert predicted[clicked].mean() > predicted[~clicked].mean() + 0.2


@pytest.mark.parametrize("kind", ["auto", "lr", "pqr"])
def test_a_model_that_is_saved_and_loaded_goes_on_bit_for_bit(kind: str, tmp_path: Path) -> None:
    told = [({"site": site, "ad": ad, "price": price}, y) for y, site, ad, price in rows()]
    made = {"auto": Auto, "lr": LR, "pqr": lambda: PQR(Separation.top_k([x for x, _ in told]))}
    model = made[kind]()
    for x, y in told[:200]:
        model.learn_one(x, y)
    model.save(tmp_path / "half.pqr")
    again = load(tmp_path / "half.pqr")
    for x, y in told[200:]:
        assert model.learn_one(x, y) == again.learn_one(x, y)
    assert model.predict_one(told[0][0]) == again.predict_one(told[0][0])


def test_the_command_and_the_package_have_one_version(tmp_path: Path) -> None:
    assert pqr("--version", folder=tmp_path).stdout == f"pqr {pqrlearn.__version__}\n"


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_that_is_absent_is_named_with_the_line_that_installs_it(
    extra: str, tmp_path: Path
) -> None:
    packages, use = EXTRAS[extra]
    (tmp_path / "rows.svm.zst").write_bytes(b"\x28\xb5\x2f\xfd rows")
    hide = f"import sys; sys.modules.update(dict.fromkeys({packages}))"
    done = python(f"{hide}\n{use}", tmp_path)
    assert done.returncode == 1
    assert f'pip install "pqrlearn[{extra}]"' in done.stderr.splitlines()[-1]


def test_every_extra_is_one_word_and_all_is_all_but_the_large_ones() -> None:
    tomllib = pytest.importorskip("tomllib")
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = table["project"]["optional-dependencies"]
    assert set(EXTRAS) <= set(extras)
    assert all(re.fullmatch("[a-z]+", extra) for extra in extras)
    large = {"all", "spark", "docs", "dev"}
    wanted = sorted(name for name in extras if name not in large)
    assert extras["all"] == [f"pqrlearn[{','.join(wanted)}]"]


def test_every_module_is_importable_without_the_modules_of_unix(tmp_path: Path) -> None:
    """As on Windows; those of extras that are absent say so."""
    script = f"""
import sys
sys.modules.update(dict.fromkeys(["fcntl", "resource", "termios", "pwd", "grp"]))
import pkgutil, importlib, pqrlearn
from pqrlearn.errors import MissingExtra
for module in pkgutil.walk_packages(pqrlearn.__path__, "pqrlearn.", onerror=lambda name: None):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except MissingExtra:
        pass
    except ModuleNotFoundError as error:
        assert error.name.split(".")[0] in {sorted(OPTIONAL)}, error
"""
    done = python(script, tmp_path)
    assert done.returncode == 0, done.stderr


OPTIONAL = {"httptools", "httpx", "matplotlib", "msgspec", "pooch", "starlette", "uvicorn"}


LIKE_WINDOWS = """
import os, random, subprocess, sys, types
held = None
{hidden}
sys.modules["resource"] = None
for name in ("pread", "preadv", "register_at_fork", "sysconf", "getloadavg"):
    if hasattr(os, name):
        delattr(os, name)
import pqrlearn.system as system
system.WINDOWS = True
import pqrlearn
from pqrlearn.machine import machine

trained = pqrlearn.train("clicks.csv", label="click")
trained.save("clicks.pqr")
trained.save("clicks.pqr")  # replaces it
again = pqrlearn.load("clicks.pqr")
assert again.predict_one({{"site": "s1"}}) == trained.predict_one({{"site": "s1"}})
left = [name for name in os.listdir() if name.endswith(".part")]
assert not left, left
assert held is None or held
assert machine()["memory_gb"] is None
from pqrlearn.cli import main
sys.argv = ["pqr", "serve", "service"]
main()
"""
LOCKING = """
held = []
def locking(file, how, size):  # locks bytes at the current offset, which nobody can read then
    assert how in (1, 2) and size == 1
    assert os.lseek(file, 0, os.SEEK_CUR) > os.fstat(file).st_size
    held.append(file)
sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_LOCK=1, LK_NBLCK=2)
sys.modules["fcntl"] = None
"""


@pytest.mark.parametrize("hidden", ['sys.modules["fcntl"] = None', LOCKING], ids=["none", "msvcrt"])
def test_training_saving_and_locking_need_nothing_that_windows_lacks(
    hidden: str, tmp_path: Path
) -> None:
    write_csv(tmp_path / "clicks.csv")
    done = python(LIKE_WINDOWS.format(hidden=hidden), tmp_path)
    said = "pqr: pqr serve runs on Linux and macOS; on Windows it runs in WSL or Docker"
    assert done.stderr.splitlines()[-1] == said, done.stderr
    assert done.returncode == 1
