"""Conversion of callers' inputs: other libraries' arrays, numbers and lists become arrays for native code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cenote.core import types
from cenote.core.containers import taken
from cenote.core.errors import CapacityError, CenoteError, InputError, shown
from cenote.core.types import Array, Declared
from cenote.runtime.arrays import as_numpy, same

_VALUES = (list, tuple, bool, int, float, complex)
# The kinds of elements that a Python value may become: its kind is never changed without an error.
_KINDS: dict[type, str] = {bool: "b", int: "iufc", float: "fc", complex: "c", str: "OU"}
_DEEPEST = 32  # nested lists: a list that contains itself ends here


def foreign(array: Any, declared: Declared) -> tuple[Array, Callable[[Array], Any]]:
    """Return the NumPy array of an input, and the function that turns an output into the caller's kind of array."""
    try:
        if declared.form:
            return taken(array, declared.form, declared.element), same
        if isinstance(array, _VALUES) and not isinstance(array, np.generic):  # np.float64 is a float
            return from_values(array, declared.dtype), same
        made, back = as_numpy(array)
        if type(array).__module__.partition(".")[0] == "torch" and made.dtype != declared.dtype:
            name = declared.dtype.name
            raise InputError(
                f"is {made.dtype}, the model takes {declared}: convert it with x.to(torch.{name})"
            )
        return made, back
    except CenoteError as error:
        raise error.located(f"input '{declared.name}'") from None


def fitting(array: Array, declared: Declared) -> Array:
    """Return the array in native byte order and C-contiguous. The dtype must be the declared one."""
    if array.dtype is declared.dtype:  # NumPy's native dtypes are singletons
        pass
    elif declared.form:
        return foreign(array, declared)[0]
    elif array.dtype != declared.dtype:
        native = array.dtype.newbyteorder("=")
        if native != declared.dtype:
            hint = f"convert it with x.astype({declared.dtype.name!r})"
            raise InputError(f"input '{declared.name}' is {array.dtype}, the model takes {declared}: {hint}")
        array = array.astype(native)
    elif not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.flags.c_contiguous and array.flags.aligned:
        return array
    try:
        return np.array(array, order="C")
    except MemoryError as error:
        raise CapacityError(f"input '{declared.name}' needs {array.nbytes / 1e6:.0f} MB: {error}") from error


def from_values(values: Any, dtype: np.dtype[Any]) -> Array:
    """Return a number, or nested lists of numbers, as an array of a dtype; a number is a tensor without axes.

    Raises InputError for values that are not of the dtype's kind (a float where integers are expected), for numbers
    that do not fit it, for lists whose lengths differ.
    """
    kind = "f" if types.is_float(dtype) else dtype.kind
    for leaf in _leaves(values, 0):
        if isinstance(leaf, np.ndarray | np.generic):
            if leaf.dtype != dtype:
                raise InputError(
                    f"holds {leaf.dtype}, not {dtype}; convert it with np.asarray(x, {dtype.name!r})"
                )
        elif kind not in _KINDS.get(type(leaf), ""):
            raise InputError(f"holds {shown(leaf)} ({type(leaf).__name__}), which is no {dtype}")
        elif kind in "iu" and not np.iinfo(dtype).min <= leaf <= np.iinfo(dtype).max:
            raise InputError(f"holds {shown(leaf)}, which does not fit {dtype}")
    try:
        with np.errstate(over="ignore"):
            array = np.array(values, dtype)
        lost = np.isinf(array) & np.isfinite(np.array(values, np.float64)) if kind == "f" else None
    except (ValueError, OverflowError, TypeError) as error:
        raise InputError(f"cannot be made an array of {dtype} ({error})") from None
    if lost is not None and lost.any():
        raise InputError(f"holds numbers that do not fit {dtype}")
    return array


def _leaves(values: Any, depth: int) -> Iterator[Any]:
    if not isinstance(values, list | tuple):
        yield values
        return
    if depth == _DEEPEST:
        raise InputError(f"holds lists nested more than {_DEEPEST} deep")
    for item in values:
        yield from _leaves(item, depth + 1)
