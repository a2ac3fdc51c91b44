"""Runs one lowering on arrays, as `cenote check-operator` does (`cenote.verification.contract.harness`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.core.types import Array, TensorType
from cenote.functional.dispatch import prepared_runner
from cenote.ops.base import Op
from cenote.verification.contract.harness import (
    GUARD,
    KERNEL,
    Native,
    blocked,
    calls_of,
    input_types,
    interior,
    launch,
    lowerings_of,
    native_call,
    new_view,
    pack,
    run_lowering,
    unpack,
    view_of,
)
from cenote.verification.contract.harness import (
    GuardedBuffer as Buffer,
)

__all__ = [
    "GUARD",
    "KERNEL",
    "Buffer",
    "Native",
    "blocked",
    "calls_of",
    "input_types",
    "interior",
    "launch",
    "lowerings_of",
    "native_call",
    "new_view",
    "pack",
    "run_alone",
    "run_lowering",
    "unpack",
    "view_of",
]


def cast(x: Array, dtype: Any) -> Array:
    """x as another type; whole numbers wrap. Straight from floats, a negative number has no meaning as an unsigned one:
    x86 wraps, Arm gives 0 and NumPy warns."""
    return (x.astype(np.int64) if np.dtype(dtype).kind in "ui" else x).astype(dtype)


def run_alone(
    op: Op, arrays: Sequence[Array | None], out: Sequence[Array] | None = None, threads: int | None = None
) -> tuple[Array, ...]:
    """The outputs of an operator on row-major arrays as `cenote.functional` runs it; `out`: arrays to fill."""
    types = [None if x is None else TensorType.known(x) for x in arrays]
    return prepared_runner(op, types, threads)[0](arrays, out)
