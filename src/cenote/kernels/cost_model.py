"""Rough times by which lowerings are compared: arithmetic at a fraction of peak, bytes at a bandwidth."""

from __future__ import annotations

from cenote.core.deferred import dataclass
from cenote.core.sizes import maximum
from cenote.core.target import PAIRS, Target
from cenote.kernels.constants import constants_of

GIGAHERTZ = 3.2  # turns cycles into seconds for comparisons; all lowerings share its error
MEMORY = 20e9  # bytes per second from main memory
SIMPLE = 50e9  # simple vector operations per second: additions, comparisons, the steps of a polynomial
LAUNCH = 1e-6  # seconds that a step takes at least
STRIDED = 10e9  # bytes per second where one side is read or written in strides
# Bytes per second of such copies between a network's steps: part of the bytes are in the caches.
CONVERTED = 12e9
SHUFFLED = 30e9  # bytes per second through registers, lane by lane
CACHE = 40e9  # bytes per second from the last cache
# Multiply-adds of bytes a second beside float32's, by the way of `codegen.dots`. Zen 4: 42 to 50 billion of float32, 47
# to 85 in pairs, 180 to 233 with VNNI.
BYTES_FASTER = {PAIRS: 1.4, "wide": 1.6, "avx512vnni": 4.4, "avxvnni": 4.4}
# Seconds of a product of two tiles (16 cycles: of bytes 4.7 ns on one Intel server, of float16 5.9 on another, of which
# convolutions reached five sixths), and of loading one, of 1 KiB, from level 2 and from beyond (125 and 27 GB/s); of
# the results of 32 positions and 32 filters from their sums (of a pointwise layer's 145 ns what loads and products
# leave); and of a block of bytes that is copied (two cycles). Convolutions of bfloat16, whose products need one load
# each, reached 1.85e12 to 2.46e12 operations a second with their epilogues; by these numbers it is 2e12.
TILE_DOT, TILE_LOADS, TILE_FINISH, TILE_MOVE = 7e-9, (8.2e-9, 38e-9), 80e-9, 0.6e-9
# Multiply-adds of bfloat16 a second beside float32's, with an instruction for two: peaks of 118 and 59 billion on
# Zen 4, of which sums of bfloat16 reach a little less.
BFLOAT_FASTER = 1.9
# The same on processors that have tile registers for it, Intel's, whose instruction takes twice as long as a float32
# one: 105 and 215 billion operations a second.
BFLOAT_BESIDE_TILES = 0.5
# Seconds of work below which more threads cost more than they bring, of a call on arrays and of a model's program.
# One thread and two take for calls with estimates of 40 to 60 us (least times, two busy cores of an AMD EPYC): Relu
# 12.3 and 20.3 us, Add 13.5 and 18.6, Softmax 12.5 and 14.6, Transpose 9.4 and 14.9; only Sigmoid gains (17.8, 16.3).
WORTH_THREADS = 60e-6


def peak_seconds(operations: float, target: Target, efficiency: float) -> float:
    """Seconds for a number of operations (multiply-adds count 2) on one core at a fraction of its peak."""
    per_cycle = 4 * target.lanes() if target.has_fma and not target.halved else 2 * target.lanes()
    return operations / (per_cycle * GIGAHERTZ * 1e9 * efficiency)


def tile_seconds(products: float, loads: float, far: float = 0.0) -> float:
    """Seconds of products of tiles: they and loads run side by side, and the slower ones count. `far`: how many of the
    loads are from beyond the level 2 cache."""
    near, beyond = TILE_LOADS
    return maximum(products * TILE_DOT, (loads - far) * near + far * beyond)


def bfloat_faster(target: Target) -> float:
    """Return how many times as fast as float32's the products of bfloat16 in vectors are."""
    return BFLOAT_BESIDE_TILES if target.tiles.bf16 else BFLOAT_FASTER


def stream_seconds(nbytes: float) -> float:
    """Time to read bytes from main memory."""
    return nbytes / MEMORY


def weight_seconds(nbytes: float) -> float:
    """Time to stream weights once: every core streams them at the same time, and they share the bandwidth."""
    return nbytes / 14e9


def conversion_seconds(nbytes: float) -> float:
    """Time to bring a tensor into another layout, bytes read and written counted."""
    return LAUNCH + nbytes / CONVERTED


def pass_seconds(nbytes: float, operations: float = 0.0) -> float:
    """Time of one pass over tensors: their bytes from memory, simple operations on their elements."""
    return nbytes / MEMORY + operations / SIMPLE + LAUNCH


def strided_seconds(nbytes: float) -> float:
    """Time of a copy that is strided on one side."""
    return nbytes / STRIDED + LAUNCH


def shuffle_seconds(nbytes: float) -> float:
    """Time to move bytes through registers lane by lane."""
    return nbytes / SHUFFLED + LAUNCH


def moved_seconds(nbytes: float) -> float:
    """Time to move bytes that lie in the last cache."""
    return nbytes / CACHE


# Seconds per element of pools with one algorithm each, beside the bytes that they move.
WHOLE_WINDOW_TAP = 2e-10  # of a window, for medians and SoftPool
DRAWN_TAP = 5e-10  # of a window whose place is random (fractional pools)
POWER = 8e-9  # per power, in float64
PLACED_VALUE = 1.5e-9  # per value that is stored by an index
BIN = 4e-9  # per bin of a box
POOL_UNPROVEN = 1.5  # factor of the estimate where an algorithm was not found to win


@dataclass(frozen=True)
class PoolWork:
    """Work of a pooling algorithm: the bytes that it moves, its steps of each kind and its passes over rows
    (`constants.PoolRates`). `proven`: within what was measured to win somewhere.

    A step costs more in one algorithm than in another for reasons that the count of steps does not show: loads that
    straddle cache lines, loads that wait for stores, chains of steps that wait for each other. Of an algorithm without
    rates they are those of `generic`.
    """

    algorithm: str
    nbytes: float
    down: float
    across: float
    rows: float
    proven: bool = True

    def seconds(self, target: Target) -> float:
        """Estimated seconds on one core."""
        constants = constants_of(target)
        rates = constants.pools.get(self.algorithm, constants.pools["generic"])
        seconds = self.nbytes / constants.pool_stream
        seconds += self.down * rates.down + self.across * rates.across + self.rows * rates.row
        return seconds if self.proven else seconds * POOL_UNPROVEN
