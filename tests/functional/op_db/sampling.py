"""Comparisons of resizing, reading at places and windows with PyTorch's samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import CenoteError
from tests.functional.op_db.database import op_db, torch
from tests.functional.op_db.elementwise import plain

NAMES = {
    f"nn.functional.{name}": name for name in ("interpolate", "grid_sample", "affine_grid", "unfold", "fold")
}
TYPES = {"float32": 2e-5, "float64": 1e-10, "float16": 4e-3, "bfloat16": 3e-2, "uint8": 0}
HALVES = (torch.float16, torch.bfloat16)
OPS = [op for op in op_db if op.name in NAMES]


def compare(op: Any, kind: str, sample: Any) -> str:
    """Assert that a sample's answers agree; gives why it is left out, or ""."""
    if op.name.endswith("grid_sample") and sample.input.dtype in HALVES:  # PyTorch computes places in halves
        inputs = (x.float() if isinstance(x, torch.Tensor) else x for x in (sample.input, *sample.args))
        wanted = plain(op.op(*inputs, **sample.kwargs).to(sample.input.dtype))
    else:
        wanted = plain(op.op(sample.input, *sample.args, **sample.kwargs))
    given = [plain(x) for x in (sample.input, *sample.args)]
    got = getattr(F, NAMES[op.name])(*given, **{k: plain(v) for k, v in sample.kwargs.items()})
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    if kind == "uint8" and sample.kwargs.get("mode") in ("bilinear", "bicubic"):
        # PyTorch's bytes are off its own floats, ours are those rounded.
        exact = op.op(sample.input.float(), *sample.args, **sample.kwargs).clamp(0, 255).numpy()
        assert np.abs(got - exact).max() <= 0.51
    else:
        close(got, wanted, TYPES[kind])
    return ""


def refuse(op: Any, error: Any) -> str:
    """Assert that an error input is refused; gives why it is left out, or ""."""
    sample = error.sample_input
    given = [plain(x) for x in (sample.input, *sample.args)]
    with pytest.raises((CenoteError, TypeError)):
        getattr(F, NAMES[op.name])(*given, **{k: plain(v) for k, v in sample.kwargs.items()})
    return ""


def close(got: Any, wanted: Any, tolerance: float) -> None:
    np.testing.assert_allclose(
        got.astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=tolerance, equal_nan=True
    )
