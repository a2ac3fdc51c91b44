"""Kernels from outside the package: what tells them apart, and what is checked before they are called.

Cenote's own kernels are keyed by the names of their specs and the digest of all its files. The symbol of any other
holds digests of its spec's module and of its fields, so that equal names in two modules, and two versions of one, are
different kernels, in this process, in the cache and in plans.
"""

from __future__ import annotations

import enum
import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cenote.codegen.builder import Parameter
from cenote.codegen.emission import KernelOrigin
from cenote.codegen.values import I8, U8, Scalar
from cenote.core.errors import CodegenError, shown
from cenote.core.extensions.modules import source_digest
from cenote.core.sizes import Size, SymbolicReal

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

PACKAGE = __name__.partition(".")[0]
_serials = itertools.count(1)
_WHOLE = (int, np.integer, Size)
_REAL = (float, np.floating, SymbolicReal)
_LARGEST = 1 << 63


def origin_of_class(kind: type) -> KernelOrigin | None:
    """Return the origin of a class of specs, when it is made; None within the package. Where there is no source, each
    class has an origin of its own."""
    if kind.__module__.partition(".")[0] == PACKAGE:
        return None
    digest, untold = source_digest(kind.__module__)
    if untold:
        digest = f"{digest}-{next(_serials)}"
    return KernelOrigin(f"{kind.__module__}.{kind.__qualname__} {digest}", untold)


def joined_origin(kind: type) -> KernelOrigin | None:
    """Return the origin of a class of specs with those that it inherits from."""
    found = [origin for each in kind.__mro__ if (origin := vars(each).get("own_origin")) is not None]
    if not found:
        return None
    return KernelOrigin(
        "\n".join(each.digest for each in found), next((each.untold for each in found if each.untold), "")
    )


def digest_of_spec(spec: DataclassInstance, origin: KernelOrigin) -> str:
    """Return the digest that makes the symbol of a foreign spec unique. Raises CodegenError for a class that is no
    frozen dataclass, and for fields whose content cannot be told."""
    kind = type(spec)
    if kind.__module__.partition(".")[0] != PACKAGE and "__dataclass_fields__" not in vars(kind):
        raise CodegenError(
            f"{kind.__module__}.{kind.__qualname__}: a spec is a class under @dataclass(frozen=True); its fields say "
            "which kernel it is"
        )
    parts = [origin.digest]
    for field in fields(spec):
        text = _text(getattr(spec, field.name))
        if not text:
            raise CodegenError(
                f"{kind.__qualname__}: field '{field.name}' is {shown(getattr(spec, field.name))}; fields of a spec"
                " are numbers, strings, types, and tuples and frozen dataclasses of them"
            )
        parts.append(f"{field.name}={text}")
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _text(value: object) -> str:
    """Return a text that differs for values of which kernels may differ; "" where there is none."""
    if value is None or type(value) in (bool, int, float, complex, str, bytes):
        return repr(value)
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if isinstance(value, np.dtype | np.generic):
        return f"{type(value).__name__} {value!s} {value.tobytes().hex() if isinstance(value, np.generic) else ''}"
    if isinstance(value, tuple):
        inner = [_text(item) for item in value]
        return f"({','.join(inner)},)" if all(inner) else ""
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    digest = getattr(value, "kernel_digest", None)
    if isinstance(digest, str):
        return digest
    if is_dataclass(value):
        inner = [_text(getattr(value, field.name)) for field in fields(value)]
        return f"{type(value).__module__}.{type(value).__qualname__}({','.join(inner)})" if all(inner) else ""
    return ""


def checked_call(
    name: str, words: tuple[Parameter, ...], arguments: Sequence[object], counts: Mapping[str, object]
) -> tuple[Any, ...]:
    """Return the arguments of a call of a foreign kernel, in the types of its words. Raises CodegenError for those that
    do not fit, and for `counts` (items, grain, scratch by name) that are no whole numbers."""
    if len(arguments) != len(words):
        raise CodegenError(f"{name}: {len(arguments)} arguments for {len(words)} words")
    for what, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, _WHOLE):
            raise CodegenError(f"{name}: {what} is {shown(count)}, which is no whole number")
    return tuple(_checked(name, word, argument) for word, argument in zip(words, arguments, strict=True))


def _checked(name: str, word: Parameter, argument: object) -> object:
    what = f"{name}: word '{word.name}'"
    if word.pointer:
        dtype = getattr(getattr(argument, "type", argument), "dtype", None)
        if argument is not None and (dtype is None or isinstance(argument, np.generic)):
            raise CodegenError(f"{what} is a pointer, and got {shown(argument)}, not a view or an array")
        if dtype is not None and not _points_to(word.type, dtype):
            raise CodegenError(
                f"{what} is a pointer to {word.type.name}, and got memory of {dtype}; use pointers_to"
            )
        return argument
    if isinstance(argument, _WHOLE):
        if isinstance(argument, Size):
            return argument * 1.0 if word.type.is_float else argument
        if not -_LARGEST <= argument < _LARGEST:
            raise CodegenError(f"{what} is {shown(argument)}, which 64 bits do not hold")
        return float(argument) if word.type.is_float else int(argument)
    if isinstance(argument, _REAL) and word.type.is_float:
        return argument if isinstance(argument, SymbolicReal) else float(argument)
    kind = "a float" if word.type.is_float else "a whole number"
    raise CodegenError(f"{what} is {kind}, and got {shown(argument)}")


def _points_to(element: Scalar, dtype: np.dtype[Any]) -> bool:
    """Whether a pointer's elements are those of the dtype, or the bytes of it."""
    try:
        return element in (U8, I8) or Scalar.of(dtype) is element
    except KeyError:
        return False
