"""Every formula beside its NumPy twin, for each type that it says it exists for."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from cenote.core.types import Array, TensorType, dtype_named, is_float
from cenote.kernels.elementwise.activations import KINDS
from cenote.kernels.elementwise.functions import FORMULAS
from cenote.ops.base import Types
from cenote.ops.checks import BOOL
from cenote.ops.elementwise.pointwise import Function, Pointwise, error_of
from cenote.ops.values import narrow, seeded, wide
from tests.harness import lowerings_of, run_lowering
from tests.targets import TARGETS, Target

NAMES = {
    "d": ["float64"],
    "f": ["float32", "float16", "bfloat16"],
    "i": ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"],
    "?": ["bool"],
}
CASES = [(name, dtype) for name, each in FORMULAS.items() for kind in each.types for dtype in NAMES[kind]]
# Their second operand is an integer, which is why they have integer types too.
QUANTIZED = ("quantized", "quantized_finite")
CASES = [case for case in CASES if case[0] not in QUANTIZED or is_float(dtype_named(case[1]))]
RELATIONS = {"equal", "different", "greater", "greater_or_equal", "less", "less_or_equal"}
RELATIONS |= {"is_nan", "is_infinite", "is_finite", "is_value"}
PARAMETERS: dict[str, tuple[float, ...]] = {
    "is_value": (2.0,), "standardize": (1e-5,), "quantized": (-128, 127), "quantized_finite": (-90, 100),
    "clip": (1, 2), "shrink": (0.5, 1),
    "leaky_relu": (0.1, 0.0), "thresholded_relu": (1.0, 0.0), "hard_sigmoid": (0.2, 0.5), "swish": (1.702, 0.0),
    "elu": (1.3, 0.0), "selu": (1.6732632, 1.050701), "celu": (0.7, 0.0),
}  # fmt: skip


@dataclass(frozen=True)
class Bare(Pointwise):
    """An operator that is a formula and nothing else."""

    kind: str
    parameters: tuple[float, ...]
    name = "bare"
    operands = ("x*",)

    def types(self, *inputs: TensorType) -> Types:
        made = (
            BOOL
            if self.kind in RELATIONS
            else np.dtype(np.int32)
            if self.kind in QUANTIZED
            else inputs[-1].dtype
        )
        return (TensorType(made, inputs[0].shape),)

    def function(self, inputs: Sequence[TensorType | None]) -> Function:
        formula = FORMULAS[self.kind]
        return Function(
            self.kind, self.parameters, tuple(range(len(inputs))), formula.tolerance, formula.weight
        )


def arity(name: str, apply: Any) -> int:
    """How many inputs a twin takes with its parameters."""
    if isinstance(apply, np.ufunc):
        return apply.nin
    if name == "where":
        return 3
    kinds = [each.kind for each in inspect.signature(apply).parameters.values()]
    return 3 if inspect.Parameter.VAR_POSITIONAL in kinds else len(kinds)


def integers(dtype: np.dtype[Any], seed: int) -> Array:
    """Small numbers, and those at both ends of the type, of which float64 would lose the last bits."""
    random, (low, high) = np.random.default_rng(seed), (np.iinfo(dtype).min, np.iinfo(dtype).max)
    ends = np.array([low, low + 1, high // 3, high - 1, high], dtype)
    small = random.integers(-9 if low else 0, 10, (3, 41)).astype(dtype)
    return np.where(random.random((3, 41)) < 0.3, random.choice(ends, (3, 41)), small)


def operands(name: str, dtype: np.dtype[Any], count: int) -> list[Array]:
    if is_float(dtype):
        values = [narrow(wide(seeded((3, 41), n)) * 2, dtype) for n in range(count)]
    elif dtype == np.bool_:
        values = [seeded((3, 41), n, np.bool_) for n in range(count)]
    else:
        values = [integers(dtype, n) for n in range(count)]
    if name == "where":
        values[0] = seeded((3, 41), 7, np.bool_)
    if name in QUANTIZED:
        values[1] = np.arange(-20, 21, dtype=np.int32).repeat(3).reshape(3, 41)
    if name == "standardize":
        values[4] = np.abs(values[4])
    return values


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_kernels_agree_with_numpy(name: str, kind: str, target: Target) -> None:
    formula, dtype = FORMULAS[name], dtype_named(kind)
    parameters = PARAMETERS.get(name, (0.0, 0.0) if name in KINDS else ())
    inputs = operands(name, dtype, max(arity(name, formula.apply) - len(parameters), 1))
    op = Bare(name, parameters)
    with np.errstate(all="ignore"):
        wanted = np.asarray(formula.apply(*map(wide, inputs), *parameters))
    (output,) = op.infer(*map(TensorType.known, inputs))
    truth = narrow(wanted, output.dtype)
    for lowering in lowerings_of(op, inputs, target, constants=False):
        (got,) = run_lowering(op, lowering, inputs, target, constants=False)
        if not is_float(output.dtype):
            np.testing.assert_array_equal(got, truth)
            break
        scale = np.abs(wanted[np.isfinite(wanted)], dtype=np.float64).max(initial=1.0)
        error = 0.0 if formula.exact else error_of(formula.tolerance, output.dtype) * scale
        np.testing.assert_allclose(wide(got), wide(truth), rtol=0, atol=error, equal_nan=True)
        break
    else:
        pytest.fail("no kernel")
