"""A service under everything that may happen to a machine: run by `make torture`.

    python tests/torture.py --kills 200 --soak 600

Each part prints what it has done; the first promise that is broken ends it all with a traceback,
and the folder of that service is kept.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random, SystemRandom

from serving import lr_file
from torture_disk import full_disk
from torture_kills import Tortured, Weather
from torture_soak import soak
from torture_windows import windows

KILLS_OF_ONE = 20
"""Kills of one service; then its whole log is replayed, and another one begins."""
Part = Callable[[Path, int, argparse.Namespace], Counter[str]]


def kills(folder: Path, seed: int, given: argparse.Namespace) -> Counter[str]:
    """LR and Auto, alone and with a reader, each in turn."""
    weather, counts, left = Weather(folder), Counter[str](), given.kills
    for number, (name, options) in enumerate(services(folder)):
        if left <= 0:
            break
        service = Tortured(folder / f"{number}-{name}", seed + number, weather, options)
        for _ in range(min(left, KILLS_OF_ONE)):
            service.kill()
        service.finish()
        left -= service.kills
        counts += service.counts
        _say(f"{name}: {_told(service.counts)}")
        shutil.rmtree(service.folder)
    return counts


def services(folder: Path) -> Iterator[tuple[str, tuple[object, ...]]]:
    lr = ("-m", lr_file(folder / "lr.pqr"))
    reader = ("--readers", 1, "--reader-port", 0)
    while True:
        yield "lr", lr
        yield "auto", ()
        yield "lr-reader", (*lr, *reader)
        yield "auto-reader", reader


PARTS: dict[str, Part] = {
    "kills": kills,
    "windows": lambda folder, seed, given: windows(folder, seed, max(1, given.kills // 10)),
    "full-disk": lambda folder, seed, given: full_disk(folder, seed),
    "soak": lambda folder, seed, given: soak(folder, seed, given.soak),
}


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in counts.items())


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--soak", type=float, default=600.0, metavar="SECONDS")
    parser.add_argument("--seed", type=int, help="default: another one each time")
    parser.add_argument("--only", choices=PARTS, action="append")
    given = parser.parse_args()
    seed = SystemRandom().randrange(10**9) if given.seed is None else given.seed
    _say(f"seed {seed}")
    scratch = Path(tempfile.mkdtemp(prefix="torture-"))
    for name in given.only or PARTS:
        folder = scratch / name
        folder.mkdir()
        counts = PARTS[name](folder, Random(f"{seed} {name}").randrange(10**9), given)
        print(f"{name}: {_told(counts)}", flush=True)
    shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
