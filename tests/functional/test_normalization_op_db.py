"""PyTorch's own samples (op_db) of normalisation and softmax through cenote.functional, and their error inputs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.functional.op_db.database import torch
from tests.functional.op_db.normalization import NAMES, OPS, TYPES, compare, refuse


def pairs() -> list[Any]:
    return [
        pytest.param(op, name, id=f"{op.name.split('.')[-1]}{op.variant_test_name}-{name}")
        for op in OPS
        for name in TYPES
        if getattr(torch, name) in op.supported_dtypes("cpu")
    ]


@pytest.mark.parametrize(("op", "type_name"), pairs())
def test_samples(op: Any, type_name: str) -> None:
    torch.manual_seed(0)
    samples = op.sample_inputs("cpu", getattr(torch, type_name), requires_grad=False)
    assert [reason for sample in samples if not (reason := compare(op, type_name, sample))]


def test_every_function_is_sampled() -> None:
    assert {op.name.split(".")[-1] for op in OPS} == set(NAMES)


@pytest.mark.parametrize(
    "op",
    [op for op in OPS if op.error_inputs_func],
    ids=lambda op: op.name.split(".")[-1] + op.variant_test_name,
)
def test_errors(op: Any) -> None:
    for error in op.error_inputs("cpu"):
        refuse(op, error)
