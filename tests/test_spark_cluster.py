"""A standalone master with two workers, through spark-submit; an executor is killed, or halted."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pqrlearn import from_bytes
from programs import needs_program

pytestmark = pytest.mark.cluster

JOB = Path(__file__).with_name("spark_job.py")
SECONDS = 1_500  # nothing takes this long unless it hangs


def spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


HERE = "127.0.0.1"
ELSEWHERE = "127.0.0.2"  # Spark makes no speculative copy on the host of the first one
ENVIRONMENT = os.environ | {"SPARK_LOCAL_IP": HERE, "PYSPARK_PYTHON": sys.executable}
SPECULATION = (
    "speculation=true",
    "speculation.interval=50ms",
    "speculation.quantile=0.5",
    "log.level=INFO",
)


@contextmanager
def daemon(log: Path, host: str, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """A part of the cluster, ended at the end."""
    command = [str(spark_home() / "bin" / "spark-class"), *map(str, arguments), "--host", host]
    environment = ENVIRONMENT | {"SPARK_LOCAL_IP": host}
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def wait_for(what: str, is_there: object, log: Path) -> None:
    end = time.monotonic() + SECONDS
    while not is_there():  # type: ignore[operator]
        assert time.monotonic() < end, f"{what} did not come: {log.read_text()[-2000:]}"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[int]]]:
    needs_program("java", package="default-jre-headless")
    folder, port = tmp_path_factory.mktemp("cluster"), free_port()
    log, master = folder / "master.log", f"spark://{HERE}:{port}"
    at = ("--port", port, "--webui-port", 0)
    one = ("org.apache.spark.deploy.worker.Worker", master)
    size = ("--cores", 1, "--memory", "1g", "--webui-port", 0)
    with daemon(log, HERE, "org.apache.spark.deploy.master.Master", *at):
        wait_for("the master", lambda: "New state: ALIVE" in log.read_text(), log)
        first, second = (folder / f"worker-{name}" for name in ("a", "b"))
        with (
            daemon(folder / "a.log", HERE, *one, *size, "--work-dir", first) as a,
            daemon(folder / "b.log", ELSEWHERE, *one, *size, "--work-dir", second) as b,
        ):
            wait_for("the workers", lambda: log.read_text().count("Registering worker") == 2, log)
            yield master, [a.pid, b.pid]


@contextmanager
def submitted(
    master: str, folder: Path, more: Iterable[str] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    submit = [str(spark_home() / "bin" / "spark-submit"), "--master", master]
    for setting in ("ui.enabled=false", "sql.shuffle.partitions=2", "executor.memory=768m", *more):
        submit += ["--conf", f"spark.{setting}"]
    (folder / "work").mkdir(parents=True)
    command = [*submit, str(JOB), str(folder / "work"), str(folder / "model.pqr")]
    with (folder / "submit.log").open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=ENVIRONMENT)
    try:
        yield process
        assert process.wait(SECONDS) == 0, (folder / "submit.log").read_text()[-4000:]
    finally:
        if process.poll() is None:
            process.kill()


def executors(workers: list[int]) -> list[int]:
    """Processes of executors: children of the workers."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
            line = (path / "cmdline").read_bytes()
        except (OSError, ValueError, IndexError):
            continue  # it has ended
        if parent in workers and b"CoarseGrainedExecutorBackend" in line:
            found.append(int(path.name))
    return found


def struck_in_a_round(
    folder: Path, workers: list[int], process: subprocess.Popen[bytes], how: signal.Signals
) -> tuple[int, Path]:
    """Sends a signal to an executor while workers learn: its process, and where the round is."""
    end = time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < end:
        for learned in folder.glob("work/*/round-[1-3]/learned"):
            if (learned / "_SUCCESS").exists() or not (learned / "_temporary").exists():
                continue
            victims = executors(workers)
            if not victims:
                continue
            os.kill(victims[0], how)
            if not (learned / "_SUCCESS").exists():
                return victims[0], learned
            with suppress(ProcessLookupError):
                os.kill(victims[0], signal.SIGCONT)
        time.sleep(0.01)
    pytest.fail("no executor could be struck in the middle of a round")


@pytest.fixture(scope="module")
def undisturbed(cluster: tuple[str, list[int]], tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("undisturbed")
    with submitted(cluster[0], folder):
        pass
    return (folder / "model.pqr").read_bytes()


def test_a_killed_executor_changes_no_bit(
    cluster: tuple[str, list[int]], undisturbed: bytes, tmp_path: Path
) -> None:
    master, workers = cluster
    with submitted(master, tmp_path) as process:
        killed = struck_in_a_round(tmp_path, workers, process, signal.SIGKILL)
    log = (tmp_path / "submit.log").read_text()
    assert "Lost executor" in log or "lost" in log, killed
    found = (tmp_path / "model.pqr").read_bytes()
    assert found == undisturbed
    assert from_bytes(found).rows > 30_000
    assert not list((tmp_path / "work").iterdir())  # nothing is left behind


def test_a_speculative_copy_of_a_slow_task_changes_no_bit(
    cluster: tuple[str, list[int]], undisturbed: bytes, tmp_path: Path
) -> None:
    master, workers = cluster
    with submitted(master, tmp_path, SPECULATION) as process:
        halted, learned = struck_in_a_round(tmp_path, workers, process, signal.SIGSTOP)
        try:
            round_log = tmp_path / "submit.log"
            wait_for(
                "the copy",
                lambda: (learned / "_SUCCESS").exists() or not learned.exists(),
                round_log,
            )
        finally:
            os.kill(halted, signal.SIGCONT)  # the first one goes on, and finds it is too late
    assert "as speculatable" in (tmp_path / "submit.log").read_text()
    assert (tmp_path / "model.pqr").read_bytes() == undisturbed
    assert not list((tmp_path / "work").iterdir())
