"""Values that are not tensors: sequences of tensors, and optionals.

Between operators every value is an array, these too: an array without axes whose one element, a `Held`, has the
content. No program touches it; the operators that do run on the host between the stages of a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import InputError, ModelError, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Held:
    """Content: a tuple of arrays (a sequence), None (an empty optional), or an array (an optional with a content)."""

    content: tuple[Array, ...] | Array | None


def packed(content: tuple[Array, ...] | Array | None) -> Array:
    """Return a sequence or an optional as an array without axes."""
    array: Array = np.empty((), object)
    array[()] = Held(content)
    return array


def content_of(value: Array) -> tuple[Array, ...] | Array | None:
    """Return the content of a value: a tensor is its own content."""
    if value.dtype == object and not value.shape:
        item = value.item()
        if isinstance(item, Held):
            return item.content
    return value


def items_of(value: Array, what: str) -> tuple[Array, ...]:
    """Return the tensors of a sequence. Raises ModelError for other values; `what` names the value."""
    content = content_of(value)
    if not isinstance(content, tuple):
        kind = "an optional that holds nothing" if content is None else "a tensor"
        raise ModelError(f"{what} must be a sequence, got {kind}")
    return content


def taken(given: Any, form: str, dtype: str) -> Array:
    """Return as an array what a caller passes for an input: a list of arrays for a "sequence", an array or None for
    an "optional", a list or None for an "optional sequence".

    `dtype` is that of the arrays ("object": strings). Raises InputError for anything else.
    """
    if isinstance(given, np.ndarray) and isinstance(content_of(given), tuple | None):
        return given  # packed already: a subgraph of the model runs on it
    if isinstance(given, list | tuple) and form != "optional":
        return packed(tuple(_element(item, dtype) for item in given))
    if form != "sequence" and given is None:
        return packed(None)
    if form == "optional":
        return packed(_element(given, dtype))
    raise InputError(f"is a {type(given).__name__}, but the model takes a list of arrays here")


def _element(item: Any, dtype: str) -> Array:
    array = np.asarray(item)
    if array.dtype.kind in "UST":
        array = array.astype(object)
    if dtype and array.dtype != np.dtype(dtype):
        raise InputError(f"holds {array.dtype} ({shown(array.shape)}), the model takes {dtype} there")
    return array


def all_tensors(values: Sequence[Array]) -> bool:
    """Whether no value is a sequence, an optional, or of strings."""
    return all(value.dtype != object for value in values)


def given_back(value: Array) -> Any:
    """Return what a caller gets: a list of arrays for a sequence, None for an empty optional, else the array."""
    content = content_of(value)
    if isinstance(content, tuple):
        return [np.array(item) for item in content]
    return content


def joined(items: Sequence[Array], what: str) -> Array:
    """Stack tensors of one shape along a new first axis. Raises ModelError where they differ."""
    if any(item.shape != items[0].shape or item.dtype != items[0].dtype for item in items):
        first = items[0]
        other = next(item for item in items if item.shape != first.shape or item.dtype != first.dtype)
        raise ModelError(
            f"{what} differ: {first.dtype}{list(first.shape)} and {other.dtype}{list(other.shape)} cannot be stacked"
        )
    return np.stack(items)
