"""Inputs of a run, checked and converted as in onnxruntime, with its messages where one does not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cenote.core.types import Array, Declared
from cenote.ort.errors import Fail, InvalidArgument
from cenote.ort.types import NodeArg, is_known, tensor_type, word_of
from cenote.ort.values import OrtValue

_SCALARS = (bool, int, float, complex, np.generic)


class Feeds:
    """The inputs of a model, with their checks and conversions."""

    def __init__(self, inputs: Sequence[Declared], shown: Sequence[NodeArg]) -> None:
        """Prepare the checks. `shown`: the same inputs with the sizes that were fixed for the session."""
        self._inputs = tuple(zip(inputs, shown, strict=True))
        self._names = {declared.name for declared in inputs}
        self._required = [d.name for d in inputs if not d.form.startswith("optional")]
        # The dtype of each input that is a tensor of numbers (else None); then the sizes that are fixed.
        self._plain = [
            (d.name, d, node, None if d.form or word_of(d.dtype) == "string" else d.dtype)
            for d, node in self._inputs
        ]
        self._fixed = {
            node.name: [(axis, size) for axis, size in enumerate(node.shape) if isinstance(size, int)]
            for _, node in self._inputs
        }

    def arrays(self, given: Mapping[str, Any]) -> list[Any]:
        """Return the model's inputs, in order. Raises ValueError for a missing input, InvalidArgument for a wrong
        one."""
        self._check_names(given)
        arrays = []
        for name, declared, node, dtype in self._plain:
            value = given.get(name)
            if type(value) is not np.ndarray or value.dtype is not dtype:
                value = _converted(value, declared, node)
            if not declared.form:
                self._check_shape(value, declared, node)
            arrays.append(value)
        return arrays

    def _check_names(self, given: Mapping[str, Any]) -> None:
        """Raise unless every required input is there, and no unknown one."""
        names = given.keys()
        if names == self._names:
            return
        missing = [name for name in self._required if name not in names]
        if missing:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(names)}).")
        for name in names:
            if not isinstance(name, str):
                raise TypeError(f"run(): an input's name is a str, not {name!r}")
            if name not in self._names:
                raise InvalidArgument(f"Invalid input name: {name}")

    def _check_shape(self, array: Array, declared: Declared, node: NodeArg) -> None:
        """Raise InvalidArgument for another rank or other sizes than the model's."""
        if declared.shape is None:
            return
        if array.ndim != len(node.shape):
            raise InvalidArgument(
                f"Invalid rank for input: {node.name} Got: {array.ndim} Expected: {len(node.shape)} "
                "Please fix either the inputs/outputs or the model."
            )
        wrong = [(axis, size) for axis, size in self._fixed[node.name] if array.shape[axis] != size]
        if wrong:
            lines = "".join(
                f" index: {axis} Got: {array.shape[axis]} Expected: {size}\n" for axis, size in wrong
            )
            raise InvalidArgument(
                f"Got invalid dimensions for input: {node.name} for the following indices\n{lines}"
                " Please fix either the inputs/outputs or the model."
            )


def _converted(value: Any, declared: Declared, node: NodeArg) -> Any:
    """Return an input converted to the type that native code takes."""
    if isinstance(value, OrtValue):
        value = value.given
    if declared.form:
        return _container(value, declared, node)
    if isinstance(value, np.ndarray):
        return _tensor(value, declared, node)
    if isinstance(value, list):
        return _from_list(value, declared)
    if value is None:
        raise Fail(f"Missing Input: {node.name}")
    if isinstance(value, dict):
        raise InvalidArgument(
            f"Unexpected input data type. Actual: ((map(string,tensor(float)))) , expected: (({node.type}))"
        )
    if isinstance(value, _SCALARS):
        raise RuntimeError(f"Unable to handle object of type {type(value)}")
    raise RuntimeError(
        f"Input must be a list of dictionaries or a single numpy array for input '{node.name}'."
    )


def _word(declared: Declared) -> str:
    return word_of(np.dtype(declared.element))


def _tensor(array: Array, declared: Declared, node: NodeArg) -> Array:
    if word_of(declared.dtype) == "string" and word_of(array.dtype) == "string":
        return _strings(array)
    native = array.dtype.newbyteorder("=")
    if native != declared.dtype and (native.kind == "c" or not is_known(native)):
        raise RuntimeError(f"Numpy_type {array.dtype.num} can't be converted to MLDataType.")
    if native != declared.dtype:
        raise InvalidArgument(
            f"Unexpected input data type. Actual: ({tensor_type(native)}) , expected: ({node.type})"
        )
    return array


def _strings(array: Array) -> Array:
    """Return an array of strings in the model's form: objects of type str."""
    if array.dtype.kind == "V":
        array = array.view(f"S{array.dtype.itemsize}")
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    strings = np.empty(array.shape, object)
    strings.reshape(-1)[:] = [str(item) for item in array.reshape(-1).tolist()]
    return strings


def _from_list(values: list[Any], declared: Declared) -> Array:
    """Return nested lists as an array of the declared elements, as NumPy converts them."""
    try:
        if word_of(declared.dtype) == "string":
            return _strings(np.array(values, object))
        return np.array(values, declared.dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise RuntimeError("Could not create tensor from given input list") from error


def _container(value: Any, declared: Declared, node: NodeArg) -> Any:
    """Return a sequence or an optional: a list of arrays, an array, or None."""
    if isinstance(value, list) and "sequence" in declared.form:
        if not all(isinstance(item, np.ndarray) for item in value):
            raise RuntimeError("CreateSequenceOfTensors: Input is not a tensor")
        if declared.element and any(word_of(item.dtype) != _word(declared) for item in value):
            raise RuntimeError(
                f"a tensor in the sequence '{node.name}' has another data type than {node.type}"
            )
        return value
    if value is None and declared.form.startswith("optional"):
        return None
    if value is None:
        raise Fail(f"Missing Input: {node.name}")
    if isinstance(value, np.ndarray) and declared.form == "optional":
        return value
    if isinstance(value, np.ndarray):
        raise InvalidArgument(
            f"input with name: '{node.name}' expected to be of type: {node.type} but received a tensor"
        )
    raise RuntimeError(f"Iterable of {type(value)} should be given as array for input '{node.name}'.")
