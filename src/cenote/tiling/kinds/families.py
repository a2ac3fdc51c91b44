"""All kinds of layers, by name, and the layer of an operator in a model."""

from __future__ import annotations

from cenote.core.errors import ArgumentError, shown
from cenote.core.types import TensorType
from cenote.ops.base import Op
from cenote.tiling.kinds.arguments import LayerFamily
from cenote.tiling.kinds.convolutions import CONVOLUTIONS
from cenote.tiling.kinds.layer_norms import LAYER_NORMS
from cenote.tiling.kinds.pool_gradients import GRADIENTS
from cenote.tiling.kinds.pools import POOLS
from cenote.tiling.kinds.products import PRODUCTS
from cenote.tiling.layer import Layer

FAMILIES = (POOLS, GRADIENTS, CONVOLUTIONS, PRODUCTS, LAYER_NORMS)


def layer_kinds() -> list[str]:
    """Return the kinds of layers that `plan` takes, by name."""
    return [kind for family in FAMILIES for kind in family.names]


def family_of(kind: str) -> tuple[str, LayerFamily]:
    """Return a kind's plain name, and its family. ArgumentError for an unknown kind."""
    plain = str(kind).lower().replace("_", "").replace("-", "").replace("average", "avg")
    for family in FAMILIES:
        if plain in family.names:
            return plain, family
    raise ArgumentError(f"tiling.plan: {shown(kind)} is not known (known: {', '.join(layer_kinds())})")


def layer_of(
    op: Op, inputs: tuple[TensorType | None, ...], title: str = "", fused: tuple[Op, ...] = ()
) -> Layer | None:
    """Return the layer of an operator on inputs of these types; None for one that is not cut into tiles."""
    for family in FAMILIES:
        layer = family.match(op, inputs, title, fused)
        if layer is not None:
            return layer
    return None
