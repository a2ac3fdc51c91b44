"""Products of matrices by parts: to the convolution a row is a pixel, and a map one pixel wide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import cached_property, dataclass
from cenote.core.target import Target
from cenote.core.types import FLOAT32, Array, Layout, TensorType
from cenote.kernels.base import Call, View
from cenote.kernels.conv.direct_calls import DirectProblem
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.parts.calls import parts_calls
from cenote.kernels.parts.regions import Regions


@dataclass(frozen=True)
class PartsProduct:
    """Problem of y = activation(A B + bias + residual): A of `rows` by `terms`, B of `terms` by `columns`. Rows of A,
    of y and of the residual are so many elements apart."""

    rows: int
    terms: int
    columns: int
    activation: Activation
    a_row: int
    y_row: int

    @cached_property
    def regions(self) -> Regions:
        """The regions of A."""
        ones, size = (1, 1, 1), (1, self.rows, 1)
        pads = ((0, 0),) * 3
        return Regions(ConvShape(1, self.terms, self.columns, 1, size, size, ones, ones, pads, ones))

    def calls(
        self,
        weights: Array,
        bias: Array | None,
        way: str,
        a: View,
        y: View,
        residual: View | None,
        memory: Sequence[View],
        target: Target,
    ) -> Iterator[Call]:
        """Yield the calls: `weights` (columns, terms) the transpose of B, which is finite, `memory` that of the
        regions. `way`: that of `codegen.tiles`."""
        lanes = target.lanes()

        def as_map(view: View, columns: int, row: int) -> View:
            kind = TensorType(FLOAT32, (1, columns, self.rows, 1))
            return View(kind, Layout(lanes), (0, lanes, row, lanes), view.slot)

        problem = DirectProblem(
            self.regions.shape, weights.reshape(*weights.shape, 1, 1, 1), bias, self.activation
        )
        x, result = as_map(a, self.terms, self.a_row), as_map(y, self.columns, self.y_row)
        added = None if residual is None else as_map(residual, self.columns, self.y_row)
        yield from parts_calls(problem, self.regions, way, x, result, added, memory, columns=self.columns)
