"""River's logistic regression with FTRL-Proximal over the first rows of a libsvm file:

    python river_ftrl.py FILE ROWS MODEL

Each row is a dict, predicted and then learned. Prints rows and progressive LogLoss as JSON.
"""

from __future__ import annotations

import json
import pickle
import sys
from itertools import islice

from river import linear_model, metrics, optim


def row_of(line: str) -> tuple[dict[str, float], bool]:
    label, *parts = line.split()
    pairs = (part.split(":") for part in parts)
    return {feature: float(value) for feature, value in pairs}, label == "1"


def main(path: str, most_rows: int, model_path: str) -> None:
    optimizer = optim.FTRLProximal(alpha=0.1, beta=1.0, l1=0.0, l2=0.0)
    model, loss, rows = linear_model.LogisticRegression(optimizer), metrics.LogLoss(), 0
    with open(path, encoding="ascii") as file:
        for line in islice(file, most_rows):
            x, y = row_of(line)
            loss.update(y, model.predict_proba_one(x))
            model.learn_one(x, y)
            rows += 1
    with open(model_path, "wb") as saved:
        pickle.dump(model, saved)
    print(json.dumps({"rows": rows, "loss": loss.get()}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
