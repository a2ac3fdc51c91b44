"""PyTorch's own samples (op_db) of functions that move elements, with PyTorch as the oracle."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.functional.op_db.database import in_turns, op_db, torch
from tests.functional.op_db.movement import NAMES, TYPES, compare, refuse


def entries() -> Iterator[Any]:
    for place, op in enumerate(op for op in op_db if op.name in NAMES):
        name = NAMES[op.name]
        if op.variant_test_name == "replicate_negative":
            continue
        for kind in in_turns(TYPES, place):
            if getattr(torch, kind) in op.supported_dtypes("cpu"):
                yield pytest.param(op, name, kind, id=f"{name}{op.variant_test_name}-{kind}")


@pytest.mark.parametrize(("op", "name", "kind"), list(entries()))
def test_samples(op: Any, name: str, kind: str) -> None:
    torch.manual_seed(0)
    samples = op.sample_inputs("cpu", getattr(torch, kind), requires_grad=False)
    few = itertools.islice(samples, 60 if kind == "float32" else 12)
    assert [reason for sample in few if not (reason := compare(op, kind, sample))]


ERRORS = [op for op in op_db if op.name in NAMES and op.error_inputs_func]


@pytest.mark.parametrize("op", ERRORS, ids=lambda op: op.name + op.variant_test_name)
def test_error_inputs(op: Any) -> None:
    for error in op.error_inputs("cpu"):
        refuse(op, error)
