"""Native answers compared with those of the reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.codegen.jit import host_target
from cenote.core.types import BFLOAT16, Array, TensorType
from cenote.functional.ways.way import best_lowering
from cenote.ops.base import Lowering, Op
from tests.harness import run_alone

EPSILON = {
    np.dtype(np.float64): 1e-12,
    np.dtype(np.float32): 4e-6,
    np.dtype(np.float16): 2e-3,
    BFLOAT16: 1.6e-2,
}


def noise(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Array:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(dtype)


def kernel_of(op: Op, inputs: Sequence[TensorType]) -> Lowering | None:
    """The kernel that functions on arrays run; None where there is none."""
    return best_lowering(op.lowerings(inputs, host_target()), (*inputs, *op.infer(*inputs)))


def same(op: Op, *arrays: Array, tolerance: float | None = None) -> Array:
    """The native answer, which must be there, be the reference's and be the same bits on two threads."""
    types = [TensorType.known(array) for array in arrays]
    assert kernel_of(op, types) is not None, f"{op} has no kernel"
    with np.errstate(all="ignore"):
        (want, *_) = op.reference(*arrays)
    outs = [np.full(want.shape, 77).astype(want.dtype) for _ in range(2)]
    for threads, out in enumerate(outs, 1):
        run_alone(op, arrays, (out,), threads)
    assert outs[0].tobytes() == outs[1].tobytes(), f"{op}: threads change the bits"
    got = outs[0]
    exact, wide = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(exact), np.isnan(wide), err_msg=str(op))
    finite = np.isfinite(wide)
    np.testing.assert_array_equal(exact[~finite], wide[~finite], err_msg=str(op))
    limit = EPSILON[want.dtype] if tolerance is None else tolerance
    bound = limit * float(np.abs(wide[finite]).max(initial=0.0))
    assert float(np.abs(exact[finite] - wide[finite]).max(initial=0.0)) <= bound, str(op)
    return got
