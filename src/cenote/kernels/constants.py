"""Constants of the cost model by kind of machine, read from `constants.json`, which `python -m bench.fit` writes.

The file has, by kind, the numbers and how they were found: the machine, the day, how many layers were measured, in
which share of them the first choice was the fastest within 3 %, and the loss of time. `default` was not fitted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cenote.core.deferred import dataclass
from cenote.core.target import Target

FILE = Path(__file__).with_name("constants.json")
DEFAULT, ZEN4_AVX512, ZEN3_AVX2, XEON_AVX512 = "default", "zen4_avx512", "zen3_avx2", "xeon_avx512"


class PoolRates(NamedTuple):
    """Seconds per vector step of a row of the input, per vector step of a row of the output, and per pass over a row
    (its start and end). A step is a load, a shuffle, a combination or a store."""

    down: float
    across: float
    row: float


@dataclass(frozen=True)
class CostConstants:
    """Constants of one kind of machine. Shares are of the peak of multiply-adds at `cost_model.GIGAHERTZ`.

    winograd_products, winograd_transforms
        shares that Winograd's products and transforms reach
    winograd_strided
        factor of the transforms' operations where windows move by two
    winograd_near, winograd_far
        bytes per second at which weights come that the level 2 cache holds, and that it does not hold
    winograd_exposed
        part of the shorter one of multiplying and reading that the longer one does not hide
    winograd_alone
        factor of products in one piece, which no two threads can share
    direct_shares
        shares of direct convolutions by pixels: from 100, 24, 12 and 4 on, and of fewer
    direct_pointwise, direct_window, direct_ragged
        set-up of a tile in taps of one channel: of 1x1 and other windows, and more per tap where channels do not fill
        vectors
    direct_regions
        factor of the speed in regions of the map
    grouped_share
        share that windows of groups within a vector reach, whose channels are shuffled
    strassen_setup
        set-up of a tile of Strassen's algorithm, in half channels
    strassen_transform, strassen_finish
        cycles at `cost_model.GIGAHERTZ` for each vector of its input and of its result
    row_start
        seconds that each row of a matrix takes beside its bytes, where one row is multiplied by it as it lies
    pool_stream
        bytes per second of what a pool reads and writes
    pools
        rates of each pooling algorithm
    """

    winograd_products: float
    winograd_transforms: float
    winograd_strided: float
    winograd_near: float
    winograd_far: float
    winograd_exposed: float
    winograd_alone: float
    direct_shares: tuple[float, ...]
    direct_pointwise: float
    direct_window: float
    direct_ragged: float
    direct_regions: float
    grouped_share: float
    strassen_setup: float
    strassen_transform: float
    strassen_finish: float
    row_start: float
    pool_stream: float
    pools: Mapping[str, PoolRates]

    @staticmethod
    def of(numbers: Mapping[str, Any]) -> CostConstants:
        """Return those of a record of the file."""
        pools = {name: PoolRates(*rates) for name, rates in numbers["pools"].items()}
        return CostConstants(**{**numbers, "direct_shares": tuple(numbers["direct_shares"]), "pools": pools})


def kind_of(target: Target) -> str:
    """Return the kind of machine that a target is taken for: AVX-512 in two halves is Zen 4's, in one piece that of
    Intel's servers, and AVX2 was measured on Zen 3, which has no wider vectors."""
    if target.name == "avx2":
        return ZEN3_AVX2
    if target.vector_bytes == 64:
        return XEON_AVX512 if target.is_wide else ZEN4_AVX512
    return DEFAULT


def stored() -> dict[str, dict[str, Any]]:
    """Return the file's records by kind: `constants`, and `figures` on how they were found."""
    records: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return records


CONSTANTS = {kind: CostConstants.of(record["constants"]) for kind, record in stored().items()}


def constants_of(target: Target) -> CostConstants:
    """Return the constants for a target."""
    return CONSTANTS[kind_of(target)]
