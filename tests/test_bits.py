"""The fast path for AVX2 and the one for any machine predict the same, to the last bit, and so do
slots that lie in one array and slots that lie anywhere, and a build without optimization.

The native core is built four times into one program, tests/native/bits.cpp.
"""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from programs import COMPILER, compiler_knows, needs_program

ROOT = Path(__file__).parent.parent
FLAGS = ["-std=c++17", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
# Without optimization only what must be inlined is. What is left out the address sanitizer finds
# too, and it would double the time to compile.
UNOPTIMIZED = [
    "-O0",
    "-fsanitize=address,undefined",
    "-fno-sanitize=null,object-size,pointer-overflow",
    "-fno-sanitize-recover=all",
]
SOURCES = [
    "auto.cpp",
    "auto_state.cpp",
    "model.cpp",
    "model_state.cpp",
    "factor_model.cpp",
    "parse.cpp",
]


def printed(program: Path, *flags: str) -> list[str]:
    sources = [ROOT / "tests/native/bits.cpp", *(ROOT / "csrc" / name for name in SOURCES)]
    command = [COMPILER, *FLAGS, *flags, f"-I{ROOT / 'csrc'}", *map(str, sources)]
    built = subprocess.run(
        [*command, "-o", str(program)], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_every_path_predicts_the_same(tmp_path: Path) -> None:
    needs_program(COMPILER, package="g++")
    refuse = ["-include", str(ROOT / "tests/native/refuse.hpp")]
    unoptimized = UNOPTIMIZED if compiler_knows(tmp_path, *UNOPTIMIZED) else ["-O0"]
    with ThreadPoolExecutor(2) as pool:
        fast = pool.submit(printed, tmp_path / "fast", "-O2")
        portable = pool.submit(printed, tmp_path / "portable", "-O2", "-DPQR_PORTABLE")
        scattered = pool.submit(printed, tmp_path / "scattered", "-O2", *refuse)
        slow = pool.submit(printed, tmp_path / "slow", *unoptimized)
    (name, *predicted), (other, *expected) = fast.result(), portable.result()
    assert other == "# any machine"
    assert scattered.result() == [name, *predicted]
    assert slow.result() == [name, *predicted]
    if name == other:
        pytest.skip("this machine has no AVX2")
    assert predicted == expected
    titles = {line.split()[0] for line in predicted}
    assert titles == {"LR", "PQR", "QR", "FM", "DiFacto", "Auto", "frozen"}
    assert len(set(predicted)) > len(predicted) / 2  # they have learned something
