"""Convolutions one after the other, band of rows by band of rows, so that what lies between them stays in a near cache.

    for band of rows of y:                                       the calls of each convolution, for its rows alone
      inner 1 = conv 1 of the rows of x that the band needs      in scratch memory, with a border of zeros
      inner 2 = conv 2 of inner 1                                in scratch memory
      band    = conv 3 of inner 2

The block of mobile networks (1x1 to six times as many channels, depthwise, 1x1 back: M. Sandler et al., "MobileNetV2",
CVPR 2018) writes and reads the widest maps of the network for few operations. Rows of conv 1 that two bands' windows
both see are computed twice: one or two of some fifteen.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace

import numpy as np

from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import cached_property, dataclass
from cenote.core.errors import ShapeError
from cenote.core.pool_geometry import Pairs
from cenote.core.sizes import is_size
from cenote.core.target import Target
from cenote.core.types import FLOAT32, Array, Layout, TensorType
from cenote.kernels.base import Call, Packed, View, buffer_elements, dense_strides, halo_offset, present
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.layout.reorder import zero_halo_call
from cenote.ops.base import Arrays, Box, Lowering, Op, Sample, Types
from cenote.ops.conv.conv import Conv
from cenote.ops.values import seeded, wide

_ALGORITHMS = ("direct", "depthwise")  # whose calls need no memory of their own
_ROOM = 0.75  # of the second cache, for a band of the inner maps


@dataclass(frozen=True)
class BandedConvs(Op):
    """y of the last of two or three convolutions over x (N, C, H, W), each of which takes the result of the one before.

    Inputs: x, then the weights and the bias of each convolution, then what the last one adds, if its `residual` says
    so. Made by a pass, never by a front end. All are 1x1 or depthwise (`can_band`), and none has a pool. The native
    kernels take constant weights.
    """

    convs: tuple[Conv, ...] = field(default_factory=lambda: (Conv(), Conv()))

    name = "banded_convs"
    operands = ("x", "w1", "bias1?", "w2", "bias2?", "w3?", "bias3?", "residual?")

    def types(self, x: TensorType, *rest: TensorType | None) -> Types:
        return (self.links((x, *rest))[-1].y,)

    def compute(self, x: Array, *rest: Array | None) -> Arrays:
        y = wide(x)
        for index, conv in enumerate(self.convs):
            given = [*rest[2 * index : 2 * index + 2], rest[6] if conv.residual else None]
            (y,) = conv.reference(y, *(None if a is None else wide(a) for a in given))
        return (y.astype(x.dtype),)

    def links(self, inputs: Sequence[TensorType | None]) -> list[ChainedConv]:
        """The convolutions with their inputs. Raises ShapeError where they are no chain of such."""
        x, *rest = self.arranged(inputs)
        links: list[ChainedConv] = []
        for index, conv in enumerate(self.convs):
            w, bias = rest[2 * index : 2 * index + 2]
            if conv.pool or (conv.residual and index < len(self.convs) - 1):
                raise ShapeError(
                    "banded_convs: only the last convolution may add a tensor, and none may pool"
                )
            link = ChainedConv(conv, x, w, bias, rest[6] if conv.residual else None)
            if not can_band(link.shape):
                raise ShapeError(f"banded_convs: {conv} of {x} is neither 1x1 nor depthwise")
            links.append(link)
            x = link.y
        return links

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        links = self.links(inputs)
        constants = [each for link in links for each in (link.w, link.bias) if each is not None]
        x = links[0].x
        if x.dtype != FLOAT32 or any(each.value is None for each in constants) or any(map(is_size, x.shape)):
            return
        if not x.size or not links[-1].y.size:
            return
        whole = [link.of_rows((0, link.shape.size[0]), (0, link.shape.out[0]), target) for link in links]
        bands = Bands(links, target)
        layouts: list[Layout | None] = [None] * len(inputs)
        layouts[0] = whole[0].inputs[0]
        residual = 7 if links[-1].residual is not None else None
        if residual is not None:
            layouts[residual] = Layout(target.lanes())

        def bind(given: Sequence[View | None], made: Sequence[View]) -> Sequence[Call]:
            added = None if residual is None else given[residual]
            return list(bands.calls(present(given[0]), made[0], added, made[1:]))

        yield Lowering(
            "bands",
            tuple(layouts),
            whole[-1].outputs,
            bind,
            sum(each.seconds for each in whole),
            sum(each.tolerance for each in whole),
            tuple(TensorType(FLOAT32, (each.elements,)) for each in bands.inner),
        )

    def operations(self, outputs: Types, *inputs: TensorType | None) -> int:
        return sum(link.conv.cost(link.inputs).operations for link in self.links(inputs))

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        boxes: list[Box | None] = [None if each is None else Box.whole(each.shape) for each in inputs]
        if len(inputs) > 7:
            boxes[7] = box
        for link in reversed(self.links(inputs)):
            box = present(link.conv.region(box, link.inputs)[0])
        boxes[0] = box
        return tuple(boxes)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from _samples()


def can_band(shape: ConvShape) -> bool:
    """Whether a convolution is 1x1 or depthwise over maps of two axes, with a window that is not dilated."""
    depthwise = shape.groups == shape.channels == shape.filters and set(shape.dilations) == {1}
    return shape.rank == 2 and ((shape.is_pointwise and shape.groups == 1) or depthwise)


@dataclass(frozen=True)
class ChainedConv:
    """One of the convolutions, with the types of what it takes."""

    conv: Conv
    x: TensorType
    w: TensorType
    bias: TensorType | None
    residual: TensorType | None

    @cached_property
    def inputs(self) -> tuple[TensorType | None, ...]:
        return (self.x, self.w, self.bias, *([self.residual] if self.conv.residual else []))

    @cached_property
    def shape(self) -> ConvShape:
        return self.conv.shape(self.x, self.w)

    @cached_property
    def y(self) -> TensorType:
        return self.conv.infer(*self.inputs)[0]

    def box(self, rows: tuple[int, int]) -> Box:
        """These rows of the result."""
        n, filters, _, width = self.y.shape
        return Box(((0, n), (0, filters), rows, (0, width)))

    def rows_read(self, rows: tuple[int, int]) -> tuple[int, int]:
        """The rows of x that these rows of the result need."""
        return present(self.conv.region(self.box(rows), self.inputs)[0]).ranges[2]

    def part(self, rows: tuple[int, int]) -> Conv:
        """The convolution that computes rows of the result."""
        return self.conv.part(self.box(rows), self.inputs)

    def of_rows(self, read: tuple[int, int], rows: tuple[int, int], target: Target) -> Lowering:
        """The lowering that computes rows of the result from rows of x."""
        types = [_rows_of(self.x, read), *self.inputs[1:3]]
        if self.residual is not None:
            types.append(_rows_of(self.residual, rows))
        options = self.part(rows).lowerings(types, target)
        return next(each for each in options if each.name in _ALGORITHMS)


@dataclass(frozen=True)
class InnerMap:
    """Room for the rows of an inner map that any band has, with the border that the next convolution reads."""

    type: TensorType
    layout: Layout

    @property
    def elements(self) -> int:
        return buffer_elements(self.type.shape, self.layout)

    def view(self, memory: View) -> View:
        """All rows, in memory of so many elements."""
        whole = View(self.type, self.layout, dense_strides(self.type.shape, self.layout), memory.slot)
        return whole.at(halo_offset(self.type.shape, self.layout))

    def rows(self, memory: View, rows: tuple[int, int], of: int) -> View:
        """Room for these rows of a map of height `of`. Those that end the map end the room, whose border below is
        written once; others begin it."""
        count, room = rows[1] - rows[0], self.type.shape[2]
        first = room - count if rows[1] == of else 0
        return _from_row(self.view(memory), first, first + count)


class Bands:
    """The rows of every map, band by band: as many bands as the second cache needs for the inner maps of one."""

    def __init__(self, links: Sequence[ChainedConv], target: Target) -> None:
        self.links, self.target = links, target
        self.options: dict[tuple[int, Conv, int], Lowering] = {}  # of bands alike
        height = links[-1].shape.out[0]
        # In each band every tap sees more than padding: all read the same weights.
        least = max(-(-max(link.shape.pads[0]) // link.shape.strides[0]) + 1 for link in links)
        counts = range(1, max(1, height // least) + 1)
        fitting = bisect.bisect_left(counts, True, key=lambda count: self._fits(-(-height // count)))
        count = counts[min(fitting, len(counts) - 1)]
        ends = [band * height // count for band in range(count + 1)]
        self.rows = [self._band(*rows) for rows in itertools.pairwise(ends)]
        self.inner = self._rooms(self.rows)

    def _fits(self, rows: int) -> bool:
        """Whether the second cache holds the inner maps of a band of so many rows, of the middle: others read less."""
        begin = (self.links[-1].shape.out[0] - rows) // 2
        rooms = self._rooms([self._band(begin, begin + rows)])
        return 4 * sum(room.elements for room in rooms) <= _ROOM * self.target.l2_bytes

    def _band(self, begin: int, end: int) -> list[tuple[int, int]]:
        """The rows of x, of each inner map and of y."""
        found = [(begin, end)]
        for link in reversed(self.links):
            found.insert(0, link.rows_read(found[0]))
        return found

    def _rooms(self, bands: Sequence[Sequence[tuple[int, int]]]) -> list[InnerMap]:
        """Room for each inner map."""
        rooms, lanes = [], self.target.lanes()
        for index, link in enumerate(self.links[1:], 1):
            most = max(rows[index][1] - rows[index][0] for rows in bands)
            rooms.append(InnerMap(_rows_of(link.x, (0, most)), Layout(lanes, _border(link.shape))))
        return rooms

    def _option(self, index: int, read: tuple[int, int], rows: tuple[int, int]) -> Lowering:
        """The lowering of one convolution for rows of its result."""
        link = self.links[index]
        key = index, link.part(rows), read[1] - read[0]
        if key not in self.options:
            self.options[key] = link.of_rows(read, rows, self.target)
        return self.options[key]

    def calls(self, x: View, y: View, residual: View | None, memory: Sequence[View]) -> Iterator[Call]:
        """Yield the calls: those that write the borders of zeros, then those of one band after the other."""
        first: dict[tuple[int, int], Call] = {}
        heights = [link.shape.size[0] for link in self.links[1:]]
        for room, there in zip(self.inner, memory, strict=True):
            if room.layout.halo:
                yield zero_halo_call(room.view(there))
        for rows in self.rows:
            views = [_from_row(x, *rows[0])]
            for room, there, part, height in zip(self.inner, memory, rows[1:-1], heights, strict=True):
                views.append(room.rows(there, part, height))
            views.append(_from_row(y, *rows[-1]))
            for index, link in enumerate(self.links):
                given: list[View | None] = [views[index], None, None]
                if link.residual is not None:
                    given.append(_from_row(present(residual), *rows[-1]))
                option = self._option(index, rows[index], rows[index + 1])
                for number, call in enumerate(option.bind(given, [views[index + 1]])):
                    yield _sharing_weights(call, first.setdefault((index, number), call))


def _sharing_weights(call: Call, first: Call) -> Call:
    """The call with the packed weights of the first band's. A map of one or two pixels a row may pack its own."""
    own, packed = call.word("weights"), first.word("weights")
    assert isinstance(own, Packed | np.ndarray)
    assert isinstance(packed, Packed | np.ndarray)
    if own.shape != packed.shape:
        return call
    return call.changed(weights=packed, bias=first.word("bias"))


