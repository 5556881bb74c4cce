"""Load on a service: wrk with single requests, threads with batches, one pipeline for the peer."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measure import BenchmarkError
from benchmarks.service.process import Process, Served, VwDaemon

CONNECTIONS = 64
BATCH_CONNECTIONS = 3
SCRIPT = Path(__file__).with_name("load.lua")
Reading = dict[str, Any]


def singles(served: Served, path: str, bodies: list[bytes], seconds: float) -> Reading:
    """One row a request, from 64 connections."""
    if shutil.which("wrk") is None:
        raise BenchmarkError("wrk is missing; on Debian: apt-get install wrk")
    with TemporaryDirectory() as folder:
        file = Path(folder, "bodies")
        file.write_bytes(b"\n".join(bodies))
        command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds:.0f}s", "--timeout", "30s"]
        command += ["-s", str(SCRIPT), served.url + path]
        before = served.cpu()
        done = subprocess.run(
            command, env=os.environ | {"BODIES": str(file)}, capture_output=True, text=True
        )
        cpu = served.cpu() - before
    if done.returncode:
        raise BenchmarkError(f"wrk: {done.stderr.strip()}")
    found: Reading = json.loads(done.stdout.strip().splitlines()[-1])
    if found["failed"]:
        raise BenchmarkError(f"{path}: {found['failed']} requests of {found['requests']} failed")
    count = found["requests"]
    return {
        "rows": count,
        "rows_per_second": count / found["seconds"],
        "cpu_us_per_row": 1e6 * cpu / count,
        "p50_ms": found["p50_ms"],
        "p99_ms": found["p99_ms"],
    }


def batched(
    served: Served, path: str, bodies: list[bytes], size: int, kind: str = "application/json"
) -> Reading:
    """All bodies, from a few connections at once."""
    todo, lock, failures = iter(bodies), threading.Lock(), list[str]()

    def send() -> None:
        connection = HTTPConnection(*served.address)
        while (body := _next(todo, lock)) is not None and not failures:
            connection.request("POST", path, body, {"Content-Type": kind})
            answer = connection.getresponse()
            said = answer.read()
            if answer.status != 200 or b'"error"' in said:
                failures.append(f"{path}: {answer.status} {said[:200]!r}")
        connection.close()

    threads = [threading.Thread(target=send) for _ in range(BATCH_CONNECTIONS)]
    found = _timed(served, threads, size * len(bodies))
    if failures:
        raise BenchmarkError(failures[0])
    return found


def _next(todo: Iterator[bytes], lock: threading.Lock) -> bytes | None:
    with lock:
        return next(todo, None)


def pipelined(daemon: VwDaemon, text: bytes, repeats: int) -> Reading:
    """Lines as fast as the daemon takes them; answers are counted meanwhile."""
    lines = text.count(b"\n") * repeats
    connection = daemon.connection

    def send() -> None:
        for part in islice(cycle([text]), repeats):
            connection.sendall(part)

    def receive() -> None:
        left = lines
        while left > 0 and (data := connection.recv(1 << 20)):
            left -= data.count(b"\n")

    return _timed(daemon, [threading.Thread(target=send), threading.Thread(target=receive)], lines)


def one_at_a_time(daemon: VwDaemon, text: bytes, seconds: float) -> Reading:
    """A line, its answer, the next line: what a client does that needs the answer."""
    lines, count, took = text.splitlines(keepends=True), 0, list[float]()
    daemon.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    daemon.connection.settimeout(60)  # an error, rather than a benchmark that never ends
    before, begin = daemon.cpu(), time.perf_counter()
    while (now := time.perf_counter()) - begin < seconds:
        daemon.connection.sendall(lines[count % len(lines)])
        if not daemon.connection.recv(1000):
            raise BenchmarkError("Vowpal Wabbit's daemon has hung up")
        took.append(time.perf_counter() - now)
        count += 1
    took.sort()
    return {
        "rows": count,
        "rows_per_second": count / (time.perf_counter() - begin),
        "cpu_us_per_row": 1e6 * (daemon.cpu() - before) / count,
        "p50_ms": 1e3 * took[len(took) // 2],
        "p99_ms": 1e3 * took[len(took) * 99 // 100],
    }


def _timed(process: Process, threads: list[threading.Thread], rows: int) -> Reading:
    before, begin = process.cpu(), time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begin
    cpu = process.cpu() - before
    return {
        "rows": rows,
        "rows_per_second": rows / seconds,
        "cpu_us_per_row": 1e6 * cpu / rows,
    }
