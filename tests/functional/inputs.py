"""Inputs and short calls that the tests of this folder share."""

from __future__ import annotations

from typing import Any

import numpy as np

from cenote.core.types import BFLOAT16

INT32_MAX = 2**31 - 1
FLOATS = (np.float64, np.float32, np.float16, BFLOAT16)


def line(*values: float, dtype: Any = np.float32) -> Any:
    return np.array(values, dtype)


def one(function: Any, values: Any, *args: Any, **kwargs: Any) -> list[float]:
    """A 1-D pool of a plain line, as a list."""
    result: list[float] = function(np.asarray(values, np.float32), *args, layout="L", **kwargs).tolist()
    return result


def noise(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)
