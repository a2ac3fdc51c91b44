"""Operators: their contract, for operators of your own (docs/extending.md), and a file for each family of Cenote's.

    from cenote.ops import Op, Sample, TensorType, read

The names below are public; modules of this package are not. Each is imported when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cenote.core.locks import on_demand

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

__getattr__ = on_demand(
    __name__,
    {
        "cenote.core.target": "Target",
        "cenote.core.types": "PLAIN Layout TensorType",
        "cenote.ops.base": "Check Imported Lowering Op Rewired Sample",
        "cenote.ops.checks": "broadcast_shapes known_ints normalize_axis read require_float require_same_dtype",
        "cenote.ops.values": "hostile narrow seeded wide",
    },
)


def __dir__() -> list[str]:
    return __all__
