"""The digest of files is XXH64, whatever the length and however the bytes come in."""

from __future__ import annotations

from random import Random
from threading import Thread

import numpy as np
import pytest
import xxhash

from pqrlearn._core import Digest


def digest(*pieces: object) -> int:
    made = Digest()
    for piece in pieces:
        made.update(piece)
    return made.value()


def test_it_is_xxh64_at_every_length() -> None:
    data = Random(1).randbytes(300)
    for size in range(301):
        assert digest(data[:size]) == xxhash.xxh64_intdigest(data[:size]), size


@pytest.mark.parametrize("seed", range(50))
def test_cuts_do_not_matter(seed: int) -> None:
    random = Random(seed)
    data = random.randbytes(random.choice([40, 300, 5000, 300_000]))
    cuts = sorted(random.randrange(len(data) + 1) for _ in range(random.randrange(20)))
    ends = zip([0, *cuts], [*cuts, len(data)], strict=True)
    assert digest(*(data[a:b] for a, b in ends)) == xxhash.xxh64_intdigest(data)


def test_a_value_can_be_taken_on_the_way() -> None:
    made = Digest()
    for size in range(100):
        assert made.value() == xxhash.xxh64_intdigest(bytes(range(size)))
        made.update(bytes([size]))


def test_any_contiguous_buffer_will_do() -> None:
    numbers = np.arange(70_000, dtype=np.float32).reshape(-1, 2)
    expected = xxhash.xxh64_intdigest(numbers.tobytes())
    assert digest(numbers) == digest(numbers.data) == digest(bytearray(numbers)) == expected
    for bad in (numbers[::2], numbers.T, "text", 7):
        with pytest.raises((TypeError, ValueError, BufferError)):
            digest(bad)


def test_threads_that_share_one_by_mistake_do_not_crash() -> None:
    made, data = Digest(), bytes(100_001)
    threads = [Thread(target=lambda: [made.update(data) for _ in range(200)]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made.value() >= 0
