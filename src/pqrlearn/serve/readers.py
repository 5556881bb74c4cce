"""Starts the processes that follow the log, and starts them again."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from pqrlearn.serve.settings import Settings

log = logging.getLogger("pqrlearn.serve")
_LIMITS = ("max_features", "max_pairs", "max_rows", "max_body", "max_bodies")


class Readers:
    """Processes that share one socket."""

    def __init__(
        self,
        folder: Path,
        count: int,
        listener: socket.socket,
        settings: Settings,
        tokens: Mapping[str, str],
        names: tuple[str, ...],
    ) -> None:
        self._listener = listener
        limits = {name: getattr(settings, name) for name in _LIMITS}
        self._told = [
            {"folder": str(folder), "parent": os.getpid(), "number": number}
            | {"file": listener.fileno()}
            | {"tokens": dict(tokens), "names": list(names), "limits": limits}
            for number in range(1, count + 1)
        ]
        self._processes = [self._start(told) for told in self._told]

    def _start(self, told: dict[str, object]) -> subprocess.Popen[bytes]:
        # Ctrl-C at a terminal is for the service, which stops its readers itself.
        process = subprocess.Popen(
            [sys.executable, "-m", "pqrlearn.serve.follow"],
            stdin=subprocess.PIPE,
            pass_fds=[self._listener.fileno()],
            start_new_session=True,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(told).encode())
        process.stdin.close()
        return process

    def look_after(self) -> None:
        """Starts those again that have ended."""
        for number, process in enumerate(self._processes):
            if process.poll() is not None:
                log.warning("reader %d has ended with %d", number + 1, process.returncode)
                self._processes[number] = self._start(self._told[number])

    def stop(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait()
