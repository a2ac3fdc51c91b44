"""Softmax and its logarithm, named and defaulted as torch.nn.functional."""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy as np

from cenote.core.errors import ArgumentError, shown
from cenote.functional.arguments import Operation, Types, given_array
from cenote.functional.dispatch import call
from cenote.functional.normalization import axis_of, on_axes
from cenote.functional.types import A
from cenote.ops.normalization.softmax import LogSoftmax, Softmax


def parse_softmax(types: Types, where: str, dim: Any) -> Operation:
    """Softmax or its logarithm."""
    rank = types[0].rank
    if dim is None:
        dim = 0 if rank in (0, 1, 3) else 1
    op = Softmax if where == "softmax" else LogSoftmax
    return on_axes(op(axis_of(where, dim, rank)), types)


def softmax(
    input: A,
    dim: SupportsIndex | None = None,
    *,
    dtype: Any = None,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """exp(x) / sum of exp(x) along `dim`, without overflow, as torch.nn.functional.softmax.

    dim    by default 0 for inputs of 0, 1 and 3 axes, else 1, as PyTorch's (deprecated) choice
    dtype  a NumPy float type that the input is converted to first (also integers)
    out    may be the input where dtype is None

    A line with NaN or +infinity in it, or of nothing but -infinity, gives NaN.
    """
    return _softmax("softmax", input, dim, dtype, out, threads)


def log_softmax(
    input: A,
    dim: SupportsIndex | None = None,
    *,
    dtype: Any = None,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """x - log(sum of exp(x)) along `dim`, as torch.nn.functional.log_softmax: see softmax."""
    return _softmax("log_softmax", input, dim, dtype, out, threads)


def _softmax(where: str, input: Any, dim: Any, dtype: Any, out: Any, threads: int | None) -> Any:
    if dtype is None:
        return call(parse_softmax, (input,), (where, dim), out, threads)
    array, restore = given_array(where, "input", input)
    try:
        converted = array.astype(np.dtype(dtype))
    except TypeError:
        raise ArgumentError(f"{where}: dtype must be a NumPy type, got {shown(dtype)}") from None
    result = call(parse_softmax, (converted,), (where, dim), out, threads)
    return result if out is not None else restore(result)
