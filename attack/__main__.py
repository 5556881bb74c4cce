"""python -m attack: all attacks in turn, and one line of counts."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import warnings
from pathlib import Path
from random import SystemRandom

from attack import base, collisions, files, forks, kills, services, texts, threads

ATTACKS: dict[str, base.Attack] = {
    "kills": kills.attack,
    "services": services.attack,
    "folders": services.folders,
    "grammar": texts.grammar,
    "libsvm": texts.libsvm,
    "vw": texts.vw,
    "models": files.models,
    "tables": files.tables,
    "threads": threads.attack,
    "forks": forks.attack,
    "collisions": collisions.attack,
}
_TURN_SECONDS = 20.0


def run(names: list[str], minutes: float, seed: int, scratch: Path) -> base.Counts:
    """Each in turn, at a new seed each time, until the time is over; each at least once."""
    deadline = time.monotonic() + 60 * minutes
    turn = min(_TURN_SECONDS, 60 * minutes / len(names))
    counts, turns = base.Counts(), 0
    while turns < len(names) or time.monotonic() < deadline:
        name = names[turns % len(names)]
        folder = scratch / f"{name}-{turns}"
        folder.mkdir()
        counts += ATTACKS[name](seed + 1_000_000 * turns, turn, folder)
        turns += 1
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, help="default: another one each time")
    parser.add_argument("--only", choices=ATTACKS, action="append", help="one kind of attack")
    given = parser.parse_args()
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", ".*multi-threaded", DeprecationWarning)  # forks is about it
    seed = SystemRandom().randrange(10**9) if given.seed is None else given.seed
    names = given.only or list(ATTACKS)
    scratch, start = Path(tempfile.mkdtemp(prefix="attack-")), time.monotonic()
    print(f"seed {seed}, in {scratch}", file=sys.stderr, flush=True)  # also if it crashes
    counts = run(names, given.minutes, seed, scratch)
    failed = counts.pop("failed", 0)
    if failed:
        print(f"what failed is in {scratch}", file=sys.stderr)
    else:
        shutil.rmtree(scratch)
    told = ", ".join(f"{count:,} {what}" for what, count in sorted(counts.items()))
    print(f"seed {seed}, {(time.monotonic() - start) / 60:.1f} minutes: {told}; {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
