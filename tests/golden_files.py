"""Files with golden bytes, the models that are in them, and how such files are taken apart.

`python tests/golden_files.py` writes those that are missing, golden_runs.py those of whole runs. A
file that is there is never changed: when a format changes, the old ones move to a folder of that
format, and are read for ever.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from pqrlearn import (
    CCFM,
    CFM,
    FM,
    LR,
    PQR,
    QR,
    AdaGrad,
    Auto,
    Batch,
    DiFacto,
    Ftrl,
    FtrlGeneral,
    Mixture,
    NuclearBall,
    Ogd,
    Separation,
    Sgd,
    load,
    modelfile,
)
from pqrlearn.learners import Learner
from pqrlearn.readers.cache import kept

GOLDEN = Path(__file__).parent / "golden"
FORMAT_2 = GOLDEN / "format-2"  # without a digest
ROWS: list[dict[Any, Any]] = [
    {"site": "ä", "hour": "9", 1: 0.5},
    {"site": "ä", "price": 2.0},
    {"site": "b", "hour": "9"},
    {"site": "ä", 1: -1.0, "hour": "9"},
    {"site": "ä"},
]
LABELS = [1.0, 0.0, 1.0, 2.0, 0.5]
OLD_KINDS = ["pqr", "lr", "qr", "fm", "difacto"]  # also in format 2
KINDS = [*OLD_KINDS, "cfm", "ccfm", "mixture", "auto", "frozen"]
PROGRESS = {"inputs": ["stream"], "passes": 2, "done_passes": 1, "rows": 3}
BATCH = Batch.from_rows(
    [([0, 1, 7], [1.0, 2.0, -0.5]), ([], []), ([3, 2**32 - 1], [1.0, 1.0])],
    labels=[1.0, 0.0, 2.5],
    weights=[1.0, 0.25, 2.0],
)


def models() -> dict[str, Learner]:
    """One of each kind, by squared loss: nothing but a mixture depends on the system's exp()."""
    optimizer = Ftrl(alpha=0.5, beta=1.0, l1=0.0625, l2=0.125)
    made: dict[str, Learner] = {
        "pqr": PQR(Separation.top_k(ROWS, 2), "squared", optimizer, interaction_scale=0.5),
        "lr": LR("squared", optimizer),
        "qr": QR("squared", optimizer, interaction_scale=None, bias=False),
        "fm": FM("squared", AdaGrad(eta=0.5, l2=0.125, factor_eta=0.02), rank=2, seed=3, init=0.5),
        "difacto": DiFacto(
            "squared",
            optimizer,
            tiers=((1, 2), (3, 3)),
            seed=3,
            init=0.5,
            factor_eta=0.02,
            factor_beta=1.0,
        ),
        "cfm": CFM("squared", optimizer, NuclearBall(radius=4.0, block_rows=2)),
        "ccfm": CCFM("squared", NuclearBall(radius=4.0, block_rows=2)),
        "mixture": Mixture([LR("squared"), PQR(Separation.top_k(ROWS, 2), "squared", optimizer)]),
    }
    for model in made.values():
        model.learn_many(ROWS, LABELS)
    labelled = Batch.from_rows([([0, 1], [1.0, 0.5]), ([2], [1.0])], labels=[1.0, 0.0])
    made["frozen"] = made["pqr"].frozen(keep=5, data=labelled)
    made["auto"] = Auto("squared")
    made["auto"].learn_many(ROWS * 15, LABELS * 15)  # some features rise at row 64
    return made


def variants() -> dict[str, Learner]:
    """Other losses and optimizers."""
    separation = Separation.top_k(ROWS, 2)
    made: dict[str, Learner] = {
        "auto-clicks": Auto(),
        "lr-counts": LR("poisson"),
        "lr-ogd": LR("squared", Ogd(eta=0.5, radius=1.0)),
        "pqr-general": PQR(separation, "squared", FtrlGeneral(eta=0.5, radius=1.0)),
        "pqr-clicks": PQR(separation, max_pairs_per_row=100),
        "fm-sgd": FM("squared", Sgd(eta=0.125), rank=2, seed=3, init=0.5),
    }
    for model in made.values():
        model.learn_many(ROWS * 15, [float(label > 0.5) for label in LABELS] * 15)
    return made


def golden(kind: str) -> bytes:
    return (GOLDEN / f"{kind}.pqr").read_bytes()


def header(data: bytes) -> dict[str, Any]:
    (size,) = struct.unpack("<Q", data[:8])
    found = json.loads(data[8 : 8 + size])
    assert isinstance(found, dict)
    return found


def written(described: dict[str, Any], tensors: modelfile.Tensors) -> bytes:
    """A file that safetensors has written, which knows more types than ours."""
    from safetensors.numpy import save

    contiguous = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    return bytes(save(contiguous, metadata={"pqrlearn": json.dumps(described)}))


def learned_on(model: Learner) -> list[list[str]]:
    """Margins in all their bits: as the model is, and after learning the rows once more."""
    before = model.margin_many(ROWS)
    if model.kind == "frozen":
        return [in_bits(before)]
    model.learn_many(ROWS, [float(label > 0.5) for label in LABELS])
    return [in_bits(before), in_bits(model.margin_many(ROWS))]


def in_bits(numbers: Any) -> list[str]:
    return [float(number).hex() for number in numbers]


def write_missing() -> None:
    margins = GOLDEN / "margins.json"
    known = json.loads(margins.read_text()) if margins.exists() else {}
    for name, model in (models() | variants()).items():
        path = GOLDEN / f"{name}.pqr"
        if not path.exists():
            model.save(path)
        if name not in known:
            known[name] = learned_on(load(path))
    margins.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    if not (path := GOLDEN / "checkpoint.pqr").exists():
        models()["pqr"].save(path, progress=PROGRESS)
    if not (path := GOLDEN / "separation.pqr").exists():
        Separation.top_k(ROWS, 2).save(path)
    if not (path := GOLDEN / "rows.cache").exists():
        list(kept(path, [BATCH]))


if __name__ == "__main__":
    write_missing()
