"""Short rows normalised side by side: any length and number of them, in place, with the bits that a row has alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cenote import functional
from cenote.core.types import TensorType
from cenote.kernels.reduction.normalize_short_rows import LONGEST, ROWS, NormalizeShortRows
from cenote.kernels.reduction.rows import GROUP
from cenote.ops.base import Op
from cenote.ops.normalization.layer_normalization import LayerNormalization, RMSNormalization
from cenote.ops.values import seeded
from cenote.verification.contract.comparison import check_sample
from cenote.verification.contract.harness import native_call, run_lowering
from tests.targets import TARGETS

OPERATORS: tuple[Op, ...] = (LayerNormalization(), RMSNormalization(), LayerNormalization(epsilon=0.0))


@pytest.mark.parametrize(
    ("shape", "taken"),
    [((GROUP, 1), True), ((2, 4, LONGEST), True), ((GROUP, LONGEST + 1), False), ((GROUP - 1, 24), False)],
)
def test_which_rows_it_takes(shape: tuple[int, ...], taken: bool) -> None:
    for op in OPERATORS:
        (lowering,) = op.lowerings(
            [TensorType.of(np.float32, shape), *[None] * (len(op.operands) - 1)], TARGETS[0]
        )
        seen: list[bool] = []

        def native(spec: Any, *rest: Any, seen: list[bool] = seen) -> None:
            seen.append(isinstance(spec, NormalizeShortRows))
            native_call(spec, *rest)

        run_lowering(
            op, lowering, (seeded(shape), *[None] * (len(op.operands) - 1)), TARGETS[0], native=native
        )
        assert seen == [taken]


@settings(max_examples=40)
@given(
    st.sampled_from(OPERATORS),
    st.integers(GROUP, 3 * ROWS),
    st.integers(1, 100),
    st.sampled_from([0.0, 100.0]),
    st.tuples(st.booleans(), st.booleans()),
    st.sampled_from(TARGETS),
)
def test_any_rows(
    op: Op, rows: int, columns: int, mean: float, given_: tuple[bool, bool], target: Any
) -> None:
    parameters = tuple(seeded((columns,), 2 + i) if wanted else None for i, wanted in enumerate(given_))
    x = seeded((rows, columns), 1) + np.float32(mean)
    if op.epsilon == 0.0 and columns == 1:  # type: ignore[attr-defined]
        return  # 0 / 0
    check_sample(op, (x, *parameters[: len(op.operands) - 1]), target, True)


@pytest.mark.parametrize("columns", [1, 15, 16, 17, 24, 96, LONGEST])
def test_a_row_does_not_depend_on_its_neighbours(columns: int) -> None:
    x = seeded((ROWS + GROUP + 3, columns), 3) + np.float32(5)
    together = functional.layer_norm(x, (columns,))
    for first in (0, 1, 7, len(x) - GROUP):
        np.testing.assert_array_equal(
            functional.layer_norm(x[first:][:GROUP], (columns,)), together[first:][:GROUP]
        )


@pytest.mark.parametrize("rows", [GROUP, GROUP + 1, ROWS - 1, ROWS + GROUP + 5])
@pytest.mark.parametrize("columns", [3, 16, 24, 37])
def test_in_place(rows: int, columns: int) -> None:
    """Rows behind the last one repeat it, and must not be normalised again."""
    x, weight = seeded((rows, columns), 4), seeded((columns,), 5)
    for call in (functional.layer_norm, functional.rms_norm):
        wanted = call(x, (columns,), weight)
        for threads in (1, 2):
            y = x.copy()
            call(y, (columns,), weight, out=y, threads=threads)
            np.testing.assert_array_equal(y, wanted)


def test_values_that_are_no_numbers_stay_in_their_rows() -> None:
    x = seeded((ROWS, 24), 6)
    x[3, 5], x[9, 23], x[10, 0] = np.nan, np.inf, -np.inf
    y = functional.layer_norm(x, (24,))
    bad = [3, 9, 10]
    assert np.isnan(y[bad]).any(axis=1).all()
    assert np.isfinite(np.delete(y, bad, axis=0)).all()


def test_large_numbers_and_rows_of_one_value() -> None:
    x = np.full((ROWS, 40), 3e4, np.float32)
    x[::2] += seeded((ROWS // 2, 40), 7)
    wide = x.astype(np.float64)
    wanted = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(functional.layer_norm(x, (40,)), wanted, atol=2e-6 * np.abs(wanted).max())
    assert not functional.layer_norm(x, (40,))[1::2].any()
