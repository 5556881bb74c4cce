"""What other systems lack is replaced by the same: numbers, and sentences where it cannot be."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from programs import COMPILER, needs_program

ROOT = Path(__file__).parent.parent
CMAKE = Path(sys.executable).parent / "cmake"
EDGES = [
    *("0", "0.0", "00.50", ".5", "5.", ".", "", "e5", "1e", "1e+", "1e-", "1e5", "1E+05", "1e5x"),
    *("0x10", "1.5.5", "1,5", "12abc", "1e400", "1e-400", "0e999999", "1e39", "1e-46", "1e-45"),
    *("3.4028235e38", "3.4028236e38", "4.9e-324", "2.4e-324", "1.7976931348623159e308", "1e99999"),
    *("0.000" + "0" * 400 + "1", "1" + "0" * 400, "1" * 40, "0." + "1" * 800, "9007199254740993"),
    "2.2250738585072011e-308",
]


def some_texts(count: int) -> list[str]:
    chance = random.Random(5)

    def text() -> str:
        digits = "".join(chance.choices("0123456789", k=chance.randrange(1, 25)))
        at = chance.randrange(len(digits) + 1)
        tail = chance.choice(["", "", f"e{chance.randrange(-330, 330)}", "E+7", "e", "x", ":1"])
        return f"{digits[:at]}{chance.choice(['.', '.', ''])}{digits[at:]}{tail}"

    return [text() for _ in range(count)]


def test_numbers_are_read_the_same_where_the_library_cannot_read_them(tmp_path: Path) -> None:
    needs_program(COMPILER, package="g++")
    program = tmp_path / "numbers"
    source = ROOT / "tests" / "native" / "numbers.cpp"
    flags = ["-std=c++17", "-O1", "-DPQR_STRTOD", f"-I{ROOT / 'csrc'}"]
    subprocess.run([COMPILER, *flags, str(source), "-o", str(program)], check=True)
    texts = [*EDGES, *some_texts(200_000)]
    done = subprocess.run(
        [program], input="\n".join(texts) + "\n", capture_output=True, text=True, check=False
    )
    assert done.stdout == f"{len(texts)} texts\n"


def configured(folder: Path, **environment: str) -> str:
    """What CMake prints: the same that pip shows of a build that fails."""
    if not CMAKE.exists():
        pytest.skip("this environment has no CMake: make setup")
    command = [str(CMAKE), "-S", str(ROOT), "-B", str(folder / "build"), "-G", "Ninja"]
    options = [
        f"-DCMAKE_MAKE_PROGRAM={CMAKE.parent / 'ninja'}",
        f"-DPython_EXECUTABLE={sys.executable}",
    ]
    done = subprocess.run(
        [*command, *options],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0, done.stdout
    return done.stderr


def test_a_build_without_a_compiler_says_so_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    said = configured(tmp_path, CXX="/nonexistent/c++", PATH=str(tmp_path / "empty"))
    lines = [line for line in said.splitlines() if "no C++ compiler found" in line]
    assert len(lines) == 1
    assert "apt-get install g++" in lines[0]
    assert "pip install --only-binary" in lines[0]


def test_a_free_threaded_python_is_refused_in_one_line(tmp_path: Path) -> None:
    needs_program(COMPILER, package="g++")
    # The interpreter that builds says of itself that it has no GIL, as python3.13t does.
    (tmp_path / "sitecustomize.py").write_text(
        "import sysconfig\nsysconfig.get_config_vars()['Py_GIL_DISABLED'] = 1\n"
    )
    said = configured(tmp_path, PYTHONPATH=str(tmp_path))
    lines = [line for line in said.splitlines() if "free-threaded" in line]
    assert len(lines) == 1
    assert "use the usual build of Python" in lines[0]
