"""Comparisons of functions that move elements with PyTorch's samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import CenoteError
from tests.functional.op_db.database import torch
from tests.functional.op_db.elementwise import plain

NAMES = {
    **{name: name for name in ("permute", "transpose", "cat", "stack", "split", "flip", "roll", "tile",
                               "repeat_interleave")},
    **{f"nn.functional.{name}": name for name in ("pad", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle")},
    "split_with_sizes": "split",
}  # fmt: skip
TYPES = ("float32", "float16", "bfloat16", "int64", "uint8", "bool", "float64", "int32", "int16", "int8")


def arrays(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(arrays(item) for item in value) if type(value) in (list, tuple) else tuple(value)
    return plain(value)


def compare(op: Any, kind: str, sample: Any) -> str:
    """Assert that a sample's answers have the same bits; gives why it is left out, or ""."""
    if op.variant_test_name == "replicate_negative":
        return "replicating less than nothing"
    if any(isinstance(x, torch.Tensor) for x in (*sample.args, *sample.kwargs.values())):
        return "numbers of repeats in a tensor"
    given = arrays(sample.input)
    if isinstance(given, list | tuple) and len({x.dtype for x in given}) > 1:
        return "types are not promoted"
    wanted = op.op(sample.input, *sample.args, **sample.kwargs)
    got = getattr(F, NAMES[op.name])(given, *map(arrays, sample.args), **sample.kwargs)
    for y, want in zip(*(v if isinstance(v, list | tuple) else (v,) for v in (got, wanted)), strict=True):
        want = plain(want)
        assert (y.shape, y.dtype) == (want.shape, want.dtype)
        assert np.ascontiguousarray(y).tobytes() == np.ascontiguousarray(want).tobytes()
    return ""


def refuse(op: Any, error: Any) -> str:
    """Assert that an error input is refused; gives why it is left out, or ""."""
    sample = error.sample_input
    if "out" in sample.kwargs:
        return "a tensor as out"
    with pytest.raises((CenoteError, TypeError)):
        getattr(F, NAMES[op.name])(arrays(sample.input), *map(arrays, sample.args), **sample.kwargs)
    return ""
