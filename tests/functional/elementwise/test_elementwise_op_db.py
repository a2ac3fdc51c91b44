"""PyTorch's own samples (op_db) of elementwise functions through cenote.functional, with PyTorch as the oracle.

Types other than float32 take every fifth of the first 50 samples: most of the time goes into making samples. Which of
the narrow floats and of the integers an operator takes goes in turns; op_db_table.py takes all.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import CenoteError
from tests.functional.pool.test_pool_op_db import array, in_turns, op_db, torch

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


def entries() -> Iterator[Any]:
    for place, op in enumerate(op for op in op_db if op.name in NAMES):
        name = NAMES[op.name]
        for kind in in_turns(TYPES, place):
            if getattr(torch, kind) in op.supported_dtypes("cpu"):
                yield pytest.param(op, name, kind, id=f"{name}{op.variant_test_name}-{kind}")


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


@pytest.mark.parametrize(("op", "name", "kind"), list(entries()))
def test_samples(op: Any, name: str, kind: str) -> None:
    torch.manual_seed(0)
    samples = op.sample_inputs("cpu", getattr(torch, kind), requires_grad=False)
    if kind != "float32":
        samples = itertools.islice(samples, 0, 50, 1 if op.name == "nn.functional.hardtanh" else 5)
    assert [reason for sample in samples if not (reason := compare(op, kind, sample))]


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


ERRORS = [op for op in op_db if op.name in NAMES and op.error_inputs_func]


@pytest.mark.parametrize("op", ERRORS, ids=lambda op: f"{op.name.split('.')[-1]}{op.variant_test_name}")
def test_error_inputs(op: Any) -> None:
    """Every error input of torch is an error of ours, but for plain numbers as operands, which we take."""
    for error in op.error_inputs("cpu"):
        refuse(op, error)


@pytest.mark.parametrize("name", sorted({*PLAIN.split(), *ACTIVATIONS.split()}))
def test_in_place(name: str) -> None:
    """out=x is the result itself, wherever it has the type of x."""
    function, ran = getattr(F, name), 0
    for dtype in (np.float32, np.float16, np.int32, np.bool_):
        x = (np.random.default_rng(0).uniform(0.1, 9, (5, 37))).astype(dtype)
        others: tuple[Any, ...] = {
            "clamp": (1, 2),
            "threshold": (1, 2),
            "prelu": (np.array([0.5], dtype),),
        }.get(name, ())
        if "other" in inspect.signature(function).parameters:
            others = (np.array(2, dtype),)
        try:
            wanted = function(x, *others)
        except CenoteError:
            continue  # a type that the function does not take
        if wanted.dtype == dtype:
            assert function(x, *others, out=x) is x
            np.testing.assert_array_equal(x, wanted)
            ran += 1
    assert ran
