"""Convolutions as matrix products: the filters as they lie, times columns of what their taps read.

Nothing of the weights is packed, so that it is the way of weights that are known at run time only: packing
2.4 million of them (512 filters of 3x3 over 512 channels) takes longer than the convolution of a map of 7x7.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from cenote.core.conv_geometry import ConvShape
from cenote.core.sizes import is_size, maximum, plain
from cenote.core.target import Target
from cenote.core.types import FLOAT32, PLAIN, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.cost_model import moved_seconds, peak_seconds, strided_seconds, weight_seconds
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.elementwise.elementwise import elementwise_call, operand_of, per_channel
from cenote.ops.base import Lowering
from cenote.ops.conv.problem import ConvProblem
from cenote.ops.linear.product_lowerings import StridedMatrices, Terms, product_lowerings
from cenote.ops.movement.unfold import Unfold

# Seconds to write a row of a column that is not as long as a cache line: 6 to 9e-9 for rows of 7, 14 and 28 pixels of
# depthwise and grouped convolutions.
_ROW = 8e-9

# Bytes of a result from which its lines are read before they are written in part: 3 to 64 channels, 3x3, at 224x224
# takes 2.2 ms for one picture and 44 ms for eight (direct convolution and a change of layout: 2.7 and 27).
_PAST_CACHES = 32 << 20


def filter_product(
    images: int,
    groups: int,
    sizes: tuple[int, int, int],
    target: Target,
    activation: Activation,
    residual: bool = False,
    exact: bool = False,
) -> Lowering | None:
    """The products of the groups' filters (groups, filters, depth) with columns (images, groups, depth, places), the
    `sizes` being filters, depth and places of a group. A residual like the result is the third input. `exact`: see
    Terms."""
    filters, depth, places = sizes
    left = StridedMatrices((1, groups, filters, depth), (0, filters * depth, depth, 1))
    right, y = (
        StridedMatrices.of((images, groups, depth, places)),
        StridedMatrices.of((images, groups, filters, places)),
    )
    terms = Terms(left, right, y, activation, exact=exact)
    if residual:
        terms = replace(terms, residual=2, residual_at=y)
    kinds = [TensorType(FLOAT32, each.shape) for each in (left, right, y)[: 3 if residual else 2]]
    return next((each for each in product_lowerings(terms, kinds, target) if each.name == "panels"), None)


def columns(problem: ConvProblem, target: Target) -> Iterator[Lowering]:
    """Yield the lowering of plain tensors as a product of columns, for constant weights and for those of a run."""
    shape, inputs, fused = problem.shape, problem.inputs, problem.fused
    x, y = present(inputs[0]), TensorType(FLOAT32, (shape.n, shape.filters, *shape.out))
    pads = [pad for pair in shape.pads for pad in pair]
    if fused.pool or any(is_size(pad) or pad < 0 for pad in pads):
        return
    bias = None if fused.bias is None else inputs[fused.bias]
    unfold = None if shape.is_pointwise else _unfold(shape, x, target)
    sizes = (shape.group_filters, shape.group_channels * shape.taps, shape.pixels)
    last = fused.activation if bias is None else Activation()
    product = filter_product(
        shape.n, shape.groups, sizes, target, last, fused.residual is not None, fused.exact
    )
    if product is None or (unfold is None and not shape.is_pointwise):
        return
    between: tuple[TensorType, ...] = () if unfold is None else (unfold[1], *unfold[0].temporaries)

    def bind(views: Sequence[View | None], made: Sequence[View]) -> Sequence[Call]:
        result, read, calls = made[0], present(views[0]), list[Call]()
        if unfold is not None:
            calls += unfold[0].bind([read], made[1 : 1 + len(between)])
            read = made[1]
        added = [] if fused.residual is None else [views[fused.residual]]
        calls += product.bind([views[1], read, *added], [result, *made[1 + len(between) :]])
        if bias is not None:
            sums = [operand_of(result, result), per_channel(present(views[present(fused.bias)]), result)]
            calls.append(elementwise_call("add", (), sums, result, target, activation=fused.activation))
        return calls

    seconds = _seconds(shape, target, bool(product.temporaries)) + moved_seconds(
        2 * y.nbytes if bias is not None else 0
    )
    yield Lowering(
        "columns",
        tuple(None if each is None else PLAIN for each in inputs),
        (PLAIN,),
        bind,
        seconds,
        product.tolerance,
        (*between, *product.temporaries),
        in_place=() if fused.residual is None else (fused.residual,),
        layout_sensitive=True,
    )


def _seconds(shape: ConvShape, target: Target, packs: bool) -> float:
    """Arithmetic, with whole vectors of pixels, and what moves: the weights, the columns when they are made and when
    they are put in panels, the result, of which a piece of each filter's map is written at a time."""
    lanes = target.lanes()
    filled = shape.operations * (-(-shape.pixels // lanes) * lanes) / maximum(1, shape.pixels)
    depth = shape.group_channels * shape.taps
    seconds = peak_seconds(filled, target, 0.85 if plain(shape.group_filters) >= 4 else 0.4)
    moved = 8 * shape.n * shape.groups * depth * shape.pixels
    if not shape.is_pointwise:
        seconds += (moved_seconds if shape.strides[-1] == 1 else strided_seconds)(moved)
        seconds += _ROW * shape.n * shape.groups * depth * math.prod(shape.out[:-1])
    made = 4 * shape.n * shape.filters * shape.pixels
    written = strided_seconds(made * (2 if plain(made) > _PAST_CACHES else 1))
    return seconds + written + moved_seconds(moved * packs) + weight_seconds(4 * shape.filters * depth)


def _unfold(shape: ConvShape, x: TensorType, target: Target) -> tuple[Lowering, TensorType] | None:
    """Lowering that writes the columns (the unfolded windows) and their type; None if no kernel does."""
    op = Unfold(shape.window, shape.strides, shape.pads, shape.dilations)
    (columns,) = op.infer(x)
    found = next(iter(op.lowerings((x,), target)), None)
    return None if found is None or 0 in map(math.prod, (columns.shape,)) else (found, columns)
