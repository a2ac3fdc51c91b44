"""Arrays of other libraries in and out, through DLPack, without copying."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cenote.core.errors import InputError
from cenote.core.types import Array

Restore = Callable[[Array], Any]


def as_numpy(x: Any) -> tuple[Array, Restore]:
    """The array as NumPy sees it, and what turns a result into the caller's kind of array.

    Raises InputError for anything that is neither a NumPy array nor offers DLPack on the CPU.
    """
    if isinstance(x, np.ndarray | np.generic):
        return np.asarray(x), _same
    if not hasattr(x, "__dlpack__"):
        raise InputError(f"is a {type(x).__name__}; pass a NumPy array or one that offers DLPack (np.asarray(x) may help)")
    try:
        array = np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(f"cannot be read as a CPU array ({error}); detach it and move it to the CPU first") from error
    return array, _restorer(type(x))


def _same(array: Array) -> Array:
    return array


def _restorer(kind: type) -> Restore:
    library = kind.__module__.partition(".")[0]
    if library == "torch":
        import torch

        return torch.from_numpy
    return _same
