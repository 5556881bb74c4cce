"""myFM's Bayesian factorization machine (a probit one, sampled many times over all rows):

    python myfm_gibbs.py FILE ROWS RANK

Fits the first ROWS rows of a libsvm file; prints the LogLoss on the others as JSON.
"""

from __future__ import annotations

import json
import sys

import myfm
from sklearn.datasets import load_svmlight_file
from sklearn.metrics import log_loss

ROUNDS, BURN_IN = 30, 10


def main(path: str, rows: int, rank: int) -> None:
    X, y = load_svmlight_file(path, zero_based=True)
    model = myfm.MyFMClassifier(rank, random_seed=1)
    model.fit(X[:rows], y[:rows] > 0, n_iter=ROUNDS, n_kept_samples=ROUNDS - BURN_IN)
    loss = log_loss(y[rows:], model.predict_proba(X[rows:]))
    print(json.dumps({"rows": len(y) - rows, "loss": loss}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
