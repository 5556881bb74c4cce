"""A service on a disk that fails: run by test_serve_log.py, with tests/native/faults.c loaded.

    LD_PRELOAD=faults.so python tests/serve_faults.py FOLDER

Whatever call fails, and whenever: what was acknowledged is there when the service is started again,
its model is what replaying the log gives, and a service that has failed acknowledges nothing more.
Prints how many calls have failed.
"""

from __future__ import annotations

import errno
import shutil
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random

from faults import HALFWAY, SYSTEM, check_named
from pqrlearn import LR
from pqrlearn.errors import PqrError
from pqrlearn.serve.keeper import Keeper
from pqrlearn.serve.models import keep
from pqrlearn.serve.service import Service
from serving import busy, replay, row, start_lr

ERRORS = (errno.ENOSPC, errno.EIO, HALFWAY)
SETTINGS = {"segment_bytes": 2_000, "keep_log": True}

Step = Callable[[Service, Random], None]


def commit(service: Service, random: Random) -> None:
    for _ in range(5):
        service.predict(row(random))
    service.commit()


def snapshot(service: Service, random: Random) -> None:
    keeper = Keeper(service)
    keeper.take()
    keeper.remove_needless()


def swap(service: Service, random: Random) -> None:
    service.take_over(keep(service.folder, LR(alpha=0.5 + random.random()).to_bytes()))
    service.commit()


def erase(service: Service, random: Random) -> None:
    keeper, key = Keeper(service), min(service.ids.waiting)
    keeper.forget(key.decode())
    keeper.take()
    assert keeper.erase(key.decode()) == 2  # the row, and that it is not learned
    service.log.close_files()


def fail_at_every_call(folder: Path, step: Step, error: int, *, for_good: bool) -> int:
    """Until a step makes fewer calls than are to go well; how many calls have failed."""
    for nth in count(1):
        shutil.rmtree(folder, ignore_errors=True)
        random = Random(nth)
        service = start_lr(folder, **SETTINGS)
        busy(service, random, 30)
        acknowledged, failed = set(service.ids.waiting), False
        gone = {min(acknowledged)} if step is erase else set()
        before = service.model.to_bytes()
        SYSTEM.faults_arm(nth, error, for_good)
        try:
            step(service, random)
            acknowledged = set(service.ids.waiting)
        except (PqrError, OSError) as found:
            failed = True
            check_named(found)
        finally:
            calls = SYSTEM.faults_disarm()
        assert not failed or error != HALFWAY, f"call {nth}: a short write is no error"
        if service.log.failed is not None:
            assert failed, f"call {nth}, error {error}: acknowledged without being on disk"
            assert refuses(service, random)
        service.close()
        again = start_lr(folder, **SETTINGS)
        rest = acknowledged - gone
        assert rest <= set(again.ids.waiting), f"call {nth}, error {error}: rows are lost"
        expected = before if step is erase else replay(folder)  # what is erased is not replayed
        assert again.model.to_bytes() == expected, f"call {nth}, error {error}"
        again.close()
        if calls < nth:
            return nth - 1
    raise AssertionError


def fail_to_begin(folder: Path, error: int) -> int:
    """A service that cannot be started in an empty folder can be started there later."""
    for nth in count(1):
        shutil.rmtree(folder, ignore_errors=True)
        SYSTEM.faults_arm(nth, error, False)
        try:
            start_lr(folder, **SETTINGS).close()
        except (PqrError, OSError) as found:
            check_named(found)
        finally:
            calls = SYSTEM.faults_disarm()
        service = start_lr(folder, **SETTINGS)
        busy(service, Random(nth), 5)
        service.close()
        assert service.model.to_bytes() == replay(folder)
        if calls < nth:
            return nth - 1
    raise AssertionError


def refuses(service: Service, random: Random) -> bool:
    try:
        service.predict(row(random))
    except PqrError:
        return True
    return False


def main(folder: Path) -> None:
    failures = 0
    for step in (commit, snapshot, swap, erase):
        for error in ERRORS:
            for for_good in (False, True):
                failures += fail_at_every_call(folder / "log", step, error, for_good=for_good)
    failures += sum(fail_to_begin(folder / "log", error) for error in ERRORS)
    print(failures)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
