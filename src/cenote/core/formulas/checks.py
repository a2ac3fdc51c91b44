"""Checks that formulas are right for other sizes than those at hand, if CENOTE_CHECK_FORMULAS asks for them.

A formula's text is evaluated for the sizes at hand and for two others, and so are the operations that it was made
from, one by one and without their texts: both must give the same, and for the sizes at hand the recorded value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from cenote.core.formulas.expressions import (
    FUNCTIONS,
    Given,
    SizeFormula,
    Symbolic,
    function_of,
    plain_number,
)
from cenote.core.formulas.polynomials import valued
from cenote.core.settings import CHECK_FORMULAS
from cenote.core.sizes import Size

Dimensions = Sequence[int]


class RecordedTrace(Protocol):
    """Contents of a trace (`trace.Trace`)."""

    codes: list[str]
    dimensions: int
    formulas: list[Any]
    guards: dict[str, SizeFormula]
    objects: list[Any]
    values: list[Any]


class FormulaError(RuntimeError):
    """Error of a formula whose text, operations and recorded value are not the same number: a fault of Cenote."""


def checks_formulas() -> bool:
    """Whether formulas are to be checked."""
    return CHECK_FORMULAS.text() not in ("", "0")


class Evaluation:
    """Values of a trace's formulas for some dimensions, by their operations."""

    def __init__(self, trace: RecordedTrace, dimensions: Dimensions) -> None:
        self.trace, self.dimensions = trace, dimensions
        # Keyed by identity, with the formula kept, so that no other object gets its address.
        self._known: dict[int, tuple[Any, Any]] = {}

    def __getitem__(self, unknown: int) -> Any:
        return self.value(self.trace.formulas[unknown])

    def value(self, x: Any) -> Any:
        """Return the value of an operand; errors of its operations pass."""
        if isinstance(x, tuple):
            return tuple(map(self.value, x))
        if not isinstance(x, Symbolic):
            return plain_number(x)
        if isinstance(x, Given):
            return {"d": self.dimensions}[x.name][x.index]
        if id(x) not in self._known:
            if isinstance(x, Size):
                value = valued(x.terms, self)
            else:
                assert isinstance(x, SizeFormula)
                value = function_of(x.function)(*map(self.value, x.operands))
            self._known[id(x)] = x, value
        return self._known[id(x)][1]

    def holds(self) -> bool:
        """Whether the trace's questions have the answers that they have for the sizes at hand."""
        return all(
            _same(_outcome(lambda: self.value(question)), question.value)  # noqa: B023  (called at once)
            for question in self.trace.guards.values()
        )


def other_dimensions(at_hand: Dimensions) -> Iterator[list[int]]:
    """Yield two other sets of sizes, in which no relation between dimensions is kept by chance."""
    yield [size + 1 + index for index, size in enumerate(at_hand)]
    yield [size // 2 + 2 + 3 * index for index, size in enumerate(at_hand)]


def check_texts(trace: RecordedTrace, wanted: Sequence[Symbolic], needed: Sequence[int]) -> None:
    """Raise FormulaError unless the unknowns that are `needed`, the guards and the formulas `wanted` have the same
    values by their texts as by their operations."""
    checked = [*(trace.formulas[unknown] for unknown in needed), *trace.guards.values(), *wanted]
    texts = [
        *(trace.codes[unknown] for unknown in needed),
        *(formula.code for formula in checked[len(needed) :]),
    ]
    names = [*(f"u{unknown}" for unknown in needed), *("_" for _ in checked[len(needed) :])]
    lines = ["def values(d, outcomes):", "  pass"]
    for name, text in zip(names, texts, strict=True):
        lines += [
            f"  try: outcomes.append({text}); {name} = outcomes[-1]",
            "  except Exception as e: outcomes.append(e)",
        ]
    scope: dict[str, Any] = {**FUNCTIONS, "K": trace.objects}
    exec("\n".join(lines), scope)
    at_hand = trace.values[: trace.dimensions]
    for dimensions in (at_hand, *other_dimensions(at_hand)):
        results: list[Any] = []
        evaluation = Evaluation(trace, dimensions)
        with np.errstate(all="ignore"):
            scope["values"](dimensions, results)
            expected = [_outcome(lambda: evaluation.value(formula)) for formula in checked]  # noqa: B023  (called now)
        recorded = expected
        if dimensions is at_hand:
            recorded = [getattr(formula, "value", formula) for formula in checked]
        for text, by_text, by_operations, value in zip(texts, results, expected, recorded, strict=True):
            if not _same(by_text, by_operations) or not _same(by_operations, value):
                raise FormulaError(
                    f"for sizes {dimensions}, {text} is {by_text!r}, its operations give {by_operations!r}, "
                    f"and {value!r} was recorded"
                )


def check_replayed(
    trace: RecordedTrace,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    compute: Callable[[list[Any]], Sequence[Any]],
) -> None:
    """Raise FormulaError unless `compute` gives the outputs from the inputs for other accepted sizes, too; both are
    arrays, some as formulas."""
    for dimensions in other_dimensions(trace.values[: trace.dimensions]):
        evaluation = Evaluation(trace, dimensions)
        if not evaluation.holds():
            continue
        results = [_outcome(lambda: evaluation.value(array)) for array in outputs]  # noqa: B023  (called at once)
        expected = _outcome(lambda: compute([evaluation.value(array) for array in inputs]))  # noqa: B023
        if isinstance(expected, Exception) or any(isinstance(array, Exception) for array in results):
            continue  # sizes for which the computation fails have another plan
        if not _same(tuple(results), tuple(expected)):
            raise FormulaError(
                f"for sizes {dimensions}, an operator makes {expected!r}, its formulas give {results!r}"
            )


def _outcome(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except Exception as error:
        return error


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Exception) or isinstance(b, Exception):
        return isinstance(a, Exception) and isinstance(b, Exception)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    return type(a) is type(b) and repr(a) == repr(b)
