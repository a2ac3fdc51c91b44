"""PyTorch's own samples (op_db) of functions that move elements, with PyTorch as the oracle."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import CenoteError
from tests.functional.elementwise.test_elementwise_op_db import plain
from tests.functional.pool.test_pool_op_db import in_turns, op_db, torch

NAMES = {
    **{name: name for name in ("permute", "transpose", "cat", "stack", "split", "flip", "roll", "tile",
                               "repeat_interleave")},
    **{f"nn.functional.{name}": name for name in ("pad", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle")},
    "split_with_sizes": "split",
}  # fmt: skip
TYPES = ("float32", "float16", "bfloat16", "int64", "uint8", "bool", "float64", "int32", "int16", "int8")


def entries() -> Iterator[Any]:
    for place, op in enumerate(op for op in op_db if op.name in NAMES):
        name = NAMES[op.name]
        if op.variant_test_name == "replicate_negative":
            continue
        for kind in in_turns(TYPES, place):
            if getattr(torch, kind) in op.supported_dtypes("cpu"):
                yield pytest.param(op, name, kind, id=f"{name}{op.variant_test_name}-{kind}")


def arrays(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(arrays(item) for item in value) if type(value) in (list, tuple) else tuple(value)
    return plain(value)


def compare(op: Any, kind: str, sample: Any) -> str:
    """Assert that a sample's answers have the same bits; gives why it is left out, or ""."""
    if op.variant_test_name == "replicate_negative":
        return "replicating less than nothing"
    if any(isinstance(x, torch.Tensor) for x in (*sample.args, *sample.kwargs.values())):
        return "numbers of repeats in a tensor"
    given = arrays(sample.input)
    if isinstance(given, list | tuple) and len({x.dtype for x in given}) > 1:
        return "types are not promoted"
    wanted = op.op(sample.input, *sample.args, **sample.kwargs)
    got = getattr(F, NAMES[op.name])(given, *map(arrays, sample.args), **sample.kwargs)
    for y, want in zip(*(v if isinstance(v, list | tuple) else (v,) for v in (got, wanted)), strict=True):
        want = plain(want)
        assert (y.shape, y.dtype) == (want.shape, want.dtype)
        assert np.ascontiguousarray(y).tobytes() == np.ascontiguousarray(want).tobytes()
    return ""


def refuse(op: Any, error: Any) -> str:
    """Assert that an error input is refused; gives why it is left out, or ""."""
    sample = error.sample_input
    if "out" in sample.kwargs:
        return "a tensor as out"
    with pytest.raises((CenoteError, TypeError)):
        getattr(F, NAMES[op.name])(arrays(sample.input), *map(arrays, sample.args), **sample.kwargs)
    return ""


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
