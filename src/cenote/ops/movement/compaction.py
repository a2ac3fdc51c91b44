"""Kernels for results whose sizes depend on content: elements under a mask are counted first, then listed in order."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np

from cenote.codegen import jit
from cenote.core.types import INT64, PLAIN, Array, TensorType
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.launch import Runner
from cenote.kernels.selection.compact import blocks_of, compact_call, coordinates_call, count_call
from cenote.ops.base import Lowering
from cenote.ops.reduction.topk import Ordered
from cenote.ops.runner import lowering_runner

_KEPT = 1024  # runners of each kind
WORTH_KERNELS = 1 << 12  # elements below which NumPy's one call is quicker


def is_number(dtype: np.dtype[Any]) -> bool:
    """Whether the kernels can compare elements of this type with zero: numbers and bools."""
    return dtype.kind in "iufb" or dtype.name == "bfloat16"


@lru_cache(_KEPT)
def counting(dtype: np.dtype[Any], size: int, threads: int) -> Runner:
    """Runner that counts the elements of each block that are not zero."""
    x, counts = TensorType(dtype, (size,)), TensorType(INT64, (blocks_of(size),))
    lowering = Lowering.of_call("count", (PLAIN,), (PLAIN,), count_call, pass_seconds(x.nbytes))
    return lowering_runner(lowering, (x,), (counts,), threads)


@lru_cache(_KEPT)
def compacting(dtype: np.dtype[Any], size: int, threads: int) -> Runner:
    """Runner that takes elements, mask and offsets, and writes the elements under the mask."""
    x, mask = TensorType(dtype, (size,)), TensorType(np.dtype(bool), (size,))
    offsets = TensorType(INT64, (blocks_of(size) + 1,))
    lowering = Lowering.of_call("compact", (PLAIN,) * 3, (PLAIN,), compact_call, pass_seconds(2 * x.nbytes))
    return lowering_runner(lowering, (x, mask, offsets), (x,), threads)


@lru_cache(_KEPT)
def locating(dtype: np.dtype[Any], shape: tuple[int, ...], threads: int) -> Runner:
    """Runner that takes elements and offsets, and writes a row of coordinates for each element that is not zero."""
    x = TensorType(dtype, shape)
    offsets, y = TensorType(INT64, (blocks_of(x.size) + 1,)), TensorType(INT64, (x.size, x.rank))
    call = partial(coordinates_call, step=len(shape), axis_step=1)
    lowering = Lowering.of_call("coordinates", (PLAIN,) * 2, (PLAIN,), call, pass_seconds(x.nbytes))
    return lowering_runner(lowering, (x, offsets), (y,), threads)


def offsets_of(x: Array, threads: int) -> Array:
    """Index of the first result of each block, then the number of all results. `x` is dense and not empty."""
    (counts,) = counting(x.dtype, x.size, threads)([x], None)
    offsets = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def chosen(x: Array, mask: Array, threads: int) -> Array:
    """Elements of a dense array where a dense mask of the same size is true, as an array of one axis."""
    offsets = offsets_of(mask, threads)
    made = np.empty(int(offsets[-1]), x.dtype)
    if made.size:
        compacting(x.dtype, x.size, threads)([x, mask, offsets], [made])
    return made


def coordinates(x: Array, threads: int) -> Array:
    """Indices of the elements of a dense array that are not zero: int64, (count, axes)."""
    offsets = offsets_of(x, threads)
    made = np.empty((int(offsets[-1]), x.ndim), np.int64)
    if made.size:
        locating(x.dtype, x.shape, threads)([x, offsets], [made])
    return made


@lru_cache(_KEPT)
def sorting(dtype: np.dtype[Any], size: int, threads: int) -> Runner | None:
    """Runner that sorts elements stably and returns their indices too; None for lists that are too long."""
    op, x = Ordered(0, False), TensorType(dtype, (size,))
    lowering = next(op.lowerings((x,), jit.host_target()), None)
    return None if lowering is None else lowering_runner(lowering, (x,), op.infer(x), threads)
