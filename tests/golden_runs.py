"""Golden files of whole runs: a table with its schema, a checkpoint, the folder of a service.

`python tests/golden_runs.py` writes those that are missing, as golden_files.py does.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random

import pqrlearn
from command import clicks, ok, write_rows
from golden_files import GOLDEN, in_bits
from pqrlearn import LR, Column, Schema
from pqrlearn.logfile import Kind
from pqrlearn.serve.keeper import Keeper
from pqrlearn.serve.models import keep
from pqrlearn.serve.service import Service
from pqrlearn.serve.settings import Settings
from pqrlearn.serve.windows import expire
from serving import busy

TABLE, RESUMED = GOLDEN / "table", GOLDEN / "resumed"
SERVICE, ERASED = GOLDEN / "service", GOLDEN / "erased"
SETTINGS = Settings(segment_bytes=4_000, keep_log=True, label_window=1e6)
FORGETTING = replace(SETTINGS, unlabelled="forget")  # a rating has no negatives
SCHEMA = Schema(
    (
        Column("rating", "label"),
        Column("importance", "weight"),
        Column("user", "category"),
        Column("age", "bins", edges=(18.0, 40.0), place=True, missing=True),
        Column("price", "number", center=2.0, scale=0.5),
        Column("genres", "list", separator="|"),
        Column("seen", "time", parts=("hour", "weekday")),
        Column("note", "ignored"),
    )
)
ROWS = [
    "rating,importance,user,age,price,genres,seen,note",
    "5,1,ann,17,1.5,war|drama,2026-11-18T08:30:00,x",
    "2,0.5,ben,,0,drama,2026-11-17T23:00:00,",
    '1,2,"b, c",41,12.25,,2026-03-29T02:30:00,y',
    "4,1,ann,30,-3,comedy|war,1999-12-31T23:59:59,",
]


def write_table(folder: Path) -> None:
    (folder / "ratings.csv").write_text("\n".join([ROWS[0], *ROWS[1:] * 20]) + "\n")
    SCHEMA.write(folder / "schema.toml")
    table = folder / "ratings.csv"
    model = pqrlearn.train(table, schema=folder / "schema.toml", model="auto", loss="squared")
    model.save(folder / "model.pqr")
    (folder / "margins.json").write_text(json.dumps(table_margins(folder)))


def table_margins(folder: Path) -> list[str]:
    model = pqrlearn.load(folder / "model.pqr")
    rows = pqrlearn.read(folder / "ratings.csv", schema=model.schema)
    return [bits for batch in rows for bits in in_bits(model.margin_many(batch))][: len(ROWS)]


def write_resumed(folder: Path) -> None:
    """A checkpoint in the second pass, and what goes on from it ends in."""
    rows = write_rows(folder / "rows.svm", clicks(seed=5, rows=200))
    given = ["--model", "pqr", "--order", 5, "--loss", "squared", "--passes", 2, "-q"]
    kept = ["--checkpoint", folder / "checkpoint.pqr", "--every", 70]
    ok("train", rows, *given, *kept, "-o", folder / "model.pqr")


def let_windows_pass(service: Service) -> None:
    service._offset += 2e6
    while expire(service):
        service.commit()


def write_service(folder: Path) -> None:
    """Every kind of record but one, two models, snapshots, and rows that wait for their labels."""
    live, random = folder / "live", Random(6)
    first = LR(alpha=0.5).to_bytes()
    service = Service(live, SETTINGS, model=first)
    busy(service, random, 30)
    service.learn("at once", 1.0, features={"site": "news"})
    let_windows_pass(service)
    service.append(Kind.END, b"")
    service.commit()
    service.close()
    service = Service(live, FORGETTING)
    busy(service, random, 10)
    let_windows_pass(service)
    service.take_over(keep(live, LR("squared").to_bytes()))
    busy(service, random, 60)
    Keeper(service).take()
    busy(service, random, 20)
    service.commit()
    (folder / "model.pqr").write_bytes(service.model.to_bytes())
    waiting = sorted(key.hex() for key in service.ids.waiting)
    (folder / "waiting.json").write_text(json.dumps(waiting, indent=1) + "\n")
    service.close()
    (live / "lock").unlink()


def write_erased(folder: Path) -> None:
    """A log without the row of one who has asked for that; a model that has learned it."""
    live = folder / "live"
    service = Service(live, FORGETTING, model=LR("squared").to_bytes())
    busy(service, Random(7), 20)
    service.predict({"site": "shop", "user": "eve"}, id="eve")
    service.learn("eve", 1.0)
    service.commit()
    keeper = Keeper(service)
    keeper.forget("eve")
    keeper.take()
    assert keeper.erase("eve") == 2
    service.log.close_files()
    (folder / "model.pqr").write_bytes(service.model.to_bytes())
    service.close()
    (live / "lock").unlink()


if __name__ == "__main__":
    for folder, write in {
        TABLE: write_table,
        RESUMED: write_resumed,
        SERVICE: write_service,
        ERASED: write_erased,
    }.items():
        if not folder.exists():
            folder.mkdir()
            try:
                write(folder)
            except BaseException:
                shutil.rmtree(folder)
                raise
