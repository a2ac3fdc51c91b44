"""PyTorch's own samples (op_db) of reductions through cenote.functional, with PyTorch as the oracle."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import CenoteError
from tests.functional.elementwise.test_elementwise_op_db import check, plain
from tests.functional.pool.test_pool_op_db import in_turns, op_db, torch

NAMES = {
    name: name
    for name in ("sum", "mean", "prod", "amax", "amin", "var", "std", "logsumexp", "cumsum", "cumprod")
}
NAMES |= {"linalg.vector_norm": "norm"}
TYPES = {"float64": 1e-12, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2, "int64": 0, "int32": 0, "int16": 0,
         "int8": 0, "uint8": 0, "bool": 0}  # fmt: skip


def entries() -> Iterator[Any]:
    for place, op in enumerate(op for op in op_db if op.name in NAMES and not op.variant_test_name):
        name = NAMES[op.name]
        for kind in in_turns(TYPES, place):
            if getattr(torch, kind) in op.supported_dtypes("cpu"):
                yield pytest.param(op, name, kind, id=f"{name}-{kind}")


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


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize(("op", "name", "kind"), list(entries()))
def test_samples(op: Any, name: str, kind: str) -> None:
    torch.manual_seed(0)
    samples = op.sample_inputs("cpu", getattr(torch, kind), requires_grad=False)
    few = itertools.islice(samples, 80 if kind == "float32" else 12)
    assert [reason for sample in few if not (reason := compare(op, kind, sample))]


ERRORS = [op for op in op_db if op.name in NAMES and op.error_inputs_func and not op.variant_test_name]


@pytest.mark.parametrize("op", ERRORS, ids=lambda op: op.name)
def test_error_inputs(op: Any) -> None:
    for error in op.error_inputs("cpu"):
        refuse(op, error)


def test_sums_and_products_of_bool_as_bool() -> None:
    """dtype=bool: whether one holds, and whether all do; of nothing False and True."""
    x = np.array([[True, False], [True, True]])
    assert F.sum(x, 0, dtype="bool").tolist() == [True, True]
    assert F.prod(x, 0, dtype="bool").tolist() == [True, False]
    nothing = np.zeros(0, np.bool_)
    assert not F.sum(nothing, dtype="bool")
    assert F.prod(nothing, dtype="bool")
