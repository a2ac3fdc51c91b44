"""Random numbers by counting: Philox-4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011).

A counter of 128 bits and a key of 64 give four words of 32 bits, whatever was drawn before: any thread can draw any
number. Element e of a tensor (row-major) takes, with the seed as the key,

    counter  16 * (e // 64) + e % 16      (its low and high half are the first two words; the others are 0)
    word     e % 64 // 16

so that sixteen neighbouring elements take the same word of sixteen neighbouring counters: kernels draw sixty-four
numbers at a time, in vectors, and the same on every instruction set. A float in [0, 1) is word * 2^-32 for float64, and
its upper 24 bits * 2^-24 for narrower types.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Sequence

import numpy as np

from cenote.core.types import Array
from cenote.kernels.elementwise.quantiles import EDGE, ENDS, MIDDLE, SHIFT, SPLIT

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10


def philox(counter: Sequence[Array], key: tuple[int, int]) -> tuple[Array, ...]:
    """Four words from four words of a counter and two of a key, as uint64 arrays below 2^32."""
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a, b, c, d = (np.asarray(word).astype(np.uint64) for word in counter)
    keys = [*key]
    for _ in range(ROUNDS):
        first, second = np.uint64(MULTIPLIERS[0]) * a, np.uint64(MULTIPLIERS[1]) * c
        a, b, c, d = (
            (second >> half) ^ b ^ np.uint64(keys[0]),
            second & mask,
            (first >> half) ^ d ^ np.uint64(keys[1]),
            first & mask,
        )
        keys = [(each + step) & 0xFFFFFFFF for each, step in zip(keys, WEYL, strict=True)]
    return a, b, c, d


def counted(counter: Array, seed: int) -> tuple[Array, ...]:
    """The four words of counters of 64 bits."""
    numbers = counter.astype(np.uint64)
    zero = np.zeros_like(numbers)
    words = (numbers & np.uint64(0xFFFFFFFF), numbers >> np.uint64(32), zero, zero)
    return philox(words, (seed & 0xFFFFFFFF, seed >> 32))


def words(count: int, seed: int) -> Array:
    """The words of elements 0 to count - 1."""
    blocks = -(-count // 64)
    drawn = np.stack(counted(np.arange(16 * blocks), seed))  # (4, 16 * blocks)
    return drawn.reshape(4, blocks, 16).transpose(1, 0, 2).reshape(-1)[:count].astype(np.uint32)


def uniform(count: int, seed: int, wide: bool) -> Array:
    """Floats in [0, 1) of elements 0 to count - 1, in float64; `wide`: of 32 bits, else of 24."""
    drawn = words(count, seed)
    return drawn * 2.0**-32 if wide else (drawn >> np.uint32(8)) * 2.0**-24


def fresh_seed() -> int:
    """Random seed, from the system's entropy."""
    return secrets.randbits(64)


def seed_from_float(seed: float) -> int:
    """The key that a seed given as a float stands for: itself where it is a whole number from 0 on, else its bits."""
    if seed >= 0 and seed == int(seed) and seed < 2.0**64:
        return int(seed)
    return int(struct.unpack("<Q", struct.pack("<d", seed))[0])


def normal(count: int, seed: int) -> Array:
    """Numbers of the normal distribution (mean 0, deviation 1) of elements 0 to count - 1, in float64: a share of
    (word + 1/2) * 2^-32 lies below each."""
    share = (words(count, seed) + 0.5) * 2.0**-32
    middle = share - 0.5
    inner = EDGE - middle * middle
    outer = np.sqrt(-np.log(np.minimum(share, 1 - share))) - SHIFT
    near, far = (
        np.polyval(above[::-1], x) / np.polyval(below[::-1], x)
        for x, (above, below) in ((inner, MIDDLE), (outer, ENDS))
    )
    return np.where(np.abs(middle) <= SPLIT, middle * near, np.copysign(far, middle))
