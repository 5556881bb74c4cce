"""The log for other programs: pqr log, pqr train FOLDER, pqrlearn.read."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

import pqrlearn
from command import failure, figures, ok, run
from pqrlearn import LR, Batch, Column, Schema
from pqrlearn.logfile import Kind
from pqrlearn.serve.keeper import Keeper
from pqrlearn.serve.service import Service
from pqrlearn.serve.settings import Settings
from pqrlearn.serve.windows import expire
from serving import HEAD_BYTES, busy, records, start, start_lr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a service that is stopped, with records of every kind."""
    folder = tmp_path / "log"
    service = start_lr(folder, label_window=100, late="learn", segment_bytes=5000, keep_log=True)
    waiting = busy(service, Random(1), 300)
    service._offset += 101
    while expire(service):
        service.commit()
    service.commit()
    service.learn(waiting[0], 1.0)
    service.learn("both", 1.0, 0.5, {"site": "news", "price": 1, "new": "x"})
    service.predict({"site": "shop"}, "waits")
    service.append(Kind.END, b"")
    service.commit()
    service.close()
    return folder


def model_of(folder: Path) -> bytes:
    service = start_lr(folder)
    found = service.model.to_bytes()
    service.close()
    return found


def test_training_from_the_log_gives_the_model_of_the_service(folder: Path, tmp_path: Path) -> None:
    ok("train", folder, "--model", "lr", "-o", tmp_path / "again.pqr", "--quiet", "--json")
    assert (tmp_path / "again.pqr").read_bytes() == model_of(folder)


def test_the_log_is_an_input_like_any_other(folder: Path, tmp_path: Path) -> None:
    rows = pqrlearn.read(folder, loss="logistic")
    joined = Batch.joined(rows)
    labels = [kind for _, kind, _ in records(folder) if kind in (2, 3, 4)]
    assert len(joined) == rows.rows == len(labels)
    assert rows.fraction() == 1.0
    assert rows.digest() == pqrlearn.read(folder).digest()
    again = pqrlearn.read(folder, format="log")
    assert Batch.joined(again).digest() == joined.digest()
    found = figures("train", folder, "--holdout", "0.2", "-o", tmp_path / "auto.pqr")
    assert found["model"] == "auto"
    assert found["rows"] + found["held_out"]["rows"] == len(labels)
    ok("predict", "-m", tmp_path / "auto.pqr", folder, "-o", tmp_path / "predictions", "--quiet")
    assert len((tmp_path / "predictions").read_text().splitlines()) == len(labels)


def test_the_schema_of_the_service_reads_its_log(tmp_path: Path) -> None:
    columns = (Column("site", "category"), Column("hour", "number", center=12, scale=6))
    schema = Schema((*columns, Column("click", "label")))
    first = LR()
    first.schema = schema
    service = start(tmp_path / "log", model=first.to_bytes())
    for n in range(300):
        service.learn(str(n), n % 3 == 0, features={"site": n % 3, "hour": str(n % 24)})
    service.commit()
    expected = service.model.to_bytes()
    service.close()
    ok("train", tmp_path / "log", "--model", "lr", "-o", tmp_path / "again.pqr", "--json")
    assert (tmp_path / "again.pqr").read_bytes() == expected


def test_the_loss_is_that_of_the_service(tmp_path: Path) -> None:
    service = start(tmp_path / "log", model=LR("squared").to_bytes())
    for n in range(20):
        service.learn(str(n), 2.5 + n % 2, features={"film": str(n % 2)})
    service.commit()
    service.close()
    done = run("train", tmp_path / "log", "--json")
    assert json.loads(done.out)["settings"]["loss"] == "squared"
    said = failure(3, "train", tmp_path / "log", "--loss", "logistic")
    assert "label 2.5" in said
    assert "--on-bad-row skip" in said
    skipped = pqrlearn.read(tmp_path / "log", loss="logistic", on_bad_row="skip")
    with pytest.raises(pqrlearn.PqrError, match="no rows"):
        list(skipped)
    assert skipped.bad_rows == 20


def test_labels_whose_rows_are_gone_are_left_out(tmp_path: Path) -> None:
    service = Service(tmp_path / "log", Settings(segment_bytes=2000))
    keeper, random = Keeper(service), Random(2)
    for _ in range(5):
        for id in busy(service, random, 50):
            service.learn(id, 1.0)
        expire(service)
        keeper.take()
        keeper.remove_needless()
    service.close()
    rows = Batch.joined(pqrlearn.read(tmp_path / "log"))
    assert 0 < len(rows) < 250


def test_records_are_printed_as_json_lines(folder: Path) -> None:
    lines = [json.loads(line) for line in ok("log", folder).splitlines()]
    assert len(lines) == len(records(folder))
    assert {line["kind"] for line in lines} == {
        *("swap", "predict", "label", "both", "timeout", "end")
    }
    both = next(line for line in lines if line.get("id") == "both")
    assert (both["label"], both["weight"]) == (1.0, 0.5)
    assert both["features"] == {"site": "news", "price": 1, "new": "x"}


def test_a_log_is_checked(folder: Path) -> None:
    found = figures("log", folder, "--check")
    assert found["records"] == len(records(folder)) == sum(found["kinds"].values())
    assert found["ended_cleanly"]
    assert "records" in ok("log", folder, "--check")
    first = sorted((folder / "log").iterdir())[0]
    data = bytearray(first.read_bytes())
    data[-1] ^= 1
    first.write_bytes(data)
    assert "damaged at byte" in failure(4, "log", folder, "--check")
    assert "no log of pqr serve" in failure(3, "log", folder / "log", "--check")


def test_damage_before_a_later_group_is_found_when_a_log_is_checked(folder: Path) -> None:
    """In the last segment too, which may end in a torn write."""
    service = start_lr(folder)
    for name in ("one", "two"):
        service.predict({"site": "news"}, name)
        service.commit()
    service.close()
    last = sorted((folder / "log").iterdir())[-1]
    data = bytearray(last.read_bytes())
    places = [at - int(last.stem) + HEAD_BYTES for at, _, _ in records(folder)]
    groups = [at for at in places if at >= HEAD_BYTES and data[at + 8] & 128]
    data[groups[-1] - 1] ^= 1
    last.write_bytes(data)
    assert "damaged at byte" in failure(4, "log", folder, "--check")


def test_rows_are_exported(folder: Path, tmp_path: Path) -> None:
    count = figures("log", folder, "-o", tmp_path / "rows.jsonl")["rows"]
    lines = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert figures("log", folder, "-o", tmp_path / "rows.parquet")["rows"] == count == len(lines)
    table = pq.read_table(tmp_path / "rows.parquet")
    assert table["_label"].to_pylist() == [line["_label"] for line in lines]
    assert table["price"].to_pylist() == [line.get("price") for line in lines]
    assert table["new"].to_pylist()[-1] == "x"
    ignored = ("--ignore", "_id,_time,_margin,_timeout", "--weight", "_weight")
    found = figures("train", tmp_path / "rows.parquet", "--label", "_label", *ignored)
    assert found["rows"] == count
    assert "must end in" in failure(2, "log", folder, "-o", tmp_path / "rows.csv")
