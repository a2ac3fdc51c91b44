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
from cenote.core.errors import CenoteError
from cenote.core.types import BFLOAT16

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")
op_db = pytest.importorskip("torch.testing._internal.common_methods_invocations").op_db
# It looks for a unittest.TestCase among its callers and reads their sources from the disk: twice a test, 0.03 s each.
torch.testing._internal.common_utils.extract_test_fn = lambda: None

POOLS = [op for op in op_db if "pool" in op.name and op.name.startswith("nn.functional.")]
TYPES = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2, "int64": 0, "int32": 0, "int16": 0,
         "int8": 0, "uint8": 0}  # fmt: skip
# Types other than float32 take every 13th of the first 200 samples, each type others: making samples takes long.
FIRST, STEP = 200, 13
PLENTY = 500  # samples: where float32 has more, every third is compared
HALVES, INTEGERS = ("float16", "bfloat16"), ("int64", "int32", "int16", "int8", "uint8")

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

# What the message of each kind of error input must name (PyTorch's own text on the left).
WORDS = {
    "output_size": "output_size",
    "Input dimension": "expected",
    "internal error": "output_size",
    "negative dimension": "output_size",
    "pad ": "padding",
    "divisor": "divisor_override",
    "non-empty": "not empty",
    "kernel_size": "kernel_size",
    "stride": "stride",
    "dilation": "dilation",
    "Expected 2D or 3D": "input",
    "Expected 3D or 4D": "input",
    "non-batch": "input",
    "Invalid computed output size": "output size would be -2",
    "too small": "output size would be 0",
    "indices": "indices",
}


def array(value: Any) -> Any:
    """A tensor as NumPy; other things as they are."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype == torch.bfloat16:
        return value.detach().view(torch.int16).numpy().view(BFLOAT16)
    return value.detach().numpy()


def keywords(op: Any, sample: Any) -> dict[str, Any]:
    """The sample's keywords; fractional pools get their random numbers."""
    given = dict(sample.kwargs)
    if "fractional" in op.name:
        axes = 2 if "2d" in op.name else 3
        batch = sample.input.shape[0] if sample.input.dim() == axes + 2 else 1
        given["_random_samples"] = torch.rand(
            batch, sample.input.shape[-axes - 1], axes, dtype=sample.input.dtype
        )
    return given


def pairs() -> list[Any]:
    return [
        pytest.param(op, name, id=f"{op.name.split('.')[-1]}{op.variant_test_name}-{name}")
        for op in POOLS
        for name in TYPES
        if getattr(torch, name) in op.supported_dtypes("cpu")
    ]


def in_turns(types: Iterable[str], place: int) -> list[str]:
    """The types that the entry of op_db at this place is compared with in tests: one of 16-bit floats, two of integers,
    and all others."""
    taken = {HALVES[place % 2], INTEGERS[place % 5], INTEGERS[(place + 2) % 5]}
    return [name for name in types if name in taken or name not in (*HALVES, *INTEGERS)]


def compare(op: Any, kind: str, sample: Any) -> str:
    """Assert that a sample's answers agree; gives why it is left out, or ""."""
    given = keywords(op, sample)
    wanted = op.op(sample.input, *sample.args, **given)
    got = getattr(F, op.name.split(".")[-1])(
        array(sample.input), *map(array, sample.args), **{k: array(v) for k, v in given.items()}
    )
    check(got, wanted, TYPES[kind])
    return ""


def refuse(op: Any, error: Any) -> str:
    """Assert that an error input is refused, and the argument named; gives why it is left out, or ""."""
    sample = error.sample_input
    wanted = next(word for text, word in WORDS.items() if text in error.error_regex)
    with pytest.raises(CenoteError) as caught:
        getattr(F, op.name.split(".")[-1])(
            array(sample.input), *map(array, sample.args), **{k: array(v) for k, v in sample.kwargs.items()}
        )
    assert wanted in str(caught.value), f"{error.error_regex}: {caught.value}"
    return ""


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


def check(got: Any, wanted: Any, tolerance: float) -> None:
    results = got if isinstance(got, tuple) else (got,)
    expected = wanted if isinstance(wanted, tuple) else (wanted,)
    for y, tensor in zip(results, expected, strict=True):
        want = array(tensor)
        assert isinstance(y, np.ndarray)
        assert (y.shape, y.dtype) == (want.shape, want.dtype)
        if y.dtype.kind in "iub":
            np.testing.assert_array_equal(y, want)
        else:
            np.testing.assert_allclose(
                y.astype(np.float64), want.astype(np.float64), rtol=tolerance, atol=tolerance
            )


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
