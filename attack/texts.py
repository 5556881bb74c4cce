"""Random libsvm and Vowpal Wabbit text, under sanitizers: the fuzzers that `make fuzz` builds.

And libsvm text from a grammar, for the reader as it is shipped: fuzz/grammar.cpp.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from attack import ROOT
from attack.base import Counts

_INPUTS = re.compile(r"(\d+) inputs in|Done (\d+) runs in")  # of our driver, of libFuzzer


def libsvm(seed: int, seconds: float, scratch: Path) -> Counts:
    return _fuzzed("libsvm", seed, seconds, scratch)


def grammar(seed: int, seconds: float, scratch: Path) -> Counts:
    limits = [f"-max_total_time={max(1, round(seconds))}", f"-seed={seed << 32}"]
    prefix = f"-artifact_prefix={scratch}/grammar-"
    return _ran("grammar", seed, [ROOT / "build/fuzz/grammar", *limits, prefix])


def vw(seed: int, seconds: float, scratch: Path) -> Counts:
    return _fuzzed("vw", seed, seconds, scratch)


def _fuzzed(target: str, seed: int, seconds: float, scratch: Path) -> Counts:
    found = scratch / target
    found.mkdir(exist_ok=True)
    flags = [f"-max_total_time={max(1, round(seconds))}", f"-seed={seed}", "-max_len=512"]
    flags += [f"-dict={ROOT / 'fuzz' / target}.dict", f"-artifact_prefix={scratch}/{target}-"]
    program, corpus = ROOT / "build/fuzz" / target, ROOT / "fuzz/corpus" / target
    return _ran(target, seed, [program, *flags, found, corpus])


def _ran(target: str, seed: int, command: list[str | Path]) -> Counts:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"FAILED: {target} text, seed {seed}\n{done.stdout}{done.stderr}", file=sys.stderr)
        return Counts(failed=1)
    runs = [int(one or other) for one, other in _INPUTS.findall(done.stdout + done.stderr)]
    return Counts({f"{target} texts": max(runs, default=0)})
