"""Runs one lowering on arrays, as `cenote check-operator` does (`cenote.verification.contract.harness`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.core.types import Array, TensorType
from cenote.functional.dispatch import prepared_runner
from cenote.kernels.base import Packed, word_of
from cenote.kernels.driver import driver_abi
from cenote.kernels.launch import Launcher
from cenote.ops.base import Op
from cenote.runtime.program import Program
from cenote.runtime.steps import KernelStep, Slot, SlotKind
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
    "prepared",
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


def prepared(packed: Packed, target: object, pieces: int) -> Array:
    """What the kernel of a packed constant makes of its source, in so many pieces."""
    assert packed.prepared is not None
    call, source = packed.prepared.call, packed.prepared.source()
    ((symbol, address),) = Launcher([call], target).kernels(call)  # type: ignore[arg-type]
    words = (Slot(SlotKind.OUTPUT, 0), Slot(SlotKind.INPUT, 0), *map(word_of, call.arguments[2:]))
    step = KernelStep(symbol, symbol, address, words, call.items, -(-call.items // pieces), call.scratch)
    types = TensorType(source.dtype, source.shape), TensorType(packed.dtype, packed.shape)
    program = Program((step,), types[:1], types[1:], (), 0, driver_abi(), 1)
    made = np.full(packed.shape, np.nan, np.float32)
    program.run([source], [made])
    return made
