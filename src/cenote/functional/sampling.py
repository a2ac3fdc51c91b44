"""Images resized, read at given places, cut into windows and put together again, named and defaulted as torch.

out: an array to write to; threads: None for all. Errors: ShapeError for shapes that do not fit each other,
DTypeError and UnsupportedError for element types, ArgumentError for arguments out of range.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from cenote.core.errors import ArgumentError, ShapeError, shown
from cenote.core.types import TensorType, is_float
from cenote.functional.arguments import (
    Operation,
    Types,
    as_tuple,
    choice,
    flag,
    given_array,
    numbers,
    real,
    whole_numbers,
)
from cenote.functional.bound import BoundOperator
from cenote.functional.dispatch import call
from cenote.functional.record import public
from cenote.functional.types import A, Numbers
from cenote.ops.base import Op
from cenote.ops.checks import int64s
from cenote.ops.conv.col2im import Col2Im
from cenote.ops.conv.deform_conv import DeformConv
from cenote.ops.movement.grid_sample import AffineGrid, GridSample
from cenote.ops.movement.resize import Resize
from cenote.ops.movement.unfold import Unfold
from cenote.ops.pool.adaptive import AdaptiveAveragePool

# The number of spatial axes of each mode; None: any of 1 to 3.
_RANKS = {
    "nearest": None,
    "nearest-exact": None,
    "area": None,
    "linear": 1,
    "bilinear": 2,
    "bicubic": 2,
    "trilinear": 3,
}
_FILTERS = ("linear", "bilinear", "bicubic", "trilinear")


# ---- resizing -------------------------------------------------------------------------------------------------------


@public
def interpolate(
    input: A, size: Numbers | None = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None, antialias: bool = False, *,
    out: A | None = None, threads: int | None = None,
) -> A:  # fmt: skip
    """(N, C, *spatial) resized to `size`, or by `scale_factor` (sizes rounded down).

    size, scale_factor      one of them: a number or one per spatial axis
    mode                    "nearest" (rounds places down), "nearest-exact" (the nearest pixel's centre), "area"
                            (means of adaptive windows), "linear" (1 axis), "bilinear", "bicubic" (2 axes),
                            "trilinear" (3 axes)
    align_corners           the centres of the corner pixels, not their outer edges, lie on each other; filters only
    recompute_scale_factor  places by the sizes' ratio instead of scale_factor itself
    antialias               filters as wide as the reduction; "bilinear" and "bicubic"

    Floats of any width and, for "nearest" and "nearest-exact", any type; filters take uint8 too and round what floats
    would give (PyTorch's bicubic filter of bytes is up to 14 off that). Places are decided in float32, by PyTorch's
    formulas (filters of float64: in float64).
    """
    said = (size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    arguments = ("interpolate", *map(as_tuple, said))
    if isinstance(mode, str) and mode in _FILTERS:
        array, restore = given_array("interpolate", "input", input)
        if array.dtype == np.uint8:
            wide = call(parse_interpolate, (array.astype(np.float32),), arguments, None, threads)
            return _rounded(wide, restore, out)
    return cast(A, call(parse_interpolate, (input,), arguments, out, threads))


def _rounded(wide: Any, restore: Any, out: Any) -> Any:
    """Floats as uint8; into `out` if there is one."""
    made = np.clip(np.rint(wide), 0, 255).astype(np.uint8)
    if out is not None:
        return call(_parse_same, (made,), ("interpolate",), out, 1)
    return restore(made)


def _parse_same(types: Types, where: str) -> Operation:
    """A copy."""
    op = Resize("nearest", sizes=types[0].shape)
    return Operation(op, (types[0].shape,), (types[0].shape,))


def parse_interpolate(
    types: Types, where: str, size: object, scale_factor: object, mode: object, align_corners: object,
    recompute: object, antialias: object,
) -> Operation:  # fmt: skip
    """A resizing."""
    (x,), word = types, choice(where, "mode", mode, tuple(_RANKS))
    rank = x.rank - 2
    if rank not in (1, 2, 3) or _RANKS[word] not in (None, rank):
        axes = f"{_RANKS[word]} spatial axes" if _RANKS[word] else "1 to 3 spatial axes"
        raise ShapeError(f"{where}: expected input (N, C, *spatial) with {axes} for mode {word!r}, got {x}")
    if align_corners is not None and word not in _FILTERS:
        raise ArgumentError(
            f"{where}: align_corners is for the modes {', '.join(_FILTERS)}, mode is {word!r}"
        )
    smooth = flag(where, "antialias", antialias)
    if smooth and word not in ("bilinear", "bicubic"):
        raise ArgumentError(f"{where}: antialias is for the modes bilinear and bicubic, mode is {word!r}")
    sizes, scales = _sizes(where, x, size, scale_factor, recompute)
    if min(x.shape[2:]) < 1 or min(sizes) < 1:
        raise ShapeError(f"{where}: input and output sizes must be greater than 0, got {x} to {list(sizes)}")
    if word == "area":
        return _resizing(AdaptiveAveragePool(sizes), x)
    corners = align_corners is not None and flag(where, "align_corners", align_corners)
    return _resizing(_resize(word, corners, smooth, x, sizes, scales), x)


def _resizing(op: Op, x: TensorType) -> Operation:
    return Operation(op, (x.shape,), tuple(y.shape for y in op.infer(x)))


def _resize(
    word: str, corners: bool, smooth: bool, x: TensorType, sizes: tuple[int, ...], scales: tuple[float, ...]
) -> Resize:
    axes = tuple(range(2, x.rank))
    if word.startswith("nearest"):
        where = "tf_half_pixel_for_nn" if word == "nearest-exact" else "asymmetric"
        return Resize("nearest", where, "floor", scales or None, sizes, axes, by_step=True)
    kind = "cubic" if word == "bicubic" else "linear"
    if (
        smooth
    ):  # PyTorch's antialiased filters take the corners' scale, but places as if corners were not aligned
        if corners:
            pairs = zip(x.shape[2:], sizes, strict=True)
            scales = tuple((to - 1) / (had - 1) if had > 1 and to > 1 else math.inf for had, to in pairs)
        return Resize(
            kind,
            scales=scales or None,
            sizes=sizes,
            axes=axes,
            cubic=-0.5,
            antialias=True,
            exclude_outside=True,
            by_step=True,
        )
    if corners:
        return Resize(kind, "align_corners", sizes=sizes, axes=axes, by_step=True)
    if scales and kind == "linear":  # an axis that keeps its size is kept, whatever the scale
        each = zip(x.shape[2:], sizes, scales, strict=True)
        scales = tuple(1.0 if had == to else scale for had, to, scale in each)
    return Resize(kind, scales=scales or None, sizes=sizes, axes=axes, by_step=True)


def _sizes(
    where: str, x: TensorType, size: object, scale_factor: object, recompute: object
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The spatial extents of the result, and the scales where they say the places."""
    rank, exact = x.rank - 2, recompute is not None and flag(where, "recompute_scale_factor", recompute)
    if (size is None) == (scale_factor is None):
        given = "neither" if size is None else "both"
        raise ArgumentError(f"{where}: needs either size or scale_factor, got {given}")
    if size is not None:
        if exact:
            raise ArgumentError(f"{where}: recompute_scale_factor needs scale_factor, got size")
        if isinstance(size, list | tuple) and len(size) != rank:
            raise ArgumentError(
                f"{where}: size {shown(size)} must have {rank} numbers, one per spatial axis of {x}"
            )
        return numbers(where, "size", size, rank, 1), ()
    factors = scale_factor if isinstance(scale_factor, list | tuple) else (scale_factor,) * rank
    if len(factors) != rank:
        raise ArgumentError(
            f"{where}: scale_factor {shown(scale_factor)} must have {rank} numbers, one per spatial axis of {x}"
        )
    scales = tuple(real(where, "scale_factor", factor) for factor in factors)
    if not all(0 < scale < math.inf for scale in scales):
        raise ArgumentError(f"{where}: scale_factor {shown(scale_factor)} must be positive and finite")
    made = [extent * scale for extent, scale in zip(x.shape[2:], scales, strict=True)]
    if not all(extent < 2**62 for extent in made):
        raise ArgumentError(
            f"{where}: scale_factor {shown(scale_factor)} of {x} gives more pixels than there can be"
        )
    return tuple(math.floor(extent) for extent in made), (() if exact else scales)


# ---- reading at places ----------------------------------------------------------------------------------------------

_GRID_MODES = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}


@public
def grid_sample(
    input: A, grid: A, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None, *,
    out: A | None = None, threads: int | None = None,
) -> A:  # fmt: skip
    """input (N, C, *spatial) of 2 or 3 spatial axes read at the places grid (N, *out, 2 or 3): (N, C, *out).

    grid           places, the last axis first, from -1 to 1, of the input's float type
    mode           "bilinear" (for volumes trilinear), "nearest" (halves to even), "bicubic" (2 axes)
    padding_mode   beyond the image: "zeros", "border" (its edge), "reflection" (mirrored at its edge)
    align_corners  -1 and 1 are the centres of the corner pixels, else (by default) their outer edges

    A place that is NaN is far below.
    """
    arguments = ("grid_sample", mode, padding_mode, align_corners)
    return cast(A, call(parse_grid_sample, (input, grid), arguments, out, threads))


def parse_grid_sample(
    types: Types, where: str, mode: object, padding: object, align_corners: object
) -> Operation:
    """An image read at places."""
    x, grid = types
    word = choice(where, "mode", mode, tuple(_GRID_MODES))
    edge = choice(where, "padding_mode", padding, ("zeros", "border", "reflection"))
    corners = align_corners is not None and flag(where, "align_corners", align_corners)
    if x.rank not in (4, 5) or (word == "bicubic" and x.rank != 4):
        axes = "4" if word == "bicubic" else "4 or 5"
        raise ShapeError(
            f"{where}: expected input of {axes} axes (N, C, *spatial) for mode {word!r}, got {x}"
        )
    if x.dtype != grid.dtype:
        raise ArgumentError(f"{where}: input and grid must have one type, got {x} and {grid}")
    if 0 in x.shape[1:]:
        raise ShapeError(f"{where}: expected input with channels and pixels, got {x}")
    op = GridSample(_GRID_MODES[word], edge, corners)
    return Operation(op, (x.shape, grid.shape), tuple(y.shape for y in op.infer(x, grid)))


@public
def affine_grid(
    theta: A,
    size: Any,
    align_corners: bool | None = None,
    *,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """The grid (N, *spatial, 2 or 3) for grid_sample of affine maps theta (N, 2, 3) or (N, 3, 4).

    size           (N, C, *spatial) of the image that grid_sample will give
    align_corners  as in grid_sample
    """
    return cast(
        A, call(parse_affine_grid, (theta,), ("affine_grid", as_tuple(size), align_corners), out, threads)
    )


def parse_affine_grid(types: Types, where: str, size: object, align_corners: object) -> Operation:
    """The places of an affine map."""
    (theta,), extents = types, whole_numbers(where, "size", size)
    corners = align_corners is not None and flag(where, "align_corners", align_corners)
    if len(extents) not in (4, 5) or min(extents) < 1:
        raise ArgumentError(
            f"{where}: size must be 4 or 5 positive numbers (N, C, *spatial), got {shown(extents)}"
        )
    op = BoundOperator(AffineGrid(corners), {1: int64s(extents)})
    return Operation(op, (theta.shape,), tuple(y.shape for y in op.infer(theta)))


# ---- windows --------------------------------------------------------------------------------------------------------


@public
def unfold(
    input: A, kernel_size: Numbers, dilation: Numbers = 1, padding: Numbers = 0, stride: Numbers = 1, *,
    out: A | None = None, threads: int | None = None,
) -> A:  # fmt: skip
    """(N, C, H, W) or (C, H, W) to (N, C kh kw, windows) or without N: what each tap of a sliding window reads."""
    arguments = ("unfold", *map(as_tuple, (kernel_size, dilation, padding, stride)))
    return cast(A, call(parse_unfold, (input,), arguments, out, threads))


def parse_unfold(
    types: Types, where: str, kernel_size: object, dilation: object, padding: object, stride: object
) -> Operation:
    """Windows as columns."""
    (x,) = types
    if x.rank not in (3, 4) or 0 in x.shape[-3:]:
        raise ShapeError(f"{where}: expected input (N, C, H, W) or (C, H, W), only N may be 0, got {x}")
    window = numbers(where, "kernel_size", kernel_size, 2, 1)
    op = Unfold(window, *_steps(where, stride, padding, dilation))
    shape = x.shape if x.rank == 4 else (1, *x.shape)
    batched = TensorType(x.dtype, shape)
    if min(op.geometry(batched)[3]) < 1:
        raise ShapeError(
            f"{where}: kernel_size {shown(kernel_size)} does not fit {x} with padding {shown(padding)}"
        )
    (y,) = op.infer(batched)
    return Operation(op, (shape,), (y.shape[4 - x.rank :],))


@public
def fold(
    input: A, output_size: Numbers, kernel_size: Numbers, dilation: Numbers = 1, padding: Numbers = 0,
    stride: Numbers = 1, *, out: A | None = None, threads: int | None = None,
) -> A:  # fmt: skip
    """Columns (N, C kh kw, windows) or without N added up to images (N, C, *output_size): the transpose of unfold."""
    arguments = ("fold", *map(as_tuple, (output_size, kernel_size, dilation, padding, stride)))
    return cast(A, call(parse_fold, (input,), arguments, out, threads))


def parse_fold(
    types: Types,
    where: str,
    output_size: object,
    kernel_size: object,
    dilation: object,
    padding: object,
    stride: object,
) -> Operation:
    """Columns added up."""
    (x,) = types
    if x.rank not in (2, 3) or 0 in x.shape[-2:]:
        raise ShapeError(
            f"{where}: expected input (N, C kh kw, windows) or without N, only N may be 0, got {x}"
        )
    image = numbers(where, "output_size", output_size, 2, 1)
    window = numbers(where, "kernel_size", kernel_size, 2, 1)
    op = BoundOperator(
        Col2Im(*_steps(where, stride, padding, dilation)), {1: int64s(image), 2: int64s(window)}
    )
    shape = x.shape if x.rank == 3 else (1, *x.shape)
    (y,) = op.infer(TensorType(x.dtype, shape))
    return Operation(op, (shape,), (y.shape[3 - x.rank :],))


def _steps(
    where: str, stride: object, padding: object, dilation: object
) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...], tuple[int, ...]]:
    """Strides, pads and dilations of two axes."""
    pads = tuple((pad, pad) for pad in numbers(where, "padding", padding, 2, 0))
    return numbers(where, "stride", stride, 2, 1), pads, numbers(where, "dilation", dilation, 2, 1)


