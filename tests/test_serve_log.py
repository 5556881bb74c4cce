"""The log on disk: groups, segments, torn tails, damage, and disks that fail."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path
from random import Random

import pytest

from failing import with_failing_calls
from pqrlearn.errors import Corrupt, DataError, PqrError, WrongVersion
from pqrlearn.logfile import HEAD, Kind, Log, pack_outcome, packed
from pqrlearn.serve.errors import Unavailable
from pqrlearn.serve.ids import Ids
from pqrlearn.serve.log import LogWriter
from serving import busy, records, replay, start_lr

TESTS = Path(__file__).parent


def filled(folder: Path, groups: int = 5, **settings: int) -> list[int]:
    """A log with groups of three records; where each group ends."""
    log, ends = LogWriter(folder, **settings), []
    for group in range(groups):
        for n in range(3):
            log.append(Kind.LABEL, pack_outcome(f"{group}-{n}".encode(), 0, 1.0, 1.0), 1000 + n)
        log.commit()
        ends.append(log.synced)
    log.close()
    return ends


def only(folder: Path) -> Path:
    (path,) = (folder / "log").iterdir()
    return path


def count(folder: Path) -> int:
    return len(list(Log(folder).records()))


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    filled(tmp_path, segment_bytes=300)
    found = list(Log(tmp_path).records())
    assert [record.sequence for record in found] == list(range(1, 16))
    assert [record.time for record in found] == [1000, 1001, *[1002] * 13]  # never backwards
    assert len(records(tmp_path)) == 15
    assert len(list((tmp_path / "log").iterdir())) > 2
    log = Log(tmp_path)
    assert all(log.at(record.position) == record for record in found)


def test_positions_and_sequences_go_on(tmp_path: Path) -> None:
    ends = filled(tmp_path)
    log = LogWriter(tmp_path)
    assert (log.synced, log.sequence, log.time) == (ends[-1], 15, 1002)
    assert log.append(Kind.END, b"", 0).position == ends[-1]


def test_a_torn_tail_is_cut_wherever_it_is_torn(tmp_path: Path) -> None:
    whole = filled(tmp_path, groups=2)
    path = only(tmp_path)
    data = path.read_bytes()
    for cut in range(HEAD.size + whole[0], len(data)):
        path.write_bytes(data[:cut])
        log = LogWriter(tmp_path)
        assert log.synced <= cut - HEAD.size
        assert log.cut == cut - HEAD.size - log.synced
        log.close()
        assert path.stat().st_size == HEAD.size + log.synced
        assert 3 <= count(tmp_path) <= 5


def test_pages_of_the_last_group_may_be_missing_in_any_order(tmp_path: Path) -> None:
    """After a power cut the end of a group may be on disk, and its beginning not."""
    ends = filled(tmp_path, groups=2)
    path = only(tmp_path)
    data = bytearray(path.read_bytes())
    data[HEAD.size + ends[0] : HEAD.size + ends[0] + 60] = bytes(60)
    path.write_bytes(data)
    LogWriter(tmp_path).close()
    assert count(tmp_path) == 3


def test_damage_before_a_later_group_is_an_error_with_its_place(tmp_path: Path) -> None:
    ends = filled(tmp_path, groups=3)
    path = only(tmp_path)
    data = path.read_bytes()
    for at in range(HEAD.size, HEAD.size + ends[1], 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 64]) + data[at + 1 :])
        with pytest.raises(Corrupt, match=r"\.log: damaged at byte [\d,]+") as caught:
            LogWriter(tmp_path)
        assert caught.value.exit_code == 4
        assert path.stat().st_size == len(data)


def test_damage_in_an_earlier_segment_is_an_error_with_its_place(tmp_path: Path) -> None:
    filled(tmp_path, segment_bytes=100)
    first, second, *_ = sorted((tmp_path / "log").iterdir())
    data = first.read_bytes()
    first.write_bytes(data[:-1])
    with pytest.raises(Corrupt, match="the segment before it ends at"):
        LogWriter(tmp_path)
    first.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(Corrupt, match="damaged at byte"):
        list(Log(tmp_path).records())
    first.write_bytes(data)
    second.unlink()
    with pytest.raises(Corrupt, match="the segment before it ends at"):
        LogWriter(tmp_path)


def test_a_damaged_head_is_an_error(tmp_path: Path) -> None:
    filled(tmp_path)
    path = only(tmp_path)
    data = path.read_bytes()
    for at in range(HEAD.size - 4):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(Corrupt, match="damaged at byte 0"):
            LogWriter(tmp_path)


@pytest.mark.parametrize("left", [0, 10, HEAD.size])
def test_a_segment_that_was_just_begun_is_dropped(tmp_path: Path, left: int) -> None:
    ends = filled(tmp_path)
    (tmp_path / "log" / f"{ends[-1]:020}.log").write_bytes(bytes(left))
    log = LogWriter(tmp_path)
    assert log.synced == ends[-1]
    log.append(Kind.END, b"", 0)
    log.commit()
    assert count(tmp_path) == 16


def test_a_missing_record_is_damage(tmp_path: Path) -> None:
    filled(tmp_path)
    path = only(tmp_path)
    path.write_bytes(path.read_bytes() + packed(Kind.END | 128, 17, 0, b""))
    with pytest.raises(Corrupt, match="a record is missing"):
        LogWriter(tmp_path)


def test_other_folders_are_no_logs(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no log of pqr serve"):
        Log(tmp_path)
    (tmp_path / "pqr-log.json").write_text('{"format": 2}')
    with pytest.raises(WrongVersion, match="another format"):
        Log(tmp_path)


def test_the_service_replays_what_a_torn_tail_leaves(tmp_path: Path) -> None:
    folder, random = tmp_path / "log", Random(1)
    service = start_lr(folder)
    busy(service, random, 300)
    service.close()
    path = only(folder)
    with path.open("rb+") as file:
        file.truncate(path.stat().st_size - 11)
    again = start_lr(folder)
    assert again.log.cut > 0
    assert again.model.to_bytes() == replay(folder)


# Disks that fail.


def test_after_an_error_nothing_is_acknowledged_for_good(tmp_path: Path) -> None:
    service = start_lr(tmp_path / "log")
    service.predict({"a": 1.0}, "before")
    service.commit()
    os.close(service.log._output)
    service.predict({"a": 1.0}, "during")
    with pytest.raises(Unavailable, match="cannot be written"):
        service.commit()
    service.log._output = os.open(only(service.folder), os.O_WRONLY | os.O_APPEND)  # it is well now
    for ask in (service.commit, lambda: service.predict({"a": 1.0}, "after")):
        with pytest.raises(Unavailable, match="started again"):
            ask()
    service.close()
    assert list(start_lr(tmp_path / "log").ids.waiting) == [b"before"]


def test_nothing_acknowledged_is_lost_whatever_call_fails(tmp_path: Path) -> None:
    """Commits, new segments and snapshots; with an error, or halfway."""
    assert with_failing_calls("serve_faults.py", tmp_path) > 400


# Memory.


def test_a_waiting_id_costs_at_most_200_bytes() -> None:
    count = 43_700  # right after the dict has grown, when it is emptiest
    tracemalloc.start()
    try:
        ids = Ids(most_finished=1)
        for n in range(count):
            ids.waiting[f"{n:032x}".encode()] = (1 << 40) + n
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert used / count <= 200


def test_ids_that_are_damaged_are_an_error() -> None:
    for data in (b"", b"\x93", b"\x93\x81\xc4\x01a\xc0\x80\x80"):
        with pytest.raises((ValueError, PqrError)):
            Ids.from_bytes(data, 10)
