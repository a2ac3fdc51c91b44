"""Fractional max pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

from cenote.core.errors import ArgumentError, ShapeError, shown
from cenote.core.types import TensorType, is_float
from cenote.functional.arguments import (
    Form,
    Operation,
    flag,
    form,
    given_array,
    numbers,
    real,
    refuse_empty,
    seed_of,
)
from cenote.functional.dispatch import call
from cenote.functional.types import A, DLPack, Layout2, Layout3, Numbers
from cenote.ops.pool.fractional import FractionalMaxPool
from cenote.ops.pool.weighted import uniform


def _sizes(where: str, spatial: tuple[int, ...], output_size: Any, output_ratio: Any) -> tuple[int, ...]:
    rank = len(spatial)
    if (output_size is None) == (output_ratio is None):
        given = "both" if output_size is not None else "neither"
        raise ArgumentError(f"{where}: give either output_size or output_ratio, got {given}")
    if output_size is not None:
        return numbers(where, "output_size", output_size, rank, 1)
    ratios = output_ratio if isinstance(output_ratio, list | tuple) else (output_ratio,) * rank
    if len(ratios) != rank:
        raise ArgumentError(f"{where}: output_ratio must be one number or {rank}, got {shown(output_ratio)}")
    parsed = [real(where, "output_ratio", ratio) for ratio in ratios]
    if not all(0 < ratio < 1 for ratio in parsed):
        raise ArgumentError(f"{where}: output_ratio must lie between 0 and 1, got {shown(output_ratio)}")
    return tuple(int(extent * ratio) for extent, ratio in zip(spatial, parsed, strict=True))


def _parse(types: tuple[TensorType, ...], where: str, rank: int, *rest: Any) -> Operation:
    kernel_size, output_size, output_ratio, return_indices, layout = rest
    x, samples = types
    window = numbers(where, "kernel_size", kernel_size, rank, 1)
    indices = flag(where, "return_indices", return_indices)
    shape = form(where, x.shape, rank, layout)
    refuse_empty(where, shape)
    output = _sizes(where, shape.spatial, output_size, output_ratio)
    op = FractionalMaxPool(window, output, indices, shape.channels_last)
    draws = TensorType(samples.dtype, (shape.batched[0], shape.channels, rank))
    if samples.size != draws.size or samples.shape[-1:] != (rank,):
        raise ShapeError(
            f"{where}: _random_samples must have shape {list(draws.shape)}, got {list(samples.shape)}"
        )
    outputs = op.infer(TensorType(x.dtype, shape.batched), draws)
    return Operation(op, (shape.batched, draws.shape), tuple(shape.restore(y.shape) for y in outputs))


def _fractional(
    where: str,
    rank: int,
    input: Any,
    samples: Any,
    seed: Any,
    layout: Any,
    rest: tuple[Any, ...],
    out: Any,
    threads: Any,
) -> Any:
    array, _ = given_array(where, "input", input)
    shape = form(where, array.shape, rank, layout)
    if samples is None:
        samples = _draw(
            where, shape, seed, dtype if is_float(dtype := array.dtype.newbyteorder("=")) else np.float32
        )
    elif seed is not None:
        raise ArgumentError(f"{where}: give either _random_samples or seed, not both")
    return call(_parse, (input, samples), (where, rank, *rest, layout), out, threads)


def _draw(where: str, shape: Form, seed: Any, dtype: Any) -> Any:
    """One offset per plane and axis; narrow types are drawn below 1 after rounding."""
    if seed is None:
        seed = int(np.random.default_rng().integers(0, 1 << 63))
    key = seed_of(where, seed)
    count = (shape.batched[0], shape.channels, shape.rank)
    draws = uniform(np.arange(int(np.prod(count))), key).reshape(count)
    return (
        (np.floor(draws * 128) / 128).astype(dtype) if np.dtype(dtype).itemsize == 2 else draws.astype(dtype)
    )


@overload
def fractional_max_pool2d(
    input: A, kernel_size: Numbers, output_size: Numbers | None = ...,
    output_ratio: float | Sequence[float] | None = ..., return_indices: Literal[False] = ...,
    _random_samples: DLPack | None = ..., *, seed: int | None = ..., out: A | None = ...,
    layout: Layout2 = ..., threads: int | None = ...,
) -> A: ...  # fmt: skip
@overload
def fractional_max_pool2d(
    input: A, kernel_size: Numbers, output_size: Numbers | None = ...,
    output_ratio: float | Sequence[float] | None = ..., return_indices: bool = ...,
    _random_samples: DLPack | None = ..., *, seed: int | None = ..., out: A | tuple[A, A] | None = ...,
    layout: Layout2 = ..., threads: int | None = ...,
) -> Any: ...  # fmt: skip
def fractional_max_pool2d(
    input: A,
    kernel_size: Numbers,
    output_size: Numbers | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: DLPack | None = None,
    *,
    seed: int | None = None,
    out: A | tuple[A, A] | None = None,
    layout: Layout2 = "NCHW",
    threads: int | None = None,
) -> Any:
    """Largest values of windows at pseudo-random steps, as torch.nn.functional.fractional_max_pool2d.

    output_size, output_ratio  exactly one of them: extents, or fractions of the input's between 0 and 1
    _random_samples            (N, C, 2) numbers in [0, 1) in PyTorch's order (width, height)
    seed                       instead of samples: the same seed gives the same windows on every machine; without
                               either every call draws anew
    input, kernel_size, return_indices, out, layout, threads: see max_pool2d
    """
    rest = (kernel_size, output_size, output_ratio, return_indices)
    return _fractional("fractional_max_pool2d", 2, input, _random_samples, seed, layout, rest, out, threads)


@overload
def fractional_max_pool3d(
    input: A, kernel_size: Numbers, output_size: Numbers | None = ...,
    output_ratio: float | Sequence[float] | None = ..., return_indices: Literal[False] = ...,
    _random_samples: DLPack | None = ..., *, seed: int | None = ..., out: A | None = ...,
    layout: Layout3 = ..., threads: int | None = ...,
) -> A: ...  # fmt: skip
@overload
def fractional_max_pool3d(
    input: A, kernel_size: Numbers, output_size: Numbers | None = ...,
    output_ratio: float | Sequence[float] | None = ..., return_indices: bool = ...,
    _random_samples: DLPack | None = ..., *, seed: int | None = ..., out: A | tuple[A, A] | None = ...,
    layout: Layout3 = ..., threads: int | None = ...,
) -> Any: ...  # fmt: skip
def fractional_max_pool3d(
    input: A,
    kernel_size: Numbers,
    output_size: Numbers | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: DLPack | None = None,
    *,
    seed: int | None = None,
    out: A | tuple[A, A] | None = None,
    layout: Layout3 = "NCDHW",
    threads: int | None = None,
) -> Any:
    """As fractional_max_pool2d over three spatial axes; samples (N, C, 3) are for depth, height, width."""
    rest = (kernel_size, output_size, output_ratio, return_indices)
    return _fractional("fractional_max_pool3d", 3, input, _random_samples, seed, layout, rest, out, threads)
