"""Native ways to compute a convolution; the chooser compares their `seconds`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from cenote.core.conv_geometry import ConvShape
from cenote.core.sizes import is_size, maximum
from cenote.core.sizes import plain as plain_size
from cenote.core.target import Target
from cenote.core.types import FLOAT32, PLAIN, Array, Layout, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.conv.depthwise import QUICKEST_GROUP, depthwise_calls, suits
from cenote.kernels.conv.direct_plan import DirectProblem, direct_calls, merge_groups
from cenote.kernels.conv.groups_apart import apart_calls, inputs_apart, outputs_apart
from cenote.kernels.conv.regions import region_calls, share_of_taps, taps_read
from cenote.kernels.conv.winograd_plan import WinogradPlan
from cenote.kernels.cost_model import conversion_seconds, moved_seconds, peak_seconds, weight_seconds
from cenote.kernels.layout.reorder import pad_call
from cenote.kernels.partial_sums import summation_tolerance
from cenote.ops.base import Bind, Lowering
from cenote.ops.epilogue import Epilogue


def constant(inputs: Sequence[TensorType | None], index: int | None) -> Array | None:
    """The content of an input known at compile time."""
    kind = None if index is None else inputs[index]
    return None if kind is None else kind.value


def conv_lowerings(
    shape: ConvShape,
    inputs: Sequence[TensorType | None],
    fused: Epilogue,
    target: Target,
    *,
    local: bool = False,
) -> Iterator[Lowering]:
    """Candidates for float32 with constant weights and bias; `local`: those in which an element reaches the outputs
    whose windows hold it and no others, so not Winograd's, and no groups joined by zeros (0 * inf is NaN)."""
    weights, bias = constant(inputs, 1), constant(inputs, fused.bias)
    if weights is None or (fused.bias is not None and bias is None) or not weights.size or 0 in shape.out:
        return
    shape, weights = without_outer_taps(shape, weights)
    weights = weights.reshape(*weights.shape[:2], *(1,) * (3 - shape.rank), *shape.window)
    if fused.pool:
        if not local and fused.residual is None:
            yield from _winograd(without_odd_ends(shape), weights[:, :, 0], bias, inputs, fused, target)
        return
    within = suits(shape, target.lanes()) and (local or shape.group_channels <= QUICKEST_GROUP)
    if (within or shape.channels == shape.filters == 1) and is_near(shape, target.lanes()):
        yield _depthwise(shape, weights, bias, inputs, fused, target)
        if shape.groups > 1 and shape.group_channels <= QUICKEST_GROUP:
            return
    by_size = not local and bool(_winograd_tiles(shape))
    for option in _direct(shape, weights, bias, inputs, fused, target, local):
        yield dataclasses.replace(option, by_size=by_size)
    if not local:
        yield from _winograd(shape, weights[:, :, 0], bias, inputs, fused, target)


def without_outer_taps(shape: ConvShape, weights: Array) -> tuple[ConvShape, Array]:
    """The convolution without the taps that see nothing but padding: with a dilation of 36, a 3x3 window on a map of
    16x16 is one of 1x1."""
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
        weights = weights.take(range(first, last + 1), axis=axis + 2) if window[axis] < taps else weights
    if tuple(window) == shape.window:
        return shape, weights
    return dataclasses.replace(shape, window=tuple(window), pads=tuple(pads)), weights


def is_near(shape: ConvShape, lanes: int) -> bool:
    """Whether the taps of a window lie within 2^31 elements, for the 32-bit distances of depthwise kernels."""
    deep, step, farthest = shape.deep(), lanes, 0
    for axis in (2, 1, 0):
        begin, end = deep.pads[axis]
        farthest += ((deep.window[axis] - 1) * deep.dilations[axis] + abs(begin)) * step
        step *= deep.size[axis] + max(begin, 0) + max(end, 0)
    return farthest < 1 << 31


