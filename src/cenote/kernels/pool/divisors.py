"""Factors or divisors per output row and column that turn the sums of windows into averages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cenote.core.types import Array, dtype_named
from cenote.kernels.pool.common import SUM, compute_type

ALIKE, DIVIDES = (0, 2), (2, 3)  # forms of scales: all columns alike; divisors instead of factors
GENERAL = 3  # the form that any counts can take, with the same results


def scale_form(counts: tuple[Sequence[float], ...], dtype: str, times: float, may_be_alike: bool) -> int:
    """Form of the scale that these counts give; one for columns that differ unless they `may_be_alike`."""
    planes, rows, columns = (np.asarray(count, np.float64) for count in counts)
    alike = may_be_alike and bool((columns == columns[0]).all())
    whole = compute_type(SUM, dtype_named(dtype)).is_float
    products = np.multiply.outer(planes * times, rows) * (columns[0] if alike else 1.0)
    divides = not (whole and _powers_of_two(products) and _powers_of_two(columns))
    return (0 if alike else 1) + 2 * divides


def scale_part(counts: tuple[Sequence[float], ...], dtype: str, times: float, form: int, part: int) -> Array:
    """Return a part of a scale in this form: part 0 per output row; part 1 per output column."""
    compute = compute_type(SUM, dtype_named(dtype))
    kind = np.dtype({"f32": np.float32, "f64": np.float64, "i32": np.int32}.get(compute.name, np.int64))
    planes, rows, columns = (
        np.asarray(count, np.float64 if compute.is_float else np.int64) for count in counts
    )
    result: Array = columns if part else np.multiply.outer(planes * kind.type(times), rows)
    if form in ALIKE and not part:
        result = result * columns[0]
    return (result if form in DIVIDES else np.reciprocal(result)).astype(kind)


def _powers_of_two(values: Array) -> bool:
    """Whether all reciprocals are exact; never those of integers."""
    return values.dtype.kind == "f" and bool((np.frexp(values)[0] == 0.5).all())
