"""Mutations of model files. Most still pass the container's own checks, so that the settings, the
tensors and the native core have to stand up for themselves: whoever edits a file can compute its
digest anew. Damage is what comes without.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import xxhash

ITEM_BYTES = {
    name: size
    for size, names in {
        8: ("F64", "I64", "U64", "C64"),
        4: ("F32", "I32", "U32"),
        2: ("F16", "BF16", "I16", "U16"),
        1: ("I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2"),
    }.items()
    for name in names
}
FLOATS = [0.0, -0.0, 1e-45, 1e-20, 0.5, -1.0, 3.0, 1e10, -1e15, 1e19, 2e19, 3.4e38, -3.4e38]
FLOATS += [float("inf"), float("nan")]
INTEGERS = [0, 1, 2, 3, 6, 7, 8, 250, 1023, 1024, 4095, 4096, 2**31, 2**32 - 2, 2**32 - 1]
INTEGERS += [2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1]
WORDS = ["", "squared", "logistic", "ftrl", "ogd", "fixed", "lr", "pqr", "separation", "\ud800"]
SETTINGS: list[Any] = [*INTEGERS, *FLOATS[:-2], *WORDS, 1e-320, 1e-38, 1e39, 1e300, -1, 10**400]
SETTINGS += [True, False, None, [], [1], {}]
NAMES = ["", "bias", "high", "names.indices", "pair.counts", "separation.features", "ä", "__x__"]


@dataclass
class Tensor:
    dtype: str
    shape: list[int]
    data: bytearray


@dataclass
class Parts:
    """A model file taken apart; put together again, its offsets and its digest fit."""

    settings: Any
    tensors: dict[str, Tensor]

    @staticmethod
    def of(data: bytes) -> Parts:
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8 : 8 + size])
        settings = json.loads(header.pop("__metadata__")["pqrlearn"])
        tensors = {}
        for name, found in header.items():
            begin, end = (8 + size + offset for offset in found["data_offsets"])
            tensors[name] = Tensor(found["dtype"], found["shape"], bytearray(data[begin:end]))
        return Parts(settings, tensors)

    def signed(self) -> Any:
        """The settings, with the digest of what there is now, as docs/modelfile.md describes it."""
        if not isinstance(self.settings, dict) or "digest" not in self.settings:
            return self.settings
        settings = {name: value for name, value in self.settings.items() if name != "digest"}
        tensors = {
            name: [tensor.dtype, tensor.shape, xxhash.xxh64_hexdigest(tensor.data)]
            for name, tensor in self.tensors.items()
        }
        text = json.dumps({"settings": settings, "tensors": tensors}, sort_keys=True)
        return settings | {"digest": "xxh64:" + xxhash.xxh64_hexdigest(text.encode())}

    def to_bytes(self) -> bytes:
        header: dict[str, Any] = {"__metadata__": {"pqrlearn": json.dumps(self.signed())}}
        data = b""
        for name, tensor in self.tensors.items():
            offsets = [len(data), len(data) + len(tensor.data)]
            header[name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": offsets}
            data += tensor.data
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + data


# Mutations of a file taken apart.

Edit = Callable[[Random, Parts], None]


def paths_in(settings: Any, *head: str) -> Iterator[tuple[str, ...]]:
    for name, value in settings.items() if isinstance(settings, dict) else ():
        yield (*head, name)
        yield from paths_in(value, *head, name)


def edit_setting(random: Random, parts: Parts) -> None:
    """Replaces, drops or adds one setting, or nudges its number."""
    paths = list(paths_in(parts.settings))
    if not paths or random.random() < 0.02:
        parts.settings = random.choice(SETTINGS)
        return
    *head, name = random.choice(paths)
    place = parts.settings
    for step in head:
        place = place[step]
    action = random.random()
    if action < 0.1:
        del place[name]
    elif action < 0.15:
        place[random.choice(NAMES)] = random.choice(SETTINGS)
    elif action < 0.5 and isinstance(place[name], int | float) and abs(place[name]) < 1e300:
        place[name] *= random.choice([-1, 0, 2, 0.5, 1e-30, 1e30])
    else:
        place[name] = random.choice(SETTINGS)


def edit_tensor(random: Random, parts: Parts) -> None:
    """Drops, renames, doubles or swaps a tensor."""
    name, other = random.choice(list(parts.tensors)), random.choice([*parts.tensors, *NAMES])
    action = random.randrange(3)
    if action == 0:
        del parts.tensors[name]
    elif action == 1:
        parts.tensors[other] = parts.tensors.pop(name)
    else:
        found = parts.tensors[name]
        parts.tensors[other] = Tensor(found.dtype, list(found.shape), bytearray(found.data))


def edit_dtype(random: Random, parts: Parts) -> None:
    """Reads the same bytes as another type; the last dimension makes up for its size."""
    tensor = parts.tensors[random.choice(list(parts.tensors))]
    dtype = random.choice(list(ITEM_BYTES))
    if tensor.shape:
        tensor.shape[-1] = tensor.shape[-1] * ITEM_BYTES[tensor.dtype] // ITEM_BYTES[dtype]
    tensor.dtype = dtype


def edit_shape(random: Random, parts: Parts) -> None:
    """Another shape, mostly of as many numbers."""
    tensor = parts.tensors[random.choice(list(parts.tensors))]
    count = len(tensor.data) // ITEM_BYTES[tensor.dtype]
    huge = random.choice([2**31, 2**62, 2**63, 2**64 - 1])
    empty = [[0], [0, 2], [2, 0], [0, huge], [huge, 0], [0] * 40]
    full = [
        [count],
        [count, 1],
        [1, count],
        [1] * 40 + [count],
        tensor.shape[::-1],
        [count // 2, 2],
    ]
    tensor.shape = random.choice(empty if random.random() < 0.4 else full)
    if 0 in tensor.shape:
        tensor.data = bytearray()


def edit_number(random: Random, parts: Parts) -> None:
    """Writes a number that matters somewhere into a tensor."""
    tensor = parts.tensors[random.choice(list(parts.tensors))]
    size = ITEM_BYTES[tensor.dtype]
    if len(tensor.data) < size:
        return
    number = random.choice(INTEGERS) % 256**size
    packed = number.to_bytes(size, "little")
    if tensor.dtype in ("F64", "F32"):
        packed = np.array(random.choice(FLOATS), "<f8" if size == 8 else "<f4").tobytes()
    at = random.randrange(len(tensor.data) // size) * size
    tensor.data[at : at + size] = packed


def edit_block(random: Random, parts: Parts) -> None:
    """Gives a block other keys, in order, with as many slots."""
    blocks = [name.removesuffix(".keys") for name in parts.tensors if name.endswith(".keys")]
    if not blocks:
        return
    block = random.choice(blocks)
    size = random.choice([0, 1, 5, 6, 40, 1100, 2500])
    top = random.choice([2, 8, 2000, 5000, 2**20, 2**32])
    if block == "pair":
        drawn = {tuple(sorted(random.sample(range(top), 2))) for _ in range(size)}
        keys = np.array(sorted(drawn, key=lambda pair: pair[::-1]), np.uint32).reshape(-1, 2)
    else:
        keys = np.array(sorted({random.randrange(top) for _ in range(size)}), np.uint32)
    slots = np.array([[random.choice(FLOATS[:9]), abs(random.choice(FLOATS[:8]))] for _ in keys])
    parts.tensors[f"{block}.keys"] = tensor_of(keys)
    parts.tensors[f"{block}.slots"] = tensor_of(slots.astype(np.float32).reshape(-1, 2))


def edit_order(random: Random, parts: Parts) -> None:
    """Other high features."""
    size = random.choice([0, 1, 2, 8, 1500, 3000])
    features = random.sample(range(random.choice([5000, 2**32])), size)
    head = "separation." if "separation.features" in parts.tensors else ""
    name = f"{head}features" if head or "features" in parts.tensors else "high"
    parts.tensors[name] = tensor_of(np.array(features, np.uint32))
    if name != "high":
        parts.tensors[f"{head}counts"] = tensor_of(np.arange(size, 0, -1, dtype=np.uint64))


def edit_names(random: Random, parts: Parts) -> None:
    """Other names, some of them of no text."""
    indices = random.sample(range(random.choice([50, 2**32])), random.choice([0, 1, 20]))
    names = [random.randbytes(random.choice([0, 1, 3, 8, 20])) for _ in indices]
    ends = np.cumsum([len(name) for name in names], dtype=np.uint64)
    parts.tensors["names.indices"] = tensor_of(np.array(indices, np.uint32))
    parts.tensors["names.ends"] = tensor_of(ends)
    parts.tensors["names.bytes"] = tensor_of(np.frombuffer(b"".join(names), np.uint8))


def tensor_of(array: Any) -> Tensor:
    dtype = {"u": "U", "f": "F"}[array.dtype.kind] + str(8 * array.dtype.itemsize)
    return Tensor(dtype, list(array.shape), bytearray(array.tobytes()))


EDITS: list[Edit] = [edit_setting, edit_setting, edit_number, edit_number, edit_block, edit_block]
EDITS += [edit_order, edit_names, edit_tensor, edit_dtype, edit_shape]


# Mutations of bytes.


def mangled(random: Random, data: bytes, seeds: list[bytes]) -> bytes:
    """Flips, cuts, repeats and splices of bytes; and other sizes of the header."""
    begin, end = sorted(random.randrange(len(data) + 1) for _ in range(2))
    end = min(end, begin + random.choice([0, 1, 4, 8, 100]))
    action = random.randrange(6)
    if action == 0:
        return struct.pack("<Q", random.choice(INTEGERS) % 2**64) + data[8:]
    if action == 1:
        return data[:begin] + data[end:]
    if action == 2:
        return data[:end] + data[begin:]
    if action == 3:
        return data[:begin] + random.choice(seeds)[begin:]
    flipped = bytearray(data)
    for _ in range(random.randint(1, 4)):
        flipped[random.randrange(len(data))] = random.choice(b'0123456789-.e{}[]":,\x00\xff')
    return bytes(flipped)


def mutations(seed: int, seeds: list[bytes]) -> Iterator[bytes]:
    """Without end: mostly files that a container's own checks let through."""
    random = Random(seed)
    while True:
        data = random.choice(seeds)
        if random.random() < 0.75:
            parts = Parts.of(data)
            for _ in range(random.randint(1, 4)):
                if parts.tensors:
                    random.choice(EDITS)(random, parts)
            data = parts.to_bytes()
        if random.random() < 0.3:
            data = mangled(random, data, seeds)
        yield data


def damages(seed: int, seeds: list[bytes]) -> Iterator[bytes]:
    """Without end: bytes changed by what knows nothing of the digest."""
    random = Random(seed)
    while True:
        yield mangled(random, random.choice(seeds), seeds)


def truncations(seeds: list[bytes]) -> Iterator[bytes]:
    for data in seeds:
        yield from (data[:cut] for cut in range(len(data)))
