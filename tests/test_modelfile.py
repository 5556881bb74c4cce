"""The model file: golden bytes, equal models are equal bytes, and a list of attacks.

`python tests/test_modelfile.py` writes the golden files anew, which only a new format may need.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import pqrlearn
from pqrlearn import (
    FM,
    LR,
    PQR,
    QR,
    AdaGrad,
    Auto,
    Batch,
    DiFacto,
    Ftrl,
    Mixture,
    Separation,
    modelfile,
)
from pqrlearn.errors import Corrupt, ModelFileError, NotAModel, RowError, WrongVersion
from pqrlearn.learners import Learner
from pqrlearn.readers import CacheReader
from pqrlearn.readers.cache import kept
from strategies import nonzero_weights, random_batch

GOLDEN = Path(__file__).parent / "golden"
FORMAT_2 = GOLDEN / "format-2"  # without a digest
DOCS = Path(__file__).parent.parent / "docs"
ROWS: list[dict[Any, Any]] = [
    {"site": "ä", "hour": "9", 1: 0.5},
    {"site": "ä", "price": 2.0},
    {"site": "b", "hour": "9"},
    {"site": "ä", 1: -1.0, "hour": "9"},
    {"site": "ä"},
]
LABELS = [1.0, 0.0, 1.0, 2.0, 0.5]
OLD_KINDS = ["pqr", "lr", "qr", "fm", "difacto"]  # also in format 2
KINDS = [*OLD_KINDS, "mixture", "auto"]
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
        "fm": FM("squared", AdaGrad(eta=0.5, l2=0.125), rank=2, seed=3, init=0.5),
        "difacto": DiFacto("squared", optimizer, tiers=((1, 2), (3, 3)), seed=3, init=0.5),
        "mixture": Mixture([LR("squared"), PQR(Separation.top_k(ROWS, 2), "squared", optimizer)]),
    }
    for model in made.values():
        model.learn_many(ROWS, LABELS)
    made["auto"] = Auto("squared")
    made["auto"].learn_many(ROWS * 15, LABELS * 15)  # some features rise at row 64
    return made


def golden(kind: str) -> bytes:
    return (GOLDEN / f"{kind}.pqr").read_bytes()


# Golden bytes.


@pytest.mark.parametrize("kind", KINDS)
def test_a_golden_model_loads_and_saves_as_it_was(kind: str, tmp_path: Path) -> None:
    model = pqrlearn.from_bytes(golden(kind))
    assert model.kind == kind
    assert model.to_bytes() == golden(kind)
    model.save(tmp_path / "again.pqr")
    assert (tmp_path / "again.pqr").read_bytes() == golden(kind)
    assert pqrlearn.load(GOLDEN / f"{kind}.pqr").to_bytes() == golden(kind)


@pytest.mark.parametrize("kind", OLD_KINDS)
def test_a_model_of_format_2_loads_and_is_saved_in_this_format(kind: str) -> None:
    old = pqrlearn.load(FORMAT_2 / f"{kind}.pqr")
    new = pqrlearn.from_bytes(golden(kind))
    np.testing.assert_array_equal(old.predict_many(ROWS), new.predict_many(ROWS))
    assert pqrlearn.from_bytes((FORMAT_2 / f"{kind}.pqr").read_bytes()).to_bytes() == golden(kind)
    assert old.to_bytes() == golden(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_golden_model_still_means_the_same(kind: str) -> None:
    old, new = pqrlearn.from_bytes(golden(kind)), models()[kind]
    assert old.settings() == new.settings()
    assert nonzero_weights(old) == pytest.approx(nonzero_weights(new), rel=1e-5)
    assert [old.name_of(f) for f in range(7)] == [new.name_of(f) for f in range(7)]
    np.testing.assert_allclose(old.predict_many(ROWS), new.predict_many(ROWS), rtol=1e-5)


def test_a_golden_separation_loads_and_saves_as_it_was(tmp_path: Path) -> None:
    for folder in (GOLDEN, FORMAT_2):
        separation = Separation.load(folder / "separation.pqr")
        assert separation.high_names() == ["site=ä", "hour=9"]
        assert separation.counts.tolist() == [4, 3]
        separation.save(tmp_path / "again.pqr")
        assert (tmp_path / "again.pqr").read_bytes() == golden("separation")


def test_a_golden_checkpoint_loads_and_saves_as_it_was(tmp_path: Path) -> None:
    for folder in (GOLDEN, FORMAT_2):
        model = pqrlearn.load(folder / "checkpoint.pqr")
        assert model.progress == PROGRESS
        model.save(tmp_path / "again.pqr", progress=model.progress)
        assert (tmp_path / "again.pqr").read_bytes() == golden("checkpoint")


def test_a_golden_cache_has_the_same_rows_and_is_made_as_it_was(tmp_path: Path) -> None:
    for folder in (GOLDEN, FORMAT_2):
        (rows,) = CacheReader(folder / "rows.cache").batches()
        for name in ("indptr", "indices", "values", "labels", "weights"):
            np.testing.assert_array_equal(getattr(rows, name), getattr(BATCH, name))
    list(kept(tmp_path / "again.cache", [BATCH]))
    assert (tmp_path / "again.cache").read_bytes() == (GOLDEN / "rows.cache").read_bytes()


# What is in the file.


@pytest.mark.parametrize("kind", [*KINDS, "separation"])
def test_all_settings_are_one_key_of_sorted_json(kind: str) -> None:
    metadata = header(golden(kind))["__metadata__"]
    assert list(metadata) == ["pqrlearn"]
    settings = json.loads(metadata["pqrlearn"])
    assert metadata["pqrlearn"] == json.dumps(settings, sort_keys=True)
    assert (settings["format"], settings["kind"]) == (3, kind)
    assert re.fullmatch("xxh64:[0-9a-f]{16}", settings["digest"])


def header(data: bytes) -> dict[str, Any]:
    (size,) = struct.unpack("<Q", data[:8])
    found = json.loads(data[8 : 8 + size])
    assert isinstance(found, dict)
    return found


def test_equal_models_are_equal_bytes_wherever_and_whenever_they_are_saved(tmp_path: Path) -> None:
    batch = random_batch(seed=61)
    saved = []
    for name in ("one", "other"):
        model = PQR(Separation.top_k(batch, 4))
        model.learn_many(batch)
        (tmp_path / name).mkdir()
        model.save(tmp_path / name / f"{name}.pqr")
        saved += [model.to_bytes(), (tmp_path / name / f"{name}.pqr").read_bytes()]
    assert len(set(saved)) == 1
    assert b"one" not in saved[0]
    assert b"other" not in saved[0]


def test_slots_are_sorted_and_none_is_in_its_initial_state() -> None:
    for kind, model in models().items():
        tensors = modelfile.from_bytes(model.to_bytes())[2]
        if isinstance(model, Mixture):
            continue  # its learners are models of their own
        if isinstance(model, Auto):
            for name in ("linear.keys", "pair.keys"):
                assert tensors[name].tolist() == sorted(tensors[name].tolist())
            continue
        if "features" in tensors:  # of models with factors
            assert tensors["features"].tolist() == sorted(tensors["features"].tolist())
            continue
        for block in model.blocks:
            if block == "bias":
                continue
            if block == "pair":
                ends = np.cumsum(tensors["pair.counts"])
                runs = np.split(tensors["pair.ranks"], ends[:-1])
            else:
                runs = [tensors[f"{block}.keys"]]
            assert all(np.all(np.diff(run.astype(int)) > 0) for run in runs), (kind, block)
            assert np.all(tensors[f"{block}.slots"].any(axis=1)), (kind, block)


@pytest.mark.parametrize(
    "schema", [None, 7, "words", ["a", 1.5], {"columns": [{"name": "ä", "type": "word"}], "b": {}}]
)
def test_a_schema_is_carried_along(schema: Any, tmp_path: Path) -> None:
    kind, settings, tensors = modelfile.read(GOLDEN / "pqr.pqr")
    assert "schema" not in settings
    modelfile.write(tmp_path / "with.pqr", kind, settings | {"schema": schema}, tensors)
    assert modelfile.read(tmp_path / "with.pqr")[1]["schema"] == schema
    again = modelfile.to_bytes(*modelfile.read(tmp_path / "with.pqr"))
    assert again == (tmp_path / "with.pqr").read_bytes()
    expected = golden("pqr") if schema is None else (tmp_path / "with.pqr").read_bytes()
    assert pqrlearn.load(tmp_path / "with.pqr").to_bytes() == expected


# The digest.

SNIPPET = re.search(r"```python\n(.*?)```", (DOCS / "modelfile.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("name", [*(f"{kind}.pqr" for kind in KINDS), "separation.pqr"])
def test_the_documented_lines_verify_a_file(name: str, tmp_path: Path) -> None:
    assert SNIPPET is not None
    lines = compile(SNIPPET[1], "modelfile.md", "exec")
    exec(lines, {"path": GOLDEN / name})
    data = bytearray((GOLDEN / name).read_bytes())
    data[-1] ^= 1
    (tmp_path / name).write_bytes(data)
    with pytest.raises(AssertionError):
        exec(lines, {"path": tmp_path / name})


def test_the_documented_lines_verify_a_cache_up_to_its_blocks() -> None:
    assert SNIPPET is not None
    exec(compile(SNIPPET[1], "modelfile.md", "exec"), {"path": GOLDEN / "rows.cache"})


def flips(data: bytes) -> Iterator[bytes]:
    """Every file that differs from `data` in one bit."""
    for at in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[at] ^= 1 << bit
            yield bytes(flipped)


@pytest.mark.parametrize("kind", [*KINDS, "checkpoint"])
def test_every_flipped_bit_is_found_or_changes_nothing(kind: str) -> None:
    whole = pqrlearn.from_bytes(golden(kind))
    loaded = 0
    for data in flips(golden(kind)):
        with suppress(ModelFileError):
            model = pqrlearn.from_bytes(data)
            assert model.to_bytes() == whole.to_bytes()
            assert model.progress == whole.progress
            loaded += 1
    assert loaded < 20  # a tab instead of a blank


def test_every_flipped_bit_of_a_separation_is_found_or_changes_nothing(tmp_path: Path) -> None:
    path, again = tmp_path / "flipped.pqr", tmp_path / "again.pqr"
    for data in flips(golden("separation")):
        path.write_bytes(data)
        with suppress(ModelFileError):
            Separation.load(path).save(again)
            assert again.read_bytes() == golden("separation")


@pytest.mark.parametrize("tensor", ["linear.slots", "names.bytes", "pair.ranks"])
def test_damage_in_a_tensor_is_told_as_such(tensor: str, tmp_path: Path) -> None:
    data = bytearray(golden("pqr"))
    data[struct.unpack("<Q", data[:8])[0] + 8 + header(data)[tensor]["data_offsets"][0]] ^= 1
    (tmp_path / "model.pqr").write_bytes(data)
    told = r"model\.pqr: the file is damaged: its digest does not match its content"
    with pytest.raises(Corrupt, match=told):
        pqrlearn.load(tmp_path / "model.pqr")


def test_a_digest_cannot_be_left_out_of_format_3() -> None:
    settings = json.loads(header(golden("lr"))["__metadata__"]["pqrlearn"])
    del settings["digest"]
    tensors = modelfile.from_bytes(golden("lr"))[2]
    with pytest.raises(Corrupt, match="digest does not match"):
        pqrlearn.from_bytes(written(settings, tensors))
    assert pqrlearn.from_bytes(written(settings | {"format": 2}, tensors)).kind == "lr"


# Attacks. Whatever the bytes are, the answer is a ModelFileError or a model that works.


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
    "signed": lambda tensor: tensor.astype(np.int64),
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


def written(described: dict[str, Any], tensors: modelfile.Tensors) -> bytes:
    """A file that safetensors has written, which knows more types than ours."""
    from safetensors.numpy import save

    contiguous = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    return bytes(save(contiguous, metadata={"pqrlearn": json.dumps(described)}))


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


def test_the_bytes_are_those_that_safetensors_writes() -> None:
    from safetensors.numpy import load, save

    types = [np.float64, np.float32, np.uint64, np.int64, np.uint32, np.uint8]
    tensors = {f"{n}.{np.dtype(t)}": np.ones((n, 2), t) for n in range(3) for t in types}
    data = modelfile.to_bytes("lr", {"name": 'ä"\\\n'}, tensors)
    size = struct.unpack("<Q", data[:8])[0]
    metadata = json.loads(data[8 : 8 + size])["__metadata__"]
    assert data == save(tensors, metadata=metadata)
    assert data == save(load(data), metadata=metadata)


def test_a_file_is_whole_however_small_the_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modelfile, "_PIECE", 7)
    tensors = {"a": np.arange(100, dtype=np.float32), "b": np.arange(9, dtype=np.uint8)}
    modelfile.write(tmp_path / "some.pqr", "lr", {}, tensors)
    assert (tmp_path / "some.pqr").read_bytes() == modelfile.to_bytes("lr", {}, tensors)


def test_another_format_is_another_version(tmp_path: Path) -> None:
    path, reads = tmp_path / "other.pqr", r"this pqrlearn reads \(2 and 3\)"
    for version, told in (
        (b"4", f"format 4 is newer than {reads}: upgrade pqrlearn"),
        (b"1", f"format 1 is older than {reads}: make the file again"),
    ):
        other = golden("pqr").replace(b'\\"format\\": 3', b'\\"format\\": ' + version)
        path.write_bytes(other)
        for attempt in (
            lambda data=other: pqrlearn.from_bytes(data),
            lambda: pqrlearn.load(path),
            lambda: PQR.load(path),
            lambda: modelfile.kind_of(path),
        ):
            with pytest.raises(WrongVersion, match=told):
                attempt()


@pytest.mark.parametrize("version", ["3", None, 2.5, True])
def test_a_format_that_is_no_number_is_corrupt(version: object) -> None:
    described = {"format": version, "kind": "lr"}
    with pytest.raises(Corrupt, match="its format is not a number"):
        pqrlearn.from_bytes(written(described, {}))


def test_another_kind_is_no_model_of_this_kind(tmp_path: Path) -> None:
    unknown = modelfile.to_bytes("xx", *modelfile.from_bytes(golden("lr"))[1:])
    with pytest.raises(NotAModel, match="a xx file, not a model"):
        pqrlearn.from_bytes(unknown)
    with pytest.raises(NotAModel, match="a lr file, not a pqr model"):
        PQR.load(GOLDEN / "lr.pqr")
    with pytest.raises(NotAModel, match="a separation file, not a model"):
        pqrlearn.from_bytes(golden("separation"))


if __name__ == "__main__":
    for kind, model in models().items():
        model.save(GOLDEN / f"{kind}.pqr")
    models()["pqr"].save(GOLDEN / "checkpoint.pqr", progress=PROGRESS)
    Separation.top_k(ROWS, 2).save(GOLDEN / "separation.pqr")
    list(kept(GOLDEN / "rows.cache", [BATCH]))
