"""Regularisation by chance, named and defaulted as torch.nn.functional (and torchvision's stochastic_depth).

Numbers come from Philox-4x32-10, whose key is `seed`: the same seed gives the same bits on every machine and for any
number of threads, whatever was drawn before (`ops/random/philox.py` says which number an element takes). Without a seed
each call draws others. PyTorch draws other numbers for its own seeds.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.types import TensorType
from cenote.functional.arguments import HERE, flag, seed_of
from cenote.functional.kinds import Array, Early
from cenote.functional.record import function
from cenote.ops.base import Op
from cenote.ops.random.dropout import SEED, RandomDropout, check_chance
from cenote.ops.random.philox import fresh_seed

Seed = Annotated[int, Early("SupportsIndex")]
Inplace = Annotated[bool, Early("bool")]


def _keyed(input: object, seed: object) -> tuple[object, ...]:
    """The input, and the key of the numbers that are drawn."""
    return input, np.array([fresh_seed() if seed is None else seed_of("seed", seed)], SEED)


def _target(input: object, inplace: object, out: object, return_mask: object = False) -> object:
    """Return the array for the result: the input, or `out`."""
    if not flag("inplace", inplace):
        return out
    if out is not None or return_mask:
        raise ArgumentError("inplace goes with neither out nor return_mask")
    return input


@dataclass(frozen=True)
class Chance:
    """The arguments of a dropout."""

    p: float = 0.5
    training: bool = True
    inplace: Inplace = False

    def operator(
        self, x: TensorType, axes: int | None, alpha: bool = False, mask: bool = False
    ) -> RandomDropout:
        """Dropout of (input, seed), with a draw for each position of so many leading axes (None: for each element)."""
        check_chance(HERE, self.p)
        used = self.p if self.training else 0.0
        if not used:
            axes = None  # nothing is dropped, whatever the axes are
        if axes is not None and x.rank < axes:
            raise ShapeError(f"expected an input of at least {axes} axes, got {list(x.shape)}")
        return RandomDropout(used, axes, alpha, mask)


@dataclass(frozen=True)
class AskedChance(Chance):
    """The same for functions that drop only when they are asked to."""

    training: bool = False


@function(arrays=_keyed, target=_target, returns="Any")
def dropout(input: Array, chance: Chance, *, seed: Seed | None = None, return_mask: bool = False) -> Op:
    """Each element zero with probability p, else times 1 / (1 - p), as torch.nn.functional.dropout.

    p            0 to 1, taken to the nearest multiple of 2^-32; with 1 all is zero
    training     False: the input, copied
    inplace      the result is written to the input; so it is with out=input
    seed         0 to 2^64 - 1; None: other numbers each call
    return_mask  the result is (y, mask): what was kept, as bool (all of it when not training)

    A NaN that is dropped becomes zero (in PyTorch it stays). Raises ArgumentError for a p that is no probability,
    DTypeError for types that are no floats.
    """
    return chance.operator(input, None, mask=return_mask)


@function(arrays=_keyed, target=_target)
def alpha_dropout(input: Array, chance: AskedChance, *, seed: Seed | None = None) -> Op:
    """Dropout to SELU's lowest value, scaled and shifted so that mean 0 and variance 1 stay, as
    torch.nn.functional.alpha_dropout. Arguments: see dropout."""
    return chance.operator(input, None, alpha=True)


@function(arrays=_keyed, target=_target)
def dropout1d(input: Array, chance: Chance, *, seed: Seed | None = None) -> Op:
    """Whole channels of (N, C, L) or (C, L) dropped: see dropout."""
    return chance.operator(input, 1 if input.rank == 2 else 2)


@function(arrays=_keyed, target=_target)
def dropout2d(input: Array, chance: Chance, *, seed: Seed | None = None) -> Op:
    """Whole channels of (N, C, H, W) dropped (of three axes: those of (N, C, L), as PyTorch): see dropout."""
    return chance.operator(input, 2)


@function(arrays=_keyed, target=_target)
def dropout3d(input: Array, chance: Chance, *, seed: Seed | None = None) -> Op:
    """Whole channels of (N, C, D, H, W) or (C, D, H, W) dropped: see dropout."""
    return chance.operator(input, 1 if input.rank == 4 else 2)


@function(arrays=_keyed, target=_target)
def feature_alpha_dropout(input: Array, chance: AskedChance, *, seed: Seed | None = None) -> Op:
    """alpha_dropout of whole channels of (N, C, ...)."""
    return chance.operator(input, 2, alpha=True)


@function(arrays=_keyed)
def stochastic_depth(
    input: Array,
    p: float,
    mode: Literal["batch", "row"],
    training: bool = True,
    *,
    seed: Seed | None = None,
) -> Op:
    """The whole batch, or each of its rows, zero with probability p, else times 1 / (1 - p), as
    torchvision.ops.stochastic_depth. Other arguments: see dropout.
    """
    return Chance(p, training).operator(input, 0 if mode == "batch" else 1)
