"""PyTorch's own samples (op_db) of products, convolutions and attention, with PyTorch as the oracle."""

from __future__ import annotations

from typing import Any

import pytest

from tests.functional.op_db.database import in_turns, op_db, torch
from tests.functional.op_db.products import NAMES, TYPES, compare, refuse

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
