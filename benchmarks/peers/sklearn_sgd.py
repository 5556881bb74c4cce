"""scikit-learn's SGDClassifier over the first rows of a libsvm file:

    python sklearn_sgd.py FILE ROWS MODEL FEATURES

Learns in mini-batches, each predicted before it is learned, because a call of partial_fit for every
row would take hours. Prints rows and progressive LogLoss as JSON.
"""

from __future__ import annotations

import io
import json
import pickle
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import SGDClassifier

BATCH_ROWS = 10_000
# The best on this stream of a few rates; the defaults lose 0.04 more, almost as much as a constant.
SETTINGS = {"alpha": 1e-7, "learning_rate": "invscaling", "eta0": 0.1, "power_t": 0.25}


def batches(path: str, most_rows: int, features: int) -> Iterator[tuple[Any, Any]]:
    with open(path, "rb") as file:
        lines = islice(file, most_rows)
        while text := b"".join(islice(lines, BATCH_ROWS)):
            X, y = load_svmlight_file(io.BytesIO(text), n_features=features, zero_based=True)
            X.indices = X.indices.astype(np.int32)  # SGDClassifier refuses the loader's own int64
            X.indptr = X.indptr.astype(np.int32)
            yield X, y


def log_loss(chances: Any, clicks: Any) -> float:
    """The sum; kept away from infinity, as scikit-learn's own is."""
    tiny = np.finfo(np.float64).eps
    return -float(np.sum(np.log(np.clip(np.where(clicks == 1, chances, 1 - chances), tiny, 1))))


def main(path: str, most_rows: int, model_path: str, features: int) -> None:
    model = SGDClassifier(loss="log_loss", shuffle=False, random_state=1, **SETTINGS)
    rows, loss = 0, 0.0
    for X, y in batches(path, most_rows, features):
        chances = model.predict_proba(X)[:, 1] if rows else np.full(len(y), 0.5)
        loss += log_loss(chances, y)
        rows += len(y)
        model.partial_fit(X, y, classes=[0, 1])
    with open(model_path, "wb") as file:
        pickle.dump(model, file)
    print(json.dumps({"rows": rows, "loss": loss / rows}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
