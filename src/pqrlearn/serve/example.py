"""A service for a moment, on a thread of this process: for examples and tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

from pqrlearn.serve.server import Listening, Server, run
from pqrlearn.serve.service import Service
from pqrlearn.serve.settings import Settings


@contextmanager
def running() -> Iterator[str]:
    """The address of a new service, which is gone at the end of the block.

    >>> with running() as url:
    ...     url.startswith("http://127.0.0.1:")
    True
    """
    urls: SimpleQueue[str] = SimpleQueue()
    servers: list[Server] = []
    with TemporaryDirectory() as folder:
        service = Service(Path(folder, "log"), Settings())

        def serve() -> None:
            try:
                run(service, Listening(port=0), urls.put, servers.append)
            finally:
                urls.put("")  # so that nobody waits for it

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield urls.get()
        finally:
            for server in servers:
                server.should_exit = True
            thread.join()
