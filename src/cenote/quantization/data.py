"""Calibration data: whatever a caller has, as inputs of a model by name, a run each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from cenote.core.errors import InputError, shown
from cenote.core.types import Array, Declared, is_float
from cenote.runtime.inputs import fitting, foreign

Run = dict[str, Array]
# Numbers of an input in one run, roughly: every value inside of the network is in memory at a time.
_NUMBERS = 1 << 18
_LARGEST_RUN = 64


def runs_of(inputs: Sequence[Declared], data: object, what: str = "calibration") -> list[Run]:
    """Return the runs that data asks for.

    An array, for a model of one input, has all examples along its first axis; so have the arrays of a dict by name. An
    iterable yields an array, a tuple of arrays in the order of the inputs, or a dict by name, for one example (without
    its first axis) or for several. Examples of arrays are put together to as many as the model takes at a time.

    Raises InputError for data without an example, unknown and missing names, arrays that do not fit, and for NaN or
    infinities in floats; the message says in which item.
    """
    if not inputs:
        raise InputError("the model has no inputs: there is nothing to calibrate on")
    if isinstance(data, Mapping) or hasattr(data, "__array__") or hasattr(data, "__dlpack__"):
        runs = _split(inputs, _named(inputs, data, what), what)
    elif isinstance(data, Iterable) and not isinstance(data, str | bytes):
        runs = [
            run
            for place, item in enumerate(data)
            for run in _split(inputs, _named(inputs, item, f"{what}, item {place}"), f"{what}, item {place}")
        ]
    else:
        raise InputError(f"{what}: takes arrays, dicts of arrays, or an iterable of these, not {shown(data)}")
    if not runs:
        raise InputError(
            f"{what}: there is no example in the data; give some tens to hundreds of real inputs"
        )
    return runs


def _named(inputs: Sequence[Declared], item: object, what: str) -> Run:
    """Return an item's arrays by name, checked."""
    if isinstance(item, Mapping):
        given = dict(item)
    elif isinstance(item, tuple | list) and len(inputs) > 1:
        if len(item) != len(inputs):
            raise InputError(f"{what}: {len(item)} arrays for {len(inputs)} inputs")
        given = {each.name: array for each, array in zip(inputs, item, strict=True)}
    elif len(inputs) > 1:
        names = ", ".join(each.name for each in inputs)
        raise InputError(f"{what}: one array, but the model has the inputs {names}: give a dict by name")
    else:
        given = {inputs[0].name: item}
    known = [each.name for each in inputs]
    for name in given:
        if name not in known:
            raise InputError(f"{what}: '{name}' is no input of the model (its inputs: {', '.join(known)})")
    if missing := [name for name in known if name not in given]:
        raise InputError(f"{what}: has nothing for input '{missing[0]}'")
    try:
        return {each.name: _checked(given[each.name], each) for each in inputs}
    except InputError as error:
        raise error.located(what) from None


def _checked(given: object, declared: Declared) -> Array:
    array, _ = foreign(given, declared)
    array = fitting(array, declared)
    shape = declared.shape
    if shape is None:
        pass
    elif array.ndim == len(shape) - 1:
        array = array[None]
    elif array.ndim != len(shape):
        raise InputError(f"input {declared} is given with shape {array.shape}")
    if shape is not None:
        for axis, (have, want) in enumerate(zip(array.shape, shape, strict=True)):
            if axis and isinstance(want, int) and have != want:
                raise InputError(f"input {declared} is given with shape {array.shape}")
    if is_float(array.dtype) and (wrong := int(array.size - np.count_nonzero(np.isfinite(array)))):
        raise InputError(f"input '{declared.name}' has {wrong} numbers that are NaN or infinite")
    return array


def _split(inputs: Sequence[Declared], run: Run, what: str) -> list[Run]:
    """Return an item in parts of as many examples as the model takes."""
    if any(not declared.shape for declared in inputs):
        return [run]
    sizes = {run[declared.name].shape[0] for declared in inputs}
    fixed = [
        declared.shape[0] for declared in inputs if declared.shape and isinstance(declared.shape[0], int)
    ]
    if len(sizes) > 1 or (fixed and (len(fixed) < len(inputs) or len(set(fixed)) > 1)):
        for declared in inputs:
            first = declared.shape[0] if declared.shape else None
            if isinstance(first, int) and run[declared.name].shape[0] != first:
                raise InputError(f"{what}: input {declared} is given with shape {run[declared.name].shape}")
        return [run]  # a first axis that is no batch
    (count,) = sizes
    if fixed:
        most = int(fixed[0])
        if most == 0 or count % most:
            raise InputError(f"{what}: {count} examples, but the model takes {most} at a time")
    else:
        numbers = max(run[declared.name].size for declared in inputs) // max(count, 1)
        most = max(1, min(_LARGEST_RUN, _NUMBERS // max(numbers, 1)))
    return [
        {name: array[first : first + most] for name, array in run.items()} for first in range(0, count, most)
    ]
