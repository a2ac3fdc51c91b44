"""Sums of branches that are linear in the same values, as training leaves them, turned into one convolution.

    %a = conv(pads=((1, 1), (1, 1))) %x, %w3, %b3    ->    %y = conv(pads=((1, 1), (1, 1))) %x, %w, %b
    %b = conv %x, %w1, %b1
    %n = batch_normalization %x, ...
    %s = add %a, %b
    %y = add %s, %n

Networks are trained with several branches that are to be joined afterwards (X. Ding et al., "RepVGG: Making VGG-style
ConvNets great again", CVPR 2021; MobileOne, FastViT, RepViT, YOLOv6 and YOLOv7 too), and are often exported as they
were trained. A branch is a convolution of x or x itself, times constants per channel and plus such; branches are added
and subtracted. Smaller windows lie in the largest one, finer groups in the coarsest, x is a window of one tap. Weights
are added in float64 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size
from cenote.core.types import FLOAT32, Array
from cenote.graph.graph import Graph, Node
from cenote.ops.conv.conv import Conv
from cenote.ops.elementwise.binary import Add, Div, Mul, Sub
from cenote.ops.normalization.batch_normalization import BatchNormalization
from cenote.passes.fuse import Rewriter, per_channel, scale_and_shift

Numbers = Array | float
"""One number per channel, or one of all."""


@dataclass(frozen=True, eq=False)
class _Sum:
    """Sum of branches of x: nodes of convolutions, or None for x itself, each times a factor; and `shift`."""

    x: str
    branches: tuple[tuple[Node | None, Numbers], ...]
    shift: Numbers = 0.0

    def scaled(self, by: Numbers) -> _Sum:
        branches = tuple((branch, factor * by) for branch, factor in self.branches)
        return _Sum(self.x, branches, self.shift * by)

    def shifted(self, by: Numbers) -> _Sum:
        return replace(self, shift=self.shift + by)

    def plus(self, other: _Sum) -> _Sum:
        return _Sum(self.x, (*self.branches, *other.branches), self.shift + other.shift)


def join_branches(graph: Graph) -> Graph:
    """Return the graph with one convolution in place of each such sum in float32."""
    if Conv not in {type(node.op) for node in graph.nodes}:
        return graph
    rewriter = Rewriter(graph)
    sums: dict[str, _Sum] = {}
    for node in graph.nodes:
        found = _sum_of(rewriter, node, sums)
        if found is not None:
            sums[node.outputs[0]] = found
    for index in reversed(range(len(graph.nodes))):
        root = rewriter.nodes[index]
        if root is None or not isinstance(root.op, Add | Sub) or root.outputs[0] not in sums:
            continue
        with np.errstate(all="ignore"):
            joined = _joined(rewriter, root, sums[root.outputs[0]])
        if joined is not None:
            rewriter.uses.update(joined.inputs)
            _remove(rewriter, root, sums)
            rewriter.nodes[index] = joined
    return rewriter.result()


def _sum_of(rewriter: Rewriter, node: Node, sums: Mapping[str, _Sum]) -> _Sum | None:
    """Return what a node makes as a sum of branches; None where it is none."""
    if not isinstance(node.op, Conv | BatchNormalization | Add | Sub | Mul | Div) or len(node.outputs) != 1:
        return None
    made = rewriter.type(node.outputs[0])
    if made.dtype != FLOAT32 or not 3 <= made.rank <= 5 or is_size(made.shape[1]):
        return None
    if isinstance(node.op, Conv):
        is_constant = all(name in rewriter.constants for name in node.inputs[1:] if name)
        return _Sum(node.inputs[0], ((node, 1.0),)) if node.op.is_bare and is_constant else None
    if isinstance(node.op, BatchNormalization):
        return _normalized(rewriter, node, node.op, sums)
    if not any(name in sums for name in node.inputs):
        return None  # before shapes are compared, which open ones would part into classes for
    with np.errstate(all="ignore"):
        return _by_constants(rewriter, node, sums) or _added(rewriter, node, sums)


def _read(rewriter: Rewriter, name: str, sums: Mapping[str, _Sum]) -> _Sum:
    """Return a value as a sum of branches: itself, where other nodes read it too."""
    return sums[name] if rewriter.uses[name] == 1 and name in sums else _Sum(name, ((None, 1.0),))


def _normalized(
    rewriter: Rewriter, node: Node, op: BatchNormalization, sums: Mapping[str, _Sum]
) -> _Sum | None:
    statistics = node.inputs[1:5]
    if op.training or not op.is_bare or any(name not in rewriter.constants for name in statistics):
        return None
    scale, shift = scale_and_shift(op, rewriter.constants, statistics)
    return _read(rewriter, node.inputs[0], sums).scaled(scale).shifted(shift)


def _by_constants(rewriter: Rewriter, node: Node, sums: Mapping[str, _Sum]) -> _Sum | None:
    """Return a sum that a node adds constants per channel to, subtracts them from, multiplies or divides by them."""
    made = rewriter.type(node.outputs[0])
    for name, other in (node.inputs, node.inputs[::-1]) if isinstance(node.op, Add | Mul) else (node.inputs,):
        value = None if rewriter.type(name) != made else per_channel(rewriter, name, other)
        if value is None or name in rewriter.constants:
            continue
        read = _read(rewriter, name, sums)
        if isinstance(node.op, Add | Sub):
            return read.shifted(value if isinstance(node.op, Add) else -value)
        return read.scaled(value if isinstance(node.op, Mul) else 1 / value)
    return None


def _added(rewriter: Rewriter, node: Node, sums: Mapping[str, _Sum]) -> _Sum | None:
    """Return the sum or difference of two sums of branches of the same values."""
    made = rewriter.type(node.outputs[0])
    if not isinstance(node.op, Add | Sub) or any(rewriter.type(name) != made for name in node.inputs):
        return None
    first, second = (_read(rewriter, name, sums) for name in node.inputs)
    if first.x != second.x:
        return None
    return first.plus(second if isinstance(node.op, Add) else second.scaled(-1.0))


def _joined(rewriter: Rewriter, node: Node, total: _Sum) -> Node | None:
    """Return one convolution in the place of a node; None where the branches do not all fit into one of them."""
    convolutions = [branch for branch, _ in total.branches if branch is not None]
    # One convolution and x as it is will be one step anyway.
    others = sum(branch is None and not np.all(factor == 1) for branch, factor in total.branches)
    if not convolutions or len(convolutions) + others < 2:
        return None
    main = max(convolutions, key=lambda each: _extent(rewriter, each))
    outer, filters = _shape(rewriter, main), rewriter.type(node.outputs[0]).shape[1]
    weights, bias = np.zeros(rewriter.type(main.inputs[1]).shape), np.zeros(filters) + total.shift
    for branch, factor in total.branches:
        inner = _one_tap(outer) if branch is None else _shape(rewriter, branch)
        places = _places(outer, inner)
        if places is None:
            return None
        factors = np.broadcast_to(factor, filters)
        taps = 1.0 if branch is None else rewriter.constants[branch.inputs[1]]
        taps = np.broadcast_to(taps, (filters, inner.group_channels, *inner.window))
        _add(weights, outer, inner, taps, factors, places)
        if branch is not None and len(branch.inputs) > 2 and branch.inputs[2]:
            bias += rewriter.constants[branch.inputs[2]] * factors
    rounded = weights.astype(np.float32), bias.astype(np.float32)
    if not all(np.isfinite(each).all() for each in rounded):
        return None
    names = (
        total.x,
        rewriter.constant(f"{main.inputs[1]}~branches", rounded[0]),
        rewriter.constant(f"{node.outputs[0]}~bias", rounded[1]),
    )
    return Node(main.op, names, node.outputs, main.label or node.label)


def _extent(rewriter: Rewriter, convolution: Node) -> tuple[int, int]:
    """Taps of the window, and channels of a group."""
    _, channels, *window = rewriter.type(convolution.inputs[1]).shape
    return math.prod(window), channels


def _shape(rewriter: Rewriter, convolution: Node) -> ConvShape:
    assert isinstance(convolution.op, Conv)
    return convolution.op.shape(*(rewriter.type(name) for name in convolution.inputs[:2]))


def _one_tap(outer: ConvShape) -> ConvShape:
    """Return the convolution that gives x itself."""
    ones = (1,) * outer.rank
    return replace(
        outer, groups=outer.channels, window=ones, strides=ones, dilations=ones, pads=((0, 0),) * outer.rank
    )


def _places(outer: ConvShape, inner: ConvShape) -> tuple[slice, ...] | None:
    """Return the places of a window's taps in a larger one that moves over the same elements; None where there are
    none."""
    if inner.strides != outer.strides or inner.groups % outer.groups or inner.filters % inner.groups:
        return None
    places = []
    for axis in range(outer.rank):
        (begin, end), (inner_begin, inner_end) = outer.pads[axis], inner.pads[axis]
        if any(map(is_size, (begin, end, inner_begin, inner_end))):
            return None
        step, inner_step = outer.dilations[axis], inner.dilations[axis]
        taps, inner_taps = outer.window[axis], inner.window[axis]
        further = (taps - 1) * step - (inner_taps - 1) * inner_step
        first, left = divmod(begin - inner_begin, step)
        moves_alike = begin + end - inner_begin - inner_end == further
        fits = first >= 0 and first + inner_taps <= taps and not left
        if not moves_alike or not fits or (inner_taps > 1 and inner_step != step):
            return None
        places.append(slice(first, first + inner_taps))
    return tuple(places)


def _add(
    total: Array,
    outer: ConvShape,
    inner: ConvShape,
    weights: Array,
    factors: Array,
    places: tuple[slice, ...],
) -> None:
    """Add a branch's weights, group by group, to those of the whole."""
    filters, channels = outer.filters // inner.groups, inner.group_channels
    for group in range(inner.groups):
        rows = slice(group * filters, (group + 1) * filters)
        first = group % (inner.groups // outer.groups) * channels
        scaled = weights[rows] * factors[rows].reshape(-1, *(1,) * (outer.rank + 1))
        total[(rows, slice(first, first + channels), *places)] += scaled


def _remove(rewriter: Rewriter, root: Node, sums: Mapping[str, _Sum]) -> None:
    """Remove the nodes of a sum, which nothing else reads."""
    left = [root]
    while left:
        node = left.pop()
        rewriter.nodes[rewriter.position[node.outputs[0]]] = None
        rewriter.uses.subtract(node.inputs)
        if isinstance(node.op, Conv):
            continue
        for name in node.inputs:
            maker = rewriter.nodes[rewriter.position[name]] if name in sums else None
            if maker is not None and rewriter.uses[name] == 0:
                left.append(maker)