@public
def deform_conv2d(
    input: A, offset: A, weight: A, bias: A | None = None, stride: Numbers = 1, padding: Numbers = 0,
    dilation: Numbers = 1, mask: A | None = None, *, out: A | None = None, threads: int | None = None,
) -> A:  # fmt: skip
    """Convolution whose taps are moved by offsets and weighted by a mask, as torchvision.ops.deform_conv2d.

    input   (N, C, H, W)
    offset  (N, 2 parts kh kw, out_h, out_w): y, x of each tap; each of the parts moves C / parts channels
    weight  (filters, C / groups, kh, kw)
    bias    (filters,) or None
    mask    (N, parts kh kw, out_h, out_w) or None
    """
    arrays = [input, weight, offset, *(x for x in (bias, mask) if x is not None)]
    said = map(as_tuple, (stride, padding, dilation))
    arguments = ("deform_conv2d", *said, bias is not None, mask is not None)
    return cast(A, call(parse_deform_conv, tuple(arrays), arguments, out, threads))


def parse_deform_conv(
    types: Types,
    where: str,
    stride: object,
    padding: object,
    dilation: object,
    has_bias: bool,
    has_mask: bool,
) -> Operation:
    """A convolution with moved taps."""
    x, weight, offset = types[:3]
    if x.rank != 4 or weight.rank != 4 or offset.rank != 4 or not is_float(x.dtype):
        raise ShapeError(
            f"{where}: expected float input (N, C, H, W), weight and offset of 4 axes, got {x}, {weight}, {offset}"
        )
    taps = 2 * math.prod(weight.shape[2:])
    if not taps or not weight.shape[1] or x.shape[1] % weight.shape[1] or not x.shape[1]:
        raise ShapeError(f"{where}: weight {weight} must be (filters, C / groups, kh, kw) for input {x}")
    if not offset.shape[1] or offset.shape[1] % taps:
        raise ShapeError(
            f"{where}: offset {offset} must have a multiple of {taps} channels, 2 kh kw of {weight}"
        )
    parts = offset.shape[1] // taps
    if x.shape[1] % parts:
        raise ShapeError(
            f"{where}: offset {offset} moves {parts} parts of channels, which do not divide those of {x}"
        )
    op: Op = DeformConv(*_steps(where, stride, padding, dilation), x.shape[1] // weight.shape[1], parts)
    absent = [3] if has_mask and not has_bias else [] if has_mask else [4] if has_bias else [3, 4]
    if absent:
        op = BoundOperator(op, dict.fromkeys(absent))
    return Operation(op, tuple(t.shape for t in types), tuple(y.shape for y in op.infer(*types)))
