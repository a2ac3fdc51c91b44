"""Chains of elementwise functions as one expression, which a kernel computes of each element between loads and store.

An `Expression` is a list of steps, each a formula of inputs and earlier steps. Every step rounds to its own type, as
if its result had gone through memory: a chain gives the bits that its steps give one by one. bool is kept as lanes of
one bit, 16-bit floats as float32, which holds them exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel
from cenote.codegen.values import BOOL, F32, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.types import is_float
from cenote.kernels.elementwise.conversions import cast
from cenote.kernels.elementwise.functions import FORMULAS, Number, emit_function, is_formula_of


@dataclass(frozen=True)
class Step:
    """One step: `function` of the values at `operands` (the inputs, then the steps so far) as a `dtype`. "cast"
    converts, "constant" is its one parameter."""

    function: str
    operands: tuple[int, ...]
    dtype: np.dtype[Any]
    parameters: tuple[Number, ...] = ()


@dataclass(frozen=True)
class Expression:
    """Expression of a number of `inputs`; its value is that of the last of `steps`."""

    inputs: int
    steps: tuple[Step, ...]

    def is_native(self, sources: Sequence[np.dtype[Any]]) -> bool:
        """Whether there are formulas for all steps on operands of these types."""
        types = list(sources)
        for step in self.steps:
            used = [types[index] for index in step.operands]
            if not all(is_formula_of(step.function, dtype) for dtype in (*used, *_made(step))):
                return False
            types.append(step.dtype)
        return True

    def emit(self, k: Kernel, inputs: Sequence[Value], sources: Sequence[np.dtype[Any]]) -> Value:
        """Emit the instructions, for operands of these types as `computed` gives them."""
        values, types = list(inputs), list(sources)
        lanes = values[0].lanes
        for step in self.steps:
            result = self._step(
                k, step, [values[i] for i in step.operands], [types[i] for i in step.operands], lanes
            )
            if step is not self.steps[-1]:
                result = _rounded(result, step)
            values.append(result)
            types.append(step.dtype)
        return values[-1]

    @staticmethod
    def _step(k: Kernel, step: Step, operands: list[Value], types: list[np.dtype[Any]], lanes: int) -> Value:
        if step.function == "constant":
            return computed(k.constant(Scalar.of(step.dtype), step.parameters[0], lanes), step.dtype)
        if step.function == "cast":
            return cast(k, operands[0], types[0], step.dtype)
        return emit_function(k, step.function, step.parameters, operands)


def _made(step: Step) -> tuple[np.dtype[Any], ...]:
    """Types, beside the operands', for which a step needs formulas: the type that it converts to."""
    return (step.dtype,) if step.function in ("cast", "constant") else ()


def computed(value: Value, dtype: np.dtype[Any]) -> Value:
    """Return a value of a type as formulas take it: floats of 16 bits as float32, bool as one bit."""
    if dtype == np.bool_:
        return value if value.type is BOOL else value.differs(0)
    return value.to(F32) if is_float(dtype) and dtype.itemsize < 4 else value


def stored(value: Value, dtype: np.dtype[Any]) -> Value:
    """Return a formula's result as it is stored."""
    return value.to(Scalar.of(dtype))


def _rounded(value: Value, step: Step) -> Value:
    exact = step.function in FORMULAS and FORMULAS[step.function].exact
    if is_float(step.dtype) and step.dtype.itemsize < 4 and not exact:
        return value.to(Scalar.of(step.dtype)).to(F32)
    return value
