"""Conversion of TensorFlow Lite's sparse constants to dense ones.

The format is that of TACO ("The Tensor Algebra Compiler", Kjolstad et al., 2017): the levels of the tensor (and of
the blocks that its axes may be cut into) in the order of traversal, each either dense or a list of segments and
indices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cenote.core.errors import ModelError
from cenote.core.types import Array
from cenote.frontends.tflite import schema
from cenote.frontends.tflite.flatbuffer import FlatTable

_VECTORS = {1: schema.INT32_VECTOR, 2: schema.UINT16_VECTOR, 3: schema.UINT8_VECTOR}


def dense_of(values: Array, shape: tuple[int, ...], sparsity: FlatTable) -> Array:
    """Return the tensor of which `values` are the stored elements. Raises ModelError where the two do not fit."""
    order, blocks = sparsity.numbers("traversal_order"), sparsity.numbers("block_map")
    levels = list(sparsity.tables("dim_metadata", schema.DIMENSION_METADATA))
    rank = len(shape)
    if sorted(order) != list(range(len(levels))) or len(levels) != rank + len(blocks) or not levels:
        raise ModelError(
            f"a sparse constant of {len(levels)} levels, order {list(order)}, blocks {list(blocks)}"
        )
    extents = _extents(shape, order, blocks, levels)
    # Every walk of the levels, from the first: its place along each of them.
    places = np.zeros((1, 0), np.int64)
    for level, table in enumerate(levels):
        places = _walked(places, table, extents[order[level]])
    if len(places) != values.size:
        raise ModelError(f"a sparse constant of {len(places)} places and {values.size} values")
    by_axis: list[Any] = [None] * len(levels)
    for level, axis in enumerate(order):
        by_axis[axis] = places[:, level]
    index = [by_axis[axis] for axis in range(rank)]
    for number, axis in enumerate(blocks):
        index[axis] = index[axis] * extents[rank + number] + by_axis[rank + number]
    dense = np.zeros(shape, values.dtype)
    if any(
        (axis_index >= extent).any() or (axis_index < 0).any()
        for axis_index, extent in zip(index, shape, strict=True)
    ):
        raise ModelError("a sparse constant has an element outside of its shape")
    dense[tuple(index)] = values
    return dense


def _extents(
    shape: tuple[int, ...], order: tuple[int, ...], blocks: tuple[int, ...], levels: list[FlatTable]
) -> list[int]:
    """Return the extent of each axis in blocks, then those of the blocks."""
    sizes = [0] * len(levels)
    for level, axis in enumerate(order):
        sizes[axis] = int(levels[level]["dense_size"])
    rank = len(shape)
    extents = [*shape, *sizes[rank:]]
    for number, axis in enumerate(blocks):
        if not 0 <= axis < rank or extents[rank + number] < 1:
            raise ModelError(f"a sparse constant with blocks of {extents[rank + number]} along axis {axis}")
        extents[axis] //= extents[rank + number]
    return extents


def _walked(places: Array, level: FlatTable, extent: int) -> Array:
    """Return the walks so far, each continued by every place of the next level."""
    if not int(level["format"]):
        repeated = np.repeat(places, extent, axis=0)
        return np.column_stack([repeated, np.tile(np.arange(extent), len(places))])
    segments, indices = (_vector(level, name) for name in ("array_segments", "array_indices"))
    if len(segments) != len(places) + 1 or (np.diff(segments) < 0).any() or (len(segments) and segments[0]):
        raise ModelError("a sparse constant's segments do not fit")
    if segments[-1] != len(indices):
        raise ModelError("a sparse constant's segments do not end with its indices")
    return np.column_stack([np.repeat(places, np.diff(segments), axis=0), indices])


def _vector(level: FlatTable, name: str) -> Array:
    fields = _VECTORS.get(int(level[f"{name}_type"]))
    vector = None if fields is None else level.table(name, fields)
    numbers = None if vector is None else vector["values"]
    if numbers is None:
        raise ModelError(f"a sparse constant has no {name}")
    return np.asarray(numbers, np.int64)
