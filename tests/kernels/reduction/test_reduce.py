"""Accuracy of long reductions, and that their order does not depend on how work is handed out."""

from __future__ import annotations

import numpy as np
import pytest

from cenote.core.target import Target
from cenote.kernels.reduction import launches
from cenote.ops.reduction.reduce import ReduceL2, ReduceMax, ReduceMean, ReduceProd, ReduceSum, Reduction
from cenote.ops.values import hostile, seeded
from cenote.verification.contract.comparison import same_bits
from tests.harness import lowerings_of, run_lowering
from tests.targets import TARGETS, over_targets, target_name


@pytest.mark.parametrize("axes", [(0, 1), (0,), (1,)])
@pytest.mark.parametrize("op", [ReduceSum, ReduceMean])
def test_sixteen_million_elements(op: type[Reduction], axes: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).random((1 << 20, 16), np.float32)
    x = x if axes != (1,) else x.reshape(16, 1 << 20)
    made = op(axes)
    lowering = lowerings_of(made, (x,), TARGETS[0], True)[0]
    (whole,) = run_lowering(made, lowering, (x,), TARGETS[0])
    wanted = x.sum(axis=axes, keepdims=True, dtype=np.float64)
    wanted = wanted / (x.size / wanted.size) if op is ReduceMean else wanted
    assert float(np.abs(whole / wanted - 1).max()) <= 1e-7  # float32 alone is 6e-8
    (pieces,) = run_lowering(made, lowering, (x,), TARGETS[0], chunk=5)
    assert same_bits(whole, pieces)


def test_squares_beyond_float32_under_a_root() -> None:
    x = np.array([[3e30, 4e30], [3e-30, 4e-30]], np.float32)
    for target in TARGETS:
        for lowering in lowerings_of(ReduceL2((1,)), (x,), target, True):
            (y,) = run_lowering(ReduceL2((1,)), lowering, (x,), target)
            np.testing.assert_allclose(y[:, 0], [5e30, 5e-30], rtol=1e-6)


KINDS = (ReduceSum, ReduceMean, ReduceMax, ReduceProd, ReduceL2)


@pytest.mark.parametrize(("op", "target"), over_targets([(each,) for each in KINDS], 2), ids=target_name)
def test_many_short_rows(op: type[Reduction], target: Target) -> None:
    """Rows side by side: any number of them, of any short length, with the same bits however they are grouped."""
    for rows, columns in ((8, 1), (9, 3), (64, 16), (65, 17), (71, 64), (130, 130)):
        for dtype in (np.float32, np.float64, np.float16, np.int32):
            x = seeded((2, rows, columns), rows, np.dtype(dtype))
            for made in (op((2,)), op((2,), keepdims=False)):
                if not (found := lowerings_of(made, (x,), target, True)):
                    continue  # means of integers
                lowering = found[0]
                (wanted,) = made.reference(x)
                (whole,) = run_lowering(made, lowering, (x,), target)
                np.testing.assert_allclose(
                    whole, wanted, rtol=2e-3 if dtype == np.float16 else 1e-5, atol=1e-5
                )
                (pieces,) = run_lowering(made, lowering, (x,), target, chunk=1, junk=0x5A)
                assert same_bits(whole, pieces), (rows, columns, dtype)


def test_special_values_keep_to_their_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the last group, which has the last row several times."""
    kinds: list[str] = []
    make = launches._rows_call
    monkeypatch.setattr(launches, "_rows_call", lambda kind, *rest: kinds.append(kind) or make(kind, *rest))
    x = hostile((67, 37), seed=3)
    for op in (ReduceMax((1,)), ReduceSum((1,))):
        (lowering, *_) = lowerings_of(op, (x,), TARGETS[0], True)
        (y,) = run_lowering(op, lowering, (x,), TARGETS[0])
        with np.errstate(all="ignore"):
            (wanted,) = op.reference(x)
        assert np.array_equal(np.isnan(y), np.isnan(wanted))
        assert np.array_equal(y[np.isinf(wanted)], wanted[np.isinf(wanted)])
    assert {*kinds} == {"max", "sum"}


@pytest.mark.parametrize(("op", "target"), over_targets([(each,) for each in KINDS], 2), ids=target_name)
def test_many_columns(op: type[Reduction], target: Target) -> None:
    """Rows read in order, in blocks, with rows and columns left over: the bits of a few columns at a time."""
    for rows, columns in ((16, 32768), (37, 16389), (300, 1040)):
        for dtype in (np.float32, np.float16, np.int32):
            x = seeded((rows, columns), rows, np.dtype(dtype))
            made = op((0,))
            if not (found := lowerings_of(made, (x,), target, True)):
                continue  # means of integers
            (wanted,) = made.reference(x)
            (whole,) = run_lowering(made, found[0], (x,), target)
            np.testing.assert_allclose(whole, wanted, rtol=2e-3 if dtype == np.float16 else 1e-5, atol=1e-4)
            (pieces,) = run_lowering(made, found[0], (x,), target, chunk=1, junk=0x5A)
            assert same_bits(whole, pieces), (rows, columns, dtype)
            few = np.ascontiguousarray(x[:, :64])  # less than is worth it
            (part,) = run_lowering(made, lowerings_of(made, (few,), target, True)[0], (few,), target)
            assert same_bits(whole[:, :64], part), (rows, columns, dtype)
