"""PyTorch's own samples (op_db) of selection and indexing through cenote.functional, with PyTorch as the oracle."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.functional.op_db.choice import OPS, SAMPLES, TYPES, compare, refuse
from tests.functional.op_db.database import in_turns, torch

FEW = slice(0, 200, 3)  # of types other than float32


def pairs() -> list[Any]:
    return [
        pytest.param(op, name, id=f"{op.name.split('.')[-1]}{op.variant_test_name}-{name}")
        for place, op in enumerate(OPS)
        for name in in_turns(TYPES, place)
        if getattr(torch, name) in op.supported_dtypes("cpu")
    ]


@pytest.mark.filterwarnings("ignore:The reduce argument")
@pytest.mark.parametrize(("op", "type_name"), pairs())
def test_samples(op: Any, type_name: str) -> None:
    torch.manual_seed(0)
    samples = op.sample_inputs("cpu", getattr(torch, type_name), requires_grad=False)
    if type_name != "float32":
        samples = itertools.islice(samples, FEW.start, FEW.stop, FEW.step)
    seen = 0
    for sample in samples:
        seen += not compare(op, type_name, sample)
    assert seen
    if type_name == "float32" and torch.__version__.startswith("2.13"):
        assert seen == SAMPLES[op.name]


@pytest.mark.parametrize("op", [op for op in OPS if op.error_inputs_func], ids=lambda op: op.name)
def test_errors(op: Any) -> None:
    for error in op.error_inputs("cpu"):
        refuse(op, error)
