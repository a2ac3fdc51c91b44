"""How operators work on a value whose axes lie in another order: a rule per kind, for `transposes`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from cenote.core.types import Array, TensorType
from cenote.graph.graph import Node
from cenote.ops.base import Op
from cenote.ops.elementwise.cast import Cast
from cenote.ops.elementwise.pointwise import Pointwise
from cenote.ops.movement.pad import Pad
from cenote.ops.movement.parts import Concat, Slice, Split
from cenote.ops.movement.reshape import Identity, Squeeze
from cenote.ops.movement.resize import Resize
from cenote.ops.normalization.softmax import LogSoftmax, Softmax
from cenote.ops.quantization.quantize import Scaled
from cenote.ops.reduction.reduce import Reduction

Order = tuple[int, ...]


def inverse(order: Order) -> Order:
    """The order that undoes one."""
    return tuple(order.index(axis) for axis in range(len(order)))


@dataclass(frozen=True)
class Turned:
    """A value that is another one with its axes in another order."""

    source: str
    order: Order


@dataclass(frozen=True)
class Moved:
    """What an operator becomes on a turned first input: the operator, its further inputs, and the order in which each
    output has to be read. Empty: the same as the input."""

    op: Op
    inputs: tuple[str, ...]
    orders: tuple[Order, ...] = ()


class Sinker(Protocol):
    """What a rule sees of the walk."""

    constants: dict[str, Array]
    types: dict[str, TensorType]
    turned: dict[str, Turned]

    def operand(self, name: str, order: Order) -> str | None:
        """An operand as others that were turned by `order` need it; None where that takes a pass over a map."""

    def turn_back(self, name: str, order: Order) -> str:
        """A whole map turned so that `order` gives it back."""

    def constant(self, stem: str, value: Array) -> str:
        """A new constant."""


def _elementwise(sinker: Sinker, node: Node, order: Order) -> Moved | None:
    if sinker.types[node.outputs[0]].rank != len(order):
        return None
    turned = sum(name in sinker.turned for name in node.inputs)
    inputs: list[str] = []
    for name in node.inputs:
        found = sinker.operand(name, order) if name else ""
        if found is None:  # a whole map in the other order: turned once, if most operands are there already
            if 2 * turned < len(node.inputs) or sinker.types[name].rank != len(order):
                return None
            found = sinker.turn_back(name, order)
        inputs.append(found)
    return Moved(node.op, tuple(inputs))


def _along(op: Any, rank: int, order: Order) -> Any:
    """The operator with its axis where the order says."""
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
    """Operators along one axis: Split, Softmax."""
    if getattr(node.op, "flatten", False) or not _first_only(sinker, node):
        return None
    inputs = (sinker.turned[node.inputs[0]].source, *node.inputs[1:])
    return Moved(_along(node.op, len(order), order), inputs, (order,) * len(node.outputs))


def _scaled(sinker: Sinker, node: Node, order: Order) -> Moved | None:
    """Quantisation by one scale, or by one per index of an axis."""
    assert isinstance(node.op, Scaled)
    return None if node.op.block else _one_axis(sinker, node, order)


def _first_only(sinker: Sinker, node: Node) -> bool:
    """Is the first input the turned one, and are all others constant or absent?"""
    return node.inputs[0] in sinker.turned and all(
        not name or name in sinker.constants for name in node.inputs[1:]
    )


def _reduction(sinker: Sinker, node: Node, order: Order) -> Moved | None:
    op = node.op
    assert isinstance(op, Reduction)
    rank = len(order)
    given = sinker.constants.get(node.inputs[1]) if len(node.inputs) > 1 and node.inputs[1] else None
    axes = op.axes if given is None else tuple(int(axis) for axis in given.reshape(-1))
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


RULES: Mapping[type[Op], Callable[[Sinker, Node, Order], Moved | None]] = {
    Scaled: _scaled,  # which are elementwise, too
    Pointwise: _elementwise,
    Cast: _elementwise,
    Identity: _elementwise,
    Concat: _concat,
    Split: _one_axis,
    Softmax: _one_axis,
    LogSoftmax: _one_axis,
    Reduction: _reduction,
    Pad: _pad,
    Slice: _slice,
    Resize: _resize,
    Squeeze: _squeeze,
}
