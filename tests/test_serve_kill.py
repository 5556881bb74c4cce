"""kill -9 under load: nothing acknowledged is lost, nothing is learned twice.

`make torture` does this for longer.
"""

from __future__ import annotations

from pathlib import Path

from serve_kills import Killed

KILLS = 10


def test_a_service_killed_at_any_moment_loses_nothing(tmp_path: Path) -> None:
    service = Killed(tmp_path / "log", seed=1)
    for _ in range(KILLS):
        service.kill()
    assert service.finish() > 0


def test_a_service_that_is_stopped_under_load_loses_nothing(tmp_path: Path) -> None:
    service = Killed(tmp_path / "log", seed=2)
    for _ in range(3):
        service.kill(gently=True)
    assert service.finish() > 0
