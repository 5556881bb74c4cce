"""The model file: equal models are equal bytes, a digest, a version."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pqrlearn
from golden_files import (
    GOLDEN,
    KINDS,
    golden,
    header,
    models,
    written,
)
from pqrlearn import PQR, Auto, Mixture, Separation, modelfile
from pqrlearn.errors import Corrupt, ModelFileError, NotAModel, WrongVersion
from strategies import random_batch

DOCS = Path(__file__).parent.parent / "docs"

# What is in the file.


@pytest.mark.parametrize("kind", [*KINDS, "separation"])
def test_all_settings_are_one_key_of_sorted_json(kind: str) -> None:
    metadata = header(golden(kind))["__metadata__"]
    assert list(metadata) == ["pqrlearn"]
    settings = json.loads(metadata["pqrlearn"])
    assert metadata["pqrlearn"] == json.dumps(settings, sort_keys=True)
    assert (settings["format"], settings["kind"]) == (3, kind)
    assert re.fullmatch("xxh64:[0-9a-f]{16}", settings["digest"])


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
        if kind == "frozen":
            for block in ("linear", "shared", "pair"):
                keys = tensors[f"{block}.keys"].reshape(-1, 2 if block == "pair" else 1)
                assert keys[:, ::-1].tolist() == sorted(keys[:, ::-1].tolist())
                assert tensors[f"{block}.weights"].all()
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
    "schema", [None, {"columns": [{"name": "ä", "kind": "category"}], "nulls": ["-"]}]
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


@pytest.mark.parametrize("schema", [7, "words", ["a", 1.5], {"columns": [{"name": "a"}]}])
def test_a_schema_that_is_none_is_refused(schema: Any, tmp_path: Path) -> None:
    kind, settings, tensors = modelfile.read(GOLDEN / "pqr.pqr")
    modelfile.write(tmp_path / "with.pqr", kind, settings | {"schema": schema}, tensors)
    with pytest.raises(Corrupt, match="a damaged pqr model"):
        pqrlearn.load(tmp_path / "with.pqr")


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


# Format and kind.


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
