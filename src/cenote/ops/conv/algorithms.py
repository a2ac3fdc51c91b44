"""The algorithms of convolutions, in the order in which they are tried when estimates are equal.

A new algorithm is a file with `offer(problem, target)` and a line here: docs/add_a_convolution_algorithm.md adds one.
It gives nothing where the algorithm does not serve the problem, else a lowering (Winograd's one for each size of
tiles): layouts, estimated seconds and what makes the calls.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from cenote.core.extensions.switched import (
    CONVOLUTION,
    CONVOLUTION_AT_RUN_TIME,
    TRANSPOSED_CONVOLUTION,
    considered,
)
from cenote.kernels.conv.depthwise import QUICKEST_GROUP
from cenote.ops.algorithm import Algorithm, lowerings_of
from cenote.ops.base import Lowering
from cenote.ops.conv import columns, depthwise, direct, parts, phases, rows, strassen, winograd
from cenote.ops.conv.problem import ConvProblem
from cenote.ops.conv.run_time_weights import run_time_weight_lowerings

ConvolutionAlgorithm = Algorithm[ConvProblem, Iterator[Lowering]]
"""One way to compute a convolution. Names of its lowerings begin with `name`. `cost`: multiply-adds per output, for c
channels and k filters a group and t taps."""


CONSTANT = (
    ConvolutionAlgorithm(
        "depthwise",
        depthwise.depthwise,
        "groups of one channel",
        "t, and as many loads: the caches' bandwidth bounds it",
    ),
    ConvolutionAlgorithm(
        "depthwise_regions",
        depthwise.regions,
        "dilated groups of up to four channels that reach far into the padding: each region has the taps that it sees",
        "c times the taps seen",
    ),
    ConvolutionAlgorithm(
        "grouped",
        depthwise.grouped,
        "groups of 2 and 4 channels (all that fill a vector when infinities must stay in their group, or when the "
        "number of groups has no divisor that fits)",
        "c t, each with a shuffle",
    ),
    ConvolutionAlgorithm(
        "direct_apart",
        direct.apart,
        "groups that fill no whole vectors, of at least a vector's channels or of a number without a divisor that "
        "fits: each in blocks of its own",
        "c t, k rounded up to vectors; copies of what lies apart",
    ),
    ConvolutionAlgorithm(
        "direct",
        direct.direct,
        "windows that move by more than one, 1x1, few pixels or few filters",
        "c t, k rounded up to vectors",
    ),
    ConvolutionAlgorithm(
        "direct_joined",
        direct.joined,
        "smaller groups: as many as fill vectors, with zeros between them",
        "c t times the groups that a few vectors of filters belong to",
    ),
    ConvolutionAlgorithm(
        "direct_regions",
        direct.regions,
        "windows that reach far into the padding, dilated or of open depth: each region has the taps that it sees",
        "c times the taps seen, 11 % slower",
    ),
    ConvolutionAlgorithm(
        "direct_plain",
        direct.plain,
        "fewer channels than a vector has lanes, one group: the caller's memory as it is",
        "c t; a padded copy",
    ),
    ConvolutionAlgorithm(
        "winograd",
        winograd.winograd,
        "2x2, 3x3, 5x5, and rows or columns of 2, 3 and 7, one apart, 3x3 and rows of 3 two apart, from 16 channels "
        "and filters on, in groups too that are whole vectors, on large maps; dilated where that divides the pads "
        "before; in volumes with any taps across such planes, and 3x1x1; along one axis any window from 5 on, dilated "
        "ones from 3",
        "c (m + r - 1)^2 / m^2 for m x m outputs and r x r windows, (2 m + 1)^2 / m^2 for windows two apart, times the "
        "taps across planes, and the transforms",
    ),
    ConvolutionAlgorithm(
        "strassen",
        strassen.strassen,
        "1x1 windows of one group, from some 200 channels and filters on, which fill vectors",
        "7/8 c; sums of the channels' halves and of the filters'",
    ),
    ConvolutionAlgorithm(
        "parts",
        parts.parts,
        "one group of many channels and filters, with AMX-FP16 and where it is asked for",
        "3 c t of float16 on tiles, c and k rounded up to 32; both parts of x, written and read",
    ),
)

# All that is asked for groups of a few channels within vectors, and for a convolution with a pool folded in.
WITHIN = tuple(
    each for each in CONSTANT if each.offer in (depthwise.depthwise, depthwise.regions, depthwise.grouped)
)
POOLED = tuple(each for each in CONSTANT if each.offer is winograd.winograd)

AT_RUN_TIME = (
    ConvolutionAlgorithm(
        "columns",
        columns.columns,
        "weights that nobody wants to pack: large ones, for small maps",
        "c t, and the columns: what each output's taps read, copied",
    ),
    ConvolutionAlgorithm(
        "direct_rows",
        rows.rows,
        "one group of at most 16 channels and 256 taps of all, windows that move by one along rows; of constant "
        "weights too",
        "c t, rows rounded up to vectors; a padded copy of x",
    ),
)

TRANSPOSED = (
    ConvolutionAlgorithm(
        "phases",
        phases.phases,
        "one group, groups that fill whole vectors, and those that lie within one",
        "c t / (the product of the strides)",
    ),
    ConvolutionAlgorithm(
        "phases_winograd",
        phases.winograd,
        "one group from 16 channels and filters on, where the window divided by the stride is 2 or 3, on large maps",
        "c (m + r - 1)^2 / m^2 for m x m outputs and windows of r x r in each phase, and the transforms",
    ),
    ConvolutionAlgorithm(
        "phases_apart",
        phases.apart,
        "all other groups: each in blocks of its own",
        "the same, k rounded up to vectors; copies of what lies apart",
    ),
)

# Besides those for weights at run time, all of the first list that keep infinities where they belong serve these.
PROBLEMS: Mapping[str, tuple[ConvolutionAlgorithm, ...]] = {
    CONVOLUTION: CONSTANT,
    CONVOLUTION_AT_RUN_TIME: AT_RUN_TIME,
    TRANSPOSED_CONVOLUTION: TRANSPOSED,
}


def algorithms_for(problem: ConvProblem) -> tuple[ConvolutionAlgorithm, ...]:
    """Algorithms considered for a convolution with constant weights."""
    if problem.fused.pool:
        return POOLED
    few = problem.shape.groups > 1 and problem.shape.group_channels <= QUICKEST_GROUP
    return WITHIN if few and problem.lies_within else CONSTANT


def convolution_lowerings(problem: ConvProblem) -> Iterator[Lowering]:
    """Yield the lowerings of a convolution.

    Algorithms of users are not asked for a convolution with a pool folded in. Those for constant weights are not asked
    where weights are packed at run time: what they make of the weights might not be a packing.
    """
    if problem.is_constant:
        yield from _of_constants(problem)
        if not problem.fused.pool:
            # It takes weights as the model has them. 83 ms of two threads to 40 for 32 pictures of 224x224 and 64
            # filters of 3x3x3, whose result is wanted in plain memory.
            yield from rows.rows(problem, problem.target) if problem.known() is not None else ()
            yield from _of_users(CONVOLUTION, problem)
    elif not problem.fused.pool:
        for each in AT_RUN_TIME:
            yield from each.offer(problem, problem.target)
        yield from _of_users(CONVOLUTION_AT_RUN_TIME, problem)
        # Of weights that come at run time there are no parts.
        yield from run_time_weight_lowerings(replace(problem, on_tiles=False), 3, _of_constants)


def _of_constants(problem: ConvProblem) -> Iterator[Lowering]:
    known = problem.known()
    if known is not None:
        known = known.without_outer_taps()
        for each in algorithms_for(known):
            yield from each.offer(known, known.target)


def _of_users(kind: str, problem: ConvProblem) -> Iterator[Lowering]:
    """Yield the lowerings of users' algorithms that are switched on."""
    for extension in considered(kind):
        known = problem.known() if problem.is_constant else problem
        if known is not None:
            yield from lowerings_of(extension, known, known.target)


def transposed_lowerings(problem: ConvProblem) -> Iterator[Lowering]:
    """Yield the lowerings of a transposed convolution."""
    if problem.is_constant:
        yield from _transposed_constants(problem)
        yield from _of_users(TRANSPOSED_CONVOLUTION, problem)
    else:
        calls = 3 * math.prod(problem.shape.strides)
        yield from run_time_weight_lowerings(problem, calls, _transposed_constants)


def _transposed_constants(problem: ConvProblem) -> Iterator[Lowering]:
    known = problem.known()
    if known is not None:
        for each in TRANSPOSED:
            yield from each.offer(known, known.target)
