"""The pooling answers against a loop over every window."""

from itertools import product

import numpy as np
import pytest

from bench.cases import POOL_CASES, PoolCase
from bench.pool_reference import error, reference

SMALL = [
    PoolCase("2d max", "max", (2, 3, 9, 7), 3, 2, 1),
    PoolCase("2d max even", "max", (1, 2, 8, 8), 4, 1),
    PoolCase("1d max", "max", (2, 3, 17), 4, 4),
    PoolCase("3d max", "max", (1, 2, 5, 6, 7), 2, 2),
    PoolCase("2d average", "average", (1, 2, 7, 6), 3, 1, 1),
    PoolCase("3d average", "average", (1, 2, 4, 5, 6), 3, 1, 1),
    PoolCase("average of what is inside", "average", (1, 2, 7, 6), 5, 1, 2, count_padding=False),
    PoolCase("global", "global average", (1, 4, 3, 5)),
    PoolCase("adaptive", "adaptive average", (1, 2, 11, 9), adaptive_size=4),
]


def window(case: PoolCase, i: int, size: int) -> tuple[int, int]:
    """Begin and end of one window along an axis, before clipping."""
    if case.kind == "global average":
        return 0, size
    if case.kind == "adaptive average":
        return i * size // case.adaptive_size, -(-(i + 1) * size // case.adaptive_size)
    begin = i * case.stride - case.padding
    return begin, begin + case.kernel


def one_window(case: PoolCase, plane: np.ndarray, place: tuple[int, ...]) -> float:
    bounds = [window(case, i, size) for i, size in zip(place, plane.shape, strict=True)]
    values = plane[tuple(slice(max(0, begin), end) for begin, end in bounds)].astype(np.float64)
    if case.kind == "max":
        return float(values.max())
    counted = case.kind == "average" and case.count_padding
    return float(values.sum() / (case.kernel**case.rank if counted else values.size))


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_reference_is_what_a_loop_finds(case: PoolCase):
    x = np.random.default_rng(0).standard_normal(case.shape, dtype=np.float32)
    expected = np.empty(case.output_shape)
    for n, c in product(range(case.shape[0]), range(case.shape[1])):
        for place in np.ndindex(*case.output_shape[2:]):
            expected[(n, c, *place)] = one_window(case, x[n, c], place)
    assert error(reference(case, x), (expected,)) < 1e-14


def test_indices_point_at_the_first_largest_value():
    case = PoolCase("with ties", "max", (1, 2, 9, 8), 3, 2, 1, indices=True)
    x = np.random.default_rng(0).integers(0, 3, case.shape).astype(np.float32)
    values, where = reference(case, x)
    for c, i, j in np.ndindex(*case.output_shape[1:]):
        rows = range(max(0, 2 * i - 1), min(9, 2 * i + 2))
        columns = range(max(0, 2 * j - 1), min(8, 2 * j + 2))
        candidates = [row * 8 + column for row in rows for column in columns]
        assert where[0, c, i, j] == max(candidates, key=lambda flat, c=c: x[0, c].flat[flat])
        assert values[0, c, i, j] == x[0, c].flat[where[0, c, i, j]]


def test_error_judges_shape_and_indices():
    values, where = np.ones((1, 1, 2, 2)), np.zeros((1, 1, 2, 2), np.int64)
    assert error((values, where), (values, where)) == 0.0
    assert error((values, where + 1), (values, where)) == float("inf")
    assert error((values,), (values, where)) == float("inf")
    assert error((values[..., :1],), (values,)) == float("inf")
    assert error((values * 1.5,), (values,)) == pytest.approx(0.5)


def test_case_names_are_unique():
    assert len({case.name for case in POOL_CASES}) == len(POOL_CASES)
