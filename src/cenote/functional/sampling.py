"""Images resized, read at given places, cut into windows and put together again, named and defaulted as torch.

out: an array to write to; threads: None for all. Errors: ShapeError for shapes that do not fit each other,
DTypeError and UnsupportedError for element types, ArgumentError for arguments out of range.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError, shown
from cenote.core.types import TensorType, is_float
from cenote.functional.arguments import Operation, as_tuple, choice, given_array, numbers, real, whole_numbers
from cenote.functional.kinds import Array, Given, Kind, Target, Threads
from cenote.functional.outputs import handed
from cenote.functional.record import composed, function
from cenote.functional.types import DLPack, Numbers
from cenote.ops.base import Op
from cenote.ops.bound import BoundOperator
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
_GRID_MODES = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
Extents = Annotated[Numbers, Kind("Numbers", key=as_tuple)]
Factors = Annotated[object, Kind("Any", key=as_tuple)]
Shape = Annotated[tuple[int, ...], Kind("Any", whole_numbers, as_tuple)]
ResizeMode = Annotated[str, Kind("str", partial(choice, allowed=tuple(_RANKS)))]
GridMode = Annotated[str, Kind("str", partial(choice, allowed=tuple(_GRID_MODES)))]
Edge = Annotated[str, Kind("str", partial(choice, allowed=("zeros", "border", "reflection")))]


# ---- resizing -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ResizeArguments:
    """The arguments of interpolate."""

    size: Extents | None = None
    scale_factor: Factors = None
    mode: ResizeMode = "nearest"
    align_corners: bool | None = None
    recompute_scale_factor: bool | None = None
    antialias: bool = False

    def operator(self, x: TensorType) -> Op:
        """The operator for an input of this type."""
        word, rank = self.mode, x.rank - 2
        if rank not in (1, 2, 3) or _RANKS[word] not in (None, rank):
            axes = f"{_RANKS[word]} spatial axes" if _RANKS[word] else "1 to 3 spatial axes"
            raise ShapeError(f"expected input (N, C, *spatial) with {axes} for mode {word!r}, got {x}")
        if self.align_corners is not None and word not in _FILTERS:
            raise ArgumentError(f"align_corners is for the modes {', '.join(_FILTERS)}, mode is {word!r}")
        if self.antialias and word not in ("bilinear", "bicubic"):
            raise ArgumentError(f"antialias is for the modes bilinear and bicubic, mode is {word!r}")
        sizes, scales = self.sizes(x)
        if min(x.shape[2:]) < 1 or min(sizes) < 1:
            raise ShapeError(f"input and output sizes must be greater than 0, got {x} to {list(sizes)}")
        return AdaptiveAveragePool(sizes) if word == "area" else self.resize(x, sizes, scales)

    def resize(self, x: TensorType, sizes: tuple[int, ...], scales: tuple[float, ...]) -> Resize:
        """A resizing to these extents, at places by these scales or, without, by the ratio of extents."""
        axes = tuple(range(2, x.rank))
        if self.mode.startswith("nearest"):
            places = "tf_half_pixel_for_nn" if self.mode == "nearest-exact" else "asymmetric"
            return Resize("nearest", places, "floor", scales or None, sizes, axes, by_step=True)
        kind = "cubic" if self.mode == "bicubic" else "linear"
        if self.antialias:
            # PyTorch's antialiased filters take the corners' scale, but places as if corners were not aligned.
            if self.align_corners:
                pairs = zip(x.shape[2:], sizes, strict=True)
                scales = tuple((to - 1) / (had - 1) if had > 1 and to > 1 else math.inf for had, to in pairs)
            filters = partial(Resize, cubic=-0.5, antialias=True, exclude_outside=True)
            return filters(kind, scales=scales or None, sizes=sizes, axes=axes, by_step=True)
        if self.align_corners:
            return Resize(kind, "align_corners", sizes=sizes, axes=axes, by_step=True)
        if scales and kind == "linear":  # an axis that keeps its size is kept, whatever the scale
            each = zip(x.shape[2:], sizes, scales, strict=True)
            scales = tuple(1.0 if had == to else scale for had, to, scale in each)
        return Resize(kind, scales=scales or None, sizes=sizes, axes=axes, by_step=True)

    def sizes(self, x: TensorType) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """The spatial extents of the result, and the scales where they say the places."""
        rank, size, factor = x.rank - 2, self.size, self.scale_factor
        if (size is None) == (factor is None):
            given = "neither" if size is None else "both"
            raise ArgumentError(f"needs either size or scale_factor, got {given}")
        if size is not None:
            if self.recompute_scale_factor:
                raise ArgumentError("recompute_scale_factor needs scale_factor, got size")
            if isinstance(size, list | tuple) and len(size) != rank:
                raise ArgumentError(
                    f"size {shown(size)} must have {rank} numbers, one per spatial axis of {x}"
                )
            return numbers("size", size, rank, 1), ()
        factors = factor if isinstance(factor, list | tuple) else (factor,) * rank
        if len(factors) != rank:
            raise ArgumentError(
                f"scale_factor {shown(factor)} must have {rank} numbers, one per spatial axis of {x}"
            )
        scales = tuple(real("scale_factor", each) for each in factors)
        if not all(0 < scale < math.inf for scale in scales):
            raise ArgumentError(f"scale_factor {shown(factor)} must be positive and finite")
        made = [extent * scale for extent, scale in zip(x.shape[2:], scales, strict=True)]
        if not all(extent < 2**62 for extent in made):
            raise ArgumentError(f"scale_factor {shown(factor)} of {x} gives more pixels than there can be")
        return tuple(math.floor(extent) for extent in made), () if self.recompute_scale_factor else scales


@function()
def _interpolate(input: Array, resizing: ResizeArguments) -> Op:
    return resizing.operator(input)


@composed()
def interpolate(input: Given, resizing: ResizeArguments, *, out: Target, threads: Threads) -> DLPack:
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
    if resizing.mode in _FILTERS:
        array, restore = given_array("input", input)
        if array.dtype == np.uint8:
            wide = _interpolate(array.astype(np.float32), **vars(resizing), threads=threads)
            return handed(np.clip(np.rint(wide), 0, 255).astype(np.uint8), out, restore)
    return _interpolate(input, **vars(resizing), out=out, threads=threads)


# ---- reading at places ----------------------------------------------------------------------------------------------


@function()
def grid_sample(
    input: Array,
    grid: Array,
    mode: GridMode = "bilinear",
    padding_mode: Edge = "zeros",
    align_corners: bool | None = None,
) -> Op:
    """input (N, C, *spatial) of 2 or 3 spatial axes read at the places grid (N, *out, 2 or 3): (N, C, *out).

    grid           places, the last axis first, from -1 to 1, of the input's float type
    mode           "bilinear" (for volumes trilinear), "nearest" (halves to even), "bicubic" (2 axes)
    padding_mode   beyond the image: "zeros", "border" (its edge), "reflection" (mirrored at its edge)
    align_corners  -1 and 1 are the centres of the corner pixels, else (by default) their outer edges

    A place that is NaN is far below.
    """
    if input.rank not in (4, 5) or (mode == "bicubic" and input.rank != 4):
        axes = "4" if mode == "bicubic" else "4 or 5"
        raise ShapeError(f"expected input of {axes} axes (N, C, *spatial) for mode {mode!r}, got {input}")
    if input.dtype != grid.dtype:
        raise ArgumentError(f"input and grid must have one type, got {input} and {grid}")
    if 0 in input.shape[1:]:
        raise ShapeError(f"expected input with channels and pixels, got {input}")
    return GridSample(_GRID_MODES[mode], padding_mode, bool(align_corners))


@function()
def affine_grid(theta: Array, size: Shape, align_corners: bool | None = None) -> Op:
    """The grid (N, *spatial, 2 or 3) for grid_sample of affine maps theta (N, 2, 3) or (N, 3, 4).

    size           (N, C, *spatial) of the image that grid_sample will give
    align_corners  as in grid_sample
    """
    if len(size) not in (4, 5) or min(size) < 1:
        raise ArgumentError(f"size must be 4 or 5 positive numbers (N, C, *spatial), got {shown(size)}")
    return BoundOperator(AffineGrid(bool(align_corners)), {1: int64s(size)})


# ---- windows --------------------------------------------------------------------------------------------------------


def _steps(
    stride: Numbers, padding: Numbers, dilation: Numbers
) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...], tuple[int, ...]]:
    """Strides, pads and dilations of two axes."""
    pads = tuple((pad, pad) for pad in numbers("padding", padding, 2, 0))
    return numbers("stride", stride, 2, 1), pads, numbers("dilation", dilation, 2, 1)


@dataclass(frozen=True)
class Taps:
    """The arguments of a sliding window in the order of unfold."""

    kernel_size: Extents
    dilation: Extents = 1
    padding: Extents = 0
    stride: Extents = 1

    def window(self) -> tuple[int, ...]:
        """The taps of both axes."""
        return numbers("kernel_size", self.kernel_size, 2, 1)

    def steps(self) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...], tuple[int, ...]]:
        """Strides, pads and dilations of both axes."""
        return _steps(self.stride, self.padding, self.dilation)


def _batched(op: Op, x: TensorType, rank: int) -> Operation:
    """An operator on an array of so many axes, of which the first may be missing."""
    shape = x.shape if x.rank == rank else (1, *x.shape)
    (y,) = op.infer(TensorType(x.dtype, shape))
    return Operation(op, (shape,), (y.shape[rank - x.rank :],))


@function()
def unfold(input: Array, taps: Taps) -> Operation:
    """(N, C, H, W) or (C, H, W) to (N, C kh kw, windows) or without N: what each tap of a sliding window reads."""
    if input.rank not in (3, 4) or 0 in input.shape[-3:]:
        raise ShapeError(f"expected input (N, C, H, W) or (C, H, W), only N may be 0, got {input}")
    op = Unfold(taps.window(), *taps.steps())
    if min(op.geometry(TensorType(input.dtype, (1, *input.shape[-3:])))[3]) < 1:
        raise ShapeError(
            f"kernel_size {shown(taps.kernel_size)} does not fit {input} with padding {shown(taps.padding)}"
        )
    return _batched(op, input, 4)


@function()
def fold(input: Array, output_size: Extents, taps: Taps) -> Operation:
    """Columns (N, C kh kw, windows) or without N added up to images (N, C, *output_size): the transpose of unfold."""
    if input.rank not in (2, 3) or 0 in input.shape[-2:]:
        raise ShapeError(f"expected input (N, C kh kw, windows) or without N, only N may be 0, got {input}")
    image, window = numbers("output_size", output_size, 2, 1), taps.window()
    op = BoundOperator(Col2Im(*taps.steps()), {1: int64s(image), 2: int64s(window)})
    return _batched(op, input, 3)


@function(order=("input", "weight"))
def deform_conv2d(
    input: Array,
    offset: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Extents = 1,
    padding: Extents = 0,
    dilation: Extents = 1,
    mask: Array | None = None,
) -> Op:
    """Convolution whose taps are moved by offsets and weighted by a mask, as torchvision.ops.deform_conv2d.

    input   (N, C, H, W)
    offset  (N, 2 parts kh kw, out_h, out_w): y, x of each tap; each of the parts moves C / parts channels
    weight  (filters, C / groups, kh, kw)
    bias    (filters,) or None
    mask    (N, parts kh kw, out_h, out_w) or None
    """
    x = input
    if x.rank != 4 or weight.rank != 4 or offset.rank != 4 or not is_float(x.dtype):
        raise ShapeError(
            f"expected float input (N, C, H, W), weight and offset of 4 axes, got {x}, {weight}, {offset}"
        )
    taps = 2 * math.prod(weight.shape[2:])
    if not taps or not weight.shape[1] or x.shape[1] % weight.shape[1] or not x.shape[1]:
        raise ShapeError(f"weight {weight} must be (filters, C / groups, kh, kw) for input {x}")
    if not offset.shape[1] or offset.shape[1] % taps:
        raise ShapeError(f"offset {offset} must have a multiple of {taps} channels, 2 kh kw of {weight}")
    parts = offset.shape[1] // taps
    if x.shape[1] % parts:
        raise ShapeError(f"offset {offset} moves {parts} parts of channels, which do not divide those of {x}")
    op = DeformConv(*_steps(stride, padding, dilation), x.shape[1] // weight.shape[1], parts)
    absent = [place for place, given in ((3, bias), (4, mask)) if given is None]
    return BoundOperator(op, dict.fromkeys(absent)) if absent else op
