"""xLearn's factorization machine of rank 8, one pass over a libsvm file:

    python xlearn_fm.py FILE ROWS MODEL

Its rates are its own defaults. xLearn shows the loss itself; what is printed here are the rows.
"""

from __future__ import annotations

import json
import os
import sys

os.environ.setdefault("USER", "nobody")  # without it, xLearn aborts

import xlearn


def main(path: str, rows: int, model_path: str) -> None:
    model = xlearn.create_fm()
    model.setTrain(path)
    model.disableEarlyStop()
    model.fit({"task": "binary", "k": 8, "epoch": 1, "log": f"{model_path}.log"}, model_path)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
