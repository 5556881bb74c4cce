"""Vowpal Wabbit over a pandas frame, by its DFtoVW:

    python vw_frame.py FILE ROWS MODEL BITS

Reads the first rows of a CSV file into a frame of text, then times what turns the frame into
examples and learns them. Prints rows, progressive LogLoss and the seconds as JSON.
"""

from __future__ import annotations

import json
import math
import sys

from frames import read_frame
from timing import timed
from vowpalwabbit import Workspace
from vowpalwabbit.dftovw import DFtoVW

FTRL = "--ftrl --ftrl_alpha 0.1 --ftrl_beta 1 --loss_function logistic --link logistic"


def main(path: str, most_rows: int, model_path: str, bits: str) -> None:
    frame, clicks = read_frame(path, most_rows)
    columns = list(frame.columns)
    frame = frame.astype(object)  # it knows no categories
    frame["click"] = clicks * 2 - 1
    model = Workspace(f"{FTRL} -b {bits} --quiet")
    chances: list[float] = []

    def learn() -> None:
        converter = DFtoVW.from_column_names(df=frame, y="click", x=columns)
        for example in converter.convert_df():
            parsed = model.parse(example)
            model.learn(parsed)
            chances.append(parsed.get_simplelabel_prediction())
            model.finish_example(parsed)

    times = timed(learn)
    model.save(model_path)
    model.finish()
    sums = [-math.log(p if y else 1 - p) for p, y in zip(chances, clicks, strict=True)]
    print(json.dumps({"rows": len(frame), "loss": sum(sums) / len(sums), **times}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4])
