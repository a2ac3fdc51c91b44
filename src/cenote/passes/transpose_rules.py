"""Rules for operators on a value whose axes lie in another order, one per kind, for `transposes`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size
from cenote.core.types import Array, TensorType
from cenote.graph.graph import Node
from cenote.ops.base import Op
from cenote.ops.elementwise.cast import Cast
from cenote.ops.elementwise.pointwise import Pointwise
from cenote.ops.movement.pad import Pad
from cenote.ops.movement.parts import Concat, Slice, Split
from cenote.ops.movement.reshape import Identity, Reshape, Squeeze, Unsqueeze
from cenote.ops.movement.resize import Resize
from cenote.ops.normalization.softmax import LogSoftmax, Softmax
from cenote.ops.quantization.quantize import Scaled
from cenote.ops.reduction.reduce import Reduction

Order = tuple[int, ...]


def inverse(order: Order) -> Order:
    """Return the order that undoes one."""
    return tuple(order.index(axis) for axis in range(len(order)))


def is_identity(order: Order) -> bool:
    return order == tuple(range(len(order)))


def moves_channels(order: Order) -> bool:
    """Whether the order moves channels from first to last, or back."""
    rank = len(order)
    return rank in (3, 4, 5) and order in ((0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1)))


@dataclass(frozen=True)
class Turned:
    """Value that equals another one with its axes in another order."""

    source: str
    order: Order


@dataclass(frozen=True)
class Moved:
    """Replacement of an operator on a transposed first input: the operator, its further inputs, and the order in
    which each output has to be read. Empty: the same as the input."""

    op: Op
    inputs: tuple[str, ...]
    orders: tuple[Order, ...] = ()


class Sinker(Protocol):
    """Protocol of the walk, as a rule uses it."""

    constants: dict[str, Array]
    types: dict[str, TensorType]
    turned: dict[str, Turned]

    def operand(self, name: str, order: Order) -> str | None:
        """Return an operand in the form that others transposed by `order` need; None where that takes a pass over a
        map."""

    def turn_back(self, name: str, order: Order) -> str:
        """Return a whole map transposed so that `order` gives it back."""

    def constant(self, stem: str, value: Array) -> str:
        """Return a new constant."""


def _elementwise(sinker: Sinker, node: Node, order: Order) -> Moved | None:
    if sinker.types[node.outputs[0]].rank != len(order):
        return None
    turned = sum(name in sinker.turned for name in node.inputs)
    inputs: list[str] = []
    for name in node.inputs:
        operand = sinker.operand(name, order) if name else ""
        # A whole map in the other order: transposed once, if most operands have it already.
        if operand is None:
            if 2 * turned < len(node.inputs) or sinker.types[name].rank != len(order):
                return None
            operand = sinker.turn_back(name, order)
        inputs.append(operand)
    return Moved(node.op, tuple(inputs))


def _along(op: Any, rank: int, order: Order) -> Any:
    """Return the operator with its axis mapped by the order."""
    return replace(op, axis=order[op.axis % rank])


def _concat(sinker: Sinker, node: Node, order: Order) -> Moved | None:
    inputs = []
    for name in node.inputs:
        turned = sinker.turned.get(name)
        content = sinker.constants.get(name)
        if content is not None and content.ndim == len(order):
            inputs.append(sinker.constant(name, np.ascontiguousarray(content.transpose(inverse(order)))))
        elif turned is not None and turned.order == order:
            inputs.append(turned.source)
        else:
            return None
    return Moved(_along(node.op, len(order), order), tuple(inputs))


def _one_axis(sinker: Sinker, node: Node, order: Order) -> Moved | None:
    """Rule for operators along one axis: Split."""
    if not _first_only(sinker, node):
        return None
    inputs = (sinker.turned[node.inputs[0]].source, *node.inputs[1:])
    return Moved(_along(node.op, len(order), order), inputs, (order,) * len(node.outputs))


def _softmax(sinker: Sinker, node: Node, order: Order) -> Moved | None:
    assert isinstance(node.op, Softmax | LogSoftmax)
    return None if node.op.flatten else _one_axis(sinker, node, order)


def _scaled(sinker: Sinker, node: Node, order: Order) -> Moved | None:
    """Rule for quantisation by one scale, or by one per index of an axis."""
    assert isinstance(node.op, Scaled)
    return None if node.op.block else _one_axis(sinker, node, order)


def _first_only(sinker: Sinker, node: Node) -> bool:
    """Whether the first input is the transposed one, and all others are constant or absent."""
    return node.inputs[0] in sinker.turned and all(
        not name or name in sinker.constants for name in node.inputs[1:]
    )


def _reduction(sinker: Sinker, node: Node, order: Order) -> Moved | None:
    op = node.op
    assert isinstance(op, Reduction)
    rank = len(order)
    axes_value = sinker.constants.get(node.inputs[1]) if len(node.inputs) > 1 and node.inputs[1] else None
    axes = op.axes if axes_value is None else tuple(int(axis) for axis in axes_value.reshape(-1))
    if not axes or not _first_only(sinker, node):
        return None
    gone = sorted({order[axis % rank] for axis in axes})
    moved = replace(op, axes=tuple(gone))
    if op.keepdims:
        return Moved(moved, (sinker.turned[node.inputs[0]].source,))
    left = [axis for axis in range(rank) if axis not in gone]
    read = tuple(left.index(axis) for axis in order if axis in left)
    return Moved(moved, (sinker.turned[node.inputs[0]].source,), (read,))


def _pad(sinker: Sinker, node: Node, order: Order) -> Moved | None:
    op = node.op
    assert isinstance(op, Pad)
    if op.pads is None or not _first_only(sinker, node):
        return None
    rank = len(order)
    axes = tuple(range(rank)) if op.axes is None else tuple(axis % rank for axis in op.axes)
    by_axis = {order[axis]: pair for axis, pair in zip(axes, op.pads, strict=True)}
    pads = tuple(by_axis.get(axis, (0, 0)) for axis in range(rank))
    return Moved(replace(op, pads=pads, axes=None), (sinker.turned[node.inputs[0]].source, *node.inputs[1:]))


def _slice(sinker: Sinker, node: Node, order: Order) -> Moved | None:
    if len(node.inputs) < 3 or not _first_only(sinker, node):
        return None
    starts = sinker.constants[node.inputs[1]]
    named = len(node.inputs) > 3 and bool(node.inputs[3])
    axes = sinker.constants[node.inputs[3]] if named else np.arange(starts.size)
    moved = np.array([order[int(axis) % len(order)] for axis in axes.reshape(-1)], np.int64)
    inputs = (
        sinker.turned[node.inputs[0]].source,
        *node.inputs[1:3],
        sinker.constant(node.outputs[0], moved),
        *node.inputs[4:],
    )
    return Moved(node.op, inputs)


def _resize(sinker: Sinker, node: Node, order: Order) -> Moved | None:
    op, rank = node.op, len(order)
    assert isinstance(op, Resize)
    if not _first_only(sinker, node) or op.policy != "stretch" or len(node.inputs) > 1:
        return None
    if rank > 3 and moves_channels(order) and order[1] == rank - 1:
        # Channels have come to the front, where maps may be blocked: SegFormer takes 30.7 ms, 44.2 with them last.
        return None
    axes = tuple(range(rank)) if op.axes is None else tuple(axis % rank for axis in op.axes)
    moved = replace(op, axes=tuple(order[axis] for axis in axes))
    return Moved(moved, (sinker.turned[node.inputs[0]].source,))


def _squeeze(sinker: Sinker, node: Node, order: Order) -> Moved | None:
    if len(node.inputs) < 2 or not _first_only(sinker, node):
        return None
    gone = {order[int(axis) % len(order)] for axis in sinker.constants[node.inputs[1]].reshape(-1)}
    left = [axis for axis in range(len(order)) if axis not in gone]
    read = tuple(left.index(axis) for axis in order if axis in left)
    axes = sinker.constant(node.outputs[0], np.array(sorted(gone), np.int64))
    return Moved(node.op, (sinker.turned[node.inputs[0]].source, axes), (read,))


def _unsqueeze(sinker: Sinker, node: Node, order: Order) -> Moved | None:
    places = sinker.constants.get(node.inputs[1])
    if places is None or not _first_only(sinker, node):
        return None
    rank = len(order) + places.size
    added = {int(axis) % rank for axis in places.reshape(-1)}
    left = iter(order)
    tokens = [None if axis in added else next(left) for axis in range(rank)]
    read = _placed(tokens)
    axes = sinker.constant(node.outputs[0], np.array(sorted(read[place] for place in added), np.int64))
    return Moved(node.op, (sinker.turned[node.inputs[0]].source, axes), (read,))


def _reshape(sinker: Sinker, node: Node, order: Order) -> Moved | None:
    """Rule for a Reshape whose runs of axes, joined or cut, each are in one piece in the source too."""
    if node.inputs[0] not in sinker.turned:
        return None
    turned, result = sinker.turned[node.inputs[0]], sinker.types[node.outputs[0]].shape
    source = sinker.types[turned.source].shape
    large = [axis for axis in range(len(source)) if not _is_one(source[axis])]
    runs = _runs([source[axis] for axis in order], result)
    if runs is None:
        return None
    tokens: list[int | None] = [None] * len(result)
    pieces: dict[int, tuple[int, ...]] = {}  # axes of the result by where their run begins in the source
    for axes, after in runs:
        at = [large.index(order[axis]) for axis in axes]
        if at != list(range(at[0], at[0] + len(at))):
            return None
        pieces[at[0]] = after
    for number, axis in enumerate(each for at in sorted(pieces) for each in pieces[at]):
        tokens[axis] = number
    read = _placed(tokens)
    shape = []
    for axis, place in enumerate(map(read.index, range(len(read)))):
        extent = result[place]
        copied = is_size(extent) and axis < len(source) and _same(extent, source[axis])
        if not copied and (is_size(extent) or not extent):
            return None
        shape.append(0 if copied else extent)
    return Moved(
        Reshape(), (turned.source, sinker.constant(node.outputs[0], np.array(shape, np.int64))), (read,)
    )


def _is_one(extent: int) -> bool:
    return not is_size(extent) and extent == 1


def _same(a: int, b: int) -> bool:
    """Whether two extents are equal whatever the sizes are."""
    if is_size(a) and is_size(b):
        return bool(a.terms == b.terms)  # type: ignore[attr-defined]  # Sizes
    return not is_size(a) and not is_size(b) and a == b


def _runs(
    before: Sequence[int], after: Sequence[int]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]] | None:
    """Return the shortest runs of axes that a reshape makes of each other, axes of extent 1 left out; None where that
    depends on sizes."""
    old = [axis for axis, extent in enumerate(before) if not _is_one(extent)]
    new = [axis for axis, extent in enumerate(after) if not _is_one(extent)]
    runs = []
    while old and new:
        a, b = [old.pop(0)], [new.pop(0)]
        if not _same(before[a[0]], after[b[0]]):
            if any(is_size(each) for each in (before[a[0]], after[b[0]])):
                return None
            left, right = before[a[0]], after[b[0]]
            while left != right:
                source, axes, extents = (old, a, before) if left < right else (new, b, after)
                if not source or is_size(extents[source[0]]):
                    return None
                axes.append(source.pop(0))
                left, right = (math.prod(x[axis] for axis in y) for x, y in ((before, a), (after, b)))
        runs.append((tuple(a), tuple(b)))
    return None if old or new else runs


def _placed(tokens: Sequence[int | None]) -> Order:
    """Return the order of a result: each of its axes is an axis of its source, or new and of extent 1 (None). New
    ones go to the place where the order moves channels, if one of two places does."""
    named = [(place,) if token is None else token for place, token in enumerate(tokens)]
    places = range(len(named))
    orders = []
    for step in (1, -1):  # before the axis that follows in the result, or behind the one that precedes
        between: list[int | tuple[int]] = [*range(sum(token is not None for token in tokens))]
        for place in (*places[::-1],) if step > 0 else (*places,):
            if tokens[place] is None:
                end = len(between) if step > 0 else 0
                inside = 0 <= place + step < len(named)
                between.insert(
                    between.index(named[place + step]) + (step < 0) if inside else end, named[place]
                )
        orders.append(tuple(between.index(token) for token in named))
    return min(orders, key=lambda order: not (is_identity(order) or moves_channels(order)))


RULES: Mapping[type[Op], Callable[[Sinker, Node, Order], Moved | None]] = {
    Scaled: _scaled,  # which are elementwise, too
    Pointwise: _elementwise,
    Cast: _elementwise,
    Identity: _elementwise,
    Concat: _concat,
    Split: _one_axis,
    Softmax: _softmax,
    LogSoftmax: _softmax,
    Reduction: _reduction,
    Pad: _pad,
    Slice: _slice,
    Resize: _resize,
    Squeeze: _squeeze,
    Unsqueeze: _unsqueeze,
    Reshape: _reshape,
}
