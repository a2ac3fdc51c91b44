"""Arrays of other libraries as inputs and outputs, through DLPack, without copying."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from cenote.core import types
from cenote.core.errors import CapacityError, InputError
from cenote.core.types import Array

Restore = Callable[[Array], Any]


def as_numpy(x: Any) -> tuple[Array, Restore]:
    """Return the array as a NumPy array, without a copy, and the function that turns a result into the caller's kind
    of array.

    Takes NumPy arrays of any strides and byte order, PyTorch tensors on the CPU, JAX arrays and whatever offers
    DLPack on the CPU. Read-only memory stays read-only. Results for NumPy scalars and subclasses are plain arrays.

    Raises InputError for anything else, with a remedy: lists, masked arrays (their mask would be lost), tensors on
    another device, tensors that require a gradient (it would be lost: see cenote.torch).
    """
    if isinstance(x, np.ndarray | np.generic):
        if isinstance(x, np.ma.MaskedArray):
            raise InputError("is a masked array, whose mask would be lost; pass x.filled(value)")
        return np.asarray(x), same
    library = type(x).__module__.partition(".")[0]
    if library == "torch" and "torch" in sys.modules:
        return _from_torch(x, sys.modules["torch"])
    if library in ("jax", "jaxlib") and "jax" in sys.modules:
        return np.asarray(x), sys.modules["jax"].numpy.asarray
    if not hasattr(x, "__dlpack__"):
        raise InputError(
            f"is a {type(x).__name__}; pass a NumPy array or one that offers DLPack (np.asarray(x) may help)"
        )
    try:
        return np.from_dlpack(x), _restorer(x)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(f"cannot be read as a CPU array ({error}); move it to the CPU first") from error


def is_native(x: Array) -> bool:
    """Whether the bytes of the elements are in the machine's order."""
    return bool(x.dtype.isnative)


def dense(x: Array) -> Array:
    """Return the array in row-major order and native byte order: itself where it is so already, else a copy.

    Raises CapacityError when there is no memory for the copy (a broadcast view may have any number of elements).
    """
    try:
        return np.ascontiguousarray(x, x.dtype.newbyteorder("="))
    except MemoryError as error:
        raise CapacityError(
            f"an input of shape {list(x.shape)} needs {x.nbytes / 1e6:.0f} MB: {error}"
        ) from error


def same(array: Array) -> Array:
    return array


def _from_torch(x: Any, torch: Any) -> tuple[Array, Restore]:
    if not isinstance(x, torch.Tensor):
        raise InputError(f"is a {type(x).__name__}; pass a torch.Tensor or a NumPy array")
    if x.requires_grad and torch.is_grad_enabled():
        raise InputError(
            "asks for a gradient, which would be lost; call it under torch.no_grad(), pass x.detach(), or use the "
            "functions of cenote.torch"
        )
    x = x.detach()
    try:
        if x.dtype == torch.bfloat16:
            return x.view(torch.int16).numpy().view(types.BFLOAT16), _to_torch
        return x.numpy(), _to_torch
    except (RuntimeError, TypeError) as error:
        raise InputError(f"cannot be read as a CPU array ({error}); move it to the CPU first") from error


def _to_torch(array: Array) -> Any:
    torch = importlib.import_module("torch")
    if array.dtype == types.BFLOAT16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _restorer(x: Any) -> Restore:
    """Return the function from DLPack back to the library, by the array API's from_dlpack; NumPy arrays where it has
    none."""
    if hasattr(x, "__array_namespace__"):
        restore: Restore = x.__array_namespace__().from_dlpack
        return restore
    return same
