"""Transposed convolution as plain ones: output pixels with the same remainder by the stride see the same taps.

Along an axis with stride s and dilation d, output p gets x[i] * w[k] where p + pad = i * s + k * d. For p = phase + s *
q the k that divide evenly are regular, so each phase is a convolution of stride 1 whose output is written every s
pixels. Groups are never joined (`direct_calls.merge_groups`): those within a vector take the depthwise kernel, others
that do not fill whole vectors get blocks of their own (`groups_apart`).
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import dataclass
from cenote.core.pool_geometry import Pairs
from cenote.core.target import Target
from cenote.core.types import Array
from cenote.kernels.base import Call, View
from cenote.kernels.conv.depthwise_calls import depthwise_calls
from cenote.kernels.conv.direct_calls import DirectProblem, direct_calls
from cenote.kernels.conv.groups_apart import inputs_apart, into_blocks, out_of_blocks, outputs_apart
from cenote.kernels.elementwise.activations import Activation


@dataclass(frozen=True)
class Phase:
    """Phase along one axis: its outputs `first`, first + stride ... (`count`), the taps in order of rising input
    pixel, the input pixel of the first tap for the first output, and the step between taps."""

    first: int
    count: int
    taps: tuple[int, ...]
    origin: int
    step: int


def phases(size: int, out: int, taps: int, stride: int, dilation: int, pad: int) -> list[Phase]:
    """Return the phases of one axis that have outputs; those that no tap reaches have no taps."""
    result = []
    step = dilation // math.gcd(stride, dilation)
    for first in range(min(stride, out)):
        reached = [k for k in range(taps) if (first + pad - k * dilation) % stride == 0][::-1]
        origin = (first + pad - reached[0] * dilation) // stride if reached else 0
        result.append(Phase(first, -(-(out - first) // stride), tuple(reached), origin, step))
    return result


def axis_phases(shape: ConvShape) -> list[list[Phase]]:
    """Return the phases of each axis."""
    return [
        phases(
            shape.size[a],
            shape.out[a],
            shape.window[a],
            shape.strides[a],
            shape.dilations[a],
            shape.pads[a][0],
        )
        for a in range(shape.rank)
    ]


def transpose_halo(shape: ConvShape) -> Pairs:
    """Return the widths of the border of zeros that the phases read around x."""
    halo = []
    for axis, phases_of_axis in enumerate(axis_phases(shape)):
        with_taps = [phase for phase in phases_of_axis if phase.taps]
        begin = max((-phase.origin for phase in with_taps), default=0)
        last = max(
            (phase.origin + (len(phase.taps) - 1) * phase.step + phase.count - 1 for phase in with_taps),
            default=0,
        )
        halo.append((max(0, begin), max(0, last - shape.size[axis] + 1)))
    return tuple(halo)


def phase_shapes(shape: ConvShape) -> Iterator[tuple[tuple[Phase, ...], ConvShape]]:
    """Yield each phase, one along each axis, and what it is as a plain convolution."""
    for chosen in itertools.product(*axis_phases(shape)):
        yield (
            chosen,
            dataclasses.replace(
                shape,
                out=tuple(phase.count for phase in chosen),
                window=tuple(len(phase.taps) for phase in chosen),
                strides=(1,) * shape.rank,
                pads=tuple((-phase.origin, 0) for phase in chosen),
                dilations=tuple(phase.step for phase in chosen),
            ),
        )


def transposed_parts(shape: ConvShape, weights: Array, y: View) -> Iterator[tuple[ConvShape, Array, View]]:
    """Yield each phase over three axes as a plain convolution, with its part of the weights (M, C/groups, *window) and
    the pixels of y that it writes."""
    strides = y.strides
    for chosen, piece in phase_shapes(shape):
        part = weights
        for axis, phase in enumerate(chosen):
            part = np.take(part, np.array(phase.taps, np.intp), axis=axis + 2)
        missing = shape.rank - (len(strides) - 2)
        scaled = tuple(step * s for step, s in zip(strides[2:], shape.strides[missing:], strict=True))
        offset = sum(phase.first * step for phase, step in zip(chosen[missing:], strides[2:], strict=True))
        yield piece, part, dataclasses.replace(y, strides=(*strides[:2], *scaled)).at(offset)


def transpose_calls(
    shape: ConvShape,
    weights: Array,
    bias: Array | None,
    activation: Activation,
    x: View,
    y: View,
    target: Target,
    within: bool = False,
    *,
    exact: bool = False,
) -> Iterator[Call]:
    """Yield the calls for weights (C, M/groups, *window) over three axes: one, sometimes two, per phase. Each group
    begins with a block of x and y, or groups lie `within` a vector (`depthwise.suits`)."""
    cg, og = shape.group_channels, shape.group_filters
    w = weights.reshape(shape.groups, cg, og, *shape.window).swapaxes(1, 2)
    w = w.reshape(shape.filters, cg, *shape.window)
    others = False
    for piece, part, view in transposed_parts(shape, w, y):
        if within and not part.size:  # no taps: the bias alone
            piece = dataclasses.replace(piece, groups=1)
        if within and part.size:
            calls = depthwise_calls(piece, part, bias, activation, x, view, None, target, exact)
        else:
            problem = DirectProblem(piece, part, bias, activation, exact=exact)
            calls = direct_calls(problem, x, view, None, target)
        for call in calls:
            yield dataclasses.replace(call, independent=others)  # each writes pixels or blocks of its own
            others = True


def apart_transpose_calls(
    shape: ConvShape,
    weights: Array,
    bias: Array | None,
    activation: Activation,
    x: View,
    y: View,
    memory: Sequence[View],
    target: Target,
    *,
    exact: bool = False,
) -> Iterator[Call]:
    """Yield the calls of `transpose_calls` for a plain x, group by group. y is blocked where groups of filters fill
    whole vectors, else plain; `memory` is for the input's blocks and, in that case, the output's."""
    lanes = target.lanes()
    inside, outside = inputs_apart(shape, lanes, transpose_halo(shape)), outputs_apart(shape, lanes)
    blocked = inside.view(memory[0])
    yield from into_blocks(inside, x, blocked)
    result = y if outside is None else outside.view(memory[1])
    deep = shape.deep()
    taps = weights.reshape(*weights.shape[:2], *deep.window)
    yield from transpose_calls(deep, taps, bias, activation, blocked, result, target, exact=exact)
    if outside is not None:
        yield from out_of_blocks(outside, result, y)
