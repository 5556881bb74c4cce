"""What the dictionary of names of a model takes in memory: python -m benchmarks.dictionary MODEL

Adds all names to an empty dictionary, as a reader does, block by block. Prints how many there are,
and how many bytes each takes beside its own text, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np

from pqrlearn import load
from pqrlearn.names import Coded, Names, Texts, number

BLOCK = 1 << 16


def main(path: str) -> None:
    _, ends, data = load(path).names.arrays()
    offsets = np.concatenate([np.zeros(1, np.int64), ends.astype(np.int64)])
    texts, names = Texts(offsets, data), Names()
    before = _resident()
    for start in range(0, len(texts), BLOCK):
        block = texts[start : start + BLOCK]
        number([Coded(block, np.arange(len(block), dtype=np.int32))], len(block), names)
    taken = _resident() - before - len(data)
    print(json.dumps({"names": len(names), "bytes_a_name": taken / max(len(names), 1)}))


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main(sys.argv[1])
