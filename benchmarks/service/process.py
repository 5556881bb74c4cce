"""Services in processes of their own, and what they cost."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from benchmarks.measure import PEERS_PYTHON, ROOT, BenchmarkError

_TICK = os.sysconf("SC_CLK_TCK")
_PEER = ROOT / "benchmarks/peers/vw_daemon.py"
VW_OPTIONS = ("--ftrl", "--loss_function", "logistic", "--link", "logistic", "-b", "22")


class Process:
    """A server, perhaps with children (VW's daemon has one); `cpu` is the time of all of them."""

    def __init__(self, command: list[str]) -> None:
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def cpu(self) -> float:
        ticks = 0
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            if int(fields[2]) == self.process.pid:
                ticks += int(fields[11]) + int(fields[12])
        return ticks / _TICK

    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * 4096


class Served(Process):
    """`pqr serve`; `ready_seconds` is how long it took to listen."""

    def __init__(self, folder: Path, *options: object) -> None:
        command = [sys.executable, "-m", "pqrlearn", "serve", str(folder), "--port", "0"]
        super().__init__([*command, "--quiet", *map(str, options)])
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        self.ready_seconds = time.perf_counter() - self.started
        if not self.url:
            raise BenchmarkError(f"pqr serve {folder} has not started")
        host, port = self.url.removeprefix("http://").split(":")
        self.address = (host, int(port))

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path) as answer:
            return json.load(answer)

    def post(self, path: str, body: bytes = b"") -> Any:
        with urllib.request.urlopen(self.url + path, data=body) as answer:
            return json.load(answer)


class VwDaemon(Process):
    """Vowpal Wabbit's, if the peers are installed."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        super().__init__([str(PEERS_PYTHON), str(_PEER), str(port), *VW_OPTIONS])
        self.address = ("127.0.0.1", port)
        deadline = time.monotonic() + 60
        while True:
            try:
                self.connection = socket.create_connection(self.address)
                return
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    self.__exit__()
                    raise BenchmarkError("Vowpal Wabbit's daemon has not started") from None
                time.sleep(0.05)


def has_vw() -> bool:
    if not PEERS_PYTHON.exists():
        return False
    found = subprocess.run([PEERS_PYTHON, "-c", "import vowpal_wabbit_next"], capture_output=True)
    return found.returncode == 0
