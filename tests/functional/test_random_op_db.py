"""PyTorch's own samples (op_db) of the dropout family, whose numbers are its own: what must hold of any is compared."""

from __future__ import annotations

from typing import Any

import pytest

from tests.functional.op_db.database import torch
from tests.functional.op_db.random import NAMES, OPS, TYPES, compare, refuse


@pytest.mark.filterwarnings("ignore:dropout2d")  # PyTorch's, about its own future
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("op", OPS, ids=lambda op: NAMES[op.name] + op.variant_test_name)
def test_samples(op: Any, kind: str) -> None:
    torch.manual_seed(0)
    for sample in op.sample_inputs("cpu", getattr(torch, kind), requires_grad=False):
        assert not compare(op, kind, sample)


@pytest.mark.parametrize("op", [op for op in OPS if op.error_inputs_func], ids=lambda op: NAMES[op.name])
def test_error_inputs(op: Any) -> None:
    for error in op.error_inputs("cpu"):
        refuse(op, error)
