"""PyTorch's own samples (op_db) of reductions through cenote.functional, with PyTorch as the oracle."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from tests.functional.op_db.database import in_turns, op_db, torch
from tests.functional.op_db.reductions import NAMES, TYPES, compare, refuse


def entries() -> Iterator[Any]:
    for place, op in enumerate(op for op in op_db if op.name in NAMES and not op.variant_test_name):
        name = NAMES[op.name]
        for kind in in_turns(TYPES, place):
            if getattr(torch, kind) in op.supported_dtypes("cpu"):
                yield pytest.param(op, name, kind, id=f"{name}-{kind}")


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
