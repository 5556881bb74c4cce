"""River's logistic regression on dicts, one by one: python river_one.py FILE LEARNED

With its default optimizer, plain SGD, which takes a fraction of the time of its FTRL-Proximal.
Prints the microseconds that a row takes after the first LEARNED.
"""

from __future__ import annotations

import json
import sys

from one_by_one import microseconds
from river import linear_model


def main(path: str, learned: int) -> None:
    model = linear_model.LogisticRegression()
    print(json.dumps({"microseconds": microseconds(model.learn_one, path, learned)}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
