"""Layer normalisation: tiles of rows, each of which is read whole for its statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError
from cenote.core.types import Array, TensorType
from cenote.ops.base import Op
from cenote.ops.normalization.layer_normalization import LayerNormalization
from cenote.tiling.axis import range_axis
from cenote.tiling.kinds.arguments import LayerArguments, LayerFamily
from cenote.tiling.kinds.computation import Computation, TileData
from cenote.tiling.layer import Layer, check_outputs, three_axes, work_of


@dataclass(frozen=True)
class RowTiles(Computation):
    """A layer normalisation of rows of `width` elements."""

    width: int

    def sources(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        return (arrays[0].reshape(1, -1, self.width),)

    def values(self, arrays: Sequence[Array], data: TileData) -> tuple[Array, ...]:
        x = data.read(0, (data.planes, (0, self.width)))
        (columns,) = data.spatial
        parameters = []
        for each in arrays[1:]:
            # Only the tile's part of a vector is loaded.
            part = np.zeros(self.width, each.dtype)
            part[slice(*columns)] = each.reshape(-1)[slice(*columns)]
            parameters.append(part)
        op = LayerNormalization(epsilon=self.op.epsilon)  # type: ignore[attr-defined]  # the only operator here
        return (op.reference(x, *parameters)[0][:, slice(*columns)],)


def norm_layer(
    op: LayerNormalization, inputs: Sequence[TensorType], title: str = "", fused: tuple[Op, ...] = ()
) -> Layer:
    """Return the layer of a layer normalisation: x, and perhaps a scale and a bias of the normalised axes."""
    x = inputs[0]
    (y,) = op.infer(*inputs)
    first = min(op.axes(x.rank))
    rows, width = math.prod(x.shape[:first]), math.prod(x.shape[first:])
    check_outputs(op, y, rows, fused)
    return Layer(
        title or op.name,
        RowTiles(op, tuple(inputs), width),
        tuple(inputs),
        (y,),
        1,
        rows,
        three_axes([range_axis(width, [(0, width)] * width)], op),
        work_of(op, inputs, y, fused),
        reads=(x.dtype,),
        writes=(y.dtype,),
        row_parameters=len(inputs) - 1,
        fused=fused,
    )


def _build(given: LayerArguments) -> Layer:
    axis = given.number("axis")
    if not -given.x.rank < axis < given.x.rank or not axis:
        raise ArgumentError(
            f"tiling.plan: axis must be from 1 to {given.x.rank - 1}, or from the end, got {axis}"
        )
    rest = given.x.shape[axis:]
    parameters = (TensorType(given.x.dtype, rest),) * (2 if given["affine"] else 0)
    return norm_layer(LayerNormalization(axis), (given.x, *parameters), given.kind, given.fused)


def _match(op: Op, inputs: tuple[TensorType | None, ...], title: str, fused: tuple[Op, ...]) -> Layer | None:
    """Normalisations without statistics as outputs, whose parameters have the normalised axes' shape and type."""
    if not isinstance(op, LayerNormalization) or op.outputs != 1 or op.accumulate is not None:
        return None
    x, *parameters = inputs
    assert x is not None
    first = min(op.axes(x.rank))
    given = [each for each in parameters if each is not None]
    fits = all(each.shape == x.shape[first:] and each.dtype == x.dtype for each in given)
    if not first or not fits or (parameters and parameters[0] is None):
        return None
    return norm_layer(op, (x, *given), title, fused)


LAYER_NORMS = LayerFamily(
    {"layernorm": ("axis", "affine")}, _build, _match, (2, 5, "of 2 to 5 axes, the last ones normalised")
)