def _rows_of(whole: TensorType, rows: tuple[int, int]) -> TensorType:
    n, channels, _, width = whole.shape
    return TensorType(whole.dtype, (n, channels, rows[1] - rows[0], width))


def _from_row(view: View, first: int, stop: int) -> View:
    """Rows of a view."""
    return replace(view.at(first * view.strides[2]), type=_rows_of(view.type, (first, stop)))


def _border(shape: ConvShape) -> Pairs:
    return shape.halo if any(map(any, shape.halo)) else ()


def _samples() -> Iterator[Sample]:
    silu, clip = Activation("silu"), Activation("clip", 0.0, 6.0)
    one, two = ((1, 1), (1, 1)), ((2, 2), (2, 2))
    yield _sample("expand, depthwise, project", (16, 96, 96, 24), (1, 16, 14, 13), one, (1, 1), clip)
    yield _sample("residual", (24, 40, 40, 24), (1, 24, 9, 11), one, (1, 1), clip, residual=True)
    yield _sample("stride 2, SiLU", (20, 33, 33), (2, 20, 13, 12), two, (2, 2), silu)
    yield _sample("depthwise, project", (19, 19, 40), (1, 19, 8, 7), one, (1, 1), silu)
    yield _sample("same below", (16, 32, 32, 16), (1, 16, 8, 10), ((0, 1), (0, 1)), (2, 2), clip)


def _sample(
    label: str,
    channels: tuple[int, ...],
    x: tuple[int, ...],
    pads: Pairs,
    strides: tuple[int, int],
    activation: Activation,
    residual: bool = False,
) -> Sample:
    """Seeded inputs of a chain whose convolutions have so many channels."""
    convs, inputs = [], [seeded(x, 1)]
    has_expansion, window = len(channels) == 4 or channels[0] != channels[1], 2 * max(pads[0]) + 1
    for index, (c, filters) in enumerate(itertools.pairwise(channels)):
        if index == int(has_expansion):
            conv = Conv(strides, pads, groups=c, activation=activation)
            w = seeded((c, 1, window, window), 2 + index) / np.float32(window)
        else:
            last = index == len(channels) - 2
            conv = Conv(activation=Activation() if last else activation, residual=residual and last)
            w = seeded((filters, c, 1, 1), 2 + index) / np.float32(math.sqrt(c))
        convs.append(conv)
        inputs += [w, seeded((filters,), 5 + index)]
    given: list[Array | None] = [*inputs, *[None] * (7 - len(inputs))]
    if residual:
        given.append(seeded((x[0], channels[-1], *x[2:]), 9))
    return Sample(BandedConvs(tuple(convs)), tuple(given), label)
