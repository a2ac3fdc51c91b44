"""Comparisons of reductions with PyTorch's samples."""

from __future__ import annotations

from typing import Any

import pytest

import cenote.functional as F
from cenote.core.errors import CenoteError
from tests.functional.op_db.database import torch
from tests.functional.op_db.elementwise import check, plain

NAMES = {
    name: name
    for name in ("sum", "mean", "prod", "amax", "amin", "var", "std", "logsumexp", "cumsum", "cumprod")
} | {"linalg.vector_norm": "norm"}
TYPES = {"float64": 1e-12, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2, "int64": 0, "int32": 0, "int16": 0,
         "int8": 0, "uint8": 0, "bool": 0}  # fmt: skip


def _is_other_form(name: str, arguments: Any, given: dict[str, Any]) -> bool:
    """Forms that torch has for its past, and norms of another type than the input's."""
    old = name in ("var", "std") and any(isinstance(x, bool) for x in arguments)
    return old or "unbiased" in given or (name == "norm" and "dtype" in given)


def compare(op: Any, kind: str, sample: Any) -> str:
    """Assert that a sample's answers agree; gives why it is left out, or ""."""
    name = NAMES[op.name]
    given = {("p" if k == "ord" else k): v for k, v in sample.kwargs.items() if v is not None or k != "dtype"}
    if isinstance(given.get("dtype"), torch.dtype):
        if given["dtype"].is_complex:
            return "complex numbers"
        given["dtype"] = str(given["dtype"]).removeprefix("torch.")
    if _is_other_form(name, sample.args, given):
        return "a form that torch has for its past" if name != "norm" else "dtype of a norm"
    if given.get("correction", 1) is None:
        given.pop("correction")
    wanted = op.op(sample.input, *sample.args, **sample.kwargs)
    got = getattr(F, name)(plain(sample.input), *map(plain, sample.args), **given)
    check(got, plain(wanted), TYPES[kind])
    return ""


def refuse(op: Any, error: Any) -> str:
    """Assert that an error input is refused; gives why it is left out, or ""."""
    sample = error.sample_input
    if sample.input.dim() > 64:
        return "NumPy has no arrays of so many axes"
    if "out" in sample.kwargs or "dtype" in sample.kwargs:
        return "a tensor as out, a type of torch"
    with pytest.raises((CenoteError, TypeError)):
        getattr(F, NAMES[op.name])(plain(sample.input), *sample.args, **sample.kwargs)
    return ""
