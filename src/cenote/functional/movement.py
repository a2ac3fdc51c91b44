"""Elements in another order, shape or number, on arrays of any element type, named and defaulted as torch.

Results are new arrays, dense and row-major, never views. out: an array to write to; threads: None for all. Errors:
ShapeError for axes and sizes that do not fit, ArgumentError for arguments out of range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

from cenote.core.errors import ArgumentError, InputError, ShapeError
from cenote.core.types import TensorType
from cenote.functional.arguments import Operation, Types, as_tuple, choice, whole, whole_numbers
from cenote.functional.bound import Bound
from cenote.functional.dispatch import call
from cenote.functional.record import public
from cenote.functional.scalars import number, number_as
from cenote.functional.types import A
from cenote.ops.base import Op
from cenote.ops.checks import int64s, normalize_axis, unique_axes
from cenote.ops.elementwise.where import Tile
from cenote.ops.movement.depth_space import DepthToSpace, SpaceToDepth
from cenote.ops.movement.pad import Pad
from cenote.ops.movement.parts import Concat, Split
from cenote.ops.movement.take import KEPT, Take
from cenote.ops.movement.transpose import Transpose


def _plain(op: Op, *types: TensorType) -> Operation:
    """An operator on the arrays as they are."""
    return Operation(op, tuple(x.shape for x in types), tuple(y.shape for y in op.infer(*types)))


def _shaped(op: Op, x: TensorType, shape: tuple[int, ...], result: tuple[int, ...]) -> Operation:
    """An operator on one array seen in another shape."""
    op.infer(TensorType(x.dtype, shape))
    return Operation(op, (shape,), (result,))


# ---- axes -----------------------------------------------------------------------------------------------------------


@public
def permute(input: A, dims: Sequence[int], *, out: A | None = None, threads: int | None = None) -> A:
    """Axis i of the result is axis dims[i] of input."""
    return cast(A, call(parse_permute, (input,), ("permute", as_tuple(dims)), out, threads))


def parse_permute(types: Types, where: str, dims: tuple[int, ...]) -> Operation:
    """A transposition."""
    return _plain(Transpose(whole_numbers(where, "dims", dims)), *types)


@public
def transpose(input: A, dim0: int, dim1: int, *, out: A | None = None, threads: int | None = None) -> A:
    """Two axes exchanged."""
    return cast(A, call(parse_transpose, (input,), ("transpose", dim0, dim1), out, threads))


def parse_transpose(types: Types, where: str, dim0: Any, dim1: Any) -> Operation:
    """A transposition of two axes; an array without axes has one for this."""
    rank = max(types[0].rank, 1)
    a, b = (normalize_axis(where, whole(where, n, d), rank) for n, d in (("dim0", dim0), ("dim1", dim1)))
    order = list(range(types[0].rank))
    if order:
        order[a], order[b] = b, a
    return _plain(Transpose(tuple(order)), *types)


@public
def flip(input: A, dims: Any, *, out: A | None = None, threads: int | None = None) -> A:
    """Axes reversed."""
    return cast(A, call(parse_flip, (input,), ("flip", dims), out, threads))


def parse_flip(types: Types, where: str, dims: Any) -> Operation:
    """Reversed axes."""
    axes = unique_axes(where, whole_numbers(where, "dims", dims), types[0].rank)
    return _plain(Take(tuple(("flip", 0) if axis in axes else KEPT for axis in range(types[0].rank))), *types)


@public
def roll(input: A, shifts: Any, dims: Any = None, *, out: A | None = None, threads: int | None = None) -> A:
    """Elements moved on by `shifts` along `dims`, those that leave come in again at the begin; without dims along all
    elements in a row."""
    return cast(A, call(parse_roll, (input,), ("roll", shifts, dims), out, threads))


def parse_roll(types: Types, where: str, shifts: Any, dims: Any) -> Operation:
    """Rolled axes."""
    (x,), amounts = types, whole_numbers(where, "shifts", shifts)
    if dims is None or (isinstance(dims, list | tuple) and not dims):
        if len(amounts) != 1:
            raise ArgumentError(f"{where}: {len(amounts)} shifts need as many dims")
        return _shaped(Take((("roll", amounts[0]),)), x, (x.size,), x.shape)
    axes = [normalize_axis(where, axis, x.rank) for axis in whole_numbers(where, "dims", dims)]
    if len(axes) != len(amounts):
        raise ArgumentError(f"{where}: {len(amounts)} shifts for {len(axes)} dims; they must be as many")
    total = [0] * x.rank
    for axis, amount in zip(axes, amounts, strict=True):
        total[axis] += amount
    return _plain(Take(tuple(("roll", amount) if amount else KEPT for amount in total)), x)


@public
def tile(input: A, dims: Sequence[int], *, out: A | None = None, threads: int | None = None) -> A:
    """The whole repeated along each axis; the shorter of dims and the axes gets ones in front."""
    return cast(A, call(parse_tile, (input,), ("tile", as_tuple(dims)), out, threads))


def parse_tile(types: Types, where: str, dims: Any) -> Operation:
    """Repeats of the whole."""
    (x,), counts = types, whole_numbers(where, "dims", dims)
    rank = max(x.rank, len(counts))
    shape = (1,) * (rank - x.rank) + x.shape
    op = Bound(Tile(), {1: int64s((1,) * (rank - len(counts)) + counts)})
    (made,) = op.infer(TensorType(x.dtype, shape))
    return Operation(op, (shape,), (made.shape,))


@public
def repeat_interleave(
    input: A, repeats: int, dim: int | None = None, *, out: A | None = None, threads: int | None = None
) -> A:
    """Each element (or slice along dim) `repeats` times in a row; without dim of all elements in a row. Numbers of
    repeats that differ are not supported."""
    return cast(A, call(parse_repeat, (input,), ("repeat_interleave", repeats, dim), out, threads))


def parse_repeat(types: Types, where: str, repeats: Any, dim: Any) -> Operation:
    """Repeats of each element."""
    (x,), count = types, whole(where, "repeats", repeats, 0)
    if dim is None:
        return _shaped(Take((("repeat", count),)), x, (x.size,), (x.size * count,))
    axis = normalize_axis(where, whole(where, "dim", dim), max(x.rank, 1))
    if not x.rank:
        return _shaped(Take((("repeat", count),)), x, (1,), (count,))
    return _plain(Take(tuple(("repeat", count) if a == axis else KEPT for a in range(x.rank))), x)


# ---- parts ----------------------------------------------------------------------------------------------------------


@public
def cat(tensors: Sequence[A], dim: int = 0, *, out: A | None = None, threads: int | None = None) -> A:
    """Arrays of one type one behind the other along an axis. Arrays of shape (0,) are left out, as torch has it."""
    arrays = _several("cat", tensors)
    kept = [x for x in arrays if getattr(x, "shape", ()) != (0,)] or arrays[:1]
    return cast(A, call(parse_cat, tuple(kept), ("cat", dim), out, threads))


def parse_cat(types: Types, where: str, dim: Any) -> Operation:
    """A concatenation."""
    if not types[0].rank:
        raise ShapeError(f"{where}: arrays without axes cannot be joined; use stack")
    return _plain(Concat(whole(where, "dim", dim)), *types)


@public
def stack(tensors: Sequence[A], dim: int = 0, *, out: A | None = None, threads: int | None = None) -> A:
    """Arrays of one type and shape side by side along a new axis."""
    return cast(A, call(parse_stack, tuple(_several("stack", tensors)), ("stack", dim), out, threads))


def parse_stack(types: Types, where: str, dim: Any) -> Operation:
    """A concatenation along a new axis."""
    if any(x.shape != types[0].shape for x in types):
        raise ShapeError(f"{where}: shapes {', '.join(str(list(x.shape)) for x in types)} differ")
    axis = normalize_axis(where, whole(where, "dim", dim), types[0].rank + 1)
    shape = (*types[0].shape[:axis], 1, *types[0].shape[axis:])
    (made,) = Concat(axis).infer(*(TensorType(x.dtype, shape) for x in types))
    return Operation(Concat(axis), (shape,) * len(types), (made.shape,))


def _several(where: str, tensors: Any) -> list[Any]:
    if not isinstance(tensors, list | tuple) or not tensors:
        raise InputError(f"{where}: tensors must be a list of at least one array")
    return list(tensors)


@public
def split(
    tensor: A, split_size_or_sections: Any, dim: int = 0, *, threads: int | None = None
) -> tuple[A, ...]:
    """Consecutive parts along an axis: of so many each, the last perhaps of fewer, or of the given numbers."""
    made = call(parse_split, (tensor,), ("split", split_size_or_sections, dim), None, threads)
    return made if isinstance(made, tuple) else (made,)


def parse_split(types: Types, where: str, sections: Any, dim: Any) -> Operation:
    """Parts of an axis."""
    (x,), axis = types, normalize_axis(where, whole(where, "dim", dim), types[0].rank)
    extent = x.shape[axis]
    if isinstance(sections, list | tuple):
        sizes = whole_numbers(where, "split_size_or_sections", sections)
    else:
        size = whole(where, "split_size_or_sections", sections, 0)
        if not size and extent:
            raise ArgumentError(f"{where}: parts of 0 elements do not make up an axis of {extent}")
        count = max(1, -(-extent // size)) if size else 1
        sizes = (size,) * (count - 1) + (extent - size * (count - 1),)
    return _plain(Bound(Split(len(sizes), axis), {1: int64s(sizes)}), x)


# ---- channels and space ---------------------------------------------------------------------------------------------


@public
def pixel_shuffle(input: A, upscale_factor: int, *, out: A | None = None, threads: int | None = None) -> A:
    """(*, C r², H, W) to (*, C, H r, W r)."""
    return cast(A, call(parse_pixels, (input,), ("pixel_shuffle", upscale_factor), out, threads))


@public
def pixel_unshuffle(
    input: A, downscale_factor: int, *, out: A | None = None, threads: int | None = None
) -> A:
    """(*, C, H r, W r) to (*, C r², H, W): the inverse of pixel_shuffle."""
    return cast(A, call(parse_pixels, (input,), ("pixel_unshuffle", downscale_factor), out, threads))


def parse_pixels(types: Types, where: str, factor: Any) -> Operation:
    """Channels to pixels, or back."""
    (x,) = types
    if x.rank < 3:
        raise ShapeError(f"{where}: expects at least 3 axes (*, C, H, W), got {x}")
    block = whole(where, "upscale_factor" if where == "pixel_shuffle" else "downscale_factor", factor, 1)
    op: Op = (DepthToSpace if where == "pixel_shuffle" else SpaceToDepth)(block, "CRD")
    shape = (math.prod(x.shape[:-3]), *x.shape[-3:])
    (made,) = op.infer(TensorType(x.dtype, shape))
    return Operation(op, (shape,), ((*x.shape[:-3], *made.shape[1:]),))


@public
def channel_shuffle(input: A, groups: int, *, out: A | None = None, threads: int | None = None) -> A:
    """(N, C, *): channels of `groups` groups taken in turn from each."""
    return cast(A, call(parse_channels, (input,), ("channel_shuffle", groups), out, threads))


def parse_channels(types: Types, where: str, groups: Any) -> Operation:
    """Groups of channels and channels of groups exchanged."""
    (x,), count = types, whole(where, "groups", groups, 1)
    if x.rank < 3:
        raise ShapeError(f"{where}: expects at least 3 axes (N, C, *), got {x}")
    if x.shape[1] % count:
        raise ShapeError(f"{where}: {x.shape[1]} channels of {x} are no multiple of {count} groups")
    shape = (x.shape[0], count, x.shape[1] // count, math.prod(x.shape[2:]))
    return _shaped(Transpose((0, 2, 1, 3)), x, shape, x.shape)


# ---- borders --------------------------------------------------------------------------------------------------------

_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@public
def pad(
    input: A, pad: Sequence[int], mode: str = "constant", value: float | None = None, *,
    out: A | None = None, threads: int | None = None,
) -> A:  # fmt: skip
    """Borders around the last axes: (begin, end) of the last axis, then of the one before, and so on; negative ones
    crop. Modes: "constant" (of `value`, by default 0), "reflect" (without the edge; narrower than the axis),
    "replicate" (the edge), "circular" (at most the axis)."""
    return cast(A, call(parse_pad, (input,), ("pad", as_tuple(pad), mode, value), out, threads))


def parse_pad(types: Types, where: str, amounts: Any, mode: Any, value: Any) -> Operation:
    """Borders."""
    (x,), flat = types, whole_numbers(where, "pad", amounts)
    kind = _MODES[choice(where, "mode", mode, tuple(_MODES))]
    if len(flat) % 2 or len(flat) > 2 * x.rank:
        raise ArgumentError(
            f"{where}: pad has {len(flat)} numbers; two per axis, of at most {x.rank} axes, are needed"
        )
    pairs = [(flat[i], flat[i + 1]) for i in range(0, len(flat), 2)][::-1]
    pads = ((0, 0),) * (x.rank - len(pairs)) + tuple(pairs)
    for extent, pair in zip(x.shape, pads, strict=True):
        most = extent - 1 if mode == "reflect" else extent
        if mode in ("reflect", "circular") and max(pair) > max(most, 0):
            raise ArgumentError(
                f"{where}: pad {pair} in mode {mode} is wider than an axis of {extent} allows ({most})"
            )
    if mode != "constant":
        if value is not None:
            raise ArgumentError(f"{where}: value is for mode constant only, mode is {mode}")
        return _plain(Pad(pads, kind), x)
    if value is not None:
        number_as(where, "value", value, x.dtype)
    return _plain(Pad(pads, kind, None if value is None else number(where, "value", value)), x)
