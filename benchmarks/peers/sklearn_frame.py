"""scikit-learn over a pandas frame, by OneHotEncoder and SGDClassifier:

    python sklearn_frame.py FILE ROWS MODEL

Reads the first rows of a CSV file into a frame of categories, then times encoding all of it and one
pass of learning. Prints rows, LogLoss after that pass and the seconds as JSON.
"""

from __future__ import annotations

import json
import pickle
import sys

import numpy as np
from frames import read_frame
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import OneHotEncoder
from sklearn_sgd import SETTINGS, log_loss
from timing import timed


def main(path: str, most_rows: int, model_path: str) -> None:
    frame, clicks = read_frame(path, most_rows)
    encoder = OneHotEncoder(dtype=np.float32)
    model = SGDClassifier(loss="log_loss", shuffle=False, random_state=1, **SETTINGS)

    def learn() -> None:
        model.partial_fit(encoder.fit_transform(frame), clicks, classes=[0, 1])

    times = timed(learn)
    loss = log_loss(model.predict_proba(encoder.transform(frame))[:, 1], clicks)
    with open(model_path, "wb") as file:
        pickle.dump((encoder, model), file)
    print(json.dumps({"rows": len(frame), "loss": loss / len(frame), **times}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
