"""Outer axes of tensors of any rank, as kernels walk them: by extents and strides.

The outer axes of a tensor are numbered through; a kernel gets, for each of them, its extent and the stride of every
operand, and finds the operands' addresses by division.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from cenote.codegen.builder import Kernel
from cenote.codegen.values import Pointer, Value
from cenote.core.formulas.certain import always_equal
from cenote.core.sizes import is_size

Axis = tuple[int, list[int]]  # extent, stride of each operand in elements


def joined_axes(extents: Sequence[int], strides: Sequence[Sequence[int]]) -> list[Axis]:
    """Axes outermost first, without those of extent 1; axes along which all operands are dense are one."""
    axes: list[Axis] = []
    for axis, extent in enumerate(extents):
        moves = [stride[axis] for stride in strides]
        if always_equal(extent, 1):
            continue
        if axes and all(
            always_equal(outer, inner * extent) for outer, inner in zip(axes[-1][1], moves, strict=True)
        ):
            axes[-1] = (axes[-1][0] * extent, moves)
        else:
            axes.append((extent, moves))
    return axes


def axis_names(count: int, names: Sequence[str]) -> list[str]:
    """Names of words for a number of axes: the extent of each, and its stride in each of the operands `names`."""
    return [
        name for axis in range(count) for name in (f"extent_{axis}", *(f"stride_{axis}_{n}" for n in names))
    ]


def axis_words(axes: Sequence[Axis], names: Sequence[str]) -> dict[str, int]:
    """The arguments for `axis_names`."""
    numbers = [number for extent, moves in axes for number in (extent, *moves)]
    return dict(zip(axis_names(len(axes), names), numbers, strict=True))


def position_count(axes: Sequence[Axis]) -> int:
    """Positions along all axes."""
    return math.prod(extent for extent, _ in axes)


def axis_pointers(k: Kernel, count: int, names: Sequence[str], index: Value) -> list[Pointer]:
    """Addresses of the operands at position number `index` of the axes."""
    pointers = [k.pointer(name) for name in names]
    for axis in reversed(range(count)):
        extent = k.number(f"extent_{axis}")
        place, index = (index % extent, index // extent) if axis else (index, index)
        moved = [place * k.number(f"stride_{axis}_{name}") for name in names]
        pointers = [pointer + offset for pointer, offset in zip(pointers, moved, strict=True)]
    return pointers


def axis_offsets(k: Kernel, count: int, names: Sequence[str], index: Value) -> list[Value]:
    """Offsets that `axis_pointers` adds to the operands' addresses."""
    offsets = [k.integer(0) for _ in names]
    for axis in reversed(range(count)):
        extent = k.number(f"extent_{axis}")
        place, index = (index % extent, index // extent) if axis else (index, index)
        moved = [place * k.number(f"stride_{axis}_{name}") for name in names]
        offsets = [offset + more for offset, more in zip(offsets, moved, strict=True)]
    return offsets


def nested(k: Kernel, extents: Sequence[Value], strides: Sequence[Sequence[Value]]) -> Iterator[list[Value]]:
    """Emit loops over axes, outermost first; yields the offset of each operand in the innermost."""
    offsets = [k.integer(0) for _ in strides]
    return _nested(k, list(extents), [list(stride) for stride in strides], offsets)


def _nested(
    k: Kernel, extents: list[Value], strides: list[list[Value]], offsets: list[Value]
) -> Iterator[list[Value]]:
    if not extents:
        yield offsets
        return
    for place in k.range(0, extents[0]):
        moved = [offset + place * stride[0] for offset, stride in zip(offsets, strides, strict=True)]
        yield from _nested(k, extents[1:], [stride[1:] for stride in strides], moved)


def is_one(step: int) -> bool:
    """Whether a step is known to be 1, whatever the sizes."""
    return not is_size(step) and step == 1
