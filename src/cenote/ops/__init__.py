"""Operators: their contract, for operators of your own (docs/extending.md), and a file for each family of Cenote's.

    from cenote.ops import Op, Sample, TensorType, read

The names below are public; modules of this package are not. Each is imported when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cenote.core.locks import importing
from cenote.core.options.deprecated import deprecated_name

if TYPE_CHECKING:
    from cenote.core.target import Target
    from cenote.core.types import PLAIN, Layout, TensorType
    from cenote.ops.base import Check, Imported, Lowering, Op, Rewired, Sample
    from cenote.ops.checks import (
        broadcast_shapes,
        known_ints,
        normalize_axis,
        read,
        require_float,
        require_same_dtype,
    )
    from cenote.ops.values import hostile, narrow, seeded, wide

__all__ = [
    "PLAIN",
    "Check",
    "Imported",
    "Layout",
    "Lowering",
    "Op",
    "Rewired",
    "Sample",
    "Target",
    "TensorType",
    "broadcast_shapes",
    "hostile",
    "known_ints",
    "narrow",
    "normalize_axis",
    "read",
    "require_float",
    "require_same_dtype",
    "seeded",
    "wide",
]

_PLACES = {
    "core.types": ("PLAIN", "Layout", "TensorType"),
    "core.target": ("Target",),
    "ops.base": ("Check", "Imported", "Lowering", "Op", "Rewired", "Sample"),
    "ops.values": ("hostile", "narrow", "seeded", "wide"),
}
_PLACE_OF = {name: place for place, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        return deprecated_name(__name__, name)
    with importing():
        place = import_module(f"cenote.{_PLACE_OF.get(name, 'ops.checks')}")
    globals()[name] = found = getattr(place, name)
    return found


def __dir__() -> list[str]:
    return __all__
