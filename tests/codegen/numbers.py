"""Functions of the builder over whole arrays, and errors in units in the last place."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from cenote.codegen import jit
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, Scalar, Value
from cenote.core.target import Target
from cenote.core.types import Array

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 1e-45, -1e-45, 3.4e38, -3.4e38, 1.17549435e-38]


def run(
    emit: Callable[..., Value], arrays: list[Array], target: Target, type: Scalar = F32, lanes: int = 0
) -> Array:
    """The function over whole arrays, by a kernel of one vector per piece."""
    lanes = lanes or target.lanes(arrays[0].dtype)
    count = -(-len(arrays[0]) // lanes)
    padded = [np.resize(x, count * lanes).copy() for x in arrays]
    result = np.empty(count * lanes, arrays[0].dtype)
    names = ["y", *(f"x{n}" for n in range(len(arrays)))]
    kernel = Kernel(
        f"f_{emit.__name__}_{lanes}_{type.name}", target, [Parameter(n, type, True) for n in names]
    )
    for i in kernel.range(kernel.begin, kernel.end):
        values = [kernel.pointer(name).load(i * lanes, lanes) for name in names[1:]]
        kernel.pointer("y").store(emit(kernel, *values), i * lanes)
    address = jit.addresses([kernel], target)[kernel.symbol]
    words = (ctypes.c_int64 * len(names))(result.ctypes.data, *(x.ctypes.data for x in padded))
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(address)
    call(ctypes.addressof(words), 0, count, None)
    return result[: len(arrays[0])]


def ulps(got: Array, wanted: Array) -> float:
    """Largest error in units in the last place of the wanted float; NaN and infinities must be the same."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = wanted.astype(got.dtype)
        assert np.array_equal(np.isnan(got), np.isnan(rounded)), "NaN differs"
        finite = np.isfinite(rounded) & np.isfinite(got)
        edge = np.isinf(rounded) != np.isinf(got)  # one step from infinity is an error of one step
        biggest = np.finfo(got.dtype).max
        assert not (edge & (np.abs(np.where(np.isinf(got), wanted, got)) < biggest * (1 - 1e-6))).any()
        both = np.isinf(rounded) & np.isinf(got)
        assert (rounded[both] == got[both]).all(), "infinities differ"
        step = np.spacing(np.abs(rounded[finite])).astype(np.float64)
        error = np.abs(got[finite].astype(np.float64) - wanted[finite]) / step
    return float(error.max())
