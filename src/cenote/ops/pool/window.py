"""What all pools that slide a window share: fields, shapes, regions, and the walk over windows of the
references.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cenote.core.errors import ArgumentError, DTypeError, ShapeError
from cenote.core.pool_geometry import AxisWindow, Pairs, axis_windows, refuse_empty_windows
from cenote.core.types import BFLOAT16, FLOATS, Array, TensorType
from cenote.ops.base import Box, Cost, Imported, Op, Types, require

DType = np.dtype[Any]

INTEGERS: frozenset[DType] = frozenset(map(np.dtype, (np.int8, np.uint8, np.int16, np.int32, np.int64)))
ORDERED: frozenset[DType] = FLOATS | INTEGERS | {np.dtype(np.bool_)}
NUMBERS: frozenset[DType] = FLOATS | INTEGERS
INT64 = np.dtype(np.int64)

Windows = Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]


@dataclass(frozen=True)
class WindowPool(Op):
    """Base of the pools that slide a window over 1 to 3 spatial axes of x (N, C, *spatial).

    window         taps per axis
    stride         step per axis; empty means ones
    pads           (begin, end) per axis; empty means none. Padding holds no elements: it is never a maximum
    dilation       distance of the taps per axis; empty means ones
    auto_pad       "NOTSET" (use `pads`), "SAME_UPPER", "SAME_LOWER", "VALID"
    ceil_mode      round the output size up; `drop` says which last windows are dropped then
    channels_last  x and the outputs are (N, *spatial, C)

    core/pool_geometry.py holds the formulas; `geometry(shape)` gives them resolved.
    """

    window: tuple[int, ...]
    stride: tuple[int, ...] = ()
    pads: Pairs = ()
    dilation: tuple[int, ...] = ()
    auto_pad: str = "NOTSET"
    ceil_mode: bool = False
    drop: str = "always"
    channels_last: bool = False

    dtypes: ClassVar[frozenset[DType]] = FLOATS

    def geometry(self, shape: Sequence[int]) -> tuple[AxisWindow, ...]:
        """The windows along each spatial axis for an input of this shape; no window is empty.

        Raises ShapeError or ArgumentError as `infer` does.
        """
        check_map(self.name, shape, len(self.window))
        axes = axis_windows(
            self.name,
            spatial_of(shape, self.channels_last),
            self.window,
            self.stride,
            self.pads,
            self.dilation,
            auto_pad=self.auto_pad,
            ceil_mode=self.ceil_mode,
            drop=self.drop,
        )
        refuse_empty_windows(self.name, axes)
        return axes

    def pooled(self, x: TensorType) -> TensorType:
        """Type of the pooled values, after all checks."""
        check_dtype(self.name, x.dtype, self.dtypes)
        out = tuple(axis.out for axis in self.geometry(x.shape))
        return TensorType(x.dtype, with_spatial(x.shape, out, self.channels_last))

    def infer(self, *inputs: TensorType | None) -> Types:
        return (self.pooled(only_input(self.name, inputs)),)

    def cost(self, inputs: Sequence[TensorType | None]) -> Cost:
        """One operation per tap: the plain algorithm."""
        x = only_input(self.name, inputs)
        outputs = self.infer(x)
        taps = math.prod(min(axis.window, axis.size) for axis in self.geometry(x.shape))
        return Cost(outputs[0].size * taps, x.nbytes + sum(y.nbytes for y in outputs))

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        x = only_input(self.name, inputs)
        first = 1 if self.channels_last else 2
        ranges = list(box.ranges)
        for axis, windows in enumerate(self.geometry(x.shape), first):
            ranges[axis] = windows.read(*ranges[axis])
        return (Box(tuple(ranges)),)

    def walk(self, shape: Sequence[int]) -> Windows:
        """Every output position with the slices of its window, row-major."""
        axes = self.geometry(shape)
        slices = [axis.slices() for axis in axes]
        for position in np.ndindex(*(axis.out for axis in axes)):
            yield position, tuple(column[o] for column, o in zip(slices, position, strict=True))


def only_input(op: str, inputs: Sequence[TensorType | None]) -> TensorType:
    """The single input x."""
    if len(inputs) != 1:
        raise ShapeError(f"{op}: takes one input, got {len(inputs)}")
    return require(op, inputs[0], "x")


def check_dtype(op: str, dtype: DType, allowed: frozenset[DType]) -> None:
    """DTypeError unless the type is one of `allowed`."""
    if dtype not in allowed:
        names = ", ".join(sorted(item.name for item in allowed))
        raise DTypeError(
            f"{op}: element type {dtype.name} is not supported (allowed: {names}); cast the input"
        )


def check_map(op: str, shape: Sequence[int], rank: int) -> None:
    """ShapeError unless the shape is (N, C, *spatial) with `rank` spatial axes and at least one channel."""
    if rank not in (1, 2, 3):
        raise ArgumentError(f"{op}: kernel_size has {rank} numbers; 1 to 3 spatial axes are supported")
    if len(shape) != rank + 2:
        raise ShapeError(
            f"{op}: a window over {rank} spatial axes needs an input of rank {rank + 2} (batch, channels and "
            f"{rank} spatial axes), got shape {list(shape)}"
        )
    if 0 in shape[1:]:
        raise ShapeError(f"{op}: only the batch may be empty, got input shape {list(shape)}")


def spatial_of(shape: Sequence[int], channels_last: bool) -> tuple[int, ...]:
    """The spatial extents of a batched shape."""
    return tuple(shape[1:-1] if channels_last else shape[2:])


def with_spatial(shape: Sequence[int], spatial: Sequence[int], channels_last: bool) -> tuple[int, ...]:
    """The batched shape with other spatial extents."""
    if channels_last:
        return (shape[0], *spatial, shape[-1])
    return (*shape[:2], *spatial)


def channels_first(x: Array, channels_last: bool) -> Array:
    """A view (N, C, *spatial) of x."""
    return np.moveaxis(x, -1, 1) if channels_last else x


def as_declared(y: Array, channels_last: bool) -> Array:
    """Back from (N, C, *spatial) to the declared order, dense."""
    return np.ascontiguousarray(np.moveaxis(y, 1, -1)) if channels_last else y


def type_of(x: Array) -> TensorType:
    return TensorType(x.dtype, x.shape)


def taps_of(x: Array, slices: tuple[slice, ...]) -> Array:
    """The elements of one window as (N, C, taps), taps row-major; x is (N, C, *spatial)."""
    patch = x[(slice(None), slice(None), *slices)]
    return patch.reshape(*x.shape[:2], math.prod(patch.shape[2:]))


def comparable(x: Array) -> Array:
    """x in a type that NumPy orders well: bfloat16 as float32, others as they are."""
    return x.astype(np.float32) if x.dtype == BFLOAT16 else x


def window_attributes(op: str, node: Imported) -> dict[str, Any]:
    """The fields that all ONNX pools share. `strides` and `dilations` are ones where absent, in every
    version.
    """
    window = tuple(node.get("kernel_shape", ()))
    if not window:
        raise ArgumentError(f"{op}: attribute kernel_shape is missing; one number per spatial axis is needed")
    pads = tuple(node.get("pads", ()))
    if len(pads) % 2:
        raise ArgumentError(f"{op}: pads {pads} must hold a begin and an end per axis")
    half = len(pads) // 2
    return {
        "window": window,
        "stride": tuple(node.get("strides", ())),
        "pads": tuple((int(begin), int(end)) for begin, end in zip(pads[:half], pads[half:], strict=True)),
        "dilation": tuple(node.get("dilations", ())),
        "auto_pad": str(node.get("auto_pad", "NOTSET")) or "NOTSET",
        "ceil_mode": node.flag("ceil_mode"),
    }


WINDOW_NAMES = ("auto_pad", "kernel_shape", "pads", "strides")
"""The ONNX attributes that pools have had since their first version."""
