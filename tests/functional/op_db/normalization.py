"""Comparisons of normalisation and softmax with PyTorch's samples."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import CenoteError
from tests.functional.op_db.database import array, op_db, torch
from tests.functional.op_db.pool import check

NAMES = ("layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm", "local_response_norm", "normalize",
         "softmax", "log_softmax")  # fmt: skip
OPS = [
    op for op in op_db if op.name.split(".")[-1] in NAMES and "nn.functional" in op.name + op.aten_name
] + [op for op in op_db if op.name in ("softmax", "log_softmax")]
TYPES = {"float64": 1e-10, "float32": 3e-5, "float16": 5e-3, "bfloat16": 5e-2}
NUMPY = {torch.float64: np.float64, torch.float32: np.float32, torch.float16: np.float16}
# What differs on purpose: one value per channel has no spread, and PyTorch's Python refuses it where we do not.
LENIENT = ("Expected more than 1",)


def arguments(op: Any, sample: Any) -> tuple[list[Any], dict[str, Any]]:
    """Arrays of our own, since running statistics are changed in place; dtypes as NumPy's."""

    def ours(value: Any) -> Any:
        value = NUMPY.get(value, value) if isinstance(value, torch.dtype) else array(value)
        return value.copy() if isinstance(value, np.ndarray) else value

    given = {name: ours(value) for name, value in sample.kwargs.items()}
    known = inspect.signature(getattr(F, op.name.split(".")[-1])).parameters
    return [ours(value) for value in sample.args], {n: v for n, v in given.items() if n in known}


def compare(op: Any, kind: str, sample: Any) -> str:
    """Assert that a sample's answers agree; gives why it is left out, or ""."""
    function = getattr(F, op.name.split(".")[-1])
    args, given = arguments(op, sample)
    if sample.input.shape == (0,):
        with pytest.raises(CenoteError, match="axes"):
            function(array(sample.input), *args, **given)
        return "an empty input without an axis of channels"
    got = function(array(sample.input), *args, **given)
    wanted = op.op(sample.input, *sample.args, **sample.kwargs)
    if got.size:
        check(got, wanted, max(TYPES[kind], TYPES.get(got.dtype.name, 0)))
    return ""


def refuse(op: Any, error: Any) -> str:
    """Assert that an error input is refused; gives why it is left out, or ""."""
    if error.error_regex.startswith(LENIENT):
        return "one value per channel has no spread: its normalisation is 0"
    name = op.name.split(".")[-1]
    args, given = arguments(op, error.sample_input)
    with pytest.raises(CenoteError, match=name):
        getattr(F, name)(array(error.sample_input.input), *args, **given)
    return ""
