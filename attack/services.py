"""`pqr serve` under load: killed, stopped, on slow disks, with torn writes and damaged folders.

The checks are those of `make torture`, without its full disk and its soak, which take their time
and root.
"""

from __future__ import annotations

import shutil
from itertools import islice
from pathlib import Path
from random import Random

from attack.base import Counts, seeds, tried
from golden_runs import FORGETTING, SERVICE  # of tests/
from pqrlearn.errors import PqrError
from pqrlearn.logfile import Log
from pqrlearn.serve.service import Service
from serving import records, replay
from torture import services
from torture_kills import Tortured, Weather
from torture_windows import windows

_KILLS = 5


def attack(seed: int, seconds: float, scratch: Path) -> Counts:
    """Kills of a service of any kind, then one with windows for labels."""
    counts, weather = Counts(), Weather(scratch)
    kinds = dict(islice(services(scratch), 4))
    for each in seeds(seed, seconds):
        random, folder = Random(each), scratch / f"{each}"
        options = kinds[random.choice(list(kinds))]
        service = Tortured(folder, each, weather, options)
        if random.random() < 0.2:
            (folder := scratch / f"windows-{each}").mkdir()
            tried(counts, "services", each, lambda f=folder, s=each: windows(f, s, _KILLS))
        else:
            tried(counts, "services", each, lambda service=service: _kill(service))
        counts["torn logs"] += service.counts["torn writes"] + service.counts["flipped bits"]
        shutil.rmtree(folder, ignore_errors=True)
    counts["service kills"] = _KILLS * counts["services"]
    return counts


def _kill(service: Tortured) -> None:
    for _ in range(_KILLS):
        service.kill()
    service.finish()


def folders(seed: int, seconds: float, scratch: Path) -> Counts:
    """Damage anywhere in the folder of a service: found, or of no effect.

    Only the end of the log may go missing, as a torn write does.
    """
    counts = Counts()
    wholes, shorter = _models(scratch)
    for each in seeds(seed, seconds):
        tried(
            counts,
            "damaged folders",
            each,
            lambda each=each: _damage(Random(each), scratch / "live", wholes, shorter),
        )
    return counts


def _models(scratch: Path) -> tuple[set[bytes], set[bytes]]:
    """The model of the whole log, and those of logs that are cut in the last segment."""
    live = Path(shutil.copytree(SERVICE / "live", scratch / "cut"))
    last = max((live / "log").iterdir())
    whole, begin = replay(live), int(last.stem)
    data, shorter = last.read_bytes(), set()
    for position in (place for place, _, _ in records(live) if place >= begin):
        last.write_bytes(data[: Log(live).segments[-1].offset(position)])
        shorter.add(replay(live))
        last.write_bytes(data)
    return {whole}, shorter


def _damage(random: Random, live: Path, wholes: set[bytes], shorter: set[bytes]) -> None:
    shutil.rmtree(live, ignore_errors=True)
    shutil.copytree(SERVICE / "live", live)
    path = random.choice(sorted(file for file in live.rglob("*") if file.is_file()))
    path.write_bytes(damaged(random, path.read_bytes()))
    allowed = wholes | (shorter if path == max((live / "log").iterdir()) else set())
    try:
        service = Service(live, FORGETTING)
    except PqrError:
        return
    found = service.model.to_bytes()
    service.close()
    assert found in allowed, f"{path.name}: learned from damage"


def damaged(random: Random, data: bytes) -> bytes:
    """A bit flipped, bytes cut off, cut out, put in or zeroed."""
    at = random.randrange(len(data))
    size = random.choice([1, 4, 64, 1000])
    return random.choice(
        [
            data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :],
            data[:at],
            data[:at] + data[at + size :],
            data[:at] + random.randbytes(size) + data[at:],
            data[:at] + bytes(min(size, len(data) - at)) + data[at + size :],
        ]
    )
