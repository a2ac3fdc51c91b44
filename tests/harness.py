"""Runs one lowering on arrays, as `cenote check-operator` does (`cenote.verification.contract.harness`)."""

from __future__ import annotations

from collections.abc import Sequence

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


def run_alone(
    op: Op, arrays: Sequence[Array | None], out: Sequence[Array] | None = None, threads: int | None = None
) -> tuple[Array, ...]:
    """The outputs of an operator on row-major arrays as `cenote.functional` runs it; `out`: arrays to fill."""
    types = [None if x is None else TensorType.known(x) for x in arrays]
    return prepared_runner(op, types, threads)[0](arrays, out)
