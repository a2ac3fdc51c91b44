"""Comparisons of the dropout family with PyTorch's samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import CenoteError
from tests.functional.op_db.database import array, op_db

NAMES = {
    f"nn.functional.{name}": name
    for name in ("dropout", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
}
TYPES = {"float64": 1e-12, "float32": 1e-6, "float16": 1e-3, "bfloat16": 8e-3}
OPS = [op for op in op_db if op.name in NAMES]


def compare(op: Any, kind: str, sample: Any) -> str:
    """Assert that a sample's answer is possible: of an element x it is x, or 0 or x / (1 - p), or alpha_dropout's two
    values; without training, and for p of 0 and 1, PyTorch's answer."""
    given = {k: v for k, v in sample.kwargs.items() if k != "inplace"}
    p, training = given.get("p", 0.5), given.get("training", "alpha" not in op.name)
    x = array(sample.input)
    got = getattr(F, NAMES[op.name])(x, *map(array, sample.args), seed=1, **given)
    assert (got.shape, got.dtype) == (x.shape, x.dtype)
    y, wide = got.astype(np.float64), x.astype(np.float64)
    if not training or p in (0, 1):
        wanted = array(op.op(sample.input.clone(), *sample.args, **given)).astype(np.float64)
        np.testing.assert_allclose(y, wanted, rtol=TYPES[kind], atol=TYPES[kind])
        return ""
    low = -1.7580993408473766 if "alpha" in op.name else 0.0
    scale = ((1 - p) * (1 + p * low * low)) ** -0.5 if low else 1 / (1 - p)
    shift = -scale * p * low
    kept = np.isclose(y, wide * scale + shift, rtol=TYPES[kind], atol=4 * TYPES[kind])
    assert (kept | np.isclose(y, low * scale + shift, rtol=TYPES[kind], atol=4 * TYPES[kind])).all()
    return ""


def refuse(op: Any, error: Any) -> str:
    """Assert that an error input is refused; gives why it is left out, or ""."""
    sample = error.sample_input
    with pytest.raises((CenoteError, TypeError)):
        getattr(F, NAMES[op.name])(array(sample.input), *map(array, sample.args), **sample.kwargs)
    return ""
