"""Every native lowering of every operator against its float64 reference, from the operator's own samples.

Each runs on outputs full of junk between guard bytes, whole and in pieces (run in reverse order), which must give the
same bits; blocked inputs have NaN in their junk lanes; halos larger than asked for surround blocked tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.core.types import Array, TensorType, is_float
from cenote.ops.base import Lowering, Op, Sample, ShapeFromData, ValueNeeded
from cenote.ops.table import operators
from tests.contract.comparison import assert_close, check_sample
from tests.contract.samples import each_operator, listed, named, trials
from tests.harness import input_types, lowerings_of, run_lowering
from tests.targets import TARGETS


@each_operator
def test_lowerings(op: type[Op]) -> None:
    for place, target in enumerate(TARGETS):
        for sample, constants, lowerings in trials(op, target, place):
            if lowerings:
                with named(sample):
                    check_sample(sample.op, sample.inputs, target, constants, lowerings)


@each_operator
def test_special_values(op: type[Op]) -> None:
    """NaN, infinities and signed zeros in the data: they come out where the reference has them."""
    done: dict[Any, int] = {}
    for sample in listed(op):
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
            with named(sample):
                check_special(sample.op, (special, *sample.inputs[1:]))


# Where a bad element reaches outputs that the reference has finite: operators.md says so, and precision="exact" forbids
# these algorithms.
SPREADS = {"winograd": "transforms mix the places of a tile", "direct_joined": "zeros between joined groups"}


@each_operator
def test_a_bad_element_stays_where_it_belongs(op: type[Op]) -> None:
    """One NaN or infinity in the data: outputs that the float64 reference has finite are finite, in every algorithm.
    What lies beside it in a vector, a tile, a batch or a running sum must not meet it, not even times 0."""
    for sample, constants, lowerings in trials(op, TARGETS[0]):
        x = sample.inputs[0] if sample.inputs else None
        if not (lowerings and constants) or x is None or not is_float(x.dtype) or not x.size:
            continue
        for bad, place in ((np.nan, x.size // 3), (np.inf, 2 * x.size // 3)):
            given = x.copy()
            given.reshape(-1)[place] = bad
            with named(sample):
                check_spread(sample.op, (given, *sample.inputs[1:]), lowerings)


def check_spread(op: Op, arrays: Sequence[Array | None], lowerings: Sequence[Lowering]) -> None:
    with np.errstate(all="ignore"):
        wanted = op.reference(*arrays)
    for lowering in lowerings:
        if lowering.name.startswith(tuple(SPREADS)):
            continue
        for got, want in zip(run_lowering(op, lowering, arrays, TARGETS[0]), wanted, strict=True):
            if is_float(want.dtype):
                spread = np.isfinite(want.astype(np.float64)) & ~np.isfinite(got.astype(np.float64))
                assert not spread.any(), f"{op} via {lowering.name}: {spread.sum()} of {spread.size} outputs"


def check_special(op: Op, arrays: Sequence[Array | None]) -> None:
    try:
        lowerings = lowerings_of(op, arrays, TARGETS[0], True)
    except (ShapeFromData, ValueNeeded):
        return
    with np.errstate(all="ignore"):
        wanted = op.reference(*arrays)
    for lowering in lowerings:
        if not lowering.name.startswith("winograd"):  # its transforms mix the places of a tile
            for got, want in zip(run_lowering(op, lowering, arrays, TARGETS[0]), wanted, strict=True):
                assert_close(got, want, lowering.tolerance, f"{op} via {lowering.name}")


def test_there_are_lowerings() -> None:
    """The suite would pass if nothing were lowered: these must be."""
    wanted = {"add", "mul", "relu", "sigmoid", "clip", "softmax", "resize", "concat", "pad", "lrn"}
    native = {op.name for op in operators() if op.name in wanted and any(_lowered(s) for s in listed(op))}
    assert native == wanted


def _lowered(sample: Sample) -> bool:
    types: list[TensorType | None] = input_types(sample.inputs, True)
    return next(iter(sample.op.lowerings(types, TARGETS[0])), None) is not None
