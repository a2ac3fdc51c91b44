"""PyTorch's own pooling samples (op_db) through cenote.functional, with PyTorch as the oracle.

Every sample passes: 21 operators (max_pool2d_with_indices_backward is covered with the backward functions), all their
CPU types, and the 70 error inputs. There are no deviations to list. A part of them runs here, op_db_table.py runs all.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from tests.functional.op_db.database import torch
from tests.functional.op_db.pool import POOLS, TYPES, compare, refuse

# Types other than float32 take every 13th of the first 200 samples, each type others: making samples takes long.
FIRST, STEP = 200, 13
PLENTY = 500  # samples: where float32 has more, every third is compared

# The figures of PyTorch 2.13; with max_pool2d_with_indices_backward's 1,440 they are issue 3's 5,095.
FLOAT32_SAMPLES = {
    "adaptive_avg_pool1d": 6, "adaptive_avg_pool2d": 10, "adaptive_avg_pool3d": 12,
    "adaptive_max_pool1d": 8, "adaptive_max_pool2d": 24, "adaptive_max_pool3d": 20,
    "avg_pool1d": 9, "avg_pool2d": 7, "avg_pool3d": 8,
    "fractional_max_pool2d": 37, "fractional_max_pool3d": 48,
    "max_pool1d": 864, "max_pool2d": 1440, "max_pool3d": 576,
    "max_unpool1d": 144, "max_unpool1dgrad": 13, "max_unpool2d": 288, "max_unpool2dgrad": 33,
    "max_unpool3d": 96, "max_unpool3dgrad": 12,
}  # fmt: skip


def pairs() -> list[Any]:
    return [
        pytest.param(op, name, id=f"{op.name.split('.')[-1]}{op.variant_test_name}-{name}")
        for op in POOLS
        for name in TYPES
        if getattr(torch, name) in op.supported_dtypes("cpu")
    ]


@pytest.mark.parametrize(("op", "type_name"), pairs())
def test_samples(op: Any, type_name: str) -> None:
    torch.manual_seed(0)
    seen, name = 0, op.name.split(".")[-1] + op.variant_test_name
    samples = op.sample_inputs("cpu", getattr(torch, type_name), requires_grad=False)
    step = 3 if FLOAT32_SAMPLES.get(name, 0) > PLENTY else 1
    if type_name != "float32":
        samples = some(samples, FIRST, STEP, list(TYPES).index(type_name))
        step = 1
    for seen, sample in enumerate(samples, 1):
        if seen % step == 0:
            compare(op, type_name, sample)
    if type_name == "float32" and torch.__version__.startswith("2.13"):
        assert seen == FLOAT32_SAMPLES[name]
    assert seen


def some(samples: Iterable[Any], first: int, step: int, place: int) -> list[Any]:
    """One of so many among the first samples, beginning at a place of its own for each type."""
    found = list(itertools.islice(samples, first))
    return found[place % min(step, len(found)) :: step]


@pytest.mark.parametrize(
    "op", [op for op in POOLS if op.error_inputs_func], ids=lambda op: op.name.split(".")[-1]
)
def test_errors_name_the_argument(op: Any) -> None:
    for error in op.error_inputs("cpu"):
        refuse(op, error)


@pytest.mark.parametrize("name", ["LPPool1d", "LPPool2d", "LPPool3d"])
def test_lp_modules(name: str) -> None:
    """Lp pools are only in module_db; semantics="torch" gives PyTorch's signed and scaled sums."""
    modules = pytest.importorskip("torch.testing._internal.common_modules").module_db
    info = next(item for item in modules if item.name == f"nn.{name}")
    inputs = info.module_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=False, training=False
    )
    for item in inputs:
        arguments = item.constructor_input
        module = getattr(torch.nn, name)(*arguments.args, **arguments.kwargs)
        x = item.forward_input.args[0]
        got = getattr(F, f"lp_pool{name[-2]}d")(
            x.numpy(),
            module.norm_type,
            module.kernel_size,
            module.stride,
            module.ceil_mode,
            semantics="torch",
        )
        np.testing.assert_allclose(got, module(x).numpy(), rtol=1e-5, atol=1e-5)
