"""What the dictionary of names of a model takes in memory: python -m benchmarks.dictionary MODEL

Adds all names to an empty dictionary, as a reader does, block by block; of a small one to several,
as what else the process needs would otherwise count. Prints how many names there are, and how many
bytes each takes beside its own text, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np

from pqrlearn import load
from pqrlearn.names import Coded, Names, Texts, number

BLOCK, MOST = 1 << 16, 1 << 20


def main(path: str) -> None:
    _, ends, data = load(path).names.arrays()
    offsets = np.concatenate([np.zeros(1, np.int64), ends.astype(np.int64)])
    texts = Texts(offsets, data)
    made = [_dictionary(texts)]  # the first one also makes room for blocks
    before = _resident()
    copies = max(1, MOST // max(len(texts), 1))
    made += [_dictionary(texts) for _ in range(copies)]
    taken = (_resident() - before) / copies - len(data)
    print(json.dumps({"names": len(texts), "bytes_a_name": taken / max(len(texts), 1)}))


def _dictionary(texts: Texts) -> Names:
    names = Names()
    for start in range(0, len(texts), BLOCK):
        block = texts[start : start + BLOCK]
        number([Coded(block, np.arange(len(block), dtype=np.int32))], len(block), names)
    return names


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main(sys.argv[1])
