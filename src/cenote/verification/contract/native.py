"""Checks of lowerings beside those of `comparison`: in the memory of an input, and on special values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cenote.core.target import Target
from cenote.core.types import Array, Layout, is_float
from cenote.kernels.base import View
from cenote.ops.base import Lowering, Op, Sample, ShapeFromData, ValueNeeded
from cenote.verification.contract.comparison import assert_close, same_bits
from cenote.verification.contract.harness import (
    ContractError,
    GuardedBuffer,
    input_types,
    launch,
    lowerings_of,
    new_view,
    pack,
    require,
    run_lowering,
    unpack,
)

# Where a bad element reaches outputs that the reference has finite: operators.md says so, and precision="exact" forbids
# these algorithms.
SPREADS = {
    "winograd": "transforms mix the places of a tile",
    "phases_winograd": "transforms mix the places of a tile",
    "strassen": "all results of a pixel that is not finite are NaN",
    "direct_joined": "zeros between joined groups",
}


def check_in_place(
    op: Op, lowering: Lowering, arrays: Sequence[Array | None], target: Target, constants: bool, index: int
) -> None:
    """Check that a lowering whose output takes the memory of input `index` gives the same bits."""
    apart = run_lowering(op, lowering, arrays, target, constants=constants)
    types = input_types(arrays, constants)
    output, *others = op.infer(*types)
    source = arrays[index]
    if source is None:
        raise ContractError(f"{op} via {lowering.name}: in_place names input {index}, which is absent")
    fits = (output.dtype, output.shape) == (source.dtype, source.shape)
    require(fits, f"{op} via {lowering.name}: in_place names input {index}, which does not fit the output")
    require(
        lowering.inputs[index] == lowering.outputs[0], f"{op} via {lowering.name}, in place: layouts differ"
    )
    buffers: list[GuardedBuffer] = []
    views: list[View | None] = []
    for array, type, layout in zip(arrays, types, lowering.inputs, strict=True):
        if array is None or type is None:
            views.append(None)
            continue
        views.append(new_view(type, layout or Layout(), buffers, 0xFF))
        pack(array, layout or Layout(), buffers[-1])
    shared = views[index]
    assert shared is not None, "as its array is there"
    extra = [*zip(others, lowering.outputs[1:], strict=True), *((t, Layout()) for t in lowering.temporaries)]
    rest = [new_view(type, layout, buffers, 0xFF) for type, layout in extra]
    y = View(output, shared.layout, shared.strides, shared.slot)
    for call in lowering.bind(views, [y, *rest]):
        launch(call, buffers, target)
    for number, buffer in enumerate(buffers):
        buffer.check(f"{op} via {lowering.name} in place, buffer {number}")
    result = unpack(buffers[shared.slot.index], output, shared.layout)
    require(
        same_bits(result, apart[0]), f"{op} via {lowering.name}: other bits in the memory of input {index}"
    )


def special_inputs(samples: Sequence[Sample]) -> Iterator[tuple[Sample, tuple[Array | None, ...]]]:
    """Yield samples with NaN, infinities and signed zeros among the data: two of each class and rank."""
    done: dict[Any, int] = {}
    for sample in samples:
        x = sample.inputs[0] if sample.inputs else None
        if x is None or not is_float(x.dtype) or x.dtype != np.float32 or x.size < 12:
            continue
        key = (type(sample.op), x.ndim)
        done[key] = done.get(key, 0) + 1
        if done[key] > 2:
            continue
        for values in ((np.nan,), (np.inf,), (-np.inf,), (-0.0, 0.0), (np.nan, np.inf, -np.inf, -0.0, 1e-41)):
            special = x.copy()
            special.reshape(-1)[5 :: max(7, x.size // 9)] = np.resize(
                values, special.reshape(-1)[5 :: max(7, x.size // 9)].size
            )
            yield sample, (special, *sample.inputs[1:])


def bad_inputs(sample: Sample) -> Iterator[tuple[Array | None, ...]]:
    """Yield the inputs of a sample with one NaN, and with one infinity, in the first."""
    x = sample.inputs[0] if sample.inputs else None
    if x is None or not is_float(x.dtype) or not x.size:
        return
    for bad, place in ((np.nan, x.size // 3), (np.inf, 2 * x.size // 3)):
        given = x.copy()
        given.reshape(-1)[place] = bad
        yield (given, *sample.inputs[1:])


def check_spread(
    op: Op, arrays: Sequence[Array | None], lowerings: Sequence[Lowering], target: Target
) -> None:
    """Check that outputs which the reference has finite are finite: a NaN or an infinity stays where it belongs."""
    with np.errstate(all="ignore"):
        wanted = op.reference(*arrays)
    for lowering in lowerings:
        if lowering.name.startswith(tuple(SPREADS)):
            continue
        for got, want in zip(run_lowering(op, lowering, arrays, target), wanted, strict=True):
            if is_float(want.dtype):
                spread = np.isfinite(want.astype(np.float64)) & ~np.isfinite(got.astype(np.float64))
                require(
                    not spread.any(),
                    f"{op} via {lowering.name}: one bad element spoils {spread.sum()} of {spread.size} outputs that "
                    "the reference has finite",
                )


def check_special(op: Op, arrays: Sequence[Array | None], target: Target) -> None:
    """Check lowerings on NaN, infinities and signed zeros: they come out where the reference has them."""
    try:
        lowerings = lowerings_of(op, arrays, target, True)
    except (ShapeFromData, ValueNeeded):
        return
    with np.errstate(all="ignore"):
        wanted = op.reference(*arrays)
    for lowering in lowerings:
        if "winograd" not in lowering.name:  # its transforms mix the places of a tile
            for got, want in zip(run_lowering(op, lowering, arrays, target), wanted, strict=True):
                assert_close(got, want, lowering.tolerance, f"{op} via {lowering.name}")
