"""Record of an elementwise formula: all that kernels, operators and tests must know of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cenote.codegen.values import Value
from cenote.core.deferred import dataclass
from cenote.core.types import FLOAT64, is_float


@dataclass(frozen=True)
class ElementwiseFormula:
    """A function of elements.

    emit       appends its instructions: of the kernel, values of the type that it computes in, and parameters
    apply      the same in NumPy, on arrays; floats come as float64
    types      a letter for each kind of types that it exists for: "d" float64, "f" narrower floats (computed in
               float32), "i" integers, "?" bool (one bit)
    weight     operations per element, for estimates
    tolerance  error in float32, relative to the largest output
    exact      the result is one of the operands, or exact in 16 bits when those are: nothing to round
    is_short   a handful of instructions, for an activation
    """

    emit: Callable[..., Value]
    apply: Callable[..., Any]
    types: str = "fd"
    weight: int = 1
    tolerance: float = 0.0
    exact: bool = False
    is_short: bool = False

    def serves(self, dtype: np.dtype[Any]) -> bool:
        """Whether it exists for operands of a type."""
        kind = "i" if dtype.kind in "iu" else "?" if dtype == np.bool_ else None
        if is_float(dtype):
            kind = "d" if dtype == FLOAT64 else "f"
        return kind is not None and kind in self.types
