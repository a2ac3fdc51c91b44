"""Elements in another order, shape or number, on arrays of any element type, named and defaulted as torch.

Results are new arrays, dense and row-major, never views. out: an array to write to; threads: None for all. Errors:
ShapeError for axes and sizes that do not fit, ArgumentError for arguments out of range.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, Any

from cenote.core.errors import ArgumentError, InputError, ShapeError
from cenote.core.types import TensorType
from cenote.functional.arguments import HERE, Operation, as_tuple, choice, whole, whole_numbers
from cenote.functional.kinds import Array, ArraysKind, Count, Kind
from cenote.functional.record import function
from cenote.functional.scalars import number, number_as
from cenote.ops.base import Op
from cenote.ops.bound import BoundOperator
from cenote.ops.checks import int64s, normalize_axis, unique_axes
from cenote.ops.elementwise.where import TileArray
from cenote.ops.movement.depth_space import DepthToSpace, SpaceToDepth
from cenote.ops.movement.pad import Pad
from cenote.ops.movement.parts import Concat, Split
from cenote.ops.movement.take import KEPT, Take
from cenote.ops.movement.transpose import Transpose

Several = Annotated[tuple[int, ...], Kind("Sequence[int]", whole_numbers, as_tuple)]
Axes = Annotated[tuple[int, ...], Kind("Any", whole_numbers)]
Times = Annotated[int, Kind("int", partial(whole, low=0))]
Dims = Annotated[Any, Kind("Any")]
Arrays = Annotated[tuple[TensorType, ...], ArraysKind("Sequence[A]")]


def _shaped(op: Op, x: TensorType, shape: tuple[int, ...], result: tuple[int, ...]) -> Operation:
    """An operator on one array seen in another shape."""
    op.infer(TensorType(x.dtype, shape))
    return Operation(op, (shape,), (result,))


# ---- axes -----------------------------------------------------------------------------------------------------------


@function()
def permute(input: Array, dims: Several) -> Op:
    """Axis i of the result is axis dims[i] of input."""
    return Transpose(dims)


@function()
def transpose(input: Array, dim0: int, dim1: int) -> Op:
    """Two axes exchanged."""
    rank = max(input.rank, 1)  # an array without axes has one for this
    a, b = normalize_axis(HERE, dim0, rank), normalize_axis(HERE, dim1, rank)
    order = list(range(input.rank))
    if order:
        order[a], order[b] = b, a
    return Transpose(tuple(order))


@function()
def flip(input: Array, dims: Axes) -> Op:
    """Axes reversed."""
    axes = unique_axes(HERE, dims, input.rank)
    return Take(tuple(("flip", 0) if axis in axes else KEPT for axis in range(input.rank)))


@function()
def roll(input: Array, shifts: Axes, dims: Dims = None) -> Op | Operation:
    """Elements moved on by `shifts` along `dims`, those that leave come in again at the begin; without dims along all
    elements in a row."""
    if dims is None or (isinstance(dims, list | tuple) and not dims):
        if len(shifts) != 1:
            raise ArgumentError(f"{len(shifts)} shifts need as many dims")
        return _shaped(Take((("roll", shifts[0]),)), input, (input.size,), input.shape)
    axes = [normalize_axis(HERE, axis, input.rank) for axis in whole_numbers("dims", dims)]
    if len(axes) != len(shifts):
        raise ArgumentError(f"{len(shifts)} shifts for {len(axes)} dims; they must be as many")
    total = [0] * input.rank
    for axis, amount in zip(axes, shifts, strict=True):
        total[axis] += amount
    return Take(tuple(("roll", amount) if amount else KEPT for amount in total))


@function()
def tile(input: Array, dims: Several) -> Operation:
    """The whole repeated along each axis; the shorter of dims and the axes gets ones in front."""
    rank = max(input.rank, len(dims))
    shape = (1,) * (rank - input.rank) + input.shape
    op = BoundOperator(TileArray(), {1: int64s((1,) * (rank - len(dims)) + dims)})
    (made,) = op.infer(TensorType(input.dtype, shape))
    return Operation(op, (shape,), (made.shape,))


@function()
def repeat_interleave(input: Array, repeats: Times, dim: int | None = None) -> Op | Operation:
    """Each element (or slice along dim) `repeats` times in a row; without dim of all elements in a row. Numbers of
    repeats that differ are not supported."""
    if dim is None:
        return _shaped(Take((("repeat", repeats),)), input, (input.size,), (input.size * repeats,))
    axis = normalize_axis(HERE, dim, max(input.rank, 1))
    if not input.rank:
        return _shaped(Take((("repeat", repeats),)), input, (1,), (repeats,))
    return Take(tuple(("repeat", repeats) if a == axis else KEPT for a in range(input.rank)))


# ---- parts ----------------------------------------------------------------------------------------------------------


def _several(tensors: object) -> tuple[object, ...]:
    """The arrays of a list."""
    if not isinstance(tensors, list | tuple) or not tensors:
        raise InputError("tensors must be a list of at least one array")
    return tuple(tensors)


def _with_elements(tensors: object) -> tuple[object, ...]:
    """The arrays of a list but for those of shape (0,)."""
    arrays = _several(tensors)
    return tuple(x for x in arrays if getattr(x, "shape", ()) != (0,)) or arrays[:1]


@function(arrays=_with_elements)
def cat(tensors: Arrays, dim: int = 0) -> Op:
    """Arrays of one type one behind the other along an axis. Arrays of shape (0,) are left out, as torch has it."""
    if not tensors[0].rank:
        raise ShapeError("arrays without axes cannot be joined; use stack")
    return Concat(dim)


@function(arrays=_several)
def stack(tensors: Arrays, dim: int = 0) -> Operation:
    """Arrays of one type and shape side by side along a new axis."""
    given = tensors[0].shape
    if any(x.shape != given for x in tensors):
        raise ShapeError(f"shapes {', '.join(str(list(x.shape)) for x in tensors)} differ")
    op = Concat(normalize_axis(HERE, dim, len(given) + 1))
    shape = (*given[: op.axis], 1, *given[op.axis :])
    (made,) = op.infer(*(TensorType(x.dtype, shape) for x in tensors))
    return Operation(op, (shape,) * len(tensors), (made.shape,))


def _parts(result: Any) -> tuple[Any, ...]:
    """Several parts, or the only one, as a tuple."""
    return result if isinstance(result, tuple) else (result,)


@function(out="", returns="tuple[A, ...]", then=_parts)
def split(tensor: Array, split_size_or_sections: Dims, dim: int = 0) -> Op:
    """Consecutive parts along an axis: of so many each, the last perhaps of fewer, or of the given numbers."""
    axis, sections = normalize_axis(HERE, dim, tensor.rank), split_size_or_sections
    extent = tensor.shape[axis]
    if isinstance(sections, list | tuple):
        sizes = whole_numbers("split_size_or_sections", sections)
    else:
        size = whole("split_size_or_sections", sections, 0)
        if not size and extent:
            raise ArgumentError(f"parts of 0 elements do not make up an axis of {extent}")
        count = max(1, -(-extent // size)) if size else 1
        sizes = (size,) * (count - 1) + (extent - size * (count - 1),)
    return BoundOperator(Split(len(sizes), axis), {1: int64s(sizes)})


# ---- channels and space ---------------------------------------------------------------------------------------------


def _pixels(op: Op, x: TensorType) -> Operation:
    if x.rank < 3:
        raise ShapeError(f"expects at least 3 axes (*, C, H, W), got {x}")
    shape = (math.prod(x.shape[:-3]), *x.shape[-3:])
    (made,) = op.infer(TensorType(x.dtype, shape))
    return Operation(op, (shape,), ((*x.shape[:-3], *made.shape[1:]),))


@function()
def pixel_shuffle(input: Array, upscale_factor: Count) -> Operation:
    """(*, C r², H, W) to (*, C, H r, W r)."""
    return _pixels(DepthToSpace(upscale_factor, "CRD"), input)


@function()
def pixel_unshuffle(input: Array, downscale_factor: Count) -> Operation:
    """(*, C, H r, W r) to (*, C r², H, W): the inverse of pixel_shuffle."""
    return _pixels(SpaceToDepth(downscale_factor, "CRD"), input)


@function()
def channel_shuffle(input: Array, groups: Count) -> Operation:
    """(N, C, *): channels of `groups` groups taken in turn from each."""
    x = input
    if x.rank < 3:
        raise ShapeError(f"expects at least 3 axes (N, C, *), got {x}")
    if x.shape[1] % groups:
        raise ShapeError(f"{x.shape[1]} channels of {x} are no multiple of {groups} groups")
    shape = (x.shape[0], groups, x.shape[1] // groups, math.prod(x.shape[2:]))
    return _shaped(Transpose((0, 2, 1, 3)), x, shape, x.shape)


# ---- borders --------------------------------------------------------------------------------------------------------

_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
Border = Annotated[Any, Kind("float")]


@function()
def pad(input: Array, pad: Several, mode: str = "constant", value: Border | None = None) -> Op:
    """Borders around the last axes: (begin, end) of the last axis, then of the one before, and so on; negative ones
    crop. Modes: "constant" (of `value`, by default 0), "reflect" (without the edge; narrower than the axis),
    "replicate" (the edge), "circular" (at most the axis)."""
    kind = _MODES[choice("mode", mode, tuple(_MODES))]
    if len(pad) % 2 or len(pad) > 2 * input.rank:
        raise ArgumentError(
            f"pad has {len(pad)} numbers; two per axis, of at most {input.rank} axes, are needed"
        )
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)][::-1]
    pads = ((0, 0),) * (input.rank - len(pairs)) + tuple(pairs)
    for extent, pair in zip(input.shape, pads, strict=True):
        most = extent - 1 if mode == "reflect" else extent
        if mode in ("reflect", "circular") and max(pair) > max(most, 0):
            raise ArgumentError(
                f"pad {pair} in mode {mode} is wider than an axis of {extent} allows ({most})"
            )
    if value is None:
        return Pad(pads, kind)
    if mode != "constant":
        raise ArgumentError(f"value is for mode constant only, mode is {mode}")
    number_as("value", value, input.dtype)
    return Pad(pads, kind, number("value", value))
