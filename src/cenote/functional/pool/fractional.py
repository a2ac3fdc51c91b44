"""Fractional max pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from cenote.core.errors import ArgumentError, ShapeError, shown
from cenote.core.types import FLOAT32, Array, TensorType, is_float, native_dtype
from cenote.functional.arguments import Form, Operation, form, given_array, numbers, real, seed_of
from cenote.functional.kinds import ArrayKind, Early, Map
from cenote.functional.record import function
from cenote.functional.types import Numbers
from cenote.ops.pool.fractional import FractionalMaxPool
from cenote.ops.pool.weighted import uniform

Seed = Annotated[int, Early("int")]
Samples = Annotated[TensorType, ArrayKind("DLPack")]
Ratio = float | Sequence[float]


def _sizes(
    spatial: tuple[int, ...], output_size: Numbers | None, output_ratio: Ratio | None
) -> tuple[int, ...]:
    rank = len(spatial)
    if (output_size is None) == (output_ratio is None):
        given = "both" if output_size is not None else "neither"
        raise ArgumentError(f"give either output_size or output_ratio, got {given}")
    if output_size is not None:
        return numbers("output_size", output_size, rank, 1)
    ratios = output_ratio if isinstance(output_ratio, list | tuple) else (output_ratio,) * rank
    if len(ratios) != rank:
        raise ArgumentError(f"output_ratio must be one number or {rank}, got {shown(output_ratio)}")
    parsed = [real("output_ratio", ratio) for ratio in ratios]
    if not all(0 < ratio < 1 for ratio in parsed):
        raise ArgumentError(f"output_ratio must lie between 0 and 1, got {shown(output_ratio)}")
    return tuple(int(extent * ratio) for extent, ratio in zip(spatial, parsed, strict=True))


def _with_samples(
    rank: int, layout: object, input: object, _random_samples: object, seed: object
) -> tuple[object, object]:
    """The input and its samples, drawn where there are none: one offset per plane and axis."""
    if _random_samples is not None and seed is not None:
        raise ArgumentError("give either _random_samples or seed, not both")
    array, _ = given_array("input", input)
    dtype = native_dtype(array.dtype)
    shape = form(TensorType(dtype, array.shape), rank, layout)
    return input, _draw(shape, seed) if _random_samples is None else _random_samples


def _draw(shape: Form, seed: object) -> Array:
    """Samples in the input's type; narrow ones are drawn below 1 after rounding."""
    if seed is None:
        seed = int(np.random.default_rng().integers(0, 1 << 63))
    key = seed_of("seed", seed)
    count = (shape.batched[0], shape.channels, shape.rank)
    draws = uniform(np.arange(int(np.prod(count))), key).reshape(count)
    dtype = shape.dtype if is_float(shape.dtype) else FLOAT32
    return (np.floor(draws * 128) / 128).astype(dtype) if dtype.itemsize == 2 else draws.astype(dtype)


@function(
    ranks=(2, 3),
    twins="As fractional_max_pool2d over three spatial axes; samples (N, C, 3) are for depth, height, width.",
    indexed=True,
    arrays=_with_samples,
)
def fractional_max_pool(
    input: Map,
    kernel_size: Numbers,
    output_size: Numbers | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Samples | None = None,
    *,
    seed: Seed | None = None,
) -> Operation:
    """Largest values of windows at pseudo-random steps, as torch.nn.functional.fractional_max_pool2d.

    output_size, output_ratio  exactly one of them: extents, or fractions of the input's between 0 and 1
    _random_samples            (N, C, 2) numbers in [0, 1) in PyTorch's order (width, height)
    seed                       instead of samples: the same seed gives the same windows on every machine; without
                               either every call draws anew
    input, kernel_size, return_indices, out, layout, threads: see max_pool2d
    """
    rank = input.rank
    window = numbers("kernel_size", kernel_size, rank, 1)
    input.refuse_empty()
    op = FractionalMaxPool(
        window, _sizes(input.spatial, output_size, output_ratio), return_indices, input.channels_last
    )
    assert _random_samples is not None, "drawn where there are none"
    draws = TensorType(_random_samples.dtype, (input.batched[0], input.channels, rank))
    if _random_samples.size != draws.size or _random_samples.shape[-1:] != (rank,):
        raise ShapeError(
            f"_random_samples must have shape {list(draws.shape)}, got {list(_random_samples.shape)}"
        )
    outputs = op.infer(input.type, draws)
    return Operation(op, (input.batched, draws.shape), tuple(input.restore(y.shape) for y in outputs))
