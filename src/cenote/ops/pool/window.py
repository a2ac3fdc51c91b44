"""Pools that slide a window: what all of them share (fields, shapes, regions, the walk over windows of the references),
and the two that compare: the largest and the smallest value of each window, with indices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, DTypeError, ShapeError
from cenote.core.pool_geometry import AxisWindow, Pairs, axis_windows, refuse_empty_windows
from cenote.core.target import Target
from cenote.core.types import BFLOAT16, FLOATS, INT64, Array, TensorType, is_float
from cenote.kernels.pool.common import MAXIMUM, MINIMUM
from cenote.ops.base import Arrays, Box, Decoder, Imported, Lowering, Op, Sample, Types
from cenote.ops.pool.algorithms import Pool, window_lowerings
from cenote.ops.pool.onnx_attributes import WINDOW_NAMES, window_attributes
from cenote.ops.pool.window_samples import window_samples
from cenote.ops.traits import MapOp
from cenote.ops.values import narrow, wide

DType = np.dtype[Any]

INTEGERS: frozenset[DType] = frozenset(map(np.dtype, (np.int8, np.uint8, np.int16, np.int32, np.int64)))
ORDERED: frozenset[DType] = FLOATS | INTEGERS | {np.dtype(np.bool_)}
NUMBERS: frozenset[DType] = FLOATS | INTEGERS

Windows = Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]


class TapPool(MapOp):
    """Base of the pools of one input each of whose outputs is made of the elements of one window."""

    dtypes: ClassVar[frozenset[DType]] = FLOATS
    operands = ("x",)

    def pooled(self, x: TensorType) -> TensorType:
        """Type of the pooled values, after all checks."""
        raise NotImplementedError(f"{type(self).__name__}.pooled")

    def walk(self, shape: Sequence[int]) -> Windows:
        """Every output position with the slices of its window, row-major."""
        raise NotImplementedError(f"{type(self).__name__}.walk")

    def divisors(self, shape: tuple[int, ...]) -> Sequence[Sequence[int]]:
        """Factors per axis and output position, whose product is the `divisor` of `combined`; () for none."""
        return ()

    def combined(self, taps: Array, divisor: int) -> Array:
        """Values (N, C) of the elements (N, C, taps) of a window, both float64 or int64."""
        raise NotImplementedError(f"{type(self).__name__}.combined")

    def types(self, x: TensorType) -> Types:
        return (self.pooled(x),)

    def compute(self, x: Array) -> Arrays:
        result, divisors = self.declared(x)[0], self.divisors(x.shape)
        first = channels_first(wide(x), self.channels_last)
        first = first if is_float(x.dtype) else first.astype(INT64)
        y = np.empty((*first.shape[:2], *spatial_of(result.shape, self.channels_last)), first.dtype)
        for position, slices in self.walk(x.shape):
            divisor = math.prod(column[o] for column, o in zip(divisors, position, strict=False))
            here: tuple[Any, ...] = (..., *position)
            y[here] = self.combined(taps_of(first, slices), divisor)
        return (fit(as_declared(y, self.channels_last), result.dtype),)


class ExtremePool(TapPool):
    """Base of the pools that take the largest element of each window, or the smallest: see MaxPool."""

    nan: str
    return_indices: bool = False
    index: str = "plane"

    dtypes: ClassVar[frozenset[DType]] = ORDERED
    largest: ClassVar[bool] = True

    def types(self, x: TensorType) -> Types:
        check_rules(self.name, self.index, self.nan)
        y = self.pooled(x)
        return (y, TensorType(INT64, y.shape)) if self.return_indices else (y,)

    def compute(self, x: Array) -> Arrays:
        shape, last = self.declared(x)[0].shape, self.channels_last
        first = channels_first(x, last)
        values = np.empty((*first.shape[:2], *spatial_of(shape, last)), x.dtype)
        places = np.empty(values.shape, INT64)
        plane = np.arange(math.prod(first.shape[2:])).reshape(first.shape[2:])
        for position, slices in self.walk(x.shape):
            taps = taps_of(first, slices)
            winner = extremum(taps, self.largest, self.nan)
            here: tuple[Any, ...] = (..., *position)
            values[here] = np.take_along_axis(taps, winner[..., None], -1)[..., 0]
            places[here] = plane[slices].ravel()[winner]
        if self.nan == "ignore":
            values = lowest_where_nan(values, self.largest)
        if not self.return_indices:
            return (as_declared(values, last),)
        return as_declared(values, last), as_declared(convert_indices(places, first.shape, self.index), last)


@dataclass(frozen=True)
class WindowPool(TapPool):
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

    def forwarded(self, inputs: Sequence[TensorType | None]) -> int | None:
        return super().forwarded(inputs) if all(taps == 1 for taps in self.window) else None

    def operations(self, outputs: Types, x: TensorType) -> int:
        """One per tap: the plain algorithm."""
        taps = math.prod(min(axis.window, axis.size) for axis in self.geometry(x.shape))
        return outputs[0].size * taps

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        (x,) = self.arranged(inputs)
        first = 1 if self.channels_last else 2
        ranges = list(box.ranges)
        for axis, windows in enumerate(self.geometry(x.shape), first):
            ranges[axis] = windows.read(*ranges[axis])
        return (Box(tuple(ranges)),)

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Op:
        """The pool over a box: explicit padding, as its windows see it; indices count within the part's plane."""
        (x,) = self.arranged(inputs)
        ranges = box.ranges[1:-1] if self.channels_last else box.ranges[2:]
        axes = [windows.part(*bounds) for windows, bounds in zip(self.geometry(x.shape), ranges, strict=True)]
        return replace(
            self,
            pads=tuple((windows.begin, windows.end) for windows in axes),
            auto_pad="NOTSET",
            ceil_mode=True,  # a last window may overhang what is declared
            drop="never",
        )

    def walk(self, shape: Sequence[int]) -> Windows:
        """Every output position with the slices of its window, row-major."""
        axes = self.geometry(shape)
        slices = [axis.slices() for axis in axes]
        for position in np.ndindex(*(axis.out for axis in axes)):
            yield position, tuple(column[o] for column, o in zip(slices, position, strict=True))


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


