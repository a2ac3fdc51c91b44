"""Comparisons of what lowerings compute with the reference of their operator."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from cenote.core.target import Target
from cenote.core.types import Array, Layout, is_float
from cenote.ops.base import Lowering, Op
from cenote.verification.contract.harness import lowerings_of, require, run_lowering


def check_sample(
    op: Op,
    arrays: Sequence[Array | None],
    target: Target,
    constants: bool,
    some: Sequence[Lowering] | None = None,
    halos: bool = False,
) -> int:
    """Compare some lowerings or all with the reference, whole and in pieces. Return how many. `halos`: also with halos
    around blocked tensors; one target is enough, since what they change is addresses. Raises ContractError."""
    with np.errstate(all="ignore"):
        wanted = op.reference(*arrays)
    lowerings = lowerings_of(op, arrays, target, constants) if some is None else some
    for lowering in lowerings:
        where = f"{op} via {lowering.name} on {target.name}, constants {constants}"
        whole = run_lowering(op, lowering, arrays, target, constants=constants)
        for got, want in zip(whole, wanted, strict=True):
            assert_close(got, want, lowering.tolerance, where)
        for chunk in (1, 3):
            pieces = run_lowering(op, lowering, arrays, target, constants=constants, chunk=chunk, junk=0x5A)
            for got, want in zip(pieces, whole, strict=True):
                require(same_bits(got, want), f"{where}: pieces of {chunk} give other bits")
        roomy = with_halos(lowering, [None if a is None else a.ndim for a in arrays], wanted)
        if roomy is not None and halos:
            surrounded = run_lowering(op, roomy, arrays, target, constants=constants)
            for got, want in zip(surrounded, wanted, strict=True):  # sums may run in another order
                assert_close(got, want, lowering.tolerance, f"{where}, with halos")
    return len(lowerings)


def same_bits(a: Array, b: Array) -> bool:
    """Whether two arrays are the same down to their bits."""
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
    """Raise ContractError unless an array is the wanted one within a tolerance, relative to the largest element."""
    require(got.shape == want.shape, f"{where}: shape {got.shape}, wanted {want.shape}")
    require(got.dtype == want.dtype, f"{where}: type {got.dtype}, wanted {want.dtype}")
    if not want.size:
        return
    if not is_float(want.dtype):
        limit = tolerance * float(np.abs(want.astype(np.float64)).max())
        apart = np.abs(got.astype(np.float64) - want.astype(np.float64))
        require((apart <= limit).all(), f"{where}: off by {apart.max():g}")
        return
    got, want = got.astype(np.float64), want.astype(np.float64)
    require(np.array_equal(np.isnan(got), np.isnan(want)), f"{where}: NaN at other places")
    infinite = np.isinf(want) | np.isinf(got)
    require(np.array_equal(got[infinite], want[infinite]), f"{where}: infinities differ")
    finite = np.isfinite(want)
    if not finite.any():
        return
    largest = float(np.abs(want[finite]).max())
    error = float(np.abs(got[finite] - want[finite]).max())
    require(
        error <= tolerance * largest, f"{where}: error {error / (largest or 1):.2e} of the largest output"
    )
