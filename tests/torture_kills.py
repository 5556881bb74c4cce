"""Kills under load, with stops, slow disks, jumping clocks, torn writes and flipped bytes."""

from __future__ import annotations

import shutil
import signal
import struct
import subprocess
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import httpx
from google_crc32c import value as crc32c

import pqrlearn
from command import PQR, SECONDS
from programs import COMPILER
from serve_kills import OPTIONS, Killed
from serving import HEAD_BYTES, RECORD, Running, replay, row

FIRST = 0x80
CHECKED_HEAD = 60  # the last four bytes of a head are zeros that mean nothing
DAY = 86_400 * 10**6
SLOWEST = 200_000


class Weather:
    """What tests/native/weather.c does to the processes that have its `environment`."""

    def __init__(self, folder: Path) -> None:
        library, self._file = folder / "weather.so", folder / "weather"
        source = Path(__file__).parent / "native/weather.c"
        flags = ["-x", "c", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
        subprocess.run([COMPILER, *flags, source, "-o", library, "-ldl"], check=True)
        self._file.write_bytes(bytes(16))
        self.environment = {"LD_PRELOAD": str(library), "PQR_WEATHER": str(self._file)}
        self._clock = self._delay = 0

    def clock(self, microseconds: int) -> None:
        self._clock = microseconds
        self._put()

    def sync_takes(self, microseconds: int) -> None:
        self._delay = microseconds
        self._put()

    def _put(self) -> None:
        with self._file.open("r+b") as file:  # the processes have mapped this very file
            file.write(struct.pack("<qq", self._clock, self._delay))


class Tortured(Killed):
    """A service that is killed, and not only that."""

    def __init__(
        self, folder: Path, seed: int, weather: Weather, options: tuple[object, ...] = ()
    ) -> None:
        super().__init__(folder, seed, options=(*OPTIONS, *options))
        self._weather = weather
        self.counts: Counter[str] = Counter()
        self._has_readers = "--readers" in options

    def begin(self) -> Running:
        if (self.folder / "log").exists():
            if self.random.random() < 0.3:
                self._tear()
            if self.random.random() < 0.2:
                self._flip()
        self._weather.clock(self.random.choice([0, 0, -DAY, DAY, self.random.randrange(DAY)]))
        return Running(self.folder, *self.options, environment=self._weather.environment)

    def disturb(self, running: Running) -> None:
        self.random.choice([self._load, self._load, self._stop, self._slow, self._jump])(running)
        self.counts["kills"] += 1

    def _load(self, running: Running) -> None:
        super().disturb(running)

    def _stop(self, running: Running) -> None:
        """SIGSTOP; sometimes the kill meets it asleep."""
        time.sleep(self.random.uniform(0, 0.2))
        running.process.send_signal(signal.SIGSTOP)
        time.sleep(self.random.uniform(0, 1))
        if self.random.random() < 0.7:
            running.process.send_signal(signal.SIGCONT)
            time.sleep(self.random.uniform(0, 0.2))
        self.counts["stops"] += 1

    def _slow(self, running: Running) -> None:
        self._weather.sync_takes(self.random.randrange(SLOWEST))
        time.sleep(self.random.uniform(0, 1))
        self._weather.sync_takes(0)
        self.counts["slow disks"] += 1

    def _jump(self, running: Running) -> None:
        for _ in range(5):
            self._weather.clock(self.random.randrange(-DAY, DAY))
            time.sleep(self.random.uniform(0, 0.1))
        self.counts["clock jumps"] += 5

    # -- what a crash and a bad disk leave behind --------------------------------------------

    def _tear(self) -> None:
        """Some of a write that was never acknowledged."""
        last = sorted((self.folder / "log").iterdir())[-1]
        data = last.read_bytes()
        if len(data) < HEAD_BYTES:
            return  # torn already
        record = RECORD.pack(1000, self.random.getrandbits(32), 1 | FIRST, 7, 7)
        tails = [record, bytes(self.random.randrange(1, 5000)), self.random.randbytes(300)]
        tail = self.random.choice(tails)
        with last.open("ab") as file:
            file.write(tail[: self.random.randrange(1, len(tail) + 1)])
        self.counts["torn writes"] += 1

    def _flip(self) -> None:
        """One bit anywhere but in the last group, in a copy: it is found, or it does not matter."""
        copy = self.folder.with_name("flipped")
        shutil.copytree(self.folder, copy)
        places = self._places(copy)
        if places:
            path, at = self.random.choice(places)
            data = bytearray(path.read_bytes())
            data[at] ^= 1 << self.random.randrange(8)
            path.write_bytes(data)
            self._check_flipped(copy, f"{path.name}, byte {at}")
            self.counts["flipped bits"] += 1
        shutil.rmtree(copy)

    def _places(self, folder: Path) -> list[tuple[Path, int]]:
        """A random byte of each segment, as far as it was surely synced."""
        found = []
        paths = sorted((folder / "log").iterdir())
        for path in paths:
            data = path.read_bytes()
            end = len(data) if path != paths[-1] else _last_group(data)
            safe = [at for at in range(end) if not CHECKED_HEAD <= at < HEAD_BYTES]
            if safe:
                found.append((path, self.random.choice(safe)))
        return found

    def _check_flipped(self, folder: Path, where: str) -> None:
        command = [PQR, "log", str(folder), "--check"]
        checked = subprocess.run(command, capture_output=True, text=True, check=False)
        assert checked.returncode == 4, f"{where}: pqr log --check exits {checked.returncode}"
        running = Running(folder, *self.options)
        try:
            if running.url:
                running.stop()
                assert _model(folder) == replay(self.folder, torn=True), (
                    f"{where}: learned from damage"
                )
            else:
                said = running.stderr()
                assert running.process.returncode == 4, f"{where}: {said}"
                assert "damaged" in said or "segment before it ends" in said, f"{where}: {said}"
        finally:
            running.__exit__()

    # -- at the end ---------------------------------------------------------------------------

    def settle(self, running: Running) -> None:
        if not self._has_readers:
            return
        assert running.process.stdout is not None
        url = running.process.stdout.readline().strip()
        deadline = time.monotonic() + SECONDS
        while not _level(running):
            assert time.monotonic() < deadline, f"readers lag: {running.get('/v1/status')}"
            time.sleep(0.01)
        with httpx.Client(base_url=url, timeout=SECONDS) as reader:
            for _ in range(50):
                asked = {"features": row(self.random)}
                assert reader.post("/v1/score", json=asked).json() == running.ok("/v1/score", asked)
        self.counts["readers that converged"] += 1

    def finish(self) -> int:
        labels = super().finish()
        self.counts["rows"] += sum(len(memory.rows) for memory in self.memories)
        self.counts["labels"] += labels
        self.counts["models equal to a replay"] += 1
        times = _times(self.folder)
        assert all(a <= b for a, b in pairwise(times)), "the clock of the log went back"
        return labels


def _last_group(data: bytes) -> int:
    """Where the last group of a segment begins: everything before it was synced."""
    at = found = HEAD_BYTES
    while at + RECORD.size <= len(data):
        length, checksum, kind, _, _ = RECORD.unpack_from(data, at)
        end = at + RECORD.size + length
        if crc32c(data[at : at + 4] + data[at + 8 : end]) != checksum:
            break
        found = at if kind & FIRST else found
        at = end
    return found


def _level(running: Running) -> bool:
    readers = running.get("/v1/status")["readers"]
    return bool(readers) and all(one["lag_bytes"] == 0 for one in readers)


def _model(folder: Path) -> bytes:
    last = sorted((folder / "snapshots").iterdir())[-1]
    return pqrlearn.load(last / "model.pqr").to_bytes()


def _times(folder: Path) -> list[int]:
    found = []
    for path in sorted((folder / "log").iterdir()):
        data, at = path.read_bytes(), HEAD_BYTES
        while at < len(data):
            length, _, _, _, moment = RECORD.unpack_from(data, at)
            found.append(moment)
            at += RECORD.size + length
    return found
