"""PyTorch's own samples (op_db) of products, convolutions and attention, with PyTorch as the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import CenoteError
from tests.functional.pool.test_pool_op_db import array, in_turns, op_db, torch

NAMES = (
    "matmul", "mm", "bmm", "addmm", "nn.functional.linear", "nn.functional.conv1d", "nn.functional.conv2d",
    "nn.functional.conv3d", "nn.functional.conv_transpose1d", "nn.functional.conv_transpose2d",
    "nn.functional.conv_transpose3d", "nn.functional.scaled_dot_product_attention",
)  # fmt: skip
TYPES = {"float64": 1e-12, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2, "int64": 0, "int32": 0, "int16": 0,
         "int8": 0, "uint8": 0}  # fmt: skip
# Samples that are run, by operator: of PyTorch 2.13, in float32.
FLOAT32_SAMPLES = {
    "addmm": 6,
    "bmm": 1,
    "matmul": 15,
    "nn.functional.conv_transpose1d": 10,
    "nn.functional.conv_transpose2d": 12,
    "nn.functional.conv_transpose3d": 10,
    "nn.functional.conv1d": 10,
    "nn.functional.conv2d": 30,
    "nn.functional.conv3d": 20,
    "nn.functional.linear": 18,
    "nn.functional.scaled_dot_product_attention": 13,
    "mm": 3,
}


def operators() -> list[Any]:
    return [op for op in op_db if op.name in NAMES and not op.variant_test_name]


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


@pytest.mark.filterwarnings("ignore:Using padding='same':UserWarning")  # PyTorch's, about its own copy
@pytest.mark.parametrize("op", operators(), ids=lambda op: op.name)
def test_float32_samples(op: Any) -> None:
    count = 0
    for sample in op.sample_inputs("cpu", torch.float32):
        count += not compare(op, "float32", sample)
    assert count == FLOAT32_SAMPLES[op.name], f"{count} samples"


@pytest.mark.filterwarnings("ignore:Using padding='same':UserWarning")
@pytest.mark.parametrize(
    ("op", "name"),
    [
        (op, name)
        for place, op in enumerate(operators())
        for name in in_turns(TYPES, place)
        if name != "float32"
    ],
    ids=lambda each: each if isinstance(each, str) else each.name,
)
def test_samples_of_other_types(op: Any, name: str) -> None:
    dtype = getattr(torch, name)
    if dtype not in op.supported_dtypes("cpu"):
        pytest.skip("not a type of this operator")
    for sample in list(op.sample_inputs("cpu", dtype))[::3]:
        compare(op, name, sample)


@pytest.mark.parametrize("op", [op for op in operators() if op.error_inputs_func], ids=lambda op: op.name)
def test_error_inputs(op: Any) -> None:
    for error in op.error_inputs("cpu"):
        refuse(op, error)
