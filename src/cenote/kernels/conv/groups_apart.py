"""Grouped convolutions whose groups do not fill whole vectors, group by group: each group's channels get blocks of
their own in scratch memory, the last block perhaps ragged.

Joined with zeros between them until they fill vectors (`direct_calls.merge_groups`), four groups of 484 channels take
four times the multiply-adds: 0.82 ms for 1x1 to 128 filters each at 7x7, against 0.22 ms apart. Joined, an infinity
or NaN of one group times the zeros of its neighbours is NaN; apart, no group reads another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import dataclass
from cenote.core.pool_geometry import Pairs
from cenote.core.sizes import is_size
from cenote.core.target import Target
from cenote.core.types import FLOAT32, PLAIN, Layout, TensorType
from cenote.kernels.base import Call, View, buffer_elements, dense_strides, halo_offset
from cenote.kernels.conv.direct_calls import DirectProblem, direct_calls
from cenote.kernels.layout.reorder import reorder_call, zero_halo_call


@dataclass(frozen=True)
class GroupBlocks:
    """Blocked tensors (n, groups * channels, *size) whose groups each begin with a new block."""

    n: int
    groups: int
    channels: int
    size: tuple[int, ...]
    layout: Layout

    @property
    def _images(self) -> tuple[int, ...]:
        """Shape of the tensor with every group taken as an image."""
        return (self.n * self.groups, self.channels, *self.size)

    @property
    def elements(self) -> int:
        """Number of elements that one such tensor takes in memory."""
        return buffer_elements(self._images, self.layout)

    def view(self, memory: View) -> View:
        """View of the blocked tensor in memory of so many elements."""
        step, *rest = dense_strides(self._images, self.layout)
        padded = self.groups * (-(-self.channels // self.layout.lanes)) * self.layout.lanes
        whole = View(
            TensorType(FLOAT32, (self.n, padded, *self.size)),
            self.layout,
            (self.groups * step, *rest),
            memory.slot,
        )
        return whole.at(halo_offset(self._images, self.layout))

    def pairs(self, plain: View, blocked: View) -> Iterator[tuple[View, View]]:
        """Yield views of a plain tensor beside those of the same in blocks, every group as an image: one pair where
        the images lie one group behind the other, else a pair per image."""
        step, *rest = dense_strides(self._images, self.layout)
        group = self.channels * plain.strides[1]
        whole = (not is_size(self.n) and self.n == 1) or plain.strides[0] == self.groups * group
        images = 1 if whole else self.n
        type = TensorType(
            FLOAT32, (self.n * self.groups if whole else self.groups, self.channels, *self.size)
        )
        for image in range(images):
            there = replace(blocked.at(image * self.groups * step), type=type, strides=(step, *rest))
            here = plain.at(image * plain.strides[0])
            yield View(type, PLAIN, (group, *plain.strides[1:]), here.slot), there


def inputs_apart(shape: ConvShape, lanes: int, halo: Pairs) -> GroupBlocks:
    """Return the blocks of the input, with a border of zeros."""
    return GroupBlocks(shape.n, shape.groups, shape.group_channels, shape.size, Layout(lanes, halo))


def outputs_apart(shape: ConvShape, lanes: int) -> GroupBlocks | None:
    """Return the blocks of the output; None where groups of filters fill whole vectors anyway."""
    if shape.group_filters % lanes == 0:
        return None
    return GroupBlocks(shape.n, shape.groups, shape.group_filters, shape.out, Layout(lanes))


def apart_calls(
    shape: ConvShape,
    problem: DirectProblem,
    x: View,
    y: View,
    memory: list[View],
    residual: View | None,
    target: Target,
) -> Iterator[Call]:
    """Yield the calls for a plain x. y is blocked where groups of filters fill whole vectors, else plain, and so is
    the residual; `memory` is for the input's blocks and, in that case, the output's and the residual's."""
    lanes = target.lanes()
    inside, outside = inputs_apart(shape, lanes, shape.halo), outputs_apart(shape, lanes)
    blocked = inside.view(memory[0])
    yield from into_blocks(inside, x, blocked)
    if outside is None:
        yield from direct_calls(problem, blocked, y, residual, target)
        return
    blocked_y, blocked_residual = outside.view(memory[1]), None
    if residual is not None:
        blocked_residual = outside.view(memory[2])
        yield from into_blocks(outside, residual, blocked_residual)
    yield from direct_calls(problem, blocked, blocked_y, blocked_residual, target)
    yield from out_of_blocks(outside, blocked_y, y)


def into_blocks(blocks: GroupBlocks, x: View, blocked: View) -> Iterator[Call]:
    """Yield the calls that copy a plain tensor into blocks, with zeros around them."""
    if any(begin or end for begin, end in blocks.layout.halo):
        yield zero_halo_call(blocked)
    for number, pair in enumerate(blocks.pairs(x, blocked)):
        yield replace(reorder_call(*pair), independent=number > 0)


def out_of_blocks(blocks: GroupBlocks, blocked: View, y: View) -> Iterator[Call]:
    """Yield the calls that copy blocks into a plain tensor."""
    for number, (plain, group) in enumerate(blocks.pairs(y, blocked)):
        yield replace(reorder_call(group, plain), independent=number > 0)
