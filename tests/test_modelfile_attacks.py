"""Attacks on the model file: the answer is a ModelFileError or a model that works."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import pqrlearn
from golden_files import FORMAT_2, KINDS, OLD_KINDS, ROWS, golden, written
from pqrlearn import modelfile
from pqrlearn.errors import Corrupt, ModelFileError, NotAModel, RowError
from pqrlearn.learners import Learner


def opened(data: bytes) -> Learner | None:
    """The model in `data`, put to work; None if it was refused."""
    try:
        model = pqrlearn.from_bytes(data)
    except ModelFileError:
        return None
    with suppress(RowError):  # an absurd scale makes any row too large
        assert np.isfinite(model.predict_many(ROWS)).all()
    model.nonzeros()
    again = model.to_bytes()
    assert pqrlearn.from_bytes(again).to_bytes() == again
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_every_truncation_is_refused(kind: str, tmp_path: Path) -> None:
    data = golden(kind)
    path = tmp_path / "cut.pqr"
    for cut in range(len(data)):
        with pytest.raises(ModelFileError):
            pqrlearn.from_bytes(data[:cut])
        if cut % 5 == 0:
            path.write_bytes(data[:cut])
            with pytest.raises(ModelFileError, match=r"cut\.pqr: "):
                pqrlearn.load(path)


def test_a_truncated_model_is_called_cut_off() -> None:
    data = golden("pqr")
    for cut in (100, len(data) // 2, len(data) - 1):
        with pytest.raises(Corrupt, match="cut off or damaged"):
            pqrlearn.from_bytes(data[:cut])


def test_bytes_after_the_end_are_refused() -> None:
    with pytest.raises(ModelFileError):
        pqrlearn.from_bytes(golden("pqr") + b"\0")


@pytest.mark.parametrize("kind", OLD_KINDS)
def test_flipped_bytes_never_crash(kind: str) -> None:
    random, data = Random(7), (FORMAT_2 / f"{kind}.pqr").read_bytes()  # no digest stops them
    loaded = 0
    for _ in range(1500):
        flipped = bytearray(data)
        for _ in range(random.randint(1, 3)):
            flipped[random.randrange(len(data))] = random.randrange(256)
        loaded += opened(bytes(flipped)) is not None
    assert 0 < loaded < 1500


WRONG_SETTINGS = [
    *(None, True, -1, 0, 2**31, 2**32, 2**63, 2**64, 10**30, 0.5, 1e-320, 1e39, 1e308, -1e308),
    *("x", "logistic", [1], {}, {"a": 1}),
]


def settings_of(settings: dict[str, Any], *head: str) -> Iterator[tuple[str, ...]]:
    for name, value in settings.items():
        yield (*head, name)
        if isinstance(value, dict):
            yield from settings_of(value, *head, name)


def changed(
    kind: str, path: tuple[str, ...], change: Callable[[dict[str, Any], str], None]
) -> bytes:
    """The golden model with one setting changed."""
    _, settings, tensors = modelfile.from_bytes(golden(kind))
    place = settings
    for name in path[:-1]:
        place = place[name]
    change(place, path[-1])
    return modelfile.to_bytes(kind, settings, tensors)


@pytest.mark.parametrize("kind", KINDS)
def test_settings_of_a_wrong_kind_or_size_never_crash(kind: str) -> None:
    for path in settings_of(modelfile.from_bytes(golden(kind))[1]):
        for value in WRONG_SETTINGS:
            opened(changed(kind, path, lambda s, name, v=value: s.update({name: v})))


@pytest.mark.parametrize("kind", KINDS)
def test_a_setting_that_is_missing_is_never_guessed(kind: str) -> None:
    for path in settings_of(modelfile.from_bytes(golden(kind))[1]):
        if path[0] != "optimizer" or len(path) == 1:
            with pytest.raises(Corrupt, match=f"a damaged {kind} model"):
                pqrlearn.from_bytes(changed(kind, path, lambda s, name: s.pop(name)))


@pytest.mark.parametrize("rate", ["alpha", "beta", "l1", "l2"])
def test_a_rate_that_is_missing_is_never_guessed(rate: str) -> None:
    with pytest.raises(Corrupt):
        pqrlearn.from_bytes(changed("lr", ("optimizer", rate), lambda s, name: s.pop(name)))


@pytest.mark.parametrize("value", [[], "", [["name", "x"]]])
def test_an_optimizer_that_is_no_object_is_corrupt(value: object) -> None:
    data = changed("lr", ("optimizer",), lambda s, name: s.update({name: value}))
    with pytest.raises(Corrupt):
        pqrlearn.from_bytes(data)


@pytest.mark.parametrize("path", [("optimizer", "alpha"), ("interaction_scale",)])
def test_a_setting_beyond_all_floats_is_corrupt(path: tuple[str, ...]) -> None:
    data = changed("pqr", path, lambda s, name: s.update({name: 10**400}))
    with pytest.raises(Corrupt):
        pqrlearn.from_bytes(data)


# What becomes of a tensor; the first group cannot be a tensor of any model.
MISFITS: dict[str, Callable[[Any], Any]] = {
    "short": lambda tensor: tensor[:-1],
    "twice": lambda tensor: np.concatenate([tensor, tensor]),
    "flat or deep": lambda tensor: tensor.reshape(-1) if tensor.ndim > 1 else tensor[:, None],
    "half floats": lambda tensor: np.clip(tensor, -6e4, 6e4).astype(np.float16),
    "signed": lambda tensor: tensor.astype(np.int64 if tensor.dtype != np.int64 else np.int32),
    "not finite": lambda tensor: tensor * np.float32(np.nan),
}
OTHERS: dict[str, Callable[[Any], Any]] = {
    "backwards": lambda tensor: tensor[::-1],
    "zero": lambda tensor: np.zeros_like(tensor),
    "negative": lambda tensor: (-np.abs(tensor.astype(float)) - 1).astype(tensor.dtype),
    "large": lambda tensor: np.full_like(tensor, 250),
    "largest": lambda tensor: np.full_like(
        tensor, (np.finfo if tensor.dtype.kind == "f" else np.iinfo)(tensor.dtype).max
    ),
}


def attacked(kind: str, attack: Callable[[Any], Any]) -> Iterator[bytes]:
    """The golden model with one tensor changed: each that is not empty in turn."""
    _, settings, tensors = modelfile.from_bytes(golden(kind))
    for name, tensor in tensors.items():
        if tensor.size:
            described = {"format": 2, "kind": kind, **settings}  # no digest that stops it
            yield written(described, tensors | {name: attack(tensor)})


@pytest.mark.parametrize("attack", MISFITS)
@pytest.mark.parametrize("kind", KINDS)
def test_tensors_that_fit_no_model_are_refused(kind: str, attack: str) -> None:
    for data in attacked(kind, MISFITS[attack]):
        with pytest.raises(Corrupt, match=f"a damaged {kind} model"):
            pqrlearn.from_bytes(data)


@pytest.mark.parametrize("attack", OTHERS)
@pytest.mark.parametrize("kind", KINDS)
def test_tensors_with_other_numbers_never_crash(kind: str, attack: str) -> None:
    for data in attacked(kind, OTHERS[attack]):
        opened(data)


@pytest.mark.parametrize("kind", KINDS)
def test_a_tensor_that_is_missing_is_never_guessed(kind: str) -> None:
    _, settings, tensors = modelfile.from_bytes(golden(kind))
    for name in tensors.keys() - {"names.indices"}:  # without this one there are no names
        rest = {other: tensor for other, tensor in tensors.items() if other != name}
        part = name.lstrip("01.").removeprefix("separation.")  # of a learner of the mixture
        with pytest.raises(Corrupt, match=f"{part} is missing"):
            pqrlearn.from_bytes(modelfile.to_bytes(kind, settings, rest))


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", NotAModel),
        (b"\x80\x04\x95pickle", NotAModel),
        (b"PK\x03\x04" + bytes(100), ModelFileError),
        (b"\xff" * 100, NotAModel),
        (bytes(100), NotAModel),
        (struct.pack("<Q", 2) + b"{}", NotAModel),
        (struct.pack("<Q", 2**40) + b"{}", ModelFileError),
        (struct.pack("<Q", 20_000) + b"[" * 20_000, NotAModel),
    ],
)
def test_foreign_bytes_are_no_model(data: bytes, error: type[ModelFileError]) -> None:
    with pytest.raises(error):
        pqrlearn.from_bytes(data)


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "7", "{", '{"format": 1}', '{"kind": "lr"}', "[" * 100_000]
)
def test_settings_that_are_no_settings_are_corrupt(text: str) -> None:
    from safetensors.numpy import save

    with pytest.raises(Corrupt, match="its settings cannot be read"):
        pqrlearn.from_bytes(save({"bias": np.zeros(2)}, metadata={"pqrlearn": text}))