def taps_of(x: Array, slices: tuple[slice, ...]) -> Array:
    """The elements of one window as (N, C, taps), taps row-major; x is (N, C, *spatial)."""
    patch = x[(slice(None), slice(None), *slices)]
    return patch.reshape(*x.shape[:2], math.prod(patch.shape[2:]))


def comparable(x: Array) -> Array:
    """x in a type that NumPy orders well: bfloat16 as float32, others as they are."""
    return x.astype(np.float32) if x.dtype == BFLOAT16 else x


def fit(y: Array, dtype: DType) -> Array:
    """Round floats, clip integers to the type."""
    if is_float(dtype):
        return narrow(y, dtype)
    limits = np.iinfo(dtype)
    clipped: Array = np.clip(y, limits.min, limits.max).astype(dtype)
    return clipped


# ---- largest and smallest values -------------------------------------------------------------------------------------

INDEX_RULES = ("plane", "tensor", "column", "nhwc")
NAN_RULES = ("propagate", "ignore")


def decode_max_pool(node: Imported) -> Op:
    """MaxPool of ai.onnx 1 (values only), 8 (+ Indices, storage_order), 10 (+ dilations, ceil_mode), 11,
    12, 22.
    """
    known: tuple[str, ...] = WINDOW_NAMES
    if node.opset >= 8:
        known += ("storage_order",)
    if node.opset >= 10:
        known += ("dilations", "ceil_mode")
    node.expect(*known)
    columns = node.flag("storage_order")
    return MaxPool(
        **window_attributes("max_pool", node),
        return_indices=node.outputs > 1,
        index="column" if columns else "tensor",
    )


