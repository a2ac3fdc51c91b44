"""Comparisons of pools with PyTorch's samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import CenoteError
from tests.functional.op_db.database import array, op_db, torch

POOLS = [op for op in op_db if "pool" in op.name and op.name.startswith("nn.functional.")]
TYPES = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2, "int64": 0, "int32": 0, "int16": 0,
         "int8": 0, "uint8": 0}  # fmt: skip
# What the message of each kind of error input must name (PyTorch's own text on the left).
WORDS = {
    "output_size": "output_size",
    "Input dimension": "expected",
    "internal error": "output_size",
    "negative dimension": "output_size",
    "pad ": "padding",
    "divisor": "divisor_override",
    "non-empty": "not empty",
    "kernel_size": "kernel_size",
    "stride": "stride",
    "dilation": "dilation",
    "Expected 2D or 3D": "input",
    "Expected 3D or 4D": "input",
    "non-batch": "input",
    "Invalid computed output size": "output size would be -2",
    "too small": "output size would be 0",
    "indices": "indices",
}


def keywords(op: Any, sample: Any) -> dict[str, Any]:
    """The sample's keywords; fractional pools get their random numbers."""
    given = dict(sample.kwargs)
    if "fractional" in op.name:
        axes = 2 if "2d" in op.name else 3
        batch = sample.input.shape[0] if sample.input.dim() == axes + 2 else 1
        given["_random_samples"] = torch.rand(
            batch, sample.input.shape[-axes - 1], axes, dtype=sample.input.dtype
        )
    return given


def compare(op: Any, kind: str, sample: Any) -> str:
    """Assert that a sample's answers agree; gives why it is left out, or ""."""
    given = keywords(op, sample)
    wanted = op.op(sample.input, *sample.args, **given)
    got = getattr(F, op.name.split(".")[-1])(
        array(sample.input), *map(array, sample.args), **{k: array(v) for k, v in given.items()}
    )
    check(got, wanted, TYPES[kind])
    return ""


def refuse(op: Any, error: Any) -> str:
    """Assert that an error input is refused, and the argument named; gives why it is left out, or ""."""
    sample = error.sample_input
    wanted = next(word for text, word in WORDS.items() if text in error.error_regex)
    with pytest.raises(CenoteError) as caught:
        getattr(F, op.name.split(".")[-1])(
            array(sample.input), *map(array, sample.args), **{k: array(v) for k, v in sample.kwargs.items()}
        )
    assert wanted in str(caught.value), f"{error.error_regex}: {caught.value}"
    return ""


def check(got: Any, wanted: Any, tolerance: float) -> None:
    results = got if isinstance(got, tuple) else (got,)
    expected = wanted if isinstance(wanted, tuple) else (wanted,)
    for y, tensor in zip(results, expected, strict=True):
        want = array(tensor)
        assert isinstance(y, np.ndarray)
        assert (y.shape, y.dtype) == (want.shape, want.dtype)
        if y.dtype.kind in "iub":
            np.testing.assert_array_equal(y, want)
        else:
            np.testing.assert_allclose(
                y.astype(np.float64), want.astype(np.float64), rtol=tolerance, atol=tolerance
            )
