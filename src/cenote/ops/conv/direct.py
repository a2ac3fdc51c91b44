"""Convolutions as plain sums: the direct kernel on blocked and plain memory, on groups joined and apart, in regions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from cenote.core.conv_geometry import ConvShape
from cenote.core.sizes import plain as plain_size
from cenote.core.target import Target
from cenote.core.types import FLOAT32, PLAIN, Layout, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.constants import constants_of
from cenote.kernels.conv.direct_calls import DirectProblem, direct_calls
from cenote.kernels.conv.groups_apart import apart_calls, inputs_apart, outputs_apart
from cenote.kernels.conv.joined_calls import joined_calls, joined_share
from cenote.kernels.conv.regions import WORTH_REGIONS, direct_region_calls, is_cut, share_of_taps, taps_read
from cenote.kernels.cost_model import conversion_seconds, moved_seconds, peak_seconds, weight_seconds
from cenote.kernels.layout.reorder import pad_call
from cenote.ops.base import Lowering
from cenote.ops.conv.problem import ConvProblem
from cenote.ops.conv.winograd import in_pieces, tiles_of

_MOST_JOINED = 1 << 20  # weights of groups that are all joined, most of them zeros that are never read
_PIXELS = (100, 24, 12, 4)  # of the map, from which `direct_shares` hold


def direct(problem: ConvProblem, target: Target) -> Iterator[Lowering]:
    """Yield the lowering of groups that fill whole vectors, and of one group of any size."""
    if not problem.joins:
        yield _direct(problem, "direct")


def joined(problem: ConvProblem, target: Target) -> Iterator[Lowering]:
    """Yield the lowering of other groups, joined with zeros between them."""
    if problem.joins and not problem.local:
        yield _direct(problem, "direct_joined")


def _direct(problem: ConvProblem, name: str) -> Lowering:
    direct, target = problem.direct, problem.target
    calls, seconds = direct_calls, _seconds(problem)
    if problem.joins and (not problem.joins_too_many or direct.weights.size <= _MOST_JOINED):
        calls, seconds = joined_calls, seconds * joined_share(direct, problem.lanes, target.registers)
    return problem.lowering(
        name,
        Layout(problem.lanes, problem.shape.halo),
        seconds,
        lambda x, y, residual: calls(direct, x, y, residual, target),
        by_size=_depends_on_size(problem),
    )


def regions(problem: ConvProblem, target: Target) -> Iterator[Lowering]:
    """Yield the lowering of convolutions with many taps in the padding: dilated ones, or of open depth."""
    if problem.joins and (problem.local or problem.direct.shape.groups > 1):
        return
    direct = problem.direct
    share = share_of_taps(direct.shape)
    if direct.shape.group_channels % problem.lanes or share > WORTH_REGIONS:
        return
    # Only a volume that is not dilated is not cut along height and width.
    halo = () if is_cut(direct.shape, 1) else ((0, 0), *problem.shape.halo[1:])
    again = (
        4 * direct.shape.filters * direct.shape.group_channels * (taps_read(direct.shape) - direct.shape.taps)
    )
    yield problem.lowering(
        "direct_regions",
        Layout(problem.lanes, halo),
        _seconds(problem) * share / constants_of(target).direct_regions + weight_seconds(max(0, again)),
        lambda x, y, residual: direct_region_calls(direct, x, y, residual, target),
        by_size=_depends_on_size(problem),
    )


def apart(problem: ConvProblem, target: Target) -> Iterator[Lowering]:
    """Yield the lowering of groups that fill no whole vectors, each in blocks of its own."""
    shape, lanes, fused = problem.shape, problem.lanes, problem.fused
    if not problem.joins:
        return
    if not (problem.local or problem.joins_too_many or shape.group_channels >= lanes):
        return
    inside, outside = inputs_apart(shape, lanes, shape.halo), outputs_apart(shape, lanes)
    direct = DirectProblem(
        shape.deep(), present(problem.weights), problem.bias, fused.activation, exact=fused.exact
    )
    blocks = [inside] + ([outside] * (1 + (fused.residual is not None)) if outside else [])
    temporaries = tuple(TensorType(FLOAT32, (each.elements,)) for each in blocks)
    padded = -(-shape.group_filters // lanes) * lanes / max(1, shape.group_filters)
    seconds = peak_seconds(shape.operations * padded, target, efficiency(shape, target))
    yield problem.lowering(
        "direct_apart",
        PLAIN,
        seconds + sum(conversion_seconds(2 * each.nbytes) for each in temporaries),
        lambda x, y, residual, *memory: apart_calls(shape, direct, x, y, [*memory], residual, target),
        y=PLAIN if outside else None,
        temporaries=temporaries,
        by_size=_depends_on_size(problem),
    )


def plain(problem: ConvProblem, target: Target) -> Iterator[Lowering]:
    """Yield the lowering of few channels: it reads the plain tensor, padded into a temporary where there is padding."""
    shape, lanes = problem.shape, problem.lanes
    if shape.channels >= lanes or shape.groups > 1:
        return
    direct, halo = dataclasses.replace(problem.direct, plain=True, packed={}), shape.halo
    needs_copy = any(begin or end for begin, end in halo)
    padded = tuple(extent + begin + end for extent, (begin, end) in zip(shape.size, halo, strict=True))
    temporary = TensorType(FLOAT32, (shape.n, shape.channels, *padded))

    def calls(x: View, y: View, residual: View | None, *memory: View) -> Iterator[Call]:
        if memory:
            yield pad_call(x, memory[0], [begin for begin, _ in halo])
        yield from direct_calls(direct, memory[0] if memory else x, y, residual, target)

    operations = shape.operations * (-(-shape.filters // lanes) * lanes / shape.filters)
    seconds = peak_seconds(operations, target, efficiency(shape, target, plain=True))
    yield problem.lowering(
        "direct_plain",
        PLAIN,
        seconds + moved_seconds(temporary.nbytes * needs_copy),
        calls,
        temporaries=(temporary,) if needs_copy else (),
        by_size=_depends_on_size(problem),
    )


def _depends_on_size(problem: ConvProblem) -> bool:
    """Whether large maps are better left to Winograd's algorithms."""
    return not problem.local and bool(tiles_of(problem.shape) or in_pieces(problem.shape))


def _seconds(problem: ConvProblem) -> float:
    """The estimate for blocked memory."""
    merged, lanes = problem.direct.shape, problem.lanes
    padded = -(-merged.filters // lanes) * lanes / max(1, merged.filters)
    return peak_seconds(merged.operations * padded, problem.target, efficiency(problem.shape, problem.target))


def efficiency(shape: ConvShape, target: Target, *, plain: bool = False) -> float:
    """Fraction of peak that the direct kernel reaches: a tile's set-up costs as much as some 6 taps, of which a few
    channels take longer; small maps do not fill the tiles."""
    constants, pixels = constants_of(target), plain_size(shape.pixels * shape.n)
    *shares, most = constants.direct_shares
    most = next((share for least, share in zip(_PIXELS, shares, strict=True) if pixels >= least), most)
    depth = shape.group_channels * shape.taps
    setup = constants.direct_pointwise if shape.is_pointwise else constants.direct_window
    if not plain and shape.group_channels % target.lanes():
        setup += constants.direct_ragged * shape.taps
    return most * depth / (depth + setup)
