"""A standing attack on the project: everything that has ever broken it, at random seeds.

    python -m attack --minutes 10

Each module is one kind of attack: a function from a seed, a time and a folder to counts. What
fails is described on stderr and counted as `failed`, with the seed to run it again. The checks are
those of tests/ and fuzz/.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / room) for room in ("tests", "fuzz")]  # where the checks are
