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
from tests.functional.op_db.database import in_turns, op_db, torch
from tests.functional.op_db.elementwise import ACTIVATIONS, NAMES, PLAIN, TYPES, compare, refuse


def entries() -> Iterator[Any]:
    for place, op in enumerate(op for op in op_db if op.name in NAMES):
        name = NAMES[op.name]
        for kind in in_turns(TYPES, place):
            if getattr(torch, kind) in op.supported_dtypes("cpu"):
                yield pytest.param(op, name, kind, id=f"{name}{op.variant_test_name}-{kind}")


@pytest.mark.parametrize(("op", "name", "kind"), list(entries()))
def test_samples(op: Any, name: str, kind: str) -> None:
    torch.manual_seed(0)
    samples = op.sample_inputs("cpu", getattr(torch, kind), requires_grad=False)
    if kind != "float32":
        samples = itertools.islice(samples, 0, 50, 1 if op.name == "nn.functional.hardtanh" else 5)
    assert [reason for sample in samples if not (reason := compare(op, kind, sample))]


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