# Window (height, width): outputs per tile. 1-D convolutions have height 1.
WINOGRAD_TILES: dict[tuple[int, ...], tuple[tuple[int, int], ...]] = {
    (3, 3): ((4, 4), (3, 3), (2, 2)),
    (5, 5): ((2, 2),),
    (1, 3): ((1, 4),),
    (3, 1): ((4, 1),),
    (1, 7): ((1, 2),),
    (7, 1): ((2, 1),),
}
_WORTH_REGIONS = 0.8  # of the plain sum's taps
LEAST_CHANNELS = 16  # below, transforms cost more than they save


def has_pooled_lowering(shape: ConvShape) -> bool:
    """Whether a convolution in float32 with constant weights and bias can write its 2x2 maxima, two apart."""
    return (
        shape.rank == 2
        and shape.window == (3, 3)
        and shape.groups == 1
        and set(shape.strides) == set(shape.dilations) == {1}
        and min(shape.channels, shape.filters) >= LEAST_CHANNELS
        and all(extent >= 2 for extent in shape.out)
        and shape.n > 0
    )


def without_odd_ends(shape: ConvShape) -> ConvShape:
    """The convolution as far as windows of 2, two apart, cover its output."""
    return dataclasses.replace(shape, out=tuple(extent - extent % 2 for extent in shape.out))


def _winograd(
    shape: ConvShape,
    weights: Array,
    bias: Array | None,
    inputs: Sequence[TensorType | None],
    fused: Epilogue,
    target: Target,
) -> Iterator[Lowering]:
    """Stride 1, no dilation, one group, on maps at least as large as a tile: where sizes are not known yet, on those at
    hand. Smaller maps are one shorter tile."""
    size = shape.deep()
    for mv, mh in _winograd_tiles(shape):
        if fused.pool and (shape.rank != 2 or mv % 2 or mh % 2):
            continue
        if plain_size(size.out[1]) >= mv and plain_size(size.out[2]) >= mh:
            plan = WinogradPlan(_flat_shape(size), mv, mh, target, fused.pool)
            yield _winograd_tile(plan, shape, weights, bias, inputs, fused)


def _winograd_tiles(shape: ConvShape) -> tuple[tuple[int, int], ...]:
    """Outputs per tile that a convolution's window and channels allow."""
    simple = (
        shape.rank < 3 and shape.groups == 1 and set(shape.strides) == {1} and set(shape.dilations) == {1}
    )
    if not simple or min(shape.channels, shape.filters) < LEAST_CHANNELS or not shape.n:
        return ()
    return WINOGRAD_TILES.get(shape.deep().window[1:], ())


def _flat_shape(deep: ConvShape) -> ConvShape:
    """Height and width only."""
    axes = ("size", "out", "window", "strides", "pads", "dilations")
    return dataclasses.replace(deep, **{name: getattr(deep, name)[1:] for name in axes})


