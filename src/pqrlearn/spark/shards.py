"""A state cut by ranges of keys, so that each range can be merged by a task of its own.

The ranges follow from the sizes of the model alone, and are computed once: they do not depend on a
sample of the data, so that two runs cut alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isqrt

import numpy as np

from pqrlearn import modelfile
from pqrlearn.merging.rule import Slots

Blocks = dict[str, Slots]
_KIND = "shard"
_SLOT = 16  # bytes of a slot and its key
_MOST = 1 << 26  # bytes of a shard, which is one cell of a table
_MOST_SENT = 1 << 29  # bytes of a shard from all workers, which are one group in a task


def how_many(slots: int, workers: int) -> int:
    """Shards of a state: as many as workers, and more where one would be too large.

    Neither a cell nor a batch of Arrow in Spark may have 2 GB.

    >>> how_many(1_000, workers=4), how_many(33_000_000, workers=1), how_many(10**8, workers=4)
    (4, 8, 24)
    """
    state = _SLOT * slots
    return max(workers, -(-state // _MOST), -(-workers * state // _MOST_SENT))


@dataclass(frozen=True)
class Ranges:
    """Where each block is cut: shard s has keys from bounds[s] to before bounds[s + 1].

    >>> ranges = Ranges.of(("bias", "linear", "pair"), features=10, order=4, shards=2)
    >>> ranges.bounds["linear"], [bound >> 32 for bound in ranges.bounds["pair"]]
    ([0, 5, 4294967296], [0, 2, 4294967295])
    """

    bounds: dict[str, list[int]]
    shards: int

    @staticmethod
    def of(blocks: Iterable[str], features: int, order: int, shards: int) -> Ranges:
        """Rank j has up to j pairs with smaller ranks, so pairs are cut where j² is in parts."""
        last, cut = 1 << 32, range(1, shards)
        bounds = {}
        for block in blocks:
            if block == "bias":
                inner = [1] * (shards - 1)
            elif block == "pair":
                inner = [isqrt(order * order * shard // shards) << 32 for shard in cut]
            else:
                size = features if block == "linear" else order
                inner = [size * shard // shards for shard in cut]
            bounds[block] = [0, *inner, (last - 1) << 32 if block == "pair" else last]
        return Ranges(bounds, shards)

    def cut(self, blocks: Blocks, shard: int) -> Blocks:
        """The part of a state that is in a shard."""
        return {
            name: slots.part(*self.bounds[name][shard : shard + 2])
            for name, slots in blocks.items()
        }


def joined(parts: Iterable[Blocks]) -> Blocks:
    """The inverse: the parts of all shards, in order."""
    every = list(parts)
    return {
        name: Slots(
            np.concatenate([part[name].keys for part in every]),
            np.concatenate([part[name].slots for part in every]),
        )
        for name in every[0]
    }


def to_bytes(blocks: Blocks) -> bytes:
    """A shard as the bytes of a small file, with a digest."""
    tensors: modelfile.Tensors = {}
    for name, slots in blocks.items():
        tensors[f"{name}.keys"], tensors[f"{name}.slots"] = slots.keys, slots.slots
    return modelfile.to_bytes(_KIND, {}, tensors)


def from_bytes(data: bytes) -> Blocks:
    """The inverse.

    >>> from pqrlearn.merging.rule import Slots
    >>> one = {"linear": Slots(np.array([7], np.uint64), np.zeros((1, 2), np.float32))}
    >>> from_bytes(to_bytes(one))["linear"].keys.tolist()
    [7]
    """
    _, _, tensors = modelfile.from_bytes(data, "a shard")
    names = [name.removesuffix(".keys") for name in tensors if name.endswith(".keys")]
    return {name: Slots(tensors[f"{name}.keys"], tensors[f"{name}.slots"]) for name in names}
