"""Places of fields in Python's objects and NumPy's arrays, for native code that is handed objects; each is tested by
examples before it is used."""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from functools import cache
from typing import NamedTuple

import numpy as np

from cenote.core.types import Array


class ArrayFields(NamedTuple):
    """Bytes from an array to each field (PyArrayObject_fields of NumPy's C interface). `axes` and `flags` are int32."""

    data: int = 16
    axes: int = 24
    extents: int = 32
    strides: int = 40
    dtype: int = 56
    flags: int = 64


TYPE_FIELD = 8
ARRAY_FIELDS = ArrayFields()
ALIGNED_AND_WRITEABLE = 0x100 | 0x400
# Functions of CPython that native code calls (`kernels.driver.known`), and that which makes it a function of CPython.
NEEDED = (
    "PyCFunction_NewEx",
    "PyErr_CheckSignals",
    "PyErr_Clear",
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyMarshal_WriteObjectToString",
    "PyObject_RichCompareBool",
    "PyObject_Vectorcall",
    "PyTuple_GetItem",
    "PyTuple_New",
    "PyTuple_Pack",
    "PyTuple_SetItem",
    "PyTuple_Size",
    "Py_DecRef",
    "Py_IncRef",
)


def _word(address: int, offset: int) -> int:
    return ctypes.c_int64.from_address(address + offset).value


def _is_as_told(array: Array) -> bool:
    """Whether the fields of an array hold what NumPy says of it. Its numbers are read where all else is right: extents
    and strides lie in one block."""
    start, fields = id(array), ARRAY_FIELDS
    numbers = _word(start, fields.extents)
    return (
        _word(start, TYPE_FIELD) == id(type(array))
        and ctypes.c_int32.from_address(start + fields.axes).value == array.ndim
        and _word(start, fields.data) == array.__array_interface__["data"][0]
        and _word(start, fields.dtype) == id(array.dtype)
        and ctypes.c_int32.from_address(start + fields.flags).value == array.flags.num
        and _word(start, fields.strides) == numbers + 8 * array.ndim
        and [_word(numbers, 8 * place) for place in range(2 * array.ndim)] == [*array.shape, *array.strides]
    )


@cache
def natives_take_objects() -> bool:
    """Whether native code may be a function of this interpreter: CPython with a GIL, whose functions the process
    exports, and arrays of the known form."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8 or sys.platform == "win32":
        return False
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    process = ctypes.CDLL(None)
    if not all(hasattr(process, name) for name in NEEDED):
        return False
    examples = (
        np.zeros((2, 3, 5), np.float32),
        np.zeros(7, np.int64)[::-2],
        np.broadcast_to(np.uint8(1), (4,)),
    )
    return all(_is_as_told(each) for each in examples)
