"""Regularisation by chance, named and defaulted as torch.nn.functional (and torchvision's stochastic_depth).

Numbers come from Philox-4x32-10, whose key is `seed`: the same seed gives the same bits on every machine and for any
number of threads, whatever was drawn before (`ops/random/philox.py` says which number an element takes). Without a seed
each call draws others. PyTorch draws other numbers for its own seeds.
"""

from __future__ import annotations

from typing import Any, Literal, SupportsIndex

import numpy as np

from cenote.core.errors import ArgumentError, ShapeError
from cenote.functional.arguments import Operation, Types, choice, flag, given_array, real, seed_of
from cenote.functional.dispatch import call
from cenote.functional.record import public
from cenote.functional.types import A
from cenote.ops.random.dropout import SEED, RandomDropout, check_chance
from cenote.ops.random.philox import fresh_seed


def parse_dropout(
    types: Types, where: str, p: Any, training: Any, axes: Any, alpha: bool, with_mask: Any
) -> Operation:
    """Dropout of (input, seed), with a draw for each position of so many leading axes (None: for each element)."""
    x, seed = types
    chance = real(where, "p", p)
    check_chance(where, chance)
    used = chance if flag(where, "training", training) else 0.0
    if not used:
        axes = None  # nothing is dropped, whatever the axes are
    if axes is not None and x.rank < axes:
        raise ShapeError(f"{where}: expected an input of at least {axes} axes, got {list(x.shape)}")
    op = RandomDropout(used, axes, alpha, flag(where, "return_mask", with_mask))
    outputs = op.infer(x, seed)
    return Operation(op, (x.shape, seed.shape), tuple(y.shape for y in outputs))


def _drop(
    where: str, input: Any, p: Any, training: Any, inplace: Any, seed: Any, out: Any, threads: Any,
    axes: int | None = None, alpha: bool = False, return_mask: Any = False,
) -> Any:  # fmt: skip
    if flag(where, "inplace", inplace):
        if out is not None or return_mask:
            raise ArgumentError(f"{where}: inplace goes with neither out nor return_mask")
        out = input
    key = np.array([fresh_seed() if seed is None else seed_of(where, seed)], SEED)
    return call(parse_dropout, (input, key), (where, p, training, axes, alpha, return_mask), out, threads)


@public
def dropout(
    input: A,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    seed: SupportsIndex | None = None,
    return_mask: bool = False,
    out: A | None = None,
    threads: int | None = None,
) -> Any:
    """Each element zero with probability p, else times 1 / (1 - p), as torch.nn.functional.dropout.

    p            0 to 1, taken to the nearest multiple of 2^-32; with 1 all is zero
    training     False: the input, copied
    inplace      the result is written to the input; so it is with out=input
    seed         0 to 2^64 - 1; None: other numbers each call
    return_mask  the result is (y, mask): what was kept, as bool (all of it when not training)

    A NaN that is dropped becomes zero (in PyTorch it stays). Raises ArgumentError for a p that is no probability,
    DTypeError for types that are no floats.
    """
    return _drop("dropout", input, p, training, inplace, seed, out, threads, return_mask=return_mask)


@public
def alpha_dropout(
    input: A,
    p: float = 0.5,
    training: bool = False,
    inplace: bool = False,
    *,
    seed: SupportsIndex | None = None,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """Dropout to SELU's lowest value, scaled and shifted so that mean 0 and variance 1 stay, as
    torch.nn.functional.alpha_dropout. Arguments: see dropout."""
    return _drop("alpha_dropout", input, p, training, inplace, seed, out, threads, alpha=True)


@public
def dropout1d(
    input: A,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    seed: SupportsIndex | None = None,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """Whole channels of (N, C, L) or (C, L) dropped: see dropout."""
    return _features("dropout1d", 3, input, p, training, inplace, seed, out, threads)


@public
def dropout2d(
    input: A,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    seed: SupportsIndex | None = None,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """Whole channels of (N, C, H, W) dropped (of three axes: those of (N, C, L), as PyTorch): see dropout."""
    return _features("dropout2d", 0, input, p, training, inplace, seed, out, threads)


@public
def dropout3d(
    input: A,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    seed: SupportsIndex | None = None,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """Whole channels of (N, C, D, H, W) or (C, D, H, W) dropped: see dropout."""
    return _features("dropout3d", 5, input, p, training, inplace, seed, out, threads)


@public
def feature_alpha_dropout(
    input: A,
    p: float = 0.5,
    training: bool = False,
    inplace: bool = False,
    *,
    seed: SupportsIndex | None = None,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """alpha_dropout of whole channels of (N, C, ...)."""
    where = "feature_alpha_dropout"
    return _drop(where, input, p, training, inplace, seed, out, threads, axes=2, alpha=True)


def _features(
    where: str, rank: int, input: Any, p: Any, training: Any, inplace: Any, seed: Any, out: Any, threads: Any
) -> Any:
    """Channels are the second axis; the first where an input has one axis less than a batch of `rank` axes."""
    axes = 1 if rank and given_array(where, "input", input)[0].ndim == rank - 1 else 2
    return _drop(where, input, p, training, inplace, seed, out, threads, axes)


@public
def stochastic_depth(
    input: A,
    p: float,
    mode: Literal["batch", "row"],
    training: bool = True,
    *,
    seed: SupportsIndex | None = None,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """The whole batch, or each of its rows, zero with probability p, else times 1 / (1 - p), as
    torchvision.ops.stochastic_depth. Other arguments: see dropout.
    """
    where = "stochastic_depth"
    axes = 0 if choice(where, "mode", mode, ("batch", "row")) == "batch" else 1
    return _drop(where, input, p, training, False, seed, out, threads, axes=axes)
