"""Operations of frameworks that ONNX lacks, composed of ONNX's: for the readers of several formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from cenote.core.errors import ModelError, UnsupportedError
from cenote.frontends.builder import GraphBuilder
from cenote.frontends.strided_slice import TO_END, sliced

State = TypeVar("State")  # of a loop
MOST_ROUNDS = 1000  # of a loop that is unrolled


def unrolled(
    builder: GraphBuilder, state: State, condition: Callable[[State], Any], body: Callable[[State], State]
) -> State:
    """Return the state behind a loop: `body` of it as long as `condition` of it is a constant that holds.

    Raises UnsupportedError for a condition that is computed when the model runs, and for more than MOST_ROUNDS rounds.
    """
    for _ in range(MOST_ROUNDS + 1):
        holds = condition(state)
        decided = builder.known(holds) if isinstance(holds, str) else None
        if decided is None or decided.size != 1:
            raise UnsupportedError(
                "a loop whose condition is computed when the model runs is not supported"
                + _sizes_wanted(builder)
            )
        if not bool(decided.reshape(())):
            return state
        state = body(state)
    raise UnsupportedError(f"a loop of more than {MOST_ROUNDS:,} rounds is not supported")


def _sizes_wanted(builder: GraphBuilder) -> str:
    """Return what to do where the rounds follow from the sizes of inputs that are open: all but a first axis, which
    mostly is the batch, and once that did not help, all."""
    for declared in builder.inputs:
        shape = (None, None) if declared.shape is None else declared.shape
        open_axes = [axis for axis, size in enumerate(shape) if not isinstance(size, int)]
        if not open_axes:
            continue
        sizes = [
            ("100" if axis else "1") if axis in open_axes else str(size) for axis, size in enumerate(shape)
        ]
        wanted, python, shell = "all of them", sizes[0], sizes[0]
        if open_axes[0] == 0 and len(open_axes) > 1:
            wanted, python, shell = "these", "None", "?"
        return (
            f"; where it follows from the inputs' sizes, give {wanted}: "
            f"shapes={{'{declared.name}': ({','.join([python, *sizes[1:]])})}} "
            f"or --bounds '{declared.name}={','.join([shell, *sizes[1:]])}'"
        )
    return ""


def floor_division(builder: GraphBuilder, x: str, y: str, floats: bool, name: str) -> str:
    """Add x / y rounded down. Floats are rounded after the division, as in TensorFlow: 5 / 0.1 is 50 there, and 49 in
    Python. Integers: the remainder, which has the divisor's sign, is subtracted before the division."""
    if floats:
        return builder.add("Floor", builder.add("Div", x, y), name=name)
    exact = builder.add("Sub", x, builder.add("Mod", x, y))
    return builder.add("Div", exact, y, name=name)


def squared_difference(builder: GraphBuilder, x: str, y: str, name: str) -> str:
    """Add (x - y) squared."""
    difference = builder.add("Sub", x, y)
    return builder.add("Mul", difference, difference, name=name)


def clipped(builder: GraphBuilder, x: str, low: float, high: float, name: str = "") -> str:
    """Clip a float32 between two bounds."""
    bounds = [builder.constant(np.float32(bound)) for bound in (low, high)]
    return builder.add("Clip", x, *bounds, name=name)


def stacked(builder: GraphBuilder, values: Sequence[str], axis: int, name: str) -> str:
    """Stack tensors of one shape along a new axis."""
    axes = builder.integers([axis])
    parts = [builder.add("Unsqueeze", value, axes) for value in values]
    return builder.add("Concat", *parts, name=name, axis=axis)


def unstacked(builder: GraphBuilder, x: str, axis: int, names: Sequence[str]) -> list[str]:
    """Split a tensor into the slices of an axis, one for each name, and remove the axis."""
    axes, count = builder.integers([axis]), len(names)
    parts: Sequence[str] = (x,)
    if count > 1:
        parts = builder.add_many("Split", (x,), [""] * count, axis=axis, num_outputs=count)
    return [builder.add("Squeeze", part, axes, name=name) for part, name in zip(parts, names, strict=True)]


def reversed_along(builder: GraphBuilder, x: str, axes: Sequence[int], name: str) -> str:
    """Reverse the elements of axes."""
    count = len(axes)
    return sliced(builder, x, [-1] * count, [-TO_END] * count, axes, [-1] * count, name)


def mirrored(builder: GraphBuilder, x: str, pads: Sequence[Sequence[int]], name: str) -> str:
    """Pad by (begin, end) elements per axis that repeat those at the border from there inwards, including the border
    (SYMMETRIC); at most as many as the axis has."""
    padded = [axis for axis, pair in enumerate(pads) if any(pair)]
    for axis in padded:
        begin, end = (int(count) for count in pads[axis])
        parts = [x]
        if begin:
            parts.insert(0, sliced(builder, x, [begin - 1], [-TO_END], [axis], [-1], ""))
        if end:
            parts.append(sliced(builder, x, [-1], [-1 - end], [axis], [-1], ""))
        x = builder.add("Concat", *parts, axis=axis, name=name if axis == padded[-1] else "")
    return x


