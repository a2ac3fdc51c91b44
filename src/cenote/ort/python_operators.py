"""Operators that onnxruntime-extensions, or `cenote.ort.extensions`, declares in Python, as functions for Cenote.

The function is called once for each node in each run, with arrays of its own that it may change; its results are
converted to the declared types. Shapes may depend on content, so that a model is planned up to such a node, and behind
it when that has run.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from typing import Any, Protocol

import numpy as np

from cenote.core.errors import ArgumentError, OperatorError, shown
from cenote.core.extensions.functions import CONTENT, OperatorFunction
from cenote.core.extensions.registry import checked_name, in_use
from cenote.ort.errors import Fail
from cenote.ort.types import dtype_of, word_of

DOMAIN = "ai.onnx.contrib"
OWN_LIBRARY = __file__
EXTENSIONS = "onnxruntime_extensions"
# By the number of an attribute's type in ONNX.
_ATTRIBUTES: dict[int, type] = {7: int, 1: float, 8: str}


class Definition(Protocol):
    """Numbers of types in ONNX: of inputs, of outputs, of attributes by name."""

    @property
    def input_types(self) -> Sequence[int]: ...
    @property
    def output_types(self) -> Sequence[int]: ...
    @property
    def attrs(self) -> Mapping[str, int]: ...


class Operator(Protocol):
    """`Opdef`, of onnxruntime-extensions or of `cenote.ort.extensions`."""

    @property
    def op_type(self) -> str: ...
    @property
    def body(self) -> Callable[..., Any]: ...
    @property
    def _nativedef(self) -> Definition: ...


_declared: dict[str, OperatorFunction] = {}
_enabled = True


def enable(enabled: bool) -> bool:
    """Choose whether the operators in Python are part of their library. Return the choice before."""
    global _enabled
    before, _enabled = _enabled, bool(enabled)
    return before


def declare(operator: Operator) -> None:
    """Make an operator part of the library of `cenote.ort.extensions`. Raises ArgumentError for one that
    another function computes already, and for names and types that do not exist."""
    _add(_declared, operator)


def operators_of(path: str) -> dict[str, OperatorFunction]:
    """Return the operators in Python of a library, by name. Raises Fail for a library in C++."""
    if _is_same(path, OWN_LIBRARY):
        return dict(_declared) if _enabled else {}
    installed = sys.modules.get(EXTENSIONS)
    if installed is None or not _is_same(path, installed.get_library_path()):
        raise Fail(
            f"Failed to load library {path}: operators in C++ run in onnxruntime alone. A Python function can take an "
            "operator's place: InferenceSession(…, operators={'domain.Operator': function}), or @onnx_op of "
            "onnxruntime_extensions or cenote.ort.extensions"
        )
    found: dict[str, OperatorFunction] = {}
    try:
        for each in installed.Opdef._odlist.values():
            _add(found, each)
    except (AttributeError, ArgumentError) as error:
        raise Fail(f"operators of onnxruntime_extensions {installed.__version__}: {error}") from error
    return found


def _is_same(path: str, library: str) -> bool:
    return os.path.realpath(path) == os.path.realpath(library)


def _add(operators: dict[str, OperatorFunction], operator: Operator) -> None:
    domain, _, kind = operator.op_type.rpartition("::")
    name = checked_name(f"{domain or DOMAIN}.{kind}")
    definition = operator._nativedef
    made = OperatorFunction(
        _typed(
            name,
            operator.body,
            _dtypes(name, definition.input_types),
            _dtypes(name, definition.output_types),
            _kinds(name, definition.attrs),
        ),
        types=CONTENT,
        pure=False,
    )
    before = operators.get(name)
    if before is not None and before.place.partition(":")[0] != made.place.partition(":")[0]:
        raise ArgumentError(f"{name} is declared twice: {before.place} and {made.place}; rename one")
    operators[name] = in_use(name, made)


def _dtypes(name: str, numbers: Sequence[int]) -> tuple[np.dtype[Any], ...]:
    try:
        return tuple(dtype_of(int(number)) for number in numbers)
    except RuntimeError as error:
        raise ArgumentError(f"{name}: {error}") from None


def _kinds(name: str, attributes: Mapping[str, int]) -> dict[str, type]:
    for attribute, number in attributes.items():
        if number not in _ATTRIBUTES:
            raise ArgumentError(
                f"{name}: attribute '{attribute}' is declared with type {shown(number)}; types of attributes are "
                "dt_int64, dt_float and dt_string"
            )
    return {attribute: _ATTRIBUTES[number] for attribute, number in attributes.items()}


def _typed(
    name: str,
    body: Callable[..., Any],
    inputs: tuple[np.dtype[Any], ...],
    outputs: tuple[np.dtype[Any], ...],
    attributes: dict[str, type],
) -> Callable[..., Any]:
    """Return a function that calls `body` as it was declared: with arrays of these types and attributes of these
    names, for results of these types."""

    @functools.wraps(body)
    def typed(*arrays: Any, **given: Any) -> Any:
        for index, (array, wanted) in enumerate(zip(arrays, inputs, strict=True)):
            if word_of(array.dtype) != word_of(wanted):
                raise OperatorError(
                    f"{name}: input {index} is of {word_of(array.dtype)}, and declared as {word_of(wanted)}"
                )
        for attribute, kind in attributes.items():
            if not isinstance(given[attribute], kind):
                raise OperatorError(
                    f"{name}: attribute '{attribute}' is {shown(given[attribute])}, and declared as {kind.__name__}"
                )
        results = body(
            *(np.array(each) for each in arrays), **{attribute: given[attribute] for attribute in attributes}
        )
        listed = results if isinstance(results, tuple) else (results,)
        if len(listed) != len(outputs):
            raise OperatorError(
                f"{name}: the function returned {len(listed)} outputs, and {len(outputs)} are declared"
            )
        return tuple(_converted(name, each, wanted) for each, wanted in zip(listed, outputs, strict=True))

    typed.__signature__ = _signature(len(inputs), attributes)  # type: ignore[attr-defined]  # as `inspect` reads it
    return typed


def _signature(inputs: int, attributes: Mapping[str, type]) -> Signature:
    """Return what a node must have: all inputs, all attributes that are declared, and any others."""
    return Signature(
        [
            *(Parameter(f"input{index}", Parameter.POSITIONAL_ONLY) for index in range(inputs)),
            *(Parameter(each, Parameter.KEYWORD_ONLY, annotation=kind) for each, kind in attributes.items()),
            Parameter("others", Parameter.VAR_KEYWORD),
        ]
    )


def _converted(name: str, result: object, wanted: np.dtype[Any]) -> object:
    """Return a result in the declared type. Raises OperatorError where that would change more than its precision."""
    if not isinstance(result, np.ndarray | np.generic):
        return result  # refused by who called
    array = np.asarray(result)
    if word_of(array.dtype) == word_of(wanted):
        return array
    made = array.astype(wanted) if wanted.kind != "O" and array.dtype.kind in "biufc" else array
    whole = array.dtype.kind in "biu" and wanted.kind in "biu"
    if made is array or not (
        np.array_equal(made, array) if whole else np.can_cast(array.dtype, wanted, "same_kind")
    ):
        raise OperatorError(
            f"{name}: the function returned {word_of(array.dtype)}, which {word_of(wanted)}, the declared type, does "
            "not hold"
        )
    return made