def _winograd_tile(
    plan: WinogradPlan,
    shape: ConvShape,
    weights: Array,
    bias: Array | None,
    inputs: Sequence[TensorType | None],
    fused: Epilogue,
) -> Lowering:
    lanes = plan.lanes

    def bind(inputs: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
        x = present(inputs[0])
        residual = None if fused.residual is None else inputs[fused.residual]
        between = outputs[1] if plan.temporary_elements else None
        return plan.calls(plan.pack(weights), bias, fused.activation, x, outputs[0], residual, between)

    temporaries = (TensorType(FLOAT32, (plan.temporary_elements,)),) if plan.temporary_elements else ()
    tall, wide = plan.mv, plan.mh
    name = f"winograd_f{tall}" if tall == wide else f"winograd_f{tall}x{wide}"
    name += "_pool" * fused.pool
    # Rounding errors are two to three times those of a plain sum (tests/kernels/conv/test_winograd.py measures them).
    return Lowering(
        name,
        layouts(inputs, Layout(lanes, shape.halo), fused.residual, lanes),
        (Layout(lanes),),
        bind,
        plan.seconds(),
        4 * summation_tolerance(shape.group_channels * shape.taps),
        temporaries,
        in_place=() if fused.residual is None else (fused.residual,),
        by_size=True,
    )


def _depthwise(
    shape: ConvShape,
    weights: Array,
    bias: Array | None,
    inputs: Sequence[TensorType | None],
    fused: Epilogue,
    target: Target,
) -> Lowering:
    """Groups within a vector. One filter per channel: bound by the caches' bandwidth; more: by the shuffles."""
    lanes = target.lanes()

    def bind(inputs: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
        x = present(inputs[0])
        residual = None if fused.residual is None else inputs[fused.residual]
        calls = depthwise_calls(
            shape.deep(), weights, bias, fused.activation, x, outputs[0], residual, target, fused.exact
        )
        return list(calls)

    moved = 4 * shape.n * shape.filters * (math.prod(shape.size) + shape.pixels)
    alone = shape.group_channels == 1
    seconds = maximum(peak_seconds(shape.operations, target, 0.6), moved_seconds(moved))
    return Lowering(
        "depthwise" if alone else "grouped",
        layouts(inputs, Layout(lanes, shape.halo), fused.residual, lanes),
        (Layout(lanes),),
        bind,
        seconds,
        summation_tolerance(shape.group_channels * shape.taps),
        in_place=() if fused.residual is None else (fused.residual,),
    )


def layouts(
    inputs: Sequence[TensorType | None], x: Layout, residual: int | None, lanes: int
) -> tuple[Layout | None, ...]:
    """x as asked, the residual blocked, weights and bias repacked."""
    layouts: list[Layout | None] = [None] * len(inputs)
    layouts[0] = x
    if residual is not None:
        layouts[residual] = Layout(lanes)
    return tuple(layouts)


def _direct(
    shape: ConvShape,
    weights: Array,
    bias: Array | None,
    inputs: Sequence[TensorType | None],
    fused: Epilogue,
    target: Target,
    local: bool,
) -> Iterator[Lowering]:
    lanes = target.lanes()
    in_place = () if fused.residual is None else (fused.residual,)
    tolerance = summation_tolerance(shape.group_channels * shape.taps)
    merged, wide = merge_groups(shape.deep(), weights, lanes)
    joins = merged.groups < shape.groups
    if joins and (local or shape.group_channels >= lanes):
        yield _apart(shape, weights, bias, inputs, fused, target)
    if joins and local:
        return
    problem = DirectProblem(merged, wide, bias, fused.activation, exact=fused.exact)
    padded_filters = -(-merged.filters // lanes) * lanes / max(1, merged.filters)
    seconds = peak_seconds(merged.operations * padded_filters, target, _efficiency(shape, lanes))
    yield Lowering(
        "direct_joined" if joins else "direct",
        layouts(inputs, Layout(lanes, shape.halo), fused.residual, lanes),
        (Layout(lanes),),
        _bind_direct(problem, fused, target),
        seconds,
        tolerance,
        in_place=in_place,
    )
    share = share_of_taps(problem.shape, lanes)
    if share <= _WORTH_REGIONS:

        def bind(inputs: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
            residual = None if fused.residual is None else inputs[fused.residual]
            return list(region_calls(problem, present(inputs[0]), outputs[0], residual, target))

        again = 4 * merged.filters * merged.channels * (taps_read(problem.shape) - merged.taps)
        yield Lowering(
            "direct_regions",
            layouts(inputs, Layout(lanes), fused.residual, lanes),
            (Layout(lanes),),
            bind,
            seconds * share / 0.9 + weight_seconds(max(0, again)),
            tolerance,
            in_place=in_place,
        )
    if shape.channels < lanes and shape.groups == 1:
        yield _plain(shape, problem, inputs, fused, target, tolerance)


def _efficiency(shape: ConvShape, lanes: int, *, plain: bool = False) -> float:
    """Fraction of peak that the direct kernel reaches: a tile's set-up costs as much as some 6 taps, of which a few
    channels take longer; small maps do not fill the tiles."""
    pixels = plain_size(shape.pixels * shape.n)
    most = (
        0.97
        if pixels >= 100
        else 0.93
        if pixels >= 24
        else 0.85
        if pixels >= 12
        else 0.6
        if pixels >= 4
        else 0.25
    )
    depth = shape.group_channels * shape.taps
    setup = 2.5 if shape.is_pointwise else 6.0
    if not plain and shape.group_channels % lanes:
        setup += 0.4 * shape.taps
    return most * depth / (depth + setup)


def _bind_direct(problem: DirectProblem, fused: Epilogue, target: Target) -> Bind:
    def bind(inputs: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
        x = present(inputs[0])
        residual = None if fused.residual is None else inputs[fused.residual]
        return list(direct_calls(problem, x, outputs[0], residual, target))

    return bind


def _apart(
    shape: ConvShape,
    weights: Array,
    bias: Array | None,
    inputs: Sequence[TensorType | None],
    fused: Epilogue,
    target: Target,
) -> Lowering:
    """Groups that fill no whole vectors, each in blocks of its own."""
    lanes = target.lanes()
    inside, outside = inputs_apart(shape, lanes, shape.halo), outputs_apart(shape, lanes)
    problem = DirectProblem(shape.deep(), weights, bias, fused.activation, exact=fused.exact)

    def bind(inputs: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
        residual = None if fused.residual is None else inputs[fused.residual]
        y, *memory = outputs
        return list(apart_calls(shape, problem, present(inputs[0]), y, memory, residual, target))

    blocks = [inside] + ([outside] * (1 + (fused.residual is not None)) if outside else [])
    temporaries = [TensorType(FLOAT32, (each.elements,)) for each in blocks]
    padded = -(-shape.group_filters // lanes) * lanes / max(1, shape.group_filters)
    seconds = peak_seconds(shape.operations * padded, target, _efficiency(shape, lanes))
    kept = list(layouts(inputs, PLAIN, fused.residual, lanes))
    if outside and fused.residual is not None:
        kept[fused.residual] = PLAIN
    return Lowering(
        "direct_apart",
        tuple(kept),
        (PLAIN if outside else Layout(lanes),),
        bind,
        seconds + sum(conversion_seconds(2 * each.nbytes) for each in temporaries),
        summation_tolerance(shape.group_channels * shape.taps),
        tuple(temporaries),
        in_place=() if fused.residual is None else (fused.residual,),
    )


def _plain(
    shape: ConvShape,
    problem: DirectProblem,
    inputs: Sequence[TensorType | None],
    fused: Epilogue,
    target: Target,
    tolerance: float,
) -> Lowering:
    """Few channels: read the caller's plain tensor, padded into a temporary where there is padding."""
    lanes = target.lanes()
    problem = dataclasses.replace(problem, plain=True, packed={})
    halo = shape.halo
    needs_copy = any(begin or end for begin, end in halo)
    padded = tuple(extent + begin + end for extent, (begin, end) in zip(shape.size, halo, strict=True))
    temporary = TensorType(FLOAT32, (shape.n, shape.channels, *padded))

    def bind(inputs: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
        x = present(inputs[0])
        residual = None if fused.residual is None else inputs[fused.residual]
        calls: list[Call] = []
        if needs_copy:
            calls.append(pad_call(x, outputs[1], [begin for begin, _ in halo]))
            x = outputs[1]
        return [*calls, *direct_calls(problem, x, outputs[0], residual, target)]

    operations = shape.operations * (-(-shape.filters // lanes) * lanes / shape.filters)
    seconds = peak_seconds(operations, target, _efficiency(shape, lanes, plain=True))
    return Lowering(
        "direct_plain",
        layouts(inputs, PLAIN, fused.residual, lanes),
        (Layout(lanes),),
        bind,
        seconds + moved_seconds(temporary.nbytes * needs_copy),
        tolerance,
        temporaries=(temporary,) if needs_copy else (),
        in_place=() if fused.residual is None else (fused.residual,),
    )
