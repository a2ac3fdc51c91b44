"""A convolution as its algorithms see it: sizes, weights, what is fused; and a lowering of one that serves it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import cached_property, dataclass
from cenote.core.sizes import is_size
from cenote.core.target import Target
from cenote.core.types import Array, Layout, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.conv.depthwise import QUICKEST_GROUP, suits
from cenote.kernels.conv.direct_calls import DirectProblem, joined_groups, merge_groups
from cenote.kernels.partial_sums import can_be_added, summation_tolerance
from cenote.ops.base import Lowering, Types
from cenote.ops.epilogue import Epilogue

Calls = Callable[..., Iterable[Call]]
"""Given the views of x, y, the residual (or None) and the temporaries: the calls of one convolution, in order."""


@dataclass(frozen=True)
class ConvProblem:
    """A convolution in float32.

    `inputs` are the operator's: x, the weights, then what `fused` names. Algorithms for constant weights get these
    as `weights` (filters, channels / groups, depth, height, width), and the constant `bias`, from `known`. `local`: an
    element must reach the outputs whose windows hold it and no others, so that an infinity stays where it belongs:
    not Winograd's algorithms, and no groups joined by zeros (0 * inf is NaN). `on_tiles`: products may be those of
    float16 parts.
    """

    shape: ConvShape
    fused: Epilogue
    inputs: Sequence[TensorType | None]
    target: Target
    local: bool = False
    on_tiles: bool = False
    weights: Array | None = None
    bias: Array | None = None

    @cached_property
    def lanes(self) -> int:
        """The elements of a vector, and the channels of a block."""
        return self.target.lanes()

    @property
    def is_constant(self) -> bool:
        """Whether weights and bias are known when the model is compiled."""
        places = (1, self.fused.bias)
        return all(place is None or present(self.inputs[place]).value is not None for place in places)

    @cached_property
    def can_transform(self) -> bool:
        """Whether sums of the weights are finite: of others Winograd's transform makes NaN."""
        return can_be_added(present(self.weights))

    def known(self) -> ConvProblem | None:
        """The problem with its constants; None where there is nothing to compute."""
        values = [
            None if place is None else present(self.inputs[place]).value for place in (1, self.fused.bias)
        ]
        weights = present(values[0])
        if not weights.size or 0 in self.shape.out:
            return None
        deep = (1,) * (3 - self.shape.rank)
        weights = weights.reshape(*weights.shape[:2], *deep, *self.shape.window)
        return ConvProblem(
            self.shape, self.fused, self.inputs, self.target, self.local, self.on_tiles, weights, values[1]
        )

    def without_outer_taps(self) -> ConvProblem:
        """The convolution without the taps that see nothing but padding: with a dilation of 36, a 3x3 window on a map
        of 16x16 is one of 1x1."""
        shape, weights = self.shape, present(self.weights)
        window, pads = list(shape.window), list(shape.pads)
        for axis, (taps, step, stride) in enumerate(
            zip(shape.window, shape.dilations, shape.strides, strict=True)
        ):
            size, out, (begin, end) = shape.size[axis], shape.out[axis], shape.pads[axis]
            if taps == 1 or is_size(size) or is_size(out):
                continue
            # The first and the last position of the input that a tap sees, counted from the input's begin.
            seen = [(tap * step - begin, (out - 1) * stride + tap * step - begin) for tap in range(taps)]
            inside = [tap for tap, (first, last) in enumerate(seen) if last >= 0 and first < size] or [0]
            # Paddings stay at least 0.
            first = min(inside[0], begin // step)
            last = max(inside[-1], taps - 1 - end // step)
            window[axis] = last - first + 1
            pads[axis] = (begin - first * step, end - (taps - 1 - last) * step)
            if window[axis] < taps:
                weights = weights.take(range(first, last + 1), axis=axis + 5 - shape.rank)
        if tuple(window) == shape.window:
            return self
        return replace(self, shape=replace(shape, window=tuple(window), pads=tuple(pads)), weights=weights)

    # ---- groups -----------------------------------------------------------------------------------------------

    @cached_property
    def lies_within(self) -> bool:
        """Whether groups lie within vectors, or there is one channel and one filter, in reach of 32-bit distances."""
        shape = self.shape
        quickest = self.local or self.joins_too_many or shape.group_channels <= QUICKEST_GROUP
        within = quickest and suits(shape, self.lanes)
        return (within or shape.channels == shape.filters == 1) and is_near(shape, self.lanes)

    @cached_property
    def joins(self) -> bool:
        """Whether groups fill whole vectors only when several are joined, with zeros between them."""
        return joined_groups(self.shape, self.lanes) > 1

    @cached_property
    def joins_too_many(self) -> bool:
        """Whether more groups are joined than fill vectors, for want of a better divisor of their number: 55 groups of
        8 channels on 16 lanes all at once, 55 times the products (RegNetY-400MF took 23.4 ms, and takes 9.1 with
        groups within vectors; AVX-512)."""
        shape, lanes = self.shape, self.lanes
        enough = (lanes // math.gcd(lanes, extent) for extent in (shape.group_channels, shape.group_filters))
        return joined_groups(shape, lanes) > math.lcm(*enough)

    @cached_property
    def direct(self) -> DirectProblem:
        """The problem of the direct kernel, its groups joined."""
        merged, wide = merge_groups(self.shape.deep(), present(self.weights), self.lanes)
        one = self.shape.group_channels, self.shape.group_filters
        return DirectProblem(
            merged,
            wide,
            self.bias,
            self.fused.activation,
            exact=self.fused.exact,
            joined=one if self.joins else (0, 0),
        )

    # ---- lowerings --------------------------------------------------------------------------------------------

    def lowering(
        self,
        name: str,
        x: Layout,
        seconds: float,
        calls: Calls,
        *,
        y: Layout | None = None,
        temporaries: Types = (),
        rounding: float = 1.0,
        by_size: bool = False,
    ) -> Lowering:
        """The lowering that reads x in a layout and writes y, by default in blocks; a residual lies as y does, and y
        may take its memory. `calls` packs weights once and the bias up to three times (for weights that come at run
        time there is room for no more), and must not hold on to this problem: a lowering that waits to be bound would
        keep all that others made of the weights. `rounding`: how many times the error of a plain sum it may make.
        `by_size`: see Lowering."""
        residual, result = self.fused.residual, Layout(self.lanes) if y is None else y
        layouts: list[Layout | None] = [None] * len(self.inputs)
        layouts[0] = x
        if residual is not None:
            layouts[residual] = result

        def bind(inputs: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
            made, *memory = outputs
            added = None if residual is None else inputs[residual]
            return list(calls(present(inputs[0]), made, added, *memory))

        return Lowering(
            name,
            tuple(layouts),
            (result,),
            bind,
            seconds,
            rounding * summation_tolerance(self.shape.group_channels * self.shape.taps),
            temporaries,
            in_place=() if residual is None else (residual,),
            by_size=by_size,
        )


def is_near(shape: ConvShape, lanes: int) -> bool:
    """Whether the taps of a window lie within 2^31 elements, for the 32-bit distances of depthwise kernels."""
    deep, step, farthest = shape.deep(), lanes, 0
    for axis in (2, 1, 0):
        begin, end = deep.pads[axis]
        farthest += ((deep.window[axis] - 1) * deep.dilations[axis] + abs(begin)) * step
        step *= deep.size[axis] + max(begin, 0) + max(end, 0)
    return farthest < 1 << 31
