"""Comparisons of products, convolutions and attention with PyTorch's samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import CenoteError
from tests.functional.op_db.database import array

NAMES = (
    "matmul", "mm", "bmm", "addmm", "nn.functional.linear", "nn.functional.conv1d", "nn.functional.conv2d",
    "nn.functional.conv3d", "nn.functional.conv_transpose1d", "nn.functional.conv_transpose2d",
    "nn.functional.conv_transpose3d", "nn.functional.scaled_dot_product_attention",
)  # fmt: skip
TYPES = {"float64": 1e-12, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2, "int64": 0, "int32": 0, "int16": 0,
         "int8": 0, "uint8": 0}  # fmt: skip


def run(op: Any, sample: Any) -> np.ndarray:
    """The sample through cenote.functional."""
    function = getattr(F, op.name.rsplit(".", maxsplit=1)[-1])
    arguments = [array(x) for x in (sample.input, *sample.args)]
    result: np.ndarray = function(*arguments, **{name: array(x) for name, x in sample.kwargs.items()})
    return result


def close(got: np.ndarray, wanted: Any, tolerance: float) -> None:
    expected = array(wanted)
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    a, b = got.astype(np.float64), expected.astype(np.float64)
    scale = max(1.0, float(np.abs(b[np.isfinite(b)]).max(initial=0)))
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * scale)


def compare(op: Any, kind: str, sample: Any) -> str:
    """Assert that a sample's answers agree; gives why it is left out, or ""."""
    if sample.kwargs.get("dropout_p", 0):
        return "dropout within attention"
    if "int" in kind and ("conv" in op.name or "linear" in op.name):
        return "convolutions and layers of integers"
    close(run(op, sample), op.op(sample.input, *sample.args, **sample.kwargs), TYPES[kind])
    return ""


def refuse(op: Any, error: Any) -> str:
    """Assert that an error input is refused; gives why it is left out, or ""."""
    with pytest.raises(CenoteError) as caught:
        run(op, error.sample_input)
    assert op.name.rsplit(".", maxsplit=1)[-1] in str(caught.value) or ":" in str(caught.value)
    return ""
