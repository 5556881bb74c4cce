"""Numbers with the same bits on every machine: hashes, exp, log and the logistic function.

NumPy's own exp and log differ in the last bit from one kind of CPU to another, and a sum depends on
how it is cut into lanes. Here everything is integer arithmetic, or +, -, x and / of single numbers,
which IEEE 754 defines to the last bit.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from pqrlearn.rows import FloatArray

Bits = npt.NDArray[np.uint64]

LN2 = 0.6931471805599453
LN2_HIGH = float.fromhex("0x1.62e42fefa0000p-1")
"""Its first 40 bits: a whole number below 4,096 times this is exact."""
LN2_LOW = float.fromhex("0x1.cf79abc9e3b3ap-40")
SQRT_HALF = 0.7071067811865476
EXP_TERMS = 14
LOG_TERMS = 11


def key(seed: int, purpose: str) -> int:
    """A number of 64 bits that stands for a seed and a purpose."""
    return int.from_bytes(blake2b(f"{seed} {purpose}".encode(), digest_size=8).digest(), "little")


def mixed(counters: npt.NDArray[np.unsignedinteger], key: int) -> Bits:
    """64 random bits for every counter: SplitMix64."""
    bits = counters.astype(np.uint64)
    bits *= np.uint64(0x9E3779B97F4A7C15)
    bits += np.uint64(key)
    bits ^= bits >> np.uint64(30)
    bits *= np.uint64(0xBF58476D1CE4E5B9)
    bits ^= bits >> np.uint64(27)
    bits *= np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    return bits


def uniform(bits: Bits) -> FloatArray:
    """A number in [0, 1) of the first 53 bits."""
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def follows(bits: Bits, chance: float) -> npt.NDArray[np.bool_]:
    """True with this chance, by the last 16 bits."""
    return (bits & np.uint64(2**16 - 1)) < np.uint64(chance * 2**16)


def exp(x: FloatArray) -> FloatArray:
    """e^x, to within a few units of the last place; x from -700 to 700.

    >>> exp(np.array([0.0, 1.0, -1.0])).round(12).tolist()
    [1.0, 2.718281828459, 0.367879441171]
    """
    power = np.rint(x * (1.0 / LN2))
    rest = (x - power * LN2_HIGH) - power * LN2_LOW
    total = np.ones_like(rest)
    for term in range(EXP_TERMS, 0, -1):  # 1 + r (1 + r/2 (1 + r/3 (...)))
        total *= rest
        total *= 1.0 / term
        total += 1.0
    return np.ldexp(total, power.astype(np.int32))


def log(x: FloatArray) -> FloatArray:
    """The natural logarithm of positive numbers, to within a few units of the last place.

    >>> log(np.array([1.0, 2.0, 1000.0])).round(12).tolist()
    [0.0, 0.69314718056, 6.907755278982]
    """
    fraction, power = np.frexp(x)
    small = fraction < SQRT_HALF
    fraction = np.where(small, 2.0 * fraction, fraction)
    power = power - small
    ratio = (fraction - 1.0) / (fraction + 1.0)  # log f = 2 (r + r^3/3 + r^5/5 + ...)
    square, total = ratio * ratio, np.zeros_like(ratio)
    for term in range(LOG_TERMS, -1, -1):
        total *= square
        total += 1.0 / (2 * term + 1)
    return power * LN2_HIGH + (power * LN2_LOW + 2.0 * ratio * total)


def sigmoid(margins: FloatArray) -> FloatArray:
    """The logistic function.

    >>> sigmoid(np.array([0.0, -800.0])).tolist()[0]
    0.5
    """
    return 1.0 / (1.0 + exp(np.minimum(np.maximum(-margins, -700.0), 700.0)))
