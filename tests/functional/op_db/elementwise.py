"""Comparisons of elementwise functions with PyTorch's samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import CenoteError
from tests.functional.op_db.database import array, torch

TYPES = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2, "int64": 0, "int32": 0, "int16": 0,
         "int8": 0, "uint8": 0, "bool": 0}  # fmt: skip
PLAIN = (
    "add sub mul div floor_divide remainder fmod pow maximum minimum eq ne lt le gt ge logical_and logical_or "
    "logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift "
    "isnan isinf isfinite neg abs sign square exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal erf sin cos "
    "tan asin acos atan sinh cosh asinh acosh atanh floor ceil round trunc sigmoid clamp tanh"
)
ACTIVATIONS = (
    "relu relu6 leaky_relu elu selu celu gelu logsigmoid silu mish softplus softsign tanhshrink hardtanh hardsigmoid "
    "hardswish hardshrink softshrink threshold prelu"
)
# The name in op_db, and ours.
NAMES = {name: name for name in (*PLAIN.split(), "to")} | {
    f"nn.functional.{name}": name for name in ACTIVATIONS.split()
}


def plain(value: Any) -> Any:
    """Arguments as callers of ours give them."""
    return array(value.contiguous().resolve_neg()) if isinstance(value, torch.Tensor) else value


def compare(op: Any, kind: str, sample: Any) -> str:
    """Assert that a sample's answers agree; gives why it is left out, or ""."""
    if op.name == "to":  # devices, copies and orders of memory are no matter here
        wanted = op.op(sample.input, *sample.args, **sample.kwargs)
        got = F.to(plain(sample.input), str(wanted.dtype).removeprefix("torch."))
        check(got, plain(wanted), 0)
        return ""
    given = {k: v for k, v in sample.kwargs.items() if k != "inplace"}
    if any(isinstance(x, complex) for x in (*sample.args, *given.values())):
        return "complex numbers"
    cut = op.name == "nn.functional.hardtanh" and not sample.input.is_floating_point()
    if cut and any(bound != int(bound) for bound in given.values()):
        return "bounds of integers that are fractions"  # which PyTorch cuts
    wanted = op.op(sample.input, *sample.args, **given)
    if isinstance(wanted, torch.Tensor) and wanted.dtype.is_complex:
        return "complex numbers"
    got = getattr(F, NAMES[op.name])(
        plain(sample.input), *map(plain, sample.args), **{k: plain(v) for k, v in given.items()}
    )
    check(np.asarray(got), plain(wanted), TYPES[kind])
    return ""


def refuse(op: Any, error: Any) -> str:
    """Assert that an error input is refused; gives why it is left out, or ""."""
    sample = error.sample_input
    if any(type(x) is int for x in (sample.input, *sample.args)):
        return "plain numbers are operands here"
    with pytest.raises((CenoteError, TypeError)):
        getattr(F, NAMES[op.name])(
            plain(sample.input), *map(plain, sample.args), **{k: plain(v) for k, v in sample.kwargs.items()}
        )
    return ""


def check(got: Any, want: Any, tolerance: float) -> None:
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if got.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want)
        return
    tolerance = max(tolerance, {2: 2e-3, 4: 1e-5, 8: 1e-12}[got.dtype.itemsize])
    if got.dtype.name == "bfloat16":
        tolerance = 2e-2
    np.testing.assert_allclose(
        got.astype(np.float64), want.astype(np.float64), rtol=tolerance, atol=tolerance
    )
