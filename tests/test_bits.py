"""The fast path for AVX2 and the one for any machine predict the same, to the last bit, and so do
slots that lie in one array and slots that lie anywhere.

The native core is built three times into one program, tests/native/bits.cpp.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
COMPILER = os.environ.get("CXX", "g++")
FLAGS = ["-std=c++17", "-O2", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
SOURCES = ["model.cpp", "model_state.cpp", "fm.cpp", "difacto.cpp", "parse.cpp"]


@pytest.mark.skipif(shutil.which(COMPILER) is None, reason="there is no compiler")
def test_an_optimizer_sees_which_block_a_coordinate_is_in(tmp_path: Path) -> None:
    sources = [ROOT / "tests/native/blocks.cpp", ROOT / "csrc/model_state.cpp"]
    command = [COMPILER, *FLAGS, f"-I{ROOT / 'csrc'}", *map(str, sources), "-o", "blocks"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "blocks"], check=False).returncode == 0


def printed(program: Path, *flags: str) -> list[str]:
    sources = [ROOT / "tests/native/bits.cpp", *(ROOT / "csrc" / name for name in SOURCES)]
    command = [COMPILER, *FLAGS, *flags, f"-I{ROOT / 'csrc'}", *map(str, sources)]
    built = subprocess.run(
        [*command, "-o", str(program)], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.skipif(shutil.which(COMPILER) is None, reason="there is no compiler")
def test_every_path_predicts_the_same(tmp_path: Path) -> None:
    refuse = ["-include", str(ROOT / "tests/native/refuse.hpp")]
    with ThreadPoolExecutor(2) as pool:
        fast = pool.submit(printed, tmp_path / "fast")
        portable = pool.submit(printed, tmp_path / "portable", "-DPQR_PORTABLE")
        scattered = pool.submit(printed, tmp_path / "scattered", *refuse)
    (name, *predicted), (other, *expected) = fast.result(), portable.result()
    assert other == "# any machine"
    assert scattered.result() == [name, *predicted]
    if name == other:
        pytest.skip("this machine has no AVX2")
    assert predicted == expected
    titles = {line.split()[0] for line in predicted}
    assert titles == {"LR", "PQR", "QR", "FM", "DiFacto", "frozen"}
    assert len(set(predicted)) > len(predicted) / 2  # they have learned something
