"""Copies and fills of parts of tensors, for Concat, Pad and Slice.

They are the elementwise kernel's identity on the bits, so any type of 1, 2, 4 or 8 bytes will do, plain or blocked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.core.target import Target
from cenote.core.types import Array, TensorType
from cenote.kernels.base import Call, View
from cenote.kernels.elementwise.elementwise import Operand, elementwise_call, operand_of


def can_copy(dtype: np.dtype[Any]) -> bool:
    """Whether elements of the type have a size that kernels move."""
    return dtype.itemsize in (1, 2, 4, 8) and dtype.kind not in "OSU"


def box_of(view: View, begins: Sequence[int], shape: Sequence[int]) -> View:
    """Return the part of a tensor from `begins` on. A blocked tensor is cut between whole blocks of channels only."""
    places = list(begins)
    if view.layout.is_blocked:
        assert places[1] % view.layout.lanes == 0, "a part of a blocked tensor begins inside a block"
        places[1] //= view.layout.lanes
    offset = sum(place * stride for place, stride in zip(places, view.strides, strict=True))
    part = dataclasses.replace(view, type=TensorType(view.type.dtype, tuple(shape)))
    return part.at(offset)


def copy_call(x: View, y: View, target: Target) -> Call:
    """Return the call that copies x to y: equal shapes, types and lanes; strides may differ outside of
    the last axis."""
    source, result = _bits(x), _bits(y)
    strides = operand_of(source, result).strides if source.type.size > 1 else x.strides
    return elementwise_call("identity", (), [Operand(source, strides)], result, target)


def fill_call(value: Array, y: View, target: Target) -> Call:
    """Return the call that fills y with one value (an array of one element of y's type)."""
    result = _bits(y)
    bits = value.reshape(1).view(result.type.dtype)
    return elementwise_call(
        "identity", (), [Operand(bits, (0,) * len(y.strides), is_scalar=True)], result, target
    )


def row_call(content: Array, y: View, target: Target) -> Call:
    """Return the call that copies a row of numbers, unsigned and as wide as y's, to y of one axis. The row may follow
    from sizes that are open."""
    return elementwise_call("identity", (), [Operand(content, (1,))], _bits(y), target)


def _bits(view: View) -> View:
    """View the same memory as unsigned integers."""
    size = view.type.dtype.itemsize
    return dataclasses.replace(view, type=TensorType(np.dtype(f"u{size}"), view.type.shape))
