"""Axes of which places are taken by a rule: rolled, reversed, repeated. Functions on arrays have it; ONNX has Slice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cenote.core.computed import computed
from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.target import Target
from cenote.core.types import PLAIN, Array, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.layout.copy import can_copy
from cenote.kernels.layout.take import TakenAxis, TakenRow, take_call
from cenote.ops.base import Arrays, Lowering, Op, Sample, Types
from cenote.ops.values import seeded

KEPT = ("keep", 0)


@dataclass(frozen=True)
class Take(Op):
    """Per axis a rule and a number: ("keep", 0), ("roll", shift), ("flip", 0), ("repeat", times each)."""

    rules: tuple[tuple[str, int], ...]

    name = "take"
    operands = ("data",)

    def types(self, data: TensorType) -> Types:
        if len(self.rules) != data.rank:
            raise ShapeError(f"{self.name}: {len(self.rules)} rules for {data}; one per axis is needed")
        for rule, number in self.rules:
            if rule not in ("keep", "roll", "flip", "repeat") or (rule == "repeat" and number < 0):
                raise ArgumentError(f"{self.name}: rule {rule} {number} is not known")
        pairs = zip(data.shape, self.rules, strict=True)
        return (TensorType(data.dtype, tuple(n * k if rule == "repeat" else n for n, (rule, k) in pairs)),)

    def compute(self, data: Array) -> Arrays:
        self.declared(data)
        for axis, (rule, number) in enumerate(self.rules):
            data = np.take(data, places(rule, number, data.shape[axis], 1), axis=axis)
        return (data,)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        data, (output,) = present(inputs[0]), self.infer(*inputs)
        if not can_copy(data.dtype) or not output.rank or not output.size:
            return
        changed = [axis for axis, rule in enumerate(self.rules) if rule != KEPT]
        first = min([*changed, output.rank - 1])

        def bind(views: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
            x, axes = present(views[0]), []
            for axis, (rule, number) in enumerate(self.rules):
                step = x.strides[axis]
                table = computed(places, rule, number, x.shape[axis], step) if axis >= first else None
                axes.append(TakenAxis(output.shape[axis], step, table))
            return [take_call(x, outputs[0], axes, self._row(x.shape[-1]), target)]

        yield Lowering("tables", (PLAIN,), (PLAIN,), bind, pass_seconds(2 * output.nbytes))

    def _row(self, extent: int) -> TakenRow:
        """What lies side by side along the last axis."""
        rule, number = self.rules[-1]
        if rule == "keep":
            return TakenRow(0, extent, 0)
        if rule == "roll":
            before = number % extent
            return TakenRow(before, extent - before, 0)
        return TakenRow(0, 0, 0)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for shape in ((3, 5, 70), (2, 3, 1)):
            for rules in (
                (KEPT, KEPT, ("roll", 3)), (("roll", -1), KEPT, KEPT), (("roll", 4), ("flip", 0), ("roll", -70)),
                (KEPT, ("flip", 0), ("flip", 0)), (KEPT, ("repeat", 3), ("repeat", 2)), (KEPT, ("repeat", 0), KEPT),
            ):  # fmt: skip
                yield Sample(cls(rules), (seeded(shape),))
        yield Sample(cls((KEPT, ("roll", 1))), (seeded((4, 33), 1, np.uint8),))
        yield Sample(cls((("flip", 0),)), (seeded((9,), 1, np.int64),))


def places(rule: str, number: int, extent: int, step: int) -> Array:
    """Where the places of an axis lie, elements `step` apart."""
    indices = np.arange(extent, dtype=np.int64)
    if rule == "roll":
        indices = np.roll(indices, number)
    elif rule == "flip":
        indices = indices[::-1]
    elif rule == "repeat":
        indices = np.repeat(indices, number)
    return np.ascontiguousarray(indices * step)
