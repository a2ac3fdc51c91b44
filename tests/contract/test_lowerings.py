"""Every native lowering of every operator against its float64 reference, from the operator's own samples.

Each runs on outputs full of junk between guard bytes, whole and in pieces (run in reverse order), which must give the
same bits; blocked inputs have NaN in their junk lanes; halos larger than asked for surround blocked tensors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.core.target import Target
from cenote.core.types import Array, Layout, TensorType, is_float
from cenote.ops import operators
from cenote.ops.base import Lowering, Op, Sample, ShapeFromData, ValueNeeded
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


def check_sample(
    op: Op,
    arrays: Sequence[Array | None],
    target: Target,
    constants: bool,
    some: Sequence[Lowering] | None = None,
) -> None:
    """Some lowerings or all. Halos for the widest target only: what they change is addresses."""
    with np.errstate(all="ignore"):
        wanted = op.reference(*arrays)
    for lowering in lowerings_of(op, arrays, target, constants) if some is None else some:
        where = f"{op} via {lowering.name} on {target.name}, constants {constants}"
        whole = run_lowering(op, lowering, arrays, target, constants=constants)
        for got, want in zip(whole, wanted, strict=True):
            assert_close(got, want, lowering.tolerance, where)
        for chunk in (1, 3):
            pieces = run_lowering(op, lowering, arrays, target, constants=constants, chunk=chunk, junk=0x5A)
            for got, want in zip(pieces, whole, strict=True):
                assert same_bits(got, want), f"{where}: pieces of {chunk} give other bits"
        roomy = with_halos(lowering, [None if a is None else a.ndim for a in arrays], wanted)
        if roomy is not None and target is TARGETS[0]:
            surrounded = run_lowering(op, roomy, arrays, target, constants=constants)
            for got, want in zip(surrounded, wanted, strict=True):  # sums may run in another order
                assert_close(got, want, lowering.tolerance, f"{where}, with halos")


def same_bits(a: Array, b: Array) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def with_halos(lowering: Lowering, ranks: list[int | None], wanted: Sequence[Array]) -> Lowering | None:
    """The lowering with a halo around every blocked tensor that did not ask for one; None if there is none."""

    def widened(layout: Layout | None, rank: int | None) -> Layout | None:
        if layout is None or not layout.is_blocked or rank is None:
            return layout
        halo = layout.halo or ((0, 0),) * (rank - 2)
        return Layout(layout.lanes, tuple((begin + 1, end + 2) for begin, end in halo))

    inputs = tuple(widened(layout, rank) for layout, rank in zip(lowering.inputs, ranks, strict=True))
    outputs = tuple(widened(layout, y.ndim) for layout, y in zip(lowering.outputs, wanted, strict=True))
    if inputs == lowering.inputs and outputs == lowering.outputs:
        return None
    return dataclasses.replace(lowering, inputs=inputs, outputs=outputs)  # type: ignore[arg-type]


def assert_close(got: Array, want: Array, tolerance: float, where: str) -> None:
    assert got.shape == want.shape, f"{where}: shape {got.shape}, wanted {want.shape}"
    assert got.dtype == want.dtype, f"{where}: type {got.dtype}, wanted {want.dtype}"
    if not want.size:
        return
    if not is_float(want.dtype):
        limit = tolerance * float(np.abs(want.astype(np.float64)).max())
        assert (np.abs(got.astype(np.float64) - want.astype(np.float64)) <= limit).all(), where
        return
    got, want = got.astype(np.float64), want.astype(np.float64)
    assert np.array_equal(np.isnan(got), np.isnan(want)), f"{where}: NaN at other places"
    infinite = np.isinf(want) | np.isinf(got)
    assert np.array_equal(got[infinite], want[infinite]), f"{where}: infinities differ"
    finite = np.isfinite(want)
    if not finite.any():
        return
    largest = float(np.abs(want[finite]).max())
    error = float(np.abs(got[finite] - want[finite]).max())
    assert error <= tolerance * largest, f"{where}: error {error / (largest or 1):.2e} of the largest output"


def test_there_are_lowerings() -> None:
    """The suite would pass if nothing were lowered: these must be."""
    wanted = {"add", "mul", "relu", "sigmoid", "clip", "softmax", "resize", "concat", "pad", "lrn"}
    native = {op.name for op in operators() if op.name in wanted and any(_lowered(s) for s in listed(op))}
    assert native == wanted


def _lowered(sample: Sample) -> bool:
    types: list[TensorType | None] = input_types(sample.inputs, True)
    return next(iter(sample.op.lowerings(types, TARGETS[0])), None) is not None