@dataclass(frozen=True)
class MaxPool(ExtremePool, WindowPool):
    """Largest value of each window of x (N, C, *spatial); with `return_indices` also where it was (int64).

    `index` says what indices count, always in coordinates of the input without padding:

        "plane"    (d H + h) W + w: within the plane, as PyTorch
        "tensor"   position in the whole (N, C, D, H, W) tensor, row-major, as ONNX
        "column"   as "tensor", but the plane column-major: d + D (h + H w) (ONNX's storage_order=1)
        "nhwc"     ((d H + h) W + w) C + c: within one image of (N, D, H, W, C), as TensorFlow's argmax

    Of equal values (-0.0 and 0.0 are equal) the first in row-major order of the window wins. `nan`
    "propagate": a window with a NaN gives NaN, and its index is that of the *last* NaN, as PyTorch;
    "ignore": NaN is left out, a window of nothing else gives -inf and the index of its first element.
    Windows of -inf or of the lowest integer give that value and a valid index.

    Element types: float64, float32, float16, bfloat16, int8, uint8, int16, int32, int64, bool.
    """

    return_indices: bool = False
    index: str = "plane"
    nan: str = "propagate"

    name: ClassVar[str] = "max_pool"
    unmoved: ClassVar[bool] = True
    from_onnx: ClassVar[Mapping[str, Decoder]] = {"MaxPool": decode_max_pool}

    def forwarded(self, inputs: Sequence[TensorType | None]) -> int | None:
        return super().forwarded(inputs) if self.nan != "ignore" else None

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Op:
        return replace(super().part(box, inputs), index="plane")  # type: ignore[type-var]

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        (x,), (y, *_) = self.arranged(inputs), self.infer(*inputs)
        index = self.index if self.return_indices else ""
        reduction = MAXIMUM if self.largest else MINIMUM
        pool = Pool(reduction, self.geometry(x.shape), self.channels_last, nan=self.nan, index=index)
        yield from window_lowerings(pool, x, y, target)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from window_samples(cls)


@dataclass(frozen=True)
class MinPool(MaxPool):
    """Smallest value of each window: MaxPool with the order reversed (+inf where that has -inf)."""

    name: ClassVar[str] = "min_pool"
    largest: ClassVar[bool] = False
    from_onnx: ClassVar[Mapping[str, Decoder]] = {}


def check_rules(op: str, index: str, nan: str) -> None:
    """ArgumentError for an unknown index or NaN rule."""
    if index not in INDEX_RULES:
        raise ArgumentError(f"{op}: index rule '{index}' is not known (allowed: {', '.join(INDEX_RULES)})")
    if nan not in NAN_RULES:
        raise ArgumentError(f"{op}: nan '{nan}' is not known (allowed: {', '.join(NAN_RULES)})")


def extremum(taps: Array, largest: bool = True, nan: str = "propagate") -> Array:
    """Index of the extremum along the last axis: the first of equals, or the last NaN where NaN propagates."""
    ordered = comparable(taps)
    if not is_float(taps.dtype):
        winner: Array = ordered.argmax(-1) if largest else ordered.argmin(-1)
        return winner
    holes = np.isnan(ordered)
    filled = np.where(holes, np.asarray(-np.inf if largest else np.inf, ordered.dtype), ordered)
    winner = filled.argmax(-1) if largest else filled.argmin(-1)
    # A NaN must not stand for the infinity it was replaced by when a true one follows.
    plain = np.where(holes, False, filled == np.take_along_axis(filled, winner[..., None], -1))
    winner = np.where(plain.any(-1), plain.argmax(-1), 0)
    if nan == "propagate":
        last = taps.shape[-1] - 1 - holes[..., ::-1].argmax(-1)
        winner = np.where(holes.any(-1), last, winner)
    return winner


def lowest_where_nan(values: Array, largest: bool = True) -> Array:
    """Values with NaN replaced by the identity of the extremum: -inf for the largest, inf for the smallest."""
    if not is_float(values.dtype):
        return values
    return np.where(np.isnan(values), -np.inf if largest else np.inf, values).astype(values.dtype)


def convert_indices(plane: Array, shape: Sequence[int], rule: str) -> Array:
    """Indices within the plane, of shape (N, C, *out), by another rule; `shape` is the input's (N, C, *spatial)."""
    images, channels = shape[:2]
    spatial = tuple(shape[2:])
    size = math.prod(spatial)
    if rule == "plane":
        return plane
    channel = np.arange(channels).reshape(-1, *(1,) * len(spatial))
    if rule == "nhwc":
        return plane * channels + channel
    if rule == "column":
        where = np.unravel_index(plane, spatial)
        plane = np.ravel_multi_index(where[::-1], spatial[::-1])
    base = (np.arange(images).reshape(-1, 1) * channels + np.arange(channels)) * size
    whole: Array = plane + base.reshape(images, channels, *(1,) * len(spatial))
    return whole