def split(
    builder: GraphBuilder, x: str, sizes: Sequence[int], axis: int, names: Sequence[str]
) -> Sequence[str]:
    """Split into parts of these sizes along an axis; a size of -1 gets the elements that the others leave."""
    if -1 not in sizes:
        return builder.add_many("Split", (x, builder.integers(sizes)), names, axis=axis)
    if min(sizes) < -1 or [*sizes].count(-1) > 1 or len(names) != len(sizes):
        raise ModelError(f"sizes {list(sizes)} of {len(names)} parts")
    rest = [*sizes].index(-1)
    parts = []
    for index, part in enumerate(names):
        start, end = sum(sizes[:index]), sum(sizes[: index + 1])
        # Counted from the end.
        if index >= rest:
            start = start if index == rest else -sum(sizes[index:])
            end = -sum(sizes[index + 1 :]) or TO_END
        parts.append(sliced(builder, x, [start], [end], [axis], [1], part))
    return parts


def gathered(builder: GraphBuilder, x: str, indices: str, axis: int, batch_dims: int, name: str) -> str:
    """Gather elements along an axis by their indices, separately for each element of the first `batch_dims` axes."""
    if not batch_dims:
        return builder.add("Gather", x, indices, name=name, axis=axis)
    if axis != batch_dims:
        raise UnsupportedError(
            f"axis {axis} with batch_dims {batch_dims}: only the axis behind them is supported"
        )
    last = builder.integers([-1])
    places = builder.cast(builder.add("Unsqueeze", indices, last), np.dtype(np.int64))
    return builder.add("GatherND", x, places, name=name, batch_dims=batch_dims)


# ---- blocks of pictures along the batch ------------------------------------------------------------------------------


def blocks_to_batch(builder: GraphBuilder, x: str, block: Sequence[int], pads: str, name: str = "") -> str:
    """Pad x (N, *spatial, ...) and put each of the block's positions of the spatial axes into a picture of its own:
    TensorFlow's SpaceToBatchND. `pads`: the value of (begin, end) per axis. The block must divide the padded
    extents."""
    count, cells = len(block), int(np.prod(block))
    flat = builder.add(
        "Reshape", builder.add("Transpose", _whole(builder, pads), perm=(1, 0)), builder.integers([-1])
    )
    axes = builder.integers([*range(1, count + 1)])
    padded = builder.add("Pad", x, flat, "", axes)
    pictures, extents, rest = _shape_parts(builder, padded, count)
    sizes, size_of_rest = builder.integers(block), builder.add("ReduceProd", rest, keepdims=1)
    cut = builder.add("Div", extents, sizes)
    pairs = builder.add("Reshape", stacked(builder, (cut, sizes), 1, ""), builder.integers([-1]))
    apart = builder.add("Reshape", padded, builder.add("Concat", pictures, pairs, size_of_rest, axis=0))
    order = (*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count, 2), 2 * count + 1)
    turned = builder.add("Transpose", apart, perm=order)
    many = builder.add("Mul", pictures, builder.integers([cells]))
    return builder.add("Reshape", turned, builder.add("Concat", many, cut, rest, axis=0), name=name)


def batch_to_blocks(builder: GraphBuilder, x: str, block: Sequence[int], crops: str, name: str = "") -> str:
    """Put the pictures of x (N, *spatial, ...) back into the block's positions of the spatial axes, and crop:
    TensorFlow's BatchToSpaceND, the reverse of `blocks_to_batch`. The block must divide N."""
    count, cells = len(block), int(np.prod(block))
    many, extents, rest = _shape_parts(builder, x, count)
    sizes, size_of_rest = builder.integers(block), builder.add("ReduceProd", rest, keepdims=1)
    pictures = builder.add("Div", many, builder.integers([cells]))
    apart = builder.add("Reshape", x, builder.add("Concat", sizes, pictures, extents, size_of_rest, axis=0))
    order = (count, *(axis for each in range(count) for axis in (count + 1 + each, each)), 2 * count + 1)
    whole = builder.add("Mul", extents, sizes)
    joined = builder.add(
        "Reshape",
        builder.add("Transpose", apart, perm=order),
        builder.add("Concat", pictures, whole, rest, axis=0),
    )
    begin, end = unstacked(builder, _whole(builder, crops), 1, ("", ""))
    axes = builder.integers([*range(1, count + 1)])
    return builder.add("Slice", joined, begin, builder.add("Sub", whole, end), axes, name=name)


def _whole(builder: GraphBuilder, value: str) -> str:
    return builder.cast(value, np.dtype(np.int64))


def _shape_parts(builder: GraphBuilder, x: str, count: int) -> tuple[str, str, str]:
    """Return the first extent, the `count` after it, and the others, as vectors."""
    return (
        builder.add("Shape", x, start=0, end=1),
        builder.add("Shape", x, start=1, end=1 + count),
        builder.add("Shape", x, start=1 + count),
    )
